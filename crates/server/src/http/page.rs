//! The block page, for browsers that requested a blocked name, which resolves to this server. It
//! shows the name, the reason, and the time.
//!
//! The request is untrusted: the name is parsed as a domain name, written in ASCII, and escaped.
//! The page is only for clients that may query the server; it shows the decision of the policy for
//! this client.

mod look;
mod words;

use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::policy::{Outcome, Treatment};
use avocet_nameserver::query::asked::{Entrance, Transport};
use avocet_nameserver::query::rehearsal::At;
use avocet_nameserver::snapshot::Snapshot;
use avocet_policy::client::{DeviceId, Identity};
use avocet_policy::rule::NamedTimeZone;
use avocet_web::audit::{AuditEntry, recorded};
use avocet_web::host::with_host;
use avocet_wire::name::MAX_NAME;
use avocet_wire::{FoldedNameBuf, NameBuf, Rtype, text};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderValue, REFERRER_POLICY, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;

use look::{Subject, page};
pub(super) use words::Words;

use super::{PLAIN, ask, malformed, response};
use crate::explain::{InquiringClient, Inquiry, outcome};
use crate::running::Running;
use crate::running::access_requests::{Applicant, AskOutcome, WaitingRequest};
use avocet_worker::connections::ConnectionLimits;

/// Maximum number of concurrent connections, on all addresses of the page.
const MAX_VISITS: usize = 64;
/// Maximum number of concurrent connections of one client: a browser opens six.
const MAX_VISITS_PER_CLIENT: usize = 8;
const LIMITS: ConnectionLimits = ConnectionLimits::new(MAX_VISITS, MAX_VISITS_PER_CLIENT);
/// Maximum number of octets of a Host header: a name of maximum length and a port. A longer one
/// would have escaped octets, which browsers do not send.
const MAX_HOST: usize = MAX_NAME + ":65535".len();

const HTML: &str = "text/html; charset=utf-8";

/// A visit of the block page: one connection.
pub(super) struct Visit {
    running: Arc<Running>,
    ip: IpAddr,
}

impl Visit {
    /// Admits a client; returns `None` if the client is refused.
    pub(super) fn begin(running: Arc<Running>, ip: IpAddr) -> Option<Self> {
        let (ip, visits) = (ip.to_canonical(), &running.visits);
        let is_allowed = running.shared.snapshot().allow.admits_somewhere(ip);
        if !is_allowed || visits.open.open(ip, &LIMITS).is_err() {
            visits.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(Self { running, ip })
    }

    /// Returns the page for a request, for any path.
    pub(super) async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        if let Some(text) = self.running.acme.proofs.at(request.uri().path()) {
            return closed(response(StatusCode::OK, PLAIN, text));
        }
        let visits = &self.running.visits;
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        let request = match with_host(request) {
            Ok(request) => request,
            Err(fault) => {
                count(&visits.unreadable);
                return malformed(fault);
            }
        };
        let is_form = ask::is_form(&request);
        if !is_form && request.method() != Method::GET && request.method() != Method::HEAD {
            count(&visits.unreadable);
            return response(
                StatusCode::METHOD_NOT_ALLOWED,
                PLAIN,
                "only GET and HEAD are supported\n".to_owned(),
            );
        }
        let Some(name) = request.headers().get(HOST).and_then(|host| host_name(host.as_bytes()))
        else {
            count(&visits.unreadable);
            return response(
                StatusCode::BAD_REQUEST,
                PLAIN,
                "the request has no Host\n".to_owned(),
            );
        };
        let words = Words::of(request.headers());
        let asked = match is_form {
            true => match ask::text(request).await {
                Ok(text) => Some(text),
                Err(fault) => {
                    count(&visits.unreadable);
                    let (status, text) = fault.response();
                    return response(status, PLAIN, text.to_owned());
                }
            },
            false => None,
        };
        let (state, now) = (self.running.shared.snapshot(), wall_secs());
        let (status, body) = match (self.verdict(&state, &name, now), asked) {
            (Some(_), Some(text)) => self.ask(words, &state, &name, &text),
            (Some(outcome), None) => {
                count(&visits.blocked);
                let applicant = self.applicant(&state);
                let is_waiting =
                    self.running.requests.is_waiting(&name.to_string(), &applicant, now);
                let form = match is_waiting {
                    true => format!("<p>{}</p>", words.waiting),
                    false => ask::form(words),
                };
                let time = time(&state, now);
                (
                    StatusCode::FORBIDDEN,
                    blocked(words, &name, &facts(words, &outcome, &time), &form),
                )
            }
            (None, _) => {
                count(&visits.not_blocked);
                let ttl_secs = state.config.policy.block.ttl_secs;
                (StatusCode::NOT_FOUND, not_blocked(words, &name, ttl_secs))
            }
        };
        closed(response(status, HTML, body))
    }

