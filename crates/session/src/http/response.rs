//! The header fields of a response in HTTP/2, without a dynamic table.

use super::form::{Media, REASON_TYPE, Status, decimal};
use super::hpack;

/// Names in the static table (RFC 7541 Appendix A).
const STATUS: u8 = 8;
const ALLOW: u8 = 22;
const CACHE_CONTROL: u8 = 24;
const CONTENT_LENGTH: u8 = 28;
const CONTENT_TYPE: u8 = 31;
/// `:status: 200` in the static table.
const OK: u8 = 0x88;

/// Number of seconds for which clients may use HTTP/3 without another announcement: the default of
/// RFC 7838.
const ALTERNATIVE_SECS: u32 = 86_400;

/// The content of a response, which determines its header fields.
#[derive(Clone, Copy)]
pub(super) struct Content<'c> {
    pub(super) media: &'c Media,
    /// The DNS message, which determines the freshness of the response.
    pub(super) message: &'c [u8],
    /// The number of octets of the body.
    pub(super) len: usize,
    /// The port of HTTP/3 to announce (RFC 9114 §3.1); 0 for none.
    pub(super) h3_port: u16,
}

impl Content<'_> {
    /// No content.
    pub(super) const NONE: Self = Self { media: &Media::Message, message: &[], len: 0, h3_port: 0 };
}

/// Appends the fields of the response to a request. With a status other than 200, the body explains
/// the status.
pub(super) fn write_fields(status: Status, content: Content<'_>, out: &mut Vec<u8>) {
    let Content { media, message, len, h3_port } = content;
    if status != Status::Ok {
        hpack::write(STATUS, status.digits().as_bytes(), out);
        if status == Status::BadMethod {
            hpack::write(ALLOW, b"GET, HEAD, POST", out);
        }
        if len > 0 {
            hpack::write(CONTENT_TYPE, REASON_TYPE, out);
        }
        return;
    }
    let mut digits = [0; 10];
    out.push(OK);
    hpack::write(CONTENT_TYPE, media.name(), out);
    hpack::write(CONTENT_LENGTH, decimal(len as u32, &mut digits), out);
    hpack::write(CACHE_CONTROL, media.freshness(message).write(&mut [0; 18]), out);
    if h3_port != 0 {
        hpack::write_named(b"alt-svc", alternative(h3_port).as_bytes(), out);
    }
}

/// Returns the value of `alt-svc` for HTTP/3 at the same host (RFC 7838 §3). It is written once for
/// each connection.
pub(super) fn alternative(h3_port: u16) -> String {
    format!("h3=\":{h3_port}\"; ma={ALTERNATIVE_SECS}")
}
