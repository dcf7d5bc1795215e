//! One attempt to find the encrypted server that another server designates: the records, the
//! addresses, and the proof.
//!
//! The answer comes over plain DNS, so an attacker on the path may have forged it. It only selects
//! the servers that are tried, within bounds. A designated server gets queries only after its
//! handshake has proved that it may replace the configured server.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use avocet_client::request::{Cookie, QUERY_ROOM, Request};
use avocet_client::stub::{self, StubServer};
use avocet_client::{ClientError, exchange};
use avocet_config::discover::{DesignatedServer, DesignationProof, DiscoveryTerms};
use avocet_config::{ServerConfig, UpstreamTransport};
use avocet_wire::special_purpose::Scope;
use avocet_wire::{MessageView, NameBuf, Rcode, Rtype};
use thiserror::Error;

use super::offers::{self, DISCOVERY, Offer, Offers};
use crate::keepers::bootstrap::addresses_by;
use avocet_worker::certificates::CertificateFault;
use avocet_worker::state::discoveries::DiscoveryResult;
use avocet_worker::upstream_tls::{ClientConfigs, UpstreamPeer};

/// Maximum number of aliases that are followed.
const MAX_DESIGNATION_ALIASES: usize = 2;
/// Maximum number of targets whose addresses are looked up, because their records have none.
const MAX_LOOK_UPS: usize = 2;
/// Maximum number of connections of an attempt.
const MAX_CONNECTIONS: usize = 8;
/// Maximum wait for one connection.
const PATIENCE: Duration = Duration::from_secs(3);
/// Maximum wait for all connections of an attempt.
const MAX_PATIENCE: Duration = Duration::from_secs(12);

