//! The simulated Internet as a list of zones. Their names, parents and servers are drawn from a
//! seed.

use std::net::Ipv4Addr;

use crate::random::Random;

use super::families::{FAMILIES, HOSTERS, ROOT, ROOT_SERVERS, TLDS};
use super::zone::{Family, Hosting, Liveness, Place, Security, Server, Zone};

/// The index of the name server process for the root zone and the zone with the names of the root
/// servers.
const ROOT_DAEMON: usize = 0;
/// The indexes of the processes for the top-level domains.
const TLD_DAEMONS: [usize; 2] = [1, 2];
/// The indexes of the processes for all other zones (the leaf processes).
pub(super) const LEAF_DAEMONS: [usize; 4] = [3, 4, 5, 6];
/// Number of all name server processes.
pub(super) const DAEMONS: usize = 7;

/// The first octets of the addresses of all name servers (RFC 2544). Loopback addresses are not
/// used, because some resolvers ignore them in zones.
pub(super) const NETWORK: (u8, u8) = (198, 18);
/// The first octets of the servers' addresses if links are used: the other half of the same range.
pub(super) const BEHIND: (u8, u8) = (198, 19);
/// The third octet of the addresses of the first top-level domain's servers. Those of the other
/// domains follow.
const TLD_ADDRESSES_AT: u8 = 100;
const SILENT_ADDRESSES_AT: u8 = 99;
/// Number of addresses of each leaf process.
pub(super) const LEAF_ADDRESSES: u8 = 12;
/// Number of addresses that receive queries but never answer.
pub(super) const SILENT_ADDRESSES: u8 = 4;
const ROOT_SERVER_LETTERS: [&str; 3] = ["a", "b", "c"];

/// Returns an address of a leaf process. Its addresses are numbered from 1.
pub(super) fn leaf_address(daemon: usize, number: u8) -> Ipv4Addr {
    Ipv4Addr::new(NETWORK.0, NETWORK.1, daemon as u8, number)
}

/// Returns the silent address with this number, counted from 1.
pub(super) fn silent_address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(NETWORK.0, NETWORK.1, SILENT_ADDRESSES_AT, number)
}

/// The servers that answer, unless the family of a zone makes its servers silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alive {
    All,
    /// One of the two servers of each zone is silent, even for the root and the top-level domains.
    Half,
}

/// Returns the address of the server behind a link.
pub(super) const fn behind(address: Ipv4Addr) -> Ipv4Addr {
    let [_, _, third, last] = address.octets();
    Ipv4Addr::new(BEHIND.0, BEHIND.1, third, last)
}

/// The zones, the root first.
pub(super) struct Internet {
    pub(super) zones: Vec<Zone>,
    /// The zones that contain the names of other zones' servers.
    pub(super) hosters: Vec<usize>,
}

impl Internet {
    /// Draws a simulated Internet from a seed.
    pub(super) fn draw(seed: u64, alive: Alive) -> Self {
        let mut builder = Builder {
            internet: Self { zones: Vec::new(), hosters: Vec::new() },
            random: Random(seed),
            alive,
        };
        builder.add_top();
        for family in HOSTERS {
            let Place::Tld(tld) = family.place else { continue };
            let parent = builder.tld(tld);
            builder.add(family, parent, family.label);
            let zone = builder.internet.zones.len() - 1;
            builder.internet.hosters.push(zone);
        }
        for family in FAMILIES {
            builder.add_family(family);
        }
        builder.internet
    }

    /// Returns the deepest zone that contains a name.
    pub(super) fn zone_of(&self, name: &str) -> &Zone {
        let containing = self.zones.iter().filter(|zone| zone.contains(name));
        // The root contains every name.
        containing.max_by_key(|zone| zone.name.len()).unwrap_or(&self.zones[0])
    }

    /// Returns the zones that are delegated from this one.
    pub(super) fn children(&self, parent: usize) -> impl Iterator<Item = &Zone> {
        self.zones
            .iter()
            .enumerate()
            .filter(move |(index, zone)| zone.parent == parent && *index != parent)
            .map(|(_, zone)| zone)
    }

    /// Returns the number of zone cuts between the root and a zone.
    pub(super) fn depth(&self, zone: usize) -> usize {
        let parent = self.zones[zone].parent;
        if parent == zone { 0 } else { 1 + self.depth(parent) }
    }

    /// Returns the addresses of a process.
    pub(super) fn addresses(&self, daemon: usize) -> Vec<Ipv4Addr> {
        if LEAF_DAEMONS.contains(&daemon) {
            return (1..=LEAF_ADDRESSES).map(|number| leaf_address(daemon, number)).collect();
        }
        let silent: Vec<_> = (1..=SILENT_ADDRESSES).map(silent_address).collect();
        let zones = self.zones.iter().filter(|zone| zone.daemon == daemon);
        let mut addresses: Vec<_> =
            zones.flat_map(|zone| &zone.servers).map(|server| server.address).collect();
        addresses.retain(|address| !silent.contains(address));
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }
}

