//! The packet cache: final answers by question, profile and flags.
//!
//! An entry carries the epoch of the snapshot that made it. A look-up compares this epoch with the
//! epoch in force. An entry of an earlier epoch is examined: if nothing that it depends on has
//! changed since ([`still_holds`]), it moves to the epoch in force and is a hit from then on.

use std::num::NonZeroU32;

use avocet_cache::{PacketHit, PacketKey, PacketLookup, PacketMeta, StoredPacket, packet_flags};
use avocet_resolver::AskedFor;
use avocet_wire::header::{HEADER_LEN, Header, TC};
use avocet_wire::view::RecordSection;
use avocet_wire::{Ede, MessageView, NameBuf, Question, Rcode, Rtype};

use super::asked::Transport;
use super::blocked;
use super::context::{PROFILE, Query, QueryContext};
use super::decision::{CacheState, Stage};
use super::finding::{Basis, Lifetime, Obtained, Offer};
use super::respond::{Draft, truncated};
use super::ttl::{Terms, until_change};
use crate::snapshot::Snapshot;

/// Flag of an entry: the policy made the answer, and the note of the entry has the extended error.
const NOTED: u8 = packet_flags::STALE_OK << 1;
/// Flag of an entry: the answer came from servers that a rule chose.
const BY_RULE: u8 = NOTED << 1;
/// Flag of a [`NOTED`] entry: the policy rewrote the answer instead of blocking it.
const REWRITTEN: u8 = BY_RULE << 1;
/// Flag of an entry: local records produced the answer.
const LOCAL: u8 = REWRITTEN << 1;
/// Flag of an entry: the answer does not depend on answers of other servers.
const OF_QUESTION: u8 = LOCAL << 1;

/// Maximum number of seconds for which a local answer is cached, if its records do not change.
const LOCAL_SECS: NonZeroU32 = NonZeroU32::new(86_400).unwrap();

/// Maximum number of octets of an entry for an answer of 4096 octets, the longest UDP answer of
/// this server, with an estimate for the TTL offsets after it.
const LONGEST_DATAGRAM: usize = 4096 + 1024;

/// Looks up the query's question in the packet cache. Copies the answer to `out`.
#[inline]
pub(super) fn look_up(cx: &QueryContext<'_>, query: &Query<'_>, out: &mut [u8]) -> PacketLookup {
    let (key, now_secs) = (query.packet_key(), cx.now.secs());
    cx.shared.packets.lookup(query.hash, &key, now_secs, cx.state.epoch, out)
}

/// Looks up an entry of an earlier epoch, and moves it to the epoch in force if it is still valid.
#[cold]
pub(super) fn look_up_earlier(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    out: &mut [u8],
) -> PacketLookup {
    let (key, epoch) = (query.packet_key(), cx.state.epoch);
    let holds = |stored: &StoredPacket<'_>| still_holds(cx.state, stored);
    match cx.shared.packets.renew(query.hash, &key, epoch, out, holds) {
        true => look_up(cx, query, out),
        false => PacketLookup::Miss,
    }
}

/// Returns whether an entry is still valid: no part of the snapshot that it depends on has changed
/// since it was stored. The documentation of the module `snapshot` shows these parts.
pub fn still_holds(state: &Snapshot, stored: &StoredPacket<'_>) -> bool {
    let generations = &state.generations;
    // Lists are not looked up for names that a rule forwards.
    let by_rule = stored.flags & BY_RULE != 0;
    holds_under(state, stored, if by_rule { generations.rules } else { generations.policy })
}

/// Returns whether an entry is still valid under a policy whose last change was `policy`.
fn holds_under(state: &Snapshot, stored: &StoredPacket<'_>, policy: u32) -> bool {
    let (generations, epoch) = (&state.generations, stored.epoch);
    if epoch == state.epoch {
        return true;
    }
    let of_question = stored.flags & OF_QUESTION != 0;
    // An entry of a later snapshot is not used, because its profile may have another meaning.
    epoch < state.epoch
        && policy <= epoch
        && (of_question || generations.plan <= epoch)
        && (generations.names <= epoch || is_apart_from_names(state, stored).unwrap_or(false))
}

