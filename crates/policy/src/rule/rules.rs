//! The rules of a configuration, validated.

use std::fmt;
use std::sync::Arc;

use super::action::{Action, RuleSpec};
use super::check::check_within;
use super::program::Compiled;
use super::schedule::NamedTimeZone;
use super::text::PatternBudget;
use super::tree::{Node, Reads};
use super::{MAX_ADDED_RULES, MAX_RULES, Vocabulary};
use crate::PolicyError;
use crate::client::ClientTest;

/// The index of a rule among the enabled rules, in order of evaluation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RuleId(pub u32);

/// A validated rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The name used in explanations.
    pub name: String,
    /// The condition as written.
    pub when: String,
    /// The action taken if the condition holds.
    pub action: Action,
    /// Whether a match is only recorded.
    pub log_only: bool,
    pub(super) tree: Node,
    pub(super) zone: NamedTimeZone,
    pub(super) reads: Reads,
}

impl Rule {
    /// Reports whether a match ends the evaluation.
    #[must_use]
    pub fn decides(&self) -> bool {
        !self.log_only && self.action.decides()
    }

    /// Reports whether the condition tests lists.
    #[must_use]
    pub fn reads_lists(&self) -> bool {
        self.reads.lists
    }

    /// Reports whether the condition reads the answer.
    #[must_use]
    pub fn reads_answer(&self) -> bool {
        self.reads.answer
    }

    /// Reports whether the condition tests the countries of the addresses in the answer.
    #[must_use]
    pub fn reads_countries(&self) -> bool {
        self.reads.countries
    }

    /// Returns the parts of the condition that can never be true, such as `now.hour >= 24`.
    pub fn never_true(&self) -> impl Iterator<Item = &str> {
        self.tree.never_true().into_iter().map(|span| span.of(&self.when))
    }

    /// Reports whether the rule must see each query, even if the answer is cached.
    #[must_use]
    pub fn is_per_query(&self) -> bool {
        self.log_only || matches!(self.action, Action::RateLimit(_))
    }
}

/// The part of a rule that has an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RulePart {
    /// The whole rule.
    Whole,
    /// The action and its settings.
    Action,
    /// The time zone.
    TimeZone,
    /// The condition.
    When,
}

/// An error in a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleFault {
    /// The index of the rule in the configuration, from 0.
    pub place: usize,
    /// The part of the rule with the error.
    pub part: RulePart,
    /// The name of the rule.
    pub rule: String,
    /// The problem. For a problem in the condition, the text has several lines.
    pub error: PolicyError,
}

impl fmt::Display for RuleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule `{}`: {}", self.rule, self.error)
    }
}

impl std::error::Error for RuleFault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// The enabled rules of a configuration, in order of evaluation.
#[derive(Clone)]
pub struct Rules {
    pub(super) compiled: Arc<Compiled>,
}

impl Rules {
    /// Validates all rules, including disabled ones, and compiles the enabled rules.
    ///
    /// # Errors
    /// A rule is invalid. The result has all errors of all rules.
    pub fn check(specs: &[RuleSpec], vocabulary: &Vocabulary) -> Result<Self, Vec<RuleFault>> {
        if specs.len() > MAX_RULES + MAX_ADDED_RULES {
            let error = PolicyError::TooManyRules(MAX_RULES);
            return Err(vec![fault(MAX_RULES, &specs[MAX_RULES], (RulePart::Whole, error))]);
        }
        let (mut ordered, mut faults) = (Vec::new(), Vec::new());
        let patterns = PatternBudget::default();
        for (place, spec) in specs.iter().enumerate() {
            match rule(spec, vocabulary, &patterns) {
                Ok(rule) if spec.enabled => ordered.push((spec.priority, rule)),
                Ok(_) => {}
                Err(found) => {
                    faults.extend(found.into_iter().map(|found| fault(place, spec, found)))
                }
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        // The sort is stable, so rules with the same priority keep the order of the file.
        ordered.sort_by_key(|(priority, _)| *priority);
        let compiled = Compiled::build(ordered.into_iter().map(|(_, rule)| rule).collect());
        match compiled.excess() {
            Some(error) => Err(vec![fault(0, &specs[0], (RulePart::Whole, error))]),
            None => Ok(Self { compiled: Arc::new(compiled) }),
        }
    }

    /// Returns the distinct tests of clients in all rules.
    #[must_use]
    pub fn client_tests(&self) -> Vec<ClientTest> {
        self.compiled.client_tests().to_vec()
    }

    /// Returns the rules in order of evaluation. A [`RuleId`] is an index into them.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        self.compiled.rules()
    }
}

fn fault(place: usize, spec: &RuleSpec, (part, error): PartFault) -> RuleFault {
    RuleFault { place, part, rule: spec.name.clone(), error }
}

/// An error, and the part of the rule that has it.
type PartFault = (RulePart, PolicyError);

fn rule(
    spec: &RuleSpec,
    vocabulary: &Vocabulary,
    patterns: &PatternBudget,
) -> Result<Rule, Vec<PartFault>> {
    let mut faults = Vec::new();
    if spec.name.trim().is_empty() {
        faults.push((RulePart::Whole, PolicyError::NoName));
    }
    let mut noted = |part: RulePart, error: PolicyError| faults.push((part, error));
    let action = Action::of(spec).map_err(|error| noted(RulePart::Action, error)).ok();
    let zone = spec.time_zone.as_deref().unwrap_or(&vocabulary.time_zone);
    let named = NamedTimeZone::find(zone).map_err(|error| noted(RulePart::TimeZone, error)).ok();
    let tree = check_within(&spec.when, vocabulary, patterns)
        .map_err(|fault| {
            noted(RulePart::When, PolicyError::Condition { when: spec.when.clone(), fault })
        })
        .ok();
    let reads = tree.as_ref().map(Node::reads).unwrap_or_default();
    if reads.answer && action.as_ref().is_some_and(Action::is_of_question) {
        noted(RulePart::When, PolicyError::TooEarly);
    }
    match (action, named, tree) {
        (Some(action), Some(zone), Some(tree)) if faults.is_empty() => {
            let (name, when) = (spec.name.clone(), spec.when.clone());
            Ok(Rule { name, when, action, log_only: spec.log_only, tree, zone, reads })
        }
        _ => Err(faults),
    }
}
