//! `avocet status`, `cache`, `lists`, `anchors`, `nta`, `pause`, `grant`, `why`, `query +trace` and
//! `reload`: the client's end of the control socket.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use avocet_config::salvage::Whereabouts;
use avocet_config::{environment, find};
use avocet_control::{Request, connect};
use avocet_nameserver::clock::wall_secs;
use avocet_policy::rule::Scope;
use serde_json::Value;

use crate::args::{
    CacheArgs, CacheCommand, ControlArgs, GrantArgs, ListsArgs, ListsCommand, NtaArgs, NtaCommand,
    PauseArgs, ScopeArgs, SpanArgs, WhyArgs,
};
use crate::lists;
use crate::output::{self, Reader};
use crate::policy::unix_secs;
use crate::{dump, why};

/// How long the server may keep silent; a reload with many records takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// The exit code of a command whose change is in force, and not on the disk.
const UNSAVED: u8 = 3;

/// `avocet cache`.
pub(crate) fn cache(args: &CacheArgs) -> ExitCode {
    let (request, write): (_, fn(&Value) -> String) = match &args.command {
        CacheCommand::Stats => (Request::Stats, stats_text),
        CacheCommand::Dump => (Request::Dump, dump_text),
        CacheCommand::Flush { name } => (Request::Flush { name: name.clone() }, flush_text),
        CacheCommand::FlushTree { name } => (Request::FlushTree { name: name.clone() }, flush_text),
    };
    run(&args.control, &request, write)
}

/// `avocet lists`.
pub(crate) fn lists(args: &ListsArgs) -> ExitCode {
    let (request, write): (_, fn(&Value) -> String) = match &args.command {
        ListsCommand::Status => (Request::ListsStatus, lists::status_text),
        ListsCommand::Refresh { name, force } => {
            (Request::ListsRefresh { name: name.clone(), force: *force }, lists::refresh_text)
        }
        ListsCommand::Check { name, skipped } => (
            Request::ListsCheck { name: name.clone() },
            if *skipped { lists::check_text_with_skipped } else { lists::check_text },
        ),
    };
    run(&args.control, &request, write)
}

/// `avocet why`.
pub(crate) fn why(args: &WhyArgs) -> ExitCode {
    let found = match whereabouts(&args.control) {
        Ok(found) => found,
        Err(message) => return refuse(&message),
    };
    let in_zone = |at: &str| match &found.config {
        Some(config) => unix_secs(config, at),
        // The time zone is not known.
        None => at
            .parse()
            .map_err(|_| format!("{at:?}: write Unix seconds, or repair the configuration")),
    };
    let at = match args.at.as_deref().map(in_zone).transpose() {
        Ok(at) => at,
        Err(message) => return refuse(&message),
    };
    let (name, rtype, client) = (args.name.clone(), args.rtype.clone(), args.client.clone());
    send(
        &found.directory,
        &Request::Why { name, rtype, client, at },
        form(&args.control, why::text),
    )
}

/// `avocet query +trace`: asks the running server over its control socket.
pub(crate) fn trace(args: &ControlArgs, question: (String, String), checks: Checks) -> ExitCode {
    let (name, rtype) = question;
    let Checks { dnssec, checking_disabled } = checks;
    run(args, &Request::Trace { name, rtype: Some(rtype), dnssec, checking_disabled }, why::text)
}

/// What a question says of DNSSEC.
#[derive(Clone, Copy)]
pub(crate) struct Checks {
    /// DO.
    pub(crate) dnssec: bool,
    /// CD.
    pub(crate) checking_disabled: bool,
}

/// `avocet anchors`.
pub(crate) fn anchors(args: &ControlArgs) -> ExitCode {
    run(args, &Request::Anchors, anchors_text)
}

/// `avocet nta`.
pub(crate) fn nta(args: &NtaArgs) -> ExitCode {
    let (request, write): (_, fn(&Value) -> String) = match &args.command {
        NtaCommand::Add { name, lifetime } => {
            (Request::NtaAdd { name: name.clone(), secs: lifetime.as_secs() }, |line| {
                format!("validation of {} is off for {}", text(&line["name"]), left(&line["until"]))
            })
        }
        NtaCommand::Remove { name } => (Request::NtaRemove { name: name.clone() }, |line| {
            format!("validation of {} is on again", text(&line["name"]))
        }),
        NtaCommand::List => (Request::NtaList, negative_text),
    };
    run(&args.control, &request, write)
}

