//! Plain answers, aliases, denials, joined questions, and answers from the cache.

use avocet_cache::ReadAt;
use avocet_resolver::{Answers, Assembled, Assembler, EcsPolicy, Plan, Wanted, ZoneRule};
use avocet_testkit::{Faults, Response, question};
use avocet_wire::{Ede, Question, Rcode};

use crate::world::{World, address, any_address, plan, rule, settings};

const SOA: &str = "example. 900 SOA ns.example. admin.example. 1 2 3 4 60";
const SOA_SHOWN: &str = "authority example. 60 SOA ns.example. admin.example. 1 2 3 4 60";

/// Returns the answer that can be made from the world's cache alone.
fn assembled(world: &World, plan: &Plan, what: &str, dnssec_ok: bool) -> Option<(Rcode, usize)> {
    let mut out = Answers::default();
    let question = question(what);
    let now = (world.net.now_ms / 1000) as u32;
    let wanted = Wanted {
        question: Question::new(&question).unwrap(),
        dnssec_ok,
        checking_disabled: false,
        translates: false,
        at: ReadAt { now, stale_window: 0 },
    };
    match Assembler::default().assemble(plan, &world.rrsets, &wanted, &mut out) {
        Assembled::Complete { resolved, .. } => Some((resolved.rcode, resolved.ttl_offsets.len())),
        Assembled::Incomplete => None,
    }
}

#[test]
fn an_address_is_fetched_once_and_kept() {
    let mut world = World::simple(any_address);
    let answer = world.resolve("www.example. A");
    answer.check(Rcode::NOERROR, &["answer www.example. 300 A 192.0.2.80"]);
    assert_eq!(answer.resolved.ttl_secs, 300);
    assert_eq!(world.sent.len(), 1);
    let source = answer.resolved.source.unwrap();
    assert_eq!((source.rtt_ms, source.over_tcp), (20, false));
    let plan = plan(vec![rule(".", &[1])]);
    assert_eq!(assembled(&world, &plan, "www.example. A", false), Some((Rcode::NOERROR, 1)));
    assert_eq!(assembled(&world, &plan, "www.example. A", true), None, "was not asked for with DO");
    assert_eq!(assembled(&world, &plan, "www.example. AAAA", false), None);
}

#[test]
fn queries_have_edns_1232_and_a_cookie_and_never_a_subnet() {
    let mut world = World::simple(any_address);
    world.ecs = vec![0, 1, 24, 0, 192, 0, 2];
    world.resolve("www.example. A");
    let query = &world.sent[0].query;
    assert_eq!((query.edns, query.ecs), (Some(false), false));
    assert_eq!(query.cookie.as_ref().unwrap().len(), 8);
    let opt = query.octets.len() - 11 - 12;
    assert_eq!(query.octets[opt..opt + 5], [0, 0, 41, 0x04, 0xd0]);
}

#[test]
fn a_denial_carries_its_soa_and_lives_for_the_lesser_ttl() {
    let mut world = World::simple(|query| {
        vec![(0, Response::to(query).rcode(Rcode::NXDOMAIN).authority(SOA).octets())]
    });
    let answer = world.resolve("none.example. A");
    answer.check(Rcode::NXDOMAIN, &[SOA_SHOWN]);
    assert_eq!(answer.resolved.ttl_secs, 60);
    let plan = plan(vec![rule(".", &[1])]);
    assert_eq!(assembled(&world, &plan, "none.example. TXT", false), Some((Rcode::NXDOMAIN, 1)));
    assert_eq!(
        assembled(&world, &plan, "below.none.example. A", false),
        None,
        "without validation, names below a denied name may exist"
    );
    assert_eq!(assembled(&world, &plan, "other.example. A", false), None);
}

/// Returns a world whose server gets client subnets.
fn passing_world() -> World {
    let passing = ZoneRule { ecs: EcsPolicy::Pass, ..rule(".", &[1]) };
    let mut world = World::new(1, Faults::NONE, plan(vec![passing]));
    world.ecs = vec![0, 1, 24, 0, 192, 0, 2];
    world
}

