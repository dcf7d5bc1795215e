//! Tests of the limits on the memory of a connection, and on the time that a connection takes from
//! others.

use super::*;

use avocet_io::poll::Events;
use std::io::{Read, Write};
use std::net::TcpListener;

const PATIENCE: Patience = Patience { idle_ms: 5_000, read_ms: 1_000 };

/// A service that lets all queries wait.
struct Wait;

impl Answer for Wait {
    fn answer(&mut self, _: &[u8], _: &Client<'_>) -> Answered<'_> {
        Answered::Later
    }

    fn begin_share(&mut self) -> bool {
        true
    }

    fn has_time(&self) -> bool {
        true
    }
}

/// Adds a connection, and returns the client's end.
fn connect(poller: &Poller, streams: &mut Streams) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, addr) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    let caller = StreamClient { ip: addr.ip(), entrance: Entrance::default() };
    streams.insert(poller, (stream, ServerSession::plain()), caller, 0).unwrap();
    client
}

fn connected() -> (TcpStream, Poller, Streams) {
    let (poller, mut streams) = (Poller::new().unwrap(), Streams::new(0));
    let client = connect(&poller, &mut streams);
    (client, poller, streams)
}

/// Returns a client that has sent this number of queries and a part of another query. All these
/// queries wait.
fn waiting(count: usize) -> (TcpStream, Poller, Streams) {
    let (mut client, poller, mut streams) = connected();
    client.write_all(&[queries(b'a', count), b"\0\x0ca".to_vec()].concat()).unwrap();
    assert!(streams.read(0, 0, &mut Wait).is_none());
    (client, poller, streams)
}

fn is_open(streams: &mut Streams, at_ms: u64) -> bool {
    streams.expire(at_ms, PATIENCE, &mut Vec::new());
    streams.open() == 1
}

#[test]
fn a_client_that_we_do_not_read_from_is_not_slow() {
    let (_client, _poller, mut slow) = waiting(usize::from(MAX_IN_FLIGHT) - 1);
    assert!(is_open(&mut slow, PATIENCE.read_ms) && !is_open(&mut slow, PATIENCE.read_ms + 1));
    let (_client, _poller, mut paused) = waiting(usize::from(MAX_IN_FLIGHT) + 1);
    assert!(is_open(&mut paused, LOST_MS));
}

#[test]
fn a_connection_whose_answers_were_lost_is_closed_in_the_end() {
    let (_client, _poller, mut streams) = waiting(usize::from(MAX_IN_FLIGHT));
    assert!(is_open(&mut streams, LOST_MS) && !is_open(&mut streams, LOST_MS + 1));
}

/// A service that answers all queries with a long message.
struct Reply;

