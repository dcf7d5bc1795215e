//! Minimised names, and servers that deny them or do not answer (RFC 9156 §2.3, §3).

use avocet_resolver::Recursion;
use avocet_wire::{Rcode, Rtype};

use crate::secure::{Setup, lines, served, validation};
use crate::world::{World, authority, recursion};

const TO_EXAMPLE: &[&str] = &["au example. 3600 NS ns.example.", "ad ns.example. 3600 A 192.0.2.2"];

fn world() -> World {
    let mut world = World::new(Recursion { qname_minimisation: true, ..recursion() });
    world.serve(1, authority(".", &[("*example. A", TO_EXAMPLE)]));
    world
}

#[test]
fn names_below_one_that_does_not_exist_cost_a_query_each() {
    let mut world = world();
    world.serve(2, authority("example.", &[]));
    for number in 0..20 {
        assert_eq!(world.resolve(&format!("n{number}.gone.example. A")).rcode, Rcode::NXDOMAIN);
    }
    let sent = world.take_sent();
    assert!(sent.len() <= 23, "{} queries: {sent:?}", sent.len());
    world.pass(301);
    world.resolve("later.gone.example. A");
    // The denial has its TTL. The next one is verified in lower case.
    let whole = "2: later.gone.example. A";
    assert_eq!(world.take_sent(), ["2: gone.example. A", whole, whole]);
}

#[test]
fn a_server_that_denies_what_only_leads_to_others_is_shown_the_whole_name() {
    let mut world = world();
    let mut zone = authority("example.", &[]);
    let www: &[&str] = &["an www.a.example. 60 A 198.51.100.1"];
    let mut known = authority("example.", &[("www.a.example. A", www)]);
    world.serve(
        2,
        Box::new(move |query| if query.qname == "a.example." { zone(query) } else { known(query) }),
    );
    for _ in 0..2 {
        world
            .resolve("www.a.example. A")
            .check(Rcode::NOERROR, &["answer www.a.example. 60 A 198.51.100.1"]);
        world.pass(61);
    }
    assert_eq!(world.take_sent().last().unwrap(), "2: www.a.example. A");
}

#[test]
fn the_name_of_a_server_is_shown_whole_where_nothing_else_helps() {
    let mut world = World::new(Recursion { qname_minimisation: true, ..recursion() });
    let to_test: &[&str] = &["au test. 60 NS ns.a.example."];
    world.serve(1, authority(".", &[("*example. A", TO_EXAMPLE), ("*test. A", to_test)]));
    let mut zone = authority("example.", &[]);
    let mut known =
        authority("example.", &[("ns.a.example. A", &["an ns.a.example. 60 A 192.0.2.3"])]);
    world.serve(
        2,
        Box::new(move |query| if query.qname == "a.example." { zone(query) } else { known(query) }),
    );
    world.serve(3, authority("test.", &[("www.test. A", &["an www.test. 60 A 198.51.100.1"])]));
    world.resolve("www.test. A").check(Rcode::NOERROR, &["answer www.test. 60 A 198.51.100.1"]);
}

#[test]
fn a_server_that_keeps_silent_for_shortened_names_is_shown_the_whole_name() {
    let mut world = world();
    let mut zone =
        authority("example.", &[("www.a.example. A", &["an www.a.example. 60 A 198.51.100.1"])]);
    world.serve(
        2,
        Box::new(move |query| (query.qname != "a.example.").then(|| zone(query)).flatten()),
    );
    let answer = world.resolve("www.a.example. A");
    answer.check(Rcode::NOERROR, &["answer www.a.example. 60 A 198.51.100.1"]);
    assert!(answer.took_ms <= 1_300, "{} ms", answer.took_ms);
    let sent = world.take_sent();
    assert!(sent.len() <= 4, "{sent:?}");
}

/// RFC 8020 §2 applies to NXDOMAIN only. A proof that there are names below the name denies none of
/// these.
#[test]
fn a_proof_that_a_shortened_name_has_no_data_denies_no_name_below_it() {
    let setup = Setup::new();
    let zone = &setup.example;
    let keys = lines(&[zone.sign("an", &zone.dnskey())]);
    let address = lines(&[zone.sign("an", "www.nothing.example. 300 A 198.51.100.5")]);
    let soa = zone.sign("au", "example. 300 SOA ns.example. host.example. 1 2 3 4 300");
    // The proof shows that names below nothing.example. exist, although the RCODE is NXDOMAIN.
    let no_data = lines(&[
        soa,
        zone.sign("au", "example. 300 NSEC www.nothing.example. NS SOA RRSIG NSEC DNSKEY"),
    ]);
    let answers: &[(&str, &[String])] = &[
        ("example. DNSKEY", &keys),
        ("www.nothing.example. A", &address),
        ("nothing.example. A", &no_data),
    ];
    let validation = Some(validation(&setup.root));
    let mut world =
        setup.world_with(Recursion { qname_minimisation: true, validation, ..recursion() });
    world.serve(2, served("example.", answers));
    let answer = world.resolve("www.nothing.example. A");
    answer.check(Rcode::NOERROR, &["answer www.nothing.example. 300 A 198.51.100.5"]);
    assert!(answer.authentic);
}

