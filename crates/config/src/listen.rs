//! An item of `listen`: an address with its protocol.

use std::collections::HashSet;
use std::net::SocketAddr;

use super::error::SettingError;
use super::setting::{FromText, address_with_port};

/// The port of DNS over TLS (RFC 7858 §3.1).
const TLS_PORT: u16 = 853;
/// The port of DNS over QUIC (RFC 9250 §4.1.1).
const QUIC_PORT: u16 = 853;
/// The port of HTTPS.
const HTTPS_PORT: u16 = 443;

/// The protocol that is served at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// DNS over UDP and TCP.
    Plain,
    /// DNS over TLS.
    Tls,
    /// DNS over HTTPS.
    Https,
    /// DNS over QUIC.
    Quic,
    /// DNS over HTTPS in HTTP/3, at the addresses of [`Self::Https`].
    H3,
}

impl Protocol {
    /// Returns how an address with this protocol begins in the file.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Tls => "tls://",
            Self::Https => "https://",
            Self::Quic => "quic://",
            Self::H3 => "h3://",
        }
    }

    /// Reports whether the protocol uses datagrams.
    pub const fn uses_datagrams(self) -> bool {
        matches!(self, Self::Plain) || self.uses_quic()
    }

    /// Reports whether the protocol uses QUIC.
    pub const fn uses_quic(self) -> bool {
        matches!(self, Self::Quic | Self::H3)
    }

    /// Reports whether the protocol uses connections of TCP.
    pub const fn uses_streams(self) -> bool {
        matches!(self, Self::Plain | Self::Tls | Self::Https)
    }
}

/// The UDP and TCP ports that the listeners use.
#[derive(Default)]
pub(super) struct TakenPorts {
    /// Whether HTTPS uses the UDP port too, for HTTP/3.
    pub(super) h3: bool,
    pub(super) datagrams: HashSet<SocketAddr>,
    pub(super) streams: HashSet<SocketAddr>,
}

impl TakenPorts {
    /// Takes the ports of an item of `listen`. Returns whether all of them were free.
    pub(super) fn take(&mut self, one: &Listen) -> bool {
        let Listen { protocol, address } = *one;
        let is_h3 = self.h3 && protocol == Protocol::Https;
        let datagrams = !(is_h3 || protocol.uses_datagrams()) || self.datagrams.insert(address);
        let streams = !protocol.uses_streams() || self.streams.insert(address);
        datagrams && streams
    }
}

/// An item of `listen`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Listen {
    /// The protocol that is served.
    pub protocol: Protocol,
    /// The address.
    pub address: SocketAddr,
}

impl FromText for Listen {
    const EXPECTED: &'static str = "an address with port, such as \"127.0.0.1:53\" or \
                                    \"[::1]:53\", or \"tls://127.0.0.1:853\" for TLS, \
                                    \"quic://127.0.0.1:853\" or \"https://127.0.0.1:443\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let (protocol, rest, usual) = match text.split_once("://") {
            None => (Protocol::Plain, text, 53),
            Some(("tls", rest)) => (Protocol::Tls, rest, TLS_PORT),
            Some(("https", rest)) => (Protocol::Https, rest, HTTPS_PORT),
            Some(("quic", rest)) => (Protocol::Quic, rest, QUIC_PORT),
            Some((scheme, _)) => {
                return Err(Some(SettingError::UnsupportedListener(scheme.to_owned())));
            }
        };
        Ok(Self { protocol, address: address_with_port(rest, usual)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(text: &str) -> Listen {
        Listen::from_text(text).unwrap_or_else(|_| panic!("{text} is an item"))
    }

    #[test]
    fn items_have_a_protocol_and_an_address() {
        for (text, protocol) in [
            ("127.0.0.1:5300", Protocol::Plain),
            ("tls://127.0.0.1:5300", Protocol::Tls),
            ("https://127.0.0.1:5300", Protocol::Https),
            ("quic://127.0.0.1:5300", Protocol::Quic),
        ] {
            let address = "127.0.0.1:5300".parse().unwrap();
            assert_eq!(listen(text), Listen { protocol, address });
        }
        for text in ["sctp://127.0.0.1:53", "quic://127.0.0.1", "quic://", "quic:127.0.0.1:53"] {
            assert!(Listen::from_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn protocols_of_udp_and_of_tcp_share_a_port() {
        let check = |items: &[&str], last_is_free: bool| {
            let mut taken = TakenPorts::default();
            let free: Vec<_> = items.iter().map(|text| taken.take(&listen(text))).collect();
            let (last, before) = free.split_last().unwrap();
            assert!(before.iter().all(|free| *free), "{items:?}");
            assert_eq!(*last, last_is_free, "{items:?}");
        };
        check(&["tls://127.0.0.1:853", "quic://127.0.0.1:853"], true);
        check(&["https://127.0.0.1:443", "tls://127.0.0.1:443"], false);
        check(&["quic://127.0.0.1:853", "quic://127.0.0.1:853"], false);
        check(&["127.0.0.1:853", "quic://127.0.0.1:853"], false);
        check(&["127.0.0.1:853", "quic://127.0.0.2:853"], true);
    }
}
