//! Profiles: sets of all facts about a client that the policy depends on, each stored once.
//!
//! Two queries with the same profile agree on every [`ClientTest`] and on the lists in force. A
//! profile combines a *subject* and an *origin*. The subject depends on the client's address, and
//! the origin on the listener and the transport.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::address_map::AddressMap;
use super::build::Client;
use super::devices::{DeviceFacts, Devices, KnownDevice, MAX_COMBINATIONS, PlaceFacts};
use super::identity::host_name;
use super::{
    Asker, ClientFault, ClientTest, DeviceClaims, DeviceId, Directory, Id, IdPrecedence, Identity,
    MAX_NEIGHBOURS, MAX_PROFILES, Neighbour, Transport, canonical,
};
use crate::PolicyError;

/// The identifier of a profile: a set of all facts about a client that the policy depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Profile(pub u16);

/// The identifier of an origin: a set of facts about the listener and the transport of a query. It
/// is determined once per socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Origin(u16);

/// The set of the lists in force. Lists are identified by their indices.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ListSet {
    bits: Box<[u64]>,
}

impl ListSet {
    fn of(count: usize, members: impl IntoIterator<Item = usize>) -> Self {
        let mut bits = vec![0u64; count.div_ceil(64)].into_boxed_slice();
        for member in members {
            bits[member / 64] |= 1 << (member % 64);
        }
        Self { bits }
    }

    /// Reports whether the list is in force.
    #[inline]
    #[must_use]
    pub fn contains(&self, list: usize) -> bool {
        self.bits.get(list / 64).is_some_and(|word| word >> (list % 64) & 1 != 0)
    }

    /// Returns the set as words of 64 bits, with the first list in the lowest bit.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.bits
    }
}

/// The facts that all addresses of one subject (addresses that the policy treats alike) share.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct SubjectFacts {
    /// The results of the tests, one bit each. Tests of the origin are zero.
    facts: Box<[u64]>,
    lists: ListSet,
}

/// The table of clients: maps addresses to profiles, and profiles to facts.
#[derive(Clone, Debug)]
pub struct Clients {
    directory: Arc<Directory>,
    tests: Arc<[ClientTest]>,
    by_address: AddressMap,
    /// The known devices; `None` if addresses alone identify all clients.
    devices: Option<Devices>,
    subjects: Vec<SubjectFacts>,
    numbers: HashMap<SubjectFacts, u16>,
    origins: Origins,
    known: HashMap<IpAddr, Neighbour>,
    ignored_neighbours: usize,
}

#[derive(Clone, PartialEq, Debug)]
struct Origins {
    facts: Vec<Box<[u64]>>,
    listeners: Vec<String>,
    /// The identifier of the origin for each listener and transport, ordered by listener, then
    /// transport. The last listener has no name.
    numbers: Vec<u16>,
}

impl Clients {
    /// Evaluates `tests` for all clients. `listeners` holds the names of all listeners.
    ///
    /// # Errors
    /// There are more than [`MAX_PROFILES`] profiles.
    pub fn build(
        directory: Directory,
        listeners: &[String],
        tests: Vec<ClientTest>,
    ) -> Result<Self, ClientFault> {
        Self::numbered(directory, listeners, tests)?.with_neighbours(&[])
    }

    /// Builds the table as [`Clients::build`] does, as the successor of `previous`. Profiles keep
    /// their identifiers if both tables have the same tests and lists. See [`Clients::continues`].
    ///
    /// # Errors
    /// There are more than [`MAX_PROFILES`] profiles, including those that only the previous table
    /// needs.
    pub fn build_after(
        previous: &Self,
        directory: Directory,
        listeners: &[String],
        tests: Vec<ClientTest>,
    ) -> Result<Self, ClientFault> {
        let mut clients = Self::numbered(directory, listeners, tests)?;
        if clients.numbers_alike(previous) {
            clients.subjects.clone_from(&previous.subjects);
            clients.numbers.clone_from(&previous.numbers);
        }
        clients.with_neighbours(&[])
    }

