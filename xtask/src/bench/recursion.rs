//! Cold recursion: `cargo xtask internet` with round-trip times, loss and signed zones, as a
//! workload.
//!
//! All resolvers answer the same questions in one run, because the answer of the majority is taken
//! as right. Each starts with an empty cache and runs alone.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::extra::Extra;
use super::load::{Latency, Load, output};
use super::peer::Peer;
use super::report::Sample;
use super::setup::Setup;
use super::workload::Workload;

/// Number of questions. All of them are for zones without a planted fault.
const QUESTIONS: u64 = 500;
/// Round-trip time to every name server, and the number of lost datagrams per hundred in each
/// direction.
const ROUND_TRIP_MS: u64 = 20;
const LOSS_PERCENT: u64 = 1;
/// Maximum share of the questions that may get no answer or SERVFAIL.
const FAILED_SHARE: f64 = 0.02;
/// Maximum share of the answers that may differ from those of most resolvers. Differences in detail
/// occur if a lost datagram makes a resolver query another server.
const WRONG_SHARE: f64 = 0.01;
/// Minimum duration of a run in seconds.
pub(super) const SECS: f64 = 30.0;

/// The resolvers of the simulated internet and their names there.
const RESOLVERS: &[(Peer, &str)] = &[
    (Peer::Unbound, "unbound"),
    (Peer::Bind9, "named"),
    (Peer::KnotResolver, "kresd"),
    (Peer::Avocet, "avocet"),
];

/// Returns whether the simulated internet has this resolver.
pub(super) fn has(peer: Peer) -> bool {
    RESOLVERS.iter().any(|(resolver, _)| *resolver == peer)
}

/// The result of one resolver in a run.
#[derive(Debug, PartialEq)]
pub(super) struct Outcome {
    pub(super) peer: Peer,
    pub(super) cpu_us: f64,
    pub(super) load: Load,
}

impl Outcome {
    /// Checks the answers and returns the sample of the resolver.
    ///
    /// # Errors
    ///
    /// The answers are wrong. The error says how.
    pub(super) fn sample(&self, round: usize) -> Result<Sample, String> {
        judge(&self.load)?;
        Ok(Sample {
            peer: self.peer,
            workload: Workload::Recursion,
            round,
            cpu_us: self.cpu_us,
            // Start time, memory and user time are not measured inside the namespace.
            user_us: 0.0,
            ready_secs: 0.0,
            start_bytes: 0.0,
            growth: None,
            noise: None,
            load: self.load.clone(),
        })
    }
}

/// Sends the questions of a round to all resolvers. Peers without an outcome were not run.
///
/// # Errors
///
/// The run fails. It needs root, network namespaces and the tools of BIND.
pub(super) fn run(setup: &Setup, peers: &[Peer], round: usize) -> Result<Vec<Outcome>, String> {
    let file = setup.file("recursion.json");
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.arg("internet").args(arguments(peers, round)).arg("--json").arg(&file);
    if peers.contains(&Peer::Avocet) {
        command.arg("--avocet").arg(&setup.avocet);
    }
    output(command)?;
    read(&file)
}

/// Returns the options of the run. At least one other resolver votes on the answers.
fn arguments(peers: &[Peer], round: usize) -> Vec<String> {
    let voters = RESOLVERS.iter().filter(|(peer, _)| *peer != Peer::Avocet);
    let mut names: Vec<_> =
        voters.filter(|(peer, _)| peers.contains(peer)).map(|(_, name)| *name).collect();
    if names.is_empty() {
        names.push("unbound");
    }
    let options = format!(
        "--peers {} --questions {QUESTIONS} --seed {round} --rtt {ROUND_TRIP_MS} --loss \
         {LOSS_PERCENT}",
        names.join(",")
    );
    options.split(' ').map(str::to_owned).collect()
}

