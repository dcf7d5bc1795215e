//! `avocet cache`, `avocet lists` and `avocet reload`: the client's end of the control socket.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use super::control::{Request, connect};
use super::dump;
use crate::cli::{CacheArgs, CacheCommand, ControlArgs, ListsArgs, ListsCommand};
use crate::config::{Config, environment};
use crate::lists;

/// How long the server may keep silent; a reload with many records takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

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
        ListsCommand::Status => (Request::ListsStatus, lists::command::status_text),
        ListsCommand::Refresh { name, force } => {
            (Request::ListsRefresh { name: name.clone(), force: *force }, lists::command::refresh_text)
        }
        ListsCommand::Check { name } => (Request::ListsCheck { name: name.clone() }, lists::command::check_text),
    };
    run(&args.control, &request, write)
}

/// `avocet reload`.
pub(crate) fn reload(args: &ControlArgs) -> ExitCode {
    run(args, &Request::Reload, reload_text)
}

fn run(args: &ControlArgs, request: &Request, write: fn(&Value) -> String) -> ExitCode {
    let config = match Config::load(args.config.as_deref(), environment()) {
        Ok(config) => config,
        Err(errors) => return refuse(&errors.to_string()),
    };
    let write = if args.json { Value::to_string } else { write };
    match ask(&config.data.directory, request, write) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => refuse(&message),
    }
}

fn refuse(message: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "avocet: {message}");
    ExitCode::FAILURE
}

/// Sends the request and writes the answer's lines to standard output.
fn ask(directory: &Path, request: &Request, write: fn(&Value) -> String) -> Result<(), String> {
    let mut stream = connect(directory).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("the avocet of data directory {} belongs to another account; use sudo", directory.display())
        }
        _ => format!("no avocet is running with data directory {}", directory.display()),
    })?;
    let broken = |error: io::Error| format!("the running avocet broke off: {error}");
    stream.set_read_timeout(Some(PATIENCE)).map_err(broken)?;
    stream.write_all(request.line().as_bytes()).map_err(broken)?;
    let mut out = io::stdout().lock();
    for line in BufReader::new(stream).lines() {
        let line: Value = serde_json::from_str(&line.map_err(broken)?).map_err(|error| broken(error.into()))?;
        if let Some(error) = line["error"].as_str() {
            return Err(error.to_owned());
        }
        let text = write(&line);
        if !text.is_empty() {
            writeln!(out, "{text}").map_err(|error| format!("cannot write: {error}"))?;
        }
        if line["done"] == true {
            return Ok(());
        }
    }
    Err("the running avocet broke off in the middle of its answer".to_owned())
}

/// `cache.key value` lines.
fn stats_text(stats: &Value) -> String {
    let mut lines = Vec::new();
    for (key, value) in stats.as_object().into_iter().flatten() {
        match value {
            Value::Object(counts) => lines.extend(counts.iter().map(|(count, value)| format!("{key}.{count} {value}"))),
            Value::Bool(_) => {}
            value => lines.push(format!("{key} {value}")),
        }
    }
    lines.join("\n")
}

fn dump_text(line: &Value) -> String {
    if line["done"] == true {
        return format!("; {} RRsets and denials, {} answers", line["rrsets"], line["packets"]);
    }
    dump::to_text(line)
}

fn flush_text(line: &Value) -> String {
    format!("{} RRsets and denials dropped", line["rrsets"])
}

fn reload_text(line: &Value) -> String {
    let keys: Vec<&str> =
        line["restart-needed-for"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if keys.is_empty() {
        "reloaded".to_owned()
    } else {
        format!("reloaded; a restart is needed for {}", keys.join(", "))
    }
}
