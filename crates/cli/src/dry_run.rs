//! `avocet policy dry-run`: the changes that another configuration makes to the queries in a file,
//! to those in the query log (`dry_run_log`) or in dnstap messages (`dry_run_tap`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::path::Path;

use avocet_config::{Config, find};
use avocet_nameserver::clock::wall_secs;
use avocet_nameserver::policy::{
    Answered, Asked, Decider, KnownAnswer, Moment, Outcome, Policy, Scratch, Treatment,
};
use avocet_nameserver::query::asked::{Entrance, Transport};
use avocet_nameserver::query::local::LocalRecords;
use avocet_resolver::{Dns64, NameServers};
use avocet_wire::builder::{Builder, Record, Section};
use avocet_wire::header::QR;
use avocet_wire::name::is_under;
use avocet_wire::{Class, FoldedName, FoldedNameBuf, MAX_MESSAGE, Rtype};
use serde::Serialize;

use crate::dry_run_args::PolicyDryRunArgs;
use crate::error::CommandError;
use crate::policy::{NOBODY, config, countries, folded_name, json_line, policy, rtype};
use crate::{dry_run_log, dry_run_tap};

/// Most names that are shown for each kind of change.
const SHOWN: usize = 20;

/// The queries with one kind of change.
#[derive(Default, Serialize)]
struct Changes {
    queries: u64,
    /// The number of queries by name.
    names: BTreeMap<String, u64>,
    /// The number of queries by client.
    clients: BTreeMap<String, u64>,
}

impl Changes {
    fn count(&mut self, name: &str, client: String, queries: u64) {
        self.queries += queries;
        *self.names.entry(name.to_owned()).or_default() += queries;
        *self.clients.entry(client).or_default() += queries;
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
        text
    }
}

/// One of the two configurations that are compared, with its policy.
pub(crate) struct Side {
    config: Config,
    policy: Option<Policy>,
    local: LocalRecords,
    translation: Option<Dns64>,
    entrances: Vec<String>,
    own_entrance: Entrance,
    scratch: Scratch,
}

/// Equal queries.
pub(crate) struct PastQuery<'a> {
    /// The address of the client.
    pub(crate) client: IpAddr,
    /// QNAME.
    pub(crate) name: FoldedNameBuf,
    /// QTYPE.
    pub(crate) rtype: Rtype,
    /// The transport.
    pub(crate) transport: Transport,
    /// The listener; empty for an address of `[server]`.
    pub(crate) listener: &'a str,
    /// The Unix second of the query.
    pub(crate) at_secs: u64,
    /// The last alias of the answer.
    pub(crate) alias: Option<FoldedNameBuf>,
    /// The addresses of the answer.
    pub(crate) addresses: Vec<IpAddr>,
    /// The whole answer, in place of alias and addresses.
    pub(crate) answer: Option<&'a [u8]>,
    /// How many they are.
    pub(crate) queries: u64,
}

impl Side {
    fn of(config: Config) -> Result<Self, CommandError> {
        let policy = policy(&config, countries(&config)?)?;
        let local = LocalRecords::new(&config.records, |_| None);
        Ok(Self {
            translation: config.dns64.translation(),
            entrances: config.server.entrances().into_iter().map(str::to_owned).collect(),
            own_entrance: Entrance::of_server(&config.server),
            config,
            policy,
            local,
            scratch: Scratch::for_looking(),
        })
    }

    fn outcome(&mut self, query: &PastQuery<'_>, answer: Option<&[u8]>) -> Outcome {
        let has_own_servers = self.has_own_servers(query.name.view());
        let Some(policy) = &self.policy else { return Outcome::passes() };
        let (ip, moment) = (query.client, (Moment { wall_secs: query.at_secs, millis: 0 }, 0));
        let transport = query.transport;
        let profile = policy.profile(ip, self.entrance(query.listener), transport);
        let asked = Asked { profile, ip, transport, qname: query.name.view(), qtype: query.rtype };
        let translation = self.translation.as_ref();
        let servers = |_: FoldedName<'_>| NameServers::default();
        let (outcome, by) = match answer {
            None => policy.outcome(&asked, None, moment, &mut self.scratch),
            Some(message) => {
                let answered: KnownAnswer<'_> = Answered {
                    message,
                    has_own_servers,
                    // The known answers have addresses and aliases only.
                    has_local_target: false,
                    translation,
                    servers: &servers,
                };
                policy.outcome(&asked, Some(&answered), moment, &mut self.scratch)
            }
        };
        // Lists do not apply to names with local records.
        if by == Decider::List && self.local.has(query.name.view()) {
            Outcome::passes()
        } else {
            outcome
        }
    }

    fn entrance(&self, listener: &str) -> Entrance {
        let place = self.entrances.iter().position(|name| name == listener && !name.is_empty());
        place.map_or(self.own_entrance, |place| Entrance(place as u16))
    }

    /// Returns the configuration.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Reports whether a rule tests the time.
    pub(crate) fn goes_by_time(&self) -> bool {
        self.policy.as_ref().is_some_and(Policy::goes_by_time)
    }

    /// Reports whether the configuration has servers for a zone below the root that contains the
    /// name.
    fn has_own_servers(&self, name: FoldedName<'_>) -> bool {
        let forwards =
            self.config.forwards.iter().filter(|forward| is_within(&name, &forward.zone));
        let nearest = forwards.max_by_key(|forward| forward.zone.len());
        nearest.is_some_and(|forward| !forward.exception)
            || self.config.stubs.iter().any(|stub| is_within(&name, &stub.zone))
    }

    /// Returns the number of rules on answers. They match no line without addresses.
    fn rules_on_answers(&self) -> usize {
        self.policy.as_ref().map_or(0, Policy::rules_on_answers)
    }
}