struct Builder {
    internet: Internet,
    random: Random,
    alive: Alive,
}

impl Builder {
    fn add_top(&mut self) {
        let root = |letter: usize, glue| Server {
            host: format!("{}.root-servers.net.", ROOT_SERVER_LETTERS[letter]),
            address: Ipv4Addr::new(NETWORK.0, NETWORK.1, ROOT_DAEMON as u8, letter as u8 + 1),
            has_glue: glue,
        };
        let servers: Vec<_> =
            (0..ROOT_SERVER_LETTERS.len()).map(|letter| root(letter, true)).collect();
        self.push(".".to_owned(), ROOT, 0, ROOT_DAEMON, servers.clone());
        for (number, (label, family)) in TLDS.iter().enumerate() {
            let servers = ["a", "b"].iter().zip(1..).map(|(letter, last)| Server {
                host: format!("{letter}.nic.{label}."),
                address: Ipv4Addr::new(NETWORK.0, NETWORK.1, TLD_ADDRESSES_AT + number as u8, last),
                has_glue: true,
            });
            self.push(format!("{label}."), *family, 0, TLD_DAEMONS[number % 2], servers.collect());
        }
        let net = self.tld("net");
        self.push("root-servers.net.".to_owned(), ROOT_SERVERS, net, ROOT_DAEMON, servers);
    }

    fn push(
        &mut self,
        name: String,
        family: Family,
        parent: usize,
        daemon: usize,
        mut servers: Vec<Server>,
    ) {
        // Servers of leaf zones have names at hosters; their positions decide whether they are
        // silent.
        if self.alive == Alive::Half && !LEAF_DAEMONS.contains(&daemon) {
            servers[0].address = silent_address(1);
        }
        let inherited =
            self.internet.zones.get(parent).map_or(Security::Secure, |zone| zone.security);
        let security = if inherited == Security::Secure { family.security } else { inherited };
        self.internet.zones.push(Zone { name, family, parent, daemon, servers, security });
    }

    fn tld(&self, label: &str) -> usize {
        let name = format!("{label}.");
        self.internet.zones.iter().position(|zone| zone.name == name).unwrap_or(0)
    }

    fn add_family(&mut self, family: &Family) {
        let parents: Vec<usize> = match family.place {
            Place::Root => vec![0],
            Place::Tld(label) => vec![self.tld(label)],
            Place::AnyTld => self.tlds(|_| true),
            Place::SignedTld => self.tlds(|zone| zone.family.signing.is_some()),
            Place::Below(label) => return self.add_below(family, label),
        };
        for number in 0..family.count {
            let parent = *self.random.pick(&parents);
            self.add(family, parent, &format!("{}{number}", family.label));
        }
    }

    fn add_below(&mut self, family: &Family, label: &str) {
        let zones = self.internet.zones.iter().enumerate();
        let parents: Vec<_> =
            zones.filter(|(_, zone)| zone.family.label == label).map(|(index, _)| index).collect();
        for parent in parents {
            for number in 0..family.count {
                self.add(family, parent, &format!("{}{number}", family.label));
            }
        }
    }

    fn tlds(&self, wanted: impl Fn(&Zone) -> bool) -> Vec<usize> {
        let zones = self.internet.zones.iter().enumerate();
        zones
            .filter(|(_, zone)| zone.family.label == "tld" && wanted(zone))
            .map(|(index, _)| index)
            .collect()
    }

    fn add(&mut self, family: &Family, parent: usize, label: &str) {
        let above = &self.internet.zones[parent];
        let name = above.below(label);
        let daemon = match family.hosting {
            Hosting::WithParent => above.daemon,
            _ => *self.random.pick(&LEAF_DAEMONS),
        };
        let servers = self.servers(family, &name, daemon);
        self.push(name, *family, parent, daemon, servers);
    }

