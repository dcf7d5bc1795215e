//! What lists decide, and every line that has a say in it.
//!
//! In the order of who wins: allowed with `$important`; blocked or rewritten with `$important`;
//! allowed by a list of allowed names; rewritten; allowed by an exception (`@@`); answered by a line of a
//! hosts file or of dnsmasq, by the one about the closest name; blocked.

use avocet_wire::Rtype;

use super::entry::Effect;
use super::lookup::{Hit, Question};
use super::modifier::Modifiers;
use super::rewrite::Rewrite;
use super::set::{ListId, ListSet};
use super::site::{self, Site, Sites};

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

    /// What decides between matches: the greatest. Only among given answers is the closest name better.
    fn weight(&self) -> (Option<Rank>, u8) {
        let rank = self.rank();
        (rank, if rank == Some(Rank::Given) { self.labels } else { 0 })
    }

    /// Does this take the answer away that a line gives?
    fn takes_away(&self, rewrite: &Rewrite) -> bool {
        self.effect == Effect::Allow
            && !self.is_of_allow_list
            && self.rewrite.is_some_and(|taken| *taken == Rewrite::Any || taken == rewrite)
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
        let (mut weight, mut deciding) = ((None, 0), None);
        for hit in sought.hits {
            for site in Sites::at(sought.sites, hit.place) {
                let Some(one) = sought.match_of(&site, *hit) else { continue };
                let its = one.weight();
                if its > weight && sought.keep(&one) {
                    (weight, deciding) = (its, Some(one));
                }
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
        matches!(self.rank, Some(Rank::ImportantBlock | Rank::ImportantRewrite | Rank::ImportantAllow))
    }

    /// The first of the lines that the decision rests on.
    #[inline]
    #[must_use]
    pub const fn deciding(&self) -> Option<Match<'a>> {
        self.deciding
    }

    /// The lines that the decision rests on. Of rewrites, all records belong to the answer; an RCODE
    /// goes before an alias, and an alias before records.
    pub fn all_deciding(&self) -> impl Iterator<Item = Match<'a>> {
        let (weight, sought) = (self.deciding.map(|one| one.weight()), self.sought);
        let is_deciding =
            move |one: &Match<'a>| weight == Some(one.weight()) && sought.is_some_and(|all| all.keep(one));
        self.matches().filter(is_deciding)
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

/// Whether entries may switch others off.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Badfilter {
    Nowhere,
    Somewhere,
}

/// What concerns a question, by its name and by patterns.
#[derive(Clone, Copy)]
pub(super) struct Sought<'a> {
    pub(super) sites: &'a [u8],
    pub(super) modifiers: &'a [Modifiers],
    pub(super) badfilter: Badfilter,
    pub(super) question: Question<'a>,
    /// The type of the record that leads to the name, where nobody asked for it.
    pub(super) record: Option<Rtype>,
    pub(super) in_force: &'a ListSet,
    pub(super) hits: &'a [Hit],
    /// Of the question's name.
    pub(super) labels: usize,
}

impl<'a> Sought<'a> {
    /// Each line that concerns the question.
    fn matches(self) -> impl Iterator<Item = Match<'a>> + Clone {
        let sites = self.hits.iter().flat_map(move |hit| Sites::at(self.sites, hit.place).map(|site| (site, *hit)));
        sites.filter_map(move |(site, hit)| self.match_of(&site, hit))
    }

    /// Not so for a rewrite that an exception takes away.
    #[inline]
    fn keep(&self, one: &Match<'_>) -> bool {
        let rewrite = one.rewrite.filter(|_| one.effect == Effect::Block);
        rewrite.is_none_or(|rewrite| !self.matches().any(|other| other.takes_away(rewrite)))
    }

    /// The match that a site is; none if it does not concern the question.
    #[inline]
    fn match_of(&self, site: &Site, hit: Hit) -> Option<Match<'a>> {
        let covers = site.covers(hit.depth.into(), self.labels);
        if site.is(site::BADFILTER) || !covers || !self.in_force.contains(site.list) {
            return None;
        }
        let modifiers = match site.modifiers {
            None => None,
            // A place past the end is that of a malformed image: such an entry concerns nobody.
            Some(place) => Some(self.modifiers.get(place as usize)?),
        };
        if modifiers.is_some_and(|modifiers| !modifiers.admit(&self.question, self.record))
            || self.is_switched_off(site, hit)
        {
            return None;
        }
        let effect = if site.is(site::ALLOW) { Effect::Allow } else { Effect::Block };
        Some(Match {
            list: site.list,
            line: site.line,
            effect,
            is_important: site.is(site::IMPORTANT),
            is_of_allow_list: site.is_of_allow_list(),
            is_given: site.is_given(),
            labels: hit.depth,
            rewrite: modifiers.and_then(|modifiers| modifiers.rewrite.as_ref()),
        })
    }

    /// Is there an entry in force that switches this one off? Such come first among the sites of a name.
    #[inline]
    fn is_switched_off(&self, site: &Site, hit: Hit) -> bool {
        self.badfilter == Badfilter::Somewhere
            && Sites::at(self.sites, hit.place)
                .take_while(|other| other.is(site::BADFILTER))
                .any(|other| other.says_as(site) && self.in_force.contains(other.list))
    }
}
