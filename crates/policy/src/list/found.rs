//! The decision of the lists, and every line that contributes to it.
//!
//! The order of precedence is: allowed with `$important`; blocked or rewritten with `$important`;
//! allowed by an allow list; rewritten; allowed by an exception (`@@`); answered by a line of a
//! hosts file or of dnsmasq (the line for the closest name); blocked.

use super::entry::Effect;
use super::image::{ANY_ANSWER, NO_ANSWER};
use super::modifier::Modifiers;
use super::rewrite::Rewrite;
use super::set::ListId;
use super::site::{self, Site};

/// The decision of the lists in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// No list applies.
    None,
    /// The name is allowed.
    Allowed,
    /// The name is blocked.
    Blocked,
    /// The name is answered by the rewrites of the deciding matches.
    Rewritten,
}

/// A line of a list that applies to the question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Match<'a> {
    /// The list.
    pub list: ListId,
    /// The number of the line, from 1.
    pub line: u32,
    /// The effect of the line.
    pub effect: Effect,
    /// Whether the line is `$important`.
    pub is_important: bool,
    /// Whether the list is an allow list.
    pub is_of_allow_list: bool,
    /// Whether the line supplies an answer as hosts files and dnsmasq do.
    pub is_given: bool,
    /// Number of labels of the listed name; zero for a pattern.
    pub labels: u8,
    /// The answer that the line gives or, for an exception, removes.
    pub rewrite: Option<&'a Rewrite>,
}

/// The precedence of a match. A match that only removes rewrites has no rank.
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

    /// Returns the key of a match in comparisons: the match with the greatest key decides. Only for
    /// answers of hosts files and dnsmasq, closer names have greater keys.
    fn weight(&self) -> (Option<Rank>, u8) {
        let rank = self.rank();
        (rank, if rank == Some(Rank::Given) { self.labels } else { 0 })
    }
}

/// The result of a look-up.
#[derive(Clone, Copy)]
pub struct Found<'a> {
    /// The lines about the question; `None` if no name and no pattern matched, as for most
    /// questions.
    sought: Option<Sought<'a>>,
    rank: Option<Rank>,
    deciding: Option<Match<'a>>,
    /// Whether the limit on the work of the question left lines or patterns unread.
    pub(super) is_incomplete: bool,
}

impl<'a> Found<'a> {
    /// An empty result.
    pub(super) const NOTHING: Self =
        Self { sought: None, rank: None, deciding: None, is_incomplete: false };

    /// Determines the deciding match of a question.
    #[inline]
    pub(super) fn of(sought: Sought<'a>) -> Self {
        Self::of_those(sought, |_| true)
    }

    /// Determines the deciding match for a name that an answer leads to. Ignores lines that answer
    /// with records or a CNAME, because these apply only to the question. Also ignores exceptions
    /// that remove such answers.
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
        Self { sought: Some(sought), rank: weight.0, deciding, is_incomplete: false }
    }

    /// Returns whether the limit on the work of the question left lines or patterns unread. They
    /// may have the name.
    #[inline]
    #[must_use]
    pub const fn is_incomplete(&self) -> bool {
        self.is_incomplete
    }

    /// Returns the decision of the lists.
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

    /// Reports whether a line with `$important` decided.
    #[must_use]
    pub const fn is_important(&self) -> bool {
        matches!(
            self.rank,
            Some(Rank::ImportantBlock | Rank::ImportantRewrite | Rank::ImportantAllow)
        )
    }

    /// Returns the first of the deciding lines.
    #[inline]
    #[must_use]
    pub const fn deciding(&self) -> Option<Match<'a>> {
        self.deciding
    }

    /// Returns the deciding lines. If the lines rewrite, the answer has the records of all of them.
    /// An RCODE takes precedence over a CNAME, and a CNAME over records.
    pub fn all_deciding(&self) -> impl Iterator<Item = Match<'a>> {
        let weight = self.deciding.map(|one| one.weight());
        let of = move |sought: Sought<'a>| {
            let kept = sought.lines.iter().filter(move |line| sought.keep(line));
            kept.map(move |line| sought.match_of(line))
                .filter(move |one| weight == Some(one.weight()))
        };
        self.sought.into_iter().flat_map(of)
    }

    /// Returns the rewrite with the highest precedence: see [`Found::all_deciding`].
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

    /// Returns every line of the lists in force that applies to the question, whether it decides or
    /// not.
    pub fn matches(&self) -> impl Iterator<Item = Match<'a>> + Clone {
        self.sought.into_iter().flat_map(Sought::matches)
    }
}

impl std::fmt::Debug for Found<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Found").field("decision", &self.decision()).finish_non_exhaustive()
    }
}

/// A line that applies to the question. It contains indices instead of references into the image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) site: Site,
    /// Number of labels of the listed name; zero for a pattern.
    pub(super) depth: u8,
}

/// An exception that removes the answers of other lines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Taking {
    /// The identifier of the answer: see [`super::image::Image`].
    pub(super) answer: u32,
    pub(super) strength: Strength,
}

/// The lines whose answers an exception removes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Strength {
    /// An exception removes the answers of all lines.
    Important,
    /// An exception removes only the answers of lines without `$important`.
    Plain,
}

/// All lines that apply to a question, by its name and by patterns.
#[derive(Clone, Copy)]
pub(super) struct Sought<'a> {
    pub(super) modifiers: &'a [Modifiers],
    /// For each set of modifiers, the identifier of its answer.
    pub(super) answers: &'a [u32],
    pub(super) lines: &'a [Line],
    /// The exceptions that remove answers, in the order of the identifiers of these answers.
    pub(super) taking: &'a [Taking],
}

impl<'a> Sought<'a> {
    /// Returns each line that applies to the question.
    #[inline]
    fn matches(self) -> impl Iterator<Item = Match<'a>> + Clone {
        self.lines.iter().map(move |line| self.match_of(line))
    }

    /// Returns whether the line still applies, because no exception has removed its answer.
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
