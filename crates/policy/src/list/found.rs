//! What lists decide, and every line that has a say in it.
//!
//! In the order of who wins: allowed with `$important`; blocked or rewritten with `$important`;
//! allowed by a list of allowed names; rewritten; allowed by an exception (`@@`); answered by a
//! line of a hosts file or of dnsmasq, by the one about the closest name; blocked.

use super::entry::Effect;
use super::image::{ANY_ANSWER, NO_ANSWER};
use super::modifier::Modifiers;
use super::rewrite::Rewrite;
use super::set::ListId;
use super::site::{self, Site};

/// What the lists in force decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// No list has a say.
    None,
    /// Let through.
    Allowed,
    /// Blocked.
    Blocked,
    /// Answered as the rewrites of the deciding matches say.
    Rewritten,
}

/// A line of a list that concerns the question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Match<'a> {
    /// The list.
    pub list: ListId,
    /// The number of the line, from 1.
    pub line: u32,
    /// What the line does.
    pub effect: Effect,
    /// Whether it is `$important`.
    pub is_important: bool,
    /// Whether the list is one of allowed names.
    pub is_of_allow_list: bool,
    /// Whether it gives an answer as hosts files and dnsmasq do.
    pub is_given: bool,
    /// Labels of the listed name; none of a pattern.
    pub labels: u8,
    /// The answer it gives, or as exception the one it takes away.
    pub rewrite: Option<&'a Rewrite>,
}

/// How a match ranks among others. Those that only take rewrites away have no rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Block,
    Given,
    Exception,
    Rewrite,
    AllowList,
    ImportantBlock,
    ImportantRewrite,
    ImportantAllow,
}

impl Match<'_> {
    fn rank(&self) -> Option<Rank> {
        Some(match (self.effect, self.is_important, self.rewrite) {
            (Effect::Allow, true, _) if self.is_of_allow_list => Rank::ImportantAllow,
            (Effect::Allow, false, _) if self.is_of_allow_list => Rank::AllowList,
            (Effect::Allow, _, Some(_)) => return None,
            (Effect::Allow, true, None) => Rank::ImportantAllow,
            (Effect::Allow, false, None) => Rank::Exception,
            (Effect::Block, true, Some(_)) => Rank::ImportantRewrite,
            (Effect::Block, true, None) => Rank::ImportantBlock,
            (Effect::Block, false, Some(_)) if self.is_given => Rank::Given,
            (Effect::Block, false, Some(_)) => Rank::Rewrite,
            (Effect::Block, false, None) => Rank::Block,
        })
    }

    /// What decides between matches: the greatest. Only among given answers is the closest name
    /// better.
    fn weight(&self) -> (Option<Rank>, u8) {
        let rank = self.rank();
        (rank, if rank == Some(Rank::Given) { self.labels } else { 0 })
    }
}

/// The outcome of a look-up.
#[derive(Clone, Copy)]
pub struct Found<'a> {
    /// None where no name and no pattern was found, as for most questions.
    sought: Option<Sought<'a>>,
    rank: Option<Rank>,
    deciding: Option<Match<'a>>,
}

impl<'a> Found<'a> {
    /// Nothing was found.
    pub(super) const NOTHING: Self = Self { sought: None, rank: None, deciding: None };

    /// What was sought, with what of it decides.
    #[inline]
    pub(super) fn of(sought: Sought<'a>) -> Self {
        Self::of_those(sought, |_| true)
    }

    /// The same for a name that an answer leads to. Lines that give records or an alias speak of
    /// the question alone: what others say of the name is not undone by them.
    pub(super) fn behind(sought: Sought<'a>) -> Self {
        Self::of_those(sought, |one| matches!(one.rewrite, None | Some(Rewrite::Rcode(_))))
    }

