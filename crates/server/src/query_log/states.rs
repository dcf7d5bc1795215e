//! The snapshots with which logged queries were answered. They have the texts for the identifiers
//! in an entry, and the privacy of its client.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use avocet_config::policy::PolicyConfig;
use avocet_config::privacy::Privacy;
use avocet_nameserver::metrics::STAGES;
use avocet_nameserver::name_server::NameServer;
use avocet_nameserver::policy::{Asked, Noted, Scratch};
use avocet_nameserver::query::asked::Transport;
use avocet_nameserver::snapshot::Snapshot;
use avocet_policy::client::{ClientSpec, Clients, DEFAULT_GROUP, DeviceId, Identity};
use avocet_querylog::{self as querylog, Entry, Facts, Label, NO_EDE, Outcome};
use avocet_wire::{FoldedNameBuf, Rcode, Rtype};
use avocet_worker::state::Shared;
use ipnet::IpNet;

use crate::clients;

/// The time for which a snapshot is kept after its replacement: longer than an entry stays in a
/// ring.
const KEPT: Duration = Duration::from_secs(2);
/// Maximum number of clients of a snapshot that are remembered: more than a network has.
const MAX_REMEMBERED: usize = 16_384;

/// The properties of the client of an entry.
#[derive(Clone, Copy)]
struct ClientFacts {
    /// The index of the device's name in `LoggedState::devices`, plus one; 0 if the client has no
    /// name.
    device: u16,
    /// The index of the client's groups in `LoggedState::groups`.
    groups: u16,
    /// The data about the client that the log may store.
    privacy: Privacy,
}

/// A snapshot, with the texts that were looked up in it.
struct LoggedState {
    state: Arc<Snapshot>,
    /// The clients, if the snapshot has no policy that knows them.
    without_policy: Option<Clients>,
    clients: HashMap<(IpAddr, DeviceId), ClientFacts>,
    /// The names of devices. [`ClientFacts::device`] is an index in this list, plus one.
    devices: Vec<String>,
    /// Sets of groups. [`ClientFacts::groups`] is an index in this list.
    groups: Vec<Vec<String>>,
    /// The groups that do not identify a single device.
    shared_groups: HashSet<String>,
    /// The names of the listeners by entrance; empty for the addresses of `[server]`.
    listeners: Vec<String>,
    /// The time at which another snapshot replaced this one.
    replaced: Option<Instant>,
}

impl LoggedState {
    fn of(state: Arc<Snapshot>) -> Self {
        let config = &state.config;
        let is_without = state.policy.is_none();
        Self {
            without_policy: is_without.then(|| clients::without_policy(&state)).flatten(),
            clients: HashMap::new(),
            devices: Vec::new(),
            groups: Vec::new(),
            shared_groups: shared_groups(&config.policy),
            listeners: config.server.entrances().into_iter().map(str::to_owned).collect(),
            replaced: None,
            state,
        }
    }

    /// Returns the known facts about a client.
    fn client(&mut self, (ip, device): (IpAddr, DeviceId)) -> ClientFacts {
        if let Some(facts) = self.clients.get(&(ip, device)) {
            return *facts;
        }
        let Identity { client, name, mut groups, .. } =
            match (&self.state.policy, &self.without_policy) {
                (Some(policy), _) => policy.identify_with(ip, device),
                (None, Some(clients)) => clients.identify_with(ip, device),
                (None, None) => Identity::default(),
            };
        let config = &self.state.config.query_log;
        let privacy = config.privacy_of(client.as_deref(), groups.iter().map(String::as_str));
        if matches!(privacy, Privacy::Truncated | Privacy::Pseudonym) {
            groups.retain(|group| self.shared_groups.contains(group));
        }
        let facts = ClientFacts {
            device: name.map_or(0, |name| number(&mut self.devices, name).saturating_add(1)),
            groups: number(&mut self.groups, groups),
            privacy,
        };
        if self.clients.len() >= MAX_REMEMBERED {
            self.clients.clear();
        }
        self.clients.insert((ip, device), facts);
        facts
    }

    /// Finds the rule or list that decided about an entry. Returns the note of the rule; 0 if a
    /// list decided. Adds the lists that contain the name to `lists`, with the deciding one first.
    fn decider(&self, entry: &Entry<'_>, scratch: &mut Scratch, lists: &mut Vec<u16>) -> u16 {
        let Facts { profile, client, qtype, rule, outcome, .. } = entry.facts;
        let Some(policy) = &self.state.policy else { return 0 };
        let decided = policy.noted(rule);
        if let Noted::List(place) = decided {
            lists.push(place as u16);
        }
        if matches!(outcome, Outcome::Blocked | Outcome::Rewritten | Outcome::Dropped)
            && let Ok(qname) = FoldedNameBuf::from_wire(&entry.qname.to_ascii_lowercase())
        {
            let (qname, qtype) = (qname.view(), Rtype(qtype));
            let (device, transport) = (DeviceId::NONE, Transport::Udp);
            let asked = Asked { profile, ip: client, device, transport, qname, qtype };
            for place in policy.lists_naming(&asked, scratch) {
                if !lists.contains(&(place as u16)) {
                    lists.push(place as u16);
                }
            }
        }
        if matches!(decided, Noted::List(_)) { 0 } else { rule }
    }

