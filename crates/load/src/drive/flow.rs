//! One flow of queries: what is asked at which pace by which clients, and what came of it.
//!
//! A flow knows no socket and no clock. It says what is to be sent when, is told what came, and
//! counts.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use avocet_wire::header::TC;
use avocet_wire::{Header, MessageView};

use super::pace::Pace;
use super::pending::{Found, Pending, Sent};
use super::tally::{Tally, rcode_name};
use crate::ask::{MAX_QUERY, Pick, Workload};
use crate::check::judge::{Depth, is_response};
use crate::check::{Judge, Wrong};

/// What a truncated answer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// It is counted, and that is all.
    Never,
    /// The same question over TCP (RFC 7766 §5); latency counts from the first query.
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
    /// The share of the whole rate that is this flow's, in a ramp.
    pub(crate) share: f64,
    /// From when to when of a run it asks, in nanoseconds.
    pub(crate) span: Range<u64>,
    /// Queries it may ask from one start to the next.
    pub(crate) limit: u64,
    /// Those of them that it has not asked yet.
    left: u64,
    /// The client of each listed query, where these were recorded.
    pub(crate) recorded_clients: Option<Arc<[u32]>>,
    timeout_ns: u64,
    /// The clients that ask, and behind them those that ask again over TCP.
    clients: Vec<Pending>,
    asking: usize,
    next_client: usize,
    /// Asked and neither answered nor lost.
    in_flight: usize,
    /// Drawn and not taken by a socket; the last one is the next.
    returned: Vec<(Pick, u64)>,
    retries: VecDeque<Sent>,
    started_ns: u64,
    is_asking: bool,
    /// IDs of queries whose answers are not waited for.
    next_id: u16,
}

