//! The age of binaries that a bench does not build itself. The figures of an outdated binary would
//! be stored under a newer commit.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;
use std::{fs, io};

use super::load::output;

/// Refuses a binary that is older than one of its sources, which are given as git pathspecs.
///
/// # Errors
///
/// The binary is older, or the sources cannot be listed.
pub(super) fn refuse_older(binary: &Path, sources: &[&str]) -> Result<(), String> {
    let root = crate::root();
    let mut command = Command::new("git");
    command.args(["ls-files", "-z", "--"]).args(sources).current_dir(&root);
    let files = output(command)?;
    let is_source = |name: &&str| !name.contains("/tests/") && !name.is_empty();
    let paths = files.split('\0').filter(is_source).map(|name| root.join(name));
    let newer =
        newer_source(binary, paths).map_err(|error| format!("{}: {error}", binary.display()))?;
    newer.map_or(Ok(()), |source| {
        let source = source.strip_prefix(&root).unwrap_or(&source);
        Err(format!(
            "{} is older than {}: leave --no-build away",
            binary.display(),
            source.display()
        ))
    })
}

/// Returns the newest source if it is newer than the binary. Ignores sources that were removed.
fn newer_source(
    binary: &Path,
    sources: impl Iterator<Item = PathBuf>,
) -> io::Result<Option<PathBuf>> {
    let built = written(binary)?;
    let newest = sources.filter_map(|path| Some((written(&path).ok()?, path))).max();
    Ok(newest.filter(|(changed, _)| built < *changed).map(|(_, path)| path))
}

fn written(path: &Path) -> io::Result<SystemTime> {
    fs::metadata(path)?.modified()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::time::Duration;

    /// Files of this test run, deleted at its end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let name = format!("xtask-age-{}-{name}", std::process::id());
            let directory = std::env::temp_dir().join(name);
            fs::create_dir_all(&directory).unwrap();
            Self(directory)
        }

        fn write(&self, name: &str, secs: u64) -> PathBuf {
            let path = self.0.join(name);
            let file = File::create(&path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(secs)).unwrap();
            path
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_binary_must_not_be_older_than_its_newest_source() {
        let scratch = Scratch::new("newest");
        let sources = [("a.rs", 100), ("b.rs", 300), ("c.rs", 200)]
            .map(|(name, secs)| scratch.write(name, secs));
        let check = |built, expected: Option<&PathBuf>| {
            let binary = scratch.write("program", built);
            let found = newer_source(&binary, sources.iter().cloned()).unwrap();
            assert_eq!(found.as_ref(), expected, "built at {built}");
        };
        check(299, Some(&sources[1]));
        check(300, None);
        check(301, None);
        let removed = [scratch.0.join("removed.rs")];
        let binary = scratch.write("program", 1);
        assert_eq!(newer_source(&binary, removed.into_iter()).unwrap(), None);
        assert!(newer_source(&scratch.0.join("absent"), sources.into_iter()).is_err());
    }

    #[test]
    fn the_error_names_the_binary_and_a_source_of_this_tree() {
        let scratch = Scratch::new("tree");
        let sources = &["bench/bare", "Cargo.lock"];
        let error = refuse_older(&scratch.write("avocet", 1), sources).unwrap_err();
        assert!(error.contains("avocet is older than "), "{error}");
        assert!(error.contains("bench/bare/") || error.contains("Cargo.lock"), "{error}");
        assert!(error.ends_with("leave --no-build away"), "{error}");
        let future = SystemTime::now() + Duration::from_secs(3600);
        let secs = future.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        assert_eq!(refuse_older(&scratch.write("avocet", secs), sources), Ok(()));
    }
}