/// `avocet reload`.
pub(crate) fn reload(args: &ControlArgs) -> ExitCode {
    run(args, &Request::Reload, reload_text)
}

/// `avocet status`.
pub(crate) fn status(args: &ControlArgs) -> ExitCode {
    run(args, &Request::Status, status_text)
}

/// `avocet pause`.
pub(crate) fn pause(args: &PauseArgs) -> ExitCode {
    let request = Request::Pause { scope: scope(&args.scope), secs: secs(&args.span) };
    run(&args.control, &request, switches_text)
}

/// `avocet grant`.
pub(crate) fn grant(args: &GrantArgs) -> ExitCode {
    let request = Request::Grant {
        name: args.name.clone(),
        scope: scope(&args.scope),
        secs: secs(&args.span),
    };
    run(&args.control, &request, switches_text)
}

/// `avocet policy status`.
pub(crate) fn policy_status(args: &ControlArgs) -> ExitCode {
    run(args, &Request::Switches, switches_text)
}

fn scope(args: &ScopeArgs) -> Scope {
    match (&args.group, &args.client) {
        (Some(group), _) => Scope::Group(group.clone()),
        (None, Some(client)) => Scope::Client(client.clone()),
        (None, None) => Scope::All,
    }
}

/// 0 says that it ends.
fn secs(args: &SpanArgs) -> u64 {
    if args.end { 0 } else { args.span.as_secs() }
}

fn run(args: &ControlArgs, request: &Request, write: fn(&Value) -> String) -> ExitCode {
    match whereabouts(args) {
        Ok(found) => send(&found.directory, request, form(args, write)),
        Err(message) => refuse(&message),
    }
}

/// Where the server is, by a file that may have errors: they are no reason to leave it alone.
fn whereabouts(args: &ControlArgs) -> Result<Whereabouts, String> {
    let found = Whereabouts::find(find(args.config.as_deref()).as_deref(), environment())?;
    if let Some(warning) = &found.warning {
        let _ = writeln!(io::stderr(), "avocet: warning: {warning}");
    }
    Ok(found)
}

/// JSON where it is asked for, or else the text.
fn form(args: &ControlArgs, write: fn(&Value) -> String) -> fn(&Value) -> String {
    if args.json { Value::to_string } else { write }
}

fn send(directory: &Path, request: &Request, write: fn(&Value) -> String) -> ExitCode {
    match ask(directory, request, write) {
        Ok(Done::Whole) => ExitCode::SUCCESS,
        Ok(Done::InPart) => ExitCode::FAILURE,
        Ok(Done::Unsaved(why)) => {
            let _ =
                writeln!(io::stderr(), "avocet: warning: in force, but a restart undoes it: {why}");
            ExitCode::from(UNSAVED)
        }
        Err(message) => refuse(&message),
    }
}

/// How much of what was asked is done.
#[derive(Debug, PartialEq)]
enum Done {
    /// All.
    Whole,
    /// What was not is in the text.
    InPart,
    /// All, but the disk does not keep it: why.
    Unsaved(String),
}

impl Done {
    /// Judges the last line of an answer.
    fn of(request: &Request, line: &Value) -> Self {
        let is_refresh = matches!(request, Request::ListsRefresh { .. });
        let lists = line["lists"].as_array().filter(|_| is_refresh).map_or(&[][..], Vec::as_slice);
        if lists.iter().any(|list| list["error"].is_string()) {
            return Self::InPart;
        }
        let unsaved = std::iter::once(line).chain(lists).find_map(|part| part["unsaved"].as_str());
        unsaved.map_or(Self::Whole, |why| Self::Unsaved(why.to_owned()))
    }
}

fn refuse(message: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "avocet: {message}");
    ExitCode::FAILURE
}

/// Sends the request and writes the answer's lines to standard output.
fn ask(directory: &Path, request: &Request, write: fn(&Value) -> String) -> Result<Done, String> {
    let mut stream = connect(directory).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!(
                "the avocet of data directory {} belongs to another account; use sudo",
                directory.display()
            )
        }
        _ => {
            // A relative directory is the default, or that of another working directory.
            let advice = if directory.is_relative() {
                "; specify its configuration with --config"
            } else {
                ""
            };
            format!("no avocet is running with data directory {}{advice}", directory.display())
        }
    })?;
    let broken = |error: io::Error| format!("the running avocet closed the connection: {error}");
    stream.set_read_timeout(Some(PATIENCE)).map_err(broken)?;
    stream.write_all(request.line().as_bytes()).map_err(broken)?;
    for line in BufReader::new(stream).lines() {
        let line: Value =
            serde_json::from_str(&line.map_err(broken)?).map_err(|error| broken(error.into()))?;
        if let Some(error) = line["error"].as_str() {
            return Err(error.to_owned());
        }
        let text = write(&line);
        if !text.is_empty() && output::write(&format!("{text}\n"))? == Reader::Gone {
            return Ok(Done::Whole);
        }
        if line["done"] == true {
            return Ok(Done::of(request, &line));
        }
    }
    Err("the running avocet closed the connection in the middle of its response".to_owned())
}

