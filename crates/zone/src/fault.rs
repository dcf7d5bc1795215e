//! Errors and warnings about a zone, each with its place in a file.

use std::fmt;
use std::path::{Path, PathBuf};

use avocet_dnssec::zonemd;
use avocet_wire::master::MasterError;
use avocet_wire::{NameBuf, Rtype};
use thiserror::Error;

use crate::provided::SourceProblem;
use crate::tree::{MAX_SET_OCTETS, MAX_SIGNABLE_OCTETS};

/// Maximum number of faults that are listed. A file with more faults is probably not a zone file.
pub const MAX_FAULTS: usize = 100;

/// A problem with a record, a name or a zone.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ZoneProblem {
    /// The entry is not a valid record.
    #[error("{}", shown(.0))]
    Master(MasterError),
    /// The file cannot be read. Contains the reason that the operating system gives.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// Files include one another too deeply. Contains the maximum depth.
    #[error("$INCLUDE is nested more than {0} deep")]
    IncludedTooDeep(usize),
    /// The files of the zone include more files than the limit.
    #[error("the zone includes more than {0} files")]
    TooManyIncludes(u32),
    /// An entry of a source in another format is not valid.
    #[error("{0}")]
    Source(SourceProblem),
    /// The files together are larger than the limit, in octets.
    #[error("the zone's files have more than {0} octets")]
    TooManyOctets(u64),
    /// The zone has more records than the limit.
    #[error("the zone has more than {0} records")]
    TooManyRecords(u32),
    /// The zone does not fit into the 32-bit offsets of its tree.
    #[error("the zone takes more than 4 GiB of memory")]
    TooLarge,
    /// The class of a record is not IN.
    #[error("the class is not IN")]
    Class,
    /// The owner is not in the zone, so the record is ignored.
    #[error("{0} is not in the zone; the record is ignored")]
    OutOfZone(NameBuf),
    /// The apex has no SOA record.
    #[error("the zone has no SOA record")]
    NoSoa,
    /// An SOA record is not at the apex.
    #[error("the SOA record is at {0}, which is not the zone's name")]
    SoaBelowApex(NameBuf),
    /// The apex has several SOA records.
    #[error("the zone has more than one SOA record")]
    SecondSoa,
    /// The apex has no NS records.
    #[error("the zone has no NS records at its name")]
    NoNs,
    /// A name has a CNAME and other records (RFC 1034 §3.6.2).
    #[error("{0} has a CNAME record and other records (RFC 1034 §3.6.2)")]
    CnameAndOther(NameBuf),
    /// A name other than the apex has NS and DNAME records (RFC 6672 §2.3).
    #[error("{0} has NS and DNAME records, which only the apex may have (RFC 6672 §2.3)")]
    NsAndDname(NameBuf),
    /// A name has several records of a type of which only one is permitted.
    #[error("{0} has more than one {1} record")]
    Several(NameBuf, Rtype),
    /// The target of an ALIAS record is its own name.
    #[error("{0} has an ALIAS record that leads to itself")]
    AliasOfItself(NameBuf),
    /// A zone with ALIAS records was signed by another server.
    #[error(
        "{0} has an ALIAS record, and the zone was signed elsewhere: its addresses could not be \
         signed; leave out the signatures, and let this server sign it: sign"
    )]
    AliasOfSigned(NameBuf),
    /// A zone with ALIAS records must not be transferred to other servers.
    #[error("{0} has an ALIAS record, so that transfers are refused: transfer-alias")]
    AliasNotTransferred(NameBuf),
    /// A wildcard has records of a type that is not permitted there (RFC 4592 §4).
    #[error("{0} is a wildcard and has {1} records, which has no defined meaning (RFC 4592 §4)")]
    WildcardType(NameBuf, Rtype),
    /// The target of a record is in the zone, but has no address.
    #[error("the target {1} of the {0} record has neither A nor AAAA records in the zone")]
    NoAddress(Rtype, NameBuf),
    /// The target of a record is an alias (RFC 2181 §10.3).
    #[error("the target {1} of the {0} record is an alias (RFC 2181 §10.3)")]
    TargetIsAlias(Rtype, NameBuf),
    /// A delegation has a name server below itself, and no address for it.
    #[error("the name server {0} is below its delegation and has no glue")]
    NoGlue(NameBuf),
    /// A record is below a delegation or a DNAME record, so no answer contains it.
    #[error("{0} is below {1} and is never an answer")]
    Occluded(NameBuf, Box<NameBuf>),
    /// A name has DS records, but is not delegated.
    #[error("{0} has DS records and is not a delegation")]
    DsWithoutDelegation(NameBuf),
    /// The records of an RRset have different TTLs (RFC 2181 §5.2).
    #[error("the TTL differs from that of other {0} records of {1}; the lowest is used")]
    OtherTtl(Rtype, NameBuf),
    /// An RRset with its signatures is too large for a message.
    #[error(
        "the {0} records of {1} and their signatures have more than {max} octets",
        max = MAX_SET_OCTETS
    )]
    RrsetTooLarge(Rtype, NameBuf),
    /// An RRset of a zone that is to be signed would be too large for a message with its
    /// signatures.
    #[error(
        "the {0} records of {1} have more than {max} octets, so that they cannot be signed",
        max = MAX_SIGNABLE_OCTETS
    )]
    NoRoomToSign(Rtype, NameBuf),
    /// A name has records of too many types.
    #[error("{0} has records of more than 255 types")]
    TooManyTypes(NameBuf),
    /// A signature has expired.
    #[error("the signature of the {0} records of {1} has expired")]
    Expired(Rtype, NameBuf),
    /// A signature is not yet valid.
    #[error("the signature of the {0} records of {1} is not yet valid")]
    NotYetValid(Rtype, NameBuf),
    /// A signature covers records that do not exist.
    #[error("the signature covers {0} records, but {1} has none")]
    NothingSigned(Rtype, NameBuf),
    /// The signer of a signature is not this zone.
    #[error("the signer {0} is not the zone")]
    Signer(NameBuf),
    /// The zone has signatures, but neither NSEC nor NSEC3 records.
    #[error("the zone is signed, but has neither a complete NSEC nor a complete NSEC3 chain")]
    NoDenial,
    /// The NSEC3 parameters have more iterations than validators accept.
    #[error("NSEC3 with {0} iterations: validators permit {1} (RFC 9276 §3.2)")]
    Iterations(u16, u16),
    /// The digest in the ZONEMD record does not match the zone.
    #[error("{0}")]
    Digest(zonemd::Fault),
    /// The zone should get a ZONEMD record, but it was signed by another server.
    #[error("the zone has signatures, so that no ZONEMD record can be added: zonemd-hash")]
    DigestOfSigned,
}

