//! `[resolver]`, `[[stub]]` and `[dnssec]`: the resolution of names without a forwarding rule.

use std::borrow::Cow;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use avocet_dnssec::anchor::{Anchor, Anchors};
use avocet_dnssec::negative::MAX_NEGATIVE_ANCHORS;
use avocet_dnssec::{Policy, Sha1Signatures};
use avocet_resolver::{RootServer, StubZone};
use avocet_wire::DNS_PORT;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use toml::Spanned;

use super::check::Check;
use super::error::SettingError;
use super::name::{Name, ROOT, shown};
use super::setting::{FromText, List, Raw, Text, Value};
use super::spec::{DnssecSpec, ResolverSpec, StubSpec};
use super::{DnssecConfig, ForwardConfig, ResolverConfig, hints};

/// Maximum number of servers of a stub zone.
const MAX_SERVERS: usize = 32;

/// Servers that allow transfers of the root zone (RFC 8806 appendix A): `lax` and
/// `iad.xfr.dns.icann.org`, and the root servers b, c, d, f, g and k.
const ROOT_PRIMARIES: [IpAddr; 10] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 32, 132)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 47, 132)),
    IpAddr::V6(Ipv6Addr::new(0x2620, 0, 0x2d0, 0x202, 0, 0, 0, 0x132)),
    IpAddr::V6(Ipv6Addr::new(0x2620, 0, 0x2830, 0x202, 0, 0, 0, 0x132)),
    IpAddr::V4(Ipv4Addr::new(170, 247, 170, 2)),
    IpAddr::V4(Ipv4Addr::new(192, 33, 4, 12)),
    IpAddr::V4(Ipv4Addr::new(199, 7, 91, 13)),
    IpAddr::V4(Ipv4Addr::new(192, 5, 5, 241)),
    IpAddr::V4(Ipv4Addr::new(192, 112, 36, 4)),
    IpAddr::V4(Ipv4Addr::new(193, 0, 14, 129)),
];

/// The source of the copy of the root zone (RFC 8806).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalRootSource {
    /// The server keeps no copy.
    None,
    /// The primaries transfer the zone.
    Primaries,
    /// The zone is in this file.
    File(PathBuf),
}

impl JsonSchema for LocalRootSource {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "LocalRootSource".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "boolean" }, { "type": "string", "minLength": 1 }] })
    }
}

impl Value for LocalRootSource {
    fn expected() -> String {
        "true, false, or the path of a file".to_owned()
    }

    fn from_scalar(raw: &Raw) -> Result<Self, SettingError> {
        match raw {
            Raw::Boolean(false) => Ok(Self::None),
            Raw::Boolean(true) => Ok(Self::Primaries),
            Raw::Text(path) if !path.is_empty() => Ok(Self::File(PathBuf::from(path))),
            _ => Err(Self::mismatch(raw)),
        }
    }
}

/// The method by which names without local data are resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// All names are forwarded.
    Forward,
    /// Names are resolved from the root, except for those with a forwarding rule.
    Recurse,
}

impl FromText for Mode {
    const EXPECTED: &'static str = "\"recurse\" or \"forward\"";
    const CHOICES: &'static [&'static str] = &["recurse", "forward"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        match text {
            "forward" => Ok(Self::Forward),
            "recurse" => Ok(Self::Recurse),
            _ => Err(None),
        }
    }
}

impl FromText for Anchor {
    const EXPECTED: &'static str = "a record such as \". IN DS 20326 8 2 E06D...\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        Self::parse(text)
            .map_err(|source| Some(SettingError::TrustAnchor { text: text.to_owned(), source }))
    }
}

impl DnssecConfig {
    /// Returns the configured trust anchors, or the built-in ones.
    pub fn anchors(&self) -> Anchors {
        match &self.trust_anchors[..] {
            [] => Anchors::built_in(),
            written => Anchors::of(written.to_vec()),
        }
    }

    /// Returns the policy of validation, with the accepted algorithms.
    pub fn policy(&self) -> Policy {
        Policy {
            sha1_signatures: if self.validate_sha1 {
                Sha1Signatures::Verified
            } else {
                Sha1Signatures::Unsupported
            },
        }
    }
}

/// Whether the root servers are queried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RootUse {
    Queried,
    /// A rule or a stub zone names the servers for all names.
    Replaced,
}

impl RootUse {
    fn by(forwards: &[ForwardConfig], stubs: &[StubZone]) -> Self {
        let mut zones =
            forwards.iter().map(|rule| &rule.zone).chain(stubs.iter().map(|stub| &stub.zone));
        let covers_all = zones.any(|zone| **zone == *ROOT);
        // Names of an exception are resolved by recursion.
        let has_exception = forwards.iter().any(|rule| rule.exception);
        if covers_all && !has_exception { Self::Replaced } else { Self::Queried }
    }
}

