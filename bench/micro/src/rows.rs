//! The rows of the table: operation, input, and published figures.

use avocet_wire::Rtype;

use crate::material;

/// The columns.
pub(crate) const OURS: &str = "Avocet";
pub(crate) const DOMAIN: &str = "domain";
pub(crate) const HICKORY: &str = "hickory-proto";
pub(crate) const COLUMNS: [&str; 3] = [OURS, DOMAIN, HICKORY];

pub(crate) const NAME_SIMPLE: &str = "name read simple";
pub(crate) const NAME_MEDIUM: &str = "name read medium";
pub(crate) const NAME_COMPRESSED: &str = "name read compressed";
pub(crate) const PARSE_QUERY: &str = "parse simple query";
pub(crate) const PARSE_AAAA: &str = "parse AAAA query";
pub(crate) const PARSE_ONE: &str = "parse 1-A response";
pub(crate) const PARSE_CNAME: &str = "parse CNAME response";
pub(crate) const PARSE_TWELVE: &str = "parse 12 records";
pub(crate) const WRITE_QUERY: &str = "write query";
pub(crate) const WRITE_RESPONSE: &str = "write response";
pub(crate) const WRITE_TWELVE: &str = "write 12 records";
pub(crate) const ROUND_TRIP_QUERY: &str = "round trip query";
pub(crate) const ROUND_TRIP_RESPONSE: &str = "round trip response";
pub(crate) const FULL_CYCLE: &str = "full cycle";
pub(crate) const ZONE_KEY: &str = "zone key";
pub(crate) const ZONE_LOOKUP: &str = "zone lookup";
pub(crate) const REQUEST_KEY: &str = "request key";
pub(crate) const PARSE_AND_KEY: &str = "parse query and key";
pub(crate) const PARSE_AND_KEYS: &str = "the same, 64 queries in turn";
pub(crate) const IN_FLIGHT: &str = "in-flight lookup";
pub(crate) const MISS: &str = "miss: submit and reply";
pub(crate) const PACKET_LOOKUP: &str = "packet cache lookup";
pub(crate) const RRSET_LOOKUP: &str = "RRset cache lookup";
pub(crate) const LOCAL_RECORD: &str = "local record";
pub(crate) const POLICY_BLOCK: &str = "policy block";
pub(crate) const LIST_BLOCK: &str = "list block";
pub(crate) const POLICY_BLOCK_DECIDED: &str = "policy block, decided again";
pub(crate) const LIST_BLOCK_DECIDED: &str = "list block, decided again";
pub(crate) const CACHE_HIT: &str = "cache hit";
pub(crate) const LOGGED_HIT: &str = "cache hit, logged";
pub(crate) const FULL_STACK: &str = "full stack";

/// Figures that an earlier server published for the same operation, measured on another machine:
/// nanoseconds, and allocated bytes if published.
const PUBLISHED: [(&str, f64, Option<u32>); 22] = [
    (NAME_SIMPLE, 91.8, Some(104)),
    (NAME_MEDIUM, 161.4, Some(168)),
    (NAME_COMPRESSED, 53.7, Some(56)),
    (PARSE_QUERY, 273.0, Some(520)),
    (PARSE_AAAA, 324.0, None),
    (PARSE_ONE, 395.0, None),
    (PARSE_CNAME, 579.0, None),
    (PARSE_TWELVE, 1577.0, Some(2920)),
    (WRITE_QUERY, 48.9, None),
    (WRITE_RESPONSE, 90.2, None),
    (ROUND_TRIP_QUERY, 374.0, None),
    (ROUND_TRIP_RESPONSE, 745.0, None),
    (FULL_CYCLE, 502.0, Some(2152)),
    (ZONE_KEY, 34.8, None),
    (ZONE_LOOKUP, 41.8, None),
    (REQUEST_KEY, 37.2, None),
    (IN_FLIGHT, 42.6, None),
    (LOCAL_RECORD, 388.0, None),
    (POLICY_BLOCK, 478.0, None),
    (LIST_BLOCK, 292.0, None),
    (CACHE_HIT, 383.0, None),
    (FULL_STACK, 516.0, None),
];

/// Nanoseconds and bytes published for a row.
pub(crate) fn published(row: &str) -> Option<(f64, Option<u32>)> {
    PUBLISHED.iter().find(|(name, ..)| *name == row).map(|(_, ns, bytes)| (*ns, *bytes))
}

/// Names to read: the row, the message and the offset of the name.
pub(crate) fn names() -> [(&'static str, Vec<u8>, usize); 3] {
    let mut compressed = material::one_address();
    let at = compressed.len();
    compressed.extend_from_slice(b"\x04mail\xc0\x10");
    [
        (NAME_SIMPLE, material::one_address(), 12),
        (NAME_MEDIUM, material::query(material::MEDIUM, Rtype::A, false), 12),
        (NAME_COMPRESSED, compressed, at),
    ]
}

/// Queries to read without copying their names.
pub(crate) fn queries() -> [(&'static str, Vec<u8>); 2] {
    [
        (PARSE_QUERY, material::query(material::WWW, Rtype::A, false)),
        (PARSE_AAAA, material::query(material::WWW, Rtype::AAAA, true)),
    ]
}

/// Queries to read and to turn into a hash that ignores letter case.
pub(crate) fn keyed() -> [(&'static str, Vec<Vec<u8>>); 2] {
    [
        (PARSE_AND_KEY, vec![material::query(material::WWW, Rtype::A, true)]),
        (PARSE_AND_KEYS, material::mixed_queries()),
    ]
}

/// Responses to read completely: all owners and all data.
pub(crate) fn responses() -> [(&'static str, Vec<u8>); 3] {
    [
        (PARSE_ONE, material::one_address()),
        (PARSE_CNAME, material::alias()),
        (PARSE_TWELVE, material::twelve_records()),
    ]
}
