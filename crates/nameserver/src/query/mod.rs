//! The way of a query: every stage in order, all branches here. A stage never calls another.
//!
//! ```text
//! read -> admit -> packet cache -> class and type -> local records -> special names
//!      -> RRset cache -> (waits for the network)
//! ```
//! Whatever can be answered without the network is answered here, with no lock, no allocation
//! and no waiting. What cannot becomes a [`Miss`]. The caller sends and counts, so no exit can
//! forget either.

pub mod addresses;
pub mod alias;
pub mod asked;
mod behind;
pub mod blocked;
pub mod chaos;
pub mod cookie;
pub mod decision;
pub mod late;
pub mod local;
pub mod miss;
pub mod octets;
pub mod own;
mod own_set;
pub mod question;
pub mod rate_limit;
pub mod rehearsal;
mod rejected;
pub mod respond;
pub mod scratch;
pub mod special;
pub mod stored;
mod ttl;
mod verdict;
pub mod witness;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use avocet_cache::{FailureKey, PacketKey, PacketLookup, PacketMeta, packet_flags};
use avocet_config::recurse::Mode;
use avocet_io::Peer;
use avocet_wire::edns::{EdnsOption, option};
use avocet_wire::header::{CD, HEADER_LEN, RD};
use avocet_wire::query::QuestionKey;
use avocet_wire::{Class, Ede, QueryView, Rcode, Rtype};

use crate::clock::Moment;
use crate::name_server::NameServer;
use crate::policy::{self, Validity};
use crate::snapshot::Snapshot;
use alias::Alias;
use asked::{Asked, Reader, Transport};
use behind::{Behind, behind_aliases, cut_at_change, question_behind};
use decision::Stage;
use local::Local;
use miss::{Miss, Waiter, Way};
use octets::Octets;
use question::LocalQuestion;
use rejected::{bad_option, malformed, refused};
use respond::{Draft, draft_empty, finish};
use scratch::{Ahead, Scratch};
use stored::FromRrsets;
use verdict::{Judgement, Purpose, Wanted, judge};

/// Profile of all clients where no policy tells them apart.
pub const PROFILE: u16 = 0;

/// Room in octets that an answer of 4096 octets takes in the packet cache at most, nearly: all TTL
/// offsets stand behind it. Longer ones fit into no datagram of ours.
const LONGEST_DATAGRAM: usize = 4096 + 1024;

/// Where in an OPT record the octet with DO is.
const OPT_FLAGS: usize = 7;

/// What a worker answers by, for the length of a batch.
pub struct Path<'w> {
    /// Caches, secrets.
    pub shared: &'w NameServer,
    /// The configuration in force.
    pub state: &'w Snapshot,
    /// When the batch came.
    pub now: Moment,
    /// The same on the wall clock, in seconds.
    pub wall_secs: u64,
    /// The worker's own memory.
    pub scratch: &'w Scratch,
}

impl Path<'_> {
    /// The time for the policy, and the epoch of what it keeps.
    fn moment(&self) -> (policy::Moment, u32) {
        (policy::Moment { wall_secs: self.wall_secs, millis: self.now.millis() }, self.state.epoch)
    }

    /// Puts a final answer and the offsets of its TTLs into the packet cache. The answer of a
    /// rehearsal is not kept: it may be that of another time.
    fn keep_packet(
        &self,
        (hash, key): (u64, &PacketKey<'_>),
        (message, ttl_offsets): (&[u8], &[u16]),
        meta: &PacketMeta,
    ) {
        if !self.scratch.is_looking() {
            self.shared.packets.insert(hash, key, message, ttl_offsets, meta);
        }
    }

    /// Counts why the policy gave an answer, if it did. A rate limit, and an alias to data that the
    /// policy did not make, was counted when it held.
    #[inline]
    fn count_note(&self, note: u16, stage: Stage) {
        if note != 0
            && matches!(stage, Stage::Blocked | Stage::Rewritten | Stage::Stale)
            && let Some(policy) = &self.state.policy
        {
            policy.count_note(self.scratch.worker(), note);
        }
    }
}

/// Who asks.
#[derive(Clone, Copy)]
pub struct Client<'c> {
    /// Address.
    pub ip: IpAddr,
    /// UDP or TCP.
    pub transport: Transport,
    /// The way back to him.
    pub route: Way<'c>,
}

