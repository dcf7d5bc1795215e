//! Limits of the length of files and functions.

use super::code::Code;
use super::{Fault, Tree};

/// The list of exceptions: `path` for a long file, `path::function` for a long function. No entry
/// may be added.
const EXCEPTIONS: &str = "xtask/tidy/exceptions.txt";

/// Maximum number of lines of a file. A longer file must be split by topic.
const FILE_LINES: usize = 700;
/// Maximum number of lines of a function. A longer one contains a step that deserves its own name.
const FUNCTION_LINES: usize = 70;

/// Finds Rust files that are too long and have no exception.
pub(super) fn long_files(tree: &Tree) -> Vec<Fault> {
    let listed = tree.list(EXCEPTIONS);
    let unlisted = oversized_files(tree).filter(|(path, _)| !is_listed(&listed, path));
    unlisted
        .map(|(path, lines)| {
            Fault::of(&path, format!("{lines} lines; split it by idea ({FILE_LINES} allowed)"))
        })
        .collect()
}

/// Finds functions that are too long and have no exception.
pub(super) fn long_functions(tree: &Tree) -> Vec<Fault> {
    let listed = tree.list(EXCEPTIONS);
    let unlisted = oversized_functions(tree).filter(|long| !is_listed(&listed, &long.entry));
    let fault = |long: Oversized| {
        Fault::at(
            &long.path,
            long.line,
            format!("{} has {} lines ({FUNCTION_LINES} allowed)", long.entry, long.lines),
        )
    };
    unlisted.map(fault).collect()
}

/// Finds exceptions that are no longer needed.
pub(super) fn spent_exceptions(tree: &Tree) -> Vec<Fault> {
    let files = oversized_files(tree).map(|(path, _)| path);
    let needed: Vec<String> =
        files.chain(oversized_functions(tree).map(|long| long.entry)).collect();
    let spent = tree
        .list(EXCEPTIONS)
        .into_iter()
        .filter(|(_, entry)| !needed.iter().any(|need| need == entry));
    spent
        .map(|(line, entry)| {
            Fault::at(EXCEPTIONS, line, format!("`{entry}` is short enough: take it off the list"))
        })
        .collect()
}

/// A function over the limit, and its entry for the list of exceptions.
struct Oversized {
    path: String,
    entry: String,
    line: usize,
    lines: usize,
}

fn oversized_files(tree: &Tree) -> impl Iterator<Item = (String, usize)> {
    let measured = tree.ending(".rs").map(|(path, text)| (path.to_owned(), text.lines().count()));
    measured.filter(|(_, lines)| *lines > FILE_LINES)
}

fn oversized_functions(tree: &Tree) -> impl Iterator<Item = Oversized> {
    tree.ending(".rs").flat_map(|(path, text)| {
        let long = Code::of(text)
            .functions()
            .into_iter()
            .filter(|function| function.lines > FUNCTION_LINES);
        long.map(move |function| Oversized {
            path: path.to_owned(),
            entry: format!("{path}::{}", function.name),
            line: function.line,
            lines: function.lines,
        })
    })
}

fn is_listed(listed: &[(usize, &str)], entry: &str) -> bool {
    listed.iter().any(|(_, listed)| *listed == entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "crates/a/src/b.rs";

    fn long_function() -> String {
        format!("fn f() {{\n{}}}\n", "    g();\n".repeat(FUNCTION_LINES - 1))
    }

    #[test]
    fn a_long_file_is_a_fault_until_excepted() {
        let text = "// x\n".repeat(FILE_LINES + 1);
        assert_eq!(long_files(&Tree::planted(&[(FILE, &text)])).len(), 1);
        assert!(long_files(&Tree::planted(&[(FILE, &text), (EXCEPTIONS, FILE)])).is_empty());
        assert!(long_files(&Tree::planted(&[(FILE, &text[5..])])).is_empty());
    }

    #[test]
    fn a_long_function_is_a_fault_until_excepted() {
        let text = long_function();
        assert_eq!(long_functions(&Tree::planted(&[(FILE, &text)])).len(), 1);
        assert!(
            long_functions(&Tree::planted(&[
                (FILE, &text),
                (EXCEPTIONS, "crates/a/src/b.rs::f # why")
            ]))
            .is_empty()
        );
        assert!(
            long_functions(&Tree::planted(&[(FILE, &text.replacen("    g();\n", "", 1))]))
                .is_empty()
        );
    }

    #[test]
    fn an_exception_nothing_needs_is_a_fault() {
        let text = long_function();
        let list = "# functions\ncrates/a/src/b.rs::f\ncrates/a/src/b.rs\n";
        let found = spent_exceptions(&Tree::planted(&[(FILE, &text), (EXCEPTIONS, list)]));
        let wanted =
            Fault::at(EXCEPTIONS, 3, "`crates/a/src/b.rs` is short enough: take it off the list");
        assert_eq!(found, [wanted]);
    }
}
