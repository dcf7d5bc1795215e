//! Files that no `mod` includes, so that they are never compiled.

use std::collections::BTreeSet;

use super::code::Code;
use super::tree::resolve;
use super::{Fault, Tree};

/// Finds `.rs` files below a manifest that are neither targets nor modules of a target.
pub(super) fn orphans(tree: &Tree) -> Vec<Fault> {
    let mut reached = BTreeSet::new();
    for (path, text) in tree.ending("Cargo.toml") {
        let mut waiting = targets(tree, path, text);
        while let Some(file) = waiting.pop() {
            if reached.insert(file.clone()) {
                waiting.extend(submodules(tree, &file));
            }
        }
    }
    let sources = tree.ending(".rs").filter(|(path, _)| !reached.contains(*path));
    sources
        .map(|(path, _)| {
            Fault::of(path, "no `mod` reaches this file: name it in its parent or delete it")
        })
        .collect()
}

/// Returns the crate roots of a manifest: the default ones and those that `path = ` names.
fn targets(tree: &Tree, manifest: &str, text: &str) -> Vec<String> {
    let home = manifest.trim_end_matches("Cargo.toml");
    let is_target = |path: &&str| {
        let Some(rest) = path.strip_prefix(home).and_then(|rest| rest.strip_suffix(".rs")) else {
            return false;
        };
        let parts: Vec<_> = rest.split('/').collect();
        matches!(
            parts[..],
            ["build"]
                | ["src", "lib" | "main"]
                | ["src", "bin", _]
                | ["tests" | "benches" | "examples", _]
                | ["tests" | "benches" | "examples", _, "main"]
        )
    };
    let named = text
        .split("path = \"")
        .skip(1)
        .filter_map(|rest| resolve(manifest, rest.split('"').next()?));
    tree.paths()
        .filter(is_target)
        .map(str::to_owned)
        .chain(named.filter(|path| path.ends_with(".rs")))
        .collect()
}

/// Returns the files to which `mod name;` and `include!` in a file refer.
fn submodules(tree: &Tree, file: &str) -> Vec<String> {
    let Some(source) = tree.text(file) else {
        return Vec::new();
    };
    let code = Code::of(source);
    let mut found = Vec::new();
    for at in code.words("mod") {
        let name = code.identifier_after(at + 3);
        let after = code.text()[at + 3..].trim_start().strip_prefix(name).unwrap_or_default();
        if name.is_empty() || !after.trim_start().starts_with(';') {
            continue;
        }
        match path_attribute(source, at) {
            Some(path) => found.extend(resolve(file, path)),
            None => found.extend(candidates(file, name).into_iter().filter(|path| tree.has(path))),
        }
    }
    let included = source
        .split("include!(\"")
        .skip(1)
        .filter_map(|rest| resolve(file, rest.split('"').next()?));
    found.extend(included);
    found
}

/// Returns the value of a `#[path = "..."]` that belongs to the `mod` at `at`.
fn path_attribute(source: &str, at: usize) -> Option<&str> {
    let item = source[..at].rsplit([';', '}']).next()?;
    item.split("#[path = \"").nth(1)?.split('"').next()
}

/// Returns the paths at which the compiler searches for the module `name` of a file.
fn candidates(file: &str, name: &str) -> [String; 2] {
    let stem = file.trim_end_matches(".rs");
    let (directory, last) = stem.rsplit_once('/').unwrap_or(("", stem));
    let crate_roots = ["src", "src/bin", "tests", "benches", "examples"];
    let is_root = crate_roots
        .iter()
        .any(|root| directory == *root || directory.ends_with(&format!("/{root}")))
        && (!directory.ends_with("src") || matches!(last, "lib" | "main"));
    let base = if is_root || matches!(last, "mod" | "main") { directory } else { stem };
    [format!("{base}/{name}.rs"), format!("{base}/{name}/mod.rs")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let found: Vec<_> =
            orphans(&Tree::planted(files)).into_iter().map(|fault| fault.to_string()).collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|path| {
                format!("{path}: no `mod` reaches this file: name it in its parent or delete it")
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_file_no_module_names_is_a_fault() {
        check(
            &[
                ("crates/a/Cargo.toml", ""),
                ("crates/a/src/lib.rs", "mod b;\n// mod d;\n"),
                ("crates/a/src/b.rs", "pub(crate) mod c;"),
                ("crates/a/src/b/c.rs", ""),
                ("crates/a/src/d.rs", ""),
                ("crates/a/tests/t.rs", ""),
            ],
            &["crates/a/src/d.rs"],
        );
    }

    #[test]
    fn paths_in_manifests_and_attributes_are_followed() {
        check(
            &[
                (
                    "crates/a/Cargo.toml",
                    "[[test]]\nname = \"t\"\npath = \"../../tests/regression/t.rs\"\n",
                ),
                ("crates/a/src/lib.rs", "#[path = \"x/y.rs\"]\nmod z;\nmod w;"),
                ("crates/a/src/x/y.rs", ""),
                ("crates/a/src/w/mod.rs", "mod v;"),
                ("crates/a/src/w/v.rs", ""),
                ("tests/regression/t.rs", "mod u;"),
                ("tests/regression/t/u.rs", ""),
                ("tests/regression/lost.rs", ""),
            ],
            &["tests/regression/lost.rs"],
        );
    }
}
