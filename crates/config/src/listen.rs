//! An item of `listen`: an address with its protocol.

use std::net::SocketAddr;

use super::error::SettingError;
use super::setting::{FromText, address_with_port};

/// The port of DNS over TLS (RFC 7858 §3.1).
const TLS_PORT: u16 = 853;
/// The port of HTTPS.
const HTTPS_PORT: u16 = 443;

/// The protocol that is served at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// DNS over UDP and TCP.
    Plain,
    /// DNS over TLS.
    Tls,
    /// DNS over HTTPS.
    Https,
}

impl Protocol {
    /// Returns how an address with this protocol begins in the file.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Tls => "tls://",
            Self::Https => "https://",
        }
    }
}

/// An item of `listen`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Listen {
    /// What is served.
    pub protocol: Protocol,
    /// The address.
    pub address: SocketAddr,
}

impl FromText for Listen {
    const EXPECTED: &'static str = "an address with port, such as \"127.0.0.1:53\" or \"[::1]:53\", \
                                    or \"tls://127.0.0.1:853\" for TLS, or \"https://127.0.0.1:443\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let (protocol, rest, usual) = match text.split_once("://") {
            None => (Protocol::Plain, text, 53),
            Some(("tls", rest)) => (Protocol::Tls, rest, TLS_PORT),
            Some(("https", rest)) => (Protocol::Https, rest, HTTPS_PORT),
            Some((scheme, _)) => {
                return Err(Some(SettingError::UnsupportedListener(scheme.to_owned())));
            }
        };
        Ok(Self { protocol, address: address_with_port(rest, usual)? })
    }
}
