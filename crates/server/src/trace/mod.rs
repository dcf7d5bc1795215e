//! How a name was resolved, told to control clients: traces and what the caches have, as JSON.

pub(crate) mod dump;
pub(crate) mod own_questions;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use avocet_cache::{FailureKey, ReadAt, Security};
use avocet_config::name::{reverse_name, typed_name};
use avocet_dnssec::{Reason, Verdict};
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::query::Obtained;
use avocet_nameserver::query::decision::{CACHE_STATES, STAGES, VALIDATED};
use avocet_nameserver::query::question::LocalQuestion;
use avocet_nameserver::query::rehearsal::{At, Ended, Rehearsal};
use avocet_nameserver::query::respond::draft_empty;
use avocet_nameserver::query::{Decision, Stage};
use avocet_nameserver::snapshot::Snapshot;
use avocet_resolver::{Event, Find, Reaction, Step, Taken, Trace, Why};
use avocet_wire::edns::EdnsOption;
use avocet_wire::header::{HEADER_LEN, Header, TC};
use avocet_wire::query::QuestionKey;
use avocet_wire::view::RecordView;
use avocet_wire::{Class, Ede, MessageView, Rcode, Rtype, name, rdata};
use serde_json::{Value, json};

use crate::mailbox::{KeptOrder, Letter, TraceOrder};
use crate::state::Shared;

/// How long the worker may take to resolve: longer than any question is in flight.
const TRACE_PATIENCE: Duration = Duration::from_secs(12);
/// How long workers may take to look at what they have kept.
const LOOK_PATIENCE: Duration = Duration::from_secs(2);

/// A question of a control client.
#[derive(Default)]
pub(crate) struct TraceQuestion {
    qname: Vec<u8>,
    /// None: all of them, or A where one is needed.
    rtype: Option<Rtype>,
    pub(crate) dnssec_ok: bool,
    pub(crate) checking_disabled: bool,
    /// The servers to ask; empty: those of the plan.
    servers: Box<[SocketAddr]>,
}

/// What came of resolving a question.
pub(crate) struct Resolution {
    /// How it went, for the control client.
    pub(crate) section: Value,
    /// The answer as a message; empty where there is none.
    pub(crate) message: Vec<u8>,
    /// Why there is none.
    pub(crate) failure: Option<TraceFailure>,
}

/// Why a question could not be resolved.
#[derive(Clone, Copy)]
pub(crate) struct TraceFailure {
    /// The extended error for clients.
    pub(crate) ede: u16,
    /// Its text.
    pub(crate) text: &'static str,
}

impl TraceQuestion {
    /// Reads a name and a type.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn read(shown: &str, rtype: Option<&str>) -> Result<Self, String> {
        let address = shown
            .parse()
            .ok()
            .filter(|_| rtype.is_some_and(|word| word.eq_ignore_ascii_case("PTR")));
        let qname = address
            .map_or_else(|| typed_name(shown), |address| Ok(reverse_name(address)))?
            .to_ascii_lowercase();
        let rtype = rtype
            .map(|word| {
                rdata::from_mnemonic(word)
                    .map(Rtype)
                    .ok_or_else(|| format!("{word:?} is not a record type"))
            })
            .transpose()?;
        Ok(Self { qname, rtype, ..Self::default() })
    }

    /// A question in folded wire form.
    pub(crate) fn of(question: &[u8]) -> Self {
        let LocalQuestion { qname, qtype, .. } = LocalQuestion::of(question);
        Self { qname: qname.to_vec(), rtype: Some(qtype), ..Self::default() }
    }

    /// The same question, put to these servers if there are any.
    pub(crate) fn by(self, servers: &[SocketAddr]) -> Self {
        Self { servers: servers.into(), ..self }
    }

    /// The folded name, and the type; A where none was given.
    pub(crate) fn name_and_type(&self) -> (&[u8], Rtype) {
        (&self.qname, self.rtype.unwrap_or(Rtype::A))
    }

    pub(crate) fn question(&self) -> Vec<u8> {
        let rtype = self.rtype.unwrap_or(Rtype::A);
        [&self.qname[..], &rtype.0.to_be_bytes(), &Class::IN.0.to_be_bytes()].concat()
    }
}

