//! Entries in memory that the writer has taken from the rings but has not written yet. Each
//! different text is stored once. Entries refer to a text by its index.

use std::collections::HashMap;

use crate::column::{INTS, SETS, TEXTS};
use crate::interned::Interned;

/// One entry. Its texts and sets are indices into those of the [`Batch`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct EntryRow {
    pub(crate) ints: [i64; INTS],
    pub(crate) texts: [u32; TEXTS],
    pub(crate) sets: [u32; SETS],
}

/// Entries and the texts that they use.
#[derive(Default)]
pub(crate) struct Batch {
    pub(crate) rows: Vec<EntryRow>,
    pub(crate) texts: Texts,
    pub(crate) sets: Sets,
}

impl Batch {
    /// Removes all entries, but keeps the memory for reuse.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.texts.clear();
        self.sets.clear();
    }

    /// Returns the approximate number of octets that the batch would have as a block before
    /// compression.
    pub(crate) fn octets(&self) -> usize {
        self.rows.len() * 32 + self.texts.0.octets()
    }
}

/// Texts, each with an index. The text at index zero is empty.
pub(crate) struct Texts(Interned);

impl Default for Texts {
    fn default() -> Self {
        let mut texts = Self(Interned::default());
        texts.clear();
        texts
    }
}

impl Texts {
    fn clear(&mut self) {
        self.0.clear();
        self.0.number(b"");
    }

    /// Returns the index of a text. Adds the text if it is missing.
    pub(crate) fn intern(&mut self, text: &str) -> u32 {
        if text.is_empty() { 0 } else { self.0.number(text.as_bytes()) }
    }

    /// Returns the text with a number, or an empty text if the number is unknown.
    pub(crate) fn get(&self, number: u32) -> &str {
        str::from_utf8(self.0.get(number)).unwrap_or_default()
    }

    /// Returns the number of texts, including the empty one.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the octets of all texts in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.0.len() as u32).map(|number| self.0.get(number))
    }
}

/// Sets of texts, each with a number. Number zero is the empty set.
pub(crate) struct Sets {
    members: Vec<Vec<u32>>,
    numbers: HashMap<Vec<u32>, u32>,
}

impl Default for Sets {
    fn default() -> Self {
        let mut sets = Self { members: Vec::new(), numbers: HashMap::new() };
        sets.clear();
        sets
    }
}

impl Sets {
    fn clear(&mut self) {
        self.members.clear();
        self.numbers.clear();
        self.members.push(Vec::new());
    }

    /// Returns the index of a set. Adds the set if it is missing.
    pub(crate) fn intern(&mut self, set: &[u32]) -> u32 {
        if set.is_empty() {
            return 0;
        }
        if let Some(number) = self.numbers.get(set) {
            return *number;
        }
        let number = self.members.len() as u32;
        self.members.push(set.to_vec());
        self.numbers.insert(set.to_vec(), number);
        number
    }

    /// Returns all sets in the order of their numbers.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.members.iter().map(Vec::as_slice)
    }
}
