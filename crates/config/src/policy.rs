//! `[policy]`, `[[list]]`, `[[group]]`, `[[client]]`, `[[rule]]`: what is filtered, for whom, and
//! how it is answered.
//!
//! What a condition or an action means is for the `policy` crate to say; here names are found and
//! each fault gets its place in the file.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use avocet_policy::client::{
    ClientFault, ClientSpec, DEFAULT_GROUP, Directory, GroupSpec, MAX_CLIENTS, MAX_GROUPS,
};
use avocet_policy::list::MAX_LISTS;
use avocet_policy::rpz::MAX_POLICY_ZONES;
use avocet_policy::rule::{
    Action, ActionKind, BlockForm, LimitKey, MAX_RULES, NamedTimeZone, Over, RuleFault, RulePart,
    RuleSpec, Rules, Target, Vocabulary,
};
use toml::Spanned;

use super::block::{self, BlockConfig};
use super::check::Check;
use super::error::SettingError;
use super::name::Name;
use super::policy_spec::{ClientTable, GroupTable, ListTable, PolicySpec, RuleTable};
use super::setting::{FromText, List, Setting};
use super::upstream::ServerAddress;
use super::{ForwardConfig, UpstreamTransport};

/// Most octets of a name of a list, group, client or rule.
const MAX_ENTRY_NAME: usize = 64;
/// The format of response policy zones.
const RPZ: &str = "rpz";
const MIN_REFRESH: Duration = Duration::from_secs(60);
/// Longest time between two looks at a list, and longest pause or grant.
pub const MAX_SPAN: Duration = Duration::from_secs(365 * 86_400);

/// What is filtered, for whom.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyConfig {
    /// How blocked questions are answered.
    pub block: BlockConfig,
    /// IANA name of the time zone of schedules that name none.
    pub time_zone: String,
    /// Whether private addresses of public names are taken out; names that may have some, in wire
    /// form.
    pub rebinding: Option<Vec<Box<[u8]>>>,
    /// The file with the leases of the DHCP server.
    pub leases: Option<PathBuf>,
    /// The file that says which country an address is in.
    pub geo_database: Option<PathBuf>,
    /// The names of the listeners, which conditions may use.
    pub listeners: Vec<String>,
    /// Lists of names, each with a name of its own.
    pub lists: Vec<ListConfig>,
    /// Groups of clients.
    pub groups: Vec<GroupSpec>,
    /// Clients with a name.
    pub clients: Vec<ClientSpec>,
    /// Rules, those that are not enabled too.
    pub rules: Vec<RuleSpec>,
}

/// One `[[list]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct ListConfig {
    /// Its name, of its own.
    pub name: String,
    /// Where it comes from.
    pub source: ListSource,
    /// How it is written.
    pub format: ListFormat,
    /// What it does.
    pub kind: ListKind,
    /// How often its source is looked at.
    pub refresh: Duration,
    /// Whether it may choose answers.
    pub rewrites: bool,
    /// Words that rules find it by.
    pub tags: Vec<String>,
}

/// Where a list comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum ListSource {
    /// http or https.
    Url(String),
    /// A file of this machine.
    File(PathBuf),
}

/// How a list is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListFormat(pub &'static str);

/// What a list does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// Its names are blocked.
    Block,
    /// No list blocks its names.
    Allow,
}

/// Texts for the values of an enumeration of the `policy` crate.
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
    "truncate" => ActionKind::Truncate, "rate-limit" => ActionKind::RateLimit, "tag" => ActionKind::Tag);
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

/// A time between looks at a source.
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

/// A time such as "90s", "30m", "24h", "7d", "1w".
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

/// The same of the command line.
pub fn duration_arg(text: &str) -> Result<Duration, SettingError> {
    let time =
        parse_duration(text).filter(|time| (1..=MAX_SPAN.as_secs()).contains(&time.as_secs()));
    time.ok_or(SettingError::Duration)
}

/// The tables that make up the policy.
pub(super) struct Tables {
    pub(super) policy: PolicySpec,
    pub(super) lists: Vec<Spanned<ListTable>>,
    pub(super) groups: Vec<Spanned<GroupTable>>,
    pub(super) clients: Vec<Spanned<ClientTable>>,
    pub(super) rules: Vec<Spanned<RuleTable>>,
    /// The names of the listeners.
    pub(super) listeners: Vec<String>,
}

