//! Domain names in uncompressed wire form, and reading names from messages.
//!
//! Labels hold octets of any value (RFC 2181 §11). Names keep their case; comparison folds ASCII
//! only (RFC 4343). Reading always terminates: compression pointers must lead strictly backwards, a
//! name follows at most [`MAX_POINTERS`] of them, and has at most [`MAX_NAME`] octets.
//!
//! ```
//! use avocet_wire::name::{NameBuf, is_under, labels};
//!
//! let name = NameBuf::from_wire(b"\x03WWW\x07example\x00").expect("a valid name");
//! assert_eq!(labels(name.wire()).count(), 2);
//! assert_eq!(name.folded().wire(), b"\x03www\x07example\x00");
//! assert!(is_under(name.wire(), b"\x07example\x00"));
//! ```

use std::fmt;

use crate::folded::FoldedNameBuf;
use crate::text::{self, TextError};
use crate::{hash, short};

/// Maximum number of octets in a name, including the root's (RFC 1035 §3.1).
pub const MAX_NAME: usize = 255;
/// Maximum number of octets in a label (RFC 1035 §3.1).
pub const MAX_LABEL: usize = 63;
/// Maximum number of compression pointers followed for one name. A name cannot have more than 127
/// labels.
pub const MAX_POINTERS: usize = 127;

/// Maximum number of compression pointers that the names of a message may follow in addition to
/// those that the length of the message permits.
const SPARE_HOPS: u32 = 128;

/// A budget of compression pointers for all names of one message, which keeps the work of reading
/// it proportional to its length.
///
/// A pointer takes two octets, and a name with ordinary compression follows one to three. A message
/// of `n` octets gets a budget of `n / 2` and a few more: far more than its records need, and at
/// most 33,000. Without the budget, 4,600 records with chains of [`MAX_POINTERS`] would take over a
/// million steps.
#[derive(Clone, Copy, Debug)]
pub struct Hops {
    left: u32,
}

impl Hops {
    /// Returns the budget of a message with this number of octets.
    #[must_use]
    pub fn of_message(octets: usize) -> Self {
        Self { left: SPARE_HOPS.saturating_add(u32::try_from(octets / 2).unwrap_or(u32::MAX)) }
    }

    /// Reports whether the budget is spent. The rest of the message must then not be read.
    #[inline]
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Deducts the pointers that one name followed.
    #[inline]
    pub(crate) fn take(&mut self, pointers: usize) -> Result<(), NameError> {
        let left = self.left.checked_sub(pointers as u32);
        self.left = left.unwrap_or(0);
        left.map(drop).ok_or(NameError::Hops)
    }

    /// Deducts the maximum number of pointers of a name. For a malformed name, the number of
    /// followed pointers is not known.
    #[cold]
    pub(crate) fn take_most(&mut self) {
        self.left = self.left.saturating_sub(MAX_POINTERS as u32);
    }
}

/// An error in a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameError {
    /// The octets end within the name.
    Short,
    /// The label type is neither a plain label nor a pointer (RFC 6891 §5: 0x40 and 0x80).
    LabelType,
    /// A pointer does not point backwards, or there are too many pointers.
    Pointer,
    /// The name has more than 255 octets.
    TooLong,
    /// The names of the message together follow more pointers than [`Hops`] permits.
    Hops,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "the name runs past the end",
            Self::LabelType => "unknown label type",
            Self::Pointer => "compression pointer does not lead backwards",
            Self::TooLong => "the name is longer than 255 octets",
            Self::Hops => "the names of the message follow too many compression pointers",
        })
    }
}

impl std::error::Error for NameError {}

/// An uncompressed wire name on the stack. It is empty until a name is read into it.
#[derive(Clone, Copy)]
pub struct NameBuf {
    len: u8,
    octets: [u8; MAX_NAME],
}

impl NameBuf {
    /// The root name.
    pub const ROOT: Self = Self { len: 1, octets: [0; MAX_NAME] };

