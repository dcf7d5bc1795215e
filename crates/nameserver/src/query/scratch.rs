//! Memory that a worker uses again for each query.

use std::cell::{Cell, RefCell, RefMut};

use avocet_resolver::{Answers, Assembler};

use super::witness::Witness;
use crate::policy;

/// Names of which a worker remembers that it asked for them ahead of need.
const PREFETCHES: usize = 256;

/// Memory to put an answer together from the RRset cache.
#[derive(Default)]
pub(super) struct Assembly {
    pub(super) assembler: Assembler,
    pub(super) answers: Answers,
}

/// Memory for putting answers together, one of each worker.
pub struct Scratch {
    assembly: RefCell<Assembly>,
    /// What was asked for ahead of need, and in which second.
    prefetched: [Cell<Option<(Ending, u32)>>; PREFETCHES],
    policy: RefCell<policy::Scratch>,
    worker: usize,
    /// What the policy says; of rehearsals only.
    witness: Option<RefCell<Witness>>,
}

/// The number of no worker: nothing is counted for it.
const NO_WORKER: usize = usize::MAX;

impl Scratch {
    /// That of the worker with this number.
    pub fn of(worker: usize) -> Self {
        let prefetched = [const { Cell::new(None) }; PREFETCHES];
        Self {
            assembly: RefCell::default(),
            prefetched,
            policy: RefCell::default(),
            worker,
            witness: None,
        }
    }

    /// That of a rehearsal, which no worker counts.
    pub(super) fn for_looking() -> Self {
        let policy = RefCell::new(policy::Scratch::for_looking());
        Self { policy, witness: Some(RefCell::default()), ..Self::of(NO_WORKER) }
    }

    /// Whether this is memory of a rehearsal.
    pub(super) fn is_looking(&self) -> bool {
        self.witness.is_some()
    }

    /// What the witness of a rehearsal saw.
    pub(super) fn into_witness(self) -> Witness {
        self.witness.map(RefCell::into_inner).unwrap_or_default()
    }

    /// Tells the witness of a rehearsal; does nothing for a client's query.
    #[inline]
    pub(super) fn tell(&self, note: impl FnOnce(&mut Witness)) {
        if let Some(witness) = &self.witness {
            note(&mut witness.borrow_mut());
        }
    }

    /// The worker's number.
    pub(super) fn worker(&self) -> usize {
        self.worker
    }

    /// Memory for the RRset cache.
    pub(super) fn assembly(&self) -> RefMut<'_, Assembly> {
        self.assembly.borrow_mut()
    }

    /// What the policy keeps between questions.
    pub(super) fn policy(&self) -> RefMut<'_, policy::Scratch> {
        self.policy.borrow_mut()
    }

    /// What is to be done at a hit of a name about to expire. Only the first one has it asked for:
    /// there may be thousands before the answer comes, and more if none comes.
    pub fn ahead(&self, hash: u64, now_secs: u32, remaining_secs: u32) -> Ahead {
        let place = &self.prefetched[hash as usize % PREFETCHES];
        let ending = Ending { hash, at_secs: now_secs.wrapping_add(remaining_secs) };
        match place.get() {
            Some((known, asked_at)) if known == ending && asked_at == now_secs => Ahead::Wait,
            Some((known, _)) if known == ending => {
                place.set(None);
                Ahead::Take
            }
            _ => {
                place.set(Some((ending, now_secs)));
                Ahead::Ask
            }
        }
    }
}

/// An entry of the packet cache that will soon be too old.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ending {
    hash: u64,
    at_secs: u32,
}

/// What is to be done for a name about to expire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ahead {
    /// It is asked for.
    Ask,
    /// It was asked for in this second.
    Wait,
    /// It was asked for before: what came of it is in the RRset cache, where the answer is made of
    /// anew. If nothing came, that one ends when the old one does, and near its end is asked for
    /// again.
    Take,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_asked_for_ahead_of_need_once_and_then_taken() {
        let scratch = Scratch::of(0);
        let ends_at = 110;
        let asked = [(7, 100), (7, 100), (8, 100), (7, 101), (8, 101), (7, 109), (8, 109)];
        let expected =
            [Ahead::Ask, Ahead::Wait, Ahead::Ask, Ahead::Take, Ahead::Take, Ahead::Ask, Ahead::Ask];
        assert_eq!(
            asked.map(|(hash, now_secs)| scratch.ahead(hash, now_secs, ends_at - now_secs)),
            expected
        );
        assert_eq!(scratch.ahead(7, 200, 30), Ahead::Ask, "that of another answer");
    }
}
