//! Writes a message into the caller's buffer, with name compression and OPT. Truncates only between
//! RRsets.
//!
//! The builder allocates nothing. A record or RRset that does not fit is removed again and
//! reported, so a message never holds part of an RRset (RFC 2181 §9). Names are compressed where
//! RFC 3597 §4 allows it. The compression table has a fixed size and the number of labels compared
//! is bounded: a message built to be hard to compress is compressed less, but takes no more time.
//!
//! ```
//! use avocet_wire::builder::{Builder, Record, Section};
//! use avocet_wire::code::{Class, Rtype};
//! use avocet_wire::header::{QR, RA, RD};
//!
//! # fn main() -> Result<(), avocet_wire::builder::Full> {
//! let owner = b"\x03www\x07example\x00";
//! let mut out = [0; 512];
//! let mut builder = Builder::new(&mut out, 512, 0x1234, QR | RD | RA)?;
//! builder.question(owner, Rtype::A, Class::IN)?;
//! let record =
//!     Record { owner, rtype: Rtype::A, class: Class::IN, ttl_secs: 300, rdata: &[192, 0, 2, 1] };
//! builder.record(Section::Answer, &record)?;
//! // The owner is compressed to a pointer to the question: 2 octets, then 10 fixed, then the data.
//! assert_eq!(builder.finish(), 12 + 13 + 4 + 2 + 10 + 4);
//! # Ok(())
//! # }
//! ```

use std::fmt;

use crate::code::{Class, Rcode, Rtype};
use crate::edns::{EdnsOption, OPT_LEN};
use crate::header::{HEADER_LEN, Header, TC};
use crate::rdata::compressible_names;
use crate::{hash, name, short};

/// Number of slots for the offsets of names already written.
const NAME_SLOTS: usize = 128;
/// Number of slots probed for one suffix of a name.
const PROBES: usize = 4;
/// Maximum number of labels that are hashed or compared to compress the names of one message. A
/// message of 64 KiB with 5,000 owners of four labels needs 40,000. After `MAX_STEPS`, names are
/// written in full.
const MAX_STEPS: u32 = 65_536;
/// Highest offset to which a pointer can refer. A pointer has fourteen bits for it (RFC 1035
/// §4.1.4).
const MAX_POINTER: usize = 0x3fff;

/// The message has no room left within its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the message is full")
    }
}

impl std::error::Error for Full {}

/// The section a record belongs to. Sections must be written in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Section {
    /// Answer.
    Answer = 1,
    /// Authority.
    Authority = 2,
    /// Additional.
    Additional = 3,
}

/// A record to write. Names and data are in uncompressed wire form.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Owner name.
    pub owner: &'a [u8],
    /// TYPE.
    pub rtype: Rtype,
    /// CLASS.
    pub class: Class,
    /// TTL in seconds.
    pub ttl_secs: u32,
    /// RDATA.
    pub rdata: &'a [u8],
}

/// The fixed fields of the OPT record to write.
#[derive(Clone, Copy, Debug)]
pub struct OptFields {
    /// The UDP payload size that this server announces, in octets.
    pub udp_size: u16,
    /// The whole RCODE. OPT carries its upper bits.
    pub rcode: Rcode,
    /// The DO flag.
    pub dnssec_ok: bool,
}

impl OptFields {
    /// Returns the record up to RDLENGTH: root owner, type, class and TTL.
    #[must_use]
    pub fn head(&self) -> [u8; OPT_LEN - 2] {
        let [size_high, size_low] = self.udp_size.to_be_bytes();
        let flags = if self.dnssec_ok { 0x80 } else { 0 };
        [0, 0, 41, size_high, size_low, self.rcode.high(), 0, flags, 0]
    }
}

/// A message that is being written.
pub struct Builder<'a> {
    out: &'a mut [u8],
    len: usize,
    limit: usize,
    header: Header,
    /// Offsets of the names written so far. Allocated with the second distinct name, because most
    /// messages have only one and need no table.
    names: Option<CompressionTable>,
}

/// A position in a message to which the builder can rewind.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    len: usize,
    counts: [u16; 4],
}

impl<'a> Builder<'a> {
    /// Begins a message in `out` with the given ID and flags. The message takes at most `limit`
    /// octets.
    #[inline]
    pub fn new(out: &'a mut [u8], limit: usize, id: u16, flags: u16) -> Result<Self, Full> {
        let limit = limit.min(out.len()).min(usize::from(u16::MAX));
        if limit < HEADER_LEN {
            return Err(Full);
        }
        let header = Header { id, flags, counts: [0; 4] };
        Ok(Self { out, len: HEADER_LEN, limit, header, names: None })
    }

