//! The context of a query: the state in force, the client, and the query as the stages see it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use avocet_cache::{PacketKey, packet_flags};
use avocet_policy::client::{DeviceClaims, DeviceId};
use avocet_wire::edns::{EdnsOption, option};
use avocet_wire::header::{CD, RD};
use avocet_wire::query::QuestionKey;
use avocet_wire::{FoldedName, QueryView, Question, QuestionBuf, Rtype};

use super::alias::Alias;
use super::asked::{Asked, AskedEdns, Entrance, Transport};
use super::decision::{CacheState, Decision, Stage};
use super::miss::{Miss, Waiter, Way, WithoutV6};
use super::octets::Octets;
use super::question::{LocalQuestion, WaitingQuestion};
use super::scratch::Scratch;
use crate::clock::Moment;
use crate::name_server::NameServer;
use crate::policy;
use crate::snapshot::Snapshot;

/// The profile of all clients if there is no policy.
pub const PROFILE: u16 = 0;

/// The state and memory of a worker while it answers a batch.
pub struct QueryContext<'w> {
    /// The caches and secrets.
    pub shared: &'w NameServer,
    /// The configuration in force.
    pub state: &'w Snapshot,
    /// The arrival time of the batch.
    pub now: Moment,
    /// The arrival time of the batch on the wall clock, in Unix seconds.
    pub wall_secs: u64,
    /// The worker's own memory.
    pub scratch: &'w Scratch,
}

impl QueryContext<'_> {
    /// Returns the time and the generation of the policy, as the policy's functions take them.
    pub(super) fn moment(&self) -> (policy::Moment, u32) {
        let moment = policy::Moment { wall_secs: self.wall_secs, millis: self.now.millis() };
        (moment, self.state.generations.policy)
    }

    /// Returns the client's profile in the policy in force. The function is inlined, because a call
    /// for each query would cost more than its other work if there is no policy.
    #[inline(always)]
    pub(super) fn profile(&self, ip: IpAddr, entrance: Entrance, transport: Transport) -> u16 {
        match &self.state.policy {
            Some(policy) => policy.profile(ip, entrance, transport),
            None => PROFILE,
        }
    }

    /// Returns whether a client must be identified before the policy evaluates its queries.
    pub fn is_stranger(&self, ip: IpAddr) -> bool {
        let strangers = &self.state.strangers;
        !self.shared.identified.holds(ip, strangers, self.now.secs()) && strangers.include(ip)
    }

    /// Returns the profile of a client with a known device.
    #[inline]
    pub(super) fn profile_with(
        &self,
        (ip, device): (IpAddr, DeviceId),
        entrance: Entrance,
        transport: Transport,
    ) -> u16 {
        match &self.state.policy {
            Some(policy) if !device.is_none() => {
                policy.profile_with((ip, device), entrance, transport)
            }
            _ => self.profile(ip, entrance, transport),
        }
    }

    /// Returns the device that a client claims to be, if the policy in force knows it.
    #[inline]
    pub fn device_of(&self, client: &Client<'_>) -> DeviceId {
        match &self.state.policy {
            Some(policy) if !client.claims.is_empty() => policy.device(&client.claims),
            _ => DeviceId::NONE,
        }
    }

    /// Counts an answer of the policy for the rule or list that caused it.
    #[inline]
    pub fn count_note(&self, decision: &Decision) {
        if decision.note != 0
            && decision.is_of_policy()
            && let Some(policy) = &self.state.policy
        {
            policy.count_note(self.scratch.worker(), decision.note);
        }
    }
}

/// The client of a query.
#[derive(Clone, Copy)]
pub struct Client<'c> {
    /// The address of the client.
    pub ip: IpAddr,
    /// The transport over which the query arrived.
    pub transport: Transport,
    /// Whether the connection has TLS 1.2, which is too old for transfers (RFC 9103 §7.2).
    pub is_tls12: bool,
    /// The address at which the query arrived.
    pub entrance: Entrance,
    /// The identities that the device of the client sends and proves.
    pub claims: DeviceClaims<'c>,
    /// Where the reply goes.
    pub route: Way<'c>,
}

/// The outputs of the query path.
pub struct Output<'o> {
    /// The buffer for the reply.
    pub message: &'o mut [u8],
    /// Receives the questions to be resolved: the question of a query that waits, or of a popular
    /// name that soon expires.
    pub misses: &'o mut Vec<Miss>,
}

