//! Standard output of the commands.

use std::io::{self, Write};

use crate::error::CommandError;

/// Writes to standard output. A reader that closed the pipe needs no more output, so this is not an
/// error: the command gets [`Reader::Gone`] and may stop.
///
/// # Errors
///
/// The output cannot be written, for example because the disk is full.
pub(crate) fn write(text: &str) -> Result<Reader, CommandError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(Reader::Reads),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(CommandError::Output(error)),
    }
}

/// The reader of standard output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reader {
    /// It reads on.
    Reads,
    /// It has closed the pipe.
    Gone,
}
