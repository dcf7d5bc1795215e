//! The tree of a zone, which is stored in one block of octets. The tree never changes, so it is
//! read without locks.
//!
//! ```text
//! node     flags(1)  length of the name(1)  name  number of RRsets(1)  length of them(4)  RRsets
//! RRset    type(2)  records(2)  their octets(2)  signatures(2)  their octets(2)
//!          records  signatures
//! record   as in a message whose QNAME is the owner: C0 0C, type, class, TTL, RDLENGTH, RDATA
//! ```
//!
//! Nodes are in canonical order (RFC 4034 §6.1), and empty non-terminals have nodes. A hash table
//! finds the node of a name. An A record whose owner has no other record takes 38 octets, its
//! name, and 11 octets of the table.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use avocet_dnssec::signing::SigningKey;
use avocet_wire::canonical::compare_names;
use avocet_wire::{FoldedName, FoldedNameBuf, Rtype};

use crate::change::ZoneChange;
use crate::node_index::NodeIndex;
use crate::signature_cache::SignatureCache;

/// Number of octets of a record before its data.
pub(crate) const RECORD_HEAD: usize = 12;
/// Maximum number of octets of an RRset with its signatures. It must fit into a message (RFC 1035
/// §4.2.2) together with the header, the longest question and an OPT record.
pub(crate) const MAX_SET_OCTETS: usize = 65_535 - 512;
/// Maximum number of octets of an RRset that this server can sign. The rest is for the signatures
/// of all keys that a roll-over may need at the same time.
pub(crate) const MAX_SIGNABLE_OCTETS: usize = MAX_SET_OCTETS - (4 << 10);
/// Number of octets of an RRset before its records.
pub(crate) const SET_HEAD: usize = 10;
/// Properties of a node, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flags(pub(crate) u8);

impl Flags {
    /// The node is a delegation: it has NS records and is not the apex.
    pub(crate) const CUT: Self = Self(1);
    /// The node has a DNAME record.
    pub(crate) const DNAME: Self = Self(2);
    /// The node is below a delegation or a DNAME record, so answers do not contain its records.
    pub(crate) const OCCLUDED: Self = Self(4);
    /// The node has a wildcard directly below it.
    pub(crate) const HAS_WILDCARD: Self = Self(8);
    /// The server determines the A and AAAA records of the node separately for each answer.
    pub(crate) const MADE: Self = Self(16);

    pub(crate) const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }
}

/// A zone that was read and checked, and that can answer.
pub struct HostedZone {
    pub(crate) apex: FoldedNameBuf,
    pub(crate) block: Box<[u8]>,
    pub(crate) index: NodeIndex,
    pub(crate) denial: Denial,
    pub(crate) records: u32,
    pub(crate) names: u32,
    /// The cached result of [`HostedZone::version`].
    pub(crate) digest: OnceLock<u64>,
    /// The changes that led to this version; see [`HostedZone::changes`].
    pub(crate) changes: Vec<Arc<ZoneChange>>,
    /// The serial up to which changes are not sent; see [`HostedZone::withhold_changes_from`].
    pub(crate) withheld_from: OnceLock<u32>,
    /// The keys that sign answers with addresses of pools and ALIAS targets; see
    /// [`HostedZone::sign_online_with`].
    pub(crate) online: OnceLock<OnlineSigner>,
    /// Whether the version is not transferred; see [`HostedZone::hold_transfers`].
    pub(crate) holds_transfers: AtomicBool,
}

/// The keys that sign parts of answers, and the cache of signatures that they made.
pub(crate) struct OnlineSigner {
    pub(crate) keys: Vec<Arc<SigningKey>>,
    pub(crate) validity_secs: u32,
    pub(crate) made: SignatureCache,
}

/// The records of a zone that prove that a name or type does not exist.
pub(crate) enum Denial {
    /// The zone has no such records, because it is not signed.
    None,
    /// The offsets of the nodes with NSEC records, in canonical order.
    Nsec(Box<[u32]>),
    /// The NSEC3 records (RFC 5155).
    Nsec3(Box<Nsec3Chain>),
}

