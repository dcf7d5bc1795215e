//! Standard output of the commands.

use std::io::{self, Write};

/// Writes to standard output. A reader that closed the pipe has all that it wants, so that is a
/// success; the command learns of it by [`Reader::Gone`] and may stop.
///
/// # Errors
/// The output cannot be written, because the disk is full for example.
pub(crate) fn write(text: &str) -> Result<Reader, String> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(Reader::Reads),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(format!("cannot write: {error}")),
    }
}

/// The other end of standard output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reader {
    /// It takes more.
    Reads,
    /// It has closed the pipe.
    Gone,
}