fn read(file: &Path) -> Result<Vec<Outcome>, String> {
    let failed = |error: String| format!("{}: {error}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    let value: Value = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    parse(&value).ok_or_else(|| failed(format!("is no result of internet: {text}")))
}

fn parse(value: &Value) -> Option<Vec<Outcome>> {
    let outcome = |server: &Value| {
        let name = server["server"].as_str()?;
        let (peer, _) = RESOLVERS.iter().find(|(_, resolver)| *resolver == name)?;
        let number = |key: &str| server[key].as_f64();
        let count = |key: &str| server[key].as_u64();
        let (asked, silent) = (count("questions")?, count("silent")?);
        let (failed, answered) = (count("servfail")?, asked.checked_sub(silent)?);
        let latency = Latency {
            p50_us: number("p50_ms")? * 1e3,
            p99_us: number("p99_ms")? * 1e3,
            p999_us: number("p999_ms")? * 1e3,
        };
        let rcodes =
            vec![("NOERROR".to_owned(), answered - failed), ("SERVFAIL".to_owned(), failed)];
        let extras = vec![
            (Extra::Upstream, number("upstream_per_name")?),
            (Extra::Servfail, failed as f64),
            (Extra::Wrong, number("wrong")?),
            (Extra::FalselyAuthentic, number("falsely_authentic")?),
        ];
        let load = Load {
            answered,
            lost: silent,
            per_sec: answered as f64 / number("secs")?,
            rcodes,
            latency: Some(latency),
            extras,
            ..Load::default()
        };
        Some(Outcome { peer: *peer, cpu_us: number("cpu_us_per_name")?, load })
    };
    value["servers"].as_array()?.iter().map(outcome).collect()
}

/// Checks the answers of a resolver.
///
/// # Errors
///
/// The answers are wrong. The error says how.
fn judge(load: &Load) -> Result<(), String> {
    let count = |extra| load.extra(extra).ok_or("the result is not complete");
    let (wrong, forged) = (count(Extra::Wrong)?, count(Extra::FalselyAuthentic)?);
    if forged > 0.0 {
        return Err(format!("{forged} answers have AD and cannot be secure"));
    }
    if wrong > load.answered as f64 * WRONG_SHARE {
        return Err(format!("{wrong} answers differ from those of most resolvers"));
    }
    let (failed, asked) = (load.lost + load.with_rcode("SERVFAIL"), load.answered + load.lost);
    if failed as f64 > asked as f64 * FAILED_SHARE {
        return Err(format!("{failed} of {asked} questions without data"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(silent: u64, servfail: u64, wrong: u64, forged: u64) -> Value {
        serde_json::json!({ "servers": [{
            "server": "named", "questions": 500, "silent": silent, "servfail": servfail,
            "wrong": wrong, "falsely_authentic": forged, "upstream_per_name": 3.25, "secs": 2.5,
            "cpu_us_per_name": 700.0, "p50_ms": 54.0, "p99_ms": 560.0, "p999_ms": 900.0,
        }] })
    }

    #[test]
    fn the_result_of_the_internet_is_read() {
        let outcome = parse(&result(5, 2, 0, 0)).unwrap().remove(0);
        assert_eq!((outcome.peer, outcome.cpu_us), (Peer::Bind9, 700.0));
        assert_eq!((outcome.load.answered, outcome.load.lost), (495, 5));
        assert_eq!(outcome.load.latency.unwrap().p99_us, 560_000.0);
        assert_eq!(outcome.load.extra(Extra::Upstream), Some(3.25));
        assert_eq!(parse(&serde_json::json!({})), None);
    }

    #[test]
    fn wrong_and_missing_answers_are_refused() {
        let check = |[silent, servfail, wrong, forged]: [u64; 4], is_right| {
            let outcome = parse(&result(silent, servfail, wrong, forged)).unwrap().remove(0);
            assert_eq!(judge(&outcome.load).is_ok(), is_right, "{silent} {servfail} {wrong}");
        };
        check([0, 0, 0, 0], true);
        check([5, 5, 4, 0], true);
        check([6, 5, 0, 0], false);
        check([0, 0, 6, 0], false);
        check([0, 0, 0, 1], false);
    }

    #[test]
    fn another_resolver_votes_if_only_avocet_is_measured() {
        let words = arguments(&[Peer::Avocet], 2).join(" ");
        assert!(words.starts_with("--peers unbound ") && words.contains("--seed 2"), "{words}");
        let words = arguments(&[Peer::KnotResolver, Peer::Bind9], 1).join(" ");
        assert!(words.starts_with("--peers named,kresd "), "{words}");
        assert!(has(Peer::Unbound) && !has(Peer::Dnsdist));
    }
}
