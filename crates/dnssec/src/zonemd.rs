//! The digest of a whole zone (RFC 8976), which shows whether a copy equals the published zone.
//!
//! Supports the scheme SIMPLE with SHA-384 and SHA-512. [`verify`] uses the ZONEMD and SOA RRsets
//! only after it has verified them with the zone's keys.

use std::fmt;

use avocet_wire::{Class, NameBuf, Rtype, canonical, name};
use aws_lc_rs::digest::{self, Context as Digester};

use crate::anchor::Anchors;
use crate::budget::Budget;
use crate::rrset::{Context, Rrset};
use crate::verdict::Reason;
use crate::{chain, signature};

/// The type ZONEMD (RFC 8976 §2.1).
pub const ZONEMD: Rtype = Rtype(63);
/// The scheme SIMPLE (RFC 8976 §2.2.2).
const SIMPLE: u8 = 1;
/// Number of octets of SOA data after its names: five integers, the first of which is the serial
/// (RFC 1035 §3.3.13).
const SOA_NUMBERS: usize = 20;

/// A record of a zone.
#[derive(Clone, Copy, Debug)]
pub struct ZoneRecord<'a> {
    /// The owner, uncompressed, in any letter case.
    pub owner: &'a [u8],
    /// TYPE.
    pub rtype: Rtype,
    /// TTL in seconds.
    pub ttl_secs: u32,
    /// The data, with uncompressed names.
    pub rdata: &'a [u8],
}

/// A hash algorithm for the digest of a zone (RFC 8976 §5.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DigestHash {
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl DigestHash {
    /// Returns the hash algorithm with this number in the registry, if it is supported.
    fn of_number(number: u8) -> Option<Self> {
        [Self::Sha384, Self::Sha512].into_iter().find(|hash| hash.number() == number)
    }

    const fn number(self) -> u8 {
        match self {
            Self::Sha384 => 1,
            Self::Sha512 => 2,
        }
    }

    fn algorithm(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        }
    }

    /// Returns the length of a digest.
    #[must_use]
    pub fn octets(self) -> usize {
        self.algorithm().output_len()
    }

    /// Returns the data of a ZONEMD record (RFC 8976 §2.2).
    #[must_use]
    pub fn rdata(self, serial: u32, digest: &[u8]) -> Vec<u8> {
        [&serial.to_be_bytes()[..], &[SIMPLE, self.number()], digest].concat()
    }
}

/// The reason why a copy of a zone is rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The zone has no trust anchor.
    NoAnchor,
    /// The keys, the SOA record or the digest do not verify.
    Unverified(Rtype, Reason),
    /// The SOA record is missing or malformed.
    NoSoa,
    /// The zone has no digest with a supported scheme and hash.
    NoDigest,
    /// The serial in the ZONEMD record differs from the serial in the SOA record.
    OtherSerial,
    /// The digest does not match the zone.
    OtherZone,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAnchor => f.write_str("there is no trust anchor for it"),
            Self::Unverified(rtype, reason) => {
                write!(f, "its {rtype} records do not verify: {reason}")
            }
            Self::NoSoa => f.write_str("it has no SOA record"),
            Self::NoDigest => f.write_str("it has no ZONEMD record with SHA-384 or SHA-512"),
            Self::OtherSerial => f.write_str("its ZONEMD record has another serial"),
            Self::OtherZone => f.write_str("its ZONEMD digest does not match its records"),
        }
    }
}

impl std::error::Error for Fault {}

