//! A query that has to wait: all that its answer will need, owned.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use avocet_cache::FailureKey;
use avocet_io::Peer;
use avocet_wire::Rtype;

use super::alias::Alias;
use super::asked::{Asked, Entrance};
use super::decision::{CacheState, Decision, Stage};
use super::octets::Octets;
use super::question::WaitingQuestion;
use crate::clock::Moment;

/// A stream of a worker: its slot and how often the slot was used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamRoute {
    /// The worker that holds the connection.
    pub worker: u16,
    /// Its slot there.
    pub slot: u32,
    /// Tells whether the slot was given to another connection meanwhile.
    pub generation: u32,
}

/// The way back to a client.
#[derive(Clone, Copy, Debug)]
pub enum ReplyRoute {
    /// From the listener of this number, which every worker has a socket of.
    Datagram {
        /// Number of the listener.
        listener: u16,
        /// Client, and the address that he asked.
        peer: Peer,
    },
    /// Over a stream.
    Stream(StreamRoute),
}

/// The same while the query is looked at: most are answered at once, and nothing is copied for
/// them.
#[derive(Clone, Copy)]
pub enum Way<'c> {
    /// As [`ReplyRoute::Datagram`].
    Datagram {
        /// Number of the listener.
        listener: u16,
        /// Client, and the address that he asked.
        peer: &'c Peer,
    },
    /// Over a stream.
    Stream(StreamRoute),
}

impl Way<'_> {
    /// To be kept while the client waits.
    pub fn kept(self) -> ReplyRoute {
        match self {
            Self::Datagram { listener, peer } => ReplyRoute::Datagram { listener, peer: *peer },
            Self::Stream(route) => ReplyRoute::Stream(route),
        }
    }
}

/// A client that waits for an answer.
#[derive(Clone, Debug)]
pub struct Waiter {
    /// What the query said.
    pub asked: Asked,
    /// The question as sent.
    pub question: Octets,
    /// The epoch of the snapshot by which the question was let through.
    pub epoch: u32,
    /// The rule or list that let it through or changed it; see
    /// [`Decision::note`](super::decision::Decision::note).
    pub note: u16,
    /// The client's address.
    pub ip: IpAddr,
    /// The address at which the query arrived.
    pub entrance: Entrance,
    /// The way back.
    pub route: ReplyRoute,
    /// When the query came.
    pub since: Moment,
    /// A fault ended its resolution once, and it was taken up again.
    pub is_resumed: bool,
    /// Who is to be asked, where a rule says so.
    pub servers: Option<Arc<[SocketAddr]>>,
    /// CNAMEs of this network or of its policy that led to the name which is resolved.
    pub aliases: Vec<Alias>,
}

impl Waiter {
    /// The client's address, if it asked by a datagram.
    pub fn datagram_ip(&self) -> Option<IpAddr> {
        match &self.route {
            ReplyRoute::Datagram { peer, .. } => Some(peer.ip()),
            ReplyRoute::Stream(_) => None,
        }
    }

    /// Returns QTYPE.
    pub fn qtype(&self) -> Rtype {
        let fixed: [u8; 4] = self.question.last_chunk().copied().unwrap_or_default();
        Rtype(u16::from_be_bytes([fixed[0], fixed[1]]))
    }

    /// The decision to turn the query away and send nothing.
    pub fn turned_away(&self, revision: u32) -> Decision {
        let decision = Decision::at(Stage::Shed, self.asked.transport, revision);
        Decision { note: self.note, qtype: self.qtype(), cache: CacheState::Miss, ..decision }
    }

    /// The client's address, if it may be forged.
    pub fn unverified_ip(&self) -> Option<IpAddr> {
        self.datagram_ip().filter(|_| !self.asked.is_verified())
    }
}

/// A question to be resolved, and the client that waits; none for a prefetch.
#[derive(Debug)]
pub struct Miss {
    /// The question to resolve.
    pub question: WaitingQuestion,
    /// Keyed hash of the question, as of the packet cache for [`PROFILE`](super::context::PROFILE).
    pub hash: u64,
    /// DO.
    pub dnssec_ok: bool,
    /// CD.
    pub checking_disabled: bool,
    /// Data of the client's ECS option, where the rule passes it on.
    pub subnet: Option<Box<[u8]>>,
    /// Expired data is at hand, should resolving take long.
    pub stale_available: bool,
    /// The client.
    pub waiter: Option<Waiter>,
}

impl Miss {
    /// By which the cache of failures knows it.
    pub fn failure_key(&self) -> FailureKey<'_> {
        FailureKey { question: self.question.view(), checking_disabled: self.checking_disabled }
    }
}