/// Resolves the question without the caches' final answers, and tells how.
///
/// # Errors
/// The server cannot take it, or does not come to an end with it.
pub(crate) fn resolve(shared: &Shared, asked: &TraceQuestion) -> Result<Resolution, String> {
    let question = asked.question();
    let hash = QuestionKey::new(&question, &shared.name_server.key, 0).hash;
    // The worker that would resolve it for a client.
    let owner = (hash >> 48) as usize % shared.mailboxes.len();
    let (reply, traced) = channel();
    let (dnssec_ok, checking_disabled) = (asked.dnssec_ok, asked.checking_disabled);
    let servers = asked.servers.clone();
    let order = TraceOrder {
        question: question.into(),
        hash,
        dnssec_ok,
        checking_disabled,
        servers,
        reply,
    };
    if shared.mailboxes[owner].send(Letter::Trace(Box::new(order))).is_err() {
        return Err("the server is too busy to resolve it".to_owned());
    }
    let traced = traced.recv_timeout(TRACE_PATIENCE).map_err(|error| match error {
        RecvTimeoutError::Timeout => "resolution did not finish in time".to_owned(),
        RecvTimeoutError::Disconnected => {
            "the server does not resolve it: no rule, or overload".to_owned()
        }
    })?;
    let mut section = trace_value(&traced.trace);
    section["section"] = "resolved".into();
    let failure = traced.trace.events().iter().rev().find_map(|event| match event.step {
        Step::Failed { ede, text } => Some(TraceFailure { ede, text }),
        _ => None,
    });
    let is_failure = rcode(&traced.answer) == Rcode::SERVFAIL;
    Ok(Resolution { section, message: traced.answer, failure: failure.filter(|_| is_failure) })
}

/// `query +trace`: how the question is resolved, and the answer. What this network answers by
/// itself is not resolved.
///
/// # Errors
/// As of [`resolve`].
pub(crate) fn trace(shared: &Shared, asked: TraceQuestion) -> Result<Vec<Value>, String> {
    let state = shared.snapshot();
    let ip = IpAddr::from(Ipv4Addr::LOCALHOST);
    let rehearsal = Rehearsal::new((&shared.name_server, &state), ip, At::Now(wall_secs()));
    let miss = match rehearsal.begin_without_policy(&asked.question()) {
        Ended::Wait(miss) => miss,
        ended => return Ok(vec![answer_section(&state, &asked, ip, &ended)]),
    };
    let waiter = miss.waiter.as_ref().filter(|waiter| !waiter.aliases.is_empty());
    let Some(waiter) = waiter else {
        let Resolution { mut section, message, .. } = resolve(shared, &asked)?;
        section["answer"] = answer(&message);
        return Ok(vec![section]);
    };
    let TraceQuestion { dnssec_ok, checking_disabled, .. } = asked;
    let target =
        TraceQuestion { dnssec_ok, checking_disabled, ..TraceQuestion::of(&miss.question) };
    let Resolution { section, message, failure } = resolve(shared, &target)?;
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
    Ok(vec![section, answer_section(&state, &asked, ip, &rehearsal.go_on(waiter, &obtained))])
}

/// RCODE of a message; SERVFAIL where there is none.
pub(crate) fn rcode(message: &[u8]) -> Rcode {
    MessageView::new(message).map_or(Rcode::SERVFAIL, |message| Rcode(message.header().flags & 0xf))
}

/// The reply to a question that no server is configured for.
pub(crate) fn refusal(question: &[u8]) -> Vec<u8> {
    let mut message = vec![0; HEADER_LEN + question.len()];
    draft_empty(&mut message, Some(question), Rcode::REFUSED);
    message
}

/// The answer that a client with this address gets, and which stage gives it.
pub(crate) fn answer_section(
    state: &Snapshot,
    asked: &TraceQuestion,
    ip: IpAddr,
    ended: &Ended,
) -> Value {
    let (qname, qtype) = asked.name_and_type();
    let mut section = json!({
        "section": "answer", "name": shown(qname), "type": qtype.to_string(), "client": ip.to_string(),
    });
    let (message, decision) = match ended {
        Ended::Reply { message, decision } => (&message[..], Some(decision)),
        Ended::Silent(decision) => (&[][..], Some(decision)),
        Ended::Wait(_) => (&[][..], None),
    };
    let stage = decision.map_or(Stage::Failed, |decision| decision.stage);
    section["from"] = STAGES[stage as usize].into();
    section["decision"] = decision.map(|decision| shown_decision(state, decision)).into();
    if message.is_empty() {
        return section;
    }
    section["rcode"] = rcode(message).to_string().into();
    section["truncated"] = Header::read(message).is_some_and(|header| header.has(TC)).into();
    section["answer"] = answer(message);
    let edns = MessageView::new(message).ok().and_then(|message| message.edns().ok().flatten());
    let ede = edns.as_ref().and_then(|edns| {
        edns.options().filter_map(Result::ok).find_map(|option| match option {
            EdnsOption::Ede(code, text) => {
                Some((code.0, String::from_utf8_lossy(text).into_owned()))
            }
            _ => None,
        })
    });
    if let Some((code, text)) = ede {
        section["ede"] = code.into();
        section["ede-text"] = text.into();
    }
    section
}

