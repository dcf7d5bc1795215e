//! The syntax of all regular expressions over names and other texts, in lists and in rules.
//!
//! The owner of a zone chooses the octets of its names. Therefore `.` matches every octet,
//! including a line feed and octets above 127, and `^` and `$` match only at the ends of the text.

use regex_automata::util::syntax::Config;

/// Returns the parser options of all expressions. `depth` is the maximum nesting depth of groups.
pub(crate) fn syntax(depth: u32) -> Config {
    Config::new()
        .unicode(false)
        .utf8(false)
        .case_insensitive(true)
        .dot_matches_new_line(true)
        .multi_line(false)
        .nest_limit(depth)
}
