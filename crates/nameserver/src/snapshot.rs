//! Builds the snapshot that the workers use, from a validated configuration.
//!
//! A [`Snapshot`] has four parts, each behind its own [`Arc`] and with its own generation:
//!
//! ```text
//! configuration    every key, as checked
//! policy           lists, rules, clients: what is filtered for which client
//! plan             where and how names are resolved and validated
//! names            local records, hosted zones, local zones, special names
//! ```
//!
//! [`Snapshot::replaced`] makes the next snapshot. It builds the parts with changed [`Inputs`],
//! shares the others with the previous snapshot, and gives the changed parts the next number of
//! [`Generations`]. Secrets, source ports and the networks of this host are in no part, so a change
//! of these builds no part.
//!
//! An answer in the packet cache carries the number of the last change before it was made
//! ([`Snapshot::epoch`]). It is valid while no part that it depends on has changed since
//! ([`query::still_holds`](crate::query::still_holds)):
//!
//! | answer | policy | plan | names |
//! |---|---|---|---|
//! | of other servers | yes | yes | the names in the answer |
//! | of the servers of a rule | what rules decide | yes | the names in the answer |
//! | of the policy, to the question | yes | no | the name in the question |
//! | of the policy, in place of an answer | yes | yes | all names |
//! | of the local records | yes | no | the names in the answer |

mod generations;
mod inputs;
mod plan;

use std::sync::Arc;

use avocet_cache::TtlBounds;
use avocet_config::ports::{PortRange, SourcePorts, TooFewPorts};
use avocet_config::{CacheConfig, Config};
use avocet_resolver::{LocalRootSlot, Plan};
use avocet_wire::hash::HashKey;
use avocet_wire::name::is_under;
use avocet_wire::{FoldedName, Rtype};
use avocet_zone::{HostedEnd, HostedQuestion, HostedZones, Proofs, answer};
use ipnet::IpNet;

use crate::StateError;
use crate::admitted::Admitted;
use crate::identified::Strangers;
use crate::policy::{
    Parts, Policy, PolicyChange, PolicySources, alias_targets, has_private_address, service_targets,
};
use crate::proxies::Proxies;
use crate::query::chaos::ChaosTexts;
use crate::query::cookie::CookieSecrets;
use crate::query::designation::ShownCertificate;
use crate::query::own::{NameSources, Names};
use crate::query::rate_limit::RateLimiter;
use crate::query::respond::Identity;
use crate::query::special::LOCALHOST;
use crate::traces::Selection;
use crate::trust::LearntTrust;
use crate::upstream_addresses::UpstreamAddresses;
use crate::zone_views::ZoneViews;

pub use generations::Generations;
pub use inputs::Inputs;
use inputs::Placement;

/// Size in octets of the buffer for an answer of a hosted zone: sufficient for any message.
const LOOKED_UP: usize = 65_535;
/// Maximum number of names of hosted zones that are looked up to decide whether a name belongs to
/// this network.
const MAX_LED: usize = 8;
/// Maximum number of names to which these names may lead.
const MAX_LED_TO: usize = 64;

/// The complete state from which queries are answered at one time.
pub struct Snapshot {
    /// The configuration.
    pub config: Arc<Config>,
    /// The policy; `None` if nothing is filtered.
    pub policy: Option<Arc<Policy>>,
    /// The settings for the resolution of names, including this server's own names.
    pub plan: Arc<Plan>,
    /// The names that this server answers by itself.
    pub names: Arc<Names>,
    /// The hosted zones that each client sees, if clients see different zones.
    pub views: Option<ZoneViews>,
    /// The last change of each part.
    pub generations: Generations,
    /// The last change that may alter an answer: see [`Generations::epoch`].
    pub epoch: u32,
    /// The last change of any part: see [`Generations::revision`].
    pub revision: u32,
    /// Whether queries are logged.
    pub is_logging: bool,
    /// Whether replies are sent as dnstap messages.
    pub is_tapping: bool,
    /// The selection of queries to trace; `None` if no traces are exported.
    pub traced: Option<Arc<Selection>>,
    /// Whether queries are logged, sent as dnstap messages or traced.
    pub is_recording: bool,
    /// Whether queries are logged, but neither sent as dnstap messages nor traced, as on most
    /// servers.
    pub is_only_logging: bool,
    /// The access lists: which clients are answered.
    pub allow: Admitted,
    /// The proxies that send the addresses of their clients.
    pub proxies: Proxies,
    /// The source ports of queries to servers, shared with the previous snapshot if unchanged.
    pub ports: Arc<SourcePorts>,
    /// The texts that answer queries of class CH.
    pub chaos: ChaosTexts,
    /// NSID and sizes for OPT.
    pub identity: Identity,
    /// Cookie secrets, if cookies are on.
    pub cookies: Option<CookieSecrets>,
    /// The rate limit, if it is on.
    pub rate_limit: Option<Arc<RateLimiter>>,
    /// The inputs of the policy other than the configuration.
    pub parts: Parts,
    /// The clients that are identified before the policy judges their queries.
    pub strangers: Strangers,
    /// Whether any client must be identified before the policy judges its queries.
    pub has_strangers: bool,
    /// The other inputs that are not configured.
    unconfigured: Unconfigured,
}

