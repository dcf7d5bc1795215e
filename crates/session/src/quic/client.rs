//! The client's end of a connection: each query has a stream of its own (RFC 9250 §4.2).

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig};
use quinn_proto::{
    ClientConfig, ConnectError, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir,
    Endpoint, EndpointConfig, Event, ReadError, Side, StreamEvent, StreamId, TransportConfig,
    VarInt, WriteError,
};
use thiserror::Error;

use super::arrived::{Arrived, Cancelled};
use super::doq::{DoqError, DoqReply, framed};
use super::h3::{H3State, StreamFault};
use super::listener::QuicProtocol;
use crate::http::HttpMethod;
use crate::http::h3::H3Error;
use crate::http::h3_ask::{H3Response, NoMessage, request};
use crate::trust::take_refusal;

/// Number of octets of a response that may arrive before they are read: enough for the longest
/// message and its length.
const STREAM_WINDOW: u32 = 128 << 10;
/// Maximum number of unread octets of all responses together.
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Maximum number of octets of queries that the server has not acknowledged.
const SEND_WINDOW: u64 = 1 << 20;
/// Maximum number of buffered octets of incomplete responses.
const MAX_PARTIAL: usize = 4 << 20;

/// An error of a connection to a server: it could not begin, it has ended, or a query has no
/// response.
#[derive(Clone, Debug, Error)]
pub enum QuicError {
    /// The address or the server name cannot be used.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The client does not accept the certificate.
    #[error(transparent)]
    Certificate(rustls::Error),
    /// The connection has ended.
    #[error(transparent)]
    Ended(#[from] ConnectionError),
    /// The server violates the protocol, so the connection ends.
    #[error("the server violates the protocol of the streams of QUIC")]
    Violation,
    /// The server sends too much data that completes no response, so the connection ends.
    #[error("the server sends too much that is no response")]
    Excess,
    /// The server has not processed a query, or answers no further queries. The connection ends.
    #[error("the server takes no further queries on this connection")]
    Refused,
    /// The server has ended the stream of the query without a response.
    #[error("the server ended the query with error code {0}")]
    NoReply(u64),
    /// The response is not one complete message.
    #[error("the stream has no response")]
    Malformed,
    /// The server refuses the request with this status.
    #[error("the server answers with HTTP status {0}")]
    Status(u16),
    /// The response is not a DNS message that responds to the query.
    #[error("the server answers with something other than a DNS response to the query")]
    MediaType,
}

/// The kind of an error.
#[derive(Debug)]
pub enum QuicFault<'e> {
    /// The certificate was refused.
    Certificate(&'e rustls::Error),
    /// The server has refused the handshake.
    Alert,
    /// The server cannot be reached, or refuses the connection.
    Unreachable,
    /// The server does not speak the protocol.
    Protocol,
    /// The server does not respond.
    TimedOut,
    /// The server has closed the connection.
    Closed,
    /// The error concerns one query.
    Query,
}

impl QuicError {
    /// Returns the kind of the error.
    pub fn fault(&self) -> QuicFault<'_> {
        /// The error codes that contain an alert of TLS (RFC 9000 §20.1).
        const ALERTS: RangeInclusive<u64> = 0x100..=0x1ff;
        use ConnectionError::*;
        match self {
            Self::Certificate(error) => QuicFault::Certificate(error),
            Self::Connect(_) => QuicFault::Unreachable,
            Self::Violation | Self::Excess => QuicFault::Protocol,
            Self::Refused => QuicFault::Closed,
            Self::NoReply(_) | Self::Malformed | Self::Status(_) | Self::MediaType => {
                QuicFault::Query
            }
            Self::Ended(ConnectionClosed(close))
                if ALERTS.contains(&u64::from(close.error_code)) =>
            {
                QuicFault::Alert
            }
            Self::Ended(ConnectionClosed(_) | CidsExhausted) => QuicFault::Unreachable,
            Self::Ended(VersionMismatch | TransportError(_)) => QuicFault::Protocol,
            Self::Ended(TimedOut) => QuicFault::TimedOut,
            Self::Ended(ApplicationClosed(_) | Reset | LocallyClosed) => QuicFault::Closed,
        }
    }
}

impl From<NoMessage> for QuicError {
    fn from(reason: NoMessage) -> Self {
        match reason {
            NoMessage::Status(status) => Self::Status(status),
            NoMessage::MediaType => Self::MediaType,
            NoMessage::Incomplete => Self::Malformed,
        }
    }
}

