//! The exchange with other servers: counts of events, the limits of zone transfers, and the
//! messages that are still to be sent.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use avocet_config::name::shown;
use avocet_zone::{OutboundTransfer, TsigError, TsigSigner};

/// Maximum number of transfers at the same time. Each transfer holds a version of its zone in
/// memory.
const MAX_TRANSFERS: usize = 64;
/// Maximum number of transfers at the same time to one address.
const MAX_TRANSFERS_OF_CLIENT: usize = 8;
/// Maximum number of transfers at the same time to an IPv6 link (/64). A host with IPv6 can use
/// every address of its link.
const MAX_TRANSFERS_OF_LINK: usize = MAX_TRANSFERS / 2;
/// Maximum number of transfers at the same time to an IPv6 site (/48).
const MAX_TRANSFERS_OF_SITE: usize = MAX_TRANSFERS - MAX_TRANSFERS / 4;

/// An event between servers that is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerEvent {
    /// All messages of a transfer were sent.
    Sent,
    /// A transfer ended before its last message was written.
    CutShort,
    /// A transfer was refused: the zone does not allow it.
    Refused,
    /// A transfer was refused because too many are in progress.
    Limited,
    /// A message was signed with an unknown key, or with an algorithm other than the key's.
    BadKey,
    /// The signature of a message was wrong.
    BadSig,
    /// The time in a signature differed too much from the time of this server.
    BadTime,
    /// The signature of a message was shorter than permitted.
    BadTrunc,
    /// A message had a malformed TSIG record.
    MalformedTsig,
    /// A NOTIFY message of a primary was accepted.
    NoticeHeard,
    /// A NOTIFY message was refused, because its sender is no primary of the zone.
    NoticeRefused,
    /// A zone was transferred from a primary, and put in force.
    Received,
    /// The transfer of a zone had only the changes (IXFR); also counted as received.
    ReceivedChanges,
    /// A zone was received over TLS; also counted as received.
    ReceivedOverTls,
    /// NOTIFY was sent to another server.
    NoticeSent,
    /// NOTIFY was acknowledged.
    NoticeAcknowledged,
    /// The server stopped sending NOTIFY, because there was no acknowledgement.
    NoticeFailed,
    /// An update was applied.
    UpdateApplied,
    /// An update changed nothing.
    UpdateUnchanged,
    /// A prerequisite of an update was not met.
    UpdateUnmet,
    /// An update was refused: it is not signed, not permitted, or not well-formed.
    UpdateRefused,
    /// An update could not be applied: the zone would have errors, or the disk is full.
    UpdateFailed,
    /// An update was refused because too many updates wait.
    UpdateLimited,
    /// The records of a zone were fetched from its URL, and put in force.
    Fetched,
    /// The URL of a zone had the same records as before.
    FetchedSame,
    /// The URL of a zone had no usable records.
    FetchFailed,
}

/// The names of the results of transfers in metrics, in the order of [`ServerEvent`].
pub const TRANSFER_RESULTS: [&str; 4] = ["sent", "cut-short", "refused", "limited"];
/// The names of signature errors in metrics, in the order of [`ServerEvent`], after the names
/// above.
pub const SIGNATURE_ERRORS: [&str; 5] = ["badkey", "badsig", "badtime", "badtrunc", "malformed"];
/// The results of NOTIFY in metrics, in the order of [`ServerEvent`], after the results above.
pub const NOTICE_RESULTS: [&str; 2] = ["heard", "refused"];
/// The results of NOTIFY to other servers in metrics, in the order of [`ServerEvent`], after the
/// results above.
pub const SENT_NOTICE_RESULTS: [&str; 3] = ["sent", "acknowledged", "failed"];
/// The results of updates in metrics, in the order of [`ServerEvent`], after the results above.
pub const UPDATE_RESULTS: [&str; 6] =
    ["applied", "unchanged", "prerequisite", "refused", "failed", "limited"];
/// The results of requests to URLs of zones in metrics, in the order of [`ServerEvent`], after the
/// results above.
pub const FETCH_RESULTS: [&str; 3] = ["new", "unchanged", "failed"];
/// Number of counters.
const EVENTS: usize = TRANSFER_RESULTS.len()
    + SIGNATURE_ERRORS.len()
    + NOTICE_RESULTS.len()
    + 3
    + SENT_NOTICE_RESULTS.len()
    + UPDATE_RESULTS.len()
    + FETCH_RESULTS.len();

