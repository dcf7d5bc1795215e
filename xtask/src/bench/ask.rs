//! Single questions to a server, which show whether it is ready and whether its answers are right.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use super::peer::{Peer, Refusal};
use super::workload::Workload;
use super::{blocklist, material, signed};

const TIMEOUT: Duration = Duration::from_millis(300);
/// Number of attempts per question. A busy server, which for example loads its list, may leave a
/// query without an answer and answer the next one.
const ATTEMPTS: usize = 3;
const ID: [u8; 2] = [0x5a, 0x17];

/// Number of names whose answers are compared.
const SAMPLED: u32 = 64;

/// Number of names on the block list that must be refused before the list counts as loaded.
const SAMPLED_OF_LIST: u32 = 512;

const A: u8 = 1;
const AAAA: u8 = 28;

/// An OPT record for 1232 octets (RFC 6891, section 6.1.2).
const OPT: [u8; 11] = [0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0];
/// An OPT record with DO (RFC 3225, section 3), for 4096 octets as dnsperf offers.
const OPT_WITH_DO: [u8; 11] = [0, 0, 41, 0x10, 0, 0, 0, 0x80, 0, 0, 0];
/// Type RRSIG and class IN, as they follow an owner name.
const RRSIG_IN: [u8; 4] = [0, 46, 0, 1];

/// The transport of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Udp,
    /// UDP; each query has an OPT record.
    UdpWithOpt,
    /// UDP; each query has an OPT record with DO.
    UdpWithDo,
    Tcp,
}

impl Transport {
    /// Sends a question and returns the response in wire format.
    fn ask(self, server: SocketAddr, question: &Question) -> io::Result<Vec<u8>> {
        match self {
            Self::Udp => ask_by_udp(server, &question.query()),
            Self::UdpWithOpt => ask_by_udp(server, &question.query_with(&OPT)),
            Self::UdpWithDo => ask_by_udp(server, &question.query_with(&OPT_WITH_DO)),
            Self::Tcp => ask_by_tcp(server, &question.query()),
        }
    }
}

/// A question with its expected answer.
struct Question {
    name: String,
    qtype: u8,
    right: Right,
}

/// An expected answer.
#[derive(Debug)]
enum Right {
    /// NOERROR, with this RDATA in the answer.
    Data(Vec<u8>),
    Nxdomain,
}

impl Question {
    fn address(name: String, address: Ipv4Addr) -> Self {
        Self { name, qtype: A, right: Right::Data(address.octets().to_vec()) }
    }

