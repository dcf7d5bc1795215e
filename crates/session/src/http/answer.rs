//! Responses of upstreams that are not usable, and the responses that replace them.

use avocet_wire::edns::EdnsOption;
use avocet_wire::header::QR;
use avocet_wire::{Ede, MessageView, QueryView, Rcode, Rtype};

/// Number of octets of the header of a message.
const HEADER_LEN: usize = 12;

/// Returns whether a message is a complete response to this query. A response with an error may
/// lack the question. The resolver ignores all other messages, because over UDP they may be forged.
/// On the stream of the query, they are the only response that the server will send.
pub(crate) fn is_response(message: &[u8], query: &[u8]) -> bool {
    let (Ok(view), Ok(asked)) = (MessageView::new(message), MessageView::new(query)) else {
        return false;
    };
    let header = view.header();
    let is_to_query = match header.counts[0] {
        0 => header.rcode() != Rcode::NOERROR,
        1 => view.question().is_ok_and(|question| {
            asked
                .question()
                .is_ok_and(|asked| asked.octets().eq_ignore_ascii_case(question.octets()))
        }),
        _ => false,
    };
    let is_whole = || view.records().is_ok_and(|mut records| records.all(|one| one.is_ok()));
    header.has(QR) && is_to_query && is_whole()
}

/// Returns the response to a query that got none, with the reason.
pub(crate) fn servfail(query: &[u8], reason: &str) -> Option<Vec<u8>> {
    /// QR, and RA.
    const RESPONSE: u8 = 0x80;
    const AVAILABLE: u8 = 0x80;
    let view = QueryView::parse(query).ok()?;
    let mut out = query[..HEADER_LEN].to_vec();
    out[2] |= RESPONSE;
    out[3] = AVAILABLE | Rcode::SERVFAIL.0 as u8;
    out[6..HEADER_LEN].fill(0);
    out.extend_from_slice(view.question());
    if view.edns.is_some() {
        let mut option = vec![0; 6 + reason.len()];
        let len = EdnsOption::Ede(Ede::NETWORK_ERROR, reason.as_bytes()).write(&mut option)?;
        out[HEADER_LEN - 1] = 1;
        out.push(0);
        out.extend_from_slice(&Rtype::OPT.0.to_be_bytes());
        out.extend_from_slice(&1232u16.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(len as u16).to_be_bytes());
        out.extend_from_slice(&option[..len]);
    }
    Some(out)
}
