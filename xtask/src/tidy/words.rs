//! Words that make readers stop, in documents, in texts for users and in comments. Also lines of
//! prose that are too wide.

use super::code::{Code, is_word, prose};
use super::{Fault, Tree};

/// Banned words and phrases, each with the plain words to use instead.
const WORDS: &[(&str, &str)] = &[
    ("anew", "again"),
    ("are told", "the word for the message: learn, get, see"),
    ("at leisure", "idle"),
    ("beside", "next to, together with, in addition to"),
    ("he", "it, or the noun"),
    ("him", "it, or the noun"),
    ("his", "its, or the noun"),
    ("is told", "the word for the message: learns, gets, sees"),
    ("none:", "a sentence"),
    ("so long as", "while"),
    ("so many", "the number"),
    ("stands", "is"),
    ("tells of", "reports"),
    ("what there is", "the noun"),
    ("whoever", "the noun: a client, a server"),
    ("whom", "the noun: a client, a server"),
    ("whomever", "the noun: a client, a server"),
];

/// Additional banned words in texts for users. Comments may use them, as in "an entry whose hash
/// differs".
const WORDS_OF_TEXTS: &[(&str, &str)] =
    &[("of which", "a second sentence"), ("whose", "with, or a second sentence")];

/// Documents that must not contain the banned words. A path that ends in `/` is a directory.
const DOCUMENTS: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "GLOSSARY.md",
    "CHANGELOG.md",
    "docs/manual/",
    "docs/decisions/",
    "bench/README.md",
    "fuzz/README.md",
    "tests/SECURITY.md",
    "tests/scenarios/README.md",
    "deploy/",
    "xtask/src/bench/page.txt",
];

/// Maximum number of columns of a line of prose.
const COLUMNS: usize = 100;

/// Finds banned words in documents, in literals of the product and in comments.
pub(super) fn banned(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| is_below(path, DOCUMENTS)) {
        for (number, line) in unfenced(text) {
            faults.extend(words_of_texts(line).map(|advice| Fault::at(path, number, advice)));
        }
    }
    for (path, source) in tree.ending(".rs").filter(|(path, _)| is_product(path)) {
        let code = Code::of(source);
        let tests = code.test_ranges();
        for piece in prose(source) {
            let line = code.line(piece.at);
            if !piece.is_comment() {
                let is_test = tests.iter().any(|test| test.contains(&piece.at));
                let found = words_of_texts(piece.text).filter(|_| !is_test);
                faults.extend(found.map(|advice| Fault::at(path, line, advice)));
            } else {
                let found = words(piece.text, WORDS);
                faults.extend(found.map(|advice| Fault::at(path, line, advice)));
            }
        }
    }
    faults
}

/// Finds lines of documents and comments that are wider than [`COLUMNS`].
///
/// Rows of tables, fenced code, drawings and lines with a URL may be wider.
pub(super) fn wide_lines(tree: &Tree) -> Vec<Fault> {
    let is_wide = |line: &str| line.chars().count() > COLUMNS && !line.contains("://");
    let advice = || format!("the line has more than {COLUMNS} columns");
    let mut faults = Vec::new();
    for (path, text) in tree.ending(".md").filter(|(path, _)| is_below(path, DOCUMENTS)) {
        let lines = unfenced(text).into_iter();
        let wide = lines.filter(|(_, line)| is_wide(line) && !line.starts_with('|'));
        faults.extend(wide.map(|(number, _)| Fault::at(path, number, advice())));
    }
    for (path, source) in tree.ending(".rs") {
        let lines = unfenced(source).into_iter();
        let wide = lines.filter(|(_, line)| is_comment(line) && is_wide(line) && !is_drawing(line));
        faults.extend(wide.map(|(number, _)| Fault::at(path, number, advice())));
    }
    faults
}

/// Returns the advice for each banned word in a text for users.
fn words_of_texts(text: &str) -> impl Iterator<Item = String> {
    words(text, WORDS).chain(words(text, WORDS_OF_TEXTS))
}

/// Returns the advice for each word of a table that a text contains.
fn words(
    text: &str,
    table: &'static [(&'static str, &'static str)],
) -> impl Iterator<Item = String> + use<> {
    let text = text.to_lowercase();
    table
        .iter()
        .filter(move |(word, _)| has(&text, word))
        .map(|(word, plain)| format!("`{word}` makes readers stop: write {plain}"))
}

