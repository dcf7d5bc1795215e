//! Resolution from the root to an answer.

use avocet_resolver::{Recursion, StubZone};
use avocet_testkit::{Response, name};
use avocet_wire::Rcode;
use avocet_wire::header::AA;

use crate::world::{World, authority, recursion};

const TO_EXAMPLE: &[&str] = &["au example. 3600 NS ns.example.", "ad ns.example. 3600 A 192.0.2.2"];
const ADDRESS: &[&str] = &["an www.example. 300 A 198.51.100.1"];

/// Returns a world with the root at .1 and example. at .2.
fn world() -> World {
    let mut world = World::new(recursion());
    world.serve(
        1,
        authority(
            ".",
            &[("*example. A", TO_EXAMPLE), ("*test. A", &["au test. 60 NS ns.example."])],
        ),
    );
    world.serve(
        2,
        authority(
            "example.",
            &[("www.example. A", ADDRESS), ("ns.example. A", &["an ns.example. 300 A 192.0.2.2"])],
        ),
    );
    world
}

/// Some servers return the RCODE of the alias's target, although the QTYPE is CNAME.
#[test]
fn an_alias_that_was_asked_for_exists_whatever_becomes_of_its_target() {
    let mut world = World::new(recursion());
    world.serve(
        1,
        Box::new(|query| {
            let mut response = Response::to(query).flags(AA).rcode(Rcode::NXDOMAIN);
            if query.qname == "alias.test." {
                response = response.answer("alias.test. 60 CNAME gone.test.");
            }
            Some(response.authority("test. 300 SOA ns.test. host.test. 1 2 3 4 300"))
        }),
    );
    let alias = "answer alias.test. 60 CNAME gone.test.";
    world.resolve("alias.test. CNAME").check(Rcode::NOERROR, &[alias]);
    assert_eq!(world.resolve("alias.test. A").rcode, Rcode::NXDOMAIN);
    assert_eq!(world.resolve("gone.test. CNAME").rcode, Rcode::NXDOMAIN);
}

/// Signatures and proofs exist at the name of an alias, too. ANY asks for all data of a name.
#[test]
fn a_cached_alias_or_denial_does_not_answer_queries_for_signatures_proofs_and_everything() {
    let mut world = world();
    let alias: &[&str] = &["an alias.example. 60 CNAME www.example.", ADDRESS[0]];
    world.serve(
        2,
        authority("example.", &[("www.example. A", ADDRESS), ("alias.example. A", alias)]),
    );
    for name in ["alias.example.", "nothing.example."] {
        world.resolve(&format!("{name} A"));
        world.take_sent();
        for rtype in ["RRSIG", "NSEC", "NSEC3", "ANY"] {
            let question = format!("{name} {rtype}");
            world.resolve(&question);
            assert_eq!(world.take_sent(), [format!("2: {question}")]);
        }
    }
}

/// The servers of a zone send the end of a chain of aliases with the aliases.
#[test]
fn ds_records_behind_aliases_are_taken_from_the_same_reply_unless_another_zone_has_them() {
    let mut world = world();
    let ds = |owner: &str| format!("{owner} 60 DS 1 13 2 {}", "AB".repeat(32));
    let of_c = ds("an c.example.");
    let chain = ["an a.example. 60 CNAME b.example.", "an b.example. 60 CNAME c.example.", &of_c];
    let to_apex: &[&str] = &["an g.example. 60 CNAME example.", &ds("an example.")];
    world.serve(
        2,
        authority("example.", &[("a.example. DS", &chain[..]), ("g.example. DS", to_apex)]),
    );
    world.resolve("a.example. A");
    world.take_sent();
    let answer = world.resolve("a.example. DS");
    let expected = [
        "answer a.example. 60 CNAME b.example.",
        "answer b.example. 60 CNAME c.example.",
        &ds("answer c.example."),
    ];
    answer.check(Rcode::NOERROR, &expected);
    assert_eq!(world.take_sent(), ["2: a.example. DS"]);
    let answer = world.resolve("g.example. DS");
    assert_eq!(answer.records.first().unwrap(), "answer g.example. 60 CNAME example.");
    assert!(!answer.records.contains(&ds("answer example.")));
    assert_eq!(world.take_sent(), ["2: g.example. DS", "1: example. DS"]);
}

