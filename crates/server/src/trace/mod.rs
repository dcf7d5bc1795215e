//! The resolution of a name for control clients: traces, the contents of the caches, and the
//! answer.

pub(crate) mod dump;
pub(crate) mod given;
pub(crate) mod own_questions;
mod report;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use avocet_cache::{FailureKey, ReadAt};
use avocet_config::name::{reverse_name, typed_name};
use avocet_control::ControlError;
use avocet_control::trace::TraceReport;
use avocet_control::why::{
    CacheLook, CachedFailure, CachedName, FailedTrace, ResolvedTrace, WhySection,
};
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::query::Obtained;
use avocet_nameserver::query::rehearsal::{At, Ended, Rehearsal};
use avocet_nameserver::query::respond::draft_empty;
use avocet_resolver::{Step, Trace};
use avocet_wire::header::HEADER_LEN;
use avocet_wire::query::QuestionKey;
use avocet_wire::{
    Class, Ede, FoldedName, FoldedNameBuf, MessageView, Question, QuestionBuf, Rcode, Rtype, name,
    rdata,
};

use avocet_worker::mailbox::{KeptOrder, Letter, TraceOrder};
use avocet_worker::state::Shared;

/// Maximum wait for the resolution by a worker: longer than the resolution of any question takes.
const TRACE_PATIENCE: Duration = Duration::from_secs(12);
/// Maximum wait for the stored traces of the workers.
const LOOK_PATIENCE: Duration = Duration::from_secs(2);

/// A question of a control client.
pub(crate) struct TraceQuestion {
    qname: FoldedNameBuf,
    /// The type; `None` for all types, or for A if a single type is needed.
    rtype: Option<Rtype>,
    pub(crate) dnssec_ok: bool,
    pub(crate) checking_disabled: bool,
    /// The servers to query; empty for the servers that a client's query would use.
    servers: Box<[SocketAddr]>,
}

/// The result of a resolution.
pub(crate) struct Resolution {
    /// The trace.
    pub(crate) trace: TraceReport,
    /// The answer as a message; empty if there is none.
    pub(crate) message: Vec<u8>,
    /// The reason why there is no answer, if there is none.
    pub(crate) failure: Option<TraceFailure>,
}

/// The reason why a question could not be resolved.
#[derive(Clone, Copy)]
pub(crate) struct TraceFailure {
    /// The extended error for clients.
    pub(crate) ede: u16,
    /// The text of the extended error.
    pub(crate) text: &'static str,
}

impl TraceQuestion {
    /// Parses a name and a type.
    ///
    /// # Errors
    /// The name or the type is invalid.
    pub(crate) fn read(shown: &str, rtype: Option<&str>) -> Result<Self, ControlError> {
        let address = shown
            .parse()
            .ok()
            .filter(|_| rtype.is_some_and(|word| word.eq_ignore_ascii_case("PTR")));
        let qname = address
            .map_or_else(|| typed_name(shown), |address| Ok(reverse_name(address)))
            .map_err(|error| ControlError::InvalidName(error.to_string()))?;
        let qname = FoldedNameBuf::from_wire(&qname)
            .map_err(|error| ControlError::InvalidName(error.to_string()))?;
        let rtype = rtype
            .map(|word| {
                rdata::from_mnemonic(word)
                    .map(Rtype)
                    .ok_or_else(|| ControlError::UnknownType(word.to_owned()))
            })
            .transpose()?;
        Ok(Self::about(qname, rtype))
    }

    /// Returns the question with this name and type, for the usual servers.
    pub(crate) fn of(question: Question<'_>) -> Self {
        Self::about(question.qname().to_buf(), Some(question.qtype()))
    }

    fn about(qname: FoldedNameBuf, rtype: Option<Rtype>) -> Self {
        let (dnssec_ok, checking_disabled, servers) = (false, false, Box::default());
        Self { qname, rtype, dnssec_ok, checking_disabled, servers }
    }

    /// Returns the question for these servers, or for the usual ones if none are given.
    pub(crate) fn by(self, servers: &[SocketAddr]) -> Self {
        Self { servers: servers.into(), ..self }
    }

    /// Returns the name and the type. The type is A if none was given.
    pub(crate) fn name_and_type(&self) -> (FoldedName<'_>, Rtype) {
        (self.qname.view(), self.rtype.unwrap_or(Rtype::A))
    }

