//! The header of the PROXY protocol, with which a proxy tells a server the address of its client.
//! The header precedes each datagram, or comes first on a connection.
//!
//! The header is written in version 2, and read in both versions. Only the address of the client is
//! used. The client's port, and the address and port that it queried, are written as zero and
//! ignored on reading. Source: `proxy-protocol.txt` of HAProxy, sections 2.1 and 2.2.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The signature that begins each header of version 2.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, and the command for a connection that the proxy itself has opened.
const LOCAL: u8 = 0x20;
/// Version 2, and the command of a connection for a client.
const PROXY: u8 = 0x21;
/// The families of addresses.
const UNSPECIFIED: u8 = 0x00;
const INET: u8 = 0x10;
const INET6: u8 = 0x20;
/// Number of octets of two addresses with their ports.
const INET_LEN: u16 = 12;
const INET6_LEN: u16 = 36;

/// Length in octets of the longest header that [`write()`] appends.
pub const MAX_PROXY_HEADER: usize = SIGNATURE.len() + 4 + INET6_LEN as usize;

/// Length in octets of the longest header that [`read()`] and [`read_stream()`] accept. The limit
/// leaves room for a checksum, an authority and TLS information after the addresses, which are
/// skipped.
pub const MAX_READ_HEADER: usize = 536;

/// Length of the longest header of version 1 in octets.
const MAX_TEXT: usize = 107;
/// The text that begins a header of version 1.
const TEXT_SIGNATURE: &[u8] = b"PROXY ";

/// A header that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProxyHeader {
    /// The client, with an IPv4-mapped address as IPv4; `None` for a message of the proxy itself.
    pub client: Option<IpAddr>,
    /// Number of octets of the header. The message follows the header.
    pub len: usize,
}

/// The reason why there is no header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoHeader {
    /// The octets may be the beginning of a header.
    Incomplete,
    /// The octets are not a header, or the header is too long.
    Invalid,
}

/// The transport by which the proxy received the query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ProxiedBy {
    /// A connection, encrypted or not.
    Stream = 1,
    /// A datagram.
    Datagram = 2,
}

/// Appends the header for a query of a client, or of this server itself if `client` is `None`.
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

/// Reads the header before a datagram. It must have version 2.
///
/// # Errors
/// The datagram does not begin with a whole header.
pub fn read(octets: &[u8]) -> Result<ProxyHeader, NoHeader> {
    let known = octets.len().min(SIGNATURE.len());
    if octets[..known] != SIGNATURE[..known] {
        return Err(NoHeader::Invalid);
    }
    let Some((&[command, family, high, low], rest)) =
        octets[known..].split_first_chunk().filter(|_| known == SIGNATURE.len())
    else {
        return Err(NoHeader::Incomplete);
    };
    let len = usize::from(u16::from_be_bytes([high, low]));
    let whole = SIGNATURE.len() + 4 + len;
    if !matches!(command, LOCAL | PROXY) || whole > MAX_READ_HEADER {
        return Err(NoHeader::Invalid);
    }
    // The transport in the header does not matter: clients may reach the proxy over another
    // transport than the proxy reaches this server.
    let (family, by) = (family & 0xf0, family & 0x0f);
    let needed = match family {
        UNSPECIFIED => 0,
        INET => usize::from(INET_LEN),
        INET6 => usize::from(INET6_LEN),
        _ if command == LOCAL => 0,
        _ => return Err(NoHeader::Invalid),
    };
    if command == PROXY && (len < needed || by > ProxiedBy::Datagram as u8) {
        return Err(NoHeader::Invalid);
    }
    let addresses = rest.get(..len).ok_or(NoHeader::Incomplete)?;
    let client = match family {
        _ if command == LOCAL => None,
        INET => addresses.first_chunk::<4>().map(|octets| IpAddr::from(*octets)),
        INET6 => addresses.first_chunk::<16>().map(|octets| IpAddr::from(*octets)),
        _ => None,
    };
    Ok(ProxyHeader { client: client.map(|ip| ip.to_canonical()), len: whole })
}

