//! Texts by index, which is called the number of the text. Each text is stored once, and a hash
//! table finds its index.
//!
//! A table of indices with open addressing takes a third of the memory of a map that owns its keys.
//! The hash is keyed, because clients choose names.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

/// Number of slots of a table without texts.
const MIN_SLOTS: usize = 64;
/// The value of a slot that is not in use.
const FREE: u32 = u32::MAX;

/// Texts that are numbered in the order of their arrival.
pub(crate) struct Interned {
    octets: Vec<u8>,
    /// The offset at which each text ends.
    ends: Vec<u32>,
    /// The slots of the hash table. Their number is a power of two, and at most half of them are in
    /// use.
    slots: Vec<Slot>,
    keys: RandomState,
}

#[derive(Clone, Copy)]
struct Slot {
    hash: u32,
    number: u32,
}

impl Default for Interned {
    fn default() -> Self {
        let slots = vec![Slot { hash: 0, number: FREE }; MIN_SLOTS];
        Self { octets: Vec::new(), ends: Vec::new(), slots, keys: RandomState::new() }
    }
}

impl Interned {
    /// Removes all texts but keeps the memory for reuse.
    pub(crate) fn clear(&mut self) {
        self.octets.clear();
        self.ends.clear();
        self.slots.fill(Slot { hash: 0, number: FREE });
    }

    /// Returns the index of a text. Adds the text if it is missing.
    pub(crate) fn number(&mut self, text: &[u8]) -> u32 {
        let hash = self.keys.hash_one(text) as u32;
        let mut place = self.place(hash);
        while let Slot { hash: other, number } = self.slots[place]
            && number != FREE
        {
            if other == hash && self.get(number) == text {
                return number;
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
        let number = self.ends.len() as u32;
        self.octets.extend_from_slice(text);
        self.ends.push(self.octets.len() as u32);
        self.slots[place] = Slot { hash, number };
        if self.ends.len() * 2 > self.slots.len() {
            self.grow();
        }
        number
    }

    fn place(&self, hash: u32) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    fn grow(&mut self) {
        let free = vec![Slot { hash: 0, number: FREE }; self.slots.len() * 2];
        for slot in std::mem::replace(&mut self.slots, free) {
            if slot.number == FREE {
                continue;
            }
            let mut place = self.place(slot.hash);
            while self.slots[place].number != FREE {
                place = (place + 1) & (self.slots.len() - 1);
            }
            self.slots[place] = slot;
        }
    }

    /// Returns the text with a number, or an empty text if the number is unknown.
    pub(crate) fn get(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]) as usize;
        self.ends.get(number).map_or(&[], |end| &self.octets[start..*end as usize])
    }

    /// Returns the number of texts.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the total number of octets of all texts.
    pub(crate) fn octets(&self) -> usize {
        self.octets.len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use avocet_testkit::Chance;

    use super::*;

    #[test]
    fn texts_keep_their_numbers_while_others_arrive() {
        let chance = &mut Chance::new(1);
        let mut interned = Interned::default();
        for _ in 0..2 {
            let mut model: HashMap<String, u32> = HashMap::new();
            for _ in 0..2000 {
                let text = format!("name-{}", chance.below(700));
                let next = model.len() as u32;
                let expected = *model.entry(text.clone()).or_insert(next);
                assert_eq!(interned.number(text.as_bytes()), expected);
            }
            for (text, number) in &model {
                assert_eq!(interned.get(*number), text.as_bytes());
            }
            assert_eq!(interned.len(), model.len());
            assert_eq!(interned.get(model.len() as u32), b"");
            interned.clear();
            assert_eq!((interned.len(), interned.octets()), (0, 0));
        }
    }
}
