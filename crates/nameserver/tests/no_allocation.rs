//! An answer without the network needs no allocation, from the datagram to the reply.

#![allow(clippy::unwrap_used, reason = "functions that tests share panic as tests do")]

use std::net::SocketAddr;

use avocet_cache::Security;
use avocet_nameserver::{InProcess, RecordKey};
use avocet_querylog::Record;
use avocet_testkit::allocations::{Allocations, Counting};
use avocet_testkit::mmdb::Database;
use avocet_wire::builder::OptFields;
use avocet_wire::edns::EdnsOption;
use avocet_wire::header::AD;
use avocet_wire::{Builder, Class, MessageView, Rcode, Rtype};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CONFIGURATION: &str = r#"
[cache]
packet-bytes = "4MiB"
rrset-bytes = "4MiB"

[rate-limit]
responses-per-second = 1000

[[forward]]
zone = "."
upstreams = ["192.0.2.1"]

[[record]]
name = "host.lan"
type = "A"
values = ["10.0.0.1", "10.0.0.2"]

[[record]]
name = "*.wild.lan"
type = "A"
values = ["10.0.0.3"]
"#;

const CACHED: &[u8] = b"\x03www\x07example\x03com\x00";

fn query(qname: &[u8], options: Option<&[EdnsOption<'_>]>) -> Vec<u8> {
    query_with(qname, options.map(|options| (false, options)))
}

/// A query with an OPT record, if given, with DO or without, and these options.
fn query_with(qname: &[u8], opt: Option<(bool, &[EdnsOption<'_>])>) -> Vec<u8> {
    let mut out = vec![0; 512];
    let mut builder = Builder::new(&mut out, 512, 7, 0x0100).unwrap();
    builder.question(qname, Rtype::A, Class::IN).unwrap();
    if let Some((dnssec_ok, options)) = opt {
        builder.opt(&OptFields { udp_size: 1232, rcode: Rcode(0), dnssec_ok }, options).unwrap();
    }
    let len = builder.finish();
    out.truncate(len);
    out
}

/// Sends a query twice, so that one-time work is not counted. The second reply must have this
/// number of records and cause no allocation.
#[track_caller]
fn check(qname: &[u8], options: Option<&[EdnsOption<'_>]>, records: u16) {
    let client = SocketAddr::from(([127, 0, 0, 1], 4000));
    let mut server = InProcess::new(CONFIGURATION, client).unwrap();
    server.learn(CACHED, 1, 300, &[&[192, 0, 2, 1]]);
    let (query, mut out) = (query(qname, options), vec![0; 4096]);
    let mut len = None;
    server.answer(&query, &mut out);
    let made = Allocations::of(|| len = server.answer(&query, &mut out));
    let answer = MessageView::new(&out[..len.unwrap()]).unwrap();
    assert_eq!((answer.header().id, answer.header().counts[1]), (7, records));
    assert_eq!(made, Allocations { count: 0, bytes: 0 });
}

#[test]
fn a_cached_answer() {
    check(CACHED, None, 1);
    check(b"\x03WWW\x07Example\x03com\x00", Some(&[]), 1);
    check(
        CACHED,
        Some(&[EdnsOption::Cookie { client: b"8 octets", server: &[] }, EdnsOption::Nsid(&[])]),
        1,
    );
}

/// The cost of a repeated query: the stages that ended it, its allocations, and the reply without
/// AD.
fn cost_of(security: Security, dnssec_ok: bool) -> (Vec<u64>, Allocations, Vec<u8>) {
    let client = SocketAddr::from(([127, 0, 0, 1], 4000));
    let mut server = InProcess::new("[resolver]\nmode = \"recurse\"", client).unwrap();
    server.learn_judged(
        security,
        RecordKey { owner: CACHED, rtype: Rtype::A.0, ttl_secs: 300 },
        &[&[192, 0, 2, 1]],
        &[&[0; 96]],
    );
    let (query, mut out) = (query_with(CACHED, Some((dnssec_ok, &[]))), vec![0; 4096]);
    server.answer(&query, &mut out).unwrap();
    let before = server.ended_by_stage();
    let mut len = None;
    let made = Allocations::of(|| len = server.answer(&query, &mut out));
    let stages = server
        .ended_by_stage()
        .iter()
        .zip(before)
        .map(|((_, after), (_, before))| after - before)
        .collect();
    out.truncate(len.unwrap());
    let is_authentic = out[3] & AD as u8 != 0;
    assert_eq!(is_authentic, security == Security::Secure && dnssec_ok);
    out[3] &= !(AD as u8);
    (stages, made, out)
}

#[test]
fn a_validated_cached_name_costs_what_any_cached_name_costs() {
    for dnssec_ok in [false, true] {
        let (stages, made, octets) = cost_of(Security::Secure, dnssec_ok);
        assert_eq!(stages.iter().sum::<u64>(), 1, "one stage answers it");
        assert_eq!(made, Allocations { count: 0, bytes: 0 });
        assert_eq!((stages, made, octets), cost_of(Security::Insecure, dnssec_ok));
    }
}

/// The stage that ends the second of two equal queries, and its allocations.
fn second_answer(configuration: &str) -> (Option<usize>, Allocations) {
    let mut server =
        InProcess::new(configuration, SocketAddr::from(([127, 0, 0, 1], 4000))).unwrap();
    server.learn(CACHED, 1, 300, &[&[192, 0, 2, 1], &[198, 51, 100, 1]]);
    let (query, mut out) = (query(CACHED, None), vec![0; 4096]);
    server.answer(&query, &mut out).unwrap();
    let before = server.ended_by_stage();
    let made = Allocations::of(|| server.answer(&query, &mut out).map(drop).unwrap());
    let ended = server
        .ended_by_stage()
        .iter()
        .zip(before)
        .position(|((_, after), (_, before))| *after > before);
    (ended, made)
}

/// A log-only rule is evaluated for each query: each looks up the countries of its answer again.
#[test]
fn the_countries_of_an_answer() {
    let file =
        std::env::temp_dir().join(format!("avocet-no-allocation-{}.mmdb", std::process::id()));
    std::fs::write(&file, Database::of_countries(&[("192.0.2.0/24", "NL")]).octets()).unwrap();
    let rule = "[[rule]]\nname = \"r\"\nwhen = 'geo.country == \"NL\"'\naction = \"block\"\nlog-only = true\n";
    let text = format!("{CONFIGURATION}\n[policy]\ngeo-database = \"{}\"\n{rule}", file.display());
    let (ended, made) = second_answer(&text);
    std::fs::remove_file(file).unwrap();
    assert_eq!(made, Allocations { count: 0, bytes: 0 });
    assert_ne!(ended, second_answer(CONFIGURATION).0, "it does not come from the packet cache");
}

#[test]
fn an_answer_that_is_logged() {
    let client = SocketAddr::from(([127, 0, 0, 1], 4000));
    let text = format!("{CONFIGURATION}\n[query-log]\nenabled = true\n");
    let mut server = InProcess::new(&text, client).unwrap();
    server.learn(CACHED, 1, 300, &[&[192, 0, 2, 1]]);
    let names: [&[u8]; 4] =
        [CACHED, b"\x04host\x03lan\x00", b"\x09localhost\x00", b"\x03WWW\x07Example\x03com\x00"];
    let (mut out, mut record) = (vec![0; 4096], Record::default());
    for name in names {
        let query = query(name, Some(&[]));
        server.answer(&query, &mut out).unwrap();
        let mut len = None;
        let made = Allocations::of(|| len = server.answer(&query, &mut out));
        assert_eq!(made, Allocations { count: 0, bytes: 0 }, "{name:?}");
        assert!(server.take_logged(&mut record) && server.take_logged(&mut record));
        let entry = record.entry();
        assert!(entry.qname.eq_ignore_ascii_case(name));
        assert_eq!(usize::from(entry.facts.response_size), len.unwrap());
        assert_eq!(usize::from(entry.facts.query_size), query.len());
        assert_eq!((entry.facts.client, entry.facts.qtype), (client.ip(), Rtype::A.0));
        assert!(!server.take_logged(&mut record), "one entry for each query");
    }
    // Malformed queries and queries without an answer are also logged.
    assert!(server.answer(&[0; 12], &mut out).is_some());
    assert!(server.answer(&[0; 3], &mut out).is_none());
    assert!(server.take_logged(&mut record) && record.entry().qname.is_empty());
    assert!(server.take_logged(&mut record) && record.entry().facts.response_size == 0);
    server.reload(CONFIGURATION).unwrap();
    server.answer(&query(CACHED, None), &mut out).unwrap();
    assert!(!server.take_logged(&mut record), "a reload turns it off");
}

#[test]
fn a_local_record() {
    check(b"\x04host\x03lan\x00", None, 2);
    check(b"\x01a\x04wild\x03lan\x00", Some(&[]), 1);
}

#[test]
fn a_special_name() {
    check(b"\x09localhost\x00", None, 1);
    check(b"\x01x\x04test\x00", Some(&[]), 0);
}

#[test]
fn what_needs_the_network_gets_no_answer_here() {
    let mut server =
        InProcess::new(CONFIGURATION, SocketAddr::from(([127, 0, 0, 1], 4000))).unwrap();
    assert_eq!(server.answer(&query(CACHED, None), &mut [0; 4096]), None);
}
