//! Reads one regular expression per line, matched anywhere in the name and ignoring case (Pi-hole's
//! documentation of FTL).
//!
//! Options follow, separated by semicolons: `querytype=A,AAAA` or `querytype=!A`, `invert`, and
//! `reply=` with `NODATA`, `NXDOMAIN`, `REFUSED`, an address or one of each family, `IP` or `NONE`.
//! `(?#...)` is a comment. Other extensions of TRE, such as back-references and approximate
//! matching, cannot run in linear time and are errors.

use std::borrow::Cow;

use avocet_wire::{Rcode, Rtype, rdata};

use super::super::entry::{Entry, Target};
use super::super::modifier::{Modifiers, Subject};
use super::super::reason::Reason;
use super::super::rewrite::Rewrite;
use super::Taken;

/// Types that Pi-hole counts by name. All others are `OTHER`.
const COUNTED_BY_NAME: [Rtype; 15] = [
    Rtype::A,
    Rtype::AAAA,
    Rtype::ANY,
    Rtype(33),
    Rtype::SOA,
    Rtype::PTR,
    Rtype::TXT,
    Rtype(35),
    Rtype::MX,
    Rtype::DS,
    Rtype(46),
    Rtype::DNSKEY,
    Rtype::NS,
    Rtype(64),
    Rtype(65),
];

pub(super) fn read(line: &str, out: &mut Vec<Entry>) -> Result<Taken, Reason> {
    if line.starts_with('#') {
        return Ok(Taken::Nothing);
    }
    let line = without_inner_comments(line);
    let mut parts = line.split(';');
    let regex = parts.next().unwrap_or_default().to_owned();
    if regex.is_empty() {
        return Err(Reason::Malformed("expected a regular expression"));
    }
    let (mut types, mut rewrites, mut inverted) = (Vec::new(), Vec::new(), false);
    for part in parts {
        match part.split_once('=') {
            None if part == "invert" => inverted = true,
            Some(("querytype", written)) => {
                let read = query_types(written)?;
                // As in Pi-hole, including some types and excluding others is an error.
                if matches!(
                    (types.first(), read.first()),
                    (Some(Subject::Is(_)), Some(Subject::IsNot(_)))
                        | (Some(Subject::IsNot(_)), Some(Subject::Is(_)))
                ) {
                    return Err(Reason::ModifierValue("querytype"));
                }
                types = read;
            }
            Some(("reply", reply)) => rewrites.push(answer(reply)?),
            _ => return Err(Reason::UnknownModifier(part.chars().take(40).collect())),
        }
    }
    let target = if inverted { Target::NotRegex(regex) } else { Target::Regex(regex) };
    // Several replies in one line must be addresses. They have the effect of one line for each
    // address.
    if rewrites.len() > 1
        && !rewrites.iter().all(|rewrite| matches!(rewrite, Some(Rewrite::Record(..))))
    {
        return Err(Reason::ModifierValue("reply"));
    }
    if rewrites.is_empty() {
        rewrites.push(None);
    }
    for rewrite in rewrites {
        let modifiers = Modifiers { types: types.clone(), rewrite, ..Modifiers::default() };
        out.push(Entry::block(target.clone()).with(modifiers));
    }
    Ok(Taken::Entries)
}

/// Returns the line without `(?#...)`, which may contain semicolons.
fn without_inner_comments(line: &str) -> Cow<'_, str> {
    let mut line = Cow::Borrowed(line);
    let mut from = 0;
    while let Some(at) = line[from..].find("(?#").map(|at| from + at) {
        let escapes = line[..at].bytes().rev().take_while(|octet| *octet == b'\\').count();
        match line[at..].find(')') {
            Some(len) if escapes % 2 == 0 => line.to_mut().replace_range(at..=at + len, ""),
            _ => from = at + 1,
        }
    }
    line
}

fn query_types(value: &str) -> Result<Vec<Subject<Rtype>>, Reason> {
    let (negated, value) = value.strip_prefix('!').map_or((false, value), |rest| (true, rest));
    if value.eq_ignore_ascii_case("OTHER") {
        return Ok(COUNTED_BY_NAME
            .map(|rtype| if negated { Subject::Is(rtype) } else { Subject::IsNot(rtype) })
            .into());
    }
    let types = value.split(',').map(|name| {
        let rtype = rdata::from_mnemonic(name.trim_ascii())
            .map(Rtype)
            .ok_or(Reason::ModifierValue("querytype"))?;
        Ok(if negated { Subject::IsNot(rtype) } else { Subject::Is(rtype) })
    });
    types.collect()
}

fn answer(value: &str) -> Result<Option<Rewrite>, Reason> {
    match value.to_ascii_uppercase().as_str() {
        "NODATA" => Ok(Some(Rewrite::Rcode(Rcode::NOERROR))),
        "NXDOMAIN" => Ok(Some(Rewrite::Rcode(Rcode::NXDOMAIN))),
        "REFUSED" => Ok(Some(Rewrite::Rcode(Rcode::REFUSED))),
        // `IP` is Pi-hole's own address, and `NONE` sends no reply. Both are treated as a normal
        // block.
        "IP" | "NONE" => Ok(None),
        _ => value
            .parse()
            .map(|address| Some(Rewrite::address(address)))
            .map_err(|_| Reason::ModifierValue("reply")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::tests::check as check_line;
    use super::*;

    fn check(line: &str, expected: &str) {
        check_line(Format::PiholeRegex, line, expected);
    }

    #[test]
    fn expressions_may_have_options() {
        check(r"^ad([sxv]?[0-9]*)[_.-]", r"block /^ad([sxv]?[0-9]*)[_.-]/");
        check(r"^abc$;reply=1.2.3.4", "block /^abc$/ -> A 1.2.3.4");
        check(r"^abc$;reply=nodata", "block /^abc$/ -> NOERROR");
        check(r"^abc$;reply=NXDOMAIN;querytype=A", "block /^abc$/ -> NXDOMAIN");
        check(r"example\.org$;invert", r"block !/example\.org$/");
        check("abc;reply=1.2.3.4;reply=::2", "block /abc/ -> A 1.2.3.4; block /abc/ -> AAAA ::2");
        check("a(?#x;y)b\\(?#?;invert", "block !/ab\\(?#?/");
        check("# comment", "-");
    }

    #[test]
    fn types_are_asked_for_or_excluded() {
        let mut out = Vec::new();
        read("abc;querytype=A,HTTPS", &mut out).unwrap();
        read("abc;querytype=!A", &mut out).unwrap();
        let types = |at: usize| out[at].modifiers.as_ref().unwrap().types.clone();
        assert_eq!(types(0), [Subject::Is(Rtype::A), Subject::Is(Rtype(65))]);
        assert_eq!(types(1), [Subject::IsNot(Rtype::A)]);
    }

    #[test]
    fn faults_are_told() {
        check("abc;querytype=X1", "fault: invalid value of the modifier \"querytype\"");
        check("abc;querytype=!A;querytype=A", "fault: invalid value of the modifier \"querytype\"");
        check(
            "abc;querytype=A;querytype=!AAAA",
            "fault: invalid value of the modifier \"querytype\"",
        );
        check("abc;reply=x", "fault: invalid value of the modifier \"reply\"");
        check("abc;reply=nodata;reply=1.2.3.4", "fault: invalid value of the modifier \"reply\"");
        check("abc;what", "fault: unknown modifier \"what\"");
        check(";invert", "fault: expected a regular expression");
    }
}
