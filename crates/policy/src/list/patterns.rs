//! All patterns of an image as one matcher.
//!
//! An Aho-Corasick automaton finds the required letters of all patterns in one pass. Only patterns
//! with required letters in the name are tried, each once. The few regular expressions without
//! required letters share one automaton, which finds all matches together. The patterns of the
//! operator's own lists are tried first. [`Steps`] counts the work.

use std::collections::HashMap;
use std::fmt;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{self, DFA};
use regex_automata::util::syntax::parse_with;
use regex_automata::{Input, PatternID, PatternSet};
use regex_syntax::hir::Hir;

use super::automaton::{self, Automaton};
use super::limits::{
    MAX_LITERAL, MAX_PATTERN, MAX_REGEX_DEPTH, MAX_REGEX_OCTETS, MAX_REGEXES_OCTETS,
    MIN_REGEX_LITERAL,
};
use super::pattern::{glob_literal, glob_matches, required_literals};
use super::steps::{self, Exhausted, Steps};
use crate::expression;

/// Number of octets of the table for the automaton of the expressions without required letters. Its
/// states are built when they are needed.
const TABLE_OCTETS: usize = 2 << 20;

/// Names that no list targets. A pattern that matches all of them is taken to match everything.
const PROBES: [&str; 2] = ["q7zx0-j.w9vk.invalid", "8kf.xq--3.test"];

/// An error in a pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PatternError {
    /// The text is too long.
    TooLong,
    /// The automaton is too large.
    TooLarge,
    /// The text is not a regular expression, or uses back-references or look-around.
    Syntax(String),
    /// Too many other patterns require the same letters in a name.
    SharedLetters,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("the pattern is too long"),
            Self::TooLarge => f.write_str("the regular expression is too large"),
            Self::Syntax(error) => write!(f, "the regular expression is wrong: {error}"),
            Self::SharedLetters => f.write_str("too many patterns require the same letters"),
        }
    }
}

/// The kind of a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum PatternKind {
    Glob,
    Regex,
    NotRegex,
}

impl PatternKind {
    pub(super) const fn octet(self) -> u8 {
        match self {
            Self::Glob => 0,
            Self::Regex => 1,
            Self::NotRegex => 2,
        }
    }

    pub(super) const fn from_octet(octet: u8) -> Option<Self> {
        match octet {
            0 => Some(Self::Glob),
            1 => Some(Self::Regex),
            2 => Some(Self::NotRegex),
            _ => None,
        }
    }
}

/// A parsed pattern.
struct Read {
    /// The syntax tree of an expression.
    hir: Option<Hir>,
    /// Letter sequences: a matching name contains at least one of them. `None` if the pattern must
    /// be tried on every name.
    literals: Option<Vec<Vec<u8>>>,
}

fn read(form: PatternKind, text: &str) -> Result<Read, PatternError> {
    if text.len() > MAX_PATTERN {
        return Err(PatternError::TooLong);
    }
    if form == PatternKind::Glob {
        return Ok(Read {
            hir: None,
            literals: Some(vec![shortened(glob_literal(text).as_bytes())]),
        });
    }
    let hir = parse(text)?;
    // The syntax tree, if the pattern is an expression.
    let is_found =
        |literals: &Vec<Vec<u8>>| literals.iter().all(|literal| literal.len() >= MIN_REGEX_LITERAL);
    let literals = required_literals(&hir).filter(is_found).filter(|_| form == PatternKind::Regex);
    let literals = literals.map(|all| all.iter().map(|literal| shortened(literal)).collect());
    Ok(Read { hir: Some(hir), literals })
}

/// Returns the start of a literal, so that it is short. Every name with the whole literal also
/// contains the start.
fn shortened(literal: &[u8]) -> Vec<u8> {
    literal[..literal.len().min(MAX_LITERAL)].to_vec()
}

/// The result of a pattern's check: its cost, and the letters that select it.
pub(super) struct Checked {
    /// Letter sequences: a matching name contains at least one of them. `None` if the pattern must
    /// be tried on every name.
    pub(super) literals: Option<Vec<Vec<u8>>>,
    /// Number of octets of the automaton of the pattern.
    pub(super) octets: usize,
    /// Number of states of the automaton of the pattern.
    pub(super) states: usize,
    /// Whether the pattern matches every name.
    pub(super) covers_everything: bool,
}

