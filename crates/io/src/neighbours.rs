//! The kernel's neighbour table, which maps IP addresses on the same link to hardware addresses
//! (rtnetlink(7), `RTM_GETNEIGH`).

use std::io;
use std::net::IpAddr;

use crate::netlink::{KernelTable, attributes, dump, ip};

/// Octets of `struct ndmsg`.
const FACTS: usize = 12;
/// `RTM_GETNEIGH` and `RTM_NEWNEIGH`.
const TABLE: KernelTable = KernelTable { request: 30, entry: 28, fixed: FACTS };
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// States without a known hardware address: incomplete, failed, without ARP.
const UNKNOWN: u16 = 0x01 | 0x20 | 0x40;

/// A neighbour: IP address and hardware address (EUI-48).
pub type Neighbour = (IpAddr, [u8; 6]);

/// Returns the neighbours on all links, IPv4 and IPv6, at most `most`.
///
/// # Errors
/// The system has no such table for this process, or ended its answer early.
pub fn neighbours(most: usize) -> io::Result<Vec<Neighbour>> {
    let mut found = Vec::new();
    dump(TABLE, |entry| {
        if found.len() < most {
            found.extend(read_neighbour(entry));
        }
    })?;
    Ok(found)
}

fn read_neighbour(entry: &[u8]) -> Option<Neighbour> {
    let (facts, rest) = entry.split_first_chunk::<FACTS>()?;
    let state = u16::from_ne_bytes([facts[8], facts[9]]);
    if state & UNKNOWN != 0 {
        return None;
    }
    let (mut address, mut hardware) = (None, None);
    for (kind, value) in attributes(rest) {
        match kind {
            NDA_DST => address = ip(value),
            NDA_LLADDR => hardware = value.try_into().ok(),
            _ => {}
        }
    }
    Some((address?, hardware?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::read_part;
    use crate::netlink::tests::message;

    fn neighbour(state: u16, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut facts = [0; FACTS];
        facts[8..10].copy_from_slice(&state.to_ne_bytes());
        message(TABLE.entry, &facts, attributes)
    }

    #[test]
    fn neighbours_that_are_known_are_read() {
        let mac = [2, 0, 0, 0, 0, 9];
        let mut part = neighbour(0x02, &[(NDA_DST, &[192, 0, 2, 7]), (NDA_LLADDR, &mac)]);
        part.extend(neighbour(0x04, &[(NDA_LLADDR, &mac), (9, &[1]), (NDA_DST, &[0xfd; 16])]));
        part.extend(neighbour(0x20, &[(NDA_DST, &[192, 0, 2, 8]), (NDA_LLADDR, &mac)]));
        part.extend(neighbour(0x02, &[(NDA_DST, &[192, 0, 2, 9]), (NDA_LLADDR, &[])]));
        let mut found = Vec::new();
        read_part(&part, TABLE, &mut |entry| found.extend(read_neighbour(entry))).unwrap();
        assert_eq!(found, [(IpAddr::from([192, 0, 2, 7]), mac), (IpAddr::from([0xfd; 16]), mac)]);
    }

    #[test]
    fn the_kernel_answers() {
        // There may be no neighbour at all, as in a new network namespace.
        assert!(neighbours(1).unwrap().len() <= 1);
    }
}
