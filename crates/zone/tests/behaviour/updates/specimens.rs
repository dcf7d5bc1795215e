//! Messages of updates: each form of prerequisites and of edits, and malformed messages.

use avocet_wire::{Class, Rtype};

/// A record of a message: owner, class, type, TTL and data.
#[derive(Clone)]
pub(crate) struct Piece {
    pub(crate) owner: &'static [u8],
    pub(crate) class: Class,
    pub(crate) rtype: Rtype,
    pub(crate) ttl_secs: u32,
    pub(crate) rdata: &'static [u8],
}

/// Owners of the zone, with a pointer to its name, and others.
pub(crate) const OWNERS: [&[u8]; 12] = [
    b"\xc0\x0c",
    b"\x01a\xc0\x0c",
    b"\x01A\xc0\x0c",
    b"\x01c\xc0\x0c",
    b"\x01d\xc0\x0c",
    b"\x01f\xc0\x0c",
    b"\x01e\x01f\xc0\x0c",
    b"\x01*\xc0\x0c",
    b"\x03sub\xc0\x0c",
    b"\x04host\x03new\xc0\x0c",
    b"\x02ns\xc0\x0c",
    b"\x05other\x04test\x00",
];

/// Types, each with valid data.
pub(crate) const DATA: [(Rtype, &[u8]); 17] = [
    (Rtype::A, &[192, 0, 2, 2]),
    (Rtype::A, &[192, 0, 2, 9]),
    (Rtype::A, &[192, 0, 2]),
    (Rtype::AAAA, &[0x20, 1, 13, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
    (Rtype::TXT, b"\x01x"),
    (Rtype::TXT, b"\x05other"),
    (Rtype::CNAME, b"\x01a\xc0\x0c"),
    (Rtype::CNAME, b"\x01b\xc0\x0c"),
    (Rtype::DNAME, b"\x01b\xc0\x0c"),
    (Rtype::NS, b"\x02ns\xc0\x0c"),
    (Rtype::NS, b"\x05OTHER\x04test\x00"),
    (Rtype::MX, b"\x00\x0a\x01a\xc0\x0c"),
    (Rtype::SOA, b"\x02ns\xc0\x0c\x01h\xc0\x0c\0\0\0\x09\0\0\0\x02\0\0\0\x03\0\0\0\x04\0\0\0\x05"),
    (Rtype::SOA, b"\0\0\0\0\0\x01\0\0\0\x02\0\0\0\x03\0\0\0\x04\0\0\0\x05"),
    (Rtype::DS, &[0, 1, 8, 2, 1, 2, 3]),
    (Rtype(65_280), &[1, 2, 3]),
    (Rtype(0), &[1, 2, 3]),
];

/// Classes that have a meaning in an update, and one without.
pub(crate) const CLASSES: [Class; 4] = [Class::IN, Class::ANY, Class::NONE, Class(3)];

/// Types without data.
pub(crate) const TYPES: [Rtype; 8] = [
    Rtype::A,
    Rtype::TXT,
    Rtype::CNAME,
    Rtype::NS,
    Rtype::SOA,
    Rtype::ANY,
    Rtype::AXFR,
    Rtype::DNAME,
];

/// Returns the octets of an update of `example.`
pub(crate) fn message(sections: [&[Piece]; 2]) -> Vec<u8> {
    let mut octets = vec![0, 7, 5 << 3, 0, 0, 1];
    for pieces in sections {
        octets.extend_from_slice(&(pieces.len() as u16).to_be_bytes());
    }
    octets.extend_from_slice(b"\0\0\x07example\0\0\x06\0\x01");
    for Piece { owner, class, rtype, ttl_secs, rdata } in sections.into_iter().flatten() {
        octets.extend_from_slice(owner);
        octets.extend_from_slice(&rtype.0.to_be_bytes());
        octets.extend_from_slice(&class.0.to_be_bytes());
        octets.extend_from_slice(&ttl_secs.to_be_bytes());
        octets.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
        octets.extend_from_slice(rdata);
    }
    octets
}

/// Returns a record without data.
pub(crate) const fn bare(owner: usize, class: Class, rtype: Rtype) -> Piece {
    Piece { owner: OWNERS[owner], class, rtype, ttl_secs: 0, rdata: &[] }
}

/// Returns a record with data and this TTL.
pub(crate) const fn full(owner: usize, class: Class, data: usize, ttl_secs: u32) -> Piece {
    let (rtype, rdata) = DATA[data];
    Piece { owner: OWNERS[owner], class, rtype, ttl_secs, rdata }
}

/// Returns the specimens with their names.
pub(crate) fn all() -> Vec<(&'static str, Vec<u8>)> {
    let (any, none, of_in) = (Class::ANY, Class::NONE, Class::IN);
    let met = [
        bare(1, any, Rtype::ANY),
        bare(1, any, Rtype::TXT),
        bare(9, none, Rtype::ANY),
        bare(3, none, Rtype::A),
        full(1, of_in, 4, 0),
    ];
    let many: Vec<_> = (0..1_200).map(|at| full(1, of_in, at % 2, 60)).collect();
    let mut truncated = message([&met, &[full(9, of_in, 0, 60)]]);
    truncated.truncate(truncated.len() - 3);
    let mut tsig = message([&[], &[full(9, of_in, 0, 60)]]);
    tsig[11] = 1;
    tsig.extend_from_slice(b"\x01k\0\0\xfa\0\xff\0\0\0\0\0\0");
    vec![
        ("prerequisites-met", message([&met, &[full(9, of_in, 0, 60)]])),
        ("name-in-use", message([&[bare(1, none, Rtype::ANY)], &[]])),
        ("set-missing", message([&[bare(3, any, Rtype::TXT)], &[]])),
        ("set-other-value", message([&[full(1, of_in, 0, 0), full(1, of_in, 1, 0)], &[]])),
        ("prerequisite-with-ttl", message([&[full(1, of_in, 0, 5)], &[]])),
        ("add-to-set", message([&[], &[full(1, of_in, 1, 30), full(2, of_in, 5, 30)]])),
        ("add-below", message([&[], &[full(9, of_in, 0, 60), full(6, of_in, 4, 60)]])),
        ("alias-and-data", message([&[], &[full(3, of_in, 0, 60), full(1, of_in, 7, 60)]])),
        ("alias-replaced", message([&[], &[full(3, of_in, 7, 60), full(4, of_in, 8, 60)]])),
        ("delete-name", message([&[], &[bare(1, any, Rtype::ANY), bare(8, any, Rtype::ANY)]])),
        ("delete-set", message([&[], &[bare(1, any, Rtype::A), bare(7, any, Rtype::TXT)]])),
        ("delete-record", message([&[], &[full(1, none, 0, 0), full(0, none, 11, 0)]])),
        ("delete-apex", message([&[], &[bare(0, any, Rtype::ANY), full(0, none, 10, 0)]])),
        ("last-name-server", message([&[], &[full(0, none, 9, 0), full(0, none, 10, 0)]])),
        ("soa", message([&[], &[full(0, of_in, 12, 90), full(0, of_in, 13, 90)]])),
        ("delegation", message([&[], &[full(8, of_in, 10, 60), full(8, of_in, 14, 60)]])),
        ("other-zone", message([&[], &[full(11, of_in, 0, 60)]])),
        ("meta-types", message([&[], &[bare(1, any, Rtype::AXFR)]])),
        ("unknown-class", message([&[], &[full(1, CLASSES[3], 0, 60)]])),
        ("malformed-data", message([&[], &[full(1, of_in, 2, 60)]])),
        ("unknown-type", message([&[], &[full(9, of_in, 15, 60)]])),
        ("many-records", message([&[], &many])),
        ("reserved-type", message([&[], &[full(9, of_in, 16, 60)]])),
        ("longest-ttl", message([&[], &[full(1, of_in, 5, u32::MAX)]])),
        ("truncated", truncated),
        ("signed", tsig),
    ]
}
