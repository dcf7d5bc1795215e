//! Aliases that lead to names that the server answers by itself.

use avocet_resolver::{Data, Own, OwnNames, OwnSet, Recursion, Sought};
use avocet_testkit::name;
use avocet_wire::{FoldedName, Rcode, Rtype};

use crate::secure::{NOW_SECS, Setup, Zone, lines, served, validation};
use crate::world::{World, authority, recursion};

/// The zone lan., with an address at nas.lan., and with out.lan. as an alias of www.example.
#[derive(Debug)]
struct Lan;

const ZONE: &[u8] = b"\x03lan\x00";

impl OwnNames for Lan {
    fn find<'a>(&'a self, sought: &Sought<'a>) -> Option<Own<'a>> {
        let set = |rtype, data| {
            Some(Own::Set(OwnSet {
                owner: sought.qname,
                rtype,
                ttl_secs: 30,
                data: Data::One(data),
            }))
        };
        if *sought.qname == name("nas.lan.") && sought.qtype == Rtype::A {
            return set(Rtype::A, &[192, 168, 1, 5]);
        }
        if *sought.qname == name("out.lan.") {
            return set(Rtype::CNAME, b"\x03www\x07example\x00");
        }
        self.has_zone_of(sought).then_some(Own::Denied(
            Rcode::NXDOMAIN,
            OwnSet::soa(FoldedName::new(ZONE).unwrap(), 60),
        ))
    }

    fn has_zone_of(&self, sought: &Sought<'_>) -> bool {
        sought.qname.ends_with(ZONE)
    }
}

/// Returns a world with the servers of example. at 192.0.2.2.
fn world(recursion: Recursion, answers: &[(&str, &[&str])]) -> World {
    let mut world = World::with_own_names(recursion, Lan);
    let to_example = &["au example. 3600 NS ns.example.", "ad ns.example. 3600 A 192.0.2.2"][..];
    world.serve(1, authority(".", &[("*example. A", to_example)]));
    world.serve(2, authority("example.", answers));
    world
}

#[track_caller]
fn check(world: &mut World, what: &str, rcode: Rcode, records: &[&str]) {
    for dnssec_ok in [false, true] {
        world.dnssec_ok = dnssec_ok;
        let answer = world.resolve(what);
        answer.check(rcode, records);
        assert!(!answer.authentic, "nobody signed it");
    }
    let leaks =
        world.take_sent().into_iter().filter(|sent| sent.contains("lan.")).collect::<Vec<_>>();
    assert!(leaks.is_empty(), "{leaks:?}");
}

#[test]
fn own_names_behind_aliases_of_others_are_answered_here() {
    let answers: &[(&str, &[&str])] = &[
        ("nas.example. A", &["an nas.example. 60 CNAME nas.lan.", "an nas.lan. 60 A 203.0.113.66"]),
        ("gone.example. A", &["an gone.example. 60 CNAME gone.lan."]),
        (
            "a.branch.example. A",
            &["an branch.example. 60 DNAME lan.", "an a.branch.example. 60 CNAME a.lan."],
        ),
        ("round.example. A", &["an round.example. 60 CNAME out.lan."]),
        ("www.example. A", &["an www.example. 60 A 192.0.2.80"]),
        ("loop.example. A", &["an loop.example. 60 CNAME out.lan."]),
    ];
    let mut world = world(recursion(), answers);
    let soa = "authority lan. 60 SOA lan. nobody.invalid. 1 3600 1200 604800 60";
    let alias = "answer nas.example. 60 CNAME nas.lan.";
    check(
        &mut world,
        "nas.example. A",
        Rcode::NOERROR,
        &[alias, "answer nas.lan. 30 A 192.168.1.5"],
    );
    check(
        &mut world,
        "gone.example. A",
        Rcode::NXDOMAIN,
        &["answer gone.example. 60 CNAME gone.lan.", soa],
    );
    let by_dname =
        ["answer branch.example. 60 DNAME lan.", "answer a.branch.example. 60 CNAME a.lan.", soa];
    check(&mut world, "a.branch.example. A", Rcode::NXDOMAIN, &by_dname);
    let round = [
        "answer round.example. 60 CNAME out.lan.",
        "answer out.lan. 30 CNAME www.example.",
        "answer www.example. 60 A 192.0.2.80",
    ];
    check(&mut world, "round.example. A", Rcode::NOERROR, &round);
}

#[test]
fn an_own_alias_that_leads_back_is_a_loop() {
    let mut world =
        world(recursion(), &[("www.example. A", &["an www.example. 60 CNAME out.lan."])]);
    let answer = world.resolve("www.example. A");
    assert_eq!(answer.rcode, Rcode::SERVFAIL);
    assert!(world.take_sent().iter().all(|sent| !sent.contains("lan.")));
}

#[test]
fn servers_in_an_own_zone_are_not_looked_for() {
    let mut world = World::with_own_names(recursion(), Lan);
    world.serve(
        1,
        authority(
            ".",
            &[("*example. A", &["au example. 3600 NS nas.lan.", "au example. 3600 NS ns.lan."])],
        ),
    );
    assert_eq!(world.resolve("www.example. A").rcode, Rcode::SERVFAIL);
    assert_eq!(world.take_sent(), ["1: www.example. A"]);
}

#[test]
fn a_signed_alias_to_an_own_name_makes_nothing_authentic() {
    let setup = Setup::new();
    let zone: &Zone = &setup.example;
    let alias = lines(&[zone.sign("an", "nas.example. 300 CNAME nas.lan.")]);
    let keys = lines(&[zone.sign("an", &zone.dnskey())]);
    let mut world = World::with_own_names(
        Recursion { validation: Some(validation(&setup.root)), ..recursion() },
        Lan,
    );
    world.wall_secs = NOW_SECS;
    world.serve(1, setup.root_script());
    world.serve(2, served("example.", &[("example. DNSKEY", &keys), ("nas.example. A", &alias)]));
    for turn in ["miss", "hit"] {
        let answer = world.resolve("nas.example. A");
        let records =
            ["answer nas.example. 300 CNAME nas.lan.", "answer nas.lan. 30 A 192.168.1.5"];
        answer.check(Rcode::NOERROR, &records);
        assert!(!answer.authentic, "{turn}");
    }
    world.dnssec_ok = true;
    let answer = world.resolve("nas.example. A");
    assert_eq!(
        (answer.records.len(), answer.authentic),
        (3, false),
        "with the signature of the alias"
    );
}
