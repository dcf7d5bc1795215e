//! Dynamic updates (RFC 2136): a message whose records are prerequisites and edits of a zone.
//!
//! ```text
//! octets --read--> ZoneUpdate --prerequisites--> met --permitted--> all --apply--> ZoneEdits
//! ```
//! All edits of an update are checked before the first one is applied. If one is refused, none is
//! applied.

use std::collections::BTreeMap;

use avocet_wire::canonical::compare_rdata;
use avocet_wire::view::{RecordSection, RecordView};
use avocet_wire::{Class, FoldedName, FoldedNameBuf, MessageView, Rcode, Rtype};

use crate::build::is_stored;
use crate::edits::{PresentRecord, ZoneEdits};
use crate::tree::HostedRecord;

/// Maximum number of records of an update, which is about as many addresses of short names as fit
/// into a message.
pub const MAX_UPDATE_RECORDS: usize = 4_096;

/// Maximum number of comparisons of records for an update, which take about a tenth of a second.
/// Each record of the update is compared with the records of its name, so about a thousand records
/// may be added to a new name.
pub(crate) const MAX_UPDATE_STEPS: usize = 1 << 20;

/// A dynamic update that was read from a message.
#[derive(Clone, Debug)]
pub struct ZoneUpdate {
    /// The name of the zone that is updated.
    pub zone: FoldedNameBuf,
    prerequisites: Vec<UpdateRecord>,
    edits: Vec<UpdateRecord>,
}

/// A prerequisite or an edit of an update.
#[derive(Clone, Debug)]
struct UpdateRecord {
    owner: FoldedNameBuf,
    class: Class,
    rtype: Rtype,
    /// The TTL as it is in the message, which may be out of range.
    ttl_field: u32,
    rdata: Box<[u8]>,
}

/// The scope of an edit: an owner, and a type or all types of that owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EditScope<'u> {
    /// The owner of the records.
    pub owner: FoldedName<'u>,
    /// The type of the records; [`Rtype::ANY`] for all types.
    pub rtype: Rtype,
}

impl UpdateRecord {
    fn read(record: &RecordView<'_>, room: &mut [u8]) -> Result<Self, Rcode> {
        let owner = record.owner().map_err(|_| Rcode::FORMERR)?.folded();
        let RecordView { rtype, class, ttl_field, .. } = *record;
        let len = match record.rdata() {
            // A record without data refers to all records of a type or a name.
            [] => 0,
            _ => record.expand_rdata(room).map_err(|_| Rcode::FORMERR)?,
        };
        let rdata = &room[..len];
        if matches!(class, Class::IN | Class::NONE) && !rdata.is_empty() {
            avocet_wire::rdata::check(rtype.0, rdata).map_err(|_| Rcode::FORMERR)?;
        }
        Ok(Self { owner, class, rtype, ttl_field, rdata: rdata.into() })
    }

    /// Returns the record with a valid TTL (RFC 2181 §8), so that reading the file of the zone
    /// gives the same record.
    fn record(&self) -> HostedRecord<'_> {
        let ttl_secs = if self.ttl_field > i32::MAX as u32 { 0 } else { self.ttl_field };
        HostedRecord { rtype: self.rtype, ttl_secs, rdata: &self.rdata }
    }
}

impl ZoneUpdate {
    /// Parses the message of an update.
    ///
    /// # Errors
    /// The RCODE of the reply: FORMERR, or NOTAUTH for a class other than IN.
    pub fn read(message: &[u8]) -> Result<Self, Rcode> {
        let view = MessageView::new(message).map_err(|_| Rcode::FORMERR)?;
        let question = view.question().map_err(|_| Rcode::FORMERR)?;
        let zone = question.qname().map_err(|_| Rcode::FORMERR)?.folded();
        if question.qtype != Rtype::SOA {
            return Err(Rcode::FORMERR);
        }
        if question.qclass != Class::IN {
            return Err(Rcode::NOTAUTH);
        }
        let mut update = Self { zone, prerequisites: Vec::new(), edits: Vec::new() };
        let mut room = vec![0; usize::from(u16::MAX)];
        for record in view.records().map_err(|_| Rcode::FORMERR)? {
            let record = record.map_err(|_| Rcode::FORMERR)?;
            let list = match record.section {
                RecordSection::Answer => &mut update.prerequisites,
                RecordSection::Authority => &mut update.edits,
                RecordSection::Additional => break,
            };
            if list.len() >= MAX_UPDATE_RECORDS {
                return Err(Rcode::FORMERR);
            }
            list.push(UpdateRecord::read(&record, &mut room)?);
        }
        Ok(update)
    }