/// How the query ended.
pub enum Exit {
    /// An answer of so many octets is in the buffer.
    Reply {
        /// Octets.
        len: usize,
        /// What to count.
        outcome: Outcome,
    },
    /// No answer.
    Silent(Stage),
    /// The network must be asked: the query is among the misses.
    Wait,
}

/// What is known of an answer when it is sent.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The stage that answered.
    pub stage: Stage,
    /// RCODE given.
    pub rcode: Rcode,
    /// QTYPE asked.
    pub qtype: Rtype,
    /// Tells equal answers, for the rate limit.
    pub kind: u64,
    /// The client's address is proven: no rate limit.
    pub verified: bool,
}

/// A query that was read and admitted.
struct Query<'q> {
    view: &'q QueryView<'q>,
    asked: &'q Asked,
    key: &'q QuestionKey,
    /// See [`packet_hash`].
    hash: u64,
    client: &'q Client<'q>,
    /// Of the client; see [`Policy::profile`](crate::policy::Policy::profile).
    profile: u16,
}

impl Query<'_> {
    fn packet_key(&self) -> PacketKey<'_> {
        PacketKey {
            profile: self.profile,
            flags: key_flags(self.asked),
            question: self.key.question(),
        }
    }

    fn wanted(&self, path: &Path<'_>) -> Wanted<'_> {
        let (ip, transport) = (self.client.ip, self.client.transport);
        Wanted {
            key: self.packet_key(),
            hash: self.hash,
            ip,
            transport,
            purpose: Purpose::Itself,
            epoch: path.state.epoch,
        }
    }

    fn local(&self) -> LocalQuestion<'_> {
        LocalQuestion { qname: self.key.qname(), qtype: self.view.qtype, turn: self.asked.id }
    }
}

/// The client's profile in the policy in force.
#[inline]
fn profile(path: &Path<'_>, ip: IpAddr, transport: Transport) -> u16 {
    path.state.policy.as_ref().map_or(PROFILE, |policy| policy.profile(ip, transport))
}

/// The bits of a query that make its answer another one.
fn key_flags(asked: &Asked) -> u8 {
    flags_of(asked.flags, if asked.dnssec_ok() { packet_flags::DO } else { 0 })
}

/// The flag for the DO bit is given, those for bits of the header are added.
fn flags_of(header_flags: u16, of_edns: u8) -> u8 {
    let bit = |set: bool, flag: u8| if set { flag } else { 0 };
    of_edns
        | bit(header_flags & CD != 0, packet_flags::CD)
        | bit(header_flags & RD != 0, packet_flags::RD)
}

/// The same of a query of which only the question was read, for a hint: OPT mostly stands right
/// behind it.
#[inline]
fn likely_flags(octets: &[u8], question: &[u8]) -> u8 {
    let &[_, _, high, low, ..] = octets else { return 0 };
    let dnssec_ok =
        octets.get(HEADER_LEN + question.len() + OPT_FLAGS).is_some_and(|flags| flags & 0x80 != 0);
    flags_of(u16::from_be_bytes([high, low]), if dnssec_ok { packet_flags::DO } else { 0 })
}

