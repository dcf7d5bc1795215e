//! Answers to names that must not leak to the Internet: configured local zones, and special names.
//!
//! A local zone has no data except the local records of its names, which an earlier stage answers.
//! A name of the zone that reaches this stage thus does not exist, or has no records of its own
//! (NODATA), such as the apex or an empty non-terminal.
//!
//! `localhost` and loopback reverse names have data; the other special names are empty zones with
//! the SOA that RFC 6303 §3 requires. Sources: RFC 6303 (private reverse zones), RFC 7793 (shared
//! address space), RFC 6761 (localhost, invalid, test), RFC 7686 (onion), RFC 8375 (home.arpa), RFC
//! 9462 (resolver.arpa), RFC 9476 (alt), RFC 6762 appendix G (local).
//!
//! The names that designate encrypted listeners have the records of [`designation`].

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use avocet_config::Config;
use avocet_resolver::{Data, Own, OwnSet};
use avocet_wire::builder::{Builder, Full, Section};
use avocet_wire::header::{AA, QR, RA};
use avocet_wire::suffix::SuffixMap;
use avocet_wire::{Class, FoldedName, Rcode, Rtype, name};

use super::asked::Entrance;
use super::decision::Stage;
use super::designation::{self, Announcement, Designation, ShownCertificate, TargetAddresses};
use super::finding::{Finding, Offer};
use super::own_changes::{ChangedName, Reach};
use super::own_set::write_set;
use super::question::LocalQuestion;
use super::respond::Draft;
use crate::private_zones::served_zones;

/// TTL in seconds of the addresses and names in special zones.
const TTL_SECS: u32 = 10_800;
/// TTL of denials in local and special zones, in seconds: clients see a new record of a device
/// within a minute. RFC 6303 §3 has three hours for zones that nobody fills.
const DENIAL_TTL_SECS: u32 = 60;
/// The loopback addresses and the name of this host.
const LOOPBACK: [u8; 4] = [127, 0, 0, 1];
const LOOPBACK_V6: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
pub(crate) const LOCALHOST: &[u8] = b"\x09localhost\x00";
/// The names of the empty zones, separated by spaces.
const EMPTY_ZONES: &str = "\
    invalid test onion alt local home.arpa resolver.arpa 10.in-addr.arpa \
    168.192.in-addr.arpa 254.169.in-addr.arpa 0.in-addr.arpa 127.in-addr.arpa \
    2.0.192.in-addr.arpa 100.51.198.in-addr.arpa 113.0.203.in-addr.arpa \
    255.255.255.255.in-addr.arpa d.f.ip6.arpa 8.e.f.ip6.arpa 9.e.f.ip6.arpa \
    a.e.f.ip6.arpa b.e.f.ip6.arpa 8.b.d.0.1.0.0.2.ip6.arpa";

/// The contents of a special zone.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Zone {
    /// The zone has only an SOA record.
    Empty,
    /// The zone is configured: it has an SOA record and local records.
    Local,
    /// `localhost` and all names below it: the loopback addresses.
    Localhost,
    /// The reverse name of a loopback address: PTR to localhost.
    LoopbackReverse,
    /// The designation of encrypted listeners.
    Designation(Arc<Announcement>),
}

/// The special zones and local zones, by name.
#[derive(Debug, Default)]
pub struct SpecialNames {
    zones: SuffixMap<Zone>,
    /// The zones for which the configuration names servers, and all names above these zones. All
    /// these names exist.
    above_served: HashSet<Box<[u8]>>,
}

/// A question for a name in a zone that this server answers itself.
pub struct InZone<'a> {
    question: LocalQuestion<'a>,
    apex: FoldedName<'a>,
    zone: &'a Zone,
    /// The address at which the query arrived.
    entrance: Entrance,
    names: &'a SpecialNames,
}

impl SpecialNames {
    /// Creates the local zones of a configuration, the special names if they are enabled, and the
    /// names that designate encrypted listeners with these certificates.
    pub fn of(config: &Config, certificates: &[ShownCertificate]) -> Self {
        let server = &config.server;
        let special = if server.local_names { special_zones() } else { Vec::new() };
        let local = server.local_zones.iter().map(|apex| (apex.clone(), Zone::Local));
        // A local zone replaces a special zone of the same name.
        let announced = designation::announcements(config, certificates);
        let above = announced.keys().flat_map(|owner| name::ancestors(owner).skip(1));
        let above_served = served_zones(config).flat_map(name::ancestors).chain(above);
        let above_served = above_served.map(Box::from).collect();
        let announced = announced.into_iter().map(|(owner, of)| (owner, Zone::Designation(of)));
        let zones: BTreeMap<_, _> = announced.chain(special).chain(local).collect();
        Self { zones: zones.into_iter().collect(), above_served }
    }