impl Answer for Reply {
    fn answer(&mut self, _: &[u8], _: &Client<'_>) -> Answered<'_> {
        Answered::Now(&[7; 60_000])
    }

    fn begin_share(&mut self) -> bool {
        true
    }

    fn has_time(&self) -> bool {
        true
    }
}

#[test]
fn queries_of_a_client_that_never_reads_do_not_keep_it() {
    let (mut client, poller, mut streams) = connected();
    let mut ask = |streams: &mut Streams, now_ms| {
        client.write_all(&queries(b'a', 1)).unwrap();
        assert!(streams.read(0, now_ms, &mut Reply).is_none());
        streams.flush(&poller, (now_ms, 0), &mut Vec::new());
        streams.slots[0].connection.as_ref().is_some_and(|one| one.blocked)
    };
    // The buffers of the system are filled first.
    assert!((0..10_000).any(|_| ask(&mut streams, 0)));
    assert!(ask(&mut streams, PATIENCE.idle_ms));
    assert!(!is_open(&mut streams, PATIENCE.idle_ms + 1));
}

/// A service that counts queries in place of time. It has time for a limited number of queries in
/// each turn, and of each connection. It records clients by the first octet of their queries.
struct Counted {
    most_of_turn: usize,
    most_of_share: usize,
    turn_left: usize,
    share_left: usize,
    answered: Vec<u8>,
    reply: Vec<u8>,
}

impl Answer for Counted {
    fn answer(&mut self, octets: &[u8], _: &Client<'_>) -> Answered<'_> {
        // Cheap queries, which are in lower case, take no time.
        if octets[0].is_ascii_uppercase() {
            self.turn_left = self.turn_left.checked_sub(1).expect("time in this turn");
            self.share_left = self.share_left.checked_sub(1).expect("time in this share");
        }
        self.answered.push(octets[0]);
        self.reply = octets.to_vec();
        Answered::Now(&self.reply)
    }

    fn begin_share(&mut self) -> bool {
        self.share_left = self.most_of_share;
        self.turn_left > 0
    }

    fn has_time(&self) -> bool {
        self.turn_left > 0 && self.share_left > 0
    }
}

/// A worker that only reads connections.
struct Reading {
    poller: Poller,
    streams: Streams,
    answer: Counted,
    /// The number of answers in each turn.
    turns: Vec<usize>,
}

impl Reading {
    fn new([most_of_turn, most_of_share]: [usize; 2]) -> Self {
        let (turn_left, share_left) = (0, 0);
        let (answered, reply) = (Vec::new(), Vec::new());
        Self {
            poller: Poller::new().unwrap(),
            streams: Streams::new(0),
            answer: Counted { most_of_turn, most_of_share, turn_left, share_left, answered, reply },
            turns: Vec::new(),
        }
    }

    fn turn(&mut self) {
        let mut events = Events::with_capacity(64);
        self.poller.wait(&mut events, Some(0)).unwrap();
        for event in events.iter() {
            if let Token::Stream(slot) = Token::unpack(event.token()) {
                self.streams.note_readable(slot);
            }
        }
        let before = self.answer.answered.len();
        for pace in Pace::ALL {
            self.answer.turn_left = self.answer.most_of_turn;
            self.streams.read_waiting(pace, 0, &mut self.answer, &mut Vec::new());
        }
        self.streams.flush(&self.poller, (0, 0), &mut Vec::new());
        self.turns.push(self.answer.answered.len() - before);
    }

