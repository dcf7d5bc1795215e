//! A map from addresses of both families to numbers.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use super::intervals::{Intervals, Range};

/// A map that gives each address the number of the innermost network around it.
#[derive(Clone, Debug)]
pub(super) struct AddressMap {
    v4: Intervals<u32>,
    v6: Intervals<u128>,
}

impl AddressMap {
    /// Builds the map. Calls `value` once for each network, with the list of all networks that
    /// contain this network, ending with the network itself. Also calls `value` once per family
    /// with an empty list, for the addresses outside all networks.
    ///
    /// # Errors
    /// `value` returned an error.
    pub(super) fn build<E>(
        networks: &[IpNet],
        mut value: impl FnMut(&[IpNet]) -> Result<u16, E>,
    ) -> Result<Self, E> {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for network in networks {
            match network {
                IpNet::V4(net) => {
                    v4.push(range(u32::from(net.network()), u32::from(net.broadcast())))
                }
                IpNet::V6(net) => {
                    v6.push(range(u128::from(net.network()), u128::from(net.broadcast())))
                }
            }
        }
        let v4 = Intervals::build(v4, |open| {
            let nets = open.iter().map(|range| {
                network(
                    Ipv4Addr::from(range.first).into(),
                    (range.first ^ range.last.0).leading_zeros(),
                )
            });
            value(&nets.collect::<Vec<_>>())
        })?;
        let v6 = Intervals::build(v6, |open| {
            let nets = open.iter().map(|range| {
                network(
                    Ipv6Addr::from(range.first).into(),
                    (range.first ^ range.last.0).leading_zeros(),
                )
            });
            value(&nets.collect::<Vec<_>>())
        })?;
        Ok(Self { v4, v6 })
    }

    /// Returns the number to which an address is mapped.
    #[inline]
    pub(super) fn find(&self, address: IpAddr) -> u16 {
        match address {
            IpAddr::V4(address) => self.v4.find(address.into()),
            IpAddr::V6(address) => match address.to_ipv4_mapped() {
                Some(address) => self.v4.find(address.into()),
                None => self.v6.find(address.into()),
            },
        }
    }
}

fn range<A>(first: A, last: A) -> Range<A> {
    Range { first, last: Reverse(last) }
}

/// Returns the network that begins at an address with this prefix length.
fn network(first: IpAddr, len: u32) -> IpNet {
    IpNet::new_assert(first, len as u8)
}