    /// Returns the query in wire format, without EDNS.
    fn query(&self) -> Vec<u8> {
        let mut query = [&ID[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
        for label in self.name.split('.') {
            query.push(label.len() as u8);
            query.extend_from_slice(label.as_bytes());
        }
        query.extend_from_slice(&[0, 0, self.qtype, 0, 1]);
        query
    }

    /// Returns the query with an OPT record.
    fn query_with(&self, opt: &[u8]) -> Vec<u8> {
        let mut query = self.query();
        query[11] = 1;
        query.extend_from_slice(opt);
        query
    }

    fn is_answered_by(&self, answer: &[u8]) -> bool {
        match &self.right {
            Right::Data(data) => {
                is_positive(answer) && answer.windows(data.len()).any(|bytes| bytes == data)
            }
            Right::Nxdomain => rcode(answer) == Some(3),
        }
    }

    /// Checks the response of a server to the question.
    ///
    /// # Errors
    ///
    /// The response is wrong. The error says how.
    fn verify(&self, server: SocketAddr, transport: Transport) -> Result<(), String> {
        let answer = (0..ATTEMPTS).find_map(|_| transport.ask(server, self).ok());
        let answer = answer.ok_or_else(|| format!("{}: no answer", self.name))?;
        let (name, right) = (&self.name, &self.right);
        if !self.is_answered_by(&answer) {
            return Err(format!(
                "{name}, type {}: RCODE {:?} and not {right:?}",
                self.qtype,
                rcode(&answer)
            ));
        }
        // ARCOUNT shows whether there is an OPT record, without parsing the answer.
        let has_opt = matches!(transport, Transport::UdpWithOpt | Transport::UdpWithDo);
        if has_opt && answer.get(10..12) == Some(&[0, 0]) {
            return Err(format!("{name}: a query with EDNS was answered without"));
        }
        if transport == Transport::UdpWithDo && !is_signed(&answer) {
            return Err(format!("{name}: a query with DO was answered without signature"));
        }
        Ok(())
    }
}

fn ask_by_udp(server: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let local: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((local, 0))?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.connect(server)?;
    socket.send(query)?;
    let mut answer = vec![0; 4096];
    let length = socket.recv(&mut answer)?;
    answer.truncate(length);
    Ok(answer)
}

fn ask_by_tcp(server: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(&[&[0, query.len() as u8], query].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

/// Returns whether a server answers a query for the first name of the zone without an error, over
/// UDP or TCP.
pub(super) fn is_ready(server: SocketAddr) -> bool {
    let query = Question::address(material::name(0), material::address(0)).query();
    let answer = ask_by_udp(server, &query).or_else(|_| ask_by_tcp(server, &query));
    answer.is_ok_and(|answer| is_positive(&answer))
}

/// Returns whether a server refuses names from all parts of the block list. Some servers answer
/// while they load it.
pub(super) fn is_blocking(server: SocketAddr, refusal: Refusal) -> bool {
    let apart = blocklist::NAMES / SAMPLED_OF_LIST;
    (0..SAMPLED_OF_LIST).map(|sample| blocked(sample * apart, refusal)).all(|question| {
        ask_by_udp(server, &question.query()).is_ok_and(|answer| question.is_answered_by(&answer))
    })
}

/// Compares the answers to a sample of a workload's questions.
///
/// # Errors
///
/// An answer is wrong. The error says which one.
pub(super) fn verify(server: SocketAddr, peer: Peer, workload: Workload) -> Result<(), String> {
    let questions = (0..SAMPLED).flat_map(|sample| questions(workload, peer, sample));
    for question in questions {
        question.verify(server, workload.transport())?;
    }
    Ok(())
}

/// Returns questions like those of the workload. If the workload needs names that were never
/// queried, the questions use other new names.
fn questions(workload: Workload, peer: Peer, sample: u32) -> Vec<Question> {
    let index = sample * (material::HOT_NAMES / SAMPLED);
    match (workload, peer.refusal()) {
        (Workload::Miss | Workload::MemorySmall | Workload::Memory | Workload::Endurance, _) => {
            vec![Question::address(
                format!("check{sample}.miss.bench.test"),
                material::WILDCARD_ADDRESS,
            )]
        }
        (Workload::Zipf, _) => mixed(index),
        (Workload::HotDo, _) => {
            vec![Question::address(signed::name(index), material::address(index))]
        }
        // Names that are not on the list are not blocked.
        (Workload::Blocked, Some(refusal)) => vec![blocked(index, refusal), hot(index)],
        _ => vec![hot(index)],
    }
}

fn hot(index: u32) -> Question {
    Question::address(material::name(index), material::address(index))
}

fn blocked(index: u32, refusal: Refusal) -> Question {
    let right = match refusal {
        Refusal::Nxdomain => Right::Nxdomain,
        Refusal::NullAddress => Right::Data(vec![0; 4]),
    };
    Question { name: blocklist::name(index), qtype: A, right }
}

/// Returns the kinds of questions in the Zipf mix: addresses of both families, an alias, and a name
/// that does not exist.
fn mixed(index: u32) -> Vec<Question> {
    let (even, aliased) = (index / 2 * 2, index / 10 * 10 + 5);
    let address = Ipv6Addr::from_bits(material::ADDRESS_PREFIX | u128::from(even));
    vec![
        hot(index),
        Question {
            name: material::name(even),
            qtype: AAAA,
            right: Right::Data(address.octets().to_vec()),
        },
        Question::address(format!("alias{aliased}.site.bench.test"), material::address(aliased)),
        Question { name: format!("none{index}.site.bench.test"), qtype: A, right: Right::Nxdomain },
    ]
}

/// Returns the RCODE of a response to the query of this bench, or `None` for any other message.
fn rcode(answer: &[u8]) -> Option<u8> {
    let header = answer.first_chunk::<12>()?;
    (header[..2] == ID && header[2] & 0x80 != 0).then_some(header[3] & 15)
}

/// Returns whether a response has an RRSIG record, without parsing the response.
fn is_signed(answer: &[u8]) -> bool {
    answer.windows(RRSIG_IN.len()).any(|octets| octets == RRSIG_IN)
}

/// Returns whether this message answers the query of this bench with NOERROR and at least one
/// record.
fn is_positive(answer: &[u8]) -> bool {
    rcode(answer) == Some(0) && answer[6..8] != [0, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(flags: u8, rcode: u8, answers: u8) -> [u8; 12] {
        [ID[0], ID[1], flags, rcode, 0, 1, 0, answers, 0, 0, 0, 0]
    }

    #[test]
    fn only_an_answer_with_records_is_positive() {
        assert!(is_positive(&header(0x81, 0, 1)));
        assert!(!is_positive(&header(0x01, 0, 1)));
        assert!(!is_positive(&header(0x81, 3, 1)));
        assert!(!is_positive(&header(0x81, 0, 0)));
        assert!(!is_positive(&ID));
    }

    #[test]
    fn the_right_answer_has_the_address_of_the_name() {
        let question = hot(70_000);
        let answer = |address: [u8; 4]| [&header(0x81, 0, 1)[..], &address].concat();
        assert!(question.is_answered_by(&answer([10, 1, 17, 112])));
        assert!(!question.is_answered_by(&answer([10, 1, 17, 113])));
        assert!(!question.is_answered_by(&header(0x81, 3, 0)));
    }

    #[test]
    fn a_blocked_name_is_refused_in_the_servers_way() {
        assert!(blocked(7, Refusal::Nxdomain).is_answered_by(&header(0x81, 3, 0)));
        assert!(!blocked(7, Refusal::Nxdomain).is_answered_by(&header(0x81, 0, 1)));
        assert!(!blocked(7, Refusal::NullAddress).is_answered_by(&header(0x81, 3, 0)));
    }

    #[test]
    fn a_signed_answer_has_a_signature() {
        let address = [&[0xc0, 12][..], &[0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 10, 0, 0, 46]].concat();
        let signature = [&[0xc0, 12][..], &[0, 46, 0, 1, 0, 0, 0, 60, 0, 96]].concat();
        assert!(!is_signed(&address));
        assert!(is_signed(&[address, signature].concat()));
    }

    #[test]
    fn a_query_with_do_offers_4096_octets() {
        let query = hot(7).query_with(&OPT_WITH_DO);
        assert_eq!(query[10..12], [0, 1]);
        assert_eq!(query[query.len() - 11..][..8], [0, 0, 41, 0x10, 0, 0, 0, 0x80]);
    }

    #[test]
    fn the_mix_is_tried_in_all_its_kinds() {
        let kinds: Vec<_> =
            mixed(311).into_iter().map(|question| (question.name, question.qtype)).collect();
        let expected = [("www311", A), ("www310", AAAA), ("alias315", A), ("none311", A)];
        assert_eq!(kinds, expected.map(|(name, qtype)| (format!("{name}.site.bench.test"), qtype)));
    }
}
