//! Local records: names of the configuration that the server answers by itself.
//!
//! A name with any local record exists: its other types are NODATA, and are never queried
//! elsewhere. A wildcard answers for names that have no records of their own (RFC 4592). CNAMEs are
//! followed among the local records. If a chain leads to a name without local records, that name is
//! resolved like any other name.

use std::collections::{HashMap, HashSet};

use avocet_config::RecordConfig;
use avocet_resolver::{Data, MAX_ALIASES, Own, OwnSet};
use avocet_wire::builder::{Builder, Full, Record, Section};
use avocet_wire::header::{AA, QR, RA};
use avocet_wire::suffix::SuffixMap;
use avocet_wire::{Class, FoldedName, FoldedNameBuf, NameBuf, QuestionBuf, Rcode, Rtype, name};

use super::alias::{Alias, write_aliases};
use super::decision::Stage;
use super::finding::{Finding, Offer};
use super::own_set::write_set;
use super::question::LocalQuestion;
use super::respond::Draft;

/// All local records.
#[derive(Debug, Default)]
pub struct LocalRecords {
    names: SuffixMap<Owner>,
    has_wildcards: bool,
    /// Names that other stages answer. A chain of local aliases ends at each of these names.
    elsewhere: HashSet<Box<[u8]>>,
    /// Ancestors of owners, except the root: empty non-terminals (RFC 8020).
    above: HashSet<Box<[u8]>>,
}

/// A name that has records, or a wildcard directly below it.
#[derive(Debug, Default)]
struct Owner {
    /// The records of the name; empty if there is only the wildcard.
    sets: Vec<LocalSet>,
    /// The records of the wildcard, for names below this name that are not owners.
    wildcard: Vec<LocalSet>,
    /// The SOA for negative responses, and their TTL.
    denials: Denials,
}

/// The SOA record of negative responses for a name with records. The record belongs to the name's
/// local zone, or else to the name itself.
#[derive(Clone, Copy, Debug, Default)]
struct Denials {
    /// Length of the SOA's owner, which is a suffix of the name.
    apex_len: u8,
    /// The TTL of the zone, limited by the TTLs of the name's records.
    ttl_secs: u32,
}

impl Denials {
    fn of<'s, 'n>(
        name: FoldedName<'n>,
        sets: impl Iterator<Item = &'s LocalSet>,
        soa_above: impl Fn(FoldedName<'n>) -> Option<OwnSet<'n>>,
    ) -> Self {
        let ttl_secs = sets.map(|set| set.ttl_secs).min().unwrap_or_default();
        match soa_above(name) {
            Some(soa) => {
                Self { apex_len: soa.owner.len() as u8, ttl_secs: soa.ttl_secs.min(ttl_secs) }
            }
            None => Self { apex_len: name.len() as u8, ttl_secs },
        }
    }

    fn soa<'a>(&self, name: FoldedName<'a>) -> OwnSet<'a> {
        OwnSet::soa(name.ancestor_of_len(usize::from(self.apex_len)), self.ttl_secs)
    }
}

/// The records that answer for a name.
#[derive(Clone, Copy)]
struct Records<'r> {
    sets: &'r [LocalSet],
    denials: Denials,
}

/// The records of one name and type.
#[derive(Debug)]
struct LocalSet {
    rtype: Rtype,
    ttl_secs: u32,
    rdata: Vec<Box<[u8]>>,
}

