//! A generator on UDP: so many queries in flight, or so many a second; sent and received in
//! batches, counted by RCODE.
//!
//! At a fixed rate latency counts from the moment a query was due, so a server that stalls cannot
//! hide it by holding the generator up.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::num::NonZeroU32;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fmt, io};

use crate::message::Form;
use crate::queries::Queries;
use crate::sys::{self, Batch, Peers, Poll, Wait};
use crate::{invalid, message, number};

/// An answer that takes longer is lost, and its place in the window is free again.
pub(crate) const LOST_AFTER: Duration = Duration::from_secs(2);
/// How often lost queries are looked for.
const SWEEP_EVERY: Duration = Duration::from_millis(200);
/// One poll waits no longer than this, so that sweeps and the end of the run are on time.
const POLL_MILLIS: i32 = 10;
/// The queries that one socket can tell apart.
const IDS: usize = 1 << 16;

/// What to ask, whom, how fast and how long.
pub(crate) struct Plan {
    server: SocketAddr,
    file: PathBuf,
    time: Duration,
    count: u64,
    /// Time from one query to the next; none if the window alone limits the rate.
    interval: Option<Duration>,
    window: usize,
    sockets: usize,
    form: Form,
}

impl Plan {
    /// Reads the options of the mode `blast`.
    pub(crate) fn parse(server: SocketAddr, file: &str, options: &[&str]) -> io::Result<Self> {
        let mut plan = Self {
            server,
            file: file.into(),
            time: Duration::from_secs(5),
            count: u64::MAX,
            interval: None,
            window: 128,
            sockets: 8,
            form: Form::Plain,
        };
        let mut rest = options.iter();
        while let Some(option) = rest.next() {
            let mut value =
                || rest.next().copied().ok_or_else(|| invalid(&format!("{option} wants a number")));
            match *option {
                "--secs" => plan.time = Duration::from_secs(number(value()?)?),
                "--count" => plan.count = number(value()?)?,
                "--rate" => {
                    plan.interval =
                        Some(Duration::from_secs(1) / number::<NonZeroU32>(value()?)?.get())
                }
                "--window" => plan.window = number(value()?)?,
                "--sockets" => plan.sockets = number(value()?)?,
                "--edns" => plan.form = Form::Edns,
                "--dnssec" => plan.form = Form::DnssecOk,
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
        write!(
            f,
            "secs={secs:.3} qps={:.0} sent={sent} received={received} lost={lost} ",
            *received as f64 / secs
        )?;
        write!(f, "noerror={noerror} nxdomain={nxdomain} other={other} empty={empty} ")?;
        write!(
            f,
            "p50us={} p99us={} p999us={}",
            latency.micros(0.5),
            latency.micros(0.99),
            latency.micros(0.999)
        )
    }
}

/// Asks until the time or the count is up and all answers are in or lost.
pub(crate) fn run(plan: &Plan) -> io::Result<Report> {
    let mut poll = Poll::new()?;
    let window = if plan.interval.is_some() { IDS } else { (plan.window / plan.sockets).max(1) };
    let connect = |index| Lane::connect(plan.server, window, &poll, index);
    let mut lanes = (0..plan.sockets as u64).map(connect).collect::<io::Result<Vec<_>>>()?;
    let (mut agenda, mut batch) = (Agenda::of(plan)?, Batch::new());
    let (mut tally, mut swept) = (Tally::default(), agenda.started);
    let mut asked_for = None;
    loop {
        let now = Instant::now();
        if asked_for.is_none() && (now - agenda.started >= plan.time || agenda.sent >= plan.count) {
            asked_for = Some(now - agenda.started);
        }
        // Each round starts with another socket, or at a fixed rate one would send everything.
        lanes.rotate_left(1);
        for lane in &mut lanes {
            if asked_for.is_none() {
                lane.send(&mut batch, &mut agenda, now)?;
            }
            lane.receive(&mut batch, &mut tally)?;
        }
        if now - swept > SWEEP_EVERY {
            swept = now;
            for lane in &mut lanes {
                lane.give_up(now, &mut tally);
            }
        }
        let in_flight = lanes.iter().any(|lane| lane.in_flight > 0);
        match asked_for {
            Some(time) if !in_flight => return Ok(tally.report(time.as_secs_f64(), agenda.sent)),
            // At a fixed rate the generator spins: to be woken takes longer than many an answer.
            _ if plan.interval.is_some() => {}
            _ => drop(poll.wait(POLL_MILLIS)?),
        }
    }
}

/// The address of the server's family that leaves the choice to the system.
fn unspecified(server: SocketAddr) -> IpAddr {
    match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// What is asked next, and when it is due.
struct Agenda {
    queries: Queries,
    started: Instant,
    interval: Option<Duration>,
    count: u64,
    sent: u64,
}

impl Agenda {
    fn of(plan: &Plan) -> io::Result<Self> {
        let queries = Queries::read(&plan.file, plan.form)?;
        Ok(Self {
            queries,
            started: Instant::now(),
            interval: plan.interval,
            count: plan.count,
            sent: 0,
        })
    }

    /// How many queries are to go out by now, beyond those that have.
    fn due(&self, now: Instant) -> usize {
        let due = match self.interval {
            Some(interval) => {
                ((now - self.started).as_nanos() / interval.as_nanos().max(1)) as u64 + 1
            }
            None => u64::MAX,
        };
        usize::try_from(due.min(self.count).saturating_sub(self.sent)).unwrap_or(usize::MAX)
    }

    /// The moment from which the latency of the next query counts.
    fn next_at(&self, now: Instant) -> Instant {
        let since_start = self.interval.map(|interval| {
            Duration::from_nanos((interval.as_nanos() as u64).saturating_mul(self.sent))
        });
        since_start.map_or(now, |since_start| self.started + since_start)
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
    fn connect(server: SocketAddr, window: usize, poll: &Poll, number: u64) -> io::Result<Self> {
        let socket = crate::udp::bind(SocketAddr::new(unspecified(server), 0))?;
        socket.connect(server)?;
        poll.add(socket.as_raw_fd(), number)?;
        Ok(Self { socket, window, in_flight: 0, next_id: 0, sent_at: vec![None; IDS] })
    }

    /// Sends what is due and fits the window, one batch at most.
    fn send(&mut self, batch: &mut Batch, agenda: &mut Agenda, now: Instant) -> io::Result<()> {
        let room = self.window.saturating_sub(self.in_flight).min(sys::BATCH);
        let wanted = room.min(agenda.due(now));
        if wanted == 0 {
            return Ok(());
        }
        for index in 0..wanted {
            let (buffer, length, _) = batch.datagram(index);
            let query = agenda.queries.take();
            buffer[..query.len()].copy_from_slice(query);
            message::set_id(buffer, self.next_id.wrapping_add(index as u16));
            *length = query.len();
        }
        let now = Instant::now();
        let sent = batch.send(self.socket.as_raw_fd(), 0, wanted, Peers::One)?;
        agenda.queries.put_back(wanted - sent);
        for _ in 0..sent {
            // An ID still in flight after 65,536 others is lost: its place is taken.
            let replaced = self.sent_at[usize::from(self.next_id)].replace(agenda.next_at(now));
            self.in_flight += usize::from(replaced.is_none());
            self.next_id = self.next_id.wrapping_add(1);
            agenda.sent += 1;
        }
        Ok(())
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

    /// Frees the places of queries that wait too long.
    fn give_up(&mut self, now: Instant, tally: &mut Tally) {
        for sent_at in
            self.sent_at.iter_mut().filter(|at| at.is_some_and(|at| now - at > LOST_AFTER))
        {
            *sent_at = None;
            self.in_flight -= 1;
            tally.lose();
        }
    }
}

/// The answers of a run, and the queries without one.
#[derive(Clone, Default)]
pub(crate) struct Tally {
    received: u64,
    lost: u64,
    rcodes: [u64; 16],
    empty: u64,
    latency: Latencies,
}

impl Tally {
    /// Counts an answer.
    pub(crate) fn count(&mut self, answer: &[u8], latency: Duration) {
        self.received += 1;
        self.latency.count(latency);
        let Some(header) = answer.first_chunk::<12>() else {
            return;
        };
        let rcode = usize::from(header[3] & 15);
        self.rcodes[rcode] += 1;
        self.empty += u64::from(rcode == 0 && header[6..8] == [0, 0]);
    }

    /// Counts a query without an answer.
    pub(crate) fn lose(&mut self) {
        self.lost += 1;
        // Its client has waited as long: without it, a server would look quicker the more it loses.
        self.latency.count(LOST_AFTER);
    }

    /// Queries that were answered or lost.
    pub(crate) fn queries(&self) -> u64 {
        self.received + self.lost
    }

    /// The result of a run of so many seconds and queries.
    pub(crate) fn report(&self, secs: f64, sent: u64) -> Report {
        let Self { received, lost, rcodes, empty, latency } = self.clone();
        Report { secs, sent, received, lost, rcodes, empty, latency }
    }
}

/// Latencies in buckets whose width is a sixteenth of their value.
#[derive(Clone)]
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
    fn at_a_fixed_rate_queries_are_due_by_the_clock_and_count_from_then() {
        let started = Instant::now();
        let interval = Some(Duration::from_millis(1));
        let mut agenda = Agenda {
            queries: Queries::parse("a A", Form::Plain).unwrap(),
            started,
            interval,
            count: 8,
            sent: 0,
        };
        assert_eq!(agenda.due(started), 1);
        agenda.sent = 2;
        let late = started + Duration::from_millis(5);
        assert_eq!(agenda.due(late), 4);
        assert_eq!(agenda.next_at(late), started + Duration::from_millis(2));
        assert_eq!(agenda.due(started + Duration::from_secs(1)), 6);
        agenda.interval = None;
        assert_eq!((agenda.due(started), agenda.next_at(late)), (6, late));
    }

    #[test]
    fn answers_are_counted_by_rcode_and_emptiness() {
        let mut tally = Tally::default();
        for (rcode, answers) in [(0, 1), (0, 0), (3, 0), (2, 0)] {
            tally.count(
                &[0, 0, 0x81, 0x80 | rcode, 0, 1, 0, answers, 0, 0, 0, 0],
                Duration::from_micros(3),
            );
        }
        let text = tally.report(1.0, 4).to_string();
        assert!(text.contains("noerror=2 nxdomain=1 other=1 empty=1"), "{text}");
    }
}
