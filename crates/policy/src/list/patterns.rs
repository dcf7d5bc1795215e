//! All patterns of an image as one matcher.
//!
//! One pass of an Aho-Corasick automaton finds the letters that patterns need; only those whose
//! letters are in the name are tried. The regular expressions among these are in one automaton,
//! each with a start of its own; the few without letters are in another one, which tells all that
//! match at once. Everything is linear in the length of the name.

use std::collections::HashMap;
use std::fmt;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use regex_automata::hybrid::dfa::{self, DFA};
use regex_automata::nfa::thompson::pikevm::{self, PikeVM};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::{Anchored, Input, PatternID, PatternSet};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Dot, Hir, Look, Repetition};

use super::limits::{MAX_PATTERN, MAX_REGEX_DEPTH, MAX_REGEX_OCTETS, MAX_REGEXES_OCTETS, MIN_REGEX_LITERAL};
use super::pattern::{glob_literal, glob_matches, required_literals};

/// Octets of the table in which the automaton of the expressions without letters is worked out.
const TABLE_OCTETS: usize = 2 << 20;

/// Names that no list means. A pattern that matches them matches everything.
const PROBES: [&str; 2] = ["q7zx0-j.w9vk.invalid", "8kf.xq--3.test"];

/// Why a pattern is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PatternError {
    /// Its text is too long.
    TooLong,
    /// Its automaton is too large.
    TooLarge,
    /// It is no regular expression, or one with back-references or look-around.
    Syntax(String),
    /// Too many others need the same letters in a name.
    SharedLetters,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => f.write_str("the pattern is too long"),
            Self::TooLarge => f.write_str("the regular expression is too large"),
            Self::Syntax(error) => write!(f, "the regular expression is wrong: {error}"),
            Self::SharedLetters => f.write_str("too many patterns ask for the same letters"),
        }
    }
}

/// What a pattern is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Form {
    Glob,
    Regex,
    NotRegex,
}