    /// Returns the number of octets that were written.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Reports whether the message consists of the header only.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == HEADER_LEN
    }

    /// Writes the question. Later names are compressed against it.
    #[inline]
    pub fn question(&mut self, qname: &[u8], qtype: Rtype, qclass: Class) -> Result<(), Full> {
        let mark = self.mark();
        self.name(qname)
            .and_then(|()| self.put(&fixed4(qtype.0, qclass.0)))
            .inspect_err(|_| self.rewind(mark))?;
        self.header.counts[0] += 1;
        Ok(())
    }

    /// Writes a record. A record that does not fit leaves the message unchanged.
    #[inline]
    pub fn record(&mut self, section: Section, record: &Record<'_>) -> Result<(), Full> {
        if self.is_first_name(record.owner) && compressible_names(record.rtype.0).names == 0 {
            self.write_behind_pointer(record)?;
            self.header.counts[section as usize] += 1;
            return Ok(());
        }
        let mark = self.mark();
        self.write_record(record).inspect_err(|_| self.rewind(mark))?;
        self.header.counts[section as usize] += 1;
        Ok(())
    }

    /// Writes all records of an RRset. If they do not all fit, the message stays unchanged.
    pub fn rrset<'r>(
        &mut self,
        section: Section,
        records: impl IntoIterator<Item = Record<'r>>,
    ) -> Result<(), Full> {
        let mark = self.mark();
        for record in records {
            self.record(section, &record).inspect_err(|_| self.rewind(mark))?;
        }
        Ok(())
    }

    /// Copies records that already have the form of a message whose QNAME is their owner: each
    /// record begins with a pointer to offset 12, and its data has no names that may be compressed.
    /// Returns false, and copies nothing, if `owner` is not the QNAME.
    ///
    /// # Errors
    /// The records do not fit. The message is then unchanged.
    #[inline]
    pub fn copy_of_first(
        &mut self,
        section: Section,
        owner: &[u8],
        (records, count): (&[u8], u16),
    ) -> Result<bool, Full> {
        if !self.is_first_name(owner) {
            return Ok(false);
        }
        self.put(records)?;
        self.header.counts[section as usize] += count;
        Ok(true)
    }

    /// Writes the OPT record, and the lower bits of the RCODE to the header.
    pub fn opt(&mut self, fields: &OptFields, options: &[EdnsOption<'_>]) -> Result<(), Full> {
        let mark = self.mark();
        self.write_opt(fields, options).inspect_err(|_| self.rewind(mark))?;
        self.header.counts[3] += 1;
        self.header.flags = self.header.flags & !0xf | fields.rcode.low();
        Ok(())
    }

    /// Sets TC (RFC 2181 §9).
    pub fn truncate(&mut self) {
        self.header.flags |= TC;
    }

    /// Returns the current position, for [`Builder::rewind`].
    #[inline]
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark { len: self.len, counts: self.header.counts }
    }

    /// Removes everything written since `mark`.
    #[cold]
    pub fn rewind(&mut self, mark: Mark) {
        self.len = mark.len;
        self.header.counts = mark.counts;
        if let Some(names) = &mut self.names {
            names.forget_from(mark.len);
        }
    }

    /// Writes the header and returns the length of the message.
    #[inline]
    pub fn finish(self) -> usize {
        if let Some(head) = self.out.first_chunk_mut() {
            self.header.write(head);
        }
        self.len
    }

    #[inline]
    fn write_record(&mut self, record: &Record<'_>) -> Result<(), Full> {
        self.name(record.owner)?;
        let [a, b, c, d] = fixed4(record.rtype.0, record.class.0);
        let [e, f, g, h] = record.ttl_secs.to_be_bytes();
        let length = u16::try_from(record.rdata.len()).map_err(|_| Full)?;
        let [high, low] = length.to_be_bytes();
        self.put(&[a, b, c, d, e, f, g, h, high, low])?;
        let start = self.len;
        let layout = compressible_names(record.rtype.0);
        if layout.names == 0 {
            return self.put(record.rdata);
        }
        self.rdata_with_names(record.rdata, usize::from(layout.prefix), layout.names)?;
        let length = ((self.len - start) as u16).to_be_bytes();
        self.out[start - 2..start].copy_from_slice(&length);
        Ok(())
    }

    /// Writes a record whose owner is the first name of the message and whose data holds no names:
    /// the most common case.
    #[inline]
    fn write_behind_pointer(&mut self, record: &Record<'_>) -> Result<(), Full> {
        let [a, b, c, d] = fixed4(record.rtype.0, record.class.0);
        let [e, f, g, h] = record.ttl_secs.to_be_bytes();
        let [high, low] = u16::try_from(record.rdata.len()).map_err(|_| Full)?.to_be_bytes();
        let [to, first] = pointer(HEADER_LEN);
        let end = self.len + 12 + record.rdata.len();
        let place = self.out.get_mut(self.len..end).filter(|_| end <= self.limit).ok_or(Full)?;
        let (head, rdata) = place.split_first_chunk_mut().ok_or(Full)?;
        *head = [to, first, a, b, c, d, e, f, g, h, high, low];
        short::copy(record.rdata, rdata);
        self.len = end;
        Ok(())
    }

    fn rdata_with_names(&mut self, rdata: &[u8], prefix: usize, names: u8) -> Result<(), Full> {
        let (head, mut rest) = rdata.split_at_checked(prefix).unwrap_or((rdata, &[]));
        self.put(head)?;
        for _ in 0..names {
            let len = name::wire_len(rest).unwrap_or(0);
            let (name, after) = rest.split_at(len);
            self.name(name)?;
            rest = after;
        }
        self.put(rest)
    }

    fn write_opt(&mut self, fields: &OptFields, options: &[EdnsOption<'_>]) -> Result<(), Full> {
        self.put(&fields.head())?;
        let length_at = self.len;
        self.put(&[0, 0])?;
        for option in options {
            let room = self.out.get_mut(self.len..self.limit).ok_or(Full)?;
            self.len += option.write(room).ok_or(Full)?;
        }
        let length = ((self.len - length_at - 2) as u16).to_be_bytes();
        self.out[length_at..length_at + 2].copy_from_slice(&length);
        Ok(())
    }

    #[inline]
    fn put(&mut self, octets: &[u8]) -> Result<(), Full> {
        let end = self.len + octets.len();
        if end > self.limit {
            return Err(Full);
        }
        short::copy(octets, &mut self.out[self.len..end]);
        self.len = end;
        Ok(())
    }

    /// Writes a name. Its longest suffix that the message already holds becomes a pointer.
    #[inline]
    fn name(&mut self, name: &[u8]) -> Result<(), Full> {
        if self.len == HEADER_LEN || name.len() <= 1 {
            return self.put(name);
        }
        if self.is_first_name(name) {
            return self.put(&pointer(HEADER_LEN));
        }
        self.compressed(name)
    }

    /// Reports whether `name` is the name right after the header, which is the QNAME and the most
    /// common owner. Returns false for the root, because a pointer is longer than the root itself.
    #[inline]
    fn is_first_name(&self, name: &[u8]) -> bool {
        let first = self.out[..self.len].get(HEADER_LEN..HEADER_LEN + name.len());
        name.len() > 1 && first.is_some_and(|first| short::same(first, name))
    }

    fn compressed(&mut self, name: &[u8]) -> Result<(), Full> {
        let written = &self.out[..self.len];
        let names = self.names.get_or_insert_with(|| CompressionTable::of_first(written));
        match names.find_or_note(written, name) {
            Some((kept, offset)) => {
                self.put(&name[..kept])?;
                self.put(&pointer(offset))
            }
            None => self.put(name),
        }
    }
}

