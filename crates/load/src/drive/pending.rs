//! The queries of one client that wait for answers, by ID.
//!
//! IDs are assigned sequentially. A query is therefore found by its ID without a search, and the
//! query that waits longest is known without a queue. Answered and abandoned queries are kept until
//! their place is needed, so that duplicate and late answers are distinguished from answers with a
//! wrong ID.

use crate::ask::Pick;

/// Initial number of places. A client with few queries in flight needs little memory.
const PLACES_MIN: usize = 64;
/// Maximum number of places: the number of IDs. A query that still waits when its ID is reused is
/// lost.
const PLACES_MAX: usize = 1 << 16;

/// A query that was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sent {
    pub(crate) pick: Pick,
    /// Scheduled time in nanoseconds of the run, from which latency counts.
    pub(crate) due_ns: u64,
    /// Time of sending, from which the timeout counts.
    pub(crate) sent_ns: u64,
    /// Number of queries of the same flow that were sent earlier.
    pub(crate) order: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Free,
    Waiting,
    Answered,
    GivenUp,
}

#[derive(Clone, Copy, Debug)]
struct PendingQuery {
    sent: Sent,
    sequence: u32,
    state: State,
}

const FREE: PendingQuery = PendingQuery {
    sent: Sent { pick: Pick::listed(0), due_ns: 0, sent_ns: 0, order: 0 },
    sequence: 0,
    state: State::Free,
};

/// The state of an ID.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum IdState {
    /// The query with this ID waits for its answer.
    Waiting(Sent),
    /// The query with this ID was already answered.
    Answered(Sent),
    /// The query with this ID was given up.
    GivenUp(Sent),
    /// No recent query had this ID.
    Unknown,
}

/// The sent queries of one client.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    places: Vec<PendingQuery>,
    /// The next sequence number, whose low 16 bits are the ID.
    head: u32,
    /// A sequence number before which no query waits.
    tail: u32,
    waiting: usize,
}

impl Pending {
    /// Creates an empty set. The first query gets the ID `first`.
    pub(crate) fn new(first: u16) -> Self {
        let first = u32::from(first) | 1 << 16;
        Self { places: vec![FREE; PLACES_MIN], head: first, tail: first, waiting: 0 }
    }

