//! The connection to a receiver of dnstap messages: a frame stream over a Unix socket or TCP.
//!
//! The calls of this module block, each for a limited time: only the thread of dnstap uses it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use avocet_config::dnstap::TapOutput;
use avocet_dnstap::frame::put_data;
use avocet_dnstap::{ControlKind, FrameReader};

/// Maximum wait for the receiver: to connect, to complete the handshake, or to accept octets.
const PATIENCE: Duration = Duration::from_secs(2);
/// Number of octets of messages that are sent in one write.
const BATCH_OCTETS: usize = 64 << 10;

/// Counts of dnstap since the start.
#[derive(Default)]
pub(crate) struct TapCounts {
    /// Messages sent.
    pub(crate) sent: AtomicU64,
    /// Messages lost because the ring of a worker was full.
    pub(crate) dropped: AtomicU64,
    /// Messages lost because the connection ended.
    pub(crate) lost: AtomicU64,
    /// Whether the receiver is connected: 1 while it is.
    pub(crate) connected: AtomicU64,
}

/// A socket: TCP or Unix.
trait TapSocket: Read + Write + Send {}

impl<S: Read + Write + Send> TapSocket for S {}

/// A connection over which messages are sent.
pub(crate) struct TapConnection {
    socket: Box<dyn TapSocket>,
    /// Frames that are not sent yet.
    batch: Vec<u8>,
    /// The number of messages that wait in the batch.
    waiting: u64,
}

impl TapConnection {
    /// Connects, and negotiates dnstap with the receiver.
    ///
    /// # Errors
    /// The receiver cannot be reached, or does not accept dnstap.
    pub(crate) fn open(output: &TapOutput) -> io::Result<Self> {
        let mut socket: Box<dyn TapSocket> = match output {
            TapOutput::Unix(path) => {
                let socket = UnixStream::connect(path)?;
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.set_write_timeout(Some(PATIENCE))?;
                Box::new(socket)
            }
            TapOutput::Tcp(address) => {
                let socket = TcpStream::connect_timeout(address, PATIENCE)?;
                socket.set_read_timeout(Some(PATIENCE))?;
                socket.set_write_timeout(Some(PATIENCE))?;
                socket.set_nodelay(true)?;
                Box::new(socket)
            }
        };
        socket.write_all(&ControlKind::Ready.frame())?;
        expect(&mut socket, ControlKind::Accept)?;
        socket.write_all(&ControlKind::Start.frame())?;
        Ok(Self { socket, batch: Vec::with_capacity(2 * BATCH_OCTETS), waiting: 0 })
    }

    /// Adds a message. Returns the number of messages that were sent, which is zero until the batch
    /// is full.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn add(&mut self, message: &[u8]) -> io::Result<u64> {
        put_data(&mut self.batch, message);
        self.waiting += 1;
        if self.batch.len() < BATCH_OCTETS { Ok(0) } else { self.flush() }
    }

    /// Sends the waiting messages, and returns their number.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn flush(&mut self) -> io::Result<u64> {
        if self.batch.is_empty() {
            return Ok(0);
        }
        self.socket.write_all(&self.batch)?;
        self.batch.clear();
        Ok(std::mem::take(&mut self.waiting))
    }

    /// Returns the number of waiting messages.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Ends the stream, so that the receiver knows that it is complete. Returns the number of
    /// messages that were sent.
    ///
    /// # Errors
    /// The connection has ended before.
    pub(crate) fn close(&mut self) -> io::Result<u64> {
        let sent = self.flush()?;
        self.socket.write_all(&ControlKind::Stop.frame())?;
        // A receiver that sends no reply has still read the messages.
        let _ = expect(&mut self.socket, ControlKind::Finish);
        Ok(sent)
    }
}

/// Reads a control frame, which must be of this kind.
fn expect(socket: &mut impl Read, wanted: ControlKind) -> io::Result<()> {
    let invalid = |text: &'static str| io::Error::new(io::ErrorKind::InvalidData, text);
    let frame = FrameReader::new(socket).read_frame(&mut Vec::new());
    let frame = frame.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    match frame {
        None => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")),
        Some(frame) if frame.permits(wanted) => Ok(()),
        Some(_) => Err(invalid("it does not take dnstap messages")),
    }
}