    /// Returns the extended error of an entry's answer. For an answer of the policy, the entry has
    /// only a note, from which the error is derived.
    fn ede(&self, facts: &Facts) -> u16 {
        let policy = self.state.policy.as_ref();
        let of_note = policy.filter(|_| facts.ede == NO_EDE && facts.response_size > 0);
        of_note
            .and_then(|policy| policy.ede_of(facts.rule, facts.stage, Rcode(facts.rcode)))
            .map_or(facts.ede, |ede| ede.0)
    }
}

/// Returns the groups that do not identify a single device: `default`, and those with a network or
/// with at least two clients.
fn shared_groups(policy: &PolicyConfig) -> HashSet<String> {
    let is_network = |id: &str| {
        id.parse::<IpNet>().is_ok_and(|network| network.prefix_len() < network.max_prefix_len())
    };
    let mut owners: HashMap<&str, &ClientSpec> = HashMap::new();
    for client in &policy.clients {
        let ids = client.ids.iter().map(String::as_str);
        owners.extend(ids.chain([client.name.as_str()]).map(|id| (id, client)));
    }
    let mut members: HashMap<&str, HashSet<&str>> = HashMap::new();
    let mut shared = HashSet::from([DEFAULT_GROUP.to_owned()]);
    let listed = policy.groups.iter().flat_map(|group| {
        group.clients.iter().map(|member| (group.name.as_str(), member.as_str()))
    });
    let own = policy.clients.iter().flat_map(|client| {
        client.groups.iter().map(|group| (group.as_str(), client.name.as_str()))
    });
    for (group, member) in listed.chain(own) {
        let owner = owners.get(member);
        let of_group = members.entry(group).or_default();
        of_group.insert(owner.map_or(member, |client| &client.name));
        let ids = owner.map_or(&[][..], |client| &client.ids);
        if of_group.len() > 1 || is_network(member) || ids.iter().any(|id| is_network(id)) {
            shared.insert(group.to_owned());
        }
    }
    shared
}

/// Returns the index of a value, and adds the value if it is new.
fn number<T: PartialEq>(all: &mut Vec<T>, value: T) -> u16 {
    let place = all.iter().position(|one| *one == value).unwrap_or_else(|| {
        all.push(value);
        all.len() - 1
    });
    place.min(usize::from(u16::MAX - 1)) as u16
}

/// The rule or list that decided about a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Decider<'a> {
    /// A rule, or a protection of the server itself.
    Rule(&'a str),
    /// A list or policy zone.
    List(&'a str),
}

/// The snapshots that entries may refer to.
pub(crate) struct LoggedStates {
    known: Vec<LoggedState>,
    /// The [`NameServer::revision`] of the last state.
    revision: u64,
    /// The upstreams. An entry refers to an upstream by its index in this list, plus one.
    upstreams: Vec<String>,
    /// Reusable memory for the policy.
    scratch: Scratch,
}

impl LoggedStates {
    /// Creates the value with the snapshot in force.
    pub(crate) fn new(shared: &NameServer) -> Self {
        let revision = shared.revision();
        let known = vec![LoggedState::of(shared.snapshot())];
        Self { known, revision, upstreams: Vec::new(), scratch: Scratch::for_looking() }
    }

    /// Uses the snapshot in force, and removes snapshots that no entry needs.
    pub(crate) fn refresh(&mut self, shared: &NameServer) {
        let revision = shared.revision();
        if revision != self.revision {
            self.revision = revision;
            let now = Instant::now();
            for state in &mut self.known {
                state.replaced.get_or_insert(now);
            }
            self.known.push(LoggedState::of(shared.snapshot()));
        }
        self.known.retain(|state| state.replaced.is_none_or(|since| since.elapsed() < KEPT));
    }

    /// Returns the snapshot in force.
    pub(crate) fn current(&self) -> &Snapshot {
        // There is always a snapshot, because the last one is not removed.
        &self.known[self.known.len() - 1].state
    }

    /// Returns the privacy of a client, according to the snapshot with a revision.
    pub(crate) fn privacy_of(&mut self, revision: u32, client: (IpAddr, DeviceId)) -> Privacy {
        let place = self.known.iter().rposition(|known| known.state.revision == revision);
        let last = self.known.len() - 1;
        self.known[place.unwrap_or(last)].client(client).privacy
    }

    /// Returns the rule or list that decided about a query, by the note of its decision.
    pub(crate) fn decider_of(&self, revision: u32, note: u16) -> Option<Decider<'_>> {
        let known = self.known.iter().rfind(|known| known.state.revision == revision)?;
        match known.state.policy.as_ref()?.noted(note) {
            Noted::Rule(text) | Noted::Protection(text) => Some(Decider::Rule(text)),
            Noted::List(place) => {
                let list = known.state.config.policy.lists.get(place)?;
                Some(Decider::List(&list.name))
            }
            Noted::Nobody => None,
        }
    }

    /// Reads the upstreams if the one with this number is not known yet.
    pub(crate) fn learn_upstream(&mut self, number: u16, shared: &Shared) {
        if usize::from(number) > self.upstreams.len() {
            shared.logged_upstreams.add_to(&mut self.upstreams);
        }
    }

    /// Completes an entry as a worker pushed it. Returns its facts with the client and the privacy,
    /// and adds the lists that contain the name to `lists`. Returns `None` if the client is not
    /// logged.
    pub(crate) fn complete(&mut self, entry: &Entry<'_>, lists: &mut Vec<u16>) -> Option<Facts> {
        let Self { known, scratch, .. } = self;
        lists.clear();
        let is_of = |known: &LoggedState| known.state.revision == entry.facts.revision;
        // The revision was in force only for a moment and has no snapshot here; the last snapshot
        // knows its clients.
        let place = known.iter().rposition(is_of);
        let last = known.len() - 1;
        let state = &mut known[place.unwrap_or(last)];
        let client = (entry.facts.client, DeviceId::from_number(entry.facts.known_as));
        let ClientFacts { device, groups, privacy } = state.client(client);
        let privacy = match privacy {
            Privacy::Full => querylog::Privacy::Full,
            Privacy::Truncated => querylog::Privacy::Truncated,
            Privacy::Pseudonym => querylog::Privacy::Pseudonym,
            Privacy::NoNames => querylog::Privacy::NoNames,
            Privacy::Off => return None,
        };
        let (rule, ede) = match place {
            Some(_) => (state.decider(entry, scratch, lists), state.ede(&entry.facts)),
            None => (0, entry.facts.ede),
        };
        let revision = state.state.revision;
        let profile = groups;
        Some(Facts { device, rule, ede, privacy, profile, revision, ..entry.facts })
    }
}

