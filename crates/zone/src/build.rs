//! Construction of the tree of a zone from its records, which may be in any order.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use avocet_dnssec::nsec3::Nsec3;
use avocet_dnssec::rrsig::Rrsig;
use avocet_wire::canonical::compare_rdata;
use avocet_wire::master::{MasterError, MasterRecord};
use avocet_wire::{FoldedName, FoldedNameBuf, NameBuf, Rtype};

use crate::check::{self, PendingTarget};
use crate::fault::{EntryPlace, Faults, ZoneProblem};
use crate::node_index::NodeIndex;
use crate::tree::{Denial, Flags, HostedZone, MAX_SET_OCTETS, Nsec3Chain, RECORD_HEAD, SET_HEAD};

/// Maximum number of records of a zone. A record number has 32 bits, so this limit leaves room.
pub const MAX_HOSTED_RECORDS: u32 = 1 << 30;
/// Maximum number of labels of a name.
const MAX_LABELS: usize = 127;

/// The records of a zone before they are sorted.
pub struct ZoneBuilder {
    apex: FoldedNameBuf,
    /// The octets of sort keys, owners and data, to which the offsets of other fields refer.
    octets: Vec<u8>,
    runs: Vec<OwnerRun>,
    records: Vec<Staged>,
    owner: NameBuf,
    /// Names whose addresses the server determines separately for each answer; in lower case and
    /// wire form.
    made: BTreeSet<Box<[u8]>>,
    is_full: bool,
}

/// Consecutive records with the same owner.
#[derive(Clone, Copy)]
struct OwnerRun {
    /// The first octets of the sort key, for fast comparison.
    prefix: u64,
    /// The offset of the sort key: the labels below the apex in reverse order, encoded so that
    /// comparing octets gives the canonical order of names.
    key: u32,
    key_len: u16,
    owner_len: u8,
    /// The index of the first record.
    first: u32,
}

/// A record that was added, but is not yet in the tree.
#[derive(Clone, Copy)]
pub(crate) struct Staged {
    data: u32,
    len: u16,
    rtype: Rtype,
    ttl_secs: u32,
    pub(crate) place: EntryPlace,
}

impl ZoneBuilder {
    /// Creates a builder without records for the zone at `apex`.
    #[must_use]
    pub fn new(apex: FoldedName<'_>) -> Self {
        Self {
            apex: apex.to_buf(),
            octets: Vec::new(),
            runs: Vec::new(),
            records: Vec::new(),
            owner: NameBuf::ROOT,
            made: BTreeSet::new(),
            is_full: false,
        }
    }

    /// Adds a record. A record outside the zone is ignored with a warning, as BIND does.
    pub fn add(&mut self, record: &MasterRecord, place: EntryPlace, faults: &mut Faults) {
        let owner = FoldedName::from_folded_unchecked(record.owner.wire());
        if !owner.is_at_or_below(self.apex.view()) {
            return faults.warn(place, ZoneProblem::OutOfZone(record.owner));
        }
        if record.rtype == Rtype::SOA && owner.len() != self.apex.view().len() {
            return faults.error(place, ZoneProblem::SoaBelowApex(record.owner));
        }
        if !is_stored(record.rtype) {
            // For a record of a master file, the reader has already reported this fault.
            return faults.error(place, ZoneProblem::Master(MasterError::MetaType));
        }
        let room = self.octets.len() + record.rdata.len() + 1024;
        if self.records.len() >= MAX_HOSTED_RECORDS as usize || u32::try_from(room).is_err() {
            if !std::mem::replace(&mut self.is_full, true) {
                faults.error(place, ZoneProblem::TooManyRecords(MAX_HOSTED_RECORDS));
            }
            return;
        }
        if self.runs.is_empty() || self.owner != record.owner {
            self.begin_run(owner);
            self.owner = record.owner;
        }
        let (data, len) = (self.octets.len() as u32, record.rdata.len() as u16);
        self.octets.extend_from_slice(&record.rdata);
        let MasterRecord { rtype, ttl_secs, .. } = *record;
        self.records.push(Staged { data, len, rtype, ttl_secs, place });
    }

    /// Adds a name of the zone whose addresses the server determines separately for each answer.
    pub(crate) fn add_made(&mut self, owner: FoldedName<'_>) {
        self.begin_run(owner);
        // The owner is reset, so that the next record begins a new run even if it has the same
        // owner.
        self.owner = NameBuf::ROOT;
        self.made.insert(owner.wire().into());
    }

