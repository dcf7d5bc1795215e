//! Runs walks, which resolve questions by recursion: handles their requests and passes the results
//! to them.

use std::sync::Arc;

use avocet_dnssec::Reason;
use avocet_wire::Rcode;
use chacha20::rand_core::Rng;

use super::end::FoundAnswer;
use super::{Context, Resolver};
use crate::answer::{self};
use crate::bound::Bound;
use crate::exchange::pending::Owner;
use crate::failure::Failure;
use crate::iterate::cached::CacheSearch;
use crate::iterate::channel::{Moment, Note, Request, Response};
use crate::iterate::fetch::{Fetched, Inquiry, NotFetched};
use crate::iterate::resolve::Resolution;
use crate::iterate::rrset::{self, Denial, Signed};
use crate::iterate::{Ahead, Walk, WalkQuestion, WalkStep};

/// Maximum number of fetches that one walk starts early, for the keys of zones above the name.
const MAX_AHEAD: usize = 4;

impl<W> Resolver<W> {
    /// Begins to resolve a task's question by recursion.
    pub(super) fn begin_walk(&mut self, at: u32, cx: &mut Context<'_, W>) {
        let task = &mut self.tasks[at];
        let Some(bound) = task.bound.clone() else { return };
        let (qname, qtype) = (task.question.view().qname(), task.question.view().qtype());
        let anew = task.traced.is_some();
        let signatures = if task.dnssec_ok { Signed::Yes } else { Signed::No };
        let checking_disabled = task.checking_disabled;
        let luck = self.exchanges.rng.next_u64();
        let asked =
            WalkQuestion { qname: qname.into(), qtype, checking_disabled, anew, signatures, luck };
        let trace = task.with_trace(std::mem::take);
        task.walk = Some(Box::new(Walk::new(bound, asked, trace)));
        self.rearm(Owner::Task(at));
        self.drive(at, None, cx);
    }

    /// Passes the result of a fetch to the walk that waits for it.
    pub(super) fn fetched(
        &mut self,
        at: u32,
        fetch_at: u32,
        result: Result<Arc<Fetched>, NotFetched>,
        cx: &mut Context<'_, W>,
    ) {
        let Some(walk) = &mut self.tasks[at].walk else { return };
        if walk.waits_for != Some(fetch_at) {
            // Indices of fetches are reused. An entry that already has a result belongs to an
            // earlier fetch.
            for ahead in walk
                .ahead
                .iter_mut()
                .filter(|ahead| ahead.fetch == fetch_at && ahead.result.is_none())
            {
                ahead.result = Some(result.clone());
            }
            return;
        }
        walk.waits_for = None;
        walk.ahead.retain(|ahead| ahead.fetch != fetch_at || ahead.result.is_some());
        if result.is_ok() {
            self.tasks[at].progress_ms = cx.now_ms;
        }
        self.drive(at, Some(Response::Fetched(result)), cx);
    }

    /// Continues a walk until it waits for the network, or ends.
    fn drive(&mut self, at: u32, mut response: Option<Response>, cx: &mut Context<'_, W>) {
        loop {
            let task = &mut self.tasks[at];
            let Some(walk) = &mut task.walk else { return };
            let moment = Moment { wall_secs: cx.wall_secs, now_ms: cx.now_ms };
            let step = walk.step(response.take(), moment);
            for note in walk.take_notes() {
                self.heed(at, note, cx);
            }
            match step {
                WalkStep::Done(result) => return self.end_walk(at, result, cx),
                WalkStep::Asks(request) => response = self.serve(at, request, cx),
            }
            if response.is_none() {
                return self.rearm(Owner::Task(at));
            }
        }
    }

    /// Serves a request of a walk. Returns `None` if the response comes later.
    fn serve(&mut self, at: u32, request: Request, cx: &mut Context<'_, W>) -> Option<Response> {
        let (rrsets, now_secs) = (cx.rrsets, cx.now_secs());
        let mut search = CacheSearch { rrsets, now_secs, buffer: &mut self.found };
        match request {
            Request::LookUp(side, owner, rtype) => {
                Some(Response::LookedUp(search.look_up(side, owner.view(), rtype)))
            }
            Request::Part(qname, qtype, boundary_len) => {
                Some(Response::Part(search.part(&qname, qtype, boundary_len).map(Box::new)))
            }
            Request::Delegation(start, least_len) => {
                Some(Response::Delegation(search.delegation(start.view(), least_len)))
            }
            Request::Addresses(side, server) => {
                Some(Response::Addresses(search.addresses(side, server.view())))
            }
            Request::LookUpNxdomain(side, owner) => {
                Some(Response::Covering(search.look_up_nxdomain(side, owner.view())))
            }
            Request::Gap(sought) => Some(Response::Gap(self.gaps.get(&sought, cx.now_ms))),
            Request::Keys(zone) => Some(Response::Keys(self.keys.get(zone.view(), cx.now_ms))),
            Request::NearestKeys(name) => {
                Some(Response::NearestKeys(self.keys.nearest(name.view(), cx.now_ms)))
            }
            Request::Fetch(inquiry) => self.serve_fetch(at, *inquiry, cx),
        }
    }

