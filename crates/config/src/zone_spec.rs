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

/// A table `[[zone]]`: a zone that the server hosts as an authoritative server.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline, extend("required" = ["name"]))]
pub(super) struct ZoneSpec {
    /// Name of the zone.
    pub(super) name: Setting<Text<Name>>,
    /// The clients that see the zone: groups, networks such as "10.0.0.0/8", and listeners as
    /// "listener:NAME". By default, all clients that see no other zone with the same name.
    #[schemars(extend("default" = []))]
    pub(super) view: Setting<List<Text<ViewItem>>>,
    /// Master file, or another file in the format that `provider` names. If the zone has
    /// `primaries`, the server writes the transferred zone to this file. By default, the file is
    /// then in the data directory. The providers "http" and "postgres" have no file.
    pub(super) file: Setting<String>,
    /// Source and format of the records: "file", a master file; "csv", a table of functions,
    /// addresses and machines; "json", RRsets in JSON; "leases", the leases of dnsmasq, ISC dhcpd
    /// or Kea; "http", RRsets in JSON from `url`; "postgres", tables of PowerDNS in the database of
    /// `url`.
    #[schemars(extend("default" = "file"))]
    pub(super) provider: Setting<Text<ProviderKind>>,
    /// Master file with records that the provider does not have, such as SOA and NS; "" for none.
    /// For providers other than "file".
    #[schemars(extend("default" = ""))]
    pub(super) head_file: Setting<String>,
    /// TTL in seconds of records without a TTL at the provider. For providers other than "file".
    #[schemars(extend("default" = 300))]
    pub(super) ttl_secs: Setting<Int<0, 604_800>>,
    /// Domain of the hosts in a zone of reverse names, for the providers "csv" and "leases". PTR
    /// records then name hosts in this domain.
    #[schemars(extend("default" = ""))]
    pub(super) domain: Setting<String>,
    /// URL from which the server fetches the records, without a password. For provider "http":
    /// http:// or https://. For "postgres": "postgresql://USER@HOST/DATABASE", or
    /// "postgresql://USER@/DATABASE?host=/DIRECTORY" for the directory of a Unix socket.
    #[schemars(extend("default" = ""))]
    pub(super) url: Setting<String>,
    /// Number of seconds between two requests to `url`. A database may announce changes earlier.
    #[schemars(extend("default" = 300))]
    pub(super) refresh_secs: Setting<Int<5, 86_400>>,
    /// File with header fields for the requests to an HTTP `url`, one on each line, such as
    /// "X-API-Key: SECRET"; "" for none. Other accounts must not be able to read the file (mode
    /// 0640 or less).
    #[schemars(extend("default" = ""))]
    pub(super) headers_file: Setting<String>,
    /// File with the password for a PostgreSQL `url` as its only line; "" for none. Other accounts
    /// must not be able to read the file (mode 0640 or less).
    #[schemars(extend("default" = ""))]
    pub(super) password_file: Setting<String>,
    /// Servers from which the zone is transferred, in the order of the attempts: addresses with or
    /// without port, or "tls://NAME@ADDRESS" for TLS. "key NAME" after a server is the key for this
    /// server.
    #[schemars(extend("default" = []))]
    pub(super) primaries: Setting<List<Text<Primary>>>,
    /// Name of the `[[key]]` that signs the messages to and from primaries without "key NAME"; ""
    /// signs none.
    #[schemars(extend("default" = ""))]
    pub(super) key: Setting<String>,
    /// File with the certificates of the authorities that may issue the certificates of primaries
    /// with `tls://`, or of the server of `url`, in PEM form; "" trusts the authorities of the
    /// system.
    #[schemars(extend("default" = ""))]
    pub(super) ca: Setting<String>,
    /// SHA-256 digests of public keys in base64 (RFC 7858). Each primary with `tls://` must have
    /// one of these keys. If `ca` is not set, the server then checks neither the authority nor the
    /// name of the certificate.
    #[schemars(extend("default" = []))]
    pub(super) pins: Setting<List<Text<Pin>>>,
    /// File with the certificate that this server shows to primaries with `tls://`, or to the
    /// server of `url`, in PEM form; "" shows none.
    #[schemars(extend("default" = ""))]
    pub(super) client_cert: Setting<String>,
    /// File with the private key of `client-cert`, in PEM form.
    #[schemars(extend("default" = ""))]
    pub(super) client_key: Setting<String>,
    /// Number of seconds for which a changed file must stay the same before the server reads it.
    /// For provider "leases", the default is 1.
    #[schemars(extend("default" = 10))]
    pub(super) settle_secs: Setting<Int<0, 3_600>>,
    /// Servers that may transfer the zone: a network; "key NAME" for all servers that sign their
    /// requests with this key; or a network and a key, which must then both match. "tls" at the end
    /// permits only TLS. By default, no server may transfer the zone.
    #[schemars(extend("default" = []))]
    pub(super) allow_transfer: Setting<List<Text<TransferRule>>>,
    /// What happens to a transfer if the zone has ALIAS records: "refuse" refuses it. "literal"
    /// sends the ALIAS records, for servers that can answer them. "addresses" publishes the
    /// addresses of the targets instead, with a new serial when they change.
    #[schemars(extend("default" = "refuse"))]
    pub(super) transfer_alias: Setting<Text<AliasTransfer>>,
    /// Servers that get NOTIFY after each change of the zone: addresses with or without port.
    /// "192.0.2.53 key NAME" signs the messages.
    #[schemars(extend("default" = []))]
    pub(super) notify: Setting<List<Text<NotifyTarget>>>,
    /// Clients that may update the zone (RFC 2136), each by the key that signs its requests: "key
    /// NAME". A network may come before it. After it, "exact NAME", "subtree NAME" or "self" limits
    /// the names, and "types A,AAAA" limits the types. By default, no client may update the zone.
    #[schemars(extend("default" = []))]
    pub(super) allow_update: Setting<List<Text<UpdateRule>>>,
    /// How the server raises the serial after an update: "increment" adds one; "date" uses the date
    /// and two digits; "unixtime" uses the seconds since 1970.
    #[schemars(extend("default" = "increment"))]
    pub(super) serial: Setting<Text<SerialPolicy>>,
    /// Whether this server signs the zone with DNSSEC: true, false, or the name of a
    /// `[[signing-policy]]`.
    #[schemars(extend("default" = false))]
    pub(super) sign: Setting<SignSetting>,
    /// Check of the digest in the ZONEMD record of the zone (RFC 8976): "ignore" checks nothing;
    /// "verify" refuses a zone with a wrong digest; "require" also refuses a zone without a digest.
    #[schemars(extend("default" = "ignore"))]
    pub(super) zonemd: Setting<Text<ZonemdPolicy>>,
    /// Hash of the digest that the server adds to the zone in a ZONEMD record: "sha384", "sha512",
    /// or "none", which adds no digest. By default, "sha384" if the server signs the zone, and
    /// otherwise "none".
    pub(super) zonemd_hash: Setting<Text<ZonemdHash>>,
    /// Role of the zone as a catalog, which lists other zones (RFC 9432): "no"; "consumer", a
    /// catalog of another server with zones that this server transfers and serves too; "producer",
    /// a catalog that this server writes from `member-of` of other zones.
    #[schemars(extend("default" = "no"))]
    pub(super) catalog: Setting<Text<CatalogSetting>>,
    /// Name of the catalog of this server that lists the zone; "" for none.
    #[schemars(extend("default" = ""))]
    pub(super) member_of: Setting<String>,
    /// Group that the catalog states for the zone, by which other servers can choose settings; ""
    /// for none.
    #[schemars(extend("default" = ""))]
    pub(super) group: Setting<String>,
}
