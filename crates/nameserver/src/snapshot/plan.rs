//! Builds the plan, which has the settings for resolution, from a configuration.

use std::net::SocketAddr;

use avocet_config::discover::{DesignatedServer, Discovery, DiscoveryTerms};
use avocet_config::recurse::{LocalRootSource, Mode};
use avocet_config::{self as config, Config, DnssecConfig, ForwardConfig};
use avocet_dnssec::negative::{NegativeAnchor, NegativeAnchors};
use avocet_resolver::{
    Endpoint, FetchLimits, MAX_UPSTREAMS, PeerId, Plan, PlanError, Recursion, Settings, Transport,
    Validation, ZoneRule,
};
use avocet_wire::suffix::SuffixMap;
use avocet_wire::{FoldedNameBuf, name};

use super::{Unconfigured, ttl_bounds};
use crate::private_zones::private_zones;
use crate::trust::LearntTrust;
use crate::upstream_addresses::UpstreamAddresses;

/// Maximum number of questions in flight in all workers together.
const MAX_IN_FLIGHT: usize = 20_000;
/// Maximum number of waiting clients in all workers together.
const MAX_WAITERS: usize = 100_000;
/// Minimum number of simultaneous fetches in a worker for one zone or server, regardless of the
/// number of workers.
const MIN_FETCHES: u32 = 8;
/// The delay before a client gets expired data, in milliseconds, if `[cache]` does not enable
/// expired data. The value then has no effect.
const NO_STALE_MS: u32 = u32::MAX;

/// Returns the plan of a server, before the rules for its own names are added.
pub(super) fn plan(config: &Config, unconfigured: &Unconfigured) -> Result<Plan, PlanError> {
    let plan = Plan::new(rules(config, &unconfigured.upstream_addresses), settings(config))?;
    let plan = plan.with_sets(&config.policy.forward_sets())?;
    let plan = match config.resolver.mode {
        Mode::Forward => plan,
        Mode::Recurse => plan
            .with_recursion(recursion(config, unconfigured))
            .with_fetch_limits(fetch_limits(config)),
    };
    Ok(match config.dns64.translation() {
        Some(dns64) => plan.with_dns64(dns64),
        None => plan,
    })
}

/// Returns the forwarding rules. On a server that only forwards, exceptions to the rule for all
/// names are omitted: the excepted names have no other servers, so that rule applies to them, too.
fn rules(config: &Config, addresses: &UpstreamAddresses) -> Vec<ZoneRule> {
    let is_left = |exception: &ForwardConfig| {
        let is_over = |rule: &&ForwardConfig| !rule.exception && *rule.zone != [0];
        config.resolver.mode == Mode::Recurse
            || config
                .forwards
                .iter()
                .filter(is_over)
                .any(|rule| name::is_under(&exception.zone, &rule.zone))
    };
    config
        .forwards
        .iter()
        .filter(|forward| !forward.exception || is_left(forward))
        .map(|forward| rule(forward, addresses))
        .collect()
}

fn settings(config: &Config) -> Settings {
    let cache = &config.cache;
    Settings {
        minimal: config.server.minimal_responses,
        stale_client_ms: cache
            .serve_stale
            .as_ref()
            .map_or(NO_STALE_MS, |stale| stale.client_timeout.as_millis() as u32),
        in_flight: (MAX_IN_FLIGHT / config.server.workers).max(1),
        waiters: (MAX_WAITERS / config.server.workers).max(1),
        ttl: ttl_bounds(cache),
    }
}

/// Returns the limits on fetches for one worker. The workers share the total limits, because names
/// are distributed over the workers.
fn fetch_limits(config: &Config) -> FetchLimits {
    let share =
        |limit: u32| limit.div_ceil(config.server.workers as u32).max(MIN_FETCHES.min(limit));
    FetchLimits {
        per_zone: share(config.resolver.fetches_per_zone),
        per_server: share(config.resolver.fetches_per_server),
    }
}

fn recursion(config: &Config, unconfigured: &Unconfigured) -> Recursion {
    let resolver = &config.resolver;
    let has_copy = resolver.local_root != LocalRootSource::None;
    Recursion {
        hints: resolver.hints.clone(),
        priming: resolver.priming,
        qname_minimisation: resolver.qname_minimisation,
        case_randomisation: resolver.case_randomisation,
        cookies: resolver.cookies,
        encrypt: resolver.encrypt_authoritative,
        ipv4: resolver.ipv4,
        ipv6: resolver.ipv6,
        query_private: resolver.query_private,
        aggressive_nsec: resolver.aggressive_nsec,
        error_reports: resolver.error_reports,
        udp_size: resolver.edns_buffer_size,
        own: config.server.addresses(),
        stubs: config.stubs.clone(),
        local_root: has_copy.then(|| unconfigured.local_root.clone()),
        validation: validation_of(&config.dnssec, &unconfigured.trust).map(|validation| {
            Validation {
                private: private_zones(config).into_iter().map(|zone| (zone, ())).collect(),
                ..validation
            }
        }),
    }
}

