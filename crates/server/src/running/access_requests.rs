//! Requests for access: a client on the block page asks the operator to allow a name.
//!
//! Any client that may query the server may send a request, without a log-in. Therefore, the number
//! of requests is limited in total, for each client and for each minute. A client has at most one
//! request for a name, and requests expire. Requests are only in memory: after a restart, clients
//! can send them again.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use avocet_web::access::network_of;

/// Maximum number of waiting requests: more than a person can review.
const MAX_WAITING: usize = 200;
/// Maximum number of waiting requests of one client.
const MAX_WAITING_PER_CLIENT: usize = 10;
/// Maximum number of requests that are accepted in one minute, in total and from one client.
const MAX_A_MINUTE: u32 = 30;
const MAX_A_MINUTE_PER_CLIENT: u32 = 5;
/// Lifetime of a request. After a day, the user of the client no longer waits for the page.
const LIFETIME_SECS: u64 = 24 * 3600;
/// Maximum number of characters of the text that comes with a request.
pub(crate) const MAX_TEXT: usize = 200;

/// A request that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingRequest {
    /// The ID of the request.
    pub(crate) id: u32,
    /// The name that is blocked.
    pub(crate) name: String,
    /// The client that asks.
    pub(crate) client: IpAddr,
    /// The `[[client]]` that had this address at that time. The address may belong to another
    /// client before the request is answered.
    pub(crate) configured: Option<String>,
    /// The groups of the client at that time.
    pub(crate) groups: Vec<String>,
    /// The text of the client; it may be empty.
    pub(crate) text: String,
    /// The Unix second at which the request arrived.
    pub(crate) at: u64,
}

/// The client that requests access.
#[derive(Debug, Clone)]
pub(crate) struct Applicant {
    /// The address of the client.
    pub(crate) client: IpAddr,
    /// The name of its `[[client]]`, if it has one.
    pub(crate) configured: Option<String>,
    /// The groups of the client.
    pub(crate) groups: Vec<String>,
}

impl Applicant {
    /// Returns whether this client sent a request. A configured client may have several addresses.
    fn made(&self, request: &WaitingRequest) -> bool {
        match &self.configured {
            Some(name) => request.configured.as_ref() == Some(name),
            None => request.configured.is_none() && request.client == self.client,
        }
    }
}

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AskOutcome {
    /// The request was accepted and waits for an answer.
    Taken(WaitingRequest),
    /// The client already has a request for the name.
    Known,
    /// Too many requests are waiting, of the client or of all clients.
    Full,
    /// The client sent too many requests in this minute.
    TooFast,
}

/// Counts of requests since the start.
#[derive(Default)]
pub(crate) struct RequestCounts {
    /// Requests that were accepted.
    pub(crate) taken: AtomicU64,
    /// Requests that a client repeated.
    pub(crate) known: AtomicU64,
    /// Requests refused because too many are waiting.
    pub(crate) full: AtomicU64,
    /// Requests refused because there were too many in a minute.
    pub(crate) too_fast: AtomicU64,
}

/// The waiting requests.
#[derive(Default)]
pub(crate) struct AccessRequests {
    state: Mutex<RequestState>,
    /// The counts.
    pub(crate) counts: RequestCounts,
}

#[derive(Default)]
struct RequestState {
    /// The waiting requests, in the order of their IDs.
    waiting: Vec<WaitingRequest>,
    last_id: u32,
    /// The current minute since the start of 1970.
    minute: u64,
    in_minute: u32,
    /// The number of requests in this minute by network; at most [`MAX_A_MINUTE`] networks.
    of_clients: HashMap<IpAddr, u32>,
}

impl AccessRequests {
    /// Accepts or refuses a request.
    pub(crate) fn ask(&self, name: &str, by: Applicant, text: &str, now: u64) -> AskOutcome {
        let asked = self.lock(now).ask(name, by, text, now);
        let count = match asked {
            AskOutcome::Taken(_) => &self.counts.taken,
            AskOutcome::Known => &self.counts.known,
            AskOutcome::Full => &self.counts.full,
            AskOutcome::TooFast => &self.counts.too_fast,
        };
        count.fetch_add(1, Ordering::Relaxed);
        asked
    }

    /// Returns whether a request of a client for a name is waiting.
    pub(crate) fn is_waiting(&self, name: &str, by: &Applicant, now: u64) -> bool {
        self.lock(now).has(name, by)
    }

    /// Returns the waiting requests, the oldest first.
    pub(crate) fn waiting(&self, now: u64) -> Vec<WaitingRequest> {
        self.lock(now).waiting.clone()
    }

    /// Removes a request that was answered.
    pub(crate) fn remove(&self, id: u32, now: u64) {
        self.lock(now).waiting.retain(|one| one.id != id);
    }

    /// Locks the requests, after it has removed those that have expired.
    fn lock(&self, now: u64) -> MutexGuard<'_, RequestState> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.waiting.retain(|one| now.saturating_sub(one.at) < LIFETIME_SECS);
        state
    }
}

impl RequestState {
    fn has(&self, name: &str, by: &Applicant) -> bool {
        self.waiting.iter().any(|one| one.name == name && by.made(one))
    }

