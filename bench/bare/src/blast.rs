//! A closed-loop generator on UDP: so many queries in flight, sent and received in batches, counted by RCODE.

use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fmt, io};

use crate::queries::Queries;
use crate::sys::{self, Batch, Peers, Poll, Wait};
use crate::{invalid, message, number};

/// An answer that takes longer is lost, and its place in the window is free again.
const LOST_AFTER: Duration = Duration::from_secs(2);
/// How often lost queries are looked for.
const SWEEP_EVERY: Duration = Duration::from_millis(200);
/// One poll waits no longer than this, so that sweeps and the end of the run are on time.
const POLL_MILLIS: i32 = 10;

/// What to ask, whom, how fast and how long.
pub(crate) struct Plan {
    port: u16,
    file: PathBuf,
    time: Duration,
    count: u64,
    window: usize,
    sockets: usize,
    edns: bool,
}

impl Plan {
    /// Reads the options of the mode `blast`.
    pub(crate) fn parse(port: u16, file: &str, options: &[&str]) -> io::Result<Self> {
        let time = Duration::from_secs(5);
        let mut plan = Self { port, file: file.into(), time, count: u64::MAX, window: 128, sockets: 8, edns: false };
        let mut rest = options.iter();
        while let Some(option) = rest.next() {
            let mut value = || rest.next().copied().ok_or_else(|| invalid(&format!("{option} wants a number")));
            match *option {
                "--secs" => plan.time = Duration::from_secs(number(value()?)?),
                "--count" => plan.count = number(value()?)?,
                "--window" => plan.window = number(value()?)?,
                "--sockets" => plan.sockets = number(value()?)?,
                "--edns" => plan.edns = true,
                unknown => return Err(invalid(&format!("blast has no option {unknown}"))),
            }
        }
        plan.sockets = plan.sockets.clamp(1, plan.window.max(1));
        Ok(plan)
    }
}

/// What came of a run.
pub(crate) struct Report {
    secs: f64,
    sent: u64,
    received: u64,
    lost: u64,
    /// Answers by RCODE.
    rcodes: [u64; 16],
    /// NOERROR answers with an empty answer section.
    empty: u64,
    latency: Latencies,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { secs, sent, received, lost, rcodes, empty, latency } = self;
        let (noerror, nxdomain) = (rcodes[0], rcodes[3]);
        let other = received - noerror - nxdomain;
        write!(f, "secs={secs:.3} qps={:.0} sent={sent} received={received} lost={lost} ", *received as f64 / secs)?;
        write!(f, "noerror={noerror} nxdomain={nxdomain} other={other} empty={empty} ")?;
        write!(f, "p50us={} p99us={} p999us={}", latency.micros(0.5), latency.micros(0.99), latency.micros(0.999))
    }
}

/// Asks until the time or the count is up and all answers are in or lost.
pub(crate) fn run(plan: &Plan) -> io::Result<Report> {
    let mut queries = Queries::read(&plan.file, plan.edns)?;
    let mut poll = Poll::new()?;
    let window = (plan.window / plan.sockets).max(1);
    let connect = |index| Lane::connect(plan.port, window, &poll, index);
    let mut lanes = (0..plan.sockets as u64).map(connect).collect::<io::Result<Vec<_>>>()?;
    let mut batch = Batch::new();
    let started = Instant::now();
    let (mut tally, mut swept) = (Tally::default(), started);
    let mut asked_for = None;
    loop {
        let now = Instant::now();
        if asked_for.is_none() && (now - started >= plan.time || tally.sent >= plan.count) {
            asked_for = Some(now - started);
        }
        for lane in &mut lanes {
            if asked_for.is_none() {
                tally.sent += lane.send(&mut batch, &mut queries, plan.count - tally.sent)?;
            }
            lane.receive(&mut batch, &mut tally)?;
        }
        if now - swept > SWEEP_EVERY {
            swept = now;
            tally.lost += lanes.iter_mut().map(|lane| lane.give_up(now)).sum::<u64>();
        }
        let in_flight = lanes.iter().any(|lane| lane.in_flight > 0);
        match asked_for {
            Some(time) if !in_flight => return Ok(tally.report(time)),
            _ => drop(poll.wait(POLL_MILLIS)?),
        }
    }
}

/// One socket and its queries in flight, by ID.
struct Lane {
    socket: UdpSocket,
    window: usize,
    in_flight: usize,
    next_id: u16,
    sent_at: Vec<Option<Instant>>,
}

impl Lane {
    fn connect(port: u16, window: usize, poll: &Poll, number: u64) -> io::Result<Self> {
        let socket = crate::udp::bind(0)?;
        socket.connect((Ipv4Addr::LOCALHOST, port))?;
        poll.add(socket.as_raw_fd(), number)?;
        let sent_at = vec![None; usize::from(u16::MAX) + 1];
        Ok(Self { socket, window, in_flight: 0, next_id: 0, sent_at })
    }

