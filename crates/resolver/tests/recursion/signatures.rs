//! Servers that omit the signatures of a signed zone, and the number of queries needed to find the
//! end of a chain of trust.

use std::cell::RefCell;
use std::rc::Rc;

use avocet_resolver::{Plan, Recursion, RootServer};
use avocet_testkit::{Query, Response, name};
use avocet_wire::header::{AA, RA, RD};
use avocet_wire::{Rcode, Rtype};

use crate::attacks::rule;
use crate::secure::{NOW_SECS, Setup, Zone, lines, served, validation};
use crate::synthesis::hashed;
use crate::world::{Answer, Script, World, authority, recursion, settings};

const SOA: &str = "example. 300 SOA ns.example. host.example. 1 2 3 4 300";

/// Returns a reply with its signatures, or without any DNSSEC records.
fn reply(query: &Query, (rcode, records): (Rcode, Vec<String>), is_signed: bool) -> Response {
    let response = Response::to(query).without_flags(RA | RD).flags(AA).rcode(rcode);
    let is_wanted =
        |record: &&String| is_signed || !record.contains(" RRSIG ") && !record.contains(" NSEC ");
    records.iter().filter(is_wanted).fold(response, |response, record| {
        let (section, record) = record.split_once(' ').unwrap();
        if section == "an" { response.answer(record) } else { response.authority(record) }
    })
}

/// Returns a world with two servers of example., one of which sends signatures. Each name below
/// www. has an address, and no other name exists.
fn world_with_two_servers() -> World {
    let Setup { root, example, .. } = Setup::new();
    let mut world = World::new(Recursion { validation: Some(validation(&root)), ..recursion() });
    world.wall_secs = NOW_SECS;
    let mut down: Vec<String> =
        [2, 3].map(|last| format!("au example. 3600 NS ns{last}.example.")).to_vec();
    down.extend(lines(&[root.sign("au", &example.ds())]));
    down.extend([2, 3].map(|last| format!("ad ns{last}.example. 3600 A 192.0.2.{last}")));
    let root_keys = lines(&[root.sign("an", &root.dnskey())]);
    world.serve(1, served(".", &[("*example. A", &down), (". DNSKEY", &root_keys)]));
    let example = Rc::new(example);
    for (last, is_signed) in [(2, false), (3, true)] {
        let example = Rc::clone(&example);
        world.serve(
            last,
            Box::new(move |query| Some(reply(query, said(&example, query), is_signed))),
        );
    }
    world
}

fn said(example: &Zone, query: &Query) -> (Rcode, Vec<String>) {
    let Query { qname, qtype, .. } = query;
    if qname == "example." && *qtype == Rtype::DNSKEY {
        return (Rcode::NOERROR, lines(&[example.sign("an", &example.dnskey())]));
    }
    if qname.ends_with("www.example.") {
        return (
            Rcode::NOERROR,
            lines(&[example.sign("an", &format!("{qname} 300 A 198.51.100.1"))]),
        );
    }
    let gap = example.sign("au", "example. 300 NSEC www.example. NS SOA RRSIG NSEC DNSKEY");
    (Rcode::NXDOMAIN, lines(&[example.sign("au", SOA), gap]))
}

#[test]
fn a_server_that_leaves_signatures_out_is_asked_last() {
    for below in ["www.example.", "example."] {
        let mut world = world_with_two_servers();
        let mut answers = Vec::new();
        for number in 0..80 {
            answers.push(world.resolve(&format!("a{number}.{below} A")));
        }
        assert!(answers.iter().all(|answer| answer.authentic), "{answers:?}");
        let unsigned = world.take_sent().iter().filter(|sent| sent.starts_with("2:")).count();
        assert!(unsigned <= 5, "{unsigned} queries below {below} to a server without signatures");
    }
}

/// Returns a forwarder that sends no signature for a name, and answers queries for DS records with
/// `denial`.
fn forwarder(root: Zone, denial: impl Fn(&Zone, &str) -> Vec<[String; 2]> + 'static) -> World {
    let plan = Plan::new(vec![rule(".", 8)], settings()).unwrap();
    let mut world = World::with_plan(
        7,
        plan.with_recursion(Recursion { validation: Some(validation(&root)), ..recursion() }),
    );
    world.wall_secs = NOW_SECS;
    let soa = root.sign("au", ". 300 SOA ns.test. host.test. 1 2 3 4 300");
    let script: Script = Box::new(move |query| {
        let records = match query.qtype {
            Rtype::DNSKEY => lines(&[root.sign("an", &root.dnskey())]),
            Rtype::DS => lines(&[&[soa.clone()][..], &denial(&root, &query.qname)].concat()),
            _ => vec![format!("an {} 300 A 198.51.100.1", query.qname)],
        };
        Some(reply(query, (Rcode::NOERROR, records), true))
    });
    world.serve(8, script);
    world
}

