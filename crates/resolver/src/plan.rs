//! The forwarding rules, checked and prepared for look-up.
//!
//! A plan is built from the configuration, never changes, and is replaced as a whole. The rule with
//! the longest zone at or above a name applies to the name. An exception (`!zone`) excludes its
//! subtree from the nearest rule above; the next shorter rule applies to the subtree.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use avocet_cache::{FailureKey, TtlBounds};
use avocet_wire::suffix::SuffixMap;
use avocet_wire::{FoldedName, Question, Rtype, name};

use crate::dns64::Dns64;
use crate::exchange::endpoint::{Endpoint, MAX_RACE, Strategy};
use crate::own::{Own, OwnNames, Sought};
use crate::recursion::{Recursion, Stubs};

/// Maximum number of servers of one rule. Each server has one bit in the sets of servers.
pub const MAX_UPSTREAMS: usize = 64;

/// The timeouts of queries to sets of servers (see [`ZoneRule::timeout_ms`]): the shortest and the
/// longest, in ms.
const SET_TIMEOUT_MS: (u32, u32) = (50, 2_000);
/// Maximum number of rules, and maximum number of servers, of a plan. Their indices have 16 bits,
/// and one value means "none".
pub(crate) const MAX_NUMBERED: usize = u16::MAX as usize - 1;
/// The value that is no index of a rule.
const NO_RULE: u16 = u16::MAX;

/// The treatment of the client subnet option of a query (RFC 7871).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EcsPolicy {
    /// The option is omitted, so that upstreams learn nothing about clients.
    Strip,
    /// The option is forwarded unchanged.
    Pass,
}

/// The information about the client that a server gets with each query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Introduction {
    /// The servers get no information.
    None,
    /// The servers get the client's address, in a PROXY protocol header before each datagram and at
    /// the start of each connection. Answers are for this client only, and are not cached.
    ProxyHeader(HeaderPlace),
}

/// The place of a header at the start of an encrypted connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderPlace {
    /// The header is the first encrypted data.
    InsideTls,
    /// The header precedes the handshake.
    OutsideTls,
}

/// A forwarding rule as configured.
#[derive(Clone, Debug)]
pub struct ZoneRule {
    /// The name of the zone, in lower case and uncompressed wire form.
    pub zone: Box<[u8]>,
    /// Whether this is an exception: the names of the zone are excluded from the nearest rule
    /// above. An exception has no upstreams.
    pub exception: bool,
    /// The servers; empty while their addresses are not known.
    pub upstreams: Vec<Endpoint>,
    /// Servers that are queried only if all others fail.
    pub reserves: Vec<Endpoint>,
    /// The order in which servers are queried.
    pub strategy: Strategy,
    /// Whether the letters of the question are sent in random case (0x20).
    pub case_randomisation: bool,
    /// The treatment of a client subnet option.
    pub ecs: EcsPolicy,
    /// The information about clients that servers of this rule get.
    pub introduction: Introduction,
    /// The shortest and the longest timeout of one query, in ms.
    pub timeout_ms: (u32, u32),
}

/// The settings that all rules share.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Whether responses are minimal: without NS records and additional addresses.
    pub minimal: bool,
    /// The time in ms after which a waiting client gets stale data, if there is any (RFC 8767 §5).
    pub stale_client_ms: u32,
    /// Maximum number of questions in flight in one resolver.
    pub in_flight: usize,
    /// Maximum number of waiting clients in one resolver.
    pub waiters: usize,
    /// The limits on TTLs. They equal the limits of the RRset cache.
    pub ttl: TtlBounds,
}

/// The limits on concurrent inquiries in one resolver. They prevent that one zone or server uses
/// the capacity for all others. Forwarded zones have no such limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FetchLimits {
    /// Maximum number of concurrent inquiries to the servers of one zone.
    pub per_zone: u32,
    /// Maximum number of outstanding queries to one server.
    pub per_server: u32,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self { per_zone: 200, per_server: 1_000 }
    }
}

