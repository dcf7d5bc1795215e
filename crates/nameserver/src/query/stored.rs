//! Answers out of the two caches, and the small ones made on the spot, as drafts.

use std::num::NonZeroU32;

use avocet_cache::{PacketKey, PacketLookup, PacketMeta, ReadAt, packet_flags};
use avocet_resolver::{Assembled, Wanted as Sought};
use avocet_wire::builder::{Builder, Full, Record, Section};
use avocet_wire::header::{HEADER_LEN, Header, QR, RA, TC};
use avocet_wire::{Class, Ede, MessageView, Rcode, Rtype};

use super::Path;
use super::alias::Alias;
use super::decision::Stage;
use super::respond::{Draft, draft_empty};
use super::ttl::{Dated, ttl_offsets, until_change};
use super::verdict::{self, Judged, Purpose, Wanted};
use crate::policy::Validity;

/// TTL in seconds of the HINFO given for ANY (RFC 8482 §4.2).
const ANY_TTL_SECS: u32 = 3600;
/// HINFO data: CPU "RFC8482", OS "".
const ANY_HINFO: &[u8] = b"\x07RFC8482\x00";

/// In an entry of the packet cache: its error code is the number of a note of the policy.
pub(super) const NOTED: u8 = packet_flags::STALE_OK << 1;
/// In an entry of the packet cache: it is of servers that a rule chose.
const BY_RULE: u8 = NOTED << 1;
/// In an entry of the packet cache that is [`NOTED`]: it is no block, but something else that the
/// policy gives.
pub(super) const REWRITTEN: u8 = BY_RULE << 1;
/// In an entry of the packet cache: it is of the local records.
const LOCAL: u8 = REWRITTEN << 1;

/// How long a local answer is kept, in seconds. A change of the records ends its epoch before.
const LOCAL_SECS: u32 = 86_400;

/// Does an entry of the packet cache with these flags say what anybody says who is asked for the
/// name? If not, it is not asked for ahead of need.
#[inline]
pub(super) fn is_resolved(flags: u8) -> bool {
    flags & (NOTED | BY_RULE | LOCAL) == 0
}

/// The stage to count for an answer from the packet cache: what is the policy's and this network's
/// own stays theirs.
#[inline]
pub(super) fn stage_of_kept(flags: u8) -> Stage {
    match flags & (NOTED | LOCAL | REWRITTEN) {
        0 => Stage::PacketHit,
        NOTED => Stage::Blocked,
        LOCAL => Stage::Local,
        _ => Stage::Rewritten,
    }
}

/// A draft of a message from the packet cache, with the error and the flags that stand beside it.
#[inline]
pub fn draft(len: usize, (ede, flags): (Option<u16>, u8), out: &[u8]) -> Draft {
    let rcode = Rcode(u16::from(out[3] & 0xf));
    if flags & NOTED != 0 {
        return Draft { len, rcode, ede: None, note: ede.unwrap_or_default() };
    }
    Draft { len, rcode, ede: ede.map(|code| (Ede(code), "")), note: 0 }
}

/// What the RRset cache had for a question.
pub enum FromRrsets {
    /// A fresh answer, in the buffer.
    Fresh(Draft),
    /// An expired one, in the buffer.
    Stale(Draft),
    /// Not all of an answer.
    Incomplete,
    /// An answer in place of which the policy wants that of another name, to which these aliases
    /// lead.
    Renamed(Vec<Alias>),
    /// An answer that the policy withholds.
    Dropped,
}

/// Answers from the RRset cache, and keeps a fresh answer in the packet cache.
pub(super) fn from_rrsets(path: &Path<'_>, wanted: &Wanted<'_>, out: &mut [u8]) -> FromRrsets {
    let Wanted { key, hash, .. } = wanted;
    if wanted.purpose == Purpose::ByRule {
        return FromRrsets::Incomplete;
    }
    let mut scratch = path.scratch.cell.borrow_mut();
    let (assembler, answers) = &mut *scratch;
    answers.clear();
    let window = path.state.config.cache.serve_stale.as_ref().map_or(0, |stale| stale.max_secs);
    let sought = Sought {
        question: key.question,
        dnssec_ok: key.flags & packet_flags::DO != 0,
        checking_disabled: key.flags & packet_flags::CD != 0,
        at: ReadAt { now: path.now.secs(), stale_window: window },
    };
    let assembled = assembler.assemble(&path.state.plan, &path.shared.rrsets, &sought, answers);
    let Assembled::Complete { resolved, stale_since_secs } = assembled else {
        return FromRrsets::Incomplete;
    };
    let message = &answers.octets[resolved.message];
    let Some(target) = out.get_mut(..message.len()) else {
        out[..HEADER_LEN].copy_from_slice(&message[..HEADER_LEN]);
        return FromRrsets::Fresh(truncated(key.question, out));
    };
    target.copy_from_slice(message);
    let draft = Draft { len: message.len(), rcode: resolved.rcode, ede: resolved.ede, note: 0 };
    let ede = resolved.ede.map(|(code, _)| code.0);
    let is_stale = stale_since_secs.is_some();
    if wanted.purpose == Purpose::BehindAliases {
        return if is_stale {
            FromRrsets::Stale(marked_stale(draft))
        } else {
            FromRrsets::Fresh(draft)
        };
    }
    let ttl_offsets = &answers.ttl_offsets[resolved.ttl_offsets];
    match verdict::judge_answer(path, wanted, message, out) {
        Judged::Holds(terms) if is_stale => {
            terms.cut_ttls(&mut out[..draft.len], ttl_offsets);
            FromRrsets::Stale(marked_stale(draft))
        }
        Judged::Holds(terms) => {
            let message = &mut out[..draft.len];
            terms.clamp_ttls(message, ttl_offsets);
            if wanted.is_current(path) {
                let kept_for = terms.kept_for(NonZeroU32::new(resolved.ttl_secs));
                keep(
                    path,
                    key,
                    *hash,
                    &Keep { message, ttl_offsets, kept_for, ede, said_by: SaidBy::Anybody },
                );
            }
            FromRrsets::Fresh(draft)
        }
        Judged::Replaced(draft, _) => FromRrsets::Fresh(draft),
        Judged::Renamed(aliases) => FromRrsets::Renamed(aliases),
        Judged::Dropped => FromRrsets::Dropped,
    }
}

