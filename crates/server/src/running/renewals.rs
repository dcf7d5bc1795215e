//! The state of the certificate renewals for other threads, and their requests for a renewal.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use avocet_acme::Proof;
use avocet_control::certificates::RenewalRefusal;

/// Maximum number of requests for a renewal in an hour, which is about the number of failures that
/// authorities permit.
const MAX_ORDERS: usize = 5;
const HOUR_SECS: u64 = 3_600;

/// The state of the renewals of the certificate of `[acme]`, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownRenewal {
    /// The URL of the directory of the authority.
    pub(crate) directory: String,
    /// The Unix second of the next attempt. During an attempt, this and `last_attempt` are the
    /// start of the attempt.
    pub(crate) next_attempt: u64,
    /// The Unix second of the last attempt.
    pub(crate) last_attempt: Option<u64>,
    /// The Unix second at which the last certificate was obtained.
    pub(crate) last_success: Option<u64>,
    /// The number of failures since the last success.
    pub(crate) failures: u32,
    /// The reason why the last attempt failed, if it failed.
    pub(crate) error: Option<String>,
}

/// The shared state of the thread that renews the certificate.
#[derive(Default)]
pub(crate) struct AcmeKeeping {
    shown: Mutex<Option<ShownRenewal>>,
    /// The times of requests for a renewal in the last hour.
    orders: Mutex<Vec<u64>>,
    is_ordered: AtomicBool,
    is_closing: AtomicBool,
    successes: AtomicU64,
    failures: AtomicU64,
    /// The proofs that the server shows at the path of HTTP-01.
    pub(crate) proofs: Arc<HttpProofs>,
}

impl AcmeKeeping {
    /// Returns the state of the renewals; `None` without `[acme]`.
    pub(crate) fn shown(&self) -> Option<ShownRenewal> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn show(&self, shown: Option<ShownRenewal>) {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }

    /// Requests an immediate renewal of the certificate.
    ///
    /// # Errors
    /// The certificate is not renewed.
    pub(crate) fn order(&self, now_secs: u64) -> Result<(), RenewalRefusal> {
        if self.shown().is_none() {
            return Err(RenewalRefusal::Off);
        }
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.retain(|at| now_secs.abs_diff(*at) < HOUR_SECS);
        if orders.len() >= MAX_ORDERS {
            return Err(RenewalRefusal::TooMany(MAX_ORDERS));
        }
        orders.push(now_secs);
        self.is_ordered.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn take_order(&self) -> bool {
        self.is_ordered.swap(false, Ordering::Relaxed)
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }

    pub(crate) fn count_success(&self) {
        self.successes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_failure(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the numbers of certificates obtained and of failures since the start.
    pub(crate) fn counts(&self) -> [u64; 2] {
        [&self.successes, &self.failures].map(|count| count.load(Ordering::Relaxed))
    }
}

/// The proofs that authorities may request by HTTP at present.
#[derive(Default)]
pub(crate) struct HttpProofs(Mutex<Vec<Proof>>);

/// The directory of proofs (RFC 8555 §8.3).
pub(crate) const PROOF_PATH: &str = "/.well-known/acme-challenge/";

impl HttpProofs {
    /// Returns the text at a path; `None` if it is not the path of a proof.
    pub(crate) fn at(&self, path: &str) -> Option<String> {
        let token = path.strip_prefix(PROOF_PATH)?;
        let proofs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        proofs.iter().find(|proof| proof.token == token).map(|proof| proof.authorization.clone())
    }

    /// Returns whether there is no proof to show.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub(crate) fn put(&self, proof: Proof) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(proof);
    }

    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeping() -> AcmeKeeping {
        let keeping = AcmeKeeping::default();
        let directory = "https://ca.example/directory".to_owned();
        keeping.show(Some(ShownRenewal {
            directory,
            next_attempt: 0,
            last_attempt: None,
            last_success: None,
            failures: 0,
            error: None,
        }));
        keeping
    }

    #[test]
    fn people_order_a_few_renewals_in_an_hour() {
        assert_eq!(AcmeKeeping::default().order(7), Err(RenewalRefusal::Off));
        let keeping = keeping();
        for second in 0..MAX_ORDERS as u64 {
            assert_eq!(keeping.order(1_000 + second), Ok(()));
            assert!(keeping.take_order() && !keeping.take_order());
        }
        assert_eq!(keeping.order(1_010), Err(RenewalRefusal::TooMany(MAX_ORDERS)));
        assert_eq!(keeping.order(1_000 + HOUR_SECS), Ok(()));
    }

    #[test]
    fn only_the_path_of_a_proof_has_a_text() {
        let proofs = HttpProofs::default();
        proofs.put(Proof {
            kind: avocet_acme::ChallengeKind::Http01,
            name: "dns.example".to_owned(),
            token: "abc".to_owned(),
            authorization: "abc.def".to_owned(),
        });
        assert_eq!(proofs.at(&format!("{PROOF_PATH}abc")).as_deref(), Some("abc.def"));
        for path in ["", "/", PROOF_PATH, "/.well-known/acme-challenge/ab", "abc"] {
            assert_eq!(proofs.at(path), None, "{path}");
        }
        proofs.clear();
        assert_eq!(proofs.at(&format!("{PROOF_PATH}abc")), None);
    }
}
