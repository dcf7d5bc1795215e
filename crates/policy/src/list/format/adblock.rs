//! Rules of Adblock, as AdGuard DNS understands them ("DNS filtering rules syntax").
//!
//! ```text
//! ||x.y^      x.y and all below it        |x.y^, |x.y|   x.y alone
//! x.y         x.y alone                   ADDRESS x.y    as in a hosts file
//! x*y, x.y^   names with that text        /regex/        names in which it is found
//! @@rule      lets through                rule$modifiers
//! ```
//!
//! Rules about pages, paths or requests of a browser say nothing of names and are passed over.

use super::super::entry::{BADFILTER, Effect, Entry, IMPORTANT, Scope, Target};
use super::super::name;
use super::super::report::Reason;
use super::modifiers::{self, Options};
use super::{Taken, hosts, without_comment};

/// What stands between the domains and the body of a rule about the content of pages.
const COSMETIC: [&str; 13] =
    ["##", "#@#", "#?#", "#@?#", "#$#", "#@$#", "#$?#", "#@$?#", "#%#", "#@%#", "$$", "$@$", "#+js("];

pub(super) fn read(line: &str, out: &mut Vec<Entry>) -> Result<Taken, Reason> {
    if line.starts_with(|first: char| first.is_ascii_hexdigit() || first == ':')
        && let Some(taken) = hosts::read_names(line, out)?
    {
        return Ok(taken);
    }
    if line.starts_with(['!', '#', '[']) || COSMETIC.iter().any(|mark| line.contains(mark)) {
        return Ok(Taken::Nothing);
    }
    let (effect, rule) = match line.strip_prefix("@@") {
        Some(rule) => (Effect::Allow, rule),
        None => (Effect::Block, line),
    };
    let (pattern, options) = split(rule);
    let Some(options) = options.map_or(Ok(Some(Options::default())), modifiers::read)? else {
        return Ok(Taken::Nothing);
    };
    let Some(target) = target(without_comment(pattern))? else { return Ok(Taken::Nothing) };
    if covers_everything(&target) && !options.modifiers.restrict() {
        return Err(Reason::Everything);
    }
    let marks = if options.important { IMPORTANT } else { 0 } | if options.badfilter { BADFILTER } else { 0 };
    out.push(Entry { target, effect, marks, modifiers: None }.with(options.modifiers));
    Ok(Taken::Entries)
}

/// The pattern and the text of the modifiers. A regular expression may have `$` inside.
fn split(rule: &str) -> (&str, Option<&str>) {
    if rule.starts_with('/') && rule.len() > 1 {
        if rule.ends_with('/') {
            return (rule, None);
        }
        if let Some(end) = rule.rfind("/$") {
            return (&rule[..=end], Some(&rule[end + 2..]));
        }
    }
    match rule.split_once('$') {
        Some((pattern, options)) => (pattern, Some(options)),
        None => (rule, None),
    }
}

/// The names that a pattern is about; none where it speaks of addresses of pages.
fn target(pattern: &str) -> Result<Option<Target>, Reason> {
    if let Some(regex) = pattern.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')).filter(|r| !r.is_empty()) {
        return Ok(Some(Target::Regex(regex.to_owned())));
    }
    if pattern.contains('/') || pattern.contains("://") {
        return Ok(None);
    }
    let (start, rest) = match (pattern.strip_prefix("||"), pattern.strip_prefix('|')) {
        (Some(rest), _) => ("||", rest),
        (None, Some(rest)) => ("|", rest),
        (None, None) => ("", pattern),
    };
    let rest = rest.strip_suffix('*').filter(|rest| rest.ends_with('^')).unwrap_or(rest);
    let text = rest.trim_end_matches(['^', '|']);
    let end = if text.len() < rest.len() { "|" } else { "" };
    if text.contains(['^', '|']) {
        return Err(Reason::Malformed("a separator within a name matches nothing"));
    }
    if text.is_empty() || text.bytes().all(|octet| octet == b'*') {
        return Ok(Some(Target::Name(Scope::Subtree, avocet_wire::NameBuf::ROOT)));
    }
    name_or_glob(start, text, end).map(Some)
}

fn name_or_glob(start: &str, text: &str, end: &str) -> Result<Target, Reason> {
    let plain = text.strip_prefix("*.").filter(|_| start == "||").unwrap_or(text);
    if plain.contains('*') {
        return glob(start, text, end);
    }
    let scope = match (start, end, plain.len() < text.len()) {
        ("||", "|", true) => Scope::Below,
        ("||", "|", false) => Scope::Subtree,
        ("|", "|", _) | ("", "", _) => Scope::Exact,
        _ => return glob(start, text, end),
    };
    let is_bare = start.is_empty() && end.is_empty();
    match name::read(plain) {
        // Labels neither begin nor end with a hyphen: such text is a part of names.
        Ok(_) if is_bare && plain.split('.').any(|label| label.starts_with('-') || label.ends_with('-')) => {
            glob(start, text, end)
        }
        Ok(name) => Ok(Target::Name(scope, name)),
        Err(_) if is_bare => glob(start, text, end),
        Err(fault) => Err(fault.into()),
    }
}