/// The answer that the RRset cache has for a question, expired or not validated too: for
/// explanations.
#[cold]
pub(super) fn whatever_is_known(path: &Path<'_>, question: &[u8]) -> Option<Vec<u8>> {
    let mut scratch = path.scratch.cell.borrow_mut();
    let (assembler, answers) = &mut *scratch;
    answers.clear();
    let at = ReadAt { now: path.now.secs(), stale_window: u32::MAX };
    let sought = Sought { question, dnssec_ok: false, checking_disabled: true, at };
    match assembler.assemble(&path.state.plan, &path.shared.rrsets, &sought, answers) {
        Assembled::Complete { resolved, .. } => Some(answers.octets[resolved.message].to_vec()),
        _ => None,
    }
}

/// The stage to count for an answer of `from_rrsets`.
pub fn stage(draft: &Draft) -> Stage {
    if draft.note == 0 { Stage::RrsetHit } else { Stage::Blocked }
}

/// The expired answer to a question, if there is one.
pub(super) fn stale(path: &Path<'_>, wanted: &Wanted<'_>, out: &mut [u8]) -> Option<Draft> {
    let Wanted { key, hash, .. } = wanted;
    let found = path.shared.packets.lookup(*hash, key, path.now.secs(), path.state.epoch, out);
    if let PacketLookup::Stale(stale) = found
        // What a rule's servers said is for those that it puts to them.
        && (stale.flags & BY_RULE != 0) == (wanted.purpose == Purpose::ByRule)
    {
        return judged_stale(path, wanted, stale.len, out);
    }
    match from_rrsets(path, wanted, out) {
        FromRrsets::Fresh(draft) | FromRrsets::Stale(draft) => Some(draft),
        FromRrsets::Incomplete | FromRrsets::Renamed(_) | FromRrsets::Dropped => None,
    }
}

/// The expired answer of this length in the buffer, or what the policy gives in its place: it may
/// have been kept before a schedule began. None where it is withheld.
fn judged_stale(path: &Path<'_>, wanted: &Wanted<'_>, len: usize, out: &mut [u8]) -> Option<Draft> {
    let given = marked_stale(draft(len, (None, 0), out));
    if path.state.policy.is_none() {
        return Some(given);
    }
    let message = out.get(..len)?.to_vec();
    match verdict::judge_answer(path, wanted, &message, out) {
        Judged::Holds(terms) => {
            terms.cut_ttls(&mut out[..len], &ttl_offsets(&message).0);
            Some(given)
        }
        Judged::Replaced(draft, _) => Some(draft),
        Judged::Renamed(_) | Judged::Dropped => None,
    }
}

/// The error that says that data is expired (RFC 8914 §4.4 and §4.20).
fn marked_stale(draft: Draft) -> Draft {
    let ede = if draft.rcode == Rcode::NXDOMAIN { Ede::STALE_NXDOMAIN } else { Ede::STALE_ANSWER };
    Draft { ede: Some((ede, "resolution failed or is slow")), ..draft }
}

/// What is to be kept of an answer: message, TTL offsets and how long.
#[derive(Clone, Copy)]
pub struct Keep<'a> {
    /// The message.
    pub message: &'a [u8],
    /// Offsets of its TTL fields.
    pub ttl_offsets: &'a [u16],
    /// How many seconds it may be given to others. None: it is for the client alone, and no least
    /// TTL of a rule changes that.
    pub kept_for: Option<NonZeroU32>,
    /// The extended error that clients are told beside it.
    pub ede: Option<u16>,
    /// Who said it.
    pub said_by: SaidBy,
}

