//! The access lists: which clients are answered at which address of the server.

use std::net::IpAddr;

use avocet_config::ServerConfig;
use ipnet::IpNet;

use crate::query::addresses::AddressSet;
use crate::query::asked::Entrance;

/// The access list of the server, and those of the listeners that have their own.
#[derive(Clone, Debug)]
pub struct Admitted {
    common: AddressSet,
    /// By entrance; empty if no listener has its own list.
    own: Box<[Option<AddressSet>]>,
}

impl Admitted {
    /// Creates the lists, for a host whose interfaces are in these networks.
    #[must_use]
    pub fn new(server: &ServerConfig, interfaces: &[IpNet]) -> Self {
        let set = |allow: &avocet_config::AllowConfig| AddressSet::new(&allow.with_own(interfaces));
        let has_own = server.listeners.iter().any(|listener| listener.allow.is_some());
        let own = server.listener_by_address().map(|listener| listener?.allow.as_ref().map(set));
        let own = if has_own { own.collect() } else { Box::default() };
        Self { common: set(&server.allow), own }
    }

    /// Reports whether a client is answered at any entrance.
    #[must_use]
    pub fn admits_somewhere(&self, ip: IpAddr) -> bool {
        self.common.contains(ip) || self.own.iter().flatten().any(|own| own.contains(ip))
    }

    /// Reports whether a client is answered at an entrance.
    #[inline]
    #[must_use]
    pub fn admits(&self, entrance: Entrance, ip: IpAddr) -> bool {
        match self.own.get(usize::from(entrance.0)) {
            Some(Some(own)) => own.contains(ip),
            _ => self.common.contains(ip),
        }
    }
}
