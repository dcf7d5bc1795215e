//! The probes of `[[pool]]`, which check the health of addresses.

use std::net::{IpAddr, SocketAddr};
use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;

use avocet_wire::{Rcode, Rtype, rdata};
use avocet_zone::pool::{Damping, Thresholds};
use toml::Value;

use super::check::Check;
use super::error::SettingError;
use super::name::{ROOT, shown as shown_name, typed_name};
use super::pool::{not_one_of, take};
use super::pool_spec::PoolSpec;
use super::setting::{FromText, Text};

/// Seconds between two probes of a target.
const INTERVAL_SECS: u32 = 10;
/// Milliseconds after which a probe has failed.
const TIMEOUT_MS: u32 = 2_000;
/// Number of successes in a row after which a target is up, and of failures after which it is down.
const RISE_AND_FALL: u32 = 3;
/// Number of results that are considered.
const WINDOW: u32 = 10;
/// The placeholder for the address in the arguments of a command.
pub const ADDRESS_WORD: &str = "{address}";

/// The settings of the probes of a pool. Pools with equal settings share the probes of an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeConfig {
    /// The kind of the probe.
    pub kind: ProbeKind,
    /// Seconds between two probes of a target.
    pub interval_secs: u32,
    /// Milliseconds after which a probe has failed.
    pub timeout_ms: u32,
    /// The numbers of results that change the health.
    pub thresholds: Thresholds,
}

/// The kinds of probes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    /// The probe sends an echo request (RFC 792, RFC 4443).
    Icmp,
    /// The probe connects.
    Tcp {
        /// The port.
        port: Option<u16>,
    },
    /// The probe connects, and makes a TLS handshake.
    Tls {
        /// The port.
        port: u16,
        /// Requirements for the certificate.
        tls: ProbeTls,
    },
    /// The probe sends an HTTP request.
    Http {
        /// The port.
        port: u16,
        /// Requirements for the certificate; `None` without TLS.
        tls: Option<ProbeTls>,
        /// The request, and the requirements for the response.
        request: ProbeRequest,
    },
    /// The probe sends a DNS query over UDP.
    Dns {
        /// The port.
        port: u16,
        /// The query, and the requirements for the response.
        query: ProbeQuery,
    },
    /// The probe starts a command.
    Command(Vec<String>),
}

/// Requirements for a certificate.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeTls {
    /// The server name that the probe requests, and that the certificate must have.
    pub host: String,
    /// Whether issuers and name are checked.
    pub verify: Verification,
    /// The file with the trusted authorities; `None` for the authorities of the system.
    pub ca_file: Option<PathBuf>,
    /// Days for which the certificate must still be valid.
    pub days: u32,
}

/// Whether a certificate is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verification {
    /// The issuers, the name and the dates of the certificate.
    Full,
    /// Only the dates of the certificate.
    Dates,
}

/// An HTTP request, and the requirements for the response.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeRequest {
    /// The Host field.
    pub host: String,
    /// The path.
    pub path: String,
    /// Status codes that mean health.
    pub status: Vec<StatusRange>,
    /// A text that the response must contain; empty for none.
    pub body: String,
}

/// A DNS query, and the requirements for the response.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeQuery {
    /// The QNAME in wire form.
    pub name: Box<[u8]>,
    /// The QTYPE.
    pub rtype: Rtype,
    /// The RCODE.
    pub rcode: u16,
    /// Data that a record of this type must have, in wire form; `None` for any.
    pub data: Option<Box<[u8]>>,
}

/// A probe address that differs from the address in the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeAddress {
    /// The address.
    pub address: IpAddr,
    /// The port, if it is not that of the pool.
    pub port: Option<u16>,
}

impl ProbeAddress {
    /// Reads an address with or without port.
    pub(super) fn read(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse() {
            return Some(Self { address, port: None });
        }
        let with_port: SocketAddr = text.parse().ok()?;
        let port = Some(with_port.port()).filter(|port| *port != 0)?;
        Some(Self { address: with_port.ip(), port: Some(port) })
    }
}

/// The use of ports by a kind of probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbePort {
    /// The probe uses no port.
    Unused,
    /// The probe needs a port, and the pool has none.
    Missing,
    /// The probe uses this port.
    Known(u16),
}

impl ProbePort {
    pub(super) fn is_none_with_port(self) -> bool {
        self == Self::Missing
    }
}

