//! Transfer of listening sockets to a new process over a Unix stream socket (`SCM_RIGHTS`,
//! unix(7)).
//!
//! Each batch is one message. It begins with a header of eight bytes: number of descriptors,
//! whether more batches follow, length of the labels. The kernel attaches the descriptors to the
//! first byte of the header. Then the labels follow, each after one byte with its length. The two
//! processes agree on the meaning of the labels.

use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::ptr;

use crate::syscall::check_len;

/// Maximum number of descriptors per batch. The kernel accepts at most 253 (`SCM_MAX_FD`).
const BATCH: usize = 200;

/// Maximum number of descriptors that a process accepts.
const TOTAL_MAX: usize = 4096;

/// Maximum number of bytes of a label, whose length is sent in one byte.
const LABEL_MAX: usize = u8::MAX as usize;

const HEADER: usize = 8;

/// Number of 64-bit words of the control message of one batch.
const CONTROL_WORDS: usize = (size_of::<libc::cmsghdr>() + BATCH * size_of::<RawFd>()).div_ceil(8);
type DescriptorBuffer = [u64; CONTROL_WORDS];

/// Sends descriptors with their labels (at most 255 bytes each). They stay open in this process.
///
/// # Errors
/// Those of the stream. `InvalidInput` for a label that is too long or more than 4096 descriptors.
pub fn send_fds(stream: &UnixStream, fds: &[(&[u8], BorrowedFd<'_>)]) -> io::Result<()> {
    if fds.len() > TOTAL_MAX || fds.iter().any(|(label, _)| label.len() > LABEL_MAX) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let mut rest = fds;
    loop {
        let (batch, after) = rest.split_at(rest.len().min(BATCH));
        send_batch(
            stream,
            batch,
            if after.is_empty() { Follows::Nothing } else { Follows::Batch },
        )?;
        if after.is_empty() {
            return Ok(());
        }
        rest = after;
    }
}

/// Whether another batch follows.
#[derive(Clone, Copy)]
enum Follows {
    Nothing = 0,
    Batch = 1,
}

fn send_batch(
    stream: &UnixStream,
    batch: &[(&[u8], BorrowedFd<'_>)],
    follows: Follows,
) -> io::Result<()> {
    let mut bytes = vec![0; HEADER];
    let mut raw_fds = Vec::with_capacity(batch.len());
    for (label, fd) in batch {
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label);
        raw_fds.push(fd.as_raw_fd());
    }
    let labels_len = (bytes.len() - HEADER) as u32;
    bytes[..2].copy_from_slice(&(batch.len() as u16).to_be_bytes());
    bytes[2] = follows as u8;
    bytes[4..HEADER].copy_from_slice(&labels_len.to_be_bytes());
    let sent = send_with_fds(stream, &bytes, &raw_fds)?;
    (&mut &*stream).write_all(&bytes[sent..])
}

fn send_with_fds(stream: &UnixStream, bytes: &[u8], fds: &[RawFd]) -> io::Result<usize> {
    let mut control: DescriptorBuffer = [0; CONTROL_WORDS];
    let mut vector =
        libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut header = message(&mut vector);
    if !fds.is_empty() {
        let payload = size_of_val(fds) as u32;
        header.msg_control = control.as_mut_ptr().cast();
        // SAFETY: `CMSG_SPACE` only computes a length.
        header.msg_controllen = unsafe { libc::CMSG_SPACE(payload) } as _;
        // SAFETY: `control` is aligned and has room for BATCH descriptors, and there are no more
        // than that.
        unsafe {
            let first = libc::CMSG_FIRSTHDR(&header);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(payload) as _;
            ptr::copy_nonoverlapping(fds.as_ptr(), libc::CMSG_DATA(first).cast(), fds.len());
        }
    }
    // SAFETY: the header points to `vector` and `control`, which outlive the call.
    check_len(unsafe { libc::sendmsg(stream.as_raw_fd(), &header, libc::MSG_NOSIGNAL) })
}

/// Receives the descriptors and labels that [`send_fds`] sent. Blocks unless the stream has a
/// timeout.
///
/// # Errors
/// Those of the stream. `InvalidData` for data that `send_fds` does not send. After an error, all
/// descriptors that were received are closed.
pub fn recv_fds(stream: &UnixStream) -> io::Result<Vec<(Vec<u8>, OwnedFd)>> {
    let mut received = Vec::new();
    loop {
        let mut header = [0; HEADER];
        let fds = recv_with_fds(stream, &mut header)?;
        let [count_high, count_low, more, _, len @ ..] = header;
        let (count, len) =
            (u16::from_be_bytes([count_high, count_low]), u32::from_be_bytes(len) as usize);
        if fds.len() != usize::from(count) || len > BATCH * (1 + LABEL_MAX) {
            return Err(invalid());
        }
        let mut labels = vec![0; len];
        (&mut &*stream).read_exact(&mut labels)?;
        let mut rest = labels.as_slice();
        for fd in fds {
            received.push((next_label(&mut rest)?.to_vec(), fd));
        }
        if received.len() > TOTAL_MAX {
            return Err(invalid());
        }
        if more == 0 {
            return Ok(received);
        }
    }
}

fn next_label<'a>(rest: &mut &'a [u8]) -> io::Result<&'a [u8]> {
    let (len, after) = rest.split_first().ok_or_else(invalid)?;
    let (label, next) = after.split_at_checked(usize::from(*len)).ok_or_else(invalid)?;
    *rest = next;
    Ok(label)
}

/// Fills `bytes` from the stream, and returns the descriptors attached to their start.
fn recv_with_fds(stream: &UnixStream, bytes: &mut [u8]) -> io::Result<Vec<OwnedFd>> {
    let mut control: DescriptorBuffer = [0; CONTROL_WORDS];
    let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let mut header = message(&mut vector);
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the header points to `vector` and `control`, states their lengths, and both outlive
    // the call.
    let taken = unsafe { libc::recvmsg(stream.as_raw_fd(), &mut header, libc::MSG_CMSG_CLOEXEC) };
    let taken = check_len(taken)?;
    let fds = owned_fds(&header);
    if taken == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    if header.msg_flags & libc::MSG_CTRUNC != 0 {
        return Err(invalid());
    }
    (&mut &*stream).read_exact(&mut bytes[taken..])?;
    Ok(fds)
}

/// Takes ownership of all descriptors of a message at once, so that none stays open after an error.
fn owned_fds(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    // SAFETY: `header` was filled by `recvmsg`, and its control buffer is alive.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !next.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR return only complete control messages inside the
        // buffer. The kernel created each descriptor of SCM_RIGHTS for this process, and it has no
        // other owner.
        unsafe {
            if (*next).cmsg_level == libc::SOL_SOCKET && (*next).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*next).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(next).cast::<RawFd>();
                let raw = (0..bytes / size_of::<RawFd>()).map(|i| ptr::read_unaligned(data.add(i)));
                fds.extend(raw.map(|fd| OwnedFd::from_raw_fd(fd)));
            }
            next = libc::CMSG_NXTHDR(header, next);
        }
    }
    fds
}