    fn serve_fetch(
        &mut self,
        at: u32,
        inquiry: Inquiry,
        cx: &mut Context<'_, W>,
    ) -> Option<Response> {
        let inquiry = self.without_lame(inquiry, cx.now_ms);
        if let Some(walk) = &mut self.tasks[at].walk
            && let Some(place) =
                walk.ahead.iter().position(|ahead| ahead.inquiry.is_alike(&inquiry))
        {
            // The servers of the early fetch may not answer, and other servers may be known by now.
            let are_same = walk.ahead[place].inquiry.servers == inquiry.servers;
            match &walk.ahead[place].result {
                None if are_same => {
                    walk.waits_for = Some(walk.ahead[place].fetch);
                    return None;
                }
                Some(result) if are_same || result.is_ok() => {
                    let result = result.clone();
                    walk.ahead.swap_remove(place);
                    return Some(Response::Fetched(result));
                }
                _ => {}
            }
        }
        match self.begin_fetch(at, inquiry, cx) {
            Ok(fetch_at) => {
                if let Some(walk) = &mut self.tasks[at].walk {
                    walk.waits_for = Some(fetch_at);
                }
                None
            }
            Err(failed) => Some(Response::Fetched(Err(failed))),
        }
    }

    /// Starts a fetch for data that a walk will need soon. If the fetch fails, the walk requests
    /// the data itself.
    fn fetch_ahead(&mut self, at: u32, inquiry: Inquiry, cx: &mut Context<'_, W>) {
        let has_room =
            self.tasks[at].walk.as_ref().is_some_and(|walk| walk.ahead.len() < MAX_AHEAD);
        let inquiry = self.without_lame(inquiry, cx.now_ms);
        if has_room
            && let Ok(fetch) = self.begin_fetch(at, inquiry.clone(), cx)
            && let Some(walk) = &mut self.tasks[at].walk
        {
            walk.ahead.push(Ahead { inquiry, fetch, result: None });
        }
    }

    /// Removes the servers that are lame from an inquiry, unless all servers are lame.
    fn without_lame(&self, mut inquiry: Inquiry, now_ms: u64) -> Inquiry {
        let serves = |endpoint| {
            self.exchanges
                .servers
                .known(endpoint)
                .is_none_or(|server| !server.is_lame(inquiry.zone.view(), now_ms))
        };
        let good: Vec<_> =
            inquiry.servers.iter().copied().filter(|server| serves(*server)).collect();
        if !good.is_empty() {
            inquiry.servers = good;
        }
        inquiry
    }

    fn heed(&mut self, at: u32, note: Note, cx: &mut Context<'_, W>) {
        let now_secs = cx.now_secs();
        match note {
            Note::Lame(server, zone) => {
                self.counters.lame += 1;
                let server = self.exchanges.servers.number(server);
                self.exchanges.servers[server].note_lame(zone, cx.now_ms);
            }
            Note::Unsigned(server, zone) => {
                let server = self.exchanges.servers.number(server);
                self.exchanges.servers[server].note_unsigned(zone, cx.now_ms);
            }
            Note::Ahead(inquiry) => self.fetch_ahead(at, *inquiry, cx),
            Note::Report(report) => self.note_report(*report),
            Note::Alias => self.tasks[at].permit_alias(),
            Note::LocalRoot => self.counters.local_root += 1,
            Note::Synthesised => self.counters.synthesised += 1,
            Note::Limits(reached) => {
                let limits = self.counters.validation_limits.iter_mut().zip(reached);
                limits.for_each(|(count, reached)| *count += u64::from(reached));
            }
            // The results of a replaced plan may come from servers that are no longer allowed, so
            // they are not cached.
            _ if !self.is_current(at) => {}
            Note::Gaps(apex, soa, sets) => self.gaps.insert(&apex, soa, sets, cx.now_ms),
            // Under heavy loss, the reply was probably lost, so the failure is not cached.
            Note::Keys(_, Err(Reason::Unreachable), _)
                if self.exchanges.loss.is_heavy(cx.now_ms) => {}
            Note::Keys(zone, chain, lifetime_secs) => {
                self.keys.insert(zone, chain, cx.now_ms + u64::from(lifetime_secs) * 1_000);
            }
            Note::Store(set, how) => rrset::store(cx.rrsets, &set, &how, now_secs),
            Note::StoreDenial { owner, rtype, denial, how } => {
                rrset::store_denial(cx.rrsets, (owner.view(), rtype), &denial, &how, now_secs);
            }
        }
    }