    /// Runs turns until this many queries are answered, and returns the clients in their order.
    fn run(&mut self, queries: usize) -> &[u8] {
        const MAX_TURNS: usize = 100_000;
        for _ in 0..MAX_TURNS {
            if self.answer.answered.len() >= queries {
                break;
            }
            self.turn();
        }
        &self.answer.answered
    }
}

/// Number of octets of a query with its length.
const FRAME_LEN: usize = 2 + HEADER_LEN;

/// Returns queries of this client, each as long as a header.
fn queries(client: u8, count: usize) -> Vec<u8> {
    let mut frame = [client; FRAME_LEN];
    frame[..2].copy_from_slice(&(HEADER_LEN as u16).to_be_bytes());
    frame.repeat(count)
}

#[test]
fn the_expensive_queries_of_a_turn_are_few_and_none_is_lost() {
    const QUERIES: usize = 400;
    let mut worker = Reading::new([8, 3]);
    let mut clients: Vec<_> = (b'A'..=b'H')
        .map(|name| {
            let mut client = connect(&worker.poller, &mut worker.streams);
            client.write_all(&queries(name, QUERIES)).unwrap();
            (name, client)
        })
        .collect();
    let total = clients.len() * QUERIES;
    assert_eq!(worker.run(total).len(), total);
    assert!(worker.turns.iter().all(|answered| *answered <= 16), "of both paces");
    assert_eq!(worker.turns.iter().filter(|answered| **answered == 0).count(), 0);
    for (name, client) in &mut clients {
        let mut replies = vec![0; FRAME_LEN * QUERIES];
        client.read_exact(&mut replies).unwrap();
        assert_eq!(replies, queries(*name, QUERIES));
    }
    // No client may be ahead of the others by more than one round.
    let mut counts = [0_usize; 8];
    for name in worker.run(total) {
        counts[usize::from(name - b'A')] += 1;
        let open = counts.iter().filter(|count| **count < QUERIES);
        let most = counts.iter().max().unwrap();
        assert!(open.min().is_none_or(|least| most - least <= 9), "{counts:?}");
    }
}

#[test]
fn cheap_queries_do_not_wait_for_expensive_ones() {
    let mut worker = Reading::new([8, 3]);
    let mut hostile: Vec<_> =
        (0..16).map(|_| connect(&worker.poller, &mut worker.streams)).collect();
    hostile.iter_mut().for_each(|one| one.write_all(&queries(b'X', 500)).unwrap());
    worker.turn();
    let mut client = connect(&worker.poller, &mut worker.streams);
    for _ in 0..20 {
        let before = worker.turns.len();
        client.write_all(&queries(b'a', 30)).unwrap();
        let answered =
            |worker: &Reading| worker.answer.answered.iter().filter(|name| **name == b'a').count();
        let wanted = answered(&worker) + 30;
        while answered(&worker) < wanted {
            worker.turn();
            // The client may have to wait while other connections have not had their first share.
            assert!(worker.turns.len() - before <= 6);
        }
    }
    assert!(worker.answer.answered.len() < 16 * 500, "the others still have queries");
}

#[test]
fn a_client_that_ends_its_side_gets_the_answers_that_its_time_did_not_allow_at_once() {
    let mut worker = Reading::new([2, 1]);
    let mut client = connect(&worker.poller, &mut worker.streams);
    client.write_all(&queries(b'X', 50)).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(worker.run(50).len(), 50);
    while worker.streams.open() > 0 {
        worker.turn();
    }
    let mut replies = Vec::new();
    client.read_to_end(&mut replies).unwrap();
    assert_eq!(replies, queries(b'X', 50));
}

#[test]
fn a_connection_with_queries_to_read_makes_room_last() {
    let (_first, poller, mut streams) = connected();
    let mut more: Vec<TcpStream> = Vec::new();
    more.resize_with(2, || connect(&poller, &mut streams));
    for (slot, active_ms) in [(0, 10), (1, 20), (2, 30)] {
        streams.slots[slot].connection.as_mut().unwrap().active_ms = active_ms;
    }
    // The connection that was idle longest has a query in the socket, the next connection has a
    // query in its buffer.
    streams.note_readable(0);
    streams.slots[1].connection.as_mut().unwrap().paused = true;
    let mut evicted = || {
        streams.evict(Whose::Anyone)?;
        Some(streams.slots.iter().map(|slot| slot.connection.is_some()).collect::<Vec<_>>())
    };
    assert_eq!(evicted(), Some(vec![true, true, false]));
    assert_eq!(evicted(), Some(vec![false, true, false]));
    assert_eq!(evicted(), Some(vec![false, false, false]));
    assert_eq!(evicted(), None);
}

#[test]
fn a_message_without_a_header_ends_the_connection_after_the_queries_before_it() {
    for junk in [&[0, 0][..], &[0, 2, b'X', b'X'], &[0, 11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]] {
        let mut worker = Reading::new([usize::MAX, usize::MAX]);
        let mut client = connect(&worker.poller, &mut worker.streams);
        client.write_all(&[queries(b'X', 5), junk.repeat(1_000)].concat()).unwrap();
        assert_eq!(worker.run(5), [b'X'; 5]);
        while worker.streams.open() > 0 {
            worker.turn();
        }
        let mut replies = vec![0; 5 * FRAME_LEN];
        client.read_exact(&mut replies).unwrap();
        assert_eq!(replies, queries(b'X', 5));
        assert_eq!(worker.answer.answered.len(), 5);
    }
}
