//! A single regular expression, run state by state over a name, with each step counted.
//!
//! The automaton is Thompson's: a set of states advances octet by octet. The crate that builds it
//! can also run it, but cannot stop after a given number of steps.

use regex_automata::nfa::thompson::{self, NFA, State, WhichCaptures};
use regex_automata::util::primitives::StateID;
use regex_syntax::hir::{Hir, Look};

use super::patterns::PatternError;
use super::steps::{Exhausted, Trial};

/// Builds one automaton that runs all these expressions. It has at most `limit` octets.
pub(super) fn build(expressions: &[Hir], limit: usize) -> Result<NFA, PatternError> {
    let config = thompson::Config::new()
        .utf8(false)
        .which_captures(WhichCaptures::None)
        .nfa_size_limit(Some(limit));
    thompson::Compiler::new()
        .configure(config)
        .build_many_from_hir(expressions)
        .map_err(|_| PatternError::TooLarge)
}

/// The positions in a name at which a match may begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begins {
    Anywhere,
    AtTheStart,
}

/// A regular expression that is run separately from all others.
pub(super) struct Automaton {
    nfa: NFA,
    begins: Begins,
}

/// The current and the next states of a run. The memory is reused for automata of any size.
#[derive(Default)]
pub(super) struct States {
    current: Set,
    next: Set,
    /// States whose empty transitions are still to be followed.
    stack: Vec<StateID>,
}

impl Automaton {
    /// Builds the automaton of one expression. It has at most `limit` octets.
    ///
    /// # Errors
    /// The automaton would have more octets.
    pub(super) fn of(hir: &Hir, limit: usize) -> Result<Self, PatternError> {
        let is_anchored = hir.properties().look_set_prefix().contains(Look::Start);
        let begins = if is_anchored { Begins::AtTheStart } else { Begins::Anywhere };
        Ok(Self { nfa: build(std::slice::from_ref(hir), limit)?, begins })
    }

    /// Returns the number of states.
    pub(super) fn states(&self) -> usize {
        self.nfa.states().len()
    }

    /// Returns the memory in use, in octets.
    pub(super) fn octets(&self) -> usize {
        self.nfa.memory_usage()
    }

    /// Reports whether the text has a match.
    ///
    /// # Errors
    /// There are not enough steps left.
    pub(super) fn finds(
        &self,
        text: &[u8],
        states: &mut States,
        trial: &mut Trial,
    ) -> Result<bool, Exhausted> {
        states.clear_for(self.states());
        for at in 0..=text.len() {
            if (at == 0 || self.begins == Begins::Anywhere)
                && self.enter(self.nfa.start_anchored(), (text, at), states, trial)?
            {
                return Ok(true);
            }
            std::mem::swap(&mut states.current, &mut states.next);
            states.next.clear();
            if states.current.is_empty() && self.begins == Begins::AtTheStart {
                return Ok(false);
            }
            let Some(&octet) = text.get(at) else { break };
            for place in 0..states.current.len() {
                trial.spend(1)?;
                let to = match self.nfa.state(states.current.at(place)) {
                    State::ByteRange { trans } if trans.matches_byte(octet) => Some(trans.next),
                    State::Sparse(transitions) => transitions.matches_byte(octet),
                    State::Dense(transitions) => transitions.matches_byte(octet),
                    _ => None,
                };
                if let Some(to) = to
                    && self.enter(to, (text, at + 1), states, trial)?
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Adds a state and all states reachable by empty transitions. Returns whether one of them is a
    /// match.
    fn enter(
        &self,
        state: StateID,
        (text, at): (&[u8], usize),
        states: &mut States,
        trial: &mut Trial,
    ) -> Result<bool, Exhausted> {
        states.stack.clear();
        states.stack.push(state);
        while let Some(id) = states.stack.pop() {
            trial.spend(1)?;
            if !states.next.insert(id) {
                continue;
            }
            match self.nfa.state(id) {
                State::Match { .. } => return Ok(true),
                State::Union { alternates } => {
                    trial.spend(alternates.len())?;
                    states.stack.extend_from_slice(alternates);
                }
                State::BinaryUnion { alt1, alt2 } => states.stack.extend([*alt1, *alt2]),
                State::Capture { next, .. } => states.stack.push(*next),
                State::Look { look, next } if self.nfa.look_matcher().matches(*look, text, at) => {
                    states.stack.push(*next);
                }
                _ => {}
            }
        }
        Ok(false)
    }
}

impl States {
    fn clear_for(&mut self, states: usize) {
        for set in [&mut self.current, &mut self.next] {
            set.clear();
            if set.places.len() < states {
                set.places.resize(states, 0);
            }
        }
    }
}

/// A set of states that is cleared in constant time. A state is a member only if its index points
/// to an element of the list that is the state itself.
#[derive(Default)]
struct Set {
    members: Vec<StateID>,
    places: Vec<u32>,
}

impl Set {
    fn insert(&mut self, id: StateID) -> bool {
        let place = self.places[id.as_usize()] as usize;
        if self.members.get(place) == Some(&id) {
            return false;
        }
        self.places[id.as_usize()] = self.members.len() as u32;
        self.members.push(id);
        true
    }

    fn clear(&mut self) {
        self.members.clear();
    }

    const fn len(&self) -> usize {
        self.members.len()
    }

    const fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn at(&self, place: usize) -> StateID {
        self.members[place]
    }
}

#[cfg(test)]
mod tests {
    use regex_automata::nfa::thompson::pikevm::PikeVM;

    use super::super::limits::MAX_REGEX_OCTETS;
    use super::super::patterns::parse;
    use super::*;

    #[test]
    fn what_is_found_is_what_the_builder_of_the_automata_finds() {
        let expressions = [
            "^ad[sx]?[0-9]*\\.",
            "ads?$",
            "(^|\\.)track(er|ing)\\.",
            "a{2,5}b|^c+$",
            "\\bads\\b",
            "[^a-z.]",
            "^$",
            "",
            "x*y?z+",
            "(a|b)*abb",
            "\\.example$|^(.+[_.-])?ads?",
        ];
        let names = [
            "ads.example",
            "",
            "tracker.example",
            "aaab",
            "cc",
            "x-ads-y",
            "zz",
            "babb",
            "a.b.c1",
            "\u{e9}",
        ];
        for text in expressions {
            let hir = parse(text).unwrap();
            let vm =
                PikeVM::new_from_nfa(build(std::slice::from_ref(&hir), MAX_REGEX_OCTETS).unwrap())
                    .unwrap();
            let automaton = Automaton::of(&hir, MAX_REGEX_OCTETS).unwrap();
            let (mut cache, mut states) = (vm.create_cache(), States::default());
            for name in names {
                let found = automaton.finds(name.as_bytes(), &mut states, &mut { Trial::WHOLE });
                assert_eq!(found, Ok(vm.is_match(&mut cache, name)), "{text} {name}");
            }
        }
    }

    #[test]
    fn an_expression_that_takes_too_long_is_given_up() {
        let automaton =
            Automaton::of(&parse("[a-z.]{0,200}[0-9]").unwrap(), MAX_REGEX_OCTETS).unwrap();
        let mut steps = super::super::steps::Steps::of_names();
        steps.begin_name();
        let text = [b'a'; 253];
        let mut states = States::default();
        assert_eq!(steps.trial(|trial| automaton.finds(&text, &mut states, trial)), Ok(false));
        assert_eq!((steps.take_cut_short(), steps.spent()), (1, super::super::limits::TRIAL_STEPS));
    }
}
