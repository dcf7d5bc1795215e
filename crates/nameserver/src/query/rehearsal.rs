//! A query without side effects, for `why` and `query +trace`.
//!
//! A rehearsal runs the same stages in the same order as a client's query, so that it has the same
//! result. It counts nothing, takes no token of a rate limit, and caches no final answer. It
//! queries no server: a question that needs the network ends as [`Ended::Wait`]. The caller
//! resolves it and [continues](Rehearsal::go_on) with the result.

use std::net::{IpAddr, SocketAddr};

use avocet_cache::{PacketHit, PacketLookup};
use avocet_io::Peer;
use avocet_policy::client::{DeviceClaims, DeviceId};
use avocet_wire::header::{HEADER_LEN, Header, RD};
use avocet_wire::{QueryView, Question};

use super::asked::{Asked, AskedEdns, Entrance, Transport, ZoneVersion};
use super::context::{Arrival, Client, Output, Query, QueryContext, key_flags, packet_hash};
use super::decision::{CacheState, Decision, QueryStep, Stage};
use super::finding::{Finding, Obtained, Offer};
use super::miss::{Miss, Waiter, Way};
use super::path::{self, Incoming};
use super::scratch::Scratch;
use super::witness::Witness;
use super::{judge, late, packet, rrsets};
use crate::name_server::NameServer;
use crate::snapshot::Snapshot;

/// Number of octets of a query with the longest name.
const LONGEST_QUERY: usize = HEADER_LEN + 255 + 4;
/// Maximum number of octets of an answer: the limit of TCP, so that nothing is truncated.
const LONGEST_ANSWER: usize = u16::MAX as usize;

/// The result of a rehearsal.
pub enum Ended {
    /// The client gets this message.
    Reply {
        /// The message.
        message: Vec<u8>,
        /// The reason.
        decision: Decision,
    },
    /// The client gets no answer.
    Silent(Decision),
    /// A question must first be resolved by the network.
    Wait(Box<Miss>),
}

/// The time for which a query is rehearsed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// The present time, in Unix seconds.
    Now(u64),
    /// Another time, in Unix seconds. Final answers in the cache are not used, because they are
    /// valid only at the present time.
    Then(u64),
}

impl At {
    /// Returns the time in Unix seconds.
    pub fn wall_secs(self) -> u64 {
        match self {
            Self::Now(secs) | Self::Then(secs) => secs,
        }
    }
}

/// A client with a query to rehearse.
pub struct Rehearsal<'s> {
    shared: &'s NameServer,
    state: &'s Snapshot,
    ip: IpAddr,
    device: DeviceId,
    entrance: Entrance,
    transport: Transport,
    at: At,
    scratch: Scratch,
}

impl<'s> Rehearsal<'s> {
    /// Creates a rehearsal for this client, which queries over UDP.
    pub fn new((shared, state): (&'s NameServer, &'s Snapshot), ip: IpAddr, at: At) -> Self {
        let entrance = Entrance::of_server(&state.config.server);
        let (transport, device) = (Transport::Udp, DeviceId::NONE);
        Self { shared, state, ip, device, entrance, transport, at, scratch: Scratch::for_looking() }
    }

    /// Moves the rehearsed query to another address of the server.
    #[must_use]
    pub fn at_entrance(self, entrance: Entrance) -> Self {
        Self { entrance, ..self }
    }

    /// Changes the transport of the rehearsed query.
    #[must_use]
    pub fn over(self, transport: Transport) -> Self {
        Self { transport, ..self }
    }

    /// Changes the device of the rehearsed query.
    #[must_use]
    pub fn from_device(self, device: DeviceId) -> Self {
        Self { device, ..self }
    }

    /// Runs all stages that need no network on a question of class IN.
    pub fn begin(&self, question: Question<'_>) -> Ended {
        let cx = self.context();
        if !cx.state.allow.admits(self.entrance, self.ip) {
            return self.refused(&cx, question);
        }
        self.with_query(question, |query, output| look(&cx, query, self.at, output))
    }

    /// Runs only the stages of this server's own names, as if there were no policy, no access list
    /// and no cache.
    pub fn begin_without_policy(&self, question: Question<'_>) -> Ended {
        let cx = self.context();
        self.with_query(question, |query, output| path::own_names(&cx, query, output))
    }

    /// Continues after [`Ended::Wait`] with the result for its question.
    pub fn go_on(&self, waiter: &Waiter, obtained: &Obtained<'_>) -> Ended {
        let mut given = late::Given::default();
        self.end(|output| {
            late::resume(&self.context(), waiter, (Some(obtained), &mut given), output)
        })
    }

    /// Returns the record of the policy's decisions.
    pub fn into_witness(self) -> Witness {
        self.scratch.into_witness()
    }

