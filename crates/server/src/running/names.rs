//! Names of clients by address: PTR queries to this server, for private addresses and only if the
//! policy uses names of clients.
//!
//! ```text
//! workers' recent clients, neighbours, leases --addresses--> thread "names"
//!      workers <--PTR, over loopback-- thread "names" --names--> NeighbourWatch
//!                                                            --> Parts::neighbours
//! ```
//! A reverse zone must be under the control of the operator: it has local records, or a rule
//! forwards it. The names of other private addresses are not queried.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use avocet_client::{ClientError, stub as stub_client};
use avocet_config::name::reverse_name;
use avocet_io::neighbours::neighbours;
use avocet_nameserver::policy::are_wanted;
use avocet_policy::client::{MAX_NEIGHBOURS, Neighbour};
use avocet_wire::special_purpose::Scope;

use crate::running::Running;
use crate::running::conditions::Condition;

/// Maximum number of addresses with cached names.
const MAX_KEPT: usize = 4_096;
/// Maximum number of queries in one round. After a few rounds, all names of a new network are
/// known.
const MAX_ASKED: usize = 64;
/// Maximum number of queries that the allowance accumulates for many new clients at once, such as
/// after the start.
const MAX_SAVED: usize = 512;
/// Maximum duration of a round in which no query is answered.
const ROUND: Duration = Duration::from_secs(10);
/// Time between rounds.
const PAUSE: Duration = Duration::from_secs(5);
/// Bounds of the time for which a name is cached, in seconds, regardless of its TTL.
const KEEP_SECS: (u64, u64) = (300, 86_400);
/// The time for which the absence of a name is cached, in seconds.
const NO_NAME_SECS: u64 = 600;

/// The time for which the server expects its own query in the query log. It is much longer than
/// entries wait, even while another process still holds the directory of the log.
const OWN_FOR: Duration = Duration::from_secs(60);

/// The log line after a panic of the thread.
const FAULT: &str =
    "a panic ended the thread that looks up names of clients, see the log; restart the server";

/// The results of the thread, and the signals to it.
#[derive(Default)]
pub(crate) struct ClientNames {
    found: Mutex<Arc<[Neighbour]>>,
    /// The names in the latest queries of the thread, in wire format, each with the time until
    /// which they are expected in the query log.
    own: Mutex<HashMap<Box<[u8]>, Instant>>,
    /// The addresses that were queried, successfully or not.
    looked_up: Mutex<HashSet<IpAddr>>,
    orders: Mutex<NameOrders>,
    arrived: Condvar,
    /// Queries that were sent.
    pub(crate) asked: AtomicU64,
    /// Addresses that were ignored because the table was full.
    pub(crate) passed_over: AtomicU64,
}

/// The orders to the thread.
#[derive(Default)]
struct NameOrders {
    /// Addresses of clients that wait for the look-up of their names.
    wanted: Vec<IpAddr>,
    is_closed: bool,
}

impl ClientNames {
    /// Returns whether the name of an address was queried, or cannot be. If it was not queried yet,
    /// orders the query.
    pub(crate) fn is_looked_up(&self, ip: IpAddr) -> bool {
        let looked_up = self.looked_up.lock().unwrap_or_else(PoisonError::into_inner);
        if looked_up.contains(&ip) || looked_up.len() >= MAX_KEPT {
            return true;
        }
        drop(looked_up);
        let mut orders = self.orders();
        if orders.wanted.len() < MAX_KEPT && !orders.wanted.contains(&ip) {
            orders.wanted.push(ip);
            self.arrived.notify_all();
        }
        false
    }

    fn orders(&self) -> MutexGuard<'_, NameOrders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the known names, ordered by address.
    pub(crate) fn found(&self) -> Arc<[Neighbour]> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns whether a name in a PTR query from this host is one that the thread has just
    /// queried.
    pub(crate) fn is_own(&self, qname: &[u8]) -> bool {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).contains_key(qname)
    }

    /// Records a name that the thread is about to query.
    fn note_own(&self, ip: IpAddr, now: Instant) {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.retain(|_, until| *until > now);
        own.insert(reverse_name(ip), now + OWN_FOR);
    }

    /// Ends the thread after the query in progress.
    pub(crate) fn close(&self) {
        self.orders().is_closed = true;
        self.arrived.notify_all();
    }

    fn is_closed(&self) -> bool {
        self.orders().is_closed
    }

    /// Waits for the next round, or for clients that wait for their names, and returns their
    /// addresses. Returns `None` if the thread must end.
    fn wait(&self, pause: Duration) -> Option<Vec<IpAddr>> {
        let is_idle = |orders: &mut NameOrders| !orders.is_closed && orders.wanted.is_empty();
        let waited = self.arrived.wait_timeout_while(self.orders(), pause, is_idle);
        let mut orders = waited.unwrap_or_else(PoisonError::into_inner).0;
        (!orders.is_closed).then(|| std::mem::take(&mut orders.wanted))
    }

    fn publish(&self, table: &NameTable) {
        let found = table.found();
        let mut published = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if **published != *found {
            *published = found.into();
        }
        drop(published);
        let looked_up = table.known.iter().filter(|(_, known)| known.is_looked_up);
        let looked_up = looked_up.map(|(ip, _)| *ip).collect();
        *self.looked_up.lock().unwrap_or_else(PoisonError::into_inner) = looked_up;
    }
}

