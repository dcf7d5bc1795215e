//! The client side of a zone transfer over TCP or TLS (AXFR, RFC 5936; IXFR, RFC 1995; RFC 9103),
//! with signatures (RFC 8945): for hosted zones of other servers, and for the copy of the root
//! zone.
//!
//! Incoming data is bounded in octets, records and time. The caller verifies or checks the zone as
//! a whole before it is used.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use avocet_dnssec::zonemd::ZoneRecord;
use avocet_nameserver::clock::wall_secs;
use avocet_resolver::Timers;
use avocet_wire::header::{HEADER_LEN, Header, QR};
use avocet_wire::rdata::RdataError;
use avocet_wire::view::{RecordSection, RecordView};
use avocet_wire::{Class, FoldedName, MessageView, Opcode, Rcode, Rtype, WireError};
use avocet_zone::{TsigKey, TsigSigner, TsigVerifier, UntrustedReply, is_newer};

use crate::transfer_room::TransferShare;
use crate::transfer_stream::{ConnectError, TransferStream};
use avocet_worker::upstream_tls::PrimaryTls;

/// Maximum duration of the query for the SOA record, regardless of the bounds of the transfer.
const TIMERS_TIME: Duration = Duration::from_secs(30);
/// Maximum number of octets that a record takes in memory in addition to its owner and data.
const RECORD_OCTETS: u64 = 64;

/// A record of an unverified zone.
pub(crate) struct UnverifiedRecord {
    /// The owner in lower case and uncompressed form.
    pub(crate) owner: Box<[u8]>,
    pub(crate) rtype: Rtype,
    pub(crate) ttl_secs: u32,
    /// The data in uncompressed form.
    pub(crate) rdata: Box<[u8]>,
}

impl UnverifiedRecord {
    /// Returns the octets that the record takes in memory.
    fn octets(&self) -> u64 {
        (self.owner.len() + self.rdata.len()) as u64 + RECORD_OCTETS
    }

    /// Borrows the record.
    pub(crate) fn record(&self) -> ZoneRecord<'_> {
        let Self { owner, rtype, ttl_secs, rdata } = self;
        ZoneRecord { owner, rtype: *rtype, ttl_secs: *ttl_secs, rdata }
    }
}

/// The reason why a transfer failed.
#[derive(Debug)]
pub(crate) enum TransferError {
    /// A network error or timeout.
    Network(io::Error),
    /// The TLS handshake failed, such as because the primary did not prove its name.
    Tls(String),
    /// The primary refuses the transfer.
    Refused(Rcode),
    /// The response is not a transfer of the zone.
    Malformed,
    /// The signature of a message is missing or wrong.
    Untrusted(UntrustedReply),
    /// The zone is larger than permitted.
    TooLarge(TransferLimits),
    /// There is no memory left for the records.
    NoRoom,
    /// This server ended the transfer: it is shutting down, or the zone was removed.
    Closed,
}

impl TransferError {
    /// Returns whether the primary may still send the whole zone, although it sends no changes: it
    /// refuses them, or ends each such transfer too early.
    pub(crate) fn is_of_server(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Malformed => true,
            Self::Network(error) => matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
            ),
            _ => false,
        }
    }
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(error) => error.fmt(f),
            Self::Tls(error) => write!(f, "TLS: {error}"),
            Self::Refused(rcode) => write!(f, "it responded with {rcode}"),
            Self::Malformed => f.write_str("the response is not a zone transfer"),
            Self::Untrusted(error) => error.fmt(f),
            Self::TooLarge(TransferLimits { octets, records, .. }) => {
                write!(f, "more than {octets} octets or {records} records")
            }
            Self::NoRoom => f.write_str(
                "its records and those of other transfers take more memory than there is for them",
            ),
            Self::Closed => f.write_str("the server is shutting down, or the zone is gone"),
        }
    }
}

impl From<io::Error> for TransferError {
    fn from(error: io::Error) -> Self {
        Self::Network(error)
    }
}

impl From<ConnectError> for TransferError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Network(error) => Self::Network(error),
            ConnectError::Tls(error) => Self::Tls(error),
        }
    }
}

