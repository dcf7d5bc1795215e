//! The rest of a worker's turn: what waits goes to the resolver, and what the resolver wants is
//! done.

use std::collections::HashSet;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use avocet_io::poll::Event;
use avocet_nameserver::clock::Moment;
use avocet_nameserver::close::{Delivery, close, close_silent};
use avocet_nameserver::query::miss::{Miss, ReplyRoute, StreamRoute, Waiter};
use avocet_nameserver::query::{self, Obtained, Output, QueryContext, QueryStep};
use avocet_resolver::{
    Action, Actions, Ask, Context, Shed, SocketFault, SocketId, SocketSlot, Submitted,
};

use super::endpoints::{Query, fault_of};
use super::fault::contained;
use super::{DRAIN_MS, SWEEP_MS, Worker};
use crate::mailbox::{Letter, Mailbox};
use crate::resolver_report::{ResolverReport, UpstreamReport};
use crate::state::Shared;

impl Worker {
    /// Hands the queries of this turn that must wait to the workers that own their names.
    pub(super) fn submit_misses(&mut self) {
        if self.misses.is_empty() {
            return;
        }
        // Taken out one by one, so that a fault loses none of the others; which of a batch is the
        // first is all one.
        while let Some(miss) = self.misses.pop() {
            let owner = self.owner_of(&miss);
            if owner == self.index {
                self.submit(miss);
                continue;
            }
            self.metrics().handed_over.add(1);
            if let Err(Letter::Miss(miss)) =
                self.shared.mailboxes[usize::from(owner)].send(Letter::Miss(Box::new(miss)))
                && let Some(waiter) = miss.waiter
            {
                self.end_wait(&waiter, |cx, output| {
                    query::shed(cx, &waiter, Shed::Waiters, output)
                });
            }
        }
        self.act();
    }

    fn owner_of(&self, miss: &Miss) -> u16 {
        super::owner_of(miss.hash, self.shared.mailboxes.len()) as u16
    }

    fn submit(&mut self, miss: Miss) {
        let Miss { question, hash, dnssec_ok, checking_disabled, subnet, stale_available, waiter } =
            miss;
        match waiter.as_ref().map(|waiter| (waiter, waiter.unverified_ip())) {
            None => self.metrics().prefetches.add(1),
            // Silence: if its address is forged, the victim shall not hear of it either.
            Some((waiter, Some(ip))) if !self.shares.take(ip, self.resolver.room()) => {
                let decision = waiter.turned_away(self.state.epoch);
                close_silent(self.metrics(), &decision);
                return;
            }
            Some(_) => {}
        }
        let servers = waiter.as_ref().and_then(|waiter| waiter.servers.clone());
        let ask = Ask {
            question: &question,
            hash,
            dnssec_ok,
            checking_disabled,
            ecs: subnet.as_deref().unwrap_or_default(),
            client: waiter.as_ref().and_then(Waiter::datagram_ip),
            stale_available,
            servers: servers.as_deref().unwrap_or_default(),
        };
        let Self { resolver, shared, actions, now, wall_secs, .. } = self;
        let mut context = context(shared, actions, (*now, *wall_secs));
        if let Submitted::Shed { waiter: Some(waiter), reason } =
            resolver.submit(&ask, waiter, &mut context)
        {
            self.end_wait(&waiter, |cx, output| query::shed(cx, &waiter, reason, output));
        }
    }

    /// Reads what other workers have sent, and before it what a fault kept from being read.
    pub(super) fn read_letters(&mut self) {
        self.read_taken_letters();
        self.shared.mailboxes[usize::from(self.index)].take(&mut self.letters);
        self.letters.reverse();
        self.read_taken_letters();
        self.act();
    }

    fn read_taken_letters(&mut self) {
        while let Some(letter) = self.letters.pop() {
            match letter {
                Letter::Miss(miss) => self.submit(*miss),
                Letter::Answer(route, octets) => self.streams.answer_late(route, &octets),
                Letter::Trace(order) => self.trace(*order),
                Letter::Kept(order) => self.show_kept(&order),
                Letter::MakeRoom(ip) => self.make_room(ip),
                Letter::Drain => self.begin_draining(),
            }
        }
    }