/// Checks a pattern.
///
/// # Errors
/// The pattern is invalid or too large.
pub(super) fn check(form: PatternKind, text: &str) -> Result<Checked, PatternError> {
    let Read { hir, literals } = read(form, text)?;
    let Some(hir) = hir else {
        let covers = |probe: &&str| {
            glob_matches(text, probe.as_bytes(), &mut { steps::Trial::WHOLE }) == Ok(true)
        };
        return Ok(Checked {
            literals,
            octets: 0,
            states: 0,
            covers_everything: PROBES.iter().all(covers),
        });
    };
    let automaton = Automaton::of(&hir, MAX_REGEX_OCTETS)?;
    let mut states = automaton::States::default();
    let mut covers_everything = true;
    for probe in PROBES {
        let found = automaton.finds(probe.as_bytes(), &mut states, &mut { steps::Trial::WHOLE });
        let found = found.map_err(|Exhausted| PatternError::TooLarge)?;
        covers_everything &= found == (form == PatternKind::Regex);
    }
    Ok(Checked {
        literals,
        octets: automaton.octets(),
        states: automaton.states(),
        covers_everything,
    })
}

/// Parses a regular expression over octets, ignoring case.
pub(super) fn parse(text: &str) -> Result<Hir, PatternError> {
    let hir = parse_with(text, &expression::syntax(MAX_REGEX_DEPTH)).map_err(|error| {
        let reason = match error {
            regex_syntax::Error::Parse(error) => error.kind().to_string(),
            regex_syntax::Error::Translate(error) => error.kind().to_string(),
            _ => "not understood".to_owned(),
        };
        PatternError::Syntax(reason)
    })?;
    // An expression can turn Unicode on, but the tables for Unicode word boundaries are not
    // compiled in.
    if hir.properties().look_set().contains_word_unicode() {
        return Err(PatternError::Syntax("Unicode word boundaries are not available".to_owned()));
    }
    Ok(hir)
}

/// The way in which a pattern is tried on a name.
enum Trial {
    Glob(Box<str>),
    Regex(Automaton),
    /// The common automaton of all patterns without required letters tries the pattern.
    Always,
}

/// The patterns of an image. Their numbers are their indices.
pub(super) struct Patterns {
    /// Two groups: the patterns of the operator's own lists, then all other patterns.
    groups: Vec<PatternGroup>,
}

/// Patterns that are tried together.
struct PatternGroup {
    /// The number of the first pattern.
    first: u32,
    trials: Vec<Trial>,
    literals: Option<AhoCorasick>,
    /// For each literal, the indices of the patterns it selects.
    by_literal: Vec<Vec<u32>>,
    always: Option<Always>,
}

struct Always {
    automaton: DFA,
    /// Number of states of the expressions' automaton. An octet costs this number of steps if the
    /// next state of the table is not built yet.
    states: usize,
    /// For each index in the automaton, the index of the pattern and whether the pattern is
    /// inverted.
    patterns: Vec<(u32, PatternKind)>,
}

/// Working memory for matching: for one image and one thread.
pub(super) struct Work {
    text: Vec<u8>,
    states: automaton::States,
    groups: Vec<GroupWork>,
}

struct GroupWork {
    /// The number of names read so far, which marks entries of the current name.
    name: u32,
    /// For each literal, the last name that contained it; for each pattern, the last name on which
    /// it was tried.
    literals: Vec<u32>,
    trials: Vec<u32>,
    always: Option<(dfa::Cache, PatternSet)>,
}

impl Patterns {
    /// Builds a matcher of patterns, given by kind and text. The first `own` patterns belong to the
    /// operator's own lists.
    ///
    /// # Errors
    /// A pattern is invalid, or all patterns together are too large.
    pub(super) fn build(
        patterns: &[(PatternKind, &str)],
        own: usize,
    ) -> Result<Self, PatternError> {
        let (own, others) = patterns.split_at(own.min(patterns.len()));
        let mut groups = Vec::new();
        for (first, patterns) in [(0, own), (own.len() as u32, others)] {
            if !patterns.is_empty() {
                groups.push(PatternGroup::build(first, patterns)?);
            }
        }
        Ok(Self { groups })
    }

