//! `[[zone]]`: the zones that the server hosts.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};

use avocet_zone::SerialPolicy;
use toml::{Spanned, Table, Value};

use super::check::Check;
use super::key::KeyConfig;
use super::name::{shown as shown_name, typed_name};
use super::provided::{ProvidedSettings, ProvidedZone, ProviderKind, TTL_SECS, provided};
use super::setting::{List, Setting, Text};
use super::signing::{self, SigningPolicy, ZoneSigning};
use super::transfer::{NotifyTarget, TransferRule};
use super::update::UpdateRule;
use super::upstream::ServerAddress;
use super::zone_spec::ZoneSpec;

/// Seconds for which a file must stay the same before it is read.
const SETTLE_SECS: u32 = 10;
/// The same for a file of leases, which its server replaces as a whole or appends to.
const LEASES_SETTLE_SECS: u32 = 1;

/// `[[zone]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneConfig {
    /// The name, folded, in wire form.
    pub name: Box<[u8]>,
    /// The master file, or that of the provider.
    pub file: PathBuf,
    /// How the records come from the file, if it is no master file.
    pub provided: Option<ProvidedZone>,
    /// The file with its changes, if it keeps any.
    pub journal: PathBuf,
    /// Seconds for which a changed file must stay the same before it is read.
    pub settle_secs: u32,
    /// The servers that the zone is transferred from; empty if its file is written by others.
    pub primaries: Vec<SocketAddr>,
    /// The folded name of the key for these, in wire form.
    pub key: Option<Box<[u8]>>,
    /// The servers that may transfer the zone.
    pub allow_transfer: Vec<TransferRule>,
    /// The servers that get NOTIFY.
    pub notify: Vec<NotifyTarget>,
    /// The clients that may update the zone.
    pub allow_update: Vec<UpdateRule>,
    /// How the server raises the serial.
    pub serial: SerialPolicy,
    /// How the server signs the zone.
    pub signing: Option<ZoneSigning>,
}

/// What the tables of zones refer to.
pub(super) struct ZoneContext<'c> {
    pub(super) keys: &'c [KeyConfig],
    pub(super) policies: &'c [SigningPolicy],
    /// The data directory.
    pub(super) data: &'c Path,
}

impl ZoneConfig {
    /// Returns whether the zone is transferred from other servers.
    #[must_use]
    pub fn is_secondary(&self) -> bool {
        !self.primaries.is_empty()
    }

    /// Returns whether the changes of the zone are kept: other servers transfer them, or the file
    /// does not have them at once.
    #[must_use]
    pub fn keeps_changes(&self) -> bool {
        self.is_secondary() || self.is_updated() || !self.allow_transfer.is_empty()
    }

    /// Returns whether clients update the zone.
    #[must_use]
    pub fn is_updated(&self) -> bool {
        !self.allow_update.is_empty()
    }

    /// Returns whether the file is a master file that people and the server write.
    #[must_use]
    pub fn is_own_file(&self) -> bool {
        !self.is_secondary() && self.provided.is_none()
    }

    /// Returns whether the serial is raised if a changed file does not raise it.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.is_updated() || self.provided.is_some()
    }

    /// Returns whether NOTIFY from this address, signed with this key, is one of a primary.
    #[must_use]
    pub fn hears(&self, ip: IpAddr, key: Option<&[u8]>) -> bool {
        let is_signed = key.is_some() && self.key.as_deref() == key;
        self.is_secondary()
            && (is_signed || self.primaries.iter().any(|one| one.ip() == ip.to_canonical()))
    }

    /// Returns whether a client with this address and, if its request is signed, this key may
    /// transfer the zone.
    #[must_use]
    pub fn may_transfer(&self, ip: IpAddr, key: Option<&[u8]>) -> bool {
        self.allow_transfer.iter().any(|rule| rule.admits(ip, key))
    }
}

/// Validates the tables. Each name occurs once. Copies of zones without a file are below the data
/// directory.
pub(super) fn zones(
    specs: Vec<Spanned<ZoneSpec>>,
    context: &ZoneContext<'_>,
    check: &mut Check,
) -> Vec<ZoneConfig> {
    let mut zones: Vec<ZoneConfig> = Vec::new();
    for spec in specs {
        let header = spec.span();
        let Some((at, zone)) = zone(&header, spec.into_inner(), context, check) else {
            continue;
        };
        if zones.iter().any(|other| other.name == zone.name) {
            check.fault(at, format!("the zone {} has another table", shown_name(&zone.name)));
        } else if zone.is_secondary() && zones.iter().any(|other| other.file == zone.file) {
            let file = zone.file.display();
            check.fault(at, format!("another zone has the file {file}, which this one replaces"));
        } else {
            zones.push(zone);
        }
    }
    zones
}

