//! Runs the benches in the directories of the crates one after the other and stores their output.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::load::output;
use super::machine;
use super::options::Options;

/// Runs the benches of every crate that the options select.
pub(super) fn run(options: &Options) -> Result<(), String> {
    let mut text = String::new();
    for (package, bench) in benches(&crate::root().join("crates"))? {
        let pair = format!("{package}/{bench}");
        if options.only.as_ref().is_some_and(|only| !pair.contains(only.as_str())) {
            continue;
        }
        let mut command = Command::new("cargo");
        command
            .args(["bench", "--quiet", "--package", &package, "--bench", &bench])
            .current_dir(crate::root());
        let printed = format!("== {pair}\n{}\n", output(command)?);
        print!("{printed}");
        text.push_str(&printed);
    }
    if text.is_empty() {
        Err("no bench has such a name".to_owned())
    } else {
        machine::write("crates", "txt", &text).map(drop)
    }
}

/// Returns the packages and their benches, in order.
fn benches(crates: &Path) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    for directory in names(crates)? {
        let package = match directory.as_str() {
            // The package of the crate `server` has the name of the product, without a suffix.
            "server" => "avocet".to_owned(),
            library => format!("avocet-{library}"),
        };
        let benches = crates.join(&directory).join("benches");
        if benches.is_dir() {
            let files = names(&benches)?.into_iter();
            let stems = files.filter_map(|file| file.strip_suffix(".rs").map(str::to_owned));
            found.extend(stems.map(|bench| (package.clone(), bench)));
        }
    }
    Ok(found)
}

/// Returns the names in a directory, in order.
fn names(directory: &Path) -> Result<Vec<String>, String> {
    let entries =
        fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut found: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    found.sort();
    Ok(found)
}
