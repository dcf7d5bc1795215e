//! Something came from an upstream: which query it answers, and what it comes to.

use avocet_wire::hash::eq_folded;
use avocet_wire::header::{HEADER_LEN, QR, TC};
use avocet_wire::{MessageView, NameBuf, Opcode, Rcode};

use super::end::FoundAnswer;
use super::send::UNSENT_WAIT_MS;
use super::send::Weight;
use super::{Context, Resolver, StreamFailure};
use crate::answer::Source;
use crate::attempt::Closing;
use crate::attempt::STREAM;
use crate::failure::Failure;
use crate::guess::Guessed;
use crate::ids::{SocketId, UpstreamId};
use crate::iterate::ask::MAX_MALFORMED;
use crate::question::split_question;
use crate::read::{Extent, Malformed};
use crate::rtt::Fate;
use crate::scrub::{Asked, Belief, Scrubber, Verdict};
use crate::trace::{Reaction, Step, Taken};

/// How a datagram stands to the query that has its ID.
pub(super) enum Match {
    Exact,
    /// It has other cases of the same letters.
    OtherCase,
    /// No question, or more than one.
    NoQuestion,
    Other,
}

impl<W> Resolver<W> {
    /// A datagram came on a socket.
    pub fn datagram(
        &mut self,
        upstream: UpstreamId,
        socket: SocketId,
        octets: &[u8],
        cx: &mut Context<'_, W>,
    ) {
        self.message(upstream.0, socket, octets, cx);
    }

    /// A message came over the connection.
    pub fn stream_message(&mut self, upstream: UpstreamId, octets: &[u8], cx: &mut Context<'_, W>) {
        self.message(upstream.0, STREAM, octets, cx);
    }

    /// A socket reported that what it sent did not arrive, or could not be opened. Sockets are
    /// connected, so that a forged ICMP message must know the port (S3).
    pub fn socket_error(
        &mut self,
        upstream: UpstreamId,
        socket: SocketId,
        cx: &mut Context<'_, W>,
    ) {
        while let Some(attempt_at) = self.attempts.on_socket(upstream.0, socket) {
            let at = self.unreachable(attempt_at, cx);
            self.advance(at, cx);
        }
    }

    /// As [`Resolver::server_unsent`], of a query that was to leave from this socket of an
    /// upstream.
    pub fn datagram_unsent(
        &mut self,
        upstream: UpstreamId,
        socket: SocketId,
        cx: &mut Context<'_, W>,
    ) {
        let Some(attempt_at) = self.attempts.leaving_from(upstream.0, socket) else { return };
        let attempt = &mut self.attempts[attempt_at];
        (attempt.unsent, attempt.due_ms) = (true, cx.now_ms + UNSENT_WAIT_MS);
        let at = attempt.task;
        self.counters.unsent += 1;
        self.rearm(at);
    }

    /// The connection ended, or could not be made.
    pub fn stream_failed(
        &mut self,
        upstream: UpstreamId,
        failure: StreamFailure,
        cx: &mut Context<'_, W>,
    ) {
        for (attempt_at, id) in self.attempts.on_stream(upstream.0) {
            // What was done for one may have ended others.
            if self.attempts.find(upstream.0, STREAM, id) != Some(attempt_at) {
                continue;
            }
            let (at, place) = (self.attempts[attempt_at].task, self.attempts[attempt_at].place);
            if failure == StreamFailure::Closed && !self.tasks[at].stream_retried {
                // RFC 7766 §6.2.3: a server may close an idle connection just then.
                self.tasks[at].stream_retried = true;
                self.dismiss(attempt_at, Closing::Answered, cx);
                self.resend(at, place, cx);
            } else {
                let at = self.unreachable(attempt_at, cx);
                self.advance(at, cx);
            }
        }
    }

    fn message(&mut self, upstream: u16, socket: SocketId, octets: &[u8], cx: &mut Context<'_, W>) {
        let view = MessageView::new(octets).ok();
        let view =
            view.filter(|view| view.header().has(QR) && view.header().opcode() == Opcode::QUERY);
        let Some(view) = view else {
            self.counters.malformed += 1;
            return;
        };
        let id = view.header().id;
        match self.attempts.find(upstream, socket, id) {
            Some(attempt) => self.matched(attempt, &view, cx),
            None => self.unmatched(upstream, socket, id, cx),
        }
    }

    fn unmatched(&mut self, upstream: u16, socket: SocketId, id: u16, cx: &Context<'_, W>) {
        let Some(sent_ms) = self.attempts.take_remembered(upstream, socket, id) else {
            self.counters.foreign += 1;
            return;
        };
        self.counters.late += 1;
        if let Some(upstream) = self.upstreams.get_mut(usize::from(upstream)) {
            upstream.replied(cx.now_ms, cx.now_ms.saturating_sub(sent_ms));
        }
    }

