//! The certification authority of `[home-ca]`, and the certificate that it issues for this server.
//!
//! ```text
//! authority.key ──> authority.pem (ten years): devices install it
//!       └─────────> certificate.pem (397 days): names and addresses, new after two thirds of its
//!                                               life, and at once when these change
//! ```
//! The server makes an authority once and never replaces it, because each device would have to
//! install the new authority. If a file is damaged, or one of the two files is missing, the
//! operator must resolve the error. The server watches `certificate.pem` as it watches the files of
//! `[[certificate]]`. The first line of this file states its purpose.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use avocet_acme::issue::{CertificateFacts, Issuer, Role, issue};
use avocet_acme::schedule::Life;
use avocet_acme::{CertificateKey, KeyFault, pem};
use avocet_config::home_ca::HomeCaConfig;
use avocet_nameserver::disk;
use avocet_session::certificate::{Certificate, CertificateError};
use avocet_session::validity::Validity;
use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use thiserror::Error;
use zeroize::Zeroizing;

const DAY_SECS: u64 = 86_400;
/// The lifetime of an authority, in seconds.
const AUTHORITY_SECS: u64 = 3_650 * DAY_SECS;
/// The lifetime of a certificate, in seconds. Devices of Apple accept up to 825 days from an
/// installed authority, and browsers up to 398 days from other authorities.
const CERTIFICATE_SECS: u64 = 397 * DAY_SECS;
/// Number of seconds by which the validity of a certificate begins before its creation, because the
/// clocks of devices differ.
const EARLY_SECS: u64 = DAY_SECS;
/// The Unix second 2026-01-01. If the clock shows an earlier time, it is wrong.
const EARLIEST_CLOCK: u64 = 1_767_225_600;
/// Seconds between two checks of the files of authority and certificate.
const LOOK_SECS: u64 = 3_600;
/// Seconds until the next attempt after an error.
const RETRY_SECS: u64 = 60;
/// Maximum number of octets of a file.
const MAX_OCTETS: u64 = 1 << 16;

/// The reason why there is no authority or no certificate.
#[derive(Debug, Error)]
pub enum HomeCaFault {
    /// The clock of the host is wrong.
    #[error(
        "the clock of this host is wrong, so that a certificate would be valid at the wrong time"
    )]
    Clock,
    /// A file cannot be read or written.
    #[error("{} cannot be read or written: {source}", .path.display())]
    Disk {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Either the key or the certificate is missing.
    #[error(
        "{} is missing, and without it nothing can be issued: restore it, or remove {} to begin \
         with another authority, which each device must install", .missing.display(),
        .present.display()
    )]
    Half {
        /// The file that is missing.
        missing: PathBuf,
        /// The file that exists.
        present: PathBuf,
    },
    /// A file has no certificate that can be used.
    #[error("{} cannot be used: {source}", .path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// The reason why the certificate cannot be used.
        source: CertificateError,
    },
    /// A file has no key that can be used.
    #[error("{} cannot be used: {source}", .path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The reason why the key cannot be used.
        source: KeyFault,
    },
    /// The cryptographic library cannot make a certificate.
    #[error("no certificate can be made: {0}")]
    Cryptography(#[from] KeyFault),
    /// The file has no certificate with dates.
    #[error("{} is not a certificate with its dates", .0.display())]
    Dates(PathBuf),
    /// The certificate of the authority expires too soon.
    #[error(
        "the authority in {} has expired or expires within a year: remove its files to begin with \
         another one, which each device must install", .0.display()
    )]
    Ends(PathBuf),
    /// The certificate of the authority is not valid yet.
    #[error(
        "devices refuse the authority in {}, which is valid {life}: it was made while the clock of \
         this host was ahead, or the clock is behind now. If the clock is right, remove this file, \
         but not the key, then reload, and install the file that the server makes on each device",
        .path.display()
    )]
    Early {
        /// The file of the authority.
        path: PathBuf,
        /// The time in which the authority is valid.
        life: Life,
    },
}

