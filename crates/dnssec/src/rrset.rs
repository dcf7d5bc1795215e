//! The input of validation: an RRset with its signatures, borrowed from a message or the cache.

use avocet_wire::{Class, Rtype};

use crate::algorithm::Policy;

/// An RRset with the RRSIG records that cover it.
#[derive(Clone, Copy, Debug)]
pub struct Rrset<'a> {
    /// The owner, uncompressed, in any letter case.
    pub owner: &'a [u8],
    /// TYPE; never RRSIG.
    pub rtype: Rtype,
    /// CLASS.
    pub class: Class,
    /// The TTL in seconds. For cached records, the remaining TTL.
    pub ttl_secs: u32,
    /// The data of each record, with uncompressed names.
    pub records: &'a [&'a [u8]],
    /// The data of each RRSIG record at the owner that covers the type.
    pub signatures: &'a [&'a [u8]],
}

/// The inputs that all checks at one moment share.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The wall clock: seconds since 1970, modulo 2^32 (RFC 4034 §3.1.5).
    pub now_secs: u32,
    /// The accepted algorithms.
    pub policy: Policy,
}