/// The NSEC record for `a.example.` goes on to the next name with records. The names between the
/// two are no zone cuts, so no query is made for them. The next name itself may be a zone cut.
#[test]
fn names_that_a_proof_shows_to_be_no_zone_cuts_are_not_asked_for() {
    let setup = Setup::new();
    let zone = &setup.example;
    let keys = lines(&[zone.sign("an", &zone.dnskey())]);
    let address = |name| lines(&[zone.sign("an", &format!("{name} 300 A 198.51.100.5"))]);
    let (first, second) = (address("e.d.c.b.a.example."), address("f.d.c.b.a.example."));
    let soa = || zone.sign("au", "example. 300 SOA ns.example. host.example. 1 2 3 4 300");
    let nodata = |nsec: &str| lines(&[soa(), zone.sign("au", nsec)]);
    let before = nodata("example. 300 NSEC d.c.b.a.example. NS SOA RRSIG NSEC DNSKEY");
    let at = nodata("d.c.b.a.example. 300 NSEC e.d.c.b.a.example. TXT RRSIG NSEC");
    let answers: &[(&str, &[String])] = &[
        ("example. DNSKEY", &keys),
        ("a.example. A", &before),
        ("d.c.b.a.example. A", &at),
        ("e.d.c.b.a.example. A", &first),
        ("f.d.c.b.a.example. A", &second),
    ];
    for validation in [Some(validation(&setup.root)), None] {
        let mut world =
            setup.world_with(Recursion { qname_minimisation: true, validation, ..recursion() });
        world.serve(2, served("example.", answers));
        let answer = world.resolve("e.d.c.b.a.example. A");
        answer.check(Rcode::NOERROR, &["answer e.d.c.b.a.example. 300 A 198.51.100.5"]);
        let names = ["a", "d.c.b.a", "e.d.c.b.a"].map(|name| format!("2: {name}.example. A"));
        let sent = world.take_sent();
        let asked: Vec<_> = sent.iter().filter(|sent| sent.ends_with(" A")).collect();
        assert_eq!(asked[asked.len() - 3..].to_vec(), names.iter().collect::<Vec<_>>(), "{sent:?}");
        // The cached denial shows the same.
        world.resolve("f.d.c.b.a.example. A");
        assert_eq!(world.take_sent(), ["2: f.d.c.b.a.example. A"]);
    }
}

/// A result that must not be cached still serves the question that fetched it.
#[test]
fn a_shortened_name_is_asked_for_once_by_a_question_whatever_its_ttl() {
    let setup = Setup::new();
    let zone = &setup.example;
    let keys = lines(&[zone.sign("an", &zone.dnskey())]);
    let (brief, unsigned) = (
        ["an a.example. 0 A 198.51.100.5".to_owned()],
        ["an www.a.example. 0 A 198.51.100.6".to_owned()],
    );
    let no_ds = lines(&[zone.sign("au", "a.example. 0 NSEC z.example. A RRSIG NSEC")]);
    let answers: &[(&str, &[String])] = &[
        ("example. DNSKEY", &keys),
        ("a.example. A", &brief),
        ("a.example. DS", &no_ds),
        ("www.a.example. A", &unsigned),
    ];
    let validation = Some(validation(&setup.root));
    let mut world =
        setup.world_with(Recursion { qname_minimisation: true, validation, ..recursion() });
    world.serve(2, served("example.", answers));
    assert_eq!(world.resolve("www.a.example. A").rcode, Rcode::SERVFAIL);
    let sent = world.take_sent();
    assert_eq!(sent.iter().filter(|sent| **sent == "2: a.example. A").count(), 1, "{sent:?}");

    // The same holds for a name for which servers do not answer, or fail.
    let mut zone = served("example.", answers);
    world.serve(
        2,
        Box::new(move |query| {
            if query.qname == "a.example." && query.qtype == Rtype::A { None } else { zone(query) }
        }),
    );
    world.pass(400);
    assert_eq!(world.resolve("www.a.example. A").rcode, Rcode::SERVFAIL);
    let sent = world.take_sent();
    assert!(sent.iter().filter(|sent| **sent == "2: a.example. A").count() <= 2, "{sent:?}");
}