    /// Reads one datagram from each socket towards a server that has some; the poller reports what
    /// is left again.
    pub(super) fn receive_replies(&mut self) {
        if self.readable.is_empty() {
            return;
        }
        let Self { resolver, shared, actions, now, buffer, endpoints, readable, wall_secs, .. } =
            self;
        endpoints.receive(readable, buffer, |id, received| {
            let mut context = context(shared, actions, (*now, *wall_secs));
            match received {
                Ok(octets) => resolver.received(id, octets, &mut context),
                Err(_) => resolver.failed(id, SocketFault::Unreachable, &mut context),
            }
        });
        self.readable.clear();
    }

    /// Writes to and reads from a connection to a server.
    pub(super) fn drive_server(&mut self, id: SocketId, event: Event) {
        let Self { resolver, shared, actions, now, poller, endpoints, wall_secs, .. } = self;
        let fault = endpoints.drive_stream(poller, (id, event), now.millis(), &mut |message| {
            resolver.received(id, message, &mut context(shared, actions, (*now, *wall_secs)));
        });
        if let Some(fault) = fault {
            resolver.failed(id, fault, &mut context(shared, actions, (*now, *wall_secs)));
        }
        self.act();
    }

    fn report_faults(&mut self) {
        let Self { resolver, shared, actions, now, wall_secs, faults, .. } = self;
        for (id, fault) in faults.drain(..) {
            resolver.failed(id, fault, &mut context(shared, actions, (*now, *wall_secs)));
        }
    }

    /// Does what the resolver wants done, and what follows from that.
    pub(super) fn act(&mut self) {
        while !self.actions.list.is_empty() {
            let spare = std::mem::take(&mut self.spare_actions);
            let mut actions = std::mem::replace(&mut self.actions, spare);
            for action in &actions.list {
                self.perform(action, &actions);
            }
            self.send_datagrams(&actions);
            self.report_faults();
            actions.clear();
            self.spare_actions = actions;
        }
        // Those who wait for something else now.
        if !self.misses.is_empty() {
            self.submit_misses();
        }
    }

    fn perform(&mut self, action: &Action, actions: &Actions<Waiter>) {
        match action {
            Action::Send { socket, to, renew, octets } => {
                let sent = if socket.slot.is_stream() {
                    let Self { endpoints, poller, now, .. } = self;
                    let message = &actions.octets[octets.clone()];
                    endpoints.send_stream(poller, (*socket, *to), message, now.millis())
                } else {
                    // What it sends leaves with all others of these actions.
                    self.prepared.push((*socket, octets.clone()));
                    if *renew {
                        self.endpoints.close(*socket);
                    }
                    let Self { endpoints, poller, rng, .. } = self;
                    endpoints.prepare(poller, (*socket, *to), rng)
                };
                if let Err(error) = sent {
                    self.faults.push((*socket, fault_of(*socket, &error)));
                }
            }
            Action::Close { socket } => {
                self.endpoints.close(*socket);
                // The number may be given to another query now.
                self.prepared.retain(|(prepared, _)| prepared != socket);
                self.faults.retain(|(faulty, _)| faulty != socket);
            }
            Action::Forget { endpoint } => self.endpoints.forget(*endpoint),
            Action::Overdue { waiters } => {
                for waiter in &actions.waiters[waiters.clone()] {
                    self.end_wait(waiter, |cx, output| query::resume(cx, waiter, None, output));
                }
            }
            Action::Finish { waiters, resolved, asked } => {
                let waiters = &actions.waiters[waiters.clone()];
                let obtained = Obtained {
                    rcode: resolved.rcode,
                    message: &actions.answers.octets[resolved.message.clone()],
                    ttl_offsets: &actions.answers.ttl_offsets[resolved.ttl_offsets.clone()],
                    kept_for: NonZeroU32::new(resolved.ttl_secs),
                    ede: resolved.ede,
                    stage: Obtained::stage_of(resolved.rcode, resolved.ede),
                    upstream: resolved.source.map(|source| source.upstream),
                };
                let obtained = query::share(&self.context(), asked, obtained, waiters);
                for waiter in waiters {
                    self.end_wait(waiter, |cx, output| {
                        query::resume(cx, waiter, Some(&obtained), output)
                    });
                }
            }
        }
    }

    fn send_datagrams(&mut self, actions: &Actions<Waiter>) {
        if self.prepared.is_empty() {
            return;
        }
        let Self { endpoints, prepared, faults, .. } = self;
        let queries: Vec<Query<'_>> = prepared
            .drain(..)
            .map(|(socket, octets)| Query { socket, octets: &actions.octets[octets] })
            .collect();
        endpoints.send(&queries, |id, fault| faults.push((id, fault)));
    }

