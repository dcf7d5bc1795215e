//! Messages of one length that follow one another, given to the kernel as one (`UDP_SEGMENT`).
//!
//! The kernel carries them through its layers once and cuts them into datagrams at the end: what
//! arrives is the same. A system that cannot do it is told once by its error, and then gets them
//! one by one.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::slots::{BATCH, Slots};
use crate::syscall::{check, is_idle};

/// Octets of one piece at most: below the largest payload of IPv4.
const PIECE_MAX: usize = 60_000;

/// Octets of a message that is put together with others: it must fit the path without fragments
/// (RFC 9715).
const SEGMENT_MAX: usize = 1_232;

/// One control message that holds the length of a segment.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control {
    header: libc::cmsghdr,
    segment: u16,
}

const CONTROL_LEN: usize = size_of::<libc::cmsghdr>() + size_of::<u16>();

// The length stands where CMSG_DATA looks for it.
const _: () = assert!(std::mem::offset_of!(Control, segment) == size_of::<libc::cmsghdr>());
// `msg_controllen` is this size: it has room for the padded message.
const _: () = assert!(size_of::<Control>() == size_of::<libc::cmsghdr>() + 8);

/// The headers of the pieces of one batch.
pub(crate) struct Segments {
    headers: Box<[libc::mmsghdr; BATCH]>,
    controls: Box<[Control; BATCH]>,
    /// Messages in each piece.
    sizes: [usize; BATCH],
    supported: bool,
}

// SAFETY: the pointers in `headers` are set before each call and used by that call alone.
unsafe impl Send for Segments {}

impl Segments {
    pub(crate) fn new() -> Self {
        // SAFETY: all-zero bytes are a value of each field: integers and null pointers.
        let headers = unsafe { MaybeUninit::<[libc::mmsghdr; BATCH]>::zeroed().assume_init() };
        // SAFETY: all-zero bytes are a value of each field: integers.
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

    /// Sends the messages below `count` until the socket takes no more, and tells how many it took.
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

    /// Groups the messages below `count` into pieces; gives how many these are.
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
        // SAFETY: the first `pieces` headers, at most BATCH, lead to vectors, messages and control
        // data that live through the call; `&mut` on both owners keeps anyone else from changing
        // them.
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

/// Errors by which a kernel or a device says that it does not cut pieces into datagrams.
fn is_unsupported(error: &io::Error) -> bool {
    let codes = [libc::EINVAL, libc::EIO, libc::EOPNOTSUPP, libc::ENOPROTOOPT, libc::EMSGSIZE];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}
