//! `[policy]`, `[[list]]`, `[[group]]`, `[[client]]`, `[[rule]]`: the configuration of filtering.
//!
//! The crate `avocet_policy` validates conditions and actions. This file checks names and locates
//! each fault in the file.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use avocet_policy::client::{
    ClientFault, ClientSpec, DEFAULT_GROUP, Directory, GroupSpec, Id, IdPrecedence, MAX_CLIENTS,
    MAX_GROUPS,
};
use avocet_policy::list::MAX_LISTS;
use avocet_policy::rpz::MAX_POLICY_ZONES;
use avocet_policy::rule::{
    Action, ActionKind, BlockForm, LimitKey, MAX_RULES, NamedTimeZone, Over, Rule, RuleFault,
    RulePart, RuleSpec, Rules, Target, Vocabulary,
};
use avocet_resolver::Introduction;
use toml::Spanned;

use super::block::{self, BlockConfig};
use super::check::Check;
use super::discover::Discovery;
use super::error::SettingError;
use super::list_source::{self, ReadPrimaries, TransferredList};
use super::name::Name;
use super::policy_spec::{ClientTable, GroupTable, ListTable, PolicySpec, RuleTable};
use super::setting::{FromText, List, Setting};
use super::signals::Signals;
use super::upstream::ServerAddress;
use super::view_item::ZoneView;
use super::{ForwardConfig, UpstreamTransport};

/// Maximum number of octets of the name of a list, group, client or rule.
const MAX_ENTRY_NAME: usize = 64;
/// The format of response policy zones.
const RPZ: &str = "rpz";
const MIN_REFRESH: Duration = Duration::from_secs(60);
/// Maximum time between two fetches of a list, and maximum duration of a pause or a grant.
pub const MAX_SPAN: Duration = Duration::from_secs(365 * 86_400);

/// The configuration of filtering.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyConfig {
    /// The answers to blocked questions.
    pub block: BlockConfig,
    /// The IANA name of the default time zone of rules.
    pub time_zone: String,
    /// The names that may have private addresses, in wire form; `None` if there is no protection
    /// against rebinding.
    pub rebinding: Option<Vec<Box<[u8]>>>,
    /// Whether the identifier that a device sends or the address of the device decides, if they
    /// belong to different clients.
    pub id_precedence: IdPrecedence,
    /// The lease file of the DHCP server.
    pub leases: Option<PathBuf>,
    /// The geo database.
    pub geo_database: Option<PathBuf>,
    /// Whether pools choose addresses by the country of a client.
    pub locates_clients: bool,
    /// The names of the listeners, for conditions.
    pub listeners: Vec<String>,
    /// The views of zones, in the order of the zones.
    pub views: Vec<ZoneView>,
    /// The programs that are asked to use the DNS server of this network.
    pub signals: Signals,
    /// The lists, with distinct names.
    pub lists: Vec<ListConfig>,
    /// The groups of clients.
    pub groups: Vec<GroupSpec>,
    /// The clients.
    pub clients: Vec<ClientSpec>,
    /// The rules, including disabled ones.
    pub rules: Vec<RuleSpec>,
}

/// A `[[list]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct ListConfig {
    /// The name of the list; no other list has it.
    pub name: String,
    /// The source of the text.
    pub source: ListSource,
    /// The format of the text.
    pub format: ListFormat,
    /// The effect of an entry.
    pub kind: ListKind,
    /// The interval between two fetches of the source.
    pub refresh: Duration,
    /// Whether entries may choose answers.
    pub rewrites: bool,
    /// Words by which rules refer to the list.
    pub tags: Vec<String>,
}

/// The source of a list.
#[derive(Debug, Clone, PartialEq)]
pub enum ListSource {
    /// A URL with http or https.
    Url(String),
    /// A local file.
    File(PathBuf),
    /// A zone of other servers.
    Zone(Box<TransferredList>),
}

