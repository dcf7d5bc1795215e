//! The kernel's table of neighbours: which hardware address is behind an IP address on the same link
//! (rtnetlink(7), `RTM_GETNEIGH`).

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

/// Most neighbours that are read; a home has dozens, a large link some thousands.
pub const MAX_NEIGHBOURS: usize = 65_536;
/// How long the kernel may take for one part of its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Octets of one part at most; the kernel sends up to 32 KiB at once.
const PART: usize = 64 * 1024;

const HEADER: usize = 16;
const FACTS: usize = 12;
const RTM_NEWNEIGH: u16 = 28;
const RTM_GETNEIGH: u16 = 30;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// States in which the address is not known: incomplete, failed, without ARP.
const UNKNOWN: u16 = 0x01 | 0x20 | 0x40;

/// A neighbour: IP address and hardware address (EUI-48).
pub type Neighbour = (IpAddr, [u8; 6]);

/// The neighbours on all links, IPv4 and IPv6, at most [`MAX_NEIGHBOURS`].
///
/// # Errors
/// The system has no such table for us, or broke off.
pub fn neighbours() -> io::Result<Vec<Neighbour>> {
    let route = Protocol::from(libc::NETLINK_ROUTE);
    let mut socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(route))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.write_all(&request())?;
    let mut found = Vec::new();
    let mut part = vec![0; PART];
    loop {
        let len = socket.read(&mut part)?;
        if read_part(&part[..len], &mut found)? == Part::Last || found.len() >= MAX_NEIGHBOURS {
            return Ok(found);
        }
    }
}

/// Asks for all neighbours of all families.
fn request() -> [u8; HEADER + FACTS] {
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let mut request = [0; HEADER + FACTS];
    request[..4].copy_from_slice(&((HEADER + FACTS) as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_GETNEIGH.to_ne_bytes());
    request[6..8].copy_from_slice(&flags.to_ne_bytes());
    request
}

#[derive(PartialEq, Eq, Debug)]
enum Part {
    Last,
    MoreToCome,
}

fn read_part(mut octets: &[u8], found: &mut Vec<Neighbour>) -> io::Result<Part> {
    if octets.is_empty() {
        return Ok(Part::Last);
    }
    while let Some((header, _)) = octets.split_first_chunk::<HEADER>() {
        let len = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let kind = i32::from(u16::from_ne_bytes([header[4], header[5]]));
        let Some(body) = octets.get(HEADER..len) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message of the kernel is cut off"));
        };
        if kind == libc::NLMSG_DONE {
            return Ok(Part::Last);
        }
        if kind == libc::NLMSG_ERROR {
            let code = body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code));
            return Err(io::Error::from_raw_os_error(-code));
        }
        if kind == i32::from(RTM_NEWNEIGH)
            && found.len() < MAX_NEIGHBOURS
            && let Some(neighbour) = read_neighbour(body)
        {
            found.push(neighbour);
        }
        octets = octets.get(aligned(len)..).unwrap_or_default();
    }
    Ok(Part::MoreToCome)
}

/// Messages and attributes begin at multiples of four.
fn aligned(len: usize) -> usize {
    (len + 3) & !3
}

fn read_neighbour(body: &[u8]) -> Option<Neighbour> {
    let (facts, mut attributes) = body.split_first_chunk::<FACTS>()?;
    let state = u16::from_ne_bytes([facts[8], facts[9]]);
    if state & UNKNOWN != 0 {
        return None;
    }
    let (mut address, mut hardware) = (None, None);
    while let Some((header, _)) = attributes.split_first_chunk::<4>() {
        let len = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let value = attributes.get(4..len)?;
        match u16::from_ne_bytes([header[2], header[3]]) {
            NDA_DST => address = ip(value),
            NDA_LLADDR => hardware = value.try_into().ok(),
            _ => {}
        }
        attributes = attributes.get(aligned(len)..).unwrap_or_default();
    }
    Some((address?, hardware?))
}

fn ip(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut octets = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        octets.extend(kind.to_ne_bytes());
        octets.extend([0; 10]);
        octets.extend(body);
        octets.resize(aligned(octets.len()), 0);
        octets
    }

    fn neighbour(state: u16, attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = vec![0; FACTS];
        body[8..10].copy_from_slice(&state.to_ne_bytes());
        for (kind, value) in attributes {
            body.extend(((4 + value.len()) as u16).to_ne_bytes());
            body.extend(kind.to_ne_bytes());
            body.extend(*value);
            body.resize(aligned(body.len()), 0);
        }
        message(RTM_NEWNEIGH, &body)
    }

    #[test]
    fn neighbours_that_are_known_are_read() {
        let mac = [2, 0, 0, 0, 0, 9];
        let mut part = neighbour(0x02, &[(NDA_DST, &[192, 0, 2, 7]), (NDA_LLADDR, &mac)]);
        part.extend(neighbour(0x04, &[(NDA_LLADDR, &mac), (9, &[1]), (NDA_DST, &[0xfd; 16])]));
        part.extend(neighbour(0x20, &[(NDA_DST, &[192, 0, 2, 8]), (NDA_LLADDR, &mac)]));
        part.extend(neighbour(0x02, &[(NDA_DST, &[192, 0, 2, 9]), (NDA_LLADDR, &[])]));
        let mut found = Vec::new();
        assert_eq!(read_part(&part, &mut found).unwrap(), Part::MoreToCome);
        assert_eq!(found, [(IpAddr::from([192, 0, 2, 7]), mac), (IpAddr::from([0xfd; 16]), mac)]);
        let done = message(libc::NLMSG_DONE as u16, &[0; 4]);
        assert_eq!(read_part(&done, &mut found).unwrap(), Part::Last);
        let refused = message(libc::NLMSG_ERROR as u16, &(-1_i32).to_ne_bytes());
        assert_eq!(read_part(&refused, &mut found).unwrap_err().raw_os_error(), Some(1));
        assert!(read_part(&part[..20], &mut found).is_err());
    }

    #[test]
    fn the_kernel_answers() {
        // There may be no neighbour at all, as in a namespace of its own.
        assert!(neighbours().unwrap().len() <= MAX_NEIGHBOURS);
    }
}