#[test]
fn an_alias_for_one_network_makes_the_whole_answer_one_for_that_network() {
    for (alias_scope, ttl_secs) in [(24, 0), (0, 300)] {
        for is_target_known in [true, false] {
            let mut world = passing_world();
            world.serve(1, move |query| {
                let response = Response::to(query);
                let response = match query.qname.as_str() {
                    "www.example." => {
                        response.answer("www.example. 300 CNAME edge.test.").scope(alias_scope)
                    }
                    _ => response.answer("edge.test. 300 A 192.0.2.80").scope(0),
                };
                vec![(0, response.octets())]
            });
            if is_target_known {
                world.resolve("edge.test. A");
            }
            let answer = world.resolve("www.example. A");
            assert_eq!(answer.rcode(), Rcode::NOERROR);
            let kept = (answer.resolved.ecs_scope, answer.resolved.ttl_secs);
            assert_eq!(
                kept,
                (Some(alias_scope), ttl_secs),
                "the target is known: {is_target_known}"
            );
        }
    }
}

#[test]
fn a_failure_behind_an_alias_for_one_network_is_no_failure_for_others() {
    let mut world = passing_world();
    world.serve(1, |query| {
        let response = Response::to(query);
        let response = match (query.qname.as_str(), query.ecs) {
            ("www.example.", true) => {
                response.answer("www.example. 300 CNAME dead.test.").scope(24)
            }
            ("www.example.", false) => response.answer("www.example. 300 A 192.0.2.80"),
            _ => response.rcode(Rcode::SERVFAIL),
        };
        vec![(0, response.octets())]
    });
    assert_eq!(world.resolve("www.example. A").rcode(), Rcode::SERVFAIL);
    world.ecs.clear();
    world
        .resolve("www.example. A")
        .check(Rcode::NOERROR, &["answer www.example. 300 A 192.0.2.80"]);
}

#[test]
fn a_failure_for_one_network_is_no_failure_for_others() {
    let mut world = passing_world();
    world.serve(1, |query| {
        let response = Response::to(query);
        let response = match query.ecs {
            true => response.rcode(Rcode::SERVFAIL),
            false => response.answer("www.example. 300 A 192.0.2.80"),
        };
        vec![(0, response.octets())]
    });
    for _ in 0..3 {
        assert_eq!(world.resolve("www.example. A").rcode(), Rcode::SERVFAIL);
    }
    world.ecs.clear();
    world
        .resolve("www.example. A")
        .check(Rcode::NOERROR, &["answer www.example. 300 A 192.0.2.80"]);
}

#[test]
fn a_denial_without_soa_is_not_cached() {
    for rcode in [Rcode::NOERROR, Rcode::NXDOMAIN] {
        let mut world =
            World::simple(move |query| vec![(0, Response::to(query).rcode(rcode).octets())]);
        let answer = world.resolve("none.example. A");
        answer.check(rcode, &[]);
        assert_eq!(answer.resolved.ttl_secs, 0);
        assert_eq!(assembled(&world, &plan(vec![rule(".", &[1])]), "none.example. A", false), None);
    }
}

#[test]
fn aliases_come_first_in_order_with_a_denial_at_their_end() {
    let mut world = World::simple(|query| {
        // The records are out of order, and some of them do not belong to the answer.
        let response = Response::to(query)
            .answer("b.example. 200 CNAME c.example.")
            .answer("stray.example. 300 A 192.0.2.66")
            .answer("a.example. 100 CNAME b.example.")
            .authority(SOA);
        vec![(0, response.octets())]
    });
    let answer = world.resolve("a.example. A");
    let aliases =
        ["answer a.example. 100 CNAME b.example.", "answer b.example. 200 CNAME c.example."];
    answer.check(Rcode::NOERROR, &[aliases[0], aliases[1], SOA_SHOWN]);
    let plan = plan(vec![rule(".", &[1])]);
    assert_eq!(assembled(&world, &plan, "a.example. A", false), Some((Rcode::NOERROR, 3)));
    assert_eq!(assembled(&world, &plan, "stray.example. A", false), None);
    assert_eq!(assembled(&world, &plan, "a.example. CNAME", false), Some((Rcode::NOERROR, 1)));
}

