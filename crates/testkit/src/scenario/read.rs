//! The line-by-line parser of the test language.

use avocet_wire::Rtype;

use super::message::{FLAGS, Packet, Question};
use super::record::{self, octets};
use super::{Dialect, Entry, Range, Scenario, Step};

/// Default TTL of records, in seconds.
const DEFAULT_TTL_SECS: u32 = 3600;

const RCODES: [(&str, u16); 14] = [
    ("NOERROR", 0),
    ("FORMERR", 1),
    ("SERVFAIL", 2),
    ("NXDOMAIN", 3),
    ("NOTIMPL", 4),
    ("NOTIMP", 4),
    ("REFUSED", 5),
    ("YXDOMAIN", 6),
    ("YXRRSET", 7),
    ("NXRRSET", 8),
    ("NOTAUTH", 9),
    ("NOTZONE", 10),
    ("BADVERS", 16),
    ("BADCOOKIE", 23),
];
const OPCODES: [(&str, u16); 5] =
    [("QUERY", 0), ("IQUERY", 1), ("STATUS", 2), ("NOTIFY", 4), ("UPDATE", 5)];

/// Blocks of configuration lines that are read as a whole, by their first and last lines.
const BLOCKS: [(&str, &str); 2] =
    [("AUTOTRUST_FILE", "AUTOTRUST_END"), ("TEMPFILE_CONTENTS", "TEMPFILE_END")];

/// Parses a scenario: see [`Scenario::read`].
pub(super) fn scenario(text: &str, dialect: Dialect) -> Result<Scenario, String> {
    let mut lines = text.lines().enumerate();
    let config = config(&mut lines);
    let mut reader = Reader {
        scenario: Scenario {
            title: String::new(),
            dialect,
            config,
            ranges: Vec::new(),
            steps: Vec::new(),
        },
        range: None,
        entry: None,
        section: Place::None,
        default_ttl_secs: DEFAULT_TTL_SECS,
    };
    // If the configuration has no end marker, the line that begins the scenario has been consumed.
    for (number, line) in lines {
        let line = line.trim_start();
        if line.starts_with(['#', ';']) {
            continue;
        }
        let line = without_comment(line);
        match reader.line(line) {
            Ok(Goes::On) => {}
            Ok(Goes::NoFurther) => break,
            Err(error) => return Err(format!("line {}: {error}", number + 1)),
        }
    }
    Ok(reader.scenario)
}

fn config<'t>(lines: &mut impl Iterator<Item = (usize, &'t str)>) -> Vec<String> {
    let mut config = Vec::new();
    while let Some((_, line)) = lines.next() {
        let line = line.trim();
        if line.starts_with("CONFIG_END") || line.starts_with("SCENARIO_BEGIN") {
            break;
        }
        match BLOCKS.iter().find(|(begin, _)| line.starts_with(begin)) {
            Some((_, end)) => {
                while lines.next().is_some_and(|(_, line)| !line.trim().starts_with(end)) {}
            }
            None => config.push(line.to_owned()),
        }
    }
    config
}

/// Returns the part before a semicolon that is neither quoted nor escaped.
pub(super) fn without_comment(line: &str) -> &str {
    let (mut quoted, mut escaped) = (false, false);
    for (at, octet) in line.bytes().enumerate() {
        match octet {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b';' if !quoted => return line[..at].trim(),
            _ => {}
        }
    }
    line.trim()
}

/// Whether more lines follow.
#[derive(PartialEq, Eq)]
enum Goes {
    On,
    NoFurther,
}

/// The place of a line within an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    None,
    Question,
    Section(usize),
    /// Octets of the message.
    Raw,
    /// Octets of the message, up to a closing word.
    Message,
    /// Octets of the OPT record's data, up to a closing word.
    Options,
    /// A file to compare with, which is ignored.
    File,
}