/// Returns a message header for one vector without control data.
fn message(vector: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: all-zero bytes are null pointers and zero lengths.
    let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    header.msg_iov = vector;
    header.msg_iovlen = 1;
    header
}

fn invalid() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not a message with sockets")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;
    use std::thread;

    #[test]
    fn sockets_arrive_with_their_labels_over_several_batches() {
        let sockets: Vec<UdpSocket> =
            (0..450).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
        let labels: Vec<Vec<u8>> =
            (0..450).map(|i| format!("udp/{i}").repeat(i % 7).into_bytes()).collect();
        let (old, new) = UnixStream::pair().unwrap();
        let received = thread::scope(|scope| {
            let receiver = scope.spawn(|| recv_fds(&new).unwrap());
            let fds: Vec<_> =
                labels.iter().zip(&sockets).map(|(l, s)| (l.as_slice(), s.as_fd())).collect();
            send_fds(&old, &fds).unwrap();
            receiver.join().unwrap()
        });
        assert_eq!(received.len(), sockets.len());
        for (i, (label, fd)) in received.into_iter().enumerate() {
            assert_eq!(label, labels[i]);
            let taken_over = UdpSocket::from(fd);
            assert_eq!(taken_over.local_addr().unwrap(), sockets[i].local_addr().unwrap());
        }
    }

    #[test]
    fn nothing_to_hand_over_is_a_hand_over_too() {
        let (old, new) = UnixStream::pair().unwrap();
        send_fds(&old, &[]).unwrap();
        assert!(recv_fds(&new).unwrap().is_empty());
    }

    #[test]
    fn a_label_too_long_is_refused() {
        let (old, _new) = UnixStream::pair().unwrap();
        let error = send_fds(&old, &[(&[0; 256], old.as_fd())]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    fn check_refused(bytes: &[u8], expected: io::ErrorKind) {
        let (mut old, new) = UnixStream::pair().unwrap();
        old.write_all(bytes).unwrap();
        drop(old);
        assert_eq!(recv_fds(&new).unwrap_err().kind(), expected, "{bytes:?}");
    }

    #[test]
    fn other_bytes_are_refused() {
        check_refused(b"", io::ErrorKind::UnexpectedEof);
        check_refused(&[0, 0, 0], io::ErrorKind::UnexpectedEof);
        check_refused(b"GET / HTTP/1.1\r\n\r\n", io::ErrorKind::InvalidData);
        check_refused(&[0, 1, 0, 0, 0, 0, 0, 0], io::ErrorKind::InvalidData);
        check_refused(&[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], io::ErrorKind::InvalidData);
    }
}
