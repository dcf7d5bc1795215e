//! What is cached, for how long, and which clients share it. The tests set the clocks of the
//! server, so that hours pass at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use avocet_wire::{Ede, Rcode};

use crate::harness::clock::real_secs;
use crate::harness::peers::Kind;
use crate::harness::{Ask, Clock, Reply, Scripted, Server, Setup, Udp, Verdict, until};
use crate::zones;

/// Clients that ask for one name at the same time.
const CLIENTS: usize = 100;

fn www() -> Ask {
    Ask::of("www.example.", "A").edns(1232)
}

/// Whether the TTL is `expected`, less the real seconds that may have passed.
#[track_caller]
fn is_about(reply: &Reply, expected: u32, since: Instant) {
    let ttl =
        reply.answer.iter().chain(&reply.authority).map(|(_, ttl)| *ttl).max().expect("a record");
    assert!(ttl <= expected && ttl + real_secs(since) >= expected, "{ttl} is not about {expected}");
}

#[test]
fn ttls_are_counted_down_to_the_second() {
    let Some(mut clock) = Clock::create() else { return };
    let upstream = Scripted::plain(300);
    let server = clock.of(Setup::forwarding_to(upstream.addr)).start();
    let started = Instant::now();
    assert_eq!(server.ask(&www()).ttl(), Some(300));
    let mut left = 300;
    for step in [1, 6, 43, 100, 100] {
        clock.advance(step);
        left -= step as u32;
        is_about(&server.ask(&www()), left, started);
        is_about(&server.ask_tcp(&www()), left, started);
    }
    assert_eq!(upstream.received().len(), 1);
    clock.advance(60);
    assert_eq!(server.ask(&www()).ttl(), Some(300));
    assert_eq!(upstream.received().len(), 2);
}

#[test]
fn ttls_never_grow_while_real_time_passes() {
    let upstream = Scripted::plain(3);
    let server = Setup::forwarding_to(upstream.addr).start();
    let mut last = 3;
    until("the record expires and is asked for again", || {
        let ttl = server.ask(&www()).ttl().expect("a record");
        if upstream.received().len() > 1 {
            return Some(());
        }
        assert!(ttl <= last, "{ttl} after {last}");
        last = ttl;
        None
    });
    assert!(last < 3, "it was counted down");
}

#[test]
fn steps_of_the_wall_clock_change_no_ttl() {
    let Some(mut clock) = Clock::create() else { return };
    let upstream = Scripted::plain(300);
    let server = clock.of(Setup::forwarding_to(upstream.addr)).start();
    let started = Instant::now();
    server.ask(&www());
    for step in [-86_400, 86_400 + 30 * 86_400, -30 * 86_400, -86_400 * 365] {
        clock.step_wall(step);
        is_about(&server.ask(&www()), 300, started);
        assert_eq!(
            server.ask(&Ask::of(&format!("n{}.example.", step.unsigned_abs()), "A")).ttl(),
            Some(300)
        );
        is_about(&server.ask(&www()), 300, started);
    }
    assert_eq!(upstream.count_of("www.example."), 1);
}

#[test]
fn denials_are_kept_for_the_lesser_of_ttl_and_minimum() {
    let Some(mut clock) = Clock::create() else { return };
    let upstream = Scripted::start(|query| match query.qname().as_str() {
        "nodata.example." => query.answer().soa("example.", 100).send(),
        _ => query.answer().rcode(Rcode::NXDOMAIN).soa("example.", 100).send(),
    });
    let server = clock.of(Setup::forwarding_to(upstream.addr)).start();
    let started = Instant::now();
    for (qname, rcode) in
        [("nodata.example.", Rcode::NOERROR), ("absent.example.", Rcode::NXDOMAIN)]
    {
        let reply = server.ask(&Ask::of(qname, "A"));
        assert_eq!((reply.rcode, reply.authority.len()), (rcode, 1));
    }
    clock.advance(40);
    for (qname, rcode) in
        [("nodata.example.", Rcode::NOERROR), ("absent.example.", Rcode::NXDOMAIN)]
    {
        let reply = server.ask(&Ask::of(qname, "A"));
        assert_eq!(reply.rcode, rcode);
        is_about(&reply, 60, started);
    }
    // Each of two workers verifies the first denial of an upstream for a name in mixed case.
    let received = upstream.received();
    let names: BTreeSet<String> = received.iter().map(|query| query.qname()).collect();
    assert_eq!(Vec::from_iter(names), ["absent.example.", "nodata.example."]);
    assert!(received.len() <= 4, "{}", received.len());
    // Without validation, a denial is for its own name only.
    let below = "a.b.absent.example.";
    assert_eq!(server.ask(&Ask::of(below, "A")).rcode, Rcode::NXDOMAIN);
    assert!(upstream.received().iter().any(|query| query.qname() == below));
}