/// Starts the thread.
///
/// # Errors
///
/// The system cannot start a thread.
pub(crate) fn start(running: Arc<Running>) -> io::Result<()> {
    let watched = move || {
        running.conditions.contain(Condition::Threads, FAULT, || work(&running));
    };
    thread::Builder::new().name("names".to_owned()).spawn(watched).map(drop)
}

fn work(running: &Running) {
    let (mut table, names) = (NameTable::default(), &running.names);
    let (mut allowance, mut round) = (Allowance::begin(Instant::now()), Instant::now());
    loop {
        let pause = round.saturating_duration_since(Instant::now());
        let Some(wanted) = names.wait(pause) else { return };
        let state = running.shared.snapshot();
        if !are_wanted(&state.config.policy) {
            (table, round) = (NameTable::default(), Instant::now() + PAUSE);
            names.publish(&table);
            continue;
        }
        let server = stub_client::from_here(state.config.server.own_address());
        drop(state);
        let mut due = wanted;
        let mut passed_over = table.meet(due.iter().copied(), Instant::now());
        due.retain(|ip| table.known.get(ip).is_some_and(|known| !known.is_looked_up));
        if due.is_empty() && Instant::now() >= round {
            passed_over += table.meet(addresses(running), Instant::now());
            table.forget(Instant::now());
            due = table.due(Instant::now());
            due.truncate(MAX_ASKED);
            round = Instant::now() + PAUSE;
        }
        names.passed_over.fetch_add(passed_over, Ordering::Relaxed);
        ask(&mut table, &due, (server, names), &mut allowance);
        names.publish(&table);
    }
}

/// Queries names as far as the allowance permits. Queries for other clients do not delay a client
/// that waits.
fn ask(
    table: &mut NameTable,
    due: &[IpAddr],
    (server, names): (SocketAddr, &ClientNames),
    allowance: &mut Allowance,
) {
    let began = Instant::now();
    for &ip in due {
        if names.is_closed() || began.elapsed() > ROUND || !allowance.take(Instant::now()) {
            return;
        }
        names.asked.fetch_add(1, Ordering::Relaxed);
        names.note_own(ip, Instant::now());
        table.learn(ip, stub_client::name_of(server, ip), Instant::now());
        names.publish(table);
    }
}

/// The queries that the thread may send: [`MAX_ASKED`] in each [`PAUSE`], and more after a pause,
/// such as at the start, when all clients are new.
struct Allowance {
    left: usize,
    at: Instant,
}

impl Allowance {
    fn begin(now: Instant) -> Self {
        Self { left: MAX_SAVED, at: now }
    }

    fn take(&mut self, now: Instant) -> bool {
        let pauses = now.saturating_duration_since(self.at).as_secs() / PAUSE.as_secs();
        if pauses > 0 {
            let more = usize::try_from(pauses).unwrap_or(MAX_SAVED).saturating_mul(MAX_ASKED);
            (self.left, self.at) = (self.left.saturating_add(more).min(MAX_SAVED), now);
        }
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_left
    }
}

/// Returns the private addresses of recent clients and of neighbours.
fn addresses(running: &Running) -> impl Iterator<Item = IpAddr> {
    let callers = running
        .shared
        .name_server
        .callers
        .iter()
        .flat_map(|worker| worker.all().collect::<Vec<_>>());
    // If the table cannot be read, only recent clients are used.
    let present =
        neighbours(MAX_NEIGHBOURS).unwrap_or_default().into_iter().map(|(ip, _)| ip.to_canonical());
    callers.chain(present).filter(|ip| Scope::Local.contains(*ip))
}

/// The addresses with their names and the times of queries.
#[derive(Default)]
struct NameTable {
    known: HashMap<IpAddr, KnownName>,
}

struct KnownName {
    name: Option<String>,
    /// The time of the next query.
    due: Instant,
    /// Whether the address appeared since its last query.
    is_met: bool,
    /// Whether the name of the address was ever queried.
    is_looked_up: bool,
}

impl NameTable {
    /// Adds addresses; returns the number for which there is no room.
    fn meet(&mut self, addresses: impl Iterator<Item = IpAddr>, now: Instant) -> u64 {
        let mut passed_over = 0;
        for ip in addresses {
            let has_room = self.known.len() < MAX_KEPT;
            match self.known.get_mut(&ip) {
                Some(known) => known.is_met = true,
                None if has_room => {
                    self.known.insert(
                        ip,
                        KnownName { name: None, due: now, is_met: true, is_looked_up: false },
                    );
                }
                None => passed_over += 1,
            }
        }
        passed_over
    }

