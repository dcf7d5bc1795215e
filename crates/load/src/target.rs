//! The server to drive, the source addresses, and whether driving the server needs confirmation.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use avocet_wire::DNS_PORT;
use avocet_wire::special_purpose::Scope;
use ipnet::IpNet;

use crate::args::LoadArgs;
use crate::drive::Carrier;
use crate::encrypted::HttpPlace;
use crate::error::LoadError;

/// The addresses of the clients of a loopback server.
const LOOPBACK_CLIENTS: Ipv4Addr = Ipv4Addr::new(127, 1, 0, 0);

/// The prefix of a server over TLS on the command line.
const TLS_PREFIX: &str = "tls://";
/// The prefix of a server over QUIC.
const QUIC_PREFIX: &str = "quic://";
/// The prefix of a server over HTTP/2.
const HTTPS_PREFIX: &str = "https://";
/// The prefix of a server over HTTP/3.
const H3_PREFIX: &str = "h3://";
/// The port of DNS over TLS and of DNS over QUIC (RFC 7858 §3.1, RFC 9250 §4.1.1).
const TLS_PORT: u16 = 853;
/// The port of HTTPS.
const HTTPS_PORT: u16 = 443;
/// The path of DNS over HTTPS if the command line names none.
const HTTPS_PATH: &str = "/dns-query";

/// A server as it is named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedServer {
    pub(crate) address: SocketAddr,
    /// The transport that the text or `--transport` names.
    pub(crate) carrier: Carrier,
    /// The name in the server's certificate, if the transport is encrypted.
    pub(crate) tls_name: Option<String>,
    /// The HTTP resource that queries are sent to.
    pub(crate) place: Option<HttpPlace>,
}

/// Parses a server. The transport is encrypted if the text or `carrier` says so.
///
/// # Errors
/// The name cannot be resolved, or has no address.
pub(crate) fn parse_named(text: &str, carrier: Carrier) -> Result<NamedServer, LoadError> {
    let prefixes = [
        (TLS_PREFIX, Carrier::Tls),
        (HTTPS_PREFIX, Carrier::Https),
        (QUIC_PREFIX, Carrier::Quic),
        (H3_PREFIX, Carrier::H3),
    ];
    let named = prefixes.iter().find_map(|(prefix, one)| Some((text.strip_prefix(prefix)?, *one)));
    let (rest, carrier) = named.unwrap_or((text, carrier));
    if !carrier.is_encrypted() {
        let address = parse_server(text)?;
        return Ok(NamedServer { address, carrier, tls_name: None, place: None });
    }
    let is_http = matches!(carrier, Carrier::Https | Carrier::H3);
    let (rest, path) = match rest.find('/').filter(|_| is_http) {
        Some(at) => rest.split_at(at),
        None => (rest, HTTPS_PATH),
    };
    let (name, at) = rest.rsplit_once('@').map_or((None, rest), |(name, at)| (Some(name), at));
    let address = parse_with_port(at, if is_http { HTTPS_PORT } else { TLS_PORT })?;
    let place = is_http.then(|| HttpPlace {
        authority: authority(name.map_or_else(|| host(at), str::to_owned), address.port()),
        path: path.to_owned(),
    });
    let name = name.map_or_else(|| host(at), str::to_owned);
    Ok(NamedServer { address, carrier, tls_name: Some(name), place })
}

/// Returns the authority in HTTP URIs of a server (RFC 3986 §3.2).
fn authority(host: String, port: u16) -> String {
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    if port == HTTPS_PORT { host } else { format!("{host}:{port}") }
}

/// Returns the host of a server, without its port.
fn host(text: &str) -> String {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return address.ip().to_string();
    }
    match text.rsplit_once(':') {
        Some((host, _)) if !host.contains(':') => host.to_owned(),
        _ => text.trim_matches(['[', ']']).to_owned(),
    }
}

/// Parses the address of a server: `192.0.2.1`, `192.0.2.1:5300`, `2001:db8::1`,
/// `[2001:db8::1]:5300` or a host name.
///
/// # Errors
/// The name cannot be resolved, or has no address.
pub(crate) fn parse_server(text: &str) -> Result<SocketAddr, LoadError> {
    parse_with_port(text, DNS_PORT)
}

