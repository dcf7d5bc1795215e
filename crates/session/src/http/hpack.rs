//! Header fields of HTTP/2 (RFC 7541): a decoder of the fields that DoH needs, and an encoder that
//! uses no dynamic table.
//!
//! The decoder knows the fields of [`FieldName`]. Of all other fields it keeps only the size,
//! because the sizes decide what the table evicts. So the table needs little memory, whatever a
//! client puts into it.

use std::collections::VecDeque;

use super::huffman;

/// Maximum size of the dynamic table that a client may use: the default of RFC 9113 §6.5.2. A table
/// of this size has at most 128 entries.
pub(crate) const TABLE_SIZE: usize = 4096;
/// Number of octets that an entry counts in addition to its name and value (RFC 7541 §4.1).
pub(crate) const ENTRY_OVERHEAD: usize = 32;
/// Maximum size of all fields of a request, including the overhead of each entry. A field counts
/// fully even if one octet, an index into the table, represents it (RFC 9113 §6.5.2).
pub(crate) const MAX_FIELDS: usize = 16 << 10;

/// The header fields that Avocet uses or must check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldName {
    /// `:method`
    Method,
    /// `:path`
    Path,
    /// `:scheme`
    Scheme,
    /// `:authority`
    Authority,
    /// `host`
    Host,
    /// `te`
    Te,
    /// `content-type`
    ContentType,
    /// `content-length`
    ContentLength,
    /// `:status`, in responses.
    Status,
    /// `alt-svc`, in responses.
    AltSvc,
    /// A field that begins with a colon and must not be in a request.
    UnknownPseudo,
    /// A field about the connection, such as `connection`, which HTTP/2 forbids (RFC 9113 §8.2.2).
    OfConnection,
    /// A field whose name contains an invalid octet (RFC 9113 §8.2.1).
    BadName,
    /// Any other field.
    Other,
}

impl FieldName {
    pub(crate) fn read(name: &[u8]) -> Self {
        match name {
            b":method" => Self::Method,
            b":path" => Self::Path,
            b":scheme" => Self::Scheme,
            b":authority" => Self::Authority,
            b":status" => Self::Status,
            b"content-type" => Self::ContentType,
            b"content-length" => Self::ContentLength,
            b"alt-svc" => Self::AltSvc,
            b"connection" | b"transfer-encoding" | b"upgrade" | b"keep-alive"
            | b"proxy-connection" => Self::OfConnection,
            b"host" => Self::Host,
            b"te" => Self::Te,
            [b':', ..] => Self::UnknownPseudo,
            [] => Self::BadName,
            _ if !name.iter().copied().all(is_of_name) => Self::BadName,
            _ => Self::Other,
        }
    }

    /// Returns whether this is a pseudo-field, which replaces a part of the request line or of the
    /// status line.
    pub(super) const fn is_pseudo(self) -> bool {
        matches!(
            self,
            Self::Method
                | Self::Path
                | Self::Scheme
                | Self::Authority
                | Self::Status
                | Self::UnknownPseudo
        )
    }

    /// Returns whether Avocet needs the value of the field.
    const fn has_use(self) -> bool {
        matches!(
            self,
            Self::Method
                | Self::Path
                | Self::Te
                | Self::ContentType
                | Self::ContentLength
                | Self::Status
                | Self::AltSvc
        )
    }
}

/// Reports whether an octet may be in a field name: it must be visible, and neither an upper-case
/// letter nor a colon.
const fn is_of_name(octet: u8) -> bool {
    matches!(octet, b'!'..=b'9' | b';'..=b'@' | b'['..=b'~')
}

/// An entry of a table of header fields.
#[derive(Clone, Debug)]
struct TableEntry {
    name: FieldName,
    name_len: u16,
    value_len: u16,
    /// The value; empty if it is not needed.
    value: Box<[u8]>,
}

impl TableEntry {
    fn size(&self) -> usize {
        usize::from(self.name_len) + usize::from(self.value_len) + ENTRY_OVERHEAD
    }
}

