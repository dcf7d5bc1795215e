//! Identifiers of lists, and sets of lists.

/// Maximum number of lists that are compiled together.
pub const MAX_LISTS: usize = 256;

/// The identifier of a list: its position in the configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ListId(u8);

impl ListId {
    /// Returns the list at this position, counted from zero, or `None` from [`MAX_LISTS`] on.
    #[must_use]
    pub fn at(place: usize) -> Option<Self> {
        u8::try_from(place).ok().map(Self)
    }

    /// Returns the position, counted from zero.
    #[must_use]
    pub const fn place(self) -> usize {
        self.0 as usize
    }

    pub(super) const fn octet(self) -> u8 {
        self.0
    }

    pub(super) const fn from_octet(octet: u8) -> Self {
        Self(octet)
    }
}

/// A set of lists, such as those in force for a client. Takes 32 octets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct ListSet {
    words: [u64; MAX_LISTS / 64],
}

impl ListSet {
    /// The empty set.
    pub const EMPTY: Self = Self { words: [0; MAX_LISTS / 64] };
    /// The set of all lists.
    pub const ALL: Self = Self { words: [u64::MAX; MAX_LISTS / 64] };

    /// Adds a list.
    pub fn insert(&mut self, list: ListId) {
        self.words[list.place() / 64] |= 1 << (list.place() % 64);
    }

    /// Removes a list.
    pub fn remove(&mut self, list: ListId) {
        self.words[list.place() / 64] &= !(1 << (list.place() % 64));
    }

    /// Reports whether the list is in the set.
    #[inline]
    #[must_use]
    pub fn contains(&self, list: ListId) -> bool {
        self.words[list.place() / 64] >> (list.place() % 64) & 1 == 1
    }

    /// Reports whether the set is empty.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words == [0; MAX_LISTS / 64]
    }

    /// Reports whether no list is in both sets.
    #[must_use]
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(one, other)| one & other == 0)
    }

    /// Returns the lists that are in either set.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self { words: std::array::from_fn(|at| self.words[at] | other.words[at]) }
    }

    /// Returns the lists that are in this set and not in the other.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        Self { words: std::array::from_fn(|at| self.words[at] & !other.words[at]) }
    }
}

impl FromIterator<ListId> for ListSet {
    fn from_iter<T: IntoIterator<Item = ListId>>(lists: T) -> Self {
        let mut set = Self::EMPTY;
        lists.into_iter().for_each(|list| set.insert(list));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_put_in_and_taken_out() {
        let list = |place| ListId::at(place).unwrap();
        let mut set: ListSet = [list(0), list(63), list(64), list(255)].into_iter().collect();
        assert!(set.contains(list(64)) && set.contains(list(255)) && !set.contains(list(1)));
        set.remove(list(64));
        assert!(!set.contains(list(64)) && !set.is_empty());
        assert_eq!(set.union(&ListSet::ALL), ListSet::ALL);
        assert_eq!(ListSet::ALL.without(&set).union(&set), ListSet::ALL);
        assert_eq!(set.without(&ListSet::ALL), ListSet::EMPTY);
        assert_eq!(ListId::at(MAX_LISTS), None);
    }
}
