//! Adblock rules in the dialect of AdGuard DNS ("DNS filtering rules syntax").
//!
//! ```text
//! ||x.y^      x.y and all below it        |x.y^, |x.y|   x.y alone
//! x.y         x.y alone                   ADDRESS x.y    as in a hosts file
//! x*y, x.y^   names with that text        /regex/        names in which it is found
//! @@rule      lets through                rule$modifiers
//! x           a fault
//! ```
//!
//! Rules about pages, paths or browser requests do not concern names and are skipped. A pattern
//! about no more than the host part of a URL is matched against `http://NAME/`, as in AdGuard Home.

use avocet_wire::Rcode;

use super::super::entry::{BADFILTER, Effect, Entry, IMPORTANT, Scope, Target};
use super::super::modifier::Limit;
use super::super::name;
use super::super::reason::Reason;
use super::super::rewrite::Rewrite;
use super::modifiers::{self, Options};
use super::{Taken, hosts, without_comment};

/// Separators between the domains and the body of a rule about page content.
const COSMETIC: [&str; 13] = [
    "##", "#@#", "#?#", "#@?#", "#$#", "#@$#", "#$?#", "#@$?#", "#%#", "#@%#", "$$", "$@$", "#+js(",
];

/// Minimum number of characters of a pattern without an anchor, as in AdGuard Home.
const MIN_PART: usize = 3;

pub(super) fn read(line: &str, out: &mut Vec<Entry>) -> Result<Taken, Reason> {
    if line.starts_with(|first: char| first.is_ascii_hexdigit() || first == ':')
        && let Some(taken) = hosts::read_names(line, out)?
    {
        return Ok(taken);
    }
    if COSMETIC.iter().any(|mark| line.contains(mark)) {
        return Ok(Taken::PassedOver("it applies to the content of pages"));
    }
    if line.starts_with(['!', '#', '[']) {
        return Ok(Taken::Nothing);
    }
    let (effect, rule) = match line.strip_prefix("@@") {
        Some(rule) => (Effect::Allow, rule),
        None => (Effect::Block, line),
    };
    let (pattern, options) = split(rule);
    let Some(mut options) = options.map_or(Ok(Some(Options::default())), modifiers::read)? else {
        return Ok(Taken::PassedOver("its modifiers apply to browsers only"));
    };
    // Only an exception removes rewrites. A block without a value answers without records.
    if effect == Effect::Block && options.modifiers.rewrite == Some(Rewrite::Any) {
        options.modifiers.rewrite = Some(Rewrite::Rcode(Rcode::NOERROR));
    }
    let Some(target) = target(without_comment(pattern))? else {
        return Ok(Taken::PassedOver("it applies to URLs"));
    };
    if target.is_every_name() && options.modifiers.limit() == Limit::Nothing {
        return Err(Reason::Everything);
    }
    let marks = if options.important { IMPORTANT } else { 0 }
        | if options.badfilter { BADFILTER } else { 0 };
    out.push(Entry { target, effect, marks, modifiers: None }.with(options.modifiers));
    Ok(Taken::Entries)
}

/// Splits a rule into the pattern and the text of its modifiers. A regular expression may contain
/// `$`.
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

/// Returns the names that a pattern covers, or `None` if it concerns URLs of pages.
fn target(pattern: &str) -> Result<Option<Target>, Reason> {
    if let Some(regex) =
        pattern.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')).filter(|r| !r.is_empty())
    {
        return Ok(Some(Target::Regex(regex.to_owned())));
    }
    if pattern.contains('/') {
        let Some(pattern) = pattern_of_host(pattern) else { return Ok(None) };
        return target_of_name(&pattern).map(Some);
    }
    target_of_name(pattern).map(Some)
}

