//! Sends or receives on many sockets with one system call. This is the only use of io_uring.
//!
//! No operation outlives its call: each has `MSG_DONTWAIT`, so the kernel completes it during
//! submission, and the call returns when all operations are complete. Closures of the caller run
//! only before the first operation is queued and after the last result is taken.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::{IoUring, opcode, squeue, types};

/// Maximum number of operations per system call.
pub const BATCH: usize = 64;

/// Maximum number of received bytes of a datagram. Longer datagrams are truncated.
const RECEIVE_MAX: usize = 4096;

/// The bytes of one datagram. The padding at the end spreads the first bytes of the buffers over
/// several sets of the cache.
type Buffer = [u8; RECEIVE_MAX + 64];

/// A ring with room for one batch, and its receive buffers.
pub struct SyscallBatch {
    /// The ring; `None` after it has failed.
    ring: Option<IoUring>,
    entries: Vec<squeue::Entry>,
    results: [i32; BATCH],
    buffers: Box<[Buffer]>,
}

impl SyscallBatch {
    /// Opens a ring. Returns `None` if the system does not support or permit io_uring: use plain
    /// calls then.
    pub fn new() -> Option<Self> {
        let ring = IoUring::new(BATCH as u32).ok()?;
        // The bytes are not zero, so that the system provides the pages before the first answer
        // arrives.
        let buffers = vec![[0xff; RECEIVE_MAX + 64]; BATCH].into_boxed_slice();
        let entries = Vec::with_capacity(BATCH);
        Some(Self { ring: Some(ring), entries, results: [0; BATCH], buffers })
    }

    /// Sends one message on each socket, at most [`BATCH`], and calls `sent` with the position and
    /// result of each.
    ///
    /// Each result is what `send` on the socket would return. Messages beyond the batch are
    /// ignored.
    ///
    /// # Errors
    /// The ring has failed, now or earlier. It is then unknown which messages were sent.
    pub fn send<'a>(
        &mut self,
        messages: impl IntoIterator<Item = (BorrowedFd<'a>, &'a [u8])>,
        mut sent: impl FnMut(usize, io::Result<usize>),
    ) -> io::Result<()> {
        self.entries.clear();
        self.entries.extend(messages.into_iter().take(BATCH).zip(0..).map(|((fd, bytes), i)| {
            opcode::Send::new(types::Fd(fd.as_raw_fd()), bytes.as_ptr(), len_u32(bytes))
                .flags(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
                .build()
                .user_data(i)
        }));
        // SAFETY: descriptors and messages are borrowed for `'a`, which outlives this call.
        let done = unsafe { self.complete() }?;
        for (i, code) in self.results.iter().take(done).enumerate() {
            sent(i, result(*code));
        }
        Ok(())
    }

    /// Receives one datagram from each socket, at most [`BATCH`], and calls `received` with the
    /// position and result of each.
    ///
    /// Each result is what `recv` on the socket would return. Sockets beyond the batch are not
    /// read.
    ///
    /// # Errors
    /// The ring has failed, now or earlier. Datagrams may then be lost.
    pub fn recv<'a>(
        &mut self,
        sockets: impl IntoIterator<Item = BorrowedFd<'a>>,
        mut received: impl FnMut(usize, io::Result<&[u8]>),
    ) -> io::Result<()> {
        self.entries.clear();
        let pairs = self.buffers.iter_mut().zip(sockets).zip(0..);
        self.entries.extend(pairs.map(|((buffer, fd), i)| {
            opcode::Recv::new(types::Fd(fd.as_raw_fd()), buffer.as_mut_ptr(), RECEIVE_MAX as u32)
                .flags(libc::MSG_DONTWAIT)
                .build()
                .user_data(i)
        }));
        // SAFETY: the sockets are borrowed for `'a`, which outlives this call. Each entry has its
        // own buffer in `self.buffers`, which nothing else accesses meanwhile.
        let done = unsafe { self.complete() }?;
        for (i, (code, buffer)) in self.results.iter().zip(&self.buffers).take(done).enumerate() {
            received(i, result(*code).map(|len| &buffer[..len.min(RECEIVE_MAX)]));
        }
        Ok(())
    }

    /// Submits `entries`, and stores their results at the index in their `user_data`.
    ///
    /// # Safety
    /// The entries carry `MSG_DONTWAIT` and their index as `user_data`, and point to memory and
    /// descriptors that stay valid during this call.
    unsafe fn complete(&mut self) -> io::Result<usize> {
        let mut ring =
            self.ring.take().ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        // SAFETY: the contract above is upheld. The ring returns to `self` only with an empty
        // queue, so no later call submits an entry of this call.
        let queued = unsafe { ring.submission().push_multiple(&self.entries) };
        queued.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        let mut ended = 0;
        while ended < self.entries.len() {
            match ring.submit_and_wait(self.entries.len() - ended) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for entry in ring.completion() {
                if let Some(place) = self.results.get_mut(entry.user_data() as usize) {
                    *place = entry.result();
                }
                ended += 1;
            }
        }
        self.ring = Some(ring);
        Ok(ended)
    }
}