/// The hash under which an answer lies in the packet cache: that of the question, with the rest of
/// the key in the bits that only tell entries of one place apart. So its place is known before
/// anything but the question was read.
#[inline]
pub fn packet_hash(question_hash: u64, profile: u16, flags: u8) -> u64 {
    let rest = (u64::from(profile) << 8 | u64::from(flags)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    question_hash ^ (rest >> 50 << 32)
}

/// What was seen of a datagram ahead of its turn.
#[derive(Clone, Copy)]
pub struct Seen {
    /// Of its question; empty if there is none that is plain.
    key: QuestionKey,
    /// The client's profile.
    profile: u16,
    /// The flags of the answer's key, unless OPT stands elsewhere than behind the question.
    flags: u8,
}

impl Seen {
    /// Of no datagram.
    pub const NOTHING: Self = Self { key: QuestionKey::EMPTY, profile: PROFILE, flags: 0 };

    /// Looks at a datagram of this client, and asks for the memory that its answer is looked for
    /// in.
    #[inline]
    pub fn look(&mut self, path: &Path<'_>, octets: &[u8], peer: &Peer) {
        match QueryView::question_of(octets) {
            Some(question) => {
                self.key.read(question, &path.shared.key, 0);
                path.shared.packets.prefetch_index(self.key.hash);
                let policy = path.state.policy.as_ref();
                self.profile =
                    policy.map_or(PROFILE, |policy| policy.profile(peer.ip(), Transport::Udp));
                self.flags = likely_flags(octets, question);
            }
            None => self.key.clear(),
        }
    }

    /// The second look, a few questions ahead: at the entry, or if there is none at what comes
    /// next.
    #[inline]
    pub fn look_again(&self, shared: &NameServer) {
        let Self { key, profile, flags } = self;
        if !key.is_empty()
            && !shared.packets.prefetch_entry(packet_hash(key.hash, *profile, *flags))
        {
            shared.rrsets.prefetch(key.qname());
        }
    }
}

/// Answers a query into `out`, or says why it gets no answer. What must wait for the network, or is
/// to be asked again ahead of need, goes to `misses`. `seen` is what was seen of it ahead, if
/// anybody looked.
#[inline]
pub fn answer(
    path: &Path<'_>,
    (octets, seen): (&[u8], Option<&Seen>),
    client: &Client<'_>,
    (out, misses): (&mut [u8], &mut Vec<Miss>),
) -> Exit {
    let seen = seen.filter(|seen| !seen.key.is_empty());
    let view = match seen
        .map_or_else(|| QueryView::parse(octets), |seen| QueryView::parse_keyed(octets, &seen.key))
    {
        Ok(view) => view,
        Err(error) => return malformed(path, octets, (error, client), out),
    };
    if !path.state.allow.contains(client.ip) {
        return refused(path, &view, (octets, client), out);
    }
    let asked = match Asked::read(&view, &reader(path, client)) {
        Ok(asked) => asked,
        Err(asked::BadOption) => return bad_option(path, &view, client, out),
    };
    let own_key;
    let (key, profile) = match seen {
        Some(seen) => (&seen.key, seen.profile),
        None => {
            own_key = view.key(&path.shared.key, 0);
            (&own_key, profile(path, client.ip, client.transport))
        }
    };
    let hash = packet_hash(key.hash, profile, key_flags(&asked));
    let query = Query { view: &view, asked: &asked, key, hash, client, profile };
    if view.edns.is_some_and(|edns| edns.version != 0) {
        return bad_version(path, &query, out);
    }
    if asked.edns.is_some_and(|edns| edns.subnet) && path.state.plan.passes_ecs(key.qname()) {
        // The answer is for this client's network: no cache of ours knows it.
        return unanswered(path, &query, FromCache::Never, (out, misses));
    }
    let found = path.shared.packets.lookup(
        hash,
        &query.packet_key(),
        path.now.secs(),
        path.state.epoch,
        out,
    );
    match found {
        PacketLookup::Hit(hit) => {
            if hit.prefetch
                && stored::is_resolved(hit.flags)
                && path.state.config.cache.prefetch
                && asked.flags & RD != 0
                && let Some(exit) = ahead_of_need(path, &query, hit.remaining_secs, (out, misses))
            {
                return exit;
            }
            let draft = stored::draft(hit.len, (hit.ede, hit.flags), out);
            reply(path, &query, (draft, stored::stage_of_kept(hit.flags)), out)
        }
        PacketLookup::Stale(_) => unanswered(path, &query, FromCache::Stale, (out, misses)),
        PacketLookup::Longer { needed }
            if client.transport == Transport::Udp && needed > LONGEST_DATAGRAM =>
        {
            // What is there of it is cut to nothing but TC.
            let draft = stored::truncated(view.question(), out);
            reply(path, &query, (draft, Stage::PacketHit), out)
        }
        PacketLookup::Longer { .. } | PacketLookup::Miss => {
            unanswered(path, &query, FromCache::Nothing, (out, misses))
        }
    }
}

/// Sees to it that a popular answer which will soon be too old, and lies in `out`, is there anew
/// before: the first time it is asked for, and later the answer is made of what came.
#[cold]
fn ahead_of_need(
    path: &Path<'_>,
    query: &Query<'_>,
    remaining_secs: u32,
    (out, misses): (&mut [u8], &mut Vec<Miss>),
) -> Option<Exit> {
    match path.scratch.ahead(query.hash, path.now.secs(), remaining_secs) {
        Ahead::Ask => {
            misses.push(prefetch_miss(query));
            None
        }
        Ahead::Wait => None,
        Ahead::Take => {
            let mut renewed = vec![0; out.len()];
            let FromRrsets::Fresh(draft) =
                stored::from_rrsets(path, &query.wanted(path), &mut renewed)
            else {
                return None;
            };
            out[..draft.len].copy_from_slice(&renewed[..draft.len]);
            Some(reply(path, query, (draft, stored::stage(&draft)), out))
        }
    }
}

/// What the packet cache had.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FromCache {
    /// Nothing of use.
    Nothing,
    /// An expired answer.
    Stale,
    /// It was not asked, and the RRset cache is not to be either.
    Never,
}

