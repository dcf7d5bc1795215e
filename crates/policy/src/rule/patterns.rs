//! Matching of many patterns: automata that find all patterns of a group in one pass over a name.
//!
//! A group is a deterministic automaton of at most 64 patterns and costs a table look-up per octet
//! of the name. Groups that grow too large are split. A pattern that is too large by itself, or for
//! which no work is left, is matched separately, also in time linear in the name.

use regex_automata::Input;
use regex_automata::dfa::Automaton;
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;

use super::determinize::{Dfa, WorkBudget};
use super::text::{NameText, TextTest};

/// Maximum number of patterns of a group, which is the number of bits in the group's result.
const GROUP: usize = 64;
/// Maximum number of octets of the automaton of a group.
const GROUP_MEMORY: usize = 4 << 20;
/// Maximum number of octets of all automata. Further patterns are matched one by one.
const ALL_MEMORY: usize = 64 << 20;

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
    Automaton(Box<Dfa>),
    Alone(TextTest),
}

impl Patterns {
    /// Builds the automata. Returns the position of each test's pattern, in the order of the tests.
    pub(super) fn build(tests: &[TextTest]) -> (Self, Vec<PatternId>) {
        Self::build_within(tests, WorkBudget::of(tests.len()))
    }

    fn build_within(tests: &[TextTest], work: WorkBudget) -> (Self, Vec<PatternId>) {
        let mut builder = Builder {
            tests,
            work,
            memory: ALL_MEMORY,
            groups: Vec::new(),
            places: vec![PatternId::numbered(0); tests.len()],
        };
        let all: Vec<usize> = (0..tests.len()).collect();
        for chunk in all.chunks(GROUP) {
            builder.add_chunk(chunk);
        }
        (Self { groups: builder.groups }, builder.places)
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

/// The groups that are being built. Tests are identified by their indices.
struct Builder<'t> {
    tests: &'t [TextTest],
    work: WorkBudget,
    /// Number of octets that automata may still take.
    memory: usize,
    groups: Vec<TestGroup>,
    places: Vec<PatternId>,
}

impl Builder<'_> {
    /// Adds the tests of one group. An exponential pattern would make each group with it too large,
    /// so it is kept apart. To find such patterns, large patterns are built alone first, and the
    /// other patterns if the group is still too large.
    fn add_chunk(&mut self, chunk: &[usize]) {
        let chunk = self.without_exponential(chunk, TextTest::is_large);
        if self.add_group(&chunk) {
            return;
        }
        let rest = self.without_exponential(&chunk, |_| true);
        if rest.len() < chunk.len() {
            self.add(&rest);
        } else {
            self.add_halves(&rest);
        }
    }

    /// Adds the suspected tests that have no automaton, each alone. Returns the other tests.
    fn without_exponential(
        &mut self,
        tests: &[usize],
        is_suspected: impl Fn(&TextTest) -> bool,
    ) -> Vec<usize> {
        let (mut rest, all) = (Vec::new(), self.tests);
        for &test in tests {
            if is_suspected(&all[test]) && self.automaton(&[test]).is_none() {
                self.add_alone(test);
            } else {
                rest.push(test);
            }
        }
        rest
    }

    fn add(&mut self, tests: &[usize]) {
        if !self.add_group(tests) {
            self.add_halves(tests);
        }
    }

    fn add_halves(&mut self, tests: &[usize]) {
        if let [test] = tests {
            return self.add_alone(*test);
        }
        let (first, rest) = tests.split_at(tests.len() / 2);
        self.add(first);
        self.add(rest);
    }

    /// Adds the tests as one group, unless its automaton is too large.
    fn add_group(&mut self, tests: &[usize]) -> bool {
        if tests.is_empty() {
            return true;
        }
        let Some(dfa) = self.automaton(tests) else { return false };
        self.memory = self.memory.saturating_sub(dfa.memory_usage());
        let group = self.groups.len() as u32;
        self.groups.push(TestGroup::Automaton(Box::new(dfa)));
        for (bit, &test) in (0..).zip(tests) {
            self.places[test] = PatternId { group, bit };
        }
        true
    }

    fn add_alone(&mut self, test: usize) {
        self.places[test] = PatternId { group: self.groups.len() as u32, bit: 0 };
        self.groups.push(TestGroup::Alone(self.tests[test].clone()));
    }

