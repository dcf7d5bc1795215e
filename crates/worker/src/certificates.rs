//! The certificates of the listeners with TLS: read at the start, by a reload, and when their files
//! change. The secrets of session tickets do not change, so that clients can resume their sessions.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

use avocet_config::certificate::{CertificateConfig, CertificateSource};
use avocet_config::certificate_files::CertificateFiles;
use avocet_config::client_certificate::{ClientCertificates, Presence};
use avocet_config::{Config, OpenAddress, Protocol};
use avocet_io::account::Account;
use avocet_io::file::read_regular;
use avocet_io::process::is_root;
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::file_watch::FileFingerprint;
use avocet_nameserver::query::asked::Entrance;
use avocet_nameserver::query::designation::ShownCertificate;
use avocet_session::certificate::{
    ALPN_DOH, ALPN_DOQ, ALPN_DOT, ALPN_H3, Absence, Certificate, CertificateChoice,
    CertificateError, ClientAuthority, EarlyTransport, Tickets, listener,
};
use avocet_session::challenge::{ChallengeCertificates, only_proofs, with_proofs};
use avocet_session::quic::listener::ListenerError;
use avocet_session::quic::{QuicKeys, QuicListener, QuicProtocol};
use avocet_session::trust::authorities;
use aws_lc_rs::digest::{SHA256, digest};
use rustls::ServerConfig;
use thiserror::Error;

use crate::home_ca;

/// The bits of a file's mode that give access to users who neither own the file nor are in its
/// group.
const OTHERS: u32 = 0o007;
/// Maximum number of octets of a file with certificates or a key.
pub const MAX_PEM: u64 = 1 << 20;
/// The protocol of HTTPS for browsers in ALPN (RFC 9112).
const ALPN_WEB: &[u8] = b"http/1.1";
/// Maximum number of sets of client authorities for which ticket keys are kept. Listeners have
/// fewer sets.
const MAX_CLIENT_TICKETS: usize = 256;

/// The reason why a certificate is not used.
#[derive(Debug, Error)]
pub enum CertificateFault {
    /// A file is missing, or is not PEM.
    #[error("{} cannot be read: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: rustls::pki_types::pem::Error,
    },
    /// The certificate is invalid, or the key belongs to another certificate.
    #[error("{} and its key cannot be used: {source}", .path.display())]
    Unusable {
        /// The file with the certificate.
        path: PathBuf,
        /// The reason.
        source: rustls::Error,
    },
    /// A file of a `[[certificate]]` cannot be read.
    #[error("{} cannot be read: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The account of the server is unknown.
    #[error("`user` {user:?} of [server]: {source}")]
    Account {
        /// Its name.
        user: String,
        /// The reason.
        source: io::Error,
    },
    /// A `[[certificate]]` cannot be used.
    #[error("{}: {source}", .path.display())]
    Refused {
        /// The file that cannot be used.
        path: PathBuf,
        /// The reason.
        source: CertificateError,
    },
    /// The system has no trusted certificate authorities.
    #[error(
        "the system has no authorities for certificates: install the package ca-certificates, or \
         set `ca` or `pins`"
    )]
    NoAuthorities,
    /// The settings of QUIC cannot be used.
    #[error("QUIC cannot be used: {0}")]
    Quic(#[from] ListenerError),
    /// The system's random source fails.
    #[error("the random source of the system fails")]
    Random,
    /// The cryptography of TLS cannot be used.
    #[error("TLS cannot be used: {0}")]
    Cryptography(rustls::Error),
}