#[test]
fn a_dname_gives_its_cname_whether_the_reply_has_it_or_not() {
    for with_cname in [false, true] {
        let mut world = World::simple(move |query| {
            let mut response = Response::to(query).answer("old.example. 100 DNAME new.example.");
            if with_cname {
                response = response.answer("a.old.example. 0 CNAME a.new.example.");
            }
            vec![(0, response.answer("a.new.example. 50 A 192.0.2.7").octets())]
        });
        let expected = [
            "answer old.example. 100 DNAME new.example.",
            "answer a.old.example. 100 CNAME a.new.example.",
            "answer a.new.example. 50 A 192.0.2.7",
        ];
        world.resolve("a.old.example. A").check(Rcode::NOERROR, &expected);
        let plan = plan(vec![rule(".", &[1])]);
        assert_eq!(assembled(&world, &plan, "a.old.example. A", false), Some((Rcode::NOERROR, 3)));
        assert_eq!(
            assembled(&world, &plan, "b.old.example. A", false),
            None,
            "the DNAME, and then b.new.example."
        );
    }
}

#[test]
fn a_cached_dname_is_followed_for_a_question_as_for_an_alias() {
    let mut world = World::simple(|query| {
        let response = Response::to(query);
        let response = match query.qname.as_str() {
            "c.example." => response.answer("c.example. 100 CNAME c.old.example."),
            name if name.ends_with(".old.example.") => {
                let target = name.replace("old", "new");
                response
                    .answer("old.example. 100 DNAME new.example.")
                    .answer(&format!("{name} 100 CNAME {target}"))
                    .answer(&format!("{target} 50 A 192.0.2.7"))
            }
            name => response.answer(&format!("{name} 50 A 192.0.2.7")),
        };
        vec![(0, response.octets())]
    });
    world.resolve("a.old.example. A");
    let dname = "answer old.example. 100 DNAME new.example.";
    let asked = |world: &World| world.sent.last().unwrap().query.qname.clone();
    world.resolve("b.old.example. A").check(
        Rcode::NOERROR,
        &[
            dname,
            "answer b.old.example. 100 CNAME b.new.example.",
            "answer b.new.example. 50 A 192.0.2.7",
        ],
    );
    assert_eq!(asked(&world), "b.new.example.");
    world.resolve("c.example. A");
    assert_eq!(asked(&world), "c.new.example.");
    assert_eq!(world.sent.len(), 4, "each asked for once, and c.example.");
    // A prefetch also renews the DNAME.
    world.submit("b.old.example. A", None);
    assert_eq!(asked(&world), "b.old.example.");
}

#[test]
fn a_cname_that_contradicts_the_dname_spoils_the_reply() {
    let mut world = World::simple(|query| {
        let response = Response::to(query)
            .answer("old.example. 100 DNAME new.example.")
            .answer("a.old.example. 100 CNAME evil.example.")
            .answer("evil.example. 50 A 192.0.2.66");
        vec![(0, response.octets())]
    });
    let answer = world.resolve("a.old.example. A");
    answer.check(Rcode::SERVFAIL, &[]);
    assert_eq!(answer.ede(), Some(Ede::INVALID_DATA.0));
}

#[test]
fn an_alias_that_is_not_followed_by_the_server_is_asked_for() {
    let mut world = World::simple(|query| match query.qname.as_str() {
        "a.example." => {
            vec![(0, Response::to(query).answer("a.example. 100 CNAME b.example.").octets())]
        }
        _ => any_address(query),
    });
    let expected = ["answer a.example. 100 CNAME b.example.", "answer b.example. 300 A 192.0.2.80"];
    world.resolve("a.example. A").check(Rcode::NOERROR, &expected);
    assert_eq!(world.sent.len(), 2);
}