fn glob(start: &str, text: &str, end: &str) -> Result<Target, Reason> {
    let is_of_names = |octet: u8| octet.is_ascii_alphanumeric() || b"-_.*".contains(&octet);
    if let Some(other) = text.chars().find(|found| !found.is_ascii() || !is_of_names(*found as u8)) {
        return Err(name::NameFault::Character(other).into());
    }
    Ok(Target::Glob(format!("{start}{}{end}", text.to_ascii_lowercase())))
}

fn covers_everything(target: &Target) -> bool {
    matches!(target, Target::Name(Scope::Subtree, name) if name.wire() == [0])
}

#[cfg(test)]
mod tests {
    use super::super::Format;
    use super::super::tests::check as check_line;

    fn check(line: &str, expected: &str) {
        check_line(Format::Adblock, line, expected);
    }

    #[test]
    fn names_with_anchors_are_names() {
        check("||Example.org^", "block +example.org.");
        check("||example.org^|", "block +example.org.");
        check("||example.org|", "block +example.org.");
        check("||example.org^*", "block +example.org.");
        check("||*.example.org^", "block <example.org.");
        check("|example.org^", "block =example.org.");
        check("|example.org|", "block =example.org.");
        check("example.org", "block =example.org.");
        check("||zip^", "block +zip.");
        check("||пример.рф^", "block +xn--e1afmkfd.xn--p1ai.");
    }

    #[test]
    fn parts_of_names_are_patterns() {
        check("*.example.org", "block *.example.org");
        check("||ads*.example.org^", "block ||ads*.example.org|");
        check("||example.org", "block ||example.org");
        check("|example", "block |example");
        check("ample.org|", "block ample.org|");
        check("example.org^", "block example.org|");
        check("-ads-*", "block -ads-*");
        check("-ads-", "block -ads-");
        check(".ads.", "block .ads.");
        check("/^ad[0-9]+\\./", "block /^ad[0-9]+\\./");
        check("@@/^ok$/$important", "allow /^ok$/ important");
    }

    #[test]
    fn exceptions_and_marks() {
        check("@@||example.org^", "allow +example.org.");
        check("||example.org^$important", "block +example.org. important");
        check("@@||example.org^$important,badfilter", "allow +example.org. important badfilter");
        check("||example.org^$dnsrewrite=1.2.3.4", "block +example.org. -> A 1.2.3.4");
        check("|example.org^$dnsrewrite=NOERROR;TXT;a,important", "block =example.org. important -> TXT \"a\"");
        check("@@||example.org^$dnsrewrite", "allow +example.org. -> no rewrite");
    }

    #[test]
    fn lines_of_hosts_files_count_too() {
        check("0.0.0.0 a.example", "block =a.example.");
        check("1.2.3.4 a.example b.example # x", "block =a.example. -> A 1.2.3.4; block =b.example. -> A 1.2.3.4");
        check(":: a.example", "block =a.example.");
    }

    #[test]
    fn what_is_for_browsers_is_passed_over() {
        for line in [
            "! comment",
            "# comment",
            "[Adblock Plus 2.0]",
            "example.org##.banner",
            "##.banner",
            "example.org#@#.banner",
            "example.org#?#div:has(a)",
            "example.org#$#body { color: red }",
            "example.org#%#window.x = 1",
            "example.org$$script[data]",
            "||example.org^$third-party",
            "||example.org^$script,domain=a.example",
            "||example.org/ads/banner.js",
            "https://example.org/",
            "/banner/*.js",
            "||example.org^$~script",
            "||example.org^$popup,third-party",
        ] {
            check(line, "-");
        }
    }

    #[test]
    fn every_name_needs_a_restriction() {
        check("*$dnstype=AAAA", "block +.");
        check("||*^$client=10.0.0.0/8", "block +.");
        check("*$denyallow=org|com", "block +.");
        check("*", "fault: this is about every name");
        check("||*^", "fault: this is about every name");
        check("||^", "fault: this is about every name");
        check("|", "fault: this is about every name");
        check("*$important", "fault: this is about every name");
    }

    #[test]
    fn faults_are_told() {
        check("||example.org^$whatever", "fault: the modifier \"whatever\" does not exist");
        check("||a^b.example^", "fault: a separator within a name matches nothing");
        check("||exa mple.org^", "fault: ' ' is no character of a host name");
        check("||example..org^", "fault: a name with an empty label");
        check("||1.2.3.4^", "fault: an address where a name is expected");
        check("||example.org^$dnsrewrite=a b", "fault: the value of the modifier \"dnsrewrite\" is wrong");
        check("||example.org^$dnstype=NOPE", "fault: the value of the modifier \"dnstype\" is wrong");
        check("||example.org^$client=", "fault: the value of the modifier \"client\" is wrong");
    }
}
