//! The matrix of planted faults: each at one per cent and at every answer, with exact counts.

mod run;
mod server;

use std::collections::VecDeque;
use std::sync::Mutex;

use avocet_load::report::Outcome;
use avocet_wire::builder::{Record, Section};
use avocet_wire::header::{QR, RD};
use avocet_wire::{Builder, Class, QueryView, Rtype};

use run::{Output, Scratch, command, load, zone};
use server::{Server, address, answer, answer_with, truncated};

/// The names of a run, each of which is queried once to warm caches.
const NAMES: u64 = 10;

/// A fault: what the server sends instead of the right answer, and how it is counted.
struct Fault {
    name: &'static str,
    replies: fn(&[u8]) -> Vec<Vec<u8>>,
    count: fn(&Outcome) -> u64,
    /// The name of the fault: after its count in the text, and in the table of the page.
    label: &'static str,
    /// Options without which the generator cannot see the fault.
    options: &'static str,
}

/// Builds an answer with these records.
fn answer_of(query: &[u8], records: &[(&[u8], Rtype, Class, &[u8])]) -> Vec<u8> {
    let view = QueryView::parse(query).expect("a query of the generator");
    let mut reply = vec![0; 4096];
    let mut message = Builder::new(&mut reply, 4096, view.header().id, QR | RD).expect("room");
    message.question(view.qname(), view.qtype, view.qclass).expect("room");
    for (owner, rtype, class, rdata) in records {
        let record = Record { owner, rtype: *rtype, class: *class, ttl_secs: 60, rdata };
        message.record(Section::Answer, &record).expect("room");
    }
    let len = message.finish();
    reply.truncate(len);
    reply
}

fn owner(query: &[u8]) -> Vec<u8> {
    QueryView::parse(query).expect("a query of the generator").qname().to_vec()
}

fn changed(query: &[u8], change: impl Fn(&mut Vec<u8>)) -> Vec<Vec<u8>> {
    let mut reply = answer(query);
    change(&mut reply);
    vec![reply]
}

/// The faults that are seen without knowledge of the records.
fn of_form() -> Vec<Fault> {
    let fault = |name, replies, count, label| Fault { name, replies, count, label, options: "" };
    vec![
        fault(
            "RCODE",
            |query| changed(query, |reply| reply[3] |= 2),
            |outcome| outcome.wrong.rcode,
            "with another RCODE",
        ),
        fault(
            "class",
            |query| {
                let owner = owner(query);
                let data = address(&owner);
                vec![answer_of(query, &[(&owner, Rtype::A, Class::CH, &data)])]
            },
            |outcome| outcome.wrong.class,
            "with another class",
        ),
        fault(
            "cut RDATA",
            |query| changed(query, |reply| reply.truncate(reply.len() - 2)),
            |outcome| outcome.wrong.malformed,
            "unreadable",
        ),
        fault(
            "address of three octets",
            |query| vec![answer_of(query, &[(&owner(query), Rtype::A, Class::IN, &[192, 0, 2])])],
            |outcome| outcome.wrong.malformed,
            "unreadable",
        ),
        fault(
            "TC without records",
            |query| vec![truncated(query)],
            |outcome| outcome.wrong.truncated,
            "truncated without need",
        ),
        fault(
            "empty answer",
            |query| vec![answer_of(query, &[])],
            |outcome| outcome.wrong.empty,
            "empty without reason",
        ),
        fault(
            "trailing octets",
            |query| changed(query, |reply| reply.extend(b"garbage")),
            |outcome| outcome.wrong.trailing,
            "with trailing octets",
        ),
        fault(
            "too long",
            |query| {
                let owner = owner(query);
                let datas: Vec<[u8; 4]> = (0..60).map(|number| [10, 0, 0, number]).collect();
                let records: Vec<_> =
                    datas.iter().map(|data| (&owner[..], Rtype::A, Class::IN, &data[..])).collect();
                vec![answer_of(query, &records)]
            },
            |outcome| outcome.wrong.long,
            "too long for UDP",
        ),
        fault(
            "duplicates",
            |query| vec![answer(query), answer(query)],
            |outcome| outcome.duplicate,
            "duplicate",
        ),
    ]
}

