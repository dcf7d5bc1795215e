//! Properties of every message that is read as a dynamic update, for tests and the fuzz target
//! `update`: a plain list of records, edited as RFC 2136 §3.2 and §3.4 say, is the model.

use std::path::Path;

use avocet_wire::canonical::compare_rdata;
use avocet_wire::view::{RecordSection, RecordView};
use avocet_wire::{Class, FoldedName, MessageView, Rcode, Rtype};
use avocet_zone::{HostedZone, ZoneEdits, ZoneUpdate};

/// The zone that is updated. It has an alias, a wildcard, a delegation, a DNAME and an RRset of two
/// records.
const ZONE: &str = "$TTL 60\n@ SOA ns h 7 2 3 4 5\n@ NS ns\n@ NS other.test.\n@ MX 10 A\n\
                    ns A 192.0.2.1\na A 192.0.2.2\na A 192.0.2.3\na TXT x\nc CNAME a\n\
                    * TXT any\nsub NS ns.sub\n\
                    sub DS 1 13 1 0000000000000000000000000000000000000000\n\
                    ns.sub A 192.0.2.4\nd DNAME other.test.\n\
                    e.f AAAA 2001:db8::1\n";

/// Number of octets of the numeric fields at the end of an SOA record's data.
const NUMBERS: usize = 20;

/// A record of the model.
#[derive(Clone, Debug)]
struct Line {
    owner: Vec<u8>,
    rtype: Rtype,
    ttl_secs: u32,
    rdata: Vec<u8>,
}

/// A record of a message.
struct Written {
    class: Class,
    line: Line,
}

fn apex() -> FoldedName<'static> {
    FoldedName::new(b"\x07example\x00").expect("a name")
}

fn zone() -> HostedZone {
    let mut open = |_: &Path, _: u64| Ok(ZONE.as_bytes().to_vec());
    avocet_zone::load(apex(), Path::new("zone"), 0, &mut open).0.expect("the zone")
}

fn lines_of(zone: &HostedZone) -> Vec<Line> {
    let line = |(owner, record): (FoldedName<'_>, avocet_zone::HostedRecord<'_>)| Line {
        owner: owner.wire().to_vec(),
        rtype: record.rtype,
        ttl_secs: record.ttl_secs,
        rdata: record.rdata.to_vec(),
    };
    zone.in_order().map(line).collect()
}

/// Returns the prerequisites and the edits of a message that was read.
fn written(message: &[u8]) -> [Vec<Written>; 2] {
    let mut sections = [Vec::new(), Vec::new()];
    let view = MessageView::new(message).expect("a message that was read");
    for record in view.records().expect("its records") {
        let record = record.expect("a record that was read");
        match record.section {
            RecordSection::Answer => sections[0].push(one(&record)),
            RecordSection::Authority => sections[1].push(one(&record)),
            RecordSection::Additional => break,
        }
    }
    sections
}

fn one(record: &RecordView<'_>) -> Written {
    let mut room = vec![0; usize::from(u16::MAX)];
    let len = match record.rdata() {
        [] => 0,
        _ => record.expand_rdata(&mut room).expect("data that was read"),
    };
    let line = Line {
        owner: record.owner().expect("an owner that was read").folded().view().wire().to_vec(),
        rtype: record.rtype,
        ttl_secs: record.ttl_field,
        rdata: room[..len].to_vec(),
    };
    Written { class: record.class, line }
}

impl Line {
    fn is_of(&self, other: &Self) -> bool {
        self.owner == other.owner && self.rtype == other.rtype
    }

    fn is_same(&self, other: &Self) -> bool {
        self.is_of(other) && compare_rdata(self.rtype.0, &self.rdata, &other.rdata).is_eq()
    }

    fn is_in_zone(&self) -> bool {
        FoldedName::from_folded_unchecked(&self.owner).is_at_or_below(apex())
    }

    /// Returns the serial of an SOA record.
    fn serial(&self) -> u32 {
        let numbers = &self.rdata[self.rdata.len() - NUMBERS..];
        u32::from_be_bytes(*numbers.first_chunk().expect("a serial"))
    }
}

