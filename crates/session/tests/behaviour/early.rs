//! Early data over TLS: queries of a resumed session before the end of the handshake.

use std::io::{self, Read as _, Write as _};
use std::ops::ControlFlow;
use std::sync::Arc;

use avocet_session::certificate::{
    ALPN_DOT, Certificate, CertificateChoice, EarlyTransport, Tickets, listener,
};
use avocet_session::early::MAX_EARLY;
use avocet_session::frame::ReadBuffer;
use avocet_session::session::ServerSession;
use avocet_session::trust::{Trust, client};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, ServerConfig};

use crate::beginning::Stream;

const CERTIFICATE: &str = include_str!("../../../cli/tests/operation/certificates/one.pem");
const KEY: &str = include_str!("../../../cli/tests/operation/certificates/one.key");

/// Returns a message with its length: a query for `a.` with this ID, opcode and QTYPE.
fn message([id, opcode, qtype]: [u8; 3]) -> Vec<u8> {
    let header = [0, 19, 0, id, opcode << 3, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    [&header[..], b"\x01a\0\0", &[qtype, 0, 1]].concat()
}

const QUERY: [u8; 3] = [1, 0, 1];
const LATER_QUERY: [u8; 3] = [2, 0, 28];
const UPDATE: [u8; 3] = [3, 5, 6];
const TRANSFER: [u8; 3] = [4, 0, 252];

fn configs(tickets: &Tickets) -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let one = Certificate::read(CERTIFICATE.as_bytes(), KEY.as_bytes(), &[]).unwrap();
    let shown = Arc::new(CertificateChoice::new(&[one]));
    let mut trust = (*client(Trust::Nobody, &[ALPN_DOT]).unwrap()).clone();
    trust.enable_early_data = true;
    (listener(shown, tickets, &[ALPN_DOT], None).unwrap(), Arc::new(trust))
}

fn early() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    configs(&Tickets::draw().unwrap().with_early_data(EarlyTransport::Tls))
}

/// A connection to a server that answers each message with its own octets.
struct Connection {
    client: ClientConnection,
    server: ServerSession,
    stream: Stream,
    /// The messages that the server has answered.
    asked: Vec<Vec<u8>>,
    /// The octets that the client has received.
    replies: Vec<u8>,
}

impl Connection {
    fn new((server, client): &(Arc<ServerConfig>, Arc<ClientConfig>)) -> Self {
        let name = ServerName::try_from("127.0.0.1").unwrap();
        Self {
            client: ClientConnection::new(client.clone(), name).unwrap(),
            server: ServerSession::accept(server).unwrap(),
            stream: Stream::default(),
            asked: Vec::new(),
            replies: Vec::new(),
        }
    }

    /// Sends octets as early data.
    fn write_early(&mut self, octets: &[u8]) {
        self.client.early_data().expect("a ticket for early data").write_all(octets).unwrap();
    }

    /// Returns the octets that the client sends now.
    fn flight(&mut self) -> Vec<u8> {
        let mut octets = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut octets).unwrap();
        }
        octets
    }

    /// Gives the server these octets, in pieces of `size`.
    fn deliver(&mut self, octets: &[u8], size: usize) -> io::Result<()> {
        let Self { server, stream, asked, .. } = self;
        let mut buffer = ReadBuffer::new();
        for piece in octets.chunks(size) {
            stream.incoming.extend_from_slice(piece);
            server.read(stream, &mut buffer, &mut |message, replies| {
                asked.push(message.to_vec());
                replies.push(message);
                ControlFlow::Continue(())
            })?;
            server.write(stream)?;
        }
        Ok(())
    }

    /// Gives the client what the server has sent.
    fn return_octets(&mut self) {
        let octets = std::mem::take(&mut self.stream.outgoing);
        let mut rest = octets.as_slice();
        while !rest.is_empty() {
            self.client.read_tls(&mut rest).unwrap();
            let state = self.client.process_new_packets().unwrap();
            let start = self.replies.len();
            self.replies.resize(start + state.plaintext_bytes_to_read(), 0);
            self.client.reader().read_exact(&mut self.replies[start..]).unwrap();
        }
    }

    /// Completes the handshake and takes the tickets.
    fn complete(&mut self) {
        while self.client.is_handshaking() || self.client.wants_write() {
            let octets = self.flight();
            self.deliver(&octets, usize::MAX).unwrap();
            self.return_octets();
        }
    }

    /// Connects once, so that the next connection can resume the session.
    fn meet(configs: &(Arc<ServerConfig>, Arc<ClientConfig>)) {
        let mut first = Self::new(configs);
        first.complete();
        assert_eq!(first.server.handshake(), Some(HandshakeKind::Full));
    }
}

/// Returns messages without the length in front of each.
fn bare<const N: usize>(messages: [[u8; 3]; N]) -> Vec<Vec<u8>> {
    messages.iter().map(|one| message(*one)[2..].to_vec()).collect()
}