/// The entries of the static table (RFC 7541 Appendix A) that Avocet uses or must check: index,
/// name and value.
const STATIC: [(usize, FieldName, &[u8]); 16] = [
    (1, FieldName::Authority, b""),
    (2, FieldName::Method, b"GET"),
    (3, FieldName::Method, b"POST"),
    (4, FieldName::Path, b"/"),
    (5, FieldName::Path, b"/index.html"),
    (6, FieldName::Scheme, b"http"),
    (7, FieldName::Scheme, b"https"),
    (8, FieldName::Status, b"200"),
    (9, FieldName::Status, b"204"),
    (10, FieldName::Status, b"206"),
    (11, FieldName::Status, b"304"),
    (12, FieldName::Status, b"400"),
    (13, FieldName::Status, b"404"),
    (14, FieldName::Status, b"500"),
    (28, FieldName::ContentLength, b""),
    (31, FieldName::ContentType, b""),
];
/// Number of entries of the static table.
const STATIC_LEN: usize = 61;
/// Lengths of the name and the value of each entry of the static table.
const STATIC_SIZES: [(u8, u8); STATIC_LEN] = [
    (10, 0),
    (7, 3),
    (7, 4),
    (5, 1),
    (5, 11),
    (7, 4),
    (7, 5),
    (7, 3),
    (7, 3),
    (7, 3),
    (7, 3),
    (7, 3),
    (7, 3),
    (7, 3),
    (14, 0),
    (15, 13),
    (15, 0),
    (13, 0),
    (6, 0),
    (27, 0),
    (3, 0),
    (5, 0),
    (13, 0),
    (13, 0),
    (19, 0),
    (16, 0),
    (16, 0),
    (14, 0),
    (16, 0),
    (13, 0),
    (12, 0),
    (6, 0),
    (4, 0),
    (4, 0),
    (6, 0),
    (7, 0),
    (4, 0),
    (4, 0),
    (8, 0),
    (17, 0),
    (13, 0),
    (8, 0),
    (19, 0),
    (13, 0),
    (4, 0),
    (8, 0),
    (12, 0),
    (18, 0),
    (19, 0),
    (5, 0),
    (7, 0),
    (7, 0),
    (11, 0),
    (6, 0),
    (10, 0),
    (25, 0),
    (17, 0),
    (10, 0),
    (4, 0),
    (3, 0),
    (16, 0),
];

/// The error that a header block cannot be decoded. The connection must end, because its dynamic
/// table may be wrong (RFC 9113 §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadBlock;

/// The decoder of the header fields of a connection.
#[derive(Debug)]
pub(crate) struct FieldDecoder {
    entries: VecDeque<TableEntry>,
    size: usize,
    max_size: usize,
    /// Reused memory for decoded names and values.
    name: Vec<u8>,
    value: Vec<u8>,
}

impl FieldDecoder {
    pub(crate) const fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            size: 0,
            max_size: TABLE_SIZE,
            name: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Passes the fields of a block to `visit`: the name of each, and the value if it is needed.
    /// Returns the number of octets of all fields. Fields beyond [`MAX_FIELDS`] only change the
    /// dynamic table.
    pub(crate) fn read(
        &mut self,
        block: &[u8],
        visit: &mut impl FnMut(FieldName, &[u8]),
    ) -> Result<usize, BadBlock> {
        let (mut rest, mut octets, mut has_field) = (block, 0usize, false);
        while let Some(first) = rest.first().copied() {
            if first & 0xe0 == 0x20 {
                // The block begins with a change of the table size (RFC 7541 §4.2).
                let size = integer(&mut rest, 5)?;
                if has_field || size > TABLE_SIZE {
                    return Err(BadBlock);
                }
                self.max_size = size;
                self.evict(0);
                continue;
            }
            has_field = true;
            octets += if first & 0x80 != 0 {
                self.indexed(integer(&mut rest, 7)?, octets, visit)?
            } else {
                self.literal(&mut rest, octets, visit)?
            };
        }
        if self.name.capacity() + self.value.capacity() > TABLE_SIZE {
            (self.name, self.value) = (Vec::new(), Vec::new());
        }
        Ok(octets)
    }

    /// Passes the entry with this index to `visit`. Returns the size of the entry.
    fn indexed(
        &self,
        index: usize,
        before: usize,
        visit: &mut impl FnMut(FieldName, &[u8]),
    ) -> Result<usize, BadBlock> {
        let (name, value, size) = if let Some(entry) = self.dynamic(index) {
            (entry.name, &*entry.value, entry.size())
        } else {
            let (name, name_len) = self.name_at(index)?;
            let found = STATIC.iter().find(|(place, ..)| *place == index);
            let value_len = STATIC_SIZES[index - 1].1;
            let value = found.map_or(&b""[..], |(_, _, value)| value);
            (name, value, name_len + usize::from(value_len) + ENTRY_OVERHEAD)
        };
        if before < MAX_FIELDS {
            visit(name, value);
        }
        Ok(size)
    }

