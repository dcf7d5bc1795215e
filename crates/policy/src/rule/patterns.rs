//! Matching of many patterns: automata that find all patterns of a group in one pass over a name.
//!
//! A group is a deterministic automaton of at most 64 patterns and costs a table look-up per octet
//! of the name. Groups that grow too large are split. A single pattern that is too large is matched
//! separately, also in time linear in the name.

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;
use regex_automata::{Input, MatchKind};

use super::MAX_PATTERN_DEPTH;
use super::text::{NameText, TextTest};
use crate::expression;

/// Maximum number of patterns of a group, which is the number of bits in the group's result.
const GROUP: usize = 64;
/// Maximum number of octets of the automaton of a group.
const GROUP_MEMORY: usize = 4 << 20;
/// Maximum number of octets of all automata. Further patterns are matched one by one.
const ALL_MEMORY: usize = 64 << 20;

/// Maximum number of automata that are abandoned because they grow too large. Each of them takes as
/// much work as an automaton with [`GROUP_MEMORY`]. After this number, patterns are matched one by
/// one.
const MAX_FAILURES: usize = 128;

/// The remaining budget for building automata.
struct Left {
    memory: usize,
    failures: usize,
}

/// All patterns of a program. A pattern is identified by its group and by its bit in the group.
#[derive(Default)]
pub(super) struct Patterns {
    groups: Vec<TestGroup>,
}

/// The position of a pattern: its group, and its bit in the group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PatternId {
    group: u32,
    bit: u32,
}

impl PatternId {
    /// Returns a provisional number for a pattern before its position is known.
    pub(super) const fn numbered(number: u32) -> Self {
        Self { group: u32::MAX, bit: number }
    }

    /// Returns the provisional number.
    pub(super) const fn number(self) -> usize {
        self.bit as usize
    }
}

/// The result of the group that was evaluated last.
pub(super) struct Memo {
    group: u32,
    found: u64,
}

impl Memo {
    pub(super) const EMPTY: Self = Self { group: u32::MAX, found: 0 };
}

enum TestGroup {
    Automaton(Box<dense::DFA<Vec<u32>>>),
    Alone(TextTest),
}

impl Patterns {
    /// Builds the automata. Returns the position of each test's pattern, in the order of the tests.
    pub(super) fn build(tests: &[TextTest]) -> (Self, Vec<PatternId>) {
        let mut patterns = Self::default();
        let mut places = Vec::new();
        let mut left = Left { memory: ALL_MEMORY, failures: MAX_FAILURES };
        for chunk in tests.chunks(GROUP) {
            patterns.add(chunk, &mut left, &mut places);
        }
        (patterns, places)
    }

    fn add(&mut self, tests: &[TextTest], left: &mut Left, places: &mut Vec<PatternId>) {
        let group = self.groups.len() as u32;
        let memory = left.memory.min(GROUP_MEMORY);
        let dfa = if left.failures > 0 { automaton(tests, memory) } else { None };
        if let Some(dfa) = dfa {
            left.memory = left.memory.saturating_sub(dfa.memory_usage());
            self.groups.push(TestGroup::Automaton(Box::new(dfa)));
            places.extend((0..tests.len() as u32).map(|bit| PatternId { group, bit }));
        } else if let [test] = tests {
            left.failures = left.failures.saturating_sub(1);
            self.groups.push(TestGroup::Alone(test.clone()));
            places.push(PatternId { group, bit: 0 });
        } else {
            left.failures = left.failures.saturating_sub(1);
            let (first, rest) = tests.split_at(tests.len() / 2);
            self.add(first, left, places);
            self.add(rest, left, places);
        }
    }

    /// Reports whether the pattern matches the folded name. Evaluates the whole group of the
    /// pattern, and keeps the result in `memo`.
    #[inline]
    pub(super) fn matches(&self, pattern: PatternId, name: &[u8], memo: &mut Memo) -> bool {
        if memo.group != pattern.group {
            memo.found =
                self.groups.get(pattern.group as usize).map_or(0, |group| group.find(name));
            memo.group = pattern.group;
        }
        memo.found >> pattern.bit & 1 != 0
    }
}

impl TestGroup {
    #[inline(never)]
    fn find(&self, name: &[u8]) -> u64 {
        let mut text = NameText::EMPTY;
        text.read(name);
        match self {
            Self::Automaton(dfa) if matches_one(dfa, text.octets()) => walk(dfa, text.octets()),
            Self::Automaton(_) => 0,
            Self::Alone(test) => u64::from(test.holds(text.octets())),
        }
    }
}

