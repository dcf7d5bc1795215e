//! Trust in addition to the configuration: keys whose rollover was tracked (RFC 5011), and negative
//! trust anchors set at run time (RFC 7646). Both are stored in the data directory.
//!
//! ```text
//!   clock --> Anchors --asks for DNSKEY--> worker --> RRset cache --> Anchors --.
//!                                                                              v
//!                                    `avocet nta` --> NegativeList --> LearntTrust --> Snapshot
//! ```

pub(crate) mod anchors;
pub(crate) mod negative;
mod state_file;

pub(crate) use state_file::is_intact;
