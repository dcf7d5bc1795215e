use super::*;
use crate::ask::{Choice, Form, names};
use crate::check::judge::Source;
use crate::check::{Deviations, Rcodes};
use avocet_wire::header::QR;
use avocet_wire::{Rcode, Rtype};

const SECOND: u64 = 1_000_000_000;
const MILLI: u64 = 1_000_000;

fn flow(pace: Pace, choice: Choice) -> Flow {
    let form = Form { edns_size: None, dnssec_ok: false };
    let zone = names::wire_name(b"test").unwrap();
    let questions = names::numbered(&zone, "www", 10, &[Rtype::A], &form).unwrap();
    let mut judge = Judge::new(Depth::Question, Rcodes::only(Rcode::NOERROR), Source::Scenario);
    // The answers in these tests have no records.
    judge.allowed = Deviations::ALL;
    let workload = Workload::new(Arc::new(questions), None, choice, 1);
    Flow::new("test", workload, pace, judge, 4).with_timeout(2 * SECOND)
}

fn answer(query: &[u8], rcode: Rcode) -> Vec<u8> {
    let mut answer = query.to_vec();
    answer[2] |= (QR >> 8) as u8;
    answer[3] |= rcode.0 as u8;
    answer
}

/// Returns all queries that are due at a time, each with its client.
fn ask(flow: &mut Flow, now_ns: u64) -> Vec<(usize, Vec<u8>)> {
    let mut asked = Vec::new();
    while let Some(client) = flow.turn(now_ns) {
        let mut out = [0; MAX_QUERY];
        let Some(len) = flow.compose(client, now_ns, &mut out) else { break };
        asked.push((client, out[..len].to_vec()));
    }
    asked
}

/// Drives a flow against a server in virtual time, in steps of half a millisecond. `reply_at` takes
/// the index and the arrival time of a query, and returns the time of its answer or `None`.
fn simulate(flow: &mut Flow, secs: u64, reply_at: impl Fn(u64, u64) -> Option<u64>) {
    let mut replies: Vec<(u64, usize, Vec<u8>)> = Vec::new();
    let mut number = 0;
    flow.start(0);
    for now in (0..(secs + 3) * SECOND).step_by(MILLI as usize / 2) {
        if now == secs * SECOND {
            flow.stop();
        }
        for (client, query) in ask(flow, now) {
            if let Some(at) = reply_at(number, now) {
                replies.push((at, client, answer(&query, Rcode::NOERROR)));
            }
            number += 1;
        }
        let (ready, waiting) = replies.into_iter().partition(|(at, ..)| *at <= now);
        replies = waiting;
        ready.iter().for_each(|(_, client, message): &(u64, usize, Vec<u8>)| {
            flow.receive(*client, now, message)
        });
        flow.sweep(now);
    }
    flow.tally.close_interval();
}

fn p99(flow: &Flow) -> u64 {
    flow.tally.latencies.at(0.99)
}

#[test]
fn a_known_delay_of_a_known_share_is_the_percentile() {
    let mut flow = flow(Pace::rate(1_000.0), Choice::Cycle);
    simulate(&mut flow, 10, |number, now| {
        Some(now + if number % 50 == 0 { 30 * MILLI } else { MILLI })
    });
    assert_eq!(flow.tally.counts.answered, 10_000);
    assert!(p99(&flow).abs_diff(30 * MILLI) < MILLI, "{}", p99(&flow));
    assert!(flow.tally.latencies.at(0.97).abs_diff(MILLI) <= MILLI / 2);
}

/// Returns the time at which a stalling server answers. It stalls for 200 ms in each second, which
/// delays a fifth of the queries by 100 ms on average.
fn stalls(_: u64, now: u64) -> Option<u64> {
    let into = now % SECOND;
    Some(if into < 200 * MILLI { now - into + 200 * MILLI } else { now })
}

