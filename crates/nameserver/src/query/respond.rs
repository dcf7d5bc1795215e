//! The last step of every answer: applies the client's ID, letter case, flags and size, and adds
//! OPT.
//!
//! A [`Draft`] is a message in the format of the packet cache: folded question at offset 12, no
//! OPT.

use std::sync::Arc;

use avocet_wire::builder::OptFields;
use avocet_wire::edns::{EdnsOption, OPT_LEN};
use avocet_wire::header::{AD, HEADER_LEN, Header, QR, RA, TC};
use avocet_wire::view::{MessageView, RecordSection};
use avocet_wire::{Ede, Rcode, Rtype, short};

use super::asked::{Asked, AskedEdns, ZoneVersion};

/// Maximum number of octets of this server's OPT record, with cookie, EDE and its text, NSID, and
/// keepalive.
const MAX_OPT: usize = 512;
/// Maximum length of the NSID that is sent, in octets. A longer NSID is truncated to this length.
const MAX_NSID: usize = 128;

/// Answers with padding have a multiple of this number of octets (RFC 8467 §4.1).
const PADDED: usize = 468;
/// The code of the padding option (RFC 7830 §3).
const PADDING: u16 = 12;
/// The type of a zone version that is the serial of the SOA record (RFC 9660 §2).
const SOA_SERIAL: u8 = 0;
/// Number of octets of an EDNS option without its data.
const OPTION_HEAD: usize = 4;

/// An answer before it is adapted to the client.
#[derive(Clone, Copy, Debug)]
pub struct Draft {
    /// Number of octets of the message in the buffer.
    pub len: usize,
    /// The RCODE with its upper bits.
    pub rcode: Rcode,
    /// The extended error, with a text of this server.
    pub ede: Option<(Ede, &'static str)>,
    /// The index of the reason why the policy gave this answer ([`Identity::notes`]), from 1; 0 if
    /// the answer is not from the policy.
    pub note: u16,
}

/// The reason for an answer of the policy, as an extended error with a text.
pub type Note = (Ede, Box<str>);

/// The properties of this server that every answer may contain.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The EDNS buffer size.
    pub udp_size: u16,
    /// NSID, if one is configured.
    pub nsid: Option<Box<[u8]>>,
    /// The idle timeout for TCP clients that request it, in units of 100 ms (RFC 7828).
    pub keepalive: u16,
    /// The reasons that answers of the policy may have.
    pub notes: Arc<[Note]>,
}

/// Writes a message without records: header and, if given, the question.
pub fn draft_empty(out: &mut [u8], question: Option<&[u8]>, rcode: Rcode) -> Draft {
    let count = u16::from(question.is_some());
    let question = question.unwrap_or_default();
    let len = HEADER_LEN + question.len();
    let header = Header { id: 0, flags: QR | RA | rcode.low(), counts: [count, 0, 0, 0] };
    if let Some((head, rest)) = out.split_first_chunk_mut() {
        header.write(head);
        rest[..question.len()].copy_from_slice(question);
    }
    Draft { len, rcode, ede: None, note: 0 }
}

/// Turns the draft in `out` into the client's answer and returns its length. `question` is the
/// question as received.
#[inline(always)]
pub fn finish(
    out: &mut [u8],
    draft: Draft,
    asked: &Asked,
    question: &[u8],
    identity: &Identity,
) -> usize {
    out[..2].copy_from_slice(&asked.id.to_be_bytes());
    let [flags_high, flags_low] = asked.flags.to_be_bytes();
    out[2] |= flags_high;
    out[3] |= flags_low;
    if !asked.wants_ad {
        out[3] &= !(AD as u8);
    }
    if let Some(ours) = out.get_mut(HEADER_LEN..HEADER_LEN + question.len()) {
        short::copy(question, ours);
    }
    match &asked.edns {
        None if draft.len <= usize::from(asked.limit) => draft.len,
        None => truncate(out, draft.len, usize::from(asked.limit)),
        Some(edns) => finish_with_opt(out, draft, edns, usize::from(asked.limit), identity),
    }
}