    fn begin_run(&mut self, owner: FoldedName<'_>) {
        let key = self.octets.len();
        let own_len = owner.len() - self.apex.view().len();
        let (mut starts, mut count, mut at) = ([0_u8; MAX_LABELS], 0, 0);
        while at < own_len {
            (starts[count], count) = (at as u8, count + 1);
            at += 1 + usize::from(owner.wire()[at]);
        }
        for &start in starts[..count].iter().rev() {
            let label = &owner.wire()[usize::from(start)..];
            for &octet in &label[1..=usize::from(label[0])] {
                self.octets.push(octet);
                // Zero is the end of a label, and sorts before all octets of labels.
                if octet == 0 {
                    self.octets.push(1);
                }
            }
            self.octets.extend_from_slice(&[0, 0]);
        }
        let mut prefix = [0; 8];
        let written = &self.octets[key..];
        let len = written.len().min(prefix.len());
        prefix[..len].copy_from_slice(&written[..len]);
        let key_len = written.len() as u16;
        self.octets.extend_from_slice(owner.wire());
        self.runs.push(OwnerRun {
            prefix: u64::from_be_bytes(prefix),
            key: key as u32,
            key_len,
            owner_len: owner.len() as u8,
            first: self.records.len() as u32,
        });
    }

    /// Sorts the records, builds the tree and checks the zone. Returns `None` if it has errors.
    ///
    /// `now_secs` is the Unix time at which the dates of signatures are checked. `whole` is the
    /// place that is reported with faults of the whole zone.
    #[must_use]
    pub fn finish(
        mut self,
        now_secs: u64,
        whole: EntryPlace,
        faults: &mut Faults,
    ) -> Option<HostedZone> {
        let mut ends: Vec<u32> = self.runs.iter().skip(1).map(|run| run.first).collect();
        ends.push(self.records.len() as u32);
        let mut runs: Vec<(OwnerRun, u32)> =
            std::mem::take(&mut self.runs).into_iter().zip(ends).collect();
        let key = |run: &OwnerRun| {
            let start = run.key as usize;
            &self.octets[start..start + usize::from(run.key_len)]
        };
        runs.sort_unstable_by(|(a, _), (b, _)| {
            let by_key = || key(a).cmp(key(b)).then(a.first.cmp(&b.first));
            a.prefix.cmp(&b.prefix).then_with(by_key)
        });
        let mut planting = Planting::new(&self, now_secs, faults);
        let mut rest = &runs[..];
        while let [(run, _), ..] = rest {
            let same = rest
                .iter()
                .take_while(|(other, _)| other.prefix == run.prefix && key(other) == key(run));
            let (group, after) = rest.split_at(same.count());
            rest = after;
            let start = run.key as usize + usize::from(run.key_len);
            let owner = &self.octets[start..start + usize::from(run.owner_len)];
            let records = group.iter().flat_map(|(run, end)| run.first..*end);
            planting.plant(FoldedName::from_folded_unchecked(owner), records);
        }
        planting.finish(whole)
    }

    fn data(&self, record: &Staged) -> &[u8] {
        let start = record.data as usize;
        &self.octets[start..start + usize::from(record.len)]
    }
}

/// The tree of a zone while its names are added in canonical order.
struct Planting<'b> {
    staged: &'b ZoneBuilder,
    now_secs: u64,
    faults: &'b mut Faults,
    block: Vec<u8>,
    nodes: Vec<u32>,
    nsec: Vec<u32>,
    nsec3: Vec<([u8; 20], u32)>,
    /// The name that was added last, and its ancestors: for each, its offset, its length, and
    /// whether the names below it are occluded.
    path: Vec<Above>,
    pending: Vec<PendingTarget>,
    sets: Vec<(Rtype, u32)>,
    signatures: Vec<(Rtype, u32)>,
    kept: u32,
    is_too_large: bool,
}

#[derive(Clone, Copy)]
struct Above {
    at: u32,
    len: u8,
    occludes: bool,
}

impl<'b> Planting<'b> {
    fn new(staged: &'b ZoneBuilder, now_secs: u64, faults: &'b mut Faults) -> Self {
        Self {
            staged,
            now_secs,
            faults,
            block: Vec::with_capacity(staged.octets.len() + staged.records.len() * 24),
            nodes: Vec::new(),
            nsec: Vec::new(),
            nsec3: Vec::new(),
            path: Vec::new(),
            pending: Vec::new(),
            sets: Vec::new(),
            signatures: Vec::new(),
            kept: 0,
            is_too_large: false,
        }
    }

