//! The chain of trust from an anchor down to the keys of a zone (RFC 4035 §5). Missing DS and
//! DNSKEY records are queried.
//!
//! Signer names are only hints of zone cuts: the parent decides whether there is a cut, with DS
//! records or the proof that there are none.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use avocet_cache::{Rank, Security};
use avocet_dnssec::{Context, DelegationKind, Reason, Trust, Verdict, ZoneKeys, chain, signature};
use avocet_wire::{FoldedName, Rtype, name};

use super::Walker;
use super::channel::Note;
use super::frame::Frame;
use super::part::{Ending, Part};
use super::rrset::{Name, Rrset, Side, Stored};
use super::signed::{lend, signer};
use super::validate::is_final;
use crate::failure::Failure;
use crate::rdata_list::RdataList;
use crate::trace::Why;
use crate::validation::{Chain, Validation};

/// Maximum number of times that another server is queried after a validation failure, for the chain
/// of trust to one name.
const MAX_RETRIES: u32 = 2;

/// Seconds for which a broken chain of trust is cached for a zone (RFC 9520 §3.2; Unbound: 60).
const BOGUS_SECS: u32 = 60;
/// Seconds for which a chain of trust is cached as broken after servers did not send DS or DNSKEY
/// records.
const UNREACHABLE_SECS: u32 = 5;

type Climbing<'a> = Pin<Box<dyn Future<Output = Chain> + Send + 'a>>;

/// The data that authenticates the keys of a zone: DS records or anchors.
struct Vouched {
    ds: RdataList,
    dnskeys: RdataList,
    lifetime_secs: u32,
}

/// The information of the parent zone about a name below it.
enum Link {
    /// A zone begins at the name, with these keys.
    Keys(Arc<ZoneKeys>),
    /// The name is not a zone cut, so it belongs to the parent zone.
    NoCut,
    /// The chain of trust ends at a zone between parent and name, which has no keys. Holds the
    /// reason.
    EndsBetween(Reason),
}

impl Walker {
    /// Returns the settings of validation; `None` if nothing is validated.
    pub(crate) fn validation(&self) -> Option<&Validation> {
        self.recursion().validation.as_ref()
    }

    pub(crate) fn context(&self) -> Context {
        let policy = self.validation().map(|validation| validation.policy).unwrap_or_default();
        Context { now_secs: self.io.moment().wall_secs as u32, policy }
    }

    /// Returns the keys of the zone with this apex. If there is no zone cut at this name, returns
    /// the keys of the zone that contains the name.
    pub(crate) async fn keys_of(&mut self, zone: &Name, frame: &Frame<'_>) -> Chain {
        match self.known_chain(zone).await {
            Some(chain) => {
                self.tell_known_chain(zone, &chain);
                chain
            }
            None => self.climb(zone, frame).await,
        }
    }

    /// Finds keys that are not known yet, like [`Walker::keys_of`].
    fn climb<'a>(&'a mut self, zone: &'a Name, frame: &'a Frame<'a>) -> Climbing<'a> {
        Box::pin(async move {
            let anchor = self.anchor_of(zone.view())?;
            if *anchor != **zone {
                return self.keys_below(&anchor, zone, frame).await;
            }
            let chain = self.anchored_keys(zone, frame).await;
            if let Err(reason) = chain
                && reason.verdict() == Verdict::Bogus
                && let Some(above) = self.keys_over_anchor(zone, frame).await
            {
                let secs = self.insecure_secs.min(above.lifetime_secs(self.context().now_secs));
                self.io.note(Note::Keys(zone.clone(), Ok(above.clone()), secs));
                return Ok(above);
            }
            self.keep_chain(zone, &chain);
            chain
        })
    }

