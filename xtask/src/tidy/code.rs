//! Rust source with comments and literals blanked out, so that only code remains.
//!
//! This is a scanner, not a parser: it finds the ends of strings, characters and comments, and
//! counts braces. That is enough to measure functions and to find words.

use std::ops::Range;

/// Source text in which a space replaces each byte of a comment, string or character literal.
///
/// Offsets and line breaks are those of the original.
pub(super) struct Code {
    text: String,
}

/// A function with a body.
pub(super) struct Function {
    /// The name of the function.
    pub(super) name: String,
    /// The line of the keyword `fn`, counted from 1.
    pub(super) line: usize,
    /// Number of lines from `fn` to the closing brace, inclusive.
    pub(super) lines: usize,
}

impl Code {
    /// Replaces the literals and comments of `source` by spaces.
    pub(super) fn of(source: &str) -> Self {
        let bytes = source.as_bytes();
        let mut text = bytes.to_vec();
        let mut at = 0;
        while at < bytes.len() {
            let end = skipped_end(bytes, at);
            for byte in &mut text[at..end] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
            at = end.max(at + 1);
        }
        Self { text: String::from_utf8_lossy(&text).into_owned() }
    }

    /// Returns the code. It has the same length as the source.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the line of a byte offset, counted from 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        1 + self.text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count()
    }

    /// Returns the offsets at which `word` is a whole identifier.
    pub(super) fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let bytes = self.text.as_bytes();
        let free = move |at: &usize| {
            let before = at.checked_sub(1).is_some_and(|index| is_word(bytes[index]));
            let last = word.as_bytes().last().is_some_and(|byte| is_word(*byte));
            let after = last && bytes.get(at + word.len()).is_some_and(|byte| is_word(*byte));
            !before && !after
        };
        self.text.match_indices(word).map(|(at, _)| at).filter(free)
    }

    /// Returns the identifier that follows an offset and white space, or an empty text if there is
    /// none.
    pub(super) fn identifier_after(&self, offset: usize) -> &str {
        let rest = self.text[offset..].trim_start();
        let rest = rest.strip_prefix("r#").unwrap_or(rest);
        let end = rest.bytes().position(|byte| !is_word(byte)).unwrap_or(rest.len());
        &rest[..end]
    }

    /// Returns the functions with a body, including nested ones.
    pub(super) fn functions(&self) -> Vec<Function> {
        let measure = |at: usize| {
            let name = self.identifier_after(at + 2);
            let body = self.block_after(at + 2)?;
            let (line, last) = (self.line(at), self.line(body.end - 1));
            (!name.is_empty()).then(|| Function {
                name: name.to_owned(),
                line,
                lines: last - line + 1,
            })
        };
        self.words("fn").filter_map(measure).collect()
    }

    /// Returns the byte ranges of test code: the items under `#[cfg(test)]` and similar attributes.
    pub(super) fn test_ranges(&self) -> Vec<Range<usize>> {
        let attributes = self.text.match_indices("#[cfg(").filter(|(at, _)| {
            let line = self.text[*at..].split(']').next().unwrap_or_default();
            line.contains("test") && !line.contains("not(test")
        });
        attributes.filter_map(|(at, _)| Some(at..self.block_after(at)?.end)).collect()
    }

    /// Returns the range of the next block, including its braces. Returns `None` if a `;` comes
    /// first.
    fn block_after(&self, offset: usize) -> Option<Range<usize>> {
        let bytes = self.text.as_bytes();
        let mut depth = 0_usize;
        let opens = (offset..bytes.len()).find(|at| match bytes[*at] {
            b'(' | b'[' => {
                depth += 1;
                false
            }
            b')' | b']' => {
                depth = depth.saturating_sub(1);
                false
            }
            b'{' | b';' => depth == 0,
            _ => false,
        })?;
        (bytes[opens] == b'{').then(|| opens..closing_brace(bytes, opens))
    }
}

/// A part of the source that people read: a comment or a literal.
pub(super) struct Prose<'a> {
    /// The offset in the source in bytes.
    pub(super) at: usize,
    /// The text, including its comment marks or quotation marks.
    pub(super) text: &'a str,
}

impl Prose<'_> {
    /// Returns whether the piece is a comment, not a literal.
    pub(super) fn is_comment(&self) -> bool {
        self.text.starts_with('/')
    }
}

/// Returns the comments and literals of a source in order.
pub(super) fn prose(source: &str) -> Vec<Prose<'_>> {
    let bytes = source.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let end = skipped_end(bytes, at);
        if let Some(text) = source.get(at..end).filter(|text| !text.is_empty()) {
            found.push(Prose { at, text });
        }
        at = end.max(at + 1);
    }
    found
}

