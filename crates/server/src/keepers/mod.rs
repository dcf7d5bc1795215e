//! The threads that keep lists and the copy of the root zone up to date, and write the query log.

pub(crate) mod dnstap;
pub(crate) mod lists;
pub(crate) mod query_log;
pub(crate) mod root;
