//! The work that one reply and one question can cause, whatever a server puts into 64 KiB: instructions, counted by
//! callgrind.
//!
//! A reply of 64 KiB is to cost 1 ms at most, and a question 20 ms. Both are held here as instructions of an
//! unoptimised build, which runs some ten times as many as a release; `cargo bench -p avocet-resolver --bench hostile`
//! prints the times of a release.

use std::fs;
use std::path::Path;
use std::process::Command;

use avocet_resolver::{Plan, Recursion, Settings};
use avocet_testkit::{Query, Response};
use avocet_wire::Rtype;
use avocet_wire::header::{AA, QR, TC};

use crate::secure::{NOW_SECS, Setup, validation};
use crate::world::{World, recursion, settings};

/// The function whose instructions are counted.
const COUNTED: &str = "recursion::world::counted_reply";
/// The function after which counts begin again at zero.
const CASE_END: &str = "recursion::work::end_of_case";
/// Most instructions for one reply of 64 KiB. The dearest takes 27,000,000; comparing each of its records with all
/// others takes thousands of millions.
const MAX_FOR_REPLY: u64 = 35_000_000;
/// Most instructions for all replies to one question: it is given up after four or five of the longest.
const MAX_FOR_QUESTION: u64 = 5 * MAX_FOR_REPLY;

/// A message that is filled with records until it has 64 KiB.
struct Message {
    octets: Vec<u8>,
    counts: [u16; 4],
}

impl Message {
    fn to(query: &Query, flags: u16) -> Self {
        let mut octets = query.id.to_be_bytes().to_vec();
        octets.extend((QR | flags).to_be_bytes());
        octets.extend([0; 8]);
        octets.extend(&query.question);
        Self { octets, counts: [1, 0, 0, 0] }
    }

    /// Adds a record if there is room for it.
    fn add(&mut self, section: usize, (owner, rtype): (&[u8], u16), rdata: &[u8]) -> bool {
        let has_room = self.octets.len() + owner.len() + 10 + rdata.len() <= 65_535;
        if has_room {
            self.octets.extend(owner);
            for field in [rtype, 1, 0, 300, rdata.len() as u16] {
                self.octets.extend(field.to_be_bytes());
            }
            self.octets.extend(rdata);
            self.counts[section] += 1;
        }
        has_room
    }

