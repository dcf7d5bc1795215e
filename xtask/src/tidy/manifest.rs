//! A parser for the part of TOML that the manifests of this workspace use.

/// A key of a manifest, with its section.
pub(super) struct Entry<'a> {
    /// The name of the section without brackets, such as `dev-dependencies`.
    pub(super) section: &'a str,
    /// The key, up to its first dot: `x.workspace = true` is the key `x`.
    pub(super) key: &'a str,
    /// The rest of the line after the key.
    pub(super) rest: &'a str,
    /// The line of the key, counted from 1.
    pub(super) line: usize,
    /// Whether there is a comment on the same line or on the line above.
    pub(super) has_comment: bool,
}

/// Returns the entries of a manifest in order. A value that spans several lines is one entry.
pub(super) fn entries(text: &str) -> Vec<Entry<'_>> {
    let (mut found, mut section, mut depth, mut above) = (Vec::new(), "", 0_isize, false);
    for (index, raw) in text.lines().enumerate() {
        let (line, comment) = split_comment(raw);
        let at_top = depth == 0;
        if at_top && line.starts_with('[') {
            section = line.trim_matches(['[', ']']).trim();
        } else if let Some((key, rest)) = line.split_once('=').filter(|_| at_top) {
            let key = key.trim().split('.').next().unwrap_or_default().trim_matches('"');
            found.push(Entry {
                section,
                key,
                rest: raw,
                line: index + 1,
                has_comment: comment || above,
            });
            depth += nesting(rest);
        } else {
            depth += nesting(line);
        }
        above = comment && line.is_empty();
    }
    found
}

/// Splits a line at its comment. Returns the trimmed line, and whether there is a comment with
/// text.
fn split_comment(line: &str) -> (&str, bool) {
    let mut quoted = false;
    let hash = line.char_indices().find(|(_, c)| {
        quoted ^= *c == '"';
        *c == '#' && !quoted
    });
    match hash {
        Some((at, _)) => (line[..at].trim(), !line[at + 1..].trim().is_empty()),
        None => (line.trim(), false),
    }
}

/// Returns the number of open brackets and braces at the end of the text.
fn nesting(text: &str) -> isize {
    let count = |c: char| isize::try_from(text.matches(c).count()).unwrap_or(0);
    count('[') + count('{') - count(']') - count('}')
}

/// Returns the value of `key = "value"` in a section, if it is on one line.
pub(super) fn string<'a>(entries: &[Entry<'a>], section: &str, key: &str) -> Option<&'a str> {
    let entry = entries.iter().find(|entry| entry.section == section && entry.key == key)?;
    entry.rest.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_carry_section_key_and_comment() {
        let text = "[package]\nname = \"a\"\n[dependencies]\n# why b\nb = { version = \"1\", \
                    features = [\n \"x = y\",\n] }\nc.workspace = true # why c\nd = \"#1\"\n";
        let found: Vec<_> =
            entries(text).iter().map(|e| (e.section, e.key, e.line, e.has_comment)).collect();
        assert_eq!(
            found,
            [
                ("package", "name", 2, false),
                ("dependencies", "b", 5, true),
                ("dependencies", "c", 8, true),
                ("dependencies", "d", 9, false)
            ]
        );
        assert_eq!(string(&entries(text), "package", "name"), Some("a"));
    }
}
