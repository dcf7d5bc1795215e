//! Tests of a text: equality, prefix, suffix, substring, pattern.
//!
//! Names are tested as lower-case text without the final dot. Octets outside printable ASCII, and
//! dots within a label, are replaced by `?`. The root is the empty text.

use std::cell::Cell;
use std::sync::Arc;

use avocet_wire::name::MAX_NAME;
use avocet_wire::short;
use regex_automata::meta::Regex;

use super::{MAX_ALL_PATTERNS, MAX_PATTERN, MAX_PATTERN_DEPTH, MAX_PATTERN_MEMORY};
use crate::{PolicyError, expression};

/// Number of octets of a compiled pattern above which it is tried alone before it joins a group.
const LARGE_PATTERN: usize = 8 << 10;

/// A test of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TextTest {
    /// The text equals one of these.
    OneOf(Vec<String>),
    /// The text starts with this string.
    StartsWith(String),
    /// The text ends with this string.
    EndsWith(String),
    /// The text contains this string.
    Contains(String),
    /// The pattern matches anywhere in the text.
    Matches(Pattern),
}

impl TextTest {
    /// Creates the test that a method with this name makes in expressions.
    ///
    /// # Errors
    /// The errors of [`Pattern::new`].
    pub(super) fn called(
        method: &str,
        text: &str,
        patterns: &PatternBudget,
    ) -> Result<Self, PolicyError> {
        Ok(match method {
            "matches" => Self::Matches(Pattern::within(patterns, text)?),
            "starts_with" => Self::StartsWith(text.to_ascii_lowercase()),
            "ends_with" => Self::EndsWith(text.to_ascii_lowercase()),
            _ => Self::Contains(text.to_ascii_lowercase()),
        })
    }

    /// Reports whether the test holds for the text, which is in lower case.
    #[must_use]
    pub fn holds(&self, text: &[u8]) -> bool {
        match self {
            Self::OneOf(all) => all.iter().any(|one| one.as_bytes() == text),
            Self::StartsWith(start) => text.starts_with(start.as_bytes()),
            Self::EndsWith(end) => text.ends_with(end.as_bytes()),
            Self::Contains(part) => {
                part.is_empty() || text.windows(part.len()).any(|window| window == part.as_bytes())
            }
            Self::Matches(pattern) => pattern.regex.is_match(text),
        }
    }

    /// Reports whether the test may hold for the text of some name. Such a text has no final dot,
    /// no empty label, and only graphic ASCII. Patterns are not examined.
    pub(super) fn may_hold_for_name(&self) -> bool {
        let is_of_name =
            |text: &str| text.bytes().all(|octet| octet.is_ascii_graphic()) && !text.contains("..");
        match self {
            Self::OneOf(_) | Self::Matches(_) => true,
            Self::StartsWith(start) => is_of_name(start) && !start.starts_with('.'),
            Self::EndsWith(end) => is_of_name(end) && !end.ends_with('.'),
            Self::Contains(part) => is_of_name(part),
        }
    }

    /// Reports whether the test is a pattern much larger than `^ads?[0-9]*\.`, so that it may be
    /// exponential.
    pub(super) fn is_large(&self) -> bool {
        matches!(self, Self::Matches(pattern) if pattern.regex.memory_usage() > LARGE_PATTERN)
    }

    /// Returns a regular expression that makes the same test.
    pub(super) fn as_pattern(&self) -> String {
        match self {
            Self::OneOf(all) => {
                let all: Vec<String> = all.iter().map(|one| escaped(one)).collect();
                format!("^(?:{})$", all.join("|"))
            }
            Self::StartsWith(start) => format!("^{}", escaped(start)),
            Self::EndsWith(end) => format!("{}$", escaped(end)),
            Self::Contains(part) => escaped(part),
            Self::Matches(pattern) => pattern.source.clone(),
        }
    }
}

fn escaped(text: &str) -> String {
    text.bytes().map(|octet| format!(r"\x{octet:02x}")).collect()
}

