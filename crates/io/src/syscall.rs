//! The C convention of "minus one and errno" as `io::Result`.

use std::io;

/// Turns the result of a system call into a count, or into the error that `errno` names.
pub(crate) fn check(result: libc::c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// As [`check`], for calls that give back an `ssize_t`.
pub(crate) fn check_len(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Whether an error of a non-blocking call only says that there is nothing to do now.
pub(crate) fn is_idle(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