/// The decision as it is recorded for the client's query.
fn shown_decision(state: &Snapshot, decision: &Decision) -> Value {
    let by = state.policy.as_ref().and_then(|policy| policy.note_text(decision.note));
    json!({
        "stage": STAGES[decision.stage as usize],
        "cache": CACHE_STATES[decision.cache as usize],
        "validated": VALIDATED[decision.validated as usize],
        "by": by,
        "profile": decision.profile,
        "revision": decision.revision,
    })
}

/// All that is known of a name without asking anyone: traces of failures that were kept, what the
/// caches have.
pub(crate) fn known(shared: &Shared, asked: &TraceQuestion) -> Vec<Value> {
    let mut sections = failed_before(shared, asked);
    sections.extend(cached(shared, asked));
    sections
}

/// Traces of failures that were kept, and the failure that is remembered.
pub(crate) fn failed_before(shared: &Shared, asked: &TraceQuestion) -> Vec<Value> {
    let mut sections: Vec<Value> = kept(shared, asked).iter().map(kept_value).collect();
    sections.extend(failures(shared, asked));
    sections
}

fn kept(shared: &Shared, asked: &TraceQuestion) -> Vec<Trace> {
    let looks = shared.mailboxes.iter().filter_map(|mailbox| {
        let (reply, traces): (_, Receiver<Vec<Trace>>) = channel();
        let order = KeptOrder { qname: asked.qname.clone().into(), reply };
        mailbox.send(Letter::Kept(Box::new(order))).ok().map(|()| traces)
    });
    let looks: Vec<_> = looks.collect();
    let mut traces: Vec<Trace> = looks
        .iter()
        .filter_map(|traces| traces.recv_timeout(LOOK_PATIENCE).ok())
        .flatten()
        .collect();
    traces.retain(|trace| asked.rtype.is_none_or(|rtype| rtype_of(trace.question()) == rtype));
    traces.sort_by_key(Trace::began_wall_secs);
    traces
}

fn kept_value(trace: &Trace) -> Value {
    let mut section = trace_value(trace);
    section["section"] = "failed".into();
    section["secs-ago"] = wall_secs().saturating_sub(trace.began_wall_secs()).into();
    section
}

/// Failures that are remembered, so that the question is not tried again for a while.
fn failures(shared: &Shared, asked: &TraceQuestion) -> Option<Value> {
    let now = shared.name_server.clock.now().secs();
    let failure = shared
        .name_server
        .failures
        .lookup(&FailureKey { question: &asked.question(), checking_disabled: false }, now)?;
    let ede = Ede(failure.ede);
    Some(
        json!({ "section": "failure-cache", "name": shown(&asked.qname), "ede": ede.0, "text": ede.meaning() }),
    )
}

/// What the RRset cache has at the name, and what above it counts for it: delegations, denials,
/// DNAMEs.
fn cached(shared: &Shared, asked: &TraceQuestion) -> Option<Value> {
    let snapshot = shared.snapshot();
    let stale_window = snapshot.config.cache.serve_stale.as_ref().map_or(0, |stale| stale.max_secs);
    let at = ReadAt { now: shared.name_server.clock.now().secs(), stale_window };
    let mut lines = Vec::new();
    let visited: Result<(), std::convert::Infallible> =
        shared.name_server.rrsets.try_visit(at, |key, held| {
            let is_here = *key.owner == *asked.qname;
            let is_above =
                !is_here && name::is_under(&asked.qname, key.owner) && key.owner.len() > 1;
            let rtype = Rtype(key.rtype);
            let is_asked = asked.rtype.is_none_or(|asked| asked == rtype) || rtype == Rtype::CNAME;
            if is_here && is_asked
                || is_above && matches!(rtype, Rtype::NS | Rtype::DNAME | Rtype::DS)
            {
                lines.push((key.owner.len(), dump::rrset_line(key, held)));
            }
            Ok(())
        });
    let Ok(()) = visited;
    // What is nearest to the name comes first.
    lines.sort_by_key(|(len, _)| std::cmp::Reverse(*len));
    let has_any = lines.iter().any(|(len, _)| *len == asked.qname.len());
    let lines: Vec<Value> = lines.into_iter().map(|(_, line)| line).collect();
    has_any.then(|| json!({ "section": "cache", "name": shown(&asked.qname), "rrsets": lines }))
}

