//! A timer wheel: one timer for each entry, in slots with linked lists. The cost of setting,
//! clearing and expiring a timer does not depend on the number of timers.

/// Width of a slot in ms. Timers expire up to this time late.
const TICK_MS: u64 = 4;
/// Number of slots of the wheel. They cover 8 s, more than the longest timer.
const SLOTS: usize = 2048;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
    /// The tick at which the timer expires; `u64::MAX` if it is not set.
    tick: u64,
}

const UNSET: Link = Link { previous: NONE, next: NONE, tick: u64::MAX };

/// A timer wheel; see the module.
#[derive(Debug)]
pub(crate) struct Wheel {
    heads: Vec<u32>,
    occupied: [u64; SLOTS / 64],
    links: Vec<Link>,
    /// The current tick. The slots of all earlier ticks are empty.
    position: u64,
}

impl Wheel {
    pub(crate) fn new() -> Self {
        Self { heads: vec![NONE; SLOTS], occupied: [0; SLOTS / 64], links: Vec::new(), position: 0 }
    }

    /// Sets or moves the timer of `entry`.
    pub(crate) fn set(&mut self, entry: u32, at_ms: u64) {
        if self.links.len() <= entry as usize {
            self.links.resize(entry as usize + 1, UNSET);
        }
        let tick = at_ms.div_ceil(TICK_MS).max(self.position);
        if self.links[entry as usize].tick == tick {
            return;
        }
        self.clear(entry);
        let slot = slot_of(tick);
        let next = self.heads[slot];
        self.links[entry as usize] = Link { previous: NONE, next, tick };
        if next != NONE {
            self.links[next as usize].previous = entry;
        }
        self.heads[slot] = entry;
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// Stops the timer of `entry`, if it is set.
    pub(crate) fn clear(&mut self, entry: u32) {
        let Some(&link) = self.links.get(entry as usize) else { return };
        if link.tick == u64::MAX {
            return;
        }
        let slot = slot_of(link.tick);
        if link.previous == NONE {
            self.heads[slot] = link.next;
        } else {
            self.links[link.previous as usize].next = link.next;
        }
        if link.next != NONE {
            self.links[link.next as usize].previous = link.previous;
        }
        if self.heads[slot] == NONE {
            self.occupied[slot / 64] &= !(1 << (slot % 64));
        }
        self.links[entry as usize] = UNSET;
    }

    /// Removes and returns one entry with an expired timer.
    pub(crate) fn expired(&mut self, now_ms: u64) -> Option<u32> {
        let now = now_ms / TICK_MS;
        // If the clock jumped by more than one round of the wheel, one round suffices.
        self.position = self.position.max(now.saturating_sub(SLOTS as u64 - 1));
        while self.position <= now {
            let mut entry = self.heads[slot_of(self.position)];
            while entry != NONE {
                let link = self.links[entry as usize];
                if link.tick <= now {
                    self.clear(entry);
                    return Some(entry);
                }
                entry = link.next;
            }
            self.position =
                self.next_occupied(self.position + 1).map_or(now + 1, |tick| tick.min(now + 1));
        }
        None
    }

    /// Returns a time in ms that is not later than the expiry of the next timer.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        self.next_occupied(self.position).map(|tick| tick * TICK_MS)
    }

    /// Returns the first tick from `from` on, within one round of the wheel, whose slot has a
    /// timer.
    fn next_occupied(&self, from: u64) -> Option<u64> {
        let start = slot_of(from);
        let words = SLOTS / 64;
        for step in 0..=words {
            let word = (start / 64 + step) % words;
            let mask = match step {
                0 => u64::MAX << (start % 64),
                _ if step == words => !(u64::MAX << (start % 64)),
                _ => u64::MAX,
            };
            let bits = self.occupied[word] & mask;
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                return Some(from + ((slot + SLOTS - start) % SLOTS) as u64);
            }
        }
        None
    }
}

fn slot_of(tick: u64) -> usize {
    tick as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the wheel with a plain list, with steps of the clock from zero to more than a
    /// round.
    #[test]
    fn timers_fire_once_in_time_and_not_after_clearing() {
        let mut wheel = Wheel::new();
        let mut model = vec![None; 64];
        let mut state = 7u64;
        let mut now = 1_000_000;
        for _ in 0..20_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let entry = (state >> 33) as usize % 64;
            match state >> 60 {
                0..=7 => {
                    let at = now + (state >> 40) % 5000;
                    wheel.set(entry as u32, at);
                    model[entry] = Some(at.next_multiple_of(TICK_MS));
                }
                8..=9 => {
                    wheel.clear(entry as u32);
                    model[entry] = None;
                }
                kind => {
                    now += if kind == 15 { 9000 } else { (state >> 40) % 20 };
                    while let Some(fired) = wheel.expired(now) {
                        assert!(model[fired as usize].take().is_some_and(|at| at <= now));
                    }
                    assert!(model.iter().flatten().all(|&at| at > now));
                }
            }
            let first = model.iter().flatten().min().copied();
            assert_eq!(wheel.next_ms().is_some(), first.is_some());
            assert!(wheel.next_ms() <= first);
        }
    }
}
