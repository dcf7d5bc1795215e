//! Sources of names: a query file in the format of dnsperf, or numbered names under a zone.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use avocet_wire::name::MAX_NAME;
use avocet_wire::{NameBuf, Rtype, rdata, text};

use super::questions::{Form, Questions};
use crate::error::LoadError;

/// Maximum number of octets of a line: a name with every octet escaped, and a type.
const MAX_NAME_LINE: usize = 2048;

/// Reads a file of queries.
pub(crate) fn read_file(path: &Path, form: &Form) -> Result<Questions, LoadError> {
    let file = File::open(path).map_err(LoadError::in_file(path))?;
    Questions::read(BufReader::new(file), form).map_err(LoadError::in_file(path))
}

impl Questions {
    /// Reads lines `NAME TYPE` with comments that begin with `;` or `#`. The default type is A.
    ///
    /// # Errors
    /// A line is too long or malformed, or the number of queries is zero or too large.
    pub fn read(mut lines: impl BufRead, form: &Form) -> Result<Self, LoadError> {
        let mut questions = Self::default();
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            // One octet beyond the limit detects an overlong line without storing more of it.
            let mut bounded = lines.by_ref().take(MAX_NAME_LINE as u64 + 1);
            let read = bounded.read_until(b'\n', &mut line)?;
            if read == 0 {
                break;
            }
            if read > MAX_NAME_LINE {
                return Err(LoadError::LongLine { line: number, most: MAX_NAME_LINE });
            }
            if let Some((name, qtype)) = query(&line).map_err(LoadError::in_line(number))? {
                questions.push(form, name.wire(), qtype)?;
            }
        }
        if questions.is_empty() { Err(LoadError::NoQueries) } else { Ok(questions) }
    }
}

fn query(line: &[u8]) -> Result<Option<(NameBuf, Rtype)>, LoadError> {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let Some(name) = words.next().filter(|word| !word.starts_with(b";") && !word.starts_with(b"#"))
    else {
        return Ok(None);
    };
    let qtype = match words.next() {
        None => Rtype::A,
        Some(word) => {
            let word = str::from_utf8(word).unwrap_or_default();
            Rtype(rdata::from_mnemonic(word).ok_or_else(|| LoadError::NotAType(word.to_owned()))?)
        }
    };
    Ok(Some((wire_name(name)?, qtype)))
}

/// Returns the wire form of a name relative to the root.
pub(crate) fn wire_name(text: &[u8]) -> Result<NameBuf, LoadError> {
    let read = || -> Result<NameBuf, LoadError> {
        let mut wire = [0; MAX_NAME];
        let len = text::name_to_wire(text, Some(&[0]), &mut wire)?;
        Ok(NameBuf::from_wire(wire.get(..len).unwrap_or_default())?)
    };
    read().map_err(|source| LoadError::NotAName {
        text: String::from_utf8_lossy(text).into_owned(),
        source: Box::new(source),
    })
}

/// Returns queries for the names `PREFIX` + number under a zone. Each name is queried for all
/// types.
pub(crate) fn numbered(
    zone: &NameBuf,
    prefix: &str,
    population: u32,
    types: &[Rtype],
    form: &Form,
) -> Result<Questions, LoadError> {
    let mut questions = Questions::default();
    for number in 0..population {
        let label = format!("{prefix}{number}");
        let name = zone.prefixed(label.as_bytes())?;
        for qtype in types {
            questions.push(form, name.wire(), *qtype)?;
        }
    }
    Ok(questions)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: Form = Form { edns_size: None, dnssec_ok: false };

    #[test]
    fn a_query_file_is_read_line_by_line() {
        let questions =
            Questions::read(&b"; c\n# d\n\na.test A\n b.test.\tTYPE65 \r\nc\n"[..], &FORM).unwrap();
        assert_eq!(questions.len(), 3);
        assert_eq!(questions.question(1), b"\x01b\x04test\x00\x00\x41\x00\x01");
        assert_eq!(questions.question(2), b"\x01c\x00\x00\x01\x00\x01");
    }

    #[test]
    fn a_fault_in_a_query_file_is_told_with_its_line() {
        for (text, wanted) in
            [("a A\nb..c A\n", "line 2"), ("a NOTYPE\n", "line 1"), ("; only\n", "no queries")]
        {
            let error = Questions::read(text.as_bytes(), &FORM).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
        assert!(Questions::read(&[b'a'; 4096][..], &FORM).is_err());
    }

    #[test]
    fn a_population_is_asked_for_every_type() {
        let zone = wire_name(b"test.").unwrap();
        let questions = numbered(&zone, "www", 2, &[Rtype::A, Rtype::MX], &FORM).unwrap();
        assert_eq!(questions.len(), 4);
        assert_eq!(questions.question(3), b"\x04www1\x04test\x00\x00\x0f\x00\x01");
    }
}
