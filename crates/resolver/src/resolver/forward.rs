//! Forwarded questions: their exchanges with the upstreams of a rule, and the evaluation of
//! replies.

use avocet_wire::header::{CD, RD};
use avocet_wire::{MessageView, Rcode, Rtype};

use super::end::FoundAnswer;
use super::reply::ReplyForm;
use super::send::Repeat;
use super::{Context, Resolver};
use crate::answer::Source;
use crate::exchange::endpoint::EndpointId;
use crate::exchange::pending::Owner;
use crate::exchange::send::{Cookies, Longest, Preface, QueryOrder, Sent, Sockets, Terms, Weight};
use crate::exchange::server::Server;
use crate::exchange::{Exchange, Exchanges};
use crate::failure::Failure;
use crate::iterate::ask::MAX_MALFORMED;
use crate::iterate::classify::rcode_of_chain;
use crate::query;
use crate::read::{Extent, Malformed};
use crate::scrub::{Asked, Belief, Scrubber, Verdict};
use crate::trace::{Reaction, Step, Taken};

/// The round from which an upstream is queried without EDNS if it is not known to support EDNS,
/// because it may drop queries with EDNS.
const PLAIN_ROUND: u32 = 2;
/// The equivalent of [`PLAIN_ROUND`] for several upstreams. If they do not answer, each gets one
/// and a half queries on average, so only the second round is certain to begin.
const PLAIN_ROUND_OF_MANY: u32 = 1;

/// The round from which names are in lower case, because an upstream may drop queries in mixed
/// case. Port and ID alone have at least 31 unpredictable bits.
const LOWER_CASE_ROUND: u32 = 1;
/// Maximum number of upstreams of a question that are queried again in lower case after errors.
const MAX_LOWER_CASE: u32 = 2;

/// The content of an upstream's reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReplyContent {
    Data,
    /// NXDOMAIN, or no data.
    Nothing,
    /// The same RCODE as for the name in mixed case, and no data.
    SameDenial,
    Error,
}

impl<W> Resolver<W> {
    /// Sends the first queries for a task's target.
    pub(super) fn begin_target(&mut self, at: u32, cx: &mut Context<'_, W>) {
        let owner = Owner::Task(at);
        let task = &mut self.tasks[at];
        task.is_personal |=
            task.bound.as_ref().is_some_and(|bound| bound.plan.introduces(task.route));
        self.exchanges.turn = self.exchanges.turn.wrapping_add(1);
        if !self.ask_next(owner, cx) {
            return self.fail(at, cx);
        }
        if let Some(place) = self.choose_aside(at, cx.now_ms) {
            self.ask(owner, place, Weight::Aside, cx);
        }
        self.rearm(owner);
    }

    /// Sends a query for a task's target to an upstream. Returns `None` if the task has reached its
    /// limit on queries.
    pub(super) fn send_for_task(
        &mut self,
        at: u32,
        (place, weight): (u8, Weight),
        cx: &mut Context<'_, W>,
    ) -> Option<(EndpointId, Sent)> {
        let task = &mut self.tasks[at];
        if !task.may_ask() {
            task.note(Failure::TooManyQueries);
            return None;
        }
        let bound = task.bound.as_ref()?;
        let rule = bound.plan.rule(task.route);
        let upstreams = bound.servers(task.route);
        let server = *upstreams.get(usize::from(place))?;
        if weight == Weight::Aside {
            self.exchanges.servers[server].breaker.take_probe(cx.now_ms);
        }
        task.sends += 1;
        let is_case_in_doubt = task.exchange.round >= LOWER_CASE_ROUND
            && rule.case_randomisation
            && self.exchanges.servers[server].may_drop_mixed_case(cx.now_ms);
        if is_case_in_doubt {
            task.exchange.lower_case |= 1 << place;
        }
        let are_plain = task.exchange.round >= PLAIN_ROUND_OF_MANY
            && nobody_speaks_edns(&self.exchanges, upstreams);
        let header = match bound.plan.has_introductions() {
            true => bound.plan.header_place(task.route),
            false => None,
        };
        let terms = Terms {
            question: task.target.view(),
            flags: RD | if task.checking_disabled { CD } else { 0 },
            udp_size: query::UDP_SIZE,
            dnssec_ok: task.dnssec_ok,
            ecs: &task.ecs,
            // After a header with the client's address, the server's cookie would be for the
            // address of the client.
            cookies: if header.is_some() { Cookies::Off } else { Cookies::Always },
            case_randomisation: rule.case_randomisation,
            plain_round: Some(if are_plain { PLAIN_ROUND_OF_MANY } else { PLAIN_ROUND }),
            timeout_ms: rule.timeout_ms,
            longest: Longest::OF_RULE,
            sockets: Sockets::Shared,
            preface: header.map_or(Preface::None, |place| Preface::Header(place, task.introduced)),
        };
        let (owner, timed_as, now_ms) = (Owner::Task(at), server, cx.now_ms);
        let order = QueryOrder { owner, server, timed_as, place, weight, now_ms };
        Some((server, self.exchanges.send(&mut task.exchange, &order, &terms, cx.actions)))
    }