/// Verifies a zone with its ZONEMD record, and the ZONEMD record with the chain of trust from the
/// anchor at the apex (RFC 8976 §4). The records may be in any order. Returns for how many seconds
/// the signatures of the SOA and ZONEMD records are valid.
///
/// # Errors
/// The reason why the zone is rejected.
pub fn verify(
    records: &[ZoneRecord<'_>],
    apex: &NameBuf,
    anchors: &Anchors,
    context: &Context,
) -> Result<u32, Fault> {
    let point = anchors.point(apex.wire()).ok_or(Fault::NoAnchor)?;
    let mut budget = Budget::default();
    let unverified = |rtype| move |reason| Fault::Unverified(rtype, reason);
    let keys = at_apex(records, apex, Rtype::DNSKEY, |set| {
        chain::zone_keys(set, &point.trust(), context, &mut budget)
            .map_err(unverified(Rtype::DNSKEY))
    })?;
    let mut signed_secs = u32::MAX;
    for rtype in [Rtype::SOA, ZONEMD] {
        let verified = at_apex(records, apex, rtype, |set| match (rtype, set.records.len()) {
            (Rtype::SOA, 0) => Err(Fault::NoSoa),
            (_, 0) => Err(Fault::NoDigest),
            _ => signature::verify(set, &keys, context, &mut budget).map_err(unverified(rtype)),
        })?;
        signed_secs = signed_secs.min(verified.signed_secs);
    }
    check(records, apex).map(|()| signed_secs)
}

/// Compares a zone with its ZONEMD records. Does not verify the signatures of these records.
///
/// # Errors
/// The errors of [`verify`].
pub fn check(records: &[ZoneRecord<'_>], apex: &NameBuf) -> Result<(), Fault> {
    let here = |rtype| records.iter().filter(move |record| is_at(record, apex, rtype));
    let soa = here(Rtype::SOA).next().ok_or(Fault::NoSoa)?;
    let serial = soa.rdata.len().checked_sub(SOA_NUMBERS).and_then(|at| soa.rdata.get(at..at + 4));
    let serial = serial.ok_or(Fault::NoSoa)?;
    // A zone may have thousands of digests, so all are counted before any is compared.
    let digests: Vec<&[u8]> = here(ZONEMD).map(|record| record.rdata).collect();
    let mut alike = [0_u32; 256];
    for rdata in &digests {
        if let Some([SIMPLE, hash]) = rdata.get(4..6) {
            alike[usize::from(*hash)] += 1;
        }
    }
    let mut fault = Fault::NoDigest;
    for rdata in digests {
        let Some((head, expected)) = rdata.split_first_chunk::<6>() else { continue };
        let Some(hash) = DigestHash::of_number(head[5])
            .filter(|hash| head[4] == SIMPLE && hash.octets() == expected.len())
        else {
            continue;
        };
        // If several digests have the same scheme and hash, none of them may be used (RFC 8976 §4).
        if alike[usize::from(head[5])] > 1 {
            continue;
        }
        if head[..4] != *serial {
            fault = Fault::OtherSerial;
        } else if digest(records, apex, hash) == expected {
            return Ok(());
        } else {
            fault = Fault::OtherZone;
        }
    }
    Err(fault)
}

/// Computes the digest over all records of the zone, in any order (RFC 8976 §3.3).
fn digest(records: &[ZoneRecord<'_>], apex: &NameBuf, hash: DigestHash) -> Vec<u8> {
    let mut included: Vec<&ZoneRecord<'_>> =
        records.iter().filter(|record| name::is_under(record.owner, apex.wire())).collect();
    included.sort_by(|a, b| canonical::compare_names(a.owner, b.owner));
    let mut digester = ZoneDigester::new(apex.wire(), hash);
    for of_name in included.chunk_by(|a, b| a.owner.eq_ignore_ascii_case(b.owner)) {
        digester.name(of_name[0].owner, of_name.iter().map(|record| **record));
    }
    digester.finish()
}

/// Computes the digest of a zone. The caller adds the names in canonical order.
pub struct ZoneDigester<'a> {
    apex: &'a [u8],
    digester: Digester,
}

impl<'a> ZoneDigester<'a> {
    /// Begins the digest of the zone with this name in wire form.
    #[must_use]
    pub fn new(apex: &'a [u8], hash: DigestHash) -> Self {
        Self { apex, digester: Digester::new(hash.algorithm()) }
    }

    /// Adds all records of a name in the zone, including signatures, in any order. Ignores
    /// duplicates, and the ZONEMD records of the zone with their signatures (RFC 8976 §3.3.1).
    /// Names must be added in canonical order, each once.
    pub fn name<'r>(&mut self, owner: &[u8], records: impl Iterator<Item = ZoneRecord<'r>>) {
        let is_apex = owner.eq_ignore_ascii_case(self.apex);
        let is_digest = |record: &ZoneRecord<'_>| {
            is_apex
                && (record.rtype == ZONEMD
                    || record.rtype == Rtype::RRSIG
                        && record.rdata.starts_with(&ZONEMD.0.to_be_bytes()))
        };
        let mut forms: Vec<CanonicalRecord> =
            records.filter(|record| !is_digest(record)).map(CanonicalRecord::of).collect();
        forms.sort_by(|a, b| (a.rtype, &a.rdata).cmp(&(b.rtype, &b.rdata)));
        forms.dedup_by(|a, b| (a.rtype, &a.rdata) == (b.rtype, &b.rdata));
        let owner = owner.to_ascii_lowercase();
        for CanonicalRecord { rtype, ttl_secs, rdata } in &forms {
            self.digester.update(&owner);
            self.digester.update(&rtype.0.to_be_bytes());
            self.digester.update(&Class::IN.0.to_be_bytes());
            self.digester.update(&ttl_secs.to_be_bytes());
            self.digester.update(&(rdata.len() as u16).to_be_bytes());
            self.digester.update(rdata);
        }
    }

    /// Returns the digest.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.digester.finish().as_ref().to_vec()
    }
}

