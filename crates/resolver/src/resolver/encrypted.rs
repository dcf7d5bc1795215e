//! Queries of recursive resolutions (walks) over unproven connections: TLS to authoritative servers
//! that prove no identity (RFC 9539). See [`crate::exchange::encryption`] for the state of each
//! server.
//!
//! ```text
//! send_for_fetch -- unproven_of --> plain | plain, and a copy to the unproven endpoint | encrypted
//! reply refused, connection lost, query overdue --> the same server in plain, at once
//! ```

use avocet_wire::header::{AA, RA};
use avocet_wire::{MessageView, Rcode};

use super::{Context, Resolver};
use crate::action::{Action, Actions};
use crate::exchange::encryption::{LinkEnd, Passage};
use crate::exchange::endpoint::{EndpointId, SocketFault, SocketId, SocketSlot};
use crate::exchange::pending::{Closing, Owner};
use crate::exchange::receive::Received;
use crate::exchange::send::{QueryOrder, Sent, Terms, Weight};
use crate::exchange::{Exchange, Exchanges};
use crate::iterate::classify::{Sort, is_malformed, sort};
use crate::iterate::fetch::{Fetched, Inquiry, Letters};
use crate::recursion::is_own;
use crate::trace::Step;

/// The unproven endpoint of a server, and how the next query uses it: alone, or in addition to the
/// plain server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unproven {
    endpoint: EndpointId,
    passage: Passage,
}

impl Exchanges {
    /// Sends a query in plain with a copy over a connection that is opened for it, or over an open
    /// connection alone. Returns the server of the query that counts against the limits.
    pub(super) fn send_unproven<W>(
        &mut self,
        exchange: &mut Exchange,
        (order, unproven): (&QueryOrder, Unproven),
        terms: &Terms<'_>,
        actions: &mut Actions<W>,
    ) -> (EndpointId, Sent) {
        let Unproven { endpoint, passage } = unproven;
        let Self { servers, links, .. } = self;
        if let Some(state) = &mut servers[endpoint].encryption {
            match passage {
                Passage::Encrypted => state.used(),
                Passage::Plain | Passage::PlainAndProbe => state.begin(links, order.now_ms),
            }
        }
        if passage == Passage::Encrypted {
            exchange.encrypted |= 1 << order.place;
            let order = QueryOrder { server: endpoint, ..*order };
            return (endpoint, self.send(exchange, &order, terms, actions));
        }
        let sent = self.send(exchange, order, terms, actions);
        let (server, timed_as, weight) = (endpoint, endpoint, Weight::Aside);
        let copy = QueryOrder { server, timed_as, weight, ..*order };
        self.send(exchange, &copy, terms, actions);
        (order.server, sent)
    }

    /// Returns whether a query was sent over an unproven connection.
    pub(super) fn is_unproven(&self, query_at: u32) -> bool {
        self.servers[self.pending[query_at].server()].encryption.is_some()
    }
}

impl<W> Resolver<W> {
    /// Returns the unproven endpoint that gets the next query to a server, if there is one. Servers
    /// that have never answered are not probed, because the address in a delegation may be the
    /// address of a victim.
    pub(super) fn unproven_of(
        &mut self,
        fetch_at: u32,
        (server, place): (EndpointId, u8),
        now_ms: u64,
    ) -> Option<Unproven> {
        let plan = &self.bound.plan;
        let recursion = plan.recursion.as_deref().filter(|recursion| recursion.encrypt)?;
        let fetch = self.fetches.get(fetch_at)?;
        let Inquiry { zone, manner, letters, servers, .. } = &fetch.inquiry;
        let endpoint = servers.get(usize::from(place))?.unproven()?;
        let in_plain = fetch.exchange.encrypted | fetch.exchange.lower_case;
        let is_plain = in_plain & 1 << place != 0
            || *letters == Letters::Lower
            || manner.recursion_desired
            || is_own(recursion, endpoint.addr)
            || self.exchanges.servers[server].rtt.smoothed_ms().is_none();
        if is_plain {
            return None;
        }
        let id = self.exchanges.servers.number_next_to(server, endpoint);
        let server = &self.exchanges.servers[id];
        let is_unusable = server.is_lame(zone.view(), now_ms)
            || server.streams.wants_single(now_ms)
            || server.outstanding >= plan.fetch_limits.per_server;
        let passage = server.encryption.as_ref()?.passage(&self.exchanges.links, now_ms);
        let is_used = !is_unusable && passage != Passage::Plain;
        is_used.then_some(Unproven { endpoint: id, passage })
    }

