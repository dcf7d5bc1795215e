//! One end of a connection with DNS messages: over TCP or TLS with a length in front of each
//! message, or over HTTP.
//!
//! One read takes all messages that the peer has pipelined, and one write sends all messages that
//! were pushed.

use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::{ClientConfig, Error, HandshakeKind, ServerConfig};

use crate::frame::{FrameReader, FrameWriter, ReadBuffer, ReadState, WriteState};
use crate::http::{AltSvc, Http, Http2Client, HttpEnd, HttpFault, HttpTarget, Replies};
use crate::proof::HandshakeFacts;
use crate::tls::{PlaintextReader, Side, Tls};

/// The connection of a client, seen by the server.
pub type ServerSession = Session<UnbufferedServerConnection>;
/// A connection to a server.
pub type ClientSession = Session<UnbufferedClientConnection>;

/// One end of a connection that carries DNS messages.
pub struct Session<S> {
    frames: FrameReader,
    /// Messages to send.
    messages: FrameWriter,
    tls: Option<Box<Tls<S>>>,
    /// The server's end of HTTP; `None` without HTTP.
    http: Option<Box<Http>>,
    /// Facts about the client and its device from the TLS handshake.
    facts: Option<Arc<HandshakeFacts>>,
    /// The client's end of HTTP.
    asking: Option<Box<Http2Client>>,
}

/// Reads messages with lengths from the plaintext.
struct Framed<'s, D> {
    frames: &'s mut FrameReader,
    messages: &'s mut FrameWriter,
    facts: &'s mut Option<Arc<HandshakeFacts>>,
    deliver: D,
}

/// Reads requests over HTTP from the plaintext.
struct InHttp<'s, D> {
    http: &'s mut Http,
    facts: &'s mut Option<Arc<HandshakeFacts>>,
    deliver: D,
}

/// Reads responses over HTTP from the plaintext.
struct Asking<'s, D> {
    asking: &'s mut Http2Client,
    messages: &'s mut FrameWriter,
    deliver: D,
}

impl<D: FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>> PlaintextReader for Asking<'_, D> {
    fn is_stopped(&self) -> bool {
        false
    }

    fn resume(&mut self) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// A client accepts all messages at once, because it has requested them.
    fn take(&mut self, octets: &[u8]) -> ControlFlow<()> {
        let Self { asking, messages, deliver } = self;
        asking.take(octets, &mut |message: &[u8]| {
            let _ = deliver(message, &mut Replies::in_frames(messages));
        });
        ControlFlow::Continue(())
    }

    fn has_ended(&self) -> bool {
        self.asking.has_ended()
    }
}

impl<D: FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>> PlaintextReader for Framed<'_, D> {
    fn is_stopped(&self) -> bool {
        self.frames.is_stopped()
    }

    fn resume(&mut self) -> ControlFlow<()> {
        let Self { frames, messages, facts, deliver } = self;
        frames.resume(&mut |message: &[u8]| {
            deliver(message, &mut Replies::in_frames(messages).after(facts))
        })
    }

    fn take(&mut self, octets: &[u8]) -> ControlFlow<()> {
        let Self { frames, messages, facts, deliver } = self;
        frames.take(octets, &mut |message: &[u8]| {
            deliver(message, &mut Replies::in_frames(messages).after(facts))
        })
    }

    fn greet(&mut self, facts: Option<Arc<HandshakeFacts>>) {
        *self.facts = facts;
    }

    fn has_ended(&self) -> bool {
        false
    }
}

impl<D: FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>> PlaintextReader for InHttp<'_, D> {
    fn is_stopped(&self) -> bool {
        self.http.is_stopped()
    }

    fn resume(&mut self) -> ControlFlow<()> {
        let Self { http, facts, deliver } = self;
        http.resume(&mut |message: &[u8], replies: &mut Replies<'_>| {
            replies.set_facts(facts);
            deliver(message, replies)
        })
    }

    fn take(&mut self, octets: &[u8]) -> ControlFlow<()> {
        let Self { http, facts, deliver } = self;
        http.take(octets, &mut |message: &[u8], replies: &mut Replies<'_>| {
            replies.set_facts(facts);
            deliver(message, replies)
        })
    }

    fn greet(&mut self, facts: Option<Arc<HandshakeFacts>>) {
        *self.facts = facts;
    }

    fn has_ended(&self) -> bool {
        self.http.has_ended()
    }
}

impl ServerSession {
    /// Creates the session of a connection that a client has opened for TLS.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn accept(config: &Arc<ServerConfig>) -> Result<Self, Error> {
        Ok(Self::over(UnbufferedServerConnection::new(config.clone())?))
    }
}