    /// Returns the keys of the zone above a failed anchor, if they prove that there is no zone cut
    /// at the anchor's name. Another anchor may then be used (RFC 6840 §5.10). The anchor of an
    /// existing zone is never ignored.
    async fn keys_over_anchor(&mut self, zone: &Name, frame: &Frame<'_>) -> Option<Arc<ZoneKeys>> {
        let parent: Name = zone.view().parent()?.into();
        self.anchor_of(parent.view()).ok()?;
        let above = self.keys_of(&parent, frame).await.ok()?;
        let link = self.link_over_cuts(&above, zone, frame).await.ok()?;
        matches!(link, Link::NoCut).then_some(above)
    }

    /// Returns an error for data that is not validated: data of a private zone, for which no DS
    /// records must be queried above the zone, and data below a negative trust anchor, whose name
    /// need not be a zone. The DS records of an apex belong to the parent.
    pub(crate) fn check_excluded(&self, owner: FoldedName<'_>, rtype: Rtype) -> Result<(), Reason> {
        let above = if rtype == Rtype::DS { owner.parent().unwrap_or(owner) } else { owner };
        let Some(validation) = self.validation() else { return Ok(()) };
        let is_private = validation.private.nearest(&above).is_some();
        if !is_private && validation.negative.iter().next().is_none() {
            return Ok(());
        }
        match self.anchor_of(above) {
            Err(reason) if is_private || reason == Reason::NegativeAnchor => Err(reason),
            _ => Ok(()),
        }
    }

    /// Returns the anchor that applies to a name.
    pub(crate) fn anchor_of(&self, name: FoldedName<'_>) -> Result<Name, Reason> {
        let validation = self.validation().ok_or(Reason::NoAnchor)?;
        let anchor = validation.anchors.closest(&name).ok_or(Reason::NoAnchor)?;
        if validation
            .private
            .nearest(&name)
            .is_some_and(|(apex, ())| anchor.wire().len() < apex.len())
        {
            return Err(Reason::NegativeAnchor);
        }
        match validation.negative.covering(&name, anchor, self.io.moment().wall_secs) {
            Some(_) => Err(Reason::NegativeAnchor),
            None => Ok(anchor.view().into()),
        }
    }

    /// Returns the keys of a zone, or the reason why it has none, if this question has found them
    /// before, or if they are cached.
    async fn known_chain(&mut self, zone: &Name) -> Option<Chain> {
        match self.io.keys(zone).await {
            None => self.chains.get(zone).cloned(),
            chain => chain,
        }
    }

    /// Caches the keys of a zone, or the reason why it has none. Walks for child zones find this
    /// result.
    fn keep_chain(&mut self, zone: &Name, chain: &Chain) {
        let lifetime_secs = match chain {
            Ok(keys) if keys.zone().wire() == &**zone => {
                keys.lifetime_secs(self.context().now_secs)
            }
            // The result is not cached, because a zone cut may be made here at any time.
            Ok(_) => return,
            // The result is not cached, because the limits of one question do not apply to the
            // next.
            Err(Reason::Limit(_) | Reason::NotAsked) => return,
            Err(Reason::Unreachable | Reason::NetworkError) => UNREACHABLE_SECS,
            Err(reason) if reason.verdict() == Verdict::Bogus => BOGUS_SECS,
            Err(_) => self.insecure_secs,
        };
        if lifetime_secs == 0 {
            // The TTL is zero. Only the question that caused the query may use the result (RFC 1035
            // §3.2.1).
            self.chains.insert(zone.clone(), chain.clone());
            return;
        }
        self.io.note(Note::Keys(zone.clone(), chain.clone(), lifetime_secs));
    }

    /// Returns the keys of a zone that its own anchor authenticates.
    async fn anchored_keys(&mut self, zone: &Name, frame: &Frame<'_>) -> Chain {
        let data = |validation: &Validation| {
            let point = validation.anchors.point(zone);
            point.map(|point| {
                let trust = point.trust();
                (trust.ds.iter().collect(), trust.dnskeys.iter().collect())
            })
        };
        let (ds, dnskeys) = self.validation().and_then(data).ok_or(Reason::NoAnchor)?;
        self.trusted_keys(zone, &Vouched { ds, dnskeys, lifetime_secs: u32::MAX }, frame).await
    }

