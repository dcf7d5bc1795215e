//! `[[certificate]]`: what the listeners with TLS show their clients.

use std::mem;
use std::ops::Range;
use std::path::Path;

use toml::{Spanned, Table, Value};

use super::check::Check;
use super::policy::TableHeader;
use super::spec::CertificateSpec;
use super::web::CertificateFiles;

/// Most certificates.
const MAX_CERTIFICATES: usize = 64;
/// Octets of the longest host name (RFC 1035 §2.3.4).
const MAX_HOST_NAME: usize = 253;

/// One `[[certificate]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct CertificateConfig {
    /// The host names for which it is shown; empty for those that it has itself.
    pub names: Vec<String>,
    /// Its files.
    pub files: CertificateFiles,
}

impl CertificateConfig {
    /// Reports whether a listener means this certificate by a name.
    pub fn has_name(&self, name: &str) -> bool {
        self.names.iter().any(|one| one.eq_ignore_ascii_case(name))
    }
}

/// Reads all certificates.
pub(super) fn certificates(
    specs: Vec<Spanned<CertificateSpec>>,
    check: &mut Check,
) -> Vec<CertificateConfig> {
    let mut all = Vec::new();
    for (place, spec) in specs.into_iter().enumerate() {
        let header = TableHeader::new(spec.span(), place);
        if all.len() == MAX_CERTIFICATES {
            check.fault(header.at, format!("more than {MAX_CERTIFICATES} certificates"));
            break;
        }
        all.extend(certificate(&header, spec.into_inner(), check));
    }
    all
}

fn certificate(
    header: &TableHeader,
    mut spec: CertificateSpec,
    check: &mut Check,
) -> Option<CertificateConfig> {
    let items = check.take(mem::take(&mut spec.names)).map_or_else(Vec::new, |list| list.0);
    let mut names = Vec::with_capacity(items.len());
    for item in items {
        let (at, name) = (item.span(), item.into_inner());
        match host_name(&name) {
            Some(name) => names.push(name),
            None => {
                check.fault(at, "expected a host name such as \"dns.example\" or \"*.example\"")
            }
        }
    }
    let chain = check.need("cert", &header.at, spec.cert);
    let key = check.need("key", &header.at, spec.key);
    let ((_, chain), (_, key)) = (chain?, key?);
    Some(CertificateConfig {
        names,
        files: CertificateFiles { chain: check.path(chain), key: check.path(key) },
    })
}

/// Returns a host name in lower case without final dot; `None` if it cannot be one.
pub(super) fn host_name(text: &str) -> Option<String> {
    let name = text.trim_end_matches('.').to_ascii_lowercase();
    let labels = name.strip_prefix("*.").unwrap_or(&name);
    let is_label = |label: &str| {
        let is_octet = |octet: u8| octet.is_ascii_alphanumeric() || b"-_".contains(&octet);
        !label.is_empty() && label.len() <= 63 && label.bytes().all(is_octet)
    };
    (name.len() <= MAX_HOST_NAME && labels.split('.').all(is_label)).then_some(name)
}

/// Adds a fault if a listener with TLS at `at` has no certificate to show.
pub(super) fn need_one(all: &[CertificateConfig], at: &Range<usize>, check: &mut Check) {
    if all.is_empty() {
        let message = "tls:// and https:// need a certificate: add a [[certificate]] with `cert` and `key`, \
                       the files in PEM form";
        check.fault(at.clone(), message);
    }
}

/// Returns the table as the file would have it.
pub(super) fn shown(certificate: &CertificateConfig) -> Table {
    let path = |path: &Path| Value::from(path.to_string_lossy().into_owned());
    let names = certificate.names.iter().map(|name| Value::from(name.as_str()));
    [
        ("names", Value::Array(names.collect())),
        ("cert", path(&certificate.files.chain)),
        ("key", path(&certificate.files.key)),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}
