//! Hosted zones: master files, checks of whole zones, the tree, and authoritative answers.
//!
//! ```text
//! files --reader--> records --ZoneBuilder--> tree, checked --answer--> draft of a message
//! ```
//!
//! Zones may also come from other formats ([`ZoneProvider`]). [`pool`] has names whose
//! addresses depend on the health of their hosts.
//!
//! The crate opens no files, uses no socket and no clock: the caller opens included files and gives
//! the time. The reader of entries is [`avocet_wire::master`], which policy zones use, too.
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! use avocet_wire::{FoldedName, Rcode, Rtype};
//! use avocet_zone::{HostedQuestion, HostedZones, Proofs};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = "$TTL 1h\n@ SOA ns hostmaster 1 1h 15m 30d 5m\n  NS ns\nns A 192.0.2.1\n";
//! let apex = FoldedName::new(b"\x07example\x00").ok_or("a folded name")?;
//! let mut open = |_: &Path, _: u64| Ok(text.as_bytes().to_vec());
//! let (zone, faults) =
//!     avocet_zone::load(apex, Path::new("example.zone"), 1_700_000_000, &mut open);
//! assert_eq!(faults.errors(), 0);
//!
//! let zones: HostedZones = [(apex.wire().into(), zone.map(Arc::new))].into_iter().collect();
//! let qname = FoldedName::new(b"\x02ns\x07example\x00").ok_or("a folded name")?;
//! let question =
//!     HostedQuestion { qname, qtype: Rtype::A, proofs: Proofs::Omitted, limit: 1_232 };
//! let mut message = [0; 1_232];
//! let answer = avocet_zone::answer(&zones, &question, &mut message).ok_or("a hosted name")?;
//! assert_eq!(answer.rcode, Rcode::NOERROR);
//! assert!(message[..answer.len].ends_with(&[192, 0, 2, 1]));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod answer;
mod build;
mod catalog;
mod change;
mod check;
mod denial;
mod digest;
mod edits;
mod fault;
mod find;
mod flatten;
mod journal;
mod node_index;
mod online;
mod outbound;
pub mod pool;
mod powerdns;
mod provided;
mod reader;
mod retouch;
mod rrset_edit;
mod serial;
mod set;
pub mod sign;
mod signature_cache;
mod text;
mod tree;
mod tsig;
mod update;
mod zone_id;

use std::path::Path;

use avocet_wire::{FoldedName, NameBuf};

pub use answer::{
    AnswerTerms, AnsweredElsewhere, HostedAnswer, HostedEnd, HostedQuestion, Proofs, ShownHost,
    answer, answer_with,
};
pub use build::{MAX_HOSTED_RECORDS, ZoneBuilder};
pub use catalog::{CatalogFault, CatalogMember, MAX_CATALOG_MEMBERS, catalog_members};
pub use change::{ChangeSize, MAX_KEPT_CHANGES, OwnedRecord, RecordList, ZoneChange, ZoneVersion};
pub use check::MAX_SERVED_ITERATIONS;
pub use edits::{NotExact, PresentRecord, UnsoundZone, ZoneEdits};
pub use fault::{EntryPlace, Faults, MAX_FAULTS, Severity, ZoneFileFault, ZoneProblem};
pub use flatten::{TargetAddresses, published_addresses};
pub use journal::{
    BehindDamage, JournalContent, append_change, append_read, append_written, journal_head,
    read_journal,
};
pub use online::MadeSet;
pub use outbound::{OutboundTransfer, RecordTooLong};
pub use powerdns::{
    PowerDnsContent, PowerDnsFault, PowerDnsRecord, PowerDnsRow, read_powerdns_row,
};
pub use provided::{
    MAX_SOURCE_OCTETS, ProvidedReading, ProvidedSource, SourceProblem, ZoneProvider, load_provided,
};
pub use reader::{MAX_INCLUDE_DEPTH, MAX_ZONE_TEXT, OpenFile, read};
pub use retouch::retouched;
pub use rrset_edit::{RrsetAction, RrsetEdit, RrsetFault, apply_rrset_edits};
pub use serial::{SerialPolicy, is_newer, with_serial};
pub use set::HostedZones;
pub use text::append_line;
pub use tree::{HostedRecord, HostedRecords, HostedSet, HostedZone, Node};
pub use tsig::{
    MAX_TSIG, MAX_TSIG_SECRET, MIN_TSIG_SECRET, TsigAlgorithm, TsigError, TsigFault, TsigKey,
    TsigMalformed, TsigRecord, TsigSigner, TsigVerifier, UntrustedReply, append_error,
    verify_request,
};
pub use update::{EditScope, MAX_UPDATE_RECORDS, ZoneUpdate};
pub use zone_id::ZoneId;

/// Reads and checks a zone. Returns all faults, and the zone if it has no errors.
///
/// `open` reads a file. `now_secs` is the Unix time at which the dates of signatures are checked.
#[must_use]
pub fn load(
    apex: FoldedName<'_>,
    file: &Path,
    now_secs: u64,
    open: OpenFile<'_>,
) -> (Option<HostedZone>, Faults) {
    let mut faults = Faults::default();
    let mut builder = ZoneBuilder::new(apex);
    let origin = NameBuf::from_wire(apex.wire()).unwrap_or(NameBuf::ROOT);
    read(&origin, file, open, &mut faults, &mut |record, place, faults| {
        builder.add(record, place, faults);
    });
    let zone = builder.finish(now_secs, EntryPlace::default(), &mut faults);
    (zone, faults)
}