    /// Processes a request for access to a blocked name. The audit log records the request.
    fn ask(
        &self,
        words: &Words,
        state: &Snapshot,
        name: &FoldedNameBuf,
        text: &str,
    ) -> (StatusCode, String) {
        let (running, applicant, now) = (self.running.clone(), self.applicant(state), wall_secs());
        let (status, text) = match running.requests.ask(&name.to_string(), applicant, text, now) {
            AskOutcome::Taken(request) => {
                tracing::info!(name = request.name, client = %request.client, "access requested");
                // The file may be slow, and this thread serves all connections.
                tokio::task::spawn_blocking(move || running.web.audit.record(&entry(&request)));
                (StatusCode::OK, words.sent)
            }
            AskOutcome::Known => (StatusCode::OK, words.known),
            AskOutcome::Full => (StatusCode::SERVICE_UNAVAILABLE, words.full),
            AskOutcome::TooFast => (StatusCode::TOO_MANY_REQUESTS, words.too_fast),
        };
        let title = words.access(&shown(name));
        (status, page(words, Subject::Other, &title, &format!("<p>{text}</p>")))
    }

    /// Returns the client as the configuration identifies it.
    fn applicant(&self, state: &Snapshot) -> Applicant {
        let identity = state.policy.as_ref().map(|policy| policy.identify(self.ip));
        let Identity { client, groups, .. } = identity.unwrap_or_default();
        let is_table =
            |name: &String| state.config.policy.clients.iter().any(|table| table.name == *name);
        Applicant { client: self.ip, configured: client.filter(is_table), groups }
    }

    /// Returns the decision on the name for this client; `None` if it is not blocked or rewritten.
    fn verdict(&self, state: &Snapshot, name: &FoldedNameBuf, at_secs: u64) -> Option<Outcome> {
        let mut types =
            if self.ip.is_ipv4() { [Rtype::A, Rtype::AAAA] } else { [Rtype::AAAA, Rtype::A] }
                .into_iter();
        types.find_map(|qtype| {
            let inquiry = Inquiry {
                asker: InquiringClient {
                    device: DeviceId::NONE,
                    ip: self.ip,
                    entrance: Entrance::of_server(&state.config.server),
                    transport: Transport::Udp,
                },
                qname: name.view(),
                qtype,
                at: At::Now(at_secs),
            };
            let outcome = outcome(&self.running.shared, state, &inquiry)?;
            (!matches!(outcome.treatment, Treatment::Pass | Treatment::Forward)).then_some(outcome)
        })
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.running.visits.open.close(self.ip);
    }
}

/// Returns the name in a Host header (RFC 9110 §7.2); `None` if it is an address or not a name.
fn host_name(host: &[u8]) -> Option<FoldedNameBuf> {
    let host =
        str::from_utf8(host).ok().filter(|host| host.len() <= MAX_HOST && host.is_ascii())?;
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'.' | b'-' | b'_');
    if name.is_empty() || !name.bytes().all(is_plain) || name.parse::<IpAddr>().is_ok() {
        return None;
    }
    let mut wire = [0; MAX_NAME];
    let len = text::name_to_wire(name.as_bytes(), Some(&[0]), &mut wire).ok()?;
    FoldedNameBuf::from_wire(wire.get(..len)?).ok()
}