/// Converts a URL pattern to a pattern of its host. Returns `None` if it covers more than the host.
fn pattern_of_host(pattern: &str) -> Option<String> {
    let with_scheme =
        ["|http://", "http://", "://", "//"].iter().find_map(|start| pattern.strip_prefix(start));
    let (start, rest) = match (pattern.strip_prefix("||"), with_scheme) {
        (Some(rest), _) => ("||", rest),
        (None, Some(rest)) => ("|", rest),
        (None, None) => ("|", pattern.strip_prefix('/')?),
    };
    let host = rest.strip_suffix('*').unwrap_or(rest).strip_suffix('/');
    let (host, end) = host.map_or((rest, ""), |host| (host, "^"));
    let is_of_host = |octet: u8| is_of_names(octet) || octet == b'^';
    (!host.is_empty() && host.bytes().all(is_of_host)).then(|| format!("{start}{host}{end}"))
}

fn target_of_name(pattern: &str) -> Result<Target, Reason> {
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
        return Ok(Target::Name(Scope::Subtree, avocet_wire::NameBuf::ROOT));
    }
    name_or_glob(start, text, end)
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
    if is_bare && is_word(plain) {
        return Err(Reason::Malformed(
            "a word alone is a part of too many names: `||word^` is a domain, `*word*` a part",
        ));
    }
    // Clients do not query a text without a dot, such as `_ads_`, so it is a pattern.
    if is_bare && !plain.trim_end_matches('.').contains('.') {
        return glob(start, text, end);
    }
    match name::read(plain) {
        // Labels neither begin nor end with a hyphen, so such text is a part of a name: a pattern.
        Ok(_)
            if is_bare
                && plain.split('.').any(|label| label.starts_with('-') || label.ends_with('-')) =>
        {
            glob(start, text, end)
        }
        Ok(name) => Ok(Target::Name(scope, name)),
        Err(_) if is_bare => glob(start, text, end),
        Err(fault) => Err(fault.into()),
    }
}

/// Returns whether the text is one label of a host name, with or without a dot before or after it.
/// Such a word must not be a pattern: `com`, for example, is a part of most names.
fn is_word(text: &str) -> bool {
    let label = text.strip_prefix('.').or_else(|| text.strip_suffix('.')).unwrap_or(text);
    !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.chars().all(|found| found == '-' || found.is_alphanumeric())
}

const fn is_of_names(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_' | b'.' | b'*')
}