/// An admitted query: one that has just arrived, or one that has waited.
#[derive(Clone, Copy)]
pub(super) struct Query<'q> {
    /// The header and EDNS data of the admitted query.
    pub(super) asked: &'q Asked,
    /// The question of the admitted query.
    pub(super) key: HashedQuestion<'q>,
    /// The hash of the question; see [`packet_hash`].
    pub(super) hash: u64,
    /// QTYPE.
    pub(super) qtype: Rtype,
    /// The profile of the client; see [`Policy::profile`](crate::policy::Policy::profile).
    pub(super) profile: u16,
    /// The flags on which the answer depends; see [`key_flags`].
    pub(super) flags: u8,
    /// The rule or list that allows the question; see [`Decision::note`].
    pub(super) note: u16,
    /// Whether lists have looked up the question, now or before the query waited, and allowed it.
    pub(super) lists_allow: bool,
    /// The result of the search in the packet cache.
    pub(super) cache: CacheState,
    /// The origin of the admitted query.
    pub(super) arrival: Arrival<'q>,
}

/// A folded question, and its keyed hash.
#[derive(Clone, Copy)]
pub(super) struct HashedQuestion<'q> {
    question: Question<'q>,
    /// The hash, as in [`QuestionKey::hash`].
    pub(super) hash: u64,
}

impl<'q> HashedQuestion<'q> {
    /// Returns the question of a waiting client whose letters are all in lower case; `None` if they
    /// are not, so that the question must be folded.
    #[inline]
    pub(super) fn of_waiting(waiter: &'q Waiter) -> Option<Self> {
        let hash = waiter.folded_hash?;
        Some(Self { question: Question::from_folded_unchecked(&waiter.question), hash })
    }

    /// Returns the question.
    #[inline]
    pub(super) fn question(&self) -> Question<'q> {
        self.question
    }

    /// Returns QNAME.
    #[inline]
    pub(super) fn qname(&self) -> FoldedName<'q> {
        self.question.qname()
    }
}

impl<'q> From<&'q QuestionKey> for HashedQuestion<'q> {
    #[inline]
    fn from(key: &'q QuestionKey) -> Self {
        Self { question: key.question(), hash: key.hash }
    }
}

/// The origin of a query.
#[derive(Clone, Copy)]
pub(super) enum Arrival<'q> {
    /// A client's message that was just received.
    New {
        /// The message.
        view: &'q QueryView<'q>,
        /// The client.
        client: &'q Client<'q>,
    },
    /// A query that has waited.
    Waiting(&'q Waiter),
}

impl<'q> Query<'q> {
    /// Creates the query of a waiting client. The client's profile comes from the policy now in
    /// force, because the earlier profile number may have another meaning.
    pub(super) fn waiting(
        cx: &QueryContext<'_>,
        waiter: &'q Waiter,
        key: HashedQuestion<'q>,
    ) -> Self {
        let asked = &waiter.asked;
        let who = (waiter.ip, waiter.device);
        let profile = cx.profile_with(who, waiter.entrance, asked.transport);
        let flags = key_flags(asked);
        Self {
            asked,
            key,
            hash: packet_hash(key.hash, profile, flags),
            qtype: waiter.qtype(),
            profile,
            flags,
            note: waiter.note,
            lists_allow: waiter.allowed_for == Some(profile),
            cache: CacheState::Miss,
            arrival: Arrival::Waiting(waiter),
        }
    }

