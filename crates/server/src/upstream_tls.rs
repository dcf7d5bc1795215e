//! The settings of TLS to upstreams: read at the start and by a reload, and shared by all workers,
//! so that each resumes the sessions of the others.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fmt, io};

use avocet_config::Config;
use avocet_config::certificate_files::CertificateFiles;
use avocet_config::upstream_tls::{
    Authentication, HttpsMethod, HttpsPath, PeerName, TlsPeer, UpstreamTls,
};
use avocet_io::file::read_regular;
use avocet_resolver::{PeerId, Transport};
use avocet_session::certificate::{ALPN_DOT, ALPN_H2, Certificate};
use avocet_session::http::{HttpMethod, HttpTarget};
use avocet_session::session::ClientSession;
use avocet_session::trust::{Trust, authorities, client_showing};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};

use crate::certificates::{CertificateFault, MAX_PEM};

/// The port that an authority in HTTPS does not name.
const HTTPS_PORT: u16 = 443;
/// Milliseconds between two warnings about one upstream.
const WARN_MS: u64 = 60_000;

/// All upstreams with TLS of the configuration in force.
#[derive(Default)]
pub(crate) struct UpstreamPeers {
    in_force: Mutex<InForce>,
}

/// Upstreams by number.
pub(crate) type PeerMap = HashMap<PeerId, Arc<UpstreamPeer>>;

#[derive(Default)]
struct InForce {
    peers: PeerMap,
    /// Those of the configuration before, whose queries may still be in flight.
    before: PeerMap,
}

/// An upstream with TLS, apart from its address.
pub(crate) struct UpstreamPeer {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    /// Where queries go in HTTPS; `None` for TLS.
    target: Option<HttpTarget>,
    /// When a worker last warned of it, in milliseconds; `u64::MAX` for never.
    warned_ms: AtomicU64,
}

/// An error: the plan has an upstream whose settings were not read.
#[derive(Debug)]
pub(crate) struct UnknownPeer;

impl fmt::Display for UnknownPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("its settings of TLS are not in force")
    }
}

impl std::error::Error for UnknownPeer {}

impl UpstreamPeers {
    /// Reads the settings of a configuration.
    ///
    /// # Errors
    /// A file cannot be used.
    pub(crate) fn load(config: &Config) -> Result<Self, CertificateFault> {
        let peers = Self::default();
        peers.put(read(config)?);
        Ok(peers)
    }

    /// Puts settings in force.
    pub(crate) fn put(&self, peers: PeerMap) {
        let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        in_force.before = std::mem::replace(&mut in_force.peers, peers);
    }

    /// Returns the settings of an upstream.
    pub(crate) fn at(&self, id: PeerId) -> Option<Arc<UpstreamPeer>> {
        let in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        in_force.peers.get(&id).or_else(|| in_force.before.get(&id)).cloned()
    }
}

impl UpstreamPeers {
    /// Returns the host name in the certificate of an upstream, if it has TLS and a name.
    pub(crate) fn host_name(&self, transport: Transport) -> Option<String> {
        self.at(transport.peer()?)?.host_name().map(str::to_owned)
    }
}

impl UpstreamPeer {
    /// Begins a session.
    ///
    /// # Errors
    /// Those of rustls.
    pub(crate) fn session(&self) -> io::Result<ClientSession> {
        let session = match &self.target {
            None => ClientSession::connect(&self.config, self.name.clone()),
            Some(target) => {
                ClientSession::connect_https(&self.config, self.name.clone(), target.clone())
            }
        };
        session.map_err(io::Error::other)
    }

    /// Returns the host name, unless the upstream has only its address.
    pub(crate) fn host_name(&self) -> Option<&str> {
        match &self.name {
            ServerName::DnsName(name) => Some(name.as_ref()),
            _ => None,
        }
    }

