//! The options of the benches.

use super::load::Generator;
use super::peer::Peer;
use super::workload::Workload;

/// What to measure, and how long.
pub(super) struct Options {
    /// The servers named on the command line; none if the bench is to choose.
    pub(super) peers: Option<Vec<Peer>>,
    pub(super) workloads: Vec<Workload>,
    /// Only pairs `peer/workload` that contain this are measured.
    pub(super) only: Option<String>,
    pub(super) rounds: usize,
    pub(super) secs: u64,
    pub(super) generator: Generator,
    pub(super) build: bool,
}

impl Options {
    /// Parses the words after the kind of bench; the error says which one is wrong.
    pub(super) fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            peers: None,
            workloads: Workload::ALL.to_vec(),
            only: None,
            rounds: 5,
            secs: 5,
            generator: Generator::Dnsperf,
            build: true,
        };
        let mut rest = words.iter();
        while let Some(option) = rest.next() {
            let mut value = || rest.next().copied().ok_or_else(|| format!("{option} wants a value"));
            match *option {
                "--peers" => options.peers = Some(list(value()?, Peer::named)?),
                "--workloads" => options.workloads = list(value()?, Workload::named)?,
                "--only" => options.only = Some(value()?.to_owned()),
                "--rounds" => options.rounds = positive(value()?)?,
                "--secs" => options.secs = positive(value()?)?,
                "--generator" => options.generator = Generator::named(value()?)?,
                "--no-build" => options.build = false,
                unknown => return Err(format!("there is no option {unknown}")),
            }
        }
        Ok(options)
    }

    /// The named peers, or those the bench measures when none are named.
    pub(super) fn peers_or(&self, default: &[Peer]) -> Vec<Peer> {
        self.peers.clone().unwrap_or_else(|| default.to_vec())
    }

    /// Whether this pair is to be measured.
    pub(super) fn wants(&self, peer: Peer, workload: Workload) -> bool {
        let pair = format!("{}/{}", peer.name(), workload.name());
        peer.runs(workload) && self.only.as_ref().is_none_or(|only| pair.contains(only.as_str()))
    }
}

fn list<T>(value: &str, parse: fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    value.split(',').map(parse).collect()
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
        let options = Options::parse(&["--peers", "nsd,bare", "--only", "nsd/hot", "--rounds", "2"]).unwrap();
        assert_eq!(options.peers_or(&[]), [Peer::Nsd, Peer::Bare]);
        assert_eq!(options.rounds, 2);
        assert!(options.wants(Peer::Nsd, Workload::HotEdns));
        assert!(!options.wants(Peer::Nsd, Workload::Tcp));
        assert!(!options.wants(Peer::Bare, Workload::Hot));
    }

    #[test]
    fn a_wrong_option_is_named() {
        for (words, word) in [(["--secs", "0"], "`0`"), (["--peers", "x"], "`x`"), (["--fast", "1"], "--fast")] {
            let error = Options::parse(&words).err().unwrap();
            assert!(error.contains(word), "{error}");
        }
    }
}
