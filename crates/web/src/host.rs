//! The check of `Host` against DNS rebinding: a web page under a foreign name that resolves to the
//! address of this server could read responses.

use std::net::{IpAddr, SocketAddr};

/// The owner of the name in the `Host` of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostOwner {
    /// An address, or a name of this network.
    Ours,
    /// A name that others can register.
    Foreign,
}

/// Domains of private networks: RFC 6762, RFC 8375, RFC 6761, and others that are reserved or used
/// for this purpose.
const PRIVATE_DOMAINS: [&str; 9] = [
    "localhost",
    "local",
    "lan",
    "home.arpa",
    "internal",
    "intranet",
    "home",
    "localdomain",
    "test",
];

/// Returns the owner of the name in the value of `Host`. `is_known` says whether a name in lower
/// case belongs to this network by configuration.
///
/// ```
/// use avocet_web::host::{HostOwner, host_owner};
///
/// let is_known = |name: &str| name == "dns.example.net";
/// assert_eq!(host_owner(b"192.0.2.1:8053", is_known), HostOwner::Ours);
/// assert_eq!(host_owner(b"DNS.example.net", is_known), HostOwner::Ours);
/// assert_eq!(host_owner(b"rebound.example.com", is_known), HostOwner::Foreign);
/// ```
pub fn host_owner(host: &[u8], is_known: impl Fn(&str) -> bool) -> HostOwner {
    let Ok(host) = std::str::from_utf8(host) else { return HostOwner::Foreign };
    let is_address = host.parse::<SocketAddr>().is_ok()
        || host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    let name = host
        .rsplit_once(':')
        .map_or(host, |(name, _)| name)
        .trim_end_matches('.')
        .to_ascii_lowercase();
    let is_below = |domain: &&str| {
        name.strip_suffix(*domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    // Programs interpret other characters, which have a meaning in URLs, in different ways.
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.".contains(&octet);
    let is_private =
        name.bytes().all(is_plain) && (!name.contains('.') || PRIVATE_DOMAINS.iter().any(is_below));
    if is_address || is_private || is_known(&name) { HostOwner::Ours } else { HostOwner::Foreign }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_strangers_can_register_is_foreign() {
        let of = |host: &str| host_owner(host.as_bytes(), |name| name == "dns.example.net");
        for host in [
            "",
            "127.0.0.1",
            "127.0.0.1:8053",
            "[::1]:8053",
            "[fd00::1]",
            "localhost:8053",
            "router",
            "NAS.lan:80",
            "dns.home.arpa.",
            "dns.example.net:8053",
            "Dns.Example.Net",
        ] {
            assert_eq!(of(host), HostOwner::Ours, "{host:?}");
        }
        for host in [
            "evil.example",
            "evil.example:8053",
            "127.0.0.1.evil.example",
            "lan.example",
            "evillan.example",
            "notlan.xlan.example",
            "evil@nas.lan",
            "evil.example#.lan",
        ] {
            assert_eq!(of(host), HostOwner::Foreign, "{host:?}");
        }
    }
}
