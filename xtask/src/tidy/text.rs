//! Texts that no file may contain: marks of unfinished work, paths of one machine, and private
//! registries.

use super::code::is_word;
use super::{Fault, Tree};

/// The directory of tidy, which must itself contain the banned texts.
const TIDY: &str = "xtask/src/tidy/";

const UNFINISHED: &[&str] = &["TODO", "FIXME", "XXX"];
const MACHINE_PATHS: &[&str] = &["/root/", "/work/", "/home/"];

/// The permitted sources of packages, in the form in which lock files contain them.
const REGISTRIES: &[&str] =
    &["registry+https://github.com/rust-lang/crates.io-index", "https://registry.npmjs.org/"];
/// The keys with which lock files and settings name a registry.
const REGISTRY_MARKS: &[&str] =
    &["source = \"", "\"resolved\": \"", "registry=", "replace-with = \"", "registry = \""];
/// The files in which these keys name a registry.
const PACKAGE_FILES: &[&str] = &[
    "Cargo.lock",
    "Cargo.toml",
    ".cargo/config.toml",
    "package-lock.json",
    "package.json",
    ".npmrc",
];

/// Finds marks of work left for later.
pub(super) fn unfinished_marks(tree: &Tree) -> Vec<Fault> {
    let is_whole = |line: &str, word: &str| {
        line.match_indices(word).any(|(at, _)| {
            let bytes = line.as_bytes();
            let before = at.checked_sub(1).is_some_and(|index| is_word(bytes[index]));
            !before && !bytes.get(at + word.len()).is_some_and(|byte| is_word(*byte))
        })
    };
    lines(tree, |line| {
        let word = UNFINISHED.iter().find(|word| is_whole(line, word))?;
        Some(format!("`{word}`: finish it, or write it down where work is planned"))
    })
}

/// Finds paths that exist only on one machine.
pub(super) fn machine_paths(tree: &Tree) -> Vec<Fault> {
    lines(tree, |line| {
        let path = MACHINE_PATHS.iter().find(|path| line.contains(**path))?;
        Some(format!("`{path}` is a path of one machine"))
    })
}

/// Finds packages that do not come from the public registries.
pub(super) fn registries(tree: &Tree) -> Vec<Fault> {
    let is_package_file = |path: &str| {
        PACKAGE_FILES.iter().any(|file| path == *file || path.ends_with(&format!("/{file}")))
    };
    let foreign = |line: &str| {
        let rest = REGISTRY_MARKS.iter().find_map(|mark| line.split(mark).nth(1))?;
        let known = REGISTRIES.iter().any(|registry| rest.starts_with(registry));
        (!known).then(|| "packages come from the public registries only".to_owned())
    };
    let mut faults = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| is_package_file(path)) {
        let numbered = text.lines().enumerate();
        faults.extend(
            numbered.filter_map(|(index, line)| Some(Fault::at(path, index + 1, foreign(line)?))),
        );
    }
    faults
}

/// Applies a check to every line of every file except those of tidy.
fn lines(tree: &Tree, check: impl Fn(&str) -> Option<String>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| !path.starts_with(TIDY)) {
        let numbered = text.lines().enumerate();
        faults.extend(
            numbered.filter_map(|(index, line)| Some(Fault::at(path, index + 1, check(line)?))),
        );
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(run: fn(&Tree) -> Vec<Fault>, path: &str, text: &str, lines: &[usize]) {
        let found: Vec<_> =
            run(&Tree::planted(&[(path, text)])).iter().map(Fault::to_string).collect();
        let matches =
            found.iter().zip(lines).all(|(f, line)| f.starts_with(&format!("{path}:{line}: ")));
        assert!(found.len() == lines.len() && matches, "{found:?} is not at {lines:?}");
    }

    #[test]
    fn marks_of_unfinished_work_are_faults() {
        check(unfinished_marks, "a.md", "mktemp XXXXXX\nTODO: more\na FIXME\n", &[2, 3]);
    }

    #[test]
    fn paths_of_one_machine_are_faults() {
        check(machine_paths, "a.sh", "cd /home/me/x\ncd /tmp/x\n", &[1]);
    }

    #[test]
    fn packages_from_elsewhere_are_faults() {
        let lock = "source = \"registry+https://github.com/rust-lang/crates.io-index\"\nsource = \"git+https://a.test/b\"\n";
        check(registries, "Cargo.lock", lock, &[2]);
        check(
            registries,
            "ui/package-lock.json",
            "\"resolved\": \"https://registry.npmjs.org/a\",\n\"resolved\": \"https://a.test/b\"\n",
            &[2],
        );
        check(
            registries,
            ".cargo/config.toml",
            "[source.crates-io]\nreplace-with = \"mirror\"\n",
            &[2],
        );
    }
}