/// The faults that take a zone file.
fn of_records() -> Vec<Fault> {
    let fault = |name, replies| Fault {
        name,
        replies,
        count: |outcome| outcome.wrong.records,
        label: "with other records",
        options: "--zone-file",
    };
    vec![
        fault("wrong address", |query| vec![answer_with(query, |_| [192, 0, 2, 99])]),
        fault("owner", |query| {
            let data = address(&owner(query));
            vec![answer_of(query, &[(b"\x05other\x04test\0", Rtype::A, Class::IN, &data)])]
        }),
        fault("type", |query| {
            vec![answer_of(query, &[(&owner(query), Rtype::TXT, Class::IN, b"\x01x")])]
        }),
        fault("a record too many", |query| {
            let owner = owner(query);
            let data = address(&owner);
            let (right, more): (&[u8], &[u8]) = (&data, &[10, 0, 0, 1]);
            vec![answer_of(
                query,
                &[(&owner, Rtype::A, Class::IN, right), (&owner, Rtype::A, Class::IN, more)],
            )]
        }),
        fault("a record too few", |query| vec![answer_of(query, &[])]),
    ]
}

/// Runs the command against a server that makes the fault once in `every` answers.
fn plant(fault: &Fault, every: u64, options: &str) -> Output {
    let replies = fault.replies;
    let udp = move |number: u64, query: &[u8]| {
        if is_planted(number, every) { replies(query) } else { vec![answer(query)] }
    };
    let server = Server::start_each(udp, |_, query| vec![answer(query)]);
    let zone =
        Scratch::write(&format!("matrix-{}", fault.name.replace(' ', "-")), zone().as_bytes());
    let options = fault.options.replace("--zone-file", &format!("--zone-file {}", zone.path()))
        + " "
        + options;
    command(&server, &options)
}

/// Returns whether the answer with this number has the fault: the last of every `every` answers
/// after the warm-up.
fn is_planted(number: u64, every: u64) -> bool {
    number >= NAMES && (number - NAMES) % every == every - 1
}

/// Checks that the exit status and all forms of the results show the fault with its exact count.
#[track_caller]
fn assert_found(fault: &Fault, output: &Output, expected: u64) {
    let Output { status, text, html, report } = output;
    let Fault { name, label, .. } = fault;
    assert_eq!((fault.count)(&report.outcome), expected, "{name}: {:?}", report.outcome);
    assert!(*status == 1 && !report.passed && !report.faults.is_empty(), "{name}: {status}");
    assert!(text.contains(&format!("{expected} {label}")), "{name}: {text}");
    assert!(text.contains("FAILED  ") && !text.contains("passed"), "{name}: {text}");
    let cell = format!("<th>{label}</th><td>{expected}");
    let has_count = |end: &str| html.contains(&format!("{cell}{end}"));
    assert!(has_count("</td>") || has_count(" ("), "{name}: {cell} is not in {html}");
    assert!(html.contains("<p class=\"bad\">"), "{name}");
}

#[test]
fn every_fault_is_counted_exactly() {
    for fault in of_form().iter().chain(&of_records()) {
        assert_found(fault, &plant(fault, 100, ""), 10);
        assert_found(fault, &plant(fault, 1, "--count 200"), 200);
    }
}

