//! Compact notation for cases: a policy zone as a text, the tested properties, and the result.

use std::net::IpAddr;

use avocet_policy::rpz::{
    Action, Found, TriggerKind, Zone, ZoneReport, ZoneRewrites, ZoneSet, Zones,
};
use avocet_wire::Rtype;
use avocet_wire::hash::HashKey;

use crate::originals::asking::wire;

/// The start of the zone, for documents that omit it.
pub(crate) const HEAD: &str = "$ORIGIN RPZ.EXAMPLE.ORG.\n$TTL 1H\n@ SOA LOCALHOST. named-mgr.example.net. 1 1h 15m 30d 2h\n\
    @ NS LOCALHOST.\n";

const ALL: ZoneSet = ZoneSet::ALL;

/// Reads a valid zone.
#[track_caller]
pub(crate) fn read(text: &str) -> Zones {
    read_all(&[text])
}

/// Reads valid zones in order.
#[track_caller]
pub(crate) fn read_all(texts: &[&str]) -> Zones {
    let zones = texts.iter().map(|text| {
        let (zone, report) = zone(text);
        assert_eq!(report.first_faults, [], "{text}");
        zone
    });
    Zones::of(zones.collect()).unwrap()
}

/// Reads a zone, valid or not.
pub(crate) fn zone(text: &str) -> (Zone, ZoneReport) {
    Zone::read(text.as_bytes(), ZoneRewrites::Permitted, HashKey::default())
}

/// Checks the message for each record after [`HEAD`], which must be rejected.
#[track_caller]
pub(crate) fn broken(records: &[(&str, &str)]) {
    for (record, reason) in records {
        let (_, report) = zone(&format!("{HEAD}{record}\n"));
        let told: Vec<String> =
            report.first_faults.iter().map(|fault| fault.reason.to_string()).collect();
        assert_eq!(
            (report.triggers.iter().sum::<u64>(), told.join("; ").as_str()),
            (0, *reason),
            "{record:?}"
        );
    }
}

/// Checks that the records after [`HEAD`] are valid without effect.
#[track_caller]
pub(crate) fn passed_over(records: &[&str]) {
    let (_, before) = zone(HEAD);
    for record in records {
        let (_, report) = zone(&format!("{HEAD}{record}\n"));
        assert_eq!(
            (report.triggers, report.faults, report.skipped),
            ([0; 5], 0, before.skipped + 1),
            "{record:?}"
        );
    }
}

/// The property tested: one of the five kinds of triggers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    /// The address of the client.
    Client(&'static str),
    /// The QNAME.
    Name(&'static str),
    /// Addresses in the answer.
    Answer(&'static [&'static str]),
    /// Names of servers.
    Servers(&'static [&'static str]),
    /// Addresses of servers.
    ServerAddresses(&'static [&'static str]),
}

/// Checks the action: `-` if nothing fires, else the action with its target or its records of type
/// A.
#[track_caller]
pub(crate) fn check(zones: &Zones, cases: &[(Of, &str)]) {
    for (of, expected) in cases {
        assert_eq!(shown(find(zones, *of), *of), *expected, "{of:?}");
    }
}

/// Returns the trigger that fires.
pub(crate) fn find(zones: &Zones, of: Of) -> Option<Found<'_>> {
    match of {
        Of::Client(address) => zones.on_client(ALL, address.parse().unwrap()),
        Of::Name(name) => zones.on_qname(ALL, &wire(name)),
        Of::Answer(all) => zones.on_answer_addresses(ALL, || addresses(all)),
        Of::ServerAddresses(all) => zones.on_nsaddresses(ALL, || addresses(all)),
        Of::Servers(all) => {
            let names: Vec<Vec<u8>> = all.iter().map(|name| wire(name)).collect();
            zones.on_nsnames(ALL, || names.iter().map(|name| &name[..]))
        }
    }
}

/// Returns the trigger of several that decides, regardless of their order.
#[track_caller]
pub(crate) fn best<'z>(zones: &'z Zones, all: &[Of]) -> Option<Found<'z>> {
    let forward = all.iter().fold(None, |best, of| Found::best(best, find(zones, *of)));
    let backward = all.iter().rev().fold(None, |best, of| Found::best(best, find(zones, *of)));
    let place = |found: Option<Found<'_>>| found.map(|found| (found.zone, found.line));
    assert_eq!(place(forward), place(backward), "{all:?}");
    forward
}

fn addresses(all: &'static [&'static str]) -> impl Iterator<Item = IpAddr> {
    all.iter().map(|address| address.parse().unwrap())
}

fn shown(found: Option<Found<'_>>, of: Of) -> String {
    let Some(found) = found else { return "-".to_owned() };
    let kind = match of {
        Of::Client(_) => TriggerKind::ClientAddress,
        Of::Name(_) => TriggerKind::Qname,
        Of::Answer(_) => TriggerKind::AnswerAddress,
        Of::Servers(_) => TriggerKind::NsName,
        Of::ServerAddresses(_) => TriggerKind::NsAddress,
    };
    assert_eq!(found.kind, kind);
    let qname = if let Of::Name(name) = of { wire(name) } else { wire("asked.example") };
    match found.action {
        Action::Cname(_) | Action::CnameUnder(_) => {
            format!(
                "alias {}",
                found.action.alias(&qname).unwrap().to_string().to_ascii_lowercase()
            )
        }
        Action::Data(_) => data(found.action, Rtype::A),
        other => other.name().to_owned(),
    }
}

/// Returns local data of a type, or `nodata`.
pub(crate) fn data(action: &Action, qtype: Rtype) -> String {
    let shown = |record: &avocet_policy::rpz::LocalRecord| {
        format!("{} {}", record.rtype, avocet_wire::rdata::display(record.rtype.0, &record.rdata))
    };
    let all: Vec<String> = action.records(qtype).map(shown).collect();
    if all.is_empty() { "nodata".to_owned() } else { all.join(", ") }
}
