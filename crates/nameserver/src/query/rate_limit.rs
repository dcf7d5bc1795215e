//! Response rate limiting (RRL): limits equal answers to one client network.
//!
//! A fixed table of token buckets is shared by all workers; each bucket is one atomic word.
//! Networks with the same hash share a bucket. The hash is keyed, so that an attacker cannot choose
//! such networks.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use avocet_config::{MAX_RESPONSES_PER_SECOND, RateLimitConfig};
use avocet_wire::hash::HashKey;
use avocet_wire::view::{MessageView, RecordSection};
use avocet_wire::{FoldedName, Rcode, Rtype};
use avocet_zone::HostedZone;

use super::addresses::AddressSet;
use super::decision::{Decision, Outgoing};
use super::own::Names;
use crate::snapshot::Snapshot;

/// Number of buckets in the table, which takes 512 KiB.
const BUCKETS: usize = 1 << 16;
/// The capacity of a bucket, in seconds of its rate.
const WINDOW_SECS: u64 = 2;
/// Number of units of credit per token.
const SCALE: u64 = 1000;
/// Number of bits of a bucket's word that hold the credit. The other bits hold the time in
/// milliseconds.
const CREDIT_BITS: u32 = 24;

// The credit of a full bucket fits into the bits for it.
const _: () = assert!(MAX_RESPONSES_PER_SECOND as u64 * SCALE * WINDOW_SECS < 1 << CREDIT_BITS);

/// The treatment of an answer under the rate limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limited {
    /// Send the answer.
    Send,
    /// Send an empty answer with TC, so that a genuine client repeats its query over TCP.
    Slip,
    /// Send no answer.
    Drop,
}

/// Answers without own data that count as equal for a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EqualAnswers {
    /// Answers of a hosted zone for names that it does not have.
    OfZone = 1,
    /// Referrals to a zone.
    Referrals = 2,
    /// Answers without data for a name.
    NoData = 3,
}

/// The limiter's state.
pub struct RateLimiter {
    buckets: Box<[AtomicU64]>,
    key: HashKey,
    rate: u64,
    slip: u64,
    prefix: (u8, u8),
    exempt: AddressSet,
    over: AtomicU64,
}

impl RateLimiter {
    /// Creates an empty table with the configured limits.
    pub fn new(config: &RateLimitConfig, key: HashKey) -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            key,
            rate: u64::from(config.responses_per_second),
            slip: u64::from(config.slip),
            prefix: (config.ipv4_prefix_length, config.ipv6_prefix_length),
            exempt: AddressSet::new(&config.exempt),
            over: AtomicU64::new(0),
        }
    }

    /// Returns a value that equal answers share. An attacker cannot get more of them by queries for
    /// other names or types: there is one value for all answers without data for a name, all
    /// referrals to a delegated zone, all answers of a hosted zone for names that it does not have
    /// (such as those from a wildcard), and all answers with an RCODE other than NOERROR. Answers
    /// with data for an existing name have a value for each question.
    pub(crate) fn kind(&self, outgoing: &Outgoing, reply: &[u8], state: &Snapshot) -> u64 {
        let Decision { rcode, qtype, .. } = outgoing.decision;
        if rcode != Rcode::NOERROR {
            return u64::from(rcode.0);
        }
        let shared =
            |equal: EqualAnswers, name: FoldedName<'_>| self.key.hash(name.wire(), equal as u64);
        let read = || {
            let view = MessageView::new(reply).ok()?;
            let has_data = view
                .section(RecordSection::Answer)
                .ok()?
                .map_while(Result::ok)
                .any(|record| record.rtype == qtype || qtype == Rtype::ANY);
            let qname = view.question().ok()?.qname().ok()?.folded();
            let Names { local, pools, .. } = &*state.names;
            let is_own = local.is_owner(qname.view()) || pools.get(qname.view().wire()).is_some();
            let zones = state.zones_of(outgoing.decision.profile);
            let zone = zones.zone_of(qname.view(), qtype).flatten().filter(|_| !is_own);
            let zone = zone.filter(|zone| zone.sets_of(qname.view()).is_none());
            if let Some(zone) = zone.filter(|zone| !is_delegated(zone, qname.view())) {
                return Some(shared(EqualAnswers::OfZone, zone.apex()));
            }
            if has_data {
                return None;
            }
            let mut records = view.section(RecordSection::Authority).ok()?;
            match records.next().and_then(Result::ok) {
                Some(first) if first.rtype == Rtype::NS => {
                    let owner = first.owner().ok()?.folded();
                    Some(shared(EqualAnswers::Referrals, owner.view()))
                }
                _ => Some(shared(EqualAnswers::NoData, qname.view())),
            }
        };
        read().unwrap_or(outgoing.hash)
    }

    /// Takes a token for an answer to `client`. Answers with the same `kind` share tokens. Calls
    /// `kind` only if the client is not exempt.
    pub fn take(&self, client: IpAddr, kind: impl FnOnce() -> u64, now_ms: u64) -> Limited {
        if self.exempt.contains(client) {
            return Limited::Send;
        }
        let hash = self.key.hash(&network(client, self.prefix), kind());
        let bucket = &self.buckets[hash as usize % BUCKETS];
        let full = self.rate * SCALE * WINDOW_SECS;
        let mut word = bucket.load(Ordering::Relaxed);
        loop {
            let (last_ms, credit) = (word >> CREDIT_BITS, word & ((1 << CREDIT_BITS) - 1));
            // A bucket that was never used is full.
            let earned = now_ms.saturating_sub(last_ms).min(WINDOW_SECS * 1000) * self.rate;
            let credit = if word == 0 { full } else { (credit + earned).min(full) };
            let left = credit.saturating_sub(SCALE);
            let next = now_ms.max(last_ms) << CREDIT_BITS | left;
            match bucket.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) if credit >= SCALE => return Limited::Send,
                Ok(_) => return self.over_the_limit(),
                Err(current) => word = current,
            }
        }
    }

    /// Decides about an answer over the limit: every `slip`-th of these answers is sent truncated.
    #[cold]
    fn over_the_limit(&self) -> Limited {
        let count = self.over.fetch_add(1, Ordering::Relaxed) + 1;
        if self.slip > 0 && count.is_multiple_of(self.slip) { Limited::Slip } else { Limited::Drop }
    }
}

