//! `avocet policy dry-run`: the changes that another configuration makes to past queries. The
//! queries are in a file, in the query log (`dry_run_log`), in dnstap messages (`dry_run_tap`), or
//! in the log of a running server (`dry_run_running`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use avocet_config::{Config, find};
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::query::asked::Transport;
use avocet_server::dry_run::{ChangedName, Changes, DryRunReport, PastQuery, Side, Sides};
use avocet_wire::Rtype;
use serde::Serialize;

use crate::dry_run_args::PolicyDryRunArgs;
use crate::error::CommandError;
use crate::policy::{NOBODY, config, countries, folded_name, json_line, policy, rtype};
use crate::{dry_run_log, dry_run_tap};

/// Maximum number of names that are shown for each kind of change.
const SHOWN: usize = 20;

/// The queries with one kind of change, in the JSON form.
#[derive(Serialize)]
struct ShownChanges {
    queries: u64,
    /// The number of queries by name.
    names: BTreeMap<String, u64>,
    /// The number of queries by client.
    clients: BTreeMap<String, u64>,
    /// The number of queries for names that are not listed, because there are too many names.
    #[serde(skip_serializing_if = "Option::is_none")]
    unlisted: Option<u64>,
}

impl ShownChanges {
    fn of(changes: Changes) -> Self {
        let Changes { queries, names, clients, unlisted } = changes;
        let names = names.into_iter().map(|(name, count)| (name_text(&name), count)).collect();
        Self { queries, names, clients, unlisted: Some(unlisted).filter(|count| *count > 0) }
    }

    fn show(&self, what: &str) -> String {
        let mut text = format!(
            "{what}: {} queries, {} names, {} clients\n",
            self.queries,
            self.names.len(),
            self.clients.len()
        );
        let mut names: Vec<_> = self.names.iter().collect();
        names.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (name, count) in names.iter().take(SHOWN) {
            text += &format!("  {count:>6} {name}\n");
        }
        if names.len() > SHOWN {
            text += &format!("         and {} more\n", names.len() - SHOWN);
        }
        if let Some(unlisted) = self.unlisted {
            text += &format!("         and more names, with {unlisted} queries\n");
        }
        text
    }
}

/// Returns a name with the reason of the change.
fn name_text(ChangedName { name, why }: &ChangedName) -> String {
    if why.is_empty() { name.clone() } else { format!("{name} ({why})") }
}

/// Reads the inputs of one side of the comparison from this machine.
fn side(config: Config) -> Result<Side, CommandError> {
    let policy = policy(&config, countries(&config)?)?;
    Ok(Side::new(Arc::new(config), policy.map(Arc::new)))
}

/// The result of all queries, in the JSON form.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct ShownReport {
    queries: u64,
    /// The number of queries without a known answer.
    queries_without_answer: u64,
    /// The number of entries of a log or of dnstap that were not evaluated: without a name, or of a
    /// class other than IN.
    #[serde(skip_serializing_if = "Option::is_none")]
    entries_left_out: Option<u64>,
    /// The number of rules whose conditions read answers.
    rules_on_answers: usize,
    newly_blocked: ShownChanges,
    freed: ShownChanges,
    otherwise_changed: ShownChanges,
    /// The configuration in force, if there is one.
    compared_with: Option<String>,
}

impl ShownReport {
    fn show(&self) -> String {
        let mut text = format!("{} queries\n", self.queries);
        text += &without_answer_text(self.queries_without_answer, self.rules_on_answers);
        text += &left_out_text(self.entries_left_out.unwrap_or_default());
        let changes = [
            (&self.newly_blocked, "newly blocked"),
            (&self.freed, "freed"),
            (&self.otherwise_changed, "changed otherwise"),
        ];
        text + &changes.map(|(changes, what)| changes.show(what)).concat()
    }
}

/// Returns the line about queries that rules on answers cannot match; an empty text if there is no
/// such query or rule.
pub(crate) fn without_answer_text(queries: u64, rules_on_answers: usize) -> String {
    if queries == 0 || rules_on_answers == 0 {
        return String::new();
    }
    format!(
        "{queries} of them without addresses: rules on answers ({rules_on_answers}) do not match \
         these\n"
    )
}

/// Returns the line about queries that were not evaluated; an empty text if there are none.
pub(crate) fn left_out_text(queries: u64) -> String {
    if queries == 0 {
        return String::new();
    }
    format!("{queries} left out: no name, or not of class IN\n")
}