/// Returns the length, at most `u32::MAX`. UDP refuses far shorter messages.
fn len_u32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// Converts a result, which is a count or a negated `errno`.
fn result(code: i32) -> io::Result<usize> {
    usize::try_from(code).map_err(|_| io::Error::from_raw_os_error(-code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::UpstreamSocket;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    /// Converts a result to a comparable form: a byte count or the kind of the error.
    fn outcome(result: io::Result<usize>) -> Result<usize, io::ErrorKind> {
        result.map_err(|error| error.kind())
    }

    /// Returns two equal sets of sockets: some with answers waiting, some without, one refused.
    fn sockets(server: &UdpSocket) -> Vec<UpstreamSocket> {
        let gone = UdpSocket::bind("127.0.0.9:0").unwrap().local_addr().unwrap();
        let mut sockets: Vec<_> = (0..10usize)
            .map(|i| {
                let socket = UpstreamSocket::connect(server.local_addr().unwrap(), 0).unwrap();
                for answer in 0..i % 3 {
                    let to = socket.local_addr().unwrap();
                    server.send_to(&vec![answer as u8; 100 * i + 1], to).unwrap();
                }
                socket
            })
            .collect();
        let refused = UpstreamSocket::connect(gone, 0).unwrap();
        refused.send(b"x").unwrap();
        sockets.push(refused);
        sockets
    }

    #[test]
    fn a_batch_gives_what_plain_calls_give() {
        let Some(mut batch) = SyscallBatch::new() else { return };
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (plain, batched) = (sockets(&server), sockets(&server));
        let mut buffer = [0; RECEIVE_MAX];
        for _ in 0..3 {
            let expected: Vec<_> = plain
                .iter()
                .map(|socket| outcome(socket.recv(&mut buffer)).map(|len| buffer[..len].to_vec()))
                .collect();
            let mut seen = Vec::new();
            let received = |i, result: io::Result<&[u8]>| {
                assert_eq!(i, seen.len());
                seen.push(result.map(<[u8]>::to_vec).map_err(|error| error.kind()));
            };
            batch.recv(batched.iter().map(AsFd::as_fd), received).unwrap();
            assert_eq!(seen, expected);
        }
        let message = |i: usize| vec![i as u8; i * 7000];
        let messages: Vec<_> = (0..plain.len()).map(message).collect();
        let pairs = || plain.iter().zip(&messages);
        let expected: Vec<_> = pairs().map(|(socket, bytes)| outcome(socket.send(bytes))).collect();
        let mut seen = Vec::new();
        let pairs = batched.iter().zip(&messages).map(|(s, bytes)| (s.as_fd(), bytes.as_slice()));
        batch.send(pairs, |_, result| seen.push(outcome(result))).unwrap();
        assert_eq!(seen, expected);
        assert!(seen.contains(&Ok(7000)) && seen.iter().any(Result::is_err));
    }

    #[test]
    fn a_batch_takes_no_more_than_its_size() {
        let Some(mut batch) = SyscallBatch::new() else { return };
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        let socket = UpstreamSocket::connect(server.local_addr().unwrap(), 0).unwrap();
        let mut results = 0;
        let messages = (0..BATCH + 9).map(|_| (socket.as_fd(), b"query".as_slice()));
        batch
            .send(messages, |i, result| {
                assert_eq!((i, result.unwrap()), (results, 5));
                results += 1;
            })
            .unwrap();
        let arrived = std::iter::from_fn(|| server.recv(&mut [0; 16]).ok()).count();
        assert_eq!((results, arrived), (BATCH, BATCH));
        batch.send([], |_, _| panic!("nothing was sent")).unwrap();
    }

    #[test]
    fn a_panic_of_the_caller_leaves_no_entry_behind() {
        let Some(mut batch) = SyscallBatch::new() else { return };
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_nonblocking(true).unwrap();
        let socket = UpstreamSocket::connect(server.local_addr().unwrap(), 0).unwrap();
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let messages = (0..4).map(|i| {
                assert!(i < 3, "the caller fails at the fourth message");
                (socket.as_fd(), b"lost".as_slice())
            });
            batch.send(messages, |_, _| {}).unwrap();
        }));
        assert!(unwound.is_err());
        batch.send([(socket.as_fd(), b"one".as_slice())], |_, _| {}).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(server.recv(&mut buffer).unwrap(), 3);
        assert!(server.recv(&mut buffer).is_err());
    }
}
