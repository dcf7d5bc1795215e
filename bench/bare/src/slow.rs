//! Slow clients over TCP, and what normal clients see next to them.
//!
//! A slow client opens a connection and sends a query octet by octet. A server closes the
//! connection or waits; a closed one is opened again. A normal client opens a connection, asks one
//! question and closes. It is alone for a quarter of the time.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::blast::{LOST_AFTER, Tally};
use crate::message::Form;
use crate::queries::Queries;
use crate::{invalid, number, sys};

/// The part of the time in which normal clients are alone.
const QUIET_PART: f64 = 0.25;
/// Queries that are due while the slow clients connect do not count.
const CONNECTING: Duration = Duration::from_secs(1);
/// The time between two octets of a slow client: shorter than the timeouts of servers.
const DRIP: Duration = Duration::from_millis(500);
/// Addresses of slow clients, so that a limit per client does not stop them alone.
const SOURCES: usize = 100;
/// Stack of a thread that asks one question.
const STACK_BYTES: usize = 64 << 10;

/// What to ask, whom, how fast and how long.
pub(crate) struct Plan {
    server: SocketAddrV4,
    file: PathBuf,
    time: Duration,
    /// Normal queries per second.
    rate: NonZeroU32,
    /// Slow connections.
    slow: usize,
}

impl Plan {
    /// Reads the options of the mode `slow`.
    pub(crate) fn parse(server: SocketAddrV4, file: &str, options: &[&str]) -> io::Result<Self> {
        let (time, rate) = (Duration::from_secs(8), NonZeroU32::MIN.saturating_add(99));
        let mut plan = Self { server, file: file.into(), time, rate, slow: 1000 };
        let mut rest = options.iter();
        while let Some(option) = rest.next() {
            let mut value =
                || rest.next().copied().ok_or_else(|| invalid(&format!("{option} wants a number")));
            match *option {
                "--secs" => plan.time = Duration::from_secs(number(value()?)?),
                "--rate" => plan.rate = number(value()?)?,
                "--slow" => plan.slow = number(value()?)?,
                unknown => return Err(invalid(&format!("slow has no option {unknown}"))),
            }
        }
        if plan.time.mul_f64(1.0 - QUIET_PART) <= CONNECTING {
            return Err(invalid("slow wants more seconds"));
        }
        Ok(plan)
    }

    /// When a query belongs to a part of the run, by the time since the start at which it is due.
    fn part(&self, due: Duration) -> Option<Part> {
        let attack = self.time.mul_f64(QUIET_PART);
        match due {
            _ if due < attack => Some(Part::Alone),
            _ if due < attack + CONNECTING => None,
            _ => Some(Part::Beside),
        }
    }
}

/// The parts of a run that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Normal clients are alone.
    Alone = 0,
    /// Slow clients are connected, or try to be.
    Beside = 1,
}

/// What came of a run.
pub(crate) struct Report {
    alone: Tally,
    beside: Tally,
    alone_secs: f64,
    beside_secs: f64,
    /// Slow connections at the end, and connections that the server closed or refused.
    open: usize,
    closed: usize,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { alone, beside, alone_secs, beside_secs, open, closed } = self;
        writeln!(f, "{}", alone.report(*alone_secs, alone.queries()))?;
        writeln!(f, "{}", beside.report(*beside_secs, beside.queries()))?;
        write!(f, "open={open} closed={closed}")
    }
}

