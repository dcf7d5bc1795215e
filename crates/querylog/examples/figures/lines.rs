//! The trace as JSON lines with the members that AdGuard Home writes, and searches in them.
//!
//! A search reads the file from its end, as AdGuard Home does, and compares octets: it decodes no
//! JSON, so it is faster than a program that does.

use std::fs::File;
use std::io::{
    self, BufRead as _, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _,
};
use std::path::Path;

use avocet_querylog::{Entry, Outcome};

use crate::trace::{Trace, shown};

/// Number of octets that a search reads at once.
const WINDOW: u64 = 1 << 20;

/// Writes the first entries of the trace.
pub(crate) fn write(path: &Path, entries: u64) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    let mut trace = Trace::begin();
    for _ in 0..entries {
        write_entry(&trace.next(), &mut out)?;
    }
    out.flush()
}

fn write_entry(entry: &Entry<'_>, out: &mut impl io::Write) -> io::Result<()> {
    let facts = &entry.facts;
    let qtype = match facts.qtype {
        1 => "A",
        28 => "AAAA",
        _ => "HTTPS",
    };
    let (secs, nanos) = (facts.time_us / 1_000_000, facts.time_us % 1_000_000 * 1000);
    let (day, second) = (secs / 86_400 - 20_757, secs % 86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    write!(
        out,
        "{{\"T\":\"2026-11-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z\",\
         \"QH\":\"{}\",\"QT\":\"{qtype}\",\"QC\":\"IN\",\"CP\":\"\",",
        shown(entry.qname).trim_end_matches('.')
    )?;
    if facts.upstream != 0 {
        write!(out, "\"Upstream\":\"9.9.9.{}:53\",", facts.upstream)?;
    }
    let message = message(entry);
    write!(out, "\"Answer\":\"{}\",\"IP\":\"{}\",", base64(&message), facts.client)?;
    if facts.outcome == Outcome::Blocked {
        let name = shown(entry.qname);
        let rule = format!("||{}^", name.trim_end_matches('.'));
        write!(
            out,
            "\"Result\":{{\"Rules\":[{{\"Text\":\"{rule}\",\"FilterListID\":{}}}],\
             \"Reason\":3,\"IsFiltered\":true}},",
            facts.rule
        )?;
    } else {
        write!(out, "\"Result\":{{}},")?;
    }
    let elapsed = u64::from(facts.response_delay_us) * 1000;
    write!(out, "\"Elapsed\":{elapsed}")?;
    if facts.cache == 2 {
        write!(out, ",\"Cached\":true")?;
    }
    writeln!(out, "}}")
}

/// Returns the response as a whole message, as these lines contain it.
fn message(entry: &Entry<'_>) -> Vec<u8> {
    let facts = &entry.facts;
    let mut message = vec![0; 2];
    for number in [facts.flags, 1, facts.answer_count, 0, 0] {
        message.extend_from_slice(&number.to_be_bytes());
    }
    message.extend_from_slice(entry.qname);
    message.extend_from_slice(&facts.qtype.to_be_bytes());
    message.extend_from_slice(&facts.qclass.to_be_bytes());
    message.extend_from_slice(entry.answer);
    message
}

fn base64(octets: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(octets.len().div_ceil(3) * 4);
    for three in octets.chunks(3) {
        let octet = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = octet(0) << 16 | octet(1) << 8 | octet(2);
        for digit in 0..4 {
            let is_padding = digit > three.len();
            let index = (bits >> (18 - 6 * digit)) as usize & 63;
            text.push(if is_padding { '=' } else { char::from(DIGITS[index]) });
        }
    }
    text
}

/// Counts the lines with a text from the end of the file, up to a limit.
pub(crate) fn latest(path: &Path, text: &str, limit: usize) -> io::Result<usize> {
    let mut file = File::open(path)?;
    let mut end = file.metadata()?.len();
    let (mut found, mut rest) = (0, Vec::new());
    while end > 0 && found < limit {
        let start = end.saturating_sub(WINDOW);
        let mut window = vec![0; (end - start) as usize];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut window)?;
        window.append(&mut rest);
        let whole = if start == 0 {
            0
        } else {
            window.iter().position(|octet| *octet == b'\n').map_or(window.len(), |at| at + 1)
        };
        let lines = window[whole..].rsplit(|octet| *octet == b'\n');
        found += lines.filter(|line| has(line, text)).take(limit - found).count();
        window.truncate(whole);
        rest = window;
        end = start;
    }
    Ok(found)
}

/// Returns the number of lines that a test accepts.
pub(crate) fn count(path: &Path, accepts: impl Fn(&[u8]) -> bool) -> io::Result<u64> {
    let mut file = BufReader::with_capacity(WINDOW as usize, File::open(path)?);
    let (mut line, mut count) = (Vec::new(), 0);
    while file.read_until(b'\n', &mut line)? > 0 {
        count += u64::from(accepts(&line));
        line.clear();
    }
    Ok(count)
}

/// Reports whether a line has a name at or below a zone, both without the final dot.
pub(crate) fn is_under(line: &[u8], zone: &[u8]) -> bool {
    const MEMBER: &[u8] = b"\"QH\":\"";
    let start = line.windows(MEMBER.len()).position(|part| part == MEMBER);
    let name = start.map(|at| &line[at + MEMBER.len()..]);
    let end = name.and_then(|name| name.iter().position(|octet| *octet == b'"'));
    let (Some(name), Some(end)) = (name, end) else { return false };
    let name = &name[..end];
    name.strip_suffix(zone).is_some_and(|rest| rest.is_empty() || rest.ends_with(b"."))
}

/// Reports whether a line has a text.
fn has(line: &[u8], text: &str) -> bool {
    str::from_utf8(line).is_ok_and(|line| line.contains(text))
}
