//! The arrays for `recvmmsg` and `sendmmsg`, which are allocated and linked once.
//!
//! Each call resets only the fields that change: lengths, and the control length if PKTINFO is on.
//! A slot's pointers never change, because names, control data and bytes share one allocation.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::{io, mem};

use crate::peer::{Family, Peer, SocketName};
use crate::syscall::{check, is_idle};

/// Maximum number of datagrams that one system call receives or sends.
pub const BATCH: usize = 64;

/// Number of bytes of a slot: the maximum length of a query and of a reply over UDP.
pub(crate) const MESSAGE_MAX: usize = 4096;

/// The bytes of one datagram. The padding at the end makes the distance between slots an odd number
/// of cache lines. At a distance of 4096 bytes, the first bytes of all slots would compete for one
/// set of the first-level cache.
#[repr(C, align(64))]
struct DatagramSlot {
    bytes: [u8; MESSAGE_MAX],
    _stride: [u8; 64],
}

/// A control message with `in_pktinfo` or `in6_pktinfo`.
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    payload: [u8; 24],
}

const CONTROL_HEADER: usize = size_of::<libc::cmsghdr>();
const PKTINFO_V4: usize = size_of::<libc::in_pktinfo>();
const PKTINFO_V6: usize = size_of::<libc::in6_pktinfo>();

// The payload is at the offset that CMSG_DATA returns.
const _: () = assert!(mem::offset_of!(Control, payload) == CONTROL_HEADER);
const _: () = assert!(size_of::<Control>() >= CONTROL_HEADER + PKTINFO_V6);

#[repr(C)]
struct Arrays {
    headers: [libc::mmsghdr; BATCH],
    vectors: [libc::iovec; BATCH],
    peers: [Peer; BATCH],
    controls: [Control; BATCH],
    slots: [DatagramSlot; BATCH],
}

/// Which PKTINFO control messages the datagrams of a socket have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketInfo {
    /// No control messages: the socket is bound to one address, from which all replies are sent.
    Off,
    /// `IP_PKTINFO`.
    V4,
    /// `IPV6_PKTINFO`.
    V6,
}

impl PacketInfo {
    /// Returns level and type of the control message.
    const fn kind(self) -> (libc::c_int, libc::c_int) {
        match self {
            Self::Off => (0, 0),
            Self::V4 => (libc::IPPROTO_IP, libc::IP_PKTINFO),
            Self::V6 => (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO),
        }
    }

    /// Returns `cmsg_len` of the control message.
    const fn len(self) -> usize {
        match self {
            Self::Off => 0,
            Self::V4 => CONTROL_HEADER + PKTINFO_V4,
            Self::V6 => CONTROL_HEADER + PKTINFO_V6,
        }
    }

    /// Returns `msg_controllen` for sending: the length padded to the alignment of a header.
    const fn space(self) -> usize {
        self.len().next_multiple_of(align_of::<libc::cmsghdr>())
    }
}

/// A batch of linked message slots.
pub(crate) struct Slots {
    arrays: NonNull<Arrays>,
    info: PacketInfo,
}

