//! The statements and examples of the original products' documents about their lists. Each module
//! covers one document, named in its head. Deliberate differences are marked at the case and
//! explained in `docs/manual/lists.md`.

mod adguard_dns;
mod asking;
mod bind_manual;
mod blocky;
mod dnsmasq_manual;
mod hosts_manual;
mod pihole_gravity;
mod pihole_regex;
mod powerdns_zone;
mod rpz_draft;
mod unbound_manual;
mod zones;
