//! The sockets towards one upstream: how often each slot of the pool was used, how many queries
//! are outstanding on it, and when it is due for another port (RFC 5452 §9.2).

use chacha20::ChaCha12Rng;
use chacha20::rand_core::Rng;

use crate::ids::SocketId;

/// Queries that a socket sends before it gets another port. A new socket costs 11 us, so that
/// this adds 0.2 us a query; and with 4,096 slots at 10,000 queries/s a port lives for 26 s.
const USES: u16 = 64;
/// Slots drawn for one query before a fresh socket is taken.
const DRAWS: usize = 8;
/// Unpredictable bits of a fresh socket's port: drawn from the 64,512 above 1023, 15.98 bits.
pub(crate) const FRESH_PORT_BITS: u32 = 16;

#[derive(Clone, Copy, Debug)]
struct PoolSocket {
    uses: u16,
    outstanding: u16,
}

/// What to send from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Drawn {
    pub(crate) socket: SocketId,
    /// The socket is to be opened anew.
    pub(crate) renew: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Pool {
    slots: Vec<PoolSocket>,
    /// Numbers, from the pool's size on, of fresh sockets that are free again.
    free: Vec<SocketId>,
    next_fresh: SocketId,
}

impl Pool {
    /// `size` is a power of two.
    pub(crate) fn new(size: usize) -> Self {
        // The driver opens a slot when it is first used, or before.
        let slots = vec![PoolSocket { uses: 0, outstanding: 0 }; size];
        Self { slots, free: Vec::new(), next_fresh: size as SocketId }
    }

    /// Sockets of the pool.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// log2 of the number of sockets.
    pub(crate) fn bits(&self) -> u32 {
        self.slots.len().ilog2()
    }

    /// A slot drawn uniformly. One that is due for another port and has queries outstanding is
    /// passed over until they are done, so that it comes to rest however busy the pool is.
    pub(crate) fn draw(&mut self, rng: &mut ChaCha12Rng) -> Drawn {
        let mask = self.slots.len() - 1;
        for _ in 0..DRAWS {
            let socket = rng.next_u32() as usize & mask;
            let slot = &mut self.slots[socket];
            let renew = slot.uses >= USES;
            if renew && slot.outstanding > 0 || slot.outstanding == u16::MAX {
                continue;
            }
            slot.uses = if renew { 1 } else { slot.uses + 1 };
            slot.outstanding += 1;
            return Drawn { socket: socket as SocketId, renew };
        }
        self.fresh()
    }

    /// A socket for one query.
    pub(crate) fn fresh(&mut self) -> Drawn {
        let socket = self.free.pop().unwrap_or_else(|| {
            self.next_fresh += 1;
            self.next_fresh - 1
        });
        Drawn { socket, renew: true }
    }

    /// A query on this socket is no longer waited for. True if the socket was for it alone.
    pub(crate) fn release(&mut self, socket: SocketId) -> bool {
        if let Some(slot) = self.slots.get_mut(socket as usize) {
            slot.outstanding -= 1;
            return false;
        }
        self.free.push(socket);
        true
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
            assert_eq!(pool.draw(&mut rng), Drawn { socket: 0, renew: round > 0 });
            for _ in 1..USES {
                pool.release(0);
                assert_eq!(pool.draw(&mut rng), Drawn { socket: 0, renew: false });
            }
            assert_eq!(
                pool.draw(&mut rng),
                Drawn { socket: 1, renew: true },
                "busy: a fresh one instead"
            );
            assert!(pool.release(1));
            assert!(!pool.release(0));
        }
    }
}
