//! A stored result in the form that the documents show: the place, the time and the machine of the
//! measurement, and the versions.

use std::path::Path;

use serde_json::Value;

use super::peer::Peer;
use super::report::Report;
use super::workload::{Measure, Workload};

/// The kind of the results that the documents show.
pub(super) const KIND: &str = "publish";
/// The results of all benches, relative to the root.
pub(super) const RESULTS: &str = "bench/results/";

/// Number of rounds below which a median means little.
const FEW_ROUNDS: usize = 3;

/// A result with its description.
pub(super) struct Publication {
    /// The path of the result relative to the root.
    path: String,
    document: Value,
    pub(super) report: Report,
}

impl Publication {
    /// Parses a result.
    ///
    /// # Errors
    ///
    /// The text is not a result. The error says why.
    pub(super) fn parse(path: &str, text: &str) -> Result<Self, String> {
        let failed = |error: String| format!("{path}: {error}");
        let document: Value =
            serde_json::from_str(text).map_err(|error| failed(error.to_string()))?;
        let report = Report::parse(&document["result"]).map_err(failed)?;
        Ok(Self { path: path.to_owned(), document, report })
    }

    fn text(&self, key: &str) -> &str {
        self.document[key].as_str().unwrap_or("unknown")
    }

    fn of_machine(&self, key: &str) -> Option<&str> {
        self.document["machine"][key].as_str()
    }

    /// Returns a link from a document to the file of the result. `up` is the path from the document
    /// to the root.
    pub(super) fn link(&self, up: &str) -> String {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        format!("[{name}]({up}{})", self.path)
    }

    /// Returns a sentence with the date, the commit, the command, the rounds and the machine.
    pub(super) fn origin(&self) -> String {
        let trial = if self.rounds().1 < FEW_ROUNDS {
            " Fewer than three rounds: this is only a trial of the bench."
        } else {
            ""
        };
        let further =
            self.document["runs"].as_array().map_or(0, |runs| runs.len().saturating_sub(1));
        let runs = match further {
            0 => String::new(),
            1 => " and once more, pooled by `bench pool`".to_owned(),
            more => format!(" and {more} times more, pooled by `bench pool`"),
        };
        let system = self.of_machine("system").map(|system| format!("{system}, "));
        format!(
            "Measured on {} at commit `{}` by `{}`{runs}: {}, on {} cores of {}, {}Linux {}.{trial}",
            self.text("date"),
            self.text("commit"),
            self.text("command"),
            self.rounds_text(),
            self.document["machine"]["cores"],
            self.of_machine("cpu").unwrap_or("an unknown CPU"),
            system.unwrap_or_default(),
            self.of_machine("kernel").unwrap_or("unknown"),
        )
    }

    /// Returns the smallest and the largest number of rounds among all timed pairs of a peer and a
    /// workload.
    fn rounds(&self) -> (usize, usize) {
        let pairs = Peer::ALL.iter().flat_map(|peer| {
            Workload::ALL
                .iter()
                .filter(|workload| {
                    !matches!(workload.measure(), Measure::Memory | Measure::Resident)
                })
                .map(|workload| {
                    let samples = self.report.samples.iter();
                    samples
                        .filter(|sample| (sample.peer, sample.workload) == (*peer, *workload))
                        .count()
                })
        });
        let counts: Vec<usize> = pairs.filter(|rounds| *rounds > 0).collect();
        let (least, most) = (counts.iter().min(), counts.iter().max());
        (least.copied().unwrap_or(0), most.copied().unwrap_or(0))
    }

    fn rounds_text(&self) -> String {
        match self.rounds() {
            (_, 1) => "1 round".to_owned(),
            (least, most) if least == most => format!("{most} rounds"),
            (least, most) => format!("{least} to {most} rounds"),
        }
    }

    /// Returns a sentence about the disturbances of the run, or `None` if the result does not have
    /// them.
    pub(super) fn noise(&self) -> Option<String> {
        let noises: Vec<_> = self.report.samples.iter().filter_map(|sample| sample.noise).collect();
        let largest = |value: fn(&super::noise::Noise) -> f64| {
            noises.iter().map(value).max_by(f64::total_cmp)
        };
        let sum = |value: fn(&super::noise::Noise) -> f64| noises.iter().map(value).sum::<f64>();
        Some(format!(
            "During the {} samples the hypervisor took {:.2} s from the core of the servers (at \
             most {:.2} s in one sample), `ksoftirqd` used {:.2} s there (at most {:.2} s), and \
             the load average was at most {:.1}.",
            noises.len(),
            sum(|noise| noise.steal_secs),
            largest(|noise| noise.steal_secs)?,
            sum(|noise| noise.ksoftirqd_secs),
            largest(|noise| noise.ksoftirqd_secs)?,
            largest(|noise| noise.load_average)?,
        ))
    }

    /// Returns the version number of a measured peer, such as `4.6.1`.
    pub(super) fn version_number(&self, peer: Peer) -> Option<&str> {
        version_number(self.document["versions"][peer.name()].as_str()?)
    }

