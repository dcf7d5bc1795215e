//! Tidy: the rules of CONTRIBUTING.md that a machine can check, run as tests by `cargo test -p
//! xtask`.
//!
//! Every check is a function that returns the [`Fault`]s of a [`Tree`], so that a small tree
//! suffices to test it. Tidy never changes a file.

mod calls;
mod code;
mod crates;
mod docs;
mod errors;
mod figures;
mod limits;
mod manifest;
mod modules;
mod names;
mod shown;
mod size;
mod stages;
mod text;
mod tree;
mod unsafety;
mod words;

pub(crate) use figures::foreign_results;
pub(crate) use tree::{Fault, Tree};

/// A check, with the name for its test and its report.
struct Check {
    name: &'static str,
    run: fn(&Tree) -> Vec<Fault>,
}

const CHECKS: &[Check] = &[
    Check { name: "crate directions", run: crates::directions },
    Check { name: "crates without input and output", run: crates::pure_dependencies },
    Check { name: "dependencies by the workspace", run: crates::declared_once },
    Check { name: "a reason beside each dependency", run: crates::reasons },
    Check { name: "orphan files", run: modules::orphans },
    Check { name: "stages of the query path", run: stages::imports },
    Check { name: "limits defined twice", run: limits::defined_twice },
    Check { name: "texts as errors", run: errors::as_text },
    Check { name: "long files", run: size::long_files },
    Check { name: "long functions", run: size::long_functions },
    Check { name: "exceptions still needed", run: size::spent_exceptions },
    Check { name: "names", run: names::banned },
    Check { name: "calls", run: calls::banned },
    Check { name: "ignored tests", run: calls::ignored_tests },
    Check { name: "unsafe outside its list", run: unsafety::outside_list },
    Check { name: "unsafe forbidden in every root", run: unsafety::forbidden_in_roots },
    Check { name: "root allow-list", run: docs::root_files },
    Check { name: "links", run: docs::dead_links },
    Check { name: "tests that are named", run: shown::missing_tests },
    Check { name: "figures", run: figures::out_of_date },
    Check { name: "decisions in order", run: docs::decision_numbers },
    Check { name: "unfinished marks", run: text::unfinished_marks },
    Check { name: "machine paths", run: text::machine_paths },
    Check { name: "registries", run: text::registries },
    Check { name: "words", run: words::banned },
    Check { name: "wide lines", run: words::wide_lines },
];

/// Runs every check over the tree and returns one report line per fault.
pub(crate) fn report(tree: &Tree) -> Vec<String> {
    let faults_of = |check: &Check| {
        (check.run)(tree)
            .into_iter()
            .map(|fault| format!("{}: {fault}", check.name))
            .collect::<Vec<_>>()
    };
    CHECKS.iter().flat_map(faults_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let tree = Tree::read(&crate::root()).expect("the tree can be read");
        let report = report(&tree);
        assert!(report.is_empty(), "\n{}\n", report.join("\n"));
    }

    #[test]
    fn a_report_names_check_file_and_line() {
        let tree = Tree::planted(&[(
            "crates/wire/src/lib.rs",
            "#![forbid(unsafe_code)]\n#[ignore]\nfn a() {}\n",
        )]);
        let wanted = "ignored tests: crates/wire/src/lib.rs:2: ";
        assert!(report(&tree).iter().any(|line| line.starts_with(wanted)));
    }
}