    /// Returns the question as the client sent it.
    #[inline]
    pub(super) fn question(&self) -> &'q [u8] {
        match self.arrival {
            Arrival::New { view, .. } => view.question(),
            Arrival::Waiting(waiter) => &waiter.question,
        }
    }

    /// Returns the QTYPE.
    #[inline]
    pub(super) fn qtype(&self) -> Rtype {
        self.qtype
    }

    /// Returns the client's address.
    pub(super) fn ip(&self) -> IpAddr {
        match self.arrival {
            Arrival::New { client, .. } => client.ip,
            Arrival::Waiting(waiter) => waiter.ip,
        }
    }

    /// Returns the aliases that led to the resolved name.
    pub(super) fn aliases(&self) -> &'q [Alias] {
        match self.arrival {
            Arrival::New { .. } => &[],
            Arrival::Waiting(waiter) => &waiter.aliases,
        }
    }

    /// Returns whether a rule forwards the question to its own servers. Answers of other servers
    /// then cannot be used.
    pub(super) fn is_forwarded(&self) -> bool {
        matches!(self.arrival, Arrival::Waiting(waiter) if waiter.servers.is_some())
    }

    /// Returns whether the query waited for these servers of a rule; with `None`, for those of the
    /// plan.
    pub(super) fn is_forwarded_to(&self, servers: Option<&[SocketAddr]>) -> bool {
        match self.arrival {
            Arrival::New { .. } => servers.is_none(),
            Arrival::Waiting(waiter) => waiter.servers.as_deref() == servers,
        }
    }

    /// Returns whether the query has waited since the policy decided on its question.
    pub(super) fn has_waited(&self) -> bool {
        matches!(self.arrival, Arrival::Waiting(_))
    }

    /// Returns whether an answer may be cached, because the policy and records that allowed the
    /// question are still in force.
    pub(super) fn is_current(&self, cx: &QueryContext<'_>) -> bool {
        match self.arrival {
            Arrival::New { .. } => true,
            Arrival::Waiting(waiter) => waiter.epoch == cx.state.epoch,
        }
    }

    /// Returns whether lists have allowed the question, in the policy in force and for this
    /// profile. They would allow it again.
    pub(super) fn is_allowed_by_lists(&self, cx: &QueryContext<'_>) -> bool {
        self.lists_allow
            && match self.arrival {
                Arrival::New { .. } => true,
                Arrival::Waiting(waiter) => cx.state.generations.policy <= waiter.epoch,
            }
    }

    /// Returns the key in the packet cache.
    #[inline]
    pub(super) fn packet_key(&self) -> PacketKey<'q> {
        PacketKey { profile: self.profile, flags: self.flags, question: self.key.question() }
    }

    /// Returns the address at which the query arrived.
    pub(super) fn entrance(&self) -> Entrance {
        match self.arrival {
            Arrival::New { client, .. } => client.entrance,
            Arrival::Waiting(waiter) => waiter.entrance,
        }
    }

    /// Returns the question in the form for this server's own names.
    pub(super) fn local(&self) -> LocalQuestion<'q> {
        LocalQuestion { qname: self.key.qname(), qtype: self.qtype(), turn: self.asked.id }
    }

    /// Returns the question in the form for the policy.
    #[inline]
    pub(super) fn for_policy(&self) -> policy::Asked<'q> {
        policy::Asked {
            profile: self.profile,
            ip: self.ip(),
            // The profile already represents the properties of the device.
            device: DeviceId::NONE,
            transport: self.asked.transport,
            qname: self.key.qname(),
            qtype: self.qtype(),
        }
    }

    /// Returns the decision of a stage that sends nothing.
    pub(super) fn silent(&self, cx: &QueryContext<'_>, stage: Stage, note: u16) -> Decision {
        Decision {
            profile: self.profile,
            note: if note == 0 { self.note } else { note },
            qtype: self.qtype(),
            cache: self.cache,
            ..Decision::at(stage, self.asked.transport, cx.state.revision)
        }
    }

    /// Returns the question to be resolved, with the client. The question is for the QNAME, or for
    /// the last target of the aliases.
    pub(super) fn miss(&self, cx: &QueryContext<'_>, next: Next) -> Miss {
        let (question, hash) = match next.aliases.last() {
            None => (self.key.question().into(), self.key.hash),
            Some(last) => question_behind(cx, self.key.question(), last),
        };
        let Next { aliases, servers, note } = next;
        let (subnet, waiter) = match self.arrival {
            Arrival::New { view, client } => {
                let is_folded = view.question() == self.key.question().octets();
                // `Box::new` would first make the value on the stack, and copy it by a call.
                let waiter = Box::write(
                    Box::new_uninit(),
                    Waiter {
                        asked: *self.asked,
                        question: Octets::new(view.question()),
                        folded_hash: is_folded.then_some(self.key.hash),
                        octets: view.octets().len() as u16,
                        epoch: cx.state.epoch,
                        note,
                        allowed_for: self.lists_allow.then_some(self.profile),
                        ip: client.ip,
                        device: cx.device_of(client),
                        entrance: client.entrance,
                        route: client.route.kept(),
                        since: cx.now,
                        is_resumed: false,
                        servers,
                        without_v6: None,
                        aliases,
                    },
                );
                (subnet(cx, view, question.view()), waiter)
            }
            Arrival::Waiting(waiter) => {
                let waiter = waiter.clone();
                (None, Waiter { aliases, servers, note, without_v6: None, ..waiter }.into())
            }
        };
        let stale_available = self.cache == CacheState::Stale;
        let behind;
        let asked = match &waiter.aliases[..] {
            [] => self.asked,
            aliases => {
                behind = asked_behind(self.asked, aliases);
                &behind
            }
        };
        let miss = miss_of(asked, question, hash);
        Miss { subnet, stale_available, waiter: Some(waiter), ..miss }
    }

    /// Returns the question for the IPv4 addresses of the QNAME, which takes the place of the
    /// client's question. The servers that the query waited for resolve it.
    #[cold]
    pub(super) fn miss_for_v4(&self, v4: &QuestionKey, without_v6: WithoutV6) -> Option<Miss> {
        let Arrival::Waiting(waiter) = self.arrival else { return None };
        let waiter = Waiter { without_v6: Some(without_v6.into()), ..waiter.clone() };
        let miss = miss_of(self.asked, v4.question().into(), v4.hash);
        Some(Miss { waiter: Some(waiter.into()), ..miss })
    }

    /// Returns the question of the query for a prefetch, without a client.
    #[cold]
    pub(super) fn prefetch(&self) -> Miss {
        miss_of(self.asked, self.key.question().into(), self.key.hash)
    }
}