#[test]
fn delegations_are_followed_and_remembered() {
    let mut world = world();
    let answer = world.resolve("www.example. A");
    answer.check(Rcode::NOERROR, &["answer www.example. 300 A 198.51.100.1"]);
    assert_eq!(world.take_sent(), ["1: www.example. A", "2: www.example. A"]);
    let answer = world.resolve("nothing.example. A");
    assert_eq!(answer.rcode, Rcode::NXDOMAIN);
    assert_eq!(world.take_sent(), ["2: nothing.example. A"], "the delegation is known");
    world.resolve("nothing.example. A");
    assert_eq!(world.take_sent(), Vec::<String>::new());
}

#[test]
fn an_unproven_denial_of_an_empty_non_terminal_denies_no_name_below_it() {
    let mut world = World::new(recursion());
    world.serve(1, authority(".", &[("*example. A", TO_EXAMPLE)]));
    // The server does not know that a name exists if there are names below it (RFC 8020 §3.1).
    let script: &[(&str, &[&str])] =
        &[("www.empty.example. A", &["an www.empty.example. 300 A 198.51.100.7"])];
    let (mut empty, mut others) = (authority("example.", &[]), authority("example.", script));
    world.serve(
        2,
        Box::new(move |query| match &query.qname[..] {
            "empty.example." => empty(query),
            _ => others(query),
        }),
    );
    assert_eq!(world.resolve("empty.example. A").rcode, Rcode::NXDOMAIN);
    let answer = world.resolve("www.empty.example. A");
    answer.check(Rcode::NOERROR, &["answer www.empty.example. 300 A 198.51.100.7"]);
    assert_eq!(world.resolve("empty.example. A").rcode, Rcode::NXDOMAIN);
}

#[test]
fn a_delegation_lives_no_longer_than_its_parent_said() {
    let mut world = world();
    world.resolve("www.example. A");
    world.take_sent();
    world.pass(3_601);
    world.resolve("www.example. A");
    assert_eq!(world.take_sent(), ["1: www.example. A", "2: www.example. A"]);
}

#[test]
fn what_a_zone_says_of_its_servers_keeps_it_alive_no_longer_than_its_parent() {
    let mut world = World::new(recursion());
    world.serve(1, authority(".", &[("*example. A", TO_EXAMPLE), ("*example. NS", TO_EXAMPLE)]));
    let ghost: &[&str] = &[
        "an www.example. 1 A 198.51.100.1",
        "au example. 86400 NS ns.example.",
        "ad ns.example. 86400 A 192.0.2.2",
    ];
    let own: &[&str] = &["an example. 86400 NS ns.example.", "ad ns.example. 86400 A 192.0.2.2"];
    world.serve(2, authority("example.", &[("www.example. A", ghost), ("example. NS", own)]));
    assert_eq!(world.resolve("www.example. A").rcode, Rcode::NOERROR);
    for _ in 0..5 {
        // The server no longer has the delegation, and refreshes its cached data with each answer.
        world.pass(700);
        assert_eq!(world.resolve("www.example. A").rcode, Rcode::NOERROR);
        world.resolve("example. NS");
    }
    world.serve(1, authority(".", &[]));
    world.take_sent();
    world.pass(110);
    assert_eq!(world.resolve("www.example. A").rcode, Rcode::NXDOMAIN);
    assert_eq!(world.take_sent(), ["1: www.example. A"]);
}

#[test]
fn a_server_without_glue_is_looked_for() {
    let mut world = World::new(recursion());
    let referrals: &[(&str, &[&str])] =
        &[("*test. A", &["au test. 60 NS ns.example."]), ("*example. A", TO_EXAMPLE)];
    world.serve(1, authority(".", referrals));
    world
        .serve(2, authority("example.", &[("ns.example. A", &["an ns.example. 300 A 192.0.2.3"])]));
    world.serve(3, authority("test.", &[("www.test. A", &["an www.test. 300 A 198.51.100.2"])]));
    world.resolve("www.test. A").check(Rcode::NOERROR, &["answer www.test. 300 A 198.51.100.2"]);
    assert_eq!(
        world.take_sent(),
        ["1: www.test. A", "1: ns.example. A", "2: ns.example. A", "3: www.test. A"]
    );
}