    /// Adds records by their number until there is no room.
    fn fill(&mut self, section: usize, rtype: u16, record: impl Fn(u16) -> (Vec<u8>, Vec<u8>)) {
        let mut number = 0;
        loop {
            let (owner, rdata) = record(number);
            if !self.add(section, (&owner, rtype), &rdata) {
                return;
            }
            number += 1;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        for (at, count) in self.counts.iter().enumerate() {
            self.octets[4 + 2 * at..6 + 2 * at].copy_from_slice(&count.to_be_bytes());
        }
        self.octets
    }
}

const ANSWER: usize = 1;
const AUTHORITY: usize = 2;
const ADDITIONAL: usize = 3;
/// A type whose data is any octets.
const PRIVATE: u16 = 65_280;
/// The question's name.
const QNAME: [u8; 2] = [0xc0, 12];
/// An NSEC record without a meaning: the next name is the root, and there is an A record.
const NSEC: &[u8] = &[0, 0, 1, 0x40];
const SOA: &[u8] = &[0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 44];

/// A pointer to the question's name without its first `labels` labels.
fn above(query: &Query, labels: usize) -> [u8; 2] {
    let mut at = 0;
    for _ in 0..labels {
        at += 1 + usize::from(query.question[at]);
    }
    (0xc000 | (12 + at) as u16).to_be_bytes()
}

/// A name of one label right below the one that a pointer leads to.
fn below(number: u16, pointer: [u8; 2]) -> Vec<u8> {
    let [high, low] = number.to_be_bytes();
    [&[2, high, low][..], &pointer].concat()
}

/// RRSIG data that covers a type and is of no key.
fn signature(covered: u16, number: u16) -> Vec<u8> {
    let fixed = [15, 1, 0, 0, 1, 44, 0x7f, 0, 0, 0, 0x60, 0, 0, 0];
    [&covered.to_be_bytes()[..], &fixed, &number.to_be_bytes(), &[0], &number.to_be_bytes()].concat()
}

/// A reply to a query, by the number of replies that were given before.
type Reply = fn(&Query, usize) -> Message;

fn denial_of_many_names(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    let zone = above(query, labels(query) - 1);
    message.add(AUTHORITY, (&zone, 6), SOA);
    message.fill(AUTHORITY, 47, |number| (below(number, zone), NSEC.to_vec()));
    message
}

fn denial_with_many_records_at_one_name(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    message.add(AUTHORITY, (&above(query, labels(query) - 1), 6), SOA);
    message.fill(AUTHORITY, 47, |number| {
        let [high, low] = number.to_be_bytes();
        (QNAME.to_vec(), vec![2, high, low, 0, 0, 1, 0x40])
    });
    message
}

fn denial_with_many_signatures(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    message.add(AUTHORITY, (&above(query, labels(query) - 1), 6), SOA);
    message.fill(AUTHORITY, 46, |number| (below(number / 2, QNAME), signature(47 + number % 2 * 3, number)));
    message
}

fn labels(query: &Query) -> usize {
    query.qname.matches('.').count()
}

/// A referral to the zone one label below that of the last reply.
fn referral(query: &Query, number: usize) -> Message {
    let mut message = Message::to(query, 0);
    let zone = above(query, labels(query).saturating_sub(2 + number));
    message.add(AUTHORITY, (&zone, 2), &[&[2, b'n', b's'][..], &zone].concat());
    message.add(ADDITIONAL, (&[&[2, b'n', b's'][..], &zone].concat(), 1), &[192, 0, 2, 2]);
    message
}

fn referral_with_many_ds(query: &Query, number: usize) -> Message {
    let mut message = referral(query, number);
    let zone = above(query, labels(query).saturating_sub(2 + number));
    message.fill(AUTHORITY, 43, |number| {
        (zone.to_vec(), [&number.to_be_bytes()[..], &[15, 2], &number.to_be_bytes()].concat())
    });
    message
}

fn referral_with_many_nsec(query: &Query, number: usize) -> Message {
    let mut message = referral(query, number);
    message.fill(AUTHORITY, 47, |number| (below(number, QNAME), NSEC.to_vec()));
    message
}

fn referral_with_much_glue(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, 0);
    let zone = above(query, labels(query) - 2);
    for number in 0..1_000 {
        message.add(AUTHORITY, (&zone, 2), &below(number, zone));
    }
    message.fill(ADDITIONAL, 1, |number| (below(number % 13, zone), [&[10, 0][..], &number.to_be_bytes()].concat()));
    message
}

fn many_addresses(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    message.fill(ANSWER, 1, |number| (QNAME.to_vec(), [&[198, 51][..], &number.to_be_bytes()].concat()));
    message
}

fn as_many_addresses_as_are_taken_and_extras(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    for number in 0..256_u16 {
        message.add(ANSWER, (&QNAME, 1), &[&[198, 51][..], &number.to_be_bytes()].concat());
    }
    for number in 0..1_000 {
        message.add(AUTHORITY, (&QNAME, 2), &below(number, QNAME));
    }
    message.fill(ADDITIONAL, 1, |number| (below(number, QNAME), [&[198, 51][..], &number.to_be_bytes()].concat()));
    message
}

fn one_address_many_times(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    message.fill(ANSWER, 1, |_| (QNAME.to_vec(), vec![198, 51, 100, 1]));
    message
}

fn chain_of_aliases(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    message.add(ANSWER, (&QNAME, 5), &below(0, QNAME));
    message.fill(ANSWER, 5, |number| (below(number, QNAME), below(number + 1, QNAME)));
    message
}

fn dnames_at_every_name_above(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    let labels = labels(query);
    message.fill(ANSWER, 39, |number| {
        let above = above(query, 1 + usize::from(number) % (labels - 1));
        (above.to_vec(), below(number, above))
    });
    message
}

fn names_that_are_chains_of_pointers(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    let last = add_chain(&mut message, &[1, b'x', 0]);
    message.fill(ANSWER, 5, |_| (last.to_vec(), last.to_vec()));
    message
}