#[inline]
fn finish_with_opt(
    out: &mut [u8],
    draft: Draft,
    edns: &AskedEdns,
    limit: usize,
    identity: &Identity,
) -> usize {
    let limit = limit.min(out.len());
    let len = draft.len;
    // Usually the OPT record fits, so it is written without measuring it first.
    let opt_len =
        out.get_mut(len..len + MAX_OPT).map(|room| write_opt(room, draft, edns, identity));
    let (len, opt_len) = match opt_len.filter(|opt_len| len + opt_len <= limit) {
        Some(opt_len) => (len, opt_len),
        None => finish_short(out, draft, (edns, limit), identity),
    };
    let additional = u16::from_be_bytes([out[10], out[11]]) + 1;
    out[10..12].copy_from_slice(&additional.to_be_bytes());
    if edns.padding {
        return len + pad(&mut out[len..limit], len, opt_len);
    }
    len + opt_len
}

/// Adds padding to the OPT record at the start of `room`, which follows `before` octets of message,
/// so that the message fills blocks of [`PADDED`] octets. Returns the length of the record, which
/// gets no padding if the message would get too long.
#[cold]
fn pad(room: &mut [u8], before: usize, opt_len: usize) -> usize {
    let padded = (before + opt_len + OPTION_HEAD).next_multiple_of(PADDED).min(before + room.len());
    let Some(octets) = padded.checked_sub(before + opt_len + OPTION_HEAD) else { return opt_len };
    let option = &mut room[opt_len..padded - before];
    option.fill(0);
    option[..2].copy_from_slice(&PADDING.to_be_bytes());
    option[2..4].copy_from_slice(&(octets as u16).to_be_bytes());
    let options = (padded - before - OPT_LEN) as u16;
    room[OPT_LEN - 2..OPT_LEN].copy_from_slice(&options.to_be_bytes());
    padded - before
}

/// Appends the OPT record to a message if there is little room for both. Returns the lengths of
/// both.
///
/// If the octets do not suffice, the text of the extended error is omitted first. The error is
/// omitted next, which sets TC, and then records (RFC 8914 §3). NSID and the version of the zone
/// are omitted if otherwise there is no room for the question.
#[cold]
fn finish_short(
    out: &mut [u8],
    draft: Draft,
    (edns, limit): (&AskedEdns, usize),
    identity: &Identity,
) -> (usize, usize) {
    let error = draft.ede.or_else(|| note(draft, identity));
    let without_text = Draft { ede: error.map(|(code, _)| (code, "")), note: 0, ..draft };
    let without_error = Draft { ede: None, note: 0, ..draft };
    let without_nsid = AskedEdns { nsid: false, zone_version: ZoneVersion::NotAsked, ..*edns };
    let forms = [
        (draft, edns),
        (without_text, edns),
        (without_error, edns),
        (without_error, &without_nsid),
    ];
    let mut opt = [0; MAX_OPT];
    let mut first_that_fits = |forms: &[(Draft, &AskedEdns)], room: usize| {
        forms.iter().find_map(|(form, edns)| {
            let opt_len = write_opt(&mut opt, *form, edns, identity);
            (opt_len <= room).then_some((form.ede.is_some() || form.note != 0, opt_len))
        })
    };
    let mut len = draft.len;
    let room = |len: usize| limit.saturating_sub(len);
    let fitting = first_that_fits(&forms[..3], room(len)).or_else(|| {
        let least = write_opt(&mut [0; MAX_OPT], without_error, edns, identity);
        len = truncate(out, len, room(least));
        first_that_fits(&forms, room(len))
    });
    // The shortest OPT record always fits after the longest question, because no limit is below 512
    // octets.
    let (has_error, opt_len) = fitting.unwrap_or((false, OPT_LEN));
    if error.is_some() && !has_error {
        set_truncated(out);
    }
    out[len..len + opt_len].copy_from_slice(&opt[..opt_len]);
    (len, opt_len)
}

fn set_truncated(out: &mut [u8]) {
    if let Some(head) = out.first_chunk_mut()
        && let Some(mut header) = Header::read(&head[..])
    {
        header.flags |= TC;
        header.write(head);
    }
}

/// Returns the reason for an answer of the policy: the extended error and its text.
fn note(draft: Draft, identity: &Identity) -> Option<(Ede, &str)> {
    let place = usize::from(draft.note).checked_sub(1)?;
    identity.notes.get(place).map(|(code, text)| (*code, &**text))
}

