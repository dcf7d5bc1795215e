//! Saves the packet cache and the RRset cache, and loads them after a restart. Both are written to
//! one stream. The caller names, syncs and renames the file.
//!
//! ```text
//! start:  "AVOCACHE" | version u32 | saved at u64 | policy u64 | sources u64
//! entry:  1 packet, 2 RRset: u8 | payload length u32 | stored at u64 | valid_for u32 | epoch u32 |
//!         user u32 | payload
//! end:    0 u8 | packets u64 | RRsets u64 | CRC-32 of everything before it u32
//! ```
//! Numbers are little endian, times wall-clock seconds. Loading reads the file twice: the first
//! pass checks it as a whole, the second takes its entries. A damaged, truncated or foreign file
//! therefore changes nothing.

use std::{
    fmt,
    io::{self, BufReader, Read, Seek, Write},
};

use crate::{
    packet::{PacketCache, PacketKey, StoredPacket},
    rrset::RrsetCache,
    store::{MAX_PAYLOAD_BYTES, Meta},
};

const MAGIC: &[u8; 8] = b"AVOCACHE";
const VERSION: u32 = 3;
const END: u8 = 0;
const PACKET: u8 = 1;
const RRSET: u8 = 2;
const ENTRY_HEAD_BYTES: usize = 24;

/// The clocks and the configuration hashes at the time of saving or loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotMoment {
    /// Wall-clock seconds since 1970.
    pub wall_now: u64,
    /// The moment of `wall_now` on the monotonic clock of the caches, in seconds.
    pub now: u32,
    /// The current epoch. Loaded responses get this epoch.
    pub epoch: u32,
    /// A hash of policy and hosted zones. Responses are loaded only if this hash is unchanged since
    /// saving.
    pub policy: u64,
    /// A hash of the servers from which names are resolved. RRsets are loaded only if this hash is
    /// unchanged since saving.
    pub sources: u64,
}

/// Numbers of entries that were saved or loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotCounts {
    /// Entries of the packet cache.
    pub packets: u64,
    /// Entries of the RRset cache.
    pub rrsets: u64,
    /// Entries that were not loaded, because they are too old, malformed or already cached, or
    /// because the configuration has changed.
    pub dropped: u64,
}

/// The reason why a snapshot was refused. The caches are then unchanged.
#[derive(Debug)]
pub enum SnapshotError {
    /// Reading failed.
    Io(io::Error),
    /// The file does not begin with the mark of a snapshot.
    NotASnapshot,
    /// The version is unsupported.
    Version(u32),
    /// The file is incomplete.
    Truncated,
    /// A payload exceeds the limit for entries.
    PayloadTooLong(u32),
    /// An entry has an unknown kind.
    UnknownKind(u8),
    /// The counts at the end do not match the entries.
    Miscounted,
    /// The checksum does not match.
    Checksum,
    /// The file continues after its end mark.
    TrailingBytes,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotError::Io(error) => write!(f, "the cache snapshot cannot be read: {error}"),
            SnapshotError::NotASnapshot => {
                write!(f, "not a cache snapshot: it does not start with AVOCACHE")
            }
            SnapshotError::Version(found) => {
                write!(f, "the cache snapshot has version {found}, but this server reads {VERSION}")
            }
            SnapshotError::Truncated => write!(f, "the cache snapshot is truncated"),
            SnapshotError::PayloadTooLong(length) => {
                write!(
                    f,
                    "the cache snapshot is damaged: an entry of {length} bytes, at most \
                     {MAX_PAYLOAD_BYTES}"
                )
            }
            SnapshotError::UnknownKind(kind) => {
                write!(f, "the cache snapshot is damaged: an entry of kind {kind}")
            }
            SnapshotError::Miscounted => {
                write!(f, "the cache snapshot is damaged: its entry counts are wrong")
            }
            SnapshotError::Checksum => {
                write!(f, "the cache snapshot is damaged: its checksum is wrong")
            }
            SnapshotError::TrailingBytes => {
                write!(f, "the cache snapshot is damaged: bytes after its end")
            }
        }
    }
}

impl std::error::Error for SnapshotError {}

impl From<io::Error> for SnapshotError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => SnapshotError::Truncated,
            _ => SnapshotError::Io(error),
        }
    }
}

