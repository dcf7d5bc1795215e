//! Locations of names in record data, for copying records from and to messages.

use std::ops::Range;

use super::table::{self, Compression, Field, NameLayout};
use super::{Problem, RdataError};
use crate::name::{self, Hops};

/// Types below this code may have compressed names.
const NAMED: usize = 64;

/// Whether a message is received or sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Sent,
    Received,
}

/// Returns the layouts of the record types with names that may be compressed in this direction.
const fn layouts(direction: Direction) -> [NameLayout; NAMED] {
    let mut out = [NameLayout::NONE; NAMED];
    let mut at = 0;
    while at < table::TYPES.len() {
        let row = &table::TYPES[at];
        let wanted = match row.compression {
            Compression::Never => false,
            Compression::Received => matches!(direction, Direction::Received),
            Compression::Both => true,
        };
        if wanted {
            out[row.number as usize] = row.names;
        }
        at += 1;
    }
    out
}

static SENT: [NameLayout; NAMED] = layouts(Direction::Sent);
static RECEIVED: [NameLayout; NAMED] = layouts(Direction::Received);

/// Returns the names that may be compressed when a record of this type is written to a message:
/// those of the types of RFC 1035 only (RFC 3597 §4).
#[inline]
#[must_use]
pub fn compressible_names(rtype: u16) -> NameLayout {
    SENT.get(usize::from(rtype)).copied().unwrap_or(NameLayout::NONE)
}

/// Copies the data of a record from a message to the front of `out` with its names uncompressed,
/// and returns its new length.
///
/// Follows pointers in the types of RFC 1035 and those of RFC 3597 §4 (RP, AFSDB, RT, SIG, PX, NXT,
/// NAPTR, SRV). Copies all other data unchecked: see [`check()`](super::check()). A and AAAA cost 3
/// ns, a name with one pointer 35 to 50 ns, SOA 80 ns (best of 15 rounds on a Zen 5 class core).
///
/// # Errors
/// The data does not lie within the message, a name in the data is malformed or exceeds the data,
/// or `out` is too short.
#[inline]
pub fn expand(
    rtype: u16,
    message: &[u8],
    rdata_start: usize,
    rdata_len: usize,
    out: &mut [u8],
) -> Result<usize, RdataError> {
    expand_counting(rtype, message, Data { start: rdata_start, len: rdata_len }, out)
        .map(|expanded| expanded.len)
}

/// Copies data as [`expand`] does, within the message's budget of compression pointers.
#[inline]
pub(crate) fn expand_within(
    rtype: u16,
    message: &[u8],
    data: Data,
    out: &mut [u8],
    hops: &mut Hops,
) -> Result<usize, RdataError> {
    let expanded = expand_counting(rtype, message, data, out).inspect_err(|_| hops.take_most())?;
    hops.take(expanded.pointers).map_err(|error| RdataError::whole(Problem::Name(error)))?;
    Ok(expanded.len)
}

/// The location of record data in its message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Data {
    pub(crate) start: usize,
    pub(crate) len: usize,
}

/// The result of copying record data from a message.
#[derive(Clone, Copy)]
struct Expanded {
    /// The length in octets.
    len: usize,
    /// The number of compression pointers followed.
    pointers: usize,
}

#[inline]
fn expand_counting(
    rtype: u16,
    message: &[u8],
    data: Data,
    out: &mut [u8],
) -> Result<Expanded, RdataError> {
    let end = data.start.saturating_add(data.len);
    let rdata = message.get(data.start..end).ok_or(RdataError::whole(Problem::Missing))?;
    let layout = RECEIVED.get(usize::from(rtype)).copied().unwrap_or(NameLayout::NONE);
    if layout.names > 0 {
        return expand_names(layout, message, data.start..end, out);
    }
    let out = out.get_mut(..data.len).ok_or(RdataError::whole(Problem::TooLong))?;
    // An address is copied in a register; copying data of any other length takes a call.
    match (rdata.as_array::<4>(), out.as_mut_array::<4>()) {
        (Some(address), Some(out)) => *out = *address,
        _ => out.copy_from_slice(rdata),
    }
    Ok(Expanded { len: data.len, pointers: 0 })
}

/// Copies data with names as [`expand`] does.
fn expand_names(
    layout: NameLayout,
    message: &[u8],
    data: Range<usize>,
    out: &mut [u8],
) -> Result<Expanded, RdataError> {
    let missing = RdataError::whole(Problem::Missing);
    let mut at = first_name(layout, &message[..data.end], data.start).ok_or(missing)?;
    // Most types have no octets before the names.
    let mut len = if data.start < at { put(out, 0, &message[data.start..at])? } else { 0 };
    let mut pointers = 0;
    for _ in 0..layout.names {
        let room = out.get_mut(len..).and_then(|room| room.first_chunk_mut());
        let read = match room.and_then(|room| name::read_into(message, data.end, at, room).ok()) {
            Some(read) => read,
            // The name is malformed, or `out` has too little room for the longest name: the slower
            // function finds out which.
            None => expand_name(&message[..data.end], data.start, at, &mut out[len..])?,
        };
        (len, at, pointers) = (len + read.len, read.end, pointers + read.pointers);
    }
    let len = if at < data.end { put(out, len, &message[at..data.end])? } else { len };
    Ok(Expanded { len, pointers })
}

/// Copies the name at `at` to the front of `out`. The data starts at `start` and ends with
/// `message`.
#[cold]
fn expand_name(
    message: &[u8],
    start: usize,
    at: usize,
    out: &mut [u8],
) -> Result<name::Read, RdataError> {
    let mut octets = [0; name::MAX_NAME];
    let failed = |error| RdataError::on_wire(Problem::Name(error), at.saturating_sub(start));
    let read = name::read_into(message, message.len(), at, &mut octets).map_err(failed)?;
    put(out, 0, &octets[..read.len])?;
    Ok(read)
}

/// Copies `octets` into `out` at `len` and returns the offset after them.
#[inline]
fn put(out: &mut [u8], len: usize, octets: &[u8]) -> Result<usize, RdataError> {
    let end = len + octets.len();
    let room = out.get_mut(len..end).ok_or(RdataError::whole(Problem::TooLong))?;
    room.copy_from_slice(octets);
    Ok(end)
}

/// Returns the offset of the first name in data that starts at `start` and ends with `octets`.
pub(super) fn first_name(layout: NameLayout, octets: &[u8], start: usize) -> Option<usize> {
    let mut at = start + usize::from(layout.prefix);
    for _ in 0..layout.strings {
        at += 1 + usize::from(*octets.get(at)?);
    }
    (at <= octets.len()).then_some(at)
}

/// Returns the part of uncompressed data with the names that the canonical form writes in lower
/// case. The part is empty for most types and for malformed data.
pub(crate) fn folded_names(rtype: u16, rdata: &[u8]) -> Range<usize> {
    let found = table::find(rtype).filter(|row| row.folded);
    found.and_then(|row| names_of(row, rdata)).unwrap_or(0..0)
}

fn names_of(row: &table::RecordType, rdata: &[u8]) -> Option<Range<usize>> {
    let (start, names) = match row.fields {
        [Field::A6] => (super::gateway::a6_name(rdata)?, 1),
        _ => (first_name(row.names, rdata, 0)?, row.names.names),
    };
    let mut end = start;
    for _ in 0..names {
        end += name::wire_len(rdata.get(end..)?).ok()?;
    }
    Some(start..end)
}