impl Form {
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

/// A pattern, read.
struct Read {
    /// The tree of an expression.
    hir: Option<Hir>,
    /// The letters it is found by; none if it must always be tried.
    literals: Option<Vec<Vec<u8>>>,
}

fn read(form: Form, text: &str) -> Result<Read, PatternError> {
    if text.len() > MAX_PATTERN {
        return Err(PatternError::TooLong);
    }
    if form == Form::Glob {
        return Ok(Read { hir: None, literals: Some(vec![glob_literal(text).as_bytes().to_vec()]) });
    }
    let hir = parse(text)?;
    // An inverted expression matches names that lack its letters.
    let is_found = |literals: &Vec<Vec<u8>>| literals.iter().all(|literal| literal.len() >= MIN_REGEX_LITERAL);
    let literals = required_literals(&hir).filter(is_found).filter(|_| form == Form::Regex);
    Ok(Read { hir: Some(hir), literals })
}

/// What a pattern costs and how it is found.
pub(super) struct Checked {
    /// The letters it is found by; none if it must always be tried.
    pub(super) literals: Option<Vec<Vec<u8>>>,
    /// Octets of its automaton.
    pub(super) octets: usize,
    /// Whether it matches any name whatsoever.
    pub(super) covers_everything: bool,
}

/// Checks a pattern.
///
/// # Errors
/// It is none, or too large.
pub(super) fn check(form: Form, text: &str) -> Result<Checked, PatternError> {
    let Read { hir, literals } = read(form, text)?;
    let Some(hir) = hir else {
        let covers_everything = PROBES.iter().all(|probe| glob_matches(text, probe.as_bytes()));
        return Ok(Checked { literals, octets: 0, covers_everything });
    };
    let nfa = automaton(&[hir], MAX_REGEX_OCTETS)?;
    let octets = nfa.memory_usage();
    let vm = PikeVM::new_from_nfa(nfa).map_err(|_| PatternError::TooLarge)?;
    let mut cache = vm.create_cache();
    let covers_everything = form == Form::Regex && PROBES.iter().all(|probe| vm.is_match(&mut cache, *probe));
    Ok(Checked { literals, octets, covers_everything })
}

/// The tree of a regular expression over octets, whatever the case.
pub(super) fn parse(text: &str) -> Result<Hir, PatternError> {
    let mut builder = ParserBuilder::new();
    builder.unicode(false).utf8(false).case_insensitive(true).nest_limit(MAX_REGEX_DEPTH);
    builder.build().parse(text).map_err(|error| {
        let reason = match error {
            regex_syntax::Error::Parse(error) => error.kind().to_string(),
            regex_syntax::Error::Translate(error) => error.kind().to_string(),
            _ => "not understood".to_owned(),
        };
        PatternError::Syntax(reason)
    })
}

fn automaton(expressions: &[Hir], limit: usize) -> Result<NFA, PatternError> {
    let config = thompson::Config::new().utf8(false).which_captures(WhichCaptures::None).nfa_size_limit(Some(limit));
    thompson::Compiler::new().configure(config).build_many_from_hir(expressions).map_err(|_| PatternError::TooLarge)
}

/// An expression that, anchored where the name begins, finds what `hir` finds anywhere.
fn found_anywhere(hir: Hir) -> Hir {
    if hir.properties().look_set_prefix().contains(Look::Start) {
        return hir;
    }
    let any = Repetition { min: 0, max: None, greedy: false, sub: Box::new(Hir::dot(Dot::AnyByte)) };
    Hir::concat(vec![Hir::repetition(any), hir])
}

/// How a pattern is tried.
enum Trial {
    Glob(Box<str>),
    /// By its start in the automaton of those with letters.
    Regex(PatternID),
    /// By the automaton of those without.
    Always,
}

/// The patterns of an image. Their numbers are their places in it.
pub(super) struct Patterns {
    trials: Vec<Trial>,
    literals: Option<AhoCorasick>,
    /// For each literal, the patterns that it may be of.
    by_literal: Vec<Vec<u32>>,
    found: Option<PikeVM>,
    always: Option<Always>,
}

struct Always {
    automaton: DFA,
    /// Number of the pattern and whether it is inverted, by place in the automaton.
    patterns: Vec<(u32, Form)>,
}

/// What matching needs to write into, for one image and one thread.
pub(super) struct Work {
    found: Option<pikevm::Cache>,
    always: Option<(dfa::Cache, PatternSet)>,
    text: Vec<u8>,
}

impl Patterns {
    /// A matcher of these forms and texts.
    ///
    /// # Errors
    /// One of them is no pattern, or all together are too large.
    pub(super) fn build(patterns: &[(Form, &str)]) -> Result<Self, PatternError> {
        let (mut trials, mut literals) = (Vec::new(), HashMap::<Vec<u8>, Vec<u32>>::new());
        let (mut found, mut always, mut always_patterns) = (Vec::new(), Vec::new(), Vec::new());
        for (number, &(form, text)) in (0..).zip(patterns) {
            let read = read(form, text)?;
            trials.push(match (read.hir, &read.literals) {
                (None, _) => Trial::Glob(text.into()),
                (Some(hir), Some(_)) => {
                    found.push(found_anywhere(hir));
                    Trial::Regex(PatternID::new(found.len() - 1).map_err(|_| PatternError::TooLarge)?)
                }
                (Some(hir), None) => {
                    always.push(hir);
                    always_patterns.push((number, form));
                    Trial::Always
                }
            });
            for literal in read.literals.unwrap_or_default() {
                let sharing = literals.entry(literal).or_default();
                if sharing.last() != Some(&number) {
                    sharing.push(number);
                }
            }
        }
        let (letters, by_literal): (Vec<_>, Vec<_>) = literals.into_iter().unzip();
        let always = (!always.is_empty()).then(|| Always::build(&always, always_patterns)).transpose()?;
        Ok(Self { trials, literals: finder(&letters)?, by_literal, found: followed(&found)?, always })
    }

    /// Is there no pattern?
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.trials.is_empty()
    }

    /// Memory to match with.
    pub(super) fn work(&self) -> Work {
        let always = self.always.as_ref();
        Work {
            found: self.found.as_ref().map(PikeVM::create_cache),
            always: always.map(|always| (always.automaton.create_cache(), PatternSet::new(always.patterns.len()))),
            text: Vec::with_capacity(avocet_wire::name::MAX_NAME),
        }
    }

    /// Gives the number of each pattern that matches a folded wire name, some perhaps twice.
    pub(super) fn matching(&self, name: &[u8], work: &mut Work, mut take: impl FnMut(u32)) {
        write_text(name, &mut work.text);
        if let Some(finder) = &self.literals {
            for place in finder.find_overlapping_iter(&work.text) {
                for &number in &self.by_literal[place.pattern().as_usize()] {
                    if self.matches(number, &work.text, work.found.as_mut()) {
                        take(number);
                    }
                }
            }
        }
        if let (Some(always), Some((cache, set))) = (&self.always, &mut work.always) {
            always.matching(&work.text, cache, set, take);
        }
    }