    /// Queries the keys of a zone, and verifies them with the DS records or anchors in `vouched`.
    async fn trusted_keys(&mut self, zone: &Name, vouched: &Vouched, frame: &Frame<'_>) -> Chain {
        let mut fault = None;
        for _ in 0..=MAX_RETRIES {
            // If no other server can be queried, the first error is the result.
            let part = match (self.chain_part(zone, Rtype::DNSKEY, frame).await, fault) {
                (Ok(part), _) => part,
                (Err(reason), fault) => return Err(end_of(fault, reason)),
            };
            let found = part
                .sets
                .iter()
                .find(|set| set.rtype == Rtype::DNSKEY && set.owner == *zone)
                .cloned();
            let context = self.context();
            let verified = match &found {
                None => Err(Reason::DnskeyMissing),
                Some(set) => {
                    let ds: Vec<&[u8]> = vouched.ds.iter().collect();
                    let dnskeys: Vec<&[u8]> = vouched.dnskeys.iter().collect();
                    let trust =
                        Trust { ds: &ds, dnskeys: &dnskeys, lifetime_secs: vouched.lifetime_secs };
                    self.budget.begin_message();
                    let budget = &mut self.budget;
                    lend(std::slice::from_ref(set), |sets| {
                        chain::zone_keys(&sets[0], &trust, &context, budget)
                    })
                }
            };
            match (verified, found) {
                (Ok(keys), Some(mut set)) => {
                    self.tell_chain(zone, &vouched.ds, Ok(keys.tags().collect()));
                    set.ttl_secs = set.ttl_secs.min(keys.lifetime_secs(context.now_secs));
                    self.keep_secure(set);
                    return Ok(Arc::new(keys));
                }
                (Err(reason), found) if reason.verdict() != Verdict::Bogus => {
                    self.tell_chain(zone, &vouched.ds, Err(reason));
                    self.insecure_secs =
                        found.map_or(0, |set| set.ttl_secs).min(vouched.lifetime_secs);
                    return Err(reason);
                }
                (Err(reason), _) => {
                    self.tell_chain(zone, &vouched.ds, Err(reason));
                    fault.get_or_insert(reason);
                    self.distrust((zone, Rtype::DNSKEY), &part);
                }
                (Ok(_), None) => break,
            }
        }
        Err(fault.unwrap_or(Reason::DnskeyMissing))
    }

    /// Returns DS or DNSKEY records from the cache, or from servers that have not sent records that
    /// failed validation.
    ///
    /// # Errors
    ///
    /// The result is [`Reason::NotAsked`] if the question reached a limit. This is not a fault of
    /// the zone, so it is not cached (RFC 9520 §3.2).
    async fn chain_part(
        &mut self,
        owner: &Name,
        rtype: Rtype,
        frame: &Frame<'_>,
    ) -> Result<Part, Reason> {
        let below = frame.below(owner, rtype).ok_or(Reason::NotAsked)?;
        let reached_before = std::mem::take(&mut self.reached_limit);
        self.io.enter(Why::Trust, owner, rtype);
        let part: Pin<Box<dyn Future<Output = _> + Send + '_>> =
            Box::pin(self.part(owner, rtype, &below));
        let part = part.await;
        self.io.leave();
        let reached_limit = self.reached_limit;
        self.reached_limit |= reached_before;
        part.map_err(|failure| match failure {
            _ if reached_limit => Reason::NotAsked,
            Failure::Network => Reason::NetworkError,
            _ => Reason::Unreachable,
        })
    }