    #[inline(always)]
    fn of_those(sought: Sought<'a>, counts: impl Fn(&Match<'a>) -> bool) -> Self {
        let (mut weight, mut deciding) = ((None, 0), None);
        for line in sought.lines {
            let one = sought.match_of(line);
            let its = one.weight();
            if its > weight && sought.keep(line) && counts(&one) {
                (weight, deciding) = (its, Some(one));
            }
        }
        Self { sought: Some(sought), rank: weight.0, deciding }
    }

    /// What the lists decide.
    #[inline]
    #[must_use]
    pub const fn decision(&self) -> Decision {
        match self.rank {
            None => Decision::None,
            Some(Rank::Block | Rank::ImportantBlock) => Decision::Blocked,
            Some(Rank::Given | Rank::Rewrite | Rank::ImportantRewrite) => Decision::Rewritten,
            Some(Rank::Exception | Rank::AllowList | Rank::ImportantAllow) => Decision::Allowed,
        }
    }

    /// Does the decision rest on a line with `$important`?
    #[must_use]
    pub const fn is_important(&self) -> bool {
        matches!(
            self.rank,
            Some(Rank::ImportantBlock | Rank::ImportantRewrite | Rank::ImportantAllow)
        )
    }

    /// The first of the lines that the decision rests on.
    #[inline]
    #[must_use]
    pub const fn deciding(&self) -> Option<Match<'a>> {
        self.deciding
    }

    /// The lines that the decision rests on. Of rewrites, all records belong to the answer; an
    /// RCODE goes before an alias, and an alias before records.
    pub fn all_deciding(&self) -> impl Iterator<Item = Match<'a>> {
        let weight = self.deciding.map(|one| one.weight());
        let of = move |sought: Sought<'a>| {
            let kept = sought.lines.iter().filter(move |line| sought.keep(line));
            kept.map(move |line| sought.match_of(line))
                .filter(move |one| weight == Some(one.weight()))
        };
        self.sought.into_iter().flat_map(of)
    }

    /// The answer of a rewrite that goes before all others: see [`Found::all_deciding`].
    #[must_use]
    pub fn rewrite(&self) -> Option<&'a Rewrite> {
        let order = |rewrite: &&Rewrite| match rewrite {
            Rewrite::Rcode(code) if *code != avocet_wire::Rcode::NOERROR => 0,
            Rewrite::Cname(_) => 1,
            Rewrite::Record(..) => 2,
            Rewrite::Rcode(_) | Rewrite::Any => 3,
        };
        let blocking = self.all_deciding().filter(|one| one.effect == Effect::Block);
        blocking.filter_map(|one| one.rewrite).min_by_key(order)
    }

    /// Every line of a list in force that concerns the question, whether it wins or not.
    pub fn matches(&self) -> impl Iterator<Item = Match<'a>> + Clone {
        self.sought.into_iter().flat_map(Sought::matches)
    }
}

impl std::fmt::Debug for Found<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Found").field("decision", &self.decision()).finish_non_exhaustive()
    }
}

/// A line that concerns the question, in numbers: it outlives the borrow of the image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) site: Site,
    /// Labels of the listed name; none of a pattern.
    pub(super) depth: u8,
}

/// An exception that takes an answer away which other lines give.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Taking {
    /// The number of the answer: see [`super::image::Image`].
    pub(super) answer: u32,
    pub(super) strength: Strength,
}

/// Which lines an exception takes answers from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Strength {
    /// From all.
    Important,
    /// From those without `$important`.
    Plain,
}

/// What concerns a question, by its name and by patterns.
#[derive(Clone, Copy)]
pub(super) struct Sought<'a> {
    pub(super) modifiers: &'a [Modifiers],
    /// For each set of modifiers, the number of its answer.
    pub(super) answers: &'a [u32],
    pub(super) lines: &'a [Line],
    /// Sorted.
    pub(super) taking: &'a [Taking],
}

impl<'a> Sought<'a> {
    /// Each line that concerns the question.
    #[inline]
    fn matches(self) -> impl Iterator<Item = Match<'a>> + Clone {
        self.lines.iter().map(move |line| self.match_of(line))
    }

    /// Not so for a rewrite that an exception takes away.
    #[inline]
    fn keep(&self, line: &Line) -> bool {
        self.taking.is_empty() || line.site.is(site::ALLOW) || self.keep_answer(line)
    }

    fn keep_answer(&self, line: &Line) -> bool {
        let answer = line.site.modifiers.and_then(|place| self.answers.get(place as usize));
        let Some(answer) = answer.filter(|answer| **answer != NO_ANSWER) else { return true };
        let is_taken = |answer: u32| {
            let first = self.taking.partition_point(|one| one.answer < answer);
            let found = self.taking.get(first).filter(|one| one.answer == answer);
            found.is_some_and(|one| {
                one.strength == Strength::Important || !line.site.is(site::IMPORTANT)
            })
        };
        !is_taken(*answer) && !is_taken(ANY_ANSWER)
    }

    #[inline]
    fn match_of(&self, line: &Line) -> Match<'a> {
        let Line { site, depth } = line;
        let modifiers = site.modifiers.and_then(|place| self.modifiers.get(place as usize));
        Match {
            list: site.list,
            line: site.line,
            effect: if site.is(site::ALLOW) { Effect::Allow } else { Effect::Block },
            is_important: site.is(site::IMPORTANT),
            is_of_allow_list: site.is_of_allow_list(),
            is_given: site.is_given(),
            labels: *depth,
            rewrite: modifiers.and_then(|modifiers| modifiers.rewrite.as_ref()),
        }
    }
}
