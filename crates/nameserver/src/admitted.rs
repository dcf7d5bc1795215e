//! The access lists: which clients are answered at which address of the server.

use std::net::IpAddr;

use avocet_config::{AddressAllow, AllowConfig, ServerConfig};
use ipnet::IpNet;

use crate::query::addresses::AddressSet;
use crate::query::asked::Entrance;

/// The access list of the server, and the access lists of the listeners that have one of their own.
#[derive(Clone, Debug)]
pub struct Admitted {
    common: AddressSet,
    /// The access list of each entrance (listening address); `None` if the server's list applies
    /// there. Empty if no listener has its own list.
    own: Box<[Option<AddressSet>]>,
}

impl Admitted {
    /// Creates the lists for a host with interfaces in these networks.
    #[must_use]
    pub fn new(server: &ServerConfig, interfaces: &[IpNet]) -> Self {
        let networks = |allow: &AllowConfig| allow.with_own(interfaces);
        let set = |allow: AddressAllow<'_>| match allow {
            AddressAllow::Common => None,
            AddressAllow::Own(own) => Some(AddressSet::new(&networks(own))),
            AddressAllow::Both(before, now) if before == now && *now == server.allow => None,
            AddressAllow::Both(before, now) => {
                Some(AddressSet::new(&in_both(&networks(before), &networks(now))))
            }
            AddressAllow::Nobody => Some(AddressSet::new(&[])),
        };
        let own: Box<[_]> = server.allow_by_address().into_iter().map(set).collect();
        let has_own = own.iter().any(Option::is_some);
        let own = if has_own { own } else { Box::default() };
        Self { common: AddressSet::new(&networks(&server.allow)), own }
    }

    /// Returns whether a client is answered at one entrance (listening address) or more.
    #[must_use]
    pub fn admits_somewhere(&self, ip: IpAddr) -> bool {
        self.common.contains(ip) || self.own.iter().flatten().any(|own| own.contains(ip))
    }

    /// Returns whether a client is answered at this entrance (listening address).
    #[inline]
    #[must_use]
    pub fn admits(&self, entrance: Entrance, ip: IpAddr) -> bool {
        match self.own.get(usize::from(entrance.0)) {
            Some(Some(own)) => own.contains(ip),
            _ => self.common.contains(ip),
        }
    }
}

/// Returns the networks of addresses that both lists contain.
fn in_both(one: &[IpNet], other: &[IpNet]) -> Vec<IpNet> {
    let narrower =
        |a: &IpNet| {
            let a = *a;
            other.iter().filter_map(move |b| {
                if b.contains(&a) { Some(a) } else { a.contains(b).then_some(*b) }
            })
        };
    one.iter().flat_map(narrower).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_in_both_lists_are_the_narrower_of_each_pair() {
        let read = |texts: &[&str]| -> Vec<IpNet> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let one = read(&["10.0.0.0/8", "192.168.1.0/24", "fd00::/8"]);
        let other = read(&["10.1.0.0/16", "192.168.0.0/16", "172.16.0.0/12", "2001:db8::/32"]);
        assert_eq!(in_both(&one, &other), read(&["10.1.0.0/16", "192.168.1.0/24"]));
        assert!(in_both(&one, &[]).is_empty());
    }
}
