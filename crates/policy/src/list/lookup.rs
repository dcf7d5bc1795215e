//! Finding what all lists say of a question.
//!
//! A name that is in no list, of four labels among a million, costs one hash and one word of the
//! filter for each label; see `benches/lists.rs` for what that is in nanoseconds. Nothing is allocated
//! once a [`Scratch`] has been used with the image.

use std::net::IpAddr;

use avocet_wire::Rtype;

use super::filter;
use super::found::{Found, Sought};
use super::hash::Suffixes;
use super::image::Image;
use super::patterns::Work;
use super::set::ListSet;

/// Who asks, as far as lists can ask about it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Asker<'a> {
    /// The address of the client.
    pub address: Option<IpAddr>,
    /// Its names and identifiers.
    pub names: &'a [Box<str>],
    /// Its tags, as `device_pc` or `user_child`.
    pub tags: &'a [Box<str>],
}

/// A question put to the lists.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The folded wire name.
    pub qname: &'a [u8],
    /// The type asked for.
    pub qtype: Rtype,
    /// Who asks.
    pub asker: Asker<'a>,
}

/// Memory that look-ups write into: one for each thread, for whatever images.
pub struct Scratch {
    suffixes: Suffixes,
    pub(super) hits: Vec<Hit>,
    /// What patterns need, with the digest of their image.
    work: Option<(u128, Work)>,
}

/// A name or pattern that the question is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hit {
    /// Where its sites begin.
    pub(super) place: u32,
    /// Labels of the listed name; none of a pattern, which no name is farther from.
    pub(super) depth: u8,
}

/// Hits that there is room for from the start: more names than that need many labels.
const USUAL_HITS: usize = 32;

impl Scratch {
    /// Memory that suits itself to the first image it is used with.
    #[must_use]
    pub fn empty() -> Self {
        Self { suffixes: Suffixes::empty(), hits: Vec::with_capacity(USUAL_HITS), work: None }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::empty()
    }
}

impl<B: AsRef<[u8]>> Image<B> {
    /// What the lists in force say of a question.
    #[inline]
    pub fn lookup<'a>(&'a self, question: Question<'a>, in_force: &'a ListSet, scratch: &'a mut Scratch) -> Found<'a> {
        self.lookup_by((question, None), in_force, scratch)
    }

    /// What the lists in force say of a name that the answer to a question leads to. Entries about types speak of the
    /// type that was asked for, and of that of the record which leads there, CNAME.
    pub fn lookup_behind<'a>(
        &'a self,
        question: Question<'a>,
        in_force: &'a ListSet,
        scratch: &'a mut Scratch,
    ) -> Found<'a> {
        self.lookup_by((question, Some(Rtype::CNAME)), in_force, scratch)
    }

    #[inline]
    fn lookup_by<'a>(
        &'a self,
        (question, record): (Question<'a>, Option<Rtype>),
        in_force: &'a ListSet,
        scratch: &'a mut Scratch,
    ) -> Found<'a> {
        scratch.hits.clear();
        scratch.suffixes.of(&self.key, question.qname);
        let filter = self.filter();
        let mut depths = self.depths;
        for (depth, &hash) in scratch.suffixes.hashes().iter().enumerate() {
            if depths & 1 == 1
                && filter::may_contain(filter, hash)
                && let Some(place) = self.find(hash)
            {
                scratch.hits.push(Hit { place, depth: depth as u8 });
            }
            depths >>= 1;
        }
        if !self.patterns.is_empty() {
            self.find_patterns(question.qname, scratch);
        }
        if scratch.hits.is_empty() {
            return Found::NOTHING;
        }
        Found::of(Sought {
            sites: self.sites(),
            modifiers: &self.modifiers,
            badfilter: self.badfilter,
            question,
            record,
            in_force,
            hits: &scratch.hits,
            labels: scratch.suffixes.labels(),
        })
    }

    fn find_patterns(&self, qname: &[u8], scratch: &mut Scratch) {
        let Scratch { hits, work, .. } = scratch;
        let named = hits.len();
        if work.as_ref().is_none_or(|(digest, _)| *digest != self.digest) {
            *work = Some((self.digest, self.patterns.work()));
        }
        let Some((_, work)) = work else { return };
        self.patterns.matching(qname, work, |number| {
            let place = self.pattern_places[number as usize];
            if !hits[named..].iter().any(|hit| hit.place == place) {
                hits.push(Hit { place, depth: 0 });
            }
        });
    }
}
