//! The judgement of an answer: each link of its chain of aliases is compared with the zones.

use std::collections::BTreeSet;

use avocet_wire::{Rcode, Rtype, name};

use super::Fault;
use super::answer::{Answer, Asked, told};
use super::internet::{Internet, MAX_TTL_SECS};
use super::truth::{Fact, Link, MAX_ALIASES, Truth};
use super::zone::Wire;
use crate::shown;

/// A fault with its description.
pub(super) type Found = (Fault, String);

/// The conditions of a judgement, in addition to the question.
pub(super) struct Judge<'i> {
    pub(super) internet: &'i Internet,
    /// Whether a failure has no excuse outside the simulated internet: no datagram is lost, and the
    /// clock is right.
    pub(super) is_sound: bool,
    /// Whether an attacker may have changed the caches.
    pub(super) is_attacked: bool,
}

impl Judge<'_> {
    pub(super) fn judge(&self, asked: &Asked, answer: &Answer) -> Result<(), Found> {
        let truth = Truth::of(self.internet, &asked.qname, asked.qtype);
        let is_true = answer.rcode == truth.rcode && answer.facts.keys().eq(truth.answer.keys());
        let compared = || {
            format!(
                "{}, expected {}",
                told(answer.rcode, &answer.facts),
                told(truth.rcode, &truth.answer)
            )
        };
        if answer.is_authentic && !(truth.is_secure && is_true) {
            let fault = if is_true { Fault::AdOnInsecure } else { Fault::AdOnFalse };
            return Err((fault, compared()));
        }
        self.judge_ttls(answer)?;
        if !truth.has_end || answer.rcode == Rcode::SERVFAIL {
            let is_excused =
                !truth.has_end || !self.is_sound || truth.is_exposed && self.is_attacked;
            return if is_excused { Ok(()) } else { Err((Fault::Failure, compared())) };
        }
        self.judge_links(asked, answer)
            .map_err(|what| (Fault::FalseData, format!("{what}: {}", compared())))?;
        let is_provable = truth.is_secure && asked.is_validated() && truth.rcode != Rcode::YXDOMAIN;
        if is_true && is_provable && !answer.is_authentic {
            return Err((Fault::NoAd, compared()));
        }
        Ok(())
    }

    fn judge_ttls(&self, answer: &Answer) -> Result<(), Found> {
        if answer.ttl_secs > MAX_TTL_SECS {
            return Err((Fault::Ttl, format!("a TTL of {} s", answer.ttl_secs)));
        }
        for ((owner, rtype, data), ttl_secs) in &answer.facts {
            let link = Link::of(self.internet, owner, Rtype(*rtype));
            let original = link.facts.get(&(owner.clone(), *rtype, data.clone()));
            if self.must_be_true(&link, answer.is_authentic)
                && original.is_some_and(|original| ttl_secs > original)
            {
                return Err((
                    Fault::Ttl,
                    format!("the TTL of {} has grown to {ttl_secs} s", shown(owner)),
                ));
            }
        }
        Ok(())
    }

    fn must_be_true(&self, link: &Link, is_validated: bool) -> bool {
        !(link.is_tainted && self.is_attacked) || link.is_secure && is_validated
    }

    /// Follows the aliases of the answer. Each link that no attacker can change must match its
    /// zone, even after a changed link.
    fn judge_links(&self, asked: &Asked, answer: &Answer) -> Result<(), String> {
        let mut rest: BTreeSet<Fact> = answer.facts.keys().cloned().collect();
        let (mut at, mut seen) = (asked.qname.clone(), BTreeSet::new());
        for _ in 0..=MAX_ALIASES {
            if !seen.insert(at.clone()) {
                return Ok(());
            }
            let link = Link::of(self.internet, &at, asked.qtype);
            let next = if self.must_be_true(&link, asked.is_validated()) {
                if let Some((owner, rtype, _)) =
                    link.facts.keys().find(|fact| !answer.facts.contains_key(*fact))
                {
                    return Err(format!("{} {} is missing", shown(owner), Rtype(*rtype)));
                }
                rest.retain(|fact| !link.facts.contains_key(fact));
                if link.next.is_none() && answer.rcode != link.rcode {
                    return Err(format!("RCODE of {}", shown(&at)));
                }
                link.next
            } else {
                let alias = answer
                    .facts
                    .keys()
                    .find(|(owner, rtype, _)| *owner == at && *rtype == Rtype::CNAME.0);
                let next = alias
                    .filter(|_| asked.qtype != Rtype::CNAME)
                    .map(|(_, _, target)| target.to_ascii_lowercase());
                let is_of = |owner: &Wire, rtype| {
                    *owner == at || rtype == Rtype::DNAME.0 && name::is_under(&at, owner)
                };
                rest.retain(|(owner, rtype, _)| !is_of(owner, *rtype));
                next
            };
            match (next, rest.first()) {
                (Some(next), _) => at = next,
                (None, None) => return Ok(()),
                (None, Some((owner, rtype, _))) => {
                    return Err(format!(
                        "{} {} does not belong there",
                        shown(owner),
                        Rtype(*rtype)
                    ));
                }
            }
        }
        Ok(())
    }
}