    /// A reply with the ID of a query that is waited for. Whatever does not belong to it beyond
    /// doubt is dropped, and waiting goes on (S8).
    fn matched(&mut self, attempt_at: u32, view: &MessageView<'_>, cx: &mut Context<'_, W>) {
        let attempt = &self.attempts[attempt_at];
        let (at, place) = (attempt.task, attempt.place);
        match compare(&attempt.question, view) {
            Match::Exact => {}
            Match::OtherCase if !attempt.exact_case => {}
            Match::OtherCase => return self.near_miss(attempt_at, cx),
            Match::NoQuestion => {
                self.counters.malformed += 1;
                // Servers that know no EDNS may answer so; not believed, but minded next time.
                if matches!(view.header().rcode(), Rcode::FORMERR | Rcode::NOTIMP) {
                    self.tasks[at].plain |= 1 << place;
                }
                return;
            }
            Match::Other => {
                self.counters.foreign += 1;
                return;
            }
        }
        if view.header().has(TC) {
            let came_by_tcp = attempt.socket == STREAM;
            self.note_reply(attempt_at, cx);
            self.record_reply(attempt_at, Reaction::Truncated, cx.now_ms);
            if came_by_tcp {
                return self.give_up_unusable(attempt_at, cx);
            }
            return self.retry_by_tcp(attempt_at, cx);
        }
        let task = &mut self.tasks[at];
        task.reply_octets += view.octets().len();
        let Some((qname, qtype, _)) = split_question(&task.target) else { return };
        let is_answer_enough = view.header().rcode() == Rcode::NOERROR
            && !task.dnssec_ok
            && task.bound.as_ref().is_some_and(|bound| bound.plan.settings.minimal);
        let extent = if is_answer_enough { Extent::ToAnswer(qtype) } else { Extent::Whole };
        if let Err(malformed) = self.reply.read(view, qname, extent) {
            self.counters.malformed += 1;
            if malformed == Malformed::Data {
                self.give_up_malformed(attempt_at, cx);
            }
            return;
        }
        let upstream = &mut self.upstreams[usize::from(self.attempts[attempt_at].upstream)];
        let cookie = &self.reply.opt().cookie;
        if !cookie.is_empty()
            && self.attempts[attempt_at].with_edns
            && !upstream.cookie.learn(cookie)
        {
            self.counters.near_misses += 1;
            return;
        }
        self.note_reply(attempt_at, cx);
        let rcode = self.reply.rcode(view);
        self.record_reply(attempt_at, Reaction::Message(rcode), cx.now_ms);
        self.judge(attempt_at, rcode, cx);
    }

    /// Asks another upstream after a reply with data that is not as its type says; most have it
    /// from the same zone.
    fn give_up_malformed(&mut self, attempt_at: u32, cx: &mut Context<'_, W>) {
        self.note_reply(attempt_at, cx);
        self.record_reply(attempt_at, Reaction::Malformed, cx.now_ms);
        let task = &mut self.tasks[self.attempts[attempt_at].task];
        task.malformed += 1;
        task.note(Failure::Malformed);
        if task.malformed >= MAX_MALFORMED {
            let at = self.attempts[attempt_at].task;
            return self.fail(at, cx);
        }
        self.give_up_unusable(attempt_at, cx);
    }

    /// Asks the next upstream after a reply that lacks records where nothing can bring the rest
    /// (RFC 2181 §9).
    fn give_up_unusable(&mut self, attempt_at: u32, cx: &mut Context<'_, W>) {
        let attempt = &self.attempts[attempt_at];
        let (at, place) = (attempt.task, attempt.place);
        self.upstreams[usize::from(attempt.upstream)].counters.unusable += 1;
        self.dismiss(attempt_at, Closing::Answered, cx);
        self.give_up_on(at, place, Failure::Unusable);
        self.advance(at, cx);
    }

    /// The upstream answers, and thus what it did not answer before was lost.
    fn note_reply(&mut self, attempt_at: u32, cx: &Context<'_, W>) {
        let attempt = &self.attempts[attempt_at];
        let upstream = &mut self.upstreams[usize::from(attempt.upstream)];
        upstream.replied(cx.now_ms, cx.now_ms.saturating_sub(attempt.sent_ms));
        if attempt.socket == STREAM {
            return;
        }
        for &other in &self.tasks[attempt.task].attempts {
            let other = &self.attempts[other];
            // It may have been dropped for its EDNS (RFC 6891 §7).
            let may_be_dropped = other.with_edns && !attempt.with_edns && !upstream.speaks_edns();
            let is_earlier = other.upstream == attempt.upstream && other.sent_ms < attempt.sent_ms;
            if is_earlier && other.overdue && !may_be_dropped {
                upstream.rtt.note_fate(Fate::Lost);
            }
        }
        upstream.rtt.note_fate(Fate::Answered);
    }

