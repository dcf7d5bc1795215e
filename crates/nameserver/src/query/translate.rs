//! DNS64 (RFC 6147) for the answers that the resolver does not make: IPv6 addresses from the IPv4
//! addresses of pools, local records, hosted zones and rules, from the answers of servers to which
//! a rule forwards, and from the RRset cache. The resolver translates what it resolves.
//!
//! The question is answered as it is. If the answer has no IPv6 address, the same question for IPv4
//! addresses is answered, and the addresses in this answer are translated.

use std::num::NonZeroU32;

use avocet_cache::packet_flags;
use avocet_resolver::Dns64;
use avocet_wire::builder::{Builder, Record, Section};
use avocet_wire::header::{AD, Header, TC};
use avocet_wire::name::MAX_NAME;
use avocet_wire::query::QuestionKey;
use avocet_wire::view::{MessageView, RecordSection, RecordView};
use avocet_wire::{Class, NameBuf, Question, Rcode, Rtype};

use super::alias::append_record;
use super::context::{Arrival, Query, QueryContext};
use super::finding::{Basis, Finding, Obtained, Offer};
use super::miss::{Miss, WithoutV6};
use super::respond::Draft;
use super::ttl::ttl_offsets;

/// Maximum TTL of a made record, in seconds, if no SOA record limits it (RFC 6147 §5.1.7).
const MAX_TTL_SECS: u32 = 600;

/// The answer in place of one without IPv6 addresses, or with excluded ones.
pub(super) struct InItsPlace {
    message: Vec<u8>,
    ttl_offsets: Vec<u16>,
    kept_for: Option<NonZeroU32>,
}

impl InItsPlace {
    fn new(message: Vec<u8>, kept_for: Option<NonZeroU32>) -> Self {
        let (ttl_offsets, _) = ttl_offsets(&message);
        Self { message, ttl_offsets, kept_for }
    }

    /// Returns this answer, for which the servers gave the answer `given`.
    pub(super) fn obtained<'a>(&'a self, given: &Obtained<'a>) -> Obtained<'a> {
        let Self { message, ttl_offsets, kept_for } = self;
        Obtained { message, ttl_offsets, kept_for: *kept_for, rcode: Rcode::NOERROR, ..*given }
    }
}

/// Returns the DNS64 that applies to a query; `None` if none does.
#[inline]
pub(super) fn dns64<'s>(cx: &QueryContext<'s>, query: &Query<'_>) -> Option<&'s Dns64> {
    if query.qtype() != Rtype::AAAA {
        return None;
    }
    in_force(cx, query.flags)
}

/// Returns the DNS64 that applies to a client whose query has these packet cache flags.
#[inline]
pub(super) fn in_force<'s>(cx: &QueryContext<'s>, flags: u8) -> Option<&'s Dns64> {
    cx.state.plan.translation().filter(|_| is_for(flags))
}

/// Returns whether a client gets addresses that DNS64 makes, by the packet cache flags of its
/// query: it asks for recursion, and does not validate the answer (RFC 6147 §5.5).
pub(super) fn is_for(flags: u8) -> bool {
    let validates = flags & packet_flags::DO != 0 && flags & packet_flags::CD != 0;
    flags & packet_flags::RD != 0 && !validates
}

/// Returns the basis of an answer of this server or its policy to a question of this type.
pub(super) fn basis(qtype: Rtype) -> Basis {
    if qtype == Rtype::AAAA { Basis::Translation } else { Basis::Question }
}