impl Flow {
    /// A flow of `clients`, which asks nothing yet.
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
            timeout_ns: 0,
            clients: (0..clients.max(1)).map(first).collect(),
            asking: clients.max(1),
            next_client: 0,
            in_flight: 0,
            returned: Vec::new(),
            retries: VecDeque::new(),
            started_ns: 0,
            is_asking: false,
            next_id: 0,
        }
    }

    /// Gives up waiting after so many nanoseconds.
    pub(crate) fn with_timeout(mut self, timeout_ns: u64) -> Self {
        self.timeout_ns = timeout_ns;
        self
    }

    /// Asks again over TCP what was truncated.
    pub(crate) fn with_retry(mut self) -> Self {
        self.retry = Retry::OverTcp;
        let again = self.clients.clone();
        self.clients.extend(again);
        self
    }

    /// How many clients ask at first, and how many ask again.
    pub(crate) fn clients(&self) -> (usize, usize) {
        (self.asking, self.clients.len() - self.asking)
    }

    /// Begins to ask.
    pub(crate) fn start(&mut self, now_ns: u64) {
        self.started_ns = now_ns;
        self.left = self.limit;
        self.is_asking = true;
        self.pace.start(now_ns + self.span.start);
    }

    /// Asks nothing more.
    pub(crate) fn stop(&mut self) {
        self.is_asking = false;
        self.returned.clear();
    }

    /// Has it asked all that there is to ask?
    pub(crate) fn is_done(&self) -> bool {
        !self.is_asking || self.left == 0
    }

    /// Queries that were asked and are neither answered nor lost.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// When the next query is due, if one is.
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
            // A closed loop that begins later is due then.
            false => (since < self.span.start).then(|| self.started_ns + self.span.start),
        }
    }

    /// The client whose turn it is, if a query is due.
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

    /// Writes the next query of a client that asks, if one is due, to `out` of [`MAX_QUERY`] octets
    /// at least.
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
        let id = self.note(client, Sent { pick, due_ns, sent_ns: now_ns });
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
        match lost {
            Some(_) => self.tally.counts.lost += 1,
            None => self.in_flight += 1,
        }
        id
    }

    /// Writes the next query that is asked again over TCP.
    pub(crate) fn compose_retry(
        &mut self,
        client: usize,
        now_ns: u64,
        out: &mut [u8],
    ) -> Option<usize> {
        let sent = self.retries.pop_front()?;
        let len = self.workload.write(sent.pick, out);
        let (id, lost) = self.clients.get_mut(client)?.insert(Sent { sent_ns: now_ns, ..sent });
        if lost.is_some() {
            self.lose(1);
        }
        self.tally.counts.retried += 1;
        if let Some(place) = out.first_chunk_mut() {
            *place = id.to_be_bytes();
        }
        Some(len)
    }

    /// Does something wait to be asked again?
    pub(crate) fn has_retries(&self) -> bool {
        !self.retries.is_empty()
    }

    /// The last query composed for a client did not leave: it is the next one again.
    pub(crate) fn unsend(&mut self, client: usize) {
        if self.workload.is_unanswerable() {
            // What was damaged in one way is as good as what was damaged in another: it is not
            // kept.
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

    /// Takes a message that came for a client.
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
            self.clients.get_mut(client).map_or(Found::Unknown, |client| client.find(header.id));
        let is_asked = |sent: &Sent| {
            self.judge.depth == Depth::Id
                || header.counts[0] == 0
                || self.workload.asked(sent.pick, octets)
        };
        match found {
            Found::Waiting(sent) if is_asked(&sent) => self.answered(client, now_ns, &sent, octets),
            Found::Answered(sent) if is_asked(&sent) => self.tally.counts.duplicate += 1,
            Found::GivenUp(sent) if is_asked(&sent) => self.tally.counts.late += 1,
            Found::Waiting(sent) => self.wrong(Wrong::Question, Some(&sent), octets),
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
        self.tally.counts.lost_at_end = 0;
        self.tally.header(header);
        self.tally.interval.record(now_ns.saturating_sub(sent.due_ns));
        if self.judge.depth > Depth::Id
            && let Err(wrong) = self.judge.look(sent.pick, octets)
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
                Wrong::Id => format!("an ID that no query has: {}", hex(octets)),
                Wrong::Question => {
                    format!("{asked}: the answer is to another question: {}", hex(octets))
                }
                Wrong::Malformed => format!("{asked}: cannot be read: {}", hex(octets)),
            }
        });
    }

    /// Gives up what has waited too long.
    pub(crate) fn sweep(&mut self, now_ns: u64) {
        let limit = now_ns.saturating_sub(self.timeout_ns);
        let mut lost = 0;
        for client in self.clients.iter_mut().filter(|client| client.waiting() > 0) {
            client.give_up(limit, |_| lost += 1);
        }
        while self.retries.front().is_some_and(|sent| sent.sent_ns < limit) {
            self.retries.pop_front();
            lost += 1;
        }
        self.lose(lost);
    }

    /// The connection of a client was closed: what waited on it is lost.
    pub(crate) fn disconnected(&mut self, client: usize) {
        let mut lost = 0;
        if let Some(client) = self.clients.get_mut(client) {
            client.give_up(u64::MAX, |_| lost += 1);
        }
        self.tally.counts.disconnects += u64::from(lost > 0);
        self.lose(lost);
    }

    fn lose(&mut self, lost: usize) {
        self.in_flight -= lost;
        self.tally.counts.lost += lost as u64;
        self.tally.counts.lost_at_end += lost as u64;
    }

    /// Forgets what was counted, and what is in flight as far as counting goes: another run begins.
    pub(crate) fn reset(&mut self) {
        self.tally = Tally::new();
    }
}

/// A question in words.
fn question(workload: &Workload, pick: Pick) -> String {
    let mut buffer = [0; MAX_QUERY];
    let len = workload.write(pick, &mut buffer);
    let view = MessageView::new(buffer.get(..len).unwrap_or_default());
    let Ok(question) = view.and_then(|view| view.question()) else {
        return "an unreadable query".to_owned();
    };
    let mut text = String::new();
    let _ = question.qname().map(|name| avocet_wire::text::write_name(name.wire(), &mut text));
    format!("{text} {}", question.qtype)
}

/// The first octets of a message.
fn hex(octets: &[u8]) -> String {
    /// Enough for a header, a question and an address.
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
