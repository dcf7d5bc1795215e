//! `[[zone]]`: the zones that the server hosts.

use std::collections::{HashMap, HashSet};
use std::mem;
use std::net::IpAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use avocet_dnssec::nsec3::Parameters;
use avocet_dnssec::zonemd::DigestHash;
use avocet_wire::name::is_under;
use avocet_zone::{SerialPolicy, ZoneId};
use toml::{Spanned, Table, Value};

use super::catalog::{self, CatalogRole, CatalogSettings};
use super::check::Check;
use super::key::{KeyConfig, has_key};
use super::name::shown as shown_name;
use super::pool::PoolConfig;
use super::primary::Primaries;
use super::primary_settings::{self as of_primaries, PrimarySettings, primaries};
use super::provided::{ProvidedZone, ProviderKind, TTL_SECS, provided};
use super::setting::{List, Setting, Text};
use super::signing::{self, SigningPolicy, ZoneSigning};
use super::transfer::{AliasTransfer, NotifyTarget, TransferClient, TransferRule};
use super::update::UpdateRule;
use super::view_item::{ViewItem, view};
use super::zone_spec::ZoneSpec;
use super::zone_url::{self, ZoneUrl};
use super::zone_view::{clash, refusal};
use super::zonemd::{ZonemdHash, ZonemdPolicy};

/// Seconds for which a file must stay the same before it is read.
const SETTLE_SECS: u32 = 10;
/// Seconds for which a file of leases must stay the same: the DHCP server replaces it as a whole or
/// appends to it.
const LEASES_SETTLE_SECS: u32 = 1;

/// Maximum number of octets of a zone's name in the name of a file. File systems permit 255 octets,
/// and the endings of files take up to 25.
const MAX_FILE_NAME: usize = 226;

/// `[[zone]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneConfig {
    /// The name, in lower case and wire form.
    pub name: Box<[u8]>,
    /// The clients that see the zone; empty for all clients that see no other zone with this name.
    pub view: Vec<ViewItem>,
    /// The master file, or the file of the provider.
    pub file: PathBuf,
    /// The format of the file, if it is not a master file.
    pub provided: Option<ProvidedZone>,
    /// The file with the changes of the zone, if the zone keeps changes.
    pub journal: PathBuf,
    /// Seconds for which a changed file must stay the same before it is read.
    pub settle_secs: u32,
    /// The servers that the zone is transferred from.
    pub primaries: Primaries,
    /// The servers that may transfer the zone.
    pub allow_transfer: Vec<TransferRule>,
    /// The treatment of ALIAS records in transfers.
    pub transfer_alias: AliasTransfer,
    /// The servers that get NOTIFY.
    pub notify: Vec<NotifyTarget>,
    /// The clients that may update the zone.
    pub allow_update: Vec<UpdateRule>,
    /// How the server raises the serial.
    pub serial: SerialPolicy,
    /// How the server signs the zone.
    pub signing: Option<ZoneSigning>,
    /// The highest TTL in seconds of the pools in the zone; zero without pools.
    pub pools_ttl_secs: u32,
    /// The relation to catalogs.
    pub catalog: CatalogRole,
    /// Whether the zone must have a matching ZONEMD digest.
    pub zonemd: ZonemdPolicy,
    /// The hash of the digest that the server adds; `None` if it adds no digest.
    pub digest: Option<DigestHash>,
}

/// The parts of the configuration that the tables of zones refer to.
pub(super) struct ZoneContext<'c> {
    pub(super) keys: &'c [KeyConfig],
    pub(super) policies: &'c [SigningPolicy],
    /// The data directory.
    pub(super) data: &'c Path,
}

impl ZoneConfig {
    /// Returns the identity of the zone. The identity of a zone with a view contains the first item
    /// of the view.
    #[must_use]
    pub fn id(&self) -> ZoneId {
        let view = self.view.first().map(|item| item.to_string().into());
        ZoneId { name: self.name.clone(), view }
    }

    /// Returns whether this is the zone with this identity.
    #[must_use]
    pub fn is(&self, id: &ZoneId) -> bool {
        self.name == id.name && self.id() == *id
    }

    /// Returns whether the zone has no view. All clients see such a zone unless they see another
    /// zone with the same name.
    #[must_use]
    pub const fn is_common(&self) -> bool {
        self.view.is_empty()
    }

    /// Returns whether the zone is transferred from other servers.
    #[must_use]
    pub fn is_secondary(&self) -> bool {
        !self.primaries.servers.is_empty()
    }

