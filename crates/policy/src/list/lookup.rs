//! Look-up of a question in all lists.
//!
//! A name that is in no list costs one hash and one word of the filter per label.
//! `benches/lists.rs` measures this for names of four labels among a million. Nothing is allocated
//! once a [`Scratch`] has been used with the image.

use super::question::ListQuestion;

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

/// Working memory of look-ups: one per thread, for any images.
pub struct Scratch {
    suffixes: Suffixes,
    hits: Vec<Hit>,
    lines: Vec<Line>,
    taking: Vec<Taking>,
    /// The effects and conditions of entries for the current name that lines with `$badfilter`
    /// disable.
    switched_off: Vec<Saying>,
    steps: Steps,
    /// Working memory for patterns, with the digest of their image.
    work: Option<(u128, Work)>,
}

/// A name or pattern that matches the question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hit {
    /// The offset of the sites (the lines) of the name or pattern.
    pub(super) place: u32,
    /// Number of labels of the listed name; zero for a pattern, which is never the closest name.
    pub(super) depth: u8,
}

/// Number of hits and of lines for which room is allocated in advance. Only names with many labels
/// have more.
const USUAL_HITS: usize = 32;

impl Scratch {
    /// Creates working memory that adapts to the first image with which it is used.
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

    /// Begins a question. All names that are looked up until the next call share a limit on their
    /// work, in addition to the limit of each name. Without such a call, only the limit of each
    /// name applies.
    #[inline]
    pub const fn begin_question(&mut self) {
        self.steps.begin_question();
    }

    /// Returns how many look-ups were cut short since the last call because the lists required more
    /// work than one question may cost. Their results are [incomplete](Found::is_incomplete).
    #[inline]
    pub const fn take_cut_short(&mut self) -> u64 {
        self.steps.take_cut_short()
    }

    /// Returns the steps that the last look-up took in patterns and lines, a few nanoseconds each.
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
    /// Looks up a question in the lists in force.
    #[inline]
    pub fn lookup<'a>(
        &'a self,
        question: ListQuestion<'a>,
        in_force: &'a ListSet,
        scratch: &'a mut Scratch,
    ) -> Found<'a> {
        self.lookup_by((question, None), in_force, scratch)
    }

    /// Looks up a name that the answer to a question leads to. Entries about types are compared
    /// with the type of the question and with the type of the record that leads to the name, such
    /// as CNAME.
    pub fn lookup_behind<'a>(
        &'a self,
        question: ListQuestion<'a>,
        in_force: &'a ListSet,
        scratch: &'a mut Scratch,
    ) -> Found<'a> {
        self.lookup_by((question, Some(Rtype::CNAME)), in_force, scratch)
    }

    #[inline]
    fn lookup_by<'a>(
        &'a self,
        (question, record): (ListQuestion<'a>, Option<Rtype>),
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
        // If the steps do not suffice, the remaining lines are not read, and the steps record that.
        // The lines of names are read before the costly patterns.
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
        // Patterns that were not read matter only to the lists that have some.
        let is_incomplete = scratch.steps.is_cut_short()
            && (named.is_err() || !self.with_patterns.is_disjoint(in_force));
        if scratch.lines.is_empty() {
            let mut found = Found::NOTHING;
            found.is_incomplete = is_incomplete;
            return found;
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
        let mut found = if record.is_none() { Found::of(sought) } else { Found::behind(sought) };
        found.is_incomplete = is_incomplete;
        found
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

    /// Reads the lines of all hits and keeps those that apply to the question.
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

    /// Reports whether the modifiers of a line let it apply to the question.
    #[inline]
    fn admits(
        &self,
        site: &Site,
        asking: &Asking<'_>,
        steps: &mut Steps,
    ) -> Result<bool, Exhausted> {
        let Some(place) = site.modifiers else { return Ok(true) };
        // Only a malformed image has an index that is out of bounds. Such an entry never applies.
        let Some(modifiers) = self.modifiers.get(place as usize) else { return Ok(false) };
        steps.spend(modifiers.cost(&asking.question))?;
        Ok(modifiers.admit(&asking.question, asking.record))
    }

    /// Records that a line is an exception that removes answers of other lines.
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

/// Reads the lines with `$badfilter`, which disable other lines. They come first among the lines of
/// a name. Returns the remaining lines.
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

/// The properties of a query that the conditions of lines test.
struct Asking<'a> {
    question: ListQuestion<'a>,
    /// The type of the record that leads to the name, if the name is not the QNAME.
    record: Option<Rtype>,
    in_force: &'a ListSet,
}
