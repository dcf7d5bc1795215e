//! What is trusted beside the configuration: keys whose roll-over was followed (RFC 5011), and
//! negative trust anchors set while the server runs (RFC 7646). Both are kept in the data
//! directory.
//!
//! ```text
//!   clock ──> Anchors ──asks for DNSKEY──> worker ──> RRset cache ──> Anchors ──┐
//!   `avocet nta` ──> NegativeList ──────────────────────────────────────────────┴─> LearntTrust ──> Snapshot
//! ```

pub(crate) mod anchors;
pub(crate) mod negative;
mod state_file;
