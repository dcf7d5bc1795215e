//! An entry of the query log as clients of the control socket see it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use avocet_control::log::{LogEntry, LogTransport, OutcomeKind};
use avocet_control::why::{CacheUse, QueryStage, ValidationState};
use avocet_nameserver::metrics::STAGES;
use avocet_nameserver::query::asked::Transport;
use avocet_querylog::{Entry, Label, Labels, NO_EDE, Privacy};
use avocet_wire::header::{AA, AD, CD, HEADER_LEN, QR, RA, RD, TC};
use avocet_wire::{Class, MessageView, NameBuf, Rcode, RecordView, Rtype};
use ipnet::IpNet;
use serde::de::DeserializeOwned;

/// The flags of a header with their names.
const FLAGS: [(u16, &str); 6] =
    [(AA, "aa"), (TC, "tc"), (RD, "rd"), (RA, "ra"), (AD, "ad"), (CD, "cd")];
/// Maximum number of records of an answer that are shown.
const MAX_SHOWN: usize = 8;
/// Prefix lengths of truncated addresses, for IPv4 and IPv6.
const TRUNCATED: [u8; 2] = [24, 56];

/// Returns an entry with texts instead of numbers, as far as the privacy of its client permits.
pub(crate) fn shown(entry: &Entry<'_>, labels: &impl Labels) -> LogEntry {
    let facts = &entry.facts;
    let texts = |label, number: u16| {
        let mut all = Vec::new();
        labels.texts(facts.revision, label, number, &mut |text| all.push(text.to_owned()));
        all
    };
    let text = |label, number: u16| texts(label, number).pop();
    let has_reply = facts.response_size > 0;
    let has_names = facts.privacy != Privacy::NoNames;
    let name = NameBuf::from_wire(entry.qname).ok().filter(|_| has_names);
    LogEntry {
        id: None,
        time_us: facts.time_us,
        client: client(facts.client, facts.privacy),
        client_name: text(Label::Device, facts.device)
            .filter(|_| matches!(facts.privacy, Privacy::Full | Privacy::NoNames)),
        groups: texts(Label::Groups, facts.profile),
        listener: text(Label::Listener, facts.listener),
        transport: of_word(Transport::of_number(facts.transport).name())
            .unwrap_or(LogTransport::Udp),
        name: name.map(|name| name.folded().to_string()),
        rtype: Rtype(facts.qtype).to_string(),
        class: Class(facts.qclass).to_string(),
        rcode: has_reply.then(|| Rcode(facts.rcode).to_string()),
        flags: flags(facts.flags),
        ede: Some(facts.ede).filter(|code| *code != NO_EDE),
        outcome: STAGES
            .get(usize::from(facts.stage))
            .and_then(|word| of_word(word))
            .unwrap_or(QueryStage::Ignored),
        kind: of_word(facts.outcome.name()).unwrap_or(OutcomeKind::Answered),
        cache: text(Label::Cache, facts.cache.into())
            .and_then(|word| of_word(&word))
            .unwrap_or(CacheUse::NotAsked),
        validated: text(Label::Validation, facts.validation.into())
            .and_then(|word| of_word(&word))
            .unwrap_or(ValidationState::Unknown),
        rule: Some(facts.rule).filter(|rule| *rule != 0).and_then(|rule| text(Label::Rule, rule)),
        lists: entry.lists.iter().filter_map(|list| text(Label::List, *list)).collect(),
        revision: facts.revision,
        upstream: text(Label::Upstream, facts.upstream),
        upstream_rtt_ms: Some(facts.upstream_rtt_us / 1_000).filter(|_| facts.upstream != 0),
        duration_us: Some(facts.response_delay_us.into()),
        query_octets: facts.query_size,
        reply_octets: facts.response_size,
        answers: facts.answer_count,
        answer: if has_names { answer(entry) } else { Vec::new() },
    }
}

/// Returns the names of the flags that are set in the second 16 bits of a header.
pub(super) fn flags(bits: u16) -> Vec<String> {
    let set = FLAGS.iter().filter(|(bit, _)| bits & bit != 0);
    set.map(|(_, name)| (*name).to_owned()).collect()
}

/// Returns the variant of an enum that has this name, if there is one.
pub(super) fn of_word<T: DeserializeOwned>(word: &str) -> Option<T> {
    serde_json::from_value(word.into()).ok()
}

/// Returns the address of the client, as far as its privacy permits; `None` if it is withheld.
fn client(ip: IpAddr, privacy: Privacy) -> Option<String> {
    match privacy {
        Privacy::Full | Privacy::NoNames => Some(ip.to_string()),
        Privacy::Truncated => {
            let bits = TRUNCATED[usize::from(ip.is_ipv6())];
            IpNet::new(ip, bits).ok().map(|net| net.trunc().to_string())
        }
        Privacy::Pseudonym => None,
    }
}

/// Returns the first addresses and aliases of the answer, as far as the entry has its octets.
fn answer(entry: &Entry<'_>) -> Vec<String> {
    let facts = &entry.facts;
    if facts.answer_count == 0 || entry.qname.is_empty() {
        return Vec::new();
    }
    let mut message = vec![0; HEADER_LEN];
    message[2..4].copy_from_slice(&QR.to_be_bytes());
    message[4..6].copy_from_slice(&1_u16.to_be_bytes());
    message[6..8].copy_from_slice(&facts.answer_count.to_be_bytes());
    message.extend_from_slice(entry.qname);
    message.extend_from_slice(&facts.qtype.to_be_bytes());
    message.extend_from_slice(&facts.qclass.to_be_bytes());
    message.extend_from_slice(entry.answer);
    let Some(records) = MessageView::new(&message).ok().and_then(|view| view.records().ok()) else {
        return Vec::new();
    };
    let records = records.take(facts.answer_count.into()).map_while(Result::ok);
    records.filter_map(|record| target(&message, &record)).take(MAX_SHOWN).collect()
}

/// Returns the target of a record: its address, or its alias.
fn target(message: &[u8], record: &RecordView<'_>) -> Option<String> {
    match (record.rtype, record.rdata()) {
        (Rtype::A, rdata) => {
            rdata.try_into().ok().map(|octets: [u8; 4]| Ipv4Addr::from(octets).to_string())
        }
        (Rtype::AAAA, rdata) => {
            rdata.try_into().ok().map(|octets: [u8; 16]| Ipv6Addr::from(octets).to_string())
        }
        (Rtype::CNAME, _) => {
            NameBuf::read(message, record.ttl_offset() + 6).ok().map(|name| name.to_string())
        }
        _ => None,
    }
}