#[test]
fn a_hundred_clients_share_one_query_and_each_gets_its_own_answer() {
    let upstream = Scripted::start(|query| query.answer().own(60, "A", "192.0.2.1").hold());
    let server = Setup::forwarding_to(upstream.addr).server("workers = 1").start();
    let ask_of = |number: usize| {
        let ask = if number.is_multiple_of(2) {
            Ask::of("Shared.EXAMPLE.", "A")
        } else {
            Ask::of("sHARED.example.", "A")
        };
        let ask = ask.id(1000 + number as u16);
        if number.is_multiple_of(3) { ask } else { ask.edns(512 + number as u16) }
    };
    let clients: Vec<Udp> = (0..CLIENTS).map(|_| Udp::to(server.addr)).collect();
    for (number, client) in clients.iter().enumerate() {
        client.send(&ask_of(number).octets());
    }
    // The reply shows that the server has read the queries before this one.
    clients[0].ask(&Ask::of("localhost.", "A"));
    until("the upstream is asked", || (upstream.held() > 0).then_some(()));
    upstream.release();
    for (number, client) in clients.iter().enumerate() {
        let (ask, octets) =
            (ask_of(number), client.receive(crate::harness::PATIENCE).expect("an answer"));
        let reply = Reply::read(&octets);
        assert_eq!((reply.header.id, &reply.question), (1000 + number as u16, &ask.question()));
        assert_eq!(
            (reply.texts(), reply.opt.is_some()),
            (vec!["192.0.2.1".to_owned()], !number.is_multiple_of(3))
        );
    }
    // On a busy machine, the upstream may be asked again because it has not answered in time.
    assert!(upstream.count_of("shared.example.") <= 3);
}

#[test]
fn a_popular_name_is_asked_for_again_before_it_expires() {
    let Some(mut clock) = Clock::create() else { return };
    for (keys, asked) in [("prefetch = true", 2), ("prefetch = false", 1)] {
        let upstream = Scripted::plain(100);
        let cache = format!("[cache]\nsnapshot-interval-secs = 0\n{keys}");
        let server = clock
            .of(Setup::forwarding_to(upstream.addr).server("workers = 1").tables(&cache))
            .start();
        server.ask(&www());
        server.ask(&www());
        clock.advance(94);
        let reply = server.ask(&www());
        assert!(
            reply.ttl().is_some_and(|ttl| ttl <= 6),
            "the old answer is given still: {reply:?}"
        );
        if asked == 2 {
            until("the new answer is there", || server.ask(&www()).ttl().filter(|ttl| *ttl > 50));
        }
        assert_eq!(upstream.received().len(), asked);
    }
}

/// An upstream that becomes silent when the flag is set.
fn mortal(ttl_secs: u32) -> (Scripted, Arc<AtomicBool>) {
    let silent = Arc::new(AtomicBool::new(false));
    let told = silent.clone();
    let upstream = Scripted::start(move |query| {
        if told.load(Ordering::Relaxed) {
            Verdict::Silence
        } else {
            query.answer().own(ttl_secs, "A", "192.0.2.1").send()
        }
    });
    (upstream, silent)
}

