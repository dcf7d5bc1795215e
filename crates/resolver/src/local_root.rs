//! A copy of the root zone (RFC 8806), which answers in place of the root servers.
//!
//! A copy is accepted only if its ZONEMD record and the chain of trust verify it (RFC 8976). It
//! answers like an authoritative server: referrals with DS records or the proof that there are
//! none, data, and denials with NSEC records. Another part of the server fetches the copies.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use avocet_dnssec::Context;
use avocet_dnssec::anchor::Anchors;
use avocet_dnssec::zonemd::{self, ZoneRecord};
use avocet_wire::view::RecordSection;
use avocet_wire::{Class, FoldedName, NameBuf, Rcode, Rtype};

use crate::iterate::rrset::Rrset;
use crate::name_order::order;
use crate::read::{Reply, ReplyRecord, folded_target};

/// Number of octets of the five numbers at the end of SOA data (RFC 1035 §3.3.13).
const SOA_NUMBERS: usize = 20;

/// The reason why a copy of the root zone is rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LocalRootFault {
    /// The digest does not match or cannot be verified.
    Digest(zonemd::Fault),
    /// The zone has no NSEC records.
    NoNsec,
}

impl fmt::Display for LocalRootFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Digest(fault) => fault.fmt(f),
            Self::NoNsec => f.write_str("it has no NSEC records"),
        }
    }
}

impl std::error::Error for LocalRootFault {}

impl From<zonemd::Fault> for LocalRootFault {
    fn from(fault: zonemd::Fault) -> Self {
        Self::Digest(fault)
    }
}

/// The numbers of an SOA record that control the renewal of a copy, in seconds (RFC 1035 §3.3.13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timers {
    /// The serial, which identifies the version of the zone.
    pub serial: u32,
    /// The interval after a successful check.
    pub refresh_secs: u32,
    /// The interval after a failed check.
    pub retry_secs: u32,
    /// The age after which a copy must not be used unless it was renewed.
    pub expire_secs: u32,
}

impl Timers {
    /// Parses the numbers from uncompressed SOA data.
    #[must_use]
    pub fn of(soa: &[u8]) -> Option<Self> {
        let numbers = soa.len().checked_sub(SOA_NUMBERS).and_then(|at| soa.get(at..))?;
        let mut numbers = numbers
            .chunks_exact(4)
            .map(|octets| octets.iter().fold(0, |n, o| n << 8 | u32::from(*o)));
        let mut next = || numbers.next();
        Some(Self {
            serial: next()?,
            refresh_secs: next()?,
            retry_secs: next()?,
            expire_secs: next()?,
        })
    }
}

/// A verified copy of the root zone.
#[derive(Debug)]
pub struct LocalRoot {
    /// The RRsets, in canonical order of their owners and then by type.
    sets: BTreeMap<(Vec<u8>, u16), Rrset>,
    /// The NSEC RRsets, in canonical order of their owners.
    gaps: BTreeMap<Vec<u8>, Rrset>,
    timers: Timers,
    /// The time at which the first signature expires, in seconds since 1970.
    signed_until_secs: u64,
}

/// The reply that the copy gives to a question.
pub(crate) struct Said {
    pub(crate) reply: Reply,
    pub(crate) rcode: Rcode,
    /// Whether the reply is an answer or a denial, and not a referral.
    pub(crate) is_authoritative: bool,
}

type Sets<'z> = Vec<(RecordSection, &'z Rrset)>;

