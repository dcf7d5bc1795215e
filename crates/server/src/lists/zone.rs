//! The transfer of a response policy zone (AXFR, RFC 5936; IXFR, RFC 1995) from its primaries to
//! the text of a master file. The text is read like that of any other list.
//!
//! ```text
//! SOA of a primary -- same serial --> the copy is the latest version
//!       |    older serial: the next primary
//!       +-- newer --> IXFR, applied to the records of the copy --> text
//!                       | not possible
//!                       +-> AXFR ---------------------------------> text
//! ```

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use avocet_config::Config;
use avocet_config::list_source::TransferredList;
use avocet_config::name::shown;
use avocet_config::primary::Primary;
use avocet_resolver::Timers;
use avocet_wire::master::MasterFile;
use avocet_wire::{FoldedName, NameBuf, Rtype, rdata};
use avocet_zone::{HostedRecord, append_line, is_newer};

use super::fetch::MAX_LIST_BYTES;
use crate::transfer::{
    ReceivedChanges, TransferError, TransferLimits, UnverifiedRecord, ZoneSource,
};
use avocet_worker::certificates::CertificateFault;
use avocet_worker::upstream_tls;

/// The bounds of a transfer: four million rules are more than any feed has. Until the records are
/// compiled, they take several times the octets of the text.
const LIMITS: TransferLimits =
    TransferLimits { octets: 512 << 20, records: 4 << 20, time: Duration::from_secs(300) };

/// The primaries of a list's zone.
pub(crate) struct ZonePrimaries<'c> {
    pub(crate) list: &'c TransferredList,
    /// The configuration, which has the keys.
    pub(crate) config: &'c Config,
    /// A function that returns whether the server is shutting down.
    pub(crate) is_closed: &'c dyn Fn() -> bool,
}

/// The result of a transfer.
pub(crate) enum FetchedZone {
    /// The copy is already the latest version.
    Same(Timers),
    /// The text of another version.
    Text(Vec<u8>, Timers),
}

/// The text of a copy, with its version. The records are parsed only when changes are applied to
/// them.
pub(crate) struct HeldCopy<'t> {
    text: &'t [u8],
    timers: Timers,
    /// The data of the SOA record.
    soa: Box<[u8]>,
}

/// The zone of a copy, with its records.
struct HeldZone {
    timers: Timers,
    records: HeldRecords,
}

/// The TTL of each record, by owner, type and data.
type HeldRecords = BTreeMap<RecordKey, u32>;

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct RecordKey {
    owner: Box<[u8]>,
    rtype: Rtype,
    rdata: Box<[u8]>,
}

/// The problem of each primary.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UnusablePrimaries(String);

/// The reason why a primary is not usable.
#[derive(Debug, thiserror::Error)]
enum PrimaryFault {
    #[error("{0}")]
    Transfer(TransferError),
    #[error("{0}")]
    Tls(#[from] CertificateFault),
    #[error("its serial {theirs} is older than {ours}, which is in force: not followed")]
    Older { theirs: u32, ours: u32 },
    #[error("the data of a record of type {0} is malformed")]
    Malformed(Rtype),
    #[error("the zone takes more than {MAX_LIST_BYTES} octets as text")]
    TooLong,
}

impl From<TransferError> for PrimaryFault {
    fn from(error: TransferError) -> Self {
        Self::Transfer(error)
    }
}

impl RecordKey {
    fn of(line: UnverifiedRecord) -> Self {
        Self { owner: line.owner, rtype: line.rtype, rdata: line.rdata }
    }
}

impl<'t> HeldCopy<'t> {
    /// Reads the first record of a copy. Returns `None` if it is not the SOA record of this zone.
    pub(crate) fn of(text: &'t [u8], apex: FoldedName<'_>) -> Option<Self> {
        let (_, first) = MasterFile::new(text, NameBuf::ROOT).next()?;
        let first = first.ok().filter(|first| first.rtype == Rtype::SOA)?;
        let is_own = *first.owner.folded().view().wire() == *apex.wire();
        let soa: Box<[u8]> = first.rdata.as_slice().into();
        is_own.then_some(Self { text, timers: Timers::of(&soa)?, soa })
    }
}

impl HeldZone {
    /// Reads the text of a copy. Returns `None` if it is not a text of this zone.
    fn read(text: &[u8], apex: FoldedName<'_>) -> Option<Self> {
        let (mut records, mut soa) = (HeldRecords::new(), None::<Box<[u8]>>);
        for (_, record) in MasterFile::new(text, NameBuf::ROOT) {
            let record = record.ok()?;
            let owner: Box<[u8]> = record.owner.folded().view().wire().into();
            let rdata: Box<[u8]> = record.rdata.as_slice().into();
            if record.rtype == Rtype::SOA && *owner == *apex.wire() {
                soa = Some(rdata.clone());
            }
            records.insert(RecordKey { owner, rtype: record.rtype, rdata }, record.ttl_secs);
        }
        Some(Self { timers: Timers::of(&soa?)?, records })
    }

