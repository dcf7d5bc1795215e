//! Recorded traffic: the queries of a classic pcap file, with their times and clients. `tapped.rs`
//! reads files with dnstap messages.
//!
//! Reads UDP datagrams to the DNS port in unfragmented IPv4 and IPv6 packets, on Ethernet, raw IP
//! and Linux cooked captures. Other packets are skipped and counted. Lengths in the file are not
//! trusted.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use avocet_wire::header::HEADER_LEN;
use avocet_wire::{DNS_PORT, QueryView};

use super::questions::{MAX_QUERY, Questions};
use super::tapped;
use crate::error::LoadError;

/// Maximum number of octets of one captured packet, as in common capture tools.
const MAX_PACKET: usize = 262_144;

/// Maximum number of distinct clients. Further clients share the sockets of earlier ones.
pub(crate) const MAX_RECORDED_CLIENTS: usize = 16_384;

/// Link types of the global header.
const ETHERNET: u32 = 1;
const RAW: [u32; 4] = [12, 14, 101, 228];
const RAW_V6: u32 = 229;
const COOKED: u32 = 113;
const COOKED_SECOND: u32 = 276;

const V4: u16 = 0x0800;
const V6: u16 = 0x86dd;
const VLAN: [u16; 2] = [0x8100, 0x88a8];

/// The queries of a recording.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// The queries as they were sent.
    pub questions: Questions,
    /// Nanoseconds from the first query to each query, in non-decreasing order.
    pub due_ns: Vec<u64>,
    /// The client of each query, as an index below `client_count`.
    pub clients: Vec<u32>,
    /// The number of clients.
    pub client_count: usize,
    /// Packets other than queries: answers, fragments, other protocols and malformed packets.
    pub passed_over: u64,
}

/// Reports whether the file begins like a classic pcap or a frame stream.
pub(crate) fn is_recording(path: &Path) -> bool {
    let mut magic = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && (magic == tapped::MAGIC || Layout::of(magic).is_some())
}

/// Reads the recording at `path`.
pub(crate) fn read_file(path: &Path) -> Result<Recording, LoadError> {
    let file = File::open(path).map_err(LoadError::in_file(path))?;
    Recording::read(BufReader::new(file)).map_err(LoadError::in_file(path))
}

/// The byte order, and the number of nanoseconds in a unit of the fractional seconds.
#[derive(Clone, Copy)]
struct Layout {
    big_endian: bool,
    fraction_ns: u64,
}

impl Layout {
    fn of(magic: [u8; 4]) -> Option<Self> {
        let (big_endian, fraction_ns) = match magic {
            [0xa1, 0xb2, 0xc3, 0xd4] => (true, 1_000),
            [0xd4, 0xc3, 0xb2, 0xa1] => (false, 1_000),
            [0xa1, 0xb2, 0x3c, 0x4d] => (true, 1),
            [0x4d, 0x3c, 0xb2, 0xa1] => (false, 1),
            _ => return None,
        };
        Some(Self { big_endian, fraction_ns })
    }

    fn word(self, octets: &[u8], at: usize) -> u32 {
        let word =
            octets.get(at..at + 4).and_then(|word| word.first_chunk()).copied().unwrap_or_default();
        if self.big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    }
}

impl Recording {
    /// Reports whether a query is short enough to be sent.
    pub(super) fn fits(query: &[u8]) -> bool {
        query.len() <= MAX_QUERY
    }

