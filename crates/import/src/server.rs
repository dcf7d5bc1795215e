//! Addresses of servers to forward to, in the notations of other products.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;

use avocet_wire::DNS_PORT;

use crate::name;

/// A server to which queries can be forwarded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Server {
    place: ServerPlace,
    transport: ServerTransport,
}

/// The address of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
enum ServerPlace {
    Address(SocketAddr),
    /// A host name, followed by `:PORT` if the port is not the default.
    Name(String),
}

impl fmt::Display for ServerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// The transport over which a server is queried.
#[derive(Clone, PartialEq, Eq, Debug)]
enum ServerTransport {
    /// UDP, with TCP for truncated responses.
    Udp,
    Tcp,
    Tls,
    Quic,
    /// HTTPS with this path.
    Https(String),
    /// HTTP/3 with this path.
    H3(String),
}

impl Server {
    /// Parses `ADDRESS`, `ADDRESS:PORT`, `ADDRESS#PORT` or `[ADDRESS]:PORT`. A prefix may name the
    /// transport: `udp://`, `tcp://`, `udp:`, `tcp:` or `tcp+udp:`; for TLS `tls://` or `tcp-tls:`;
    /// for QUIC `quic://` or `quic:`; for HTTPS `https://` or `h3://`, with a path at the end.
    /// Servers with TLS, QUIC or HTTPS may have a host name in place of the address.
    ///
    /// # Errors
    /// The form is unsupported. The text gives the reason.
    pub(crate) fn parse(written: &str) -> Result<Self, &'static str> {
        use ServerTransport::{H3, Https, Quic, Tcp, Tls, Udp};
        const PLAIN: [(&str, bool); 5] = [
            ("udp://", false),
            ("tcp://", true),
            ("tcp+udp:", false),
            ("udp:", false),
            ("tcp:", true),
        ];
        let written = written.trim();
        for (scheme, reason) in UNSUPPORTED {
            if written.starts_with(scheme) {
                return Err(reason);
            }
        }
        let behind = |schemes: &[&str]| schemes.iter().find_map(|one| written.strip_prefix(one));
        let (transport, rest, port) = if let Some(rest) = behind(&["tls://", "tcp-tls:"]) {
            (Tls, rest, TLS_PORT)
        } else if let Some(rest) = behind(&["quic://", "quic:"]) {
            (Quic, rest, TLS_PORT)
        } else if let Some(rest) = behind(&["h3://"]) {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            (H3(path.to_owned()), host, HTTPS_PORT)
        } else if let Some(rest) = behind(&["https://", "https:"]) {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            (Https(path.to_owned()), host, HTTPS_PORT)
        } else {
            let plain = PLAIN
                .iter()
                .find_map(|(scheme, is_tcp)| Some((written.strip_prefix(scheme)?, *is_tcp)));
            match plain {
                Some((rest, true)) => (Tcp, rest, DNS_PORT),
                Some((rest, false)) => (Udp, rest, DNS_PORT),
                None => (Udp, written, DNS_PORT),
            }
        };
        if rest.contains('%') {
            return Err("a link-local address depends on the interfaces of one machine");
        }
        let place = match (address(rest, port), &transport) {
            (Some(at), _)
                if at.port() == 0 || at.ip().is_unspecified() || at.ip().is_multicast() =>
            {
                return Err("not the address of one server");
            }
            (Some(at), _) => ServerPlace::Address(at),
            (None, Udp | Tcp) => return Err("servers are specified by address, not by host name"),
            (None, Tls | Quic | Https(_) | H3(_)) => {
                ServerPlace::Name(host(rest).ok_or("neither an address nor a host name")?)
            }
        };
        Ok(Self { place, transport })
    }

    /// Returns the address and the port of the server, or `None` if it has only a name.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self.place {
            ServerPlace::Address(at) => Some(at),
            ServerPlace::Name(_) => None,
        }
    }

    /// Returns the form of the server in `upstreams` of `[[forward]]`.
    pub(crate) fn upstream(&self) -> String {
        let place = &self.place;
        match (&self.transport, place) {
            (ServerTransport::Udp, ServerPlace::Address(at)) if at.port() == DNS_PORT => {
                at.ip().to_string()
            }
            (ServerTransport::Udp, _) => format!("udp://{place}"),
            (ServerTransport::Tcp, _) => format!("tcp://{place}"),
            (ServerTransport::Tls, _) => format!("tls://{place}"),
            (ServerTransport::Quic, _) => format!("quic://{place}"),
            (ServerTransport::Https(path), _) => format!("https://{place}{path}"),
            (ServerTransport::H3(path), _) => format!("h3://{place}{path}"),
        }
    }

    /// Reports whether the server is queried over UDP.
    pub(crate) fn has_udp(&self) -> bool {
        self.transport == ServerTransport::Udp
    }

    /// Returns the form of the server in `to` of a rule with the action `forward`.
    pub(crate) fn of_rule(&self) -> String {
        match self.place {
            ServerPlace::Address(at) if at.port() == DNS_PORT => at.ip().to_string(),
            ServerPlace::Address(at) => format!("{}@{}", at.ip(), at.port()),
            ServerPlace::Name(ref name) => name.clone(),
        }
    }

    /// Returns the form of the server in `servers` of `[[stub]]`.
    pub(crate) fn of_stub(&self) -> String {
        match self.place {
            ServerPlace::Address(at) if at.port() == DNS_PORT => at.ip().to_string(),
            ref place => place.to_string(),
        }
    }

    /// Reports whether a server that listens on `listen` would query itself at this address.
    pub(crate) fn is_own(&self, listen: &SocketAddr) -> bool {
        let Some(at) = self.address() else { return false };
        let same_family = listen.is_ipv4() == at.is_ipv4();
        let same_ip =
            listen.ip() == at.ip() || (listen.ip().is_unspecified() && at.ip().is_loopback());
        same_family && same_ip && listen.port() == at.port()
    }
}

