//! Export of entries for other programs: CSV (RFC 4180), JSON Lines, and Parquet with the columns
//! of a segment.

use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::column::{INT_NAMES, Int, SET_NAMES, Set, TEXT_NAMES, Text};
use crate::date::rfc3339;
use crate::search::{Broken, Filter, LogEntry, LogReader, SearchExtent};
use crate::segment::{GROUP_ROWS, RowGroups, RowSource};

/// Number of entries that an export reads at once.
const PAGE_ENTRIES: usize = 4096;
/// Maximum number of blocks and row groups in one row group of an export. It limits memory, because
/// complete blocks are kept in memory.
const MAX_SOURCES: usize = 64;

/// A format of an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExportFormat {
    /// Comma-separated values with a header line. Sets are separated by spaces. An apostrophe is
    /// put before a text that a spreadsheet would take for a formula.
    Csv,
    /// One JSON object in each line.
    JsonLines,
    /// A file with the columns of a segment, the oldest entry first.
    Parquet,
}

/// The result of an export.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Exported {
    /// Number of entries that were written.
    pub entries: u64,
    /// The files that were skipped, or were read only in part.
    pub broken: Vec<Broken>,
}

/// Writes the entries that `filter` selects. The newest entries come first, except in
/// [`ExportFormat::Parquet`]. Calls `progress` occasionally with the number of entries so far.
///
/// # Errors
/// `out` cannot be written.
pub fn export(
    reader: &LogReader,
    filter: &Filter,
    format: ExportFormat,
    out: &mut dyn Write,
    mut progress: impl FnMut(u64),
) -> io::Result<Exported> {
    if format == ExportFormat::Parquet {
        return parquet(reader, filter, out, progress);
    }
    write_header(format, out)?;
    let mut exported = Exported::default();
    let mut broken = HashSet::new();
    let mut extent =
        SearchExtent { before_id: u64::MAX, entries: PAGE_ENTRIES, max_rows: u64::MAX };
    loop {
        let page = reader.search(filter, extent);
        for entry in &page.entries {
            write_entry(format, entry, out)?;
        }
        exported.entries += page.entries.len() as u64;
        // A page has only the broken files among those that it tried to read.
        broken.extend(page.broken);
        progress(exported.entries);
        match page.next_before_id {
            Some(next) => extent.before_id = next,
            None => {
                exported.broken = broken.into_iter().collect();
                return Ok(exported);
            }
        }
    }
}

/// A queue of the octets that wait for the output of an export.
#[derive(Clone, Default)]
struct UnsentOctets(Arc<Mutex<Vec<u8>>>);

impl UnsentOctets {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass_on(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&std::mem::take(&mut *self.lock()))
    }
}

impl Write for UnsentOctets {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.lock().write(octets)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the entries that `filter` selects as row groups. Only one row group is in memory at a
/// time.
fn parquet(
    reader: &LogReader,
    filter: &Filter,
    out: &mut dyn Write,
    mut progress: impl FnMut(u64),
) -> io::Result<Exported> {
    let unsent = UnsentOctets::default();
    let mut groups = RowGroups::create(unsent.clone())?;
    let mut exported = Exported::default();
    let mut sources: Vec<RowSource> = Vec::new();
    let mut rows = 0;
    let mut write = |sources: &mut Vec<RowSource>, out: &mut dyn Write| {
        if !sources.is_empty() {
            groups.write(sources)?;
            sources.clear();
        }
        unsent.pass_on(out)
    };
    exported.broken = reader.matching(filter, |source| {
        let count = source.len();
        if rows + count > GROUP_ROWS || sources.len() == MAX_SOURCES {
            write(&mut sources, out)?;
            rows = 0;
        }
        rows += count;
        sources.push(source);
        exported.entries += count as u64;
        progress(exported.entries);
        Ok::<_, io::Error>(())
    })?;
    write(&mut sources, out)?;
    groups.finish()?;
    unsent.pass_on(out)?;
    Ok(exported)
}

/// Writes the header line of the format, if it has one.
///
/// # Errors
/// `out` cannot be written, or the format has no lines.
pub fn write_header(format: ExportFormat, out: &mut dyn Write) -> io::Result<()> {
    match format {
        ExportFormat::Csv => {
            let names = INT_NAMES.iter().chain(&TEXT_NAMES).chain(&SET_NAMES);
            let names: Vec<&str> = std::iter::once("id").chain(names.copied()).collect();
            out.write_all(names.join(",").as_bytes())?;
            out.write_all(b"\r\n")
        }
        ExportFormat::JsonLines => Ok(()),
        ExportFormat::Parquet => Err(not_by_line()),
    }
}

/// Writes an entry as one line.
///
/// # Errors
/// `out` cannot be written, or the format has no lines.
pub fn write_entry(format: ExportFormat, entry: &LogEntry, out: &mut dyn Write) -> io::Result<()> {
    match format {
        ExportFormat::Csv => write_csv(entry, out),
        ExportFormat::JsonLines => write_json(entry, out),
        ExportFormat::Parquet => Err(not_by_line()),
    }
}

fn not_by_line() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "Parquet stores entries by column")
}