/// Returns whether a text in lower case contains a word, not only as a part of a longer one.
fn has(text: &str, word: &str) -> bool {
    let bytes = text.as_bytes();
    text.match_indices(word).any(|(at, _)| {
        let before = at.checked_sub(1).is_some_and(|index| is_part(bytes[index]));
        let ends_in_word = word.as_bytes().last().is_some_and(|byte| is_word(*byte));
        let after = ends_in_word && bytes.get(at + word.len()).is_some_and(|byte| is_part(*byte));
        !before && !after
    })
}

/// Returns whether an octet continues a word: it may belong to a longer word, a file name or a
/// letter outside of ASCII.
fn is_part(byte: u8) -> bool {
    is_word(byte) || matches!(byte, b'-' | b'\'') || !byte.is_ascii()
}

fn is_below(path: &str, places: &[&str]) -> bool {
    places.iter().any(|place| match place.strip_suffix('/') {
        Some(directory) => path.starts_with(directory),
        None => path == *place,
    })
}

/// Returns whether a source is compiled into the product, not only into tests.
fn is_product(path: &str) -> bool {
    let is_test = path.contains("/tests/") || path.ends_with("/tests.rs");
    path.starts_with("crates/") && !path.starts_with("crates/testkit/") && !is_test
}

/// Returns whether a comment is a drawing, which its arrows and columns show.
fn is_drawing(line: &str) -> bool {
    line.trim().contains("  ") || line.contains("->") || line.contains("--")
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

/// Returns the numbered lines of a document or of comments, except those in fenced code.
fn unfenced(text: &str) -> Vec<(usize, &str)> {
    let mut is_fenced = false;
    let is_prose = |(_, line): &(usize, &str)| {
        let is_fence = line.trim_start_matches([' ', '/', '!']).starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    };
    text.lines().enumerate().map(|(index, line)| (index + 1, line)).filter(is_prose).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(run: fn(&Tree) -> Vec<Fault>, files: &[(&str, &str)], expected: &[&str]) {
        let found: Vec<_> = run(&Tree::planted(files)).iter().map(Fault::to_string).collect();
        let matches = found.len() == expected.len()
            && found.iter().zip(expected).all(|(f, e)| f.starts_with(e));
        assert!(matches, "{found:?} is not {expected:?}");
    }

    #[test]
    fn words_in_documents_are_faults_outside_of_code() {
        let page = "It is read anew.\n```\nanew\n```\nHe reads\nthe renewal, the hero\n";
        check(
            banned,
            &[("README.md", page), ("NOTES.md", page)],
            &["README.md:1: `anew`", "README.md:5: `he`"],
        );
    }

    #[test]
    fn words_in_literals_are_faults_outside_of_tests() {
        let source = "// whose\nfn f() { log(\"whose anew\") }\n#[cfg(test)]\nmod t { fn g() \
                      { log(\"anew\") } }\n";
        check(
            banned,
            &[("crates/a/src/b.rs", source)],
            &["crates/a/src/b.rs:2: `anew`", "crates/a/src/b.rs:2: `whose`"],
        );
        check(banned, &[("crates/a/tests/b.rs", source)], &[]);
    }

    #[test]
    fn words_in_comments_of_the_product_are_faults_also_in_its_unit_tests() {
        let source = "// beside\nfn f() {}\n#[cfg(test)]\nmod t {\n    // anew\n}\n";
        check(
            banned,
            &[("crates/a/src/b.rs", source)],
            &["crates/a/src/b.rs:1: `beside`", "crates/a/src/b.rs:5: `anew`"],
        );
        check(banned, &[("xtask/src/b.rs", source)], &[]);
    }

    #[test]
    fn wide_lines_are_faults_outside_of_tables_and_addresses() {
        let wide = "a ".repeat(51);
        let page = format!("{wide}\n|{wide}|\nhttps://{wide}\n```\n{wide}\n```\n");
        check(wide_lines, &[("README.md", &page)], &["README.md:1: "]);
        let source = format!("// {wide}\nfn f() {{}}\n");
        check(wide_lines, &[("crates/a/src/b.rs", &source)], &["crates/a/src/b.rs:1: "]);
    }
}
