//! Catalog zones (RFC 9432): the zones that catalogs of other servers list, which are kept over a
//! restart, and the catalogs that this server writes.
//!
//! ```text
//! version of a catalog --> members --+-- new: transferred from its primaries
//!                                    +-- removed: no longer served, its copy is deleted
//!                                    +-- other unique label: its copy is deleted, then as new
//!                                    +-- `coo` to a catalog that lists it, too: moved
//! ```
//! A catalog with errors, or without a version in force, keeps its members. A member that the
//! configuration or another catalog has is refused.

mod produced;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fs, io, path};

use avocet_config::Config;
use avocet_config::catalog::CatalogRole;
use avocet_config::name::{shown, typed_name};
use avocet_config::zone::ZoneConfig;
use avocet_io::ownership;
use avocet_nameserver::disk;
use avocet_zone::{CatalogMember, HostedZone, MAX_CATALOG_MEMBERS, catalog_members};
use serde::{Deserialize, Serialize};

pub(crate) use produced::{ANNOUNCE_SECS, moves_of, renew_catalogs, write_catalogs};

/// Maximum number of octets of the file with the members.
const MAX_OCTETS: u64 = 64 << 20;
/// Maximum number of refused members of a catalog that are shown.
const MAX_SHOWN: usize = 16;

/// Members by name.
pub(crate) type Members = BTreeMap<Box<[u8]>, Membership>;

/// The members of all catalogs.
pub(crate) struct Catalogs {
    known: Mutex<KnownCatalogs>,
    path: PathBuf,
}

/// The membership of a zone in a catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Membership {
    /// The name of the catalog, in lower case and wire form.
    pub(crate) catalog: Box<[u8]>,
    /// The unique label as a name.
    id: Box<[u8]>,
    /// The values of `group`.
    pub(crate) groups: Vec<String>,
    /// The catalog to which the zone moves.
    owner: Option<Box<[u8]>>,
}

#[derive(Default)]
struct KnownCatalogs {
    members: Members,
    states: BTreeMap<Box<[u8]>, CatalogState>,
    /// The versions from which the members were made.
    seen: Option<SeenVersions>,
}

/// The versions of the catalogs of a configuration.
struct SeenVersions {
    config: Arc<Config>,
    versions: Vec<Option<Arc<HostedZone>>>,
}

/// The state of a catalog of another server.
#[derive(Clone, Default)]
pub(crate) struct CatalogState {
    /// The reason why the version in force of the catalog is not used.
    pub(crate) fault: Option<String>,
    /// Members that are not served, with the reason.
    pub(crate) refused: Vec<String>,
}

/// The changes from new versions of catalogs.
pub(crate) struct CatalogChange {
    /// The members after the change.
    pub(crate) members: Members,
    /// Members that are served without a change.
    pub(crate) staying: Members,
    /// Zones with copies to delete, because they were removed or are reset.
    pub(crate) purged: Vec<Box<[u8]>>,
    /// Zones that are added or reset.
    pub(crate) begun: Vec<Box<[u8]>>,
}

/// The file with the members.
#[derive(Default, Serialize, Deserialize)]
struct CatalogsFile {
    members: Vec<SavedMembership>,
}

#[derive(Serialize, Deserialize)]
struct SavedMembership {
    zone: String,
    catalog: String,
    id: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    coo: Option<String>,
}