fn is_unsigned(answer: &Answer) -> bool {
    answer.rcode == Rcode::NOERROR && !answer.authentic
}

#[test]
fn a_proof_about_one_name_is_used_for_those_below_it() {
    let gap = |root: &Zone, _: &str| vec![root.sign("au", "wild. 300 NSEC z. A RRSIG NSEC")];
    let mut world = forwarder(Zone::new("."), gap);
    let answer = world.resolve("d.c.b.a.wild. A");
    assert_eq!((answer.rcode, answer.ede), (Rcode::SERVFAIL, Some(10)), "{answer:?}");
    let of_ds: Vec<String> =
        world.take_sent().into_iter().filter(|sent| sent.ends_with(" DS")).collect();
    assert_eq!(of_ds, ["8: wild. DS"]);
}

#[test]
fn no_name_is_hashed_twice_for_a_question() {
    const LABELS: usize = 24;
    // Each name above has an address and there is no name in between; the last but one is an
    // unsigned delegation.
    let denial = |root: &Zone, qname: &str| {
        let hash = hashed(qname);
        let kept = hash.trim_end_matches('v').len() - 1;
        let next = format!("{}v{}", &hash[..kept], "v".repeat(31 - kept));
        let types = if qname.matches('.').count() == LABELS - 1 { "NS" } else { "A RRSIG" };
        vec![root.sign("au", &format!("{hash}. 300 NSEC3 1 0 0 - {next} {types}"))]
    };
    let mut world = forwarder(Zone::new("."), denial);
    let answer = world.resolve(&format!("{} A", "a.".repeat(LABELS)));
    assert!(is_unsigned(&answer), "{answer:?}");
}

/// Returns a world with test. at .2, which is slow, and at .3.
fn world_with_slow_servers(seed: u8) -> World {
    let mut world = World::with_plan(
        seed,
        Plan::new(Vec::new(), settings()).unwrap().with_recursion(recursion()),
    );
    let mut down: Vec<String> =
        [2, 3].map(|last| format!("au test. 3600 NS ns{last}.test.")).to_vec();
    down.extend([2, 3].map(|last| format!("ad ns{last}.test. 3600 A 192.0.2.{last}")));
    let down: Vec<&str> = down.iter().map(String::as_str).collect();
    world.serve(1, authority(".", &[("*test. A", &down)]));
    for last in [2, 3] {
        world.serve(last, authority("test.", &[("*test. A", &["an www.test. 0 A 198.51.100.1"])]));
    }
    // The second server is queried after 400 ms, and its reply comes too late to be measured.
    world.slow.extend([([192, 0, 2, 2].into(), 467), ([192, 0, 2, 3].into(), 90)]);
    world
}

#[test]
fn a_server_that_nothing_is_known_of_is_asked_before_one_that_is_slow() {
    for seed in 0..20 {
        let mut world = world_with_slow_servers(seed);
        let slow = (0..12).filter(|_| world.resolve("www.test. A").took_ms > 400).count();
        assert!(slow <= 4, "{slow} of 12 questions waited for the slow server, seed {seed}");
    }
}

/// For www.test., a server is queried that does not answer for a while, and a server that must be
/// looked up first and never answers.
#[test]
fn a_server_that_did_not_answer_once_is_asked_again_beside_one_that_is_looked_up() {
    let mut world = World::new(Recursion { qname_minimisation: true, ..recursion() });
    let down =
        ["au test. 3600 NS ns.test.", "au test. 3600 NS ns.other.", "ad ns.test. 3600 A 192.0.2.2"];
    let other = ["au other. 3600 NS ns.other.", "ad ns.other. 3600 A 192.0.2.3"];
    world.serve(1, authority(".", &[("*test. A", &down), ("*other. A", &other)]));
    world.serve(3, authority("other.", &[("ns.other. A", &["an ns.other. 3600 A 192.0.2.4"])]));
    let lost = Rc::new(RefCell::new(1));
    let mut zone = authority("test.", &[("www.a.test. A", &["an www.a.test. 300 A 198.51.100.1"])]);
    let script: Script = Box::new(move |query| {
        if query.qname == "www.a.test." && *lost.borrow() > 0 {
            *lost.borrow_mut() -= 1;
            return None;
        }
        zone(query)
    });
    world.serve(2, script);
    let answer = world.resolve("www.a.test. A");
    answer.check(Rcode::NOERROR, &["answer www.a.test. 300 A 198.51.100.1"]);
    assert!(answer.took_ms <= 1_500, "{} ms", answer.took_ms);
}

