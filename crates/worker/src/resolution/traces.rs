//! Traces that control clients request from a worker. A trace is made by a new resolution, or was
//! kept after a failure.

use std::sync::mpsc::Sender;

use avocet_resolver::{Ask, Submitted, Trace, Traced};

use super::{Resolution, context};
use crate::mailbox::{KeptOrder, TraceOrder};
use crate::values::Time;

/// Maximum number of concurrent traces of a worker.
const MAX_WANTED: usize = 16;

/// The open requests for traces of a worker.
#[derive(Default)]
pub(super) struct TraceOrders {
    orders: Vec<(u64, Sender<Traced>)>,
    last: u64,
}

impl Resolution {
    /// Resolves a question with a trace. [`Resolution::act`] later executes the resulting actions.
    pub(crate) fn trace(&mut self, order: TraceOrder, time: Time) {
        let Self { resolver, shared, actions, wanted, .. } = self;
        if wanted.orders.len() >= MAX_WANTED {
            return;
        }
        wanted.last += 1;
        wanted.orders.push((wanted.last, order.reply));
        let ask = Ask {
            question: order.question.view(),
            hash: order.hash,
            dnssec_ok: order.dnssec_ok,
            checking_disabled: order.checking_disabled,
            ecs: &[],
            client: None,
            introduced: None,
            stale_available: false,
            servers: &order.servers,
        };
        let mut context = context(shared, actions, time);
        if let Submitted::Shed { .. } = resolver.submit_traced(&ask, wanted.last, &mut context) {
            wanted.orders.pop();
        }
    }

    /// Sends the kept traces of a name to the control client.
    pub(crate) fn show_kept(&self, order: &KeptOrder) {
        let is_of = |trace: &&Trace| {
            trace.question().is_some_and(|question| question.qname() == order.qname.view())
        };
        // The control client may no longer wait.
        let _ = order.reply.send(self.resolver.kept_traces().filter(is_of).cloned().collect());
    }

    /// Sends the traces that are complete to the control clients.
    pub(super) fn deliver_traces(&mut self) {
        if self.wanted.orders.is_empty() {
            return;
        }
        for traced in self.resolver.take_traced() {
            let at = self.wanted.orders.iter().position(|(number, _)| *number == traced.number);
            if let Some((_, reply)) = at.map(|at| self.wanted.orders.swap_remove(at)) {
                let _ = reply.send(traced);
            }
        }
    }
}
