//! Normal clients next to clients that misbehave. The bench measures the service for the normal
//! clients.
//!
//! For a quarter of the time, only the normal clients send queries. The result of that part is the
//! figure to compare with. A query without an answer counts with the time that the client waited.

use serde_json::Value;

use super::extra::Extra;
use super::load::{Load, output, output_of_check, parse_blast, parse_latency};
use super::material::HOT_NAMES;
use super::process::{LOAD_CORE, pinned};
use super::setup::Setup;
use super::workload::Workload;

/// Total queries per second of a flood and the normal clients next to it, and the share of the
/// flood.
const FLOOD_RATE: u64 = 10_000;
const FLOOD_SHARE: &str = "90%";
/// Minimum duration in seconds. A shorter run has too few normal queries for a percentile.
const LEAST_SECS: u64 = 8;
/// Number of slow connections. It is above the limits of most servers.
const SLOW_CONNECTIONS: u64 = 1_000;
/// Number of normal queries per second, each on a new connection.
const CONNECTIONS_PER_SEC: u64 = 100;
/// Maximum share of lost queries while the normal clients are alone.
const LOST_ALONE: f64 = 0.01;

/// Returns the duration of a run in seconds, given the wanted duration.
pub(super) fn secs(wanted: u64) -> u64 {
    wanted.max(LEAST_SECS)
}

/// Measures the service for normal clients during the attack. The result also has the figures of
/// the attackers, and those of the normal clients before the attack.
///
/// # Errors
///
/// The generator fails, or the normal clients are not served even while they are alone.
pub(super) fn run(setup: &Setup, workload: Workload, secs: u64) -> Result<Load, String> {
    let secs = self::secs(secs);
    let parts = match workload {
        Workload::Flood => flood(setup, secs)?,
        _ => slow_clients(setup, secs)?,
    };
    parts.load()
}

/// The results of the two parts of a run.
#[derive(Debug, Default)]
struct Parts {
    alone: Load,
    beside: Load,
    others: u64,
    extras: Vec<(Extra, f64)>,
}

impl Parts {
    /// Returns the load of the normal clients during the attack, with the figures of the part
    /// before it.
    fn load(self) -> Result<Load, String> {
        let Self { alone, beside, others, mut extras } = self;
        Workload::HitSteady.judge(&alone, None).map_err(|error| format!("alone: {error}"))?;
        let sent = |load: &Load| (load.answered + load.lost) as f64;
        if alone.lost as f64 > sent(&alone) * LOST_ALONE {
            return Err(format!("alone: {} of {} queries lost", alone.lost, sent(&alone)));
        }
        extras.insert(0, (Extra::AnsweredPercent, share(&beside)));
        if let Some(latency) = alone.latency {
            extras.extend([(Extra::AloneP50, latency.p50_us), (Extra::AloneP99, latency.p99_us)]);
        }
        Ok(Load { others: others + alone.answered, extras, ..beside })
    }
}

/// Returns the share of the queries that was answered, in per cent.
fn share(load: &Load) -> f64 {
    load.answered as f64 * 100.0 / (load.answered + load.lost).max(1) as f64
}

/// Measures random subdomains of the zone next to cached names, whose records are compared with the
/// zone.
fn flood(setup: &Setup, secs: u64) -> Result<Parts, String> {
    let mut command = pinned(LOAD_CORE);
    command.arg(&setup.avocet).args(["load", &setup.target(Workload::Flood).to_string()]);
    command.args(["--scenario", "flood", "--zone-name", "site.bench.test", "--population"]);
    command.arg(HOT_NAMES.to_string()).arg("--zone-file").arg(&setup.material.zone);
    command.args(["--rate", &FLOOD_RATE.to_string(), "--miss-share", FLOOD_SHARE]);
    command.args(["--duration", &format!("{secs}s"), "--max-loss", "100%"]);
    command.args(["--quiet", "--json", "-"]);
    let text = output_of_check(command)?;
    parse_flood(&text).ok_or_else(|| format!("avocet load said: {text}"))?
}

