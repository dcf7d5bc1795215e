//! What a question may cost (S9, S10, S11, S12), and what is said when it costs too much.

use avocet_testkit::{Query, Response};
use avocet_wire::Rcode;

use crate::world::{World, authority, recursion};

/// A referral to a zone of many servers that have no address and lie under `below`.
fn many(zone: &str, count: u32, below: &str) -> Vec<String> {
    (0..count).map(|number| format!("au {zone} 60 NS ns{number}.{below}")).collect()
}

fn borrowed(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).collect()
}

const TO_VICTIM: &[&str] = &["au victim. 3600 NS ns.victim.", "ad ns.victim. 3600 A 192.0.2.2"];

#[test]
fn a_delegation_to_a_hundred_missing_servers_costs_few_queries() {
    let mut world = World::new(recursion());
    let referral = many("attack.", 100, "victim.");
    world.serve(1, authority(".", &[("*attack. A", &borrowed(&referral)), ("*victim. A", TO_VICTIM)]));
    world.serve(2, authority("victim.", &[]));
    let answer = world.resolve("x.attack. A");
    assert_eq!((answer.rcode, answer.ede), (Rcode::SERVFAIL, Some(22)));
    let sent = world.take_sent();
    assert!(sent.len() <= 8, "{sent:?}");
}

#[test]
fn delegations_in_a_circle_end_at_once() {
    let mut world = World::new(recursion());
    let answers: &[(&str, &[&str])] =
        &[("*one. A", &["au one. 60 NS ns.two."]), ("*two. A", &["au two. 60 NS ns.one."])];
    world.serve(1, authority(".", answers));
    let answer = world.resolve("www.one. A");
    assert_eq!(answer.rcode, Rcode::SERVFAIL);
    assert!(answer.took_ms < 1_000, "{} ms", answer.took_ms);
    let sent = world.take_sent();
    assert!(sent.len() <= 5, "{sent:?}");
}

#[test]
fn aliases_in_a_circle_and_without_end_are_given_up() {
    let mut world = World::new(recursion());
    let circle: &[(&str, &[&str])] = &[
        ("a. A", &["an a. 60 CNAME b."]),
        ("b. A", &["an b. 60 CNAME a."]),
        ("self. A", &["an self. 60 CNAME self."]),
    ];
    world.serve(1, authority(".", circle));
    assert_eq!(world.resolve("a. A").rcode, Rcode::SERVFAIL);
    assert!(world.take_sent().len() <= 3);
    assert_eq!(world.resolve("self. A").rcode, Rcode::SERVFAIL);
    world.take_sent();
    let endless = |query: &Query| {
        let number: u32 = query.qname.trim_matches(['n', '.']).parse().unwrap();
        Some(
            Response::to(query).flags(avocet_wire::header::AA).answer(&format!("n{number}. 60 CNAME n{}.", number + 1)),
        )
    };
    world.serve(1, Box::new(endless));
    assert_eq!(world.resolve("n1. A").rcode, Rcode::SERVFAIL);
    let sent = world.take_sent();
    assert!(sent.len() <= 13, "{sent:?}");
}

#[test]
fn self_and_upward_referrals_are_lame() {
    for owner in ["example.", "."] {
        let mut world = World::new(recursion());
        let down: &[&str] = &["au example. 3600 NS ns.example.", "ad ns.example. 3600 A 192.0.2.2"];
        world.serve(1, authority(".", &[("*example. A", down)]));
        let back = format!("au {owner} 3600 NS ns.example.");
        world.serve(2, authority("example.", &[("*example. A", &[&back])]));
        let answer = world.resolve("www.example. A");
        assert_eq!((answer.rcode, answer.ede), (Rcode::SERVFAIL, Some(22)));
        let sent = world.take_sent();
        assert!(sent.len() <= 4, "{owner}: {sent:?}");
    }
}

#[test]
fn servers_that_refuse_or_fail_are_asked_once_each() {
    for rcode in [Rcode::REFUSED, Rcode::SERVFAIL] {
        let mut world = World::new(recursion());
        let down: &[&str] = &["au example. 3600 NS ns.example.", "ad ns.example. 3600 A 192.0.2.2"];
        world.serve(1, authority(".", &[("*example. A", down)]));
        world.serve(2, Box::new(move |query| Some(Response::to(query).rcode(rcode))));
        assert_eq!(world.resolve("www.example. A").rcode, Rcode::SERVFAIL);
        let sent = world.take_sent();
        assert!(sent.len() <= 4, "{rcode}: {sent:?}");
    }
}

#[test]
fn dead_servers_end_in_time_and_a_living_one_among_them_is_found() {
    let mut world = World::new(recursion());
    let mut down: Vec<String> = Vec::new();
    for number in 0..13 {
        down.push(format!("au example. 3600 NS ns{number}.example."));
        down.push(format!("ad ns{number}.example. 3600 A 192.0.2.{}", 20 + number));
    }
    world.serve(1, authority(".", &[("*example. A", &borrowed(&down))]));
    let answer = world.resolve("www.example. A");
    assert_eq!((answer.rcode, answer.ede), (Rcode::SERVFAIL, Some(22)));
    assert!(answer.took_ms <= 5_000, "{} ms", answer.took_ms);
    let sent = world.take_sent();
    assert!(sent.len() <= 14, "{}", sent.len());
}

#[test]
fn a_server_that_always_wants_another_cookie_is_given_up() {
    let mut world = World::new(recursion());
    let down: &[&str] = &["au example. 3600 NS ns.example.", "ad ns.example. 3600 A 192.0.2.2"];
    world.serve(1, authority(".", &[("*example. A", down)]));
    world.serve(
        2,
        Box::new(|query| {
            let cookie = query.cookie.as_ref().map(|cookie| [&cookie[..8], b"otherone"].concat());
            let response = Response::to(query).rcode(Rcode::BADCOOKIE);
            Some(match cookie {
                Some(cookie) => response.cookie(&cookie),
                None => response,
            })
        }),
    );
    assert_eq!(world.resolve("www.example. A").rcode, Rcode::SERVFAIL);
    let to_example = world.take_sent().iter().filter(|sent| sent.starts_with("2:")).count();
    assert!(to_example <= 3, "{to_example}");
}