/// Checks prerequisites (RFC 2136 §3.2.5).
fn prerequisites(zone: &[Line], wanted: &[Written]) -> Result<(), Rcode> {
    let ensure = |holds: bool, rcode| if holds { Ok(()) } else { Err(rcode) };
    let mut temporary: Vec<&Line> = Vec::new();
    for Written { class, line } in wanted {
        ensure(line.ttl_secs == 0, Rcode::FORMERR)?;
        ensure(line.is_in_zone(), Rcode::NOTZONE)?;
        let has_name = zone.iter().any(|one| one.owner == line.owner);
        let has_set = zone.iter().any(|one| one.is_of(line));
        let is_empty = line.rdata.is_empty();
        match (*class, line.rtype) {
            (Class::ANY | Class::NONE, _) if !is_empty => return Err(Rcode::FORMERR),
            (Class::ANY, Rtype::ANY) => ensure(has_name, Rcode::NXDOMAIN)?,
            (Class::ANY, _) => ensure(has_set, Rcode::NXRRSET)?,
            (Class::NONE, Rtype::ANY) => ensure(!has_name, Rcode::YXDOMAIN)?,
            (Class::NONE, _) => ensure(!has_set, Rcode::YXRRSET)?,
            (Class::IN, rtype) if !rtype.is_meta() && rtype.0 != 0 => temporary.push(line),
            _ => return Err(Rcode::FORMERR),
        }
    }
    let is_met = |line: &&Line| {
        let covers = |inner: &[&Line], outer: &[&Line]| {
            inner.iter().all(|one| outer.iter().any(|other| other.is_same(one)))
        };
        let wanted: Vec<_> = temporary.iter().filter(|one| one.is_of(line)).copied().collect();
        let present: Vec<_> = zone.iter().filter(|one| one.is_of(line)).collect();
        covers(&wanted, &present) && covers(&present, &wanted)
    };
    ensure(temporary.iter().all(is_met), Rcode::NXRRSET)
}

/// Checks the form of edits (RFC 2136 §3.4.1.3).
fn prescan(edits: &[Written]) -> Result<(), Rcode> {
    for Written { class, line } in edits {
        if !line.is_in_zone() {
            return Err(Rcode::NOTZONE);
        }
        let is_meta = line.rtype.is_meta() || line.rtype.0 == 0;
        let is_empty = line.rdata.is_empty();
        let is_fine = match *class {
            Class::IN => !is_meta && !is_empty,
            Class::ANY => line.ttl_secs == 0 && is_empty && (!is_meta || line.rtype == Rtype::ANY),
            Class::NONE => line.ttl_secs == 0 && !is_meta,
            _ => false,
        };
        if !is_fine {
            return Err(Rcode::FORMERR);
        }
    }
    Ok(())
}

/// Makes one edit (RFC 2136 §3.4.2.7).
fn edit(zone: &mut Vec<Line>, Written { class, line }: &Written) {
    let is_needed =
        |one: &Line| *one.owner == *apex().wire() && matches!(one.rtype, Rtype::SOA | Rtype::NS);
    match *class {
        Class::IN => {
            // A TTL above 2^31 - 1 counts as 0 (RFC 2181 §8).
            let ttl_secs = i32::try_from(line.ttl_secs).map_or(0, |_| line.ttl_secs);
            add(zone, &Line { ttl_secs, ..line.clone() });
        }
        Class::ANY => zone.retain(|one| {
            let is_meant =
                one.owner == line.owner && (line.rtype == Rtype::ANY || one.rtype == line.rtype);
            !is_meant || is_needed(one)
        }),
        _ => {
            let count = zone.iter().filter(|one| one.is_of(line)).count();
            let is_kept = is_needed(line) && (line.rtype == Rtype::SOA || count < 2);
            zone.retain(|one| is_kept || !one.is_same(line));
        }
    }
}

/// Removes DS records without a delegation at the names whose NS or DS records were edited.
fn remove_stray_ds(zone: &mut Vec<Line>, edits: &[Written]) {
    for Written { class, line } in edits {
        let is_meant = match (*class, line.rtype) {
            (Class::IN, rtype) => rtype == Rtype::DS,
            (_, rtype) => matches!(rtype, Rtype::NS | Rtype::ANY),
        };
        let at_owner = |one: &Line| one.owner == line.owner && *one.owner != *apex().wire();
        let is_cut = zone.iter().any(|one| at_owner(one) && one.rtype == Rtype::NS);
        if is_meant && !is_cut {
            zone.retain(|one| !(at_owner(one) && one.rtype == Rtype::DS));
        }
    }
}