/// The settings that all connections of a client share: the check of certificates, and sessions
/// that can be resumed.
#[derive(Clone)]
pub struct QuicSettings {
    config: ClientConfig,
    protocol: QuicProtocol,
}

impl QuicSettings {
    /// Creates the settings.
    ///
    /// # Errors
    /// The provider of cryptography has no cipher for the first packets of QUIC.
    pub fn new(
        tls: Arc<rustls::ClientConfig>,
        protocol: QuicProtocol,
    ) -> Result<Self, NoInitialCipherSuite> {
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(0))
            .max_concurrent_uni_streams(protocol.uni_streams().into())
            .stream_receive_window(STREAM_WINDOW.into())
            .receive_window(CONNECTION_WINDOW.into())
            .send_window(SEND_WINDOW)
            .datagram_receive_buffer_size(None)
            .enable_segmentation_offload(false)
            .mtu_discovery_config(None);
        let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
        config.transport_config(Arc::new(transport));
        Ok(Self { config, protocol })
    }
}

/// A connection to a server.
pub struct QuicClient {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    /// Responses that have begun to arrive, by stream ID.
    partial: HashMap<u64, PartialReply>,
    /// Number of buffered octets.
    held: usize,
    /// The octets of queries that wait for the flow-control window of the server, by stream ID.
    unsent: HashMap<u64, Bytes>,
    /// The control stream and the QPACK streams of HTTP/3; `None` for DNS over QUIC.
    http: Option<H3State>,
    replies: VecDeque<QuicReply>,
    ended: Option<QuicError>,
    is_connected: bool,
    /// A stream that is already open, for the next query.
    spare: Option<StreamId>,
    buffer: Vec<u8>,
}

/// The outcome of a query.
#[derive(Debug)]
pub struct QuicReply {
    /// The stream ID that [`QuicClient::ask`] returned.
    pub request: u64,
    /// The response.
    pub result: Result<Vec<u8>, QuicError>,
}

impl QuicClient {
    /// Begins a connection to a server with this name in its certificate.
    ///
    /// # Errors
    /// The address or name cannot be used.
    pub fn connect(
        settings: &QuicSettings,
        server: SocketAddr,
        name: &str,
        now: Instant,
    ) -> Result<Self, QuicError> {
        let config = Arc::new(EndpointConfig::default());
        let mut endpoint = Endpoint::new(config, None, false, None);
        let (handle, connection) = endpoint.connect(now, settings.config.clone(), server, name)?;
        Ok(Self {
            endpoint,
            handle,
            connection,
            partial: HashMap::new(),
            held: 0,
            unsent: HashMap::new(),
            http: (settings.protocol == QuicProtocol::H3).then(H3State::default),
            replies: VecDeque::new(),
            ended: None,
            is_connected: false,
            spare: None,
            buffer: Vec::new(),
        })
    }

    /// Reports whether the server permits another query now.
    pub fn may_ask(&mut self) -> bool {
        if self.is_connected && self.ended.is_none() && self.spare.is_none() {
            self.spare = self.connection.streams().open(Dir::Bi);
        }
        self.spare.is_some()
    }

    /// Sends a query. Returns the ID of its stream; `None` while the server permits no further
    /// stream.
    pub fn ask(&mut self, message: &[u8]) -> Option<u64> {
        self.send(framed(message)?)
    }

    /// Sends a query in HTTP/3, as [`Self::ask`] does.
    pub fn ask_http(
        &mut self,
        (authority, path): (&str, &str),
        message: &[u8],
        method: HttpMethod,
    ) -> Option<u64> {
        self.send(request(authority, path, message, method))
    }

    fn send(&mut self, octets: Vec<u8>) -> Option<u64> {
        let id = self.spare.take().or_else(|| self.connection.streams().open(Dir::Bi))?;
        self.write(id, Bytes::from(octets));
        Some(id.index())
    }

    /// Writes a query or the rest of a query, and keeps the octets that exceed the flow-control
    /// window of the server.
    fn write(&mut self, id: StreamId, octets: Bytes) {
        let (mut parts, mut stream) = ([octets], self.connection.send_stream(id));
        while !parts[0].is_empty() {
            match stream.write_chunks(&mut parts) {
                Ok(written) if written.chunks == 1 => break,
                Ok(_) => {}
                Err(WriteError::Blocked) => {
                    let [rest] = parts;
                    self.unsent.insert(id.index(), rest);
                    return;
                }
                // The server has stopped reading the query. It may still answer.
                Err(_) => return,
            }
        }
        let _ = stream.finish();
    }