    /// Removes expired addresses that have not appeared since their last query.
    fn forget(&mut self, now: Instant) {
        self.known.retain(|_, known| known.is_met || known.due > now);
    }

    /// Returns the addresses that are due, the longest overdue first.
    fn due(&self, now: Instant) -> Vec<IpAddr> {
        let mut due: Vec<_> = self.known.iter().filter(|(_, known)| known.due <= now).collect();
        due.sort_by_key(|(ip, known)| (known.due, **ip));
        due.into_iter().map(|(ip, _)| *ip).collect()
    }

    /// Records a name with its TTL in seconds, or the reason why there is none. The previous name
    /// remains if there is no response.
    fn learn(
        &mut self,
        ip: IpAddr,
        found: Result<Option<(String, u32)>, ClientError>,
        now: Instant,
    ) {
        let Some(known) = self.known.get_mut(&ip) else { return };
        let secs = match found {
            Ok(Some((name, ttl_secs))) => {
                known.name = Some(name);
                u64::from(ttl_secs).clamp(KEEP_SECS.0, KEEP_SECS.1)
            }
            Ok(None) => {
                known.name = None;
                NO_NAME_SECS
            }
            Err(_) => NO_NAME_SECS,
        };
        (known.due, known.is_met) = (now + Duration::from_secs(secs), false);
        known.is_looked_up = true;
    }

    fn found(&self) -> Vec<Neighbour> {
        let named = self.known.iter().filter_map(|(ip, known)| Some((*ip, known.name.clone()?)));
        let mut found: Vec<Neighbour> = named
            .map(|(address, name)| Neighbour { address, mac: None, name: Some(name) })
            .collect();
        found.sort_by_key(|neighbour| neighbour.address);
        found
    }
}

#[cfg(test)]
mod tests {
    use avocet_wire::Rcode;

    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn names(table: &NameTable) -> Vec<String> {
        table.found().into_iter().filter_map(|found| found.name).collect()
    }

    #[test]
    fn a_name_is_kept_for_its_time_within_bounds_and_then_asked_for_again() {
        let (mut table, start) = (NameTable::default(), Instant::now());
        let after = |secs| start + Duration::from_secs(secs);
        assert_eq!(table.meet([ip(1), ip(2), ip(3)].into_iter(), start), 0);
        assert_eq!(table.due(start), [ip(1), ip(2), ip(3)]);
        table.learn(ip(1), Ok(Some(("short.lan.".to_owned(), 0))), start);
        table.learn(ip(2), Ok(Some(("long.lan.".to_owned(), u32::MAX))), start);
        table.learn(ip(3), Ok(None), start);
        assert_eq!(names(&table), ["short.lan.", "long.lan."]);
        assert!(table.due(after(299)).is_empty());
        table.meet([ip(1), ip(3)].into_iter(), after(300));
        assert_eq!(table.due(after(300)), [ip(1)]);
        table.learn(ip(1), Err(ClientError::Rcode(Rcode::SERVFAIL)), after(300));
        assert_eq!(names(&table), ["short.lan.", "long.lan."], "a name stays while nobody answers");
        assert_eq!(table.due(after(600)), [ip(3)]);
        table.forget(after(86_400));
        assert_eq!((names(&table), table.known.len()), (vec![], 1), "who has gone is forgotten");
    }

    #[test]
    fn many_new_clients_are_asked_for_at_once_and_then_so_many_in_five_seconds() {
        let start = Instant::now();
        let mut allowance = Allowance::begin(start);
        let mut taken = |now| (0..).take_while(|_| allowance.take(now)).count();
        assert_eq!(taken(start), MAX_SAVED);
        assert_eq!((taken(start + PAUSE), taken(start + PAUSE)), (MAX_ASKED, 0));
        assert_eq!(taken(start + PAUSE * 1_000), MAX_SAVED);
    }

    #[test]
    fn a_wanted_name_wakes_the_thread_and_is_looked_up_once_it_was_asked_for() {
        let (names, mut table) = (ClientNames::default(), NameTable::default());
        assert!(!names.is_looked_up(ip(1)) && !names.is_looked_up(ip(1)));
        assert_eq!(names.wait(Duration::ZERO), Some(vec![ip(1)]));
        table.meet([ip(1), ip(2)].into_iter(), Instant::now());
        table.learn(ip(1), Err(ClientError::Rcode(Rcode::SERVFAIL)), Instant::now());
        names.publish(&table);
        assert!(names.is_looked_up(ip(1)) && !names.is_looked_up(ip(2)));
        names.close();
        assert_eq!(names.wait(Duration::ZERO), None);
    }

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let (mut table, now) = (NameTable::default(), Instant::now());
        let many = (0..MAX_KEPT as u32 + 10)
            .map(|number| IpAddr::from((0x0a00_0000 + number).to_be_bytes()));
        assert_eq!(table.meet(many, now), 10);
        assert_eq!(table.known.len(), MAX_KEPT);
    }
}