    /// Applies changes (IXFR) to the zone. Returns `None` if they do not lead from this version to
    /// a newer one.
    fn changed(self, lines: Vec<UnverifiedRecord>, apex: FoldedName<'_>) -> Option<Changed> {
        let mut records = self.records;
        let latest: Box<[u8]> = lines.first()?.rdata.clone();
        let (mut is_added, mut serial) = (true, self.timers.serial);
        for line in lines.into_iter().skip(1) {
            if line.rtype == Rtype::SOA && *line.owner == *apex.wire() {
                is_added = !is_added;
                let own = Timers::of(&line.rdata)?.serial;
                // Each step must begin with the version in which the step before ends.
                if !is_added && own != serial {
                    return None;
                }
                serial = own;
            }
            let (ttl_secs, key) = (line.ttl_secs, RecordKey::of(line));
            let is_exact = match is_added {
                true => records.insert(key, ttl_secs).is_none(),
                false => records.remove(&key).is_some(),
            };
            if !is_exact {
                return None;
            }
        }
        let timers = Timers::of(&latest)?;
        let is_latest = serial == timers.serial && is_newer(serial, self.timers.serial);
        is_latest.then_some(Changed { soa: latest, records, timers })
    }
}

/// The records after the changes.
struct Changed {
    soa: Box<[u8]>,
    records: HeldRecords,
    timers: Timers,
}

impl<'c> ZonePrimaries<'c> {
    /// Returns the name of the zone.
    pub(crate) fn apex(&self) -> FoldedName<'c> {
        FoldedName::from_folded_unchecked(&self.list.zone)
    }

    /// Fetches the zone from the first usable primary. If none is usable, returns the problem of
    /// each.
    pub(crate) fn fetch(
        &self,
        held: Option<&HeldCopy<'_>>,
    ) -> Result<FetchedZone, UnusablePrimaries> {
        let (mut faults, began) = (Vec::new(), Instant::now());
        for primary in &self.list.primaries.servers {
            let time = LIMITS.time.saturating_sub(began.elapsed());
            if time.is_zero() {
                faults.push(format!("{}: not asked, for lack of time", primary.shown()));
                continue;
            }
            match self.ask(primary, held, TransferLimits { time, ..LIMITS }) {
                Ok(fetched) => return Ok(fetched),
                Err(fault) => faults.push(format!("{}: {fault}", primary.shown())),
            }
        }
        Err(UnusablePrimaries(faults.join(", ")))
    }