    /// Copies a valid uncompressed wire name.
    pub fn from_wire(wire: &[u8]) -> Result<Self, NameError> {
        let mut name = Self::ROOT;
        name.set_wire(wire)?;
        Ok(name)
    }

    /// Copies a valid uncompressed wire name into this buffer. After an error the buffer is
    /// unchanged.
    ///
    /// # Errors
    /// The name is malformed or followed by other octets.
    #[inline]
    pub fn set_wire(&mut self, wire: &[u8]) -> Result<(), NameError> {
        let len = wire_len(wire)?;
        if len != wire.len() {
            return Err(NameError::TooLong);
        }
        self.octets[..len].copy_from_slice(wire);
        self.len = len as u8;
        Ok(())
    }

    /// Returns the wire form, which ends with the root's zero octet.
    #[inline]
    #[must_use]
    pub fn wire(&self) -> &[u8] {
        &self.octets[..usize::from(self.len)]
    }

    /// Returns the name in lower case.
    #[must_use]
    pub fn folded(&self) -> FoldedNameBuf {
        FoldedNameBuf::of(self)
    }

    /// Returns a copy in lower case, for [`FoldedNameBuf`].
    pub(crate) fn in_lower_case(&self) -> Self {
        let mut out = *self;
        hash::fold_into(self.wire(), &mut out.octets);
        out
    }

    /// Reads the name at offset `at` of `message`, following compression pointers.
    pub fn read(message: &[u8], at: usize) -> Result<Self, NameError> {
        let mut name = Self::ROOT;
        name.read_from(message, at)?;
        Ok(name)
    }

    /// Reads a name into this buffer as [`NameBuf::read`] does. Returns the offset after the name
    /// in the message.
    #[inline]
    pub fn read_from(&mut self, message: &[u8], at: usize) -> Result<usize, NameError> {
        let read = read_into(message, message.len(), at, &mut self.octets)?;
        self.len = read.len as u8;
        Ok(read.end)
    }

    /// Reads a name as [`NameBuf::read_from`] does, within the message's budget of compression
    /// pointers.
    #[inline]
    pub(crate) fn read_within(
        &mut self,
        message: &[u8],
        at: usize,
        hops: &mut Hops,
    ) -> Result<(), NameError> {
        match read_into(message, message.len(), at, &mut self.octets) {
            Ok(read) => {
                self.len = read.len as u8;
                hops.take(read.pointers)
            }
            Err(error) => {
                hops.take_most();
                Err(error)
            }
        }
    }

    /// Reads the presentation form of a name into this buffer, folded. After an error the buffer
    /// holds the root.
    ///
    /// # Errors
    /// The text is not a valid name.
    pub(crate) fn read_text(&mut self, text: &[u8], origin: &Self) -> Result<(), TextError> {
        let read = text::name_to_wire(text, Some(origin.wire()), &mut self.octets);
        let len = *read.as_ref().unwrap_or(&0);
        self.octets[..len].make_ascii_lowercase();
        self.octets[len.saturating_sub(1)] = 0;
        self.len = len.max(1) as u8;
        read.map(|_| ())
    }

    /// Returns this name with `label` prepended.
    pub fn prefixed(&self, label: &[u8]) -> Result<Self, NameError> {
        let len = usize::from(self.len) + 1 + label.len();
        if label.is_empty() || label.len() > MAX_LABEL || len > MAX_NAME {
            return Err(NameError::TooLong);
        }
        let mut out = Self::ROOT;
        out.octets[0] = label.len() as u8;
        out.octets[1..=label.len()].copy_from_slice(label);
        out.octets[1 + label.len()..len].copy_from_slice(self.wire());
        out.len = len as u8;
        Ok(out)
    }
}

impl PartialEq for NameBuf {
    fn eq(&self, other: &Self) -> bool {
        self.wire() == other.wire()
    }
}

impl Eq for NameBuf {}

impl fmt::Debug for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write_name(self.wire(), f)
    }
}

impl fmt::Display for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::write_name(self.wire(), f)
    }
}

