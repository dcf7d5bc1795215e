//! Attackers that send forged replies, or that serve zones in order to harm others, against
//! recursion.

use std::collections::HashMap;

use avocet_resolver::{
    EcsPolicy, Endpoint, Introduction, Plan, Recursion, Strategy, StubZone, Transport, ZoneRule,
};
use avocet_testkit::{Chance, Query, Response, name};
use avocet_wire::Rcode;
use avocet_wire::header::AA;

use crate::world::{World, authority, recursion, settings};

const TO_EXAMPLE: &[&str] = &["au example. 3600 NS ns.example.", "ad ns.example. 3600 A 192.0.2.2"];

/// Returns a limit that chi-square with `degrees` degrees of freedom exceeds with a probability
/// below 0.001 (approximation of Wilson and Hilferty, z = 3.09).
fn chi_square_limit(degrees: f64) -> f64 {
    let ninth = 2.0 / (9.0 * degrees);
    degrees * (1.0 - ninth + 3.09 * ninth.sqrt()).powi(3)
}

#[track_caller]
fn check_uniform(counts: &[u32]) {
    let expected = f64::from(counts.iter().sum::<u32>()) / counts.len() as f64;
    let chi: f64 =
        counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
    let limit = chi_square_limit(counts.len() as f64 - 1.0);
    assert!(chi < limit, "{chi} of {limit}");
}

/// Returns a world with the root and with example. at .2, which has one address for all names.
fn world() -> World {
    let mut world = World::new(recursion());
    world.serve(1, authority(".", &[("*example. A", TO_EXAMPLE)]));
    let any = |query: &Query| {
        Some(Response::to(query).flags(AA).answer(&format!("{} 0 A 198.51.100.1", query.qname)))
    };
    world.serve(2, Box::new(any));
    world
}

/// Returns the IDs and the letter case of this number of queries.
fn drawn(seed: u8, count: u32) -> Vec<(u16, u32)> {
    let mut world = World::with_plan(
        seed,
        Plan::new(Vec::new(), settings()).unwrap().with_recursion(recursion()),
    );
    world.serve(1, authority(".", &[]));
    (0..count)
        .map(|number| {
            world.resolve(&format!("n{number}.abcdefghijklmnop. A"));
            let octets = world.sent.pop().unwrap().octets;
            world.sent.clear();
            let label = octets
                .windows(16)
                .find(|label| label.eq_ignore_ascii_case(b"abcdefghijklmnop"))
                .unwrap();
            let case = label
                .iter()
                .fold(0, |bits, letter| bits << 1 | u32::from(letter.is_ascii_uppercase()));
            (u16::from_be_bytes([octets[0], octets[1]]), case)
        })
        .collect()
}

/// Each query also has its own socket, whose random port adds 16 bits.
#[test]
fn ids_and_letters_of_100000_recursive_queries_are_uniform_and_independent() {
    let draws = drawn(11, 100_000);
    let (mut high, mut low, mut cases) = (vec![0; 1024], vec![0; 1024], vec![0; 1024]);
    for &(id, case) in &draws {
        high[usize::from(id >> 6)] += 1;
        low[usize::from(id & 1023)] += 1;
        cases[(case & 1023) as usize] += 1;
    }
    [&high, &low, &cases].into_iter().for_each(|counts| check_uniform(counts));
    let mean = draws.iter().map(|&(id, _)| f64::from(id)).sum::<f64>() / draws.len() as f64;
    let off = |draw: &(u16, u32)| f64::from(draw.0) - mean;
    let square: f64 = draws.iter().map(|draw| off(draw).powi(2)).sum();
    let product: f64 = draws.windows(2).map(|pair| off(&pair[0]) * off(&pair[1])).sum();
    assert!((product / square).abs() < 0.01, "{}", product / square);
}

#[test]
fn two_resolvers_of_other_seeds_draw_nothing_alike() {
    let (first, second) = (drawn(1, 200), drawn(2, 200));
    let alike = first.iter().zip(&second).filter(|(a, b)| a == b).count();
    assert_eq!(alike, 0);
}

