//! Names that must not leak to the Internet's servers, answered here.
//!
//! `localhost` and loopback reverse names have data; the others are empty zones, with the SOA
//! that RFC 6303 §3 asks for. Sources: RFC 6303 (private reverse zones), RFC 7793 (shared
//! address space), RFC 6761 (localhost, invalid, test), RFC 7686 (onion), RFC 8375 (home.arpa),
//! RFC 9462 (resolver.arpa), RFC 9476 (alt), RFC 6762 appendix G (local).

use avocet_wire::builder::{Builder, Full, Record, Section};
use avocet_wire::header::{AA, QR, RA};
use avocet_wire::suffix::SuffixMap;
use avocet_wire::{Class, Rcode, Rtype};

use super::local::LocalQuestion;
use super::respond::Draft;

/// TTL of these answers in seconds, as RFC 6303 §3 has it.
const TTL_SECS: u32 = 10_800;
/// Who is responsible for a zone nobody has.
const MAILBOX: &[u8] = b"\x06nobody\x07invalid\x00";
/// Octets of the longest SOA data: two names and five numbers.
const SOA_ROOM: usize = 255 + MAILBOX.len() + 20;
/// The root's octet ends the list of names below.
const EMPTY_ZONES: &str = "invalid test onion alt local home.arpa resolver.arpa \
    10.in-addr.arpa 168.192.in-addr.arpa 254.169.in-addr.arpa 0.in-addr.arpa 127.in-addr.arpa \
    2.0.192.in-addr.arpa 100.51.198.in-addr.arpa 113.0.203.in-addr.arpa 255.255.255.255.in-addr.arpa \
    d.f.ip6.arpa 8.e.f.ip6.arpa 9.e.f.ip6.arpa a.e.f.ip6.arpa b.e.f.ip6.arpa 8.b.d.0.1.0.0.2.ip6.arpa";

/// What a special zone holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Zone {
    /// Nothing but its SOA.
    Empty,
    /// `localhost` and all below it: the loopback addresses.
    Localhost,
    /// The reverse name of a loopback address: PTR to localhost.
    LoopbackReverse,
}

/// The special zones by their folded wire names.
#[derive(Debug)]
pub(crate) struct SpecialNames {
    zones: SuffixMap<Zone>,
}

impl SpecialNames {
    /// The table.
    pub(crate) fn new() -> Self {
        let mut zones = Vec::new();
        let mut add = |text: &str, zone| zones.push((wire(text), zone));
        for text in EMPTY_ZONES.split_whitespace() {
            add(text, Zone::Empty);
        }
        for octet in 16..32 {
            add(&format!("{octet}.172.in-addr.arpa"), Zone::Empty);
        }
        for octet in 64..128 {
            add(&format!("{octet}.100.in-addr.arpa"), Zone::Empty);
        }
        add(&format!("{}ip6.arpa", "0.".repeat(32)), Zone::Empty);
        add(&format!("1.{}ip6.arpa", "0.".repeat(31)), Zone::LoopbackReverse);
        add("1.0.0.127.in-addr.arpa", Zone::LoopbackReverse);
        add("localhost", Zone::Localhost);
        Self { zones: zones.into_iter().collect() }
    }

    /// Is a folded name special?
    #[inline]
    pub(crate) fn has(&self, qname: &[u8]) -> bool {
        self.zones.nearest(qname).is_some()
    }

    /// Answers the question into `out` if its name is special.
    pub(crate) fn answer(&self, question: &LocalQuestion<'_>, out: &mut [u8]) -> Option<Draft> {
        let (apex, zone) = self.zones.nearest(question.qname)?;
        write(question, apex, *zone, out).ok()
    }
}

fn wire(text: &str) -> Box<[u8]> {
    let mut out = Vec::new();
    for label in text.split('.') {
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out.into()
}

/// SOA data: the zone itself as primary, nobody.invalid., 1 3600 1200 604800 10800.
fn soa<'r>(apex: &[u8], room: &'r mut [u8; SOA_ROOM]) -> &'r [u8] {
    let mut len = 0;
    let mut put = |octets: &[u8]| {
        room[len..len + octets.len()].copy_from_slice(octets);
        len += octets.len();
    };
    put(apex);
    put(MAILBOX);
    for number in [1, 3600, 1200, 604_800, TTL_SECS] {
        put(&u32::to_be_bytes(number));
    }
    &room[..len]
}

