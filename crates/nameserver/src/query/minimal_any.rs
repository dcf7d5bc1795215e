//! The minimal answer to a query for ANY (RFC 8482).

use avocet_wire::builder::{Builder, Full, Record, Section};
use avocet_wire::header::{QR, RA};
use avocet_wire::{Class, FoldedName, Question, Rcode, Rtype};

use super::decision::Stage;
use super::finding::{Finding, Offer};
use super::respond::{Draft, draft_empty};
use super::ttl::{Terms, cut_at_change};

/// TTL in seconds of the HINFO given for ANY (RFC 8482 §4.2).
const ANY_TTL_SECS: u32 = 3600;
/// HINFO data: CPU "RFC8482", OS "".
const ANY_HINFO: &[u8] = b"\x07RFC8482\x00";

/// Answers ANY with an HINFO record (RFC 8482 §4.2), within the policy's limits on TTLs.
pub(super) fn answer(question: Question<'_>, terms: Terms, out: &mut [u8]) -> Finding {
    let draft = draft(question, out);
    cut_at_change(&mut out[..draft.len], terms);
    Finding::Answer(Offer::made(Stage::Local, draft))
}

fn draft(question: Question<'_>, out: &mut [u8]) -> Draft {
    write_any(question.qname(), out)
        .unwrap_or_else(|Full| draft_empty(out, Some(question.octets()), Rcode::SERVFAIL))
}

fn write_any(qname: FoldedName<'_>, out: &mut [u8]) -> Result<Draft, Full> {
    let limit = out.len();
    let mut builder = Builder::new(out, limit, 0, QR | RA)?;
    builder.question(&qname, Rtype::ANY, Class::IN)?;
    let record = Record {
        owner: &qname,
        rtype: Rtype::HINFO,
        class: Class::IN,
        ttl_secs: ANY_TTL_SECS,
        rdata: ANY_HINFO,
    };
    builder.record(Section::Answer, &record)?;
    Ok(Draft { len: builder.finish(), rcode: Rcode::NOERROR, ede: None, note: 0 })
}
