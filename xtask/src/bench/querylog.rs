//! The figures of the query log for a trace of some million queries. They are compared with SQLite
//! in the schema of Pi-hole, and with JSON lines in the form of AdGuard Home.
//!
//! The example `figures` of the crate `avocet-querylog` measures the query log and the JSON lines;
//! `bench/querylog/sqlite.py` measures SQLite, and `agree.py` compares random searches with DuckDB.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::load::output;
use super::machine;
use super::process::target_directory;

const PACKAGE: &str = "avocet-querylog";
const EXAMPLE: &str = "figures";
const PROFILE: &str = "bench-quick";
const SCRIPTS: &str = "bench/querylog";
/// Default number of entries.
const ENTRIES: u64 = 4_000_000;
/// Maximum number of entries of the other formats: JSON lines take 300 octets each.
const MAX_OTHERS: u64 = 10_000_000;
/// Number of entries to which the goals of searches apply.
const GOAL_ENTRIES: &str = "100 M";

/// The goal of each row, by the start of the row's name. The first match counts.
const GOALS: &[(&str, &str)] = &[
    ("octets an entry, head", "45"),
    ("octets an entry, merged", "14 at 10 M"),
    ("entries a second of CPU time, ring to head", "300000"),
    ("memory", "64"),
    ("first page of the last 24 h, cold", ""),
    ("first page of the last 24 h", "50"),
    ("first page by", "200, cold 1000"),
    ("count of all entries", "2000"),
    ("count of the last 24 h", "50"),
    ("overview", "20 at any size"),
];
/// Names of rows for which the other formats use a shorter name.
const SAME: &[(&str, &str)] = &[
    ("octets an entry, merged by the day", "octets an entry"),
    ("entries a second of CPU time, ring to head", "entries a second of CPU time"),
];

struct LogOptions {
    entries: u64,
    others: u64,
    directory: PathBuf,
    python: String,
    agrees: bool,
    keeps_files: bool,
}

impl LogOptions {
    fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            entries: ENTRIES,
            others: MAX_OTHERS,
            directory: std::env::temp_dir().join(format!("avocet-figures-{}", std::process::id())),
            python: "python3".to_owned(),
            agrees: false,
            keeps_files: false,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
            let number = |text: &str| {
                text.parse::<u64>().map_err(|_| format!("{word} wants a number of entries"))
            };
            match *word {
                "--entries" => options.entries = number(value()?)?,
                "--others" => options.others = number(value()?)?,
                "--directory" => options.directory = PathBuf::from(value()?),
                "--python" => options.python = (*value()?).to_owned(),
                "--agree" => options.agrees = true,
                "--keep" => options.keeps_files = true,
                _ => return Err(format!("bench querylog has no option {word}")),
            }
        }
        options.others = options.others.min(options.entries);
        Ok(options)
    }
}

/// The figures by the names of their rows, and the names in order.
#[derive(Default)]
struct Figures {
    rows: Vec<String>,
    figures: BTreeMap<String, String>,
}

impl Figures {
    /// Adds the lines that a program has printed.
    fn add(&mut self, printed: &str) {
        for line in printed.lines() {
            let Some((row, figure)) = line.split_once(" | ") else { continue };
            self.rows.push(row.to_owned());
            self.figures.insert(row.to_owned(), figure.to_owned());
        }
    }

    fn get(&self, row: &str) -> &str {
        let same = SAME.iter().find(|(ours, _)| *ours == row).map(|(_, theirs)| *theirs);
        let figure = self.figures.get(row).or_else(|| self.figures.get(same?));
        figure.map_or("", |figure| figure)
    }
}

/// Measures the query log with `--entries N` entries, and the other formats with `--others N`
/// entries. The files are in `--directory`, and `--keep` keeps them. `--agree` compares 50 searches
/// with DuckDB of `--python`.
pub(super) fn run(words: &[&str]) -> Result<(), String> {
    let options = LogOptions::parse(words)?;
    let figures = build()?;
    let log = options.directory.join("log");
    fs::create_dir_all(&options.directory).map_err(|error| error.to_string())?;
    let measured = measure(&options, &figures, &log);
    if !options.keeps_files {
        fs::remove_dir_all(&options.directory).map_err(|error| error.to_string())?;
    }
    machine::write("querylog", "md", &measured?).map(drop)
}

fn build() -> Result<PathBuf, String> {
    let mut build = Command::new("cargo");
    build
        .args(["build", "--quiet", "--profile", PROFILE, "--package", PACKAGE])
        .args(["--example", EXAMPLE])
        .current_dir(crate::root());
    output(build)?;
    Ok(target_directory().join(PROFILE).join("examples").join(EXAMPLE))
}

fn measure(options: &LogOptions, figures: &Path, log: &Path) -> Result<String, String> {
    let run = |words: &[&str], path: &Path, rest: &[&str]| {
        let mut command = Command::new(figures);
        command.args(words).arg(path).args(rest);
        output(command)
    };
    let mut ours = Figures::default();
    ours.add(&run(&["write"], log, &[&options.entries.to_string()])?);
    ours.add(&run(&["search"], log, &[])?);
    let (mut sqlite, mut lines) = (Figures::default(), Figures::default());
    if options.others > 0 {
        let file = options.directory.join("querylog.json");
        lines.add(&run(&["lines"], &file, &[&options.others.to_string()])?);
        fs::remove_file(&file).map_err(|error| error.to_string())?;
        sqlite.add(&of_sqlite(options, figures)?);
    }
    let mut text = table(options, &ours, &sqlite, &lines);
    print!("{text}");
    if options.agrees {
        let mut command = Command::new(&options.python);
        command.arg(crate::root().join(SCRIPTS).join("agree.py")).arg(figures).arg(log);
        let agreed = output(command)?.replace(" | ", ": ").replace('\n', "\n\n");
        print!("{agreed}");
        text += &format!("\n{agreed}");
    }
    Ok(text)
}

fn of_sqlite(options: &LogOptions, figures: &Path) -> Result<String, String> {
    let database = options.directory.join("pihole.db");
    let mut rows = Command::new(figures)
        .args(["rows", &options.others.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{}: {error}", figures.display()))?;
    let mut command = Command::new(&options.python);
    command.arg(crate::root().join(SCRIPTS).join("sqlite.py")).arg(&database);
    command.stdin(rows.stdout.take().map_or_else(Stdio::null, Stdio::from));
    let printed = output(command);
    rows.wait().map_err(|error| error.to_string())?;
    fs::remove_file(&database).map_err(|error| error.to_string())?;
    printed
}

fn table(options: &LogOptions, ours: &Figures, sqlite: &Figures, lines: &Figures) -> String {
    let mut text = format!(
        "{}\nTrace: 200,000 names and 500 clients by Zipf's law, eight lists, two million queries \
         a day. Avocet: {} entries; SQLite and JSON lines: {} entries. Goals of searches hold at \
         {GOAL_ENTRIES} entries. Cold: the files are not in memory.\n\n\
         | figure | goal | Avocet | SQLite, Pi-hole | JSON lines, AdGuard Home |\n\
         |---|---|---|---|---|\n",
        machine::head(),
        options.entries,
        options.others
    );
    for row in &ours.rows {
        let goal = GOALS.iter().find(|(start, _)| row.starts_with(start));
        let goal = goal.map_or("", |(_, goal)| goal);
        let (ours, sqlite, lines) = (ours.get(row), sqlite.get(row), lines.get(row));
        text += &format!("| {row} | {goal} | {ours} | {sqlite} | {lines} |\n");
    }
    text
}
