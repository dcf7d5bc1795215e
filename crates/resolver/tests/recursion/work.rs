//! The work that one reply and one question can cause, whatever a server puts into 64 KiB:
//! instructions, counted by callgrind.
//!
//! A reply of 64 KiB is to cost 1 ms at most, and a question 20 ms. Both are held here as
//! instructions of an unoptimised build, which runs some twenty times as many as a release;
//! `cargo bench -p avocet-resolver --bench hostile` prints the times of a release.

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
/// 66,000,000, of which 28,000,000 are debug assertions that names are folded. Comparing each of
/// its records with all others takes thousands of millions.
const MAX_FOR_REPLY: u64 = 80_000_000;
/// Most instructions for all replies to one question: the resolver gives up after four or five of
/// the longest, which are not all as expensive.
const MAX_FOR_QUESTION: u64 = 4 * MAX_FOR_REPLY;

/// Replies that a forwarder is asked for, too: it is believed about names that aliases lead to.
const FORWARDED: [&str; 4] = [
    "a denial by many names",
    "an RRset at its bound, and extras",
    "a chain of aliases",
    "DNAME records at every name above",
];

/// Sends such replies over TCP.
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

/// Asks a question with eleven labels. Returns how many such replies came.
fn ask(mut world: World) -> usize {
    world.dnssec_ok = true;
    world.resolve("a.b.c.d.e.f.g.h.i.j.example. A");
    world.take_sent().iter().filter(|line| line.ends_with("by TCP")).count()
}

fn plan(rules: Vec<ZoneRule>, recursion: Recursion) -> Plan {
    let settings = Settings { minimal: false, ..settings() };
    Plan::new(rules, settings).unwrap().with_recursion(recursion)
}

/// A signed zone whose server sends such replies over TCP, and its keys.
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

/// A forwarder for all names that sends such replies.
fn of_forwarder(reply: Reply) -> World {
    let mut world = World::with_plan(7, plan(vec![rule(".", 2)], recursion()));
    world.serve_octets(2, hostile(reply));
    world
}

/// Callgrind writes the counts of a case to a file when this returns.
#[inline(never)]
fn end_of_case(name: &str, replies: usize) {
    // What libtest prints before has no end of line.
    println!("\ncase {replies} {name}");
}

/// Asks one question for each kind of reply, which is what the test below counts.
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
