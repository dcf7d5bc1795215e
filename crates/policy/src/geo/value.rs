//! Values of a MaxMind DB file, as its data section and its metadata hold them: headers, pointers,
//! and the fields of maps.
//!
//! A value is never built: a place in a section stands for it. Each header that is read is counted
//! in [`Steps`].

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

/// What pointers of two, three and four octets begin to count from, as what is nearer has shorter
/// ones.
const POINTER_BASES: [usize; 4] = [0, 2_048, 526_336, 0];
/// Sizes from this on are continued in one, two or three octets.
const SIZE_CONTINUED: usize = 29;
/// What these octets count from.
const SIZE_BASES: [usize; 3] = [29, 285, 65_821];

/// How many headers may still be read.
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

/// Octets that hold values; pointers count from the first.
#[derive(Clone, Copy)]
pub(super) struct Section<'a>(pub(super) &'a [u8]);

/// The header of a value.
#[derive(Clone, Copy)]
struct Header {
    kind: Kind,
    /// What follows it.
    end: usize,
}

#[derive(Clone, Copy)]
enum Kind {
    /// The value stands there.
    Pointer(usize),
    /// So many octets of text.
    Text(usize),
    /// So many octets of a number without a sign.
    Unsigned(usize),
    /// So many pairs of a key and a value.
    Map(usize),
    /// So many values.
    Array(usize),
    /// So many octets of something else.
    Other(usize),
}

impl<'a> Section<'a> {
    /// Where the values of these keys stand in the map at `at`; none if there is no map.
    ///
    /// # Errors
    /// The map is damaged, or there are no steps left.
    pub(super) fn fields<const N: usize>(
        self,
        at: usize,
        keys: [&str; N],
        steps: &mut Steps,
    ) -> Result<Option<[Option<usize>; N]>, GeoError> {
        let (header, _) = self.resolve(at, steps)?;
        let Kind::Map(pairs) = header.kind else { return Ok(None) };
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

    /// The text at `at`; none if there is something else.
    ///
    /// # Errors
    /// As [`Self::fields`].
    pub(super) fn text(self, at: usize, steps: &mut Steps) -> Result<Option<&'a [u8]>, GeoError> {
        self.text_and_end(at, steps).map(|(text, _)| text)
    }

    /// The number without a sign at `at`; none if there is something else, or more than 64 bits.
    ///
    /// # Errors
    /// As [`Self::fields`].
    pub(super) fn number(self, at: usize, steps: &mut Steps) -> Result<Option<u64>, GeoError> {
        let (header, _) = self.resolve(at, steps)?;
        let Kind::Unsigned(size @ 0..=8) = header.kind else { return Ok(None) };
        Ok(Some(self.big_endian(header.end, size)? as u64))
    }

    /// The text, and where it ends that was written at `at`.
    fn text_and_end(
        self,
        at: usize,
        steps: &mut Steps,
    ) -> Result<(Option<&'a [u8]>, usize), GeoError> {
        let (header, end) = self.resolve(at, steps)?;
        match header.kind {
            Kind::Text(size) => {
                Ok((Some(self.body(header.end, size)?), end.unwrap_or(header.end + size)))
            }
            _ => Ok((None, header.end)),
        }
    }

    /// The header of the value at `at`, and where the pointer to it ends if there is one. No
    /// pointer leads to another.
    fn resolve(self, at: usize, steps: &mut Steps) -> Result<(Header, Option<usize>), GeoError> {
        let header = self.header(at, steps)?;
        let Kind::Pointer(to) = header.kind else { return Ok((header, None)) };
        let target = self.header(to, steps)?;
        if let Kind::Pointer(_) = target.kind {
            return Err(GeoError::Value(to));
        }
        Ok((target, Some(header.end)))
    }

    /// What follows the value at `at` with all that is in it. Pointers are not followed.
    fn skip(self, at: usize, steps: &mut Steps) -> Result<usize, GeoError> {
        let (mut place, mut open) = (at, 1_u64);
        while open > 0 {
            let header = self.header(place, steps)?;
            open -= 1;
            place = header.end;
            match header.kind {
                Kind::Pointer(_) => {}
                Kind::Map(pairs) => open += 2 * pairs as u64,
                Kind::Array(values) => open += values as u64,
                Kind::Text(size) | Kind::Unsigned(size) | Kind::Other(size) => {
                    self.body(place, size)?;
                    place += size;
                }
            }
        }
        Ok(place)
    }

    fn header(self, at: usize, steps: &mut Steps) -> Result<Header, GeoError> {
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
            TEXT => Kind::Text(size),
            UNSIGNED_16 | UNSIGNED_32 | UNSIGNED_64 | UNSIGNED_128 => Kind::Unsigned(size),
            MAP => Kind::Map(size),
            ARRAY => Kind::Array(size),
            // Its size is its value.
            BOOLEAN => Kind::Other(0),
            DOUBLE | BYTES | SIGNED_32 | FLOAT => Kind::Other(size),
            _ => return Err(GeoError::Value(at)),
        };
        Ok(Header { kind, end })
    }

    /// A pointer whose octets begin at `at`: two bits say how many they are, three are its highest.
    fn pointer(self, bits: u8, at: usize) -> Result<Header, GeoError> {
        let octets = usize::from(bits >> 3) + 1;
        let high = if octets < 4 { usize::from(bits & 7) << (8 * octets) } else { 0 };
        let to = (high | self.big_endian(at, octets)?) + POINTER_BASES[octets - 1];
        Ok(Header { kind: Kind::Pointer(to), end: at + octets })
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
        assert_eq!(Section(octets).text(0, &mut Steps::new(10)), expected);
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
        let found = Section(octets).fields(0, ["a"], &mut Steps::new(100));
        assert_eq!(found, Err(GeoError::Value(octets.len())));
        let around = b"\xe1\x41a\x20\x00";
        assert_eq!(Section(around).fields(0, ["a"], &mut Steps::new(100)), Ok(Some([Some(3)])));
    }
}