impl ListSource {
    /// Reports whether the text comes from elsewhere.
    pub const fn is_fetched(&self) -> bool {
        !matches!(self, Self::File(_))
    }

    /// Returns the zone that is transferred; `None` for other sources.
    pub const fn zone(&self) -> Option<&TransferredList> {
        match self {
            Self::Zone(zone) => Some(zone),
            _ => None,
        }
    }
}

/// The format of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListFormat(pub &'static str);

/// The effect of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// Names on the list are blocked.
    Block,
    /// Names on the list are not blocked by other lists.
    Allow,
}

/// Implements [`FromText`] for an enumeration of the crate `avocet_policy`.
macro_rules! choices {
    ($type:ty, $expected:literal, $($text:literal => $value:path),+) => {
        impl FromText for $type {
            const EXPECTED: &'static str = $expected;
            const CHOICES: &'static [&'static str] = &[$($text),+];

            fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
                match text {
                    $($text => Ok($value),)+
                    _ => Err(None),
                }
            }
        }
    };
}

choices!(BlockForm, "\"zero\", \"nxdomain\", \"nodata\", \"refused\" or \"addresses\"",
    "zero" => BlockForm::Zero, "nxdomain" => BlockForm::Nxdomain, "nodata" => BlockForm::Nodata,
    "refused" => BlockForm::Refused, "addresses" => BlockForm::Addresses);
choices!(ActionKind,
    "\"block\", \"allow\", \"redirect\", \"forward\", \"safe-search\", \"ttl\", \"drop\", \
     \"truncate\", \"rate-limit\" or \"tag\"",
    "block" => ActionKind::Block, "allow" => ActionKind::Allow, "redirect" => ActionKind::Redirect,
    "forward" => ActionKind::Forward,
    "safe-search" => ActionKind::SafeSearch, "ttl" => ActionKind::Ttl, "drop" => ActionKind::Drop,
    "truncate" => ActionKind::Truncate, "rate-limit" => ActionKind::RateLimit,
    "tag" => ActionKind::Tag);
choices!(LimitKey, "\"client\", \"rule\", \"domain\" or \"client-domain\"",
    "client" => LimitKey::Client, "rule" => LimitKey::Rule, "domain" => LimitKey::Domain,
    "client-domain" => LimitKey::ClientDomain);
choices!(Over, "\"drop\", \"refuse\" or \"truncate\"",
    "drop" => Over::Drop, "refuse" => Over::Refuse, "truncate" => Over::Truncate);

impl FromText for ListFormat {
    const EXPECTED: &'static str = "\"auto\", \"hosts\", \"domains\", \"wildcards\", \"adblock\", \
                                    \"dnsmasq\", \"unbound\", \"pihole-regex\" or \"rpz\"";
    const CHOICES: &'static [&'static str] = &[
        "auto",
        "hosts",
        "domains",
        "wildcards",
        "adblock",
        "dnsmasq",
        "unbound",
        "pihole-regex",
        RPZ,
    ];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        Self::CHOICES.iter().find(|known| **known == text).map(|known| Self(known)).ok_or(None)
    }
}

impl FromText for ListKind {
    const EXPECTED: &'static str = "\"block\" or \"allow\"";
    const CHOICES: &'static [&'static str] = &["block", "allow"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        match text {
            "block" => Ok(Self::Block),
            "allow" => Ok(Self::Allow),
            _ => Err(None),
        }
    }
}

/// The time between two fetches of a source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Refresh(Duration);

impl FromText for Refresh {
    const EXPECTED: &'static str =
        "a time from \"1m\" to \"365d\", such as \"30m\", \"24h\" or \"7d\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let time = parse_duration(text).ok_or(None)?;
        if (MIN_REFRESH..=MAX_SPAN).contains(&time) { Ok(Self(time)) } else { Err(None) }
    }
}

