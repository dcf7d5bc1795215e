//! DNSSEC validation (RFC 4033 to 4035, 5155, 6840, 9276, 9364): signatures, the chain from DS to
//! DNSKEY, denial of existence, trust anchors.
//!
//! ```text
//! anchors --Trust--> chain::zone_keys(DNSKEY) --ZoneKeys--> signature::verify(RRset) --> Verified
//!                        ^                             \--> denial::Proof(NSEC, NSEC3) --> Denial, Delegation
//!                        '---- DS, verified with the keys of the zone above
//! ```
//!
//! Pure: no input and output, no clock. The wall clock comes in as [`Context::now_secs`]; what may
//! be kept, and how long, goes out as a number of seconds. Whatever a stranger can make us do is
//! counted in a [`Budget`], which one client query shares with all that is asked on its behalf.
//!
//! A check gives what was proven or a [`Reason`]; from the reason follow the [`Verdict`] and the
//! extended error.
//!
//! Not here: which names are asked for, and the cache.

#![forbid(unsafe_code)]

pub mod aggressive;
pub mod algorithm;
pub mod anchor;
pub mod budget;
pub mod chain;
pub mod denial;
pub mod ds;
pub mod key;
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
