//! The checksum in the last line of master files that only the server writes. Some damage on the
//! disk, such as another digit in an address, would otherwise be served.

use std::io;

/// The start of the line, before the checksum in hexadecimal form.
const START: &str = "; CRC-32 ";
/// Number of octets of the line.
const LINE: usize = START.len() + 8 + 1;

/// Returns the last line of a file with these parts, which end with a line feed.
#[must_use]
pub fn sum_line(parts: &[&[u8]]) -> String {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    format!("{START}{:08x}\n", hasher.finalize())
}

/// Checks a file. A file without the line is accepted: earlier versions of Avocet and other
/// programs write none.
///
/// # Errors
/// The checksum is wrong.
pub fn check_sum(octets: &[u8]) -> io::Result<()> {
    let Some((text, line)) = octets.split_last_chunk::<LINE>() else { return Ok(()) };
    if !line.starts_with(START.as_bytes()) || *line == *sum_line(&[text]).as_bytes() {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "it is damaged: its checksum is wrong"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wrong_checksum_is_refused() {
        let text = b"a. 60 IN A 192.0.2.1\n";
        let whole = [text, sum_line(&[&text[..9], &text[9..]]).as_bytes()].concat();
        check_sum(&whole).unwrap();
        check_sum(text).unwrap();
        check_sum(b"").unwrap();
        for at in 0..text.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(check_sum(&damaged).is_err(), "{at}");
        }
    }
}