/// Returns whether the entry is unaffected by changes of the server's own names since it was
/// stored. Returns `None` if the message does not show all names that it depends on.
fn is_apart_from_names(state: &Snapshot, stored: &StoredPacket<'_>) -> Option<bool> {
    let StoredPacket { epoch, flags, response } = *stored;
    let of_policy_on_answer = flags & NOTED != 0 && flags & OF_QUESTION == 0;
    // An error does not show the aliases that led to it. A block that replaces an answer does not
    // show the aliases of the answer.
    if of_policy_on_answer || Header::read(response)?.flags & 0xf == Rcode::SERVFAIL.low() {
        return None;
    }
    let changes = &state.names.changes;
    let view = MessageView::new(response).ok()?;
    let qname = NameBuf::read(response, HEADER_LEN).ok()?;
    let mut is_apart = !changes.affect(qname.folded().view(), epoch);
    for record in view.records().ok()? {
        let record = record.ok()?;
        let name = match (record.rtype, record.section) {
            (Rtype::CNAME, _) => NameBuf::read(response, record.ttl_offset() + 6).ok()?,
            // The policy may withhold an answer for the services of this network.
            (Rtype::SVCB | Rtype::HTTPS, RecordSection::Answer) => {
                NameBuf::read(response, record.ttl_offset() + 6 + 2).ok()?
            }
            // Addresses in the additional section may come from another server.
            (_, RecordSection::Additional) => record.owner().ok()?,
            _ => continue,
        };
        is_apart &= !changes.affect(name.folded().view(), epoch);
    }
    Some(is_apart)
}

/// Returns the entry in the buffer as an [`Offer`], the answer of a stage. An answer of the policy
/// or of this server keeps the stage that made it.
#[inline]
pub(super) fn offer(hit: &PacketHit, out: &[u8]) -> Offer {
    let (len, rcode) = (hit.len, Rcode(u16::from(out[3] & 0xf)));
    let ede = hit.ede.map(|code| (Ede(code), ""));
    let draft = match hit.flags & NOTED {
        0 => Draft { len, rcode, ede, note: 0 },
        _ => Draft { len, rcode, ede: None, note: hit.note },
    };
    let stage = match hit.flags & (NOTED | LOCAL | REWRITTEN) {
        0 => Stage::PacketHit,
        NOTED => Stage::Blocked,
        LOCAL => Stage::Local,
        _ => Stage::Rewritten,
    };
    let (cache, lifetime) = (CacheState::Hit, Lifetime::Unkept);
    let (note, basis, is_of_profile) = (hit.note, Basis::Question, false);
    Offer { draft, note, stage, cache, upstream: None, lifetime, basis, is_of_profile }
}

/// Returns whether an entry is popular and expires soon, and may be prefetched because its data is
/// the same for all clients.
#[inline]
pub(super) fn is_expiring(cx: &QueryContext<'_>, hit: &PacketHit) -> bool {
    hit.prefetch && hit.flags & (NOTED | BY_RULE | LOCAL) == 0 && cx.state.config.cache.prefetch
}

/// Returns whether the query arrived over UDP and an entry of this length exceeds all UDP messages
/// of this server.
pub(super) fn is_too_long(query: &Query<'_>, needed: usize) -> bool {
    query.asked.transport == Transport::Udp && needed > LONGEST_DATAGRAM
}

/// Offers an empty answer with TC instead of an entry that is too long.
#[cold]
pub(super) fn too_long(query: &Query<'_>, out: &mut [u8]) -> Offer {
    let offer = Offer::made(Stage::PacketHit, truncated(query.question(), out));
    Offer { cache: CacheState::Hit, ..offer }
}

/// Looks up an expired answer. Returns the length of the answer in the buffer. Data from the
/// servers of a rule answers only queries that the rule forwards to these servers.
pub(super) fn look_up_expired(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    out: &mut [u8],
) -> Option<usize> {
    let found = match look_up(cx, query, out) {
        PacketLookup::Earlier => look_up_earlier(cx, query, out),
        found => found,
    };
    match found {
        PacketLookup::Stale(stale) if (stale.flags & BY_RULE != 0) == query.is_forwarded() => {
            Some(stale.len)
        }
        _ if query.is_forwarded() => None,
        _ => look_up_of_earlier_policy(cx, query, out),
    }
}

/// Looks up an answer of other servers that an earlier policy let pass, fresh or expired. The
/// policy in force must evaluate it. Returns the length of the answer in the buffer.
#[cold]
pub(super) fn look_up_of_earlier_policy(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    out: &mut [u8],
) -> Option<usize> {
    let (key, now_secs) = (query.packet_key(), cx.now.secs());
    let holds = |stored: &StoredPacket<'_>| {
        let is_of_policy = stored.flags & (NOTED | BY_RULE | LOCAL | OF_QUESTION) != 0;
        !is_of_policy && stored.epoch != cx.state.epoch && holds_under(cx.state, stored, 0)
    };
    let stale = cx.shared.packets.lookup_stale(query.hash, &key, now_secs, out, holds)?;
    Some(stale.len)
}

