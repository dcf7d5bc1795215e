//! Names of clients by address: PTR queries to this server, for private addresses and only if the
//! policy depends on names of clients.
//!
//! ```text
//! workers' recent clients, neighbours, leases --addresses--> thread "names"
//!      workers <--PTR, over loopback-- thread "names" --names--> NeighbourWatch
//!                                                            --> Parts::neighbours
//! ```
//! A PTR record is a statement of the operator of the reverse zone: local records, or the servers
//! to which a rule forwards it. All other private addresses have no such zone and are not queried.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
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

/// Most addresses with cached names.
const MAX_KEPT: usize = 4_096;
/// Most queries in one round: the names of a new network are known after a few.
const MAX_ASKED: usize = 64;
/// The longest duration of a round in which no query is answered.
const ROUND: Duration = Duration::from_secs(10);
/// Time between rounds.
const PAUSE: Duration = Duration::from_secs(5);
/// Bounds of the time for which a name is cached, in seconds, regardless of its TTL.
const KEEP_SECS: (u64, u64) = (300, 86_400);
/// For how long the absence of a name is cached, in seconds.
const NO_NAME_SECS: u64 = 600;

/// How long after a query of its own the server expects it in the query log: much longer than
/// entries wait, also while another process still holds the directory of the log.
const OWN_FOR: Duration = Duration::from_secs(60);

/// The log line after a panic of the thread.
const FAULT: &str =
    "a panic ended the thread that looks up names of clients, see the log; restart the server";

/// The results of the thread, and the means to end it.
#[derive(Default)]
pub(crate) struct ClientNames {
    found: Mutex<Arc<[Neighbour]>>,
    /// The names in the latest queries of the thread, in wire format, each with the time until
    /// which the query log may still meet it.
    own: Mutex<HashMap<Box<[u8]>, Instant>>,
    is_closed: Mutex<bool>,
    closing: Condvar,
    /// Queries that were sent.
    pub(crate) asked: AtomicU64,
    /// Addresses that were ignored because the table was full.
    pub(crate) passed_over: AtomicU64,
}

impl ClientNames {
    /// The known names, ordered by address.
    pub(crate) fn found(&self) -> Arc<[Neighbour]> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reports whether a name in a PTR query from this host is one that the thread has just
    /// queried.
    pub(crate) fn is_own(&self, qname: &[u8]) -> bool {
        self.own.lock().unwrap_or_else(PoisonError::into_inner).contains_key(qname)
    }

    /// Remembers a name that the thread is about to query.
    fn note_own(&self, ip: IpAddr, now: Instant) {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        own.retain(|_, until| *until > now);
        own.insert(reverse_name(ip), now + OWN_FOR);
    }

    /// Ends the thread after the query in progress.
    pub(crate) fn close(&self) {
        *self.is_closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.closing.notify_all();
    }

    fn is_closed(&self) -> bool {
        *self.is_closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next round. Returns false if the thread must end.
    fn wait(&self) -> bool {
        let is_closed = self.is_closed.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.closing.wait_timeout_while(is_closed, PAUSE, |is_closed| !*is_closed);
        !*waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn publish(&self, table: &NameTable) {
        let found = table.found();
        let mut published = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if **published != *found {
            *published = found.into();
        }
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
    loop {
        let state = running.shared.snapshot();
        if are_wanted(&state.config.policy) {
            let server = stub_client::from_here(state.config.server.own_address());
            let passed_over = table.meet(addresses(running), Instant::now());
            names.passed_over.fetch_add(passed_over, Ordering::Relaxed);
            drop(state);
            ask(&mut table, server, names);
        } else {
            table = NameTable::default();
        }
        names.publish(&table);
        if !names.wait() {
            return;
        }
    }
}

/// Queries the names that are due.
fn ask(table: &mut NameTable, server: SocketAddr, names: &ClientNames) {
    let began = Instant::now();
    for ip in table.due(began).into_iter().take(MAX_ASKED) {
        if names.is_closed() || began.elapsed() > ROUND {
            return;
        }
        names.asked.fetch_add(1, Ordering::Relaxed);
        names.note_own(ip, Instant::now());
        table.learn(ip, stub_client::name_of(server, ip), Instant::now());
    }
}

/// The private addresses of recent clients and of neighbours.
fn addresses(running: &Running) -> impl Iterator<Item = IpAddr> {
    let callers = running
        .shared
        .name_server
        .callers
        .iter()
        .flat_map(|worker| worker.all().collect::<Vec<_>>());
    // If the table cannot be read, recent clients are enough.
    let present =
        neighbours(MAX_NEIGHBOURS).unwrap_or_default().into_iter().map(|(ip, _)| ip.to_canonical());
    callers.chain(present).filter(|ip| Scope::Local.contains(*ip))
}

/// Addresses with their names.
#[derive(Default)]
struct NameTable {
    known: HashMap<IpAddr, KnownName>,
}

struct KnownName {
    name: Option<String>,
    /// When it is queried again.
    due: Instant,
    /// Whether the address appeared since its last query.
    is_met: bool,
}

impl NameTable {
    /// Adds addresses; returns the number for which there is no room. Removes expired addresses
    /// that have not appeared since.
    fn meet(&mut self, addresses: impl Iterator<Item = IpAddr>, now: Instant) -> u64 {
        let mut passed_over = 0;
        for ip in addresses {
            let has_room = self.known.len() < MAX_KEPT;
            match self.known.get_mut(&ip) {
                Some(known) => known.is_met = true,
                None if has_room => {
                    self.known.insert(ip, KnownName { name: None, due: now, is_met: true });
                }
                None => passed_over += 1,
            }
        }
        self.known.retain(|_, known| known.is_met || known.due > now);
        passed_over
    }

    /// The addresses that are due, the longest overdue first.
    fn due(&self, now: Instant) -> Vec<IpAddr> {
        let mut due: Vec<_> = self.known.iter().filter(|(_, known)| known.due <= now).collect();
        due.sort_by_key(|(ip, known)| (known.due, **ip));
        due.into_iter().map(|(ip, _)| *ip).collect()
    }

    /// Records a name with its TTL in seconds, or the reason why there is none. A name remains if
    /// there is no response.
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
        table.meet([].into_iter(), after(86_400));
        assert_eq!((names(&table), table.known.len()), (vec![], 1), "who has gone is forgotten");
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
