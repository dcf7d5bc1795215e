//! Connections to a server over TLS, HTTPS, QUIC or HTTP/3, with the settings of the generator for
//! them.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};

use avocet_session::certificate::{ALPN_DOQ, ALPN_DOT, ALPN_H2, ALPN_H3};
use avocet_session::frame::{ReadBuffer, ReadState};
use avocet_session::http::{HttpMethod, HttpTarget};
use avocet_session::quic::QuicProtocol;
use avocet_session::quic::client::{QuicClient, QuicSettings};
use avocet_session::session::ClientSession;
use avocet_session::trust::{Trust, authorities, client};
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;

use crate::args::LoadArgs;
use crate::drive::Connections;
use crate::error::{LoadError, Needed};

/// The settings of all connections to a server over TLS.
#[derive(Clone, Debug)]
pub(crate) struct TlsTarget {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    /// The HTTP/2 resource that queries are sent to; `None` for DNS over TLS.
    place: Option<HttpTarget>,
}

/// Returns the TLS settings that the command line specifies.
fn settings(args: &LoadArgs, alpn: &[u8]) -> Result<Arc<ClientConfig>, LoadError> {
    let trust = match &args.ca {
        _ if args.insecure => Trust::Nobody,
        Some(path) => {
            let roots = std::fs::read(path).and_then(|text| authorities(&text));
            Trust::Authorities(roots.map_err(LoadError::in_file(path))?)
        }
        None => return Err(LoadError::Missing(Needed::Trust)),
    };
    let mut config = client(trust, &[alpn]).map_err(io::Error::other)?;
    if args.connections != Connections::Resumed {
        Arc::make_mut(&mut config).resumption = Resumption::disabled();
    }
    Ok(config)
}

impl TlsTarget {
    /// Creates the settings from the command line, for a server with this name in its certificate.
    /// Uses HTTP/2 if `place` is given.
    pub(crate) fn new(
        args: &LoadArgs,
        name: &str,
        place: Option<HttpPlace>,
    ) -> Result<Self, LoadError> {
        let config = settings(args, if place.is_some() { ALPN_H2 } else { ALPN_DOT })?;
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let place = place.map(|HttpPlace { authority, path }| HttpTarget {
            authority: authority.into(),
            path: path.into(),
            method: HttpMethod::Post,
        });
        Ok(Self { config, name, place })
    }

    /// Returns the session of a new connection.
    pub(crate) fn session(&self) -> io::Result<ClientSession> {
        let (config, name) = (&self.config, self.name.clone());
        match &self.place {
            None => ClientSession::connect(config, name),
            Some(place) => ClientSession::connect_https(config, name, place.clone()),
        }
        .map_err(io::Error::other)
    }

    /// Completes one handshake, so that an unacceptable certificate is reported before the run.
    pub(crate) fn verify(&self, server: SocketAddr, timeout: Duration) -> io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&server, timeout)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let (mut session, mut buffer) = (self.session()?, ReadBuffer::new());
        session.begin()?;
        loop {
            session.write(&mut stream)?;
            if !session.is_handshaking() {
                session.close(&mut stream);
                return Ok(());
            }
            let state =
                session.read(&mut stream, &mut buffer, &mut |_, _| ControlFlow::Continue(()))?;
            if state == ReadState::Closed {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Room for a datagram in octets, which is more than any path carries.
const DATAGRAM_ROOM: usize = 4096;
/// Longest single wait for a datagram during the first handshake.
const PATIENCE: Duration = Duration::from_millis(20);

/// The settings of all connections to a server over QUIC.
#[derive(Clone)]
pub(crate) struct QuicTarget {
    settings: QuicSettings,
    name: String,
    /// The HTTP/3 resource that queries are sent to; `None` for DNS over QUIC.
    place: Option<HttpPlace>,
}

/// The HTTP resource that queries are sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpPlace {
    /// The host, followed by its port if the port is not the default.
    pub(crate) authority: String,
    /// The path.
    pub(crate) path: String,
}

impl fmt::Debug for QuicTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicTarget").field("name", &self.name).finish_non_exhaustive()
    }
}

impl QuicTarget {
    /// Creates the settings from the command line, for a server with this name in its certificate.
    /// Uses HTTP/3 if `place` is given.
    pub(crate) fn new(
        args: &LoadArgs,
        name: &str,
        place: Option<HttpPlace>,
    ) -> Result<Self, LoadError> {
        let (alpn, protocol) = match &place {
            None => (ALPN_DOQ, QuicProtocol::Doq),
            Some(_) => (ALPN_H3, QuicProtocol::H3),
        };
        let config = settings(args, alpn)?;
        let settings = QuicSettings::new(config, protocol).map_err(io::Error::other)?;
        Ok(Self { settings, name: name.to_owned(), place })
    }

    /// Sends a query on its own stream. Returns the ID of the stream.
    pub(crate) fn ask(&self, client: &mut QuicClient, message: &[u8]) -> Option<u64> {
        match &self.place {
            None => client.ask(message),
            Some(HttpPlace { authority, path }) => {
                client.ask_http((authority, path), message, HttpMethod::Post)
            }
        }
    }

    /// Returns a new connection.
    pub(crate) fn session(&self, server: SocketAddr) -> io::Result<QuicClient> {
        QuicClient::connect(&self.settings, server, &self.name, Instant::now())
            .map_err(io::Error::other)
    }

    /// Completes one handshake, like [`TlsTarget::verify`].
    pub(crate) fn verify(&self, server: SocketAddr, timeout: Duration) -> io::Result<()> {
        let any: SocketAddr = match server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let (mut session, start) = (self.session(server)?, Instant::now());
        let mut buffer = [0; DATAGRAM_ROOM];
        while start.elapsed() < timeout {
            let now = Instant::now();
            session.fire(now);
            let is_over = session.is_connected();
            if is_over {
                session.close(now);
            }
            while let Some(octets) = session.transmit(now) {
                socket.send(octets)?;
            }
            if let Some(error) = session.ended() {
                return Err(io::Error::other(error.clone()));
            }
            if is_over {
                return Ok(());
            }
            match socket.recv(&mut buffer) {
                Ok(len) => {
                    let octets = buffer.get(..len).unwrap_or_default();
                    session.receive(Instant::now(), server, octets);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}
