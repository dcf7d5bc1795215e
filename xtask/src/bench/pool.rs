//! Several results of `bench publish` combined into one. The spread of a figure then also covers
//! changes of the machine between two runs. The rounds of one run follow each other within minutes,
//! so a ratio may be the same in all of them and different an hour later.

use std::fs;

use serde_json::Value;

use super::json::{self, Json};
use super::report::Report;

/// The fields that must be equal, so that the results are of the same builds on the same machine.
const SAME: [&str; 3] = ["kind", "commit", "machine"];

/// Adds the rounds of other results to the first result, and writes its file. The counts of
/// instructions and system calls of the first result stay.
///
/// # Errors
///
/// A file cannot be read or written, is not a result, or is a result of another build or machine.
pub(super) fn run(first: &str, others: &[&str]) -> Result<(), String> {
    let mut pooled = read(first)?;
    for other in others {
        let failed = |error: String| format!("{other}: {error}");
        pooled = pool(&pooled, &read(other)?).map_err(failed)?;
    }
    fs::write(first, text(&pooled)?).map_err(|error| format!("{first}: {error}"))
}

fn read(path: &str) -> Result<Value, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{path}: {error}");
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    serde_json::from_str(&text).map_err(|error| failed(&error))
}

/// Returns the first result with the rounds of both results, and with the list of their runs.
fn pool(first: &Value, second: &Value) -> Result<Value, String> {
    if let Some(key) = SAME.into_iter().find(|key| first[*key] != second[*key]) {
        return Err(format!("its `{key}` is not that of the first result"));
    }
    let hashes = second["sha256"].as_object().into_iter().flatten();
    let differs = |(peer, hash): (&String, &Value)| {
        let known = &first["sha256"][peer];
        (known != hash).then(|| peer.clone())
    };
    if let Some(peer) = hashes.into_iter().find_map(differs) {
        return Err(format!("its binary of {peer} is not that of the first result"));
    }
    let mut report = Report::parse(&first["result"])?;
    let mut other = Report::parse(&second["result"])?;
    let rounds = report.samples.iter().map(|sample| sample.round).max().unwrap_or(0);
    other.samples.iter_mut().for_each(|sample| sample.round += rounds);
    report.samples.append(&mut other.samples);
    report.failures.append(&mut other.failures);
    report.left_out.append(&mut other.left_out);
    let mut pooled = first.clone();
    pooled["result"] = serde_json::from_str(&report.json().to_string())
        .map_err(|error| format!("the pooled result is not JSON: {error}"))?;
    let run = |result: &Value| match result["runs"].as_array() {
        Some(runs) => runs.clone(),
        None => vec![serde_json::json!({ "time": result["time"], "command": result["command"] })],
    };
    pooled["runs"] = Value::Array([run(first), run(second)].concat());
    Ok(pooled)
}

/// Returns the text of a result in the form that the benches write: one sample per line.
fn text(result: &Value) -> Result<String, String> {
    let report = Report::parse(&result["result"])?.json();
    let keys = ["kind", "command", "commit", "date", "time", "runs", "machine", "versions"];
    let keys = keys.into_iter().chain(["packages", "sha256"]);
    let mut members: Vec<(&str, Json)> = keys.map(|key| (key, json::value(&result[key]))).collect();
    members.push(("result", report));
    Ok(format!("{}\n", json::object(members)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(commit: &str, time: &str, cpu_us: f64) -> Value {
        serde_json::json!({
            "kind": "publish", "command": "c", "commit": commit, "time": time,
            "machine": {"cores": 2}, "sha256": {"avocet": "ab"},
            "result": {"samples": [{
                "peer": "avocet", "workload": "hot", "round": 2, "cpu_us": cpu_us, "user_us": 1,
                "ready_secs": 1, "start_bytes": 1, "per_sec": 1, "answered": 1, "lost": 0,
                "rcodes": {},
            }], "failures": [], "left_out": [], "instructions": {}, "calls": {}},
        })
    }

    #[test]
    fn rounds_of_several_runs_are_kept_apart() {
        let pooled = pool(&result("a", "1", 4.0), &result("a", "2", 5.0)).unwrap();
        let pooled = pool(&pooled, &result("a", "3", 6.0)).unwrap();
        let again: Value = serde_json::from_str(&text(&pooled).unwrap()).unwrap();
        let report = Report::parse(&again["result"]).unwrap();
        let rounds: Vec<_> = report.samples.iter().map(|one| (one.round, one.cpu_us)).collect();
        assert_eq!(rounds, [(2, 4.0), (4, 5.0), (6, 6.0)]);
        let times: Vec<_> = again["runs"].as_array().unwrap().iter().map(|r| &r["time"]).collect();
        assert_eq!(times, ["1", "2", "3"]);
    }

    #[test]
    fn results_of_other_builds_are_refused() {
        let error = pool(&result("a", "1", 4.0), &result("b", "2", 4.0)).unwrap_err();
        assert!(error.contains("`commit`"), "{error}");
        let mut other = result("a", "2", 4.0);
        other["sha256"]["avocet"] = "cd".into();
        let error = pool(&result("a", "1", 4.0), &other).unwrap_err();
        assert!(error.contains("binary of avocet"), "{error}");
    }
}
