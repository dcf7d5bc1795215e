//! All rules of a configuration, checked.

use std::fmt;
use std::sync::Arc;

use super::action::{Action, RuleSpec};
use super::check::check;
use super::fault::Fault;
use super::program::Compiled;
use super::schedule::Zone;
use super::tree::{Node, Reads};
use super::{MAX_RULES, Vocabulary};
use crate::client::ClientTest;

/// The place of a rule among the enabled rules, in the order in which they are tried.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct RuleId(pub u32);

/// A checked rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The name that explanations use.
    pub name: String,
    /// The condition as it was written.
    pub when: String,
    /// What is done where it holds.
    pub action: Action,
    /// Whether that is only recorded.
    pub log_only: bool,
    pub(super) tree: Node,
    pub(super) zone: Zone,
    pub(super) reads: Reads,
}

impl Rule {
    /// Does the rule end the search where it holds?
    #[must_use]
    pub fn decides(&self) -> bool {
        !self.log_only && self.action.decides()
    }

    /// Does the condition ask on which lists a name is?
    #[must_use]
    pub fn reads_lists(&self) -> bool {
        self.reads.lists
    }

    /// Does the condition read the answer?
    #[must_use]
    pub fn reads_answer(&self) -> bool {
        self.reads.answer
    }

    /// Does the condition ask for the countries of the addresses in the answer?
    #[must_use]
    pub fn reads_countries(&self) -> bool {
        self.reads.countries
    }

    /// Must the rule be asked on each query, also where the answer is in a cache?
    #[must_use]
    pub fn is_per_query(&self) -> bool {
        self.log_only || matches!(self.action, Action::RateLimit(_))
    }
}

/// The part of a rule that is at fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RulePart {
    /// All of it.
    Whole,
    /// The action and its settings.
    Action,
    /// The time zone.
    TimeZone,
    /// The condition.
    When,
}

/// What is wrong with a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleFault {
    /// The rule's place in the configuration, from 0.
    pub place: usize,
    /// Where in it.
    pub part: RulePart,
    /// Its name.
    pub rule: String,
    /// What is wrong: text of several lines where a part of the expression is at fault.
    pub message: String,
}

impl fmt::Display for RuleFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule `{}`: {}", self.rule, self.message)
    }
}

impl std::error::Error for RuleFault {}

/// The enabled rules of a configuration, in the order in which they are tried.
#[derive(Clone)]
pub struct Rules {
    pub(super) compiled: Arc<Compiled>,
}

impl Rules {
    /// Checks all rules, those that are not enabled too, and compiles those that are.
    ///
    /// # Errors
    /// All faults of all rules.
    pub fn check(specs: &[RuleSpec], vocabulary: &Vocabulary) -> Result<Self, Vec<RuleFault>> {
        if specs.len() > MAX_RULES {
            let message = format!("more than {MAX_RULES} rules");
            return Err(vec![fault(MAX_RULES, &specs[MAX_RULES], (RulePart::Whole, message))]);
        }
        let (mut ordered, mut faults) = (Vec::new(), Vec::new());
        for (place, spec) in specs.iter().enumerate() {
            match rule(spec, vocabulary) {
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
        // Stable: within a priority the order of the file stays.
        ordered.sort_by_key(|(priority, _)| *priority);
        let compiled = Compiled::build(ordered.into_iter().map(|(_, rule)| rule).collect());
        match compiled.excess() {
            Some(message) => Err(vec![fault(0, &specs[0], (RulePart::Whole, message))]),
            None => Ok(Self { compiled: Arc::new(compiled) }),
        }
    }

    /// All that the rules ask about clients, each once.
    #[must_use]
    pub fn client_tests(&self) -> Vec<ClientTest> {
        self.compiled.client_tests().to_vec()
    }

    /// The rules in the order in which they are tried; a [`RuleId`] is a place in it.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        self.compiled.rules()
    }
}

fn fault(place: usize, spec: &RuleSpec, (part, message): PartFault) -> RuleFault {
    RuleFault { place, part, rule: spec.name.clone(), message }
}

/// What is wrong with a part of a rule.
type PartFault = (RulePart, String);

fn rule(spec: &RuleSpec, vocabulary: &Vocabulary) -> Result<Rule, Vec<PartFault>> {
    let mut faults = Vec::new();
    if spec.name.trim().is_empty() {
        faults.push((RulePart::Whole, "a name is missing".to_owned()));
    }
    let mut noted = |part: RulePart, message: String| faults.push((part, message));
    let action = Action::of(spec).map_err(|message| noted(RulePart::Action, message)).ok();
    let zone = spec.time_zone.as_deref().unwrap_or(&vocabulary.time_zone);
    let named = Zone::find(zone).map_err(|message| noted(RulePart::TimeZone, message)).ok();
    let tree = check(&spec.when, vocabulary)
        .map_err(|fault| noted(RulePart::When, located(&fault, &spec.when)))
        .ok();
    let reads = tree.as_ref().map(Node::reads).unwrap_or_default();
    if reads.answer && action.as_ref().is_some_and(Action::is_of_question) {
        let message = "this action is taken on the question, but the condition reads the answer";
        noted(RulePart::When, message.to_owned());
    }
    match (action, named, tree) {
        (Some(action), Some(zone), Some(tree)) if faults.is_empty() => {
            let (name, when) = (spec.name.clone(), spec.when.clone());
            Ok(Rule { name, when, action, log_only: spec.log_only, tree, zone, reads })
        }
        _ => Err(faults),
    }
}

fn located(fault: &Fault, when: &str) -> String {
    format!("column {}\n{}", fault.column(when), fault.shown(when))
}
