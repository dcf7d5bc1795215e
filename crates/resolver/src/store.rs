//! Stores a scrubbed answer in the RRset cache.

use avocet_cache::{
    Negative, NegativeKind, NegativeRecord, Provenance, Rank, ReceivedRrset, RrsetCache, RrsetKey,
    Security,
};
use avocet_wire::{Rcode, Rtype, Section};

use crate::answer::{Gathered, GatheredParts};

/// Number of records of an RRset, and of signatures, that can be listed without an allocation.
const FEW: usize = 8;

/// The source of an answer, which determines how it is cached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetched {
    pub(crate) with_do: bool,
    pub(crate) with_cd: bool,
    pub(crate) now_secs: u32,
}

impl Fetched {
    /// Returns the provenance of the data. The response of a forwarder ranks like an answer without
    /// the AA flag, even if the flag is set.
    fn provenance(&self) -> Provenance {
        Provenance {
            security: Security::Unchecked,
            unsupported: None,
            rank: Rank::NonAuthoritativeAnswer,
            asked_with_do: self.with_do,
            asked_with_cd: self.with_cd,
        }
    }
}

/// Caches each RRset of the answer section.
pub(crate) fn positive(cache: &RrsetCache, gathered: &Gathered, fetched: &Fetched) {
    let mut records =
        gathered.iter().take_while(|(kind, ..)| kind.section == Section::Answer).peekable();
    let mut dname_before = false;
    while let Some(first) = records.next() {
        let mut set = List::new(first.2);
        let mut signatures = List::default();
        let mut is_wildcard = false;
        while let Some((kind, _, rdata)) = records.next_if(|next| belongs(&first, next)) {
            if kind.rtype == first.0.rtype {
                set.push(rdata);
            } else {
                is_wildcard |= rdata
                    .get(3)
                    .is_some_and(|&labels| usize::from(labels) < first.1.labels().count());
                signatures.push(rdata);
            }
        }
        let is_synthesised = dname_before && first.0.rtype == Rtype::CNAME;
        dname_before = first.0.rtype == Rtype::DNAME;
        // A CNAME that follows from a DNAME is not cached. It is synthesized from the DNAME again,
        // so that the proof is included.
        if is_synthesised || first.0.rtype.is_meta() || first.0.rtype.is_dnssec_proof() {
            continue;
        }
        let mut provenance = fetched.provenance();
        // The proof of a wildcard expansion is not cached, so the cached answer is not for
        // validating clients.
        provenance.asked_with_do &= !is_wildcard;
        let new = ReceivedRrset {
            provenance,
            ttl: first.0.ttl_secs,
            records: set.as_slice(),
            signatures: signatures.as_slice(),
        };
        let key = RrsetKey { owner: first.1, rtype: first.0.rtype.0, class: first.0.class.0 };
        cache.insert(&key, &new, fetched.now_secs);
    }
}

/// Returns whether `next` is a record of the RRset that begins with `first`, or a signature of this
/// RRset.
fn belongs(first: &GatheredParts<'_>, next: &GatheredParts<'_>) -> bool {
    let same_type = next.0.rtype == first.0.rtype;
    let covers = next.0.rtype == Rtype::RRSIG
        && next.2.first_chunk() == Some(&first.0.rtype.0.to_be_bytes());
    next.1 == first.1 && (same_type || covers)
}

/// Caches a denial of `key`. Its records are in the authority section; the SOA record is the first
/// of them.
pub(crate) fn negative(
    cache: &RrsetCache,
    key: &RrsetKey<'_>,
    rcode: Rcode,
    gathered: &Gathered,
    fetched: &Fetched,
) {
    let mut authority = gathered.iter().filter(|(kind, ..)| kind.section == Section::Authority);
    let Some((kind, owner, rdata)) = authority.next() else { return };
    let proof: Vec<_> = authority
        .map(|(kind, owner, rdata)| NegativeRecord { owner, rtype: kind.rtype.0, rdata })
        .collect();
    let negative = Negative {
        kind: if rcode == Rcode::NXDOMAIN { NegativeKind::Nxdomain } else { NegativeKind::Nodata },
        provenance: fetched.provenance(),
        soa: NegativeRecord { owner, rtype: kind.rtype.0, rdata },
        soa_ttl: kind.ttl_secs,
        proof: &proof,
    };
    cache.insert_negative(key, &negative, fetched.now_secs);
}

/// A list of record data that needs no allocation while it is short.
#[derive(Default)]
struct List<'a> {
    few: [&'a [u8]; FEW],
    len: usize,
    many: Vec<&'a [u8]>,
}

impl<'a> List<'a> {
    fn new(first: &'a [u8]) -> Self {
        let mut list = Self::default();
        list.push(first);
        list
    }

    fn push(&mut self, rdata: &'a [u8]) {
        if self.len < FEW {
            self.few[self.len] = rdata;
        } else {
            if self.len == FEW {
                self.many.extend_from_slice(&self.few);
            }
            self.many.push(rdata);
        }
        self.len += 1;
    }

    fn as_slice(&self) -> &[&'a [u8]] {
        if self.len <= FEW { &self.few[..self.len] } else { &self.many }
    }
}