fn rule(forward: &ForwardConfig, addresses: &UpstreamAddresses) -> ZoneRule {
    let (mut upstreams, mut reserves) = (Vec::new(), Vec::new());
    for one in &forward.upstreams {
        match forward.discovery_of(one).map(|terms| (addresses.designated(&terms), terms)) {
            None => upstreams.extend(endpoints(forward, one, addresses)),
            Some((designated, terms)) => {
                upstreams.extend(designated.map(|server| designated_endpoint(&terms, server)));
                if terms.discovery == Discovery::Auto {
                    let plain = if designated.is_some() { &mut reserves } else { &mut upstreams };
                    plain.extend(endpoints(forward, one, addresses));
                }
            }
        }
    }
    upstreams.truncate(MAX_UPSTREAMS);
    reserves.truncate(MAX_UPSTREAMS - upstreams.len());
    ZoneRule {
        zone: forward.zone.clone(),
        exception: forward.exception,
        upstreams,
        reserves,
        strategy: match forward.strategy {
            config::Strategy::Ordered => avocet_resolver::Strategy::Ordered,
            config::Strategy::RoundRobin => avocet_resolver::Strategy::RoundRobin,
            config::Strategy::Fastest => avocet_resolver::Strategy::Fastest,
            config::Strategy::Race(count) => avocet_resolver::Strategy::Race(count),
        },
        case_randomisation: forward.case_randomisation,
        ecs: match forward.ecs {
            config::EcsPolicy::Strip => avocet_resolver::EcsPolicy::Strip,
            config::EcsPolicy::Pass => avocet_resolver::EcsPolicy::Pass,
        },
        introduction: forward.introduction,
        timeout_ms: (
            forward.timeout_min.as_millis() as u32,
            forward.timeout_max.as_millis() as u32,
        ),
    }
}

/// Returns the endpoints of an upstream: one for each of its addresses.
fn endpoints(
    forward: &ForwardConfig,
    upstream: &config::Upstream,
    addresses: &UpstreamAddresses,
) -> Vec<Endpoint> {
    let transport = transport(upstream.transport, || forward.peer(upstream).id());
    let all = match (upstream.addr, &upstream.name) {
        (Some(addr), _) => vec![addr],
        (None, Some(name)) => {
            addresses.of(name).iter().map(|ip| SocketAddr::new(*ip, upstream.port)).collect()
        }
        (None, None) => Vec::new(),
    };
    all.into_iter().map(|addr| Endpoint { addr, transport }).collect()
}

/// Returns the endpoint of a server that another server designates.
fn designated_endpoint(terms: &DiscoveryTerms, server: &DesignatedServer) -> Endpoint {
    let transport = transport(server.transport, || terms.peer(server).id());
    Endpoint { addr: server.addr, transport }
}

fn transport(written: config::UpstreamTransport, peer: impl Fn() -> PeerId) -> Transport {
    match written {
        config::UpstreamTransport::Udp => Transport::Udp,
        config::UpstreamTransport::Tcp => Transport::Tcp,
        config::UpstreamTransport::Tls => Transport::Tls(peer()),
        config::UpstreamTransport::Https => Transport::Https(peer()),
        config::UpstreamTransport::Quic => Transport::Quic(peer()),
        config::UpstreamTransport::H3 => Transport::H3(peer()),
    }
}

/// Returns the anchors and the policy of validation; `None` if validation is off.
fn validation_of(config: &DnssecConfig, trust: &LearntTrust) -> Option<Validation> {
    let mut anchors = config.anchors();
    if config.trust_anchor_updates {
        trust.apply(&mut anchors);
    }
    let mut negative = NegativeAnchors::default();
    for anchor in &trust.negative {
        let _ = negative.insert(*anchor);
    }
    for name in &config.negative_anchors {
        // The check of the configuration has ensured that there are not too many anchors.
        let name = FoldedNameBuf::from_wire(name).ok();
        let _ = name.map(|name| negative.insert(NegativeAnchor { name, expires_at_secs: None }));
    }
    config.validate.then_some(Validation {
        anchors,
        negative,
        private: SuffixMap::default(),
        policy: config.policy(),
    })
}
