//! TLS without sockets (RFC 8446, RFC 5246): a connection of rustls that owns no buffer.
//!
//! Octets are decrypted in the shared read buffer, so an idle connection only holds its keys. Only
//! an incomplete record is kept until the next read.

use std::ops::{ControlFlow, DerefMut};
use std::sync::Arc;
use std::{io, mem};

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{default_provider, kx_group};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, ReadEarlyData, UnbufferedConnectionCommon,
    UnbufferedStatus, WriteTraffic,
};
use rustls::{CommonState, Error};

use crate::certificate;
use crate::early::answerable;
use crate::frame::{Outgoing, ReadBuffer, ReadBytes, ReadState, WriteState, read_once, trim};
use crate::proof::HandshakeFacts;

/// Maximum number of octets that a peer may send before the handshake is complete. A client without
/// certificate sends less than 4 KiB. A third of this is the key share of X25519MLKEM768.
pub const MAX_HANDSHAKE: usize = 32 << 10;
/// Number of octets that one record adds to its plaintext, in any version and cipher suite.
const RECORD_OVERHEAD: usize = 64;
/// Maximum number of octets of plaintext in a record.
const RECORD_MAX: usize = 1 << 14;

/// Returns the provider of cryptography for all TLS sessions: aws-lc-rs, with X25519MLKEM768 as
/// preferred key exchange.
pub fn provider() -> Arc<CryptoProvider> {
    let groups =
        vec![kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1];
    Arc::new(CryptoProvider { kx_groups: groups, ..default_provider() })
}

/// One end of a TLS connection: the client or the server.
pub trait Side: DerefMut<Target = UnbufferedConnectionCommon<Self::Data>> {
    /// The data of this side in rustls.
    type Data;

    /// Whether this is the server's end.
    const IS_SERVER: bool;

    /// Processes records up to the next state of the connection.
    fn process<'c, 'i>(&'c mut self, octets: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    /// Passes early data to `deliver`. Only a server receives early data.
    ///
    /// # Errors
    /// A record cannot be decrypted.
    fn read_early(
        early: ReadEarlyData<'_, '_, Self::Data>,
        deliver: &mut impl FnMut(&[u8]),
    ) -> Result<(), Error>;
}

impl Side for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    const IS_SERVER: bool = true;

    fn process<'c, 'i>(&'c mut self, octets: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(octets)
    }

    fn read_early(
        mut early: ReadEarlyData<'_, '_, Self::Data>,
        deliver: &mut impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        while let Some(record) = early.next_record() {
            deliver(record?.payload);
        }
        Ok(())
    }
}

impl Side for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    const IS_SERVER: bool = false;

    fn process<'c, 'i>(&'c mut self, octets: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(octets)
    }

    fn read_early(
        _early: ReadEarlyData<'_, '_, Self::Data>,
        _deliver: &mut impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        Ok(())
    }
}

/// A reader of the plaintext of a connection.
pub(crate) trait PlaintextReader {
    /// Reports whether received octets wait because delivery was stopped.
    fn is_stopped(&self) -> bool;
    /// Processes the octets that an earlier break has left.
    fn resume(&mut self) -> ControlFlow<()>;
    /// Processes octets, or keeps them after a stop.
    fn take(&mut self, octets: &[u8]) -> ControlFlow<()>;
    /// Reports whether the reader accepts no more octets.
    fn has_ended(&self) -> bool;
    /// Takes the facts about the client and its device from the TLS handshake, before any octets.
    fn greet(&mut self, _facts: Option<Arc<HandshakeFacts>>) {}
}

/// What to send when the connection can encrypt.
#[derive(Clone, Copy)]
enum Send<'p> {
    Nothing,
    Plaintext(&'p [u8]),
    CloseNotify,
}

/// The TLS layer of one connection.
pub struct Tls<S> {
    side: S,
    /// An incomplete record or handshake message.
    held: Vec<u8>,
    /// Encrypted records to send.
    sealed: Outgoing,
    /// Number of octets received before the handshake was complete.
    handshake_octets: usize,
    has_peer_closed: bool,
    /// Early data that waits for the end of the handshake, or for the rest of its message.
    early: Vec<u8>,
    /// Whether the client has sent early data, so that replies leave before the end of the
    /// handshake.
    is_early: bool,
    /// The device identifier in the requested server name.
    word: Option<Box<[u8]>>,
}

