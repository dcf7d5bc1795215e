//! A flow of queries: the choice of queries, their pace, their clients and their results.
//!
//! A flow has no socket and no clock. It determines which message to send and when, receives
//! messages from the driver, and counts.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use avocet_wire::header::TC;
use avocet_wire::{Header, MessageView};

use super::pace::Pace;
use super::pending::{IdState, Pending, Sent};
use super::tally::{Tally, rcode_name};
use crate::ask::{MAX_QUERY, Pick, Workload};
use crate::check::judge::{Depth, is_response};
use crate::check::{Judge, Wrong};

/// The reaction to a truncated answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// The answer is counted, and the question is not repeated.
    Never,
    /// The question is repeated over TCP (RFC 7766 §5). Latency counts from the first query.
    OverTcp,
}

/// Queries of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) name: &'static str,
    pub(crate) workload: Workload,
    pub(crate) pace: Pace,
    pub(crate) judge: Judge,
    pub(crate) retry: Retry,
    pub(crate) tally: Tally,
    /// The flow's share of the total rate in a ramp.
    pub(crate) share: f64,
    /// The part of a run in which the flow sends, in nanoseconds.
    pub(crate) span: Range<u64>,
    /// Maximum number of queries per run.
    pub(crate) limit: u64,
    /// Number of queries that remain to be sent.
    left: u64,
    /// The client of each listed query, if the queries are recorded.
    pub(crate) recorded_clients: Option<Arc<[u32]>>,
    /// Longest answer that clients accept over the flow's own transport, in octets.
    longest: usize,
    timeout_ns: u64,
    /// The position of the next query among the queries of the flow, and the position after the
    /// latest answered query.
    order: u64,
    answered_to: u64,
    /// The clients that send queries, followed by the clients that retry over TCP.
    clients: Vec<Pending>,
    asking: usize,
    next_client: usize,
    /// Sent queries that are neither answered nor lost.
    in_flight: usize,
    /// Queries that were chosen but that no socket accepted. The last one is sent next.
    returned: Vec<(Pick, u64)>,
    retries: VecDeque<Sent>,
    /// Reused memory for the queries that a sweep gives up.
    given_up: Vec<Sent>,
    started_ns: u64,
    is_asking: bool,
    /// The ID of the next malformed query, for which no particular answer is expected.
    next_id: u16,
}

impl Flow {
    /// Creates an idle flow with this number of clients.
    pub(crate) fn new(
        name: &'static str,
        workload: Workload,
        pace: Pace,
        judge: Judge,
        clients: usize,
    ) -> Self {
        let first = |i: usize| Pending::new((i as u16).wrapping_mul(40_503).wrapping_add(1_021));
        Self {
            name,
            workload,
            pace,
            judge,
            retry: Retry::Never,
            tally: Tally::new(),
            share: 1.0,
            span: 0..u64::MAX,
            limit: u64::MAX,
            left: 0,
            recorded_clients: None,
            longest: usize::MAX,
            timeout_ns: 0,
            order: 0,
            answered_to: 0,
            clients: (0..clients.max(1)).map(first).collect(),
            asking: clients.max(1),
            next_client: 0,
            in_flight: 0,
            returned: Vec::new(),
            retries: VecDeque::new(),
            given_up: Vec::new(),
            started_ns: 0,
            is_asking: false,
            next_id: 0,
        }
    }

    /// Sets the timeout in nanoseconds.
    pub(crate) fn with_timeout(mut self, timeout_ns: u64) -> Self {
        self.timeout_ns = timeout_ns;
        self
    }

    /// Sets the longest answer that clients accept, except in a retry over TCP.
    pub(crate) fn with_longest(mut self, octets: usize) -> Self {
        self.longest = octets;
        self
    }

    /// Enables retries of truncated answers over TCP.
    pub(crate) fn with_retry(mut self) -> Self {
        self.retry = Retry::OverTcp;
        let again = self.clients.clone();
        self.clients.extend(again);
        self
    }

