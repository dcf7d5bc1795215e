//! The threads that keep lists, the copy of the root zone, the addresses of upstreams, designated
//! upstreams and the certificate of `[acme]` up to date, write the query log, send dnstap messages,
//! export traces, forward oblivious queries to other servers, and probe the addresses of pools.

pub(crate) mod acme;
pub(crate) mod bootstrap;
mod concealed;
pub(crate) mod discovery;
pub(crate) mod dnstap;
pub(crate) mod lists;
pub(crate) mod odoh_proxy;
pub(crate) mod otlp;
pub(crate) mod pools;
pub(crate) mod query_log;
pub(crate) mod root;
