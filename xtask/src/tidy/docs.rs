//! The permitted files at the root, the targets of links, and the numbers of decision records.

use std::collections::BTreeSet;

use super::tree::resolve;
use super::{Fault, Tree};

/// All permitted files at the root, in the order in which a reader needs them.
const ROOT: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "GLOSSARY.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "Cargo.toml",
    "Cargo.lock",
    "clippy.toml",
    "deny.toml",
    "rustfmt.toml",
    "rust-toolchain.toml",
    "test",
    ".gitignore",
    ".gitattributes",
    ".cargo",
    ".ci",
    "crates",
    "ui",
    "xtask",
    "fuzz",
    "tests",
    "bench",
    "deploy",
    "docs",
];

const DECISIONS: &str = "docs/decisions/";

/// Finds unlisted files and directories at the root.
pub(super) fn root_files(tree: &Tree) -> Vec<Fault> {
    let names: BTreeSet<_> =
        tree.paths().map(|path| path.split('/').next().unwrap_or(path)).collect();
    let strangers = names.into_iter().filter(|name| !ROOT.contains(name));
    strangers
        .map(|name| {
            Fault::of(name, "the root holds only what xtask/src/tidy/docs.rs lists: find its place")
        })
        .collect()
}

/// Finds relative links in Markdown with missing targets.
pub(super) fn dead_links(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, text) in tree.ending(".md") {
        for (line, target) in links(text) {
            let file = target.split('#').next().unwrap_or_default();
            let leads = file.is_empty() || resolve(path, file).is_some_and(|file| tree.has(&file));
            if !leads {
                faults.push(Fault::at(path, line, format!("the link to `{target}` leads nowhere")));
            }
        }
    }
    faults
}

/// Returns the relative targets of the links on a page, except those in fenced and inline code.
fn links(text: &str) -> Vec<(usize, &str)> {
    let (mut found, mut fenced) = (Vec::new(), false);
    for (index, line) in text.lines().enumerate() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        let prose = line.split('`').step_by(2);
        let inline = prose.clone().flat_map(|part| {
            part.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next())
        });
        // Removing inline code may cut off the start of a link before its bracket.
        let after_code =
            prose.skip(1).filter_map(|part| part.strip_prefix("](")?.split([')', ' ']).next());
        let targets: BTreeSet<_> = inline.chain(after_code).collect();
        found.extend(
            targets
                .into_iter()
                .filter(|target| is_relative(target))
                .map(|target| (index + 1, target)),
        );
    }
    found
}

fn is_relative(target: &str) -> bool {
    !target.contains("://") && !target.starts_with("mailto:")
}

/// Checks that decision records are numbered consecutively from 0001.
pub(super) fn decision_numbers(tree: &Tree) -> Vec<Fault> {
    let names = tree
        .paths()
        .filter_map(|path| path.strip_prefix(DECISIONS))
        .filter(|name| *name != "README.md");
    let mut faults = Vec::new();
    for (index, name) in names.enumerate() {
        let wanted = format!("{:04}-", index + 1);
        if !name.starts_with(&wanted) || !name.ends_with(".md") {
            faults.push(Fault::of(
                &format!("{DECISIONS}{name}"),
                format!("the name of this decision starts with `{wanted}`"),
            ));
        }
    }
    faults
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
    fn a_stranger_at_the_root_is_a_fault() {
        check(
            root_files,
            &[("README.md", ""), ("STATUS.md", ""), ("tmp/a", "")],
            &["STATUS.md: ", "tmp: "],
        );
    }

    #[test]
    fn a_link_to_nowhere_is_a_fault() {
        let page = "[a](b.md) [c](../README.md#x) [d](#y) [e](https://a.test/)\n```\n[f](g.md)\n```\n`[h](i.md)`\n[`j`](k.md)\n";
        let files = [("docs/a.md", page), ("README.md", "")];
        check(
            dead_links,
            &files,
            &["docs/a.md:1: the link to `b.md`", "docs/a.md:6: the link to `k.md`"],
        );
    }

    #[test]
    fn a_gap_between_decisions_is_a_fault() {
        let files = [
            ("docs/decisions/README.md", ""),
            ("docs/decisions/0001-a.md", ""),
            ("docs/decisions/0003-b.md", ""),
        ];
        check(
            decision_numbers,
            &files,
            &["docs/decisions/0003-b.md: the name of this decision starts with `0002-`"],
        );
    }
}