    /// Returns the number of clients that send queries, and the number of clients that retry.
    pub(crate) fn clients(&self) -> (usize, usize) {
        (self.asking, self.clients.len() - self.asking)
    }

    /// Starts sending.
    pub(crate) fn start(&mut self, now_ns: u64) {
        self.started_ns = now_ns;
        self.left = self.limit;
        self.is_asking = true;
        self.pace.start(now_ns + self.span.start);
    }

    /// Stops sending.
    pub(crate) fn stop(&mut self) {
        self.is_asking = false;
        self.returned.clear();
    }

    /// Reports whether everything has been sent.
    pub(crate) fn is_done(&self) -> bool {
        !self.is_asking || self.left == 0
    }

    /// Returns the number of queries that are neither answered nor lost.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns the time at which the next query is due, if there is one.
    #[inline]
    pub(crate) fn next_due(&self, now_ns: u64) -> Option<u64> {
        if !self.is_asking || self.left == 0 {
            return None;
        }
        if let Some((_, due)) = self.returned.last() {
            return Some(*due);
        }
        let due = self.pace.next_due(now_ns, self.in_flight)?;
        let since = due.saturating_sub(self.started_ns);
        match self.span.contains(&since) {
            true => Some(due),
            // The first queries of a closed loop that starts later are due at its start.
            false => (since < self.span.start).then(|| self.started_ns + self.span.start),
        }
    }

    /// Returns the next client, if a query is due.
    pub(crate) fn turn(&mut self, now_ns: u64) -> Option<usize> {
        self.next_due(now_ns).filter(|due| *due <= now_ns)?;
        if let Some(client) = self.recorded_client() {
            return Some(client);
        }
        self.next_client =
            if self.next_client + 1 >= self.asking { 0 } else { self.next_client + 1 };
        Some(self.next_client)
    }

    fn recorded_client(&self) -> Option<usize> {
        let clients = self.recorded_clients.as_ref()?;
        let index = match (self.returned.last(), &self.pace) {
            (Some((pick, _)), _) => pick.index()?,
            (None, Pace::Recorded { taken, .. }) => *taken,
            _ => return None,
        };
        clients.get(index).map(|client| *client as usize % self.asking)
    }

    /// Writes the next query of a sending client, if one is due, to `out` of at least [`MAX_QUERY`]
    /// octets.
    #[inline]
    pub(crate) fn compose(&mut self, client: usize, now_ns: u64, out: &mut [u8]) -> Option<usize> {
        let due_ns = self.next_due(now_ns).filter(|due| *due <= now_ns)?;
        if self.recorded_clients.is_some() && self.recorded_client() != Some(client) {
            return None;
        }
        let pick = match self.returned.pop() {
            Some((pick, _)) => pick,
            None => self.draw()?,
        };
        self.left -= 1;
        let len = self.workload.write(pick, out);
        let order = self.order;
        self.order += 1;
        let id = self.note(client, Sent { pick, due_ns, sent_ns: now_ns, order });
        self.tally.counts.sent += 1;
        if let Some(place) = out.first_chunk_mut() {
            *place = id.to_be_bytes();
        }
        Some(len)
    }

    #[inline]
    fn draw(&mut self) -> Option<Pick> {
        let pick = self.workload.draw();
        match pick {
            Some(_) => self.pace.take(),
            None => self.is_asking = false,
        }
        pick
    }

    #[inline]
    fn note(&mut self, client: usize, sent: Sent) -> u16 {
        if self.workload.is_unanswerable() {
            self.next_id = self.next_id.wrapping_add(1);
            return self.next_id;
        }
        let (id, lost) = self.clients[client].insert(sent);
        self.in_flight += 1;
        if let Some(lost) = lost {
            self.lose(&lost);
        }
        id
    }

