//! A table of all servers, the reasons for their differences, and the unexplained differences.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::asking::Asked;
use super::authority::Queries;
use super::classes::Classes;
use super::compare::{self, Difference};
use super::link::Passed;
use super::message::Question;
use super::plan::Internet;

/// How many unexplained differences are printed for each server.
const SHOWN: usize = 12;
/// How many types of upstream queries are printed.
const TYPES_SHOWN: usize = 10;
/// A printed difference is cut at this length; the file has all of it.
const SHOWN_CHARS: usize = 300;

/// A server and its results.
pub(super) struct Run {
    pub(super) server: &'static str,
    pub(super) answers: Vec<Asked>,
    /// Queries at the name servers.
    pub(super) upstream_queries: Queries,
    /// Each of these queries in order, if there are links that record them.
    pub(super) passed: Vec<Passed>,
    pub(super) cpu_secs: f64,
}

/// The evaluation of a server's answers.
pub(super) struct Findings {
    server: &'static str,
    equal: usize,
    /// Number of differences by class.
    explained: BTreeMap<String, usize>,
    pub(super) unexplained: Vec<Difference>,
    /// Questions whose answers have AD set although they cannot be secure.
    pub(super) falsely_authentic: Vec<String>,
}

/// Compares a run with the votes of other servers.
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
    /// The differences by class, and some of the unexplained ones.
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

    /// All unexplained differences, one per line.
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

/// One row per server.
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
            percentile_ms(run, 50),
            percentile_ms(run, 99),
        );
    }
    text
}

/// The queries of each server to the name servers, by the most frequent types.
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

/// Each query of a server to the name servers, one per line: ms after the first one, destination,
/// question.
pub(super) fn passed(run: &Run) -> String {
    let Some(first) = run.passed.first() else { return String::new() };
    let line = |query: &Passed| {
        let after_ms = query.at.duration_since(first.at).as_millis();
        format!("{}\t{after_ms}\t{}\t{}\n", run.server, query.server, query.question)
    };
    run.passed.iter().map(line).collect()
}

/// The time within which this percentage of the questions was completed.
fn percentile_ms(run: &Run, percent: usize) -> f64 {
    let mut times: Vec<_> = run.answers.iter().map(|asked| asked.took).collect();
    times.sort_unstable();
    times.get(times.len() * percent / 100).map_or(0.0, |took| took.as_secs_f64() * 1000.0)
}
