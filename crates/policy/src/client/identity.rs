//! The identifiers of clients.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use super::DeviceKey;
use crate::NotAnId;

/// A MAC address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Mac(pub [u8; 6]);

impl FromStr for Mac {
    type Err = ();

    /// Parses six octets in hexadecimal, separated by colons or hyphens.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut octets = [0; 6];
        let mut parts = text.split([':', '-']);
        for octet in &mut octets {
            let part = parts.next().filter(|part| matches!(part.len(), 1 | 2)).ok_or(())?;
            *octet = u8::from_str_radix(part, 16).map_err(|_| ())?;
        }
        match parts.next() {
            None => Ok(Self(octets)),
            Some(_) => Err(()),
        }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// An identifier of a client.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Id {
    /// An address.
    Address(IpAddr),
    /// A network.
    Prefix(IpNet),
    /// A MAC address, which identifies a device regardless of its IP address.
    Mac(Mac),
    /// A host name in lower case, without the final dot.
    Name(String),
    /// An identity that the device of the client sends or proves, at any address.
    Device(DeviceKey),
}

impl FromStr for Id {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Address(super::canonical(address)));
        }
        if let Ok(network) = text.parse::<IpNet>() {
            return Ok(Self::Prefix(network.trunc()));
        }
        if let Ok(mac) = text.parse() {
            return Ok(Self::Mac(mac));
        }
        match DeviceKey::read(text) {
            Some(device) => device.map(Self::Device).ok_or(NotAnId),
            None => host_name(text).map(Self::Name).ok_or(NotAnId),
        }
    }
}

/// Normalises a host name for comparison: lower case, without the final dot.
pub(super) fn host_name(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        let octets = label
            .bytes()
            .all(|octet| octet.is_ascii_alphanumeric() || octet == b'-' || octet == b'_');
        octets && (1..=63).contains(&label.len())
    };
    // A name with a numeric last label is a mistyped address.
    let last = name.rsplit('.').next().unwrap_or(name);
    let is_number = last.bytes().all(|octet| octet.is_ascii_digit());
    (name.split('.').all(is_label) && !is_number && name.len() <= 253)
        .then(|| name.to_ascii_lowercase())
}

/// Information about an address from the neighbour table, DHCP leases and PTR records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Neighbour {
    /// The address, IPv4 or IPv6.
    pub address: IpAddr,
    /// The MAC address of the device.
    pub mac: Option<Mac>,
    /// The host name.
    pub name: Option<String>,
}

/// The client that an address belongs to, with everything known about it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Identity {
    /// The name of the configured client.
    pub client: Option<String>,
    /// The configured name, or else the learned name.
    pub name: Option<String>,
    /// The known MAC addresses of the device.
    pub macs: Vec<Mac>,
    /// The names of the groups of the client.
    pub groups: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_apart() {
        let id = |text: &str| text.parse::<Id>();
        assert_eq!(id("192.0.2.1"), Ok(Id::Address("192.0.2.1".parse().unwrap())));
        assert_eq!(id("::ffff:192.0.2.1"), Ok(Id::Address("192.0.2.1".parse().unwrap())));
        assert_eq!(id("192.0.2.9/24"), Ok(Id::Prefix("192.0.2.0/24".parse().unwrap())));
        assert_eq!(id("2001:db8::/32"), Ok(Id::Prefix("2001:db8::/32".parse().unwrap())));
        let mac = Id::Mac(Mac([2, 0, 0, 0xab, 0xcd, 0xef]));
        assert_eq!((id("02:00:00:AB:cd:ef"), id("2-0-0-ab-cd-ef")), (Ok(mac.clone()), Ok(mac)));
        assert_eq!(id("Laptop.lan."), Ok(Id::Name("laptop.lan".to_owned())));
        for text in ["", "192.0.2.300", "10.0.0.0/33", "a b", "a..b"] {
            assert!(id(text).is_err(), "{text}");
        }
    }
}