/// What the tables mean; faults are noted.
pub(super) fn policy(
    tables: Tables,
    forwards: &[ForwardConfig],
    check: &mut Check,
) -> PolicyConfig {
    let Tables { mut policy, lists, groups, clients, rules, listeners } = tables;
    let page_at = policy.block_page.span();
    let block = block::block(&mut policy, check);
    let exceptions = check.take(policy.private_exceptions).map_or_else(Vec::new, |list| list.0);
    let exceptions = exceptions.into_iter().map(|name| name.into_inner().0).collect();
    let mut places = HashMap::new();
    let rules = all(rules, ("rules", MAX_RULES), check, rule);
    let (rule_places, rules) =
        rules.into_iter().map(|(_, rule)| (rule.place, rule.spec)).unzip::<_, _, Vec<_>, _>();
    let mut config = PolicyConfig {
        block,
        time_zone: time_zone(policy.time_zone, check),
        rebinding: check.take(policy.block_private).unwrap_or(false).then_some(exceptions),
        leases: check.optional_path(policy.leases),
        geo_database: check.optional_path(policy.geo_database),
        listeners,
        lists: few_zones(all(lists, ("lists", MAX_LISTS), check, list), check),
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

/// The time zone of rules that name none.
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

/// Puts the servers of a forwarding rule where a rule of the policy names its zone: those that are
/// asked over UDP, as rules ask theirs.
fn name_servers(rule: &mut RuleSpec, forwards: &[ForwardConfig]) {
    // The crate that reads them knows no interfaces of this machine.
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
        forward.upstreams.iter().all(|one| one.transport == UpstreamTransport::Udp)
    };
    if let Some(forward) = forwards.iter().find(is_meant).filter(is_by_udp) {
        rule.to = forward.upstreams.iter().map(|one| one.addr.to_string()).collect();
    }
}

/// Where the tables of groups and clients stand, by kind and name.
type Places = HashMap<String, Range<usize>>;

fn placed<T: Named>(kind: &str, tables: Vec<(Range<usize>, T)>, places: &mut Places) -> Vec<T> {
    let place = |(at, table): (Range<usize>, T)| {
        places.insert(format!("{kind} `{}`", table.name()), at);
        table
    };
    tables.into_iter().map(place).collect()
}

/// Where a rule stands.
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

/// A rule with its place.
struct PlacedRule {
    place: RulePlace,
    spec: RuleSpec,
}

/// Notes what the `policy` crate finds wrong with clients and rules.
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
            // What such a rule says would be passed over without a word.
            for rule in checked
                .rules()
                .iter()
                .filter(|rule| rule.reads_answer() && is_too_late(&rule.action))
            {
                let message = "the condition tests the answer, which works only with block, \
                               allow, ttl, tag and redirect to addresses";
                let at = config
                    .rules
                    .iter()
                    .position(|spec| spec.name == rule.name)
                    .unwrap_or(usize::MAX);
                check.fault(place(at, RulePart::When), format!("rule `{}`: {message}", rule.name));
            }
        }
    }
}

/// Can the action not be taken any more once there is an answer?
fn is_too_late(action: &Action) -> bool {
    matches!(action, Action::Drop | Action::Truncate | Action::Redirect(Target::Name(_), _))
}

impl PolicyConfig {
    /// Is anything to be filtered or rewritten?
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty() && self.rules.is_empty() && self.rebinding.is_none()
    }

    /// The file with the countries of addresses, where anything is filtered.
    pub fn geo_file(&self) -> Option<&Path> {
        self.geo_database.as_deref().filter(|_| !self.is_empty())
    }

    /// Groups and clients, checked.
    pub fn directory(&self) -> Result<Directory, Vec<ClientFault>> {
        Directory::new(&self.groups, &self.clients, &self.list_names())
    }

    /// The rules, checked.
    pub fn checked_rules(&self) -> Result<Rules, Vec<RuleFault>> {
        Rules::check(&self.rules, &self.vocabulary())
    }

    /// The sets of servers that rules forward to, each once.
    pub fn forward_sets(&self) -> Vec<Box<[SocketAddr]>> {
        let rules = self.checked_rules().ok();
        let mut sets: Vec<Box<[SocketAddr]>> = Vec::new();
        for rule in rules.iter().flat_map(|rules| rules.rules()) {
            if let Action::Forward(servers) = &rule.action
                && !sets.iter().any(|set| **set == **servers)
            {
                sets.push((**servers).into());
            }
        }
        sets
    }

    /// The lists' names in the order of their numbers.
    pub fn list_names(&self) -> Vec<String> {
        self.lists.iter().map(|list| list.name.clone()).collect()
    }

    /// What conditions may name.
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

