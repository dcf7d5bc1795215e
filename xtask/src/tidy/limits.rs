//! Each limit must be defined once. No crate defines `MAX_...` under the name of a limit that
//! another crate exports. It imports that limit, or defines a different limit under another name.

use std::collections::BTreeMap;

use super::{Fault, Tree};

/// Reference implementations for tests, which share no definition with the code under test.
const ORACLES: &str = "crates/testkit/";

/// A definition of a limit.
struct Limit<'a> {
    name: &'a str,
    path: &'a str,
    line: usize,
    exported: bool,
}

impl Limit<'_> {
    fn crate_name(&self) -> &str {
        self.path.split('/').nth(1).unwrap_or(self.path)
    }
}

/// Finds limits with the name of a limit that another crate exports.
pub(super) fn defined_twice(tree: &Tree) -> Vec<Fault> {
    let mut limits: BTreeMap<&str, Vec<Limit<'_>>> = BTreeMap::new();
    for limit in tree.ending(".rs").flat_map(|(path, text)| in_file(path, text)) {
        limits.entry(limit.name).or_default().push(limit);
    }
    limits.values().flat_map(|same| twins(same)).collect()
}

fn twins(same: &[Limit<'_>]) -> Vec<Fault> {
    let Some(exported) = same.iter().find(|limit| limit.exported) else { return Vec::new() };
    let others = same.iter().filter(|limit| limit.crate_name() != exported.crate_name());
    let fault = |limit: &Limit<'_>| {
        let why = format!(
            "`{}` is also a limit of `{}`: import that one, or give this one a name of its own",
            limit.name,
            exported.crate_name()
        );
        Fault::at(limit.path, limit.line, why)
    };
    others.map(fault).collect()
}

/// Returns the limits that a file of a crate defines outside of tests.
fn in_file<'a>(path: &'a str, text: &'a str) -> Vec<Limit<'a>> {
    let is_product = path.starts_with("crates/") && path.contains("/src/");
    if !is_product || path.starts_with(ORACLES) || path.contains("/tests") {
        return Vec::new();
    }
    let tests = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let code = &text[..tests];
    code.lines().enumerate().filter_map(|(number, line)| limit(path, number + 1, line)).collect()
}

fn limit<'a>(path: &'a str, line: usize, text: &'a str) -> Option<Limit<'a>> {
    let (visibility, declaration) = text.trim_start().split_once("const ")?;
    let (name, _) = declaration.split_once(':')?;
    let is_visibility = visibility.is_empty() || visibility.starts_with("pub");
    let exported = visibility == "pub ";
    (is_visibility && name.starts_with("MAX_")).then_some(Limit { name, path, line, exported })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_another_crate_is_not_defined_a_second_time() {
        let tree = Tree::planted(&[
            ("crates/policy/src/rule.rs", "pub const MAX_RULES: usize = 100;\n"),
            ("crates/config/src/a.rs", "use a;\nconst MAX_RULES: usize = 20;\n"),
            ("crates/io/src/a.rs", "const MAX_READS: usize = 20;\n"),
            ("crates/load/src/a.rs", "pub(crate) const MAX_READS: usize = 30;\n"),
            ("crates/testkit/src/a.rs", "const MAX_RULES: usize = 3;\n"),
        ]);
        let faults = defined_twice(&tree);
        let [fault] = &faults[..] else { panic!("{faults:?}") };
        assert!(fault.to_string().starts_with("crates/config/src/a.rs:2: `MAX_RULES`"), "{fault}");
    }
}
