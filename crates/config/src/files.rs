//! The files that a configuration names. Messages of the server show parts of the files that it
//! reads. Therefore, the right to change the configuration alone does not permit every file.

use std::collections::HashSet;
use std::env;
use std::path::{self, Component, Path, PathBuf};

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum FileContent {
    /// Text or data that is not secret, so messages may show parts of it.
    Open,
    /// A secret, or a certificate that may be in one file with its key.
    Secret,
}

/// The files that a configuration names, and its directory.
#[derive(Debug, Default)]
pub struct NamedFiles {
    directory: PathBuf,
    files: HashSet<(PathBuf, FileContent)>,
}

impl NamedFiles {
    /// Creates the set of a configuration in this directory.
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), files: HashSet::new() }
    }

    /// Adds a file, and returns its path. A relative path is relative to the configuration file.
    pub(super) fn add(&mut self, written: &Path, content: FileContent) -> PathBuf {
        let path = self.directory.join(written);
        // A path that cannot be made absolute is below no directory.
        self.files.insert((absolute(&path).unwrap_or_else(|| path.clone()), content));
        path
    }

    /// Returns the files that `before` does not name in the same way, and that need the right to
    /// change access: files outside the directory of the configuration, files in a directory `data`
    /// below it, except its zones, and files with secrets that are named as other files.
    #[must_use]
    pub fn foreign(&self, before: &Self, data: &Path) -> Vec<&Path> {
        let is_in = |file: &Path, directory: &Option<PathBuf>| {
            directory.as_ref().is_some_and(|directory| file.starts_with(directory))
        };
        let (directory, data) = (absolute(&self.directory), absolute(data));
        let zones = data.as_ref().map(|data| data.join("zones"));
        let inner = data.filter(|data| is_in(data, &directory) && Some(data) != directory.as_ref());
        let is_own = |file: &Path| {
            let is_direct = !file.components().any(|part| part == Component::ParentDir);
            let is_near = is_in(file, &directory) && !is_in(file, &inner);
            is_direct && (is_near || is_in(file, &zones))
        };
        let is_secret = |file: &Path| {
            let secret = (file.to_owned(), FileContent::Secret);
            before.files.contains(&secret) || self.files.contains(&secret)
        };
        let added = self.files.iter().filter(|one| !before.files.contains(one));
        let needs_right = |(file, content): &&(PathBuf, FileContent)| {
            !is_own(file) || (*content == FileContent::Open && is_secret(file))
        };
        let mut found: Vec<_> = added.filter(needs_right).map(|(file, _)| &**file).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Returns the absolute path, without following links; `None` if it is relative and there is no
/// working directory. The empty path, which is the directory of a file without one, is the working
/// directory.
fn absolute(path: &Path) -> Option<PathBuf> {
    match path.as_os_str().is_empty() {
        true => env::current_dir().ok(),
        false => path::absolute(path).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(files: &[(&str, FileContent)]) -> NamedFiles {
        let mut named = NamedFiles::new(Path::new("/etc/avocet"));
        for (file, content) in files {
            named.add(Path::new(file), *content);
        }
        named
    }

    #[track_caller]
    fn check(before: &[(&str, FileContent)], after: &[(&str, FileContent)], expected: &[&str]) {
        let (before, after) = (named(before), named(after));
        let found = after.foreign(&before, Path::new("/var/lib/avocet"));
        assert_eq!(found, expected.iter().map(Path::new).collect::<Vec<_>>());
    }

    #[test]
    fn new_files_outside_the_own_directories_are_found() {
        use FileContent::{Open, Secret};
        check(&[], &[("hosts", Open), ("./lists/ads", Open), ("dns.key", Secret)], &[]);
        check(&[], &[("/var/lib/avocet/zones/a.zone", Open)], &[]);
        check(&[], &[("/var/lib/avocet/users.json", Open)], &["/var/lib/avocet/users.json"]);
        check(&[], &[("/etc/shadow", Open)], &["/etc/shadow"]);
        check(&[], &[("../shadow", Open)], &["/etc/avocet/../shadow"]);
        check(&[], &[("/etc/avocet-other/a", Open)], &["/etc/avocet-other/a"]);
        check(&[("/etc/hosts", Open)], &[("/etc/hosts", Open)], &[]);
        check(&[("/etc/hosts", Open)], &[], &[]);
    }

    #[test]
    fn files_of_the_server_below_the_configuration_are_found() {
        let mut named = NamedFiles::new(Path::new("."));
        for file in ["ads", "data/access.json", "data/zones/a.zone", "data-2/ads"] {
            named.add(Path::new(file), FileContent::Open);
        }
        let none = NamedFiles::new(Path::new("."));
        let found = named.foreign(&none, Path::new("./data"));
        assert_eq!(found, [env::current_dir().unwrap().join("data/access.json")]);
        assert!(named.foreign(&none, Path::new(".")).is_empty());
    }

    #[test]
    fn a_configuration_without_a_directory_is_in_the_working_directory() {
        for directory in ["", ".", "./", "conf"] {
            let mut named = NamedFiles::new(Path::new(directory));
            named.add(Path::new("hosts"), FileContent::Open);
            named.add(Path::new("/etc/shadow"), FileContent::Open);
            named.add(Path::new("../shadow"), FileContent::Open);
            let none = NamedFiles::new(Path::new(directory));
            let found = named.foreign(&none, Path::new("data"));
            assert_eq!(found.len(), 2, "{directory:?}: {found:?}");
            assert!(found.iter().all(|file| file.ends_with("shadow")), "{found:?}");
        }
    }

    #[test]
    fn secrets_are_not_named_as_files_with_visible_content() {
        use FileContent::{Open, Secret};
        let key = "/etc/avocet/dns.key";
        check(&[(key, Secret)], &[("dns.key", Open)], &[key]);
        check(&[], &[("dns.key", Open), ("dns.key", Secret)], &[key]);
        check(&[("/key", Secret)], &[("/key", Open), ("/key", Secret)], &["/key"]);
        check(&[("/key", Open)], &[("/key", Open), ("/key", Secret)], &["/key"]);
    }
}
