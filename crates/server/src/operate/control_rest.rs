//! Rests of the control socket: the poller reports clients that wait again and again, which would
//! keep the main thread busy while it cannot accept them.

use std::time::{Duration, Instant};

use avocet_io::poll::{Interest, Trigger};

use super::{CONTROL, Operation, TICK_MS};
use crate::control::Backlog;

/// The time for which control clients wait after an attempt to accept them failed, or while the
/// maximum number of them is connected.
const REST: Duration = Duration::from_millis(200);

/// The state of the control socket in the poller.
#[derive(Default)]
pub(super) struct ControlRest {
    /// The time until which the poller ignores the socket; `None` if it does not.
    until: Option<Instant>,
    /// Whether the last attempt to accept clients failed. A failure that lasts is logged once.
    fails: bool,
}

impl ControlRest {
    /// Returns the number of milliseconds until the next check of the timers.
    pub(super) fn tick_ms(&self) -> u32 {
        if self.until.is_some() { REST.as_millis() as u32 } else { TICK_MS }
    }

    /// Shortens a rest, because a client has left its place to one that waits.
    pub(super) fn shorten(&mut self) {
        if !self.fails && self.until.is_some() {
            self.until = Some(Instant::now());
        }
    }
}

impl Operation {
    /// Accepts control clients. If some must wait, ignores the socket for some time.
    pub(super) fn accept_control_clients(&mut self) {
        let rest = &mut self.control_rest;
        match self.control.accept(&self.running, &self.orders) {
            Ok(backlog) => {
                rest.fails = false;
                if matches!(backlog, Backlog::Empty) {
                    return;
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut rest.fails, true) {
                    tracing::warn!(%error, "cannot accept control clients; trying again");
                }
            }
        }
        if self.poller.remove(&self.control).is_ok() {
            rest.until = Some(Instant::now() + REST);
        }
    }

    /// Ends a rest of the control socket that is over.
    pub(super) fn end_control_rest(&mut self) {
        if self.control_rest.until.is_none_or(|until| Instant::now() < until) {
            return;
        }
        let added = self.poller.add(&self.control, CONTROL, Interest::Read, Trigger::Level);
        if added.is_ok() {
            self.control_rest.until = None;
        }
    }
}