/// The certificate of an authority, for installation on devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownAuthority {
    /// The file of the authority.
    pub file: PathBuf,
    /// The certificate of the authority in PEM form.
    pub pem: String,
    /// The SHA-256 of the certificate in DER, in hexadecimal form.
    pub sha256: String,
    /// The first Unix second at which the certificate is valid.
    pub not_before: u64,
    /// The last Unix second at which the certificate is valid.
    pub not_after: u64,
}

impl ShownAuthority {
    /// Returns why devices refuse the authority, or will refuse it soon; `None` if they accept it.
    fn fault(&self, now_secs: u64) -> Option<HomeCaFault> {
        let Self { not_before, not_after, ref file, .. } = *self;
        if now_secs < not_before {
            let life = Life { not_before, not_after };
            return Some(HomeCaFault::Early { path: file.clone(), life });
        }
        (not_after < now_secs + CERTIFICATE_SECS).then(|| HomeCaFault::Ends(file.clone()))
    }
}

/// The authority of a running server.
#[derive(Default)]
pub struct HomeCa(Mutex<HomeCaState>);

#[derive(Default)]
struct HomeCaState {
    config: Option<HomeCaConfig>,
    /// The Unix second of the next check.
    due: u64,
    shown: Option<ShownAuthority>,
    fault: Option<String>,
}

impl HomeCa {
    /// Checks the files of the configured authority for the first time, and returns the authority.
    pub fn begin(config: Option<&HomeCaConfig>, now_secs: u64) -> Self {
        let begun = Self::default();
        begun.look(config, now_secs);
        begun
    }

    /// Checks the files, and returns the problem with the authority, if there is one.
    pub fn look(&self, config: Option<&HomeCaConfig>, now_secs: u64) -> Option<String> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(config) = config else {
            *kept = HomeCaState::default();
            return None;
        };
        // The clock may have been set back, so a check that is due much later is made now.
        let is_new = kept.config.as_ref() != Some(config);
        if !is_new && now_secs < kept.due && kept.due <= now_secs + LOOK_SECS {
            return kept.fault.clone();
        }
        let made = keep(config, now_secs);
        let secs = if made.is_ok() { LOOK_SECS } else { RETRY_SECS };
        (kept.config, kept.due) = (Some(config.clone()), now_secs + secs);
        let fault = match made {
            Ok(authority) => kept.shown.insert(authority).fault(now_secs),
            Err(fault) => Some(fault),
        };
        kept.fault = fault.map(|fault| format!("[home-ca]: {fault}"));
        kept.fault.clone()
    }

    /// Returns the certificate of the authority; `None` without `[home-ca]`, or before the
    /// authority was made.
    pub fn shown(&self) -> Option<ShownAuthority> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).shown.clone()
    }
}

/// Makes the authority if there is none, and the certificate of this server if it is due.
///
/// # Errors
/// One of the files cannot be used or written.
pub fn keep(config: &HomeCaConfig, now_secs: u64) -> Result<ShownAuthority, HomeCaFault> {
    if now_secs < EARLIEST_CLOCK {
        return Err(HomeCaFault::Clock);
    }
    create(&config.storage).map_err(at(&config.storage))?;
    let authority = Authority::get(config, now_secs)?;
    let purpose = purpose(config, &authority);
    let can_issue = now_secs < authority.validity.not_after;
    if can_issue && !is_current(config, &purpose, now_secs)? {
        authority.issue(config, &purpose, now_secs)?;
        tracing::info!(
            names = shown_names(config),
            "the authority of [home-ca] issued a certificate"
        );
    }
    Ok(authority.shown(config))
}

/// An authority that can issue certificates.
struct Authority {
    key: CertificateKey,
    /// The certificate in DER.
    own: Vec<u8>,
    validity: Validity,
}

