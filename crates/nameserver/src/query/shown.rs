//! The additional addresses in an answer: addresses of names other than the QNAME and its aliases.

use std::cell::Cell;

use avocet_wire::{FoldedName, Rtype};

use super::context::{Query, QueryContext};
use super::ttl::{self, Terms};
use crate::policy::{self, Decider, QuestionVerdict, Validity};

/// The policy's check of the additional addresses in an answer.
pub(super) struct ShownHosts<'c, 'q> {
    cx: &'c QueryContext<'c>,
    query: &'c Query<'q>,
    /// Number of seconds for which the policy's decisions on these addresses are valid.
    until_secs: Cell<u32>,
}

impl<'c, 'q> ShownHosts<'c, 'q> {
    /// Creates the check for a query; returns `None` if there is no policy.
    #[inline]
    pub(super) fn of(cx: &'c QueryContext<'c>, query: &'c Query<'q>) -> Option<Self> {
        cx.state.policy.as_ref()?;
        Some(Self { cx, query, until_secs: Cell::new(u32::MAX) })
    }

    /// Returns whether the answer may contain the addresses (records of this type) of a name. This
    /// is the case if the policy would not block a query of the client for these records.
    pub(super) fn show(&self, qname: FoldedName<'_>, qtype: Rtype) -> bool {
        let Self { cx, query, until_secs } = self;
        let Some(policy) = &cx.state.policy else { return true };
        let asked = policy::Asked { qname, qtype, ..query.for_policy() };
        let mut scratch = cx.scratch.policy();
        let ruling = policy.unasked(&asked, cx.moment(), &mut scratch);
        until_secs.set(until_secs.get().min(ruling.validity.secs));
        // Lists do not override the names for which the operator has configured local records.
        matches!(ruling.verdict, QuestionVerdict::Pass)
            || ruling.by == Decider::List && cx.state.names.local.has(qname)
    }

    /// Limits the TTLs of the answer to the next change of the policy.
    pub(super) fn cut_at_change(&self, message: &mut [u8]) {
        let validity = Validity { secs: self.until_secs.get(), per_query: false };
        ttl::cut_at_change(message, Terms::of(validity, None, 0));
    }
}
