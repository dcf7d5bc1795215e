//! Header fields of HTTP/3 (RFC 9204) without a dynamic table: both ends permit only a table of no
//! octets.
//!
//! The decoder knows the fields of [`FieldName`]; of all other fields it only counts the size.

use super::hpack::{
    BadBlock, ENTRY_OVERHEAD, FieldName, MAX_FIELDS, integer, string, write_integer,
};

/// Number of entries of the static table (RFC 9204 Appendix A).
const STATIC_LEN: usize = 99;
/// The size that each entry of the static table counts: more than the size of the largest entry,
/// including the overhead.
const STATIC_SIZE: usize = 128;
/// The entries of the static table that Avocet uses or must check: index, name and value.
const STATIC: [(usize, FieldName, &[u8]); 35] = [
    (0, FieldName::Authority, b""),
    (1, FieldName::Path, b"/"),
    (4, FieldName::ContentLength, b"0"),
    (15, FieldName::Method, b"CONNECT"),
    (16, FieldName::Method, b"DELETE"),
    (17, FieldName::Method, b"GET"),
    (18, FieldName::Method, b"HEAD"),
    (19, FieldName::Method, b"OPTIONS"),
    (20, FieldName::Method, b"POST"),
    (21, FieldName::Method, b"PUT"),
    (22, FieldName::Scheme, b"http"),
    (23, FieldName::Scheme, b"https"),
    (24, FieldName::Status, b"103"),
    (25, FieldName::Status, b"200"),
    (26, FieldName::Status, b"304"),
    (27, FieldName::Status, b"404"),
    (28, FieldName::Status, b"503"),
    (44, FieldName::ContentType, b"application/dns-message"),
    (45, FieldName::ContentType, b"application/javascript"),
    (46, FieldName::ContentType, b"application/json"),
    (47, FieldName::ContentType, b"application/x-www-form-urlencoded"),
    (48, FieldName::ContentType, b"image/gif"),
    (49, FieldName::ContentType, b"image/jpeg"),
    (50, FieldName::ContentType, b"image/png"),
    (51, FieldName::ContentType, b"text/css"),
    (52, FieldName::ContentType, b"text/html; charset=utf-8"),
    (53, FieldName::ContentType, b"text/plain"),
    (54, FieldName::ContentType, b"text/plain;charset=utf-8"),
    (63, FieldName::Status, b"100"),
    (64, FieldName::Status, b"204"),
    (65, FieldName::Status, b"206"),
    (67, FieldName::Status, b"400"),
    (68, FieldName::Status, b"403"),
    (69, FieldName::Status, b"421"),
    (71, FieldName::Status, b"500"),
];

/// The prefix of a header block that does not refer to the dynamic table (RFC 9204 §4.5.1).
pub(crate) const PREFIX: [u8; 2] = [0, 0];

/// Passes the names and values of the fields of a block to `visit`. Returns the number of octets of
/// all fields. Fields beyond [`MAX_FIELDS`] are not passed.
pub(crate) fn read(
    block: &[u8],
    visit: &mut impl FnMut(FieldName, &[u8]),
) -> Result<usize, BadBlock> {
    let mut rest = block;
    // The required insert count and the base.
    let is_static = integer(&mut rest, 8)? == 0;
    integer(&mut rest, 7)?;
    if !is_static {
        return Err(BadBlock);
    }
    let (mut octets, mut name, mut value) = (0, Vec::new(), Vec::new());
    while let Some(first) = rest.first().copied() {
        let (field, size) = match first {
            // The static table has both the name and the value.
            0xc0.. => {
                let (field, found) = entry(integer(&mut rest, 6)?)?;
                value.clear();
                value.extend_from_slice(found);
                (field, STATIC_SIZE)
            }
            // The static table has the name, and the value follows.
            0x50..=0x5f | 0x70..=0x7f => {
                let (field, _) = entry(integer(&mut rest, 4)?)?;
                string(&mut rest, 7, &mut value)?;
                (field, STATIC_SIZE + value.len())
            }
            // The name and the value follow.
            0x20..=0x3f => {
                string(&mut rest, 3, &mut name)?;
                string(&mut rest, 7, &mut value)?;
                (FieldName::read(&name), ENTRY_OVERHEAD + name.len() + value.len())
            }
            // The field refers to the dynamic table.
            _ => return Err(BadBlock),
        };
        if octets < MAX_FIELDS {
            visit(field, &value);
        }
        octets += size;
    }
    Ok(octets)
}

