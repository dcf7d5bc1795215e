//! The page `docs/manual/performance.md` and its pictures, written from a result of `bench peers`.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use super::peer::{Kind, Peer};
use super::report::Report;
use super::svg::{self, Marks, Row, Standing};
use super::workload::{Measure, Workload};
use super::{goals, table};

const PAGE: &str = "docs/manual/performance.md";
const PICTURES: &str = "docs/manual/pictures";
/// The root of the repository, relative to the page.
const UP: &str = "../..";
/// With fewer rounds a median means little.
const FEW_ROUNDS: u64 = 3;
/// The text around the figures of the page.
const TEXT: &str = include_str!("page.txt");

/// Writes the page for a result, given by its path relative to the root.
pub(super) fn write(result: &str) -> Result<(), String> {
    let root = crate::root();
    let said = |path: &str| {
        let path = path.to_owned();
        move |error: std::io::Error| format!("{path}: {error}")
    };
    let text = fs::read_to_string(root.join(result)).map_err(said(result))?;
    let document: Value =
        serde_json::from_str(&text).map_err(|error| format!("{result}: {error}"))?;
    let report =
        Report::parse(&document["result"]).map_err(|error| format!("{result}: {error}"))?;
    fs::create_dir_all(root.join(PICTURES)).map_err(said(PICTURES))?;
    for (name, picture) in pictures(&report) {
        let path = format!("{PICTURES}/{name}.svg");
        fs::write(root.join(&path), picture).map_err(said(&path))?;
    }
    fs::write(root.join(PAGE), page(result, &document, &report)).map_err(said(PAGE))?;
    println!("written: {PAGE}");
    Ok(())
}

fn page(result: &str, document: &Value, report: &Report) -> String {
    let source =
        format!("From [{}]({UP}/{result}).\n", result.rsplit('/').next().unwrap_or(result));
    let values = [
        ("SOURCE", source.clone()),
        ("MACHINE", machine(document)),
        ("SUMMARY", table::summary(report).markdown()),
        ("GOALS", goals::table(report).markdown()),
        ("WORKLOADS", workloads(report, &source)),
        ("VERSIONS", versions(document)),
        ("LEFT-OUT", left_out(report)),
    ];
    values
        .iter()
        .fold(TEXT.to_owned(), |text, (word, value)| text.replace(&format!("%{word}%\n"), value))
}

/// The date and the machine of a measurement.
fn machine(document: &Value) -> String {
    let (machine, text) =
        (&document["machine"], |value: &Value| value.as_str().unwrap_or("unknown").to_owned());
    let samples = document["result"]["samples"].as_array();
    let rounds = samples
        .into_iter()
        .flatten()
        .filter_map(|sample| sample["round"].as_u64())
        .max()
        .unwrap_or(0);
    let trial = if rounds < FEW_ROUNDS {
        " Fewer than three rounds: this is only a trial of the bench."
    } else {
        ""
    };
    format!(
        "Measured on {} at commit `{}` by\n`{}`:\n{rounds} round{}, on {} cores of {}, Linux \
         {}.{trial}\n",
        text(&document["date"]),
        text(&document["commit"]),
        text(&document["command"]),
        if rounds == 1 { "" } else { "s" },
        machine["cores"],
        text(&machine["cpu"]),
        text(&machine["kernel"]),
    )
}

/// One section per workload: picture, table, source.
fn workloads(report: &Report, source: &str) -> String {
    let mut text = String::new();
    for workload in Workload::ALL.iter().copied() {
        let Some(table) = table::detail(report, workload) else {
            continue;
        };
        let (title, name) = (workload.title(), workload.name());
        let _ = write!(text, "### {title}\n\n");
        if has_picture(workload) {
            let _ = write!(text, "![{title}](pictures/{name}.svg)\n\n");
        }
        let _ = write!(text, "{}\n{source}\n", table.markdown());
    }
    text.trim_end().to_owned() + "\n"
}

fn versions(document: &Value) -> String {
    let versions = document["versions"].as_object().into_iter().flatten();
    let lines = versions
        .map(|(name, version)| format!("- {name}: {}\n", version.as_str().unwrap_or("unknown")));
    lines.collect()
}

