//! Response policy zones (draft-vixie-dnsop-dns-rpz): policy in the form of a DNS zone.
//!
//! A provider of threat data publishes a zone whose owners are *triggers* and whose records encode
//! *actions*. A trigger tests one property of a query or of its resolution. If it fires, its action
//! replaces the answer: by NXDOMAIN, NODATA, an alias, local data, a truncated answer or none at
//! all.
//!
//! ```text
//! text of a zone -> Zone::read -> Zone, Zone, ... -> Zones::of -> Zones
//!                                                                   |
//!   client address          on_client            --+                |
//!   QNAME, alias targets    on_qname               |                |
//!   addresses in answer     on_answer_addresses    +-- one Found <--'
//!   names of servers        on_nsnames             |
//!   addresses of servers    on_nsaddresses       --+
//! ```
//!
//! # Precedence
//!
//! Of all triggers that fire for a query, exactly one decides. The order of comparison is:
//!
//! 1. the position of the name in the chain of aliases, the QNAME first (draft §5.1);
//! 2. the position of the zone in the configuration;
//! 3. the kind of the trigger, in the order of the diagram ([`TriggerKind`]);
//! 4. within one zone and kind, the most specific trigger: an exact name before a wildcard, a
//!    longer prefix before a shorter one.
//!
//! The tested properties become known one after another: the client and the QNAME at once,
//! addresses and servers only after resolution. Therefore each function returns the best trigger of
//! its kind, and [`Found::best`] selects between two. [`Zones::is_settled`] reports whether a later
//! kind could still take precedence. If not, the query can be answered without being resolved.
//!
//! # Zones in force
//!
//! All zones are loaded once for all clients. Each look-up takes the [`ZoneSet`] of the client's
//! profile and ignores the triggers of other zones. Triggers on client addresses are part of the
//! profiles themselves, so that answers in the packet cache are never shared across them.
//!
//! # Storage
//!
//! Names of triggers are not stored, only their keyed hashes. After all zones are read, their names
//! are merged into one table with the structure of the list image: a Bloom filter, buckets, and
//! sorted rows. A row holds hash, zone, presence and effect. One look-up thus covers all zones, at
//! a cost that depends on the labels of the name but not on the number of zones. Addresses are
//! looked up by one hash probe per prefix length in use.
//!
//! The matching of wildcards follows RFC 4592: the closest encloser in the zone decides, so a zone
//! must also know the empty non-terminals above its triggers. The module `names` explains which of
//! these are stored.
//!
//! # Untrusted input
//!
//! A zone comes from a third party. An invalid record costs only itself and is reported with its
//! line ([`ZoneFault`]); the size of a zone and the number of its triggers are limited. A zone
//! without permission to rewrite ([`ZoneRewrites`]) cannot redirect clients: its aliases and local
//! data are errors.

mod action;
mod effects;
mod names;
mod networks;
mod table;
mod trigger;
mod zone;
mod zones;

pub(crate) use zone::MAX_CLIENTS;

pub use action::{Action, LocalRecord};
pub use trigger::TriggerKind;
pub use zone::{Zone, ZoneFault, ZoneReason, ZoneReport, ZoneRewrites};
pub use zones::{Found, MAX_POLICY_ZONES, ZoneSet, Zones};
