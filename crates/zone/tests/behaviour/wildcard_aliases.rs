//! Aliases, and wildcards in signed zones: their proofs are in the authority section.

use std::path::Path;
use std::sync::Arc;

use avocet_wire::name::MAX_NAME;
use avocet_wire::view::{MessageView, RecordSection};
use avocet_wire::{FoldedName, FoldedNameBuf, Rtype, text};
use avocet_zone::{HostedAnswer, HostedEnd, HostedQuestion, HostedZones, Proofs, answer, load};

const APEX: &[u8] = b"\x07example\x00";

/// Returns a zone in which twelve wildcards lead to one another and the last one to `www`. These
/// are more names than the server remembers until it writes their proofs. NSEC records without
/// signatures are enough for the look-up of proofs.
fn zone() -> String {
    let alias = |number: usize| match number {
        11 => "*.w11 CNAME www\n*.w11 NSEC @ CNAME NSEC\n".to_owned(),
        _ => {
            format!("*.w{number:02} CNAME a.w{:02}\n*.w{number:02} NSEC @ CNAME NSEC\n", number + 1)
        }
    };
    let aliases: String = (0..12).map(alias).collect();
    format!(
        "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\n@ NSEC ns SOA NS NSEC\nns A 192.0.2.1\nns NSEC \
         www A NSEC\nwww A 192.0.2.3\nwww NSEC @ A NSEC\n{aliases}"
    )
}

/// Returns the types in the answer and the authority section.
fn sections(text: &str, qname: &str) -> [Vec<String>; 2] {
    sections_of(text, qname, Rtype::A).1
}

/// Returns the end of a look-up, and the types in the answer and the authority section.
fn sections_of(text: &str, qname: &str, qtype: Rtype) -> (HostedEnd, [Vec<String>; 2]) {
    let apex = FoldedName::new(APEX).unwrap();
    let mut open = |_: &Path, _: u64| Ok(text.as_bytes().to_vec());
    let (zone, faults) = load(apex, Path::new("example"), 0, &mut open);
    let zone = zone.unwrap_or_else(|| panic!("{:?}", faults.list()));
    let zones: HostedZones = [(Box::from(APEX), Some(Arc::new(zone)))].into_iter().collect();
    let mut wire = [0; MAX_NAME];
    let len = text::name_to_wire(qname.as_bytes(), None, &mut wire).unwrap();
    let qname = FoldedNameBuf::from_wire(&wire[..len]).unwrap();
    let (qname, proofs) = (qname.view(), Proofs::Included);
    let mut out = [0; 4096];
    let question = HostedQuestion { qname, qtype, proofs, limit: 4096 };
    let HostedAnswer { len, end, .. } = answer(&zones, &question, &mut out).unwrap();
    let mut types = [Vec::new(), Vec::new()];
    for record in MessageView::new(&out[..len]).unwrap().records().unwrap() {
        let record = record.unwrap();
        match record.section {
            RecordSection::Answer => types[0].push(record.rtype.to_string()),
            RecordSection::Authority => types[1].push(record.rtype.to_string()),
            RecordSection::Additional => {}
        }
    }
    (end, types)
}

#[test]
fn proofs_follow_the_records_that_an_alias_leads_to() {
    assert_eq!(sections(&zone(), "a.w11.example."), [vec!["CNAME", "A"], vec!["NSEC"]]);
    assert_eq!(
        sections(&zone(), "a.w10.example."),
        [vec!["CNAME", "CNAME", "A"], vec!["NSEC", "NSEC"]]
    );
}

#[test]
fn a_long_chain_of_wildcards_ends_early_with_all_its_proofs() {
    let [answer, authority] = sections(&zone(), "a.w00.example.");
    assert_eq!((answer.len(), authority.len()), (8, 8));
    assert!(answer.iter().all(|rtype| rtype == "CNAME"), "{answer:?}");
    assert!(authority.iter().all(|rtype| rtype == "NSEC"), "{authority:?}");
}

#[test]
fn a_record_that_two_proofs_need_is_written_once() {
    let zone = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\n@ NSEC ns SOA NS NSEC\nns A \
                192.0.2.1\nns NSEC *.w A NSEC\n*.w CNAME wz\n*.w NSEC @ CNAME NSEC\n";
    // The NSEC record of the wildcard denies both a.w and wz.
    let expected = [vec!["CNAME"], vec!["SOA", "NSEC", "NSEC"]];
    assert_eq!(sections(zone, "a.w.example."), expected);
}

#[test]
fn a_label_that_ends_like_a_delegation_is_not_below_it() {
    let zone = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nx NS ns\ny\\001x A \
                192.0.2.2\n";
    assert_eq!(sections(zone, "y\\001x.example."), [vec!["A"], vec![]]);
}

#[test]
fn signatures_of_a_wildcard_come_with_its_proof() {
    let zone = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\n@ NSEC ns SOA NS NSEC\nns A \
                192.0.2.1\nns NSEC *.w A NSEC\n*.w A 192.0.2.2\n*.w RRSIG A 13 2 60 \
                20991231235959 20200101000000 1 example. AAAA\n*.w NSEC @ A RRSIG NSEC\n";
    let (end, types) = sections_of(zone, "a.w.example.", Rtype::RRSIG);
    assert_eq!((end, types), (HostedEnd::Complete, [vec!["RRSIG".into()], vec!["NSEC".into()]]));
    // Without signatures, the wildcard itself is denied too.
    let unsigned = zone.replace("*.w RRSIG", "ns RRSIG");
    let (_, types) = sections_of(&unsigned, "a.w.example.", Rtype::RRSIG);
    assert_eq!(types[1], ["SOA", "NSEC"]);
}

#[test]
fn ds_records_of_an_apex_behind_an_alias_are_at_the_parent() {
    let zone = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nalias CNAME @\n";
    let (end, types) = sections_of(zone, "alias.example.", Rtype::DS);
    assert_eq!((end, types), (HostedEnd::Alias, [vec!["CNAME".into()], vec![]]));
}

#[test]
fn aliases_in_a_circle_are_written_once() {
    let zone = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n@ NS ns\nns A 192.0.2.1\nself CNAME self\na CNAME \
                b\nb CNAME c\nc CNAME b\n";
    assert_eq!(sections(zone, "self.example."), [vec!["CNAME"], vec![]]);
    assert_eq!(sections(zone, "b.example."), [vec!["CNAME", "CNAME"], vec![]]);
    assert_eq!(sections(zone, "a.example."), [vec!["CNAME", "CNAME", "CNAME"], vec![]]);
}