/// The reason why rules are invalid. Holds the index of the invalid rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlanError {
    /// The zone is not a folded name in wire format.
    Zone(usize),
    /// An earlier rule has the same zone.
    Repeated(usize),
    /// The rule has more upstreams and reserves than [`MAX_UPSTREAMS`], or is an exception that has
    /// any.
    Upstreams(usize),
    /// The rule has a race of fewer than two servers, or of more than [`MAX_RACE`].
    Race(usize),
    /// The shortest timeout of the rule is zero, or exceeds the longest.
    Timeouts(usize),
    /// There are more than 65,534 rules or servers, or a limit in the settings is zero.
    Size,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rule, what) = match self {
            Self::Zone(rule) => (rule, "the zone is not a folded wire name"),
            Self::Repeated(rule) => (rule, "the zone has a rule already"),
            Self::Upstreams(rule) => (rule, "has at most 64 upstreams, an exception none"),
            Self::Race(rule) => (rule, "a race is between 2 to 8 upstreams"),
            Self::Timeouts(rule) => (rule, "the timeouts are not in order"),
            Self::Size => return f.write_str("too many rules or upstreams, or a limit of zero"),
        };
        write!(f, "forwarding rule {rule}: {what}")
    }
}

impl std::error::Error for PlanError {}

/// A rule that is prepared for use.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// Indices into [`Plan::upstreams`]. Reserve servers are last.
    pub(crate) upstreams: Vec<u16>,
    /// Number of servers that are not reserves. They come first.
    pub(crate) ordinary: usize,
    pub(crate) strategy: Strategy,
    pub(crate) case_randomisation: bool,
    pub(crate) ecs: EcsPolicy,
    pub(crate) introduction: Introduction,
    pub(crate) timeout_ms: (u32, u32),
}

/// The rule for a name, with the length in octets of the name of the zone for which its servers are
/// trusted: the zone of the rule, or of the exception that led to the rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    pub(crate) rule: u16,
    pub(crate) apex_len: u8,
}

/// The forwarding rules and the settings of resolution. Copies share its large parts.
///
/// ```
/// use avocet_cache::TtlBounds;
/// use avocet_resolver::{
///     EcsPolicy, Endpoint, Introduction, Plan, Settings, Strategy, Transport, ZoneRule,
/// };
/// use avocet_wire::FoldedName;
///
/// // `corp.` is forwarded, except for `public.corp.`
/// let server = Endpoint { addr: ([192, 0, 2, 1], 53).into(), transport: Transport::Udp };
/// let rule = |zone: &[u8], upstreams: Vec<Endpoint>| ZoneRule {
///     zone: zone.into(),
///     exception: upstreams.is_empty(),
///     upstreams,
///     reserves: Vec::new(),
///     strategy: Strategy::Fastest,
///     case_randomisation: true,
///     ecs: EcsPolicy::Strip,
///     introduction: Introduction::None,
///     timeout_ms: (50, 2_000),
/// };
/// let rules =
///     vec![rule(b"\x04corp\x00", vec![server]), rule(b"\x06public\x04corp\x00", Vec::new())];
/// let ttl = TtlBounds { min: 0, max: 86_400, negative_min: 0, negative_max: 3_600 };
/// let settings =
///     Settings { minimal: true, stale_client_ms: 1_800, in_flight: 64, waiters: 256, ttl };
/// let plan = Plan::new(rules, settings).expect("valid rules");
///
/// let name = |wire| FoldedName::new(wire).expect("a name in lower case");
/// assert!(plan.resolves(name(b"\x04host\x04corp\x00")));
/// assert!(!plan.resolves(name(b"\x04host\x06public\x04corp\x00")));
/// ```
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) settings: Settings,
    rules: Vec<Rule>,
    /// All upstreams. An upstream that several rules use occurs only once.
    pub(crate) upstreams: Vec<Endpoint>,
    /// The index of the rule for the names of each zone, except the root, and of each exception. An
    /// exception excludes its names from the nearest rule above it, and has the rule above that;
    /// `None` if there is no such rule.
    zones: Arc<SuffixMap<Option<u16>>>,
    /// The route of names to which no other rule applies; `None` without a rule for the root.
    root: Option<Route>,
    /// The index of the rule for the root; [`NO_RULE`] without such a rule.
    rule_of_root: u16,
    /// Sets of servers that questions may name ([`Ask::servers`]), with the indices of their rules.
    sets: HashMap<Box<[SocketAddr]>, u16>,
    has_reserves: bool,
    has_introductions: bool,
    /// The index of the first rule for a set of servers. Without sets, it is higher than all
    /// indices.
    first_set: u16,
    /// The settings of recursion for names to which no rule applies; `None` without recursion.
    pub(crate) recursion: Option<Arc<Recursion>>,
    pub(crate) stubs: Arc<Stubs>,
    pub(crate) fetch_limits: FetchLimits,
    dns64: Option<Arc<Dns64>>,
    /// Names that this server answers by itself.
    own_names: Option<Arc<dyn OwnNames>>,
}