    /// Returns the scopes of all edits.
    pub fn edited(&self) -> impl Iterator<Item = EditScope<'_>> {
        self.edits.iter().map(|one| EditScope { owner: one.owner.view(), rtype: one.rtype })
    }

    /// Checks that the update needs at most `MAX_UPDATE_STEPS` comparisons.
    ///
    /// # Errors
    /// The RCODE of the reply.
    pub fn check_work(&self, zone: &ZoneEdits<'_>) -> Result<(), Rcode> {
        let mut records_of: BTreeMap<&[u8], usize> = BTreeMap::new();
        for one in self.prerequisites.iter().chain(&self.edits) {
            *records_of.entry(one.owner.view().wire()).or_default() += 1;
        }
        let steps = records_of.into_iter().map(|(owner, count)| {
            let present = zone.records(FoldedName::from_folded_unchecked(owner)).len();
            count * (count + present)
        });
        (steps.sum::<usize>() <= MAX_UPDATE_STEPS).then_some(()).ok_or(Rcode::REFUSED)
    }

    /// Checks that a zone meets the prerequisites (RFC 2136 §3.2).
    ///
    /// # Errors
    /// The RCODE of the reply.
    pub fn check_prerequisites(&self, zone: &ZoneEdits<'_>) -> Result<(), Rcode> {
        let mut sets: BTreeMap<(&[u8], Rtype), Vec<&[u8]>> = BTreeMap::new();
        for one in &self.prerequisites {
            let owner = one.owner.view();
            if one.ttl_field != 0 {
                return Err(Rcode::FORMERR);
            }
            if !owner.is_at_or_below(zone.zone().apex()) {
                return Err(Rcode::NOTZONE);
            }
            let is_plain = one.rdata.is_empty();
            let records = || zone.records(owner);
            let has_set = || records().iter().any(|record| record.rtype == one.rtype);
            match (one.class, one.rtype) {
                (Class::ANY, Rtype::ANY) if is_plain => {
                    (!records().is_empty()).then_some(()).ok_or(Rcode::NXDOMAIN)?
                }
                (Class::ANY, _) if is_plain => has_set().then_some(()).ok_or(Rcode::NXRRSET)?,
                (Class::NONE, Rtype::ANY) if is_plain => {
                    records().is_empty().then_some(()).ok_or(Rcode::YXDOMAIN)?
                }
                (Class::NONE, _) if is_plain => (!has_set()).then_some(()).ok_or(Rcode::YXRRSET)?,
                (Class::IN, rtype) if is_stored(rtype) => {
                    sets.entry((owner.wire(), rtype)).or_default().push(&one.rdata);
                }
                _ => return Err(Rcode::FORMERR),
            }
        }
        for ((owner, rtype), mut wanted) in sets {
            let records = zone.records(FoldedName::from_folded_unchecked(owner));
            let set = records.iter().filter(|record| record.rtype == rtype);
            let mut present: Vec<&[u8]> = set.map(|record| &*record.rdata).collect();
            for list in [&mut wanted, &mut present] {
                list.sort_by(|a, b| compare_rdata(rtype.0, a, b));
                list.dedup_by(|a, b| compare_rdata(rtype.0, a, b).is_eq());
            }
            let is_same = wanted.len() == present.len()
                && wanted.iter().zip(&present).all(|(a, b)| compare_rdata(rtype.0, a, b).is_eq());
            is_same.then_some(()).ok_or(Rcode::NXRRSET)?;
        }
        Ok(())
    }

    /// Checks the form of the edits (RFC 2136 §3.4.1), and that the client may make each of them.
    /// To delete all records of a name, the client needs the permission for each type that the name
    /// has.
    ///
    /// # Errors
    /// The RCODE of the reply.
    pub fn check_edits(
        &self,
        zone: &ZoneEdits<'_>,
        is_permitted: &dyn Fn(EditScope<'_>) -> bool,
    ) -> Result<(), Rcode> {
        for one in &self.edits {
            let owner = one.owner.view();
            if !owner.is_at_or_below(zone.zone().apex()) {
                return Err(Rcode::NOTZONE);
            }
            let is_stored = is_stored(one.rtype);
            let is_well_formed = match one.class {
                Class::IN => is_stored && !one.rdata.is_empty(),
                Class::ANY => {
                    let is_known = is_stored || one.rtype == Rtype::ANY;
                    is_known && one.ttl_field == 0 && one.rdata.is_empty()
                }
                Class::NONE => is_stored && one.ttl_field == 0,
                _ => false,
            };
            is_well_formed.then_some(()).ok_or(Rcode::FORMERR)?;
        }
        for one in &self.edits {
            let owner = one.owner.view();
            let is_allowed = match one.rtype {
                Rtype::ANY => zone.records(owner).iter().all(|record| {
                    let rtype = record.rtype;
                    is_of_apex(zone, owner, rtype) || is_permitted(EditScope { owner, rtype })
                }),
                rtype => is_permitted(EditScope { owner, rtype }),
            };
            is_allowed.then_some(()).ok_or(Rcode::REFUSED)?;
        }
        Ok(())
    }

    /// Applies the edits in their order (RFC 2136 §3.4.2). The caller has checked them. Then
    /// removes the DS records of edited names without a delegation.
    pub fn apply(&self, zone: &mut ZoneEdits<'_>) {
        for one in &self.edits {
            let owner = one.owner.view();
            match one.class {
                Class::IN => add(zone, owner, &one.record()),
                Class::ANY => {
                    let is_apex = owner == zone.zone().apex();
                    zone.remove_all(owner, |rtype| {
                        let is_meant = one.rtype == Rtype::ANY || one.rtype == rtype;
                        is_meant && !(is_apex && is_needed(rtype))
                    });
                }
                _ => remove(zone, owner, &one.record()),
            }
        }
        self.remove_stray_ds(zone);
    }

    /// Removes DS records that lack a delegation: those of a name whose last NS record the update
    /// removed, and those that the update added to a name without NS records. BIND does the same
    /// (RFC 4035 §2.4). So a client can end a delegation without permission for DS records.
    fn remove_stray_ds(&self, zone: &mut ZoneEdits<'_>) {
        let affects_ds = |one: &&UpdateRecord| match one.class {
            Class::IN => one.rtype == Rtype::DS,
            _ => matches!(one.rtype, Rtype::NS | Rtype::ANY),
        };
        for one in self.edits.iter().filter(affects_ds) {
            let owner = one.owner.view();
            if owner != zone.zone().apex() && !has_ns(zone, owner) {
                zone.remove_all(owner, |rtype| rtype == Rtype::DS);
            }
        }
    }
}