    /// Returns the number of waiting queries.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    fn at(&self, sequence: u32) -> usize {
        sequence as usize & (self.places.len() - 1)
    }

    /// Records a query as sent and returns its ID. If no ID was free, also returns the query that
    /// lost its ID.
    #[inline]
    pub(crate) fn insert(&mut self, sent: Sent) -> (u16, Option<Sent>) {
        let mut at = self.at(self.head);
        if matches!(self.places[at].state, State::Waiting | State::GivenUp)
            && self.places.len() < PLACES_MAX
        {
            self.grow();
            at = self.at(self.head);
        }
        let place = &mut self.places[at];
        let lost = (place.state == State::Waiting).then_some(place.sent);
        *place = PendingQuery { sent, sequence: self.head, state: State::Waiting };
        self.waiting += usize::from(lost.is_none());
        let id = self.head as u16;
        self.head = self.head.wrapping_add(1);
        if lost.is_some() {
            self.tail = self.tail.wrapping_add(1);
        }
        (id, lost)
    }

    /// Removes the last recorded query, which was not sent after all.
    pub(crate) fn take_back(&mut self) -> Option<Sent> {
        let at = self.at(self.head.wrapping_sub(1));
        let place = &mut self.places[at];
        (place.state == State::Waiting && place.sequence == self.head.wrapping_sub(1)).then(|| {
            place.state = State::Free;
            self.head = self.head.wrapping_sub(1);
            self.waiting -= 1;
            place.sent
        })
    }

    #[cold]
    fn grow(&mut self) {
        let places = vec![FREE; self.places.len() * 4];
        for place in std::mem::replace(&mut self.places, places) {
            if place.state != State::Free {
                let at = self.at(place.sequence);
                self.places[at] = place;
            }
        }
    }

    fn place(&mut self, id: u16) -> Option<&mut PendingQuery> {
        let back = (self.head as u16).wrapping_sub(1).wrapping_sub(id);
        let sequence = self.head.wrapping_sub(1).wrapping_sub(u32::from(back));
        let at = self.at(sequence);
        Some(&mut self.places[at]).filter(|place| place.sequence == sequence)
    }

    /// Returns the state of an ID.
    #[inline]
    pub(crate) fn find(&mut self, id: u16) -> IdState {
        match self.place(id) {
            None => IdState::Unknown,
            Some(place) => match place.state {
                State::Free => IdState::Unknown,
                State::Waiting => IdState::Waiting(place.sent),
                State::Answered => IdState::Answered(place.sent),
                State::GivenUp => IdState::GivenUp(place.sent),
            },
        }
    }

    /// Marks the waiting query with this ID as answered.
    #[inline]
    pub(crate) fn answered(&mut self, id: u16) {
        if let Some(place) = self.place(id).filter(|place| place.state == State::Waiting) {
            place.state = State::Answered;
            self.waiting -= 1;
        }
    }

    /// Gives up the queries sent before `limit_ns`, and calls `lost` for each.
    pub(crate) fn give_up(&mut self, limit_ns: u64, mut lost: impl FnMut(Sent)) {
        while self.tail != self.head {
            let at = self.at(self.tail);
            let place = &mut self.places[at];
            let is_here = place.sequence == self.tail;
            if is_here && place.state == State::Waiting {
                if place.sent.sent_ns >= limit_ns {
                    return;
                }
                place.state = State::GivenUp;
                self.waiting -= 1;
                lost(place.sent);
            }
            self.tail = self.tail.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::HashMap;

    fn sent(number: u64) -> Sent {
        Sent { pick: Pick::listed(number as usize), due_ns: number, sent_ns: number, order: number }
    }

    #[test]
    fn answers_are_told_apart() {
        let mut pending = Pending::new(65_535);
        assert_eq!(pending.insert(sent(1)), (65_535, None));
        assert_eq!(pending.insert(sent(2)), (0, None));
        assert_eq!(pending.find(0), IdState::Waiting(sent(2)));
        pending.answered(0);
        pending.give_up(10, |lost| assert_eq!(lost, sent(1)));
        assert_eq!(
            [pending.find(65_535), pending.find(0)],
            [IdState::GivenUp(sent(1)), IdState::Answered(sent(2))]
        );
        assert_eq!([pending.find(1), pending.find(7)], [IdState::Unknown; 2]);
        assert_eq!(pending.waiting(), 0);
    }

    #[test]
    fn a_query_that_was_not_sent_is_taken_back() {
        let mut pending = Pending::new(5);
        assert_eq!(pending.take_back(), None);
        pending.insert(sent(1));
        pending.insert(sent(2));
        assert_eq!(pending.take_back(), Some(sent(2)));
        assert_eq!(pending.insert(sent(3)), (6, None));
        assert_eq!(pending.waiting(), 2);
    }

    #[test]
    fn a_query_is_lost_when_its_id_comes_around() {
        let mut pending = Pending::new(0);
        for number in 0..1 << 16 {
            assert_eq!(pending.insert(sent(number)).1, None);
        }
        assert_eq!(pending.insert(sent(99)), (0, Some(sent(0))));
        assert_eq!(pending.waiting(), 1 << 16);
        let mut count = 0;
        pending.give_up(u64::MAX, |_| count += 1);
        assert_eq!((count, pending.waiting()), (1 << 16, 0));
    }

    #[test]
    fn the_table_agrees_with_a_plain_map() {
        let (mut pending, mut random) = (Pending::new(60_000), Random::new(3));
        let mut model: HashMap<u16, Sent> = HashMap::new();
        let (mut ids, mut id_of) = (Vec::new(), HashMap::new());
        for number in 0..120_000u64 {
            if random.below(2) == 0 && model.len() < 20_000 {
                let (id, lost) = pending.insert(sent(number));
                assert_eq!(lost, model.insert(id, sent(number)));
                ids.push(id);
                id_of.insert(number, id);
            } else if let Some(id) =
                ids.get(random.below(ids.len().max(1) as u64) as usize).copied()
            {
                let expected = model.remove(&id);
                match pending.find(id) {
                    IdState::Waiting(found) => assert_eq!(Some(found), expected),
                    _ => assert_eq!(expected, None),
                }
                pending.answered(id);
            }
            if number % 1_000 == 999 {
                let limit = number - 40_000.min(number);
                pending.give_up(limit, |lost| {
                    assert_eq!(model.remove(&id_of[&lost.due_ns]), Some(lost));
                });
                // Only queries that were sent after the limit can remain.
                assert!(model.values().all(|sent| sent.sent_ns >= limit));
            }
            assert_eq!(pending.waiting(), model.len());
        }
    }
}
