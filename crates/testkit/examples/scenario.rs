//! Plays scenarios and prints queries and answers: `scenario unbound|deckard|own FILE...`

use std::env;
use std::fs;
use std::process::ExitCode;

use avocet_testkit::{Dialect, Scenario, play};

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let dialect = match arguments.next().as_deref() {
        Some("unbound") => Dialect::Unbound,
        Some("deckard") => Dialect::Deckard,
        Some("own") => Dialect::Own,
        _ => {
            eprintln!("usage: scenario unbound|deckard|own FILE...");
            return ExitCode::from(2);
        }
    };
    let mut code = ExitCode::SUCCESS;
    for file in arguments {
        let passed = show(&file, dialect);
        if let Err(error) = passed {
            println!("{file}: {error}");
            code = ExitCode::FAILURE;
        }
    }
    code
}

fn show(file: &str, dialect: Dialect) -> Result<(), String> {
    let octets = fs::read(file).map_err(|error| error.to_string())?;
    let scenario = Scenario::read(&String::from_utf8_lossy(&octets), dialect)?;
    println!("{file}: {}", scenario.title);
    let outcome = play(&scenario, 1);
    outcome.trace.iter().for_each(|line| println!("  {line}"));
    println!("core: {}", outcome.core.as_ref().map_or_else(String::as_str, |()| "as expected"));
    println!("full: {}", outcome.full.as_ref().map_or_else(String::as_str, |()| "as expected"));
    outcome.core
}
