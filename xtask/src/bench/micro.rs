//! The table of single operations. Builds the bench, runs it and stores the table.

use std::process::Command;

use super::load::output;
use super::machine;
use super::options::Options;
use super::process::target_directory;

const PACKAGE: &str = "avocet-bench-micro";
/// The build profile. It is almost as fast as the release profile, and much quicker to link.
const PROFILE: &str = "bench-quick";

/// Prints the rows of the table that the options select, and stores them.
pub(super) fn run(options: &Options) -> Result<(), String> {
    if options.build {
        let mut build = Command::new("cargo");
        build
            .args(["build", "--quiet", "--profile", PROFILE, "--package", PACKAGE])
            .current_dir(crate::root());
        output(build)?;
    }
    let binary = target_directory().join(PROFILE).join(PACKAGE);
    let mut text = String::new();
    let rows = options.only.as_deref().unwrap_or_default();
    for words in [&["table", rows][..], &["octets"]] {
        let mut command = Command::new(&binary);
        command.args(words);
        let printed = output(command)? + "\n";
        print!("{printed}");
        text.push_str(&printed);
    }
    machine::write("micro", "md", &text).map(drop)
}