// SAFETY: `arrays` is a separate allocation that nothing else points to. Its raw pointers refer
// only to itself, and the kernel reads them only during a call.
unsafe impl Send for Slots {}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Box::into_raw` in `new` and is freed only here.
        drop(unsafe { Box::from_raw(self.arrays.as_ptr()) });
    }
}

impl Slots {
    /// Allocates, links and touches the arrays for a socket of the given family.
    pub(crate) fn new(family: Family, info: PacketInfo) -> Self {
        // SAFETY: all-zero bytes are valid for each field: integers, null pointers, `false`.
        let mut zeroed = unsafe { Box::<Arrays>::new_zeroed().assume_init() };
        for slot in &mut zeroed.slots {
            // Makes the system provide the pages now: a page fault costs more time than an answer.
            slot.bytes.fill(0xff);
        }
        let arrays = NonNull::from(Box::leak(zeroed));
        for i in 0..BATCH {
            // SAFETY: `i` is below BATCH, and nothing else refers to the allocation.
            unsafe { Self::link(arrays.as_ptr(), i, family, info) };
        }
        Self { arrays, info }
    }

    /// Returns the control messages that the slots have room for.
    pub(crate) fn info(&self) -> PacketInfo {
        self.info
    }

    /// Returns the arrays for connected sockets, which neither take nor report an address.
    pub(crate) fn connected() -> Self {
        let slots = Self::new(Family::V4, PacketInfo::Off);
        for i in 0..BATCH {
            // SAFETY: `i` is below BATCH, the allocation is live and nothing else refers to it yet.
            let header = unsafe { &mut (*slots.arrays.as_ptr()).headers[i].msg_hdr };
            header.msg_name = ptr::null_mut();
            header.msg_namelen = 0;
        }
        slots
    }

    /// Makes header `i` point to its own name, vector, control data and bytes.
    ///
    /// # Safety
    /// `arrays` is a live, unaliased `Arrays`, and `i` is below [`BATCH`].
    unsafe fn link(arrays: *mut Arrays, i: usize, family: Family, info: PacketInfo) {
        // SAFETY: by the contract above, every access below is in bounds, and no reference to the
        // arrays exists.
        unsafe {
            let header = &raw mut (*arrays).headers[i].msg_hdr;
            let vector = &raw mut (*arrays).vectors[i];
            let peer = &raw mut (*arrays).peers[i];
            let control = &raw mut (*arrays).controls[i];
            ptr::write(peer, Peer::EMPTY);
            (*vector).iov_base = (&raw mut (*arrays).slots[i].bytes).cast();
            (*vector).iov_len = MESSAGE_MAX;
            (*header).msg_name = (&raw mut (*peer).name).cast();
            // The kernel writes back the same length: all peers of a socket have the same family.
            (*header).msg_namelen = SocketName::len(family);
            (*header).msg_iov = vector;
            (*header).msg_iovlen = 1;
            if info != PacketInfo::Off {
                ((*control).header.cmsg_level, (*control).header.cmsg_type) = info.kind();
                (*control).header.cmsg_len = info.len() as _;
                (*header).msg_control = control.cast();
                (*header).msg_controllen = size_of::<Control>() as _;
            }
        }
    }

    /// Receives a batch without blocking, and returns its size, 0 if there is none.
    pub(crate) fn receive(&mut self, fd: BorrowedFd<'_>) -> io::Result<usize> {
        let headers = self.headers();
        // SAFETY: the BATCH headers are linked to live memory of the lengths they state, and `&mut
        // self` prevents other access during the call.
        let result = unsafe {
            let flags = libc::MSG_DONTWAIT;
            libc::recvmmsg(fd.as_raw_fd(), headers, BATCH as _, flags as _, ptr::null_mut())
        };
        match check(result) {
            Ok(received) => {
                if self.info != PacketInfo::Off {
                    self.note_locals(received);
                }
                Ok(received.min(BATCH))
            }
            Err(error) if is_idle(&error) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Copies the local addresses from the control messages to the peers, and resets the control
    /// lengths.
    fn note_locals(&mut self, received: usize) {
        // SAFETY: the allocation lives as long as `self`, and `&mut self` makes this its only use.
        let arrays = unsafe { self.arrays.as_mut() };
        let batch = arrays.headers.iter_mut().zip(&arrays.controls).zip(&mut arrays.peers);
        for ((header, control), peer) in batch.take(received) {
            let written =
                mem::replace(&mut header.msg_hdr.msg_controllen, size_of::<Control>() as _);
            let kind = (control.header.cmsg_level, control.header.cmsg_type);
            let present = written as usize >= self.info.len() && kind == self.info.kind();
            peer.set_local(present.then(|| self.info.local(&control.payload)));
        }
    }

    /// Returns the datagram at index `i` of the last received batch: its bytes, its sender, and
    /// whether it was truncated.
    pub(crate) fn datagram(&self, i: usize) -> (&[u8], &Peer, bool) {
        // SAFETY: the allocation lives as long as `self`, and nothing writes to it while `self` is
        // borrowed.
        let arrays = unsafe { self.arrays.as_ref() };
        let header = &arrays.headers[i];
        let len = (header.msg_len as usize).min(MESSAGE_MAX);
        let truncated = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        (&arrays.slots[i].bytes[..len], &arrays.peers[i], truncated)
    }

    /// Returns the buffer of the reply at index `i`.
    pub(crate) fn reply(&mut self, i: usize) -> &mut [u8] {
        // SAFETY: the allocation lives as long as `self`, and `&mut self` makes this its only use.
        unsafe { &mut self.arrays.as_mut().slots[i].bytes }
    }

    /// Addresses the first `len` bytes of the reply at index `i` to `peer`. `len` is at most
    /// [`MESSAGE_MAX`].
    pub(crate) fn address(&mut self, i: usize, peer: &Peer, len: usize) {
        // SAFETY: the allocation lives as long as `self`, and `&mut self` makes this its only use.
        let arrays = unsafe { self.arrays.as_mut() };
        arrays.vectors[i].iov_len = len.min(MESSAGE_MAX);
        arrays.peers[i].name = peer.name;
        if self.info == PacketInfo::Off {
            return;
        }
        let controllen = match peer.local_octets() {
            Some(octets) => {
                self.info.set_source(&mut arrays.controls[i].payload, octets);
                self.info.space()
            }
            None => 0,
        };
        arrays.headers[i].msg_hdr.msg_controllen = controllen as _;
    }

    /// Sends the first `count` replies. Returns how many were sent. A reply that cannot be sent is
    /// dropped.
    ///
    /// After a partial send, the function continues with the remaining replies. An error (a full
    /// queue, a refused or invalid address) concerns only the first of them, so only this reply is
    /// skipped.
    pub(crate) fn send(&mut self, fd: BorrowedFd<'_>, count: usize) -> usize {
        let count = count.min(BATCH);
        let (mut next, mut sent) = (0, 0);
        while next < count {
            // SAFETY: `next` is below BATCH. The headers from there to `count` are linked to live
            // memory of the lengths they state, and `&mut self` prevents other changes.
            let result = unsafe {
                let first = self.headers().add(next);
                let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
                libc::sendmmsg(fd.as_raw_fd(), first, (count - next) as _, flags as _)
            };
            match check(result) {
                Ok(done) => {
                    next += done;
                    sent += done;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => next += 1,
            }
        }
        sent
    }

    /// Sets the length of the message in slot `i`, which goes to the peer of a connected socket.
    pub(crate) fn set_len(&mut self, i: usize, len: usize) {
        // SAFETY: the allocation lives as long as `self`, and `&mut self` makes this its only use.
        unsafe { self.arrays.as_mut() }.vectors[i].iov_len = len.min(MESSAGE_MAX);
    }

    /// Returns the length of the message in slot `i`.
    pub(crate) fn len_of(&self, i: usize) -> usize {
        // SAFETY: the allocation lives as long as `self`, and nothing writes to it while `self` is
        // borrowed.
        unsafe { self.arrays.as_ref() }.vectors[i].iov_len
    }

    /// Returns the vectors of the slots in order. They point into this allocation.
    pub(crate) fn vectors(&mut self) -> *mut libc::iovec {
        // SAFETY: this only computes an address inside the live allocation.
        unsafe { (&raw mut (*self.arrays.as_ptr()).vectors).cast() }
    }

    fn headers(&mut self) -> *mut libc::mmsghdr {
        // SAFETY: this only computes an address inside the live allocation.
        unsafe { (&raw mut (*self.arrays.as_ptr()).headers).cast() }
    }
}

impl PacketInfo {
    /// Returns the local address in a received control message. IPv4 uses the first four bytes.
    fn local(self, payload: &[u8; 24]) -> [u8; 16] {
        let mut octets = [0; 16];
        match self {
            Self::Off => {}
            // `ipi_spec_dst`: the destination address or, for a broadcast, the address of the
            // interface.
            Self::V4 => octets[..4].copy_from_slice(&payload[4..8]),
            Self::V6 => octets.copy_from_slice(&payload[..16]),
        }
        octets
    }

    /// Sets the source address in a control message to send. The index of the interface stays zero:
    /// routing chooses the interface or, for link-local peers, the scope of their address.
    fn set_source(self, payload: &mut [u8; 24], octets: &[u8; 16]) {
        match self {
            Self::Off => {}
            Self::V4 => payload[4..8].copy_from_slice(&octets[..4]),
            Self::V6 => payload[..16].copy_from_slice(octets),
        }
    }
}