/// Writes the RRset cache, and the entries of the packet cache that `holds` accepts. An entry that
/// changes meanwhile is saved in its old or new state.
pub fn save(
    out: &mut impl Write,
    packets: &PacketCache,
    rrsets: &RrsetCache,
    at: &SnapshotMoment,
    holds: impl Fn(&StoredPacket<'_>) -> bool,
) -> io::Result<SnapshotCounts> {
    let mut writer = Summed { inner: &mut *out, sum: crc32fast::Hasher::new() };
    let mut counts = SnapshotCounts::default();
    writer.put(MAGIC)?;
    writer.put(&VERSION.to_le_bytes())?;
    writer.put(&at.wall_now.to_le_bytes())?;
    writer.put(&at.policy.to_le_bytes())?;
    writer.put(&at.sources.to_le_bytes())?;
    packets.try_for_each(holds, |meta, payload| {
        if packets.is_outlived(meta, at.now) {
            return Ok(());
        }
        counts.packets += 1;
        writer.put_entry(PACKET, meta, payload, at)
    })?;
    rrsets.try_for_each(|meta, payload| {
        if rrsets.is_outlived(meta, at.now) {
            return Ok(());
        }
        counts.rrsets += 1;
        writer.put_entry(RRSET, meta, payload, at)
    })?;
    writer.put(&[END])?;
    writer.put(&counts.packets.to_le_bytes())?;
    writer.put(&counts.rrsets.to_le_bytes())?;
    let sum = writer.sum.finalize();
    out.write_all(&sum.to_le_bytes())?;
    Ok(counts)
}

/// Checks the whole snapshot, then fills the caches from it. `packet_hash` is the hash with which
/// the caller looks up responses. Entries never become younger: if the wall clock was set back,
/// they keep the age that they had when they were saved.
pub fn load<R: Read + Seek>(
    input: &mut R,
    packets: &PacketCache,
    rrsets: &RrsetCache,
    at: &SnapshotMoment,
    packet_hash: impl Fn(&PacketKey<'_>) -> u64,
) -> Result<SnapshotCounts, SnapshotError> {
    let start = input.stream_position()?;
    walk(input, |_, _, _, _| {})?;
    input.seek(io::SeekFrom::Start(start))?;
    let mut counts = SnapshotCounts::default();
    walk(input, |head, kind, entry, payload| {
        let age =
            at.wall_now.max(head.saved_at).saturating_sub(entry.stored_at).min(i32::MAX as u64)
                as u32;
        let meta = Meta { stored_at: at.now.wrapping_sub(age), ..entry.meta };
        let (count, taken) = match kind {
            PACKET => {
                let meta = Meta { epoch: at.epoch, ..meta };
                let is_wanted = head.policy == at.policy && !packets.is_outlived(&meta, at.now);
                (&mut counts.packets, is_wanted && packets.restore(meta, payload, &packet_hash))
            }
            _ => {
                let is_wanted = head.sources == at.sources && !rrsets.is_outlived(&meta, at.now);
                (&mut counts.rrsets, is_wanted && rrsets.restore(meta, payload))
            }
        };
        *count += u64::from(taken);
        counts.dropped += u64::from(!taken);
    })?;
    Ok(counts)
}

struct Head {
    saved_at: u64,
    policy: u64,
    sources: u64,
}

struct SavedEntry {
    /// The time of storage, in seconds of the wall clock.
    stored_at: u64,
    /// The properties of the entry. In them, the field `stored_at` is a time on the clock of an
    /// earlier process.
    meta: Meta,
}

/// Reads a snapshot from start to end and calls `visit` with its entries.
fn walk(
    input: &mut impl Read,
    mut visit: impl FnMut(&Head, u8, &SavedEntry, &[u8]),
) -> Result<(), SnapshotError> {
    let mut reader = Summed { inner: BufReader::new(input), sum: crc32fast::Hasher::new() };
    if reader.take::<8>()? != *MAGIC {
        return Err(SnapshotError::NotASnapshot);
    }
    match reader.take_u32()? {
        VERSION => {}
        other => return Err(SnapshotError::Version(other)),
    }
    let head = Head {
        saved_at: reader.take_u64()?,
        policy: reader.take_u64()?,
        sources: reader.take_u64()?,
    };
    let mut counted = [0u64; 2];
    let mut payload = vec![0; MAX_PAYLOAD_BYTES];
    loop {
        let [kind] = reader.take::<1>()?;
        match kind {
            END => break,
            PACKET => counted[0] += 1,
            RRSET => counted[1] += 1,
            other => return Err(SnapshotError::UnknownKind(other)),
        }
        let (entry, length) = reader.take_entry_head()?;
        let payload =
            payload.get_mut(..length as usize).ok_or(SnapshotError::PayloadTooLong(length))?;
        reader.fill(payload)?;
        visit(&head, kind, &entry, payload);
    }
    reader.check_end(counted)
}

/// A reader or writer that computes the checksum of the octets it passes on.
struct Summed<T> {
    inner: T,
    sum: crc32fast::Hasher,
}

impl<W: Write> Summed<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sum.update(bytes);
        self.inner.write_all(bytes)
    }

    fn put_entry(
        &mut self,
        kind: u8,
        meta: &Meta,
        payload: &[u8],
        at: &SnapshotMoment,
    ) -> io::Result<()> {
        let stored_at = at.wall_now.saturating_sub(u64::from(meta.age(at.now)));
        let mut head = Vec::with_capacity(1 + ENTRY_HEAD_BYTES);
        head.push(kind);
        head.extend((payload.len() as u32).to_le_bytes());
        head.extend(stored_at.to_le_bytes());
        head.extend(meta.valid_for.to_le_bytes());
        head.extend(meta.epoch.to_le_bytes());
        head.extend(meta.user.to_le_bytes());
        self.put(&head)?;
        self.put(payload)
    }
}

impl<R: Read> Summed<R> {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), SnapshotError> {
        self.inner.read_exact(bytes)?;
        self.sum.update(bytes);
        Ok(())
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn take_u32(&mut self) -> Result<u32, SnapshotError> {
        self.take().map(u32::from_le_bytes)
    }

    fn take_u64(&mut self) -> Result<u64, SnapshotError> {
        self.take().map(u64::from_le_bytes)
    }

    fn take_entry_head(&mut self) -> Result<(SavedEntry, u32), SnapshotError> {
        let length = self.take_u32()?;
        let stored_at = self.take_u64()?;
        let (valid_for, epoch, user) = (self.take_u32()?, self.take_u32()?, self.take_u32()?);
        Ok((SavedEntry { stored_at, meta: Meta { stored_at: 0, valid_for, epoch, user } }, length))
    }

    fn check_end(mut self, counted: [u64; 2]) -> Result<(), SnapshotError> {
        let counts = [self.take_u64()?, self.take_u64()?];
        let computed = self.sum.finalize();
        let mut stored = [0; 4];
        self.inner.read_exact(&mut stored)?;
        if computed != u32::from_le_bytes(stored) {
            return Err(SnapshotError::Checksum);
        }
        if counts != counted {
            return Err(SnapshotError::Miscounted);
        }
        if self.inner.read(&mut [0])? != 0 {
            return Err(SnapshotError::TrailingBytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
