//! Edits the text of a master file after a change of its zone: removes and inserts the lines of
//! single records. All other text stays as it is, with comments.
//!
//! The new text is used only if a reader finds exactly the records of the zone in it. So an edit
//! that goes wrong can lose comments, but never records.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use avocet_wire::canonical::compare_rdata;
use avocet_wire::master::{InheritedTtls, MasterEntry, MasterFile, MasterRecord};
use avocet_wire::{Class, FoldedName, NameBuf, Rtype};

use crate::change::ZoneChange;
use crate::serial::with_serial;
use crate::text::append_line;
use crate::tree::{HostedRecord, HostedZone};

/// The lines of one record in the text.
struct RecordLines {
    /// The first line, from 0.
    start: usize,
    /// The line after the last one.
    end: usize,
    owner: NameBuf,
    rtype: Rtype,
    fate: Fate,
}

/// The effect of a change on an entry of the text.
enum Fate {
    Stays,
    /// The entry is the SOA record, and only its serial changes. Contains the old and the new
    /// serial.
    Serial(u32, u32),
    Goes,
}

/// Edits the text of a master file so that it has exactly the records of a zone, and keeps the
/// comments of records that stay. Returns `None` if the text has `$INCLUDE`, `$GENERATE` or errors,
/// or if the edited text would not have these records.
#[must_use]
pub fn retouched(text: &str, zone: &HostedZone, now_secs: u64) -> Option<String> {
    let before = read(text, zone.apex(), now_secs)?;
    let lines: Vec<&str> = text.lines().collect();
    let entries = entries(text, &lines, zone)?;
    let change = ZoneChange::difference(&before, zone, usize::MAX)?;
    let mut added = Added::default();
    for one in change.added.iter() {
        let is_serial = one.record.rtype == Rtype::SOA
            && entries.iter().any(|entry| matches!(entry.fate, Fate::Serial(..)));
        if !is_serial {
            added.put(one.owner, &one.record);
        }
    }
    let text = assembled(&lines, &entries, added);
    let after = read(&text, zone.apex(), now_secs)?;
    (after.version() == zone.version()).then_some(text)
}

fn read(text: &str, apex: FoldedName<'_>, now_secs: u64) -> Option<HostedZone> {
    // Only the first file is opened: a text that includes other files is not edited.
    let mut rest = Some(text.as_bytes().to_vec());
    let mut open =
        |_: &Path, _: u64| rest.take().ok_or_else(|| std::io::ErrorKind::NotFound.into());
    crate::load(apex, Path::new(""), now_secs, &mut open).0
}

/// Finds the entries of the text that are records, in their order.
fn entries(text: &str, lines: &[&str], zone: &HostedZone) -> Option<Vec<RecordLines>> {
    let origin = NameBuf::from_wire(zone.apex().wire()).ok()?;
    let mut file = MasterFile::of_zone(text.as_bytes(), origin, InheritedTtls::default());
    let (mut record, mut entries) = (MasterRecord::empty(), Vec::<RecordLines>::new());
    while let Some(read) = file.read_entry(&mut record) {
        let start = file.line().checked_sub(1)? as usize;
        let is_one = entries.last().is_none_or(|last| last.end <= start);
        if !matches!(read, Ok(MasterEntry::Record)) || record.class != Class::IN || !is_one {
            return None;
        }
        let end = start + entry_lines(lines.get(start..)?)?;
        let (owner, rtype, fate) = (record.owner, record.rtype, fate(&record, zone));
        entries.push(RecordLines { start, end, owner, rtype, fate });
    }
    Some(entries)
}

fn fate(record: &MasterRecord, zone: &HostedZone) -> Fate {
    let set = zone.node(record.owner.wire()).and_then(|node| node.set(record.rtype));
    let mut same = set.iter().flat_map(|set| set.iter()).filter(|one| {
        one.ttl_secs == record.ttl_secs
            && (compare_rdata(record.rtype.0, one.rdata, &record.rdata).is_eq()
                || record.rtype == Rtype::SOA
                    && with_serial(one.rdata, 0) == with_serial(&record.rdata, 0))
    });
    let serial = |rdata: &[u8]| {
        let at = rdata.len().checked_sub(20)?;
        rdata[at..].first_chunk().map(|octets| u32::from_be_bytes(*octets))
    };
    match (same.next(), record.rtype) {
        (None, _) => Fate::Goes,
        (Some(soa), Rtype::SOA) => match (serial(&record.rdata), serial(soa.rdata)) {
            (Some(before), Some(after)) if before != after => Fate::Serial(before, after),
            _ => Fate::Stays,
        },
        (Some(_), _) => Fate::Stays,
    }
}

