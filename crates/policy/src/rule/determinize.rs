//! Determinization of patterns within a budget of work.
//!
//! A state of a deterministic automaton is a set of NFA states, and there may be exponentially many
//! sets. For each set and each class of octets, determinization visits the members of the set and
//! the states that follow. The crate that does this limits the octets of all sets and of the table,
//! so the limits are chosen such that the visits stay within the budget:
//!
//! ```text
//! visits of members  <= classes * octets of all sets        (a member takes an octet or more)
//! visits of the next <= visits of members + transitions * states behind empty transitions
//! ```

use regex_automata::MatchKind;
use regex_automata::dfa::{StartKind, dense};
use regex_automata::nfa::thompson::{self, NFA, State, WhichCaptures};
use regex_automata::util::look::Look;
use regex_automata::util::primitives::StateID;

use super::MAX_PATTERN_DEPTH;
use super::text::TextTest;
use crate::expression;

/// Number of steps for all automata of a program, in addition to [`STEPS_A_PATTERN`]: a few
/// seconds. A step takes one to six nanoseconds, because it covers up to three visits.
const STEPS: usize = 1 << 30;
/// Number of steps for each pattern: the number that a pattern like `^(.+[_.-])?ads?[0-9]*\.` takes
/// in a full group. Many ordinary patterns therefore do not use up the steps.
const STEPS_A_PATTERN: usize = 1 << 20;
/// Number of steps of one attempt for each pattern of the group. A group of ordinary patterns needs
/// less.
const ATTEMPT_A_PATTERN: usize = 2 << 20;
/// Minimum number of steps of an attempt: enough for each single pattern that is not exponential.
const MIN_ATTEMPT: usize = 8 << 20;

/// The automaton of a group.
pub(super) type Dfa = dense::DFA<Vec<u32>>;

/// The work that remains for the automata of a program.
pub(super) struct WorkBudget {
    left: usize,
}

impl WorkBudget {
    /// Returns the work for a program with this number of patterns.
    pub(super) const fn of(patterns: usize) -> Self {
        Self { left: STEPS.saturating_add(patterns.saturating_mul(STEPS_A_PATTERN)) }
    }

    /// Returns this number of steps.
    #[cfg(test)]
    pub(super) const fn steps(left: usize) -> Self {
        Self { left }
    }

    /// Builds the automaton of all tests, of at most `memory` octets. Returns `None` if it is
    /// larger or takes too much work.
    pub(super) fn automaton(&mut self, tests: &[&TextTest], memory: usize) -> Option<Dfa> {
        let most = MIN_ATTEMPT.max(tests.len() * ATTEMPT_A_PATTERN).min(self.left);
        if most == 0 {
            return None;
        }
        let Some(nfa) = nfa(tests, memory) else {
            self.left = self.left.saturating_sub(memory);
            return None;
        };
        let cost = Cost::of(&nfa);
        let dfa = determinize(&nfa, &cost.limits(most, memory));
        self.left -= dfa.as_ref().map_or(most, |dfa| cost.of_automaton(dfa, most));
        dfa
    }
}

fn nfa(tests: &[&TextTest], memory: usize) -> Option<NFA> {
    let patterns: Vec<String> = tests.iter().map(|test| test.as_pattern()).collect();
    let limits = thompson::Config::new()
        .utf8(false)
        .which_captures(WhichCaptures::None)
        .nfa_size_limit(Some(memory));
    thompson::Compiler::new()
        .configure(limits)
        .syntax(expression::syntax(MAX_PATTERN_DEPTH))
        .build_many(&patterns)
        .ok()
}

/// The limits of an attempt, in octets.
struct Limits {
    table: usize,
    sets: usize,
}

fn determinize(nfa: &NFA, limits: &Limits) -> Option<Dfa> {
    let config = dense::Config::new()
        .match_kind(MatchKind::All)
        .start_kind(StartKind::Unanchored)
        // Names are too short for acceleration by the first octets of patterns to pay off.
        .accelerate(false)
        .dfa_size_limit(Some(limits.table))
        .determinize_size_limit(Some(limits.sets));
    dense::Builder::new().configure(config).build_from_nfa(nfa).ok()
}

/// The numbers that determine the work for an NFA.
struct Cost {
    /// Number of states.
    states: usize,
    /// Number of classes of octets, with the end of the text.
    classes: usize,
    /// The base-2 logarithm of the number of entries of a row of the table.
    row: usize,
    /// Maximum number of states that one transition reaches by empty transitions.
    behind: usize,
}

impl Cost {
    fn of(nfa: &NFA) -> Self {
        let classes = nfa.byte_classes();
        Self {
            states: nfa.states().len(),
            classes: classes.alphabet_len(),
            row: classes.stride2(),
            behind: behind_empty_transitions(nfa),
        }
    }

