//! Dead, broken and hostile upstreams (F5 to F10, S8, S11).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use avocet_wire::{Ede, Rcode};

use crate::harness::{Ask, Received, Reply, Scripted, Server, Setup, Udp, Verdict, until};

/// An answer arrives within this time whatever upstreams do: five seconds, plus the delays of a
/// busy machine.
const LATEST: Duration = Duration::from_secs(7);
/// Uncached names that are queried at once while no upstream answers.
const COLD: usize = 100;

fn good(query: &Received) -> Verdict {
    query.answer().own(60, "A", "192.0.2.1").send()
}

/// Sends one query, without retries, and checks the time of the answer.
#[track_caller]
fn ask_once(server: &Server, qname: &str) -> Reply {
    let client = Udp::to(server.addr);
    client.send(&Ask::of(qname, "A").edns(1232).octets());
    Reply::read(&client.receive(LATEST).expect("an answer in time"))
}

#[track_caller]
fn answers(server: &Server, qname: &str) {
    let reply = ask_once(server, qname);
    assert_eq!(
        (reply.rcode, reply.texts()),
        (Rcode::NOERROR, vec!["192.0.2.1".to_owned()]),
        "{qname}"
    );
}

#[track_caller]
fn fails(server: &Server, qname: &str, allowed: &[Ede]) {
    let reply = ask_once(server, qname);
    assert_eq!(reply.rcode, Rcode::SERVFAIL, "{qname}");
    assert!(allowed.iter().any(|code| Some(code.0) == reply.ede()), "{qname}: {reply:?}");
}

#[test]
fn dead_upstreams_mean_servfail_in_time_with_the_reason_and_cached_names_go_on() {
    let silent = Arc::new(AtomicBool::new(false));
    let told = silent.clone();
    let upstream =
        Scripted::start(
            move |query| if told.load(Ordering::Relaxed) { Verdict::Silence } else { good(query) },
        );
    let server = Setup::forwarding_to(upstream.addr).start();
    for number in 0..30 {
        answers(&server, &format!("warm{number}.example."));
    }
    silent.store(true, Ordering::Relaxed);
    let clients: Vec<Udp> = (0..COLD).map(|_| Udp::to(server.addr)).collect();
    for (number, client) in clients.iter().enumerate() {
        client.send(&Ask::of(&format!("cold{number}.example."), "A").edns(1232).octets());
    }
    for number in 0..30 {
        answers(&server, &format!("warm{number}.example."));
    }
    for client in &clients {
        let reply = Reply::read(&client.receive(LATEST).expect("an answer in time"));
        assert_eq!(reply.rcode, Rcode::SERVFAIL);
        assert!(
            [Some(Ede::NO_REACHABLE_AUTHORITY.0), Some(Ede::NETWORK_ERROR.0)]
                .contains(&reply.ede()),
            "{reply:?}"
        );
    }
    fails(&server, "cold1.example.", &[Ede::CACHED_ERROR]);
    silent.store(false, Ordering::Relaxed);
    until("answers come again", || {
        (ask_once(&server, "fresh.example.").rcode == Rcode::NOERROR).then_some(())
    });
}

#[test]
fn a_closed_port_means_servfail_or_the_next_upstream() {
    let upstream = Scripted::start(good);
    let nobody = crate::harness::server::free_port([127, 0, 0, 1].into());
    let alone = Setup::forwarding_to(nobody).start();
    fails(&alone, "a.example.", &[Ede::NETWORK_ERROR, Ede::NO_REACHABLE_AUTHORITY]);
    let both = Setup::plain().rule(".", &[nobody, upstream.addr], "strategy = \"ordered\"").start();
    answers(&both, "a.example.");
}

#[test]
fn truncation_leads_to_tcp_however_slowly_it_comes() {
    let by_tcp = |verdict: fn(&Received) -> Verdict| {
        Scripted::start(move |query| {
            if query.over_tcp { verdict(query) } else { query.answer().truncated().send() }
        })
    };
    let drips = by_tcp(|query| Verdict::Drip(query.answer().own(60, "A", "192.0.2.1").octets()));
    answers(&Setup::forwarding_to(drips.addr).start(), "a.example.");
    let unable = [Ede::NETWORK_ERROR, Ede::NO_REACHABLE_AUTHORITY, Ede::INVALID_DATA];
    let silent = by_tcp(|_| Verdict::Silence);
    fails(&Setup::forwarding_to(silent.addr).start(), "a.example.", &unable);
    let closes = by_tcp(|_| Verdict::Close);
    fails(&Setup::forwarding_to(closes.addr).start(), "a.example.", &unable);
    assert!(closes.received().len() <= 12, "{} queries", closes.received().len());
    let refuses = Scripted::start_udp_only(|query| query.answer().truncated().send());
    fails(&Setup::forwarding_to(refuses.addr).start(), "a.example.", &unable);
    let other = Scripted::start(good);
    for bad in [&silent, &closes, &refuses] {
        let both =
            Setup::plain().rule(".", &[bad.addr, other.addr], "strategy = \"ordered\"").start();
        answers(&both, "a.example.");
    }
}

#[test]
fn upstreams_without_edns_are_learnt() {
    for rcode in [Rcode::FORMERR, Rcode::NOTIMP, Rcode::BADVERS] {
        let upstream = Scripted::start(move |query| match query.has_edns() {
            // Its upper bits are in the OPT record.
            true if rcode == Rcode::BADVERS => query.answer().rcode(rcode).send(),
            true => query.answer().rcode(rcode).without_opt().send(),
            false => good(query),
        });
        let server = Setup::forwarding_to(upstream.addr).server("workers = 1").start();
        answers(&server, "first.example.");
        assert!(upstream.count_of("first.example.") <= 2, "{rcode}");
        for number in 0..5 {
            answers(&server, &format!("n{number}.example."));
            assert_eq!(upstream.count_of(&format!("n{number}.example.")), 1, "{rcode}: learnt");
        }
    }
}

