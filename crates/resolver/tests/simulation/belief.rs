//! Data that is not trusted: names of other rules, records that do not belong to the answer, and
//! malformed data.

use avocet_cache::{ReadAt, RrsetKey};
use avocet_resolver::{Answers, Assembled, Assembler, Wanted};
use avocet_testkit::{Faults, Query, Response, name, question};
use avocet_wire::{Ede, FoldedName, Question, Rcode};

use crate::world::{World, any_address, plan, rule};

fn is_cached(world: &World, owner: &str, rtype: u16) -> bool {
    let at = ReadAt { now: (world.net.now_ms / 1000) as u32, stale_window: 0 };
    let owner = name(owner);
    let key = RrsetKey { owner: FoldedName::new(&owner).unwrap(), rtype, class: 1 };
    world.rrsets.lookup(&key, at, &mut vec![0; 70_000]).is_some()
}

/// Returns a world with all names at 192.0.2.1, except those below corp.example, which are at
/// 192.0.2.2.
fn split_world() -> World {
    let mut world =
        World::new(1, Faults::NONE, plan(vec![rule(".", &[1]), rule("corp.example.", &[2])]));
    world.serve(1, any_address);
    world.serve(2, any_address);
    world
}

#[test]
fn the_server_of_a_zone_is_not_believed_about_names_outside_of_it() {
    let mut world = split_world();
    world.serve(2, |query| {
        let response = Response::to(query)
            .answer("a.corp.example. 300 CNAME www.bank.example.")
            .answer("www.bank.example. 300 A 192.0.2.66")
            .authority("example. 300 NS evil.example.")
            .additional("evil.example. 300 A 192.0.2.66");
        vec![(0, response.octets())]
    });
    let expected = [
        "answer a.corp.example. 300 CNAME www.bank.example.",
        "answer www.bank.example. 300 A 192.0.2.80",
    ];
    world.resolve("a.corp.example. A").check(Rcode::NOERROR, &expected);
    assert_eq!((world.sent_to(2), world.sent_to(1)), (1, 1));
    assert!(!is_cached(&world, "example.", 2) && !is_cached(&world, "evil.example.", 1));
}

#[test]
fn the_server_of_all_names_is_not_believed_about_another_rules_names() {
    let mut world = split_world();
    world.serve(1, |query| {
        let response = Response::to(query)
            .answer("www.example. 300 CNAME a.corp.example.")
            .answer("a.corp.example. 300 A 192.0.2.66");
        vec![(0, response.octets())]
    });
    let expected = [
        "answer www.example. 300 CNAME a.corp.example.",
        "answer a.corp.example. 300 A 192.0.2.80",
    ];
    world.resolve("www.example. A").check(Rcode::NOERROR, &expected);
    assert_eq!((world.sent_to(1), world.sent_to(2)), (1, 1));
}

/// A name has one alias at most, also if the QTYPE is CNAME (RFC 2181 §10.1).
#[test]
fn two_aliases_of_one_name_are_no_answer() {
    for (question, of) in [("a.example. CNAME", "CNAME"), ("a.example. DNAME", "DNAME")] {
        let mut world = World::new(1, Faults::NONE, plan(vec![rule(".", &[1])]));
        world.serve(1, move |query| {
            let response = Response::to(query)
                .answer(&format!("a.example. 300 {of} b.example."))
                .answer(&format!("a.example. 300 {of} c.example."));
            vec![(0, response.octets())]
        });
        world.resolve(question).check(Rcode::SERVFAIL, &[]);
        assert!(!is_cached(&world, "a.example.", 5) && !is_cached(&world, "a.example.", 39));
    }
}

