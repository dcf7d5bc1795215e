//! `avocet policy dry-run`: what another configuration would change for queries in a file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;

use avocet_wire::{Rtype, text};
use serde_json::{Value, json};

use super::command::{NOBODY, config, countries, policy, rtype, wire};
use super::explain::Outcome;
use super::{Asked, Moment, Policy, Scratch};
use crate::cli::PolicyDryRunArgs;
use crate::clock::wall_secs;
use crate::query::asked::Transport;

/// Names that are shown of each kind of change.
const SHOWN: usize = 20;

/// What changes for names and clients.
#[derive(Default)]
struct Changes {
    /// By name: how many queries.
    names: BTreeMap<String, u64>,
    /// By client.
    clients: BTreeMap<String, u64>,
    queries: u64,
}

impl Changes {
    fn count(&mut self, name: &str, client: String) {
        self.queries += 1;
        *self.names.entry(name.to_owned()).or_default() += 1;
        *self.clients.entry(client).or_default() += 1;
    }

    fn show(&self, what: &str) -> String {
        let mut text =
            format!("{what}: {} queries, {} names, {} clients\n", self.queries, self.names.len(), self.clients.len());
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

    fn json(&self) -> Value {
        json!({ "queries": self.queries, "names": self.names, "clients": self.clients })
    }
}

/// Says what would be blocked and freed.
///
/// # Errors
/// A configuration, a list or a line of the queries cannot be read.
pub(super) fn run(args: &PolicyDryRunArgs) -> Result<String, String> {
    let (now, then) = (config(args.config.as_deref())?, config(Some(&args.new))?);
    let (now, then) = (policy(&now, countries(&now)?)?, policy(&then, countries(&then)?)?);
    let file = File::open(&args.queries).map_err(|error| format!("cannot read {}: {error}", args.queries.display()))?;
    let mut scratches = (Scratch::for_looking(), Scratch::for_looking());
    let (mut blocked, mut freed, mut other, mut queries) =
        (Changes::default(), Changes::default(), Changes::default(), 0_u64);
    for (number, line) in BufReader::new(file).lines().enumerate() {
        let line = line.map_err(|error| format!("{}: {error}", args.queries.display()))?;
        let Some((ip, name, rtype)) =
            query_line(&line).map_err(|error| format!("{}:{}: {error}", args.queries.display(), number + 1))?
        else {
            continue;
        };
        queries += 1;
        let before = outcome(now.as_ref(), (ip, &name, rtype), &mut scratches.0);
        let after = outcome(then.as_ref(), (ip, &name, rtype), &mut scratches.1);
        if before.says == after.says {
            continue;
        }
        let client = then.as_ref().or(now.as_ref()).map_or_else(|| ip.to_string(), |policy| policy.client_name(ip));
        let mut shown = String::new();
        let _ = text::write_name(&name, &mut shown);
        let shown = if after.why.is_empty() { shown } else { format!("{shown} ({})", after.why) };
        match (before.says, after.says) {
            (_, "blocked") => blocked.count(&shown, client),
            ("blocked", "passes") => freed.count(&shown, client),
            _ => other.count(&shown, client),
        }
    }
    if args.json {
        let all = json!({ "queries": queries, "newly-blocked": blocked.json(), "freed": freed.json(), "otherwise-changed": other.json() });
        return Ok(format!("{all}\n"));
    }
    let head = format!("{queries} queries\n");
    Ok(head + &blocked.show("newly blocked") + &freed.show("freed") + &other.show("changed otherwise"))
}

/// `NAME [TYPE]` or `CLIENT NAME [TYPE]`; none for an empty line or a comment.
fn query_line(line: &str) -> Result<Option<(IpAddr, Vec<u8>, Rtype)>, String> {
    let mut words = line.split_whitespace().peekable();
    if words.peek().is_none_or(|word| word.starts_with(['#', ';'])) {
        return Ok(None);
    }
    let client = words.peek().and_then(|word| word.parse().ok());
    if client.is_some() {
        words.next();
    }
    let name = wire(words.next().ok_or("a name is missing")?)?;
    let rtype = words.next().map_or(Ok(Rtype::A), rtype)?;
    Ok(Some((client.unwrap_or(NOBODY), name, rtype)))
}

fn outcome(policy: Option<&Policy>, (ip, qname, qtype): (IpAddr, &[u8], Rtype), scratch: &mut Scratch) -> Outcome {
    let Some(policy) = policy else { return Outcome::passes() };
    let asked = Asked { profile: policy.profile(ip, Transport::Udp), ip, qname, qtype };
    policy.outcome(&asked, None, (Moment { wall_secs: wall_secs(), millis: 0 }, 0), scratch)
}