impl Catalogs {
    /// Reads the members of the last run. A damaged file counts as a file without members.
    pub(crate) fn load(directory: &Path) -> Self {
        let path = directory.join("catalogs.json");
        let read = disk::read(&path, MAX_OCTETS).map(Option::unwrap_or_default);
        let file = read.and_then(|octets| match octets.is_empty() {
            true => Ok(CatalogsFile::default()),
            false => serde_json::from_slice(&octets).map_err(io::Error::other),
        });
        let file = file.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot use {}", path.display());
            CatalogsFile::default()
        });
        let members = file.members.into_iter().filter_map(SavedMembership::read);
        let known = KnownCatalogs {
            members: members.take(MAX_CATALOG_MEMBERS).collect(),
            ..KnownCatalogs::default()
        };
        Self { known: Mutex::new(known), path }
    }

    /// Writes the catalogs of a configuration at the start, and adds the members to its zones.
    pub(crate) fn complete(config: &mut Config) {
        write_catalogs(&config.zones);
        Self::load(&config.data.directory).extend(config);
    }

    /// Adds the members to the zones of a configuration.
    pub(crate) fn extend(&self, config: &mut Config) {
        config.zones.retain(|zone| !zone.catalog.is_member());
        let known = self.known();
        let (data, taken) = (&config.data.directory, TakenFiles::of(config));
        let member = |name: &[u8], membership: &Membership| {
            let mut catalogs = config.zones.iter();
            let catalog = catalogs.find(|zone| is_consumer(zone, &membership.catalog))?;
            let is_configured =
                config.zones.iter().any(|zone| zone.is_common() && *zone.name == *name);
            (!is_configured && !taken.has(name)).then(|| catalog.member(name, data))
        };
        let members: Vec<_> =
            known.members.iter().filter_map(|(name, of)| member(name, of)).collect();
        drop(known);
        config.zones.extend(members);
    }

    /// Returns the changes that the versions of the catalogs in force cause; `None` if they cause
    /// no change.
    pub(crate) fn follow(
        &self,
        config: &Arc<Config>,
        source: impl Fn(&[u8]) -> Option<Arc<HostedZone>>,
    ) -> Option<CatalogChange> {
        let consumers: Vec<_> =
            config.zones.iter().filter(|zone| zone.catalog == CatalogRole::Consumer).collect();
        let mut known = self.known();
        if consumers.is_empty() && known.members.is_empty() {
            return None;
        }
        let versions: Vec<_> = consumers.iter().map(|zone| source(&zone.name)).collect();
        let is_seen = known.seen.as_ref().is_some_and(|seen| {
            let is_same = |(one, other): (&Option<Arc<_>>, &Option<Arc<_>>)| {
                one.as_ref().map(Arc::as_ptr) == other.as_ref().map(Arc::as_ptr)
            };
            Arc::ptr_eq(&seen.config, config) && seen.versions.iter().zip(&versions).all(is_same)
        });
        if is_seen {
            return None;
        }
        let mut plan = MemberPlan::new(config, &known.members);
        for (zone, version) in consumers.iter().zip(&versions) {
            plan.read(&zone.name, version.as_deref());
        }
        let (members, resets) = plan.finish();
        let states = plan.states;
        for (name, state) in &states {
            let before = known.states.get(name).and_then(|state| state.fault.as_ref());
            if let Some(fault) = state.fault.as_ref().filter(|fault| Some(*fault) != before) {
                let name = shown(name);
                tracing::warn!("catalog {name} is broken, its members stay: {fault}");
            }
            let before = known.states.get(name).map_or(&[][..], |state| &state.refused);
            for refused in state.refused.iter().filter(|one| !before.contains(one)) {
                tracing::warn!("catalog {}: {refused}", shown(name));
            }
        }
        let change = CatalogChange::between(&known.members, members, &resets);
        known.states = states;
        known.seen = Some(SeenVersions { config: config.clone(), versions });
        change
    }

    /// Sets the members that are served after the next [`Self::extend`].
    pub(crate) fn put(&self, members: Members) {
        self.known().members = members;
    }

    /// Saves the members, so that they are kept over a restart.
    pub(crate) fn save(&self) {
        let known = self.known();
        let members =
            known.members.iter().map(|(zone, of)| SavedMembership::of(zone, of)).collect();
        drop(known);
        let written = serde_json::to_vec(&CatalogsFile { members })
            .map_err(io::Error::other)
            .and_then(|text| disk::replace(&self.path, &[&text]));
        if let Err(error) = written {
            tracing::error!(%error, "cannot write {}", self.path.display());
        }
    }

    /// Returns the membership of a zone; `None` if the zone is not a member.
    pub(crate) fn membership(&self, zone: &[u8]) -> Option<Membership> {
        self.known().members.get(zone).cloned()
    }

    /// Returns the state of a catalog of another server, and the number of its members.
    pub(crate) fn state(&self, catalog: &[u8]) -> (CatalogState, u64) {
        let known = self.known();
        let members = known.members.values().filter(|member| *member.catalog == *catalog);
        (known.states.get(catalog).cloned().unwrap_or_default(), members.count() as u64)
    }

    /// Returns one sentence for each catalog that is not used and each member that is refused;
    /// `None` if there are none.
    pub(crate) fn fault(&self) -> Option<String> {
        let known = self.known();
        let faults: Vec<_> = known
            .states
            .iter()
            .flat_map(|(name, state)| {
                let name = shown(name);
                let broken = state.fault.iter().map({
                    let name = name.clone();
                    move |fault| format!("catalog {name} is broken, its members stay: {fault}")
                });
                let refused = state.refused.iter();
                broken.chain(refused.map(move |member| format!("catalog {name}: {member}")))
            })
            .collect();
        (!faults.is_empty()).then(|| faults.join("; "))
    }

    fn known(&self) -> MutexGuard<'_, KnownCatalogs> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_consumer(zone: &ZoneConfig, catalog: &[u8]) -> bool {
    zone.catalog == CatalogRole::Consumer && *zone.name == *catalog
}

