//! The running server as its operator sees it: the real binary, on loopback.

#![allow(clippy::unwrap_used, reason = "functions that tests share panic as tests do")]

#[path = "operation/acme.rs"]
mod acme;
#[path = "operation/agreement.rs"]
mod agreement;
#[path = "operation/alt_svc.rs"]
mod alt_svc;
#[path = "operation/announce.rs"]
mod announce;
#[path = "operation/api.rs"]
mod api;
#[path = "operation/api_call.rs"]
mod api_call;
#[path = "operation/backup.rs"]
mod backup;
#[path = "operation/block_page.rs"]
mod block_page;
#[path = "operation/catalogs.rs"]
mod catalogs;
#[path = "operation/clocks.rs"]
mod clocks;
#[path = "../src/coverage/table.rs"]
mod command_table;
#[path = "operation/confined.rs"]
mod confined;
#[path = "operation/control.rs"]
mod control;
#[path = "operation/counts.rs"]
mod counts;
#[path = "operation/coverage.rs"]
mod coverage;
#[path = "operation/deploy.rs"]
mod deploy;
#[path = "operation/devices.rs"]
mod devices;
#[path = "operation/discovery.rs"]
mod discovery;
#[path = "operation/dnstap.rs"]
mod dnstap;
#[path = "operation/doh.rs"]
mod doh;
#[path = "operation/doq.rs"]
mod doq;
#[path = "operation/dry_run.rs"]
mod dry_run;
#[path = "operation/early_data.rs"]
mod early_data;
#[path = "operation/effect.rs"]
mod effect;
#[path = "operation/encrypted_authorities.rs"]
mod encrypted_authorities;
#[path = "operation/exit_codes.rs"]
mod exit_codes;
#[path = "operation/extras.rs"]
mod extras;
#[path = "operation/full_disk.rs"]
mod full_disk;
#[path = "operation/geo.rs"]
mod geo;
#[path = "operation/goaway.rs"]
mod goaway;
#[path = "operation/home_ca.rs"]
mod home_ca;
#[path = "operation/hostile.rs"]
mod hostile;
#[path = "operation/http.rs"]
mod http;
#[path = "operation/https.rs"]
mod https;
#[path = "operation/https_upstream.rs"]
mod https_upstream;
#[path = "operation/import.rs"]
mod import;
#[path = "operation/import_zones.rs"]
mod import_zones;
#[path = "operation/kept_changes.rs"]
mod kept_changes;
#[path = "operation/leases.rs"]
mod leases;
#[path = "operation/limits.rs"]
mod limits;
#[path = "operation/list_zones.rs"]
mod list_zones;
#[path = "operation/listeners.rs"]
mod listeners;
#[path = "operation/lists.rs"]
mod lists;
#[path = "operation/made_records.rs"]
mod made_records;
#[path = "operation/namespace.rs"]
mod namespace;
#[cfg(feature = "odoh")]
#[path = "operation/odoh.rs"]
mod odoh;
#[path = "operation/oidc.rs"]
mod oidc;
#[path = "operation/otlp.rs"]
mod otlp;
#[path = "operation/otlp_collector.rs"]
mod otlp_collector;
#[path = "operation/package.rs"]
mod package;
#[path = "operation/past.rs"]
mod past;
#[path = "operation/peers.rs"]
mod peers;
#[path = "operation/persist.rs"]
mod persist;
#[path = "operation/pools.rs"]
mod pools;
#[path = "operation/ports.rs"]
mod ports;
#[path = "operation/postgres.rs"]
mod postgres;
#[path = "operation/privileges.rs"]
mod privileges;
#[path = "operation/providers.rs"]
mod providers;
#[path = "operation/proxied_clients.rs"]
mod proxied_clients;
#[path = "operation/proxy_protocol.rs"]
mod proxy_protocol;
#[path = "operation/pulled.rs"]
mod pulled;
#[path = "operation/query_log.rs"]
mod query_log;
#[path = "operation/query_log_files.rs"]
mod query_log_files;
#[path = "operation/query_log_served.rs"]
mod query_log_served;
#[path = "operation/quic_upstream.rs"]
mod quic_upstream;
#[path = "operation/reload.rs"]
mod reload;
#[path = "operation/revisions.rs"]
mod revisions;
#[path = "operation/server.rs"]
mod server;
#[path = "operation/signing.rs"]
mod signing;
#[path = "operation/start_and_stop.rs"]
mod start_and_stop;
#[path = "operation/strangers.rs"]
mod strangers;
#[path = "operation/surroundings.rs"]
mod surroundings;
#[path = "operation/tables.rs"]
mod tables;
#[path = "operation/take_over.rs"]
mod take_over;
#[path = "operation/take_over_changes.rs"]
mod take_over_changes;
#[path = "operation/tls.rs"]
mod tls;
#[path = "operation/tls_upstream.rs"]
mod tls_upstream;
#[path = "operation/top.rs"]
mod top;
#[path = "operation/transfers.rs"]
mod transfers;
#[path = "operation/transfers_tls.rs"]
mod transfers_tls;
#[path = "operation/turns.rs"]
mod turns;
#[path = "operation/updates.rs"]
mod updates;
#[path = "operation/upstream.rs"]
mod upstream;
#[path = "operation/why.rs"]
mod why;
#[path = "operation/zone_digests.rs"]
mod zone_digests;
#[path = "operation/zone_edits.rs"]
mod zone_edits;
#[path = "operation/zone_forms.rs"]
mod zone_forms;
#[path = "operation/zone_views.rs"]
mod zone_views;
#[path = "operation/zones.rs"]
mod zones;