    /// Ends a query whose response is no longer needed.
    pub fn cancel(&mut self, request: u64) {
        let id = StreamId::new(Side::Client, Dir::Bi, request);
        let code = match &self.http {
            None => DoqError::Cancelled as u32,
            Some(_) => H3Error::Cancelled as u32,
        };
        self.forget(request);
        let _ = self.connection.recv_stream(id).stop(VarInt::from_u32(code));
        let _ = self.connection.send_stream(id).reset(VarInt::from_u32(code));
    }

    /// Forgets a query and its buffered octets.
    fn forget(&mut self, request: u64) {
        let held = self.partial.remove(&request).map_or(0, |reply| reply.held());
        self.held -= held;
        self.unsent.remove(&request);
    }

    /// Processes a datagram of the server. Returns whether it belongs to the connection.
    pub fn receive(&mut self, now: Instant, server: SocketAddr, octets: &[u8]) -> bool {
        self.buffer.clear();
        // A noted refusal of a certificate belongs to another connection: drop it.
        take_refusal();
        let Self { endpoint, connection, buffer, .. } = self;
        let event = endpoint.handle(now, server, None, None, BytesMut::from(octets), buffer);
        // A client sends no stateless reset.
        let Some(DatagramEvent::ConnectionEvent(_, event)) = event else { return false };
        connection.handle_event(event);
        self.process(now);
        true
    }

    /// Returns whether the server has announced that it answers no further queries. Only HTTP/3 has
    /// this announcement.
    pub fn is_draining(&self) -> bool {
        self.http.as_ref().is_some_and(|http| http.last().is_some())
    }

    /// Reports whether the server has announced that it does not process this query (RFC 9114
    /// §5.2).
    pub(super) fn is_refused(&self, request: u64) -> bool {
        let id = VarInt::from(StreamId::new(Side::Client, Dir::Bi, request)).into_inner();
        self.http.as_ref().and_then(H3State::last).is_some_and(|last| id >= last)
    }

    /// Reports whether a part of a query waits for the flow-control window of the server.
    pub(super) fn is_blocked(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Returns the smoothed round-trip time.
    pub fn rtt(&self) -> Duration {
        self.connection.rtt()
    }

    /// Handles the timers that are due.
    pub fn fire(&mut self, now: Instant) {
        if self.next_deadline().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
            self.process(now);
        }
    }

