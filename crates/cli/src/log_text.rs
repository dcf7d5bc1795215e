//! The texts of `avocet log`.

use avocet_config::Config;
use avocet_control::log::LogEntry;
use avocet_policy::rule::NamedTimeZone;

/// Formats times in the time zone of the policy.
pub(crate) struct Times {
    zone: Option<NamedTimeZone>,
}

impl Times {
    /// Uses the time zone of a configuration; UTC without one.
    pub(crate) fn of(config: Option<&Config>) -> Self {
        let name = config.map_or("UTC", |config| config.policy.time_zone.as_str());
        Self { zone: NamedTimeZone::named(name) }
    }

    /// Returns date and time of day of a Unix second.
    pub(crate) fn secs(&self, secs: u64) -> String {
        let shown = self.zone.as_ref().map(|zone| zone.shown(secs));
        // Without the offset.
        let local = |text: String| text.rsplit_once(' ').map(|(local, _)| local.to_owned());
        shown.and_then(local).unwrap_or_else(|| secs.to_string())
    }

    fn micros(&self, micros: u64) -> String {
        format!("{}.{:03}", self.secs(micros / 1_000_000), micros / 1_000 % 1_000)
    }
}

/// Returns the line of a query.
pub(crate) fn entry(times: &Times, entry: &LogEntry) -> String {
    let client = match (&entry.client, &entry.client_name) {
        (Some(client), Some(name)) => format!("{client} ({name})"),
        (Some(client), None) => client.clone(),
        (None, Some(name)) => name.clone(),
        (None, None) => "-".to_owned(),
    };
    let name = entry.name.as_deref().unwrap_or("-");
    let mut line = format!(
        "{} {client} {} {name} {} {}",
        times.micros(entry.time_us),
        entry.transport,
        entry.rtype,
        outcome(entry)
    );
    if let Some(rcode) = &entry.rcode {
        line += &format!(" {rcode}");
    }
    if let Some(duration_us) = entry.duration_us {
        line += &format!(" {}", duration(duration_us));
    }
    if let Some(upstream) = &entry.upstream {
        line += &format!(" from {upstream}");
    }
    if !entry.answer.is_empty() {
        line += &format!(": {}", entry.answer.join(", "));
    }
    line
}

/// Returns the stage that ended the query, with the rule or list that decided.
fn outcome(entry: &LogEntry) -> String {
    let stage = entry.outcome;
    match (&entry.rule, entry.lists.first()) {
        (Some(rule), _) => format!("{stage} by rule {rule}"),
        (None, Some(list)) => format!("{stage} by list {list}"),
        (None, None) => stage.to_string(),
    }
}

fn duration(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{:.1} s", micros as f64 / 1e6),
    }
}
