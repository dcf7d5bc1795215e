//! The keys of `[[pool]]`. [`spec`](super::spec) has the keys of the other tables.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::Deserialize;

use super::name::Name;
use super::pool::{AllDownWord, ModeWord, PoolItem};
use super::pool_probe::{DnsQuery, ProbeWord, RcodeWord, StatusRange};
use super::setting::{Int, List, Setting, Text};

/// `[[pool]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name", "addresses", "probe"]))]
pub(super) struct PoolSpec {
    /// Name with A and AAAA records for the healthy addresses.
    pub(super) name: Setting<Text<Name>>,
    /// Addresses, each with options after it: "192.0.2.1 weight 3 probe 10.0.0.1:8080 near
    /// country:DE,10.0.0.0/8".
    pub(super) addresses: Setting<List<Text<PoolItem>>>,
    /// TTL of the records.
    #[schemars(extend("default" = 30))]
    pub(super) ttl_secs: Setting<Int<0, 300>>,
    /// Choice among the healthy addresses for an answer: "all"; "first" in the order above;
    /// "weighted", drawn at random; "rotate", in turn; "consistent", the same for the same client;
    /// "nearest" to the client.
    #[schemars(extend("default" = "all"))]
    pub(super) mode: Setting<Text<ModeWord>>,
    /// Maximum number of addresses of an answer; by default 4, and 1 with mode "weighted" or
    /// "consistent".
    pub(super) answers: Setting<Int<1, 64>>,
    /// Contents of an answer if no address is healthy: "all" addresses, "none", or the addresses of
    /// `fallback`.
    #[schemars(extend("default" = "all"))]
    pub(super) when_all_down: Setting<Text<AllDownWord>>,
    /// Addresses for when-all-down = "fallback".
    #[schemars(extend("default" = []))]
    pub(super) fallback: Setting<List<Text<IpAddr>>>,
    /// How health is checked: "icmp", "tcp", "tls", "http", "https", "dns" or "command".
    pub(super) probe: Setting<Text<ProbeWord>>,
    /// Port of the probe; by default 443 for TLS and HTTPS, 80 for HTTP, 53 for DNS.
    pub(super) port: Setting<Int<1, 65_535>>,
    /// Host name for the probe, in the Host field and for the certificate; by default the name of
    /// the pool.
    #[schemars(extend("default" = ""))]
    pub(super) host: Setting<String>,
    /// Path of the HTTP request.
    #[schemars(extend("default" = "/"))]
    pub(super) path: Setting<String>,
    /// Status codes of HTTP that mean health, such as "200" or "200-399".
    #[schemars(extend("default" = ["200-299"]))]
    pub(super) status: Setting<List<Text<StatusRange>>>,
    /// Text that the first 64 KiB of the HTTP response must contain.
    #[schemars(extend("default" = ""))]
    pub(super) body: Setting<String>,
    /// Check the certificate of TLS and HTTPS: its issuers, and the host name.
    #[schemars(extend("default" = true))]
    pub(super) verify: Setting<bool>,
    /// File with the authorities that may issue the certificate (PEM); "" means the authorities of
    /// the system.
    #[schemars(extend("default" = ""))]
    pub(super) ca_file: Setting<String>,
    /// Days for which the certificate must still be valid.
    #[schemars(extend("default" = 0))]
    pub(super) certificate_days: Setting<Int<0, 3_650>>,
    /// Question of the DNS probe, such as "corp.example SOA"; by default A records of the pool's
    /// name.
    pub(super) query: Setting<Text<DnsQuery>>,
    /// Expected RCODE of the DNS response.
    #[schemars(extend("default" = "NOERROR"))]
    pub(super) rcode: Setting<Text<RcodeWord>>,
    /// Data that a record of the DNS response must have, as in a zone file; "" requires none.
    #[schemars(extend("default" = ""))]
    pub(super) answer: Setting<String>,
    /// Command of the probe with its arguments, without a shell; "{address}" becomes the address.
    /// Exit code 0 means health.
    #[schemars(extend("default" = []))]
    pub(super) command: Setting<List<String>>,
    /// Seconds between two probes of an address.
    #[schemars(extend("default" = 10))]
    pub(super) interval_secs: Setting<Int<1, 86_400>>,
    /// Milliseconds after which a probe has failed; at most the interval.
    #[schemars(extend("default" = 2000))]
    pub(super) timeout_ms: Setting<Int<10, 60_000>>,
    /// Successes in a row after which an address is healthy again.
    #[schemars(extend("default" = 3))]
    pub(super) rise: Setting<Int<1, 64>>,
    /// Failures within `window` after which an address is no longer healthy.
    #[schemars(extend("default" = 3))]
    pub(super) fall: Setting<Int<1, 64>>,
    /// Number of the latest probes that count.
    #[schemars(extend("default" = 10))]
    pub(super) window: Setting<Int<1, 64>>,
    /// Require more successes, up to eight times `rise`, from an address that keeps failing.
    #[schemars(extend("default" = true))]
    pub(super) damping: Setting<bool>,
}
