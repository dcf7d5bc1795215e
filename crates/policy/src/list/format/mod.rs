//! The formats of lists, each a function from a line to entries.

mod adblock;
mod dnsmasq;
mod domains;
mod hosts;
mod modifiers;
mod pihole;
mod unbound;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::entry::Entry;
use super::reason::Reason;

/// The format of a list.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Lines `ADDRESS NAME ...` as in `/etc/hosts`. A line matches each of its names, but no names
    /// below them.
    Hosts,
    /// One name per line, without the names below it. `*.NAME` and `.NAME` match the name and all
    /// names below it. `/.../` is a regular expression.
    Domains,
    /// One name per line, with or without `*.` before it. A line matches the name and all names
    /// below it.
    Wildcards,
    /// Rules in the syntax of Adblock and AdGuard DNS.
    Adblock,
    /// Lines of dnsmasq: `address=/NAME/...`, `server=/NAME/` and `local=/NAME/`. A line matches
    /// the name and all names below it.
    Dnsmasq,
    /// Lines of Unbound: `local-zone:` and `local-data:`.
    Unbound,
    /// One regular expression per line, as in Pi-hole.
    PiholeRegex,
    /// A response policy zone: a block list in the form of a master file.
    Rpz,
}

impl Format {
    /// Every format with its name in configurations.
    pub const NAMES: [(&'static str, Self); 8] = [
        ("hosts", Self::Hosts),
        ("domains", Self::Domains),
        ("wildcards", Self::Wildcards),
        ("adblock", Self::Adblock),
        ("dnsmasq", Self::Dnsmasq),
        ("unbound", Self::Unbound),
        ("pihole-regex", Self::PiholeRegex),
        ("rpz", Self::Rpz),
    ];

    /// Returns the format with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
    }

    /// Returns the name of the format.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The result for a valid line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Taken {
    /// The entries of the line were added.
    Entries,
    /// The line is empty or a comment.
    Nothing,
    /// The line is valid but has no effect, because it does not concern names, or only names of the
    /// machine itself. Holds the reason.
    PassedOver(&'static str),
}

/// Adds the entries of a line.
///
/// # Errors
/// The reason why the line is invalid. Entries added before the error remain.
pub(super) fn read_line(format: Format, line: &str, out: &mut Vec<Entry>) -> Result<Taken, Reason> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(Taken::Nothing);
    }
    match format {
        Format::Hosts => hosts::read(line, out),
        Format::Domains => domains::read(line, domains::Plain::Alone, out),
        Format::Wildcards => domains::read(line, domains::Plain::WithAllBelow, out),
        Format::Adblock => adblock::read(line, out),
        Format::Dnsmasq => dnsmasq::read(line, out),
        Format::Unbound => unbound::read(line, out),
        Format::PiholeRegex => pihole::read(line, out),
        Format::Rpz => Err(Reason::Malformed("a response policy zone is not a list of lines")),
    }
}

/// Returns the line without a comment that starts with `#` at the beginning or after white space.
fn without_comment(line: &str) -> &str {
    let octets = line.as_bytes();
    let begins =
        |at: &usize| octets[*at] == b'#' && (*at == 0 || octets[at - 1].is_ascii_whitespace());
    let end = (0..octets.len()).find(begins).unwrap_or(octets.len());
    line[..end].trim_ascii_end()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::entry::{BADFILTER, Effect, IMPORTANT, Scope, Target};
    use super::*;

    /// Formats an entry on one line: effect, names, marks, modifiers.
    pub(in super::super) fn shown(entry: &Entry) -> String {
        let mut text = match entry.effect {
            Effect::Block => "block ".to_owned(),
            Effect::Allow => "allow ".to_owned(),
        };
        text += &match &entry.target {
            Target::Name(Scope::Exact, name) => format!("={name}"),
            Target::Name(Scope::Subtree, name) => format!("+{name}"),
            Target::Name(Scope::Below, name) => format!("<{name}"),
            Target::Glob(glob) => glob.clone(),
            Target::Regex(regex) => format!("/{regex}/"),
            Target::NotRegex(regex) => format!("!/{regex}/"),
        };
        if entry.marks & IMPORTANT != 0 {
            text += " important";
        }
        if entry.marks & BADFILTER != 0 {
            text += " badfilter";
        }
        if let Some(rewrite) =
            entry.modifiers.as_ref().and_then(|modifiers| modifiers.rewrite.as_ref())
        {
            text += &format!(" -> {rewrite}");
        }
        text
    }

    /// Checks the result of a line: its entries, joined with `; `; `-` without entries; or its
    /// error.
    #[track_caller]
    pub(in super::super) fn check(format: Format, line: &str, expected: &str) {
        let mut out = Vec::new();
        let found = match read_line(format, line, &mut out) {
            Ok(Taken::Nothing) => "-".to_owned(),
            Ok(Taken::PassedOver(why)) => format!("ignored: {why}"),
            Ok(Taken::Entries) => out.iter().map(shown).collect::<Vec<_>>().join("; "),
            Err(reason) => format!("fault: {reason}"),
        };
        assert_eq!(found, expected, "{line}");
    }

    #[test]
    fn formats_have_names() {
        for (name, format) in Format::NAMES {
            assert_eq!((Format::from_name(name), format.name()), (Some(format), name));
        }
        assert_eq!(Format::from_name("zone"), None);
    }
}
