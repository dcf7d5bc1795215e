//! Resolution without I/O, by forwarding or by recursion from the root: chooses servers, writes
//! queries, decides which data in replies is trusted, and writes answers.
//!
//! Time and octets go in, [`Action`]s come out; randomness comes from a CSPRNG seeded by the
//! caller. A [`Resolver`] belongs to one thread.
//!
//! ```text
//! submit ──> task (joined by equal questions) ──> choose a server ──> query ──> Action::Send
//!              ^ timeouts, failures: the next server ──────┘
//! received ──> match to its query ──> read, scrub ──> RRset cache ──> Action::Finish
//!                                        └── aliases leave the zone: resolve the target
//! ```
//!
//! Forwarding and recursion query servers through one layer, `exchange`.

#![forbid(unsafe_code)]

mod action;
mod answer;
mod assemble;
mod bound;
mod chains;
mod configured;
mod dns64;
mod exchange;
mod failure;
mod iterate;
mod local_root;
mod metrics;
mod name_order;
mod name_servers;
mod numbering;
mod own;
mod plan;
mod query;
mod rdata_list;
mod read;
mod recursion;
mod report;
mod resolver;
mod scrub;
mod store;
mod task;
mod trace;
mod validation;

pub use crate::exchange::breaker::BreakerState;
pub use crate::exchange::endpoint::{
    Carrier, Endpoint, EndpointId, MAX_RACE, PeerId, SocketFault, SocketId, SocketSlot, Strategy,
    TlsFault, Transport,
};
pub use crate::plan::Ask;
pub use crate::validation::Validation;
pub use action::{Action, Actions, AskedFor};
pub use answer::{Answers, Resolved, Source};
pub use assemble::{Assembled, Assembler, Wanted};
pub use dns64::{Dns64, Prefix};
pub use local_root::{LocalRoot, LocalRootFault, LocalRootSlot, Timers};
pub use metrics::{Counters, RTT_BUCKETS_MS, UpstreamCounters};
pub use name_servers::{DELEGATIONS, NameServers};
pub use own::{Data, Own, OwnNames, OwnSet, Sought};
pub use plan::{
    EcsPolicy, FetchLimits, HeaderPlace, Introduction, MAX_UPSTREAMS, Plan, PlanError, Settings,
    ZoneRule,
};
pub use recursion::{Recursion, RootServer, StubZone};
pub use resolver::{
    Abandoned, Context, Handing, MAX_POOL, Resolver, Shed, Submitted, UpstreamReport,
};
pub use scrub::MAX_ALIASES;
pub use trace::{Event, Find, Reaction, Step, Taken, Trace, Traced, Why};