#[test]
fn of_a_hundred_thousand_forged_replies_none_is_taken() {
    let mut world = world();
    let mut chance = Chance::new(5);
    let forge = move |query: &Query| {
        let good = Response::to(query).flags(AA);
        let forged = good.clone().answer(&format!("{} 60 A 203.0.113.66", query.qname));
        let mut replies: Vec<Vec<u8>> = (0..1_000)
            .map(|at| match at % 3 {
                0 => forged.clone().id(query.id ^ (1 + chance.below(65_535) as u16)).octets(),
                1 => {
                    forged.clone().question(&avocet_testkit::question("other.example. A")).octets()
                }
                _ => {
                    let mut octets = forged.clone().id(query.id.wrapping_add(1)).octets();
                    octets[2] &= 0x7f;
                    octets
                }
            })
            .collect();
        replies.push(good.answer(&format!("{} 0 A 198.51.100.1", query.qname)).octets());
        replies
    };
    world.serve_octets(2, Box::new(forge));
    for number in 0..100 {
        let name = format!("n{number}.example.");
        let expected = format!("answer {name} 0 A 198.51.100.1");
        world.resolve(&format!("{name} A")).check(Rcode::NOERROR, &[&expected]);
    }
}

#[test]
fn malformed_replies_are_passed_over_until_the_good_one_comes() {
    let mut world = world();
    let noise = |query: &Query| {
        let good = Response::to(query)
            .flags(AA)
            .answer(&format!("{} 0 A 198.51.100.1", query.qname))
            .octets();
        let mut replies: Vec<Vec<u8>> = (0..50usize)
            .map(|at| {
                let mut bad = good.clone();
                match at % 5 {
                    0 => bad.truncate(at % 12),
                    1 => bad[2] &= 0x7f,
                    2 => bad[0] ^= 1,
                    3 => bad[2] |= 0x20,
                    _ => bad[13] ^= 1,
                }
                bad
            })
            .collect();
        replies.push(good);
        replies
    };
    world.serve_octets(2, Box::new(noise));
    let answer = world.resolve("www.example. A");
    answer.check(Rcode::NOERROR, &["answer www.example. 0 A 198.51.100.1"]);
    let sent = world.take_sent();
    assert_eq!(sent, ["1: www.example. A", "2: www.example. A"]);
}

#[test]
fn no_query_offers_more_than_1232_octets() {
    let mut world = world();
    for number in 0..50 {
        world.resolve(&format!("n{number}.example. A"));
    }
    for sent in &world.sent {
        // OPT is the last record. Its owner is the root, and its class is the UDP size.
        let opt = sent.octets.windows(3).rposition(|octets| octets == [0, 0, 41]).unwrap();
        let size = u16::from_be_bytes([sent.octets[opt + 3], sent.octets[opt + 4]]);
        assert!(size <= 1_232, "{size}");
    }
}

#[test]
fn addresses_of_no_host_in_glue_are_never_asked() {
    let mut world = World::new(recursion());
    let glue = ["0.0.0.0", "127.0.0.1", "255.255.255.255", "224.0.0.1", "10.0.0.1", "169.254.1.1"];
    let mut down: Vec<String> = Vec::new();
    for (number, ip) in glue.iter().enumerate() {
        down.push(format!("au example. 3600 NS ns{number}.example."));
        down.push(format!("ad ns{number}.example. 3600 A {ip}"));
    }
    for (number, ip) in ["::", "::1", "fe80::1", "ff02::1", "::ffff:127.0.0.1"].iter().enumerate() {
        down.push(format!("ad ns{number}.example. 3600 AAAA {ip}"));
    }
    let down: Vec<&str> = down.iter().map(String::as_str).collect();
    world.serve(
        1,
        authority(
            ".",
            &[("*example. A", &down), ("*test. A", &["an www.test. 60 A 198.51.100.9"])],
        ),
    );
    world.resolve("www.test. A");
    world.take_sent();
    assert_eq!(world.resolve("www.example. A").rcode, Rcode::SERVFAIL);
    let asked = world.take_sent();
    assert!(asked.iter().all(|sent| sent.starts_with("1: ")), "{asked:?}");
    world.resolve("www.test. A").check(Rcode::NOERROR, &["answer www.test. 60 A 198.51.100.9"]);
    assert_eq!(world.take_sent(), Vec::<String>::new(), "what was cached is there");
}

/// A delegation to 1,500 servers without an address, below a name that exists (CVE-2022-3204).
#[test]
fn a_delegation_to_1500_servers_costs_few_queries() {
    for count in [40, 100, 1_500] {
        let mut world = World::new(recursion());
        let down: Vec<String> =
            (0..count).map(|at| format!("au attack. 60 NS n{at}.victim.")).collect();
        let down: Vec<&str> = down.iter().map(String::as_str).collect();
        let to_victim: &[&str] =
            &["au victim. 3600 NS ns.victim.", "ad ns.victim. 3600 A 192.0.2.2"];
        world.serve(1, authority(".", &[("*attack. A", &down), ("*victim. A", to_victim)]));
        world.serve(2, authority("victim.", &[]));
        assert_eq!(world.resolve("x.attack. A").rcode, Rcode::SERVFAIL);
        let sent = world.take_sent();
        assert!(sent.len() <= 8, "{count}: {sent:?}");
    }
}

