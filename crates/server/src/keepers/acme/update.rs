//! Records in zones of another server: updates (RFC 2136) over TCP, signed with TSIG (RFC 8945).
//!
//! ```text
//! SOA query for the owner, then for each name above it --> zone --> update --> query for it
//! ```
//! Each message is signed. A reply without a valid signature ends the attempt.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use avocet_client::stub::records_in;
use avocet_config::acme::UpdateServer;
use avocet_nameserver::clock::wall_secs;
use avocet_wire::header::{AA, HEADER_LEN, Header, QR};
use avocet_wire::view::RecordSection;
use avocet_wire::{
    Class, FoldedName, FoldedNameBuf, MessageView, NameBuf, Opcode, Rcode, Rtype, WireError,
};
use avocet_zone::{TsigSigner, UntrustedReply};
use thiserror::Error;

use super::spread::{self, ProofPause};
use crate::transfer_stream::{ConnectError, TransferStream};

/// Maximum duration of one exchange.
pub(super) const EXCHANGE_TIME: Duration = Duration::from_secs(20);
/// Number of octets of TTL and length, which precede the data of a record.
const TTL_AND_LENGTH: usize = 6;

/// An error: the records of the other server cannot be read or changed.
#[derive(Debug, Error)]
pub(super) enum UpdateFault {
    #[error("the update server {0}: {1}")]
    Silent(SocketAddr, io::Error),
    #[error("the reply of {0} is malformed")]
    Malformed(SocketAddr),
    #[error("{0} with the key {1}: {2}")]
    Untrusted(SocketAddr, String, UntrustedReply),
    #[error("{server} refuses {request}: {rcode}")]
    Refused { server: SocketAddr, request: String, rcode: Rcode },
    #[error("{0} has no zone with the name {1}")]
    NoZone(SocketAddr, String),
    #[error(
        "{0} accepts the update of {1}, but its answer lacks the record; is the name an alias?"
    )]
    Lost(SocketAddr, String),
}

/// A change of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordChange {
    /// The record is added to the records of its owner.
    Add,
    /// The record is removed; others of its owner stay.
    Remove,
}

/// A TXT record.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextRecord<'r> {
    pub(super) owner: FoldedName<'r>,
    pub(super) ttl_secs: u32,
    pub(super) data: &'r [u8],
}

impl TextRecord<'_> {
    /// Returns the record of an update (RFC 2136 §2.5.1, §2.5.4).
    fn edit(&self, change: RecordChange) -> Vec<u8> {
        let (class, ttl_secs) = match change {
            RecordChange::Add => (Class::IN, self.ttl_secs),
            RecordChange::Remove => (Class::NONE, 0),
        };
        let (kind, class) = (Rtype::TXT.0.to_be_bytes(), class.0.to_be_bytes());
        let (ttl, len) = (ttl_secs.to_be_bytes(), (self.data.len() as u16).to_be_bytes());
        [self.owner.wire(), &kind, &class, &ttl, &len, self.data].concat()
    }
}

/// A message to the server.
struct SignedRequest<'r> {
    opcode: Opcode,
    /// The name and the type of the question; for an update, those of the zone.
    name: FoldedName<'r>,
    rtype: Rtype,
    /// The record of an update; empty for a query.
    edit: Vec<u8>,
}

impl<'r> SignedRequest<'r> {
    const fn query(name: FoldedName<'r>, rtype: Rtype) -> Self {
        Self { opcode: Opcode::QUERY, name, rtype, edit: Vec::new() }
    }

    const fn update(zone: FoldedName<'r>, edit: Vec<u8>) -> Self {
        Self { opcode: Opcode::UPDATE, name: zone, rtype: Rtype::SOA, edit }
    }

    fn message(&self, id: u16) -> Vec<u8> {
        let mut head = [0; HEADER_LEN];
        let counts = [1, 0, u16::from(!self.edit.is_empty()), 0];
        Header { id, flags: u16::from(self.opcode.0) << 11, counts }.write(&mut head);
        let (kind, class) = (self.rtype.0.to_be_bytes(), Class::IN.0.to_be_bytes());
        [&head, self.name.wire(), &kind, &class, &self.edit[..]].concat()
    }

    fn shown(&self) -> String {
        match self.opcode {
            Opcode::UPDATE => format!("the update of the zone {}", self.name),
            _ => format!("the query {} {}", self.name, self.rtype),
        }
    }
}

/// A client of the server.
pub(super) struct UpdateClient<'u> {
    pub(super) to: &'u UpdateServer,
    /// Maximum duration of one exchange.
    pub(super) time: Duration,
    /// A function that returns whether an exchange must end.
    pub(super) is_closed: &'u dyn Fn() -> bool,
}