    fn literal(
        &mut self,
        rest: &mut &[u8],
        before: usize,
        visit: &mut impl FnMut(FieldName, &[u8]),
    ) -> Result<usize, BadBlock> {
        let is_kept = rest[0] & 0x40 != 0;
        let index = integer(rest, if is_kept { 6 } else { 4 })?;
        let (name, name_len) = if index == 0 {
            string(rest, 7, &mut self.name)?;
            (FieldName::read(&self.name), self.name.len())
        } else {
            self.name_at(index)?
        };
        string(rest, 7, &mut self.value)?;
        let size = name_len + self.value.len() + ENTRY_OVERHEAD;
        if before < MAX_FIELDS {
            visit(name, &self.value);
        }
        if is_kept {
            self.evict(size);
            // An entry that is larger than the table empties it (RFC 7541 §4.4).
            if size <= self.max_size {
                let value = if name.has_use() { &self.value[..] } else { &[] };
                // Both lengths fit, because the entry is not larger than the table.
                self.entries.push_front(TableEntry {
                    name,
                    name_len: name_len as u16,
                    value_len: self.value.len() as u16,
                    value: value.into(),
                });
                self.size += size;
            }
        }
        Ok(size)
    }

    /// Returns the number of octets of the values that the table keeps.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn kept(&self) -> usize {
        self.entries.iter().map(|entry| entry.value.len()).sum()
    }

    /// Makes room for an entry.
    fn evict(&mut self, size: usize) {
        while self.size + size > self.max_size
            && let Some(last) = self.entries.pop_back()
        {
            self.size -= last.size();
        }
    }

    fn dynamic(&self, index: usize) -> Option<&TableEntry> {
        self.entries.get(index.checked_sub(STATIC_LEN + 1)?)
    }

    /// Returns the name of the entry with this index, and the length of the name.
    fn name_at(&self, index: usize) -> Result<(FieldName, usize), BadBlock> {
        if let Some(entry) = self.dynamic(index) {
            return Ok((entry.name, entry.name_len.into()));
        }
        let sizes = index.checked_sub(1).and_then(|place| STATIC_SIZES.get(place));
        let (name_len, _) = sizes.ok_or(BadBlock)?;
        let named = STATIC.iter().find(|(place, ..)| *place == index);
        let name = match index {
            57 => FieldName::OfConnection,
            _ => named.map_or(FieldName::Other, |(_, name, _)| *name),
        };
        Ok((name, usize::from(*name_len)))
    }
}

/// Reads an integer with a prefix of `bits` bits (RFC 7541 §5.1). No integer here needs more than
/// four octets.
pub(super) fn integer(rest: &mut &[u8], bits: u32) -> Result<usize, BadBlock> {
    const MAX_SHIFT: u32 = 21;
    let (first, mut after) = rest.split_first().ok_or(BadBlock)?;
    let most = (1usize << bits) - 1;
    let mut value = usize::from(*first) & most;
    if value == most {
        for shift in (0..=MAX_SHIFT).step_by(7) {
            let (octet, next) = after.split_first().ok_or(BadBlock)?;
            after = next;
            value += usize::from(octet & 0x7f) << shift;
            if octet & 0x80 == 0 {
                *rest = after;
                return Ok(value);
            }
        }
        return Err(BadBlock);
    }
    *rest = after;
    Ok(value)
}

/// Reads a string into `out`. The length of the string has a prefix of `bits` bits, and the bit
/// before it states whether the string is Huffman-coded.
pub(super) fn string(rest: &mut &[u8], bits: u32, out: &mut Vec<u8>) -> Result<(), BadBlock> {
    let is_coded = rest.first().ok_or(BadBlock)? & (1 << bits) != 0;
    let len = integer(rest, bits)?;
    let (octets, after) = rest.split_at_checked(len).ok_or(BadBlock)?;
    *rest = after;
    out.clear();
    if is_coded {
        return huffman::decode(octets, out).map_err(|_| BadBlock);
    }
    out.extend_from_slice(octets);
    Ok(())
}

/// Appends a field whose name has this index in the static table. No table changes.
pub(crate) fn write(index: u8, value: &[u8], out: &mut Vec<u8>) {
    write_integer(index.into(), 4, out);
    write_integer(value.len(), 7, out);
    out.extend_from_slice(value);
}

/// Appends a field with a name that is in no table. The tables do not change.
pub(crate) fn write_named(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.push(0);
    for text in [name, value] {
        write_integer(text.len(), 7, out);
        out.extend_from_slice(text);
    }
}

