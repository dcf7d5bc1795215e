//! Connections that take no further queries, but still have answers to deliver.
//!
//! ```text
//! HTTP/2 kept -- the server announces the end (GOAWAY), or HTTP/3 replaces it --> retiring
//!     retiring -- the last answer --> closed
//!     queries that were not processed -- a new connection
//! ```
//! Many servers announce the end of a connection after a number of requests. Queries do not wait
//! for the answers to the earlier ones.

use avocet_io::poll::{Event, Poller};
use avocet_resolver::{HeaderPlace, SocketFault, SocketId, SocketSlot};
use chacha20::rand_core::Rng;

use super::{Endpoints, StreamQuery};

/// Maximum number of connections to one server that are kept for their last answers. If there are
/// more, queries wait for the end of the last one.
pub(super) const MAX_RETIRING: usize = 8;

impl Endpoints {
    /// Keeps the connection of a server for its last answers only, if it takes no further query.
    /// The next query opens another connection.
    pub(super) fn retire(&mut self, id: SocketId) {
        if id.slot != SocketSlot::Stream {
            return;
        }
        let Some(Some(entry)) = self.kept.get_mut(id.endpoint.0 as usize) else { return };
        if entry.retiring.len() < MAX_RETIRING
            && let Some(mut stream) = entry.stream.take_if(|stream| stream.is_draining())
        {
            entry.unsent.append(&mut stream.take_unprocessed());
            entry.retiring.push(stream);
        }
    }

    /// Sends the queries that a former connection has not sent, over the present connection or a
    /// new one. Returns a fault if that is not possible.
    pub(in super::super) fn resend(
        &mut self,
        poller: &Poller,
        id: SocketId,
        now_ms: u64,
        rng: &mut impl Rng,
    ) -> Option<SocketFault> {
        if id.slot != SocketSlot::Stream {
            return None;
        }
        let entry = self.kept.get_mut(id.endpoint.0 as usize)?.as_mut()?;
        if entry.unsent.is_empty() {
            return None;
        }
        let (queries, to) = (std::mem::take(&mut entry.unsent), entry.to?);
        let header: (&[u8], _) = (&[], HeaderPlace::InsideTls);
        let mut all = queries.iter().map(|octets| StreamQuery { socket: id, to, header, octets });
        let is_sent = all.all(|query| self.send_stream(poller, query, now_ms, rng).is_ok());
        (!is_sent).then_some(SocketFault::Closed)
    }

    /// Reads the last answers on connections that were replaced. Returns the fault if one of them
    /// ended before its answers, so that queries must be sent again.
    pub(super) fn drive_retiring(
        &mut self,
        poller: &Poller,
        (id, event): (SocketId, Event),
        (now_ms, deliver): (u64, &mut impl FnMut(&[u8])),
    ) -> Option<SocketFault> {
        let Self { kept, buffer, .. } = self;
        if id.slot != SocketSlot::Stream {
            return None;
        }
        let entry = kept.get_mut(id.endpoint.0 as usize)?.as_mut()?;
        let mut is_lost = false;
        entry.retiring.retain_mut(|retiring| {
            let fault = retiring.drive(poller, (id, event), buffer, (now_ms, &mut *deliver));
            let is_owed = retiring.is_owed();
            if fault.is_none() && is_owed {
                return true;
            }
            is_lost |= fault.is_some() && is_owed;
            retiring.close();
            false
        });
        is_lost.then_some(SocketFault::Closed)
    }
}