    pub(crate) fn question(&self) -> QuestionBuf {
        let (qname, rtype) = self.name_and_type();
        QuestionBuf::new(qname, rtype, Class::IN)
    }
}

/// Resolves the question without the packet cache, and traces it.
///
/// # Errors
/// The worker does not accept the question, or does not complete it in time.
pub(crate) fn resolve(shared: &Shared, asked: &TraceQuestion) -> Result<Resolution, ControlError> {
    let question = asked.question();
    let hash = QuestionKey::new(question.view().octets(), &shared.name_server.key, 0).hash;
    // The worker that would resolve the question for a client also resolves it here.
    let owner = (hash >> 48) as usize % shared.mailboxes.len();
    let (reply, traced) = channel();
    let (dnssec_ok, checking_disabled) = (asked.dnssec_ok, asked.checking_disabled);
    let servers = asked.servers.clone();
    let order = TraceOrder { question, hash, dnssec_ok, checking_disabled, servers, reply };
    if shared.mailboxes[owner].send(Letter::Trace(Box::new(order))).is_err() {
        return Err(ControlError::Overloaded);
    }
    let traced = traced.recv_timeout(TRACE_PATIENCE).map_err(|error| match error {
        RecvTimeoutError::Timeout => ControlError::ResolutionTimeout,
        RecvTimeoutError::Disconnected => ControlError::NotResolved,
    })?;
    let failure = traced.trace.events().iter().rev().find_map(|event| match event.step {
        Step::Failed { ede, text } => Some(TraceFailure { ede, text }),
        _ => None,
    });
    let is_failure = rcode(&traced.answer) == Rcode::SERVFAIL;
    Ok(Resolution {
        trace: report::of(&traced.trace),
        message: traced.answer,
        failure: failure.filter(|_| is_failure),
    })
}

/// Returns the trace and the answer for `query +trace`. Names that this server answers without
/// other servers are not resolved.
///
/// # Errors
/// As for [`resolve`].
pub(crate) fn trace(
    shared: &Shared,
    asked: TraceQuestion,
) -> Result<Vec<WhySection>, ControlError> {
    let state = shared.snapshot();
    let ip = IpAddr::from(Ipv4Addr::LOCALHOST);
    let rehearsal = Rehearsal::new((&shared.name_server, &state), ip, At::Now(wall_secs()));
    let miss = match rehearsal.begin_without_policy(asked.question().view()) {
        Ended::Wait(miss) => miss,
        ended => return Ok(vec![given::section(&state, &asked, ip, &ended)]),
    };
    let waiter = miss.waiter.as_ref().filter(|waiter| !waiter.aliases.is_empty());
    let Some(waiter) = waiter else {
        let Resolution { trace, message, .. } = resolve(shared, &asked)?;
        let answer = report::records(&message);
        return Ok(vec![WhySection::Resolved(ResolvedTrace { trace, answer })]);
    };
    let TraceQuestion { dnssec_ok, checking_disabled, .. } = asked;
    let target =
        TraceQuestion { dnssec_ok, checking_disabled, ..TraceQuestion::of(miss.question.view()) };
    let Resolution { trace, message, failure } = resolve(shared, &target)?;
    let ede = failure.map(|failure| (Ede(failure.ede), failure.text));
    let rcode = rcode(&message);
    let obtained = Obtained {
        rcode,
        message: &message,
        ttl_offsets: &[],
        kept_for: None,
        ede,
        stage: Obtained::stage_of(rcode, ede),
        upstream: None,
    };
    let ended = rehearsal.go_on(waiter, &obtained);
    Ok(vec![
        WhySection::Resolved(ResolvedTrace { trace, answer: None }),
        given::section(&state, &asked, ip, &ended),
    ])
}

/// Returns the RCODE of a message; SERVFAIL if it has none.
pub(crate) fn rcode(message: &[u8]) -> Rcode {
    MessageView::new(message).map_or(Rcode::SERVFAIL, |message| Rcode(message.header().flags & 0xf))
}

/// Returns the reply to a question for which no server is configured.
pub(crate) fn refusal(question: Question<'_>) -> Vec<u8> {
    let mut message = vec![0; HEADER_LEN + question.octets().len()];
    draft_empty(&mut message, Some(question.octets()), Rcode::REFUSED);
    message
}

/// Returns the data about a name that is known without a query: stored traces of failures, and the
/// contents of the caches.
pub(crate) fn known(shared: &Shared, asked: &TraceQuestion) -> Vec<WhySection> {
    let mut sections = failed_before(shared, asked);
    sections.extend(cached(shared, asked));
    sections
}

