//! `client-ca` and `client-certificate` of `[server]` and of a `[[listener]]`: the certificates by
//! which clients prove who they are.

use std::mem;
use std::ops::Range;
use std::path::PathBuf;

use toml::{Table, Value};

use super::check::Check;
use super::error::SettingError;
use super::setting::{FromText, Setting, Text};

/// The client certificates that a listener requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ClientCertificates {
    /// The file with the authorities that issue the client certificates, in PEM form.
    pub ca: PathBuf,
    /// Whether each client must have a certificate.
    pub presence: Presence,
}

/// Whether clients must have a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Presence {
    /// A client without a certificate is identified by its address.
    #[default]
    Optional,
    /// A client without a certificate gets no connection.
    Required,
}

impl FromText for Presence {
    const EXPECTED: &'static str = "\"optional\" or \"required\"";
    const CHOICES: &'static [&'static str] = &["optional", "required"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        match text {
            "optional" => Ok(Self::Optional),
            "required" => Ok(Self::Required),
            _ => Err(None),
        }
    }
}

/// The keys `client-ca` and `client-certificate`, as written.
pub(super) struct ClientKeys<'s> {
    pub(super) ca: &'s mut Setting<String>,
    pub(super) certificate: &'s mut Setting<Text<Presence>>,
}

/// Reads the keys. `tls_at` is the position of the first address with TLS.
pub(super) fn read(
    keys: ClientKeys<'_>,
    tls_at: Option<&Range<usize>>,
    check: &mut Check,
) -> Option<ClientCertificates> {
    let (ca_at, presence_at) = (keys.ca.span(), keys.certificate.span());
    let ca = check.optional_path(mem::take(keys.ca));
    let presence = check.take(mem::take(keys.certificate)).map(|one| one.0);
    if ca.is_none() && presence == Some(Presence::Required) {
        let message = "client-certificate = \"required\" needs `client-ca`, a file with the \
                       authorities that issue the certificates";
        check.fault(presence_at.unwrap_or_default(), message);
    }
    if ca.is_some() && tls_at.is_none() {
        check.doubt(
            ca_at.unwrap_or_default(),
            "no address here has TLS, so that no client shows a certificate",
        );
    }
    Some(ClientCertificates { ca: ca?, presence: presence.unwrap_or_default() })
}

/// Adds the keys to a table, in the syntax of the configuration file.
pub(super) fn show(clients: Option<&ClientCertificates>, out: &mut Table) {
    let ca = clients.map_or_else(String::new, |one| one.ca.to_string_lossy().into_owned());
    let presence = match clients.map(|one| one.presence).unwrap_or_default() {
        Presence::Optional => "optional",
        Presence::Required => "required",
    };
    out.insert("client-ca".to_owned(), Value::from(ca));
    out.insert("client-certificate".to_owned(), Value::from(presence));
}
