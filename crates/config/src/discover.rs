//! `discover` of a `[[forward]]`: the resolver asks unencrypted servers for the encrypted servers
//! that they designate (DDR, RFC 9462).

use std::fmt;
use std::net::SocketAddr;

use avocet_wire::special_purpose::Scope;

use super::check::Check;
use super::error::SettingError;
use super::setting::{FromText, Setting, Text};
use super::upstream_tls::{
    AnnouncedH3, Authentication, HttpsMethod, HttpsPath, PeerName, PeerProtocol, TlsPeer,
    UpstreamTls,
};
use super::{ForwardConfig, Upstream, UpstreamTransport};

/// The use of the encrypted servers that an unencrypted server designates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Discovery {
    /// The server does not look for designated servers.
    #[default]
    Off,
    /// The designated servers get the queries. The server that designates them gets queries if they
    /// fail, or if there are none.
    Auto,
    /// The designated servers get the queries, and the designating server gets none.
    Strict,
}

/// A server that is asked for designated servers, and the proofs that the designated servers must
/// provide. Equal terms have equal results.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DiscoveryTerms {
    /// The server that designates others.
    pub server: SocketAddr,
    /// The transport of the server: UDP or TCP.
    pub transport: UpstreamTransport,
    /// How designated encrypted servers are used.
    pub discovery: Discovery,
    tls: UpstreamTls,
    https_method: HttpsMethod,
    h3: AnnouncedH3,
}

/// An encrypted server that another one designates.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DesignatedServer {
    /// The address of the encrypted server.
    pub addr: SocketAddr,
    /// The transport of queries to the encrypted server.
    pub transport: UpstreamTransport,
    /// The path of queries; empty without HTTPS.
    pub path: Box<str>,
    /// The reason why the server may receive the queries.
    pub proof: DesignationProof,
}

/// The reason why a designated server may receive the queries for the server that designates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DesignationProof {
    /// The certificate of the designated server has the address of the designating server (RFC 9462
    /// §4.2).
    Verified,
    /// The designated server has the same address as the designating server (§4.3).
    SameAddress,
}

impl fmt::Display for DesignatedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.transport.scheme(), self.addr, self.path)
    }
}

impl FromText for Discovery {
    const EXPECTED: &'static str = "\"off\", \"auto\" or \"strict\"";
    const CHOICES: &'static [&'static str] = &["off", "auto", "strict"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        match text {
            "off" => Ok(Self::Off),
            "auto" => Ok(Self::Auto),
            "strict" => Ok(Self::Strict),
            _ => Err(None),
        }
    }
}

impl Discovery {
    /// Returns the word for this choice in the configuration.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Auto => "auto",
            Self::Strict => "strict",
        }
    }
}

/// Reads how designated servers are used.
pub(super) fn read(
    setting: Setting<Text<Discovery>>,
    upstreams: &[Upstream],
    check: &mut Check,
) -> Discovery {
    let at = setting.span();
    let discovery = check.take(setting).map_or_else(Default::default, |one| one.0);
    if let Some(at) = at.filter(|_| discovery != Discovery::Off)
        && !upstreams.is_empty()
        && upstreams.iter().all(|one| one.transport.is_encrypted())
    {
        check.doubt(at, "`discover` has no effect: all servers of the rule are encrypted");
    }
    discovery
}

impl ForwardConfig {
    /// Returns the terms on which an upstream is asked for designated servers; `None` if it is not
    /// asked.
    pub fn discovery_of(&self, upstream: &Upstream) -> Option<DiscoveryTerms> {
        let is_plain = !upstream.transport.is_encrypted() && self.discover != Discovery::Off;
        let server = upstream.addr.filter(|_| is_plain)?;
        Some(DiscoveryTerms {
            server,
            transport: upstream.transport,
            discovery: self.discover,
            tls: self.tls.clone(),
            https_method: self.https_method,
            h3: self.h3,
        })
    }
}

impl DiscoveryTerms {
    /// Returns whether a designated server at the same address needs no valid certificate. That is
    /// so at private addresses, for which no authority vouches, unless the rule has its own proofs.
    /// It is also so if the configuration accepts each certificate.
    pub fn accepts_same_address(&self) -> bool {
        let tls = &self.tls;
        let has_own_proof = tls.ca.is_some() || !tls.pins.is_empty();
        let is_private = Scope::Local.contains(self.server.ip());
        let is_auto = self.discovery == Discovery::Auto && is_private && !has_own_proof;
        is_auto || tls.authentication == Authentication::Opportunistic
    }

    /// Returns the proofs that a designated server must provide. The certificate must have the
    /// address of the designating server (RFC 9462 §6.3).
    pub fn peer(&self, designated: &DesignatedServer) -> TlsPeer {
        let authentication = match designated.proof {
            DesignationProof::Verified => Authentication::Strict,
            DesignationProof::SameAddress => Authentication::Opportunistic,
        };
        let tls = UpstreamTls { authentication, ..self.tls.clone() };
        let path = |h3| HttpsPath {
            port: designated.addr.port(),
            path: designated.path.clone(),
            method: self.https_method,
            h3,
        };
        let protocol = match designated.transport {
            UpstreamTransport::Https => PeerProtocol::Https(path(self.h3)),
            UpstreamTransport::H3 => PeerProtocol::H3(path(AnnouncedH3::default())),
            UpstreamTransport::Quic => PeerProtocol::Quic,
            UpstreamTransport::Udp | UpstreamTransport::Tcp | UpstreamTransport::Tls => {
                PeerProtocol::Tls
            }
        };
        TlsPeer { name: PeerName::Address(self.server.ip()), tls, protocol }
    }
}