const TLS_PORT: u16 = 853;
const HTTPS_PORT: u16 = 443;
/// The reason why a server with only a name is omitted.
pub(crate) const NO_ADDRESS: &str = "no server that knows its address was imported: write \
                                     \"tls://NAME@ADDRESS\" or \"https://NAME@ADDRESS/PATH\" in \
                                     `upstreams`, or set `bootstrap`";
const UNSUPPORTED: [(&str, &str); 1] =
    [("sdns://", "DNS stamps are not supported; write the address of the server")];

/// Parses an address with or without port.
fn address(text: &str, default_port: u16) -> Option<SocketAddr> {
    if let Some((host, port)) = text.split_once('#') {
        let port = port.split('@').next().unwrap_or(port);
        return Some(SocketAddr::new(host.parse::<IpAddr>().ok()?, port.parse().ok()?));
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    match bare.parse::<IpAddr>() {
        Ok(ip) => Some(SocketAddr::new(ip, default_port)),
        Err(_) => text.parse().ok(),
    }
}

/// Reads a host name with or without a port.
fn host(text: &str) -> Option<String> {
    let (written, port) = match text.split_once(':') {
        Some((written, port)) => (written, Some(port.parse::<NonZeroU16>().ok()?)),
        None => (text, None),
    };
    let name = name::domain(written).filter(|name| name != "." && !name.contains('*'))?;
    // A name with a numeric last label is a mistyped address.
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_name = last.contains(|c: char| !c.is_ascii_digit());
    is_name.then(|| port.map_or(name.clone(), |port| format!("{name}:{port}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_all_sources_are_read() {
        for (written, expected) in [
            ("8.8.8.8", "8.8.8.8"),
            ("8.8.8.8#5353", "udp://8.8.8.8:5353"),
            ("127.0.0.1:5335", "udp://127.0.0.1:5335"),
            ("tcp+udp:[2620:fe::fe]:53", "2620:fe::fe"),
            ("2620:fe::fe", "2620:fe::fe"),
            ("tcp://9.9.9.9", "tcp://9.9.9.9:53"),
            ("[2620:fe::9]", "2620:fe::9"),
            ("tls://1.1.1.1", "tls://1.1.1.1:853"),
            ("tcp-tls:[2620:fe::fe]:8853", "tls://[2620:fe::fe]:8853"),
            ("https://1.1.1.1/dns-query", "https://1.1.1.1:443/dns-query"),
            ("https://[2620:fe::fe]:8443", "https://[2620:fe::fe]:8443"),
            ("quic://94.140.14.14", "quic://94.140.14.14:853"),
            ("quic:[2620:fe::fe]:8853", "quic://[2620:fe::fe]:8853"),
            ("h3://1.1.1.1/dns-query", "h3://1.1.1.1:443/dns-query"),
            ("https://dns.example/dns-query", "https://dns.example/dns-query"),
            ("tls://dns.example:8853", "tls://dns.example:8853"),
        ] {
            assert_eq!(
                Server::parse(written).map(|server| server.upstream()).as_deref(),
                Ok(expected),
                "{written}"
            );
        }
    }

    #[test]
    fn what_is_no_plain_server_has_a_reason() {
        for wrong in [
            "tls://dns.example:0",
            "quic://",
            "h3://1.2.3/dns-query",
            "https://dns.exa mple/dns-query",
            "dns.example",
            "0.0.0.0",
            "1.1.1.1:0",
            "fe80::1%eth0",
            "",
        ] {
            assert!(Server::parse(wrong).is_err(), "{wrong}");
        }
    }
}
