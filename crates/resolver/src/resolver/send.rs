//! Asking an upstream: which one, from which socket, in which form, and for how long to wait.

use std::ops::Range;
use std::sync::Arc;

use avocet_wire::header::{CD, RD};
use chacha20::rand_core::Rng;

use super::{Context, Resolver};
use crate::action::Action;
use crate::attempt::Closing;
use crate::attempt::STREAM;
use crate::endpoint::Transport;
use crate::failure::Failure;
use crate::ids::UpstreamId;
use crate::pool::{Drawn, FRESH_PORT_BITS};
use crate::query::{self, OptOf};
use crate::rtt::Rtt;
use crate::select::Choice;
use crate::trace::Step;

/// Most queries for one target while an upstream shows life and loses much: half of all datagrams
/// may be lost each way and 99 % of questions still be answered.
const MAX_SENDS_ALIVE: u32 = 24;
/// Most queries for one target to upstreams that answer nothing, if they are few.
const MAX_SENDS_SILENT: u32 = 4;
/// As [`MAX_SENDS_SILENT`], where there are several, or one of them answered lately: with the one
/// that is asked to learn about it, 8.
const MAX_SENDS_AGAIN: u32 = 7;
/// Fewest unpredictable bits of a query over UDP (RFC 5452 §9).
const MIN_BITS: u32 = 32;
/// Bits of the ID.
const ID_BITS: u32 = 16;
/// How often an ID is drawn that is not in use on its socket.
const ID_DRAWS: usize = 8;
/// How long one reply is waited for where many are lost, in ms, if the upstream is that fast.
const LOSSY_TIMEOUT_MS: u32 = 250;
/// How long it takes until there may be a descriptor or a buffer again, in ms.
pub(super) const UNSENT_WAIT_MS: u64 = 50;
/// Bounds for the wait for a reply over TCP, in ms: there the system repeats what is lost.
const TCP_TIMEOUT_MS: (u32, u32) = (1_000, 3_000);
/// In which round an upstream that never spoke EDNS is asked without: it may drop such queries.
const PLAIN_ROUND: u32 = 2;
/// As [`PLAIN_ROUND`], where there are several upstreams and none of them ever spoke EDNS: silent
/// ones are asked one and a half times each at least, so the second round is the last that is sure
/// to come.
const PLAIN_ROUND_OF_MANY: u32 = 1;

/// Whether a query counts against what its target may cost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Weight {
    Counts,
    /// It only measures another server.
    Aside,
}

/// How a target is asked at an upstream.
#[derive(Clone, Copy, Debug)]
struct UpstreamQueryForm {
    upstream: u16,
    by_tcp: bool,
    with_edns: bool,
    exact_case: bool,
    timeout_ms: u32,
}

impl<W> Resolver<W> {
    /// Sends the first queries for a task's target.
    pub(super) fn begin(&mut self, at: u32, cx: &mut Context<'_, W>) {
        self.turn = self.turn.wrapping_add(1);
        let Some((first, further)) = self.choose_first(at, cx.now_ms) else {
            return self.fail(at, cx);
        };
        let mut sent = self.send(at, first, Weight::Counts, cx);
        for place in further.into_iter().flatten() {
            sent |= self.send(at, place, Weight::Counts, cx);
        }
        if !sent {
            return self.fail(at, cx);
        }
        if let Some(place) = self.choose_aside(at, cx.now_ms) {
            self.send(at, place, Weight::Aside, cx);
        }
        self.rearm(at);
    }

    fn choose_first(&mut self, at: u32, now_ms: u64) -> Option<(u8, [Option<u8>; 8])> {
        let task = &mut self.tasks[at];
        let bound = Arc::clone(task.bound.as_ref()?);
        let rule = bound.plan.rule(task.route);
        let choice =
            Choice { bound: &bound, rule, upstreams: &self.upstreams, now_ms, turn: self.turn };
        let first = choice.next(task)?;
        let mut further = [None; 8];
        for place in further.iter_mut().take(usize::from(choice.at_once()) - 1) {
            *place = choice.further(task);
        }
        Some((first, further))
    }

    fn choose_aside(&mut self, at: u32, now_ms: u64) -> Option<u8> {
        let task = &self.tasks[at];
        let bound = task.bound.as_ref()?;
        let rule = bound.plan.rule(task.route);
        if rule.upstreams.len() == 1 {
            return None;
        }
        let choice = Choice { bound, rule, upstreams: &self.upstreams, now_ms, turn: self.turn };
        let place = choice.aside(task, &mut self.rng)?;
        self.upstreams[bound.id(rule, place)].breaker.take_probe(now_ms);
        Some(place)
    }

