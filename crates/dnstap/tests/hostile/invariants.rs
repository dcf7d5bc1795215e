//! Properties of a file with dnstap messages that hold for arbitrary octets.

use std::io::Read;

use avocet_dnstap::{TapFile, TapMessage};

/// A reader that returns one octet at a time, as a pipe may.
struct Dripping<'t>(&'t [u8]);

impl Read for Dripping<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        match (self.0.split_first(), out.first_mut()) {
            (Some((octet, rest)), Some(place)) => {
                (*place, self.0) = (*octet, rest);
                Ok(1)
            }
            _ => Ok(0),
        }
    }
}

/// Checks that the result does not depend on the pieces in which a file is read, and that each
/// message stays the same when it is written and read again.
pub(crate) fn file(octets: &[u8]) {
    let whole = messages(octets);
    assert_eq!(whole, messages(Dripping(octets)), "however it comes");
    let _ = TapMessage::read(octets);
}

/// Returns the messages after they were written again, and the error at the end.
fn messages(input: impl Read) -> (Vec<Vec<u8>>, Option<String>) {
    let mut found = Vec::new();
    let mut file = match TapFile::open(input) {
        Ok(file) => file,
        Err(error) => return (found, Some(error.to_string())),
    };
    loop {
        match file.read_message() {
            Ok(Some(message)) => {
                let mut octets = Vec::new();
                message.write(&mut octets);
                let Ok(again) = TapMessage::read(&octets) else { panic!("{message:?} is refused") };
                assert_eq!(again, Some(message));
                found.push(octets);
            }
            Ok(None) => return (found, None),
            Err(error) => return (found, Some(error.to_string())),
        }
    }
}
