//! Compares the logged decision about a past query with the decision that the same query would get
//! now.
//!
//! ```text
//! files of the log ──nearest entry──┐
//! history of the configuration ─────┼──> PastDecision: what, by which revision, what differs, why
//! sections of `why` (rehearsal) ────┘
//! ```
//! The search runs on a thread for searches and takes some seconds at most, while the client's
//! thread waits.

use std::path::PathBuf;

use avocet_config::privacy::Privacy;
use avocet_control::ControlError;
use avocet_control::past::{ChangeReason, DecisionPart, LogSearch, PastDecision, PresentDecision};
use avocet_control::why::{PolicyDecision, PolicyVerdict, QueryStage, WhySection};
use avocet_nameserver::snapshot::Snapshot;
use avocet_policy::client::{DeviceId, Identity};
use avocet_querylog::column::{Int, Text};
use avocet_querylog::{Condition, Filter, LogEntry, Page};
use avocet_revisions::{ChangeOrigin, Facts, Store};
use avocet_wire::FoldedName;

use super::revisions;
use crate::explain::{GivenClient, shown_time};
use crate::keepers::lists;
use crate::query_log::searches::Searches;
use crate::query_log::stored::stored;
use crate::running::Running;

/// The search for a query covers this number of seconds before and after the given time. It begins
/// with the shortest span. The first span with an entry contains the nearest entry.
const WINDOWS_SECS: [u64; 3] = [5, 60, 15 * 60];
/// Maximum number of entries of one client for one name in a span.
const MAX_ENTRIES: usize = 4096;
const MICROS: u64 = 1_000_000;

/// A past query that a request asks about.
pub(super) struct PastQuery<'a> {
    /// The client.
    pub(super) client: &'a GivenClient<'a>,
    /// QNAME.
    pub(super) name: FoldedName<'a>,
    /// The mnemonic of QTYPE; `None` for any type.
    pub(super) rtype: Option<&'a str>,
    /// The Unix second.
    pub(super) at: u64,
}

/// The entry of the log.
pub(super) struct Past {
    identity: Identity,
    at: u64,
    log: LogSearch,
    unreadable: Option<String>,
    entry: Option<LogEntry>,
}

/// Searches the log for the entry that is nearest to a time.
pub(super) fn find(running: &Running, state: &Snapshot, query: &PastQuery<'_>) -> Past {
    let GivenClient { ip, device, .. } = *query.client;
    let identity = || {
        let known = state.policy.as_ref().map(|policy| policy.identify_with(ip, device));
        known.unwrap_or_default()
    };
    let past = |log, unreadable, entry| {
        let (identity, at) = (identity(), query.at);
        Past { identity, at, log, unreadable, entry }
    };
    let config = &state.config;
    let directory = config.query_log.directory_in(&config.data.directory);
    if !directory.is_dir() && !config.query_log.enabled {
        return past(LogSearch::NoLog, None, None);
    }
    match nearest(&running.query_log.searches, directory, query) {
        Err(error) => past(LogSearch::Unreadable, Some(error.to_string()), None),
        Ok((page, entry)) => {
            let log = match (&entry, page.next_before_id.is_some()) {
                (Some(_), _) => LogSearch::Found,
                (None, true) => LogSearch::TooMany,
                (None, false) if is_withheld(state, &identity()) => LogSearch::Withheld,
                (None, false) => LogSearch::NotFound,
            };
            let broken = page.broken.first();
            past(log, broken.map(|broken| broken.reason.clone()), entry)
        }
    }
}

/// Returns the last page that was read, and the entry nearest to the requested time, if any.
///
/// # Errors
/// The log cannot be read, or there are too many searches.
fn nearest(
    searches: &Searches,
    directory: PathBuf,
    query: &PastQuery<'_>,
) -> Result<(Page, Option<LogEntry>), ControlError> {
    let is = |column, text: String| Condition::Is(column, vec![text]);
    let rtype = query.rtype.map(|rtype| is(Text::Qtype, rtype.to_ascii_uppercase()));
    let name = is(Text::Qname, query.name.to_string());
    // A device that sends an identifier or a certificate may have any address.
    let by_address = is(Text::Client, query.client.ip.to_string());
    let client = match query.client.name.map(|name| is(Text::Device, name.to_owned())) {
        None => by_address,
        Some(by_name) if query.client.device != DeviceId::NONE => by_name,
        Some(by_name) => Condition::Any(vec![by_address, by_name]),
    };
    let conditions: Vec<_> = [name, client].into_iter().chain(rtype).collect();
    let at_us = query.at.saturating_mul(MICROS);
    let distance = |entry: &LogEntry| {
        let time = asked_us(entry);
        at_us.saturating_sub(time).max(time.saturating_sub(at_us.saturating_add(MICROS - 1)))
    };
    let mut page = Page::default();
    let mut stays = |_| Ok(());
    let mut searches = searches.by(&mut stays);
    for secs in WINDOWS_SECS {
        let span = secs * MICROS;
        // A time in seconds covers the whole second.
        let time_us = at_us.saturating_sub(span)..at_us.saturating_add(MICROS + span);
        let filter = Filter { time_us, conditions: conditions.clone() };
        page = searches.page(directory.clone(), filter, u64::MAX, MAX_ENTRIES)?;
        let entries = std::mem::take(&mut page.entries);
        if let Some(entry) = entries.into_iter().min_by_key(distance) {
            return Ok((page, Some(entry)));
        }
    }
    Ok((page, None))
}