    /// Follows the chain from the anchor's keys down to a zone, one zone cut after the other.
    async fn keys_below(&mut self, anchor: &Name, zone: &Name, frame: &Frame<'_>) -> Chain {
        let mut above = self.keys_of(anchor, frame).await?;
        let names: Vec<Name> = zone
            .view()
            .ancestors()
            .take_while(|name| name.len() > anchor.len())
            .map(Name::from)
            .collect();
        for name in names.iter().rev() {
            if let Some(chain) = self.known_chain(name).await {
                self.tell_known_chain(name, &chain);
                above = chain?;
                continue;
            }
            if name != zone && !self.is_known_cut(name).await {
                continue;
            }
            // Any name in between may have a negative trust anchor.
            self.anchor_of(name.view())?;
            match self.link_over_cuts(&above, name, frame).await {
                Ok(Link::Keys(keys)) => {
                    above = keys;
                    self.keep_chain(name, &Ok(above.clone()));
                }
                Ok(Link::NoCut) => {}
                Ok(Link::EndsBetween(reason)) => return Err(reason),
                Err(reason) => {
                    self.tell_known_chain(name, &Err(reason));
                    self.keep_chain(name, &Err(reason));
                    return Err(reason);
                }
            }
        }
        Ok(above)
    }

    async fn is_known_cut(&mut self, name: &Name) -> bool {
        self.referrals.contains_key(name)
            || self.io.look_up(Side::Delegation, name, Rtype::NS).await.is_some()
    }

    /// Adds a link to the chain of trust like [`Walker::link`]. If the records that were found
    /// belong to neither zone, searches for zone cuts name by name. If the same servers serve
    /// parent and child, there is no referral that shows the cut.
    async fn link_over_cuts(
        &mut self,
        above: &Arc<ZoneKeys>,
        child: &Name,
        frame: &Frame<'_>,
    ) -> Result<Link, Reason> {
        let fault = match self.link(above, child, frame).await {
            Err(reason) if !is_final(reason) => reason,
            link => return link,
        };
        let parent: Name = child.view().parent().unwrap_or(FoldedName::ROOT).into();
        match self.ends_between(above, &parent, &[], frame).await {
            Ok(below) if below.zone() != above.zone() => {
                // Data that the parent's keys did not verify may be verified with these keys.
                self.distrusted.retain(|(name, rtype, _)| (name, *rtype) != (child, Rtype::DS));
                self.link(&below, child, frame).await
            }
            Err(end) if end.verdict() != Verdict::Bogus => Ok(Link::EndsBetween(end)),
            _ => Err(fault),
        }
    }

    /// Returns what the zone with these keys shows about a name below it.
    async fn link(
        &mut self,
        above: &Arc<ZoneKeys>,
        child: &Name,
        frame: &Frame<'_>,
    ) -> Result<Link, Reason> {
        let mut fault = None;
        let seen = self.proofs.clone();
        match self.link_by(above, child, &seen, frame).await {
            Err(reason) if reason.verdict() == Verdict::Bogus => {}
            link => return link,
        }
        if let Some(sets) = self.referrals.get(child).cloned() {
            match self.link_by(above, child, &sets, frame).await {
                // Records of a zone in between are not an error yet. Neither are missing records.
                Err(reason) if !is_final(reason) => {}
                Err(reason) if reason.verdict() == Verdict::Bogus => fault = Some(reason),
                link => return link,
            }
        }
        for _ in 0..=MAX_RETRIES {
            let mut part = match (self.chain_part(child, Rtype::DS, frame).await, fault) {
                (Ok(part), _) => part,
                (Err(reason), fault) => return Err(end_of(fault, reason)),
            };
            // Only the alias itself shows whether there is a zone cut at its name.
            if part.zone.as_ref().is_some_and(|zone| !self.is_forwarded(zone)) {
                part.ends_with_alias();
            }
            match self.link_by_part(above, child, &part, frame).await {
                Err(reason) if reason.verdict() == Verdict::Bogus => {
                    fault.get_or_insert(reason);
                    self.distrust((child, Rtype::DS), &part);
                }
                link => {
                    if let Ending::Denied(_, denial) = &part.ending {
                        // The proof may also cover other names further below.
                        self.note_proof(&denial.proof);
                    }
                    self.keep_denial_of_ds(&part, child);
                    return link;
                }
            }
        }
        Err(fault.unwrap_or(Reason::Unreachable))
    }

