//! The server of the binary `avocet`: sockets, threads and operation.
//!
//! The query path is in the crate `avocet_nameserver`.

#![forbid(unsafe_code)]

pub mod backup;
mod clients;
pub mod connect;
mod control;
#[cfg(feature = "postgres")]
mod database;
pub mod dry_run;
mod error;
mod explain;
mod http;
mod keepers;
mod lists;
mod log;
mod operate;
mod otlp;
mod pools_file;
mod port_in_use;
mod query_log;
mod root;
mod running;
mod secret_file;
mod serve;
mod switches_file;
mod tap;
mod trace;
mod transfer;
mod transfer_room;
mod transfer_stream;
mod trust;
mod turns;

pub use avocet_worker::certificates::{CertificateFault, fault_of_certificates, open_keys};
pub use avocet_worker::upstream_tls::fault_of_upstreams;
pub use keepers::lists::status::trigger_counts;
pub use lists::open_text;
pub use log::{drain as drain_log, write_last_line};
pub use operate::TakeOverError;
pub use query_log::filter::stored_filter;
pub use query_log::overview::{Span, clients, overview, ranking, top_ranking};
pub use root::fault_of_file as fault_of_root_file;
pub use running::geo::geo_file;
pub use running::networks::own_networks;
pub use running::ports::own_reserved_ports;
pub use running::zones::fault_of_providers;
pub use running::{OperationError, fault_of_certificate, fault_of_neighbours, fault_of_odoh};
pub use serve::{Start, StartError, run};
pub use trust::negative::MAX_LIFETIME_SECS;
