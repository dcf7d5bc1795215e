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
//! This crate reads no clock and does not interpret a configuration: time, texts and counts are
//! arguments.
//!
//! ```
//! use avocet_revisions::{Band, ChangeOrigin, Health, Probation, Reason, Store, Submission};
//!
//! # fn main() -> Result<(), avocet_revisions::RevisionError> {
//! # let directory = std::env::temp_dir().join(format!("avocet-doc-{}", std::process::id()));
//! let mut store = Store::open(&directory)?;
//! let submission = |at_secs| Submission {
//!     at_secs,
//!     origin: ChangeOrigin::Edit,
//!     author: Some("ada".to_owned()),
//!     source: None,
//!     comment: None,
//! };
//! let first = store.add("[cache]\n", submission(1_000), (10, &[]))?;
//! let second = store.add("[cache]\nsize = \"1 GB\"\n", submission(2_000), (10, &[]))?;
//! let (old, new) = (store.text(first)?, store.text(second)?);
//! let difference = avocet_revisions::unified(("1", &old), ("2", &new));
//! assert!(difference.ends_with("+size = \"1 GB\"\n"));
//!
//! // Nobody confirms the second revision within a minute.
//! let health = Health::default();
//! let probation = Probation::begin((second, first), 2_060, (&Band::default(), health));
//! assert_eq!(probation.judge(2_059, health, None), None);
//! assert_eq!(probation.judge(2_060, health, None), Some(Reason::Unconfirmed));
//! # let _ = std::fs::remove_dir_all(&directory);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod diff;
pub mod probation;
pub mod replace;
pub mod store;

pub use diff::unified;
pub use probation::{Band, Health, Probation, Reason};
pub use replace::{ReplaceError, replace};
pub use store::{ChangeOrigin, Facts, RevisionError, Store, Submission};
