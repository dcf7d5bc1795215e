//! The health of one target, from the results of its probes.

/// Maximum number of results that are remembered of a target.
pub const MAX_PROBE_WINDOW: u8 = 64;
/// Milliseconds after which the penalty for a failure has halved.
const HALF_LIFE_MS: u64 = 300_000;
/// The penalty of one change to down.
const PENALTY: u32 = 1_000;
/// Maximum number of doublings of `rise` for a target that keeps going down.
const MAX_DOUBLINGS: u32 = 3;

/// Number of results that change the health of a target.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Thresholds {
    /// Successes in a row after which a target is up, 1 to `window`.
    pub rise: u8,
    /// Failures among the last `window` results after which the target is down, 1 to `window`.
    pub fall: u8,
    /// The number of results that are considered, at most [`MAX_PROBE_WINDOW`].
    pub window: u8,
    /// The requirements for a target that went down several times within minutes.
    pub damping: Damping,
}

/// Whether a target that repeatedly goes down needs more successes each time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Damping {
    /// `rise` doubles with each change to down within minutes, up to eight times its value.
    Doubled,
    /// The value of `rise` is always the same.
    Off,
}

/// Whether a target is usable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HealthState {
    /// No probe has ended yet. The target counts as up: a new pool must not start without
    /// addresses.
    Unknown,
    /// The target is up.
    Up,
    /// The target is down.
    Down,
}

impl HealthState {
    /// Returns the name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// A change of the health of a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HealthChange {
    /// The state before.
    pub from: HealthState,
    /// The state now.
    pub to: HealthState,
}

/// The health of a target.
///
/// ```text
/// unknown --first result--------------------------------------> up or down
/// up      --`fall` failures in the window since it came up----> down
/// down    --`rise` successes in a row, more if it is damped---> up
/// ```
/// Failures need not be consecutive, so that a target that answers every other probe goes down. A
/// target that answers no probe is down after `fall` probes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TargetHealth {
    state: HealthState,
    /// The results since the last change, the latest in the lowest bit; 1 is a success.
    results: u64,
    /// The number of results, at most [`MAX_PROBE_WINDOW`].
    count: u8,
    /// The penalty for changes to down at `penal_at_ms`.
    penalty: u32,
    penal_at_ms: u64,
}

impl Default for TargetHealth {
    fn default() -> Self {
        Self::of(HealthState::Unknown)
    }
}

impl TargetHealth {
    /// Creates the health of a target with a known state.
    #[must_use]
    pub const fn of(state: HealthState) -> Self {
        Self { state, results: 0, count: 0, penalty: 0, penal_at_ms: 0 }
    }

    /// Returns the state.
    #[must_use]
    pub const fn state(&self) -> HealthState {
        self.state
    }

    /// Takes the result of a probe that ended at `now_ms`, on any clock that does not go back.
    /// Returns the change that follows.
    pub fn take(
        &mut self,
        result: ProbeVerdict,
        now_ms: u64,
        thresholds: &Thresholds,
    ) -> Option<HealthChange> {
        let is_success = result == ProbeVerdict::Success;
        self.results = self.results << 1 | u64::from(is_success);
        self.count = (self.count + 1).min(MAX_PROBE_WINDOW);
        let from = self.state;
        let to = match from {
            HealthState::Unknown if is_success => HealthState::Up,
            HealthState::Unknown => HealthState::Down,
            HealthState::Up if self.failures(thresholds.window) >= u32::from(thresholds.fall) => {
                HealthState::Down
            }
            HealthState::Down if self.successes() >= self.rise(now_ms, thresholds) => {
                HealthState::Up
            }
            state => state,
        };
        if to == from {
            return None;
        }
        if to == HealthState::Down && from == HealthState::Up {
            self.penalty = self.decayed(now_ms).saturating_add(PENALTY);
            self.penal_at_ms = now_ms;
        }
        (self.state, self.results, self.count) = (to, 0, 0);
        Some(HealthChange { from, to })
    }