/// Reports whether a name has NS records.
pub(crate) fn has_ns(zone: &ZoneEdits<'_>, owner: FoldedName<'_>) -> bool {
    zone.records(owner).iter().any(|record| record.rtype == Rtype::NS)
}

/// Reports whether the apex of every zone must have records of this type.
const fn is_needed(rtype: Rtype) -> bool {
    matches!(rtype, Rtype::SOA | Rtype::NS)
}

/// Reports whether an RRset is one that the zone must have at its apex.
fn is_of_apex(zone: &ZoneEdits<'_>, owner: FoldedName<'_>, rtype: Rtype) -> bool {
    owner == zone.zone().apex() && is_needed(rtype)
}

/// Reports whether a name may have records of this type in addition to a CNAME record (RFC 4034
/// §2.5, §3, §4).
const fn may_join_alias(rtype: Rtype) -> bool {
    matches!(rtype, Rtype::CNAME | Rtype::RRSIG | Rtype::NSEC)
}

/// Adds a record, or ignores it if the zone cannot have it (RFC 2136 §3.4.2.2).
fn add(zone: &mut ZoneEdits<'_>, owner: FoldedName<'_>, record: &HostedRecord<'_>) {
    let present = zone.records(owner);
    let of_type = |one: &&PresentRecord| one.rtype == record.rtype;
    let has = |rtype: Rtype| present.iter().any(|one| one.rtype == rtype);
    match record.rtype {
        Rtype::SOA => {
            let serial = |rdata: &[u8]| {
                rdata.len().checked_sub(20).and_then(|at| rdata[at..].first_chunk().copied())
            };
            let before = present.iter().find(of_type).and_then(|soa| serial(&soa.rdata));
            let (Some(before), Some(after)) = (before, serial(record.rdata)) else { return };
            let is_newer = crate::is_newer(u32::from_be_bytes(after), u32::from_be_bytes(before));
            if owner == zone.zone().apex() && is_newer {
                zone.set_soa(record.ttl_secs, record.rdata);
            }
            return;
        }
        // The DS records of the apex are in the parent zone.
        Rtype::DS if owner == zone.zone().apex() => return,
        Rtype::CNAME if present.iter().any(|one| !may_join_alias(one.rtype)) => return,
        rtype if !may_join_alias(rtype) && has(Rtype::CNAME) => return,
        // Only the apex may have NS and DNAME records (RFC 6672 §2.3).
        Rtype::NS if owner != zone.zone().apex() && has(Rtype::DNAME) => return,
        Rtype::DNAME if owner != zone.zone().apex() && has(Rtype::NS) => return,
        // A name has at most one record of these types, so the new one replaces the previous one.
        rtype @ (Rtype::CNAME | Rtype::DNAME) => zone.remove_all(owner, |one| one == rtype),
        // All records of an RRset get the TTL of the record that was added last (RFC 2181 §5.2).
        rtype => zone.set_ttl(owner, rtype, record.ttl_secs),
    }
    zone.add(owner, record);
}

