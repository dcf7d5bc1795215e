//! The limits on the TTLs of an answer: a rule's limits, and the time until the policy may change.

use std::num::NonZeroU32;

use avocet_wire::MessageView;

use super::finding::Lifetime;
use crate::policy::{Decider, Validity};

/// The limits that the policy sets on an answer that it allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Terms {
    /// The lowest TTL, in seconds.
    least_secs: u32,
    /// The highest TTL, in seconds. If it is less than the lowest TTL, the highest TTL applies.
    greatest_secs: u32,
    /// Whether the answer is valid for this query only, and must not be cached.
    pub(super) per_query: bool,
    /// The rule or list that allows the answer; see
    /// [`Decision::note`](super::decision::Decision::note).
    pub(super) note: u16,
    /// Whether lists have looked up the question and allow it.
    pub(super) lists_allow: bool,
}

impl Terms {
    /// Terms without conditions.
    pub(super) const FREE: Self = Self {
        least_secs: 0,
        greatest_secs: u32::MAX,
        per_query: false,
        note: 0,
        lists_allow: false,
    };

    /// Terms without conditions other than a highest TTL.
    pub(super) fn at_most(greatest_secs: u32) -> Self {
        Self { greatest_secs, ..Self::FREE }
    }

    pub(super) fn of(validity: Validity, bounds: Option<(u32, u32)>, note: u16) -> Self {
        let (least_secs, greatest_secs) = bounds.unwrap_or((0, u32::MAX));
        // The answer must expire before the policy changes, in every client's cache.
        let greatest_secs = greatest_secs.max(least_secs).min(validity.secs);
        let per_query = validity.per_query;
        Self { least_secs, greatest_secs, per_query, note, lists_allow: false }
    }

    /// Returns these terms, which then show whether lists allowed the question. `by` is the part of
    /// the policy that allowed it.
    pub(super) fn allowed_by(self, by: Decider) -> Self {
        Self { lists_allow: by == Decider::List, ..self }
    }

    /// Returns whether these terms change no TTL.
    pub(super) fn leave_ttls(self) -> bool {
        self.least_secs == 0 && self.greatest_secs == u32::MAX
    }

    fn clamp(self, ttl_secs: u32) -> u32 {
        ttl_secs.max(self.least_secs).min(self.greatest_secs)
    }

    /// Clamps the TTLs of a message to the limits.
    pub(super) fn clamp_ttls(self, message: &mut [u8], offsets: &[u16]) {
        if !self.leave_ttls() {
            change_ttls(message, offsets, |ttl_secs| self.clamp(ttl_secs));
        }
    }

    /// Limits the TTLs of expired data, but never raises them (RFC 8767 §5).
    pub(super) fn cut_ttls(self, message: &mut [u8], offsets: &[u16]) {
        cut_ttls(message, offsets, self.greatest_secs);
    }

    /// Limits the TTL of a local record.
    pub(super) fn cut(self, ttl_secs: u32) -> u32 {
        ttl_secs.min(self.greatest_secs)
    }

    /// Returns the seconds for which an answer may be cached if it could otherwise be cached for
    /// `secs`. An answer that could not be cached otherwise stays so, even if a lowest TTL is set.
    pub(super) fn kept_for(self, secs: Option<NonZeroU32>) -> Option<NonZeroU32> {
        let secs = secs.filter(|_| !self.per_query)?;
        NonZeroU32::new(self.clamp(secs.get()))
    }
}

/// Limits the TTLs of a message to `greatest_secs`.
pub(super) fn cut_ttls(message: &mut [u8], offsets: &[u16], greatest_secs: u32) {
    if greatest_secs < u32::MAX {
        change_ttls(message, offsets, |ttl_secs| ttl_secs.min(greatest_secs));
    }
}

fn change_ttls(message: &mut [u8], offsets: &[u16], changed: impl Fn(u32) -> u32) {
    for offset in offsets {
        let field = message.get_mut(usize::from(*offset)..).and_then(|rest| rest.first_chunk_mut());
        if let Some(field) = field {
            *field = changed(u32::from_be_bytes(*field)).to_be_bytes();
        }
    }
}

/// Limits the TTLs of a local answer to the next change of the policy. Returns how it may be
/// cached: its TTLs count down only if they were limited.
pub(super) fn until_change(message: &mut [u8], terms: Terms) -> Lifetime {
    let lasting = |secs: u32| NonZeroU32::new(secs).filter(|_| !terms.per_query);
    let fixed = |secs| lasting(secs).map_or(Lifetime::Unkept, Lifetime::Fixed);
    if terms.greatest_secs == u32::MAX {
        return fixed(u32::MAX);
    }
    let (offsets, longest_secs) = ttl_offsets(message);
    if longest_secs < terms.greatest_secs {
        // Even the last client that gets this answer from the packet cache discards the answer
        // before the policy changes.
        return fixed(terms.greatest_secs - longest_secs);
    }
    cut_ttls(message, &offsets, terms.greatest_secs);
    lasting(terms.greatest_secs).map_or(Lifetime::Unkept, Lifetime::Counting)
}

/// Returns the offsets of the TTL fields of a message without OPT, and the highest TTL in seconds.
pub(super) fn ttl_offsets(message: &[u8]) -> (Vec<u16>, u32) {
    let Ok(records) = MessageView::new(message).and_then(|view| view.records()) else {
        return (Vec::new(), 0);
    };
    let records =
        records.map_while(Result::ok).map(|record| (record.ttl_offset() as u16, record.ttl_secs()));
    records.fold((Vec::new(), 0), |(mut offsets, longest_secs), (offset, ttl_secs)| {
        offsets.push(offset);
        (offsets, longest_secs.max(ttl_secs))
    })
}

/// Limits the TTLs of a message without OPT to the next change of the policy.
pub(super) fn cut_at_change(message: &mut [u8], terms: Terms) {
    if terms.greatest_secs < u32::MAX {
        let (offsets, _) = ttl_offsets(message);
        cut_ttls(message, &offsets, terms.greatest_secs);
    }
}