pub(crate) fn rule(zone: &str, last: u8) -> ZoneRule {
    ZoneRule {
        zone: name(zone).into(),
        exception: false,
        upstreams: vec![Endpoint {
            addr: ([192, 0, 2, last], 53).into(),
            transport: Transport::Udp,
        }],
        reserves: Vec::new(),
        strategy: Strategy::Ordered,
        case_randomisation: true,
        ecs: EcsPolicy::Strip,
        introduction: Introduction::None,
        timeout_ms: (50, 2_000),
    }
}

/// Forwarding and recursion do not share cached delegations (MaginotDNS).
#[test]
fn a_forwarder_is_not_believed_about_the_zones_of_others() {
    let plan = Plan::new(vec![rule("x.test.", 8)], settings()).unwrap().with_recursion(recursion());
    let mut world = World::with_plan(3, plan);
    let to_com: &[&str] = &["au com. 3600 NS ns.com.", "ad ns.com. 3600 A 192.0.2.4"];
    world.serve(1, authority(".", &[("*com. A", to_com)]));
    world.serve(4, authority("com.", &[("www.com. A", &["an www.com. 300 A 198.51.100.4"])]));
    let poison = [
        "an a.x.test. 60 A 198.51.100.8",
        "an www.com. 60 A 203.0.113.66",
        "au com. 60 NS ns.evil.com.",
        "ad ns.evil.com. 60 A 192.0.2.66",
        "ad ns.com. 60 A 192.0.2.66",
    ];
    world.serve(8, authority("x.test.", &[("a.x.test. A", &poison)]));
    world.resolve("a.x.test. A").check(Rcode::NOERROR, &["answer a.x.test. 60 A 198.51.100.8"]);
    assert_eq!(world.take_sent(), ["8: a.x.test. A"]);
    world.resolve("www.com. A").check(Rcode::NOERROR, &["answer www.com. 300 A 198.51.100.4"]);
    assert_eq!(world.take_sent(), ["1: www.com. A", "4: www.com. A"]);
}

#[test]
fn an_nxdomain_from_above_does_not_reach_into_a_stub_zone() {
    let stub = StubZone {
        zone: name("corp.test.").into(),
        servers: vec!["192.0.2.9:53".parse().unwrap()],
    };
    let mut world = World::new(Recursion { stubs: vec![stub], ..recursion() });
    world.serve(1, authority(".", &[]));
    world.serve(
        9,
        authority("corp.test.", &[("www.corp.test. A", &["an www.corp.test. 300 A 198.51.100.9"])]),
    );
    assert_eq!(world.resolve("test. A").rcode, Rcode::NXDOMAIN);
    world
        .resolve("www.corp.test. A")
        .check(Rcode::NOERROR, &["answer www.corp.test. 300 A 198.51.100.9"]);
    assert_eq!(world.resolve("other.test. A").rcode, Rcode::NXDOMAIN);
    // Without validation, a denial is for its own name only.
    assert_eq!(world.take_sent(), ["1: test. A", "9: www.corp.test. A", "1: other.test. A"]);
    assert_eq!(world.resolve("test. A").rcode, Rcode::NXDOMAIN);
    assert_eq!(world.take_sent(), Vec::<String>::new());
}

#[test]
fn an_nxdomain_for_the_apex_of_a_zone_says_nothing_of_its_ds_records() {
    let mut world = World::new(recursion());
    let to_test: &[&str] = &["au test. 3600 NS ns.test.", "ad ns.test. 3600 A 192.0.2.4"];
    let no_ds: &[&str] = &["au . 300 SOA ns. host. 1 2 3 4 300"];
    world.serve(1, authority(".", &[("test. DS", no_ds), ("*test. A", to_test)]));
    world.serve(4, authority("test.", &[]));
    assert_eq!(world.resolve("test. A").rcode, Rcode::NXDOMAIN);
    assert_eq!(world.resolve("test. DS").rcode, Rcode::NOERROR);
}

#[test]
fn a_denial_of_ds_records_from_above_does_not_deny_a_stub_zone() {
    let mut world = world_with_stub();
    world.serve(4, authority("test.", &[]));
    assert_eq!(world.resolve("corp.test. DS").rcode, Rcode::NXDOMAIN);
    let answer = world.resolve("www.corp.test. A");
    answer.check(Rcode::NOERROR, &["answer www.corp.test. 300 A 198.51.100.9"]);
}

