//! Memory that a worker reuses for each query.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::HashMap;
use std::sync::Arc;

use avocet_dnstap::TapSender;
use avocet_querylog::Producer;
use avocet_resolver::{Answers, Assembler, EndpointId};
use avocet_zone::TsigKey;

use super::held::HeldQuery;
use super::witness::Witness;
use crate::policy;
use crate::traces::TraceScratch;
use crate::transfers::TransferRest;

/// Maximum number of names that a worker remembers as prefetched.
const PREFETCHES: usize = 256;

/// Memory for assembling an answer from the RRset cache.
#[derive(Default)]
pub(super) struct Assembly {
    pub(super) assembler: Assembler,
    pub(super) answers: Answers,
}

/// The reusable memory of one worker.
pub struct Scratch {
    assembly: RefCell<Assembly>,
    /// Popular names that were prefetched, each with the second at which the prefetch began.
    prefetched: [Cell<Option<(Ending, u32)>>; PREFETCHES],
    policy: RefCell<policy::Scratch>,
    /// The worker's end of its ring buffer for the query log.
    log: RefCell<Option<Producer>>,
    /// The numbers of upstreams in the query log.
    logged_upstreams: RefCell<HashMap<EndpointId, u16>>,
    /// The worker's end of its ring buffer for dnstap.
    tap: RefCell<Option<TapSender>>,
    /// The selection of queries for the export of traces.
    traces: TraceScratch,
    /// The TSIG key of the message that is being answered, if the message is signed.
    signer: RefCell<Option<Arc<TsigKey>>>,
    /// The rest of a transfer whose first message is the reply in the buffer.
    transfer: Cell<Option<Box<TransferRest>>>,
    /// Queries that are held until their clients are identified, and that the worker has not taken
    /// yet.
    held: RefCell<Vec<HeldQuery>>,
    worker: usize,
    /// The record of the policy's decisions, only for queries without side effects (rehearsals).
    witness: Option<RefCell<Witness>>,
}

/// A signed message that is being answered.
pub(super) struct SignedMessage<'s>(&'s Scratch);

impl Drop for SignedMessage<'_> {
    fn drop(&mut self) {
        self.0.signer.replace(None);
    }
}

/// The worker index of a rehearsal, whose queries are not counted.
const NO_WORKER: usize = usize::MAX;

impl Scratch {
    /// Creates the memory of the worker with this index.
    pub fn of(worker: usize) -> Self {
        let prefetched = [const { Cell::new(None) }; PREFETCHES];
        Self {
            assembly: RefCell::default(),
            prefetched,
            policy: RefCell::default(),
            log: RefCell::default(),
            logged_upstreams: RefCell::default(),
            tap: RefCell::default(),
            traces: TraceScratch::default(),
            signer: RefCell::default(),
            transfer: Cell::default(),
            held: RefCell::default(),
            worker,
            witness: None,
        }
    }

    /// Creates the memory of a rehearsal, which is not counted for a worker.
    pub(super) fn for_looking() -> Self {
        let policy = RefCell::new(policy::Scratch::for_looking());
        Self { policy, witness: Some(RefCell::default()), ..Self::of(NO_WORKER) }
    }

    /// Returns whether this is the memory of a rehearsal.
    pub(super) fn is_looking(&self) -> bool {
        self.witness.is_some()
    }

    /// Returns the record of a rehearsal.
    pub(super) fn into_witness(self) -> Witness {
        self.witness.map(RefCell::into_inner).unwrap_or_default()
    }

    /// Adds to the record of a rehearsal (a query without side effects); does nothing for a
    /// client's query.
    #[inline]
    pub(super) fn tell(&self, note: impl FnOnce(&mut Witness)) {
        if let Some(witness) = &self.witness {
            note(&mut witness.borrow_mut());
        }
    }

    /// Sets the numbers of these upstreams in the query log.
    pub fn log_upstreams(&self, upstreams: impl Iterator<Item = (EndpointId, u16)>) {
        self.logged_upstreams.borrow_mut().extend(upstreams);
    }

    /// Returns the number of an upstream in the query log; 0 if it has none. The function is not
    /// inlined, so that it takes no registers from the log entry of a hit.
    #[cold]
    #[inline(never)]
    pub(crate) fn logged_upstream(&self, upstream: EndpointId) -> u16 {
        self.logged_upstreams.borrow().get(&upstream).copied().unwrap_or(0)
    }

    /// Returns the worker's index.
    pub(crate) fn worker(&self) -> usize {
        self.worker
    }

