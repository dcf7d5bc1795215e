//! The details of a client that the query log records.

use super::error::SettingError;
use super::setting::FromText;

/// The details of a client that the query log records, from most to least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Privacy {
    /// All details.
    Full,
    /// The network of the address, /24 or /56, in place of the address.
    Truncated,
    /// A pseudonym in place of the address.
    Pseudonym,
    /// The client's address and name, but neither the queried names nor the answers.
    NoNames,
    /// No details: the queries of the client are not recorded.
    Off,
}

impl Privacy {
    /// All values, with their words in the file.
    const WORDS: [(Self, &'static str); 5] = [
        (Self::Full, "full"),
        (Self::Truncated, "truncated"),
        (Self::Pseudonym, "pseudonym"),
        (Self::NoNames, "no-names"),
        (Self::Off, "off"),
    ];

    /// Returns the word for the value in the file.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize].1
    }
}

impl FromText for Privacy {
    const EXPECTED: &'static str =
        "\"full\", \"truncated\", \"pseudonym\", \"no-names\" or \"off\"";
    const CHOICES: &'static [&'static str] = &["full", "truncated", "pseudonym", "no-names", "off"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let found = Self::WORDS.iter().find(|(_, word)| *word == text);
        found.map(|(privacy, _)| *privacy).ok_or(None)
    }
}