impl querylog::Labels for LoggedStates {
    fn texts(&self, revision: u32, label: Label, number: u16, found: &mut dyn FnMut(&str)) {
        let place = usize::from(number);
        let of_words = |words: &[&'static str]| words.get(place).copied();
        let fixed = match label {
            Label::Stage => of_words(&STAGES),
            Label::Transport => of_words(&TRANSPORTS),
            Label::Cache => of_words(&CACHES),
            Label::Validation => of_words(&VALIDATIONS),
            Label::Upstream => {
                place.checked_sub(1).and_then(|at| self.upstreams.get(at)).map(|s| &**s)
            }
            _ => None,
        };
        if let Some(text) = fixed {
            return found(text);
        }
        let Some(known) = self.known.iter().rfind(|known| known.state.revision == revision) else {
            return;
        };
        match label {
            Label::Listener => {
                known.listeners.get(place).filter(|name| !name.is_empty()).map(|s| found(s))
            }
            Label::Device => {
                place.checked_sub(1).and_then(|at| known.devices.get(at)).map(|s| found(s))
            }
            Label::Groups => {
                known.groups.get(place).map(|groups| groups.iter().for_each(|s| found(s)))
            }
            Label::List => known.state.config.policy.lists.get(place).map(|list| found(&list.name)),
            Label::Rule => known.state.policy.as_ref().map(|policy| match policy.noted(number) {
                Noted::Rule(text) | Noted::Protection(text) => found(text),
                Noted::List(_) | Noted::Nobody => {}
            }),
            Label::Stage
            | Label::Transport
            | Label::Cache
            | Label::Validation
            | Label::Upstream => None,
        };
    }
}

/// The words for the transports, in the order of their numbers.
const TRANSPORTS: [&str; Transport::COUNT] = [
    Transport::Udp.name(),
    Transport::Tcp.name(),
    Transport::Tls.name(),
    Transport::Https.name(),
    Transport::Quic.name(),
    Transport::Odoh.name(),
];
/// The words for the state of the caches, in the order of `CacheState`.
pub(crate) const CACHES: [&str; 4] = ["not-asked", "hit", "stale", "miss"];
/// The words for the result of validation, in the order of `Validated`.
pub(crate) const VALIDATIONS: [&str; 3] = ["unknown", "secure", "bogus"];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use avocet_config::Config;

    use super::*;

    #[test]
    fn a_group_of_one_device_identifies_it() {
        let text = r#"
            [[client]]
            name = "tablet"
            ids = ["10.0.0.1", "02:00:00:00:00:01"]
            groups = ["kids", "alone"]
            [[client]]
            name = "phone"
            ids = ["10.0.0.2"]
            groups = ["kids"]
            [[client]]
            name = "vlan"
            ids = ["10.1.0.0/16"]
            [[group]]
            name = "kids"
            [[group]]
            name = "alone"
            clients = ["tablet", "10.0.0.1"]
            [[group]]
            name = "host"
            clients = ["10.0.0.9/32"]
            [[group]]
            name = "network"
            clients = ["192.168.7.0/24"]
            [[group]]
            name = "through-client"
            clients = ["vlan"]
        "#;
        let config = Config::from_text(None, text, &BTreeMap::new()).unwrap();
        let mut shared: Vec<String> = shared_groups(&config.policy).into_iter().collect();
        shared.sort_unstable();
        assert_eq!(shared, ["default", "kids", "network", "through-client"]);
    }
}
