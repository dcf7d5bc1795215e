//! `[odoh]`: Oblivious DNS over HTTPS (RFC 9230).

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use schemars::JsonSchema;
use serde::Deserialize;
use toml::{Table, Value};

use super::check::Check;
use super::host_name::host_name;
use super::listen::Protocol;
use super::setting::{List, Setting};

/// The port of HTTPS.
const HTTPS_PORT: u16 = 443;
/// Maximum number of targets of the proxy.
const MAX_TARGETS: usize = 64;

/// The table `[odoh]`: Oblivious DNS over HTTPS (RFC 9230). A proxy then knows the client but not
/// the query, and the target knows the query but not the client.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct OdohSpec {
    /// Whether this server is a target: it decrypts and answers oblivious queries at all addresses
    /// with `https://`. The queries come through proxies of other operators.
    #[schemars(extend("default" = false))]
    pub(super) target: Setting<bool>,
    /// Targets of other operators, to which this server forwards oblivious queries as a proxy. A
    /// target is a host name, with its port if this is not 443. `NAME@ADDRESS` states the address,
    /// so that the server does not look the name up.
    #[schemars(extend("default" = []))]
    pub(super) proxy_targets: Setting<List<String>>,
}

/// The settings of Oblivious DNS over HTTPS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OdohConfig {
    /// Whether the server is a target.
    pub target: bool,
    /// The targets of the proxy; empty if the server is no proxy.
    pub proxy_targets: Vec<ProxyTarget>,
}

/// A target to which the proxy forwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyTarget {
    /// The host name, in lower case.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The address, if the configuration has one. It may be private.
    pub address: Option<IpAddr>,
}

impl ProxyTarget {
    /// Returns whether a client means this target. `host` is in lower case.
    pub fn is(&self, host: &str, port: u16) -> bool {
        (self.host.as_str(), self.port) == (host, port)
    }

    /// Reads `HOST`, `HOST:PORT`, `HOST@ADDRESS` or `HOST@ADDRESS:PORT`.
    fn read(text: &str) -> Option<Self> {
        let is_name = |host: &str| !host.starts_with('*') && host.parse::<IpAddr>().is_err();
        let name = |host: &str| host_name(host).filter(|host| is_name(host));
        if let Some((host, address)) = text.split_once('@') {
            let whole = address.parse::<SocketAddr>().map(|one| (one.ip(), one.port()));
            let alone = || Some((address.parse().ok()?, HTTPS_PORT));
            let (address, port) = whole.ok().or_else(alone)?;
            return Some(Self { host: name(host)?, port, address: Some(address) });
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0)?),
            None => (text, HTTPS_PORT),
        };
        Some(Self { host: name(host)?, port, address: None })
    }
}

impl fmt::Display for ProxyTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => write!(f, "{}@{}", self.host, SocketAddr::new(address, self.port)),
            None if self.port == HTTPS_PORT => f.write_str(&self.host),
            None => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Checks `[odoh]`. `served` are the protocols of the addresses of the server.
pub(super) fn odoh(
    spec: OdohSpec,
    mut served: impl Iterator<Item = Protocol>,
    check: &mut Check,
) -> OdohConfig {
    let proxy_at = spec.proxy_targets.span();
    let proxy_targets = proxy_targets(spec.proxy_targets, check);
    let at = spec.target.span().or(proxy_at);
    let target = check.take(spec.target).unwrap_or(false);
    let is_used = target || !proxy_targets.is_empty();
    if let Some(at) = at.filter(|_| is_used)
        && !served.any(|protocol| protocol == Protocol::Https)
    {
        check.doubt(at, "[odoh] has no effect: no address has https://".to_owned());
    }
    OdohConfig { target, proxy_targets }
}

/// Returns the targets of the proxy without duplicates.
fn proxy_targets(setting: Setting<List<String>>, check: &mut Check) -> Vec<ProxyTarget> {
    let span = setting.span();
    let written = check.take(setting).map_or_else(Vec::new, |list| list.0);
    if let Some(span) = span.filter(|_| written.len() > MAX_TARGETS) {
        check.fault(span, format!("more than {MAX_TARGETS} targets"));
        return Vec::new();
    }
    let mut targets: Vec<ProxyTarget> = Vec::new();
    for one in written {
        let (at, text) = (one.span(), one.into_inner());
        match ProxyTarget::read(&text) {
            None => check.fault(
                at,
                format!(
                    "{text:?} is no target; write \"odoh.example.net\", \"odoh.example.net:8443\" \
                     or \"odoh.example.net@192.0.2.1:443\""
                ),
            ),
            Some(target) if targets.iter().any(|one| one.is(&target.host, target.port)) => {
                check.fault(at, format!("duplicate target {text:?}"));
            }
            Some(target) => targets.push(target),
        }
    }
    targets
}

/// Returns the table with the settings in force.
pub(super) fn shown(odoh: &OdohConfig) -> Table {
    let targets: Vec<Value> = odoh.proxy_targets.iter().map(|one| one.to_string().into()).collect();
    [("target", odoh.target.into()), ("proxy-targets", targets.into())]
        .map(|(key, value): (&str, Value)| (key.to_owned(), value))
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Config;

    #[test]
    fn settings_without_effect_and_wrong_targets_are_reported() {
        let read = |text: &str| Config::from_text(None, text, &BTreeMap::new());
        let https = "[server]\nlisten = [\"127.0.0.1:53\", \"https://127.0.0.1:443\"]\n\
                     [[certificate]]\ncert = \"a.pem\"\nkey = \"a.key\"\n";
        for (text, doubts) in [
            ("[odoh]\ntarget = true".to_owned(), 1),
            ("[odoh]\nproxy-targets = [\"a.example\"]".to_owned(), 1),
            ("[odoh]\ntarget = false\nproxy-targets = []".to_owned(), 0),
            (format!("{https}[odoh]\ntarget = true"), 0),
        ] {
            assert_eq!(read(&text).unwrap().doubts.len(), doubts, "{text}");
        }
        let many: Vec<_> = (0..=MAX_TARGETS).map(|at| format!("\"a{at}\"")).collect();
        for (targets, error) in [
            ("\"https://a\"", "is no target; write"),
            ("\"a:443\", \"A\"", "duplicate target \"A\""),
            (&many.join(","), "more than 64 targets"),
        ] {
            let errors = read(&format!("[odoh]\nproxy-targets = [{targets}]")).unwrap_err();
            assert!(errors.to_string().contains(error), "{errors}");
        }
    }

    #[test]
    fn targets_of_the_proxy_are_host_names_with_port_and_address() {
        for (text, host, port, address) in [
            ("ODoH.example.", "odoh.example", 443, None),
            ("a.example:8443", "a.example", 8443, None),
            ("a@127.0.0.1:8443", "a", 8443, Some("127.0.0.1")),
            ("a@[::1]:8443", "a", 8443, Some("::1")),
            ("a@2001:db8::1", "a", 443, Some("2001:db8::1")),
        ] {
            let address = address.map(|one| one.parse().unwrap());
            let expected = ProxyTarget { host: host.to_owned(), port, address };
            assert_eq!(ProxyTarget::read(text), Some(expected.clone()), "{text}");
            assert_eq!(ProxyTarget::read(&expected.to_string()), Some(expected), "{text}");
        }
        for text in [
            "",
            "https://a",
            "a/b",
            "*.example",
            "192.0.2.1",
            "[::1]:443",
            "a:",
            "a:0",
            "a@b",
            "a@",
        ] {
            assert_eq!(ProxyTarget::read(text), None, "{text}");
        }
    }
}
