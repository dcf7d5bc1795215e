//! A connection to a primary, over TCP or TLS (RFC 9103), with a limit on its time.
//!
//! The limit also applies if a primary sends single octets, in the handshake or in a message.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use avocet_session::certificate::ALPN_DOT;
use rustls::{ClientConnection, StreamOwned};

use avocet_worker::upstream_tls::PrimaryTls;

/// Maximum wait for a connection, for each read, and for a handshake.
const MESSAGE_TIME: Duration = Duration::from_secs(10);

/// The reason why there is no connection to a primary.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// A network error or timeout.
    Network(io::Error),
    /// The handshake of TLS failed.
    Tls(String),
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        Self::Network(error)
    }
}

/// A connection to a primary.
pub(crate) enum TransferStream<'a> {
    Plain(BoundedStream<'a>),
    Tls(Box<StreamOwned<ClientConnection, BoundedStream<'a>>>),
}

/// A TCP connection with an instant at which it ends.
pub(crate) struct BoundedStream<'a> {
    stream: TcpStream,
    /// Maximum wait for each read.
    patience: Duration,
    ends: Instant,
    is_closed: &'a dyn Fn() -> bool,
}

impl<'a> TransferStream<'a> {
    /// Connects to a primary. With TLS, the primary has proved its name when this function returns.
    ///
    /// # Errors
    /// A network error, or the handshake fails.
    pub(crate) fn connect(
        server: SocketAddr,
        tls: Option<&PrimaryTls>,
        time: Duration,
        is_closed: &'a dyn Fn() -> bool,
    ) -> Result<Self, ConnectError> {
        let begins = Instant::now();
        let patience = MESSAGE_TIME.min(time);
        let stream = TcpStream::connect_timeout(&server, patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let mut stream = BoundedStream { stream, patience, ends: begins + time, is_closed };
        let Some(tls) = tls else { return Ok(Self::Plain(stream)) };
        stream.stream.set_nodelay(true)?;
        stream.ends = begins + patience;
        let connection = ClientConnection::new(tls.config.clone(), tls.name.clone());
        let connection = connection.map_err(|error| ConnectError::Tls(error.to_string()))?;
        let mut both = StreamOwned::new(connection, stream);
        while both.conn.is_handshaking() {
            both.conn.complete_io(&mut both.sock).map_err(handshake_error)?;
        }
        // RFC 9103 §7.1. A server without ALPN support chooses no protocol.
        if both.conn.alpn_protocol().is_some_and(|chosen| chosen != ALPN_DOT) {
            return Err(ConnectError::Tls("it speaks another protocol than DNS".to_owned()));
        }
        both.sock.ends = begins + time;
        Ok(Self::Tls(Box::new(both)))
    }
}

/// Returns the error of a handshake. For a TLS error, this is the inner error alone.
fn handshake_error(error: io::Error) -> ConnectError {
    let of_tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    of_tls.map(|inner| ConnectError::Tls(inner.to_string())).unwrap_or_else(|| error.into())
}

impl Read for TransferStream<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(room),
            Self::Tls(stream) => stream.read(room).map_err(|error| match error.kind() {
                // The connection ended without the closing alert of TLS. The text of rustls about
                // this is long, so it is omitted.
                ErrorKind::UnexpectedEof => ErrorKind::UnexpectedEof.into(),
                _ => error,
            }),
        }
    }
}

impl Write for TransferStream<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(octets),
            Self::Tls(stream) => stream.write(octets),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

impl Read for BoundedStream<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if (self.is_closed)() {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        if Instant::now() > self.ends {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.read(room).map_err(|error| named(error, self.patience))
    }
}

impl Write for BoundedStream<'_> {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if Instant::now() > self.ends {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.write(octets).map_err(|error| named(error, self.patience))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Replaces the system's error for a timeout, "resource temporarily unavailable", with the text
/// that the primary did not answer.
fn named(error: io::Error, patience: Duration) -> io::Error {
    if error.kind() != ErrorKind::WouldBlock {
        return error;
    }
    let text = format!("no answer within {} s", patience.as_secs());
    io::Error::new(ErrorKind::TimedOut, text)
}
