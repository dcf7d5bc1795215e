//! The way of a query without its sockets: what a worker does for each datagram, and nothing else.
//!
//! For benches, and for tests of what an answer costs. Time stands still in it, until its owner
//! lets it pass.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;

use avocet_cache::{Provenance, Rank, ReadAt, ReceivedRrset, RrsetKey, Security, StoredPacket};
use avocet_config::Config;
use avocet_io::Peer;
use avocet_io::udp::{BATCH, Datagram, Service};
use avocet_policy::client::Neighbour;
use avocet_policy::rule::Switches;
use avocet_resolver::{Answers, Assembled, Assembler, DELEGATIONS, LocalRootSlot, Wanted};
use avocet_wire::{Class, Ede, FoldedNameBuf, Question, Rtype};

use crate::StateError;
use crate::clock::{self, Moment};
use crate::datagrams::{Datagrams, Newer};
use crate::metrics::{Counter, WorkerMetrics};
use crate::name_server::NameServer;
use crate::policy::{self, GeoDatabase, Parts};
use crate::query::asked::{Entrance, Transport};
use crate::query::cookie::CookieSecrets;
use crate::query::decision::STAGES;
use crate::query::miss::{Miss, StreamRoute, Way};
use crate::query::scratch::Scratch;
use crate::query::{
    self, Client, Incoming, Obtained, Output, QueryContext, QueryStep, Seen, Stage,
};
use crate::snapshot::{Snapshot, Unconfigured};

/// TTL of delegations that are taught.
const DELEGATION_SECS: u32 = 3_600;

/// How an RRset came that nothing is known of but that its servers gave it.
const UNCHECKED: Provenance = Provenance {
    security: Security::Unchecked,
    unsupported: None,
    rank: Rank::AuthoritativeAnswer,
    asked_with_do: false,
    asked_with_cd: false,
};

/// A connection that no test looks at.
const CONNECTION: StreamRoute = StreamRoute { worker: 0, slot: 0, generation: 0 };

/// For whom the answer of a server is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MeantFor {
    /// Every client.
    All,
    /// The client that asked, as with an ECS scope (RFC 7871 §7.3.1).
    ClientAlone,
}

/// A server of one worker that nobody can reach but its owner.
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
    seen: Box<[Seen; BATCH]>,
}

