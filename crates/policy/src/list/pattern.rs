//! Patterns of names, and the letters that a matching name must contain.
//!
//! A glob is text in which `*` matches any text. A leading `||` anchors the glob at the start of a
//! label, a leading `|` at the start of the name, and a trailing `|` at the end of the name.

use regex_syntax::hir::{Class, Hir, HirKind};

use super::limits::MAX_LITERALS;
use super::steps::{Exhausted, Trial};

/// Reports whether the glob matches the name, which is given as folded text without the final dot.
///
/// # Errors
/// There are not enough steps left.
pub(super) fn glob_matches(glob: &str, name: &[u8], trial: &mut Trial) -> Result<bool, Exhausted> {
    let (start, rest) = start_of(glob);
    let (rest, to_end) = rest.strip_suffix('|').map_or((rest, false), |rest| (rest, true));
    let mut parts = rest.split('*').map(str::as_bytes).enumerate().peekable();
    let mut at = 0;
    while let Some((number, part)) = parts.next() {
        let start = if number == 0 { start } else { Start::Anywhere };
        let is_last = parts.peek().is_none();
        let Some(last) = name.len().checked_sub(part.len()).filter(|last| *last >= at) else {
            return Ok(false);
        };
        // The leftmost match leaves the most text for the rest of the glob, so other matches need
        // not be tried.
        let mut places = if is_last && to_end { last..=last } else { at..=last };
        let place = loop {
            let Some(place) = places.next() else { return Ok(false) };
            let common = part
                .iter()
                .zip(&name[place..])
                .take_while(|(wanted, found)| wanted == found)
                .count();
            trial.spend(1 + common)?;
            if common == part.len() && start.permits(name, place) {
                break place;
            }
        };
        at = place + part.len();
    }
    Ok(true)
}

/// Returns the longest part of a glob without `*`.
pub(super) fn glob_literal(glob: &str) -> &str {
    let (_, rest) = start_of(glob);
    let rest = rest.strip_suffix('|').unwrap_or(rest);
    rest.split('*').max_by_key(|part| part.len()).unwrap_or_default()
}

#[derive(Clone, Copy)]
enum Start {
    Anywhere,
    Name,
    Label,
}

impl Start {
    fn permits(self, name: &[u8], place: usize) -> bool {
        match self {
            Self::Anywhere => true,
            Self::Name => place == 0,
            Self::Label => place == 0 || name[place - 1] == b'.',
        }
    }
}

fn start_of(glob: &str) -> (Start, &str) {
    match (glob.strip_prefix("||"), glob.strip_prefix('|')) {
        (Some(rest), _) => (Start::Label, rest),
        (None, Some(rest)) => (Start::Name, rest),
        (None, None) => (Start::Anywhere, glob),
    }
}

/// Returns a set of lower-case texts; every matching name contains at least one of them. Returns
/// `None` if there is no such set. Of several sets, returns the set whose shortest text is the
/// longest.
pub(super) fn required_literals(hir: &Hir) -> Option<Vec<Vec<u8>>> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(vec![literal.0.to_ascii_lowercase()]),
        HirKind::Class(class) => one_letter(class).map(|letter| vec![vec![letter]]),
        HirKind::Capture(capture) => required_literals(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => required_literals(&repetition.sub),
        HirKind::Concat(parts) => best_of_sequence(parts),
        HirKind::Alternation(branches) => {
            let mut all = Vec::new();
            for branch in branches {
                all.extend(required_literals(branch)?);
                if all.len() > MAX_LITERALS {
                    return None;
                }
            }
            Some(all)
        }
        _ => None,
    }
}

fn best_of_sequence(parts: &[Hir]) -> Option<Vec<Vec<u8>>> {
    let mut sets = Vec::new();
    let mut run = Vec::new();
    for part in parts {
        match part.kind() {
            HirKind::Literal(literal) => run.extend(literal.0.to_ascii_lowercase()),
            HirKind::Class(class) if one_letter(class).is_some() => run.extend(one_letter(class)),
            HirKind::Look(_) => {}
            _ => {
                sets.push(vec![std::mem::take(&mut run)]);
                sets.extend(required_literals(part));
            }
        }
    }
    sets.push(vec![run]);
    let shortest = |set: &Vec<Vec<u8>>| set.iter().map(Vec::len).min().unwrap_or(0);
    sets.into_iter().max_by_key(shortest).filter(|set| shortest(set) > 0)
}

/// Returns the lower-case letter if a class has exactly the two cases of one letter, as in
/// case-insensitive text.
fn one_letter(class: &Class) -> Option<u8> {
    let ranges: Vec<(u32, u32)> = match class {
        Class::Bytes(bytes) => {
            bytes.iter().map(|range| (range.start().into(), range.end().into())).collect()
        }
        Class::Unicode(unicode) => {
            unicode.iter().map(|range| (range.start().into(), range.end().into())).collect()
        }
    };
    match ranges[..] {
        [(upper, upper_end), (lower, lower_end)] if upper == upper_end && lower == lower_end => {
            let (upper, lower) = (u8::try_from(upper).ok()?, u8::try_from(lower).ok()?);
            (upper.is_ascii_uppercase() && upper.to_ascii_lowercase() == lower).then_some(lower)
        }
        [(only, end)] if only == end => {
            u8::try_from(only).ok().map(|only| only.to_ascii_lowercase())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::patterns::parse;
    use super::*;

    #[test]
    fn globs_match_by_their_anchors() {
        for (glob, matching, other) in [
            ("ads", &["ads", "x.ads.y", "loads.x"][..], &["a.ds", ""][..]),
            ("||ads", &["ads.x", "a.ads.x", "adserver.x"], &["loads.x"]),
            ("|ads", &["ads.x", "adserver"], &["x.ads"]),
            ("ads.x|", &["ads.x", "loads.x"], &["ads.x.y"]),
            ("||ads*.x|", &["ads.x", "ads1.x", "a.ads.b.x"], &["loads.x", "ads.y"]),
            ("|a*b*c|", &["abc", "aXbYc", "abbcc", "abcbc"], &["ab", "acb", "xabc"]),
            ("*.x.y", &["a.x.y", "a.x.yz"], &["x.y"]),
            ("||a*a|", &["aa", "x.a.a"], &["a", "x.a"]),
            ("||x|", &["x", "a.x"], &["ax", "x.a"]),
        ] {
            let found = |name: &&str| {
                glob_matches(glob, name.as_bytes(), &mut { Trial::WHOLE }) == Ok(true)
            };
            matching.iter().for_each(|name| assert!(found(name), "{glob} {name}"));
            other.iter().for_each(|name| assert!(!found(name), "{glob} {name}"));
        }
        assert_eq!(
            (glob_literal("||ads*.example.org|"), glob_literal("|a")),
            (".example.org", "a")
        );
    }

    fn check(regex: &str, expected: &[&str]) {
        let literals = required_literals(&parse(regex).unwrap()).unwrap_or_default();
        let shown: Vec<_> =
            literals.iter().map(|literal| String::from_utf8_lossy(literal)).collect();
        assert_eq!(shown, expected, "{regex}");
    }

    #[test]
    fn literals_are_what_every_match_has() {
        check("^ads?[0-9]*\\.", &["ad"]);
        check("^(.+\\.)?example\\.(com|net)$", &["example."]);
        check("(foo|ba[rz]x)9", &["foo", "ba"]);
        check("[0-9]+", &[]);
        check("(abc)?", &[]);
        check("(abc)+", &["abc"]);
        check("FooBar", &["foobar"]);
        check("(tracker|telemetry)\\.", &["racker", "elemetry"]);
    }
}
