//! Probes by a DNS query over UDP.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use avocet_config::pool_probe::ProbeQuery;
use avocet_io::poll::Interest;
use avocet_io::upstream::UpstreamSocket;
use avocet_wire::header::{QR, RD};
use avocet_wire::view::RecordSection;
use avocet_wire::view::RecordView;
use avocet_wire::{Builder, Class, FoldedNameBuf, MessageView, NameBuf, Rcode, Rtype};

use super::attempt::{AttemptStep, step_of_error};
use crate::running::pool_watch::ProbeResult;

/// Number of octets of a response that are read. Without EDNS, responses are not longer (RFC 1035
/// §4.2.1).
const ROOM: usize = 512;
/// Number of octets of a query with the longest name.
const QUERY_ROOM: usize = 12 + 255 + 4;
/// Maximum number of datagrams that are read at one event.
const MAX_DATAGRAMS: usize = 8;
/// Maximum number of CNAME records that are followed in a response.
const MAX_FOLLOWED: usize = 16;

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

/// Returns whether the answer section has a record of the type with this data, which belongs to the
/// queried name or to the end of the CNAME records from it.
fn has_record(view: &MessageView<'_>, query: &ProbeQuery, data: &[u8]) -> bool {
    let mut room = [0; ROOM];
    let Ok(records) = view.records() else { return false };
    let records = records.map_while(Result::ok);
    let answer: Vec<_> =
        records.take_while(|record| record.section == RecordSection::Answer).collect();
    let Some(owner) = end_of_aliases(&answer, query) else { return false };
    answer.iter().any(|record| {
        record.rtype == query.rtype
            && record.owner().is_ok_and(|name| name.folded() == owner)
            && record
                .expand_rdata(&mut room)
                .is_ok_and(|len| room[..len].eq_ignore_ascii_case(data))
    })
}

/// Returns the end of the CNAME records from the queried name; `None` if there is none.
fn end_of_aliases(answer: &[RecordView<'_>], query: &ProbeQuery) -> Option<FoldedNameBuf> {
    let mut name = NameBuf::from_wire(&query.name).ok()?.folded();
    if query.rtype == Rtype::CNAME {
        return Some(name);
    }
    let mut room = [0; ROOM];
    for _ in 0..MAX_FOLLOWED {
        let alias = answer.iter().find(|record| {
            record.rtype == Rtype::CNAME && record.owner().is_ok_and(|owner| owner.folded() == name)
        });
        let Some(alias) = alias else { return Some(name) };
        let len = alias.expand_rdata(&mut room).ok()?;
        name = NameBuf::from_wire(&room[..len]).ok()?.folded();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(name: &str) -> NameBuf {
        let labels = name.split('.').filter(|label| !label.is_empty());
        let mut wire = Vec::new();
        labels.for_each(|label| {
            wire.push(label.len() as u8);
            wire.extend_from_slice(label.as_bytes());
        });
        wire.push(0);
        NameBuf::from_wire(&wire).unwrap()
    }

    /// Returns the result for an answer to `www.example A` with these records, if 192.0.2.1 is
    /// expected.
    fn result(records: &[(&str, Rtype, &str)]) -> ProbeResult {
        let name = wire("www.example");
        let query = ProbeQuery {
            name: name.wire().into(),
            rtype: Rtype::A,
            rcode: 0,
            data: Some([192, 0, 2, 1][..].into()),
        };
        let mut message = vec![0, 7, 0x80, 0, 0, 1, 0, records.len() as u8, 0, 0, 0, 0];
        message.extend_from_slice(name.wire());
        message.extend_from_slice(&[0, 1, 0, 1]);
        for (owner, rtype, data) in records {
            let data = match *rtype {
                Rtype::A => data.parse::<std::net::Ipv4Addr>().unwrap().octets().to_vec(),
                _ => wire(data).wire().to_vec(),
            };
            message.extend_from_slice(wire(owner).wire());
            message.extend_from_slice(&rtype.0.to_be_bytes());
            message.extend_from_slice(&[0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
            message.extend_from_slice(&data);
        }
        verdict(&message, 7, &query).unwrap()
    }

    #[test]
    fn a_record_counts_only_at_the_queried_name_or_the_end_of_its_aliases() {
        use Rtype as R;
        let good = [
            vec![("www.example", R::A, "192.0.2.9"), ("WWW.example", R::A, "192.0.2.1")],
            vec![("www.example", R::CNAME, "a.example"), ("a.example", R::A, "192.0.2.1")],
            vec![
                ("b.example", R::A, "192.0.2.1"),
                ("a.example", R::CNAME, "B.example"),
                ("www.example", R::CNAME, "a.example"),
            ],
        ];
        for records in good {
            assert!(matches!(result(&records), ProbeResult::Success(_)), "{records:?}");
        }
        let bad = [
            vec![],
            vec![("x", R::A, "192.0.2.1")],
            vec![("example", R::A, "192.0.2.1")],
            vec![("www.example", R::A, "192.0.2.2")],
            vec![("www.example", R::CNAME, "a.example"), ("b.example", R::A, "192.0.2.1")],
            vec![("www.example", R::CNAME, "a.example"), ("www.example", R::A, "192.0.2.1")],
            vec![("www.example", R::CNAME, "www.example"), ("www.example", R::A, "192.0.2.1")],
        ];
        for records in bad {
            assert!(matches!(result(&records), ProbeResult::Failure(_)), "{records:?}");
        }
    }
}