/// Returns the time at which the query arrived, in Unix microseconds.
fn asked_us(entry: &LogEntry) -> u64 {
    let number = |column| entry.int(column).and_then(|value| u64::try_from(value).ok());
    let delay = number(Int::Delay).unwrap_or(0);
    number(Int::Time).unwrap_or(0).saturating_sub(delay)
}

/// Returns whether privacy settings may keep the address of this client, or all names, out of the
/// log.
fn is_withheld(state: &Snapshot, identity: &Identity) -> bool {
    let Identity { client, groups, .. } = identity;
    let log = &state.config.query_log;
    let groups = groups.iter().map(String::as_str);
    log.privacy_of(client.as_deref(), groups) != Privacy::Full
}

impl Past {
    /// Returns the type of the query that was found.
    pub(super) fn rtype(&self) -> Option<&str> {
        self.entry.as_ref().map(|entry| entry.text(Text::Qtype))
    }

    /// Returns the listener at which the query that was found arrived; `None` for `[server]`.
    pub(super) fn listener(&self) -> Option<&str> {
        let listener = self.entry.as_ref().map(|entry| entry.text(Text::Listener));
        listener.filter(|name| !name.is_empty())
    }

    /// Compares the logged decision with the sections that explain the same query now.
    pub(super) fn compared(self, running: &Running, sections: &[WhySection]) -> PastDecision {
        let state = running.shared.snapshot();
        let at = self.at;
        let now = Now::of(sections);
        let time_secs = self.entry.as_ref().map_or(at, |entry| asked_us(entry) / MICROS);
        let facts = revision_at(running, time_secs);
        let revision = facts.as_ref().map(revisions::revision);
        let mut past = PastDecision {
            at,
            window_secs: WINDOWS_SECS[WINDOWS_SECS.len() - 1],
            log: self.log,
            unreadable: self.unreadable,
            query: self.entry.as_ref().map(|entry| Box::new(stored(entry))),
            time_local: self.entry.as_ref().map(|_| shown_time(&state.config, time_secs)),
            revision_local: revision.as_ref().map(|one| shown_time(&state.config, one.at)),
            revision,
            present_revision: running.reloader.revisions.in_force(),
            present: now.decision.clone(),
            differences: Vec::new(),
            reasons: Vec::new(),
            changed_lists: Vec::new(),
        };
        past.differences = differences(&past, &now);
        if !past.differences.is_empty() {
            past.changed_lists = changed_lists(running, (&past, &now), time_secs);
            let configuration = configuration(running, facts.as_ref());
            past.reasons = reasons(&past, (&now, configuration), &self.identity);
        }
        past
    }
}

/// The sections that describe the present decision.
struct Now<'s> {
    decision: PresentDecision,
    policy: Option<&'s PolicyDecision>,
}

impl<'s> Now<'s> {
    fn of(sections: &'s [WhySection]) -> Self {
        let policy = sections.iter().find_map(|section| match section {
            WhySection::Policy(policy) => Some(policy),
            _ => None,
        });
        let answer = sections.iter().find_map(|section| match section {
            WhySection::Answer(answer) => Some(answer),
            _ => None,
        });
        let decision = PresentDecision {
            outcome: answer.map_or(QueryStage::Failed, |answer| answer.from),
            rule: policy.and_then(deciding_rule),
            list: policy.and_then(deciding_list),
            rcode: answer.and_then(|answer| Some(answer.reply.as_ref()?.rcode.clone())),
        };
        Self { decision, policy }
    }

    /// Returns the lists that have the name.
    fn lists(&self) -> impl Iterator<Item = &str> {
        let lines = self.policy.iter().flat_map(|policy| &policy.lists);
        lines.filter_map(|line| line.list.as_deref())
    }
}

/// Returns the list that decides.
fn deciding_list(policy: &PolicyDecision) -> Option<String> {
    let line = policy.lists.iter().find(|line| line.decides)?;
    line.list.clone().filter(|_| policy.verdict != PolicyVerdict::Passes)
}

/// Returns the rule that decides, or the text of a protection.
fn deciding_rule(policy: &PolicyDecision) -> Option<String> {
    if policy.verdict == PolicyVerdict::Passes || deciding_list(policy).is_some() {
        return None;
    }
    let rule = policy.rule.as_ref().map(|rule| rule.name.clone());
    rule.or_else(|| Some(policy.why.clone())).filter(|name| !name.is_empty())
}