impl ProbeKind {
    /// Returns the name in the configuration.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Icmp => "icmp",
            Self::Tcp { .. } => "tcp",
            Self::Tls { .. } => "tls",
            Self::Http { tls: None, .. } => "http",
            Self::Http { .. } => "https",
            Self::Dns { .. } => "dns",
            Self::Command(_) => "command",
        }
    }

    /// Returns the port that the probe uses unless an address of the pool has its own.
    #[must_use]
    pub fn port(&self) -> ProbePort {
        match self {
            Self::Icmp | Self::Command(_) => ProbePort::Unused,
            Self::Tcp { port } => port.map_or(ProbePort::Missing, ProbePort::Known),
            Self::Tls { port, .. } | Self::Http { port, .. } | Self::Dns { port, .. } => {
                ProbePort::Known(*port)
            }
        }
    }
}

/// A kind of probe without its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeWord {
    Icmp,
    Tcp,
    Tls,
    Http,
    Https,
    Dns,
    Command,
}

impl FromText for ProbeWord {
    const EXPECTED: &'static str = "a probe: \"icmp\", \"tcp\", \"tls\", \"http\", \"https\", \
                                    \"dns\" or \"command\"";
    const CHOICES: &'static [&'static str] =
        &["icmp", "tcp", "tls", "http", "https", "dns", "command"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        Ok(match text {
            "icmp" => Self::Icmp,
            "tcp" => Self::Tcp,
            "tls" => Self::Tls,
            "http" => Self::Http,
            "https" => Self::Https,
            "dns" => Self::Dns,
            "command" => Self::Command,
            _ => return Err(Some(not_one_of("a kind of probe", text, Self::CHOICES))),
        })
    }
}

/// A range of status codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StatusRange {
    first: u16,
    last: u16,
}

impl StatusRange {
    /// Returns whether the range contains a status code.
    #[must_use]
    pub fn contains(self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }
}

/// Status codes (RFC 9110 §15).
const STATUS_CODES: RangeInclusive<u16> = 100..=599;

impl FromText for StatusRange {
    const EXPECTED: &'static str = "a status code such as \"200\", or a range such as \"200-399\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let code = |text: &str| {
            let is_number = text.bytes().all(|octet| octet.is_ascii_digit());
            text.parse().ok().filter(|code| is_number && STATUS_CODES.contains(code)).ok_or(None)
        };
        let (first, last) = (code(first)?, code(last)?);
        if first > last { Err(None) } else { Ok(Self { first, last }) }
    }
}

impl std::fmt::Display for StatusRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

/// A question: name and type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DnsQuery {
    name: Box<[u8]>,
    rtype: Rtype,
}

impl FromText for DnsQuery {
    const EXPECTED: &'static str = "a name and a type, such as \"corp.example SOA\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let mut words = text.split_whitespace();
        let (Some(name), Some(rtype), None) = (words.next(), words.next(), words.next()) else {
            return Err(None);
        };
        Ok(Self { name: typed_name(name).map_err(Some)?, rtype: Rtype::from_text(rtype)? })
    }
}

/// The name of an RCODE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RcodeWord(u16);

/// The RCODEs that a probe may expect, with their names.
const RCODES: [(&str, Rcode); 6] = [
    ("NOERROR", Rcode::NOERROR),
    ("FORMERR", Rcode::FORMERR),
    ("SERVFAIL", Rcode::SERVFAIL),
    ("NXDOMAIN", Rcode::NXDOMAIN),
    ("NOTIMP", Rcode::NOTIMP),
    ("REFUSED", Rcode::REFUSED),
];

impl FromText for RcodeWord {
    const EXPECTED: &'static str = "an RCODE such as \"NOERROR\" or \"NXDOMAIN\"";
    const CHOICES: &'static [&'static str] =
        &["NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let found = RCODES.iter().find(|(name, _)| *name == text);
        let fault = || Some(not_one_of("an RCODE", text, Self::CHOICES));
        found.map(|(_, rcode)| Self(rcode.0)).ok_or_else(fault)
    }
}

/// Validates the keys about probes of one table.
pub(super) fn probe(
    header: &Range<usize>,
    mut spec: PoolSpec,
    pool: &[u8],
    check: &mut Check,
) -> Option<ProbeConfig> {
    let (at, Text(word)) = check.need("probe", header, std::mem::take(&mut spec.probe))?;
    let interval_secs = take(&mut spec.interval_secs, check).map_or(INTERVAL_SECS, |secs| secs.0);
    let timeout_at = spec.timeout_ms.span();
    let usual_ms = TIMEOUT_MS.min(interval_secs * 1_000);
    let timeout_ms = take(&mut spec.timeout_ms, check).map_or(usual_ms, |ms| ms.0);
    if u64::from(timeout_ms) > u64::from(interval_secs) * 1_000 {
        let message = format!("expected at most the interval, which is {interval_secs} s");
        check.fault(timeout_at.unwrap_or_else(|| header.clone()), message);
    }
    let thresholds = thresholds(&mut spec, check);
    refuse_unused(&spec, word, check);
    let kind = kind(word, at, spec, pool, check)?;
    Some(ProbeConfig { kind, interval_secs, timeout_ms, thresholds })
}