impl UpdateClient<'_> {
    /// Returns the zone of the server that contains a name.
    ///
    /// # Errors
    /// The server has no such zone, or see [`UpdateFault`].
    pub(super) fn zone_of(&self, owner: FoldedName<'_>) -> Result<FoldedNameBuf, UpdateFault> {
        for name in owner.ancestors().filter(|name| name.parent().is_some()) {
            let reply = self.ask(&SignedRequest::query(name, Rtype::SOA))?;
            if self.is_zone(&reply, name).map_err(|_| UpdateFault::Malformed(self.to.server))? {
                return Ok(name.to_buf());
            }
        }
        Err(UpdateFault::NoZone(self.to.server, owner.to_string()))
    }

    /// Returns whether an authoritative answer has the SOA record of a name.
    fn is_zone(&self, reply: &[u8], name: FoldedName<'_>) -> Result<bool, WireError> {
        let view = MessageView::new(reply)?;
        for record in view.section(RecordSection::Answer)? {
            let record = record?;
            if record.rtype == Rtype::SOA && record.owner()?.folded().view() == name {
                return Ok(view.header().has(AA));
            }
        }
        Ok(false)
    }

    /// Changes a record of a zone.
    ///
    /// # Errors
    /// See [`UpdateFault`].
    pub(super) fn change(
        &self,
        zone: FoldedName<'_>,
        record: &TextRecord<'_>,
        change: RecordChange,
    ) -> Result<(), UpdateFault> {
        self.ask(&SignedRequest::update(zone, record.edit(change))).map(drop)
    }

    /// Waits until the server answers with a record: the server may forward updates to its primary.
    ///
    /// # Errors
    /// The server does not answer with the record in time, or see [`UpdateFault`].
    pub(super) fn confirm(
        &self,
        record: &TextRecord<'_>,
        wait: &mut ProofPause<'_>,
    ) -> Result<(), UpdateFault> {
        let server = self.to.server;
        let has_record = || -> Result<bool, UpdateFault> {
            let reply = self.ask(&SignedRequest::query(record.owner, Rtype::TXT))?;
            let found = records_in(&reply, Rtype::TXT);
            let (found, _) = found.map_err(|_| UpdateFault::Malformed(server))?;
            Ok(found.iter().any(|one| one == record.data))
        };
        let is_there = spread::wait_until(wait, has_record)?;
        is_there.then_some(()).ok_or_else(|| UpdateFault::Lost(server, record.owner.to_string()))
    }

    /// Returns the names of the servers of a zone.
    ///
    /// # Errors
    /// See [`UpdateFault`].
    pub(super) fn name_servers(&self, zone: FoldedName<'_>) -> Result<Vec<NameBuf>, UpdateFault> {
        let reply = self.ask(&SignedRequest::query(zone, Rtype::NS))?;
        let names = || -> Result<Vec<NameBuf>, WireError> {
            let records = MessageView::new(&reply)?.section(RecordSection::Answer)?;
            let records =
                records.filter(|one| one.as_ref().is_ok_and(|one| one.rtype == Rtype::NS));
            let name = |at| NameBuf::read(&reply, at).map_err(WireError::from);
            records.map(|one| name(one?.ttl_offset() + TTL_AND_LENGTH)).collect()
        };
        names().map_err(|_| UpdateFault::Malformed(self.to.server))
    }

    /// Sends a request, and returns the verified reply: NOERROR, or NXDOMAIN to a query.
    fn ask(&self, request: &SignedRequest<'_>) -> Result<Vec<u8>, UpdateFault> {
        let UpdateServer { server, key } = self.to;
        let silent = |error| UpdateFault::Silent(*server, error);
        let mut id = [0; 2];
        getrandom::fill(&mut id).map_err(|error| silent(io::Error::other(error.to_string())))?;
        let id = u16::from_be_bytes(id);
        let mut message = request.message(id);
        let mut signer = TsigSigner::of_request(key);
        signer.sign(&mut message, wall_secs());
        let reply = self.exchange(&message).map_err(silent)?;
        let header = Header::read(&reply).filter(|header| {
            header.id == id && header.has(QR) && header.opcode() == request.opcode
        });
        let rcode = header.ok_or(UpdateFault::Malformed(*server))?.rcode();
        let is_answer = match request.opcode {
            Opcode::QUERY => matches!(rcode, Rcode::NOERROR | Rcode::NXDOMAIN),
            _ => rcode == Rcode::NOERROR,
        };
        match signer.verifier().take(&reply, wall_secs()) {
            // A refusal needs no signature, because its only effect is a later attempt.
            Ok(()) | Err(UntrustedReply::Unsigned) if !is_answer => {
                Err(UpdateFault::Refused { server: *server, request: request.shown(), rcode })
            }
            Ok(()) => Ok(reply),
            Err(fault) => Err(UpdateFault::Untrusted(*server, key.name().to_string(), fault)),
        }
    }

    fn exchange(&self, message: &[u8]) -> io::Result<Vec<u8>> {
        let stream = TransferStream::connect(self.to.server, None, self.time, self.is_closed);
        let mut stream = stream.map_err(|error| match error {
            ConnectError::Network(error) => error,
            ConnectError::Tls(text) => io::Error::other(text),
        })?;
        let closed = |error: io::Error| match error.kind() {
            ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "it closed the connection"),
            _ => error,
        };
        stream.write_all(&[&(message.len() as u16).to_be_bytes()[..], message].concat())?;
        stream.flush()?;
        let mut length = [0; 2];
        stream.read_exact(&mut length).map_err(closed)?;
        let mut reply = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut reply).map_err(closed)?;
        Ok(reply)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::thread;

    use avocet_zone::{
        TsigAlgorithm, TsigFault, TsigKey, TsigRecord, append_error, verify_request,
    };
    use zeroize::Zeroizing;

    use super::*;

    const OWNER: FoldedName<'_> =
        FoldedName::from_folded_unchecked(b"\x0f_acme-challenge\x03dns\x07example\0");
    const ZONE: FoldedName<'_> = FoldedName::from_folded_unchecked(b"\x03dns\x07example\0");
    const RECORD: TextRecord<'_> = TextRecord { owner: OWNER, ttl_secs: 1, data: b"\x03abc" };

    fn key(name: &[u8], secret: &[u8]) -> Arc<TsigKey> {
        let name = FoldedName::from_folded_unchecked(name);
        let secret = Zeroizing::new(secret.to_vec());
        Arc::new(TsigKey::new(name, TsigAlgorithm::usual(), secret))
    }

    fn own_key() -> Arc<TsigKey> {
        key(b"\x04acme\0", b"secret secret")
    }

    /// Serves each request on loopback with a reply; a request without reply stays open.
    fn served(reply: fn(&[u8]) -> Vec<u8>) -> UpdateServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap();
        thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut length = [0; 2];
                stream.read_exact(&mut length).unwrap();
                let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut message).unwrap();
                let reply = reply(&message);
                if reply.is_empty() {
                    silent.push(stream);
                } else {
                    let length = (reply.len() as u16).to_be_bytes();
                    stream.write_all(&[&length[..], &reply].concat()).unwrap();
                }
            }
        });
        UpdateServer { server, key: own_key() }
    }

    /// Returns a reply with this RCODE and answer, and without a signature.
    fn bare(message: &[u8], rcode: Rcode, answer: &[u8]) -> Vec<u8> {
        let question = MessageView::new(message).unwrap().question().unwrap().octets();
        let Header { id, flags, .. } = Header::read(message).unwrap();
        let mut head = [0; HEADER_LEN];
        let flags = flags | QR | AA | rcode.0;
        Header { id, flags, counts: [1, u16::from(!answer.is_empty()), 0, 0] }.write(&mut head);
        [&head, question, answer].concat()
    }

    /// Returns a reply that is signed as the key of the server demands.
    fn signed(message: &[u8], mut reply: Vec<u8>, key: &Arc<TsigKey>, now_secs: u64) -> Vec<u8> {
        let record = TsigRecord::find(message).unwrap().unwrap();
        let known = (record.name.view() == key.name()).then_some(key);
        match verify_request(message, &record, known, now_secs) {
            Ok(mut signer) => signer.sign(&mut reply, now_secs),
            Err(TsigFault::NotAuth(error)) => {
                reply[3] = 9;
                append_error(&mut reply, &record, (error, known), now_secs);
            }
            Err(TsigFault::Malformed) => panic!("the request has a malformed signature"),
        }
        reply
    }

    fn done(message: &[u8]) -> Vec<u8> {
        signed(message, bare(message, Rcode::NOERROR, &[]), &own_key(), wall_secs())
    }

    fn with_client<T>(to: &UpdateServer, act: impl FnOnce(&UpdateClient<'_>) -> T) -> T {
        let time = Duration::from_secs(1);
        act(&UpdateClient { to, time, is_closed: &|| false })
    }

    /// Sends an update to a server that replies in this way, and expects an error with this text.
    #[track_caller]
    fn check(reply: fn(&[u8]) -> Vec<u8>, expected: &str) {
        let to = served(reply);
        let change = |client: &UpdateClient<'_>| client.change(ZONE, &RECORD, RecordChange::Add);
        let text = with_client(&to, change).unwrap_err().to_string();
        let expected = expected.replace("SERVER", &to.server.to_string());
        assert_eq!(text, expected);
    }

    #[test]
    fn an_update_with_a_signed_reply_succeeds() {
        let to = served(|message| {
            // One record of class IN, with a TTL.
            let update = MessageView::new(message).unwrap();
            let record = update.section(RecordSection::Authority).unwrap().next().unwrap().unwrap();
            let facts = (record.owner().unwrap().folded().view() == OWNER, record.rtype);
            assert_eq!((facts, record.rdata()), ((true, Rtype::TXT), RECORD.data));
            match (record.class, record.ttl_field) {
                (Class::IN, 1) | (Class::NONE, 0) => done(message),
                other => panic!("{other:?}"),
            }
        });
        for change in [RecordChange::Add, RecordChange::Remove] {
            with_client(&to, |client| client.change(ZONE, &RECORD, change)).unwrap();
        }
    }

    #[test]
    fn a_key_that_the_server_does_not_share_is_named() {
        let refused = "SERVER with the key acme.: the server refuses the signature of the query: ";
        check(
            |message| {
                let other = key(b"\x04acme\0", b"other secret");
                signed(message, bare(message, Rcode::NOERROR, &[]), &other, wall_secs())
            },
            &format!("{refused}BADSIG"),
        );
        check(
            |message| {
                let other = key(b"\x05other\0", b"secret secret");
                signed(message, bare(message, Rcode::NOERROR, &[]), &other, wall_secs())
            },
            &format!("{refused}BADKEY"),
        );
        check(
            |message| {
                let now_secs = wall_secs() + 3_600;
                signed(message, bare(message, Rcode::NOERROR, &[]), &own_key(), now_secs)
            },
            &format!("{refused}BADTIME"),
        );
    }

    #[test]
    fn a_refusal_and_silence_are_errors() {
        let refused = "SERVER refuses the update of the zone dns.example.: ";
        check(
            |message| {
                let reply = bare(message, Rcode::REFUSED, &[]);
                signed(message, reply, &own_key(), wall_secs())
            },
            &format!("{refused}REFUSED"),
        );
        check(|message| bare(message, Rcode::NOTAUTH, &[]), &format!("{refused}NOTAUTH"));
        check(|_| Vec::new(), "the update server SERVER: no answer within 1 s");
    }

    #[test]
    fn a_forged_reply_is_not_trusted() {
        let with_key = "SERVER with the key acme.: ";
        check(
            |message| bare(message, Rcode::NOERROR, &[]),
            &format!("{with_key}the reply is not signed"),
        );
        check(
            |message| {
                let mut reply = done(message);
                reply[2] ^= 4;
                reply
            },
            &format!("{with_key}the signature of the reply is wrong"),
        );
        check(
            |message| {
                let mut reply = done(message);
                reply[0] ^= 1;
                reply
            },
            "the reply of SERVER is malformed",
        );
    }

    /// Returns the answer of an authoritative server of the zone, without a signature.
    fn of_zone(message: &[u8]) -> Vec<u8> {
        let asked = MessageView::new(message).unwrap().question().unwrap().qname().unwrap();
        let head = b"\xc0\x0c\0\x06\0\x01\0\0\0\x01\0\x16";
        let soa = [&head[..], &[0; 22]].concat();
        let is_zone = asked.folded().view() == ZONE;
        bare(message, Rcode::NOERROR, if is_zone { &soa } else { &[] })
    }

    #[test]
    fn the_zone_is_the_closest_name_with_an_authoritative_soa_record() {
        let to = served(|message| signed(message, of_zone(message), &own_key(), wall_secs()));
        let zone = with_client(&to, |client| client.zone_of(OWNER)).unwrap();
        assert_eq!(zone.view(), ZONE);
        // An answer without AA, for example from a resolver, does not count.
        let to = served(|message| {
            let mut reply = of_zone(message);
            reply[2] &= !4;
            signed(message, reply, &own_key(), wall_secs())
        });
        let text = with_client(&to, |client| client.zone_of(OWNER)).unwrap_err().to_string();
        assert!(text.ends_with("has no zone with the name _acme-challenge.dns.example."), "{text}");
    }

    #[test]
    fn a_record_that_does_not_appear_is_an_error_after_a_minute() {
        let to = served(done);
        let mut waited = Duration::ZERO;
        let mut pause = |time: Duration| {
            waited += time;
            Ok(())
        };
        let text = with_client(&to, |client| client.confirm(&RECORD, &mut pause)).unwrap_err();
        assert!(text.to_string().contains("its answer lacks the record"), "{text}");
        assert_eq!(waited, Duration::from_secs(60));
    }
}