#[test]
fn aliases_lead_across_zones_and_come_before_their_targets() {
    let mut world = World::new(recursion());
    let to_test: &[&str] = &["au test. 60 NS ns.test.", "ad ns.test. 60 A 192.0.2.3"];
    world.serve(1, authority(".", &[("*example. A", TO_EXAMPLE), ("*test. A", to_test)]));
    let alias: &[&str] = &["an a.example. 60 CNAME b.test.", "an b.test. 60 A 203.0.113.66"];
    world.serve(2, authority("example.", &[("a.example. A", alias)]));
    world.serve(3, authority("test.", &[("b.test. A", &["an b.test. 300 A 198.51.100.3"])]));
    let expected = ["answer a.example. 60 CNAME b.test.", "answer b.test. 300 A 198.51.100.3"];
    world.resolve("a.example. A").check(Rcode::NOERROR, &expected);
    world.take_sent();
    world.resolve("b.test. A").check(Rcode::NOERROR, &expected[1..]);
    assert_eq!(world.take_sent(), Vec::<String>::new());
}

#[test]
fn names_of_the_zone_that_an_alias_leads_to_answer_the_question_and_are_not_cached() {
    let mut world = world();
    let answers: &[(&str, &[&str])] = &[
        ("a.example. A", &["an a.example. 60 CNAME b.example.", "an b.example. 60 A 203.0.113.66"]),
        ("b.example. A", &["an b.example. 60 A 198.51.100.2"]),
    ];
    world.serve(2, authority("example.", answers));
    let expected = ["answer a.example. 60 CNAME b.example.", "answer b.example. 60 A 203.0.113.66"];
    world.resolve("a.example. A").check(Rcode::NOERROR, &expected);
    assert_eq!(world.take_sent(), ["1: a.example. A", "2: a.example. A"]);
    world.resolve("b.example. A").check(Rcode::NOERROR, &["answer b.example. 60 A 198.51.100.2"]);
    assert_eq!(
        world.take_sent(),
        ["2: b.example. A"],
        "what was said of another name changes nothing"
    );
}

#[test]
fn a_server_that_refuses_a_zone_is_passed_over_and_remembered() {
    let mut world = World::new(recursion());
    let two: &[&str] = &[
        "au example. 3600 NS ns1.example.",
        "au example. 3600 NS ns2.example.",
        "ad ns1.example. 3600 A 192.0.2.2",
        "ad ns2.example. 3600 A 192.0.2.3",
    ];
    world.serve(1, authority(".", &[("*example. A", two)]));
    world.serve(2, Box::new(|query| Some(Response::to(query).rcode(Rcode::REFUSED))));
    world.serve(3, authority("example.", &[("a.example. A", &["an a.example. 5 A 198.51.100.1"])]));
    for _ in 0..8 {
        world
            .resolve("a.example. A")
            .check(Rcode::NOERROR, &["answer a.example. 5 A 198.51.100.1"]);
        world.pass(10);
    }
    let refused = world.take_sent().iter().filter(|sent| sent.starts_with("2:")).count();
    assert!(refused <= 1, "{refused} queries to a server that refuses the zone");
}

#[test]
fn an_alias_comes_before_its_target_wherever_each_was_found() {
    let mut world = world();
    let zone: &[(&str, &[&str])] = &[
        ("brief.example. A", &["an brief.example. 60 CNAME long.example."]),
        ("long.example. A", &["an long.example. 600 CNAME end.example."]),
        ("end.example. A", &["an end.example. 90 A 198.51.100.4"]),
    ];
    world.serve(2, authority("example.", zone));
    // First no record is cached, then the first record has expired, and then the first and the
    // last.
    for secs in [0, 70, 100] {
        world.pass(secs);
        let answer = world.resolve("brief.example. A");
        let owners: Vec<&str> =
            answer.records.iter().filter_map(|record| record.split(' ').nth(1)).collect();
        assert_eq!(owners, ["brief.example.", "long.example.", "end.example."]);
    }
}