/// The inputs of a snapshot that are not in the configuration.
#[derive(Clone)]
pub struct Unconfigured {
    /// Key of the hashes in the rate limiter.
    pub limiter: [u8; 32],
    /// Cookie secrets; the first is used if none is configured.
    pub cookies: CookieSecrets,
    /// Learned trust anchors. A change of these builds a new plan.
    pub trust: Arc<LearntTrust>,
    /// The hosted zones. A change of these builds new names.
    pub zones: Arc<HostedZones>,
    /// The certificates that clients see. A change of these builds new names.
    pub certificates: Arc<[ShownCertificate]>,
    /// The addresses of upstreams with names. A change of these builds a new plan.
    pub upstream_addresses: Arc<UpstreamAddresses>,
    /// The copy of the root zone.
    pub local_root: LocalRootSlot,
    /// The networks of the host's own interfaces.
    pub own_networks: Arc<[IpNet]>,
    /// The ports that the kernel reserves for other programs.
    pub reserved_ports: Arc<[PortRange]>,
    /// Number of times that cached records were dropped because the settings for resolving or
    /// validating their names changed. Answers that were made from these records are no longer
    /// valid.
    pub drops: u32,
}

impl Unconfigured {
    /// Creates the inputs of a server that has learned nothing yet, with its secrets.
    pub fn new(limiter: [u8; 32], cookies: CookieSecrets) -> Self {
        Self {
            limiter,
            cookies,
            trust: Arc::default(),
            zones: Arc::default(),
            certificates: Arc::default(),
            upstream_addresses: Arc::default(),
            local_root: LocalRootSlot::default(),
            own_networks: Arc::default(),
            reserved_ports: Arc::default(),
            drops: 0,
        }
    }

    fn of_names(&self) -> NameSources {
        NameSources { zones: self.zones.clone(), certificates: self.certificates.clone() }
    }
}

/// The parts of the previous snapshot that must be built again.
struct Outdated {
    config: bool,
    policy: bool,
    plan: bool,
    /// The addresses of upstream servers in the plan. No answer depends on these addresses.
    addresses: bool,
    names: bool,
}

impl Outdated {
    fn of(
        old: &Snapshot,
        config: &Arc<Config>,
        unconfigured: &Unconfigured,
        parts: &Parts,
    ) -> Self {
        let has_new_trust = !Arc::ptr_eq(&old.unconfigured.trust, &unconfigured.trust);
        let addresses = old.unconfigured.upstream_addresses != unconfigured.upstream_addresses;
        let has_new_names = !Arc::ptr_eq(&old.unconfigured.zones, &unconfigured.zones)
            || old.unconfigured.certificates != unconfigured.certificates;
        let has_new_parts = !old.parts.build_the_same(parts);
        if Arc::ptr_eq(&old.config, config) {
            let (config, names) = (false, has_new_names);
            let plan = has_new_trust;
            return Self { config, policy: has_new_parts, plan, addresses, names };
        }
        let (before, now) = (Inputs::of(&old.config), Inputs::of(config));
        Self {
            config: *old.config != **config,
            policy: has_new_parts
                || before.policy != now.policy
                || old.config.server.entrances() != config.server.entrances(),
            plan: has_new_trust
                || before.plan != now.plan
                || Placement::of(&old.config) != Placement::of(config),
            addresses,
            names: has_new_names || before.names != now.names,
        }
    }
}

/// The four parts of a snapshot.
struct SnapshotParts {
    config: Arc<Config>,
    policy: Option<Arc<Policy>>,
    plan: Arc<Plan>,
    names: Arc<Names>,
    generations: Generations,
}

/// Data that is built together with the parts but belongs to no part, because no answer depends on
/// this data.
struct Extras {
    views: Option<ZoneViews>,
    rate_limit: Option<Arc<RateLimiter>>,
    ports: Arc<SourcePorts>,
}

impl Snapshot {
    /// Returns the hosted zones that clients with this profile see.
    #[inline]
    #[must_use]
    pub fn zones_of(&self, profile: u16) -> &HostedZones {
        let of_view = self.views.as_ref().and_then(|views| views.of_profile(profile));
        of_view.unwrap_or(&self.names.zones)
    }