    /// Writes the next query that is retried over TCP.
    pub(crate) fn compose_retry(
        &mut self,
        client: usize,
        now_ns: u64,
        out: &mut [u8],
    ) -> Option<usize> {
        let sent = self.retries.pop_front()?;
        let len = self.workload.write(sent.pick, out);
        let (id, lost) = self.clients.get_mut(client)?.insert(Sent { sent_ns: now_ns, ..sent });
        if let Some(lost) = lost {
            self.lose(&lost);
        }
        self.tally.counts.retried += 1;
        if let Some(place) = out.first_chunk_mut() {
            *place = id.to_be_bytes();
        }
        Some(len)
    }

    /// Reports whether queries wait for a retry.
    pub(crate) fn has_retries(&self) -> bool {
        !self.retries.is_empty()
    }

    /// Takes back the last query that was composed for a client and could not be sent. It becomes
    /// the next query.
    pub(crate) fn unsend(&mut self, client: usize) {
        if self.workload.is_unanswerable() {
            // A malformed query is not kept, because any other one serves the same purpose.
            self.tally.counts.sent -= 1;
            return;
        }
        if let Some(sent) = self.clients.get_mut(client).and_then(Pending::take_back) {
            self.in_flight -= 1;
            self.left += 1;
            self.tally.counts.sent -= 1;
            self.returned.push((sent.pick, sent.due_ns));
        }
    }

    /// Processes a message received by a client.
    #[inline]
    pub(crate) fn receive(&mut self, client: usize, now_ns: u64, octets: &[u8]) {
        let Some(header) = Header::read(octets).filter(|header| is_response(*header)) else {
            return self.tally.wrong(Wrong::Malformed, || format!("no response: {}", hex(octets)));
        };
        if self.workload.is_unanswerable() {
            self.tally.counts.answered += 1;
            return self.tally.header(header);
        }
        let found =
            self.clients.get_mut(client).map_or(IdState::Unknown, |client| client.find(header.id));
        let is_asked = |sent: &Sent| {
            self.judge.depth == Depth::Id
                || header.counts[0] == 0
                || self.workload.asked(sent.pick, octets)
        };
        match found {
            IdState::Waiting(sent) if is_asked(&sent) => {
                self.answered(client, now_ns, &sent, octets)
            }
            IdState::Answered(sent) if is_asked(&sent) => self.tally.counts.duplicate += 1,
            IdState::GivenUp(sent) if is_asked(&sent) => self.tally.counts.late += 1,
            IdState::Waiting(sent) => self.wrong(Wrong::Question, Some(&sent), octets),
            _ => self.wrong(Wrong::Id, None, octets),
        }
    }

    #[inline]
    fn answered(&mut self, client: usize, now_ns: u64, sent: &Sent, octets: &[u8]) {
        let Some(header) = Header::read(octets) else { return };
        if let Some(pending) = self.clients.get_mut(client) {
            pending.answered(header.id);
        }
        if self.retry == Retry::OverTcp && client < self.asking && header.has(TC) {
            self.tally.counts.truncated += 1;
            self.retries.push_back(*sent);
            return;
        }
        self.in_flight -= 1;
        self.tally.counts.answered += 1;
        if sent.order >= self.answered_to {
            self.answered_to = sent.order + 1;
            self.tally.counts.lost_at_end = 0;
        }
        self.tally.header(header);
        self.tally.interval.record(now_ns.saturating_sub(sent.due_ns));
        let longest = if client < self.asking { self.longest } else { usize::MAX };
        if self.judge.depth > Depth::Id
            && let Err(wrong) = self.judge.look(sent.pick, octets, longest)
        {
            self.wrong(wrong, Some(sent), octets);
        }
    }