/// A thing of the policy that is called by its name.
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

/// A table that is being read.
pub(super) struct TableHeader {
    /// Its place.
    pub(super) at: Range<usize>,
    /// Its number among those of its kind, from 1.
    number: usize,
}

/// Reads all tables of one kind; those past `most`, and those whose name was there before, are
/// faults.
pub(super) fn all<S, T: Named>(
    specs: Vec<Spanned<S>>,
    (what, most): (&str, usize),
    check: &mut Check,
    mut read: impl FnMut(&TableHeader, S, &mut Check) -> T,
) -> Vec<(Range<usize>, T)> {
    let mut seen = HashSet::new();
    let mut all = Vec::with_capacity(specs.len().min(most));
    for (place, spec) in specs.into_iter().enumerate() {
        let header = TableHeader { at: spec.span(), number: place + 1 };
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

/// The `name` of a table. One without a name, which is a fault, is called by its number, so that
/// the rest of it is checked.
pub(super) fn name(header: &TableHeader, setting: Setting<String>, check: &mut Check) -> String {
    let nameless = || format!("#{}", header.number);
    let Some((at, name)) = check.need("name", &header.at, setting) else { return nameless() };
    if name.is_empty() || name.len() > MAX_ENTRY_NAME || name.chars().any(char::is_control) {
        check.fault(at, format!("expected a name of 1 to {MAX_ENTRY_NAME} octets, found {name:?}"));
        return nameless();
    }
    name
}

/// A list; what of it is wrong is a fault, and something stands in its place.
fn list(header: &TableHeader, spec: ListTable, check: &mut Check) -> ListConfig {
    let name = name(header, spec.name, check);
    let (url_at, file_at) = (spec.url.span(), spec.file.span());
    let (url, file) = (check.take(spec.url), check.take(spec.file));
    let none = || ListSource::File(PathBuf::new());
    let source = match (url, file, url_at, file_at) {
        (_, _, Some(_), Some(at)) => {
            check.fault(at, "a list has a url or a file, not both");
            none()
        }
        (_, _, None, None) => {
            check.fault(header.at.clone(), "`url` or `file` is missing: where the list comes from");
            none()
        }
        (Some(url), ..) if is_fetched(&url) => ListSource::Url(url),
        (Some(url), _, Some(at), _) => {
            check.fault(
                at,
                format!("expected a url with http:// or https:// and a host, found {url:?}"),
            );
            none()
        }
        (_, Some(file), _, Some(at)) if file.is_empty() => {
            check.fault(at, "expected the path of a file, found \"\"");
            none()
        }
        (_, Some(file), ..) => ListSource::File(check.path(file)),
        // What is written is none, and was reported.
        _ => none(),
    };
    let format = check.take(spec.format).map_or(ListFormat("auto"), |format| format.0);
    let kind_at = spec.kind.span();
    let kind = check.take(spec.kind).map_or(ListKind::Block, |kind| kind.0);
    let is_zone = format.0 == RPZ;
    if let Some(at) = kind_at.filter(|_| is_zone && kind == ListKind::Allow) {
        check.fault(at, "a response policy zone determines itself what it blocks and allows");
    }
    let refresh =
        check.take(spec.refresh).map_or(Duration::from_secs(86_400), |refresh| refresh.0.0);
    // To answer in place of others is what a zone is for; who names the format knows whom he lets
    // do so.
    let rewrites = check.take(spec.rewrites).unwrap_or(is_zone);
    let tags = texts(spec.tags, check).unwrap_or_default();
    ListConfig { name, source, format, kind, refresh, rewrites, tags }
}

/// Can a list be fetched from there?
fn is_fetched(url: &str) -> bool {
    let has_host = |url: http::Uri| url.host().is_some_and(|host| !host.is_empty());
    (url.starts_with("https://") || url.starts_with("http://")) && url.parse().is_ok_and(has_host)
}

/// The lists, of which only so many may be policy zones.
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

/// A rule; the condition is checked where the action is wrong, and the action where the condition
/// is.
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

/// A rule whose action is not known: none of its settings is a stray one.
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