/// Who said what is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SaidBy {
    /// Whoever is asked for the name.
    Anybody,
    /// Servers that a rule chose: it is not asked for again ahead of need, as only the rule knows
    /// of whom.
    ServersOfRule,
}

/// Puts an answer into the packet cache.
pub fn keep(path: &Path<'_>, key: &PacketKey<'_>, hash: u64, answer: &Keep<'_>) {
    let Some(kept_for) = answer.kept_for else { return };
    let meta = PacketMeta {
        stored_at: path.now.secs(),
        valid_for: kept_for.get(),
        epoch: path.state.epoch,
        flags: packet_flags::STALE_OK
            | if answer.said_by == SaidBy::ServersOfRule { BY_RULE } else { 0 },
        ede: answer.ede,
    };
    // What is refused for its size is answered from the RRset cache the next time.
    path.keep_packet((hash, key), (answer.message, answer.ttl_offsets), &meta);
}

/// Keeps an answer of the local records, with the TTLs that they have. Where the policy may say
/// something else before these have passed, they are cut and count down.
pub(super) fn keep_local(
    path: &Path<'_>,
    query: &super::Query<'_>,
    message: &mut [u8],
    validity: Validity,
) {
    let Dated { offsets, valid_secs } = until_change(message, validity);
    // Names below a wildcard are as many as who asks can think of, and a message that was cut is
    // only so for datagrams. Several records are given in another order each time.
    let is_whole =
        Header::read(message).is_some_and(|header| !header.has(TC) && header.counts[1] <= 1);
    if valid_secs == 0 || !is_whole || !path.state.local.is_owner(query.key.qname()) {
        return;
    }
    let meta = PacketMeta {
        stored_at: path.now.secs(),
        valid_for: valid_secs.min(LOCAL_SECS),
        epoch: path.state.epoch,
        flags: LOCAL,
        ede: None,
    };
    path.keep_packet((query.hash, &query.packet_key()), (message, &offsets), &meta);
}

/// Answers ANY with as little as can be (RFC 8482 §4.2).
pub fn minimal_any(question: &[u8], out: &mut [u8]) -> Draft {
    let Some((qname, _)) = question.split_last_chunk::<4>() else {
        return draft_empty(out, None, Rcode::FORMERR);
    };
    write_any(qname, out).unwrap_or_else(|Full| draft_empty(out, Some(question), Rcode::SERVFAIL))
}

fn write_any(qname: &[u8], out: &mut [u8]) -> Result<Draft, Full> {
    let limit = out.len();
    let mut builder = Builder::new(out, limit, 0, QR | RA)?;
    builder.question(qname, Rtype::ANY, Class::IN)?;
    let record = Record {
        owner: qname,
        rtype: Rtype::HINFO,
        class: Class::IN,
        ttl_secs: ANY_TTL_SECS,
        rdata: ANY_HINFO,
    };
    builder.record(Section::Answer, &record)?;
    Ok(Draft { len: builder.finish(), rcode: Rcode::NOERROR, ede: None, note: 0 })
}

/// Makes the answer in `out` an empty one with TC, so that a client who is real comes back over
/// TCP, or with the cookie that it is given. Returns its length.
pub fn slip(out: &mut [u8], len: usize) -> usize {
    let Ok(view) = MessageView::new(&out[..len]) else { return len };
    let question_len = view.question().map_or(0, |question| question.octets().len());
    let opt_at = view.records().ok().and_then(|mut records| {
        records.find_map(|record| {
            record.ok().filter(|record| record.rtype == Rtype::OPT).map(|record| record.offset())
        })
    });
    let end = only_truncated(out, question_len);
    let Some(opt_at) = opt_at else { return end };
    // OPT is the last of the records.
    out.copy_within(opt_at..len, end);
    out[11] = 1;
    end + len - opt_at
}

fn only_truncated(out: &mut [u8], question_len: usize) -> usize {
    if let Some(head) = out.first_chunk_mut()
        && let Some(mut header) = Header::read(&head[..])
    {
        header.flags |= TC;
        header.counts = [u16::from(question_len > 0), 0, 0, 0];
        header.write(head);
    }
    HEADER_LEN + question_len
}

/// A draft with TC and no records in place of an answer, for a client that is to come over TCP.
pub(super) fn sent_to_tcp(question: &[u8], out: &mut [u8]) -> Draft {
    // What the buffer holds is of another answer.
    out[..HEADER_LEN].fill(0);
    truncated(question, out)
}

/// A draft with TC and no records, of the answer that begins in `out` and that no datagram can
/// hold.
pub fn truncated(question: &[u8], out: &mut [u8]) -> Draft {
    let rcode = Rcode(u16::from(out[3] & 0xf));
    let draft = draft_empty(out, Some(question), rcode);
    Draft { len: only_truncated(out, question.len()), ..draft }
}
