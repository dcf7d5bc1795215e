//! Restricts `unsafe` to the crate `io` and a few listed files. All other crates must forbid it.

use super::code::Code;
use super::{Fault, Tree};

/// The files outside `crates/io` that may use `unsafe`, one per line.
const LIST: &str = "xtask/tidy/unsafe.txt";
const IO: &str = "crates/io/";
const FORBID: &str = "#![forbid(unsafe_code)]";

/// Finds `unsafe` outside of the listed files, and listed files that do not contain it.
pub(super) fn outside_list(tree: &Tree) -> Vec<Fault> {
    let listed = tree.list(LIST);
    let is_listed =
        |path: &str| path.starts_with(IO) || listed.iter().any(|(_, entry)| *entry == path);
    let mut faults = Vec::new();
    for (path, text) in tree.ending(".rs").filter(|(path, _)| !is_listed(path)) {
        let code = Code::of(text);
        let lines = code.words("unsafe").map(|at| code.line(at));
        faults.extend(lines.map(|line| Fault::at(path, line, "`unsafe` belongs to crates/io")));
    }
    let uses = |path: &str| {
        tree.text(path).is_some_and(|text| Code::of(text).words("unsafe").next().is_some())
    };
    let spent = listed.iter().filter(|(_, entry)| !uses(entry));
    faults.extend(spent.map(|(line, entry)| {
        Fault::at(LIST, *line, format!("`{entry}` needs no `unsafe`: take it off"))
    }));
    faults
}

/// Checks that each crate root forbids `unsafe`, except `io` and crates with listed files.
pub(super) fn forbidden_in_roots(tree: &Tree) -> Vec<Fault> {
    let listed = tree.list(LIST);
    let mut faults = Vec::new();
    for (manifest, _) in tree.ending("/Cargo.toml").filter(|(path, _)| !path.starts_with(IO)) {
        let sources = manifest.replace("Cargo.toml", "src/");
        if listed.iter().any(|(_, entry)| entry.starts_with(&sources)) {
            continue;
        }
        let (library, binary, more) =
            (format!("{sources}lib.rs"), format!("{sources}main.rs"), format!("{sources}bin/"));
        let roots = tree
            .ending(".rs")
            .filter(|(path, _)| *path == library || *path == binary || path.starts_with(&more));
        let free = roots.filter(|(_, text)| !Code::of(text).text().contains(FORBID));
        faults.extend(
            free.map(|(path, _)| Fault::of(path, format!("the crate root wants `{FORBID}`"))),
        );
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlisted_unsafe_is_a_fault() {
        let code = "// unsafe\nfn a() { unsafe { b() } }\n";
        let tree = Tree::planted(&[("crates/io/src/a.rs", code), ("crates/cache/src/a.rs", code)]);
        assert_eq!(
            outside_list(&tree),
            [Fault::at("crates/cache/src/a.rs", 2, "`unsafe` belongs to crates/io")]
        );
    }

    #[test]
    fn a_list_entry_nothing_needs_is_a_fault() {
        let files = [
            (LIST, "bench/a.rs\nbench/b.rs\n"),
            ("bench/a.rs", "unsafe fn a() {}"),
            ("bench/b.rs", "fn b() {}"),
        ];
        let wanted = Fault::at(LIST, 2, "`bench/b.rs` needs no `unsafe`: take it off");
        assert_eq!(outside_list(&Tree::planted(&files)), [wanted]);
    }

    #[test]
    fn a_root_that_does_not_forbid_is_a_fault() {
        let files = [
            ("crates/wire/Cargo.toml", ""),
            ("crates/wire/src/lib.rs", "//! #![forbid(unsafe_code)]\n"),
            ("crates/cache/Cargo.toml", ""),
            ("crates/cache/src/lib.rs", "#![forbid(unsafe_code)]\n"),
            ("crates/io/Cargo.toml", ""),
            ("crates/io/src/lib.rs", ""),
        ];
        let wanted =
            Fault::of("crates/wire/src/lib.rs", "the crate root wants `#![forbid(unsafe_code)]`");
        assert_eq!(forbidden_in_roots(&Tree::planted(&files)), [wanted]);
    }
}