    fn record_reply(&mut self, attempt_at: u32, reaction: Reaction, now_ms: u64) {
        let attempt = &self.attempts[attempt_at];
        let rtt_ms = now_ms.saturating_sub(attempt.sent_ms) as u32;
        let server = self.upstreams[usize::from(attempt.upstream)].spec.addr;
        self.tasks[attempt.task].record(now_ms, Step::Replied { server, rtt_ms, reaction });
    }

    fn judge(&mut self, attempt_at: u32, rcode: Rcode, cx: &mut Context<'_, W>) {
        let attempt = &self.attempts[attempt_at];
        let (at, place, with_edns) = (attempt.task, attempt.place, attempt.with_edns);
        let counters = &mut self.upstreams[usize::from(attempt.upstream)].counters;
        let failure = match rcode {
            Rcode::NOERROR | Rcode::NXDOMAIN => return self.accept(attempt_at, rcode, cx),
            Rcode::BADCOOKIE if with_edns => return self.bad_cookie(attempt_at, cx),
            Rcode::FORMERR | Rcode::NOTIMP | Rcode::BADVERS if with_edns => {
                counters.without_edns += 1;
                self.tasks[at].plain |= 1 << place;
                self.dismiss(attempt_at, Closing::Answered, cx);
                return self.resend(at, place, cx);
            }
            Rcode::SERVFAIL => {
                counters.servfail += 1;
                Failure::Servfail(self.reply.opt().ede)
            }
            Rcode::REFUSED => {
                counters.refused += 1;
                Failure::Refused
            }
            _ => {
                counters.unusable += 1;
                Failure::Unusable
            }
        };
        self.dismiss(attempt_at, Closing::Answered, cx);
        self.give_up_on(at, place, failure);
        self.advance(at, cx);
    }

    /// A reply with an answer, or the proof that there is none.
    fn accept(&mut self, attempt_at: u32, rcode: Rcode, cx: &mut Context<'_, W>) {
        self.learn_edns(attempt_at, cx.now_ms);
        let attempt = &self.attempts[attempt_at];
        let (at, place, with_edns) = (attempt.task, attempt.place, attempt.with_edns);
        let upstream_at = usize::from(attempt.upstream);
        let rtt_ms = cx.now_ms.saturating_sub(attempt.sent_ms) as u32;
        let over_tcp = attempt.socket == STREAM;
        let source = Some(Source { upstream: UpstreamId(attempt.upstream), rtt_ms, over_tcp });
        let with_do = with_edns && self.tasks[at].dnssec_ok;
        let Some((verdict, end)) = self.scrub(at, rcode) else { return };
        self.dismiss(attempt_at, Closing::Answered, cx);
        let ecs_scope = self.reply.opt().ecs_scope.filter(|_| !self.tasks[at].ecs.is_empty());
        let for_all = ecs_scope.is_none_or(|scope| scope == 0);
        self.tasks[at].ecs_scope = self.tasks[at].ecs_scope.max(ecs_scope);
        match verdict {
            Verdict::Answer { rcode, cacheable } => {
                let is_any = self.tasks[at].target.ends_with(&[0, 255, 0, 1]);
                if for_all && !is_any {
                    let denied = cacheable && self.gathered.is_denial();
                    self.store(&end, at, denied.then_some(rcode), with_do.into(), cx);
                }
                self.finish(
                    at,
                    FoundAnswer { rcode, cacheable, source, authentic: false, ede: None },
                    cx,
                );
            }
            Verdict::GoOn => {
                if for_all {
                    self.store(&end, at, None, with_do.into(), cx);
                }
                self.follow_alias(at, &end, cx);
            }
            Verdict::Unusable => {
                self.upstreams[upstream_at].counters.unusable += 1;
                self.tasks[at].record(cx.now_ms, Step::Taken(Taken::Unusable));
                self.give_up_on(at, place, Failure::Unusable);
                self.advance(at, cx);
            }
            Verdict::Loop => {
                self.tasks[at].note(Failure::Aliases);
                self.fail(at, cx);
            }
            Verdict::TooLarge => {
                self.tasks[at].record(cx.now_ms, Step::Taken(Taken::Unusable));
                self.tasks[at].note(Failure::TooManyRecords);
                self.fail(at, cx);
            }
        }
    }

