//! RRSIG record data (RFC 4034 §3), and the checks that precede the verification of the signature.

use avocet_wire::{Rtype, name};

use crate::label;
use crate::rrset::Rrset;
use crate::verdict::Reason;

/// Tolerated difference between the clocks of signer and validator.
pub const MAX_CLOCK_SKEW_SECS: u32 = 300;
/// Number of octets before the signer's name.
const FIXED: usize = 18;

/// An RRSIG record's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rrsig<'a> {
    /// The type of the signed records.
    pub covered: Rtype,
    /// The algorithm number.
    pub algorithm: u8,
    /// Number of labels of the signed name, without the root label and a leading `*`.
    pub labels: u8,
    /// The TTL of the records in their zone, in seconds.
    pub original_ttl_secs: u32,
    /// End of validity: seconds since 1970, modulo 2^32.
    pub expiration: u32,
    /// Start of validity: seconds since 1970, modulo 2^32.
    pub inception: u32,
    /// The tag of the key.
    pub key_tag: u16,
    /// The zone that made the signature, uncompressed.
    pub signer: &'a [u8],
    /// The signature in the algorithm's own format.
    pub signature: &'a [u8],
    /// The data before the signer's name, which the signature covers.
    pub(crate) fixed: &'a [u8; FIXED],
}

impl<'a> Rrsig<'a> {
    /// Parses the data. Returns `None` if it is malformed.
    #[must_use]
    pub fn read(data: &'a [u8]) -> Option<Self> {
        let (fixed, rest) = data.split_first_chunk::<FIXED>()?;
        let (signer, signature) = rest.split_at_checked(name::wire_len(rest).ok()?)?;
        if signature.is_empty() {
            return None;
        }
        let u16_at = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
        let u32_at = |at: usize| {
            u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]])
        };
        Some(Self {
            covered: Rtype(u16_at(0)),
            algorithm: fixed[2],
            labels: fixed[3],
            original_ttl_secs: u32_at(4),
            expiration: u32_at(8),
            inception: u32_at(12),
            key_tag: u16_at(16),
            signer,
            signature,
            fixed,
        })
    }

    /// Checks, by names alone, whether this can be the zone's signature of these records (RFC 4035
    /// §5.3.1).
    ///
    /// The first check is that the owner is at or below the signer, because no zone may sign for
    /// another.
    pub(crate) fn check_names(&self, rrset: &Rrset<'_>, zone: &[u8]) -> Result<(), Reason> {
        if !name::is_under(rrset.owner, self.signer) || !label::equal(self.signer, zone) {
            return Err(Reason::WrongSigner);
        }
        // DS records belong to the parent zone, and DNSKEY records to the zone itself.
        let at_apex = label::equal(rrset.owner, zone);
        if (rrset.rtype == Rtype::DS && at_apex) || (rrset.rtype == Rtype::DNSKEY && !at_apex) {
            return Err(Reason::WrongSigner);
        }
        if self.covered != rrset.rtype {
            return Err(Reason::SignatureMissing);
        }
        let labels = usize::from(self.labels);
        let owner_labels = label::signed_count(rrset.owner);
        if labels > owner_labels || labels < label::count(self.signer) {
            return Err(Reason::WrongLabels);
        }
        // Records of these types must not come from a wildcard: NSEC and similar records describe
        // exactly one name, and a DNAME at a wildcard is undefined (RFC 6672 §3.3).
        if labels < owner_labels && is_never_expanded(rrset.rtype) {
            return Err(Reason::WrongLabels);
        }
        Ok(())
    }

    /// Checks the validity period by serial number arithmetic (RFC 4034 §3.1.5).
    pub(crate) fn check_time(&self, now_secs: u32) -> Result<(), Reason> {
        if is_before(self.expiration, self.inception) {
            return Err(Reason::SignatureExpiredBeforeValid);
        }
        if is_before(self.expiration.wrapping_add(MAX_CLOCK_SKEW_SECS), now_secs) {
            return Err(Reason::SignatureExpired);
        }
        if is_before(now_secs.wrapping_add(MAX_CLOCK_SKEW_SECS), self.inception) {
            return Err(Reason::SignatureNotYetValid);
        }
        Ok(())
    }

    /// Returns the seconds until the signature expires; zero if it has expired within the tolerated
    /// clock skew.
    pub(crate) fn remaining_secs(&self, now_secs: u32) -> u32 {
        u32::try_from(self.expiration.wrapping_sub(now_secs).cast_signed()).unwrap_or(0)
    }
}

/// Reports whether `a` precedes `b` in serial number arithmetic (RFC 1982 §3.2).
fn is_before(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() < 0
}

fn is_never_expanded(rtype: Rtype) -> bool {
    matches!(
        rtype,
        Rtype::DNAME | Rtype::DNSKEY | Rtype::DS | Rtype::NSEC | Rtype::NSEC3 | Rtype::NSEC3PARAM
    )
}

#[cfg(test)]
mod tests {
    use avocet_wire::{Class, rdata};

    use super::*;