fn write_csv(entry: &LogEntry, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{}", entry.id)?;
    for int in Int::ALL {
        out.write_all(b",")?;
        match (int, entry.int(int)) {
            (Int::Time, Some(time)) => write!(out, "{}", rfc3339(time))?,
            (_, Some(value)) => write!(out, "{value}")?,
            (_, None) => {}
        }
    }
    let texts = Text::ALL.map(|text| entry.text(text).to_owned());
    let sets = Set::ALL.map(|set| entry.set(set).join(" "));
    for text in texts.iter().chain(&sets) {
        out.write_all(b",")?;
        write_cell(text, out)?;
    }
    out.write_all(b"\r\n")
}

/// Writes a cell. Clients choose names freely, so an apostrophe is put before a text that a
/// spreadsheet would take for a formula.
fn write_cell(text: &str, out: &mut dyn Write) -> io::Result<()> {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    if text.contains([',', '"', '\r', '\n']) {
        write!(out, "\"{guard}{}\"", text.replace('"', "\"\""))
    } else {
        write!(out, "{guard}{text}")
    }
}

fn write_json(entry: &LogEntry, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{{\"id\":{}", entry.id)?;
    for int in Int::ALL {
        write!(out, ",\"{}\":", INT_NAMES[int as usize])?;
        match (int, entry.int(int)) {
            (Int::Time, Some(time)) => write!(out, "\"{}\"", rfc3339(time))?,
            (_, Some(value)) => write!(out, "{value}")?,
            (_, None) => out.write_all(b"null")?,
        }
    }
    for text in Text::ALL {
        write!(out, ",\"{}\":", TEXT_NAMES[text as usize])?;
        write_string(entry.text(text), out)?;
    }
    for set in Set::ALL {
        write!(out, ",\"{}\":[", SET_NAMES[set as usize])?;
        for (place, text) in entry.set(set).iter().enumerate() {
            if place > 0 {
                out.write_all(b",")?;
            }
            write_string(text, out)?;
        }
        out.write_all(b"]")?;
    }
    out.write_all(b"}\n")
}

/// Writes a JSON string (RFC 8259 §7).
fn write_string(text: &str, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"\"")?;
    for piece in text.split_inclusive(is_special) {
        match piece.chars().next_back().filter(|last| is_special(*last)) {
            None => out.write_all(piece.as_bytes())?,
            Some(last) => {
                out.write_all(&piece.as_bytes()[..piece.len() - last.len_utf8()])?;
                match last {
                    '"' | '\\' => write!(out, "\\{last}")?,
                    _ => write!(out, "\\u{:04x}", u32::from(last))?,
                }
            }
        }
    }
    out.write_all(b"\"")
}

fn is_special(character: char) -> bool {
    // Terminals also interpret the control characters from 0x7f to 0x9f.
    matches!(character, '"' | '\\' | '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_quoted_and_is_no_formula() {
        let check = |text: &str, expected: &str| {
            let mut out = Vec::new();
            write_cell(text, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check("a.example.", "a.example.");
        check("a,\"b", "\"a,\"\"b\"");
        check("=HYPERLINK(\"x\",1).example.", "\"'=HYPERLINK(\"\"x\"\",1).example.\"");
        for text in ["=1", "+1", "-1.example.", "@a", "\tb"] {
            check(text, &format!("'{text}"));
        }
    }

    #[test]
    fn strings_are_escaped() {
        let check = |text: &str, expected: &str| {
            let mut out = Vec::new();
            write_string(text, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        };
        check("", r#""""#);
        check("a.example.", r#""a.example.""#);
        check("a\"b\\c\nd", r#""a\"b\\c\u000ad""#);
        check("é\u{1f}", "\"é\\u001f\"");
        check("\u{7f}\u{9b}", "\"\\u007f\\u009b\"");
    }
}
