//! What an event of the poller is about, packed into its 64 bits.
//!
//! ```text
//! | kind 8 | number 24 | socket 32 |
//! ```

/// The source of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    /// Letters of other workers.
    Mailbox,
    /// Queries at the UDP listener of this number.
    Datagrams(u16),
    /// Connections at the TCP listener of this number.
    Accept(u16),
    /// A client's connection in this slot.
    Stream(u32),
    /// A UDP socket of an upstream.
    UpstreamSocket(u16, u32),
    /// The TCP connection of an upstream.
    UpstreamStream(u16),
    /// The UDP socket of a query to an authoritative server.
    AuthoritySocket(u32),
    /// The TCP connection of a query to an authoritative server.
    AuthorityStream(u32),
}

impl Token {
    /// Packs it.
    pub(crate) fn pack(self) -> u64 {
        let (kind, number, socket) = match self {
            Self::Mailbox => (0, 0, 0),
            Self::Datagrams(number) => (1, number, 0),
            Self::Accept(number) => (2, number, 0),
            Self::Stream(slot) => (3, 0, slot),
            Self::UpstreamSocket(upstream, socket) => (4, upstream, socket),
            Self::UpstreamStream(upstream) => (5, upstream, 0),
            Self::AuthoritySocket(socket) => (6, 0, socket),
            Self::AuthorityStream(stream) => (7, 0, stream),
        };
        kind << 56 | u64::from(number) << 32 | u64::from(socket)
    }

    /// Unpacks what [`Token::pack`] made.
    #[inline]
    pub(crate) fn unpack(token: u64) -> Self {
        let (number, socket) = ((token >> 32) as u16, token as u32);
        match token >> 56 {
            1 => Self::Datagrams(number),
            2 => Self::Accept(number),
            3 => Self::Stream(socket),
            4 => Self::UpstreamSocket(number, socket),
            5 => Self::UpstreamStream(number),
            6 => Self::AuthoritySocket(socket),
            7 => Self::AuthorityStream(socket),
            _ => Self::Mailbox,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_packing() {
        for token in [
            Token::Mailbox,
            Token::Datagrams(3),
            Token::Accept(u16::MAX),
            Token::Stream(u32::MAX),
            Token::UpstreamSocket(u16::MAX, u32::MAX),
            Token::UpstreamStream(7),
            Token::AuthoritySocket(u32::MAX),
            Token::AuthorityStream(9),
        ] {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
