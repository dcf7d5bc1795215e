//! The pool of UDP sockets towards one server: how often each slot was used, how many queries are
//! outstanding on it, and when it is due for another port (RFC 5452 §9.2).

use chacha20::ChaCha12Rng;
use chacha20::rand_core::Rng;

/// Queries that a socket sends before it gets another port. A new socket costs 11 us, so that
/// this adds 0.2 us a query; and with 4,096 slots at 10,000 queries/s a port lives for 26 s.
const USES: u16 = 64;
/// Slots drawn for one query before a socket of its own is taken.
const DRAWS: usize = 8;
#[derive(Clone, Copy, Debug)]
struct PoolSocket {
    uses: u16,
    outstanding: u16,
}

/// A slot of the pool to send from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Drawn {
    pub(crate) slot: u16,
    /// The socket is to be opened with another port.
    pub(crate) renew: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Pool {
    slots: Vec<PoolSocket>,
}

impl Pool {
    /// `size` is a power of two. The driver opens a slot when it is first used, or before.
    pub(crate) fn new(size: usize) -> Self {
        Self { slots: vec![PoolSocket { uses: 0, outstanding: 0 }; size] }
    }

    /// Returns log2 of the number of sockets.
    pub(crate) fn bits(&self) -> u32 {
        self.slots.len().ilog2()
    }

    /// Draws a slot uniformly. One that is due for another port and has queries outstanding is
    /// passed over until they are done, so that it comes to rest however busy the pool is. None if
    /// several in a row are: the query gets a socket of its own.
    pub(crate) fn draw(&mut self, rng: &mut ChaCha12Rng) -> Option<Drawn> {
        let mask = self.slots.len() - 1;
        for _ in 0..DRAWS {
            let place = rng.next_u32() as usize & mask;
            let slot = &mut self.slots[place];
            let renew = slot.uses >= USES;
            if renew && slot.outstanding > 0 || slot.outstanding == u16::MAX {
                continue;
            }
            slot.uses = if renew { 1 } else { slot.uses + 1 };
            slot.outstanding += 1;
            return Some(Drawn { slot: place as u16, renew });
        }
        None
    }

    /// Releases a slot: a query on it is no longer waited for.
    pub(crate) fn release(&mut self, slot: u16) {
        if let Some(slot) = self.slots.get_mut(usize::from(slot)) {
            slot.outstanding -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use chacha20::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn sockets_are_renewed_after_their_uses_and_only_when_idle() {
        let mut rng = ChaCha12Rng::from_seed([1; 32]);
        let mut pool = Pool::new(1);
        for round in 0..3 {
            assert_eq!(pool.draw(&mut rng), Some(Drawn { slot: 0, renew: round > 0 }));
            for _ in 1..USES {
                pool.release(0);
                assert_eq!(pool.draw(&mut rng), Some(Drawn { slot: 0, renew: false }));
            }
            assert_eq!(pool.draw(&mut rng), None, "busy: a socket of its own instead");
            pool.release(0);
        }
    }
}