    fn ask(
        &self,
        primary: &Primary,
        held: Option<&HeldCopy<'_>>,
        limits: TransferLimits,
    ) -> Result<FetchedZone, PrimaryFault> {
        let key = self.list.primaries.key_for(primary);
        let source = ZoneSource {
            primary: primary.server,
            tls: upstream_tls::of_primary(&self.list.primaries, primary)?,
            apex: self.apex(),
            key: key.and_then(|name| self.config.key(name)),
            limits,
            share: None,
            is_closed: self.is_closed,
        };
        let theirs = source.timers()?;
        let Some(held) = held else { return self.whole(primary, source.zone()?, None) };
        let ours = held.timers.serial;
        if theirs.serial == ours {
            return Ok(FetchedZone::Same(theirs));
        }
        if !is_newer(theirs.serial, ours) {
            return Err(PrimaryFault::Older { theirs: theirs.serial, ours });
        }
        match source.changes(&held.soa) {
            Ok(ReceivedChanges::Changes(lines)) => {
                let zone = HeldZone::read(held.text, self.apex());
                if let Some(changed) = zone.and_then(|zone| zone.changed(lines, self.apex())) {
                    let fetched = changed.fetched(self.apex())?;
                    self.tell(primary, theirs.serial, "the changes of a list's zone");
                    return Ok(fetched);
                }
            }
            Ok(ReceivedChanges::Whole(lines)) => return self.whole(primary, lines, Some(ours)),
            Ok(ReceivedChanges::Latest)
            | Err(TransferError::Refused(_) | TransferError::Malformed) => {}
            Err(error) => return Err(error.into()),
        }
        self.whole(primary, source.zone()?, Some(ours))
    }

    fn whole(
        &self,
        primary: &Primary,
        lines: Vec<UnverifiedRecord>,
        ours: Option<u32>,
    ) -> Result<FetchedZone, PrimaryFault> {
        let fetched = whole(lines, self.apex())?;
        if let FetchedZone::Text(_, timers) = &fetched {
            // The serial is checked again, because another server may answer at the same address
            // with an older version.
            if let Some(ours) = ours.filter(|ours| !is_newer(timers.serial, *ours)) {
                return Err(PrimaryFault::Older { theirs: timers.serial, ours });
            }
            self.tell(primary, timers.serial, "a list's zone");
        }
        Ok(fetched)
    }

    fn tell(&self, primary: &Primary, serial: u32, what: &str) {
        let (zone, primary) = (shown(&self.list.zone), primary.shown());
        tracing::info!(zone, primary, serial, "{what} transferred");
    }
}

/// Returns the text of a whole zone.
fn whole(lines: Vec<UnverifiedRecord>, apex: FoldedName<'_>) -> Result<FetchedZone, PrimaryFault> {
    let soa = lines.first().map(|soa| soa.rdata.clone()).ok_or(TransferError::Malformed)?;
    let timers = Timers::of(&soa).ok_or(TransferError::Malformed)?;
    let records = lines.into_iter().map(|line| (line.ttl_secs, RecordKey::of(line)));
    let records = records.map(|(ttl_secs, key)| (key, ttl_secs)).collect();
    Changed { soa, records, timers }.fetched(apex)
}