#[test]
fn names_are_shown_label_by_label() {
    let mut world = World::new(Recursion { qname_minimisation: true, ..recursion() });
    world.serve(1, authority(".", &[("*example. A", TO_EXAMPLE)]));
    let deep: &[&str] = &["an www.a.b.example. 300 A 198.51.100.1"];
    world.serve(2, authority("example.", &[("www.a.b.example. A", deep)]));
    world
        .resolve("www.a.b.example. A")
        .check(Rcode::NOERROR, &["answer www.a.b.example. 300 A 198.51.100.1"]);
    let expected =
        ["1: example. A", "2: b.example. A", "2: a.b.example. A", "2: www.a.b.example. A"];
    assert_eq!(world.take_sent(), expected);
}

#[test]
fn a_server_that_fails_for_part_of_a_name_is_shown_all_of_it() {
    let mut world = World::new(Recursion { qname_minimisation: true, ..recursion() });
    world.serve(1, authority(".", &[("*example. A", TO_EXAMPLE)]));
    let mut zone =
        authority("example.", &[("www.a.example. A", &["an www.a.example. 300 A 198.51.100.1"])]);
    let refuse = |query: &avocet_testkit::Query| Response::to(query).rcode(Rcode::SERVFAIL);
    world.serve(
        2,
        Box::new(
            move |query| {
                if query.qname == "a.example." { Some(refuse(query)) } else { zone(query) }
            },
        ),
    );
    world
        .resolve("www.a.example. A")
        .check(Rcode::NOERROR, &["answer www.a.example. 300 A 198.51.100.1"]);
}

#[test]
fn a_lame_server_is_passed_over_and_remembered() {
    let mut world = World::new(recursion());
    let two: &[&str] = &[
        "au example. 3600 NS ns1.example.",
        "au example. 3600 NS ns2.example.",
        "ad ns1.example. 3600 A 192.0.2.2",
        "ad ns2.example. 3600 A 192.0.2.3",
    ];
    world.serve(1, authority(".", &[("*example. A", two)]));
    world.serve(2, authority(".", &[("*example. A", &["au . 3600 NS a.root."])]));
    let names: &[(&str, &[&str])] = &[("a.example. A", &["an a.example. 5 A 198.51.100.1"])];
    world.serve(3, authority("example.", names));
    for _ in 0..8 {
        world
            .resolve("a.example. A")
            .check(Rcode::NOERROR, &["answer a.example. 5 A 198.51.100.1"]);
        world.pass(10);
    }
    let lame = world.take_sent().iter().filter(|sent| sent.starts_with("2:")).count();
    assert!(lame <= 1, "{lame} queries to a server that does not serve the zone");
}

#[test]
fn what_a_server_says_of_other_zones_is_not_believed() {
    let mut world = world();
    let poison: &[&str] = &[
        "an x.example. 60 A 198.51.100.9",
        "au test. 60 NS ns.example.",
        "ad ns.test. 60 A 203.0.113.66",
        "ad www.test. 60 A 203.0.113.66",
    ];
    world.serve(2, authority("example.", &[("x.example. A", poison)]));
    world.resolve("x.example. A").check(Rcode::NOERROR, &["answer x.example. 60 A 198.51.100.9"]);
    world.take_sent();
    world.serve(1, authority(".", &[]));
    assert_eq!(world.resolve("www.test. A").rcode, Rcode::NXDOMAIN);
    assert_eq!(world.take_sent(), ["1: www.test. A"], "the root is asked for test.");
}

#[test]
fn a_truncated_reply_is_asked_for_by_tcp() {
    let mut world = world();
    let mut zone = authority("example.", &[("www.example. A", ADDRESS)]);
    world.serve(
        2,
        Box::new(move |query| {
            let response = zone(query)?;
            Some(if query.over_tcp { response } else { response.truncated() })
        }),
    );
    world
        .resolve("www.example. A")
        .check(Rcode::NOERROR, &["answer www.example. 300 A 198.51.100.1"]);
    assert_eq!(
        world.take_sent(),
        ["1: www.example. A", "2: www.example. A", "2: www.example. A by TCP"]
    );
}

#[test]
fn stub_zones_are_asked_where_the_configuration_says() {
    let stub =
        StubZone { zone: name("corp.").into(), servers: vec!["192.0.2.9:53".parse().unwrap()] };
    let mut world = World::new(Recursion { stubs: vec![stub], ..recursion() });
    world.serve(9, authority("corp.", &[("www.corp. A", &["an www.corp. 300 A 10.0.0.1"])]));
    world.resolve("www.corp. A").check(Rcode::NOERROR, &["answer www.corp. 300 A 10.0.0.1"]);
    assert_eq!(world.take_sent(), ["9: www.corp. A"]);
}