    fn end_walk(&mut self, at: u32, result: Result<Resolution, Failure>, cx: &mut Context<'_, W>) {
        self.drop_walk(at, cx);
        let task = &mut self.tasks[at];
        match result {
            Ok(resolution) => {
                let signed = if task.dnssec_ok { Signed::Yes } else { Signed::No };
                resolution.gather(&mut self.gathered, signed);
                if let Some(failure) = resolution.failure {
                    // If answers are validated, a response with SERVFAIL has no data (RFC 4035
                    // §5.5).
                    if self.validates() && !self.tasks[at].checking_disabled {
                        self.gathered.clear();
                    }
                    return self.end_with(at, failure, cx);
                }
                let authentic = resolution.is_authentic();
                let task = &self.tasks[at];
                let refuses =
                    |bound: &Arc<Bound>| bound.plan.refuses_sentinel(task.question.view());
                if authentic && !task.checking_disabled && task.bound.as_ref().is_some_and(refuses)
                {
                    self.gathered.clear();
                    return self.end_with(at, Failure::Sentinel, cx);
                }
                self.counters.secure += u64::from(authentic);
                self.counters.insecure += u64::from(!authentic);
                let is_kept =
                    |denial: &Denial| denial.soa.is_some() || denial.rcode == Rcode::NOERROR;
                let cacheable = resolution.denial.as_ref().is_none_or(is_kept);
                let rcode = resolution.rcode;
                let ede = resolution.unsupported().map(answer::error_of);
                self.finish(at, FoundAnswer { rcode, cacheable, source: None, authentic, ede }, cx);
            }
            Err(failure) => {
                self.gathered.clear();
                self.end_with(at, failure, cx);
            }
        }
    }

    fn validates(&self) -> bool {
        self.bound.plan.recursion.as_ref().is_some_and(|recursion| recursion.validation.is_some())
    }

    /// Ends a task with SERVFAIL. The response has the gathered records.
    fn end_with(&mut self, at: u32, failure: Failure, cx: &mut Context<'_, W>) {
        let failure = self.tasks[at].cause(failure);
        self.tasks[at].note(failure);
        self.count_failure(failure);
        if failure == Failure::Crowded {
            // The load of other questions caused the failure, so it is not cached.
            return self.end_early(at, cx);
        }
        let gathered = std::mem::take(&mut self.gathered);
        self.fail_with(at, &gathered, cx);
        self.gathered = gathered;
        self.send_reports(cx);
    }

    fn count_failure(&mut self, failure: Failure) {
        match failure {
            Failure::Bogus(_) => self.counters.bogus += 1,
            Failure::Aliases => self.counters.limit_aliases += 1,
            Failure::TooManyReferrals => self.counters.limit_referrals += 1,
            Failure::TooManyServers => self.counters.limit_servers += 1,
            _ => {}
        }
    }

    /// Removes the walk from its task. The task keeps the trace.
    fn take_walk(&mut self, at: u32) -> Option<Box<Walk>> {
        let task = &mut self.tasks[at];
        let walk = task.walk.take()?;
        let trace = walk.with_trace(std::mem::take);
        task.with_trace(|own| *own = trace);
        Some(walk)
    }

    /// Ends a walk that has no result yet.
    pub(super) fn drop_walk(&mut self, at: u32, cx: &mut Context<'_, W>) {
        if let Some(walk) = self.take_walk(at) {
            self.leave_fetches(at, &walk, cx);
        }
    }

    fn leave_fetches(&mut self, at: u32, walk: &Walk, cx: &mut Context<'_, W>) {
        let ahead =
            walk.ahead.iter().filter(|ahead| ahead.result.is_none()).map(|ahead| ahead.fetch);
        for fetch_at in walk.waits_for.into_iter().chain(ahead) {
            self.leave_fetch(fetch_at, at, cx);
        }
    }
}