/// Appends an integer with a prefix of `bits` bits. All other bits of the first octet are zero.
pub(super) fn write_integer(value: usize, bits: u32, out: &mut Vec<u8>) {
    let most = (1usize << bits) - 1;
    if value < most {
        return out.push(value as u8);
    }
    out.push(most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        decoder: &mut FieldDecoder,
        block: &[u8],
    ) -> Result<Vec<(FieldName, String)>, BadBlock> {
        let mut fields = Vec::new();
        let mut visit = |name, value: &[u8]| {
            fields.push((name, String::from_utf8_lossy(value).into_owned()));
        };
        decoder.read(block, &mut visit).map(|_| fields)
    }

    #[test]
    fn the_examples_of_the_rfc_are_read_by_one_decoder() {
        // The examples of RFC 7541 C.4.1 and C.4.2.
        let mut decoder = FieldDecoder::new();
        let first = [
            &[0x82, 0x86, 0x84, 0x41, 0x8c][..],
            &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff],
        ];
        let fields = read(&mut decoder, &first.concat()).unwrap();
        let expected = [
            (FieldName::Method, "GET".to_owned()),
            (FieldName::Scheme, "http".to_owned()),
            (FieldName::Path, "/".to_owned()),
            (FieldName::Authority, "www.example.com".to_owned()),
        ];
        assert_eq!(fields, expected);
        assert_eq!(decoder.size, 57);
        let second = [0x82, 0x86, 0x84, 0xbe, 0x58, 0x86, 0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf];
        let fields = read(&mut decoder, &second).unwrap();
        assert_eq!(fields.len(), 5);
        // The value of `:authority` is not needed, so it is not kept.
        assert_eq!(fields[3], (FieldName::Authority, String::new()));
        assert_eq!(decoder.size, 110);
    }

    #[test]
    fn a_table_of_references_counts_each_of_them() {
        let mut decoder = FieldDecoder::new();
        let mut bomb = vec![0x40, 1, b'x', 0x7f, 0xa1, 0x1e];
        bomb.extend([b'v'; 4000]);
        read(&mut decoder, &bomb).unwrap();
        let mut visited = 0;
        let octets = decoder.read(&[0xbe; 16_000], &mut |_, _| visited += 1).unwrap();
        assert_eq!(octets, 16_000 * 4033);
        assert_eq!(visited, 5);
        let kept = decoder.entries.iter().map(|entry| entry.value.len()).sum::<usize>();
        assert_eq!((decoder.entries.len(), kept), (1, 0));
    }

    #[test]
    fn tables_shrink_and_entries_leave() {
        let mut decoder = FieldDecoder::new();
        for _ in 0..1000 {
            read(&mut decoder, &[0x40, 0, 0]).unwrap();
        }
        assert_eq!((decoder.entries.len(), decoder.size), (128, 4096));
        read(&mut decoder, &[0x20]).unwrap();
        assert_eq!((decoder.entries.len(), decoder.size), (0, 0));
        read(&mut decoder, &[0x40, 1, b'x', 1, b'y']).unwrap();
        assert_eq!(decoder.entries.len(), 0);
        // The table may be as large as before, but not larger.
        read(&mut decoder, &[0x3f, 0xe1, 0x1f]).unwrap();
        assert_eq!(read(&mut decoder, &[0x3f, 0xe2, 0x1f]), Err(BadBlock));
    }

    #[test]
    fn names_have_lower_case_and_no_octets_of_control() {
        let read = |name: &str| FieldName::read(name.as_bytes());
        for name in ["X-Id", "x id", "x:id", "x\u{7f}", "x\u{e9}", "", "x\0", "Content-Type"] {
            assert_eq!(read(name), FieldName::BadName, "{name:?}");
        }
        for name in ["x-id", "x_id", "!#$%&'*+-.^_`|~0123456789", "accept"] {
            assert_eq!(read(name), FieldName::Other, "{name:?}");
        }
        assert_eq!(read(":Path"), FieldName::UnknownPseudo);
    }

    #[test]
    fn damaged_blocks_are_refused() {
        for block in [
            &[0x80][..],
            &[0xbe],
            &[0x40],
            &[0x40, 3, b'x'],
            &[0x82, 0x20],
            &[0x7f, 0xff, 0xff, 0xff, 0xff, 0x0f],
            &[0x41, 0x81, 0x00],
        ] {
            assert_eq!(read(&mut FieldDecoder::new(), block), Err(BadBlock), "{block:x?}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for len in [0, 1, 126, 127, 128, 255, 256, 700, 20_000] {
            let mut out = vec![0x82];
            let value = "v".repeat(len);
            write(31, value.as_bytes(), &mut out);
            let fields = read(&mut FieldDecoder::new(), &out).unwrap();
            assert_eq!(fields[1], (FieldName::ContentType, value));
        }
    }
}
