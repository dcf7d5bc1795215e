//! What validation says about data (RFC 4033 §5, RFC 4035 §4.3), and why.

use std::fmt;

use avocet_wire::Ede;

use crate::budget::Limit;

/// The security status of data (RFC 4033 §5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// A chain of signatures leads from a trust anchor to the data.
    Secure,
    /// A trust anchor proves that there is no such chain.
    Insecure,
    /// There should be a chain and there is none: the data must not be used.
    Bogus,
    /// No trust anchor says whether there should be one.
    Indeterminate,
}

/// Why data is not secure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// The zone: signed with algorithms only that we do not know or do not accept (RFC 4035 §5.2,
    /// RFC 9905).
    UnsupportedAlgorithm,
    /// The zone above: all of its DS records have digests that we do not know.
    UnsupportedDigest,
    /// The zone: its keys have sizes that we do not verify with.
    UnsupportedKeySize,
    /// The zone: its NSEC3 records ask for more iterations than we compute (RFC 9276 §3.2).
    Nsec3Iterations,
    /// The zone above: it proves that the delegation is not signed, or may not be
    /// ([`crate::DelegationKind`]).
    UnsignedDelegation,
    /// The operator: a negative trust anchor covers the name (RFC 7646).
    NegativeAnchor,
    /// The operator: no trust anchor covers the name.
    NoAnchor,
    /// A signature does not verify.
    SignatureInvalid,
    /// All signatures were valid until a time that is past.
    SignatureExpired,
    /// All signatures are valid from a time that is still to come.
    SignatureNotYetValid,
    /// A signature that ends before it begins.
    SignatureExpiredBeforeValid,
    /// No signature, or none that could count.
    SignatureMissing,
    /// A signature by another zone than the one that the data belongs to.
    WrongSigner,
    /// A signature whose count of labels is above the owner's or below the signer's (RFC 4035
    /// §5.3.1).
    WrongLabels,
    /// No DNSKEY record is what the DS records, the trust anchor or the signature call for.
    DnskeyMissing,
    /// The DNSKEY record that was called for is not a zone key.
    NotZoneKey,
    /// NSEC or NSEC3 records do not prove what the message claims.
    DenialMissing,
    /// The chain: its servers could not be asked for DS or DNSKEY.
    Unreachable,
    /// The question: a limit of what it may cost, or a lack of sockets, kept DS or DNSKEY from
    /// being asked for.
    NotAsked,
    /// The chain: the network failed while DS or DNSKEY were asked for.
    NetworkError,
    /// Records that are not what their type says.
    Malformed,
    /// More work than we do for one query, or more records than we look at.
    Limit(Limit),
}

impl Reason {
    /// The status of the data.
    #[must_use]
    pub const fn verdict(self) -> Verdict {
        match self {
            Self::UnsupportedAlgorithm
            | Self::UnsupportedDigest
            | Self::UnsupportedKeySize
            | Self::Nsec3Iterations
            | Self::UnsignedDelegation
            | Self::NegativeAnchor => Verdict::Insecure,
            Self::NoAnchor => Verdict::Indeterminate,
            _ => Verdict::Bogus,
        }
    }

    /// The extended error that tells the client (RFC 8914 §4, RFC 9276 §3.2). With an insecure
    /// answer it is of use where we lack support for what the zone does,
    /// [`Ede::DNSSEC_INDETERMINATE`] is not.
    #[must_use]
    pub const fn ede(self) -> Ede {
        match self {
            Self::UnsupportedAlgorithm | Self::UnsupportedKeySize => {
                Ede::UNSUPPORTED_DNSKEY_ALGORITHM
            }
            Self::UnsupportedDigest => Ede::UNSUPPORTED_DS_DIGEST_TYPE,
            Self::Nsec3Iterations => Ede::UNSUPPORTED_NSEC3_ITERATIONS,
            Self::UnsignedDelegation | Self::NegativeAnchor | Self::NoAnchor => {
                Ede::DNSSEC_INDETERMINATE
            }
            Self::SignatureInvalid | Self::WrongSigner | Self::WrongLabels | Self::Limit(_) => {
                Ede::DNSSEC_BOGUS
            }
            Self::SignatureExpired => Ede::SIGNATURE_EXPIRED,
            Self::SignatureNotYetValid => Ede::SIGNATURE_NOT_YET_VALID,
            Self::SignatureExpiredBeforeValid => Ede::SIGNATURE_EXPIRED_BEFORE_VALID,
            Self::SignatureMissing => Ede::RRSIGS_MISSING,
            Self::DnskeyMissing => Ede::DNSKEY_MISSING,
            Self::NotZoneKey => Ede::NO_ZONE_KEY_BIT_SET,
            Self::DenialMissing => Ede::NSEC_MISSING,
            Self::Unreachable => Ede::NO_REACHABLE_AUTHORITY,
            Self::NotAsked => Ede::OTHER,
            Self::NetworkError => Ede::NETWORK_ERROR,
            Self::Malformed => Ede::INVALID_DATA,
        }
    }

