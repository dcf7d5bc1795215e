//! A query over QUIC (RFC 9250) or in HTTP/3 (RFC 9114), with a blocking socket.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use avocet_session::certificate::{ALPN_DOQ, ALPN_H3};
use avocet_session::http::HttpTarget;
use avocet_session::quic::QuicProtocol;
use avocet_session::quic::client::{QuicClient, QuicSettings};

use crate::exchange::{Reply, is_reply, time_left};
use crate::over_tls::{TlsForm, TlsRequest};

/// Number of octets of the receive buffer. Datagrams on usual paths are shorter.
const DATAGRAM_ROOM: usize = 4096;

/// Sends a query and waits for its reply.
pub(crate) fn exchange(
    query: &[u8],
    timeout: Duration,
    server: SocketAddr,
    tls: &TlsRequest,
) -> io::Result<Reply> {
    let (alpn, protocol, target) = match &tls.form {
        TlsForm::H3(https) => (ALPN_H3, QuicProtocol::H3, Some(https.target())),
        _ => (ALPN_DOQ, QuicProtocol::Doq, None),
    };
    let config = tls.config(alpn)?;
    let settings = QuicSettings::new(config, protocol).map_err(io::Error::other)?;
    let session = QuicClient::connect(&settings, server, &tls.name, Instant::now());
    let session = session.map_err(io::Error::other)?;
    let (octets, elapsed) = ask((session, target.as_ref()), query, timeout, server)?;
    Ok(Reply { octets, server, carrier: tls.form.carrier(), elapsed })
}

/// Opens a connection, sends a query on it, and waits for the reply. With a target, the query is
/// sent in HTTP/3. Returns the reply and the time that it took.
///
/// # Errors
/// The server does not answer, or its certificate is not accepted.
pub fn ask(
    (mut session, target): (QuicClient, Option<&HttpTarget>),
    query: &[u8],
    timeout: Duration,
    server: SocketAddr,
) -> io::Result<(Vec<u8>, Duration)> {
    let start = Instant::now();
    let socket = connected(server)?;
    let (mut buffer, mut is_asked) = (vec![0; DATAGRAM_ROOM], false);
    loop {
        let now = Instant::now();
        session.fire(now);
        if !is_asked && session.is_connected() {
            is_asked = match target {
                Some(HttpTarget { authority, path, method }) => {
                    session.ask_http((authority, path), query, *method)
                }
                None => session.ask(query),
            }
            .is_some();
        }
        while let Some(octets) = session.transmit(now) {
            socket.send(octets)?;
        }
        if let Some(reply) = session.next_reply() {
            let octets = reply.result.map_err(io::Error::other)?;
            session.close(now);
            while let Some(octets) = session.transmit(now) {
                socket.send(octets)?;
            }
            if !is_reply(query, &octets) {
                let message = "the response belongs to another query";
                return Err(io::Error::new(ErrorKind::InvalidData, message));
            }
            return Ok((octets, start.elapsed()));
        }
        if let Some(error) = session.ended() {
            return Err(io::Error::other(error.clone()));
        }
        receive(&mut session, &socket, &mut buffer, time_left(start, timeout)?)?;
    }
}

fn connected(server: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(server)?;
    Ok(socket)
}

/// Waits for a datagram, but not longer than until a timer is due.
fn receive(
    session: &mut QuicClient,
    socket: &UdpSocket,
    buffer: &mut [u8],
    left: Duration,
) -> io::Result<()> {
    let due = session.next_deadline().map(|at| at.saturating_duration_since(Instant::now()));
    let patience = due.map_or(left, |due| due.min(left)).max(Duration::from_millis(1));
    socket.set_read_timeout(Some(patience))?;
    match socket.recv(buffer) {
        Ok(len) => {
            let octets = buffer.get(..len).unwrap_or_default();
            session.receive(Instant::now(), socket.peer_addr()?, octets);
            Ok(())
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(()),
        Err(error) => Err(error),
    }
}