/// `cache.key value` lines.
fn stats_text(stats: &Value) -> String {
    let mut lines = Vec::new();
    for (key, value) in stats.as_object().into_iter().flatten() {
        match value {
            Value::Object(counts) => {
                lines.extend(counts.iter().map(|(count, value)| format!("{key}.{count} {value}")))
            }
            Value::Bool(_) => {}
            value => lines.push(format!("{key} {value}")),
        }
    }
    lines.join("\n")
}

fn dump_text(line: &Value) -> String {
    if line["done"] == true {
        return format!(
            "; {} RRsets and negative answers, {} responses",
            line["rrsets"], line["packets"]
        );
    }
    dump::to_text(line)
}

fn flush_text(line: &Value) -> String {
    format!("removed {} RRsets and negative answers", line["rrsets"])
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Time from now on to a moment in seconds of 1970, in its two largest units.
fn left(until: &Value) -> String {
    span(until.as_u64().unwrap_or(0).saturating_sub(wall_secs()))
}

/// Time since a moment.
fn ago(since: &Value) -> String {
    since.as_u64().map_or("never".to_owned(), |since| {
        format!("{} ago", span(wall_secs().saturating_sub(since)))
    })
}

fn span(secs: u64) -> String {
    match secs {
        0..60 => format!("{secs} s"),
        60..3_600 => format!("{} min", secs / 60),
        3_600..86_400 => format!("{} h {} min", secs / 3_600, secs / 60 % 60),
        _ => format!("{} d {} h", secs / 86_400, secs / 3_600 % 24),
    }
}

/// A line a key.
fn anchors_text(answer: &Value) -> String {
    let mut lines = Vec::new();
    for key in answer["anchors"].as_array().into_iter().flatten() {
        let mut line = format!("{} {} {}", text(&key["zone"]), key["tag"], text(&key["state"]));
        if !key["since"].is_null() {
            line += &format!(", since {}, last seen {}", ago(&key["since"]), ago(&key["observed"]));
        }
        match text(&key["state"]) {
            "add-pending" => line += &format!(", trusted in {}", left(&key["until"])),
            "revoked" => line += &format!(", removed in {}", left(&key["until"])),
            _ => {}
        }
        if let Some(fault) = key["fault"].as_str() {
            line += &format!("; {fault}");
        }
        lines.push(line);
    }
    lines.extend(root_zone_text(&answer["root-zone"]));
    match (answer["validates"] == true, answer["followed"] == true) {
        (false, _) => lines.push("; nothing is validated".to_owned()),
        (true, false) => {
            lines.push("; rollovers are not followed: trust-anchor-updates is false".to_owned())
        }
        (true, true) => {}
    }
    lines.join("\n")
}

/// The copy of the root zone, and what went wrong with it last; none where none is wanted.
fn root_zone_text(zone: &Value) -> Option<String> {
    let fault = zone["fault"].as_str().map(|fault| format!("; {fault}")).unwrap_or_default();
    match zone["serial"].as_u64() {
        _ if zone.is_null() => None,
        None => Some(format!("root zone: no copy in use{fault}")),
        Some(serial) => {
            let (from, checked, expires) =
                (text(&zone["from"]), ago(&zone["checked"]), left(&zone["expires"]));
            Some(format!(
                "root zone {serial} from {from}, last checked {checked}, expires in \
                 {expires}{fault}"
            ))
        }
    }
}

fn negative_text(answer: &Value) -> String {
    let line = |anchor: &Value| match anchor["until"].is_null() {
        true => format!("{} as configured", text(&anchor["name"])),
        false => format!("{} for {}", text(&anchor["name"]), left(&anchor["until"])),
    };
    let lines: Vec<String> = answer["anchors"].as_array().into_iter().flatten().map(line).collect();
    if lines.is_empty() { "; everything is validated".to_owned() } else { lines.join("\n") }
}

fn reload_text(line: &Value) -> String {
    let keys: Vec<&str> = line["restart-needed-for"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut shown = "reloaded".to_owned();
    if !keys.is_empty() {
        shown += &format!("; a restart is needed for {}", keys.join(", "));
    }
    match text(&line["removed-text"]) {
        "" => shown,
        removed => format!("{shown}\nremoved: {removed}"),
    }
}

/// The database of countries in one line, and what is wrong with its file in another; none without
/// one.
pub(crate) fn geo_text(database: &Value) -> Option<String> {
    if database.is_null() {
        return None;
    }
    let mut line = format!(
        "geo database {}: {}, built {}, {} nodes, {} countries, {} octets in memory",
        text(&database["file"]),
        text(&database["type"]),
        ago(&database["built-at"]),
        database["nodes"],
        database["countries"],
        database["octets"]
    );
    if let Some(error) = database["error"].as_str() {
        line += &format!("\n  the current file cannot be used: {error}");
    }
    Some(line)
}

fn status_text(line: &Value) -> String {
    let count = |key: &str| line["queries"][key].as_u64().unwrap_or(0);
    let all = count("all");
    let share = |key: &str| {
        let percent = count(key) as f64 * 100.0 / all.max(1) as f64;
        format!("{key} {} ({percent:.1} %)", count(key))
    };
    let health = if line["healthy"] == true { "healthy" } else { "a worker is stuck" };
    let started = span(line["uptime-secs"].as_u64().unwrap_or(0));
    let file = line["configuration"].as_str().unwrap_or("no configuration file");
    let listen: Vec<&str> =
        line["listen"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let shares =
        ["from-cache", "local", "blocked", "rewritten", "resolved", "failed", "refused"].map(share);
    let mut lines = vec![
        format!("avocet {}, {health}, up {started}, by {file}", text(&line["version"])),
        format!("listens on {}, mode {}", listen.join(", "), text(&line["mode"])),
        format!("{all} queries: {}", shares.join(", ")),
    ];
    for list in line["lists"].as_array().into_iter().flatten() {
        let looked = match &list["succeeded-at"] {
            Value::Null => String::new(),
            at => format!(", fetched {}", ago(at)),
        };
        let force = if list["in-force"] == true {
            format!("{} entries", list["entries"])
        } else {
            "not in force".to_owned()
        };
        lines.push(format!("list {}: {force}{looked}", text(&list["name"])));
    }
    for one in line["upstreams"].as_array().into_iter().flatten() {
        let rtt =
            one["rtt-ms"].as_u64().map_or_else(String::new, |rtt| format!(", {rtt} ms on average"));
        lines.push(format!(
            "upstream {}://{}: {}, {} queries, {} failures{rtt}",
            text(&one["transport"]),
            text(&one["address"]),
            text(&one["state"]),
            one["queries"],
            one["failures"]
        ));
    }
    let warnings = line["warnings"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|warning| format!("warning: {}", text(warning)));
    lines.extend(warnings);
    lines.join("\n")
}

fn switches_text(line: &Value) -> String {
    let whom = |switch: &Value| match &switch["scope"] {
        Value::Object(scope) => scope
            .iter()
            .map(|(kind, name)| format!("{kind} {}", name.as_str().unwrap_or("")))
            .collect(),
        _ => "all clients".to_owned(),
    };
    let left = |switch: &Value| format!("{} left", span(switch["left-secs"].as_u64().unwrap_or(0)));
    let pauses = line["pauses"].as_array().into_iter().flatten();
    let pauses = pauses.map(|pause| format!("paused for {}, {}", whom(pause), left(pause)));
    let grants = line["grants"].as_array().into_iter().flatten();
    let grants = grants.map(|grant| {
        format!(
            "{} is allowed for {}, {}",
            grant["name"].as_str().unwrap_or(""),
            whom(grant),
            left(grant)
        )
    });
    let mut lines: Vec<String> = pauses.chain(grants).collect();
    if lines.is_empty() {
        lines.push("no pauses or grants".to_owned());
    }
    let name = |one: &Value| one["name"].as_str().unwrap_or("").to_owned();
    for rule in line["rules"].as_array().into_iter().flatten() {
        let mode = if rule["log-only"] == true { ", log only" } else { "" };
        let action = rule["action"].as_str().unwrap_or("");
        lines.push(format!("rule {} ({action}{mode}): {} matches", name(rule), rule["held"]));
    }
    for list in line["lists"].as_array().into_iter().flatten() {
        lines.push(format!("list {}: {} responses", name(list), list["answers"]));
    }
    lines.extend(geo_text(&line["geo-database"]));
    lines.join("\n")
}