    /// Returns whether each profile of `previous` has the same facts in this table.
    #[must_use]
    pub fn continues(&self, previous: &Self) -> bool {
        self.numbers_alike(previous) && self.subjects.starts_with(&previous.subjects)
    }

    fn numbers_alike(&self, other: &Self) -> bool {
        self.tests == other.tests
            && self.origins == other.origins
            && self.directory.list_count == other.directory.list_count
    }

    /// Returns a table that has no profiles yet.
    fn numbered(
        directory: Directory,
        listeners: &[String],
        tests: Vec<ClientTest>,
    ) -> Result<Self, ClientFault> {
        let origins = Origins::build(listeners, &tests)?;
        Ok(Self {
            directory: Arc::new(directory),
            tests: tests.into(),
            by_address: AddressMap::build(&[], |_| Ok::<u16, ClientFault>(0))?,
            devices: None,
            subjects: Vec::new(),
            numbers: HashMap::new(),
            origins,
            known: HashMap::new(),
            ignored_neighbours: 0,
        })
    }

    /// Returns a copy of this table with other neighbours. Existing profiles keep their
    /// identifiers, and new profiles may be added.
    ///
    /// # Errors
    /// There are more than [`MAX_PROFILES`] profiles.
    pub fn with_neighbours(&self, neighbours: &[Neighbour]) -> Result<Self, ClientFault> {
        let mut clients = self.clone();
        clients.learn(neighbours);
        let networks = clients.networks();
        clients.by_address = AddressMap::build(&networks, |nets| clients.subject(nets))?;
        clients.devices = clients.devices_at(&networks)?;
        Ok(clients)
    }

    /// Returns the origin for a listener and a transport. Callers need it once per socket, not for
    /// each query.
    #[must_use]
    pub fn origin(&self, listener: &str, transport: Transport) -> Origin {
        self.origins.find(listener, transport)
    }

    /// Returns the profile of a client. Takes a few nanoseconds: a binary search among the relevant
    /// networks.
    #[inline]
    #[must_use]
    pub fn profile(&self, address: IpAddr, origin: Origin) -> Profile {
        let subject = self.by_address.find(address);
        Profile(subject * self.origins.facts.len() as u16 + origin.0)
    }

    /// Returns the profile of a client with a known device. The device either takes precedence over
    /// the address or has no effect.
    #[must_use]
    pub fn profile_with(&self, address: IpAddr, device: DeviceId, origin: Origin) -> Profile {
        match self.devices.as_ref().and_then(|devices| devices.subject(device, address)) {
            Some(subject) => Profile(subject * self.origins.facts.len() as u16 + origin.0),
            None => self.profile(address, origin),
        }
    }

    /// Returns the first device among the claims of a client that the configuration knows;
    /// [`DeviceId::NONE`] if there is none.
    #[must_use]
    pub fn device(&self, claims: &DeviceClaims<'_>) -> DeviceId {
        let devices = self.devices.as_ref();
        devices.map_or(DeviceId::NONE, |devices| devices.find(claims))
    }

    /// Returns the number of profiles. Their identifiers are the numbers from zero on.
    #[must_use]
    pub fn profiles(&self) -> usize {
        self.subjects.len() * self.origins.facts.len()
    }

    /// Returns the conditions on clients, in the order of the facts.
    #[must_use]
    pub fn tests(&self) -> &[ClientTest] {
        &self.tests
    }

    /// Returns whether the test with this index holds for the profile; `false` for an unknown
    /// profile.
    #[must_use]
    pub fn holds(&self, profile: Profile, test: usize) -> bool {
        let (subject, origin) = self.parts(profile);
        let bit =
            |facts: &[u64]| facts.get(test / 64).is_some_and(|word| word >> (test % 64) & 1 != 0);
        self.subjects.get(subject).is_some_and(|subject| bit(&subject.facts))
            || self.origins.facts.get(origin).is_some_and(|facts| bit(facts))
    }