    /// Returns the time at which [`Self::fire`] is due.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        self.connection.poll_timeout()
    }

    /// Returns the next datagram to send.
    pub fn transmit(&mut self, now: Instant) -> Option<&[u8]> {
        self.buffer.clear();
        let transmit = self.connection.poll_transmit(now, 1, &mut self.buffer)?;
        self.pass_events();
        self.buffer.get(..transmit.size)
    }

    /// Returns the next query that has ended.
    pub fn next_reply(&mut self) -> Option<QuicReply> {
        self.replies.pop_front()
    }

    /// Reports whether the handshake is complete.
    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Returns the reason why the connection has ended; `None` while it is open.
    pub fn ended(&self) -> Option<&QuicError> {
        self.ended.as_ref()
    }

    /// Ends the connection.
    pub fn close(&mut self, now: Instant) {
        self.end(now, DoqError::None, H3Error::None);
    }

    /// Ends the connection because the server sends too much.
    pub(super) fn give_up(&mut self, now: Instant) {
        self.fail(now, (DoqError::ExcessiveLoad, H3Error::ExcessiveLoad), QuicError::Excess);
    }

    /// Ends the connection because the server violates its protocol.
    pub(super) fn violate(&mut self, now: Instant) {
        self.fail(now, (DoqError::Protocol, H3Error::Protocol), QuicError::Violation);
    }

    /// Ends the connection because the server answers no further queries.
    pub(super) fn leave(&mut self, now: Instant) {
        self.fail(now, (DoqError::None, H3Error::None), QuicError::Refused);
    }

    fn fail(&mut self, now: Instant, (doq, h3): (DoqError, H3Error), error: QuicError) {
        if self.ended.is_none() {
            self.end(now, doq, h3);
            self.ended = Some(error);
        }
    }

    fn end(&mut self, now: Instant, doq: DoqError, h3: H3Error) {
        let code = if self.http.is_some() { h3 as u32 } else { doq as u32 };
        self.connection.close(now, VarInt::from_u32(code), Bytes::new());
    }

    fn pass_events(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
    }

    fn begin(&mut self) {
        self.is_connected = true;
        if let Some(http) = &mut self.http {
            http.begin(&mut self.connection);
        }
    }

    fn process(&mut self, now: Instant) {
        self.pass_events();
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.begin(),
                Event::ConnectionLost { reason } => {
                    let refusal = take_refusal().map(QuicError::Certificate);
                    self.ended.get_or_insert(refusal.unwrap_or(reason.into()));
                }
                Event::Stream(event) if self.ended.is_none() => self.stream_event(event, now),
                _ => {}
            }
        }
    }

    fn stream_event(&mut self, event: StreamEvent, now: Instant) {
        match event {
            StreamEvent::Readable { id } if id.dir() == Dir::Bi => self.read(id, now),
            StreamEvent::Readable { id } => self.read_uni(id, now),
            StreamEvent::Opened { dir: Dir::Uni } => {
                while let Some(id) = self.connection.streams().accept(Dir::Uni) {
                    self.read_uni(id, now);
                }
            }
            StreamEvent::Writable { id } => {
                if let Some(rest) = self.unsent.remove(&id.index()) {
                    self.write(id, rest);
                }
            }
            // RFC 9250 §4.3.3 calls this fatal. But servers do this after they have read the query,
            // and the response may still follow.
            StreamEvent::Stopped { id, error_code } => {
                self.unsent.remove(&id.index());
                let _ = self.connection.send_stream(id).reset(error_code);
            }
            _ => {}
        }
    }

    /// Reads a unidirectional stream of the server in HTTP/3.
    fn read_uni(&mut self, id: StreamId, now: Instant) {
        let arrived = Arrived::read(&mut self.connection, id);
        let Some(http) = &mut self.http else { return self.violate(now) };
        let fault = match arrived {
            Ok(None) => return,
            Ok(Some(arrived)) => http.take(id, &arrived),
            Err(Cancelled) => http.take(id, &Arrived { pieces: Vec::new(), has_ended: true }),
        };
        match fault {
            Ok(()) => {}
            Err(StreamFault::Unknown) => {
                let code = VarInt::from_u32(H3Error::StreamCreation as u32);
                let _ = self.connection.recv_stream(id).stop(code);
            }
            Err(StreamFault::Connection(error)) => {
                self.fail(now, (DoqError::Protocol, error), QuicError::Violation);
            }
        }
    }

    fn read(&mut self, id: StreamId, now: Instant) {
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        let (request, is_http) = (id.index(), self.http.is_some());
        let begin = || match is_http {
            true => PartialReply::H3(Box::default()),
            false => PartialReply::Doq(DoqReply::default()),
        };
        let reply = self.partial.entry(request).or_insert_with(begin);
        let before = reply.held();
        let result = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    if let Err(error) = reply.take(&chunk.bytes) {
                        break Some(Err(error));
                    }
                }
                Ok(None) => break Some(reply.end()),
                Err(ReadError::Blocked) => break None,
                Err(ReadError::Reset(code)) => break Some(Err(QuicError::NoReply(code.into()))),
            }
        };
        let _ = chunks.finalize();
        self.held = self.held - before + reply.held();
        match result {
            None if self.held > MAX_PARTIAL => self.give_up(now),
            None => {}
            Some(result) => {
                self.forget(request);
                let is_violation = matches!(result, Err(QuicError::Violation));
                self.replies.push_back(QuicReply { request, result });
                // A server that violates the protocol gets no further queries (RFC 9250 §4.3.3).
                if is_violation {
                    self.violate(now);
                }
            }
        }
    }
}

/// A reply that has begun to arrive.
enum PartialReply {
    Doq(DoqReply),
    H3(Box<H3Response>),
}

impl PartialReply {
    /// Returns the number of buffered octets.
    fn held(&self) -> usize {
        match self {
            Self::Doq(reply) => reply.held(),
            Self::H3(response) => response.held(),
        }
    }

    fn take(&mut self, octets: &[u8]) -> Result<(), QuicError> {
        match self {
            Self::Doq(reply) => reply.take(octets).map_err(|_| QuicError::Violation),
            Self::H3(response) => response.take(octets).map_err(|_| QuicError::Violation),
        }
    }

    fn end(&mut self) -> Result<Vec<u8>, QuicError> {
        match self {
            Self::Doq(reply) if reply.held() == 0 => Err(QuicError::Malformed),
            Self::Doq(reply) => reply.end().map_err(|_| QuicError::Violation),
            Self::H3(response) => response.end().map_err(QuicError::from),
        }
    }
}
