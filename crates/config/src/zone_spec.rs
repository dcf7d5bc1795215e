//! The keys of `[[zone]]` in the file.

use avocet_zone::SerialPolicy;
use schemars::JsonSchema;
use serde::Deserialize;

use super::catalog::CatalogSetting;
use super::name::Name;
use super::primary::Primary;
use super::provider_kind::ProviderKind;
use super::setting::{Int, List, Setting, Text};
use super::signing::SignSetting;
use super::transfer::{AliasTransfer, NotifyTarget, TransferRule};
use super::update::UpdateRule;
use super::upstream_tls::Pin;
use super::view_item::ViewItem;
use super::zonemd::{ZonemdHash, ZonemdPolicy};

/// `[[zone]]`
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name"]))]
pub(super) struct ZoneSpec {
    /// Name of the zone.
    pub(super) name: Setting<Text<Name>>,
    /// The clients that see the zone: groups, networks such as "10.0.0.0/8", and listeners as
    /// "listener:NAME"; by default all clients that see no other zone with the same name.
    #[schemars(extend("default" = []))]
    pub(super) view: Setting<List<Text<ViewItem>>>,
    /// Master file, or the file that `provider` reads. The server writes the file of a zone with
    /// primaries; by default, this file is in the data directory.
    pub(super) file: Setting<String>,
    /// Format of the file: "file" for a master file, "csv" for a table of functions, addresses and
    /// machines, "json" for RRsets, "leases" for the leases of dnsmasq, ISC dhcpd or Kea; "http"
    /// for RRsets in JSON from `url`; "postgres" for tables of PowerDNS in the database of `url`.
    #[schemars(extend("default" = "file"))]
    pub(super) provider: Setting<Text<ProviderKind>>,
    /// Master file with records that the provider does not have, such as SOA and NS; "" for none.
    #[schemars(extend("default" = ""))]
    pub(super) head_file: Setting<String>,
    /// TTL of the records that have no TTL at the provider.
    #[schemars(extend("default" = 300))]
    pub(super) ttl_secs: Setting<Int<0, 604_800>>,
    /// Domain of the hosts, if the provider fills a zone of reverse names.
    #[schemars(extend("default" = ""))]
    pub(super) domain: Setting<String>,
    /// URL that the records are fetched from, without credentials. With `provider = "http"`,
    /// http:// or https:// with RRsets in JSON; with "postgres", "postgresql://USER@HOST/DATABASE",
    /// or "postgresql://USER@/DATABASE?host=/DIRECTORY" for the directory of a Unix socket.
    #[schemars(extend("default" = ""))]
    pub(super) url: Setting<String>,
    /// Seconds between two requests to `url`. A database may announce changes earlier.
    #[schemars(extend("default" = 300))]
    pub(super) refresh_secs: Setting<Int<5, 86_400>>,
    /// File with header fields for the requests to `url`, one on each line, such as "X-API-Key:
    /// SECRET"; "" for none.
    #[schemars(extend("default" = ""))]
    pub(super) headers_file: Setting<String>,
    /// File with the password of the user in a `url` with postgresql://; "" for none.
    #[schemars(extend("default" = ""))]
    pub(super) password_file: Setting<String>,
    /// Servers that the zone is transferred from, in the order of the attempts: addresses with or
    /// without port, or "tls://NAME@ADDRESS" for TLS. "key NAME" after a server sets the key for
    /// this server.
    #[schemars(extend("default" = []))]
    pub(super) primaries: Setting<List<Text<Primary>>>,
    /// Name of the key that signs the messages to and from primaries for which `primaries` names no
    /// key; "" signs none.
    #[schemars(extend("default" = ""))]
    pub(super) key: Setting<String>,
    /// The file with the authorities that issue the certificates of primaries with `tls://`, or of
    /// the server of `url`, in PEM form; "" for the authorities of the system.
    #[schemars(extend("default" = ""))]
    pub(super) ca: Setting<String>,
    /// SHA-256 digests of public keys in base64 (RFC 7858): each primary with `tls://` must have
    /// one of these keys. Without `ca`, the digests replace the check of the authority and the
    /// name.
    #[schemars(extend("default" = []))]
    pub(super) pins: Setting<List<Text<Pin>>>,
    /// The file with the certificate that this server shows to primaries with `tls://`, or to the
    /// server of `url`, in PEM form.
    #[schemars(extend("default" = ""))]
    pub(super) client_cert: Setting<String>,
    /// The file with the private key of `client-cert`, in PEM form.
    #[schemars(extend("default" = ""))]
    pub(super) client_key: Setting<String>,
    /// Seconds for which a changed file must stay the same before it is read.
    #[schemars(extend("default" = 10))]
    pub(super) settle_secs: Setting<Int<0, 3_600>>,
    /// Servers that may transfer the zone: a network, "key NAME" for all servers that sign with the
    /// key, or "192.0.2.0/24 key NAME" for both. "tls" at the end permits only TLS. By default, no
    /// server may transfer the zone.
    #[schemars(extend("default" = []))]
    pub(super) allow_transfer: Setting<List<Text<TransferRule>>>,
    /// Transfers of a zone with ALIAS records: "refuse" refuses them; "literal" sends the ALIAS
    /// records, for servers that answer them themselves; "addresses" publishes the zone with the
    /// addresses of the targets, and a new serial after each change of them.
    #[schemars(extend("default" = "refuse"))]
    pub(super) transfer_alias: Setting<Text<AliasTransfer>>,
    /// Servers that get NOTIFY after each change of the zone, with or without port; "192.0.2.53
    /// key NAME" signs the messages.
    #[schemars(extend("default" = []))]
    pub(super) notify: Setting<List<Text<NotifyTarget>>>,
    /// Clients that may update the zone (RFC 2136), each by the key that signs its requests: "key
    /// NAME". A network may come before the key. After the key, "exact NAME", "subtree NAME" or
    /// "self" limits the names, and "types A,AAAA" limits the types. By default, no client may
    /// update the zone.
    #[schemars(extend("default" = []))]
    pub(super) allow_update: Setting<List<Text<UpdateRule>>>,
    /// How the server raises the serial after an update: "increment", "date" or "unixtime".
    #[schemars(extend("default" = "increment"))]
    pub(super) serial: Setting<Text<SerialPolicy>>,
    /// Whether this server signs the zone (DNSSEC): true, or the name of a [[signing-policy]].
    #[schemars(extend("default" = false))]
    pub(super) sign: Setting<SignSetting>,
    /// Check of the digest in the ZONEMD record of the zone (RFC 8976): "ignore" accepts all zones;
    /// "verify" refuses a zone with a wrong digest; "require" also refuses a zone without a digest.
    #[schemars(extend("default" = "ignore"))]
    pub(super) zonemd: Setting<Text<ZonemdPolicy>>,
    /// Hash of the ZONEMD record that the server adds: "sha384", "sha512", or "none". By default
    /// "sha384" with `sign`, and "none" without.
    pub(super) zonemd_hash: Setting<Text<ZonemdHash>>,
    /// Role of the zone as a catalog (RFC 9432). "consumer" is for a catalog of another server:
    /// this server also serves its members, from the same primaries. "producer" is for a catalog
    /// that this server writes from `member-of` of other zones.
    #[schemars(extend("default" = "no"))]
    pub(super) catalog: Setting<Text<CatalogSetting>>,
    /// Name of the catalog of this server that lists the zone.
    #[schemars(extend("default" = ""))]
    pub(super) member_of: Setting<String>,
    /// Group of the zone in its catalog, by which consumers choose settings; "" for none.
    #[schemars(extend("default" = ""))]
    pub(super) group: Setting<String>,
}