impl From<WireError> for TransferError {
    fn from(_: WireError) -> Self {
        Self::Malformed
    }
}

impl From<RdataError> for TransferError {
    fn from(_: RdataError) -> Self {
        Self::Malformed
    }
}

impl From<UntrustedReply> for TransferError {
    fn from(error: UntrustedReply) -> Self {
        Self::Untrusted(error)
    }
}

/// The bounds of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransferLimits {
    /// Maximum number of octets of all messages and of the records in memory. Records take more
    /// octets in memory than in messages with compressed names.
    pub(crate) octets: u64,
    /// Maximum number of records.
    pub(crate) records: usize,
    /// Maximum duration of the transfer.
    pub(crate) time: Duration,
}

/// The response to IXFR.
pub(crate) enum ReceivedChanges {
    /// The whole zone, as after AXFR.
    Whole(Vec<UnverifiedRecord>),
    /// The changes since the version in the query. First comes the SOA record of the latest
    /// version. Then, each change has its removed records and its added records, each after an SOA
    /// record.
    Changes(Vec<UnverifiedRecord>),
    /// The primary has no later version.
    Latest,
}

/// The part that must follow in a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Awaited {
    /// The second record of IXFR, which shows whether there are changes.
    Second,
    /// The SOA record at the end of a whole zone.
    LastSoa,
    /// The SOA record that ends the removed records of a change.
    Added,
    /// The SOA record of the next change, or the one at the end.
    Removed,
    /// The transfer is complete.
    Nothing,
}

/// A zone at a primary.
pub(crate) struct ZoneSource<'s> {
    /// The server.
    pub(crate) primary: SocketAddr,
    /// The verification of the primary; `None` for TCP without TLS.
    pub(crate) tls: Option<PrimaryTls>,
    /// The name of the zone.
    pub(crate) apex: FoldedName<'s>,
    /// The key that signs the messages of both sides.
    pub(crate) key: Option<&'s Arc<TsigKey>>,
    /// The bounds.
    pub(crate) limits: TransferLimits,
    /// The reservation of memory for the records; `None` if the bounds are low.
    pub(crate) share: Option<&'s TransferShare<'s>>,
    /// A function that returns whether the transfer must end, such as because the server is
    /// shutting down.
    pub(crate) is_closed: &'s dyn Fn() -> bool,
}