/// Returns the text of an error without its column, which is shown as part of the place.
fn shown(error: &MasterError) -> String {
    let MasterError::Data(error) = error else { return error.to_string() };
    match error.field {
        Some((number, what)) => format!("field {number} of the data ({what}): {}", error.problem),
        None => format!("the data: {}", error.problem),
    }
}

/// Whether a fault prevents the server from serving the zone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// The zone is served in spite of the fault.
    Warning,
    /// The zone is not served because of the fault.
    Error,
}

/// The place of an entry: the index of its file, the line and the column, both from 1. Line 0 is
/// the whole file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct EntryPlace {
    pub(crate) file: u16,
    pub(crate) line: u32,
    pub(crate) column: u16,
}

/// An error or a warning about a zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ZoneFileFault {
    /// Whether the fault prevents the server from serving the zone.
    pub severity: Severity,
    /// The file with the fault.
    pub file: PathBuf,
    /// The line, from 1; 0 is the whole file.
    pub line: u32,
    /// The column in octets, from 1.
    pub column: u32,
    /// The problem.
    pub reason: ZoneProblem,
}

impl ZoneFileFault {
    /// Returns `FILE:LINE:COLUMN`, or the file alone.
    #[must_use]
    pub fn location(&self) -> String {
        let file = self.file.display();
        if self.line == 0 {
            file.to_string()
        } else {
            format!("{file}:{}:{}", self.line, self.column)
        }
    }
}

impl fmt::Display for ZoneFileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.location())?;
        let severity = if self.severity == Severity::Warning { " warning:" } else { "" };
        write!(f, "{severity} {}", self.reason)
    }
}

/// A fault and the place of the entry that has it.
#[derive(Clone, Debug)]
struct NotedFault {
    severity: Severity,
    place: EntryPlace,
    reason: ZoneProblem,
}

/// All faults of a zone, and the files from which the zone was read.
#[derive(Clone, Default, Debug)]
pub struct Faults {
    files: Vec<PathBuf>,
    found: Vec<NotedFault>,
    /// Number of faults that were not stored because of [`MAX_FAULTS`].
    more: u64,
    errors: u64,
}

impl Faults {
    /// Reports whether a fault prevents the server from serving the zone.
    #[must_use]
    pub const fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Returns the number of errors.
    #[must_use]
    pub const fn errors(&self) -> u64 {
        self.errors
    }

    /// Returns the number of faults that were not stored.
    #[must_use]
    pub const fn more(&self) -> u64 {
        self.more
    }

    /// Returns the faults in the order of their places.
    #[must_use]
    pub fn list(&self) -> Vec<ZoneFileFault> {
        let mut found: Vec<_> = self.found.iter().collect();
        found.sort_by_key(|found| found.place);
        let shown = found.into_iter().map(|NotedFault { severity, place, reason }| ZoneFileFault {
            severity: *severity,
            file: self.files.get(usize::from(place.file)).cloned().unwrap_or_default(),
            line: place.line,
            column: place.column.into(),
            reason: reason.clone(),
        });
        shown.collect()
    }

    /// Adds a file to the list of files, and returns its index.
    pub(crate) fn open(&mut self, file: &Path) -> u16 {
        let known = self.files.iter().position(|known| known == file);
        known.unwrap_or_else(|| {
            self.files.push(file.to_owned());
            self.files.len() - 1
        }) as u16
    }

    pub(crate) fn error(&mut self, place: EntryPlace, reason: ZoneProblem) {
        self.errors += 1;
        self.note(Severity::Error, place, reason);
    }

    pub(crate) fn warn(&mut self, place: EntryPlace, reason: ZoneProblem) {
        self.note(Severity::Warning, place, reason);
    }

    /// Adds a fault of a whole zone, which was read from this file.
    pub fn add(&mut self, severity: Severity, file: &Path, reason: ZoneProblem) {
        let place = EntryPlace { file: self.open(file), ..EntryPlace::default() };
        match severity {
            Severity::Error => self.error(place, reason),
            Severity::Warning => self.warn(place, reason),
        }
    }

    fn note(&mut self, severity: Severity, place: EntryPlace, reason: ZoneProblem) {
        let is_full = self.found.len() >= MAX_FAULTS;
        self.more += u64::from(is_full);
        let of_warning = |found: &NotedFault| found.severity == Severity::Warning;
        match self.found.iter().rposition(of_warning) {
            _ if !is_full => self.found.push(NotedFault { severity, place, reason }),
            // If the list is full, an error replaces a warning.
            Some(at) if severity == Severity::Error => {
                self.found[at] = NotedFault { severity, place, reason }
            }
            _ => {}
        }
    }
}