    /// Goes on after a query failed or was not answered in time: with the next upstream, unless
    /// another query may still be answered in time.
    pub(super) fn advance(&mut self, at: u32, cx: &mut Context<'_, W>) {
        let counts = |attempt: &u32| {
            let attempt = &self.attempts[*attempt];
            !attempt.overdue && !attempt.aside
        };
        if self.tasks[at].attempts.iter().any(counts) {
            return self.rearm(at);
        }
        if let Some(place) = self.choose_next(at, cx.now_ms)
            && self.send(at, place, Weight::Counts, cx)
        {
            return self.rearm(at);
        }
        // A late reply is still welcome.
        if self.tasks[at].attempts.is_empty() { self.fail(at, cx) } else { self.rearm(at) }
    }

    fn choose_next(&mut self, at: u32, now_ms: u64) -> Option<u8> {
        let task = &mut self.tasks[at];
        let bound = Arc::clone(task.bound.as_ref()?);
        let rule = bound.plan.rule(task.route);
        let choice =
            Choice { bound: &bound, rule, upstreams: &self.upstreams, now_ms, turn: self.turn };
        let count = rule.upstreams.len() as u32;
        let silent = (count + 1).clamp(MAX_SENDS_SILENT, MAX_SENDS_AGAIN).max(count);
        let most = match choice.any_alive() {
            true if choice.any_lossy() => MAX_SENDS_ALIVE.max(silent),
            true => MAX_SENDS_AGAIN.max(silent),
            false => silent,
        };
        if !task.may_ask() {
            task.note(Failure::TooManyQueries);
            return None;
        }
        if task.looped || task.target_sends >= most {
            return None;
        }
        choice.next(task)
    }

    /// Sends the target to an upstream. False if the task may send no more.
    pub(super) fn send(
        &mut self,
        at: u32,
        place: u8,
        weight: Weight,
        cx: &mut Context<'_, W>,
    ) -> bool {
        let Some(form) = self.form(at, place, cx.now_ms) else { return false };
        let task = &mut self.tasks[at];
        (task.sends, task.target_sends) =
            (task.sends + 1, task.target_sends + u32::from(weight == Weight::Counts));
        let drawn = self.write_question(at, &form);
        let attempts = &self.attempts;
        let id =
            draw_id(&mut self.rng, |id| attempts.find(form.upstream, drawn.socket, id).is_some());
        let octets = self.write_query(at, &form, id, cx);

        let attempt_at = self.attempts.allocate(&self.question);
        let attempt = &mut self.attempts[attempt_at];
        (attempt.task, attempt.upstream, attempt.place) = (at, form.upstream, place);
        (attempt.id, attempt.socket) = (id, drawn.socket);
        (attempt.sent_ms, attempt.due_ms) = (cx.now_ms, cx.now_ms + u64::from(form.timeout_ms));
        (attempt.overdue, attempt.aside) = (false, weight == Weight::Aside);
        (attempt.with_edns, attempt.exact_case) = (form.with_edns, form.exact_case);
        self.attempts.enter(attempt_at);
        self.tasks[at].attempts.push(attempt_at);

        let upstream = &mut self.upstreams[usize::from(form.upstream)];
        upstream.outstanding += 1;
        upstream.counters.queries += 1;
        upstream.counters.tcp += u64::from(form.by_tcp);
        let (server, over_tcp, with_edns) = (upstream.spec.addr, form.by_tcp, form.with_edns);
        let rtype = self.tasks[at].target_type();
        let step = Step::Sent { server, zone: None, name: None, rtype, over_tcp, with_edns };
        self.tasks[at].record(cx.now_ms, step);
        let Drawn { socket, renew } = drawn;
        let upstream = UpstreamId(form.upstream);
        cx.actions.list.push(match form.by_tcp {
            true => Action::SendStream { upstream, octets },
            false => Action::SendDatagram { upstream, socket, renew, octets },
        });
        true
    }

    /// Settles how the target is to be asked. None if the task may send no more.
    fn form(&mut self, at: u32, place: u8, now_ms: u64) -> Option<UpstreamQueryForm> {
        let task = &mut self.tasks[at];
        if !task.may_ask() {
            task.note(Failure::TooManyQueries);
            return None;
        }
        let bound = task.bound.as_ref()?;
        let rule = bound.plan.rule(task.route);
        let id = bound.id(rule, place);
        let upstream = &self.upstreams[id];
        let may_be_plain = !upstream.speaks_edns()
            && task.round >= PLAIN_ROUND_OF_MANY
            && task.plain & 1 << place == 0;
        let places = 0..rule.upstreams.len() as u8;
        let nobody_speaks = || {
            places.len() > 1
                && !places.clone().any(|at| self.upstreams[bound.id(rule, at)].speaks_edns())
        };
        if may_be_plain && (task.round >= PLAIN_ROUND || nobody_speaks()) {
            task.plain |= 1 << place;
            task.guessed_plain |= 1 << place;
        }
        let by_tcp = upstream.spec.transport == Transport::Tcp || task.by_tcp & 1 << place != 0;
        let transport = if by_tcp { Transport::Tcp } else { Transport::Udp };
        Some(UpstreamQueryForm {
            upstream: id as u16,
            by_tcp,
            with_edns: upstream.takes_edns(now_ms) && task.plain & 1 << place == 0,
            exact_case: !by_tcp && rule.case_randomisation && upstream.keeps_case(now_ms),
            timeout_ms: timeout(&upstream.rtt, task.round, rule.timeout_ms, transport),
        })
    }