    /// Returns whether the server keeps the changes of the zone: other servers may transfer them,
    /// or the file gets them only later.
    #[must_use]
    pub fn keeps_changes(&self) -> bool {
        self.is_secondary() || self.is_updated() || !self.allow_transfer.is_empty()
    }

    /// Returns whether clients update the zone.
    #[must_use]
    pub fn is_updated(&self) -> bool {
        !self.allow_update.is_empty()
    }

    /// Returns the source of the records; `None` if they are not fetched.
    #[must_use]
    pub fn source_url(&self) -> Option<&ZoneUrl> {
        self.provided.as_ref()?.source.as_ref()
    }

    /// Returns whether the records come over a connection, so that there may be no copy yet.
    #[must_use]
    pub fn is_fetched(&self) -> bool {
        self.is_secondary() || self.source_url().is_some()
    }

    /// Returns whether the file is a master file that people and the server write.
    #[must_use]
    pub fn is_own_file(&self) -> bool {
        !self.is_secondary() && self.provided.is_none()
    }

    /// Returns whether the server raises the serial if a changed file does not.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.is_updated() || self.provided.is_some()
    }

    /// Returns the file with the facts about the version that was published last.
    #[must_use]
    pub fn published_file(&self) -> PathBuf {
        self.journal.with_extension("published")
    }

    /// Returns the file with the last addresses behind ALIAS records.
    #[must_use]
    pub fn addresses_file(&self) -> PathBuf {
        self.journal.with_extension("addresses")
    }

    /// Returns the file with the TTLs of versions without signatures.
    #[must_use]
    pub fn ttls_file(&self) -> PathBuf {
        self.journal.with_extension("ttls")
    }

    /// Returns whether a NOTIFY from this address, signed with this key, comes from a primary.
    #[must_use]
    pub fn hears(&self, ip: IpAddr, key: Option<&[u8]>) -> bool {
        self.primaries.hear(ip, key)
    }

    /// Returns the configuration of a member of this catalog. The member has the primaries of the
    /// catalog. The servers that may transfer the catalog or get NOTIFY for it may do the same for
    /// the member.
    #[must_use]
    pub fn member(&self, name: &[u8], data: &Path) -> Self {
        let file = Self::member_file(name, data);
        Self {
            name: name.into(),
            view: Vec::new(),
            journal: file.with_added_extension("journal"),
            file,
            provided: None,
            settle_secs: self.settle_secs,
            primaries: self.primaries.clone(),
            allow_transfer: self.allow_transfer.clone(),
            transfer_alias: self.transfer_alias,
            notify: self.notify.clone(),
            allow_update: Vec::new(),
            serial: SerialPolicy::default(),
            signing: None,
            pools_ttl_secs: 0,
            zonemd: self.zonemd,
            digest: None,
            catalog: CatalogRole::Member { catalog: self.name.clone() },
        }
    }

    /// Returns the file of a member of a catalog.
    #[must_use]
    pub fn member_file(name: &[u8], data: &Path) -> PathBuf {
        data.join("zones").join(file_name(&ZoneId::common(name)))
    }

    /// Returns whether a client may transfer the zone.
    #[must_use]
    pub fn may_transfer(&self, client: &TransferClient<'_>) -> bool {
        self.allow_transfer.iter().any(|rule| rule.admits(client))
    }
}

/// Validates the tables. Returns the places of the zones in the file, and the zones. Each name
/// occurs once for the same clients. A zone without a file has a copy below the data directory.
pub(super) fn zones(
    specs: Vec<Spanned<ZoneSpec>>,
    context: &ZoneContext<'_>,
    check: &mut Check,
) -> (Vec<Range<usize>>, Vec<ZoneConfig>) {
    let mut zones: Vec<(Range<usize>, ZoneConfig)> = Vec::new();
    // Only zones with the same name or the same file can clash, and there may be many zones.
    let (mut by_name, mut by_file) = (HashMap::new(), HashMap::new());
    for spec in specs {
        let header = spec.span();
        let Some((at, zone)) = zone(&header, spec.into_inner(), context, check) else {
            continue;
        };
        let places_of_name: &mut Vec<usize> = by_name.entry(zone.name.clone()).or_default();
        let places_of_file: &mut Vec<usize> = by_file.entry(zone.file.clone()).or_default();
        let clash = places_of_name.iter().find_map(|place| clash(&zone, &zones[*place].1));
        let shared = || places_of_file.iter().find_map(|place| shared(&zone, &zones[*place].1));
        if let Some(message) = clash.or_else(shared) {
            check.fault(at, message);
        } else {
            places_of_name.push(zones.len());
            places_of_file.push(zones.len());
            zones.push((at, zone));
        }
    }
    check_listed(&zones, check);
    zones.into_iter().unzip()
}

