//! The certificate of the HTTPS listener, which is read again when its files change.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use avocet_config::web::CertificateFiles;
use avocet_nameserver::file_watch::FileFingerprint;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::certificates::CertificateFault;
use crate::running::Running;

/// Interval of checks whether the files have changed.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// The certificate in force.
pub(super) struct Certificate {
    loaded: Mutex<Loaded>,
}

struct Loaded {
    config: Arc<ServerConfig>,
    /// The files that were read last, whether or not they were usable.
    seen: SeenFiles,
    looked: Instant,
}

/// The files at one time.
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
    /// Reads the files of a certificate.
    ///
    /// # Errors
    /// A file cannot be read, or the two do not belong together.
    pub(super) fn load(files: &CertificateFiles) -> Result<Self, CertificateFault> {
        let seen = SeenFiles::of(files);
        let loaded = Loaded { config: read(files)?, seen, looked: Instant::now() };
        Ok(Self { loaded: Mutex::new(loaded) })
    }

    /// Returns the configuration for a connection. If the files have changed, they are read first;
    /// if they cannot be used, the certificate before stays.
    pub(super) fn in_force(&self, running: &Running) -> Arc<ServerConfig> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.looked.elapsed() >= LOOK_INTERVAL {
            loaded.looked = Instant::now();
            let state = running.shared.snapshot();
            if let Some(https) = &state.config.web.https {
                loaded.look(&https.certificate);
            }
        }
        loaded.config.clone()
    }
}

impl Loaded {
    fn look(&mut self, files: &CertificateFiles) {
        let seen = SeenFiles::of(files);
        if seen == self.seen {
            return;
        }
        self.seen = seen;
        match read(files) {
            Ok(config) => {
                tracing::info!("{} has changed and is in use", files.chain.display());
                self.config = config;
            }
            Err(error) => tracing::warn!(%error, "the certificate before stays in use"),
        }
    }
}

fn read(files: &CertificateFiles) -> Result<Arc<ServerConfig>, CertificateFault> {
    let CertificateFiles { chain, key } = files;
    let unreadable = |path: &std::path::Path| {
        let path = path.to_owned();
        move |source| CertificateFault::Unreadable { path, source }
    };
    let certificates = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(unreadable(chain))?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(unreadable(key))?;
    let unusable = |source| CertificateFault::Unusable { path: chain.clone(), source };
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(certificates, private)
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