/// Returns a question to be resolved, without a client.
fn miss_of(asked: &Asked, question: WaitingQuestion, hash: u64) -> Miss {
    Miss {
        question,
        // All clients wait for the same resolution, so their profiles make no difference.
        hash: packet_hash(hash, PROFILE, key_flags(asked)),
        dnssec_ok: asked.dnssec_ok(),
        checking_disabled: asked.flags & CD != 0,
        subnet: None,
        stale_available: false,
        waiter: None,
    }
}

/// The resolution that a query waits for.
#[derive(Default)]
pub(super) struct Next {
    /// The aliases. The name to resolve is their last target; without aliases, it is the QNAME.
    pub(super) aliases: Vec<Alias>,
    /// The servers of the rule that forwards the question; `None` if the plan determines the
    /// servers.
    pub(super) servers: Option<Arc<[SocketAddr]>>,
    /// The rule or list that caused this resolution; see [`Decision::note`].
    pub(super) note: u16,
}

/// Returns the question for the target of an alias, and its hash.
pub(super) fn question_behind(
    cx: &QueryContext<'_>,
    question: Question<'_>,
    alias: &Alias,
) -> (WaitingQuestion, u64) {
    let target = alias.target.folded();
    let behind = QuestionBuf::new(target.view(), question.qtype(), question.qclass());
    (behind.view().into(), cx.shared.key.hash(behind.view().octets(), 0))
}

/// Returns the properties of the question for the last target of aliases. Behind an ALIAS record,
/// CD and DO are cleared: the addresses must be validated, and the zone of the ALIAS record signs
/// them.
pub(super) fn asked_behind(asked: &Asked, aliases: &[Alias]) -> Asked {
    if !aliases.iter().any(Alias::is_flattened) {
        return *asked;
    }
    let edns = asked.edns.map(|edns| AskedEdns { dnssec_ok: false, ..edns });
    Asked { flags: asked.flags & !CD, edns, ..*asked }
}

/// Returns the client's ECS option if the forwarding rule passes it on; otherwise `None`.
fn subnet(
    cx: &QueryContext<'_>,
    view: &QueryView<'_>,
    question: Question<'_>,
) -> Option<Box<[u8]>> {
    let edns = view.edns.filter(|edns| edns.has_options())?;
    let mut options = edns.raw_options().filter_map(Result::ok);
    let (_, data) = options.find(|(code, _)| *code == option::ECS)?;
    EdnsOption::read(option::ECS, data).ok()?;
    cx.state.plan.passes_ecs(question.qname()).then(|| data.into())
}

/// Returns the flags of a query on which its answer depends.
pub(super) fn key_flags(asked: &Asked) -> u8 {
    flags_of(asked.flags, if asked.dnssec_ok() { packet_flags::DO } else { 0 })
}

/// Combines `of_edns`, which has the flag for DO, with the flags for CD and RD from the header.
pub(super) fn flags_of(header_flags: u16, of_edns: u8) -> u8 {
    let bit = |set: bool, flag: u8| if set { flag } else { 0 };
    of_edns
        | bit(header_flags & CD != 0, packet_flags::CD)
        | bit(header_flags & RD != 0, packet_flags::RD)
}

/// Returns the hash of an answer in the packet cache: the hash of the question, combined with
/// profile and flags. These change only the bits that distinguish the entries of one bucket. Thus,
/// the question alone determines the bucket.
#[inline]
pub fn packet_hash(question_hash: u64, profile: u16, flags: u8) -> u64 {
    let rest = (u64::from(profile) << 8 | u64::from(flags)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    question_hash ^ (rest >> 50 << 32)
}