/// Returns the zones with the TTLs of their pools, and also their names if this server signs the
/// zone. A pool belongs to the lowest zone above its name.
pub(super) fn with_pools(mut zones: Vec<ZoneConfig>, pools: &[PoolConfig]) -> Vec<ZoneConfig> {
    let apexes: Vec<_> = zones.iter().map(|zone| zone.name.clone()).collect();
    let zone_of = |name: &[u8]| {
        let above = apexes.iter().filter(|apex| is_under(name, apex));
        above.max_by_key(|apex| apex.len()).cloned()
    };
    for pool in pools {
        let apex = zone_of(&pool.name);
        let of_zone = |zone: &&mut ZoneConfig| apex.as_ref() == Some(&zone.name);
        for zone in zones.iter_mut().filter(of_zone) {
            zone.pools_ttl_secs = zone.pools_ttl_secs.max(pool.ttl_secs);
            if let Some(signing) = &mut zone.signing {
                signing.pools.push(pool.name.clone());
                signing.pools_ttl_secs = zone.pools_ttl_secs;
            }
        }
    }
    zones
}

/// Returns the reason why two zones cannot share their file; `None` if they can, or if their files
/// differ. Zones with different names may share a file with relative names that the server never
/// writes.
fn shared(zone: &ZoneConfig, other: &ZoneConfig) -> Option<String> {
    if zone.file != other.file {
        return None;
    }
    let file = zone.file.display();
    let is_written = |zone: &ZoneConfig| {
        zone.is_fetched() || zone.is_updated() || zone.catalog == CatalogRole::Producer
    };
    // Commands can change any master file.
    let is_own = |zone: &ZoneConfig| zone.is_own_file() || is_written(zone);
    if zone.is_secondary() {
        Some(format!("another zone has the file {file}, which this one replaces"))
    } else if zone.name == other.name && (is_own(zone) || is_own(other)) {
        Some(format!(
            "the zone {} has another table with the file {file}: a change of one would be a change \
             of both; write the items of both views into one table, or copy the file",
            shown_name(&zone.name)
        ))
    } else if is_written(zone) || is_written(other) {
        Some(format!("another zone has the file {file}, which the server writes for one of them"))
    } else {
        None
    }
}

fn zone(
    header: &Range<usize>,
    mut spec: ZoneSpec,
    context: &ZoneContext<'_>,
    check: &mut Check,
) -> Option<(Range<usize>, ZoneConfig)> {
    let primaries_at = spec.primaries.span();
    let view = view(mem::take(&mut spec.view), check);
    let provided = provided(header, &mut spec, check);
    let role = catalog::role(catalog_settings(&mut spec), check);
    let primaries = primaries(primary_settings(&mut spec), context.keys, check);
    let name = check.need("name", header, spec.name);
    let provider = provided.as_ref().map(|one| one.kind);
    let settles = match provider {
        Some(ProviderKind::Leases) => LEASES_SETTLE_SECS,
        _ => SETTLE_SECS,
    };
    let settle_secs = check.take(spec.settle_secs).map_or(settles, |secs| secs.0);
    let allow_transfer = transfer_rules(spec.allow_transfer, context.keys, check);
    let transfer_alias =
        check.take(spec.transfer_alias).map_or_else(AliasTransfer::default, |Text(one)| one);
    let notify = notify_targets(spec.notify, context.keys, check);
    let allow_update = update_rules(spec.allow_update, primaries_at.as_ref(), context.keys, check);
    let serial = check.take(spec.serial).map_or_else(SerialPolicy::default, |Text(one)| one);
    let policy = signing::chosen(spec.sign, context.policies, check);
    let file = match (spec.file.span(), primaries_at.is_some()) {
        (None, true) => None,
        (_, _) if provider.is_some_and(ProviderKind::is_fetched) => None,
        (None, _) if role == CatalogRole::Producer => None,
        _ => Some(check.need("file", header, spec.file)?),
    };
    let zonemd = check.take(spec.zonemd).map_or_else(ZonemdPolicy::default, |Text(one)| one);
    let of_signing = policy.is_some().then_some(DigestHash::Sha384);
    let digest = check.take(spec.zonemd_hash).map_or(of_signing, |Text(ZonemdHash(hash))| hash);
    let (at, Text(name)) = name?;
    let first = view.first().map(|item| item.to_string().into());
    let id = ZoneId { name: name.clone(), view: first };
    let in_data = |directory: &str| context.data.join(directory).join(file_name(&id));
    let file = match file {
        Some(file) => path_of(file, check)?,
        None if provider.is_some_and(ProviderKind::is_fetched) => {
            in_data("zones").with_added_extension("json")
        }
        None => in_data("zones"),
    };
    let journal = in_data("zones").with_added_extension("journal");
    let directory = in_data("keys");
    let signing = policy.map(|policy| ZoneSigning::new(policy, directory));
    let zone = ZoneConfig {
        name,
        view,
        file,
        provided,
        journal,
        settle_secs,
        primaries,
        allow_transfer,
        transfer_alias,
        notify,
        allow_update,
        serial,
        signing,
        pools_ttl_secs: 0,
        catalog: role,
        zonemd,
        digest,
    };
    check_role(&at, &zone, check);
    Some((at, zone))
}

