//! The names that this server answers by itself: local records, local zones and special names.
//!
//! They are one part of a snapshot. The query path calls the stages `local` and `special` in turn;
//! the resolver looks up names here when an alias leads to one of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use avocet_config::{Config, RecordConfig};
use avocet_resolver::{Own, OwnNames, Sought};
use avocet_wire::FoldedName;
use avocet_zone::HostedZones;

use super::asked::Entrance;
use super::designation::ShownCertificate;
use super::local::LocalRecords;
use super::own_changes::{ChangedName, NameChanges, Reach};
use super::question::LocalQuestion;
use super::special::{InZone, SpecialNames};
use crate::pools::Pools;

/// The names that this server answers from its own data.
#[derive(Debug)]
pub struct Names {
    /// Local records.
    pub local: LocalRecords,
    /// Pools of addresses, with names whose answers depend on the health of the hosts.
    pub pools: Pools,
    /// Hosted zones.
    pub zones: Arc<HostedZones>,
    /// Local zones, and special names if they are answered here.
    pub special: SpecialNames,
    /// The address at which questions for alias targets count as received: an address of
    /// `[server]`.
    own_entrance: Entrance,
    /// The recent changes of the server's own names.
    pub(super) changes: NameChanges,
}

/// The sources of own names, in addition to the configuration.
#[derive(Clone, Debug, Default)]
pub struct NameSources {
    /// Hosted zones.
    pub zones: Arc<HostedZones>,
    /// The certificates that clients see.
    pub certificates: Arc<[ShownCertificate]>,
}

impl Names {
    /// Creates the server's own names from a configuration and its hosted zones.
    pub fn of(config: &Config, sources: NameSources) -> Self {
        Self::with_health(config, sources, &Pools::default())
    }

    /// Creates the server's own names from a configuration. Addresses keep the health that they
    /// have in the pools of `before`.
    fn with_health(config: &Config, sources: NameSources, before: &Pools) -> Self {
        let NameSources { zones, certificates } = sources;
        let special = SpecialNames::of(config, &certificates);
        let elsewhere = config.pools.iter().map(|pool| pool.name.clone());
        let local = LocalRecords::new(&config.records, |name| special.soa_above(name))
            .leading_to(elsewhere.collect());
        let pools = Pools::of(&config.pools, before);
        let own_entrance = Entrance::of_server(&config.server);
        Self { local, pools, zones, special, own_entrance, changes: NameChanges::default() }
    }

    /// Creates the names of `config`, which replaces the configuration of `self` in the change with
    /// this number.
    pub fn replaced(
        &self,
        old: &Config,
        config: &Config,
        sources: NameSources,
        number: u32,
    ) -> Self {
        let names = Self::with_health(config, sources, &self.pools);
        let of_pool = |name| ChangedName { name, reach: Reach::Name };
        let of_zone = |name| ChangedName { name, reach: Reach::Tree };
        let changed = changed_records(&old.records, &config.records)
            .into_iter()
            .chain(self.pools.changed_to(&names.pools).into_iter().map(of_pool))
            .chain(self.special.changed_to(&names.special))
            .chain(self.zones.changed_to(&names.zones).into_iter().map(of_zone));
        Self { changes: self.changes.with(changed.collect(), number), ..names }
    }

    /// Returns whether a local record or a pool has a name below this name.
    pub(super) fn has_below(&self, name: FoldedName<'_>) -> bool {
        self.local.has_below(name) || self.pools.has_below(name.wire())
    }

    fn zone_of<'a>(&'a self, sought: &Sought<'a>) -> Option<InZone<'a>> {
        let question = LocalQuestion { qname: sought.qname, qtype: sought.qtype, turn: 0 };
        let zone = self.special.find(&question, self.own_entrance);
        zone.filter(|zone| !zone.gives_way(sought.served_len))
    }
}

impl OwnNames for Names {
    fn find<'a>(&'a self, sought: &Sought<'a>) -> Option<Own<'a>> {
        let own = self.local.find(sought.qname, sought.qtype);
        own.or_else(|| Some(self.zone_of(sought)?.find(|name| self.has_below(name))))
    }

