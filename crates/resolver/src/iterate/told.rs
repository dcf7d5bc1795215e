//! Records the steps of a walk (the recursive resolution of one question) in its trace.

use avocet_cache::Security;
use avocet_dnssec::{Reason, Verdict};
use avocet_wire::{Rcode, Rtype};

use super::Walker;
use super::classify::Sort;
use super::cut::{Cut, CutServers};
use super::fetch::NotFetched;
use super::part::{Ending, Part};
use super::rrset::{Name, Rrset};
use super::signed::{BEFORE_SIGNER, signer_of};
use crate::rdata_list::RdataList;
use crate::trace::{Find, Step, Taken};
use crate::validation::Chain;

impl Walker {
    /// Records in the trace that data was found without a query.
    pub(super) fn tell_cached(&self, owner: &Name, rtype: Rtype, part: &Part) {
        let (find, ttl_secs, security) = match (&part.ending, part.sets.last()) {
            (Ending::Denied(_, denial), _) => {
                let find =
                    if denial.rcode == Rcode::NXDOMAIN { Find::Nxdomain } else { Find::Nodata };
                (find, denial.soa.as_ref().map_or(0, |soa| soa.ttl_secs), denial.security)
            }
            (_, Some(set)) => (Find::Records, set.ttl_secs, set.security),
            (_, None) => (Find::Records, 0, Security::Unchecked),
        };
        self.io.record(Step::Cached { name: owner.clone(), rtype, find, ttl_secs, security });
    }

    /// Records in the trace that an NSEC or NSEC3 range denies the name.
    pub(super) fn tell_gap(&self, owner: &Name, rtype: Rtype, part: &Part) {
        let soa = match &part.ending {
            Ending::Denied(_, denial) => denial.soa.as_ref(),
            _ => None,
        };
        let ttl_secs = soa.map_or(0, |soa| soa.ttl_secs);
        let (find, security) = (Find::Gap, Security::Secure);
        self.io.record(Step::Cached { name: owner.clone(), rtype, find, ttl_secs, security });
    }

    /// Records in the trace that the resolution continues at this zone cut.
    pub(super) fn tell_cut(&self, cut: &Cut) {
        let (servers, addresses) = match &cut.servers {
            CutServers::Named(servers) => {
                (servers.len(), servers.iter().map(|server| server.addresses.len()).sum::<usize>())
            }
            CutServers::Listed { servers, .. } => (servers.len(), servers.len()),
        };
        self.io.record(Step::Cut { zone: cut.zone.clone(), servers, addresses });
    }

    /// Records in the trace how a reply was classified.
    pub(super) fn tell_taken(&self, sort: &Sort) {
        self.io.record(Step::Taken(match sort {
            Sort::Answer => Taken::Answer,
            Sort::Referral(zone) => Taken::Referral(zone.clone()),
            Sort::Hearsay => Taken::Hearsay,
            Sort::Lame => Taken::Lame,
            Sort::Failed(rcode) => Taken::Error(*rcode),
        }));
    }

    /// Records in the trace that no server of a zone cut sent a usable reply.
    pub(super) fn tell_no_reply(&mut self, why: NotFetched) {
        self.io.record(Step::NoReply(match why {
            NotFetched::Silence(_) => "no server answered",
            NotFetched::Unreachable => "no server could be reached",
            NotFetched::Tls(fault) => fault.text(),
            NotFetched::Unusable => "no reply could be used",
            NotFetched::NoServers => "no server may be asked",
            NotFetched::Exhausted => return self.tell_limit("queries for one question"),
            NotFetched::Crowded => {
                return self.tell_limit("queries under way to the zone or its servers");
            }
            NotFetched::Unsent => return self.tell_limit("sockets"),
        }));
    }

    /// Records in the trace that a limit of this question or of this server prevents a query.
    pub(super) fn tell_limit(&mut self, limit: &'static str) {
        self.reached_limit = true;
        self.io.record(Step::Limit(limit));
    }

    /// Records in the trace that the chain of trust of a zone was cached.
    pub(super) fn tell_known_chain(&self, zone: &Name, chain: &Chain) {
        self.io
            .record(Step::KnownChain { zone: zone.clone(), fault: chain.as_ref().err().copied() });
    }

    /// Records in the trace that keys were verified with DS records or an anchor, or failed
    /// verification.
    pub(super) fn tell_chain(&self, zone: &Name, ds: &RdataList, keys: Result<Vec<u16>, Reason>) {
        let tag = |ds: &[u8]| ds.first_chunk().map(|tag| u16::from_be_bytes(*tag));
        let vouched = ds.iter().filter_map(tag).collect();
        let fault = keys.as_ref().err().copied();
        self.io.record(Step::Chain {
            zone: zone.clone(),
            vouched,
            keys: keys.unwrap_or_default(),
            fault,
        });
    }

    /// Records in the trace the security status of an RRset.
    pub(super) fn tell_judged(&self, set: &Rrset, result: Result<(), Reason>) {
        self.tell_verdict((&set.owner, set.rtype), first_signature(set), set.security, result);
    }

    /// Records in the trace the security status of a denial.
    pub(super) fn tell_denial(
        &self,
        what: (&Name, Rtype),
        sets: &[Rrset],
        security: Security,
        end: Result<(), Reason>,
    ) {
        self.tell_verdict(what, sets.iter().find_map(first_signature), security, end);
    }

    fn tell_verdict(
        &self,
        (owner, rtype): (&Name, Rtype),
        rrsig: Option<&[u8]>,
        security: Security,
        result: Result<(), Reason>,
    ) {
        let verdict = match (result, security) {
            (Err(reason), _) => reason.verdict(),
            (_, Security::Secure) => Verdict::Secure,
            (_, Security::Bogus) => Verdict::Bogus,
            (_, Security::Insecure) => Verdict::Insecure,
            _ => Verdict::Indeterminate,
        };
        let signature = rrsig.and_then(signed_by);
        self.io.record(Step::Judged {
            name: owner.clone(),
            rtype,
            signature,
            verdict,
            fault: result.err(),
        });
    }
}

fn first_signature(set: &Rrset) -> Option<&[u8]> {
    set.signatures.first()
}

/// Returns signer, key tag and algorithm in RRSIG data.
fn signed_by(rrsig: &[u8]) -> Option<(Name, u16, u8)> {
    let signer = signer_of(rrsig)?;
    let tag = rrsig.get(BEFORE_SIGNER - 2..)?.first_chunk()?;
    Some((signer, u16::from_be_bytes(*tag), *rrsig.get(2)?))
}
