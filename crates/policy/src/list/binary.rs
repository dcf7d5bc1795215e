//! Numbers and octet strings in the image: numbers have seven bits per octet, the lowest first;
//! octet strings follow their length.

/// Appends to an image.
pub(super) trait Write {
    /// Appends a number in as few octets as possible, seven bits per octet.
    fn number(&mut self, number: u64);
    /// Appends octets, preceded by their number.
    fn octets(&mut self, octets: &[u8]);
}

impl Write for Vec<u8> {
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.push(number as u8);
    }

    fn octets(&mut self, octets: &[u8]) {
        self.number(octets.len() as u64);
        self.extend_from_slice(octets);
    }
}

/// The unread octets of an image. Every read may fail, and no read passes the end.
#[derive(Clone, Copy)]
pub(super) struct Octets<'a> {
    rest: &'a [u8],
}

impl<'a> Octets<'a> {
    pub(super) const fn new(octets: &'a [u8]) -> Self {
        Self { rest: octets }
    }

    #[inline]
    pub(super) fn octet(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    #[inline]
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let octet = self.octet()?;
            number |= u64::from(octet & 0x7f) << shift;
            if octet < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// Reads the number of elements that follow. Returns `None` if it exceeds the number of unread
    /// octets, because each element has at least one octet.
    pub(super) fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.rest.len()).then_some(count)
    }

    pub(super) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    pub(super) fn octets(&mut self) -> Option<&'a [u8]> {
        let count = self.count()?;
        self.take(count)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        str::from_utf8(self.octets()?).ok()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut out = Vec::new();
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), 1 << 62] {
            out.number(number);
        }
        out.octets(b"text");
        let mut octets = Octets::new(&out);
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), 1 << 62] {
            assert_eq!(octets.number(), Some(number));
        }
        assert_eq!((octets.text(), octets.is_empty(), octets.number()), (Some("text"), true, None));
    }

    #[test]
    fn claims_of_more_than_there_is_fail() {
        assert_eq!(Octets::new(&[0xff; 20]).number(), None);
        assert_eq!(Octets::new(&[0x80]).number(), None);
        assert_eq!(Octets::new(&[0xff, 0xff, 0x7f, 1]).count(), None);
        assert_eq!(Octets::new(&[5, 1]).octets(), None);
    }
}
