//! The files that tidy checks, which are read once, and the faults that it finds.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fmt, fs, io};

/// A violation of a rule, with its place and the replacement.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    path: String,
    line: usize,
    message: String,
}

impl Fault {
    /// Returns a fault at a line. Lines are counted from 1.
    pub(super) fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }

    /// Returns a fault that concerns the whole file.
    pub(super) fn of(path: &str, message: impl Into<String>) -> Self {
        Self::at(path, 0, message)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Every file of the workspace by its path from the root, with `/` between the parts.
///
/// Files that `.gitignore` names and the directory `.git` are omitted. Files that are not UTF-8
/// have a path but no text.
pub(crate) struct Tree {
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads all files below `root`.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let ignored =
            Ignored::parse(&fs::read_to_string(root.join(".gitignore")).unwrap_or_default());
        let mut tree = Self { files: BTreeMap::new() };
        tree.read_directory(root, "", &ignored)?;
        Ok(tree)
    }

    fn read_directory(
        &mut self,
        directory: &Path,
        prefix: &str,
        ignored: &Ignored,
    ) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if ignored.covers(&name, &path) {
                continue;
            }
            if kind.is_dir() {
                self.read_directory(&entry.path(), &format!("{path}/"), ignored)?;
            } else {
                self.files.insert(path, String::from_utf8(fs::read(entry.path())?).ok());
            }
        }
        Ok(())
    }

    /// Returns a tree with the given paths and texts.
    #[cfg(test)]
    pub(super) fn planted(files: &[(&str, &str)]) -> Self {
        let own = |(path, text): &(&str, &str)| ((*path).to_owned(), Some((*text).to_owned()));
        Self { files: files.iter().map(own).collect() }
    }

    /// Returns all paths, in order.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Returns all texts with their paths, in order.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)))
    }

    /// Returns all texts with a path that ends in `end`, in order.
    pub(super) fn ending(&self, end: &str) -> impl Iterator<Item = (&str, &str)> {
        self.texts().filter(move |(path, _)| path.ends_with(end))
    }

    /// Returns the text at a path, or `None` if there is no such file or it is not text.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Returns whether there is a file or a directory at the path.
    pub(super) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let below = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.keys().any(|file| file.starts_with(&below))
    }

    /// Returns the entries of one of tidy's list files, one per line, with their line numbers. `#`
    /// starts a comment.
    pub(super) fn list(&self, path: &str) -> Vec<(usize, &str)> {
        let lines = self.text(path).unwrap_or_default().lines().enumerate();
        lines
            .map(|(index, line)| (index + 1, line.split('#').next().unwrap_or_default().trim()))
            .filter(|(_, entry)| !entry.is_empty())
            .collect()
    }
}

/// The part of the syntax of `.gitignore` that this tree uses: names at any depth, paths from the
/// root, and `*.ext`.
struct Ignored {
    patterns: Vec<String>,
}

impl Ignored {
    fn parse(text: &str) -> Self {
        let lines =
            text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut patterns: Vec<_> =
            lines.map(|line| line.trim_end_matches('/').to_owned()).collect();
        patterns.push(".git".to_owned());
        Self { patterns }
    }

    fn covers(&self, name: &str, path: &str) -> bool {
        self.patterns.iter().any(|pattern| {
            match (pattern.strip_prefix('*'), pattern.contains('/')) {
                (Some(end), _) => name.ends_with(end),
                (None, true) => pattern.trim_start_matches('/') == path,
                (None, false) => pattern == name,
            }
        })
    }
}

/// Joins a relative link to the directory of its file and resolves `.` and `..`.
///
/// Returns `None` if the result is outside of the tree.
pub(super) fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_names_paths_and_endings_are_left_out() {
        let ignored = Ignored::parse("target/\n/ui/dist\n*.profraw\n# target2\n");
        assert!(ignored.covers("target", "fuzz/target"));
        assert!(ignored.covers("dist", "ui/dist"));
        assert!(!ignored.covers("dist", "deploy/dist"));
        assert!(ignored.covers("a.profraw", "crates/a.profraw"));
        assert!(ignored.covers(".git", ".git"));
        assert!(!ignored.covers("target2", "target2"));
    }

    #[test]
    fn links_resolve_within_the_tree_only() {
        assert_eq!(resolve("docs/manual/a.md", "../b.md").as_deref(), Some("docs/b.md"));
        assert_eq!(resolve("README.md", "./docs/").as_deref(), Some("docs"));
        assert_eq!(resolve("README.md", "../x"), None);
    }
}
