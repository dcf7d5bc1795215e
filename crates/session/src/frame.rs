//! Messages on streams: each is preceded by two bytes of length (RFC 1035 §4.2.2, RFC 7766 §8).
//!
//! All messages that a client pipelines take one read and one write. Frames are delivered in place
//! from a buffer that the whole thread shares. A connection stores only an incomplete frame, and
//! its memory follows the bytes that have arrived, not the length that they claim.
//!
//! Both ends work on any [`Read`] and [`Write`]. A TLS session passes decrypted octets to
//! [`FrameReader::take`], and encrypts the octets that a [`FrameWriter`] has collected.
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use avocet_session::frame::{FrameReader, FrameWriter, ReadBuffer};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut writer = FrameWriter::new();
//! writer.push(b"first").expect("short enough for a frame");
//! writer.push(b"second").expect("short enough for a frame");
//! let mut stream = Vec::new();
//! writer.write(&mut stream)?;
//! assert!(stream.starts_with(b"\x00\x05first"));
//!
//! let (mut reader, mut buffer) = (FrameReader::new(), ReadBuffer::new());
//! let mut messages = Vec::new();
//! reader.read(&mut &stream[..], &mut buffer, &mut |message: &[u8]| {
//!     messages.push(message.to_vec());
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(messages, [&b"first"[..], b"second"]);
//! # Ok(())
//! # }
//! ```

use std::io::{self, Read, Write};
use std::ops::ControlFlow;

/// Number of octets of the length field.
const PREFIX: usize = 2;

/// Number of octets of the longest frame: length and message.
const FRAME_MAX: usize = PREFIX + u16::MAX as usize;

/// Number of octets of the longest incomplete frame that is copied in front of the next read, so
/// that one read takes everything. A longer frame is completed where it is, because copying it for
/// each segment would cost more.
const COPIED_MAX: usize = 2048;

/// Number of octets by which the buffer of a longer incomplete frame grows for one read, so that
/// memory exceeds the received data by at most this much. The new octets are cleared before each
/// read, even if a client sends only single bytes.
const ROOM_MAX: usize = 8192;

/// Number of octets of buffer that a connection without pending data may keep.
const KEPT_CAPACITY: usize = 512;

/// A read buffer, shared by all connections of a thread.
pub struct ReadBuffer {
    pub(crate) bytes: Box<[u8]>,
}

impl ReadBuffer {
    /// Allocates the buffer, with room for the longest frame after a copied piece.
    pub fn new() -> Self {
        Self { bytes: vec![0; COPIED_MAX + FRAME_MAX].into_boxed_slice() }
    }
}

impl Default for ReadBuffer {
    fn default() -> Self {
        Self::new()
    }
}

/// The state of a stream after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadState {
    /// All available octets were read: wait for more.
    Drained,
    /// More data may have arrived than one read takes: read again, now or after the other
    /// connections.
    More,
    /// Delivery was stopped, and complete frames may still be buffered. The poller does not report
    /// them: read again later.
    Stopped,
    /// The other end has closed its side.
    Closed,
}

/// The reading end of one connection.
#[derive(Debug, Default)]
pub struct FrameReader {
    /// Data received but not delivered: an incomplete frame or, after a stop, complete frames too.
    held: Vec<u8>,
    /// Whether delivery of decrypted bytes was stopped, so that the data of further TLS records
    /// must wait.
    is_stopped: bool,
}

impl FrameReader {
    /// Creates a reader without data.
    pub const fn new() -> Self {
        Self { held: Vec::new(), is_stopped: false }
    }

