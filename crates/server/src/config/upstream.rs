//! Addresses of servers to forward to: as written in the file, and as listed in a `resolv.conf`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use super::setting::FromText;
use super::{Transport, Upstream};

/// Port of DNS over UDP and TCP (RFC 1035 §4.2).
const DNS_PORT: u16 = 53;

impl FromText for Upstream {
    const EXPECTED: &'static str =
        "a server such as \"1.1.1.1\", \"udp://127.0.0.1:5310\" or \"tcp://[2620:fe::fe]:53\"";

    fn from_text(text: &str) -> Result<Self, Option<String>> {
        let (transport, rest) = match text.split_once("://") {
            None => (Transport::Udp, text),
            Some(("udp", rest)) => (Transport::Udp, rest),
            Some(("tcp", rest)) => (Transport::Tcp, rest),
            Some((scheme, _)) => {
                return Err(Some(format!("\"{scheme}://\" is no transport here; use \"udp://\" or \"tcp://\"")));
            }
        };
        let addr = server_address(rest).ok_or(None)?;
        if addr.port() == 0 {
            return Err(Some(format!("{text:?} has port 0; the port of DNS is {DNS_PORT}")));
        }
        if addr.ip().is_unspecified() || addr.ip().is_multicast() {
            return Err(Some(format!("{text:?} is not the address of one server")));
        }
        Ok(Self { addr, transport })
    }
}

/// An address with or without port; IPv6 with a port stands in brackets.
fn server_address(text: &str) -> Option<SocketAddr> {
    let (host, port) = split_port(text)?;
    let port = port.map_or(Some(DNS_PORT), |digits| digits.parse().ok())?;
    if let Some((address, scope)) = host.split_once('%') {
        let address: Ipv6Addr = address.parse().ok()?;
        return Some(SocketAddrV6::new(address, port, 0, interface_index(scope)?).into());
    }
    Some(SocketAddr::new(host.parse::<IpAddr>().ok()?, port))
}

/// The address, without brackets, and the digits of the port where there is one.
fn split_port(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        return match after.strip_prefix(':') {
            Some(port) => Some((host, Some(port))),
            None => after.is_empty().then_some((host, None)),
        };
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => Some((host, Some(port))),
        _ => Some((text, None)),
    }
}

/// The number of a network interface, given as a number or by name.
fn interface_index(scope: &str) -> Option<u32> {
    if let Ok(index) = scope.parse() {
        return Some(index);
    }
    if scope.contains(['/', '.']) {
        return None;
    }
    let index = std::fs::read_to_string(format!("/sys/class/net/{scope}/ifindex")).ok()?;
    index.trim().parse().ok()
}

/// The servers that the `nameserver` lines of a `resolv.conf` name (resolv.conf(5)); unreadable ones are left out,
/// as the C library does.
pub(super) fn from_resolv_conf(text: &str) -> Vec<Upstream> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            (words.next()? == "nameserver").then(|| words.next())?
        })
        .filter_map(|address| Upstream::from_text(address).ok())
        .collect()
}

/// Whether a query to `addr` would come back to a server that listens on `listen`.
pub(super) fn is_own(addr: SocketAddr, listen: &[SocketAddr]) -> bool {
    listen.iter().any(|own| {
        let same_family = own.is_ipv4() == addr.is_ipv4();
        let same_ip = own.ip() == addr.ip() || (own.ip().is_unspecified() && addr.ip().is_loopback());
        same_family && same_ip && own.port() == addr.port()
    })
}