/// Offsets of name suffixes in the message: a hash table that drops entries it has no room for.
struct CompressionTable {
    /// The upper sixteen bits hold the suffix's hash, the lower sixteen its offset. Zero marks a
    /// free slot.
    slots: [u32; NAME_SLOTS],
    /// Labels that were hashed or compared, at most [`MAX_STEPS`].
    steps: u32,
}

impl CompressionTable {
    /// Returns the table of a message whose only name follows the header, uncompressed.
    #[cold]
    fn of_first(written: &[u8]) -> Self {
        let mut names = Self { slots: [0; NAME_SLOTS], steps: 0 };
        let first = &written[HEADER_LEN..];
        let len = name::wire_len(first).unwrap_or(0);
        names.find_or_note(&written[..HEADER_LEN], &first[..len]);
        names
    }

    /// Looks up the longest suffix of `name` that the message already has, and records the longer
    /// suffixes, because the caller appends them to the message next. Returns the length of the
    /// part before the suffix, and the offset of the suffix.
    fn find_or_note(&mut self, written: &[u8], name: &[u8]) -> Option<(usize, usize)> {
        if self.steps >= MAX_STEPS {
            return None;
        }
        // The hash of a suffix is the sum of the hashes of its labels, so the hash of the next
        // shorter suffix results from subtracting one label.
        let mut hash = 0u64;
        let mut at = 0;
        while let Some((label, next)) = label_at(name, at) {
            hash = hash.wrapping_add(label);
            at = next;
            self.steps += 1;
        }
        let mut start = 0;
        while start < at {
            if let Some(offset) = self.probe(hash, written, &name[start..], start) {
                return Some((start, offset));
            }
            let (label, next) = label_at(name, start)?;
            hash = hash.wrapping_sub(label);
            start = next;
        }
        None
    }

