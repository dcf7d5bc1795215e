//! Recorded traffic as dnstap messages: the queries that a server received.
//!
//! Many files have only the responses, because a response repeats the question. In that case, the
//! queries are built from the responses. They have the question and RD, and EDNS if the response
//! has it.

use std::collections::HashMap;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use avocet_dnstap::{TapFile, TapMessage, TapTime};
use avocet_wire::header::{HEADER_LEN, Header, RD};
use avocet_wire::{MessageView, QueryView, Rtype};

use super::recording::{Recording, client_number};
use crate::error::LoadError;

/// The first octets of a frame stream, which mark a control frame.
pub(super) const MAGIC: [u8; 4] = [0; 4];
/// The UDP size in queries that are built from responses (RFC 9715).
const UDP_SIZE: u16 = 1232;

/// A recording under construction.
#[derive(Default)]
struct Growing {
    recording: Recording,
    clients: HashMap<SocketAddr, u32>,
    start_ns: Option<u64>,
}

/// Reads the queries in a file.
///
/// # Errors
/// The file is not a frame stream of dnstap, is damaged, or contains no query.
pub(super) fn read(input: impl Read) -> Result<Recording, LoadError> {
    let mut file = TapFile::open(input)?;
    let (mut sent, mut answered) = (Growing::default(), Growing::default());
    let mut others = 0;
    while let Some(message) = file.read_message()? {
        let is_taken = match message {
            TapMessage { kind, query_message: Some(query), .. } if kind.is_received_query() => {
                sent.take(&message, query)?
            }
            TapMessage { kind, response_message: Some(response), .. }
                if kind.is_sent_response() =>
            {
                // Questions in responses are not used if the file has queries.
                query_of(response).map_or(Ok(false), |query| answered.take(&message, &query))?
            }
            _ => false,
        };
        others += u64::from(!is_taken);
    }
    let passed_over = others + file.passed_over;
    let (found, left_out) = match sent.recording.questions.is_empty() {
        true => (answered, 0),
        false => {
            let left_out = answered.recording.questions.len() as u64;
            (sent, left_out)
        }
    };
    let mut recording = found.recording;
    recording.client_count = found.clients.len();
    recording.passed_over = passed_over + left_out;
    if recording.questions.is_empty() { Err(LoadError::NoRecordedQuery) } else { Ok(recording) }
}

impl Growing {
    /// Adds a query; returns `false` if it is malformed.
    fn take(&mut self, message: &TapMessage<'_>, query: &[u8]) -> Result<bool, LoadError> {
        let Some(view) = QueryView::parse(query).ok().filter(|_| Recording::fits(query)) else {
            return Ok(false);
        };
        self.recording.questions.push_octets(query, HEADER_LEN + view.question().len())?;
        let nanos = |time: TapTime| {
            time.secs.saturating_mul(1_000_000_000).saturating_add(time.nanos.into())
        };
        let last = self.recording.due_ns.last().copied().unwrap_or_default();
        let time = message.query_time.or(message.response_time).map(nanos);
        // A message without a time is due at the same time as its predecessor.
        let due_ns = time
            .map_or(last, |time| time.saturating_sub(*self.start_ns.get_or_insert(time)).max(last));
        self.recording.due_ns.push(due_ns);
        let address = message.query_address.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let client = SocketAddr::new(address, message.query_port.unwrap_or(0));
        self.recording.clients.push(client_number(&mut self.clients, client));
        Ok(true)
    }
}

/// Returns a query for the question of a response.
fn query_of(response: &[u8]) -> Option<Vec<u8>> {
    let view = MessageView::new(response).ok()?;
    let question = view.question().ok()?;
    let edns = view.edns().ok()?;
    let mut query = vec![0; HEADER_LEN];
    let (Header { id, flags, .. }, additional) = (view.header(), u16::from(edns.is_some()));
    let head = query.first_chunk_mut::<HEADER_LEN>()?;
    Header { id, flags: flags & RD, counts: [1, 0, 0, additional] }.write(head);
    query.extend_from_slice(question.octets());
    if let Some(edns) = edns {
        let [dnssec_ok, _] = if edns.dnssec_ok { [0x80, 0] } else { [0, 0] };
        query.push(0);
        for half in [Rtype::OPT.0, UDP_SIZE, 0] {
            query.extend_from_slice(&half.to_be_bytes());
        }
        query.extend_from_slice(&[dnssec_ok, 0, 0, 0]);
    }
    Some(query)
}

#[cfg(test)]
mod tests {
    use avocet_dnstap::frame::put_data;
    use avocet_dnstap::{ControlKind, MessageKind};

    use super::*;

    const QUERY: &[u8] = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x01\0\x01";
    const ANSWER: &[u8] = b"\0\x08\x81\x80\0\x01\0\x01\0\0\0\x01\x01b\x04test\0\0\x01\0\x01\
        \xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01\0\0\x29\x04\xd0\0\0\x80\0\0\0";

    fn file(messages: &[TapMessage<'_>]) -> Vec<u8> {
        let (mut out, mut octets) = (ControlKind::Start.frame(), Vec::new());
        for message in messages {
            message.write(&mut octets);
            put_data(&mut out, &octets);
        }
        out
    }

    fn query(client: u8, at_us: u64) -> TapMessage<'static> {
        TapMessage {
            query_address: Some([192, 0, 2, client].into()),
            query_time: Some(TapTime::of_micros(at_us)),
            query_message: Some(QUERY),
            ..TapMessage::of(MessageKind::ClientQuery)
        }
    }

    fn response() -> TapMessage<'static> {
        TapMessage {
            query_message: None,
            response_message: Some(ANSWER),
            kind: MessageKind::ClientResponse,
            ..query(9, 5_000_000)
        }
    }

    #[test]
    fn queries_have_their_times_and_clients() {
        let messages = [query(1, 7_000_000), query(2, 7_000_500), query(1, 6_000_000), response()];
        let recording = Recording::read(&file(&messages)[..]).unwrap();
        assert_eq!(recording.due_ns, [0, 500_000, 500_000]);
        assert_eq!((&recording.clients[..], recording.client_count), (&[0, 1, 0][..], 2));
        assert_eq!((recording.questions.query(0), recording.passed_over), (QUERY, 1));
    }

    #[test]
    fn without_queries_they_are_made_of_the_responses() {
        let recording = Recording::read(&file(&[response()])[..]).unwrap();
        let expected = b"\0\x08\x01\0\0\x01\0\0\0\0\0\x01\x01b\x04test\0\0\x01\0\x01\
            \0\0\x29\x04\xd0\0\0\x80\0\0\0";
        assert_eq!(recording.questions.query(0), expected);
        assert_eq!(recording.passed_over, 0);
    }

    #[test]
    fn a_file_without_queries_is_refused() {
        let other = TapMessage { kind: MessageKind::ResolverQuery, ..query(1, 0) };
        let malformed = TapMessage { query_message: Some(b"\0\x07"), ..query(1, 0) };
        for messages in [&[][..], &[other], &[malformed]] {
            let error = Recording::read(&file(messages)[..]).unwrap_err();
            assert!(matches!(error, LoadError::NoRecordedQuery), "{error}");
        }
    }
}