/// The reason why there is no designated server.
#[derive(Debug, Error)]
pub(super) enum DiscoveryFault {
    /// The server does not answer.
    #[error(transparent)]
    NoAnswer(#[from] ClientError),
    /// The server has no records of designated servers.
    #[error("it designates no encrypted server")]
    NotAnnounced,
    /// The server designates encrypted servers, but none of them is usable.
    #[error("it designates no server that can be used")]
    Unusable,
    /// Queries would return to this server.
    #[error("it designates this server itself, {0}")]
    Own(DesignatedServer),
    /// A designated server cannot be reached, or does not provide the required proof.
    #[error("it designates {at}: {source}")]
    Unproven {
        /// The first designated server that was tried.
        at: DesignatedServer,
        /// The reason.
        source: io::Error,
    },
    /// A file of the configuration cannot be used.
    #[error(transparent)]
    Settings(#[from] CertificateFault),
}

impl DiscoveryFault {
    /// Returns the kind of the fault.
    pub(super) fn result(&self) -> DiscoveryResult {
        match self {
            Self::NoAnswer(_) => DiscoveryResult::NoAnswer,
            Self::NotAnnounced => DiscoveryResult::NotAnnounced,
            Self::Unusable | Self::Own(_) => DiscoveryResult::Unusable,
            Self::Unproven { .. } | Self::Settings(_) => DiscoveryResult::Unproven,
        }
    }
}

impl DiscoveryFault {
    /// Returns whether an attacker on the path can cause the fault by forged data.
    fn may_be_forged(&self) -> bool {
        !matches!(self, Self::NoAnswer(_) | Self::Settings(_))
    }
}

/// A designated server that has proved that it may get the queries.
pub(super) struct FoundServer {
    pub(super) designated: DesignatedServer,
    pub(super) peer: UpstreamPeer,
}

/// The result of an attempt, and the TTL of the records.
pub(super) struct DiscoveryAttempt {
    pub(super) result: Result<FoundServer, DiscoveryFault>,
    pub(super) ttl_secs: Option<u32>,
}

/// Queries a server for the servers that it designates, and tries them. If none is usable, asks the
/// server that was found earlier whether it still designates itself.
pub(super) fn attempt(
    terms: &DiscoveryTerms,
    own: &ServerConfig,
    known: Option<&DesignatedServer>,
) -> DiscoveryAttempt {
    let by_tcp = terms.transport == UpstreamTransport::Tcp;
    let server = StubServer { addr: terms.server, by_tcp };
    let (result, ttl_secs) = match look_up(server) {
        Ok((offers, ttl_secs)) => {
            let (began, connections, look_ups) = (Instant::now(), 0, 0);
            let trial = Trial { terms, own, server, began, connections, look_ups };
            (trial.first(&offers), Some(ttl_secs))
        }
        Err(fault) => (Err(fault), None),
    };
    match &result {
        Err(fault) if fault.may_be_forged() => known
            .and_then(|known| confirm(terms, known))
            .unwrap_or(DiscoveryAttempt { result, ttl_secs }),
        _ => DiscoveryAttempt { result, ttl_secs },
    }
}

/// Asks the server that was found earlier which servers it designates, over a connection that
/// proves its identity. So forged plain answers do not end its use. Returns `None` if it does not
/// designate itself.
fn confirm(terms: &DiscoveryTerms, known: &DesignatedServer) -> Option<DiscoveryAttempt> {
    if known.proof != DesignationProof::Verified {
        return None;
    }
    let peer = UpstreamPeer::of(&terms.peer(known), &mut ClientConfigs::default()).ok()??;
    let reply = ask(&peer, known, PATIENCE).ok()?;
    let (records, ttl_secs) = stub::records_in(&reply, Rtype::SVCB).ok()?;
    let owner = NameBuf::from_wire(DISCOVERY).ok()?;
    let Offers::Services(offers) = offers::read(&owner, &records) else { return None };
    let is_known = |offer: &Offer| {
        offer.transport == known.transport
            && offer.port == known.addr.port()
            && offer.path == known.path
    };
    let found = FoundServer { designated: known.clone(), peer };
    offers
        .iter()
        .any(is_known)
        .then_some(DiscoveryAttempt { result: Ok(found), ttl_secs: Some(ttl_secs) })
}

/// Returns the offers of a server, with their TTL in seconds.
fn look_up(server: StubServer) -> Result<(Vec<Offer>, u32), DiscoveryFault> {
    let mut owner = NameBuf::from_wire(DISCOVERY).map_err(ClientError::from)?;
    let mut least_ttl_secs = u32::MAX;
    for _ in 0..=MAX_DESIGNATION_ALIASES {
        let (records, ttl_secs) = stub::records_of(server, &owner, Rtype::SVCB)?;
        if records.is_empty() {
            return Err(DiscoveryFault::NotAnnounced);
        }
        least_ttl_secs = least_ttl_secs.min(ttl_secs);
        match offers::read(&owner, &records) {
            Offers::Services(offers) => return Ok((offers, least_ttl_secs)),
            Offers::Alias(name) => owner = *name,
        }
    }
    Ok((Vec::new(), least_ttl_secs))
}

/// The attempts to connect to the servers in the offers of one server.
struct Trial<'t> {
    terms: &'t DiscoveryTerms,
    own: &'t ServerConfig,
    server: StubServer,
    began: Instant,
    connections: usize,
    look_ups: usize,
}

impl Trial<'_> {
    /// Returns the first designated server that proves that it may get the queries.
    fn first(mut self, offers: &[Offer]) -> Result<FoundServer, DiscoveryFault> {
        let (mut fault, mut configs) = (DiscoveryFault::Unusable, ClientConfigs::default());
        for offer in offers {
            for ip in self.addresses(offer) {
                // The address of the configured server may have a scope.
                let known = self.terms.server;
                let mut addr = if ip == known.ip() { known } else { SocketAddr::new(ip, 0) };
                addr.set_port(offer.port);
                let designated = DesignatedServer {
                    addr,
                    transport: offer.transport,
                    path: offer.path.clone(),
                    proof: DesignationProof::Verified,
                };
                if is_own(designated.addr, self.own) {
                    fault = DiscoveryFault::Own(designated);
                    continue;
                }
                match self.prove(designated, &mut configs) {
                    Ok(found) => return Ok(found),
                    // The error of the first unproven server is kept: it is the preferred one.
                    Err(_) if matches!(fault, DiscoveryFault::Unproven { .. }) => {}
                    Err(other) => fault = other,
                }
                if self.patience().is_none() {
                    return Err(fault);
                }
            }
        }
        Err(fault)
    }

    /// Returns the time to wait for the next connection; `None` if the attempt has used its
    /// connections or its time.
    fn patience(&self) -> Option<Duration> {
        let left = MAX_PATIENCE.checked_sub(self.began.elapsed())?.min(PATIENCE);
        (self.connections < MAX_CONNECTIONS && !left.is_zero()).then_some(left)
    }

    /// Returns the addresses of an offer that may be tried, with the address of the configured
    /// server first.
    fn addresses(&mut self, offer: &Offer) -> Vec<IpAddr> {
        let mut addresses = offer.hints.clone();
        if addresses.is_empty() && self.look_ups < MAX_LOOK_UPS {
            self.look_ups += 1;
            addresses = addresses_by(self.server, &offer.target).map_or_else(|_| vec![], |a| a.0);
        }
        let known = self.terms.server.ip();
        addresses.retain(|ip| may_be_tried(*ip, known));
        addresses.sort_by_key(|ip| *ip != known);
        addresses.dedup();
        addresses
    }

    /// Connects to a server, which must prove by its certificate or by its address that it may get
    /// the queries.
    fn prove(
        &mut self,
        designated: DesignatedServer,
        configs: &mut ClientConfigs,
    ) -> Result<FoundServer, DiscoveryFault> {
        let is_same = designated.addr.ip() == self.terms.server.ip();
        let same = DesignatedServer { proof: DesignationProof::SameAddress, ..designated.clone() };
        match self.connect(designated, configs) {
            Err(_) if is_same && self.terms.accepts_same_address() => self.connect(same, configs),
            result => result,
        }
    }

