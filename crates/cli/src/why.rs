//! The readable output of `avocet why` and `avocet query +trace`: the policy's verdict, a trace as
//! a tree, and the answer.

use std::fmt::Write;

use avocet_control::cache::{CacheEntry, CachedRrset, RrsetContent};
use avocet_control::status::UpstreamTransport;
use avocet_control::trace::{
    AnswerRecord, AnswerSection, ReplyClass, ReplyKind, SentQuery, TraceEvent, TraceReport,
    TraceStep, ValidatedData, ValidationResult,
};
use avocet_control::why::{
    CachedName, GivenAnswer, GivenReply, ListLine, PolicyDecision, QueryStage, RuleFacts,
    WhySection,
};

use crate::output::counted;
use crate::{dump, past};

/// Returns a section as text.
pub(crate) fn text(section: &WhySection) -> String {
    match section {
        WhySection::Past(decision) => past::text(decision),
        WhySection::Policy(decision) => policy(decision),
        WhySection::Failed(failed) => {
            format!("It failed {} s ago:\n{}", failed.secs_ago, tree(&failed.trace))
        }
        WhySection::FailureCache(failure) => format!(
            "The failure is cached, so the server does not retry yet: {} (extended error {})",
            failure.text, failure.ede
        ),
        WhySection::Cache(name) => cache(name),
        WhySection::Resolved(resolved) => {
            format!("{}{}", tree(&resolved.trace), records(resolved.answer.as_deref()))
        }
        WhySection::Answer(answer) => given(answer),
    }
}

/// Returns the verdict, its client, and all rules and list lines for and against it.
fn policy(decision: &PolicyDecision) -> String {
    let client = &decision.client;
    let who = client.name.as_ref().map_or_else(String::new, |name| format!("{name}, "));
    let why = match decision.why.as_str() {
        "" => String::new(),
        why => format!(" by {why}"),
    };
    let mut text = format!(
        "The policy: {}{why}, for {} ({who}groups: {})",
        decision.verdict,
        client.address,
        client.groups.join(", ")
    );
    for rule in &decision.noted {
        text += &rule_line(rule, "holds");
    }
    if let Some(rule) = &decision.rule {
        text += &rule_line(rule, "decides");
    }
    if let Some(lifted) = decision.lifted {
        let _ = write!(text, "\n  a {lifted} suspends filtering");
    }
    if let Some(countries) = &decision.countries {
        let known =
            if countries.is_empty() { "none known".to_owned() } else { countries.join(", ") };
        let _ = write!(text, "\n  countries of the addresses: {known}");
    }
    for line in &decision.lists {
        let _ = write!(text, "\n  {}", list_line(line, decision.rule.as_ref()));
    }
    if decision.own_record {
        text += "\n  the name has a local record, so lists do not apply";
    }
    for group in &client.left_groups {
        let _ = write!(
            text,
            "\n  group {group} names only its network and does not apply: the client has its own \
             [[client]]"
        );
    }
    if let Some(until) = &decision.valid_until_local {
        let _ = write!(text, "\n  until {until}");
    }
    text
}

fn rule_line(rule: &RuleFacts, does: &str) -> String {
    let tag = rule.tag.as_ref().map_or_else(String::new, |tag| format!(" {tag}"));
    format!("\n  rule {} {does}: {}  ; {}{tag}", rule.name, rule.when, rule.action)
}

/// Returns a line of a list with its number, its effect, the alias that it matches, and its text.
/// `rule` is the deciding rule.
fn list_line(line: &ListLine, rule: Option<&RuleFacts>) -> String {
    let force = if line.in_force { "" } else { ", does not apply to this client" };
    let decides = match (line.decides, line.overruled, rule) {
        (true, ..) => ", decides".to_owned(),
        (false, true, Some(rule)) => {
            format!(", would decide, but rule {} goes first", rule.name)
        }
        (false, true, None) => ", would decide, but filtering is lifted".to_owned(),
        (false, false, _) => String::new(),
    };
    let trigger =
        line.trigger.map_or_else(String::new, |trigger| format!(" by {}", trigger.name()));
    let alias = line.alias.as_ref().map_or_else(String::new, |alias| format!(" the alias {alias}"));
    let text = line.text.as_ref().map_or_else(String::new, |text| format!("  ; {text}"));
    let list = line.list.as_deref().unwrap_or_default();
    let (number, effect) = (line.line, line.effect);
    format!("list {list}, line {number}: {effect}{alias}{trigger}{force}{decides}{text}")
}

