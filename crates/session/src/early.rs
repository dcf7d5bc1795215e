//! Early data (RFC 8446 §2.3): queries of a resumed session that arrive before the end of the
//! handshake.
//!
//! An observer could send the early data of a client again. A session can be resumed only once, so
//! this server ignores a copy. As another server with the same certificate might not, only queries
//! that change nothing are answered early. All other messages wait for the end of the handshake
//! (RFC 9250 §4.5).

use avocet_wire::{QueryView, Rtype};

use crate::quic::doq::LENGTH_LEN;

/// Maximum number of octets of early data on a stream.
pub const MAX_EARLY: u32 = 8 << 10;

/// Reports whether a message may be answered before the end of the handshake: a query, but not for
/// the transfer of a zone.
pub(crate) fn may_answer(message: &[u8]) -> bool {
    let query = QueryView::parse(message);
    query.is_ok_and(|query| !matches!(query.qtype, Rtype::AXFR | Rtype::IXFR))
}

/// Returns the length of the complete messages at the start of a stream that may be answered before
/// the end of the handshake, with the length in front of each.
pub(crate) fn answerable(stream: &[u8]) -> usize {
    let mut rest = stream;
    while let Some((length, after)) = rest.split_first_chunk::<LENGTH_LEN>()
        && let Some((message, next)) = after.split_at_checked(u16::from_be_bytes(*length).into())
        && may_answer(message)
    {
        rest = next;
    }
    stream.len() - rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a message with its length, for `a.` with this opcode and QTYPE.
    fn framed(opcode: u8, qtype: u8) -> Vec<u8> {
        let header = [0, 19, 0, 0, opcode << 3, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        [&header[..], b"\x01a\0\0", &[qtype, 0, 1]].concat()
    }

    #[test]
    fn only_whole_queries_without_effect_are_answered_early() {
        let query = framed(0, 1);
        assert_eq!(answerable(&query), query.len());
        for len in 0..query.len() {
            assert_eq!(answerable(&query[..len]), 0);
            assert_eq!(answerable(&[&query[..], &query[..len]].concat()), query.len());
        }
        // NOTIFY, UPDATE, IXFR, AXFR, a response, and octets that are no message.
        let response = [&query[..4], &[0x80], &query[5..]].concat();
        let others = [framed(4, 6), framed(5, 6), framed(0, 251), framed(0, 252), response];
        for other in others.into_iter().chain([vec![0, 0], vec![0, 3, 1, 2, 3]]) {
            assert_eq!(answerable(&other), 0, "{other:?}");
            let between = [&query[..], &other, &query].concat();
            assert_eq!(answerable(&between), query.len(), "what follows waits, too");
        }
    }
}