#[test]
fn an_early_query_is_answered_before_the_end_of_the_handshake() {
    let configs = early();
    Connection::meet(&configs);
    for size in [1, 7, usize::MAX] {
        let mut again = Connection::new(&configs);
        again.write_early(&message(QUERY));
        let flight = again.flight();
        again.deliver(&flight, size).unwrap();
        assert_eq!(again.asked, bare([QUERY]));
        assert!(again.server.is_handshaking());
        again.return_octets();
        assert!(again.client.is_early_data_accepted());
        assert_eq!(again.replies, message(QUERY), "the answer is in the first flight");
        again.client.writer().write_all(&message(LATER_QUERY)).unwrap();
        again.complete();
        assert_eq!(again.server.handshake(), Some(HandshakeKind::Resumed));
        assert_eq!(again.asked, bare([QUERY, LATER_QUERY]));
        assert_eq!(again.replies, [message(QUERY), message(LATER_QUERY)].concat());
        assert!(again.server.is_early() && !again.server.is_partial());
    }
}

#[test]
fn early_messages_with_an_effect_wait_for_the_end_of_the_handshake() {
    for other in [UPDATE, TRANSFER] {
        let configs = early();
        Connection::meet(&configs);
        let mut again = Connection::new(&configs);
        let all = [message(QUERY), message(other), message(LATER_QUERY)].concat();
        again.write_early(&all);
        let flight = again.flight();
        again.deliver(&flight, usize::MAX).unwrap();
        assert_eq!(again.asked, bare([QUERY]));
        again.return_octets();
        again.complete();
        assert_eq!(again.asked, bare([QUERY, other, LATER_QUERY]));
        assert_eq!(again.replies, all);
    }
}

#[test]
fn a_copy_of_early_data_has_no_effect() {
    let configs = early();
    Connection::meet(&configs);
    let mut again = Connection::new(&configs);
    again.write_early(&message(QUERY));
    let flight = again.flight();
    again.deliver(&flight, usize::MAX).unwrap();
    assert_eq!(again.asked.len(), 1);
    for _ in 0..3 {
        let mut copy = Connection::new(&configs);
        copy.deliver(&flight, usize::MAX).unwrap();
        assert_eq!(copy.asked.len(), 0, "the session can be resumed once");
        assert!(copy.server.is_handshaking());
    }
}

#[test]
fn a_message_in_parts_is_answered_when_it_is_complete() {
    let configs = early();
    Connection::meet(&configs);
    let mut again = Connection::new(&configs);
    let (start, rest) = (&message(QUERY)[..9], &message(QUERY)[9..]);
    again.write_early(start);
    let flight = again.flight();
    again.deliver(&flight, usize::MAX).unwrap();
    assert!(again.asked.is_empty() && again.server.is_partial());
    again.return_octets();
    again.client.writer().write_all(rest).unwrap();
    again.complete();
    assert_eq!(again.asked, bare([QUERY]));
    assert_eq!(again.replies, message(QUERY));
}

#[test]
fn a_client_that_sends_too_much_early_data_is_disconnected() {
    let configs = early();
    Connection::meet(&configs);
    let mut again = Connection::new(&configs);
    let most = MAX_EARLY as usize;
    let written = again.client.early_data().unwrap().write(&vec![0; 2 * most]).unwrap();
    assert_eq!(written, most, "the ticket states the limit");
    let flight = again.flight();
    again.deliver(&flight, usize::MAX).unwrap();
    // The client ignores the limit of its ticket. Its key encrypts further records only over the
    // limit of another server.
    let generous = configs_with_more();
    Connection::meet(&generous);
    let mut excess = Connection::new(&generous);
    excess.write_early(&vec![0; 4 * most]);
    let flight = excess.flight();
    assert!(excess.deliver(&flight, 1 << 10).is_err());
    assert!(excess.asked.is_empty());
}

/// Returns a server that offers more early data than it accepts from a client before the handshake.
fn configs_with_more() -> (Arc<ServerConfig>, Arc<ClientConfig>) {
    let (server, client) = early();
    let mut server = (*server).clone();
    server.max_early_data_size = 1 << 20;
    (Arc::new(server), client)
}

#[test]
fn without_the_setting_early_data_is_refused_and_sent_again() {
    let configs = configs(&Tickets::draw().unwrap());
    Connection::meet(&configs);
    let mut again = Connection::new(&configs);
    assert!(again.client.early_data().is_none(), "the ticket permits none");
    // A ticket of the time before the setting was removed.
    let (with, client) = early();
    Connection::meet(&(with, client.clone()));
    let mut stale = Connection::new(&(configs.0, client));
    stale.write_early(&message(QUERY));
    stale.complete();
    assert!(!stale.client.is_early_data_accepted());
    assert!(stale.asked.is_empty() && !stale.server.is_early());
    stale.client.writer().write_all(&message(QUERY)).unwrap();
    stale.complete();
    assert_eq!(stale.asked, bare([QUERY]));
}