impl ServerSession {
    /// Creates the session of a connection that a client has opened for HTTPS. The first response
    /// announces the port `h3_port` of HTTP/3, if it is not 0.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn accept_https(config: &Arc<ServerConfig>, h3_port: u16) -> Result<Self, Error> {
        Ok(Self { http: Some(Box::new(Http::announcing(h3_port))), ..Self::accept(config)? })
    }
}

impl ClientSession {
    /// Creates the session of a connection to a server with this name in its certificate.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn connect(config: &Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, Error> {
        Ok(Self::over(UnbufferedClientConnection::new(config.clone(), name)?))
    }

    /// Creates the session of a connection to a server of DNS over HTTPS, in HTTP/2.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn connect_https(
        config: &Arc<ClientConfig>,
        name: ServerName<'static>,
        target: HttpTarget,
    ) -> Result<Self, Error> {
        let asking = Some(Box::new(Http2Client::new(target)));
        Ok(Self { asking, ..Self::connect(config, name)? })
    }

    /// Sends octets before all messages, encrypted if the connection uses TLS. Nothing may be
    /// written before this call.
    pub fn begin_with(&mut self, octets: &[u8]) {
        match &mut self.asking {
            Some(asking) => asking.out.begin_with(octets),
            None => self.messages.out().begin_with(octets),
        }
    }

    /// Takes the reason why a query over HTTP had no DNS message as response, or why the server has
    /// broken the rules of HTTP.
    pub fn take_http_failure(&mut self) -> Option<HttpFault> {
        self.asking.as_mut()?.take_failure()
    }

    /// Reports whether no further query can be sent, while responses are outstanding: the server
    /// has announced the end of the connection.
    pub fn is_draining(&self) -> bool {
        self.asking.as_ref().is_some_and(|asking| asking.is_draining())
    }

    /// Takes the queries that the server did not process before it announced the end of the
    /// connection.
    pub fn take_unprocessed(&mut self) -> Vec<Vec<u8>> {
        self.asking.as_mut().map_or_else(Vec::new, |asking| asking.take_unprocessed())
    }

    /// Reports whether a query to a server of DNS over HTTPS still waits for its response.
    pub fn is_owed(&self) -> bool {
        self.asking.as_ref().is_some_and(|asking| asking.is_owed())
    }

    /// Takes the announcement of HTTP/3 from a server of DNS over HTTPS.
    pub fn take_alternative(&mut self) -> Option<AltSvc> {
        self.asking.as_mut()?.take_alternative()
    }
}

impl<S: Side> Session<S> {
    /// Creates the session of a connection without TLS.
    pub const fn plain() -> Self {
        Self {
            frames: FrameReader::new(),
            messages: FrameWriter::new(),
            tls: None,
            http: None,
            facts: None,
            asking: None,
        }
    }

    fn over(side: S) -> Self {
        Self { tls: Some(Box::new(Tls::new(side))), ..Self::plain() }
    }