impl Authority {
    /// Reads the authority, or makes it if there is none.
    fn get(config: &HomeCaConfig, now_secs: u64) -> Result<Self, HomeCaFault> {
        let (path, key_path) = (config.authority(), config.authority_key());
        match (read(&path)?, read(&key_path)?.map(Zeroizing::new)) {
            (Some(own), Some(key)) => Self::read(config, &own, &key),
            (Some(_), None) => Err(HomeCaFault::Half { missing: key_path, present: path }),
            // A previous server ended after it had written only the key. Devices trust the key, so
            // a new certificate for it is sufficient.
            (None, Some(key)) => Self::make(config, private_key(&key, &key_path)?, now_secs),
            (None, None) => {
                let key = CertificateKey::draw()?;
                let text = key.to_pem()?;
                write(&key_path, &[text.as_bytes()])?;
                Self::make(config, key, now_secs)
            }
        }
    }

    /// Creates the authority from the texts of its two files.
    fn read(config: &HomeCaConfig, own: &[u8], key: &[u8]) -> Result<Self, HomeCaFault> {
        let (path, key_path) = (config.authority(), config.authority_key());
        let certificate = Certificate::read(own, key, &[]).map_err(|source| {
            let path = if source.is_of_key() { &key_path } else { &path };
            HomeCaFault::Refused { path: path.clone(), source }
        })?;
        let key = private_key(key, &key_path)?;
        let validity = certificate.validity().ok_or_else(|| HomeCaFault::Dates(path.clone()))?;
        let own = certificate.first().map(<[u8]>::to_vec).ok_or(HomeCaFault::Dates(path))?;
        Ok(Self { key, own, validity })
    }

    /// Makes the certificate of an authority with this key.
    fn make(
        config: &HomeCaConfig,
        key: CertificateKey,
        now_secs: u64,
    ) -> Result<Self, HomeCaFault> {
        let (public, subject) = (key.public(), subject(&key));
        let not_before = now_secs - EARLY_SECS;
        let facts = CertificateFacts {
            role: Role::Authority,
            subject: &subject,
            names: &[],
            addresses: &[],
            public: &public,
            serial: serial(),
            not_before,
            not_after: now_secs + AUTHORITY_SECS,
        };
        let own = issue(&facts, Issuer { subject: &subject, key: &key })?;
        let path = config.authority();
        let text = pem("CERTIFICATE", &own);
        write(&path, &[text.as_bytes()])?;
        tracing::info!(
            "{} is a new authority: devices that install it trust this server",
            path.display()
        );
        let validity = Validity { not_before, not_after: facts.not_after };
        Ok(Self { key, own, validity })
    }

    /// Issues the certificate of this server.
    fn issue(
        &self,
        config: &HomeCaConfig,
        purpose: &str,
        now_secs: u64,
    ) -> Result<(), HomeCaFault> {
        let key = CertificateKey::draw()?;
        let (public, issuer) = (key.public(), subject(&self.key));
        let facts = CertificateFacts {
            role: Role::Server,
            subject: "Avocet",
            names: &config.names,
            addresses: &config.addresses,
            public: &public,
            serial: serial(),
            // If the authority is not valid yet, some devices accept the certificate nevertheless.
            not_before: now_secs - EARLY_SECS,
            not_after: (now_secs + CERTIFICATE_SECS).min(self.validity.not_after),
        };
        let own = issue(&facts, Issuer { subject: &issuer, key: &self.key })?;
        let (text, key) = (pem("CERTIFICATE", &own), key.to_pem()?);
        let parts = [purpose.as_bytes(), b"\n", text.as_bytes(), key.as_bytes()];
        write(&config.certificate(), &parts)
    }

    fn sha256(&self) -> String {
        HEXLOWER.encode(digest(&SHA256, &self.own).as_ref())
    }