    /// Records a message on a kept connection.
    pub(super) fn heard(
        &mut self,
        socket: SocketId,
        (received, octets): (&Received<'_>, &[u8]),
        cx: &mut Context<'_, W>,
    ) {
        let Exchanges { servers, links, .. } = &mut self.exchanges;
        let server = &mut servers[socket.endpoint];
        server.streams.heard();
        let Some(state) = &mut server.encryption else { return };
        // The reply to the copy of a plain query usually arrives after the question was answered.
        let is_answered = match received {
            Received::Late | Received::Reply(..) => {
                MessageView::new(octets).is_ok_and(|view| is_authoritative(&view))
            }
            _ => return,
        };
        if is_answered {
            self.counters.probes_succeeded += u64::from(state.answered(links, cx.now_ms));
        } else if matches!(received, Received::Late) && state.is_opening() {
            self.unproven_failed(socket, SocketFault::Closed, cx);
        }
    }

    /// Returns whether a reply over an unproven connection is useless. It may come from a resolver
    /// at the address of an authoritative server. The server's reply in plain is then used instead.
    pub(super) fn refuses(&self, query_at: u32, fetched: &Fetched) -> bool {
        let Owner::Fetch(at) = self.exchanges.pending[query_at].owner else { return false };
        let Some(fetch) = self.fetches.get(at) else { return false };
        let sorted = sort(&fetch.inquiry, fetched);
        is_malformed(&fetch.inquiry, fetched) || !matches!(sorted, Sort::Answer | Sort::Referral(_))
    }

    /// Ends a query over an unproven connection after a useless reply, and queries the server in
    /// plain. Returns `false` for any other query.
    pub(super) fn refuse(&mut self, query_at: u32, cx: &mut Context<'_, W>) -> bool {
        let query = &self.exchanges.pending[query_at];
        let (socket, owner) = (query.socket, query.owner);
        let server = &mut self.exchanges.servers[socket.endpoint];
        let Some(is_probe) = server.encryption.as_ref().map(|state| state.is_opening()) else {
            return false;
        };
        if let Owner::Fetch(at) = owner
            && let Some(fetch) = self.fetches.get(at)
        {
            server.note_lame(fetch.inquiry.zone.clone(), cx.now_ms);
        }
        match is_probe {
            true => self.unproven_failed(socket, SocketFault::Closed, cx),
            false => self.end_unproven(query_at, cx),
        }
        true
    }

    /// Records that an unproven connection ended or could not be made, and closes it. Queries the
    /// servers of its queries in plain.
    pub(super) fn unproven_failed(
        &mut self,
        socket: SocketId,
        fault: SocketFault,
        cx: &mut Context<'_, W>,
    ) {
        let outstanding = self.exchanges.pending.on_stream(socket.endpoint);
        let Exchanges { servers, links, .. } = &mut self.exchanges;
        let server = &mut servers[socket.endpoint];
        server.streams.ended(outstanding.len(), cx.now_ms);
        let addr = server.endpoint.addr;
        if let Some(state) = &mut server.encryption {
            let was_probe = state.is_opening();
            let end = state.ended(links, fault, cx.now_ms);
            let is_failure = was_probe && end == Some(LinkEnd::Failure);
            self.counters.probes_failed += u64::from(is_failure);
        }
        cx.actions.list.push(Action::Forget { endpoint: socket.endpoint });
        for (query_at, id) in outstanding {
            // An earlier iteration of this loop may have ended the query.
            if self.exchanges.pending.find(socket, id) != Some(query_at) {
                continue;
            }
            let step = match fault {
                SocketFault::Tls(fault) => Step::Tls(addr, fault),
                _ => Step::Unreachable(addr),
            };
            self.record(self.exchanges.pending[query_at].owner, cx.now_ms, step);
            self.end_unproven(query_at, cx);
        }
    }

    /// Ends a query over an unproven connection. Queries the server in plain, unless a plain query
    /// was already sent.
    fn end_unproven(&mut self, query_at: u32, cx: &mut Context<'_, W>) {
        let query = &self.exchanges.pending[query_at];
        let (owner, place, is_done) = (query.owner, query.place, query.aside || query.overdue);
        self.with_exchange(owner, |exchanges, exchange, _| {
            exchanges.end(exchange, query_at, Closing::Answered, cx.actions);
        });
        if is_done || self.ask(owner, place, Weight::Counts, cx) {
            self.rearm(owner);
        } else {
            self.advance(owner, cx);
        }
    }

    /// Records the round-trip time of a reply over an unproven connection in the record of the
    /// plain server, because servers are chosen by the records of plain servers.
    pub(super) fn note_unproven_reply(&mut self, query_at: u32, fetched: &Fetched, now_ms: u64) {
        let query = &self.exchanges.pending[query_at];
        if query.aside || query.socket.slot != SocketSlot::Stream {
            return;
        }
        let rtt_ms = now_ms.saturating_sub(query.sent_ms);
        let server = self.exchanges.servers.number(fetched.server);
        self.exchanges.servers[server].replied(now_ms, rtt_ms);
    }
}

/// Returns whether the message is an answer or a denial of an authoritative server, and not of a
/// resolver that does not serve the zone.
fn is_authoritative(view: &MessageView<'_>) -> bool {
    let header = view.header();
    let is_answer = matches!(header.rcode(), Rcode::NOERROR | Rcode::NXDOMAIN | Rcode::YXDOMAIN);
    is_answer && (header.has(AA) || !header.has(RA))
}
