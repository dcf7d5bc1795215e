//! The explanation of a decision of the policy, in a form for commands and the API.

use std::fmt;

use avocet_policy::client::Identity;
use avocet_policy::list::Effect;
use avocet_policy::rpz::{Action, TriggerKind};
use avocet_policy::rule::{Lift, Rule};

/// The result of a query, with its reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The treatment of the query.
    pub treatment: Treatment,
    /// The rule or list that decided; empty if the query passes.
    pub why: String,
}

impl Outcome {
    /// Returns the outcome of a query that no rule or list matched.
    pub const fn passes() -> Self {
        Self { treatment: Treatment::Pass, why: String::new() }
    }
}

/// The treatment of a query by the policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Treatment {
    /// The policy has no effect.
    Pass,
    /// The response says that the name is blocked.
    Block,
    /// The response has other records, or the records of another name.
    Rewrite,
    /// The query is resolved by servers that the policy names.
    Forward,
    /// The client gets no response.
    Drop,
    /// The client gets a truncated response, so that it repeats the query over TCP.
    Truncate,
}

impl Treatment {
    /// Returns the participle that describes the treatment.
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

/// The explanation of the decision on a question and, if known, its answer.
#[derive(Debug)]
pub struct Explanation<'p> {
    /// The outcome.
    pub outcome: Outcome,
    /// The client.
    pub identity: Identity,
    /// The rule that decided.
    pub rule: Option<&'p Rule>,
    /// The rules that matched without deciding.
    pub noted: Vec<&'p Rule>,
    /// The reason why filtering is suspended; `None` if it is not.
    pub lifted: Option<Lift>,
    /// The Unix second until which the decision is valid; `None` if time does not change it.
    pub valid_until: Option<u64>,
    /// The countries of the addresses in the answer; `None` if no rule tests countries.
    pub countries: Option<Vec<String>>,
    /// The lines of lists that match.
    pub lines: Vec<ExplainedLine<'p>>,
}

/// A list line that matches the queried name, an alias in its answer, or the answer itself.
#[derive(Debug)]
pub struct ExplainedLine<'p> {
    /// The list.
    pub list: Option<&'p str>,
    /// The number of the line, from 1.
    pub line: u32,
    /// The entry of the line.
    pub entry: LineEntry<'p>,
    /// The alias that the line matches; `None` if the line matches the QNAME.
    pub alias: Option<String>,
    /// Whether the list applies to this client.
    pub is_in_force: bool,
    /// Whether the line decides.
    pub decides: bool,
    /// Whether the line would decide without the rule that decided, or without the pause or grant
    /// that lifted filtering.
    pub is_overruled: bool,
}

/// The entry of a list's line.
#[derive(Clone, Copy, Debug)]
pub enum LineEntry<'p> {
    /// A name or a pattern, and whether it takes precedence over allow lists.
    Name(Effect, Importance),
    /// A trigger of a policy zone.
    Trigger(TriggerKind, &'p Action),
}

/// Whether an entry takes precedence over allow lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Importance {
    /// The entry takes precedence.
    Important,
    /// The entry does not take precedence.
    Plain,
}

impl ExplainedLine<'_> {
    /// Returns whether the line decides and blocks.
    pub(super) fn blocks(&self) -> bool {
        self.decides && matches!(self.entry, LineEntry::Name(Effect::Block, _))
    }

    /// Marks a deciding line as overruled.
    pub(super) fn overrule(&mut self) {
        if self.decides {
            (self.decides, self.is_overruled) = (false, true);
        }
    }
}