/// Returns the offset after the brace that matches the one at `opens`, or the end of the text.
fn closing_brace(bytes: &[u8], opens: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in bytes.iter().enumerate().skip(opens) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return at + 1,
            b'}' => depth -= 1,
            _ => {}
        }
    }
    bytes.len()
}

/// Returns whether a byte may be part of an identifier.
pub(super) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Returns the end of the comment or literal that starts at `at`, or `at` itself if there is none.
fn skipped_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let in_word = at > 0 && is_word(bytes[at - 1]);
    match rest {
        [b'/', b'/', ..] => at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => at + block_comment(rest),
        [b'"', ..] => at + quoted(rest, b'"'),
        [b'\'', ..] => at + character(rest),
        [b'r', ..] if !in_word => at + raw_string(rest, 1),
        [b'b' | b'c', b'r', ..] if !in_word => at + raw_string(rest, 2),
        _ => at,
    }
}

/// Returns the length of a block comment, which may be nested.
fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    rest.len()
}

/// Returns the length of a literal between two `quote` characters with backslash escapes.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Returns the length of a character literal, or zero for a lifetime.
fn character(rest: &[u8]) -> usize {
    let one = std::str::from_utf8(&rest[1..rest.len().min(5)]);
    let valid = one.unwrap_or_else(|error| {
        std::str::from_utf8(&rest[1..1 + error.valid_up_to()]).unwrap_or_default()
    });
    match valid.chars().next() {
        Some('\\') => quoted(rest, b'\''),
        Some(one) if rest.get(1 + one.len_utf8()) == Some(&b'\'') => one.len_utf8() + 2,
        _ => 0,
    }
}

/// Returns the length of a raw string whose prefix (`r`, `br`, `cr`) has `prefix` bytes, or zero
/// for other text.
fn raw_string(rest: &[u8], prefix: usize) -> usize {
    let hashes = rest[prefix..].iter().take_while(|byte| **byte == b'#').count();
    let start = prefix + hashes;
    if rest.get(start) != Some(&b'"') {
        return 0;
    }
    let end = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    let found = rest[start + 1..].windows(end.len()).position(|window| window == end);
    found.map_or(rest.len(), |at| start + 1 + at + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the remaining code with `code`, where one space represents a run of spaces. Also
    /// compares its length with that of the source.
    #[track_caller]
    fn check(source: &str, code: &str) {
        let found = Code::of(source);
        assert_eq!(found.text().len(), source.len());
        let words: Vec<_> = found.text().split_whitespace().collect();
        assert_eq!(words.join(" "), code);
    }

    #[test]
    fn comments_and_literals_become_spaces() {
        check("a // b\nc", "a c");
        check("a /* x /* y */ z */ b", "a b");
        check(r#"f("{\"", 1)"#, "f( , 1)");
        check(r###"f(r#"a"b"#, br"\", c)"###, "f( , , c)");
        check(r"m('{', '\'', 'ö', b'}')", "m( , , , b )");
    }

    #[test]
    fn lifetimes_and_raw_identifiers_stay() {
        check("fn a<'a>(x: &'a u8) {}", "fn a<'a>(x: &'a u8) {}");
        check("let r#type = 1;", "let r#type = 1;");
    }

    #[test]
    fn functions_are_measured_past_braces_in_literals() {
        let code =
            Code::of("fn a(x: [u8; {1}]) {\n  let s = \"}\";\n  // }\n}\nfn b();\n\nfn c() {}\n");
        let found: Vec<_> =
            code.functions().into_iter().map(|f| (f.name, f.line, f.lines)).collect();
        assert_eq!(found, [("a".to_owned(), 1, 4), ("c".to_owned(), 7, 1)]);
    }

    #[test]
    fn words_are_whole() {
        let code = Code::of("eprintln!(); println!(); unsafe_code unsafe {}");
        assert_eq!(code.words("println!").count(), 1);
        assert_eq!(code.words("unsafe").count(), 1);
    }

    #[test]
    fn test_items_are_known() {
        let code = Code::of(
            "fn a() {}\n#[cfg(test)]\nmod tests { fn b() {} }\nfn c() {}\n#[cfg(not(test))]\nfn \
             d() {}",
        );
        let ranges = code.test_ranges();
        assert_eq!(ranges.len(), 1);
        assert!(code.text()[ranges[0].clone()].ends_with("fn b() {} }"));
    }
}
