//! Follows referrals from the nearest known zone cut down to the servers of a name. Each query has
//! only the part of the name that the server needs (QNAME minimisation in relaxed mode, RFC 9156,
//! with the rule of §2.3 for underscores).

use std::future::Future;
use std::pin::Pin;

use avocet_cache::{Rank, Security};
use avocet_dnssec::nsec::Nsec;
use avocet_wire::{FoldedName, Rcode, Rtype, name};

use super::Walker;
use super::ask::{Reply, ZoneQuestion};
use super::channel::Note;
use super::cut::Cut;
use super::fetch::Extent;
use super::frame::Frame;
use super::part::{Ending, Part};
use super::rrset::{CachedAnswer, Denial, Name, Side, Stored};
use crate::failure::Failure;

/// Maximum number of referrals for one name.
const MAX_REFERRALS: u32 = 32;
/// Maximum number of queries with a minimised name (RFC 9156 §2.3: MAX_MINIMISE_COUNT).
const MAX_MINIMISED: u32 = 10;
/// Number of queries with a minimised name that add a single label (RFC 9156 §2.3:
/// MINIMISE_ONE_LAB).
const MINIMISED_BY_ONE: u32 = 4;

/// Maximum number of NSEC records that are searched for one that shows longer names.
const MAX_SHOWING: usize = 4;

/// The types of cached data that show that a minimised name exists: the types that clients query
/// most.
const KNOWN_BY: [Rtype; 4] = [Rtype::A, Rtype::AAAA, Rtype::MX, Rtype::TXT];

type Proving<'a> = Pin<Box<dyn Future<Output = Option<Part>> + Send + 'a>>;

/// The knowledge about the complete name after a query for a minimised name.
enum Shortened {
    /// The minimised name exists, so the complete name may exist. Contains the number of labels
    /// that are known to exist.
    Exists(usize),
    /// The response to the minimised name shows nothing about the complete name.
    Unknown,
    /// The response answers the question for the complete name.
    Ends(Box<Part>),
}

/// The result of an earlier query for a minimised name. It is kept until the question ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seen {
    /// The shortened name exists.
    Exists,
    /// The shortened name was denied, or there was no response. The complete name is queried next.
    Unknown,
}

impl Shortened {
    fn seen(&self) -> Seen {
        match self {
            Self::Exists(_) => Seen::Exists,
            Self::Unknown | Self::Ends(_) => Seen::Unknown,
        }
    }
}

/// The part of a name that queries show to servers.
struct Shown {
    qname: Name,
    labels: usize,
    /// Number of labels that are known to exist.
    known: usize,
    queries: u32,
    whole: bool,
}

impl Shown {
    fn new(qname: &Name, cut: &Cut) -> Self {
        let labels = name::labels(qname).count();
        Self {
            qname: qname.clone(),
            labels,
            known: name::labels(&cut.zone).count(),
            queries: 0,
            whole: false,
        }
    }

    fn is_whole(&self, shown: &Name) -> bool {
        shown.len() == self.qname.len()
    }

    /// Returns the minimised name to query next.
    fn next(&mut self) -> Name {
        let left = self.labels.saturating_sub(self.known);
        if self.whole || self.queries >= MAX_MINIMISED || left <= 1 {
            return self.qname.clone();
        }
        let more = if self.queries < MINIMISED_BY_ONE {
            1
        } else {
            left / (MAX_MINIMISED - self.queries) as usize
        };
        self.queries += 1;
        let mut hidden = left - more.clamp(1, left);
        let labels: Vec<&[u8]> = name::labels(&self.qname).take(hidden + 1).collect();
        // Labels with an underscore at their start are usually not zone cuts, so several such
        // labels are added at once (RFC 9156 §2.3).
        let is_scope =
            |label: usize| labels.get(label).is_some_and(|label| label.first() == Some(&b'_'));
        while hidden > 0 && is_scope(hidden) && is_scope(hidden - 1) {
            hidden -= 1;
        }
        self.qname.view().ancestors().nth(hidden).unwrap_or(self.qname.view()).into()
    }

    /// Makes later queries add single labels again. Returns `false` if they already do.
    fn reveals_slowly(&mut self) -> bool {
        let hides = self.queries == 0 && self.labels > self.known + 1;
        self.whole &= !hides;
        hides
    }

