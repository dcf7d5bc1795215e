//! The settings of TLS for upstreams. They are read at the start and by a reload. All workers share
//! them, so that a worker can resume the sessions of another worker.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

use avocet_client::{over_quic, over_tls};
use avocet_config::Config;
use avocet_config::certificate_files::CertificateFiles;
use avocet_config::discover::Discovery;
use avocet_config::primary::{Primaries, Primary};
use avocet_config::upstream_tls::{
    AnnouncedH3, Authentication, HttpsMethod, HttpsPath, PeerName, PeerProtocol, TlsPeer,
    UpstreamTls,
};
use avocet_config::zone_url::ZoneUrl;
use avocet_io::file::read_regular;
use avocet_resolver::{PeerId, Transport};
use avocet_session::certificate::{ALPN_DOQ, ALPN_DOT, ALPN_H2, ALPN_H3, Certificate};
use avocet_session::http::{AltSvc, HttpMethod, HttpTarget};
use avocet_session::quic::QuicProtocol;
use avocet_session::quic::client::{QuicClient, QuicSettings};
use avocet_session::quic::upstream::QuicUpstream;
use avocet_session::session::ClientSession;
use avocet_session::trust::{
    Trust, authorities, authority_certificates, client_of_transfers, client_showing,
};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use ureq::tls::{Certificate as UrlCertificate, ClientCert, PrivateKey};
use zeroize::Zeroizing;

use crate::alternative::Alternative;
use crate::certificates::{CertificateFault, MAX_PEM};

/// The default port of HTTPS, which is omitted in the authority of a request.
const HTTPS_PORT: u16 = 443;
/// Milliseconds between two warnings about one upstream.
const WARN_MS: u64 = 60_000;

/// All upstreams with TLS of the configuration in force.
#[derive(Default)]
pub struct UpstreamPeers {
    in_force: Mutex<InForce>,
    /// The settings that are used for all authoritative servers.
    unproven: OnceLock<Option<Arc<UpstreamPeer>>>,
}

/// Upstreams, by the identifier of the proof that each must provide.
pub type PeerMap = HashMap<PeerId, Arc<UpstreamPeer>>;

#[derive(Default)]
struct InForce {
    peers: PeerMap,
    /// The upstreams of the previous configuration. Queries to them may still be in flight.
    before: PeerMap,
    /// The encrypted servers that upstreams designate.
    designated: PeerMap,
    /// The encrypted servers that upstreams designated before. Queries to them may still be in
    /// flight.
    designated_before: PeerMap,
}