fn path_of((at, file): (Range<usize>, String), check: &mut Check) -> Option<PathBuf> {
    if file.is_empty() {
        check.fault(at, "expected a file, found \"\"");
        return None;
    }
    Some(check.path(file))
}

/// Checks that a catalog comes from the server that writes it, and that a zone with a view has no
/// setting that concerns all clients.
fn check_role(at: &Range<usize>, zone: &ZoneConfig, check: &mut Check) {
    if let Some(message) = refusal(zone) {
        check.fault(at.clone(), message);
    }
    let is_from_elsewhere = zone.is_secondary() || zone.provided.is_some() || zone.is_updated();
    let message = match zone.catalog {
        CatalogRole::Consumer if !zone.is_secondary() => {
            "a catalog of another server needs `primaries`, which its members have, too"
        }
        CatalogRole::Producer if is_from_elsewhere => {
            "the server writes the catalog itself: it has neither `primaries` nor `provider` nor \
             `allow-update`"
        }
        _ => return,
    };
    check.fault(at.clone(), message);
}

/// Takes the settings for catalogs.
fn catalog_settings(spec: &mut ZoneSpec) -> CatalogSettings {
    CatalogSettings {
        catalog: mem::take(&mut spec.catalog),
        member_of: mem::take(&mut spec.member_of),
        group: mem::take(&mut spec.group),
    }
}

/// Takes the settings for primaries.
fn primary_settings(spec: &mut ZoneSpec) -> PrimarySettings {
    PrimarySettings {
        primaries: mem::take(&mut spec.primaries),
        key: mem::take(&mut spec.key),
        ca: mem::take(&mut spec.ca),
        pins: mem::take(&mut spec.pins),
        client_cert: mem::take(&mut spec.client_cert),
        client_key: mem::take(&mut spec.client_key),
    }
}

/// Checks that the catalog of each zone is one that this server writes.
fn check_listed(zones: &[(Range<usize>, ZoneConfig)], check: &mut Check) {
    let is_producer = |(_, zone): &&(_, ZoneConfig)| zone.catalog == CatalogRole::Producer;
    let producers: HashSet<_> =
        zones.iter().filter(is_producer).map(|(_, one)| &one.name).collect();
    for (at, zone) in zones {
        let CatalogRole::Listed { catalog, .. } = &zone.catalog else { continue };
        if !producers.contains(catalog) {
            let message = format!(
                "no [[zone]] with catalog = \"producer\" has the name {}",
                shown_name(catalog)
            );
            check.fault(at.clone(), message);
        }
    }
}

/// Returns the file name of a zone: its view, followed by its name. Characters that host names
/// cannot have are in hexadecimal. The end of a long name is replaced by a hash.
fn file_name(zone: &ZoneId) -> String {
    let in_file = |text: &str| {
        let mut name = String::new();
        for octet in text.bytes() {
            match octet {
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => name.push(char::from(octet)),
                _ => name += &format!("%{octet:02x}"),
            }
        }
        name
    };
    let view = zone.view.as_deref().map(|view| in_file(view) + "@").unwrap_or_default();
    let name = view + &in_file(&shown_name(&zone.name));
    if name.len() <= MAX_FILE_NAME {
        return name + "zone";
    }
    // Only the name of a file with a hash has a tilde.
    let hash = Parameters { iterations: 0, salt: &[] }.of_own(name.as_bytes());
    let hash: String = hash.iter().map(|octet| format!("{octet:02x}")).collect();
    format!("{}~{hash}.zone", &name[..MAX_FILE_NAME - hash.len() - 2])
}

