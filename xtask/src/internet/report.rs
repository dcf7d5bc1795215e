//! A table of all servers, the reasons for their differences, and the unexplained differences.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::asking::Asked;
use super::authority::Queries;
use super::classes::Classes;
use super::compare::{self, Aspect, Difference};
use super::link::Passed;
use super::message::Question;
use super::plan::Internet;

/// Maximum number of unexplained differences that are printed for each server.
const SHOWN: usize = 12;
/// Maximum number of types of upstream queries that are printed.
const TYPES_SHOWN: usize = 10;
/// Maximum number of characters of a printed difference. The file `differences.tsv` contains each
/// difference in full.
const SHOWN_CHARS: usize = 300;

/// A server and its results.
pub(super) struct Run {
    pub(super) server: &'static str,
    pub(super) answers: Vec<Asked>,
    /// Numbers of the server's queries at the name servers.
    pub(super) upstream_queries: Queries,
    /// Each query of the server in order, if there are links that record queries.
    pub(super) passed: Vec<Passed>,
    /// Time that the questions took, in seconds.
    pub(super) secs: f64,
    pub(super) cpu_secs: f64,
}

/// The evaluation of a server's answers.
pub(super) struct Findings {
    server: &'static str,
    equal: usize,
    /// Number of explained differences by class.
    explained: BTreeMap<String, usize>,
    pub(super) unexplained: Vec<Difference>,
    /// Questions whose answers have AD set although they cannot be secure.
    pub(super) falsely_authentic: Vec<String>,
}

/// Compares the answers of a run with the votes of other servers.
pub(super) fn judge(
    internet: &Internet,
    questions: &[Question],
    run: &Run,
    votes: &[&Run],
    classes: &Classes,
) -> Findings {
    let mut findings = Findings {
        server: run.server,
        equal: 0,
        explained: BTreeMap::new(),
        unexplained: Vec::new(),
        falsely_authentic: Vec::new(),
    };
    for (number, question) in questions.iter().enumerate() {
        let answer = run.answers[number].answer.as_ref();
        if answer.is_some_and(|answer| compare::is_falsely_authentic(internet, question, answer)) {
            findings.falsely_authentic.push(question.to_string());
        }
        let cast: Vec<_> = votes.iter().map(|vote| vote.answers[number].answer.as_ref()).collect();
        match compare::difference(internet, question, answer, &cast) {
            None => findings.equal += 1,
            Some(difference) => match classes.explain(run.server, &difference) {
                Some(class) => *findings.explained.entry(class.name.clone()).or_default() += 1,
                None => findings.unexplained.push(difference),
            },
        }
    }
    findings
}

impl Findings {
    /// Returns a text with the number of differences by class, and with some of the unexplained
    /// differences.
    pub(super) fn details(&self) -> String {
        let mut text = String::new();
        for (class, count) in &self.explained {
            let _ = writeln!(text, "{:<8} {count:>6}  {class}", self.server);
        }
        for question in self.falsely_authentic.iter().take(SHOWN) {
            let _ = writeln!(text, "{:<8} falsely authentic: {question}", self.server);
        }
        for difference in self.unexplained.iter().take(SHOWN) {
            let line: String = difference.to_string().chars().take(SHOWN_CHARS).collect();
            let _ = writeln!(text, "{:<8} unexplained: {line}", self.server);
        }
        text
    }

    /// Returns all unexplained differences, one per line.
    pub(super) fn lines(&self) -> String {
        let lines =
            self.unexplained.iter().map(|difference| format!("{}\t{difference}\n", self.server));
        let false_lines = self
            .falsely_authentic
            .iter()
            .map(|question| format!("{}\t{question}\tfalsely authentic\n", self.server));
        lines.chain(false_lines).collect()
    }
}

/// Returns a table with one row per server.
pub(super) fn table(runs: &[Run], findings: &[Findings]) -> String {
    let mut text = format!(
        "{:<8} {:>7} {:>9} {:>11} {:>6} {:>8} {:>8} {:>13} {:>11} {:>9} {:>9}\n",
        "server",
        "as most",
        "explained",
        "unexplained",
        "silent",
        "SERVFAIL",
        "false AD",
        "upstream/name",
        "CPU us/name",
        "median ms",
        "p99 ms"
    );
    for (run, findings) in runs.iter().zip(findings) {
        let names = run.answers.len().max(1) as f64;
        let silent = run.answers.iter().filter(|asked| asked.answer.is_none()).count();
        let heard = run.answers.iter().filter_map(|asked| asked.answer.as_ref());
        let failed = heard.filter(|answer| !answer.is_conclusive()).count();
        let _ = writeln!(
            text,
            "{:<8} {:>7} {:>9} {:>11} {silent:>6} {failed:>8} {:>8} {:>13.2} {:>11.0} {:>9.1} \
             {:>9.1}",
            run.server,
            findings.equal,
            findings.explained.values().sum::<usize>(),
            findings.unexplained.len(),
            findings.falsely_authentic.len(),
            run.upstream_queries.total as f64 / names,
            run.cpu_secs * 1e6 / names,
            percentile_ms(run, 500),
            percentile_ms(run, 990),
        );
    }
    text
}

