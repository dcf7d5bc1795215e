//! The chain of trust from an anchor down to the keys of a zone (RFC 4035 §5): DS and DNSKEY records
//! are asked for where they are not known.
//!
//! Signer names are hints of where zones are cut, and no more: whether there is a cut is what the
//! parent says, by DS records or the proof that there are none.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use avocet_cache::{Rank, Security};
use avocet_dnssec::anchor::Anchors;
use avocet_dnssec::negative::NegativeAnchors;
use avocet_dnssec::{Context, DelegationKind, Policy, Proof, Reason, Trust, Verdict, ZoneKeys, chain, signature};
use avocet_wire::{Class, Rtype, name};

use super::Walker;
use super::channel::Note;
use super::descend::Frame;
use super::part::{Ending, Part};
use super::rrset::{Name, Rrset, Side, Stored};
use crate::task::Failure;
use crate::trace::Why;

/// How often the chain to one name may ask another server for what did not verify.
const MAX_RETRIES: u32 = 2;

/// How long a zone is remembered whose chain of trust is broken, in seconds (RFC 9520 §3.2; Unbound: 60).
const BOGUS_SECS: u32 = 60;
/// As [`BOGUS_SECS`], where servers did not give DS or DNSKEY records.
const UNREACHABLE_SECS: u32 = 5;

/// What validation goes by.
#[derive(Clone, Debug)]
pub struct Validation {
    /// Where chains of trust begin.
    pub anchors: Anchors,
    /// Names below which nothing is validated.
    pub negative: NegativeAnchors,
    /// Which algorithms count.
    pub policy: Policy,
}

/// The keys of a zone, or why it has none that count.
pub(crate) type Chain = Result<Arc<ZoneKeys>, Reason>;

type Climbing<'a> = Pin<Box<dyn Future<Output = Chain> + Send + 'a>>;

/// Data of records that vouch for the keys of a zone.
struct Vouched {
    ds: Vec<Box<[u8]>>,
    dnskeys: Vec<Box<[u8]>>,
    lifetime_secs: u32,
}

/// What a zone above says of a name.
enum Link {
    /// Another zone begins there, with these keys.
    Keys(Arc<ZoneKeys>),
    /// The name belongs to the zone above.
    NoCut,
}

