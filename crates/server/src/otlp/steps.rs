//! The spans below the root: one for each query to another server, and one for each lookup that had
//! to complete first. Other steps become events of the span that they belong to.

use std::net::SocketAddr;

use avocet_dnssec::{Reason, Verdict};
use avocet_otlp::{Attribute, Span, SpanEvent, SpanKind};
use avocet_resolver::{Carrier, Event, Find, Reaction, Step, Taken, Why};
use avocet_wire::{Question, Rcode, Rtype};

use super::root::{low_cardinality, without_dot};
use super::spans::{IdDraws, KnownQuery, SpanTimes};
use crate::trace::dump::{security, shown};

/// The spans of a trace, while its steps are processed in order.
pub(super) struct StepSpans<'i> {
    ids: &'i mut IdDraws,
    /// The spans, with the root first.
    spans: Vec<Span>,
    /// The root, and the open lookups that contain the next step.
    levels: Vec<Level>,
    /// Queries without a reply.
    open: Vec<OpenQuery>,
    /// The query with the last reply.
    replied: Option<usize>,
    /// Whether the next reply belongs to a query for another question.
    has_joined: bool,
    times: SpanTimes,
    /// The start of resolution, in Unix nanoseconds.
    began_ns: u64,
}

/// A question: that of the client, or a lookup that had to complete first.
struct Level {
    /// The span of the question.
    span: usize,
    /// The name that the lookup is for.
    target: String,
    /// The last query: its name and type.
    asked: Option<(String, Rtype)>,
    /// The number of equal queries before the last query.
    resends: u32,
}

struct OpenQuery {
    server: SocketAddr,
    span: usize,
}

