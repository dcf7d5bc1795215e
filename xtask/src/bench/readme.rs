//! The figures of `README.md` between two markers. They come from one result.

use super::peer::Peer;
use super::publication::{Publication, wrapped};
use super::report::{Counts, Report, Sample, Spread};
use super::workload::{Measure, Workload};

pub(super) const FILE: &str = "README.md";

const BEGIN: &str = "<!-- figures: written by `cargo xtask bench page`, do not edit -->\n";
const END: &str = "<!-- end of figures -->\n";

/// The servers of the table, in the order of its columns.
pub(super) const COLUMNS: &[Peer] =
    &[Peer::Avocet, Peer::Bare, Peer::Nsd, Peer::Unbound, Peer::Dnsdist];

/// The figure of a row.
#[derive(Clone, Copy)]
enum Figure {
    /// The headline figure of a workload.
    Headline(Workload),
    /// CPU microseconds per answer at 20,000 queries per second. Older results contain the figure
    /// only in the workload that measures latency.
    Steady,
    /// Seconds from the start of the server to its first right answer in a workload.
    Ready(Workload),
    /// User instructions per cached query.
    Instructions,
    /// System calls per query that no cache answers.
    Calls,
}

const ROWS: &[(&str, Figure)] = &[
    ("hit over UDP, full load", Figure::Headline(Workload::Hot)),
    ("hit over UDP with EDNS, full load", Figure::Headline(Workload::HotEdns)),
    ("hit over UDP at 5,000 queries/s", Figure::Headline(Workload::HitSlow)),
    ("hit over UDP at 20,000 queries/s", Figure::Steady),
    ("hit over UDP at half of its capacity", Figure::Headline(Workload::HitHalf)),
    ("hit over TCP, pipelined, full load", Figure::Headline(Workload::Tcp)),
    ("miss, forwarded, full load", Figure::Headline(Workload::Miss)),
    ("Zipf mix from a cold start", Figure::Headline(Workload::Zipf)),
    ("hit, with a block list of 500,000 names", Figure::Headline(Workload::Unlisted)),
    ("blocked name, the same list", Figure::Headline(Workload::Blocked)),
    ("seconds to the first answer with that list", Figure::Ready(Workload::Blocked)),
    ("bytes of memory per cached name, 1 M names", Figure::Headline(Workload::Memory)),
    ("user instructions per hit", Figure::Instructions),
    ("system calls per miss", Figure::Calls),
];

/// Returns the workloads of the rows.
pub(super) fn workloads() -> Vec<Workload> {
    let mut found = Vec::new();
    for (_, figure) in ROWS {
        let workload = match figure {
            Figure::Headline(workload) | Figure::Ready(workload) => *workload,
            Figure::Steady => Workload::HitSteady,
            Figure::Instructions | Figure::Calls => continue,
        };
        if !found.contains(&workload) {
            found.push(workload);
        }
    }
    found
}

/// Returns the text of `README.md` with the figures of a result.
///
/// # Errors
///
/// The markers are missing.
pub(super) fn with_figures(readme: &str, publication: &Publication) -> Result<String, String> {
    let parts = readme.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) = parts.ok_or("README.md has no markers for the figures")?;
    Ok(format!("{before}{BEGIN}{}{END}{after}", block(publication)))
}

/// Returns the path of the result that the figures link to, or `None` if there are no figures.
pub(super) fn source(readme: &str) -> Option<&str> {
    let figures = readme.split_once(BEGIN)?.1.split_once(END)?.0;
    let (_, target) = figures.split_once("](")?;
    target.split(')').next()
}

fn block(publication: &Publication) -> String {
    let origin = wrapped(&format!("{} Source: {}.", publication.origin(), publication.link("")));
    let versions = publication.versions().join("; ");
    format!("\n{origin}\n{}\n{}\n", table(publication), wrapped(&format!("Versions: {versions}.")))
}

fn table(publication: &Publication) -> String {
    let head = |peer: &Peer| match publication.version_number(*peer) {
        Some(version) => format!("{} {version}", title(*peer)),
        None => title(*peer).to_owned(),
    };
    let heads: Vec<_> = COLUMNS.iter().map(head).collect();
    let mut text = format!("| | {} |\n|---|{}\n", heads.join(" | "), "---|".repeat(COLUMNS.len()));
    for (title, figure) in ROWS {
        let cells: Vec<_> =
            COLUMNS.iter().map(|peer| cell(&publication.report, *peer, *figure)).collect();
        if cells.iter().any(|cell| cell != NONE) {
            text += &format!("| {title} | {} |\n", cells.join(" | "));
        }
    }
    text
}

/// The text of a cell for a server that was not measured.
const NONE: &str = "-";

fn title(peer: Peer) -> &'static str {
    match peer {
        Peer::Avocet => "Avocet",
        Peer::Nsd => "NSD",
        Peer::Unbound => "Unbound",
        other => other.name(),
    }
}

