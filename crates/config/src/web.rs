//! `[web]`: the HTTP API over HTTPS, and behind proxies.

use std::net::SocketAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use toml::{Table, Value};

use super::certificate::CertificateConfig;
use super::certificate_files::CertificateFiles;
use super::check::Check;
use super::spec::WebSpec;
use super::validate::local_address;

/// The default port of HTTPS.
const PORT: u16 = 8443;

/// `[web]`.
#[derive(Debug, Clone, PartialEq)]
pub struct WebConfig {
    /// The listener of HTTPS; `None` if it is off.
    pub https: Option<HttpsConfig>,
    /// Networks of reverse proxies that may name the client.
    pub trusted_proxies: Vec<IpNet>,
}

/// The listener of HTTPS.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpsConfig {
    /// The loopback or private address of the listener.
    pub address: SocketAddr,
    /// The certificate that clients see.
    pub certificate: HttpsCertificate,
}

/// The certificate of HTTPS for browsers.
#[derive(Debug, Clone, PartialEq)]
pub enum HttpsCertificate {
    /// The certificate of `tls-cert` and `tls-key`.
    Own(CertificateFiles),
    /// The certificates of `[[certificate]]`, `[acme]` and `[home-ca]`, which the addresses of
    /// encrypted DNS also show.
    Shared,
}

impl HttpsCertificate {
    /// Returns the files of `tls-cert` and `tls-key`, if they are set.
    #[must_use]
    pub fn files(&self) -> Option<&CertificateFiles> {
        match self {
            Self::Own(files) => Some(files),
            Self::Shared => None,
        }
    }
}

/// Returns the configuration of the table; `shared` has the certificates of other tables.
pub(super) fn web(spec: WebSpec, shared: &[CertificateConfig], check: &mut Check) -> WebConfig {
    let span = spec.https.span();
    let address = local_address(spec.https, "127.0.0.1:8443", PORT, check);
    let (chain, key) = (check.optional_secret(spec.tls_cert), check.optional_secret(spec.tls_key));
    let proxies_span = spec.trusted_proxies.span().unwrap_or_default();
    let trusted_proxies = check.networks(spec.trusted_proxies).unwrap_or_default();
    if trusted_proxies.iter().any(|network| network.prefix_len() == 0) {
        let message = "every client may claim any address: name the addresses of the proxies";
        check.doubt(proxies_span, message);
    }
    let https = match (address, chain, key) {
        (None, ..) => None,
        (Some(address), Some(chain), Some(key)) => {
            let certificate = HttpsCertificate::Own(CertificateFiles { chain, key });
            Some(HttpsConfig { address, certificate })
        }
        (Some(address), None, None) if !shared.is_empty() => {
            Some(HttpsConfig { address, certificate: HttpsCertificate::Shared })
        }
        (Some(_), ..) => {
            let message = "https needs tls-cert and tls-key, the files of a certificate and its \
                           private key, or neither of them and a certificate of [[certificate]], \
                           [acme] or [home-ca]";
            check.fault(span.unwrap_or_default(), message);
            None
        }
    };
    WebConfig { https, trusted_proxies }
}

/// Returns the table in the syntax of the configuration file.
pub(super) fn shown(web: &WebConfig) -> Table {
    let text = |text: Option<String>| Value::from(text.unwrap_or_default());
    let path = |path: &PathBuf| path.to_string_lossy().into_owned();
    let https = web.https.as_ref();
    let files = https.and_then(|https| https.certificate.files());
    let proxies: Vec<_> = web.trusted_proxies.iter().map(ToString::to_string).collect();
    [
        ("https", text(https.map(|https| https.address.to_string()))),
        ("tls-cert", text(files.map(|files| path(&files.chain)))),
        ("tls-key", text(files.map(|files| path(&files.key)))),
        ("trusted-proxies", proxies.into()),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}