#[test]
fn aliases_in_a_circle_end_with_a_failure_after_three_queries() {
    for complete in [true, false] {
        let mut world = World::simple(move |query| {
            let mut response = Response::to(query);
            for (owner, target) in [("a.example.", "b.example."), ("b.example.", "a.example.")] {
                if complete || query.qname == owner {
                    response = response.answer(&format!("{owner} 100 CNAME {target}"));
                }
            }
            vec![(0, response.octets())]
        });
        let answer = world.resolve("a.example. A");
        answer.check(Rcode::SERVFAIL, &[]);
        assert_eq!(answer.ede(), Some(Ede::OTHER.0));
        assert!(world.sent.len() <= 3, "{}", world.sent.len());
    }
}

#[test]
fn endless_aliases_end_after_thirteen_queries() {
    let mut world = World::simple(|query| {
        let alias = format!("{} 100 CNAME x.{}", query.qname, query.qname);
        vec![(0, Response::to(query).answer(&alias).octets())]
    });
    world.resolve("example. A").check(Rcode::SERVFAIL, &[]);
    assert!(world.sent.len() <= 13, "{}", world.sent.len());
}

#[test]
fn equal_questions_join_whatever_their_case_and_others_do_not() {
    let mut world = World::simple(any_address);
    let waiters: Vec<_> =
        ["www.example. A", "WWW.Example. A", "wWw.eXample. A"].map(|what| world.ask(what)).into();
    assert_eq!((world.sent.len(), world.resolver.waiting()), (1, 3));
    world.dnssec_ok = true;
    world.ask("www.example. A");
    assert_eq!(world.sent.len(), 2, "DO is part of the question");
    world.settle();
    for waiter in waiters {
        world.answer_to(waiter).check(Rcode::NOERROR, &["answer www.example. 300 A 192.0.2.80"]);
    }
    assert_eq!((world.resolver.in_flight(), world.resolver.waiting()), (0, 0));
    assert_eq!(world.resolver.counters().joined, 2);
}

#[test]
fn stale_data_has_a_ttl_of_thirty_seconds_or_its_own_and_says_how_stale_it_is() {
    // RFC 8767 §4 recommends 30 seconds. The TTL of stale data must not exceed the TTL of fresh
    // data.
    for (original_ttl, expected_ttl) in [(300, 30), (30, 30), (7, 7)] {
        let mut world = World::simple(move |query| {
            let record = format!("{} {original_ttl} A 192.0.2.80", query.qname);
            vec![(0, Response::to(query).answer(&record).octets())]
        });
        world.resolve("www.example. A");
        let question = question("www.example. A");
        let plan = plan(vec![rule(".", &[1])]);
        let mut out = Answers::default();
        let now = (world.net.now_ms / 1000) as u32 + original_ttl + 50;
        for (stale_window, expected) in [(0, None), (40, None), (3600, Some(50))] {
            let at = ReadAt { now, stale_window };
            let wanted = Wanted {
                question: Question::new(&question).unwrap(),
                dnssec_ok: false,
                checking_disabled: false,
                translates: false,
                at,
            };
            let found = Assembler::default().assemble(&plan, &world.rrsets, &wanted, &mut out);
            let Assembled::Complete { resolved, stale_since_secs } = found else {
                assert_eq!(expected, None);
                continue;
            };
            assert_eq!((stale_since_secs, resolved.ttl_secs), (expected, expected_ttl));
        }
    }
}