    fn has_zone_of(&self, sought: &Sought<'_>) -> bool {
        self.zone_of(sought).is_some()
    }
}

/// Returns the names with records that differ between two configurations.
fn changed_records(old: &[RecordConfig], new: &[RecordConfig]) -> BTreeSet<ChangedName> {
    let wildcard_parent = |name: &[u8]| name.strip_prefix(b"\x01*").map(Box::from);
    let has_wildcards = old.iter().chain(new).any(|record| wildcard_parent(&record.name).is_some());
    // A name with records ends the reach of a wildcard above it (RFC 4592 §3.3.1).
    let reach = if has_wildcards { Reach::Tree } else { Reach::Name };
    let (old, new) = (by_name(old), by_name(new));
    let is_other = |name: &&&[u8]| old.get(**name) != new.get(**name);
    let mut changed = BTreeSet::new();
    for name in old.keys().chain(new.keys()).filter(is_other) {
        changed.insert(ChangedName { name: Box::from(*name), reach });
        let covered = wildcard_parent(name);
        changed.extend(covered.map(|name| ChangedName { name, reach: Reach::Tree }));
    }
    changed
}

/// Returns the records of each name, in their order.
fn by_name(records: &[RecordConfig]) -> BTreeMap<&[u8], Vec<&RecordConfig>> {
    let mut by_name: BTreeMap<&[u8], Vec<&RecordConfig>> = BTreeMap::new();
    for record in records {
        by_name.entry(&record.name).or_default().push(record);
    }
    by_name
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks which of the names in `asked` are affected by the change from `old` to `new`.
    #[track_caller]
    fn check(old: &str, new: &str, affected: &str) {
        let config = |text| Config::from_text(None, text, &BTreeMap::new()).unwrap();
        let (old, new) = (config(old), config(new));
        let names =
            Names::of(&old, NameSources::default()).replaced(&old, &new, NameSources::default(), 2);
        let asked =
            ["lan", "nas.lan", "a.nas.lan", "tv.lan", "example", "www.example", "localhost"];
        let is_affected = |name: &&str| {
            let name = super::super::special::wire(name);
            names.changes.affect(FoldedName::new(&name).unwrap(), 1)
        };
        let found: Vec<_> = asked.into_iter().filter(is_affected).collect();
        assert_eq!(found.join(" "), affected);
    }

    fn record(name: &str, value: &str) -> String {
        format!(
            "[[record]]\nname = \"{name}\"\ntype = \"A\"\nvalues = [\"{value}\"]\nptr = false\n"
        )
    }

    #[test]
    fn a_record_affects_its_name_and_what_is_above() {
        let (nas, tv) = (record("nas.lan", "10.0.0.1"), record("tv.lan", "10.0.0.2"));
        check("", &nas, "lan nas.lan");
        check(&nas, "", "lan nas.lan");
        check(&nas, &record("nas.lan", "10.0.0.9"), "lan nas.lan");
        check(&nas, &format!("{nas}{tv}"), "lan tv.lan");
        check(&format!("{nas}{tv}"), &format!("{tv}{nas}"), "");
    }

    #[test]
    fn with_wildcards_a_record_affects_what_is_below() {
        let (nas, any) = (record("nas.lan", "10.0.0.1"), record("*.lan", "10.0.0.2"));
        check(&any, &format!("{any}{nas}"), "lan nas.lan a.nas.lan");
        check(&nas, &format!("{any}{nas}"), "lan nas.lan a.nas.lan tv.lan");
    }

    #[test]
    fn a_zone_affects_all_in_it() {
        let lan = "[server]\nlocal-zones = [\"lan\"]\n";
        check("", lan, "lan nas.lan a.nas.lan tv.lan");
        check(lan, "", "lan nas.lan a.nas.lan tv.lan");
        check(lan, &format!("{lan}{}", record("nas.lan", "10.0.0.1")), "lan nas.lan");
        let own = "[[stub]]\nzone = \"nas.lan\"\nservers = [\"192.0.2.1\"]\n";
        check(lan, &format!("{lan}{own}"), "lan nas.lan");
    }

    #[test]
    fn special_names_affect_themselves() {
        check("", "[server]\nlocal-names = false\n", "localhost");
    }
}
