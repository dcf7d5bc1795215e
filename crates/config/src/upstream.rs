//! Addresses of upstream servers, from the configuration file and from `resolv.conf`.

use std::net::SocketAddr;

use avocet_policy::rule::{SERVER_FORM, ServerFault, WrittenAddress, server_address};

use super::error::SettingError;
use super::host_name::host_name;
use super::setting::FromText;
use super::{Upstream, UpstreamTransport};

/// The port of DNS over TLS (RFC 7858 §3.1).
pub const TLS_PORT: u16 = 853;
/// The port of DNS over QUIC (RFC 9250 §4.1.1).
pub const QUIC_PORT: u16 = 853;
/// The port of DNS over HTTPS (RFC 8484 §8.1).
pub const HTTPS_PORT: u16 = 443;
/// The path of DNS over HTTPS, if none is written.
const HTTPS_PATH: &str = "/dns-query";
/// The end of a path that is a template with the variable `dns`.
const DNS_VARIABLE: &str = "{?dns}";
/// Length of the longest path in octets.
const MAX_PATH: usize = 255;

impl FromText for Upstream {
    const EXPECTED: &'static str = "a server such as \"192.0.2.1\", \"192.0.2.1:5353\" or \
                                    \"[2001:db8::1]:5353\", with the prefix \"tcp://\" for TCP \
                                    only, or as \"tls://dns.example@192.0.2.1\", \
                                    \"quic://dns.example@192.0.2.1\", or \
                                    \"https://dns.example@192.0.2.1/dns-query\" or the same \
                                    with \"h3://\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let (transport, rest) = match text.split_once("://") {
            None => (UpstreamTransport::Udp, text),
            Some(("udp", rest)) => (UpstreamTransport::Udp, rest),
            Some(("tcp", rest)) => (UpstreamTransport::Tcp, rest),
            Some(("tls", rest)) => return peer(rest, TLS_PORT, UpstreamTransport::Tls),
            Some(("quic", rest)) => return peer(rest, QUIC_PORT, UpstreamTransport::Quic),
            Some(("https", rest)) => return over_http(rest, UpstreamTransport::Https),
            Some(("h3", rest)) => return over_http(rest, UpstreamTransport::H3),
            Some((scheme, _)) => {
                return Err(Some(SettingError::UnsupportedTransport(scheme.to_owned())));
            }
        };
        let addr = server(rest)?;
        Ok(Self { addr: Some(addr), port: addr.port(), transport, name: None, path: "".into() })
    }
}

/// Reads a server as [`peer`] does, followed by a path, which may be a template with the variable
/// `dns`.
fn over_http(text: &str, transport: UpstreamTransport) -> Result<Upstream, Option<SettingError>> {
    let at = text.find('/').unwrap_or(text.len());
    let (host, path) = text.split_at(at);
    let path = path.strip_suffix(DNS_VARIABLE).unwrap_or(path);
    let path = if path.is_empty() { HTTPS_PATH } else { path };
    if !is_path(path) {
        return Err(Some(SettingError::PathOfServer(path.to_owned())));
    }
    let upstream = peer(host, HTTPS_PORT, transport)?;
    Ok(Upstream { path: path.into(), ..upstream })
}

fn is_path(path: &str) -> bool {
    let is_octet = |octet: u8| octet.is_ascii_graphic() && !b"?#{}\"<>\\^`|".contains(&octet);
    path.len() <= MAX_PATH && path.starts_with('/') && path.bytes().all(is_octet)
}

/// Returns the path of a URI template (RFC 9461 §5) with the variable `dns` at its end; `None` for
/// other templates.
pub fn path_of_template(template: &str) -> Option<&str> {
    template.strip_suffix(DNS_VARIABLE).filter(|path| is_path(path))
}

