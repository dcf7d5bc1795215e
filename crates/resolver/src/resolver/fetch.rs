//! Sends the queries to the servers of a zone that walks (recursive resolutions of one question
//! each) request. Such a query, with its retries, is a fetch.
//!
//! ```text
//! inquiry ──> joined by an equal one, or: an exchange with the servers
//! walk <── Fetched or NotFetched <── read ┘
//! ```

use std::sync::Arc;

use avocet_wire::header::{CD, RD};
use avocet_wire::{MessageView, Question, Rcode, Rtype};

use super::reply::ReplyForm;
use super::send::Repeat;
use super::{Context, Resolver};
use crate::exchange::Exchange;
use crate::exchange::endpoint::EndpointId;
use crate::exchange::loss::Level;
use crate::exchange::pending::{Owner, PendingQuery};
use crate::exchange::send::{Cookies, Longest, Preface, QueryOrder, Sent, Sockets, Terms, Weight};
use crate::exchange::timers::Timer;
use crate::failure::Failure;
use crate::iterate::classify::{self, Sort};
use crate::iterate::fetch::{Fetched, Inquiry, Letters, NotFetched, Patience};
use crate::iterate::fetches::Fetch;
use crate::query;
use crate::read::{Reply, folded_target};
use crate::recursion::Recursion;
use crate::trace::{Reaction, Step};

/// The longest wait for a reply over UDP before the next query is sent, in ms.
const MAX_WAIT_MS: u32 = 800;
/// The limit that replaces [`MAX_WAIT_MS`] under heavy loss, because a late reply was probably
/// lost. It also applies to servers that were never measured, because most of them are near.
const MAX_BLIND_WAIT_MS: u32 = 400;
/// The round from which a server is queried without EDNS if it is not known to support EDNS,
/// because it may drop queries with EDNS.
const PLAIN_ROUND: u32 = 2;
/// The round from which names are in lower case, because a server may drop queries in mixed case.
/// Port and ID alone have at least 31 unpredictable bits.
const LOWER_CASE_ROUND: u32 = 3;
/// Maximum number of fetches in flight per resolver. A question rarely has more than one.
const MAX_FETCHES: usize = 32_768;

impl<W> Resolver<W> {
    /// Begins a fetch for a task's walk, or joins a fetch in flight.
    pub(super) fn begin_fetch(
        &mut self,
        at: u32,
        inquiry: Inquiry,
        cx: &mut Context<'_, W>,
    ) -> Result<u32, NotFetched> {
        if !self.tasks[at].may_ask() {
            self.counters.budget_sends += 1;
            self.tasks[at].note(Failure::TooManyQueries);
            return Err(NotFetched::Exhausted);
        }
        let Inquiry { patience, is_of_client, .. } = inquiry;
        let joined = self.fetches.find(&inquiry);
        let fetch_at = match joined {
            Some(fetch_at) => fetch_at,
            None if self.fetches.len() >= MAX_FETCHES => return Err(NotFetched::Exhausted),
            None => self.admit_fetch(at, inquiry, cx.now_ms)?,
        };
        if let Some(fetch) = self.fetches.get_mut(fetch_at) {
            fetch.inquiry.patience = fetch.inquiry.patience.max(patience);
            fetch.inquiry.is_of_client |= is_of_client;
            if !fetch.waiters.contains(&at) {
                fetch.waiters.push(at);
            }
        }
        if joined.is_some() {
            self.tasks[at].record(cx.now_ms, Step::Joined);
        }
        if joined.is_some() {
            return Ok(fetch_at);
        }
        if self.ask_next(Owner::Fetch(fetch_at), cx) {
            self.rearm(Owner::Fetch(fetch_at));
            return Ok(fetch_at);
        }
        let unanswered =
            self.remove_fetch(fetch_at, cx).map_or(0, |fetch| fetch.inquiry.unanswered);
        Err(if unanswered > 0 { NotFetched::Silence(0) } else { NotFetched::NoServers })
    }

    /// Begins a fetch for a task's inquiry if the limits of its zone and servers permit it.
    fn admit_fetch(&mut self, at: u32, inquiry: Inquiry, now_ms: u64) -> Result<u32, NotFetched> {
        // DS and DNSKEY records are exempt from the limits: there are few of them, and all names of
        // a zone need them.
        let is_link = matches!(inquiry.qtype, Rtype::DS | Rtype::DNSKEY);
        let is_free = is_link || inquiry.manner.recursion_desired;
        let per_zone = (!is_free).then_some(self.bound.plan.fetch_limits.per_zone);
        let client = self.tasks[at].client;
        if !is_free && inquiry.servers.iter().all(|server| self.is_crowded(*server)) {
            self.counters.limit_server += 1;
            return Err(NotFetched::Crowded);
        }
        if !self.loads.enter(&inquiry.zone, client, per_zone, now_ms) {
            self.counters.limit_zone += 1;
            return Err(NotFetched::Crowded);
        }
        Ok(self.fetches.insert(Fetch { is_free, ..Fetch::new(inquiry, client) }))
    }

