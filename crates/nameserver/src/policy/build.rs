//! Builds a [`Policy`] from the configuration, the lists and the switches.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use avocet_config::block::BlockConfig;
use avocet_config::policy::{ListConfig, PolicyConfig};
use avocet_config::signals::Signals;
use avocet_config::view_item::{ViewItem, ZoneView};
use avocet_policy::client::{ClientTest, Clients, Directory, Neighbour, Transport};
use avocet_policy::list::{ListId, ListSet};
use avocet_policy::rpz::{TriggerKind, Zone, ZoneSet, Zones};
use avocet_policy::rule::{Action, Exceptions, Limiter, Program, Rule, RuleSpec, Switches};
use avocet_wire::Ede;
use ipnet::IpNet;

use super::stand_ins::StandIns;
use super::verdict::{FIRST_LIST_NOTE, FIRST_RULE_NOTE, FIRST_ZONE_NOTE};
use super::{Counts, GeoDatabase, Lists, Policy, list_clients};
use crate::StateError;
use crate::identified::Strangers;
use crate::policy::load::Compiled;
use crate::policy::{are_wanted, macs_are_wanted};
use crate::query::respond::Note;
use crate::zone_views::view_bits;

/// Maximum number of octets of a zone's name in an extended error; every answer has room for a name
/// of this length.
const MAX_ORIGIN: usize = 80;

/// The inputs of a policy other than the configuration.
#[derive(Clone)]
pub struct Parts {
    /// The compiled lists.
    pub lists: Option<Arc<Lists>>,
    /// Pauses of filtering, and grants (names allowed for a while).
    pub switches: Switches,
    /// The known host at each address.
    pub neighbours: Arc<[Neighbour]>,
    /// Number of changes of the neighbour table so far.
    pub neighbours_version: u32,
    /// The version of the neighbour table when the policy last changed how it identifies clients.
    pub identified_since: u32,
    /// The networks in which the server knows the hardware addresses of hosts.
    pub links: Arc<[IpNet]>,
    /// The country of each address.
    pub countries: Option<Arc<GeoDatabase>>,
    /// The buckets of rate limits, which outlive a policy.
    pub limiter: Arc<Limiter>,
    /// The match counts of rules and lists, which outlive a policy, too.
    pub counts: Arc<Counts>,
    /// Number of times that the wall clock was set. A verdict is valid only while this number stays
    /// the same.
    pub clock_settings: u64,
}

impl Parts {
    /// Creates the inputs for one worker, without lists, switches, neighbours and countries. The
    /// secret prevents attackers from choosing addresses that share a bucket with a client.
    pub fn new(secret: [u8; 32]) -> Self {
        Self {
            lists: None,
            switches: Switches::default(),
            neighbours: Arc::default(),
            neighbours_version: 0,
            identified_since: 0,
            links: Arc::default(),
            countries: None,
            limiter: Arc::new(Limiter::new(secret)),
            counts: Arc::new(Counts::new(1)),
            clock_settings: 0,
        }
    }

    /// Replaces the neighbours.
    pub fn change_neighbours(&mut self, neighbours: Arc<[Neighbour]>) {
        self.neighbours = neighbours;
        self.neighbours_version = self.neighbours_version.wrapping_add(1);
    }

    /// Marks all clients as unidentified, because the configuration now tests other properties of
    /// clients.
    pub(crate) fn start_over(&mut self) {
        self.neighbours_version = self.neighbours_version.wrapping_add(1);
        self.identified_since = self.neighbours_version;
    }

    /// Returns which clients must be identified before their queries are evaluated.
    pub(crate) fn strangers(&self, config: &PolicyConfig) -> Strangers {
        Strangers {
            links: if macs_are_wanted(config) { self.links.clone() } else { Arc::default() },
            by_name: are_wanted(config),
            since: self.identified_since,
            version: self.neighbours_version,
        }
    }

    /// Reports whether these inputs make the same policy as `other` from the same configuration.
    pub(crate) fn build_the_same(&self, other: &Self) -> bool {
        // Versions and links decide which clients are identified. The policy does not use them.
        let Self {
            lists, switches, neighbours, countries, limiter, counts, clock_settings, ..
        } = self;
        is_one(lists.as_ref(), other.lists.as_ref())
            && *switches == other.switches
            && *neighbours == other.neighbours
            && is_one(countries.as_ref(), other.countries.as_ref())
            && Arc::ptr_eq(limiter, &other.limiter)
            && Arc::ptr_eq(counts, &other.counts)
            && *clock_settings == other.clock_settings
    }
}

fn is_one<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    one.map(Arc::as_ptr) == other.map(Arc::as_ptr)
}

