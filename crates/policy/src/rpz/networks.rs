//! A map from prefixes, with a search for the longest match.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::trigger::{Network, mask};

/// Number of bits before the IPv4 address in an IPv4-mapped IPv6 address (RFC 4291 §2.5.5.2).
const V4_BITS: u8 = 96;

/// Prefixes, each with a number that the caller has assigned. A look-up takes one probe per prefix
/// length in use.
#[derive(Default)]
pub(super) struct Networks {
    by_prefix: HashMap<(u8, u128), u32>,
    /// Prefix lengths in use, the longest first.
    lengths: Vec<u8>,
}

impl Networks {
    /// Returns the number of a prefix.
    pub(super) fn number_of(&self, network: Network) -> Option<u32> {
        self.by_prefix.get(&(network.len, network.bits)).copied()
    }

    /// Assigns a number to a prefix.
    pub(super) fn add(&mut self, network: Network, number: u32) {
        if let Err(place) = self.lengths.binary_search_by(|known| network.len.cmp(known)) {
            self.lengths.insert(place, network.len);
        }
        self.by_prefix.insert((network.len, network.bits), number);
    }

    /// Returns length, bits and number of the longest matching prefix.
    pub(super) fn longest(&self, address: IpAddr) -> Option<(u8, u128, u32)> {
        // A short IPv6 prefix that covers the mapped addresses must not match IPv4.
        let (bits, least) = match address.to_canonical() {
            IpAddr::V4(v4) => (v4.to_ipv6_mapped().to_bits(), V4_BITS + 1),
            IpAddr::V6(v6) => (v6.to_bits(), 0),
        };
        self.lengths.iter().take_while(|len| **len >= least).find_map(|&len| {
            let prefix = bits & mask(len);
            self.by_prefix.get(&(len, prefix)).map(|number| (len, prefix, *number))
        })
    }

    /// Returns all prefixes.
    pub(super) fn prefixes(&self) -> impl Iterator<Item = IpNet> {
        self.by_prefix.keys().filter_map(|&(len, bits)| {
            let address = Ipv6Addr::from_bits(bits);
            match address.to_ipv4_mapped().filter(|_| len > V4_BITS) {
                Some(v4) => Ipv4Net::new(v4, len - V4_BITS).ok().map(IpNet::V4),
                None => Ipv6Net::new(address, len).ok().map(IpNet::V6),
            }
        })
    }
}
