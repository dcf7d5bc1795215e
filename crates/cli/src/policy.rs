//! `avocet policy`: checks and tests of a policy without a running server.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use avocet_config::name::typed_name;
use avocet_config::{Config, environment, find};
use avocet_control::lists::TriggerCounts;
use avocet_control::policy::GeoFile;
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::policy::load::Compilation;
use avocet_nameserver::policy::{GeoDatabase, Parts, Policy, load};
use avocet_policy::client::{Asker, Transport as Way};
use avocet_policy::list::{Format, Report, Scratch as ListScratch};
use avocet_policy::rule::{self, NamedTimeZone, Sample};
use avocet_server::{geo_file, open_text, trigger_counts};
use avocet_wire::{Class, FoldedNameBuf, Rtype, rdata, special_purpose};
use serde::Serialize;

use crate::args::{PolicyCheckArgs, PolicyTestArgs};
use crate::error::CommandError;
use crate::lists::triggers_text;
use crate::output::{counted, entries};
use crate::switches::geo_text;

/// The key of hash tables. It can be public, because no client sends queries to this process.
const KEY: [u8; 32] = [7; 32];
/// The client of queries that have no client address.
pub(crate) const NOBODY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

pub(crate) fn config(path: Option<&Path>) -> Result<Config, CommandError> {
    Ok(Config::load(path, environment())?)
}

/// Reads the geo database, even if no rule uses it: a condition to test may use it.
pub(crate) fn countries(config: &Config) -> Result<Option<Arc<GeoDatabase>>, CommandError> {
    let read = config.policy.geo_database.as_deref().map(GeoDatabase::read).transpose();
    Ok(read?.map(Arc::new))
}

/// Builds the policy of a configuration from the lists on this machine: files, and the server's
/// copies of fetched lists.
pub(crate) fn policy(
    config: &Config,
    countries: Option<Arc<GeoDatabase>>,
) -> Result<Option<Policy>, CommandError> {
    let lists =
        load::from_texts(&config.policy, KEY, |list| open_text(&config.data.directory, list))?;
    let lists = lists.map(Arc::new);
    let parts = Parts { lists, countries, ..Parts::new(KEY) };
    Ok(Policy::build(&config.policy, &config.server.entrances(), &parts, None)?)
}

/// Returns the report of `avocet policy check`.
///
/// # Errors
/// The configuration or a list cannot be read.
pub(crate) fn check(args: &PolicyCheckArgs) -> Result<String, CommandError> {
    let file = args.file.find().ok_or(CommandError::NothingToCheck)?;
    let config = config(Some(&file))?;
    let countries = countries(&config)?;
    let Compilation { octets, reports, .. } =
        load::compile(&config.policy, KEY, |list| open_text(&config.data.directory, list));
    let mut lists = Vec::new();
    for (list, report) in config.policy.lists.iter().zip(reports) {
        let result = match report {
            Err(error) => ListResult::Unreadable { error: error.to_string() },
            Ok(None) => ListResult::Absent {
                note: "no copy on this machine yet: the running server fetches it",
            },
            Ok(Some(report)) => ListResult::Read(CheckedList::of(&report, &config)),
        };
        lists.push(ListCheck { list: list.name.clone(), result });
    }
    let built = Policy::build(&config.policy, &config.server.entrances(), &Parts::new(KEY), None)?;
    let report = PolicyCheck {
        image_bytes: octets.len(),
        rules: config.policy.rules.iter().filter(|rule| rule.enabled).count(),
        profiles: built.map_or(1, |policy| policy.profiles()),
        geo_database: countries.map(|database| geo_file(&database)),
        lists,
    };
    let shown = if args.json { json_line(&report)? } else { check_text(&report) };
    match report.lists.iter().filter(|list| list.result.error().is_some()).count() {
        0 => Ok(shown),
        broken => Err(CommandError::UnreadableLists(broken, shown)),
    }
}

/// Returns a value as one line of JSON.
pub(crate) fn json_line(value: &impl Serialize) -> Result<String, CommandError> {
    let line = serde_json::to_string(value)?;
    Ok(format!("{line}\n"))
}

/// The report of `avocet policy check`.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct PolicyCheck {
    lists: Vec<ListCheck>,
    image_bytes: usize,
    rules: usize,
    profiles: usize,
    geo_database: Option<GeoFile>,
}

/// A list in the report of `avocet policy check`.
#[derive(Serialize)]
struct ListCheck {
    list: String,
    #[serde(flatten)]
    result: ListResult,
}

/// The result of reading a list.
#[derive(Serialize)]
#[serde(untagged)]
enum ListResult {
    /// The list cannot be read.
    Unreadable { error: String },
    /// The list is not on this machine.
    Absent { note: &'static str },
    /// The list was read.
    Read(CheckedList),
}

/// A list that was read.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct CheckedList {
    format: Format,
    entries: u64,
    broken_lines: u64,
    triggers: Option<TriggerCounts>,
    first: Vec<String>,
    error: Option<String>,
}

impl CheckedList {
    fn of(report: &Report, config: &Config) -> Self {
        Self {
            format: report.format,
            entries: report.entries,
            broken_lines: report.faults,
            triggers: report.triggers.map(|counts| trigger_counts(counts, config.resolver.mode)),
            first: report.first_faults.iter().map(ToString::to_string).collect(),
            error: report.refusal.map(|refusal| refusal.to_string()),
        }
    }
}

