//! The query path without sockets: exactly the work of a worker for one datagram.
//!
//! Benches use it, and tests that measure the cost of an answer. Its clock advances only through
//! [`InProcess::pass`].

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use avocet_cache::{
    Negative, NegativeKind, NegativeRecord, Provenance, Rank, ReadAt, ReceivedRrset, RrsetKey,
    Security, StoredPacket,
};
use avocet_config::Config;
use avocet_io::Peer;
use avocet_io::udp::{BATCH, Datagram, Service};
use avocet_policy::client::{DeviceClaims, DeviceId, Neighbour};
use avocet_policy::rule::Switches;
use avocet_querylog::{Consumer, Record};
use avocet_resolver::{Answers, Assembled, Assembler, DELEGATIONS, Wanted};
use avocet_wire::{Class, Ede, FoldedName, FoldedNameBuf, QueryView, Question, Rtype};

use crate::StateError;
use crate::clock::{self, Moment};
use crate::close::{Delivery, Ended, close};
use crate::datagrams::{Datagrams, Newer};
use crate::flush::FlushExtent;
use crate::metrics::{Counter, WorkerMetrics};
use crate::name_server::NameServer;
use crate::policy::{self, GeoDatabase, Parts};
use crate::query::asked::{Entrance, Transport};
use crate::query::cookie::CookieSecrets;
use crate::query::decision::STAGES;
use crate::query::miss::{Miss, StreamRoute, Way};
use crate::query::rehearsal::{self, At, Rehearsal};
use crate::query::scratch::Scratch;
use crate::query::{self, Client, Decision, Incoming, Obtained, Output, QueryContext, Seen, Stage};
use crate::snapshot::{Snapshot, Unconfigured};
use crate::zone_files::ZoneFiles;

/// TTL of learned delegations, in seconds.
const DELEGATION_SECS: u32 = 3_600;

/// Provenance of an RRset that came from the servers of its zone and was not validated.
const UNCHECKED: Provenance = Provenance {
    security: Security::Unchecked,
    unsupported: None,
    rank: Rank::AuthoritativeAnswer,
    asked_with_do: false,
    asked_with_cd: false,
};

/// Number of octets of the ring buffer for the query log.
const LOG_OCTETS: usize = 256 << 10;

/// A placeholder for the connection of a client, which no test uses.
const CONNECTION: StreamRoute = StreamRoute { worker: 0, slot: 0, generation: 0, request: 0 };

/// The clients that may get a resolved answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MeantFor {
    /// Every client.
    All,
    /// Only the client that sent the query, as with an ECS scope (RFC 7871 §7.3.1).
    ClientAlone,
}

/// A server with one worker that only its owner can query.
///
/// ```
/// use avocet_nameserver::InProcess;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let configuration = r#"
/// [[forward]]
/// zone = "."
/// upstreams = ["192.0.2.53"]
///
/// [[record]]
/// name = "printer.lan"
/// type = "A"
/// values = ["192.0.2.9"]
/// "#;
/// let mut server = InProcess::new(configuration, "127.0.0.1:4096".parse()?)?;
///
/// // A query for the address of `printer.lan.`, with RD.
/// let query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\
///     \x07printer\x03lan\x00\x00\x01\x00\x01";
/// let mut response = [0; 4_096];
/// let len = server.answer(query, &mut response).ok_or("an answer without the network")?;
/// assert!(response[..len].ends_with(&[192, 0, 2, 9]));
/// # Ok(())
/// # }
/// ```
pub struct InProcess {
    unconfigured: Unconfigured,
    shared: NameServer,
    state: Arc<Snapshot>,
    now: Moment,
    wall_secs: u64,
    peer: Peer,
    metrics: WorkerMetrics,
    scratch: Scratch,
    misses: Vec<Miss>,
    logged: Consumer,
    seen: Box<[Seen; BATCH]>,
}

/// The owner, type and TTL of records for the RRset cache.
#[derive(Clone, Copy, Debug)]
pub struct RecordKey<'a> {
    /// Owner in lower case and wire form.
    pub owner: &'a [u8],
    /// Type.
    pub rtype: u16,
    /// TTL in seconds.
    pub ttl_secs: u32,
}