/// A question to resolve.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The question.
    pub question: Question<'a>,
    /// A keyed hash of the question.
    pub hash: u64,
    /// The client's DO bit.
    pub dnssec_ok: bool,
    /// The client's CD bit.
    pub checking_disabled: bool,
    /// The data of the client's ECS option; empty if there is none. It is forwarded only if the
    /// rule permits it.
    pub ecs: &'a [u8],
    /// The client's address, to detect loops: a question must not be sent to the server that it
    /// comes from.
    pub client: Option<IpAddr>,
    /// The client's address, for servers that receive it (see [`Introduction`]); `None` for a
    /// question that this server itself causes.
    pub introduced: Option<IpAddr>,
    /// Whether the caller has stale data for the client: see
    /// [`Action::Overdue`](crate::Action::Overdue).
    pub stale_available: bool,
    /// The servers to query instead of the plan's servers: one of the sets given to
    /// [`Plan::with_sets`]. Their responses are not cached. Empty if the plan's servers are
    /// queried.
    pub servers: &'a [SocketAddr],
}

impl Ask<'_> {
    /// Returns the key in the cache of failures.
    pub(crate) fn failure_key(&self) -> FailureKey<'_> {
        FailureKey { question: self.question, checking_disabled: self.checking_disabled }
    }
}

impl Plan {
    /// Checks the rules and builds a plan.
    pub fn new(rules: Vec<ZoneRule>, settings: Settings) -> Result<Self, PlanError> {
        if rules.len() > MAX_NUMBERED || settings.in_flight == 0 || settings.waiters == 0 {
            return Err(PlanError::Size);
        }
        let mut zones = HashMap::new();
        for (number, rule) in rules.iter().enumerate() {
            check(number, rule)?;
            if zones.insert(rule.zone.clone(), number).is_some() {
                return Err(PlanError::Repeated(number));
            }
        }
        let (of_root, others): (Vec<_>, Vec<_>) = rules.iter().partition(|rule| *rule.zone == [0]);
        let root = of_root.first().and_then(|rule| target(&rules, &zones, rule));
        let rule_of_root = root.unwrap_or(NO_RULE);
        let root = root.map(|rule| Route { rule, apex_len: 1 });
        let zones: SuffixMap<_> =
            others.iter().map(|rule| (rule.zone.clone(), target(&rules, &zones, rule))).collect();
        let zones = Arc::new(zones);
        let stubs = Arc::new(Stubs::default());
        let (recursion, fetch_limits) = (None, FetchLimits::default());
        let rules_of = Vec::with_capacity(rules.len());
        let upstreams = Vec::new();
        let mut plan = Self {
            settings,
            rules: rules_of,
            upstreams,
            zones,
            root,
            rule_of_root,
            sets: HashMap::new(),
            has_reserves: false,
            has_introductions: false,
            first_set: u16::MAX,
            recursion,
            stubs,
            fetch_limits,
            dns64: None,
            own_names: None,
        };
        let mut numbers = HashMap::new();
        for rule in rules {
            let rule = plan.number(rule, &mut numbers);
            plan.has_reserves |= rule.ordinary < rule.upstreams.len();
            plan.has_introductions |= rule.introduction != Introduction::None;
            plan.rules.push(rule);
        }
        if plan.upstreams.len() > MAX_NUMBERED { Err(PlanError::Size) } else { Ok(plan) }
    }