/// Answers a query by `answer`, and translates addresses if necessary.
#[inline]
pub(super) fn answer(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    out: &mut [u8],
    mut answer: impl FnMut(&Query<'_>, &mut [u8]) -> Finding,
) -> Finding {
    let finding = answer(query, out);
    let Some(dns64) = dns64(cx, query) else { return finding };
    let Finding::Answer(Offer { draft, .. }) = finding else { return finding };
    let ttl_secs = match effect(dns64, draft.rcode, &out[..draft.len]) {
        Dns64Effect::Unchanged => return finding,
        Dns64Effect::Reduced => return reduced(dns64, finding, out),
        Dns64Effect::Translated { ttl_secs } => ttl_secs,
    };
    let key = key_for_v4(cx, query);
    let of_v4 = Query { key: (&key).into(), qtype: Rtype::A, ..*query };
    if let Finding::Answer(offer) = answer(&of_v4, out)
        && offer.draft.rcode == Rcode::NOERROR
    {
        let message = out[..offer.draft.len].to_vec();
        if let Some(len) = write(dns64, &message, ttl_secs, out) {
            let draft = Draft { len, ..offer.draft };
            return Finding::Answer(Offer { draft, basis: Basis::Translation, ..offer });
        }
    }
    // The answer about IPv4 addresses has overwritten the first answer.
    answer(query, out)
}

/// Removes the addresses in the excluded ranges from the answer in the buffer.
#[cold]
fn reduced(dns64: &Dns64, finding: Finding, out: &mut [u8]) -> Finding {
    let Finding::Answer(offer) = finding else { return finding };
    let message = without_excluded(dns64, &out[..offer.draft.len]);
    match message.as_ref().and_then(|message| Some((message, out.get_mut(..message.len())?))) {
        Some((message, place)) => {
            place.copy_from_slice(message);
            let draft = Draft { len: message.len(), ..offer.draft };
            Finding::Answer(Offer { draft, basis: Basis::Translation, ..offer })
        }
        None => Finding::Answer(offer),
    }
}

/// Returns the question for IPv4 addresses, if the servers of a rule gave a waiting query an answer
/// without IPv6 addresses. The same servers resolve it.
pub(super) fn miss_for_v4(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    obtained: Option<&Obtained<'_>>,
) -> Option<Miss> {
    let dns64 = dns64(cx, query)?;
    let Arrival::Waiting(waiter) = query.arrival else { return None };
    let obtained = obtained.filter(|_| query.is_forwarded() && waiter.without_v6.is_none())?;
    let effect = effect(dns64, obtained.rcode, obtained.message);
    let Dns64Effect::Translated { ttl_secs } = effect else { return None };
    let without_v6 = WithoutV6 { message: obtained.message.into(), ttl_secs };
    query.miss_for_v4(&key_for_v4(cx, query), without_v6)
}

/// Returns what takes the place of the answer of a rule's servers to a query that has waited: if
/// the query waited for the IPv4 addresses in `obtained`, an answer with addresses made from them;
/// otherwise, the answer without addresses in the excluded ranges. Returns `None` for other
/// answers, and if the IPv4 addresses could not be resolved (RFC 6147 §5.1.6).
pub(super) fn in_its_place(
    cx: &QueryContext<'_>,
    query: &Query<'_>,
    obtained: Option<&Obtained<'_>>,
) -> Option<InItsPlace> {
    let Arrival::Waiting(waiter) = query.arrival else { return None };
    let obtained = obtained.filter(|obtained| obtained.rcode != Rcode::SERVFAIL)?;
    let dns64 = dns64(cx, query);
    let Some(WithoutV6 { message, ttl_secs }) = waiter.without_v6.as_deref() else {
        let is_reduced = |dns64: &&Dns64| {
            effect(dns64, obtained.rcode, obtained.message) == Dns64Effect::Reduced
        };
        let message = without_excluded(dns64.filter(is_reduced)?, obtained.message)?;
        return Some(InItsPlace::new(message, obtained.kept_for));
    };
    let mut out = vec![0; usize::from(u16::MAX)];
    let made = dns64.and_then(|dns64| write(dns64, obtained.message, *ttl_secs, &mut out));
    let message = match made {
        Some(len) => {
            out.truncate(len);
            out
        }
        None => message.to_vec(),
    };
    let kept_for = obtained.kept_for.and_then(|secs| NonZeroU32::new(secs.get().min(*ttl_secs)));
    Some(InItsPlace::new(message, kept_for))
}

/// What DNS64 changes in an answer about IPv6 addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dns64Effect {
    /// Nothing: the answer has addresses, none of them in the excluded ranges, or it is an error
    /// or truncated.
    Unchanged,
    /// The answer loses its addresses in the excluded ranges. It has others.
    Reduced,
    /// The answer has no address outside of the excluded ranges: IPv6 addresses are made, if there
    /// are IPv4 addresses.
    Translated {
        /// Maximum TTL of made addresses.
        ttl_secs: u32,
    },
}