    /// Adds a name with its records. Ancestors without records are added first.
    fn plant(&mut self, owner: FoldedName<'_>, records: impl Iterator<Item = u32>) {
        self.sets.clear();
        self.signatures.clear();
        for index in records {
            let record = self.staged.records[index as usize];
            match (record.rtype, Rrsig::read(self.staged.data(&record))) {
                (Rtype::RRSIG, Some(rrsig)) => self.signatures.push((rrsig.covered, index)),
                _ => self.sets.push((record.rtype, index)),
            }
        }
        self.sets.sort_unstable();
        self.signatures.sort_unstable();
        // The owner of an NSEC3 record is a hash, which is not a name of the tree (RFC 5155
        // §7.2.8).
        if !self.sets.is_empty() && self.sets.iter().all(|(rtype, _)| *rtype == Rtype::NSEC3) {
            return self.plant_nsec3(owner);
        }
        let apex_len = self.staged.apex.view().len();
        while let Some(above) = self.path.last() {
            if owner.is_at_or_below(self.name_at(above.at)) {
                break;
            }
            self.path.pop();
        }
        let known = self.path.last().map_or(0, |above| usize::from(above.len));
        let missing: Vec<FoldedName<'_>> = owner
            .ancestors()
            .skip(1)
            .take_while(|name| name.len() > known && name.len() >= apex_len)
            .collect();
        for name in missing.into_iter().rev() {
            let (sets, signatures) =
                (std::mem::take(&mut self.sets), std::mem::take(&mut self.signatures));
            self.node(name);
            (self.sets, self.signatures) = (sets, signatures);
        }
        self.node(owner);
    }