fn thresholds(spec: &mut PoolSpec, check: &mut Check) -> Thresholds {
    let window = take(&mut spec.window, check).map_or(WINDOW, |number| number.0);
    let mut within = |setting: &mut super::setting::Setting<_>| {
        let at = setting.span();
        let number = take::<super::setting::Int<1, 64>>(setting, check);
        let number = number.map_or(RISE_AND_FALL.min(window), |number| number.0);
        if number > window {
            let message = format!("expected at most `window`, which is {window}");
            check.fault(at.unwrap_or_default(), message);
        }
        number as u8
    };
    let (rise, fall) = (within(&mut spec.rise), within(&mut spec.fall));
    let damping = match take(&mut spec.damping, check).unwrap_or(true) {
        true => Damping::Doubled,
        false => Damping::Off,
    };
    Thresholds { rise, fall, window: window as u8, damping }
}

/// Adds a doubt for each key that the kind of probe does not use.
fn refuse_unused(spec: &PoolSpec, word: ProbeWord, check: &mut Check) {
    use ProbeWord::{Command, Dns, Http, Https, Icmp, Tls};
    let is_http = matches!(word, Http | Https);
    let is_tls = matches!(word, Tls | Https);
    let keys = [
        ("port", spec.port.span(), !matches!(word, Icmp | Command)),
        ("host", spec.host.span(), is_http || is_tls),
        ("path", spec.path.span(), is_http),
        ("status", spec.status.span(), is_http),
        ("body", spec.body.span(), is_http),
        ("verify", spec.verify.span(), is_tls),
        ("ca-file", spec.ca_file.span(), is_tls),
        ("certificate-days", spec.certificate_days.span(), is_tls),
        ("query", spec.query.span(), word == Dns),
        ("rcode", spec.rcode.span(), word == Dns),
        ("answer", spec.answer.span(), word == Dns),
        ("command", spec.command.span(), word == Command),
    ];
    for (key, at, is_used) in keys {
        if let Some(at) = at.filter(|_| !is_used) {
            check.doubt(at, format!("`{key}` has no effect with this probe"));
        }
    }
}

fn kind(
    word: ProbeWord,
    at: Range<usize>,
    mut spec: PoolSpec,
    pool: &[u8],
    check: &mut Check,
) -> Option<ProbeKind> {
    let port = take(&mut spec.port, check).map(|port| port.0 as u16);
    let host = host(&mut spec, pool, check);
    Some(match word {
        ProbeWord::Icmp => ProbeKind::Icmp,
        ProbeWord::Tcp => ProbeKind::Tcp { port },
        ProbeWord::Tls => {
            ProbeKind::Tls { port: port.unwrap_or(443), tls: tls(host?, &mut spec, check) }
        }
        ProbeWord::Http => ProbeKind::Http {
            port: port.unwrap_or(80),
            tls: None,
            request: request(host?, &mut spec, check)?,
        },
        ProbeWord::Https => {
            let host = host?;
            let request = request(host.clone(), &mut spec, check)?;
            let tls = Some(tls(host, &mut spec, check));
            ProbeKind::Http { port: port.unwrap_or(443), tls, request }
        }
        ProbeWord::Dns => {
            ProbeKind::Dns { port: port.unwrap_or(53), query: query(&mut spec, pool, check)? }
        }
        ProbeWord::Command => {
            let command = take(&mut spec.command, check).map_or_else(Vec::new, |list| list.0);
            let command: Vec<_> = command.into_iter().map(|word| word.into_inner()).collect();
            if !command.first().is_some_and(|program| program.starts_with('/')) {
                check.fault(at, "`command` needs the program's absolute path as its first item");
                return None;
            }
            ProbeKind::Command(command)
        }
    })
}

/// Returns the host name of the probe: one that can be in a certificate and in a header field.
fn host(spec: &mut PoolSpec, pool: &[u8], check: &mut Check) -> Option<String> {
    let at = spec.host.span();
    let written = take(&mut spec.host, check).filter(|host| !host.is_empty());
    let host = written.unwrap_or_else(|| shown_name(pool).trim_end_matches('.').to_owned());
    let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-._:[]".contains(&octet);
    if host.is_empty() || host.len() > 253 || !host.bytes().all(is_plain) {
        if let Some(at) = at {
            check.fault(at, format!("{host:?} is not a host name"));
        }
        return None;
    }
    Some(host)
}

