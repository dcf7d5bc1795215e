//! Numbers for distinct keys, with work that grows with the number of keys alone.
//!
//! Replies hold what strangers put there. Comparing each record with all before it takes a second for one question to
//! a hostile server, while a hash table costs ordinary replies more than looking at the few keys that they have.

use std::collections::HashMap;
use std::hash::Hash;

/// Keys that are found by comparing them one by one: below this number that is faster than a hash table.
const FEW: usize = 8;

/// Distinct keys, numbered from zero in the order in which they come. The hash table has a random key of its own, so
/// that nobody can choose keys that collide.
#[derive(Debug)]
pub(crate) struct Numbering<K> {
    few: Vec<K>,
    many: HashMap<K, usize>,
}

/// The number of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Numbered {
    /// The key came for the first time.
    New(usize),
    /// The key came before.
    Known(usize),
}

impl<K: Copy + Eq + Hash> Numbering<K> {
    pub(crate) fn new() -> Self {
        Self { few: Vec::new(), many: HashMap::new() }
    }

    /// Returns how many distinct keys came.
    pub(crate) fn len(&self) -> usize {
        if self.many.is_empty() { self.few.len() } else { self.many.len() }
    }

    /// Returns the number of a key if it came before.
    pub(crate) fn find(&self, key: K) -> Option<usize> {
        if self.many.is_empty() {
            return self.few.iter().position(|known| *known == key);
        }
        self.many.get(&key).copied()
    }

    /// Returns the number of a key, which is its own from now on.
    pub(crate) fn number(&mut self, key: K) -> Numbered {
        if let Some(number) = self.find(key) {
            return Numbered::Known(number);
        }
        let number = self.len();
        if number < FEW {
            self.few.push(key);
        } else {
            if number == FEW {
                self.many.extend(self.few.drain(..).zip(0..));
            }
            self.many.insert(key, number);
        }
        Numbered::New(number)
    }

    /// Adds a key. Returns false if it came before.
    pub(crate) fn is_new(&mut self, key: K) -> bool {
        matches!(self.number(key), Numbered::New(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_numbers_however_many_there_are() {
        let mut numbering = Numbering::new();
        for key in 0..1_000_u32 {
            assert_eq!(numbering.find(key), None);
            assert_eq!(numbering.number(key), Numbered::New(key as usize));
            assert_eq!(numbering.number(key / 2), Numbered::Known(key as usize / 2));
            assert_eq!(numbering.len(), key as usize + 1);
        }
    }
}
