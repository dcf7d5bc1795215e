//! Rules: an expression in CEL syntax over typed values, and what is done where it holds.
//!
//! ```text
//! RuleSpec  --Rules::check-->  Rules  --Program::build-->  Program  --decide-->  Verdict
//!  (text)    syntax, check     (trees)  fold, index, code  (tables)    per query
//! ```
//!
//! Rules are tried by priority and then in their order. The first one that decides (block, allow,
//! redirect, forward, drop, truncate, safe search) ends this; those that only add (tag, TTL, rate
//! limit, and whatever is log-only) are noted on the way there. A rule that reads the answer is
//! tried on the answer; one that asks for a list is tried on the question and on the answer, whose
//! aliases may be on the list too.

mod action;
mod check;
mod code;
mod fault;
mod fold;
mod index;
mod limit;
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
pub use program::{Answer, Hours, ListLookup, NoLists, Program, Question};
pub use rebinding::{Exceptions, embedded, is_private, rebinds};
pub use rules::{Rule, RuleFault, RuleId, RulePart, Rules};
pub use schedule::Zone;
pub use server::{SERVER_FORM, ServerFault, WrittenAddress, server_address};
pub use shipped::{SafeName, safe_name, service_names};
pub use switches::{Grant, MAX_SWITCHES, Pause, Scope, Switches};
pub use text::{Pattern, TextTest};
pub use trace::{Sample, Step, Trace, test};
pub use tree::{Country, ListId};
pub use verdict::{Lift, MAX_NOTED, Verdict};
pub use vocabulary::Vocabulary;

/// Octets of an expression: enough for some thousand names, after which a list serves better.
pub const MAX_EXPRESSION: usize = 65_536;
/// How deep brackets and negations nest.
pub const MAX_DEPTH: usize = 48;
/// Most rules.
pub const MAX_RULES: usize = 100_000;
/// Octets of a regular expression.
pub const MAX_PATTERN: usize = 4_096;
/// Octets of a compiled regular expression.
pub const MAX_PATTERN_MEMORY: usize = 1 << 20;
/// Most different questions about clients in all rules together.
pub const MAX_CLIENT_TESTS: usize = 16_384;
/// Most different conditions on the time in all rules together: each thread looks at all of them
/// when one changes, which takes it about a tenth of a millisecond.
pub const MAX_WINDOWS: usize = 256;
