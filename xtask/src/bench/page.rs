//! The documents that show a result: README, the page `docs/manual/performance.md` and its
//! pictures.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::peer::{Kind, Peer};
use super::publication::{self, Publication, RESULTS, item, wrapped};
use super::report::Report;
use super::svg::{self, Marks, Row, Standing};
use super::workload::{Measure, Workload};
use super::{goals, readme, table};

const PAGE: &str = "docs/manual/performance.md";
const PICTURES: &str = "docs/manual/pictures";
/// The root of the repository, relative to the page.
const UP: &str = "../../";
/// The text around the figures of the page.
const TEXT: &str = include_str!("page.txt");

/// Writes the documents of a result below a directory. The path of the result is relative to it.
///
/// # Errors
///
/// The result cannot be read, or a document cannot be written.
pub(super) fn write(result: &str, root: &Path) -> Result<(), String> {
    let read = |place: PathBuf| {
        fs::read_to_string(&place).map_err(|error| format!("{}: {error}", place.display()))
    };
    let (text, readme) = (read(root.join(result))?, read(crate::root().join(readme::FILE))?);
    for (path, text) in documents(result, &text, &readme)? {
        let place = root.join(&path);
        let directory = place.parent().unwrap_or(root);
        fs::create_dir_all(directory)
            .and_then(|()| fs::write(&place, text))
            .map_err(|error| format!("{path}: {error}"))?;
    }
    println!("written: {} and {}", root.join(readme::FILE).display(), root.join(PAGE).display());
    Ok(())
}

/// Writes the documents for the newest result of the kind that they show. Without such a result,
/// uses the one that README links to.
///
/// # Errors
///
/// There is no result, or a document cannot be written.
pub(super) fn write_newest() -> Result<(), String> {
    let root = crate::root();
    let failed = |error: io::Error| format!("{RESULTS}: {error}");
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join(RESULTS)).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        let text = fs::read_to_string(root.join(RESULTS).join(&name)).map_err(failed)?;
        files.push((format!("{RESULTS}{name}"), text));
    }
    let readme = fs::read_to_string(root.join(readme::FILE)).map_err(failed)?;
    let results: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let (path, _) = shown(&results, &readme).ok_or("no result is meant for the documents")?;
    write(path, &root)
}

/// Returns the result that the documents must show: the newest of the kind that they show. Without
/// such a result, returns the one that README links to.
pub(crate) fn shown<'a>(
    results: &[(&'a str, &'a str)],
    readme: &str,
) -> Option<(&'a str, &'a str)> {
    let source = readme::source(readme)?;
    let linked = || results.iter().copied().find(|(path, _)| *path == source);
    publication::newest(results.iter().copied()).or_else(linked)
}

/// Returns the documents that show a result, with their paths: the page, its pictures and README.
///
/// # Errors
///
/// The text is not a result, or README has no place for figures.
pub(crate) fn documents(
    result: &str,
    text: &str,
    readme: &str,
) -> Result<Vec<(String, String)>, String> {
    let publication = Publication::parse(result, text)?;
    let pictures = pictures(&publication.report)
        .into_iter()
        .map(|(name, picture)| (format!("{PICTURES}/{name}.svg"), picture));
    let mut documents: Vec<_> = pictures.collect();
    documents.push((PAGE.to_owned(), page(&publication)));
    documents.push((readme::FILE.to_owned(), readme::with_figures(readme, &publication)?));
    Ok(documents)
}

fn page(publication: &Publication) -> String {
    let report = &publication.report;
    let source = format!("From {}.\n", publication.link(UP));
    let machine = [Some(publication.origin()), publication.noise()];
    let machine = machine.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let versions = publication.versions().into_iter().map(|line| item(&line));
    let values = [
        ("SOURCE", source.clone()),
        ("MACHINE", wrapped(&machine)),
        ("SUMMARY", table::summary(report).markdown()),
        ("COUNTS", counts(report)),
        ("GOALS", goals::table(report).markdown()),
        ("WORKLOADS", workloads(report, &source)),
        ("VERSIONS", versions.collect()),
        ("LEFT-OUT", left_out(report)),
    ];
    values
        .iter()
        .fold(TEXT.to_owned(), |text, (word, value)| text.replace(&format!("%{word}%\n"), value))
}

fn counts(report: &Report) -> String {
    match table::counts(report) {
        table if table.is_empty() => "This run counted no instructions and calls.\n".to_owned(),
        table => table.markdown(),
    }
}

/// The sentence behind the source of each table.
const COLUMNS: &str = "The [introduction](#workload-by-workload) explains the columns.\n";

/// Returns one section per workload: its picture, its table and its source.
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
        let _ = write!(text, "{}\n{source}\n{COLUMNS}\n", table.markdown());
    }
    text.trim_end().to_owned() + "\n"
}

fn left_out(report: &Report) -> String {
    // The first line of a reason states the problem; the rest is a log.
    let line = |what: String, reason: &str| {
        item(&format!("{what}: {}", reason.lines().next().unwrap_or_default()))
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

/// Returns whether the workload has its own picture. The two memory workloads are too similar for
/// separate pictures, and so are the workloads of cached names with and without EDNS.
fn has_picture(workload: Workload) -> bool {
    !matches!(workload, Workload::HotEdns | Workload::MemorySmall)
}

/// Returns the pictures and their file names.
fn pictures(report: &Report) -> Vec<(&'static str, String)> {
    let drawn = Workload::ALL.iter().copied().filter(|workload| has_picture(*workload));
    drawn.filter_map(|workload| Some((workload.name(), picture(report, workload)?))).collect()
}

/// Returns the picture of a workload, or `None` if nothing was measured.
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
        Measure::Resident => ("PSS in megabytes", 1),
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
        let calls = vec![(Peer::Avocet, 0.25)];
        let mut report = Report { samples, calls, ..Report::default() };
        report.fail(Peer::Nsd, Workload::Hot, "wrong answers\nlog".to_owned());
        let result: serde_json::Value = serde_json::from_str(&report.json().to_string()).unwrap();
        let document = serde_json::json!({
            "commit": "abc", "date": "2026-01-02", "command": "cargo xtask bench publish",
            "machine": { "cpu": "C", "cores": 2, "kernel": "6.1" }, "versions": { "nsd": "NSD 4" },
            "result": result,
        });
        let publication =
            Publication::parse("bench/results/r.json", &document.to_string()).unwrap();
        let page = page(&publication);
        for part in [
            "[r.json](../../bench/results/r.json)",
            "| avocet | 2.20 |",
            "| avocet | - | 0.25 |",
            "![Cached names over UDP](pictures/hot.svg)",
            "commit `abc`",
            "1 round, on 2 cores of C",
            "only a trial of the bench",
            "- nsd, hot: wrong answers\n",
            "- nsd: NSD 4\n",
            "<= 1.10 x bare",
        ] {
            let part = part.replace(' ', "\n");
            assert!(page.replace(' ', "\n").contains(&part), "{part} is not in\n{page}");
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