    /// Of several reasons why signatures did not count, the one that is told is the one that came
    /// nearest to a valid signature.
    pub(crate) const fn nearness(self) -> u8 {
        match self {
            Self::Limit(_) => 9,
            Self::SignatureInvalid => 8,
            Self::SignatureExpired => 7,
            Self::SignatureNotYetValid => 6,
            Self::SignatureExpiredBeforeValid => 5,
            Self::NotZoneKey => 4,
            Self::DnskeyMissing => 3,
            Self::WrongLabels => 2,
            Self::WrongSigner => 1,
            _ => 0,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnsupportedAlgorithm => "signed with unsupported algorithms only",
            Self::UnsupportedDigest => "only DS records with unsupported digests",
            Self::UnsupportedKeySize => "signed with keys of unsupported sizes only",
            Self::Nsec3Iterations => "too many NSEC3 iterations",
            Self::UnsignedDelegation => "below an unsigned delegation",
            Self::NegativeAnchor => "below a negative trust anchor",
            Self::NoAnchor => "no trust anchor",
            Self::SignatureInvalid => "a signature does not verify",
            Self::SignatureExpired => "the signature has expired",
            Self::SignatureNotYetValid => "the signature is not yet valid",
            Self::SignatureExpiredBeforeValid => "the signature ends before it begins",
            Self::SignatureMissing => "no usable signature",
            Self::WrongSigner => "signed by another zone",
            Self::WrongLabels => "signed with an impossible count of labels",
            Self::DnskeyMissing => "no DNSKEY record matches",
            Self::NotZoneKey => "the DNSKEY record is not a zone key",
            Self::DenialMissing => "NSEC or NSEC3 records do not prove it",
            Self::Unreachable => "DS or DNSKEY could not be had from any server",
            Self::NotAsked => "DS or DNSKEY were not asked for: a limit was reached",
            Self::NetworkError => "DS or DNSKEY could not be had from the network",
            Self::Malformed => "malformed records",
            Self::Limit(limit) => return write!(f, "limit reached: {limit}"),
        })
    }
}

impl std::error::Error for Reason {}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(reason: Reason, verdict: Verdict, code: u16) {
        assert_eq!((reason.verdict(), reason.ede()), (verdict, Ede(code)), "{reason}");
    }

    #[test]
    fn what_we_lack_is_insecure_and_what_the_zone_lacks_is_bogus() {
        check(Reason::UnsupportedAlgorithm, Verdict::Insecure, 1);
        check(Reason::UnsupportedKeySize, Verdict::Insecure, 1);
        check(Reason::UnsupportedDigest, Verdict::Insecure, 2);
        check(Reason::Nsec3Iterations, Verdict::Insecure, 27);
        check(Reason::NegativeAnchor, Verdict::Insecure, 5);
        check(Reason::UnsignedDelegation, Verdict::Insecure, 5);
        check(Reason::NoAnchor, Verdict::Indeterminate, 5);
        check(Reason::SignatureInvalid, Verdict::Bogus, 6);
        check(Reason::WrongSigner, Verdict::Bogus, 6);
        check(Reason::SignatureExpired, Verdict::Bogus, 7);
        check(Reason::SignatureNotYetValid, Verdict::Bogus, 8);
        check(Reason::DnskeyMissing, Verdict::Bogus, 9);
        check(Reason::SignatureMissing, Verdict::Bogus, 10);
        check(Reason::NotZoneKey, Verdict::Bogus, 11);
        check(Reason::DenialMissing, Verdict::Bogus, 12);
        check(Reason::Unreachable, Verdict::Bogus, 22);
        check(Reason::NetworkError, Verdict::Bogus, 23);
        check(Reason::Malformed, Verdict::Bogus, 24);
        check(Reason::SignatureExpiredBeforeValid, Verdict::Bogus, 25);
        check(Reason::Limit(Limit::SignatureFailures), Verdict::Bogus, 6);
    }
}
