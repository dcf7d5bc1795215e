//! The digest of a hosted zone for its ZONEMD record (RFC 8976).

use avocet_dnssec::zonemd::{self, DigestHash, ZoneDigester, ZoneRecord};
use avocet_wire::Rtype;

use crate::edits::{UnsoundZone, ZoneEdits};
use crate::serial::with_serial;
use crate::tree::{HostedRecord, HostedSet, HostedZone};

impl HostedZone {
    /// Computes the digest of the zone. This hashes all records.
    #[must_use]
    pub fn zone_digest(&self, hash: DigestHash) -> Vec<u8> {
        self.digest_with(None, hash)
    }

    /// Computes the digest of the zone. If `soa` is given, it replaces the data of the SOA record.
    fn digest_with(&self, soa: Option<&[u8]>, hash: DigestHash) -> Vec<u8> {
        let mut digester = ZoneDigester::new(self.apex().wire(), hash);
        for node in self.iter() {
            let records = node.sets().flat_map(|set| records_of(&set));
            let is_soa = |record: &ZoneRecord<'_>| record.rtype == Rtype::SOA;
            let records = records.map(|record| match soa {
                Some(rdata) if is_soa(&record) => ZoneRecord { rdata, ..record },
                _ => record,
            });
            digester.name(node.name().wire(), records);
        }
        digester.finish()
    }

    /// Copies the zone with this serial, and with the digest of its records as the only ZONEMD
    /// record. The zone must not be signed. `now_secs` is the Unix time.
    ///
    /// # Errors
    /// The zone has errors.
    pub fn digested(
        &self,
        serial: u32,
        hash: DigestHash,
        now_secs: u64,
    ) -> Result<Self, UnsoundZone> {
        let mut edits = ZoneEdits::of(self);
        // The ZONEMD record has the TTL of the SOA record (RFC 8976 §2).
        let soa = self.soa().map(|soa| (soa.ttl_secs, with_serial(soa.rdata, serial)));
        let (ttl_secs, soa) = soa.unwrap_or_default();
        edits.set_soa(ttl_secs, &soa);
        let rdata = hash.rdata(serial, &self.digest_with(Some(&soa), hash));
        edits.remove_all(self.apex(), |rtype| rtype == zonemd::ZONEMD);
        let record = HostedRecord { rtype: zonemd::ZONEMD, ttl_secs, rdata: &rdata };
        edits.add(self.apex(), &record);
        edits.finish(now_secs)
    }

    /// Copies the zone with another serial. Signatures and digests that other servers made would
    /// not match the copy. `now_secs` is the Unix time.
    ///
    /// # Errors
    /// The zone has errors.
    pub fn renumbered(&self, serial: u32, now_secs: u64) -> Result<Self, UnsoundZone> {
        let mut edits = ZoneEdits::of(self);
        if let Some(soa) = self.soa() {
            edits.set_soa(soa.ttl_secs, &with_serial(soa.rdata, serial));
        }
        edits.finish(now_secs)
    }

    /// Returns the data of the first ZONEMD record of the zone.
    #[must_use]
    pub fn zonemd(&self) -> Option<&[u8]> {
        let set = self.node(self.apex().wire())?.set(zonemd::ZONEMD)?;
        set.iter().next().map(|record| record.rdata)
    }
}

fn records_of<'z>(set: &HostedSet<'z>) -> impl Iterator<Item = ZoneRecord<'z>> + use<'z> {
    set.iter().chain(set.signatures()).map(|record| ZoneRecord {
        owner: &[],
        rtype: record.rtype,
        ttl_secs: record.ttl_secs,
        rdata: record.rdata,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbound::tests::zone;

    /// RFC 8976 appendix A.1.
    const SIMPLE: &str = "$TTL 86400\n@ SOA ns1 admin 2018031900 1800 900 604800 86400\n@ NS ns1\n\
                          @ NS ns2\nns1 3600 A 203.0.113.63\nns2 3600 AAAA 2001:db8::63\n";
    const DIGEST: &str = "c68090d90a7aed716bc459f9340e3d7c1370d4d24b7e2fc3a1ddc0b9a87153b9\
                          a9713b3c9ae5cc27777f98b8e730044c";

    #[test]
    fn the_zone_of_the_rfc_gets_its_digest() {
        let published = zone(&format!("{SIMPLE}@ ZONEMD 2018031900 1 1 {DIGEST}\n"));
        let digested = zone(SIMPLE).digested(2_018_031_900, DigestHash::Sha384, 0).unwrap();
        assert_eq!(digested.text(), published.text());
        // A digest of an earlier version is replaced, and is not part of the new digest.
        let earlier = format!("{SIMPLE}@ 60 ZONEMD 2018031800 1 1 {}\n", "00".repeat(48));
        let again = zone(&earlier).digested(2_018_031_900, DigestHash::Sha384, 0).unwrap();
        assert_eq!(again.text(), published.text());
        // The digest depends on the serial.
        let next = SIMPLE.replace("2018031900", "2018031901");
        let next = zone(&next).digested(2_018_031_901, DigestHash::Sha384, 0).unwrap();
        let raised = zone(SIMPLE).digested(2_018_031_901, DigestHash::Sha384, 0).unwrap();
        assert_eq!(raised.text(), next.text());
        assert_ne!(raised.zonemd().map(|it| &it[6..]), published.zonemd().map(|it| &it[6..]));
        let other = zone(SIMPLE).digested(2_018_031_900, DigestHash::Sha512, 0).unwrap();
        assert_eq!(other.zonemd().map(<[u8]>::len), Some(6 + 64));
    }
}