fn left_out(report: &Report) -> String {
    // The first line of a reason says what went wrong; the rest is a log.
    let line = |what: String, reason: &str| {
        format!("- {what}: {}\n", reason.lines().next().unwrap_or_default())
    };
    let failures = report.failures.iter().map(|failure| {
        line(format!("{}, {}", failure.peer.name(), failure.workload.name()), &failure.reason)
    });
    let missing = report
        .left_out
        .iter()
        .map(|left_out| line(left_out.peer.name().to_owned(), &left_out.reason));
    let text: String = missing.chain(failures).collect();
    if text.is_empty() {
        "Nothing was left out.\n".to_owned()
    } else {
        format!("Left out of this run:\n\n{text}")
    }
}

/// The two memory workloads, and the two kinds of hits, are too similar for separate pictures.
fn has_picture(workload: Workload) -> bool {
    !matches!(workload, Workload::HotEdns | Workload::MemorySmall)
}

/// The pictures and their file names.
fn pictures(report: &Report) -> Vec<(&'static str, String)> {
    let drawn = Workload::ALL.iter().copied().filter(|workload| has_picture(*workload));
    drawn.filter_map(|workload| Some((workload.name(), picture(report, workload)?))).collect()
}

/// `None` if nothing was measured.
fn picture(report: &Report, workload: Workload) -> Option<String> {
    let rows: Vec<_> = table::ranked(report, workload)
        .into_iter()
        .filter_map(|(peer, spread)| {
            let latency = |value: fn(super::load::Latency) -> f64| {
                Some(report.spread(peer, workload, |sample| sample.load.latency.map(value))?.median)
            };
            let marks = match workload.measure() {
                Measure::Latency => Marks::Dots([
                    latency(|latency| latency.p50_us)?,
                    latency(|latency| latency.p99_us)?,
                    latency(|latency| latency.p999_us)?,
                ]),
                _ => Marks::Bar(spread),
            };
            Some(Row { label: peer.name().to_owned(), standing: standing(peer), marks })
        })
        .collect();
    let (unit, digits) = match workload.measure() {
        Measure::Cpu => ("CPU microseconds per answer", 2),
        Measure::Latency => ("p50 / p99 / p99.9 in microseconds", 0),
        Measure::Memory => ("bytes per name", 0),
    };
    (!rows.is_empty())
        .then(|| svg::picture(&format!("{}: {unit}", workload.title()), &rows, digits))
}

fn standing(peer: Peer) -> Standing {
    match peer.kind() {
        _ if peer == Peer::Avocet => Standing::Ours,
        Kind::Floor => Standing::Limit,
        _ => Standing::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::sample;

    #[test]
    fn a_page_has_its_figures_and_their_source() {
        let samples = vec![
            sample(Peer::Bare, Workload::Hot, 1, 2.0),
            sample(Peer::Avocet, Workload::Hot, 1, 2.2),
        ];
        let mut report = Report { samples, ..Report::default() };
        report.fail(Peer::Nsd, Workload::Hot, "wrong answers\nlog".to_owned());
        let document = serde_json::json!({
            "commit": "abc", "date": "2026-01-02", "command": "cargo xtask bench peers",
            "machine": { "cpu": "C", "cores": 2, "kernel": "6.1" }, "versions": { "nsd": "NSD 4" },
            "result": { "samples": [{ "round": 1 }] },
        });
        let page = page("bench/results/r.json", &document, &report);
        for part in [
            "[r.json](../../bench/results/r.json)",
            "| avocet | 2.20 |",
            "![Cached names over UDP](pictures/hot.svg)",
            "commit `abc`",
            "1 round, on 2 cores of C",
            "only a trial of the bench",
            "- nsd, hot: wrong answers\n",
            "- nsd: NSD 4\n",
            "<= 1.10 x bare",
        ] {
            assert!(page.contains(part), "{part} is not in\n{page}");
        }
        assert!(!page.contains('%') || !page.lines().any(|line| line.starts_with('%')), "{page}");
    }

    #[test]
    fn the_limit_and_our_row_are_highlighted() {
        let samples = vec![
            sample(Peer::Bare, Workload::Hot, 1, 2.0),
            sample(Peer::Avocet, Workload::Hot, 1, 2.2),
        ];
        let report = Report { samples, ..Report::default() };
        let pictures = pictures(&report);
        assert_eq!(pictures.len(), 1);
        let (name, svg) = &pictures[0];
        assert!(
            *name == "hot" && svg.contains("class=\"ours\"") && svg.contains("class=\"limit\""),
            "{svg}"
        );
    }
}
