//! The options of the benches.

use std::ops::RangeInclusive;

use super::load::Generator;
use super::peer::Peer;
use super::workload::Workload;

/// The measurements to make, and their duration.
#[derive(Clone)]
pub(super) struct Options {
    pub(super) peers: Vec<Peer>,
    pub(super) workloads: Vec<Workload>,
    /// A text that selects pairs: only pairs `peer/workload` that contain it are measured.
    pub(super) only: Option<String>,
    /// The minimum and maximum numbers of rounds. Benches without a rule for additional rounds run
    /// the minimum.
    pub(super) rounds: RangeInclusive<usize>,
    /// Time limit in minutes. Rounds beyond the minimum start only if they end within this time.
    pub(super) minutes: Option<u64>,
    pub(super) secs: u64,
    /// Number of hours for which the memory of a server is observed. `None` means some seconds.
    pub(super) hours: Option<f64>,
    pub(super) generator: Generator,
    pub(super) build: bool,
    /// Whether missing packages are installed first.
    pub(super) install: bool,
}

impl Options {
    /// Parses the words after the kind of bench.
    ///
    /// # Errors
    ///
    /// A word is wrong. The error says which one.
    pub(super) fn parse(words: &[&str]) -> Result<Self, String> {
        let peers =
            Peer::ALL.iter().copied().filter(|peer| !Peer::ON_REQUEST.contains(peer)).collect();
        let workloads = Workload::ALL.to_vec();
        let generator = Generator::Dnsperf;
        let all = Self {
            peers,
            workloads,
            only: None,
            rounds: 3..=10,
            minutes: None,
            secs: 5,
            hours: None,
            generator,
            build: true,
            install: false,
        };
        all.changed_by(words)
    }

    /// Parses the options of the two-minute bench. The words change its defaults.
    pub(super) fn parse_quick(words: &[&str]) -> Result<Self, String> {
        let (peers, workloads) = (Peer::QUICK.to_vec(), Workload::QUICK.to_vec());
        let quick = Self { peers, workloads, rounds: 2..=2, secs: 2, ..Self::parse(&[])? };
        quick.changed_by(words)
    }

    /// Parses the options of a bench that measures only these peers by default.
    pub(super) fn parse_for(peers: &[Peer], words: &[&str]) -> Result<Self, String> {
        Self { peers: peers.to_vec(), rounds: 5..=5, ..Self::parse(&[])? }.changed_by(words)
    }

    /// Changes the options by the words.
    ///
    /// # Errors
    ///
    /// A word is wrong. The error says which one.
    pub(super) fn changed_by(self, words: &[&str]) -> Result<Self, String> {
        let mut options = self;
        let mut rest = words.iter();
        while let Some(option) = rest.next() {
            let mut value =
                || rest.next().copied().ok_or_else(|| format!("{option} wants a value"));
            match *option {
                "--peers" => options.peers = list(value()?, Peer::named)?,
                "--workloads" => options.workloads = list(value()?, Workload::named)?,
                "--only" => options.only = Some(value()?.to_owned()),
                "--rounds" => options.rounds = rounds(value()?)?,
                "--minutes" => options.minutes = Some(positive(value()?)?),
                "--secs" => options.secs = positive(value()?)?,
                "--hours" => options.hours = Some(hours(value()?)?),
                "--generator" => options.generator = Generator::named(value()?)?,
                "--no-build" => options.build = false,
                "--install" => options.install = true,
                unknown => return Err(format!("there is no option {unknown}")),
            }
        }
        Ok(options)
    }

    /// Returns whether the options select this pair.
    pub(super) fn wants(&self, peer: Peer, workload: Workload) -> bool {
        let pair = format!("{}/{}", peer.name(), workload.name());
        peer.runs(workload) && self.only.as_ref().is_none_or(|only| pair.contains(only.as_str()))
    }
}

fn list<T>(value: &str, parse: fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    value.split(',').map(parse).collect()
}

/// Parses an exact number of rounds, or the minimum and the maximum as in `3-10`.
fn rounds(value: &str) -> Result<RangeInclusive<usize>, String> {
    match value.split_once('-') {
        None => positive(value).map(|rounds| rounds..=rounds),
        Some((least, most)) => Ok(positive(least)?..=positive(most)?),
    }
}

fn hours(value: &str) -> Result<f64, String> {
    let parsed = value.parse().ok().filter(|hours: &f64| *hours > 0.0 && hours.is_finite());
    parsed.ok_or_else(|| format!("`{value}` is no number of hours"))
}

fn positive<T: std::str::FromStr + Default + PartialEq>(value: &str) -> Result<T, String> {
    let parsed = value.parse().ok().filter(|number| *number != T::default());
    parsed.ok_or_else(|| format!("`{value}` is no positive number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_narrow_what_is_measured() {
        let options =
            Options::parse(&["--peers", "nsd,bare", "--only", "nsd/hot", "--rounds", "2"]).unwrap();
        assert_eq!(options.peers, [Peer::Nsd, Peer::Bare]);
        assert_eq!(options.rounds, 2..=2);
        assert!(options.wants(Peer::Nsd, Workload::HotEdns));
        assert_eq!(Options::parse(&["--hours", "0.5"]).unwrap().hours, Some(0.5));
        assert!(!options.wants(Peer::Nsd, Workload::Tcp));
        assert!(!options.wants(Peer::Bare, Workload::Hot));
    }

    #[test]
    fn rounds_are_a_number_or_a_range() {
        let rounds = |word| Options::parse(&["--rounds", word]).map(|options| options.rounds);
        assert_eq!(rounds("7"), Ok(7..=7));
        assert_eq!(rounds("4-12"), Ok(4..=12));
        assert!(rounds("4-").is_err() && rounds("0-3").is_err());
    }

    #[test]
    fn a_wrong_option_is_named() {
        for (words, word) in [
            (["--secs", "0"], "`0`"),
            (["--hours", "-1"], "`-1`"),
            (["--hours", "inf"], "`inf`"),
            (["--peers", "x"], "`x`"),
            (["--fast", "1"], "--fast"),
        ] {
            let error = Options::parse(&words).err().unwrap();
            assert!(error.contains(word), "{error}");
        }
    }
}
