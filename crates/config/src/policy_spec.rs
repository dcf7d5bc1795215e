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

/// The table `[policy]`: settings for the filtering of queries.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct PolicySpec {
    /// Response for a blocked name: "zero" (the addresses 0.0.0.0 and ::), "nxdomain", "nodata",
    /// "refused", or "addresses" (those of `block-addresses`).
    #[schemars(extend("default" = "zero"))]
    pub(super) block_answer: Setting<Text<BlockForm>>,
    /// Addresses in responses to blocked A and AAAA queries, if `block-answer` is "addresses". By
    /// default, the addresses of `block-page`.
    #[schemars(extend("default" = []))]
    pub(super) block_addresses: Setting<List<Text<IpAddr>>>,
    /// TTL in seconds of responses for blocked names.
    #[schemars(extend("default" = 60))]
    pub(super) block_ttl_secs: Setting<Int<0, 86_400>>,
    /// Addresses with port, such as "192.168.1.1:80", at which the server shows the block page over
    /// HTTP. The block page tells a user why a name is blocked. The server reads this key only at
    /// the start.
    #[schemars(extend("default" = []))]
    pub(super) block_page: Setting<List<Text<SocketAddr>>>,
    /// Time zone of rules without their own `time-zone`, such as "Europe/Berlin".
    #[schemars(extend("default" = "UTC"))]
    pub(super) time_zone: Setting<String>,
    /// Block answers for public names that contain private addresses. Otherwise, a web page could
    /// attack hosts in this network through such a name (DNS rebinding).
    #[schemars(extend("default" = false))]
    pub(super) block_private: Setting<bool>,
    /// Names that may have private addresses in spite of `block-private`, with all names below
    /// them.
    #[schemars(extend("default" = []))]
    pub(super) private_exceptions: Setting<List<Text<Name>>>,
    /// Answer use-application-dns.net with NXDOMAIN. Firefox then does not turn on DNS over HTTPS
    /// by itself. By default, true if the configuration has lists.
    pub(super) block_firefox_dns: Setting<bool>,
    /// Answer mask.icloud.com and mask-h2.icloud.com with NXDOMAIN. Devices of Apple then do not
    /// use Private Relay in this network.
    #[schemars(extend("default" = false))]
    pub(super) block_private_relay: Setting<bool>,
    /// Whether the identifier that a device sends over TLS, HTTPS or QUIC (`ids = ["id:WORD"]`)
    /// takes precedence over its address. If false, the server ignores an identifier if the address
    /// belongs to a client or group. Anybody can send any identifier.
    #[schemars(extend("default" = false))]
    pub(super) ids_override_addresses: Setting<bool>,
    /// Lease file of the DHCP server: dnsmasq, ISC dhcpd, or Kea in CSV form. From this file, the
    /// server learns the MAC addresses and names of clients. By default, there is none.
    pub(super) leases: Setting<String>,
    /// MaxMind DB file with the countries of addresses, for rules that test `geo.country`. By
    /// default, there is none.
    pub(super) geo_database: Setting<String>,
}

/// A table `[[list]]`: names that are blocked or allowed. The names come from `url`, `file` or
/// `primaries`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name"]))]
pub(super) struct ListTable {
    /// Name of the list, which rules, groups and explanations use.
    pub(super) name: Setting<String>,
    /// URL from which the server fetches the list, with http:// or https://.
    pub(super) url: Setting<String>,
    /// File from which the server reads the list, instead of `url`.
    pub(super) file: Setting<String>,
    /// Servers from which a response policy zone (format "rpz") is transferred, instead of `url`.
    /// "key NAME" after a server is the key for this server.
    #[schemars(extend("default" = []))]
    pub(super) primaries: Setting<List<Text<Primary>>>,
    /// Name of the response policy zone at the `primaries`.
    pub(super) zone: Setting<Text<Name>>,
    /// Name of the `[[key]]` that signs the messages to and from primaries without "key NAME"; ""
    /// signs none.
    #[schemars(extend("default" = ""))]
    pub(super) key: Setting<String>,
    /// File with the certificates of the authorities that may issue the certificates of primaries
    /// with `tls://`, in PEM form; "" trusts the authorities of the system.
    #[schemars(extend("default" = ""))]
    pub(super) ca: Setting<String>,
    /// SHA-256 digests of public keys in base64 (RFC 7858). Each primary with `tls://` must have
    /// one of these keys. If `ca` is not set, the server then checks neither the authority nor the
    /// name of the certificate.
    #[schemars(extend("default" = []))]
    pub(super) pins: Setting<List<Text<Pin>>>,
    /// File with the certificate that this server shows to primaries with `tls://`, in PEM form; ""
    /// shows none.
    #[schemars(extend("default" = ""))]
    pub(super) client_cert: Setting<String>,
    /// File with the private key of `client-cert`, in PEM form.
    #[schemars(extend("default" = ""))]
    pub(super) client_key: Setting<String>,
    /// Format of the text: "hosts", "domains", "wildcards", "adblock", "dnsmasq", "unbound",
    /// "pihole-regex", "rpz", or "auto", which detects the format.
    #[schemars(extend("default" = "auto"))]
    pub(super) format: Setting<Text<ListFormat>>,
    /// Effect of the list: "block" blocks its names; with "allow", no list blocks these names.
    #[schemars(extend("default" = "block"))]
    pub(super) kind: Setting<Text<ListKind>>,
    /// How often the server checks the URL for changes, from a minute to a year, such as "30m",
    /// "24h" or "7d".
    #[schemars(extend("default" = "24h"))]
    pub(super) refresh: Setting<Text<Refresh>>,
    /// Whether the list may also answer with its own addresses and aliases. If false, the list can
    /// only block or allow. By default, true for format "rpz".
    #[schemars(extend("default" = false))]
    pub(super) rewrites: Setting<bool>,
    /// Keywords for people, which the status of the list shows. They have no other effect.
    #[schemars(extend("default" = []))]
    pub(super) tags: Setting<List<String>>,
}