    /// Returns a text that is equal for all tables in which the identifiers of profiles have the
    /// same meaning. The text shows whether data that is stored by profile is still usable with
    /// another table.
    #[must_use]
    pub fn meanings(&self) -> String {
        format!("{:?}", (&self.tests, &self.subjects, &self.origins.facts))
    }

    /// Returns the lists in force for a profile.
    #[must_use]
    pub fn lists(&self, profile: Profile) -> Option<&ListSet> {
        self.subjects.get(self.parts(profile).0).map(|subject| &subject.lists)
    }

    /// Returns the client that an address belongs to. This method searches and allocates, so it is
    /// meant for the log and for explanations.
    #[must_use]
    pub fn identify(&self, address: IpAddr) -> Identity {
        let address = canonical(address);
        let lengths = (0..=IpNet::from(address).max_prefix_len()).rev();
        let nets: Vec<IpNet> = lengths
            .filter_map(|len| IpNet::new(address, len).ok())
            .map(|net| net.trunc())
            .collect();
        self.identity(nets.iter())
    }

    /// Returns the client that an address belongs to, as [`Self::identify`] does, for a client with
    /// a known device.
    #[must_use]
    pub fn identify_with(&self, address: IpAddr, device: DeviceId) -> Identity {
        let devices = self.devices.as_ref();
        match devices.and_then(|devices| devices.client(device, address)) {
            Some(client) => self.identity_of(Some(&self.directory.clients[client]), None),
            None => self.identify(address),
        }
    }

    /// Returns the number of neighbours ignored because there are more than [`MAX_NEIGHBOURS`].
    #[must_use]
    pub fn ignored_neighbours(&self) -> usize {
        self.ignored_neighbours
    }