    fn remove_fetch(&mut self, fetch_at: u32, cx: &mut Context<'_, W>) -> Option<Fetch> {
        self.exchanges.timers.clear(Timer::Fetch(fetch_at));
        let mut fetch = self.fetches.remove(fetch_at)?;
        self.exchanges.end_all(&mut fetch.exchange, cx.actions);
        self.loads.leave(&fetch.inquiry.zone, fetch.client);
        Some(fetch)
    }

    /// Removes a task from the waiters of a fetch. Ends the fetch if it has no other waiters.
    pub(super) fn leave_fetch(&mut self, fetch_at: u32, at: u32, cx: &mut Context<'_, W>) {
        let Some(fetch) = self.fetches.get_mut(fetch_at) else { return };
        fetch.waiters.retain(|&waiter| waiter != at);
        if fetch.waiters.is_empty() {
            self.remove_fetch(fetch_at, cx);
        }
    }

    /// Ends a fetch, and continues the walks that wait for it.
    fn complete(
        &mut self,
        fetch_at: u32,
        result: Result<Arc<Fetched>, NotFetched>,
        cx: &mut Context<'_, W>,
    ) {
        let Some(fetch) = self.remove_fetch(fetch_at, cx) else { return };
        let result = result.or_else(|why| fetch.denied.ok_or(why));
        for at in fetch.waiters {
            self.fetched(at, fetch_at, result.clone(), cx);
        }
    }

    /// Returns whether a fetch that has no further servers must wait for late replies.
    pub(super) fn waits_for_late_replies(&self, fetch_at: u32) -> bool {
        self.fetches.get(fetch_at).is_some_and(|fetch| {
            // The additional copy of a query is no reason to wait.
            let counts = |at: &u32| !self.exchanges.pending[*at].aside;
            fetch.exchange.queries.iter().any(counts) && fetch.inquiry.patience == Patience::All
        })
    }

    /// Ends a fetch without a reply, because it has no further servers.
    pub(super) fn complete_in_vain(&mut self, fetch_at: u32, cx: &mut Context<'_, W>) {
        let Some(fetch) = self.fetches.get(fetch_at) else { return };
        let Exchange { sends, unsent, any_unusable, any_unreachable, tls_fault, .. } =
            fetch.exchange;
        let why = match fetch {
            _ if sends == unsent => NotFetched::Unsent,
            fetch if fetch.waiters.iter().all(|&at| !self.tasks[at].may_ask()) => {
                NotFetched::Exhausted
            }
            _ if any_unusable => NotFetched::Unusable,
            _ => match tls_fault {
                Some(fault) => NotFetched::Tls(fault),
                None if any_unreachable => NotFetched::Unreachable,
                None => NotFetched::Silence(sends - unsent),
            },
        };
        if why == NotFetched::Exhausted {
            fetch.waiters.iter().for_each(|&at| self.tasks[at].note(Failure::TooManyQueries));
        }
        self.complete(fetch_at, Err(why), cx);
    }

    /// Sends an inquiry to a server. Returns `None` if each waiting question has reached its limit
    /// on queries.
    pub(super) fn send_for_fetch(
        &mut self,
        fetch_at: u32,
        place: u8,
        cx: &mut Context<'_, W>,
    ) -> Option<(EndpointId, Sent)> {
        let loss = self.loss_of(self.fetches.get(fetch_at)?, cx.now_ms);
        let fetch = self.fetches.get(fetch_at)?;
        let candidate = *fetch.inquiry.servers.get(usize::from(place))?;
        // Each query counts towards the limit of only one waiting question.
        let payer = *fetch.waiters.iter().find(|at| self.tasks[**at].may_ask())?;
        self.tasks[payer].sends += 1;
        let server = self.exchanges.servers.number(candidate);
        // If this query fails, too, the next probe of the server is delayed.
        self.exchanges.servers[server].breaker.take_probe(cx.now_ms);
        let unproven = self.unproven_of(fetch_at, (server, place), cx.now_ms);
        let Fetch { inquiry, exchange, .. } = self.fetches.get_mut(fetch_at)?;
        let question = inquiry.question();
        let recursion = self.bound.plan.recursion.as_deref();
        let terms = terms_of(question.view(), inquiry, (exchange.round, loss), recursion);
        let (owner, weight) = (Owner::Fetch(fetch_at), Weight::Counts);
        let order =
            QueryOrder { owner, server, timed_as: server, place, weight, now_ms: cx.now_ms };
        Some(match unproven {
            None => (server, self.exchanges.send(exchange, &order, &terms, cx.actions)),
            Some(unproven) => {
                self.exchanges.send_unproven(exchange, (&order, unproven), &terms, cx.actions)
            }
        })
    }

