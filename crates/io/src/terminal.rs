//! Turns off the echo of a terminal while a password is typed.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::syscall::check;

/// A terminal that does not show typed text until this value is dropped.
pub struct Silenced<'f> {
    terminal: BorrowedFd<'f>,
    before: libc::termios,
}

impl<'f> Silenced<'f> {
    /// Turns echo off.
    ///
    /// # Errors
    /// The descriptor is not a terminal.
    pub fn new(terminal: BorrowedFd<'f>) -> io::Result<Self> {
        let mut before = MaybeUninit::<libc::termios>::uninit();
        // SAFETY: the descriptor is open while it is borrowed; the pointer outlives the call.
        check(unsafe { libc::tcgetattr(terminal.as_raw_fd(), before.as_mut_ptr()) })?;
        // SAFETY: the call above succeeded, and so has written the whole value.
        let before = unsafe { before.assume_init() };
        let mut silent = before;
        silent.c_lflag &= !libc::ECHO;
        set(terminal, &silent)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silenced<'_> {
    fn drop(&mut self) {
        let _ = set(self.terminal, &self.before);
    }
}

fn set(terminal: BorrowedFd<'_>, attributes: &libc::termios) -> io::Result<()> {
    // SAFETY: the descriptor is open while it is borrowed; the attributes outlive the call.
    check(unsafe { libc::tcsetattr(terminal.as_raw_fd(), libc::TCSAFLUSH, attributes) }).map(drop)
}