    /// Logs that TLS or HTTPS failed, unless a worker has done so lately.
    pub(crate) fn warn(&self, addr: SocketAddr, error: &io::Error, now_ms: u64) {
        let warned_ms = self.warned_ms.load(Ordering::Relaxed);
        let is_recent = warned_ms != u64::MAX && now_ms < warned_ms.saturating_add(WARN_MS);
        let swapped = || {
            self.warned_ms
                .compare_exchange(warned_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        };
        if !is_recent && swapped() {
            let name = self.host_name().map_or_else(String::new, |name| format!("{name}@"));
            let scheme = if self.target.is_some() { "https" } else { "tls" };
            tracing::warn!("no answers from the upstream {scheme}://{name}{addr}: {error}");
        }
    }
}

/// Reads the settings of a configuration that is to come into force.
///
/// # Errors
/// A file cannot be used.
pub(crate) fn read(config: &Config) -> Result<PeerMap, CertificateFault> {
    let mut peers = PeerMap::new();
    let mut configs: HashMap<(UpstreamTls, &[u8]), Arc<ClientConfig>> = HashMap::new();
    for peer in config.forwards.iter().flat_map(|forward| forward.peers()) {
        let alpn = if peer.https.is_some() { ALPN_H2 } else { ALPN_DOT };
        let key = (peer.tls.clone(), alpn);
        let config = match configs.get(&key) {
            Some(config) => config.clone(),
            None => client_config(&peer.tls, alpn)?,
        };
        configs.insert(key, config.clone());
        if let Some(name) = server_name(&peer) {
            let warned_ms = AtomicU64::new(u64::MAX);
            let target = peer.https.as_ref().map(|https| target(&peer, https));
            peers.insert(peer.id(), Arc::new(UpstreamPeer { config, name, target, warned_ms }));
        }
    }
    Ok(peers)
}

/// Returns why the upstreams with TLS of a configuration cannot be used.
pub fn fault_of_upstreams(config: &Config) -> Option<CertificateFault> {
    read(config).err()
}

fn target(peer: &TlsPeer, https: &HttpsPath) -> HttpTarget {
    let host = match &peer.name {
        PeerName::Host(name) => name.to_string(),
        PeerName::Address(IpAddr::V4(ip)) => ip.to_string(),
        PeerName::Address(IpAddr::V6(ip)) => format!("[{ip}]"),
    };
    let port = match https.port {
        HTTPS_PORT => String::new(),
        port => format!(":{port}"),
    };
    let method = match https.method {
        HttpsMethod::Get => HttpMethod::Get,
        HttpsMethod::Post => HttpMethod::Post,
    };
    HttpTarget { authority: (host + &port).into(), path: https.path.clone(), method }
}

fn server_name(peer: &TlsPeer) -> Option<ServerName<'static>> {
    match &peer.name {
        PeerName::Host(name) => ServerName::try_from(name.to_string()).ok(),
        PeerName::Address(ip) => Some(ServerName::from(*ip)),
    }
}

fn client_config(tls: &UpstreamTls, alpn: &[u8]) -> Result<Arc<ClientConfig>, CertificateFault> {
    let shown = tls.client.as_ref().map(certificate).transpose()?;
    let pins = || tls.pins.iter().map(|pin| pin.0).collect();
    let trust = match (tls.authentication, &tls.ca) {
        (Authentication::Opportunistic, _) => Trust::Nobody,
        (_, Some(ca)) if tls.pins.is_empty() => Trust::Authorities(own_authorities(ca)?),
        (_, Some(ca)) => Trust::AuthoritiesAndPins(own_authorities(ca)?, pins()),
        (_, None) if tls.pins.is_empty() => Trust::Authorities(system_authorities()?),
        (_, None) => Trust::Pins(pins()),
    };
    client_showing(trust, shown.as_ref(), &[alpn]).map_err(CertificateFault::Cryptography)
}

fn read_file(path: &Path) -> Result<Vec<u8>, CertificateFault> {
    read_regular(path, MAX_PEM)
        .map_err(|source| CertificateFault::File { path: path.to_owned(), source })
}

fn own_authorities(path: &Path) -> Result<RootCertStore, CertificateFault> {
    authorities(&read_file(path)?)
        .map_err(|source| CertificateFault::File { path: path.to_owned(), source })
}

/// Returns the authorities that the system trusts.
fn system_authorities() -> Result<RootCertStore, CertificateFault> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(CertificateFault::NoAuthorities) } else { Ok(roots) }
}

fn certificate(files: &CertificateFiles) -> Result<Certificate, CertificateFault> {
    let CertificateFiles { chain, key } = files;
    Certificate::read(&read_file(chain)?, &read_file(key)?, &[]).map_err(|source| {
        let path = if source.is_of_key() { key } else { chain };
        CertificateFault::Refused { path: path.clone(), source }
    })
}