    /// Reads a recording.
    ///
    /// # Errors
    /// The file is neither a classic pcap file nor a frame stream of dnstap, is damaged, or has no
    /// query.
    pub fn read(mut file: impl Read) -> Result<Self, LoadError> {
        let mut head = [0; 24];
        let (magic, rest) = head.split_at_mut(4);
        file.read_exact(magic).map_err(|_| LoadError::ShortRecording)?;
        let magic = magic.first_chunk().copied().unwrap_or_default();
        if magic == tapped::MAGIC {
            return tapped::read(magic.chain(file));
        }
        file.read_exact(rest).map_err(|_| LoadError::ShortRecording)?;
        let layout = Layout::of(magic).ok_or(LoadError::NotARecording)?;
        let link = layout.word(&head, 20) & 0x0fff_ffff;
        let mut recording = Self::default();
        let mut clients = HashMap::new();
        let mut start_ns = None;
        let mut packet = Vec::new();
        while let Some(time_ns) = next_packet(&mut file, layout, &mut packet)? {
            let Some((client, query)) = ip_packet(link, &packet).and_then(datagram) else {
                recording.passed_over += 1;
                continue;
            };
            match QueryView::parse(query) {
                Ok(view) if Self::fits(query) => {
                    recording.questions.push_octets(query, HEADER_LEN + view.question().len())?;
                }
                _ => {
                    recording.passed_over += 1;
                    continue;
                }
            }
            let since = time_ns.saturating_sub(*start_ns.get_or_insert(time_ns));
            // Packets from several cores may be out of order. No packet is due before its
            // predecessor.
            let last = recording.due_ns.last().copied().unwrap_or_default();
            recording.due_ns.push(since.max(last));
            recording.clients.push(client_number(&mut clients, client));
        }
        recording.client_count = clients.len();
        if recording.questions.is_empty() { Err(LoadError::NoRecordedQuery) } else { Ok(recording) }
    }
}

/// Returns the index of a client. Clients beyond [`MAX_RECORDED_CLIENTS`] share existing indexes.
pub(super) fn client_number(clients: &mut HashMap<SocketAddr, u32>, client: SocketAddr) -> u32 {
    let next = clients.len();
    match clients.get(&client) {
        Some(number) => *number,
        None if next < MAX_RECORDED_CLIENTS => *clients.entry(client).or_insert(next as u32),
        None => u32::from(client.port()) % MAX_RECORDED_CLIENTS as u32,
    }
}