/// Returns a world with the stub zone corp.test. at .9, the zone test. above it at .4, and evil. at
/// .5.
fn world_with_stub() -> World {
    let stub = StubZone {
        zone: name("corp.test.").into(),
        servers: vec!["192.0.2.9:53".parse().unwrap()],
    };
    let mut world = World::new(Recursion { stubs: vec![stub], ..recursion() });
    let to_test: &[&str] = &["au test. 3600 NS ns.test.", "ad ns.test. 3600 A 192.0.2.4"];
    let to_evil: &[&str] = &["au evil. 3600 NS ns.evil.", "ad ns.evil. 3600 A 192.0.2.5"];
    world.serve(1, authority(".", &[("*test. A", to_test), ("*evil. A", to_evil)]));
    let any = |query: &Query| {
        Some(Response::to(query).flags(AA).answer(&format!("{} 300 A 203.0.113.66", query.qname)))
    };
    world.serve(5, Box::new(any));
    world.serve(
        9,
        authority("corp.test.", &[("www.corp.test. A", &["an www.corp.test. 300 A 198.51.100.9"])]),
    );
    world
}

#[test]
fn a_dname_from_above_does_not_reach_into_a_stub_zone() {
    let mut world = world_with_stub();
    world.serve(4, authority("test.", &[("*test. A", &["an test. 3600 DNAME evil."])]));
    assert_eq!(
        world.resolve("x.test. A").records.len(),
        3,
        "the DNAME, the CNAME that follows from it, an address"
    );
    world.take_sent();
    world
        .resolve("www.corp.test. A")
        .check(Rcode::NOERROR, &["answer www.corp.test. 300 A 198.51.100.9"]);
    assert_eq!(world.take_sent(), ["9: www.corp.test. A"]);
}

/// A forwarder for all names sends an alias into a zone with configured servers.
#[test]
fn a_forwarder_is_not_believed_about_a_stub_zone() {
    let stub = StubZone {
        zone: name("corp.test.").into(),
        servers: vec!["192.0.2.9:53".parse().unwrap()],
    };
    let plan = Plan::new(vec![rule(".", 8)], settings()).unwrap();
    let plan = plan.with_recursion(Recursion { stubs: vec![stub], ..recursion() });
    let mut world = World::with_plan(7, plan);
    let poison: &[&str] =
        &["an www.example. 300 CNAME a.corp.test.", "an a.corp.test. 300 A 203.0.113.66"];
    world.serve(8, authority(".", &[("www.example. A", poison)]));
    world.serve(
        9,
        authority("corp.test.", &[("a.corp.test. A", &["an a.corp.test. 300 A 198.51.100.9"])]),
    );
    let alias = "answer www.example. 300 CNAME a.corp.test.";
    let own = "answer a.corp.test. 300 A 198.51.100.9";
    world.resolve("www.example. A").check(Rcode::NOERROR, &[alias, own]);
    world.resolve("a.corp.test. A").check(Rcode::NOERROR, &[own]);
    assert_eq!(world.take_sent(), ["8: www.example. A", "9: a.corp.test. A"]);
}

/// The parent answers questions for DS records, so its forwarder is queried. An alias in that
/// answer shows nothing about the name in the child zone.
#[test]
fn an_alias_in_place_of_ds_records_does_not_reach_into_a_stub_zone() {
    let stub = StubZone {
        zone: name("corp.test.").into(),
        servers: vec!["192.0.2.9:53".parse().unwrap()],
    };
    let plan = Plan::new(vec![rule(".", 8)], settings()).unwrap();
    let plan = plan.with_recursion(Recursion { stubs: vec![stub], ..recursion() });
    let mut world = World::with_plan(7, plan);
    let alias: &[&str] = &["an corp.test. 300 CNAME www.evil."];
    let forged: &[&str] = &["an www.evil. 300 A 203.0.113.66"];
    world.serve(8, authority(".", &[("corp.test. DS", alias), ("www.evil. A", forged)]));
    let own: &[&str] = &["an corp.test. 300 A 198.51.100.9"];
    world.serve(9, authority("corp.test.", &[("corp.test. A", own)]));
    world.resolve("corp.test. DS");
    world.take_sent();
    let expected = ["answer corp.test. 300 A 198.51.100.9"];
    world.resolve("corp.test. A").check(Rcode::NOERROR, &expected);
    assert_eq!(world.take_sent(), ["9: corp.test. A"]);
}

