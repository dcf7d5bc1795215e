//! `[home-ca]`: a certification authority that the server runs itself, for networks without a
//! public name.

use std::mem;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use toml::{Table, Value};

use super::certificate_files::CertificateFiles;
use super::check::Check;
use super::host_name::host_name;
use super::setting::{List, Setting};

/// Maximum number of names and addresses in the certificate.
const MAX_NAMES: usize = 64;

/// The table `[home-ca]`: a certification authority that the server runs itself, for devices at
/// home.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
#[schemars(inline)]
pub(super) struct HomeCaSpec {
    /// Host names and addresses of this server, at most 64. The own authority issues a certificate
    /// for them. If the list is empty, the server has no authority.
    #[schemars(extend("default" = []))]
    pub(super) names: Setting<List<String>>,
    /// Directory for the authority, its private key and the certificate; "" is `home-ca` in the
    /// data directory.
    #[schemars(extend("default" = ""))]
    pub(super) storage: Setting<String>,
}

/// `[home-ca]`, if it has names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HomeCaConfig {
    /// The host names, without duplicates.
    pub names: Vec<String>,
    /// The addresses, without duplicates.
    pub addresses: Vec<IpAddr>,
    /// The directory of the files.
    pub storage: PathBuf,
}

impl HomeCaConfig {
    /// Returns the file with the certificate of the authority, which devices install.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.storage.join("authority.pem")
    }

    /// Returns the file with the key of the authority.
    #[must_use]
    pub fn authority_key(&self) -> PathBuf {
        self.storage.join("authority.key")
    }

    /// Returns the file with the certificate of this server and its key.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.storage.join("certificate.pem")
    }

    /// Returns the paths of the certificate of this server and of its key. Both are in one file so
    /// that a renewal replaces them at once.
    pub(super) fn files(&self) -> CertificateFiles {
        CertificateFiles { chain: self.certificate(), key: self.certificate() }
    }
}

/// Returns the configuration of the table; `data` is the data directory.
pub(super) fn home_ca(
    mut spec: HomeCaSpec,
    data: &Path,
    check: &mut Check,
) -> Option<HomeCaConfig> {
    let at = spec.names.span();
    let items = check.take(mem::take(&mut spec.names)).map_or_else(Vec::new, |list| list.0);
    let (mut names, mut addresses) = (Vec::new(), Vec::new());
    for item in items {
        let (at, text) = (item.span(), item.into_inner());
        let is_new = match (text.parse(), host_name(&text)) {
            (Ok(address), _) => add(&mut addresses, address),
            (Err(_), Some(name)) => add(&mut names, name),
            (Err(_), None) => {
                let expected = "expected a host name such as \"avocet.home.arpa\" or an address \
                                such as \"192.168.1.2\"";
                check.fault(at, expected);
                continue;
            }
        };
        if !is_new {
            check.fault(at, format!("duplicate name {text}"));
        }
    }
    let storage = check.optional_secret(spec.storage).unwrap_or_else(|| data.join("home-ca"));
    let at = at.filter(|_| !names.is_empty() || !addresses.is_empty())?;
    if names.len() + addresses.len() > MAX_NAMES {
        check.fault(at, format!("more than {MAX_NAMES} names"));
    }
    Some(HomeCaConfig { names, addresses, storage })
}

/// Adds an item unless it is there already. Returns whether it was added.
fn add<T: PartialEq>(all: &mut Vec<T>, item: T) -> bool {
    let is_new = !all.contains(&item);
    if is_new {
        all.push(item);
    }
    is_new
}

/// Returns the table in the syntax of the configuration file.
pub(super) fn shown(home_ca: Option<&HomeCaConfig>) -> Table {
    let names = home_ca.map_or_else(Vec::new, |ca| {
        let addresses = ca.addresses.iter().map(ToString::to_string);
        ca.names.iter().cloned().chain(addresses).collect()
    });
    let storage = home_ca.map_or_else(String::new, |ca| ca.storage.to_string_lossy().into_owned());
    [("names", Value::from(names)), ("storage", storage.into())]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}
