//! The client side of a zone transfer over TCP (RFC 5936), limited to the needs of the root zone.
//!
//! Incoming data is bounded in octets, records and time. It is not trusted before its verification.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use avocet_resolver::Timers;
use avocet_wire::header::{HEADER_LEN, Header, QR};
use avocet_wire::rdata::RdataError;
use avocet_wire::view::{RecordSection, RecordView};
use avocet_wire::{Class, MessageView, Opcode, Rcode, Rtype, WireError};

use super::zone_file::{MAX_ZONE_OCTETS, MAX_ZONE_RECORDS, UnverifiedRecord};

/// Longest wait for a connection, and for each message.
const MESSAGE_TIME: Duration = Duration::from_secs(10);
/// Longest duration of a transfer.
const TRANSFER_TIME: Duration = Duration::from_secs(120);
/// The type of a transfer (RFC 5936 §2.1).
const AXFR: Rtype = Rtype(252);

/// Why a transfer failed.
#[derive(Debug)]
pub(crate) enum TransferError {
    /// A network error or timeout.
    Network(io::Error),
    /// The primary refuses the transfer.
    Refused(Rcode),
    /// The response is not a transfer of the zone.
    Malformed,
    /// The zone is larger than the root zone can be.
    TooLarge,
    /// The server is shutting down.
    Closed,
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(error) => error.fmt(f),
            Self::Refused(rcode) => write!(f, "it responded with {rcode}"),
            Self::Malformed => f.write_str("the response is not a zone transfer"),
            Self::TooLarge => {
                write!(f, "more than {MAX_ZONE_OCTETS} octets or {MAX_ZONE_RECORDS} records")
            }
            Self::Closed => f.write_str("the server is shutting down"),
        }
    }
}

impl From<io::Error> for TransferError {
    fn from(error: io::Error) -> Self {
        Self::Network(error)
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

/// A connection to a primary with one question about the root.
struct Exchange<'a> {
    stream: TcpStream,
    id: u16,
    ends: Instant,
    is_closed: &'a dyn Fn() -> bool,
    /// Buffer for the data of one record.
    room: Vec<u8>,
}

/// Returns the SOA timers of a primary.
///
/// # Errors
///
/// See [`TransferError`].
pub(crate) fn timers(
    primary: SocketAddr,
    is_closed: &dyn Fn() -> bool,
) -> Result<Timers, TransferError> {
    let mut exchange = Exchange::begin(primary, Rtype::SOA, is_closed)?;
    let message = exchange.receive()?;
    let mut lines = Vec::new();
    exchange.read(&message, &mut lines)?;
    let soa = lines.iter().find(|line| is_soa(line));
    soa.and_then(|soa| Timers::of(&soa.rdata)).ok_or(TransferError::Malformed)
}

/// Returns all records of the zone from a primary.
///
/// # Errors
///
/// See [`TransferError`].
pub(crate) fn zone(
    primary: SocketAddr,
    is_closed: &dyn Fn() -> bool,
) -> Result<Vec<UnverifiedRecord>, TransferError> {
    let mut exchange = Exchange::begin(primary, AXFR, is_closed)?;
    let (mut lines, mut octets): (Vec<UnverifiedRecord>, u64) = (Vec::new(), 0);
    loop {
        let message = exchange.receive()?;
        octets += message.len() as u64;
        let before = lines.len();
        exchange.read(&message, &mut lines)?;
        if octets > MAX_ZONE_OCTETS || lines.len() > MAX_ZONE_RECORDS {
            return Err(TransferError::TooLarge);
        }
        // The transfer begins and ends with the SOA record (RFC 5936 §2.2).
        if !lines.first().is_some_and(is_soa) || lines.len() == before {
            return Err(TransferError::Malformed);
        }
        let second = lines.iter().skip(1).position(is_soa);
        match second {
            Some(at) if at + 2 == lines.len() && lines[at + 1].rdata == lines[0].rdata => {
                lines.pop();
                return Ok(lines);
            }
            Some(_) => return Err(TransferError::Malformed),
            None => {}
        }
    }
}

fn is_soa(line: &UnverifiedRecord) -> bool {
    line.rtype == Rtype::SOA && *line.owner == [0]
}

impl<'a> Exchange<'a> {
    fn begin(
        primary: SocketAddr,
        qtype: Rtype,
        is_closed: &'a dyn Fn() -> bool,
    ) -> Result<Self, TransferError> {
        let mut id = [0; 2];
        getrandom::fill(&mut id).map_err(|error| io::Error::other(error.to_string()))?;
        let id = u16::from_be_bytes(id);
        let mut stream = TcpStream::connect_timeout(&primary, MESSAGE_TIME)?;
        stream.set_read_timeout(Some(MESSAGE_TIME))?;
        stream.set_write_timeout(Some(MESSAGE_TIME))?;
        let mut head = [0; HEADER_LEN];
        Header { id, flags: 0, counts: [1, 0, 0, 0] }.write(&mut head);
        let question = [&[0][..], &qtype.0.to_be_bytes(), &Class::IN.0.to_be_bytes()].concat();
        let length = ((head.len() + question.len()) as u16).to_be_bytes();
        stream.write_all(&[&length[..], &head, &question].concat())?;
        Ok(Self {
            stream,
            id,
            ends: Instant::now() + TRANSFER_TIME,
            is_closed,
            room: vec![0; usize::from(u16::MAX)],
        })
    }

    fn receive(&mut self) -> Result<Vec<u8>, TransferError> {
        let mut length = [0; 2];
        self.fill(&mut length)?;
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        self.fill(&mut message)?;
        Ok(message)
    }

    /// Reads until the buffer is full. A primary that sends single octets gets no more time than
    /// others.
    fn fill(&mut self, mut room: &mut [u8]) -> Result<(), TransferError> {
        while !room.is_empty() {
            if (self.is_closed)() {
                return Err(TransferError::Closed);
            }
            if Instant::now() > self.ends {
                return Err(TransferError::Network(io::ErrorKind::TimedOut.into()));
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
        if header.rcode() != Rcode::NOERROR {
            return Err(TransferError::Refused(header.rcode()));
        }
        for record in view.section(RecordSection::Answer)? {
            lines.push(line(&record?, &mut self.room)?);
        }
        Ok(())
    }
}

fn line(record: &RecordView<'_>, room: &mut [u8]) -> Result<UnverifiedRecord, TransferError> {
    let owner = record.owner().map_err(|_| TransferError::Malformed)?;
    if record.class != Class::IN {
        return Err(TransferError::Malformed);
    }
    let len = record.expand_rdata(room)?;
    let (owner, rdata) = (owner.folded().wire().into(), room[..len].into());
    Ok(UnverifiedRecord { owner, rtype: record.rtype, ttl_secs: record.ttl_secs(), rdata })
}