/// The configuration and the other inputs from which a policy is built, with this policy. If the
/// configuration needs no policy, there is none.
pub(crate) struct PolicySources<'p> {
    config: &'p PolicyConfig,
    parts: &'p Parts,
    policy: Option<&'p Policy>,
}

impl<'p> PolicySources<'p> {
    /// Returns the sources of a policy that was built from this configuration and these parts.
    pub(crate) fn of(
        config: &'p PolicyConfig,
        parts: &'p Parts,
        policy: Option<&'p Policy>,
    ) -> Self {
        Self { config, parts, policy }
    }

    /// Returns what has changed since `before` for the clients of the profiles. Clients may have
    /// moved between profiles.
    pub(crate) fn change_since(&self, before: &Self) -> PolicyChange {
        let (policy, earlier) = match (self.policy, before.policy) {
            (None, None) => return PolicyChange::None,
            (Some(policy), Some(earlier)) => (policy, earlier),
            _ => return PolicyChange::Any,
        };
        let continues =
            policy.clients.continues(&earlier.clients) && Judged::by(self) == Judged::by(before);
        let is_same = is_one(self.parts.lists.as_ref(), before.parts.lists.as_ref());
        let reads_lists = policy.program.rules().iter().any(Rule::reads_lists);
        match (continues, is_same) {
            (true, true) => PolicyChange::None,
            (true, false) if !reads_lists => PolicyChange::Entries,
            _ => PolicyChange::Any,
        }
    }
}

/// The difference between two policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PolicyChange {
    /// Each profile has the same number and gets the same answers.
    None,
    /// Each profile has the same number. The entries of lists have changed, and no rule tests
    /// lists.
    Entries,
    /// Other changes.
    Any,
}

/// The configuration that decides the answers of a profile. The lists in force and the groups are
/// not part of it: they are properties of the profile.
#[derive(PartialEq)]
struct Judged<'p> {
    block: &'p BlockConfig,
    time_zone: &'p str,
    rebinding: Option<&'p [Box<[u8]>]>,
    geo_database: Option<&'p Path>,
    lists: &'p [ListConfig],
    rules: &'p [RuleSpec],
    signals: &'p Signals,
    group_names: Vec<&'p str>,
    listeners: &'p [String],
    views: &'p [ZoneView],
    switches: &'p Switches,
    countries: Option<u64>,
    clock_settings: u64,
}

impl<'p> Judged<'p> {
    fn by(sources: &PolicySources<'p>) -> Self {
        let PolicySources { config, parts, policy: _ } = *sources;
        let PolicyConfig {
            block,
            time_zone,
            rebinding,
            geo_database,
            // Only pools use this setting.
            locates_clients: _,
            lists,
            rules,
            signals,
            groups,
            listeners,
            views,
            // The clients determine the profile of each client address.
            clients: _,
            id_precedence: _,
            leases: _,
        } = config;
        Self {
            block,
            time_zone,
            rebinding: rebinding.as_deref(),
            geo_database: geo_database.as_deref(),
            lists,
            rules,
            signals,
            group_names: groups.iter().map(|group| group.name.as_str()).collect(),
            listeners,
            views,
            switches: &parts.switches,
            countries: parts.countries.as_ref().map(|database| database.digest()),
            clock_settings: parts.clock_settings,
        }
    }
}

impl Policy {
    /// Builds the policy, or returns `None` if nothing is filtered. `entrances` has the listener's
    /// name for each address of the server, and an empty name for addresses of `[server]`. Profiles
    /// keep their identifiers from the policy `before` if their properties are the same.
    ///
    /// # Errors
    /// The clients have too many different profiles.
    pub fn build(
        config: &PolicyConfig,
        entrances: &[&str],
        parts: &Parts,
        before: Option<&Self>,
    ) -> Result<Option<Self>, StateError> {
        if config.is_empty() {
            return Ok(None);
        }
        let rules = config.checked_rules().map_err(|mut faults| faults.swap_remove(0))?;
        let mut directory = config.directory().map_err(|mut faults| faults.swap_remove(0))?;
        let places = places(config, parts.lists.as_deref());
        let stand_ins =
            StandIns::of((config, &mut directory), (parts.lists.as_deref(), &places), before);
        let clients = clients(config, (parts, &directory), rules.client_tests(), before)?;
        let program = Program::build(&rules, &clients, &parts.switches);
        let origins =
            |listener: &&str| Transport::ALL.map(|transport| clients.origin(listener, transport));
        let (first, others) = entrances.split_first().unwrap_or((&"", &[]));
        let first_origins = origins(first);
        let other_origins = others.iter().map(origins).collect();
        let rebinding =
            config.rebinding.as_ref().map(|names| Exceptions::of(names.iter().cloned()));
        let in_force = in_force(&clients, &stand_ins.indices);
        let zones = zone_lists(parts.lists.as_deref(), &stand_ins.shown);
        let rule_names = program.rules().iter().map(|rule| rule.name.as_str());
        Ok(Some(Self {
            zones_in_force: zones_in_force(parts.lists.as_deref(), &in_force),
            in_force,
            view_bits: view_bits(&config.views, &clients),
            known_to_lists: list_clients::known(parts.lists.as_deref(), &clients),
            notes: notes(config, (parts.lists.as_deref(), &zones), program.rules()),
            asks_for_lists: rules.rules().iter().any(Rule::reads_lists),
            wants_names: are_wanted(config),
            countries: parts
                .countries
                .clone()
                .filter(|_| rules.rules().iter().any(Rule::reads_countries)),
            lists: parts.lists.clone(),
            block: BlockConfig { addresses: config.block.answered(), ..config.block.clone() },
            limiter: parts.limiter.clone(),
            counted: parts.counts.places(config, zones.iter().copied(), rule_names),
            places,
            stand_ins,
            counts: parts.counts.clone(),
            clients,
            program,
            first_origins,
            other_origins,
            rebinding,
        }))
    }
}

