//! A bound on the validation work for one client query (CVE-2023-50387, CVE-2023-50868,
//! CVE-2026-11605).
//!
//! One [`Budget`] accompanies a client query through all queries made on its behalf, so that
//! neither a sub-query nor a restart resets the counts.

use std::fmt;

use crate::verdict::Reason;

/// Maximum number of signature checks for the records of one message. A message with a proof of
/// NXDOMAIN needs five.
pub const MAX_MESSAGE_SIGNATURE_CHECKS: u32 = 16;
/// Maximum number of signature checks for one client query. A CNAME chain through four uncached
/// zones needs about fifty.
pub const MAX_SIGNATURE_CHECKS: u32 = 64;
/// Maximum number of failed signature checks for one client query. Honest zones cause none, except
/// when key tags collide.
pub const MAX_SIGNATURE_FAILURES: u32 = 4;
/// Maximum number of names that are hashed for NSEC3 for one client query. The deepest names in
/// use, those of IPv6 reverse zones, have 34 labels.
pub const MAX_NSEC3_HASHES: u32 = 64;
/// Maximum number of keys with the same tag and algorithm that are tried for a signature.
pub const MAX_COLLIDING_KEYS: u32 = 2;
/// Maximum number of DS records of a delegation that are tried.
pub const MAX_DS_RECORDS: u32 = 8;
/// Maximum number of records of a DNSKEY RRset.
pub const MAX_DNSKEYS: u32 = 64;
/// Maximum number of RRSIG records of an RRset that are examined.
pub const MAX_RRSIGS: u32 = 32;
/// Maximum number of records of an RRset that can be verified.
pub const MAX_RRSET_RECORDS: usize = 256;
/// Maximum number of octets of record data of an RRset that can be verified.
pub const MAX_RRSET_OCTETS: usize = 65_535;
/// Maximum number of NSEC and NSEC3 records of one proof. Honest proofs have up to four, or five
/// together with the proof of a referral.
pub const MAX_DENIAL_RECORDS: u32 = 32;

/// A limit that was reached.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Limit {
    /// The limit [`MAX_MESSAGE_SIGNATURE_CHECKS`].
    MessageSignatureChecks,
    /// The limit [`MAX_SIGNATURE_CHECKS`].
    SignatureChecks,
    /// The limit [`MAX_SIGNATURE_FAILURES`].
    SignatureFailures,
    /// The limit [`MAX_NSEC3_HASHES`].
    Nsec3Hashes,
    /// The limit [`MAX_COLLIDING_KEYS`].
    CollidingKeys,
    /// The limit [`MAX_DS_RECORDS`].
    DsRecords,
    /// The limit [`MAX_DNSKEYS`].
    Dnskeys,
    /// The limit [`MAX_RRSIGS`].
    Rrsigs,
    /// The limits [`MAX_RRSET_RECORDS`] and [`MAX_RRSET_OCTETS`].
    RrsetSize,
    /// The limit [`MAX_DENIAL_RECORDS`].
    DenialRecords,
}

impl Limit {
    /// All limits, in the order of their counters.
    pub const ALL: [Self; 10] = [
        Self::MessageSignatureChecks,
        Self::SignatureChecks,
        Self::SignatureFailures,
        Self::Nsec3Hashes,
        Self::CollidingKeys,
        Self::DsRecords,
        Self::Dnskeys,
        Self::Rrsigs,
        Self::RrsetSize,
        Self::DenialRecords,
    ];

    /// Returns the name used in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MessageSignatureChecks => "message-signature-checks",
            Self::SignatureChecks => "signature-checks",
            Self::SignatureFailures => "signature-failures",
            Self::Nsec3Hashes => "nsec3-hashes",
            Self::CollidingKeys => "colliding-keys",
            Self::DsRecords => "ds-records",
            Self::Dnskeys => "dnskeys",
            Self::Rrsigs => "rrsigs",
            Self::RrsetSize => "rrset-size",
            Self::DenialRecords => "denial-records",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The limits on the validation work for one client query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of signature checks between two calls of [`Budget::begin_message`].
    pub message_signature_checks: u32,
    /// Maximum number of signature checks in total.
    pub signature_checks: u32,
    /// Maximum number of failed signature checks.
    pub signature_failures: u32,
    /// Maximum number of hashed names.
    pub nsec3_hashes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_signature_checks: MAX_MESSAGE_SIGNATURE_CHECKS,
            signature_checks: MAX_SIGNATURE_CHECKS,
            signature_failures: MAX_SIGNATURE_FAILURES,
            nsec3_hashes: MAX_NSEC3_HASHES,
        }
    }
}

