//! The locations of clients, and the choice of addresses near them.

use std::net::IpAddr;

/// The clients to which an address of a pool is near.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberPlace {
    /// A network of clients.
    Network(PlaceNetwork),
    /// A country, as two upper-case letters.
    Country([u8; 2]),
    /// A continent, as two upper-case letters.
    Continent([u8; 2]),
}

/// A network of clients. An IPv4 network is stored as an IPv6 network: 96 bits precede its address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlaceNetwork {
    first: u128,
    prefix_len: u8,
}

/// Number of bits that precede an IPv4 address.
const BITS_BEFORE_V4: u8 = 96;

impl PlaceNetwork {
    /// Creates the network with this address and prefix length.
    #[must_use]
    pub fn new(address: IpAddr, prefix_len: u8) -> Self {
        let before = if address.is_ipv4() { BITS_BEFORE_V4 } else { 0 };
        let prefix_len = prefix_len.saturating_add(before).min(128);
        Self { first: bits(address) & mask(prefix_len), prefix_len }
    }

    fn contains(&self, address: IpAddr) -> bool {
        bits(address) & mask(self.prefix_len) == self.first
    }
}

/// Returns the bits of an address. An IPv4 address is mapped into IPv6 (RFC 4291 §2.5.5.2).
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_ipv6_mapped()),
        IpAddr::V6(address) => u128::from(address),
    }
}

fn mask(prefix_len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix_len)).unwrap_or(0)
}

/// The location of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientPlace {
    /// The address or network of the client.
    pub address: IpAddr,
    /// The country as a code of two letters, if it is known.
    pub country: Option<[u8; 2]>,
    /// The continent as a code of two letters, if it is known.
    pub continent: Option<[u8; 2]>,
}

/// Returns how near a client is to places; larger is nearer, and 0 is not near. Networks are nearer
/// than countries, countries nearer than continents, and longer prefixes nearer than shorter ones.
pub(super) fn nearness(places: &[MemberPlace], client: &ClientPlace) -> u8 {
    let of_one = |place: &MemberPlace| match *place {
        MemberPlace::Network(network) if network.contains(client.address) => {
            3 + network.prefix_len.min(128)
        }
        MemberPlace::Country(country) if client.country == Some(country) => 2,
        MemberPlace::Continent(continent) if client.continent == Some(continent) => 1,
        _ => 0,
    };
    places.iter().map(of_one).max().unwrap_or(0)
}