impl Changed {
    /// Returns the text. The SOA record is first, because its owner is the origin of the policy
    /// zone.
    fn fetched(self, apex: FoldedName<'_>) -> Result<FetchedZone, PrimaryFault> {
        let is_first = |key: &RecordKey| key.rtype == Rtype::SOA && *key.owner == *apex.wire();
        let first = RecordKey { owner: apex.wire().into(), rtype: Rtype::SOA, rdata: self.soa };
        let ttl_secs = self.records.get(&first).copied().unwrap_or_default();
        let rest = self.records.iter().filter(|(key, _)| !is_first(key));
        let mut text = String::new();
        for (key, ttl_secs) in [(&first, &ttl_secs)].into_iter().chain(rest) {
            if rdata::check(key.rtype.0, &key.rdata).is_err() {
                return Err(PrimaryFault::Malformed(key.rtype));
            }
            let record = HostedRecord { rtype: key.rtype, ttl_secs: *ttl_secs, rdata: &key.rdata };
            append_line(&mut text, FoldedName::from_folded_unchecked(&key.owner), &record);
            if text.len() as u64 > MAX_LIST_BYTES {
                return Err(PrimaryFault::TooLong);
            }
        }
        Ok(FetchedZone::Text(text.into_bytes(), self.timers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APEX: FoldedName<'static> = FoldedName::from_folded_unchecked(b"\x03rpz\0");
    const TEXT: &[u8] = b"rpz. 60 IN SOA . . 1 2 3 4 5\nrpz. 60 IN NS localhost.\n\
                          bad.test.rpz. 60 IN CNAME .\nother.test.rpz. 60 IN CNAME .\n";

    fn soa(serial: u8) -> UnverifiedRecord {
        let numbers = [u32::from(serial), 2, 3, 4, 5].map(u32::to_be_bytes).concat();
        line(b"\x03rpz\0", Rtype::SOA, &[&[0, 0][..], &numbers].concat())
    }

    fn line(owner: &[u8], rtype: Rtype, rdata: &[u8]) -> UnverifiedRecord {
        UnverifiedRecord { owner: owner.into(), rtype, ttl_secs: 60, rdata: rdata.into() }
    }

    fn rule(host: &str) -> UnverifiedRecord {
        let owner = [&[host.len() as u8], host.as_bytes(), b"\x04test\x03rpz\0"].concat();
        line(&owner, Rtype::CNAME, &[0])
    }

    fn check(lines: Vec<UnverifiedRecord>, expected: Option<&str>) {
        let held = HeldZone::read(TEXT, APEX).unwrap();
        let changed = held.changed(lines, APEX).map(|changed| match changed.fetched(APEX) {
            Ok(FetchedZone::Text(text, _)) => String::from_utf8(text).unwrap(),
            _ => panic!("no text"),
        });
        assert_eq!(changed.as_deref(), expected);
    }

    #[test]
    fn exact_changes_lead_to_the_text_of_the_next_version() {
        let head = "rpz. 60 IN SOA . . 3 2 3 4 5\n";
        let rest = "rpz. 60 IN NS localhost.\nother.test.rpz. 60 IN CNAME .\n";
        let new = "new.test.rpz. 60 IN CNAME .\n";
        let after = format!("{head}{new}{rest}");
        let lines = |text: &str| {
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines[1..].sort();
            lines.join("\n") + "\n"
        };
        let steps = || vec![soa(3), soa(1), rule("bad"), soa(2), soa(2), soa(3), rule("new")];
        let held = HeldZone::read(TEXT, APEX).unwrap();
        let changed = held.changed(steps(), APEX).unwrap();
        let Ok(FetchedZone::Text(text, timers)) = changed.fetched(APEX) else { panic!("no text") };
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with(head), "{text}");
        assert_eq!((lines(&text), timers.serial), (lines(&after), 3));
        assert_eq!(HeldZone::read(text.as_bytes(), APEX).unwrap().timers.serial, 3);
    }

    #[test]
    fn other_changes_are_not_applied() {
        check(vec![soa(2), soa(1), rule("nobody"), soa(2)], None);
        check(vec![soa(2), soa(1), soa(2), rule("bad")], None);
        check(vec![soa(3), soa(2), soa(3)], None);
        check(vec![soa(3), soa(1), soa(2)], None);
        check(vec![soa(1), soa(1), soa(1)], None);
        assert!(HeldZone::read(b"other. 60 IN SOA . . 1 2 3 4 5\n", APEX).is_none());
        assert!(HeldZone::read(b"no zone", APEX).is_none());
        assert_eq!(HeldCopy::of(TEXT, APEX).unwrap().timers.serial, 1);
        for other in [&b"other. 60 IN SOA . . 1 2 3 4 5\n"[..], b"rpz. 60 IN NS a.\n", b"(", b""] {
            assert!(HeldCopy::of(other, APEX).is_none());
        }
    }

    #[test]
    fn a_zone_with_malformed_data_has_no_text() {
        let lines = vec![soa(2), line(b"\x01a\x03rpz\0", Rtype::A, &[1, 2, 3])];
        assert!(matches!(whole(lines, APEX), Err(PrimaryFault::Malformed(Rtype::A))));
    }
}
