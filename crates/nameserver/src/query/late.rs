//! Answers to those who waited, made of what resolution found.

use std::borrow::Cow;

use avocet_cache::PacketKey;
use avocet_resolver::Shed;
use avocet_wire::header::Header;
use avocet_wire::query::QuestionKey;
use avocet_wire::view::{MessageView, RecordSection};
use avocet_wire::{Ede, Rcode, Rtype};

use super::alias::{Alias, End, write_behind};
use super::behind::{Behind, behind_aliases, miss_behind, stale_behind};
use super::decision::Stage;
use super::miss::{Miss, Waiter};
use super::respond::{Draft, draft_empty, finish};
use super::stored::{Keep, SaidBy};
use super::verdict::{self, Judged, Purpose, Wanted};
use super::{Outcome, Path, key_flags, kind, packet_hash, profile, stored};

/// What resolution found for a question.
#[derive(Clone, Copy)]
pub struct Found<'a> {
    /// RCODE.
    pub rcode: Rcode,
    /// The message in packet form.
    pub message: &'a [u8],
    /// Why there is no answer.
    pub ede: Option<(Ede, &'static str)>,
    /// Where a policy judges it for each who waits, what it needs to be kept for him.
    pub keep: Option<Keep<'a>>,
}

/// What becomes of a waiter.
pub enum Late {
    /// An answer of so many octets is in the buffer.
    Reply(usize, Outcome),
    /// He gets none.
    Silent(Stage),
    /// He waits for something else.
    Again(Box<Miss>),
}

/// What a waiter is given.
enum Given {
    Draft(Draft, Stage),
    Nothing,
    /// What is at the end of these aliases.
    Behind(Vec<Alias>),
}

/// Writes the answer for a waiter to `out`. `None`: what he asked took too long, and he gets
/// expired data if there is some.
pub fn answer(path: &Path<'_>, waiter: &Waiter, found: Option<&Found<'_>>, out: &mut [u8]) -> Late {
    let judged = found.filter(|_| path.state.policy.is_some()).and_then(judged_part);
    let found = match (&judged, found) {
        (Some((message, ttl_offsets)), Some(found)) => {
            let keep = found.keep.map(|keep| Keep { message, ttl_offsets, ..keep });
            Some(&Found { message, keep, ..*found })
        }
        _ => found,
    };
    let good = found.filter(|found| found.rcode != Rcode::SERVFAIL);
    let given = match good {
        Some(found) => resolved(path, waiter, found, out),
        None => match stale(path, waiter, out) {
            Some(draft) => Given::Draft(draft, Stage::Stale),
            None => unresolved(path, waiter, found, out),
        },
    };
    match given {
        Given::Draft(draft, stage) => reply(path, waiter, (draft, stage), out),
        Given::Nothing => Late::Silent(Stage::Dropped),
        Given::Behind(aliases) => behind(path, waiter, aliases, out),
    }
}

/// A message without its additional records, and the offsets of its TTLs; none where it has no such
/// records.
///
/// The policy judges names and addresses that a client asks for, and those which the answer to that
/// leads to. Addresses that a server adds for other names, it would not have been asked about.
fn judged_part(found: &Found<'_>) -> Option<(Vec<u8>, Vec<u16>)> {
    let mut header = Header::read(found.message).filter(|header| header.counts[3] > 0)?;
    header.counts[3] = 0;
    let records = MessageView::new(found.message).ok()?.records().ok()?.map_while(Result::ok);
    let (mut end, mut ttl_offsets) = (found.message.len(), Vec::new());
    for record in records {
        if record.section == RecordSection::Additional {
            end = record.offset();
            break;
        }
        ttl_offsets.push(record.ttl_offset() as u16);
    }
    let mut message = found.message[..end].to_vec();
    header.write(message.first_chunk_mut()?);
    Some((message, ttl_offsets))
}