    /// An answer came: does the upstream speak EDNS, or only answer without?
    fn learn_edns(&mut self, attempt_at: u32, now_ms: u64) {
        let attempt = &self.attempts[attempt_at];
        let upstream = &mut self.upstreams[usize::from(attempt.upstream)];
        let task = &self.tasks[attempt.task];
        if attempt.with_edns && self.reply.has_opt {
            upstream.note_edns();
        } else if !attempt.with_edns && task.plain & 1 << attempt.place != 0 {
            let guessed = if task.guessed_plain & 1 << attempt.place == 0 {
                Guessed::No
            } else {
                Guessed::Yes
            };
            upstream.note_failed_edns(now_ms, guessed);
        }
    }

    fn scrub(&mut self, at: u32, rcode: Rcode) -> Option<(Verdict, NameBuf)> {
        let task = &self.tasks[at];
        let bound = task.bound.as_ref()?;
        let (qname, qtype, _) = split_question(&task.target)?;
        let belief = Belief::Rule(task.route);
        let asked = Asked { plan: &bound.plan, belief, qname, qtype, dnssec_ok: task.dnssec_ok };
        let mut scrubber = Scrubber::new(asked, &self.reply, &mut self.gathered)?;
        let verdict = scrubber.scrub(rcode);
        Some((verdict, scrubber.end))
    }

    /// The upstream, or somebody who sees our queries, changed the case of letters: TCP settles
    /// it, and from now on no random case for this upstream, but fresh sockets.
    fn near_miss(&mut self, attempt_at: u32, cx: &mut Context<'_, W>) {
        self.counters.near_misses += 1;
        self.record_reply(attempt_at, Reaction::OtherCase, cx.now_ms);
        let upstream = &mut self.upstreams[usize::from(self.attempts[attempt_at].upstream)];
        upstream.note_folded_case(cx.now_ms);
        self.retry_by_tcp(attempt_at, cx);
    }

    fn retry_by_tcp(&mut self, attempt_at: u32, cx: &mut Context<'_, W>) {
        let (at, place) = (self.attempts[attempt_at].task, self.attempts[attempt_at].place);
        self.dismiss(attempt_at, Closing::Unanswered, cx);
        self.tasks[at].by_tcp |= 1 << place;
        self.resend(at, place, cx);
    }

    /// The server wants its cookie: once again with it, then by TCP, then no more (S11).
    fn bad_cookie(&mut self, attempt_at: u32, cx: &mut Context<'_, W>) {
        let (at, place) = (self.attempts[attempt_at].task, self.attempts[attempt_at].place);
        let task = &mut self.tasks[at];
        task.bad_cookies += 1;
        match task.bad_cookies {
            1 => {
                self.dismiss(attempt_at, Closing::Answered, cx);
                self.resend(at, place, cx);
            }
            2 => self.retry_by_tcp(attempt_at, cx),
            _ => {
                self.dismiss(attempt_at, Closing::Answered, cx);
                self.give_up_on(at, place, Failure::Unusable);
                self.advance(at, cx);
            }
        }
    }

    /// Asks the same upstream once more, in another way.
    fn resend(&mut self, at: u32, place: u8, cx: &mut Context<'_, W>) {
        if self.send(at, place, Weight::Counts, cx) {
            self.rearm(at);
        } else {
            self.advance(at, cx);
        }
    }

    /// A query did not reach its upstream, which is not asked again for this target.
    fn unreachable(&mut self, attempt_at: u32, cx: &mut Context<'_, W>) -> u32 {
        let attempt = &self.attempts[attempt_at];
        let (at, place, sent_ms) = (attempt.task, attempt.place, attempt.sent_ms);
        let upstream = &mut self.upstreams[usize::from(attempt.upstream)];
        upstream.counters.network_errors += 1;
        upstream.failed(cx.now_ms, sent_ms);
        self.tasks[at].record(cx.now_ms, Step::Unreachable(upstream.spec.addr));
        self.dismiss(attempt_at, Closing::Answered, cx);
        self.give_up_on(at, place, Failure::Network);
        at
    }
}

pub(super) fn compare(sent: &[u8], view: &MessageView<'_>) -> Match {
    if view.header().counts[0] != 1 {
        return Match::NoQuestion;
    }
    let question = view.octets().get(HEADER_LEN..).and_then(|octets| octets.get(..sent.len()));
    let Some((qname, fixed)) = question.and_then(|question| question.split_last_chunk::<4>())
    else {
        return Match::Other;
    };
    match sent.split_last_chunk::<4>() {
        Some((sent_name, sent_fixed)) if sent_fixed == fixed && sent_name == qname => Match::Exact,
        Some((sent_name, sent_fixed)) if sent_fixed == fixed && eq_folded(sent_name, qname) => {
            Match::OtherCase
        }
        _ => Match::Other,
    }
}