struct Reader {
    scenario: Scenario,
    range: Option<Range>,
    entry: Option<Entry>,
    section: Place,
    default_ttl_secs: u32,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<Goes, String> {
        let words: Vec<_> = line.split_whitespace().collect();
        let Some(&keyword) = words.first() else { return Ok(Goes::On) };
        if self.block(keyword, line)? {
            return Ok(Goes::On);
        }
        match keyword {
            "SCENARIO_BEGIN" => self.scenario.title = record::word(line).1.to_owned(),
            "SCENARIO_END" => return Ok(Goes::NoFurther),
            "$TTL" => self.default_ttl_secs = number(&words, 1)?,
            "$ORIGIN" => {}
            "RANGE_BEGIN" => {
                let (first, last) = (number(&words, 1)?, number(&words, 2)?);
                self.range = Some(Range { first, last, ..Range::default() });
            }
            "RANGE_END" | "END_RANGE" => self.scenario.ranges.extend(self.range.take()),
            "ADDRESS" if self.entry.is_none() => self.address(words.get(1).ok_or("no address")?)?,
            "STEP" => self.step(&words)?,
            "FILE_BEGIN" => self.section = Place::File,
            "ENTRY_BEGIN" => {
                self.entry = Some(Entry { packets: vec![Packet::default()], ..Entry::default() });
                self.section = Place::None;
            }
            "ENTRY_END" => self.end_entry(),
            _ if self.entry.is_some() => self.entry_line(&words, line)?,
            _ => {}
        }
        Ok(Goes::On)
    }

    /// Reads a line within a block that ends with a closing word.
    fn block(&mut self, keyword: &str, line: &str) -> Result<bool, String> {
        let closing = match self.section {
            Place::Message => "HEX_ANSWER_END",
            Place::Options => "HEX_EDNSDATA_END",
            Place::File => "FILE_END",
            _ => return Ok(false),
        };
        if keyword == closing {
            self.section = Place::None;
        } else if self.section != Place::File {
            self.raw(line)?;
        }
        Ok(true)
    }

    fn raw(&mut self, line: &str) -> Result<(), String> {
        let place = self.section;
        let Some(packet) = self.packet() else { return Ok(()) };
        let bytes =
            if line == "NULL" { Vec::new() } else { octets(line).ok_or("not hexadecimal")? };
        let target = if place == Place::Options { &mut packet.options } else { &mut packet.raw };
        target.get_or_insert_default().extend(bytes);
        Ok(())
    }

    fn packet(&mut self) -> Option<&mut Packet> {
        self.entry.as_mut()?.packets.last_mut()
    }

    fn address(&mut self, text: &str) -> Result<(), String> {
        let address = text.parse().map_err(|_| format!("{text} is no address"))?;
        match (&mut self.range, self.scenario.steps.last_mut()) {
            (Some(range), _) => range.servers.push(address),
            (None, Some(step)) => step.server = Some(address),
            (None, None) => {}
        }
        Ok(())
    }

    fn step(&mut self, words: &[&str]) -> Result<(), String> {
        self.range = None;
        let what = words.get(2).ok_or("a step without a kind")?;
        let arguments: Vec<_> = words[3..].iter().map(|word| (*word).to_owned()).collect();
        let server = words
            .iter()
            .position(|word| *word == "ADDRESS")
            .and_then(|at| words.get(at + 1)?.parse().ok());
        let step = Step {
            number: number(words, 1)?,
            what: (*what).to_owned(),
            arguments,
            server,
            entry: None,
        };
        self.scenario.steps.push(step);
        Ok(())
    }

    fn end_entry(&mut self) {
        let Some(entry) = self.entry.take() else { return };
        match (&mut self.range, self.scenario.steps.last_mut()) {
            (Some(range), _) => range.entries.push(entry),
            (None, Some(step)) => step.entry = Some(entry),
            (None, None) => {}
        }
    }

    fn entry_line(&mut self, words: &[&str], line: &str) -> Result<(), String> {
        let Some(entry) = &mut self.entry else { return Ok(()) };
        let arguments = || words[1..].iter().map(|word| (*word).to_owned());
        match words[0] {
            "MATCH" => entry.matches.get_or_insert_default().extend(arguments()),
            "ADJUST" => {
                for word in arguments() {
                    match word.strip_prefix("sleep=") {
                        Some(secs) => {
                            entry.sleep_ms = secs.parse::<u64>().map_err(|_| "no time")? * 1000
                        }
                        None => entry.adjustments.push(word),
                    }
                }
            }
            "REPLY" => words[1..].iter().for_each(|word| set_header(last(entry), word)),
            "SECTION" => self.section = section(words.get(1).copied().unwrap_or_default())?,
            "EXTRA_PACKET" => {
                let Packet { flags, rcode, opcode, .. } = *last(entry);
                entry.packets.push(Packet { flags, rcode, opcode, ..Packet::default() });
                self.section = Place::None;
            }
            "RAW" => self.section = Place::Raw,
            "HEX_ANSWER_BEGIN" => {
                last(entry).raw = Some(Vec::new());
                self.section = Place::Message;
            }
            "HEX_EDNSDATA_BEGIN" => {
                last(entry).options = Some(Vec::new());
                self.section = Place::Options;
            }
            "MANDATORY" | "TSIG" => {}
            _ => return self.data_line(line),
        }
        Ok(())
    }