/// A name that was read from a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    /// The length in octets.
    pub(crate) len: usize,
    /// The offset after the name in the message: after its first pointer, if it has one.
    pub(crate) end: usize,
    /// The number of pointers followed.
    pub(crate) pointers: usize,
}

/// Reads the name at `at`, following pointers, to the front of `out`. The remaining octets of `out`
/// are then unspecified.
///
/// Octets at and after `bound` do not belong to the name, but may be copied where this is faster.
#[inline]
pub(crate) fn read_into(
    message: &[u8],
    bound: usize,
    at: usize,
    out: &mut [u8; MAX_NAME],
) -> Result<Read, NameError> {
    let bounded = &message[..bound.min(message.len())];
    let mut position = at;
    // Labels are copied in runs: the octets between two pointers. Each pointer must lead to an
    // offset before the run that the pointer ends, so every step goes backwards.
    let mut run_start = at;
    let mut len = 0;
    let mut end = None;
    let mut pointers = 0;
    loop {
        // The highest offset at which the name can end.
        let limit = bounded.len().min(run_start.saturating_add(MAX_NAME - len));
        let within = &bounded[..limit];
        let length = loop {
            match within.get(position) {
                Some(&length @ 1..=63) => position += 1 + usize::from(length),
                Some(&length) => break length,
                None if limit == bounded.len() => return Err(NameError::Short),
                None => return Err(NameError::TooLong),
            }
        };
        let run = position - run_start;
        if length == 0 {
            copy_run(message, run_start, run + 1, &mut out[len..]);
            return Ok(Read { len: len + run + 1, end: end.unwrap_or(position + 1), pointers });
        }
        if length < 0xc0 {
            return Err(NameError::LabelType);
        }
        let low = *bounded.get(position + 1).ok_or(NameError::Short)?;
        end.get_or_insert(position + 2);
        pointers += 1;
        // The name may begin with a pointer.
        if run > 0 {
            copy_run(message, run_start, run, &mut out[len..]);
            len += run;
        }
        position = usize::from(u16::from_be_bytes([length & 0x3f, low]));
        if position >= run_start || pointers > MAX_POINTERS {
            return Err(NameError::Pointer);
        }
        run_start = position;
    }
}

/// Copies `count` octets at `start`, which both slices have. Most runs are short: copying a fixed
/// number of octets takes a few instructions, but copying a variable number takes a call.
#[inline(always)]
fn copy_run(message: &[u8], start: usize, count: usize, target: &mut [u8]) {
    if let (true, Some(source), Some(target)) =
        (count <= 32, message[start..].first_chunk::<32>(), target.first_chunk_mut::<32>())
    {
        *target = *source;
    } else {
        short::copy(&message[start..start + count], &mut target[..count]);
    }
}

/// Returns the offset after the name at `at` without following a pointer. Checks only that the
/// pointer leads backwards; [`NameBuf::read`] checks the rest.
#[inline]
pub fn skip(message: &[u8], at: usize) -> Result<usize, NameError> {
    let mut position = at;
    loop {
        let length = *message.get(position).ok_or(NameError::Short)?;
        match length {
            0 => {
                let end = position + 1;
                return if end - at <= MAX_NAME { Ok(end) } else { Err(NameError::TooLong) };
            }
            1..=63 => position += 1 + usize::from(length),
            0xc0..=0xff => {
                let low = *message.get(position + 1).ok_or(NameError::Short)?;
                let target = usize::from(u16::from_be_bytes([length & 0x3f, low]));
                return if target < at { Ok(position + 2) } else { Err(NameError::Pointer) };
            }
            _ => return Err(NameError::LabelType),
        }
    }
}

/// Returns the length of the uncompressed name that `bytes` begins with.
#[inline]
pub fn wire_len(bytes: &[u8]) -> Result<usize, NameError> {
    let mut position = 0;
    loop {
        match *bytes.get(position).ok_or(NameError::Short)? {
            0 if position < MAX_NAME => return Ok(position + 1),
            0 => return Err(NameError::TooLong),
            length @ 1..=63 => position += 1 + usize::from(length),
            _ => return Err(NameError::LabelType),
        }
    }
}

