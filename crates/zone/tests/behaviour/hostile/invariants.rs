//! Properties of every text that is read as a zone, for tests and the fuzz target `zone`.

use std::path::Path;

use avocet_wire::{FoldedName, rdata};
use avocet_zone::HostedZone;

/// The time of the tests: 2026-01-01.
const NOW_SECS: u64 = 1_767_225_600;

fn load(text: &[u8]) -> Option<HostedZone> {
    // Each included file is the start of the text itself.
    let mut open = |path: &Path, _: u64| match path.to_str() {
        Some("zone") => Ok(text.to_vec()),
        _ => Ok(text[..text.len() / 2].to_vec()),
    };
    let apex = FoldedName::new(b"\x07example\x00").expect("a name");
    let (zone, faults) = avocet_zone::load(apex, Path::new("zone"), NOW_SECS, &mut open);
    assert_eq!(zone.is_none(), faults.has_errors());
    for fault in faults.list() {
        assert!(fault.line == 0 || fault.column > 0, "{fault}");
    }
    zone
}

fn written(zone: &HostedZone) -> String {
    let mut text = String::new();
    for node in zone.iter() {
        for set in node.sets() {
            for record in set.iter().chain(set.signatures()) {
                assert!(rdata::check(record.rtype.0, record.rdata).is_ok());
                let data = rdata::display(record.rtype.0, record.rdata);
                let owner = node.name().to_buf();
                text += &format!("{owner} {} IN {} {data}\n", record.ttl_secs, record.rtype);
            }
        }
    }
    text
}

/// Reads a text as a zone. If the text is a zone, checks that the zone is written and read back
/// unchanged.
pub(crate) fn zone(text: &[u8]) {
    let Some(zone) = load(text) else { return };
    assert!(zone.records() > 1 && zone.names() > 0);
    let text = written(&zone);
    let again = load(text.as_bytes()).expect("a zone that was written");
    assert_eq!(written(&again), text);
    assert_eq!((again.records(), again.serial()), (zone.records(), zone.serial()));
}
