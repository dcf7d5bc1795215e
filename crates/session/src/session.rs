//! One connection with DNS messages in frames, plain or in TLS: the two ends of it.
//!
//! All messages that the peer pipelines take one read, and all that was pushed takes one write.

use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::{ClientConfig, Error, HandshakeKind, ServerConfig};

use crate::frame::{FrameReader, FrameWriter, ReadBuffer, ReadState, WriteState};
use crate::tls::{Side, Tls};

/// The connection of a client, seen by the server.
pub type ServerSession = Session<UnbufferedServerConnection>;
/// A connection to a server.
pub type ClientSession = Session<UnbufferedClientConnection>;

/// One end of a connection.
pub struct Session<S> {
    frames: FrameReader,
    /// Messages to send.
    messages: FrameWriter,
    tls: Option<Box<Tls<S>>>,
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

impl ClientSession {
    /// Creates the session of a connection to a server with this name in its certificate.
    ///
    /// # Errors
    /// The configuration cannot be used.
    pub fn connect(config: &Arc<ClientConfig>, name: ServerName<'static>) -> Result<Self, Error> {
        Ok(Self::over(UnbufferedClientConnection::new(config.clone(), name)?))
    }
}

impl<S: Side> Session<S> {
    /// Creates the session of a connection without TLS.
    pub const fn plain() -> Self {
        Self { frames: FrameReader::new(), messages: FrameWriter::new(), tls: None }
    }

    fn over(side: S) -> Self {
        Self { tls: Some(Box::new(Tls::new(side))), ..Self::plain() }
    }

    /// Reads once and passes each complete message to `deliver` until that breaks, together with
    /// what takes messages to send. Messages left from an earlier break are delivered first,
    /// without a read.
    ///
    /// # Errors
    /// Those of the stream, except for the absence of data; and those of TLS, after the alert was
    /// written.
    #[inline]
    pub fn read(
        &mut self,
        stream: &mut (impl Read + Write),
        buffer: &mut ReadBuffer,
        deliver: &mut impl FnMut(&[u8], &mut FrameWriter) -> ControlFlow<()>,
    ) -> io::Result<ReadState> {
        let Self { frames, messages, tls } = self;
        let deliver = &mut |message: &[u8]| deliver(message, messages);
        match tls {
            None => frames.read(stream, buffer, deliver),
            Some(tls) => {
                let result = tls.read(frames, (stream, buffer), deliver);
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
    /// Those of TLS.
    pub fn begin(&mut self) -> io::Result<()> {
        self.tls.as_mut().map_or(Ok(()), |tls| tls.begin())
    }

    /// Appends a message to send. One that is too long for a frame is left out.
    pub fn push(&mut self, message: &[u8]) {
        let _ = self.messages.push(message);
    }

    /// Writes what waits with one write, and keeps what the stream does not accept.
    ///
    /// # Errors
    /// Those of the stream, except that it accepts nothing now; and those of TLS.
    #[inline]
    pub fn write(&mut self, stream: &mut impl Write) -> io::Result<WriteState> {
        match &mut self.tls {
            None => self.messages.write(stream),
            Some(tls) => tls.write(&mut self.messages, stream),
        }
    }

    /// Ends the session: the peer learns that nothing follows.
    pub fn close(&mut self, stream: &mut impl Write) {
        if let Some(tls) = &mut self.tls {
            tls.close(stream);
        }
    }

    /// Reports whether nothing waits to be sent.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.tls.as_ref().is_none_or(|tls| tls.unsent() == 0)
    }

    /// Reports whether more than `limit` octets wait to be sent.
    pub fn is_over(&self, limit: usize) -> bool {
        let sealed = self.tls.as_ref().map_or(0, |tls| tls.unsent());
        self.messages.is_over(limit.saturating_sub(sealed))
    }

    /// Reports whether a part of a message or record has arrived.
    pub fn is_partial(&self) -> bool {
        self.frames.held() > 0 || self.tls.as_ref().is_some_and(|tls| tls.held() > 0)
    }

    /// Reports whether the stream is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Reports whether the handshake of TLS is incomplete.
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.state().is_handshaking())
    }

    /// Returns the form of the handshake, once it is complete.
    pub fn handshake(&self) -> Option<HandshakeKind> {
        self.tls.as_ref()?.state().handshake_kind()
    }

    /// Returns the TLS layer, if there is one.
    pub fn tls(&self) -> Option<&Tls<S>> {
        self.tls.as_deref()
    }
}