/// Returns the stored traces of failures, and the cached failures.
pub(crate) fn failed_before(shared: &Shared, asked: &TraceQuestion) -> Vec<WhySection> {
    let mut sections: Vec<WhySection> = kept(shared, asked).iter().map(failed).collect();
    sections.extend(failures(shared, asked));
    sections
}

fn kept(shared: &Shared, asked: &TraceQuestion) -> Vec<Trace> {
    let looks = shared.mailboxes.iter().filter_map(|mailbox| {
        let (reply, traces): (_, Receiver<Vec<Trace>>) = channel();
        let order = KeptOrder { qname: asked.qname.view().into(), reply };
        mailbox.send(Letter::Kept(Box::new(order))).ok().map(|()| traces)
    });
    let looks: Vec<_> = looks.collect();
    let mut traces: Vec<Trace> = looks
        .iter()
        .filter_map(|traces| traces.recv_timeout(LOOK_PATIENCE).ok())
        .flatten()
        .collect();
    let is_of = |trace: &Trace, rtype| trace.question().map(Question::qtype) == Some(rtype);
    traces.retain(|trace| asked.rtype.is_none_or(|rtype| is_of(trace, rtype)));
    traces.sort_by_key(Trace::began_wall_secs);
    traces
}

fn failed(trace: &Trace) -> WhySection {
    let secs_ago = wall_secs().saturating_sub(trace.began_wall_secs());
    WhySection::Failed(FailedTrace { trace: report::of(trace), secs_ago })
}

/// Returns the cached failures of a name; their questions are not resolved again for a while.
fn failures(shared: &Shared, asked: &TraceQuestion) -> Option<WhySection> {
    failure(shared, asked).map(WhySection::FailureCache)
}

fn failure(shared: &Shared, asked: &TraceQuestion) -> Option<CachedFailure> {
    let now = shared.name_server.clock.now().secs();
    let failure = shared
        .name_server
        .failures
        .lookup(&FailureKey { question: asked.question().view(), checking_disabled: false }, now)?;
    let ede = Ede(failure.ede);
    Some(CachedFailure {
        name: asked.qname.to_string(),
        ede: ede.0,
        text: ede.meaning().to_owned(),
    })
}

/// Returns the entries of the RRset cache at the name, and the delegations, denials and DNAME
/// records above it that apply.
fn cached(shared: &Shared, asked: &TraceQuestion) -> Option<WhySection> {
    let (cached, has_any) = rrsets_of(shared, asked);
    has_any.then_some(WhySection::Cache(cached))
}

/// Returns the cached data of a name.
pub(crate) fn look_up(shared: &Shared, asked: &TraceQuestion) -> CacheLook {
    CacheLook { cached: rrsets_of(shared, asked).0, failure: failure(shared, asked) }
}

/// Returns the contents of the RRset cache, and whether it has an entry at the name itself.
fn rrsets_of(shared: &Shared, asked: &TraceQuestion) -> (CachedName, bool) {
    let snapshot = shared.snapshot();
    let stale_window = snapshot.config.cache.serve_stale.as_ref().map_or(0, |stale| stale.max_secs);
    let at = ReadAt { now: shared.name_server.clock.now().secs(), stale_window };
    let mut lines = Vec::new();
    let visited: Result<(), std::convert::Infallible> =
        shared.name_server.rrsets.try_visit(at, |key, held| {
            let is_here = key.owner == asked.qname.view();
            let is_above =
                !is_here && name::is_under(asked.qname.wire(), &key.owner) && key.owner.len() > 1;
            let rtype = Rtype(key.rtype);
            let is_asked = asked.rtype.is_none_or(|asked| asked == rtype) || rtype == Rtype::CNAME;
            if is_here && is_asked
                || is_above && matches!(rtype, Rtype::NS | Rtype::DNAME | Rtype::DS)
            {
                lines.push((key.owner.len(), dump::rrset(key, held)));
            }
            Ok(())
        });
    let Ok(()) = visited;
    // The closest ancestor comes first.
    lines.sort_by_key(|(len, _)| std::cmp::Reverse(*len));
    let has_any = lines.iter().any(|(len, _)| *len == asked.qname.wire().len());
    let rrsets = lines.into_iter().map(|(_, line)| line).collect();
    (CachedName { name: asked.qname.to_string(), rrsets }, has_any)
}