    /// Returns the offset of `suffix`. If the table has none, records the suffix at `before` octets
    /// after the end of `written` and returns `None`.
    #[inline]
    fn probe(&mut self, hash: u64, written: &[u8], suffix: &[u8], before: usize) -> Option<usize> {
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let tag = (mixed >> 32) as u32 & 0xffff_0000;
        for probe in 0..PROBES {
            let slot = &mut self.slots[((mixed >> 32) as usize + probe) % NAME_SLOTS];
            if *slot == 0 {
                if written.len() + before <= MAX_POINTER {
                    *slot = tag | (written.len() + before) as u32;
                }
                return None;
            }
            let offset = (*slot & 0xffff) as usize;
            // A slot may belong to a suffix of `name` itself, which is not written yet.
            if *slot & 0xffff_0000 == tag
                && offset < written.len()
                && name_is_at(written, offset, suffix, &mut self.steps)
            {
                return Some(offset);
            }
        }
        None
    }

    /// Removes the names at and after offset `len`.
    fn forget_from(&mut self, len: usize) {
        for slot in &mut self.slots {
            if (*slot & 0xffff) as usize >= len {
                *slot = 0;
            }
        }
    }
}

/// Returns the hash of the label at `at` and the offset of the next label; `None` for the root. If
/// a label is longer than fifteen octets, the hash covers only its length, its first seven and its
/// last eight octets.
#[inline]
fn label_at(name: &[u8], at: usize) -> Option<(u64, usize)> {
    let length = usize::from(*name.get(at)?);
    let next = at + 1 + length;
    if length == 0 || next > name.len() {
        return None;
    }
    let first = hash::first_octets(hash::word_at(name, at), 1 + length);
    let last = if length > 7 { hash::word_at(name, next - 8) } else { 0 };
    let mixed = hash::fold_word(first).wrapping_mul(0xbf58_476d_1ce4_e5b9)
        ^ hash::fold_word(last).wrapping_mul(0x94d0_49bb_1331_11eb);
    Some((mixed ^ mixed >> 29, next))
}

#[inline]
fn fixed4(a: u16, b: u16) -> [u8; 4] {
    let ([a0, a1], [b0, b1]) = (a.to_be_bytes(), b.to_be_bytes());
    [a0, a1, b0, b1]
}

#[inline]
fn pointer(offset: usize) -> [u8; 2] {
    (0xc000 | offset as u16).to_be_bytes()
}

/// Reports whether the name at `offset` equals `name`, ignoring case. Terminates on any input,
/// because it follows pointers backwards only. Adds the labels and pointers it passes to `steps`.
fn name_is_at(message: &[u8], offset: usize, name: &[u8], steps: &mut u32) -> bool {
    let (mut at, mut rest) = (offset, name);
    loop {
        let Some((run, after)) =
            run_at(message, at, steps).and_then(|end| message[at..].split_at_checked(end - at))
        else {
            return false;
        };
        let Some((ours, theirs)) = rest.split_at_checked(run.len()) else { return false };
        if !hash::eq_folded(run, ours) {
            return false;
        }
        let target = match *after {
            [0, ..] => return theirs == [0],
            [high @ 0xc0..=0xff, low, ..] => usize::from(u16::from_be_bytes([high & 0x3f, low])),
            _ => return false,
        };
        if target >= at {
            return false;
        }
        (at, rest) = (target, theirs);
    }
}

