//! The explanation of a decision of the policy: its facts, for whatever shows them.

use std::fmt;

use avocet_policy::client::Identity;
use avocet_policy::list::Effect;
use avocet_policy::rpz::{Action, TriggerKind};
use avocet_policy::rule::{Lift, Rule};

/// What becomes of a question, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// What becomes of it.
    pub treatment: Treatment,
    /// The rule or list; empty where it passes.
    pub why: String,
}

impl Outcome {
    /// Nobody says anything.
    pub const fn passes() -> Self {
        Self { treatment: Treatment::Pass, why: String::new() }
    }
}

/// What the policy does with a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Treatment {
    /// Nothing.
    Pass,
    /// It answers that the name is blocked.
    Block,
    /// It answers with other records, or those of another name.
    Rewrite,
    /// It names the servers that resolve it.
    Forward,
    /// It sends no response.
    Drop,
    /// It sends the client to TCP.
    Truncate,
}

impl Treatment {
    /// Returns the participle that tells people what became of the query.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pass => "passes",
            Self::Block => "blocked",
            Self::Rewrite => "rewritten",
            Self::Forward => "forwarded",
            Self::Drop => "dropped",
            Self::Truncate => "truncated",
        }
    }
}

impl fmt::Display for Treatment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// All that decides about a question, and about its answer if that is known.
#[derive(Debug)]
pub struct Explanation<'p> {
    /// What became of the question, and why.
    pub outcome: Outcome,
    /// What is known of the client.
    pub identity: Identity,
    /// The rule that decided.
    pub rule: Option<&'p Rule>,
    /// The rules that matched without deciding.
    pub noted: Vec<&'p Rule>,
    /// What suspends filtering.
    pub lifted: Option<Lift>,
    /// The Unix second until which the decision holds; none if time does not change it.
    pub valid_until: Option<u64>,
    /// The countries of the addresses in the answer; none if no rule asks for them.
    pub countries: Option<Vec<String>>,
    /// The lines of lists that match.
    pub lines: Vec<ExplainedLine<'p>>,
}

/// A line of a list that matches the name, an alias in its answer, or the answer.
#[derive(Debug)]
pub struct ExplainedLine<'p> {
    /// The list.
    pub list: Option<&'p str>,
    /// The number of the line, from 1.
    pub line: u32,
    /// What it is.
    pub entry: LineEntry<'p>,
    /// The alias that it matches; none if it matches the name.
    pub alias: Option<String>,
    /// Whether the list applies to this client.
    pub is_in_force: bool,
    /// Whether it decides.
    pub decides: bool,
    /// Whether it would decide if no rule did, and no pause or grant lifted filtering.
    pub is_overruled: bool,
}

/// The entry of a list's line.
#[derive(Clone, Copy, Debug)]
pub enum LineEntry<'p> {
    /// A name or a pattern, and whether it goes before allow lists.
    Name(Effect, Importance),
    /// A trigger of a policy zone.
    Trigger(TriggerKind, &'p Action),
}

/// Whether an entry goes before allow lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Importance {
    /// It does.
    Important,
    /// It does not.
    Plain,
}

impl ExplainedLine<'_> {
    /// Whether the line decides to block.
    pub(super) fn blocks(&self) -> bool {
        self.decides && matches!(self.entry, LineEntry::Name(Effect::Block, _))
    }

    /// Marks a line that would decide as one that does not.
    pub(super) fn overrule(&mut self) {
        if self.decides {
            (self.decides, self.is_overruled) = (false, true);
        }
    }
}
