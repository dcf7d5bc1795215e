//! Runs of the generator against a server of the test.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use avocet_load::report::Report;
use avocet_load::{LoadArgs, measure, run_to};
use clap::Parser;

use crate::server::Server;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    load: LoadArgs,
}

/// Parses options as the command line does.
pub(crate) fn parse(server: &str, options: &str) -> LoadArgs {
    let words = ["load", server, "--quiet"].into_iter().chain(options.split_whitespace());
    Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).load
}

/// Default options of the tests. The timeout exceeds possible stalls of a busy machine.
const DEFAULTS: [&str; 6] = [
    "--window 50",
    "--clients 4",
    "--count 1000",
    "--duration 60s",
    "--timeout 5s",
    "--zone-name test. --population 10",
];

/// Runs a thousand queries over ten names, unless the options differ.
pub(crate) fn load(server: &Server, options: &str) -> Report {
    measure(&args(server, options), None).expect("a report")
}

/// The results of the whole command in all its forms.
pub(crate) struct Output {
    /// The exit status of the process.
    pub(crate) status: u8,
    pub(crate) text: String,
    pub(crate) html: String,
    /// The report that the JSON file contains.
    pub(crate) report: Report,
}

/// Runs the command as [`load`] does, and reads all its results.
pub(crate) fn command(server: &Server, options: &str) -> Output {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let run = RUNS.fetch_add(1, Ordering::Relaxed);
    let [json, html] = ["json", "html"].map(|kind| Scratch::write(&format!("{run}.{kind}"), b""));
    let options = format!("{options} --json {} --html {}", json.path(), html.path());
    let mut text = Vec::new();
    let status = run_to(&args(server, &options), None, &mut text);
    Output {
        status,
        text: String::from_utf8(text).expect("text"),
        html: fs::read_to_string(&html.0).expect("a page"),
        report: Report::read(&json.0).expect("a report"),
    }
}

/// Parses options with the defaults of the tests.
fn args(server: &Server, options: &str) -> LoadArgs {
    let is_given =
        |default: &&&str| default.split(' ').next().is_some_and(|name| options.contains(name));
    let names_given =
        |default: &&&str| default.starts_with("--zone-name") && options.contains("--names");
    let rate_given = |default: &&&str| {
        default.starts_with("--window")
            && (options.contains("--ramp") || options.contains("--rate"))
    };
    let left = DEFAULTS
        .iter()
        .filter(|default| !(is_given(default) || names_given(default) || rate_given(default)));
    let options: Vec<&str> = left.copied().chain([options]).collect();
    parse(&server.address(), &options.join(" "))
}

/// A file of this test run, deleted at its end.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn write(name: &str, bytes: &[u8]) -> Self {
        let path = std::env::temp_dir().join(format!("avocet-load-{}-{name}", std::process::id()));
        fs::write(&path, bytes).expect("a file");
        Self(path)
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().expect("a path")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns the zone of the honest server.
pub(crate) fn zone() -> String {
    let names: String = (0..10).map(|number| format!("www{number} A 192.0.2.{number}\n")).collect();
    format!("$ORIGIN test.\n@ 60 SOA ns admin 1 1 1 1 1\n{names}")
}
