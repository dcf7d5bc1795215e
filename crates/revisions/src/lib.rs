//! Revisions of the configuration: each accepted text is kept under a number, so that it can be
//! compared and restored.
//!
//! ```text
//! edit by hand ──────────────┐                     ┌──> Store: one file per revision   (store)
//! edit by a program ─ TOML ──┼── accepted text ────┤
//! rollback ── Store::text ───┘                     └──> the configuration file         (replace)
//!                                                       │
//!                              in force ── Probation ───┴── judge: confirmed, or rolled back
//! ```
//! A revision is written before its text replaces the configuration file and before it is in force.
//! A crash between these steps loses nothing: the file has the text before or after, and the store
//! has both.
//!
//! This crate reads no clock and does not know what a configuration means: time, texts and counts
//! are arguments.

#![forbid(unsafe_code)]

pub mod diff;
pub mod probation;
pub mod replace;
pub mod store;

pub use diff::unified;
pub use probation::{Band, Health, Probation, Reason};
pub use replace::{ReplaceError, replace};
pub use store::{ChangeOrigin, Facts, RevisionError, Store, Submission};
