//! What a list can make us do at most.

/// Most octets of the text of one list; what follows is not read.
pub(super) const MAX_TEXT: u64 = 256 << 20;
/// Most octets of a line that is read; longer ones are counted as faults and never kept.
pub(super) const MAX_LINE: usize = 4096;
/// Octets of a text from which its format is told.
pub(super) const DETECTED_FROM: usize = 16 << 10;
/// Faults of a list that are kept with line and reason; the others are only counted.
pub(super) const MAX_FAULTS_KEPT: usize = 100;
/// Lines without effect of a list that are kept with line and reason; the others are only counted.
pub(super) const MAX_PASSED_OVER_KEPT: usize = 1_000;
/// Characters that are kept of such a line.
pub(super) const MAX_PASSED_OVER_SHOWN: usize = 100;
/// Most entries of one image: 16 Mi take 400 MB while they are compiled.
pub(super) const MAX_ENTRIES: usize = 16 << 20;
/// Most lines of one list that are kept for a name which it says again and again in the same way.
pub(super) const MAX_REPEATS: usize = 32;
/// Most lines of one list that are kept for one name or pattern. Each is read whenever somebody
/// asks for the name.
pub(super) const MAX_LINES_A_NAME: usize = 256;
/// Most different sets of modifiers of one image.
pub(super) const MAX_MODIFIERS: usize = 1 << 20;
/// Most different addresses and prefixes that all entries of one image name: each may make clients
/// of a kind of their own.
pub(super) const MAX_CLIENT_NETWORKS: usize = 1_024;
/// Most clients, tags, types or names of one modifier.
pub(super) const MAX_MODIFIER_VALUES: usize = 256;
/// Most octets of all modifiers of one image.
pub(super) const MAX_MODIFIER_OCTETS: usize = 64 << 20;
/// Most patterns with `*` or half an anchor of one image.
pub(super) const MAX_GLOBS: usize = 100_000;
/// Most regular expressions of one image: each is compiled when the image is opened.
pub(super) const MAX_REGEXES: usize = 10_000;
/// Most regular expressions that are read for one image, those that are refused included: each
/// costs up to a millisecond.
pub(super) const MAX_REGEX_TRIES: usize = 40_000;
/// Most regular expressions of one image in which no three letters stand that a name must have:
/// these are tried on every name, all in one automaton.
pub(super) const MAX_UNFILTERED: usize = 256;
/// Most octets of a pattern's text.
pub(super) const MAX_PATTERN: usize = 1024;
/// Most nesting of a regular expression.
pub(super) const MAX_REGEX_DEPTH: u32 = 50;
/// Most octets of the automaton of one regular expression: what catastrophic ones would exceed.
pub(super) const MAX_REGEX_OCTETS: usize = 128 << 10;
/// Most octets of the automata of all regular expressions of one image.
pub(super) const MAX_REGEXES_OCTETS: usize = 64 << 20;
/// Most states of all automata in which no letters stand by which they are found: each octet of a
/// new name may cost as many steps.
pub(super) const MAX_UNFILTERED_STATES: usize = 8 << 10;
/// Most states of all automata that are tried because of the same letters in a name.
pub(super) const MAX_STATES_SHARING_LITERAL: usize = 32 << 10;
/// Most patterns that are tried because of the same letters in a name.
pub(super) const MAX_SHARING_LITERAL: usize = 1_000;
/// Shortest letters by which a regular expression is found.
pub(super) const MIN_REGEX_LITERAL: usize = 3;
/// Most letters by which a pattern is found: more of them tell hardly more names apart.
pub(super) const MAX_LITERAL: usize = 32;
/// Most alternatives of letters by which one regular expression is found.
pub(super) const MAX_LITERALS: usize = 64;
/// Most steps of the look-up of one name: see [`super::steps`]. About a millisecond; a name that
/// has to do with fifty ordinary patterns takes a few thousand.
pub(super) const NAME_STEPS: u32 = 256 << 10;
/// Most steps of the trial of one pattern: 128 states over the longest name.
pub(super) const TRIAL_STEPS: u32 = 32 << 10;
/// Most steps of all names that one question leads to, beside [`NAME_RESERVE`]: about four
/// milliseconds.
pub(super) const QUESTION_STEPS: u32 = 1 << 20;
/// Steps that each name may take whatever went before, for the lines that are about it and once
/// more for those of the patterns that match: enough for a few hundred of them. So expensive names
/// and patterns hide no others.
pub(super) const NAME_RESERVE: u32 = 4 << 10;
/// Steps for each line about a name: rules that ask for lists go over those that concern the
/// question once more.
pub(super) const LINE_STEPS: usize = 8;