fn parse_with_port(text: &str, port: u16) -> Result<SocketAddr, LoadError> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, port));
    }
    let with_port = if text.contains(':') { text.to_owned() } else { format!("{text}:{port}") };
    let mut found = with_port
        .to_socket_addrs()
        .map_err(|source| LoadError::NotAServer { server: text.to_owned(), source })?;
    found.next().ok_or_else(|| LoadError::NoAddress(text.to_owned()))
}

/// The owner of a server, as the operator states on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    Operator,
    Unknown,
}

impl Owner {
    /// Reads the owner from the command line.
    pub(crate) fn of(args: &LoadArgs) -> Self {
        if args.i_own_this_server { Self::Operator } else { Self::Unknown }
    }
}

/// Refuses a server on a public address that may belong to someone else.
pub(crate) fn check_permitted(server: SocketAddr, owner: Owner) -> Result<(), LoadError> {
    if owner == Owner::Operator || Scope::Internal.contains(server.ip()) {
        return Ok(());
    }
    Err(LoadError::PublicServer(server))
}

/// Returns the source addresses of the clients. They come from `prefix`. Without a prefix, each
/// client of a loopback server has an address after 127.1.0.0; for other servers, the system
/// chooses.
pub(crate) fn sources(
    server: IpAddr,
    prefix: Option<IpNet>,
    clients: usize,
) -> Result<Vec<IpAddr>, LoadError> {
    let Some(prefix) = prefix else {
        return Ok(match server {
            IpAddr::V4(ip) if ip.is_loopback() => {
                (1..=clients as u32).map(|number| add_v4(LOOPBACK_CLIENTS, number)).collect()
            }
            _ => Vec::new(),
        });
    };
    if prefix.addr().is_ipv4() != server.is_ipv4() {
        return Err(LoadError::OtherFamily { prefix, server });
    }
    Ok((0..clients as u32).map(|number| nth_host(prefix, number)).collect())
}

fn add_v4(base: Ipv4Addr, number: u32) -> IpAddr {
    // The mask keeps all addresses far below 127.255.255.255.
    IpAddr::V4(Ipv4Addr::from_bits(base.to_bits().wrapping_add(number & 0x00fe_ffff)))
}