#[test]
fn a_soa_from_above_the_rules_zone_denies_nothing() {
    let mut world = split_world();
    world.serve(2, |query| {
        let soa = "example. 900 SOA ns.example. admin.example. 1 2 3 4 60";
        vec![(0, Response::to(query).rcode(Rcode::NXDOMAIN).authority(soa).octets())]
    });
    let answer = world.resolve("a.corp.example. A");
    answer.check(Rcode::NXDOMAIN, &[]);
    assert_eq!(answer.resolved.ttl_secs, 0);
}

#[test]
fn an_nxdomain_does_not_reach_into_another_rules_zone() {
    let mut world = split_world();
    world.serve(1, |query| {
        let soa = ". 900 SOA ns.example. admin.example. 1 2 3 4 60";
        vec![(0, Response::to(query).rcode(Rcode::NXDOMAIN).authority(soa).octets())]
    });
    assert_eq!(world.resolve("example. A").rcode(), Rcode::NXDOMAIN);
    // An alias is followed through the cache before anything is sent.
    world.serve(2, |query| match query.qname.as_str() {
        "a.corp.example." => {
            vec![(0, Response::to(query).answer("a.corp.example. 300 CNAME www.example.").octets())]
        }
        _ => any_address(query),
    });
    assert_eq!(world.resolve("b.corp.example. A").rcode(), Rcode::NOERROR);
    assert_eq!(world.sent_to(1), 2, "the first denial is verified in lower case");
    assert_eq!(world.resolve("a.corp.example. A").rcode(), Rcode::NXDOMAIN);
    assert_eq!(world.sent_to(1), 3, "without validation, a denial is for its own name only");
}

#[test]
fn records_beside_the_answer_never_reach_the_cache() {
    let mut world = World::simple(|query| {
        let response = Response::to(query)
            .answer("www.example. 300 A 192.0.2.80")
            .answer("bank.example. 300 A 192.0.2.66")
            .answer("example. 300 NS evil.example.")
            .authority("com. 300 NS evil.example.")
            .authority("example. 300 NS evil.example.")
            .authority("example. 300 DNAME evil.example.")
            .additional("ns.example. 300 A 192.0.2.66");
        vec![(0, response.octets())]
    });
    world
        .resolve("www.example. A")
        .check(Rcode::NOERROR, &["answer www.example. 300 A 192.0.2.80"]);
    for (owner, rtype) in
        [("bank.example.", 1), ("example.", 2), ("com.", 2), ("example.", 39), ("ns.example.", 1)]
    {
        assert!(!is_cached(&world, owner, rtype), "{owner} {rtype}");
    }
    assert!(is_cached(&world, "www.example.", 1));
}

#[test]
fn malformed_replies_are_passed_over_until_the_good_one_comes() {
    let mut world = World::simple(|query| {
        let good = crate::world::address(query).octets();
        let mut replies = Vec::new();
        for at in 0..50usize {
            let mut bad = good.clone();
            match at % 8 {
                0 => bad.truncate(12 + at % 20),
                1 => bad.truncate(good.len() - 1 - at % 10),
                2 => bad[2] &= 0x7f,
                3 => bad[5] = 0,
                4 => bad[7] = 200,
                5 => bad[9] = 200,
                6 => bad[2] |= 0x20,
                _ => bad[12] = 0xc0,
            }
            replies.push((at as u64 / 10, bad));
        }
        replies.push((6, good));
        replies
    });
    let answer = world.resolve("www.example. A");
    answer.check(Rcode::NOERROR, &["answer www.example. 300 A 192.0.2.80"]);
    assert_eq!((world.sent.len(), answer.at_ms - crate::world::START_MS), (1, 26));
    let counters = world.resolver.counters();
    assert_eq!(counters.malformed + counters.foreign, 50);
}

/// RFC 1035 does not mention such octets, and other resolvers accept these replies.
#[test]
fn octets_behind_the_last_record_are_ignored() {
    let behind = b"\x03www\x07example\x00\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xcb\x00\x71\x42";
    for len in [1, 12, behind.len()] {
        let mut world = World::simple(move |query| {
            let good = crate::world::address(query).octets();
            vec![(0, [&good, &behind[..len]].concat())]
        });
        for _ in 0..2 {
            let answer = world.resolve("www.example. A");
            answer.check(Rcode::NOERROR, &["answer www.example. 300 A 192.0.2.80"]);
        }
    }
}

