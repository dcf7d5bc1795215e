//! A query that waits for resolution, with owned copies of all data for its answer.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use avocet_cache::FailureKey;
use avocet_io::Peer;
use avocet_policy::client::DeviceId;
use avocet_wire::Rtype;

use super::alias::Alias;
use super::asked::{Asked, Entrance};
use super::decision::{CacheState, Decision, Stage};
use super::octets::Octets;
use super::question::WaitingQuestion;
use crate::clock::Moment;

/// A client's connection to a worker: its slot, and the use count of the slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamRoute {
    /// The worker that holds the connection.
    pub worker: u16,
    /// The slot of the connection in that worker.
    pub slot: u32,
    /// The use count, which distinguishes connections that had the same slot.
    pub generation: u32,
    /// The identifier of the request on the connection; 0 if the transport frames messages by a
    /// length prefix.
    pub request: u32,
}

/// The way in which the reply reaches the client.
#[derive(Clone, Copy, Debug)]
pub enum ReplyRoute {
    /// The reply is sent by the listener with this index; every worker has a socket for each
    /// listener.
    Datagram {
        /// Index of the listener.
        listener: u16,
        /// The peer: the client, and the local address that it queried.
        peer: Peer,
    },
    /// The query came over a stream.
    Stream(StreamRoute),
}

impl ReplyRoute {
    /// Returns the borrowed form of this route.
    pub fn way(&self) -> Way<'_> {
        match self {
            Self::Datagram { listener, peer } => Way::Datagram { listener: *listener, peer },
            Self::Stream(route) => Way::Stream(*route),
        }
    }
}

/// The borrowed form of [`ReplyRoute`]. Most queries do not wait for other servers, so that nothing
/// is copied for them.
#[derive(Clone, Copy)]
pub enum Way<'c> {
    /// The query came over UDP; see [`ReplyRoute::Datagram`].
    Datagram {
        /// Index of the listener.
        listener: u16,
        /// The peer: the client, and the local address that it queried.
        peer: &'c Peer,
    },
    /// The query came over a stream.
    Stream(StreamRoute),
}

impl Way<'_> {
    /// Returns an owned copy of the route, for a client that waits.
    pub fn kept(self) -> ReplyRoute {
        match self {
            Self::Datagram { listener, peer } => ReplyRoute::Datagram { listener, peer: *peer },
            Self::Stream(route) => ReplyRoute::Stream(route),
        }
    }
}

/// An answer without IPv6 addresses, from servers to which a rule forwards.
#[derive(Clone, Debug)]
pub struct WithoutV6 {
    /// The message in the form of the packet cache.
    pub message: Box<[u8]>,
    /// Maximum TTL of the addresses that are made, in seconds.
    pub ttl_secs: u32,
}

/// A client that waits for an answer.
#[derive(Clone, Debug)]
pub struct Waiter {
    /// Header and EDNS data of the query.
    pub asked: Asked,
    /// The question as sent.
    pub question: Octets,
    /// Keyed hash of the question. `None` if QNAME has an upper-case letter, so that the question
    /// must be folded first, and for an update, which is not looked up.
    pub folded_hash: Option<u64>,
    /// Number of octets of the query.
    pub octets: u16,
    /// The epoch of the snapshot that allowed the question.
    pub epoch: u32,
    /// The rule or list that allowed or changed the question; see
    /// [`Decision::note`](super::decision::Decision::note).
    pub note: u16,
    /// The profile for which lists have looked up the question and allowed it. `None` if they did
    /// not look it up, for example because a rule or a pause decided.
    pub allowed_for: Option<u16>,
    /// The client's address.
    pub ip: IpAddr,
    /// The device of the client, if it is known.
    pub device: DeviceId,
    /// The address at which the query arrived.
    pub entrance: Entrance,
    /// The route of the reply.
    pub route: ReplyRoute,
    /// The time of the query's arrival.
    pub since: Moment,
    /// Whether the resolution was restarted after a panic. It is restarted only once.
    pub is_resumed: bool,
    /// The servers of a rule that forwards the question.
    pub servers: Option<Arc<[SocketAddr]>>,
    /// The answer without IPv6 addresses, if the query now waits for IPv4 addresses, from which
    /// DNS64 makes IPv6 addresses.
    pub without_v6: Option<Box<WithoutV6>>,
    /// CNAMEs of this server or of its policy that led to the name being resolved.
    pub aliases: Vec<Alias>,
}

impl Waiter {
    /// Returns the client's address if it queried over UDP.
    pub fn datagram_ip(&self) -> Option<IpAddr> {
        match &self.route {
            // The peer of the socket may be a proxy, so the address of the client is stored
            // separately.
            ReplyRoute::Datagram { .. } => Some(self.ip),
            ReplyRoute::Stream(_) => None,
        }
    }

    /// Returns QTYPE.
    pub fn qtype(&self) -> Rtype {
        let fixed: [u8; 4] = self.question.last_chunk().copied().unwrap_or_default();
        Rtype(u16::from_be_bytes([fixed[0], fixed[1]]))
    }

    /// Returns the decision to end the query without a reply, because it was rejected.
    pub fn turned_away(&self, revision: u32) -> Decision {
        self.ended(Stage::Shed, revision)
    }

    /// Returns the decision about a query that caused a panic.
    pub fn failed(&self, revision: u32) -> Decision {
        self.ended(Stage::Failed, revision)
    }

    fn ended(&self, stage: Stage, revision: u32) -> Decision {
        Decision {
            note: self.note,
            qtype: self.qtype(),
            cache: CacheState::Miss,
            ..Decision::at(stage, self.asked.transport, revision)
        }
    }

    /// Returns the client's address if it may be spoofed.
    pub fn unverified_ip(&self) -> Option<IpAddr> {
        self.datagram_ip().filter(|_| !self.asked.is_verified())
    }
}

/// A question to resolve, and the client that waits for the answer. A prefetch has no client.
#[derive(Debug)]
pub struct Miss {
    /// The question to resolve.
    pub question: WaitingQuestion,
    /// Keyed hash of the question. It equals the hash in the packet cache for the profile
    /// [`PROFILE`](super::context::PROFILE).
    pub hash: u64,
    /// Whether the DO bit is set.
    pub dnssec_ok: bool,
    /// Whether the CD bit is set.
    pub checking_disabled: bool,
    /// Data of the client's ECS option, if the rule passes it on.
    pub subnet: Option<Box<[u8]>>,
    /// Whether the caches have expired data for an answer, in case resolution is slow.
    pub stale_available: bool,
    /// The client that waits; `None` for a prefetch. It has hundreds of octets and is moved several
    /// times, so only a pointer to it is moved.
    pub waiter: Option<Box<Waiter>>,
}

impl Miss {
    /// Returns the key in the failure cache.
    pub fn failure_key(&self) -> FailureKey<'_> {
        FailureKey { question: self.question.view(), checking_disabled: self.checking_disabled }
    }
}
