//! Look-ahead: reads the questions of a batch of datagrams before the first is answered, and
//! prefetches the memory of their cache entries.

use std::net::IpAddr;

use avocet_cache::packet_flags;
use avocet_wire::QueryView;
use avocet_wire::header::HEADER_LEN;
use avocet_wire::query::QuestionKey;

use super::asked::{Entrance, Transport};
use super::context::{PROFILE, QueryContext, flags_of, packet_hash};
use crate::name_server::NameServer;

/// Offset of the octet with the DO bit in an OPT record.
const OPT_FLAGS: usize = 7;

/// The data that look-ahead has read in a datagram. It is used to prefetch cache lines.
#[derive(Clone, Copy)]
pub struct Seen {
    /// Key of the question; empty if the message is not a query with exactly one question.
    pub(super) key: QuestionKey,
    /// The client's profile.
    pub(super) profile: u16,
    /// The flags of the packet-cache key, if the OPT record directly follows the question;
    /// otherwise a guess.
    flags: u8,
}

impl Seen {
    /// The result without a datagram.
    pub const NOTHING: Self = Self { key: QuestionKey::EMPTY, profile: PROFILE, flags: 0 };

    /// Reads the question of a client's datagram and prefetches the bucket of its answer.
    #[inline]
    pub fn look(&mut self, cx: &QueryContext<'_>, octets: &[u8], ip: IpAddr, entrance: Entrance) {
        match QueryView::question_of(octets) {
            Some(question) => {
                self.key.read(question, &cx.shared.key, 0);
                cx.shared.packets.prefetch_index(self.key.hash);
                self.profile = cx.profile(ip, entrance, Transport::Udp);
                self.flags = likely_flags(octets, question);
            }
            None => self.key.clear(),
        }
    }

    /// Returns the folded question; empty if look-ahead read none.
    #[inline]
    pub fn question(&self) -> &[u8] {
        if self.key.is_empty() { &[] } else { self.key.question().octets() }
    }

    /// Prefetches the entry in the packet cache. If there is no entry, prefetches the memory that
    /// the next stage needs. The query path calls this function a few datagrams after
    /// [`Self::look`].
    #[inline]
    pub fn look_again(&self, shared: &NameServer) {
        let Self { key, profile, flags } = self;
        if !key.is_empty()
            && !shared.packets.prefetch_entry(packet_hash(key.hash, *profile, *flags))
        {
            shared.rrsets.prefetch(key.qname());
        }
    }
}

/// Returns the likely flags of a query's packet-cache key after reading only the question, as a
/// hint for prefetching. The OPT record usually follows the question directly.
#[inline]
fn likely_flags(octets: &[u8], question: &[u8]) -> u8 {
    let &[_, _, high, low, ..] = octets else { return 0 };
    let dnssec_ok =
        octets.get(HEADER_LEN + question.len() + OPT_FLAGS).is_some_and(|flags| flags & 0x80 != 0);
    flags_of(u16::from_be_bytes([high, low]), if dnssec_ok { packet_flags::DO } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::super::asked::{Asked, Reader};
    use super::super::context::key_flags;
    use super::*;

    #[test]
    fn the_flags_of_a_key_are_seen_before_the_query_is_read() {
        let question = b"\x03www\x07example\x00\x00\x01\x00\x01";
        for (high, low, dnssec_ok, expected) in [
            (1, 0, None, packet_flags::RD),
            (0, 0x10, Some(false), packet_flags::CD),
            (1, 0x10, Some(true), packet_flags::RD | packet_flags::CD | packet_flags::DO),
        ] {
            let mut octets =
                vec![0, 7, high, low, 0, 1, 0, 0, 0, 0, 0, u8::from(dnssec_ok.is_some())];
            octets.extend_from_slice(question);
            if let Some(dnssec_ok) = dnssec_ok {
                octets.extend_from_slice(&[
                    0,
                    0,
                    41,
                    4,
                    208,
                    0,
                    0,
                    u8::from(dnssec_ok) << 7,
                    0,
                    0,
                    0,
                ]);
            }
            assert_eq!(likely_flags(&octets, question), expected, "{octets:?}");
            let view = QueryView::parse(&octets).unwrap();
            let reader = Reader {
                ip: [127, 0, 0, 1].into(),
                max_udp_size: 1232,
                cookies: None,
                wall_secs: 0,
            };
            let asked = Asked::read(&view, Transport::Udp, || reader).unwrap();
            assert_eq!(key_flags(&asked), expected, "{octets:?}");
        }
    }
}