/// The NSEC3 records of a zone that have the parameters of its NSEC3PARAM record.
pub(crate) struct Nsec3Chain {
    pub(crate) iterations: u16,
    pub(crate) salt: Box<[u8]>,
    /// The hashes of the owners with the offsets of their nodes, sorted by hash.
    pub(crate) hashes: Box<[([u8; 20], u32)]>,
}

/// A node of the tree: a name and its records.
#[derive(Clone, Copy)]
pub struct Node<'z> {
    pub(crate) block: &'z [u8],
    pub(crate) at: usize,
}

/// The records of one name and type, with their signatures.
#[derive(Clone, Copy)]
pub struct HostedSet<'z> {
    /// The type.
    pub rtype: Rtype,
    /// The number of records.
    pub count: u16,
    /// The records, encoded as in a message whose question has the owner as its name.
    pub records: &'z [u8],
    /// The number of RRSIG records.
    pub signature_count: u16,
    /// The RRSIG records, encoded in the same way.
    pub signatures: &'z [u8],
}

/// A record without its owner.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HostedRecord<'z> {
    /// The type.
    pub rtype: Rtype,
    /// The TTL in seconds.
    pub ttl_secs: u32,
    /// The data with uncompressed names.
    pub rdata: &'z [u8],
}

impl HostedZone {
    /// Returns the name of the zone.
    #[must_use]
    pub fn apex(&self) -> FoldedName<'_> {
        self.apex.view()
    }

    /// Returns the number of records.
    #[must_use]
    pub const fn records(&self) -> u32 {
        self.records
    }

    /// Returns the number of names, including those that only have names below them.
    #[must_use]
    pub const fn names(&self) -> u32 {
        self.names
    }

    /// Returns the number of octets of memory that the zone takes.
    #[must_use]
    pub fn memory_octets(&self) -> usize {
        let denial = match &self.denial {
            Denial::None => 0,
            Denial::Nsec(nodes) => size_of_val(&**nodes),
            Denial::Nsec3(chain) => size_of_val(&*chain.hashes) + chain.salt.len(),
        };
        let changes: usize = self.changes.iter().map(|change| change.octets()).sum();
        size_of::<Self>() + self.block.len() + self.index.octets() + denial + changes
    }

    /// Returns the serial of the SOA record.
    #[must_use]
    pub fn serial(&self) -> u32 {
        let soa = self.node(self.apex().wire()).and_then(|node| node.set(Rtype::SOA));
        let rdata = soa.and_then(|soa| soa.iter().next()).map_or(&[][..], |soa| soa.rdata);
        let at = rdata.len().checked_sub(20);
        let serial = at.and_then(|at| rdata[at..].first_chunk());
        serial.map_or(0, |serial| u32::from_be_bytes(*serial))
    }

    /// Reports whether the zone has signatures and NSEC or NSEC3 records.
    #[must_use]
    pub const fn is_signed(&self) -> bool {
        !matches!(self.denial, Denial::None)
    }

    /// Returns all nodes with records in canonical order, including those of NSEC3 records.
    pub fn iter(&self) -> impl Iterator<Item = Node<'_>> {
        self.iter_at(0)
    }

    /// Returns the nodes from a folded name on, in canonical order. If the zone does not have the
    /// name, the search compares all names before it.
    pub fn iter_from(&self, name: FoldedName<'_>) -> impl Iterator<Item = Node<'_>> {
        let exact = self.node(name.wire());
        let before = |node: &Node<'_>| compare_names(node.name().wire(), name.wire()).is_lt();
        let first = exact.or_else(|| self.iter().find(|node| !before(node)));
        self.iter_at(first.map_or(self.block.len(), |node| node.at))
    }

    fn iter_at(&self, mut at: usize) -> impl Iterator<Item = Node<'_>> {
        std::iter::from_fn(move || {
            let node = Node { block: &self.block, at };
            at = if at < self.block.len() { node.end() } else { return None };
            Some(node)
        })
    }

    /// Returns the RRsets of a folded name; `None` if the zone does not have the name.
    pub fn sets_of(&self, name: FoldedName<'_>) -> Option<impl Iterator<Item = HostedSet<'_>>> {
        self.node(name.wire()).map(Node::sets)
    }

    /// Returns the node of a folded name; `None` if the zone does not have the name.
    #[inline]
    pub(crate) fn node(&self, name: &[u8]) -> Option<Node<'_>> {
        self.index.find(&self.block, name)
    }

    /// Returns the node at this offset.
    pub(crate) fn node_at(&self, at: u32) -> Node<'_> {
        Node { block: &self.block, at: at as usize }
    }
}