/// Returns the name and value of an entry of the static table. The value is empty if it is not
/// needed.
fn entry(index: usize) -> Result<(FieldName, &'static [u8]), BadBlock> {
    if index >= STATIC_LEN {
        return Err(BadBlock);
    }
    let found = STATIC.iter().find(|(place, ..)| *place == index);
    Ok(found.map_or((FieldName::Other, &b""[..]), |(_, name, value)| (*name, *value)))
}

/// Appends a field that is an entry of the static table.
pub(crate) fn write_entry(index: u8, out: &mut Vec<u8>) {
    let start = out.len();
    write_integer(index.into(), 6, out);
    out[start] |= 0xc0;
}

/// Appends a field: the index of its name in the static table, and its value.
pub(crate) fn write_value(index: u8, value: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    write_integer(index.into(), 4, out);
    out[start] |= 0x50;
    write_integer(value.len(), 7, out);
    out.extend_from_slice(value);
}

/// Appends a name and a value.
pub(crate) fn write_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    write_integer(name.len(), 3, out);
    out[start] |= 0x20;
    out.extend_from_slice(name);
    write_integer(value.len(), 7, out);
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(block: &[u8]) -> Result<Vec<(FieldName, String)>, BadBlock> {
        let mut found = Vec::new();
        read(block, &mut |name, value| {
            found.push((name, String::from_utf8_lossy(value).into_owned()));
        })
        .map(|_| found)
    }

    #[test]
    fn the_example_of_the_rfc_is_read() {
        // The example of RFC 9204 B.1.
        let block = b"\x00\x00\x51\x0b/index.html";
        assert_eq!(fields(block), Ok(vec![(FieldName::Path, "/index.html".to_owned())]));
    }

    #[test]
    fn what_is_written_is_read() {
        for len in [0, 1, 126, 127, 128, 300, 5_000] {
            let value = "v".repeat(len);
            let mut block = PREFIX.to_vec();
            write_entry(17, &mut block);
            write_entry(71, &mut block);
            write_value(1, value.as_bytes(), &mut block);
            write_value(95, value.as_bytes(), &mut block);
            write_field(b"content-type", value.as_bytes(), &mut block);
            let expected = [
                (FieldName::Method, "GET"),
                (FieldName::Status, "500"),
                (FieldName::Path, &value),
                (FieldName::Other, &value),
                (FieldName::ContentType, &value),
            ];
            let found = fields(&block).unwrap();
            let found: Vec<_> = found.iter().map(|(name, value)| (*name, value.as_str())).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn huffman_codes_are_read_in_names_and_values() {
        // `custom-key: custom-value` of RFC 7541 C.4.3.
        let name = [0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f];
        let value = [0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xb8, 0xe8, 0xb4, 0xbf];
        let block = [&[0, 0, 0x2f, 1][..], &name, &[0x89], &value].concat();
        assert_eq!(fields(&block), Ok(vec![(FieldName::Other, "custom-value".to_owned())]));
    }

    #[test]
    fn references_to_a_dynamic_table_and_damaged_blocks_are_refused() {
        for block in [
            &b""[..],
            b"\x00",
            b"\x01\x00\xd1",
            b"\x00\x00\x80",
            b"\x00\x00\x40\x00",
            b"\x00\x00\x10",
            b"\x00\x00\x00\x00",
            b"\x00\x00\xff\x24",
            b"\x00\x00\x51",
            b"\x00\x00\x51\x05abc",
            b"\x00\x00\x23ab",
            b"\x00\x00\xff\xff\xff\xff\xff\x0f",
        ] {
            assert_eq!(fields(block), Err(BadBlock), "{block:x?}");
        }
    }

    #[test]
    fn many_references_are_counted_and_few_are_visited() {
        let block = [&PREFIX[..], &[0xd1; 30_000]].concat();
        let mut visited = 0;
        let octets = read(&block, &mut |_, _| visited += 1).unwrap();
        assert_eq!(octets, 30_000 * STATIC_SIZE);
        assert_eq!(visited, MAX_FIELDS / STATIC_SIZE);
    }
}
