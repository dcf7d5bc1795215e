//! The values that the parts of a worker pass to one another, and the traits that take them.
//!
//! No part of a worker refers to another part.

use std::net::IpAddr;
use std::sync::Arc;

use avocet_io::poll::Poller;
use avocet_nameserver::clock::{Clock, Moment};
use avocet_nameserver::close::Ended;
use avocet_nameserver::query::miss::{ReplyRoute, StreamRoute};
use avocet_nameserver::query::{Client, QueryContext, QueryStep};
use avocet_nameserver::transfers::TransferRest;
use avocet_session::oblivious::{ObliviousFault, OpenedQuery, ProxyFault};

/// One moment on both clocks. The clocks are read once for each turn of the event loop and for each
/// batch of datagrams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    /// The time on the monotonic clock.
    pub(crate) now: Moment,
    /// The time on the wall clock, in Unix seconds.
    pub(crate) wall_secs: u64,
}

impl Time {
    /// Reads the clocks.
    #[inline]
    pub(crate) fn read(clock: &Clock) -> Self {
        let now = clock.now();
        Self { now, wall_secs: clock.wall_secs(now) }
    }

    /// Returns the milliseconds on the monotonic clock.
    #[inline]
    pub(crate) fn millis(self) -> u64 {
        self.now.millis()
    }
}

/// The arguments that all calls of `Resolution` in one turn of the event loop have in common.
pub(crate) struct WorkerTurn<'t, D> {
    /// The poller that watches the sockets of resolution.
    pub(crate) poller: &'t Poller,
    /// The moment of the call.
    pub(crate) time: Time,
    /// The receiver of the results of queries that have waited.
    pub(crate) late: D,
}

/// The result of a query that has waited. `Resolution` passes it to the outbox.
pub(crate) struct LateStep<'s> {
    /// The facts about the query.
    pub(crate) ended: Ended<'s>,
    /// The route of the reply.
    pub(crate) route: &'s ReplyRoute,
    /// The result of the query path.
    pub(crate) step: QueryStep,
    /// The buffer. The reply is at its start, if there is one.
    pub(crate) message: &'s mut [u8],
    /// The context in which the result was made.
    pub(crate) cx: &'s QueryContext<'s>,
}

/// A receiver of the results of queries that have waited.
pub(crate) trait Deliver {
    /// Takes one result.
    fn deliver(&mut self, late: LateStep<'_>);
}

/// A reply that was counted and limited, for a connection of this worker. The outbox passes it to
/// the intake.
pub(crate) struct StreamReply<'r> {
    /// The connection that gets the reply.
    pub(crate) route: StreamRoute,
    /// The message; empty if the query gets no reply.
    pub(crate) message: &'r [u8],
}

/// The result of a query that arrived on a connection.
pub(crate) enum Answered<'r> {
    /// The query gets this reply.
    Now(&'r [u8]),
    /// The query gets this reply, followed by the messages of a transfer.
    Transfer(&'r [u8], Box<TransferRest>),
    /// The reply comes later, as a [`StreamReply`].
    Later,
    /// The query gets no reply, neither now nor later.
    Never,
}

/// A service that answers the queries that arrive on connections.
pub(crate) trait Answer {
    /// Answers the query in `octets` from this client.
    fn answer(&mut self, octets: &[u8], client: &Client<'_>) -> Answered<'_>;

    /// Decrypts an oblivious query (RFC 9230). By default, this server is no target.
    ///
    /// # Errors
    /// The client is at fault, or this server is no target.
    fn open(&mut self, _: &[u8]) -> Result<OpenedQuery, ObliviousFault> {
        Err(ObliviousFault::NoTarget)
    }

    /// Forwards an oblivious query of a client for the server that the parameters name. The reply
    /// comes later, as a [`StreamReply`]. By default, this server is no proxy.
    ///
    /// # Errors
    /// The query cannot be forwarded.
    fn forward(&mut self, _: StreamRoute, _: IpAddr, _: &[u8], _: &[u8]) -> Result<(), ProxyFault> {
        Err(ProxyFault::NoProxy)
    }

    /// Returns the configurations of the target; `None` if this server is no target.
    fn oblivious_configs(&mut self) -> Option<Arc<[u8]>> {
        None
    }

    /// Begins the share of time for the next connection. Returns `false` if no time is left in this
    /// turn of the event loop. The queries of the connection then wait for the next turn.
    fn begin_share(&mut self) -> bool;

    /// Returns whether another query of the present connection may be answered in this turn of the
    /// event loop.
    fn has_time(&self) -> bool;
}