fn reply(path: &Path<'_>, waiter: &Waiter, (draft, stage): (Draft, Stage), out: &mut [u8]) -> Late {
    path.count_note(draft.note, stage);
    let len = finish(out, draft, &waiter.asked, &waiter.question, &path.state.identity);
    let outcome = Outcome {
        stage,
        rcode: draft.rcode,
        qtype: qtype(&waiter.question),
        kind: kind(draft.rcode, waiter.hash),
        verified: waiter.asked.is_verified(),
    };
    Late::Reply(len, outcome)
}

/// What is at the end of aliases, if it is known; else the waiter waits for it.
#[cold]
fn behind(path: &Path<'_>, waiter: &Waiter, aliases: Vec<Alias>, out: &mut [u8]) -> Late {
    let key = QuestionKey::new(&waiter.question, &path.shared.key, 0);
    let aliases = match behind_aliases(path, &wanted(path, waiter, &key), aliases, out) {
        Behind::Known(draft, Stage::RrsetHit) => {
            return reply(path, waiter, (draft, Stage::Resolved), out);
        }
        Behind::Known(draft, stage) => return reply(path, waiter, (draft, stage), out),
        Behind::Unknown(aliases) => aliases,
    };
    match miss_behind(path, waiter, aliases) {
        Some(miss) => Late::Again(Box::new(miss)),
        None => Late::Silent(Stage::Dropped),
    }
}

/// What was found, or what the policy makes of it for this client.
fn resolved(path: &Path<'_>, waiter: &Waiter, found: &Found<'_>, out: &mut [u8]) -> Given {
    let Some(keep) = found.keep.filter(|_| waiter.aliases.is_empty()) else {
        return Given::Draft(copy(found, waiter, &waiter.question, out), Stage::Resolved);
    };
    let said_by = if waiter.servers.is_some() { SaidBy::ServersOfRule } else { keep.said_by };
    let keep = Keep { said_by, ..keep };
    let key = QuestionKey::new(&waiter.question, &path.shared.key, 0);
    let wanted = wanted(path, waiter, &key);
    match verdict::judge_answer(path, &wanted, found.message, out) {
        Judged::Replaced(draft, stage) => Given::Draft(draft, stage),
        Judged::Renamed(aliases) => Given::Behind(aliases),
        Judged::Dropped => Given::Nothing,
        Judged::Holds(terms) => {
            let mut message = Cow::Borrowed(found.message);
            if !terms.leave_ttls() {
                terms.clamp_ttls(message.to_mut(), keep.ttl_offsets);
            }
            if wanted.is_current(path) {
                let keep =
                    Keep { message: &message, kept_for: terms.kept_for(keep.kept_for), ..keep };
                stored::keep(path, &wanted.key, wanted.hash, &keep);
            }
            let found = Found { message: &message, ..*found };
            Given::Draft(copy(&found, waiter, &waiter.question, out), Stage::Resolved)
        }
    }
}

/// Why nothing was found, unless the policy has something else to say to the question.
fn unresolved(
    path: &Path<'_>,
    waiter: &Waiter,
    found: Option<&Found<'_>>,
    out: &mut [u8],
) -> Given {
    let key = QuestionKey::new(&waiter.question, &path.shared.key, 0);
    let judged = match waiter.aliases.is_empty() {
        true => verdict::judge_failure(path, &wanted(path, waiter, &key), out),
        false => None,
    };
    match judged {
        Some(Judged::Replaced(draft, stage)) => Given::Draft(draft, stage),
        Some(Judged::Renamed(aliases)) => Given::Behind(aliases),
        Some(Judged::Dropped) => Given::Nothing,
        Some(Judged::Holds(_)) | None => {
            Given::Draft(failed(found, waiter, out), failed_stage(found))
        }
    }
}

