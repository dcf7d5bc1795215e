//! Shell completions and manual pages, generated from the definition of the command line.

use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::Cli;
use crate::error::CommandError;
use crate::output;

/// Writes the completions of a shell to standard output.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn completions(shell: Shell) -> Result<ExitCode, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "avocet", &mut script);
    output::write_data(&String::from_utf8_lossy(&script)).map(|_| ExitCode::SUCCESS)
}

/// Writes a page for each command, such as `avocet.1` and `avocet-serve.1`, to the directory.
/// Creates the directory if it does not exist.
///
/// # Errors
/// A page cannot be written.
pub(crate) fn manual(directory: &Path) -> Result<ExitCode, CommandError> {
    let created = std::fs::create_dir_all(directory);
    let written = created.and_then(|()| clap_mangen::generate_to(Cli::command(), directory));
    written.map_err(|source| CommandError::Directory { path: directory.to_owned(), source })?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn each_command_has_a_page_and_completions() {
        let directory = std::env::temp_dir()
            .join(format!("avocet-pages-{}", std::process::id()))
            .join("share/man1");
        manual(&directory).unwrap();
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            let page = std::fs::read_to_string(directory.join(format!("avocet-{name}.1"))).unwrap();
            assert!(page.contains(".TH"), "{name}");
            for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Cli::command(), "avocet", &mut script);
                assert!(String::from_utf8(script).unwrap().contains(name), "{shell} {name}");
            }
        }
        std::fs::remove_dir_all(directory.ancestors().nth(2).unwrap()).unwrap();
    }
}