    /// Returns the limits such that an attempt takes at most `most` steps: half for the members of
    /// sets, half for the states behind empty transitions.
    fn limits(&self, most: usize, memory: usize) -> Limits {
        let rows = most / 2 / (self.behind.max(1) * self.classes);
        Limits {
            table: (rows << self.row).saturating_mul(size_of::<u32>()).min(memory),
            sets: (most / 2 / self.classes).min(2 * memory),
        }
    }

    /// Returns the maximum number of steps that an automaton took, of `most` steps. The sets are
    /// not known any more: each may have had all states.
    fn of_automaton(&self, dfa: &Dfa, most: usize) -> usize {
        let rows = (dfa.memory_usage() / size_of::<u32>()) >> self.row;
        let transitions = rows * self.classes;
        let members = transitions.saturating_mul(self.states).min(most / 2);
        members + transitions.saturating_mul(self.behind).min(most / 2)
    }
}

/// Returns the maximum number of states that one transition of the automaton reaches by empty
/// transitions, whatever its set is. A state counts for each target of an octet from which it is
/// reached, and once more for each further way to it.
fn behind_empty_transitions(nfa: &NFA) -> usize {
    let states = nfa.states();
    let (mut targets, mut stack) = (Vec::new(), Vec::new());
    for state in states {
        push_octet_targets(state, &mut targets);
        push_empty_targets(state, &mut stack);
    }
    // More than all states and all their empty transitions are never visited.
    let most = states.len() + stack.len();
    stack.clear();
    targets.sort_unstable();
    targets.dedup();
    let (mut marks, mut count) = (vec![0; states.len()], 0);
    for (mark, target) in (1_u32..).zip(targets) {
        if nfa.state(target).is_epsilon() {
            stack.push(target);
        }
        while let Some(id) = stack.pop() {
            count += 1;
            if std::mem::replace(&mut marks[id.as_usize()], mark) != mark {
                push_empty_targets(nfa.state(id), &mut stack);
            }
        }
        if count >= most {
            return most;
        }
    }
    count
}

fn push_octet_targets(state: &State, out: &mut Vec<StateID>) {
    match state {
        State::ByteRange { trans } => out.push(trans.next),
        State::Sparse(sparse) => out.extend(sparse.transitions.iter().map(|one| one.next)),
        State::Dense(dense) => out.extend_from_slice(&dense.transitions),
        _ => {}
    }
}

