//! Checks that the figures in the documents come from the newest result, and that the commits of
//! all results are in the repository.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::{Fault, Tree};
use crate::bench::{commit_of, documents, output, shown};

const README: &str = "README.md";

/// Finds documents that differ from the newest result. Figures must not be edited by hand.
pub(super) fn out_of_date(tree: &Tree) -> Vec<Fault> {
    let readme = tree.text(README).unwrap_or_default();
    let results: Vec<_> = tree.texts().filter(|(path, _)| commit_of(path).is_some()).collect();
    let Some((result, text)) = shown(&results, readme) else {
        return Vec::new();
    };
    match documents(result, text, readme) {
        Err(error) => vec![Fault::of(result, error)],
        Ok(documents) => documents
            .into_iter()
            .filter(|(path, expected)| tree.text(path) != Some(expected))
            .map(|(path, _)| {
                let advice = "run `cargo xtask bench page`";
                Fault::of(&path, format!("differs from what {result} gives: {advice}"))
            })
            .collect(),
    }
}

/// Finds results of commits that are not in the history of this tree.
///
/// A shallow clone lacks most commits, and a tree without git has none: the check skips both.
pub(crate) fn foreign_results(root: &Path, tree: &Tree) -> Vec<Fault> {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(root);
        output(command).ok()
    };
    let is_whole =
        git(&["rev-parse", "--is-shallow-repository"]).is_some_and(|text| text.trim() == "false");
    match git(&["rev-list", "HEAD"]).filter(|_| is_whole) {
        Some(commits) => foreign(tree, &commits.lines().collect()),
        None => Vec::new(),
    }
}

fn foreign(tree: &Tree, commits: &BTreeSet<&str>) -> Vec<Fault> {
    let is_known =
        |short: &str| commits.range(short..).next().is_some_and(|commit| commit.starts_with(short));
    let results = tree.paths().filter_map(|path| Some((path, commit_of(path)?)));
    results
        .filter(|(_, commit)| !is_known(commit))
        .map(|(path, commit)| {
            Fault::of(
                path,
                format!("the commit {commit} is not in the repository: remove the file"),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_an_unknown_commit_is_a_fault() {
        let tree = Tree::planted(&[
            ("bench/results/2026-01-02-0a1b2c3-peers.json", ""),
            ("bench/results/2026-01-02-0a1b2c3-changed-micro.md", ""),
            ("bench/results/2026-01-02-9787b6b-instr.json", ""),
            ("bench/results/2026-01-02-uncommitted-peers.json", ""),
            ("bench/README.md", ""),
        ]);
        let commits = ["0a1b2c3d4e5f", "978aaaa00000"].into_iter().collect();
        let found: Vec<_> = foreign(&tree, &commits).iter().map(Fault::to_string).collect();
        assert_eq!(
            found,
            [
                "bench/results/2026-01-02-9787b6b-instr.json: the commit 9787b6b is not in the \
                 repository: remove the file",
                "bench/results/2026-01-02-uncommitted-peers.json: the commit uncommitted is not \
                 in the repository: remove the file",
            ]
        );
    }

    #[test]
    fn results_of_this_tree_have_known_commits() {
        let root = crate::root();
        let tree = Tree::read(&root).expect("the tree can be read");
        let faults = foreign_results(&root, &tree);
        assert!(faults.is_empty(), "{faults:?}");
    }

    #[test]
    fn edited_figures_are_a_fault() {
        let name = "bench/results/2026-01-02-0a1b2c3-publish.json";
        let result = "{\"date\": \"2026-01-02\", \"result\": {\"samples\": []}}";
        let readme = "<!-- figures: written by `cargo xtask bench page`, do not edit -->\n[x](bench/results/x.json)\n<!-- end of figures -->\n";
        let written = documents(name, result, readme).unwrap();
        let mut files: Vec<(&str, &str)> =
            written.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        files.push((name, result));
        assert_eq!(out_of_date(&Tree::planted(&files)), []);
        let edited = files.iter().position(|(path, _)| *path == README).unwrap();
        let text = files[edited].1.replace("2026-01-02 at", "2026-01-03 at");
        files[edited].1 = &text;
        let found: Vec<_> =
            out_of_date(&Tree::planted(&files)).iter().map(Fault::to_string).collect();
        assert_eq!(
            found,
            [format!("README.md: differs from what {name} gives: run `cargo xtask bench page`")]
        );
    }
}
