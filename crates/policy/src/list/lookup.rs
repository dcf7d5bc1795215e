//! Finding what all lists say of a question.
//!
//! A name that is in no list, of four labels among a million, costs one hash and one word of the
//! filter for each label; see `benches/lists.rs` for what that is in nanoseconds. Nothing is
//! allocated once a [`Scratch`] has been used with the image.

use super::question::Question;

use avocet_wire::Rtype;

use super::filter;
use super::found::{Found, Line, Sought, Strength, Taking};
use super::hash::Suffixes;
use super::image::{Badfilter, Image, NO_ANSWER};
use super::limits::LINE_STEPS;
use super::patterns::Work;
use super::set::ListSet;
use super::site::{self, Saying, Site, Sites};
use super::steps::{Exhausted, Steps};

/// Memory that look-ups write into: one for each thread, for whatever images.
pub struct Scratch {
    suffixes: Suffixes,
    hits: Vec<Hit>,
    lines: Vec<Line>,
    taking: Vec<Taking>,
    /// What lines that switch others off say, of one name.
    switched_off: Vec<Saying>,
    steps: Steps,
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

/// Hits and lines that there is room for from the start: more names than that need many labels.
const USUAL_HITS: usize = 32;

impl Scratch {
    /// Memory that suits itself to the first image it is used with.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            suffixes: Suffixes::empty(),
            hits: Vec::with_capacity(USUAL_HITS),
            lines: Vec::with_capacity(USUAL_HITS),
            taking: Vec::with_capacity(USUAL_HITS),
            switched_off: Vec::with_capacity(USUAL_HITS),
            steps: Steps::of_names(),
            work: None,
        }
    }

    /// Begins a question: the names that are looked up until the next call share a bound on their
    /// work, beside the bound that each of them has. Without any call only the latter holds.
    #[inline]
    pub const fn begin_question(&mut self) {
        self.steps.begin_question();
    }

    /// How many look-ups were cut short since the last call, as lists asked for more work than one
    /// question may cost. Lines and patterns that were not reached were treated as absent.
    #[inline]
    pub const fn take_cut_short(&mut self) -> u64 {
        self.steps.take_cut_short()
    }

    /// Steps that the last look-up took in patterns and lines, a few nanoseconds each.
    #[must_use]
    pub const fn steps(&self) -> u32 {
        self.steps.spent()
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
    pub fn lookup<'a>(
        &'a self,
        question: Question<'a>,
        in_force: &'a ListSet,
        scratch: &'a mut Scratch,
    ) -> Found<'a> {
        self.lookup_by((question, None), in_force, scratch)
    }

    /// What the lists in force say of a name that the answer to a question leads to. Entries about
    /// types speak of the type that was asked for, and of that of the record which leads there,
    /// CNAME.
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
        scratch.steps.begin_name();
        if scratch.hits.is_empty() && self.patterns.is_empty() {
            return Found::NOTHING;
        }
        scratch.lines.clear();
        scratch.taking.clear();
        let asking = Asking { question, record, in_force };
        // What is not reached is absent; the steps know that it was. Names come before what
        // patterns cost.
        let named =
            if scratch.hits.is_empty() { Ok(()) } else { self.read_lines(&asking, scratch) };
        if !self.patterns.is_empty() && named.is_ok() {
            scratch.hits.clear();
            self.find_patterns(question.qname, scratch);
            if !scratch.hits.is_empty() {
                scratch.steps.renew_reserve();
                let _ = self.read_lines(&asking, scratch);
            }
        }
        if scratch.lines.is_empty() {
            return Found::NOTHING;
        }
        if scratch.taking.len() > 1 {
            scratch.taking.sort_unstable();
        }
        let sought = Sought {
            modifiers: &self.modifiers,
            answers: &self.answers,
            lines: &scratch.lines,
            taking: &scratch.taking,
        };
        if record.is_none() { Found::of(sought) } else { Found::behind(sought) }
    }

    fn find_patterns(&self, qname: &[u8], scratch: &mut Scratch) {
        let Scratch { hits, work, steps, .. } = scratch;
        if work.as_ref().is_none_or(|(digest, _)| *digest != self.digest) {
            *work = Some((self.digest, self.patterns.work()));
        }
        let Some((_, work)) = work else { return };
        self.patterns.matching(qname, work, steps, |number| {
            hits.push(Hit { place: self.pattern_places[number as usize], depth: 0 });
        });
    }

    /// Reads the lines of all hits and keeps those that concern the question.
    #[inline]
    fn read_lines(&self, asking: &Asking<'_>, scratch: &mut Scratch) -> Result<(), Exhausted> {
        let Scratch { suffixes, hits, lines, taking, switched_off, steps, .. } = scratch;
        let (labels, sites) = (suffixes.labels(), self.sites());
        for hit in hits.iter() {
            let mut rest = Sites::at(sites, hit.place);
            switched_off.clear();
            if self.badfilter == Badfilter::Somewhere {
                rest = read_switched_off(rest, (asking.in_force, switched_off), steps)?;
            }
            for site in rest {
                steps.spend(LINE_STEPS)?;
                let concerns = !site.is(site::BADFILTER)
                    && site.covers(hit.depth.into(), labels)
                    && asking.in_force.contains(site.list)
                    && self.admits(&site, asking, steps)?;
                if concerns
                    && (switched_off.is_empty()
                        || switched_off.binary_search(&site.saying()).is_err())
                {
                    lines.push(Line { site, depth: hit.depth });
                    self.note_taking(&site, taking);
                }
            }
        }
        Ok(())
    }

    /// Do the modifiers of a line let it concern the question?
    #[inline]
    fn admits(
        &self,
        site: &Site,
        asking: &Asking<'_>,
        steps: &mut Steps,
    ) -> Result<bool, Exhausted> {
        let Some(place) = site.modifiers else { return Ok(true) };
        // A place past the end is that of a malformed image: such an entry concerns nobody.
        let Some(modifiers) = self.modifiers.get(place as usize) else { return Ok(false) };
        steps.spend(modifiers.cost(&asking.question))?;
        Ok(modifiers.admit(&asking.question, asking.record))
    }

    /// Keeps an exception from answers of other lines.
    #[inline]
    fn note_taking(&self, site: &Site, taking: &mut Vec<Taking>) {
        if let Some(place) = site.modifiers
            && site.is(site::ALLOW)
            && !site.is_of_allow_list()
            && let Some(&answer) =
                self.answers.get(place as usize).filter(|answer| **answer != NO_ANSWER)
        {
            let strength =
                if site.is(site::IMPORTANT) { Strength::Important } else { Strength::Plain };
            taking.push(Taking { answer, strength });
        }
    }
}

/// Reads the lines that switch others off, which come first among those of a name, and gives the
/// rest.
fn read_switched_off<'a>(
    sites: Sites<'a>,
    (in_force, switched_off): (&ListSet, &mut Vec<Saying>),
    steps: &mut Steps,
) -> Result<Sites<'a>, Exhausted> {
    let (mut rest, mut behind) = (sites, sites);
    while let Some(site) = behind.next().filter(|site| site.is(site::BADFILTER)) {
        steps.spend(1)?;
        if in_force.contains(site.list) {
            switched_off.push(site.saying());
        }
        rest = behind;
    }
    switched_off.sort_unstable();
    Ok(rest)
}

/// What lines are held against.
struct Asking<'a> {
    question: Question<'a>,
    /// The type of the record that leads to the name, where nobody asked for it.
    record: Option<Rtype>,
    in_force: &'a ListSet,
}
