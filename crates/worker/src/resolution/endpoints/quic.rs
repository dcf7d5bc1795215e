//! The QUIC connections to servers: handles their timers, datagrams and candidates. A candidate is
//! a connection in HTTP/3 that may replace one in HTTP/2.
//!
//! ```text
//! HTTP/2 kept, with answers -- alt-svc -- candidate: handshake -- complete: the candidate is kept,
//!                                                            \   HTTP/2 retires after its answers
//!                                                             failed: back-off
//! ```
//! No query waits for a candidate. Until the candidate replaces the HTTP/2 connection, all queries
//! use HTTP/2.

use std::collections::HashMap;

use avocet_io::poll::Poller;
use avocet_resolver::{EndpointId, SocketFault, SocketId, SocketSlot};
use avocet_wire::hash::DrawnHashKey;
use chacha20::rand_core::Rng;

use super::super::connection::{Connection, Opener};
use super::super::quic_timers::QuicTimers;
use super::retiring::MAX_RETIRING;
use super::{Endpoints, KeptSockets, SingleSocket, find_stream};

impl Endpoints {
    /// Handles the QUIC timers that are due. Adds the connections that ended to `closed`.
    pub(in super::super) fn fire_quic(
        &mut self,
        now_ms: u64,
        closed: &mut Vec<(SocketId, SocketFault)>,
    ) {
        while let Some(id) = self.quic.next_due(now_ms) {
            let Self { kept, singles, quic, .. } = self;
            let Some(found) = find_quic(kept, singles, id) else { continue };
            let fault = found.connection.as_quic().and_then(|one| one.fire(now_ms));
            match fault {
                None => quic.note_fired(id, found.connection),
                Some(fault) => self.drop_quic((id, fault), closed),
            }
        }
    }

    /// Sends the waiting QUIC datagrams. Adds the connections that failed to `closed`.
    pub(in super::super) fn flush_quic(
        &mut self,
        now_ms: u64,
        closed: &mut Vec<(SocketId, SocketFault)>,
    ) {
        while let Some(id) = self.quic.next_changed() {
            let Self { kept, singles, quic, .. } = self;
            let Some(found) = find_quic(kept, singles, id) else { continue };
            if let Err(fault) = quic.flush(id, found.connection, now_ms) {
                self.drop_quic((id, fault), closed);
            }
        }
    }

    /// Removes a QUIC connection that has ended.
    fn drop_quic(
        &mut self,
        (id, fault): (SocketId, SocketFault),
        closed: &mut Vec<(SocketId, SocketFault)>,
    ) {
        let Self { kept, singles, quic, .. } = self;
        match find_quic(kept, singles, id).map(|found| found.place) {
            Some(QuicPlace::Candidate) => drop_candidate(kept, quic, id),
            _ => {
                closed.push((id, fault));
                self.drop_kept(id);
            }
        }
    }

    /// Returns when the next QUIC timer is due, in milliseconds on the monotonic clock.
    pub(in super::super) fn quic_deadline_ms(&self) -> Option<u64> {
        self.quic.deadline_ms()
    }

    /// Reads the datagrams that arrived for a candidate. A candidate has no queries yet.
    pub(super) fn drive_candidate(&mut self, id: SocketId, now_ms: u64) {
        let Self { kept, quic, .. } = self;
        let Some(candidate) = candidate(kept, id) else { return };
        let fault = candidate.as_quic().and_then(|one| one.drive(now_ms, &mut |_| {}));
        match fault {
            None => quic.note(id, candidate),
            Some(_) => drop_candidate(kept, quic, id),
        }
    }

    /// Replaces the connection of a server with its candidate, if the candidate is ready.
    pub(super) fn promote(&mut self, id: SocketId) {
        let Some(Some(entry)) = self.kept.get_mut(id.endpoint.0 as usize) else { return };
        let candidate = entry.candidate.as_mut().and_then(Connection::as_quic);
        let has_room = entry.retiring.len() < MAX_RETIRING;
        if has_room && candidate.is_some_and(|candidate| candidate.is_ready()) {
            entry.retiring.extend(entry.stream.take());
            entry.stream = entry.candidate.take();
        }
    }

    /// Begins and ends candidates, and ends connections that were replaced. Called about twice a
    /// second.
    pub(in super::super) fn renew_candidates(
        &mut self,
        poller: &Poller,
        now_ms: u64,
        rng: &mut impl Rng,
    ) {
        for number in 0..self.kept.len() {
            let id = SocketId { endpoint: EndpointId(number as u32), slot: SocketSlot::Stream };
            let Self { kept, quic, peers, ports, .. } = self;
            if let Some(entry) = &mut kept[number] {
                let is_over = |one: &mut Connection| {
                    let is_refilled = one.refill(poller, id).is_ok();
                    !is_refilled || !one.is_owed() || one.end_at(now_ms).is_some()
                };
                entry.retiring.extract_if(.., is_over).for_each(|mut retiring| retiring.close());
            }
            if let Some(candidate) = candidate(kept, id) {
                if candidate.end_at(now_ms).is_some() {
                    drop_candidate(kept, quic, id);
                }
                continue;
            }
            let Some(entry) = &mut kept[number] else { continue };
            let Some(wanted) = entry.stream.as_ref().and_then(|one| one.alternative(now_ms)) else {
                continue;
            };
            let mut opener = Opener { poller, peers, ports, rng, now_ms };
            // If the candidate cannot be opened now, the next call tries again.
            if let Ok(mut candidate) = opener.open_alternative(id, wanted) {
                quic.note(id, &mut candidate);
                entry.candidate = Some(candidate);
            }
        }
    }
}

/// A QUIC connection, and its purpose.
struct FoundQuic<'s> {
    connection: &'s mut Connection,
    place: QuicPlace,
}

/// Whether queries use a QUIC connection already.
enum QuicPlace {
    /// The connection is used for queries.
    Queries,
    /// The connection is a candidate, which queries do not use yet.
    Candidate,
}

fn candidate(kept: &mut [Option<KeptSockets>], id: SocketId) -> Option<&mut Connection> {
    if id.slot != SocketSlot::Stream {
        return None;
    }
    kept.get_mut(id.endpoint.0 as usize)?.as_mut()?.candidate.as_mut()
}

/// Returns the QUIC connection with this identifier: the connection of a server, or its candidate.
fn find_quic<'s>(
    kept: &'s mut [Option<KeptSockets>],
    singles: &'s mut HashMap<u32, (EndpointId, SingleSocket), DrawnHashKey>,
    id: SocketId,
) -> Option<FoundQuic<'s>> {
    if candidate(kept, id).is_some() {
        return candidate(kept, id)
            .map(|connection| FoundQuic { connection, place: QuicPlace::Candidate });
    }
    find_stream(kept, singles, id)
        .map(|connection| FoundQuic { connection, place: QuicPlace::Queries })
}

/// Drops a candidate that has failed, or whose server is forgotten.
pub(super) fn drop_candidate(
    kept: &mut [Option<KeptSockets>],
    quic: &mut QuicTimers,
    id: SocketId,
) {
    if let Some(Some(entry)) = kept.get_mut(id.endpoint.0 as usize)
        && let Some(mut candidate) = entry.candidate.take()
    {
        quic.forget(id, &mut candidate);
    }
}
