//! Zones whose records come from a source that is not a master file, such as a table of machines.
//!
//! A provider turns the source into entries of a master file, one for each record. Each entry is
//! read separately: it cannot affect others, and a fault is reported with its line in the source.
//! The SOA and NS records come from the source, from a head file (a master file with the rest of
//! the zone), or are generated.

use std::collections::BTreeSet;
use std::path::Path;

use avocet_wire::master::{InheritedTtls, MasterEntry, MasterError, MasterFile, MasterRecord};
use avocet_wire::{Class, FoldedName, NameBuf, Rtype};
use thiserror::Error;

use crate::build::ZoneBuilder;
use crate::fault::{EntryPlace, Faults, ZoneProblem};
use crate::reader::{OpenFile, read};
use crate::serial::with_serial;
use crate::tree::HostedZone;

/// Maximum number of octets of a source, which is enough for about a million records.
pub const MAX_SOURCE_OCTETS: u64 = 64 << 20;

/// A reader of one format of sources.
pub trait ZoneProvider {
    /// Parses the octets of a source, and passes each record to `reading`.
    fn read(&self, source: &[u8], reading: &mut ProvidedReading<'_>);
}

/// A zone whose records come from a source.
#[derive(Clone, Copy)]
pub struct ProvidedSource<'s> {
    /// The name of the zone.
    pub apex: FoldedName<'s>,
    /// The path of the source.
    pub file: &'s Path,
    /// The path of a master file with records that are not in the source.
    pub head: Option<&'s Path>,
    /// The serial of the zone, which replaces the serial in its SOA record.
    pub serial: u32,
    /// The TTL in seconds of records that have none in the source.
    pub ttl_secs: u32,
}

/// A problem with a source or with one of its entries.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SourceProblem {
    /// The source is not UTF-8.
    #[error("the text is not UTF-8")]
    Encoding,
    /// A table does not begin with the names of its columns.
    #[error(
        "a line \"#Fields: MachineFunction,StaticIP,MachineName\" must be before the first row"
    )]
    NoFields,
    /// A table lacks a required column.
    #[error("the line \"#Fields:\" has no column {0}")]
    NoColumn(&'static str),
    /// A row has fewer fields than the table has columns.
    #[error("the row has {found} fields instead of {expected}")]
    Fields {
        /// Number of columns of the table.
        expected: usize,
        /// Number of fields of the row.
        found: usize,
    },
    /// A quoted field does not end.
    #[error("a quote is not closed on its line")]
    OpenQuote,
    /// A field should be an IP address.
    #[error("\"{0}\" is not an IP address")]
    Address(String),
    /// A field should be a host name.
    #[error("\"{0}\" is not a host name")]
    HostName(String),
    /// A row has neither a machine function nor a machine name.
    #[error("the row has neither a function nor a machine")]
    Nameless,
    /// A line of a lease file is broken. Contains the reason.
    #[error("{0}")]
    Lease(&'static str),
    /// A lease file has no leases.
    #[error("the file has no leases")]
    NoLeases,
    /// The JSON text does not have the expected structure.
    #[error(
        "expected {{\"rrsets\": [{{\"name\", \"type\", \"ttl\", \"records\": \
         [{{\"content\"}}]}}]}}: {0}"
    )]
    Json(String),
    /// The JSON text has no record that is in use.
    #[error("it has no records; for a zone without other names, give it its SOA record")]
    NoRecords,
    /// A record is malformed.
    #[error("the record \"{0}\" is malformed")]
    Record(String),
    /// A record is refused by the reader of master files.
    #[error("the record \"{entry}\": {error}")]
    Entry {
        /// The start of the record.
        entry: String,
        /// The error.
        error: MasterError,
    },
}

/// The zone that a provider is filling.
pub struct ProvidedReading<'r> {
    source: &'r ProvidedSource<'r>,
    origin: NameBuf,
    file: u16,
    faults: &'r mut Faults,
    builder: ZoneBuilder,
    record: MasterRecord,
    /// The owners in the head file, folded.
    fixed: BTreeSet<Box<[u8]>>,
    has_soa: bool,
    has_ns: bool,
}

/// Reads and checks a zone from a source. Returns all faults, and the zone if it has no errors.
///
/// `open` reads a file. `now_secs` is the Unix time at which the dates of signatures are checked.
#[must_use]
pub fn load_provided(
    source: &ProvidedSource<'_>,
    provider: &dyn ZoneProvider,
    now_secs: u64,
    open: OpenFile<'_>,
) -> (Option<HostedZone>, Faults) {
    let mut faults = Faults::default();
    let file = faults.open(source.file);
    let mut reading = ProvidedReading {
        source,
        origin: NameBuf::from_wire(source.apex.wire()).unwrap_or(NameBuf::ROOT),
        file,
        faults: &mut faults,
        builder: ZoneBuilder::new(source.apex),
        record: MasterRecord::empty(),
        fixed: BTreeSet::new(),
        has_soa: false,
        has_ns: false,
    };
    reading.read(provider, open);
    let ProvidedReading { builder, .. } = reading;
    let zone = builder.finish(now_secs, EntryPlace { file, ..EntryPlace::default() }, &mut faults);
    (zone, faults)
}