impl ZoneSource<'_> {
    /// Returns the SOA timers of the primary, within [`TIMERS_TIME`].
    ///
    /// # Errors
    /// See [`TransferError`].
    pub(crate) fn timers(&self) -> Result<Timers, TransferError> {
        let time = self.limits.time.min(TIMERS_TIME);
        let limits = TransferLimits { time, ..self.limits };
        let source = ZoneSource { limits, tls: self.tls.clone(), ..*self };
        let mut exchange = Exchange::begin(&source, Rtype::SOA)?;
        let message = exchange.receive()?;
        let mut lines = Vec::new();
        exchange.read(&message, &mut lines)?;
        let soa = lines.iter().find(|line| self.is_soa(line));
        soa.and_then(|soa| Timers::of(&soa.rdata)).ok_or(TransferError::Malformed)
    }

    /// Returns all records of the zone. If a key signs the transfer, each message was verified.
    ///
    /// # Errors
    /// See [`TransferError`].
    pub(crate) fn zone(&self) -> Result<Vec<UnverifiedRecord>, TransferError> {
        let exchange = Exchange::begin(self, Rtype::AXFR)?;
        self.collect(exchange, Awaited::LastSoa).map(|(lines, _)| lines)
    }

    /// Returns the changes since the version with this SOA record.
    ///
    /// # Errors
    /// See [`TransferError`].
    pub(crate) fn changes(&self, soa: &[u8]) -> Result<ReceivedChanges, TransferError> {
        let exchange = Exchange::begin_after(self, Rtype::IXFR, Some(soa))?;
        let (lines, end) = self.collect(exchange, Awaited::Second)?;
        Ok(match (lines.len(), end) {
            (0 | 1, Awaited::Second) => ReceivedChanges::Latest,
            (_, Awaited::LastSoa) => ReceivedChanges::Whole(lines),
            _ => ReceivedChanges::Changes(lines),
        })
    }

    /// Collects the records up to the last SOA record. Returns them, and the part that was awaited
    /// at that record: it shows whether the transfer has a whole zone or changes.
    fn collect(
        &self,
        mut exchange: Exchange<'_>,
        mut awaited: Awaited,
    ) -> Result<(Vec<UnverifiedRecord>, Awaited), TransferError> {
        let (mut lines, mut octets): (Vec<UnverifiedRecord>, u64) = (Vec::new(), 0);
        loop {
            let message = exchange.receive()?;
            let before = lines.len();
            exchange.read(&message, &mut lines)?;
            let records = lines[before..].iter().map(UnverifiedRecord::octets).sum::<u64>();
            octets += message.len() as u64 + records;
            if self.share.is_some_and(|share| !share.grow(records)) {
                return Err(TransferError::NoRoom);
            }
            if octets > self.limits.octets || lines.len() > self.limits.records {
                return Err(TransferError::TooLarge(self.limits));
            }
            // The transfer begins and ends with the SOA record (RFC 5936 §2.2).
            if !lines.first().is_some_and(|line| self.is_soa(line)) || lines.len() == before {
                return Err(TransferError::Malformed);
            }
            // The primary has no later version than the one in the query (RFC 1995 §4).
            if awaited == Awaited::Second && lines.len() == 1 && exchange.is_asked(&lines[0]) {
                exchange.end()?;
                return Ok((lines, awaited));
            }
            for at in before.max(1)..lines.len() {
                let next = self.behind(awaited, &lines, at);
                if next == Awaited::Nothing {
                    if at + 1 != lines.len() {
                        return Err(TransferError::Malformed);
                    }
                    exchange.end()?;
                    lines.pop();
                    return Ok((lines, awaited));
                }
                awaited = next;
            }
        }
    }

    /// Returns the part that must follow the record at this position.
    fn behind(&self, awaited: Awaited, lines: &[UnverifiedRecord], at: usize) -> Awaited {
        let is_soa = self.is_soa(&lines[at]);
        let is_last = is_soa && lines[at].rdata == lines[0].rdata;
        match awaited {
            Awaited::Second if is_soa && !is_last => Awaited::Added,
            Awaited::Second if is_soa => Awaited::Nothing,
            Awaited::Second => Awaited::LastSoa,
            // An SOA record of another version in a whole zone is not detected here: the later
            // check of the zone refuses it.
            Awaited::LastSoa | Awaited::Removed if is_last => Awaited::Nothing,
            Awaited::Removed if is_soa => Awaited::Added,
            Awaited::Added if is_soa => Awaited::Removed,
            other => other,
        }
    }

    fn is_soa(&self, line: &UnverifiedRecord) -> bool {
        line.rtype == Rtype::SOA && *line.owner == *self.apex.wire()
    }
}

/// A connection to a primary, with one question.
struct Exchange<'a> {
    stream: TransferStream<'a>,
    id: u16,
    is_closed: &'a dyn Fn() -> bool,
    verifier: Option<TsigVerifier>,
    /// The SOA record of the version whose changes are requested.
    asked: Option<Box<[u8]>>,
    /// Buffer for the data of one record.
    room: Vec<u8>,
}

impl<'a> Exchange<'a> {
    fn begin(source: &ZoneSource<'a>, qtype: Rtype) -> Result<Self, TransferError> {
        Self::begin_after(source, qtype, None)
    }

