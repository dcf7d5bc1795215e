//! `[otlp]` and `[[trace]]`: the queries with an exported trace, and the collector.

use std::fmt;
use std::mem;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ipnet::IpNet;
use toml::{Spanned, Table, Value};
use zeroize::Zeroizing;

use super::check::Check;
use super::header_field::{HeaderField, MAX_HEADER_FIELDS};
use super::key::is_readable_by_others;
use super::name::shown as shown_name;
use super::named_file;
use super::oidc::is_readable_on_the_way;
pub use super::otlp_spec::OtlpEncoding;
use super::otlp_spec::{OtlpSpec, Share, TraceSpec};
use super::outcome::OutcomeKind;
use super::setting::{List, Setting, Text};

/// The path of traces at a collector.
const TRACES_PATH: &str = "/v1/traces";
/// The default name of the server.
const SERVICE_NAME: &str = "avocet";
/// The default of the maximum number of traces in a second.
const PER_SECOND: u32 = 100;
/// Maximum number of selections: the server compares each query with each selection.
const MAX_SELECTIONS: usize = 32;
/// Maximum number of names or networks of a selection.
const MAX_ITEMS: usize = 1_000;

/// `[otlp]` with all `[[trace]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct OtlpConfig {
    /// The URL without a final slash; `None` if no traces are exported.
    pub endpoint: Option<String>,
    /// The encoding of requests.
    pub encoding: OtlpEncoding,
    /// The file with header fields.
    pub headers_file: Option<PathBuf>,
    /// The header fields in the file.
    pub headers: Arc<OtlpHeaders>,
    /// The file with the authorities of the collector.
    pub ca: Option<PathBuf>,
    /// The name of this server.
    pub service_name: String,
    /// The share of all queries that get a trace, from 0 to 1.
    pub share: f64,
    /// Maximum number of traces in a second.
    pub per_second: u32,
    /// The selections of `[[trace]]`.
    pub rules: Vec<TraceRule>,
}

impl OtlpConfig {
    /// Returns the URL of requests; `None` if no traces are exported.
    #[must_use]
    pub fn url(&self) -> Option<String> {
        let endpoint = self.endpoint.as_ref()?;
        let is_whole = endpoint.ends_with(TRACES_PATH);
        Some(if is_whole { endpoint.clone() } else { format!("{endpoint}{TRACES_PATH}") })
    }
}

/// Header fields, with values that are secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OtlpHeaders(Vec<HeaderField>);

impl OtlpHeaders {
    /// Returns the fields in order.
    pub fn iter(&self) -> impl Iterator<Item = &HeaderField> {
        self.0.iter()
    }
}

impl fmt::Debug for OtlpHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The values are secret and are not shown.
        f.debug_list().entries(self.0.iter().map(|header| &header.name)).finish()
    }
}

/// One `[[trace]]`: queries that meet all conditions.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceRule {
    /// The name.
    pub name: String,
    /// The names at the top of subtrees, in lower case; empty for all names.
    pub names: Vec<Box<[u8]>>,
    /// The networks of clients; empty for all.
    pub clients: Vec<IpNet>,
    /// The outcomes; empty for all.
    pub outcomes: Vec<OutcomeKind>,
    /// The minimum time to the answer, in milliseconds.
    pub slower_than_ms: u32,
    /// The share of the selected queries that get a trace, from 0 to 1.
    pub share: f64,
}

/// Validates the tables.
pub(super) fn otlp(
    spec: OtlpSpec,
    rules: Vec<Spanned<TraceSpec>>,
    check: &mut Check,
) -> OtlpConfig {
    let at = spec.endpoint.span();
    let endpoint = endpoint(spec.endpoint, check);
    let headers_at = spec.headers_file.span();
    let headers_file = check.optional_secret(spec.headers_file);
    let headers = match (&headers_file, &headers_at) {
        (Some(file), Some(at)) => headers(file, at, check).unwrap_or_default(),
        _ => OtlpHeaders::default(),
    };
    let ca_at = spec.ca.span();
    let config = OtlpConfig {
        encoding: check.take(spec.encoding).map_or(OtlpEncoding::Protobuf, |text| text.0),
        headers: Arc::new(headers),
        headers_file,
        ca: check.optional_path(spec.ca),
        service_name: service_name(spec.service_name, check),
        share: check.take(spec.sample_share).map_or(0.0, |share| share.0),
        per_second: check.take(spec.per_second).map_or(PER_SECOND, |count| count.0),
        rules: self::rules(rules, endpoint.as_deref(), check),
        endpoint,
    };
    let Some((at, endpoint)) = at.zip(config.endpoint.as_deref()) else { return config };
    if config.share == 0.0 && config.rules.is_empty() {
        let message = "no query has a trace: set sample-share, or add a [[trace]]";
        check.doubt(at.clone(), message);
    }
    if is_readable_on_the_way(endpoint) && config.headers_file.is_some() {
        let message = "the collector is reached without https: others can read the header fields \
                       of headers-file";
        check.doubt(at, message);
    }
    if let Some(at) = ca_at.filter(|_| config.ca.is_some() && endpoint.starts_with("http://")) {
        check.doubt(at, "has no effect: the endpoint is without https");
    }
    config
}

fn endpoint(setting: Setting<String>, check: &mut Check) -> Option<String> {
    let at = setting.span()?;
    let url = check.take(setting).filter(|url| !url.is_empty())?;
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let authority = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let is_plain = url.bytes().all(|octet| octet.is_ascii_graphic())
        && !url.contains(['?', '#', '"', '\\', '<', '>']);
    if authority.contains('@') {
        let message = "the URL has a user or a password: put an Authorization field into the file \
                       of headers-file";
        check.fault(at, message);
    } else if !is_plain || !is_authority(authority) {
        check.fault(at, "expected a URL such as \"http://127.0.0.1:4318\", or \"\" for none");
    }
    Some(url.trim_end_matches('/').to_owned())
}