/// An answer that belongs to no query is counted, and the query that it was meant for is lost.
#[test]
fn answers_to_other_queries_are_counted_exactly() {
    let faults = [
        Fault {
            name: "ID",
            replies: |query| changed(query, |reply| reply[0] ^= 0x40),
            count: |outcome| outcome.wrong.id,
            label: "with an unknown ID",
            options: "--timeout 2s",
        },
        Fault {
            name: "no QR",
            replies: |query| changed(query, |reply| reply[2] &= 0x7f),
            count: |outcome| outcome.wrong.malformed,
            label: "unreadable",
            options: "--timeout 2s",
        },
        Fault {
            name: "question",
            replies: |query| changed(query, |reply| reply[13] ^= 1),
            count: |outcome| outcome.wrong.question,
            label: "with another question",
            options: "--timeout 2s",
        },
        Fault {
            name: "type of the question",
            replies: |query| {
                let qtype_at = 12 + owner(query).len() + 1;
                changed(query, |reply| reply[qtype_at] ^= 0x10)
            },
            count: |outcome| outcome.wrong.question,
            label: "with another question",
            options: "--timeout 2s",
        },
    ];
    for fault in &faults {
        let output = plant(fault, 100, "");
        assert_found(fault, &output, 10);
        assert_eq!(output.report.outcome.lost, 10, "{}", fault.name);
        let output = plant(fault, 1, "--count 50");
        assert_found(fault, &output, 50);
        let outcome = &output.report.outcome;
        assert_eq!((outcome.answered, outcome.lost), (0, 50), "{}", fault.name);
    }
}

#[test]
fn loss_is_counted_exactly_and_fails_a_run_by_itself() {
    let fault = Fault { name: "loss", replies: |_| Vec::new(), ..LOST };
    assert_found(&fault, &plant(&fault, 100, "--max-loss 0.5%"), 10);
    assert_found(&fault, &plant(&fault, 50, ""), 20);
    let at_limit = plant(&fault, 100, "");
    assert_eq!((at_limit.status, at_limit.report.outcome.lost), (0, 10), "1 % is the limit");
    assert!(at_limit.text.contains("10 lost (1.000%)") && at_limit.text.ends_with("passed\n"));
    let silent = plant(&fault, 1, "--count 50");
    assert_found(&fault, &silent, 50);
    assert_eq!(silent.report.outcome.answered, 0);
    assert!(silent.text.contains("did not respond"), "{}", silent.text);
}

const LOST: Fault = Fault {
    name: "lost",
    replies: |_| Vec::new(),
    count: |outcome| outcome.lost,
    label: "lost",
    options: "--timeout 2s",
};

#[test]
fn a_server_that_falls_silent_fails_however_little_is_lost() {
    let server = Server::udp(|number, query| (number < NAMES + 1_980).then(|| answer(query)));
    let output = command(&server, "--count 2000 --timeout 2s");
    assert_found(&Fault { name: "silent", ..LOST }, &output, 20);
    assert_eq!(output.report.outcome.lost_at_end, 20);
    assert!(output.text.contains("FAILED           the server stopped responding"));
}

/// Answers that a server holds back.
#[derive(Default)]
struct Held(Mutex<VecDeque<(u64, Vec<u8>)>>);

impl Held {
    /// Holds an answer back until the query with this number.
    fn keep(&self, until: u64, reply: Vec<u8>) {
        self.0.lock().expect("one thread").push_back((until, reply));
    }

    /// Returns the answers that were held back until the query with this number.
    fn due(&self, number: u64) -> Vec<Vec<u8>> {
        let mut held = self.0.lock().expect("one thread");
        let mut due = Vec::new();
        while let Some((_, reply)) = held.pop_front_if(|(until, _)| *until <= number) {
            due.push(reply);
        }
        due
    }
}

/// The number of further queries for which a late answer is held back. At the rate of the test,
/// they take longer than the timeout.
const HELD_FOR: u64 = 3_000;

/// The answers to the first 500 queries arrive late. The run ends before the others.
#[track_caller]
fn check_late(every: u64, late: u64) {
    let held = Held::default();
    let udp = move |number: u64, query: &[u8]| {
        let mut replies = held.due(number);
        match is_planted(number, every) {
            true => held.keep(number + HELD_FOR, answer(query)),
            false => replies.push(answer(query)),
        }
        replies
    };
    let server = Server::start_each(udp, |_, query| vec![answer(query)]);
    let options = "--rate 1000 --count 3500 --clients 1 --timeout 2s --max-loss 0.5%";
    let output = command(&server, options);
    let fault = Fault { name: "late", count: |outcome| outcome.late, label: "late", ..LOST };
    assert_found(&fault, &output, late);
    let outcome = &output.report.outcome;
    assert_eq!((outcome.lost, outcome.wrong.total), (3_500 / every, 0), "{outcome:?}");
    assert!(output.text.contains("of the queries were lost"), "{}", output.text);
}