impl std::fmt::Debug for HostedZone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Zone({:?}, {} records)", self.apex, self.records)
    }
}

impl<'z> Node<'z> {
    /// Returns the address of the node in memory, which no other node has.
    pub(crate) fn address(&self) -> usize {
        self.block.as_ptr() as usize + self.at
    }

    #[inline]
    fn octet(self, at: usize) -> u8 {
        self.block.get(self.at + at).copied().unwrap_or(0)
    }

    #[inline]
    pub(crate) fn flags(self) -> Flags {
        Flags(self.octet(0))
    }

    /// Returns the name of the node.
    #[inline]
    #[must_use]
    pub fn name(self) -> FoldedName<'z> {
        let start = self.at + 2;
        let end = start + usize::from(self.octet(1));
        FoldedName::from_folded_unchecked(self.block.get(start..end).unwrap_or(&[0]))
    }

    /// Returns the offset at which the RRsets begin, with their number.
    #[inline]
    fn sets_at(self) -> usize {
        self.at + 2 + usize::from(self.octet(1))
    }

    pub(crate) fn end(self) -> usize {
        let at = self.sets_at() + 1;
        let len = self.block.get(at..).and_then(|rest| rest.first_chunk());
        at + 4 + len.map_or(usize::MAX / 2, |len| u32::from_be_bytes(*len) as usize)
    }

    /// Returns the RRsets in the order of their types.
    #[inline]
    pub fn sets(self) -> impl Iterator<Item = HostedSet<'z>> {
        let start = self.sets_at();
        let count = self.block.get(start).copied().unwrap_or(0);
        let mut rest = self.block.get(start + 5..).unwrap_or_default();
        (0..count).map_while(move |_| {
            let (head, after) = rest.split_first_chunk::<SET_HEAD>()?;
            let number = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
            let (records, after) = after.split_at_checked(usize::from(number(4)))?;
            let (signatures, after) = after.split_at_checked(usize::from(number(8)))?;
            rest = after;
            let (rtype, count, signature_count) = (Rtype(number(0)), number(2), number(6));
            Some(HostedSet { rtype, count, records, signature_count, signatures })
        })
    }

    /// Returns the RRset of a type, if the node has one.
    #[inline]
    pub(crate) fn set(self, rtype: Rtype) -> Option<HostedSet<'z>> {
        self.sets().find(|set| set.rtype == rtype && set.count > 0)
    }

    /// Returns the octets of the node's RRsets.
    pub(crate) fn content(self) -> &'z [u8] {
        self.block.get(self.sets_at()..self.end()).unwrap_or_default()
    }

    /// Reports whether the node has no records.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.block.get(self.sets_at()).is_none_or(|count| *count == 0)
    }
}

impl<'z> HostedSet<'z> {
    /// Returns the records of the RRset.
    #[inline]
    #[must_use]
    pub fn iter(&self) -> HostedRecords<'z> {
        HostedRecords(self.records)
    }

    /// Returns the RRSIG records of the RRset.
    #[inline]
    #[must_use]
    pub fn signatures(&self) -> HostedRecords<'z> {
        HostedRecords(self.signatures)
    }
}

/// An iterator over the records of an RRset.
#[derive(Clone, Copy, Default)]
pub struct HostedRecords<'z>(pub(crate) &'z [u8]);

impl<'z> Iterator for HostedRecords<'z> {
    type Item = HostedRecord<'z>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.0.split_first_chunk::<RECORD_HEAD>()?;
        let [_, _, high, low, _, _, a, b, c, d, len_high, len_low] = *head;
        let (rdata, rest) =
            rest.split_at_checked(u16::from_be_bytes([len_high, len_low]).into())?;
        self.0 = rest;
        let rtype = Rtype(u16::from_be_bytes([high, low]));
        Some(HostedRecord { rtype, ttl_secs: u32::from_be_bytes([a, b, c, d]), rdata })
    }
}
