//! The packet cache: final answers, by question, profile and flags.
//!
//! An entry carries the epoch of the snapshot that it was made by. A hit compares it with that of
//! the snapshot in force, and nothing else. Only an entry of an earlier epoch is examined: if
//! nothing that it depends on has changed since ([`still_holds`]), it moves to the epoch in force
//! and is a hit from then on.

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

/// In an entry: its error code is the number of a note of the policy.
const NOTED: u8 = packet_flags::STALE_OK << 1;
/// In an entry: it is of servers that a rule chose.
const BY_RULE: u8 = NOTED << 1;
/// In an entry that is [`NOTED`]: it is no block, but something else that the policy gives.
const REWRITTEN: u8 = BY_RULE << 1;
/// In an entry: it is of the local records.
const LOCAL: u8 = REWRITTEN << 1;
/// In an entry: it rests on no answer of other servers.
const OF_QUESTION: u8 = LOCAL << 1;

/// How long a local answer is kept, in seconds, unless its records change.
const LOCAL_SECS: NonZeroU32 = NonZeroU32::new(86_400).unwrap();

/// Room in octets that an answer of 4096 octets takes in the packet cache at most, nearly: all TTL
/// offsets stand behind it. Longer ones fit into no datagram of ours.
const LONGEST_DATAGRAM: usize = 4096 + 1024;

/// Looks the question up.
#[inline]
pub(super) fn look_up(cx: &QueryContext<'_>, query: &Query<'_>, out: &mut [u8]) -> PacketLookup {
    let (key, now_secs) = (query.packet_key(), cx.now.secs());
    cx.shared.packets.lookup(query.hash, &key, now_secs, cx.state.epoch, out)
}

/// Looks up what was stored under another epoch, if it still holds.
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

/// Reports whether no part of the snapshot that an entry depends on has changed since it was
/// stored. [`Snapshot`] has the table.
pub fn still_holds(state: &Snapshot, stored: &StoredPacket<'_>) -> bool {
    let (generations, epoch) = (&state.generations, stored.epoch);
    if epoch == state.epoch {
        return true;
    }
    let of_question = stored.flags & OF_QUESTION != 0;
    // One that a later snapshot made is none of ours: its profile may have another meaning.
    epoch < state.epoch
        && generations.policy <= epoch
        && (of_question || generations.plan <= epoch)
        && (generations.names <= epoch || is_apart_from_names(state, stored).unwrap_or(false))
}

/// Reports whether an entry is about no name that has become this server's own since it was stored,
/// or is so no longer, or has other records. None: the message does not show all of its names.
fn is_apart_from_names(state: &Snapshot, stored: &StoredPacket<'_>) -> Option<bool> {
    let StoredPacket { epoch, flags, response } = *stored;
    let of_policy_on_answer = flags & NOTED != 0 && flags & OF_QUESTION == 0;
    // An error does not show the aliases that led to it, nor does a block in place of an answer.
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
            // Addresses that a server gave beside the answer.
            (_, RecordSection::Additional) => record.owner().ok()?,
            _ => continue,
        };
        is_apart &= !changes.affect(name.folded().view(), epoch);
    }
    Some(is_apart)
}

/// Offers an entry that lies in the buffer. An answer that the policy or this network made keeps
/// its stage.
#[inline]
pub(super) fn offer(hit: &PacketHit, out: &[u8]) -> Offer {
    let (len, rcode) = (hit.len, Rcode(u16::from(out[3] & 0xf)));
    let draft = match hit.flags & NOTED {
        0 => Draft { len, rcode, ede: hit.ede.map(|code| (Ede(code), "")), note: 0 },
        _ => Draft { len, rcode, ede: None, note: hit.ede.unwrap_or_default() },
    };
    let stage = match hit.flags & (NOTED | LOCAL | REWRITTEN) {
        0 => Stage::PacketHit,
        NOTED => Stage::Blocked,
        LOCAL => Stage::Local,
        _ => Stage::Rewritten,
    };
    let (cache, lifetime) = (CacheState::Hit, Lifetime::Unkept);
    Offer { draft, stage, cache, upstream: None, lifetime, basis: Basis::Question }
}

