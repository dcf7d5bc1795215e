//! The syntax of all regular expressions over names and other texts, in lists and in rules.
//!
//! The owner of a zone chooses the octets of its names. So `.` matches every octet, a line feed and
//! an octet above 127 as well, and `^` and `$` match only at the ends of the text.

use regex_automata::util::syntax::Config;

/// Returns the options of all expressions. Groups may be nested to this depth.
pub(crate) fn syntax(depth: u32) -> Config {
    Config::new()
        .unicode(false)
        .utf8(false)
        .case_insensitive(true)
        .dot_matches_new_line(true)
        .multi_line(false)
        .nest_limit(depth)
}
