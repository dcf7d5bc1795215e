//! Driving walks: what a walk asks for is done, and what comes of it is given to it.

use std::sync::Arc;

use avocet_wire::Rcode;

use super::end::Found;
use super::{Context, Resolver};
use crate::answer::split_question;
use crate::iterate::channel::{Moment, Note, Request, Response};
use crate::iterate::fetch::{Fetched, NotFetched};
use crate::iterate::resolve::Resolution;
use crate::iterate::rrset::{self, Denial, Signed};
use crate::iterate::{Asked, Step, Walk};
use crate::task::{Bound, Failure};

impl<W> Resolver<W> {
    /// Begins to resolve a task's question by recursion.
    pub(super) fn begin_walk(&mut self, at: u32, cx: &mut Context<'_, W>) {
        let task = &mut self.tasks[at];
        let Some(bound) = task.bound.clone() else { return };
        let Some((qname, qtype, _)) = split_question(&task.question) else { return };
        let asked = Asked { qname: qname.into(), qtype, checking_disabled: task.checking_disabled };
        task.walk = Some(Box::new(Walk::new(bound, asked)));
        self.rearm(at);
        self.drive(at, None, cx);
    }

    /// What a walk waited for came to its end.
    pub(super) fn fetched(
        &mut self,
        at: u32,
        fetch_at: u32,
        result: Result<Arc<Fetched>, NotFetched>,
        cx: &mut Context<'_, W>,
    ) {
        let Some(walk) = &mut self.tasks[at].walk else { return };
        if walk.waits_for != Some(fetch_at) {
            return;
        }
        walk.waits_for = None;
        if result.is_ok() {
            self.tasks[at].progress_ms = cx.now_ms;
        }
        self.drive(at, Some(Response::Fetched(result)), cx);
    }

    /// Lets a walk go on until it waits for the network, or ends.
    fn drive(&mut self, at: u32, mut response: Option<Response>, cx: &mut Context<'_, W>) {
        loop {
            let task = &mut self.tasks[at];
            let Some(walk) = &mut task.walk else { return };
            let moment = Moment { wall_secs: cx.wall_secs };
            let step = walk.step(response.take(), moment);
            for note in walk.take_notes() {
                self.heed(at, note, cx);
            }
            match step {
                Step::Done(result) => return self.end_walk(at, result, cx),
                Step::Asks(request) => response = self.serve(at, request, cx),
            }
            if response.is_none() {
                return self.rearm(at);
            }
        }
    }

    /// Does what a walk asks for. None: it is under way.
    fn serve(&mut self, at: u32, request: Request, cx: &mut Context<'_, W>) -> Option<Response> {
        let now_secs = cx.now_secs();
        match request {
            Request::LookUp(side, owner, rtype) => {
                let found = rrset::look_up(cx.rrsets, (side, &owner, rtype), now_secs, &mut self.found);
                Some(Response::LookedUp(found))
            }
            Request::LookUpNxdomain(owner) => {
                Some(Response::Covering(rrset::look_up_nxdomain(cx.rrsets, &owner, now_secs, &mut self.found)))
            }
            Request::Gap(sought) => Some(Response::Gap(self.gaps.get(&sought, cx.now_ms))),
            Request::Keys(zone) => Some(Response::Keys(self.keys.get(&zone, cx.now_ms))),
            Request::Fetch(mut inquiry) => {
                let servers = &self.servers;
                let serves = |addr| servers.known(addr).is_none_or(|server| !server.is_lame(&inquiry.zone, cx.now_ms));
                let good: Vec<_> = inquiry.servers.iter().copied().filter(|server| serves(server.addr)).collect();
                // Where all are taken to be lame, they are asked after all.
                if !good.is_empty() {
                    inquiry.servers = good;
                }
                let failed = self.begin_fetch(at, *inquiry, cx)?;
                Some(Response::Fetched(Err(failed)))
            }
        }
    }

    fn heed(&mut self, at: u32, note: Note, cx: &mut Context<'_, W>) {
        let now_secs = cx.now_secs();
        match note {
            Note::Lame(addr, zone) => {
                self.counters.lame += 1;
                let server = self.servers.number(addr);
                self.servers[server].note_lame(zone, cx.now_ms);
            }
            Note::Synthesised => self.counters.synthesised += 1,
            Note::Limits(reached) => {
                let limits = self.counters.validation_limits.iter_mut().zip(reached);
                limits.for_each(|(count, reached)| *count += u64::from(reached));
            }
            // What a plan that was replaced found may come from servers that are not to be asked any more.
            _ if !self.is_current(at) => {}
            Note::Gaps(apex, soa, sets) => self.gaps.insert(&apex, soa, sets, cx.now_ms),
            Note::Keys(zone, chain, lifetime_secs) => {
                self.keys.insert(zone, chain, cx.now_ms + u64::from(lifetime_secs) * 1_000);
            }
            Note::Store(set, how) => rrset::store(cx.rrsets, &set, &how, now_secs),
            Note::StoreDenial { owner, rtype, denial, how } => {
                rrset::store_denial(cx.rrsets, (&owner, rtype), &denial, &how, now_secs);
            }
        }
    }

    fn end_walk(&mut self, at: u32, result: Result<Resolution, Failure>, cx: &mut Context<'_, W>) {
        let task = &mut self.tasks[at];
        task.walk = None;
        match result {
            Ok(resolution) => {
                let signed = if task.dnssec_ok { Signed::Yes } else { Signed::No };
                resolution.gather(&mut self.gathered, signed);
                if let Some(failure) = resolution.failure {
                    // Where answers are validated, SERVFAIL comes without data (RFC 4035 §5.5).
                    if self.validates() && !self.tasks[at].checking_disabled {
                        self.gathered.clear();
                    }
                    return self.end_with(at, failure, cx);
                }
                let authentic = resolution.is_authentic();
                let task = &self.tasks[at];
                let refuses = |bound: &Arc<Bound>| bound.plan.refuses_sentinel(&task.question);
                if authentic && !task.checking_disabled && task.bound.as_ref().is_some_and(refuses) {
                    self.gathered.clear();
                    return self.end_with(at, Failure::Sentinel, cx);
                }
                self.counters.secure += u64::from(authentic);
                self.counters.insecure += u64::from(!authentic);
                let is_kept = |denial: &Denial| denial.soa.is_some() || denial.rcode == Rcode::NOERROR;
                let cacheable = resolution.denial.as_ref().is_none_or(is_kept);
                let rcode = resolution.rcode;
                let ede = resolution.unsupported.map(|reason| (reason.ede(), reason.ede().meaning()));
                self.finish(at, Found { rcode, cacheable, ecs_scope: None, source: None, authentic, ede }, cx);
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

    /// Ends a task with SERVFAIL beside what was gathered.
    fn end_with(&mut self, at: u32, failure: Failure, cx: &mut Context<'_, W>) {
        self.tasks[at].note(failure);
        self.count_failure(failure);
        let gathered = std::mem::take(&mut self.gathered);
        self.fail_with(at, &gathered, cx);
        self.gathered = gathered;
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

    /// Ends a walk before its time.
    pub(super) fn drop_walk(&mut self, at: u32, cx: &mut Context<'_, W>) {
        let walk = self.tasks[at].walk.take();
        if let Some(fetch_at) = walk.and_then(|walk| walk.waits_for) {
            self.leave_fetch(fetch_at, at, cx);
        }
    }
}
