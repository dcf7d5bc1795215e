//! A regular expression a line, found anywhere in the name whatever the case (Pi-hole's documentation of FTL).
//!
//! After it, divided by semicolons: `querytype=A,AAAA` or `querytype=!A`, `invert`, and
//! `reply=` with `NODATA`, `NXDOMAIN`, `REFUSED`, an address, or `IP` and `NONE`. The extensions of
//! TRE, such as back-references and approximate matching, are not linear in time and are faults.

use avocet_wire::{Rcode, Rtype, rdata};

use super::super::entry::{Entry, Target};
use super::super::modifier::{Modifiers, Subject};
use super::super::report::Reason;
use super::super::rewrite::Rewrite;
use super::Taken;

pub(super) fn read(line: &str, out: &mut Vec<Entry>) -> Result<Taken, Reason> {
    if line.starts_with('#') {
        return Ok(Taken::Nothing);
    }
    let mut parts = line.split(';');
    let regex = parts.next().unwrap_or_default().to_owned();
    if regex.is_empty() {
        return Err(Reason::Malformed("expected a regular expression"));
    }
    let (mut modifiers, mut inverted) = (Modifiers::default(), false);
    for part in parts {
        match part.split_once('=') {
            None if part == "invert" => inverted = true,
            Some(("querytype", types)) => modifiers.types = query_types(types)?,
            Some(("reply", reply)) => modifiers.rewrite = answer(reply)?,
            _ => return Err(Reason::UnknownModifier(part.chars().take(40).collect())),
        }
    }
    let target = if inverted { Target::NotRegex(regex) } else { Target::Regex(regex) };
    out.push(Entry::block(target).with(modifiers));
    Ok(Taken::Entries)
}

fn query_types(value: &str) -> Result<Vec<Subject<Rtype>>, Reason> {
    let (negated, value) = value.strip_prefix('!').map_or((false, value), |rest| (true, rest));
    if value.eq_ignore_ascii_case("ANY") && !negated {
        return Ok(Vec::new());
    }
    let types = value.split(',').map(|name| {
        let rtype = rdata::from_mnemonic(name.trim_ascii()).map(Rtype).ok_or(Reason::ModifierValue("querytype"))?;
        Ok(if negated { Subject::IsNot(rtype) } else { Subject::Is(rtype) })
    });
    types.collect()
}

fn answer(value: &str) -> Result<Option<Rewrite>, Reason> {
    match value.to_ascii_uppercase().as_str() {
        "NODATA" => Ok(Some(Rewrite::Rcode(Rcode::NOERROR))),
        "NXDOMAIN" => Ok(Some(Rewrite::Rcode(Rcode::NXDOMAIN))),
        "REFUSED" => Ok(Some(Rewrite::Rcode(Rcode::REFUSED))),
        // Pi-hole's own address, and silence: blocked as everything is here.
        "IP" | "NONE" => Ok(None),
        _ => value.parse().map(|address| Some(Rewrite::address(address))).map_err(|_| Reason::ModifierValue("reply")),
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
        check("abc;querytype=X1", "fault: the value of the modifier \"querytype\" is wrong");
        check("abc;reply=x", "fault: the value of the modifier \"reply\" is wrong");
        check("abc;what", "fault: the modifier \"what\" does not exist");
        check(";invert", "fault: expected a regular expression");
    }
}
