//! Waiting for many sockets (epoll), and wake-ups from other threads (eventfd).
//!
//! A UDP socket that sends a lot should not be in the epoll set. Each datagram that is sent frees
//! send memory, and the kernel then notifies all waiters on the socket that it is writable, even an
//! epoll set that waits only for reading. This costs 0.15 us of the 1.85 us for a query and its
//! reply. So such sockets are not in the set: `poll(2)` [watches](Poller::watch) them together with
//! the set. It waits on a socket only while it sleeps.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::syscall::{check, check_len};

/// The events of interest on a file descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Data can be read or a connection accepted.
    Read,
    /// Data can be written, or a connection attempt has ended.
    Write,
    /// The events of [`Self::Read`] and of [`Self::Write`].
    ReadWrite,
}

/// When an event is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The event is reported on each wait while the condition holds.
    Level,
    /// The event is reported once, when the condition becomes true. The caller must then read or
    /// write until the call would block.
    Edge,
}

/// The file descriptors of one event loop.
///
/// ```
/// use std::net::UdpSocket;
///
/// use avocet_io::poll::{Events, Interest, Poller, Trigger};
///
/// # fn main() -> std::io::Result<()> {
/// let (mut poller, mut events) = (Poller::new()?, Events::with_capacity(8));
/// let receiver = UdpSocket::bind("127.0.0.1:0")?;
/// poller.add(&receiver, 7, Interest::Read, Trigger::Level)?;
/// UdpSocket::bind("127.0.0.1:0")?.send_to(b"hello", receiver.local_addr()?)?;
///
/// poller.wait(&mut events, None)?;
/// let event = events.iter().next().expect("the datagram has arrived");
/// assert!(event.token() == 7 && event.is_readable());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
    /// The epoll set itself, followed by the watched sockets.
    polled: Vec<libc::pollfd>,
    /// Tokens of the watched sockets, in the order of `polled`, whose first element has none.
    tokens: Vec<u64>,
}