fn malformed_names_at_the_end_of_chains(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    // A label of an unknown type.
    let last = add_chain(&mut message, &[0x80]);
    message.fill(AUTHORITY, 2, |_| (QNAME.to_vec(), last.to_vec()));
    message
}

/// Adds a record of a private type whose data is `end` and a chain of pointers to it. Returns a pointer to the last.
fn add_chain(message: &mut Message, end: &[u8]) -> [u8; 2] {
    let start = (message.octets.len() + QNAME.len() + 10) as u16;
    let (mut data, mut previous) = (end.to_vec(), start);
    for _ in 0..125 {
        let at = start + data.len() as u16;
        data.extend((0xc000 | previous).to_be_bytes());
        previous = at;
    }
    message.add(ANSWER, (&QNAME, PRIVATE), &data);
    (0xc000 | previous).to_be_bytes()
}

fn records_of_a_meta_type(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    message.fill(ANSWER, 255, |_| (vec![0], Vec::new()));
    message
}

fn names_of_255_octets(query: &Query, _: usize) -> Message {
    let mut message = Message::to(query, AA);
    let at = message.octets.len() + 12;
    let mut name = Vec::new();
    for letter in [b'a', b'b', b'c'] {
        name.push(63);
        name.extend([letter; 63]);
    }
    name.push(57);
    name.extend([b'd'; 57]);
    name.push(0);
    message.add(ANSWER, (&QNAME, PRIVATE), &name);
    let pointer = (0xc000 | at as u16).to_be_bytes();
    message.fill(AUTHORITY, 47, |number| (below(number, pointer), NSEC.to_vec()));
    message
}

const REPLIES: &[(&str, Reply)] = &[
    ("a denial by many names", denial_of_many_names),
    ("a denial by many records of one name", denial_with_many_records_at_one_name),
    ("a denial with many signatures", denial_with_many_signatures),
    ("a referral with many DS records", referral_with_many_ds),
    ("a referral with many NSEC records", referral_with_many_nsec),
    ("a referral with much glue", referral_with_much_glue),
    ("an RRset beyond its bound", many_addresses),
    ("an RRset at its bound, and extras", as_many_addresses_as_are_taken_and_extras),
    ("one record many times", one_address_many_times),
    ("a chain of aliases", chain_of_aliases),
    ("DNAME records at every name above", dnames_at_every_name_above),
    ("names that are chains of pointers", names_that_are_chains_of_pointers),
    ("malformed names at the end of chains", malformed_names_at_the_end_of_chains),
    ("records of a meta type", records_of_a_meta_type),
    ("names of 255 octets", names_of_255_octets),
];

/// A question with eleven labels to a signed zone whose server sends such replies over TCP, and its keys.
fn ask(reply: Reply) -> usize {
    let setup = Setup::new();
    let validation = Some(validation(&setup.root));
    let settings = Settings { minimal: false, ..settings() };
    let recursion = Recursion { qname_minimisation: true, validation, ..recursion() };
    let mut world = World::with_plan(7, Plan::new(Vec::new(), settings).unwrap().with_recursion(recursion));
    world.wall_secs = NOW_SECS;
    world.dnssec_ok = true;
    world.serve(1, setup.root_script());
    let mut own = setup.example_script();
    let mut number = 0;
    world.serve_octets(
        2,
        Box::new(move |query| {
            if query.qtype == Rtype::DNSKEY {
                return own(query).iter().map(Response::octets).collect();
            }
            if !query.over_tcp {
                return vec![Message::to(query, TC).finish()];
            }
            number += 1;
            vec![reply(query, number - 1).finish()]
        }),
    );
    world.resolve("a.b.c.d.e.f.g.h.i.j.example. A");
    let sent = world.take_sent();
    sent.iter().filter(|line| line.ends_with("by TCP")).count()
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
        let replies = ask(*reply);
        assert!((1..=12).contains(&replies), "{name}: {replies}");
        end_of_case(name, replies);
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
    command.args(["--exact", "work::a_question_ends_whatever_fills_64_kib", "--nocapture", "--test-threads=1"]);
    let output = command.output().expect("valgrind is installed");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let cases: Vec<(u64, &str)> = text.lines().filter_map(case).collect();
    assert_eq!(cases.len(), REPLIES.len(), "{text}");
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