/// A record in canonical form (RFC 4034 §6.2), without its owner.
struct CanonicalRecord {
    rtype: Rtype,
    ttl_secs: u32,
    rdata: Vec<u8>,
}

impl CanonicalRecord {
    fn of(record: ZoneRecord<'_>) -> Self {
        let mut rdata = Vec::with_capacity(record.rdata.len());
        canonical::append_rdata(record.rtype.0, record.rdata, &mut rdata);
        Self { rtype: record.rtype, ttl_secs: record.ttl_secs, rdata }
    }
}

fn is_at(record: &ZoneRecord<'_>, apex: &NameBuf, rtype: Rtype) -> bool {
    record.rtype == rtype && record.owner.eq_ignore_ascii_case(apex.wire())
}

/// Calls `act` with the RRset of a type at the apex. The RRset may be empty.
fn at_apex<R>(
    records: &[ZoneRecord<'_>],
    apex: &NameBuf,
    rtype: Rtype,
    act: impl FnOnce(&Rrset<'_>) -> Result<R, Fault>,
) -> Result<R, Fault> {
    let here = records.iter().filter(|record| is_at(record, apex, rtype));
    let ttl_secs = here.clone().map(|record| record.ttl_secs).min().unwrap_or(0);
    let data: Vec<&[u8]> = here.map(|record| record.rdata).collect();
    let covers = |record: &&ZoneRecord<'_>| {
        is_at(record, apex, Rtype::RRSIG) && record.rdata.starts_with(&rtype.0.to_be_bytes())
    };
    let signatures: Vec<&[u8]> = records.iter().filter(covers).map(|record| record.rdata).collect();
    act(&Rrset {
        owner: apex.wire(),
        rtype,
        class: Class::IN,
        ttl_secs,
        records: &data,
        signatures: &signatures,
    })
}

#[cfg(test)]
mod tests {
    use avocet_wire::master::{MasterFile, MasterRecord};

    use super::*;

    /// RFC 8976 appendix A.1.
    const SIMPLE_ZONE: &str = "example. 86400 IN SOA ns1 admin 2018031900 1800 900 604800 86400\n
        86400 IN NS ns1\n 86400 IN NS ns2\n
        86400 IN ZONEMD 2018031900 1 1 ( c68090d90a7aed716bc459f9340e3d7c1370d4d24b7e2fc3a1ddc0b9a87153b9
            a9713b3c9ae5cc27777f98b8e730044c )\n
        \nns1 3600 IN A 203.0.113.63\nns2 3600 IN AAAA 2001:db8::63\n";
    /// RFC 8976 appendix A.2.
    const COMPLEX_ZONE: &str = "example. 86400 IN SOA ns1 admin 2018031900 1800 900 604800 86400\n
        86400 IN NS ns1\n 86400 IN NS ns2\n
        86400 IN ZONEMD 2018031900 1 1 ( a3b69bad980a3504e1cffcb0fd6397f93848071c93151f552ae2f6b1711d4bd2
            d8b39808226d7b9db71e34b72077f8fe )\n
        \nns1 3600 IN A 203.0.113.63\nNS2 3600 IN AAAA 2001:db8::63
        \noccluded.sub 7200 IN TXT \"I'm occluded but must be digested\"\nsub 7200 IN NS ns1
        \nduplicate 300 IN TXT \"I must be digested just once\"\nduplicate 300 IN TXT \"I must be digested just once\"
        \nfoo.test. 555 IN TXT \"out-of-zone data must be excluded\"
        \nUPPERCASE 3600 IN TXT \"canonicalize uppercase owner names\"\n* 777 IN PTR dont-forget-about-wildcards
        \nmail 3600 IN MX 20 MAIL1\nmail 3600 IN MX 10 Mail2.Example.
        \nsortme 3600 IN AAAA 2001:db8::5:61\nsortme 3600 IN AAAA 2001:db8::3:62\nsortme 3600 IN AAAA 2001:db8::4:63
        \nsortme 3600 IN AAAA 2001:db8::1:65\nsortme 3600 IN AAAA 2001:db8::2:64
        \nnon-apex 900 IN ZONEMD 2018031900 1 1 ( 616c6c6f7765642062757420
            69676e6f7265642e20616c6c6f776564206275742069676e6f7265642e20616c6c6f7765 )\n";

    fn apex() -> NameBuf {
        NameBuf::from_wire(b"\x07example\0").unwrap()
    }

    fn read(text: &str) -> Vec<MasterRecord> {
        MasterFile::new(text.as_bytes(), apex())
            .map(|(line, record)| record.unwrap_or_else(|e| panic!("{line}: {e}")))
            .collect()
    }

    fn lent(records: &[MasterRecord]) -> Vec<ZoneRecord<'_>> {
        let lend = |record: &MasterRecord| (record.rtype, record.ttl_secs);
        let lent = records.iter().map(|record| {
            let (rtype, ttl_secs) = lend(record);
            ZoneRecord { owner: record.owner.wire(), rtype, ttl_secs, rdata: &record.rdata }
        });
        lent.collect()
    }

    #[track_caller]
    fn check_zone(text: &str, expected: Result<(), Fault>) {
        let records = read(text);
        assert_eq!(check(&lent(&records), &apex()), expected);
        let mut turned = lent(&records);
        turned.reverse();
        assert_eq!(check(&turned, &apex()), expected, "in any order");
    }

    #[test]
    fn the_zones_of_the_rfc_have_their_digests() {
        check_zone(SIMPLE_ZONE, Ok(()));
        check_zone(COMPLEX_ZONE, Ok(()));
    }

    #[test]
    fn a_zone_with_any_other_record_is_another_zone() {
        check_zone(&SIMPLE_ZONE.replace("203.0.113.63", "203.0.113.64"), Err(Fault::OtherZone));
        check_zone(&SIMPLE_ZONE.replace("3600 IN A ", "3601 IN A "), Err(Fault::OtherZone));
        check_zone(&format!("{SIMPLE_ZONE}ns3 3600 IN A 203.0.113.63\n"), Err(Fault::OtherZone));
        let lines = SIMPLE_ZONE.lines().filter(|line| !line.starts_with("ns2"));
        check_zone(&lines.collect::<Vec<_>>().join("\n"), Err(Fault::OtherZone));
    }

    #[test]
    fn a_digest_must_be_known_and_single_and_of_this_serial() {
        check_zone(
            &SIMPLE_ZONE.replace("ZONEMD 2018031900 1 1", "ZONEMD 2018031901 1 1"),
            Err(Fault::OtherSerial),
        );
        for other in ["2 1", "1 3", "1 2"] {
            check_zone(
                &SIMPLE_ZONE.replace("2018031900 1 1", &format!("2018031900 {other}")),
                Err(Fault::NoDigest),
            );
        }
        let second =
            format!("{SIMPLE_ZONE}example. 86400 IN ZONEMD 2018031900 1 1 {}\n", "00".repeat(48));
        check_zone(&second, Err(Fault::NoDigest));
        check_zone("example. 60 IN A 192.0.2.1\n", Err(Fault::NoSoa));
    }

    #[test]
    fn without_an_anchor_nothing_is_believed() {
        let records = read(SIMPLE_ZONE);
        let context = Context { now_secs: 0, policy: crate::Policy::default() };
        let anchors = Anchors::built_in();
        assert_eq!(verify(&lent(&records), &apex(), &anchors, &context), Err(Fault::NoAnchor));
    }
}
