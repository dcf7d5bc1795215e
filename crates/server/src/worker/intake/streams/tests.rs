//! Bounds on what a connection makes the server keep.

use super::*;
use std::io::Write;
use std::net::TcpListener;

const PATIENCE: Patience = Patience { idle_ms: 5_000, read_ms: 1_000 };

/// Makes all queries wait.
struct Wait;

impl Answer for Wait {
    fn answer(&mut self, _: &[u8], _: &Client<'_>) -> Answered<'_> {
        Answered::Later
    }
}

fn connected() -> (TcpStream, Poller, Streams) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, addr) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    let (poller, mut streams) = (Poller::new().unwrap(), Streams::new(0));
    let caller = StreamClient { ip: addr.ip(), entrance: Entrance::default() };
    streams.insert(&poller, (stream, ServerSession::plain()), caller, 0).unwrap();
    (client, poller, streams)
}

/// A client that sent this number of queries and a piece of another; all of them wait.
fn waiting(queries: usize) -> (TcpStream, Poller, Streams) {
    let (mut client, poller, mut streams) = connected();
    client.write_all(&[b"\0\x03abc".repeat(queries), b"\0\x03a".to_vec()].concat()).unwrap();
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

/// Answers all queries with a long message.
struct Reply;

impl Answer for Reply {
    fn answer(&mut self, _: &[u8], _: &Client<'_>) -> Answered<'_> {
        Answered::Now(&[7; 60_000])
    }
}

#[test]
fn queries_of_a_client_that_never_reads_do_not_keep_it() {
    let (mut client, poller, mut streams) = connected();
    let mut ask = |streams: &mut Streams, now_ms| {
        client.write_all(b"\0\x03abc").unwrap();
        assert!(streams.read(0, now_ms, &mut Reply).is_none());
        streams.flush(&poller, (now_ms, 0), &mut Vec::new(), &mut Vec::new());
        streams.slots[0].connection.as_ref().is_some_and(|one| one.blocked)
    };
    // Until the buffers of the system are full.
    assert!((0..10_000).any(|_| ask(&mut streams, 0)));
    assert!(ask(&mut streams, PATIENCE.idle_ms));
    assert!(!is_open(&mut streams, PATIENCE.idle_ms + 1));
}
