//! The outbox: the part of a worker through which every reply passes on its way to a client.
//!
//! ```text
//! query path -- step -----> close: count, limit --> at once: batch | writer of the connection
//! resolution -- LateStep --> Outbox::send --------> late: UDP queue | StreamReply | other worker
//! ```
//!
//! - Every reply is **counted and limited** by one function, [`close`], according to its
//!   [`Decision`](avocet_nameserver::query::Decision). For a datagram, the query path calls this
//!   function with counters that the outbox lends
//!   ([`Datagrams`](avocet_nameserver::datagrams::Datagrams)), so that benches without a socket
//!   measure the same code as the server runs.
//! - An **immediate reply** is written to its final place, without a copy: a datagram to a slot of
//!   the batch that the listener sends in one system call.
//! - A **late reply** is sent by its [`ReplyRoute`]: from the UDP socket of this worker on the same
//!   address, in one batch at the end of the turn; to a connection of this worker; or as a letter
//!   (a message) to the worker that has the connection.
//!
//! The intake writes to connections and limits their unwritten data. While a connection has too
//! much unwritten data, the intake does not read from it, so both directions share their state.

use std::io;
use std::sync::Arc;

use avocet_io::udp::{Batch, LateReplies, UdpListener};
use avocet_nameserver::close::{Delivery, close};
use avocet_nameserver::metrics::WorkerMetrics;
use avocet_nameserver::query::QueryStep;
use avocet_nameserver::query::miss::{ReplyRoute, StreamRoute};

use super::values::{LateStep, StreamReply};
use crate::mailbox::Letter;
use crate::setup::Listeners;
use crate::state::Shared;

/// The outbox of one worker.
pub(crate) struct Outbox {
    index: u16,
    shared: Arc<Shared>,
    /// The replies that could not be sent immediately, for each address of the server.
    late: Vec<LateReplies>,
}

impl Outbox {
    /// Creates the outbox of a worker, which sends late replies from the first listener of each
    /// address.
    ///
    /// # Errors
    /// The kernel does not report the address of a socket.
    pub(crate) fn new(index: u16, shared: Arc<Shared>, listeners: &Listeners) -> io::Result<Self> {
        let addresses = shared.snapshot().config.server.datagram_addresses();
        let sending = listeners.datagrams.iter().take(addresses);
        let late = sending.map(UdpListener::late_replies).collect::<io::Result<_>>()?;
        Ok(Self { index, shared, late })
    }

    /// Returns the counters of the worker.
    #[inline]
    pub(crate) fn metrics(&self) -> &WorkerMetrics {
        &self.shared.metrics[usize::from(self.index)]
    }

    /// Counts a batch of datagrams. `took_us` is the time in microseconds from the start of the
    /// batch until its replies were sent.
    pub(crate) fn note_batch(&self, batch: &Batch, took_us: u64) {
        let metrics = self.metrics();
        metrics.hit_latency.record(took_us, batch.sent as u64);
        metrics.batches.add(1);
        metrics.replies_dropped.add(batch.dropped as u64);
    }

    /// Sends a late reply, unless it is for a connection of this worker. In that case, returns the
    /// reply.
    pub(crate) fn send<'r>(&mut self, late: LateStep<'r>) -> Option<StreamReply<'r>> {
        let LateStep { ended, route, step, message, cx } = late;
        if let QueryStep::Reply(_) = step {
            let took_us = cx.now.micros().saturating_sub(ended.since.micros());
            self.metrics().miss_latency.record(took_us, 1);
        }
        let len = match close(cx, self.metrics(), &step, || ended, message) {
            Delivery::Message(len) => len,
            // The connection must learn that the query gets no reply.
            Delivery::Nothing => 0,
            Delivery::Later => return None,
        };
        let message = &message[..len];
        match route {
            ReplyRoute::Datagram { listener, peer } => {
                let place = usize::from(*listener) % self.late.len().max(1);
                if let Some(late) = self.late.get_mut(place).filter(|_| len > 0) {
                    late.queue(peer, message);
                }
                None
            }
            ReplyRoute::Stream(route) if route.worker == self.index => {
                Some(StreamReply { route: *route, message })
            }
            ReplyRoute::Stream(route) => {
                self.send_to_worker(*route, message);
                None
            }
        }
    }

    fn send_to_worker(&self, route: StreamRoute, message: &[u8]) {
        let letter = Letter::Answer(route, message.into());
        // If the mailbox is full, the client repeats its query, as after any lost reply.
        if self.shared.mailboxes[usize::from(route.worker)].send(letter).is_err() {
            self.metrics().replies_dropped.add(1);
        }
    }

    /// Sends the queued datagrams.
    pub(crate) fn flush(&mut self) {
        let metrics = &self.shared.metrics[usize::from(self.index)];
        for late in &mut self.late {
            metrics.replies_dropped.add(late.flush().dropped as u64);
        }
    }
}