impl<S: Side> Tls<S> {
    /// Creates the layer at the start of a connection.
    pub fn new(side: S) -> Self {
        Self {
            side,
            held: Vec::new(),
            sealed: Outgoing::default(),
            handshake_octets: 0,
            has_peer_closed: false,
            early: Vec::new(),
            is_early: false,
            word: None,
        }
    }

    /// Returns the state that rustls keeps for the connection.
    pub fn state(&self) -> &CommonState {
        &self.side
    }

    /// Reads once, and passes the plaintext to `reader`.
    pub(crate) fn read(
        &mut self,
        reader: &mut impl PlaintextReader,
        (stream, buffer): (&mut impl io::Read, &mut ReadBuffer),
    ) -> io::Result<ReadState> {
        if reader.is_stopped() {
            let stopped = reader.resume().is_break();
            return Ok(if stopped { ReadState::Stopped } else { ReadState::More });
        }
        if self.has_peer_closed || reader.has_ended() {
            return Ok(ReadState::Closed);
        }
        let start = self.held.len();
        let Some((kept, room)) = buffer.bytes.split_at_mut_checked(start) else {
            return Err(invalid(Error::PeerSentOversizedRecord));
        };
        let (taken, state) = match read_once(stream, room)? {
            ReadBytes::Nothing(state) => return Ok(state),
            ReadBytes::Bytes(taken, state) => (taken, state),
        };
        kept.copy_from_slice(&self.held);
        let arrived = &mut buffer.bytes[..start + taken];
        let stopped = self.receive(arrived, taken, reader).map_err(invalid)?;
        Ok(match state {
            _ if stopped => ReadState::Stopped,
            _ if self.has_peer_closed || reader.has_ended() => ReadState::Closed,
            state => state,
        })
    }

    /// Takes the octets in `arrived`. The last `taken` octets are new, and those before them were
    /// held. Returns whether the reader has stopped.
    fn receive(
        &mut self,
        arrived: &mut [u8],
        taken: usize,
        reader: &mut impl PlaintextReader,
    ) -> Result<bool, Error> {
        let mut stopped = false;
        let consumed = if self.side.is_handshaking() {
            // Early data, and data that arrives right after the handshake, wait until the facts
            // about the client are known.
            let mut early = mem::take(&mut self.early);
            let consumed =
                self.drive(arrived, Send::Nothing, &mut |octets| early.extend_from_slice(octets));
            self.word = certificate::take_word().or(self.word.take());
            let consumed = consumed?;
            let is_complete = !self.side.is_handshaking();
            self.is_early |= S::IS_SERVER && !is_complete && !early.is_empty();
            if S::IS_SERVER && (is_complete || self.is_early) {
                let shown = self.side.peer_certificates().and_then(<[_]>::first);
                let version = self.side.protocol_version();
                reader.greet(HandshakeFacts::new(shown, self.word.clone(), version)?);
            }
            let ready = if is_complete { early.len() } else { answerable(&early) };
            if ready > 0 {
                stopped = reader.take(&early[..ready]).is_break();
                early.drain(..ready);
            }
            self.early = early;
            if is_complete {
                (self.early, self.word) = (Vec::new(), None);
            }
            consumed
        } else {
            let mut take = |octets: &[u8]| stopped |= reader.take(octets).is_break();
            self.drive(arrived, Send::Nothing, &mut take)?
        };
        // The first queries may be in the same octets as the end of the handshake.
        if self.side.is_handshaking() {
            self.handshake_octets += taken;
            if self.handshake_octets > MAX_HANDSHAKE {
                return Err(Error::General("the handshake is too long".to_owned()));
            }
        }
        self.held.clear();
        self.held.extend_from_slice(&arrived[consumed..]);
        trim(&mut self.held);
        Ok(stopped)
    }

    /// Encrypts `replies` and writes all records with one write. The replies wait until the
    /// handshake is complete, except for those to early data.
    pub(crate) fn write(
        &mut self,
        replies: &mut Outgoing,
        stream: &mut impl io::Write,
    ) -> io::Result<WriteState> {
        let may_send = |tls: &Self| tls.is_early || !tls.side.is_handshaking();
        if replies.len() > 0 && !may_send(self) {
            self.begin()?;
        }
        if replies.len() > 0 && may_send(self) {
            for part in replies.parts().into_iter().filter(|part| !part.is_empty()) {
                self.send(Send::Plaintext(part)).map_err(invalid)?;
            }
            replies.clear();
        }
        self.sealed.write(stream)
    }

