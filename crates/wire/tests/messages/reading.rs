//! Properties of reading arbitrary octets as a message, checked by the tests and the fuzz target
//! `view`.

use avocet_wire::edns::{Edns, MAX_OPTIONS, OPT_LEN};
use avocet_wire::hash::HashKey;
use avocet_wire::name::{self, MAX_NAME};
use avocet_wire::rdata;
use avocet_wire::view::RecordSection;
use avocet_wire::{MessageView, NameBuf, QueryView, RecordView};

/// Maximum number of octets by which record data grows: three names in place of pointers.
const GROWTH: usize = 3 * MAX_NAME;
/// Number of octets of the smallest record: root owner, type, class, TTL, length.
const LEAST_RECORD: usize = OPT_LEN;

/// Checks that reading the octets as a query and as a message never panics, terminates and is
/// deterministic.
pub(crate) fn holds(octets: &[u8]) {
    query_holds(octets);
    let Ok(view) = MessageView::new(octets) else { return assert!(octets.len() < 12) };
    for question in view.questions().flatten() {
        if let Ok(qname) = question.qname() {
            name_holds(&qname);
        }
        assert!(question.octets().len() >= 5);
    }
    let Ok(mut records) = view.records() else { return };
    let mut out = vec![0; octets.len() + GROWTH];
    let mut counts = [0; 3];
    let mut broken = false;
    for record in &mut records {
        match record {
            Ok(record) => {
                counts[record.section as usize] += 1;
                record_holds(&record, &mut out);
            }
            Err(_) => broken = true,
        }
    }
    assert!(counts.iter().sum::<usize>() * LEAST_RECORD <= octets.len());
    assert!(records.position() <= octets.len());
    for (section, count) in
        [RecordSection::Answer, RecordSection::Authority, RecordSection::Additional]
            .into_iter()
            .zip(counts)
    {
        let found = view.section(section).expect("questions").filter(Result::is_ok).count();
        assert_eq!(found, count);
        assert!(broken || count == usize::from(view.header().counts[section as usize + 1]));
    }
    if let Ok(Some(edns)) = view.edns() {
        options_hold(&edns);
    }
}

/// Checks that an accepted query reads the same through the general view, and that its key is the
/// question with the name folded.
fn query_holds(octets: &[u8]) {
    let Ok(query) = QueryView::parse(octets) else { return };
    let view = MessageView::new(octets).expect("a header");
    assert_eq!(query.header(), view.header());
    let question = view.question().expect("one question");
    assert_eq!((question.qtype, question.qclass), (query.qtype, query.qclass));
    assert_eq!(question.octets(), query.question());
    assert_eq!(question.qname().expect("a name").wire(), query.qname());
    assert_eq!(view.edns(), Ok(query.edns));
    if let Some(edns) = query.edns {
        options_hold(&edns);
    }
    let secret = HashKey::new([7; 32]);
    let key = query.key(&secret, 5);
    assert_eq!(key.qname().wire(), query.qname().to_ascii_lowercase());
    assert_eq!((key.question().qtype(), key.question().qclass()), (query.qtype, query.qclass));
    assert_eq!(key.hash, secret.hash(key.question().octets(), 5));
}

fn options_hold(edns: &Edns<'_>) {
    assert!(edns.raw_options().count() <= MAX_OPTIONS + 1);
    let octets: usize = edns.raw_options().flatten().map(|(_, data)| 4 + data.len()).sum();
    assert!(octets <= 65_535);
    for option in edns.options().flatten() {
        let mut out = vec![0; 65_540];
        let len = option.write(&mut out).expect("there is room");
        let again = Edns::from_fields(512, 0, &out[..len]);
        assert_eq!(again.options().next(), Some(Ok(option)));
    }
}

fn name_holds(name: &NameBuf) {
    assert_eq!(name::wire_len(name.wire()), Ok(name.wire().len()));
    assert_eq!(NameBuf::from_wire(name.wire()), Ok(*name));
    assert_eq!(NameBuf::read(name.wire(), 0), Ok(*name));
    assert_eq!(name.folded().wire(), name.wire().to_ascii_lowercase());
    assert!(name::is_under(name.wire(), name.folded().wire()));
}

/// Checks that the data of a record has no pointers after it is copied, and needs exactly the room
/// that it reports.
fn record_holds(record: &RecordView<'_>, out: &mut [u8]) {
    if let Ok(owner) = record.owner() {
        name_holds(&owner);
        assert!(!record.owner_is_question() || record.offset() > 12);
    }
    let Ok(len) = record.expand_rdata(out) else { return };
    assert!(len <= record.rdata().len() + GROWTH);
    if len > 0 {
        let mut short = vec![0; len - 1];
        assert!(record.expand_rdata(&mut short).is_err());
    }
    let mut exact = vec![0; len];
    assert_eq!(record.expand_rdata(&mut exact), Ok(len));
    assert_eq!(exact, out[..len]);
    let mut again = vec![0; len];
    assert_eq!(rdata::expand(record.rtype.0, &exact, 0, len, &mut again), Ok(len));
    assert_eq!(again, exact);
}
