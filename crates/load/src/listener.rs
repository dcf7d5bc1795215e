//! Search for the local process that listens at an address, in `/proc`.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::drive::Carrier;

/// Maximum number of file descriptors that the search reads.
const MAX_DESCRIPTORS: usize = 1_000_000;

/// The state of a listening TCP socket in `/proc/net/tcp`.
const LISTENS: &str = "0A";

/// Returns the process that listens at this address of this host, if the user may see it. If a
/// parent and its children share the socket, returns the parent.
pub(crate) fn process_at(server: SocketAddr, carrier: Carrier) -> Option<u32> {
    let files = match carrier {
        Carrier::Udp | Carrier::Quic | Carrier::H3 => ["/proc/net/udp", "/proc/net/udp6"],
        Carrier::Tcp | Carrier::Tls | Carrier::Https => ["/proc/net/tcp", "/proc/net/tcp6"],
    };
    let tables = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    let sockets: Vec<String> = tables
        .flat_map(|table| inodes(&table, server, carrier))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if sockets.is_empty() {
        return None;
    }
    let mut looked_at = 0;
    let mut pids: Vec<u32> = fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    // A parent has a lower process ID than its children, unless the IDs have wrapped around.
    pids.sort_unstable();
    pids.into_iter().find(|pid| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let left = MAX_DESCRIPTORS - looked_at;
        descriptors.take(left).any(|descriptor| {
            looked_at += 1;
            let target = fs::read_link(descriptor.path());
            target.is_ok_and(|target| {
                target.to_str().is_some_and(|target| sockets.iter().any(|one| one == target))
            })
        })
    })
}

/// Returns the inodes of the sockets in a table that receive at this address.
fn inodes(table: &str, server: SocketAddr, carrier: Carrier) -> Vec<u64> {
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (ip, port) = fields.get(1)?.split_once(':')?;
        let is_datagrams = carrier == Carrier::Udp || carrier.is_quic();
        let is_listener = is_datagrams || *fields.get(3)? == LISTENS;
        let ip = address(ip)?;
        let is_there = u16::from_str_radix(port, 16).ok()? == server.port()
            && (ip == server.ip() || ip.is_unspecified());
        // A connected socket, such as that of a client, has a remote port.
        let is_connected = !fields.get(2)?.ends_with(":0000");
        (is_listener && is_there && !is_connected).then(|| fields.get(9)?.parse().ok())?
    };
    table.lines().skip(1).filter_map(inode).collect()
}

/// Parses an address that consists of words of 32 bits in hexadecimal digits. Each word has the
/// byte order of this machine.
fn address(digits: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = u32::from_str_radix(digits.get(8 * at..8 * at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    match digits.len() {
        8 => Some(IpAddr::V4(Ipv4Addr::from(word(0)?))),
        32 => {
            let mut octets = [0; 16];
            for (at, place) in octets.chunks_exact_mut(4).enumerate() {
                place.copy_from_slice(&word(at)?);
            }
            Some(IpAddr::V6(Ipv6Addr::from(octets)).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn this_process_is_found_by_its_sockets() {
        let own = Some(std::process::id());
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(process_at(udp.local_addr().unwrap(), Carrier::Udp), own);
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(process_at(tcp.local_addr().unwrap(), Carrier::Tcp), own);
        let any = UdpSocket::bind("0.0.0.0:0").unwrap();
        let at = SocketAddr::from(([127, 0, 0, 1], any.local_addr().unwrap().port()));
        assert_eq!(process_at(at, Carrier::Udp), own);
        let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert_eq!(process_at(free, Carrier::Udp), None);
    }

    #[test]
    fn lines_that_cannot_be_read_are_skipped() {
        let server = SocketAddr::from(([127, 0, 0, 1], 53));
        for table in ["", "head\n\n", "head\n 1: 0100007F:0035", "head\n 1: x:y z w"] {
            assert!(inodes(table, server, Carrier::Udp).is_empty(), "{table:?}");
        }
    }
}