    /// Returns one line per peer: its name, version, package and remarks.
    pub(super) fn versions(&self) -> Vec<String> {
        let versions = self.document["versions"].as_object().into_iter().flatten();
        let line = |(name, version): (&String, &Value)| {
            let package = &self.document["packages"][name];
            let parts = ["package", "since", "remark"].map(|key| package[key].as_str());
            let details: Vec<String> = match parts {
                [package, since, remark] => [
                    package.map(|package| format!("package {package}")),
                    since.map(|since| format!("this version is in Debian since {since}")),
                    remark.map(str::to_owned),
                ],
            }
            .into_iter()
            .flatten()
            .collect();
            let version = version.as_str().unwrap_or("unknown");
            match details.is_empty() {
                true => format!("{name}: {version}"),
                false => format!("{name}: {version} ({})", details.join("; ")),
            }
        };
        versions.map(line).collect()
    }
}

/// Returns the first number with a dot in the output of `--version`.
fn version_number(text: &str) -> Option<&str> {
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    text.split(|c| !is_part(c))
        .map(|number| number.trim_matches('.'))
        .find(|number| number.contains('.'))
}

/// Returns the newest of the results whose kind the documents show, by the time in their names.
pub(super) fn newest<'a>(
    results: impl Iterator<Item = (&'a str, &'a str)>,
) -> Option<(&'a str, &'a str)> {
    let ending = format!("-{KIND}.json");
    let published =
        results.filter(|(path, _)| path.starts_with(RESULTS) && path.ends_with(&ending));
    published.max_by_key(|(path, text)| {
        let document: Value = serde_json::from_str(text).unwrap_or_default();
        (document["time"].as_str().unwrap_or_default().to_owned(), *path)
    })
}

/// Returns the commit in the name of a result, or `None` if the path is not that of a result.
pub(crate) fn commit_of(path: &str) -> Option<&str> {
    let name = Path::new(path.strip_prefix(RESULTS)?).file_stem()?.to_str()?;
    // The name has the form YYYY-MM-DD-COMMIT-KIND.
    name.split('-').nth(3)
}

/// Returns a paragraph in lines of at most 100 columns.
pub(super) fn wrapped(text: &str) -> String {
    filled(text, "")
}

/// Returns an item of a list, in lines of at most 100 columns.
pub(super) fn item(text: &str) -> String {
    filled(&format!("- {text}"), "  ")
}

/// Fills lines of at most 100 columns. `indent` precedes all lines except the first.
fn filled(text: &str, indent: &str) -> String {
    const COLUMNS: usize = 100;
    let (mut lines, mut columns) = (String::new(), 0);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if columns > 0 && columns + 1 + length > COLUMNS {
            lines.push('\n');
            lines.push_str(indent);
            columns = indent.len();
        } else if columns > 0 {
            lines.push(' ');
            columns += 1;
        }
        lines.push_str(word);
        columns += length;
    }
    lines + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_shown_by_its_number() {
        for (text, number) in [
            ("NSD version 4.6.1", Some("4.6.1")),
            ("knotd (Knot DNS), version 3.2.6", Some("3.2.6")),
            ("dnsdist 1.7.3 (Lua 5.1.4 [LuaJIT 2.1.0-beta3])", Some("1.7.3")),
            ("BIND 9.18.49-1~deb12u3-Debian", Some("9.18.49")),
            ("CoreDNS-1.15.0", Some("1.15.0")),
            ("kresd", None),
        ] {
            assert_eq!(version_number(text), number, "{text}");
        }
    }

    #[test]
    fn the_newest_publication_is_the_latest_by_time() {
        let results = [
            ("bench/results/2026-01-02-b-publish.json", r#"{"time": "2026-01-02T09:00:00Z"}"#),
            ("bench/results/2026-01-02-a-publish.json", r#"{"time": "2026-01-02T10:00:00Z"}"#),
            ("bench/results/2026-01-03-c-peers.json", r#"{"time": "2026-01-03T10:00:00Z"}"#),
        ];
        assert_eq!(newest(results.into_iter()), Some(results[1]));
        assert_eq!(newest(results[2..].iter().copied()), None);
    }

    #[test]
    fn the_commit_of_a_result_is_in_its_name() {
        let of = |name: &str| commit_of(&format!("bench/results/{name}")).map(str::to_owned);
        assert_eq!(of("2026-01-02-0a1b2c3-peers.json").as_deref(), Some("0a1b2c3"));
        assert_eq!(of("2026-01-02-0a1b2c3-changed-micro.md").as_deref(), Some("0a1b2c3"));
        assert_eq!(commit_of("bench/README.md"), None);
    }

    #[test]
    fn a_paragraph_is_wrapped_between_words() {
        let text = wrapped(&"word ".repeat(30));
        assert!(text.lines().all(|line| line.len() <= 100) && text.lines().count() == 2, "{text}");
    }
}