impl LocalRecords {
    /// Indexes the configured records. If a name is in a local zone, `soa_above` returns the zone's
    /// SOA for negative responses.
    pub fn new<'r>(
        records: &'r [RecordConfig],
        soa_above: impl Fn(FoldedName<'r>) -> Option<OwnSet<'r>>,
    ) -> Self {
        let mut names: HashMap<&[u8], Owner> = HashMap::new();
        let set = |record: &RecordConfig| {
            let RecordConfig { rtype, ttl_secs, ref rdata, .. } = *record;
            LocalSet { rtype, ttl_secs, rdata: rdata.clone() }
        };
        for record in records {
            names.entry(&record.name).or_default().sets.push(set(record));
            // The name of the wildcard itself is an owner as well (RFC 4592 §2.1.1).
            if let Some(above) = record.name.strip_prefix(b"\x01*") {
                names.entry(above).or_default().wildcard.push(set(record));
            }
        }
        for (name, owner) in &mut names {
            let denying = owner.sets.iter().chain(&owner.wildcard);
            let name = FoldedName::from_folded_unchecked(name);
            owner.denials = Denials::of(name, denying, &soa_above);
        }
        let above = names
            .keys()
            .flat_map(|name| name::ancestors(name).skip(1))
            .filter(|name| name.len() > 1);
        let above = above.map(Box::from).collect();
        let has_wildcards = names.values().any(|owner| !owner.wildcard.is_empty());
        Self {
            names: names.into_iter().map(|(name, owner)| (name.into(), owner)).collect(),
            has_wildcards,
            elsewhere: HashSet::new(),
            above,
        }
    }

    /// Sets the names at which chains of aliases end because other stages answer them, even if they
    /// have local records.
    #[must_use]
    pub(super) fn leading_to(self, elsewhere: HashSet<Box<[u8]>>) -> Self {
        Self { elsewhere, ..self }
    }

    /// Reports whether there are no local records.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Writes the answer to the question into `out`, if the QNAME is a local name.
    pub(super) fn answer(&self, question: &LocalQuestion<'_>, out: &mut [u8]) -> Finding {
        let Some(first) = self.records_of(question.qname) else { return Finding::Nothing };
        let mut aliases = Vec::new();
        let mut records = first;
        while let Some(alias) = alias_of(records.sets, question, &aliases) {
            let target = alias.target.folded();
            aliases.push(alias);
            if self.elsewhere.contains(target.wire()) {
                return Finding::Aliases { aliases, note: 0 };
            }
            match self.records_of(target.view()) {
                Some(next) if aliases.len() < MAX_ALIASES => records = next,
                Some(_) => return local(servfail(question, out)),
                None => return Finding::Aliases { aliases, note: 0 },
            }
        }
        let target = aliases.last().map(|last| last.target.folded());
        let owner = target.as_ref().map_or(question.qname, FoldedNameBuf::view);
        local(
            write(question, &aliases, (owner, records), out)
                .unwrap_or_else(|Full| servfail(question, out)),
        )
    }

    /// Returns the RRset of a name and type, or an alias in its place; `None` if the name is not
    /// local.
    pub(super) fn find<'a>(&'a self, qname: FoldedName<'a>, qtype: Rtype) -> Option<Own<'a>> {
        let Records { sets, denials } = self.records_of(qname)?;
        let of_type = |rtype| sets.iter().find(|set| set.rtype == rtype);
        let Some(set) = of_type(qtype).or_else(|| of_type(Rtype::CNAME)) else {
            return Some(Own::Denied(Rcode::NOERROR, denials.soa(qname)));
        };
        let data = match &*set.rdata {
            [first, ..] if set.rtype == Rtype::CNAME => Data::One(first),
            rdata => Data::Records(rdata),
        };
        Some(Own::Set(OwnSet { owner: qname, rtype: set.rtype, ttl_secs: set.ttl_secs, data }))
    }

    /// Reports whether local records answer for this name.
    pub fn has(&self, qname: FoldedName<'_>) -> bool {
        self.records_of(qname).is_some()
    }

    /// Reports whether names below this name have records.
    pub fn has_below(&self, qname: FoldedName<'_>) -> bool {
        self.above.contains(qname.wire())
    }

    /// Reports whether there are records at this name itself.
    pub fn is_owner(&self, qname: FoldedName<'_>) -> bool {
        self.names.get(qname.wire()).is_some_and(|owner| !owner.sets.is_empty())
    }

