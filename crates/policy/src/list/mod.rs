//! Lists of names to block, to allow or to rewrite, compiled into one image.
//!
//! Operators combine several published lists with their own: together they can have millions of
//! names in eight formats. A query must find the entries of all lists for its name in well under a
//! microsecond. It must also find which line of which list decided, so that the decision can be
//! explained. Both goals lead to one design: the texts are compiled once, off the query path, into
//! an immutable *image*.
//!
//! ```text
//! text -> Lines -> line -> format -> Entry -> Compiler -> octets -> Image::open -> Image
//!                                                                                    |
//!                                          ListQuestion, ListSet -> Image::lookup -> Found
//! ```
//!
//! # Compiling
//!
//! A [`Compiler`] reads the texts of all lists in chunks, so a text is never held as a whole. Each
//! line becomes entries: a target (a name with its scope, or a pattern), an effect, and modifiers
//! that limit the entry to some clients, tags or types. Equal sets of modifiers and equal patterns
//! are stored once.
//!
//! The result is a sequence of octets. It has no pointers, so it can be written to a file and
//! mapped into memory after a restart. A digest in its header detects torn writes. If an image
//! cannot be opened, the lists are compiled again.
//!
//! # The image
//!
//! Names are not stored, only their keyed 64-bit hashes, sorted and divided into buckets. Per name
//! the image has 12 octets and its *sites*, one for each line of each list about that name.
//!
//! A look-up hashes the QNAME label by label from the root. The hash of a name extends that of its
//! parent, so one pass yields the hashes of all ancestors, each of which may be listed with its
//! subtree:
//!
//! ```text
//! QNAME   -> hash of each ancestor
//!         -> depths   is any listed name this many labels deep?        otherwise skip
//!         -> filter   one word of a Bloom filter                       most names end here
//!         -> buckets  range of hashes with four names on average
//!         -> entries  equal hash: offset of the sites
//!         -> sites    lines that are in force and apply to the query
//! ```
//!
//! Patterns are found by the letters that a name must contain to match. One Aho-Corasick pass over
//! the name selects the candidates, and only those are tried (`patterns`).
//!
//! # Lists in force
//!
//! One image serves all clients. Each look-up takes the [`ListSet`] of the client's profile and
//! ignores the sites of other lists. A change of groups therefore needs no compilation.
//!
//! [`Found`] ranks the applicable lines and returns the decision, the lines that caused it, and
//! every other line that applies.
//!
//! # Untrusted input
//!
//! Lists are fetched from servers that the operator may not fully trust. `limits` bounds the work
//! and memory of compilation; a fetched list gets only a share of the limits that all lists have in
//! common (`quota`). The work of a look-up is counted in `steps`: if a question exceeds its
//! bound, the remaining lines are treated as absent. A hostile list can thus let names pass, but it
//! cannot stall a worker. Rewrites, which could redirect users, must be permitted per list
//! ([`Rewrites`]).
//!
//! # Outside this module
//!
//! A list that is a response policy zone is not part of the image: the compiler returns it as read
//! ([`Compiler::take_zones`]), and [`crate::rpz`] evaluates it. The server fetches texts and
//! decides how a block is answered.

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
pub use question::{Asker, ListQuestion};
pub use reader::{Kind, ListReader, Origin, Progress, Rewrites, Source};
pub use reason::Reason;
pub use report::{Fault, PassedOver, Refusal, Report};
pub use rewrite::Rewrite;
pub use set::{ListId, ListSet, MAX_LISTS};
