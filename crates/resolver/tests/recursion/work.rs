//! The work that one reply and one question can cause, for any content of 64 KiB: the number of
//! instructions, counted by callgrind.
//!
//! A reply of 64 KiB may take 1 ms at most, and a question 20 ms. These tests check both limits as
//! numbers of instructions of a debug build, which executes some twenty times as many as a release
//! build. `cargo bench -p avocet-resolver --bench hostile` prints the times of a release build.

use std::path::Path;

use avocet_resolver::{Plan, Recursion, Settings, ZoneRule};
use avocet_testkit::Response;
use avocet_testkit::instructions::{CountedTest, end_case};
use avocet_wire::Rtype;
use avocet_wire::header::TC;

use crate::attacks::rule;
use crate::replies::{Message, REPLIES, Reply};
use crate::secure::{NOW_SECS, Setup, validation};
use crate::world::{OctetScript, World, recursion, settings};

/// The function whose instructions are counted.
const COUNTED: &str = "recursion::world::counted_reply";
/// The function after which counts begin again at zero.
const CASE_END: &str = "recursion::work::end_of_case";
/// Most instructions for one reply of 64 KiB in a debug build. The most expensive reply takes
/// 78,000,000, many of which are debug assertions that names are folded. Comparing each of its
/// records with all others takes thousands of millions.
const MAX_FOR_REPLY: u64 = 100_000_000;
/// Most instructions for all replies to one question: the resolver gives up after four or five of
/// the longest, which are not all as expensive.
const MAX_FOR_QUESTION: u64 = 4 * MAX_FOR_REPLY;

/// Replies that are also sent by a forwarder, because a forwarder is trusted for names that aliases
/// lead to.
const FORWARDED: [&str; 4] = [
    "a denial by many names",
    "an RRset at its bound, and extras",
    "a chain of aliases",
    "DNAME records at every name above",
];

/// Returns a server that sends these replies over TCP.
fn hostile(reply: Reply) -> OctetScript {
    let mut number = 0;
    Box::new(move |query| {
        if !query.over_tcp {
            return vec![Message::to(query, TC).finish()];
        }
        number += 1;
        vec![reply(query, number - 1).finish()]
    })
}

/// Resolves a name with eleven labels. Returns the number of these replies that arrived.
fn ask(mut world: World) -> usize {
    world.dnssec_ok = true;
    world.resolve("a.b.c.d.e.f.g.h.i.j.example. A");
    world.take_sent().iter().filter(|line| line.ends_with("by TCP")).count()
}

fn plan(rules: Vec<ZoneRule>, recursion: Recursion) -> Plan {
    let settings = Settings { minimal: false, ..settings() };
    Plan::new(rules, settings).unwrap().with_recursion(recursion)
}

/// Returns a world with a signed zone whose server sends these replies over TCP, and with its keys.
fn of_zone(reply: Reply) -> World {
    let setup = Setup::new();
    let validation = Some(validation(&setup.root));
    let recursion = Recursion { qname_minimisation: true, validation, ..recursion() };
    let mut world = World::with_plan(7, plan(Vec::new(), recursion));
    world.wall_secs = NOW_SECS;
    world.serve(1, setup.root_script());
    let (mut own, mut hostile) = (setup.example_script(), hostile(reply));
    world.serve_octets(
        2,
        Box::new(move |query| match query.qtype {
            Rtype::DNSKEY => own(query).iter().map(Response::octets).collect(),
            _ => hostile(query),
        }),
    );
    world
}

/// Returns a world with a forwarder for all names that sends these replies.
fn of_forwarder(reply: Reply) -> World {
    let mut world = World::with_plan(7, plan(vec![rule(".", 2)], recursion()));
    world.serve_octets(2, hostile(reply));
    world
}

#[inline(never)]
fn end_of_case(name: &str, replies: usize) {
    end_case(&format!("{replies} {name}"));
}

/// Resolves one question for each kind of reply. The test below counts the instructions of this
/// test.
#[test]
fn a_question_ends_whatever_fills_64_kib() {
    for (name, reply) in REPLIES {
        let replies = ask(of_zone(*reply));
        assert!((1..=12).contains(&replies), "{name}: {replies}");
        end_of_case(name, replies);
    }
    for (name, reply) in REPLIES.iter().filter(|(name, _)| FORWARDED.contains(name)) {
        let replies = ask(of_forwarder(*reply));
        assert!((1..=12).contains(&replies), "{name}: {replies}");
        end_of_case(&format!("{name}, from a forwarder"), replies);
    }
}

#[test]
fn a_reply_of_64_kib_and_a_question_cost_bounded_instructions() {
    let counted = CountedTest {
        test: "work::a_question_ends_whatever_fills_64_kib",
        counted: COUNTED,
        case_end: CASE_END,
        directory: Path::new(env!("CARGO_TARGET_TMPDIR")).join("work"),
    };
    let cases = counted.run();
    assert_eq!(cases.len(), REPLIES.len() + FORWARDED.len(), "{cases:?}");
    let mut costly = Vec::new();
    for (case, of_question) in cases {
        let (replies, name) = case.split_once(' ').unwrap();
        let of_reply = of_question / replies.parse::<u64>().unwrap();
        println!("{name}: {replies} replies, {of_reply} instructions each, {of_question} in all");
        if of_reply > MAX_FOR_REPLY || of_question > MAX_FOR_QUESTION {
            costly.push((name.to_owned(), of_reply, of_question));
        }
    }
    assert!(costly.is_empty(), "{costly:?}");
}