/// Returns what DNS64 changes in an answer (RFC 6147 §5.1.4).
pub(super) fn effect(dns64: &Dns64, rcode: Rcode, message: &[u8]) -> Dns64Effect {
    let Ok(view) = MessageView::new(message) else { return Dns64Effect::Unchanged };
    let records = view.records().ok().filter(|_| rcode == Rcode::NOERROR && !view.header().has(TC));
    let Some(records) = records else { return Dns64Effect::Unchanged };
    let (mut excluded, mut others, mut ttl_secs) = (0, 0, MAX_TTL_SECS);
    for record in records {
        let Ok(record) = record else { return Dns64Effect::Unchanged };
        match (record.section, record.rtype) {
            (RecordSection::Answer, Rtype::AAAA) if dns64.is_excluded(record.rdata()) => {
                excluded += 1;
            }
            (RecordSection::Answer, Rtype::AAAA) => others += 1,
            (RecordSection::Authority, Rtype::SOA) => ttl_secs = record.ttl_secs(),
            _ => {}
        }
    }
    match (excluded, others) {
        (_, 0) => Dns64Effect::Translated { ttl_secs },
        (0, _) => Dns64Effect::Unchanged,
        _ => Dns64Effect::Reduced,
    }
}

/// Returns an answer without its addresses in the excluded ranges and without the signatures of
/// the addresses.
#[cold]
pub(super) fn without_excluded(dns64: &Dns64, message: &[u8]) -> Option<Vec<u8>> {
    let view = MessageView::new(message).ok()?;
    let question = view.question().ok()?;
    let mut out = vec![0; usize::from(u16::MAX)];
    let (limit, flags) = (out.len(), view.header().flags & !AD);
    let mut builder = Builder::new(&mut out, limit, 0, flags).ok()?;
    builder.question(question.qname().ok()?.wire(), Rtype::AAAA, Class::IN).ok()?;
    let mut rdata = vec![0; usize::from(u16::MAX)];
    for record in view.records().ok()? {
        let record = record.ok()?;
        let is_dropped = match record.rtype {
            Rtype::AAAA => dns64.is_excluded(record.rdata()),
            Rtype::RRSIG => covers(&record, Rtype::AAAA),
            _ => false,
        };
        if record.section != RecordSection::Answer || !is_dropped {
            append_record(&mut builder, &record, &mut rdata)?;
        }
    }
    let len = builder.finish();
    out.truncate(len);
    Some(out)
}

/// Returns the answer with addresses made from those in `of_v4`, in place of `without_v6`. Returns
/// `None` if no address is translated. Both are answers from the RRset cache. The answer is
/// validated if both are (RFC 6147 §5.5).
pub(super) fn from_parts(
    dns64: &Dns64,
    [without_v6, of_v4]: [&[u8]; 2],
    ttl_secs: u32,
) -> Option<Vec<u8>> {
    let mut out = vec![0; usize::from(u16::MAX)];
    let len = write(dns64, of_v4, ttl_secs, &mut out)?;
    out.truncate(len);
    let is_validated = |message| Header::read(message).is_some_and(|header| header.has(AD));
    if is_validated(without_v6) && is_validated(of_v4) {
        let flags = Header::read(&out)?.flags | AD;
        out.get_mut(2..4)?.copy_from_slice(&flags.to_be_bytes());
    }
    Some(out)
}