    /// Sets the TSIG key of the message that is being answered, until the returned value is
    /// dropped. After a panic in between, the next message must not count as signed.
    pub(super) fn signed_by(&self, key: Arc<TsigKey>) -> SignedMessage<'_> {
        self.signer.replace(Some(key));
        SignedMessage(self)
    }

    /// Returns the TSIG key of the message that is being answered, if the message is signed.
    pub(super) fn signer(&self) -> Option<Arc<TsigKey>> {
        self.signer.borrow().clone()
    }

    /// Keeps the rest of a transfer whose first message is the reply in the buffer.
    pub(super) fn put_transfer(&self, rest: Box<TransferRest>) {
        self.transfer.set(Some(rest));
    }

    /// Takes the rest of a transfer, if the reply in the buffer is the first message of a transfer.
    #[inline]
    pub fn take_transfer(&self) -> Option<Box<TransferRest>> {
        self.transfer.take()
    }

    /// Holds a query whose client is not identified yet, until the worker takes it.
    pub(super) fn hold(&self, query: HeldQuery) {
        self.held.borrow_mut().push(query);
    }

    /// Returns whether the worker must take held queries.
    #[inline]
    pub fn has_held(&self) -> bool {
        !self.held.borrow().is_empty()
    }

    /// Takes the queries that are held until their clients are identified.
    pub fn take_held(&self) -> Vec<HeldQuery> {
        self.held.take()
    }

    /// Sets the worker's end of its ring buffer for the query log.
    pub fn set_log(&self, producer: Option<Producer>) {
        *self.log.borrow_mut() = producer;
    }

    /// Takes the worker's end of its ring buffer for the query log.
    pub fn take_log(&self) -> Option<Producer> {
        self.log.take()
    }

    /// Returns the worker's end of its ring buffer for the query log.
    #[inline]
    pub(crate) fn log(&self) -> RefMut<'_, Option<Producer>> {
        self.log.borrow_mut()
    }

    /// Sets the worker's end of its ring buffer for dnstap.
    pub fn set_tap(&self, sender: Option<TapSender>) {
        *self.tap.borrow_mut() = sender;
    }

    /// Takes the worker's end of its ring buffer for dnstap.
    pub fn take_tap(&self) -> Option<TapSender> {
        self.tap.take()
    }

    /// Returns the worker's end of its ring buffer for dnstap.
    pub(crate) fn tap(&self) -> Option<RefMut<'_, TapSender>> {
        RefMut::filter_map(self.tap.borrow_mut(), Option::as_mut).ok()
    }

    /// Returns the memory for selecting the queries with exported traces.
    #[inline]
    pub fn traces(&self) -> &TraceScratch {
        &self.traces
    }

    /// Returns the memory for assembling an answer from the RRset cache.
    pub(super) fn assembly(&self) -> RefMut<'_, Assembly> {
        self.assembly.borrow_mut()
    }

    /// Returns the reusable memory of the policy.
    pub(super) fn policy(&self) -> RefMut<'_, policy::Scratch> {
        self.policy.borrow_mut()
    }

    /// Decides whether a hit for a name that is about to expire starts a prefetch. Only the first
    /// hit does so, because thousands of hits may follow before the response arrives.
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

/// An entry of the packet cache that is about to expire.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ending {
    hash: u64,
    at_secs: u32,
}

/// The treatment of a hit for a name that is about to expire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ahead {
    /// Prefetch the name.
    Ask,
    /// Do nothing, because the prefetch was started in this second.
    Wait,
    /// Make the answer from the RRset cache, which has the result of the prefetch. If the prefetch
    /// failed, the new answer expires at the same time as the old one, and the next hit starts
    /// another prefetch.
    Take,
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use avocet_wire::FoldedName;
    use avocet_zone::TsigAlgorithm;
    use zeroize::Zeroizing;

    use super::*;

    #[test]
    fn a_message_after_a_panic_does_not_count_as_signed() {
        let scratch = Scratch::of(0);
        let name = FoldedName::new(b"\x01k\0").unwrap();
        let secret = Zeroizing::new(vec![7; 32]);
        let key = Arc::new(TsigKey::new(name, TsigAlgorithm::usual(), secret));
        let answered = catch_unwind(AssertUnwindSafe(|| {
            let _signed = scratch.signed_by(key.clone());
            assert!(scratch.signer().is_none(), "a fault while the message is answered");
        }));
        assert!(answered.is_err() && scratch.signer().is_none());
    }

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
