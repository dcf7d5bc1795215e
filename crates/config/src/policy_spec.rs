//! The tables of the policy: `[policy]`, `[[list]]`, `[[group]]`,
//! `[[client]]`, `[[rule]]`.
//!
//! As in [`spec`](super::spec), `avocet config schema` shows the comments.

use std::net::{IpAddr, SocketAddr};

use avocet_policy::rule::{ActionKind, BlockForm, LimitKey, Over};
use schemars::JsonSchema;
use serde::Deserialize;

use super::name::Name;
use super::policy::{ListFormat, ListKind, Refresh};
use super::primary::Primary;
use super::privacy::Privacy;
use super::setting::{Int, List, Setting, Text};
use super::upstream_tls::Pin;

/// `[policy]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct PolicySpec {
    /// Response for a blocked name: "zero" (0.0.0.0 and ::), "nxdomain", "nodata", "refused" or
    /// "addresses".
    #[schemars(extend("default" = "zero"))]
    pub(super) block_answer: Setting<Text<BlockForm>>,
    /// With "addresses": the addresses in responses to blocked A and AAAA queries; by default those
    /// of `block-page`.
    #[schemars(extend("default" = []))]
    pub(super) block_addresses: Setting<List<Text<IpAddr>>>,
    /// TTL of responses for blocked names.
    #[schemars(extend("default" = 60))]
    pub(super) block_ttl_secs: Setting<Int<0, 86_400>>,
    /// Addresses with port that serve the block page over HTTP: "192.168.1.1:80".
    #[schemars(extend("default" = []))]
    pub(super) block_page: Setting<List<Text<SocketAddr>>>,
    /// Default time zone of rules, such as "Europe/Berlin".
    #[schemars(extend("default" = "UTC"))]
    pub(super) time_zone: Setting<String>,
    /// Remove private addresses from answers for public names (DNS rebinding).
    #[schemars(extend("default" = false))]
    pub(super) block_private: Setting<bool>,
    /// Names that may have private addresses.
    #[schemars(extend("default" = []))]
    pub(super) private_exceptions: Setting<List<Text<Name>>>,
    /// Answer use-application-dns.net with NXDOMAIN, so that Firefox does not turn DNS over HTTPS
    /// on by itself. The default is true if there are lists.
    pub(super) block_firefox_dns: Setting<bool>,
    /// Answer mask.icloud.com and mask-h2.icloud.com with NXDOMAIN, so that devices of Apple do not
    /// use Private Relay in this network.
    #[schemars(extend("default" = false))]
    pub(super) block_private_relay: Setting<bool>,
    /// Identify a client by the identifier that its device sends over TLS or HTTPS (`ids =
    /// ["id:WORD"]`), even if the address of the device belongs to another client or group. Anybody
    /// can send any identifier.
    #[schemars(extend("default" = false))]
    pub(super) ids_override_addresses: Setting<bool>,
    /// Lease file of the DHCP server (dnsmasq, ISC dhcpd or Kea CSV), for the MAC addresses and
    /// names of clients.
    pub(super) leases: Setting<String>,
    /// MaxMind DB file of countries, for rules with `geo.country`.
    pub(super) geo_database: Setting<String>,
}

/// `[[list]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name"]))]
pub(super) struct ListTable {
    /// Name in rules, groups and explanations.
    pub(super) name: Setting<String>,
    /// Address to fetch the list from, http or https.
    pub(super) url: Setting<String>,
    /// File to read, instead of `url`.
    pub(super) file: Setting<String>,
    /// Servers from which a zone of format "rpz" is transferred, instead of `url`. "key NAME" after
    /// a server sets the key for this server.
    #[schemars(extend("default" = []))]
    pub(super) primaries: Setting<List<Text<Primary>>>,
    /// Name of the zone at the primaries.
    pub(super) zone: Setting<Text<Name>>,
    /// Name of the key that signs the messages to and from primaries for which `primaries` names no
    /// key; "" signs none.
    #[schemars(extend("default" = ""))]
    pub(super) key: Setting<String>,
    /// The file with the authorities that issue the certificates of primaries with `tls://`, in PEM
    /// form; "" for the authorities of the system.
    #[schemars(extend("default" = ""))]
    pub(super) ca: Setting<String>,
    /// SHA-256 digests of public keys in base64 (RFC 7858): each primary with `tls://` must have
    /// one of these keys. Without `ca`, the digests replace the check of the authority and the
    /// name.
    #[schemars(extend("default" = []))]
    pub(super) pins: Setting<List<Text<Pin>>>,
    /// The file with the certificate that this server shows to primaries with `tls://`, in PEM
    /// form.
    #[schemars(extend("default" = ""))]
    pub(super) client_cert: Setting<String>,
    /// The file with the private key of `client-cert`, in PEM form.
    #[schemars(extend("default" = ""))]
    pub(super) client_key: Setting<String>,
    /// Format of the list: "auto", "hosts", "domains", "wildcards", "adblock", "dnsmasq",
    /// "unbound", "pihole-regex" or "rpz".
    #[schemars(extend("default" = "auto"))]
    pub(super) format: Setting<Text<ListFormat>>,
    /// Effect of the list: "block" blocks its names; with "allow", no list blocks its names.
    #[schemars(extend("default" = "block"))]
    pub(super) kind: Setting<Text<ListKind>>,
    /// How often to check the URL for changes: "30m", "24h", "7d".
    #[schemars(extend("default" = "24h"))]
    pub(super) refresh: Setting<Text<Refresh>>,
    /// Whether the list may answer with its own addresses and aliases, not only block; true for
    /// format "rpz".
    #[schemars(extend("default" = false))]
    pub(super) rewrites: Setting<bool>,
    /// Keywords by which rules can refer to the list.
    #[schemars(extend("default" = []))]
    pub(super) tags: Setting<List<String>>,
}