/// Returns a reply with an A record of five octets.
fn malformed_address(query: &Query) -> Vec<(u64, Vec<u8>)> {
    let mut bad = crate::world::address(query).octets();
    let at = bad.len() - 11 - 4 - 2;
    bad[at + 1] = 5;
    bad.insert(at + 2, 0);
    vec![(0, bad)]
}

#[test]
fn after_malformed_data_one_other_upstream_is_asked() {
    for (good, rcode) in [(2, Rcode::NOERROR), (3, Rcode::SERVFAIL)] {
        let mut world = World::new(1, Faults::NONE, plan(vec![rule(".", &[1, 2, 3])]));
        for last in 1..=3 {
            match last == good {
                true => world.serve(last, |query| vec![(0, crate::world::address(query).octets())]),
                false => world.serve(last, malformed_address),
            }
        }
        let answer = world.resolve("www.example. A");
        assert_eq!((answer.resolved.rcode, world.sent.len()), (rcode, 2), "{good}");
        if rcode == Rcode::SERVFAIL {
            assert_eq!(answer.resolved.ede.map(|(code, _)| code), Some(Ede::INVALID_DATA));
        }
    }
}

#[test]
fn an_rrset_of_too_many_records_is_refused_at_once_by_whichever_upstream_it_comes() {
    for count in [257u16, 600] {
        let mut world = World::new(1, Faults::NONE, plan(vec![rule(".", &[1, 2, 3])]));
        for last in 1..=3 {
            world.serve(last, move |query| {
                let response = Response::to(query);
                let record = |number: u16| {
                    format!("{} 300 A 10.0.{}.{}", query.qname, number >> 8, number & 0xff)
                };
                let response = match query.over_tcp {
                    true => (0..count)
                        .fold(response, |response, number| response.answer(&record(number))),
                    false => response.truncated(),
                };
                vec![(0, response.octets())]
            });
        }
        let answer = world.resolve("large.example. A");
        assert_eq!(
            (answer.resolved.rcode, world.sent.len()),
            (Rcode::SERVFAIL, 2),
            "by UDP and by TCP"
        );
        assert_eq!(answer.resolved.ede.map(|(code, _)| code), Some(Ede::OTHER));
    }
}

#[test]
fn a_dname_from_above_does_not_reach_into_another_rules_zone() {
    let mut world = split_world();
    world.serve(1, |query| {
        let response = Response::to(query);
        let response = match query.qname.as_str() {
            "x.example." => response.answer("example. 300 DNAME evil."),
            _ => response.answer(&format!("{} 300 A 192.0.2.66", query.qname)),
        };
        vec![(0, response.octets())]
    });
    world.resolve("x.example. A");
    world.resolve("www.corp.evil. A");
    assert!(is_cached(&world, "example.", 39) && is_cached(&world, "www.corp.evil.", 1));
    let plan = plan(vec![rule(".", &[1]), rule("corp.example.", &[2])]);
    let assembled = |name: &str| {
        let question = question(name);
        let at = ReadAt { now: (world.net.now_ms / 1000) as u32, stale_window: 0 };
        let wanted = Wanted {
            question: Question::new(&question).unwrap(),
            dnssec_ok: false,
            checking_disabled: false,
            translates: false,
            at,
        };
        Assembler::default().assemble(&plan, &world.rrsets, &wanted, &mut Answers::default())
    };
    assert!(matches!(assembled("www.corp.evil. A"), Assembled::Complete { .. }));
    assert!(
        matches!(assembled("www.corp.example. A"), Assembled::Incomplete),
        "its own servers are asked"
    );
}