    /// Reports whether there are no patterns.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Creates working memory.
    pub(super) fn work(&self) -> Work {
        let text = Vec::with_capacity(avocet_wire::name::MAX_NAME);
        Work {
            text,
            states: automaton::States::default(),
            groups: self.groups.iter().map(PatternGroup::work).collect(),
        }
    }

    /// Calls `take` once with the number of each pattern that matches a name in lower-case wire
    /// form. Stops when no steps are left.
    pub(super) fn matching(
        &self,
        name: &[u8],
        work: &mut Work,
        steps: &mut Steps,
        mut take: impl FnMut(u32),
    ) {
        let Work { text, states, groups } = work;
        write_text(name, text);
        for (group, work) in self.groups.iter().zip(groups) {
            if group
                .matching(text, (work, states), steps, |place| take(group.first + place))
                .is_err()
            {
                return;
            }
        }
    }
}

impl PatternGroup {
    fn build(first: u32, patterns: &[(PatternKind, &str)]) -> Result<Self, PatternError> {
        let (mut trials, mut literals) = (Vec::new(), HashMap::<Vec<u8>, Vec<u32>>::new());
        let (mut always, mut always_patterns) = (Vec::new(), Vec::new());
        for (place, &(form, text)) in (0..).zip(patterns) {
            let read = read(form, text)?;
            trials.push(match (read.hir, &read.literals) {
                (None, _) => Trial::Glob(text.into()),
                (Some(hir), Some(_)) => Trial::Regex(Automaton::of(&hir, MAX_REGEX_OCTETS)?),
                (Some(hir), None) => {
                    always.push(hir);
                    always_patterns.push((place, form));
                    Trial::Always
                }
            });
            for literal in read.literals.unwrap_or_default() {
                let sharing = literals.entry(literal).or_default();
                if sharing.last() != Some(&place) {
                    sharing.push(place);
                }
            }
        }
        let (letters, by_literal): (Vec<_>, Vec<_>) = literals.into_iter().unzip();
        let always =
            (!always.is_empty()).then(|| Always::build(&always, always_patterns)).transpose()?;
        Ok(Self { first, trials, literals: finder(&letters)?, by_literal, always })
    }

    fn work(&self) -> GroupWork {
        let always = self.always.as_ref();
        GroupWork {
            name: 0,
            literals: vec![0; self.by_literal.len()],
            trials: vec![0; self.trials.len()],
            always: always.map(|always| {
                (always.automaton.create_cache(), PatternSet::new(always.patterns.len()))
            }),
        }
    }

    fn matching(
        &self,
        text: &[u8],
        (work, states): (&mut GroupWork, &mut automaton::States),
        steps: &mut Steps,
        mut take: impl FnMut(u32),
    ) -> Result<(), Exhausted> {
        work.begin_name();
        if let Some(finder) = &self.literals {
            for found in finder.find_overlapping_iter(text) {
                steps.spend(1)?;
                let literal = found.pattern().as_usize();
                if std::mem::replace(&mut work.literals[literal], work.name) == work.name {
                    continue;
                }
                for &place in &self.by_literal[literal] {
                    steps.spend(1)?;
                    if std::mem::replace(&mut work.trials[place as usize], work.name) != work.name
                        && steps.trial(|trial| {
                            self.trials[place as usize].matches(text, states, trial)
                        })?
                    {
                        take(place);
                    }
                }
            }
        }
        match (&self.always, &mut work.always) {
            (Some(always), Some((cache, set))) => always.matching(text, (cache, set), steps, take),
            _ => Ok(()),
        }
    }
}

impl GroupWork {
    fn begin_name(&mut self) {
        self.name = self.name.wrapping_add(1);
        if self.name == 0 {
            self.literals.fill(0);
            self.trials.fill(0);
            self.name = 1;
        }
    }
}

