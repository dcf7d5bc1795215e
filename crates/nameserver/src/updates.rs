//! Updates of hosted zones (RFC 2136) that wait: from the workers to the thread that applies them.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use avocet_wire::Rcode;
use avocet_wire::header::{HEADER_LEN, Header, QR};
use avocet_zone::{TsigKey, TsigSigner, ZoneId};

use crate::query::miss::Waiter;

/// Most updates that wait: each has at most 64 KiB. Those of clients without a permitted key never
/// wait.
const MAX_WAITING: usize = 256;
/// Bits of the flags that a reply repeats.
const OPCODE: u16 = 0x7800;

/// An update of a client that may update the zone.
pub struct WaitingUpdate {
    /// The zone, which its client sees.
    pub zone: ZoneId,
    /// The message without its signature.
    pub message: Box<[u8]>,
    /// The key that signed it.
    pub key: Arc<TsigKey>,
    /// Signs the reply.
    pub signer: TsigSigner,
    /// The client.
    pub waiter: Waiter,
    /// The worker that received it.
    pub worker: u16,
}

impl WaitingUpdate {
    /// Returns the signed reply.
    #[must_use]
    pub fn reply(&mut self, rcode: Rcode, wall_secs: u64) -> Vec<u8> {
        let mut reply = reply(&self.message, rcode);
        self.signer.sign(&mut reply, wall_secs);
        reply
    }
}

/// Returns the reply to an update: its header alone (RFC 2136 §3.8).
pub(crate) fn reply(message: &[u8], rcode: Rcode) -> Vec<u8> {
    let header = Header::read(message).unwrap_or_default();
    let mut reply = [0; HEADER_LEN];
    let flags = QR | header.flags & OPCODE | rcode.low();
    Header { id: header.id, flags, counts: [0; 4] }.write(&mut reply);
    reply.to_vec()
}

/// The updates that wait.
#[derive(Default)]
pub struct UpdateQueue {
    queued: Mutex<Queued>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queued {
    updates: VecDeque<WaitingUpdate>,
    is_closed: bool,
}

impl UpdateQueue {
    /// Adds an update. Returns whether there was room.
    pub(crate) fn offer(&self, update: WaitingUpdate) -> bool {
        let mut queued = self.queued();
        let has_room = queued.updates.len() < MAX_WAITING && !queued.is_closed;
        if has_room {
            queued.updates.push_back(update);
            self.arrived.notify_all();
        }
        has_room
    }

    /// Ends the waiting. Further updates are not taken.
    pub fn close(&self) {
        self.queued().is_closed = true;
        self.arrived.notify_all();
    }

    /// Waits for updates, at most this long. Takes all, and returns whether [`Self::close`] was
    /// called.
    pub fn wait(&self, most: Duration) -> (Vec<WaitingUpdate>, bool) {
        let is_idle = |queued: &mut Queued| queued.updates.is_empty() && !queued.is_closed;
        let waited = self.arrived.wait_timeout_while(self.queued(), most, is_idle);
        let (mut queued, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (queued.updates.drain(..).collect(), queued.is_closed)
    }

    fn queued(&self) -> MutexGuard<'_, Queued> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
