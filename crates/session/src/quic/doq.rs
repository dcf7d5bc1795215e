//! One query of DNS over QUIC (RFC 9250): the octets of its stream.
//!
//! The client sends the length of its query and the query, and ends its side of the stream. The
//! response has the same form. Any fault of the client in these octets ends the connection.

use avocet_wire::edns::EdnsOption;
use avocet_wire::{MAX_MESSAGE, QueryView};

/// Number of octets of the length in front of a message.
pub const LENGTH_LEN: usize = 2;
/// Number of octets of the header of a message.
const HEADER_LEN: usize = 12;

/// The reason why a stream or a connection ends (RFC 9250 §4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DoqError {
    /// There is no error.
    None = 0,
    /// An internal error occurred at the sender of this code.
    Internal = 1,
    /// The peer violates the protocol.
    Protocol = 2,
    /// The client no longer needs the response.
    Cancelled = 3,
    /// The peer causes too much work or sends too much.
    ExcessiveLoad = 4,
    /// The query gets no response.
    Unspecified = 5,
}

/// The query of a stream, as far as it has arrived.
#[derive(Default, Debug)]
pub struct DoqQuery {
    octets: Vec<u8>,
}

/// A violation of RFC 9250 §4.2 or §5.5.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DoqViolation;

impl DoqQuery {
    /// Takes octets of the stream.
    ///
    /// # Errors
    /// The octets are more than one message.
    pub fn take(&mut self, octets: &[u8]) -> Result<(), DoqViolation> {
        if self.octets.is_empty() {
            // Most queries arrive in one piece, so no room for more is reserved.
            self.octets.reserve_exact(octets.len());
        }
        self.octets.extend_from_slice(octets);
        let announced = self.announced().unwrap_or(MAX_MESSAGE);
        if self.octets.len() > LENGTH_LEN + announced { Err(DoqViolation) } else { Ok(()) }
    }

    /// Returns the number of buffered octets.
    pub fn held(&self) -> usize {
        self.octets.len()
    }

    fn announced(&self) -> Option<usize> {
        let length = self.octets.first_chunk::<LENGTH_LEN>()?;
        Some(usize::from(u16::from_be_bytes(*length)))
    }

    /// Returns the query at the end of the stream.
    ///
    /// # Errors
    /// The message is incomplete or has no header, its ID is not zero, or it has an option of
    /// TCP (RFC 9250 §5.5.2).
    pub fn end(&self) -> Result<&[u8], DoqViolation> {
        query_of(&self.octets)
    }
}

/// Returns the query of a whole stream, as [`DoqQuery::end`] does.
///
/// # Errors
/// The errors of [`DoqQuery::end`].
pub fn query_of(stream: &[u8]) -> Result<&[u8], DoqViolation> {
    let (length, message) = stream.split_first_chunk::<LENGTH_LEN>().ok_or(DoqViolation)?;
    let is_whole = message.len() == usize::from(u16::from_be_bytes(*length));
    if !is_whole || message.len() < HEADER_LEN || message[..2] != [0, 0] {
        return Err(DoqViolation);
    }
    if has_keepalive(message) { Err(DoqViolation) } else { Ok(message) }
}

/// Reports whether a query has the option edns-tcp-keepalive. A query that cannot be read is
/// answered with FORMERR.
fn has_keepalive(message: &[u8]) -> bool {
    let Ok(view) = QueryView::parse(message) else { return false };
    let Some(edns) = view.edns else { return false };
    edns.options().any(|option| matches!(option, Ok(EdnsOption::TcpKeepalive(_))))
}

/// Returns a message after its length; `None` if it is longer than 65,535 octets.
pub fn framed(message: &[u8]) -> Option<Vec<u8>> {
    let length = u16::try_from(message.len()).ok()?;
    let mut octets = Vec::with_capacity(LENGTH_LEN + message.len());
    octets.extend_from_slice(&length.to_be_bytes());
    octets.extend_from_slice(message);
    Some(octets)
}