impl<'i> StepSpans<'i> {
    /// Begins the spans below a root span.
    pub(super) fn below(root: Span, known: &KnownQuery<'_>, ids: &'i mut IdDraws) -> Self {
        let times = known.times();
        let trace = known.query.trace.as_ref();
        let question = trace.and_then(|trace| trace.question());
        let target = question.map_or_else(String::new, |question: Question<'_>| {
            without_dot(question.qname().to_string())
        });
        let began_ms = trace.map_or(known.query.since_ms, |trace| trace.began_ms());
        // The clocks are compared in milliseconds; events in the same millisecond count as
        // simultaneous.
        let apart_ms = began_ms.cast_signed() - known.query.since_ms.cast_signed();
        let began_ns = times.start_ns.saturating_add_signed(apart_ms.saturating_mul(1_000_000));
        Self {
            ids,
            spans: vec![root],
            levels: vec![Level { span: 0, target, asked: None, resends: 0 }],
            open: Vec::new(),
            replied: None,
            has_joined: false,
            times,
            began_ns,
        }
    }

    /// Processes the next step.
    pub(super) fn take(&mut self, event: &Event) {
        let at_ns = self.began_ns.saturating_add(u64::from(event.at_ms) * 1_000_000);
        let at_ns = at_ns.min(self.times.end_ns);
        while self.levels.len() > usize::from(event.depth) + 1 {
            self.end_level(at_ns);
        }
        match &event.step {
            Step::Seek { why, name, rtype } => {
                let target = without_dot(shown(name));
                let name = match why {
                    Why::Priming => "priming",
                    Why::Servers => "server address",
                    Why::Trust => "chain of trust",
                };
                let span = self.push(SpanKind::Internal, name.to_owned(), at_ns);
                self.spans[span].put("dns.question.name", target.clone());
                self.spans[span].put("avocet.question.type", rtype.to_string());
                self.levels.push(Level { span, target, asked: None, resends: 0 });
            }
            Step::Sent { .. } => self.take_query(&event.step, at_ns),
            Step::Replied { server, rtt_ms, reaction } => {
                self.take_reply(*server, *rtt_ms, *reaction, at_ns);
            }
            Step::Silent { server, after_ms } => {
                let attributes = vec![Attribute::new("avocet.timeout_ms", *after_ms)];
                let is_silent = |open: &&OpenQuery| {
                    open.server == *server && self.spans[open.span].error.is_none()
                };
                let Some(open) = self.open.iter().find(is_silent) else {
                    return self.event("timeout", attributes, at_ns);
                };
                // The query stays open, because a late reply is still processed.
                let span = &mut self.spans[open.span];
                span.events.push(SpanEvent { time_ns: at_ns, name: "timeout", attributes });
                (span.end_ns, span.error) = (at_ns, Some("timeout".into()));
            }
            Step::Unreachable(server) => self.end_query(*server, "unreachable", at_ns),
            Step::Tls(server, fault) => self.end_query(*server, fault.text(), at_ns),
            Step::Taken(taken) => self.take_class(taken, at_ns),
            step => {
                if let Step::Alias(name) = step {
                    self.level().target = without_dot(shown(name));
                }
                if matches!(step, Step::Joined) {
                    self.has_joined = true;
                }
                let (name, attributes) = described(step);
                self.event(name, attributes, at_ns);
            }
        }
    }

    /// Ends all spans and returns them. `dropped` is the number of steps that were not recorded.
    pub(super) fn finish(mut self, dropped: u32) -> Vec<Span> {
        let end_ns = self.times.end_ns;
        while self.levels.len() > 1 {
            self.end_level(end_ns);
        }
        for open in std::mem::take(&mut self.open) {
            let span = &mut self.spans[open.span];
            if span.error.is_none() {
                span.end_ns = end_ns;
                span.put("avocet.abandoned", true);
            }
        }
        self.spans[0].dropped_events = dropped;
        self.spans
    }

    fn take_query(&mut self, step: &Step, at_ns: u64) {
        let Step::Sent { server, zone, name, rtype, carrier, with_edns, with_proxy_header } = step
        else {
            return;
        };
        let level = self.level();
        let name = name.as_ref().map(|name| without_dot(shown(name)));
        let asked = (name.unwrap_or_else(|| level.target.clone()), *rtype);
        level.resends = if level.asked.as_ref() == Some(&asked) { level.resends + 1 } else { 0 };
        let resends = level.resends;
        level.asked = Some(asked.clone());
        let span = self.push(SpanKind::Client, format!("DNS {}", low_cardinality(*rtype)), at_ns);
        self.open.push(OpenQuery { server: *server, span });
        let span = &mut self.spans[span];
        span.put("dns.question.name", asked.0);
        span.put("avocet.question.type", rtype.to_string());
        put_server(span, *server);
        put_carrier(span, *carrier);
        if let Some(zone) = zone {
            span.put("avocet.zone", without_dot(shown(zone)));
        }
        span.put("avocet.edns", *with_edns);
        if *with_proxy_header {
            span.put("avocet.proxy_header", true);
        }
        if resends > 0 {
            span.put("avocet.resend_count", resends);
        }
    }

    fn take_reply(&mut self, server: SocketAddr, rtt_ms: u32, reaction: Reaction, at_ns: u64) {
        let sent_ns = at_ns.saturating_sub(u64::from(rtt_ms) * 1_000_000);
        // If there are several queries to the server, the reply belongs to the one that was sent a
        // round-trip time earlier.
        let apart = |open: &OpenQuery| self.spans[open.span].start_ns.abs_diff(sent_ns);
        let all = self.open.iter().enumerate().filter(|(_, open)| open.server == server);
        let found = all.min_by_key(|(_, open)| apart(open)).map(|(place, _)| place);
        let place = match found.map(|place| self.open.remove(place).span) {
            Some(span) => span,
            None => {
                // Another resolution had already sent this query when this one joined it.
                let span = self.push(SpanKind::Client, "DNS query".to_owned(), sent_ns);
                put_server(&mut self.spans[span], server);
                self.spans[span].put("avocet.joined", self.has_joined);
                span
            }
        };
        self.has_joined = false;
        self.replied = Some(place);
        let span = &mut self.spans[place];
        (span.end_ns, span.error) = (at_ns, None);
        span.put("avocet.rtt_ms", rtt_ms);
        let (reply, rcode) = match reaction {
            Reaction::Message(rcode) => ("message", Some(rcode)),
            Reaction::Truncated => ("truncated", None),
            Reaction::OtherCase => ("other-case", None),
            Reaction::OtherCookie => ("other-cookie", None),
            Reaction::Malformed => ("malformed", None),
            Reaction::BadCookie => ("bad-cookie", None),
            Reaction::WithoutCookie(rcode) => ("no-cookie", Some(rcode)),
            Reaction::WithoutEdns(rcode) => ("no-edns", Some(rcode)),
        };
        span.put("avocet.reply", reply);
        if let Some(rcode) = rcode {
            span.put("avocet.rcode", rcode.to_string());
        }
        let is_error = |rcode: &Rcode| !matches!(*rcode, Rcode::NOERROR | Rcode::NXDOMAIN);
        match rcode.filter(is_error) {
            Some(rcode) => fail(span, rcode.to_string()),
            None if reaction == Reaction::Malformed => fail(span, reply.to_owned()),
            None => {}
        }
    }

    fn take_class(&mut self, taken: &Taken, at_ns: u64) {
        let class = match taken {
            Taken::Answer => "answer",
            Taken::Referral(_) => "referral",
            Taken::Hearsay => "hearsay",
            Taken::Lame => "lame",
            Taken::Unsigned => "unsigned",
            Taken::Error(_) => "error",
            Taken::Unusable => "unusable",
        };
        let Some(span) = self.replied.take().map(|place| &mut self.spans[place]) else {
            return self.event("response", vec![Attribute::new("avocet.class", class)], at_ns);
        };
        span.put("avocet.class", class);
        if let Taken::Referral(zone) = taken {
            span.put("avocet.referral", without_dot(shown(zone)));
        }
    }

    /// Ends the query to a server with an error.
    fn end_query(&mut self, server: SocketAddr, error: &'static str, at_ns: u64) {
        let Some(place) = self.open.iter().rposition(|open| open.server == server) else {
            let attributes = vec![Attribute::new("server.address", server.ip().to_string())];
            return self.event(error, attributes, at_ns);
        };
        let span = &mut self.spans[self.open.remove(place).span];
        span.end_ns = at_ns;
        fail(span, error.to_owned());
    }

    /// Adds a span below the current level, and returns its index.
    fn push(&mut self, kind: SpanKind, name: String, start_ns: u64) -> usize {
        let (trace, above) = (self.spans[0].trace, self.level().span);
        let mut span = Span::new(trace, self.ids.span(), kind);
        span.parent = Some(self.spans[above].id);
        (span.name, span.start_ns, span.end_ns) = (name, start_ns, start_ns);
        self.spans.push(span);
        self.spans.len() - 1
    }

    fn event(&mut self, name: &'static str, attributes: Vec<Attribute>, time_ns: u64) {
        let place = self.level().span;
        self.spans[place].events.push(SpanEvent { time_ns, name, attributes });
    }

    fn end_level(&mut self, at_ns: u64) {
        if let Some(level) = self.levels.pop() {
            self.spans[level.span].end_ns = at_ns;
        }
    }

    fn level(&mut self) -> &mut Level {
        // The level of the root is never removed, so the list is not empty.
        let last = self.levels.len() - 1;
        &mut self.levels[last]
    }
}

