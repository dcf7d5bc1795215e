//! Cookies, rate limits, and counters that clients cannot make grow (S26, S33, S44).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use avocet_wire::edns::option;
use avocet_wire::{Class, Rcode};

use crate::harness::client::frame;
use crate::harness::{Ask, PATIENCE, Reply, Scripted, Server, Setup, Udp, until};

const LIMIT: &str = "[rate-limit]\nresponses-per-second = 5\nslip = 2";
/// Queries that exceed the limit. The burst allowance is two seconds' worth of answers, which is
/// ten.
const SENT: usize = 200;
/// The server's limit of queries that wait for one name.
const WAITERS: usize = 1000;
/// Queries for one name that are sent while it is resolved.
const PULSE: usize = 10_000;
/// Queries sent at once. The batches are large, so that all are sent before the server gives up.
const BATCH: usize = 200;

/// Sends a query many times and returns the replies. A different query after each batch shows that
/// the server has read the whole batch.
fn send_many(client: &Udp, ask: &Ask, count: usize) -> Vec<Reply> {
    let mut replies = Vec::new();
    for batch in 0..count.div_ceil(50) {
        for _ in 0..50.min(count - batch * 50) {
            client.send(&ask.clone().id(1).octets());
        }
        replies.extend(replies_before_barrier(client));
    }
    replies
}

/// The replies up to the barrier.
fn replies_before_barrier(client: &Udp) -> Vec<Reply> {
    let barrier = Ask::of("localhost.", "A").id(0xbeef).octets();
    client.send(&barrier);
    let mut replies = Vec::new();
    loop {
        let octets = client.receive(PATIENCE).expect("the barrier is answered");
        if octets[..2] == [0xbe, 0xef] {
            return replies;
        }
        replies.push(Reply::read(&octets));
    }
}

#[test]
fn equal_answers_over_the_limit_are_dropped_or_truncated_and_tcp_gives_them() {
    let upstream = Scripted::plain(600);
    // The limit also counts the barrier: four times is below ten.
    let server = Setup::forwarding_to(upstream.addr).tables(LIMIT).start();
    let ask = Ask::of("www.example.", "A").edns(1232);
    server.ask_tcp(&ask);
    let client = Udp::to(server.addr);
    let replies = send_many(&client, &ask, SENT);
    let slips = replies.iter().filter(|reply| reply.is_truncated()).count();
    let whole = replies.len() - slips;
    assert!((10..50).contains(&whole), "{whole} whole answers");
    assert_eq!(slips, (SENT - whole) / 2, "each second answer over the limit says TC");
    assert!(replies.iter().all(|reply| reply.is_truncated() != (reply.answer.len() == 1)));
    // The amplification that an attacker could use against a victim (RFC 5358).
    let (octets_in, octets_out) =
        (SENT * ask.octets().len(), replies.iter().map(|reply| reply.len).sum::<usize>());
    assert!(octets_out <= 4 * octets_in, "{octets_out} octets for {octets_in}");
    assert_eq!(server.ask_tcp(&ask).answer.len(), 1);
}

#[test]
fn a_client_with_a_valid_cookie_is_not_limited_and_one_with_a_wrong_cookie_is() {
    let upstream = Scripted::plain(600);
    let server = Setup::forwarding_to(upstream.addr).tables(LIMIT).start();
    let client = Udp::to(server.addr);
    let ask =
        |cookie: &[u8]| Ask::of("www.example.", "A").edns(1232).option(option::COOKIE, cookie);
    let first = client.ask(&ask(b"12345678"));
    let cookie = first.option(option::COOKIE).expect("a cookie").to_vec();
    assert!(cookie.len() == 24 && cookie.starts_with(b"12345678"));
    let replies = send_many(&client, &ask(&cookie), SENT);
    assert_eq!(replies.len(), SENT);
    assert!(replies.iter().all(|reply| reply.rcode == Rcode::NOERROR && reply.answer.len() == 1));
    let mut wrong = cookie;
    wrong[23] ^= 1;
    let replies = send_many(&client, &ask(&wrong), SENT);
    assert!(replies.iter().filter(|reply| !reply.is_truncated()).count() < 50);
    assert!(
        replies
            .iter()
            .all(|reply| reply.option(option::COOKIE).is_some_and(|cookie| cookie.len() == 24))
    );
}

#[test]
fn cookies_of_servers_with_one_secret_hold_at_all_of_them() {
    let keys = format!("cookie-secret = \"{}\"", "0f".repeat(16));
    let (first, second) = (
        Setup::plain().server(&keys).tables(LIMIT).start(),
        Setup::plain().server(&keys).tables(LIMIT).start(),
    );
    let ask =
        |cookie: &[u8]| Ask::of("localhost.", "AAAA").edns(1232).option(option::COOKIE, cookie);
    let cookie = first.ask(&ask(b"12345678")).option(option::COOKIE).expect("a cookie").to_vec();
    assert_eq!(send_many(&Udp::to(second.addr), &ask(&cookie), SENT).len(), SENT);
}