/// Runs both kinds of clients and waits for the last answers.
pub(crate) fn run(plan: &Plan) -> io::Result<Report> {
    let mut queries = Queries::read(&plan.file, Form::Plain)?;
    let slow_query = framed(queries.take());
    let (over, is_over) = mpsc::channel();
    let quiet = plan.time.mul_f64(QUIET_PART);
    let (tallies, crowd) = thread::scope(|scope| {
        let crowd = scope.spawn(|| {
            let mut crowd = Crowd::of(plan, &slow_query);
            crowd.drip_until(is_over, quiet);
            (crowd.open(), crowd.closed)
        });
        let tallies = normal_clients(plan, &mut queries, scope);
        drop(over);
        (tallies, crowd.join())
    });
    let [alone, beside] = tallies?;
    let (open, closed) = crowd.map_err(|_| io::Error::other("the slow clients failed"))?;
    let (alone_secs, beside_secs) =
        (quiet.as_secs_f64(), (plan.time - quiet - CONNECTING).as_secs_f64());
    Ok(Report { alone, beside, alone_secs, beside_secs, open, closed })
}

/// The outcome of a query: the part that it belongs to, the answer, and the time since it was due.
struct Outcome {
    part: Part,
    answer: io::Result<Vec<u8>>,
    took: Duration,
}

/// Asks all queries of the normal clients when they are due, each in a thread of its own: alone,
/// and next to slow clients.
fn normal_clients<'scope>(
    plan: &'scope Plan,
    queries: &mut Queries,
    scope: &'scope thread::Scope<'scope, '_>,
) -> io::Result<[Tally; 2]> {
    let interval = Duration::from_secs(1) / plan.rate.get();
    let (started, mut tallies) = (Instant::now(), [Tally::default(), Tally::default()]);
    let (sender, outcomes) = mpsc::channel();
    for due in (0..).map(|count| interval * count).take_while(|due| *due < plan.time) {
        while let Ok(outcome) = outcomes.recv_timeout(left_until(started + due)) {
            count(&mut tallies, &outcome);
        }
        let Some(part) = plan.part(due) else { continue };
        let (query, due, sender) = (queries.take().to_vec(), started + due, sender.clone());
        let ask = move || {
            let answer = ask(plan.server, &query, due);
            // The receiver lives as long as there are senders.
            let _ = sender.send(Outcome { part, answer, took: due.elapsed() });
        };
        thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, ask)?;
    }
    drop(sender);
    outcomes.iter().for_each(|outcome| count(&mut tallies, &outcome));
    Ok(tallies)
}

fn left_until(due: Instant) -> Duration {
    due.saturating_duration_since(Instant::now())
}

fn count(tallies: &mut [Tally; 2], outcome: &Outcome) {
    let tally = &mut tallies[outcome.part as usize];
    match &outcome.answer {
        Ok(answer) => tally.count(answer, outcome.took),
        Err(_) => tally.lose(),
    }
}

/// A query with its length in front (RFC 1035, section 4.2.2).
fn framed(query: &[u8]) -> Vec<u8> {
    [&(query.len() as u16).to_be_bytes(), query].concat()
}

/// Asks one question on a new connection. The answer is that of the question, or an error.
fn ask(server: SocketAddrV4, query: &[u8], due: Instant) -> io::Result<Vec<u8>> {
    let left = || {
        let left = LOST_AFTER.saturating_sub(due.elapsed());
        if left.is_zero() { Err(io::ErrorKind::TimedOut) } else { Ok(left) }
    };
    let mut stream = TcpStream::connect_timeout(&server.into(), left()?)?;
    stream.set_read_timeout(Some(left()?))?;
    stream.write_all(&framed(query))?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.set_read_timeout(Some(left()?))?;
    stream.read_exact(&mut answer)?;
    let is_ours = answer.len() >= query.len()
        && answer[..2] == query[..2]
        && answer[12..query.len()].eq_ignore_ascii_case(&query[12..]);
    if is_ours { Ok(answer) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// The slow clients.
struct Crowd<'a> {
    server: SocketAddrV4,
    query: &'a [u8],
    clients: Vec<Option<SlowClient>>,
    closed: usize,
}

/// A connection with the number of octets sent.
struct SlowClient {
    stream: TcpStream,
    sent: usize,
}

impl<'a> Crowd<'a> {
    fn of(plan: &Plan, query: &'a [u8]) -> Self {
        let clients = (0..plan.slow).map(|_| None).collect();
        Self { server: plan.server, query, clients, closed: 0 }
    }

    fn open(&self) -> usize {
        self.clients.iter().flatten().count()
    }

    /// Starts after `quiet` and drips until the other end of the channel is dropped.
    fn drip_until(&mut self, is_over: Receiver<()>, quiet: Duration) {
        let mut wait = quiet;
        while is_over.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
            self.drip();
            wait = DRIP;
        }
    }

    /// Sends the next octet on each connection, and opens those that the server has closed.
    fn drip(&mut self) {
        for (index, client) in self.clients.iter_mut().enumerate() {
            if let Some(slow) = client
                && slow.drip(self.query).is_err()
            {
                *client = None;
                self.closed += 1;
            }
            if client.is_none() {
                let source = Ipv4Addr::new(127, 3, 0, (index % SOURCES) as u8 + 1);
                let stream = sys::connect_from(source, self.server);
                *client = stream.ok().map(|stream| SlowClient { stream, sent: 0 });
            }
        }
    }
}

