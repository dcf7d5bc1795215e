//! The query path: from the octets of a query and its client to a [`QueryStep`].
//!
//! A query passes through stages. Each stage has one subject, returns a [finding] and knows no
//! other stage. The parent, `path`, has all branches: it calls the stages in order and continues
//! according to the finding. Its file thus shows the whole order, and each stage can be read,
//! tested and replaced separately. Queries that have waited enter the path again from `late`.
//!
//! ```text
//!   datagram, frame                          the result of resolution, or its delay
//!        |                                              |
//!     answer                                          resume
//!        |                                              |
//!    admission      malformed, not allowed  -> end      |  failed: expired data, or policy
//!    packet         packet cache            -> end      |
//!    chaos          class CH, meta types               |
//!    transfer       AXFR, IXFR of hosted zones         |
//!    judge          policy on the question              |
//!    pool           names that follow health            |
//!    local          local records                       |
//!    hosted         hosted zones                        |
//!    minimal_any    ANY                                 |
//!    special        local zones, special names          |
//!    rrsets         RRset cache  --------+              |
//!        |                               v              v
//!        |                              settle:  judge the answer, TTLs, packet cache
//!        |                               |
//!        +-----------> conclude <--------+
//!                          |  aliases of policy or local records: pool, local, special, rrsets
//!                          v
//!                reply (finish)   silent   resolve (a miss)
//! ```
//!
//! - A **hit** passes `answer`, `admission` (which only reads options), `packet`, `reply`.
//! - A **miss** passes all stages once. Its question, with all data for the reply, becomes a
//!   [`Miss`](miss::Miss).
//! - A **late** query passes `resume`, `settle`, `conclude`, through the same functions as an
//!   answer from the RRset cache. An answer is thus evaluated, cached and completed in one place,
//!   whether it comes at once or late.
//!
//! All answers that need no network are made here, without a lock, an allocation or a wait. Nothing
//! here sends or counts queries: the caller does so in one place ([`close`](crate::close::close)),
//! from the [`Decision`] of each step. A decision records the stage that ended the query and the
//! reason; it is made where the stage decides and never reconstructed.
//!
//! A *draft* is a message in the format of the packet cache: question folded at offset 12, ID zero,
//! no OPT. [`respond`] turns a draft into the reply for one client; every reply passes through it.
//! Five modules call stages. `path` and `late` are shown above. `signed` verifies and removes the
//! transaction signatures of messages. [`rehearsal`] takes the same path without side effects, for
//! explanations. Through [`own`], the resolver looks up the names of this server. All other modules
//! have types and writers that stages share. A test of `xtask` checks that no stage imports
//! another.
//!
//! [finding]: finding

pub mod addresses;
mod admission;
pub mod alias;
pub mod asked;
pub mod blocked;
pub mod chaos;
pub mod context;
pub mod cookie;
pub mod decision;
pub mod designation;
pub mod finding;
pub mod held;
mod hosted;
mod judge;
mod late;
pub mod local;
pub mod look_ahead;
mod minimal_any;
pub mod miss;
mod notify;
pub mod octets;
pub mod own;
mod own_changes;
mod own_set;
mod packet;
mod path;
mod pool;
pub mod question;
pub mod rate_limit;
pub mod rehearsal;
pub mod respond;
mod rrsets;
pub mod scratch;
mod shown;
mod signed;
pub mod special;
mod strangers;
mod transfer;
mod translate;
mod ttl;
mod update;
pub mod witness;

pub use context::{Client, Output, PROFILE, QueryContext, packet_hash};
pub use decision::{Decision, Outgoing, QueryStep, Stage};
pub use finding::Obtained;
pub use late::{Given, answer_held, resume, share, shed, unidentified};
pub use look_ahead::Seen;
pub use packet::still_holds;
pub use path::{Incoming, answer};