/// Parses the results of the flood and of the normal clients before and during it. Returns `None`
/// if the text has another form. A wrong record for a normal client is an error.
fn parse_flood(text: &str) -> Option<Result<Parts, String>> {
    let result: Value = serde_json::from_str(text).ok()?;
    let flow = |name: &str| result["flows"].as_array()?.iter().find(|flow| flow["name"] == name);
    let of = |flow: &Value| {
        let (outcome, count) = (&flow["outcome"], |key: &str| flow["outcome"][key].as_u64());
        let rcodes = outcome["rcodes"].as_object()?.iter();
        Some(Load {
            answered: count("answered")?,
            lost: count("lost")?,
            per_sec: outcome["answered_per_sec"].as_f64()?,
            rcodes: rcodes
                .map(|(name, count)| Some((name.clone(), count.as_u64()?)))
                .collect::<Option<_>>()?,
            empty: count("empty")?,
            latency: Some(parse_latency(&flow["latency"])?),
            ..Load::default()
        })
    };
    let (quiet, attacked) = (flow("quiet")?, flow("attacked")?);
    let attack = of(flow("flood")?)?;
    let wrong = |flow: &Value| flow["outcome"]["wrong"]["total"].as_u64();
    let wrong = wrong(quiet)? + wrong(attacked)?;
    if wrong > 0 {
        return Some(Err(format!("{wrong} wrong answers: {}", result["examples"])));
    }
    let extras = vec![(Extra::FloodPercent, share(&attack))];
    Some(Ok(Parts { alone: of(quiet)?, beside: of(attacked)?, others: attack.answered, extras }))
}

/// Measures connections that send octet by octet, next to clients that open new connections.
fn slow_clients(setup: &Setup, secs: u64) -> Result<Parts, String> {
    let mut command = pinned(LOAD_CORE);
    let server = setup.target(Workload::SlowTcp).to_string();
    command.arg(&setup.bare).args(["slow", &server]).arg(&setup.material.hot);
    command.args(["--secs", &secs.to_string(), "--slow", &SLOW_CONNECTIONS.to_string()]);
    command.args(["--rate", &CONNECTIONS_PER_SEC.to_string()]);
    let text = output(command)?;
    parse_slow(&text).ok_or_else(|| format!("slow said: {text}"))
}

/// Parses three lines: the result of the normal clients alone, their result next to slow clients,
/// and the state of the slow connections.
fn parse_slow(text: &str) -> Option<Parts> {
    let mut lines = text.lines();
    let (alone, beside) = (parse_blast(lines.next()?)?, parse_blast(lines.next()?)?);
    let rest = lines.next()?;
    let count = |key: &str| {
        let value = rest.split_whitespace().find_map(|pair| pair.strip_prefix(key));
        value?.strip_prefix('=')?.parse::<f64>().ok()
    };
    let extras = vec![(Extra::SlowOpen, count("open")?), (Extra::SlowClosed, count("closed")?)];
    Some(Parts { alone, beside, others: 0, extras })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(name: &str, answered: u64, lost: u64, wrong: u64) -> Value {
        serde_json::json!({
            "name": name,
            "outcome": {
                "answered": answered, "lost": lost, "answered_per_sec": 10.0, "empty": 0,
                "wrong": { "total": wrong }, "rcodes": { "NOERROR": answered },
            },
            "latency": { "p50_ns": 30_000, "p99_ns": 60_000, "p999_ns": 90_500 },
        })
    }

    fn flood_of(wrong: u64, lost_alone: u64) -> Result<Load, String> {
        let flows = [
            flow("quiet", 1000, lost_alone, 0),
            flow("attacked", 750, 250, wrong),
            flow("flood", 100, 8900, 3),
        ];
        let result = serde_json::json!({ "flows": flows, "examples": [] });
        parse_flood(&result.to_string()).unwrap()?.load()
    }

    #[test]
    fn a_flood_shows_what_normal_clients_get() {
        let load = flood_of(0, 0).unwrap();
        assert_eq!((load.answered, load.lost, load.others), (750, 250, 1100));
        assert_eq!(load.extra(Extra::AnsweredPercent), Some(75.0));
        assert_eq!(load.extra(Extra::AloneP99), Some(60.0));
        assert!(load.extra(Extra::FloodPercent).is_some_and(|share| share < 2.0));
        assert!(parse_flood("{}").is_none());
    }

    #[test]
    fn wrong_answers_and_losses_without_an_attack_are_errors() {
        assert!(flood_of(1, 0).unwrap_err().contains("1 wrong"));
        assert!(flood_of(0, 20).unwrap_err().contains("alone"));
    }

    #[test]
    fn the_lines_of_slow_are_read() {
        let line = |received: u64, lost: u64| {
            format!(
                "secs=2.000 qps=99 sent=100 received={received} lost={lost} noerror={received} \
                 nxdomain=0 other=0 empty=0 p50us=70 p99us=900 p999us=1000"
            )
        };
        let text = format!("{}\n{}\nopen=1000 closed=12\n", line(200, 0), line(0, 400));
        let load = parse_slow(&text).unwrap().load().unwrap();
        assert_eq!((load.answered, load.lost), (0, 400));
        assert_eq!(load.extra(Extra::AnsweredPercent), Some(0.0));
        assert_eq!(load.extra(Extra::SlowOpen), Some(1000.0));
        assert_eq!(load.extra(Extra::SlowClosed), Some(12.0));
        assert!(parse_slow("usage").is_none());
    }
}