    /// Fills the window with one batch, of at most `left` queries; returns how many went out.
    fn send(&mut self, batch: &mut Batch, queries: &mut Queries, left: u64) -> io::Result<u64> {
        let room = self.window.saturating_sub(self.in_flight).min(sys::BATCH);
        let wanted = room.min(usize::try_from(left).unwrap_or(usize::MAX));
        if wanted == 0 {
            return Ok(0);
        }
        for index in 0..wanted {
            let (buffer, length, _) = batch.datagram(index);
            let query = queries.take();
            buffer[..query.len()].copy_from_slice(query);
            message::set_id(buffer, self.next_id.wrapping_add(index as u16));
            *length = query.len();
        }
        let now = Instant::now();
        let sent = batch.send(self.socket.as_raw_fd(), 0, wanted, Peers::One)?;
        queries.put_back(wanted - sent);
        for _ in 0..sent {
            // An ID still in flight after 65,536 others is lost: its place is taken.
            let replaced = self.sent_at[usize::from(self.next_id)].replace(now);
            self.in_flight += usize::from(replaced.is_none());
            self.next_id = self.next_id.wrapping_add(1);
        }
        Ok(sent as u64)
    }

    /// Takes the answers that are there.
    fn receive(&mut self, batch: &mut Batch, tally: &mut Tally) -> io::Result<()> {
        loop {
            let received = batch.receive(self.socket.as_raw_fd(), Wait::No, Peers::One)?;
            let now = Instant::now();
            for index in 0..received {
                let (buffer, length, _) = batch.datagram(index);
                let answer = &buffer[..*length];
                let id = message::id(answer).map(usize::from);
                if let Some(sent_at) = id.and_then(|id| self.sent_at[id].take()) {
                    self.in_flight -= 1;
                    tally.count(answer, now - sent_at);
                }
            }
            if received < sys::BATCH {
                return Ok(());
            }
        }
    }

    /// Frees the places of queries that wait too long; returns how many.
    fn give_up(&mut self, now: Instant) -> u64 {
        let mut lost = 0;
        for sent_at in self.sent_at.iter_mut().filter(|at| at.is_some_and(|at| now - at > LOST_AFTER)) {
            *sent_at = None;
            lost += 1;
        }
        self.in_flight -= lost;
        lost as u64
    }
}

#[derive(Default)]
struct Tally {
    sent: u64,
    received: u64,
    lost: u64,
    rcodes: [u64; 16],
    empty: u64,
    latency: Latencies,
}

impl Tally {
    fn count(&mut self, answer: &[u8], latency: Duration) {
        self.received += 1;
        self.latency.count(latency);
        let Some(header) = answer.first_chunk::<12>() else {
            return;
        };
        let rcode = usize::from(header[3] & 15);
        self.rcodes[rcode] += 1;
        self.empty += u64::from(rcode == 0 && header[6..8] == [0, 0]);
    }

    fn report(self, time: Duration) -> Report {
        let Self { sent, received, lost, rcodes, empty, latency } = self;
        Report { secs: time.as_secs_f64(), sent, received, lost, rcodes, empty, latency }
    }
}

/// Latencies in buckets whose width is a sixteenth of their value.
struct Latencies {
    buckets: Vec<u64>,
}

/// Buckets per power of two, as a power of two.
const FINENESS: u32 = 4;

impl Default for Latencies {
    fn default() -> Self {
        Self { buckets: vec![0; 64 << FINENESS] }
    }
}

impl Latencies {
    fn count(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1 << FINENESS);
        let exponent = nanos.ilog2();
        let mantissa = (nanos >> (exponent - FINENESS)) & ((1 << FINENESS) - 1);
        self.buckets[((exponent as usize) << FINENESS) + mantissa as usize] += 1;
    }

    /// The latency that this share of the answers did not exceed, in whole microseconds.
    fn micros(&self, share: f64) -> u64 {
        let wanted = (self.buckets.iter().sum::<u64>() as f64 * share).ceil() as u64;
        let mut seen = 0;
        let found = self.buckets.iter().position(|count| {
            seen += count;
            seen >= wanted.max(1)
        });
        let Some(index) = found else { return 0 };
        let (exponent, mantissa) = (index >> FINENESS, (index & ((1 << FINENESS) - 1)) as u64);
        (((1 << FINENESS) + mantissa) << exponent >> FINENESS) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_come_from_the_counted_latencies() {
        let mut latency = Latencies::default();
        for micros in 1..=100 {
            latency.count(Duration::from_micros(micros));
        }
        assert!((48..=50).contains(&latency.micros(0.5)), "{}", latency.micros(0.5));
        assert!((93..=99).contains(&latency.micros(0.99)), "{}", latency.micros(0.99));
        assert_eq!(Latencies::default().micros(0.5), 0);
    }

    #[test]
    fn answers_are_counted_by_rcode_and_emptiness() {
        let mut tally = Tally::default();
        for (rcode, answers) in [(0, 1), (0, 0), (3, 0), (2, 0)] {
            tally.count(&[0, 0, 0x81, 0x80 | rcode, 0, 1, 0, answers, 0, 0, 0, 0], Duration::from_micros(3));
        }
        let text = tally.report(Duration::from_secs(1)).to_string();
        assert!(text.contains("noerror=2 nxdomain=1 other=1 empty=1"), "{text}");
    }
}
