//! Bounds on the work and memory that a list can cause.

/// Maximum number of octets of the text of one list. The rest is not read.
pub(super) const MAX_TEXT: u64 = 256 << 20;
/// Maximum number of octets of a line. Longer lines count as errors and are never kept.
pub(super) const MAX_LIST_LINE: usize = 4096;
/// Number of octets of a text that are used to detect its format.
pub(super) const DETECTED_FROM: usize = 16 << 10;
/// Maximum number of errors of a list that are kept with line and reason. Further errors are only
/// counted.
pub(super) const MAX_FAULTS_KEPT: usize = 100;
/// Maximum number of lines of a list without effect that are kept with line and reason. Further
/// lines are only counted.
pub(super) const MAX_PASSED_OVER_KEPT: usize = 1_000;
/// Maximum number of characters of a passed-over line that are kept.
pub(super) const MAX_PASSED_OVER_SHOWN: usize = 100;
/// Maximum number of entries of all lists together. 16 Mi take 400 MB during compilation.
pub(super) const MAX_ENTRIES: usize = 16 << 20;
/// Maximum number of lines of one list that are kept if they say the same about the same name.
pub(super) const MAX_REPEATS: usize = 32;
/// Maximum number of lines of one list that are kept for one name or pattern. All of them are read
/// for each query for the name.
pub(super) const MAX_LINES_A_NAME: usize = 256;
/// Maximum number of distinct sets of modifiers of all lists together.
pub(super) const MAX_MODIFIERS: usize = 1 << 20;
/// Maximum number of distinct addresses and prefixes in all entries of all lists. Each may split
/// the profiles of clients.
pub(super) const MAX_CLIENT_NETWORKS: usize = 1_024;
/// Maximum number of clients, tags, types or names of one modifier.
pub(super) const MAX_MODIFIER_VALUES: usize = 256;
/// Maximum number of octets of all modifiers of all lists.
pub(super) const MAX_MODIFIER_OCTETS: usize = 64 << 20;
/// Maximum number of patterns with `*` or a single anchor in all lists together.
pub(super) const MAX_GLOBS: usize = 100_000;
/// Maximum number of regular expressions of all lists together. Each is compiled when the image is
/// opened.
pub(super) const MAX_REGEXES: usize = 10_000;
/// Maximum number of regular expressions that are parsed for all lists together, including refused
/// ones. Each costs up to a millisecond.
pub(super) const MAX_REGEX_TRIES: usize = 40_000;
/// Maximum number of regular expressions of all lists together that do not require any three
/// letters in a name. One automaton tries all of them on every name.
pub(super) const MAX_UNFILTERED: usize = 256;
/// Maximum number of octets of a pattern's text.
pub(super) const MAX_PATTERN: usize = 1024;
/// Maximum nesting depth of a regular expression.
pub(super) const MAX_REGEX_DEPTH: u32 = 50;
/// Maximum number of octets of the automaton of one regular expression. Extremely expensive
/// expressions exceed it.
pub(super) const MAX_REGEX_OCTETS: usize = 128 << 10;
/// Maximum number of octets of the automata of all regular expressions of all lists.
pub(super) const MAX_REGEXES_OCTETS: usize = 64 << 20;
/// Maximum number of states of all automata that run on every name, because no letters select them.
/// Each octet of a new name may cost this number of steps.
pub(super) const MAX_UNFILTERED_STATES: usize = 8 << 10;
/// Maximum number of states of all automata that are selected by the same letters in a name.
pub(super) const MAX_STATES_SHARING_LITERAL: usize = 32 << 10;
/// Maximum number of patterns that are selected by the same letters in a name.
pub(super) const MAX_SHARING_LITERAL: usize = 1_000;
/// Minimum number of letters that select a regular expression.
pub(super) const MIN_REGEX_LITERAL: usize = 3;
/// Maximum number of letters that select a pattern. More letters would hardly select fewer names.
pub(super) const MAX_LITERAL: usize = 32;
/// Maximum number of alternative letter sequences that select one regular expression.
pub(super) const MAX_LITERALS: usize = 64;
/// Maximum number of steps of the look-up of one name: see [`super::steps`]. They take about a
/// millisecond. A name that fifty ordinary patterns are tried on takes a few thousand steps.
pub(super) const NAME_STEPS: u32 = 256 << 10;
/// Maximum number of steps to match one pattern against one name, for example 128 states over the
/// longest name.
pub(super) const TRIAL_STEPS: u32 = 32 << 10;
/// Maximum number of steps for all names of one question together, in addition to [`NAME_RESERVE`]:
/// about four milliseconds.
pub(super) const QUESTION_STEPS: u32 = 1 << 20;
/// Number of steps that each name may take, regardless of earlier names: once for the lines about
/// the name, and again for the lines of matching patterns. They suffice for a few hundred lines.
/// Expensive names and patterns therefore cannot prevent the look-up of others.
pub(super) const NAME_RESERVE: u32 = 4 << 10;
/// Number of steps that each line about a name costs. Rules that test lists read the applicable
/// lines once more.
pub(super) const LINE_STEPS: usize = 8;
