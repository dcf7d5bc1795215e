//! Admission: rejects queries that are malformed or come from clients that are not allowed.

use avocet_wire::edns::OPT_LEN;
use avocet_wire::query::edns_without_question;
use avocet_wire::{Ede, Header, QueryError, QueryView, Rcode, Rtype};

use super::asked::{Asked, AskedEdns, Reader, ZoneVersion};
use super::context::{Client, QueryContext};
use super::decision::Stage;
use super::respond::{Draft, draft_empty};

/// The response to a query that is not admitted.
pub(super) enum Rejection<'q> {
    /// The client gets the draft in the buffer.
    Reply {
        /// The draft.
        draft: Draft,
        /// The header and EDNS data that could be read.
        asked: Asked,
        /// The question as received; empty if none was read.
        question: &'q [u8],
        /// QTYPE; zero if no question was read.
        qtype: Rtype,
        /// The stage for the metrics.
        stage: Stage,
    },
    /// The client gets no response.
    Silence(Stage),
}

/// Rejects a malformed message: with an error response, or silently if it is not a query. Answers a
/// query that has a cookie but no question.
#[cold]
pub(super) fn malformed<'q>(
    cx: &QueryContext<'_>,
    octets: &'q [u8],
    error: QueryError,
    client: &Client<'_>,
    out: &mut [u8],
) -> Rejection<'q> {
    let (rcode, question_end) = match error {
        QueryError::Ignore => return Rejection::Silence(Stage::Ignored),
        QueryError::NotImplemented => (Rcode::NOTIMP, None),
        QueryError::NoQuestion => match cookie_alone(cx, octets, client, out) {
            Some(rejection) => return rejection,
            None => (Rcode::FORMERR, None),
        },
        QueryError::Format(end) => (Rcode::FORMERR, end),
    };
    let Some(header) = Header::read(octets) else { return Rejection::Silence(Stage::Ignored) };
    if !cx.state.allow.admits(client.entrance, client.ip) {
        return Rejection::Silence(Stage::Refused);
    }
    let question = question_end.and_then(|end| octets.get(12..usize::from(end)));
    let mut asked = Asked::from_header(header, client.transport);
    if error == QueryError::NotImplemented {
        asked.flags |= header.flags & 0x7800;
    }
    let draft = draft_empty(out, question, rcode);
    let (question, qtype) = (question.unwrap_or_default(), Rtype(0));
    Rejection::Reply { draft, asked, question, qtype, stage: Stage::Malformed }
}

/// Answers a query that has a cookie but no question (RFC 7873 §5.4).
fn cookie_alone<'q>(
    cx: &QueryContext<'_>,
    octets: &[u8],
    client: &Client<'_>,
    out: &mut [u8],
) -> Option<Rejection<'q>> {
    let edns = edns_without_question(octets).filter(|edns| edns.version == 0)?;
    let header = Header::read(octets)?;
    let reader = || reader(cx, client);
    let asked = Asked::read_parts(header, Some(&edns), client.transport, reader).ok()?;
    asked.edns.filter(|edns| edns.cookie.is_some())?;
    if !cx.state.allow.admits(client.entrance, client.ip) {
        return Some(Rejection::Silence(Stage::Refused));
    }
    let draft = draft_empty(out, None, Rcode::NOERROR);
    let (question, qtype) = (&[][..], Rtype(0));
    Some(Rejection::Reply { draft, asked, question, qtype, stage: Stage::Special })
}

/// Refuses a client that is not allowed. REFUSED is never larger than the query, so that it cannot
/// be used for amplification: the extended error is added only if it fits.
#[cold]
pub(super) fn refused<'q>(
    cx: &QueryContext<'_>,
    view: &QueryView<'q>,
    octets: &[u8],
    client: &Client<'_>,
    out: &mut [u8],
) -> Rejection<'q> {
    let plain = || Reader { cookies: None, ..reader(cx, client) };
    let mut asked = Asked::read(view, client.transport, plain)
        .unwrap_or(Asked::from_header(view.header(), client.transport));
    if let Some(edns) = &mut asked.edns {
        edns.nsid = false;
        edns.keepalive = false;
        edns.padding = false;
    }
    let question = view.question();
    let draft = draft_empty(out, Some(question), Rcode::REFUSED);
    let with_error = draft.len + OPT_LEN + 6;
    let ede = (with_error <= octets.len()).then_some((Ede::PROHIBITED, ""));
    let (draft, qtype) = (Draft { ede, ..draft }, view.qtype);
    Rejection::Reply { draft, asked, question, qtype, stage: Stage::Refused }
}

/// Rejects a query with a malformed EDNS option.
#[cold]
pub(super) fn bad_option<'q>(
    view: &QueryView<'q>,
    client: &Client<'_>,
    out: &mut [u8],
) -> Rejection<'q> {
    let mut asked = Asked::from_header(view.header(), client.transport);
    asked.edns = view.edns.map(|edns| AskedEdns {
        dnssec_ok: edns.dnssec_ok,
        nsid: false,
        keepalive: false,
        subnet: false,
        padding: false,
        cookie_valid: false,
        cookie: None,
        zone_version: ZoneVersion::NotAsked,
    });
    // The format of options in other EDNS versions is unknown.
    let is_other_version = view.edns.is_some_and(|edns| edns.version != 0);
    let rcode = if is_other_version { Rcode::BADVERS } else { Rcode::FORMERR };
    let (question, qtype) = (view.question(), view.qtype);
    let draft = draft_empty(out, Some(question), rcode);
    Rejection::Reply { draft, asked, question, qtype, stage: Stage::Malformed }
}

/// Returns the parameters for reading this client's query.
#[inline]
pub(super) fn reader<'p>(cx: &'p QueryContext<'_>, client: &Client<'_>) -> Reader<'p> {
    Reader {
        ip: client.ip,
        max_udp_size: cx.state.config.server.max_udp_size,
        cookies: cx.state.cookies.as_ref(),
        wall_secs: cx.wall_secs,
    }
}
