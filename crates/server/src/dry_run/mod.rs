//! Finds the names of past queries that another configuration would block and unblock.
//!
//! ```text
//! query log (logged.rs), files of the command line ── PastQuery ──> DryRunReport::judge
//!                                                       two Sides (side.rs) compute its outcomes
//! ```
//! `background.rs` makes this comparison for a client of the running server, on a thread with a low
//! share of the cores and within limits. Nothing here changes the state of the server.

pub(crate) mod background;
mod logged;
mod report;
mod side;

pub use logged::{LoggedQueries, judge_log};
pub use report::{ChangedName, Changes, DryRunReport};
pub use side::{PastQuery, Side, Sides};