    /// Reads once and passes each complete message, without its length, to `deliver`, until
    /// `deliver` breaks.
    ///
    /// Frames left from an earlier break are delivered first, without a read.
    ///
    /// # Errors
    /// An error of the stream. The absence of data is not an error.
    pub fn read(
        &mut self,
        stream: &mut impl Read,
        buffer: &mut ReadBuffer,
        deliver: &mut impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> io::Result<ReadState> {
        if self.is_stopped() {
            return Ok(self.deliver_held(ReadState::More, deliver));
        }
        if self.held.len() > COPIED_MAX {
            return self.complete_held(stream, deliver);
        }
        let start = self.held.len();
        buffer.bytes[..start].copy_from_slice(&self.held);
        let (taken, state) = match read_once(stream, &mut buffer.bytes[start..])? {
            ReadBytes::Nothing(state) => return Ok(state),
            ReadBytes::Bytes(taken, state) => (taken, state),
        };
        let arrived = &buffer.bytes[..start + taken];
        let (delivered, stopped) = deliver_frames(arrived, deliver);
        self.hold(&arrived[delivered..]);
        Ok(if stopped { ReadState::Stopped } else { state })
    }

    /// Takes bytes that were received elsewhere, and delivers the complete messages.
    pub fn take(
        &mut self,
        bytes: &[u8],
        deliver: &mut impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if self.is_stopped() {
            self.held.extend_from_slice(bytes);
            return ControlFlow::Break(());
        }
        if self.held.is_empty() {
            let (delivered, stopped) = deliver_frames(bytes, deliver);
            self.hold(&bytes[delivered..]);
            self.is_stopped = stopped;
            return if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        }
        self.held.extend_from_slice(bytes);
        self.resume(deliver)
    }

    /// Delivers the complete frames that an earlier break has left.
    pub fn resume(
        &mut self,
        deliver: &mut impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.is_stopped = self.deliver_held(ReadState::More, deliver) == ReadState::Stopped;
        if self.is_stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Reports whether frames may wait after a break.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped || missing(&self.held) == Some(0)
    }

    /// Returns the number of undelivered bytes.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Reads at most the rest of the incomplete frame, directly after the part already received.
    fn complete_held(
        &mut self,
        stream: &mut impl Read,
        deliver: &mut impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> io::Result<ReadState> {
        let start = self.held.len();
        let room = missing(&self.held).unwrap_or(PREFIX).min(ROOM_MAX);
        self.held.resize(start + room, 0);
        let taken = read_once(stream, &mut self.held[start..]);
        let kept = if let Ok(ReadBytes::Bytes(taken, _)) = taken { taken } else { 0 };
        self.held.truncate(start + kept);
        match taken? {
            ReadBytes::Nothing(state) => Ok(state),
            ReadBytes::Bytes(_, state) => Ok(self.deliver_held(state, deliver)),
        }
    }

    fn deliver_held(
        &mut self,
        state: ReadState,
        deliver: &mut impl FnMut(&[u8]) -> ControlFlow<()>,
    ) -> ReadState {
        let (delivered, stopped) = deliver_frames(&self.held, deliver);
        self.held.drain(..delivered);
        trim(&mut self.held);
        if stopped { ReadState::Stopped } else { state }
    }

    fn hold(&mut self, rest: &[u8]) {
        self.held.clear();
        self.held.extend_from_slice(rest);
        trim(&mut self.held);
    }
}

/// Reports whether an error of a non-blocking call only means that there is nothing to do now.
fn is_idle(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// The result of one read.
pub(crate) enum ReadBytes {
    /// No bytes: end of stream, or no data has arrived.
    Nothing(ReadState),
    /// The number of bytes, and the state of the stream.
    Bytes(usize, ReadState),
}

pub(crate) fn read_once(stream: &mut impl Read, room: &mut [u8]) -> io::Result<ReadBytes> {
    match stream.read(room) {
        Ok(0) => Ok(ReadBytes::Nothing(ReadState::Closed)),
        Ok(taken) if taken == room.len() => Ok(ReadBytes::Bytes(taken, ReadState::More)),
        Ok(taken) => Ok(ReadBytes::Bytes(taken, ReadState::Drained)),
        Err(error) if is_idle(&error) => Ok(ReadBytes::Nothing(ReadState::Drained)),
        Err(error) => Err(error),
    }
}

/// Returns how many bytes the first frame still lacks, or `None` while its length is incomplete.
fn missing(bytes: &[u8]) -> Option<usize> {
    let (prefix, rest) = bytes.split_first_chunk::<PREFIX>()?;
    Some(usize::from(u16::from_be_bytes(*prefix)).saturating_sub(rest.len()))
}

/// Delivers the complete frames at the start of `bytes`. Returns the number of bytes of these
/// frames, and whether `deliver` stopped.
fn deliver_frames(
    bytes: &[u8],
    deliver: &mut impl FnMut(&[u8]) -> ControlFlow<()>,
) -> (usize, bool) {
    let mut rest = bytes;
    while let Some((prefix, after)) = rest.split_first_chunk::<PREFIX>() {
        let Some((message, next)) =
            after.split_at_checked(usize::from(u16::from_be_bytes(*prefix)))
        else {
            break;
        };
        rest = next;
        if deliver(message).is_break() {
            return (bytes.len() - rest.len(), true);
        }
    }
    (bytes.len() - rest.len(), false)
}

/// Releases memory that an idle connection does not need.
pub(crate) fn trim(bytes: &mut Vec<u8>) {
    if bytes.capacity() > KEPT_CAPACITY.max(2 * bytes.len()) {
        bytes.shrink_to(bytes.len());
    }
}

/// The state of a stream after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteState {
    /// The writer wrote everything.
    Drained,
    /// The stream accepts no more now: wait until it is writable.
    Blocked,
}

/// Bytes to send on a stream. A part of them may be written already.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    pending: Vec<u8>,
    /// Bytes at the start of `pending` that are already written.
    written: usize,
    /// Number of bytes at the start of a connection that need a TLS record of their own if the
    /// stream is encrypted.
    apart: usize,
}

impl Outgoing {
    /// Creates a buffer without bytes.
    pub(crate) const fn new() -> Self {
        Self { pending: Vec::new(), written: 0, apart: 0 }
    }