impl ServerEvent {
    /// Returns the event that counts a signature error.
    pub(crate) fn of_error(error: TsigError) -> Self {
        match error {
            TsigError::BadSig => Self::BadSig,
            TsigError::BadTime => Self::BadTime,
            TsigError::BadTrunc => Self::BadTrunc,
            TsigError::BadKey | TsigError::None | TsigError::Other(_) => Self::BadKey,
        }
    }
}

/// The counts of [`ServerEvent`].
pub struct ServerCounts {
    /// Transfers to other servers, by [`TRANSFER_RESULTS`].
    pub transfers: [u64; TRANSFER_RESULTS.len()],
    /// Unusable signatures of messages, by [`SIGNATURE_ERRORS`].
    pub signatures: [u64; SIGNATURE_ERRORS.len()],
    /// NOTIFY messages received, by [`NOTICE_RESULTS`].
    pub notices: [u64; NOTICE_RESULTS.len()],
    /// Zones that were transferred from primaries.
    pub received: u64,
    /// Zones received by IXFR, which sends only the changes.
    pub received_changes: u64,
    /// Zones received over TLS.
    pub received_over_tls: u64,
    /// NOTIFY messages sent, by [`SENT_NOTICE_RESULTS`].
    pub sent_notices: [u64; SENT_NOTICE_RESULTS.len()],
    /// Updates, by [`UPDATE_RESULTS`].
    pub updates: [u64; UPDATE_RESULTS.len()],
    /// Fetches of zones, by [`FETCH_RESULTS`].
    pub fetches: [u64; FETCH_RESULTS.len()],
}

/// The transfers in progress, and the counters of [`ServerEvent`]. All workers share them.
/// Transfers are rare, so one lock and shared counters are enough.
#[derive(Default)]
pub struct TransferLedger {
    open: Mutex<OpenTransfers>,
    counts: [AtomicU64; EVENTS],
}