#[test]
fn upstreams_that_drop_edns_are_asked_without() {
    let upstream =
        Scripted::start(|query| if query.has_edns() { Verdict::Silence } else { good(query) });
    let server = Setup::forwarding_to(upstream.addr).server("workers = 1").start();
    // Silence may be packet loss: the server learns from several queries.
    for number in 0..5 {
        answers(&server, &format!("learn{number}.example."));
    }
    answers(&server, "learnt.example.");
    assert_eq!(upstream.count_of("learnt.example."), 1);
}

#[test]
fn malformed_and_forged_replies_are_passed_over() {
    let upstream = Scripted::start(|query| {
        let good = query.answer().own(60, "A", "192.0.2.1").octets();
        let mut replies: Vec<Vec<u8>> =
            (0..good.len()).step_by(2).map(|len| good[..len].to_vec()).collect();
        let forged = query.answer().own(60, "A", "203.0.113.66").octets();
        let changed = |at: usize, mask: u8| {
            let mut octets = forged.clone();
            octets[at] ^= mask;
            octets
        };
        // Another ID, a query, another OPCODE, another name, type and class, no question, noise.
        replies.extend([
            changed(0, 1),
            changed(1, 0x80),
            changed(2, 0x80),
            changed(2, 0x08),
            changed(13, 1),
        ]);
        let fixed = 12 + forged[12..].iter().position(|octet| *octet == 0).expect("the root") + 1;
        replies.extend([
            changed(fixed + 1, 2),
            changed(fixed + 3, 2),
            changed(5, 1),
            vec![0; 512],
            vec![0xff; 512],
        ]);
        replies.truncate(50);
        replies.push(good);
        Verdict::Send(replies)
    });
    // Enough time to read them all before the server retries.
    let server = Setup::plain().rule(".", &[upstream.addr], "timeout-min-ms = 2000").start();
    for number in 0..20 {
        let qname = format!("victim{number}.example.");
        answers(&server, &qname);
        assert_eq!(
            upstream.count_of(&qname),
            1,
            "nobody was asked again: {:02x?}",
            upstream.received()
        );
    }
}

#[test]
fn an_upstream_that_always_wants_another_cookie_is_given_up() {
    let upstream = Scripted::start(|query| {
        let client = query.cookie().map_or(vec![0; 8], |cookie| cookie[..8].to_vec());
        query.answer().rcode(Rcode::BADCOOKIE).cookie(&client, &[query.number as u8; 16]).send()
    });
    let server = Setup::forwarding_to(upstream.addr).start();
    fails(
        &server,
        "a.example.",
        &[Ede::NETWORK_ERROR, Ede::NO_REACHABLE_AUTHORITY, Ede::INVALID_DATA],
    );
    assert!(upstream.count_of("a.example.") <= 3, "{} queries", upstream.count_of("a.example."));
}

#[test]
fn a_cookie_that_the_upstream_gave_is_sent_back() {
    let upstream = Scripted::start(|query| match query.cookie() {
        Some(cookie) if cookie[8..] == [7; 16] => good(query),
        Some(cookie) => {
            query.answer().rcode(Rcode::BADCOOKIE).cookie(&cookie[..8], &[7; 16]).send()
        }
        None => Verdict::Silence,
    });
    let server = Setup::forwarding_to(upstream.addr).server("workers = 1").start();
    answers(&server, "first.example.");
    answers(&server, "second.example.");
    assert_eq!((upstream.count_of("first.example."), upstream.count_of("second.example.")), (2, 1));
}

#[test]
fn errors_of_an_upstream_lead_to_the_next_one() {
    for rcode in [Rcode::SERVFAIL, Rcode::REFUSED, Rcode::FORMERR, Rcode::NOTIMP] {
        let (bad, other) = (
            Scripted::start(move |query| query.answer().rcode(rcode).send()),
            Scripted::start(good),
        );
        let server =
            Setup::plain().rule(".", &[bad.addr, other.addr], "strategy = \"ordered\"").start();
        answers(&server, "a.example.");
        let alone = Setup::forwarding_to(bad.addr).start();
        let reasons = [Ede::NO_REACHABLE_AUTHORITY, Ede::INVALID_DATA];
        fails(&alone, "a.example.", &reasons);
        assert!(bad.count_of("a.example.") <= 8, "{rcode}: {} queries", bad.count_of("a.example."));
    }
}

#[test]
fn loops_of_aliases_end() {
    let upstream = Scripted::start(|query| match query.qname().as_str() {
        "a.example." => query.answer().own(60, "CNAME", "b.example.").send(),
        "b.example." => query.answer().own(60, "CNAME", "a.example.").send(),
        "self.example." => query.answer().own(60, "CNAME", "self.example.").send(),
        other => {
            let next = format!("x{other}");
            query.answer().own(60, "CNAME", &next).send()
        }
    });
    let server = Setup::forwarding_to(upstream.addr).start();
    for (qname, most) in [("a.example.", 3), ("self.example.", 2), ("chain.example.", 13)] {
        let before = upstream.received().len();
        assert_eq!(ask_once(&server, qname).rcode, Rcode::SERVFAIL, "{qname}");
        assert!(
            upstream.received().len() - before <= most,
            "{qname}: {} queries",
            upstream.received().len() - before
        );
    }
}