#[test]
fn an_open_loop_sees_a_server_that_stalls() {
    let mut flow = flow(Pace::rate(1_000.0), Choice::Cycle);
    simulate(&mut flow, 10, stalls);
    // The delays of a fifth of the queries are spread evenly over 200 ms. The longest 1 % of all
    // queries have 190 ms and more.
    assert!((185 * MILLI..=200 * MILLI).contains(&p99(&flow)), "{}", p99(&flow));
    let delayed = flow.tally.latencies.at(0.79);
    assert!(delayed < MILLI && flow.tally.latencies.at(0.85) > 30 * MILLI, "{delayed}");
}

#[test]
fn a_generator_that_is_held_up_counts_from_when_queries_were_due() {
    let mut flow = flow(Pace::rate(1_000.0), Choice::Cycle);
    flow.start(0);
    let asked = ask(&mut flow, 500 * MILLI);
    assert_eq!(asked.len(), 501, "all that were due are sent");
    for (client, query) in &asked {
        flow.receive(*client, 501 * MILLI, &answer(query, Rcode::NOERROR));
    }
    flow.tally.close_interval();
    assert!(flow.tally.latencies.at(0.5).abs_diff(251 * MILLI) < 2 * MILLI);
}

#[test]
fn lost_answers_are_counted() {
    let mut flow = flow(Pace::rate(1_000.0), Choice::Cycle);
    simulate(&mut flow, 5, |number, now| (number % 10 != 0).then_some(now));
    let counts = flow.tally.counts;
    assert_eq!((counts.sent, counts.answered, counts.lost), (5_000, 4_500, 500));
    assert_eq!((flow.in_flight(), counts.wrong.sum()), (0, 0));
}

#[test]
fn lost_queries_take_at_least_the_timeout() {
    let mut flow = flow(Pace::rate(1_000.0), Choice::Cycle);
    simulate(&mut flow, 5, |number, now| (number % 10 != 0).then_some(now));
    assert_eq!(flow.tally.latencies.len(), 5_000);
    assert!(flow.tally.latencies.at(0.89) <= MILLI);
    assert!(flow.tally.latencies.at(0.91) >= 2 * SECOND);
}

#[test]
fn only_a_server_that_ends_loses_the_last_queries() {
    let mut scattered = flow(Pace::rate(1_000.0), Choice::Cycle);
    simulate(&mut scattered, 5, |number, now| (number % 10 != 5).then_some(now));
    assert_eq!(scattered.tally.counts.lost_at_end, 0, "{:?}", scattered.tally.counts);
    let mut dead = flow(Pace::rate(1_000.0), Choice::Cycle);
    simulate(&mut dead, 5, |_, now| (now < 4_980 * MILLI).then_some(now));
    let found = dead.tally.counts.lost_at_end;
    assert!((19..=20).contains(&found), "{found}");
}

#[test]
fn a_closed_loop_keeps_its_window() {
    let mut flow = flow(Pace::window(5), Choice::Cycle);
    flow.start(0);
    let asked = ask(&mut flow, 1);
    assert_eq!((asked.len(), ask(&mut flow, 2).len()), (5, 0));
    let (client, query) = &asked[0];
    flow.receive(*client, 3, &answer(query, Rcode::NOERROR));
    assert_eq!(ask(&mut flow, 4).len(), 1);
}

#[test]
fn wrong_answers_are_told_by_what_is_wrong() {
    let mut flow = flow(Pace::window(6), Choice::Cycle);
    flow.start(0);
    let asked = ask(&mut flow, 1);
    let mut give = |number: usize, change: &dyn Fn(&mut Vec<u8>)| {
        let (client, query) = &asked[number];
        let mut message = answer(query, Rcode::NOERROR);
        change(&mut message);
        flow.receive(*client, 2, &message);
    };
    give(0, &|message| message[0] ^= 0x40);
    give(1, &|message| message[13] ^= 1);
    give(2, &|message| message[3] |= Rcode::SERVFAIL.0 as u8);
    give(3, &|message| message[2] &= 0x7f);
    give(4, &|_| {});
    give(4, &|_| {});
    let counts = flow.tally.counts;
    let wrong = counts.wrong;
    for kind in [Wrong::Id, Wrong::Question, Wrong::Rcode, Wrong::Malformed] {
        assert_eq!(wrong.of(kind), 1, "{kind:?}");
    }
    assert_eq!((counts.duplicate, counts.answered), (1, 2));
    assert_eq!(flow.tally.examples.len(), 4);
    assert!(flow.tally.examples.iter().any(|text| text.contains("A: SERVFAIL, expected NOERROR")));
    flow.sweep(10 * SECOND);
    assert_eq!(flow.tally.counts.lost, 4);
}