/// Returns whether a name is below a delegation of its zone. Such names are data of other servers.
fn is_delegated(zone: &HostedZone, name: FoldedName<'_>) -> bool {
    let above = name.ancestors().skip(1).take_while(|above| above.wire() != zone.apex().wire());
    let has_servers = |above: FoldedName<'_>| {
        zone.sets_of(above).into_iter().flatten().any(|set| set.rtype == Rtype::NS)
    };
    above.into_iter().any(has_servers)
}

/// Returns the client's network: its address with all bits after the prefix cleared.
fn network(ip: IpAddr, prefix: (u8, u8)) -> [u8; 16] {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.0.min(32))).unwrap_or(0);
            std::net::Ipv4Addr::from_bits(ip.to_bits() & mask).to_ipv6_mapped().octets()
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.1.min(128))).unwrap_or(0);
            (ip.to_bits() & mask).to_be_bytes()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(rate: u32, slip: u8) -> RateLimiter {
        let config = RateLimitConfig {
            responses_per_second: rate,
            slip,
            ipv4_prefix_length: 24,
            ipv6_prefix_length: 56,
            exempt: vec!["192.0.2.0/24".parse().unwrap()],
        };
        RateLimiter::new(&config, HashKey::new(std::array::from_fn(|at| at as u8 * 7 + 1)))
    }

    fn sent(limiter: &RateLimiter, client: &str, now_ms: u64) -> usize {
        let client = client.parse().unwrap();
        (0..100).filter(|_| limiter.take(client, || 7, now_ms) == Limited::Send).count()
    }

    #[test]
    fn a_network_gets_two_seconds_of_its_rate_and_then_its_rate() {
        let limiter = limiter(5, 0);
        assert_eq!(sent(&limiter, "198.51.100.1", 1_000_000), 10);
        assert_eq!(sent(&limiter, "198.51.100.200", 1_000_000), 0, "the same /24");
        assert_eq!(sent(&limiter, "198.51.101.1", 1_000_000), 10, "another /24");
        assert_eq!(sent(&limiter, "198.51.100.1", 1_001_000), 5);
        assert_eq!(sent(&limiter, "198.51.100.1", 1_900_000), 10);
        assert_eq!(sent(&limiter, "192.0.2.1", 1_000_000), 100, "exempt");
    }

    #[test]
    fn slip_sends_each_nth_truncated() {
        let limiter = limiter(1, 2);
        let client = "198.51.100.1".parse().unwrap();
        let outcomes: Vec<_> =
            (0..2000).map(|ms| limiter.take(client, || 7, 5_000_000 + ms / 100)).collect();
        assert_eq!(outcomes.iter().filter(|o| **o == Limited::Send).count(), 2);
        assert_eq!(outcomes.iter().filter(|o| **o == Limited::Slip).count(), 999);
    }
}
