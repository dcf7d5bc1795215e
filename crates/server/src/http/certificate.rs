//! The certificate of the HTTPS listener: one of its own, which is read again when its files
//! change, or the certificates that it shares with encrypted DNS.
//!
//! DNS is served even if the certificate is unusable. Connections to the HTTPS listener are then
//! closed, and the status of the server reports the problem until the files are usable.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use avocet_config::certificate_files::CertificateFiles;
use avocet_config::web::HttpsCertificate;
use avocet_nameserver::file_watch::FileFingerprint;
use rustls::ServerConfig;

use crate::running::Running;
use crate::running::certificate::{ShownWebCertificate, WebCertificate, read};
use crate::running::shown_certificates::note_faults;

/// Interval between two checks of the files.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// The condition while none of the shared certificates exists.
const NONE_YET: &str = "HTTPS is not served until [acme] or [home-ca] has a certificate: see \
                        `avocet certificate list`";

/// The certificate in force.
#[derive(Default)]
pub(super) struct Certificate {
    /// The certificate of the listener's own files.
    loaded: Mutex<Loaded>,
}

#[derive(Default)]
struct Loaded {
    /// The certificate; `None` if there was no usable one yet.
    certificate: Option<Arc<WebCertificate>>,
    /// The files of the last certificate that was usable.
    seen: Option<SeenFiles>,
}

/// The state of the files at one time.
#[derive(Clone, PartialEq)]
struct SeenFiles {
    files: CertificateFiles,
    prints: [Option<FileFingerprint>; 2],
}

impl SeenFiles {
    fn of(files: &CertificateFiles) -> Self {
        let prints = [FileFingerprint::of(&files.chain), FileFingerprint::of(&files.key)];
        Self { files: files.clone(), prints }
    }
}

impl Certificate {
    /// Returns the configuration for a connection, if there is a certificate.
    pub(super) fn in_force(&self, running: &Running) -> Option<Arc<ServerConfig>> {
        match running.shared.snapshot().config.web.https.as_ref()?.certificate {
            HttpsCertificate::Own(_) => self.certificate().map(|one| one.config.clone()),
            HttpsCertificate::Shared => running.shared.tls.for_web(),
        }
    }

    fn certificate(&self) -> Option<Arc<WebCertificate>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner).certificate.clone()
    }

    /// Checks the files from time to time, without end. The caller makes the first check with
    /// [`look_for`](Self::look_for).
    pub(super) async fn watch(&self, running: &Running) {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            self.look_for(running);
        }
    }

    /// Checks the files that the configuration names.
    pub(super) fn look_for(&self, running: &Running) {
        let state = running.shared.snapshot();
        let https = state.config.web.https.as_ref();
        let files = https.and_then(|https| https.certificate.files());
        let fault = match files {
            Some(files) => self.look(files),
            None => {
                let is_served = https.is_none() || running.shared.tls.for_web().is_some();
                (!is_served).then(|| NONE_YET.to_owned())
            }
        };
        let certificate = files.and_then(|_| self.certificate());
        *running.web_certificate.lock().unwrap_or_else(PoisonError::into_inner) =
            ShownWebCertificate { certificate, fault };
        note_faults(running);
    }

    /// Reads the files if they have changed, or were not usable. If they cannot be used, returns
    /// the reason and keeps the previous certificate.
    fn look(&self, files: &CertificateFiles) -> Option<String> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = SeenFiles::of(files);
        if loaded.seen.as_ref() == Some(&seen) {
            return None;
        }
        match (read(files), &loaded.certificate) {
            (Ok(read), before) => {
                if before.is_some() {
                    tracing::info!("{} has changed and is in use", files.chain.display());
                }
                *loaded = Loaded { certificate: Some(Arc::new(read)), seen: Some(seen) };
                None
            }
            (Err(fault), Some(_)) => {
                loaded.seen = None;
                Some(format!("{fault}; the certificate before stays in use"))
            }
            (Err(fault), None) => Some(format!(
                "{fault}; HTTPS is not served until [web] tls-cert and tls-key are usable"
            )),
        }
    }
}
