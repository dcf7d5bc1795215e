//! Frame streams: octets as a sequence of frames, with control frames at both ends.
//!
//! ```text
//! to a receiver                             in a file
//!   READY(content type) ──>
//!        <── ACCEPT(content type)
//!   START(content type) ──>                   START(content type)
//!   frame, frame, ... ──>                     frame, frame, ...
//!   STOP ──>                                  STOP, or the end of an interrupted file
//!        <── FINISH
//! ```
//! A data frame consists of its length in 32 bits and its octets. A length of zero announces a
//! control frame.

use std::io::{ErrorKind, Read};

use crate::TapError;
use crate::message::TapMessage;

/// The content type of dnstap.
pub const CONTENT_TYPE: &[u8] = b"protobuf:dnstap.Dnstap";
/// Length of the longest data frame in octets: it has room for two DNS messages and their details.
pub const MAX_FRAME: usize = 256 << 10;
/// Length of the longest control frame in octets. Other implementations have the same limit.
const MAX_CONTROL: usize = 512;
/// The type of the field that contains a content type, in control frames.
const FIELD_CONTENT_TYPE: u32 = 1;

/// A control frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControlKind {
    /// The receiver agrees to a content type.
    Accept = 1,
    /// Data begins.
    Start = 2,
    /// Data ends.
    Stop = 3,
    /// The sender offers content types.
    Ready = 4,
    /// The receiver has read all data.
    Finish = 5,
}

impl ControlKind {
    fn of(number: u32) -> Option<Self> {
        let all = [Self::Accept, Self::Start, Self::Stop, Self::Ready, Self::Finish];
        all.into_iter().find(|kind| *kind as u32 == number)
    }

    /// Returns the frame, with the content type of dnstap if frames of this kind have one.
    #[must_use]
    pub fn frame(self) -> Vec<u8> {
        let content = match self {
            Self::Accept | Self::Start | Self::Ready => Some(CONTENT_TYPE),
            Self::Stop | Self::Finish => None,
        };
        let len = content.map_or(0, |content| 8 + content.len()) as u32 + 4;
        let mut out = Vec::new();
        for word in [0, len, self as u32] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        if let Some(content) = content {
            for word in [FIELD_CONTENT_TYPE, content.len() as u32] {
                out.extend_from_slice(&word.to_be_bytes());
            }
            out.extend_from_slice(content);
        }
        out
    }
}

/// Appends a data frame. An empty frame cannot be represented and is left out.
pub fn put_data(out: &mut Vec<u8>, octets: &[u8]) {
    if !octets.is_empty() {
        out.extend_from_slice(&(octets.len() as u32).to_be_bytes());
        out.extend_from_slice(octets);
    }
}

/// A frame that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// A control frame, with its content types.
    Control(ControlKind, Vec<Vec<u8>>),
    /// A data frame, whose octets are in the buffer.
    Data,
}

impl Frame {
    /// Reports whether the frame is a control frame of the kind `wanted` that permits dnstap. A
    /// frame without a content type permits every type.
    #[must_use]
    pub fn permits(&self, wanted: ControlKind) -> bool {
        match self {
            Self::Control(kind, types) => {
                *kind == wanted && (types.is_empty() || types.iter().any(|one| one == CONTENT_TYPE))
            }
            Self::Data => false,
        }
    }
}

/// A reader of frames.
pub struct FrameReader<R> {
    input: R,
}

impl<R: Read> FrameReader<R> {
    /// Creates a reader whose first frame begins at the current position of `input`.
    pub fn new(input: R) -> Self {
        Self { input }
    }

    /// Reads a frame; the octets of a data frame replace those in `data`. Returns `None` at the end
    /// of the input, also if the input ends within a frame, because the writer may have been
    /// interrupted.
    ///
    /// # Errors
    /// The input cannot be read, or is not a frame stream.
    pub fn read_frame(&mut self, data: &mut Vec<u8>) -> Result<Option<Frame>, TapError> {
        let Some(len) = self.word()? else { return Ok(None) };
        if len > 0 {
            let len = len as usize;
            if len > MAX_FRAME {
                return Err(TapError::LongFrame(len));
            }
            return Ok(self.octets(len, data)?.then_some(Frame::Data));
        }
        let Some(len) = self.word()? else { return Ok(None) };
        if !(4..=MAX_CONTROL).contains(&(len as usize)) {
            return Err(TapError::Control);
        }
        if !self.octets(len as usize, data)? {
            return Ok(None);
        }
        control(data).map(Some)
    }

    fn word(&mut self) -> Result<Option<u32>, TapError> {
        let mut word = [0; 4];
        match self.input.read_exact(&mut word) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error.into()),
            Ok(()) => Ok(Some(u32::from_be_bytes(word))),
        }
    }

    /// Reads octets. Returns `false` if the input ends too early.
    fn octets(&mut self, len: usize, data: &mut Vec<u8>) -> Result<bool, TapError> {
        data.clear();
        let read = (&mut self.input).take(len as u64).read_to_end(data)?;
        Ok(read == len)
    }
}

