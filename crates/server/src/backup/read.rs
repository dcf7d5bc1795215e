//! Reads a backup line by line, with bounds, and compares its digest.

use std::io::{BufRead, Read};

use avocet_control::backup::{BackedUp, BackupHead, BackupPiece};
use aws_lc_rs::digest::{Context, SHA256};
use data_encoding::{BASE64, HEXLOWER};
use serde::Deserialize;

use super::{BackupError, FileKind, VERSION};

/// Maximum number of octets of a line: enough for a piece of a file with all characters escaped.
const MAX_BACKUP_LINE: u64 = 512 << 10;

/// The digest of a backup. It does not depend on the form of the lines.
pub(super) struct BackupDigest(Context);

impl BackupDigest {
    pub(super) fn of(head: &BackupHead) -> Self {
        let mut digest = Self(Context::new(&SHA256));
        digest.part(&head.avocet_backup.to_be_bytes());
        digest.part(head.version.as_bytes());
        digest.part(&head.at.to_be_bytes());
        digest
    }

    pub(super) fn add(&mut self, name: &str, octets: &[u8]) {
        self.part(name.as_bytes());
        self.part(octets);
    }

    fn part(&mut self, octets: &[u8]) {
        self.0.update(&(octets.len() as u64).to_be_bytes());
        self.0.update(octets);
    }

    pub(super) fn finish(self) -> String {
        HEXLOWER.encode(self.0.finish().as_ref())
    }
}

/// A parsed line of a backup.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Head(BackupHead),
    Piece(BackupPiece),
    End(End),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    done: bool,
    files: u64,
    octets: u64,
    sha256: String,
}

/// Reads a backup and passes the pieces of its files to `take`; the pieces of a file are passed in
/// a row. The caller must not use any piece before this function returns.
///
/// # Errors
/// A line is malformed, the end is missing, the digest does not match, or `take` fails.
pub(super) fn read(
    mut input: impl BufRead,
    mut take: impl FnMut(&str, &[u8]) -> Result<(), BackupError>,
) -> Result<(BackupHead, BackedUp), BackupError> {
    let mut number = 0;
    let head = match next(&mut input, &mut number)? {
        Line::Head(head) if head.avocet_backup == VERSION => head,
        Line::Head(head) => return Err(BackupError::Version(head.avocet_backup)),
        Line::Piece(_) | Line::End(_) => return Err(misplaced(number)),
    };
    let mut digest = BackupDigest::of(&head);
    let (mut seen, mut octets): (Vec<String>, u64) = (Vec::new(), 0);
    loop {
        let BackupPiece { file, text, data } = match next(&mut input, &mut number)? {
            Line::Piece(piece) => piece,
            Line::Head(_) => return Err(misplaced(number)),
            Line::End(end) => {
                let found = BackedUp { files: seen.len() as u64, octets, sha256: digest.finish() };
                return ended(&mut input, (&end, number), found).map(|found| (head, found));
            }
        };
        if FileKind::of(&file).is_none() {
            return Err(BackupError::Name(file));
        }
        if seen.last() != Some(&file) {
            if seen.contains(&file) {
                return Err(BackupError::Line(number, format!("{file} is there twice")));
            }
            seen.push(file.clone());
        }
        let piece = match (text, data) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(data)) => BASE64
                .decode(data.as_bytes())
                .map_err(|error| BackupError::Line(number, error.to_string()))?,
            _ => return Err(misplaced(number)),
        };
        digest.add(&file, &piece);
        octets += piece.len() as u64;
        take(&file, &piece)?;
    }
}

fn misplaced(number: u64) -> BackupError {
    BackupError::Line(number, "it is not in its place".to_owned())
}

fn next(input: &mut impl BufRead, number: &mut u64) -> Result<Line, BackupError> {
    *number += 1;
    let mut line = Vec::new();
    let read = input.by_ref().take(MAX_BACKUP_LINE).read_until(b'\n', &mut line);
    read.map_err(|error| BackupError::Line(*number, error.to_string()))?;
    match line.pop() {
        Some(b'\n') => {}
        Some(_) if line.len() as u64 + 1 >= MAX_BACKUP_LINE => {
            return Err(BackupError::Line(*number, "it is too long".to_owned()));
        }
        _ => return Err(BackupError::CutOff),
    }
    serde_json::from_slice(&line)
        .map_err(|_| BackupError::Line(*number, "it is no line of a backup".to_owned()))
}

/// Checks that the last line of the backup matches the lines before it, and that nothing follows.
fn ended(
    input: &mut impl BufRead,
    (end, number): (&End, u64),
    found: BackedUp,
) -> Result<BackedUp, BackupError> {
    let is_last = input.fill_buf().is_ok_and(<[u8]>::is_empty);
    if !is_last {
        return Err(misplaced(number + 1));
    }
    let is_equal = end.done
        && (end.files, end.octets, &end.sha256) == (found.files, found.octets, &found.sha256);
    if is_equal { Ok(found) } else { Err(BackupError::Damaged) }
}
