//! The QUIC connections that need work: those with data to send, and those with a timer.

use std::collections::BTreeSet;

use avocet_resolver::{SocketFault, SocketId};

use super::connection::Connection;
use crate::token::Token;

/// The QUIC connections to servers that have data to send, or a timer.
///
/// If a timer moves to a later time, it is not changed immediately, but is set again when it fires.
/// This is cheaper, because most timers move with every datagram.
#[derive(Default)]
pub(super) struct QuicTimers {
    /// The times at which timers are due, in milliseconds on the monotonic clock, each with the
    /// packed token that identifies the connection.
    due: BTreeSet<(u64, u64)>,
    /// Connections that may have data to send.
    changed: Vec<SocketId>,
}

impl QuicTimers {
    /// Records that a connection may have data to send, if it is a QUIC connection.
    pub(super) fn note(&mut self, id: SocketId, connection: &mut Connection) {
        if let Some(quic) = connection.as_quic()
            && !quic.is_changed
        {
            quic.is_changed = true;
            self.changed.push(id);
        }
    }

    /// Removes and returns the next connection that may have data to send.
    pub(super) fn next_changed(&mut self) -> Option<SocketId> {
        self.changed.pop()
    }

    /// Sends the waiting datagrams of a connection, and sets its timer.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub(super) fn flush(
        &mut self,
        id: SocketId,
        connection: &mut Connection,
        now_ms: u64,
    ) -> Result<(), SocketFault> {
        let Some(quic) = connection.as_quic() else { return Ok(()) };
        quic.is_changed = false;
        let Some(at_ms) = quic.flush(now_ms)? else { return Ok(()) };
        if quic.armed_ms.is_none_or(|armed_ms| at_ms < armed_ms) {
            let token = Token::Server(id).pack();
            if let Some(armed_ms) = quic.armed_ms {
                self.due.remove(&(armed_ms, token));
            }
            quic.armed_ms = Some(at_ms);
            self.due.insert((at_ms, token));
        }
        Ok(())
    }

    /// Removes and returns the next connection with a timer that is due.
    pub(super) fn next_due(&mut self, now_ms: u64) -> Option<SocketId> {
        let first = self.due.first().filter(|(at_ms, _)| *at_ms <= now_ms).copied()?;
        self.due.remove(&first);
        match Token::unpack(first.1) {
            Token::Server(id) => Some(id),
            _ => None,
        }
    }

    /// Records that the timer of a connection has fired. The next [`Self::flush`] sets a new timer.
    pub(super) fn note_fired(&mut self, id: SocketId, connection: &mut Connection) {
        if let Some(quic) = connection.as_quic() {
            quic.armed_ms = None;
        }
        self.note(id, connection);
    }

    /// Removes the timer of a connection that is closed.
    pub(super) fn forget(&mut self, id: SocketId, connection: &mut Connection) {
        if let Some(armed_ms) = connection.as_quic().and_then(|quic| quic.armed_ms) {
            self.due.remove(&(armed_ms, Token::Server(id).pack()));
        }
    }

    /// Returns when the next timer is due, in milliseconds on the monotonic clock.
    pub(super) fn deadline_ms(&self) -> Option<u64> {
        self.due.first().map(|(at_ms, _)| *at_ms)
    }
}