    fn automaton(&mut self, tests: &[usize]) -> Option<Dfa> {
        let tests: Vec<&TextTest> = tests.iter().map(|test| &self.tests[*test]).collect();
        self.work.automaton(&tests, self.memory.min(GROUP_MEMORY))
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

/// Reports whether any pattern of the group matches. Most names match none, which the search finds
/// at their first octets.
#[inline]
fn matches_one(dfa: &Dfa, text: &[u8]) -> bool {
    // The search fails only at octets that the automaton is built to stop at, and this automaton
    // has none.
    dfa.try_search_fwd(&Input::new(text).earliest(true)).is_ok_and(|found| found.is_some())
}

/// Returns the result of a group: one bit for each matching pattern. Matches are reported one octet
/// late, so the end of the text is a separate step.
#[cold]
fn walk(dfa: &Dfa, text: &[u8]) -> u64 {
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

fn matched(dfa: &Dfa, state: StateID) -> u64 {
    (0..dfa.match_len(state))
        .fold(0, |found, index| found | 1 << dfa.match_pattern(state, index).as_u32())
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
        let tests: Vec<TextTest> = sources.iter().map(|source| matches(source)).collect();
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

    fn matches(source: &str) -> TextTest {
        TextTest::Matches(Pattern::new(source).unwrap())
    }

    /// Returns a pattern whose automaton is exponential.
    fn exponential(number: usize) -> TextTest {
        matches(&format!("^(a|aa|b)*[a-z0-9.]{{1,{}}}q{number}.*(x|y)+z$", 60 + number % 20))
    }

    /// Checks that each pattern matches these names exactly if it does alone.
    #[track_caller]
    fn check((patterns, places): &(Patterns, Vec<PatternId>), tests: &[TextTest], names: &[&str]) {
        for name in names.iter().map(|name| wire(name)) {
            let mut memo = Memo::EMPTY;
            for (test, place) in tests.iter().zip(places) {
                let alone = test.holds(NameText::of(&name).octets());
                assert_eq!(patterns.matches(*place, &name, &mut memo), alone, "{test:?} {name:?}");
            }
        }
    }

    /// Returns the numbers of automata, and of patterns that are matched one by one.
    fn kinds(patterns: &Patterns) -> (usize, usize) {
        let is_alone = |group: &&TestGroup| matches!(group, TestGroup::Alone(_));
        let alone = patterns.groups.iter().filter(is_alone).count();
        (patterns.groups.len() - alone, alone)
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
        let mut tests: Vec<TextTest> = sources.iter().map(|source| matches(source)).collect();
        // More patterns than a group holds, and some that are too large for an automaton.
        tests.extend((0..100).map(|number| TextTest::Contains(format!("n{number}"))));
        tests.extend(["[ab].{30}x"].map(matches));
        tests.extend((0..3).map(exponential));
        let built = Patterns::build(&tests);
        assert_eq!(kinds(&built.0), (2, 4));
        let long = format!("a{}x.example", "b".repeat(30));
        let names = ["ads1.example.com", "n17.tracker.zip", ".", "abc.com", "my-cdn.b.c", "n99"];
        check(&built, &tests, &names);
        check(&built, &tests, &[&long, "aab.n1.q0.xyz", "bq1xz", "aq2.x.yyz", "q2xz"]);
    }

    #[test]
    fn exponential_patterns_leave_the_groups_of_others_whole() {
        let ordinary = |number: usize| matches(&format!(r"^(.+[_.-])?ads?{number}[0-9]*\."));
        // Each group has one that is small, so that only the failure of the group shows it.
        let test = |number: usize| match number % 64 {
            9 => exponential(number),
            21 => matches(&format!("[ab].{{18}}x{number}")),
            _ => ordinary(number),
        };
        let tests: Vec<TextTest> = (0..128).map(test).collect();
        let built = Patterns::build(&tests);
        assert_eq!(kinds(&built.0), (2, 4));
        let names = ["x.ads7.example", "ads100.x", "aabq9xyz", "bq73yz", "q73.xz", "ads8"];
        check(&built, &tests, &names);
        let late = format!("a{}x21", "b".repeat(18));
        check(&built, &tests, &[&late]);
    }

    #[test]
    fn without_work_each_pattern_is_matched_alone() {
        let mut tests: Vec<TextTest> = (0..70).map(exponential).collect();
        tests.extend((0..70).map(|number| TextTest::Contains(format!("n{number}"))));
        let names = ["bq1xz", "n17.tracker.zip", "aab.n1.q0.xyz", "q69xz", "."];
        let built = Patterns::build_within(&tests, WorkBudget::steps(0));
        assert_eq!(kinds(&built.0), (0, 140));
        check(&built, &tests, &names);
        // Enough for a few of the exponential patterns.
        let built = Patterns::build_within(&tests, WorkBudget::steps(32 << 20));
        assert_eq!(kinds(&built.0), (0, 140));
        check(&built, &tests, &names);
    }
}
