//! Conversion of a scenario's configuration to a plan of the resolver. Settings specific to the
//! server that the scenario was written for are ignored.

use std::net::{IpAddr, SocketAddr};

use avocet_cache::TtlBounds;
use avocet_dnssec::anchor::{Anchor, Anchors};
use avocet_dnssec::negative::{NegativeAnchor, NegativeAnchors};
use avocet_dnssec::{Policy, Sha1Signatures};
use avocet_resolver::{
    EcsPolicy, Endpoint, Introduction, Plan, Recursion, RootServer, Settings, StubZone, Transport,
    Validation, ZoneRule,
};
use avocet_wire::suffix::SuffixMap;
use avocet_wire::{DNS_PORT, FoldedNameBuf, Rtype};

use super::read::without_comment;
use super::record::{wire_name, word};
use super::{Dialect, Scenario};

/// The default TTL limits.
const TTL: TtlBounds = TtlBounds { min: 0, max: 86_400, negative_min: 0, negative_max: 3600 };
/// Longest age of stale data in seconds, if it is served at all (RFC 8767 §5).
const STALE_SECS: u32 = 86_400;
/// Delay after which clients get stale data, in ms.
const STALE_CLIENT_MS: u32 = 1_800;
/// Default wall clock: 2025-01-01, in seconds since 1970.
const WALL_SECS: u64 = 1_735_689_600;
/// The name of the root's server if only its address is given.
const HINT: &str = "k.root-servers.net.";

/// The settings of the server.
#[derive(Debug)]
pub(super) struct Config {
    hints: Vec<IpAddr>,
    hint_name: String,
    trust_anchors: Vec<String>,
    negative_anchors: Vec<Vec<u8>>,
    /// The wall clock when the scenario begins, in seconds since 1970.
    pub(super) wall_secs: u64,
    qname_minimisation: bool,
    ipv4: bool,
    ipv6: bool,
    aggressive_nsec: bool,
    stubs: Vec<(Vec<u8>, Vec<SocketAddr>)>,
    forwards: Vec<(Vec<u8>, Vec<SocketAddr>)>,
    /// Seconds for which expired data may be served, 0 for never.
    pub(super) stale_secs: u32,
    /// The TTL limits of the caches.
    pub(super) ttl: TtlBounds,
    priming: bool,
}

/// The settings of the server in a simulation.
#[derive(Debug)]
pub(crate) struct Simulated {
    pub(crate) hints: Vec<IpAddr>,
    /// DNSKEY data of the root, if it is signed.
    pub(crate) root_key: Option<Vec<u8>>,
    pub(crate) qname_minimisation: bool,
    pub(crate) aggressive_nsec: bool,
    /// Number of resolvers that share the caches.
    pub(crate) workers: usize,
    /// Forwarded zones and their servers.
    pub(crate) forwards: Vec<(Vec<u8>, Vec<SocketAddr>)>,
    /// Zones with configured servers.
    pub(crate) stubs: Vec<(Vec<u8>, Vec<SocketAddr>)>,
}

impl Config {
    /// Returns the configuration of a simulation.
    pub(super) fn of(simulated: &Simulated) -> Self {
        let anchor =
            |key: &Vec<u8>| format!(". IN DNSKEY {}", avocet_wire::rdata::display(48, key));
        Self {
            hints: simulated.hints.clone(),
            hint_name: HINT.to_owned(),
            trust_anchors: simulated.root_key.iter().map(anchor).collect(),
            negative_anchors: Vec::new(),
            wall_secs: WALL_SECS,
            qname_minimisation: simulated.qname_minimisation,
            ipv4: true,
            ipv6: false,
            aggressive_nsec: simulated.aggressive_nsec,
            stubs: simulated.stubs.clone(),
            forwards: simulated.forwards.clone(),
            stale_secs: 0,
            ttl: TTL,
            priming: false,
        }
    }