/// Returns the address `number` places after the first address of a prefix. The first address
/// follows the last one.
fn nth_host(prefix: IpNet, number: u32) -> IpAddr {
    match prefix {
        IpNet::V4(net) => {
            let size = 1u64 << (32 - net.prefix_len());
            let offset = if size <= 2 {
                u64::from(number) % size
            } else {
                1 + u64::from(number) % (size - 2)
            };
            IpAddr::V4(Ipv4Addr::from_bits(net.network().to_bits() + offset as u32))
        }
        IpNet::V6(net) => {
            let host_bits = 128 - net.prefix_len();
            let room =
                if host_bits >= 32 { u128::from(u32::MAX) } else { (1u128 << host_bits) - 1 };
            let offset = if room == 0 { 0 } else { 1 + u128::from(number) % room };
            IpAddr::V6(Ipv6Addr::from_bits(net.network().to_bits() + offset))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_with_and_without_a_port() {
        for (text, wanted) in [
            ("127.0.0.1", "127.0.0.1:53"),
            ("127.0.0.1:5300", "127.0.0.1:5300"),
            ("::1", "[::1]:53"),
            ("[::1]", "[::1]:53"),
            ("[::1]:5300", "[::1]:5300"),
        ] {
            assert_eq!(parse_server(text).unwrap().to_string(), wanted, "{text}");
        }
        assert!(parse_server("not an address").is_err());
    }

    #[test]
    fn servers_over_tls_have_a_name() {
        for (text, carrier, wanted, name) in [
            ("tls://127.0.0.1", Carrier::Udp, "127.0.0.1:853", "127.0.0.1"),
            ("127.0.0.1", Carrier::Tls, "127.0.0.1:853", "127.0.0.1"),
            ("tls://127.0.0.1:5853", Carrier::Udp, "127.0.0.1:5853", "127.0.0.1"),
            ("tls://dns.example@127.0.0.1:5853", Carrier::Udp, "127.0.0.1:5853", "dns.example"),
            ("tls://[::1]:5853", Carrier::Udp, "[::1]:5853", "::1"),
            ("tls://::1", Carrier::Udp, "[::1]:853", "::1"),
            ("quic://dns.example@127.0.0.1", Carrier::Udp, "127.0.0.1:853", "dns.example"),
            ("127.0.0.1:5853", Carrier::Quic, "127.0.0.1:5853", "127.0.0.1"),
        ] {
            let found = parse_named(text, carrier).unwrap();
            assert_eq!(found.address.to_string(), wanted, "{text}");
            assert_eq!(found.tls_name.as_deref(), Some(name), "{text}");
            let is_quic = text.starts_with(QUIC_PREFIX) || carrier == Carrier::Quic;
            assert_eq!(found.carrier == Carrier::Quic, is_quic, "{text}");
        }
        assert_eq!(parse_named("127.0.0.1", Carrier::Tcp).unwrap().tls_name, None);
    }

    #[test]
    fn servers_in_http_have_a_path() {
        for (text, carrier, wanted, name, url) in [
            ("h3://127.0.0.1", Carrier::Udp, "127.0.0.1:443", "127.0.0.1", "127.0.0.1/dns-query"),
            ("[::1]:8443", Carrier::H3, "[::1]:8443", "::1", "[::1]:8443/dns-query"),
            (
                "h3://dns.example@127.0.0.1:8443/q",
                Carrier::Udp,
                "127.0.0.1:8443",
                "dns.example",
                "dns.example:8443/q",
            ),
            ("https://[::1]", Carrier::Udp, "[::1]:443", "::1", "[::1]/dns-query"),
            (
                "127.0.0.1:8443",
                Carrier::Https,
                "127.0.0.1:8443",
                "127.0.0.1",
                "127.0.0.1:8443/dns-query",
            ),
        ] {
            let found = parse_named(text, carrier).unwrap();
            let is_https = text.starts_with(HTTPS_PREFIX) || carrier == Carrier::Https;
            let http = if is_https { Carrier::Https } else { Carrier::H3 };
            assert_eq!((found.address.to_string().as_str(), found.carrier), (wanted, http));
            assert_eq!(found.tls_name.as_deref(), Some(name), "{text}");
            let place = found.place.unwrap();
            assert_eq!(format!("{}{}", place.authority, place.path), url);
        }
        assert!(parse_named("quic://127.0.0.1/q", Carrier::Udp).is_err(), "it has no path");
    }

    #[test]
    fn public_addresses_need_a_word() {
        for (ip, private) in [
            ("127.0.0.1:53", true),
            ("192.168.1.1:53", true),
            ("100.64.0.1:53", true),
            ("[fd00::1]:53", true),
            ("[fe80::1]:53", true),
            ("[::ffff:10.0.0.1]:53", true),
            ("192.0.2.1:53", false),
            ("100.128.0.1:53", false),
            ("[2001:db8::1]:53", false),
        ] {
            let server = ip.parse().unwrap();
            assert_eq!(check_permitted(server, Owner::Unknown).is_ok(), private, "{ip}");
            assert!(check_permitted(server, Owner::Operator).is_ok());
        }
    }

    #[test]
    fn clients_are_spread_over_their_prefix() {
        let list = |server: &str, prefix: Option<&str>, clients| {
            let prefix = prefix.map(|prefix| prefix.parse().unwrap());
            let found = sources(server.parse().unwrap(), prefix, clients).unwrap();
            found.iter().map(IpAddr::to_string).collect::<Vec<_>>()
        };
        assert_eq!(list("127.0.0.1", None, 2), ["127.1.0.1", "127.1.0.2"]);
        assert_eq!(list("10.0.0.1", None, 2), [""; 0]);
        assert_eq!(list("10.0.0.1", Some("10.9.0.0/30"), 3), ["10.9.0.1", "10.9.0.2", "10.9.0.1"]);
        assert_eq!(list("10.0.0.1", Some("10.9.0.7/32"), 2), ["10.9.0.7", "10.9.0.7"]);
        assert_eq!(list("::1", Some("fd00::/64"), 2), ["fd00::1", "fd00::2"]);
        assert!(sources("::1".parse().unwrap(), Some("10.0.0.0/8".parse().unwrap()), 1).is_err());
    }
}