impl ProvidedReading<'_> {
    fn read(&mut self, provider: &dyn ZoneProvider, open: OpenFile<'_>) {
        if let Some(head) = self.source.head {
            self.read_head(head, open);
        }
        match open(self.source.file, MAX_SOURCE_OCTETS) {
            Ok(source) => provider.read(&source, self),
            Err(error) => {
                self.faults.error(self.place(0), ZoneProblem::Unreadable(error.to_string()));
            }
        }
        let ttl_secs = self.source.ttl_secs;
        if !self.has_soa {
            let soa = format!("@ {ttl_secs} SOA localhost. nobody.invalid. 1 3600 600 604800 300");
            self.entry(0, &soa);
        }
        if !self.has_ns {
            self.entry(0, &format!("@ {ttl_secs} NS localhost."));
        }
    }

    fn read_head(&mut self, head: &Path, open: OpenFile<'_>) {
        let Self { source, builder, fixed, has_soa, has_ns, .. } = self;
        read(&self.origin, head, open, self.faults, &mut |record, place, faults| {
            fixed.insert(record.owner.wire().into());
            *has_ns |= record.rtype == Rtype::NS && record.owner.wire() == source.apex.wire();
            if record.rtype == Rtype::SOA {
                *has_soa = true;
                let rdata = with_serial(&record.rdata, source.serial);
                let owner = record.owner;
                builder.add(&MasterRecord { rdata, owner, ..*record }, place, faults);
            } else {
                builder.add(record, place, faults);
            }
        });
    }

    /// Returns the source as text. If it is not UTF-8, adds an error and returns `None`.
    pub fn text<'s>(&mut self, source: &'s [u8]) -> Option<&'s str> {
        let text = str::from_utf8(source).ok();
        if text.is_none() {
            self.fault(0, SourceProblem::Encoding);
        }
        text
    }

    /// Returns the name of the zone.
    #[must_use]
    pub const fn apex(&self) -> FoldedName<'_> {
        self.source.apex
    }

    /// Returns the TTL in seconds of records that have none in the source.
    #[must_use]
    pub const fn ttl_secs(&self) -> u32 {
        self.source.ttl_secs
    }

    /// Reports whether the head file has records of a name, which is given in lower-case wire form.
    #[must_use]
    pub fn is_fixed(&self, name: &[u8]) -> bool {
        self.fixed.contains(name)
    }

    /// Adds a record, written as an entry of a master file with a TTL. Names are relative to the
    /// zone. `line` is its line in the source.
    pub fn entry(&mut self, line: u32, entry: &str) {
        let place = self.place(line);
        let ttls = InheritedTtls::default();
        let mut entries = MasterFile::of_zone(entry.as_bytes(), self.origin, ttls);
        let is_record = match entries.read_entry(&mut self.record) {
            Some(Ok(MasterEntry::Record)) => self.record.class == Class::IN,
            Some(Err(fault)) => {
                let entry = shortened(entry);
                return self.fault(line, SourceProblem::Entry { entry, error: fault.error });
            }
            _ => false,
        };
        let mut next = MasterRecord::empty();
        if !is_record || entries.read_entry(&mut next).is_some() {
            return self.fault(line, SourceProblem::Record(shortened(entry)));
        }
        let is_apex = self.record.owner.wire() == self.source.apex.wire();
        self.has_ns |= is_apex && self.record.rtype == Rtype::NS;
        if self.record.rtype == Rtype::SOA {
            self.has_soa = true;
            self.record.rdata = with_serial(&self.record.rdata, self.source.serial);
        }
        self.builder.add(&self.record, place, self.faults);
    }

    /// Adds an error at a line of the source, from 1; 0 is the whole source.
    pub fn fault(&mut self, line: u32, problem: SourceProblem) {
        self.faults.error(self.place(line), ZoneProblem::Source(problem));
    }

    /// Adds a warning about a line of the source, 0 for the whole source.
    pub fn warn(&mut self, line: u32, problem: SourceProblem) {
        self.faults.warn(self.place(line), ZoneProblem::Source(problem));
    }

    fn place(&self, line: u32) -> EntryPlace {
        EntryPlace { file: self.file, line, column: 1 }
    }
}

/// Shortens an entry for an error message.
fn shortened(entry: &str) -> String {
    entry.chars().take(80).collect()
}