    /// Reads once and passes each complete message to `deliver`, together with the receiver of its
    /// replies, until `deliver` breaks. Messages left from an earlier break are delivered first,
    /// without a read.
    ///
    /// # Errors
    /// An error of the stream, except for the absence of data, or an error of TLS. After an error
    /// of TLS, the alert has been written.
    #[inline]
    pub fn read(
        &mut self,
        stream: &mut (impl Read + Write),
        buffer: &mut ReadBuffer,
        deliver: &mut impl FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>,
    ) -> io::Result<ReadState> {
        let Self { frames, messages, tls, http, facts, asking } = self;
        match tls {
            None => frames.read(stream, buffer, &mut |message: &[u8]| {
                deliver(message, &mut Replies::in_frames(messages))
            }),
            Some(tls) => {
                let sealed = tls.unsent();
                let deliver = &mut |message: &[u8], replies: &mut Replies<'_>| {
                    replies.count_sealed(sealed);
                    deliver(message, replies)
                };
                let read = (&mut *stream, buffer);
                let result = match (http, asking) {
                    (Some(http), _) => tls.read(&mut InHttp { http, facts, deliver }, read),
                    (None, Some(asking)) => {
                        tls.read(&mut Asking { asking, messages, deliver }, read)
                    }
                    (None, None) => {
                        tls.read(&mut Framed { frames, messages, facts, deliver }, read)
                    }
                };
                if result.is_err() {
                    tls.write_alert(stream);
                }
                result
            }
        }
    }

    /// Lets a client begin the handshake before there is a message to send.
    ///
    /// # Errors
    /// An error of TLS.
    pub fn begin(&mut self) -> io::Result<()> {
        self.tls.as_mut().map_or(Ok(()), |tls| tls.begin())
    }

    /// Appends a message to send. Drops a message that is too long for a frame.
    pub fn push(&mut self, message: &[u8]) {
        match &mut self.asking {
            Some(asking) => asking.push(message),
            None => drop(self.messages.push(message)),
        }
    }

    /// Sends the reply to an earlier request, or ends the request if `message` is empty. Only HTTP
    /// distinguishes requests.
    pub fn push_late(&mut self, request: u32, message: &[u8]) {
        let Some(http) = &mut self.http else {
            if !message.is_empty() {
                self.push(message);
            }
            return;
        };
        let Some(mut replies) = http.replies(request) else { return };
        if message.is_empty() { replies.refuse() } else { replies.push(message) }
    }

    /// Reports whether an earlier request must get its reply before more can be read.
    #[inline]
    pub fn must_wait(&self) -> bool {
        self.http.as_ref().is_some_and(|http| http.must_wait())
    }

    /// Increases the budget of the peer for data without queries, because about half a second has
    /// passed.
    pub fn refill(&mut self) {
        if let Some(http) = &mut self.http {
            http.refill();
        }
        if let Some(asking) = &mut self.asking {
            asking.refill();
        }
    }

    /// Writes the waiting octets with one write, and keeps those that the stream does not accept.
    ///
    /// # Errors
    /// An error of the stream, unless it only accepts no data now, or an error of TLS.
    #[inline]
    pub fn write(&mut self, stream: &mut impl Write) -> io::Result<WriteState> {
        match &mut self.tls {
            None => self.messages.write(stream),
            Some(tls) => {
                let out = match (&mut self.http, &mut self.asking) {
                    (Some(http), _) => http.out(),
                    (None, Some(asking)) => &mut asking.out,
                    (None, None) => self.messages.out(),
                };
                tls.write(out, stream)
            }
        }
    }

    /// Tells a client of HTTP that the connection ends soon, so that it sends further queries over
    /// another connection. Queries that arrive meanwhile are answered. DNS over TLS has no such
    /// message.
    pub fn announce_end(&mut self) {
        if let Some(http) = &mut self.http {
            http.announce_end();
        }
    }

    /// Ends the session, and tells the peer that no more data follows.
    pub fn close(&mut self, stream: &mut impl Write) {
        let Some(tls) = &mut self.tls else { return };
        if let Some(http) = &mut self.http {
            http.close();
            let _ = tls.write(http.out(), stream);
        }
        if let Some(asking) = &mut self.asking {
            asking.close();
            let _ = tls.write(&mut asking.out, stream);
        }
        tls.close(stream);
    }

    /// Reports whether nothing waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.unsent() == 0
    }

    /// Returns how many octets wait to be sent, in any layer.
    pub fn unsent(&self) -> usize {
        self.messages.unsent()
            + self.tls.as_ref().map_or(0, |tls| tls.unsent())
            + self.http.as_ref().map_or(0, |http| http.unsent())
            + self.asking.as_ref().map_or(0, |asking| asking.unsent())
    }

    /// Reports whether more than `limit` octets wait to be sent.
    pub fn is_over(&self, limit: usize) -> bool {
        self.unsent() > limit
    }

    /// Reports whether a part of a message or record has arrived.
    pub fn is_partial(&self) -> bool {
        self.frames.held() > 0
            || self.tls.as_ref().is_some_and(|tls| tls.held() > 0)
            || self.http.as_ref().is_some_and(|http| http.is_partial())
            || self.asking.as_ref().is_some_and(|asking| asking.is_partial())
    }

    /// Returns the oldest request on which the server waits for the client while other requests
    /// continue: for the rest of the body, or until the client reads the response. Only HTTP/2 has
    /// such requests.
    pub fn oldest_owed(&self) -> Option<u32> {
        self.http.as_ref()?.oldest_owed()
    }

    /// Returns a counter that changes whenever a message or a part of a message is passed to the
    /// transport, but not when the transport sends data of its own, such as settings.
    pub fn replied(&self) -> u32 {
        self.http.as_ref().map_or(self.messages.pushed(), |http| http.replied())
    }

    /// Reports whether nothing more is read from the peer.
    pub fn has_ended(&self) -> bool {
        self.http.as_ref().is_some_and(|http| http.has_ended())
            || self.asking.as_ref().is_some_and(|asking| asking.has_ended())
    }

    /// Reports whether the stream is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Reports whether messages are in HTTP.
    pub fn is_http(&self) -> bool {
        self.http.is_some()
    }

    /// Returns the reason why HTTP has ended the connection, if a fault of the client has ended it.
    pub fn http_fault(&self) -> Option<HttpEnd> {
        self.http.as_ref()?.fault()
    }

    /// Reports whether the handshake of TLS is incomplete.
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.state().is_handshaking())
    }

    /// Returns the kind of the handshake, once it is complete.
    pub fn handshake(&self) -> Option<HandshakeKind> {
        self.tls.as_ref()?.state().handshake_kind()
    }

    /// Reports whether the client has sent early data that was accepted.
    pub fn is_early(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_early())
    }

    /// Returns the TLS layer, if there is one.
    pub fn tls(&self) -> Option<&Tls<S>> {
        self.tls.as_deref()
    }
}
