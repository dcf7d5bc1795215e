//! Sets `BUILD_VERSION`: the version of the package, with the commit that it is built from if git
//! knows it. `avocet --version` shows it, and results of benches keep it.

#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Files that a commit or a checkout changes, relative to the git directory.
const GIT_FILES: &[&str] = &["HEAD", "logs/HEAD"];
/// The sources of the binary outside of its package, relative to the root of the workspace.
const SOURCES: &[&str] = &["crates", "Cargo.toml", "Cargo.lock"];

fn main() {
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    // Without a git repository, or in a repository of other sources, only the version is known.
    let version = match commit() {
        Some(commit) => format!("{version} (commit {commit})"),
        None => version,
    };
    println!("cargo::rustc-env=BUILD_VERSION={version}");
}

/// Returns the commit of the tree, with a mark if sources differ from it. Tells cargo when to run
/// this script again.
fn commit() -> Option<String> {
    let own = PathBuf::from(env::var("CARGO_MANIFEST_DIR").ok()?);
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(&own).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    let top = git(&["rev-parse", "--show-toplevel"])?;
    let root = own.ancestors().find(|place| place.join("Cargo.lock").is_file())?;
    if fs::canonicalize(root).ok()? != fs::canonicalize(&top).ok()? {
        return None;
    }
    for file in GIT_FILES {
        look_again_after(&own.join(git(&["rev-parse", "--git-path", file])?));
    }
    let sources: Vec<_> = SOURCES.iter().map(|source| root.join(source)).collect();
    let sources = sources.iter().chain([&own]);
    sources.clone().for_each(|path| look_again_after(path));
    let commit = git(&["rev-parse", "--short", "HEAD"])?;
    // Without locks, so that git does not rewrite its index.
    let mut status = vec!["--no-optional-locks", "status", "--porcelain", "--"];
    status.extend(sources.filter_map(|path| path.to_str()));
    let changes = git(&status)?;
    Some(if changes.is_empty() { commit } else { format!("{commit}, changed") })
}

/// Runs this script again when the file changes. Cargo would always run it for a missing file.
fn look_again_after(path: &Path) {
    if path.exists() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}