    /// Adds a link to the chain of trust like [`Walker::link_by`], from the answer to a DS query.
    /// If the answer belongs to a zone between `above` and `child`, uses the keys of that zone.
    async fn link_by_part(
        &mut self,
        above: &Arc<ZoneKeys>,
        child: &Name,
        part: &Part,
        frame: &Frame<'_>,
    ) -> Result<Link, Reason> {
        let mut sets = part.sets.clone();
        let mut soa = None;
        match &part.ending {
            Ending::Denied(_, denial) => {
                sets.extend(denial.proof.iter().cloned());
                soa = denial.soa.as_ref().map(|soa| soa.owner.clone());
            }
            // An alias that comes from a wildcard needs the proof in the same reply.
            Ending::GoesOn(_) => sets.extend(part.proof.iter().cloned()),
            Ending::Answered => {}
        }
        let fault = match self.link_by(above, child, &sets, frame).await {
            Err(reason) if !is_final(reason) => reason,
            link => return link,
        };
        let is_between = |hint: &Name| {
            hint.len() > above.zone().wire().len()
                && hint.len() < child.len()
                && name::is_under(child, hint)
        };
        let Some(hint) = signer(&sets, child.view()).or(soa).filter(is_between) else {
            return Err(fault);
        };
        self.note_signer(&hint);
        match self.keys_of(&hint, frame).await {
            Ok(keys) if keys.zone() == above.zone() => Err(fault),
            Ok(keys) => self.link_by(&keys, child, &sets, frame).await,
            Err(end) if end.verdict() == Verdict::Bogus => Err(end),
            Err(end) => Ok(Link::EndsBetween(end)),
        }
    }

    /// Returns what these records of the parent show about a name: DS records, or a proof that
    /// there are none.
    async fn link_by(
        &mut self,
        above: &Arc<ZoneKeys>,
        child: &Name,
        sets: &[Rrset],
        frame: &Frame<'_>,
    ) -> Result<Link, Reason> {
        let context = self.context();
        self.budget.begin_message();
        let stated_secs = sets.iter().map(|set| set.ttl_secs).min().unwrap_or(0);
        self.insecure_secs = stated_secs.min(above.lifetime_secs(context.now_secs));
        let ds = sets.iter().find(|set| set.rtype == Rtype::DS && set.owner == *child);
        let Some(ds) = ds else {
            if self.is_alias_of(above, child, sets) {
                return Ok(Link::NoCut);
            }
            let delegation =
                self.prove(above, sets, |proof, budget| proof.delegation(child, budget))?;
            self.insecure_secs = delegation.lifetime_secs;
            return match delegation.kind {
                DelegationKind::NoCut => Ok(Link::NoCut),
                DelegationKind::Unsigned | DelegationKind::OptOut => {
                    Err(Reason::UnsignedDelegation)
                }
            };
        };
        let budget = &mut self.budget;
        let verified = lend(std::slice::from_ref(ds), |sets| {
            signature::verify(&sets[0], above, &context, budget)
        })?;
        let data: Vec<&[u8]> = ds.records.iter().collect();
        self.insecure_secs = verified.lifetime_secs;
        self.keep_secure(Rrset { ttl_secs: ds.ttl_secs.min(verified.lifetime_secs), ..ds.clone() });
        chain::check_ds(&data, context.policy)?;
        let vouched = Vouched {
            ds: ds.records.clone(),
            dnskeys: RdataList::default(),
            lifetime_secs: verified.lifetime_secs,
        };
        self.trusted_keys(child, &vouched, frame).await.map(Link::Keys)
    }

