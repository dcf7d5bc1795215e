//! The check of `Host` against DNS rebinding: a web page under a foreign name that resolves to the
//! address of this server could read responses. The name of a request is that of its target, if it
//! has one, and otherwise that of `Host` (RFC 9110 §7.2, RFC 9112 §3.2).

use std::net::{IpAddr, SocketAddr};

use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Version};

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

/// A malformed target or `Host`: the response has the status 400.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TargetFault {
    /// The request has no `Host`, or two. A proxy may use the one that this server does not use.
    #[error("expected one Host (RFC 9112 section 3.2)")]
    Hosts,
    /// A name is empty, has a user, or is no name with a port.
    #[error("expected a name or address, and a port if necessary, in Host and target")]
    Authority,
    /// The target is a URL with another scheme.
    #[error("expected http or https in the target")]
    Scheme,
    /// The target is an asterisk (RFC 9112 §3.2.4).
    #[error("only OPTIONS takes the target \"*\"")]
    Asterisk,
}

/// Returns a request in which `Host` has the name that the request is for. The name in the target
/// takes precedence over that in `Host` (RFC 9112 §3.2.2), and HTTP/2 and HTTP/3 have only that
/// one. A request of HTTP/1.0 may have neither.
///
/// # Errors
/// The target or `Host` is malformed.
pub fn with_host<B>(mut request: Request<B>) -> Result<Request<B>, TargetFault> {
    let uri = request.uri();
    if uri.path() == "*" && request.method() != Method::OPTIONS {
        return Err(TargetFault::Asterisk);
    }
    if uri.scheme_str().is_some_and(|scheme| scheme != "http" && scheme != "https") {
        return Err(TargetFault::Scheme);
    }
    let target = uri.authority().map(Authority::as_str).map(HeaderValue::from_str);
    let target = target.transpose().map_err(|_| TargetFault::Authority)?;
    let hosts = request.headers().get_all(HOST);
    let is_complete = match hosts.iter().count() {
        0 if request.version() > Version::HTTP_11 => target.is_some(),
        0 => request.version() < Version::HTTP_11,
        count => count == 1,
    };
    if !is_complete {
        return Err(TargetFault::Hosts);
    }
    if !hosts.iter().chain(&target).all(|host| is_authority(host.as_bytes())) {
        return Err(TargetFault::Authority);
    }
    if let Some(target) = target {
        request.headers_mut().insert(HOST, target);
    }
    Ok(request)
}

/// Returns whether a text is a name or an address with an optional port (RFC 9110 §4.2): neither
/// empty nor with a user (RFC 9110 §4.2.4).
fn is_authority(text: &[u8]) -> bool {
    let Ok(authority) = Authority::try_from(text) else { return false };
    let (whole, host) = (authority.as_str(), authority.host());
    let port = whole.strip_prefix(host).filter(|_| !host.is_empty());
    port.is_some_and(|port| {
        port.is_empty()
            || port
                .strip_prefix(':')
                .is_some_and(|port| port.bytes().all(|one| one.is_ascii_digit()))
    })
}

/// Returns the owner of the name that a request is for. Browsers always send `Host`: a request
/// without it, which only HTTP/1.0 permits, is not from a web page.
pub fn owner_of(headers: &HeaderMap, is_known: impl Fn(&str) -> bool) -> HostOwner {
    let host = headers.get(HOST);
    host.map_or(HostOwner::Ours, |host| host_owner(host.as_bytes(), is_known))
}

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
    if name.is_empty() {
        return HostOwner::Foreign;
    }
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
            "",
            ":8053",
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

    /// Checks the `Host` that counts for a request; `Err` has the fault.
    #[track_caller]
    fn check(line: &str, hosts: &[&str], expected: Result<&str, TargetFault>) {
        let words: Vec<&str> = line.split(' ').collect();
        let version = match words[2] {
            "1.0" => Version::HTTP_10,
            "1.1" => Version::HTTP_11,
            "2" => Version::HTTP_2,
            _ => Version::HTTP_3,
        };
        let mut request = Request::builder().method(words[0]).uri(words[1]).version(version);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let request = with_host(request.body(()).unwrap());
        let host = request.map(|request| {
            let hosts = request.headers().get_all(HOST).iter();
            hosts.map(|host| host.to_str().unwrap()).collect::<Vec<_>>().join(" ")
        });
        assert_eq!(host.as_deref(), expected.as_ref().copied(), "{line} {hosts:?}");
    }

    #[test]
    fn the_name_of_the_target_counts_and_otherwise_that_of_host() {
        check("GET / 1.1", &["nas.lan:8053"], Ok("nas.lan:8053"));
        check("GET / 1.1", &["[::1]:80"], Ok("[::1]:80"));
        check("GET http://evil.example/ 1.1", &["nas.lan"], Ok("evil.example"));
        check("GET HTTP://evil.example:80/ 1.0", &[], Ok("evil.example:80"));
        check("GET https://nas.lan/ 2", &[], Ok("nas.lan"));
        check("GET https://evil.example/ 2", &["nas.lan"], Ok("evil.example"));
        check("GET https://nas.lan/ 3", &[], Ok("nas.lan"));
        check("CONNECT evil.example:80 1.1", &["nas.lan"], Ok("evil.example:80"));
        check("GET / 1.0", &[], Ok(""));
        check("OPTIONS * 1.1", &["nas.lan"], Ok("nas.lan"));
    }

    #[test]
    fn a_malformed_target_or_host_is_refused() {
        check("GET / 1.1", &[], Err(TargetFault::Hosts));
        check("GET http://nas.lan/ 1.1", &[], Err(TargetFault::Hosts));
        check("GET / 2", &[], Err(TargetFault::Hosts));
        check("GET / 1.0", &["nas.lan", "nas.lan"], Err(TargetFault::Hosts));
        for host in ["", ":80", "a@nas.lan", "nas.lan:x", "a/b", "a b", "a?b", "a#b", "<b>"] {
            check("GET / 1.1", &[host], Err(TargetFault::Authority));
            check("GET http://nas.lan/ 1.1", &[host], Err(TargetFault::Authority));
        }
        check("GET / 1.0", &[""], Err(TargetFault::Authority));
        check("GET http://ada@nas.lan/ 1.1", &["nas.lan"], Err(TargetFault::Authority));
        check("GET ftp://nas.lan/ 1.1", &["nas.lan"], Err(TargetFault::Scheme));
        check("GET * 1.1", &["nas.lan"], Err(TargetFault::Asterisk));
        check("POST * 1.1", &["nas.lan"], Err(TargetFault::Asterisk));
    }
}
