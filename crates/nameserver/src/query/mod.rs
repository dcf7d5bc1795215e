//! The query path: from the octets of a query and its client to a [`QueryStep`].
//!
//! A query walks through stages. Each stage looks at one thing and returns a [finding]; it knows no
//! other stage. The parent, `path`, has all branches: it asks the stages in their order and
//! decides by the finding what comes next. So the file of the parent is the whole order of events,
//! and a stage can be read, tested and replaced by itself.
//!
//! ```text
//!   datagram, frame                          what resolution brought, or that it takes too long
//!        |                                              |
//!     answer                                          resume
//!        |                                              |
//!    admission      malformed, not allowed  -> end      |  failed: expired data, policy on failures
//!    packet         packet cache            -> end      |
//!    chaos          class CH, meta types               |
//!    judge          policy on the question              |
//!    local          local records                       |
//!    minimal_any    ANY                                 |
//!    special        local zones, special names          |
//!    rrsets         RRset cache  --------+              |
//!        |                               v              v
//!        |                              settle:  judge on the answer, TTLs, kept in the packet cache
//!        |                               |
//!        +-----------> conclude <--------+
//!                          |  aliases of the policy or of local records: local, special, rrsets
//!                          v
//!                reply (finish)   silent   resolve (a miss)
//! ```
//!
//! - A **hit** walks `answer`, `admission` (which only reads options), `packet`, `reply`.
//! - A **miss** walks all stages once. Its question, with all that the reply will need, becomes a
//!   [`Miss`](miss::Miss).
//! - A **late** query walks `resume`, `settle`, `conclude`. It meets the same functions as an
//!   answer from the RRset cache, so an answer is judged, kept and finished in one place, whether it
//!   comes at once or late.
//!
//! What can be answered without the network is answered here, with no lock, no allocation and no
//! waiting. Nothing here sends, and nothing here counts queries: the caller does so in one place
//! ([`close`](crate::close::close)), from the [`Decision`] that each step carries. A decision says
//! which stage ended the query and why; it is made where the stage decides, never reconstructed.
//!
//! A *draft* is a message in the form of the packet cache: question folded at offset 12, ID zero,
//! no OPT. [`respond`] makes any draft one client's reply, and no reply leaves otherwise.
//!
//! Three modules are parents of stages: `path`; [`rehearsal`], which takes the same walk without
//! effect, for explanations; and [`own`], through which the resolver asks for the names of this
//! server. All other modules are vocabulary: types and writers that stages share. A test of `xtask`
//! holds the stages to it that none imports another.
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
pub mod finding;
mod judge;
pub mod local;
pub mod look_ahead;
mod minimal_any;
pub mod miss;
pub mod octets;
pub mod own;
mod own_changes;
mod own_set;
mod packet;
mod path;
pub mod question;
pub mod rate_limit;
pub mod rehearsal;
pub mod respond;
mod rrsets;
pub mod scratch;
pub mod special;
mod ttl;
pub mod witness;

pub use context::{Client, Output, PROFILE, QueryContext, packet_hash};
pub use decision::{Decision, Outgoing, QueryStep, Stage};
pub use finding::Obtained;
pub use look_ahead::Seen;
pub use packet::still_holds;
pub use path::{Incoming, answer, resume, share, shed};
