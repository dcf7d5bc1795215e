//! The readable output of `avocet why --at`: the past decision, and its differences from the
//! present one.

use std::fmt::Write;

use avocet_control::log::LogEntry;
use avocet_control::past::{ChangeReason, DecisionPart, LogSearch, PastDecision};
use avocet_control::revisions::Revision;

/// Returns the decision of the past as text.
pub(crate) fn text(past: &PastDecision) -> String {
    let minutes = past.window_secs / 60;
    let mut text = match (past.log, &past.query) {
        (_, Some(query)) => then(past, query),
        (LogSearch::NoLog, _) => {
            "What was decided then is unknown: there is no query log; set `enabled = true` in \
             [query-log]"
                .to_owned()
        }
        (LogSearch::Unreadable, _) => {
            "What was decided then is unknown: the query log cannot be read".to_owned()
        }
        (LogSearch::TooMany, _) => format!(
            "What was decided then was not found: the query log has too many queries within \
             {minutes} minutes; give the time to the second"
        ),
        (LogSearch::Withheld, _) => format!(
            "The query log has no such query of this client within {minutes} minutes; `privacy` \
             withholds its address or its names"
        ),
        (LogSearch::NotFound | LogSearch::Found, _) => format!(
            "The query log has no query of this client for this name within {minutes} minutes \
             before or after that time"
        ),
    };
    if let Some(fault) = &past.unreadable {
        let _ = write!(text, "\n  the log was not read completely: {fault}");
    }
    text + &revision(past) + &now(past)
}

fn then(past: &PastDecision, query: &LogEntry) -> String {
    let client = match (&query.client, &query.client_name) {
        (Some(client), Some(name)) => format!("{client} ({name})"),
        (client, name) => client.as_ref().or(name.as_ref()).cloned().unwrap_or_default(),
    };
    let LogEntry { name, rtype, outcome, .. } = query;
    let name = name.as_deref().unwrap_or_default();
    let time = past.time_local.as_deref().unwrap_or_default();
    let rcode = query.rcode.as_deref().unwrap_or("no response");
    let by = by(query.rule.as_deref(), query.lists.first().map(String::as_str));
    let mut text = format!("Decided then: {outcome}{by}, {rcode}");
    let _ = write!(text, "\n  query of {client} for {name} {rtype} at {time}");
    if !query.groups.is_empty() {
        let _ = write!(text, ", groups: {}", query.groups.join(", "));
    }
    if query.lists.len() > 1 {
        let _ = write!(text, "\n  on the lists {}", query.lists.join(", "));
    }
    if let Some(upstream) = &query.upstream {
        let rtt = query.upstream_rtt_ms.map_or_else(String::new, |ms| format!(" after {ms} ms"));
        let _ = write!(text, "\n  answered by {upstream}{rtt}");
    }
    if !query.answer.is_empty() {
        let _ = write!(text, "\n  answer: {}", query.answer.join(", "));
    }
    text
}

fn by(rule: Option<&str>, list: Option<&str>) -> String {
    match (rule, list) {
        (Some(rule), _) => format!(" by rule {rule}"),
        (None, Some(list)) => format!(" by list {list}"),
        (None, None) => String::new(),
    }
}

/// Returns the line about the revision that was in force at that time.
fn revision(past: &PastDecision) -> String {
    let Some(Revision { number, author, source, comment, .. }) = &past.revision else {
        return match past.present_revision {
            Some(_) => "\n  the history of the configuration does not go back to then".to_owned(),
            None => String::new(),
        };
    };
    let since = past.revision_local.as_deref().unwrap_or_default();
    let author = author.as_ref().map_or_else(String::new, |author| format!(" by {author}"));
    let source = source.as_ref().map_or_else(String::new, |source| format!(" from {source}"));
    let comment = comment.as_ref().map_or_else(String::new, |comment| format!(": {comment}"));
    let now = match past.present_revision {
        Some(now) if now == *number => "; still in force".to_owned(),
        Some(now) => format!("; now revision {now} is in force"),
        None => String::new(),
    };
    format!(
        "\n  revision {number} of the configuration, since {since}{author}{source}{comment}{now}"
    )
}

fn now(past: &PastDecision) -> String {
    if past.query.is_none() {
        return String::new();
    }
    let present = &past.present;
    let by = by(present.rule.as_deref(), present.list.as_deref());
    let rcode = present.rcode.as_deref().unwrap_or("no response");
    let mut text = format!("\nDecided now: {}{by}, {rcode}", present.outcome);
    if past.differences.is_empty() {
        return text + "\n  the same as then";
    }
    let parts: Vec<_> = past.differences.iter().map(|part| part_text(*part)).collect();
    let _ = write!(text, "\n  different from then: {}", parts.join(", "));
    for reason in &past.reasons {
        let _ = write!(text, "\n  possible reason: {}", reason_text(*reason, past));
    }
    text
}

const fn part_text(part: DecisionPart) -> &'static str {
    match part {
        DecisionPart::Outcome => "the outcome",
        DecisionPart::Decider => "the rule or list that decides",
        DecisionPart::Rcode => "the RCODE",
    }
}

fn reason_text(reason: ChangeReason, past: &PastDecision) -> String {
    let revisions = past.revision.as_ref().map(|one| one.number).zip(past.present_revision);
    match (reason, revisions) {
        (ChangeReason::Configuration, Some((then, now))) => {
            format!("another configuration; see `avocet config diff {then} {now}`")
        }
        (ChangeReason::Configuration, None) => "another configuration".to_owned(),
        (ChangeReason::HistoryTooShort, _) => {
            "another configuration: the history does not go back to then".to_owned()
        }
        (ChangeReason::List, _) => {
            format!("read again since then: list {}", past.changed_lists.join(", list "))
        }
        (ChangeReason::Client, _) => "the client had another name or other groups".to_owned(),
        (ChangeReason::Lifted, _) => "a pause or grant is in force now".to_owned(),
        (ChangeReason::Resolution, _) => "other servers answer differently".to_owned(),
        (ChangeReason::Unknown, _) => {
            "unknown, for example a pause or grant that was in force then".to_owned()
        }
    }
}
