//! The modifiers after the `$` of a rule.

use avocet_wire::{Rtype, rdata};
use ipnet::IpNet;

use super::super::limits::MAX_MODIFIER_VALUES;
use super::super::modifier::{ClientTest, Modifiers, Subject};
use super::super::name;
use super::super::reason::Reason;
use super::super::rewrite::Rewrite;

/// Modifiers that have a meaning only for browsers. A rule with such a modifier does not concern
/// names.
const FOR_BROWSERS: [&str; 72] = [
    "1p",
    "3p",
    "all",
    "app",
    "beacon",
    "cname",
    "content",
    "cookie",
    "csp",
    "css",
    "document",
    "doc",
    "domain",
    "elemhide",
    "ehide",
    "empty",
    "extension",
    "first-party",
    "fetch",
    "font",
    "frame",
    "from",
    "generichide",
    "genericblock",
    "ghide",
    "header",
    "hls",
    "image",
    "inline-font",
    "inline-script",
    "ipaddress",
    "jsinject",
    "jsonprune",
    "match-case",
    "media",
    "method",
    "mp4",
    "network",
    "object",
    "object-subrequest",
    "other",
    "path",
    "permissions",
    "ping",
    "popunder",
    "popup",
    "protobuf",
    "queryprune",
    "reason",
    "redirect",
    "redirect-rule",
    "referrerpolicy",
    "removeheader",
    "removeparam",
    "replace",
    "responseheader",
    "rewrite",
    "script",
    "shide",
    "specifichide",
    "stealth",
    "strict1p",
    "strict3p",
    "stylesheet",
    "subdocument",
    "third-party",
    "to",
    "urlblock",
    "urltransform",
    "webrtc",
    "websocket",
    "xmlhttprequest",
];

/// The parsed modifiers of a rule.
#[derive(Default, Debug)]
pub(super) struct Options {
    pub(super) important: bool,
    pub(super) badfilter: bool,
    pub(super) modifiers: Modifiers,
}

/// Parses the modifiers. Returns `None` if the rule is for browsers.
pub(super) fn read(text: &str) -> Result<Option<Options>, Reason> {
    let mut options = Options::default();
    for written in split(text, ',') {
        let (name, value) = match written.split_once('=') {
            Some((name, value)) => (name.trim_ascii(), Some(value)),
            None => (written.trim_ascii(), None),
        };
        match (name, value) {
            ("important", None) => options.important = true,
            ("badfilter", None) => options.badfilter = true,
            ("client", value) => options.modifiers.clients = subjects("client", value, client)?,
            ("ctag", value) => {
                options.modifiers.tags = subjects("ctag", value, |tag| Some(tag.into()))?
            }
            ("dnstype", value) => {
                let rtype = |text: &str| rdata::from_mnemonic(text).map(Rtype);
                options.modifiers.types = subjects("dnstype", value, rtype)?;
            }
            ("denyallow", value) => options.modifiers.except = except(value)?,
            ("dnsrewrite", value) => {
                options.modifiers.rewrite = Some(Rewrite::read(value.unwrap_or_default())?)
            }
            (name, _) if is_for_browsers(name) => return Ok(None),
            (name, _) => return Err(Reason::UnknownModifier(name.chars().take(40).collect())),
        }
    }
    Ok(Some(options))
}

fn is_for_browsers(name: &str) -> bool {
    let name = name.strip_prefix('~').unwrap_or(name);
    let underscores = !name.is_empty() && name.bytes().all(|octet| octet == b'_');
    underscores || FOR_BROWSERS.contains(&name) || name == "xhr"
}

fn except(value: Option<&str>) -> Result<Vec<Box<[u8]>>, Reason> {
    let wrong = || Reason::ModifierValue("denyallow");
    let zones: Result<Vec<Box<[u8]>>, _> = split(value.ok_or_else(wrong)?, '|')
        .into_iter()
        .map(|written| name::read(written.trim_ascii()).map(|zone| zone.wire().into()))
        .collect();
    zones.ok().filter(|zones| zones.len() <= MAX_MODIFIER_VALUES).ok_or_else(wrong)
}

