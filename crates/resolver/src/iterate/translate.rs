//! DNS64 (RFC 6147): synthesizes IPv6 addresses for names that have only IPv4 addresses.
//!
//! Synthesized records are not cached. The RRset cache has the records from which they are made.

use std::sync::Arc;

use avocet_cache::Security;
use avocet_wire::{Rcode, Rtype};

use super::Walker;
use super::resolve::Resolution;
use super::rrset::{Name, Rrset};
use crate::dns64::Dns64;
use crate::failure::Failure;
use crate::rdata_list::RdataList;

/// The name that clients query to discover DNS64 (RFC 7050), and its well-known addresses.
const IPV4ONLY: &[u8] = b"\x08ipv4only\x04arpa\x00";
const IPV4ONLY_ADDRESSES: [[u8; 4]; 2] = [[192, 0, 0, 170], [192, 0, 0, 171]];
/// Maximum TTL of a synthesized record, in seconds, if no SOA record limits it (RFC 6147 §5.1.7).
const MAX_TTL_SECS: u32 = 600;

impl Walker {
    /// Finds an answer like [`Walker::find`], and synthesizes addresses if necessary.
    pub(crate) async fn translated(
        &mut self,
        dns64: Arc<Dns64>,
        qname: Name,
        qtype: Rtype,
    ) -> Result<Resolution, Failure> {
        if let Some(target) = dns64.reverse(qname.view(), qtype) {
            return self.reverse(qname, target.folded().view().into()).await;
        }
        if qtype != Rtype::AAAA {
            return self.find(qname, qtype).await;
        }
        if *qname == *IPV4ONLY {
            let records = IPV4ONLY_ADDRESSES.iter().collect();
            let known = Rrset { records, ..Rrset::empty(qname, Rtype::A, MAX_TTL_SECS) };
            let known = Resolution { sets: vec![known], ..Resolution::empty() };
            return Ok(translate(&dns64, known, Security::Insecure, MAX_TTL_SECS)
                .unwrap_or(Resolution::empty()));
        }
        let found = match self.find(qname.clone(), Rtype::AAAA).await {
            // Some servers return an error for AAAA. It counts as an empty answer (RFC 6147
            // §5.1.2).
            Err(Failure::Servfail(_) | Failure::Refused | Failure::Unusable) => Resolution::empty(),
            found => found?,
        };
        if found.rcode == Rcode::NXDOMAIN {
            return Ok(found);
        }
        if has_address(&dns64, &found) {
            return Ok(without_excluded(&dns64, found));
        }
        let ttl_secs =
            found.denial.as_ref().and_then(|denial| denial.soa.as_ref()).map(|soa| soa.ttl_secs);
        let security = if found.is_authentic() { Security::Secure } else { Security::Insecure };
        let of_v4 = self.find(qname, Rtype::A).await;
        // If the query for A records fails, its error is the answer (RFC 6147 §5.1.6).
        let made = translate(&dns64, of_v4?, security, ttl_secs.unwrap_or(MAX_TTL_SECS));
        Ok(made.unwrap_or(found))
    }

    /// Resolves `qname`, the reverse name of a synthesized IPv6 address. It is an alias of
    /// `target`, the reverse name of the embedded IPv4 address (RFC 6147 §5.3.1).
    async fn reverse(&mut self, qname: Name, target: Name) -> Result<Resolution, Failure> {
        let mut found = self.find(target.clone(), Rtype::PTR).await?;
        let ttls =
            found.sets.iter().chain(found.denial.iter().filter_map(|denial| denial.soa.as_ref()));
        let ttl_secs = ttls.map(|set| set.ttl_secs).min().unwrap_or(MAX_TTL_SECS);
        let mut alias = Rrset::empty(qname, Rtype::CNAME, ttl_secs);
        alias.records.push(&target);
        (alias.security, alias.synthesised) = (Security::Insecure, true);
        found.sets.insert(0, alias);
        Ok(found)
    }
}

/// Returns whether the answer has an AAAA record with an address outside of the excluded ranges.
pub(crate) fn has_address(dns64: &Dns64, found: &Resolution) -> bool {
    let sets = found.sets.iter().filter(|set| set.rtype == Rtype::AAAA);
    sets.flat_map(|set| &set.records).any(|rdata| !dns64.is_excluded(rdata))
}

/// Removes the addresses in the excluded ranges from an answer that has others (RFC 6147 §5.1.4).
/// Without them, the signatures of the other addresses are not valid, so these are omitted.
fn without_excluded(dns64: &Dns64, mut found: Resolution) -> Resolution {
    let sets = found.sets.iter_mut().filter(|set| set.rtype == Rtype::AAAA);
    for set in sets.filter(|set| set.records.iter().any(|rdata| dns64.is_excluded(rdata))) {
        let records = set.records.iter().filter(|rdata| !dns64.is_excluded(rdata)).collect();
        *set = Rrset {
            records,
            security: Security::Insecure,
            synthesised: true,
            ..Rrset::empty(set.owner.clone(), Rtype::AAAA, set.ttl_secs)
        };
    }
    found
}

/// Replaces the A records of an answer with AAAA records. Returns `None` if the answer has no A
/// records.
fn translate(
    dns64: &Dns64,
    mut found: Resolution,
    security: Security,
    ttl_secs: u32,
) -> Option<Resolution> {
    let mut is_made = false;
    for set in found.sets.iter_mut().filter(|set| set.rtype == Rtype::A) {
        let records: RdataList =
            set.records.iter().filter_map(|rdata| dns64.synthesise(rdata)).collect();
        is_made |= !records.is_empty();
        let is_secure = security == Security::Secure && set.security == Security::Secure;
        *set = Rrset {
            records,
            security: if is_secure { Security::Secure } else { Security::Insecure },
            synthesised: true,
            ..Rrset::empty(set.owner.clone(), Rtype::AAAA, set.ttl_secs.min(ttl_secs))
        };
    }
    is_made.then_some(found)
}