/// Returns the end of the labels that begin at `at`: the offset of the root or of a pointer.
/// Returns `None` if the octets are neither.
#[inline]
fn run_at(message: &[u8], at: usize, steps: &mut u32) -> Option<usize> {
    let mut end = at;
    loop {
        *steps += 1;
        match *message.get(end)? {
            length @ 1..=63 => end += 1 + usize::from(length),
            _ => return Some(end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::MessageView;

    const QNAME: &[u8] = b"\x03www\x07example\x03com\x00";

    fn record<'a>(owner: &'a [u8], rtype: Rtype, rdata: &'a [u8]) -> Record<'a> {
        Record { owner, rtype, class: Class::IN, ttl_secs: 60, rdata }
    }

    #[test]
    fn names_are_compressed_against_each_other_and_read_back() {
        let mut out = [0; 512];
        let mut b = Builder::new(&mut out, 512, 7, 0x8180).unwrap();
        b.question(QNAME, Rtype::MX, Class::IN).unwrap();
        let exchange = b"\x00\x0a\x04mail\x07EXAMPLE\x03com\x00";
        b.record(Section::Answer, &record(QNAME, Rtype::MX, exchange)).unwrap();
        b.record(Section::Additional, &record(&exchange[2..], Rtype::A, &[127, 0, 0, 1])).unwrap();
        let len = b.finish();
        assert_eq!(len, 12 + 21 + 2 + 10 + 2 + 7 + 2 + 10 + 4);
        let view = MessageView::new(&out[..len]).unwrap();
        let records: Vec<_> = view.records().unwrap().map(Result::unwrap).collect();
        let mut rdata = [0; 64];
        let rdata_len = records[0].expand_rdata(&mut rdata).unwrap();
        assert_eq!(&rdata[..rdata_len], b"\x00\x0a\x04mail\x07example\x03com\x00");
        assert_eq!(records[1].owner().unwrap().wire(), b"\x04mail\x07example\x03com\x00");
    }

    #[test]
    fn an_rrset_that_does_not_fit_is_taken_back_whole() {
        let mut out = [0; 512];
        let mut b = Builder::new(&mut out, 70, 7, 0x8180).unwrap();
        b.question(QNAME, Rtype::A, Class::IN).unwrap();
        let other = b"\x05other\x00";
        let before = b.len();
        let set = [[1u8, 2, 3, 4]; 3];
        let records = || set.iter().map(|rdata| record(other, Rtype::A, rdata));
        assert_eq!(b.rrset(Section::Answer, records()), Err(Full));
        assert_eq!(b.len(), before);
        b.truncate();
        b.rrset(Section::Answer, records().take(1)).unwrap();
        let len = b.finish();
        let view = MessageView::new(&out[..len]).unwrap();
        assert!(view.header().has(TC));
        let owners: Vec<_> = view.records().unwrap().map(|r| r.unwrap().owner().unwrap()).collect();
        assert_eq!(owners.len(), 1);
        assert!(
            owners.iter().all(|owner| owner.wire() == other),
            "no pointer to what was taken back"
        );
    }

    #[test]
    fn opt_carries_the_upper_bits_of_the_rcode() {
        let mut out = [0; 512];
        let mut b = Builder::new(&mut out, 512, 7, 0x8180).unwrap();
        b.question(QNAME, Rtype::A, Class::IN).unwrap();
        let fields = OptFields { udp_size: 1232, rcode: Rcode::BADCOOKIE, dnssec_ok: true };
        b.opt(&fields, &[EdnsOption::Nsid(b"x"), EdnsOption::Padding(3)]).unwrap();
        let len = b.finish();
        let view = MessageView::new(&out[..len]).unwrap();
        let edns = view.edns().unwrap().unwrap();
        assert_eq!(view.header().rcode(), Rcode(7));
        assert_eq!((edns.rcode_high, edns.dnssec_ok, edns.options().count()), (1, true, 2));
    }

    #[test]
    fn thousands_of_different_names_fill_the_message_and_stay_readable() {
        let mut out = vec![0; 65_535];
        let mut b = Builder::new(&mut out, 65_535, 7, 0x8180).unwrap();
        b.question(QNAME, Rtype::NS, Class::IN).unwrap();
        let mut names = Vec::new();
        for i in 0u32.. {
            let mut name =
                format!("{i:08x}.a.b.c.d.e.f.g").split('.').fold(Vec::new(), |mut n, l| {
                    n.push(l.len() as u8);
                    n.extend_from_slice(l.as_bytes());
                    n
                });
            name.push(0);
            if b.record(Section::Answer, &record(QNAME, Rtype::NS, &name)).is_err() {
                break;
            }
            names.push(name);
        }
        let len = b.finish();
        assert!(names.len() > 2000 && len <= 65_535);
        let view = MessageView::new(&out[..len]).unwrap();
        for (record, name) in view.records().unwrap().zip(&names) {
            let mut rdata = [0; 255];
            let rdata_len = record.unwrap().expand_rdata(&mut rdata).unwrap();
            assert_eq!(&rdata[..rdata_len], &name[..]);
        }
    }
}