/// Returns the labels of a valid uncompressed wire name from left to right, without the root.
pub fn labels(wire: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    let mut rest = wire;
    std::iter::from_fn(move || {
        let (&length, after) = rest.split_first()?;
        if length == 0 {
            return None;
        }
        let (label, next) = after.split_at_checked(usize::from(length))?;
        rest = next;
        Some(label)
    })
}

/// Returns the name without its first label, or `None` for the root.
#[inline]
#[must_use]
pub fn parent(wire: &[u8]) -> Option<&[u8]> {
    match *wire.first()? {
        0 => None,
        length => wire.get(1 + usize::from(length)..),
    }
}

/// Returns the name itself and all its ancestors, the root last.
pub fn ancestors(wire: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(wire), |name| parent(name))
}

/// Reports whether `name` equals `zone` or is below it. Both must be valid; case is ignored.
#[must_use]
pub fn is_under(name: &[u8], zone: &[u8]) -> bool {
    let Some(excess) = name.len().checked_sub(zone.len()) else { return false };
    let mut position = 0;
    while position < excess {
        position += 1 + usize::from(name[position]);
    }
    position == excess && hash::eq_folded(&name[excess..], zone)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WWW: &[u8] = b"\x03www\x07example\x03com\x00";

    #[test]
    fn compressed_names_are_read_and_end_after_the_pointer() {
        let mut message = vec![0; 12];
        message.extend_from_slice(WWW);
        message.extend_from_slice(b"\x04mail\xc0\x10rest");
        let mut name = NameBuf::ROOT;
        let start = 12 + WWW.len();
        assert_eq!(name.read_from(&message, start), Ok(start + 7));
        assert_eq!(name.wire(), b"\x04mail\x07example\x03com\x00");
        assert_eq!(skip(&message, start), Ok(start + 7));
    }

    #[test]
    fn pointers_forward_to_themselves_or_in_a_circle_are_refused() {
        for (message, at) in [
            (&b"\xc0\x00"[..], 0),
            (&b"\x01a\xc0\x00"[..], 0),
            (&b"\xc0\x02\x00\x00"[..], 0),
            (&b"\x00\x01a\xc0\x01"[..], 1),
        ] {
            assert_eq!(NameBuf::read(message, at), Err(NameError::Pointer), "{message:?}");
        }
    }

    #[test]
    fn names_of_255_octets_are_read_and_of_256_refused() {
        let mut wire = Vec::new();
        for _ in 0..3 {
            wire.push(63);
            wire.extend_from_slice(&[b'a'; 63]);
        }
        wire.push(61);
        wire.extend_from_slice(&[b'b'; 61]);
        wire.push(0);
        assert_eq!(wire.len(), 255);
        assert_eq!(NameBuf::read(&wire, 0).unwrap().wire(), &wire[..]);
        assert_eq!(wire_len(&wire), Ok(255));
        wire[192] = 62;
        wire.insert(193, b'b');
        assert_eq!(NameBuf::read(&wire, 0), Err(NameError::TooLong));
        assert_eq!(wire_len(&wire), Err(NameError::TooLong));
    }

    #[test]
    fn is_under_compares_whole_labels() {
        assert!(is_under(WWW, b"\x07EXAMPLE\x03com\x00"));
        assert!(is_under(WWW, b"\x00"));
        assert!(is_under(WWW, WWW));
        assert!(!is_under(b"\x0aanexample\x03com\x00", b"\x07example\x03com\x00"));
        assert!(!is_under(b"\x00", WWW));
        assert_eq!(ancestors(WWW).count(), 4);
        assert_eq!(labels(WWW).collect::<Vec<_>>(), [&b"www"[..], b"example", b"com"]);
    }

    #[test]
    fn old_label_types_are_refused() {
        assert_eq!(NameBuf::read(b"\x41x\x00", 0), Err(NameError::LabelType));
        assert_eq!(wire_len(b"\x80\x00"), Err(NameError::LabelType));
    }
}