    /// Reports whether this server has names of its own for clients with this profile: pools, local
    /// records or hosted zones.
    #[inline]
    #[must_use]
    pub fn has_own_names(&self, profile: u16) -> bool {
        let Names { local, pools, .. } = &*self.names;
        !(local.is_empty() && pools.is_empty() && self.zones_of(profile).is_empty())
    }

    /// Reports whether a name belongs to this network for clients with this profile. Such a name
    /// has local records, is a pool, has a private address in a hosted zone, is at or below
    /// `localhost`, or has servers in the configuration. A name of a hosted zone also belongs to
    /// this network if its aliases, its ALIAS records, or its SVCB or HTTPS records lead to such a
    /// name.
    #[must_use]
    pub fn is_of_this_network(&self, name: FoldedName<'_>, profile: u16) -> bool {
        self.is_own(name) || self.leads_home(name, profile)
    }

    /// Reports whether a name belongs to this network without a look-up in hosted zones.
    fn is_own(&self, name: FoldedName<'_>) -> bool {
        let Names { local, pools, .. } = &*self.names;
        local.has(name)
            || pools.get(name.wire()).is_some()
            || is_under(name.wire(), LOCALHOST)
            || self.plan.has_own_rule(name)
    }

    /// Reports whether a name of a hosted zone has a private address or such a hint in an SVCB or
    /// HTTPS record, or leads to a name of this network. A name that leads to more names than are
    /// followed counts as such a name.
    fn leads_home(&self, name: FoldedName<'_>, profile: u16) -> bool {
        let zones = self.zones_of(profile);
        let (mut out, mut names) = (Vec::new(), vec![name.to_buf()]);
        let mut place = 0;
        while let Some(at) = names.get(place).copied() {
            place += 1;
            if zones.zone_of(at.view(), Rtype::A).is_none() {
                continue;
            }
            if place > MAX_LED || names.len() > MAX_LED_TO {
                return true;
            }
            out.resize(LOOKED_UP, 0);
            for qtype in [Rtype::A, Rtype::AAAA, Rtype::HTTPS, Rtype::SVCB] {
                let (proofs, limit) = (Proofs::Omitted, LOOKED_UP);
                let question = HostedQuestion { qname: at.view(), qtype, proofs, limit };
                let Some(found) = answer(zones, &question, &mut out) else { continue };
                let message = out.get(..found.len).unwrap_or_default();
                let (aliases, services) = (alias_targets(message), service_targets(message));
                let mut targets = aliases.iter().chain(&services);
                if has_private_address(message) || targets.any(|name| self.is_own(name.view())) {
                    return true;
                }
                let leaves = matches!(found.end, HostedEnd::Alias | HostedEnd::Flattened);
                let last = aliases.last().filter(|_| leaves);
                for target in last.into_iter().chain(&services) {
                    if !names.contains(target) {
                        names.push(*target);
                    }
                }
            }
        }
        false
    }

    /// Builds the first snapshot.
    ///
    /// # Errors
    /// A part cannot be built.
    pub fn first(
        config: Config,
        unconfigured: &Unconfigured,
        parts: Parts,
    ) -> Result<Self, StateError> {
        let config = Arc::new(config);
        let names = Arc::new(Names::of(&config, unconfigured.of_names()));
        let plan = plan::plan(&config, unconfigured)?.with_own_names(names.clone());
        let policy =
            Policy::build(&config.policy, &config.server.entrances(), &parts, None)?.map(Arc::new);
        let extras = Extras {
            views: ZoneViews::of(&config.policy.views, &names.zones, policy.as_deref(), None)?,
            rate_limit: limiter(&config, unconfigured),
            ports: SourcePorts::new(&config.avoid_ports, &unconfigured.reserved_ports)?.into(),
        };
        let generations = Generations::FIRST;
        let built = SnapshotParts { config, policy, plan: Arc::new(plan), names, generations };
        Ok(Self::of(built, extras, unconfigured, parts))
    }