    /// Records that the ancestor of the name with this number of labels exists.
    fn exists(&mut self, labels: usize) {
        self.known = self.known.max(labels);
    }

    /// Applies the information on a minimised name. Returns the answer if there is one.
    fn take(&mut self, known: Shortened) -> Option<Part> {
        match known {
            Shortened::Exists(labels) => self.exists(labels),
            Shortened::Unknown => self.whole = true,
            Shortened::Ends(part) => return Some(*part),
        }
        None
    }
}

/// The next step after all servers of a zone cut failed.
enum Afterwards {
    /// The question fails.
    End,
    /// Query the parent for the delegation once more. The question fails if that is not possible.
    GoUp,
    /// Query the complete name.
    Widen,
}

/// Returns whether the answer to a DS query comes from the child zone instead of the parent: it is
/// an alias, and the server may serve both zones. For a recursive server, the result is `false`,
/// because such a server queries the parent itself.
fn is_of_child(part: &Part, qtype: Rtype, cut: &Cut) -> bool {
    qtype == Rtype::DS && part.is_alias() && !cut.recurses()
}

/// Returns what to do after the failure of a query with the whole QNAME, or with a part of it
/// (QNAME minimisation).
fn afterwards(failure: Failure, extent: Extent) -> Afterwards {
    match (failure, extent) {
        (Failure::TooManyQueries | Failure::Crowded, _) => Afterwards::End,
        // The servers of the zone were found, but their data is unusable everywhere.
        (Failure::TooManyRecords | Failure::Malformed, Extent::Whole) => Afterwards::End,
        (_, Extent::Whole) => Afterwards::GoUp,
        // Some servers fail for empty non-terminals, so the complete name is queried (relaxed
        // mode).
        (_, Extent::Part) => Afterwards::Widen,
    }
}

impl Walker {
    /// Finds the answer of the authoritative servers for a name and type.
    pub(crate) async fn descend(
        &mut self,
        qname: &Name,
        qtype: Rtype,
        frame: &Frame<'_>,
    ) -> Result<Part, Failure> {
        let mut cut = self.nearest_cut(qname, qtype).await;
        self.tell_cut(&cut);
        let mut shown = Shown { whole: !self.minimises(&cut), ..Shown::new(qname, &cut) };
        let mut referrals = 0;
        // A cached delegation may be out of date, so the parent is queried once more.
        let mut may_go_up = true;
        loop {
            let asked = shown.next();
            let is_whole = shown.is_whole(&asked);
            let asked_type = if is_whole { qtype } else { Rtype::A };
            if !is_whole
                && let Some(known) = self.known_shortened((&asked, qname), &cut, frame).await
            {
                match shown.take(known) {
                    Some(part) => return Ok(part),
                    None => continue,
                }
            }
            let extent = if is_whole { Extent::Whole } else { Extent::Part };
            let question = ZoneQuestion { name: &asked, rtype: asked_type, extent };
            let reply = match self.ask(&mut cut, question, frame).await {
                Ok(reply) => reply,
                Err(failure) => {
                    let has_parent = referrals == 0 && cut.zone.len() > 1 && cut.is_named();
                    match afterwards(failure, extent) {
                        Afterwards::Widen => {
                            self.shortened.insert(asked, Seen::Unknown);
                            shown.whole = true;
                        }
                        Afterwards::GoUp if may_go_up && has_parent => {
                            may_go_up = false;
                            cut = self.cut_of_parent(&cut.zone).await;
                            self.tell_cut(&cut);
                        }
                        Afterwards::GoUp | Afterwards::End => return Err(failure),
                    }
                    continue;
                }
            };
            match reply {
                Reply::Referral(next) => {
                    referrals += 1;
                    if referrals > MAX_REFERRALS {
                        self.tell_limit("referrals for one name");
                        return Err(Failure::TooManyReferrals);
                    }
                    shown.exists(name::labels(&next.zone).count());
                    self.tell_cut(&next);
                    cut = next;
                }
                Reply::Part(part)
                    if is_whole && is_of_child(&part, qtype, &cut) && shown.reveals_slowly() => {}
                Reply::Part(part) if is_whole => return Ok(*part),
                Reply::Part(part) => {
                    let taken =
                        self.take_shortened(*part, (&asked, &cut), (qname, qtype), frame).await;
                    self.shortened.insert(asked, taken.seen());
                    if let Some(part) = shown.take(taken) {
                        return Ok(part);
                    }
                }
            }
        }
    }

