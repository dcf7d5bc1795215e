//! Users and tokens on disk: `access.json` in the data directory, for its owner only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use avocet_control::access::{AccessFault, AccessScope, Role, TokenReport, UserReport};
use avocet_control::limits::UserLimits;
use avocet_io::ownership;
use serde::{Deserialize, Serialize};

use super::password::PasswordHash;
use super::totp::SecondFactor;

/// The file name.
const NAME: &str = "access.json";
/// Maximum number of octets of the file: all users and tokens at their limits fit.
const MAX_OCTETS: u64 = 16 << 20;
/// The version of the format.
const VERSION: u32 = 1;

/// Users and tokens.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoredAccess {
    version: u32,
    /// The users in the order of their names.
    pub(crate) users: Vec<StoredUser>,
    pub(crate) tokens: Vec<StoredToken>,
}

impl Default for StoredAccess {
    fn default() -> Self {
        Self { version: VERSION, users: Vec::new(), tokens: Vec::new() }
    }
}

/// A user.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct StoredUser {
    pub(crate) name: String,
    pub(crate) role: Role,
    #[serde(default, skip_serializing_if = "UserLimits::is_empty")]
    pub(crate) limits: UserLimits,
    pub(crate) created_at: u64,
    pub(crate) password: PasswordHash,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) second_factor: Option<SecondFactor>,
}

impl StoredUser {
    pub(crate) fn report(&self) -> UserReport {
        UserReport {
            name: self.name.clone(),
            role: self.role,
            limits: self.limits.clone(),
            second_factor: self.second_factor.is_some(),
            created_at: self.created_at,
            warnings: Vec::new(),
            unsaved: None,
        }
    }
}

/// An API token.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct StoredToken {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) scopes: Vec<AccessScope>,
    pub(crate) created_at: u64,
    pub(crate) expires_at: u64,
    /// The SHA-256 digest in hexadecimal.
    pub(crate) digest: String,
}

impl StoredToken {
    pub(crate) fn report(&self) -> TokenReport {
        TokenReport {
            id: self.id.clone(),
            name: self.name.clone(),
            scopes: self.scopes.clone(),
            created_at: self.created_at,
            expires_at: self.expires_at,
        }
    }
}

/// The file of users and tokens.
pub(crate) struct AccessFile {
    path: PathBuf,
    /// The reason why the file could not be read at the start. Such a file is not overwritten.
    fault: Option<String>,
}

impl AccessFile {
    /// Reads the file of a data directory. If the file cannot be read, nobody can log in, and the
    /// file does not change.
    pub(crate) fn load(directory: &Path) -> (Self, StoredAccess) {
        let path = directory.join(NAME);
        match read(&path) {
            Ok(stored) => (Self { path, fault: None }, stored),
            Err(error) => {
                let fault = format!(
                    "{} cannot be read: {error}; restore it, or remove it and restart to begin \
                     without users",
                    path.display()
                );
                (Self { path, fault: Some(fault) }, StoredAccess::default())
            }
        }
    }

    /// Returns the reason why the file could not be read.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    /// Replaces the file. After a failure the previous one remains.
    ///
    /// # Errors
    /// The file cannot be written, or the file could not be read at the start.
    pub(crate) fn save(&self, stored: &StoredAccess) -> Result<(), AccessFault> {
        if let Some(fault) = &self.fault {
            return Err(AccessFault::Unsaved(fault.clone()));
        }
        write(&self.path, stored).map_err(|error| {
            AccessFault::Unsaved(format!("cannot write {}: {error}", self.path.display()))
        })
    }
}

/// Checks the text of a file, such as that of a backup.
///
/// # Errors
/// The text is malformed, of another version, or too large.
pub fn check(text: &str) -> io::Result<()> {
    if text.len() as u64 > MAX_OCTETS {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    parse(text).map(drop)
}

fn parse(text: &str) -> io::Result<StoredAccess> {
    let stored: StoredAccess = serde_json::from_str(text)?;
    if stored.version != VERSION {
        let message = format!("its version {} is unknown", stored.version);
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(stored)
}

fn read(path: &Path) -> io::Result<StoredAccess> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(StoredAccess::default());
        }
        Err(error) => return Err(error),
    };
    let mut text = zeroize::Zeroizing::new(String::new());
    file.take(MAX_OCTETS).read_to_string(&mut text)?;
    parse(&text)
}

fn write(path: &Path, stored: &StoredAccess) -> io::Result<()> {
    let _permit = ownership::write()?;
    let beside = path.with_added_extension("tmp");
    let _ = fs::remove_file(&beside);
    let text = zeroize::Zeroizing::new(serde_json::to_vec_pretty(stored)?);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let written = file
        .write_all(&text)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&beside, path))
        .and_then(|()| match path.parent() {
            Some(directory) => File::open(directory)?.sync_all(),
            None => Ok(()),
        });
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}
