//! The traces of how questions were resolved.

use avocet_resolver::{Event, Reaction, Recursion, Step, Taken, Trace};
use avocet_testkit::{Query, Response, shown};
use avocet_wire::Rcode;

use crate::world::{World, authority, recursion};

/// Returns a few words for each step, with one dot in front for each level of its depth.
fn words(trace: &Trace) -> Vec<String> {
    let word = |event: &Event| {
        let step = match &event.step {
            Step::Seek { name, rtype, .. } => format!("seek {} {rtype}", shown(name)),
            Step::Addresses(found) => format!("found {found}"),
            Step::Cached { name, rtype, .. } => format!("cached {} {rtype}", shown(name)),
            Step::Cut { zone, .. } => format!("cut {}", shown(zone)),
            Step::Sent { server, name, carrier, .. } => {
                let name = name.as_ref().map(|name| shown(name)).unwrap_or_default();
                format!(
                    "ask {} {name}{}",
                    server.ip(),
                    if carrier.is_stream() { " tcp" } else { "" }
                )
            }
            Step::Replied { reaction: Reaction::Message(rcode), rtt_ms, .. } => {
                format!("{rcode} {rtt_ms} ms")
            }
            Step::Replied { reaction, .. } => format!("{reaction:?}"),
            Step::Silent { .. } => "silent".to_owned(),
            Step::Taken(Taken::Referral(zone)) => format!("referral {}", shown(zone)),
            Step::Taken(taken) => format!("{taken:?}").to_ascii_lowercase(),
            Step::Alias(name) => format!("on with {}", shown(name)),
            Step::Answered { rcode, .. } => format!("end {rcode}"),
            Step::Failed { ede, .. } => format!("failed {ede}"),
            other => format!("{other:?}"),
        };
        ".".repeat(event.depth.into()) + &step
    };
    trace.events().iter().map(word).collect()
}

/// Returns a world with test. without glue; its server has a name in example.
fn world() -> World {
    let mut world = World::new(Recursion { qname_minimisation: true, ..recursion() });
    let to_example: &[&str] = &["au example. 3600 NS a.example.", "ad a.example. 3600 A 192.0.2.2"];
    world.serve(
        1,
        authority(
            ".",
            &[("*test. A", &["au test. 60 NS ns.example."]), ("*example. A", to_example)],
        ),
    );
    world
        .serve(2, authority("example.", &[("ns.example. A", &["an ns.example. 300 A 192.0.2.3"])]));
    world.serve(3, authority("test.", &[("www.test. A", &["an www.test. 300 A 198.51.100.2"])]));
    world
}

#[test]
fn servers_round_trips_minimised_names_and_what_had_to_be_found_first_are_told_in_their_order() {
    let mut world = world();
    let traced = world.trace("www.test. A");
    let expected = [
        "cut .",
        "ask 192.0.2.1 test.",
        "NOERROR 20 ms",
        "referral test.",
        "cut test.",
        "seek ns.example. A",
        ".cut .",
        ".ask 192.0.2.1 example.",
        ".NOERROR 20 ms",
        ".referral example.",
        ".cut example.",
        ".ask 192.0.2.2 ns.example.",
        ".NOERROR 20 ms",
        ".answer",
        ".found 1",
        "ask 192.0.2.3 www.test.",
        "NOERROR 20 ms",
        "answer",
        "end NOERROR",
    ];
    assert_eq!(words(&traced.trace), expected);
    assert_eq!((traced.trace.took_ms(), traced.answer[7]), (80, 1));
    assert_eq!(traced.trace.events().iter().map(|event| event.at_ms).max(), Some(80));
}

#[test]
fn a_trace_asks_anew_and_uses_the_delegations_that_are_known() {
    let mut world = world();
    world.resolve("www.test. A");
    world.take_sent();
    let expected =
        ["cut test.", "ask 192.0.2.3 www.test.", "NOERROR 20 ms", "answer", "end NOERROR"];
    assert_eq!(words(&world.trace("www.test. A").trace), expected);
    assert_eq!(world.take_sent(), ["3: www.test. A"]);
    assert_eq!(world.kept().len(), 0, "what succeeds is not kept");
}

#[test]
fn what_failed_is_kept_and_a_later_failure_takes_its_place() {
    let mut world = world();
    let refuse = |query: &Query| Some(Response::to(query).rcode(Rcode::REFUSED));
    world.serve(3, Box::new(refuse));
    assert_eq!(world.resolve("www.test. A").rcode, Rcode::SERVFAIL);
    let kept = world.kept();
    let [trace] = &kept[..] else { panic!("{kept:?}") };
    let question = avocet_testkit::question("www.test. A");
    assert_eq!(trace.question(), avocet_wire::Question::new(&question));
    let told = words(trace);
    assert!(told.contains(&"error(rcode(5))".to_owned()), "{told:?}");
    assert_eq!(told.last().map(String::as_str), Some("failed 22"));
    world.resolve("www.test. A");
    assert_eq!(world.kept().len(), 1, "it is remembered as failed, and nobody was asked");
    world.pass(3_600);
    world.serve(3, Box::new(|_| None));
    world.resolve("www.test. A");
    let kept = world.kept();
    assert_eq!(kept.len(), 1);
    assert!(words(&kept[0]).contains(&"silent".to_owned()));
}

#[test]
fn silence_truncation_and_lameness_are_told() {
    let mut world = World::new(recursion());
    let two: &[&str] = &[
        "au example. 3600 NS ns1.example.",
        "au example. 3600 NS ns2.example.",
        "ad ns1.example. 3600 A 192.0.2.2",
        "ad ns2.example. 3600 A 192.0.2.3",
    ];
    world.serve(1, authority(".", &[("*example. A", two)]));
    world.serve(2, authority(".", &[("*example. A", &["au . 3600 NS a.root."])]));
    let mut zone =
        authority("example.", &[("www.example. A", &["an www.example. 300 A 198.51.100.1"])]);
    let cut = move |query: &Query| {
        zone(query).map(|reply| if query.over_tcp { reply } else { reply.truncated() })
    };
    world.serve(3, Box::new(cut));
    let mut seen = Vec::new();
    for number in 0..8 {
        seen.extend(words(
            &world.trace(&format!("{}.example. A", if number == 0 { "www" } else { "w" })).trace,
        ));
        world.pass(4_000);
    }
    for expected in ["Truncated", "ask 192.0.2.3 www.example. tcp", "lame"] {
        assert!(seen.iter().any(|word| word == expected), "{expected}: {seen:?}");
    }
}