/// Returns the answer about the reverse name of an address that DNS64 made: an alias of `target`,
/// and the answer about `target` (RFC 6147 §5.3.1).
pub(super) fn alias_to(question: Question<'_>, target: &NameBuf, end: &[u8]) -> Option<Vec<u8>> {
    let view = MessageView::new(end).ok()?;
    let mut records = Vec::new();
    for record in view.records().ok()? {
        records.push(record.ok()?);
    }
    let ttl_secs = records.iter().map(RecordView::ttl_secs).min().unwrap_or(MAX_TTL_SECS);
    let mut out = vec![0; usize::from(u16::MAX)];
    let (limit, flags) = (out.len(), view.header().flags & !AD);
    let mut builder = Builder::new(&mut out, limit, 0, flags).ok()?;
    builder.question(&question.qname(), question.qtype(), question.qclass()).ok()?;
    let owner = &question.qname();
    let (rtype, class) = (Rtype::CNAME, Class::IN);
    let alias = Record { owner, rtype, class, ttl_secs, rdata: target.wire() };
    builder.record(Section::Answer, &alias).ok()?;
    let mut rdata = vec![0; usize::from(u16::MAX)];
    for record in &records {
        append_record(&mut builder, record, &mut rdata)?;
    }
    let len = builder.finish();
    out.truncate(len);
    Some(out)
}

/// Returns the key of the question for the IPv4 addresses of the queried name.
fn key_for_v4(cx: &QueryContext<'_>, query: &Query<'_>) -> QuestionKey {
    let (mut room, asked) = ([0; MAX_NAME + 4], query.key.question().octets());
    let octets = &mut room[..asked.len()];
    octets.copy_from_slice(asked);
    if let Some((_, [high, low, ..])) = octets.split_last_chunk_mut::<4>() {
        [*high, *low] = Rtype::A.0.to_be_bytes();
    }
    QuestionKey::new(octets, &cx.shared.key, 0)
}

/// Writes an answer about IPv4 addresses with IPv6 addresses in their place. Signatures of the IPv4
/// addresses are omitted. Returns the length; `None` if no address is translated.
#[cold]
fn write(dns64: &Dns64, of_v4: &[u8], ttl_secs: u32, out: &mut [u8]) -> Option<usize> {
    let view = MessageView::new(of_v4).ok()?;
    let qname = view.question().ok()?.qname().ok()?;
    let (limit, flags) = (out.len(), view.header().flags & !AD);
    let mut builder = Builder::new(out, limit, 0, flags).ok()?;
    builder.question(qname.wire(), Rtype::AAAA, Class::IN).ok()?;
    let (mut is_made, mut rdata) = (false, Vec::new());
    for record in view.records().ok()? {
        let record = record.ok()?;
        let written = match (record.section, record.rtype) {
            (RecordSection::Additional, _) => break,
            (RecordSection::Answer, Rtype::A) => {
                let Some(octets) = dns64.synthesise(record.rdata()) else { continue };
                is_made = true;
                let owner = record.owner().ok()?;
                let ttl_secs = record.ttl_secs().min(ttl_secs);
                let (rtype, class) = (Rtype::AAAA, Class::IN);
                let record = Record { owner: owner.wire(), rtype, class, ttl_secs, rdata: &octets };
                builder.record(Section::Answer, &record).ok()
            }
            (RecordSection::Answer, Rtype::RRSIG) if covers(&record, Rtype::A) => continue,
            _ => {
                rdata.resize(usize::from(u16::MAX), 0);
                append_record(&mut builder, &record, &mut rdata)
            }
        };
        if written.is_none() {
            builder.truncate();
            break;
        }
    }
    is_made.then(|| builder.finish())
}

/// Returns whether an RRSIG record is for records of a type.
fn covers(record: &RecordView<'_>, rtype: Rtype) -> bool {
    record.rdata().first_chunk() == Some(&rtype.0.to_be_bytes())
}
