//! The octets that a client sends before its messages: they are encrypted first, in a TLS record of
//! their own.

use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use avocet_session::certificate::{ALPN_DOT, ALPN_H2};
use avocet_session::frame::ReadBuffer;
use avocet_session::http::{HttpMethod, HttpTarget};
use avocet_session::session::ClientSession;
use avocet_session::tls::provider;
use avocet_session::trust::{Trust, client};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ServerConfig, ServerConnection};

const CERTIFICATE: &str = include_str!("../../../cli/tests/operation/certificates/one.pem");
const KEY: &str = include_str!("../../../cli/tests/operation/certificates/one.key");
/// The octets that the client sends first.
const HEADER: &[u8] = b"a header";
/// A query for `a. A`.
const QUERY: &[u8] = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
/// The octets with which each connection of HTTP/2 begins (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The type of a record with application data, and of each record after the handshake in TLS 1.3.
const APPLICATION_DATA: u8 = 23;

/// One end of a stream in memory.
#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) incoming: Vec<u8>,
    pub(crate) outgoing: Vec<u8>,
}

impl Read for Stream {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let taken = self.incoming.len().min(room.len());
        if taken == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        room[..taken].copy_from_slice(&self.incoming[..taken]);
        self.incoming.drain(..taken);
        Ok(taken)
    }
}

impl Write for Stream {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.outgoing.extend_from_slice(octets);
        Ok(octets.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn server() -> ServerConnection {
    let chain = vec![CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = vec![ALPN_DOT.to_vec(), ALPN_H2.to_vec()];
    ServerConnection::new(Arc::new(config)).unwrap()
}

/// Returns the octets that a server reads from a session with one query, and the lengths of the
/// records after the handshake.
fn read_by_server(mut session: ClientSession) -> (Vec<u8>, Vec<usize>) {
    session.begin_with(HEADER);
    session.push(QUERY);
    let (mut server, mut stream, mut buffer) = (server(), Stream::default(), ReadBuffer::new());
    let (mut plaintext, mut last) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        session.write(&mut stream).unwrap();
        if !stream.outgoing.is_empty() {
            last = std::mem::take(&mut stream.outgoing);
            server.read_tls(&mut &last[..]).unwrap();
            server.process_new_packets().unwrap();
            // There may be no data yet.
            let _ = server.reader().read_to_end(&mut plaintext);
        }
        server.write_tls(&mut stream.incoming).unwrap();
        session.read(&mut stream, &mut buffer, &mut |_, _| ControlFlow::Continue(())).unwrap();
    }
    let (mut rest, mut records) = (&last[..], Vec::new());
    while let [kind, _, _, high, low, ..] = *rest {
        let len = usize::from(u16::from_be_bytes([high, low]));
        if kind == APPLICATION_DATA {
            records.push(len);
        }
        rest = &rest[5 + len..];
    }
    (plaintext, records)
}

fn name() -> ServerName<'static> {
    ServerName::try_from("127.0.0.1").unwrap()
}

#[test]
fn a_header_comes_before_the_first_frame() {
    let config = client(Trust::Nobody, &[ALPN_DOT]).unwrap();
    let (plaintext, records) = read_by_server(ClientSession::connect(&config, name()).unwrap());
    let frame = [&(QUERY.len() as u16).to_be_bytes()[..], QUERY].concat();
    assert_eq!(plaintext, [HEADER, &frame].concat());
    // A record also has one octet for its type and 16 octets from the cipher.
    let of_header = HEADER.len() + 17;
    assert_eq!(records[records.len() - 2..], [of_header, frame.len() + 17]);
}

#[test]
fn a_header_comes_before_the_preface_of_http() {
    let config = client(Trust::Nobody, &[ALPN_H2]).unwrap();
    let method = HttpMethod::Post;
    let target = HttpTarget { authority: "dns.example".into(), path: "/dns-query".into(), method };
    let session = ClientSession::connect_https(&config, name(), target).unwrap();
    let (plaintext, records) = read_by_server(session);
    assert!(plaintext.starts_with(&[HEADER, PREFACE].concat()), "{plaintext:?}");
    assert!(records.contains(&(HEADER.len() + 17)), "{records:?}");
}