    /// Adds sets of servers for questions that name a set ([`Ask::servers`](crate::Ask)).
    ///
    /// # Errors
    ///
    /// A set is empty or too large, or there are too many sets.
    pub fn with_sets(mut self, sets: &[Box<[SocketAddr]>]) -> Result<Self, PlanError> {
        let mut numbers =
            (0..).zip(&self.upstreams).map(|(number, spec)| (*spec, number)).collect();
        if !sets.is_empty() {
            self.first_set = self.rules.len() as u16;
        }
        for (place, servers) in sets.iter().enumerate() {
            let upstreams = servers.iter().map(|&addr| Endpoint::plain(addr)).collect();
            let rule = ZoneRule {
                zone: [0].into(),
                exception: false,
                upstreams,
                reserves: Vec::new(),
                strategy: Strategy::Ordered,
                case_randomisation: true,
                ecs: EcsPolicy::Strip,
                introduction: Introduction::None,
                timeout_ms: SET_TIMEOUT_MS,
            };
            check(place, &rule)?;
            let rule = self.number(rule, &mut numbers);
            self.sets.entry(servers.clone()).or_insert(self.rules.len() as u16);
            self.rules.push(rule);
        }
        let is_large = self.rules.len() > MAX_NUMBERED || self.upstreams.len() > MAX_NUMBERED;
        if is_large { Err(PlanError::Size) } else { Ok(self) }
    }

    /// Adds recursion: names to which no rule applies are resolved from the root.
    #[must_use]
    pub fn with_recursion(mut self, recursion: Recursion) -> Self {
        self.stubs = Arc::new(Stubs::new(&recursion.stubs));
        self.recursion = Some(Arc::new(recursion));
        self
    }

    /// Sets the limits of recursion.
    #[must_use]
    pub fn with_fetch_limits(mut self, limits: FetchLimits) -> Self {
        self.fetch_limits = limits;
        self
    }

    /// Adds DNS64 (RFC 6147).
    #[must_use]
    pub fn with_dns64(mut self, dns64: Dns64) -> Self {
        self.dns64 = Some(Arc::new(dns64));
        self
    }

    /// Adds the names that this server answers by itself. If an alias leads to such a name, the
    /// answer ends with this server's data.
    #[must_use]
    pub fn with_own_names(mut self, own_names: Arc<dyn OwnNames>) -> Self {
        self.own_names = Some(own_names);
        self
    }

    /// Returns this server's own data for a folded name; `None` if other servers must be queried.
    pub(crate) fn own<'a>(&'a self, qname: FoldedName<'a>, qtype: Rtype) -> Option<Own<'a>> {
        self.own_names.as_ref()?.find(&self.sought(qname, qtype))
    }

    /// Returns whether this folded name is in a zone for which no other server is queried.
    pub(crate) fn is_in_own_zone(&self, qname: FoldedName<'_>) -> bool {
        self.own_names
            .as_ref()
            .is_some_and(|names| names.has_zone_of(&self.sought(qname, Rtype::A)))
    }

