//! Sending of consecutive messages with equal length in one call (`UDP_SEGMENT`).
//!
//! The kernel handles the messages as one piece and splits the piece into datagrams at the end. The
//! receiver sees no difference. If the first attempt shows that the system does not support this,
//! messages are sent one by one from then on.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::slots::{BATCH, Slots};
use crate::syscall::{check, is_idle};

/// Maximum number of octets of a piece: below the largest payload of a datagram over IPv4.
const PIECE_MAX: usize = 60_000;

/// Maximum number of octets of a message that is combined with others. It must fit the path without
/// fragments (RFC 9715).
const SEGMENT_MAX: usize = 1_232;

/// A control message with the length of a segment.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control {
    header: libc::cmsghdr,
    segment: u16,
}

const CONTROL_LEN: usize = size_of::<libc::cmsghdr>() + size_of::<u16>();

// The length is at the offset that CMSG_DATA returns.
const _: () = assert!(std::mem::offset_of!(Control, segment) == size_of::<libc::cmsghdr>());
// `msg_controllen` is the size of `Control`. The kernel requires the size of a control message with
// its padding: the header, and 8 octets for the data and the padding.
const _: () = assert!(size_of::<Control>() == size_of::<libc::cmsghdr>() + 8);

/// The headers of the pieces of one batch.
pub(crate) struct Segments {
    headers: Box<[libc::mmsghdr; BATCH]>,
    controls: Box<[Control; BATCH]>,
    /// The number of messages in each piece.
    sizes: [usize; BATCH],
    supported: bool,
}

// SAFETY: the pointers in `headers` are set before each call and used only by that call.
unsafe impl Send for Segments {}

impl Segments {
    pub(crate) fn new() -> Self {
        // SAFETY: all-zero bytes are valid for each field: integers and null pointers.
        let headers = unsafe { MaybeUninit::<[libc::mmsghdr; BATCH]>::zeroed().assume_init() };
        // SAFETY: all-zero bytes are valid for each field: integers.
        let mut control: Control = unsafe { MaybeUninit::zeroed().assume_init() };
        control.header.cmsg_level = libc::SOL_UDP;
        control.header.cmsg_type = libc::UDP_SEGMENT;
        control.header.cmsg_len = CONTROL_LEN as _;
        Self {
            headers: Box::new(headers),
            controls: Box::new([control; BATCH]),
            sizes: [0; BATCH],
            supported: true,
        }
    }

    /// Sends the first `count` messages until the socket accepts no more. Returns how many the
    /// socket accepted.
    pub(crate) fn send(
        &mut self,
        slots: &mut Slots,
        fd: BorrowedFd<'_>,
        count: usize,
    ) -> io::Result<usize> {
        let count = count.min(BATCH);
        let pieces = self.group(slots, count);
        match self.send_pieces(slots, fd, pieces) {
            Err(error) if pieces < count && is_unsupported(&error) => {
                self.supported = false;
                let pieces = self.group(slots, count);
                self.send_pieces(slots, fd, pieces)
            }
            result => result,
        }
    }

    /// Groups the first `count` messages into pieces. Returns the number of pieces.
    fn group(&mut self, slots: &Slots, count: usize) -> usize {
        let (mut pieces, mut next) = (0, 0);
        while next < count {
            let len = slots.len_of(next);
            let most = if self.supported && (1..=SEGMENT_MAX).contains(&len) {
                PIECE_MAX / len
            } else {
                1
            };
            let equal = (next..count).take(most).take_while(|i| slots.len_of(*i) == len).count();
            self.sizes[pieces] = equal;
            self.controls[pieces].segment = len as u16;
            pieces += 1;
            next += equal;
        }
        pieces
    }

    fn send_pieces(
        &mut self,
        slots: &mut Slots,
        fd: BorrowedFd<'_>,
        pieces: usize,
    ) -> io::Result<usize> {
        let vectors = slots.vectors();
        let mut first = 0;
        for ((header, control), size) in
            self.headers.iter_mut().zip(self.controls.iter_mut()).zip(self.sizes).take(pieces)
        {
            let header = &mut header.msg_hdr;
            // SAFETY: `first` is below BATCH, the number of vectors: sizes add up to the count of
            // messages.
            header.msg_iov = unsafe { vectors.add(first) };
            header.msg_iovlen = size as _;
            let is_several = size > 1;
            header.msg_control =
                if is_several { (&raw mut *control).cast() } else { std::ptr::null_mut() };
            header.msg_controllen = if is_several { size_of::<Control>() as _ } else { 0 };
            first += size;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the first `pieces` headers, at most BATCH, point to vectors, messages and control
        // data that outlive the call. `&mut` on both owners prevents other changes.
        let result = unsafe {
            libc::sendmmsg(fd.as_raw_fd(), self.headers.as_mut_ptr(), pieces as _, flags as _)
        };
        match check(result) {
            Ok(taken) => Ok(self.sizes.iter().take(taken).sum()),
            Err(error) if is_idle(&error) => Ok(0),
            Err(error) => Err(error),
        }
    }
}

/// Reports whether an error means that the kernel or device cannot split pieces into datagrams.
fn is_unsupported(error: &io::Error) -> bool {
    let codes = [libc::EINVAL, libc::EIO, libc::EOPNOTSUPP, libc::ENOPROTOOPT, libc::EMSGSIZE];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}