/// The validation work of a client query, and the limits that it has reached.
#[derive(Clone, Debug, Default)]
pub struct Budget {
    limits: Limits,
    message_checks: u32,
    checks: u32,
    failures: u32,
    hashes: u32,
    reached: [u32; Limit::ALL.len()],
}

impl Budget {
    /// Creates a budget with these limits.
    #[must_use]
    pub fn with_limits(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Starts another message: resets the signature checks of the message, but not those of the
    /// query.
    pub fn begin_message(&mut self) {
        self.message_checks = 0;
    }

    /// Returns the number of signature checks.
    #[must_use]
    pub fn signature_checks(&self) -> u32 {
        self.checks
    }

    /// Returns the number of failed signature checks.
    #[must_use]
    pub fn signature_failures(&self) -> u32 {
        self.failures
    }

    /// Returns the number of hashed names.
    #[must_use]
    pub fn nsec3_hashes(&self) -> u32 {
        self.hashes
    }

    /// Returns how often each limit was reached, in the order of [`Limit::ALL`].
    #[must_use]
    pub fn reached(&self) -> &[u32; Limit::ALL.len()] {
        &self.reached
    }

    /// Counts a limit as reached.
    pub(crate) fn reach(&mut self, limit: Limit) -> Reason {
        let count = &mut self.reached[limit as usize];
        *count = count.saturating_add(1);
        Reason::Limit(limit)
    }

    /// Deducts one signature check.
    pub(crate) fn take_signature_check(&mut self) -> Result<(), Reason> {
        if self.failures >= self.limits.signature_failures {
            return Err(self.reach(Limit::SignatureFailures));
        }
        if self.checks >= self.limits.signature_checks {
            return Err(self.reach(Limit::SignatureChecks));
        }
        if self.message_checks >= self.limits.message_signature_checks {
            return Err(self.reach(Limit::MessageSignatureChecks));
        }
        self.checks += 1;
        self.message_checks += 1;
        Ok(())
    }

    /// Counts the last check as failed.
    pub(crate) fn count_signature_failure(&mut self) {
        self.failures += 1;
    }

    /// Deducts one name to hash.
    pub(crate) fn take_nsec3_hash(&mut self) -> Result<(), Reason> {
        if self.hashes >= self.limits.nsec3_hashes {
            return Err(self.reach(Limit::Nsec3Hashes));
        }
        self.hashes += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_further_message_does_not_reset_the_query() {
        let mut budget = Budget::default();
        for _ in 0..MAX_SIGNATURE_CHECKS / MAX_MESSAGE_SIGNATURE_CHECKS {
            budget.begin_message();
            for _ in 0..MAX_MESSAGE_SIGNATURE_CHECKS {
                budget.take_signature_check().unwrap();
            }
        }
        budget.begin_message();
        assert_eq!(budget.take_signature_check(), Err(Reason::Limit(Limit::SignatureChecks)));
        assert_eq!(budget.reached()[Limit::SignatureChecks as usize], 1);
    }

    #[test]
    fn one_message_cannot_use_up_the_query() {
        let mut budget = Budget::default();
        for _ in 0..MAX_MESSAGE_SIGNATURE_CHECKS {
            budget.take_signature_check().unwrap();
        }
        assert_eq!(
            budget.take_signature_check(),
            Err(Reason::Limit(Limit::MessageSignatureChecks))
        );
    }

    #[test]
    fn failures_end_it_early() {
        let mut budget = Budget::default();
        for _ in 0..MAX_SIGNATURE_FAILURES {
            budget.take_signature_check().unwrap();
            budget.count_signature_failure();
        }
        budget.begin_message();
        assert_eq!(budget.take_signature_check(), Err(Reason::Limit(Limit::SignatureFailures)));
    }

    #[test]
    fn the_counters_stand_in_the_order_of_the_limits() {
        for (at, limit) in Limit::ALL.into_iter().enumerate() {
            assert_eq!(limit as usize, at, "{limit}");
        }
    }
}
