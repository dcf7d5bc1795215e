//! From a validated configuration to the snapshot that the workers use.

use std::fmt;
use std::sync::Arc;

use avocet_cache::TtlBounds;
use avocet_config::recurse::{LocalRootSource, Mode};
use avocet_config::{self as config, CacheConfig, Config, DnssecConfig, ForwardConfig};
use avocet_dnssec::negative::{NegativeAnchor, NegativeAnchors};
use avocet_resolver::{
    Endpoint, FetchLimits, LocalRootSlot, Plan, PlanError, Recursion, Settings, Validation,
    ZoneRule,
};
use avocet_wire::hash::HashKey;
use avocet_wire::suffix::SuffixMap;
use avocet_wire::{NameBuf, name};
use ipnet::IpNet;

use crate::admitted::Admitted;
use crate::policy::{Parts, Policy, PolicyError};
use crate::private_zones::private_zones;
use crate::query::chaos::ChaosTexts;
use crate::query::cookie::CookieSecrets;
use crate::query::local::LocalRecords;
use crate::query::own::Names;
use crate::query::rate_limit::RateLimiter;
use crate::query::respond::Identity;
use crate::query::special::SpecialNames;
use crate::trust::LearntTrust;

/// Questions in flight at most, in all workers together.
const MAX_IN_FLIGHT: usize = 20_000;
/// Waiting clients at most, in all workers together.
const MAX_WAITERS: usize = 100_000;
/// Fewest inquiries at one zone or server that a worker may have under way, however many workers
/// there are.
const MIN_FETCHES: u32 = 8;
/// When a client gets expired data if none of `[cache]` says so; never used then.
const NO_STALE_MS: u32 = u32::MAX;

/// All that follows from one revision of the configuration.
pub struct Snapshot {
    /// The configuration itself.
    pub config: Config,
    /// Changes whenever answers in the packet cache may no longer hold.
    pub epoch: u32,
    /// Who is answered.
    pub allow: Admitted,
    /// Local records.
    pub local: Arc<LocalRecords>,
    /// Local zones, and special names if they are answered here.
    pub special: Arc<SpecialNames>,
    /// Texts of class CH.
    pub chaos: ChaosTexts,
    /// NSID and sizes for OPT.
    pub identity: Identity,
    /// Cookie secrets, if cookies are on.
    pub cookies: Option<CookieSecrets>,
    /// The rate limit, if it is on.
    pub rate_limit: Option<Arc<RateLimiter>>,
    /// What is filtered; none where nothing is.
    pub policy: Option<Arc<Policy>>,
    /// What the policy is made of besides the configuration.
    pub parts: Parts,
    /// Where names are forwarded to.
    pub plan: Arc<Plan>,
}

/// What goes with every snapshot and is not configured.
#[derive(Clone)]
pub struct Unconfigured {
    /// Key of the hashes in the rate limiter.
    pub limiter: [u8; 32],
    /// Cookie secrets of which the first is used where none is configured.
    pub cookies: CookieSecrets,
    /// What is trusted beside the configuration.
    pub trust: LearntTrust,
    /// Where the copy of the root zone is found.
    pub local_root: LocalRootSlot,
    /// The networks of the host's own interfaces.
    pub own_networks: Arc<[IpNet]>,
}