/// `[[group]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name"]))]
pub(super) struct GroupTable {
    /// Name of the group; "default" is for clients that are in no other group.
    pub(super) name: Setting<String>,
    /// Addresses, networks, MAC addresses, host names, names of clients.
    #[schemars(extend("default" = []))]
    pub(super) clients: Setting<List<String>>,
    /// Lists that apply to the group; by default all.
    pub(super) lists: Setting<List<String>>,
    /// How much the query log stores about clients of the group, with the values of `privacy` of
    /// `[query-log]`; by default the value set there. If groups of a client differ, the strictest
    /// value applies.
    pub(super) privacy: Setting<Text<Privacy>>,
}

/// `[[client]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name", "ids"]))]
pub(super) struct ClientTable {
    /// Name of the client.
    pub(super) name: Setting<String>,
    /// Addresses, networks, MAC addresses and host names (from leases or PTR records) of this
    /// client, and the identities that its device sends or proves over TLS and HTTPS: "id:WORD",
    /// "certificate:NAME", "pin:DIGEST".
    pub(super) ids: Setting<List<String>>,
    /// Groups of the client, in addition to groups that name it.
    #[schemars(extend("default" = []))]
    pub(super) groups: Setting<List<String>>,
    /// How much the query log stores about the client; by default the setting of its groups.
    pub(super) privacy: Setting<Text<Privacy>>,
}

/// `[[rule]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name", "when", "action"]))]
pub(super) struct RuleTable {
    /// Name of the rule.
    pub(super) name: Setting<String>,
    /// The condition, an expression such as 'qname.under("example.com") && client.group("kids")'.
    pub(super) when: Setting<String>,
    /// Action of the rule: "block", "allow", "redirect", "forward", "safe-search", "ttl", "drop",
    /// "truncate", "rate-limit" or "tag".
    pub(super) action: Setting<Text<ActionKind>>,
    /// Whether the rule applies.
    #[schemars(extend("default" = true))]
    pub(super) enabled: Setting<bool>,
    /// Count matches, and do nothing else.
    #[schemars(extend("default" = false))]
    pub(super) log_only: Setting<bool>,
    /// Lower numbers come first; rules with equal numbers apply in file order.
    #[schemars(extend("default" = 0))]
    pub(super) priority: Setting<Int<0, 1_000_000>>,
    /// Time zone of `now` in the condition; by default that of `[policy]`.
    pub(super) time_zone: Setting<String>,
    /// With "block": "nxdomain", "nodata", "refused", "zero" or "addresses"; by default as in
    /// `[policy]`.
    pub(super) answer: Setting<Text<BlockForm>>,
    /// With "redirect": addresses, or one name. With "block" and "addresses": the addresses. With
    /// "forward": servers.
    pub(super) to: Setting<List<String>>,
    /// With "ttl": the lowest TTL.
    pub(super) min_secs: Setting<Int<0, 604_800>>,
    /// With "ttl": the highest TTL. With "redirect" and "block": the TTL.
    pub(super) max_secs: Setting<Int<0, 604_800>>,
    /// With "rate-limit": queries per second.
    pub(super) rps: Setting<Int<1, 1_000_000>>,
    /// With "rate-limit": the burst in queries; by default twice `rps`.
    pub(super) burst: Setting<Int<1, 1_000_000>>,
    /// With "rate-limit": the unit that has its own limit: "client", "rule", "domain" or
    /// "client-domain".
    pub(super) per: Setting<Text<LimitKey>>,
    /// With "rate-limit": how queries over the limit are handled: "drop", "refuse" or "truncate".
    pub(super) over: Setting<Text<Over>>,
    /// With "tag": keyword to show in explanations.
    pub(super) tag: Setting<String>,
}
