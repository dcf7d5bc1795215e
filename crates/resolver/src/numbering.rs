//! Assigns numbers to distinct keys, in time proportional to the number of keys.
//!
//! Replies come from untrusted servers. If each record were compared with all previous records, one
//! question to a hostile server would take a second. A hash table for every reply would slow
//! ordinary replies down.

use std::collections::HashMap;
use std::hash::Hash;

/// The number of keys below which a linear search is faster than a hash table.
const FEW: usize = 8;

/// Distinct keys, numbered from zero in order of appearance. The hash table has a random key, so
/// that an attacker cannot choose colliding keys. A small number of keys needs no allocation.
#[derive(Debug)]
pub(crate) struct Numbering<K> {
    len: usize,
    few: [Option<K>; FEW],
    many: Option<HashMap<K, usize>>,
}

/// The number of a key, and whether the key was seen before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Numbered {
    /// The key was not seen before.
    New(usize),
    /// The key was seen before.
    Known(usize),
}

impl<K: Copy + Eq + Hash> Numbering<K> {
    pub(crate) fn new() -> Self {
        Self { len: 0, few: [None; FEW], many: None }
    }

    /// Returns the number of a key that was seen before; `None` for other keys.
    pub(crate) fn find(&self, key: K) -> Option<usize> {
        match &self.many {
            Some(many) => many.get(&key).copied(),
            None => self.few[..self.len].iter().position(|known| *known == Some(key)),
        }
    }

    /// Returns the number of a key. A new key gets the next number.
    pub(crate) fn number(&mut self, key: K) -> Numbered {
        if let Some(number) = self.find(key) {
            return Numbered::Known(number);
        }
        let number = self.len;
        match self.few.get_mut(number) {
            Some(place) => *place = Some(key),
            None => {
                let few = self.few.iter().copied().flatten().zip(0..);
                self.many.get_or_insert_with(|| few.collect()).insert(key, number);
            }
        }
        self.len += 1;
        Numbered::New(number)
    }

    /// Adds a key. Returns `false` if the key was seen before.
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
        }
    }
}
