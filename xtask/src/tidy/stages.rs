//! The stages of the query path: the modules that each perform one step of answering a query. Only
//! the modules that run the whole path call stages; no stage calls another one.

use super::code::Code;
use super::{Fault, Tree};

/// The directory of the stages and their callers.
const FOLDER: &str = "crates/nameserver/src/query/";

/// The stages. `ARCHITECTURE.md` and the start of `query/mod.rs` show how the path calls them.
const STAGES: &[&str] = &[
    "admission",
    "chaos",
    "hosted",
    "judge",
    "local",
    "minimal_any",
    "packet",
    "pool",
    "rrsets",
    "special",
    "transfer",
];

/// The modules that call several stages. Stages must not import these modules either.
const PARENTS: &[&str] = &["late", "own", "path", "rehearsal", "signed"];

/// Finds stages that import another stage or one of [`PARENTS`], except in tests.
pub(super) fn imports(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for stage in STAGES {
        let path = format!("{FOLDER}{stage}.rs");
        let Some(text) = tree.text(&path) else {
            faults.push(Fault::of(&path, "a stage of the query path that is not there"));
            continue;
        };
        let code = Code::of(text);
        let tests = code.test_ranges();
        for other in STAGES.iter().chain(PARENTS).filter(|other| *other != stage) {
            let prefix = format!("{other}::");
            for at in code.words(&prefix).filter(|at| !tests.iter().any(|range| range.contains(at)))
            {
                let why = format!("the stage `{stage}` calls `{other}`: return a `Finding`");
                faults.push(Fault::at(&path, code.line(at), why));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_that_imports_another_is_found() {
        let files: Vec<(String, &str)> = STAGES
            .iter()
            .map(|stage| {
                let text = match *stage {
                    "judge" => "use super::packet::keep;\n",
                    "local" => {
                        "use super::alias::Alias;\n#[cfg(test)]\nmod tests {\n    use \
                                super::special::X;\n}\n"
                    }
                    _ => "fn look() {}\n",
                };
                (format!("{FOLDER}{stage}.rs"), text)
            })
            .collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let faults: Vec<_> =
            imports(&Tree::planted(&files)).iter().map(ToString::to_string).collect();
        assert_eq!(
            faults,
            ["crates/nameserver/src/query/judge.rs:1: the stage `judge` calls `packet`: return a \
              `Finding`"]
        );
        assert_eq!(imports(&Tree::planted(&files[1..])).len(), 2);
    }
}