/// Lends RRsets to the validator.
pub(crate) fn lend<R>(sets: &[Rrset], act: impl FnOnce(&[avocet_dnssec::Rrset<'_>]) -> R) -> R {
    fn lent(data: &[Box<[u8]>]) -> Vec<&[u8]> {
        data.iter().map(AsRef::as_ref).collect()
    }
    let data: Vec<_> = sets.iter().map(|set| (lent(&set.records), lent(&set.signatures))).collect();
    let views: Vec<_> = sets
        .iter()
        .zip(&data)
        .map(|(set, (records, signatures))| avocet_dnssec::Rrset {
            owner: &set.owner,
            rtype: set.rtype,
            class: Class::IN,
            ttl_secs: set.ttl_secs,
            records,
            signatures,
        })
        .collect();
    act(&views)
}

/// The signer that the first signature of these sets names, if it may sign for `owner`.
pub(crate) fn signer<'a>(sets: impl IntoIterator<Item = &'a Rrset>, owner: &[u8]) -> Option<Name> {
    let signature = sets.into_iter().find_map(|set| set.signatures.first())?;
    let wire = signature.get(18..)?;
    let signer = avocet_wire::NameBuf::from_wire(wire.get(..name::wire_len(wire).ok()?)?).ok()?.folded();
    name::is_under(owner, signer.wire()).then(|| signer.wire().into())
}

impl Walker {
    /// What validation goes by; none where nothing is validated.
    pub(crate) fn validation(&self) -> Option<&Validation> {
        self.recursion().validation.as_ref()
    }

    pub(crate) fn context(&self) -> Context {
        let policy = self.validation().map(|validation| validation.policy).unwrap_or_default();
        Context { now_secs: self.io.moment().wall_secs as u32, policy }
    }

    /// The keys of the zone with this apex. If no zone begins there, those of the zone above.
    pub(crate) fn keys_of<'a>(&'a mut self, zone: &'a Name, frame: &'a Frame<'a>) -> Climbing<'a> {
        Box::pin(async move {
            if let Some(chain) = self.io.keys(zone).await {
                self.tell_known_chain(zone, &chain);
                return chain;
            }
            let anchor = self.anchor_of(zone)?;
            let chain = if *anchor == **zone {
                self.anchored_keys(zone, frame).await
            } else {
                self.keys_below(&anchor, zone, frame).await
            };
            self.keep_chain(zone, &chain);
            chain
        })
    }

    /// The anchor that counts for a name.
    pub(crate) fn anchor_of(&self, name: &[u8]) -> Result<Name, Reason> {
        let validation = self.validation().ok_or(Reason::NoAnchor)?;
        let anchor = validation.anchors.closest(name).ok_or(Reason::NoAnchor)?;
        match validation.negative.covering(name, anchor, self.io.moment().wall_secs) {
            Some(_) => Err(Reason::NegativeAnchor),
            None => Ok(anchor.wire().into()),
        }
    }

    fn keep_chain(&self, zone: &Name, chain: &Chain) {
        let lifetime_secs = match chain {
            Ok(keys) if keys.zone().wire() == &**zone => keys.lifetime_secs(self.context().now_secs),
            // Where no zone begins now, one may begin soon.
            Ok(_) => return,
            // What this question may cost says nothing to the next one.
            Err(Reason::Limit(_)) => return,
            Err(Reason::Unreachable | Reason::NetworkError) => UNREACHABLE_SECS,
            Err(reason) if reason.verdict() == Verdict::Bogus => BOGUS_SECS,
            Err(_) => self.insecure_secs,
        };
        self.io.note(Note::Keys(zone.clone(), chain.clone(), lifetime_secs));
    }

    /// Keys that the anchor itself vouches for.
    async fn anchored_keys(&mut self, zone: &Name, frame: &Frame<'_>) -> Chain {
        let data = |validation: &Validation| {
            let point = validation.anchors.point(zone);
            point.map(|point| {
                let trust = point.trust();
                let owned = |data: &[&[u8]]| -> Vec<Box<[u8]>> { data.iter().map(|data| Box::from(*data)).collect() };
                (owned(trust.ds), owned(trust.dnskeys))
            })
        };
        let (ds, dnskeys) = self.validation().and_then(data).ok_or(Reason::NoAnchor)?;
        self.trusted_keys(zone, &Vouched { ds, dnskeys, lifetime_secs: u32::MAX }, frame).await
    }

    /// Asks a zone for its keys, and verifies them by what is trusted.
    async fn trusted_keys(&mut self, zone: &Name, vouched: &Vouched, frame: &Frame<'_>) -> Chain {
        let mut fault = None;
        for _ in 0..=MAX_RETRIES {
            // Where nobody else can be asked, what was wrong first is what is told.
            let part = match (self.chain_part(zone, Rtype::DNSKEY, frame).await, fault) {
                (Ok(part), _) => part,
                (Err(reason), fault) => return Err(fault.unwrap_or(reason)),
            };
            let found = part.sets.iter().find(|set| set.rtype == Rtype::DNSKEY && set.owner == *zone).cloned();
            let context = self.context();
            let verified = match &found {
                None => Err(Reason::DnskeyMissing),
                Some(set) => {
                    let ds: Vec<&[u8]> = vouched.ds.iter().map(AsRef::as_ref).collect();
                    let dnskeys: Vec<&[u8]> = vouched.dnskeys.iter().map(AsRef::as_ref).collect();
                    let trust = Trust { ds: &ds, dnskeys: &dnskeys, lifetime_secs: vouched.lifetime_secs };
                    self.budget.begin_message();
                    let budget = &mut self.budget;
                    lend(std::slice::from_ref(set), |sets| chain::zone_keys(&sets[0], &trust, &context, budget))
                }
            };
            match (verified, found) {
                (Ok(keys), Some(mut set)) => {
                    self.tell_chain(zone, &vouched.ds, Ok(keys.tags().collect()));
                    set.ttl_secs = set.ttl_secs.min(keys.lifetime_secs(context.now_secs));
                    set.security = Security::Secure;
                    self.keep(&Part { sets: vec![set], ..part }, Rtype::DNSKEY);
                    return Ok(Arc::new(keys));
                }
                (Err(reason), _) if reason.verdict() != Verdict::Bogus => {
                    self.tell_chain(zone, &vouched.ds, Err(reason));
                    return Err(reason);
                }
                (Err(reason), _) => {
                    self.tell_chain(zone, &vouched.ds, Err(reason));
                    fault.get_or_insert(reason);
                    if !self.distrust((zone, Rtype::DNSKEY), &part) {
                        break;
                    }
                }
                (Ok(_), None) => break,
            }
        }
        Err(fault.unwrap_or(Reason::DnskeyMissing))
    }

    /// DS or DNSKEY records, from the cache or from servers that were not found to give bad ones.
    async fn chain_part(&mut self, owner: &Name, rtype: Rtype, frame: &Frame<'_>) -> Result<Part, Reason> {
        let below = frame.below(owner, rtype).ok_or(Reason::Unreachable)?;
        self.io.enter(Why::Trust, owner, rtype);
        let part: Pin<Box<dyn Future<Output = _> + Send + '_>> = Box::pin(self.part(owner, rtype, &below));
        let part = part.await;
        self.io.leave();
        part.map_err(|failure| match failure {
            Failure::Network => Reason::NetworkError,
            _ => Reason::Unreachable,
        })
    }

    /// From the anchor's keys down to a zone below, cut by cut.
    async fn keys_below(&mut self, anchor: &Name, zone: &Name, frame: &Frame<'_>) -> Chain {
        let mut above = self.keys_of(anchor, frame).await?;
        let names: Vec<Name> =
            name::ancestors(zone).take_while(|name| name.len() > anchor.len()).map(Name::from).collect();
        for name in names.iter().rev() {
            if name != zone && !self.is_known_cut(name).await {
                continue;
            }
            if let Some(chain) = self.io.keys(name).await {
                self.tell_known_chain(name, &chain);
                above = chain?;
                continue;
            }
            // A negative anchor may stand anywhere in between.
            self.anchor_of(name)?;
            match self.link(&above, name, frame).await {
                Ok(Link::Keys(keys)) => {
                    above = keys;
                    self.keep_chain(name, &Ok(above.clone()));
                }
                Ok(Link::NoCut) => {}
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
        self.referrals.contains_key(name) || self.io.look_up(Side::Delegation, name, Rtype::NS).await.is_some()
    }

    /// What the zone of these keys says of a name below it.
    async fn link(&mut self, above: &Arc<ZoneKeys>, child: &Name, frame: &Frame<'_>) -> Result<Link, Reason> {
        let mut above = above.clone();
        let mut fault = None;
        let seen = self.proofs.clone();
        match self.link_by(&above, child, &seen, frame).await {
            Err(reason) if reason.verdict() == Verdict::Bogus => {}
            link => return link,
        }
        if let Some(sets) = self.referrals.get(child).cloned() {
            match self.link_by(&above, child, &sets, frame).await {
                // That there is no proof at all is no fault yet.
                Err(Reason::DenialMissing) => {}
                Err(reason) if reason.verdict() == Verdict::Bogus => fault = Some(reason),
                link => return link,
            }
        }
        for _ in 0..=MAX_RETRIES {
            let part = match (self.chain_part(child, Rtype::DS, frame).await, fault) {
                (Ok(part), _) => part,
                (Err(reason), fault) => return Err(fault.unwrap_or(reason)),
            };
            let sets: Vec<Rrset> = match &part.ending {
                Ending::Denied(_, denial) => denial.proof.clone(),
                _ => part.sets.clone(),
            };
            // Between the two there may be a zone whose cut was never seen.
            if let Some(signer) = signer(&sets, child)
                && signer != *child
                && signer.len() > above.zone().wire().len()
                && name::is_under(&signer, above.zone().wire())
            {
                above = self.keys_of(&signer, frame).await?;
            }
            match self.link_by(&above, child, &sets, frame).await {
                Ok(link) => {
                    // Behind an alias stands what was not verified.
                    if !matches!(part.ending, Ending::GoesOn(_)) {
                        self.keep_verified(&part, Rtype::DS);
                    }
                    return Ok(link);
                }
                Err(reason) if reason.verdict() != Verdict::Bogus => {
                    self.keep_verified(&part, Rtype::DS);
                    return Err(reason);
                }
                Err(reason) => {
                    fault.get_or_insert(reason);
                    if !self.distrust((child, Rtype::DS), &part) {
                        break;
                    }
                }
            }
        }
        Err(fault.unwrap_or(Reason::Unreachable))
    }

    /// What these records, of the zone above, say of a name: DS records or the proof that it has none.
    async fn link_by(
        &mut self,
        above: &Arc<ZoneKeys>,
        child: &Name,
        sets: &[Rrset],
        frame: &Frame<'_>,
    ) -> Result<Link, Reason> {
        let context = self.context();
        self.budget.begin_message();
        let ds = sets.iter().find(|set| set.rtype == Rtype::DS && set.owner == *child);
        let Some(ds) = ds else {
            if self.is_alias_of(above, child, sets) {
                return Ok(Link::NoCut);
            }
            let budget = &mut self.budget;
            let delegation = lend(sets, |sets| Proof::signed(sets, above, &context).delegation(child, budget))?;
            self.insecure_secs = delegation.lifetime_secs;
            return match delegation.kind {
                DelegationKind::NoCut => Ok(Link::NoCut),
                DelegationKind::Unsigned | DelegationKind::OptOut => Err(Reason::UnsignedDelegation),
            };
        };
        let budget = &mut self.budget;
        let verified = lend(std::slice::from_ref(ds), |sets| signature::verify(&sets[0], above, &context, budget))?;
        let data: Vec<&[u8]> = ds.records.iter().map(AsRef::as_ref).collect();
        self.insecure_secs = verified.lifetime_secs;
        chain::check_ds(&data, context.policy)?;
        let mut kept = ds.clone();
        (kept.security, kept.ttl_secs) = (Security::Secure, kept.ttl_secs.min(verified.lifetime_secs));
        let how = Stored { side: Side::Zone, rank: Rank::AuthoritativeAnswer, with_do: true };
        self.io.note(Note::Store(kept, how));
        let vouched = Vouched { ds: ds.records.clone(), dnskeys: Vec::new(), lifetime_secs: verified.lifetime_secs };
        self.trusted_keys(child, &vouched, frame).await.map(Link::Keys)
    }

    /// Has the zone above signed an alias at this name, so that no zone begins there (RFC 1034 §3.6.2)?
    fn is_alias_of(&mut self, above: &ZoneKeys, child: &Name, sets: &[Rrset]) -> bool {
        let Some(alias) = sets.iter().find(|set| set.rtype == Rtype::CNAME && set.owner == *child) else {
            return false;
        };
        let context = self.context();
        let budget = &mut self.budget;
        let verified = lend(std::slice::from_ref(alias), |sets| signature::verify(&sets[0], above, &context, budget));
        verified.is_ok_and(|verified| verified.closest_encloser.is_none())
    }

    /// Does the chain end between a zone and a name below it, at a cut that was not seen?
    /// `proof` is what came along.
    pub(crate) async fn ends_between(
        &mut self,
        keys: &Arc<ZoneKeys>,
        owner: &Name,
        proof: &[Rrset],
        frame: &Frame<'_>,
    ) -> Chain {
        let mut above = keys.clone();
        let apex_len = above.zone().wire().len();
        let names: Vec<Name> =
            name::ancestors(owner).take_while(|name| name.len() > apex_len).map(Name::from).collect();
        for name in names.iter().rev() {
            self.anchor_of(name)?;
            match self.link_by(&above, name, proof, frame).await {
                Ok(Link::NoCut) => continue,
                Err(reason) if reason.verdict() != Verdict::Bogus => return Err(reason),
                _ => {}
            }
            match self.link(&above, name, frame).await {
                Ok(Link::Keys(keys)) => above = keys,
                Ok(Link::NoCut) => {}
                Err(reason) => return Err(reason),
            }
        }
        Ok(above)
    }

    /// Keeps what the chain was found to rest on. A denial of DS proves for the chain less than for a
    /// client: it is kept as it came.
    fn keep_verified(&self, part: &Part, rtype: Rtype) {
        let mut part = part.clone();
        part.sets.iter_mut().for_each(|set| set.security = Security::Secure);
        self.keep(&part, rtype);
    }

    /// Takes note that what a server said did not verify, so that another one is asked. False if
    /// nobody else can be.
    pub(crate) fn distrust(&mut self, (qname, qtype): (&Name, Rtype), part: &Part) -> bool {
        match part.server {
            Some(server) => self.distrusted.push((qname.clone(), qtype, server)),
            // It came from the cache: ask the servers.
            _ if !self.passes_over_cache => self.passes_over_cache = true,
            _ => return false,
        }
        true
    }
}