    fn sought<'a>(&self, qname: FoldedName<'a>, qtype: Rtype) -> Sought<'a> {
        Sought { qname, qtype, served_len: self.own_rule_len(qname) }
    }

    /// Returns whether this server answers a question for a folded name by itself.
    #[must_use]
    pub fn is_answered_here(&self, qname: FoldedName<'_>, qtype: Rtype) -> bool {
        self.own(qname, qtype).is_some() || self.is_in_own_zone(qname)
    }

    /// Returns whether this server answers this folded name by itself.
    pub(crate) fn is_own(&self, qname: FoldedName<'_>) -> bool {
        self.own(qname, Rtype::A).is_some()
    }

    /// Returns the settings of DNS64. The caller must not apply them for validating clients, which
    /// set DO and CD (RFC 6147 §5.5).
    pub(crate) fn dns64(&self) -> Option<&Arc<Dns64>> {
        self.dns64.as_ref()
    }

    /// Returns whether a walk (an `async` function that resolves one question step by step)
    /// resolves this question. With recursion, walks resolve all questions of a plan. Without
    /// recursion, walks resolve only the questions whose answer may have to be made from other
    /// data, as with DNS64.
    pub(crate) fn walks(&self, ask: &Ask<'_>) -> bool {
        let validates = ask.dnssec_ok && ask.checking_disabled;
        let is_made = |dns64: &Arc<Dns64>| {
            let (qname, qtype) = (ask.question.qname(), ask.question.qtype());
            qtype == Rtype::AAAA || dns64.reverse(qname, qtype).is_some()
        };
        self.recursion.is_some() || self.dns64().filter(|_| !validates).is_some_and(is_made)
    }

    fn number(&mut self, rule: ZoneRule, numbers: &mut HashMap<Endpoint, u16>) -> Rule {
        let mut upstreams = Vec::with_capacity(rule.upstreams.len());
        let mut ordinary = 0;
        let of_rule = rule.upstreams.len();
        for (place, spec) in rule.upstreams.into_iter().chain(rule.reserves).enumerate() {
            let number = *numbers.entry(spec).or_insert_with(|| {
                self.upstreams.push(spec);
                (self.upstreams.len() - 1) as u16
            });
            if !upstreams.contains(&number) {
                upstreams.push(number);
                ordinary += usize::from(place < of_rule);
            }
        }
        let ZoneRule { strategy, case_randomisation, ecs, introduction, timeout_ms, .. } = rule;
        Rule { upstreams, ordinary, strategy, case_randomisation, ecs, introduction, timeout_ms }
    }

    /// Returns the route of a folded name: its rule. Returns `None` if no rule applies.
    pub(crate) fn route(&self, qname: FoldedName<'_>) -> Option<Route> {
        match self.zones.nearest(&qname) {
            None => self.root,
            Some((zone, rule)) => Some(Route { rule: (*rule)?, apex_len: zone.len() as u8 }),
        }
    }

    /// Returns the length of the name of the nearest zone at or above a folded name that has
    /// configured servers or an exception; 0 if there is none. Data from servers above that zone
    /// does not apply to its names (S4, S23 in tests/SECURITY.md).
    pub(crate) fn boundary_len(&self, qname: FoldedName<'_>) -> usize {
        let rule = self.zones.nearest(&qname).map_or(0, |(zone, _)| zone.len());
        let stub = self.stubs.nearest(qname).map_or(0, |(_, apex_len)| usize::from(apex_len));
        rule.max(stub)
    }

    /// Returns the route to a set of servers; `None` if there is no such set.
    pub(crate) fn route_to(&self, servers: &[SocketAddr]) -> Option<Route> {
        self.sets.get(servers).map(|&rule| Route { rule, apex_len: 1 })
    }

    /// Returns whether any rule sends the addresses of clients to its servers. Most plans have no
    /// such rule; their questions then need less work.
    #[inline]
    pub(crate) fn has_introductions(&self) -> bool {
        self.has_introductions
    }

    /// Returns whether the servers of a route get the address of the client.
    #[inline]
    pub(crate) fn introduces(&self, route: Route) -> bool {
        self.has_introductions && self.header_place(route).is_some()
    }

    /// Returns the place of the header with the client's address; `None` if the servers of the
    /// route get no such header.
    pub(crate) fn header_place(&self, route: Route) -> Option<HeaderPlace> {
        if self.recursion.is_some() {
            return None;
        }
        match self.rule(route).introduction {
            Introduction::None => None,
            Introduction::ProxyHeader(place) => Some(place),
        }
    }

    /// Returns whether there are sets of servers.
    pub(crate) fn has_sets(&self) -> bool {
        !self.sets.is_empty()
    }

    /// Returns whether the route leads to a set of servers. Such servers are trusted for all names.
    pub(crate) fn leads_to_a_set(&self, route: Route) -> bool {
        route.rule >= self.first_set
    }

    /// Returns the settings of DNS64, if it is configured.
    #[must_use]
    pub fn translation(&self) -> Option<&Dns64> {
        self.dns64.as_deref()
    }

    /// Returns whether a rule applies to this folded name, other than the rule for the root. That
    /// rule may also apply to a name by an exception.
    #[must_use]
    pub fn has_own_rule(&self, qname: FoldedName<'_>) -> bool {
        let mut least_len = 1;
        if let Some((zone, Some(rule))) = self.zones.nearest(&qname) {
            if *rule != self.rule_of_root {
                return true;
            }
            least_len = zone.len();
        }
        self.stubs.nearest(qname).is_some_and(|(_, apex_len)| usize::from(apex_len) > least_len)
    }

    /// Returns the length of the name of the nearest forwarded zone or stub zone for this folded
    /// name; `None` if that zone is the root.
    #[must_use]
    pub fn own_rule_len(&self, qname: FoldedName<'_>) -> Option<usize> {
        let rule = self
            .zones
            .nearest(&qname)
            .and_then(|(zone, rule)| rule.is_some().then_some(zone.len()));
        let stub = self
            .stubs
            .nearest(qname)
            .map(|(_, apex_len)| usize::from(apex_len))
            .filter(|len| *len > 1);
        rule.max(stub)
    }

    /// Returns whether any server is queried for this folded name.
    #[must_use]
    pub fn resolves(&self, qname: FoldedName<'_>) -> bool {
        self.recursion.is_some() || self.route(qname).is_some()
    }

    /// Returns all rules. The rules of server sets are last.
    pub(crate) fn rules(&self) -> &[Rule] {
        &self.rules
    }

    pub(crate) fn rule(&self, route: Route) -> &Rule {
        &self.rules[usize::from(route.rule)]
    }

    /// Returns whether any rule has reserves.
    pub(crate) fn has_reserves(&self) -> bool {
        self.has_reserves
    }

    /// Returns the reserves of the rule that applies to a folded name.
    pub(crate) fn reserves(&self, qname: FoldedName<'_>) -> impl Iterator<Item = Endpoint> + '_ {
        let rule = self.route(qname).map(|route| self.rule(route));
        let numbers = rule.map_or(&[][..], |rule| &rule.upstreams[rule.ordinary..]);
        numbers.iter().map(|&number| self.upstreams[usize::from(number)])
    }

    /// Returns whether a client's ECS option is forwarded for this folded name.
    #[must_use]
    pub fn passes_ecs(&self, qname: FoldedName<'_>) -> bool {
        self.recursion.is_none()
            && self.route(qname).is_some_and(|route| self.rule(route).ecs == EcsPolicy::Pass)
    }
}