fn delegation(owner: &[u8], rtype: Rtype) -> RecordKey<'_> {
    RecordKey { owner, rtype: rtype.0, ttl_secs: DELEGATION_SECS }
}

impl InProcess {
    /// Creates a server with the configuration in this text. `client` is the address that queries
    /// come from. The secrets are always the same.
    ///
    /// # Errors
    /// The configuration is invalid, with the message of `avocet check`.
    pub fn new(configuration: &str, client: SocketAddr) -> Result<Self, StateError> {
        let cookies = CookieSecrets { current: [5; 16], previous: None };
        let mut unconfigured = Unconfigured::new([3; 32], cookies);
        let config = read(configuration)?;
        unconfigured.zones = ZoneFiles::of(&config.zones).current();
        let parts = parts_of(&config, Parts::new([4; 32]))?;
        let snapshot = Snapshot::first(config, &unconfigured, parts)?;
        let shared = NameServer::new(snapshot, 0, [7; 32])?;
        let (producer, logged) = crate::query_log::ring(LOG_OCTETS);
        let scratch = Scratch::of(0);
        scratch.set_log(Some(producer));
        Ok(Self {
            state: shared.snapshot(),
            now: shared.clock.now(),
            wall_secs: clock::wall_secs(),
            peer: client.into(),
            metrics: WorkerMetrics::default(),
            scratch,
            misses: Vec::new(),
            logged,
            seen: Box::new([Seen::NOTHING; BATCH]),
            unconfigured,
            shared,
        })
    }