/// Names that are excepted from a rule are resolved from the root. Data from the servers of the
/// rule does not apply to them.
#[test]
fn a_forwarders_dname_and_nxdomain_do_not_reach_into_a_zone_that_is_excepted() {
    let excepted = ZoneRule { exception: true, upstreams: Vec::new(), ..rule("open.test.", 8) };
    for above in ["an test. 3600 DNAME evil.", ""] {
        let plan = Plan::new(vec![rule(".", 8), excepted.clone()], settings()).unwrap();
        let mut world = World::with_plan(7, plan.with_recursion(recursion()));
        let records: Vec<&str> = [above].into_iter().filter(|record| !record.is_empty()).collect();
        let known: &[(&str, &[&str])] =
            &[("x.test. A", &records), ("x.evil. A", &["an x.evil. 60 A 203.0.113.66"])];
        world.serve(8, authority(".", if above.is_empty() { &[] } else { known }));
        world.serve(
            1,
            authority(".", &[("www.open.test. A", &["an www.open.test. 300 A 198.51.100.9"])]),
        );
        world.resolve(if above.is_empty() { "test. A" } else { "x.test. A" });
        world.take_sent();
        world
            .resolve("www.open.test. A")
            .check(Rcode::NOERROR, &["answer www.open.test. 300 A 198.51.100.9"]);
        assert_eq!(world.take_sent(), ["1: www.open.test. A"], "{above}");
    }
}

#[test]
fn a_zone_taken_away_from_above_is_gone_when_its_delegation_expires() {
    let mut world = World::new(recursion());
    let down: &[&str] = &["au ghost. 100 NS ns.ghost.", "ad ns.ghost. 100 A 192.0.2.2"];
    world.serve(1, authority(".", &[("*ghost. A", down)]));
    // With each answer, the child sends its own NS RRset with a TTL of one day.
    let refresh = |query: &Query| {
        let answer = format!("{} 10 A 198.51.100.1", query.qname);
        let response = Response::to(query).flags(AA).answer(&answer);
        Some(
            response
                .authority("ghost. 86400 NS ns.ghost.")
                .additional("ns.ghost. 86400 A 192.0.2.2"),
        )
    };
    world.serve(2, Box::new(refresh));
    assert_eq!(world.resolve("www.ghost. A").rcode, Rcode::NOERROR);
    world.serve(1, authority(".", &[]));
    let mut revoked_at_secs = None;
    for secs in (0..400).step_by(20) {
        if world.resolve("www.ghost. A").rcode == Rcode::NXDOMAIN {
            revoked_at_secs = Some(secs);
            break;
        }
        world.pass(20);
    }
    assert!(revoked_at_secs.is_some_and(|secs| secs <= 120), "{revoked_at_secs:?}");
}

/// Phoenix domains: a delegation expires at the latest with the delegation of the zone that sent
/// it.
#[test]
fn a_delegation_below_a_zone_that_was_taken_away_goes_with_it() {
    let mut world = World::new(recursion());
    let down: &[&str] = &["au ghost. 100 NS ns.ghost.", "ad ns.ghost. 100 A 192.0.2.2"];
    world.serve(1, authority(".", &[("*ghost. A", down)]));
    let below: &[&str] =
        &["au sub.ghost. 86400 NS ns.sub.ghost.", "ad ns.sub.ghost. 86400 A 192.0.2.3"];
    world.serve(2, authority("ghost.", &[("*sub.ghost. A", below)]));
    let names: Vec<String> = (0..20).map(|number| format!("n{number}.sub.ghost.")).collect();
    let answers: Vec<String> =
        names.iter().map(|name| format!("an {name} 10 A 198.51.100.1")).collect();
    let asked: Vec<String> = names.iter().map(|name| format!("{name} A")).collect();
    let records: Vec<[&str; 1]> = answers.iter().map(|answer| [answer.as_str()]).collect();
    let all: Vec<(&str, &[&str])> =
        asked.iter().zip(&records).map(|(asked, set)| (asked.as_str(), &set[..])).collect();
    world.serve(3, authority("sub.ghost.", &all));
    world.resolve("n0.sub.ghost. A");
    world.pass(60);
    assert_eq!(world.resolve("n1.sub.ghost. A").rcode, Rcode::NOERROR);
    world.serve(1, authority(".", &[]));
    world.pass(60);
    assert_eq!(world.resolve("n2.sub.ghost. A").rcode, Rcode::NXDOMAIN);
}

/// Names with equal hashes under a simple sum of letters cost no more than other names, because the
/// hash keys of all maps are random.
#[test]
fn equal_questions_of_many_names_cost_a_query_each() {
    let mut world = world();
    let mut names = HashMap::new();
    for number in 0..100 {
        let name = format!("r{}.example.", number * 7_919);
        world.resolve(&format!("{name} A"));
        *names.entry(name).or_insert(0) += 1;
    }
    assert!(world.take_sent().len() <= 103, "as many as there are names, and the way to the zone");
}