fn push_empty_targets(state: &State, out: &mut Vec<StateID>) {
    match state {
        State::Union { alternates } => out.extend_from_slice(alternates),
        State::BinaryUnion { alt1, alt2 } => out.extend([*alt1, *alt2]),
        // After an octet, the text no longer starts, so this assertion fails.
        State::Look { look: Look::Start, .. } => {}
        State::Look { next, .. } | State::Capture { next, .. } => out.push(*next),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use regex_automata::PatternID;

    use super::super::text::Pattern;
    use super::*;

    const MEMORY: usize = 4 << 20;

    fn tests(sources: &[String]) -> Vec<TextTest> {
        let tests = sources.iter();
        tests.map(|source| TextTest::Matches(Pattern::new(source).unwrap())).collect()
    }

    fn nfa_of(sources: &[String]) -> NFA {
        nfa(&tests(sources).iter().collect::<Vec<_>>(), MEMORY).unwrap()
    }

    fn group(source: impl Fn(usize) -> String) -> Vec<String> {
        (0..64).map(source).collect()
    }

    #[test]
    fn groups_of_ordinary_patterns_have_the_automata_that_memory_alone_permits() {
        let ends = ["com", "net", "example"];
        for sources in [
            group(|number| format!("tracking-server-{number}")),
            group(|number| format!(r"^ad{number}[sx]?[0-9]*[_.-]")),
            group(|number| format!(r"^(.+[_.-])?(track(er|ing)?|stats?{number})[0-9]*\.")),
            group(|number| format!(r"(^|\.)metrics{number}\.{}$", ends[number % 3])),
            group(|number| format!(r"\bbeacon{number}\b")),
            (0..4).map(|number| format!(r"ads{number}.*cdn[0-9]+\.")).collect(),
        ] {
            let limits = Limits { table: MEMORY, sets: 2 * MEMORY };
            let unbounded = determinize(&nfa_of(&sources), &limits).unwrap();
            let tests = tests(&sources);
            let all: Vec<&TextTest> = tests.iter().collect();
            let dfa = WorkBudget::of(all.len()).automaton(&all, MEMORY);
            let dfa = dfa.unwrap_or_else(|| panic!("{}", sources[0]));
            assert_eq!(dfa.to_bytes_little_endian(), unbounded.to_bytes_little_endian());
        }
    }

    /// A set of NFA states in the order of visits, after a match of some patterns.
    type Set = (Vec<PatternID>, Vec<StateID>);

    /// A plain determinization that counts its visits. NFAs must have no assertions.
    struct Model<'n> {
        nfa: &'n NFA,
        visits: usize,
    }

    impl Model<'_> {
        /// Adds a state and those behind empty transitions.
        fn enter(&mut self, state: StateID, known: &mut HashSet<StateID>, out: &mut Vec<StateID>) {
            let mut stack = vec![state];
            while let Some(id) = stack.pop() {
                self.visits += 1;
                if known.insert(id) {
                    out.push(id);
                    push_empty_targets(self.nfa.state(id), &mut stack);
                }
            }
        }

        fn next(&mut self, set: &[StateID], octet: Option<u8>) -> Set {
            let (mut matched, mut known, mut out) = (Vec::new(), HashSet::new(), Vec::new());
            for id in set {
                self.visits += 1;
                let target = match (self.nfa.state(*id), octet) {
                    (State::Match { pattern_id }, _) => {
                        matched.push(*pattern_id);
                        None
                    }
                    (State::ByteRange { trans }, Some(octet)) => {
                        trans.matches_byte(octet).then_some(trans.next)
                    }
                    (State::Sparse(sparse), Some(octet)) => sparse.matches_byte(octet),
                    (State::Dense(dense), Some(octet)) => dense.matches_byte(octet),
                    _ => None,
                };
                if let Some(target) = target {
                    self.enter(target, &mut known, &mut out);
                }
            }
            (matched, out)
        }

        /// Determinizes until the sets or the table exceed a limit. Returns the number of visits.
        fn run(mut self, cost: &Cost, limits: &Limits) -> usize {
            let classes = self.nfa.byte_classes();
            let octets = (0..=u8::MAX).map(Some).filter(|octet| {
                octet.is_none_or(|octet| octet == 0 || classes.get(octet) != classes.get(octet - 1))
            });
            let octets: Vec<Option<u8>> = octets.chain([None]).collect();
            assert_eq!(octets.len(), cost.classes);
            let mut start = Vec::new();
            self.enter(self.nfa.start_unanchored(), &mut HashSet::new(), &mut start);
            let first: Set = (Vec::new(), start);
            let (mut held, mut known) = (0, HashSet::from([first.clone()]));
            let mut open = vec![first];
            while let Some((_, set)) = open.pop() {
                for octet in &octets {
                    let next = self.next(&set, *octet);
                    if known.contains(&next) {
                        continue;
                    }
                    held += next.1.len();
                    let row = size_of::<u32>() << cost.row;
                    if held > limits.sets || known.len() * row > limits.table {
                        return self.visits;
                    }
                    known.insert(next.clone());
                    open.push(next);
                }
            }
            self.visits
        }
    }

    #[test]
    fn the_steps_that_are_charged_cover_the_work() {
        let wide: String = (0..300).map(|number| format!("|c{number}")).collect();
        for sources in [
            group(|number| format!("tracking{number}")),
            group(|number| format!(r"(.+[_.-])?ad{number}[0-9]*\.")),
            vec!["(a|aa|b)*[a-z0-9.]{1,80}q1.*(x|y)+z".to_owned()],
            vec!["[ab]*a[ab]{12}".to_owned()],
            // Many small sets lead to a large one.
            vec![format!("[ab]*a[ab]{{9}}[^ab](?:x{wide})")],
            vec![format!("[ab]*a[ab]{{9}}[^ab](?:(?:x{wide})?)*z")],
            vec!["(((a?b?)?c?)?d?){40}e".to_owned()],
            vec!["(|||||a){50}[a-z]{5}q".to_owned()],
        ] {
            let (nfa, most) = (nfa_of(&sources), 1 << 19);
            let cost = Cost::of(&nfa);
            let limits = cost.limits(most, MEMORY);
            let dfa = determinize(&nfa, &limits);
            let charged = dfa.map_or(most, |dfa| cost.of_automaton(&dfa, most));
            let visits = Model { nfa: &nfa, visits: 0 }.run(&cost, &limits);
            assert!(visits <= 3 * charged, "{visits} visits, {charged} steps for {}", sources[0]);
        }
    }

    #[test]
    fn no_work_is_begun_when_none_is_left() {
        let tests = tests(&["(a|aa|b)*[a-z0-9.]{1,80}q1.*(x|y)+z".to_owned()]);
        let all: Vec<&TextTest> = tests.iter().collect();
        let mut work = WorkBudget::steps(MIN_ATTEMPT + 1_000);
        assert!(work.automaton(&all, MEMORY).is_none());
        assert_eq!(work.left, 1_000);
        assert!(work.automaton(&all, MEMORY).is_none());
        assert_eq!(work.left, 0);
        assert!(work.automaton(&[&TextTest::Contains("a".to_owned())], MEMORY).is_none());
    }
}