    /// Puts octets in front of all other octets, before anything is written.
    pub(crate) fn begin_with(&mut self, octets: &[u8]) {
        self.pending.splice(..0, octets.iter().copied());
        self.apart = octets.len();
    }

    /// Returns the octets that are not written yet, for a layer that encrypts them. The first slice
    /// is the beginning of the connection and needs a TLS record of its own: Unbound 1.17 does not
    /// notice data that follows in the same record.
    pub(crate) fn parts(&self) -> [&[u8]; 2] {
        let (apart, rest) = self.unwritten().split_at(self.apart);
        [apart, rest]
    }

    /// Returns the octets that are not written yet.
    pub(crate) fn unwritten(&self) -> &[u8] {
        &self.pending[self.written..]
    }

    /// Returns the buffer, so that the caller can append to it.
    pub(crate) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.pending
    }

    pub(crate) fn len(&self) -> usize {
        self.pending.len() - self.written
    }

    /// Writes with one write, and keeps the octets that the stream does not accept. Without pending
    /// data it does not call the stream.
    pub(crate) fn write(&mut self, stream: &mut impl Write) -> io::Result<WriteState> {
        if self.pending.is_empty() {
            return Ok(WriteState::Drained);
        }
        match stream.write(&self.pending[self.written..]) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero)),
            Ok(taken) => self.written += taken,
            Err(error) if is_idle(&error) => return Ok(WriteState::Blocked),
            Err(error) => return Err(error),
        }
        if self.written < self.pending.len() {
            self.drop_written();
            return Ok(WriteState::Blocked);
        }
        self.clear();
        Ok(WriteState::Drained)
    }

    pub(crate) fn clear(&mut self) {
        self.pending.clear();
        (self.written, self.apart) = (0, 0);
        trim(&mut self.pending);
    }

    /// Moves the unwritten bytes to the front once at least half of the buffer is written. On
    /// average, each byte moves at most once.
    fn drop_written(&mut self) {
        if self.written * 2 >= self.pending.len() {
            self.pending.drain(..self.written);
            self.written = 0;
        }
    }
}