/// Whether an entry is popular, expires soon and may be refreshed ahead of need: it says what any
/// server of the name says.
#[inline]
pub(super) fn is_expiring(cx: &QueryContext<'_>, hit: &PacketHit) -> bool {
    hit.prefetch && hit.flags & (NOTED | BY_RULE | LOCAL) == 0 && cx.state.config.cache.prefetch
}

/// Whether an entry of this length fits into no datagram, and the query has come in one.
pub(super) fn is_too_long(query: &Query<'_>, needed: usize) -> bool {
    query.asked.transport == Transport::Udp && needed > LONGEST_DATAGRAM
}

/// Offers an empty answer with TC in place of an entry that is too long.
#[cold]
pub(super) fn too_long(query: &Query<'_>, out: &mut [u8]) -> Offer {
    let offer = Offer::made(Stage::PacketHit, truncated(query.question(), out));
    Offer { cache: CacheState::Hit, ..offer }
}

/// Looks an expired answer up. Returns its length in the buffer. What the servers of a rule said is
/// for queries that the rule puts to them.
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
        _ => None,
    }
}

/// Keeps an answer of other servers, as the policy lets it pass on these terms.
pub(super) fn keep(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    obtained: &Obtained<'_>,
    terms: Terms,
) {
    let Some(kept_for) = terms.kept_for(obtained.kept_for) else { return };
    let by_rule = if query.is_forwarded() { BY_RULE } else { 0 };
    let meta = PacketMeta {
        stored_at: cx.now.secs(),
        valid_for: kept_for.get(),
        epoch: cx.state.epoch,
        flags: packet_flags::STALE_OK | by_rule,
        ede: obtained.ede.map(|(code, _)| code.0),
    };
    insert(cx, query, (obtained.message, obtained.ttl_offsets), &meta);
}

/// Keeps what was resolved for all clients, where no policy tells them apart.
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
    };
    cx.shared.packets.insert(asked.hash, &key, message, ttl_offsets, &meta);
}

/// The expired answer that lies in a message of the cache.
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

/// Keeps an answer that this network or its policy made.
pub(super) fn keep_made(cx: &QueryContext<'_>, query: &Query<'_>, offer: &Offer, message: &[u8]) {
    let (valid_for, is_counting) = match offer.lifetime {
        Lifetime::Unkept => return,
        Lifetime::Fixed(secs) => (secs.get(), false),
        Lifetime::Counting(secs) => (secs.get(), true),
    };
    let (flags, ede) = match offer.stage {
        Stage::Local => (LOCAL, None),
        Stage::Rewritten => (NOTED | REWRITTEN, Some(offer.draft.note)),
        _ => (NOTED, Some(offer.draft.note)),
    };
    let flags = flags | if offer.basis == Basis::Question { OF_QUESTION } else { 0 };
    let (stored_at, epoch) = (cx.now.secs(), cx.state.epoch);
    let meta = PacketMeta { stored_at, valid_for, epoch, flags, ede };
    let mut offsets = [0; blocked::MAX_BLOCK_RECORDS];
    let count = if is_counting { blocked::ttl_offsets(message, &mut offsets) } else { 0 };
    insert(cx, query, (message, &offsets[..count]), &meta);
}

/// Puts a message and the offsets of its TTLs into the cache, unless the query is only looked at:
/// its answer may be that of another time.
fn insert(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    (message, ttl_offsets): (&[u8], &[u16]),
    meta: &PacketMeta,
) {
    if !cx.scratch.is_looking() {
        // What is refused for its size is answered from the RRset cache the next time.
        cx.shared.packets.insert(query.hash, &query.packet_key(), message, ttl_offsets, meta);
    }
}

/// How an answer of the local records may be kept. TTLs are cut where the policy may say something
/// else before they have passed.
pub(super) fn lifetime_of_local(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    terms: Terms,
    message: &mut [u8],
) -> Lifetime {
    let lifetime = until_change(message, terms);
    // Names below a wildcard are as many as who asks can think of, and a message that was cut is
    // only so for datagrams. Several records are given in another order each time.
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