    /// Ends the wait of a client: takes the step of its query, counts it, and sends the reply.
    pub(super) fn end_wait(
        &mut self,
        waiter: &Waiter,
        take: impl FnOnce(&QueryContext<'_>, Output<'_>) -> QueryStep,
    ) {
        if let Some(ip) = waiter.unverified_ip() {
            self.shares.give_back(ip);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut misses = std::mem::take(&mut self.misses);
        let (cx, metrics) = (self.context(), self.metrics());
        let output = Output { message: &mut buffer, misses: &mut misses };
        let step = contained(metrics, || take(&cx, output));
        let delivery = step.map(|step| {
            if let QueryStep::Reply(_) = step {
                let took = cx.now.micros().saturating_sub(waiter.since.micros());
                metrics.miss_latency.record(took, 1);
            }
            close(&cx, metrics, &step, waiter.ip, &mut buffer)
        });
        self.misses = misses;
        match delivery {
            Some(Delivery::Message(len)) => self.send_late(waiter, &buffer[..len]),
            Some(Delivery::Nothing) => {
                if let ReplyRoute::Stream(route) = waiter.route {
                    // No message: only that none is to be waited for.
                    self.send_on_connection(route, &[]);
                }
            }
            Some(Delivery::Later) | None => {}
        }
        self.buffer = buffer;
    }

    /// Sends a reply to a client that has waited.
    fn send_late(&mut self, waiter: &Waiter, reply: &[u8]) {
        match waiter.route {
            ReplyRoute::Datagram { listener, peer } => {
                let place = usize::from(listener) % self.addresses;
                if let Some(listener) = self.listeners.datagrams.get_mut(place) {
                    listener.queue(&peer, reply);
                }
            }
            ReplyRoute::Stream(route) => self.send_on_connection(route, reply),
        }
    }

    fn send_on_connection(&mut self, route: StreamRoute, octets: &[u8]) {
        if route.worker == self.index {
            return self.streams.answer_late(route, octets);
        }
        let letter = Letter::Answer(route, octets.into());
        // A full box: the client asks again, as after any lost answer.
        if self.shared.mailboxes[usize::from(route.worker)].send(letter).is_err() {
            self.metrics().replies_dropped.add(1);
        }
    }

    fn context(&self) -> QueryContext<'_> {
        let Self { shared, state, now, wall_secs, scratch, .. } = self;
        QueryContext {
            shared: &shared.name_server,
            state,
            now: *now,
            wall_secs: *wall_secs,
            scratch,
        }
    }

    /// Does what is due by now, sends what was queued, and looks after connections.
    pub(super) fn end_turn(&mut self) {
        self.receive_replies();
        if self.resolver.next_deadline().is_some_and(|at| at <= self.now.millis()) {
            let Self { resolver, shared, actions, now, wall_secs, .. } = self;
            resolver.tick(&mut context(shared, actions, (*now, *wall_secs)));
        }
        self.act();
        self.deliver_traces();
        self.flush();
        let Self { endpoints, poller, rng, .. } = self;
        self.is_warming = endpoints.warm(poller, rng);
        if self.now.millis() >= self.swept_ms + SWEEP_MS {
            self.swept_ms = self.now.millis();
            self.sweep();
        }
    }

    fn flush(&mut self) {
        let Self { listeners, shared, index, .. } = self;
        let metrics = &shared.metrics[usize::from(*index)];
        for listener in &mut listeners.datagrams {
            metrics.replies_dropped.add(listener.flush().dropped as u64);
        }
        let mut ended = Vec::new();
        self.streams.flush(&self.poller, self.now.millis(), &mut self.resume, &mut ended);
        self.forget_connections(&ended);
    }

    /// Goes on with connections that were not read from for their bounds: once a turn, so that a
    /// client who pipelines without end does not keep the worker from all others.
    pub(super) fn resume_streams(&mut self) {
        let mut resume = std::mem::take(&mut self.resume);
        for slot in resume.drain(..) {
            self.serve_stream(slot);
        }
        self.resume = resume;
    }

    fn forget_connections(&self, ended: &[IpAddr]) {
        for &ip in ended {
            self.shared.connections.close(ip);
        }
    }

