//! A limit on the entries of refused requests in the audit log. Without it, a user who may change
//! nothing could push the history out of the files.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Length of a window in seconds.
const WINDOW_SECS: u64 = 600;
/// Maximum number of entries of one author in a window.
const MAX_ENTRIES: u32 = 20;
/// Maximum number of authors that are counted separately.
const MAX_AUTHORS: usize = 2048;

/// The refused requests of each author in the present window.
#[derive(Default)]
pub(crate) struct Refusals(Mutex<HashMap<String, Window>>);

struct Window {
    began: u64,
    entries: u32,
    left_out: u64,
}

impl Refusals {
    /// Counts a refused request. Returns `None` if the request gets no entry; otherwise the number
    /// of earlier requests that got none.
    pub(crate) fn admit(&self, author: &str, now: u64) -> Option<u64> {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |window: &Window| now.saturating_sub(window.began) >= WINDOW_SECS;
        if windows.len() >= MAX_AUTHORS && !windows.contains_key(author) {
            windows.retain(|_, window| !is_over(window));
            if windows.len() >= MAX_AUTHORS {
                return None;
            }
        }
        let fresh = || Window { began: now, entries: 0, left_out: 0 };
        let window = windows.entry(author.to_owned()).or_insert_with(fresh);
        if is_over(window) {
            (window.began, window.entries) = (now, 0);
        }
        if window.entries >= MAX_ENTRIES {
            window.left_out += 1;
            return None;
        }
        window.entries += 1;
        Some(std::mem::take(&mut window.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_author_gets_some_entries_in_a_window_and_others_do_not_suffer() {
        let refusals = Refusals::default();
        let admitted = |author: &str, now| refusals.admit(author, now);
        for _ in 0..MAX_ENTRIES {
            assert_eq!(admitted("eve", 7), Some(0));
        }
        for _ in 0..100 {
            assert_eq!(admitted("eve", 8), None);
        }
        assert_eq!(admitted("ada", 8), Some(0));
        assert_eq!(admitted("eve", 7 + WINDOW_SECS), Some(100));
        assert_eq!(admitted("eve", 7 + WINDOW_SECS), Some(0));
    }

    #[test]
    fn the_authors_are_bounded() {
        let refusals = Refusals::default();
        let admitted = (0..10_000).filter(|n| refusals.admit(&n.to_string(), 7).is_some());
        assert_eq!(admitted.count(), MAX_AUTHORS);
        assert_eq!(refusals.admit("ada", 7 + WINDOW_SECS), Some(0));
    }
}
