//! The threads that keep lists and the copy of the root zone up to date.

pub(crate) mod lists;
pub(crate) mod root;
