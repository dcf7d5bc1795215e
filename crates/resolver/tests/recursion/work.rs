//! The work that one reply and one question can cause, for any content of 64 KiB: the number of
//! instructions, counted by callgrind.
//!
//! A reply of 64 KiB may take 1 ms at most, and a question 20 ms. These tests check both limits as
//! numbers of instructions of a debug build, which executes some twenty times as many as a release
//! build. `cargo bench -p avocet-resolver --bench hostile` prints the times of a release build.

use std::fs;
use std::path::Path;
use std::process::Command;

use avocet_resolver::{Plan, Recursion, Settings, ZoneRule};
use avocet_testkit::Response;
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
/// 78,000,000, a third of which are debug assertions that names are folded. Comparing each of its
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

/// Marks the end of a case: callgrind writes the counts to a file when this function returns.
#[inline(never)]
fn end_of_case(name: &str, replies: usize) {
    // The output of libtest before this line does not end with a line feed.
    println!("\ncase {replies} {name}");
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
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("work");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let out = directory.join("counts");
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--tool=callgrind", "--collect-atstart=no"]);
    command.arg(format!("--toggle-collect={COUNTED}")).arg(format!("--dump-after={CASE_END}"));
    command.arg(format!("--callgrind-out-file={}", out.display()));
    command.arg(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "work::a_question_ends_whatever_fills_64_kib",
        "--nocapture",
        "--test-threads=1",
    ]);
    let output = command.output().expect("valgrind is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let cases: Vec<(u64, &str)> = text.lines().filter_map(case).collect();
    assert_eq!(cases.len(), REPLIES.len() + FORWARDED.len(), "{text}");
    let mut costly = Vec::new();
    for (number, (replies, name)) in (1..).zip(cases) {
        let counts = fs::read_to_string(directory.join(format!("counts.{number}"))).unwrap();
        let of_question: u64 = counts.lines().find_map(total).unwrap();
        let of_reply = of_question / replies;
        println!("{name}: {replies} replies, {of_reply} instructions each, {of_question} in all");
        if of_reply > MAX_FOR_REPLY || of_question > MAX_FOR_QUESTION {
            costly.push((name, of_reply, of_question));
        }
    }
    assert!(costly.is_empty(), "{costly:?}");
}

fn case(line: &str) -> Option<(u64, &str)> {
    let (replies, name) = line.strip_prefix("case ")?.split_once(' ')?;
    Some((replies.parse().ok()?, name))
}

fn total(line: &str) -> Option<u64> {
    line.strip_prefix("totals:")?.trim().split(' ').next()?.parse().ok()
}