    /// Reads a reply to a query of a fetch.
    pub(super) fn read_for_fetch(
        &mut self,
        query_at: u32,
        view: &MessageView<'_>,
        cx: &mut Context<'_, W>,
    ) {
        let query = &self.exchanges.pending[query_at];
        let Owner::Fetch(fetch_at) = query.owner else { return };
        let sent = query.question.split_last_chunk::<4>();
        let Some(qname) = sent.and_then(|(qname, _)| folded_target(qname)) else { return };
        let waiters = self.fetches.get(fetch_at).map(|fetch| &fetch.waiters[..]);
        for &waiter in waiters.unwrap_or_default() {
            self.tasks[waiter].reply_octets += view.octets().len();
        }
        let mut reply = Reply::default();
        if reply.read_well_formed(view, qname.view()).is_err() {
            self.counters.malformed += 1;
            self.record_reply(query_at, Reaction::Malformed, cx.now_ms);
            return self.give_up(query_at, Failure::Unusable, cx);
        }
        let form = ReplyForm {
            rcode: reply.rcode(view),
            has_opt: reply.has_opt,
            has_our_cookie: self.exchanges.learn_cookie(query_at, &reply.opt().cookie),
            keepalive: reply.opt().keepalive,
        };
        let is_unproven = self.exchanges.is_unproven(query_at);
        let is_answer = matches!(form.rcode, Rcode::NOERROR | Rcode::NXDOMAIN | Rcode::YXDOMAIN);
        if is_unproven && !is_answer && self.refuse(query_at, cx) {
            return;
        }
        let Some(rcode) = self.settle_form(query_at, form, cx) else { return };
        let query = self.exchanges.pending[query_at].clone();
        let qtype = self.fetches.get(fetch_at).map_or(Rtype(0), |fetch| fetch.inquiry.qtype);
        let rcode = classify::rcode_of_chain(rcode, (qname.view(), qtype), &reply);
        let candidates = self.fetches.get(fetch_at).map(|fetch| &fetch.inquiry.servers);
        let place = usize::from(query.place);
        let Some(&server) = candidates.and_then(|servers| servers.get(place)) else { return };
        let flags = view.header().flags;
        let mut fetched = Fetched { reply, rcode, flags, server, may_mind_case: false };
        fetched.may_mind_case = self.may_mind_case((fetch_at, &query), &fetched, cx.now_ms);
        let fetched = Arc::new(fetched);
        if is_unproven {
            if self.refuses(query_at, &fetched) && self.refuse(query_at, cx) {
                return;
            }
            self.note_unproven_reply(query_at, &fetched, cx.now_ms);
        }
        if self.doubts_denial((fetch_at, &query), &fetched, cx.now_ms) {
            if let Some(fetch) = self.fetches.get_mut(fetch_at) {
                fetch.denied = Some(fetched);
            }
            return self.repeat(query_at, Repeat::LowerCase, cx);
        }
        self.complete(fetch_at, Ok(fetched), cx);
    }

