//! The path of the configuration file, for commands without one in their arguments.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, io};

/// The variable that names the file.
const VARIABLE: &str = "AVOCET_CONFIG";
/// The file of a server that runs as a service.
const STANDARD: &str = "/etc/avocet/avocet.toml";

/// Returns the configuration file of a command: the given file, otherwise the file that
/// `AVOCET_CONFIG` names, otherwise `/etc/avocet/avocet.toml` if it exists. `None` means that all
/// settings have their defaults. An empty variable selects `None`.
pub fn find(given: Option<&Path>) -> Option<PathBuf> {
    choose(given, env::var_os(VARIABLE), Path::new(STANDARD))
}

fn choose(given: Option<&Path>, variable: Option<OsString>, standard: &Path) -> Option<PathBuf> {
    match (given, variable) {
        (Some(given), _) => Some(given.to_owned()),
        (None, Some(variable)) => {
            Some(PathBuf::from(variable)).filter(|path| !path.as_os_str().is_empty())
        }
        // If this account has no access to the file, the command reports the error when it opens
        // the file.
        (None, None) => match standard.metadata() {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => None,
            _ => Some(standard.to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_goes_before_the_variable_and_that_before_the_standard_file() {
        let (there, missing) = (Path::new("/"), Path::new("/nonexistent/avocet.toml"));
        let path = |text: &str| Some(PathBuf::from(text));
        assert_eq!(choose(Some(Path::new("a")), Some("b".into()), there), path("a"));
        assert_eq!(choose(None, Some("b".into()), there), path("b"));
        assert_eq!(choose(None, Some("".into()), there), None);
        assert_eq!(choose(None, None, there), path("/"));
        assert_eq!(choose(None, None, missing), None);
    }
}
