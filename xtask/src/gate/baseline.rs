//! Stored instruction counts and their comparison.

use std::fmt::Write as _;

/// Increase, in per cent of the stored count, above which a count is a regression.
pub(super) const LIMIT_PERCENT: f64 = 3.0;

const HEAD: &str = "\
# Instructions of one repetition of each operation, counted by callgrind.
# `cargo xtask gate` holds a build against them, `cargo xtask gate --update` writes them anew.
";
const COUNTS: &str = "[instructions]";

/// Counts, and the environment in which they were made.
#[derive(Debug, PartialEq)]
pub(super) struct Baseline {
    /// The names and values of the environment: the compiler, the architecture and so on.
    pub(super) surroundings: Vec<(String, String)>,
    /// The name of each operation, and the number of instructions of one repetition.
    pub(super) counts: Vec<(String, f64)>,
}

/// The comparison of an operation with its stored count.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// Both the stored and the current count are known.
    Compared {
        /// The name of the operation.
        name: String,
        /// The stored number of instructions.
        kept: f64,
        /// The current number of instructions.
        found: f64,
    },
    /// There is a current count but no stored one.
    Unknown(String, f64),
    /// There is a stored count but no current one.
    Gone(String),
}

impl Baseline {
    /// Returns the text of the file with these counts.
    pub(super) fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        for (key, value) in &self.surroundings {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{key} = \"{value}\"");
        }
        let _ = writeln!(text, "\n{COUNTS}");
        for (name, count) in &self.counts {
            let _ = writeln!(text, "\"{name}\" = {count:.1}");
        }
        text
    }

    /// Parses the output of [`Baseline::text`].
    ///
    /// # Errors
    ///
    /// A line is malformed. The error names it.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut baseline = Self { surroundings: Vec::new(), counts: Vec::new() };
        let mut in_counts = false;
        for (number, line) in (1..).zip(text.lines()) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line == COUNTS {
                in_counts = true;
                continue;
            }
            let wrong = || format!("line {number} of the kept counts is not `key = value`: {line}");
            let (key, value) = line.split_once(" = ").ok_or_else(wrong)?;
            let (key, value) = (key.trim_matches('"').to_owned(), value.trim_matches('"'));
            if in_counts {
                baseline.counts.push((key, value.parse().map_err(|_| wrong())?));
            } else {
                baseline.surroundings.push((key, value.to_owned()));
            }
        }
        Ok(baseline)
    }

    /// Compares each operation with its stored count, and lists stored operations that no longer
    /// exist.
    pub(super) fn against(&self, kept: &Self) -> Vec<Verdict> {
        let beside = |(name, found): &(String, f64)| match kept.count(name) {
            Some(kept) => Verdict::Compared { name: name.clone(), kept, found: *found },
            None => Verdict::Unknown(name.clone(), *found),
        };
        let gone = kept.counts.iter().filter(|(name, _)| self.count(name).is_none());
        self.counts
            .iter()
            .map(beside)
            .chain(gone.map(|(name, _)| Verdict::Gone(name.clone())))
            .collect()
    }

    fn count(&self, name: &str) -> Option<f64> {
        self.counts.iter().find(|(other, _)| other == name).map(|(_, count)| *count)
    }
}

impl Verdict {
    /// Returns the name of the operation.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Compared { name, .. } | Self::Unknown(name, _) | Self::Gone(name) => name,
        }
    }

    /// Returns whether this verdict makes the gate fail.
    pub(super) fn is_refused(&self) -> bool {
        match self {
            Self::Compared { kept, found, .. } => *found > kept * (1.0 + LIMIT_PERCENT / 100.0),
            Self::Unknown(..) | Self::Gone(_) => true,
        }
    }

    /// Returns the verdict as a line of text.
    pub(super) fn line(&self) -> String {
        match self {
            Self::Compared { name, kept, found } => {
                let change = (found / kept - 1.0) * 100.0;
                let word = match change {
                    change if change > LIMIT_PERCENT => "  WORSE",
                    change if change < -LIMIT_PERCENT => "  better: keep it",
                    _ => "",
                };
                format!("{name:<34} {kept:>9.1} -> {found:>9.1}  {change:>+6.1} %{word}")
            }
            Self::Unknown(name, found) => {
                format!("{name:<34} {:>9} -> {found:>9.1}  NOT KEPT", "-")
            }
            Self::Gone(name) => format!("{name:<34} is kept and was not counted: GONE"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline(counts: &[(&str, f64)]) -> Baseline {
        Baseline {
            surroundings: vec![(
                "compiler".to_owned(),
                "rustc 1.95.0 (5980 2026-04-14)".to_owned(),
            )],
            counts: counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let written = baseline(&[("name read simple", 57.3), ("miss: submit and reply", 9000.0)]);
        assert_eq!(Baseline::parse(&written.text()).unwrap(), written);
        assert!(Baseline::parse("[instructions]\n\"a\" = many\n").unwrap_err().contains("line 2"));
    }

    #[test]
    fn worse_unknown_and_gone_are_refused() {
        let kept = baseline(&[("same", 100.0), ("better", 100.0), ("worse", 100.0), ("gone", 1.0)]);
        let found =
            baseline(&[("same", 103.0), ("better", 50.0), ("worse", 103.2), ("unknown", 1.0)]);
        let verdicts = found.against(&kept);
        let refused: Vec<_> =
            verdicts.iter().filter(|verdict| verdict.is_refused()).map(Verdict::name).collect();
        assert_eq!(refused, ["worse", "unknown", "gone"]);
    }
}
