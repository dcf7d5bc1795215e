//! The networks by which a search selects clients.

use std::net::IpAddr;

/// A network whose clients a search selects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientNetwork {
    bits: u128,
    prefix: u8,
    is_v4: bool,
}

impl ClientNetwork {
    /// Creates the network of an address with this prefix length. The bits after the prefix are
    /// ignored. Returns `None` if the prefix is longer than the address.
    pub fn new(ip: IpAddr, prefix: u8) -> Option<Self> {
        let (bits, width, is_v4) = match ip {
            IpAddr::V4(ip) => (u128::from(u32::from(ip)) << 96, 32, true),
            IpAddr::V6(ip) => (u128::from(ip), 128, false),
        };
        (prefix <= width).then(|| Self { bits: bits & mask(prefix), prefix, is_v4 })
    }

    /// Reports whether a client of a log entry is in the network. The log may name the client by
    /// its address or by a network.
    pub fn includes(&self, client: &str) -> bool {
        let (ip, prefix) = client.split_once('/').unwrap_or((client, ""));
        let Ok(ip) = ip.parse::<IpAddr>() else { return false };
        let whole = if ip.is_ipv4() { 32 } else { 128 };
        let prefix = if prefix.is_empty() { Ok(whole) } else { prefix.parse() };
        let Some(other) = prefix.ok().and_then(|prefix| Self::new(ip, prefix)) else {
            return false;
        };
        other.is_v4 == self.is_v4
            && other.prefix >= self.prefix
            && other.bits & mask(self.prefix) == self.bits
    }
}

/// Returns the mask with `prefix` leading ones.
fn mask(prefix: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_includes_its_addresses_and_smaller_networks() {
        let check = |network: (&str, u8), client: &str, expected: bool| {
            let (ip, prefix) = network;
            let network = ClientNetwork::new(ip.parse().unwrap(), prefix).unwrap();
            assert_eq!(network.includes(client), expected, "{client} in {ip}/{prefix}");
        };
        check(("127.0.0.0", 8), "127.3.2.1", true);
        check(("127.0.0.0", 8), "128.0.0.1", false);
        check(("192.0.2.0", 24), "192.0.2.0/24", true);
        check(("192.0.2.128", 25), "192.0.2.0/24", false);
        check(("192.0.0.0", 16), "192.0.2.0/24", true);
        check(("192.0.2.7", 32), "192.0.2.7", true);
        check(("192.0.2.7", 32), "192.0.2.8", false);
        check(("0.0.0.0", 0), "203.0.113.1", true);
        check(("0.0.0.0", 0), "2001:db8::1", false);
        check(("2001:db8::", 56), "2001:db8:0:ff::1", true);
        check(("2001:db8::", 56), "2001:db8:0:100::1", false);
        check(("::", 0), "2001:db8::/56", true);
        for client in ["", "tablet", "192.0.2.1/", "192.0.2.1/33", "192.0.2.1/x", "/8"] {
            check(("0.0.0.0", 0), client, client == "192.0.2.1/");
        }
        assert_eq!(ClientNetwork::new("192.0.2.0".parse().unwrap(), 33), None);
    }
}