    /// Returns what cached data shows about a minimised name and the complete one, without a query.
    async fn known_shortened(
        &mut self,
        (asked, qname): (&Name, &Name),
        cut: &Cut,
        frame: &Frame<'_>,
    ) -> Option<Shortened> {
        let seen = self.shortened.get(asked).copied();
        if let Some(labels) = self.labels_known_to_exist(asked, qname, cut).await {
            return Some(Shortened::Exists(labels));
        }
        if seen == Some(Seen::Exists) {
            return Some(Shortened::Exists(name::labels(asked).count()));
        }
        match self.denied_before(asked, cut).await {
            Some(part) if frame.to_deny == Extent::Part => Some(Shortened::Ends(Box::new(part))),
            Some(_) => Some(Shortened::Unknown),
            None => seen.map(|_| Shortened::Unknown),
        }
    }

    /// Returns the number of labels that are known to exist, if the minimised name is known to
    /// exist from cached data or a cached proof of NODATA.
    async fn labels_known_to_exist(
        &mut self,
        asked: &Name,
        qname: &Name,
        cut: &Cut,
    ) -> Option<usize> {
        for rtype in KNOWN_BY {
            match self.io.look_up(Side::Zone, asked, rtype).await {
                Some((CachedAnswer::Denied(denial), _)) => {
                    return Some(labels_shown(&denial, (asked, qname), cut));
                }
                Some(_) => return Some(name::labels(asked).count()),
                None => {}
            }
        }
        match self.part_from_gap(asked, Rtype::A).await?.ending {
            Ending::Denied(_, denial) if denial.rcode == Rcode::NOERROR => {
                Some(labels_shown(&denial, (asked, qname), cut))
            }
            _ => None,
        }
    }

    /// Evaluates the response to a query for a minimised name.
    async fn take_shortened(
        &mut self,
        part: Part,
        (asked, cut): (&Name, &Cut),
        (qname, qtype): (&Name, Rtype),
        frame: &Frame<'_>,
    ) -> Shortened {
        if !denies_all(&part) {
            self.keep(&part, Rtype::A);
            return Shortened::Exists(match &part.ending {
                Ending::Denied(_, denial) => labels_shown(denial, (asked, qname), cut),
                _ => name::labels(asked).count(),
            });
        }
        self.keep_shortened_denial(&part);
        if frame.to_deny == Extent::Part && !part.is_alias() {
            return Shortened::Ends(Box::new(part));
        }
        if frame.is_first()
            && let Some(part) = self.proven_denial(&part, (qname, qtype)).await
        {
            return Shortened::Ends(Box::new(part));
        }
        // Some servers deny empty non-terminals, so a client never gets such a denial.
        Shortened::Unknown
    }

    /// Returns the cached denial of a minimised name or of its ancestor.
    async fn denied_before(&mut self, shown: &Name, cut: &Cut) -> Option<Part> {
        let (len, denial, _) = self.io.covering_nxdomain(Side::Delegation, shown).await?;
        let owner = shown.view().ancestor_of_len(len).into();
        (len > cut.zone.len()).then(|| Part::of_cache(Ending::Denied(owner, denial)))
    }

    /// Caches the denial of a minimised name where clients do not find it. Later walks below this
    /// name then query the complete name at once.
    fn keep_shortened_denial(&self, part: &Part) {
        if let Ending::Denied(owner, denial) = &part.ending
            && denial.rcode == Rcode::NXDOMAIN
            && part.sets.is_empty()
        {
            let how = Stored { side: Side::Delegation, rank: Rank::Additional, with_do: false };
            let denial = Denial { proof: Vec::new(), ..denial.clone() };
            self.io.note(Note::StoreDenial { owner: owner.clone(), rtype: Rtype::A, denial, how });
        }
    }