    /// Returns the names with answers that may differ in `new`.
    pub(super) fn changed_to(&self, new: &Self) -> Vec<ChangedName> {
        let only_in = |these: &Self, others: &Self| -> Vec<ChangedName> {
            let is_other = |(apex, zone): &(&[u8], &Zone)| others.zones.get(apex) != Some(zone);
            let zones = these.zones.iter().filter(is_other);
            let zones =
                zones.map(|(apex, _)| ChangedName { name: apex.into(), reach: Reach::Tree });
            let served = these.above_served.difference(&others.above_served);
            let served = served.map(|name| ChangedName { name: name.clone(), reach: Reach::Name });
            zones.chain(served).collect()
        };
        let mut changed = only_in(self, new);
        changed.extend(only_in(new, self));
        changed
    }

    /// Returns the SOA of the zone that a name is in, if any.
    pub(crate) fn soa_above<'a>(&self, name: FoldedName<'a>) -> Option<OwnSet<'a>> {
        let (apex, zone) = self.zones.nearest(name.wire())?;
        Some(OwnSet::soa(name.ancestor_of_len(apex.len()), zone.denial_ttl_secs()))
    }

    /// Returns the closest local or special zone that contains the name of the question, if any.
    /// `entrance` is the address at which the query arrived; answers about encrypted listeners
    /// depend on it.
    #[inline]
    pub fn find<'a>(
        &'a self,
        question: &LocalQuestion<'a>,
        entrance: Entrance,
    ) -> Option<InZone<'a>> {
        let (apex, zone) = self.zones.nearest(question.qname.wire())?;
        let apex = question.qname.ancestor_of_len(apex.len());
        Some(InZone { question: *question, apex, zone, entrance, names: self })
    }
}