fn check(number: usize, rule: &ZoneRule) -> Result<(), PlanError> {
    let folded = !rule.zone.iter().any(u8::is_ascii_uppercase);
    if !folded || name::wire_len(&rule.zone) != Ok(rule.zone.len()) {
        return Err(PlanError::Zone(number));
    }
    let most = if rule.exception { 0 } else { MAX_UPSTREAMS };
    if rule.upstreams.len() + rule.reserves.len() > most {
        return Err(PlanError::Upstreams(number));
    }
    if let Strategy::Race(count) = rule.strategy
        && !(2..=MAX_RACE).contains(&count)
    {
        return Err(PlanError::Race(number));
    }
    let (min, max) = rule.timeout_ms;
    if min == 0 || min > max { Err(PlanError::Timeouts(number)) } else { Ok(()) }
}

/// Returns the rule for the names of `rule.zone`. For an exception, it is the next rule above.
fn target(rules: &[ZoneRule], zones: &HashMap<Box<[u8]>, usize>, rule: &ZoneRule) -> Option<u16> {
    if !rule.exception {
        return zones.get(&rule.zone).map(|&number| number as u16);
    }
    let mut above = name::ancestors(&rule.zone).filter_map(|zone| zones.get(zone)).copied();
    let excepted = above.find(|&number| !rules[number].exception)?;
    let next = name::ancestors(&rules[excepted].zone).skip(1).find_map(|zone| zones.get(zone))?;
    target(rules, zones, &rules[*next])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(zone: &[u8], port: u16) -> ZoneRule {
        let addr = SocketAddr::from(([192, 0, 2, 1], port));
        ZoneRule {
            zone: zone.into(),
            exception: port == 0,
            upstreams: if port == 0 { Vec::new() } else { vec![Endpoint::plain(addr)] },
            reserves: Vec::new(),
            strategy: Strategy::Ordered,
            case_randomisation: true,
            ecs: EcsPolicy::Strip,
            introduction: Introduction::None,
            timeout_ms: (50, 2000),
        }
    }

    fn plan(rules: Vec<ZoneRule>) -> Result<Plan, PlanError> {
        let ttl = TtlBounds { min: 0, max: 86_400, negative_min: 0, negative_max: 3600 };
        Plan::new(
            rules,
            Settings { minimal: true, stale_client_ms: 1800, in_flight: 10, waiters: 10, ttl },
        )
    }

    /// Returns the port of the first server for `name`.
    fn port(plan: &Plan, name: &[u8]) -> Option<u16> {
        let rule = plan.rule(plan.route(FoldedName::new(name).unwrap())?);
        Some(plan.upstreams[usize::from(rule.upstreams[0])].addr.port())
    }

    #[test]
    fn the_longest_zone_wins_and_exceptions_fall_to_the_next_shorter_rule() {
        let plan = plan(vec![
            rule(b"\x00", 1),
            rule(b"\x04corp\x00", 2),
            rule(b"\x03lab\x04corp\x00", 0),
            rule(b"\x01x\x03lab\x04corp\x00", 3),
        ])
        .unwrap();
        assert_eq!(port(&plan, b"\x01a\x00"), Some(1));
        assert_eq!(port(&plan, b"\x04corp\x00"), Some(2));
        assert_eq!(port(&plan, b"\x01a\x04corp\x00"), Some(2));
        assert_eq!(port(&plan, b"\x05xcorp\x00"), Some(1));
        assert_eq!(port(&plan, b"\x03lab\x04corp\x00"), Some(1));
        assert_eq!(port(&plan, b"\x01x\x03lab\x04corp\x00"), Some(3));
        let excepted = plan.route(FoldedName::new(b"\x01a\x03lab\x04corp\x00").unwrap()).unwrap();
        assert_eq!(excepted.apex_len, 10, "belief still ends at the exception");
    }

    #[test]
    fn a_name_under_no_rule_has_no_route() {
        let plan = plan(vec![rule(b"\x04corp\x00", 2), rule(b"\x03lab\x04corp\x00", 0)]).unwrap();
        assert!(plan.route(FoldedName::new(b"\x00").unwrap()).is_none());
        assert!(plan.route(FoldedName::new(b"\x03lab\x04corp\x00").unwrap()).is_none());
    }

    #[test]
    fn faulty_rules_are_refused_by_number() {
        let faulty = |change: fn(&mut ZoneRule)| {
            let mut second = rule(b"\x04corp\x00", 2);
            change(&mut second);
            plan(vec![rule(b"\x00", 1), second]).unwrap_err()
        };
        assert_eq!(faulty(|r| r.zone = b"\x00".as_slice().into()), PlanError::Repeated(1));
        assert_eq!(faulty(|r| r.zone = b"\x04COrp\x00".as_slice().into()), PlanError::Zone(1));
        assert_eq!(faulty(|r| r.zone = b"\x04cor".as_slice().into()), PlanError::Zone(1));
        let crowd = |r: &mut ZoneRule| r.upstreams = vec![r.upstreams[0]; MAX_UPSTREAMS + 1];
        assert_eq!(faulty(crowd), PlanError::Upstreams(1));
        let reserves = |r: &mut ZoneRule| r.reserves = vec![r.upstreams[0]; MAX_UPSTREAMS];
        assert_eq!(faulty(reserves), PlanError::Upstreams(1));
        assert_eq!(faulty(|r| r.exception = true), PlanError::Upstreams(1));
        assert_eq!(faulty(|r| r.strategy = Strategy::Race(9)), PlanError::Race(1));
        assert_eq!(faulty(|r| r.timeout_ms = (60, 50)), PlanError::Timeouts(1));
    }
}
