//! Reads a password: twice from the terminal without showing it, or a line of standard input.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::os::fd::AsFd;

use avocet_control::access::Secret;
use avocet_io::terminal::Silenced;
use zeroize::Zeroizing;

use crate::error::CommandError;

/// Maximum number of octets of a line.
const MAX_TYPED: u64 = 1024;

/// Reads a password.
///
/// # Errors
/// No password was typed, or the two passwords differ.
pub(crate) fn read() -> Result<Secret, CommandError> {
    if !io::stdin().is_terminal() {
        return line(io::stdin().lock()).map_err(CommandError::NoPassword);
    }
    let terminal = File::options().read(true).write(true).open("/dev/tty");
    let terminal = terminal.map_err(CommandError::NoPassword)?;
    let silenced = Silenced::new(terminal.as_fd()).map_err(CommandError::NoPassword)?;
    let ask = |text: &str| {
        (&terminal).write_all(text.as_bytes())?;
        let typed = line(BufReader::new(&terminal));
        (&terminal).write_all(b"\n")?;
        typed
    };
    let first = ask("Password: ").map_err(CommandError::NoPassword)?;
    let second = ask("Again: ").map_err(CommandError::NoPassword)?;
    drop(silenced);
    if first == second { Ok(first) } else { Err(CommandError::PasswordsDiffer) }
}

fn line(reader: impl BufRead) -> io::Result<Secret> {
    let mut line = Zeroizing::new(String::with_capacity(MAX_TYPED as usize));
    reader.take(MAX_TYPED).read_line(&mut line)?;
    if line.is_empty() {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    Ok(Secret::new(line.trim_end_matches(['\r', '\n']).to_owned()))
}
