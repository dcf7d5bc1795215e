//! Random choices from a seed, and the actions of policy zones.

/// A public name as the target of redirections.
pub(crate) const GARDEN: &str = "garden.example";
/// A local record.
pub(crate) const OWN: &str = "nas.home";

/// A random generator (SplitMix64).
pub(crate) struct Choices(pub(crate) u64);

impl Choices {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Returns true with a probability of one in `count`.
    pub(crate) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// The action of a trigger.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum ZoneAction {
    Nxdomain,
    Nodata,
    Passthru,
    Drop,
    TcpOnly,
    To(&'static str),
}

impl ZoneAction {
    pub(crate) fn text(self) -> String {
        match self {
            Self::Nxdomain => ".".to_owned(),
            Self::Nodata => "*.".to_owned(),
            Self::Passthru => "rpz-passthru.".to_owned(),
            Self::Drop => "rpz-drop.".to_owned(),
            Self::TcpOnly => "rpz-tcp-only.".to_owned(),
            Self::To(name) => format!("{name}."),
        }
    }

    pub(crate) fn any(choices: &mut Choices) -> Self {
        choices.of(&[
            Self::Nxdomain,
            Self::Nodata,
            Self::Passthru,
            Self::Drop,
            Self::TcpOnly,
            Self::To(GARDEN),
            Self::To(OWN),
        ])
    }
}