#[test]
fn a_set_beyond_the_limit_is_not_used() {
    let mut world = World::simple(|query| {
        let mut response = Response::to(query);
        for last in 0..257 {
            response = response.answer(&format!(
                "{} 300 A 10.0.{}.{}",
                query.qname,
                last / 256,
                last % 256
            ));
        }
        vec![(0, response.octets())]
    });
    world.resolve("www.example. A").check(Rcode::SERVFAIL, &[]);
    assert_eq!(world.sent.len(), 1);
}

#[test]
fn a_referral_is_no_answer() {
    let mut world = World::simple(|query| {
        vec![(0, Response::to(query).authority("example. 300 NS ns.example.").octets())]
    });
    world.resolve("www.example. A").check(Rcode::SERVFAIL, &[]);
}

/// Returns a reply with records of many kinds.
fn rich(query: &Query) -> Vec<u8> {
    let signature = "13 2 300 20300101000000 20200101000000 1 example. AAAA";
    Response::to(query)
        .answer(&format!("{} 300 CNAME a.old.example.", query.qname))
        .answer("old.example. 300 DNAME new.example.")
        .answer("a.old.example. 300 CNAME a.new.example.")
        .answer(&format!("a.new.example. 300 RRSIG A {signature}"))
        .answer("a.new.example. 300 A 192.0.2.80")
        .authority("example. 900 SOA ns.example. admin.example. 1 2 3 4 60")
        .authority("b.example. 300 NSEC z.example. A RRSIG NSEC")
        .additional("ns.example. 300 A 192.0.2.53")
        .cookie(&query.cookie.clone().unwrap_or_default())
        .ede(3)
        .octets()
}

#[test]
fn replies_damaged_anywhere_do_no_harm() {
    for seed in 0..3_000 {
        let mut chance = avocet_testkit::Chance::new(seed);
        let mut world = World::simple(move |query| {
            let mut replies = Vec::new();
            for after_ms in 0..8 {
                let mut octets = rich(query);
                for _ in 0..=chance.below(6) {
                    let at = 2 + chance.below(octets.len() as u64 - 2) as usize;
                    match chance.below(4) {
                        0 => octets.truncate(at.max(13)),
                        1 => octets.insert(at, chance.number() as u8),
                        _ => octets[at] = chance.number() as u8,
                    }
                }
                replies.push((after_ms, octets));
            }
            replies.push((9, rich(query)));
            replies
        });
        world.dnssec_ok = seed % 2 == 0;
        let answer = world.resolve("www.example. A");
        assert!(answer.at_ms - crate::world::START_MS <= 5_000, "seed {seed}");
        assert_eq!(world.resolver.in_flight(), 0, "seed {seed}");
        assert!(!is_cached(&world, "ns.example.", 1), "seed {seed}");
    }
}

/// RFC 6604 §3: the RCODE is about the last name of a chain of aliases, and that name has data.
#[test]
fn nxdomain_beside_the_data_at_the_end_of_a_chain_is_no_denial() {
    let mut world = World::simple(|query| {
        let response = Response::to(query).rcode(Rcode::NXDOMAIN);
        let response = response.answer("www.example. 60 CNAME web.example.");
        vec![(0, response.answer("web.example. 60 A 192.0.2.80").octets())]
    });
    let answer = world.resolve("www.example. A");
    assert_eq!((answer.rcode(), answer.records.len()), (Rcode::NOERROR, 2));
    // Without data at the end of the chain, it is a denial of the last name.
    world.serve(1, |query| {
        let response = Response::to(query).rcode(Rcode::NXDOMAIN);
        let response = response.answer("old.example. 60 CNAME gone.example.");
        let soa = "example. 300 SOA ns.example. admin.example. 1 2 3 4 60";
        vec![(0, response.authority(soa).octets())]
    });
    assert_eq!(world.resolve("old.example. A").rcode(), Rcode::NXDOMAIN);
}
