//! The numbers that record when each part of a snapshot last changed.

/// The generation of each part of a [`Snapshot`](super::Snapshot): the number of the last change of
/// this part. All parts count in one sequence, from 1, so the numbers of two parts can be compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Generations {
    /// The last change of the configuration. Answers depend on the configuration only through the
    /// other parts.
    pub configuration: u32,
    /// The last change of the policy's decisions for any profile (clients that the policy treats
    /// alike). A new table of clients or neighbours is no such change while each profile has the
    /// same properties.
    pub policy: u32,
    /// The last change of what rules decide. It is earlier than that of the policy if only the
    /// entries of lists have changed since, and no rule tests lists.
    pub rules: u32,
    /// The last change of the settings for resolution and validation.
    pub plan: u32,
    /// The last change of the names that this server answers from its own data.
    pub names: u32,
}

impl Generations {
    /// The generations of the first snapshot.
    pub const FIRST: Self = Self { configuration: 1, policy: 1, rules: 1, plan: 1, names: 1 };

    /// Returns the number of the last change that may alter an answer.
    pub fn epoch(self) -> u32 {
        self.policy.max(self.plan).max(self.names)
    }

    /// Returns the number of the last change of any part.
    pub fn revision(self) -> u32 {
        self.epoch().max(self.configuration)
    }

    /// Returns the number of the next change.
    pub(super) fn following(self) -> u32 {
        self.revision().wrapping_add(1)
    }
}
