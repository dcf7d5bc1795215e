//! Names that have no meaning or that describe history.

use super::code::Code;
use super::{Fault, Tree};

const BANNED: &[&str] = &[
    "manager",
    "handler",
    "helper",
    "util",
    "common",
    "misc",
    "engine",
    "processor",
    "v2",
    "new",
    "old",
    "fast",
    "optimized",
    "unified",
];

/// Keywords that are followed by the name of a type or a module.
const DECLARATIONS: &[&str] = &["struct", "enum", "trait", "union", "type", "mod"];

/// Finds banned words in the names of files, directories, types and modules.
pub(super) fn banned(tree: &Tree) -> Vec<Fault> {
    let mut faults: Vec<_> =
        tree.paths().filter(|path| !is_foreign(path)).filter_map(banned_path).collect();
    for (path, text) in tree.ending(".rs") {
        let code = Code::of(text);
        for keyword in DECLARATIONS {
            for at in code.words(keyword) {
                let name = code.identifier_after(at + keyword.len());
                faults.extend(
                    banned_word(name)
                        .map(|word| Fault::at(path, code.line(at), advice(name, word))),
                );
            }
        }
    }
    faults
}

/// Returns whether a file has a foreign name: scenarios keep their original names.
fn is_foreign(path: &str) -> bool {
    path.starts_with("tests/scenarios/") || path.starts_with("fuzz/corpus/")
}

fn banned_path(path: &str) -> Option<Fault> {
    let parts = path.split('/').map(|part| part.split('.').next().unwrap_or(part));
    let found = parts.filter_map(|part| Some((part, banned_word(part)?))).next();
    found.map(|(part, word)| Fault::of(path, advice(part, word)))
}

fn advice(name: &str, word: &str) -> String {
    format!("`{name}`: name it by what it is in the words of RFC 9499, not `{word}`")
}

/// Returns the first banned word of a name in snake, kebab or camel case. Also finds plurals.
fn banned_word(name: &str) -> Option<&'static str> {
    let segments = segments(name);
    BANNED.iter().copied().find(|word| {
        segments.iter().any(|segment| {
            segment == word || segment.strip_suffix('s').is_some_and(|one| one == *word)
        })
    })
}

/// Returns the words of a name in lower case. For example, `RrsetKey_v2` gives `rrset`, `key` and
/// `v2`.
fn segments(name: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut previous = '_';
    for c in name.chars() {
        let starts = c.is_uppercase() && !previous.is_uppercase();
        if !c.is_alphanumeric() || starts || found.is_empty() {
            found.push(String::new());
        }
        if let Some(last) = found.last_mut().filter(|_| c.is_alphanumeric()) {
            last.extend(c.to_lowercase());
        }
        previous = c;
    }
    found.retain(|segment| !segment.is_empty());
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &[&str]) {
        let found: Vec<_> =
            banned(&Tree::planted(&[(path, text)])).iter().map(Fault::to_string).collect();
        let matches = found.len() == expected.len()
            && found.iter().zip(expected).all(|(f, e)| f.starts_with(e));
        assert!(matches, "{found:?} is not {expected:?}");
    }

    #[test]
    fn segments_follow_case_and_separators() {
        assert_eq!(segments("RrsetKey_v2"), ["rrset", "key", "v2"]);
        assert_eq!(segments("TCPStream-new"), ["tcpstream", "new"]);
    }

    #[test]
    fn banned_files_and_directories_are_faults() {
        check("crates/a/src/server_new.rs", "", &["crates/a/src/server_new.rs: `server_new`"]);
        check("crates/utils/src/lib.rs", "", &["crates/utils/src/lib.rs: `utils`"]);
        check("docs/manual/renewal.md", "", &[]);
        check("tests/scenarios/a/cname_old.rpl", "", &[]);
    }

    #[test]
    fn banned_types_and_modules_are_faults() {
        let text =
            "struct QueryHandler;\nenum Newt {}\n// struct Helper\nmod common {}\nfn new() {}\n";
        check("src/a.rs", text, &["src/a.rs:1: `QueryHandler`", "src/a.rs:4: `common`"]);
    }
}