/// The memory that the regular expressions of all rules together may still take. The limit on
/// memory also limits the work of compiling the expressions. Each request to check a configuration
/// causes this work.
pub(super) struct PatternBudget {
    left: Cell<usize>,
}

impl Default for PatternBudget {
    fn default() -> Self {
        Self { left: Cell::new(MAX_ALL_PATTERNS) }
    }
}

impl PatternBudget {
    fn take(&self, octets: usize) {
        self.left.set(self.left.get().saturating_sub(octets));
    }
}

/// A regular expression over octets, matched in linear time and ignoring case.
#[derive(Clone, Debug)]
pub struct Pattern {
    source: String,
    regex: Arc<Regex>,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// The text is not a regular expression or exceeds a limit. The message is one line.
    pub fn new(source: &str) -> Result<Self, PolicyError> {
        Self::within(&PatternBudget::default(), source)
    }

    /// Compiles a pattern, if the budget permits it.
    ///
    /// # Errors
    /// The errors of [`Pattern::new`], or the budget does not suffice.
    pub(super) fn within(budget: &PatternBudget, source: &str) -> Result<Self, PolicyError> {
        if budget.left.get() == 0 {
            return Err(PolicyError::TooManyPatterns(MAX_ALL_PATTERNS >> 20));
        }
        let compiled = Self::compile(source);
        budget.take(match &compiled {
            Ok(pattern) => pattern.regex.memory_usage(),
            Err(PolicyError::LargePattern) => MAX_PATTERN_MEMORY,
            Err(_) => source.len(),
        });
        compiled
    }

    fn compile(source: &str) -> Result<Self, PolicyError> {
        if source.len() > MAX_PATTERN {
            return Err(PolicyError::LongPattern(MAX_PATTERN));
        }
        let limits = Regex::config().nfa_size_limit(Some(MAX_PATTERN_MEMORY)).utf8_empty(false);
        let syntax = expression::syntax(MAX_PATTERN_DEPTH);
        match Regex::builder().configure(limits).syntax(syntax).build(source) {
            Ok(regex) => Ok(Self { source: source.to_owned(), regex: Arc::new(regex) }),
            Err(error) if error.size_limit().is_some() => Err(PolicyError::LargePattern),
            Err(error) => Err(PolicyError::PatternSyntax(reason(&error))),
        }
    }