impl Trial {
    fn matches(
        &self,
        text: &[u8],
        states: &mut automaton::States,
        trial: &mut steps::Trial,
    ) -> Result<bool, Exhausted> {
        match self {
            Self::Glob(glob) => glob_matches(glob, text, trial),
            Self::Regex(automaton) => automaton.finds(text, states, trial),
            Self::Always => Ok(false),
        }
    }
}

impl Always {
    fn build(expressions: &[Hir], patterns: Vec<(u32, PatternKind)>) -> Result<Self, PatternError> {
        let config = dfa::Config::new()
            .match_kind(regex_automata::MatchKind::All)
            .cache_capacity(TABLE_OCTETS)
            .skip_cache_capacity_check(true);
        let nfa = automaton::build(expressions, MAX_REGEXES_OCTETS)?;
        let states = nfa.states().len();
        let automaton = DFA::builder()
            .configure(config)
            .build_from_nfa(nfa)
            .map_err(|_| PatternError::TooLarge)?;
        Ok(Self { automaton, states, patterns })
    }

    /// Calls `take` with the number of each matching pattern. If the steps run out, finds no
    /// pattern, because the result of inverted patterns is then unknown.
    fn matching(
        &self,
        text: &[u8],
        (cache, set): (&mut dfa::Cache, &mut PatternSet),
        steps: &mut Steps,
        mut take: impl FnMut(u32),
    ) -> Result<(), Exhausted> {
        set.clear();
        let start = self.automaton.start_state_forward(cache, &Input::new(text));
        let mut state = start.map_err(|_| Exhausted)?;
        for octet in text {
            state = self.next(state, *octet, cache, steps)?;
            // The automaton tags only match states and dead states; in all others the search
            // continues.
            if state.is_tagged() {
                if state.is_dead() {
                    break;
                }
                self.note(state, cache, set, steps)?;
            }
        }
        if !state.is_dead() {
            let made = (cache.memory_usage(), cache.clear_count());
            state = self.automaton.next_eoi_state(cache, state).map_err(|_| Exhausted)?;
            steps.spend(self.cost_since(made, cache))?;
            self.note(state, cache, set, steps)?;
        }
        for (number, (place, form)) in self.patterns.iter().enumerate() {
            if set.contains(PatternID::must(number)) == (*form == PatternKind::Regex) {
                take(*place);
            }
        }
        Ok(())
    }

    /// Returns the state after this octet. If the table lacks the state, derives it from all states
    /// of the expressions, which costs more steps.
    #[inline]
    fn next(
        &self,
        state: LazyStateID,
        octet: u8,
        cache: &mut dfa::Cache,
        steps: &mut Steps,
    ) -> Result<LazyStateID, Exhausted> {
        if state.is_tagged() {
            // After a match, the table does not show whether the next state is built already.
            let made = (cache.memory_usage(), cache.clear_count());
            let next = self.automaton.next_state(cache, state, octet).map_err(|_| Exhausted)?;
            return steps.spend(self.cost_since(made, cache)).map(|()| next);
        }
        let next = self.automaton.next_state_untagged(cache, state, octet);
        if next.is_unknown() {
            steps.spend(self.states)?;
            return self.automaton.next_state(cache, state, octet).map_err(|_| Exhausted);
        }
        steps.spend(1).map(|()| next)
    }

    fn cost_since(&self, made: (usize, usize), cache: &dfa::Cache) -> usize {
        if made == (cache.memory_usage(), cache.clear_count()) { 1 } else { self.states }
    }

    /// Records the patterns that match in this state.
    fn note(
        &self,
        state: LazyStateID,
        cache: &dfa::Cache,
        set: &mut PatternSet,
        steps: &mut Steps,
    ) -> Result<(), Exhausted> {
        if !state.is_match() {
            return Ok(());
        }
        let found = self.automaton.match_len(cache, state);
        steps.spend(found)?;
        for place in 0..found {
            set.insert(self.automaton.match_pattern(cache, state, place));
        }
        Ok(())
    }
}

fn finder(letters: &[Vec<u8>]) -> Result<Option<AhoCorasick>, PatternError> {
    if letters.is_empty() {
        return Ok(None);
    }
    let mut builder = AhoCorasick::builder();
    builder.match_kind(MatchKind::Standard).kind(Some(AhoCorasickKind::ContiguousNFA));
    builder.build(letters).map(Some).map_err(|_| PatternError::TooLarge)
}

