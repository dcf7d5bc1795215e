//! DNS over HTTPS (RFC 8484) without sockets: HTTP/1.1 and HTTP/2 for the server, HTTP/2 for the
//! client, and the octets of HTTP/3 for [`quic`](crate::quic).
//!
//! The first octets of a connection decide between HTTP/2, which begins with a fixed preface, and
//! HTTP/1.1. What both ends have agreed on in TLS does not matter.

mod alt_svc;
pub(crate) mod answer;
pub(crate) mod client;
pub(crate) mod form;
mod frames;
mod h1;
mod h2;
mod h2_stream;
pub(crate) mod h3;
pub(crate) mod h3_ask;
pub(crate) mod hpack;
mod huffman;
mod json;
pub(crate) mod qpack;
pub(crate) mod request;
mod response;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::frame::{FrameWriter, Outgoing, WriteState};
use crate::oblivious::{ObliviousFault, ProxyFault, ReplySeal};
use crate::proof::HandshakeFacts;
pub use alt_svc::AltSvc;
pub use client::{Http2Client, HttpFault, HttpMethod, HttpTarget};
pub use form::RequestContent;
use form::Status;
use h1::Http1;
use h2::Http2;
pub use h2_stream::HttpEnd;

/// Number of octets after which the preface of HTTP/2 is recognized.
const SIGN: &[u8] = b"PRI";

/// The receiver of the reply to one query.
pub struct Replies<'s> {
    place: ReplyPlace<'s>,
    content: RequestContent,
    /// The device identifier of the client in the path of the request, or the parameters of a query
    /// for another server.
    word: Option<&'s [u8]>,
    /// Facts about the client and its device from the TLS handshake.
    facts: Option<Arc<HandshakeFacts>>,
    /// Number of octets of earlier replies that are encrypted, but not sent yet.
    sealed: usize,
}