/// The files of configured zones in the directory of the members. A member with the same files
/// would overwrite them.
pub(crate) struct TakenFiles {
    /// The data directory.
    data: PathBuf,
    /// Names in the directory.
    names: BTreeSet<OsString>,
}

impl TakenFiles {
    pub(crate) fn of(config: &Config) -> Self {
        let data = config.data.directory.clone();
        let directory = located(&data.join("zones"));
        let mut names = BTreeSet::new();
        for zone in config.zones.iter().filter(|zone| !zone.catalog.is_member()) {
            let head = zone.provided.as_ref().and_then(|provided| provided.head.as_ref());
            let written = [zone.published_file(), zone.addresses_file(), zone.ttls_file()];
            let own = [&zone.file, &zone.journal].into_iter().chain(&written);
            for file in own.chain(head) {
                // A symbolic link occupies its own name and the name of the file that it points to.
                let places = [whole(file), located(file)];
                let places = places.iter().filter_map(|file| Some((file.parent()?, file)));
                let inside = places.filter(|(parent, _)| located(parent) == directory);
                names.extend(inside.filter_map(|(_, file)| file.file_name()).map(Into::into));
            }
        }
        Self { data, names }
    }

    /// Returns whether a member would have one of these files.
    pub(crate) fn has(&self, zone: &[u8]) -> bool {
        let file = ZoneConfig::member_file(zone, &self.data);
        let with = |extension| file.with_added_extension(extension);
        let written = ["journal", "published", "addresses", "ttls"].map(with);
        let mut names = written.iter().chain([&file]).filter_map(|file| file.file_name());
        names.any(|name| self.names.contains(name))
    }
}

/// Returns a path without symbolic links and relative parts, as far as it exists.
fn located(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| whole(path))
}

fn whole(path: &Path) -> PathBuf {
    path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The members that all catalogs list, while they are being determined.
struct MemberPlan<'p> {
    /// The zones of the configuration file.
    configured: BTreeSet<&'p [u8]>,
    taken: TakenFiles,
    present: &'p Members,
    /// The members of each catalog by name.
    listed: BTreeMap<&'p [u8], BTreeMap<Box<[u8]>, Membership>>,
    states: BTreeMap<Box<[u8]>, CatalogState>,
}

impl<'p> MemberPlan<'p> {
    fn new(config: &'p Config, present: &'p Members) -> Self {
        let configured = config.zones.iter().filter(|zone| !zone.catalog.is_member());
        // If a configured zone is only for the clients of a view, a member may have the same name
        // for all other clients.
        let common = configured.filter(|zone| zone.is_common());
        let configured = common.map(|zone| &*zone.name).collect();
        let taken = TakenFiles::of(config);
        Self { configured, taken, present, listed: BTreeMap::new(), states: BTreeMap::new() }
    }

    /// Reads a catalog. If it cannot be used, keeps its members.
    fn read(&mut self, catalog: &'p [u8], version: Option<&HostedZone>) {
        let state = self.states.entry(catalog.into()).or_default();
        let members = match version.map(catalog_members) {
            Some(Ok(members)) => {
                members.into_iter().map(|member| Membership::of(catalog, member)).collect()
            }
            other => {
                state.fault = other.and_then(Result::err).map(|fault| fault.to_string());
                let own = self.present.iter().filter(|(_, member)| *member.catalog == *catalog);
                own.map(|(name, member)| (name.clone(), member.clone())).collect()
            }
        };
        self.listed.insert(catalog, members);
    }

    /// Returns the catalog that a member belongs to. This is its present catalog, unless that
    /// catalog gives the member to another catalog (`coo`), which lists and keeps the member.
    fn owner(&self, zone: &[u8]) -> Option<Box<[u8]>> {
        let lists = |catalog: &[u8]| self.listed.get(catalog)?.get(zone);
        let present = self.present.get(zone)?;
        let listed = lists(&present.catalog);
        let owner = listed.map_or(present.owner.as_ref(), |member| member.owner.as_ref());
        let keeps = |owner: &[u8]| {
            lists(owner)
                .is_some_and(|there| there.owner.as_deref().is_none_or(|next| *next == *owner))
        };
        if let Some(owner) = owner.filter(|owner| keeps(owner)) {
            return Some(owner.clone());
        }
        listed.map(|_| present.catalog.clone())
    }