/// Why a configuration cannot be put in force though it is well written.
#[derive(Debug)]
pub enum SnapshotError {
    /// Forwarding rules.
    Plan(PlanError),
    /// Lists, rules, clients.
    Policy(PolicyError),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(error) => error.fmt(f),
            Self::Policy(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SnapshotError {}

impl From<PlanError> for SnapshotError {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
    }
}

impl From<PolicyError> for SnapshotError {
    fn from(error: PolicyError) -> Self {
        Self::Policy(error)
    }
}

impl Snapshot {
    /// Builds all that follows from the configuration. Fails without effect.
    pub fn build(
        config: Config,
        epoch: u32,
        unconfigured: &Unconfigured,
        parts: Parts,
    ) -> Result<Self, SnapshotError> {
        let server = &config.server;
        let cookies = server.cookies.then(|| match server.cookie_secret {
            Some(current) => CookieSecrets { current, previous: None },
            None => unconfigured.cookies.clone(),
        });
        let plan = Plan::new(rules(&config), settings(&config))?;
        let plan = plan.with_sets(&config.policy.forward_sets())?;
        let plan = match config.resolver.mode {
            Mode::Forward => plan,
            Mode::Recurse => plan
                .with_recursion(recursion(&config, unconfigured))
                .with_fetch_limits(fetch_limits(&config)),
        };
        let plan = match config.dns64.translation() {
            Some(dns64) => plan.with_dns64(dns64),
            None => plan,
        };
        let special = Arc::new(SpecialNames::of(&config));
        let local = Arc::new(LocalRecords::new(&config.records, |name| special.soa_above(name)));
        let own_names = Names { local: Arc::clone(&local), special: Arc::clone(&special) };
        let plan = plan.with_own_names(Arc::new(own_names));
        let policy = Policy::build(&config.policy, &server.entrances(), &parts)?.map(Arc::new);
        Ok(Self {
            epoch,
            allow: Admitted::new(server, &unconfigured.own_networks),
            local,
            special,
            chaos: ChaosTexts {
                version: server.version.clone(),
                identity: server.id_server.clone(),
            },
            identity: Identity {
                udp_size: server.max_udp_size,
                nsid: server.nsid.as_ref().map(|text| text.as_bytes().into()),
                keepalive: (server.tcp.idle.as_millis() / 100).min(u128::from(u16::MAX)) as u16,
                notes: policy.as_ref().map_or_else(Arc::default, |policy| policy.notes().clone()),
            },
            cookies,
            rate_limit: limiter(&config, unconfigured),
            plan: Arc::new(plan),
            policy,
            parts,
            config,
        })
    }
}

fn limiter(config: &Config, unconfigured: &Unconfigured) -> Option<Arc<RateLimiter>> {
    config
        .rate_limit
        .as_ref()
        .map(|limit| Arc::new(RateLimiter::new(limit, HashKey::new(unconfigured.limiter))))
}

/// The forwarding rules. Names that an exception takes out of the rule for all names have no other
/// servers in a server that only forwards: they stay with that rule.
fn rules(config: &Config) -> Vec<ZoneRule> {
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
        .map(rule)
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

/// The share of one worker, as names are spread over them.
fn fetch_limits(config: &Config) -> FetchLimits {
    let share =
        |limit: u32| limit.div_ceil(config.server.workers as u32).max(MIN_FETCHES.min(limit));
    FetchLimits {
        per_zone: share(config.resolver.fetches_per_zone),
        per_server: share(config.resolver.fetches_per_server),
    }
}

/// The limits on TTLs of the cache and of the resolver.
pub fn ttl_bounds(cache: &CacheConfig) -> TtlBounds {
    TtlBounds {
        min: cache.min_ttl_secs,
        max: cache.max_ttl_secs,
        negative_min: cache.negative_min_ttl_secs,
        negative_max: cache.negative_max_ttl_secs,
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

fn rule(forward: &ForwardConfig) -> ZoneRule {
    ZoneRule {
        zone: forward.zone.clone(),
        exception: forward.exception,
        upstreams: forward.upstreams.iter().map(upstream).collect(),
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
        timeout_ms: (
            forward.timeout_min.as_millis() as u32,
            forward.timeout_max.as_millis() as u32,
        ),
    }
}

fn upstream(upstream: &config::Upstream) -> Endpoint {
    Endpoint {
        addr: upstream.addr,
        transport: match upstream.transport {
            config::UpstreamTransport::Udp => avocet_resolver::Transport::Udp,
            config::UpstreamTransport::Tcp => avocet_resolver::Transport::Tcp,
        },
    }
}

/// Returns what answers are validated with; `None` where validation is off.
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
        // The number was checked with the configuration.
        let name = NameBuf::from_wire(name).ok();
        let _ = name.map(|name| negative.insert(NegativeAnchor { name, expires_at_secs: None }));
    }
    config.validate.then_some(Validation {
        anchors,
        negative,
        private: SuffixMap::default(),
        policy: config.policy(),
    })
}
