//! Where the configuration file is, for a command that names none.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, io};

/// The variable that names the file.
const VARIABLE: &str = "AVOCET_CONFIG";
/// The file of a server that was installed as a service.
const STANDARD: &str = "/etc/avocet/avocet.toml";

/// The configuration file of a command: the one given, else that of `AVOCET_CONFIG`, else
/// `/etc/avocet/avocet.toml` if there is one. None: all defaults. An empty variable means none.
pub fn find(given: Option<&Path>) -> Option<PathBuf> {
    choose(given, env::var_os(VARIABLE), Path::new(STANDARD))
}

fn choose(given: Option<&Path>, variable: Option<OsString>, standard: &Path) -> Option<PathBuf> {
    match (given, variable) {
        (Some(given), _) => Some(given.to_owned()),
        (None, Some(variable)) => {
            Some(PathBuf::from(variable)).filter(|path| !path.as_os_str().is_empty())
        }
        // A file that this account may not look at is named in the error of the command.
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