    fn name_at(&self, at: u32) -> FoldedName<'_> {
        crate::tree::Node { block: &self.block, at: at as usize }.name()
    }

    fn plant_nsec3(&mut self, owner: FoldedName<'_>) {
        let at = self.block.len() as u32;
        let first = self.staged.records[self.sets[0].1 as usize];
        if let Some(nsec3) =
            Nsec3::read(owner.wire(), self.staged.data(&first), self.staged.apex.wire())
        {
            self.nsec3.push((nsec3.hash, at));
        }
        self.write_node(owner, Flags(0));
    }

    /// Adds a node with the records in `sets` and `signatures`.
    fn node(&mut self, owner: FoldedName<'_>) {
        let is_apex = owner.len() == self.staged.apex.view().len();
        let has = |rtype| self.sets.iter().any(|(other, _)| *other == rtype);
        let (has_ns, has_dname, has_nsec) = (has(Rtype::NS), has(Rtype::DNAME), has(Rtype::NSEC));
        let above = self.path.last().copied();
        let mut flags = 0;
        if has_ns && !is_apex {
            flags |= Flags::CUT.0;
        }
        if has_dname {
            flags |= Flags::DNAME.0;
        }
        if self.staged.made.contains(owner.wire()) {
            flags |= Flags::MADE.0;
        }
        if above.is_some_and(|above| above.occludes) {
            flags |= Flags::OCCLUDED.0;
        }
        if owner.wire().starts_with(b"\x01*")
            && let Some(above) = above
        {
            self.block[above.at as usize] |= Flags::HAS_WILDCARD.0;
        }
        let at = self.block.len() as u32;
        self.nodes.push(at);
        if has_nsec {
            self.nsec.push(at);
        }
        self.check_node(owner, Flags(flags));
        self.write_node(owner, Flags(flags));
        let occludes = flags & (Flags::CUT.0 | Flags::DNAME.0 | Flags::OCCLUDED.0) != 0;
        self.path.push(Above { at, len: owner.len() as u8, occludes });
    }

    fn write_node(&mut self, owner: FoldedName<'_>, flags: Flags) {
        self.block.extend_from_slice(&[flags.0, owner.len() as u8]);
        self.block.extend_from_slice(owner.wire());
        let count_at = self.block.len();
        self.block.extend_from_slice(&[0; 5]);
        let (sets, signatures) =
            (std::mem::take(&mut self.sets), std::mem::take(&mut self.signatures));
        let (mut written, mut signed) = (0_u8, &signatures[..]);
        let mut rest = &sets[..];
        // Signatures without records are kept, because a client may ask for them.
        while let Some(rtype) = rest.first().or(signed.first()).map(|(rtype, _)| *rtype) {
            let rtype = signed.first().map_or(rtype, |(covered, _)| rtype.min(*covered));
            let of_type = |list: &[(Rtype, u32)]| {
                list.iter().take_while(|(other, _)| *other == rtype).count()
            };
            let (records, other) = rest.split_at(of_type(rest));
            rest = other;
            let (covering, other) = signed.split_at(of_type(signed));
            signed = other;
            self.write_set(owner, rtype, records, covering);
            written = match written.checked_add(1) {
                Some(written) => written,
                None => {
                    let place = self.place(records.first().or(covering.first()));
                    self.faults.error(place, ZoneProblem::TooManyTypes(name_of(owner)));
                    break;
                }
            };
        }
        let len = self.block.len() - count_at - 5;
        self.block[count_at] = written;
        self.block[count_at + 1..count_at + 5].copy_from_slice(&(len as u32).to_be_bytes());
        self.is_too_large |= u32::try_from(self.block.len()).is_err();
        (self.sets, self.signatures) = (sets, signatures);
    }

    fn place(&self, entry: Option<&(Rtype, u32)>) -> EntryPlace {
        entry.map_or(EntryPlace::default(), |(_, index)| self.staged.records[*index as usize].place)
    }

    fn write_set(
        &mut self,
        owner: FoldedName<'_>,
        rtype: Rtype,
        records: &[(Rtype, u32)],
        signatures: &[(Rtype, u32)],
    ) {
        let start = self.block.len();
        self.block.extend_from_slice(&[0; SET_HEAD]);
        let records = self.without_duplicates(rtype, records);
        let ttl_secs = self.common_ttl(owner, rtype, &records);
        for index in &records {
            self.write_record(*index, ttl_secs);
        }
        let records_end = self.block.len();
        let signatures = self.without_duplicates(Rtype::RRSIG, signatures);
        for index in &signatures {
            self.check_signature(owner, rtype, *index);
            self.write_record(*index, None);
        }
        if let (true, Some(index)) = (records.is_empty(), signatures.first()) {
            let place = self.staged.records[*index as usize].place;
            self.faults.warn(place, ZoneProblem::NothingSigned(rtype, name_of(owner)));
        }
        self.kept += (records.len() + signatures.len()) as u32;
        let (len, signatures_len) =
            (records_end - start - SET_HEAD, self.block.len() - records_end);
        let numbers = [usize::from(rtype.0), records.len(), len, signatures.len(), signatures_len];
        for (at, number) in numbers.into_iter().enumerate() {
            let octets = u16::try_from(number).unwrap_or(0).to_be_bytes();
            self.block[start + 2 * at..start + 2 * at + 2].copy_from_slice(&octets);
        }
        if len + signatures_len > MAX_SET_OCTETS {
            let place = self.staged.records
                [records.first().or(signatures.first()).map_or(0, |index| *index as usize)]
            .place;
            self.faults.error(place, ZoneProblem::RrsetTooLarge(rtype, name_of(owner)));
        }
    }

    /// Returns the records without duplicates, in the order of the file.
    fn without_duplicates(&self, rtype: Rtype, records: &[(Rtype, u32)]) -> Vec<u32> {
        let data = |index: u32| self.staged.data(&self.staged.records[index as usize]);
        let mut sorted: Vec<u32> = records.iter().map(|(_, index)| *index).collect();
        if sorted.len() > 1 {
            sorted.sort_by(|a, b| compare_rdata(rtype.0, data(*a), data(*b)).then(a.cmp(b)));
            sorted.dedup_by(|b, a| compare_rdata(rtype.0, data(*a), data(*b)).is_eq());
            sorted.sort_unstable();
        }
        sorted
    }

    /// Returns the lowest TTL of the records of an RRset. If their TTLs differ, adds a warning (RFC
    /// 2181 §5.2).
    fn common_ttl(&mut self, owner: FoldedName<'_>, rtype: Rtype, records: &[u32]) -> Option<u32> {
        let record = |index: &u32| &self.staged.records[*index as usize];
        let lowest = records.iter().map(|index| record(index).ttl_secs).min()?;
        let first = record(records.first()?).ttl_secs;
        if let Some(other) = records.iter().find(|index| record(index).ttl_secs != first) {
            let place = record(other).place;
            self.faults.warn(place, ZoneProblem::OtherTtl(rtype, name_of(owner)));
        }
        Some(lowest)
    }

    fn write_record(&mut self, index: u32, ttl_secs: Option<u32>) {
        let record = &self.staged.records[index as usize];
        let [high, low] = record.rtype.0.to_be_bytes();
        let [a, b, c, d] = ttl_secs.unwrap_or(record.ttl_secs).to_be_bytes();
        let [len_high, len_low] = record.len.to_be_bytes();
        let head: [u8; RECORD_HEAD] = [0xc0, 12, high, low, 0, 1, a, b, c, d, len_high, len_low];
        self.block.extend_from_slice(&head);
        self.block.extend_from_slice(self.staged.data(record));
    }

    /// Checks a name and its records before they are added.
    fn check_node(&mut self, owner: FoldedName<'_>, flags: Flags) {
        let sets = std::mem::take(&mut self.sets);
        let view = check::NodeView {
            owner,
            flags,
            is_apex: owner.len() == self.staged.apex.view().len(),
            sets: &sets,
            above: self
                .path
                .iter()
                .find(|above| above.occludes)
                .map(|above| self.name_at(above.at).to_buf()),
        };
        let place = |index: u32| self.staged.records[index as usize].place;
        let data = |index: u32| self.staged.data(&self.staged.records[index as usize]);
        check::node(&view, &place, &data, self.faults);
        for (rtype, index) in &sets {
            if let Some(target) = check::target_of(*rtype, data(*index)) {
                let (owner, place) = (self.block.len() as u32, place(*index));
                let target = NameBuf::from_wire(target).unwrap_or(NameBuf::ROOT);
                if target.folded().view().is_at_or_below(self.staged.apex.view()) {
                    self.pending.push(PendingTarget { rtype: *rtype, owner, target, place });
                }
            }
        }
        self.sets = sets;
    }

    fn check_signature(&mut self, owner: FoldedName<'_>, rtype: Rtype, index: u32) {
        let record = &self.staged.records[index as usize];
        let Some(rrsig) = Rrsig::read(self.staged.data(record)) else { return };
        check::signature(&rrsig, self.staged.apex.wire(), self.now_secs, |reason| {
            self.faults.warn(record.place, reason(rtype, name_of(owner)));
        });
    }

    /// Completes the tree and checks the zone as a whole.
    fn finish(mut self, whole: EntryPlace) -> Option<HostedZone> {
        if self.is_too_large {
            self.faults.error(whole, ZoneProblem::TooLarge);
            return None;
        }
        let index = NodeIndex::of(&self.block, &self.nodes);
        let mut zone = HostedZone {
            apex: self.staged.apex,
            block: self.block.into_boxed_slice(),
            index,
            denial: Denial::None,
            records: self.kept,
            names: self.nodes.len() as u32,
            digest: OnceLock::new(),
            changes: Vec::new(),
            withheld_from: OnceLock::new(),
            online: OnceLock::new(),
            holds_transfers: AtomicBool::new(false),
        };
        self.nsec3.sort_unstable();
        zone.denial = denial_of(&zone, self.nsec, self.nsec3);
        check::whole(&zone, whole, &self.pending, self.faults);
        (!self.faults.has_errors()).then_some(zone)
    }
}

