//! Values of a MaxMind DB file, in its data section and its metadata: headers, pointers, and fields
//! of maps.
//!
//! Values are not copied: an offset in a section represents a value. Each header read is counted in
//! [`Steps`].

use super::GeoError;

const EXTENDED: u8 = 0;
const POINTER: u8 = 1;
const TEXT: u8 = 2;
const DOUBLE: u8 = 3;
const BYTES: u8 = 4;
const UNSIGNED_16: u8 = 5;
const UNSIGNED_32: u8 = 6;
const MAP: u8 = 7;
const SIGNED_32: u8 = 8;
const UNSIGNED_64: u8 = 9;
const UNSIGNED_128: u8 = 10;
const ARRAY: u8 = 11;
const BOOLEAN: u8 = 14;
const FLOAT: u8 = 15;

/// The values to add to pointers of one, two, three and four octets (the number of octets after the
/// first).
const POINTER_BASES: [usize; 4] = [0, 2_048, 526_336, 0];
/// Sizes of at least this value continue in one, two or three octets.
const SIZE_CONTINUED: usize = 29;
/// The bases of sizes that continue in one, two and three octets.
const SIZE_BASES: [usize; 3] = [29, 285, 65_821];

/// The number of headers that may still be read.
pub(super) struct Steps(u64);

impl Steps {
    pub(super) fn new(most: u64) -> Self {
        Self(most)
    }

    #[cfg(test)]
    pub(super) fn left(&self) -> u64 {
        self.0
    }

    fn take(&mut self) -> Result<(), GeoError> {
        self.0 = self.0.checked_sub(1).ok_or(GeoError::Limit("values that are looked at"))?;
        Ok(())
    }
}

/// The octets with values. Pointers are offsets from the first octet.
#[derive(Clone, Copy)]
pub(super) struct DataSection<'a>(pub(super) &'a [u8]);

/// The header of a value.
#[derive(Clone, Copy)]
struct ValueHeader {
    kind: ValueType,
    /// The offset of the first octet after the header.
    end: usize,
}

#[derive(Clone, Copy)]
enum ValueType {
    /// A pointer to the value at this offset.
    Pointer(usize),
    /// Text of this many octets.
    Text(usize),
    /// An unsigned number of this many octets.
    Unsigned(usize),
    /// A map with this many pairs.
    Map(usize),
    /// An array with this many values.
    Array(usize),
    /// Another value of this many octets.
    Other(usize),
}

impl<'a> DataSection<'a> {
    /// Returns the offsets of the values with these keys in the map at `at`, or `None` if there is
    /// no map.
    ///
    /// # Errors
    /// The map is damaged, or no steps are left.
    pub(super) fn fields<const N: usize>(
        self,
        at: usize,
        keys: [&str; N],
        steps: &mut Steps,
    ) -> Result<Option<[Option<usize>; N]>, GeoError> {
        let (header, _) = self.resolve(at, steps)?;
        let ValueType::Map(pairs) = header.kind else { return Ok(None) };
        let (mut found, mut place) = ([None; N], header.end);
        for _ in 0..pairs {
            let (key, value) = self.text_and_end(place, steps)?;
            let key = key.ok_or(GeoError::Value(place))?;
            if let Some(wanted) = keys.iter().position(|wanted| wanted.as_bytes() == key) {
                found[wanted].get_or_insert(value);
            }
            place = self.skip(value, steps)?;
        }
        Ok(Some(found))
    }

