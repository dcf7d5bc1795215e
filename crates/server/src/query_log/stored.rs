//! An entry in the files of the query log as clients of the control socket see it.

use avocet_control::log::{DamagedFile, LogEntry, LogTransport, OutcomeKind};
use avocet_control::why::{CacheUse, QueryStage, ValidationState};
use avocet_querylog::Broken;
use avocet_querylog::column::{Int, Set, Text};

use super::shown::{flags, of_word};

/// Returns a stored entry in the form of an entry that is logged now.
pub(crate) fn stored(entry: &avocet_querylog::LogEntry) -> LogEntry {
    let text = |column| Some(entry.text(column).to_owned()).filter(|text| !text.is_empty());
    let number = |column| entry.int(column).and_then(|value| u64::try_from(value).ok());
    let small = |column| number(column).and_then(|value| u16::try_from(value).ok());
    let reply_octets = small(Int::ResponseSize).unwrap_or_default();
    LogEntry {
        id: Some(entry.id),
        time_us: number(Int::Time).unwrap_or_default(),
        client: text(Text::Client),
        client_name: text(Text::Device),
        groups: entry.set(Set::Groups).to_vec(),
        listener: text(Text::Listener),
        transport: of_word(entry.text(Text::Transport)).unwrap_or(LogTransport::Udp),
        name: text(Text::Qname),
        rtype: entry.text(Text::Qtype).to_owned(),
        class: entry.text(Text::Qclass).to_owned(),
        rcode: text(Text::Rcode).filter(|_| reply_octets > 0),
        flags: flags(small(Int::Flags).unwrap_or_default()),
        ede: small(Int::Ede),
        outcome: of_word(entry.text(Text::Stage)).unwrap_or(QueryStage::Ignored),
        kind: of_word(entry.text(Text::Outcome)).unwrap_or(OutcomeKind::Answered),
        cache: of_word(entry.text(Text::Cache)).unwrap_or(CacheUse::NotAsked),
        validated: of_word(entry.text(Text::Validation)).unwrap_or(ValidationState::Unknown),
        rule: text(Text::Rule),
        lists: entry.set(Set::Lists).to_vec(),
        revision: number(Int::Revision).unwrap_or_default() as u32,
        upstream: text(Text::Upstream),
        upstream_rtt_ms: number(Int::Rtt).map(|micros| (micros / 1_000) as u32),
        duration_us: number(Int::Delay),
        query_octets: small(Int::QuerySize).unwrap_or_default(),
        reply_octets,
        answers: small(Int::AnswerCount).unwrap_or_default(),
        answer: entry.text(Text::Answer).split_whitespace().map(str::to_owned).collect(),
    }
}

/// Returns the damaged files, without the path of the directory.
pub(crate) fn damaged(broken: Vec<Broken>) -> Vec<DamagedFile> {
    let one = |Broken { path, reason }: Broken| {
        let directory = path.parent().map(|parent| format!("{}/", parent.display()));
        DamagedFile {
            file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            reason: directory.map_or(reason.clone(), |directory| reason.replace(&directory, "")),
        }
    };
    let mut all: Vec<DamagedFile> = broken.into_iter().map(one).collect();
    all.sort_unstable();
    all.dedup();
    all
}
