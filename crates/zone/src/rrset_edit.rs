//! Edits of RRsets by people and programs, which state the desired records of a name and type.

use std::collections::BTreeMap;

use avocet_wire::{FoldedName, FoldedNameBuf, Rtype};
use thiserror::Error;

use crate::build::is_stored;
use crate::edits::ZoneEdits;
use crate::tree::HostedRecord;
use crate::update::{MAX_UPDATE_STEPS, has_ns};

/// Maximum TTL in seconds (RFC 2181 §8).
const MAX_TTL_SECS: u32 = i32::MAX as u32;

/// The effect of an edit on an RRset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RrsetAction {
    /// The RRset then has exactly the given records.
    Replace,
    /// The RRset keeps its records and also gets the given ones.
    Add,
    /// The RRset loses the given records, or all of its records if none are given.
    Remove,
}

/// An edit of an RRset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RrsetEdit {
    /// The owner.
    pub owner: FoldedNameBuf,
    /// The type; `None` removes the records of all types.
    pub rtype: Option<Rtype>,
    /// The effect of the edit.
    pub action: RrsetAction,
    /// The TTL of the whole RRset in seconds. By default, the RRset keeps its TTL; a new RRset gets
    /// the TTL of the SOA record.
    pub ttl_secs: Option<u32>,
    /// The data of the records, already checked for the type.
    pub data: Vec<Box<[u8]>>,
}

/// The reason why an edit is refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RrsetFault {
    /// The owner is not in the zone.
    #[error("{0} is not in the zone {1}")]
    OutOfZone(Box<FoldedNameBuf>, Box<FoldedNameBuf>),
    /// The type occurs only in questions, so no records have it.
    #[error("{0} {1}: no zone has records of this type")]
    NoSuchRecords(Box<FoldedNameBuf>, Rtype),
    /// The records are made by the server when it signs the zone.
    #[error("{0} {1}: these records are made when the zone is signed")]
    OfSigning(Box<FoldedNameBuf>, Rtype),
    /// An addition or replacement has no records.
    #[error("{0} {1}: expected the data of a record")]
    NoData(Box<FoldedNameBuf>, Rtype),
    /// An addition or replacement has no type.
    #[error("{0}: expected a type")]
    NoType(Box<FoldedNameBuf>),
    /// The edit would leave the zone without exactly one SOA record at its apex.
    #[error("{0} SOA: a zone has one SOA record, at its name, which can only be replaced")]
    Soa(Box<FoldedNameBuf>),
    /// The new serial is lower than the current one.
    #[error("{0} SOA: the serial {1} is older than {2}, which is in force (RFC 1982)")]
    OldSerial(Box<FoldedNameBuf>, u32, u32),
    /// The TTL is too long.
    #[error("{0} {1}: the TTL {2} is above 2147483647 (RFC 2181 §8)")]
    LongTtl(Box<FoldedNameBuf>, Rtype, u32),
    /// The name of the zone, or a name without NS records, would get DS records.
    #[error("{0} DS: these records are for delegations: add NS records with them or before them")]
    StrayDs(Box<FoldedNameBuf>),
    /// The request takes too many comparisons of records.
    #[error("these are too many records of one name for one request; send them in several")]
    TooMuchWork,
}

/// Applies the edits in their order. If one is refused, those before it stay applied. If the last
/// NS record of a delegation is removed, so are its DS records, as by an update.
///
/// # Errors
/// An edit is refused. The resulting zone is checked later, by [`ZoneEdits::finish`].
pub fn apply_rrset_edits(edits: &[RrsetEdit], zone: &mut ZoneEdits<'_>) -> Result<(), RrsetFault> {
    check_work(edits, zone)?;
    edits.iter().try_for_each(|edit| edit.apply(zone))?;
    edits.iter().try_for_each(|edit| edit.finish_delegation(zone))
}

/// Checks that the edits take at most [`MAX_UPDATE_STEPS`] comparisons: each record of an edit is
/// compared with the records of its name.
fn check_work(edits: &[RrsetEdit], zone: &ZoneEdits<'_>) -> Result<(), RrsetFault> {
    let mut records_of: BTreeMap<&[u8], usize> = BTreeMap::new();
    for one in edits {
        *records_of.entry(one.owner.view().wire()).or_default() += 1 + one.data.len();
    }
    let steps = records_of.into_iter().map(|(owner, count)| {
        let present = zone.records(FoldedName::from_folded_unchecked(owner)).len();
        count * (count + present)
    });
    (steps.sum::<usize>() <= MAX_UPDATE_STEPS).then_some(()).ok_or(RrsetFault::TooMuchWork)
}