#[test]
fn a_cookie_may_be_asked_for_without_a_question() {
    let server = Setup::plain().start();
    let with_options = |options: &[u8]| {
        let mut octets =
            b"\x00\x09\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x29\x04\xd0\x00\x00\x00\x00"
                .to_vec();
        octets.extend_from_slice(&(options.len() as u16).to_be_bytes());
        octets.extend_from_slice(options);
        let client = Udp::to(server.addr);
        client.send(&octets);
        Reply::read(&client.receive(PATIENCE).expect("an answer"))
    };
    let reply = with_options(b"\x00\x0a\x00\x0812345678");
    assert_eq!((reply.rcode, reply.question.len()), (Rcode::NOERROR, 0));
    let cookie = reply.option(option::COOKIE).expect("a cookie").to_vec();
    assert!(cookie.len() == 24 && cookie.starts_with(b"12345678"));
    // RFC 7873 §5.4: only the cookie makes such a query valid.
    assert_eq!(with_options(b"").rcode, Rcode::FORMERR);
    assert_eq!(with_options(b"\x00\x0a\x00\x07abcdefg").rcode, Rcode::FORMERR);
}

/// Counts replies by RCODE. A separate thread receives, so that the socket does not overflow.
#[derive(Default)]
struct Tally {
    good: AtomicUsize,
    failed: AtomicUsize,
    barriers: AtomicUsize,
}

impl Tally {
    fn count(&self, octets: &[u8]) {
        let counter = match (octets[0], Reply::read(octets).rcode) {
            (0xbe, _) => &self.barriers,
            (_, Rcode::NOERROR) => &self.good,
            _ => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn until_at_least(&self, what: &str, counter: impl Fn(&Self) -> &AtomicUsize, least: usize) {
        until(what, || (counter(self).load(Ordering::Relaxed) >= least).then_some(()));
    }
}

/// Sends queries while the upstream is silent, lets it answer, and waits for the replies.
fn pulse(client: &Udp, tally: &Tally, upstream: &Scripted) {
    let (ask, barrier) =
        (Ask::of("pulse.example.", "A").octets(), Ask::of("localhost.", "A").id(0xbeef).octets());
    for batch in 1..=PULSE / BATCH {
        (0..BATCH).for_each(|_| client.send(&ask));
        client.send(&barrier);
        tally.until_at_least("a batch is read", |tally| &tally.barriers, batch);
    }
    assert_eq!(tally.good.load(Ordering::Relaxed), 0);
    upstream.release();
    tally.until_at_least("the others are answered", |tally| &tally.good, 1);
    // The replies arrive all at once and may overflow the client's socket, so the last query is
    // repeated.
    until("no more is to come", || {
        client.send(&barrier);
        (tally.barriers.load(Ordering::Relaxed) > PULSE / BATCH).then_some(())
    });
}

#[test]
fn a_pulse_of_answers_is_bounded() {
    let upstream = Scripted::start(|query| query.answer().own(60, "A", "192.0.2.1").hold());
    let server = Setup::forwarding_to(upstream.addr).server("workers = 1").start();
    let client = Udp::to(server.addr);
    let (tally, receiver, over) =
        (Tally::default(), client.second_handle(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                receiver
                    .receive(Duration::from_millis(100))
                    .iter()
                    .for_each(|octets| tally.count(octets));
            }
        });
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            pulse(&client, &tally, &upstream)
        }));
        over.store(true, Ordering::Relaxed);
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    assert!(tally.good.load(Ordering::Relaxed) <= WAITERS);
    // Queries beyond the bound get no reply: their addresses may be spoofed.
    assert_eq!(tally.failed.load(Ordering::Relaxed), 0);
    assert_eq!(upstream.count_of("pulse.example."), 1);
}

#[test]
fn random_names_types_and_classes_add_no_metrics() {
    let upstream = Scripted::plain(60);
    let server = Setup::forwarding_to(upstream.addr).http().start();
    server.ask(&Ask::of("www.example.", "A"));
    server.ask_tcp(&Ask::of("www.example.", "A"));
    // The workers report to the metrics every half second, this series with the first query.
    let before = until("the metrics of the upstream query", || {
        let series = series(&server);
        series.contains("avocet_upstream_unpredictable_bits").then_some(series)
    });
    assert!(before.len() > 50, "{before:?}");
    let mut connection = crate::harness::Tcp::to(server.addr);
    for batch in 0..20 {
        let asks = (0..100).map(|number| {
            let name = format!("r{batch}-{number}.x{number}\\\"y\\\\z.example.");
            Ask::of(&name, &format!("TYPE{}", 300 + batch * 100 + number))
                .class(Class(1 + number as u16 % 5))
        });
        let framed: Vec<u8> = asks.flat_map(|ask| frame(&ask.octets())).collect();
        connection.send_raw(&framed).expect("an open connection");
        for _ in 0..100 {
            assert!(connection.receive().is_some());
        }
    }
    assert_eq!(series(&server), before);
}

/// The names and labels of all metrics.
fn series(server: &Server) -> BTreeSet<String> {
    let text = crate::harness::http_get(server.http, "/metrics");
    let samples = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    samples.filter_map(|line| line.rsplit_once(' ').map(|(series, _)| series.to_owned())).collect()
}