/// The sending side of one connection. It collects messages and writes them together.
#[derive(Debug, Default)]
pub struct FrameWriter {
    outgoing: Outgoing,
    /// Number of pushed messages; it wraps.
    pushed: u32,
}

/// An error: the message is longer than the 65,535 bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl FrameWriter {
    /// Creates a writer without pending data.
    pub const fn new() -> Self {
        Self { outgoing: Outgoing::new(), pushed: 0 }
    }

    /// Appends a message with its length.
    ///
    /// # Errors
    /// [`TooLong`]. Nothing was appended then.
    pub fn push(&mut self, message: &[u8]) -> Result<(), TooLong> {
        let len = u16::try_from(message.len()).map_err(|_| TooLong)?;
        let pending = self.outgoing.end();
        pending.reserve(PREFIX + message.len());
        pending.extend_from_slice(&len.to_be_bytes());
        pending.extend_from_slice(message);
        self.pushed = self.pushed.wrapping_add(1);
        Ok(())
    }

    /// Returns the number of messages that were pushed; it wraps.
    pub fn pushed(&self) -> u32 {
        self.pushed
    }

    /// Returns the number of pending bytes.
    pub fn unsent(&self) -> usize {
        self.outgoing.len()
    }

    /// Reports whether more than `limit` bytes are pending. Accept no more queries from this client
    /// until they are written.
    pub fn is_over(&self, limit: usize) -> bool {
        self.outgoing.len() > limit
    }

    /// Reports whether nothing is pending.
    pub fn is_empty(&self) -> bool {
        self.outgoing.pending.is_empty()
    }

    /// Writes the pending data with one write and keeps the data that the stream does not accept.
    /// Without pending data it does not call the stream.
    ///
    /// # Errors
    /// An error of the stream. A stream that accepts no data now is not an error.
    pub fn write(&mut self, stream: &mut impl Write) -> io::Result<WriteState> {
        self.outgoing.write(stream)
    }

    /// Returns the frames that are not sent yet, for a layer that encrypts them.
    pub(crate) fn out(&mut self) -> &mut Outgoing {
        &mut self.outgoing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::net::{TcpListener, TcpStream};

    /// A stream that returns one segment per read. After the last segment it ends if `ended`, and
    /// blocks otherwise.
    struct Segments {
        segments: VecDeque<Vec<u8>>,
        ended: bool,
        reads: usize,
    }

    impl Segments {
        fn new(segments: impl IntoIterator<Item = Vec<u8>>) -> Self {
            Self { segments: segments.into_iter().collect(), ended: false, reads: 0 }
        }
    }

    impl Read for Segments {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            self.reads += 1;
            let Some(mut segment) = self.segments.pop_front() else {
                return if self.ended { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
            };
            let taken = segment.len().min(room.len());
            room[..taken].copy_from_slice(&segment[..taken]);
            if taken < segment.len() {
                self.segments.push_front(segment.split_off(taken));
            }
            Ok(taken)
        }
    }

    fn framed(messages: &[Vec<u8>]) -> Vec<u8> {
        let mut writer = FrameWriter::new();
        for message in messages {
            writer.push(message).unwrap();
        }
        writer.outgoing.pending
    }

    /// Reads until the stream has no more data, and returns the messages.
    fn read_all(reader: &mut FrameReader, stream: &mut Segments) -> Vec<Vec<u8>> {
        let mut buffer = ReadBuffer::new();
        let mut messages = Vec::new();
        let deliver = &mut |message: &[u8]| {
            messages.push(message.to_vec());
            ControlFlow::Continue(())
        };
        while !stream.segments.is_empty() {
            reader.read(stream, &mut buffer, deliver).unwrap();
        }
        messages
    }

    fn messages(lens: &[usize]) -> Vec<Vec<u8>> {
        let message = |(i, &len): (usize, &usize)| (0..len).map(|j| (i * 31 + j) as u8).collect();
        lens.iter().enumerate().map(message).collect()
    }

    #[test]
    fn a_stream_may_be_split_at_every_byte() {
        let sent = messages(&[17, 0, 1, 300]);
        let bytes = framed(&sent);
        for at in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(at);
            let parts =
                [head, tail].into_iter().filter(|part| !part.is_empty()).map(<[u8]>::to_vec);
            let mut reader = FrameReader::new();
            assert_eq!(read_all(&mut reader, &mut Segments::new(parts)), sent, "split at {at}");
            assert_eq!(reader.held(), 0);
        }
    }

    #[test]
    fn a_stream_may_come_in_segments_of_any_size() {
        let sent = messages(&[12, 5000, 65_535, 0, 2046, 2047, 65_535, 40, 2048, 2049, 1]);
        let bytes = framed(&sent);
        for size in [7, 100, 1460, 2048, 4096, 65_535, 65_537, bytes.len()] {
            let mut reader = FrameReader::new();
            let mut stream = Segments::new(bytes.chunks(size).map(<[u8]>::to_vec));
            assert_eq!(read_all(&mut reader, &mut stream), sent, "segments of {size}");
            assert_eq!(reader.held(), 0);
            assert!(reader.held.capacity() <= KEPT_CAPACITY, "{}", reader.held.capacity());
        }
    }

    #[test]
    fn all_that_is_pipelined_takes_one_read() {
        let sent = messages(&[40; 1000]);
        let mut stream = Segments::new([framed(&sent)]);
        assert_eq!(read_all(&mut FrameReader::new(), &mut stream), sent);
        assert_eq!(stream.reads, 1);
    }

    #[test]
    fn a_claimed_length_takes_no_memory() {
        let mut reader = FrameReader::new();
        let mut claim = vec![0xff, 0xff];
        claim.extend_from_slice(&[7; 10]);
        assert!(read_all(&mut reader, &mut Segments::new([claim])).is_empty());
        assert_eq!(reader.held(), 12);
        assert!(reader.held.capacity() <= KEPT_CAPACITY, "{}", reader.held.capacity());
        // While the rest arrives, memory follows the received data.
        for arrived in (12..60_000).step_by(500) {
            read_all(&mut reader, &mut Segments::new([vec![7; 500]]));
            assert_eq!(reader.held(), arrived + 500);
            assert!(reader.held.capacity() <= 2 * reader.held() + ROOM_MAX);
        }
    }

    #[test]
    fn a_stop_loses_nothing_and_is_resumed_without_a_read() {
        let sent = messages(&[30; 100]);
        let mut bytes = framed(&sent);
        let piece = bytes.split_off(bytes.len() - 5);
        let mut stream = Segments::new([bytes, piece]);
        let (mut reader, mut buffer) = (FrameReader::new(), ReadBuffer::new());
        let mut received: Vec<Vec<u8>> = Vec::new();
        let mut states = Vec::new();
        while received.len() < sent.len() {
            let deliver = &mut |message: &[u8]| {
                received.push(message.to_vec());
                if received.len().is_multiple_of(40) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            };
            states.push((reader.read(&mut stream, &mut buffer, deliver).unwrap(), stream.reads));
        }
        assert_eq!(received, sent);
        let stopped = ReadState::Stopped;
        let expected = [(stopped, 1), (stopped, 1), (ReadState::More, 1), (ReadState::Drained, 2)];
        assert_eq!(states, expected);
    }

    #[test]
    fn bytes_of_further_records_wait_after_a_stop() {
        let (mut reader, mut taken) = (FrameReader::new(), Vec::new());
        let deliver = &mut |message: &[u8]| {
            taken.push(message.to_vec());
            ControlFlow::Break(())
        };
        for message in messages(&[3, 4, 5]) {
            assert!(reader.take(&framed(&[message]), deliver).is_break());
        }
        assert_eq!(reader.held(), 2 * PREFIX + 4 + 5, "only the first is delivered");
        while reader.is_stopped() && reader.held() > 0 {
            assert!(reader.resume(deliver).is_break());
        }
        assert!(reader.resume(deliver).is_continue() && !reader.is_stopped());
        assert_eq!(taken, messages(&[3, 4, 5]));
    }

    #[test]
    fn the_state_tells_what_to_expect() {
        let (mut reader, mut buffer) = (FrameReader::new(), ReadBuffer::new());
        let mut stream = Segments::new([vec![0; 1]]);
        let deliver = &mut |_: &[u8]| ControlFlow::Continue(());
        assert_eq!(reader.read(&mut stream, &mut buffer, deliver).unwrap(), ReadState::Drained);
        assert_eq!(reader.read(&mut stream, &mut buffer, deliver).unwrap(), ReadState::Drained);
        stream.segments.push_back(vec![0; 100_000]);
        assert_eq!(reader.read(&mut stream, &mut buffer, deliver).unwrap(), ReadState::More);
        stream.segments.clear();
        stream.ended = true;
        assert_eq!(reader.read(&mut stream, &mut buffer, deliver).unwrap(), ReadState::Closed);
    }

    #[test]
    fn a_message_too_long_is_refused_whole() {
        let mut writer = FrameWriter::new();
        assert_eq!(writer.push(&[0; 65_536]), Err(TooLong));
        assert!(writer.is_empty());
        assert_eq!(writer.push(&[0; 65_535]), Ok(()));
        assert!(writer.is_over(65_536) && !writer.is_over(65_537));
    }

    #[test]
    fn what_the_stream_does_not_take_is_written_later() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        sender.set_nonblocking(true).unwrap();
        let sent = messages(&[60_000; 200]);
        let mut writer = FrameWriter::new();
        for message in &sent {
            writer.push(message).unwrap();
        }
        assert_eq!(writer.write(&mut sender).unwrap(), WriteState::Blocked);
        assert!(!writer.is_empty());

        let (mut reader, mut buffer) = (FrameReader::new(), ReadBuffer::new());
        let mut received = Vec::new();
        receiver.set_nonblocking(true).unwrap();
        while received.len() < sent.len() {
            writer.write(&mut sender).unwrap();
            let deliver = &mut |message: &[u8]| {
                received.push(message.to_vec());
                ControlFlow::Continue(())
            };
            reader.read(&mut receiver, &mut buffer, deliver).unwrap();
        }
        assert!(received == sent);
        assert!(writer.is_empty() && writer.outgoing.pending.capacity() <= KEPT_CAPACITY);
    }

    /// A sink that accepts `room` bytes per write.
    struct Sink {
        room: usize,
        taken: Vec<u8>,
        writes: usize,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.writes += 1;
            let taken = bytes.len().min(self.room);
            if taken == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.taken.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn pending_messages_leave_in_order_by_one_write_each_time() {
        let sent = messages(&[10, 20, 30, 40]);
        for room in 1..=framed(&sent).len() {
            let mut sink = Sink { room, taken: Vec::new(), writes: 0 };
            let mut writer = FrameWriter::new();
            for message in &sent {
                writer.push(message).unwrap();
                writer.write(&mut sink).unwrap();
            }
            assert_eq!(sink.writes, sent.len());
            while writer.write(&mut sink).unwrap() == WriteState::Blocked {}
            assert_eq!(sink.taken, framed(&sent), "room {room}");
        }
        let mut full = Sink { room: 0, taken: Vec::new(), writes: 0 };
        let mut writer = FrameWriter::new();
        assert_eq!(writer.write(&mut full).unwrap(), WriteState::Drained);
        assert_eq!(full.writes, 0);
        writer.push(b"x").unwrap();
        assert_eq!(writer.write(&mut full).unwrap(), WriteState::Blocked);
    }
}
