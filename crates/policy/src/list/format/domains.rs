//! Reads one name per line, a regular expression between slashes, and the lines of hosts files and
//! anchored Adblock rules that published lists mix in.

use super::super::entry::{Entry, Scope, Target};
use super::super::name;
use super::super::reason::Reason;
use super::{Taken, adblock, hosts, without_comment};

/// The meaning of a name in a list of names, if the name has no leading `*.`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Plain {
    /// The name itself is covered.
    Alone,
    /// The name and all names below it are covered.
    WithAllBelow,
}

pub(super) fn read(line: &str, plain: Plain, out: &mut Vec<Entry>) -> Result<Taken, Reason> {
    let line = without_comment(line);
    if line.is_empty() || line.starts_with(['!', ';']) || line.starts_with("//") {
        return Ok(Taken::Nothing);
    }
    if line.starts_with('|') || line.starts_with("@@") {
        return adblock::read(line, out);
    }
    if let Some(regex) = line.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')) {
        out.push(Entry::block(Target::Regex(regex.to_owned())));
        return Ok(Taken::Entries);
    }
    let starless =
        line.strip_prefix("*.").or_else(|| line.strip_prefix('.').filter(|rest| !rest.is_empty()));
    let scope = match (starless, plain) {
        (None, Plain::Alone) => Scope::Exact,
        _ => Scope::Subtree,
    };
    if line == "*" {
        return Err(Reason::Everything);
    }
    let name = match name::read(starless.unwrap_or(line)) {
        Ok(name) => name,
        Err(fault) if !line.contains(|found: char| found.is_ascii_whitespace()) => {
            return Err(fault.into());
        }
        Err(fault) => return hosts::read_names(line, out)?.ok_or_else(|| fault.into()),
    };
    match name::labels(&name) {
        0 => Err(Reason::Everything),
        1 if plain == Plain::Alone => Err(Reason::TopLevel),
        _ => {
            out.push(Entry::block_name(scope, name));
            Ok(Taken::Entries)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::tests::check;

    #[test]
    fn a_plain_name_is_alone() {
        check(Format::Domains, "Ads.example.com", "block =ads.example.com.");
        check(Format::Domains, "ads.example.com. # why", "block =ads.example.com.");
        check(Format::Domains, "*.example.com", "block +example.com.");
        check(Format::Domains, ".example.com", "block +example.com.");
    }

    #[test]
    fn wildcards_are_names_and_all_below_them() {
        check(Format::Wildcards, "*.ads.example", "block +ads.example.");
        check(Format::Wildcards, "ads.example", "block +ads.example.");
        check(Format::Wildcards, "*.zip", "block +zip.");
    }

    #[test]
    fn expressions_and_lines_of_hosts_files_and_of_adblock_are_read_between() {
        check(Format::Domains, "/^banners?[_.-]/", "block /^banners?[_.-]/");
        check(Format::Wildcards, "/ads/ # why", "block /ads/");
        check(Format::Domains, "0.0.0.0 ads.example", "block =ads.example.");
        check(Format::Wildcards, "192.0.2.1 nas.example", "block =nas.example. -> A 192.0.2.1");
        check(
            Format::Domains,
            "::1 localhost",
            "ignored: its names are those of the machine itself",
        );
        check(Format::Domains, "||ads.example^", "block +ads.example.");
        check(Format::Wildcards, "@@||ads.example^", "allow +ads.example.");
        check(Format::Domains, "|ads.example|", "block =ads.example.");
        check(
            Format::Domains,
            "||ads.example^$third-party",
            "ignored: its modifiers apply to browsers only",
        );
    }

    #[test]
    fn comments_say_nothing() {
        for line in ["# x", "! x", "; x", "// x"] {
            check(Format::Domains, line, "-");
        }
    }

    #[test]
    fn faults_are_told() {
        check(Format::Domains, "com", "fault: the line matches a top-level domain");
        check(Format::Domains, ".", "fault: the line matches every name");
        check(Format::Wildcards, "*", "fault: the line matches every name");
        check(Format::Domains, "*.com", "fault: the line matches a top-level domain");
        check(Format::Domains, "two words", "fault: ' ' is not a valid character in a host name");
        check(Format::Domains, "192.0.2.1", "fault: an address where a name is expected");
        check(Format::Domains, "a.*.example", "fault: '*' is not a valid character in a host name");
    }
}