    fn ask(&mut self, name: &str, by: Applicant, text: &str, now: u64) -> AskOutcome {
        if self.has(name, &by) {
            return AskOutcome::Known;
        }
        let Applicant { client, configured, groups } = by;
        let network = network_of(client);
        let is_near = |one: &&WaitingRequest| network_of(one.client) == network;
        let of_client = self.waiting.iter().filter(is_near).count();
        if self.waiting.len() >= MAX_WAITING || of_client >= MAX_WAITING_PER_CLIENT {
            return AskOutcome::Full;
        }
        if self.minute != now / 60 {
            (self.minute, self.in_minute) = (now / 60, 0);
            self.of_clients.clear();
        }
        let recent = self.of_clients.get(&network).copied().unwrap_or_default();
        if self.in_minute >= MAX_A_MINUTE || recent >= MAX_A_MINUTE_PER_CLIENT {
            return AskOutcome::TooFast;
        }
        self.in_minute += 1;
        self.of_clients.insert(network, recent + 1);
        self.last_id = self.last_id.wrapping_add(1);
        let request = WaitingRequest {
            id: self.last_id,
            name: name.to_owned(),
            client,
            configured,
            groups,
            text: readable(text),
            at: now,
        };
        self.waiting.push(request.clone());
        AskOutcome::Taken(request)
    }
}

/// Returns a text without characters that change how a terminal or a page displays other
/// characters.
fn readable(text: &str) -> String {
    let is_shown = |character: &char| {
        let is_direction = matches!(
            character,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        );
        !character.is_control() && !is_direction
    };
    let kept: String = text.chars().filter(is_shown).take(MAX_TEXT).collect();
    kept.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn from(client: IpAddr) -> Applicant {
        Applicant { client, configured: None, groups: Vec::new() }
    }

    fn client(number: usize) -> Applicant {
        from([10, 0, (number >> 8) as u8, number as u8].into())
    }

    #[test]
    fn a_client_asks_once_for_a_name_until_it_is_answered_or_a_day_has_passed() {
        let requests = AccessRequests::default();
        let AskOutcome::Taken(first) = requests.ask("a.", from(CLIENT), "please", 1000) else {
            panic!()
        };
        assert_eq!(requests.ask("a.", from(CLIENT), "again", 1001), AskOutcome::Known);
        assert!(matches!(requests.ask("a.", client(1), "", 1001), AskOutcome::Taken(_)));
        assert_eq!(requests.waiting(1002)[0], first);
        assert_eq!((first.text.as_str(), first.at), ("please", 1000));
        requests.remove(first.id, 1002);
        assert!(!requests.is_waiting("a.", &from(CLIENT), 1002));
        assert!(requests.is_waiting("a.", &client(1), 1000 + LIFETIME_SECS));
        assert_eq!(requests.waiting(1001 + LIFETIME_SECS), []);
        let AskOutcome::Taken(next) = requests.ask("a.", from(CLIENT), "", 1002) else { panic!() };
        assert!(next.id > first.id);
        assert_eq!(requests.counts.known.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn neither_one_client_nor_many_fill_the_memory() {
        let requests = AccessRequests::default();
        let mut taken = [0; 2];
        for number in 0..1_000 {
            // The same client sends one request in each minute.
            let asked = requests.ask(&format!("n{number}."), from(CLIENT), "", 60 * number);
            taken[0] += u32::from(matches!(asked, AskOutcome::Taken(_)));
        }
        assert_eq!(taken[0] as usize, MAX_WAITING_PER_CLIENT);
        for number in 0..5_000 {
            let asked = requests.ask("x.", client(number), "", 60_000 + number as u64);
            taken[1] += u32::from(matches!(asked, AskOutcome::Taken(_)));
        }
        assert_eq!((taken[0] + taken[1]) as usize, MAX_WAITING);
        assert_eq!(requests.waiting(60_000).len(), MAX_WAITING);
        assert!(requests.counts.full.load(Ordering::Relaxed) > 0);
    }

    #[test]
    fn all_addresses_of_an_ipv6_network_are_one_client() {
        let requests = AccessRequests::default();
        let ask = |number: u64| {
            let client = Ipv6Addr::from_bits((0x2001_0db8 << 96) + u128::from(number));
            requests.ask("a.", from(client.into()), "", 60 * number)
        };
        let taken = (0..100).filter(|number| matches!(ask(*number), AskOutcome::Taken(_)));
        assert_eq!(taken.count(), MAX_WAITING_PER_CLIENT);
    }

    #[test]
    fn requests_of_one_minute_are_limited() {
        let requests = AccessRequests::default();
        let asked: Vec<_> =
            (0..6).map(|n| requests.ask(&format!("{n}."), from(CLIENT), "", 60)).collect();
        assert_eq!(asked[5], AskOutcome::TooFast);
        assert!(matches!(asked[4], AskOutcome::Taken(_)));
        assert!(matches!(requests.ask("5.", from(CLIENT), "", 120), AskOutcome::Taken(_)));
        let all =
            (0..100).filter(|n| requests.ask("x.", client(*n), "", 180) == AskOutcome::TooFast);
        assert_eq!(all.count(), 100 - MAX_A_MINUTE as usize);
    }

    #[test]
    fn a_text_is_short_and_plain() {
        assert_eq!(readable("  a\u{1b}[2J\r\n\u{202e}b\u{0} <b> "), "a[2Jb <b>");
        assert_eq!(readable(&"\u{e9}".repeat(500)).chars().count(), MAX_TEXT);
    }
}
