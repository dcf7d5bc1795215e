//! `url` of `[[zone]]`: zones whose records are fetched over HTTP or HTTPS, or from a database.

use std::mem;
use std::ops::Range;
use std::path::PathBuf;

use toml::{Table, Value};

use super::certificate_files::CertificateFiles;
use super::check::Check;
use super::database_address::DatabaseAddress;
use super::list_source::is_fetched;
use super::provider_kind::ProviderKind;
use super::upstream_proof::client_files;
use super::zone_spec::ZoneSpec;

/// Seconds between two requests.
const REFRESH_SECS: u32 = 300;

/// The source of the records of a zone, and the settings for the connection to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ZoneUrl {
    /// The URL, with `http://`, `https://` or `postgresql://` and without credentials.
    pub url: String,
    /// The database that the URL names, if it names one.
    pub database: Option<DatabaseAddress>,
    /// Seconds between two requests.
    pub refresh_secs: u32,
    /// A file with header fields for each request, which may be secret.
    pub headers_file: Option<PathBuf>,
    /// A file with the password for the database.
    pub password_file: Option<PathBuf>,
    /// The file with the trusted authorities, which replace the authorities of the system.
    pub ca: Option<PathBuf>,
    /// The certificate that this server presents to a server that requires one.
    pub client: Option<CertificateFiles>,
}

/// Takes the settings of a URL out of a table. Only the providers "http" and "postgres" have a URL.
/// All other providers have a file.
pub(super) fn zone_url(
    header: &Range<usize>,
    spec: &mut ZoneSpec,
    kind: ProviderKind,
    check: &mut Check,
) -> Option<ZoneUrl> {
    let url = mem::take(&mut spec.url);
    let refresh_secs = mem::take(&mut spec.refresh_secs);
    let headers_file = mem::take(&mut spec.headers_file);
    let password_file = mem::take(&mut spec.password_file);
    let foreign = match kind {
        ProviderKind::Http => vec![(password_file.span(), "it is for provider = \"postgres\"")],
        ProviderKind::Postgres => vec![(headers_file.span(), "it is for provider = \"http\"")],
        _ => [url.span(), refresh_secs.span(), headers_file.span(), password_file.span()]
            .map(|at| (at, "it is for provider = \"http\" or \"postgres\""))
            .to_vec(),
    };
    for (at, message) in foreign {
        if let Some(at) = at {
            check.fault(at, message);
        }
    }
    if !kind.is_fetched() {
        return None;
    }
    if let Some(at) = spec.file.span() {
        check.fault(at, "the server keeps a copy of what it fetches in its data directory");
    }
    if let Some(at) = spec.pins.span() {
        check.fault(at, "`ca` names the authorities of a url, which has no pins");
    }
    let (ca_at, fields_at) = (spec.ca.span(), headers_file.span());
    let client_at = spec.client_cert.span();
    let refresh_secs = check.take(refresh_secs).map_or(REFRESH_SECS, |secs| secs.0);
    let headers_file = check.optional_secret(headers_file);
    let password_file = check.optional_secret(password_file);
    let ca = check.optional_path(mem::take(&mut spec.ca));
    let [chain, key] = [&mut spec.client_cert, &mut spec.client_key].map(mem::take);
    let client = client_files(chain, key, check);
    let url = check.need("url", header, url)?;
    let (url, database) = match kind {
        ProviderKind::Postgres => database_of(url, check)?,
        _ => (text_of(url, check)?, None),
    };
    let is_clear = match &database {
        Some(database) if !database.may_use_tls() => Some("the url has a Unix socket"),
        None if url.starts_with("http://") => Some("the url has no https://"),
        Some(_) | None => None,
    };
    if let Some(reason) = is_clear {
        let set = [("ca", ca_at, ca.is_some()), ("client-cert", client_at, client.is_some())];
        for (name, at, _) in set.into_iter().filter(|(.., is_set)| *is_set) {
            check.doubt(at.unwrap_or_default(), format!("`{name}` has no effect: {reason}"));
        }
        if headers_file.is_some() {
            check.doubt(fields_at.unwrap_or_default(), "it is sent in clear: without https://");
        }
    }
    Some(ZoneUrl { url, database, refresh_secs, headers_file, password_file, ca, client })
}

/// Reads the URL of a database.
fn database_of(
    (at, url): (Range<usize>, String),
    check: &mut Check,
) -> Option<(String, Option<DatabaseAddress>)> {
    match DatabaseAddress::read(&url) {
        Ok(address) => Some((url, Some(address))),
        Err(error) => {
            check.fault(at, error);
            None
        }
    }
}

/// Reads the URL, which must not have credentials, because each list of zones shows it.
fn text_of((at, url): (Range<usize>, String), check: &mut Check) -> Option<String> {
    let has_credentials = || {
        let uri = url.parse::<http::Uri>().ok();
        uri.is_some_and(|uri| uri.authority().is_some_and(|one| one.as_str().contains('@')))
    };
    if !is_fetched(&url) {
        let message = format!("expected a url with http:// or https:// and a host, found {url:?}");
        check.fault(at, message);
        return None;
    }
    if has_credentials() {
        check.fault(at, "a url is no place for credentials: `headers-file` has header fields");
        return None;
    }
    Some(url)
}

/// Adds the settings to the table of a zone, in the syntax of the configuration file.
pub(super) fn show(source: Option<&ZoneUrl>, out: &mut Table) {
    let path = |path: Option<&PathBuf>| {
        Value::from(path.map_or_else(String::new, |path| path.to_string_lossy().into_owned()))
    };
    let shown = [
        ("url", source.map_or_else(String::new, |one| one.url.clone()).into()),
        ("refresh-secs", i64::from(source.map_or(REFRESH_SECS, |one| one.refresh_secs)).into()),
        ("headers-file", path(source.and_then(|one| one.headers_file.as_ref()))),
        ("password-file", path(source.and_then(|one| one.password_file.as_ref()))),
    ];
    out.extend(shown.map(|(name, value)| (name.to_owned(), value)));
    if let Some(source) = source {
        let client = source.client.as_ref();
        let files = [
            ("ca", path(source.ca.as_ref())),
            ("client-cert", path(client.map(|files| &files.chain))),
            ("client-key", path(client.map(|files| &files.key))),
        ];
        out.extend(files.map(|(name, value)| (name.to_owned(), value)));
    }
}