/// Writes the OPT record to the start of `room`, which has [`MAX_OPT`] octets. Returns the length
/// of the record.
#[inline]
fn write_opt(room: &mut [u8], draft: Draft, edns: &AskedEdns, identity: &Identity) -> usize {
    let fields =
        OptFields { udp_size: identity.udp_size, rcode: draft.rcode, dnssec_ok: edns.dnssec_ok };
    let (head, options) = room.split_at_mut(OPT_LEN);
    let mut options_len = 0;
    if edns.cookie.is_some()
        || draft.ede.is_some()
        || draft.note != 0
        || edns.nsid
        || edns.keepalive
        || edns.zone_version != ZoneVersion::NotAsked
    {
        options_len = write_options(options, draft, edns, identity);
    }
    let (fixed, length) = head.split_at_mut(OPT_LEN - 2);
    fixed.copy_from_slice(&fields.head());
    length.copy_from_slice(&(options_len as u16).to_be_bytes());
    OPT_LEN + options_len
}

fn write_options(out: &mut [u8], draft: Draft, edns: &AskedEdns, identity: &Identity) -> usize {
    let mut len = 0;
    let mut put = |option: EdnsOption<'_>| len += option.write(&mut out[len..]).unwrap_or(0);
    if let Some(cookie) = &edns.cookie
        && let Some((client, server)) = cookie.split_first_chunk()
    {
        put(EdnsOption::Cookie { client, server });
    }
    if edns.keepalive {
        put(EdnsOption::TcpKeepalive(Some(identity.keepalive)));
    }
    if edns.nsid
        && let Some(nsid) = &identity.nsid
    {
        put(EdnsOption::Nsid(&nsid[..nsid.len().min(MAX_NSID)]));
    }
    if let ZoneVersion::Known { labels, serial } = edns.zone_version {
        put(EdnsOption::ZoneVersion(Some((labels, SOA_SERIAL, &serial))));
    }
    if let Some((code, text)) = draft.ede.or_else(|| note(draft, identity)) {
        put(EdnsOption::Ede(code, text.as_bytes()));
    }
    len
}

/// Truncates the message to at most `room` octets at an RRset boundary (RFC 2181 §9). Sets TC
/// unless only additional records are removed.
#[cold]
fn truncate(out: &mut [u8], len: usize, room: usize) -> usize {
    let Ok(view) = MessageView::new(&out[..len]) else { return len };
    let mut header = view.header();
    let Ok(mut records) = view.records() else { return len };
    let mut kept = records.position();
    let mut kept_counts = [header.counts[0], 0, 0, 0];
    let mut counts = kept_counts;
    let mut truncated = false;
    let mut previous = None;
    loop {
        let start = records.position();
        let record = records.next().and_then(Result::ok);
        let set = record.map(|r| (r.section, r.owner().ok(), r.rtype, r.class));
        if set != previous {
            if start > room {
                truncated =
                    previous.is_some_and(|(section, ..)| section != RecordSection::Additional);
                break;
            }
            (kept, kept_counts) = (start, counts);
        }
        let Some((section, ..)) = set else { break };
        previous = set;
        counts[1 + section as usize] += 1;
    }
    header.counts = kept_counts;
    if truncated {
        header.flags |= TC;
    }
    if let Some(head) = out.first_chunk_mut() {
        header.write(head);
    }
    kept
}

/// Replaces the answer in `out` with an empty answer with TC. A genuine client then repeats its
/// query over TCP, or with the cookie in the answer. Returns the length of the empty answer.
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
    // OPT is the last record.
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

/// Writes a draft with TC and without records, for a client that must use TCP.
pub(super) fn sent_to_tcp(question: &[u8], out: &mut [u8]) -> Draft {
    // The buffer may contain another answer, so its header is cleared.
    out[..HEADER_LEN].fill(0);
    truncated(question, out)
}