/// Reports whether a separate automaton matches the text. It usually stops at the first octets.
#[inline]
fn matches_one(dfa: &dense::DFA<Vec<u32>>, text: &[u8]) -> bool {
    // An automaton without quit octets cannot fail.
    dfa.try_search_fwd(&Input::new(text).earliest(true)).is_ok_and(|found| found.is_some())
}

/// Returns the result of a group: one bit for each matching pattern. Matches are reported one octet
/// late, so the end of the text is a separate step.
#[cold]
fn walk(dfa: &dense::DFA<Vec<u32>>, text: &[u8]) -> u64 {
    let Ok(mut state) = dfa.start_state(&start::Config::new()) else { return 0 };
    let mut found = 0u64;
    for octet in text {
        state = dfa.next_state(state, *octet);
        if dfa.is_match_state(state) {
            found |= matched(dfa, state);
        }
    }
    state = dfa.next_eoi_state(state);
    if dfa.is_match_state(state) {
        found |= matched(dfa, state);
    }
    found
}

fn matched(dfa: &dense::DFA<Vec<u32>>, state: StateID) -> u64 {
    (0..dfa.match_len(state))
        .fold(0, |found, index| found | 1 << dfa.match_pattern(state, index).as_u32())
}

fn automaton(tests: &[TextTest], memory: usize) -> Option<dense::DFA<Vec<u32>>> {
    let config = dense::Config::new()
        .match_kind(MatchKind::All)
        .start_kind(StartKind::Unanchored)
        // Names are too short to benefit from a search for the first octets of patterns.
        .accelerate(false)
        .dfa_size_limit(Some(memory))
        .determinize_size_limit(Some(2 * memory));
    let patterns: Vec<String> = tests.iter().map(TextTest::as_pattern).collect();
    let limits = thompson::Config::new().utf8(false).nfa_size_limit(Some(memory));
    dense::Builder::new()
        .configure(config)
        .syntax(expression::syntax(MAX_PATTERN_DEPTH))
        .thompson(limits)
        .build_many(&patterns)
        .ok()
}

#[cfg(test)]
mod tests {
    use super::super::text::Pattern;
    use super::*;

    fn wire(text: &str) -> Box<[u8]> {
        super::super::action::name(text).unwrap()
    }

    #[test]
    fn any_octet_is_within_what_a_pattern_spans() {
        let sources = [r"^xtrack.*\.bad$", r"^xtrack.\.bad$", r"^xtrack[^.]\.bad$", r"^x.{6}\.b"];
        let tests: Vec<TextTest> =
            sources.iter().map(|source| TextTest::Matches(Pattern::new(source).unwrap())).collect();
        let (patterns, places) = Patterns::build(&tests);
        for octet in 0..=0xff_u8 {
            let name = [&b"\x07xtrack"[..], &[octet.to_ascii_lowercase()], b"\x03bad\x00"].concat();
            for (test, place) in tests.iter().zip(&places) {
                assert!(test.holds(NameText::of(&name).octets()), "{test:?} {octet}");
                assert!(patterns.matches(*place, &name, &mut { Memo::EMPTY }), "{test:?} {octet}");
                let raw = [&b"xtrack"[..], &[octet], b".bad"].concat();
                assert!(octet == b'.' || test.holds(&raw), "{test:?} {octet}");
            }
        }
    }

    #[test]
    fn every_pattern_answers_as_it_does_alone() {
        let sources = [
            r"^ads?\d*\.",
            "track",
            r"\.zip$",
            "^$",
            "a.*b.*c",
            r"^[a-z]{3}\.com$",
            "",
            r"\bcdn\b",
        ];
        let mut tests: Vec<TextTest> =
            sources.iter().map(|source| TextTest::Matches(Pattern::new(source).unwrap())).collect();
        // There are more patterns than one group holds, and one pattern is too large for an
        // automaton.
        tests.extend((0..100).map(|number| TextTest::Contains(format!("n{number}"))));
        tests.extend(["[ab].{30}x"].map(|source| TextTest::Matches(Pattern::new(source).unwrap())));
        let (patterns, places) = Patterns::build(&tests);
        assert!(patterns.groups.iter().any(|group| matches!(group, TestGroup::Alone(_))));
        let long = format!("a{}x.example", "b".repeat(30));
        for name in
            ["ads1.example.com", "n17.tracker.zip", ".", "abc.com", "my-cdn.b.c", "n99", &long]
        {
            let mut memo = Memo::EMPTY;
            for (test, place) in tests.iter().zip(&places) {
                let alone = test.holds(NameText::of(&wire(name)).octets());
                assert_eq!(
                    patterns.matches(*place, &wire(name), &mut memo),
                    alone,
                    "{test:?} of {name}"
                );
            }
        }
    }
}