fn subjects<T>(
    modifier: &'static str,
    value: Option<&str>,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Vec<Subject<T>>, Reason> {
    let one = |written: String| {
        let written = written.trim_ascii();
        match written.strip_prefix('~') {
            Some(rest) => read(&unquoted(rest)?).map(Subject::IsNot),
            None => read(&unquoted(written)?).map(Subject::Is),
        }
    };
    let all: Option<Vec<_>> =
        value.map(|value| split(value, '|').into_iter().map(one).collect()).unwrap_or_default();
    all.filter(|all| all.len() <= MAX_MODIFIER_VALUES).ok_or(Reason::ModifierValue(modifier))
}

fn client(text: &str) -> Option<ClientTest> {
    let network = text
        .parse::<IpNet>()
        .or_else(|_| text.parse().map(|address: std::net::IpAddr| address.into()));
    Some(network.map_or_else(
        |_| ClientTest::Name(text.into()),
        |network| ClientTest::Network(network.trunc()),
    ))
}

/// Returns the text without surrounding quotes, or `None` if it is empty.
fn unquoted(text: &str) -> Option<String> {
    let inner =
        ['\'', '"'].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    let inner = inner
        .map_or_else(|| text.to_owned(), |inner| inner.replace("\\'", "'").replace("\\\"", "\""));
    (!inner.is_empty()).then_some(inner)
}

/// Splits at unescaped marks. The `\` of an escaped mark is removed.
fn split(text: &str, mark: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let last = parts.len() - 1;
        match character {
            '\\' if characters.peek() == Some(&mark) => {
                parts[last].push(mark);
                characters.next();
            }
            character if character == mark => parts.push(String::new()),
            character => parts[last].push(character),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modifiers(text: &str) -> Modifiers {
        read(text).unwrap().unwrap().modifiers
    }

    #[test]
    fn clients_are_networks_or_names() {
        let network = |text: &str| ClientTest::Network(text.parse().unwrap());
        let name = |text: &str| ClientTest::Name(text.into());
        let check = |text: &str, expected: &[Subject<ClientTest>]| {
            assert_eq!(modifiers(text).clients, expected, "{text}")
        };
        check("client=127.0.0.1", &[Subject::Is(network("127.0.0.1/32"))]);
        check(
            "client=192.168.0.0/24|~192.168.0.7",
            &[Subject::Is(network("192.168.0.0/24")), Subject::IsNot(network("192.168.0.7/32"))],
        );
        check("client=Frank's laptop", &[Subject::Is(name("Frank's laptop"))]);
        check(r"client='Frank\'s laptop'", &[Subject::Is(name("Frank's laptop"))]);
        check(r"client=~'Mary\, Frank\|kids'", &[Subject::IsNot(name("Mary, Frank|kids"))]);
    }

    #[test]
    fn types_tags_and_exceptions_are_lists() {
        let read =
            modifiers("dnstype=A|~AAAA,ctag=device_pc|~user_child,denyallow=com|Example.org");
        assert_eq!(read.types, [Subject::Is(Rtype::A), Subject::IsNot(Rtype::AAAA)]);
        assert_eq!(
            read.tags,
            [Subject::Is("device_pc".into()), Subject::IsNot("user_child".into())]
        );
        assert_eq!(&*read.except[0], b"\x03com\x00");
        assert_eq!(&*read.except[1], b"\x07example\x03org\x00");
        assert_eq!(read.limit(), super::super::super::modifier::Limit::Named);
    }

    #[test]
    fn rules_for_browsers_are_none_of_ours() {
        for text in [
            "third-party",
            "~third-party",
            "domain=a.example",
            "important,script",
            "_____",
            "removeparam=x",
        ] {
            assert!(read(text).unwrap().is_none(), "{text}");
        }
        assert!(read("important=1").is_err());
        assert!(read("").is_err());
    }
}
