//! The digest of a hosted zone (ZONEMD, RFC 8976), which shows whether its records are those of its
//! publisher. The signature of the digest is not verified. The digest of a truncated or damaged
//! file does not match, but an attacker that changes records in transit can also change an unsigned
//! digest.

use avocet_config::zonemd::ZonemdPolicy;
use avocet_dnssec::zonemd::{self, Fault, ZoneRecord};
use avocet_wire::NameBuf;
use avocet_zone::HostedZone;

/// Returns the reason why the digest of a zone is refused.
#[must_use]
pub fn fault_of_digest(policy: ZonemdPolicy, zone: &HostedZone) -> Option<Fault> {
    if policy == ZonemdPolicy::Ignore {
        return None;
    }
    let apex = NameBuf::from_wire(zone.apex().wire()).ok()?;
    let is_digest = |set: &avocet_zone::HostedSet<'_>| set.rtype == zonemd::ZONEMD;
    let has_digest =
        zone.sets_of(zone.apex()).is_some_and(|mut sets| sets.any(|set| is_digest(&set)));
    if !has_digest {
        return (policy == ZonemdPolicy::Require).then_some(Fault::NoDigest);
    }
    let records: Vec<_> = zone
        .iter()
        .flat_map(|node| node.sets().map(move |set| (node.name(), set)))
        .flat_map(|(owner, set)| {
            set.iter().chain(set.signatures()).map(move |record| ZoneRecord {
                owner: owner.wire(),
                rtype: record.rtype,
                ttl_secs: record.ttl_secs,
                rdata: record.rdata,
            })
        })
        .collect();
    match zonemd::check(&records, &apex) {
        // All digests are of schemes or hashes that this server does not know (RFC 8976 §4).
        Err(Fault::NoDigest) if policy == ZonemdPolicy::Verify => None,
        other => other.err(),
    }
}