/// Returns the cell of a figure, which contains the median. For Avocet, it also contains the range.
/// For other servers, it also contains the ratio of Avocet to the server, with the range of the
/// ratio.
fn cell(report: &Report, peer: Peer, figure: Figure) -> String {
    let (workload, value): (_, fn(&Sample) -> f64) = match figure {
        Figure::Instructions => return count(&report.instructions, peer, 0),
        Figure::Calls => return count(&report.calls, peer, 2),
        Figure::Headline(workload) => (workload, Sample::figure),
        Figure::Steady if report.figure(peer, Workload::HitSteady).is_some() => {
            (Workload::HitSteady, Sample::figure)
        }
        Figure::Steady => (Workload::Latency, |sample| sample.cpu_us),
        Figure::Ready(workload) => (workload, |sample| sample.ready_secs),
    };
    let Some(spread) = report.spread(peer, workload, |sample| Some(value(sample))) else {
        return NONE.to_owned();
    };
    let is_memory = workload.measure() == Measure::Memory && matches!(figure, Figure::Headline(_));
    let digits = if is_memory { 0 } else { 2 };
    let ranged = |spread: Spread, digits: usize| match spread {
        Spread { median, least, most } if least < most => {
            (format!("{median:.digits$}"), format!("{least:.digits$}-{most:.digits$}"))
        }
        Spread { median, .. } => (format!("{median:.digits$}"), String::new()),
    };
    let (median, range) = ranged(spread, digits);
    let ratios = report.ratios_of((Peer::Avocet, workload), (peer, workload), value);
    let brackets = match Spread::of(&ratios).filter(|_| peer != Peer::Avocet) {
        None => range,
        Some(ratio) => {
            let (median, range) = ranged(ratio, 2);
            if range.is_empty() { median } else { format!("{median}, {range}") }
        }
    };
    if brackets.is_empty() { median } else { format!("{median} ({brackets})") }
}

fn count(counts: &Counts, peer: Peer, digits: usize) -> String {
    let found = counts.iter().find(|(one, _)| *one == peer);
    found.map_or_else(|| NONE.to_owned(), |(_, count)| format!("{count:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publication() -> Publication {
        let sample = |peer: &str, round: u32, cpu_us: f64| {
            serde_json::json!({
                "peer": peer, "workload": "hot", "round": round, "cpu_us": cpu_us, "user_us": 1.0,
                "ready_secs": 0.5, "start_bytes": 1e6, "answered": 1000, "lost": 0, "per_sec": 1000.0,
            })
        };
        let document = serde_json::json!({
            "commit": "abc", "date": "2026-01-02", "command": "cargo xtask bench publish",
            "machine": { "cpu": "C", "cores": 2, "kernel": "6.1", "system": "Debian 12" },
            "versions": { "nsd": "NSD version 4.6.1" },
            "packages": { "nsd": { "package": "nsd 4.6.1-1", "since": "2022-11" } },
            "result": {
                "samples": [
                    sample("avocet", 1, 2.0), sample("nsd", 1, 4.0),
                    sample("avocet", 2, 3.0), sample("nsd", 2, 4.0),
                ],
                "instructions": { "avocet": 1711.2 },
            },
        });
        Publication::parse("bench/results/r.json", &document.to_string()).unwrap()
    }

    #[test]
    fn the_figures_replace_those_between_the_markers() {
        let readme = format!("# A\n{BEGIN}old\n{END}## B\n");
        let text = with_figures(&readme, &publication()).unwrap();
        assert!(text.starts_with("# A\n") && text.ends_with("## B\n") && !text.contains("old"));
        for part in [
            "Measured on 2026-01-02 at commit `abc` by `cargo xtask bench publish`: 2 rounds, on",
            "| | Avocet | bare | NSD 4.6.1 | Unbound | dnsdist |\n",
            "| hit over UDP, full load | 2.50 (2.00-3.00) | - | 4.00 (0.62, 0.50-0.75) | - | - |\n",
            "| user instructions per hit | 1711 | - | - | - | - |\n",
            "nsd: NSD version 4.6.1 (package nsd 4.6.1-1; this version is in Debian since 2022-11)",
        ] {
            assert!(text.replace('\n', " ").contains(&part.replace('\n', " ")), "{part}\n{text}");
        }
        assert!(!text.contains("over TCP"), "a row without figures is shown:\n{text}");
        assert_eq!(source(&text), Some("bench/results/r.json"));
        assert_eq!(with_figures(&text, &publication()).as_deref(), Ok(text.as_str()));
    }

    #[test]
    fn a_readme_without_markers_is_refused() {
        assert!(with_figures("# A\n", &publication()).is_err());
        assert_eq!(source("# A\n[x](bench/results/r.json)\n"), None);
    }
}