impl Poller {
    /// Opens an empty set.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: the call takes no pointer.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the kernel has just returned this descriptor, which has no other owner.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd as _) };
        let polled = vec![readable(epoll.as_fd())];
        Ok(Self { epoll, polled, tokens: Vec::new() })
    }

    /// Watches `fd` for reading, level-triggered and outside the epoll set. Meant for the few UDP
    /// sockets of a worker to which clients send queries. [Unwatch](Self::unwatch) it before it is
    /// closed.
    pub fn watch(&mut self, fd: &impl AsFd, token: u64) {
        self.polled.push(readable(fd.as_fd()));
        self.tokens.push(token);
    }

    /// Stops watching `fd`. Does nothing if it is not watched.
    pub fn unwatch(&mut self, fd: &impl AsFd) {
        let raw = fd.as_fd().as_raw_fd();
        let watched = self.polled.iter().skip(1).position(|polled| polled.fd == raw);
        if let Some(i) = watched {
            self.polled.remove(1 + i);
            self.tokens.remove(i);
        }
    }

    /// Adds `fd`. Its events have this `token`. Closing the descriptor removes it.
    ///
    /// # Errors
    /// `fd` is already in the set or cannot be polled, or the system's limit is reached.
    pub fn add(
        &self,
        fd: &impl AsFd,
        token: u64,
        interest: Interest,
        trigger: Trigger,
    ) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd.as_fd(), Some((token, interest, trigger)))
    }

    /// Changes the events of interest on `fd`.
    ///
    /// # Errors
    /// `fd` is not in the set.
    pub fn modify(
        &self,
        fd: &impl AsFd,
        token: u64,
        interest: Interest,
        trigger: Trigger,
    ) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd.as_fd(), Some((token, interest, trigger)))
    }

    /// Removes `fd`. Only a descriptor with duplicates needs this call, because otherwise closing
    /// `fd` removes it.
    ///
    /// # Errors
    /// `fd` is not in the set.
    pub fn remove(&self, fd: &impl AsFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd.as_fd(), None)
    }

    fn control(
        &self,
        operation: libc::c_int,
        fd: BorrowedFd<'_>,
        wanted: Option<(u64, Interest, Trigger)>,
    ) -> io::Result<()> {
        let mut event = match wanted {
            Some((token, interest, trigger)) => {
                libc::epoll_event { events: mask(interest, trigger), u64: token }
            }
            None => libc::epoll_event { events: 0, u64: 0 },
        };
        // SAFETY: `event` outlives the call, which only reads it.
        let result = unsafe {
            libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd.as_raw_fd(), &mut event)
        };
        check(result).map(drop)
    }

    /// Waits for events or until `timeout_ms` have passed (`None`: without limit; 0: not at all),
    /// and stores them in `events`. A signal ends the wait without events.
    ///
    /// Takes one system call, or two if sockets are watched and the set has events.
    ///
    /// # Errors
    /// The set itself is broken.
    pub fn wait(&mut self, events: &mut Events, timeout_ms: Option<u32>) -> io::Result<()> {
        let timeout =
            timeout_ms.map_or(-1, |ms| libc::c_int::try_from(ms).unwrap_or(libc::c_int::MAX));
        events.ready = 0;
        if self.tokens.is_empty() {
            return self.wait_for_set(events, timeout);
        }
        let (list, len) = (self.polled.as_mut_ptr(), self.polled.len() as libc::nfds_t);
        // SAFETY: `list` holds `len` entries, and `&mut self` reserves it for this call.
        if uninterrupted(unsafe { libc::poll(list, len, timeout) })? == 0 {
            return Ok(());
        }
        self.take_polled(events)
    }

    /// Waits like [`Poller::wait`], but with the precision of the system's timers instead of a
    /// millisecond, for callers that send at a given time.
    ///
    /// # Errors
    /// The set itself is broken.
    pub fn wait_precisely(&mut self, events: &mut Events, timeout: Duration) -> io::Result<()> {
        events.ready = 0;
        let secs = libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX);
        let timeout = libc::timespec { tv_sec: secs, tv_nsec: timeout.subsec_nanos() as _ };
        let (list, len) = (self.polled.as_mut_ptr(), self.polled.len() as libc::nfds_t);
        // SAFETY: `list` holds `len` entries, and `&mut self` reserves it for this call. `timeout`
        // outlives the call, and a null mask leaves the signals as they are.
        let result = unsafe { libc::ppoll(list, len, &timeout, std::ptr::null()) };
        if uninterrupted(result)? == 0 {
            return Ok(());
        }
        self.take_polled(events)
    }

    /// Reports the watched sockets that `poll` found ready, and then the events of the set.
    fn take_polled(&mut self, events: &mut Events) -> io::Result<()> {
        let watched = self.polled.iter().skip(1).zip(&self.tokens);
        for ((_, token), place) in
            watched.filter(|(polled, _)| polled.revents != 0).zip(&mut events.list)
        {
            *place = libc::epoll_event { events: libc::EPOLLIN as u32, u64: *token };
            events.ready += 1;
        }
        if self.polled.first().is_some_and(|set| set.revents != 0)
            && events.ready < events.list.len()
        {
            return self.wait_for_set(events, 0);
        }
        Ok(())
    }

    /// Waits for the epoll set alone, and appends its events.
    fn wait_for_set(&self, events: &mut Events, timeout: libc::c_int) -> io::Result<()> {
        let places = events.list.get_mut(events.ready..).unwrap_or_default();
        let (list, room) = (places.as_mut_ptr(), places.len() as libc::c_int);
        // SAFETY: `list` has room for `room` events, and `&mut events` reserves it for this call.
        let result = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), list, room, timeout) };
        events.ready += uninterrupted(result)?;
        Ok(())
    }
}

/// Treats an interrupted wait as one without events.
fn uninterrupted(result: libc::c_int) -> io::Result<usize> {
    match check(result) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        result => result,
    }
}

fn readable(fd: BorrowedFd<'_>) -> libc::pollfd {
    libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }
}

fn mask(interest: Interest, trigger: Trigger) -> u32 {
    let interest = match interest {
        Interest::Read => libc::EPOLLIN | libc::EPOLLRDHUP,
        Interest::Write => libc::EPOLLOUT,
        Interest::ReadWrite => libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLOUT,
    };
    let trigger = if trigger == Trigger::Edge { libc::EPOLLET } else { 0 };
    (interest | trigger) as u32
}

/// Storage for the events of one wait, allocated once.
pub struct Events {
    list: Box<[libc::epoll_event]>,
    ready: usize,
}

impl Events {
    /// Allocates room for `capacity` (at least 1) events. The next wait reports any others.
    pub fn with_capacity(capacity: usize) -> Self {
        let list = vec![libc::epoll_event { events: 0, u64: 0 }; capacity.max(1)];
        Self { list: list.into_boxed_slice(), ready: 0 }
    }

    /// Returns the events of the last wait.
    pub fn iter(&self) -> impl Iterator<Item = Event> + '_ {
        self.list.iter().take(self.ready).map(|raw| Event { token: raw.u64, mask: raw.events })
    }

    /// Returns the number of events of the last wait.
    pub fn len(&self) -> usize {
        self.ready
    }

    /// Reports whether the last wait ended by its timeout or a signal.
    pub fn is_empty(&self) -> bool {
        self.ready == 0
    }
}