/// What the waiter waits for, `key` being that of his question. His profile is that of the policy
/// in force now: the number that he came with may be another's in this one.
fn wanted<'a>(path: &Path<'_>, waiter: &Waiter, key: &'a QuestionKey) -> Wanted<'a> {
    let (ip, transport, flags) = (waiter.ip, waiter.asked.transport, key_flags(&waiter.asked));
    let profile = profile(path, ip, transport);
    let hash = packet_hash(key.hash, profile, flags);
    let purpose = if waiter.servers.is_some() { Purpose::ByRule } else { Purpose::Itself };
    let key = PacketKey { profile, flags, question: key.question() };
    Wanted { key, hash, ip, transport, purpose, epoch: waiter.epoch }
}

/// The answer to a waiter whose question was turned away.
pub fn shed(path: &Path<'_>, waiter: &Waiter, reason: Shed, out: &mut [u8]) -> Late {
    let ede = match reason {
        Shed::Zone => (Ede::NETWORK_ERROR, "too many queries in flight to the zone"),
        Shed::Client => (Ede::OTHER, "too many queries from this client"),
        Shed::Tasks | Shed::Waiters | Shed::Malformed => (Ede::OTHER, "too many queries in flight"),
    };
    let found = Found { rcode: Rcode::SERVFAIL, message: &[], ede: Some(ede), keep: None };
    match answer(path, waiter, Some(&found), out) {
        Late::Reply(len, outcome) if outcome.stage == Stage::Failed => {
            Late::Reply(len, Outcome { stage: Stage::Shed, ..outcome })
        }
        late => late,
    }
}

fn qtype(question: &[u8]) -> Rtype {
    question
        .split_last_chunk::<4>()
        .map_or(Rtype(0), |(_, fixed)| Rtype(u16::from_be_bytes([fixed[0], fixed[1]])))
}

fn stale(path: &Path<'_>, waiter: &Waiter, out: &mut [u8]) -> Option<Draft> {
    let key = QuestionKey::new(&waiter.question, &path.shared.key, 0);
    let wanted = wanted(path, waiter, &key);
    match waiter.aliases.is_empty() {
        true => stored::stale(path, &wanted, out),
        // What is known of the question itself is not what the policy or this network answers it
        // with.
        false => stale_behind(path, &wanted, &waiter.aliases, out),
    }
}

fn failed_stage(found: Option<&Found<'_>>) -> Stage {
    match found.and_then(|found| found.ede) {
        Some((Ede::CACHED_ERROR, _)) => Stage::FailureHit,
        _ => Stage::Failed,
    }
}

fn failed(found: Option<&Found<'_>>, waiter: &Waiter, out: &mut [u8]) -> Draft {
    let question = &waiter.question;
    // Aliases that lead nowhere are shown.
    if let Some(found) = found.filter(|found| has_answers(found.message)) {
        return copy(found, waiter, question, out);
    }
    let slow = (Ede::NO_REACHABLE_AUTHORITY, "no answer in time");
    let ede = Some(found.and_then(|found| found.ede).unwrap_or(slow));
    Draft { ede, ..draft_empty(out, Some(question), Rcode::SERVFAIL) }
}

fn has_answers(message: &[u8]) -> bool {
    Header::read(message).is_some_and(|header| header.counts[1] > 0)
}

fn copy(found: &Found<'_>, waiter: &Waiter, question: &[u8], out: &mut [u8]) -> Draft {
    let room = out.len();
    if !waiter.aliases.is_empty() {
        let draft = Draft { len: 0, rcode: found.rcode, ede: found.ede, note: 0 };
        let end = End { message: found.message, draft };
        return write_behind(&waiter.aliases, &end, question, out)
            .unwrap_or_else(|| draft_empty(out, Some(question), Rcode::SERVFAIL));
    }
    match out.get_mut(..found.message.len()) {
        Some(target) => target.copy_from_slice(found.message),
        None => {
            out.copy_from_slice(&found.message[..room]);
            return stored::truncated(question, out);
        }
    }
    Draft { len: found.message.len(), rcode: found.rcode, ede: found.ede, note: 0 }
}