    /// Returns a denial of the complete name if the denial of a minimised name is validated. Such a
    /// denial proves that no name below the minimised name exists (RFC 8020 §2).
    fn proven_denial<'a>(
        &'a mut self,
        part: &'a Part,
        (qname, qtype): (&'a Name, Rtype),
    ) -> Proving<'a> {
        Box::pin(async move {
            let Ending::Denied(_, denial) = &part.ending else { return None };
            let may_prove =
                denial.rcode == Rcode::NXDOMAIN && !denial.proof.is_empty() && part.sets.is_empty();
            if !may_prove || self.validation().is_none() || self.checking_disabled {
                return None;
            }
            let mut proven = part.clone();
            let frame = Frame::first(qname.clone(), Rtype(0));
            self.validate(&mut proven, qtype, &frame).await.ok()?;
            match proven.ending {
                Ending::Denied(_, denial)
                    if denial.rcode == Rcode::NXDOMAIN && denial.security == Security::Secure =>
                {
                    Some(Part { ending: Ending::Denied(qname.clone(), denial), ..proven })
                }
                _ => None,
            }
        })
    }

    fn minimises(&self, cut: &Cut) -> bool {
        self.recursion().qname_minimisation && !cut.recurses()
    }
}

/// Returns whether the reply to a query for a minimised name does not show that the name exists: it
/// is an alias or a denial of the name.
fn denies_all(part: &Part) -> bool {
    let denies =
        !matches!(&part.ending, Ending::Denied(_, denial) if denial.rcode == Rcode::NOERROR);
    part.is_alias() || denies && !matches!(part.ending, Ending::Answered)
}

/// Returns the number of labels of the longest ancestor of a name that a NODATA response for the
/// minimised name `asked` shows to exist.
///
/// If an NSEC record goes past the minimised name to a name far below it, the names between the two
/// are empty non-terminals without records, so none of them is a zone cut. The record must come
/// from the zone whose servers are queried next: the servers of a zone above it would get more
/// labels than they need. It need not be validated: if it lies, the servers of its zone get a query
/// with more labels, and still refer to a zone cut if there is one.
fn labels_shown(denial: &Denial, (asked, qname): (&Name, &Name), cut: &Cut) -> usize {
    let labels = name::labels(asked).count();
    let of_cut = denial.soa.as_ref().filter(|soa| name::is_under(&cut.zone, &soa.owner));
    let Some(soa) = of_cut else { return labels };
    let nsecs = denial.proof.iter().filter(|set| set.rtype == Rtype::NSEC).take(MAX_SHOWING);
    let showing = nsecs
        .filter_map(|set| Nsec::read(&set.owner, set.records.first()?, &soa.owner))
        .find(|nsec| nsec.covers(asked) && nsec.shows_below(asked));
    let Some(nsec) = showing else { return labels };
    // The next name itself has records, and may be a zone cut.
    let is_above =
        |at: &FoldedName<'_>| at.len() < nsec.next.len() && name::is_under(nsec.next, at);
    let shown = qname.view().ancestors().find(is_above);
    shown.map_or(labels, |shown| labels.max(name::labels(&shown).count()))
}

#[cfg(test)]
mod tests {
    use super::super::cut::CutServers;
    use super::*;
    use crate::iterate::rrset::name_of;

    fn shown(qname: &[u8], zone: &[u8]) -> Vec<usize> {
        let cut = Cut { zone: name_of(zone), servers: CutServers::Named(Vec::new()), left_secs: 0 };
        let mut shown = Shown::new(&name_of(qname), &cut);
        let mut labels = Vec::new();
        loop {
            let next = shown.next();
            labels.push(name::labels(&next).count());
            if shown.is_whole(&next) {
                return labels;
            }
            shown.exists(labels[labels.len() - 1]);
        }
    }

    #[test]
    fn names_grow_by_a_label_and_long_ones_faster() {
        let first = name::labels(b"\x00").count();
        let check = |qname: &[u8], zone: &[u8], expected: &[usize]| {
            assert_eq!(
                shown(qname, zone),
                expected.iter().map(|labels| labels + first).collect::<Vec<_>>()
            );
        };
        check(b"\x01a\x01b\x01c\x00", b"\x00", &[1, 2, 3]);
        check(b"\x01a\x01b\x01c\x00", b"\x01b\x01c\x00", &[3]);
        check(b"\x00", b"\x00", &[0]);
        check(b"\x04_sip\x04_tcp\x01b\x01c\x00", b"\x01c\x00", &[2, 4]);
        check(b"\x04_sip\x04_tcp\x01c\x00", b"\x01c\x00", &[3]);
        check(b"\x01a\x04_sip\x04_tcp\x01c\x00", b"\x01c\x00", &[3, 4]);
        let long: Vec<u8> = [b"\x01x".repeat(60), vec![0]].concat();
        assert!(shown(&long, b"\x00").len() <= MAX_MINIMISED as usize + 1);
    }
}
