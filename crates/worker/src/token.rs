//! The source of an event of the poller, packed into the 64 bits that an event carries.
//!
//! ```text
//! | kind 8 | number 24 | socket 32 |
//! ```

use avocet_resolver::{EndpointId, SocketId, SocketSlot};

/// The highest index of a listener or server.
const MAX_NUMBER: u32 = (1 << 24) - 1;

/// The source of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    /// The mailbox.
    Mailbox,
    /// Queries at the UDP listener with this index.
    Datagrams(u16),
    /// Connections at the TCP listener with this index.
    Accept(u16),
    /// The connection in this slot, from a proxy whose PROXY header has not arrived yet.
    Header(u32),
    /// The client connection in this slot.
    Stream(u32),
    /// Datagrams of QUIC at the listener with this index.
    Quic(u16),
    /// A socket or connection to a server.
    Server(SocketId),
}

impl Token {
    /// Packs the token into 64 bits.
    pub(crate) fn pack(self) -> u64 {
        let (kind, number, socket) = match self {
            Self::Mailbox => (0, 0, 0),
            Self::Datagrams(number) => (1, number.into(), 0),
            Self::Accept(number) => (2, number.into(), 0),
            Self::Stream(slot) => (3, 0, slot),
            Self::Quic(number) => (8, number.into(), 0),
            Self::Header(slot) => (9, 0, slot),
            Self::Server(SocketId { endpoint, slot }) => {
                let (kind, number) = match slot {
                    SocketSlot::Pooled(slot) => (4, u32::from(slot)),
                    SocketSlot::Single(number) => (5, number),
                    SocketSlot::Stream => (6, 0),
                    SocketSlot::SingleStream(number) => (7, number),
                };
                (kind, endpoint.0, number)
            }
        };
        // The identifiers of servers are indices. They fit into 24 bits, because a resolver has
        // fewer servers.
        kind << 56 | u64::from(number & MAX_NUMBER) << 32 | u64::from(socket)
    }

    /// Unpacks the result of [`Token::pack`].
    #[inline]
    pub(crate) fn unpack(token: u64) -> Self {
        let (number, socket) = ((token >> 32) as u32 & MAX_NUMBER, token as u32);
        let server = |slot| Self::Server(SocketId { endpoint: EndpointId(number), slot });
        match token >> 56 {
            1 => Self::Datagrams(number as u16),
            2 => Self::Accept(number as u16),
            3 => Self::Stream(socket),
            4 => server(SocketSlot::Pooled(socket as u16)),
            5 => server(SocketSlot::Single(socket)),
            6 => server(SocketSlot::Stream),
            7 => server(SocketSlot::SingleStream(socket)),
            8 => Self::Quic(number as u16),
            9 => Self::Header(socket),
            _ => Self::Mailbox,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_packing() {
        let server = |number, slot| Token::Server(SocketId { endpoint: EndpointId(number), slot });
        for token in [
            Token::Mailbox,
            Token::Datagrams(3),
            Token::Accept(u16::MAX),
            Token::Stream(u32::MAX),
            Token::Quic(u16::MAX),
            Token::Header(u32::MAX),
            server(u32::from(u16::MAX), SocketSlot::Pooled(4_095)),
            server(MAX_NUMBER, SocketSlot::Single(u32::MAX)),
            server(7, SocketSlot::Stream),
            server(9, SocketSlot::SingleStream(1)),
        ] {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