impl SlowClient {
    /// Sends one octet.
    ///
    /// # Errors
    ///
    /// The server closed or refused the connection.
    fn drip(&mut self, query: &[u8]) -> io::Result<()> {
        let mut answer = [0; 512];
        let is_waiting = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        match self.stream.read(&mut answer) {
            Ok(0) => return Err(io::ErrorKind::ConnectionReset.into()),
            Err(error) if !is_waiting(&error) && error.kind() != io::ErrorKind::NotConnected => {
                return Err(error);
            }
            _ => {}
        }
        match self.stream.write(&query[self.sent..=self.sent]) {
            Ok(_) => self.sent = (self.sent + 1) % query.len(),
            // The handshake has not ended yet.
            Err(error) if is_waiting(&error) || error.kind() == io::ErrorKind::NotConnected => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn queries_count_alone_and_beside_but_not_while_the_others_connect() {
        let server = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 53);
        let plan = Plan::parse(server, "f", &["--secs", "8", "--slow", "5"]).unwrap();
        let part = |millis| plan.part(Duration::from_millis(millis));
        assert_eq!([part(0), part(1999)], [Some(Part::Alone); 2]);
        assert_eq!([part(2000), part(2999)], [None; 2]);
        assert_eq!(part(3000), Some(Part::Beside));
        assert_eq!(plan.slow, 5);
        assert!(Plan::parse(server, "f", &["--secs", "1"]).is_err());
    }

    #[test]
    fn a_slow_client_sends_octet_by_octet_and_notices_the_end() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let server = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port());
        let plan = Plan::parse(server, "f", &["--slow", "1"]).unwrap();
        let mut crowd = Crowd::of(&plan, b"ab");
        crowd.drip();
        let (mut accepted, from) = listener.accept().unwrap();
        assert_eq!(from.ip(), Ipv4Addr::new(127, 3, 0, 1));
        crowd.drip();
        crowd.drip();
        let mut octets = [0; 2];
        accepted.read_exact(&mut octets).unwrap();
        assert_eq!((&octets, crowd.open(), crowd.closed), (b"ab", 1, 0));
        drop(accepted);
        crowd.drip();
        assert_eq!((crowd.open(), crowd.closed), (1, 1));
    }

    #[test]
    fn an_answer_to_another_question_is_none() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let server = SocketAddrV4::new(Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port());
        let query = crate::message::query("a.test A", Form::Plain).unwrap();
        let other = crate::message::query("b.test A", Form::Plain).unwrap();
        let replies = [framed(&query), framed(&other)];
        let answering = thread::spawn(move || {
            for reply in replies {
                listener.accept().unwrap().0.write_all(&reply).unwrap();
            }
        });
        assert_eq!(ask(server, &query, Instant::now()).unwrap(), query);
        assert!(ask(server, &query, Instant::now()).is_err());
        answering.join().unwrap();
    }
}
