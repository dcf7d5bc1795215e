//! `[[zone]]` as written in the file.

use avocet_zone::SerialPolicy;
use schemars::JsonSchema;
use serde::Deserialize;

use super::name::Name;
use super::provided::ProviderKind;
use super::setting::{Int, List, Setting, Text};
use super::signing::SignSetting;
use super::transfer::{NotifyTarget, TransferRule};
use super::update::UpdateRule;
use super::upstream::ServerAddress;

/// `[[zone]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name"]))]
pub(super) struct ZoneSpec {
    /// Name of the zone.
    pub(super) name: Setting<Text<Name>>,
    /// Master file, or the file that `provider` reads. That of a zone with primaries is written by
    /// the server; by default it is in the data directory.
    pub(super) file: Setting<String>,
    /// Format of the file: "file" for a master file, "csv" for a table of functions, addresses and
    /// machines, "json" for RRsets, "leases" for the leases of dnsmasq, ISC dhcpd or Kea.
    #[schemars(extend("default" = "file"))]
    pub(super) provider: Setting<Text<ProviderKind>>,
    /// Master file with records that a provider does not bring, such as SOA and NS; "" for none.
    #[schemars(extend("default" = ""))]
    pub(super) head_file: Setting<String>,
    /// TTL of the records of a provider, if it brings none.
    #[schemars(extend("default" = 300))]
    pub(super) ttl_secs: Setting<Int<0, 604_800>>,
    /// Domain of the hosts, if the provider fills a zone of reverse names.
    #[schemars(extend("default" = ""))]
    pub(super) domain: Setting<String>,
    /// Servers that the zone is transferred from, as addresses with or without port, in the order
    /// in which they are asked.
    #[schemars(extend("default" = []))]
    pub(super) primaries: Setting<List<Text<ServerAddress>>>,
    /// Name of the key that signs the messages to and from the primaries; "" signs none.
    #[schemars(extend("default" = ""))]
    pub(super) key: Setting<String>,
    /// Seconds for which a changed file must stay the same before it is read.
    #[schemars(extend("default" = 10))]
    pub(super) settle_secs: Setting<Int<0, 3_600>>,
    /// Servers that may transfer the zone: a network, "key NAME" for all that sign with the key, or
    /// "192.0.2.0/24 key NAME" for both. Without it, none may.
    #[schemars(extend("default" = []))]
    pub(super) allow_transfer: Setting<List<Text<TransferRule>>>,
    /// Servers that get NOTIFY after each change of the zone, with or without port; "192.0.2.53
    /// key NAME" signs the messages.
    #[schemars(extend("default" = []))]
    pub(super) notify: Setting<List<Text<NotifyTarget>>>,
    /// Clients that may update the zone (RFC 2136), each by the key that signs its requests: "key
    /// NAME", with a network before it, and behind it "exact NAME", "subtree NAME" or "self", and
    /// "types A,AAAA". Without it, none may.
    #[schemars(extend("default" = []))]
    pub(super) allow_update: Setting<List<Text<UpdateRule>>>,
    /// How the server raises the serial after an update: "increment", "date" or "unixtime".
    #[schemars(extend("default" = "increment"))]
    pub(super) serial: Setting<Text<SerialPolicy>>,
    /// Whether this server signs the zone (DNSSEC): true, or the name of a [[signing-policy]].
    #[schemars(extend("default" = false))]
    pub(super) sign: Setting<SignSetting>,
}
