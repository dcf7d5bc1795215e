//! The cost and the duration of failures: a bogus zone, a wrong clock, and a chain of trust that
//! cannot be fetched.

use avocet_testkit::{Query, Response};
use avocet_wire::Rcode;

use crate::secure::{NOW_SECS, Setup};

/// Seconds after the clock is corrected until names resolve again.
const RECOVERY_SECS: u64 = 60;

#[test]
fn with_a_clock_of_1970_signatures_are_not_yet_valid_and_all_is_well_soon_after_it_is_set() {
    let setup = Setup::new();
    let mut world = setup.world(|_| {});
    world.wall_secs = 10;
    let answer = world.resolve("www.example. A");
    assert_eq!((answer.rcode, answer.ede, answer.authentic), (Rcode::SERVFAIL, Some(8), false));
    world.pass(RECOVERY_SECS);
    world.wall_secs = NOW_SECS;
    let answer = world.resolve("www.example. A");
    assert_eq!((answer.rcode, answer.authentic), (Rcode::NOERROR, true));
}

#[test]
fn a_verdict_does_not_outlive_the_signature_when_the_clock_steps_on() {
    let setup = Setup::new();
    let mut world = setup.world(|_| {});
    assert!(world.resolve("www.example. A").authentic);
    world.pass(400);
    world.wall_secs = NOW_SECS + 30 * 86_400;
    let answer = world.resolve("www.example. A");
    assert_eq!((answer.rcode, answer.authentic), (Rcode::SERVFAIL, false));
    world.pass(RECOVERY_SECS);
    world.wall_secs = NOW_SECS;
    assert!(world.resolve("www.example. A").authentic);
}

#[test]
fn a_bogus_zone_costs_twice_the_queries_at_most_and_its_failure_is_remembered() {
    let setup = Setup::new();
    let mut world = setup.world(|_| {});
    world.resolve("www.example. A");
    let normal = world.take_sent().len();
    let mut setup = Setup::new();
    setup.www[0] = setup.www[0].replace("198.51.100.1", "203.0.113.66");
    let mut world = setup.world(|_| {});
    let answer = world.resolve("www.example. A");
    assert_eq!((answer.rcode, answer.ede), (Rcode::SERVFAIL, Some(6)));
    let bogus = world.take_sent().len();
    assert!(bogus <= 2 * normal, "{bogus} queries, {normal} where nothing is wrong");
    world.pass(4);
    assert_eq!(world.resolve("www.example. A").rcode, Rcode::SERVFAIL);
    assert_eq!(world.take_sent().len(), 0, "it is remembered for five seconds at least");
    world.pass(301);
    world.wall_secs = NOW_SECS;
    world.resolve("www.example. A");
    assert!(!world.take_sent().is_empty(), "and for five minutes at most");
}

/// One set of counters limits a question together with all queries for its validation.
#[test]
fn a_chain_of_trust_that_cannot_be_had_stays_within_the_queries_of_one_question() {
    let setup = Setup::new();
    let mut world = setup.world(|_| {});
    let www = setup.www.clone();
    let silent_about_keys =
        move |query: &Query| {
            if query.qtype != avocet_wire::Rtype::A {
                return None;
            }
            let response = Response::to(query).flags(avocet_wire::header::AA);
            Some(www.iter().fold(response, |response, record| {
                response.answer(record.trim_start_matches("an "))
            }))
        };
    world.serve(2, Box::new(silent_about_keys));
    let answer = world.resolve("www.example. A");
    assert_eq!(answer.rcode, Rcode::SERVFAIL);
    assert!(answer.took_ms <= 10_000, "{} ms", answer.took_ms);
    let sent = world.take_sent().len();
    assert!(sent <= 64, "{sent}");
}