/// Returns the answer that the client gets, and its source.
fn given(answer: &GivenAnswer) -> String {
    let GivenAnswer { name, rtype, client, reply, .. } = answer;
    let from = match &answer.zone {
        Some(zone) => format!("from the hosted zone {zone}; no other server is queried"),
        None => origin(answer.from, reply.as_ref()).to_owned(),
    };
    let Some(reply) = reply else {
        return format!("The answer to {name} {rtype} for {client}: no answer; {from}");
    };
    let ede = reply.ede.map_or_else(String::new, |code| match reply.ede_text.as_deref() {
        None | Some("") => format!(", extended error {code}"),
        Some(text) => format!(", extended error {code} ({text})"),
    });
    let left = match answer.from {
        QueryStage::PacketHit | QueryStage::RrsetHit => time_left(reply),
        _ => None,
    };
    let left = left.map_or_else(String::new, |secs| format!(", for {secs} s more"));
    format!(
        "The answer to {name} {rtype} for {client}: {}{ede}; {from}{left}{}",
        reply.rcode,
        records(reply.answer.as_deref())
    )
}

/// Returns the seconds until the first record of a response expires; `None` if it has no record.
fn time_left(reply: &GivenReply) -> Option<u32> {
    reply.answer.iter().flatten().map(|record| record.ttl).min()
}

fn origin(stage: QueryStage, reply: Option<&GivenReply>) -> &'static str {
    match stage {
        QueryStage::Local => "from local records; no other server is queried",
        QueryStage::Hosted => "from a hosted zone; no other server is queried",
        QueryStage::Pool => "from a pool of addresses; see `avocet zone pool show`",
        QueryStage::Special => "in a local zone or a special-use name; no other server is queried",
        QueryStage::Refused => "the client's address is not in [server] allow",
        QueryStage::PacketHit | QueryStage::RrsetHit => "from the cache",
        QueryStage::Resolved => "as resolved",
        QueryStage::Stale => "expired data, because resolution failed",
        QueryStage::Failed => "because resolution failed",
        QueryStage::FailureHit => "because resolution failed recently",
        QueryStage::Blocked => "from the policy",
        QueryStage::Rewritten => "from the policy, which rewrites the answer",
        QueryStage::Limited if reply.is_some_and(|reply| reply.truncated) => {
            "truncated by the policy, so that the client retries over TCP"
        }
        QueryStage::Limited => "from the policy, which limits the rate",
        QueryStage::Dropped => "the policy drops the query",
        QueryStage::Malformed => "queries of this type are not answered",
        QueryStage::Ignored | QueryStage::Chaos | QueryStage::NotRecursive | QueryStage::Shed => {
            stage.text()
        }
    }
}

fn cache(name: &CachedName) -> String {
    let mut text = format!("In the cache, of {}:", name.name);
    let rrsets = name.rrsets.iter().filter_map(|entry| match entry {
        CacheEntry::Rrset(rrset) => Some(rrset),
        CacheEntry::Packet(_) => None,
    });
    for rrset in rrsets {
        let source = source(rrset);
        for record in dump::records(rrset).lines() {
            let _ = write!(text, "\n  {record}  ; {source}");
        }
    }
    text
}

fn source(rrset: &CachedRrset) -> String {
    match &rrset.content {
        _ if rrset.to_find_servers => "delegation data from the parent".to_owned(),
        RrsetContent::Denial { .. } => "a denial".to_owned(),
        RrsetContent::Records { rank, security, .. } => {
            format!("{}, {security}", rank.text().replace('-', " "))
        }
    }
}

fn tree(trace: &TraceReport) -> String {
    let queries = counted(trace.queries as u64, "query", "queries");
    let TraceReport { name, rtype, took_ms, .. } = trace;
    let mut text = format!("{name} {rtype}, {took_ms} ms, {queries}\n");
    branch(&trace.steps, "", &mut text);
    if trace.steps_left_out > 0 {
        let left_out = counted(trace.steps_left_out.into(), "step was", "steps were");
        let _ = writeln!(text, "{left_out} left out");
    }
    text
}

