//! Converts traces and answers to the types of the control interface.

use std::iter::Peekable;
use std::net::SocketAddr;

use avocet_control::cache::SecurityStatus;
use avocet_control::status::UpstreamTransport;
use avocet_control::trace::{
    AnswerRecord, AnswerSection, CacheFind, ReplyClass, ReplyKind, SeekPurpose, SentQuery,
    TraceEvent, TraceReport, TraceStep, ValidatedData, ValidationResult,
};
use avocet_dnssec::{Reason, Verdict};
use avocet_resolver::{Carrier, Event, Find, Reaction, Step, Taken, Trace, Why};
use avocet_wire::view::{RecordSection, RecordView};
use avocet_wire::{MessageView, Question, Rtype, rdata};

use super::dump::{security, shown};

/// Returns the report of a trace.
pub(super) fn of(trace: &Trace) -> TraceReport {
    let question = trace.question();
    let is_query = |event: &&Event| matches!(event.step, Step::Sent { .. });
    TraceReport {
        name: question.map_or_else(String::new, |question| question.qname().to_string()),
        rtype: question.map_or(Rtype(0), Question::qtype).to_string(),
        at: trace.began_wall_secs(),
        took_ms: trace.took_ms(),
        queries: trace.events().iter().filter(is_query).count(),
        steps: nested(&mut trace.events().iter().peekable(), 0),
        steps_left_out: trace.dropped(),
    }
}

/// Returns the steps at one depth. Deeper steps become part of the preceding step.
fn nested<'a>(events: &mut Peekable<impl Iterator<Item = &'a Event>>, depth: u8) -> Vec<TraceStep> {
    let mut steps: Vec<TraceStep> = Vec::new();
    while let Some(event) = events.peek().filter(|event| event.depth >= depth) {
        if event.depth > depth {
            let below = nested(events, depth + 1);
            match steps.last_mut() {
                Some(above) => above.steps = below,
                None => steps.extend(below),
            }
            continue;
        }
        steps.push(TraceStep {
            at_ms: event.at_ms,
            event: trace_event(&event.step),
            steps: Vec::new(),
        });
        events.next();
    }
    steps
}

fn trace_event(step: &Step) -> TraceEvent {
    match step {
        Step::Seek { why, name, rtype } => {
            TraceEvent::Seek { purpose: purpose(*why), name: shown(name), rtype: rtype.to_string() }
        }
        Step::Addresses(found) => TraceEvent::Addresses { found: *found },
        Step::Cached { name, rtype, find, ttl_secs, security: status } => TraceEvent::Cached {
            name: shown(name),
            rtype: rtype.to_string(),
            ttl: *ttl_secs,
            found: cache_find(*find),
            security: security(*status),
        },
        Step::Cut { zone, servers, addresses } => {
            TraceEvent::Cut { zone: shown(zone), servers: *servers, addresses: *addresses }
        }
        Step::Sent { server, zone, name, rtype, carrier, with_edns, with_proxy_header } => {
            TraceEvent::Ask(SentQuery {
                server: server.to_string(),
                zone: zone.as_ref().map(|zone| shown(zone)),
                name: name.as_ref().map(|name| shown(name)),
                rtype: rtype.to_string(),
                transport: transport_of(*carrier),
                edns: *with_edns,
                proxy_header: *with_proxy_header,
            })
        }
        Step::LocalRoot { name, rtype } => {
            TraceEvent::LocalRoot { name: shown(name), rtype: rtype.to_string() }
        }
        Step::Own { name, rtype } => {
            TraceEvent::Own { name: shown(name), rtype: rtype.to_string() }
        }
        Step::Joined => TraceEvent::Joined {},
        Step::Replied { server, rtt_ms, reaction } => reply_event(server, *rtt_ms, *reaction),
        Step::Silent { server, after_ms } => silent_event(server, *after_ms),
        Step::Unreachable(server) => TraceEvent::Unreachable { server: server.to_string() },
        Step::Tls(server, fault) => {
            TraceEvent::TlsFailed { server: server.to_string(), why: fault.text().to_owned() }
        }
        Step::Taken(taken) => TraceEvent::Taken(reply_class(taken)),
        Step::NoReply(why) => TraceEvent::NoReply { why: (*why).to_owned() },
        Step::Alias(to) => TraceEvent::Alias { name: shown(to) },
        Step::Chain { zone, vouched, keys, fault } => TraceEvent::Keys {
            zone: shown(zone),
            vouched_by: vouched.clone(),
            key_tags: keys.clone(),
            result: result_of(fault.as_ref()),
        },
        Step::KnownChain { zone, fault } => {
            TraceEvent::KnownKeys { zone: shown(zone), result: result_of(fault.as_ref()) }
        }
        Step::Judged { name, rtype, signature, verdict, fault } => {
            TraceEvent::Validated(ValidatedData {
                name: shown(name),
                rtype: rtype.to_string(),
                signer: signature.as_ref().map(|(signer, ..)| shown(signer)),
                key_tag: signature.as_ref().map(|(_, tag, _)| *tag),
                algorithm: signature.as_ref().map(|(.., algorithm)| *algorithm),
                result: result(*verdict, fault.as_ref()),
            })
        }
        Step::Limit(which) => TraceEvent::Limit { limit: (*which).to_owned() },
        Step::Answered { rcode, authentic } => {
            TraceEvent::Answered { rcode: rcode.to_string(), authentic: *authentic }
        }
        Step::Failed { ede, text } => TraceEvent::Failed { ede: *ede, text: (*text).to_owned() },
    }
}