    /// Returns the configured groups and clients.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.directory
    }

    fn parts(&self, profile: Profile) -> (usize, usize) {
        let origins = self.origins.facts.len();
        (usize::from(profile.0) / origins, usize::from(profile.0) % origins)
    }

    /// Stores the neighbours that affect the facts about their addresses.
    fn learn(&mut self, neighbours: &[Neighbour]) {
        let names_matter = self.tests.iter().any(|test| matches!(test, ClientTest::Name(_)));
        self.known.clear();
        self.ignored_neighbours = 0;
        for neighbour in neighbours {
            let name = neighbour.name.as_deref().and_then(host_name);
            let owner = |id: Id| self.directory.owner.contains_key(&id);
            let mac = neighbour
                .mac
                .filter(|mac| self.tests.contains(&ClientTest::Mac(*mac)) || owner(Id::Mac(*mac)));
            let name = name.filter(|name| names_matter || owner(Id::Name(name.clone())));
            if mac.is_none() && name.is_none() {
                continue;
            }
            let address = canonical(neighbour.address);
            if self.known.len() == MAX_NEIGHBOURS && !self.known.contains_key(&address) {
                self.ignored_neighbours += 1;
                continue;
            }
            let known =
                self.known.entry(address).or_insert(Neighbour { address, mac: None, name: None });
            known.mac = mac.or(known.mac);
            known.name = name.or_else(|| known.name.take());
        }
    }

    /// Returns all networks with addresses that may have other facts than the addresses around
    /// them.
    fn networks(&self) -> Vec<IpNet> {
        let tests = self.tests.iter().filter_map(|test| match test {
            ClientTest::Within(network) => Some(network.trunc()),
            _ => None,
        });
        let ids = self.directory.owner.keys().filter_map(|id| match id {
            Id::Address(address) => Some(IpNet::from(*address)),
            Id::Prefix(network) => Some(*network),
            Id::Mac(_) | Id::Name(_) | Id::Device(_) => None,
        });
        tests.chain(ids).chain(self.known.keys().map(|address| IpNet::from(*address))).collect()
    }

    /// Returns the client that an address belongs to. `inwards` has the networks that contain the
    /// address; the innermost network comes first.
    fn identity<'a>(&self, inwards: impl Iterator<Item = &'a IpNet> + Clone) -> Identity {
        let host = inwards
            .clone()
            .next()
            .filter(|net| net.prefix_len() == net.max_prefix_len())
            .map(IpNet::addr);
        let known = host.and_then(|address| self.known.get(&address));
        let owner = |id: Id| self.directory.owner.get(&id).copied();
        let at = host.and_then(|address| owner(Id::Address(address)));
        let at = at.or_else(|| known.and_then(|known| owner(Id::Mac(known.mac?))));
        let at = at.or_else(|| known.and_then(|known| owner(Id::Name(known.name.clone()?))));
        let at = at.or_else(|| inwards.clone().find_map(|net| owner(Id::Prefix(*net))));
        self.identity_of(at.map(|at| &self.directory.clients[at]), known)
    }

    fn identity_of(&self, client: Option<&Client>, known: Option<&Neighbour>) -> Identity {
        let own_macs =
            client.into_iter().flat_map(|client| &client.ids).filter_map(|id| match id {
                Id::Mac(mac) => Some(*mac),
                _ => None,
            });
        let groups = client
            .map_or(std::slice::from_ref(&self.directory.default_group), |client| &client.groups);
        Identity {
            client: client.map(|client| client.name.clone()),
            name: client
                .map(|client| client.name.clone())
                .or_else(|| known.and_then(|known| known.name.clone())),
            macs: known.and_then(|known| known.mac).into_iter().chain(own_macs).collect(),
            groups: groups.iter().map(|at| self.directory.groups[*at].name.clone()).collect(),
        }
    }

    /// Returns the subject of the last of these networks. Each network contains the next one.
    fn subject(&mut self, networks: &[IpNet]) -> Result<u16, ClientFault> {
        let identity = self.identity(networks.iter().rev());
        let innermost = networks.last();
        let facts = bits(&self.tests, |test| match test {
            ClientTest::Within(network) => innermost.is_some_and(|inner| network.contains(inner)),
            test => !test.is_of_origin() && test.holds(&asker(&identity)),
        });
        let lists = self.lists_of(&identity.groups);
        self.number(facts, &lists)
    }

    /// Returns the identifier of the subject with these facts and lists. Adds the subject if it is
    /// new.
    fn number(&mut self, facts: Box<[u64]>, lists: &ListSet) -> Result<u16, ClientFault> {
        let subject = SubjectFacts { facts, lists: lists.clone() };
        if let Some(number) = self.numbers.get(&subject) {
            return Ok(*number);
        }
        let number = self.subjects.len();
        if (number + 1) * self.origins.facts.len() > MAX_PROFILES {
            return Err(too_many());
        }
        self.subjects.push(subject.clone());
        self.numbers.insert(subject, number as u16);
        Ok(number as u16)
    }

    /// Returns the subjects of all devices at all places; `None` if there is no device.
    fn devices_at(&mut self, networks: &[IpNet]) -> Result<Option<Devices>, ClientFault> {
        let (known, kinds) = self.kinds()?;
        if known.is_empty() {
            return Ok(None);
        }
        let (mut places, mut numbers) = (Vec::new(), HashMap::new());
        let map = AddressMap::build(networks, |nets| {
            let next = u16::try_from(places.len()).map_err(|_| too_many())?;
            Ok(*numbers.entry(self.place(nets)).or_insert_with_key(|facts: &PlaceFacts| {
                places.push(facts.clone());
                next
            }))
        })?;
        if kinds.len() * places.len() > MAX_COMBINATIONS {
            return Err(too_many());
        }
        let number = |facts, lists: &ListSet| self.number(facts, lists);
        Devices::build((map, &places), known, &kinds, number).map(Some)
    }

    /// Returns the devices of the configuration, and the different kinds of devices.
    fn kinds(&self) -> Result<(HashMap<DeviceId, KnownDevice>, Vec<DeviceFacts>), ClientFault> {
        let (mut known, mut kinds) = (HashMap::new(), Vec::new());
        let mut numbers: HashMap<DeviceFacts, u16> = HashMap::new();
        for (client, entry) in self.directory.clients.iter().enumerate() {
            let keys = entry.ids.iter().filter_map(|id| match id {
                Id::Device(key) => Some(key.device()),
                _ => None,
            });
            for device in keys {
                let identity = self.identity_of(Some(entry), None);
                let asker = asker(&identity);
                let is_first =
                    device.is_proven() || self.directory.precedence == IdPrecedence::Device;
                let facts = DeviceFacts {
                    facts: bits(&self.tests, |test| !test.is_of_origin() && test.holds(&asker)),
                    lists: self.lists_of(&identity.groups),
                    is_first,
                };
                let next = u16::try_from(kinds.len()).map_err(|_| too_many())?;
                let kind = *numbers.entry(facts).or_insert_with_key(|facts| {
                    kinds.push(facts.clone());
                    next
                });
                known.insert(device, KnownDevice { kind, client });
            }
        }
        Ok((known, kinds))
    }

    /// Returns the facts of an address that rules test, independent of its device.
    fn place(&self, networks: &[IpNet]) -> PlaceFacts {
        let innermost = networks.last();
        let identity = self.identity(networks.iter().rev());
        let is_host = |net: &&IpNet| net.prefix_len() == net.max_prefix_len();
        let host = innermost.filter(is_host).map(IpNet::addr);
        let neighbour = host.and_then(|address| self.known.get(&address));
        let macs: Vec<_> = neighbour.and_then(|known| known.mac).into_iter().collect();
        let asker = Asker { macs: &macs, ..Asker::default() };
        let facts = bits(&self.tests, |test| match test {
            ClientTest::Within(network) => innermost.is_some_and(|inner| network.contains(inner)),
            ClientTest::Mac(_) => test.holds(&asker),
            _ => false,
        });
        PlaceFacts { facts, is_taken: identity.client.is_some() || neighbour.is_some() }
    }

    fn lists_of(&self, groups: &[String]) -> ListSet {
        let count = self.directory.list_count;
        let groups = self.directory.groups.iter().filter(|group| groups.contains(&group.name));
        ListSet::of(count, groups.flat_map(|group| self.directory.lists_of(group)))
    }
}