/// Reports whether a zone can contain records of a type. Types that occur only in queries or
/// messages, and the reserved type 0, are excluded (RFC 6895 §3.1).
pub(crate) const fn is_stored(rtype: Rtype) -> bool {
    rtype.0 != 0 && !rtype.is_meta()
}

fn name_of(name: FoldedName<'_>) -> NameBuf {
    NameBuf::from_wire(name.wire()).unwrap_or(NameBuf::ROOT)
}

/// Returns the index of the NSEC3 records if the apex has their parameters, or of the NSEC records
/// otherwise.
fn denial_of(zone: &HostedZone, nsec: Vec<u32>, nsec3: Vec<([u8; 20], u32)>) -> Denial {
    let Some(apex) = zone.node(zone.apex().wire()) else { return Denial::None };
    let parameters = apex.set(Rtype::NSEC3PARAM);
    for record in parameters.iter().flat_map(|set| set.iter()) {
        let [1, 0, high, low, salt_len, salt @ ..] = record.rdata else { continue };
        let (iterations, salt) =
            (u16::from_be_bytes([*high, *low]), &salt[..salt.len().min(usize::from(*salt_len))]);
        let of_chain = |(_, at): &&([u8; 20], u32)| {
            let set = zone.node_at(*at).set(Rtype::NSEC3);
            set.iter()
                .flat_map(|set| set.iter())
                .any(|nsec3| nsec3.rdata.get(2..5 + salt.len()) == record.rdata.get(2..))
        };
        let hashes: Box<[_]> = nsec3.iter().filter(of_chain).copied().collect();
        if !hashes.is_empty() {
            let salt = salt.into();
            return Denial::Nsec3(Box::new(Nsec3Chain { iterations, salt, hashes }));
        }
    }
    match apex.set(Rtype::NSEC) {
        Some(_) => Denial::Nsec(nsec.into()),
        None => Denial::None,
    }
}