    fn data_line(&mut self, line: &str) -> Result<(), String> {
        let (place, ttl_secs) = (self.section, self.default_ttl_secs);
        let Some(packet) = self.packet() else { return Ok(()) };
        match place {
            Place::Question => {
                let head = record::head(line, ttl_secs)?;
                packet.questions.push(Question {
                    qname: head.owner,
                    qtype: head.rtype,
                    qclass: head.class,
                });
            }
            // An OPT record in a section is moved to the end of the message.
            Place::Section(number) => {
                let record = record::record(line, ttl_secs)?;
                if record.rtype != Rtype::OPT {
                    packet.sections[number].push(record);
                }
            }
            Place::Raw => self.raw(line)?,
            _ => {}
        }
        Ok(())
    }
}

fn last(entry: &mut Entry) -> &mut Packet {
    if entry.packets.is_empty() {
        entry.packets.push(Packet::default());
    }
    let at = entry.packets.len() - 1;
    &mut entry.packets[at]
}

fn set_header(packet: &mut Packet, word: &str) {
    let find = |table: &[(&str, u16)]| {
        table.iter().find(|(name, _)| *name == word).map(|(_, value)| *value)
    };
    if word == "DO" {
        packet.dnssec_ok = true;
    } else if let Some(flag) = find(&FLAGS) {
        packet.flags |= flag;
    } else if let Some(rcode) = find(&RCODES) {
        packet.rcode = rcode;
    } else if let Some(opcode) = find(&OPCODES) {
        packet.opcode = opcode;
    }
}

fn section(name: &str) -> Result<Place, String> {
    match name.to_ascii_uppercase().as_str() {
        "QUESTION" => Ok(Place::Question),
        "ANSWER" => Ok(Place::Section(0)),
        "AUTHORITY" => Ok(Place::Section(1)),
        "ADDITIONAL" => Ok(Place::Section(2)),
        _ => Err(format!("{name} is no section")),
    }
}

fn number<N: std::str::FromStr>(words: &[&str], at: usize) -> Result<N, String> {
    words.get(at).and_then(|word| word.parse().ok()).ok_or_else(|| "a number is missing".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
stub-addr: 192.0.2.1 ; the root
CONFIG_END
SCENARIO_BEGIN What it shows
RANGE_BEGIN 0 100
  ADDRESS 192.0.2.1
ENTRY_BEGIN
MATCH opcode qname ede=7
ADJUST copy_id sleep=2
REPLY QR AA NXDOMAIN
SECTION QUESTION
www.example. IN A
SECTION ANSWER
www.example. IN TXT \"a;b\" ; a comment
EXTRA_PACKET
HEX_ANSWER_BEGIN
; ID
00 01
02
HEX_ANSWER_END
ENTRY_END
RANGE_END
STEP 1 QUERY ADDRESS 192.0.2.9
STEP 10 TIME_PASSES ELAPSE 7
SCENARIO_END
STEP nonsense
";

    #[test]
    fn a_scenario_is_read_with_its_ranges_and_steps() {
        let scenario = scenario(TEXT, Dialect::Deckard).unwrap();
        assert_eq!((scenario.title.as_str(), scenario.config.len()), ("What it shows", 1));
        let entry = &scenario.ranges[0].entries[0];
        assert!(
            entry.is_matched("opcode")
                && !entry.is_matched("qtype")
                && entry.is_adjusted("copy_id")
        );
        assert_eq!((entry.matched_value("ede"), entry.sleep_ms), (Some("7"), 2000));
        assert_eq!((entry.packet().flags, entry.packet().rcode), (0x8400, 3));
        assert_eq!(entry.packet().sections[0][0].rdata, b"\x03a;b");
        assert_eq!(entry.packets[1].raw.as_deref(), Some(&[0, 1, 2][..]));
        assert_eq!(scenario.steps.len(), 2);
        assert_eq!(scenario.steps[0].server, Some("192.0.2.9".parse().unwrap()));
        assert_eq!(scenario.steps[1].arguments, ["ELAPSE", "7"]);
    }

    #[test]
    fn what_cannot_be_read_is_told_by_its_line() {
        let broken = TEXT.replace("\"a;b\"", "\"a");
        assert!(scenario(&broken, Dialect::Deckard).unwrap_err().starts_with("line 13: "));
    }
}
