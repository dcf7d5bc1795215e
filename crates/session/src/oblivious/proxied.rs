//! Oblivious queries for another server, which a proxy forwards without reading them (RFC 9230 §4).

/// Maximum number of octets of the path of a target.
const MAX_PATH: usize = 255;
/// The port of HTTPS.
const HTTPS_PORT: u16 = 443;

/// The server that a client names in the parameters of its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTarget {
    /// The host, in lower case.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path of queries, which begins with `/` and has no parameters.
    pub path: String,
}

/// The reason why a proxy does not forward a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyFault {
    /// This server is no proxy.
    NoProxy,
    /// The parameters do not name a server and a path.
    Malformed,
    /// The proxy does not forward to this server.
    Foreign,
    /// Too many queries wait.
    Busy,
}

impl NamedTarget {
    /// Reads the parameters `targethost` and `targetpath`. Others are ignored.
    pub fn read(parameters: &[u8]) -> Option<Self> {
        let value = |name: &str| {
            let mut all = parameters.split(|octet| *octet == b'&');
            decoded(all.find_map(|one| one.strip_prefix(name.as_bytes()))?)
        };
        let (authority, path) = (value("targethost=")?, value("targetpath=")?);
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) => (host, port.parse().ok()?),
            None => (authority.as_str(), HTTPS_PORT),
        };
        let is_of_path = |octet: u8| octet.is_ascii_graphic() && !b"?#".contains(&octet);
        let is_path = path.starts_with('/') && path.len() <= MAX_PATH;
        if !is_path || !path.bytes().all(is_of_path) {
            return None;
        }
        Some(Self { host: host.to_ascii_lowercase(), port, path })
    }
}

/// Decodes `%XX` in the value of a parameter.
fn decoded(value: &[u8]) -> Option<String> {
    let (mut octets, mut rest) = (Vec::with_capacity(value.len()), value);
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            octets.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = str::from_utf8(digits).ok()?;
        let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        octets.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
        rest = after;
    }
    String::from_utf8(octets).ok()
}

/// Returns the reply to a proxied query: the status of the target, and the body of its response.
pub fn proxied_reply(status: u16, body: &[u8]) -> Vec<u8> {
    [&status.to_be_bytes()[..], body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_names_host_port_and_path() {
        for (parameters, host, port, path) in [
            ("targethost=ODoH.example&targetpath=/dns-query", "odoh.example", 443, "/dns-query"),
            ("x=1&targetpath=%2Fq%2fx&targethost=a%3A8443", "a", 8443, "/q/x"),
        ] {
            let expected = NamedTarget { host: host.into(), port, path: path.into() };
            assert_eq!(NamedTarget::read(parameters.as_bytes()), Some(expected), "{parameters}");
        }
    }

    #[test]
    fn other_parameters_name_nothing() {
        let long = format!("targethost=a&targetpath=/{}", "x".repeat(MAX_PATH));
        for parameters in [
            "",
            "targethost=a",
            "targetpath=/q",
            "targethost=a:x&targetpath=/q",
            "targethost=a:65536&targetpath=/q",
            "targethost=a&targetpath=q",
            "targethost=a&targetpath=",
            "targethost=a&targetpath=/q?x",
            "targethost=a&targetpath=/q%3fx",
            "targethost=a&targetpath=/q%20x",
            "targethost=a&targetpath=/q%0d%0ax",
            "targethost=a&targetpath=/q%",
            "targethost=a&targetpath=/q%+1",
            "targethost=a&targetpath=/%ff",
            &long,
        ] {
            assert_eq!(NamedTarget::read(parameters.as_bytes()), None, "{parameters}");
        }
    }
}