/// Builds the table of clients from the tests of rules, lists, switches and policy zones.
fn clients(
    config: &PolicyConfig,
    (parts, directory): (&Parts, &Directory),
    mut tests: Vec<ClientTest>,
    before: Option<&Policy>,
) -> Result<Clients, StateError> {
    let lists = parts.lists.as_deref();
    let of_lists = lists.map_or_else(Vec::new, |lists| list_clients::tests(config, lists));
    let of_views = config.views.iter().flat_map(|view| &view.items).map(ViewItem::test);
    for test in of_lists.into_iter().chain(parts.switches.client_tests()).chain(of_views) {
        if !tests.contains(&test) {
            tests.push(test);
        }
    }
    add_tests_of_zones(&mut tests, lists);
    let build = |before: Option<&Policy>| {
        let (directory, tests) = (directory.clone(), tests.clone());
        let clients = match before {
            Some(before) => {
                Clients::build_after(&before.clients, directory, &config.listeners, tests)
            }
            None => Clients::build(directory, &config.listeners, tests),
        };
        clients?.with_neighbours(&parts.neighbours)
    };
    // Unused profiles of `before` may exceed the limit together with the new profiles. If so, the
    // table is built without `before`.
    Ok(build(before).or_else(|_| build(None))?)
}

/// Adds the tests of policy zones: triggers on client addresses, and the transport if a trigger
/// truncates the answer over UDP.
fn add_tests_of_zones(tests: &mut Vec<ClientTest>, lists: Option<&Lists>) {
    let zones = lists.map(Lists::zones);
    let networks: BTreeSet<_> =
        zones.iter().flat_map(|zones| zones.all()).flat_map(Zone::client_networks).collect();
    let within = |test: &ClientTest| {
        if let ClientTest::Within(network) = test { Some(*network) } else { None }
    };
    let known: BTreeSet<_> = tests.iter().filter_map(within).collect();
    tests.extend(
        networks.into_iter().filter(|network| !known.contains(network)).map(ClientTest::Within),
    );
    let by_datagram = ClientTest::Transport(Transport::Udp);
    if zones.is_some_and(Zones::tells_transports) && !tests.contains(&by_datagram) {
        tests.push(by_datagram);
    }
}

/// Returns the index in the configuration of each compiled list; `None` for a deleted list. Lists
/// are matched by name, or by source if they were renamed. New lists wait for the next compilation.
fn places(config: &PolicyConfig, lists: Option<&Lists>) -> Vec<Option<usize>> {
    let made = lists.map_or(&[][..], |lists| &lists.making().lists);
    let is_made = |name: &str| made.iter().any(|one| one.name == name);
    let place = |one: &Compiled| {
        let mut all = config.lists.iter();
        let named = all.position(|list| list.name == one.name);
        let is_renamed = |list: &ListConfig| !is_made(&list.name) && one.has_text_of(list);
        named.or_else(|| config.lists.iter().position(is_renamed))
    };
    made.iter().map(place).collect()
}

fn in_force(clients: &Clients, places: &[Option<usize>]) -> Vec<ListSet> {
    let numbers = 0..clients.profiles();
    numbers
        .map(|profile| {
            let lists = clients.lists(avocet_policy::client::Profile(profile as u16));
            let is_in_force = |place: usize| lists.is_some_and(|lists| lists.contains(place));
            let of_image =
                places.iter().enumerate().filter(|(_, place)| place.is_some_and(is_in_force));
            of_image.filter_map(|(number, _)| ListId::at(number)).collect()
        })
        .collect()
}

