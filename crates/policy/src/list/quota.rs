//! Shares of the limits that all lists of an image have in common.
//!
//! The operator's own lists may use a limit fully. A fetched list gets only a share, so that it
//! cannot exhaust the limit for other lists. The compiler reads the operator's own lists first.

use super::reader::Origin;
use super::reason::Reason;

/// The divisor of a limit that gives the share of each fetched list.
const SHARE: usize = 4;

/// A limit of an image and its current use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quota {
    what: &'static str,
    limit: usize,
    share: usize,
    taken: usize,
    /// Number of items that the current list has used.
    by_list: usize,
}

impl Quota {
    /// Creates a limit on the number of items described by `what`.
    pub(super) const fn of(limit: usize, what: &'static str) -> Self {
        Self { what, limit, share: limit / SHARE, taken: 0, by_list: 0 }
    }

    /// Raises the share of each fetched list to half of the limit.
    pub(super) const fn halves(self) -> Self {
        Self { share: self.limit / 2, ..self }
    }

    /// Starts another list.
    pub(super) const fn begin_list(&mut self) {
        self.by_list = 0;
    }

    /// Checks whether there is room for `count` more items.
    ///
    /// # Errors
    /// The limit or the list's share of it is reached.
    pub(super) fn room_for(&self, count: usize, origin: Origin) -> Result<(), Reason> {
        if self.taken + count > self.limit {
            return Err(Reason::Limit(self.what));
        }
        if origin == Origin::Fetched && self.by_list + count > self.share {
            return Err(Reason::Share(self.what));
        }
        Ok(())
    }

    /// Uses up `count` items of the limit.
    pub(super) const fn take(&mut self, count: usize) {
        self.taken += count;
        self.by_list += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fetched_list_takes_its_share_and_own_lists_the_rest() {
        let mut quota = Quota::of(100, "things");
        for _ in 0..25 {
            assert_eq!(quota.room_for(1, Origin::Fetched), Ok(()));
            quota.take(1);
        }
        assert_eq!(quota.room_for(1, Origin::Fetched), Err(Reason::Share("things")));
        assert_eq!(quota.room_for(75, Origin::Own), Ok(()));
        assert_eq!(quota.room_for(76, Origin::Own), Err(Reason::Limit("things")));
        quota.begin_list();
        assert_eq!(quota.room_for(25, Origin::Fetched), Ok(()));
        assert_eq!(Quota::of(100, "things").halves().room_for(50, Origin::Fetched), Ok(()));
    }
}
