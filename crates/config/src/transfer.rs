//! The servers that may transfer a zone, and the servers that get NOTIFY.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use super::error::SettingError;
use super::name::{shown as shown_name, typed_name};
use super::setting::FromText;
use super::upstream::ServerAddress;

/// A client that asks for a transfer.
#[derive(Debug, Clone, Copy)]
pub struct TransferClient<'c> {
    /// The address of the client.
    pub ip: IpAddr,
    /// The name of the key that signs its request, in lower case and wire form.
    pub key: Option<&'c [u8]>,
    /// Whether the connection is encrypted.
    pub is_encrypted: bool,
}

/// An item of `allow-transfer`, with at least a network or a key. A request must match each part of
/// the item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferRule {
    /// The network of the client.
    network: Option<IpNet>,
    /// The name of the key that signs the request, in lower case and wire form.
    key: Option<Box<[u8]>>,
    /// Whether the connection must be encrypted (RFC 9103).
    needs_tls: bool,
}

impl TransferRule {
    /// Returns the name of the key that must sign the request, in lower case and wire form.
    #[must_use]
    pub fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    /// Returns whether the rule admits a client.
    #[must_use]
    pub fn admits(&self, client: &TransferClient<'_>) -> bool {
        let ip = client.ip.to_canonical();
        self.network.is_none_or(|network| network.contains(&ip))
            && self.key.as_deref().is_none_or(|needed| client.key == Some(needed))
            && (client.is_encrypted || !self.needs_tls)
    }
}

impl fmt::Display for TransferRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { network, key, needs_tls } = self;
        match (network, key) {
            (Some(network), None) => network.fmt(f),
            (Some(network), Some(key)) => write!(f, "{network} key {}", shown_name(key)),
            (None, key) => write!(f, "key {}", shown_name(key.as_deref().unwrap_or(&[0]))),
        }?;
        f.write_str(if *needs_tls { " tls" } else { "" })
    }
}

impl FromText for TransferRule {
    const EXPECTED: &'static str = "a network, \"key NAME\", or both, such as \"192.0.2.0/24 key \
         transfer\", and \"tls\" behind it if only TLS is permitted";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let mut words: Vec<_> = text.split_ascii_whitespace().collect();
        // After `key`, this word is the name of a key.
        let is_name = words.len() > 1 && words[words.len() - 2] == "key";
        let needs_tls = !is_name && words.pop_if(|word| *word == "tls").is_some();
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
        Ok(Self { network, key: key.map(|key| key.to_ascii_lowercase().into()), needs_tls })
    }
}

/// The treatment of ALIAS records in transfers of a zone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AliasTransfer {
    /// The transfer is refused: most servers would answer that the name has no address.
    #[default]
    Refuse,
    /// The transfer contains the ALIAS records, for a server that answers them itself.
    Literal,
    /// The published zone has the addresses of the targets in place of the ALIAS records.
    Addresses,
}

impl AliasTransfer {
    const NAMES: [(Self, &'static str); 3] =
        [(Self::Refuse, "refuse"), (Self::Literal, "literal"), (Self::Addresses, "addresses")];

    /// Returns the name in the configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.into_iter().find(|(one, _)| *one == self).map_or("", |(_, name)| name)
    }
}

impl FromText for AliasTransfer {
    const EXPECTED: &'static str = "\"refuse\", \"literal\" or \"addresses\"";
    const CHOICES: &'static [&'static str] = &["refuse", "literal", "addresses"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let found = Self::NAMES.into_iter().find(|(_, name)| *name == text);
        found.map(|(one, _)| one).ok_or(None)
    }
}

/// An item of `notify`: a server, and the key that signs the messages to and from it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NotifyTarget {
    /// The server.
    pub server: SocketAddr,
    /// The name of the key, in lower case and wire form.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_admit_clients_with_what_they_name() {
        let check = |rule: &str, key: Option<&[u8]>, is_encrypted: bool, expected: bool| {
            let client = TransferClient { ip: [192, 0, 2, 1].into(), key, is_encrypted };
            let rule = TransferRule::from_text(rule).unwrap();
            assert_eq!(rule.admits(&client), expected, "{rule} {client:?}");
            let shown = TransferRule::from_text(&rule.to_string()).unwrap();
            assert_eq!(shown, rule);
        };
        let key = Some(&b"\x01k\0"[..]);
        check("192.0.2.0/24", None, false, true);
        check("192.0.2.0/24 tls", None, false, false);
        check("192.0.2.0/24 tls", None, true, true);
        check("192.0.3.0/24 tls", None, true, false);
        check("key k tls", key, true, true);
        check("key k tls", key, false, false);
        check("key k tls", None, true, false);
        check("192.0.2.1 key k tls", key, true, true);
        // The item names a key with the name `tls`.
        check("key tls", Some(b"\x03tls\0"), false, true);
        check("key tls tls", Some(b"\x03tls\0"), false, false);
        for text in ["tls", "", "tls 192.0.2.1", "192.0.2.1 tls tls", "192.0.2.1 tls key k"] {
            assert!(TransferRule::from_text(text).is_err(), "{text}");
        }
    }
}
