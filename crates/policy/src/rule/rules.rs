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

/// What is wrong with a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleFault {
    /// The rule's place in the configuration, from 0.
    pub place: usize,
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
    /// All rules that are wrong, each with its first fault.
    pub fn check(specs: &[RuleSpec], vocabulary: &Vocabulary) -> Result<Self, Vec<RuleFault>> {
        if specs.len() > MAX_RULES {
            return Err(vec![fault(MAX_RULES, &specs[MAX_RULES], format!("more than {MAX_RULES} rules"))]);
        }
        let (mut ordered, mut faults) = (Vec::new(), Vec::new());
        for (place, spec) in specs.iter().enumerate() {
            match rule(spec, vocabulary) {
                Ok(rule) if spec.enabled => ordered.push((spec.priority, rule)),
                Ok(_) => {}
                Err(message) => faults.push(fault(place, spec, message)),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        // Stable: within a priority the order of the file stays.
        ordered.sort_by_key(|(priority, _)| *priority);
        let compiled = Compiled::build(ordered.into_iter().map(|(_, rule)| rule).collect());
        match compiled.excess() {
            Some(message) => Err(vec![fault(0, &specs[0], message)]),
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

fn fault(place: usize, spec: &RuleSpec, message: String) -> RuleFault {
    RuleFault { place, rule: spec.name.clone(), message }
}

fn rule(spec: &RuleSpec, vocabulary: &Vocabulary) -> Result<Rule, String> {
    if spec.name.trim().is_empty() {
        return Err("a name is missing".to_owned());
    }
    let action = Action::of(spec)?;
    let zone = spec.time_zone.as_deref().unwrap_or(&vocabulary.time_zone);
    let Some(zone) = Zone::named(zone) else { return Err(unknown_zone(zone)) };
    let tree = check(&spec.when, vocabulary).map_err(|fault| located(&fault, &spec.when))?;
    let reads = tree.reads();
    if reads.answer && action.is_of_question() {
        return Err("this action is taken on the question, but the condition reads the answer".to_owned());
    }
    let (name, when) = (spec.name.clone(), spec.when.clone());
    Ok(Rule { name, when, action, log_only: spec.log_only, tree, zone, reads })
}

fn located(fault: &Fault, when: &str) -> String {
    format!("column {}\n{}", fault.column(when), fault.shown(when))
}

fn unknown_zone(name: &str) -> String {
    let names = Zone::names();
    let fault = Fault::at(super::Span::default(), format!("there is no time zone `{name}`"));
    fault.suggest(name, names.iter().map(String::as_str)).to_string()
}