/// Returns the number of lines of the first entry: it continues until all parentheses are closed.
fn entry_lines(lines: &[&str]) -> Option<usize> {
    let (mut depth, mut is_quoted) = (0_usize, false);
    for (at, line) in lines.iter().enumerate() {
        let mut octets = line.bytes();
        while let Some(octet) = octets.next() {
            match octet {
                b'\\' => drop(octets.next()),
                b'"' => is_quoted = !is_quoted,
                b';' if !is_quoted => break,
                b'(' if !is_quoted => depth += 1,
                b')' if !is_quoted => depth = depth.checked_sub(1)?,
                _ => {}
            }
        }
        if depth == 0 && !is_quoted {
            return Some(at + 1);
        }
    }
    None
}

/// Returns the comment at the end of a line, with its semicolon.
fn comment(line: &str) -> Option<&str> {
    let mut is_quoted = false;
    let mut octets = line.bytes().enumerate();
    while let Some((at, octet)) = octets.next() {
        match octet {
            b'\\' => drop(octets.next()),
            b'"' => is_quoted = !is_quoted,
            b';' if !is_quoted => return line.get(at..),
            _ => {}
        }
    }
    None
}

/// The lines that must be added, by owner and type.
#[derive(Default)]
struct Added(BTreeMap<Vec<u8>, BTreeMap<Rtype, VecDeque<String>>>);

impl Added {
    fn put(&mut self, owner: FoldedName<'_>, record: &HostedRecord<'_>) {
        let mut line = String::new();
        append_line(&mut line, owner, record);
        let types = self.0.entry(owner.wire().to_vec()).or_default();
        types.entry(record.rtype).or_default().push_back(line.trim_end().to_owned());
    }

    /// Removes and returns one line of an owner and type.
    fn one(&mut self, owner: &NameBuf, rtype: Rtype) -> Option<String> {
        self.0.get_mut(owner.wire())?.get_mut(&rtype)?.pop_front()
    }

    /// Removes and returns all lines of an owner.
    fn of_owner(&mut self, owner: &NameBuf) -> Vec<String> {
        self.0.remove(owner.wire()).into_iter().flatten().flat_map(|(_, lines)| lines).collect()
    }
}

/// Assembles the new text: changed records keep their place, new records follow the other records
/// of their owner, and all others are added at the end.
fn assembled(lines: &[&str], entries: &[RecordLines], mut added: Added) -> String {
    let mut text: Vec<String> = Vec::with_capacity(lines.len());
    // Without $TTL, a record may inherit its TTL from the previous record.
    let has_ttl = lines.iter().any(|line| line.trim_start().starts_with("$TTL"));
    let last_of: BTreeMap<&[u8], usize> =
        entries.iter().enumerate().map(|(at, entry)| (entry.owner.wire(), at)).collect();
    let (mut next, mut is_owner_gone) = (0, false);
    for (at, entry) in entries.iter().enumerate() {
        text.extend(lines[next..entry.start].iter().map(|&line| line.to_owned()));
        next = entry.end;
        let own = &lines[entry.start..entry.end];
        let inherits = own[0].starts_with([' ', '\t']);
        match entry.fate {
            Fate::Goes => {
                if let Some(line) = added.one(&entry.owner, entry.rtype) {
                    let comment = own.last().and_then(|line| comment(line));
                    text.push(comment.map_or(line.clone(), |comment| format!("{line} {comment}")));
                    is_owner_gone = false;
                } else {
                    is_owner_gone |= !inherits;
                }
            }
            Fate::Stays | Fate::Serial(..) => {
                let first = match inherits && is_owner_gone {
                    true => format!("{}{}", entry.owner, own[0]),
                    false => own[0].to_owned(),
                };
                is_owner_gone = false;
                let all = std::iter::once(first).chain(own[1..].iter().map(|&l| l.to_owned()));
                text.extend(match entry.fate {
                    Fate::Serial(before, after) => with_token(all.collect(), before, after),
                    Fate::Stays | Fate::Goes => all.collect(),
                });
            }
        }
        if has_ttl && last_of.get(entry.owner.wire()) == Some(&at) {
            text.extend(added.of_owner(&entry.owner));
            is_owner_gone = false;
        }
    }
    text.extend(lines[next..].iter().map(|&line| line.to_owned()));
    text.extend(added.0.into_values().flatten().flat_map(|(_, lines)| lines));
    text.join("\n") + "\n"
}

