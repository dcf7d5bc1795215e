//! The result of validation (RFC 4033 §5, RFC 4035 §4.3) and its reason.

use std::fmt;

use avocet_wire::Ede;

use crate::budget::Limit;

/// The security status of data (RFC 4033 §5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// A chain of signatures leads from a trust anchor to the data.
    Secure,
    /// A trust anchor proves that there is no chain of trust.
    Insecure,
    /// A chain should exist but does not: the data must not be used.
    Bogus,
    /// No trust anchor determines whether a chain should exist.
    Indeterminate,
}

/// The reason why data is not secure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Reason {
    /// Fault of the zone: it is signed only with algorithms that are unsupported or not accepted
    /// (RFC 4035 §5.2, RFC 9905).
    UnsupportedAlgorithm,
    /// Fault of the parent zone: all of its DS records have unsupported digests.
    UnsupportedDigest,
    /// Fault of the zone: all of its keys have unsupported sizes.
    UnsupportedKeySize,
    /// Fault of the zone: its NSEC3 records use more iterations than supported (RFC 9276 §3.2).
    Nsec3Iterations,
    /// Statement of the parent zone: the delegation is unsigned, or may be because of opt-out
    /// ([`crate::DelegationKind`]).
    UnsignedDelegation,
    /// Choice of the operator: a negative trust anchor covers the name (RFC 7646).
    NegativeAnchor,
    /// Choice of the operator: no trust anchor covers the name.
    NoAnchor,
    /// A signature does not verify.
    SignatureInvalid,
    /// All signatures have expired.
    SignatureExpired,
    /// No signature is valid yet.
    SignatureNotYetValid,
    /// A signature expires before its inception.
    SignatureExpiredBeforeValid,
    /// There is no signature that could be valid.
    SignatureMissing,
    /// The signer is a zone other than the zone of the data.
    WrongSigner,
    /// The label count of a signature exceeds the label count of the owner, or is below that of the
    /// signer (RFC 4035 §5.3.1).
    WrongLabels,
    /// No DNSKEY record matches the DS records, the trust anchor or the signature.
    DnskeyMissing,
    /// The matching DNSKEY record is not a zone key.
    NotZoneKey,
    /// The NSEC or NSEC3 records do not prove the claim of the message.
    DenialMissing,
    /// No server of a zone in the chain of trust could be queried for DS or DNSKEY.
    Unreachable,
    /// DS or DNSKEY were not queried because a limit was reached or no socket was available.
    NotAsked,
    /// The network failed during a query for DS or DNSKEY.
    NetworkError,
    /// Records are malformed for their type.
    Malformed,
    /// Validation would exceed a limit on work or on records.
    Limit(Limit),
}

impl Reason {
    /// Returns the security status that follows from the reason.
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

    /// Returns the extended error for the client (RFC 8914 §4, RFC 9276 §3.2). In an insecure
    /// answer, an extended error that names missing support is useful, but
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

    /// Returns how close the failed signature came to being valid. If several signatures fail, the
    /// reason of the closest one is reported.
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
            Self::SignatureExpiredBeforeValid => "the signature expires before its inception",
            Self::SignatureMissing => "no usable signature",
            Self::WrongSigner => "signed by another zone",
            Self::WrongLabels => "signed with an impossible label count",
            Self::DnskeyMissing => "no DNSKEY record matches",
            Self::NotZoneKey => "the DNSKEY record is not a zone key",
            Self::DenialMissing => "missing proof by NSEC or NSEC3 records",
            Self::Unreachable => "no server returned DS or DNSKEY records",
            Self::NotAsked => "DS or DNSKEY records not queried: limit reached",
            Self::NetworkError => "the network failed to deliver DS or DNSKEY records",
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
