//! Queries that are not answered with data: malformed ones, and those of strangers.

use avocet_wire::edns::OPT_LEN;
use avocet_wire::query::edns_without_question;
use avocet_wire::{Ede, QueryError, QueryView, Rcode, Rtype};

use super::asked::{self, Asked, Reader};
use super::decision::Stage;
use super::respond::{Draft, draft_empty, finish};
use super::{Client, Exit, Outcome, Path, plain_outcome, reader};

#[cold]
pub(super) fn malformed(
    path: &Path<'_>,
    octets: &[u8],
    (error, client): (QueryError, &Client<'_>),
    out: &mut [u8],
) -> Exit {
    let (rcode, question_end) = match error {
        QueryError::Ignore => return Exit::Silent(Stage::Ignored),
        QueryError::NotImplemented => (Rcode::NOTIMP, None),
        QueryError::NoQuestion => match cookie_alone(path, octets, client, out) {
            Some(exit) => return exit,
            None => (Rcode::FORMERR, None),
        },
        QueryError::Format(end) => (Rcode::FORMERR, end),
    };
    let Some(header) = avocet_wire::Header::read(octets) else {
        return Exit::Silent(Stage::Ignored);
    };
    if !path.state.allow.contains(client.ip) {
        return Exit::Silent(Stage::Refused);
    }
    let question = question_end.and_then(|end| octets.get(12..usize::from(end)));
    let mut asked = Asked::from_header(header, client.transport);
    if error == QueryError::NotImplemented {
        asked.flags |= header.flags & 0x7800;
    }
    let draft = draft_empty(out, question, rcode);
    let len = finish(out, draft, &asked, question.unwrap_or_default(), &path.state.identity);
    Exit::Reply { len, outcome: plain_outcome(Stage::Malformed, rcode, Rtype(0)) }
}

/// Answers a query without a question that has a cookie (RFC 7873 §5.4).
fn cookie_alone(
    path: &Path<'_>,
    octets: &[u8],
    client: &Client<'_>,
    out: &mut [u8],
) -> Option<Exit> {
    let edns = edns_without_question(octets).filter(|edns| edns.version == 0)?;
    let header = avocet_wire::Header::read(octets)?;
    let asked = Asked::read_parts(header, Some(&edns), &reader(path, client)).ok()?;
    asked.edns.filter(|edns| edns.cookie.is_some())?;
    if !path.state.allow.contains(client.ip) {
        return Some(Exit::Silent(Stage::Refused));
    }
    let draft = draft_empty(out, None, Rcode::NOERROR);
    let len = finish(out, draft, &asked, &[], &path.state.identity);
    let outcome = plain_outcome(Stage::Special, Rcode::NOERROR, Rtype(0));
    Some(Exit::Reply { len, outcome: Outcome { verified: asked.is_verified(), ..outcome } })
}

/// REFUSED is never larger than the query, so that it amplifies nothing: the extended error goes
/// along only where it fits.
#[cold]
pub(super) fn refused(
    path: &Path<'_>,
    view: &QueryView<'_>,
    (octets, client): (&[u8], &Client<'_>),
    out: &mut [u8],
) -> Exit {
    let plain = Reader { cookies: None, ..reader(path, client) };
    let mut asked =
        Asked::read(view, &plain).unwrap_or(Asked::from_header(view.header(), client.transport));
    if let Some(edns) = &mut asked.edns {
        edns.nsid = false;
        edns.keepalive = false;
    }
    let question = view.question();
    let draft = draft_empty(out, Some(question), Rcode::REFUSED);
    let with_error = draft.len + OPT_LEN + 6;
    let ede = (with_error <= octets.len()).then_some((Ede::PROHIBITED, ""));
    let len = finish(out, Draft { ede, ..draft }, &asked, question, &path.state.identity);
    Exit::Reply { len, outcome: plain_outcome(Stage::Refused, Rcode::REFUSED, view.qtype) }
}

#[cold]
pub(super) fn bad_option(
    path: &Path<'_>,
    view: &QueryView<'_>,
    client: &Client<'_>,
    out: &mut [u8],
) -> Exit {
    let mut asked = Asked::from_header(view.header(), client.transport);
    asked.edns = view.edns.map(|edns| asked::AskedEdns {
        dnssec_ok: edns.dnssec_ok,
        nsid: false,
        keepalive: false,
        subnet: false,
        cookie_valid: false,
        cookie: None,
    });
    // What options of another version look like is not for us to say.
    let rcode = if view.edns.is_some_and(|edns| edns.version != 0) {
        Rcode::BADVERS
    } else {
        Rcode::FORMERR
    };
    let draft = draft_empty(out, Some(view.question()), rcode);
    let len = finish(out, draft, &asked, view.question(), &path.state.identity);
    Exit::Reply { len, outcome: plain_outcome(Stage::Malformed, rcode, view.qtype) }
}
