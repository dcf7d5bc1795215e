//! A cache of signatures that were made for answers. Without it, each query with the DO bit in a
//! flood of equal queries would need a new signature, which takes ten times as long as the rest of
//! the answer.
//!
//! No worker waits for another: if a slot is locked, the signature counts as missing. The lock is
//! held for one comparison and one clone of an [`Arc`].

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, OnceLock};

/// Number of slots, which is enough because few names of a zone have addresses that are determined
/// for each answer.
const SLOTS: usize = 256;
/// Maximum number of octets of an RRset with its owner and times. It limits the cache of a zone to
/// about half a MiB.
const MAX_OCTETS: usize = 1024;
/// Time in seconds for which a signature is used again, which is short compared with its validity
/// of at least a day.
const REUSE_SECS: u64 = 300;

/// A cache of the signatures of recent RRsets. A new RRset replaces the one in its slot.
#[derive(Default)]
pub(crate) struct SignatureCache {
    hasher: RandomState,
    /// The slots, which are allocated when the first signature is stored.
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
    /// Returns the signatures that were stored for the same content. `now_secs` is the Unix time.
    pub(crate) fn find(&self, content: &[u8], now_secs: u64) -> Option<Signatures> {
        let slots = self.slots.get()?;
        let slot = slots[self.slot(content)].try_lock().ok()?;
        let kept = slot.as_ref().filter(|kept| *kept.content == *content)?;
        let is_fresh = (kept.made_secs..kept.made_secs + REUSE_SECS).contains(&now_secs);
        is_fresh.then(|| kept.signatures.clone())
    }

    /// Stores signatures for this content. `now_secs` is the Unix time.
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