    /// Returns the successes in a row that the target needs to come up.
    #[must_use]
    pub fn rise(&self, now_ms: u64, thresholds: &Thresholds) -> u32 {
        let doublings = match thresholds.damping {
            Damping::Off => 0,
            // A penalty that has decayed by less than half still counts as a change to down.
            Damping::Doubled => (self.decayed(now_ms) + PENALTY / 2) / PENALTY,
        };
        let doublings = doublings.saturating_sub(1).min(MAX_DOUBLINGS);
        (u32::from(thresholds.rise) << doublings).min(MAX_PROBE_WINDOW.into())
    }

    fn decayed(&self, now_ms: u64) -> u32 {
        let halvings = now_ms.saturating_sub(self.penal_at_ms) / HALF_LIFE_MS;
        self.penalty.checked_shr(u32::try_from(halvings).unwrap_or(u32::MAX)).unwrap_or(0)
    }

    /// Returns the failures among the last `window` results since the last change.
    fn failures(&self, window: u8) -> u32 {
        let counted = self.count.min(window).min(MAX_PROBE_WINDOW);
        let bits = u64::MAX.checked_shr(64 - u32::from(counted)).unwrap_or(0);
        (!self.results & bits).count_ones()
    }

    /// Returns the successes in a row up to now.
    fn successes(&self) -> u32 {
        self.results.trailing_ones().min(self.count.into())
    }
}

/// The result of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeVerdict {
    /// The target meets the requirements of the probe.
    Success,
    /// The target is not healthy, or it did not reply in time.
    Failure,
}

/// The setting of an operator for an address of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum MemberControl {
    /// The probes decide whether the address is in the answers.
    #[default]
    Auto,
    /// The address is in the answers, whatever its probes say.
    Up,
    /// The address is in no answer.
    Down,
    /// The address is in answers only if no other address is usable.
    Drain,
}

impl MemberControl {
    /// All values.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Up, Self::Down, Self::Drain];

    /// Returns the name in commands and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Up => "up",
            Self::Down => "down",
            Self::Drain => "drain",
        }
    }

    /// Returns the control with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|control| control.name() == name)
    }
}

/// The addresses of a pool that an answer may contain, as sets of their positions.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PoolMasks {
    /// The usable targets that are not drained.
    pub healthy: u64,
    /// The usable targets that are drained. An answer contains them only if `healthy` is empty.
    pub drained: u64,
    /// The targets that no operator has taken out. An answer may contain them if none is usable.
    pub present: u64,
}

impl PoolMasks {
    /// Returns the sets for members in their order, at most 64.
    #[must_use]
    pub fn of(members: impl IntoIterator<Item = (HealthState, MemberControl)>) -> Self {
        let mut masks = Self::default();
        for (position, (state, control)) in members.into_iter().take(64).enumerate() {
            let bit = 1 << position;
            let is_up = state != HealthState::Down;
            masks.present |= if control == MemberControl::Down { 0 } else { bit };
            match control {
                MemberControl::Up => masks.healthy |= bit,
                MemberControl::Auto if is_up => masks.healthy |= bit,
                MemberControl::Drain if is_up => masks.drained |= bit,
                _ => {}
            }
        }
        masks
    }

    /// Returns the sets of a pool in which nothing is known of its `members`.
    #[must_use]
    pub fn unknown(members: usize) -> Self {
        Self::of((0..members).map(|_| (HealthState::Unknown, MemberControl::Auto)))
    }
}

/// Returns the time of the next probe of a target whose last probe began at `began_ms`. It is one
/// interval later, minus up to a tenth by `random`, so that servers that started together do not
/// probe together.
#[must_use]
pub fn next_probe_ms(began_ms: u64, interval_ms: u64, random: u16) -> u64 {
    began_ms + interval_ms - interval_ms * u64::from(random) / (10 * (1 << 16))
}