    /// Returns the text at `at`, or `None` if the value has another type.
    ///
    /// # Errors
    /// The value is damaged, or no steps are left.
    pub(super) fn text(self, at: usize, steps: &mut Steps) -> Result<Option<&'a [u8]>, GeoError> {
        self.text_and_end(at, steps).map(|(text, _)| text)
    }

    /// Returns the unsigned number at `at`, or `None` if the value has another type or more than 64
    /// bits.
    ///
    /// # Errors
    /// The value is damaged, or no steps are left.
    pub(super) fn number(self, at: usize, steps: &mut Steps) -> Result<Option<u64>, GeoError> {
        let (header, _) = self.resolve(at, steps)?;
        let ValueType::Unsigned(size @ 0..=8) = header.kind else { return Ok(None) };
        Ok(Some(self.big_endian(header.end, size)? as u64))
    }

    /// Returns the text at `at` and the offset after it. If a pointer to the text is at `at`,
    /// returns the offset after the pointer.
    fn text_and_end(
        self,
        at: usize,
        steps: &mut Steps,
    ) -> Result<(Option<&'a [u8]>, usize), GeoError> {
        let (header, end) = self.resolve(at, steps)?;
        match header.kind {
            ValueType::Text(size) => {
                Ok((Some(self.body(header.end, size)?), end.unwrap_or(header.end + size)))
            }
            _ => Ok((None, header.end)),
        }
    }

    /// Returns the header of the value at `at`, and the offset after the pointer to it if there is
    /// one. A pointer to a pointer is an error.
    fn resolve(
        self,
        at: usize,
        steps: &mut Steps,
    ) -> Result<(ValueHeader, Option<usize>), GeoError> {
        let header = self.header(at, steps)?;
        let ValueType::Pointer(to) = header.kind else { return Ok((header, None)) };
        let target = self.header(to, steps)?;
        if let ValueType::Pointer(_) = target.kind {
            return Err(GeoError::Value(to));
        }
        Ok((target, Some(header.end)))
    }

    /// Returns the offset after the value at `at`, including all values inside it. Does not follow
    /// pointers.
    fn skip(self, at: usize, steps: &mut Steps) -> Result<usize, GeoError> {
        let (mut place, mut open) = (at, 1_u64);
        while open > 0 {
            let header = self.header(place, steps)?;
            open -= 1;
            place = header.end;
            match header.kind {
                ValueType::Pointer(_) => {}
                ValueType::Map(pairs) => open += 2 * pairs as u64,
                ValueType::Array(values) => open += values as u64,
                ValueType::Text(size) | ValueType::Unsigned(size) | ValueType::Other(size) => {
                    self.body(place, size)?;
                    place += size;
                }
            }
        }
        Ok(place)
    }

    fn header(self, at: usize, steps: &mut Steps) -> Result<ValueHeader, GeoError> {
        steps.take()?;
        let control = self.octet(at)?;
        let (bits, mut end) = (control & 0x1f, at + 1);
        let mut kind = control >> 5;
        if kind == POINTER {
            return self.pointer(bits, end);
        }
        if kind == EXTENDED {
            kind = self
                .octet(end)?
                .checked_add(MAP)
                .filter(|kind| *kind > MAP)
                .ok_or(GeoError::Value(at))?;
            end += 1;
        }
        let mut size = usize::from(bits);
        if let Some(continued) = size.checked_sub(SIZE_CONTINUED) {
            size = SIZE_BASES[continued] + self.big_endian(end, continued + 1)?;
            end += continued + 1;
        }
        let kind = match kind {
            TEXT => ValueType::Text(size),
            UNSIGNED_16 | UNSIGNED_32 | UNSIGNED_64 | UNSIGNED_128 => ValueType::Unsigned(size),
            MAP => ValueType::Map(size),
            ARRAY => ValueType::Array(size),
            // The size of a boolean is its value.
            BOOLEAN => ValueType::Other(0),
            DOUBLE | BYTES | SIGNED_32 | FLOAT => ValueType::Other(size),
            _ => return Err(GeoError::Value(at)),
        };
        Ok(ValueHeader { kind, end })
    }

    /// Reads a pointer with its octets at `at`. In `bits`, two bits give the number of these
    /// octets, and three bits are the highest bits of the pointer.
    fn pointer(self, bits: u8, at: usize) -> Result<ValueHeader, GeoError> {
        let octets = usize::from(bits >> 3) + 1;
        let high = if octets < 4 { usize::from(bits & 7) << (8 * octets) } else { 0 };
        let to = (high | self.big_endian(at, octets)?) + POINTER_BASES[octets - 1];
        Ok(ValueHeader { kind: ValueType::Pointer(to), end: at + octets })
    }

    fn big_endian(self, at: usize, size: usize) -> Result<usize, GeoError> {
        Ok(self.body(at, size)?.iter().fold(0, |number, octet| number << 8 | usize::from(*octet)))
    }

    fn octet(self, at: usize) -> Result<u8, GeoError> {
        self.0.get(at).copied().ok_or(GeoError::Value(at))
    }

    fn body(self, at: usize, size: usize) -> Result<&'a [u8], GeoError> {
        self.0.get(at..).and_then(|rest| rest.get(..size)).ok_or(GeoError::Value(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(octets: &[u8], expected: Result<Option<&[u8]>, GeoError>) {
        assert_eq!(DataSection(octets).text(0, &mut Steps::new(10)), expected);
    }

    #[test]
    fn text_is_found_as_the_format_writes_it() {
        check(b"\x42NL", Ok(Some(b"NL")));
        check(b"\x40", Ok(Some(b"")));
        check(b"\x20\x03\xff\x42NL", Ok(Some(b"NL")));
        check(b"\x38\x00\x00\x00\x05\x42NL", Ok(Some(b"NL")));
        let long = [&b"\x5d\x02"[..], &[b'x'; 31]].concat();
        check(&long, Ok(Some(&[b'x'; 31])));
        check(b"\xa1\x07", Ok(None));
        check(b"\x01\x07", Ok(None));
    }

    #[test]
    fn far_pointers_count_from_where_near_ones_end() {
        for (pointer, base) in [(&b"\x28\x00\x00"[..], 2_048), (b"\x30\x00\x00\x00", 526_336)] {
            let mut octets = vec![0; base];
            octets[..pointer.len()].copy_from_slice(pointer);
            octets.extend(b"\x42NL");
            check(&octets, Ok(Some(b"NL")));
        }
    }

    #[test]
    fn what_leads_out_of_the_section_or_around_is_damage() {
        check(b"", Err(GeoError::Value(0)));
        check(b"\x43NL", Err(GeoError::Value(1)));
        check(b"\x20\x09", Err(GeoError::Value(9)));
        check(b"\x20\x00", Err(GeoError::Value(0)));
        check(b"\x00\x00", Err(GeoError::Value(0)));
        check(b"\x00\xff", Err(GeoError::Value(0)));
        check(b"\x00\x05", Err(GeoError::Value(0)));
        check(b"\x5f\xff\xff\xff", Err(GeoError::Value(4)));
    }

    #[test]
    fn a_map_that_claims_more_than_there_is_ends_with_the_octets() {
        let octets = b"\xff\xff\xff\xff\x41a\x42NL";
        let found = DataSection(octets).fields(0, ["a"], &mut Steps::new(100));
        assert_eq!(found, Err(GeoError::Value(octets.len())));
        let around = b"\xe1\x41a\x20\x00";
        assert_eq!(DataSection(around).fields(0, ["a"], &mut Steps::new(100)), Ok(Some([Some(3)])));
    }
}