fn add(zone: &mut Vec<Line>, line: &Line) {
    let joins_alias = |rtype| matches!(rtype, Rtype::CNAME | Rtype::RRSIG | Rtype::NSEC);
    let has = |is_meant: &dyn Fn(Rtype) -> bool| {
        zone.iter().any(|one| one.owner == line.owner && is_meant(one.rtype))
    };
    let is_barred = match line.rtype {
        Rtype::SOA => !zone
            .iter()
            .any(|one| one.is_of(line) && avocet_zone::is_newer(line.serial(), one.serial())),
        Rtype::DS if *line.owner == *apex().wire() => true,
        Rtype::CNAME => has(&|rtype| !joins_alias(rtype)),
        rtype if !joins_alias(rtype) && has(&|rtype| rtype == Rtype::CNAME) => true,
        // RFC 6672 §2.3.
        Rtype::NS => *line.owner != *apex().wire() && has(&|rtype| rtype == Rtype::DNAME),
        Rtype::DNAME => *line.owner != *apex().wire() && has(&|rtype| rtype == Rtype::NS),
        _ => false,
    };
    if is_barred {
        return;
    }
    if matches!(line.rtype, Rtype::SOA | Rtype::CNAME | Rtype::DNAME) {
        zone.retain(|one| !one.is_of(line));
    }
    let set = zone.iter_mut().filter(|one| one.is_of(line));
    set.for_each(|one| one.ttl_secs = line.ttl_secs);
    if !zone.iter().any(|one| one.is_same(line)) {
        zone.push(line.clone());
    }
}

/// Returns the records of a zone in a fixed order.
fn sorted(mut lines: Vec<Line>) -> Vec<Line> {
    lines.sort_by(|a, b| {
        let names = (&a.owner, a.rtype.0).cmp(&(&b.owner, b.rtype.0));
        names.then_with(|| compare_rdata(a.rtype.0, &a.rdata, &b.rdata))
    });
    lines
}

fn assert_same(found: &HostedZone, expected: Vec<Line>) {
    let (found, expected) = (sorted(lines_of(found)), sorted(expected));
    let is_equal =
        |(one, other): (&Line, &Line)| one.is_same(other) && one.ttl_secs == other.ttl_secs;
    let is_same = found.len() == expected.len() && found.iter().zip(&expected).all(is_equal);
    assert!(is_same, "{found:#?}\nexpected {expected:#?}");
}

/// Reads a message as an update, checks the update and applies it.
pub(crate) fn update(message: &[u8]) {
    let update = match ZoneUpdate::read(message) {
        Ok(update) => update,
        Err(rcode) => return assert!(matches!(rcode, Rcode::FORMERR | Rcode::NOTAUTH)),
    };
    let zone = zone();
    let [wanted, edits_written] = written(message);
    assert_eq!(update.edited().count(), edits_written.len());
    let mut edits = ZoneEdits::of(&zone);
    if let Err(rcode) = update.check_work(&edits) {
        assert!(rcode == Rcode::REFUSED && wanted.len() + edits_written.len() > 700);
        return;
    }
    let mut model = lines_of(&zone);
    assert_eq!(update.check_prerequisites(&edits), prerequisites(&model, &wanted));
    assert_eq!(update.check_edits(&edits, &|_| true), prescan(&edits_written));
    assert!(edits.is_without_effect(), "a check changed the zone");
    let is_made = prescan(&edits_written).is_ok() && prerequisites(&model, &wanted).is_ok();
    if !is_made {
        return;
    }
    update.apply(&mut edits);
    edits_written.iter().for_each(|one| edit(&mut model, one));
    remove_stray_ds(&mut model, &edits_written);
    let Ok(after) = edits.finish(0) else { return };
    assert!(after.soa().is_some());
    // The TTL of a signature is that of the RRset that it covers.
    if !edits_written.iter().any(|one| one.line.rtype == Rtype::RRSIG) {
        assert_same(&after, model);
    }
    check_history(&zone, after);
}

/// Checks that the text of a version, and the changes from the version before, both lead to this
/// version.
fn check_history(before: &HostedZone, after: HostedZone) {
    let text = after.text();
    let mut open = |_: &Path, _: u64| Ok(text.clone().into_bytes());
    let (again, faults) = avocet_zone::load(apex(), Path::new("zone"), 0, &mut open);
    let again = again.unwrap_or_else(|| panic!("{:?}\n{text}", faults.list()));
    assert_eq!(again.version(), after.version(), "{text}");
    let after = after.following(before, 0);
    let mut edits = ZoneEdits::of(before);
    if let Some(change) = after.changes().first() {
        edits.apply(change).expect("a change of this version");
        let made = edits.finish(0).expect("the version that the change leads to");
        assert_eq!(made.version(), after.version());
    }
}
