//! Tests of `[query-log]`.

use super::{errors, read};

#[test]
fn outcomes_have_a_shorter_time_each_once() {
    let log = |keys: &str| format!("[query-log]\n{keys}\n");
    let limits = read(&log("retention-outcomes = [\"answered:30\", \"local:7\"]"));
    let shown: Vec<String> = limits
        .query_log
        .retention_outcomes
        .iter()
        .map(|limit| format!("{} {}", limit.kind.word(), limit.days))
        .collect();
    assert_eq!(shown, ["answered 30", "local 7"]);
    assert_eq!(read(&log("")).query_log.retention_outcomes, []);
    let long = log("retention-days = 0\nretention-outcomes = [\"failed:36500\"]");
    assert_eq!(read(&long).query_log.retention_outcomes.len(), 1);
    for (keys, expected) in [
        ("retention-outcomes = [\"answered\"]", "such as \"answered:30\""),
        ("retention-outcomes = [\"answered:0\"]", "such as \"answered:30\""),
        ("retention-outcomes = [\"answered:x\"]", "such as \"answered:30\""),
        ("retention-outcomes = [\"packet-hit:3\"]", "\"rewritten\""),
        ("retention-outcomes = [30]", "expected an outcome"),
        ("retention-outcomes = [\"local:3\", \"local:4\"]", "duplicate outcome \"local\""),
        ("retention-outcomes = [\"local:91\"]", "removed after 90 days"),
        ("retention-days = 5\nretention-outcomes = [\"local:6\"]", "removed after 5 days"),
    ] {
        let faults = errors(&log(keys));
        assert!(faults.contains(expected), "{keys}: {faults}");
    }
}
