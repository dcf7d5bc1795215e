//! A reader of a zone's master files (RFC 1035 §5). The caller opens the files;
//! [`avocet_wire::master`] parses the entries.

use std::io;
use std::path::{Path, PathBuf};

use avocet_wire::master::{InheritedTtls, MasterEntry, MasterFault, MasterFile, MasterRecord};
use avocet_wire::{Class, NameBuf};

use crate::fault::{EntryPlace, Faults, ZoneProblem};

/// Maximum depth of files that include one another.
pub const MAX_INCLUDE_DEPTH: usize = 16;
/// Maximum number of files of a zone. A file that is included several times counts each time.
const MAX_INCLUDES: u32 = 10_000;
/// Maximum number of octets of all files of a zone: 4 GiB of text are about 60 million records.
pub const MAX_ZONE_TEXT: u64 = 4 << 30;

/// A function that reads a file of at most the given number of octets.
pub type OpenFile<'o> = &'o mut dyn FnMut(&Path, u64) -> io::Result<Vec<u8>>;

/// Reads a zone from its master file and the included files, and passes each record with its place
/// to `take`. An entry with an error is reported and left out.
pub fn read(
    apex: &NameBuf,
    file: &Path,
    open: OpenFile<'_>,
    faults: &mut Faults,
    take: &mut dyn FnMut(&MasterRecord, EntryPlace, &mut Faults),
) {
    let mut reading = Reading {
        open,
        faults,
        take,
        record: MasterRecord::empty(),
        rest: MAX_ZONE_TEXT,
        includes: 0,
        is_full: false,
    };
    let place = EntryPlace { file: reading.faults.open(file), ..EntryPlace::default() };
    reading.file(file, place, *apex, InheritedTtls::default(), 0);
}

struct Reading<'r> {
    open: OpenFile<'r>,
    faults: &'r mut Faults,
    take: &'r mut dyn FnMut(&MasterRecord, EntryPlace, &mut Faults),
    record: MasterRecord,
    /// Number of octets that may still be read from files.
    rest: u64,
    includes: u32,
    is_full: bool,
}

impl Reading<'_> {
    /// Reads one file. `from` is the place of the `$INCLUDE` that names it.
    fn file(
        &mut self,
        path: &Path,
        from: EntryPlace,
        origin: NameBuf,
        ttls: InheritedTtls,
        depth: usize,
    ) -> InheritedTtls {
        let text = match (self.open)(path, self.rest) {
            Ok(text) => text,
            Err(error) => {
                let reason = format!("{}: {error}", path.display());
                let reason = if depth == 0 { error.to_string() } else { reason };
                self.faults.error(from, ZoneProblem::Unreadable(reason));
                return ttls;
            }
        };
        self.rest = self.rest.saturating_sub(text.len() as u64);
        let file = self.faults.open(path);
        let mut entries = MasterFile::of_zone(&text, origin, ttls);
        while !self.is_full
            && let Some(read) = entries.read_entry(&mut self.record)
        {
            let (line, column) = entries.place();
            let place = EntryPlace { file, line, column: narrow(column) };
            match read {
                Ok(MasterEntry::Record) if self.record.class != Class::IN => {
                    self.faults.error(place, ZoneProblem::Class);
                }
                Ok(MasterEntry::Record) => (self.take)(&self.record, place, self.faults),
                Ok(MasterEntry::Include(include)) => {
                    let target = beside(path, &include.path);
                    let ttls = entries.ttls();
                    entries.set_ttls(self.include(&target, place, include.origin, ttls, depth));
                }
                Err(MasterFault { line, column, error }) => {
                    let place = EntryPlace { file, line, column: narrow(column) };
                    self.faults.error(place, ZoneProblem::Master(error));
                }
            }
        }
        entries.ttls()
    }

    fn include(
        &mut self,
        target: &Path,
        from: EntryPlace,
        origin: NameBuf,
        ttls: InheritedTtls,
        depth: usize,
    ) -> InheritedTtls {
        self.includes += 1;
        let reason = if depth + 1 > MAX_INCLUDE_DEPTH {
            ZoneProblem::IncludedTooDeep(MAX_INCLUDE_DEPTH)
        } else if self.includes > MAX_INCLUDES {
            ZoneProblem::TooManyIncludes(MAX_INCLUDES)
        } else if self.rest == 0 {
            ZoneProblem::TooManyOctets(MAX_ZONE_TEXT)
        } else {
            return self.file(target, from, origin, ttls, depth + 1);
        };
        self.faults.error(from, reason);
        // Files that include themselves would otherwise be read without end.
        self.is_full = true;
        ttls
    }
}

fn narrow(column: u32) -> u16 {
    u16::try_from(column).unwrap_or(u16::MAX)
}

/// Returns the path of an included file, which is relative to the directory of the including file.
fn beside(path: &Path, written: &[u8]) -> PathBuf {
    let written = PathBuf::from(String::from_utf8_lossy(written).into_owned());
    path.parent().map_or_else(|| written.clone(), |directory| directory.join(&written))
}