    fn context(&self) -> QueryContext<'_> {
        let Self { shared, state, scratch, at, .. } = self;
        QueryContext { shared, state, now: shared.clock.now(), wall_secs: at.wall_secs(), scratch }
    }

    /// Returns the result for a client that the access list does not allow.
    fn refused(&self, cx: &QueryContext<'_>, question: Question<'_>) -> Ended {
        let (octets, peer) = (query_octets(question), self.peer());
        let incoming = Incoming { octets: &octets, seen: None };
        self.end(|output| path::answer(cx, incoming, &self.client(&peer), output))
    }

    fn peer(&self) -> Peer {
        Peer::from(SocketAddr::from((self.ip, 0)))
    }

    fn client<'p>(&self, peer: &'p Peer) -> Client<'p> {
        let route = Way::Datagram { listener: 0, peer };
        let claims = DeviceClaims::of(self.device);
        let Self { ip, transport, entrance, .. } = *self;
        Client { ip, transport, is_tls12: false, entrance, claims, route }
    }

    fn with_query(
        &self,
        question: Question<'_>,
        take: impl FnOnce(&Query<'_>, Output<'_>) -> QueryStep,
    ) -> Ended {
        let cx = self.context();
        let (octets, peer) = (query_octets(question), self.peer());
        let Ok(view) = QueryView::parse(&octets) else {
            let revision = self.state.revision;
            return Ended::Silent(Decision::at(Stage::Malformed, self.transport, revision));
        };
        let (asked, key) = (asked(self.transport), view.key(&self.shared.key, 0));
        let profile = cx.profile_with((self.ip, self.device), self.entrance, self.transport);
        let flags = key_flags(&asked);
        let hash = packet_hash(key.hash, profile, flags);
        let arrival = Arrival::New { view: &view, client: &self.client(&peer) };
        let (asked, key, cache) = (&asked, &key, CacheState::Miss);
        let (qtype, note, lists_allow) = (view.qtype, 0, false);
        let query = Query {
            asked,
            key: key.into(),
            hash,
            qtype,
            profile,
            flags,
            note,
            lists_allow,
            cache,
            arrival,
        };
        self.end(|output| take(&query, output))
    }

    /// Runs `take`, a part of the query path, with a buffer for its reply. Returns the result.
    fn end(&self, take: impl FnOnce(Output<'_>) -> QueryStep) -> Ended {
        let (mut message, mut misses) = (vec![0; LONGEST_ANSWER], Vec::new());
        match take(Output { message: &mut message, misses: &mut misses }) {
            QueryStep::Reply(outgoing) => {
                message.truncate(outgoing.len);
                Ended::Reply { message, decision: outgoing.decision }
            }
            QueryStep::Silent(decision) => Ended::Silent(decision),
            QueryStep::Resolve => match misses.pop() {
                Some(miss) => Ended::Wait(Box::new(miss)),
                None => {
                    let revision = self.state.revision;
                    Ended::Silent(Decision::at(Stage::Malformed, self.transport, revision))
                }
            },
        }
    }
}

/// Runs the stages from the packet cache on.
///
/// The policy also evaluates a cached answer of other servers, because its verdict explains why the
/// answer was cached. An answer of this server or of its policy is made again, to find its reason.
fn look(cx: &QueryContext<'_>, query: &Query<'_>, at: At, output: Output<'_>) -> QueryStep {
    let Output { message: out, misses } = output;
    if let Some(hit) = hit(cx, query, at, out) {
        let offer = packet::offer(&hit, out);
        if offer.stage == Stage::PacketHit {
            witness_kept(cx, query, &out[..hit.len]);
            return path::reply(cx, query, &offer, out);
        }
    }
    match path::after_packets(cx, query, query.cache, Output { message: &mut *out, misses }) {
        QueryStep::Resolve => match kept_verdict(cx, query, at, out) {
            Some(offer) => path::reply(cx, query, &offer, out),
            None => QueryStep::Resolve,
        },
        step => step,
    }
}

/// Evaluates the policy on a cached answer, and adds the verdict to the record of the rehearsal.
fn witness_kept(cx: &QueryContext<'_>, query: &Query<'_>, message: &[u8]) {
    let mut spare = vec![0; LONGEST_ANSWER];
    match judge::question(cx, query, &mut spare) {
        Finding::Pass(_) | Finding::Forward { .. } => {
            judge::answer(cx, query, message, &mut spare);
        }
        _ => {}
    }
}

/// Returns the cached verdict on an answer. The answer itself is no longer cached, or only in the
/// form for validating clients. Adds the verdict and its basis to the record of the rehearsal.
fn kept_verdict(cx: &QueryContext<'_>, query: &Query<'_>, at: At, out: &mut [u8]) -> Option<Offer> {
    let hit = hit(cx, query, at, out)?;
    let offer = packet::offer(&hit, out);
    let policy = cx.state.policy.as_ref().filter(|_| offer.draft.note != 0)?;
    let known = rrsets::whatever_is_known(cx, query.key.question());
    cx.scratch.tell(|witness| {
        witness.of_policy(policy.said_by_note(offer.draft.note, offer.stage));
        known.iter().for_each(|message| witness.of_answer(message));
    });
    Some(offer)
}

/// Returns the fresh entry of the packet cache, if the query is for the present time.
fn hit(cx: &QueryContext<'_>, query: &Query<'_>, at: At, out: &mut [u8]) -> Option<PacketHit> {
    // This look-up may mark an entry as valid in the epoch in force, as the query of a client
    // would. No client notices this.
    let found = match packet::look_up(cx, query, out) {
        PacketLookup::Earlier => packet::look_up_earlier(cx, query, out),
        found => found,
    };
    match found {
        PacketLookup::Hit(hit) if matches!(at, At::Now(_)) => Some(hit),
        _ => None,
    }
}

/// Returns the properties of a client that wants recursion and accepts a complete explanation of
/// any length.
fn asked(transport: Transport) -> Asked {
    let edns = AskedEdns {
        dnssec_ok: false,
        nsid: false,
        keepalive: false,
        subnet: false,
        padding: false,
        cookie_valid: false,
        cookie: None,
        zone_version: ZoneVersion::NotAsked,
    };
    Asked { id: 0, flags: RD, wants_ad: true, limit: u16::MAX, transport, edns: Some(edns) }
}

fn query_octets(question: Question<'_>) -> Vec<u8> {
    let mut octets = Vec::with_capacity(LONGEST_QUERY);
    let mut head = [0; HEADER_LEN];
    Header { id: 0, flags: RD, counts: [1, 0, 0, 0] }.write(&mut head);
    octets.extend_from_slice(&head);
    octets.extend_from_slice(question.octets());
    octets
}
