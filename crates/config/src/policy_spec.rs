//! What may be written in the file about filtering: `[policy]`, `[[list]]`, `[[group]]`,
//! `[[client]]`, `[[rule]]`.
//!
//! As in [`spec`](super::spec), the comments are what `avocet config schema` shows.

use std::net::{IpAddr, SocketAddr};

use avocet_policy::rule::{ActionKind, BlockForm, LimitKey, Over};
use schemars::JsonSchema;
use serde::Deserialize;

use super::name::Name;
use super::policy::{ListFormat, ListKind, Refresh};
use super::setting::{Int, List, Setting, Text};

/// `[policy]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct PolicySpec {
    /// What is answered for a blocked name: "zero" (0.0.0.0 and ::), "nxdomain", "nodata",
    /// "refused" or "addresses".
    #[schemars(extend("default" = "zero"))]
    pub(super) block_answer: Setting<Text<BlockForm>>,
    /// With "addresses": those that a blocked A or AAAA question gets; those of `block-page` if not
    /// written.
    #[schemars(extend("default" = []))]
    pub(super) block_addresses: Setting<List<Text<IpAddr>>>,
    /// Time to live of such answers.
    #[schemars(extend("default" = 60))]
    pub(super) block_ttl_secs: Setting<Int<0, 86_400>>,
    /// Addresses with port on which a page says over HTTP which name was blocked, and why:
    /// "192.168.1.1:80".
    #[schemars(extend("default" = []))]
    pub(super) block_page: Setting<List<Text<SocketAddr>>>,
    /// Time zone of schedules that name none, such as "Europe/Berlin".
    #[schemars(extend("default" = "UTC"))]
    pub(super) time_zone: Setting<String>,
    /// Take private addresses out of the answers for public names (DNS rebinding).
    #[schemars(extend("default" = false))]
    pub(super) block_private: Setting<bool>,
    /// Names that may have private addresses.
    #[schemars(extend("default" = []))]
    pub(super) private_exceptions: Setting<List<Text<Name>>>,
    /// The leases of the DHCP server, as dnsmasq, ISC dhcpd or Kea (CSV) write them: MAC addresses
    /// and names of clients.
    pub(super) leases: Setting<String>,
    /// A MaxMind DB file of countries: rules may ask for `geo.country` then.
    pub(super) geo_database: Setting<String>,
}

/// `[[list]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name"]))]
pub(super) struct ListTable {
    /// How rules, groups and explanations call it.
    pub(super) name: Setting<String>,
    /// Where it is fetched from: http or https.
    pub(super) url: Setting<String>,
    /// A file, in place of `url`.
    pub(super) file: Setting<String>,
    /// "auto", "hosts", "domains", "wildcards", "adblock", "dnsmasq", "unbound", "pihole-regex" or
    /// "rpz".
    #[schemars(extend("default" = "auto"))]
    pub(super) format: Setting<Text<ListFormat>>,
    /// "block", or "allow": names that no list blocks.
    #[schemars(extend("default" = "block"))]
    pub(super) kind: Setting<Text<ListKind>>,
    /// How often it is fetched, or the file looked at: "30m", "24h", "7d".
    #[schemars(extend("default" = "24h"))]
    pub(super) refresh: Setting<Text<Refresh>>,
    /// Whether it may answer with addresses and aliases of its choice, and not only block; true for
    /// format "rpz".
    #[schemars(extend("default" = false))]
    pub(super) rewrites: Setting<bool>,
    /// Words that rules and people find it by.
    #[schemars(extend("default" = []))]
    pub(super) tags: Setting<List<String>>,
}

/// `[[group]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name"]))]
pub(super) struct GroupTable {
    /// Its name; "default" is the group of all clients that are in no other.
    pub(super) name: Setting<String>,
    /// Addresses, networks, MAC addresses, host names, names of clients.
    #[schemars(extend("default" = []))]
    pub(super) clients: Setting<List<String>>,
    /// Lists in force for it; all of them if not written.
    pub(super) lists: Setting<List<String>>,
}

/// `[[client]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name", "ids"]))]
pub(super) struct ClientTable {
    /// Its name.
    pub(super) name: Setting<String>,
    /// Addresses, networks, MAC addresses and host names (of leases or PTR records) that are this
    /// client.
    pub(super) ids: Setting<List<String>>,
    /// Groups it is in, besides those that name it.
    #[schemars(extend("default" = []))]
    pub(super) groups: Setting<List<String>>,
}

/// `[[rule]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name", "when", "action"]))]
pub(super) struct RuleTable {
    /// Its name.
    pub(super) name: Setting<String>,
    /// The condition, an expression such as 'qname.under("example.com") && client.group("kids")'.
    pub(super) when: Setting<String>,
    /// "block", "allow", "redirect", "forward", "safe-search", "ttl", "drop", "truncate",
    /// "rate-limit" or "tag".
    pub(super) action: Setting<Text<ActionKind>>,
    /// Whether it holds.
    #[schemars(extend("default" = true))]
    pub(super) enabled: Setting<bool>,
    /// Only record and count where it holds; nothing is done.
    #[schemars(extend("default" = false))]
    pub(super) log_only: Setting<bool>,
    /// Rules with lower numbers come first, equal ones as they are written.
    #[schemars(extend("default" = 0))]
    pub(super) priority: Setting<Int<0, 1_000_000>>,
    /// Time zone of `now` in the condition; that of `[policy]` if not written.
    pub(super) time_zone: Setting<String>,
    /// With "block": "nxdomain", "nodata", "refused", "zero" or "addresses"; as `[policy]` says if
    /// not written.
    pub(super) answer: Setting<Text<BlockForm>>,
    /// With "redirect": addresses, or one name. With "block" and "addresses": the addresses. With
    /// "forward": servers.
    pub(super) to: Setting<List<String>>,
    /// With "ttl": the least TTL.
    pub(super) min_secs: Setting<Int<0, 604_800>>,
    /// With "ttl": the greatest TTL. With "redirect" and "block": the TTL.
    pub(super) max_secs: Setting<Int<0, 604_800>>,
    /// With "rate-limit": queries a second.
    pub(super) rps: Setting<Int<1, 1_000_000>>,
    /// With "rate-limit": queries at once; twice `rps` if not written.
    pub(super) burst: Setting<Int<1, 1_000_000>>,
    /// With "rate-limit": what has a count of its own: "client", "rule", "domain" or
    /// "client-domain".
    pub(super) per: Setting<Text<LimitKey>>,
    /// With "rate-limit": what becomes of queries above it: "drop", "refuse" or "truncate".
    pub(super) over: Setting<Text<Over>>,
    /// With "tag": the word that explanations show.
    pub(super) tag: Setting<String>,
}
