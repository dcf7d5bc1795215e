//! Rules: an expression in CEL syntax over typed values, and an action to take if it holds.
//!
//! ```text
//! RuleSpec  --Rules::check-->  Rules  --Program::build-->  Program  --decide-->  Verdict
//!  (text)    syntax, check     (trees)  fold, index, code  (tables)    per query
//! ```
//!
//! Rules are evaluated by priority and then in file order. The first match of a deciding rule
//! (block, allow, redirect, forward, drop, truncate, safe search) ends the evaluation. Other rules
//! (tag, TTL, rate limit, and every log-only rule) that match earlier are noted. A rule that reads
//! the answer is evaluated on the answer. A rule that tests a list is evaluated on the question and
//! on the answer, because the aliases in the answer may be on the list.

mod action;
mod check;
mod code;
mod determinize;
mod fault;
mod fold;
mod index;
mod limit;
mod never;
mod patterns;
mod program;
mod rebinding;
mod rules;
mod schedule;
mod server;
mod shipped;
mod stage;
mod switches;
mod syntax;
mod text;
mod token;
mod trace;
mod tree;
mod verdict;
mod vocabulary;

pub use action::{
    Action, ActionKind, Block, BlockForm, LimitKey, Over, RateLimit, RuleSpec, Target,
};
pub use fault::{Fault, Shown, Span};
pub use limit::{Admission, Limiter};
pub use program::{Answer, Hours, ListLookup, NoLists, Program, RuleQuestion};
pub use rebinding::{Exceptions, rebinds};
pub use rules::{Rule, RuleFault, RuleId, RulePart, Rules};
pub use schedule::NamedTimeZone;
pub use server::{SERVER_FORM, ServerFault, WrittenAddress, server_address};
pub use shipped::{SafeName, safe_name, service_names};
pub use switches::{Grant, MAX_SWITCHES, Pause, Scope, Switches};
pub use text::{Pattern, TextTest};
pub use trace::{Sample, Step, Trace, test};
pub use tree::{Country, ListId};
pub use verdict::{Lift, MAX_NOTED, Verdict};
pub use vocabulary::Vocabulary;

/// Maximum number of octets of an expression, which suffice for about a thousand names. Operators
/// should use a list for more names.
pub const MAX_EXPRESSION: usize = 65_536;
/// Maximum nesting depth of brackets and negations.
pub const MAX_DEPTH: usize = 48;
/// Maximum number of rules of a configuration.
pub const MAX_RULES: usize = 20_000;
/// Maximum number of rules that the server adds to those of a configuration.
pub const MAX_ADDED_RULES: usize = 2;
/// Maximum number of octets of a regular expression.
pub const MAX_PATTERN: usize = 4_096;
/// Maximum depth of nested groups in a regular expression.
const MAX_PATTERN_DEPTH: u32 = 64;
/// Maximum number of octets of a compiled regular expression.
pub const MAX_PATTERN_MEMORY: usize = 1 << 20;
/// Maximum number of octets of the compiled regular expressions of all rules together, which
/// suffice for some tens of thousands of simple expressions. Their compilation takes about a
/// second.
pub const MAX_ALL_PATTERNS: usize = 64 << 20;
/// Maximum number of distinct tests of clients in all rules together.
pub const MAX_CLIENT_TESTS: usize = 16_384;
/// Maximum number of distinct conditions on the time in all rules together. When one of them
/// changes, each thread evaluates all of them again, which takes about a tenth of a millisecond.
pub const MAX_WINDOWS: usize = 256;
