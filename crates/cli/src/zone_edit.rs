//! `avocet zone set` and `unset`: change an RRset in a zone of the running server.

use std::process::ExitCode;

use avocet_config::policy::parse_duration;
use avocet_control::zone_edit::{
    EditAction, RecordEdit, ZoneChanges, ZoneDifference, ZoneEdit, ZoneEdited, ZoneStep,
};
use avocet_control::zones::ZoneRecord;
use clap::Args;

use crate::call::{Done, View, run as send};
use crate::control_args::ControlArgs;
use crate::error::CommandError;

/// Maximum number of octets of a string of a TXT record (RFC 1035 §3.3).
const MAX_STRING: usize = 255;

/// The arguments that all changes of a zone have.
#[derive(Debug, Args)]
struct EditArgs {
    /// Only show the records that the change would remove and add
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Change the zone only if its serial in force is this number
    #[arg(long, value_name = "NUMBER")]
    serial: Option<u32>,
    /// An item in `view` of the zone, such as a group [default: the zone without a view]
    #[arg(long, value_name = "VIEW")]
    view: Option<String>,
    #[command(flatten)]
    control: ControlArgs,
}

/// Arguments of `avocet zone set`.
#[derive(Debug, Args)]
pub(crate) struct ZoneSetArgs {
    /// Name of the hosted zone
    zone: String,
    /// Owner of the record: relative to the zone, or with the name of the zone; `@` is the zone
    /// itself
    name: String,
    /// The record as in a master file, `[TTL] TYPE DATA...`, such as `1h MX 10 mail`. Each word
    /// after TXT is one string of the record: `TXT "v=spf1 -all"`. If a word begins with a hyphen,
    /// write `--` before it
    #[arg(required = true, value_name = "RECORD", allow_negative_numbers = true)]
    record: Vec<String>,
    /// Add the record, and keep the existing records of this name and type
    #[arg(long)]
    add: bool,
    #[command(flatten)]
    edit: EditArgs,
}

/// Arguments of `avocet zone unset`.
#[derive(Debug, Args)]
pub(crate) struct ZoneUnsetArgs {
    /// Name of the hosted zone
    zone: String,
    /// Owner of the records: relative to the zone, or with the name of the zone; `@` is the zone
    /// itself
    name: String,
    /// Type of the records [default: all types]
    rtype: Option<String>,
    /// Data of the only record to remove, as in a master file [default: all records of the type]
    #[arg(allow_negative_numbers = true)]
    data: Vec<String>,
    #[command(flatten)]
    edit: EditArgs,
}

/// Runs `avocet zone set`.
///
/// # Errors
/// The words are not a record.
pub(crate) fn set(args: &ZoneSetArgs) -> Result<ExitCode, CommandError> {
    let (mut ttl, mut words) = (None, &args.record[..]);
    // TTL and class may be in any order, as in a master file.
    while let [word, rest @ ..] = words {
        match ttl_secs(word) {
            Some(secs) if ttl.is_none() => ttl = Some(secs),
            _ if word.eq_ignore_ascii_case("IN") => {}
            _ => break,
        }
        words = rest;
    }
    let [rtype, data @ ..] = words else { return Err(CommandError::NoRecord) };
    if data.is_empty() {
        return Err(CommandError::NoRecordData(rtype.clone()));
    }
    let edit = RecordEdit {
        action: if args.add { EditAction::Add } else { EditAction::Replace },
        owner: args.name.clone(),
        rtype: Some(rtype.clone()),
        ttl,
        data: vec![data_text(rtype, data)],
    };
    Ok(change(&args.zone, &args.edit, edit))
}

/// Runs `avocet zone unset`.
pub(crate) fn unset(args: &ZoneUnsetArgs) -> ExitCode {
    let data = args.rtype.as_ref().filter(|_| !args.data.is_empty());
    let edit = RecordEdit {
        action: EditAction::Remove,
        owner: args.name.clone(),
        rtype: args.rtype.clone(),
        ttl: None,
        data: data.iter().map(|rtype| data_text(rtype, &args.data)).collect(),
    };
    change(&args.zone, &args.edit, edit)
}

fn change(zone: &str, args: &EditArgs, edit: RecordEdit) -> ExitCode {
    let EditArgs { serial, dry_run, view, control } = args;
    let request = ZoneEdit {
        name: zone.to_owned(),
        view: view.clone(),
        serial: *serial,
        dry_run: *dry_run,
        edits: vec![edit],
    };
    let done = |edited: &ZoneEdited| match edited.error {
        Some(_) => Done::InPart,
        None => Done::Whole,
    };
    send(control, request, &View::of_change(edited_text, done))
}

/// Returns a TTL in seconds, which may have units.
fn ttl_secs(word: &str) -> Option<u32> {
    let with_units = || parse_duration(word)?.as_secs().try_into().ok();
    word.parse().ok().or_else(with_units)
}

