//! The threads that keep lists, the copy of the root zone and the addresses of upstreams up to
//! date, write the query log, export traces, and probe the addresses of pools.

pub(crate) mod acme;
pub(crate) mod bootstrap;
mod concealed;
pub(crate) mod discovery;
pub(crate) mod dnstap;
pub(crate) mod lists;
pub(crate) mod otlp;
pub(crate) mod pools;
pub(crate) mod query_log;
pub(crate) mod root;