impl LocalRoot {
    /// Verifies a copy and prepares it for look-up.
    ///
    /// # Errors
    ///
    /// The copy is rejected. The error has the reason.
    pub fn new(
        records: &[ZoneRecord<'_>],
        anchors: &Anchors,
        context: &Context,
    ) -> Result<Self, LocalRootFault> {
        let signed_secs = zonemd::verify(records, &NameBuf::ROOT, anchors, context)?;
        let signed_until_secs = u64::from(context.now_secs) + u64::from(signed_secs);
        let mut sets: BTreeMap<(Vec<u8>, u16), Rrset> = BTreeMap::new();
        for record in records {
            let covered =
                record.rdata.first_chunk().map_or(0, |covered| u16::from_be_bytes(*covered));
            let is_signature = record.rtype == Rtype::RRSIG;
            let rtype = if is_signature { Rtype(covered) } else { record.rtype };
            let Some(owner) = folded_target(record.owner) else { continue };
            let set = sets.entry((order(owner.wire()), rtype.0));
            let set =
                set.or_insert_with(|| Rrset::empty(owner.view().into(), rtype, record.ttl_secs));
            set.ttl_secs = set.ttl_secs.min(record.ttl_secs);
            let data = if is_signature { &mut set.signatures } else { &mut set.records };
            if !data.iter().any(|known| *known == *record.rdata) {
                data.push(record.rdata);
            }
        }
        let soa =
            sets.get(&(order(&[0]), Rtype::SOA.0)).and_then(|set| Timers::of(set.records.first()?));
        let timers = soa.ok_or(zonemd::Fault::NoSoa)?;
        let is_nsec = |((_, rtype), _): &(&(Vec<u8>, u16), &Rrset)| *rtype == Rtype::NSEC.0;
        let gaps: BTreeMap<_, _> = sets
            .iter()
            .filter(is_nsec)
            .map(|((owner, _), set)| (owner.clone(), set.clone()))
            .collect();
        if !gaps.contains_key(&order(&[0])) {
            return Err(LocalRootFault::NoNsec);
        }
        Ok(Self { sets, gaps, timers, signed_until_secs })
    }

    /// Returns the serial and the timers of the copy.
    #[must_use]
    pub fn timers(&self) -> Timers {
        self.timers
    }

    /// Returns when the copy expires if it was current at `checked_at_secs`, both in seconds since
    /// 1970. The signatures limit the result, because a primary's statement that the copy is
    /// current is not authenticated.
    #[must_use]
    pub fn expires_at_secs(&self, checked_at_secs: u64) -> u64 {
        (checked_at_secs + u64::from(self.timers.expire_secs)).min(self.signed_until_secs)
    }

    /// Returns the number of RRsets.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Returns whether the copy has no RRsets, which is impossible because it has a digest.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// Returns the reply to a folded name and type (RFC 1034 §4.3.2). Returns `None` for an alias
    /// or a wildcard in the root, for which the root servers are queried.
    pub(crate) fn say(&self, qname: FoldedName<'_>, qtype: Rtype) -> Option<Said> {
        if let Some(cut) =
            self.cut_above(qname).filter(|cut| qtype != Rtype::DS || cut.owner.view() != qname)
        {
            return Some(said(qname, Rcode::NOERROR, Role::Referral, &self.referral(cut)));
        }
        if let Some(set) = self.get(qname, qtype).filter(|set| !set.records.is_empty()) {
            return Some(said(
                qname,
                Rcode::NOERROR,
                Role::Authority,
                &[(RecordSection::Answer, set)],
            ));
        }
        let encloser = qname.ancestors().find(|above| self.exists(*above))?;
        let wildcard = encloser.to_buf().prefixed(b"*").ok()?.folded();
        if self.get(qname, Rtype::CNAME).is_some() || self.exists(wildcard.view()) {
            return None;
        }
        let soa = self.get(FoldedName::ROOT, Rtype::SOA)?;
        let mut sets: Sets<'_> = vec![(RecordSection::Authority, soa)];
        sets.push((RecordSection::Authority, self.gap(qname)?));
        if self.exists(qname) {
            return Some(said(qname, Rcode::NOERROR, Role::Authority, &sets));
        }
        let of_wildcard = (RecordSection::Authority, self.gap(wildcard.view())?);
        if of_wildcard.1.owner != sets[1].1.owner {
            sets.push(of_wildcard);
        }
        Some(said(qname, Rcode::NXDOMAIN, Role::Authority, &sets))
    }

    fn get(&self, owner: FoldedName<'_>, rtype: Rtype) -> Option<&Rrset> {
        self.sets.get(&(order(&owner), rtype.0))
    }

    /// Returns whether there is data at the name or below.
    fn exists(&self, owner: FoldedName<'_>) -> bool {
        let key = order(&owner);
        let next = self.sets.range((key.clone(), 0)..).next();
        next.is_some_and(|((at, _), _)| at.starts_with(&key))
    }

    /// Returns the delegation at or above a name. If there are several, returns the delegation
    /// nearest to the root.
    fn cut_above(&self, qname: FoldedName<'_>) -> Option<&Rrset> {
        let above = qname.ancestors().filter(|above| above.len() > 1);
        above.filter_map(|above| self.get(above, Rtype::NS)).last()
    }

    /// Returns the NSEC RRset that matches or covers a name.
    fn gap(&self, qname: FoldedName<'_>) -> Option<&Rrset> {
        self.gaps.range(..=order(&qname)).next_back().map(|(_, set)| set)
    }

    fn referral<'z>(&'z self, cut: &'z Rrset) -> Sets<'z> {
        let mut sets = vec![(RecordSection::Authority, cut)];
        let ds = self.get(cut.owner.view(), Rtype::DS).or_else(|| self.gap(cut.owner.view()));
        sets.extend(ds.map(|set| (RecordSection::Authority, set)));
        for server in &cut.records {
            let Some(server) = folded_target(server) else { continue };
            let glue = [Rtype::A, Rtype::AAAA];
            let glue = glue.into_iter().filter_map(|rtype| self.get(server.view(), rtype));
            sets.extend(glue.map(|set| (RecordSection::Additional, set)));
        }
        sets
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Authority,
    Referral,
}

fn said(qname: FoldedName<'_>, rcode: Rcode, role: Role, sets: &[(RecordSection, &Rrset)]) -> Said {
    let records = sets.iter().flat_map(|(section, set)| {
        let record = move |rtype: Rtype, rdata| {
            let (section, owner, ttl_secs) = (*section, set.owner.view(), set.ttl_secs);
            ReplyRecord { section, rtype, class: Class::IN, ttl_secs, owner, rdata }
        };
        let data = set.records.iter().map(move |rdata| record(set.rtype, rdata));
        data.chain(set.signatures.iter().map(move |rdata| record(Rtype::RRSIG, rdata)))
    });
    Said { reply: Reply::of(qname, records), rcode, is_authoritative: role == Role::Authority }
}

/// The slot for the copy in use. The thread that renews the copy and all resolvers share it.
#[derive(Clone, Debug, Default)]
pub struct LocalRootSlot(Arc<Mutex<Option<InstalledRoot>>>);

#[derive(Clone, Debug)]
struct InstalledRoot {
    zone: Arc<LocalRoot>,
    expires_at_secs: u64,
}

impl LocalRootSlot {
    /// Puts a copy into use until this time, in seconds since 1970.
    pub fn put(&self, zone: Arc<LocalRoot>, expires_at_secs: u64) {
        *self.held() = Some(InstalledRoot { zone, expires_at_secs });
    }

    /// Removes the copy.
    pub fn clear(&self) {
        *self.held() = None;
    }

    /// Returns the copy in use at a time in seconds since 1970, with the time at which it expires.
    #[must_use]
    pub fn at(&self, wall_secs: u64) -> Option<(Arc<LocalRoot>, u64)> {
        let held = self.held();
        held.as_ref()
            .filter(|held| wall_secs < held.expires_at_secs)
            .map(|held| (held.zone.clone(), held.expires_at_secs))
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<InstalledRoot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
