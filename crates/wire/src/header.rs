//! The header of a message (RFC 1035 §4.1.1, RFC 4035 §3.1.6 for AD and CD).

use crate::code::{Opcode, Rcode};

/// Length of the header in octets.
pub const HEADER_LEN: usize = 12;

/// QR: the message is a response.
pub const QR: u16 = 0x8000;
/// AA: the answer is authoritative.
pub const AA: u16 = 0x0400;
/// TC: the message was truncated.
pub const TC: u16 = 0x0200;
/// RD: the client desires recursion.
pub const RD: u16 = 0x0100;
/// RA: recursion is available.
pub const RA: u16 = 0x0080;
/// Z: reserved, must be zero.
pub const Z: u16 = 0x0040;
/// AD: all data in the answer was validated.
pub const AD: u16 = 0x0020;
/// CD: the client disables validation.
pub const CD: u16 = 0x0010;

/// A decoded header.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// Message ID.
    pub id: u16,
    /// The sixteen bits that hold flags, OPCODE and RCODE.
    pub flags: u16,
    /// QDCOUNT, ANCOUNT, NSCOUNT and ARCOUNT as claimed by the sender.
    pub counts: [u16; 4],
}

impl Header {
    /// Reads the header. Returns `None` if the message is shorter than twelve octets.
    #[must_use]
    pub fn read(message: &[u8]) -> Option<Self> {
        let h: &[u8; HEADER_LEN] = message.first_chunk()?;
        let word = |at: usize| u16::from_be_bytes([h[at], h[at + 1]]);
        Some(Self { id: word(0), flags: word(2), counts: [word(4), word(6), word(8), word(10)] })
    }

    /// Writes the header over the first twelve octets.
    pub fn write(&self, out: &mut [u8; HEADER_LEN]) {
        let words =
            [self.id, self.flags, self.counts[0], self.counts[1], self.counts[2], self.counts[3]];
        for (pair, word) in out.chunks_exact_mut(2).zip(words) {
            pair.copy_from_slice(&word.to_be_bytes());
        }
    }

    /// Reports whether the given flag is set.
    #[must_use]
    pub const fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Returns the OPCODE.
    #[must_use]
    pub const fn opcode(&self) -> Opcode {
        Opcode(((self.flags >> 11) & 0xf) as u8)
    }

    /// Returns the low four bits of the RCODE.
    #[must_use]
    pub const fn rcode(&self) -> Rcode {
        Rcode(self.flags & 0xf)
    }
}