/// Returns the time in the configured time zone.
fn time(state: &Snapshot, now: u64) -> String {
    let name = &state.config.policy.time_zone;
    NamedTimeZone::named(name)
        .map_or_else(String::new, |zone| format!("{} ({name})", zone.shown(now)))
}

/// Returns the entry of the audit log about a request for access.
fn entry(request: &WaitingRequest) -> AuditEntry {
    let WaitingRequest { id, name, client, text, at, .. } = request;
    let fields = json!({ "id": id, "name": name, "message": text });
    AuditEntry {
        at: *at,
        who: String::new(),
        by: "block-page".to_owned(),
        from: client.to_string(),
        what: "ask for access".to_owned(),
        fields: fields.as_object().map(recorded).unwrap_or_default(),
        result: "ok".to_owned(),
    }
}

/// Returns the treatment of a name, the reason and the time, as markup.
fn facts(words: &Words, outcome: &Outcome, time: &str) -> String {
    let mut facts = String::new();
    let what = words.treatment(outcome.treatment);
    for (label, language, fact) in [
        (words.what, words.language, what),
        (words.why, "en", outcome.why.as_str()),
        (words.when, "en", time),
    ] {
        if !fact.is_empty() {
            let fact = escaped(fact);
            let _ = write!(facts, "<dt>{label}</dt><dd lang=\"{language}\">{fact}</dd>");
        }
    }
    facts
}

/// Returns the page of a blocked name. `facts` and `form` are markup.
fn blocked(words: &Words, name: &NameBuf, facts: &str, form: &str) -> String {
    let text = format!("<p>{}</p><dl>{facts}</dl>{form}", words.by_whom);
    page(words, Subject::Blocked, &words.blocked(&shown(name)), &text)
}

fn not_blocked(words: &Words, name: &NameBuf, ttl_secs: u32) -> String {
    let text = format!("<p>{}</p>", words.try_again(ttl_secs));
    page(words, Subject::Other, &words.not_blocked(&shown(name)), &text)
}

/// Returns the name without its final dot, escaped.
fn shown(name: &NameBuf) -> String {
    let text = name.to_string();
    escaped(text.strip_suffix('.').filter(|text| !text.is_empty()).unwrap_or(&text))
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// Forbids caching, framing and content sniffing.
fn closed(mut response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, look::CONTENT_POLICY.clone());
    for (header, value) in [
        (CACHE_CONTROL, "no-store"),
        (VARY, "Accept-Language"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "same-origin"),
    ] {
        response.headers_mut().insert(header, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(host: &str, expected: Option<&str>) {
        assert_eq!(
            host_name(host.as_bytes()).map(|name| name.to_string()).as_deref(),
            expected,
            "{host:?}"
        );
    }

    #[test]
    fn only_names_are_read_from_a_host_header() {
        check("Ads.Example", Some("ads.example."));
        check("ads.example.:8080", Some("ads.example."));
        check("_a-1.example", Some("_a-1.example."));
        for host in [
            "",
            ":80",
            "192.0.2.1",
            "192.0.2.1:80",
            "[::1]",
            "[::1]:80",
            "a..b",
            "<b>",
            "a b",
            "a/b",
            "a\\.b",
            "a@b",
            "a:b:c",
            "\u{fc}.example",
        ] {
            check(host, None);
        }
        check(&"a".repeat(64), None);
        check(&format!("{}example", "a.".repeat(130)), None);
    }

    #[test]
    fn nothing_in_a_page_is_markup_but_the_page() {
        let outcome =
            Outcome { treatment: Treatment::Block, why: "list <i>\"x\" & 'y'".to_owned() };
        let name = NameBuf::from_wire(b"\x03<b>\x07example\0").unwrap();
        let words = Words::of(&hyper::HeaderMap::new());
        let text = blocked(words, &name, &facts(words, &outcome, "now"), "");
        assert!(text.contains("<h1>&lt;b&gt;.example is blocked</h1>"), "{text}");
        assert!(text.contains("list &lt;i&gt;&quot;x&quot; &amp; &#39;y&#39;"), "{text}");
    }
}
