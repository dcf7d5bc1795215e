//! Sends a query and waits for its reply over UDP and TCP, with blocking sockets.
//!
//! A datagram counts as the reply if it comes from the server, is a response, and has the query's
//! ID and question (RFC 5452 §9.1); other datagrams are ignored.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use avocet_wire::edns::EdnsOption;
use avocet_wire::header::{QR, TC};
use avocet_wire::{MessageView, Rcode};

use crate::request::{Cookie, QUERY_ROOM, Request};
use crate::{ClientError, over_tls};

/// The transport of a reply.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Carrier {
    /// A datagram.
    Udp,
    /// A TCP connection for this query.
    Tcp,
    /// A TLS connection for this query.
    Tls,
    /// A TLS connection with HTTP/2 for this query.
    Https,
    /// A QUIC connection for this query.
    Quic,
    /// A QUIC connection with HTTP/3 for this query.
    H3,
}

impl Carrier {
    /// Returns the name of the transport.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::Https => "HTTPS",
            Self::Quic => "QUIC",
            Self::H3 => "HTTP/3",
        }
    }
}

/// A reply. Only its header and question have been read.
#[derive(Debug)]
pub struct Reply {
    /// The complete message.
    pub octets: Vec<u8>,
    /// The server that sent the reply.
    pub server: SocketAddr,
    /// The transport of the reply.
    pub carrier: Carrier,
    /// Time between the query and the reply.
    pub elapsed: Duration,
}

/// Sends a query to `server` over UDP. Repeats it over TCP if the reply is truncated, and with the
/// server's cookie if the server requests it (RFC 7873 §5.3).
///
/// # Errors
///
/// The query is too long, or the server does not answer.
pub fn exchange(request: &Request, server: SocketAddr) -> Result<Reply, ClientError> {
    let mut cookie = Cookie { client: random().to_be_bytes(), server: Vec::new() };
    let reply = ask_with(request, server, &cookie)?;
    match cookie_wanted(&reply.octets, &cookie) {
        Some(given) if request.edns.as_ref().is_some_and(|edns| edns.cookie) => {
            cookie.server = given;
            ask_with(request, server, &cookie)
        }
        _ => Ok(reply),
    }
}

fn ask_with(request: &Request, server: SocketAddr, cookie: &Cookie) -> Result<Reply, ClientError> {
    let mut buffer = [0; QUERY_ROOM];
    let len = request
        .write(request.message_id(random() as u16), cookie, &mut buffer)
        .map_err(|_| ClientError::QueryTooLong)?;
    let no_answer = |carrier| move |source| ClientError::NoAnswer { server, carrier, source };
    let query = buffer.get(..len).unwrap_or_default();
    if let Some(tls) = &request.tls {
        let no_answer = no_answer(tls.form.carrier());
        return over_tls::exchange(query, request.timeout, server, tls).map_err(no_answer);
    }
    if !request.tcp {
        let reply = over_udp(query, request, server).map_err(no_answer(Carrier::Udp))?;
        let is_truncated =
            MessageView::new(&reply.octets).is_ok_and(|message| message.header().has(TC));
        if !is_truncated || request.ignore_truncation {
            return Ok(reply);
        }
    }
    over_tcp(query, request.timeout, server).map_err(no_answer(Carrier::Tcp))
}

/// Returns the server cookie in a BADCOOKIE reply to a query with the cookie `ours`.
fn cookie_wanted(reply: &[u8], ours: &Cookie) -> Option<Vec<u8>> {
    let message = MessageView::new(reply).ok()?;
    let edns = message.edns().ok()??;
    let rcode = Rcode(u16::from(edns.rcode_high) << 4 | message.header().rcode().0);
    edns.options().filter(|_| rcode == Rcode::BADCOOKIE).find_map(|option| match option {
        Ok(EdnsOption::Cookie { client, server })
            if *client == ours.client && !server.is_empty() =>
        {
            Some(server.to_vec())
        }
        _ => None,
    })
}

fn over_udp(query: &[u8], request: &Request, server: SocketAddr) -> io::Result<Reply> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    let mut last = ErrorKind::TimedOut.into();
    for _ in 0..request.tries {
        match one_try(&socket, query, request.timeout) {
            Ok((octets, elapsed)) => {
                return Ok(Reply { octets, server, carrier: Carrier::Udp, elapsed });
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Sends the query once and waits for its reply.
fn one_try(socket: &UdpSocket, query: &[u8], timeout: Duration) -> io::Result<(Vec<u8>, Duration)> {
    let mut buffer = vec![0; usize::from(u16::MAX)];
    let start = Instant::now();
    socket.send(query)?;
    loop {
        socket.set_read_timeout(Some(time_left(start, timeout)?))?;
        let len = socket.recv(&mut buffer)?;
        let octets = buffer.get(..len).unwrap_or_default();
        if is_reply(query, octets) {
            return Ok((octets.to_vec(), start.elapsed()));
        }
    }
}

fn over_tcp(query: &[u8], timeout: Duration, server: SocketAddr) -> io::Result<Reply> {
    let start = Instant::now();
    let mut stream = TcpStream::connect_timeout(&server, timeout)?;
    // Length and query are sent in one segment (RFC 7766 §8).
    let mut framed = (query.len() as u16).to_be_bytes().to_vec();
    framed.extend_from_slice(query);
    stream.set_write_timeout(Some(time_left(start, timeout)?))?;
    stream.write_all(&framed)?;
    let mut length = [0; 2];
    read_whole(&mut stream, &mut length, start, timeout)?;
    let mut octets = vec![0; usize::from(u16::from_be_bytes(length))];
    read_whole(&mut stream, &mut octets, start, timeout)?;
    if !is_reply(query, &octets) {
        return Err(io::Error::new(
            ErrorKind::InvalidData,
            "the response belongs to another query",
        ));
    }
    Ok(Reply { octets, server, carrier: Carrier::Tcp, elapsed: start.elapsed() })
}

/// Fills `out` before the deadline, even if the octets arrive one by one.
fn read_whole(
    stream: &mut TcpStream,
    out: &mut [u8],
    start: Instant,
    timeout: Duration,
) -> io::Result<()> {
    let mut rest = out;
    while !rest.is_empty() {
        stream.set_read_timeout(Some(time_left(start, timeout)?))?;
        match stream.read(rest)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            len => rest = rest.get_mut(len..).unwrap_or_default(),
        }
    }
    Ok(())
}

pub(crate) fn time_left(start: Instant, timeout: Duration) -> io::Result<Duration> {
    timeout
        .checked_sub(start.elapsed())
        .filter(|left| !left.is_zero())
        .ok_or_else(|| ErrorKind::TimedOut.into())
}

/// Returns whether this is the reply to the query. An error reply may lack the question (RFC 1035
/// §4.1.1: FORMERR).
pub(crate) fn is_reply(query: &[u8], reply: &[u8]) -> bool {
    let (Ok(asked), Ok(message)) = (MessageView::new(query), MessageView::new(reply)) else {
        return false;
    };
    let header = message.header();
    if !header.has(QR) || header.id != asked.header().id {
        return false;
    }
    match (asked.question(), message.question()) {
        (Ok(asked), Ok(answered)) => answered.octets().eq_ignore_ascii_case(asked.octets()),
        _ => header.counts[0] == 0 && header.rcode() != Rcode::NOERROR,
    }
}

/// Returns 64 bits from the random keys of hash maps, which are random enough for single queries.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