impl RrsetEdit {
    fn apply(&self, zone: &mut ZoneEdits<'_>) -> Result<(), RrsetFault> {
        let (owner, apex) = (self.owner.view(), zone.zone().apex());
        if !owner.is_at_or_below(apex) {
            return Err(RrsetFault::OutOfZone(Box::new(self.owner), Box::new(apex.to_buf())));
        }
        let Some(rtype) = self.rtype else {
            if self.action != RrsetAction::Remove || !self.data.is_empty() {
                return Err(RrsetFault::NoType(Box::new(self.owner)));
            }
            let stays = |rtype| owner == apex && matches!(rtype, Rtype::SOA | Rtype::NS);
            zone.remove_all(owner, |rtype| !stays(rtype));
            return Ok(());
        };
        self.check(rtype)?;
        match (rtype, self.action) {
            (Rtype::SOA, _) => self.replace_soa(zone),
            (_, RrsetAction::Remove) if self.data.is_empty() => {
                zone.remove_all(owner, |other| other == rtype);
                Ok(())
            }
            (_, RrsetAction::Remove) => {
                for rdata in &self.data {
                    zone.remove(owner, &HostedRecord { rtype, ttl_secs: 0, rdata });
                }
                Ok(())
            }
            (_, RrsetAction::Add | RrsetAction::Replace) => {
                self.put(zone, rtype);
                Ok(())
            }
        }
    }

    /// Removes the DS records of a delegation that the edits ended (RFC 4035 §2.4).
    fn finish_delegation(&self, zone: &mut ZoneEdits<'_>) -> Result<(), RrsetFault> {
        let (owner, is_removal) = (self.owner.view(), self.action == RrsetAction::Remove);
        let is_apex = owner == zone.zone().apex();
        match self.rtype {
            Some(Rtype::NS) if is_removal && !is_apex && !has_ns(zone, owner) => {
                zone.remove_all(owner, |rtype| rtype == Rtype::DS);
                Ok(())
            }
            Some(Rtype::DS) if !is_removal && (is_apex || !has_ns(zone, owner)) => {
                Err(RrsetFault::StrayDs(Box::new(self.owner)))
            }
            _ => Ok(()),
        }
    }

    fn check(&self, rtype: Rtype) -> Result<(), RrsetFault> {
        if !is_stored(rtype) {
            return Err(RrsetFault::NoSuchRecords(Box::new(self.owner), rtype));
        }
        if matches!(rtype, Rtype::RRSIG | Rtype::NSEC | Rtype::NSEC3 | Rtype::NSEC3PARAM) {
            return Err(RrsetFault::OfSigning(Box::new(self.owner), rtype));
        }
        if self.action != RrsetAction::Remove && self.data.is_empty() {
            return Err(RrsetFault::NoData(Box::new(self.owner), rtype));
        }
        match self.ttl_secs {
            Some(secs) if secs > MAX_TTL_SECS => {
                Err(RrsetFault::LongTtl(Box::new(self.owner), rtype, secs))
            }
            _ => Ok(()),
        }
    }

    fn put(&self, zone: &mut ZoneEdits<'_>, rtype: Rtype) {
        let owner = self.owner.view();
        let present = zone.records(owner);
        let present = present.iter().find(|one| one.rtype == rtype).map(|one| one.ttl_secs);
        let of_soa = || zone.zone().soa().map_or(0, |soa| soa.ttl_secs);
        let ttl_secs = self.ttl_secs.or(present).unwrap_or_else(of_soa);
        match self.action {
            RrsetAction::Replace => zone.remove_all(owner, |other| other == rtype),
            RrsetAction::Add | RrsetAction::Remove => zone.set_ttl(owner, rtype, ttl_secs),
        }
        for rdata in &self.data {
            zone.add(owner, &HostedRecord { rtype, ttl_secs, rdata });
        }
    }