/// The classes of outcomes that are compared: whether an answer came from a cache makes no
/// difference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OutcomeClass {
    Answered,
    Own,
    Policy(QueryStage),
    Failed,
    Refused(QueryStage),
}

const fn class_of(stage: QueryStage) -> OutcomeClass {
    match stage {
        QueryStage::PacketHit | QueryStage::RrsetHit | QueryStage::Resolved | QueryStage::Stale => {
            OutcomeClass::Answered
        }
        QueryStage::Local
        | QueryStage::Hosted
        | QueryStage::Pool
        | QueryStage::Special
        | QueryStage::Chaos => OutcomeClass::Own,
        QueryStage::Failed | QueryStage::FailureHit | QueryStage::Shed => OutcomeClass::Failed,
        QueryStage::Blocked | QueryStage::Rewritten | QueryStage::Limited | QueryStage::Dropped => {
            OutcomeClass::Policy(stage)
        }
        QueryStage::Malformed
        | QueryStage::Refused
        | QueryStage::Ignored
        | QueryStage::NotRecursive => OutcomeClass::Refused(stage),
    }
}

fn differences(past: &PastDecision, now: &Now<'_>) -> Vec<DecisionPart> {
    let Some(then) = &past.query else { return Vec::new() };
    let now = &now.decision;
    let mut found = Vec::new();
    if class_of(then.outcome) != class_of(now.outcome) {
        found.push(DecisionPart::Outcome);
    } else if matches!(class_of(now.outcome), OutcomeClass::Policy(_)) {
        let is_same = match (&then.rule, then.lists.first()) {
            (Some(rule), _) => now.rule.as_ref() == Some(rule),
            (None, Some(list)) => now.list.as_ref() == Some(list),
            // The log does not have the texts of a revision that was in force only for a moment.
            (None, None) => true,
        };
        if !is_same {
            found.push(DecisionPart::Decider);
        }
    }
    if then.rcode != now.rcode {
        found.push(DecisionPart::Rcode);
    }
    found
}

/// Returns the lists that had or have the name and were read after a time.
fn changed_lists(
    running: &Running,
    (past, now): (&PastDecision, &Now<'_>),
    time_secs: u64,
) -> Vec<String> {
    let then = past.query.iter().flat_map(|query| query.lists.iter().map(String::as_str));
    let mut involved: Vec<&str> = then.chain(now.lists()).collect();
    involved.sort_unstable();
    involved.dedup();
    let report = lists::status::of_all(running);
    let is_newer = |name: &&str| {
        let status = report.lists.iter().find(|status| status.name == *name);
        status.and_then(|status| status.fetched_at).is_some_and(|at| at > time_secs)
    };
    involved.into_iter().filter(is_newer).map(str::to_owned).collect()
}

/// Returns the revision that was in force at a time.
fn revision_at(running: &Running, secs: u64) -> Option<Facts> {
    let find = |store: &Store| {
        let in_force =
            |facts: &&Facts| facts.origin != ChangeOrigin::Refused && facts.at_secs <= secs;
        Ok(store.all().rev().find(in_force).cloned())
    };
    running.reloader.revisions.read(find).ok().flatten()
}

/// Returns the way in which the configuration may explain a difference; `None` if it cannot.
fn configuration(running: &Running, then: Option<&Facts>) -> Option<ChangeReason> {
    let revisions = &running.reloader.revisions;
    let now = revisions.in_force()?;
    let now = revisions.read(|store| store.facts(now).cloned()).ok()?;
    let content = |facts: &Facts| (facts.octets, facts.crc32);
    match then {
        None => Some(ChangeReason::HistoryTooShort),
        Some(then) if content(then) == content(&now) => None,
        Some(_) => Some(ChangeReason::Configuration),
    }
}

fn reasons(
    past: &PastDecision,
    (now, configuration): (&Now<'_>, Option<ChangeReason>),
    identity: &Identity,
) -> Vec<ChangeReason> {
    let Some(then) = &past.query else { return Vec::new() };
    let mut found: Vec<ChangeReason> = configuration.into_iter().collect();
    if !past.changed_lists.is_empty() {
        found.push(ChangeReason::List);
    }
    if now.policy.is_some()
        && (then.client_name != identity.name || !is_same_set(&then.groups, &identity.groups))
    {
        found.push(ChangeReason::Client);
    }
    if now.policy.is_some_and(|policy| policy.lifted.is_some()) {
        found.push(ChangeReason::Lifted);
    }
    let is_of_servers =
        |stage| matches!(class_of(stage), OutcomeClass::Answered | OutcomeClass::Failed);
    if is_of_servers(then.outcome) && is_of_servers(past.present.outcome) {
        found.push(ChangeReason::Resolution);
    }
    if found.is_empty() {
        found.push(ChangeReason::Unknown);
    }
    found
}

fn is_same_set(some: &[String], other: &[String]) -> bool {
    some.len() == other.len() && some.iter().all(|one| other.contains(one))
}