/// Reads a server: the name in its certificate and its address, such as `dns.example@192.0.2.1`, or
/// only one of them, with or without port. If an address is before the `@`, its port is after it.
fn peer(
    text: &str,
    port: u16,
    transport: UpstreamTransport,
) -> Result<Upstream, Option<SettingError>> {
    let path: Box<str> = "".into();
    let is_address = |text: &str| WrittenAddress::read(text, interface_index).is_some();
    let (name, address) = match text.split_once('@') {
        Some((name, address)) if !is_address(name) => (Some(name), address),
        _ => (None, text),
    };
    let name = match name.map(|name| (name, host_name(name))) {
        None => None,
        Some((_, Some(name))) if !name.starts_with("*.") => Some(name.into()),
        Some((name, _)) => return Err(Some(SettingError::NameOfServer(name.to_owned()))),
    };
    if name.is_none()
        && let Some((name, port)) = name_and_port(text, port)
    {
        return Ok(Upstream { addr: None, port, transport, name: Some(name), path });
    }
    let mut addr = server(address)?;
    if WrittenAddress::read(address, interface_index).is_some_and(|written| !written.has_port) {
        addr.set_port(port);
    }
    Ok(Upstream { addr: Some(addr), port: addr.port(), transport, name, path })
}

/// Reads a host name with or without port.
fn name_and_port(text: &str, default_port: u16) -> Option<(Box<str>, u16)> {
    if WrittenAddress::read(text, interface_index).is_some() {
        return None;
    }
    let (name, port) = match text.split_once(':') {
        Some((name, port)) => (name, port.parse().ok().filter(|port| *port != 0)?),
        None => (text, default_port),
    };
    // A text of digits is an address with a mistake.
    let is_name = name.bytes().any(|octet| octet.is_ascii_alphabetic()) && !name.starts_with("*.");
    let name = host_name(name).filter(|_| is_name)?;
    Some((name.into(), port))
}

impl Upstream {
    /// Returns the server as messages show it: its name, its address, or both.
    pub fn host(&self) -> String {
        match (&self.name, self.addr) {
            (Some(name), Some(addr)) => format!("{name}@{addr}"),
            (None, Some(addr)) => addr.to_string(),
            (name, None) => {
                format!("{}:{}", name.as_deref().unwrap_or_default(), self.port)
            }
        }
    }
}

/// A server with a fixed transport.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ServerAddress(pub(super) SocketAddr);

impl FromText for ServerAddress {
    const EXPECTED: &'static str = SERVER_FORM;

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        server(text).map(Self)
    }
}

/// Parses the address of a server, with or without port.
fn server(text: &str) -> Result<SocketAddr, Option<SettingError>> {
    server_address(text, interface_index).map_err(|fault| match fault {
        ServerFault::Form => None,
        source => Some(SettingError::Server { text: text.to_owned(), source }),
    })
}

/// Returns the index of the network interface with this name.
pub fn interface_index(scope: &str) -> Option<u32> {
    if scope.contains(['/', '.']) {
        return None;
    }
    let index = std::fs::read_to_string(format!("/sys/class/net/{scope}/ifindex")).ok()?;
    index.trim().parse().ok()
}

/// Returns the servers in the `nameserver` lines of a `resolv.conf` (resolv.conf(5)); the function
/// ignores invalid lines, as the C library does.
pub(super) fn from_resolv_conf(text: &str) -> Vec<Upstream> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            (words.next()? == "nameserver").then(|| words.next())?
        })
        .filter_map(|address| Upstream::from_text(address).ok())
        .collect()
}

/// Returns whether a query to `addr` would reach a server that listens on `listen`.
pub(super) fn is_own(addr: SocketAddr, listen: &[SocketAddr]) -> bool {
    listen.iter().any(|own| {
        let same_family = own.is_ipv4() == addr.is_ipv4();
        let same_ip =
            own.ip() == addr.ip() || (own.ip().is_unspecified() && addr.ip().is_loopback());
        same_family && same_ip && own.port() == addr.port()
    })
}
