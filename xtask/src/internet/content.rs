//! The records of a zone, and the names to query.

use std::fmt::Write as _;

use crate::random::Random;

use super::plan::{Internet, Spot};
use super::zone::{Fault, Liveness, Zone};

const WORDS: &[&str] =
    &["api", "app", "beta", "cdn", "db", "edge", "files", "git", "img", "lab", "news", "shop"];
/// Number of addresses in an RRset that is too large for UDP.
const MANY_ADDRESSES: u32 = 100;
/// Length of an alias chain within one zone. It is below the limit of every resolver.
const CHAIN_LINKS: u32 = 7;
/// Number of strings in the large TXT RRset. Each has 200 octets.
const LARGE_STRINGS: u32 = 12;

/// The name, below the parent of a wildcard, to which the records of the wildcard are copied.
pub(super) const REPLAYED: &str = "replayed.wild";

/// Labels in names whose answers depend on other zones, which may be faulty: aliases to other
/// zones, and alias loops.
const LEADING_AWAY: &[&str] =
    &["loop", "far", "far-alias", "far-gone", "twice", "wfar", "away", "deep"];

/// Returns whether the answer for a name depends on other zones.
pub(super) fn leads_away(name: &str) -> bool {
    name.split('.').any(|label| LEADING_AWAY.contains(&label))
}

/// The records of a zone except its delegations, and the names to query in the zone and near it.
pub(super) struct Content {
    /// The lines of the zone file, with names relative to the zone.
    pub(super) text: String,
    /// Absolute names to query.
    pub(super) names: Vec<String>,
}

impl Content {
    /// Creates the content of the zone with this index.
    pub(super) fn draw(internet: &Internet, zone: usize, seed: u64) -> Self {
        let random = Random(seed ^ (zone as u64).wrapping_mul(0x1234_5678_9abc_def1));
        let of = &internet.zones[zone];
        let mut writer = Writer {
            internet,
            zone: of,
            random,
            text: String::new(),
            names: vec![of.name.clone()],
        };
        writer.apex();
        if of.parent == 0 || of.family.label == "root-servers" {
            writer.top_names();
        } else if internet.hosters.contains(&zone) {
            writer.hosts();
        } else {
            writer.leaf();
        }
        Self { text: writer.text, names: writer.names }
    }
}

struct Writer<'a> {
    internet: &'a Internet,
    zone: &'a Zone,
    random: Random,
    text: String,
    names: Vec<String>,
}

