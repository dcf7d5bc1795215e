//! Signatures that were made for earlier answers. A flood of equal queries with DO would otherwise
//! cost a signature each, ten times as much as the rest of the answer.
//!
//! No worker waits for another: a slot in use is a miss. The lock is held for one comparison and
//! one clone of an [`Arc`].

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, OnceLock};

/// Number of slots. A zone has few names whose addresses are made for an answer.
const SLOTS: usize = 256;
/// Maximum number of octets of an RRset with its owner and times, so that the cache of a zone takes
/// at most half a MiB.
const MAX_OCTETS: usize = 1024;
/// Seconds for which a signature is used again: much less than its validity of at least a day.
const REUSE_SECS: u64 = 300;

/// The signatures of recent RRsets. A new RRset replaces the RRset in its slot.
#[derive(Default)]
pub(crate) struct SignatureCache {
    hasher: RandomState,
    /// Allocated with the first signature.
    slots: OnceLock<Box<[Mutex<Option<KeptSignatures>>]>>,
}

struct KeptSignatures {
    content: Box<[u8]>,
    made_secs: u64,
    signatures: Signatures,
}

/// The data of the RRSIG records of an RRset, one for each key.
pub(crate) type Signatures = Arc<[Vec<u8>]>;

impl SignatureCache {
    /// Returns the signatures that were kept for equal content. `now_secs` is the time since 1970.
    pub(crate) fn find(&self, content: &[u8], now_secs: u64) -> Option<Signatures> {
        let slots = self.slots.get()?;
        let slot = slots[self.slot(content)].try_lock().ok()?;
        let kept = slot.as_ref().filter(|kept| *kept.content == *content)?;
        let is_fresh = (kept.made_secs..kept.made_secs + REUSE_SECS).contains(&now_secs);
        is_fresh.then(|| kept.signatures.clone())
    }

    /// Keeps signatures.
    pub(crate) fn keep(&self, content: &[u8], now_secs: u64, signatures: &Signatures) {
        if content.len() > MAX_OCTETS {
            return;
        }
        let slots = self.slots.get_or_init(|| (0..SLOTS).map(|_| Mutex::new(None)).collect());
        if let Ok(mut slot) = slots[self.slot(content)].try_lock() {
            let signatures = signatures.clone();
            *slot =
                Some(KeptSignatures { content: content.into(), made_secs: now_secs, signatures });
        }
    }

    fn slot(&self, content: &[u8]) -> usize {
        self.hasher.hash_one(content) as usize % SLOTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_used_again_for_equal_content_and_for_some_minutes() {
        let cache = SignatureCache::default();
        let made: Signatures = [vec![1], vec![2]].into();
        assert_eq!(cache.find(b"one", 1_000), None);
        cache.keep(b"one", 1_000, &made);
        assert_eq!(cache.find(b"one", 1_000).as_ref(), Some(&made));
        assert_eq!(cache.find(b"one", 1_299).as_ref(), Some(&made));
        assert_eq!(cache.find(b"one", 1_300), None, "too old");
        assert_eq!(cache.find(b"one", 999), None, "the clock was set back");
        assert_eq!(cache.find(b"two", 1_000), None);
    }

    #[test]
    fn many_and_large_rrsets_take_bounded_memory() {
        let cache = SignatureCache::default();
        let made: Signatures = [vec![1]].into();
        let content = |number: u32| number.to_be_bytes();
        (0..10_000).for_each(|number| cache.keep(&content(number), 0, &made));
        let kept = (0..10_000).filter(|number| cache.find(&content(*number), 0).is_some()).count();
        assert!((SLOTS / 2..=SLOTS).contains(&kept), "{kept}");
        cache.keep(&[7; MAX_OCTETS + 1], 0, &made);
        assert_eq!(cache.find(&[7; MAX_OCTETS + 1], 0), None);
    }
}