#[test]
fn expired_data_is_given_with_a_short_ttl_while_no_upstream_answers() {
    let Some(mut clock) = Clock::create() else { return };
    let (upstream, silent) = mortal(60);
    let server = clock.of(Setup::forwarding_to(upstream.addr)).start();
    server.ask(&www());
    silent.store(true, Ordering::Relaxed);
    clock.advance(120);
    for _ in 0..2 {
        let reply = server.ask(&www());
        assert_eq!((reply.rcode, reply.texts()), (Rcode::NOERROR, vec!["192.0.2.1".to_owned()]));
        assert_eq!(reply.ede(), Some(Ede::STALE_ANSWER.0));
        assert!(reply.ttl().is_some_and(|ttl| ttl <= 30));
    }
    // A day past its TTL, it must not be used.
    clock.advance(2 * 86_400);
    assert_eq!(server.ask(&www()).rcode, Rcode::SERVFAIL);
    silent.store(false, Ordering::Relaxed);
    clock.advance(600);
    until("a fresh answer", || (server.ask(&www()).ttl() == Some(60)).then_some(()));
}

#[test]
fn without_serve_stale_expired_data_is_not_given() {
    let Some(mut clock) = Clock::create() else { return };
    let (upstream, silent) = mortal(60);
    let cache = "[cache]\nsnapshot-interval-secs = 0\nserve-stale = false";
    let server = clock.of(Setup::forwarding_to(upstream.addr).tables(cache)).start();
    server.ask(&www());
    silent.store(true, Ordering::Relaxed);
    clock.advance(120);
    assert_eq!(server.ask(&www()).rcode, Rcode::SERVFAIL);
}

#[test]
fn answers_survive_a_restart_and_grow_no_younger() {
    let (upstream, silent) = mortal(600);
    let cache = "[cache]\nsnapshot-interval-secs = 300";
    let mut server = Setup::forwarding_to(upstream.addr).tables(cache).start();
    let first = server.ask(&www()).ttl();
    silent.store(true, Ordering::Relaxed);
    server.restart();
    let reply = server.ask(&www());
    assert_eq!(reply.texts(), ["192.0.2.1"]);
    assert!(reply.ttl() <= first && reply.ede().is_none(), "{reply:?}");
    assert_eq!(upstream.received().len(), 1);
}

#[test]
fn ttls_are_kept_within_the_configured_bounds() {
    let upstream = Scripted::start(|query| match query.qname().as_str() {
        "short.example." => query.answer().own(1, "A", "192.0.2.1").send(),
        "long.example." => query.answer().own(604_800, "A", "192.0.2.1").send(),
        "top.example." => query.answer().own(u32::MAX, "A", "192.0.2.1").send(),
        _ => query.answer().rcode(Rcode::NXDOMAIN).soa("example.", 86_400).send(),
    });
    let cache = "[cache]\nsnapshot-interval-secs = 0\nmin-ttl-secs = 30\nmax-ttl-secs = 1000\nnegative-max-ttl-secs = 500";
    let server = Setup::forwarding_to(upstream.addr).tables(cache).start();
    let ttl = |qname: &str| server.ask(&Ask::of(qname, "A")).ttl();
    assert_eq!(ttl("short.example."), Some(30));
    assert_eq!(ttl("long.example."), Some(1000));
    assert_eq!(ttl("top.example."), Some(30), "a TTL with its highest bit set is 0 (RFC 2181 §8)");
    assert_eq!(server.ask(&Ask::of("absent.example.", "A")).authority[0].1, 500);
}

#[test]
fn additional_records_are_given_where_configured() {
    let Some(upstream) = Kind::Nsd.serve(&[zones::everything()]) else { return };
    let beside = |keys: &str| {
        let server: Server = Setup::forwarding_to(upstream.addr).server(keys).start();
        let reply = server.ask(&Ask::of("equal.example.", "MX"));
        (reply.answer.len(), reply.authority.len(), reply.additional.len())
    };
    assert_eq!(beside("minimal-responses = false"), (1, 2, 2));
    assert_eq!(beside("minimal-responses = true"), (1, 0, 0));
}
