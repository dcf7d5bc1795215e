//! The choice of the next query.

use std::sync::Arc;

use avocet_wire::header::HEADER_LEN;

use super::malformed;
use super::questions::{MAX_QUERY, Questions, Unique};
use crate::random::{Random, Zipf};

/// A chosen query: the index of a listed query, or the serial number of a unique name. It is enough
/// to write the query again and to recognise its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick(u64);

/// The bit that is set in picks that hold a serial number instead of the index of a listed query.
const SERIAL: u64 = 1 << 63;

impl Pick {
    /// Returns the pick of the listed query with this index.
    pub(crate) const fn listed(index: usize) -> Self {
        Self(index as u64)
    }

    const fn serial(serial: u64) -> Self {
        Self(serial | SERIAL)
    }

    /// Returns the index of the listed query, or `None` for a serial number.
    pub(crate) fn index(self) -> Option<usize> {
        (self.0 & SERIAL == 0).then_some(self.0 as usize)
    }
}

/// The way queries are chosen.
#[derive(Clone, Debug)]
pub(crate) enum Choice {
    /// The listed queries in order, again and again.
    Cycle,
    /// Each listed query once, in order.
    Once,
    /// The listed queries by Zipf's law, mixed with previously unused names.
    Popular {
        /// The distribution of ranks. The rank of a listed query is its position.
        zipf: Zipf,
        /// Share of the unique names, in [0, 1].
        unique_share: f64,
    },
    /// Previously unused names.
    Unique,
    /// Malformed variants of the listed queries.
    Malformed,
}

/// The queries of one flow, in order.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    questions: Arc<Questions>,
    unique: Option<Unique>,
    choice: Choice,
    random: Random,
    seed: u64,
    next: u64,
}

impl Workload {
    pub(crate) fn new(
        questions: Arc<Questions>,
        unique: Option<Unique>,
        choice: Choice,
        seed: u64,
    ) -> Self {
        Self { questions, unique, choice, random: Random::new(seed), seed, next: 0 }
    }

    /// Returns the number of listed queries.
    pub(crate) fn listed(&self) -> usize {
        self.questions.len()
    }

    /// Chooses the next query, or returns `None` after all queries were chosen.
    #[inline]
    pub(crate) fn draw(&mut self) -> Option<Pick> {
        let place = self.next;
        self.next += 1;
        let listed = self.questions.len() as u64;
        match &self.choice {
            Choice::Cycle => {
                if self.next == listed {
                    self.next = 0;
                }
                Some(Pick::listed(place as usize))
            }
            Choice::Once => (place < listed).then_some(Pick::listed(place as usize)),
            Choice::Popular { zipf, unique_share } => {
                Some(match self.random.unit() < *unique_share {
                    true => Pick::serial(place),
                    false => Pick::listed(zipf.draw(&mut self.random) as usize),
                })
            }
            Choice::Unique | Choice::Malformed => Some(Pick::serial(place)),
        }
    }

    /// Writes a query with ID zero to `out`, of at least [`MAX_QUERY`] octets, and returns its
    /// length.
    #[inline]
    pub(crate) fn write(&self, pick: Pick, out: &mut [u8]) -> usize {
        let Some(index) = pick.index() else {
            return self.write_serial(pick.0 & !SERIAL, out);
        };
        let query = self.questions.query(index);
        match out.get_mut(..query.len()) {
            Some(place) => place.copy_from_slice(query),
            None => return 0,
        }
        query.len()
    }

    fn write_serial(&self, serial: u64, out: &mut [u8]) -> usize {
        if matches!(self.choice, Choice::Malformed) {
            let mut random = Random::of_item(self.seed, serial);
            let base = random.below(self.questions.len().max(1) as u64);
            return malformed::mangle(self.questions.query(base as usize), &mut random, out);
        }
        self.unique.as_ref().map_or(0, |unique| unique.write(serial, out))
    }

    /// Reports whether `answer` has the question of this query. Ignores case.
    #[inline]
    pub(crate) fn asked(&self, pick: Pick, answer: &[u8]) -> bool {
        let mut buffer = [0; MAX_QUERY];
        let question = match pick.index() {
            Some(index) => self.questions.question(index),
            None => {
                self.write_serial(pick.0 & !SERIAL, &mut buffer);
                let end = self.unique.as_ref().map_or(HEADER_LEN, Unique::question_end);
                buffer.get(HEADER_LEN..end).unwrap_or_default()
            }
        };
        let answered = answer.get(HEADER_LEN..HEADER_LEN + question.len()).unwrap_or_default();
        // Fast path: servers usually repeat the question unchanged.
        answered == question || (!answered.is_empty() && answered.eq_ignore_ascii_case(question))
    }

    /// Reports whether no particular answer is expected. A malformed query may get any answer or
    /// none.
    pub(crate) fn is_unanswerable(&self) -> bool {
        matches!(self.choice, Choice::Malformed)
    }

    /// Returns a copy that sends each listed query once.
    pub(crate) fn once(&self) -> Self {
        Self { choice: Choice::Once, next: 0, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::Form;
    use crate::ask::names::{numbered, wire_name};
    use avocet_wire::Rtype;

    const FORM: Form = Form { edns_size: None, dnssec_ok: false };

    fn workload(choice: Choice) -> Workload {
        let zone = wire_name(b"test").unwrap();
        let questions = numbered(&zone, "n", 3, &[Rtype::A], &FORM).unwrap();
        let unique = Unique::under(zone.wire(), b'm', &FORM, 5).unwrap();
        Workload::new(Arc::new(questions), Some(unique), choice, 7)
    }

    fn drawn(choice: Choice, count: usize) -> Vec<Option<usize>> {
        let mut workload = workload(choice);
        (0..count).map_while(|_| workload.draw()).map(Pick::index).collect()
    }

    #[test]
    fn listed_queries_come_in_turn() {
        assert_eq!(drawn(Choice::Cycle, 5), [Some(0), Some(1), Some(2), Some(0), Some(1)]);
        assert_eq!(drawn(Choice::Once, 5), [Some(0), Some(1), Some(2)]);
        assert_eq!(drawn(Choice::Unique, 2), [None, None]);
    }

    #[test]
    fn popular_names_have_their_share_of_unique_ones() {
        let picks = drawn(Choice::Popular { zipf: Zipf::new(3, 1.0), unique_share: 0.25 }, 10_000);
        let unique = picks.iter().filter(|pick| pick.is_none()).count();
        assert!((2_300..2_700).contains(&unique), "{unique}");
    }

    #[test]
    fn the_question_of_an_answer_is_recognised() {
        let mut workload = workload(Choice::Unique);
        let mut out = [0; MAX_QUERY];
        for pick in [Pick::listed(1), workload.draw().unwrap()] {
            let len = workload.write(pick, &mut out);
            assert!(workload.asked(pick, &out[..len]));
            out[..len].make_ascii_uppercase();
            assert!(workload.asked(pick, &out[..len]), "letters may change their case");
            assert!(!workload.asked(pick, &out[..len - 1]));
            out[HEADER_LEN + 1] ^= 3;
            assert!(!workload.asked(pick, &out[..len]));
        }
    }
}
