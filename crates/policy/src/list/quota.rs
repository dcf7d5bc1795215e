//! Shares in the limits that all lists of an image have together.
//!
//! The operator's own lists may take all there is. A list that was fetched takes a part at most, so
//! that it cannot use up what others need; the compiler reads the operator's own lists first.

use super::reader::Origin;
use super::reason::Reason;

/// The part of a limit that one fetched list may take: one in so many.
const SHARE: usize = 4;

/// A limit of an image, and what is taken of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quota {
    what: &'static str,
    limit: usize,
    share: usize,
    taken: usize,
    /// By the list that is being read.
    by_list: usize,
}

impl Quota {
    /// A limit on things of this name.
    pub(super) const fn of(limit: usize, what: &'static str) -> Self {
        Self { what, limit, share: limit / SHARE, taken: 0, by_list: 0 }
    }

    /// The same where one fetched list may take half of it.
    pub(super) const fn halves(self) -> Self {
        Self { share: self.limit / 2, ..self }
    }

    /// Another list is read from here on.
    pub(super) const fn begin_list(&mut self) {
        self.by_list = 0;
    }

    /// Is there room for so many more?
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

    /// Takes so many.
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