#[test]
fn signatures_and_proofs_come_with_do_only() {
    let signature = "13 2 300 20300101000000 20200101000000 1 example. AAAA";
    let script = move |query: &avocet_testkit::Query| {
        let response = address(query)
            .answer(&format!("{} 300 RRSIG A {signature}", query.qname))
            .answer(&format!("{} 300 RRSIG TXT {signature}", query.qname));
        vec![(0, response.octets())]
    };
    let mut world = World::simple(script);
    world
        .resolve("www.example. A")
        .check(Rcode::NOERROR, &["answer www.example. 300 A 192.0.2.80"]);
    world.dnssec_ok = true;
    let answer = world.resolve("www.example. A");
    assert_eq!(answer.records.len(), 2);
    assert!(
        answer.records[1].starts_with("answer www.example. 300 RRSIG A 13 2 "),
        "{:?}",
        answer.records
    );
    assert_eq!(world.sent[1].query.edns, Some(true));
    let plan = plan(vec![rule(".", &[1])]);
    assert_eq!(assembled(&world, &plan, "www.example. A", true), Some((Rcode::NOERROR, 2)));
    assert_eq!(assembled(&world, &plan, "www.example. A", false), Some((Rcode::NOERROR, 1)));
}

#[test]
fn an_answer_from_a_wildcard_is_not_kept_for_those_who_validate() {
    let mut world = World::simple(|query| {
        let response = address(query)
            .answer(&format!(
                "{} 300 RRSIG A 13 1 300 20300101000000 20200101000000 1 example. AAAA",
                query.qname
            ))
            .authority("a.example. 300 NSEC z.example. A RRSIG NSEC")
            .authority(
                "a.example. 300 RRSIG NSEC 13 2 300 20300101000000 20200101000000 1 example. AAAA",
            );
        vec![(0, response.octets())]
    });
    world.dnssec_ok = true;
    let answer = world.resolve("www.example. A");
    assert_eq!(answer.records.len(), 4, "{:?}", answer.records);
    assert_eq!(assembled(&world, &plan(vec![rule(".", &[1])]), "www.example. A", true), None);
    assert!(assembled(&world, &plan(vec![rule(".", &[1])]), "www.example. A", false).is_some());
}

#[test]
fn only_where_wanted_come_ns_and_addresses_along() {
    let script = |query: &avocet_testkit::Query| {
        let response = Response::to(query)
            .answer("example. 300 MX 10 mail.example.")
            .authority("example. 300 NS ns.example.")
            .authority("com. 300 NS evil.example.")
            .additional("mail.example. 300 A 192.0.2.25")
            .additional("ns.example. 300 A 192.0.2.53")
            .additional("other.example. 300 A 192.0.2.66");
        vec![(0, response.octets())]
    };
    let mut world = World::simple(script);
    world
        .resolve("example. MX")
        .check(Rcode::NOERROR, &["answer example. 300 MX 10 mail.example."]);
    let full = avocet_resolver::Settings { minimal: false, ..settings() };
    let full = Plan::new(vec![rule(".", &[1])], full).unwrap();
    world.reload(full.into());
    let expected = [
        "answer example. 300 MX 10 mail.example.",
        "authority example. 300 NS ns.example.",
        "additional mail.example. 300 A 192.0.2.25",
        "additional ns.example. 300 A 192.0.2.53",
    ];
    world.resolve("example. MX").check(Rcode::NOERROR, &expected);
}

#[test]
fn a_name_under_no_rule_is_refused() {
    let mut world = World::new(1, Faults::NONE, plan(vec![rule("corp.", &[1])]));
    let answer = world.resolve("www.example. A");
    answer.check(Rcode::REFUSED, &[]);
    assert_eq!(answer.ede(), Some(Ede::NOT_AUTHORITATIVE.0));
}

#[test]
fn a_duplicate_record_counts_once_and_the_shortest_ttl_for_all() {
    let mut world = World::simple(|query| {
        let response = Response::to(query)
            .answer("www.example. 300 A 192.0.2.1")
            .answer("www.example. 100 A 192.0.2.2")
            .answer("www.example. 300 A 192.0.2.1");
        vec![(0, response.octets())]
    });
    let expected = ["answer www.example. 100 A 192.0.2.1", "answer www.example. 100 A 192.0.2.2"];
    world.resolve("www.example. A").check(Rcode::NOERROR, &expected);
}