    fn data(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        rdata::parse(46, text, &[0], &mut out).unwrap();
        out
    }

    #[track_caller]
    fn check_time(inception: u32, expiration: u32, now_secs: u32, expected: Result<(), Reason>) {
        let data = data(&format!("A 8 2 300 {expiration} {inception} 1 example. AAAA"));
        assert_eq!(Rrsig::read(&data).unwrap().check_time(now_secs), expected);
    }

    #[test]
    fn the_time_of_signatures_is_a_circle() {
        let skew = MAX_CLOCK_SKEW_SECS;
        check_time(1000, 2000, 1500, Ok(()));
        check_time(1000, 2000, 2000 + skew, Ok(()));
        check_time(1000, 2000, 2001 + skew, Err(Reason::SignatureExpired));
        check_time(1000, 2000, 1000 - skew, Ok(()));
        check_time(1000, 2000, 999 - skew, Err(Reason::SignatureNotYetValid));
        check_time(2000, 1000, 1500, Err(Reason::SignatureExpiredBeforeValid));
        check_time(u32::MAX - 1000, 1000, 0, Ok(()));
        check_time(u32::MAX - 1000, 1000, u32::MAX - 5, Ok(()));
        check_time(u32::MAX - 1000, 1000, 2000, Err(Reason::SignatureExpired));
        check_time(u32::MAX - 1000, 1000, u32::MAX - 2000, Err(Reason::SignatureNotYetValid));
    }

    #[test]
    fn what_remains_ends_at_zero() {
        let data = data("A 8 2 300 2000 1000 1 example. AAAA");
        let rrsig = Rrsig::read(&data).unwrap();
        assert_eq!((rrsig.remaining_secs(1500), rrsig.remaining_secs(2001)), (500, 0));
    }

    #[track_caller]
    fn check_names(
        owner: &[u8],
        rtype: &str,
        rrsig: &str,
        zone: &[u8],
        expected: Result<(), Reason>,
    ) {
        let rtype = Rtype(rdata::from_mnemonic(rtype).unwrap());
        let rrset =
            Rrset { owner, rtype, class: Class::IN, ttl_secs: 300, records: &[], signatures: &[] };
        let data = data(rrsig);
        assert_eq!(Rrsig::read(&data).unwrap().check_names(&rrset, zone), expected);
    }

    #[test]
    fn only_the_zone_itself_speaks_for_a_name() {
        const WWW: &[u8] = b"\x03www\x01b\x01c\0";
        let sig = |labels: u8, signer: &str| format!("A 8 {labels} 300 2000 1000 1 {signer} AAAA");
        check_names(WWW, "A", &sig(3, "b.c."), b"\x01B\x01c\0", Ok(()));
        check_names(WWW, "A", &sig(2, "b.c."), b"\x01b\x01c\0", Ok(()));
        check_names(WWW, "A", &sig(3, "c."), b"\x01b\x01c\0", Err(Reason::WrongSigner));
        check_names(WWW, "A", &sig(3, "x.c."), b"\x01x\x01c\0", Err(Reason::WrongSigner));
        check_names(
            WWW,
            "A",
            &sig(3, "a.www.b.c."),
            b"\x01a\x03www\x01b\x01c\0",
            Err(Reason::WrongSigner),
        );
        check_names(WWW, "A", &sig(4, "b.c."), b"\x01b\x01c\0", Err(Reason::WrongLabels));
        check_names(WWW, "A", &sig(1, "b.c."), b"\x01b\x01c\0", Err(Reason::WrongLabels));
        check_names(WWW, "AAAA", &sig(3, "b.c."), b"\x01b\x01c\0", Err(Reason::SignatureMissing));
    }

    #[test]
    fn ds_is_the_parents_and_dnskey_the_childs() {
        let sig = |rtype: &str, labels: u8, signer: &str| {
            format!("{rtype} 8 {labels} 300 2000 1000 1 {signer} AAAA")
        };
        check_names(b"\x01b\x01c\0", "DS", &sig("DS", 2, "c."), b"\x01c\0", Ok(()));
        check_names(
            b"\x01b\x01c\0",
            "DS",
            &sig("DS", 2, "b.c."),
            b"\x01b\x01c\0",
            Err(Reason::WrongSigner),
        );
        check_names(
            b"\x01b\x01c\0",
            "DS",
            &sig("DS", 1, "c."),
            b"\x01c\0",
            Err(Reason::WrongLabels),
        );
        check_names(
            b"\x01b\x01c\0",
            "NSEC",
            &sig("NSEC", 1, "c."),
            b"\x01c\0",
            Err(Reason::WrongLabels),
        );
        check_names(
            b"\x01b\x01c\0",
            "DNSKEY",
            &sig("DNSKEY", 2, "c."),
            b"\x01c\0",
            Err(Reason::WrongSigner),
        );
    }

    #[test]
    fn truncated_data_is_refused() {
        let whole = data("A 8 2 300 2000 1000 1 example. AAAA");
        for length in 0..whole.len() - 2 {
            assert_eq!(Rrsig::read(&whole[..length]), None, "{length}");
        }
    }
}