/// Replaces the first occurrence of the serial in the lines of an SOA record.
fn with_token(lines: Vec<String>, before: u32, after: u32) -> Vec<String> {
    let wanted = before.to_string();
    let mut is_done = false;
    let replaced = lines.into_iter().map(|line| {
        let is_end = |c: Option<char>| c.is_none_or(|c| c.is_whitespace() || "();".contains(c));
        let found = line.match_indices(&wanted).map(|(at, _)| at).find(|&at| {
            let (head, tail) = (&line[..at], &line[at + wanted.len()..]);
            is_end(head.chars().next_back()) && is_end(tail.chars().next()) && at > 0
        });
        match found.filter(|_| !is_done) {
            Some(at) => {
                is_done = true;
                format!("{}{after}{}", &line[..at], &line[at + wanted.len()..])
            }
            None => line,
        }
    });
    replaced.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edits::ZoneEdits;
    use crate::outbound::tests::zone;

    const TEXT: &str = "; The office.\n$TTL 60\n@ SOA ns host (\n    5 ; serial 5\n    2h 3m 4w 60 )\n\
                        \x20 NS ns ; ours\nns A 192.0.2.1\n\n; Printers\nold A 192.0.2.9 ; first \
                        floor\n    TXT \"a;b\"\n    AAAA 2001:db8::9\nnew A 192.0.2.8";

    fn after(edit: impl Fn(&mut ZoneEdits<'_>)) -> Option<String> {
        let zone = zone(TEXT);
        let mut edits = ZoneEdits::of(&zone);
        edit(&mut edits);
        let soa = zone.soa().unwrap();
        edits.set_soa(soa.ttl_secs, &with_serial(soa.rdata, 6));
        retouched(TEXT, &edits.finish(0).unwrap(), 0)
    }

    fn name(text: &[u8]) -> Vec<u8> {
        [text, b"\x07example\0"].concat()
    }

    #[test]
    fn comments_stay_and_only_lines_of_changed_records_change() {
        let old = name(b"\x03old");
        let old = FoldedName::from_folded_unchecked(&old);
        let a = |rdata: &'static [u8]| HostedRecord { rtype: Rtype::A, ttl_secs: 60, rdata };
        let raised = TEXT.replace("    5 ; serial 5", "    6 ; serial 5") + "\n";
        assert_eq!(after(|_| {}).unwrap(), raised);
        let text = after(|edits| {
            edits.remove(old, &a(&[192, 0, 2, 9]));
            edits.add(old, &a(&[192, 0, 2, 10]));
        });
        let changed = "old.example. 60 IN A 192.0.2.10 ; first floor";
        assert_eq!(text.unwrap(), raised.replace("old A 192.0.2.9 ; first floor", changed));
        let text = after(|edits| _ = edits.remove(old, &a(&[192, 0, 2, 9]))).unwrap();
        let gone = raised.replace("old A 192.0.2.9 ; first floor\n    TXT", "old.example.    TXT");
        assert_eq!(text, gone);
        let text = after(|edits| _ = edits.add(old, &a(&[192, 0, 2, 11]))).unwrap();
        let second = "AAAA 2001:db8::9\nold.example. 60 IN A 192.0.2.11\n";
        assert_eq!(text, raised.replace("AAAA 2001:db8::9\n", second));
        let other = name(b"\x05other");
        let other = FoldedName::from_folded_unchecked(&other);
        let text = after(|edits| _ = edits.add(other, &a(&[192, 0, 2, 12]))).unwrap();
        assert_eq!(text, format!("{raised}other.example. 60 IN A 192.0.2.12\n"));
        let text = after(|edits| edits.remove_all(old, |_| true)).unwrap();
        assert!(text.contains("; Printers\nnew A 192.0.2.8\n"), "{text}");
    }

    #[test]
    fn a_text_that_has_another_reading_is_not_changed() {
        let same = zone(TEXT);
        for other in [
            format!("{TEXT}\n$GENERATE 1-2 h$ A 192.0.2.$\n"),
            format!("{TEXT}\n$INCLUDE other.zone\n"),
            "no zone".to_owned(),
            String::new(),
        ] {
            assert_eq!(retouched(&other, &same, 0), None, "{other}");
        }
    }
}