    #[cold]
    fn wrong(&mut self, wrong: Wrong, sent: Option<&Sent>, octets: &[u8]) {
        let (workload, rcodes) = (&self.workload, self.judge.rcodes);
        self.tally.wrong(wrong, || {
            let asked =
                sent.map_or_else(|| "no query".to_owned(), |sent| question(workload, sent.pick));
            let rcode = octets.get(3).map_or(0, |flags| usize::from(flags & 15));
            match wrong {
                Wrong::Rcode => format!("{asked}: {}, expected {rcodes}", rcode_name(rcode)),
                Wrong::Answer => format!("{asked}: other records than expected: {}", hex(octets)),
                Wrong::Id => format!("the ID belongs to no query: {}", hex(octets)),
                Wrong::Question => {
                    format!("{asked}: the response has another question: {}", hex(octets))
                }
                Wrong::Malformed => format!("{asked}: malformed: {}", hex(octets)),
                Wrong::Class => {
                    format!("{asked}: a record has another class: {}", hex(octets))
                }
                Wrong::Trailing => {
                    format!("{asked}: octets after the last record: {}", hex(octets))
                }
                Wrong::Long => format!("{asked}: {} octets over UDP", octets.len()),
                Wrong::Truncated => format!("{asked}: truncated"),
                Wrong::Empty => format!("{asked}: NOERROR without a record"),
            }
        });
    }

    /// Gives up timed-out queries.
    pub(crate) fn sweep(&mut self, now_ns: u64) {
        let limit = now_ns.saturating_sub(self.timeout_ns);
        for client in 0..self.clients.len() {
            self.give_up(client, limit);
        }
        while let Some(sent) = self.retries.pop_front_if(|sent| sent.sent_ns < limit) {
            self.lose(&sent);
        }
    }

    /// Marks the queries in flight on a client's closed connection as lost.
    pub(crate) fn disconnected(&mut self, client: usize) {
        let lost = self.give_up(client, u64::MAX);
        self.tally.counts.disconnects += u64::from(lost > 0);
    }

    /// Gives up the queries of a client that were sent before `limit_ns`. Returns their number.
    fn give_up(&mut self, client: usize, limit_ns: u64) -> usize {
        let mut lost = std::mem::take(&mut self.given_up);
        if let Some(client) = self.clients.get_mut(client).filter(|client| client.waiting() > 0) {
            client.give_up(limit_ns, |sent| lost.push(sent));
        }
        lost.iter().for_each(|sent| self.lose(sent));
        let count = lost.len();
        lost.clear();
        self.given_up = lost;
        count
    }

    /// Counts a query as lost. Its latency is at least the timeout, so that percentiles of all
    /// queries do not improve when a server drops the slow ones.
    fn lose(&mut self, sent: &Sent) {
        self.in_flight -= 1;
        self.tally.counts.lost += 1;
        self.tally.counts.lost_at_end += u64::from(sent.order >= self.answered_to);
        self.tally.interval.record(self.timeout_ns + sent.sent_ns.saturating_sub(sent.due_ns));
    }

    /// Resets the counts before another run. Queries that are in flight no longer count.
    pub(crate) fn reset(&mut self) {
        self.tally = Tally::new();
        self.answered_to = self.order;
    }
}

/// Returns the text that describes a question.
fn question(workload: &Workload, pick: Pick) -> String {
    let mut buffer = [0; MAX_QUERY];
    let len = workload.write(pick, &mut buffer);
    let view = MessageView::new(buffer.get(..len).unwrap_or_default());
    let Ok(question) = view.and_then(|view| view.question()) else {
        return "a malformed query".to_owned();
    };
    let mut text = String::new();
    let _ = question.qname().map(|name| avocet_wire::text::write_name(name.wire(), &mut text));
    format!("{text} {}", question.qtype)
}

/// Formats the first octets of a message.
fn hex(octets: &[u8]) -> String {
    /// The number of octets shown: enough for a header, a question and an address.
    const SHOWN: usize = 72;
    let mut text = String::new();
    for octet in octets.iter().take(SHOWN) {
        let _ = write!(text, "{octet:02x}");
    }
    if octets.len() > SHOWN {
        let _ = write!(text, ".. ({} octets)", octets.len());
    }
    text
}

#[cfg(test)]
mod tests;