const fn purpose(why: Why) -> SeekPurpose {
    match why {
        Why::Priming => SeekPurpose::Priming,
        Why::Servers => SeekPurpose::Address,
        Why::Trust => SeekPurpose::Trust,
    }
}

const fn cache_find(find: Find) -> CacheFind {
    match find {
        Find::Records => CacheFind::Records,
        Find::Nodata => CacheFind::Nodata,
        Find::Nxdomain => CacheFind::Nxdomain,
        Find::Gap => CacheFind::Gap,
    }
}

fn transport_of(carrier: Carrier) -> UpstreamTransport {
    match carrier {
        Carrier::Udp => UpstreamTransport::Udp,
        Carrier::Tcp => UpstreamTransport::Tcp,
        Carrier::Tls => UpstreamTransport::Tls,
        Carrier::Https => UpstreamTransport::Https,
        Carrier::Quic => UpstreamTransport::Quic,
        Carrier::H3 => UpstreamTransport::H3,
    }
}

fn silent_event(server: &SocketAddr, after_ms: u32) -> TraceEvent {
    TraceEvent::Silent { server: server.to_string(), after_ms }
}

fn reply_event(server: &SocketAddr, rtt_ms: u32, reaction: Reaction) -> TraceEvent {
    let (reply, rcode) = match reaction {
        Reaction::Message(rcode) => (ReplyKind::Message, Some(rcode)),
        Reaction::Truncated => (ReplyKind::Truncated, None),
        Reaction::OtherCase => (ReplyKind::OtherCase, None),
        Reaction::OtherCookie => (ReplyKind::OtherCookie, None),
        Reaction::Malformed => (ReplyKind::Malformed, None),
        Reaction::BadCookie => (ReplyKind::BadCookie, None),
        Reaction::WithoutCookie(rcode) => (ReplyKind::NoCookie, Some(rcode)),
        Reaction::WithoutEdns(rcode) => (ReplyKind::NoEdns, Some(rcode)),
    };
    let rcode = rcode.map(|rcode| rcode.to_string());
    TraceEvent::Reply { server: server.to_string(), rtt_ms, reply, rcode }
}

fn reply_class(taken: &Taken) -> ReplyClass {
    match taken {
        Taken::Answer => ReplyClass::Answer {},
        Taken::Referral(zone) => ReplyClass::Referral { zone: shown(zone) },
        Taken::Hearsay => ReplyClass::Hearsay {},
        Taken::Lame => ReplyClass::Lame {},
        Taken::Unsigned => ReplyClass::Unsigned {},
        Taken::Error(rcode) => ReplyClass::Error { rcode: rcode.to_string() },
        Taken::Unusable => ReplyClass::Unusable {},
    }
}

/// Returns the result of the validation of keys: secure unless there is a fault.
fn result_of(fault: Option<&Reason>) -> ValidationResult {
    result(fault.map_or(Verdict::Secure, |reason| reason.verdict()), fault)
}

fn result(verdict: Verdict, fault: Option<&Reason>) -> ValidationResult {
    let verdict = match verdict {
        Verdict::Secure => SecurityStatus::Secure,
        Verdict::Insecure => SecurityStatus::Insecure,
        Verdict::Bogus => SecurityStatus::Bogus,
        Verdict::Indeterminate => SecurityStatus::Indeterminate,
    };
    let ede = fault.map(|reason| reason.ede().0);
    ValidationResult { verdict, why: fault.map(ToString::to_string), ede }
}

/// Returns the records of an answer in the format of a zone file; `None` if it is not a message.
pub(super) fn records(octets: &[u8]) -> Option<Vec<AnswerRecord>> {
    let message = MessageView::new(octets).ok()?;
    let is_data = |record: &RecordView<'_>| record.rtype != Rtype::OPT;
    let records = message.records().ok()?;
    Some(records.filter_map(Result::ok).filter(is_data).filter_map(|one| record(&one)).collect())
}

fn record(record: &RecordView<'_>) -> Option<AnswerRecord> {
    let mut data = vec![0; usize::from(u16::MAX)];
    let len = record.expand_rdata(&mut data).ok()?;
    Some(AnswerRecord {
        section: match record.section {
            RecordSection::Answer => AnswerSection::Answer,
            RecordSection::Authority => AnswerSection::Authority,
            RecordSection::Additional => AnswerSection::Additional,
        },
        name: record.owner().ok()?.to_string(),
        ttl: record.ttl_secs(),
        rtype: record.rtype.to_string(),
        data: rdata::display(record.rtype.0, data.get(..len)?).to_string(),
    })
}