fn fail(span: &mut Span, reason: String) {
    span.put("error.type", reason.clone());
    span.error = Some(reason.into());
}

fn put_server(span: &mut Span, server: SocketAddr) {
    span.put("server.address", server.ip().to_string());
    span.put("server.port", server.port());
}

fn put_carrier(span: &mut Span, carrier: Carrier) {
    let (network, protocol) = match carrier {
        Carrier::Udp => ("udp", "dns"),
        Carrier::Tcp => ("tcp", "dns"),
        Carrier::Tls => ("tcp", "dot"),
        Carrier::Https => ("tcp", "doh"),
        Carrier::Quic => ("quic", "doq"),
        Carrier::H3 => ("quic", "doh"),
    };
    span.put("network.transport", network);
    span.put("network.protocol.name", protocol);
}

/// Returns the name and the attributes of the event for a step that has no span.
fn described(step: &Step) -> (&'static str, Vec<Attribute>) {
    let name = |name: &[u8]| Attribute::new("avocet.name", without_dot(shown(name)));
    let of_zone = |zone: &[u8]| Attribute::new("avocet.zone", without_dot(shown(zone)));
    let rtype = |rtype: &Rtype| Attribute::new("avocet.type", rtype.to_string());
    let reason = |text: &'static str| Attribute::new("avocet.reason", text);
    match step {
        Step::Addresses(found) => ("addresses", vec![Attribute::new("avocet.count", *found)]),
        Step::Cached { name: of, rtype: asked, find, ttl_secs, security: status } => (
            "cache",
            vec![
                name(of),
                rtype(asked),
                Attribute::new("avocet.found", found(*find)),
                Attribute::new("avocet.ttl", *ttl_secs),
                Attribute::new("avocet.security", security(*status).text()),
            ],
        ),
        Step::Cut { zone, servers, addresses } => (
            "zone cut",
            vec![
                of_zone(zone),
                Attribute::new("avocet.servers", *servers),
                Attribute::new("avocet.addresses", *addresses),
            ],
        ),
        Step::LocalRoot { name: of, rtype: asked } => ("local root", vec![name(of), rtype(asked)]),
        Step::Own { name: of, rtype: asked } => ("own name", vec![name(of), rtype(asked)]),
        Step::Joined => ("joined", Vec::new()),
        Step::NoReply(why) => ("no reply", vec![reason(why)]),
        Step::Alias(to) => ("alias", vec![name(to)]),
        Step::Chain { .. } | Step::KnownChain { .. } | Step::Judged { .. } => validation(step),
        Step::Limit(which) => ("limit", vec![reason(which)]),
        Step::Answered { rcode, authentic } => (
            "answered",
            vec![
                Attribute::new("avocet.rcode", rcode.to_string()),
                Attribute::new("avocet.secure", *authentic),
            ],
        ),
        Step::Failed { ede, text } => {
            ("failed", vec![Attribute::new("avocet.ede", *ede), reason(text)])
        }
        // Spans represent these steps, so their events need no name of their own.
        Step::Seek { .. }
        | Step::Sent { .. }
        | Step::Replied { .. }
        | Step::Silent { .. }
        | Step::Unreachable(_)
        | Step::Tls(..)
        | Step::Taken(_) => ("step", Vec::new()),
    }
}