/// Writes a draft with TC and without records. It replaces the answer that begins in `out` and
/// exceeds every UDP message.
pub fn truncated(question: &[u8], out: &mut [u8]) -> Draft {
    let rcode = Rcode(u16::from(out[3] & 0xf));
    let draft = draft_empty(out, Some(question), rcode);
    Draft { len: only_truncated(out, question.len()), ..draft }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::asked::Transport;
    use avocet_wire::Class;
    use avocet_wire::builder::{Builder, Record, Section};

    const QNAME: &[u8] = b"\x03www\x07example\x00";
    const QUESTION: &[u8] = b"\x03WWW\x07example\x00\x00\x01\x00\x01";

    const EDNS: AskedEdns = AskedEdns {
        dnssec_ok: true,
        nsid: true,
        keepalive: false,
        subnet: false,
        padding: false,
        cookie_valid: false,
        cookie: Some([9; 24]),
        zone_version: ZoneVersion::NotAsked,
    };

    fn asked(limit: u16, edns: Option<AskedEdns>) -> Asked {
        Asked {
            id: 0x1234,
            flags: 0x0110,
            limit,
            transport: Transport::Udp,
            wants_ad: edns.is_some(),
            edns,
        }
    }

    fn identity() -> Identity {
        Identity {
            udp_size: 1232,
            nsid: Some(b"gw1".as_slice().into()),
            keepalive: 100,
            notes: Arc::default(),
        }
    }

    /// Writes a draft with a CNAME and this number of A records.
    fn draft(out: &mut [u8], addresses: u8) -> Draft {
        let mut b = Builder::new(out, 4096, 0, QR | RA).unwrap();
        b.question(QNAME, Rtype::A, Class::IN).unwrap();
        fn record<'r>(owner: &'r [u8], rtype: Rtype, rdata: &'r [u8]) -> Record<'r> {
            Record { owner, rtype, class: Class::IN, ttl_secs: 60, rdata }
        }
        b.record(Section::Answer, &record(QNAME, Rtype::CNAME, b"\x01a\x07example\x00")).unwrap();
        for i in 0..addresses {
            let address = [10, 0, 0, i];
            b.record(Section::Answer, &record(b"\x01a\x07example\x00", Rtype::A, &address))
                .unwrap();
        }
        Draft {
            len: b.finish(),
            rcode: Rcode::NOERROR,
            ede: Some((Ede::STALE_ANSWER, "old")),
            note: 0,
        }
    }

    #[test]
    fn id_case_flags_and_options_are_the_clients() {
        let mut out = [0; 4096];
        let draft = draft(&mut out, 1);
        let len = finish(&mut out, draft, &asked(1232, Some(EDNS)), QUESTION, &identity());
        let view = MessageView::new(&out[..len]).unwrap();
        assert_eq!((view.header().id, view.header().flags), (0x1234, 0x8190));
        assert_eq!(view.question().unwrap().octets(), QUESTION);
        let edns = view.edns().unwrap().unwrap();
        assert!(edns.dnssec_ok);
        let options: Vec<_> = edns.options().map(Result::unwrap).collect();
        assert_eq!(options.len(), 3);
        assert!(options.contains(&EdnsOption::Nsid(b"gw1")));
        assert!(options.contains(&EdnsOption::Ede(Ede::STALE_ANSWER, b"old")));
    }

    #[test]
    fn an_answer_that_is_too_large_is_cut_at_an_rrset() {
        for (addresses, limit, answers, tc) in
            [(10, 512, 11, false), (100, 512, 1, true), (60, 1232, 61, false), (80, 1232, 1, true)]
        {
            for edns in [None, Some(EDNS)] {
                let mut out = [0; 4096];
                let draft = draft(&mut out, addresses);
                let len = finish(&mut out, draft, &asked(limit, edns), QUESTION, &identity());
                assert!(len <= usize::from(limit));
                let view = MessageView::new(&out[..len]).unwrap();
                assert_eq!(view.header().counts[1], answers, "{addresses} {limit}");
                assert_eq!(view.header().has(TC), tc);
                assert_eq!(view.edns().unwrap().is_some(), edns.is_some());
                assert_eq!(view.records().unwrap().filter(|r| r.is_err()).count(), 0);
            }
        }
    }

    /// Returns the reply to a client with a limit of 512 octets, made from a draft with this number
    /// of addresses and a policy note of this number of octets. Returns four values: whether TC is
    /// set, the number of answers, whether NSID is present, and the length of the error's text.
    fn fitted(qname: &[u8], (addresses, text): (u8, usize)) -> (bool, u16, bool, Option<usize>) {
        let mut out = [0; 4096];
        let mut builder = Builder::new(&mut out, 4096, 0, QR | RA).unwrap();
        builder.question(qname, Rtype::A, Class::IN).unwrap();
        for last in 0..addresses {
            let rdata = &[10, 0, 0, last];
            let record =
                Record { owner: qname, rtype: Rtype::A, class: Class::IN, ttl_secs: 60, rdata };
            builder.record(Section::Answer, &record).unwrap();
        }
        let len = builder.finish();
        let notes = Arc::new([(Ede::BLOCKED, "x".repeat(text).into())]);
        let identity = Identity { nsid: Some([b'n'; 128].into()), notes, ..identity() };
        let draft = Draft { len, rcode: Rcode::NOERROR, ede: None, note: 1 };
        let question = [qname, &[0, 1, 0, 1]].concat();
        let len = finish(&mut out, draft, &asked(512, Some(EDNS)), &question, &identity);
        assert!(len <= 512, "{len} octets");
        let view = MessageView::new(&out[..len]).unwrap();
        assert_eq!(view.records().unwrap().filter(|record| record.is_err()).count(), 0);
        let edns = view.edns().unwrap().unwrap();
        let options: Vec<_> = edns.options().map(Result::unwrap).collect();
        let text = options.iter().find_map(|option| match option {
            EdnsOption::Ede(Ede::BLOCKED, text) => Some(text.len()),
            _ => None,
        });
        let has_nsid = options.iter().any(|option| matches!(option, EdnsOption::Nsid(_)));
        (view.header().has(TC), view.header().counts[1], has_nsid, text)
    }

    #[test]
    fn options_give_way_to_records_and_records_to_the_limit() {
        let long = [&[63; 64][..], &[63; 64], &[63; 64], &[61; 62], &[0]].concat();
        for (qname, message, expected) in [
            (QNAME, (1, 64), (false, 1, true, Some(64))),
            (QNAME, (16, 64), (false, 16, true, Some(0))),
            // The answer has 336 octets, OPT without the error has 171, and an error without text
            // has 6.
            (b"\x06wwwwww\x07example\x00", (19, 64), (true, 19, true, None)),
            (QNAME, (20, 64), (true, 0, true, Some(64))),
            (&long[..], (0, 64), (false, 0, true, Some(64))),
            (&long[..], (0, 128), (false, 0, true, Some(0))),
            (&long[..], (5, 64), (true, 0, true, Some(64))),
        ] {
            assert_eq!(
                fitted(qname, message),
                expected,
                "{} octets of name, {message:?}",
                qname.len()
            );
        }
    }

    /// Returns the length of the padded answer with this number of addresses, and of its padding.
    fn padded(addresses: u8, limit: u16) -> (usize, Option<u16>) {
        let mut out = [0xff; 4096];
        let draft = draft(&mut out, addresses);
        let asked = asked(limit, Some(AskedEdns { padding: true, ..EDNS }));
        let len = finish(&mut out, draft, &asked, QUESTION, &identity());
        let view = MessageView::new(&out[..len]).unwrap();
        assert_eq!(view.records().unwrap().filter(|record| record.is_err()).count(), 0);
        let edns = view.edns().unwrap().unwrap();
        let padding = edns.options().map(Result::unwrap).find_map(|option| match option {
            EdnsOption::Padding(octets) => Some(octets),
            _ => None,
        });
        (len, padding)
    }

    #[test]
    fn a_padded_answer_fills_blocks_as_far_as_its_limit_permits() {
        let plain = |addresses: u8| {
            let mut out = [0; 4096];
            let draft = draft(&mut out, addresses);
            finish(&mut out, draft, &asked(u16::MAX, Some(EDNS)), QUESTION, &identity())
        };
        for addresses in 0..120 {
            let (len, padding) = padded(addresses, u16::MAX);
            let expected = (plain(addresses) + 4).next_multiple_of(468);
            assert_eq!((len, padding), (expected, Some((expected - plain(addresses) - 4) as u16)));
        }
        let len = plain(1) as u16;
        assert_eq!(padded(60, 1300).0, 1300);
        // The first block would exceed the limit, or there is no room for the padding option.
        assert!(len < 468 && len + 3 < 512);
        assert_eq!(padded(1, 512), (468, Some(468 - 4 - len)));
    }

    #[test]
    fn a_message_without_question_has_only_a_header() {
        let mut out = [0; 512];
        let draft = draft_empty(&mut out, None, Rcode::FORMERR);
        let len = finish(&mut out, draft, &asked(512, None), &[], &identity());
        assert_eq!(len, HEADER_LEN);
        assert_eq!(MessageView::new(&out[..len]).unwrap().header().rcode(), Rcode::FORMERR);
    }
}
