//! A query over TLS (RFC 7858). The server is verified before the query is sent.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use avocet_session::certificate::{ALPN_DOT, ALPN_H2, Certificate};
use avocet_session::frame::{ReadBuffer, ReadState};
use avocet_session::http::{HttpMethod, HttpTarget};
use avocet_session::session::ClientSession;
use avocet_session::trust::{PIN_LEN, Trust, authorities, client_showing};
use data_encoding::BASE64;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};

use crate::exchange::{Carrier, Reply, is_reply, time_left};
use crate::{ClientError, over_quic};

/// The settings for a server that is reached over TLS.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TlsRequest {
    /// The name or address that the certificate must have.
    pub name: String,
    /// Whether any certificate is accepted.
    pub is_insecure: bool,
    /// A file with certificates of authorities, which replace the authorities of the system.
    pub authorities: Option<PathBuf>,
    /// Digests of public keys. If there are any, the server must have one of these keys, and its
    /// certificate need not come from an authority.
    pub pins: Vec<[u8; PIN_LEN]>,
    /// The file with the certificate that the client shows.
    pub certificate: Option<PathBuf>,
    /// The file with the key of that certificate, if the key is in a file of its own.
    pub key: Option<PathBuf>,
    /// How messages are sent within TLS.
    pub form: TlsForm,
}

/// How messages are sent within TLS.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum TlsForm {
    /// Each message follows its length on the stream (DNS over TLS).
    #[default]
    Frames,
    /// Messages are in HTTP requests and responses on a stream.
    Https(HttpsRequest),
    /// Each query and its response are on a QUIC stream of their own (DNS over QUIC).
    Quic,
    /// Messages are in HTTP/3 requests and responses.
    H3(HttpsRequest),
}

impl TlsForm {
    /// Returns the transport.
    pub(crate) const fn carrier(&self) -> Carrier {
        match self {
            Self::Frames => Carrier::Tls,
            Self::Https(_) => Carrier::Https,
            Self::Quic => Carrier::Quic,
            Self::H3(_) => Carrier::H3,
        }
    }
}

/// The encoding of a query in HTTP.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpsRequest {
    /// The host and port as written.
    pub authority: String,
    /// The path.
    pub path: String,
    /// GET or POST.
    pub method: HttpMethod,
}

impl HttpsRequest {
    pub(crate) fn target(&self) -> HttpTarget {
        HttpTarget {
            authority: self.authority.as_str().into(),
            path: self.path.as_str().into(),
            method: self.method,
        }
    }
}

impl TlsRequest {
    /// Returns the configuration of a connection with this protocol in ALPN.
    pub(crate) fn config(&self, alpn: &[u8]) -> io::Result<Arc<ClientConfig>> {
        let shown = self.shown()?;
        client_showing(self.trust()?, shown.as_ref(), &[alpn]).map_err(io::Error::other)
    }

    /// Reads the certificate that the client shows.
    fn shown(&self) -> io::Result<Option<Certificate>> {
        let (chain, key) = match (&self.certificate, &self.key) {
            (None, None) => return Ok(None),
            (None, Some(_)) => return Err(io::Error::other("+key needs +cert, its certificate")),
            (Some(chain), key) => (chain, key.as_ref().unwrap_or(chain)),
        };
        let read = Certificate::read(&contents(chain)?, &contents(key)?, &[]);
        read.map(Some).map_err(|error| named(chain, &error))
    }

    fn trust(&self) -> io::Result<Trust> {
        if self.is_insecure {
            return Ok(Trust::Nobody);
        }
        if !self.pins.is_empty() {
            return Ok(Trust::Pins(self.pins.clone()));
        }
        let roots = self.authorities.as_deref().map_or_else(of_system, of_file)?;
        Ok(Trust::Authorities(roots))
    }
}

fn of_file(path: &Path) -> io::Result<RootCertStore> {
    authorities(&contents(path)?).map_err(|error| named(path, &error))
}

fn contents(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| named(path, &error))
}

fn named(path: &Path, error: &dyn Error) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}

/// Returns the authorities that the system trusts.
fn of_system() -> io::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(io::Error::other("this system has no certificates of authorities; see +ca"));
    }
    Ok(roots)
}

/// Reads a pin: SHA-256 of a public key, in base64.
///
/// # Errors
/// The text is not a pin.
pub(crate) fn pin(text: &str) -> Result<[u8; PIN_LEN], ClientError> {
    let octets = BASE64.decode(text.as_bytes()).ok().and_then(|octets| octets.try_into().ok());
    octets.ok_or_else(|| ClientError::NotAPin(text.to_owned()))
}

/// Sends a query and waits for its reply.
pub(crate) fn exchange(
    query: &[u8],
    timeout: Duration,
    server: SocketAddr,
    tls: &TlsRequest,
) -> io::Result<Reply> {
    let name = ServerName::try_from(tls.name.clone()).map_err(io::Error::other)?;
    let session = match &tls.form {
        TlsForm::Quic | TlsForm::H3(_) => {
            return over_quic::exchange(query, timeout, server, tls);
        }
        TlsForm::Frames => ClientSession::connect(&tls.config(ALPN_DOT)?, name),
        TlsForm::Https(https) => {
            ClientSession::connect_https(&tls.config(ALPN_H2)?, name, https.target())
        }
    };
    let (octets, elapsed) = ask(session.map_err(io::Error::other)?, query, timeout, server)?;
    Ok(Reply { octets, server, carrier: tls.form.carrier(), elapsed })
}

/// Opens a session with a server, sends a query in it, and waits for the reply. Returns the reply
/// and the time that it took.
///
/// # Errors
/// The server does not answer, or its certificate is not accepted.
pub fn ask(
    mut session: ClientSession,
    query: &[u8],
    timeout: Duration,
    server: SocketAddr,
) -> io::Result<(Vec<u8>, Duration)> {
    let start = Instant::now();
    let mut stream = TcpStream::connect_timeout(&server, timeout)?;
    stream.set_nodelay(true)?;
    session.push(query);
    let (mut buffer, mut reply) = (ReadBuffer::new(), None);
    loop {
        stream.set_write_timeout(Some(time_left(start, timeout)?))?;
        session.write(&mut stream)?;
        stream.set_read_timeout(Some(time_left(start, timeout)?))?;
        let state = session.read(&mut stream, &mut buffer, &mut |message, _| {
            reply = Some(message.to_vec());
            ControlFlow::Break(())
        })?;
        if let Some(fault) = session.take_http_failure() {
            return Err(io::Error::other(fault));
        }
        if let Some(octets) = reply.take() {
            session.close(&mut stream);
            if !is_reply(query, &octets) {
                let message = "the response belongs to another query";
                return Err(io::Error::new(ErrorKind::InvalidData, message));
            }
            return Ok((octets, start.elapsed()));
        }
        if state == ReadState::Closed {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
}