/// Returns whether a text is a host, with or without a port.
fn is_authority(text: &str) -> bool {
    let (host, behind) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((v6, behind)) => (v6, behind),
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_v6 = host.parse::<std::net::Ipv6Addr>().is_ok();
    !host.is_empty()
        && text.starts_with('[') == is_v6
        && (behind.is_empty() || behind.strip_prefix(':').is_some_and(is_port))
}

fn service_name(setting: Setting<String>, check: &mut Check) -> String {
    check.client_text(setting).unwrap_or_else(|| SERVICE_NAME.to_owned())
}

/// Reads header fields. The faults never show the contents of the file.
fn headers(path: &Path, at: &Range<usize>, check: &mut Check) -> Option<OtlpHeaders> {
    let text = match named_file::read(path) {
        Ok(text) => Zeroizing::new(text),
        Err(error) => {
            check.fault(at.clone(), error);
            return None;
        }
    };
    let shown = path.display();
    if is_readable_by_others(path) {
        let message = format!("others may read {shown}: set its permissions to 0640 or less");
        check.fault(at.clone(), message);
        return None;
    }
    let mut headers = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        match HeaderField::read(line) {
            Ok(header) => headers.push(header),
            Err(fault) => {
                check.fault(at.clone(), format!("line {number} of {shown}: {fault}"));
                return None;
            }
        }
    }
    if headers.len() > MAX_HEADER_FIELDS {
        check.fault(at.clone(), format!("more than {MAX_HEADER_FIELDS} header fields in {shown}"));
        return None;
    }
    Some(OtlpHeaders(headers))
}

fn rules(
    specs: Vec<Spanned<TraceSpec>>,
    endpoint: Option<&str>,
    check: &mut Check,
) -> Vec<TraceRule> {
    let mut rules: Vec<TraceRule> = Vec::new();
    for spec in specs {
        let header = spec.span();
        let mut spec = spec.into_inner();
        let name = check.need("name", &header, mem::take(&mut spec.name));
        let rule = rule(spec, check);
        let Some((at, name)) = name else { continue };
        if name.is_empty() || name.chars().any(char::is_control) {
            check.fault(at, "expected a name");
        } else if rules.iter().any(|other| other.name == name) {
            check.fault(at, format!("{name:?} has another table"));
        } else if rules.len() == MAX_SELECTIONS {
            check.fault(at, format!("more than {MAX_SELECTIONS} tables"));
            break;
        } else {
            if endpoint.is_none() {
                check.doubt(at, "has no effect: [otlp] has no endpoint");
            }
            rules.push(TraceRule { name, ..rule });
        }
    }
    rules
}

fn rule(spec: TraceSpec, check: &mut Check) -> TraceRule {
    let (names, clients) = (few(spec.names, check), few(spec.clients, check));
    let share_at = spec.share.span();
    let share = check.take(spec.share).map_or(1.0, |Share(share)| share);
    if let Some(at) = share_at.filter(|_| share == 0.0) {
        check.doubt(at, "selects no query");
    }
    TraceRule {
        name: String::new(),
        names: names.into_iter().map(|Text(name)| name.to_ascii_lowercase().into()).collect(),
        clients: clients.into_iter().map(|Text(network)| network).collect(),
        outcomes: few(spec.outcomes, check).into_iter().map(|Text(outcome)| outcome).collect(),
        slower_than_ms: check.take(spec.slower_than_ms).map_or(0, |time| time.0),
        share,
    }
}

/// Returns the items of a list. More than [`MAX_ITEMS`] items are a fault.
fn few<T: super::setting::Value>(setting: Setting<List<T>>, check: &mut Check) -> Vec<T> {
    let at = setting.span();
    let items = check.take(setting).map_or_else(Vec::new, |list| list.0);
    if let Some(at) = at.filter(|_| items.len() > MAX_ITEMS) {
        check.fault(at, format!("more than {MAX_ITEMS} items"));
    }
    items.into_iter().map(Spanned::into_inner).collect()
}

/// Returns the table in the syntax of the configuration file, without the values of header fields.
pub(super) fn shown(otlp: &OtlpConfig) -> Table {
    let path = |path: Option<&Path>| {
        Value::from(path.map_or_else(String::new, |path| path.to_string_lossy().into_owned()))
    };
    table([
        ("endpoint", otlp.endpoint.clone().unwrap_or_default().into()),
        ("encoding", otlp.encoding.word().into()),
        ("headers-file", path(otlp.headers_file.as_deref())),
        ("ca", path(otlp.ca.as_deref())),
        ("service-name", otlp.service_name.clone().into()),
        ("sample-share", otlp.share.into()),
        ("per-second", otlp.per_second.into()),
    ])
}

/// Returns a `[[trace]]` in the syntax of the configuration file.
pub(super) fn shown_rule(rule: &TraceRule) -> Value {
    let names: Vec<_> = rule.names.iter().map(|name| shown_name(name)).collect();
    let clients: Vec<_> = rule.clients.iter().map(ToString::to_string).collect();
    let outcomes: Vec<_> = rule.outcomes.iter().map(|outcome| outcome.word()).collect();
    table([
        ("name", rule.name.clone().into()),
        ("names", names.into()),
        ("clients", clients.into()),
        ("outcomes", outcomes.into()),
        ("slower-than-ms", rule.slower_than_ms.into()),
        ("share", rule.share.into()),
    ])
    .into()
}

fn table<const N: usize>(entries: [(&str, Value); N]) -> Table {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
