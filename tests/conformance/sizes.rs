//! Answers of all sizes: what fits is complete, what does not is cut at an RRset boundary, and TCP
//! returns everything.

use crate::harness::{Ask, Received, Scripted, Setup, Verdict};

/// Number of records of 100 octets from which the upstream sets TC over UDP.
const UPSTREAM_LIMIT: usize = 11;
/// The largest number of records: answers of 5,000 octets.
const MOST: usize = 42;
/// The longest message that Avocet sends in a datagram, without OPT.
const DATAGRAM: usize = 4096;
/// Octets of OPT without options.
const OPT: usize = 11;

/// `t7.size.example` has seven TXT records; `c7.size.example` is an alias of it.
fn script(query: &Received) -> Verdict {
    let qname = query.qname();
    let label = qname.split('.').next().expect("a label");
    let count: usize = label[1..].parse().expect("a number");
    let target = format!("t{count}.size.example.");
    let mut answer = query.answer();
    if !query.over_tcp && count >= UPSTREAM_LIMIT {
        return answer.truncated().send();
    }
    if label.starts_with('c') {
        answer = answer.own(60, "CNAME", &target);
    }
    for number in 0..count {
        answer = answer.record(&target, 60, "TXT", &format!("{number:04}{}", "x".repeat(95)));
    }
    answer.send()
}

#[test]
fn answers_are_cut_where_they_exceed_what_the_client_takes() {
    let upstream = Scripted::start(script);
    let server = Setup::forwarding_to(upstream.addr).server("max-udp-size = 4096").start();
    let plain = |qname: &str| Ask::of(qname, "TXT");
    type Client = (usize, fn(Ask) -> Ask);
    let clients: [Client; 5] = [
        (512, |ask| ask),
        (512, |ask| ask.edns(100)),
        (512, |ask| ask.edns(512)),
        (1232, |ask| ask.edns(1232)),
        (4096, |ask| ask.edns(65_535)),
    ];
    for (limit, client) in clients {
        for count in 1..=MOST {
            for (label, kept) in [("t", 0), ("c", 1)] {
                let ask = client(plain(&format!("{label}{count}.size.example.")));
                let whole = server.ask_tcp(&ask);
                assert_eq!(whole.answer.len(), count + kept);
                assert!(!whole.is_truncated());
                let reply = server.ask(&ask);
                assert!(reply.len <= limit, "{} octets for {limit}", reply.len);
                assert_eq!(
                    reply.is_truncated(),
                    whole.len > limit,
                    "{count} for {limit}: {} octets",
                    whole.len
                );
                // An answer that exceeds every datagram is sent empty, with TC.
                let bare = whole.len - if whole.opt.is_some() { OPT } else { 0 };
                let kept = if bare > DATAGRAM { 0 } else { kept };
                let records = if whole.len > limit { kept } else { whole.answer.len() };
                assert_eq!(reply.answer.len(), records, "{count} for {limit}");
                assert_eq!(reply.opt.is_some(), whole.opt.is_some());
            }
        }
    }
}

#[test]
fn the_configured_size_bounds_what_clients_ask_for() {
    let upstream = Scripted::start(script);
    for (keys, size) in [("", 1232), ("max-udp-size = 512", 512), ("max-udp-size = 2000", 2000)] {
        let server = Setup::forwarding_to(upstream.addr).server(keys).start();
        for count in 1..=25 {
            let ask = Ask::of(&format!("t{count}.size.example."), "TXT").edns(4096);
            let reply = server.ask(&ask);
            assert!(reply.len <= size);
            assert_eq!(reply.is_truncated(), server.ask_tcp(&ask).len > size);
            assert_eq!(usize::from(reply.opt.expect("OPT").udp_size), size);
        }
    }
}
