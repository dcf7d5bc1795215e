//! The proxies at each address of the server, which send the addresses of their clients with the
//! PROXY protocol.

use std::net::IpAddr;

use avocet_config::ServerConfig;
use avocet_wire::proxy;

use crate::query::addresses::AddressSet;
use crate::query::asked::Entrance;

/// The networks of proxies of each listener that accepts proxies.
#[derive(Clone, Debug, Default)]
pub struct Proxies {
    /// The networks of proxies by entrance (listening address); empty if no listener accepts
    /// proxies.
    by_entrance: Box<[Option<AddressSet>]>,
}

/// The client of a datagram, which the PROXY header may name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Named {
    /// The address of the client.
    pub ip: IpAddr,
    /// Number of octets of the PROXY header before the DNS message.
    pub header_len: usize,
}

impl Proxies {
    /// Creates the sets of networks for all listeners.
    #[must_use]
    pub fn new(server: &ServerConfig) -> Self {
        if server.listeners.iter().all(|listener| listener.proxies.is_empty()) {
            return Self::default();
        }
        let set = |proxies: &[_]| (!proxies.is_empty()).then(|| AddressSet::new(proxies));
        Self { by_entrance: server.proxies_by_address().into_iter().map(set).collect() }
    }

    /// Returns whether the listener at this address of the server accepts proxies.
    #[must_use]
    pub fn are_at(&self, entrance: Entrance) -> bool {
        matches!(self.by_entrance.get(usize::from(entrance.0)), Some(Some(_)))
    }

    /// Reports whether datagrams and connections from address `ip` to this address of the server
    /// begin with a PROXY header.
    #[must_use]
    pub fn include(&self, entrance: Entrance, ip: IpAddr) -> bool {
        let set = self.by_entrance.get(usize::from(entrance.0));
        set.and_then(Option::as_ref).is_some_and(|set| set.contains(ip))
    }

    /// Returns the client of a datagram from this address; `None` if the datagram lacks a required
    /// PROXY header.
    #[must_use]
    pub fn client_of(&self, entrance: Entrance, sender: IpAddr, octets: &[u8]) -> Option<Named> {
        if !self.include(entrance, sender) {
            return Some(Named { ip: sender, header_len: 0 });
        }
        let header = proxy::read(octets).ok()?;
        Some(Named { ip: header.client.unwrap_or(sender), header_len: header.len })
    }
}