/// Checks `[resolver]`.
pub(super) fn resolver(
    spec: ResolverSpec,
    mode: Mode,
    (forwards, stubs): (&[ForwardConfig], &[StubZone]),
    check: &mut Check,
) -> ResolverConfig {
    let span = spec.root_hints.span();
    let root_hints = check.optional_path(spec.root_hints);
    let hints = root_servers(root_hints.as_deref(), RootUse::by(forwards, stubs)).unwrap_or_else(
        |message| {
            check.fault(span.unwrap_or_default(), message);
            Vec::new()
        },
    );
    let primaries = spec.local_root_primaries.span();
    let local_root_primaries: Vec<SocketAddr> = match check.take(spec.local_root_primaries) {
        Some(List(servers)) => servers.into_iter().map(|server| server.into_inner().0.0).collect(),
        None => ROOT_PRIMARIES.iter().map(|&ip| SocketAddr::new(ip, DNS_PORT)).collect(),
    };
    if local_root_primaries.is_empty() || local_root_primaries.len() > MAX_SERVERS {
        let found = local_root_primaries.len();
        check.fault(
            primaries.unwrap_or_default(),
            format!("expected 1 to {MAX_SERVERS} servers, found {found}"),
        );
    }
    let families_at = spec.ipv6.span();
    let (ipv4, ipv6) =
        (check.take(spec.ipv4).unwrap_or(true), check.take(spec.ipv6).unwrap_or(true));
    if mode == Mode::Recurse && !ipv4 && !ipv6 {
        check.fault(
            families_at.unwrap_or_default(),
            "ipv4 and ipv6 are both off, so no server can be queried",
        );
    }
    ResolverConfig {
        mode,
        local_root: match check.take(spec.local_root) {
            Some(LocalRootSource::File(path)) => LocalRootSource::File(check.path(path)),
            source => source.unwrap_or(LocalRootSource::None),
        },
        local_root_primaries,
        root_hints,
        hints,
        priming: check.take(spec.priming).unwrap_or(true),
        qname_minimisation: check.take(spec.qname_minimisation).unwrap_or(true),
        case_randomisation: check.take(spec.case_randomisation).unwrap_or(true),
        cookies: check.take(spec.cookies).unwrap_or(true),
        encrypt_authoritative: check.take(spec.encrypt_authoritative).unwrap_or(false),
        ipv4,
        ipv6,
        query_private: check.take(spec.query_private).unwrap_or(false),
        aggressive_nsec: check.take(spec.aggressive_nsec).unwrap_or(true),
        error_reports: check.take(spec.error_reports).unwrap_or(false),
        edns_buffer_size: check.take(spec.edns_buffer_size).map_or(1232, |size| size.0 as u16),
        fetches_per_zone: check.take(spec.fetches_per_zone).map_or(200, |count| count.0),
        fetches_per_server: check.take(spec.fetches_per_server).map_or(1_000, |count| count.0),
    }
}

/// Returns the root servers of a file, or the built-in ones. A file without a server is refused,
/// unless no root server is queried.
fn root_servers(path: Option<&Path>, roots: RootUse) -> Result<Vec<RootServer>, SettingError> {
    let Some(path) = path else { return Ok(hints::built_in()) };
    let servers = hints::from_file(path)?;
    if servers.is_empty() && roots == RootUse::Queried {
        return Err(SettingError::NoRootServers(path.to_owned()));
    }
    Ok(servers)
}

/// Checks each `[[stub]]`.
pub(super) fn stubs(specs: Vec<Spanned<StubSpec>>, mode: Mode, check: &mut Check) -> Vec<StubZone> {
    let mut stubs: Vec<StubZone> = Vec::new();
    for spec in specs {
        let header = spec.span();
        let mut spec = spec.into_inner();
        let zone = check.need("zone", &header, mem::take(&mut spec.zone));
        let servers = check.need("servers", &header, mem::take(&mut spec.servers));
        let (Some((at, Text(zone))), Some((servers_at, List(servers)))) = (zone, servers) else {
            continue;
        };
        if mode == Mode::Forward {
            check.fault(
                at.clone(),
                format!(
                    "a [[stub]] needs recursion, and this server only forwards: write a \
                     [[forward]] with zone = \"{}\" and `upstreams`, or set [resolver] mode = \
                     \"recurse\"",
                    shown(&zone)
                ),
            );
        }
        if stubs.iter().any(|stub| stub.zone == zone) {
            check.fault(at, format!("\"{}\" already has a [[stub]]; merge them", shown(&zone)));
        }
        if servers.is_empty() || servers.len() > MAX_SERVERS {
            check.fault(
                servers_at,
                format!("expected 1 to {MAX_SERVERS} servers, found {}", servers.len()),
            );
        }
        let servers = servers.into_iter().map(|server| server.into_inner().0.0).collect();
        stubs.push(StubZone { zone, servers });
    }
    stubs
}

/// Checks `[dnssec]`.
pub(super) fn dnssec(spec: DnssecSpec, check: &mut Check) -> DnssecConfig {
    let span = spec.negative_anchors.span();
    let names =
        |list: List<Text<Name>>| list.0.into_iter().map(|name| name.into_inner().0).collect();
    let negative_anchors: Vec<Name> =
        check.take(spec.negative_anchors).map(names).unwrap_or_default();
    if let Some(span) = span.filter(|_| negative_anchors.len() > MAX_NEGATIVE_ANCHORS) {
        check.fault(span, format!("expected at most {MAX_NEGATIVE_ANCHORS} names"));
    }
    DnssecConfig {
        validate: check.take(spec.validate).unwrap_or(true),
        trust_anchors: check
            .take(spec.trust_anchors)
            .map(|list| list.0.into_iter().map(|anchor| anchor.into_inner().0).collect())
            .unwrap_or_default(),
        negative_anchors,
        trust_anchor_updates: check.take(spec.trust_anchor_updates).unwrap_or(true),
        key_tag_signal: check.take(spec.key_tag_signal).unwrap_or(true),
        validate_sha1: check.take(spec.validate_sha1).unwrap_or(false),
    }
}