    fn matches(&self, number: u32, text: &[u8], cache: Option<&mut pikevm::Cache>) -> bool {
        match (&self.trials[number as usize], &self.found, cache) {
            (Trial::Glob(glob), ..) => glob_matches(glob, text),
            (Trial::Regex(id), Some(vm), Some(cache)) => {
                vm.is_match(cache, Input::new(text).anchored(Anchored::Pattern(*id)).earliest(true))
            }
            _ => false,
        }
    }
}

impl Always {
    fn build(expressions: &[Hir], patterns: Vec<(u32, Form)>) -> Result<Self, PatternError> {
        let config = dfa::Config::new()
            .match_kind(regex_automata::MatchKind::All)
            .cache_capacity(TABLE_OCTETS)
            .skip_cache_capacity_check(true);
        let nfa = automaton(expressions, MAX_REGEXES_OCTETS)?;
        let automaton = DFA::builder().configure(config).build_from_nfa(nfa).map_err(|_| PatternError::TooLarge)?;
        Ok(Self { automaton, patterns })
    }

    fn matching(&self, text: &[u8], cache: &mut dfa::Cache, set: &mut PatternSet, mut take: impl FnMut(u32)) {
        set.clear();
        // Fails only where octets or the size of the table are configured to end a search.
        let searched = self.automaton.try_which_overlapping_matches(cache, &Input::new(text), set);
        debug_assert!(searched.is_ok());
        for (place, (number, form)) in self.patterns.iter().enumerate() {
            let is_found = set.contains(PatternID::must(place));
            if is_found == (*form == Form::Regex) {
                take(*number);
            }
        }
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

fn followed(expressions: &[Hir]) -> Result<Option<PikeVM>, PatternError> {
    if expressions.is_empty() {
        return Ok(None);
    }
    let vm = PikeVM::new_from_nfa(automaton(expressions, 2 * MAX_REGEXES_OCTETS)?);
    vm.map(Some).map_err(|_| PatternError::TooLarge)
}

/// The labels with dots between them. A dot within a label is no dot.
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

    fn matching(patterns: &[(Form, &str)], name: &[u8]) -> Vec<u32> {
        let matcher = Patterns::build(patterns).unwrap();
        let (mut work, mut found) = (matcher.work(), Vec::new());
        matcher.matching(name, &mut work, |number| found.push(number));
        found.sort_unstable();
        found.dedup();
        found
    }

    #[test]
    fn globs_and_expressions_with_and_without_letters_are_found() {
        let patterns = [
            (Form::Glob, "||ads*.example|"),
            (Form::Regex, "^track(er|ing)[0-9]+\\."),
            (Form::Regex, "^[0-9]+\\."),
            (Form::NotRegex, "example$"),
            (Form::Regex, "EXAMPLE$"),
            (Form::Glob, "-banner-"),
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
        assert_eq!(matching(&[(Form::Regex, "a\\.bcd")], b"\x05a.bcd\x00"), [0; 0]);
        assert_eq!(matching(&[(Form::Regex, "a\\.bcd")], b"\x01a\x03bcd\x00"), [0]);
    }

    #[test]
    fn what_is_wrong_or_too_large_is_refused() {
        assert!(matches!(check(Form::Regex, "(a"), Err(PatternError::Syntax(_))));
        assert!(matches!(check(Form::Regex, "(a)\\1"), Err(PatternError::Syntax(_))));
        assert!(matches!(check(Form::Regex, "(?=a)b"), Err(PatternError::Syntax(_))));
        assert_eq!(check(Form::Regex, "((a{1,100}){1,100}){1,100}").err(), Some(PatternError::TooLarge));
        assert!(matches!(check(Form::Regex, &"(".repeat(900)), Err(PatternError::Syntax(_))));
        assert_eq!(check(Form::Glob, &"a".repeat(2000)).err(), Some(PatternError::TooLong));
    }

    #[test]
    fn patterns_of_everything_are_known() {
        for (form, text, expected) in [
            (Form::Regex, ".*", true),
            (Form::Regex, "", true),
            (Form::Regex, "[a-z]", true),
            (Form::Regex, "^ads", false),
            (Form::Glob, ".", true),
            (Form::Glob, "ads", false),
        ] {
            assert_eq!(check(form, text).unwrap().covers_everything, expected, "{text}");
        }
    }
}