fn write(question: &LocalQuestion<'_>, apex: &[u8], zone: Zone, out: &mut [u8]) -> Result<Draft, Full> {
    let at_apex = question.qname.len() == apex.len();
    let exists = at_apex || zone == Zone::Localhost;
    let rcode = if exists { Rcode::NOERROR } else { Rcode::NXDOMAIN };
    let limit = out.len();
    let mut builder = Builder::new(out, limit, 0, QR | AA | RA | rcode.low())?;
    builder.question(question.qname, question.qtype, Class::IN)?;
    let mut room = [0; SOA_ROOM];
    let soa = soa(apex, &mut room);
    let mut loopback_v6 = [0; 16];
    loopback_v6[15] = 1;
    let data: Option<&[u8]> = match (zone, question.qtype) {
        (Zone::Localhost, Rtype::A) => Some(&[127, 0, 0, 1]),
        (Zone::Localhost, Rtype::AAAA) => Some(&loopback_v6),
        (Zone::LoopbackReverse, Rtype::PTR) if at_apex => Some(b"\x09localhost\x00"),
        (_, Rtype::SOA) if at_apex => Some(soa),
        (Zone::Empty, Rtype::NS) if at_apex => Some(apex),
        _ => None,
    };
    let record = |owner, rtype, rdata| Record { owner, rtype, class: Class::IN, ttl_secs: TTL_SECS, rdata };
    match data {
        Some(rdata) => builder.record(Section::Answer, &record(question.qname, question.qtype, rdata))?,
        None => builder.record(Section::Authority, &record(apex, Rtype::SOA, soa))?,
    }
    Ok(Draft { len: builder.finish(), rcode, ede: None, note: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use avocet_wire::MessageView;
    use avocet_wire::view::RecordSection;

    fn check(qname: &str, qtype: Rtype, expected: &str) {
        let names = SpecialNames::new();
        let mut out = [0; 512];
        let qname = wire(qname);
        let got = match names.answer(&LocalQuestion { qname: &qname, qtype }, &mut out) {
            None => "absent".to_string(),
            Some(draft) => {
                let view = MessageView::new(&out[..draft.len]).unwrap();
                let record = view.records().unwrap().next().unwrap().unwrap();
                let mut rdata = [0; 255];
                let len = record.expand_rdata(&mut rdata).unwrap();
                let text = avocet_wire::rdata::display(record.rtype.0, &rdata[..len]).to_string();
                match record.section {
                    RecordSection::Answer => format!("{} {text}", draft.rcode),
                    _ => format!("{} {} {}", draft.rcode, record.owner().unwrap(), record.rtype),
                }
            }
        };
        assert_eq!(got, expected);
    }

    #[test]
    fn localhost_is_the_loopback_address_and_nothing_else() {
        check("localhost", Rtype::A, "NOERROR 127.0.0.1");
        check("foo.localhost", Rtype::AAAA, "NOERROR ::1");
        check("localhost", Rtype::MX, "NOERROR localhost. SOA");
        check("1.0.0.127.in-addr.arpa", Rtype::PTR, "NOERROR localhost.");
        check("2.0.0.127.in-addr.arpa", Rtype::PTR, "NXDOMAIN 127.in-addr.arpa. SOA");
    }

    #[test]
    fn private_reverse_names_and_reserved_names_do_not_leak() {
        check("4.3.2.10.in-addr.arpa", Rtype::PTR, "NXDOMAIN 10.in-addr.arpa. SOA");
        check("1.1.31.172.in-addr.arpa", Rtype::PTR, "NXDOMAIN 31.172.in-addr.arpa. SOA");
        check("1.1.32.172.in-addr.arpa", Rtype::PTR, "absent");
        check("1.1.64.100.in-addr.arpa", Rtype::PTR, "NXDOMAIN 64.100.in-addr.arpa. SOA");
        check("facebookcorewwwi.onion", Rtype::A, "NXDOMAIN onion. SOA");
        check("a.b.invalid", Rtype::A, "NXDOMAIN invalid. SOA");
        check("home.arpa", Rtype::NS, "NOERROR home.arpa.");
        check("home.arpa", Rtype::A, "NOERROR home.arpa. SOA");
        check("www.example.com", Rtype::A, "absent");
        check("arpa", Rtype::A, "absent");
    }
}