fn zone(
    header: &Range<usize>,
    spec: ZoneSpec,
    context: &ZoneContext<'_>,
    check: &mut Check,
) -> Option<(Range<usize>, ZoneConfig)> {
    let name = check.need("name", header, spec.name);
    let refused = [
        (spec.primaries.span(), "a zone from a provider is not transferred from other servers"),
        (spec.allow_update.span(), "a zone from a provider is changed at its source"),
    ];
    let settings = ProvidedSettings {
        provider: spec.provider,
        head_file: spec.head_file,
        ttl_secs: spec.ttl_secs,
        domain: spec.domain,
    };
    let typed = name.as_ref().map(|(_, Text(name))| name);
    let provided = provided(settings, typed, &refused, check);
    let is_leases = provided.as_ref().is_some_and(|one| one.kind == ProviderKind::Leases);
    let settles = if is_leases { LEASES_SETTLE_SECS } else { SETTLE_SECS };
    let settle_secs = check.take(spec.settle_secs).map_or(settles, |secs| secs.0);
    let allow_transfer = transfer_rules(spec.allow_transfer, context.keys, check);
    let notify = notify_targets(spec.notify, context.keys, check);
    let allow_update = update_rules(spec.allow_update, &spec.primaries, context.keys, check);
    let serial = check.take(spec.serial).map_or_else(SerialPolicy::default, |Text(one)| one);
    let has_primaries = spec.primaries.span().is_some();
    let items = check.take(spec.primaries).map_or_else(Vec::new, |list| list.0);
    let primaries = items.into_iter().map(|item| item.into_inner().0.0).collect::<Vec<_>>();
    let key = key_of(spec.key, (context.keys, &primaries), check);
    let policy = signing::chosen(spec.sign, context.policies, check);
    let file = match (spec.file.span(), has_primaries) {
        (None, true) => None,
        _ => Some(check.need("file", header, spec.file)?),
    };
    let (at, Text(name)) = name?;
    let file = match file {
        Some((file_at, file)) if file.is_empty() => {
            check.fault(file_at, "expected a file, found \"\"");
            return None;
        }
        Some((_, file)) => check.path(file),
        None => context.data.join("zones").join(file_name(&name)),
    };
    let in_data = |directory: &str| context.data.join(directory).join(file_name(&name));
    let journal = in_data("zones").with_added_extension("journal");
    let directory = in_data("keys");
    let signing = policy.map(|policy| ZoneSigning { policy, directory });
    let zone = ZoneConfig {
        name,
        file,
        provided,
        journal,
        settle_secs,
        primaries,
        key,
        allow_transfer,
        notify,
        allow_update,
        serial,
        signing,
    };
    Some((at, zone))
}

/// Returns the file of a zone: its name, with other characters than those of host names in
/// hexadecimal.
fn file_name(zone: &[u8]) -> String {
    let mut name = String::new();
    for octet in shown_name(zone).bytes() {
        match octet {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => name.push(char::from(octet)),
            _ => name += &format!("%{octet:02x}"),
        }
    }
    name + "zone"
}

/// Reads the name of the key for the primaries.
fn key_of(
    setting: Setting<String>,
    (keys, primaries): (&[KeyConfig], &[SocketAddr]),
    check: &mut Check,
) -> Option<Box<[u8]>> {
    let at = setting.span()?;
    let text = check.take(setting).filter(|text| !text.is_empty())?;
    let name = typed_name(&text).map(|name| name.to_ascii_lowercase());
    let found = name.ok().filter(|name| keys.iter().any(|key| key.key.name().wire() == *name));
    match found {
        None => check.fault(at, format!("no [[key]] has the name \"{text}\"")),
        Some(_) if primaries.is_empty() => {
            check.doubt(at, "without `primaries`, the key has no use")
        }
        Some(name) => return Some(name.into()),
    }
    None
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
    primaries: &Setting<List<Text<ServerAddress>>>,
    keys: &[KeyConfig],
    check: &mut Check,
) -> Vec<UpdateRule> {
    if let (Some(at), Some(_)) = (setting.span(), primaries.span()) {
        check.fault(at, "a zone of another server is updated there");
    }
    let items = check.take(setting).map_or_else(Vec::new, |list| list.0);
    let items = items.into_iter().map(|item| (item.span(), item.into_inner().0));
    let has_key =
        |(at, rule): &(Range<usize>, UpdateRule)| has_key(at, Some(rule.key()), keys, check);
    items.filter(has_key).map(|(_, rule)| rule).collect()
}

/// Returns whether a key is configured that an item names, if it names one.
fn has_key(at: &Range<usize>, key: Option<&[u8]>, keys: &[KeyConfig], check: &mut Check) -> bool {
    let Some(name) = key else { return true };
    let is_known = keys.iter().any(|key| key.key.name().wire() == name);
    if !is_known {
        check.fault(at.clone(), format!("no [[key]] has the name \"{}\"", shown_name(name)));
    }
    is_known
}

/// Returns a table in the syntax of the file.
pub(super) fn shown(zone: &ZoneConfig) -> Value {
    let rules = zone.allow_transfer.iter().map(|rule| Value::from(rule.to_string()));
    let primaries = zone.primaries.iter().map(|one| Value::from(one.to_string()));
    let key = zone.key.as_deref().map_or_else(String::new, shown_name);
    let notify = zone.notify.iter().map(|one| Value::from(one.to_string()));
    let updates = zone.allow_update.iter().map(|rule| Value::from(rule.to_string()));
    let mut names = SerialPolicy::NAMES.into_iter();
    let serial = names.find(|(policy, _)| *policy == zone.serial).map_or("", |(_, name)| name);
    let policy = zone.signing.as_ref().map(|signing| signing.policy.name.clone());
    let entries: [(&str, Value); 10] = [
        ("name", shown_name(&zone.name).into()),
        ("file", zone.file.to_string_lossy().into_owned().into()),
        ("primaries", Value::Array(primaries.collect())),
        ("key", key.into()),
        ("settle-secs", i64::from(zone.settle_secs).into()),
        ("allow-transfer", Value::Array(rules.collect())),
        ("notify", Value::Array(notify.collect())),
        ("allow-update", Value::Array(updates.collect())),
        ("serial", serial.into()),
        ("sign", policy.map_or(Value::from(false), Value::from)),
    ];
    let mut table: Table =
        entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    table.extend(shown_provider(zone.provided.as_ref()));
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