/// Reads the next packet into `packet` and returns its time, or `None` at the end of the file.
fn next_packet(
    file: &mut impl Read,
    layout: Layout,
    packet: &mut Vec<u8>,
) -> Result<Option<u64>, LoadError> {
    let mut head = [0; 16];
    match file.read_exact(&mut head) {
        // An interrupted capture ends within a packet.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    let len = layout.word(&head, 8) as usize;
    if len > MAX_PACKET {
        return Err(LoadError::DamagedRecording(len));
    }
    packet.clear();
    let read = file.take(len as u64).read_to_end(packet)?;
    if read < len {
        return Ok(None);
    }
    let secs = u64::from(layout.word(&head, 0));
    let fraction = u64::from(layout.word(&head, 4));
    Ok(Some(secs * 1_000_000_000 + fraction * layout.fraction_ns))
}

/// Returns the IP packet in a captured frame.
fn ip_packet(link: u32, frame: &[u8]) -> Option<&[u8]> {
    match link {
        ETHERNET => {
            let mut at = 12;
            // A frame has at most two VLAN tags (IEEE 802.1ad).
            for _ in 0..2 {
                if VLAN.contains(&be16(frame, at)?) {
                    at += 4;
                }
            }
            matches!(be16(frame, at)?, V4 | V6).then(|| frame.get(at + 2..))?
        }
        COOKED => matches!(be16(frame, 14)?, V4 | V6).then(|| frame.get(16..))?,
        COOKED_SECOND => matches!(be16(frame, 0)?, V4 | V6).then(|| frame.get(20..))?,
        RAW_V6 => Some(frame),
        _ if RAW.contains(&link) => Some(frame),
        _ => None,
    }
}

/// Returns the client and the payload of a UDP datagram to the DNS port.
fn datagram(packet: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let (source, udp) = match packet.first()? >> 4 {
        4 => v4_payload(packet)?,
        6 => v6_payload(packet)?,
        _ => return None,
    };
    let (from, to, len) = (be16(udp, 0)?, be16(udp, 2)?, usize::from(be16(udp, 4)?));
    (to == DNS_PORT).then_some(())?;
    Some((SocketAddr::new(source, from), udp.get(8..len)?))
}

fn v4_payload(packet: &[u8]) -> Option<(IpAddr, &[u8])> {
    let header_len = usize::from(packet.first()? & 15) * 4;
    let total = usize::from(be16(packet, 2)?);
    let is_fragment = be16(packet, 6)? & 0x3fff != 0;
    if is_fragment || header_len < 20 || *packet.get(9)? != 17 {
        return None;
    }
    let source: [u8; 4] = *packet.get(12..16)?.first_chunk()?;
    Some((IpAddr::from(source), packet.get(header_len..total)?))
}

/// Returns the source address and the payload of an IPv6 packet with UDP. Packets with extension
/// headers are skipped, because DNS queries do not have them in practice.
fn v6_payload(packet: &[u8]) -> Option<(IpAddr, &[u8])> {
    let len = usize::from(be16(packet, 4)?);
    if *packet.get(6)? != 17 {
        return None;
    }
    let source: [u8; 16] = *packet.get(8..24)?.first_chunk()?;
    Some((IpAddr::from(source), packet.get(40..40 + len)?))
}

fn be16(octets: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*octets.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const QUERY: &[u8] = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x01\0\x01";

    fn udp(port: u16, to: u16) -> Vec<u8> {
        let len = 8 + QUERY.len() as u16;
        let head = [port, to, len, 0].map(u16::to_be_bytes).concat();
        [&head, QUERY].concat()
    }

    fn v4(port: u16, to: u16) -> Vec<u8> {
        let body = udp(port, to);
        let mut packet = vec![
            0x45,
            0,
            0,
            20 + body.len() as u8,
            0,
            0,
            0,
            0,
            64,
            17,
            0,
            0,
            192,
            0,
            2,
            1,
            192,
            0,
            2,
            53,
        ];
        packet.extend(body);
        packet
    }

    fn v6(port: u16) -> Vec<u8> {
        let body = udp(port, 53);
        let mut packet = vec![0x60, 0, 0, 0, 0, body.len() as u8, 17, 64];
        packet.extend([1; 32]);
        packet.extend(body);
        packet
    }

    fn file(link: u32, packets: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
        let mut out = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0];
        out.extend(link.to_le_bytes());
        for (secs, micros, packet) in packets {
            for word in [*secs, *micros, packet.len() as u32, packet.len() as u32] {
                out.extend(word.to_le_bytes());
            }
            out.extend(packet);
        }
        out
    }

    fn check_link(link: u32, prefix: &[u8], packet: Vec<u8>) {
        let framed = [prefix, &packet].concat();
        let recording = Recording::read(&file(link, &[(1, 0, framed)])[..]).unwrap();
        assert_eq!(recording.questions.query(0), QUERY, "link type {link}");
    }

    #[test]
    fn every_link_type_is_read() {
        check_link(1, &[[0; 12].as_slice(), &[8, 0]].concat(), v4(4000, 53));
        check_link(1, &[[0; 12].as_slice(), &[0x81, 0, 0, 7, 0x86, 0xdd]].concat(), v6(4000));
        check_link(101, &[], v4(4000, 53));
        check_link(101, &[], v6(4000));
        check_link(113, &[[0; 14].as_slice(), &[8, 0]].concat(), v4(4000, 53));
        check_link(276, &[&[0x86, 0xdd][..], &[0; 18]].concat(), v6(4000));
    }

    #[test]
    fn times_and_clients_are_kept() {
        let packets = [
            (10, 500_000, v4(1, 53)),
            (10, 600_000, v4(2, 53)),
            (10, 550_000, v4(1, 53)),
            (11, 0, v4(53, 4000)),
        ];
        let recording = Recording::read(&file(101, &packets)[..]).unwrap();
        assert_eq!(recording.due_ns, [0, 100_000_000, 100_000_000]);
        assert_eq!(recording.clients, [0, 1, 0]);
        assert_eq!((recording.client_count, recording.passed_over), (2, 1));
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        for bytes in [&b""[..], b"name A\n", &[0; 64], &file(101, &[])] {
            assert!(Recording::read(bytes).is_err());
        }
        let mut huge = file(101, &[(0, 0, v4(1, 53))]);
        huge[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Recording::read(&huge[..]).unwrap_err().to_string().contains("damaged"));
    }

    #[test]
    fn no_damage_makes_the_reader_panic() {
        let whole =
            file(1, &[(1, 0, [&[0u8; 12][..], &[8, 0], &v4(4000, 53)].concat()), (1, 1, v6(7))]);
        let mut random = Random::new(1);
        for _ in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..=random.below(6) {
                let at = 20 + random.below(bytes.len() as u64 - 20) as usize;
                bytes[at] = random.next() as u8;
            }
            bytes.truncate(random.below(whole.len() as u64 + 1) as usize);
            let _ = Recording::read(&bytes[..]);
        }
    }
}