/// The records of an answer, as in a zone file, by section.
fn answer(octets: &[u8]) -> Value {
    let Ok(message) = MessageView::new(octets) else { return Value::Null };
    let line = |record: RecordView<'_>| {
        let mut data = vec![0; usize::from(u16::MAX)];
        let len = record.expand_rdata(&mut data).ok()?;
        let data = rdata::display(record.rtype.0, data.get(..len)?).to_string();
        let owner = record.owner().ok()?.to_string();
        Some(json!({
            "section": format!("{:?}", record.section).to_ascii_lowercase(),
            "name": owner, "ttl": record.ttl_secs(), "type": record.rtype.to_string(), "data": data,
        }))
    };
    let is_data = |record: &RecordView<'_>| record.rtype != Rtype::OPT;
    message.records().map_or(Value::Null, |records| {
        records.filter_map(Result::ok).filter(is_data).filter_map(line).collect()
    })
}

fn trace_value(trace: &Trace) -> Value {
    let question = trace.question();
    let name = question.split_last_chunk::<4>().map_or(&[][..], |(name, _)| name);
    let queries =
        trace.events().iter().filter(|event| matches!(event.step, Step::Sent { .. })).count();
    let mut events = trace.events().iter().peekable();
    json!({
        "name": shown(name),
        "type": rtype_of(question).to_string(),
        "at": trace.began_wall_secs(),
        "took-ms": trace.took_ms(),
        "queries": queries,
        "steps": nested(&mut events, 0),
        "steps-left-out": trace.dropped(),
    })
}

fn rtype_of(question: &[u8]) -> Rtype {
    question
        .last_chunk::<4>()
        .map_or(Rtype(0), |[high, low, ..]| Rtype(u16::from_be_bytes([*high, *low])))
}

/// The steps of one depth; what is deeper stands in the step before it.
fn nested<'a>(
    events: &mut std::iter::Peekable<impl Iterator<Item = &'a Event>>,
    depth: u8,
) -> Vec<Value> {
    let mut steps: Vec<Value> = Vec::new();
    while let Some(event) = events.peek().filter(|event| event.depth >= depth) {
        if event.depth > depth {
            let below = nested(events, depth + 1);
            match steps.last_mut() {
                Some(above) => above["steps"] = below.into(),
                None => steps.extend(below),
            }
            continue;
        }
        let mut step = step_value(&event.step);
        step["at-ms"] = event.at_ms.into();
        steps.push(step);
        events.next();
    }
    steps
}

fn step_value(step: &Step) -> Value {
    match step {
        Step::Seek { why, name, rtype } => {
            let what = match why {
                Why::Priming => "the root's servers",
                Why::Servers => "address of a server",
                Why::Trust => "chain of trust",
            };
            json!({ "step": "seek", "for": what, "name": shown(name), "type": rtype.to_string() })
        }
        Step::Addresses(found) => json!({ "step": "addresses", "found": found }),
        Step::Cached { name, rtype, find, ttl_secs, security } => json!({
            "step": "cached", "name": shown(name), "type": rtype.to_string(), "ttl": ttl_secs,
            "found": found(*find), "security": dump::security(*security),
        }),
        Step::Cut { zone, servers, addresses } => {
            json!({ "step": "cut", "zone": shown(zone), "servers": servers, "addresses": addresses })
        }
        Step::Sent { server, zone, name, rtype, over_tcp, with_edns } => json!({
            "step": "ask", "server": server.to_string(), "zone": zone.as_ref().map(|zone| shown(zone)),
            "name": name.as_ref().map(|name| shown(name)), "type": rtype.to_string(),
            "transport": if *over_tcp { "tcp" } else { "udp" }, "edns": with_edns,
        }),
        Step::LocalRoot { name, rtype } => {
            json!({ "step": "local-root", "name": shown(name), "type": rtype.to_string() })
        }
        Step::Own { name, rtype } => {
            json!({ "step": "own", "name": shown(name), "type": rtype.to_string() })
        }
        Step::Joined => json!({ "step": "joined" }),
        Step::Replied { server, rtt_ms, reaction } => {
            let (reaction, rcode) = reaction_words(*reaction);
            json!({
                "step": "reply", "server": server.to_string(), "rtt-ms": rtt_ms, "reply": reaction,
                "rcode": rcode.map(|rcode| rcode.to_string()),
            })
        }
        Step::Silent { server, after_ms } => {
            json!({ "step": "silent", "server": server.to_string(), "after-ms": after_ms })
        }
        Step::Unreachable(server) => json!({ "step": "unreachable", "server": server.to_string() }),
        Step::Taken(taken) => taken_value(taken),
        Step::NoReply(why) => json!({ "step": "no-reply", "why": why }),
        Step::Alias(to) => json!({ "step": "alias", "name": shown(to) }),
        Step::Chain { .. } | Step::KnownChain { .. } | Step::Judged { .. } => {
            validation_value(step)
        }
        Step::Limit(which) => json!({ "step": "limit", "limit": which }),
        Step::Answered { rcode, authentic } => {
            json!({ "step": "answered", "rcode": rcode.to_string(), "authentic": authentic })
        }
        Step::Failed { ede, text } => json!({ "step": "failed", "ede": ede, "text": text }),
    }
}