/// Removes a record, or ignores the edit if the zone must have the record (RFC 2136 §3.4.2.4).
fn remove(zone: &mut ZoneEdits<'_>, owner: FoldedName<'_>, record: &HostedRecord<'_>) {
    if is_of_apex(zone, owner, record.rtype) {
        let left = zone.records(owner).iter().filter(|one| one.rtype == record.rtype).count();
        if record.rtype == Rtype::SOA || left < 2 {
            return;
        }
    }
    zone.remove(owner, record);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::tests::zone;

    const TEXT: &str = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\na A 192.0.2.2\n\
                        a TXT x\nc CNAME a\n";

    /// A record in short form: the label below `example`, the class, the type and TTL, and the
    /// data.
    type Line<'l> = (&'l str, Class, (Rtype, u32), &'l [u8]);

    fn message(lines: [&[Line<'_>]; 2]) -> Vec<u8> {
        let mut message = vec![0, 7, 5 << 3, 0, 0, 1];
        for lines in lines {
            message.extend_from_slice(&(lines.len() as u16).to_be_bytes());
        }
        message.extend_from_slice(&[0, 0]);
        message.extend_from_slice(b"\x07example\0\0\x06\0\x01");
        for (name, class, (rtype, ttl_secs), data) in lines.into_iter().flatten() {
            if !name.is_empty() {
                message.push(name.len() as u8);
                message.extend_from_slice(name.as_bytes());
            }
            message.extend_from_slice(&[0xc0, 12]);
            message.extend_from_slice(&rtype.0.to_be_bytes());
            message.extend_from_slice(&class.0.to_be_bytes());
            message.extend_from_slice(&ttl_secs.to_be_bytes());
            message.extend_from_slice(&(data.len() as u16).to_be_bytes());
            message.extend_from_slice(data);
        }
        message
    }

    fn updated(lines: [&[Line<'_>]; 2]) -> Result<Vec<String>, Rcode> {
        updated_zone(TEXT, lines, &|scope| scope.rtype != Rtype::DS)
    }

    fn updated_zone(
        text: &str,
        lines: [&[Line<'_>]; 2],
        is_permitted: &dyn Fn(EditScope<'_>) -> bool,
    ) -> Result<Vec<String>, Rcode> {
        let zone = zone(text);
        let update = ZoneUpdate::read(&message(lines))?;
        let mut edits = ZoneEdits::of(&zone);
        update.check_work(&edits)?;
        update.check_prerequisites(&edits)?;
        update.check_edits(&edits, is_permitted)?;
        update.apply(&mut edits);
        let zone = edits.finish(0).unwrap();
        Ok(zone.text().lines().skip(1).map(|line| line.replace(" IN", "")).collect())
    }

    #[test]
    fn prerequisites_have_their_response_codes() {
        let check = |line: Line<'_>, expected: Result<(), Rcode>| {
            assert_eq!(updated([&[line], &[]]).map(drop), expected, "{line:?}");
        };
        let (any, none, of_in) = (Class::ANY, Class::NONE, Class::IN);
        let (a, any_type) = ((Rtype::A, 0), (Rtype::ANY, 0));
        check(("a", any, any_type, &[]), Ok(()));
        check(("b", any, any_type, &[]), Err(Rcode::NXDOMAIN));
        check(("a", any, a, &[]), Ok(()));
        check(("c", any, a, &[]), Err(Rcode::NXRRSET));
        check(("b", none, any_type, &[]), Ok(()));
        check(("a", none, any_type, &[]), Err(Rcode::YXDOMAIN));
        check(("c", none, a, &[]), Ok(()));
        check(("a", none, a, &[]), Err(Rcode::YXRRSET));
        check(("a", of_in, a, &[192, 0, 2, 2]), Ok(()));
        check(("a", of_in, a, &[192, 0, 2, 3]), Err(Rcode::NXRRSET));
        check(("a", any, (Rtype::A, 1), &[]), Err(Rcode::FORMERR));
        check(("a", any, a, &[192, 0, 2, 2]), Err(Rcode::FORMERR));
        check(("a", Class(3), a, &[192, 0, 2, 2]), Err(Rcode::FORMERR));
        check(("a", of_in, a, &[192, 0, 2]), Err(Rcode::FORMERR));
    }

    #[test]
    fn the_work_for_an_update_is_bounded() {
        let added = |count: u16, name: &dyn Fn(u16) -> String| {
            let names: Vec<String> = (0..count).map(name).collect();
            let data: Vec<[u8; 2]> = (0..count).map(u16::to_be_bytes).collect();
            let data: Vec<[u8; 4]> = data.into_iter().map(|[a, b]| [10, 0, a, b]).collect();
            let lines: Vec<Line<'_>> = names
                .iter()
                .zip(&data)
                .map(|(name, data)| (&**name, Class::IN, (Rtype::A, 30), &data[..]))
                .collect();
            updated([&[], &lines]).map(|zone| zone.len())
        };
        let present = updated([&[], &[]]).unwrap().len();
        assert_eq!(added(700, &|_| "b".to_owned()), Ok(present + 700));
        assert_eq!(added(1_100, &|_| "b".to_owned()), Err(Rcode::REFUSED));
        assert_eq!(added(1_100, &|at| format!("b{at}")), Ok(present + 1_100));
        let same = ("b", Class::ANY, (Rtype::A, 0), &[][..]);
        assert_eq!(updated([&vec![same; 1_100], &[]]).map(drop), Err(Rcode::REFUSED));
    }

    #[test]
    fn edits_add_replace_and_delete() {
        let check = |lines: &[Line<'_>], expected: &[&str]| {
            let found = updated([&[], lines]).unwrap();
            assert_eq!(found, expected, "{lines:?}");
        };
        let (ns, ns_a) = ("example. 60 NS ns.example.", "ns.example. 60 A 192.0.2.1");
        let (a, txt) = ("a.example. 60 A 192.0.2.2", "a.example. 60 TXT \"x\"");
        let cname = "c.example. 60 CNAME a.example.";
        let (any, none, of_in) = (Class::ANY, Class::NONE, Class::IN);
        check(&[], &[ns, a, txt, cname, ns_a]);
        // All records of the RRset get the TTL of the last one.
        check(
            &[("a", of_in, (Rtype::A, 30), &[192, 0, 2, 9])],
            &[ns, "a.example. 30 A 192.0.2.2", "a.example. 30 A 192.0.2.9", txt, cname, ns_a],
        );
        check(&[("a", any, (Rtype::ANY, 0), &[])], &[ns, cname, ns_a]);
        check(&[("a", any, (Rtype::A, 0), &[])], &[ns, txt, cname, ns_a]);
        check(&[("a", none, (Rtype::A, 0), &[192, 0, 2, 2])], &[ns, txt, cname, ns_a]);
        check(&[("a", none, (Rtype::A, 0), &[192, 0, 2, 3])], &[ns, a, txt, cname, ns_a]);
        // An update cannot remove the records that every zone needs.
        let apex = [
            ("", any, (Rtype::ANY, 0), &[][..]),
            ("", any, (Rtype::NS, 0), &[]),
            ("", none, (Rtype::NS, 0), b"\x02ns\x07example\0"),
        ];
        check(&apex, &[ns, a, txt, cname, ns_a]);
        // A name cannot have a CNAME record and other records.
        check(&[("c", of_in, (Rtype::A, 1), &[1, 1, 1, 1])], &[ns, a, txt, cname, ns_a]);
        check(&[("a", of_in, (Rtype::CNAME, 1), &[0])], &[ns, a, txt, cname, ns_a]);
        // A TTL above 2^31 - 1 counts as 0 (RFC 2181 §8).
        let long = ("a", of_in, (Rtype::TXT, u32::MAX), b"\x01x".as_slice());
        check(&[long], &[ns, a, "a.example. 0 TXT \"x\"", cname, ns_a]);
        let other = [("c", of_in, (Rtype::CNAME, 5), &[0][..])];
        check(&other, &[ns, a, txt, "c.example. 5 CNAME .", ns_a]);
    }

    #[test]
    fn ds_records_go_with_the_delegation() {
        let text = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nd NS ns\nd NS ns2\n\
                    d DS 1 13 1 0000000000000000000000000000000000000000\n";
        let (any, none, of_in) = (Class::ANY, Class::NONE, Class::IN);
        let data = [&[0, 1, 13, 1][..], &[0; 20]].concat();
        let check = |lines: &[Line<'_>], expected: &[&str]| {
            let zone = updated_zone(text, [&[], lines], &|_| true).unwrap();
            let found: Vec<&str> = zone
                .iter()
                .filter(|line| line.contains(" DS "))
                .filter_map(|line| line.split('.').next())
                .collect();
            assert_eq!(found, expected, "{lines:?}");
        };
        let ns = |owner: &'static str, data: &'static [u8]| (owner, none, (Rtype::NS, 0), data);
        let (first, second) = (b"\x02ns\x07example\0", b"\x03ns2\x07example\0");
        check(&[], &["d"]);
        check(&[ns("d", first)], &["d"]);
        check(&[ns("d", first), ns("d", second)], &[]);
        check(&[("d", any, (Rtype::NS, 0), &[])], &[]);
        // The update removes the NS records and adds a new one.
        let other = ("d", of_in, (Rtype::NS, 60), &first[..]);
        check(&[("d", any, (Rtype::NS, 0), &[]), other], &["d"]);
        // A DS record needs a delegation, which the update may add later, and is never at the apex.
        let ds = |owner: &'static str| (owner, of_in, (Rtype::DS, 60), &data[..]);
        check(&[ds("e")], &["d"]);
        check(&[ds("e"), ("e", of_in, (Rtype::NS, 60), &first[..])], &["d", "e"]);
        check(&[ds("ns"), ds("")], &["d"]);
    }

    #[test]
    fn a_delegation_gets_no_dname_record() {
        let text = "$TTL 60\n@ SOA ns.other. h 1 2 3 4 5\n@ NS ns.other.\nd NS ns.other.\n\
                    r DNAME other.\n";
        let present = ["d.example. 60 NS ns.other.", "r.example. 60 DNAME other."];
        let check = |line: Line<'_>, expected: &[&str]| {
            let zone = updated_zone(text, [&[], &[line]], &|_| true).unwrap();
            let is_here = |line: &&String| line.contains(" DNAME ") || line.starts_with("d.");
            let found: Vec<_> = zone.iter().filter(is_here).collect();
            assert_eq!(found, expected, "{line:?}");
        };
        let added = |owner, rtype| (owner, Class::IN, (rtype, 60), &b"\x05other\0"[..]);
        check(added("d", Rtype::DNAME), &present);
        check(added("r", Rtype::NS), &present);
        check(added("e", Rtype::DNAME), &[present[0], "e.example. 60 DNAME other.", present[1]]);
        check(added("", Rtype::DNAME), &["example. 60 DNAME other.", present[0], present[1]]);
    }

    #[test]
    fn the_right_to_delegate_suffices_to_end_a_delegation() {
        let text = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nd NS ns\n\
                    d DS 1 13 1 0000000000000000000000000000000000000000\n";
        let lines = [("d", Class::ANY, (Rtype::NS, 0), &[][..])];
        let zone = updated_zone(text, [&[], &lines], &|scope| scope.rtype == Rtype::NS).unwrap();
        assert!(zone.iter().all(|line| !line.starts_with("d.")), "{zone:?}");
    }

    #[test]
    fn malformed_and_forbidden_edits_are_refused_whole() {
        let check = |line: Line<'_>, expected: Rcode| {
            let fine = ("z", Class::IN, (Rtype::A, 1), &[1, 1, 1, 1][..]);
            assert_eq!(updated([&[], &[fine, line]]).unwrap_err(), expected, "{line:?}");
        };
        let of_in = Class::IN;
        check(("a", of_in, (Rtype::ANY, 1), &[1]), Rcode::FORMERR);
        check(("a", of_in, (Rtype::AXFR, 1), &[1]), Rcode::FORMERR);
        // Type 0 is reserved (RFC 6895 §3.1), so no master file can have it.
        check(("a", of_in, (Rtype(0), 1), &[1]), Rcode::FORMERR);
        check(("a", of_in, (Rtype::A, 1), &[]), Rcode::FORMERR);
        check(("a", Class::ANY, (Rtype::A, 1), &[]), Rcode::FORMERR);
        check(("a", Class::NONE, (Rtype::A, 1), &[1, 1, 1, 1]), Rcode::FORMERR);
        check(("a", Class(4), (Rtype::A, 1), &[1, 1, 1, 1]), Rcode::FORMERR);
        check(("a", of_in, (Rtype::DS, 1), &[0, 1, 8, 2, 0]), Rcode::REFUSED);
        let mut other = message([&[], &[("a", of_in, (Rtype::A, 1), &[1, 1, 1, 1])]]);
        let owner = other.windows(4).position(|octets| octets == [1, b'a', 0xc0, 12]).unwrap();
        (other[owner + 2], other[owner + 3]) = (0xc0, 20);
        let update = ZoneUpdate::read(&other).unwrap();
        let zone = zone(TEXT);
        assert_eq!(update.check_edits(&ZoneEdits::of(&zone), &|_| true), Err(Rcode::NOTZONE));
        let mut random = 11_u32;
        let valid = message([
            &[("a", Class::ANY, (Rtype::A, 0), &[])],
            &[
                ("a", of_in, (Rtype::MX, 1), b"\0\x01\xc0\x0c"),
                ("c", Class::ANY, (Rtype::ANY, 0), &[]),
            ],
        ]);
        for _ in 0..20_000 {
            let mut damaged = valid.clone();
            for _ in 0..3 {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = (random >> 8) as usize % damaged.len();
                damaged[at] = (random >> 24) as u8;
            }
            let Ok(update) = ZoneUpdate::read(&damaged) else { continue };
            let mut edits = ZoneEdits::of(&zone);
            if update.check_prerequisites(&edits).is_ok()
                && update.check_edits(&edits, &|_| true).is_ok()
            {
                update.apply(&mut edits);
                if let Ok(zone) = edits.finish(0) {
                    assert!(zone.soa().is_some());
                }
            }
        }
    }
}
