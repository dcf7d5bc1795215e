//! Conditions: defects of the server's surroundings that last, such as a table of the kernel that it may not read. Each
//! is one warning in the log when it begins and one line when it ends; in between, `/health` and the metrics report it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A kind of defect.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Condition {
    /// The kernel's table of neighbours cannot be read, and the policy knows clients by MAC address.
    Neighbours,
    /// The file of leases cannot be read.
    Leases,
}

/// All kinds, in the order in which they are shown.
const ALL: [Condition; 2] = [Condition::Neighbours, Condition::Leases];

impl Condition {
    /// The name in metrics and on the control socket.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Neighbours => "neighbours",
            Self::Leases => "leases",
        }
    }
}

/// The conditions that hold now, each with its cause and the remedy in one sentence.
#[derive(Default)]
pub(crate) struct Conditions {
    current: Mutex<BTreeMap<Condition, String>>,
}

impl Conditions {
    /// Records that a condition holds, or with `None` that it does not. The log gets a line when that changes, and none
    /// when only the text does.
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
                    tracing::info!(condition = condition.name(), "a condition has ended that was warned of");
                }
            }
        }
    }

    /// The text of one condition, if it holds.
    #[cfg(test)]
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
    fn every_kind_is_listed_once() {
        assert!(ALL.is_sorted() && ALL.windows(2).all(|pair| pair[0].name() != pair[1].name()));
    }
}