impl Origins {
    fn build(listeners: &[String], tests: &[ClientTest]) -> Result<Self, ClientFault> {
        let mut origins =
            Self { facts: Vec::new(), listeners: listeners.to_vec(), numbers: Vec::new() };
        for listener in listeners.iter().map(String::as_str).chain([""]) {
            for transport in Transport::ALL {
                let asker = Asker { listener, transport: Some(transport), ..Asker::default() };
                let facts = bits(tests, |test| test.is_of_origin() && test.holds(&asker));
                let number = match origins.facts.iter().position(|other| *other == facts) {
                    Some(number) => number,
                    None => {
                        origins.facts.push(facts);
                        origins.facts.len() - 1
                    }
                };
                origins.numbers.push(u16::try_from(number).map_err(|_| too_many())?);
            }
        }
        Ok(origins)
    }

    fn find(&self, listener: &str, transport: Transport) -> Origin {
        let at =
            self.listeners.iter().position(|name| name == listener).unwrap_or(self.listeners.len());
        let place = Transport::ALL.iter().position(|other| *other == transport).unwrap_or(0);
        Origin(self.numbers[at * Transport::ALL.len() + place])
    }
}

fn too_many() -> ClientFault {
    ClientFault { entry: "clients".to_owned(), error: PolicyError::TooManyProfiles(MAX_PROFILES) }
}

