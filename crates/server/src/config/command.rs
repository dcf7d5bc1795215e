//! `avocet check` and `avocet config`: the configuration without a server.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use super::{Config, ConfigErrors, environment, json_schema};
use crate::cli::{CheckArgs, ConfigArgs, ConfigCommand};

/// Says whether the file is right; else names each error on standard error (as JSON: on standard output).
pub(crate) fn check(args: &CheckArgs) -> ExitCode {
    let result = Config::load(Some(&args.config), environment());
    if args.json {
        let errors = result.as_ref().err().map_or_else(Vec::new, ConfigErrors::to_json);
        let _ = print(&format!("{:#}", serde_json::json!({ "ok": result.is_ok(), "errors": errors })));
        return if result.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    match result {
        Ok(_) => print(&format!("{}: no errors", args.config.display())),
        Err(errors) => refuse(&errors),
    }
}

/// Writes the schema, or the configuration that holds.
pub(crate) fn show(args: &ConfigArgs) -> ExitCode {
    match &args.command {
        ConfigCommand::Schema => print(&format!("{:#}", json_schema())),
        ConfigCommand::Show { config, json } => effective(config.as_deref(), *json),
    }
}

/// Writes every key with the value that holds.
fn effective(file: Option<&Path>, json: bool) -> ExitCode {
    let tables = match Config::load(file, environment()) {
        Ok(config) => config.effective(),
        Err(errors) => return refuse(&errors),
    };
    let text = if json {
        serde_json::to_string_pretty(&tables).map_err(|error| error.to_string())
    } else {
        toml::to_string(&tables).map_err(|error| error.to_string())
    };
    match text {
        Ok(text) => print(text.trim_end()),
        Err(error) => refuse(&error),
    }
}

/// Writes to standard output; a reader that went away is a failure, not a panic.
fn print(text: &str) -> ExitCode {
    match writeln!(io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn refuse(error: &impl std::fmt::Display) -> ExitCode {
    let _ = writeln!(io::stderr(), "{error}");
    ExitCode::FAILURE
}