impl<'a> InZone<'a> {
    /// Returns the name whose configured servers may take precedence over the zone. For DS records,
    /// this is the parent of the QNAME, because DS records are on the parent's side of a zone cut
    /// (RFC 4035 §3.1.4.1).
    pub fn side(&self) -> FoldedName<'a> {
        let LocalQuestion { qname, qtype, .. } = self.question;
        let is_within = qtype == Rtype::DS && qname.len() > self.apex.len();
        if is_within { qname.parent().unwrap_or(qname) } else { qname }
    }

    /// Returns whether configured servers for the name take precedence over the zone; `apex_len` is
    /// the length of the name of the zone that these servers serve. Such servers take precedence
    /// over every special zone. They take precedence over a local zone only if the zone that they
    /// serve is below it.
    pub fn gives_way(&self, apex_len: Option<usize>) -> bool {
        match self.zone {
            Zone::Local => apex_len.is_some_and(|len| len > self.apex.len()),
            Zone::Empty | Zone::Localhost | Zone::LoopbackReverse | Zone::Designation(_) => {
                apex_len.is_some()
            }
        }
    }

    /// Writes the answer to the question into `out`. `has_below` returns whether names below a name
    /// have local records.
    pub(super) fn answer(
        &self,
        has_below: impl Fn(FoldedName<'_>) -> bool,
        out: &mut [u8],
    ) -> Finding {
        let own = self.find(has_below);
        let designated = self.designated().filter(|_| matches!(own, Own::Set(_)));
        match write(&self.question, (&own, designated), out) {
            Ok(draft) => Finding::Answer(Offer::made(Stage::Special, draft)),
            Err(Full) => Finding::Nothing,
        }
    }

    /// Returns the data of the zone for the question's name, which has no local record. `has_below`
    /// returns whether names below a name have local records.
    pub(super) fn find(&self, has_below: impl Fn(FoldedName<'_>) -> bool) -> Own<'a> {
        let Self { question: LocalQuestion { qname, qtype, .. }, apex, zone, names, .. } = *self;
        let at_apex = qname.len() == apex.len();
        let soa = OwnSet::soa(apex, zone.denial_ttl_secs());
        let data = match (zone, qtype) {
            (Zone::Localhost, Rtype::A) => Data::One(&LOOPBACK),
            (Zone::Localhost, Rtype::AAAA) => Data::One(&LOOPBACK_V6),
            (Zone::LoopbackReverse, Rtype::PTR) if at_apex => Data::One(LOCALHOST),
            (Zone::Empty | Zone::Local, Rtype::NS) if at_apex => Data::One(apex.wire()),
            (_, Rtype::SOA) if at_apex => return Own::Set(soa),
            (_, Rtype::SVCB) if let Some(designation) = self.designated() => {
                Data::Records(&designation.records)
            }
            _ => {
                let is_discovery = *qname == *designation::DISCOVERY;
                let has_more = || has_below(qname) || names.above_served.contains(qname.wire());
                let exists = at_apex || *zone == Zone::Localhost || is_discovery || has_more();
                return Own::Denied(if exists { Rcode::NOERROR } else { Rcode::NXDOMAIN }, soa);
            }
        };
        Own::Set(OwnSet { owner: qname, rtype: qtype, ttl_secs: zone.ttl_secs(), data })
    }

    /// Returns the records that designate encrypted listeners to this client, if the QNAME has such
    /// records.
    fn designated(&self) -> Option<&'a Designation> {
        let Zone::Designation(announcement) = self.zone else { return None };
        let is_own = self.question.qname.len() == self.apex.len();
        announcement.at(self.entrance).filter(|_| is_own)
    }
}

impl Zone {
    fn ttl_secs(&self) -> u32 {
        match self {
            Self::Local => DENIAL_TTL_SECS,
            Self::Designation(_) => designation::TTL_SECS,
            Self::Empty | Self::Localhost | Self::LoopbackReverse => TTL_SECS,
        }
    }

    fn denial_ttl_secs(&self) -> u32 {
        match self {
            Self::Designation(_) => designation::TTL_SECS,
            _ => DENIAL_TTL_SECS,
        }
    }
}

/// Returns the apexes of all special zones.
pub fn special_apexes() -> impl Iterator<Item = Box<[u8]>> {
    special_zones().into_iter().map(|(apex, _)| apex)
}

fn special_zones() -> Vec<(Box<[u8]>, Zone)> {
    let mut zones = Vec::new();
    let mut add = |text: &str, zone| zones.push((wire(text), zone));
    for text in EMPTY_ZONES.split_whitespace() {
        add(text, Zone::Empty);
    }
    for octet in 16..32 {
        add(&format!("{octet}.172.in-addr.arpa"), Zone::Empty);
    }
    for octet in 64..128 {
        add(&format!("{octet}.100.in-addr.arpa"), Zone::Empty);
    }
    add(&format!("{}ip6.arpa", "0.".repeat(32)), Zone::Empty);
    add(&format!("1.{}ip6.arpa", "0.".repeat(31)), Zone::LoopbackReverse);
    add("1.0.0.127.in-addr.arpa", Zone::LoopbackReverse);
    add("localhost", Zone::Localhost);
    zones
}

/// Returns the wire form of a name in lower case.
pub fn wire(text: &str) -> Box<[u8]> {
    let mut out = Vec::new();
    for label in text.split('.') {
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out.into()
}

/// Writes the answer. Omits the addresses of a designated target if they do not fit.
fn write(
    question: &LocalQuestion<'_>,
    (own, designated): (&Own<'_>, Option<&Designation>),
    out: &mut [u8],
) -> Result<Draft, Full> {
    let (rcode, section, set) = match *own {
        Own::Set(set) => (Rcode::NOERROR, Section::Answer, set),
        Own::Denied(rcode, soa) => (rcode, Section::Authority, soa),
    };
    let limit = out.len();
    let mut builder = Builder::new(out, limit, 0, QR | AA | RA | rcode.low())?;
    builder.question(&question.qname, question.qtype, Class::IN)?;
    write_set(&mut builder, section, &set)?;
    let target = designated.and_then(|designation| FoldedName::new(&designation.target));
    if let (Some(designation), Some(target)) = (designated, target) {
        for TargetAddresses { rtype, records } in &designation.addresses {
            let data = Data::Records(records);
            let ttl_secs = set.ttl_secs;
            let addresses = OwnSet { owner: target, rtype: *rtype, ttl_secs, data };
            if write_set(&mut builder, Section::Additional, &addresses).is_err() {
                break;
            }
        }
    }
    Ok(Draft { len: builder.finish(), rcode, ede: None, note: 0 })
}

#[cfg(test)]
mod tests {
    use super::super::local::LocalRecords;
    use super::*;
    use avocet_wire::MessageView;
    use avocet_wire::view::RecordSection;

    fn check(qname: &str, qtype: Rtype, expected: &str) {
        let zones = "[server]\nlocal-zones = [\"lan\", \"home.arpa\"]\n[[record]]\nname = \"a.b.lan\"\ntype = \"A\"\nvalues = [\"10.0.0.1\"]\n\
            [[stub]]\nzone = \"iot.house.lan\"\nservers = [\"192.0.2.1\"]\n";
        let config = Config::from_text(None, zones, &BTreeMap::new()).unwrap();
        let (names, records) =
            (SpecialNames::of(&config, &[]), LocalRecords::new(&config.records, |_| None));
        let mut out = [0; 512];
        let qname = wire(qname);
        let qname = FoldedName::new(&qname).unwrap();
        let question = LocalQuestion { qname, qtype, turn: 0 };
        let found = names.find(&question, Entrance::default());
        let got = match found.map(|zone| zone.answer(|name| records.has_below(name), &mut out)) {
            Some(Finding::Answer(Offer { draft, .. })) => {
                let view = MessageView::new(&out[..draft.len]).unwrap();
                let record = view.records().unwrap().next().unwrap().unwrap();
                let mut rdata = [0; 255];
                let len = record.expand_rdata(&mut rdata).unwrap();
                let text = avocet_wire::rdata::display(record.rtype.0, &rdata[..len]).to_string();
                match record.section {
                    RecordSection::Answer => format!("{} {text}", draft.rcode),
                    _ => format!("{} {} {}", draft.rcode, record.owner().unwrap(), record.rtype),
                }
            }
            _ => "absent".to_string(),
        };
        assert_eq!(got, expected);
    }

    #[test]
    fn localhost_is_the_loopback_address_and_nothing_else() {
        check("localhost", Rtype::A, "NOERROR 127.0.0.1");
        check("foo.localhost", Rtype::AAAA, "NOERROR ::1");
        check("localhost", Rtype::MX, "NOERROR localhost. SOA");
        check("1.0.0.127.in-addr.arpa", Rtype::PTR, "NOERROR localhost.");
        check("2.0.0.127.in-addr.arpa", Rtype::PTR, "NXDOMAIN 127.in-addr.arpa. SOA");
    }

    #[test]
    fn private_reverse_names_and_reserved_names_do_not_leak() {
        check("4.3.2.10.in-addr.arpa", Rtype::PTR, "NXDOMAIN 10.in-addr.arpa. SOA");
        check("1.1.31.172.in-addr.arpa", Rtype::PTR, "NXDOMAIN 31.172.in-addr.arpa. SOA");
        check("1.1.32.172.in-addr.arpa", Rtype::PTR, "absent");
        check("1.1.64.100.in-addr.arpa", Rtype::PTR, "NXDOMAIN 64.100.in-addr.arpa. SOA");
        check("facebookcorewwwi.onion", Rtype::A, "NXDOMAIN onion. SOA");
        check("a.b.invalid", Rtype::A, "NXDOMAIN invalid. SOA");
        check("home.arpa", Rtype::NS, "NOERROR home.arpa.");
        check("home.arpa", Rtype::A, "NOERROR home.arpa. SOA");
        check("www.example.com", Rtype::A, "absent");
        check("arpa", Rtype::A, "absent");
        check("_dns.resolver.arpa", Rtype::SVCB, "NOERROR resolver.arpa. SOA");
        check("x.resolver.arpa", Rtype::A, "NXDOMAIN resolver.arpa. SOA");
    }

    #[test]
    fn names_of_a_local_zone_without_records_end_here() {
        check("unknown.lan", Rtype::A, "NXDOMAIN lan. SOA");
        check("x.a.b.lan", Rtype::A, "NXDOMAIN lan. SOA");
        check("b.lan", Rtype::A, "NOERROR lan. SOA");
        check("lan", Rtype::A, "NOERROR lan. SOA");
        check("lan", Rtype::SOA, "NOERROR lan. nobody.invalid. 1 3600 1200 604800 60");
        check("lan", Rtype::NS, "NOERROR lan.");
        check("x.home.arpa", Rtype::A, "NXDOMAIN home.arpa. SOA");
        check("xlan", Rtype::A, "absent");
        // A zone with configured servers exists, and so do the names above it.
        check("house.lan", Rtype::A, "NOERROR lan. SOA");
        check("iot.house.lan", Rtype::DS, "NOERROR lan. SOA");
    }

    #[test]
    fn servers_of_a_zone_below_a_local_zone_go_before_it() {
        let names = SpecialNames::default();
        let in_zone = |zone: &'static Zone| InZone {
            question: LocalQuestion { qname: FoldedName::ROOT, qtype: Rtype::A, turn: 0 },
            apex: FoldedName::new(b"\x03lan\x00").unwrap(),
            zone,
            entrance: Entrance::default(),
            names: &names,
        };
        let own = |zone: &'static Zone| {
            [None, Some(2), Some(5), Some(9)].map(|len| in_zone(zone).gives_way(len))
        };
        assert_eq!(own(&Zone::Local), [false, false, false, true]);
        assert_eq!(own(&Zone::Empty), [false, true, true, true]);
    }
}
