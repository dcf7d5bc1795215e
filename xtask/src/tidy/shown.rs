//! Checks that the tests in `tests/SECURITY.md` exist.

use std::collections::BTreeSet;

use super::{Fault, Tree};

const TABLE: &str = "tests/SECURITY.md";
const SCENARIOS: &str = "tests/scenarios/";

/// Finds names in the last column of the table that are neither a test nor a scenario.
pub(super) fn missing_tests(tree: &Tree) -> Vec<Fault> {
    let functions: BTreeSet<&str> =
        tree.ending(".rs").flat_map(|(_, text)| functions(text)).collect();
    let mut faults = Vec::new();
    for (_, text) in tree.ending(".md").filter(|(path, _)| *path == TABLE) {
        let rows = text.lines().enumerate().filter(|(_, line)| line.starts_with('|'));
        for (index, line) in rows {
            let tests = line.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
            for name in tests.split('`').skip(1).step_by(2) {
                let is_there = match name.ends_with(".rpl") {
                    true => tree.has(&format!("{SCENARIOS}{name}")),
                    false => functions.contains(name),
                };
                if !is_there {
                    faults.push(Fault::at(TABLE, index + 1, format!("there is no test `{name}`")));
                }
            }
        }
    }
    faults
}

/// Returns the names of the functions in a file.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        line.trim_start().trim_start_matches("pub(crate) ").strip_prefix("fn ")?.split('(').next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_is_named_and_not_there_is_a_fault() {
        let table =
            "| row | tests |\n|---|---|\n| S1 of `no_test` | `there`, `gone`, `a.rpl`, `b.rpl` |\n";
        let files =
            [(TABLE, table), ("a/b.rs", "    fn there() {\n"), ("tests/scenarios/a.rpl", "")];
        let found: Vec<_> =
            missing_tests(&Tree::planted(&files)).iter().map(Fault::to_string).collect();
        let expected = [
            "tests/SECURITY.md:3: there is no test `gone`",
            "tests/SECURITY.md:3: there is no test `b.rpl`",
        ];
        assert_eq!(found, expected);
    }
}