fn tls(host: String, spec: &mut PoolSpec, check: &mut Check) -> ProbeTls {
    let verify = match take(&mut spec.verify, check).unwrap_or(true) {
        true => Verification::Full,
        false => Verification::Dates,
    };
    let ca_file = check.optional_path(std::mem::take(&mut spec.ca_file));
    let days = take(&mut spec.certificate_days, check).map_or(0, |days| days.0);
    ProbeTls { host, verify, ca_file, days }
}

fn request(host: String, spec: &mut PoolSpec, check: &mut Check) -> Option<ProbeRequest> {
    let path_at = spec.path.span();
    let path = take(&mut spec.path, check).unwrap_or_else(|| "/".to_owned());
    if !path.starts_with('/') || !path.bytes().all(|octet| octet.is_ascii_graphic()) {
        let message = format!("expected a path such as \"/health\", found {path:?}");
        path_at.into_iter().for_each(|at| check.fault(at, &message));
        return None;
    }
    let status = take(&mut spec.status, check).map_or_else(Vec::new, |list| list.0);
    let mut status: Vec<_> = status.into_iter().map(|item| item.into_inner().0).collect();
    if status.is_empty() {
        status.push(StatusRange { first: 200, last: 299 });
    }
    let body = take(&mut spec.body, check).unwrap_or_default();
    Some(ProbeRequest { host, path, status, body })
}

fn query(spec: &mut PoolSpec, pool: &[u8], check: &mut Check) -> Option<ProbeQuery> {
    let usual = DnsQuery { name: pool.into(), rtype: Rtype::A };
    let DnsQuery { name, rtype } = take(&mut spec.query, check).map_or(usual, |query| query.0);
    let rcode = take(&mut spec.rcode, check).map_or(Rcode::NOERROR.0, |rcode| rcode.0.0);
    let at = spec.answer.span();
    let answer = take(&mut spec.answer, check).filter(|answer| !answer.is_empty());
    let mut data = Vec::new();
    if let Some(answer) = &answer
        && let Err(error) = rdata::parse(rtype.0, answer, ROOT, &mut data)
    {
        let message = format!("{answer:?} is not valid data of type {rtype}: {error}");
        at.into_iter().for_each(|at| check.fault(at, &message));
        return None;
    }
    Some(ProbeQuery { name, rtype, rcode, data: answer.map(|_| data.into()) })
}

/// Adds the keys about probes to a table in the syntax of the configuration file.
pub(super) fn shown(probe: &ProbeConfig, put: &mut impl FnMut(&str, Value)) {
    put("probe", probe.kind.name().into());
    if let ProbePort::Known(port) = probe.kind.port() {
        put("port", i64::from(port).into());
    }
    let mut shown_tls = |tls: &ProbeTls| {
        put("host", tls.host.clone().into());
        put("verify", (tls.verify == Verification::Full).into());
        let ca_file = tls.ca_file.as_ref().map(|file| file.to_string_lossy().into_owned());
        put("ca-file", ca_file.unwrap_or_default().into());
        put("certificate-days", i64::from(tls.days).into());
    };
    let texts = |texts: Vec<String>| Value::Array(texts.into_iter().map(Value::from).collect());
    match &probe.kind {
        ProbeKind::Icmp | ProbeKind::Tcp { .. } => {}
        ProbeKind::Tls { tls, .. } => shown_tls(tls),
        ProbeKind::Http { tls, request, .. } => {
            tls.iter().for_each(shown_tls);
            put("host", request.host.clone().into());
            put("path", request.path.clone().into());
            put("status", texts(request.status.iter().map(ToString::to_string).collect()));
            put("body", request.body.clone().into());
        }
        ProbeKind::Dns { query, .. } => {
            put("query", format!("{} {}", shown_name(&query.name), query.rtype).into());
            let rcode = RCODES.iter().find(|(_, rcode)| rcode.0 == query.rcode);
            put("rcode", rcode.map_or("", |(name, _)| name).into());
            let data =
                query.data.as_ref().map(|data| rdata::display(query.rtype.0, data).to_string());
            put("answer", data.unwrap_or_default().into());
        }
        ProbeKind::Command(command) => put("command", texts(command.clone())),
    }
    let Thresholds { rise, fall, window, damping } = probe.thresholds;
    put("interval-secs", i64::from(probe.interval_secs).into());
    put("timeout-ms", i64::from(probe.timeout_ms).into());
    put("rise", i64::from(rise).into());
    put("fall", i64::from(fall).into());
    put("window", i64::from(window).into());
    put("damping", (damping == Damping::Doubled).into());
}
