//! The keys of `[[pool]]`. [`spec`](super::spec) has the keys of the other tables.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::Deserialize;

use super::name::Name;
use super::pool::{AllDownWord, ModeWord, PoolItem};
use super::pool_probe::{DnsQuery, ProbeWord, RcodeWord, StatusRange};
use super::setting::{Int, List, Setting, Text};

/// A table `[[pool]]`: a name with several addresses. The server probes the addresses, and answers
/// with the healthy ones.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name", "addresses", "probe"]))]
pub(super) struct PoolSpec {
    /// Name for which the server answers with the addresses, in A and AAAA records.
    pub(super) name: Setting<Text<Name>>,
    /// Addresses, at most 64, each followed by options: "192.0.2.1 weight 3 probe 10.0.0.1:8080
    /// near country:DE,10.0.0.0/8".
    pub(super) addresses: Setting<List<Text<PoolItem>>>,
    /// TTL of the records in seconds.
    #[schemars(extend("default" = 30))]
    pub(super) ttl_secs: Setting<Int<0, 300>>,
    /// Which healthy addresses an answer contains: "all"; "first", the first in the order of
    /// `addresses`; "weighted", drawn at random by weight; "rotate", in turn; "consistent", the
    /// same for the same client; "nearest", those near the client.
    #[schemars(extend("default" = "all"))]
    pub(super) mode: Setting<Text<ModeWord>>,
    /// Maximum number of addresses in an answer. By default, 4 in the modes "rotate" and "nearest",
    /// and 1 in "weighted" and "consistent". The modes "all" and "first" ignore this key.
    pub(super) answers: Setting<Int<1, 64>>,
    /// Addresses in an answer while no address is healthy: "all" addresses, "none", or "fallback",
    /// the addresses of `fallback`.
    #[schemars(extend("default" = "all"))]
    pub(super) when_all_down: Setting<Text<AllDownWord>>,
    /// Addresses for `when-all-down = "fallback"`.
    #[schemars(extend("default" = []))]
    pub(super) fallback: Setting<List<Text<IpAddr>>>,
    /// Kind of the probes: "icmp", "tcp", "tls", "http", "https", "dns" or "command".
    pub(super) probe: Setting<Text<ProbeWord>>,
    /// Port of the probe. By default, 443 for TLS and HTTPS, 80 for HTTP and 53 for DNS. For TCP,
    /// the key is required, unless each address has its own probe port.
    pub(super) port: Setting<Int<1, 65_535>>,
    /// Host name in the HTTP request. With `verify`, the certificate must have this name. By
    /// default, the name of the pool.
    #[schemars(extend("default" = ""))]
    pub(super) host: Setting<String>,
    /// Path of the HTTP request of the probe.
    #[schemars(extend("default" = "/"))]
    pub(super) path: Setting<String>,
    /// HTTP status codes of a healthy host: numbers such as "200" or ranges such as "200-399".
    #[schemars(extend("default" = ["200-299"]))]
    pub(super) status: Setting<List<Text<StatusRange>>>,
    /// Text that the first 64 KiB of the HTTP response must contain.
    #[schemars(extend("default" = ""))]
    pub(super) body: Setting<String>,
    /// Whether a probe over TLS or HTTPS checks the issuers and the host name of the certificate.
    /// The dates are always checked.
    #[schemars(extend("default" = true))]
    pub(super) verify: Setting<bool>,
    /// File with the certificates of the authorities that may issue the certificate, in PEM form;
    /// "" trusts the authorities of the system.
    #[schemars(extend("default" = ""))]
    pub(super) ca_file: Setting<String>,
    /// Number of days for which the certificate must still be valid.
    #[schemars(extend("default" = 0))]
    pub(super) certificate_days: Setting<Int<0, 3_650>>,
    /// Question of the DNS probe, such as "corp.example SOA". By default, the A records of the name
    /// of the pool.
    pub(super) query: Setting<Text<DnsQuery>>,
    /// RCODE that the response to the DNS probe must have.
    #[schemars(extend("default" = "NOERROR"))]
    pub(super) rcode: Setting<Text<RcodeWord>>,
    /// Data that a record of the response to the DNS probe must have, as in a zone file; ""
    /// requires none.
    #[schemars(extend("default" = ""))]
    pub(super) answer: Setting<String>,
    /// Program with absolute path, and its arguments, for the probe "command". No shell is
    /// involved, and "{address}" becomes the address. Exit code 0 means that the address is
    /// healthy.
    #[schemars(extend("default" = []))]
    pub(super) command: Setting<List<String>>,
    /// Number of seconds between two probes of an address.
    #[schemars(extend("default" = 10))]
    pub(super) interval_secs: Setting<Int<1, 86_400>>,
    /// Number of milliseconds after which a probe without a result has failed; at most the
    /// interval.
    #[schemars(extend("default" = 2000))]
    pub(super) timeout_ms: Setting<Int<10, 60_000>>,
    /// Number of successful probes in a row after which an address is healthy again.
    #[schemars(extend("default" = 3))]
    pub(super) rise: Setting<Int<1, 64>>,
    /// Number of failed probes among the last `window` probes after which an address is no longer
    /// healthy.
    #[schemars(extend("default" = 3))]
    pub(super) fall: Setting<Int<1, 64>>,
    /// Number of the last probes of an address that count for `fall`.
    #[schemars(extend("default" = 10))]
    pub(super) window: Setting<Int<1, 64>>,
    /// Whether an address that fails again within minutes needs more successful probes before it is
    /// healthy again: up to eight times `rise`.
    #[schemars(extend("default" = true))]
    pub(super) damping: Setting<bool>,
}
