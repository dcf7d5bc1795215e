//! Conditions: defects of the server's surroundings that last, such as a table of the kernel that
//! it may not read. Each is one warning in the log when it begins and one line when it ends; in
//! between, `/health` and the metrics report it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

/// A kind of defect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Condition {
    /// No name can be resolved.
    Resolution,
    /// The kernel's table of neighbours cannot be read, and the policy knows clients by MAC
    /// address.
    Neighbours,
    /// The file of leases cannot be read.
    Leases,
    /// The addresses of the host cannot be read, and `allow` has `local`.
    Interfaces,
    /// All of IPv6 is listened on, and clients of the host's own networks of IPv6 are refused.
    Allow,
    /// The disk does not take what was changed by commands, or the state of trust anchors.
    State,
    /// A fault interrupted the keeping of lists.
    Lists,
    /// A fault ended a thread that works beside the main thread.
    Threads,
}

/// All kinds, in the order in which they are shown.
const ALL: [Condition; 8] = [
    Condition::Resolution,
    Condition::Neighbours,
    Condition::Leases,
    Condition::Interfaces,
    Condition::Allow,
    Condition::State,
    Condition::Lists,
    Condition::Threads,
];

impl Condition {
    /// The name in metrics and on the control socket.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Resolution => "resolution",
            Self::Neighbours => "neighbours",
            Self::Leases => "leases",
            Self::Interfaces => "interfaces",
            Self::Allow => "allow",
            Self::State => "state",
            Self::Lists => "lists",
            Self::Threads => "threads",
        }
    }
}

/// The conditions that hold now, each with its cause and the remedy in one sentence.
#[derive(Default)]
pub(crate) struct Conditions {
    current: Mutex<BTreeMap<Condition, String>>,
}

impl Conditions {
    /// Records that a condition holds, or with `None` that it does not. The log gets a line when
    /// that changes, and none when only the text does.
    pub(crate) fn set(&self, condition: Condition, text: Option<String>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match text {
            Some(text) => {
                if !current.contains_key(&condition) {
                    tracing::warn!("{text}");
                }
                current.insert(condition, text);
            }
            None => {
                if current.remove(&condition).is_some() {
                    tracing::info!(condition = condition.name(), "condition resolved");
                }
            }
        }
    }

    /// Does work in which a panic ends the work and not the thread: `condition` holds then, with
    /// this text, until the work succeeds. The work must leave nothing half changed that others
    /// read.
    pub(crate) fn contain<T>(
        &self,
        condition: Condition,
        text: &str,
        work: impl FnOnce() -> T,
    ) -> Option<T> {
        let done = catch_unwind(AssertUnwindSafe(work)).ok();
        self.set(condition, done.is_none().then(|| text.to_owned()));
        done
    }

    /// Whether a condition holds.
    pub(crate) fn holds(&self, condition: Condition) -> bool {
        self.text(condition).is_some()
    }

    /// The text of one condition, if it holds.
    pub(crate) fn text(&self, condition: Condition) -> Option<String> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).get(&condition).cloned()
    }

    /// All that hold, with their texts.
    pub(crate) fn all(&self) -> BTreeMap<Condition, String> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Every kind, and whether it holds.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (Condition, bool)> {
        let current = self.all();
        ALL.into_iter().map(move |condition| (condition, current.contains_key(&condition)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_holds_from_the_first_report_until_it_is_withdrawn() {
        let conditions = Conditions::default();
        conditions.set(Condition::Leases, None);
        assert!(conditions.all().is_empty());
        conditions.set(Condition::Leases, Some("first".to_owned()));
        conditions.set(Condition::Leases, Some("second".to_owned()));
        assert_eq!(conditions.text(Condition::Leases).as_deref(), Some("second"));
        assert_eq!(conditions.kinds().filter(|(_, holds)| *holds).count(), 1);
        conditions.set(Condition::Leases, None);
        assert!(conditions.all().is_empty());
    }

    #[test]
    fn a_fault_is_a_condition_until_the_work_succeeds() {
        let conditions = Conditions::default();
        let work =
            |fails: usize| conditions.contain(Condition::Lists, "a fault", || assert_eq!(fails, 0));
        assert!(
            work(1).is_none() && conditions.text(Condition::Lists).as_deref() == Some("a fault")
        );
        assert!(work(0).is_some() && conditions.text(Condition::Lists).is_none());
    }

    #[test]
    fn every_kind_is_listed_once() {
        assert!(ALL.is_sorted() && ALL.windows(2).all(|pair| pair[0].name() != pair[1].name()));
    }
}