/// Returns a world with the stub zone corp. at .9, which delegates a.corp. with glue, b.corp. to a
/// server within corp., and c.corp. to a server elsewhere.
fn world_with_private_delegations() -> World {
    let stub =
        StubZone { zone: name("corp.").into(), servers: vec!["192.0.2.9:53".parse().unwrap()] };
    let mut world = World::new(Recursion { stubs: vec![stub], ..recursion() });
    let zone: &[(&str, &[&str])] = &[
        ("*a.corp. A", &["au a.corp. 300 NS ns.a.corp.", "ad ns.a.corp. 300 A 10.0.0.1"]),
        ("*b.corp. A", &["au b.corp. 300 NS host.corp."]),
        ("host.corp. A", &["an host.corp. 300 A 10.0.0.2"]),
        ("*c.corp. A", &["au c.corp. 300 NS ns.elsewhere."]),
        ("*d.corp. A", &["au d.corp. 300 NS ns.d.corp.", "ad ns.d.corp. 300 A 127.0.0.1"]),
    ];
    world.serve(9, authority("corp.", zone));
    let root: &[(&str, &[&str])] = &[
        ("ns.elsewhere. A", &["an ns.elsewhere. 300 A 10.0.0.3"]),
        ("*evil. A", &["au evil. 300 NS ns.a.corp.", "au evil. 300 NS host.corp."]),
        ("*worse. A", &["au worse. 300 NS ns.worse.", "ad ns.worse. 300 A 10.0.0.4"]),
        // The parent of the stub zone adds an address.
        ("corp. DS", &["au corp. 300 NS host.corp.", "ad host.corp. 300 A 10.0.0.66"]),
    ];
    world.serve(1, authority(".", root));
    world
}

/// Resolves an address, and returns the queries that this causes to private addresses.
fn private_queries(world: &mut World, what: &str) -> Vec<String> {
    world.resolve(what);
    let is_private = |sent: &String| sent.starts_with("10.") || sent.starts_with("127.");
    let sent = world.take_sent().into_iter();
    sent.filter(|sent| is_private(sent) && sent.ends_with(what)).collect()
}

#[test]
fn below_a_stub_zone_servers_may_be_private() {
    let mut world = world_with_private_delegations();
    for (what, server) in [("www.a.corp. A", "10.0.0.1"), ("www.b.corp. A", "10.0.0.2")] {
        let sent = private_queries(&mut world, what);
        assert!(!sent.is_empty() && sent.iter().all(|sent| sent.starts_with(server)), "{sent:?}");
    }
}

#[test]
fn nobody_else_reaches_private_addresses_by_a_stub_zone() {
    let mut world = world_with_private_delegations();
    world.resolve("corp. DS");
    world.resolve("www.a.corp. A");
    world.resolve("host.corp. A");
    world.take_sent();
    for what in ["www.c.corp. A", "www.d.corp. A", "www.evil. A", "www.worse. A"] {
        assert_eq!(private_queries(&mut world, what), [""; 0], "{what}");
    }
    let sent = private_queries(&mut world, "www.b.corp. A");
    assert!(sent.iter().all(|sent| sent.starts_with("10.0.0.2")), "{sent:?}");
}

#[test]
fn the_root_is_primed_once() {
    let mut world = World::new(Recursion { priming: true, ..recursion() });
    let root: &[(&str, &[&str])] = &[
        (". NS", &["an . 3600 NS b.root.", "ad b.root. 3600 A 192.0.2.4"]),
        ("*example. A", TO_EXAMPLE),
    ];
    world.serve(1, authority(".", root));
    world.serve(4, authority(".", root));
    world.serve(2, authority("example.", &[("www.example. A", ADDRESS)]));
    world
        .resolve("www.example. A")
        .check(Rcode::NOERROR, &["answer www.example. 300 A 198.51.100.1"]);
    assert_eq!(world.take_sent(), ["1: . NS", "4: www.example. A", "2: www.example. A"]);
    world.resolve("nothing. A");
    assert_eq!(world.take_sent(), ["4: nothing. A"]);
}
