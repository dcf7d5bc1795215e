//! Pools: names whose addresses depend on the health of their hosts. The code is free of I/O: it
//! gets times and the results of probes, and computes the health of each target and the addresses
//! of an answer.
//!
//! ```text
//! results of probes --> TargetHealth --+
//!                                      +--> PoolMasks --> PoolChoice: the addresses of an answer
//! control by people --> MemberControl -+
//! ```

mod choice;
mod continents;
mod health;
mod place;

pub use choice::{
    AddressFamily, ChosenBy, MAX_POOL_ADDRESSES, PoolChoice, PoolClient, PoolMember, PoolMode,
    PoolRule, WhenAllDown,
};
pub use continents::{CONTINENTS, continent_of};
pub use health::{
    Damping, HealthChange, HealthState, MAX_PROBE_WINDOW, MemberControl, PoolMasks, ProbeVerdict,
    TargetHealth, Thresholds, next_probe_ms,
};
pub use place::{ClientPlace, MemberPlace, PlaceNetwork};
