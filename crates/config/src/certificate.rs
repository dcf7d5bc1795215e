//! `[[certificate]]`: the certificates that the listeners with TLS present.

use std::mem;
use std::ops::Range;
use std::path::Path;

use toml::{Spanned, Table, Value};

use super::acme::{self, AcmeConfig, AcmeContext};
use super::acme_spec::AcmeSpec;
use super::certificate_files::CertificateFiles;
use super::check::Check;
use super::home_ca::{self, HomeCaConfig, HomeCaSpec};
use super::host_name::host_name;
use super::policy::TableHeader;
use super::spec::{CertificateSpec, Spec};

/// Maximum number of certificates.
const MAX_CERTIFICATES: usize = 64;

/// The file with the certificate of `[acme]` and its key, in the storage directory. Both are in one
/// file so that a renewal replaces them at once.
const ACME_FILE: &str = "certificate.pem";

/// One `[[certificate]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct CertificateConfig {
    /// The host names for which clients see the certificate; empty for the names that the
    /// certificate has.
    pub names: Vec<String>,
    /// The files.
    pub files: CertificateFiles,
    /// The source of the certificate.
    pub source: CertificateSource,
}

/// The source of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateSource {
    /// A `[[certificate]]`: another program writes its files.
    Files,
    /// `[acme]`: the server obtains the certificate. Until then, its file may be missing.
    Acme,
    /// `[home-ca]`: the server issues the certificate. Until then, its file may be missing.
    HomeCa,
}

/// The tables of certificates in the file.
pub(super) struct CertificateTables {
    /// `[[certificate]]`
    pub(super) files: Vec<Spanned<CertificateSpec>>,
    /// `[acme]`
    pub(super) acme: AcmeSpec,
    /// `[home-ca]`
    pub(super) home_ca: HomeCaSpec,
}

impl CertificateTables {
    /// Takes the tables out of the file.
    pub(super) fn take(spec: &mut Spec) -> Self {
        Self {
            files: mem::take(&mut spec.certificate),
            acme: mem::take(&mut spec.acme),
            home_ca: mem::take(&mut spec.home_ca),
        }
    }
}

/// All certificates, and the tables of those that the server obtains or issues.
pub(super) struct Certificates {
    /// All certificates: those of the file in its order, then those of `[acme]` and `[home-ca]`.
    pub(super) all: Vec<CertificateConfig>,
    /// `[acme]`.
    pub(super) acme: Option<AcmeConfig>,
    /// `[home-ca]`.
    pub(super) home_ca: Option<HomeCaConfig>,
}

impl CertificateConfig {
    /// Returns whether the certificate is configured for a host name.
    pub fn has_name(&self, name: &str) -> bool {
        self.names.iter().any(|one| one.eq_ignore_ascii_case(name))
    }
}

/// Reads all certificates.
pub(super) fn certificates(
    tables: CertificateTables,
    context: &AcmeContext<'_>,
    check: &mut Check,
) -> Certificates {
    let mut all = Vec::new();
    for (place, spec) in tables.files.into_iter().enumerate() {
        let header = TableHeader::new(spec.span(), place);
        if all.len() == MAX_CERTIFICATES {
            check.fault(header.at, format!("more than {MAX_CERTIFICATES} certificates"));
            break;
        }
        all.extend(certificate(&header, spec.into_inner(), check));
    }
    let acme = acme::acme(tables.acme, context, check);
    all.extend(acme.as_ref().map(of_acme));
    let home_ca = home_ca::home_ca(tables.home_ca, context.data, check);
    all.extend(home_ca.as_ref().map(of_home_ca));
    Certificates { all, acme, home_ca }
}

/// Returns the certificate that the authority of `[home-ca]` issues.
fn of_home_ca(home_ca: &HomeCaConfig) -> CertificateConfig {
    CertificateConfig {
        names: home_ca.names.clone(),
        files: home_ca.files(),
        source: CertificateSource::HomeCa,
    }
}

/// Returns the certificate that the server obtains for `[acme]`.
fn of_acme(acme: &AcmeConfig) -> CertificateConfig {
    let file = acme.storage.join(ACME_FILE);
    CertificateConfig {
        names: acme.names.clone(),
        files: CertificateFiles { chain: file.clone(), key: file },
        source: CertificateSource::Acme,
    }
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
        files: CertificateFiles { chain: check.secret_path(chain), key: check.secret_path(key) },
        source: CertificateSource::Files,
    })
}

/// Adds a fault for the listener with TLS at `at` if no certificate is configured.
pub(super) fn need_one(all: &[CertificateConfig], at: &Range<usize>, check: &mut Check) {
    if all.is_empty() {
        let message = "tls://, quic://, https:// and h3:// need a certificate: add a \
                       [[certificate]] with `cert` and `key`, the files in PEM form, or [acme] or \
                       [home-ca] with `names`";
        check.fault(at.clone(), message);
    }
}

/// Returns the certificates of `[[certificate]]`.
pub(super) fn of_files(all: &[CertificateConfig]) -> impl Iterator<Item = &CertificateConfig> {
    all.iter().filter(|one| one.source == CertificateSource::Files)
}

/// Returns a certificate as its table in the file.
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
