//! Addresses of servers to forward to, in the notations of other products.

use std::net::{IpAddr, SocketAddr};

use avocet_wire::DNS_PORT;

/// A server that queries can be forwarded to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Server {
    /// Its address and port.
    pub(crate) at: SocketAddr,
    /// Whether it is queried over TCP only.
    tcp: bool,
}

impl Server {
    /// Parses `ADDRESS`, `ADDRESS:PORT`, `ADDRESS#PORT` or `[ADDRESS]:PORT`, with an optional
    /// prefix `udp://`, `tcp://`, `udp:`, `tcp:` or `tcp+udp:`.
    ///
    /// # Errors
    /// The form is unsupported. The text gives the reason.
    pub(crate) fn parse(written: &str) -> Result<Self, &'static str> {
        let written = written.trim();
        let mut rest = written;
        let mut tcp = false;
        for (scheme, is_tcp) in [
            ("udp://", false),
            ("tcp://", true),
            ("tcp+udp:", false),
            ("udp:", false),
            ("tcp:", true),
        ] {
            if let Some(found) = written.strip_prefix(scheme) {
                (rest, tcp) = (found, is_tcp);
                break;
            }
        }
        for (scheme, reason) in ENCRYPTED {
            if written.starts_with(scheme) {
                return Err(reason);
            }
        }
        if rest.contains('%') {
            return Err("a link-local address depends on the interfaces of one machine");
        }
        let at = address(rest).ok_or("servers are specified by address, not by host name")?;
        if at.port() == 0 || at.ip().is_unspecified() || at.ip().is_multicast() {
            return Err("not the address of one server");
        }
        Ok(Self { at, tcp })
    }

    /// Returns the form for `upstreams` of `[[forward]]`.
    pub(crate) fn upstream(&self) -> String {
        match (self.tcp, self.at.port()) {
            (false, DNS_PORT) => self.at.ip().to_string(),
            (false, _) => format!("udp://{}", self.at),
            (true, _) => format!("tcp://{}", self.at),
        }
    }

    /// Reports whether it is queried over TCP only.
    pub(crate) fn is_tcp(&self) -> bool {
        self.tcp
    }

    /// Returns the form for `to` of a rule with the action `forward`.
    pub(crate) fn of_rule(&self) -> String {
        match self.at.port() {
            DNS_PORT => self.at.ip().to_string(),
            port => format!("{}@{port}", self.at.ip()),
        }
    }

    /// Reports whether a query to it would return to a server that listens on `listen`.
    pub(crate) fn is_own(&self, listen: &SocketAddr) -> bool {
        let same_family = listen.is_ipv4() == self.at.is_ipv4();
        let same_ip = listen.ip() == self.at.ip()
            || (listen.ip().is_unspecified() && self.at.ip().is_loopback());
        same_family && same_ip && listen.port() == self.at.port()
    }
}

const TLS: &str = "forwarding over TLS, HTTPS or QUIC is not supported";
const ENCRYPTED: [(&str, &str); 8] = [
    ("tls://", TLS),
    ("tcp-tls:", TLS),
    ("https://", TLS),
    ("https:", TLS),
    ("h3://", TLS),
    ("quic://", TLS),
    ("quic:", TLS),
    ("sdns://", "DNS stamps are not supported; write the address of the server"),
];

/// Parses an address with or without port.
fn address(text: &str) -> Option<SocketAddr> {
    if let Some((host, port)) = text.split_once('#') {
        let port = port.split('@').next().unwrap_or(port);
        return Some(SocketAddr::new(host.parse::<IpAddr>().ok()?, port.parse().ok()?));
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    match bare.parse::<IpAddr>() {
        Ok(ip) => Some(SocketAddr::new(ip, DNS_PORT)),
        Err(_) => text.parse().ok(),
    }
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
            "tls://1.1.1.1",
            "https://dns.example/dns-query",
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