impl CertificateFault {
    /// Reports whether only the permission to read a file is missing.
    pub fn is_of_permission(&self) -> bool {
        match self {
            Self::File { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            _ => false,
        }
    }

    /// Reports whether a file does not exist.
    fn is_of_missing_file(&self) -> bool {
        matches!(self, Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// The certificates of listeners with TLS, by the address to which a client connects.
pub struct TlsListeners {
    tickets: Tickets,
    quic_keys: QuicKeys,
    /// The ticket keys of addresses that request client certificates, by the authorities of these
    /// certificates. A ticket restores a client's proven identity, which must not be accepted at an
    /// address with other authorities.
    client_tickets: Mutex<HashMap<[u8; 32], Tickets>>,
    in_force: Mutex<InForce>,
    /// The number of times that the authorities of client certificates have changed.
    authority_changes: AtomicU64,
    /// The proofs that certificate authorities currently check; `None` if there are none.
    proofs: Mutex<Option<ShownProofs>>,
    has_proofs: AtomicBool,
}

/// Certificates that prove the control of names to an authority (RFC 8737).
#[derive(Clone)]
struct ShownProofs {
    certificates: Arc<ChallengeCertificates>,
    /// The TLS configuration for clients that may see only these proofs.
    only: Arc<ServerConfig>,
}

/// Certificates that were read and are not in force yet.
#[derive(Default)]
pub struct TlsState {
    /// The TLS configuration of each address on which the server listens; `None` without TLS.
    listeners: Vec<Option<Arc<ServerConfig>>>,
    /// The QUIC listener of each address on which the server listens; `None` without QUIC.
    quic: Vec<Option<QuicListener>>,
    /// For each address on which the server listens, the digest of the authorities of client
    /// certificates and of whether certificates are required; `None` without authorities.
    authorities: Vec<Option<[u8; 32]>>,
    /// The fingerprints of the files, taken before the files were read.
    files: Vec<SeenFile>,
    /// The certificates in the order of the configuration; `None` for a certificate that the server
    /// has not obtained yet.
    certificates: Vec<Option<Certificate>>,
    /// The configuration of HTTPS for browsers; `None` without a certificate.
    web: Option<Arc<ServerConfig>>,
}

impl TlsState {
    /// Returns the names of the certificates, and the server's addresses for which they are valid.
    pub fn shown_names(&self, config: &Config) -> Arc<[ShownCertificate]> {
        let own: BTreeSet<_> = config.server.addresses().iter().map(SocketAddr::ip).collect();
        // A certificate that the server has not obtained yet has no name, so that no client is
        // directed to it.
        let shown = |one: &Option<Certificate>| ShownCertificate {
            names: one.as_ref().map_or_else(Vec::new, |one| one.names().to_vec()),
            addresses: own
                .iter()
                .copied()
                .filter(|ip| one.as_ref().is_some_and(|one| one.is_valid_for(*ip)))
                .collect(),
        };
        self.certificates.iter().map(shown).collect()
    }
}

#[derive(Default)]
struct InForce {
    state: TlsState,
    /// The fingerprints of the files at the last check.
    last_seen: Vec<SeenFile>,
    /// The number of times that certificates were put in force.
    version: u64,
    /// The reason why files that changed later are not in force.
    fault: Option<String>,
}

/// The certificates that clients see at present.
pub struct CertificatesInUse {
    /// The certificates, in the order of the configuration; `None` for a certificate that the
    /// server has not obtained yet.
    pub certificates: Vec<Option<Certificate>>,
    /// The reason why the present files are not in force; `None` if they are in force.
    pub fault: Option<String>,
}

impl InForce {
    fn put(&mut self, state: TlsState) {
        self.last_seen.clone_from(&state.files);
        self.state = state;
        self.version += 1;
        self.fault = None;
    }
}

/// The fingerprints of the two files of a certificate at one time.
type SeenFile = [Option<FileFingerprint>; 2];

impl TlsListeners {
    /// Reads the certificates of a configuration.
    ///
    /// # Errors
    /// A certificate cannot be used.
    pub fn load(config: &Config) -> Result<Self, CertificateFault> {
        // A server that later switches to another account could not use these files. Such a server
        // makes them when it runs.
        if let (Some(home_ca), None) = (&config.home_ca, &config.server.user)
            && let Err(fault) = home_ca::keep(home_ca, wall_secs())
        {
            tracing::warn!("[home-ca]: {fault}");
        }
        let tickets = Tickets::draw().map_err(CertificateFault::Cryptography)?;
        let quic_keys = QuicKeys::draw().map_err(|_| CertificateFault::Random)?;
        let listeners = Self {
            tickets,
            quic_keys,
            client_tickets: Mutex::default(),
            in_force: Mutex::default(),
            authority_changes: AtomicU64::new(0),
            proofs: Mutex::default(),
            has_proofs: AtomicBool::new(false),
        };
        let state = listeners.read(config)?;
        listeners.put(state);
        Ok(listeners)
    }

    /// Reads the certificates of a configuration before it comes into force.
    ///
    /// # Errors
    /// A certificate cannot be used.
    pub fn read(&self, config: &Config) -> Result<TlsState, CertificateFault> {
        let files = seen(config);
        let all = read_all(config)?;
        let authorities = read_authorities(config)?;
        let mut state = TlsState { files, ..TlsState::default() };
        for one in config.server.open_addresses() {
            let asked = config.server.client_certificates_at(&one);
            let asked = asked.and_then(|asked| authorities.get(asked));
            state.authorities.push(asked.map(|read| read.digest));
            let keys = (&*all, asked);
            let (mut tls, mut quic) = (None, None);
            match one.protocol {
                Protocol::Plain => {}
                _ if all.iter().all(Option::is_none) => {}
                Protocol::Tls | Protocol::Https => {
                    tls = Some(self.listener(config, &one, keys)?);
                }
                Protocol::Quic | Protocol::H3 => {
                    let tls = self.listener(config, &one, keys)?;
                    let protocol = match one.protocol {
                        Protocol::Quic => QuicProtocol::Doq,
                        _ => QuicProtocol::H3,
                    };
                    let settings = (protocol, config.server.tcp.idle);
                    quic = Some(QuicListener::new(tls, &self.quic_keys, settings)?);
                }
            }
            state.listeners.push(tls);
            state.quic.push(quic);
        }
        let obtained: Vec<_> = all.iter().flatten().cloned().collect();
        if !obtained.is_empty() {
            let choice = Arc::new(CertificateChoice::new(&obtained));
            let web = listener(choice, &self.tickets, &[ALPN_WEB], None);
            state.web = Some(web.map_err(CertificateFault::Cryptography)?);
        }
        state.certificates = all;
        Ok(state)
    }

    fn listener(
        &self,
        config: &Config,
        one: &OpenAddress,
        (all, clients): (&[Option<Certificate>], Option<&ReadAuthority>),
    ) -> Result<Arc<ServerConfig>, CertificateFault> {
        let name = one.listener.as_ref();
        let of_name = config.server.listeners.iter().find(|other| Some(&other.name) == name);
        let chosen = of_name.and_then(|listener| listener.certificate.as_ref());
        let shown = match chosen {
            None => CertificateChoice::new(&all.iter().flatten().cloned().collect::<Vec<_>>()),
            Some(name) => {
                let pairs = config.certificates.iter().zip(all);
                let chosen = pairs.filter(|(config, _)| config.has_name(name));
                let chosen: Vec<_> = chosen.filter_map(|(_, one)| one.clone()).collect();
                CertificateChoice::new(&chosen)
            }
        };
        let alpn: &[&[u8]] = match one.protocol {
            Protocol::Https => &ALPN_DOH,
            Protocol::Plain | Protocol::Tls => &[ALPN_DOT],
            Protocol::Quic => &[ALPN_DOQ],
            Protocol::H3 => &[ALPN_H3],
        };
        let (tickets, clients) = match clients {
            None => (self.tickets.clone(), None),
            Some(clients) => (self.tickets_of(clients)?, Some(&clients.authority)),
        };
        let early = match one.protocol {
            Protocol::Tls => Some(EarlyTransport::Tls),
            Protocol::Quic => Some(EarlyTransport::Quic),
            Protocol::Plain | Protocol::Https | Protocol::H3 => None,
        };
        let tickets = match early.filter(|_| config.server.early_data) {
            None => tickets,
            Some(transport) => tickets.with_early_data(transport),
        };
        listener(Arc::new(shown), &tickets, alpn, clients).map_err(CertificateFault::Cryptography)
    }

    /// Returns the ticket keys of addresses that request certificates of these authorities. A
    /// reload keeps the keys.
    fn tickets_of(&self, clients: &ReadAuthority) -> Result<Tickets, CertificateFault> {
        let mut all = self.client_tickets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tickets) = all.get(&clients.digest) {
            return Ok(tickets.clone());
        }
        if all.len() >= MAX_CLIENT_TICKETS {
            all.clear();
        }
        let tickets = Tickets::draw().map_err(CertificateFault::Cryptography)?;
        all.insert(clients.digest, tickets.clone());
        Ok(tickets)
    }

    /// Puts certificates in force for connections that begin from now on.
    pub fn put(&self, state: TlsState) {
        let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        self.put_into(&mut in_force, state);
    }

    fn put_into(&self, in_force: &mut InForce, state: TlsState) {
        let has_changed = in_force.state.authorities != state.authorities;
        in_force.put(state);
        if has_changed {
            self.authority_changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Returns the number of times that the authorities of client certificates have changed. What a
    /// client proved on a connection that began before the last change no longer counts.
    pub fn authority_changes(&self) -> u64 {
        self.authority_changes.load(Ordering::Acquire)
    }

    /// Returns the certificates in force.
    pub fn shown(&self) -> CertificatesInUse {
        let in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        let certificates = in_force.state.certificates.clone();
        CertificatesInUse { certificates, fault: in_force.fault.clone() }
    }

    /// Returns the names of the certificates in force, and the server's addresses for which they
    /// are valid.
    pub fn shown_names(&self, config: &Config) -> Arc<[ShownCertificate]> {
        let in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        in_force.state.shown_names(config)
    }

    /// Returns the settings of an address with TLS; `None` if it has no certificate any more.
    pub fn at(&self, entrance: Entrance) -> Option<Arc<ServerConfig>> {
        let in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        let listener = in_force.state.listeners.get(usize::from(entrance.0)).cloned().flatten();
        drop(in_force);
        match (listener, self.proofs()) {
            (Some(listener), Some(proofs)) => Some(with_proofs(&listener, proofs.certificates)),
            (None, Some(proofs)) => Some(proofs.only),
            (listener, None) => listener,
        }
    }

    /// Returns the settings of HTTPS for browsers with these certificates; `None` if there is none.
    pub fn for_web(&self) -> Option<Arc<ServerConfig>> {
        let in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        in_force.state.web.clone()
    }

    /// Returns the settings for a client that the access list does not allow. It may see only
    /// proofs of the control of names, because an authority may connect from any address. Returns
    /// `None` if no proof is shown at present.
    pub fn for_authorities(&self) -> Option<Arc<ServerConfig>> {
        self.proofs().map(|proofs| proofs.only)
    }

    fn proofs(&self) -> Option<ShownProofs> {
        // Proofs are rarely shown, so this test avoids the lock for most connections.
        if !self.has_proofs.load(Ordering::Relaxed) {
            return None;
        }
        self.proofs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows a proof, in addition to the proofs that are already shown. A proof is a certificate in
    /// DER with its key in PKCS #8.
    ///
    /// # Errors
    /// The certificate cannot be used.
    pub fn put_proof(
        &self,
        name: &str,
        certificate: &[u8],
        key: &[u8],
    ) -> Result<(), rustls::Error> {
        let mut shown = self.proofs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all =
            shown.as_ref().map_or_else(Default::default, |shown| (*shown.certificates).clone());
        all.put(name, certificate, key)?;
        let certificates = Arc::new(all);
        let only = only_proofs(certificates.clone())?;
        *shown = Some(ShownProofs { certificates, only });
        self.has_proofs.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Removes all proofs.
    pub fn clear_proofs(&self) {
        self.has_proofs.store(false, Ordering::Relaxed);
        *self.proofs.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the settings of an address with QUIC; `None` if it has no certificate any more.
    pub fn quic_at(&self, entrance: Entrance) -> Option<QuicListener> {
        let in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        in_force.state.quic.get(usize::from(entrance.0))?.clone()
    }

    /// Returns the secrets of QUIC.
    pub fn quic_keys(&self) -> &QuicKeys {
        &self.quic_keys
    }

    /// Reads the files that have changed, if they have not changed again since the last call. If a
    /// file cannot be used, the present certificates stay in force. Returns whether new
    /// certificates came into force.
    pub fn look(&self, config: &Config) -> bool {
        if config.certificates.is_empty() {
            return false;
        }
        let now = seen(config);
        let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        let is_settled = now == in_force.last_seen;
        let has_changed = now != in_force.state.files;
        in_force.last_seen.clone_from(&now);
        if !is_settled || !has_changed {
            return false;
        }
        in_force.state.files = now;
        let version = in_force.version;
        drop(in_force);
        match self.read(config) {
            Ok(state) => {
                let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
                // A reload has put the certificates of a later configuration in force in the
                // meantime.
                if in_force.version != version {
                    return false;
                }
                self.put_into(&mut in_force, state);
                drop(in_force);
                warn_of_open_keys(config);
                tracing::info!("the files of certificates have changed and are in use");
                true
            }
            Err(error) => {
                tracing::warn!("the certificates before stay in use: {error}");
                let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
                in_force.fault = Some(error.to_string());
                false
            }
        }
    }
}

fn seen(config: &Config) -> Vec<SeenFile> {
    let prints = |one: &CertificateConfig| {
        let CertificateFiles { chain, key } = &one.files;
        [FileFingerprint::of(chain), FileFingerprint::of(key)]
    };
    let authorities = config.server.client_authorities();
    let prints_of_authority = |ca: &&ClientCertificates| [FileFingerprint::of(&ca.ca), None];
    let certificates = config.certificates.iter().map(prints);
    certificates.chain(authorities.iter().map(prints_of_authority)).collect()
}

/// The certificate authorities of clients, as read from a file.
struct ReadAuthority {
    authority: ClientAuthority,
    /// The SHA-256 digest of the file and of whether certificates are required.
    digest: [u8; 32],
}

/// Reads the certificate authorities of clients.
fn read_authorities(
    config: &Config,
) -> Result<HashMap<&ClientCertificates, ReadAuthority>, CertificateFault> {
    let read = |one| read_authority(one).map(|read| (one, read));
    config.server.client_authorities().into_iter().map(read).collect()
}

fn read_authority(config: &ClientCertificates) -> Result<ReadAuthority, CertificateFault> {
    let fault = |source| CertificateFault::File { path: config.ca.clone(), source };
    let mut octets = read_regular(&config.ca, MAX_PEM).map_err(fault)?;
    let roots = Arc::new(authorities(&octets).map_err(fault)?);
    let absence = match config.presence {
        Presence::Optional => Absence::Accepted,
        Presence::Required => Absence::Refused,
    };
    octets.push(absence as u8);
    let digest = digest(&SHA256, &octets).as_ref().try_into().unwrap_or_default();
    Ok(ReadAuthority { authority: ClientAuthority { roots, absence }, digest })
}

fn read_all(config: &Config) -> Result<Vec<Option<Certificate>>, CertificateFault> {
    // The server keeps the certificates that it obtains in a directory of its account. At its start
    // as root, it must not follow links in it to other keys of the system.
    let account = config.server.user.as_ref().filter(|_| is_root()).map(|user| {
        Account::find(user)
            .map_err(|source| CertificateFault::Account { user: user.clone(), source })
    });
    let account = account.transpose()?;
    let read = |one: &CertificateConfig| match (&account, one.source) {
        (None, _) | (_, CertificateSource::Files) => read_if_there(one),
        (Some(account), _) => account
            .run(|| read_if_there(one))
            .map_err(|source| CertificateFault::File { path: one.files.chain.clone(), source })?,
    };
    config.certificates.iter().map(read).collect()
}

/// Reads a certificate. A certificate that the server obtains may not exist yet. If the file of
/// such a certificate is damaged, the certificate is obtained again.
fn read_if_there(config: &CertificateConfig) -> Result<Option<Certificate>, CertificateFault> {
    match (read_one(config), config.source) {
        (Ok(read), _) => Ok(Some(read)),
        (Err(fault), CertificateSource::Files) => Err(fault),
        (Err(fault), source) => {
            if !fault.is_of_missing_file() {
                let table = if source == CertificateSource::Acme { "[acme]" } else { "[home-ca]" };
                tracing::warn!("the certificate of {table} is not in use: {fault}");
            }
            Ok(None)
        }
    }
}

fn read_one(config: &CertificateConfig) -> Result<Certificate, CertificateFault> {
    let CertificateFiles { chain, key } = &config.files;
    let read = |path: &Path| {
        read_regular(path, MAX_PEM)
            .map_err(|source| CertificateFault::File { path: path.to_owned(), source })
    };
    Certificate::read(&read(chain)?, &read(key)?, &config.names).map_err(|source| {
        let path = if source.is_of_key() { key } else { chain };
        CertificateFault::Refused { path: path.clone(), source }
    })
}

/// Returns the reason why the certificates of a configuration cannot be used; `None` if they can.
pub fn fault_of_certificates(config: &Config) -> Option<CertificateFault> {
    read_all(config).err().or_else(|| read_authorities(config).err())
}

/// Returns a warning for each private key that other users may read.
pub fn open_keys(config: &Config) -> Vec<String> {
    let is_open = |path: &Path| {
        let permissions = fs::metadata(path).map(|facts| facts.permissions());
        permissions.is_ok_and(|permissions| permissions.mode() & OTHERS != 0)
    };
    let keys = config.certificates.iter().map(|one| &one.files.key).filter(|key| is_open(key));
    let warning = |key: &PathBuf| {
        let key = key.display();
        format!("the private key {key} can be read by every user of this host: chmod o= {key}")
    };
    keys.map(warning).collect()
}

/// Logs the private keys that other users may read.
pub fn warn_of_open_keys(config: &Config) {
    open_keys(config).iter().for_each(|warning| tracing::warn!("{warning}"));
}
