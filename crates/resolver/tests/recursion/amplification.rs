//! The number of queries that one question causes in the worst case, with QNAME minimisation (S9,
//! S10 and S12 in tests/SECURITY.md).

use avocet_resolver::Recursion;
use avocet_testkit::{Query, Response};
use avocet_wire::Rcode;
use avocet_wire::header::{AA, RA, RD};

use crate::world::{Answer, World, authority, recursion};

const TO_EXAMPLE: &[&str] = &["au example. 3600 NS ns.example.", "ad ns.example. 3600 A 192.0.2.2"];

fn world() -> World {
    World::new(Recursion { qname_minimisation: true, ..recursion() })
}

fn borrowed(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).collect()
}

/// Resolves a question, and checks the number of queries that it causes.
#[track_caller]
fn check(world: &mut World, question: &str, rcode: Rcode, most: usize) -> Answer {
    let answer = world.resolve(question);
    let sent = world.take_sent();
    assert_eq!(answer.rcode, rcode, "{} queries: {sent:?}", sent.len());
    assert!(sent.len() <= most, "{} queries: {sent:?}", sent.len());
    answer
}

/// Returns a world with delegations of names below attack. to servers below victim. that have no
/// address.
fn to_missing_servers(count: u32) -> World {
    let mut world = world();
    let referral: Vec<String> =
        (0..count).map(|number| format!("au attack. 60 NS ns{number}.victim.")).collect();
    let to_victim: &[&str] = &["au victim. 3600 NS ns.victim.", "ad ns.victim. 3600 A 192.0.2.2"];
    world.serve(
        1,
        authority(".", &[("*attack. A", &borrowed(&referral)), ("*victim. A", to_victim)]),
    );
    world.serve(2, authority("victim.", &[]));
    world
}

#[test]
fn nxns_of_a_hundred_servers_without_an_address_costs_6_queries() {
    let answer = check(&mut to_missing_servers(100), "x.attack. A", Rcode::SERVFAIL, 6);
    assert_eq!(answer.ede, Some(22));
}

#[test]
fn camp_of_forty_servers_without_an_address_costs_6_queries() {
    let answer = check(&mut to_missing_servers(40), "x.attack. A", Rcode::SERVFAIL, 6);
    assert_eq!(answer.ede, Some(22));
}

/// As in NXNSAttack: the domain of the servers does not exist, or each server has a domain of its
/// own.
#[test]
fn servers_without_an_address_in_domains_that_do_not_exist_cost_6_queries() {
    for server in ["ns{}.gone.victim.", "ns{}.gone.a.b.victim.", "ns.gone{}.b.victim."] {
        let mut world = world();
        let referral: Vec<String> = (0..100)
            .map(|number| format!("au attack. 60 NS {}", server.replace("{}", &number.to_string())))
            .collect();
        let to_victim: &[&str] =
            &["au victim. 3600 NS ns.victim.", "ad ns.victim. 3600 A 192.0.2.2"];
        world.serve(
            1,
            authority(".", &[("*attack. A", &borrowed(&referral)), ("*victim. A", to_victim)]),
        );
        let known: &[&str] = &["an x.b.victim. 60 A 192.0.2.9"];
        world.serve(
            2,
            authority("victim.", &[("x.b.victim. A", known), ("x.a.b.victim. A", known)]),
        );
        world.resolve("x.b.victim. A");
        world.resolve("x.a.b.victim. A");
        world.take_sent();
        check(&mut world, "x.attack. A", Rcode::SERVFAIL, 6);
    }
}

