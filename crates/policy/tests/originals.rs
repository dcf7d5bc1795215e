//! The statements and examples of the original products' documents about their lists. Each module
//! covers one document, named in its head. Deliberate differences are marked at the case and
//! explained in `docs/manual/lists.md`.

#![allow(clippy::unwrap_used)] // a panic here fails the test

#[path = "originals/adguard_dns.rs"]
mod adguard_dns;
#[path = "originals/asking.rs"]
mod asking;
#[path = "originals/bind_manual.rs"]
mod bind_manual;
#[path = "originals/blocky.rs"]
mod blocky;
#[path = "originals/dnsmasq_manual.rs"]
mod dnsmasq_manual;
#[path = "originals/hosts_manual.rs"]
mod hosts_manual;
#[path = "originals/pihole_gravity.rs"]
mod pihole_gravity;
#[path = "originals/pihole_regex.rs"]
mod pihole_regex;
#[path = "originals/powerdns_zone.rs"]
mod powerdns_zone;
#[path = "originals/rpz_draft.rs"]
mod rpz_draft;
#[path = "originals/unbound_manual.rs"]
mod unbound_manual;
#[path = "originals/zones.rs"]
mod zones;