    /// Requests the changes since the version with this SOA record.
    fn begin_after(
        source: &ZoneSource<'a>,
        qtype: Rtype,
        soa: Option<&[u8]>,
    ) -> Result<Self, TransferError> {
        let mut id = [0; 2];
        getrandom::fill(&mut id).map_err(|error| io::Error::other(error.to_string()))?;
        let id = u16::from_be_bytes(id);
        let (tls, time) = (source.tls.as_ref(), source.limits.time);
        let mut stream = TransferStream::connect(source.primary, tls, time, source.is_closed)?;
        let mut head = [0; HEADER_LEN];
        let counts = [1, 0, u16::from(soa.is_some()), 0];
        Header { id, flags: 0, counts }.write(&mut head);
        let mut query =
            [&head, source.apex.wire(), &qtype.0.to_be_bytes(), &Class::IN.0.to_be_bytes()]
                .concat();
        if let Some(rdata) = soa {
            let len = (rdata.len() as u16).to_be_bytes();
            // The owner is a compression pointer to QNAME.
            query.extend_from_slice(&[0xc0, HEADER_LEN as u8, 0, Rtype::SOA.0 as u8, 0, 1]);
            query.extend_from_slice(&[&[0; 4], &len[..], rdata].concat());
        }
        let verifier = source.key.map(|key| {
            let mut signer = TsigSigner::of_request(key);
            signer.sign(&mut query, wall_secs());
            signer.verifier()
        });
        stream.write_all(&[&(query.len() as u16).to_be_bytes()[..], &query].concat())?;
        stream.flush()?;
        Ok(Self {
            stream,
            id,
            is_closed: source.is_closed,
            verifier,
            asked: soa.map(Into::into),
            room: vec![0; usize::from(u16::MAX)],
        })
    }

    /// Returns whether a SOA record has the serial of the query, or an earlier one.
    fn is_asked(&self, soa: &UnverifiedRecord) -> bool {
        let serial = |rdata: &[u8]| Timers::of(rdata).map(|timers| timers.serial);
        let (asked, theirs) = (self.asked.as_deref().and_then(serial), serial(&soa.rdata));
        matches!((asked, theirs), (Some(asked), Some(theirs)) if !is_newer(theirs, asked))
    }

    fn receive(&mut self) -> Result<Vec<u8>, TransferError> {
        let mut length = [0; 2];
        self.fill(&mut length)?;
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        self.fill(&mut message)?;
        Ok(message)
    }

    /// Reads until the buffer is full.
    fn fill(&mut self, mut room: &mut [u8]) -> Result<(), TransferError> {
        while !room.is_empty() {
            if (self.is_closed)() {
                return Err(TransferError::Closed);
            }
            match self.stream.read(room)? {
                0 => return Err(TransferError::Network(io::ErrorKind::UnexpectedEof.into())),
                octets => room = &mut room[octets..],
            }
        }
        Ok(())
    }

    /// Appends the answer section of a message.
    fn read(
        &mut self,
        message: &[u8],
        lines: &mut Vec<UnverifiedRecord>,
    ) -> Result<(), TransferError> {
        let view = MessageView::new(message)?;
        let header = view.header();
        if header.id != self.id || !header.has(QR) || header.opcode() != Opcode::QUERY {
            return Err(TransferError::Malformed);
        }
        let verified = self.verifier.as_mut().map(|one| one.take(message, wall_secs()));
        match (verified, header.rcode()) {
            // A refusal needs no signature, because its only effect is a later attempt.
            (Some(Err(UntrustedReply::Unsigned)) | None | Some(Ok(())), rcode)
                if rcode != Rcode::NOERROR =>
            {
                return Err(TransferError::Refused(rcode));
            }
            (Some(Err(error)), _) => return Err(error.into()),
            _ => {}
        }
        for record in view.section(RecordSection::Answer)? {
            lines.push(line(&record?, &mut self.room)?);
        }
        Ok(())
    }

    /// Returns an error if the last message is not signed, although a key is configured.
    fn end(&self) -> Result<(), TransferError> {
        let is_verified = self.verifier.as_ref().is_none_or(TsigVerifier::is_complete);
        if is_verified { Ok(()) } else { Err(UntrustedReply::Unsigned.into()) }
    }
}

fn line(record: &RecordView<'_>, room: &mut [u8]) -> Result<UnverifiedRecord, TransferError> {
    let owner = record.owner().map_err(|_| TransferError::Malformed)?;
    if record.class != Class::IN {
        return Err(TransferError::Malformed);
    }
    let len = record.expand_rdata(room)?;
    let (owner, rdata) = (owner.folded().view().wire().into(), room[..len].into());
    Ok(UnverifiedRecord { owner, rtype: record.rtype, ttl_secs: record.ttl_secs(), rdata })
}
