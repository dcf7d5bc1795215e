//! Weaknesses that can be planted in the server of a simulation, to show that the simulation
//! detects them.

use avocet_wire::header::{AD, HEADER_LEN};
use avocet_wire::{Rcode, Rtype, name};

use super::attacker::FORGED;

/// A planted weakness.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Weakness {
    /// The resolver validates nothing.
    ValidatesNothing,
    /// The resolver sets AD in every answer.
    AlwaysAuthentic,
    /// The resolver never sets AD.
    NeverAuthentic,
    /// The resolver replaces the first address of each answer.
    ForgesAddresses,
    /// The resolver answers SERVFAIL to names with an even number of octets.
    FailsOften,
    /// The resolver raises TTLs.
    RaisesTtls,
    /// The resolver answers NXDOMAIN for each name without data.
    DeniesAll,
}

impl Weakness {
    /// All weaknesses.
    pub const ALL: [Self; 7] = [
        Self::ValidatesNothing,
        Self::AlwaysAuthentic,
        Self::NeverAuthentic,
        Self::ForgesAddresses,
        Self::FailsOften,
        Self::RaisesTtls,
        Self::DeniesAll,
    ];

    /// Corrupts an answer whose question has this many octets.
    pub(super) fn spoil(self, octets: &mut Vec<u8>, question_len: usize) {
        let end = HEADER_LEN + question_len;
        let has_answer = octets[6..8] != [0, 0];
        match self {
            Self::ValidatesNothing => {}
            Self::AlwaysAuthentic => octets[3] |= AD as u8,
            Self::NeverAuthentic => octets[3] &= !(AD as u8),
            Self::ForgesAddresses if has_answer => forge(octets, end),
            Self::FailsOften if question_len.is_multiple_of(2) => {
                octets.truncate(end);
                octets[3] = octets[3] & 0xf0 | Rcode::SERVFAIL.0 as u8;
                octets[6..HEADER_LEN].fill(0);
            }
            Self::RaisesTtls if has_answer => raise(octets, end),
            Self::DeniesAll if !has_answer => {
                octets[3] = octets[3] & 0xf0 | Rcode::NXDOMAIN.0 as u8
            }
            _ => {}
        }
    }
}

/// Returns the offset of the first record's fixed part: type, class, TTL, length of data.
fn fixed(octets: &[u8], at: usize) -> usize {
    name::skip(octets, at).expect("a record")
}

fn forge(octets: &mut [u8], at: usize) {
    let at = fixed(octets, at);
    if octets[at..at + 2] == Rtype::A.0.to_be_bytes() {
        octets[at + 10..at + 14].copy_from_slice(&FORGED);
    }
}

fn raise(octets: &mut [u8], at: usize) {
    let at = fixed(octets, at) + 4;
    octets[at] |= 1;
}