    /// Builds the snapshot that replaces this one. Fails without effect.
    ///
    /// # Errors
    /// A part cannot be built.
    pub fn replaced(
        &self,
        config: Arc<Config>,
        unconfigured: &Unconfigured,
        mut parts: Parts,
    ) -> Result<Self, StateError> {
        let outdated = Outdated::of(self, &config, unconfigured, &parts);
        if outdated.config && outdated.policy {
            parts.start_over();
        }
        let (mut generations, number) = (self.generations, self.generations.following());
        if outdated.config {
            generations.configuration = number;
        }
        let policy = match outdated.policy {
            true => {
                let (entrances, before) = (config.server.entrances(), self.policy.as_deref());
                Policy::build(&config.policy, &entrances, &parts, before)?.map(Arc::new)
            }
            false => self.policy.clone(),
        };
        let before = PolicySources::of(&self.config.policy, &self.parts, self.policy.as_deref());
        let now = PolicySources::of(&config.policy, &parts, policy.as_deref());
        let change = if outdated.policy { now.change_since(&before) } else { PolicyChange::None };
        match change {
            PolicyChange::None => {}
            PolicyChange::Entries => generations.policy = number,
            PolicyChange::Any => (generations.policy, generations.rules) = (number, number),
        }
        let names = match outdated.names {
            true => {
                let sources = unconfigured.of_names();
                Arc::new(self.names.replaced(&self.config, &config, sources, number))
            }
            false => self.names.clone(),
        };
        if outdated.names {
            generations.names = number;
        }
        let plan = match (outdated.plan || outdated.addresses, outdated.names) {
            (true, _) => plan::plan(&config, unconfigured)?.with_own_names(names.clone()).into(),
            (false, true) => Plan::clone(&self.plan).with_own_names(names.clone()).into(),
            (false, false) => self.plan.clone(),
        };
        if outdated.plan || unconfigured.drops != self.unconfigured.drops {
            generations.plan = number;
        }
        // The limiter is kept if its limits are unchanged, so that a client over the limit stays
        // over it.
        let rate_limit = match config.rate_limit == self.config.rate_limit {
            true => self.rate_limit.clone(),
            false => limiter(&config, unconfigured),
        };
        let ports = self.ports_for(&config, unconfigured)?;
        let (items, before) = (&config.policy.views, self.views.as_ref());
        let views = ZoneViews::of(items, &names.zones, policy.as_deref(), before)?;
        let built = SnapshotParts { config, policy, plan, names, generations };
        Ok(Self::of(built, Extras { views, rate_limit, ports }, unconfigured, parts))
    }

    /// Returns the source ports of the next snapshot.
    fn ports_for(
        &self,
        config: &Config,
        unconfigured: &Unconfigured,
    ) -> Result<Arc<SourcePorts>, TooFewPorts> {
        if config.avoid_ports == self.config.avoid_ports
            && unconfigured.reserved_ports == self.unconfigured.reserved_ports
        {
            return Ok(self.ports.clone());
        }
        let ports = SourcePorts::new(&config.avoid_ports, &unconfigured.reserved_ports)?;
        Ok(if ports == *self.ports { self.ports.clone() } else { ports.into() })
    }

    /// Creates the snapshot from its built parts and the remaining data.
    fn of(built: SnapshotParts, extras: Extras, unconfigured: &Unconfigured, parts: Parts) -> Self {
        let SnapshotParts { config, policy, plan, names, generations } = built;
        let server = &config.server;
        let cookies = server.cookies.then(|| match server.cookie_secret {
            Some(current) => CookieSecrets { current, previous: None },
            None => unconfigured.cookies.clone(),
        });
        let identity = Identity {
            udp_size: server.max_udp_size,
            nsid: server.nsid.as_ref().map(|text| text.as_bytes().into()),
            keepalive: (server.tcp.idle.as_millis() / 100).min(u128::from(u16::MAX)) as u16,
            notes: policy.as_ref().map_or_else(Arc::default, |policy| policy.notes().clone()),
        };
        let strangers = parts.strangers(&config.policy);
        let chaos =
            ChaosTexts { version: server.version.clone(), identity: server.id_server.clone() };
        let traced = Selection::of(&config.otlp, server.workers).map(Arc::new);
        Self {
            epoch: generations.epoch(),
            revision: generations.revision(),
            is_logging: config.query_log.enabled,
            is_tapping: config.dnstap.output.is_some(),
            is_recording: config.query_log.enabled
                || config.dnstap.output.is_some()
                || traced.is_some(),
            is_only_logging: config.query_log.enabled
                && config.dnstap.output.is_none()
                && traced.is_none(),
            traced,
            allow: Admitted::new(server, &unconfigured.own_networks),
            proxies: Proxies::new(server),
            unconfigured: unconfigured.clone(),
            chaos,
            identity,
            cookies,
            views: extras.views,
            rate_limit: extras.rate_limit,
            ports: extras.ports,
            has_strangers: strangers.are_wanted(),
            strangers,
            parts,
            config,
            policy,
            plan,
            names,
            generations,
        }
    }
}

fn limiter(config: &Config, unconfigured: &Unconfigured) -> Option<Arc<RateLimiter>> {
    config
        .rate_limit
        .as_ref()
        .map(|limit| Arc::new(RateLimiter::new(limit, HashKey::new(unconfigured.limiter))))
}

/// Returns the limits on TTLs of the cache and of the resolver.
pub fn ttl_bounds(cache: &CacheConfig) -> TtlBounds {
    TtlBounds {
        min: cache.min_ttl_secs,
        max: cache.max_ttl_secs,
        negative_min: cache.negative_min_ttl_secs,
        negative_max: cache.negative_max_ttl_secs,
    }
}