/// A table `[[group]]`: a set of clients to which the same lists apply.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name"]))]
pub(super) struct GroupTable {
    /// Name of the group. The group "default" has the clients that are in no other group.
    pub(super) name: Setting<String>,
    /// The clients in the group: addresses, networks, MAC addresses, host names, or names of
    /// `[[client]]`.
    #[schemars(extend("default" = []))]
    pub(super) clients: Setting<List<String>>,
    /// Names of the lists that apply to the group. By default, all lists.
    pub(super) lists: Setting<List<String>>,
    /// How much the query log stores about the clients of the group; the values are those of
    /// `privacy` in `[query-log]`, which is also the default. If the groups of a client differ, the
    /// strictest value applies.
    pub(super) privacy: Setting<Text<Privacy>>,
}

/// A table `[[client]]`: a name for one client.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name", "ids"]))]
pub(super) struct ClientTable {
    /// Name of the client, for rules, commands and the query log.
    pub(super) name: Setting<String>,
    /// Addresses, networks, MAC addresses and host names of the client, and the identities that its
    /// device sends or proves over TLS, HTTPS or QUIC: "id:WORD", "certificate:NAME" or
    /// "pin:DIGEST". Host names come from leases or PTR records.
    pub(super) ids: Setting<List<String>>,
    /// Groups of the client, in addition to the groups that name the client in `clients`.
    #[schemars(extend("default" = []))]
    pub(super) groups: Setting<List<String>>,
    /// How much the query log stores about the client; the values are those of `privacy` in
    /// `[query-log]`. By default, the value of the groups of the client.
    pub(super) privacy: Setting<Text<Privacy>>,
}

/// A table `[[rule]]`: an action for queries that meet a condition.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name", "when", "action"]))]
pub(super) struct RuleTable {
    /// Name of the rule, for explanations and the query log.
    pub(super) name: Setting<String>,
    /// Condition, an expression in the syntax of CEL, such as 'qname.under("example.com") &&
    /// client.group("kids")'.
    pub(super) when: Setting<String>,
    /// Action of the rule: "block", "allow", "redirect", "forward", "safe-search", "ttl", "drop",
    /// "truncate", "rate-limit" or "tag".
    pub(super) action: Setting<Text<ActionKind>>,
    /// Whether the rule applies. A rule that does not apply is still checked for errors.
    #[schemars(extend("default" = true))]
    pub(super) enabled: Setting<bool>,
    /// Whether the rule only counts the queries that match, and does not act.
    #[schemars(extend("default" = false))]
    pub(super) log_only: Setting<bool>,
    /// Place of the rule in the order of rules: lower numbers come first, and rules with equal
    /// numbers apply in file order.
    #[schemars(extend("default" = 0))]
    pub(super) priority: Setting<Int<0, 1_000_000>>,
    /// Time zone of `now` in the condition. By default, the time zone of `[policy]`.
    pub(super) time_zone: Setting<String>,
    /// Form of the response for action "block": "nxdomain", "nodata", "refused", "zero" or
    /// "addresses". By default, the form in `[policy]`.
    pub(super) answer: Setting<Text<BlockForm>>,
    /// For action "redirect": addresses, or one name. For "block" with answer "addresses": these
    /// addresses. For "forward": servers, with ":PORT" if it is not 53, or the zone of one
    /// `[[forward]]`.
    pub(super) to: Setting<List<String>>,
    /// For action "ttl": the lowest TTL in seconds.
    pub(super) min_secs: Setting<Int<0, 604_800>>,
    /// For action "ttl": the highest TTL in seconds. For "redirect" and "block": the TTL of the
    /// response in seconds.
    pub(super) max_secs: Setting<Int<0, 604_800>>,
    /// For action "rate-limit": maximum number of answered queries per second.
    pub(super) rps: Setting<Int<1, 1_000_000>>,
    /// For action "rate-limit": number of queries that may arrive at once. By default, twice `rps`.
    pub(super) burst: Setting<Int<1, 1_000_000>>,
    /// For action "rate-limit": the queries that share a limit: those of a "client" (default),
    /// those of the "rule", those for a "domain" (a whole queried name), or those of a client for a
    /// domain ("client-domain").
    pub(super) per: Setting<Text<LimitKey>>,
    /// For action "rate-limit": what happens to queries over the limit: "refuse" (default), "drop"
    /// or "truncate".
    pub(super) over: Setting<Text<Over>>,
    /// For action "tag": a keyword of at most 64 octets, required. The rule only counts its
    /// matches, and the keyword has no further effect.
    pub(super) tag: Setting<String>,
}