/// Returns the policy zones in force for each profile: the zones whose list is in force.
fn zones_in_force(lists: Option<&Lists>, in_force: &[ListSet]) -> Vec<ZoneSet> {
    let Some(lists) = lists else { return Vec::new() };
    let of = |set: &ListSet| {
        let mut zones = ZoneSet::default();
        let places = 0..lists.zones().all().count();
        places
            .filter(|zone| lists.list_of_zone(*zone).is_some_and(|list| set.contains(list)))
            .for_each(|zone| zones.insert(zone));
        zones
    };
    in_force.iter().map(of).collect()
}

/// Returns the indexes in the configuration of the policy zones, in the order of the zones.
fn zone_lists(lists: Option<&Lists>, places: &[Option<usize>]) -> Vec<Option<usize>> {
    let Some(lists) = lists else { return Vec::new() };
    let zones = 0..lists.zones().all().count();
    zones.map(|zone| places.get(lists.list_of_zone(zone)?.place()).copied().flatten()).collect()
}

/// Returns the extended errors of the policy (RFC 8914 §4): "Filtered" for lists, "Blocked" or
/// "Forged Answer" for the operator's rules.
fn notes(
    config: &PolicyConfig,
    (lists, zone_lists): (Option<&Lists>, &[Option<usize>]),
    rules: &[Rule],
) -> Arc<[Note]> {
    let nothing = || -> Note { (Ede::FILTERED, "".into()) };
    let mut notes: Vec<Note> = vec![(Ede::BLOCKED, "private address for a public name".into())];
    notes.push((Ede::BLOCKED, "too many addresses or names in the answer".into()));
    notes.push((Ede::BLOCKED, "the lists take too much work for this name".into()));
    debug_assert_eq!(notes.len() + 1, FIRST_LIST_NOTE);
    notes.extend(
        config.lists.iter().map(|list| (Ede::FILTERED, format!("list {}", list.name).into())),
    );
    notes.resize_with(FIRST_ZONE_NOTE - 1, nothing);
    let zones = lists.into_iter().flat_map(|lists| lists.zones().all()).zip(zone_lists);
    for (zone, list) in zones {
        let list = list.map_or("", |place| config.lists[place].name.as_str());
        notes.extend(
            TriggerKind::ALL.map(|kind| (Ede::FILTERED, zone_note(list, zone, kind).into())),
        );
    }
    notes.resize_with(FIRST_RULE_NOTE - 1, nothing);
    notes.extend(rules.iter().map(|rule| {
        let code = match rule.action {
            Action::Redirect(..) | Action::SafeSearch => Ede::FORGED_ANSWER,
            Action::RateLimit(_) => Ede::PROHIBITED,
            _ => Ede::BLOCKED,
        };
        (code, format!("rule {}", rule.name).into())
    }));
    notes.into()
}

/// Returns a text with the list, its zone and the kind of trigger. The name of the zone is left out
/// if it is long or the root.
fn zone_note(list: &str, zone: &Zone, kind: TriggerKind) -> String {
    let origin = zone.origin().to_string();
    if origin.len() > MAX_ORIGIN || origin == "." {
        return format!("list {list}, {}", kind.name());
    }
    format!("list {list}, {} of zone {origin}", kind.name())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::{Cursor, Result};

    use avocet_config::Config;

    use super::*;
    use crate::policy::load::from_texts;

    fn lists(text: &str) -> PolicyConfig {
        Config::from_text(None, text, &BTreeMap::new()).unwrap().policy
    }

    #[test]
    fn a_list_that_is_renamed_or_moved_keeps_its_entries() {
        let ads = "[[list]]\nname = \"ads\"\nurl = \"https://lists.example/ads\"\n";
        let own = "[[list]]\nname = \"own\"\nfile = \"own.txt\"\n";
        let text = |_: &ListConfig| Result::Ok(Some(Cursor::new("ads.example\n")));
        let made = from_texts(&lists(&format!("{ads}{own}")), [1; 32], text).unwrap();
        let check = |text: String, expected: [Option<usize>; 2]| {
            assert_eq!(places(&lists(&text), made.as_ref()), expected, "{text}");
        };
        check(format!("{ads}{own}"), [Some(0), Some(1)]);
        check(format!("{own}{ads}"), [Some(1), Some(0)]);
        let renamed = ads.replace("\"ads\"", "\"advertising\"");
        check(format!("{renamed}{own}"), [Some(0), Some(1)]);
        check(format!("{own}{renamed}"), [Some(1), Some(0)]);
        // A list keeps its place if only its name changes, but not if its kind changes.
        check(format!("{renamed}kind = \"allow\"\n{own}"), [None, Some(1)]);
        check(own.to_owned(), [None, Some(0)]);
    }
}