/// Whose records are put into the RRset cache.
#[derive(Clone, Copy, Debug)]
pub struct RecordKey<'a> {
    /// The owner in wire form.
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
    /// A server with the configuration of this text, asked by `client`. Its secrets are always the
    /// same.
    ///
    /// # Errors
    /// What is wrong with the configuration, as `avocet check` tells it.
    pub fn new(configuration: &str, client: SocketAddr) -> Result<Self, StateError> {
        let unconfigured = Unconfigured {
            limiter: [3; 32],
            cookies: CookieSecrets { current: [5; 16], previous: None },
            trust: Arc::default(),
            local_root: LocalRootSlot::default(),
            own_networks: Arc::default(),
            reserved_ports: Arc::default(),
            drops: 0,
        };
        let config = read(configuration)?;
        let parts = parts_of(&config, Parts::new([4; 32]))?;
        let snapshot = Snapshot::first(config, &unconfigured, parts)?;
        let shared = NameServer::new(snapshot, 0, [7; 32])?;
        Ok(Self {
            state: shared.snapshot(),
            now: shared.clock.now(),
            wall_secs: clock::wall_secs(),
            peer: client.into(),
            metrics: WorkerMetrics::default(),
            scratch: Scratch::of(0),
            misses: Vec::new(),
            seen: Box::new([Seen::NOTHING; BATCH]),
            unconfigured,
            shared,
        })
    }

    /// Puts a configuration in force, as a reload does. A query that waits stays a query that
    /// waits.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn reload(&mut self, configuration: &str) -> Result<(), StateError> {
        let config = read(configuration)?;
        let parts = parts_of(&config, self.state.parts.clone())?;
        self.put_in_force(Arc::new(config), parts)
    }

    /// Puts these pauses and grants in force, in place of those before.
    ///
    /// # Errors
    /// There are too many kinds of clients.
    pub fn switch(&mut self, switches: Switches) -> Result<(), StateError> {
        let parts = Parts { switches, ..self.state.parts.clone() };
        self.put_in_force(self.state.config.clone(), parts)
    }

    /// Puts another table of neighbours in force.
    ///
    /// # Errors
    /// There are too many kinds of clients.
    pub fn meet(&mut self, neighbours: &[Neighbour]) -> Result<(), StateError> {
        let parts = Parts { neighbours: neighbours.into(), ..self.state.parts.clone() };
        self.put_in_force(self.state.config.clone(), parts)
    }

    /// Makes cookies with another secret.
    ///
    /// # Errors
    /// None: no part is built.
    pub fn rotate_cookie_secret(&mut self, current: [u8; 16]) -> Result<(), StateError> {
        self.unconfigured.cookies =
            CookieSecrets { current, previous: Some(self.unconfigured.cookies.current) };
        self.put_in_force(self.state.config.clone(), self.state.parts.clone())
    }

    /// Returns the folded questions of the answers in the packet cache that still hold.
    pub fn kept(&self) -> Vec<Vec<u8>> {
        let mut kept = Vec::new();
        let holds = |stored: &StoredPacket<'_>| query::still_holds(&self.state, stored);
        let Ok(()) = self.shared.packets.try_visit(self.now.secs(), holds, |key, _, _| {
            kept.push(key.question.octets().to_vec());
            Ok::<(), Infallible>(())
        });
        kept
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

    /// Asks as this client from now on.
    pub fn ask_as(&mut self, client: SocketAddr) {
        self.peer = client.into();
    }

    /// The wall clock shows these Unix seconds from now on.
    pub fn set_wall_clock(&mut self, unix_secs: u64) {
        self.wall_secs = unix_secs;
    }

    /// So many seconds pass, on all clocks.
    pub fn pass(&mut self, secs: u32) {
        self.now = self.now.plus_secs(secs);
        self.wall_secs += u64::from(secs);
    }

    /// Puts an RRset into the RRset cache, as if a server had given it in an answer: folded owner,
    /// type, TTL in seconds, record data.
    pub fn learn(&self, owner: &[u8], rtype: u16, ttl_secs: u32, records: &[&[u8]]) {
        self.learn_in(Class::IN.0, RecordKey { owner, rtype, ttl_secs }, records);
    }

    /// As [`Self::learn`], as a validator that asked for it judged it, with the signatures that
    /// came along.
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

    /// How many queries each stage of the way has ended so far, by its name in metrics.
    pub fn ended_by_stage(&self) -> Vec<(&'static str, u64)> {
        STAGES.into_iter().zip(self.metrics.stages.iter().map(Counter::value)).collect()
    }

    /// How many questions the last query would have sent to the network: its own, or one ahead of
    /// need.
    pub fn waiting(&self) -> usize {
        self.misses.len()
    }

    /// Puts the delegation of a zone into the RRset cache, as if a server above had told of it:
    /// folded names of zone and name server, and the server's address.
    pub fn learn_delegation(&self, zone: &[u8], server: &[u8], address: [u8; 4]) {
        self.learn_in(DELEGATIONS, delegation(zone, Rtype::NS), &[server]);
        self.learn_in(DELEGATIONS, delegation(server, Rtype::A), &[&address]);
    }

    fn learn_in(&self, class: u16, key: RecordKey<'_>, records: &[&[u8]]) {
        let RecordKey { owner, rtype, ttl_secs } = key;
        let set = ReceivedRrset { provenance: UNCHECKED, ttl: ttl_secs, records, signatures: &[] };
        let owner = FoldedNameBuf::from_wire(owner).expect("a name");
        let key = RrsetKey { owner: owner.view(), rtype, class };
        self.shared.rrsets.insert(&key, &set, self.now.secs());
    }

    /// Answers a datagram into `out`, of 4 KiB. None: it gets no answer, or none without the
    /// network.
    #[inline]
    pub fn answer(&mut self, query: &[u8], out: &mut [u8]) -> Option<usize> {
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
        };
        datagrams.look(0, query, peer);
        datagrams.answer(0, Datagram { bytes: query, peer, truncated: false }, out)
    }

    /// Answers a query that came over TCP into `out`. None: as with [`Self::answer`].
    pub fn answer_over_tcp(&mut self, query: &[u8], out: &mut [u8]) -> Option<usize> {
        let Self { shared, state, now, wall_secs, peer, scratch, misses, .. } = self;
        misses.clear();
        let cx = QueryContext { shared, state, now: *now, wall_secs: *wall_secs, scratch };
        let client = Client {
            ip: peer.ip(),
            transport: Transport::Tcp,
            entrance: Entrance::default(),
            route: Way::Stream(CONNECTION),
        };
        let incoming = Incoming { octets: query, seen: None };
        match query::answer(&cx, incoming, &client, Output { message: out, misses }) {
            QueryStep::Reply(outgoing) => Some(outgoing.len),
            QueryStep::Silent(_) | QueryStep::Resolve => None,
        }
    }

    /// The folded question that the last query wants the network to answer; none if it does not
    /// wait.
    pub fn waits_for(&self) -> Option<Question<'_>> {
        self.misses.iter().rfind(|miss| miss.waiter.is_some()).map(|miss| miss.question.view())
    }

    /// Answers the last query that waits into `out`, as if the network had given what the RRset
    /// cache has for its question, or had failed where that is not a whole answer. None: the query
    /// gets no answer, or waits for another question.
    pub fn resume(&mut self, meant_for: MeantFor, out: &mut [u8]) -> Option<usize> {
        let miss = self.misses.pop()?;
        let Self { shared, state, now, wall_secs, scratch, misses, .. } = self;
        let cx = QueryContext { shared, state, now: *now, wall_secs: *wall_secs, scratch };
        let mut answers = Answers::default();
        let wanted = Wanted {
            question: miss.question.view(),
            dnssec_ok: miss.dnssec_ok,
            checking_disabled: miss.checking_disabled,
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
        let output = Output { message: out, misses };
        match query::resume(&cx, miss.waiter.as_ref()?, Some(&obtained), output) {
            QueryStep::Reply(outgoing) => Some(outgoing.len),
            QueryStep::Silent(_) | QueryStep::Resolve => None,
        }
    }
}

fn read(configuration: &str) -> Result<Config, StateError> {
    Ok(Config::from_text(None, configuration, &BTreeMap::new())?)
}

/// The parts with the lists and countries of a configuration.
fn parts_of(config: &Config, parts: Parts) -> Result<Parts, StateError> {
    let lists = policy::load::from_files(&config.policy, [9; 32])?.map(Arc::new);
    let countries = GeoDatabase::of(&config.policy)?;
    Ok(Parts { lists, countries, ..parts })
}
