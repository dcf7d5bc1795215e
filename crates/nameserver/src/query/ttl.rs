//! TTLs of an answer: within the bounds of a rule, and no longer than the policy stays the same.

use std::num::NonZeroU32;

use avocet_wire::MessageView;

use crate::policy::Validity;

/// On what terms an answer is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Terms {
    /// The least TTL, in seconds.
    least_secs: u32,
    /// The greatest TTL, in seconds; it goes before the least one.
    greatest_secs: u32,
    /// Whether the answer is for this query alone.
    per_query: bool,
}

impl Terms {
    /// None.
    pub(super) const FREE: Self = Self { least_secs: 0, greatest_secs: u32::MAX, per_query: false };

    pub(super) fn of(validity: Validity, bounds: Option<(u32, u32)>) -> Self {
        let (least_secs, greatest_secs) = bounds.unwrap_or((0, u32::MAX));
        // No client keeps an answer past the time at which the policy may say something else.
        let greatest_secs = greatest_secs.max(least_secs).min(validity.secs);
        Self { least_secs, greatest_secs, per_query: validity.per_query }
    }

    /// Whether TTLs stay as they are.
    pub(super) fn leave_ttls(self) -> bool {
        self.least_secs == 0 && self.greatest_secs == u32::MAX
    }

    fn clamp(self, ttl_secs: u32) -> u32 {
        ttl_secs.max(self.least_secs).min(self.greatest_secs)
    }

    /// Brings the TTLs of a message within the bounds.
    pub(super) fn clamp_ttls(self, message: &mut [u8], offsets: &[u16]) {
        if !self.leave_ttls() {
            change_ttls(message, offsets, |ttl_secs| self.clamp(ttl_secs));
        }
    }

    /// The same for expired data, whose TTLs are not raised (RFC 8767 §5).
    pub(super) fn cut_ttls(self, message: &mut [u8], offsets: &[u16]) {
        cut_ttls(message, offsets, self.greatest_secs);
    }

    /// How long an answer may be given again that may be for so long. What may not be at all stays
    /// so, whatever the least TTL is.
    pub(super) fn kept_for(self, secs: Option<NonZeroU32>) -> Option<NonZeroU32> {
        let secs = secs.filter(|_| !self.per_query)?;
        NonZeroU32::new(self.clamp(secs.get()))
    }
}

/// Lowers the TTLs of a message to so many seconds.
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

/// How an answer whose TTLs stand still may be kept.
#[derive(Default)]
pub(super) struct Dated {
    /// Offsets of the TTL fields that count down all the same.
    pub(super) offsets: Vec<u16>,
    /// For how many seconds it may be kept.
    pub(super) valid_secs: u32,
}

/// Cuts the TTLs of an answer where the policy may say something else before they have passed.
pub(super) fn until_change(message: &mut [u8], validity: Validity) -> Dated {
    if validity.secs == u32::MAX {
        return Dated { valid_secs: validity.kept_secs(), ..Dated::default() };
    }
    let (offsets, longest_secs) = ttl_offsets(message);
    if longest_secs < validity.secs {
        // Whoever gets it last has forgotten it in time.
        return Dated {
            valid_secs: validity.kept_secs().saturating_sub(longest_secs),
            ..Dated::default()
        };
    }
    cut_ttls(message, &offsets, validity.secs);
    Dated { offsets, valid_secs: validity.kept_secs() }
}

/// The offsets of the TTL fields of a message without OPT, and the longest TTL in seconds.
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

/// Cuts the TTLs of a message without OPT at the next change of the policy.
pub(super) fn cut_at_change(message: &mut [u8], validity: Validity) {
    if validity.secs < u32::MAX {
        let (offsets, _) = ttl_offsets(message);
        cut_ttls(message, &offsets, validity.secs);
    }
}
