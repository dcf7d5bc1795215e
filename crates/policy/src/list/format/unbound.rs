//! `local-zone: "NAME" TYPE` and `local-data: "RECORD"` (unbound.conf(5)).
//!
//! Zones that refuse, deny or answer only from local data are blocked with all names below them.
//! Transparent zones are allowed. `local-data` is the answer for its own name only. Under a
//! `redirect` zone, the data at the zone's own name should also apply to all names below it, but a
//! single line does not show that. Here such data applies to the name itself, and names below it
//! are blocked.

use std::net::IpAddr;

use avocet_wire::{Rcode, Rtype, rdata, text};

use super::super::entry::{Effect, Entry, Scope};
use super::super::modifier::{Modifiers, Subject};
use super::super::name;
use super::super::reason::Reason;
use super::super::rewrite::Rewrite;
use super::{Taken, hosts, without_comment};

/// Types of local zones that hide the answers of public DNS.
const BLOCKING: [&str; 11] = [
    "deny",
    "refuse",
    "static",
    "redirect",
    "inform_deny",
    "inform_redirect",
    "always_refuse",
    "always_deny",
    "always_nxdomain",
    "always_nodata",
    "always_null",
];
/// Types of local zones that keep the answers of public DNS.
const OPEN: [&str; 7] = [
    "transparent",
    "typetransparent",
    "always_transparent",
    "nodefault",
    "inform",
    "noview",
    "ipset",
];

pub(super) fn read(line: &str, out: &mut Vec<Entry>) -> Result<Taken, Reason> {
    let line = without_comment(line);
    if line.is_empty() || line.eq_ignore_ascii_case("server:") {
        return Ok(Taken::Nothing);
    }
    let (option, value) =
        line.split_once(':').ok_or(Reason::Malformed("expected local-zone: or local-data:"))?;
    match option.trim_ascii() {
        "local-zone" => out.push(zone(value)?),
        "local-data" => out.push(data(value)?),
        "local-data-ptr" | "local-zone-tag" | "local-zone-override" => {
            return Ok(Taken::PassedOver("it has no names to block or to answer"));
        }
        _ => return Err(Reason::Malformed("expected local-zone: or local-data:")),
    }
    Ok(Taken::Entries)
}

fn zone(value: &str) -> Result<Entry, Reason> {
    let mut words = value.split_ascii_whitespace().map(|word| word.trim_matches(['"', '\'']));
    let (Some(written), Some(kind), None) = (words.next(), words.next(), words.next()) else {
        return Err(Reason::Malformed("expected a name and a type of zone"));
    };
    let name = name::read(written)?;
    if name::labels(&name) == 0 {
        return Err(Reason::Everything);
    }
    let entry = Entry::block_name(Scope::Subtree, name);
    match kind.to_ascii_lowercase().as_str() {
        kind if BLOCKING.contains(&kind) => Ok(entry),
        kind if OPEN.contains(&kind) => Ok(Entry { effect: Effect::Allow, ..entry }),
        "block_a" => {
            let (types, rewrite) =
                (vec![Subject::Is(Rtype::A)], Some(Rewrite::Rcode(Rcode::NOERROR)));
            Ok(entry.with(Modifiers { types, rewrite, ..Modifiers::default() }))
        }
        _ => Err(Reason::Malformed("the type of zone does not exist")),
    }
}

fn data(value: &str) -> Result<Entry, Reason> {
    let wrong = || Reason::Malformed("expected a record in quotes");
    let value = value.trim_ascii();
    let inner =
        ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
    let record = inner.unwrap_or(value);
    let tokens: Vec<_> =
        text::tokens(record.as_bytes()).collect::<Result<_, _>>().map_err(|_| wrong())?;
    let (owner, rest) = tokens.split_first().ok_or_else(wrong)?;
    let name = name::read(str::from_utf8(owner.text).map_err(|_| wrong())?)?;
    if name::labels(&name) == 0 {
        return Err(Reason::Everything);
    }
    let is_filler =
        |token: &[u8]| token.eq_ignore_ascii_case(b"IN") || token.iter().all(u8::is_ascii_digit);
    let at = rest.iter().position(|token| !is_filler(token.text)).ok_or_else(wrong)?;
    let rtype =
        str::from_utf8(rest[at].text).ok().and_then(rdata::from_mnemonic).ok_or_else(wrong)?;
    let shown = &record[rest[at].column + rest[at].text.len()..];
    let rewrite = match (Rtype(rtype), Rewrite::record(Rtype(rtype), shown)?) {
        (Rtype::CNAME, Rewrite::Record(_, target)) if target.starts_with(b"\x01*") => {
            return Err(Reason::Malformed("an alias to a wildcard is not supported"));
        }
        (Rtype::CNAME, Rewrite::Record(_, target)) => {
            Some(Rewrite::Cname(target.to_ascii_lowercase().into()))
        }
        (Rtype::A | Rtype::AAAA, _) if is_nowhere(shown) => None,
        (_, rewrite) => Some(rewrite),
    };
    Ok(Entry::block_name(Scope::Exact, name).with(Modifiers { rewrite, ..Modifiers::default() }))
}

fn is_nowhere(address: &str) -> bool {
    address.trim_ascii().parse::<IpAddr>().is_ok_and(hosts::is_nowhere)
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::tests::check as check_line;

    fn check(line: &str, expected: &str) {
        check_line(Format::Unbound, line, expected);
    }

    #[test]
    fn zones_that_do_not_answer_as_the_world_does_are_blocked() {
        check("local-zone: \"ads.example\" always_nxdomain", "block +ads.example.");
        check("local-zone: \"ads.example.\" static", "block +ads.example.");
        check("  local-zone: ads.example always_null # x", "block +ads.example.");
        check("local-zone: \"ads.example\" redirect", "block +ads.example.");
        check("local-zone: \"good.example\" always_transparent", "allow +good.example.");
        check("local-zone: \"ads.example\" always_deny", "block +ads.example.");
    }

    #[test]
    fn local_data_is_the_answer_for_its_name() {
        check("local-data: \"ads.example A 0.0.0.0\"", "block =ads.example.");
        check(
            "local-data: \"nas.example. 3600 IN A 192.0.2.7\"",
            "block =nas.example. -> A 192.0.2.7",
        );
        check("local-data: 'x.example TXT \"a b\"'", "block =x.example. -> TXT \"a b\"");
        check(
            "local-data: \"x.example CNAME Y.example.\"",
            "block =x.example. -> CNAME y.example.",
        );
    }

    #[test]
    fn faults_are_told() {
        check("server:", "-");
        check("local-zone: \".\" refuse", "fault: the line matches every name");
        check("local-zone: \"a.example\"", "fault: expected a name and a type of zone");
        check("local-zone: \"a.example\" maybe", "fault: the type of zone does not exist");
        check("local-data: \"a.example\"", "fault: expected a record in quotes");
        check("verbosity: 1", "fault: expected local-zone: or local-data:");
    }
}
