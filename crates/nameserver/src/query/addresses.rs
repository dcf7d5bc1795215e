//! A set of networks with fast tests for addresses.

use std::net::IpAddr;

use ipnet::IpNet;

/// Networks as sorted, disjoint ranges: one binary search per look-up.
#[derive(Clone, Debug, Default)]
pub struct AddressSet {
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl AddressSet {
    /// Creates the union of the networks.
    pub fn new(networks: &[IpNet]) -> Self {
        let mut v4 = Vec::new();
        let mut v6 = Vec::new();
        for network in networks {
            match network {
                IpNet::V4(net) => v4.push((net.network().to_bits(), net.broadcast().to_bits())),
                IpNet::V6(net) => v6.push((net.network().to_bits(), net.broadcast().to_bits())),
            }
        }
        Self { v4: merged(v4), v6: merged(v6) }
    }

    /// Returns whether an address is in one of the networks. An IPv4 address mapped to IPv6 counts
    /// as IPv4.
    #[inline]
    pub fn contains(&self, ip: IpAddr) -> bool {
        match ip.to_canonical() {
            IpAddr::V4(ip) => within(&self.v4, ip.to_bits()),
            IpAddr::V6(ip) => within(&self.v6, ip.to_bits()),
        }
    }
}

fn merged<T: Ord + Copy>(mut ranges: Vec<(T, T)>) -> Vec<(T, T)> {
    ranges.sort_unstable();
    let mut out: Vec<(T, T)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges {
        match out.last_mut() {
            Some(previous) if first <= previous.1 => previous.1 = previous.1.max(last),
            _ => out.push((first, last)),
        }
    }
    out
}

#[inline]
fn within<T: Ord + Copy>(ranges: &[(T, T)], value: T) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= value);
    after > 0 && value <= ranges[after - 1].1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn membership_equals_that_of_the_networks_one_by_one() {
        let networks: Vec<IpNet> = [
            "10.0.0.0/8",
            "10.1.0.0/16",
            "192.168.0.0/16",
            "127.0.0.1/32",
            "fc00::/7",
            "::1/128",
            "0.0.0.0/32",
        ]
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
        let set = AddressSet::new(&networks);
        for text in [
            "10.0.0.0",
            "10.255.255.255",
            "11.0.0.0",
            "9.255.255.255",
            "127.0.0.1",
            "127.0.0.2",
            "0.0.0.0",
            "192.168.3.4",
            "::1",
            "::2",
            "fc00::",
            "fdff::1",
            "fe00::",
            "255.255.255.255",
        ] {
            let ip: IpAddr = text.parse().unwrap();
            assert_eq!(set.contains(ip), networks.iter().any(|net| net.contains(&ip)), "{text}");
        }
        assert!(set.contains("::ffff:10.1.2.3".parse().unwrap()));
        assert!(!AddressSet::new(&[]).contains("127.0.0.1".parse().unwrap()));
    }
}
