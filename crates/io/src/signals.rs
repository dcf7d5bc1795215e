//! Signals as a file descriptor in the event loop, instead of handlers that interrupt arbitrary
//! threads.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::{io, ptr};

use crate::syscall::{check, check_len, is_idle};

/// A signal that the server handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// `SIGHUP`: reload the configuration.
    Hangup,
    /// `SIGTERM`: shut down.
    Terminate,
    /// `SIGINT`: shut down, sent by a terminal.
    Interrupt,
    /// `SIGUSR1` or `SIGUSR2`. Other servers print statistics when they receive one of them. If the
    /// process did not handle these signals, they would end it.
    User,
}

const WATCHED: [(libc::c_int, Signal); 5] = [
    (libc::SIGHUP, Signal::Hangup),
    (libc::SIGTERM, Signal::Terminate),
    (libc::SIGINT, Signal::Interrupt),
    (libc::SIGUSR1, Signal::User),
    (libc::SIGUSR2, Signal::User),
];

/// The pending signals of the process (signalfd).
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// Blocks the signals in this thread and in all threads it starts later, so that they can be
    /// read from the descriptor.
    ///
    /// Also blocks `SIGXFSZ`, without reading it: a write beyond the limit on file sizes then fails
    /// instead of ending the process.
    ///
    /// Must be called before any other thread starts: a signal that reaches a thread that does not
    /// block it ends the process.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn block() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` initialises the set.
        let mut set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            set.assume_init()
        };
        for (number, _) in WATCHED {
            // SAFETY: the set is initialised, and `number` is a valid signal.
            unsafe { libc::sigaddset(&mut set, number) };
        }
        let mut blocked = set;
        // SAFETY: the set is initialised, and SIGXFSZ is a valid signal.
        unsafe { libc::sigaddset(&mut blocked, libc::SIGXFSZ) };
        // SAFETY: the set outlives the call, and the old mask is not requested.
        let code = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &blocked, ptr::null_mut()) };
        if code != 0 {
            return Err(io::Error::from_raw_os_error(code));
        }
        // SAFETY: the set outlives the call, and -1 requests a new descriptor.
        let fd =
            check(unsafe { libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) })?;
        // SAFETY: the kernel has just returned this descriptor, which has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as _) };
        Ok(Self { fd })
    }

    /// Returns the next pending signal, if any.
    ///
    /// # Errors
    /// The descriptor itself is broken.
    pub fn next(&self) -> io::Result<Option<Signal>> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let len = size_of::<libc::signalfd_siginfo>();
        // SAFETY: `info` has room for the at most `len` bytes that the kernel writes.
        let read = unsafe { libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), len) };
        match check_len(read) {
            Err(error) if is_idle(&error) => return Ok(None),
            result => result?,
        };
        // SAFETY: all fields are integers, zeroed above and then written by the kernel.
        let number = unsafe { info.assume_init() }.ssi_signo;
        let known = WATCHED.iter().find(|(watched, _)| *watched as u32 == number);
        Ok(known.map(|(_, signal)| *signal))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocked_signals_are_read_in_the_event_loop() {
        let signals = Signals::block().unwrap();
        assert_eq!(signals.next().unwrap(), None);
        for number in [libc::SIGHUP, libc::SIGTERM] {
            // SAFETY: the signal goes to this thread, which blocks it.
            assert_eq!(unsafe { libc::raise(number) }, 0);
        }
        let seen = [signals.next().unwrap(), signals.next().unwrap(), signals.next().unwrap()];
        assert_eq!(seen, [Some(Signal::Hangup), Some(Signal::Terminate), None]);
    }
}
