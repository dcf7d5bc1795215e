//! A simulated Internet on loopback, over which Avocet and its peers answer the same questions.
//!
//! Root, top-level domains and leaf zones are drawn from a seed, signed with BIND's tools, broken
//! in many ways, and served by NSD. Each resolver starts with a cold cache and runs alone, so that
//! CPU time and queries to the name servers can be attributed. The answer of the majority of the
//! peers is taken as right. Where Avocet differs, the list in `tests/internet` gives the reason, or
//! the command fails.

mod asking;
mod authority;
mod classes;
mod compare;
mod content;
mod families;
mod fault;
mod keys;
mod link;
mod message;
mod namespace;
mod options;
mod peer;
mod plan;
mod question;
mod report;
mod sign;
mod zone;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use authority::Authorities;
use classes::Classes;
use content::Content;
use message::Question;
use options::Options;
use peer::{Peer, Surroundings};
use plan::Internet;
use question::Scope;
use report::Run;

/// Creates the internet, queries all resolvers, and prints one table.
///
/// # Errors
///
/// The answers of Avocet differ without a listed reason.
pub(crate) fn run(words: &[&str]) -> Result<(), String> {
    let options = Options::parse(words)?;
    if !namespace::is_inside() {
        return namespace::enter();
    }
    let resolvers = resolvers(&options);
    namespace::raise_loopback(resolvers.iter().map(|peer| *peer.address().ip()))?;
    let directory = Directory::create(options.keep.as_deref())?;
    compare_all(&options, &resolvers, &directory.path)
}

/// The directory of a run. It is removed when the value is dropped, unless it must be kept.
struct Directory {
    path: PathBuf,
    is_kept: bool,
}

impl Directory {
    fn create(keep: Option<&Path>) -> Result<Self, String> {
        let own = || std::env::temp_dir().join(format!("avocet-internet-{}", std::process::id()));
        let path = keep.map_or_else(own, Path::to_owned);
        fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let is_empty = fs::read_dir(&path).is_ok_and(|mut entries| entries.next().is_none());
        if !is_empty {
            return Err(format!("{} is not empty", path.display()));
        }
        Ok(Self { path, is_kept: keep.is_some() })
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.is_kept {
            // If the removal fails, the directory remains among the system's temporary files.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn compare_all(options: &Options, resolvers: &[Peer], directory: &Path) -> Result<(), String> {
    let started = Instant::now();
    let classes = Classes::read()?;
    let internet = Internet::draw(options.seed, options.alive);
    let contents: Vec<_> = (0..internet.zones.len())
        .map(|zone| Content::draw(&internet, zone, options.seed))
        .collect();
    let scope = if options.is_rough() { Scope::Sound } else { Scope::All };
    let questions = question::draw(&internet, &contents, options.questions, options.seed, scope);
    let asked: String = questions.iter().map(|question| format!("{question}\n")).collect();
    write(directory, "questions.txt", &asked)?;
    let anchors = sign::write(&internet, &contents, directory)?;
    let authorities = Authorities::start(&internet, options.weather, directory)?;
    println!(
        "{} zones signed and served after {:.1} s",
        internet.zones.len(),
        started.elapsed().as_secs_f64()
    );

    let around = Surroundings { internet: &internet, anchors: &anchors, directory };
    let runs: Vec<Run> = resolvers
        .iter()
        .map(|peer| ask(peer, &around, &authorities, &questions))
        .collect::<Result<_, _>>()?;
    let votes: Vec<&Run> = runs.iter().filter(|run| run.server != "avocet").collect();
    let findings: Vec<_> = runs
        .iter()
        .map(|run| report::judge(&internet, &questions, run, &votes, &classes))
        .collect();
    println!("{}\n{}", report::table(&runs, &findings), report::upstream(&runs));
    if let Some(path) = &options.json {
        let text = report::json(&runs, &findings).to_string();
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    findings.iter().for_each(|of| print!("{}", of.details()));
    let lines: String = findings.iter().map(report::Findings::lines).collect();
    write(directory, "differences.tsv", &lines)?;
    write(directory, "upstream.tsv", &runs.iter().map(report::passed).collect::<String>())?;

    if options.is_rough() {
        return Ok(());
    }
    let own = runs.iter().zip(&findings).find(|(run, _)| run.server == "avocet");
    let faults = own
        .map_or(0, |(_, findings)| findings.unexplained.len() + findings.falsely_authentic.len());
    if faults == 0 {
        Ok(())
    } else {
        Err(format!("avocet differs {faults} times without a reason"))
    }
}

fn write(directory: &Path, name: &str, text: &str) -> Result<(), String> {
    fs::write(directory.join(name), text).map_err(|error| format!("{name}: {error}"))
}

/// Returns the resolvers to query. Prints those that are omitted.
fn resolvers(options: &Options) -> Vec<Peer> {
    let own = options.avocet.clone().map(Peer::Avocet);
    if own.is_none() {
        println!("avocet is left out: name its binary with --avocet");
    }
    let mut wanted: Vec<_> = options.voters.iter().cloned().chain(own).collect();
    wanted.retain(|peer| {
        let is_installed = peer.is_installed();
        if !is_installed {
            println!("{} is left out: it is not installed", peer.name());
        }
        is_installed
    });
    wanted
}

fn ask(
    peer: &Peer,
    around: &Surroundings<'_>,
    authorities: &Authorities,
    questions: &[Question],
) -> Result<Run, String> {
    let server = peer.start(around)?;
    authorities.passed();
    let (queries, cpu, started) = (authorities.queries()?, server.cpu(), Instant::now());
    let answers = asking::ask_all(peer.address(), questions);
    let (secs, used) = (started.elapsed().as_secs_f64(), server.cpu());
    let cpu_secs = used.since(&cpu);
    let upstream_queries = authorities.queries()?.since(&queries);
    println!("{:<8} asked in {secs:.1} s", peer.name());
    Ok(Run {
        server: peer.name(),
        answers,
        upstream_queries,
        passed: authorities.passed(),
        secs,
        cpu_secs,
    })
}