    /// Returns the members, and the zones to reset: members that moved to another catalog without
    /// `coo`. Zones that are already served come first, so that new zones do not take their places.
    fn finish(&mut self) -> (Members, BTreeSet<Box<[u8]>>) {
        let (mut members, mut resets) = (Members::new(), BTreeSet::new());
        for is_served in [true, false] {
            for (catalog, listed) in &self.listed {
                let mut refused = Vec::new();
                let is_next = |zone: &[u8]| self.present.contains_key(zone) == is_served;
                for (zone, member) in listed.iter().filter(|(zone, _)| is_next(zone)) {
                    let owner = self.owner(zone);
                    match self.refusal(zone, (catalog, owner.as_deref()), &members) {
                        Some(reason) if refused.len() < MAX_SHOWN => {
                            refused.push(format!("{} is refused: {reason}", shown(zone)));
                        }
                        Some(_) => {}
                        None => {
                            if owner.is_none() {
                                resets.insert(zone.clone());
                            }
                            members.insert(zone.clone(), member.clone());
                        }
                    }
                }
                if let Some(state) = self.states.get_mut(*catalog) {
                    state.refused.extend(refused);
                    state.refused.truncate(MAX_SHOWN);
                }
            }
        }
        (members, resets)
    }

    /// Returns the reason why a member is not served; `None` if it is served.
    fn refusal(
        &self,
        zone: &[u8],
        (catalog, owner): (&[u8], Option<&[u8]>),
        members: &Members,
    ) -> Option<String> {
        if zone.len() == 1 {
            return Some("the root is no member".to_owned());
        }
        if self.configured.contains(zone) {
            return Some("the configuration has this zone".to_owned());
        }
        if self.taken.has(zone) {
            return Some("another zone has its file".to_owned());
        }
        let other = members.get(zone).map(|other| &*other.catalog);
        if let Some(other) = owner.filter(|owner| *owner != catalog).or(other) {
            return Some(format!("it is a member of {}", shown(other)));
        }
        let is_full = members.len() >= MAX_CATALOG_MEMBERS;
        is_full.then(|| format!("there are {MAX_CATALOG_MEMBERS} members"))
    }
}

impl Membership {
    fn of(catalog: &[u8], member: CatalogMember) -> (Box<[u8]>, Self) {
        let CatalogMember { zone, id, groups, owner } = member;
        (zone, Self { catalog: catalog.into(), id, groups, owner })
    }
}

impl CatalogChange {
    /// Logs the difference between two sets of members, and returns it; `None` if they are equal.
    fn between(present: &Members, members: Members, resets: &BTreeSet<Box<[u8]>>) -> Option<Self> {
        if *present == members {
            return None;
        }
        let (mut purged, mut begun, mut staying) = (Vec::new(), Vec::new(), Members::new());
        for (zone, member) in &members {
            let (name, catalog) = (shown(zone), shown(&member.catalog));
            match present.get(zone) {
                None => {
                    tracing::info!("zone {name} added by the catalog {catalog}");
                    begun.push(zone.clone());
                }
                Some(before) if before.id != member.id || resets.contains(zone) => {
                    tracing::info!("zone {name} reset by the catalog {catalog}");
                    purged.push(zone.clone());
                    begun.push(zone.clone());
                }
                Some(before) => {
                    if before.catalog != member.catalog {
                        tracing::info!("zone {name} moved to the catalog {catalog}");
                    }
                    if before.groups != member.groups {
                        let groups = member.groups.join(", ");
                        tracing::info!(groups, "zone {name} has other groups");
                    }
                    staying.insert(zone.clone(), member.clone());
                }
            }
        }
        for (zone, before) in present.iter().filter(|(zone, _)| !members.contains_key(*zone)) {
            tracing::info!(
                "zone {} removed by the catalog {}",
                shown(zone),
                shown(&before.catalog)
            );
            purged.push(zone.clone());
        }
        Some(Self { members, staying, purged, begun })
    }
}

impl SavedMembership {
    fn of(zone: &[u8], member: &Membership) -> Self {
        Self {
            zone: shown(zone),
            catalog: shown(&member.catalog),
            id: shown(&member.id),
            groups: member.groups.clone(),
            coo: member.owner.as_deref().map(shown),
        }
    }

    fn read(self) -> Option<(Box<[u8]>, Membership)> {
        let name = |text: &str| -> Option<Box<[u8]>> {
            typed_name(text).ok().map(|name| name.to_ascii_lowercase().into())
        };
        let owner = self.coo.as_deref().and_then(name);
        let (catalog, id) = (name(&self.catalog)?, name(&self.id)?);
        Some((name(&self.zone)?, Membership { catalog, id, groups: self.groups, owner }))
    }
}

/// Deletes the copy of a zone.
pub(crate) fn purge(zone: &ZoneConfig) {
    let Ok(_permit) = ownership::write() else { return };
    let written = [zone.published_file(), zone.addresses_file(), zone.ttls_file()];
    for file in [&zone.file, &zone.journal].into_iter().chain(&written) {
        if let Err(error) = fs::remove_file(file)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::error!(%error, "cannot delete {}", file.display());
        }
    }
}

#[cfg(test)]
mod tests;