fn branch(steps: &[TraceStep], indent: &str, out: &mut String) {
    for (place, step) in steps.iter().enumerate() {
        let is_last = place + 1 == steps.len();
        let (fork, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let _ = writeln!(out, "{:>5} ms {indent}{fork}{}", step.at_ms, sentence(&step.event));
        branch(&step.steps, &format!("{indent}{below}"), out);
    }
}

fn sentence(event: &TraceEvent) -> String {
    match event {
        TraceEvent::Seek { purpose, name, rtype } => format!("{purpose}: {name} {rtype}"),
        TraceEvent::Addresses { found } => format!("{} found", addresses(*found)),
        TraceEvent::Cached { name, rtype, ttl, found, security } => {
            format!("in the cache: {name} {rtype}, {found}, {security}, for {ttl} s")
        }
        TraceEvent::Cut { zone, servers, addresses: known } => {
            let servers = counted(*servers as u64, "server", "servers");
            format!("zone {zone}: {servers}, {} known", addresses(*known))
        }
        TraceEvent::Ask(query) => ask(query),
        TraceEvent::Own { name, rtype } => format!("this server answers {name} {rtype} itself"),
        TraceEvent::LocalRoot { name, rtype } => format!("copy of the root zone, {name} {rtype}"),
        TraceEvent::Joined {} => "an equal query is in flight; its response serves both".to_owned(),
        TraceEvent::Reply { server, rtt_ms, reply, rcode } => {
            let what = reply_text(*reply, rcode.as_deref().unwrap_or_default());
            format!("{} after {rtt_ms} ms: {what}", without_port(server))
        }
        TraceEvent::Silent { server, after_ms } => {
            format!("{} has not responded after {after_ms} ms", without_port(server))
        }
        TraceEvent::Unreachable { server } => {
            format!("{} cannot be reached", without_port(server))
        }
        TraceEvent::TlsFailed { server, why } => format!("{server}: {why}"),
        TraceEvent::Taken(class) => class_text(class),
        TraceEvent::NoReply { why } => why.clone(),
        TraceEvent::Alias { name } => format!("alias: continuing with {name}"),
        TraceEvent::Keys { zone, vouched_by, key_tags, result } => {
            let keys = format!("keys of {zone} [{}]", tags(key_tags));
            let by = match vouched_by.is_empty() {
                true => "by the trust anchor".to_owned(),
                false => format!("by DS {}", tags(vouched_by)),
            };
            format!("{keys} {by}{}", result_text(result))
        }
        TraceEvent::KnownKeys { zone, result } => {
            format!("chain of trust to {zone}, known{}", result_text(result))
        }
        TraceEvent::Validated(data) => validated(data),
        TraceEvent::Limit { limit } => format!("limit reached: {limit}"),
        TraceEvent::Answered { rcode, authentic } => {
            format!("{rcode}{}", if *authentic { ", all of it secure" } else { "" })
        }
        TraceEvent::Failed { ede, text } => format!("failed: {text} (extended error {ede})"),
    }
}

fn addresses(count: usize) -> String {
    match count {
        0 => "no address".to_owned(),
        count => counted(count as u64, "address", "addresses"),
    }
}

/// Returns a server's address, with its port if it is not 53.
fn without_port(server: &str) -> &str {
    server.strip_suffix(":53").unwrap_or(server)
}

fn ask(query: &SentQuery) -> String {
    let server = without_port(&query.server);
    let by = match query.transport {
        UpstreamTransport::Tcp => " by TCP",
        UpstreamTransport::Tls => " by TLS",
        UpstreamTransport::Https => " by HTTPS",
        UpstreamTransport::Quic => " by QUIC",
        UpstreamTransport::H3 => " by HTTP/3",
        UpstreamTransport::Udp => "",
    };
    let plain = if query.edns { "" } else { ", without EDNS" };
    let proxied = if query.proxy_header { ", behind a PROXY header" } else { "" };
    match (&query.name, &query.zone) {
        (Some(name), Some(zone)) => {
            format!("ask {server}{by} for {name} {}, of zone {zone}{plain}{proxied}", query.rtype)
        }
        _ => format!("ask {server}{by}, as a forwarder{plain}{proxied}"),
    }
}

fn reply_text(reply: ReplyKind, rcode: &str) -> String {
    match reply {
        ReplyKind::Message => rcode.to_owned(),
        ReplyKind::Truncated => "truncated, retrying over TCP".to_owned(),
        ReplyKind::OtherCase => "other letter case than in the query, retrying over TCP".to_owned(),
        ReplyKind::OtherCookie => "other client cookie than ours, retrying over TCP".to_owned(),
        ReplyKind::Malformed => "malformed".to_owned(),
        ReplyKind::BadCookie => "BADCOOKIE".to_owned(),
        ReplyKind::NoCookie => format!("{rcode}, retrying without a cookie"),
        ReplyKind::NoEdns => format!("{rcode}, retrying without EDNS"),
    }
}

fn class_text(class: &ReplyClass) -> String {
    match class {
        ReplyClass::Answer {} => "accepted as answer".to_owned(),
        ReplyClass::Referral { zone } => format!("referral to {zone}"),
        ReplyClass::Hearsay {} => {
            "the server is not authoritative for the zone; used only without \
                                   a better response"
                .to_owned()
        }
        ReplyClass::Lame {} => "lame: the server is not authoritative for the zone".to_owned(),
        ReplyClass::Error { rcode } => format!("error: {rcode}"),
        ReplyClass::Unsigned {} | ReplyClass::Unusable {} => "unusable".to_owned(),
    }
}

fn validated(data: &ValidatedData) -> String {
    let ValidatedData { name, rtype, signer, key_tag, algorithm, result } = data;
    let by = match (signer, key_tag, algorithm) {
        (Some(signer), Some(tag), Some(algorithm)) => {
            format!("signed by {signer} {tag}, algorithm {algorithm}")
        }
        _ => "not signed".to_owned(),
    };
    format!("{name} {rtype} {by}{}", result_text(result))
}

fn result_text(result: &ValidationResult) -> String {
    let why = result.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    format!(": {}{why}", result.verdict)
}

fn tags(tags: &[u16]) -> String {
    tags.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the records of an answer as in a zone file; those of other sections are comments.
fn records(answer: Option<&[AnswerRecord]>) -> String {
    let mut text = String::new();
    for record in answer.unwrap_or_default() {
        let AnswerRecord { section, name, ttl, rtype, data } = record;
        let comment = if *section == AnswerSection::Answer { "" } else { "; " };
        let _ = write!(text, "\n{comment}{name} {ttl} IN {rtype} {data}");
    }
    text
}

#[cfg(test)]
mod tests {
    use avocet_control::line::{ReplyLine, read_reply};
    use avocet_control::request::Trace;
    use avocet_control::why::ListEffect;

    use super::*;

    #[test]
    fn a_line_that_blocks_an_alias_names_it() {
        let line = ListLine {
            list: Some("ads".to_owned()),
            line: 2,
            effect: ListEffect::Block,
            important: None,
            trigger: None,
            alias: Some("tracker.net.".to_owned()),
            in_force: true,
            decides: true,
            overruled: false,
            text: Some("||tracker.net^".to_owned()),
        };
        let shown = list_line(&line, None);
        let expected = "list ads, line 2: block the alias tracker.net., decides  ; ||tracker.net^";
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_trace_is_a_tree() {
        let line = r#"{
            "section": "resolved", "name": "a.", "type": "A", "at": 0, "took-ms": 21,
            "queries": 2, "steps-left-out": 1,
            "steps": [
                { "step": "cut", "at-ms": 0, "zone": ".", "servers": 1, "addresses": 0 },
                { "step": "seek", "at-ms": 0, "for": "address of a server", "name": "ns.",
                  "type": "A", "steps": [
                    { "step": "ask", "at-ms": 1, "server": "192.0.2.1:53", "zone": ".",
                      "name": "ns.", "type": "A", "transport": "udp", "edns": true } ] },
                { "step": "answered", "at-ms": 21, "rcode": "NOERROR", "authentic": true } ],
            "answer": [{ "section": "answer", "name": "a.", "ttl": 60, "type": "A",
                         "data": "192.0.2.7" }] }"#;
        let expected = "a. A, 21 ms, 2 queries\n    0 ms ├─ zone .: 1 server, no address known\n    0 ms ├─ \
             address of a server: ns. A\n    1 ms │  └─ ask 192.0.2.1 for ns. A, of zone .\n   21 \
             ms └─ NOERROR, all of it secure\n1 step was left out\n\na. 60 IN A 192.0.2.7";
        let Ok(ReplyLine::Part(section)) = read_reply::<Trace>(line) else { panic!("{line}") };
        assert_eq!(text(&section), expected);
    }
}