/// The stages after the packet cache.
fn unanswered(
    path: &Path<'_>,
    query: &Query<'_>,
    from_cache: FromCache,
    (out, misses): (&mut [u8], &mut Vec<Miss>),
) -> Exit {
    let view = query.view;
    if let Some(exit) = of_class_and_type(path, query, out) {
        return exit;
    }
    let mut stale = from_cache == FromCache::Stale;
    let judged = judge(path, query, out);
    let mut validity = Validity::ALWAYS;
    let mut aliases = match judged {
        Judgement::End(exit) => return exit,
        Judgement::Rename(aliases) => aliases,
        Judgement::Forward(servers) => {
            return forwarded(path, query, (servers, stale), (out, misses));
        }
        Judgement::Pass(until) => {
            validity = until;
            match path.state.local.answer(&query.local(), out) {
                Local::Answer(draft) => {
                    stored::keep_local(path, query, &mut out[..draft.len], validity);
                    return reply(path, query, (draft, Stage::Local), out);
                }
                Local::Outside(aliases) => cut_at_change(aliases, validity),
                Local::Absent => Vec::new(),
            }
        }
    };
    // A resolver that recurses and leaves nothing out may ask for all that there is.
    let config = &path.state.config;
    let passes_any = config.resolver.mode == Mode::Recurse && !config.server.minimal_responses;
    if view.qtype == Rtype::ANY && !passes_any {
        let draft = stored::minimal_any(query.key.question(), out);
        return reply(path, query, (draft, Stage::Local), out);
    }
    if aliases.is_empty() {
        if let Some(draft) = special(path, &query.local(), out) {
            ttl::cut_at_change(&mut out[..draft.len], validity);
            return reply(path, query, (draft, Stage::Special), out);
        }
        if from_cache != FromCache::Never {
            match stored::from_rrsets(path, &query.wanted(path), out) {
                FromRrsets::Fresh(draft) => {
                    return reply(path, query, (draft, stored::stage(&draft)), out);
                }
                FromRrsets::Stale(_) => stale = true,
                FromRrsets::Incomplete => {}
                FromRrsets::Renamed(renamed) => aliases = renamed,
                FromRrsets::Dropped => return Exit::Silent(Stage::Dropped),
            }
        }
    }
    if !aliases.is_empty() {
        aliases = match behind_aliases(path, &query.wanted(path), aliases, out) {
            Behind::Known(draft, stage) => return reply(path, query, (draft, stage), out),
            Behind::Unknown(aliases) => aliases,
        };
    }
    if query.asked.flags & RD == 0 {
        return not_recursive(path, query, out);
    }
    misses.push(Miss { stale_available: stale, ..miss(path, query, aliases) });
    Exit::Wait
}

/// The end of what is no question for data of the Internet.
fn of_class_and_type(path: &Path<'_>, query: &Query<'_>, out: &mut [u8]) -> Option<Exit> {
    let view = query.view;
    let (rcode, ede) = match (view.qclass, view.qtype) {
        (Class::CH, _) => {
            let draft = path.state.chaos.answer(&query.local(), view.question(), out);
            return Some(reply(path, query, (draft, Stage::Chaos), out));
        }
        (Class::IN, qtype) => never_answered(qtype)?,
        (Class::NONE, _) => (Rcode::FORMERR, None),
        _ => (Rcode::REFUSED, Some((Ede::NOT_SUPPORTED, "only class IN is supported"))),
    };
    Some(error(path, query, Refusal { rcode, stage: Stage::Malformed, ede }, out))
}