fn glob(start: &str, text: &str, end: &str) -> Result<Target, Reason> {
    if let Some(other) = text.chars().find(|found| !found.is_ascii() || !is_of_names(*found as u8))
    {
        return Err(name::NameFault::Character(other).into());
    }
    if start.is_empty()
        && end.is_empty()
        && text.bytes().filter(|octet| *octet != b'*').count() < MIN_PART
    {
        return Err(Reason::Malformed("a name part needs at least three characters"));
    }
    Ok(Target::Glob(format!("{start}{}{end}", text.to_ascii_lowercase())))
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
        check(
            "|example.org^$dnsrewrite=NOERROR;TXT;a,important",
            "block =example.org. important -> TXT \"a\"",
        );
        check("@@||example.org^$dnsrewrite", "allow +example.org. -> no rewrite");
        for empty in ["dnsrewrite", "dnsrewrite="] {
            check(&format!("||example.org^${empty}"), "block +example.org. -> NOERROR");
        }
    }

    #[test]
    fn lines_of_hosts_files_count_too() {
        check("0.0.0.0 a.example", "block =a.example.");
        check(
            "1.2.3.4 a.example b.example # x",
            "block =a.example. -> A 1.2.3.4; block =b.example. -> A 1.2.3.4",
        );
        check(":: a.example", "block =a.example.");
    }

    #[test]
    fn comments_say_nothing() {
        for line in ["! comment", "# comment", "[Adblock Plus 2.0]"] {
            check(line, "-");
        }
    }

    #[test]
    fn what_is_for_browsers_is_passed_over() {
        for (what, lines) in [
            (
                "it applies to the content of pages",
                &[
                    "example.org##.banner",
                    "##.banner",
                    "example.org#@#.banner",
                    "example.org#?#div:has(a)",
                    "example.org#$#body { color: red }",
                    "example.org#%#window.x = 1",
                    "example.org$$script[data]",
                ][..],
            ),
            (
                "its modifiers apply to browsers only",
                &[
                    "||example.org^$third-party",
                    "||example.org^$script,domain=a.example",
                    "||example.org^$~script",
                    "||example.org^$popup,third-party",
                ],
            ),
            (
                "it applies to URLs",
                &[
                    "||example.org/ads/banner.js",
                    "||example.org/ads*",
                    "https://example.org/",
                    "example.org/",
                    "/banner/*.js",
                    "/banner?id=",
                    "://example.org/a",
                    "//",
                ],
            ),
        ] {
            lines.iter().for_each(|line| check(line, &format!("ignored: {what}")));
        }
    }

    #[test]
    fn patterns_of_an_address_with_no_more_than_its_host_are_of_names() {
        check("||example.org/", "block +example.org.");
        check("||example.org/*", "block +example.org.");
        check("://example.org^", "block =example.org.");
        check("//example.org^", "block =example.org.");
        check("://example.org/*", "block =example.org.");
        check("://ads.", "block |ads.");
        check("http://example.org/", "block =example.org.");
        check("|http://example.org^", "block =example.org.");
        check("/adserver.", "block |adserver.");
        check("||ads*.example.org/", "block ||ads*.example.org|");
    }

    #[test]
    fn what_is_no_label_of_a_host_name_is_a_part_of_names() {
        check("_prebid_", "block _prebid_");
        check("_728x90.", "block _728x90.");
        check("*adserver*", "block *adserver*");
        check("_dmarc.example.org", "block =_dmarc.example.org.");
        for short in ["_a", "a*b", "."] {
            check(short, "fault: a name part needs at least three characters");
        }
    }

    #[test]
    fn a_word_alone_is_a_fault() {
        for word in [
            "com",
            "COM",
            ".com",
            "com.",
            "ad-server",
            "рф",
            "@@com",
            "com$important",
            "com$dnstype=A",
        ] {
            check(
                word,
                "fault: a word alone is a part of too many names: `||word^` is a domain, `*word*` \
                 a part",
            );
        }
        check("||com^", "block +com.");
        check("com^", "block com|");
        check(".ads.", "block .ads.");
        check("-ads", "block -ads");
    }

    #[test]
    fn every_name_needs_a_restriction() {
        check("*$dnstype=AAAA", "block +.");
        check("||*^$client=10.0.0.0/8", "block +.");
        check("*$dnstype=A|~AAAA", "block +.");
        check("*$dnstype=~A", "block +.");
        check("*$denyallow=org|com", "block +.");
        for limits_nothing in [
            "||*^$client=~zz",
            "||*^$client=0.0.0.0/0|~10.0.0.1",
            "||*^$ctag=~x",
            "@@||*^$client=~zz,important",
            "||*^$dnsrewrite=192.0.2.1",
        ] {
            check(limits_nothing, "fault: the line matches every name");
        }
        check("*", "fault: the line matches every name");
        check("||*^", "fault: the line matches every name");
        check("||^", "fault: the line matches every name");
        check("|", "fault: the line matches every name");
        check("*$important", "fault: the line matches every name");
    }

    #[test]
    fn faults_are_told() {
        check("||example.org^$whatever", "fault: unknown modifier \"whatever\"");
        check("||a^b.example^", "fault: a separator within a name matches nothing");
        check("||exa mple.org^", "fault: ' ' is not a valid character in a host name");
        check("||example..org^", "fault: a name with an empty label");
        check("||1.2.3.4^", "fault: an address where a name is expected");
        check(
            "||example.org^$dnsrewrite=a b",
            "fault: invalid value of the modifier \"dnsrewrite\"",
        );
        check("||example.org^$dnstype=NOPE", "fault: invalid value of the modifier \"dnstype\"");
        check("||example.org^$client=", "fault: invalid value of the modifier \"client\"");
    }
}