/// Denials of whole domains by a top-level domain do not count as failed look-ups: a zone may have
/// many servers in domains that have expired, and is resolved if one server is left (RFC 1035
/// §7.1). The number of queries to the top-level domain is limited all the same.
#[test]
fn servers_in_domains_that_are_not_registered_cost_20_queries() {
    let mut world = world();
    let referral: Vec<String> =
        (0..100).map(|number| format!("au attack. 60 NS ns.gone{number}.victim.")).collect();
    let to_victim: &[&str] = &["au victim. 3600 NS ns.victim.", "ad ns.victim. 3600 A 192.0.2.2"];
    world.serve(
        1,
        authority(".", &[("*attack. A", &borrowed(&referral)), ("*victim. A", to_victim)]),
    );
    world.serve(2, authority("victim.", &[]));
    check(&mut world, "x.attack. A", Rcode::SERVFAIL, 20);
    // The denials are cached, and so is the failure to find an address.
    check(&mut world, "y.attack. A", Rcode::SERVFAIL, 6);
}

#[test]
fn silent_servers_of_the_configuration_cost_8_queries() {
    use avocet_resolver::StubZone;
    use avocet_testkit::name;
    let servers = ["192.0.2.7:53", "192.0.2.8:53"].map(|server| server.parse().unwrap()).to_vec();
    let stub = StubZone { zone: name("corp.").into(), servers };
    let mut world =
        World::new(Recursion { stubs: vec![stub], qname_minimisation: true, ..recursion() });
    check(&mut world, "a.b.corp. A", Rcode::SERVFAIL, 8);
    world.serve(7, authority("corp.", &[("www.corp. A", &["an www.corp. 5 A 10.0.0.1"])]));
    assert_eq!(world.resolve("www.corp. A").rcode, Rcode::NOERROR);
    world.silence();
    world.take_sent();
    check(&mut world, "b.corp. A", Rcode::SERVFAIL, 8);
}

#[test]
fn aliases_without_end_cost_13_queries() {
    let mut world = world();
    let endless = |query: &Query| {
        let number: u32 = query.qname.trim_matches(['n', '.']).parse().unwrap();
        Some(Response::to(query).flags(AA).answer(&format!("n{number}. 60 CNAME n{}.", number + 1)))
    };
    world.serve(1, Box::new(endless));
    check(&mut world, "n1. A", Rcode::SERVFAIL, 13);
}

/// Each alias leads into an unknown zone, and the servers of this zone are in another unknown zone.
/// Both zones are in top-level domains of their own.
#[test]
fn eleven_aliases_into_zones_with_servers_elsewhere_cost_72_queries() {
    fn referral(query: &Query, zone: &str, last: u8) -> Option<Response> {
        let response = Response::to(query).without_flags(RA | RD);
        let response = response.authority(&format!("{zone} 3600 NS ns.{zone}"));
        Some(response.additional(&format!("ns.{zone} 3600 A 192.0.2.{last}")))
    }
    /// The last labels of a name.
    fn zone(query: &Query, labels: usize) -> String {
        let all: Vec<&str> = query.qname.trim_end_matches('.').split('.').collect();
        format!("{}.", all[all.len() - labels..].join("."))
    }
    let mut world = world();
    world.serve(1, Box::new(|query| referral(query, &zone(query, 1), 2)));
    let of_domains = |query: &Query| {
        let zone = zone(query, 2);
        let Some(number) = zone.strip_prefix("shop.web") else { return referral(query, &zone, 3) };
        let response = Response::to(query).without_flags(RA | RD);
        Some(response.authority(&format!("{zone} 3600 NS ns.host.dns{number}")))
    };
    world.serve(2, Box::new(of_domains));
    let answer = |query: &Query| {
        let response = Response::to(query).without_flags(RA | RD).flags(AA);
        let name = query.qname.as_str();
        let number = name.strip_prefix("www.shop.web").map(|rest| rest.trim_end_matches('.'));
        Some(match number.map(|number| number.parse::<u32>().unwrap()) {
            Some(number @ 1..=11) => {
                response.answer(&format!("{name} 60 CNAME www.shop.web{}.", number + 1))
            }
            _ => response.answer(&format!("{name} 60 A 192.0.2.4")),
        })
    };
    world.serve(3, Box::new(answer));
    world.serve(4, Box::new(answer));
    check(&mut world, "www.shop.web1. A", Rcode::NOERROR, 72);
}