/// A query that a rule puts to servers of its own: they are asked, whatever the caches and this
/// network know.
fn forwarded(
    path: &Path<'_>,
    query: &Query<'_>,
    (servers, stale_available): (Arc<[SocketAddr]>, bool),
    (out, misses): (&mut [u8], &mut Vec<Miss>),
) -> Exit {
    if query.asked.flags & RD == 0 {
        return not_recursive(path, query, out);
    }
    let mut miss = Miss { stale_available, ..miss(path, query, Vec::new()) };
    if let Some(waiter) = &mut miss.waiter {
        waiter.servers = Some(servers);
    }
    misses.push(miss);
    Exit::Wait
}

/// What is not in the caches, and is not to be asked for.
fn not_recursive(path: &Path<'_>, query: &Query<'_>, out: &mut [u8]) -> Exit {
    let question = query.key.question();
    let failure_key = FailureKey { question, checking_disabled: query.asked.flags & CD != 0 };
    if path.shared.failures.lookup(&failure_key, path.now.secs()).is_some() {
        let ede = Some((Ede::CACHED_ERROR, "resolution failed recently"));
        return error(
            path,
            query,
            Refusal { rcode: Rcode::SERVFAIL, stage: Stage::FailureHit, ede },
            out,
        );
    }
    let ede = Some((Ede::NOT_AUTHORITATIVE, "not cached, and recursion was not requested"));
    error(path, query, Refusal { rcode: Rcode::REFUSED, stage: Stage::NotRecursive, ede }, out)
}

/// QTYPEs that are no data: transfers and the meta types (RFC 6895 §3.1, RFC 8906).
fn never_answered(qtype: Rtype) -> Option<(Rcode, Option<(Ede, &'static str)>)> {
    let unsupported = |text| Some((Ede::NOT_SUPPORTED, text));
    match qtype {
        Rtype::OPT | Rtype(0) => Some((Rcode::FORMERR, None)),
        Rtype::AXFR | Rtype::IXFR => {
            Some((Rcode::REFUSED, unsupported("zone transfers are not supported")))
        }
        Rtype::MAILA | Rtype::MAILB | Rtype::TKEY | Rtype::TSIG => {
            Some((Rcode::NOTIMP, unsupported("this type is not supported")))
        }
        _ => None,
    }
}

fn reader<'p>(path: &'p Path<'_>, client: &Client<'_>) -> Reader<'p> {
    Reader {
        ip: client.ip,
        transport: client.transport,
        max_udp_size: path.state.config.server.max_udp_size,
        cookies: path.state.cookies.as_ref(),
        wall_secs: path.wall_secs,
    }
}

/// The one exit with an answer.
#[inline]
fn reply(
    path: &Path<'_>,
    query: &Query<'_>,
    (draft, stage): (Draft, Stage),
    out: &mut [u8],
) -> Exit {
    path.count_note(draft.note, stage);
    let len = finish(out, draft, query.asked, query.view.question(), &path.state.identity);
    let outcome = Outcome {
        stage,
        rcode: draft.rcode,
        qtype: query.view.qtype,
        kind: kind(draft.rcode, query.hash),
        verified: query.asked.is_verified(),
    };
    Exit::Reply { len, outcome }
}

/// Equal answers: the same data, or any denial or error of one sort.
pub fn kind(rcode: Rcode, hash: u64) -> u64 {
    if rcode == Rcode::NOERROR { hash } else { u64::from(rcode.0) }
}

