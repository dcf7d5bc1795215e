//! Names that the server answers by itself: local records, local zones, special-use names.
//!
//! A client's query for such a name never reaches the resolver. But an alias in an answer may lead
//! to such a name. The answer then ends with the server's own data, and no other server is queried.
//! This data is never authenticated, and is not in the RRset cache.

use std::fmt;

use avocet_wire::{FoldedName, Rcode, Rtype};

/// The RNAME of a zone without an administrator.
const MAILBOX: &[u8] = b"\x06nobody\x07invalid\x00";
/// Length of the longest SOA data in octets: two names and five numbers.
const SOA_ROOM: usize = 255 + MAILBOX.len() + 20;

/// A source of data for the names that this server answers by itself.
pub trait OwnNames: fmt::Debug + Send + Sync {
    /// Returns the data of a name and type; `None` if other servers must be queried.
    fn find<'a>(&'a self, sought: &Sought<'a>) -> Option<Own<'a>>;

    /// Returns whether the name is in a zone for which no other server is queried. The name need
    /// not have records.
    fn has_zone_of(&self, sought: &Sought<'_>) -> bool;
}

/// A name and a type to which an alias leads.
#[derive(Clone, Copy, Debug)]
pub struct Sought<'a> {
    /// The name.
    pub qname: FoldedName<'a>,
    /// The QTYPE.
    pub qtype: Rtype,
    /// Length in octets of the name of the nearest zone with configured servers, except the root;
    /// `None` without such a zone.
    pub served_len: Option<usize>,
}

/// The data that this server has for a name and type.
#[derive(Clone, Copy, Debug)]
pub enum Own<'a> {
    /// The queried RRset, or an alias in its place. The owner is the queried name.
    Set(OwnSet<'a>),
    /// A denial: the RCODE of NODATA or NXDOMAIN, with the SOA record of the zone.
    Denied(Rcode, OwnSet<'a>),
}

/// An RRset of this server's own data.
#[derive(Clone, Copy, Debug)]
pub struct OwnSet<'a> {
    /// The owner.
    pub owner: FoldedName<'a>,
    /// Type.
    pub rtype: Rtype,
    /// TTL in seconds.
    pub ttl_secs: u32,
    /// The data of the records.
    pub data: Data<'a>,
}

/// Data of an RRset.
#[derive(Clone, Copy, Debug)]
pub enum Data<'a> {
    /// The data of any number of records.
    Records(&'a [Box<[u8]>]),
    /// The data of one record.
    One(&'a [u8]),
    /// The SOA data of a zone without a configured SOA record: the owner as primary, the mailbox
    /// `nobody.invalid.`, the numbers 1 3600 1200 604800, and the TTL as minimum.
    Soa,
}

impl<'a> OwnSet<'a> {
    /// Returns the SOA record of a zone, with this TTL for negative responses.
    #[must_use]
    pub fn soa(apex: FoldedName<'a>, ttl_secs: u32) -> Self {
        Self { owner: apex, rtype: Rtype::SOA, ttl_secs, data: Data::Soa }
    }

    /// Calls `show` with the data of each record.
    pub fn for_each(&self, mut show: impl FnMut(&[u8])) {
        match self.data {
            Data::Records(records) => records.iter().for_each(|data| show(data)),
            Data::One(data) => show(data),
            Data::Soa => {
                let mut room = [0; SOA_ROOM];
                let numbers = [1, 3600, 1200, 604_800, self.ttl_secs].map(u32::to_be_bytes);
                let mut len = 0;
                for part in [self.owner.wire(), MAILBOX, numbers.as_flattened()] {
                    room[len..len + part.len()].copy_from_slice(part);
                    len += part.len();
                }
                show(&room[..len]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soa_of_an_own_zone_has_the_time_of_its_denials() {
        let mut shown = Vec::new();
        let soa = OwnSet::soa(FoldedName::new(b"\x03lan\x00").unwrap(), 60);
        soa.for_each(|data| shown.push(avocet_wire::rdata::display(soa.rtype.0, data).to_string()));
        assert_eq!(shown, ["lan. nobody.invalid. 1 3600 1200 604800 60"]);
        let longest = [[63u8].as_slice(), &[b'a'; 63]].concat().repeat(3);
        let longest = [&longest[..], &[61], &[b'a'; 61], &[0]].concat();
        OwnSet::soa(FoldedName::new(&longest).unwrap(), 60)
            .for_each(|data| assert_eq!(data.len(), 255 + MAILBOX.len() + 20));
    }
}