#[test]
fn a_late_answer_is_not_a_wrong_one() {
    let mut flow = flow(Pace::rate(1_000.0), Choice::Cycle);
    simulate(&mut flow, 2, |number, now| {
        Some(now + if number == 7 { 2 * SECOND + 5 * MILLI } else { 0 })
    });
    let counts = flow.tally.counts;
    assert_eq!((counts.late, counts.lost, counts.wrong.sum()), (1, 1, 0));
}

#[test]
fn what_a_socket_does_not_take_is_asked_again_first() {
    let mut flow = flow(Pace::window(3), Choice::Once);
    flow.start(0);
    let mut out = [0; MAX_QUERY];
    let mut questions = Vec::new();
    for _ in 0..3 {
        let len = flow.compose(0, 1, &mut out).unwrap();
        questions.push(out[2..len].to_vec());
    }
    flow.unsend(0);
    flow.unsend(0);
    assert_eq!((flow.in_flight(), flow.tally.counts.sent), (1, 1));
    for question in &questions[1..] {
        let len = flow.compose(1, 2, &mut out).unwrap();
        assert_eq!(out[2..len], question[..]);
    }
}

#[test]
fn a_truncated_answer_is_asked_again_and_counts_once() {
    let mut flow = flow(Pace::window(1), Choice::Once).with_retry();
    assert_eq!(flow.clients(), (4, 4));
    flow.start(0);
    let (client, query) = ask(&mut flow, 100).remove(0);
    let mut truncated = answer(&query, Rcode::NOERROR);
    truncated[2] |= (TC >> 8) as u8;
    flow.receive(client, 200, &truncated);
    assert!(flow.has_retries() && flow.in_flight() == 1);
    let mut out = [0; MAX_QUERY];
    let len = flow.compose_retry(5, 300, &mut out).unwrap();
    flow.receive(5, 5_100, &answer(&out[..len], Rcode::NOERROR));
    flow.tally.close_interval();
    let counts = flow.tally.counts;
    assert_eq!((counts.sent, counts.answered, counts.truncated, counts.retried), (1, 1, 1, 1));
    assert!(flow.tally.latencies.max().abs_diff(5_000) < 10, "latency counts from the first query");
}

#[test]
fn recorded_queries_leave_at_their_times_from_their_clients() {
    let mut flow = flow(Pace::rate(1.0), Choice::Once);
    flow.pace = Pace::Recorded { due_ns: [0, 0, 10, 20].into(), start_ns: 0, taken: 0 };
    flow.recorded_clients = Some([0, 3, 0, 1].into());
    flow.start(1_000);
    let clients =
        |asked: Vec<(usize, Vec<u8>)>| asked.iter().map(|(client, _)| *client).collect::<Vec<_>>();
    assert_eq!(clients(ask(&mut flow, 1_005)), [0, 3]);
    assert_eq!(clients(ask(&mut flow, 1_015)), [0]);
    assert_eq!(clients(ask(&mut flow, 2_000)), [1]);
    assert_eq!(flow.next_due(9_000), None);
}

#[test]
fn a_flow_that_begins_later_waits() {
    let mut later = flow(Pace::rate(1_000.0), Choice::Cycle);
    later.span = SECOND..2 * SECOND;
    later.start(0);
    assert_eq!(later.next_due(0), Some(SECOND));
    assert_eq!(ask(&mut later, SECOND - 1).len(), 0);
    assert_eq!(ask(&mut later, 5 * SECOND).len(), 1_000);
}

#[test]
fn damaged_packets_wait_for_nothing() {
    let mut flow = flow(Pace::rate(1_000.0), Choice::Malformed);
    flow.start(0);
    assert!(ask(&mut flow, 100 * MILLI).len() > 90);
    assert_eq!(flow.in_flight(), 0);
}
