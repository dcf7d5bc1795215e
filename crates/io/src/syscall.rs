//! Conversion of the C convention "minus one and errno" to `io::Result`.

use std::io;

/// Converts the result of a system call to a count, or to the error in `errno`.
pub(crate) fn check(result: libc::c_int) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Converts the result of a call that returns `ssize_t`, like [`check`].
pub(crate) fn check_len(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Reports whether an error of a non-blocking call only means that there is nothing to do now.
pub(crate) fn is_idle(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