/// Where a reply goes.
enum ReplyPlace<'s> {
    /// The reply is sent with its length in front (RFC 7766).
    Frames(&'s mut FrameWriter),
    /// The reply is for the only waiting request of HTTP/1.1.
    One(&'s mut Http1),
    /// The reply goes to a stream of HTTP/2.
    Two(&'s mut Http2, u32),
}

impl<'s> Replies<'s> {
    #[inline]
    pub(crate) fn in_frames(writer: &'s mut FrameWriter) -> Self {
        Self::at(ReplyPlace::Frames(writer))
    }

    #[inline]
    fn at(place: ReplyPlace<'s>) -> Self {
        Self { place, content: RequestContent::Query, word: None, facts: None, sealed: 0 }
    }

    #[inline]
    fn named(self, word: Option<&'s [u8]>) -> Self {
        Self { word, ..self }
    }

    #[inline]
    fn of(self, content: RequestContent) -> Self {
        Self { content, ..self }
    }

    #[inline]
    pub(crate) fn after(self, facts: &Option<Arc<HandshakeFacts>>) -> Self {
        Self { facts: facts.clone(), ..self }
    }

    #[inline]
    pub(crate) fn set_facts(&mut self, facts: &Option<Arc<HandshakeFacts>>) {
        self.facts.clone_from(facts);
    }

    /// Returns the facts about the client and its device from the TLS handshake.
    #[inline]
    pub fn facts(&self) -> Option<&HandshakeFacts> {
        self.facts.as_deref()
    }

    /// Returns the device identifier of the client in the path of the request.
    #[inline]
    pub fn word(&self) -> Option<&[u8]> {
        self.word.filter(|_| self.content != RequestContent::Proxied)
    }

    /// Returns the parameters of a query for another server.
    pub fn parameters(&self) -> &'s [u8] {
        self.word.filter(|_| self.content == RequestContent::Proxied).unwrap_or_default()
    }

    /// Returns the content of the request.
    #[inline]
    pub fn content(&self) -> RequestContent {
        self.content
    }

    /// Sets the keys that seal the reply to an oblivious query.
    pub fn seal_with(&mut self, seal: ReplySeal) {
        let seal = Arc::new(seal);
        match &mut self.place {
            ReplyPlace::Frames(_) => {}
            ReplyPlace::One(http) => http.seal_with(seal),
            ReplyPlace::Two(http, id) => http.seal_with(*id, seal),
        }
    }

    /// Rejects an oblivious query, or a request for configurations. The client learns the reason.
    pub fn reject(&mut self, fault: ObliviousFault) {
        let status = match self.content {
            RequestContent::Configs => Status::NotFound,
            _ => Status::NotOpened(fault),
        };
        self.reject_with(status);
    }

    /// Rejects a query for another server.
    pub fn reject_proxied(&mut self, fault: ProxyFault) {
        self.reject_with(Status::of_proxy(fault));
    }

    fn reject_with(&mut self, status: Status) {
        match &mut self.place {
            ReplyPlace::Frames(_) => {}
            ReplyPlace::One(http) => http.reject(status),
            ReplyPlace::Two(http, id) => http.reject_delivered(*id, status),
        }
    }

    /// Adds octets that TLS has already encrypted to the number that [`Self::is_over`] compares.
    #[inline]
    pub(crate) fn count_sealed(&mut self, octets: usize) {
        self.sealed = octets;
    }

    /// Sends a reply. Drops a reply that is too long for a frame.
    #[inline]
    pub fn push(&mut self, message: &[u8]) {
        match &mut self.place {
            ReplyPlace::Frames(writer) => drop(writer.push(message)),
            ReplyPlace::One(http) => http.answer(message),
            ReplyPlace::Two(http, id) => http.answer(*id, message),
        }
    }

    /// Ends a request that gets no reply. Without HTTP, there is nothing to end.
    #[inline]
    pub fn refuse(&mut self) {
        match &mut self.place {
            ReplyPlace::Frames(_) => {}
            ReplyPlace::One(http) => http.refuse(),
            ReplyPlace::Two(http, id) => http.refuse(*id),
        }
    }

    /// Returns the ID of the request within its connection, for a reply that comes later.
    #[inline]
    pub fn request(&self) -> u32 {
        match &self.place {
            ReplyPlace::Frames(_) | ReplyPlace::One(_) => 0,
            ReplyPlace::Two(_, id) => *id,
        }
    }

    /// Reports whether more than `limit` octets wait to be sent.
    #[inline]
    pub fn is_over(&self, limit: usize) -> bool {
        let unsealed = match &self.place {
            ReplyPlace::Frames(writer) => writer.unsent(),
            ReplyPlace::One(http) => http.out.len(),
            ReplyPlace::Two(http, _) => http.out.len(),
        };
        self.sealed + unsealed > limit
    }
}

/// The server's end of a connection with DNS over HTTPS.
pub struct Http(Version, H3Port);

/// The port of HTTP/3 at the same host, which the first response announces; 0 for none.
type H3Port = u16;

enum Version {
    /// Too few octets have arrived to recognize the version.
    Unknown(Vec<u8>, Outgoing),
    One(Http1),
    Two(Http2),
}

impl Http {
    /// Creates the state at the start of a connection.
    pub const fn new() -> Self {
        Self::announcing(0)
    }

    /// Creates the state at the start of a connection. The first response announces the port of
    /// HTTP/3 (RFC 9114 §3.1); 0 announces none.
    pub const fn announcing(h3_port: u16) -> Self {
        Self(Version::Unknown(Vec::new(), Outgoing::new()), h3_port)
    }

    /// Reports whether received octets wait because delivery was stopped.
    pub fn is_stopped(&self) -> bool {
        match &self.0 {
            Version::Unknown(..) => false,
            Version::One(http) => http.is_stopped(),
            Version::Two(http) => http.is_stopped(),
        }
    }

    /// Reports whether a reply must be sent before more is read.
    pub(crate) fn must_wait(&self) -> bool {
        matches!(&self.0, Version::One(http) if http.must_wait())
    }

    /// Reports whether nothing more is read from the client.
    pub fn has_ended(&self) -> bool {
        match &self.0 {
            Version::Unknown(..) => false,
            Version::One(http) => http.has_ended(),
            Version::Two(http) => http.has_ended(),
        }
    }

    /// Reports whether the client has sent only a part of a request.
    pub(crate) fn is_partial(&self) -> bool {
        match &self.0 {
            Version::Unknown(held, _) => !held.is_empty(),
            Version::One(http) => http.is_partial(),
            Version::Two(http) => http.is_partial(),
        }
    }

    /// Returns the oldest request on which the server waits for the client; see
    /// [`Session::oldest_owed`].
    ///
    /// [`Session::oldest_owed`]: crate::session::Session::oldest_owed
    pub(crate) fn oldest_owed(&self) -> Option<u32> {
        match &self.0 {
            Version::Two(http) => http.oldest_owed(),
            Version::Unknown(..) | Version::One(_) => None,
        }
    }

    /// Returns the number of parts of responses that were sent; it wraps.
    pub(crate) fn replied(&self) -> u32 {
        match &self.0 {
            Version::Unknown(..) => 0,
            Version::One(http) => http.replied,
            Version::Two(http) => http.replied,
        }
    }

    /// Takes octets and delivers the queries that are complete. After a break, the rest is kept
    /// for [`Self::resume`].
    pub fn take(
        &mut self,
        octets: &[u8],
        deliver: &mut impl FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match &mut self.0 {
            Version::One(http) => http.take(octets, deliver),
            Version::Two(http) => http.take(octets, deliver),
            Version::Unknown(held, _) => {
                held.extend_from_slice(octets);
                if held.len() < SIGN.len() && SIGN.starts_with(held) {
                    return ControlFlow::Continue(());
                }
                let held = std::mem::take(held);
                let is_two = held.starts_with(SIGN);
                let h3_port = self.1;
                self.0 = if is_two {
                    Version::Two(Http2::announcing(h3_port))
                } else {
                    Version::One(Http1::announcing(h3_port))
                };
                self.take(&held, deliver)
            }
        }
    }

    /// Delivers the queries that an earlier break has left.
    pub fn resume(
        &mut self,
        deliver: &mut impl FnMut(&[u8], &mut Replies<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match &mut self.0 {
            Version::Unknown(..) => ControlFlow::Continue(()),
            Version::One(http) => http.resume(deliver),
            Version::Two(http) => http.resume(deliver),
        }
    }

    /// Returns the receiver of the reply to a request.
    pub(crate) fn replies(&mut self, request: u32) -> Option<Replies<'_>> {
        match &mut self.0 {
            Version::Unknown(..) => None,
            Version::One(http) => Some(Replies::at(ReplyPlace::One(http))),
            Version::Two(http) => Some(Replies::at(ReplyPlace::Two(http, request))),
        }
    }

    /// Returns the reason why the connection has ended, if a fault of the client has ended it.
    pub(crate) fn fault(&self) -> Option<HttpEnd> {
        match &self.0 {
            Version::Two(http) => http.fault(),
            Version::Unknown(..) | Version::One(_) => None,
        }
    }

    /// Announces the end of the connection. Requests that still arrive are answered.
    pub(crate) fn announce_end(&mut self) {
        match &mut self.0 {
            Version::Unknown(..) => {}
            Version::One(http) => http.announce_end(),
            Version::Two(http) => http.announce_end(),
        }
    }

    /// Ends the connection: the client learns which requests were processed.
    pub(crate) fn close(&mut self) {
        if let Version::Two(http) = &mut self.0 {
            http.close();
        }
    }

    /// Increases the budget of the client for frames without queries, because half a second has
    /// passed.
    pub(crate) fn refill(&mut self) {
        if let Version::Two(http) = &mut self.0 {
            http.refill();
        }
    }

    /// Returns the octets that wait to be sent.
    pub(crate) fn out(&mut self) -> &mut Outgoing {
        match &mut self.0 {
            Version::Unknown(_, out) => out,
            Version::One(http) => &mut http.out,
            Version::Two(http) => &mut http.out,
        }
    }

    /// Writes the waiting octets with one write, and keeps those that the stream does not accept.
    ///
    /// # Errors
    /// An error of the stream. A stream that accepts no data now is not an error.
    pub fn write(&mut self, stream: &mut impl Write) -> io::Result<WriteState> {
        self.out().write(stream)
    }

    /// Returns how many octets wait to be sent.
    pub fn unsent(&self) -> usize {
        match &self.0 {
            Version::Unknown(_, out) => out.len(),
            Version::One(http) => http.out.len(),
            Version::Two(http) => http.out.len(),
        }
    }
}

impl Default for Http {
    fn default() -> Self {
        Self::new()
    }
}