#[test]
fn aliases_in_a_circle_cost_3_queries() {
    let mut world = world();
    let circle: &[(&str, &[&str])] = &[
        ("a. A", &["an a. 60 CNAME b."]),
        ("b. A", &["an b. 60 CNAME a."]),
        ("self. A", &["an self. 60 CNAME self."]),
    ];
    world.serve(1, authority(".", circle));
    check(&mut world, "a. A", Rcode::SERVFAIL, 3);
    check(&mut world, "self. A", Rcode::SERVFAIL, 3);
}

#[test]
fn delegations_in_a_circle_cost_5_queries_and_end_at_once() {
    let mut world = world();
    let answers: &[(&str, &[&str])] =
        &[("*one. A", &["au one. 60 NS ns.two."]), ("*two. A", &["au two. 60 NS ns.one."])];
    world.serve(1, authority(".", answers));
    let answer = check(&mut world, "www.one. A", Rcode::SERVFAIL, 5);
    assert!(answer.took_ms < 1_000, "{} ms", answer.took_ms);
}

#[test]
fn thirteen_dead_servers_cost_14_queries_and_5_seconds() {
    let mut world = world();
    let ns = (0..13).map(|number| format!("au example. 3600 NS ns{number}.example."));
    let glue =
        (0..13).map(|number| format!("ad ns{number}.example. 3600 A 192.0.2.{}", 20 + number));
    let down: Vec<String> = ns.chain(glue).collect();
    world.serve(1, authority(".", &[("*example. A", &borrowed(&down))]));
    let answer = check(&mut world, "www.example. A", Rcode::SERVFAIL, 14);
    assert_eq!(answer.ede, Some(22));
    assert!(answer.took_ms <= 5_000, "{} ms", answer.took_ms);
}

#[test]
fn servers_that_fail_or_refuse_cost_4_queries() {
    for rcode in [Rcode::REFUSED, Rcode::SERVFAIL] {
        let mut world = world();
        world.serve(1, authority(".", &[("*example. A", TO_EXAMPLE)]));
        world.serve(2, Box::new(move |query| Some(Response::to(query).rcode(rcode))));
        check(&mut world, "www.example. A", Rcode::SERVFAIL, 4);
    }
}

#[test]
fn referrals_to_itself_and_upward_cost_4_queries() {
    for owner in ["example.", "."] {
        let mut world = world();
        world.serve(1, authority(".", &[("*example. A", TO_EXAMPLE)]));
        let back = format!("au {owner} 3600 NS ns.example.");
        world.serve(2, authority("example.", &[("*example. A", &[&back])]));
        let answer = check(&mut world, "www.example. A", Rcode::SERVFAIL, 4);
        assert_eq!(answer.ede, Some(22));
    }
}

#[test]
fn a_name_of_sixty_labels_costs_11_queries() {
    let mut world = world();
    world.serve(1, authority(".", &[("*example. A", TO_EXAMPLE)]));
    let name = format!("{}example.", "x.".repeat(59));
    let (question, address) = (format!("{name} A"), format!("an {name} 60 A 198.51.100.1"));
    world.serve(2, authority("example.", &[(&question, &[&address])]));
    check(&mut world, &question, Rcode::NOERROR, 11);
}

#[test]
fn a_hundred_random_names_cost_103_queries() {
    let mut world = world();
    world.serve(1, authority(".", &[("*example. A", TO_EXAMPLE)]));
    world.serve(
        2,
        authority("example.", &[("www.example. A", &["an www.example. 60 A 198.51.100.1"])]),
    );
    for number in 0..100 {
        assert_eq!(world.resolve(&format!("r{number}.example. A")).rcode, Rcode::NXDOMAIN);
    }
    let sent = world.take_sent();
    assert!(sent.len() <= 103, "{}", sent.len());
}