/// Reads the header at the start of a connection. It may have version 1 or 2.
///
/// # Errors
/// The octets are not a header, or only a part of one.
pub fn read_stream(octets: &[u8]) -> Result<ProxyHeader, NoHeader> {
    if octets.first() == Some(&TEXT_SIGNATURE[0]) { read_text(octets) } else { read(octets) }
}

/// Reads a header of version 1.
fn read_text(octets: &[u8]) -> Result<ProxyHeader, NoHeader> {
    let known = octets.len().min(TEXT_SIGNATURE.len());
    if octets[..known] != TEXT_SIGNATURE[..known] {
        return Err(NoHeader::Invalid);
    }
    let within = &octets[..octets.len().min(MAX_TEXT)];
    let Some(end) = within.iter().position(|octet| *octet == b'\n') else {
        let is_full = within.len() == MAX_TEXT;
        return Err(if is_full { NoHeader::Invalid } else { NoHeader::Incomplete });
    };
    let line = within[known..end].strip_suffix(b"\r").ok_or(NoHeader::Invalid)?;
    let line = str::from_utf8(line).map_err(|_| NoHeader::Invalid)?;
    let mut words = line.split(' ');
    let client = match words.next() {
        // The specification says to ignore the rest of an UNKNOWN header.
        Some("UNKNOWN") => None,
        Some("TCP4") => Some(IpAddr::V4(text_client::<Ipv4Addr>(words)?)),
        Some("TCP6") => Some(IpAddr::V6(text_client::<Ipv6Addr>(words)?)),
        _ => return Err(NoHeader::Invalid),
    };
    Ok(ProxyHeader { client: client.map(|ip| ip.to_canonical()), len: end + 1 })
}

