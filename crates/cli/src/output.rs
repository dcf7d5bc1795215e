//! Standard output of the commands, and their warnings and errors.
//!
//! Text may come from a file, a list or the network, so control characters are escaped.

use std::io::{self, IsTerminal, Write};

use crate::error::CommandError;

/// Writes lines of text for people to standard output; see [`lines`]. A reader that closed the pipe
/// needs no more output, so this is not an error: the command gets [`Reader::Gone`] and may stop.
///
/// # Errors
///
/// The output cannot be written, for example because the disk is full.
pub(crate) fn write(text: &str) -> Result<Reader, CommandError> {
    send(&lines(text))
}

/// Writes text for programs, such as JSON, to standard output. If standard output is a terminal,
/// escapes control characters as [`lines`] does; otherwise, the text is unchanged.
///
/// # Errors
///
/// As [`write`].
pub(crate) fn write_data(text: &str) -> Result<Reader, CommandError> {
    if io::stdout().is_terminal() { write(text) } else { send(text) }
}

/// Writes a line to standard error. Ignores errors, because there is no other place to report them.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", lines(text));
}

/// Returns a number with its noun, such as "1 entry" or "2 entries".
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

/// Returns a number of entries.
pub(crate) fn entries(count: u64) -> String {
    counted(count, "entry", "entries")
}

/// Returns a text on one line. Characters that control a terminal or the direction of text are
/// escaped.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        let turns_text = matches!(
            character,
            '\u{61c}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        );
        if character.is_control() || turns_text || matches!(character, '\u{2028}' | '\u{2029}') {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Returns a text with its line ends and tabs. Other characters are escaped as by [`plain`].
pub(crate) fn lines(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for part in text.split_inclusive(['\n', '\t']) {
        let (rest, end) = part.split_at(part.trim_end_matches(['\n', '\t']).len());
        shown += &plain(rest);
        shown += end;
    }
    shown
}

fn send(text: &str) -> Result<Reader, CommandError> {
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
    /// Standard output is still read.
    Reads,
    /// The pipe is closed.
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_controls_a_terminal_is_escaped() {
        let check = |text: &str, expected: &str| assert_eq!(plain(text), expected);
        check("tablet www.example. \\010", "tablet www.example. \\010");
        check("\u{1b}[2J\r\n\t\0\u{7f}", "\\u{1b}[2J\\u{d}\\u{a}\\u{9}\\u{0}\\u{7f}");
        check("\u{9b}31m \u{202e}gpj", "\\u{9b}31m \\u{202e}gpj");
        check("Köln 東京 <b>", "Köln 東京 <b>");
    }

    #[test]
    fn lines_and_columns_stay() {
        assert_eq!(lines("-a\u{1b}]0;x\u{7}\n\t+b\n\n"), "-a\\u{1b}]0;x\\u{7}\n\t+b\n\n");
        assert_eq!(lines("a\r\n"), "a\\u{d}\n");
        assert_eq!(lines(""), "");
    }
}
