//! The texts of `avocet log`.

use avocet_config::Config;
use avocet_control::log::LogEntry;
use avocet_control::statistics::{RankedText, TopRanking};
use avocet_policy::rule::NamedTimeZone;
use avocet_querylog::column::{Int, Set, Text};

use crate::output::plain;

/// Formats times in the time zone of the policy.
pub(crate) struct Times {
    zone: Option<NamedTimeZone>,
}

impl Times {
    /// Uses the time zone of a configuration; UTC if there is no configuration.
    pub(crate) fn of(config: Option<&Config>) -> Self {
        let name = config.map_or("UTC", |config| config.policy.time_zone.as_str());
        Self { zone: NamedTimeZone::named(name) }
    }

    /// Returns the date and time of day of a Unix second.
    pub(crate) fn secs(&self, secs: u64) -> String {
        let shown = self.zone.as_ref().map(|zone| zone.shown(secs));
        // The offset from UTC, which is the last word, is left out.
        let local = |text: String| text.rsplit_once(' ').map(|(local, _)| local.to_owned());
        shown.and_then(local).unwrap_or_else(|| secs.to_string())
    }

    fn micros(&self, micros: u64) -> String {
        format!("{}.{:03}", self.secs(micros / 1_000_000), micros / 1_000 % 1_000)
    }
}

/// The fields of the line of a query. Empty fields are left out.
struct QueryLine<'a> {
    time_us: u64,
    client: &'a str,
    client_name: &'a str,
    transport: &'a str,
    rtype: &'a str,
    name: &'a str,
    stage: &'a str,
    rule: &'a str,
    list: &'a str,
    rcode: &'a str,
    duration_us: Option<u64>,
    upstream: &'a str,
    answer: String,
}

/// Returns the line of a query that the running server logs.
pub(crate) fn entry(times: &Times, entry: &LogEntry) -> String {
    let line = QueryLine {
        time_us: entry.time_us,
        client: entry.client.as_deref().unwrap_or_default(),
        client_name: entry.client_name.as_deref().unwrap_or_default(),
        transport: entry.transport.text(),
        rtype: &entry.rtype,
        name: entry.name.as_deref().unwrap_or_default(),
        stage: entry.outcome.text(),
        rule: entry.rule.as_deref().unwrap_or_default(),
        list: entry.lists.first().map_or("", |list| list),
        rcode: entry.rcode.as_deref().unwrap_or_default(),
        duration_us: entry.duration_us,
        upstream: entry.upstream.as_deref().unwrap_or_default(),
        answer: entry.answer.join(", "),
    };
    line.text(times)
}

/// Returns the line of a query in the files.
pub(crate) fn stored(times: &Times, entry: &avocet_querylog::LogEntry) -> String {
    let has_reply = entry.int(Int::ResponseSize) != Some(0);
    let number = |column| entry.int(column).and_then(|value| u64::try_from(value).ok());
    let line = QueryLine {
        time_us: number(Int::Time).unwrap_or_default(),
        client: entry.text(Text::Client),
        client_name: entry.text(Text::Device),
        transport: entry.text(Text::Transport),
        rtype: entry.text(Text::Qtype),
        name: entry.text(Text::Qname),
        stage: entry.text(Text::Stage),
        rule: entry.text(Text::Rule),
        list: entry.set(Set::Lists).first().map_or("", |list| list),
        rcode: if has_reply { entry.text(Text::Rcode) } else { "" },
        duration_us: number(Int::Delay),
        upstream: entry.text(Text::Upstream),
        answer: entry.text(Text::Answer).replace(' ', ", "),
    };
    line.text(times)
}

impl QueryLine<'_> {
    fn text(&self, times: &Times) -> String {
        let client = match (self.client, self.client_name) {
            ("", "") => "-".to_owned(),
            (client, "") => client.to_owned(),
            ("", name) => name.to_owned(),
            (client, name) => format!("{client} ({name})"),
        };
        let name = if self.name.is_empty() { "-" } else { self.name };
        let mut line = format!(
            "{} {client} {} {} {name} {}",
            times.micros(self.time_us),
            self.transport,
            self.rtype,
            self.outcome()
        );
        if !self.rcode.is_empty() {
            line += &format!(" {}", self.rcode);
        }
        if let Some(duration_us) = self.duration_us {
            line += &format!(" {}", duration(duration_us));
        }
        if !self.upstream.is_empty() {
            line += &format!(" from {}", self.upstream);
        }
        if !self.answer.is_empty() {
            line += &format!(": {}", self.answer);
        }
        plain(&line)
    }

    /// Returns the stage that ended the query, with the rule or list that decided.
    fn outcome(&self) -> String {
        match (self.stage, self.rule, self.list) {
            (stage, "", "") => stage.to_owned(),
            (stage, "", list) => format!("{stage} by list {list}"),
            (stage, rule, _) => format!("{stage} by rule {rule}"),
        }
    }
}

/// Returns the lines of a ranking.
pub(crate) fn ranking_text(ranking: &TopRanking) -> String {
    let mut text = String::new();
    for RankedText { text: one, queries, error } in &ranking.texts {
        let least = queries - error;
        let count = if *error == 0 { queries.to_string() } else { format!("{least}-{queries}") };
        text += &format!("{count:>12}  {}\n", plain(one));
    }
    if ranking.others_at_most > 0 {
        text += &format!("others: at most {} each\n", ranking.others_at_most);
    }
    text
}

/// Returns a time in the unit that suits it.
pub(crate) fn duration(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{:.1} s", micros as f64 / 1e6),
    }
}
