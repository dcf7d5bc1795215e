//! Response policy zones (draft-vixie-dnsop-dns-rpz): policy written as a zone.
//!
//! ```text
//! zone file --Zone::read--> Zone ... --Zones::of--> Zones --> on_client, on_qname, on_answer_addresses, on_nsnames, on_nsaddresses
//! ```
//!
//! Of all triggers that fire for a query, one decides: that of the name that comes first in a chain
//! of aliases (draft §5.1); for the same name that of the zone configured first; within a zone
//! client address, then qname, address in the answer, name and address of a name server. As these
//! become known one after another, each function gives the best of its kind; [`Found::best`]
//! chooses between them, and [`Zones::is_settled`] says when no later one could win.

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
pub use zones::{Found, MAX_ZONES, ZoneSet, Zones};
