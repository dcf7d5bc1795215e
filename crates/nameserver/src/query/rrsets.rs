//! The stage of the RRset cache, which assembles answers from records.

use std::num::NonZeroU32;

use avocet_cache::{ReadAt, packet_flags};
use avocet_resolver::{Assembled, Wanted};
use avocet_wire::Question;

use super::context::QueryContext;
use super::decision::Stage;
use super::finding::Obtained;
use super::scratch::Assembly;

/// Assembles the answer to a question, fresh or expired, for a query with these packet cache flags.
/// Returns no answer if a part of it is not cached.
pub(super) fn look_up<'m>(
    cx: &QueryContext<'_>,
    memory: &'m mut Assembly,
    question: Question<'_>,
    flags: u8,
) -> Option<Obtained<'m>> {
    let stale = cx.state.config.cache.serve_stale.as_ref();
    let window = stale.map_or(0, |stale| stale.max_secs);
    let wanted = Wanted {
        question,
        dnssec_ok: flags & packet_flags::DO != 0,
        checking_disabled: flags & packet_flags::CD != 0,
        at: ReadAt { now: cx.now.secs(), stale_window: window },
    };
    assemble(cx, memory, &wanted)
}

/// Assembles the answer to a question for explanations from all cached data, even if it is expired
/// or not validated.
#[cold]
pub(super) fn whatever_is_known(cx: &QueryContext<'_>, question: Question<'_>) -> Option<Vec<u8>> {
    let at = ReadAt { now: cx.now.secs(), stale_window: u32::MAX };
    let wanted = Wanted { question, dnssec_ok: false, checking_disabled: true, at };
    let mut memory = cx.scratch.assembly();
    assemble(cx, &mut memory, &wanted).map(|obtained| obtained.message.to_vec())
}

fn assemble<'m>(
    cx: &QueryContext<'_>,
    memory: &'m mut Assembly,
    wanted: &Wanted<'_>,
) -> Option<Obtained<'m>> {
    let Assembly { assembler, answers } = memory;
    answers.clear();
    let assembled = assembler.assemble(&cx.state.plan, &cx.shared.rrsets, wanted, answers);
    let Assembled::Complete { resolved, stale_since_secs } = assembled else { return None };
    let is_stale = stale_since_secs.is_some();
    Some(Obtained {
        rcode: resolved.rcode,
        message: &answers.octets[resolved.message],
        ttl_offsets: &answers.ttl_offsets[resolved.ttl_offsets],
        kept_for: NonZeroU32::new(resolved.ttl_secs),
        ede: resolved.ede,
        stage: if is_stale { Stage::Stale } else { Stage::RrsetHit },
        upstream: None,
    })
}