/// Returns the name and the attributes of the event for a step of validation.
fn validation(step: &Step) -> (&'static str, Vec<Attribute>) {
    let of_zone = |zone: &[u8]| Attribute::new("avocet.zone", without_dot(shown(zone)));
    match step {
        Step::Chain { zone, keys, fault, .. } => {
            let tags = keys.iter().map(u16::to_string).collect::<Vec<_>>().join(" ");
            let mut attributes = vec![of_zone(zone), Attribute::new("avocet.key_tags", tags)];
            put_verdict(&mut attributes, verdict_of(fault.as_ref()), fault.as_ref());
            ("validate keys", attributes)
        }
        Step::KnownChain { zone, fault } => {
            let mut attributes = vec![of_zone(zone)];
            put_verdict(&mut attributes, verdict_of(fault.as_ref()), fault.as_ref());
            ("known keys", attributes)
        }
        Step::Judged { name: of, rtype: asked, signature, verdict, fault } => {
            let mut attributes = vec![
                Attribute::new("avocet.name", without_dot(shown(of))),
                Attribute::new("avocet.type", asked.to_string()),
            ];
            if let Some((signer, tag, algorithm)) = signature {
                let signer = without_dot(shown(signer));
                attributes.push(Attribute::new("avocet.signer", signer));
                attributes.push(Attribute::new("avocet.key_tag", *tag));
                attributes.push(Attribute::new("avocet.algorithm", u16::from(*algorithm)));
            }
            put_verdict(&mut attributes, *verdict, fault.as_ref());
            ("validate", attributes)
        }
        _ => ("step", Vec::new()),
    }
}

fn found(find: Find) -> &'static str {
    match find {
        Find::Records => "records",
        Find::Nodata => "nodata",
        Find::Nxdomain => "nxdomain",
        Find::Gap => "gap",
    }
}

fn verdict_of(fault: Option<&Reason>) -> Verdict {
    fault.map_or(Verdict::Secure, |reason| reason.verdict())
}

fn put_verdict(attributes: &mut Vec<Attribute>, verdict: Verdict, fault: Option<&Reason>) {
    let result = match verdict {
        Verdict::Secure => "secure",
        Verdict::Insecure => "insecure",
        Verdict::Bogus => "bogus",
        Verdict::Indeterminate => "indeterminate",
    };
    attributes.push(Attribute::new("avocet.result", result));
    if let Some(fault) = fault {
        attributes.push(Attribute::new("avocet.reason", fault.to_string()));
        attributes.push(Attribute::new("avocet.ede", fault.ede().0));
    }
}

