//! DNSSEC validation (RFC 4033 to 4035, 5155, 6840, 9276, 9364): signatures, the chain from DS to
//! DNSKEY, denial of existence, trust anchors.
//!
//! ```text
//! anchors --Trust--> chain::zone_keys(DNSKEY) --ZoneKeys--> signature::verify(RRset) --> Verified
//!                        ^                             \--> denial::Proof(NSEC, NSEC3)
//!                        |                                     --> Denial, Delegation
//!                        '---- DS, verified with the keys of the zone above
//! ```
//!
//! The crate is pure: it has no I/O and no clock. The caller passes the wall clock as
//! [`Context::now_secs`], and results state their lifetimes in seconds. All work that a hostile
//! server can cause is counted in a [`Budget`], which a client query shares with all queries made
//! on its behalf.
//!
//! A check returns the proven fact or a [`Reason`]. The reason determines the [`Verdict`] and the
//! extended error. [`chain`] explains the chain of trust, [`denial`] the proofs of non-existence.
//!
//! The caller decides which names to query, and caches the results.
//!
//! ```
//! use avocet_dnssec::{Budget, Context, Policy, Rrset, Trust, chain, signature};
//! use avocet_wire::{Class, Rtype, rdata};
//!
//! let data = |rtype: Rtype, text: &str| {
//!     let mut out = Vec::new();
//!     rdata::parse(rtype.0, text, &[0], &mut out).map(|()| out)
//! };
//! let key = data(Rtype::DNSKEY, "257 3 15 iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=")?;
//! let key_signature = data(
//!     Rtype::RRSIG,
//!     "DNSKEY 15 1 3600 20270116080000 20270114080000 60795 example. \
//!      Z+S5BcC8pC+NQjLx6OsOXmZV07JFFC+EdnpnFFuZMWoHvikBo/UcViWAhYCl74dHWnnOzNOc1/986DZU3ve7CA==",
//! )?;
//! let ds = data(
//!     Rtype::DS,
//!     "60795 15 2 da1f7b0056feab8772ff0e19dd9068b2789db9c564057a20675fe0d70736b2e5",
//! )?;
//! let address_signature = data(
//!     Rtype::RRSIG,
//!     "A 15 2 3600 20270116080000 20270114080000 60795 example. \
//!      mIYAFZqBVoZFoWFELtv7mHyLEvo1wxCPdzgA5CuFwJoogun1q/liegg4h01mzonkSZlZJvP8C5Ux4jt0yVnFBw==",
//! )?;
//!
//! let context = Context { now_secs: 1_800_000_000, policy: Policy::default() };
//! let mut budget = Budget::default();
//! let dnskeys = Rrset {
//!     owner: b"\x07example\x00",
//!     rtype: Rtype::DNSKEY,
//!     class: Class::IN,
//!     ttl_secs: 3600,
//!     records: &[&key],
//!     signatures: &[&key_signature],
//! };
//! let trust = Trust { ds: &[&ds], dnskeys: &[], lifetime_secs: 7200 };
//! let keys = chain::zone_keys(&dnskeys, &trust, &context, &mut budget).expect("a valid chain");
//!
//! let addresses = Rrset {
//!     owner: b"\x03www\x07example\x00",
//!     rtype: Rtype::A,
//!     records: &[&[192, 0, 2, 1]],
//!     signatures: &[&address_signature],
//!     ..dnskeys
//! };
//! let verified =
//!     signature::verify(&addresses, &keys, &context, &mut budget).expect("secure data");
//! assert_eq!(verified.lifetime_secs, 3600);
//! # Ok::<(), rdata::RdataError>(())
//! ```

#![forbid(unsafe_code)]

pub mod aggressive;
pub mod algorithm;
pub mod anchor;
pub mod budget;
pub mod chain;
pub mod denial;
pub mod ds;
pub mod key;
#[cfg(any(test, feature = "known-signatures"))]
pub mod known;
mod label;
mod memo;
pub mod negative;
pub mod nsec;
pub mod nsec3;
pub mod rollover;
pub mod rrset;
pub mod rrsig;
pub mod signal;
pub mod signature;
pub mod signing;
#[cfg(test)]
mod tests;
mod types;
pub mod verdict;
pub mod zonemd;

pub use algorithm::{Algorithm, Policy, Sha1Signatures};
pub use budget::{Budget, Limit, Limits};
pub use chain::{Trust, ZoneKeys};
pub use denial::{Delegation, DelegationKind, Denial, DenialKind, Hashes, Proof};
pub use rrset::{Context, Rrset};
pub use signature::Verified;
pub use verdict::{Reason, Verdict};