/// Stores an answer of other servers, within the terms that the policy sets.
pub(super) fn keep(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    obtained: &Obtained<'_>,
    terms: Terms,
) {
    let Some(kept_for) = terms.kept_for(obtained.kept_for) else { return };
    let by_rule = if query.is_forwarded() { BY_RULE } else { 0 };
    let note = if terms.note == 0 { query.note } else { terms.note };
    let meta = PacketMeta {
        stored_at: cx.now.secs(),
        valid_for: kept_for.get(),
        epoch: cx.state.epoch,
        flags: packet_flags::STALE_OK | by_rule,
        ede: obtained.ede.map(|(code, _)| code.0),
        note,
    };
    insert(cx, query, (obtained.message, obtained.ttl_offsets), &meta);
}

/// Stores a resolved answer for all clients if the policy does not distinguish them.
pub(super) fn keep_for_all(cx: &QueryContext<'_>, asked: &AskedFor, obtained: &Obtained<'_>) {
    let Obtained { message, ttl_offsets, kept_for: Some(kept_for), ede, .. } = *obtained else {
        return;
    };
    let Some(question) = message.get(HEADER_LEN..HEADER_LEN + asked.question_len) else { return };
    // The question of a draft is folded.
    let question = Question::from_folded_unchecked(question);
    let bit = |set, flag| if set { flag } else { 0 };
    let flags = packet_flags::RD
        | bit(asked.dnssec_ok, packet_flags::DO)
        | bit(asked.checking_disabled, packet_flags::CD);
    let key = PacketKey { profile: PROFILE, flags, question };
    let meta = PacketMeta {
        stored_at: cx.now.secs(),
        valid_for: kept_for.get(),
        epoch: cx.state.epoch,
        flags: packet_flags::STALE_OK,
        ede: ede.map(|(code, _)| code.0),
        note: 0,
    };
    cx.shared.packets.insert(asked.hash, &key, message, ttl_offsets, &meta);
}

/// Returns a cached message as an expired answer.
pub(super) fn obtained<'m>(message: &'m [u8], ttl_offsets: &'m [u16]) -> Obtained<'m> {
    Obtained {
        rcode: Rcode(message.get(3).map_or(0, |flags| u16::from(flags & 0xf))),
        message,
        ttl_offsets,
        kept_for: None,
        ede: None,
        stage: Stage::Stale,
        upstream: None,
    }
}

/// Stores an answer of this server or of its policy.
pub(super) fn keep_made(cx: &QueryContext<'_>, query: &Query<'_>, offer: &Offer, message: &[u8]) {
    let (valid_for, is_counting) = match offer.lifetime {
        Lifetime::Unkept => return,
        Lifetime::Fixed(secs) => (secs.get(), false),
        Lifetime::Counting(secs) => (secs.get(), true),
    };
    let flags = match offer.stage {
        Stage::Local => LOCAL,
        Stage::Rewritten => NOTED | REWRITTEN,
        _ => NOTED,
    };
    let note = if offer.note == 0 { query.note } else { offer.note };
    let flags = flags | if offer.basis == Basis::Question { OF_QUESTION } else { 0 };
    let (stored_at, epoch) = (cx.now.secs(), cx.state.epoch);
    let meta = PacketMeta { stored_at, valid_for, epoch, flags, ede: None, note };
    let mut offsets = [0; blocked::MAX_BLOCK_RECORDS];
    let count = if is_counting { blocked::ttl_offsets(message, &mut offsets) } else { 0 };
    insert(cx, query, (message, &offsets[..count]), &meta);
}

/// Stores a message and the offsets of its TTL fields. Stores nothing in a rehearsal, because the
/// rehearsed answer may be for another time.
fn insert(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    (message, ttl_offsets): (&[u8], &[u16]),
    meta: &PacketMeta,
) {
    if !cx.scratch.is_looking() {
        // If the packet cache refuses an entry for its size, the next answer comes from the RRset
        // cache.
        cx.shared.packets.insert(query.hash, &query.packet_key(), message, ttl_offsets, meta);
    }
}

/// Returns how an answer from the local records may be stored. Limits its TTLs, which end at the
/// next change of the policy at the latest.
pub(super) fn lifetime_of_local(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    terms: Terms,
    message: &mut [u8],
) -> Lifetime {
    let lifetime = until_change(message, terms);
    // Three kinds of answers are not stored: for names below a wildcard, because clients can make
    // up any number of such names; truncated messages, which are for datagrams only; and answers
    // with several records, which are rotated for each query.
    let is_whole =
        Header::read(message).is_some_and(|header| !header.has(TC) && header.counts[1] <= 1);
    if !is_whole || !cx.state.names.local.is_owner(query.key.qname()) {
        return Lifetime::Unkept;
    }
    match lifetime {
        Lifetime::Unkept => Lifetime::Unkept,
        Lifetime::Fixed(secs) => Lifetime::Fixed(secs.min(LOCAL_SECS)),
        Lifetime::Counting(secs) => Lifetime::Counting(secs.min(LOCAL_SECS)),
    }
}