/// TLS configurations of clients, by required proof and by protocol. They are kept, so that files
/// are read only once.
#[derive(Default)]
pub struct ClientConfigs(HashMap<(UpstreamTls, &'static [u8]), Arc<ClientConfig>>);

impl ClientConfigs {
    fn of(
        &mut self,
        tls: &UpstreamTls,
        alpn: &'static [u8],
    ) -> Result<Arc<ClientConfig>, CertificateFault> {
        let key = (tls.clone(), alpn);
        if let Some(config) = self.0.get(&key) {
            return Ok(config.clone());
        }
        let config = client_config(tls, alpn)?;
        self.0.insert(key, config.clone());
        Ok(config)
    }
}

/// The settings of an upstream with TLS, without its address.
pub struct UpstreamPeer {
    carrier: PeerCarrier,
    /// The name in the certificate of the upstream; `None` for an authoritative server, which need
    /// not prove anything.
    name: Option<ServerName<'static>>,
    /// The path of queries in HTTP; `None` if the protocol is not HTTP.
    target: Option<HttpTarget>,
    /// The state of HTTP/3, for an upstream that is queried in HTTP/2.
    alternative: Option<Alternative>,
    /// Time in milliseconds of the last warning by a worker; `u64::MAX` if there was none.
    warned_ms: AtomicU64,
}

/// The transport of the queries to an upstream.
enum PeerCarrier {
    /// A stream with TLS.
    Stream(Arc<ClientConfig>),
    /// QUIC.
    Quic(QuicSettings),
}

/// The TLS settings for a primary with TLS.
#[derive(Clone)]
pub struct PrimaryTls {
    /// The TLS configuration, with the proofs that the primary must provide.
    pub config: Arc<ClientConfig>,
    /// The name in the certificate of the primary.
    pub name: ServerName<'static>,
}

/// The TLS settings for the server of a URL: the proofs that it must provide, and the certificate
/// that this server presents to it.
pub struct UrlTls {
    /// The trusted authorities; `None` for the authorities of the system.
    pub authorities: Option<Vec<CertificateDer<'static>>>,
    /// The certificate of this server, with its key.
    pub shown: Option<ClientCert>,
}

/// The error that the plan has an upstream whose settings were not read.
#[derive(Debug)]
pub struct UnknownPeer;

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
    pub fn load(config: &Config) -> Result<Self, CertificateFault> {
        let peers = Self::default();
        peers.put(read(config)?);
        Ok(peers)
    }

    /// Puts settings in force.
    pub fn put(&self, peers: PeerMap) {
        let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        in_force.before = std::mem::replace(&mut in_force.peers, peers);
    }

    /// Puts the settings of designated servers in force.
    pub fn put_designated(&self, peers: PeerMap) {
        let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        // Connections of workers with the previous plan still need its peers.
        let is_same = peers.keys().all(|id| in_force.designated.contains_key(id))
            && peers.len() == in_force.designated.len();
        let before = std::mem::replace(&mut in_force.designated, peers);
        if !is_same {
            in_force.designated_before = before;
        }
    }

    /// Returns the settings of the upstream with this identifier.
    pub fn at(&self, id: PeerId) -> Option<Arc<UpstreamPeer>> {
        if id == PeerId::UNPROVEN {
            return self.unproven.get_or_init(|| UpstreamPeer::unproven().map(Arc::new)).clone();
        }
        let in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        let InForce { peers, before, designated, designated_before } = &*in_force;
        let mut maps = [peers, before, designated, designated_before].into_iter();
        maps.find_map(|peers| peers.get(&id)).cloned()
    }
}

impl UpstreamPeers {
    /// Returns the host name in the certificate of an upstream, if it has TLS and a name.
    pub fn host_name(&self, transport: Transport) -> Option<String> {
        self.at(transport.peer()?)?.host_name().map(str::to_owned)
    }
}

impl UpstreamPeer {
    /// Reads the settings of an upstream. Returns `None` if no certificate can have its name.
    ///
    /// # Errors
    /// A file cannot be used.
    pub fn of(
        peer: &TlsPeer,
        configs: &mut ClientConfigs,
    ) -> Result<Option<Self>, CertificateFault> {
        let Some(name) = server_name(&peer.name) else { return Ok(None) };
        let (alpn, path) = match &peer.protocol {
            PeerProtocol::Tls => (ALPN_DOT, None),
            PeerProtocol::Quic => (ALPN_DOQ, None),
            PeerProtocol::Https(path) => (ALPN_H2, Some(path)),
            PeerProtocol::H3(path) => (ALPN_H3, Some(path)),
        };
        let config = configs.of(&peer.tls, alpn)?;
        let alternative = match &peer.protocol {
            PeerProtocol::Https(path) if path.h3 == AnnouncedH3::Auto => {
                let settings = QuicSettings::new(configs.of(&peer.tls, ALPN_H3)?, QuicProtocol::H3);
                Some(settings.map_err(|error| CertificateFault::Quic(error.into()))?)
            }
            _ => None,
        };
        Ok(Some(Self {
            carrier: carrier(config, &peer.protocol)?,
            name: Some(name),
            target: path.map(|path| target(peer, path)),
            alternative: alternative.map(Alternative::new),
            warned_ms: AtomicU64::new(u64::MAX),
        }))
    }

    /// Returns the settings for authoritative servers, which verify no certificate (RFC 9539 §4.2).
    /// Returns `None` if the TLS library cannot be used.
    fn unproven() -> Option<Self> {
        let config = client_showing(Trust::Nobody, None, &[ALPN_DOT]).ok()?;
        Some(Self {
            carrier: PeerCarrier::Stream(config),
            name: None,
            target: None,
            alternative: None,
            warned_ms: AtomicU64::new(u64::MAX),
        })
    }

    /// Returns the name of the server at an address. If the upstream has no name, it is the
    /// address. An address is not sent in the handshake (RFC 9539 §4.2: no SNI), and sessions are
    /// resumed only with the same address.
    fn name_at(&self, addr: SocketAddr) -> ServerName<'static> {
        self.name.clone().unwrap_or_else(|| ServerName::from(addr.ip()))
    }

    /// Sends a query to an address of the upstream, and waits for the response.
    ///
    /// # Errors
    /// The upstream does not answer, or does not provide the required proof.
    pub fn ask(&self, addr: SocketAddr, query: &[u8], timeout: Duration) -> io::Result<Vec<u8>> {
        let PeerCarrier::Quic(settings) = &self.carrier else {
            return Ok(over_tls::ask(self.session(addr)?, query, timeout, addr)?.0);
        };
        let name = self.name_at(addr);
        let name = name.to_str();
        let session = QuicClient::connect(settings, addr, &name, Instant::now());
        let session = session.map_err(io::Error::other)?;
        Ok(over_quic::ask((session, self.target.as_ref()), query, timeout, addr)?.0)
    }

    /// Begins a session with an address of the upstream.
    ///
    /// # Errors
    /// The TLS library reports an error.
    pub fn session(&self, addr: SocketAddr) -> io::Result<ClientSession> {
        let PeerCarrier::Stream(config) = &self.carrier else {
            return Err(io::Error::other(UnknownPeer));
        };
        let session = match &self.target {
            None => ClientSession::connect(config, self.name_at(addr)),
            Some(target) => {
                ClientSession::connect_https(config, self.name_at(addr), target.clone())
            }
        };
        session.map_err(io::Error::other)
    }

    /// Begins a QUIC connection to an address of the upstream.
    ///
    /// # Errors
    /// The address or name cannot be used.
    pub fn quic(&self, addr: SocketAddr, now: Instant) -> io::Result<QuicUpstream> {
        let PeerCarrier::Quic(settings) = &self.carrier else {
            return Err(io::Error::other(UnknownPeer));
        };
        let (name, target) = (self.name_at(addr), self.target.clone());
        QuicUpstream::connect(settings, addr, (&name.to_str(), target), now)
            .map_err(io::Error::other)
    }

    /// Records an announcement of HTTP/3 by an upstream that is queried in HTTP/2.
    pub fn note_alternative(&self, addr: SocketAddr, said: AltSvc, now_ms: u64) {
        if let Some(alternative) = &self.alternative {
            alternative.note(addr, said, now_ms);
        }
    }

    /// Returns the address at which HTTP/3 must be tried now, for an upstream that is queried in
    /// HTTP/2.
    pub fn alternative(&self, addr: SocketAddr, now_ms: u64) -> Option<SocketAddr> {
        self.alternative.as_ref()?.target(addr, now_ms)
    }

    /// Records that HTTP/3 does not work, for an upstream that is queried in HTTP/2.
    pub fn note_failed_alternative(&self, addr: SocketAddr, now_ms: u64) {
        if let Some(alternative) = &self.alternative {
            alternative.failed(addr, now_ms);
        }
    }

    /// Records that HTTP/3 has worked, for an upstream that is queried in HTTP/2.
    pub fn note_worked_alternative(&self, addr: SocketAddr) {
        if let Some(alternative) = &self.alternative {
            alternative.worked(addr);
        }
    }

    /// Begins an HTTP/3 connection to an upstream that is queried in HTTP/2.
    ///
    /// # Errors
    /// The upstream is not queried in HTTP/2, or the address or name cannot be used.
    pub fn alternative_at(&self, at: SocketAddr, now: Instant) -> io::Result<QuicUpstream> {
        let Some(alternative) = &self.alternative else {
            return Err(io::Error::other(UnknownPeer));
        };
        let (name, target) = (self.name_at(at), self.target.clone());
        QuicUpstream::connect(alternative.settings(), at, (&name.to_str(), target), now)
            .map(QuicUpstream::as_alternative)
            .map_err(io::Error::other)
    }

    /// Returns the host name; `None` if the upstream is known by its address only.
    pub fn host_name(&self) -> Option<&str> {
        match &self.name {
            Some(ServerName::DnsName(name)) => Some(name.as_ref()),
            _ => None,
        }
    }

    /// Logs that TLS, HTTPS or QUIC failed, unless a worker has logged this recently. Failures of
    /// authoritative servers are not logged, because most of these servers have no TLS.
    pub fn warn(&self, addr: SocketAddr, error: &io::Error, now_ms: u64) {
        if self.name.is_none() {
            return;
        }
        let warned_ms = self.warned_ms.load(Ordering::Relaxed);
        let is_recent = warned_ms != u64::MAX && now_ms < warned_ms.saturating_add(WARN_MS);
        let swapped = || {
            self.warned_ms
                .compare_exchange(warned_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        };
        if !is_recent && swapped() {
            let name = self.host_name().map_or_else(String::new, |name| format!("{name}@"));
            let scheme = match (&self.carrier, &self.target) {
                (PeerCarrier::Stream(_), None) => "tls",
                (PeerCarrier::Stream(_), Some(_)) => "https",
                (PeerCarrier::Quic(_), None) => "quic",
                (PeerCarrier::Quic(_), Some(_)) => "h3",
            };
            tracing::warn!("no answers from the upstream {scheme}://{name}{addr}: {error}");
        }
    }
}

/// Reads the settings of a configuration before it comes into force.
///
/// # Errors
/// A file cannot be used.
pub fn read(config: &Config) -> Result<PeerMap, CertificateFault> {
    let mut peers = PeerMap::new();
    let mut configs = ClientConfigs::default();
    for peer in config.forwards.iter().flat_map(|forward| forward.peers()) {
        if let Some(settings) = UpstreamPeer::of(&peer, &mut configs)? {
            peers.insert(peer.id(), Arc::new(settings));
        }
    }
    // The settings for designated servers are read when such servers are found. But the files that
    // the configuration requires for them are read now. A missing list of authorities is no error
    // here, because the servers can be used without encryption.
    let discover = config.forwards.iter().filter(|forward| forward.discover != Discovery::Off);
    for forward in discover {
        match configs.of(&forward.tls, ALPN_DOT) {
            Ok(_) | Err(CertificateFault::NoAuthorities) => {}
            Err(fault) => return Err(fault),
        }
    }
    // The members of a catalog have the primaries of the catalog. The same authorities would
    // otherwise be read for each of thousands of members.
    let zones = config.zones.iter().filter(|zone| !zone.catalog.is_member());
    let lists = config.policy.lists.iter().filter_map(|list| list.source.zone());
    let of_lists = lists.map(|list| &list.primaries);
    for primaries in zones.map(|zone| &zone.primaries).chain(of_lists) {
        if let Some(primary) = primaries.servers.iter().find(|one| one.tls.is_some()) {
            of_primary(primaries, primary)?;
        }
    }
    for source in config.zones.iter().filter_map(|zone| zone.source_url()) {
        match &source.database {
            // The authorities of the system are not needed if files are configured, or over a Unix
            // socket.
            Some(_) if source.ca.is_none() && source.client.is_none() => {}
            Some(_) => drop(of_database(source)?),
            None => drop(of_url(source)?),
        }
    }
    Ok(peers)
}

/// Returns the reason why the upstreams and primaries with TLS of a configuration cannot be used;
/// `None` if they can.
pub fn fault_of_upstreams(config: &Config) -> Option<CertificateFault> {
    read(config).err()
}

fn carrier(
    config: Arc<ClientConfig>,
    protocol: &PeerProtocol,
) -> Result<PeerCarrier, CertificateFault> {
    let protocol = match protocol {
        PeerProtocol::Tls | PeerProtocol::Https(_) => return Ok(PeerCarrier::Stream(config)),
        PeerProtocol::Quic => QuicProtocol::Doq,
        PeerProtocol::H3(_) => QuicProtocol::H3,
    };
    let settings = QuicSettings::new(config, protocol)
        .map_err(|error| CertificateFault::Quic(error.into()))?;
    Ok(PeerCarrier::Quic(settings))
}

/// Reads the proofs that a primary of a zone must provide; `None` for a primary without TLS. The
/// files are read for each check of the zone, so that a renewed authority needs no reload.
///
/// # Errors
/// A file cannot be used.
pub fn of_primary(
    primaries: &Primaries,
    primary: &Primary,
) -> Result<Option<PrimaryTls>, CertificateFault> {
    let Some(name) = primary.tls.as_ref().and_then(server_name) else { return Ok(None) };
    let (trust, shown) = proof(&primaries.tls)?;
    let config = client_of_transfers(trust, shown.as_ref(), &[ALPN_DOT])
        .map_err(CertificateFault::Cryptography)?;
    Ok(Some(PrimaryTls { config, name }))
}

/// Reads the proofs that the server of a URL must provide, and the certificate that this server
/// presents. The files are read for each request.
///
/// # Errors
/// A file cannot be used.
pub fn of_url(source: &ZoneUrl) -> Result<UrlTls, CertificateFault> {
    let own = |path: &PathBuf| {
        authority_certificates(&read_file(path)?)
            .map_err(|source| CertificateFault::File { path: path.clone(), source })
    };
    let authorities = source.ca.as_ref().map(own).transpose()?;
    let shown = source.client.as_ref().map(shown_by_url).transpose()?;
    Ok(UrlTls { authorities, shown })
}

/// Reads the TLS settings for the server of a database: the proofs that it must provide, and the
/// certificate of this server. The files are read for each connection.
///
/// # Errors
/// A file cannot be used.
pub fn of_database(source: &ZoneUrl) -> Result<Arc<ClientConfig>, CertificateFault> {
    let roots = match &source.ca {
        Some(ca) => own_authorities(ca)?,
        None => system_authorities()?,
    };
    let shown = source.client.as_ref().map(certificate).transpose()?;
    client_showing(Trust::Authorities(roots), shown.as_ref(), &[])
        .map_err(CertificateFault::Cryptography)
}

fn shown_by_url(files: &CertificateFiles) -> Result<ClientCert, CertificateFault> {
    let (chain, key) = (read_file(&files.chain)?, Zeroizing::new(read_file(&files.key)?));
    // A certificate and key that do not match must be refused before a connection uses them.
    certificate_of(files, &chain, &key)?;
    let unusable = |path: &Path, error: ureq::Error| {
        let source = io::Error::new(io::ErrorKind::InvalidData, error);
        CertificateFault::File { path: path.to_owned(), source }
    };
    let chain = authority_certificates(&chain)
        .map_err(|source| CertificateFault::File { path: files.chain.clone(), source })?;
    let chain: Vec<_> = chain.iter().map(|one| UrlCertificate::from_der(one).to_owned()).collect();
    let key = PrivateKey::from_pem(&key).map_err(|error| unusable(&files.key, error))?;
    Ok(ClientCert::new_with_certs(&chain, key))
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

fn server_name(name: &PeerName) -> Option<ServerName<'static>> {
    match name {
        PeerName::Host(name) => ServerName::try_from(name.to_string()).ok(),
        PeerName::Address(ip) => Some(ServerName::from(*ip)),
    }
}

fn client_config(tls: &UpstreamTls, alpn: &[u8]) -> Result<Arc<ClientConfig>, CertificateFault> {
    let (trust, shown) = proof(tls)?;
    client_showing(trust, shown.as_ref(), &[alpn]).map_err(CertificateFault::Cryptography)
}

/// Reads the proofs that servers must provide, and the certificate that this server presents to
/// them.
fn proof(tls: &UpstreamTls) -> Result<(Trust, Option<Certificate>), CertificateFault> {
    let shown = tls.client.as_ref().map(certificate).transpose()?;
    let pins = || tls.pins.iter().map(|pin| pin.0).collect();
    let trust = match (tls.authentication, &tls.ca) {
        (Authentication::Opportunistic, _) => Trust::Nobody,
        (_, Some(ca)) if tls.pins.is_empty() => Trust::Authorities(own_authorities(ca)?),
        (_, Some(ca)) => Trust::AuthoritiesAndPins(own_authorities(ca)?, pins()),
        (_, None) if tls.pins.is_empty() => Trust::Authorities(system_authorities()?),
        (_, None) => Trust::Pins(pins()),
    };
    Ok((trust, shown))
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
    certificate_of(files, &read_file(&files.chain)?, &read_file(&files.key)?)
}

/// Reads the certificate in the octets of two files.
fn certificate_of(
    files: &CertificateFiles,
    chain: &[u8],
    key: &[u8],
) -> Result<Certificate, CertificateFault> {
    Certificate::read(chain, key, &[]).map_err(|source| {
        let path = if source.is_of_key() { &files.key } else { &files.chain };
        CertificateFault::Refused { path: path.clone(), source }
    })
}
