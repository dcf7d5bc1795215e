//! The header of the PROXY protocol, version 2, with which a proxy names its client to a server. It
//! comes before each datagram, or once before all else on a connection.
//!
//! Only the address of the client is known here: its port, and the address and port that it
//! queried, are zero. Source: `proxy-protocol.txt` of HAProxy, section 2.2.

use std::net::IpAddr;

/// What begins each header.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, and the command of a connection that the proxy makes of its own accord.
const LOCAL: u8 = 0x20;
/// Version 2, and the command of a connection for a client.
const PROXY: u8 = 0x21;
/// The families of addresses.
const UNSPECIFIED: u8 = 0x00;
const INET: u8 = 0x10;
const INET6: u8 = 0x20;
/// Octets of two addresses with their ports.
const INET_LEN: u16 = 12;
const INET6_LEN: u16 = 36;

/// Octets of the longest header that [`write()`] appends.
pub const MAX_PROXY_HEADER: usize = SIGNATURE.len() + 4 + INET6_LEN as usize;

/// What carries the message behind a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ProxiedBy {
    /// A connection, encrypted or not.
    Stream = 1,
    /// A datagram.
    Datagram = 2,
}

/// Appends the header for a query of a client; without one, that for a query of this server.
pub fn write(out: &mut Vec<u8>, client: Option<IpAddr>, by: ProxiedBy) {
    out.extend_from_slice(&SIGNATURE);
    let (command, family, len) = match client {
        None => (LOCAL, UNSPECIFIED, 0),
        Some(IpAddr::V4(_)) => (PROXY, INET | by as u8, INET_LEN),
        Some(IpAddr::V6(_)) => (PROXY, INET6 | by as u8, INET6_LEN),
    };
    out.extend_from_slice(&[command, family]);
    out.extend_from_slice(&len.to_be_bytes());
    // The queried address and the two ports.
    let behind = out.len() + usize::from(len);
    match client {
        None => {}
        Some(IpAddr::V4(ip)) => out.extend_from_slice(&ip.octets()),
        Some(IpAddr::V6(ip)) => out.extend_from_slice(&ip.octets()),
    }
    out.resize(behind, 0);
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use proptest::prelude::*;

    use super::*;

    /// The addresses in a header.
    #[derive(PartialEq, Debug)]
    struct Named {
        source: SocketAddr,
        destination: SocketAddr,
        is_stream: bool,
    }

    fn written(client: Option<IpAddr>, by: ProxiedBy) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, client, by);
        out
    }

    /// Reads a header as section 2.2 describes it, independently of how it is written here. Returns
    /// its length, too.
    fn read(octets: &[u8]) -> (Option<Named>, usize) {
        assert_eq!(octets[..12], [13, 10, 13, 10, 0, 13, 10, 81, 85, 73, 84, 10]);
        assert_eq!(octets[12] >> 4, 2, "the version");
        let len = usize::from(u16::from_be_bytes([octets[14], octets[15]]));
        let addresses = &octets[16..16 + len];
        let port = |at: usize| u16::from_be_bytes([addresses[at], addresses[at + 1]]);
        let v4 = |at: usize| <[u8; 4]>::try_from(&addresses[at..at + 4]).unwrap();
        let v6 = |at: usize| <[u8; 16]>::try_from(&addresses[at..at + 16]).unwrap();
        let is_stream = octets[13] & 0xf == 1;
        assert_eq!(octets[12] & 0xf == 0, octets[13] == 0, "LOCAL has no addresses");
        let found = match octets[13] >> 4 {
            0 => None,
            1 => Some(((v4(0), port(8)).into(), (v4(4), port(10)).into())),
            2 => Some(((v6(0), port(32)).into(), (v6(16), port(34)).into())),
            family => panic!("family {family}"),
        };
        let named = |(source, destination)| Named { source, destination, is_stream };
        (found.map(named), 16 + len)
    }

    #[test]
    fn a_query_of_this_server_has_no_address() {
        let octets = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
        assert_eq!(written(None, ProxiedBy::Datagram), octets);
        assert_eq!(written(None, ProxiedBy::Stream), octets);
    }

    #[test]
    fn a_query_of_a_client_has_its_address_and_the_protocol() {
        let client = Some(IpAddr::from([192, 0, 2, 7]));
        let behind = b"\xc0\0\x02\x07\0\0\0\0\0\0\0\0";
        let datagram = [&SIGNATURE[..], b"\x21\x12\0\x0c", behind].concat();
        assert_eq!(written(client, ProxiedBy::Datagram), datagram);
        let stream = [&SIGNATURE[..], b"\x21\x11\0\x0c", behind].concat();
        assert_eq!(written(client, ProxiedBy::Stream), stream);
    }

    proptest! {
        #[test]
        fn a_header_is_read_as_it_was_written(
            client in any::<Option<IpAddr>>(),
            is_stream in any::<bool>(),
            before in any::<Vec<u8>>(),
            after in any::<Vec<u8>>(),
        ) {
            let by = if is_stream { ProxiedBy::Stream } else { ProxiedBy::Datagram };
            let mut out = before.clone();
            write(&mut out, client, by);
            prop_assert!(out.len() - before.len() <= MAX_PROXY_HEADER);
            out.extend_from_slice(&after);
            let (found, len) = read(&out[before.len()..]);
            prop_assert_eq!(&out[before.len() + len..], &after[..]);
            let expected = client.map(|ip| {
                let nobody = if ip.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let destination = nobody.parse().unwrap();
                Named { source: SocketAddr::new(ip, 0), destination, is_stream }
            });
            prop_assert_eq!(found, expected);
        }
    }
}
