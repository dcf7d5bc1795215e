//! NSEC3 records: what a single record states about a hashed name (RFC 5155, RFC 9276).

use avocet_wire::{Rtype, name, rdata};
use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use data_encoding::BASE32_DNSSEC;

use crate::budget::Budget;
use crate::label;
use crate::types::TypeMap;
use crate::verdict::Reason;

/// Maximum number of iterations that are computed. A zone with more iterations is insecure (RFC
/// 9276 §3.2).
pub const MAX_ITERATIONS: u16 = 50;
/// The only defined hash algorithm: SHA-1 (RFC 5155 §11).
const SHA1: u8 = 1;
/// Number of octets of a hash.
const HASH: usize = 20;
/// Number of octets of a hash in base32hex, as used in owner names.
const HASH_LABEL: usize = 32;
/// The flag of records that may skip delegations without DS (RFC 5155 §3.1.2.1).
const OPT_OUT: u8 = 1;

/// The hash of a name.
pub type Hash = [u8; HASH];

/// The hash parameters of a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameters<'a> {
    /// The number of additional iterations.
    pub iterations: u16,
    /// The salt.
    pub salt: &'a [u8],
}

impl Parameters<'_> {
    /// Hashes a name (RFC 5155 §5).
    ///
    /// # Errors
    /// The query has hashed too many names, or the zone uses too many iterations.
    pub fn hash(&self, wire: &[u8], budget: &mut Budget) -> Result<Hash, Reason> {
        if self.iterations > MAX_ITERATIONS {
            return Err(Reason::Nsec3Iterations);
        }
        budget.take_nsec3_hash()?;
        let folded: Vec<u8> = wire.iter().map(u8::to_ascii_lowercase).collect();
        Ok(self.of_own(&folded))
    }

    /// Hashes a folded name of a hosted zone. The number of iterations was checked when the zone
    /// was read.
    #[must_use]
    pub fn of_own(&self, folded: &[u8]) -> Hash {
        let mut hash = self.once(folded);
        for _ in 0..self.iterations {
            hash = self.once(&hash);
        }
        hash
    }

    fn once(&self, octets: &[u8]) -> Hash {
        let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        context.update(octets);
        context.update(self.salt);
        let mut hash = [0; HASH];
        hash.copy_from_slice(context.finish().as_ref());
        hash
    }
}

/// An NSEC3 record of a zone.
#[derive(Clone, Copy, Debug)]
pub struct Nsec3<'a> {
    /// The hash in the first label of the owner.
    pub hash: Hash,
    /// The next hash in the zone.
    pub next: &'a Hash,
    /// The hash parameters.
    pub parameters: Parameters<'a>,
    /// Whether delegations without DS may exist between the two hashes.
    pub is_opt_out: bool,
    pub(crate) types: TypeMap<'a>,
}

impl<'a> Nsec3<'a> {
    /// Parses the data. Returns `None` if it is malformed.
    ///
    /// Also returns `None` if the owner is not a hash directly below the zone's apex, or if the
    /// record has undefined parameters. Such records are ignored (RFC 5155 §8.1, §8.2).
    #[must_use]
    pub fn read(owner: &[u8], data: &'a [u8], zone: &[u8]) -> Option<Self> {
        rdata::check(Rtype::NSEC3.0, data).ok()?;
        if !label::is_name(owner) || !label::equal(name::parent(owner)?, zone) {
            return None;
        }
        let [algorithm, flags, high, low, salt_len, rest @ ..] = data else { return None };
        let (salt, rest) = rest.split_at_checked(usize::from(*salt_len))?;
        let (next, types) = rest.split_first()?.1.split_first_chunk()?;
        if (*algorithm, *flags & !OPT_OUT, usize::from(rest[0])) != (SHA1, 0, HASH) {
            return None;
        }
        Some(Self {
            hash: hash_label(owner)?,
            next,
            parameters: Parameters { iterations: u16::from_be_bytes([*high, *low]), salt },
            is_opt_out: flags & OPT_OUT != 0,
            types: TypeMap(types),
        })
    }

    /// Reports whether the record belongs to the name with this hash.
    #[must_use]
    pub fn matches(&self, hash: &Hash) -> bool {
        self.hash == *hash
    }

    /// Reports whether the record proves that no name has this hash.
    #[must_use]
    pub fn covers(&self, hash: &Hash) -> bool {
        if self.hash < *self.next {
            self.hash < *hash && hash < self.next
        } else {
            self.hash < *hash || hash < self.next
        }
    }
}

