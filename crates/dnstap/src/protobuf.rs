//! The part of the encoding of protocol buffers that dnstap uses: varints, fixed words and octets.

use crate::TapError;

/// Octets of the longest varint.
const MAX_VARINT: usize = 10;

/// Appends a field with an integer.
pub(crate) fn put_uint(out: &mut Vec<u8>, field: u32, value: u64) {
    put_varint(out, u64::from(field) << 3);
    put_varint(out, value);
}

/// Appends a field with 32 fixed bits.
pub(crate) fn put_fixed32(out: &mut Vec<u8>, field: u32, value: u32) {
    put_varint(out, u64::from(field) << 3 | 5);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a field with octets or a message.
pub(crate) fn put_octets(out: &mut Vec<u8>, field: u32, octets: &[u8]) {
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
pub(crate) enum FieldValue<'a> {
    /// An integer.
    Uint(u64),
    /// 32 fixed bits.
    Fixed32(u32),
    /// 64 fixed bits, which dnstap does not use.
    Fixed64,
    /// Octets or a message.
    Octets(&'a [u8]),
}

/// A field of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ProtoField<'a> {
    /// Its number.
    pub(crate) number: u64,
    /// Its value.
    pub(crate) value: FieldValue<'a>,
}

/// The fields of a message, one after another.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// Returns the next field.
    ///
    /// # Errors
    /// The message is malformed.
    pub(crate) fn read_field(&mut self) -> Result<Option<ProtoField<'a>>, TapError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => FieldValue::Uint(self.varint()?),
            1 => self.take(8).map(|_| FieldValue::Fixed64)?,
            2 => {
                let len = usize::try_from(self.varint()?).map_err(|_| TapError::Message)?;
                FieldValue::Octets(self.take(len)?)
            }
            5 => {
                let octets = self.take(4)?.first_chunk().copied().unwrap_or_default();
                FieldValue::Fixed32(u32::from_le_bytes(octets))
            }
            // Groups, which are no longer used.
            _ => return Err(TapError::Message),
        };
        Ok(Some(ProtoField { number: tag >> 3, value }))
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], TapError> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(TapError::Message)?;
        self.0 = rest;
        Ok(taken)
    }

    fn varint(&mut self) -> Result<u64, TapError> {
        let mut value = 0;
        for (place, octet) in self.0.iter().take(MAX_VARINT).enumerate() {
            // Bits beyond the 64th are lost, as in other readers.
            value |= u64::from(octet & 0x7f).unbounded_shl(7 * place as u32);
            if octet & 0x80 == 0 {
                self.0 = &self.0[place + 1..];
                return Ok(value);
            }
        }
        Err(TapError::Message)
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
        put_octets(&mut out, 14, b"abc");
        let mut fields = Fields(&out);
        for value in values {
            let expected = ProtoField { number: 15, value: FieldValue::Uint(value) };
            assert_eq!(fields.read_field().unwrap(), Some(expected));
        }
        let mut value = || fields.read_field().unwrap().map(|field| field.value);
        assert_eq!(value(), Some(FieldValue::Fixed32(0x0102_0304)));
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
