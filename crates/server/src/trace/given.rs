//! The answer that a client would get, and the decision behind it.

use std::net::IpAddr;

use avocet_control::why::{
    CacheUse, GivenAnswer, GivenReply, QueryStage, RecordedDecision, ValidationState, WhySection,
};
use avocet_nameserver::query::decision::{CacheState, Validated};
use avocet_nameserver::query::rehearsal::Ended;
use avocet_nameserver::query::{Decision, Stage};
use avocet_nameserver::snapshot::Snapshot;
use avocet_wire::edns::EdnsOption;
use avocet_wire::header::{Header, TC};
use avocet_wire::{FoldedName, MessageView, Rtype};

use super::dump::shown;
use super::{TraceQuestion, rcode, report};

/// Returns the section with the answer for a client at this address, and the stage of processing
/// that gives the answer.
pub(crate) fn section(
    state: &Snapshot,
    asked: &TraceQuestion,
    ip: IpAddr,
    ended: &Ended,
) -> WhySection {
    let (qname, qtype) = asked.name_and_type();
    let (message, decision) = match ended {
        Ended::Reply { message, decision } => (&message[..], Some(decision)),
        Ended::Silent(decision) => (&[][..], Some(decision)),
        Ended::Wait(_) => (&[][..], None),
    };
    WhySection::Answer(GivenAnswer {
        name: shown(&qname),
        rtype: qtype.to_string(),
        client: ip.to_string(),
        from: stage(decision.map_or(Stage::Failed, |decision| decision.stage)),
        zone: decision.and_then(|decision| zone_of(state, (qname, qtype), decision)),
        decision: decision.map(|decision| recorded(state, decision)),
        reply: (!message.is_empty()).then(|| reply(message)),
    })
}

/// Returns the hosted zone that gave the answer; `None` if none did.
fn zone_of(
    state: &Snapshot,
    (qname, qtype): (FoldedName<'_>, Rtype),
    decision: &Decision,
) -> Option<String> {
    let zones = state.zones_of(decision.profile);
    let apex = zones.apex_of(qname, qtype).filter(|_| decision.stage == Stage::Hosted)?;
    Some(zones.id_of(apex).to_string())
}

fn reply(message: &[u8]) -> GivenReply {
    let edns = MessageView::new(message).ok().and_then(|message| message.edns().ok().flatten());
    let ede = edns.as_ref().and_then(|edns| {
        edns.options().filter_map(Result::ok).find_map(|option| match option {
            EdnsOption::Ede(code, text) => {
                Some((code.0, String::from_utf8_lossy(text).into_owned()))
            }
            _ => None,
        })
    });
    let (ede, ede_text) = ede.unzip();
    GivenReply {
        rcode: rcode(message).to_string(),
        truncated: Header::read(message).is_some_and(|header| header.has(TC)),
        answer: report::records(message),
        ede,
        ede_text,
    }
}

/// Returns the decision in the form in which the query path records it.
fn recorded(state: &Snapshot, decision: &Decision) -> RecordedDecision {
    let by = state.policy.as_ref().and_then(|policy| policy.note_text(decision.note));
    RecordedDecision {
        stage: stage(decision.stage),
        cache: match decision.cache {
            CacheState::NotAsked => CacheUse::NotAsked,
            CacheState::Hit => CacheUse::Hit,
            CacheState::Stale => CacheUse::Stale,
            CacheState::Miss => CacheUse::Miss,
        },
        validated: match decision.validated {
            Validated::Unknown => ValidationState::Unknown,
            Validated::Secure => ValidationState::Secure,
            Validated::Bogus => ValidationState::Bogus,
        },
        by: by.map(str::to_owned),
        profile: decision.profile,
        revision: decision.revision,
    }
}

const fn stage(stage: Stage) -> QueryStage {
    match stage {
        Stage::Malformed => QueryStage::Malformed,
        Stage::Refused => QueryStage::Refused,
        Stage::Ignored => QueryStage::Ignored,
        Stage::PacketHit => QueryStage::PacketHit,
        Stage::Stale => QueryStage::Stale,
        Stage::Local => QueryStage::Local,
        Stage::Hosted => QueryStage::Hosted,
        Stage::Pool => QueryStage::Pool,
        Stage::Special => QueryStage::Special,
        Stage::Chaos => QueryStage::Chaos,
        Stage::RrsetHit => QueryStage::RrsetHit,
        Stage::Resolved => QueryStage::Resolved,
        Stage::Failed => QueryStage::Failed,
        Stage::FailureHit => QueryStage::FailureHit,
        Stage::NotRecursive => QueryStage::NotRecursive,
        Stage::Shed => QueryStage::Shed,
        Stage::Blocked => QueryStage::Blocked,
        Stage::Rewritten => QueryStage::Rewritten,
        Stage::Limited => QueryStage::Limited,
        Stage::Dropped => QueryStage::Dropped,
    }
}