fn hash_label(owner: &[u8]) -> Option<Hash> {
    let label = name::labels(owner).next().filter(|label| label.len() == HASH_LABEL)?;
    let mut hash = [0; HASH];
    let len = BASE32_DNSSEC.decode_mut(label, &mut hash).ok()?;
    (len == HASH).then_some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &[u8] = b"\x07example\0";

    fn data(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        rdata::parse(50, text, &[0], &mut out).unwrap();
        out
    }

    /// The examples of RFC 5155 appendix A.
    #[test]
    fn hashes_are_those_of_the_rfc() {
        let parameters = Parameters { iterations: 12, salt: &[0xaa, 0xbb, 0xcc, 0xdd] };
        let mut budget = Budget::default();
        for (name, expected) in [
            ("example.", "0p9mhaveqvm6t7vbl5lop2u3t2rp3tom"),
            ("a.example.", "35mthgpgcu1qg68fab165klnsnk3dpvl"),
            ("AI.Example.", "gjeqe526plbf1g8mklp59enfd789njgi"),
            ("*.w.example.", "r53bq7cc2uvmubfu5ocmm6pers9tk9en"),
            ("xx.example.", "t644ebqk9bibcna874givr6joj62mlhv"),
        ] {
            let mut wire = [0; 255];
            let len = avocet_wire::text::name_to_wire(name.as_bytes(), None, &mut wire).unwrap();
            let hash = parameters.hash(&wire[..len], &mut budget).unwrap();
            assert_eq!(BASE32_DNSSEC.encode(&hash), expected, "{name}");
        }
        assert_eq!(budget.nsec3_hashes(), 5);
    }

    #[test]
    fn what_is_costly_is_not_hashed() {
        let mut budget = Budget::default();
        let costly = Parameters { iterations: MAX_ITERATIONS + 1, salt: &[] };
        assert_eq!(costly.hash(EXAMPLE, &mut budget), Err(Reason::Nsec3Iterations));
        let cheap = Parameters { iterations: 0, salt: &[] };
        while cheap.hash(EXAMPLE, &mut budget).is_ok() {}
        assert_eq!(budget.nsec3_hashes(), crate::budget::MAX_NSEC3_HASHES);
    }

    const OWNER: &[u8] = b"\x200p9mhaveqvm6t7vbl5lop2u3t2rp3tom\x07example\0";

    #[test]
    fn hashes_between_are_covered_around_the_end() {
        let octets = data("1 1 12 aabbccdd 2t7b4g4vsa5smi47k61mv5bv1a22bojr NS SOA");
        let mut nsec3 = Nsec3::read(OWNER, &octets, EXAMPLE).unwrap();
        assert!(nsec3.is_opt_out && nsec3.matches(&nsec3.hash) && nsec3.types.has(Rtype::SOA));
        let (first, last) = ([0; HASH], [0xff; HASH]);
        let between = [0x10; HASH];
        assert_eq!([first, between, last].map(|hash| nsec3.covers(&hash)), [false, true, false]);
        nsec3.hash = [0x90; HASH];
        assert_eq!([first, between, last].map(|hash| nsec3.covers(&hash)), [true, true, true]);
        assert!(
            !nsec3.covers(&[0x50; HASH]) && !nsec3.covers(nsec3.next) && !nsec3.covers(&nsec3.hash)
        );
    }

    #[test]
    fn what_is_not_defined_is_ignored() {
        let next = "2t7b4g4vsa5smi47k61mv5bv1a22bojr";
        assert!(Nsec3::read(OWNER, &data(&format!("1 0 12 - {next} A")), EXAMPLE).is_some());
        assert!(
            Nsec3::read(&OWNER.to_ascii_uppercase(), &data(&format!("1 0 12 - {next} A")), EXAMPLE)
                .is_some()
        );
        for text in [
            format!("2 0 12 - {next} A"),
            format!("1 2 12 - {next} A"),
            "1 0 12 - 2t7b4g4v A".to_owned(),
        ] {
            assert!(Nsec3::read(OWNER, &data(&text), EXAMPLE).is_none(), "{text}");
        }
        let octets = data(&format!("1 0 12 - {next} A"));
        assert!(Nsec3::read(OWNER, &octets, b"\0").is_none(), "the hash of another zone's name");
        assert!(Nsec3::read(b"\x01a\x07example\0", &octets, EXAMPLE).is_none());
        assert!(Nsec3::read(b"\0", &octets, b"\0").is_none());
    }
}
