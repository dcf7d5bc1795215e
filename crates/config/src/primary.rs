//! The primaries of a zone: the servers that the zone is transferred from, by TCP or TLS (RFC
//! 9103), and the proofs that those with TLS must provide.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use super::UpstreamTransport;
use super::error::SettingError;
use super::name::{shown as shown_name, typed_name};
use super::setting::FromText;
use super::upstream::ServerAddress;
use super::upstream_tls::{PeerName, UpstreamTls};

/// A server that a zone is transferred from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Primary {
    /// The address of the server.
    pub server: SocketAddr,
    /// The name in the certificate of the server; `None` for TCP without TLS.
    pub tls: Option<PeerName>,
    /// The name of the key that signs the messages of both sides, in lower case and wire form;
    /// `None` for the key of the zone.
    pub key: Option<Box<[u8]>>,
}

/// The primaries of a zone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Primaries {
    /// The servers in the order in which they are queried; empty if the zone is not transferred.
    pub servers: Vec<Primary>,
    /// The name of the key for primaries without their own key, in lower case and wire form.
    pub key: Option<Box<[u8]>>,
    /// Proofs that primaries with TLS must provide.
    pub tls: UpstreamTls,
}

impl Primaries {
    /// Returns the name of the key for a primary, in lower case and wire form.
    #[must_use]
    pub fn key_for<'a>(&'a self, primary: &'a Primary) -> Option<&'a [u8]> {
        primary.key.as_deref().or(self.key.as_deref())
    }

    /// Returns whether a NOTIFY comes from a primary: by its source address, or by its key.
    #[must_use]
    pub fn hear(&self, ip: IpAddr, key: Option<&[u8]>) -> bool {
        let ip = ip.to_canonical();
        let is_of_key = |one: &Primary| key.is_some() && self.key_for(one) == key;
        self.servers.iter().any(|one| one.server.ip() == ip || is_of_key(one))
    }

    /// Returns the first primary that has neither a key nor TLS: nothing proves its messages.
    /// Returns `None` if there is none.
    #[must_use]
    pub fn unproved(&self) -> Option<&Primary> {
        self.servers.iter().find(|one| one.tls.is_none() && self.key_for(one).is_none())
    }

    /// Returns whether a primary has TLS.
    #[must_use]
    pub fn have_tls(&self) -> bool {
        self.servers.iter().any(|one| one.tls.is_some())
    }
}

impl Primary {
    /// Returns the server as messages show it, without its key.
    #[must_use]
    pub fn shown(&self) -> String {
        match &self.tls {
            None => self.server.to_string(),
            Some(PeerName::Host(name)) => format!("tls://{name}@{}", self.server),
            Some(PeerName::Address(_)) => format!("tls://{}", self.server),
        }
    }
}

impl fmt::Display for Primary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())?;
        self.key.as_deref().map_or(Ok(()), |key| write!(f, " key {}", shown_name(key)))
    }
}

impl FromText for Primary {
    const EXPECTED: &'static str = "a server with or without port, or \"tls://NAME@ADDRESS\" for \
                                    TLS, and \"key NAME\" behind it for a key of its own, such as \
                                    \"tls://ns1.example@192.0.2.1 key transfer\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let words: Vec<_> = text.split_ascii_whitespace().collect();
        let (server, key) = match words[..] {
            [server] => (server, None),
            [server, "key", key] => (server, Some(key)),
            _ => return Err(None),
        };
        let key = key.map(|key| typed_name(key).map_err(|_| None)).transpose()?;
        let key = key.map(|key| key.to_ascii_lowercase().into());
        if !server.contains("://") {
            let ServerAddress(server) = ServerAddress::from_text(server)?;
            return Ok(Self { server, tls: None, key });
        }
        if !server.starts_with("tls://") {
            return Err(None);
        }
        let one = super::Upstream::from_text(server)?;
        let name = one.name.clone().unwrap_or_default();
        let server = one.addr.ok_or(Some(SettingError::NoAddressOfPrimary(name.to_string())))?;
        debug_assert_eq!(one.transport, UpstreamTransport::Tls);
        let tls = one.name.map_or(PeerName::Address(server.ip()), PeerName::Host);
        Ok(Self { server, tls: Some(tls), key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primaries_are_read_and_shown() {
        let check = |text: &str, expected: &str| {
            let shown = Primary::from_text(text).ok().map(|one| one.to_string());
            assert_eq!(shown.as_deref(), Some(expected), "{text}");
        };
        check("192.0.2.1", "192.0.2.1:53");
        check("[2001:db8::1]:5353 key K.Example", "[2001:db8::1]:5353 key k.example.");
        check("tls://ns.example@192.0.2.1", "tls://ns.example@192.0.2.1:853");
        check("tls://ns.example@192.0.2.1:8853 key k", "tls://ns.example@192.0.2.1:8853 key k.");
        check("tls://192.0.2.1", "tls://192.0.2.1:853");
        for text in [
            "",
            "ns.example",
            "192.0.2.1 key",
            "192.0.2.1 k",
            "tls://ns.example",
            "tls://*.example@192.0.2.1",
            "https://ns.example@192.0.2.1",
            "tcp://192.0.2.1",
            "udp://192.0.2.1",
            "tls://ns.example@192.0.2.1 tls",
        ] {
            assert!(Primary::from_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn notify_is_heard_from_addresses_and_keys_of_primaries() {
        let one = |text: &str| Primary::from_text(text).unwrap();
        let mut primaries = Primaries {
            servers: vec![one("192.0.2.1"), one("192.0.2.2 key own")],
            ..Primaries::default()
        };
        let check = |primaries: &Primaries, ip: [u8; 4], key: Option<&[u8]>, expected: bool| {
            assert_eq!(primaries.hear(IpAddr::from(ip), key), expected, "{ip:?} {key:?}");
        };
        check(&primaries, [192, 0, 2, 1], None, true);
        check(&primaries, [192, 0, 2, 9], None, false);
        check(&primaries, [192, 0, 2, 9], Some(b"\x03own\0"), true);
        check(&primaries, [192, 0, 2, 9], Some(b"\x03all\0"), false);
        primaries.key = Some(b"\x03all\0"[..].into());
        check(&primaries, [192, 0, 2, 9], Some(b"\x03all\0"), true);
    }
}
