//! The rows of the table: what is done, on which octets.

use avocet_wire::Rtype;

use crate::material;

/// The columns.
pub(crate) const OURS: &str = "Avocet";
pub(crate) const DOMAIN: &str = "domain";
pub(crate) const HICKORY: &str = "hickory-proto";

/// Rows whose material is not octets.
pub(crate) const ENCODE_ONE: &str = "response of 1 address written";
pub(crate) const ENCODE_TWELVE: &str = "response of 12 records written";

/// Names to be read: the row, the message and where the name begins.
pub(crate) fn names() -> [(&'static str, Vec<u8>, usize); 3] {
    let mut compressed = material::one_address();
    let at = compressed.len();
    compressed.extend_from_slice(b"\x04mail\xc0\x10");
    [
        ("name read, 3 labels", material::one_address(), 12),
        ("name read, 7 labels", material::query(material::MEDIUM, Rtype::A, false), 12),
        ("name read, compressed", compressed, at),
    ]
}

/// Queries to be read, their names left where they are.
pub(crate) fn queries() -> [(&'static str, Vec<u8>); 2] {
    [
        ("query read", material::query(material::WWW, Rtype::A, false)),
        ("query with OPT read", material::query(material::WWW, Rtype::AAAA, true)),
    ]
}

/// Queries to be read and turned into a hash that does not depend on the case.
pub(crate) fn keyed() -> [(&'static str, Vec<Vec<u8>>); 2] {
    [
        ("query with OPT read, folded and hashed", vec![material::query(material::WWW, Rtype::A, true)]),
        ("the same, 64 queries in turn", material::mixed_queries()),
    ]
}

/// Responses to be read whole: all owners and all data.
pub(crate) fn responses() -> [(&'static str, Vec<u8>); 3] {
    [
        ("response read, 1 address", material::one_address()),
        ("response read, alias and address", material::alias()),
        ("response read, 12 records", material::twelve_records()),
    ]
}
