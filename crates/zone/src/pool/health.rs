//! The health of one target, determined from the results of its probes.

/// Maximum number of results that are remembered for a target.
pub const MAX_PROBE_WINDOW: u8 = 64;
/// Time in milliseconds after which a penalty has decayed to a half.
const HALF_LIFE_MS: u64 = 300_000;
/// The penalty for one change to [`HealthState::Down`].
const PENALTY: u32 = 1_000;
/// Maximum number of times that `rise` is doubled for a target that goes down repeatedly.
const MAX_DOUBLINGS: u32 = 3;

/// The numbers of results after which the health of a target changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Thresholds {
    /// Number of consecutive successes after which a target is up, from 1 to `window`.
    pub rise: u8,
    /// Number of failures among the last `window` results after which a target is down, from 1 to
    /// `window`.
    pub fall: u8,
    /// Number of last results that are considered, at most [`MAX_PROBE_WINDOW`].
    pub window: u8,
    /// Whether a target that repeatedly goes down needs more successes to come up.
    pub damping: Damping,
}

/// Whether a target that repeatedly goes down needs more successes each time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Damping {
    /// Each recent change to down doubles the number of successes that the target needs, up to
    /// eight times `rise`.
    Doubled,
    /// The target always needs `rise` successes.
    Off,
}

/// Whether a target is healthy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HealthState {
    /// No probe has ended yet. The target counts as up, so that a new pool has addresses.
    Unknown,
    /// The target is healthy.
    Up,
    /// The target is not healthy.
    Down,
}

impl HealthState {
    /// Returns the name that reports show.
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
/// Failures need not be consecutive: a target that answers only every other probe goes down. A
/// target that answers no probe is down after `fall` probes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TargetHealth {
    state: HealthState,
    /// The results since the last change, one bit each, with the latest in the lowest bit. A
    /// success is 1.
    results: u64,
    /// Number of results in `results`, at most [`MAX_PROBE_WINDOW`].
    count: u8,
    /// The penalty for changes to down, as it was at `penal_at_ms`.
    penalty: u32,
    penal_at_ms: u64,
}

impl Default for TargetHealth {
    fn default() -> Self {
        Self::of(HealthState::Unknown)
    }
}

impl TargetHealth {
    /// Creates the health of a target that is in a known state.
    #[must_use]
    pub const fn of(state: HealthState) -> Self {
        Self { state, results: 0, count: 0, penalty: 0, penal_at_ms: 0 }
    }

    /// Returns the state.
    #[must_use]
    pub const fn state(&self) -> HealthState {
        self.state
    }

    /// Adds the result of a probe that ended at `now_ms`, on any clock that is never set back.
    /// Returns the change that it causes.
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

    /// Returns the number of consecutive successes that the target needs to come up.
    #[must_use]
    pub fn rise(&self, now_ms: u64, thresholds: &Thresholds) -> u32 {
        let doublings = match thresholds.damping {
            Damping::Off => 0,
            // A change to down counts until its penalty has decayed to less than a half.
            Damping::Doubled => (self.decayed(now_ms) + PENALTY / 2) / PENALTY,
        };
        let doublings = doublings.saturating_sub(1).min(MAX_DOUBLINGS);
        (u32::from(thresholds.rise) << doublings).min(MAX_PROBE_WINDOW.into())
    }

    fn decayed(&self, now_ms: u64) -> u32 {
        let halvings = now_ms.saturating_sub(self.penal_at_ms) / HALF_LIFE_MS;
        self.penalty.checked_shr(u32::try_from(halvings).unwrap_or(u32::MAX)).unwrap_or(0)
    }

    /// Returns the number of failures among the last `window` results since the last change.
    fn failures(&self, window: u8) -> u32 {
        let counted = self.count.min(window).min(MAX_PROBE_WINDOW);
        let bits = u64::MAX.checked_shr(64 - u32::from(counted)).unwrap_or(0);
        (!self.results & bits).count_ones()
    }

    /// Returns the number of consecutive successes up to now.
    fn successes(&self) -> u32 {
        self.results.trailing_ones().min(self.count.into())
    }
}

/// The result of a probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeVerdict {
    /// The target replied as the probe requires.
    Success,
    /// The target did not reply in time, or not as the probe requires.
    Failure,
}

/// The setting of an operator for one address of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum MemberControl {
    /// The results of probes decide whether answers contain the address.
    #[default]
    Auto,
    /// Answers contain the address, whatever the results of probes are.
    Up,
    /// No answer contains the address.
    Down,
    /// Answers contain the address only if no other address is usable.
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

/// The addresses of a pool that an answer may contain. Each set has a bit for each position.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PoolMasks {
    /// The usable addresses that are not drained.
    pub healthy: u64,
    /// The usable addresses that are drained. An answer contains them only if `healthy` is empty.
    pub drained: u64,
    /// The addresses that no operator has disabled. An answer may contain them if no address is
    /// usable.
    pub present: u64,
}

impl PoolMasks {
    /// Computes the sets from the states and settings of the members, of which at most 64 are read.
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

    /// Creates the sets of a pool with this number of members before any probe has ended.
    #[must_use]
    pub fn unknown(members: usize) -> Self {
        Self::of((0..members).map(|_| (HealthState::Unknown, MemberControl::Auto)))
    }
}

/// Returns the time of the next probe of a target whose last probe began at `began_ms`. The time is
/// one interval later, minus a random part of up to a tenth of the interval, so that servers that
/// started at the same time do not probe at the same time.
#[must_use]
pub fn next_probe_ms(began_ms: u64, interval_ms: u64, random: u16) -> u64 {
    began_ms + interval_ms - interval_ms * u64::from(random) / (10 * (1 << 16))
}