    /// Returns whether the parent has a signed alias at this name, so that there is no zone cut
    /// (RFC 1034 §3.6.2). An alias from a wildcard also shows this if the name is proven not to
    /// exist, because a wildcard never replaces a delegation (RFC 1034 §4.3.3).
    fn is_alias_of(&mut self, above: &ZoneKeys, child: &Name, sets: &[Rrset]) -> bool {
        let Some(alias) = sets.iter().find(|set| set.rtype == Rtype::CNAME && set.owner == *child)
        else {
            return false;
        };
        let context = self.context();
        let budget = &mut self.budget;
        let verified = lend(std::slice::from_ref(alias), |sets| {
            signature::verify(&sets[0], above, &context, budget)
        });
        match verified.map(|verified| verified.closest_encloser) {
            Ok(None) => true,
            Ok(Some(encloser)) => self
                .prove(above, sets, |proof, budget| proof.expansion(child, &encloser, budget))
                .is_ok(),
            Err(_) => false,
        }
    }

    /// Returns whether the chain of trust ends between a zone and a name below it, at a zone cut
    /// without a referral. If not, returns the keys for the name. `proof` has the records of the
    /// reply.
    pub(crate) async fn ends_between(
        &mut self,
        keys: &Arc<ZoneKeys>,
        owner: &Name,
        proof: &[Rrset],
        frame: &Frame<'_>,
    ) -> Chain {
        let mut above = keys.clone();
        let apex_len = above.zone().wire().len();
        let names: Vec<Name> = owner
            .view()
            .ancestors()
            .take_while(|name| name.len() > apex_len)
            .map(Name::from)
            .collect();
        for name in names.iter().rev() {
            self.anchor_of(name.view())?;
            if let Some(chain) = self.known_chain(name).await {
                self.tell_known_chain(name, &chain);
                above = chain?;
                continue;
            }
            let link = match self.link_by(&above, name, proof, frame).await {
                Ok(Link::NoCut) => continue,
                Err(reason) if reason.verdict() != Verdict::Bogus => Err(reason),
                _ => self.link(&above, name, frame).await,
            };
            match link {
                Ok(Link::Keys(keys)) => above = keys,
                Ok(Link::NoCut) => {}
                Ok(Link::EndsBetween(reason)) => return Err(reason),
                Err(reason) if reason.verdict() == Verdict::Bogus => return Err(reason),
                Err(reason) => {
                    self.keep_chain(name, &Err(reason));
                    return Err(reason);
                }
            }
        }
        Ok(above)
    }

    /// Caches an RRset as secure. The caller has verified its signature.
    fn keep_secure(&self, set: Rrset) {
        let how = Stored { side: Side::Zone, rank: Rank::AuthoritativeAnswer, with_do: true };
        self.io.note(Note::Store(Rrset { security: Security::Secure, ..set }, how));
    }

    /// Caches a denial of DS records that the chain depends on. The denial is cached as received,
    /// and not as secure, because clients need more proof than the chain of trust does. A denial
    /// after an alias is not cached, because the alias was not validated.
    fn keep_denial_of_ds(&self, part: &Part, child: &Name) {
        if matches!(&part.ending, Ending::Denied(owner, _) if owner == child)
            && part.sets.is_empty()
        {
            self.keep(part, Rtype::DS);
        }
    }

    /// Records a validation failure, so that another server is queried next. If the data came from
    /// the cache, ignores the cache from now on.
    pub(crate) fn distrust(&mut self, (qname, qtype): (&Name, Rtype), part: &Part) {
        match part.server {
            Some(server) => self.distrusted.push((qname.clone(), qtype, server.addr)),
            None => self.passes_over_cache = true,
        }
    }
}

/// Returns the error of a search that continued after a first error, `fault`, and found nothing. It
/// is `fault`, unless the search ended at a limit: other servers might then have answered
/// differently.
fn end_of(fault: Option<Reason>, reason: Reason) -> Reason {
    if reason == Reason::NotAsked { reason } else { fault.unwrap_or(reason) }
}