    /// Reads a reply to a query for a task's target.
    pub(super) fn read_for_task(
        &mut self,
        query_at: u32,
        view: &MessageView<'_>,
        cx: &mut Context<'_, W>,
    ) {
        let Owner::Task(at) = self.exchanges.pending[query_at].owner else { return };
        let task = &mut self.tasks[at];
        task.reply_octets += view.octets().len();
        let target = task.target.view();
        let is_answer_enough = view.header().rcode() == Rcode::NOERROR
            && !task.dnssec_ok
            && task.bound.as_ref().is_some_and(|bound| bound.plan.settings.minimal);
        let extent =
            if is_answer_enough { Extent::ToAnswer(target.qtype()) } else { Extent::Whole };
        if let Err(malformed) = self.reply.read(view, target.qname(), extent) {
            self.counters.malformed += 1;
            if malformed == Malformed::Data {
                self.give_up_malformed(at, query_at, cx);
            }
            return;
        }
        let form = ReplyForm {
            rcode: self.reply.rcode(view),
            has_opt: self.reply.has_opt,
            has_our_cookie: self.exchanges.learn_cookie(query_at, &self.reply.opt().cookie),
            keepalive: self.reply.opt().keepalive,
        };
        if let Some(rcode) = self.settle_form(query_at, form, cx) {
            let target = self.tasks[at].target.view();
            let asked = (target.qname(), target.qtype());
            let rcode = rcode_of_chain(rcode, asked, &self.reply);
            if self.doubts_forwarded_denial(query_at, rcode, cx.now_ms) {
                return self.repeat(query_at, Repeat::LowerCase, cx);
            }
            self.judge(query_at, rcode, cx);
        }
    }

    /// Returns whether a denial must be verified in lower case, because the mixed case of the name
    /// may be the reason for it. This is done once for a target, and only if the upstream has not
    /// found any name in mixed case yet. Records how the upstream handles mixed case.
    fn doubts_forwarded_denial(&mut self, query_at: u32, rcode: Rcode, now_ms: u64) -> bool {
        let query = &self.exchanges.pending[query_at];
        let Owner::Task(at) = query.owner else { return false };
        let server = &mut self.exchanges.servers[query.server()];
        if server.finds_any_case {
            return false;
        }
        let task = &mut self.tasks[at];
        let found = match rcode {
            Rcode::NXDOMAIN => ReplyContent::Nothing,
            Rcode::NOERROR if self.reply.has_answer() => ReplyContent::Data,
            Rcode::NOERROR => ReplyContent::Nothing,
            _ => ReplyContent::Error,
        };
        let bit = 1 << query.place;
        if !query.is_mixed {
            if task.exchange.lower_case & bit != 0 {
                let is_equal = found == ReplyContent::Nothing
                    && task.exchange.denied & bit != 0
                    && task.exchange.denied_rcode == Some(rcode);
                let found = if is_equal { ReplyContent::SameDenial } else { found };
                learn_from_lower_case((&task.exchange, bit), found, server, now_ms);
            }
            return false;
        }
        server.finds_any_case = found == ReplyContent::Data && query.is_leaf_mixed();
        let is_error =
            matches!(rcode, Rcode::REFUSED | Rcode::SERVFAIL | Rcode::FORMERR | Rcode::NOTIMP);
        if !server.may_mind_case(now_ms) {
            return false;
        }
        if is_error {
            task.exchange.minding_case |= bit;
        }
        let is_in_doubt = found == ReplyContent::Nothing
            && server.is_denial_in_doubt(now_ms)
            && task.exchange.denied == 0
            && task.exchange.lower_case & bit == 0
            && task.may_ask()
            && !self.reply.has_proof();
        if is_in_doubt {
            (task.exchange.denied, task.exchange.denied_rcode) = (bit, Some(rcode));
        }
        is_in_doubt
    }

    /// If no other upstream is left, repeats the query in lower case to an upstream that returned
    /// an error for mixed case. Returns `false` if there is no such upstream.
    pub(super) fn ask_in_lower_case(&mut self, at: u32, cx: &mut Context<'_, W>) -> bool {
        let exchange = &mut self.tasks[at].exchange;
        let left = exchange.minding_case & !exchange.lower_case;
        let asked = exchange.minding_case & exchange.lower_case;
        if left == 0 || asked.count_ones() >= MAX_LOWER_CASE {
            return false;
        }
        let place = left.trailing_zeros() as u8;
        exchange.lower_case |= 1 << place;
        self.ask(Owner::Task(at), place, Weight::Counts, cx)
    }