/// Parses a time such as "90s", "30m", "24h", "7d" or "1w".
pub fn parse_duration(text: &str) -> Option<Duration> {
    const UNITS: [(char, u64); 5] =
        [('s', 1), ('m', 60), ('h', 3_600), ('d', 86_400), ('w', 7 * 86_400)];
    let (digits, scale) =
        UNITS.iter().find_map(|(unit, scale)| Some((text.strip_suffix(*unit)?, *scale)))?;
    if !digits.bytes().all(|octet| octet.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(scale).map(Duration::from_secs)
}

/// Parses a time on the command line.
///
/// # Errors
/// The text is not a time, or is out of range.
pub fn duration_arg(text: &str) -> Result<Duration, SettingError> {
    let time =
        parse_duration(text).filter(|time| (1..=MAX_SPAN.as_secs()).contains(&time.as_secs()));
    time.ok_or(SettingError::Duration)
}

/// The tables of the policy.
pub(super) struct Tables {
    pub(super) policy: PolicySpec,
    pub(super) lists: Vec<Spanned<ListTable>>,
    pub(super) groups: Vec<Spanned<GroupTable>>,
    pub(super) clients: Vec<Spanned<ClientTable>>,
    pub(super) rules: Vec<Spanned<RuleTable>>,
    /// The names of the listeners.
    pub(super) listeners: Vec<String>,
}

/// Validates the tables, and records their faults. `primaries` reads the primaries of lists.
pub(super) fn policy(
    tables: Tables,
    (forwards, primaries): (&[ForwardConfig], ReadPrimaries<'_>),
    check: &mut Check,
) -> PolicyConfig {
    let Tables { mut policy, lists, groups, clients, rules, listeners } = tables;
    let page_at = policy.block_page.span();
    let block = block::block(&mut policy, check);
    let rebinding = rebinding(&mut policy, check);
    let mut places = HashMap::new();
    let rules = all(rules, ("rules", MAX_RULES), check, rule);
    let signals = Signals::read(&mut policy, &lists, check);
    let read_list =
        |header: &TableHeader, spec, check: &mut Check| list(header, spec, primaries, check);
    let (rule_places, rules) =
        rules.into_iter().map(|(_, rule)| (rule.place, rule.spec)).unzip::<_, _, Vec<_>, _>();
    let mut config = PolicyConfig {
        block,
        time_zone: time_zone(policy.time_zone, check),
        rebinding,
        id_precedence: match check.take(policy.ids_override_addresses) {
            Some(true) => IdPrecedence::Device,
            _ => IdPrecedence::Address,
        },
        leases: check.optional_path(policy.leases),
        geo_database: check.optional_path(policy.geo_database),
        locates_clients: false,
        listeners,
        views: Vec::new(),
        signals,
        lists: few_zones(all(lists, ("lists", MAX_LISTS), check, read_list), check),
        groups: placed("group", all(groups, ("groups", MAX_GROUPS), check, group), &mut places),
        clients: placed(
            "client",
            all(clients, ("clients", MAX_CLIENTS), check, client),
            &mut places,
        ),
        rules,
    };
    config.rules.iter_mut().for_each(|rule| name_servers(rule, forwards));
    block::is_led_to(page_at, &config, check);
    compile(&config, &places, &rule_places, check);
    config
}

/// Returns the names that may have private addresses; `None` if all names may.
fn rebinding(policy: &mut PolicySpec, check: &mut Check) -> Option<Vec<Name>> {
    let at = policy.private_exceptions.span();
    let exceptions = check.take(std::mem::take(&mut policy.private_exceptions));
    let exceptions = exceptions.map_or_else(Vec::new, |list| list.0);
    let is_on = check.take(std::mem::take(&mut policy.block_private)).unwrap_or(false);
    if let Some(at) = at.filter(|_| !is_on && !exceptions.is_empty()) {
        check.doubt(at, "`private-exceptions` has no effect without `block-private = true`");
    }
    is_on.then(|| exceptions.into_iter().map(|name| name.into_inner().0).collect())
}

/// Returns the default time zone of rules.
fn time_zone(setting: Setting<String>, check: &mut Check) -> String {
    let utc = || "UTC".to_owned();
    let Some(at) = setting.span() else { return utc() };
    let Some(name) = check.take(setting) else { return utc() };
    match NamedTimeZone::find(&name) {
        Ok(_) => name,
        Err(message) => {
            check.fault(at, message);
            utc()
        }
    }
}

/// Replaces the zone of a `[[forward]]` in the action of a rule by the servers of that zone, if all
/// of them use UDP. Rules query servers over UDP.
fn name_servers(rule: &mut RuleSpec, forwards: &[ForwardConfig]) {
    // The crate that parses these addresses does not know the interfaces of this machine.
    for to in rule.to.iter_mut().filter(|to| rule.action == ActionKind::Forward && to.contains('%'))
    {
        if let Ok(ServerAddress(addr)) = ServerAddress::from_text(to) {
            *to = addr.to_string();
        }
    }
    let [zone] = &rule.to[..] else { return };
    let Some(zone) = Name::from_text(zone).ok().filter(|_| rule.action == ActionKind::Forward)
    else {
        return;
    };
    let is_meant = |forward: &&ForwardConfig| forward.zone == zone && !forward.exception;
    let is_by_udp = |forward: &&ForwardConfig| {
        // The servers that a strict `[[forward]]` discovers are not known yet, and rules do not
        // send the header that names a client.
        forward.discover != Discovery::Strict
            && forward.introduction == Introduction::None
            && forward.upstreams.iter().all(|one| one.transport == UpstreamTransport::Udp)
    };
    if let Some(forward) = forwards.iter().find(is_meant).filter(is_by_udp) {
        rule.to =
            forward.upstreams.iter().filter_map(|one| one.addr).map(|to| to.to_string()).collect();
    }
}

/// The places of the tables of groups and clients, by kind and name.
type Places = HashMap<String, Range<usize>>;

fn placed<T: Named>(kind: &str, tables: Vec<(Range<usize>, T)>, places: &mut Places) -> Vec<T> {
    let place = |(at, table): (Range<usize>, T)| {
        places.insert(format!("{kind} `{}`", table.name()), at);
        table
    };
    tables.into_iter().map(place).collect()
}

/// The place of a rule in the file.
struct RulePlace {
    header: Range<usize>,
    when: Option<Range<usize>>,
    action: Option<Range<usize>>,
    time_zone: Option<Range<usize>>,
}

impl RulePlace {
    fn of(&self, part: RulePart) -> Range<usize> {
        let key = match part {
            RulePart::Whole => None,
            RulePart::Action => self.action.clone(),
            RulePart::TimeZone => self.time_zone.clone(),
            RulePart::When => self.when.clone(),
        };
        key.unwrap_or_else(|| self.header.clone())
    }
}

/// A rule and its place.
struct PlacedRule {
    place: RulePlace,
    spec: RuleSpec,
}

/// Records the faults that the crate `avocet_policy` finds in clients and rules.
fn compile(config: &PolicyConfig, places: &Places, rules: &[RulePlace], check: &mut Check) {
    for fault in config.directory().err().unwrap_or_default() {
        check.fault(places.get(&fault.entry).cloned().unwrap_or_default(), fault.to_string());
    }
    let place = |at: usize, part| rules.get(at).map_or(0..0, |place| place.of(part));
    match config.checked_rules() {
        Err(faults) => faults
            .iter()
            .for_each(|fault| check.fault(place(fault.place, fault.part), fault.to_string())),
        Ok(checked) => {
            let position = |name: &str| {
                config.rules.iter().position(|spec| spec.name == name).unwrap_or(usize::MAX)
            };
            for rule in checked.rules() {
                for part in rule.never_true() {
                    check.doubt(
                        place(position(&rule.name), RulePart::When),
                        format!("rule `{}`: `{part}` is never true", rule.name),
                    );
                }
            }
            // A rule with such an action cannot test the answer: the rule would have no effect, and
            // nothing would report this.
            for rule in checked
                .rules()
                .iter()
                .filter(|rule| rule.reads_answer() && is_too_late(&rule.action))
            {
                let message = "the condition tests the answer, which works only with block, \
                               allow, ttl, tag and redirect to addresses";
                let at = place(position(&rule.name), RulePart::When);
                check.fault(at, format!("rule `{}`: {message}", rule.name));
            }
        }
    }
}

/// Reports whether the action is impossible once there is an answer.
fn is_too_late(action: &Action) -> bool {
    matches!(action, Action::Drop | Action::Truncate | Action::Redirect(Target::Name(_), _))
}

impl PolicyConfig {
    /// Reports whether nothing is filtered or rewritten.
    pub fn filters_nothing(&self) -> bool {
        let has_verdicts = !self.lists.is_empty() || !self.rules.is_empty();
        !has_verdicts && self.rebinding.is_none() && self.signals.is_empty()
    }

    /// Reports whether no thread needs a policy: nothing is filtered or rewritten, and no client is
    /// identified by its device or sees a view.
    pub fn is_empty(&self) -> bool {
        let has_devices = || {
            let mut ids = self.clients.iter().flat_map(|client| &client.ids);
            let mut members = self.groups.iter().flat_map(|group| &group.clients);
            let is_device = |text: &String| matches!(text.parse(), Ok(Id::Device(_)));
            ids.any(is_device) || members.any(is_device)
        };
        // Without a policy, no thread would identify the devices for the log.
        self.filters_nothing() && self.views.is_empty() && !has_devices()
    }

    /// Returns the path of the geo database; `None` if nothing uses it, that is, if no rule tests
    /// countries and no pool chooses by country.
    pub fn geo_file(&self) -> Option<&Path> {
        let path = self.geo_database.as_deref()?;
        (self.locates_clients || self.tests_countries()).then_some(path)
    }

    fn tests_countries(&self) -> bool {
        self.checked_rules().is_ok_and(|rules| rules.rules().iter().any(Rule::reads_countries))
    }

    /// Validates groups and clients.
    ///
    /// # Errors
    /// All faults of the groups and clients.
    pub fn directory(&self) -> Result<Directory, Vec<ClientFault>> {
        let directory = Directory::new(&self.groups, &self.clients, &self.list_names())?;
        Ok(directory.preferring(self.id_precedence))
    }

    /// Validates the rules, followed by the rules that the signals add.
    ///
    /// # Errors
    /// All faults of the rules.
    pub fn checked_rules(&self) -> Result<Rules, Vec<RuleFault>> {
        let rules: Vec<_> = self.rules.iter().cloned().chain(self.signals.rules()).collect();
        Rules::check(&rules, &self.vocabulary())
    }

    /// Returns the sets of servers that rules forward to, without duplicates.
    pub fn forward_sets(&self) -> Vec<Box<[SocketAddr]>> {
        let mut sets: Vec<Box<[SocketAddr]>> = Vec::new();
        for servers in self.rules.iter().filter_map(RuleSpec::forwards_to) {
            if !sets.iter().any(|set| **set == *servers) {
                sets.push((*servers).into());
            }
        }
        sets
    }

    /// Returns the names of the lists in the order of their indexes.
    pub fn list_names(&self) -> Vec<String> {
        self.lists.iter().map(|list| list.name.clone()).collect()
    }

    /// Returns the names that conditions may use.
    pub fn vocabulary(&self) -> Vocabulary {
        let groups = std::iter::once(DEFAULT_GROUP.to_owned());
        Vocabulary {
            lists: self.list_names(),
            groups: groups.chain(self.groups.iter().map(|group| group.name.clone())).collect(),
            time_zone: self.time_zone.clone(),
            has_countries: self.geo_database.is_some(),
            listeners: self.listeners.clone(),
        }
    }
}

/// A table of the policy with a name.
pub(super) trait Named {
    fn name(&self) -> &str;
}

macro_rules! named {
    ($($type:ty),+) => {
        $(impl Named for $type {
            fn name(&self) -> &str {
                &self.name
            }
        })+
    };
}

named!(ListConfig, GroupSpec, ClientSpec);

impl Named for PlacedRule {
    fn name(&self) -> &str {
        &self.spec.name
    }
}

/// The header of the table that is being read.
pub(super) struct TableHeader {
    /// The place of the table.
    pub(super) at: Range<usize>,
    /// The number of the table among those of its kind, from 1.
    number: usize,
}

impl TableHeader {
    /// Returns the header of the table with this index among the tables of its kind.
    pub(super) fn new(at: Range<usize>, place: usize) -> Self {
        Self { at, number: place + 1 }
    }
}

/// Reads all tables of one kind. A table beyond `most` and a duplicate name are faults.
pub(super) fn all<S, T: Named>(
    specs: Vec<Spanned<S>>,
    (what, most): (&str, usize),
    check: &mut Check,
    mut read: impl FnMut(&TableHeader, S, &mut Check) -> T,
) -> Vec<(Range<usize>, T)> {
    let mut seen = HashSet::new();
    let mut all = Vec::with_capacity(specs.len().min(most));
    for (place, spec) in specs.into_iter().enumerate() {
        let header = TableHeader::new(spec.span(), place);
        if all.len() == most {
            check.fault(header.at, format!("more than {most} {what}"));
            break;
        }
        let read = read(&header, spec.into_inner(), check);
        if !seen.insert(read.name().to_owned()) {
            check.fault(header.at, format!("duplicate {what}: {:?}", read.name()));
            continue;
        }
        all.push((header.at, read));
    }
    all
}

/// Returns the `name` of a table. A table without a name is a fault. Such a table gets its number
/// as its name, so that its other keys are checked.
pub(super) fn name(header: &TableHeader, setting: Setting<String>, check: &mut Check) -> String {
    let nameless = || format!("#{}", header.number);
    let Some((at, name)) = check.need("name", &header.at, setting) else { return nameless() };
    if name.is_empty() || name.len() > MAX_ENTRY_NAME || name.chars().any(char::is_control) {
        check.fault(at, format!("expected a name of 1 to {MAX_ENTRY_NAME} octets, found {name:?}"));
        return nameless();
    }
    name
}

/// Returns a list. Invalid values are faults and are replaced by defaults.
fn list(
    header: &TableHeader,
    mut spec: ListTable,
    primaries: ReadPrimaries<'_>,
    check: &mut Check,
) -> ListConfig {
    let name = name(header, std::mem::take(&mut spec.name), check);
    let source = list_source::source(header, &mut spec, primaries, check);
    let format = check.take(spec.format).map_or(ListFormat("auto"), |format| format.0);
    if let (ListSource::Zone(_), false) = (&source, format.0 == RPZ) {
        let message = "only a list of format \"rpz\" is transferred from `primaries`";
        check.fault(header.at.clone(), message);
    }
    let kind_at = spec.kind.span();
    let kind = check.take(spec.kind).map_or(ListKind::Block, |kind| kind.0);
    let is_zone = format.0 == RPZ;
    if let Some(at) = kind_at.filter(|_| is_zone && kind == ListKind::Allow) {
        check.fault(at, "a response policy zone determines itself what it blocks and allows");
    }
    let refresh =
        check.take(spec.refresh).map_or(Duration::from_secs(86_400), |refresh| refresh.0.0);
    // The purpose of a policy zone is to choose answers: its format implies the permission.
    let rewrites = check.take(spec.rewrites).unwrap_or(is_zone);
    let tags = texts(spec.tags, check).unwrap_or_default();
    ListConfig { name, source, format, kind, refresh, rewrites, tags }
}

/// Reads the lists. The number of policy zones among them has a limit of its own.
fn few_zones(lists: Vec<(Range<usize>, ListConfig)>, check: &mut Check) -> Vec<ListConfig> {
    let mut zones = lists.iter().filter(|(_, list)| list.format.0 == RPZ);
    if let Some((at, _)) = zones.nth(MAX_POLICY_ZONES) {
        check.fault(at.clone(), format!("more than {MAX_POLICY_ZONES} response policy zones"));
    }
    lists.into_iter().map(|(_, list)| list).collect()
}

fn texts(setting: Setting<List<String>>, check: &mut Check) -> Option<Vec<String>> {
    let list = check.take(setting)?.0;
    Some(list.into_iter().map(Spanned::into_inner).collect())
}

fn group(header: &TableHeader, spec: GroupTable, check: &mut Check) -> GroupSpec {
    let name = name(header, spec.name, check);
    let lists = texts(spec.lists, check);
    let clients = texts(spec.clients, check).unwrap_or_default();
    GroupSpec { name, clients, lists }
}

fn client(header: &TableHeader, spec: ClientTable, check: &mut Check) -> ClientSpec {
    let name = name(header, spec.name, check);
    let groups = texts(spec.groups, check).unwrap_or_default();
    let ids = check.need("ids", &header.at, spec.ids).map_or_else(Vec::new, |(_, List(ids))| ids);
    ClientSpec { name, ids: ids.into_iter().map(Spanned::into_inner).collect(), groups }
}

/// Reads a rule. The condition is checked even if the action is invalid, and the action even if the
/// condition is invalid.
fn rule(header: &TableHeader, spec: RuleTable, check: &mut Check) -> PlacedRule {
    let name = name(header, spec.name, check);
    let (when_at, action_at, time_zone) =
        (spec.when.span(), spec.action.span(), spec.time_zone.span());
    let when = check.need("when", &header.at, spec.when);
    let action = check.need("action", &header.at, spec.action).map(|(_, action)| action.0);
    let place =
        RulePlace { header: header.at.clone(), when: when_at, action: action_at, time_zone };
    let spec = RuleSpec {
        name,
        when: when.map_or_else(|| "true".to_owned(), |(_, when)| when),
        action: action.unwrap_or(ActionKind::Allow),
        enabled: check.take(spec.enabled).unwrap_or(true),
        priority: check.take(spec.priority).map_or(0, |priority| priority.0 as i32),
        time_zone: check.take(spec.time_zone),
        log_only: check.take(spec.log_only).unwrap_or(false),
        answer: check.take(spec.answer).map(|answer| answer.0),
        to: texts(spec.to, check).unwrap_or_default(),
        min_secs: check.take(spec.min_secs).map(|secs| secs.0),
        max_secs: check.take(spec.max_secs).map(|secs| secs.0),
        rps: check.take(spec.rps).map(|rps| rps.0),
        burst: check.take(spec.burst).map(|burst| burst.0),
        per: check.take(spec.per).map(|per| per.0),
        over: check.take(spec.over).map(|over| over.0),
        tag: check.take(spec.tag),
    };
    PlacedRule { place, spec: if action.is_some() { spec } else { without_action(spec) } }
}

/// Returns a rule without an action. Its settings are not checked, because they depend on the
/// action.
fn without_action(spec: RuleSpec) -> RuleSpec {
    let RuleSpec { name, when, enabled, priority, time_zone, log_only, .. } = spec;
    RuleSpec {
        name,
        when,
        enabled,
        priority,
        time_zone,
        log_only,
        action: ActionKind::Allow,
        ..RuleSpec::default()
    }
}
