//! RRsets that the server determines separately for each answer: the addresses of the target of an
//! ALIAS record, or of a pool. In a signed zone they are signed when they are written (online
//! signing).
//!
//! The NSEC or NSEC3 record of such a name has the types A and AAAA, so that no validator concludes
//! from the record that these types are missing (RFC 8198). An answer without addresses has a
//! variant of that record, which lacks the type of the question and is signed for this answer.

use std::sync::Arc;

use avocet_dnssec::signing::{SignatureFields, SigningKey};
use avocet_wire::builder::{Builder, Full, Record, Section};
use avocet_wire::{Class, FoldedName, Rtype, name};

use crate::answer::Proofs;
use crate::denial::Denied;
use crate::edits::{UnsoundZone, ZoneEdits};
use crate::find::NameMatch;
use crate::sign::{INCEPTION_SECS, ZoneSigners, hashes};
use crate::signature_cache::{SignatureCache, Signatures};
use crate::tree::{Denial, HostedRecord, HostedZone, Node, OnlineSigner};

/// Number of octets before the bit map in the data of an NSEC3 record that this server made. Such a
/// record has no salt.
const NSEC3_HEAD: usize = 26;

/// An RRset that is written as the answer to a question.
#[derive(Clone, Copy, Debug)]
pub struct MadeSet<'s> {
    /// The name that is asked for, which is the owner of the records.
    pub qname: FoldedName<'s>,
    /// The type that is asked for, which is the type of the records.
    pub qtype: Rtype,
    /// The TTL in seconds.
    pub ttl_secs: u32,
    /// The data of the records. If there are none, the answer proves that the name lacks the type.
    pub data: &'s [&'s [u8]],
    /// Whether the answer contains signatures and proofs.
    pub proofs: Proofs,
    /// The current Unix time in seconds.
    pub now_secs: u64,
}

/// An owner with a type, for which records are signed.
struct Owned<'o> {
    /// The owner of the records in the answer.
    owner: FoldedName<'o>,
    /// The owner of the records in the zone, which may be a wildcard.
    signed: FoldedName<'o>,
    rtype: Rtype,
    ttl_secs: u32,
}

impl Owned<'_> {
    /// Returns everything that a signature depends on, except the time and the key. The records are
    /// sorted, because pools rotate them.
    fn content(&self, data: &[&[u8]]) -> Vec<u8> {
        let mut content = self.signed.wire().to_vec();
        content.extend_from_slice(&self.rtype.0.to_be_bytes());
        content.extend_from_slice(&self.ttl_secs.to_be_bytes());
        let mut data = data.to_vec();
        data.sort_unstable();
        for rdata in data {
            content.extend_from_slice(&(rdata.len() as u16).to_be_bytes());
            content.extend_from_slice(rdata);
        }
        content
    }
}

impl HostedZone {
    /// Sets the keys that sign answers. Only the first call has an effect. The same keys sign the
    /// records of the zone.
    pub fn sign_online_with(&self, signers: &ZoneSigners, validity_secs: u32) {
        let keys = signers.zone.clone();
        // A version that is published a second time already has its keys, since other keys would
        // have led to another version.
        self.online.get_or_init(|| {
            let made = SignatureCache::default();
            OnlineSigner { keys, validity_secs, made }
        });
    }