/// An event on a file descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    token: u64,
    mask: u32,
}

impl Event {
    /// Returns the token with which the descriptor was added.
    pub fn token(self) -> u64 {
        self.token
    }

    /// Reports whether a read would not block. It may return data, the end of the stream, or an
    /// error.
    pub fn is_readable(self) -> bool {
        self.has(libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR)
    }

    /// Reports whether a write would not block, though it may fail, or a pending connect has ended.
    pub fn is_writable(self) -> bool {
        self.has(libc::EPOLLOUT | libc::EPOLLHUP | libc::EPOLLERR)
    }

    fn has(self, bits: libc::c_int) -> bool {
        self.mask & bits as u32 != 0
    }
}

/// A handle that wakes the thread waiting on a [`Poller`], after the caller has left work for it.
#[derive(Debug)]
pub struct Waker {
    eventfd: OwnedFd,
    signalled: AtomicBool,
}

impl Waker {
    /// Creates a waker whose events have this `token`.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new(poller: &Poller, token: u64) -> io::Result<Self> {
        // SAFETY: the call takes no pointer.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: the kernel has just returned this descriptor, which has no other owner.
        let eventfd = unsafe { OwnedFd::from_raw_fd(fd as _) };
        // Each write to an eventfd is a new edge, so it never needs to be read.
        poller.add(&eventfd, token, Interest::Read, Trigger::Edge)?;
        Ok(Self { eventfd, signalled: AtomicBool::new(false) })
    }

    /// Wakes the thread. Until the thread [clears](Self::clear) the waker, only the first call
    /// makes a system call.
    pub fn wake(&self) {
        if self.signalled.swap(true, Ordering::AcqRel) {
            return;
        }
        let one = 1u64.to_ne_bytes();
        // SAFETY: `one` is eight readable bytes.
        let written =
            unsafe { libc::write(self.eventfd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        // The counter would have to reach 2^64 - 1 for this to fail.
        debug_assert!(check_len(written).is_ok());
    }

    /// Resets the waker, so that the next [`wake`](Self::wake) signals again. The woken thread
    /// calls this before it looks for work.
    ///
    /// If a [`wake`](Self::wake) did not signal, the work that was left before it is visible after
    /// this call.
    pub fn clear(&self) {
        self.signalled.swap(false, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::thread;

    fn tokens(poller: &mut Poller, events: &mut Events) -> Vec<u64> {
        poller.wait(events, Some(0)).unwrap();
        events.iter().map(Event::token).collect()
    }

    #[test]
    fn a_precise_wait_reports_watched_sockets_and_the_set() {
        let (mut poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(4));
        let watched = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let added = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        poller.watch(&watched, 1);
        poller.add(&added, 2, Interest::Read, Trigger::Level).unwrap();
        poller.wait_precisely(&mut events, Duration::ZERO).unwrap();
        assert!(events.is_empty());
        for to in [&watched, &added] {
            watched.send_to(b"x", to.local_addr().unwrap()).unwrap();
        }
        poller.wait_precisely(&mut events, Duration::from_secs(60)).unwrap();
        assert_eq!(events.iter().map(Event::token).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn level_repeats_and_edge_does_not() {
        let (mut poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(8));
        let (mut level_end, level) = UnixStream::pair().unwrap();
        let (mut edge_end, edge) = UnixStream::pair().unwrap();
        poller.add(&level, 1, Interest::Read, Trigger::Level).unwrap();
        poller.add(&edge, 2, Interest::Read, Trigger::Edge).unwrap();
        assert!(tokens(&mut poller, &mut events).is_empty() && events.is_empty());
        level_end.write_all(b"x").unwrap();
        edge_end.write_all(b"x").unwrap();
        assert_eq!(tokens(&mut poller, &mut events).len(), 2);
        assert_eq!(tokens(&mut poller, &mut events), [1]);
        edge_end.write_all(b"x").unwrap();
        (&level).read_exact(&mut [0]).unwrap();
        assert_eq!(tokens(&mut poller, &mut events), [2]);
    }

    #[test]
    fn interest_changes_and_ends() {
        let (mut poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(8));
        let (mut other, stream) = UnixStream::pair().unwrap();
        poller.add(&stream, 1, Interest::Read, Trigger::Level).unwrap();
        assert!(tokens(&mut poller, &mut events).is_empty());
        poller.modify(&stream, 7, Interest::ReadWrite, Trigger::Level).unwrap();
        poller.wait(&mut events, None).unwrap();
        let event = events.iter().next().unwrap();
        assert_eq!((event.token(), event.is_readable(), event.is_writable()), (7, false, true));
        other.write_all(b"x").unwrap();
        poller.wait(&mut events, None).unwrap();
        let event = events.iter().next().unwrap();
        assert!(event.is_readable() && event.is_writable());
        poller.remove(&stream).unwrap();
        assert!(tokens(&mut poller, &mut events).is_empty());
        assert!(poller.remove(&stream).is_err());
    }

    #[test]
    fn a_closed_end_is_readable() {
        let (mut poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(8));
        let (other, stream) = UnixStream::pair().unwrap();
        poller.add(&stream, 1, Interest::Read, Trigger::Level).unwrap();
        drop(other);
        poller.wait(&mut events, None).unwrap();
        assert!(events.iter().next().unwrap().is_readable());
    }

    #[test]
    fn events_that_do_not_fit_come_with_the_next_wait() {
        let (mut poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(2));
        let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        for (token, (_, stream)) in pairs.iter().enumerate() {
            poller.add(stream, token as u64, Interest::Write, Trigger::Edge).unwrap();
        }
        let mut seen = tokens(&mut poller, &mut events);
        assert_eq!((seen.len(), events.len()), (2, 2));
        seen.extend(tokens(&mut poller, &mut events));
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2]);
    }

    #[test]
    fn watched_sockets_and_the_set_are_told_together() {
        let (mut poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(8));
        let (mut first_end, first) = UnixStream::pair().unwrap();
        let (mut second_end, second) = UnixStream::pair().unwrap();
        let (mut added_end, added) = UnixStream::pair().unwrap();
        poller.watch(&first, 1);
        poller.watch(&second, 2);
        poller.add(&added, 3, Interest::Read, Trigger::Level).unwrap();
        assert!(tokens(&mut poller, &mut events).is_empty());
        second_end.write_all(b"x").unwrap();
        assert_eq!(tokens(&mut poller, &mut events), [2]);
        assert!(events.iter().all(Event::is_readable));
        added_end.write_all(b"x").unwrap();
        first_end.write_all(b"x").unwrap();
        assert_eq!(tokens(&mut poller, &mut events), [1, 2, 3]);
        let mut few = Events::with_capacity(2);
        assert_eq!(tokens(&mut poller, &mut few), [1, 2]);
        poller.unwatch(&first);
        poller.unwatch(&added);
        assert_eq!(tokens(&mut poller, &mut events), [2, 3]);
        (&second).read_exact(&mut [0]).unwrap();
        poller.wait(&mut events, None).unwrap();
        assert_eq!(events.iter().map(Event::token).collect::<Vec<_>>(), [3]);
    }

    /// Returns the number of writes to the eventfd.
    fn writes(waker: &Waker) -> u64 {
        let mut count = [0; 8];
        let fd = waker.eventfd.try_clone().unwrap();
        std::fs::File::from(fd).read_exact(&mut count).unwrap();
        u64::from_ne_bytes(count)
    }

    #[test]
    fn wakes_coalesce_until_cleared() {
        let (mut poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(8));
        let waker = Waker::new(&poller, 9).unwrap();
        assert!(tokens(&mut poller, &mut events).is_empty());
        for _ in 0..1000 {
            waker.wake();
        }
        assert_eq!(tokens(&mut poller, &mut events), [9]);
        waker.clear();
        assert!(tokens(&mut poller, &mut events).is_empty());
        waker.wake();
        assert_eq!(tokens(&mut poller, &mut events), [9]);
        assert_eq!(writes(&waker), 2);
    }

    #[test]
    fn nothing_handed_over_is_missed() {
        const ITEMS: u64 = 100_000;
        let (mut poller, mut events) = (Poller::new().unwrap(), Events::with_capacity(8));
        let waker = Arc::new(Waker::new(&poller, 1).unwrap());
        let put = Arc::new(AtomicU64::new(0));
        let (their_waker, their_put) = (Arc::clone(&waker), Arc::clone(&put));
        let producer = thread::spawn(move || {
            for _ in 0..ITEMS {
                their_put.fetch_add(1, Ordering::Relaxed);
                their_waker.wake();
            }
        });
        // A lost wake-up would block this loop forever.
        let mut seen = 0;
        while seen < ITEMS {
            poller.wait(&mut events, None).unwrap();
            waker.clear();
            seen = put.load(Ordering::Relaxed);
        }
        producer.join().unwrap();
        assert_eq!(seen, ITEMS);
    }
}