impl Writer<'_> {
    fn line(&mut self, owner: &str, record: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{owner} {record}");
    }

    fn ask(&mut self, labels: &[&str]) {
        for label in labels {
            self.names.push(self.zone.below(label));
        }
    }

    fn apex(&mut self) {
        let zone = self.zone;
        let _ = writeln!(self.text, "$ORIGIN {}\n$TTL 300", zone.name);
        self.line("@", &format!("SOA {} hostmaster 1 3600 600 86400 120", zone.servers[0].host));
        for server in &zone.servers {
            self.line("@", &format!("NS {}", server.host));
            if zone.contains(&server.host) && self.internet.zone_of(&server.host).name == zone.name
            {
                self.line(&server.host, &format!("A {}", server.address));
                self.names.push(server.host.clone());
            }
        }
    }

    /// Adds the records of the root and the top-level domains, which contain little except
    /// delegations.
    fn top_names(&mut self) {
        self.ask(&["nic", "none", "ns1.none", "*"]);
    }

    fn hosts(&mut self) {
        for spot in Spot::all() {
            self.line(&spot.label(), &format!("A {}", spot.address()));
        }
        self.ask(&["rack3", "n1.rack3", "n2.rack4", "n99.rack4", "silent1", "none"]);
    }

    fn leaf(&mut self) {
        self.usual();
        self.aliases();
        if self.random.percent(70) {
            self.empty_non_terminals();
        }
        if self.zone.family.fault == Fault::ReplayedWildcard || self.random.percent(70) {
            self.wildcard();
        }
        if self.random.percent(40) {
            self.wildcard_aliases();
        }
        if self.random.percent(40) {
            self.dnames();
        }
        if self.random.percent(30) {
            self.large();
        }
        if self.zone.family.signing.is_none() {
            self.misplaced_ds();
        }
    }

    fn address(&mut self) -> String {
        let [_, a, b, c] = (self.random.next() as u32).to_be_bytes();
        format!("10.{a}.{b}.{c}")
    }

    fn usual(&mut self) {
        for owner in ["@", "www", "mail"] {
            let address = self.address();
            self.line(owner, &format!("A {address}"));
        }
        self.line("@", "MX 10 mail");
        self.line("@", "TXT \"v=spf1 mx -all\"");
        self.line("www", "AAAA 2001:db8::1");
        self.line("_sip._tcp", "SRV 0 5 5060 mail");
        self.line("typed", "TYPE65400 \\# 4 01020304");
        self.ask(&["www", "mail", "_tcp", "_sip._tcp", "typed", "none", "none.www"]);
        for _ in 0..4 {
            let host = format!("{}{}", self.random.pick(WORDS), self.random.below(100));
            let address = self.address();
            self.line(&host, &format!("A {address}"));
            if self.random.percent(50) {
                let last = 2 + self.random.below(60_000);
                self.line(&host, &format!("AAAA 2001:db8::{last:x}"));
            }
            self.ask(&[&host]);
        }
    }

    fn aliases(&mut self) {
        let (far, farther) = (self.elsewhere(), self.elsewhere());
        for (owner, target) in [
            ("alias", "www".to_owned()),
            ("alias2", "alias".to_owned()),
            ("gone", "none".to_owned()),
            ("far", format!("www.{far}")),
            ("far-alias", format!("alias2.{farther}")),
            ("far-gone", format!("none.{far}")),
            ("twice", "far-alias".to_owned()),
        ] {
            self.line(owner, &format!("CNAME {target}"));
            self.ask(&[owner]);
        }
        for link in 1..CHAIN_LINKS {
            self.line(&format!("link{link}"), &format!("CNAME link{}", link + 1));
        }
        self.line(&format!("link{CHAIN_LINKS}"), "CNAME www");
        self.ask(&["link1", "link5"]);
        if self.random.percent(15) {
            self.line("loop", "CNAME loop2");
            self.line("loop2", "CNAME loop");
            self.ask(&["loop"]);
        }
    }

    /// Returns the name of another zone that has responding servers.
    fn elsewhere(&mut self) -> String {
        loop {
            let zone = self.random.pick(&self.internet.zones);
            let is_leaf = zone.parent != 0 && !zone.family.label.contains("-servers");
            if is_leaf && matches!(zone.family.liveness, Liveness::All | Liveness::OneLame) {
                return zone.name.clone();
            }
        }
    }

    fn empty_non_terminals(&mut self) {
        self.line("a.b.ent", "TXT \"deep\"");
        self.ask(&["ent", "b.ent", "a.b.ent", "x.ent", "x.b.ent", "x.a.b.ent"]);
    }

    fn wildcard(&mut self) {
        let address = self.address();
        self.line("*.wild", &format!("A {address}"));
        self.line("*.wild", "TXT \"any\"");
        self.line("known.wild", "MX 10 mail");
        self.line("a.sub.wild", "A 10.0.0.1");
        self.ask(&[
            "wild",
            "*.wild",
            "q.wild",
            "r.s.wild",
            "known.wild",
            "x.known.wild",
            "sub.wild",
            "x.sub.wild",
        ]);
        if self.zone.family.fault == Fault::ReplayedWildcard {
            self.ask(&[REPLAYED, REPLAYED, REPLAYED]);
        }
    }

    fn wildcard_aliases(&mut self) {
        let far = self.elsewhere();
        self.line("*.walias", "CNAME www");
        self.line("*.wgone", "CNAME none");
        self.line("*.wfar", &format!("CNAME www.{far}"));
        self.ask(&["q.walias", "walias", "q.wgone", "q.wfar", "*.walias"]);
    }

    fn dnames(&mut self) {
        let far = self.elsewhere();
        self.line("tree", "DNAME wood");
        self.line("www.wood", "A 10.0.0.2");
        self.line("away", &format!("DNAME {far}"));
        self.line("lost", "DNAME none");
        self.line("deep", &format!("DNAME tree.{far}"));
        self.ask(&["www.deep", "none.deep"]);
        self.ask(&[
            "tree",
            "www.tree",
            "none.tree",
            "away",
            "www.away",
            "none.away",
            "alias2.away",
            "x.lost",
        ]);
    }

    /// Adds DS records in wrong places: at the apex, where the parent answers, and at a name that
    /// is not a zone cut.
    fn misplaced_ds(&mut self) {
        let digest = "5ca1ab1e".repeat(8);
        self.line("@", &format!("DS 12345 13 2 {digest}"));
        self.line("odd", &format!("DS 12345 13 2 {digest}"));
        self.line("odd", "TXT \"no zone\"");
        self.ask(&["odd", "x.odd"]);
    }

    fn large(&mut self) {
        for number in 0..LARGE_STRINGS {
            self.line("large", &format!("TXT \"{number:0>200}\""));
        }
        for number in 0..MANY_ADDRESSES {
            self.line("many", &format!("A 10.9.0.{number}"));
        }
        self.ask(&["large", "many"]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::Alive;
    use super::*;

    #[test]
    fn a_leaf_zone_has_its_apex_and_names_within_it() {
        let internet = Internet::draw(1, Alive::All);
        let zone = internet.zones.iter().position(|zone| zone.family.label == "replayed").unwrap();
        let content = Content::draw(&internet, zone, 1);
        assert!(content.text.contains("@ SOA ") && content.text.contains("\n*.wild A "));
        assert!(content.names.iter().all(|name| internet.zones[zone].contains(name)));
        assert!(content.names.len() > 20);
        assert_eq!(content.text, Content::draw(&internet, zone, 1).text);
    }
}