/// If all servers of a zone omit the signatures, only a few of them are queried for this reason.
#[test]
fn a_zone_without_signatures_costs_few_queries_whatever_the_number_of_its_servers() {
    let Setup { root, example, .. } = Setup::new();
    let mut world = World::new(Recursion { validation: Some(validation(&root)), ..recursion() });
    world.wall_secs = NOW_SECS;
    let mut down: Vec<String> =
        (2..15).map(|last| format!("au example. 3600 NS ns{last}.example.")).collect();
    down.extend(lines(&[root.sign("au", &example.ds())]));
    down.extend((2..15).map(|last| format!("ad ns{last}.example. 3600 A 192.0.2.{last}")));
    let root_keys = lines(&[root.sign("an", &root.dnskey())]);
    world.serve(1, served(".", &[("*example. A", &down), (". DNSKEY", &root_keys)]));
    let example = Rc::new(example);
    for last in 2..15 {
        let example = Rc::clone(&example);
        world.serve(last, Box::new(move |query| Some(reply(query, said(&example, query), false))));
    }
    assert_eq!(world.resolve("a.example. A").rcode, Rcode::SERVFAIL);
    let sent = world.take_sent();
    assert!(sent.len() <= 18, "{} queries: {sent:?}", sent.len());
}

/// Returns a world with the root at .1 and at .2, where no server answers. The server at .1 also
/// serves example., which has no DS records, and inner.example. It answers queries for DS records
/// there with `inner_ds`.
fn world_of_zones_at_the_root(inner_ds: &str) -> World {
    let root = Zone::new(".");
    let hint = |last| RootServer {
        name: name("a.root.").into(),
        addresses: vec![[192, 0, 2, last].into()],
    };
    let validation = Some(validation(&root));
    let mut world =
        World::new(Recursion { hints: vec![hint(1), hint(2)], validation, ..recursion() });
    world.wall_secs = NOW_SECS;
    let keys = lines(&[root.sign("an", &root.dnskey())]);
    let no_ds = lines(&[root.sign("au", "example. 300 NSEC z. NS RRSIG NSEC")]);
    let down =
        ["au inner.example. 300 NS ns.inner.example.", "ad ns.inner.example. 300 A 192.0.2.3"]
            .map(str::to_owned);
    let answers: &[(&str, &[String])] = &[
        (". DNSKEY", &keys),
        ("example. DS", &no_ds),
        ("inner.example. DS", &[inner_ds.to_owned()]),
        ("*inner.example. A", &down),
    ];
    world.serve(1, served(".", answers));
    let www: &[&str] = &["an www.inner.example. 60 A 198.51.100.1"];
    world.serve(3, authority("inner.example.", &[("www.inner.example. A", www)]));
    world
}

#[test]
fn an_unsigned_referral_by_a_zone_between_is_no_lack_of_signatures() {
    let mut world =
        world_of_zones_at_the_root("au example. 300 SOA ns.example. host.example. 1 2 3 4 300");
    let answer = world.resolve("www.inner.example. A");
    assert!(is_unsigned(&answer), "{answer:?}");
    let sent = world.take_sent();
    assert!(
        sent.iter().filter(|sent| sent.ends_with(" www.inner.example. A")).count() <= 3,
        "{sent:?}"
    );
}

#[test]
fn a_silent_server_is_not_waited_for_where_another_one_gave_what_does_not_verify() {
    let mut world = world_of_zones_at_the_root(&format!("an {}", Zone::new("inner.example.").ds()));
    let answer = world.resolve("www.inner.example. A");
    assert!(is_unsigned(&answer) && answer.took_ms <= 2_500, "{answer:?}");
}

/// If the zone uses Opt-Out, no wildcard applies to an unsigned delegation (RFC 5155 §8.6).
#[test]
fn the_record_of_a_wildcard_with_an_alias_may_cover_an_unsigned_delegation() {
    let (apex, star) = (hashed("."), hashed("*."));
    let is_covered = |hash: &str| {
        if star < apex { *star < *hash && *hash < *apex } else { *hash > *star || *hash < *apex }
    };
    let zone = (0..100)
        .map(|number| format!("n{number}."))
        .find(|zone| is_covered(&hashed(zone)))
        .unwrap();
    let records = [
        format!("{apex}. 300 NSEC3 1 1 0 - {star} NS SOA RRSIG DNSKEY NSEC3PARAM"),
        format!("{star}. 300 NSEC3 1 1 0 - {apex} CNAME RRSIG"),
    ];
    let mut world = forwarder(Zone::new("."), move |root, _| {
        records.each_ref().map(|record| root.sign("au", record)).to_vec()
    });
    let answer = world.resolve(&format!("{zone} DS"));
    assert!(is_unsigned(&answer), "{answer:?}");
}
