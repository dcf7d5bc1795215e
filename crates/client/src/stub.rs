//! A stub resolver with which the server sends its own queries, to itself or to another server: for
//! names of clients, addresses of upstreams, DS records of its zones, and others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use avocet_config::name::reverse_name;
use avocet_wire::view::{RecordSection, RecordView};
use avocet_wire::{MessageView, NameBuf, Rcode, Rtype};

use crate::request::Request;
use crate::{ClientError, exchange};

/// Time to wait for the name of an address. It is longer than the timeout of the server that
/// resolves the name.
const NAME_PATIENCE: Duration = Duration::from_secs(5);
/// Maximum TTL of DS records in seconds: resolvers do not cache records for longer (RFC 8767 §4).
const MAX_DS_TTL_SECS: u32 = 7 * 86_400;
/// Number of octets of TTL and length, which precede a record's data.
const TTL_AND_LENGTH: usize = 6;

/// Returns the name of an address according to `server`, with its TTL in seconds; `None` if there
/// is none.
///
/// # Errors
///
/// The server does not answer, or answers with an error.
pub fn name_of(server: SocketAddr, address: IpAddr) -> Result<Option<(String, u32)>, ClientError> {
    let reverse = NameBuf::from_wire(&reverse_name(address))?;
    let mut request = Request::from_words(&[reverse.to_string(), "PTR".to_owned()])?;
    (request.tries, request.timeout) = (1, NAME_PATIENCE);
    let reply = exchange::exchange(&request, server)?;
    let message = MessageView::new(&reply.octets)?;
    match message.header().rcode() {
        Rcode::NOERROR | Rcode::NXDOMAIN => {}
        rcode => return Err(ClientError::Rcode(rcode)),
    }
    let records = message.records()?;
    let answer =
        records.map_while(Result::ok).take_while(|record| record.section == RecordSection::Answer);
    let name = |record: RecordView<'_>| {
        let target = NameBuf::read(&reply.octets, record.ttl_offset() + TTL_AND_LENGTH).ok()?;
        Some((target.folded().to_string(), record.ttl_secs()))
    };
    Ok(answer.filter(|record| record.rtype == Rtype::PTR).find_map(name))
}

/// A server without encryption.
#[derive(Debug, Clone, Copy)]
pub struct StubServer {
    /// The address of the server.
    pub addr: SocketAddr,
    /// Whether the server is queried over TCP only.
    pub by_tcp: bool,
}

impl From<SocketAddr> for StubServer {
    fn from(addr: SocketAddr) -> Self {
        Self { addr, by_tcp: false }
    }
}

/// Returns the data of the records of a name and a type according to `server`, with the highest TTL
/// in seconds.
///
/// # Errors
///
/// The server does not answer, or answers with an error other than NXDOMAIN.
pub fn records_of(
    server: StubServer,
    name: &NameBuf,
    rtype: Rtype,
) -> Result<(Vec<Vec<u8>>, u32), ClientError> {
    let mut request = Request::from_words(&[name.to_string(), rtype.to_string()])?;
    (request.tries, request.timeout, request.tcp) = (1, NAME_PATIENCE, server.by_tcp);
    let server = server.addr;
    records_in(&exchange::exchange(&request, server)?.octets, rtype)
}

/// Returns the data of the DS records in the answer section, and the highest TTL in seconds of the
/// records and of the original TTLs in their signatures: a server that has cached the records sends
/// them with a lower TTL than they have at the parent.
///
/// # Errors
///
/// The message is malformed, or has an error other than NXDOMAIN.
pub fn ds_in(octets: &[u8]) -> Result<(Vec<Vec<u8>>, u32), ClientError> {
    let (records, ttl_secs) = records_in(octets, Rtype::DS)?;
    let (signatures, _) = records_in(octets, Rtype::RRSIG)?;
    let signed = signatures.iter().filter_map(|data| {
        // RFC 4034 §3.1: the type, algorithm and labels precede the original TTL.
        let (head, _) = data.split_first_chunk::<8>()?;
        let [high, low, _, _, ttl @ ..] = *head;
        (Rtype(u16::from_be_bytes([high, low])) == Rtype::DS).then(|| u32::from_be_bytes(ttl))
    });
    let ttl_secs = signed.fold(ttl_secs, u32::max).min(MAX_DS_TTL_SECS);
    Ok((records, ttl_secs))
}

/// Returns the data of the records of a type in the answer section, with their highest TTL in
/// seconds.
///
/// # Errors
///
/// The message is malformed, or has an error other than NXDOMAIN.
pub fn records_in(octets: &[u8], rtype: Rtype) -> Result<(Vec<Vec<u8>>, u32), ClientError> {
    let message = MessageView::new(octets)?;
    match message.header().rcode() {
        Rcode::NOERROR | Rcode::NXDOMAIN => {}
        rcode => return Err(ClientError::Rcode(rcode)),
    }
    let records = message.records()?.map_while(Result::ok);
    let records: Vec<_> = records
        .take_while(|record| record.section == RecordSection::Answer)
        .filter(|record| record.rtype == rtype)
        .collect();
    let ttl_secs = records.iter().map(RecordView::ttl_secs).max().unwrap_or(0);
    Ok((records.iter().map(|record| record.rdata().to_vec()).collect(), ttl_secs))
}

/// Returns the addresses in the answer section.
///
/// # Errors
///
/// The RCODE, if the response is an error.
pub fn addresses_in(octets: &[u8]) -> Result<Vec<IpAddr>, Rcode> {
    let message = MessageView::new(octets).map_err(|_| Rcode::FORMERR)?;
    match message.header().rcode() {
        Rcode::NOERROR => {}
        rcode => return Err(rcode),
    }
    let records = message.records().map_err(|_| Rcode::FORMERR)?;
    let answer =
        records.map_while(Result::ok).take_while(|record| record.section == RecordSection::Answer);
    let address = |record: RecordView<'_>| match record.rtype {
        Rtype::A => <[u8; 4]>::try_from(record.rdata()).map(IpAddr::from).ok(),
        Rtype::AAAA => <[u8; 16]>::try_from(record.rdata()).map(IpAddr::from).ok(),
        _ => None,
    };
    Ok(answer.filter_map(address).collect())
}

/// Returns the address at which this host reaches a server on the same host that listens on
/// `listen`.
pub fn from_here(listen: SocketAddr) -> SocketAddr {
    let mut server = listen;
    if server.ip().is_unspecified() {
        server.set_ip(match server.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    server
}
