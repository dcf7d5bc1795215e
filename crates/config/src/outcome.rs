//! Outcomes of queries, and how long the query log keeps their entries.

use super::error::SettingError;
use super::setting::FromText;

/// Maximum number of days for which entries are kept.
const MAX_DAYS: u32 = 36_500;

/// The days after which entries with an outcome are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindDays {
    /// The outcome.
    pub kind: OutcomeKind,
    /// The days, from 1.
    pub days: u32,
}

/// The outcome of a query, as the query log counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutcomeKind {
    /// The query was answered with data or a denial.
    Answered,
    /// The query was answered from local records or special names.
    Local,
    /// The query was blocked.
    Blocked,
    /// The query was answered with other data, by a rule.
    Rewritten,
    /// The query was refused.
    Refused,
    /// The query got no reply.
    Dropped,
    /// The query was not resolved.
    Failed,
    /// The query was malformed.
    Malformed,
}

impl OutcomeKind {
    /// All outcomes, with their words in the file.
    const WORDS: [(Self, &'static str); 8] = [
        (Self::Answered, "answered"),
        (Self::Local, "local"),
        (Self::Blocked, "blocked"),
        (Self::Rewritten, "rewritten"),
        (Self::Refused, "refused"),
        (Self::Dropped, "dropped"),
        (Self::Failed, "failed"),
        (Self::Malformed, "malformed"),
    ];

    /// Returns the word for the outcome in the configuration file and in the query log.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize].1
    }
}

impl FromText for OutcomeKind {
    const EXPECTED: &'static str = "\"answered\", \"local\", \"blocked\", \"rewritten\", \
                                    \"refused\", \"dropped\", \"failed\" or \"malformed\"";
    const CHOICES: &'static [&'static str] =
        &["answered", "local", "blocked", "rewritten", "refused", "dropped", "failed", "malformed"];

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let found = Self::WORDS.into_iter().find(|(_, own)| *own == text);
        found.map(|(kind, _)| kind).ok_or(None)
    }
}

impl FromText for KindDays {
    const EXPECTED: &'static str = "an outcome (\"answered\", \"local\", \"blocked\", \
                                    \"rewritten\", \"refused\", \"dropped\", \"failed\" or \
                                    \"malformed\") with days from 1 to 36500, such as \
                                    \"answered:30\"";

    fn from_text(text: &str) -> Result<Self, Option<SettingError>> {
        let (word, days) = text.split_once(':').ok_or(None)?;
        let (kind, _) = OutcomeKind::WORDS.into_iter().find(|(_, own)| *own == word).ok_or(None)?;
        let days = days.parse().ok().filter(|days| (1..=MAX_DAYS).contains(days)).ok_or(None)?;
        Ok(Self { kind, days })
    }
}