/// The response on a stream, as far as it has arrived.
#[derive(Default, Debug)]
pub struct DoqReply(DoqQuery);

impl DoqReply {
    /// Takes octets of the stream.
    ///
    /// # Errors
    /// The octets are more than one message.
    pub fn take(&mut self, octets: &[u8]) -> Result<(), DoqViolation> {
        self.0.take(octets)
    }

    /// Returns the number of buffered octets.
    pub fn held(&self) -> usize {
        self.0.held()
    }

    /// Returns the response at the end of the stream.
    ///
    /// # Errors
    /// The response is incomplete.
    pub fn end(&mut self) -> Result<Vec<u8>, DoqViolation> {
        let mut octets = std::mem::take(&mut self.0.octets);
        let length = octets.first_chunk::<LENGTH_LEN>().ok_or(DoqViolation)?;
        if octets.len() != LENGTH_LEN + usize::from(u16::from_be_bytes(*length)) {
            return Err(DoqViolation);
        }
        octets.drain(..LENGTH_LEN);
        Ok(octets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a query for `a. A` with these octets at its end.
    fn query(additional: &[u8]) -> Vec<u8> {
        let count = u8::from(!additional.is_empty());
        let header = [0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, count];
        [&header[..], b"\x01a\x00\x00\x01\x00\x01", additional].concat()
    }

    /// Returns an OPT record with an option of this code and without data.
    fn opt(code: u8) -> Vec<u8> {
        [&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 4][..], &[0, code, 0, 0]].concat()
    }

    fn in_pieces(octets: &[u8], size: usize) -> Result<Vec<u8>, DoqViolation> {
        let mut stream = DoqQuery::default();
        for piece in octets.chunks(size) {
            stream.take(piece)?;
        }
        stream.end().map(<[u8]>::to_vec)
    }

    #[test]
    fn a_query_is_the_same_in_any_pieces() {
        let message = query(&opt(3));
        let octets = framed(&message).unwrap();
        for size in 1..=octets.len() {
            assert_eq!(in_pieces(&octets, size).as_ref(), Ok(&message));
        }
        assert_eq!(query_of(&octets), Ok(message.as_slice()));
    }

    #[test]
    fn violations_are_found_whole_and_in_pieces() {
        let check = |octets: &[u8]| {
            assert_eq!(query_of(octets), Err(DoqViolation), "{octets:?}");
            for size in [1, 2, 3, 7, 100] {
                assert_eq!(in_pieces(octets, size), Err(DoqViolation), "{octets:?} by {size}");
            }
        };
        let good = framed(&query(&[])).unwrap();
        (0..good.len()).for_each(|len| check(&good[..len]));
        check(&[&good[..], &[0]].concat());
        check(&[&good[..], &good[..]].concat());
        for at in [2, 3] {
            let mut other_id = good.clone();
            other_id[at] = 1;
            check(&other_id);
        }
        check(&framed(&query(&opt(11))).unwrap());
        check(&framed(&[0; HEADER_LEN - 1]).unwrap());
    }

    #[test]
    fn a_stream_keeps_no_more_than_one_message() {
        let mut stream = DoqQuery::default();
        stream.take(&[0xff, 0xff]).unwrap();
        stream.take(&[0; MAX_MESSAGE]).unwrap();
        assert_eq!(stream.take(&[0]), Err(DoqViolation));
        assert_eq!(framed(&[0; MAX_MESSAGE + 1]), None);
    }

    #[test]
    fn a_response_is_one_message() {
        let read = |octets: &[u8]| {
            let mut reply = DoqReply::default();
            reply.take(octets).and_then(|()| reply.end())
        };
        assert_eq!(read(b"\x00\x03abc"), Ok(b"abc".to_vec()));
        for bad in [&b""[..], b"\x00", b"\x00\x03ab", b"\x00\x03abcd"] {
            assert_eq!(read(bad), Err(DoqViolation));
        }
    }
}