    /// Reports whether the pattern matches anywhere in the text.
    #[must_use]
    pub fn is_match(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Pattern {}

/// Returns the last line of the parser's error message, which is the reason.
fn reason(error: &regex_automata::meta::BuildError) -> String {
    let text = match error.syntax_error() {
        Some(error) => error.to_string(),
        None => error.to_string(),
    };
    let last = text.lines().last().unwrap_or_default();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}

/// Number of octets of a name that are processed in one step.
const BLOCK: usize = 16;

/// Maximum number of octets of a name, rounded up to whole blocks.
const ROOM: usize = MAX_NAME.next_multiple_of(BLOCK);

/// The text of a name, on the stack.
pub(super) struct NameText {
    len: usize,
    octets: [u8; ROOM],
}

impl NameText {
    /// The empty text.
    pub(super) const EMPTY: Self = Self { len: 0, octets: [0; ROOM] };

    /// Returns the text of a valid folded name.
    pub(super) fn of(name: &[u8]) -> Self {
        let mut text = Self::EMPTY;
        text.read(name);
        text
    }

    /// Replaces this text by the text of a valid folded name. The memory is reused, because it is
    /// large.
    #[inline]
    pub(super) fn read(&mut self, name: &[u8]) {
        // Neither the first length octet nor the root belongs to the text.
        let labels = name.get(1..name.len().min(MAX_NAME).saturating_sub(1)).unwrap_or_default();
        self.len = labels.len();
        short::copy(labels, &mut self.octets[..labels.len()]);
        for block in
            self.octets.as_chunks_mut::<BLOCK>().0.iter_mut().take(labels.len().div_ceil(BLOCK))
        {
            block.iter_mut().for_each(|octet| *octet = seen(*octet));
        }
        // Each further length octet becomes a dot.
        let mut at = usize::from(name.first().copied().unwrap_or_default());
        while let Some(length) = labels.get(at) {
            self.octets[at] = b'.';
            at += 1 + usize::from(*length);
        }
    }

    #[inline]
    pub(super) fn octets(&self) -> &[u8] {
        &self.octets[..self.len]
    }
}

/// Returns the octet of the text that represents an octet of a label.
#[inline]
fn seen(octet: u8) -> u8 {
    // The expression has no branch, so that the compiler can process a block in one step.
    let is_odd = (octet.wrapping_sub(b'!') > b'~' - b'!') | (octet == b'.');
    if is_odd { b'?' } else { octet }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_patterns_together_have_a_budget_and_refused_ones_take_from_it() {
        let budget = PatternBudget::default();
        let large = r"(?:[a-z]{1,60}[0-9]{1,60}){4}";
        let compiled = (0..).take_while(|_| Pattern::within(&budget, large).is_ok()).count();
        assert!((1..=MAX_ALL_PATTERNS / 4_096).contains(&compiled), "{compiled}");
        let error = Pattern::within(&budget, "ads").unwrap_err();
        assert_eq!(error, PolicyError::TooManyPatterns(64));
        assert!(Pattern::new("ads").is_ok(), "each configuration has a budget of its own");

        let budget = PatternBudget::default();
        let too_large = r"(?:[a-z]{1,900}){900}";
        let results = (0..100).map(|_| Pattern::within(&budget, too_large).unwrap_err());
        let refused = results.filter(|error| *error == PolicyError::LargePattern).count();
        assert_eq!(refused, MAX_ALL_PATTERNS / MAX_PATTERN_MEMORY);
    }

    #[track_caller]
    fn check(test: &TextTest, text: &str, expected: bool) {
        assert_eq!(test.holds(text.as_bytes()), expected, "{test:?} of {text}");
        let pattern = Pattern::new(&test.as_pattern()).unwrap();
        assert_eq!(pattern.is_match(text.as_bytes()), expected, "{test:?} as a pattern of {text}");
    }

    #[test]
    fn a_test_and_its_pattern_agree() {
        let owned = |text: &str| text.to_owned();
        for text in ["", "ads.example.com", "a.example.com", "ads", "x.ads"] {
            check(&TextTest::StartsWith(owned("ads")), text, text.starts_with("ads"));
            check(&TextTest::EndsWith(owned(".com")), text, text.ends_with(".com"));
            check(&TextTest::Contains(owned("s.e")), text, text.contains("s.e"));
            check(&TextTest::Contains(owned("")), text, true);
            check(&TextTest::OneOf(vec![owned("ads"), owned("x")]), text, text == "ads");
        }
        check(&TextTest::Matches(Pattern::new(r"^AD[a-z]\.").unwrap()), "ads.example.com", true);
    }

    #[test]
    fn names_are_seen_without_closing_dot_and_odd_octets_as_question_marks() {
        let text = |name: &[u8]| String::from_utf8(NameText::of(name).octets().to_vec()).unwrap();
        assert_eq!(text(b"\x03www\x07example\x03com\x00"), "www.example.com");
        assert_eq!(text(b"\x04a.b\xff\x03com\x00"), "a?b?.com");
        assert_eq!(text(b"\x00"), "");
    }

    #[test]
    fn patterns_are_bounded_and_their_faults_are_one_line() {
        for source in ["(", "a{99999}", "[z-a]", "(?:a{1000}){1000}", &"a".repeat(MAX_PATTERN + 1)]
        {
            let reason = Pattern::new(source).unwrap_err().to_string();
            assert!(!reason.is_empty() && !reason.contains('\n'), "{reason}");
        }
    }
}