fn is_within(name: &[u8], zone: &[u8]) -> bool {
    zone.len() > 1 && is_under(name, zone)
}

/// The result of all queries.
#[derive(Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct DryRunReport {
    queries: u64,
    /// The number of queries without a known answer.
    queries_without_answer: u64,
    /// Queries of a log or of dnstap that have no name, class or type that a policy is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) entries_left_out: Option<u64>,
    /// The number of rules that read answers.
    rules_on_answers: usize,
    newly_blocked: Changes,
    freed: Changes,
    otherwise_changed: Changes,
    /// The configuration in force, if there is one.
    compared_with: Option<String>,
}

impl DryRunReport {
    /// Adds equal queries.
    pub(crate) fn judge(&mut self, query: &PastQuery<'_>, (now, then): (&mut Side, &mut Side)) {
        let known = answer_of(query);
        let answer = query.answer.or(known.as_deref());
        self.queries += query.queries;
        self.queries_without_answer += if answer.is_none() { query.queries } else { 0 };
        let (before, after) = (now.outcome(query, answer), then.outcome(query, answer));
        if before.treatment == after.treatment {
            return;
        }
        let policy = then.policy.as_ref().or(now.policy.as_ref());
        let client = policy
            .map_or_else(|| query.client.to_string(), |policy| policy.client_name(query.client));
        let shown = query.name.to_string();
        let shown = if after.why.is_empty() { shown } else { format!("{shown} ({})", after.why) };
        let changes = match (before.treatment, after.treatment) {
            (_, Treatment::Block) => &mut self.newly_blocked,
            (Treatment::Block, Treatment::Pass) => &mut self.freed,
            _ => &mut self.otherwise_changed,
        };
        changes.count(&shown, client, query.queries);
    }

    fn show(&self) -> String {
        let blind = self.rules_on_answers;
        let mut text = format!("{} queries\n", self.queries);
        if self.queries_without_answer > 0 && blind > 0 {
            let queries = self.queries_without_answer;
            text += &format!(
                "{queries} of them without addresses: rules on answers ({blind}) do not match \
                 these\n"
            );
        }
        if let Some(left_out) = self.entries_left_out.filter(|count| *count > 0) {
            text += &format!("{left_out} left out: no name, or not of class IN\n");
        }
        let changes = [
            (&self.newly_blocked, "newly blocked"),
            (&self.freed, "freed"),
            (&self.otherwise_changed, "changed otherwise"),
        ];
        text + &changes.map(|(changes, what)| changes.show(what)).concat()
    }
}

/// Returns the report: what would be blocked and unblocked.
///
/// # Errors
/// A configuration, a list or a query cannot be read.
pub(crate) fn run(args: &PolicyDryRunArgs) -> Result<String, CommandError> {
    let in_force = find(args.config.as_deref());
    let (now, mut then) = (config(in_force.as_deref())?, config(Some(&args.new))?);
    if args.enforce_log_only {
        then.policy.rules.iter_mut().for_each(|rule| rule.log_only = false);
    }
    let (mut now, mut then) = (Side::of(now)?, Side::of(then)?);
    let mut report = match (&args.queries, &args.dnstap) {
        (Some(path), _) => of_file(path, (&mut now, &mut then))?,
        (None, Some(path)) => dry_run_tap::of_file(path, (&mut now, &mut then))?,
        (None, None) => dry_run_log::of_log(args, (&mut now, &mut then))?,
    };
    report.rules_on_answers = now.rules_on_answers().max(then.rules_on_answers());
    report.compared_with = in_force.map(|file| file.display().to_string());
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

/// Judges the queries in a file.
fn of_file(path: &Path, (now, then): (&mut Side, &mut Side)) -> Result<DryRunReport, CommandError> {
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
            report.judge(&query, (&mut *now, &mut *then));
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

/// Returns an answer with the known alias and addresses, or `None` if none are known. Addresses
/// that do not fit into a message are omitted.
fn answer_of(query: &PastQuery<'_>) -> Option<Vec<u8>> {
    if query.addresses.is_empty() && query.alias.is_none() {
        return None;
    }
    let mut message = vec![0; MAX_MESSAGE];
    let mut builder = Builder::new(&mut message, MAX_MESSAGE, 0, QR).ok()?;
    builder.question(query.name.wire(), query.rtype, Class::IN).ok()?;
    let mut owner = query.name.wire();
    if let Some(alias) = &query.alias {
        let alias = alias.wire();
        builder.record(Section::Answer, &record_of(owner, Rtype::CNAME, alias)).ok()?;
        owner = alias;
    }
    for address in &query.addresses {
        let (rtype, rdata) = match address {
            IpAddr::V4(address) => (Rtype::A, address.octets().to_vec()),
            IpAddr::V6(address) => (Rtype::AAAA, address.octets().to_vec()),
        };
        if builder.record(Section::Answer, &record_of(owner, rtype, &rdata)).is_err() {
            break;
        }
    }
    let len = builder.finish();
    message.truncate(len);
    Some(message)
}

fn record_of<'r>(owner: &'r [u8], rtype: Rtype, rdata: &'r [u8]) -> Record<'r> {
    Record { owner, rtype, class: Class::IN, ttl_secs: 0, rdata }
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
