//! Addresses of servers in rules and elsewhere in the configuration.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

use avocet_wire::DNS_PORT;

/// The permitted forms of a server's address, for messages. The parser also accepts
/// `192.0.2.1@5353`, as other software does.
pub const SERVER_FORM: &str =
    "a server such as \"192.0.2.1\", \"192.0.2.1:5353\" or \"[2001:db8::1]:5353\"";

/// A parsed address, with or without a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrittenAddress {
    /// The address, with port 53 by default.
    pub addr: SocketAddr,
    /// Whether the text has a port.
    pub has_port: bool,
}

/// An error in the address of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerFault {
    /// The form is invalid.
    Form,
    /// The port is 0.
    NoPort,
    /// The address is not the address of one host, for example a multicast address.
    NotOne,
}

impl fmt::Display for ServerFault {
    /// Writes the problem as a clause about the text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => write!(f, "is not {SERVER_FORM}"),
            Self::NoPort => write!(f, "has port 0; the port of DNS is {DNS_PORT}"),
            Self::NotOne => f.write_str("is not the address of one server"),
        }
    }
}

impl std::error::Error for ServerFault {}

impl WrittenAddress {
    /// Parses `192.0.2.1`, `192.0.2.1:5353`, `[2001:db8::1]:5353`, and `ADDRESS@PORT` of both
    /// families. `interface` returns the index of the network interface in `fe80::1%eth0`.
    pub fn read(text: &str, interface: impl Fn(&str) -> Option<u32>) -> Option<Self> {
        let (host, port) = split_port(text)?;
        let has_port = port.is_some();
        // `u16::from_str` would accept a sign.
        let is_number = |digits: &&str| digits.bytes().all(|digit| digit.is_ascii_digit());
        let port =
            port.map_or(Some(DNS_PORT), |digits| Some(digits).filter(is_number)?.parse().ok())?;
        let addr = match host.split_once('%') {
            Some((address, scope)) => {
                let address: Ipv6Addr = address.parse().ok()?;
                SocketAddrV6::new(
                    address,
                    port,
                    0,
                    scope.parse().ok().or_else(|| interface(scope))?,
                )
                .into()
            }
            None => SocketAddr::new(host.parse::<IpAddr>().ok()?, port),
        };
        Some(Self { addr, has_port })
    }
}

/// Parses the address of a server, with port 53 by default.
///
/// # Errors
/// The form is invalid, or no server can have the address.
pub fn server_address(
    text: &str,
    interface: impl Fn(&str) -> Option<u32>,
) -> Result<SocketAddr, ServerFault> {
    let WrittenAddress { addr, .. } =
        WrittenAddress::read(text, interface).ok_or(ServerFault::Form)?;
    match () {
        () if addr.port() == 0 => Err(ServerFault::NoPort),
        () if addr.ip().is_unspecified() || addr.ip().is_multicast() => Err(ServerFault::NotOne),
        () => Ok(addr),
    }
}

/// Returns the address without brackets, and the digits of the port if there is one.
fn split_port(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some((host, port)) = text.rsplit_once('@') {
        let bare = host.strip_prefix('[').map_or(Some(host), |rest| rest.strip_suffix(']'))?;
        return Some((bare, Some(port)));
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_written_with_a_colon_or_an_at_sign() {
        let interface = |name: &str| (name == "lan0").then_some(7);
        for (text, expected) in [
            ("192.0.2.1", Ok("192.0.2.1:53")),
            ("192.0.2.1:5353", Ok("192.0.2.1:5353")),
            ("192.0.2.1@5353", Ok("192.0.2.1:5353")),
            ("2001:db8::1", Ok("[2001:db8::1]:53")),
            ("[2001:db8::1]", Ok("[2001:db8::1]:53")),
            ("[2001:db8::1]:5353", Ok("[2001:db8::1]:5353")),
            ("2001:db8::1@5353", Ok("[2001:db8::1]:5353")),
            ("[2001:db8::1]@5353", Ok("[2001:db8::1]:5353")),
            ("fe80::1%lan0@5353", Ok("[fe80::1%7]:5353")),
            ("[fe80::1%3]:53", Ok("[fe80::1%3]:53")),
            ("fe80::1%wan", Err(ServerFault::Form)),
            ("192.0.2.1:", Err(ServerFault::Form)),
            ("192.0.2.1@", Err(ServerFault::Form)),
            ("192.0.2.1:+53", Err(ServerFault::Form)),
            ("192.0.2.1:65536", Err(ServerFault::Form)),
            ("192.0.2.1@53@53", Err(ServerFault::Form)),
            ("[2001:db8::1", Err(ServerFault::Form)),
            ("[2001:db8::1]5353", Err(ServerFault::Form)),
            ("dns.example", Err(ServerFault::Form)),
            ("", Err(ServerFault::Form)),
            ("192.0.2.1@0", Err(ServerFault::NoPort)),
            ("0.0.0.0:53", Err(ServerFault::NotOne)),
            ("ff02::fb@5353", Err(ServerFault::NotOne)),
        ] {
            let found = server_address(text, interface).map(|addr| addr.to_string());
            assert_eq!(found, expected.map(str::to_owned), "{text}");
        }
    }
}