    /// Queries another upstream after a reply with data that does not match its type. Does so only
    /// a few times, because most upstreams get this data from the same zone.
    fn give_up_malformed(&mut self, at: u32, query_at: u32, cx: &mut Context<'_, W>) {
        self.note_reply(query_at, Reaction::Malformed, cx);
        let task = &mut self.tasks[at];
        task.malformed += 1;
        task.note(Failure::Malformed);
        if task.malformed >= MAX_MALFORMED {
            return self.fail(at, cx);
        }
        self.give_up(query_at, Failure::Unusable, cx);
    }

    fn judge(&mut self, query_at: u32, rcode: Rcode, cx: &mut Context<'_, W>) {
        let server = self.exchanges.pending[query_at].server();
        let counters = self.exchanges.servers[server].counters();
        let failure = match rcode {
            Rcode::NOERROR | Rcode::NXDOMAIN => return self.accept(query_at, rcode, cx),
            Rcode::SERVFAIL => {
                counters.into_iter().for_each(|counters| counters.servfail += 1);
                Failure::Servfail(self.reply.opt().ede)
            }
            Rcode::REFUSED => {
                counters.into_iter().for_each(|counters| counters.refused += 1);
                Failure::Refused
            }
            _ => Failure::Unusable,
        };
        self.give_up(query_at, failure, cx);
    }

    /// Accepts a reply with an answer, or with a proof that no answer exists.
    fn accept(&mut self, query_at: u32, rcode: Rcode, cx: &mut Context<'_, W>) {
        let query = &self.exchanges.pending[query_at];
        let Owner::Task(at) = query.owner else { return };
        let rtt_ms = cx.now_ms.saturating_sub(query.sent_ms) as u32;
        let (upstream, over_tcp) = (query.server(), query.over_tcp());
        let source = Some(Source { upstream, rtt_ms, over_tcp });
        let with_do = query.with_edns && self.tasks[at].dnssec_ok;
        let Some(verdict) = self.scrub(at, rcode) else { return };
        let ecs_scope = self.reply.opt().ecs_scope.filter(|_| !self.tasks[at].ecs.is_empty());
        let for_all = ecs_scope.is_none_or(|scope| scope == 0);
        self.tasks[at].ecs_scope = self.tasks[at].ecs_scope.max(ecs_scope);
        match verdict {
            Verdict::Answer { rcode, cacheable } => {
                let is_any = self.tasks[at].target_type() == Rtype::ANY;
                if for_all && !is_any {
                    let denied = cacheable && self.gathered.is_denial();
                    self.store(at, denied.then_some(rcode), with_do.into(), cx);
                }
                self.finish(
                    at,
                    FoundAnswer { rcode, cacheable, source, authentic: false, ede: None },
                    cx,
                );
            }
            Verdict::GoOn => {
                if for_all {
                    self.store(at, None, with_do.into(), cx);
                }
                self.follow_alias(at, cx);
            }
            Verdict::Unusable => {
                self.tasks[at].record(cx.now_ms, Step::Taken(Taken::Unusable));
                self.give_up(query_at, Failure::Unusable, cx);
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

    /// Gathers the trusted records of a reply. Stores the end of the reply's chain of aliases in
    /// `chain_end`.
    fn scrub(&mut self, at: u32, rcode: Rcode) -> Option<Verdict> {
        let task = &self.tasks[at];
        let bound = task.bound.as_ref()?;
        let (qname, qtype) = (task.target.view().qname(), task.target.view().qtype());
        let belief = Belief::Rule(task.route);
        let asked = Asked { plan: &bound.plan, belief, qname, qtype, dnssec_ok: task.dnssec_ok };
        let Self { reply, gathered, chain_end, .. } = self;
        Some(Scrubber::new(asked, reply, gathered, chain_end).scrub(rcode))
    }
}

/// Records how an upstream handles names in mixed case, from its reply in lower case and from what
/// the upstream did before: it returned an error, denied the name, or did not answer.
fn learn_from_lower_case(
    (exchange, bit): (&Exchange, u64),
    found: ReplyContent,
    server: &mut Server,
    now_ms: u64,
) {
    match found {
        ReplyContent::SameDenial => server.note_equal_denial(now_ms),
        ReplyContent::Data | ReplyContent::Nothing
            if (exchange.minding_case | exchange.denied) & bit != 0 =>
        {
            server.note_folded_case(now_ms);
        }
        ReplyContent::Data | ReplyContent::Nothing => server.guess_folded_case(now_ms),
        ReplyContent::Error => server.note_failed_any_case(now_ms),
    }
}

fn nobody_speaks_edns(exchanges: &Exchanges, upstreams: &[EndpointId]) -> bool {
    upstreams.len() > 1 && !upstreams.iter().any(|&id| exchanges.servers[id].speaks_edns)
}
