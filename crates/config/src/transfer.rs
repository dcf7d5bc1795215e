//! Which servers may transfer a zone, and which get NOTIFY.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::error::SettingError;
use super::name::{shown as shown_name, typed_name};
use super::setting::FromText;
use super::upstream::ServerAddress;

/// An item of `allow-transfer`: what is given must match, and one of both is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferRule {
    /// The network of the client.
    network: Option<IpNet>,
    /// The folded name of the key that signs the request, in wire form.
    key: Option<Box<[u8]>>,
}

impl TransferRule {
    /// Returns the folded name of the key that must sign the request, in wire form.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    /// Returns whether the rule admits a client with this address and, if its request is signed,
    /// this key.
    #[must_use]
    pub fn admits(&self, ip: IpAddr, key: Option<&[u8]>) -> bool {
        let ip = ip.to_canonical();
        self.network.is_none_or(|network| network.contains(&ip))
            && self.key.as_deref().is_none_or(|needed| key == Some(needed))
    }
}

impl fmt::Display for TransferRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { network, key } = self;
        match (network, key) {
            (Some(network), None) => network.fmt(f),
            (Some(network), Some(key)) => write!(f, "{network} key {}", shown_name(key)),
            (None, key) => write!(f, "key {}", shown_name(key.as_deref().unwrap_or(&[0]))),
        }
    }
}

impl FromText for TransferRule {
    const EXPECTED: &'static str =
        "a network, \"key NAME\", or both, such as \"192.0.2.0/24 key transfer\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let words: Vec<_> = text.split_ascii_whitespace().collect();
        let (network, key) = match words[..] {
            [network] => (Some(network), None),
            ["key", key] => (None, Some(key)),
            [network, "key", key] => (Some(network), Some(key)),
            _ => return Err(None),
        };
        let net = |text: &str| {
            let address = || text.parse().ok().map(|ip: IpAddr| IpNet::from(ip));
            text.parse().ok().or_else(address).ok_or(None)
        };
        let network = network.map(net).transpose()?;
        let key = key.map(|key| typed_name(key).map_err(|_| None)).transpose()?;
        Ok(Self { network, key: key.map(|key| key.to_ascii_lowercase().into()) })
    }
}

/// An item of `notify`: a server, and the key that signs the messages to and from it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotifyTarget {
    /// The server.
    pub server: SocketAddr,
    /// The folded name of the key, in wire form.
    pub key: Option<Box<[u8]>>,
}

impl fmt::Display for NotifyTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{} key {}", self.server, shown_name(key)),
            None => self.server.fmt(f),
        }
    }
}

impl FromText for NotifyTarget {
    const EXPECTED: &'static str = "a server with or without port, and \"key NAME\" behind it if \
                                    the messages are signed, such as \"192.0.2.53 key transfer\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let words: Vec<_> = text.split_ascii_whitespace().collect();
        let (server, key) = match words[..] {
            [server] => (server, None),
            [server, "key", key] => (server, Some(key)),
            _ => return Err(None),
        };
        let ServerAddress(server) = ServerAddress::from_text(server)?;
        let key = key.map(|key| typed_name(key).map_err(|_| None)).transpose()?;
        Ok(Self { server, key: key.map(|key| key.to_ascii_lowercase().into()) })
    }
}
