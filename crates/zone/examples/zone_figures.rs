//! Prints the time in which a zone is loaded, the memory that it takes, and the number of answers
//! per second.
//!
//! ```sh
//! cargo run --release -p avocet-zone --example zone_figures -- 1000000
//! ```
//! The arguments are the number of records, and the number of answers of each kind. Under
//! callgrind, the difference of two runs gives the instructions of a record or an answer.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program that people run by hand")]

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use avocet_wire::{FoldedName, FoldedNameBuf, NameBuf, Rtype};
use avocet_zone::{HostedQuestion, HostedZone, HostedZones, Proofs, answer, load};

const APEX: &[u8] = b"\x07example\x00";
/// Default number of timed answers of each kind.
const ANSWERS: usize = 2_000_000;
/// A step through the hosts that visits them in no order (a large prime).
const STEP: usize = 7_368_787;

/// Returns a zone of this many records: of ten hosts each has an A record, and some have AAAA, MX,
/// TXT or CNAME records, as in the zone of a provider.
fn text(records: usize) -> String {
    let mut text = String::from("$TTL 3600\n@ SOA ns hostmaster 1 7200 900 1209600 300\n@ NS ns\n");
    text.push_str("ns A 192.0.2.1\n");
    let mut count = 3;
    for host in 0.. {
        if count >= records {
            break;
        }
        // The order of names in the file is not the canonical one.
        let name = format!("host-{:x}", host * STEP % 0x1_0000_0000);
        let [_, b, c, d] = (host as u32).to_be_bytes();
        let _ = writeln!(text, "{name} IN A 10.{b}.{c}.{d}");
        count += 1;
        let more = match host % 10 {
            0 => format!("{name} 300 IN AAAA 2001:db8::{:x}:{:x}", host >> 16, host & 0xffff),
            1 => format!("{name} MX 10 ns"),
            2 => format!("{name} TXT \"host {host}\""),
            3 => format!("www.{name} CNAME {name}"),
            _ => continue,
        };
        text.push_str(&more);
        text.push('\n');
        count += 1;
    }
    text
}

/// Returns the peak of the resident memory of the process, in octets.
fn most_resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) << 10
}

fn time_answers(zone: HostedZone, answers: usize) {
    let hosts: Vec<FoldedNameBuf> = zone.iter().map(|node| node.name().to_buf()).collect();
    let missing: Vec<FoldedNameBuf> = (0..hosts.len().min(100_000))
        .map(|number| {
            let label = format!("none-{number}");
            NameBuf::from_wire(APEX).unwrap().prefixed(label.as_bytes()).unwrap().folded()
        })
        .collect();
    let zones: HostedZones = [(Box::from(APEX), Some(Arc::new(zone)))].into_iter().collect();
    for (label, names) in [("names that exist", &hosts), ("names that do not", &missing)] {
        let (mut out, mut octets, mut at) = ([0; 1232], 0, 0);
        let began = Instant::now();
        for _ in 0..answers {
            at = (at + STEP) % names.len();
            let question = HostedQuestion {
                qname: names[at].view(),
                qtype: Rtype::A,
                proofs: Proofs::Omitted,
                limit: out.len(),
            };
            octets += answer(&zones, &question, &mut out).map_or(0, |answer| answer.len);
        }
        let secs = began.elapsed().as_secs_f64();
        println!(
            "{label}: {:.0} ns an answer, {:.2} M/s ({} octets on average)",
            secs * 1e9 / answers as f64,
            answers as f64 / secs / 1e6,
            octets / answers
        );
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default| arguments.next().map_or(default, |text| text.parse().unwrap());
    let (records, answers) = (number(1_000_000), number(ANSWERS));
    let text = text(records);
    println!("{} octets of text", text.len());
    let before = most_resident();
    let began = Instant::now();
    let mut text = Some(text.into_bytes());
    let apex = FoldedName::new(APEX).unwrap();
    let (zone, faults) = load(apex, Path::new("example"), 0, &mut |_, _| Ok(text.take().unwrap()));
    let secs = began.elapsed().as_secs_f64();
    let Some(zone) = zone else { panic!("{:?}", faults.list()) };
    let (count, octets) = (zone.records(), zone.memory_octets());
    println!("loaded {count} records, {} names in {secs:.3} s", zone.names());
    println!("{:.1} octets a record", octets as f64 / f64::from(count));
    println!("{} MiB more than before while loading", (most_resident() - before) >> 20);
    if answers > 0 {
        time_answers(zone, answers);
    }
}