/// Writes the labels of a name as text with dots. A dot inside a label is replaced.
fn write_text(name: &[u8], text: &mut Vec<u8>) {
    text.clear();
    for label in avocet_wire::name::labels(name) {
        if !text.is_empty() {
            text.push(b'.');
        }
        text.extend(label.iter().map(|octet| if *octet == b'.' { 0 } else { *octet }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matching(patterns: &[(PatternKind, &str)], name: &[u8]) -> Vec<u32> {
        let mut found = Vec::new();
        for own in 0..=patterns.len() {
            let matcher = Patterns::build(patterns, own).unwrap();
            let (mut work, mut steps, mut its) = (matcher.work(), Steps::of_names(), Vec::new());
            steps.begin_name();
            matcher.matching(name, &mut work, &mut steps, |number| its.push(number));
            its.sort_unstable();
            assert!(own == 0 || its == found);
            found = its;
        }
        found
    }

    #[test]
    fn globs_and_expressions_with_and_without_letters_are_found() {
        let patterns = [
            (PatternKind::Glob, "||ads*.example|"),
            (PatternKind::Regex, "^track(er|ing)[0-9]+\\."),
            (PatternKind::Regex, "^[0-9]+\\."),
            (PatternKind::NotRegex, "example$"),
            (PatternKind::Regex, "EXAMPLE$"),
            (PatternKind::Glob, "-banner-"),
        ];
        assert_eq!(matching(&patterns, b"\x04ads7\x07example\x00"), [0, 4]);
        assert_eq!(matching(&patterns, b"\x08tracker1\x01x\x00"), [1, 3]);
        assert_eq!(matching(&patterns, b"\x0212\x0atracking10\x07example\x00"), [2, 4]);
        assert_eq!(matching(&patterns, b"\x02ok\x07example\x00"), [4]);
        assert_eq!(matching(&patterns, b"\x0ax-banner-x\x00"), [3, 5]);
        assert_eq!(matching(&[], b"\x01x\x00"), [0; 0]);
    }

    #[test]
    fn a_dot_within_a_label_is_none() {
        assert_eq!(matching(&[(PatternKind::Regex, "a\\.bcd")], b"\x05a.bcd\x00"), [0; 0]);
        assert_eq!(matching(&[(PatternKind::Regex, "a\\.bcd")], b"\x01a\x03bcd\x00"), [0]);
    }

    #[test]
    fn what_is_wrong_or_too_large_is_refused() {
        assert!(matches!(check(PatternKind::Regex, "(a"), Err(PatternError::Syntax(_))));
        assert!(matches!(check(PatternKind::Regex, "(a)\\1"), Err(PatternError::Syntax(_))));
        assert!(matches!(check(PatternKind::Regex, "(?=a)b"), Err(PatternError::Syntax(_))));
        for text in [r"(?u:\b)abcd", r"(?u:\B)", r"(?u:\b{start})abcd"] {
            assert!(matches!(check(PatternKind::Regex, text), Err(PatternError::Syntax(_))));
        }
        assert_eq!(
            check(PatternKind::Regex, "((a{1,100}){1,100}){1,100}").err(),
            Some(PatternError::TooLarge)
        );
        assert!(matches!(
            check(PatternKind::Regex, &"(".repeat(900)),
            Err(PatternError::Syntax(_))
        ));
        assert_eq!(check(PatternKind::Glob, &"a".repeat(2000)).err(), Some(PatternError::TooLong));
    }

    #[test]
    fn patterns_of_everything_are_known() {
        for (form, text, expected) in [
            (PatternKind::Regex, ".*", true),
            (PatternKind::Regex, "", true),
            (PatternKind::Regex, "[a-z]", true),
            (PatternKind::Regex, "^ads", false),
            (PatternKind::Glob, ".", true),
            (PatternKind::Glob, "ads", false),
        ] {
            assert_eq!(check(form, text).unwrap().covers_everything, expected, "{text}");
        }
    }
}
