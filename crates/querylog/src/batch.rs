//! Entries in memory, with their texts interned: those that the writer has taken from the rings and
//! not written yet.

use std::collections::HashMap;

use crate::column::{INTS, SETS, TEXTS};

/// One entry with numbers in place of texts and sets.
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
    /// Forgets all entries, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.texts.clear();
        self.sets.clear();
    }

    /// Returns about the octets that the entries take in a block before compression.
    pub(crate) fn octets(&self) -> usize {
        self.rows.len() * 32 + self.texts.octets.len()
    }
}

/// Texts by number. Number zero is the empty text.
pub(crate) struct Texts {
    octets: String,
    /// The end of each text.
    ends: Vec<u32>,
    numbers: HashMap<Box<str>, u32>,
}

impl Default for Texts {
    fn default() -> Self {
        let mut texts = Self { octets: String::new(), ends: Vec::new(), numbers: HashMap::new() };
        texts.clear();
        texts
    }
}

impl Texts {
    fn clear(&mut self) {
        self.octets.clear();
        self.ends.clear();
        self.numbers.clear();
        self.ends.push(0);
    }

    /// Returns the number of a text, which is added if it is missing.
    pub(crate) fn intern(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.ends.len() as u32;
        self.octets.push_str(text);
        self.ends.push(self.octets.len() as u32);
        self.numbers.insert(text.into(), number);
        number
    }

    /// Returns the text with a number, empty for an unknown one.
    pub(crate) fn get(&self, number: u32) -> &str {
        let number = number as usize;
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before));
        match (start, self.ends.get(number)) {
            (Some(start), Some(end)) => &self.octets[*start as usize..*end as usize],
            _ => "",
        }
    }

    /// Returns the number of texts, the empty one included.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns all texts in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.ends.len() as u32).map(|number| self.get(number))
    }
}

/// Sets of texts by number. Number zero is the empty set.
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

    /// Returns the number of a set, which is added if it is missing.
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