fn bits(tests: &[ClientTest], holds: impl Fn(&ClientTest) -> bool) -> Box<[u64]> {
    let mut bits = vec![0u64; tests.len().div_ceil(64)].into_boxed_slice();
    for (at, _) in tests.iter().enumerate().filter(|(_, test)| holds(test)) {
        bits[at / 64] |= 1 << (at % 64);
    }
    bits
}

fn asker(identity: &Identity) -> Asker<'_> {
    Asker {
        client: identity.client.as_deref(),
        name: identity.name.as_deref(),
        macs: &identity.macs,
        groups: &identity.groups,
        ..Asker::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClientSpec, GroupSpec, Mac};
    use super::*;

    const PHONE: Mac = Mac([2, 0, 0, 0, 0, 9]);

    fn owned(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn client(name: &str, ids: &[&str], groups: &[&str]) -> ClientSpec {
        ClientSpec { name: name.to_owned(), ids: owned(ids), groups: owned(groups) }
    }

    fn clients(tests: Vec<ClientTest>) -> Clients {
        let lists = Some(owned(&["ads"]));
        let groups = [
            GroupSpec { name: "kids".to_owned(), clients: Vec::new(), lists },
            GroupSpec {
                name: "home".to_owned(),
                clients: Vec::new(),
                lists: Some(owned(&["malware"])),
            },
        ];
        let clients = [
            client("phone", &["02:00:00:00:00:09"], &["kids", "home"]),
            client("nas", &["192.0.2.7"], &["home"]),
            client("net", &["192.0.2.0/24", "2001:db8::/64"], &["home"]),
            client("printer", &["printer.lan"], &["kids"]),
        ];
        let directory =
            Directory::new(&groups, &clients, &owned(&["ads", "malware", "all"])).unwrap();
        Clients::build(directory, &owned(&["lan", "vpn"]), tests).unwrap()
    }

    fn neighbour(address: &str, mac: Option<Mac>, name: Option<&str>) -> Neighbour {
        Neighbour { address: address.parse().unwrap(), mac, name: name.map(str::to_owned) }
    }

    /// Returns the client and the groups of an address.
    fn of(clients: &Clients, address: &str) -> (Option<String>, Vec<String>) {
        let identity = clients.identify(address.parse().unwrap());
        (identity.client, identity.groups)
    }

    #[test]
    fn the_closest_identifier_decides() {
        let neighbours = [
            neighbour("2001:db8::1:2:3", Some(PHONE), None),
            neighbour("192.0.2.7", Some(PHONE), None),
            neighbour("192.0.2.8", None, Some("Printer.lan.")),
        ];
        let clients = clients(Vec::new()).with_neighbours(&neighbours).unwrap();
        let named = |name: &str, groups: &[&str]| (Some(name.to_owned()), owned(groups));
        assert_eq!(of(&clients, "2001:db8::1:2:3"), named("phone", &["kids", "home"]));
        assert_eq!(of(&clients, "2001:db8::1:2:4"), named("net", &["home"]));
        assert_eq!(of(&clients, "192.0.2.7"), named("nas", &["home"]));
        assert_eq!(of(&clients, "::ffff:192.0.2.8"), named("printer", &["kids"]));
        assert_eq!(of(&clients, "198.51.100.1"), (None, owned(&["default"])));
    }

    #[test]
    fn profiles_keep_their_numbers_over_a_change_of_the_clients() {
        let tests = || vec![ClientTest::Group("kids".to_owned()), ClientTest::Mac(PHONE)];
        let lists = owned(&["ads"]);
        let table = |previous: Option<&Clients>, specs: &[ClientSpec], tests| {
            let groups = [GroupSpec { name: "kids".to_owned(), ..GroupSpec::default() }];
            let directory = Directory::new(&groups, specs, &lists).unwrap();
            match previous {
                Some(previous) => Clients::build_after(previous, directory, &[], tests).unwrap(),
                None => Clients::build(directory, &[], tests).unwrap(),
            }
        };
        let at = |clients: &Clients, address: &str| {
            clients.profile(address.parse().unwrap(), clients.origin("", Transport::Udp))
        };
        let first = table(None, &[client("tv", &["192.0.2.1"], &["kids"])], tests());
        let moved = [client("tv", &["192.0.2.2"], &["kids"])];
        let second = table(Some(&first), &moved, tests());
        assert!(second.continues(&first));
        assert_eq!(at(&second, "192.0.2.2"), at(&first, "192.0.2.1"));
        assert_eq!(at(&second, "192.0.2.1"), at(&first, "192.0.2.2"));
        let none = table(Some(&second), &[], tests());
        assert!(none.continues(&second), "a profile that nobody has keeps its number");
        let other = table(Some(&first), &moved, vec![ClientTest::Mac(PHONE)]);
        assert!(!other.continues(&first));
        assert!(!table(None, &[], tests()).continues(&first));
    }

    #[test]
    fn a_device_keeps_its_profile_over_privacy_addresses() {
        let first = clients(vec![ClientTest::Group("kids".to_owned()), ClientTest::Mac(PHONE)]);
        let origin = first.origin("lan", Transport::Udp);
        let at =
            |clients: &Clients, address: &str| clients.profile(address.parse().unwrap(), origin);
        let early = first.with_neighbours(&[neighbour("2001:db8::1", Some(PHONE), None)]).unwrap();
        let later = early.with_neighbours(&[neighbour("2001:db8::2", Some(PHONE), None)]).unwrap();
        let phone = at(&early, "2001:db8::1");
        assert_eq!(at(&later, "2001:db8::2"), phone);
        assert_eq!(at(&later, "2001:db8::1"), at(&early, "2001:db8::2"));
        assert_ne!(at(&later, "2001:db8::1"), phone);
        assert!(later.holds(phone, 0) && later.holds(phone, 1));
    }

    #[test]
    fn lists_in_force_are_those_of_all_groups_of_a_client() {
        let clients = clients(Vec::new())
            .with_neighbours(&[neighbour("192.0.2.9", Some(PHONE), None)])
            .unwrap();
        let lists = |address: &str| {
            let profile = clients.profile(address.parse().unwrap(), Origin::default());
            clients.lists(profile).unwrap().words().to_vec()
        };
        assert_eq!(
            (lists("192.0.2.9"), lists("192.0.2.7"), lists("198.51.100.1")),
            (vec![3], vec![2], vec![7])
        );
    }

    #[test]
    fn who_does_not_differ_in_what_is_asked_shares_a_profile() {
        let tests = vec![
            ClientTest::Within("10.0.0.0/8".parse().unwrap()),
            ClientTest::Within("10.1.0.0/16".parse().unwrap()),
            ClientTest::Listener("vpn".to_owned()),
        ];
        let clients = clients(tests);
        let profile = |address: &str, listener| {
            clients.profile(address.parse().unwrap(), clients.origin(listener, Transport::Udp))
        };
        assert_eq!(profile("10.2.0.1", "lan"), profile("10.3.0.1", ""));
        let facts = |address, listener| {
            [0, 1, 2].map(|test| clients.holds(profile(address, listener), test))
        };
        assert_eq!(facts("10.0.0.0", "lan"), [true, false, false]);
        assert_eq!(facts("10.1.255.255", "vpn"), [true, true, true]);
        assert_eq!(facts("10.2.0.0", "vpn"), [true, false, true]);
        assert_eq!(facts("2001:db8::1", "vpn"), [false, false, true]);
        // The profiles are for unknown clients, the house and the two networks, each with two
        // origins.
        assert_eq!(clients.profiles(), 8);
    }
}