    /// Reads the lines before a scenario.
    pub(super) fn read(scenario: &Scenario) -> Result<Self, String> {
        let is_deckard = scenario.dialect == Dialect::Deckard;
        let mut config = Self {
            hints: Vec::new(),
            hint_name: HINT.to_owned(),
            trust_anchors: Vec::new(),
            negative_anchors: Vec::new(),
            wall_secs: WALL_SECS,
            qname_minimisation: false,
            ipv4: true,
            ipv6: true,
            aggressive_nsec: is_deckard,
            stubs: Vec::new(),
            forwards: Vec::new(),
            stale_secs: 0,
            ttl: TTL,
            priming: asks_the_root_for_its_servers(scenario),
        };
        let mut clause = Clause::default();
        for line in &scenario.config {
            let Some((key, value)) = setting(line) else { continue };
            if is_deckard {
                config.deckard(key, value)?;
            } else if value.is_empty() {
                config.end(std::mem::take(&mut clause))?;
                clause.kind = key.to_owned();
            } else if !clause.take(key, value) {
                config.server(key, value)?;
                if scenario.dialect == Dialect::Own {
                    config.own(key, value);
                }
            }
        }
        config.end(clause)?;
        Ok(config)
    }

    fn deckard(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "stub-addr" => {
                self.hints.push(value.parse().map_err(|_| format!("{value} is no address"))?)
            }
            "stub-name" => self.hint_name = value.to_owned(),
            "val-override-timestamp" => self.set_date(value),
            "query-minimization" => self.qname_minimisation = is_on(value),
            "forward-addr" => self.forwards.push((vec![0], vec![socket(value)?])),
            "do-ip4" => self.ipv4 = is_on(value),
            // This dialect contains the switch of Unbound only in comments.
            "aggressive-nsec" => {}
            _ => self.server(key, value)?,
        }
        Ok(())
    }

    fn server(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "trust-anchor" => self.trust_anchors.push(value.to_owned()),
            "domain-insecure" => self.negative_anchors.push(wire_name(value)?.to_ascii_lowercase()),
            "val-override-date" => self.set_date(value),
            "qname-minimisation" => self.qname_minimisation = is_on(value),
            "do-ip6" => self.ipv6 = is_on(value),
            "aggressive-nsec" => self.aggressive_nsec = is_on(value),
            "cache-min-negative-ttl" => {
                self.ttl.negative_min = value.parse().map_err(|_| format!("{value} is no TTL"))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn own(&mut self, key: &str, value: &str) {
        match key {
            "serve-expired" => self.stale_secs = if is_on(value) { STALE_SECS } else { 0 },
            "do-ip4" => self.ipv4 = is_on(value),
            _ => {}
        }
    }

    fn end(&mut self, clause: Clause) -> Result<(), String> {
        let zone = wire_name(if clause.name.is_empty() { "." } else { &clause.name })?
            .to_ascii_lowercase();
        match clause.kind.as_str() {
            "stub-zone" if zone == [0] => {
                let addresses =
                    clause.addresses.iter().map(|address| socket(address).map(|addr| addr.ip()));
                self.hints.extend(addresses.collect::<Result<Vec<_>, _>>()?);
            }
            "stub-zone" => self.stubs.push((zone, sockets(&clause.addresses)?)),
            "forward-zone" => self.forwards.push((zone, sockets(&clause.addresses)?)),
            _ => {}
        }
        Ok(())
    }

    /// Sets the date from `YYYYMMDDHHMMSS` or seconds since 1970. Other values mean the present.
    fn set_date(&mut self, value: &str) {
        match value.parse::<u64>() {
            Ok(written) if value.len() == 14 => self.wall_secs = seconds_of(written),
            Ok(secs) if secs > 1 => self.wall_secs = secs,
            _ => {}
        }
    }

    /// Returns the plan of a server with this configuration, with other settings chosen to cause no
    /// queries that scenarios do not expect.
    pub(super) fn plan(&self) -> Result<Plan, String> {
        let settings = Settings {
            minimal: false,
            stale_client_ms: self.stale_client_ms(),
            in_flight: 100,
            waiters: 100,
            ttl: self.ttl,
        };
        let rules = self.forwards.iter().map(|(zone, servers)| rule(zone, servers)).collect();
        let plan = Plan::new(rules, settings).map_err(|error| error.to_string())?;
        Ok(plan.with_recursion(self.recursion()?))
    }

    fn stale_client_ms(&self) -> u32 {
        if self.stale_secs == 0 { u32::MAX / 2 } else { STALE_CLIENT_MS }
    }

    fn recursion(&self) -> Result<Recursion, String> {
        let hint = |(number, &address): (usize, &IpAddr)| {
            let name = if number == 0 {
                self.hint_name.clone()
            } else {
                format!("h{number}.root-hint.test.")
            };
            Ok(RootServer {
                name: wire_name(&name)?.to_ascii_lowercase().into(),
                addresses: vec![address],
            })
        };
        let stub = |(zone, servers): &(Vec<u8>, Vec<SocketAddr>)| StubZone {
            zone: zone.clone().into(),
            servers: servers.clone(),
        };
        Ok(Recursion {
            hints: self.hints.iter().enumerate().map(hint).collect::<Result<_, String>>()?,
            priming: self.priming,
            qname_minimisation: self.qname_minimisation,
            case_randomisation: false,
            cookies: false,
            encrypt: false,
            ipv4: self.ipv4,
            ipv6: self.ipv6,
            query_private: true,
            aggressive_nsec: self.aggressive_nsec,
            error_reports: false,
            udp_size: 4096,
            own: Vec::new(),
            stubs: self.stubs.iter().map(stub).collect(),
            local_root: None,
            validation: if self.trust_anchors.is_empty() { None } else { Some(self.validation()?) },
        })
    }

    fn validation(&self) -> Result<Validation, String> {
        let anchors = self
            .trust_anchors
            .iter()
            .map(|line| Anchor::parse(line).map_err(|error| format!("{line}: {error}")));
        let anchors = Anchors::of(anchors.collect::<Result<_, _>>()?);
        let mut negative = NegativeAnchors::default();
        for name in &self.negative_anchors {
            let name = FoldedNameBuf::from_wire(name).map_err(|error| error.to_string())?;
            let anchor = NegativeAnchor { name, expires_at_secs: None };
            negative.insert(anchor).map_err(|_| "too many negative anchors")?;
        }
        // Most scenarios date from a time when SHA-1 signatures were common.
        let policy = Policy { sha1_signatures: Sha1Signatures::Verified };
        Ok(Validation { anchors, negative, private: SuffixMap::default(), policy })
    }
}

/// Reports whether a step expects priming of the root. Otherwise priming is disabled, because
/// scenarios do not expect its queries.
fn asks_the_root_for_its_servers(scenario: &Scenario) -> bool {
    let questions = scenario.steps.iter().filter(|step| step.what == "REPLY");
    let mut questions = questions.filter_map(|step| step.entry.as_ref()?.packet().question());
    questions.any(|question| question.is_of(&[0]) && question.qtype == Rtype::NS)
}

/// A `stub-zone:` or `forward-zone:` of `unbound.conf`.
#[derive(Default)]
struct Clause {
    kind: String,
    name: String,
    addresses: Vec<String>,
}

impl Clause {
    /// Reads a setting if it belongs to this clause.
    fn take(&mut self, key: &str, value: &str) -> bool {
        if self.kind.is_empty() || self.kind == "server" {
            return false;
        }
        match key {
            "name" => value.clone_into(&mut self.name),
            "stub-addr" | "forward-addr" => self.addresses.push(value.to_owned()),
            _ => {}
        }
        true
    }
}

/// Splits `key: value` without comment and quotes.
fn setting(line: &str) -> Option<(&str, &str)> {
    if line.starts_with([';', '#']) {
        return None;
    }
    let end = [" #", "\t#"].iter().filter_map(|mark| line.find(mark)).min().unwrap_or(line.len());
    let (key, value) = without_comment(&line[..end]).split_once(':')?;
    let value = value.trim().trim_matches('"').trim_matches('\'');
    let is_key =
        !key.is_empty() && key.bytes().all(|octet| octet.is_ascii_alphanumeric() || octet == b'-');
    is_key.then_some((key, value))
}

fn is_on(value: &str) -> bool {
    matches!(word(value).0.to_ascii_lowercase().as_str(), "yes" | "on" | "true" | "1")
}

/// Parses `ADDRESS` or `ADDRESS@PORT`.
fn socket(text: &str) -> Result<SocketAddr, String> {
    let (ip, port) = text.split_once('@').unwrap_or((text, ""));
    let ip: IpAddr = ip.parse().map_err(|_| format!("{text} is no address"))?;
    Ok(SocketAddr::new(ip, port.parse().unwrap_or(DNS_PORT)))
}

fn sockets(texts: &[String]) -> Result<Vec<SocketAddr>, String> {
    texts.iter().map(|text| socket(text)).collect()
}

fn rule(zone: &[u8], servers: &[SocketAddr]) -> ZoneRule {
    ZoneRule {
        zone: zone.into(),
        exception: false,
        upstreams: servers
            .iter()
            .map(|&addr| Endpoint { addr, transport: Transport::Udp })
            .collect(),
        reserves: Vec::new(),
        strategy: avocet_resolver::Strategy::Ordered,
        case_randomisation: false,
        ecs: EcsPolicy::Strip,
        introduction: Introduction::None,
        timeout_ms: (50, 2000),
    }
}

/// Converts `YYYYMMDDHHMMSS` to seconds since 1970 (the civil calendar in UTC, as in RFC 4034
/// §3.2).
fn seconds_of(written: u64) -> u64 {
    let field = |at: u32, len: u32| written / 10u64.pow(at) % 10u64.pow(len);
    let (year, month, day) = (field(10, 4), field(8, 2), field(6, 2));
    // The year starts in March, so that the leap day is its last.
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    (days - 719_468) * 86_400 + field(4, 2) * 3600 + field(2, 2) * 60 + field(0, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, dialect: Dialect) -> Config {
        let text = format!("{text}\nCONFIG_END\nSCENARIO_BEGIN x\nSCENARIO_END\n");
        Config::read(&Scenario::read(&text, dialect).unwrap()).unwrap()
    }

    #[test]
    fn clauses_and_flat_settings_mean_the_same() {
        let clauses = "server:\n do-ip6: no\n trust-anchor: \"a. DS 1 2 3 04\"\n# x: \
                       y\nstub-zone:\n name: \".\"\n stub-addr: 192.0.2.1 # root\nstub-zone:\n \
                       name: \"B.\"\n stub-addr: 192.0.2.2@54\n";
        let config = read(clauses, Dialect::Unbound);
        assert!(!config.ipv6 && config.trust_anchors == ["a. DS 1 2 3 04"]);
        assert_eq!(config.hints, [IpAddr::from([192, 0, 2, 1])]);
        assert_eq!(config.stubs, [(b"\x01b\x00".to_vec(), vec!["192.0.2.2:54".parse().unwrap()])]);
        let flat =
            "; stub-addr: 1.1.1.1\nstub-addr: 192.0.2.1\nquery-minimization: on\ndo-ip6: no\n";
        let config = read(flat, Dialect::Deckard);
        assert!(config.qname_minimisation && !config.ipv6 && config.aggressive_nsec);
        assert_eq!(config.hints, [IpAddr::from([192, 0, 2, 1])]);
    }

    #[test]
    fn dates_are_seconds_since_1970() {
        for (written, secs) in [
            ("19700101000002", 2),
            ("20000229120000", 951_825_600),
            ("20250101000000", WALL_SECS),
            ("1500000000", 1_500_000_000),
            ("-1", WALL_SECS),
        ] {
            assert_eq!(
                read(&format!("val-override-date: \"{written}\""), Dialect::Deckard).wall_secs,
                secs
            );
        }
    }
}