    /// Returns the records of a name, or those of the wildcard that covers the name.
    #[inline]
    fn records_of(&self, qname: FoldedName<'_>) -> Option<Records<'_>> {
        if self.names.is_empty() {
            return None;
        }
        let own = self.names.get(qname.wire()).filter(|owner| !owner.sets.is_empty());
        let own = own.map(|owner| Records { sets: &owner.sets, denials: owner.denials });
        own.or_else(|| if self.has_wildcards { self.records_of_wildcard(qname) } else { None })
    }

    /// Returns the records of the wildcard directly below the closest encloser. No other wildcard
    /// applies (RFC 4592 §3.3.1). An empty non-terminal exists, so it is an encloser, and no
    /// wildcard applies to it.
    fn records_of_wildcard(&self, qname: FoldedName<'_>) -> Option<Records<'_>> {
        let (above, encloser) = self.names.nearest(qname.parent()?.wire())?;
        if encloser.wildcard.is_empty() {
            return None;
        }
        let mut between = name::ancestors(qname.wire()).take_while(|name| name.len() > above.len());
        (!between.any(|name| self.above.contains(name)))
            .then_some(Records { sets: &encloser.wildcard, denials: encloser.denials })
    }
}

/// Returns the index of the record to write first. The index varies because clients use the first
/// address, and should be distributed among all addresses.
fn first_of(question: &LocalQuestion<'_>, set: &LocalSet) -> usize {
    match set.rdata.len() {
        0 | 1 => 0,
        count if matches!(set.rtype, Rtype::A | Rtype::AAAA) => usize::from(question.turn) % count,
        _ => 0,
    }
}

/// Returns the CNAME to follow from the current name, unless the question is for the CNAME itself.
fn alias_of(sets: &[LocalSet], question: &LocalQuestion<'_>, aliases: &[Alias]) -> Option<Alias> {
    if question.qtype == Rtype::CNAME || question.qtype == Rtype::ANY {
        return None;
    }
    let set = sets.iter().find(|set| set.rtype == Rtype::CNAME)?;
    let owner = match aliases.last() {
        Some(last) => last.target.folded(),
        None => question.qname.to_buf(),
    };
    let target = NameBuf::from_wire(set.rdata.first()?).ok()?;
    Some(Alias { owner, target, ttl_secs: set.ttl_secs, note: 0, flattening: None })
}

fn write(
    question: &LocalQuestion<'_>,
    aliases: &[Alias],
    (owner, records): (FoldedName<'_>, Records<'_>),
    out: &mut [u8],
) -> Result<Draft, Full> {
    let limit = out.len();
    let mut builder = Builder::new(out, limit, 0, QR | AA | RA)?;
    builder.question(&question.qname, question.qtype, Class::IN)?;
    write_aliases(&mut builder, aliases)?;
    // A query for ANY gets one RRset (RFC 8482 §4.1).
    let set =
        records.sets.iter().find(|set| set.rtype == question.qtype || question.qtype == Rtype::ANY);
    if let Some(set) = set {
        let record = |rdata| Record {
            owner: &owner,
            rtype: set.rtype,
            class: Class::IN,
            ttl_secs: set.ttl_secs,
            rdata,
        };
        let (last, ahead) = set.rdata.split_at(first_of(question, set));
        let written = match last {
            [] => builder.rrset(Section::Answer, ahead.iter().map(|rdata| record(rdata))),
            _ => {
                builder.rrset(Section::Answer, ahead.iter().chain(last).map(|rdata| record(rdata)))
            }
        };
        // The answer exceeds the UDP limit of this server. It fits in a message over TCP.
        if written.is_err() {
            builder.truncate();
        }
    } else {
        write_set(&mut builder, Section::Authority, &records.denials.soa(owner))?;
    }
    Ok(Draft { len: builder.finish(), rcode: Rcode::NOERROR, ede: None, note: 0 })
}

fn local(draft: Draft) -> Finding {
    Finding::Answer(Offer::made(Stage::Local, draft))
}

fn servfail(question: &LocalQuestion<'_>, out: &mut [u8]) -> Draft {
    let whole = QuestionBuf::new(question.qname, question.qtype, Class::IN);
    super::respond::draft_empty(out, Some(whole.view().octets()), Rcode::SERVFAIL)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::special::SpecialNames;
    use super::*;
    use avocet_config::Config;
    use avocet_wire::MessageView;
    use avocet_wire::header::TC;

    fn wire(text: &str) -> Box<[u8]> {
        let mut out = [0; 255];
        let len = avocet_wire::text::name_to_wire(text.as_bytes(), None, &mut out).unwrap();
        out[..len].into()
    }

    fn records() -> LocalRecords {
        let record = |name: &str, rtype, rdata: Vec<Box<[u8]>>| RecordConfig {
            name: wire(name),
            rtype,
            rdata,
            ttl_secs: 300,
        };
        let records = [
            record("nas.lan.", Rtype::A, vec![[10, 0, 0, 2].into(), [10, 0, 0, 3].into()]),
            record("www.lan.", Rtype::CNAME, vec![wire("nas.lan.")]),
            record("out.lan.", Rtype::CNAME, vec![wire("hop.lan.")]),
            record("hop.lan.", Rtype::CNAME, vec![wire("www.example.")]),
            record("*.dev.lan.", Rtype::A, vec![[10, 0, 0, 9].into()]),
            record("real.dev.lan.", Rtype::A, vec![[10, 0, 0, 8].into()]),
            record("deep.empty.dev.lan.", Rtype::A, vec![[10, 0, 0, 7].into()]),
            record("*.other.dev.lan.", Rtype::A, vec![[10, 0, 0, 6].into()]),
            record("a.loop.", Rtype::CNAME, vec![wire("b.loop.")]),
            record("b.loop.", Rtype::CNAME, vec![wire("a.loop.")]),
        ];
        records_of(&records)
    }

    fn records_of(records: &[RecordConfig]) -> LocalRecords {
        LocalRecords::new(records, |_| None)
    }

    #[test]
    fn a_wildcard_below_the_root_stands_for_all_names() {
        for (owner, is_found) in [("*.", true), ("*.lan.", false), ("www.example.", true)] {
            let rdata = vec![[10, 0, 0, 1].as_slice().into()];
            let record = RecordConfig { name: wire(owner), rtype: Rtype::A, rdata, ttl_secs: 300 };
            assert_eq!(
                records_of(&[record]).has(FoldedName::new(&wire("www.example.")).unwrap()),
                is_found,
                "{owner}"
            );
        }
        assert!(!records_of(&[]).has(FoldedName::new(&wire("www.example.")).unwrap()));
    }

    fn check(qname: &str, qtype: Rtype, expected: &str) {
        let mut out = [0; 512];
        let qname = wire(qname);
        let answer = records().answer(
            &LocalQuestion { qname: FoldedName::new(&qname).unwrap(), qtype, turn: 0 },
            &mut out,
        );
        let got = match answer {
            Finding::Nothing => "absent".to_string(),
            Finding::Aliases { aliases, .. } => format!("to {}", aliases.last().unwrap().target),
            Finding::Answer(Offer { draft, .. }) => {
                let view = MessageView::new(&out[..draft.len]).unwrap();
                let mut text = draft.rcode.to_string();
                for record in view.records().unwrap() {
                    let record = record.unwrap();
                    text += &format!(" {}/{}", record.owner().unwrap(), record.rtype);
                }
                text
            }
            _ => panic!("{qtype}"),
        };
        assert_eq!(got, expected, "{qtype}");
    }

    #[test]
    fn a_set_longer_than_the_buffer_is_a_truncated_answer() {
        let rdata = (0..200u8).map(|last| [10, 0, 0, last].as_slice().into()).collect();
        let record =
            RecordConfig { name: wire("many.lan."), rtype: Rtype::A, rdata, ttl_secs: 300 };
        let mut out = [0; 512];
        let qname = FoldedName::new(b"\x04many\x03lan\x00").unwrap();
        let question = LocalQuestion { qname, qtype: Rtype::A, turn: 0 };
        let Finding::Answer(Offer { draft, .. }) =
            records_of(&[record]).answer(&question, &mut out)
        else {
            panic!()
        };
        let header = MessageView::new(&out[..draft.len]).unwrap().header();
        assert_eq!(
            (draft.rcode, header.rcode(), header.has(TC)),
            (Rcode::NOERROR, Rcode::NOERROR, true)
        );
    }

    #[test]
    fn each_address_of_a_record_comes_first_in_its_turn() {
        let (records, qname) = (records(), wire("nas.lan."));
        let order = |turn, qtype| {
            let mut out = [0; 512];
            let Finding::Answer(Offer { draft, .. }) = records.answer(
                &LocalQuestion { qname: FoldedName::new(&qname).unwrap(), qtype, turn },
                &mut out,
            ) else {
                panic!()
            };
            let view = MessageView::new(&out[..draft.len]).unwrap();
            view.records()
                .unwrap()
                .map(|record| *record.unwrap().rdata().last().unwrap())
                .collect::<Vec<u8>>()
        };
        assert_eq!(
            [0, 1, 2, 65_535].map(|turn| order(turn, Rtype::A)),
            [[2, 3], [3, 2], [2, 3], [3, 2]]
        );
    }

    #[test]
    fn what_a_name_does_not_have_is_denied_by_its_zone_for_no_longer_than_its_records_hold() {
        let config = "[server]\nlocal-zones = [\"lan\"]\n";
        let zones =
            SpecialNames::of(&Config::from_text(None, config, &BTreeMap::new()).unwrap(), &[]);
        let own = |owner: &str, ttl_secs| {
            let rdata = vec![[10, 0, 0, 1].as_slice().into()];
            RecordConfig { name: wire(owner), rtype: Rtype::A, rdata, ttl_secs }
        };
        let records = [
            own("nas.lan.", 300),
            own("brief.lan.", 20),
            own("nas.example.", 300),
            own("*.dev.example.", 40),
        ];
        let records = LocalRecords::new(&records, |name| zones.soa_above(name));
        for (owner, expected) in [
            ("nas.lan.", "lan. 60"),
            ("brief.lan.", "lan. 20"),
            ("nas.example.", "nas.example. 300"),
            ("x.y.dev.example.", "dev.example. 40"),
        ] {
            let qname = wire(owner);
            let Some(Own::Denied(Rcode::NOERROR, soa)) =
                records.find(FoldedName::new(&qname).unwrap(), Rtype::MX)
            else {
                panic!("{owner}")
            };
            assert_eq!(
                format!("{} {}", NameBuf::from_wire(&soa.owner).unwrap(), soa.ttl_secs),
                expected
            );
        }
    }

    #[test]
    fn names_types_wildcards_and_chains_are_answered() {
        check("nas.lan.", Rtype::A, "NOERROR nas.lan./A nas.lan./A");
        check("nas.lan.", Rtype::AAAA, "NOERROR nas.lan./SOA");
        check("nas.lan.", Rtype::ANY, "NOERROR nas.lan./A nas.lan./A");
        check("www.lan.", Rtype::A, "NOERROR www.lan./CNAME nas.lan./A nas.lan./A");
        check("www.lan.", Rtype::CNAME, "NOERROR www.lan./CNAME");
        check("x.y.dev.lan.", Rtype::A, "NOERROR x.y.dev.lan./A");
        check("real.dev.lan.", Rtype::A, "NOERROR real.dev.lan./A");
        check("x.real.dev.lan.", Rtype::A, "absent");
        for empty in ["empty.dev.lan.", "x.empty.dev.lan.", "x.y.empty.dev.lan."] {
            check(empty, Rtype::A, "absent");
        }
        check("other.dev.lan.", Rtype::A, "absent");
        check("x.other.dev.lan.", Rtype::A, "NOERROR x.other.dev.lan./A");
        check("out.lan.", Rtype::A, "to www.example.");
        check("a.loop.", Rtype::A, "SERVFAIL");
        check("lan.", Rtype::A, "absent");
    }
}