/// Reads two addresses and two ports, and returns the first address.
fn text_client<'t, A: FromStr>(mut words: impl Iterator<Item = &'t str>) -> Result<A, NoHeader> {
    let mut next = || words.next().ok_or(NoHeader::Invalid);
    let mut address = || next()?.parse::<A>().map_err(|_| NoHeader::Invalid);
    let (client, _) = (address()?, address()?);
    for _ in 0..2 {
        let port = next()?;
        let is_number = port.bytes().all(|octet| octet.is_ascii_digit());
        if !is_number || port.parse::<u16>().is_err() {
            return Err(NoHeader::Invalid);
        }
    }
    if words.next().is_some() { Err(NoHeader::Invalid) } else { Ok(client) }
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

    /// Reads a header as section 2.2 describes it, independently of the code under test. Also
    /// returns the length of the header.
    fn decoded(octets: &[u8]) -> (Option<Named>, usize) {
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
            let (found, len) = decoded(&out[before.len()..]);
            prop_assert_eq!(&out[before.len() + len..], &after[..]);
            let expected = client.map(|ip| {
                let nobody = if ip.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let destination = nobody.parse().unwrap();
                Named { source: SocketAddr::new(ip, 0), destination, is_stream }
            });
            prop_assert_eq!(found, expected);
            let client = client.map(|ip| ip.to_canonical());
            let header = Ok(ProxyHeader { client, len });
            prop_assert_eq!(read(&out[before.len()..]), header);
            prop_assert_eq!(read_stream(&out[before.len()..]), header);
            for cut in before.len()..before.len() + len {
                prop_assert_eq!(read(&out[before.len()..cut]), Err(NoHeader::Incomplete));
            }
        }

        #[test]
        fn any_octets_are_read_within_their_bounds(
            start in 0_usize..3,
            rest in proptest::collection::vec(any::<u8>(), 0..700),
        ) {
            let start: &[u8] = [&b""[..], &SIGNATURE[..], TEXT_SIGNATURE][start];
            let octets = [start, &rest].concat();
            for found in [read(&octets), read_stream(&octets)].into_iter().flatten() {
                prop_assert!(found.len <= octets.len().min(MAX_READ_HEADER));
            }
        }
    }

    #[test]
    fn headers_of_version_1_are_read() {
        for (text, client) in [
            ("PROXY TCP4 192.0.2.7 198.51.100.1 1024 53\r\n", Some("192.0.2.7")),
            ("PROXY TCP6 2001:db8::7 2001:db8::1 65535 53\r\n", Some("2001:db8::7")),
            ("PROXY TCP6 ::ffff:192.0.2.7 ::1 0 53\r\n", Some("192.0.2.7")),
            ("PROXY UNKNOWN\r\n", None),
            ("PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
        ] {
            let client = client.map(|ip| ip.parse().unwrap());
            let found = Ok(ProxyHeader { client, len: text.len() });
            assert_eq!(read_stream(text.as_bytes()), found, "{text}");
            assert_eq!(read_stream(format!("{text}\nrest").as_bytes()), found, "{text}");
            for cut in 0..text.len() {
                let part = read_stream(&text.as_bytes()[..cut]);
                assert_eq!(part, Err(NoHeader::Incomplete), "{text} {cut}");
            }
            // For datagrams, only version 2 is permitted.
            assert_eq!(read(text.as_bytes()), Err(NoHeader::Invalid), "{text}");
        }
        for text in [
            "PROXY TCP4 192.0.2.7 198.51.100.1 1024 53\n",
            "PROXY TCP4 2001:db8::7 2001:db8::1 1024 53\r\n",
            "PROXY TCP6 192.0.2.7 198.51.100.1 1024 53\r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.1 1024\r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.1 1024 53 7\r\n",
            "PROXY TCP4 192.0.2.7 198.51.100.1 +24 65536\r\n",
            "PROXY TCP4  192.0.2.7 198.51.100.1 1024 53\r\n",
            "PROXY UDP4 192.0.2.7 198.51.100.1 1024 53\r\n",
            "PROXY \r\n",
            "PROXY\tTCP4",
            "proxy UNKNOWN\r\n",
        ] {
            assert_eq!(read_stream(text.as_bytes()), Err(NoHeader::Invalid), "{text}");
        }
        let endless = [b"PROXY UNKNOWN ".to_vec(), vec![b'7'; 200]].concat();
        assert_eq!(read_stream(&endless[..106]), Err(NoHeader::Incomplete));
        assert_eq!(read_stream(&endless[..107]), Err(NoHeader::Invalid));
    }

    #[test]
    fn headers_of_version_2_are_read_or_refused() {
        let header = |rest: &[u8]| [&SIGNATURE[..], rest].concat();
        let v4 = b"\xc0\0\x02\x07\0\0\0\0\0\0\0\0";
        let client = Some(IpAddr::from([192, 0, 2, 7]));
        // There is data after the addresses, and the transport to the proxy varies.
        for by in [0x10, 0x11, 0x12] {
            let octets = header(&[&[0x21, by, 0, 15], &v4[..], b"\x04\0\0rest"].concat());
            assert_eq!(read(&octets), Ok(ProxyHeader { client, len: 31 }));
        }
        // Headers without a client: a command of the proxy itself, or an unspecified address
        // family.
        for (command, family) in [(0x20, 0x00), (0x20, 0x11), (0x20, 0x31), (0x21, 0x00)] {
            let octets = header(&[&[command, family, 0, 12], &v4[..]].concat());
            assert_eq!(read(&octets), Ok(ProxyHeader { client: None, len: 28 }));
        }
        for (start, what) in [
            ([0x11, 0x11, 0, 12], "version"),
            ([0x22, 0x11, 0, 12], "command"),
            ([0x21, 0x31, 0, 12], "family"),
            ([0x21, 0x13, 0, 12], "protocol"),
            ([0x21, 0x11, 0, 11], "length"),
            ([0x21, 0x21, 0, 35], "length"),
            ([0x21, 0x11, 2, 9], "too long"),
            ([0x20, 0x00, 255, 255], "too long"),
        ] {
            let octets = header(&[&start[..], &[0; 1_000]].concat());
            assert_eq!(read(&octets), Err(NoHeader::Invalid), "{what}");
        }
        let longest = header(&[&[0x21, 0x11, 2, 8][..], &v4[..], &[0; 508]].concat());
        assert_eq!(read(&longest), Ok(ProxyHeader { client, len: MAX_READ_HEADER }));
        assert_eq!(read(b"\0\x07\x01\0\0\x01"), Err(NoHeader::Invalid));
    }
}
