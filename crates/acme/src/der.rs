//! DER (X.690), as far as certificates need it. A nested field is written after the fields inside
//! it; fields are read one after the other.

/// The tags of fields, by their types.
pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const OID: u8 = 0x06;
pub(crate) const UTF8_STRING: u8 = 0x0c;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const GENERALIZED_TIME: u8 = 0x18;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
/// Returns the tag of a context-specific field with fields inside: `[number]`.
pub(crate) const fn constructed(number: u8) -> u8 {
    0xa0 | number
}
/// Returns the tag of a context-specific field with a value: `[number] IMPLICIT`.
pub(crate) const fn primitive(number: u8) -> u8 {
    0x80 | number
}

/// Returns a field with this content.
pub(crate) fn write(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = content.len();
    let mut out = vec![tag];
    match u8::try_from(len) {
        Ok(short) if short < 0x80 => out.push(short),
        _ => {
            let octets: Vec<u8> =
                len.to_be_bytes().into_iter().skip_while(|octet| *octet == 0).collect();
            out.push(0x80 | octets.len() as u8);
            out.extend(octets);
        }
    }
    out.extend_from_slice(content);
    out
}

/// Returns a field with these fields inside.
pub(crate) fn nested(tag: u8, fields: &[&[u8]]) -> Vec<u8> {
    write(tag, &fields.concat())
}

/// Returns a bit string without unused bits.
pub(crate) fn bits(octets: &[u8]) -> Vec<u8> {
    bits_with_unused(0, octets)
}

/// Returns a bit string whose last `unused` bits are not used.
pub(crate) fn bits_with_unused(unused: u8, octets: &[u8]) -> Vec<u8> {
    nested(BIT_STRING, &[&[unused], octets])
}

/// A field, and the octets after it.
#[derive(Clone, Copy)]
pub(crate) struct DerField<'d> {
    pub(crate) tag: u8,
    pub(crate) content: &'d [u8],
    pub(crate) rest: &'d [u8],
}

/// Reads the first field.
pub(crate) fn read(octets: &[u8]) -> Option<DerField<'_>> {
    let (head, rest) = octets.split_first_chunk::<2>()?;
    let (len, rest) = match head[1] {
        short @ 0..=0x7f => (usize::from(short), rest),
        // The reader accepts lengths of up to three octets: a certificate has at most 16 MB.
        long @ 0x81..=0x83 => {
            let (len, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (len.iter().fold(0, |len, octet| len << 8 | usize::from(*octet)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(len)?;
    Some(DerField { tag: head[0], content, rest })
}

/// Reads the first field. Returns `None` if it does not have this tag.
pub(crate) fn expect(octets: &[u8], tag: u8) -> Option<DerField<'_>> {
    read(octets).filter(|field| field.tag == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_a_cut_is_not() {
        for len in [0, 1, 127, 128, 255, 256, 65_535, 65_536] {
            let field = write(OCTET_STRING, &vec![7; len]);
            let read_back = expect(&field, OCTET_STRING).unwrap();
            assert_eq!((read_back.content.len(), read_back.rest.len()), (len, 0));
            for cut in [0, 1, 2, field.len() - 1] {
                assert!(read(&field[..cut.min(field.len() - 1)]).is_none(), "{len}, {cut}");
            }
        }
        assert!(expect(&write(INTEGER, &[1]), OCTET_STRING).is_none());
        assert!(read(&[OCTET_STRING, 0x84, 0, 0, 0, 1, 7]).is_none(), "a length of four octets");
    }
}
