//! What is at the end of aliases that the policy or this network has put in place of a name.
//!
//! The end is looked for where any name is: the local records, the special names, the RRset cache.
//! It is not judged again. What is not known here is resolved for the client that waits.

use avocet_cache::PacketKey;
use avocet_wire::header::CD;

use super::alias::{Alias, End, write_behind};
use super::decision::Stage;
use super::local::Local;
use super::miss::{Miss, Waiter};
use super::octets::Octets;
use super::question::LocalQuestion;
use super::respond::Draft;
use super::stored::{self, FromRrsets};
use super::verdict::{Purpose, Wanted};
use super::{PROFILE, Path, key_flags, packet_hash, special};
use crate::policy::Validity;

/// What is known of the end of aliases that the policy or this network has put there.
pub(super) enum Behind {
    /// The whole answer is in the buffer, given by this stage.
    Known(Draft, Stage),
    /// The end of these aliases must be resolved.
    Unknown(Vec<Alias>),
}

/// The answer for the last target of aliases, behind these: of this network's own names or from the
/// RRset cache.
#[cold]
pub(super) fn behind_aliases(
    path: &Path<'_>,
    wanted: &Wanted<'_>,
    mut aliases: Vec<Alias>,
    out: &mut [u8],
) -> Behind {
    let asked = wanted.key.question;
    let Some(last) = aliases.last() else { return Behind::Unknown(aliases) };
    let (mut question, mut hash) = question_behind(path, asked, last);
    let mut known = None;
    match path.state.local.answer(&LocalQuestion::of(&question), out) {
        Local::Answer(draft) => known = Some((draft, Stage::Local)),
        Local::Absent => {}
        Local::Outside(more) => {
            aliases.extend(more);
            if let Some(last) = aliases.last() {
                (question, hash) = question_behind(path, asked, last);
            }
        }
    }
    let known = known.or_else(|| {
        special(path, &LocalQuestion::of(&question), out).map(|draft| (draft, Stage::Special))
    });
    let known =
        known.or_else(|| match stored::from_rrsets(path, &end_of(wanted, &question, hash), out) {
            FromRrsets::Fresh(draft) => Some((draft, Stage::RrsetHit)),
            _ => None,
        });
    let draft =
        known.and_then(|(draft, stage)| Some((put_behind(draft, &aliases, asked, out)?, stage)));
    match draft {
        Some((draft, stage)) => Behind::Known(draft, stage),
        None => Behind::Unknown(aliases),
    }
}

/// The answer for the last target of aliases from the RRset cache, expired or not, behind these.
#[cold]
pub(super) fn stale_behind(
    path: &Path<'_>,
    wanted: &Wanted<'_>,
    aliases: &[Alias],
    out: &mut [u8],
) -> Option<Draft> {
    let asked = wanted.key.question;
    let (question, hash) = question_behind(path, asked, aliases.last()?);
    match stored::from_rrsets(path, &end_of(wanted, &question, hash), out) {
        // That it has expired is what the client is told.
        FromRrsets::Fresh(draft) | FromRrsets::Stale(draft) => {
            Some(Draft { note: 0, ..put_behind(draft, aliases, asked, out)? })
        }
        _ => None,
    }
}

/// What is wanted for the end of aliases.
fn end_of<'q>(wanted: &Wanted<'_>, question: &'q [u8], question_hash: u64) -> Wanted<'q> {
    let Wanted { key: PacketKey { profile, flags, .. }, ip, transport, epoch, .. } = *wanted;
    let (key, hash) =
        (PacketKey { profile, flags, question }, packet_hash(question_hash, profile, flags));
    Wanted { key, hash, ip, transport, purpose: Purpose::BehindAliases, epoch }
}

/// Puts the answer in the buffer behind the aliases that lead to it from the question.
fn put_behind(draft: Draft, aliases: &[Alias], question: &[u8], out: &mut [u8]) -> Option<Draft> {
    let message = out.get(..draft.len)?.to_vec();
    write_behind(aliases, &End { message: &message, draft }, question, out)
}

/// The question for the target of an alias in place of this one, and its hash.
pub(super) fn question_behind(path: &Path<'_>, question: &[u8], alias: &Alias) -> (Octets, u64) {
    let mut octets = alias.target.folded().wire().to_vec();
    octets.extend_from_slice(&question[question.len() - 4..]);
    (Octets::new(&octets), path.shared.key.hash(&octets, 0))
}

/// Cuts the TTLs of aliases of this network at the next change of the policy.
pub(super) fn cut_at_change(mut aliases: Vec<Alias>, validity: Validity) -> Vec<Alias> {
    aliases.iter_mut().for_each(|alias| alias.ttl_secs = alias.ttl_secs.min(validity.secs));
    aliases
}

/// What a waiter waits for from now on: the last target of aliases that the policy wants in place
/// of what was found.
#[cold]
pub(super) fn miss_behind(path: &Path<'_>, waiter: &Waiter, aliases: Vec<Alias>) -> Option<Miss> {
    let (question, hash) = question_behind(path, &waiter.question, aliases.last()?);
    Some(Miss {
        hash: packet_hash(hash, PROFILE, key_flags(&waiter.asked)),
        dnssec_ok: waiter.asked.dnssec_ok(),
        checking_disabled: waiter.asked.flags & CD != 0,
        subnet: None,
        stale_available: false,
        waiter: Some(Waiter { aliases, servers: None, ..waiter.clone() }),
        question,
    })
}
