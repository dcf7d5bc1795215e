//! Probes by a DNS query over UDP.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use avocet_config::pool_probe::ProbeQuery;
use avocet_io::poll::Interest;
use avocet_io::upstream::UpstreamSocket;
use avocet_wire::header::{QR, RD};
use avocet_wire::view::RecordSection;
use avocet_wire::{Builder, Class, MessageView, NameBuf, Rcode};

use super::attempt::{AttemptStep, step_of_error};
use crate::running::pool_watch::ProbeResult;

/// Number of octets of a response that are read. Without EDNS, responses are not longer (RFC 1035
/// §4.2.1).
const ROOM: usize = 512;
/// Number of octets of a query with the longest name.
const QUERY_ROOM: usize = 12 + 255 + 4;
/// Maximum number of datagrams that are read at one event.
const MAX_DATAGRAMS: usize = 8;

/// A query that waits for its response.
pub(super) struct DnsAttempt {
    socket: UpstreamSocket,
    id: u16,
    query: ProbeQuery,
}

impl DnsAttempt {
    /// Sends the query.
    pub(super) fn send(at: SocketAddr, query: &ProbeQuery) -> io::Result<Self> {
        let mut id = [0; 2];
        getrandom::fill(&mut id).map_err(|error| io::Error::other(error.to_string()))?;
        let id = u16::from_be_bytes(id);
        let mut room = [0; QUERY_ROOM];
        let full = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let mut builder = Builder::new(&mut room, QUERY_ROOM, id, RD).map_err(full)?;
        builder.question(&query.name, query.rtype, Class::IN).map_err(full)?;
        let len = builder.finish();
        let socket = UpstreamSocket::connect(at, 0)?;
        socket.send(&room[..len])?;
        Ok(Self { socket, id, query: query.clone() })
    }

    /// Reads a response.
    pub(super) fn advance(&self) -> AttemptStep {
        let mut room = [0; ROOM];
        for _ in 0..MAX_DATAGRAMS {
            match self.socket.recv(&mut room) {
                Ok(len) => {
                    if let Some(result) = verdict(&room[..len], self.id, &self.query) {
                        return AttemptStep::Done(result);
                    }
                }
                Err(error) => return step_of_error(&error, Interest::Read),
            }
        }
        AttemptStep::Wait(Interest::Read)
    }
}

impl AsFd for DnsAttempt {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns the result from a datagram; `None` if it is not a response to the query.
fn verdict(message: &[u8], id: u16, query: &ProbeQuery) -> Option<ProbeResult> {
    let view = MessageView::new(message).ok()?;
    let header = view.header();
    let question = view.questions().next()?.ok()?;
    let qname = NameBuf::from_wire(&query.name).ok()?;
    let is_of_query = question.qtype == query.rtype
        && question.qname().is_ok_and(|name| name.folded() == qname.folded());
    if header.id != id || !header.has(QR) || !is_of_query {
        return None;
    }
    if header.rcode() != Rcode(query.rcode) {
        return Some(ProbeResult::Failure(format!("RCODE {}", header.rcode())));
    }
    if let Some(data) = &query.data
        && !has_record(&view, query, data)
    {
        return Some(ProbeResult::Failure("the answer lacks the expected data".to_owned()));
    }
    Some(ProbeResult::Success(header.rcode().to_string()))
}

/// Returns whether the answer section has a record of the type with this data.
fn has_record(view: &MessageView<'_>, query: &ProbeQuery, data: &[u8]) -> bool {
    let mut room = [0; ROOM];
    let Ok(records) = view.records() else { return false };
    records.map_while(Result::ok).any(|record| {
        record.section == RecordSection::Answer
            && record.rtype == query.rtype
            && record
                .expand_rdata(&mut room)
                .is_ok_and(|len| room[..len].eq_ignore_ascii_case(data))
    })
}
