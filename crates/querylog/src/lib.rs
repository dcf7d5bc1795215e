//! The query log. Entries and the time go in; files come out.
//!
//! This crate has no clock, no socket and no thread of its own. The server uses it like this:
//!
//! 1. For each worker it creates a [`ring()`]. The worker keeps the [`Producer`] and calls
//!    [`Producer::push`] with a [`RawEntry`] for each answer. This takes no lock, allocates nothing
//!    and never waits.
//! 2. One thread owns the [`Writer`] and all [`Consumer`]s. A few dozen times a second it takes the
//!    entries out of the rings, completes each, passes it to [`Writer::add`] unless the client's
//!    privacy is `off`, and calls [`Writer::tick`]. The thread logs and counts the errors of these
//!    calls, and continues. It also adds up [`Consumer::dropped`].
//! 3. The server implements [`Labels`], which has the texts of the numbers in entries.
//! 4. Another thread, with low priority, calls [`Upkeep::step`] until it returns `false`, and again
//!    some seconds later.
//! 5. A search opens a [`LogReader`], in this or in another process. [`export`] writes the entries
//!    that a search finds to a file. Overviews read [`Writer::rollups`].
//!
//! ```text
//!  worker ──push──> ring ──pop, add──> Writer ──append──> head-*.blocks ──┐
//!                                                        Upkeep ──seal──> │ queries-*.parquet
//!                                                            LogReader <──┴──┘
//! ```
//!
//! The parts share only the directory; `directory.rs` describes its files.
//!
//! ```
//! use avocet_querylog::column::Text;
//! use avocet_querylog::{
//!     Entry, Facts, Filter, Label, Labels, LogReader, SearchExtent, Writer, WriterOptions,
//! };
//!
//! /// No number has a text.
//! struct NoTexts;
//!
//! impl Labels for NoTexts {
//!     fn texts(&self, _: u32, _: Label, _: u16, _: &mut dyn FnMut(&str)) {}
//! }
//!
//! # fn main() -> Result<(), avocet_querylog::LogError> {
//! # let directory = std::env::temp_dir().join(format!("avocet-doc-log-{}", std::process::id()));
//! let options = WriterOptions {
//!     directory: directory.clone(),
//!     head_entries: avocet_querylog::DEFAULT_HEAD_ENTRIES,
//!     head_secs: avocet_querylog::DEFAULT_HEAD_SECS,
//!     pseudonym_key: [7; 16],
//! };
//! let now_us = 1_700_000_000_000_000;
//! let mut writer = Writer::open(options, now_us)?;
//! let entry = Entry {
//!     facts: Facts::of(now_us, [192, 0, 2, 1].into()),
//!     qname: b"\x03www\x07example\x00",
//!     lists: &[],
//!     answer: &[],
//! };
//! writer.add(&entry, &NoTexts, now_us)?;
//! assert_eq!(writer.close(now_us)?.written, 1);
//!
//! let reader = LogReader::open(directory.clone())?;
//! let extent = SearchExtent { before_id: u64::MAX, entries: 10, max_rows: 1_000 };
//! let page = reader.search(&Filter::default(), extent);
//! assert_eq!(page.entries[0].text(Text::Qname), "www.example.");
//! # let _ = std::fs::remove_dir_all(&directory);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod entry;
pub mod ring;
mod sync;

#[cfg(not(loom))]
mod batch;
#[cfg(not(loom))]
mod block;
#[cfg(not(loom))]
mod chunk;
#[cfg(not(loom))]
mod collect;
#[cfg(not(loom))]
pub mod column;
#[cfg(not(loom))]
mod date;
#[cfg(not(loom))]
mod directory;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod export;
#[cfg(not(loom))]
mod head;
#[cfg(not(loom))]
mod interned;
#[cfg(not(loom))]
mod lock;
#[cfg(not(loom))]
mod privacy;
#[cfg(not(loom))]
mod prune;
#[cfg(not(loom))]
mod rank;
#[cfg(not(loom))]
mod recount;
#[cfg(not(loom))]
mod rollup;
#[cfg(all(test, not(loom)))]
mod scratch;
#[cfg(not(loom))]
mod search;
#[cfg(not(loom))]
mod segment;
#[cfg(not(loom))]
mod summary;
#[cfg(not(loom))]
mod taken;
#[cfg(not(loom))]
mod upkeep;
#[cfg(not(loom))]
mod varint;
#[cfg(not(loom))]
mod writer;

pub use entry::{
    Entry, Facts, Label, Labels, NO_EDE, OUTCOMES, Outcome, Privacy, RawEntry, RawFacts,
};
pub use ring::{Consumer, Producer, ReadFacts, Record, ring};

#[cfg(not(loom))]
pub use error::LogError;
#[cfg(not(loom))]
pub use export::{ExportFormat, Exported, export, write_entry, write_header};
#[cfg(not(loom))]
pub use head::HeadLoss;
#[cfg(not(loom))]
pub use privacy::Concealment;
#[cfg(not(loom))]
pub use prune::{Pruned, prune};
#[cfg(not(loom))]
pub use rank::{Ranked, rank};
#[cfg(not(loom))]
pub use recount::PartCounts;
#[cfg(not(loom))]
pub use rollup::{DELAY_CLASSES, Period, Ranking, Rollups, SeenClient, Top, TopText, Totals};
#[cfg(not(loom))]
pub use search::{
    Broken, ClientNetwork, Condition, Count, EqualEntries, Filter, LogEntry, LogReader,
    MAX_TALLY_COLUMNS, Page, SearchExtent, Tallied, TallyBy, TallyTimes,
};
#[cfg(not(loom))]
pub use upkeep::{Ages, OutcomeDays, Retention, Upkeep, UpkeepCounters};
#[cfg(not(loom))]
pub use writer::{DEFAULT_HEAD_ENTRIES, DEFAULT_HEAD_SECS, Writer, WriterCounters, WriterOptions};
