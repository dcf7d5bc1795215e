//! Lists of names to block, to allow or to answer otherwise.
//!
//! ```text
//! text --Lines--> line --format--> Entry --Compiler--> image --Image::open--> Image::lookup --> Found
//! ```
//!
//! A [`Compiler`] takes the texts of all lists, in any of the usual formats, and makes one image
//! of them: octets that can be kept in a file and mapped into memory. An [`Image`] answers for a
//! question and a set of lists in force what they decide, and which lines of which lists say so.
//!
//! A list that is a response policy zone goes into no image: the compiler hands it out as it was
//! read ([`Compiler::take_zones`]), for [`crate::rpz`] to answer.
//!
//! Not here: where texts come from, how a block is answered, rules and clients.

mod automaton;
mod binary;
mod compile;
mod detect;
mod entry;
pub(crate) mod filter;
mod format;
mod found;
pub(crate) mod hash;
mod image;
pub(crate) mod layout;
mod limits;
mod lines;
mod lookup;
mod modifier;
mod name;
mod pattern;
mod patterns;
mod question;
mod quota;
mod reader;
mod reason;
mod report;
mod rewrite;
mod set;
mod site;
mod steps;
mod tables;

pub use compile::{Compiler, Summary};
pub use entry::Effect;
pub use format::Format;
pub use found::{Decision, Found, Match};
pub use image::{Image, ImageError};
pub use lookup::Scratch;
pub use modifier::{ClientTest, Modifiers, Subject};
pub use patterns::PatternError;
pub use question::{Asker, Question};
pub use reader::{Kind, ListReader, Origin, Progress, Rewrites, Source};
pub use reason::Reason;
pub use report::{Fault, PassedOver, Refusal, Report};
pub use rewrite::Rewrite;
pub use set::{ListId, ListSet, MAX_LISTS};