#[test]
fn late_answers_are_counted_exactly() {
    check_late(100, 5);
}

#[test]
fn a_server_that_is_always_late_answers_nothing() {
    check_late(1, 500);
}

/// Runs 2,000 queries against a server that stalls: of each 1,000 queries, it holds back the
/// answers to the first ones.
fn stall(stalled: u64, options: &str) -> Output {
    let held = Held::default();
    let udp = move |number: u64, query: &[u8]| {
        let place = number.checked_sub(NAMES).map(|number| number % 1_000);
        let wait = place.map_or(0, |place| stalled.saturating_sub(place));
        held.keep(number + wait, answer(query));
        held.due(number)
    };
    let server = Server::start_each(udp, |_, query| vec![answer(query)]);
    command(&server, &format!("--rate 1000 --count 2000 --clients 1 --timeout 5s {options}"))
}

/// Stalls of the machine only add to the latencies of the server.
#[test]
fn a_server_that_stalls_fails_by_its_latency() {
    for (stalled, limit, least_p50_ns, least_p99_ns) in
        [(20, "5ms", 0, 9_900_000), (999, "100ms", 495_000_000, 980_000_000)]
    {
        let Output { status, text, html, report } = stall(stalled, &format!("--max-p99 {limit}"));
        assert_eq!((report.outcome.answered, report.outcome.lost), (2_000, 0));
        let latency = &report.latency;
        assert!(latency.p50_ns >= least_p50_ns && latency.p99_ns >= least_p99_ns, "{latency:?}");
        assert_eq!(status, 1);
        assert!(text.contains("FAILED           the 99th percentile is "), "{text}");
        assert!(html.contains("the 99th percentile is "), "{html}");
    }
}

#[test]
fn a_short_stall_is_in_the_highest_percentiles() {
    let report = stall(10, "").report;
    assert!(report.latency.p999_ns >= 8_900_000, "{:?}", report.latency);
}

#[test]
fn lost_queries_count_in_the_percentiles() {
    let server = Server::udp(|number, query| (number % 20 != 19).then(|| answer(query)));
    let report = load(&server, "--timeout 2s --max-p99 1s --max-loss 50%");
    assert!(report.latency.p99_ns >= 2_000_000_000, "{}", report.latency.p99_ns);
    assert!(!report.passed && report.faults[0].contains("99th percentile"), "{:?}", report.faults);
}

#[test]
fn what_is_allowed_passes() {
    for fault in of_form() {
        let option = match fault.name {
            "TC without records" => "truncated",
            "empty answer" => "empty",
            "trailing octets" => "trailing",
            "too long" => "long",
            "duplicates" => "duplicate",
            _ => continue,
        };
        let Output { status, report, .. } = plant(&fault, 100, &format!("--allow {option}"));
        assert!(status == 0 && report.passed, "{}: {:?}", fault.name, report.faults);
        assert!(
            report.unchecked.iter().any(|text| text.contains(option)),
            "{:?}",
            report.unchecked
        );
    }
}

#[test]
fn a_report_says_what_was_checked() {
    let server = Server::honest();
    let Output { status, text, html, report } = command(&server, "");
    assert!(report.checked.iter().any(|text| text == "class"));
    assert!(report.unchecked.iter().any(|text| text.contains("--zone-file")));
    assert!(text.contains("not checked      records"), "{text}");
    assert!(html.contains("<p>Not checked: records"), "{html}");
    assert_eq!(status, 0);
    let shallow = load(&server, "--check id");
    assert!(shallow.unchecked.iter().any(|text| text == "question"), "{:?}", shallow.unchecked);
}
