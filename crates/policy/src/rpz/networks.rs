//! Prefixes, and the longest of them that an address is in.

use std::collections::HashMap;
use std::net::IpAddr;

use super::trigger::{Network, mask};

/// Prefixes with the number of what they stand for. A look-up costs one probe for each length in use.
#[derive(Default)]
pub(super) struct Networks {
    by_prefix: HashMap<(u8, u128), u32>,
    /// Lengths in use, the longest first.
    lengths: Vec<u8>,
}

impl Networks {
    /// The number of a prefix, given it now if it has none.
    pub(super) fn entry(&mut self, network: Network, number: u32) -> u32 {
        if let Err(place) = self.lengths.binary_search_by(|known| network.len.cmp(known)) {
            self.lengths.insert(place, network.len);
        }
        *self.by_prefix.entry((network.len, network.bits)).or_insert(number)
    }

    /// Length, bits and number of the longest prefix that the address is in.
    pub(super) fn longest(&self, address: IpAddr) -> Option<(u8, u128, u32)> {
        let bits = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        self.lengths.iter().find_map(|&len| {
            let prefix = bits & mask(len);
            self.by_prefix.get(&(len, prefix)).map(|number| (len, prefix, *number))
        })
    }

    /// Is there no prefix?
    pub(super) fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }
}
