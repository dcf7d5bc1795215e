//! The options of the simulated Internet.

use std::path::PathBuf;
use std::time::Duration;

use super::link::Weather;
use super::peer::Peer;
use super::plan::Alive;

/// The questions and the resolvers.
pub(super) struct Options {
    /// The peers that vote on the answers.
    pub(super) voters: Vec<Peer>,
    pub(super) avocet: Option<PathBuf>,
    pub(super) seed: u64,
    pub(super) questions: usize,
    pub(super) weather: Weather,
    pub(super) alive: Alive,
    /// The directory in which all files are kept. With `None`, they are removed after the run.
    pub(super) keep: Option<PathBuf>,
    /// The file to which the table is written as JSON.
    pub(super) json: Option<PathBuf>,
}

impl Options {
    /// Returns whether silent servers or lossy or slow links hinder answers. In this case, the
    /// report counts answered questions instead of comparing answers.
    pub(super) fn is_rough(&self) -> bool {
        self.weather != Weather::CLEAR || self.alive == Alive::Half
    }

    /// Parses the words after `internet`.
    ///
    /// # Errors
    ///
    /// A word is wrong. The error says which one.
    pub(super) fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            voters: Peer::VOTERS.to_vec(),
            avocet: None,
            seed: 1,
            questions: 5000,
            weather: Weather::CLEAR,
            alive: Alive::All,
            keep: None,
            json: None,
        };
        let mut rest = words.iter();
        while let Some(option) = rest.next() {
            let value = rest.next().copied().ok_or_else(|| format!("{option} wants a value"))?;
            match *option {
                "--peers" => {
                    options.voters = value.split(',').map(Peer::named).collect::<Result<_, _>>()?
                }
                "--avocet" => options.avocet = Some(absolute(value)?),
                "--seed" => options.seed = number(value)?,
                "--questions" => options.questions = number(value)?,
                "--rtt" => options.weather.round_trip = Duration::from_millis(number(value)?),
                "--loss" => options.weather.loss_percent = number(value)?,
                "--alive" => options.alive = alive(value)?,
                "--keep" => options.keep = Some(absolute(value)?),
                "--json" => options.json = Some(absolute(value)?),
                unknown => return Err(format!("there is no option {unknown}")),
            }
        }
        Ok(options)
    }
}

fn alive(value: &str) -> Result<Alive, String> {
    match value {
        "all" => Ok(Alive::All),
        "half" => Ok(Alive::Half),
        unknown => Err(format!("`{unknown}` of the servers? all or half")),
    }
}

fn number<T: std::str::FromStr>(value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("`{value}` is no number"))
}

fn absolute(value: &str) -> Result<PathBuf, String> {
    std::path::absolute(value).map_err(|error| format!("{value}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_say_whom_and_how_much_to_ask() {
        let options =
            Options::parse(&["--peers", "kresd", "--questions", "500", "--avocet", "/bin/a"])
                .unwrap();
        assert!(!options.is_rough());
        assert_eq!((options.voters, options.questions, options.seed), (vec![Peer::Kresd], 500, 1));
        assert!(Options::parse(&["--loss", "50"]).unwrap().is_rough());
        assert_eq!(options.avocet, Some(PathBuf::from("/bin/a")));
    }

    #[test]
    fn a_wrong_option_is_named() {
        for (words, word) in
            [(&["--seed", "x"][..], "`x`"), (&["--peers", "x"], "`x`"), (&["--seed"], "--seed")]
        {
            assert!(Options::parse(words).err().unwrap().contains(word));
        }
    }
}
