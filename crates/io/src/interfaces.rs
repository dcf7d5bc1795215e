//! The addresses of the host's own interfaces and their networks (rtnetlink(7), `RTM_GETADDR`).

use std::io;
use std::net::IpAddr;

use crate::netlink::{KernelTable, attributes, dump, ip};

/// Maximum number of addresses that are read. A host with a bridge for each of many containers has
/// hundreds.
pub const MAX_INTERFACE_ADDRESSES: usize = 4_096;

/// Number of octets of `struct ifaddrmsg`, the fixed part of an entry.
const FACTS: usize = 8;
/// The table of addresses: `RTM_GETADDR` and `RTM_NEWADDR`.
const TABLE: KernelTable = KernelTable { request: 22, entry: 20, fixed: FACTS };
/// The peer's address on a point-to-point link, otherwise the host's own address.
const IFA_ADDRESS: u16 = 1;
/// The host's own IPv4 address.
const IFA_LOCAL: u16 = 2;

/// An address of an interface.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct OwnAddress {
    /// The address.
    pub ip: IpAddr,
    /// Prefix length of the network of the address, in bits.
    pub prefix_len: u8,
}

/// Returns the addresses of all interfaces, IPv4 and IPv6, in order, at most
/// [`MAX_INTERFACE_ADDRESSES`].
///
/// # Errors
/// The system does not report them.
pub fn own_addresses() -> io::Result<Vec<OwnAddress>> {
    let mut found = Vec::new();
    dump(TABLE, |entry| {
        if found.len() < MAX_INTERFACE_ADDRESSES {
            found.extend(read_address(entry));
        }
    })?;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

fn read_address(entry: &[u8]) -> Option<OwnAddress> {
    let (facts, rest) = entry.split_first_chunk::<FACTS>()?;
    let (mut address, mut local) = (None, None);
    for (kind, value) in attributes(rest) {
        match kind {
            IFA_ADDRESS => address = ip(value),
            IFA_LOCAL => local = ip(value),
            _ => {}
        }
    }
    Some(OwnAddress { ip: local.or(address)?, prefix_len: facts[1] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::read_part;
    use crate::netlink::tests::message;

    #[test]
    fn addresses_are_read_with_their_prefixes() {
        let of = |prefix_len: u8, attributes: &[(u16, &[u8])]| {
            message(TABLE.entry, &[0, prefix_len, 0, 0, 0, 0, 0, 0], attributes)
        };
        let mut part = of(24, &[(IFA_ADDRESS, &[192, 0, 2, 1]), (IFA_LOCAL, &[192, 0, 2, 2])]);
        part.extend(of(64, &[(9, &[0; 3]), (IFA_ADDRESS, &[0xfd; 16])]));
        part.extend(of(64, &[(IFA_ADDRESS, &[0xfd; 15])]));
        let mut found = Vec::new();
        read_part(&part, TABLE, &mut |entry| found.extend(read_address(entry))).unwrap();
        let own = |ip, prefix_len| OwnAddress { ip, prefix_len };
        assert_eq!(
            found,
            [own(IpAddr::from([192, 0, 2, 2]), 24), own(IpAddr::from([0xfd; 16]), 64)]
        );
    }

    #[test]
    fn the_loopback_interface_has_its_address() {
        let own = own_addresses().unwrap();
        // The loopback interface may be down, as in a new network namespace.
        assert!(own.is_empty() || own.iter().any(|address| address.ip.is_loopback()), "{own:?}");
    }
}
