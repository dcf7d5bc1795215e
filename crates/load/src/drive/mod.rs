//! Sending and receiving: flows of queries on many sockets in one event loop.

pub(crate) mod driver;
pub(crate) mod flow;
pub(crate) mod lane;
pub(crate) mod pace;
pub(crate) mod pending;
pub(crate) mod quic;
pub(crate) mod ramp;
pub(crate) mod tally;

pub(crate) use driver::{Driver, Interval, Watch};
pub(crate) use flow::Flow;
pub use lane::{Carrier, Connections};
pub(crate) use pace::Pace;
pub(crate) use tally::{Counts, Latencies};