/// Returns the report: the names that would be blocked and unblocked.
///
/// # Errors
/// A configuration, a list or a query cannot be read.
pub(crate) fn run(args: &PolicyDryRunArgs) -> Result<String, CommandError> {
    let in_force = find(args.config.as_deref());
    let (now, mut then) = (config(in_force.as_deref())?, config(Some(&args.new))?);
    if args.enforce_log_only {
        then.policy.rules.iter_mut().for_each(|rule| rule.log_only = false);
    }
    let mut sides = Sides { now: side(now)?, then: side(then)? };
    let report = match (&args.queries, &args.dnstap) {
        (Some(path), _) => of_file(path, &mut sides)?,
        (None, Some(path)) => dry_run_tap::of_file(path, &mut sides)?,
        (None, None) => dry_run_log::of_log(args, &mut sides)?,
    };
    let report = ShownReport {
        queries: report.queries,
        queries_without_answer: report.without_answer,
        entries_left_out: args.queries.is_none().then_some(report.left_out),
        rules_on_answers: sides.rules_on_answers(),
        newly_blocked: ShownChanges::of(report.newly_blocked),
        freed: ShownChanges::of(report.freed),
        otherwise_changed: ShownChanges::of(report.otherwise_changed),
        compared_with: in_force.map(|file| file.display().to_string()),
    };
    if args.json {
        return json_line(&report);
    }
    let compared = match &report.compared_with {
        Some(file) => format!("compared with {file}\n"),
        None => "compared with a server without configuration: specify the current file with \
                 --config\n"
            .to_owned(),
    };
    Ok(report.show() + &compared)
}

/// Evaluates the queries in a file.
fn of_file(path: &Path, sides: &mut Sides) -> Result<DryRunReport, CommandError> {
    let file = File::open(path)
        .map_err(|source| CommandError::Unopened { path: path.to_owned(), source })?;
    let mut report = DryRunReport::default();
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line =
            line.map_err(|source| CommandError::Unreadable { path: path.to_owned(), source })?;
        let query = query_line(&line).map_err(|error| CommandError::Line {
            path: path.to_owned(),
            line: number + 1,
            source: Box::new(error),
        })?;
        if let Some(query) = query {
            report.judge(&query, sides);
        }
    }
    Ok(report)
}

/// Parses `[CLIENT] NAME [TYPE] [ADDRESS ...]`. Returns `None` for an empty line or a comment.
fn query_line(line: &str) -> Result<Option<PastQuery<'static>>, CommandError> {
    let mut words = line.split_whitespace().peekable();
    if words.peek().is_none_or(|word| word.starts_with(['#', ';'])) {
        return Ok(None);
    }
    let client =
        words.next_if(|word| word.parse::<IpAddr>().is_ok()).and_then(|word| word.parse().ok());
    let name = folded_name(words.next().ok_or(CommandError::NoName)?)?;
    let qtype =
        words.next_if(|word| word.parse::<IpAddr>().is_err()).map_or(Ok(Rtype::A), rtype)?;
    let address =
        |word: &str| word.parse().map_err(|_| CommandError::NotAnAddress(word.to_owned()));
    let addresses = words.map(address).collect::<Result<_, _>>()?;
    Ok(Some(PastQuery {
        client: client.unwrap_or(NOBODY),
        name,
        rtype: qtype,
        transport: Transport::Udp,
        listener: "",
        at_secs: wall_secs(),
        alias: None,
        addresses,
        answer: None,
        queries: 1,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let shown = match query_line(line) {
            Err(error) => error.to_string(),
            Ok(None) => "nothing".to_owned(),
            Ok(Some(query)) => {
                let name = query.name;
                format!("{} {name} {} {:?}", query.client, query.rtype, query.addresses)
            }
        };
        assert_eq!(shown, expected, "{line}");
    }

    #[test]
    fn a_line_has_a_name_and_what_is_known_of_the_query() {
        check("www.example", "127.0.0.1 www.example. A []");
        check("10.0.0.7 www.example AAAA", "10.0.0.7 www.example. AAAA []");
        check("www.example 192.0.2.1", "127.0.0.1 www.example. A [192.0.2.1]");
        check(
            "fd00::7 a.example HTTPS 192.0.2.1 2001:db8::1",
            "fd00::7 a.example. HTTPS [192.0.2.1, 2001:db8::1]",
        );
        check("", "nothing");
        check("# www.example", "nothing");
        check("10.0.0.7", "the name is missing");
        check("www.example NOTYPE", "\"NOTYPE\" is not a record type");
        check("www.example A NXDOMAIN", "\"NXDOMAIN\" is not an address");
    }
}
