//! RRsets that almost fill a message.

use std::path::Path;
use std::sync::Arc;

use avocet_wire::name::MAX_NAME;
use avocet_wire::view::MessageView;
use avocet_wire::{FoldedName, FoldedNameBuf, Rtype, text};
use avocet_zone::{HostedQuestion, HostedZone, HostedZones, Proofs, answer, load};

const APEX: &[u8] = b"\x07example\x00";
/// Number of octets of a record: its head, and a text of a hundred octets.
const RECORD: usize = 12 + 1 + 100;
/// Number of octets of a message over TCP, minus the largest OPT record that the server adds.
const LIMIT: usize = 65_535 - 200;

/// Loads a zone whose wildcard has a number of records.
fn zone_of(records: usize) -> Result<HostedZone, String> {
    let data = "x".repeat(97);
    let text = format!(
        "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n$GENERATE 0-{} * TXT {data}\
         ${{0,3,x}}\n",
        records - 1
    );
    let mut open = |_: &Path, _: u64| Ok(text.as_bytes().to_vec());
    let apex = FoldedName::new(APEX).unwrap();
    let (zone, faults) = load(apex, Path::new("example"), 0, &mut open);
    zone.ok_or_else(|| faults.list().first().map(ToString::to_string).unwrap_or_default())
}

#[test]
fn an_rrset_that_a_zone_may_have_is_answered_whole_for_the_longest_name() {
    let most = 65_023 / RECORD;
    let mut wire = [0; MAX_NAME];
    let label = "a".repeat(60);
    let qname = format!("{label}.{label}.{label}.{label}.example.");
    let len = text::name_to_wire(qname.as_bytes(), None, &mut wire).unwrap();
    assert!(len > 250, "{len}");
    let qname = FoldedNameBuf::from_wire(&wire[..len]).unwrap();
    let zone = zone_of(most).unwrap();
    let zones: HostedZones = [(Box::from(APEX), Some(Arc::new(zone)))].into_iter().collect();
    let mut out = vec![0; LIMIT];
    let (proofs, qtype) = (Proofs::Included, Rtype::TXT);
    let question = HostedQuestion { qname: qname.view(), qtype, proofs, limit: LIMIT };
    let found = answer(&zones, &question, &mut out).unwrap();
    let view = MessageView::new(&out[..found.len]).unwrap();
    assert_eq!(view.records().unwrap().count(), most);
}

#[test]
fn an_rrset_that_fits_no_message_is_an_error_of_its_zone() {
    let fault = zone_of(65_023 / RECORD + 1).unwrap_err();
    assert!(fault.contains("and their signatures have more than 65023 octets"), "{fault}");
}