    /// Returns a name with an ALIAS record, if there is one.
    #[must_use]
    pub fn first_alias(&self) -> Option<FoldedName<'_>> {
        self.iter().find(|node| node.set(Rtype::ALIAS).is_some()).map(Node::name)
    }

    /// Returns whether a name has a CNAME record or is below a DNAME record, or is delegated to
    /// other servers, so that this zone cannot have addresses for it.
    #[must_use]
    pub fn leads_elsewhere(&self, name: FoldedName<'_>) -> bool {
        match self.find(name, Rtype::A) {
            Some(NameMatch::Exact(node)) => node.set(Rtype::CNAME).is_some(),
            Some(NameMatch::Dname(_) | NameMatch::Cut(_)) => true,
            _ => false,
        }
    }

    /// Copies the zone and marks names whose addresses the server determines separately for each
    /// answer: the proofs of these names get the types A and AAAA. Returns `None` if the zone has
    /// none of these names. `now_secs` is the Unix time.
    ///
    /// # Errors
    /// The zone would have errors.
    pub fn with_made_names<'z>(
        &'z self,
        names: &'z [Box<[u8]>],
        now_secs: u64,
    ) -> Result<Option<Self>, UnsoundZone> {
        let of_zone = |name: &&[u8]| {
            let name = FoldedName::from_folded_unchecked(name);
            name.is_at_or_below(self.apex()) && !self.leads_elsewhere(name)
        };
        let mut names = names.iter().map(|name| &**name).filter(of_zone).peekable();
        if names.peek().is_none() {
            return Ok(None);
        }
        let mut edits = ZoneEdits::of(self);
        names.for_each(|name| edits.add_made(FoldedName::from_folded_unchecked(name)));
        edits.finish(now_secs).map(Some)
    }

    /// Writes an RRset that is not part of the zone, or a negative answer if the RRset is empty,
    /// with signatures and proofs.
    ///
    /// # Errors
    /// The message is too small.
    pub fn write_made(&self, set: &MadeSet<'_>, builder: &mut Builder<'_>) -> Result<(), Full> {
        let found = self.find(set.qname, set.qtype);
        let (node, closest) = match found {
            Some(NameMatch::Exact(node)) => (Some(node), None),
            Some(NameMatch::Wildcard { node, closest }) => (Some(node), Some(closest)),
            _ => (None, None),
        };
        let signed = node.map_or(set.qname, Node::name);
        if set.data.is_empty() {
            return self.write_denial(set, node, closest, builder);
        }
        let (owner, rtype, ttl_secs) = (set.qname, set.qtype, set.ttl_secs);
        let owned = Owned { owner, signed, rtype, ttl_secs };
        self.write_signed(Section::Answer, &owned, set, set.data, builder)?;
        match closest {
            Some(closest) => self.write_proof(set, None, Denied::Expanded(closest.name()), builder),
            None => Ok(()),
        }
    }

    /// Writes records, and signs them if signatures are wanted.
    fn write_signed(
        &self,
        section: Section,
        owned: &Owned<'_>,
        set: &MadeSet<'_>,
        data: &[&[u8]],
        builder: &mut Builder<'_>,
    ) -> Result<(), Full> {
        let Owned { owner, rtype, ttl_secs, .. } = *owned;
        let (name, class) = (owner.wire(), Class::IN);
        let record = |rdata| Record { owner: name, rtype, class, ttl_secs, rdata };
        builder.rrset(section, data.iter().map(|rdata| record(rdata)))?;
        let online = self.online.get().filter(|_| set.proofs == Proofs::Included);
        let Some(online) = online else { return Ok(()) };
        let signatures = self.signatures(online, owned, data, set.now_secs);
        for rdata in signatures.iter() {
            let rtype = Rtype::RRSIG;
            builder.record(section, &Record { owner: name, rtype, class, ttl_secs, rdata })?;
        }
        Ok(())
    }

    /// Returns the signatures of records, one by each key, from the cache or newly made.
    fn signatures(
        &self,
        online: &OnlineSigner,
        owned: &Owned<'_>,
        data: &[&[u8]],
        now_secs: u64,
    ) -> Signatures {
        let OnlineSigner { keys, validity_secs, made } = online;
        let content = owned.content(data);
        if let Some(signatures) = made.find(&content, now_secs) {
            return signatures;
        }
        // Times in signatures wrap (RFC 4034 §3.1.5).
        let now = now_secs as u32;
        let fields = SignatureFields {
            owner: owned.signed,
            rtype: owned.rtype,
            ttl_secs: owned.ttl_secs,
            inception: now.wrapping_sub(INCEPTION_SECS),
            expiration: now.wrapping_add(*validity_secs),
            zone: self.apex(),
        };
        // If a signature cannot be made, it is left out, and a validator asks another server.
        let sign = |key: &Arc<SigningKey>| key.sign(&fields, data.iter().copied()).ok();
        let signatures: Signatures = keys.iter().filter_map(sign).collect();
        if signatures.len() == keys.len() {
            made.keep(&content, now_secs, &signatures);
        }
        signatures
    }

    /// Writes the SOA record and the proof that a name has no records of a type.
    fn write_denial(
        &self,
        set: &MadeSet<'_>,
        node: Option<Node<'_>>,
        closest: Option<Node<'_>>,
        builder: &mut Builder<'_>,
    ) -> Result<(), Full> {
        let Some(soa) = self.node(self.apex().wire()).and_then(|node| node.set(Rtype::SOA)) else {
            return Ok(());
        };
        let minimum = soa.iter().next().and_then(|soa| soa.rdata.last_chunk().copied());
        let most = minimum.map_or(0, u32::from_be_bytes).min(set.ttl_secs);
        let signatures = (set.proofs == Proofs::Included).then(|| soa.signatures());
        for record in soa.iter().chain(signatures.into_iter().flatten()) {
            builder.record(Section::Authority, &self.record(self.apex(), &record, most))?;
        }
        let denied = match closest {
            Some(closest) => Denied::WildcardType(closest.name()),
            None => Denied::Type,
        };
        self.write_proof(set, node, denied, builder)
    }

    /// Writes the records of a proof. In the record of `node`, the type of the question is omitted.
    fn write_proof(
        &self,
        set: &MadeSet<'_>,
        node: Option<Node<'_>>,
        denied: Denied<'_>,
        builder: &mut Builder<'_>,
    ) -> Result<(), Full> {
        if set.proofs == Proofs::Omitted || !self.is_signed() {
            return Ok(());
        }
        let proof = self.proof(set.qname, denied);
        let of_types = node.and_then(|node| match self.denial {
            Denial::Nsec3(_) => self.nsec3_node(&hashes(node.name())),
            _ => Some(node),
        });
        for proven in proof.nodes() {
            let Some(records) = proven.set(proof.rtype) else { continue };
            let of_this = of_types.filter(|node| node.address() == proven.address());
            let lacking = of_this.and_then(|_| without_type(&records.iter().next()?, set.qtype));
            let owner = proven.name();
            if let Some((rdata, ttl_secs)) = lacking {
                // A later answer may have addresses (RFC 9077 §3).
                let ttl_secs = ttl_secs.min(set.ttl_secs);
                let owned = Owned { owner, signed: owner, rtype: proof.rtype, ttl_secs };
                self.write_signed(Section::Authority, &owned, set, &[&rdata], builder)?;
                continue;
            }
            for record in records.iter().chain(records.signatures()) {
                builder.record(Section::Authority, &self.record(owner, &record, u32::MAX))?;
            }
        }
        Ok(())
    }

    fn record<'r>(
        &self,
        owner: FoldedName<'r>,
        record: &HostedRecord<'r>,
        most_secs: u32,
    ) -> Record<'r> {
        let HostedRecord { rtype, ttl_secs, rdata } = *record;
        let ttl_secs = ttl_secs.min(most_secs);
        Record { owner: owner.wire(), rtype, class: Class::IN, ttl_secs, rdata }
    }
}

