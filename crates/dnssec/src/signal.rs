//! Signals about trust anchors: key tags that are sent to a zone (RFC 8145), and sentinel names
//! that clients query (RFC 8509).

use std::fmt::Write;

use avocet_wire::{FoldedNameBuf, Question, Rtype};

/// Maximum number of key tags in one signal, whose label has 63 octets (RFC 8145 §5.1).
pub const MAX_SIGNALLED_TAGS: usize = 12;

/// Returns the name of a NULL query that reports to a zone which of its keys are trusted (RFC 8145
/// §5.1).
///
/// Returns `None` without tags, or if the name would be too long. If there are more than
/// [`MAX_SIGNALLED_TAGS`] tags, the lowest ones are used.
#[must_use]
pub fn key_tag_query(
    zone: &FoldedNameBuf,
    tags: impl IntoIterator<Item = u16>,
) -> Option<FoldedNameBuf> {
    let mut tags: Vec<u16> = tags.into_iter().collect();
    tags.sort_unstable();
    tags.dedup();
    if tags.is_empty() {
        return None;
    }
    let mut label = "_ta".to_owned();
    for tag in tags.iter().take(MAX_SIGNALLED_TAGS) {
        write!(label, "-{tag:04x}").ok()?;
    }
    zone.prefixed(label.as_bytes()).ok().map(|name| name.folded())
}

/// What a sentinel name asks about the trust anchors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sentinel {
    /// `root-key-sentinel-is-ta-NNNNN`: answered only if the key is a trust anchor of the root.
    IsTrusted(u16),
    /// `root-key-sentinel-not-ta-NNNNN`: answered only if the key is not a trust anchor of the
    /// root.
    IsNotTrusted(u16),
}

impl Sentinel {
    /// Reads a question. Returns `None` if its name is not a sentinel name, or its type is neither
    /// A nor AAAA (RFC 8509 §2.1).
    #[must_use]
    pub fn read(question: Question<'_>) -> Option<Self> {
        // Fast path: the length of the first label excludes nearly all questions.
        if !matches!(question.octets().first(), Some(29 | 30)) {
            return None;
        }
        if !matches!(question.qtype(), Rtype::A | Rtype::AAAA) {
            return None;
        }
        let label = str::from_utf8(question.qname().labels().next()?).ok()?;
        let rest = label.strip_prefix("root-key-sentinel-")?;
        let tag = |digits: &str| {
            let is_tag = digits.len() == 5 && digits.bytes().all(|octet| octet.is_ascii_digit());
            digits.parse().ok().filter(|_| is_tag)
        };
        match (rest.strip_prefix("is-ta-"), rest.strip_prefix("not-ta-")) {
            (Some(digits), _) => tag(digits).map(Self::IsTrusted),
            (_, Some(digits)) => tag(digits).map(Self::IsNotTrusted),
            _ => None,
        }
    }

    /// Reports whether a secure answer becomes SERVFAIL (RFC 8509 §2.2), given the tags of the
    /// root's trust anchors.
    #[must_use]
    pub fn turns_to_servfail(self, root_tags: &[u16]) -> bool {
        match self {
            Self::IsTrusted(tag) => !root_tags.contains(&tag),
            Self::IsNotTrusted(tag) => root_tags.contains(&tag),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use avocet_wire::NameBuf;

    #[test]
    fn tags_are_told_in_order() {
        let name = |tags: &[u16]| {
            key_tag_query(&FoldedNameBuf::ROOT, tags.iter().copied()).map(|name| name.to_string())
        };
        assert_eq!(name(&[20326, 0x2c, 20326]), Some("_ta-002c-4f66.".to_owned()));
        assert_eq!(name(&[]), None);
        let many: Vec<u16> = (0..100).collect();
        assert_eq!(name(&many).unwrap().len(), 3 + 5 * MAX_SIGNALLED_TAGS + 1);
    }

    #[track_caller]
    fn check(label: &str, expected: Option<Sentinel>) {
        let name = NameBuf::from_wire(b"\x01x\0").unwrap().prefixed(label.as_bytes()).unwrap();
        let name = name.folded();
        let question = |rtype: u8| [name.wire(), &[0, rtype, 0, 1]].concat();
        assert_eq!(Sentinel::read(Question::new(&question(1)).unwrap()), expected, "{label}");
        assert_eq!(Sentinel::read(Question::new(&question(28)).unwrap()), expected, "{label}");
        assert_eq!(Sentinel::read(Question::new(&question(16)).unwrap()), None, "{label}");
    }

    #[test]
    fn sentinels_have_five_digits() {
        check("root-key-sentinel-is-ta-20326", Some(Sentinel::IsTrusted(20326)));
        check("Root-Key-Sentinel-NOT-ta-00012", Some(Sentinel::IsNotTrusted(12)));
        for label in [
            "root-key-sentinel-is-ta-2032",
            "root-key-sentinel-is-ta-99999",
            "root-key-sentinel-is-ta-+2032",
            "www",
        ] {
            check(label, None);
        }
        let of_root = Question::new(&[0, 0, 1, 0, 1]).unwrap();
        assert_eq!(Sentinel::read(of_root), None);
    }

    #[test]
    fn the_three_kinds_of_resolvers_are_told_apart() {
        let tags = [20326, 38696];
        assert!(!Sentinel::IsTrusted(20326).turns_to_servfail(&tags));
        assert!(Sentinel::IsTrusted(1).turns_to_servfail(&tags));
        assert!(Sentinel::IsNotTrusted(20326).turns_to_servfail(&tags));
        assert!(!Sentinel::IsNotTrusted(1).turns_to_servfail(&tags));
    }
}