/// Returns the data as in a master file. The shell has removed the quotes of strings: each word of
/// a TXT record is one string of any length.
fn data_text(rtype: &str, words: &[String]) -> String {
    if !rtype.eq_ignore_ascii_case("TXT") {
        return words.join(" ");
    }
    let quoted = |word: &String| {
        if word.starts_with('"') || word == "\\#" {
            return word.clone();
        }
        let octets: Vec<u8> = word.bytes().collect();
        let strings = octets.chunks(MAX_STRING).map(quoted_string);
        let text = strings.collect::<Vec<_>>().join(" ");
        if text.is_empty() { "\"\"".to_owned() } else { text }
    };
    let is_generic = words.first().is_some_and(|word| word == "\\#");
    let texts = words.iter().map(|word| if is_generic { word.clone() } else { quoted(word) });
    texts.collect::<Vec<_>>().join(" ")
}

fn quoted_string(octets: &[u8]) -> String {
    let mut text = String::from("\"");
    for &octet in octets {
        match octet {
            b'"' | b'\\' => text.extend(['\\', char::from(octet)]),
            b' '..=b'~' => text.push(char::from(octet)),
            _ => text += &format!("\\{octet:03}"),
        }
    }
    text + "\""
}

/// Returns the result of a change: the difference, and the serial in force.
fn edited_text(edited: &ZoneEdited) -> String {
    let ZoneEdited { name, serial, published, difference, rewrites, error } = edited;
    let is_same = difference.removed_count == 0 && difference.added_count == 0;
    let state = match (published, error) {
        (_, Some(error)) if is_same => {
            format!("zone {name}: nothing to change, but the last change is held back: {error}")
        }
        (_, Some(error)) => format!(
            "zone {name}: the change is kept, and comes into force when the zone can be signed: \
             {error}"
        ),
        (true, None) => format!("zone {name}: serial {serial} is in force"),
        (false, None) if is_same => format!("zone {name}: nothing to change, serial {serial}"),
        (false, None) => format!("zone {name}: would change so; serial {serial} stays in force"),
    };
    let mut lines = difference_lines(difference);
    lines.push(state);
    if let Some(file) = rewrites.as_ref().filter(|_| !is_same) {
        lines.push(format!("comments in {file} are kept in {file}.before-updates alone"));
    }
    lines.join("\n")
}

/// Returns the latest changes of a zone.
pub(crate) fn history_text(changes: &ZoneChanges) -> String {
    let ZoneChanges { name, kept, changes } = changes;
    let step = |ZoneStep { from, to, difference }: &ZoneStep| {
        let mut lines = vec![format!("serial {from} to {to}:")];
        lines.extend(difference_lines(difference));
        lines.join("\n")
    };
    let mut lines: Vec<String> = changes.iter().map(step).collect();
    lines.push(format!("zone {name}: {} of {kept} changes", changes.len()));
    lines.join("\n")
}

fn difference_lines(difference: &ZoneDifference) -> Vec<String> {
    let line = |sign: char, ZoneRecord { name, ttl, rtype, data }: &ZoneRecord| {
        format!("{sign}{name} {ttl} IN {rtype} {data}")
    };
    let removed = difference.removed.iter().map(|record| line('-', record));
    let added = difference.added.iter().map(|record| line('+', record));
    let mut lines: Vec<String> = removed.chain(added).collect();
    let shown = difference.removed.len() + difference.added.len();
    let all = (difference.removed_count + difference.added_count) as usize;
    if all > shown {
        lines.push(format!("... and {} more", all - shown));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_shell_become_data_of_a_master_file() {
        let check = |rtype: &str, words: &[&str], expected: &str| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(data_text(rtype, &words), expected);
        };
        check("MX", &["10", "mail"], "10 mail");
        check("MX", &["10 mail"], "10 mail");
        check("TXT", &["v=spf1 -all"], "\"v=spf1 -all\"");
        check("txt", &["a;b", "c\"\\"], r#""a;b" "c\"\\""#);
        check("TXT", &["\"as it is\""], "\"as it is\"");
        check("TXT", &["\u{e9}"], "\"\\195\\169\"");
        check("TXT", &[""], "\"\"");
        check("TXT", &["\\#", "2", "0161"], "\\# 2 0161");
        let long = "k".repeat(300);
        let (first, second) = ("k".repeat(255), "k".repeat(45));
        check("TXT", &[&long], &format!("\"{first}\" \"{second}\""));
    }

    #[test]
    fn a_ttl_has_units_or_not() {
        assert_eq!(ttl_secs("300"), Some(300));
        assert_eq!(ttl_secs("1h"), Some(3600));
        for other in ["A", "MX", "", "-1", "4294967296"] {
            assert_eq!(ttl_secs(other), None, "{other}");
        }
    }
}