/// Removes a type below 256 from the data of an NSEC or NSEC3 record. Returns the new data and the
/// TTL, or `None` if the record lacks the type.
fn without_type(record: &HostedRecord<'_>, rtype: Rtype) -> Option<(Vec<u8>, u32)> {
    let map_at = match record.rtype {
        Rtype::NSEC => name::wire_len(record.rdata).ok()?,
        _ => NSEC3_HEAD,
    };
    let mut rdata = record.rdata.to_vec();
    // The first bit map is the one of the types below 256.
    let [0, len, ..] = *rdata.get(map_at..)? else { return None };
    let (byte, bit) = (usize::from(rtype.0 / 8), 0x80 >> (rtype.0 % 8));
    let octet = rdata.get_mut(map_at + 2 + byte).filter(|octet| **octet & bit != 0)?;
    if rtype.0 > 255 || byte >= usize::from(len) {
        return None;
    }
    *octet &= !bit;
    let map = &rdata[map_at + 2..map_at + 2 + usize::from(len)];
    let kept = map.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
    let rest = rdata.split_off(map_at + 2 + usize::from(len));
    rdata.truncate(map_at + 2 + kept);
    rdata[map_at + 1] = kept as u8;
    if kept == 0 {
        rdata.truncate(map_at);
    }
    rdata.extend_from_slice(&rest);
    Some((rdata, record.ttl_secs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(text: &str, rtype: Rtype) -> Option<String> {
        let mut rdata = Vec::new();
        avocet_wire::rdata::parse(Rtype::NSEC.0, text, &[0], &mut rdata).unwrap();
        let record = HostedRecord { rtype: Rtype::NSEC, ttl_secs: 60, rdata: &rdata };
        let (rdata, ttl_secs) = without_type(&record, rtype)?;
        assert_eq!(ttl_secs, 60);
        Some(avocet_wire::rdata::display(Rtype::NSEC.0, &rdata).to_string())
    }

    #[test]
    fn a_type_is_left_out_of_a_bit_map() {
        let check = |text: &str, rtype, expected: Option<&str>| {
            assert_eq!(without(text, rtype).as_deref(), expected, "{text}");
        };
        let all = "b.example. A AAAA RRSIG NSEC CAA";
        check(all, Rtype::AAAA, Some("b.example. A RRSIG NSEC CAA"));
        check(all, Rtype::A, Some("b.example. AAAA RRSIG NSEC CAA"));
        check(all, Rtype::MX, None);
        check(all, Rtype(257), None);
        check("b.example. A AAAA", Rtype::AAAA, Some("b.example. A"));
        check("b.example. AAAA CAA", Rtype::AAAA, Some("b.example. CAA"));
        check("b.example. CAA", Rtype::A, None);
    }
}