    fn connect(
        &mut self,
        designated: DesignatedServer,
        configs: &mut ClientConfigs,
    ) -> Result<FoundServer, DiscoveryFault> {
        let unproven = |at, source| DiscoveryFault::Unproven { at, source };
        let Some(patience) = self.patience() else {
            return Err(unproven(designated, io::ErrorKind::TimedOut.into()));
        };
        let Some(peer) = UpstreamPeer::of(&self.terms.peer(&designated), configs)? else {
            return Err(DiscoveryFault::Unusable);
        };
        self.connections += 1;
        match ask(&peer, &designated, patience) {
            Ok(_) => Ok(FoundServer { designated, peer }),
            Err(source) => Err(unproven(designated, source)),
        }
    }
}

/// Asks a designated server which servers it designates.
fn ask(
    peer: &UpstreamPeer,
    designated: &DesignatedServer,
    patience: Duration,
) -> io::Result<Vec<u8>> {
    let words = ["_dns.resolver.arpa".to_owned(), "SVCB".to_owned(), "+nocookie".to_owned()];
    let request = Request::from_words(&words).map_err(io::Error::other)?;
    let cookie = Cookie { client: [0; 8], server: Vec::new() };
    let id = match designated.transport {
        // The message ID is 0 (RFC 9250 §4.2.1, RFC 8484 §4.1).
        UpstreamTransport::Quic | UpstreamTransport::Https | UpstreamTransport::H3 => 0,
        _ => exchange::random() as u16,
    };
    let mut buffer = [0; QUERY_ROOM];
    let len = request.write(id, &cookie, &mut buffer).map_err(io::Error::other)?;
    let reply = peer.ask(designated.addr, &buffer[..len], patience)?;
    let message = MessageView::new(&reply).map_err(io::Error::other)?;
    match message.header().rcode() {
        Rcode::NOERROR | Rcode::NXDOMAIN => Ok(reply),
        rcode => Err(io::Error::other(ClientError::Rcode(rcode))),
    }
}

/// Returns whether a designated server may have this address. A public resolver must not make this
/// server connect to hosts in networks that only this server can reach.
fn may_be_tried(ip: IpAddr, known: IpAddr) -> bool {
    let is_host = !ip.is_unspecified() && !ip.is_multicast();
    let is_of_network = Scope::Internal.contains(ip);
    is_host && (ip == known || !is_of_network || Scope::Internal.contains(known))
}

/// Returns whether this server listens at an address.
fn is_own(addr: SocketAddr, own: &ServerConfig) -> bool {
    let listens = |listen: SocketAddr| {
        let is_any = listen.ip().is_unspecified() && listen.is_ipv4() == addr.is_ipv4();
        // Only an address of this host can be bound.
        let is_here = || UdpSocket::bind((addr.ip(), 0)).is_ok();
        listen.port() == addr.port() && (listen.ip() == addr.ip() || is_any && is_here())
    };
    own.open_addresses().iter().any(|one| listens(one.address))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use avocet_config::Config;

    use super::*;

    #[track_caller]
    fn check(ip: &str, known: &str, expected: bool) {
        let may = may_be_tried(ip.parse().unwrap(), known.parse().unwrap());
        assert_eq!(may, expected, "{ip} by {known}");
    }

    #[test]
    fn a_public_server_designates_no_host_of_this_network() {
        check("9.9.9.10", "9.9.9.9", true);
        check("2620:fe::fe", "9.9.9.9", true);
        for ip in ["192.168.1.1", "127.0.0.1", "::1", "169.254.1.1", "fe80::1", "fd00::1"] {
            check(ip, "9.9.9.9", false);
            check(ip, "10.0.0.1", true);
        }
        check("9.9.9.9", "192.168.1.1", true);
        for ip in ["0.0.0.0", "::", "224.0.0.1", "ff02::1"] {
            check(ip, "192.168.1.1", false);
        }
    }

    #[test]
    fn this_server_is_known_by_its_listeners() {
        let text = "[server]\nlisten = [\"127.0.0.1:5300\", \"tls://0.0.0.0:5853\", \
                    \"https://[::1]:5443\"]\n[[certificate]]\nnames = [\"dns.example\"]\n\
                    cert = \"a\"\nkey = \"b\"\n";
        let config = Config::from_text(None, text, &BTreeMap::new()).unwrap();
        let is_own = |addr: &str| is_own(addr.parse().unwrap(), &config.server);
        assert!(is_own("127.0.0.1:5300") && is_own("127.0.0.9:5853") && is_own("[::1]:5443"));
        assert!(!is_own("127.0.0.2:5300") && !is_own("192.0.2.1:5853") && !is_own("[::1]:5853"));
    }
}
