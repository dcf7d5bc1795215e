//! The end of the client: a connection to a server, with a stream for each query (RFC 9250 §4.2).

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig};
use quinn_proto::{
    ClientConfig, ConnectError, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir,
    Endpoint, EndpointConfig, Event, ReadError, StreamEvent, StreamId, TransportConfig, VarInt,
};
use thiserror::Error;

use super::doq::{DoqError, DoqReply, framed};
use super::listener::QuicProtocol;
use crate::http::HttpMethod;
use crate::http::h3::settings;
use crate::http::h3_ask::{BadStatus, H3Response, request};

/// Octets of a response that may arrive ahead of what was read.
const STREAM_WINDOW: u32 = 128 << 10;
/// Octets of all of them.
const CONNECTION_WINDOW: u32 = 4 << 20;

/// An error: there is no connection, or there is none any more.
#[derive(Debug, Error)]
pub enum QuicError {
    /// The cryptography has no cipher for the first packets.
    #[error("no cipher for the first packets of QUIC")]
    Cipher(#[from] NoInitialCipherSuite),
    /// The server cannot be addressed like that.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The connection has ended.
    #[error(transparent)]
    Ended(#[from] ConnectionError),
    /// The server has ended the stream of the query without a response.
    #[error("the server ended the query with error code {0}")]
    NoReply(u64),
    /// The server has sent something else than one message.
    #[error("the stream has no response")]
    Malformed,
    /// The server refuses the request.
    #[error("the server answers with HTTP status {0}")]
    Status(String),
}

/// What the connections of a client have in common: trust, and sessions to resume.
#[derive(Clone)]
pub struct QuicSettings {
    config: ClientConfig,
    protocol: QuicProtocol,
}

impl QuicSettings {
    /// Creates the settings.
    ///
    /// # Errors
    /// The cryptography lacks a cipher.
    pub fn new(tls: Arc<rustls::ClientConfig>, protocol: QuicProtocol) -> Result<Self, QuicError> {
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(0))
            .max_concurrent_uni_streams(protocol.uni_streams().into())
            .stream_receive_window(STREAM_WINDOW.into())
            .receive_window(CONNECTION_WINDOW.into())
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
    /// Replies that have begun to arrive, by stream.
    partial: HashMap<u64, PartialReply>,
    protocol: QuicProtocol,
    replies: VecDeque<QuicReply>,
    ended: Option<ConnectionError>,
    is_connected: bool,
    /// A stream for the next query.
    spare: Option<StreamId>,
    buffer: Vec<u8>,
}

/// The end of a query.
#[derive(Debug)]
pub struct QuicReply {
    /// The number that [`QuicClient::ask`] returned.
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
            protocol: settings.protocol,
            replies: VecDeque::new(),
            ended: None,
            is_connected: false,
            spare: None,
            buffer: Vec::new(),
        })
    }

    /// Reports whether the server permits another query now.
    pub fn may_ask(&mut self) -> bool {
        if self.is_connected && self.spare.is_none() {
            self.spare = self.connection.streams().open(Dir::Bi);
        }
        self.spare.is_some()
    }

    /// Sends a query. Returns the number of its stream; `None` while the server permits none.
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
        let mut stream = self.connection.send_stream(id);
        // The window of each stream is longer than a query.
        let written = stream.write_chunks(&mut [Bytes::from(octets)]);
        if written.is_ok_and(|written| written.chunks == 1) {
            let _ = stream.finish();
        } else {
            let _ = stream.reset(VarInt::from_u32(DoqError::Cancelled as u32));
        }
        Some(id.index())
    }

    /// Takes a datagram of the server.
    pub fn receive(&mut self, now: Instant, server: SocketAddr, octets: &[u8]) {
        self.buffer.clear();
        let Self { endpoint, connection, buffer, .. } = self;
        let event = endpoint.handle(now, server, None, None, BytesMut::from(octets), buffer);
        // A client sends no stateless reset.
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            connection.handle_event(event);
        }
        self.process();
    }

    /// Handles the timers that are due.
    pub fn fire(&mut self, now: Instant) {
        if self.next_deadline().is_some_and(|at| at <= now) {
            self.connection.handle_timeout(now);
            self.process();
        }
    }

    /// Returns when [`Self::fire`] is due.
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

    /// Returns why the connection has ended; `None` while it is open.
    pub fn ended(&self) -> Option<&ConnectionError> {
        self.ended.as_ref()
    }

    /// Ends the connection.
    pub fn close(&mut self, now: Instant) {
        self.connection.close(now, VarInt::from_u32(DoqError::None as u32), Bytes::new());
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
        if self.protocol == QuicProtocol::H3
            && let Some(id) = self.connection.streams().open(Dir::Uni)
        {
            let octets = Bytes::from(settings());
            let _ = self.connection.send_stream(id).write_chunks(&mut [octets]);
        }
    }

    fn process(&mut self) {
        self.pass_events();
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.begin(),
                Event::ConnectionLost { reason } => self.ended = Some(reason),
                // What the server says about the connection changes nothing for single queries.
                Event::Stream(StreamEvent::Readable { id }) if id.dir() == Dir::Bi => self.read(id),
                Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                    let _ = self.connection.send_stream(id).reset(error_code);
                }
                _ => {}
            }
        }
    }

    fn read(&mut self, id: StreamId) {
        let mut stream = self.connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        let protocol = self.protocol;
        let begin = || PartialReply::new(protocol);
        let reply = self.partial.entry(id.index()).or_insert_with(begin);
        let result = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    if reply.take(&chunk.bytes).is_err() {
                        break Some(Err(QuicError::Malformed));
                    }
                }
                Ok(None) => break Some(reply.end()),
                Err(ReadError::Blocked) => break None,
                Err(ReadError::Reset(code)) => break Some(Err(QuicError::NoReply(code.into()))),
            }
        };
        let _ = chunks.finalize();
        if let Some(result) = result {
            self.partial.remove(&id.index());
            self.replies.push_back(QuicReply { request: id.index(), result });
        }
    }
}

/// A reply that has begun to arrive.
enum PartialReply {
    Doq(DoqReply),
    H3(Box<H3Response>),
}

impl PartialReply {
    fn new(protocol: QuicProtocol) -> Self {
        match protocol {
            QuicProtocol::Doq => Self::Doq(DoqReply::default()),
            QuicProtocol::H3 => Self::H3(Box::default()),
        }
    }

    fn take(&mut self, octets: &[u8]) -> Result<(), QuicError> {
        match self {
            Self::Doq(reply) => reply.take(octets).map_err(|_| QuicError::Malformed),
            Self::H3(response) => response.take(octets).map_err(|_| QuicError::Malformed),
        }
    }

    fn end(&mut self) -> Result<Vec<u8>, QuicError> {
        match self {
            Self::Doq(reply) => reply.end().map_err(|_| QuicError::Malformed),
            Self::H3(response) => {
                response.end().map_err(|BadStatus(status)| QuicError::Status(status))
            }
        }
    }
}