/// Returns a text with the number of queries of each server to the name servers, for the most
/// frequent types.
pub(super) fn upstream(runs: &[Run]) -> String {
    let mut text = String::new();
    for run in runs {
        let mut kinds: Vec<_> =
            run.upstream_queries.by_type.iter().filter(|(_, count)| **count > 0).collect();
        kinds.sort_unstable_by(|left, right| right.1.cmp(left.1));
        let kinds: Vec<_> = kinds
            .into_iter()
            .take(TYPES_SHOWN)
            .map(|(kind, count)| format!("{kind} {count}"))
            .collect();
        let _ = writeln!(text, "{:<8} asked the authorities for {}", run.server, kinds.join(", "));
    }
    text
}

/// Returns each query of a server to the name servers, one per line. A line has the milliseconds
/// after the first query, the destination and the question.
pub(super) fn passed(run: &Run) -> String {
    let Some(first) = run.passed.first() else { return String::new() };
    let line = |query: &Passed| {
        let after_ms = query.at.duration_since(first.at).as_millis();
        format!("{}\t{after_ms}\t{}\t{}\n", run.server, query.server, query.question)
    };
    run.passed.iter().map(line).collect()
}

/// Returns the table as JSON.
pub(super) fn json(runs: &[Run], findings: &[Findings]) -> Value {
    let server = |(run, findings): (&Run, &Findings)| {
        let names = run.answers.len();
        let heard = run.answers.iter().filter_map(|asked| asked.answer.as_ref());
        serde_json::json!({
            "server": run.server,
            "questions": names,
            "silent": run.answers.iter().filter(|asked| asked.answer.is_none()).count(),
            "servfail": heard.filter(|answer| !answer.is_conclusive()).count(),
            "wrong": findings.unexplained.iter().filter(|of| is_wrong(of)).count(),
            "falsely_authentic": findings.falsely_authentic.len(),
            "upstream_per_name": run.upstream_queries.total as f64 / names.max(1) as f64,
            "secs": run.secs,
            "cpu_us_per_name": run.cpu_secs * 1e6 / names.max(1) as f64,
            "p50_ms": percentile_ms(run, 500),
            "p99_ms": percentile_ms(run, 990),
            "p999_ms": percentile_ms(run, 999),
        })
    };
    let servers: Vec<_> = runs.iter().zip(findings).map(server).collect();
    serde_json::json!({ "servers": servers })
}

/// Returns whether a difference is a wrong answer, not a failure.
fn is_wrong(difference: &Difference) -> bool {
    difference.aspect != Aspect::Silence && difference.got != "SERVFAIL"
}

/// Returns the time in milliseconds within which `per_mille` of a thousand questions were
/// completed.
fn percentile_ms(run: &Run, per_mille: usize) -> f64 {
    let mut times: Vec<_> = run.answers.iter().map(|asked| asked.took).collect();
    times.sort_unstable();
    times.get(times.len() * per_mille / 1000).map_or(0.0, |took| took.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::internet::compare::Aspect;

    fn difference(aspect: Aspect, got: &str) -> Difference {
        let name = "a.test.".to_owned();
        let question = Question { name, kind: 1, is_dnssec_ok: false, is_checking_disabled: false };
        let (families, expected) = (BTreeSet::new(), "NOERROR".to_owned());
        Difference { aspect, question, families, got: got.to_owned(), expected }
    }

    #[test]
    fn the_json_has_the_failures_apart_from_wrong_answers() {
        let asked = |millis| Asked { answer: None, took: Duration::from_millis(millis) };
        let run = Run {
            server: "avocet",
            answers: vec![asked(10), asked(20), asked(5500), asked(30)],
            upstream_queries: Queries { total: 10, ..Queries::default() },
            passed: Vec::new(),
            secs: 6.0,
            cpu_secs: 0.002,
        };
        let findings = Findings {
            server: "avocet",
            equal: 1,
            explained: BTreeMap::new(),
            unexplained: vec![
                difference(Aspect::Rcode, "SERVFAIL"),
                difference(Aspect::Rcode, "NXDOMAIN"),
                difference(Aspect::Silence, "silence"),
            ],
            falsely_authentic: Vec::new(),
        };
        let value = json(&[run], &[findings]);
        let of = |key: &str| value["servers"][0][key].as_f64().unwrap();
        let keys = ["questions", "silent", "wrong", "upstream_per_name", "cpu_us_per_name"];
        assert_eq!(keys.map(of), [4.0, 4.0, 1.0, 2.5, 500.0]);
        assert_eq!([of("p50_ms"), of("p99_ms")], [30.0, 5500.0]);
    }
}