/// Reads the content of a control frame.
fn control(octets: &[u8]) -> Result<Frame, TapError> {
    let (kind, mut rest) = word(octets).ok_or(TapError::Control)?;
    let kind = ControlKind::of(kind).ok_or(TapError::Control)?;
    let mut types = Vec::new();
    while !rest.is_empty() {
        let (field, after) = word(rest).ok_or(TapError::Control)?;
        let (len, after) = word(after).ok_or(TapError::Control)?;
        let (content, after) = after.split_at_checked(len as usize).ok_or(TapError::Control)?;
        if field == FIELD_CONTENT_TYPE {
            types.push(content.to_vec());
        }
        rest = after;
    }
    Ok(Frame::Control(kind, types))
}

fn word(octets: &[u8]) -> Option<(u32, &[u8])> {
    let (word, rest) = octets.split_first_chunk()?;
    Some((u32::from_be_bytes(*word), rest))
}

/// A file of dnstap messages.
pub struct TapFile<R> {
    frames: FrameReader<R>,
    data: Vec<u8>,
    /// Number of frames without a message of a known kind.
    pub passed_over: u64,
}

impl<R: Read> TapFile<R> {
    /// Reads the beginning of a file.
    ///
    /// # Errors
    /// The input is not a frame stream with dnstap messages.
    pub fn open(input: R) -> Result<Self, TapError> {
        let (mut frames, mut data) = (FrameReader::new(input), Vec::new());
        let first = match frames.read_frame(&mut data) {
            Err(TapError::Stream(error)) => return Err(error.into()),
            first => first.map_err(|_| TapError::NotAStream)?,
        };
        match first {
            Some(frame) if frame.permits(ControlKind::Start) => {
                Ok(Self { frames, data, passed_over: 0 })
            }
            Some(Frame::Control(ControlKind::Start, types)) => {
                let first = types.first().map(Vec::as_slice).unwrap_or_default();
                Err(TapError::OtherContent(String::from_utf8_lossy(first).into_owned()))
            }
            _ => Err(TapError::NotAStream),
        }
    }

    /// Returns the next message of a known kind, or `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged. A malformed message in an intact frame is passed
    /// over.
    pub fn read_message(&mut self) -> Result<Option<TapMessage<'_>>, TapError> {
        loop {
            match self.frames.read_frame(&mut self.data)? {
                None | Some(Frame::Control(ControlKind::Stop, _)) => return Ok(None),
                Some(Frame::Control(..)) => return Err(TapError::Control),
                Some(Frame::Data) => {}
            }
            if matches!(TapMessage::read(&self.data), Ok(Some(_))) {
                // The message is parsed again, because the first result borrows the buffer that the
                // loop may replace.
                return TapMessage::read(&self.data);
            }
            self.passed_over += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::MessageKind;

    fn file(messages: usize) -> Vec<u8> {
        let mut out = ControlKind::Start.frame();
        let mut octets = Vec::new();
        for number in 0..messages {
            let name = [number as u8; 3];
            let kind = MessageKind::ClientQuery;
            TapMessage { query_message: Some(&name), ..TapMessage::of(kind) }.write(&mut octets);
            put_data(&mut out, &octets);
        }
        out.extend(ControlKind::Stop.frame());
        out
    }

    fn count(octets: &[u8]) -> Result<u64, TapError> {
        let mut file = TapFile::open(octets)?;
        let mut found = 0;
        while let Some(message) = file.read_message()? {
            assert_eq!(message.query_message, Some(&[found as u8; 3][..]));
            found += 1;
        }
        Ok(found)
    }

    #[test]
    fn a_start_frame_has_the_octets_of_the_format() {
        let expected = [
            &[0, 0, 0, 0, 0, 0, 0, 34, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 22][..],
            b"protobuf:dnstap.Dnstap",
        ];
        assert_eq!(ControlKind::Start.frame(), expected.concat());
        assert_eq!(ControlKind::Stop.frame(), [0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 3]);
    }

    #[test]
    fn a_file_has_its_messages_also_if_it_is_interrupted() {
        let whole = file(5);
        assert_eq!(count(&whole).unwrap(), 5);
        for len in ControlKind::Start.frame().len()..whole.len() {
            assert!(count(&whole[..len]).unwrap() <= 5, "{len}");
        }
    }

    #[test]
    fn what_is_no_stream_of_dnstap_is_refused() {
        let check = |octets: &[u8], expected: &str| {
            assert!(count(octets).unwrap_err().to_string().contains(expected), "{octets:?}");
        };
        check(b"", "not a frame stream");
        check(b"\xd4\xc3\xb2\xa1pcap", "not a frame stream");
        check(&ControlKind::Stop.frame(), "not a frame stream");
        let mut other = ControlKind::Start.frame();
        other[20] = b'q';
        check(&other, "its content type is \"qrotobuf");
        let mut long = ControlKind::Start.frame();
        long.extend([0xff; 8]);
        check(&long, "a frame of 4294967295 octets");
        let mut again = file(1);
        again.truncate(again.len() - 12);
        again.extend(ControlKind::Start.frame());
        check(&again, "malformed control frame");
    }

    #[test]
    fn a_frame_that_is_no_message_is_passed_over() {
        let mut octets = ControlKind::Start.frame();
        put_data(&mut octets, b"\x72\x09nothing");
        put_data(&mut octets, b"");
        octets.extend_from_slice(&file(2)[ControlKind::Start.frame().len()..]);
        let mut file = TapFile::open(&octets[..]).unwrap();
        while file.read_message().unwrap().is_some() {}
        assert_eq!(file.passed_over, 1);
    }
}