    fn replace_soa(&self, zone: &mut ZoneEdits<'_>) -> Result<(), RrsetFault> {
        let serial = |rdata: &[u8]| {
            let at = rdata.len().checked_sub(20)?;
            rdata[at..].first_chunk().map(|octets| u32::from_be_bytes(*octets))
        };
        let (RrsetAction::Replace, [rdata]) = (self.action, &self.data[..]) else {
            return Err(RrsetFault::Soa(Box::new(self.owner)));
        };
        let soa = zone.zone().soa().filter(|_| self.owner.view() == zone.zone().apex());
        let (Some(soa), Some(after)) = (soa, serial(rdata)) else {
            return Err(RrsetFault::Soa(Box::new(self.owner)));
        };
        let before = zone.zone().serial();
        if after != before && !crate::is_newer(after, before) {
            return Err(RrsetFault::OldSerial(Box::new(self.owner), after, before));
        }
        let ttl_secs = self.ttl_secs.unwrap_or(soa.ttl_secs);
        zone.set_soa(ttl_secs, rdata);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::tests::zone;

    const TEXT: &str = "$TTL 60\n@ SOA ns h 5 2 3 4 5\n@ NS ns\nns A 192.0.2.1\na 7 A 192.0.2.2\n\
                        a 7 A 192.0.2.3\na TXT x\nc CNAME a\n";

    fn edit(owner: &[u8], rtype: Option<Rtype>, action: RrsetAction) -> RrsetEdit {
        let wire = [owner, b"\x07example\0"].concat();
        let owner = FoldedNameBuf::from_wire(&wire).unwrap();
        RrsetEdit { owner, rtype, action, ttl_secs: None, data: Vec::new() }
    }

    fn with(mut edit: RrsetEdit, data: &[&[u8]]) -> RrsetEdit {
        edit.data = data.iter().map(|one| Box::from(*one)).collect();
        edit
    }

    /// Returns the records of the names `a` and `n` after the edits, or the error.
    fn after(edits: &[RrsetEdit]) -> Result<Vec<String>, String> {
        let zone = zone(TEXT);
        let mut changes = ZoneEdits::of(&zone);
        apply_rrset_edits(edits, &mut changes).map_err(|fault| fault.to_string())?;
        let zone = changes.finish(0).map_err(|fault| fault.to_string())?;
        let lines = zone.text();
        let lines = lines.lines().filter(|line| line.starts_with("a.") || line.starts_with("n."));
        Ok(lines.map(|line| line.replace(".example.", "").replace(" IN", "")).collect())
    }

    #[test]
    fn an_rrset_is_replaced_extended_and_removed_with_its_ttl() {
        use RrsetAction::{Add, Remove, Replace};
        let a = |action| edit(b"\x01a", Some(Rtype::A), action);
        let new = |action| edit(b"\x01n", Some(Rtype::A), action);
        let check = |edit: RrsetEdit, expected: &[&str]| {
            assert_eq!(after(std::slice::from_ref(&edit)).unwrap(), expected, "{edit:?}");
        };
        let text = "a 60 TXT \"x\"";
        check(with(a(Replace), &[&[10, 0, 0, 1]]), &["a 7 A 10.0.0.1", text]);
        let longer = RrsetEdit { ttl_secs: Some(9), ..with(a(Add), &[&[192, 0, 2, 4]]) };
        let all = ["a 9 A 192.0.2.2", "a 9 A 192.0.2.3", "a 9 A 192.0.2.4", text];
        check(longer, &all);
        check(with(a(Remove), &[&[192, 0, 2, 2], &[1, 1, 1, 1]]), &["a 7 A 192.0.2.3", text]);
        check(a(Remove), &[text]);
        check(edit(b"\x01a", None, Remove), &[]);
        let [first, second] = ["a 7 A 192.0.2.2", "a 7 A 192.0.2.3"];
        check(with(new(Replace), &[&[10, 0, 0, 1]]), &[first, second, text, "n 60 A 10.0.0.1"]);
    }

    #[test]
    fn an_edit_that_an_update_would_ignore_is_refused() {
        use RrsetAction::{Add, Remove, Replace};
        let check = |edit: RrsetEdit, expected: &str| {
            let error = after(std::slice::from_ref(&edit)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        let a = b"\x01a";
        check(with(edit(a, Some(Rtype::CNAME), Replace), &[b"\0"]), "CNAME record and other");
        check(edit(a, Some(Rtype::A), Add), "a.example. A: expected the data");
        check(edit(a, None, Add), "expected a type");
        check(with(edit(a, Some(Rtype::RRSIG), Add), &[b"\0"]), "when the zone is signed");
        check(with(edit(a, Some(Rtype::ANY), Add), &[b"\0"]), "no zone has records");
        check(edit(b"", Some(Rtype::SOA), Remove), "only be replaced");
        check(edit(b"", Some(Rtype::NS), Remove), "no NS records");
        let long = RrsetEdit { ttl_secs: Some(1 << 31), ..edit(a, Some(Rtype::A), Add) };
        check(with(long, &[&[1, 1, 1, 1]]), "above 2147483647");
        let soa = |serial: u8| [&b"\0\0"[..], &[0, 0, 0, serial], &[0; 16]].concat();
        let replaced =
            |owner: &[u8], serial| with(edit(owner, Some(Rtype::SOA), Replace), &[&soa(serial)]);
        check(replaced(b"", 4), "the serial 4 is older than 5");
        check(replaced(a, 6), "at its name");
        assert!(after(&[replaced(b"", 6)]).is_ok() && after(&[replaced(b"", 5)]).is_ok());
        let outside = FoldedNameBuf::from_wire(b"\x01a\x05other\0").unwrap();
        check(RrsetEdit { owner: outside, ..edit(a, None, Remove) }, "not in the zone example.");
        assert!(after(&[edit(b"", None, Remove)]).is_ok(), "SOA and NS records stay");
    }

    #[test]
    fn the_ds_records_of_a_delegation_go_with_its_last_ns_record() {
        use RrsetAction::{Add, Remove, Replace};
        let text = "$TTL 60\n@ SOA ns h 5 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nd NS ns\nd NS ns2\n\
                    d DS 1 13 1 0000000000000000000000000000000000000000\nd TXT x\n";
        let source = zone(text);
        let after = |edits: &[RrsetEdit]| -> Result<Vec<Rtype>, String> {
            let mut changes = ZoneEdits::of(&source);
            apply_rrset_edits(edits, &mut changes).map_err(|fault| fault.to_string())?;
            let zone = changes.finish(0).map_err(|fault| fault.to_string())?;
            let node = zone.node(b"\x01d\x07example\0");
            Ok(node.map_or(Vec::new(), |node| node.sets().map(|set| set.rtype).collect()))
        };
        let (ns, ns2) = (b"\x02ns\x07example\0", b"\x03ns2\x07example\0");
        let ds = [&[0, 1, 13, 1][..], &[0; 20]].concat();
        let of = |rtype, action| edit(b"\x01d", Some(rtype), action);
        let whole = Ok(vec![Rtype::NS, Rtype::TXT, Rtype::DS]);
        assert_eq!(after(&[with(of(Rtype::NS, Remove), &[ns])]), whole);
        let ended = Ok(vec![Rtype::TXT]);
        assert_eq!(after(&[with(of(Rtype::NS, Remove), &[ns, ns2])]), ended);
        assert_eq!(after(&[of(Rtype::NS, Remove)]), ended);
        // The delegation is replaced.
        let added = with(of(Rtype::NS, Add), &[ns]);
        assert_eq!(after(&[of(Rtype::NS, Remove), added.clone()]), whole);
        // A DS record needs a delegation.
        let error = after(&[of(Rtype::NS, Remove), with(of(Rtype::DS, Add), &[&ds])]);
        assert!(error.unwrap_err().contains("d.example. DS: these records are for delegations"));
        let new = |rtype, data: &[u8]| with(edit(b"\x01n", Some(rtype), Replace), &[data]);
        assert!(after(&[new(Rtype::DS, &ds)]).is_err());
        assert_eq!(after(&[new(Rtype::DS, &ds), new(Rtype::NS, ns)]), whole);
        assert!(after(&[with(edit(b"", Some(Rtype::DS), Add), &[&ds])]).is_err());
    }

    #[test]
    fn the_work_for_edits_is_bounded() {
        let data: Vec<[u8; 4]> = (0..4_000_u16).map(|n| [10, 0, (n >> 8) as u8, n as u8]).collect();
        let data: Vec<&[u8]> = data.iter().map(|one| &one[..]).collect();
        let one = with(edit(b"\x01a", Some(Rtype::A), RrsetAction::Replace), &data);
        assert!(after(&[one]).unwrap_err().contains("too many records"));
    }
}
