//! What the policy says to one client of a name: of the question, and of the answer where the caches have it. Nobody is
//! asked for it, and no rate limit counts it.

use std::net::IpAddr;

use avocet_cache::ReadAt;
use avocet_resolver::{Answers, Assembled, Assembler, NameServers, Wanted};
use avocet_wire::{Class, Rtype};
use serde_json::Value;

use crate::policy::{Answered, Asked, Moment, Outcome, Policy, Scratch};
use crate::query::asked::Transport;
use crate::state::{Shared, Snapshot};

/// Whose question is explained.
#[derive(Clone, Copy)]
pub(crate) struct Inquiry<'a> {
    /// The client's address.
    pub(crate) ip: IpAddr,
    /// Folded QNAME.
    pub(crate) qname: &'a [u8],
    /// QTYPE.
    pub(crate) qtype: Rtype,
    /// As of this Unix second.
    pub(crate) at_secs: u64,
}

impl Inquiry<'_> {
    fn asked(&self, policy: &Policy) -> Asked<'_> {
        let transport = Transport::Udp;
        let profile = policy.profile(self.ip, transport);
        Asked { profile, ip: self.ip, transport, qname: self.qname, qtype: self.qtype }
    }

    fn moment(&self, shared: &Shared, state: &Snapshot) -> (Moment, u32) {
        (Moment { wall_secs: self.at_secs, millis: shared.clock.now().millis() }, state.epoch)
    }

    fn question(&self) -> Vec<u8> {
        [self.qname, &self.qtype.0.to_be_bytes(), &Class::IN.0.to_be_bytes()].concat()
    }
}

/// What becomes of the question, in a word, and why; none where there is no policy.
pub(crate) fn outcome(shared: &Shared, state: &Snapshot, inquiry: &Inquiry<'_>) -> Option<Outcome> {
    let policy = state.policy.as_ref()?;
    let message = cached(shared, state, inquiry);
    Some(with_answer(shared, state, (inquiry, message.as_deref()), |answered| {
        let (asked, moment) = (inquiry.asked(policy), inquiry.moment(shared, state));
        policy.outcome(&asked, answered, moment, &mut Scratch::for_looking())
    }))
}

/// The same with all that decides, by an answer that is known or cached; none where there is no policy.
pub(super) fn section(
    shared: &Shared,
    state: &Snapshot,
    (inquiry, message): (&Inquiry<'_>, Option<&[u8]>),
) -> Option<Value> {
    let policy = state.policy.as_ref()?;
    let mut section = with_answer(shared, state, (inquiry, message), |answered| {
        let (asked, moment) = (inquiry.asked(policy), inquiry.moment(shared, state));
        policy.explain(&asked, answered, moment, &mut Scratch::for_looking())
    });
    section["section"] = "policy".into();
    section["revision"] = state.epoch.into();
    Some(section)
}

fn with_answer<T>(
    shared: &Shared,
    state: &Snapshot,
    (inquiry, message): (&Inquiry<'_>, Option<&[u8]>),
    explain: impl FnOnce(Option<&crate::policy::KnownAnswer<'_>>) -> T,
) -> T {
    let now = shared.clock.now().secs();
    let servers = |name: &[u8]| NameServers::above(&shared.rrsets, name, now);
    let has_own_servers = state.plan.has_own_rule(inquiry.qname);
    match message {
        Some(message) => {
            let translation = state.plan.translation();
            explain(Some(&Answered { message, has_own_servers, translation, servers: &servers }))
        }
        None => explain(None),
    }
}

/// The answer as the RRset cache has it, fresh.
pub(super) fn cached(shared: &Shared, state: &Snapshot, inquiry: &Inquiry<'_>) -> Option<Vec<u8>> {
    let question = inquiry.question();
    let at = ReadAt { now: shared.clock.now().secs(), stale_window: 0 };
    let wanted = Wanted { question: &question, dnssec_ok: false, checking_disabled: false, at };
    let mut answers = Answers::default();
    match Assembler::default().assemble(&state.plan, &shared.rrsets, &wanted, &mut answers) {
        Assembled::Complete { resolved, .. } => answers.octets.get(resolved.message).map(<[u8]>::to_vec),
        Assembled::Incomplete => None,
    }
}
