//! The options of the benches.

use super::load::Generator;
use super::peer::Peer;
use super::workload::Workload;

/// What to measure, and for how long.
#[derive(Clone)]
pub(super) struct Options {
    pub(super) peers: Vec<Peer>,
    pub(super) workloads: Vec<Workload>,
    /// Only pairs `peer/workload` that contain this text are measured.
    pub(super) only: Option<String>,
    pub(super) rounds: usize,
    pub(super) secs: u64,
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
    /// Says which word is wrong.
    pub(super) fn parse(words: &[&str]) -> Result<Self, String> {
        let (peers, workloads) = (Peer::ALL.to_vec(), Workload::ALL.to_vec());
        let generator = Generator::Dnsperf;
        let all = Self {
            peers,
            workloads,
            only: None,
            rounds: 5,
            secs: 5,
            generator,
            build: true,
            install: false,
        };
        all.changed_by(words)
    }

    /// Parses the options of the two-minute bench: its defaults, changed by the words.
    pub(super) fn parse_quick(words: &[&str]) -> Result<Self, String> {
        let (peers, workloads) = (Peer::QUICK.to_vec(), Workload::QUICK.to_vec());
        let quick = Self { peers, workloads, rounds: 2, secs: 2, ..Self::parse(&[])? };
        quick.changed_by(words)
    }

    /// Parses the options of a bench that measures only these peers by default.
    pub(super) fn parse_for(peers: &[Peer], words: &[&str]) -> Result<Self, String> {
        Self { peers: peers.to_vec(), ..Self::parse(&[])? }.changed_by(words)
    }

    fn changed_by(self, words: &[&str]) -> Result<Self, String> {
        let mut options = self;
        let mut rest = words.iter();
        while let Some(option) = rest.next() {
            let mut value =
                || rest.next().copied().ok_or_else(|| format!("{option} wants a value"));
            match *option {
                "--peers" => options.peers = list(value()?, Peer::named)?,
                "--workloads" => options.workloads = list(value()?, Workload::named)?,
                "--only" => options.only = Some(value()?.to_owned()),
                "--rounds" => options.rounds = positive(value()?)?,
                "--secs" => options.secs = positive(value()?)?,
                "--generator" => options.generator = Generator::named(value()?)?,
                "--no-build" => options.build = false,
                "--install" => options.install = true,
                unknown => return Err(format!("there is no option {unknown}")),
            }
        }
        Ok(options)
    }

    /// Whether the options select this pair.
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
        let options =
            Options::parse(&["--peers", "nsd,bare", "--only", "nsd/hot", "--rounds", "2"]).unwrap();
        assert_eq!(options.peers, [Peer::Nsd, Peer::Bare]);
        assert_eq!(options.rounds, 2);
        assert!(options.wants(Peer::Nsd, Workload::HotEdns));
        assert!(!options.wants(Peer::Nsd, Workload::Tcp));
        assert!(!options.wants(Peer::Bare, Workload::Hot));
    }

    #[test]
    fn a_wrong_option_is_named() {
        for (words, word) in
            [(["--secs", "0"], "`0`"), (["--peers", "x"], "`x`"), (["--fast", "1"], "--fast")]
        {
            let error = Options::parse(&words).err().unwrap();
            assert!(error.contains(word), "{error}");
        }
    }
}
