//! The frames of HTTP/2 (RFC 9113 §4, §6), for both ends of a connection.

use super::hpack::BadBlock;

/// The octets that a client sends first (RFC 9113 §3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Number of octets of the head of a frame.
pub(super) const HEAD: usize = 9;
/// Maximum number of octets of the payload of a frame in both directions: the default of RFC 9113.
pub(super) const MAX_PAYLOAD: usize = 1 << 14;
/// The highest stream ID.
pub(super) const LAST_STREAM: u32 = (1 << 31) - 1;
/// Maximum number of octets of a header block with its continuations.
pub(super) const MAX_BLOCK: usize = 32 << 10;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const PADDED: u8 = 8;
pub(super) const WITH_PRIORITY: u8 = 0x20;

/// An error code (RFC 9113 §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    NoError = 0,
    Protocol = 1,
    FlowControl = 3,
    StreamClosed = 5,
    FrameSize = 6,
    RefusedStream = 7,
    Cancel = 8,
    Compression = 9,
    EnhanceYourCalm = 11,
}

impl From<BadBlock> for Code {
    fn from(_: BadBlock) -> Self {
        Self::Compression
    }
}

/// Whether a stream continues after a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamEnd {
    Here,
    Later,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameHead {
    pub(super) len: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) id: u32,
}

impl FrameHead {
    pub(super) fn read(octets: &[u8]) -> Option<(Self, &[u8])> {
        let ([a, b, c, kind, flags, id @ ..], rest) = octets.split_first_chunk::<HEAD>()?;
        let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        let id = u32::from_be_bytes(*id) & !(1 << 31);
        Some((Self { len, kind: *kind, flags: *flags, id }, rest))
    }

    /// Returns whether this frame, of kind DATA or HEADERS, is the last frame of the peer on its
    /// stream (the flag END_STREAM).
    pub(super) const fn end(self) -> StreamEnd {
        if self.has(END_STREAM) { StreamEnd::Here } else { StreamEnd::Later }
    }

    pub(super) const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame. The two octets of `kind` are its type and its flags.
pub(super) fn write_frame(out: &mut Vec<u8>, kind: [u8; 2], id: u32, payload: &[u8]) {
    let mut head = [0; HEAD];
    write_head(&mut head, payload.len() as u32, kind, id);
    out.extend_from_slice(&head);
    out.extend_from_slice(payload);
}

pub(super) fn write_head(out: &mut [u8], len: u32, [kind, flags]: [u8; 2], id: u32) {
    let [_, a, b, c] = len.to_be_bytes();
    out[..5].copy_from_slice(&[a, b, c, kind, flags]);
    out[5..].copy_from_slice(&id.to_be_bytes());
}

/// Returns the payload without padding (RFC 9113 §6.1).
pub(super) fn unpadded(head: FrameHead, payload: &[u8]) -> Result<&[u8], Code> {
    if !head.has(PADDED) {
        return if head.id == 0 { Err(Code::Protocol) } else { Ok(payload) };
    }
    let (padding, rest) = payload.split_first().ok_or(Code::FrameSize)?;
    let len = rest.len().checked_sub((*padding).into()).ok_or(Code::Protocol)?;
    Ok(&rest[..len])
}
