//! The client of a request: its address, the protection of its connection, and its location.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;

use crate::oidc::{OidcSettings, ProviderRequest, ProviderResponse, ProviderSilence};
use crate::own::Nearness;

/// Maximum number of addresses of `X-Forwarded-For` that are considered.
const MAX_HOPS: usize = 16;

/// The facts that the interface needs about its surroundings. They follow the configuration.
pub trait Surroundings: Send + Sync {
    /// Returns whether a name in `Host` belongs to this network by configuration.
    fn is_known_host(&self, name: &str) -> bool;
    /// Returns whether the server trusts the headers of a proxy.
    fn is_trusted_proxy(&self, address: IpAddr) -> bool;
    /// Returns whether an address belongs to this machine or its network.
    fn is_local(&self, address: IpAddr) -> bool;
    /// Returns the settings for log-in by a provider; `None` without a provider.
    fn oidc(&self) -> Option<OidcSettings> {
        None
    }
    /// Sends a request to the provider, even to a private address, and waits for the response.
    ///
    /// # Errors
    /// There is no response.
    fn ask_provider(&self, _: &ProviderRequest) -> Result<ProviderResponse, ProviderSilence> {
        Err(ProviderSilence("there is no provider".to_owned()))
    }
}

/// The protection of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkSecurity {
    /// HTTP.
    Plain,
    /// HTTPS.
    Tls,
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    /// The address.
    pub address: IpAddr,
    /// The protection of the connection.
    pub security: LinkSecurity,
}

/// The client, which may be behind a proxy.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) address: IpAddr,
    pub(crate) security: LinkSecurity,
    pub(crate) nearness: Nearness,
}

impl Caller {
    /// Finds the client. Only a proxy that the configuration names may speak for another address.
    pub(crate) fn of(peer: Peer, headers: &HeaderMap, surroundings: &dyn Surroundings) -> Self {
        let mut address = peer.address.to_canonical();
        let mut security = peer.security;
        // If the proxy states an invalid address, the client may be anywhere.
        let mut is_known = true;
        if surroundings.is_trusted_proxy(address) {
            let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
            if text("x-forwarded-proto").is_some_and(|proto| proto.eq_ignore_ascii_case("https")) {
                security = LinkSecurity::Tls;
            }
            let forwarded = forwarded_for(headers, surroundings);
            is_known = !matches!(forwarded, Forwarded::Malformed);
            if let Forwarded::Client(client) = forwarded {
                address = client;
            }
        }
        let is_local = address.is_loopback() || surroundings.is_local(address);
        let is_local = is_known && is_local;
        let nearness = if is_local { Nearness::Local } else { Nearness::Remote };
        Self { address, security, nearness }
    }
}

/// The client in `X-Forwarded-For`.
enum Forwarded {
    /// The address of the client.
    Client(IpAddr),
    /// The header is missing.
    Missing,
    /// The header has no valid address of the client.
    Malformed,
}

/// Returns the last address of `X-Forwarded-For` that is not a trusted proxy. Earlier addresses are
/// claims of the client.
fn forwarded_for(headers: &HeaderMap, surroundings: &dyn Surroundings) -> Forwarded {
    let mut hops: Vec<&str> = headers
        .get_all("x-forwarded-for")
        .iter()
        .map(|header| header.to_str().unwrap_or_default())
        .flat_map(|header| header.split(','))
        .collect();
    hops.reverse();
    let mut nearest = Forwarded::Missing;
    for hop in hops.into_iter().take(MAX_HOPS) {
        let Some(address) = hop_address(hop.trim()) else { return Forwarded::Malformed };
        nearest = Forwarded::Client(address);
        if !surroundings.is_trusted_proxy(address) {
            break;
        }
    }
    nearest
}

/// Reads an address, with or without a port. An IPv6 address with a port is in brackets; some
/// proxies also write brackets without a port.
fn hop_address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let in_brackets = bare.map(|text| text.parse().map(IpAddr::V6));
    let address = in_brackets.unwrap_or_else(|| text.parse());
    let with_port = || text.parse::<SocketAddr>().map(|address| address.ip());
    address.or_else(|_| with_port()).ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    struct Home;

    impl Surroundings for Home {
        fn is_known_host(&self, _: &str) -> bool {
            false
        }
        fn is_trusted_proxy(&self, address: IpAddr) -> bool {
            address == IpAddr::from([10, 0, 0, 1])
        }
        fn is_local(&self, address: IpAddr) -> bool {
            matches!(address, IpAddr::V4(v4) if v4.is_private())
        }
    }

    #[track_caller]
    fn check(peer: &str, forwarded: &str, expected: &str) {
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-for", HeaderValue::from_str(forwarded).unwrap());
        headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
        let peer = Peer { address: peer.parse().unwrap(), security: LinkSecurity::Plain };
        let caller = Caller::of(peer, &headers, &Home);
        let security = if caller.security == LinkSecurity::Tls { "tls" } else { "plain" };
        assert_eq!(format!("{} {security} {:?}", caller.address, caller.nearness), expected);
    }

    #[test]
    fn only_a_trusted_proxy_speaks_for_others() {
        check("10.0.0.1", "192.0.2.7", "192.0.2.7 tls Remote");
        check("10.0.0.1", "127.0.0.1, 192.0.2.7", "192.0.2.7 tls Remote");
        check("10.0.0.1", "127.0.0.1, 192.0.2.7, 10.0.0.1", "192.0.2.7 tls Remote");
        check("10.0.0.1", "", "10.0.0.1 tls Remote");
        check("10.0.0.2", "127.0.0.1", "10.0.0.2 plain Local");
        check("::ffff:10.0.0.2", "127.0.0.1", "10.0.0.2 plain Local");
        check("192.0.2.1", "127.0.0.1", "192.0.2.1 plain Remote");
    }

    #[test]
    fn a_hop_may_have_a_port_or_brackets() {
        check("10.0.0.1", "192.0.2.7:4711", "192.0.2.7 tls Remote");
        check("10.0.0.1", "192.168.2.7:4711", "192.168.2.7 tls Local");
        check("10.0.0.1", "[2001:db8::1]:4711", "2001:db8::1 tls Remote");
        check("10.0.0.1", "[2001:db8::1]", "2001:db8::1 tls Remote");
        check("10.0.0.1", "2001:db8::1", "2001:db8::1 tls Remote");
        check("10.0.0.1", "[::ffff:192.168.2.7]:1", "192.168.2.7 tls Local");
        check("10.0.0.1", "192.0.2.7, 10.0.0.1:80", "192.0.2.7 tls Remote");
    }

    #[test]
    fn a_malformed_hop_is_the_proxy_and_never_local() {
        let malformed = [
            "nonsense",
            "unknown",
            "_hidden",
            "192.0.2.7:",
            "[192.0.2.7]",
            "[2001:db8::1",
            "::1:x",
        ];
        for text in malformed {
            check("10.0.0.1", text, "10.0.0.1 tls Remote");
            check("10.0.0.1", &format!("192.168.2.7, {text}"), "10.0.0.1 tls Remote");
        }
        check("10.0.0.1", "nonsense, 192.0.2.7", "192.0.2.7 tls Remote");
    }
}
