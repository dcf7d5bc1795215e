//! `[[key]]`: secrets that this server shares with other servers and clients, for TSIG (RFC 8945).

use std::fs;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use avocet_wire::FoldedName;
use avocet_zone::{MAX_TSIG_SECRET, MIN_TSIG_SECRET, TsigAlgorithm, TsigKey};
use data_encoding::BASE64;
use toml::{Spanned, Table, Value};
use zeroize::Zeroizing;

use super::Config;
use super::check::Check;
use super::error::SettingError;
use super::name::shown as shown_name;
use super::named_file;
use super::setting::{FromText, Text};
use super::spec::KeySpec;

/// The bits of a file mode that let users outside the owner and the group read or change the file.
const OTHERS: u32 = 0o007;

/// One `[[key]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyConfig {
    /// The file with the secret.
    pub file: PathBuf,
    /// The key. Its secret is never shown.
    pub key: Arc<TsigKey>,
}

impl Config {
    /// Returns the key with this folded name in wire form; `None` if there is none.
    #[must_use]
    pub fn key(&self, name: &[u8]) -> Option<&Arc<TsigKey>> {
        self.keys.iter().find(|key| key.key.name().wire() == name).map(|key| &key.key)
    }
}

impl FromText for TsigAlgorithm {
    const EXPECTED: &'static str = "an algorithm: \"hmac-sha256\", or another one of hmac-sha1, \
                                    hmac-sha224, hmac-sha384, hmac-sha512, hmac-sha256-128, \
                                    hmac-sha384-192, hmac-sha512-256";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        Self::from_name(text).ok_or(None)
    }
}

/// Reads all keys with their secrets.
pub(super) fn keys(specs: Vec<Spanned<KeySpec>>, check: &mut Check) -> Vec<KeyConfig> {
    let mut keys: Vec<KeyConfig> = Vec::new();
    for spec in specs {
        let header = spec.span();
        let spec = spec.into_inner();
        let name = check.need("name", &header, spec.name);
        let file = check.need("secret-file", &header, spec.secret_file);
        let algorithm = check.take(spec.algorithm).map_or(TsigAlgorithm::usual(), |text| text.0);
        let Some((at, Text(name))) = name else { continue };
        let Some((file_at, file)) = file else {
            check.add_faulty_key(&name);
            continue;
        };
        if keys.iter().any(|key| key.key.name().wire() == &*name) {
            check.fault(at, format!("the key {} has another table", shown_name(&name)));
            continue;
        }
        let file = check.secret_path(file);
        let Some(folded) = FoldedName::new(&name) else { continue };
        let Some(secret) = secret(&file, file_at, check) else {
            check.add_faulty_key(&name);
            continue;
        };
        keys.push(KeyConfig { file, key: Arc::new(TsigKey::new(folded, algorithm, secret)) });
    }
    keys
}

/// Returns whether users outside the owner and the group may read or change a file.
pub(super) fn is_readable_by_others(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|facts| facts.permissions().mode() & OTHERS != 0)
}

/// Reads a secret. The faults never show the contents of the file.
fn secret(path: &Path, at: Range<usize>, check: &mut Check) -> Option<Zeroizing<Vec<u8>>> {
    let text = match named_file::read(path) {
        Ok(text) => Zeroizing::new(text),
        Err(error) => {
            check.fault(at, error);
            return None;
        }
    };
    if is_readable_by_others(path) {
        let path = path.display();
        check.fault(at, format!("others may read {path}: set its permissions to 0640 or less"));
        return None;
    }
    let Ok(secret) = BASE64.decode(text.trim().as_bytes()).map(Zeroizing::new) else {
        let path = path.display();
        check.fault(at, format!("expected a secret in base64 and nothing else in {path}"));
        return None;
    };
    if !(MIN_TSIG_SECRET..=MAX_TSIG_SECRET).contains(&secret.len()) {
        let octets = secret.len();
        let message = format!(
            "the secret has {octets} octets, expected {MIN_TSIG_SECRET} to {MAX_TSIG_SECRET}"
        );
        check.fault(at, message);
        return None;
    }
    Some(secret)
}

/// Returns the table in the syntax of the configuration file, without the secret.
pub(super) fn shown(key: &KeyConfig) -> Value {
    let entries: [(&str, Value); 3] = [
        ("name", shown_name(key.key.name().wire()).into()),
        ("algorithm", key.key.algorithm().name().into()),
        ("secret-file", key.file.to_string_lossy().into_owned().into()),
    ];
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Table>().into()
}

/// Returns whether the key that an item names is configured. An item without a key passes.
pub(super) fn has_key(
    at: &Range<usize>,
    key: Option<&[u8]>,
    keys: &[KeyConfig],
    check: &mut Check,
) -> bool {
    let Some(name) = key else { return true };
    let is_known = keys.iter().any(|key| key.key.name().wire() == name);
    if !is_known {
        check.unknown_key(at.clone(), name, &shown_name(name));
    }
    is_known
}