#[cfg(test)]
mod tests {
    use avocet_config::privacy::Privacy;
    use avocet_nameserver::query::asked::{Entrance, Transport};
    use avocet_nameserver::query::decision::{Decision, Stage};
    use avocet_nameserver::traces::{SelectedBy, TracedQuery};
    use avocet_otlp::AttributeValue;
    use avocet_policy::client::DeviceId;
    use avocet_wire::{FoldedName, Rtype};
    use chacha20::ChaCha12Rng;
    use chacha20::rand_core::SeedableRng;

    use super::super::root::root_span;
    use super::*;

    const START_US: u64 = 1_795_377_600_000_000;

    fn server(last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], 53))
    }

    fn sent(last: u8) -> Step {
        let name = FoldedName::new(b"\x03www\x07example\0").unwrap();
        Step::Sent {
            server: server(last),
            zone: None,
            name: Some(name.into()),
            rtype: Rtype::A,
            carrier: Carrier::Udp,
            with_edns: true,
            with_proxy_header: false,
        }
    }

    fn replied(last: u8, reaction: Reaction) -> Step {
        Step::Replied { server: server(last), rtt_ms: 7, reaction }
    }

    fn seek() -> Step {
        let name = FoldedName::new(b"\x02ns\x07example\0").unwrap();
        Step::Seek { why: Why::Servers, name: name.into(), rtype: Rtype::A }
    }

    /// Returns the spans of steps at these depths. The steps are ten milliseconds apart, in a query
    /// of 100 ms.
    fn spans(steps: Vec<(u8, Step)>) -> Vec<Span> {
        let query = TracedQuery {
            decision: Decision::at(Stage::Resolved, Transport::Udp, 1),
            client: [192, 0, 2, 77].into(),
            device: DeviceId::NONE,
            entrance: Entrance(0),
            question: Box::default(),
            since_us: START_US,
            since_ms: 5_000,
            took_us: 100_000,
            reply_octets: 50,
            selected_by: SelectedBy::Share,
            trace: None,
        };
        let privacy = Privacy::Full;
        let known =
            KnownQuery { query: &query, privacy, client: None, server: None, decider: None };
        let mut ids = IdDraws(ChaCha12Rng::from_seed([7; 32]));
        let root = root_span(&known, &mut ids);
        let mut spans = StepSpans::below(root, &known, &mut ids);
        for (number, (depth, step)) in (0..).zip(steps) {
            spans.take(&Event { at_ms: 10 * number, depth, step });
        }
        spans.finish(3)
    }

    /// Returns a line for each span: name, start and end in ms, the index of its parent, the
    /// server, resends, the error and the events.
    fn shown_lines(spans: &[Span]) -> Vec<String> {
        let line = |span: &Span| {
            let ms = |ns: u64| (ns - START_US * 1_000) / 1_000_000;
            let above = spans.iter().position(|other| Some(other.id) == span.parent);
            let above = above.map_or_else(|| "-".to_owned(), |place| place.to_string());
            let mut line =
                format!("{} {}-{} {above}", span.name, ms(span.start_ns), ms(span.end_ns));
            for one in &span.attributes {
                let value = match &one.value {
                    AttributeValue::Text(text) => text.to_string(),
                    AttributeValue::Int(int) => int.to_string(),
                    AttributeValue::Bool(is) => is.to_string(),
                };
                match one.key {
                    "server.address" => line.push_str(&format!(" to {value}")),
                    "avocet.resend_count" => line.push_str(&format!(" resend {value}")),
                    "avocet.abandoned" => line.push_str(" abandoned"),
                    "avocet.joined" => line.push_str(&format!(" joined {value}")),
                    "avocet.class" => line.push_str(&format!(" {value}")),
                    _ => {}
                }
            }
            if let Some(error) = &span.error {
                line.push_str(&format!(" error {error}"));
            }
            let events = span.events.iter().map(|event| format!(" [{}]", event.name));
            line + &events.collect::<String>()
        };
        spans.iter().map(line).collect()
    }

    #[track_caller]
    fn check(steps: Vec<(u8, Step)>, expected: &[&str]) {
        assert_eq!(shown_lines(&spans(steps)), expected);
    }

    #[test]
    fn each_query_is_a_span_until_its_reply() {
        let answer = Reaction::Message(Rcode::NOERROR);
        check(
            vec![
                (0, sent(1)),
                (0, Step::Silent { server: server(1), after_ms: 10 }),
                (0, sent(2)),
                (0, replied(2, answer)),
                (0, Step::Taken(Taken::Answer)),
                (0, Step::Answered { rcode: Rcode::NOERROR, authentic: false }),
            ],
            &[
                "DNS query 0-100 - [answered]",
                "DNS A 0-10 0 to 192.0.2.1 error timeout [timeout]",
                "DNS A 20-30 0 to 192.0.2.2 resend 1 answer",
            ],
        );
    }

    #[test]
    fn a_late_reply_ends_its_query_and_others_are_abandoned() {
        let refused = Reaction::Message(Rcode::REFUSED);
        check(
            vec![
                (0, sent(1)),
                (0, Step::Silent { server: server(1), after_ms: 10 }),
                (0, sent(2)),
                (0, sent(3)),
                (0, replied(1, refused)),
                (0, Step::Taken(Taken::Error(Rcode::REFUSED))),
                (0, Step::Unreachable(server(2))),
            ],
            &[
                "DNS query 0-100 -",
                "DNS A 0-40 0 to 192.0.2.1 error error REFUSED [timeout]",
                "DNS A 20-60 0 to 192.0.2.2 resend 1 error unreachable",
                "DNS A 30-100 0 to 192.0.2.3 resend 2 abandoned",
            ],
        );
    }

    #[test]
    fn a_reply_belongs_to_the_query_of_its_round_trip() {
        let answer = Reaction::Message(Rcode::NOERROR);
        let late = Step::Replied { server: server(1), rtt_ms: 40, reaction: answer };
        let silent = || Step::Silent { server: server(1), after_ms: 10 };
        check(
            vec![(0, sent(1)), (0, silent()), (0, sent(1)), (0, silent()), (0, late)],
            &[
                "DNS query 0-100 -",
                "DNS A 0-40 0 to 192.0.2.1 [timeout]",
                "DNS A 20-30 0 to 192.0.2.1 resend 1 error timeout [timeout]",
            ],
        );
    }

    #[test]
    fn a_lookup_has_the_queries_that_it_needs_below_it() {
        let answer = Reaction::Message(Rcode::NOERROR);
        check(
            vec![
                (0, seek()),
                (1, sent(1)),
                (1, replied(1, answer)),
                (1, Step::Addresses(1)),
                (0, sent(2)),
                (0, replied(2, Reaction::Truncated)),
            ],
            &[
                "DNS query 0-100 -",
                "server address 0-40 0 [addresses]",
                "DNS A 10-20 1 to 192.0.2.1",
                "DNS A 40-50 0 to 192.0.2.2",
            ],
        );
    }

    #[test]
    fn a_reply_to_another_question_is_a_span_of_its_round_trip() {
        let answer = Reaction::Message(Rcode::NXDOMAIN);
        check(
            vec![(0, Step::Joined), (0, replied(1, answer)), (0, Step::Taken(Taken::Answer))],
            &["DNS query 0-100 - [joined]", "DNS query 3-10 0 to 192.0.2.1 joined true answer"],
        );
    }

    /// Steps are dropped at the limit, so replies and deeper steps may lack the steps before them.
    #[test]
    fn steps_in_any_order_make_a_tree() {
        check(
            vec![
                (9, Step::Silent { server: server(1), after_ms: 10 }),
                (7, Step::Taken(Taken::Lame)),
                (0, Step::Unreachable(server(2))),
                (3, seek()),
                (9, sent(3)),
                (2, Step::Limit("queries")),
            ],
            &[
                "DNS query 0-100 - [timeout] [response] [unreachable]",
                "server address 30-100 0 [limit]",
                "DNS A 40-100 1 to 192.0.2.3 abandoned",
            ],
        );
    }

    #[test]
    fn no_span_ends_after_the_query_of_the_client() {
        let mut steps = vec![(0, sent(1))];
        steps.extend((0..30).map(|_| (0, Step::Joined)));
        steps.push((0, replied(1, Reaction::Malformed)));
        let spans = spans(steps);
        assert!(spans.iter().all(|span| span.end_ns <= spans[0].end_ns));
        assert_eq!((spans[0].dropped_events, spans[1].error.as_deref()), (3, Some("malformed")));
    }
}
