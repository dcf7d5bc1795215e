//! Signals as a file descriptor in the event loop, instead of code that interrupts any thread
//! anywhere.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::{io, ptr};

use crate::syscall::{check, check_len, is_idle};

/// A signal that the server acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// `SIGHUP`: read the configuration again.
    Hangup,
    /// `SIGTERM`: end in good order.
    Terminate,
    /// `SIGINT`: the same, from a terminal.
    Interrupt,
    /// `SIGUSR1` or `SIGUSR2`, which other servers answer with statistics, and which would end the
    /// process.
    User,
}

const WATCHED: [(libc::c_int, Signal); 5] = [
    (libc::SIGHUP, Signal::Hangup),
    (libc::SIGTERM, Signal::Terminate),
    (libc::SIGINT, Signal::Interrupt),
    (libc::SIGUSR1, Signal::User),
    (libc::SIGUSR2, Signal::User),
];

/// The signals of the process that wait to be read (signalfd).
#[derive(Debug)]
pub struct Signals {
    fd: OwnedFd,
}

impl Signals {
    /// Blocks the signals in this thread, and in all that it starts later, and lets them be read
    /// here.
    ///
    /// `SIGXFSZ` is blocked too, and never read: a file that may not grow is an error of the write
    /// then, and not the end of the process.
    ///
    /// Called before any other thread is started: a thread that does not block them would be ended
    /// by them.
    ///
    /// # Errors
    /// When the process has no file descriptor left.
    pub fn block() -> io::Result<Self> {
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigemptyset` initialises the set.
        let mut set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            set.assume_init()
        };
        for (number, _) in WATCHED {
            // SAFETY: the set is initialised and the number is a signal's.
            unsafe { libc::sigaddset(&mut set, number) };
        }
        let mut blocked = set;
        // SAFETY: the set is initialised and the number is a signal's.
        unsafe { libc::sigaddset(&mut blocked, libc::SIGXFSZ) };
        // SAFETY: the set lives through the call; the old mask is not asked for.
        let code = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &blocked, ptr::null_mut()) };
        if code != 0 {
            return Err(io::Error::from_raw_os_error(code));
        }
        // SAFETY: the set lives through the call; -1 asks for a new descriptor.
        let fd =
            check(unsafe { libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) })?;
        // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as _) };
        Ok(Self { fd })
    }

    /// The next signal that came, or `None`.
    ///
    /// # Errors
    /// Only when the descriptor itself is broken.
    pub fn next(&self) -> io::Result<Option<Signal>> {
        let mut info = MaybeUninit::<libc::signalfd_siginfo>::zeroed();
        let len = size_of::<libc::signalfd_siginfo>();
        // SAFETY: `info` has room for the `len` bytes that the kernel writes at most.
        let read = unsafe { libc::read(self.fd.as_raw_fd(), info.as_mut_ptr().cast(), len) };
        match check_len(read) {
            Err(error) if is_idle(&error) => return Ok(None),
            result => result?,
        };
        // SAFETY: integers only, zeroed above and then written by the kernel.
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