    /// Returns two servers. The family determines whether they are silent.
    fn servers(&mut self, family: &Family, name: &str, daemon: usize) -> Vec<Server> {
        let hoster = self.hoster(family.hosting);
        let other = LEAF_DAEMONS.into_iter().find(|other| *other != daemon).unwrap_or(ROOT_DAEMON);
        let first = 1 + self.random.below(u64::from(LEAF_ADDRESSES)) as u8;
        let second = first % LEAF_ADDRESSES + 1;
        let silent = 1 + self.random.below(u64::from(SILENT_ADDRESSES) - 1) as u8;
        let answering = [Spot::At(daemon, first), Spot::At(daemon, second)];
        let liveness = match (self.alive, family.liveness) {
            (Alive::Half, Liveness::All) => Liveness::OneSilent,
            (_, liveness) => liveness,
        };
        let spots = match liveness {
            Liveness::All => answering,
            Liveness::OneSilent => [Spot::Silent(silent), answering[1]],
            Liveness::NoneButSilent => [Spot::Silent(silent), Spot::Silent(silent + 1)],
            Liveness::OneLame => [Spot::At(other, first), answering[1]],
            Liveness::NoneButLame => [Spot::At(other, first), Spot::At(other, second)],
        };
        spots
            .iter()
            .zip(1..)
            .map(|(spot, number)| self.server(*spot, name, hoster, number))
            .collect()
    }

    /// Returns the zone that contains the names of the servers. `None` means the zone that they
    /// serve.
    fn hoster(&mut self, hosting: Hosting) -> Option<usize> {
        let hosters = &self.internet.hosters;
        match hosting {
            Hosting::InBailiwick | Hosting::WithParent => None,
            Hosting::GluelessTwice => hosters.last().copied(),
            Hosting::Any if hosters.is_empty() || self.random.percent(50) => None,
            Hosting::Any => Some(*self.random.pick(&hosters[..hosters.len().min(3)])),
        }
    }

    fn server(&self, spot: Spot, name: &str, hoster: Option<usize>, number: usize) -> Server {
        let address = spot.address();
        let Some(hoster) = hoster.map(|hoster| &self.internet.zones[hoster]) else {
            return Server { host: format!("ns{number}.{name}"), address, has_glue: true };
        };
        // A registry knows the addresses of hosts below its own domain.
        let tld = |name: &str| name.trim_end_matches('.').rsplit('.').next().map(str::to_owned);
        Server {
            host: hoster.below(&spot.label()),
            address,
            has_glue: tld(name) == tld(&hoster.name),
        }
    }
}

/// The position of a server: an address of a process, or a silent address.
#[derive(Clone, Copy)]
pub(super) enum Spot {
    At(usize, u8),
    Silent(u8),
}

impl Spot {
    pub(super) fn address(self) -> Ipv4Addr {
        match self {
            Self::At(daemon, number) => leaf_address(daemon, number),
            Self::Silent(number) => silent_address(number),
        }
    }

    /// Returns the first label of the server's name at a hoster.
    pub(super) fn label(self) -> String {
        match self {
            Self::At(daemon, number) => format!("n{number}.rack{daemon}"),
            Self::Silent(number) => format!("silent{number}"),
        }
    }

    /// Returns all positions.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let leaves = LEAF_DAEMONS
            .into_iter()
            .flat_map(|daemon| (1..=LEAF_ADDRESSES).map(move |number| Self::At(daemon, number)));
        leaves.chain((1..=SILENT_ADDRESSES).map(Self::Silent))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn an_internet_has_each_family_and_follows_from_its_seed() {
        let internet = Internet::draw(7, Alive::All);
        let names: Vec<_> = internet.zones.iter().map(|zone| &zone.name).collect();
        assert!(names.len() > 150, "{}", names.len());
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
        let labels: HashSet<_> = internet.zones.iter().map(|zone| zone.family.label).collect();
        assert!(FAMILIES.iter().all(|family| labels.contains(family.label)));
        assert!(Internet::draw(7, Alive::All).zones.iter().map(|zone| &zone.name).eq(names));
    }

    #[test]
    fn a_zone_is_no_safer_than_its_parent() {
        let internet = Internet::draw(1, Alive::All);
        for zone in &internet.zones {
            let parent = &internet.zones[zone.parent];
            assert!(
                parent.security == Security::Secure || zone.security != Security::Secure,
                "{}",
                zone.name
            );
        }
    }

    #[test]
    fn where_half_is_alive_each_zone_has_one_server_that_answers() {
        let internet = Internet::draw(1, Alive::Half);
        let answering = |zone: &Zone| {
            let addresses = internet.addresses(zone.daemon);
            zone.servers.iter().filter(|server| addresses.contains(&server.address)).count()
        };
        let usual = internet.zones[1..].iter().filter(|zone| zone.family.liveness == Liveness::All);
        assert!(
            usual
                .filter(|zone| zone.family.label != "root-servers")
                .all(|zone| answering(zone) == 1)
        );
        assert_eq!(answering(&internet.zones[0]), 2);
    }

    #[test]
    fn a_lame_server_answers_for_another_process() {
        let internet = Internet::draw(1, Alive::All);
        let zone = internet.zones.iter().find(|zone| zone.family.label == "all-lame").unwrap();
        assert!(
            zone.servers
                .iter()
                .all(|server| !internet.addresses(zone.daemon).contains(&server.address))
        );
    }
}
