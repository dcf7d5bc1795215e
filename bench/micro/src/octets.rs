//! Folding, hashing and comparing: eight octets at a time, compared with one at a time.

use std::hint::black_box;

use avocet_wire::hash::{self, HashKey};

use crate::cell::Cell;

/// The columns.
const WORDS: &str = "by words";
const OCTETS: &str = "by octets";
pub(crate) const COLUMNS: [&str; 2] = [WORDS, OCTETS];

const ROWS: [(&str, &str, &str, usize); 6] = [
    ("fold 8", "hash 8", "compare 8", 8),
    ("fold 16", "hash 16", "compare 16", 16),
    ("fold 21", "hash 21", "compare 21", 21),
    ("fold 24", "hash 24", "compare 24", 24),
    ("fold 40", "hash 40", "compare 40", 40),
    ("fold 64", "hash 64", "compare 64", 64),
];

/// All cells.
pub(crate) fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (fold, _, _, len) in ROWS {
        cells.push(folding(fold, WORDS, len, hash::fold_into));
        cells.push(folding(fold, OCTETS, len, fold_each));
    }
    for (_, hash, _, len) in ROWS {
        let key = HashKey::new(*b"0123456789abcdefFEDCBA9876543210");
        let text = letters(len);
        cells.push(Cell::new(hash, WORDS, move || key.hash(black_box(&text), 1)));
        let text = letters(len);
        cells.push(Cell::new(hash, OCTETS, move || hash_each(black_box(&text), 1)));
    }
    for (_, _, compare, len) in ROWS {
        cells.push(comparing(compare, WORDS, len, hash::eq_folded));
        cells.push(comparing(compare, OCTETS, len, eq_each));
    }
    cells
}

fn letters(len: usize) -> Vec<u8> {
    b"Www3Example4comX".iter().copied().cycle().take(len).collect()
}

fn folding(
    row: &'static str,
    column: &'static str,
    len: usize,
    fold: fn(&[u8], &mut [u8]),
) -> Cell {
    let text = letters(len);
    let mut out = vec![0; len];
    Cell::new(row, column, move || {
        fold(black_box(&text), &mut out);
        black_box(&out);
    })
}

fn comparing(
    row: &'static str,
    column: &'static str,
    len: usize,
    eq: fn(&[u8], &[u8]) -> bool,
) -> Cell {
    let (text, other) = (letters(len), letters(len).to_ascii_lowercase());
    Cell::new(row, column, move || eq(black_box(&text), black_box(&other)))
}

fn fold_each(source: &[u8], target: &mut [u8]) {
    for (octet, out) in source.iter().zip(target) {
        *out = octet.to_ascii_lowercase();
    }
}

/// FNV-1a.
fn hash_each(octets: &[u8], start: u64) -> u64 {
    octets.iter().fold(start ^ 0xcbf2_9ce4_8422_2325, |hash, octet| {
        (hash ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn eq_each(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.eq_ignore_ascii_case(y))
}