    /// Draws the case of the question's letters and the socket: together with the ID at least
    /// [`MIN_BITS`] that nobody can predict.
    fn write_question(&mut self, at: u32, form: &UpstreamQueryForm) -> Drawn {
        self.question.clear();
        self.question.extend_from_slice(&self.tasks[at].target);
        if form.by_tcp {
            return Drawn { socket: STREAM, renew: false };
        }
        let qname_len = self.question.len().saturating_sub(4);
        let qname = &mut self.question[..qname_len];
        let letters = if form.exact_case { query::letters(qname) } else { 0 };
        if letters > 0 {
            query::randomise_case(qname, &mut self.rng);
        }
        let pool = &mut self.upstreams[usize::from(form.upstream)].pool;
        let bits = ID_BITS + pool.bits() + letters;
        let drawn = if bits < MIN_BITS { pool.fresh() } else { pool.draw(&mut self.rng) };
        let is_fresh = drawn.socket as usize >= pool.len();
        let bits = if is_fresh { ID_BITS + FRESH_PORT_BITS + letters } else { bits };
        self.counters.min_bits_seen = self.counters.min_bits_seen.min(bits);
        self.counters.fresh_sockets += u64::from(is_fresh);
        self.counters.renewals += u64::from(drawn.renew && !is_fresh);
        drawn
    }

    /// Appends the message to the actions' octets.
    fn write_query(
        &self,
        at: u32,
        form: &UpstreamQueryForm,
        id: u16,
        cx: &mut Context<'_, W>,
    ) -> Range<usize> {
        let task = &self.tasks[at];
        let cookie = self.upstreams[usize::from(form.upstream)].cookie.octets();
        let opt =
            OptOf { udp_size: query::UDP_SIZE, dnssec_ok: task.dnssec_ok, cookie, ecs: &task.ecs };
        let start = cx.actions.octets.len();
        let opt = form.with_edns.then_some(&opt);
        let flags = RD | if task.checking_disabled { CD } else { 0 };
        query::write(&mut cx.actions.octets, id, flags, &self.question, opt);
        start..cx.actions.octets.len()
    }

    /// Stops waiting for a query.
    pub(super) fn dismiss(&mut self, attempt_at: u32, closing: Closing, cx: &mut Context<'_, W>) {
        let attempt = &self.attempts[attempt_at];
        let (at, upstream_at, socket) = (attempt.task, attempt.upstream, attempt.socket);
        self.attempts.remove(attempt_at, closing);
        let attempts = &mut self.tasks[at].attempts;
        if let Some(place) = attempts.iter().position(|&other| other == attempt_at) {
            attempts.swap_remove(place);
        }
        let upstream = &mut self.upstreams[usize::from(upstream_at)];
        upstream.outstanding -= 1;
        if socket != STREAM && upstream.pool.release(socket) {
            cx.actions.list.push(Action::CloseSocket { upstream: UpstreamId(upstream_at), socket });
        }
    }

    /// The task failed at this upstream: it is not asked for this target again.
    pub(super) fn give_up_on(&mut self, at: u32, place: u8, failure: Failure) {
        let task = &mut self.tasks[at];
        task.failed |= 1 << place;
        task.note(failure);
    }
}

pub(super) fn timeout(rtt: &Rtt, round: u32, (min, max): (u32, u32), transport: Transport) -> u32 {
    let measured = rtt.timeout_ms();
    if transport == Transport::Tcp {
        return (measured * 4).clamp(TCP_TIMEOUT_MS.0, TCP_TIMEOUT_MS.1);
    }
    let doubled = measured.clamp(min, max) << round.min(6);
    let longest = if rtt.is_lossy() { measured.max(LOSSY_TIMEOUT_MS) } else { max };
    doubled.min(longest).clamp(min, max)
}

/// Draws an ID; one that `is_used` only if no other comes up.
pub(super) fn draw_id(rng: &mut impl Rng, is_used: impl Fn(u16) -> bool) -> u16 {
    let mut id = rng.next_u32() as u16;
    for _ in 1..ID_DRAWS {
        if !is_used(id) {
            break;
        }
        id = rng.next_u32() as u16;
    }
    id
}