impl TransferLedger {
    /// Counts an event.
    pub fn count(&self, event: ServerEvent) {
        self.counts[event as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns all counts.
    pub fn counts(&self) -> ServerCounts {
        let mut counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        let mut next = || counts.next().unwrap_or(0);
        ServerCounts {
            transfers: std::array::from_fn(|_| next()),
            signatures: std::array::from_fn(|_| next()),
            notices: std::array::from_fn(|_| next()),
            received: next(),
            received_changes: next(),
            received_over_tls: next(),
            sent_notices: std::array::from_fn(|_| next()),
            updates: std::array::from_fn(|_| next()),
            fetches: std::array::from_fn(|_| next()),
        }
    }

    /// Returns the number of transfers in progress.
    pub fn in_progress(&self) -> usize {
        self.open().total
    }

    /// Reserves a transfer to this address; `None` if too many transfers run, to all clients or to
    /// the client and its networks.
    pub fn permit(self: &Arc<Self>, ip: IpAddr) -> Option<TransferPermit> {
        let mut open = self.open();
        let count = |network| open.by_network.get(&network).copied().unwrap_or(0);
        if open.total >= MAX_TRANSFERS
            || networks_of(ip).any(|(network, most)| count(network) >= most)
        {
            return None;
        }
        open.total += 1;
        networks_of(ip).for_each(|(network, _)| *open.by_network.entry(network).or_default() += 1);
        Some(TransferPermit { ledger: self.clone(), ip })
    }

    fn open(&self) -> MutexGuard<'_, OpenTransfers> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The numbers of transfers in progress.
#[derive(Default)]
struct OpenTransfers {
    total: usize,
    /// The numbers for each client and network, by address and length of the prefix.
    by_network: HashMap<(IpAddr, u8), usize>,
}

/// Returns a client and its networks, each with the maximum number of its transfers. An IPv4 client
/// has only its address.
fn networks_of(client: IpAddr) -> impl Iterator<Item = ((IpAddr, u8), usize)> {
    let client = client.to_canonical();
    let wider = match client {
        IpAddr::V4(_) => None,
        IpAddr::V6(v6) => {
            let upper = |len: u8| {
                let bits = v6.to_bits() & (u128::MAX << (128 - u32::from(len)));
                (IpAddr::from(Ipv6Addr::from_bits(bits)), len)
            };
            Some([(upper(64), MAX_TRANSFERS_OF_LINK), (upper(48), MAX_TRANSFERS_OF_SITE)])
        }
    };
    let own = ((client, 128), MAX_TRANSFERS_OF_CLIENT);
    std::iter::once(own).chain(wider.into_iter().flatten())
}

/// A permit for one transfer. The number of permits limits the transfers that run at the same time.
pub struct TransferPermit {
    ledger: Arc<TransferLedger>,
    ip: IpAddr,
}

impl Drop for TransferPermit {
    fn drop(&mut self) {
        let mut open = self.ledger.open();
        open.total -= 1;
        for (network, _) in networks_of(self.ip) {
            let Some(count) = open.by_network.get_mut(&network) else { continue };
            *count -= 1;
            if *count == 0 {
                open.by_network.remove(&network);
            }
        }
    }
}

/// The messages of a transfer after the first one. Each message is made when the client has read
/// the previous one.
pub struct TransferRest {
    messages: OutboundTransfer,
    signer: Option<TsigSigner>,
    permit: TransferPermit,
    sent: u64,
    room: Vec<u8>,
    is_whole: bool,
}

impl TransferRest {
    /// Creates the rest of a transfer, which begins after the first message.
    pub(crate) fn new(messages: OutboundTransfer, permit: TransferPermit) -> Self {
        Self { messages, signer: None, permit, sent: 1, room: Vec::new(), is_whole: false }
    }

    /// Sets the signer of the remaining messages.
    pub(crate) fn sign_with(&mut self, signer: TsigSigner) {
        self.signer = Some(signer);
    }

    /// Returns the next message. Returns `None` after the last one, or if the transfer must be
    /// aborted by closing the connection.
    pub fn next(&mut self, wall_secs: u64) -> Option<&[u8]> {
        if self.messages.is_done() {
            self.is_whole = true;
            return None;
        }
        self.messages.next(&mut self.room).ok()?;
        if let Some(signer) = &mut self.signer {
            signer.sign(&mut self.room, wall_secs);
        }
        self.sent += 1;
        Some(&self.room)
    }

    /// Returns whether all messages were made.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }
}

impl Drop for TransferRest {
    fn drop(&mut self) {
        let zone = self.messages.zone();
        let (name, serial) = (shown(zone.apex().wire()), zone.serial());
        let (client, messages) = (self.permit.ip, self.sent);
        let what = if self.messages.is_incremental() { "changes of zone" } else { "zone" };
        if self.is_whole {
            tracing::info!(%client, serial, messages, "{what} {name} transferred");
            self.permit.ledger.count(ServerEvent::Sent);
        } else {
            tracing::warn!(%client, serial, messages, "the transfer of zone {name} was cut short");
            self.permit.ledger.count(ServerEvent::CutShort);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_have_a_limit_for_each_client_and_for_all() {
        let ledger = Arc::new(TransferLedger::default());
        let ip = |last: u8| IpAddr::from([192, 0, 2, last]);
        let mut held = Vec::new();
        held.extend((0..MAX_TRANSFERS_OF_CLIENT).map(|_| ledger.permit(ip(1)).unwrap()));
        assert!(ledger.permit(ip(1)).is_none());
        while let Some(permit) = ledger.permit(ip(held.len() as u8)) {
            held.push(permit);
        }
        assert_eq!((held.len(), ledger.in_progress()), (MAX_TRANSFERS, MAX_TRANSFERS));
        held.truncate(1);
        assert!(ledger.permit(ip(1)).is_some() && ledger.permit(ip(99)).is_some());
        held.clear();
        assert_eq!(ledger.in_progress(), 0);
    }

    #[test]
    fn transfers_to_many_addresses_of_one_ipv6_network_have_a_limit() {
        let check = |addresses: &dyn Fn(u16) -> IpAddr, most: usize| {
            let ledger = Arc::new(TransferLedger::default());
            let held: Vec<_> = (0..100).map_while(|at| ledger.permit(addresses(at))).collect();
            assert_eq!(held.len(), most);
            let other = ledger.permit("2001:db8:ffff::1".parse().unwrap());
            assert!(other.is_some(), "others get transfers");
            drop((held, other));
            assert!(ledger.open().by_network.is_empty() && ledger.in_progress() == 0);
        };
        let ip = |link, last| IpAddr::from([0x2001, 0xdb8, 1, link, 0, 0, 0, last]);
        check(&|_| ip(1, 1), MAX_TRANSFERS_OF_CLIENT);
        check(&|at| ip(1, at), MAX_TRANSFERS_OF_LINK);
        check(&|at| ip(at, at), MAX_TRANSFERS_OF_SITE);
        check(&|_| "::ffff:192.0.2.1".parse().unwrap(), MAX_TRANSFERS_OF_CLIENT);
    }
}
