//! The matrix of planted faults: each at one per cent and at every answer, with exact counts.

mod run;
mod server;

use avocet_load::report::{Outcome, Report};
use avocet_wire::builder::{Record, Section};
use avocet_wire::header::{QR, RD};
use avocet_wire::{Builder, Class, QueryView, Rtype};

use run::{Scratch, load, zone};
use server::{Server, address, answer, answer_with, truncated};

/// The names of a run, each of which is queried once to warm caches.
const NAMES: u64 = 10;

/// A fault: what the server sends instead of the right answer, and how it is counted.
struct Fault {
    name: &'static str,
    replies: fn(&[u8]) -> Vec<Vec<u8>>,
    count: fn(&Outcome) -> u64,
    /// How the text of the verdict names it.
    verdict: &'static str,
    /// Options without which the fault cannot be seen.
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
    let fault =
        |name, replies, count, verdict| Fault { name, replies, count, verdict, options: "" };
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
            "answered twice",
        ),
    ]
}

/// The faults that take a zone file.
fn of_records() -> Vec<Fault> {
    let fault = |name, replies| Fault {
        name,
        replies,
        count: |outcome| outcome.wrong.records,
        verdict: "with other records",
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

/// Runs `total` queries against a server that makes the fault once in `every` answers.
fn plant(fault: &Fault, every: u64, options: &str) -> Report {
    let replies = fault.replies;
    let udp = move |number: u64, query: &[u8]| {
        let is_planted = number >= NAMES && (number - NAMES) % every == every - 1;
        if is_planted { replies(query) } else { vec![answer(query)] }
    };
    let server = Server::start_each(udp, |_, query| vec![answer(query)]);
    let zone =
        Scratch::write(&format!("matrix-{}", fault.name.replace(' ', "-")), zone().as_bytes());
    let options = fault.options.replace("--zone-file", &format!("--zone-file {}", zone.path()))
        + " "
        + options;
    load(&server, &options)
}

fn assert_found(fault: &Fault, report: &Report, expected: u64) {
    let found = (fault.count)(&report.outcome);
    assert_eq!(found, expected, "{}: {:?}", fault.name, report.outcome);
    assert!(!report.passed, "{}", fault.name);
    let faults = report.faults.join("; ");
    assert!(faults.contains(fault.verdict), "{}: {faults}", fault.name);
    let text = avocet_load::report::as_text(report);
    assert!(text.contains(&format!("{expected} {}", fault.verdict)) || text.contains(&faults));
    assert!(text.contains("FAILED"), "{text}");
    let html = avocet_load::report::as_html(report);
    assert!(html.contains("class=\"bad\"") && html.contains(fault.verdict), "{}", fault.name);
}

#[test]
fn every_fault_is_counted_exactly() {
    for fault in of_form().iter().chain(&of_records()) {
        assert_found(fault, &plant(fault, 100, ""), 10);
        assert_found(fault, &plant(fault, 1, "--count 200"), 200);
    }
}

/// Answers that belong to no query leave theirs lost, too.
#[test]
fn answers_to_other_queries_are_counted_exactly() {
    let faults = [
        Fault {
            name: "ID",
            replies: |query| changed(query, |reply| reply[0] ^= 0x40),
            count: |outcome| outcome.wrong.id,
            verdict: "with an unknown ID",
            options: "--timeout 2s",
        },
        Fault {
            name: "no QR",
            replies: |query| changed(query, |reply| reply[2] &= 0x7f),
            count: |outcome| outcome.wrong.malformed,
            verdict: "unreadable",
            options: "--timeout 2s",
        },
        Fault {
            name: "question",
            replies: |query| changed(query, |reply| reply[13] ^= 1),
            count: |outcome| outcome.wrong.question,
            verdict: "with another question",
            options: "--timeout 2s",
        },
        Fault {
            name: "type of the question",
            replies: |query| {
                let qtype_at = 12 + owner(query).len() + 1;
                changed(query, |reply| reply[qtype_at] ^= 0x10)
            },
            count: |outcome| outcome.wrong.question,
            verdict: "with another question",
            options: "--timeout 2s",
        },
    ];
    for fault in &faults {
        let report = plant(fault, 100, "");
        assert_found(fault, &report, 10);
        assert_eq!(report.outcome.lost, 10, "{}", fault.name);
        let report = plant(fault, 1, "--count 50");
        assert_found(fault, &report, 50);
        assert_eq!((report.outcome.answered, report.outcome.lost), (0, 50), "{}", fault.name);
    }
}

#[test]
fn loss_is_counted_exactly_and_fails_a_run_by_itself() {
    let fault = Fault {
        name: "loss",
        replies: |_| Vec::new(),
        count: |outcome| outcome.lost,
        verdict: "were lost",
        options: "--timeout 2s",
    };
    assert_found(&fault, &plant(&fault, 100, "--max-loss 0.5%"), 10);
    assert_found(&fault, &plant(&fault, 50, ""), 20);
    assert!(plant(&fault, 100, "").passed, "one per cent is the limit");
    let silent = plant(&fault, 1, "--count 50");
    assert_eq!((silent.outcome.answered, silent.outcome.lost, silent.passed), (0, 50, false));
}

#[test]
fn a_server_that_falls_silent_fails_however_little_is_lost() {
    let server = Server::udp(|number, query| (number < NAMES + 1_985).then(|| answer(query)));
    let report = load(&server, "--count 2000 --timeout 2s");
    assert_eq!((report.outcome.lost, report.outcome.lost_at_end), (15, 15));
    assert!(!report.passed && report.faults[0].contains("stopped responding"), "{report:?}");
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
        let report = plant(&fault, 100, &format!("--allow {option}"));
        assert!(report.passed, "{}: {:?}", fault.name, report.faults);
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
    let report = load(&server, "");
    assert!(report.checked.iter().any(|text| text == "class"));
    assert!(report.unchecked.iter().any(|text| text.contains("--zone-file")));
    let text = avocet_load::report::as_text(&report);
    assert!(text.contains("not checked      records"), "{text}");
    let shallow = load(&server, "--check id");
    assert!(shallow.unchecked.iter().any(|text| text == "question"), "{:?}", shallow.unchecked);
}