    /// Returns whether a denial must be verified in lower case, and records whether the server
    /// finds names in mixed case. Some servers find no names in mixed case. A denial without a
    /// proof is verified once if its server has not found any name in mixed case yet.
    fn doubts_denial(
        &mut self,
        (fetch_at, query): (u32, &PendingQuery),
        fetched: &Fetched,
        now_ms: u64,
    ) -> bool {
        let server = &mut self.exchanges.servers[query.server()];
        let Some(fetch) = self.fetches.get(fetch_at) else { return false };
        if server.finds_any_case {
            return false;
        }
        let inquiry = &fetch.inquiry;
        let is_denied = match fetched.rcode {
            Rcode::NXDOMAIN => true,
            Rcode::NOERROR => fetched.reply.is_no_data(),
            _ => return false,
        };
        if query.is_mixed {
            server.finds_any_case = query.is_leaf_mixed() && finds_name(inquiry, fetched);
            // The root servers are known to find names in any letter case. Without a proof, no
            // denial of a signed zone is useful.
            let is_open = inquiry.is_of_client
                && !inquiry.needs_signatures()
                && (inquiry.zone.len() > 1 || inquiry.manner.recursion_desired)
                && fetch.denied.is_none();
            return is_denied
                && is_open
                && server.is_denial_in_doubt(now_ms)
                && !fetched.has_proof();
        }
        if fetch.exchange.lower_case & 1 << query.place != 0 {
            // If the replies in mixed and lower case are equal, the server may handle mixed case.
            // Otherwise mixed case is no longer used for this server.
            let before = fetch.denied.as_ref().map_or(Rcode::NXDOMAIN, |before| before.rcode);
            if is_denied && fetched.rcode == before {
                server.note_equal_denial(now_ms);
            } else if fetched.rcode == Rcode::NOERROR {
                server.note_folded_case(now_ms);
            }
        }
        false
    }

    /// Returns whether the mixed case of the name may be the reason for a useless reply. Some
    /// servers refuse such names, fail, or refer upwards. Records the result of a query in lower
    /// case.
    fn may_mind_case(
        &mut self,
        (fetch_at, query): (u32, &PendingQuery),
        fetched: &Fetched,
        now_ms: u64,
    ) -> bool {
        let server = &mut self.exchanges.servers[query.server()];
        let Some(Fetch { inquiry, .. }) = self.fetches.get(fetch_at) else { return false };
        let is_useless = match fetched.rcode {
            Rcode::REFUSED | Rcode::SERVFAIL | Rcode::FORMERR | Rcode::NOTIMP => true,
            Rcode::NOERROR if server.finds_any_case && inquiry.letters == Letters::Random => false,
            Rcode::NOERROR => classify::sort(inquiry, fetched) == Sort::Lame,
            _ => false,
        };
        if inquiry.letters == Letters::Lower {
            match fetched.rcode {
                Rcode::NOERROR | Rcode::NXDOMAIN if !is_useless => {
                    server.note_minded_case(inquiry.zone.view(), now_ms)
                }
                _ => server.note_failed_any_case_of(inquiry.zone.clone(), now_ms),
            }
        }
        is_useless && query.is_mixed && server.may_mind_case_of(inquiry.zone.view(), now_ms)
    }
}

/// Returns whether a reply has data for the QNAME. The apex does not count, because a server may
/// find its zones in any case, but not the names in them. Nor does a referral, for the same reason.
fn finds_name(inquiry: &Inquiry, fetched: &Fetched) -> bool {
    inquiry.qname != inquiry.zone
        && fetched.reply.has_answer()
        && classify::sort(inquiry, fetched) == Sort::Answer
}

/// Returns the requirements for the queries of an inquiry, which depend on the round and on packet
/// loss.
fn terms_of<'a>(
    question: Question<'a>,
    inquiry: &Inquiry,
    (round, loss): (u32, Level),
    recursion: Option<&Recursion>,
) -> Terms<'a> {
    let Inquiry { manner, letters, .. } = inquiry;
    let flag = |set: bool, flag: u16| if set { flag } else { 0 };
    let loses = loss >= Level::Heavy;
    let has_cookies = recursion.is_some_and(|recursion| recursion.cookies);
    let may_be_plain = !inquiry.needs_signatures() && !loses;
    Terms {
        question,
        flags: flag(manner.recursion_desired, RD) | flag(manner.checking_disabled, CD),
        udp_size: recursion.map_or(query::UDP_SIZE, |recursion| recursion.udp_size),
        dnssec_ok: manner.dnssec_ok,
        ecs: &[],
        cookies: match letters {
            _ if !has_cookies => Cookies::Off,
            // The servers have returned errors, perhaps because of the cookie.
            Letters::Lower => Cookies::OverUdpIfKnown,
            Letters::Random => Cookies::OverUdp,
        },
        case_randomisation: manner.case_randomisation
            && *letters == Letters::Random
            && round < LOWER_CASE_ROUND,
        plain_round: may_be_plain.then_some(PLAIN_ROUND),
        timeout_ms: manner.timeout_ms,
        longest: Longest {
            measured_ms: if loses { MAX_BLIND_WAIT_MS } else { MAX_WAIT_MS },
            blind_ms: MAX_BLIND_WAIT_MS,
        },
        sockets: Sockets::Single,
        preface: Preface::None,
    }
}
