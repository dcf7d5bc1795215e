//! What the originals' own documents say of their lists, sentence by sentence and example by
//! example: a module for each document, which its head names. Where Avocet differs on purpose, the
//! case says so, and `docs/manual/lists.md` why.

#![allow(clippy::unwrap_used)] // what panics here fails the test

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
