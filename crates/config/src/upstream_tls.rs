//! Proofs that servers with TLS must provide before they get a query: `ca`, `pins`, `client-cert`,
//! `client-key` and `authentication` of a `[[forward]]` (RFC 7858, RFC 8310).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use avocet_resolver::PeerId;
use data_encoding::BASE64;

use super::certificate_files::CertificateFiles;
use super::error::SettingError;
use super::setting::FromText;
use super::{ForwardConfig, Upstream, UpstreamTransport};

/// Number of octets of a pin: SHA-256 of a SubjectPublicKeyInfo.
const PIN_LEN: usize = 32;

/// Proofs that the servers with TLS of a rule must provide.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct UpstreamTls {
    /// Whether the servers must prove who they are.
    pub authentication: Authentication,
    /// The file with the only authorities that may vouch for the servers; `None` for the
    /// authorities of the system.
    pub ca: Option<PathBuf>,
    /// The pins. Each server must have a key that matches one of them.
    pub pins: Vec<Pin>,
    /// The certificate that this server presents to the servers.
    pub client: Option<CertificateFiles>,
}

/// The usage profiles of RFC 8310 §5.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Authentication {
    /// A server without proof gets no query.
    #[default]
    Strict,
    /// Each certificate is accepted: queries are encrypted, but perhaps for an attacker.
    Opportunistic,
}

/// The SHA-256 digest of a SubjectPublicKeyInfo (RFC 7858 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pin(pub [u8; PIN_LEN]);

/// A server with TLS, apart from its address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TlsPeer {
    /// The name in the certificate of the server.
    pub name: PeerName,
    /// Proofs that the server must provide.
    pub tls: UpstreamTls,
    /// The protocol of queries to the server.
    pub protocol: PeerProtocol,
}

/// The protocol of queries to a server with TLS.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PeerProtocol {
    /// DNS over TLS.
    Tls,
    /// DNS over QUIC.
    Quic,
    /// HTTPS in HTTP/2.
    Https(HttpsPath),
    /// HTTPS in HTTP/3.
    H3(HttpsPath),
}

/// The path and method of queries to a server with HTTPS (RFC 8484).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HttpsPath {
    /// The port, which is part of the authority.
    pub port: u16,
    /// The path.
    pub path: Box<str>,
    /// The method of requests.
    pub method: HttpsMethod,
    /// Whether HTTP/3 is used if a server in HTTP/2 announces it.
    pub h3: AnnouncedH3,
}

/// The use of HTTP/3 that a server announces in HTTP/2 (`alt-svc`, RFC 7838).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum AnnouncedH3 {
    /// HTTP/3 is used once its handshake is complete.
    #[default]
    Auto,
    /// HTTP/3 is not tried.
    Off,
}

/// The method of requests over HTTPS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum HttpsMethod {
    /// GET, which HTTP caches between the servers can store.
    Get,
    /// POST: the query is the body.
    #[default]
    Post,
}

/// The name of a server with TLS.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PeerName {
    /// A host name.
    Host(Box<str>),
    /// The address of the server.
    Address(IpAddr),
}

impl FromText for Pin {
    const EXPECTED: &'static str =
        "the SHA-256 digest of a public key in base64, 44 characters long";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let octets = BASE64.decode(text.as_bytes()).map_err(|_| None)?;
        octets.try_into().map(Self).map_err(|_| None)
    }
}

impl FromText for Authentication {
    const EXPECTED: &'static str = "\"strict\" or \"opportunistic\"";
    const CHOICES: &'static [&'static str] = &["strict", "opportunistic"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        match text {
            "strict" => Ok(Self::Strict),
            "opportunistic" => Ok(Self::Opportunistic),
            _ => Err(None),
        }
    }
}

impl FromText for HttpsMethod {
    const EXPECTED: &'static str = "\"post\" or \"get\"";
    const CHOICES: &'static [&'static str] = &["post", "get"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        match text {
            "get" => Ok(Self::Get),
            "post" => Ok(Self::Post),
            _ => Err(None),
        }
    }
}

impl FromText for AnnouncedH3 {
    const EXPECTED: &'static str = "\"auto\" or \"off\"";
    const CHOICES: &'static [&'static str] = &["auto", "off"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            _ => Err(None),
        }
    }
}

impl TlsPeer {
    /// Returns the identifier of the peer. Equal peers have the same identifier in all
    /// configurations.
    pub fn id(&self) -> PeerId {
        // The hasher has no random key, so that a reload keeps connections. All input comes from
        // the operator.
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        PeerId(hasher.finish())
    }
}

impl ForwardConfig {
    /// Returns the proofs that a server of this rule must provide.
    pub fn peer(&self, upstream: &Upstream) -> TlsPeer {
        let name = match &upstream.name {
            Some(name) => PeerName::Host(name.clone()),
            None => {
                let unknown = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
                PeerName::Address(upstream.addr.map_or(unknown, |addr| addr.ip()))
            }
        };
        let path = |h3| HttpsPath {
            port: upstream.port,
            path: upstream.path.clone(),
            method: self.https_method,
            h3,
        };
        let protocol = match upstream.transport {
            UpstreamTransport::Https => PeerProtocol::Https(path(self.h3)),
            // HTTP/3 is in use already, so an announcement is ignored.
            UpstreamTransport::H3 => PeerProtocol::H3(path(AnnouncedH3::default())),
            UpstreamTransport::Quic => PeerProtocol::Quic,
            UpstreamTransport::Udp | UpstreamTransport::Tcp | UpstreamTransport::Tls => {
                PeerProtocol::Tls
            }
        };
        TlsPeer { name, tls: self.tls.clone(), protocol }
    }

    /// Returns the servers with TLS of this rule.
    pub fn peers(&self) -> impl Iterator<Item = TlsPeer> + '_ {
        let upstreams = self.upstreams.iter();
        upstreams.filter(|one| one.transport.is_encrypted()).map(|one| self.peer(one))
    }
}