impl ListResult {
    fn error(&self) -> Option<&str> {
        match self {
            Self::Unreadable { error } => Some(error),
            Self::Absent { .. } => None,
            Self::Read(list) => list.error.as_deref(),
        }
    }
}

fn check_text(report: &PolicyCheck) -> String {
    let mut text: String = report.lists.iter().map(list_text).collect();
    if let Some(database) = &report.geo_database {
        text += &format!("{}\n", geo_text(database, None));
    }
    text + &format!(
        "{}, {}, image of {} octets\n",
        counted(report.rules as u64, "rule", "rules"),
        counted(report.profiles as u64, "client profile", "client profiles"),
        report.image_bytes
    )
}

fn list_text(list: &ListCheck) -> String {
    let ListCheck { list: name, result } = list;
    let read = match result {
        ListResult::Unreadable { error } => return format!("list {name}: {error}\n"),
        ListResult::Absent { note } => return format!("list {name}: {note}\n"),
        ListResult::Read(read) => read,
    };
    let mut text = match &read.error {
        Some(error) => format!("list {name}: {error}\n"),
        None => format!(
            "list {name}: {}, {}, {}\n",
            read.format,
            entries(read.entries),
            counted(read.broken_lines, "broken line", "broken lines")
        ),
    };
    if let Some(triggers) = &read.triggers {
        text += &format!("  {}\n", triggers_text(triggers));
    }
    for fault in &read.first {
        text += &format!("  {fault}\n");
    }
    text
}

/// Parses a name.
///
/// # Errors
/// The text is not a name.
pub(crate) fn folded_name(name: &str) -> Result<FoldedNameBuf, CommandError> {
    Ok(FoldedNameBuf::from_wire(&typed_name(name)?)?)
}

/// Parses a time to Unix seconds: a number, or a date and time in the policy's time zone.
///
/// # Errors
/// The text is neither.
pub(crate) fn unix_secs(config: &Config, text: &str) -> Result<u64, CommandError> {
    let zone = &config.policy.time_zone;
    let in_zone = || NamedTimeZone::named(zone)?.read(text);
    let time = text.parse().ok().or_else(in_zone);
    time.ok_or_else(|| CommandError::NotATime { text: text.to_owned(), zone: zone.clone() })
}

pub(crate) fn rtype(text: &str) -> Result<Rtype, CommandError> {
    rdata::from_mnemonic(text).map(Rtype).ok_or_else(|| CommandError::NotAType(text.to_owned()))
}

/// Returns the report of `avocet policy test`.
///
/// # Errors
/// The configuration, the condition or the query is malformed.
pub(crate) fn test(args: &PolicyTestArgs) -> Result<String, CommandError> {
    let config = config(find(args.config.as_deref()).as_deref())?;
    let qname = folded_name(&args.name)?;
    let qtype = rtype(&args.rtype)?;
    let countries = countries(&config)?;
    let policy = policy(&config, countries.clone())?;
    let ip = args.client.unwrap_or(NOBODY);
    let identity = policy.as_ref().map(|policy| policy.identify(ip)).unwrap_or_default();
    let lists = policy.as_ref().map_or_else(Vec::new, |policy| {
        policy.on_lists(qname.view(), qtype, &mut ListScratch::empty())
    });
    let asker = Asker {
        address: Some(ip),
        client: identity.client.as_deref(),
        name: identity.name.as_deref(),
        macs: &identity.macs,
        groups: &identity.groups,
        listener: args.listener.as_deref().unwrap_or_default(),
        transport: Some(Way::Udp),
    };
    let inner = args.answer.iter().filter_map(|address| match address {
        IpAddr::V6(address) => special_purpose::embedded(*address).map(IpAddr::V4),
        IpAddr::V4(_) => None,
    });
    let addresses: Vec<IpAddr> = args.answer.iter().copied().chain(inner).collect();
    let located: Vec<_> =
        args.answer.iter().filter_map(|address| countries.as_ref()?.country(*address)).collect();
    let sample = Sample {
        qname: qname.wire(),
        qtype: qtype.0,
        qclass: Class::IN.0,
        asker,
        now: match &args.at {
            Some(at) => unix_secs(&config, at)?,
            None => wall_secs(),
        },
        lists: &lists,
        addresses: &addresses,
        countries: &located,
        ..Sample::default()
    };
    let trace =
        rule::test(&args.condition, &config.policy.vocabulary(), &sample).map_err(|fault| {
            avocet_policy::PolicyError::Condition { when: args.condition.clone(), fault }
        })?;
    if !args.json {
        return Ok(trace.to_string());
    }
    let part = |step: &rule::Step| TestedPart {
        part: trace.text(step).to_owned(),
        depth: step.depth,
        holds: step.holds,
    };
    json_line(&ConditionTest {
        holds: trace.holds(),
        parts: trace.steps.iter().map(part).collect(),
    })
}

/// The result of `avocet policy test`.
#[derive(Serialize)]
struct ConditionTest {
    holds: bool,
    parts: Vec<TestedPart>,
}

/// A part of the condition.
#[derive(Serialize)]
struct TestedPart {
    part: String,
    depth: usize,
    holds: Option<bool>,
}