    /// Puts a configuration in force, as a reload does. A waiting query keeps waiting.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn reload(&mut self, configuration: &str) -> Result<(), StateError> {
        let config = read(configuration)?;
        let parts = parts_of(&config, self.state.parts.clone())?;
        let zones = ZoneFiles::of(&config.zones).current();
        if !zones.changed_to(&self.unconfigured.zones).is_empty() {
            self.unconfigured.zones = zones;
        }
        self.put_in_force(Arc::new(config), parts)
    }

    /// Puts a configuration in force like [`Self::reload`], but does not compile its lists: those
    /// of the configuration before stay compiled.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn reload_before_lists(&mut self, configuration: &str) -> Result<(), StateError> {
        self.put_in_force(Arc::new(read(configuration)?), self.state.parts.clone())
    }

    /// Replaces the pauses of filtering and the grants (names allowed for a while) in force.
    ///
    /// # Errors
    /// The clients have too many different profiles.
    pub fn switch(&mut self, switches: Switches) -> Result<(), StateError> {
        let parts = Parts { switches, ..self.state.parts.clone() };
        self.put_in_force(self.state.config.clone(), parts)
    }

    /// Puts another neighbour table in force.
    ///
    /// # Errors
    /// The clients have too many different profiles.
    pub fn meet(&mut self, neighbours: &[Neighbour]) -> Result<(), StateError> {
        let parts = Parts { neighbours: neighbours.into(), ..self.state.parts.clone() };
        self.put_in_force(self.state.config.clone(), parts)
    }

    /// Replaces the cookie secret.
    ///
    /// # Errors
    /// Never, because no part of the state is built.
    pub fn rotate_cookie_secret(&mut self, current: [u8; 16]) -> Result<(), StateError> {
        self.unconfigured.cookies =
            CookieSecrets { current, previous: Some(self.unconfigured.cookies.current) };
        self.put_in_force(self.state.config.clone(), self.state.parts.clone())
    }

    /// Returns the folded questions of the packet-cache entries that are still valid.
    pub fn kept(&self) -> Vec<Vec<u8>> {
        let mut kept = Vec::new();
        let holds = |stored: &StoredPacket<'_>| query::still_holds(&self.state, stored);
        let Ok(()) = self.shared.packets.try_visit(self.now.secs(), holds, |key, _, _| {
            kept.push(key.question.octets().to_vec());
            Ok::<(), Infallible>(())
        });
        kept
    }

    /// Removes the oldest entry of the query log. Returns `false` if the log is empty.
    pub fn take_logged(&mut self, record: &mut Record) -> bool {
        self.logged.pop(record)
    }

    /// Returns the parts that workers share.
    #[cfg(test)]
    pub(crate) fn shared(&self) -> &NameServer {
        &self.shared
    }

    /// Returns the state in force.
    pub fn state(&self) -> &Arc<Snapshot> {
        &self.state
    }

    fn put_in_force(&mut self, config: Arc<Config>, parts: Parts) -> Result<(), StateError> {
        let snapshot = self.state.replaced(config, &self.unconfigured, parts)?;
        self.shared.replace(snapshot);
        self.state = self.shared.snapshot();
        Ok(())
    }

    /// Sets the address that the following queries come from.
    pub fn ask_as(&mut self, client: SocketAddr) {
        self.peer = client.into();
    }

    /// Sets the wall clock, in Unix seconds.
    pub fn set_wall_clock(&mut self, unix_secs: u64) {
        self.wall_secs = unix_secs;
    }

    /// Advances all clocks by this number of seconds.
    pub fn pass(&mut self, secs: u32) {
        self.now = self.now.plus_secs(secs);
        self.wall_secs += u64::from(secs);
    }

    /// Stores an RRset in the RRset cache as if a server had given it in an answer: folded owner,
    /// type, TTL in seconds, record data.
    pub fn learn(&self, owner: &[u8], rtype: u16, ttl_secs: u32, records: &[&[u8]]) {
        self.learn_in(Class::IN.0, RecordKey { owner, rtype, ttl_secs }, records);
    }

    /// Stores an RRset like [`Self::learn`], but with its signatures and the result of validation.
    pub fn learn_judged(
        &self,
        security: Security,
        key: RecordKey<'_>,
        records: &[&[u8]],
        signatures: &[&[u8]],
    ) {
        let RecordKey { owner, rtype, ttl_secs } = key;
        let provenance = Provenance { security, asked_with_do: true, ..UNCHECKED };
        let set = ReceivedRrset { provenance, ttl: ttl_secs, records, signatures };
        let owner = FoldedNameBuf::from_wire(owner).expect("a name");
        let key = RrsetKey { owner: owner.view(), rtype, class: Class::IN.0 };
        self.shared.rrsets.insert(&key, &set, self.now.secs());
    }

    /// Stores in the RRset cache that a folded owner has no data of a type, as if a server had said
    /// so with the SOA record of the root.
    pub fn learn_no_data(&self, owner: &[u8], rtype: u16, ttl_secs: u32) {
        let names = [0; 2];
        let numbers = [1, 2, 3, 4, ttl_secs].map(u32::to_be_bytes).concat();
        let rdata = &[&names[..], &numbers].concat();
        let soa = NegativeRecord { owner: FoldedName::ROOT, rtype: Rtype::SOA.0, rdata };
        let kind = NegativeKind::Nodata;
        let negative = Negative { kind, provenance: UNCHECKED, soa, soa_ttl: ttl_secs, proof: &[] };
        let owner = FoldedNameBuf::from_wire(owner).expect("a name");
        let key = RrsetKey { owner: owner.view(), rtype, class: Class::IN.0 };
        self.shared.rrsets.insert_negative(&key, &negative, self.now.secs());
    }

    /// Returns the number of queries that each stage of the query path has ended, with the stage's
    /// name in metrics.
    pub fn ended_by_stage(&self) -> Vec<(&'static str, u64)> {
        STAGES.into_iter().zip(self.metrics.stages.iter().map(Counter::value)).collect()
    }

    /// Returns the number of questions that the last query would have sent to the network: its own
    /// question, or a prefetch.
    pub fn waiting(&self) -> usize {
        self.misses.len()
    }

    /// Stores a delegation in the RRset cache as if a parent server had given it: folded names of
    /// zone and name server, and the server's address.
    pub fn learn_delegation(&self, zone: &[u8], server: &[u8], address: [u8; 4]) {
        self.learn_in(DELEGATIONS, delegation(zone, Rtype::NS), &[server]);
        self.learn_in(DELEGATIONS, delegation(server, Rtype::A), &[&address]);
    }

    /// Removes a folded name from the RRset cache, and all responses from the packet cache, as a
    /// command does.
    pub fn flush(&self, name: &[u8], extent: FlushExtent) {
        let name = FoldedNameBuf::from_wire(name).expect("a name");
        self.shared.flush_rrsets(&[name.view()], extent);
        self.shared.packets.flush(FoldedName::ROOT);
    }

    /// Removes all data from the RRset cache, as eviction does.
    pub fn flush_records(&self) {
        self.shared.flush_rrsets(&[FoldedName::ROOT], FlushExtent::Tree);
    }

    fn learn_in(&self, class: u16, key: RecordKey<'_>, records: &[&[u8]]) {
        let RecordKey { owner, rtype, ttl_secs } = key;
        let set = ReceivedRrset { provenance: UNCHECKED, ttl: ttl_secs, records, signatures: &[] };
        let owner = FoldedNameBuf::from_wire(owner).expect("a name");
        let key = RrsetKey { owner: owner.view(), rtype, class };
        self.shared.rrsets.insert(&key, &set, self.now.secs());
    }

    /// Identifies the client at once. In the real server, a thread does that while the query is
    /// held.
    #[cold]
    fn identify(&self) {
        let (version, now_secs) = (self.state.strangers.version, self.now.secs());
        self.shared.identified.put(self.peer.ip(), version, now_secs);
    }

    /// Answers a datagram into `out`, which has 4 KiB. Returns `None` if the query gets no answer,
    /// or waits for the network.
    #[inline]
    pub fn answer(&mut self, query: &[u8], out: &mut [u8]) -> Option<usize> {
        if self.state.has_strangers {
            self.identify();
        }
        let Self { shared, state, now, wall_secs, peer, metrics, scratch, misses, seen, .. } = self;
        misses.clear();
        let cx = QueryContext { shared, state, now: *now, wall_secs: *wall_secs, scratch };
        let newer = Newer { known: shared.revision(), state: None };
        let mut datagrams = Datagrams {
            cx,
            newer,
            metrics,
            listener: 0,
            entrance: Entrance::default(),
            misses,
            seen,
            has_proxies: false,
        };
        datagrams.look(0, query, peer);
        datagrams.answer(0, Datagram { bytes: query, peer, truncated: false }, out)
    }

    /// Answers a query over TCP into `out`. Returns `None` as [`Self::answer`].
    pub fn answer_over_tcp(&mut self, query: &[u8], out: &mut [u8]) -> Option<usize> {
        if self.state.has_strangers {
            self.identify();
        }
        let Self { shared, state, now, wall_secs, peer, metrics, scratch, misses, .. } = self;
        misses.clear();
        let cx = QueryContext { shared, state, now: *now, wall_secs: *wall_secs, scratch };
        let client = Client {
            ip: peer.ip(),
            transport: Transport::Tcp,
            is_tls12: false,
            entrance: Entrance::default(),
            claims: DeviceClaims::NONE,
            route: Way::Stream(CONNECTION),
        };
        let incoming = Incoming { octets: query, seen: None };
        let step = query::answer(&cx, incoming, &client, Output { message: &mut *out, misses });
        let question = QueryView::parse(query).ok();
        let ended = || Ended {
            ip: &client.ip,
            device: DeviceId::NONE,
            entrance: client.entrance,
            question: question.as_ref().map_or(&[], |view| view.question()),
            octets: query.len() as u16,
            since: cx.now,
            rtt_ms: 0,
            trace: None,
        };
        sent(close(&cx, metrics, &step, ended, out))
    }

    /// Returns the decision about a query without sending it; `None` if the query would wait.
    pub fn rehearse(&self, question: Question<'_>, transport: Transport) -> Option<Decision> {
        let at = At::Now(self.wall_secs);
        let rehearsal = Rehearsal::new((&self.shared, &self.state), self.peer.ip(), at);
        match rehearsal.over(transport).begin(question) {
            rehearsal::Ended::Reply { decision, .. } | rehearsal::Ended::Silent(decision) => {
                Some(decision)
            }
            rehearsal::Ended::Wait(_) => None,
        }
    }

    /// Returns the folded question that the last query waits for, if it waits.
    pub fn waits_for(&self) -> Option<Question<'_>> {
        self.misses.iter().rfind(|miss| miss.waiter.is_some()).map(|miss| miss.question.view())
    }

    /// Answers the last waiting query into `out` with data of the RRset cache, which replaces the
    /// network. If the cached answer is incomplete, resolution fails. Returns `None` if the query
    /// gets no answer or waits for another question.
    pub fn resume(&mut self, meant_for: MeantFor, out: &mut [u8]) -> Option<usize> {
        let miss = self.misses.pop()?;
        self.resume_one(&miss, (meant_for, &mut query::Given::default()), out)
    }

    /// Takes the last query away if it waits, so that [`Self::resume_all`] can answer it together
    /// with others.
    pub fn take_waiting(&mut self) -> Option<Miss> {
        self.misses.pop().filter(|miss| miss.waiter.is_some())
    }

    /// Answers these queries as [`Self::resume`] does, as queries that waited for the same
    /// resolution. Returns the replies, which are empty for queries without an answer.
    pub fn resume_all(&mut self, waiting: &[Miss], meant_for: MeantFor) -> Vec<Vec<u8>> {
        let mut given = query::Given::default();
        let resume = |miss| {
            let mut out = vec![0; 4096];
            let len = self.resume_one(miss, (meant_for, &mut given), &mut out);
            out.truncate(len.unwrap_or_default());
            out
        };
        waiting.iter().map(resume).collect()
    }

    fn resume_one(
        &mut self,
        miss: &Miss,
        (meant_for, given): (MeantFor, &mut query::Given),
        out: &mut [u8],
    ) -> Option<usize> {
        let Self { shared, state, now, wall_secs, metrics, scratch, misses, .. } = self;
        let cx = QueryContext { shared, state, now: *now, wall_secs: *wall_secs, scratch };
        let mut answers = Answers::default();
        let wanted = Wanted {
            question: miss.question.view(),
            dnssec_ok: miss.dnssec_ok,
            checking_disabled: miss.checking_disabled,
            translates: false,
            at: ReadAt { now: now.secs(), stale_window: 0 },
        };
        let assembled =
            Assembler::default().assemble(&state.plan, &shared.rrsets, &wanted, &mut answers);
        let obtained = match assembled {
            Assembled::Complete { resolved, .. } => Obtained {
                rcode: resolved.rcode,
                message: &answers.octets[resolved.message],
                ttl_offsets: &answers.ttl_offsets[resolved.ttl_offsets],
                kept_for: NonZeroU32::new(resolved.ttl_secs)
                    .filter(|_| meant_for == MeantFor::All && state.policy.is_some()),
                ede: None,
                stage: Stage::Resolved,
                upstream: None,
            },
            _ => Obtained::failure(Stage::Failed, (Ede::NO_REACHABLE_AUTHORITY, "no answer")),
        };
        let output = Output { message: &mut *out, misses };
        let waiter = miss.waiter.as_ref()?;
        let step = query::resume(&cx, waiter, (Some(&obtained), given), output);
        sent(close(&cx, metrics, &step, || Ended::waiting(waiter, 0), out))
    }
}

fn sent(delivery: Delivery) -> Option<usize> {
    match delivery {
        Delivery::Message(len) => Some(len),
        Delivery::Nothing | Delivery::Later => None,
    }
}

fn read(configuration: &str) -> Result<Config, StateError> {
    Ok(Config::from_text(None, configuration, &BTreeMap::new())?)
}

/// Adds the lists and the geo database of a configuration to the inputs of a policy.
fn parts_of(config: &Config, parts: Parts) -> Result<Parts, StateError> {
    let lists = policy::load::from_files(&config.policy, [9; 32])?.map(Arc::new);
    let countries = GeoDatabase::of(&config.policy)?;
    Ok(Parts { lists, countries, ..parts })
}