fn validation_value(step: &Step) -> Value {
    let why = |fault: &Option<Reason>| fault.as_ref().map(ToString::to_string);
    let ede = |fault: &Option<Reason>| fault.as_ref().map(|reason| reason.ede().0);
    let of_fault = |fault: &Option<Reason>| {
        verdict(fault.as_ref().map_or(Verdict::Secure, |reason| reason.verdict()))
    };
    match step {
        Step::Chain { zone, vouched, keys, fault } => json!({
            "step": "keys", "zone": shown(zone), "vouched-by": vouched, "key-tags": keys,
            "verdict": of_fault(fault), "why": why(fault), "ede": ede(fault),
        }),
        Step::KnownChain { zone, fault } => json!({
            "step": "known-keys", "zone": shown(zone), "verdict": of_fault(fault), "why": why(fault), "ede": ede(fault),
        }),
        Step::Judged { name, rtype, signature, verdict: status, fault } => json!({
            "step": "validated", "name": shown(name), "type": rtype.to_string(),
            "signer": signature.as_ref().map(|(signer, ..)| shown(signer)),
            "key-tag": signature.as_ref().map(|(_, tag, _)| tag),
            "algorithm": signature.as_ref().map(|(.., algorithm)| algorithm),
            "verdict": verdict(*status), "why": why(fault), "ede": ede(fault),
        }),
        _ => Value::Null,
    }
}

fn taken_value(taken: &Taken) -> Value {
    match taken {
        Taken::Answer => json!({ "step": "taken", "as": "answer" }),
        Taken::Referral(zone) => json!({ "step": "taken", "as": "referral", "zone": shown(zone) }),
        Taken::Hearsay => json!({ "step": "taken", "as": "hearsay" }),
        Taken::Lame => json!({ "step": "taken", "as": "lame" }),
        Taken::Unsigned => json!({ "step": "taken", "as": "unsigned" }),
        Taken::Error(rcode) => {
            json!({ "step": "taken", "as": "error", "rcode": rcode.to_string() })
        }
        Taken::Unusable => json!({ "step": "taken", "as": "unusable" }),
    }
}

fn found(find: Find) -> &'static str {
    match find {
        Find::Records => "records",
        Find::Nodata => "NODATA",
        Find::Nxdomain => "NXDOMAIN",
        Find::Gap => "a proven gap",
    }
}

fn reaction_words(reaction: Reaction) -> (&'static str, Option<Rcode>) {
    match reaction {
        Reaction::Message(rcode) => ("message", Some(rcode)),
        Reaction::Truncated => ("truncated", None),
        Reaction::OtherCase => ("other-case", None),
        Reaction::Malformed => ("malformed", None),
        Reaction::BadCookie => ("bad-cookie", None),
        Reaction::WithoutEdns(rcode) => ("no-edns", Some(rcode)),
    }
}

fn verdict(verdict: Verdict) -> &'static str {
    dump::security(match verdict {
        Verdict::Secure => Security::Secure,
        Verdict::Insecure => Security::Insecure,
        Verdict::Bogus => Security::Bogus,
        Verdict::Indeterminate => Security::Indeterminate,
    })
}

fn shown(wire: &[u8]) -> String {
    dump::shown(wire)
}