    fn shown(&self, config: &HomeCaConfig) -> ShownAuthority {
        ShownAuthority {
            file: config.authority(),
            pem: pem("CERTIFICATE", &self.own).to_string(),
            sha256: self.sha256(),
            not_before: self.validity.not_before,
            not_after: self.validity.not_after,
        }
    }
}

/// Reads the key of an authority from its file in PEM form.
fn private_key(text: &[u8], path: &Path) -> Result<CertificateKey, HomeCaFault> {
    let octets = PrivatePkcs8KeyDer::from_pem_slice(text);
    let octets = octets.map(|one| Zeroizing::new(one.secret_pkcs8_der().to_vec()));
    CertificateKey::from_pkcs8(octets.as_deref().map_or(&[], Vec::as_slice))
        .map_err(|source| HomeCaFault::Key { path: path.to_owned(), source })
}

/// Returns the authority of a configuration in DER, if it can be read.
pub fn authority_of(config: &HomeCaConfig) -> Option<Vec<u8>> {
    let text = read(&config.authority()).ok().flatten()?;
    CertificateDer::from_pem_slice(&text).ok().map(|one| one.to_vec())
}

/// Returns whether the certificate of this server has this first line, and need not be renewed yet.
fn is_current(config: &HomeCaConfig, purpose: &str, now_secs: u64) -> Result<bool, HomeCaFault> {
    let Some(text) = read(&config.certificate())?.map(Zeroizing::new) else { return Ok(false) };
    if text.split(|octet| *octet == b'\n').next() != Some(purpose.as_bytes()) {
        return Ok(false);
    }
    // A damaged certificate is issued again.
    let certificate = Certificate::read(&text, &text, &config.names).ok();
    let validity = certificate.and_then(|certificate| certificate.validity());
    Ok(validity.is_some_and(|Validity { not_before, not_after }| {
        let renewal = not_before + not_after.saturating_sub(not_before) / 3 * 2;
        (not_before..renewal).contains(&now_secs)
    }))
}

/// Returns the first line of the certificate's file. It states the settings of the certificate. If
/// the line changes, a new certificate is necessary.
fn purpose(config: &HomeCaConfig, authority: &Authority) -> String {
    format!("[home-ca] of {} for {}", authority.sha256(), shown_names(config))
}

fn shown_names(config: &HomeCaConfig) -> String {
    let addresses = config.addresses.iter().map(IpAddr::to_string);
    config.names.iter().cloned().chain(addresses).collect::<Vec<_>>().join(" ")
}

/// Returns the subject name of an authority. Different servers and keys have different names.
fn subject(key: &CertificateKey) -> String {
    let digest = digest(&SHA256, &key.public());
    let id = digest.as_ref().get(..4).unwrap_or_default();
    format!("Avocet home authority {}", HEXLOWER.encode(id))
}

/// Returns a random serial number (RFC 5280 §4.1.2.2).
fn serial() -> [u8; 16] {
    let mut octets = [0; 16];
    // If the random source failed, no key could have been made before.
    let _ = getrandom::fill(&mut octets);
    octets[0] = octets[0] & 0x7f | 1;
    octets
}

/// Creates the directory. Only the account of the server may read it. An existing directory may
/// have other files, and keeps its mode.
fn create(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Replaces a file that only its owner may read. Until the file has the correct mode, the
/// directory's mode protects it.
fn write(path: &Path, parts: &[&[u8]]) -> Result<(), HomeCaFault> {
    let replaced = disk::replace(path, parts);
    let private =
        replaced.and_then(|()| std::fs::set_permissions(path, Permissions::from_mode(0o600)));
    private.map_err(at(path))
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, HomeCaFault> {
    disk::read(path, MAX_OCTETS).map_err(at(path))
}

fn at(path: &Path) -> impl Fn(io::Error) -> HomeCaFault {
    let path = path.to_owned();
    move |source| HomeCaFault::Disk { path: path.clone(), source }
}

#[cfg(test)]
mod tests;
