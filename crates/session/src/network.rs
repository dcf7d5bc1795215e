//! The networks by which connections of clients are counted. A host with IPv6 can use every address
//! of its /64, and many sites have a /48 of their own, so a limit for each address does not limit
//! what one party can take.

use std::net::IpAddr;

/// The networks of which the limits on connections apply.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClientNetwork {
    /// One address.
    Address(IpAddr),
    /// The network of an IPv6 link (/64), as its upper bits.
    Link(u64),
    /// The network of an IPv6 site (/48; RFC 6177), as its upper bits.
    Site(u64),
}

impl ClientNetwork {
    /// Returns the networks of a client, the smallest first. An IPv4 client has only its address.
    pub fn around(client: IpAddr) -> impl Iterator<Item = Self> {
        let client = client.to_canonical();
        let wider = match client {
            IpAddr::V4(_) => None,
            IpAddr::V6(v6) => {
                let upper = |bits: u32| (v6.to_bits() >> (128 - bits)) as u64;
                Some([Self::Link(upper(64)), Self::Site(upper(48))])
            }
        };
        std::iter::once(Self::Address(client)).chain(wider.into_iter().flatten())
    }

    /// Returns whether a client is in this network.
    pub fn includes(self, client: IpAddr) -> bool {
        Self::around(client).any(|network| network == self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_of_ipv6_include_their_addresses_only() {
        let check = |one: &str, other: &str, expected: &[bool]| {
            let (one, other) = (one.parse().unwrap(), other.parse().unwrap());
            let included: Vec<_> =
                ClientNetwork::around(one).map(|network| network.includes(other)).collect();
            assert_eq!(included, expected, "{one} {other}");
        };
        check("2001:db8:1:2::3", "2001:db8:1:2::3", &[true, true, true]);
        check("2001:db8:1:2::3", "2001:db8:1:2:ffff::", &[false, true, true]);
        check("2001:db8:1:2::3", "2001:db8:1:3::3", &[false, false, true]);
        check("2001:db8:1:2::3", "2001:db8:2:2::3", &[false, false, false]);
        check("192.0.2.1", "192.0.2.1", &[true]);
        check("192.0.2.1", "192.0.2.2", &[false]);
        check("::ffff:192.0.2.1", "192.0.2.1", &[true]);
        check("::ffff:192.0.2.1", "::ffff:192.0.2.2", &[false]);
    }
}