/// Why a query gets no data.
struct Refusal {
    rcode: Rcode,
    stage: Stage,
    ede: Option<(Ede, &'static str)>,
}

fn error(path: &Path<'_>, query: &Query<'_>, failure: Refusal, out: &mut [u8]) -> Exit {
    let Refusal { rcode, stage, ede } = failure;
    let draft = Draft { ede, ..draft_empty(out, Some(query.view.question()), rcode) };
    reply(path, query, (draft, stage), out)
}

fn bad_version(path: &Path<'_>, query: &Query<'_>, out: &mut [u8]) -> Exit {
    error(path, query, Refusal { rcode: Rcode::BADVERS, stage: Stage::Malformed, ede: None }, out)
}

fn plain_outcome(stage: Stage, rcode: Rcode, qtype: Rtype) -> Outcome {
    Outcome { stage, rcode, qtype, kind: u64::from(rcode.0), verified: false }
}

/// Answers a name of a local zone or a special name, unless it has servers of its own.
fn special(path: &Path<'_>, question: &LocalQuestion<'_>, out: &mut [u8]) -> Option<Draft> {
    let zone = path.state.special.find(question)?;
    if zone.gives_way(path.state.plan.own_rule_len(zone.side())) {
        None
    } else {
        zone.answer(|name| path.state.local.has_below(name), out)
    }
}

/// The query as what waits for the network. A local chain asks for its last target instead.
fn miss(path: &Path<'_>, query: &Query<'_>, aliases: Vec<Alias>) -> Miss {
    let (question, hash) = match aliases.last() {
        None => (Octets::new(query.key.question()), query.key.hash),
        Some(last) => question_behind(path, query.key.question(), last),
    };
    Miss {
        // Of no profile: all who ask wait for the same resolution.
        hash: packet_hash(hash, PROFILE, key_flags(query.asked)),
        dnssec_ok: query.asked.dnssec_ok(),
        checking_disabled: query.asked.flags & CD != 0,
        subnet: subnet(path, query.view, &question),
        stale_available: false,
        waiter: Some(Waiter {
            asked: *query.asked,
            question: Octets::new(query.view.question()),
            hash: query.hash,
            epoch: path.state.epoch,
            ip: query.client.ip,
            route: query.client.route.kept(),
            since: path.now,
            is_resumed: false,
            servers: None,
            aliases,
        }),
        question,
    }
}

/// The client's ECS option, if the rule of the name passes it on.
fn subnet(path: &Path<'_>, view: &QueryView<'_>, question: &[u8]) -> Option<Box<[u8]>> {
    let edns = view.edns.filter(|edns| edns.has_options())?;
    let mut options = edns.raw_options().filter_map(Result::ok);
    let (_, data) = options.find(|(code, _)| *code == option::ECS)?;
    EdnsOption::read(option::ECS, data).ok()?;
    let qname = &question[..question.len() - 4];
    path.state.plan.passes_ecs(qname).then(|| data.into())
}

#[cold]
fn prefetch_miss(query: &Query<'_>) -> Miss {
    Miss {
        question: Octets::new(query.key.question()),
        hash: packet_hash(query.key.hash, PROFILE, key_flags(query.asked)),
        dnssec_ok: query.asked.dnssec_ok(),
        checking_disabled: query.asked.flags & CD != 0,
        subnet: None,
        stale_available: false,
        waiter: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_a_key_are_seen_before_the_query_is_read() {
        let question = b"\x03www\x07example\x00\x00\x01\x00\x01";
        for (high, low, dnssec_ok, expected) in [
            (1, 0, None, packet_flags::RD),
            (0, 0x10, Some(false), packet_flags::CD),
            (1, 0x10, Some(true), packet_flags::RD | packet_flags::CD | packet_flags::DO),
        ] {
            let mut octets =
                vec![0, 7, high, low, 0, 1, 0, 0, 0, 0, 0, u8::from(dnssec_ok.is_some())];
            octets.extend_from_slice(question);
            if let Some(dnssec_ok) = dnssec_ok {
                octets.extend_from_slice(&[
                    0,
                    0,
                    41,
                    4,
                    208,
                    0,
                    0,
                    u8::from(dnssec_ok) << 7,
                    0,
                    0,
                    0,
                ]);
            }
            assert_eq!(likely_flags(&octets, question), expected, "{octets:?}");
            let view = QueryView::parse(&octets).unwrap();
            let reader = Reader {
                ip: [127, 0, 0, 1].into(),
                transport: Transport::Udp,
                max_udp_size: 1232,
                cookies: None,
                wall_secs: 0,
            };
            assert_eq!(key_flags(&Asked::read(&view, &reader).unwrap()), expected, "{octets:?}");
        }
    }
}