/// Reads `allow-transfer`. Each key that it names must be configured.
fn transfer_rules(
    setting: Setting<List<Text<TransferRule>>>,
    keys: &[KeyConfig],
    check: &mut Check,
) -> Vec<TransferRule> {
    let items = check.take(setting).map_or_else(Vec::new, |list| list.0);
    let items = items.into_iter().map(|item| (item.span(), item.into_inner().0));
    items.filter(|(at, rule)| has_key(at, rule.key(), keys, check)).map(|(_, rule)| rule).collect()
}

/// Reads `notify`. Each key that it names must be configured.
fn notify_targets(
    setting: Setting<List<Text<NotifyTarget>>>,
    keys: &[KeyConfig],
    check: &mut Check,
) -> Vec<NotifyTarget> {
    let items = check.take(setting).map_or_else(Vec::new, |list| list.0);
    let items = items.into_iter().map(|item| (item.span(), item.into_inner().0));
    items
        .filter(|(at, one)| has_key(at, one.key.as_deref(), keys, check))
        .map(|(_, one)| one)
        .collect()
}

/// Reads `allow-update`. Each key must be configured, and the zone must be one of this server.
fn update_rules(
    setting: Setting<List<Text<UpdateRule>>>,
    primaries_at: Option<&Range<usize>>,
    keys: &[KeyConfig],
    check: &mut Check,
) -> Vec<UpdateRule> {
    if let (Some(at), Some(_)) = (setting.span(), primaries_at) {
        check.fault(at, "a zone of another server is updated there");
    }
    let items = check.take(setting).map_or_else(Vec::new, |list| list.0);
    let items = items.into_iter().map(|item| (item.span(), item.into_inner().0));
    let has_key =
        |(at, rule): &(Range<usize>, UpdateRule)| has_key(at, Some(rule.key()), keys, check);
    items.filter(has_key).map(|(_, rule)| rule).collect()
}

/// Returns a table in the syntax of the configuration file.
pub(super) fn shown(zone: &ZoneConfig) -> Value {
    let rules = zone.allow_transfer.iter().map(|rule| Value::from(rule.to_string()));
    let notify = zone.notify.iter().map(|one| Value::from(one.to_string()));
    let updates = zone.allow_update.iter().map(|rule| Value::from(rule.to_string()));
    let mut names = SerialPolicy::NAMES.into_iter();
    let serial = names.find(|(policy, _)| *policy == zone.serial).map_or("", |(_, name)| name);
    let policy = zone.signing.as_ref().map(|signing| signing.policy.name.clone());
    let view = zone.view.iter().map(|item| Value::from(item.to_string()));
    let entries: [(&str, Value); 12] = [
        ("name", shown_name(&zone.name).into()),
        ("view", Value::Array(view.collect())),
        ("file", zone.file.to_string_lossy().into_owned().into()),
        ("settle-secs", i64::from(zone.settle_secs).into()),
        ("allow-transfer", Value::Array(rules.collect())),
        ("transfer-alias", zone.transfer_alias.name().into()),
        ("notify", Value::Array(notify.collect())),
        ("allow-update", Value::Array(updates.collect())),
        ("serial", serial.into()),
        ("zonemd", zone.zonemd.name().into()),
        ("zonemd-hash", ZonemdHash(zone.digest).name().into()),
        ("sign", policy.map_or(Value::from(false), Value::from)),
    ];
    let mut table: Table =
        entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    of_primaries::show(&zone.primaries, &mut table);
    table.extend(catalog::shown(&zone.catalog));
    table.extend(shown_provider(zone.provided.as_ref()));
    zone_url::show(zone.source_url(), &mut table);
    table.into()
}

/// Returns the settings of a provider, or their defaults.
fn shown_provider(provided: Option<&ProvidedZone>) -> [(String, Value); 4] {
    let kind = provided.map_or(ProviderKind::File, |one| one.kind);
    let head = provided.and_then(|one| Some(one.head.as_ref()?.to_string_lossy().into_owned()));
    let domain = provided.and_then(|one| Some(shown_name(one.domain.as_ref()?)));
    let ttl_secs = provided.map_or(TTL_SECS, |one| one.ttl_secs);
    [
        ("provider".to_owned(), kind.name().into()),
        ("head-file".to_owned(), head.unwrap_or_default().into()),
        ("ttl-secs".to_owned(), i64::from(ttl_secs).into()),
        ("domain".to_owned(), domain.unwrap_or_default().into()),
    ]
}