    /// Lets a client send the first messages of its handshake.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        self.send(Send::Nothing).map_err(invalid)
    }

    /// Announces to the peer that no more data follows, if the stream accepts the announcement at
    /// once.
    pub(crate) fn close(&mut self, stream: &mut impl io::Write) {
        if !self.side.is_handshaking() && self.send(Send::CloseNotify).is_ok() {
            let _ = self.sealed.write(stream);
        }
    }

    /// Writes the alert for a peer that has made an error.
    pub(crate) fn write_alert(&mut self, stream: &mut impl io::Write) {
        let _ = self.sealed.write(stream);
    }

    /// Returns the number of octets of records that wait to be written.
    pub(crate) fn unsent(&self) -> usize {
        self.sealed.len()
    }

    /// Returns the number of octets of an incomplete record, and of early data that waits.
    pub(crate) fn held(&self) -> usize {
        self.held.len() + self.early.len()
    }

    /// Reports whether the client has sent early data that was accepted.
    pub(crate) fn is_early(&self) -> bool {
        self.is_early
    }

    fn send(&mut self, send: Send<'_>) -> Result<(), Error> {
        // The octets must stay where they are: rustls refers to parts of handshake messages by
        // position.
        let mut held = mem::take(&mut self.held);
        let consumed = self.drive(&mut held, send, &mut |_| {});
        held.drain(..*consumed.as_ref().unwrap_or(&0));
        self.held = held;
        consumed.map(|_| ())
    }

    /// Processes records until more octets are needed. Returns the number of processed octets.
    fn drive(
        &mut self,
        octets: &mut [u8],
        send: Send<'_>,
        deliver: &mut impl FnMut(&[u8]),
    ) -> Result<usize, Error> {
        let out = self.sealed.end();
        let mut used = 0;
        loop {
            let UnbufferedStatus { discard, state } = self.side.process(&mut octets[used..]);
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        deliver(record?.payload);
                    }
                }
                Ok(ConnectionState::ReadEarlyData(early)) => S::read_early(early, deliver)?,
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    append(out, 0, |room| match data.encode(room) {
                        Err(EncodeError::InsufficientSize(error)) => Err(error.required_size),
                        Ok(len) => Ok(len),
                        Err(EncodeError::AlreadyEncoded) => Ok(0),
                    });
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => self.has_peer_closed = true,
                Ok(ConnectionState::WriteTraffic(traffic)) => {
                    seal(traffic, send, out)?;
                    return Ok(used + discard);
                }
                Ok(_) => return Ok(used + discard),
                Err(error) => {
                    used += discard;
                    self.queue_alert(&mut octets[used..]);
                    return Err(error);
                }
            }
            used += discard;
        }
    }

    /// Queues the alert that follows from an error.
    fn queue_alert(&mut self, octets: &mut [u8]) {
        let out = self.sealed.end();
        if let Ok(ConnectionState::EncodeTlsData(mut data)) = self.side.process(octets).state {
            append(out, 0, |room| match data.encode(room) {
                Err(EncodeError::InsufficientSize(error)) => Err(error.required_size),
                result => Ok(result.unwrap_or(0)),
            });
        }
    }
}

fn invalid(error: Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

fn seal<D>(
    mut traffic: WriteTraffic<'_, D>,
    send: Send<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut exhausted = false;
    let mut sized = |result| match result {
        Ok(len) => Ok(len),
        Err(EncryptError::InsufficientSize(error)) => Err(error.required_size),
        Err(EncryptError::EncryptExhausted) => {
            exhausted = true;
            Ok(0)
        }
    };
    match send {
        Send::Nothing => {}
        Send::Plaintext(octets) => {
            let records = octets.len() / RECORD_MAX + 1;
            let room = octets.len() + records * RECORD_OVERHEAD;
            append(out, room, |room| sized(traffic.encrypt(octets, room)));
        }
        Send::CloseNotify => {
            append(out, RECORD_OVERHEAD, |room| sized(traffic.queue_close_notify(room)));
        }
    }
    if exhausted { Err(Error::EncryptError) } else { Ok(()) }
}

/// Appends the output of `write`. The closure `write` gets the room after `out`, and returns the
/// length of its output or the room that it needs.
fn append(
    out: &mut Vec<u8>,
    mut room: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, usize>,
) {
    let start = out.len();
    loop {
        out.resize(start + room, 0);
        match write(&mut out[start..]) {
            Ok(len) => {
                out.truncate(start + len);
                return;
            }
            Err(needed) => room = needed,
        }
    }
}
