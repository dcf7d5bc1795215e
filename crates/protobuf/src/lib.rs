//! The encoding of protocol buffers, as far as dnstap and OpenTelemetry use it: varints, fixed
//! words, and octets or messages.
//!
//! The crate has no input or output. It knows no schema: a writer gives the number of each field,
//! and a reader decides by the numbers that it knows.

#![forbid(unsafe_code)]

/// An error: the octets are not a protocol buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("malformed protocol buffer")]
pub struct ProtoError;

/// Length of the longest varint in octets.
const MAX_VARINT: usize = 10;

/// Appends a field with an integer.
pub fn put_uint(out: &mut Vec<u8>, field: u32, value: u64) {
    put_varint(out, u64::from(field) << 3);
    put_varint(out, value);
}

/// Appends a field with 32 fixed bits.
pub fn put_fixed32(out: &mut Vec<u8>, field: u32, value: u32) {
    put_varint(out, u64::from(field) << 3 | 5);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a field with 64 fixed bits.
pub fn put_fixed64(out: &mut Vec<u8>, field: u32, value: u64) {
    put_varint(out, u64::from(field) << 3 | 1);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a field with octets or a message.
pub fn put_octets(out: &mut Vec<u8>, field: u32, octets: &[u8]) {
    put_varint(out, u64::from(field) << 3 | 2);
    put_varint(out, octets.len() as u64);
    out.extend_from_slice(octets);
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A value of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldValue<'a> {
    /// An integer.
    Uint(u64),
    /// 32 fixed bits.
    Fixed32(u32),
    /// 64 fixed bits.
    Fixed64(u64),
    /// The octets of a text or a message.
    Octets(&'a [u8]),
}

/// A field of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtoField<'a> {
    /// The number of the field.
    pub number: u64,
    /// The value of the field.
    pub value: FieldValue<'a>,
}

/// The fields of a message, one after another.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// Returns the next field.
    ///
    /// # Errors
    /// The message is malformed.
    pub fn read_field(&mut self) -> Result<Option<ProtoField<'a>>, ProtoError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => FieldValue::Uint(self.varint()?),
            1 => {
                let octets = self.take(8)?.first_chunk().copied().unwrap_or_default();
                FieldValue::Fixed64(u64::from_le_bytes(octets))
            }
            2 => {
                let len = usize::try_from(self.varint()?).map_err(|_| ProtoError)?;
                FieldValue::Octets(self.take(len)?)
            }
            5 => {
                let octets = self.take(4)?.first_chunk().copied().unwrap_or_default();
                FieldValue::Fixed32(u32::from_le_bytes(octets))
            }
            // Groups are no longer used.
            _ => return Err(ProtoError),
        };
        Ok(Some(ProtoField { number: tag >> 3, value }))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], ProtoError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(ProtoError)?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, ProtoError> {
        let mut value = 0;
        for (place, octet) in self.0.iter().take(MAX_VARINT).enumerate() {
            // Bits beyond the 64th are lost, as in other readers.
            value |= u64::from(octet & 0x7f).unbounded_shl(7 * place as u32);
            if octet & 0x80 == 0 {
                self.0 = &self.0[place + 1..];
                return Ok(value);
            }
        }
        Err(ProtoError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_survive_a_round_trip() {
        let mut out = Vec::new();
        let values = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        values.iter().for_each(|value| put_uint(&mut out, 15, *value));
        put_fixed32(&mut out, 9, 0x0102_0304);
        put_fixed64(&mut out, 7, 0x0102_0304_0506_0708);
        put_octets(&mut out, 14, b"abc");
        let mut fields = Fields(&out);
        for value in values {
            let expected = ProtoField { number: 15, value: FieldValue::Uint(value) };
            assert_eq!(fields.read_field().unwrap(), Some(expected));
        }
        let mut value = || fields.read_field().unwrap().map(|field| field.value);
        assert_eq!(value(), Some(FieldValue::Fixed32(0x0102_0304)));
        assert_eq!(value(), Some(FieldValue::Fixed64(0x0102_0304_0506_0708)));
        assert_eq!(value(), Some(FieldValue::Octets(b"abc")));
        assert_eq!(value(), None);
    }

    #[test]
    fn malformed_fields_are_refused() {
        let check = |octets: &[u8]| {
            let mut fields = Fields(octets);
            while let Ok(field) = fields.read_field() {
                assert!(field.is_some(), "{octets:?} is taken");
            }
        };
        check(&[0x80]);
        check(&[0x08]);
        check(&[0x12, 3, 1, 2]);
        check(&[0x4d, 1, 2, 3]);
        check(&[0x0b]);
        check(&[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0]);
        check(&[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]);
    }
}
