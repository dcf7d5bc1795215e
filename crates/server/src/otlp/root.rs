//! The root span of a trace: the query of a client and its outcome.

use avocet_nameserver::metrics::STAGES;
use avocet_nameserver::query::asked::Transport;
use avocet_nameserver::query::decision::{Decision, Stage};
use avocet_nameserver::traces::{SelectedBy, TracedQuery};
use avocet_otlp::{Span, SpanKind};
use avocet_wire::{Ede, Question, Rcode, Rtype};

use super::spans::{IdDraws, KnownQuery, SpanTimes};
use crate::query_log::states::{CACHES, Decider, VALIDATIONS};

/// Returns the root span.
pub(super) fn root_span(known: &KnownQuery<'_>, ids: &mut IdDraws) -> Span {
    let TracedQuery { decision, question, reply_octets, selected_by, .. } = known.query;
    let mut span = Span::new(ids.trace(), ids.span(), SpanKind::Server);
    span.name = format!("DNS {}", low_cardinality(decision.qtype));
    let SpanTimes { start_ns, end_ns } = known.times();
    (span.start_ns, span.end_ns) = (start_ns, end_ns);
    let question = question.to_ascii_lowercase();
    if let Some(question) = Question::new(&question).filter(|_| known.shows_names()) {
        span.put("dns.question.name", without_dot(question.qname().to_string()));
    }
    if decision.qtype != Rtype(0) {
        span.put("avocet.question.type", decision.qtype.to_string());
    }
    put_transport(&mut span, decision.transport);
    if let Some(client) = known.client {
        span.put("client.address", client.to_string());
    }
    if let Some(server) = known.server {
        span.put("server.address", server.ip().to_string());
        span.put("server.port", server.port());
    }
    put_decision(&mut span, decision);
    match &known.decider {
        Some(Decider::Rule(name)) => span.put("avocet.rule", (*name).to_owned()),
        Some(Decider::List(name)) => span.put("avocet.list", (*name).to_owned()),
        None => {}
    }
    span.put("avocet.response.size", *reply_octets);
    match selected_by {
        SelectedBy::Share => span.put("avocet.selected-by", "sample-share"),
        SelectedBy::Rule(name) => span.put("avocet.selected-by", name.to_string()),
    }
    span
}

/// Returns the type, or one word for all types without a mnemonic, because the names of spans must
/// be few.
pub(super) fn low_cardinality(rtype: Rtype) -> String {
    let shown = rtype.to_string();
    if rtype == Rtype(0) || shown.starts_with("TYPE") { "query".to_owned() } else { shown }
}

/// Returns a name in the form of OpenTelemetry: only the root has a dot at its end.
pub(super) fn without_dot(mut name: String) -> String {
    if name.len() > 1 && name.ends_with('.') && !name.ends_with("\\.") {
        name.pop();
    }
    name
}

fn put_transport(span: &mut Span, transport: Transport) {
    let (network, protocol) = match transport {
        Transport::Udp => ("udp", "dns"),
        Transport::Tcp => ("tcp", "dns"),
        Transport::Tls => ("tcp", "dot"),
        Transport::Https => ("tcp", "doh"),
        Transport::Quic => ("quic", "doq"),
        Transport::Odoh => ("tcp", "odoh"),
    };
    span.put("network.transport", network);
    span.put("network.protocol.name", protocol);
}

fn put_decision(span: &mut Span, decision: &Decision) {
    let Decision { rcode, ede, stage, cache, validated, .. } = *decision;
    span.put("avocet.rcode", rcode.to_string());
    if let Some(ede) = ede {
        span.put("avocet.ede", ede.0);
    }
    span.put("avocet.stage", STAGES.get(stage as usize).copied().unwrap_or_default());
    span.put("avocet.cache", CACHES.get(cache as usize).copied().unwrap_or_default());
    let validation = VALIDATIONS.get(validated as usize).copied().unwrap_or_default();
    span.put("avocet.validation", validation);
    let is_failure = matches!(stage, Stage::Failed | Stage::FailureHit | Stage::Shed);
    let is_of_policy = matches!(stage, Stage::Blocked | Stage::Rewritten);
    if is_failure || rcode == Rcode::SERVFAIL && !is_of_policy {
        // A failure without a reply has no RCODE.
        let rcode = if rcode == Rcode::NOERROR { Rcode::SERVFAIL } else { rcode };
        let reason = ede.map(Ede::meaning).unwrap_or_default();
        span.put("error.type", rcode.to_string());
        span.error = Some(reason.into());
    }
}