    /// About twice a second: timeouts of connections, and what is told to those who look on.
    fn sweep(&mut self) {
        self.accept_again();
        let mut ended = Vec::new();
        self.streams.expire(self.now.millis(), self.patience(), &mut ended);
        self.forget_connections(&ended);
        let mut idle = Vec::new();
        self.endpoints.expire(self.now.millis(), &mut idle);
        for endpoint in idle {
            let id = SocketId { endpoint, slot: SocketSlot::Stream };
            let Self { resolver, shared, actions, now, wall_secs, .. } = self;
            let cx = &mut context(shared, actions, (*now, *wall_secs));
            resolver.failed(id, SocketFault::Closed, cx);
        }
        let overflows =
            self.listeners.datagrams.iter().map(avocet_io::udp::UdpListener::overflows).sum();
        let metrics = self.metrics();
        metrics.tcp_expired.add(ended.len() as u64);
        metrics.tcp_open.set(self.streams.open() as u64);
        metrics.overflows.set(overflows);
        metrics.turned_at_secs.set(u64::from(self.now.secs()));
        self.report();
        self.act();
    }

    /// Tells of the resolver, for the metrics.
    fn report(&self) {
        let planned: HashSet<_> = self.resolver.upstreams().map(|upstream| upstream.id).collect();
        let upstreams = self.resolver.upstreams().map(|upstream| UpstreamReport {
            addr: upstream.endpoint.addr,
            transport: upstream.endpoint.transport,
            counters: *upstream.counters,
            breaker: upstream.state,
        });
        let report = ResolverReport {
            counters: *self.resolver.counters(),
            upstreams: upstreams.collect(),
            sockets: self.endpoints.counts(|endpoint| planned.contains(&endpoint)),
        };
        let place = &self.shared.resolver_reports[usize::from(self.index)];
        *place.lock().unwrap_or_else(PoisonError::into_inner) = report;
    }

    /// Puts the plan of the snapshot in force. What is in flight ends by the old one.
    pub(super) fn replace_plan(&mut self) {
        self.resolver.replace_plan(self.state.plan.clone(), &mut self.actions);
    }

    /// Puts the source ports of the snapshot in force. Queries that wait on a socket that is closed
    /// for this are repeated from another one.
    pub(super) fn replace_ports(&mut self) {
        for id in self.endpoints.change_ports(self.state.ports.clone()) {
            self.faults.push((id, SocketFault::Withdrawn));
        }
        self.report_faults();
    }

    /// Stops taking queries. Those that the kernel holds already are answered first, unless another
    /// process serves the same sockets now.
    fn begin_draining(&mut self) {
        if self.draining_since.is_some() {
            return;
        }
        self.draining_since = Some(self.now.millis());
        for number in 0..self.listeners.datagrams.len() as u16 {
            self.serve_datagrams(number);
        }
        for listener in self.listeners.streams.drain(..) {
            // A copy is kept for a process that takes over, so closing this one takes nothing out.
            let _ = self.poller.remove(&listener);
        }
        for listener in &self.listeners.datagrams {
            // Late answers still leave from these sockets.
            self.poller.unwatch(listener);
        }
    }

    /// Is there nothing left to wait for, here and at the others? One that still reads from a
    /// connection may send letters here, and letters are sent before their sender gets quiet.
    pub(super) fn has_drained(&self) -> bool {
        let Some(since) = self.draining_since else { return false };
        let is_quiet = self.resolver.in_flight() == 0 && self.streams.open() == 0;
        let flag = &self.shared.quiet[usize::from(self.index)];
        if flag.swap(is_quiet, Ordering::AcqRel) != is_quiet {
            self.shared.mailboxes.iter().for_each(Mailbox::wake);
        }
        let all_quiet =
            is_quiet && self.shared.quiet.iter().all(|quiet| quiet.load(Ordering::Acquire));
        let mailbox = &self.shared.mailboxes[usize::from(self.index)];
        all_quiet && mailbox.is_empty() || self.now.millis() >= since + DRAIN_MS
    }
}

/// What the resolver needs of the worker, for one call.
pub(super) fn context<'a>(
    shared: &'a Shared,
    actions: &'a mut Actions<Waiter>,
    (now, wall_secs): (Moment, u64),
) -> Context<'a, Waiter> {
    let (rrsets, failures) = (&shared.name_server.rrsets, &shared.name_server.failures);
    Context { now_ms: now.millis(), wall_secs, rrsets, failures, actions }
}
