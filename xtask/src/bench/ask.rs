//! Single questions to a server: is it there, and is it right?

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::time::Duration;

use super::material;

const TIMEOUT: Duration = Duration::from_millis(300);
const ID: [u8; 2] = [0x5a, 0x17];

/// The names that are compared with the zone before a run.
const SAMPLED: u32 = 64;

/// What a question is carried by.
#[derive(Clone, Copy)]
pub(super) enum Transport {
    Udp,
    Tcp,
}

impl Transport {
    /// Asks for the address of a name and returns the answer as it came.
    fn ask(self, port: u16, name: &str) -> io::Result<Vec<u8>> {
        match self {
            Self::Udp => ask_by_udp(port, name),
            Self::Tcp => ask_by_tcp(port, name),
        }
    }
}

/// A query for the address of a name.
fn query(name: &str) -> Vec<u8> {
    let mut query = [&ID[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
    for label in name.split('.') {
        query.push(label.len() as u8);
        query.extend_from_slice(label.as_bytes());
    }
    query.extend_from_slice(&[0, 0, 1, 0, 1]);
    query
}

fn ask_by_udp(port: u16, name: &str) -> io::Result<Vec<u8>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.connect((Ipv4Addr::LOCALHOST, port))?;
    socket.send(&query(name))?;
    let mut answer = vec![0; 4096];
    let length = socket.recv(&mut answer)?;
    answer.truncate(length);
    Ok(answer)
}

fn ask_by_tcp(port: u16, name: &str) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let query = query(name);
    stream.write_all(&[&[0, query.len() as u8], &query[..]].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

/// Whether a server answers for the first name of the zone without an error, be it by TCP alone.
pub(super) fn is_ready(port: u16) -> bool {
    let name = material::name(0);
    let answer = ask_by_udp(port, &name).or_else(|_| ask_by_tcp(port, &name));
    answer.is_ok_and(|answer| is_positive(&answer))
}

/// Compares addresses with those of the zone; says which one is wrong.
pub(super) fn verify(port: u16, transport: Transport) -> Result<(), String> {
    for sample in 0..SAMPLED {
        let index = sample * (material::HOT_NAMES / SAMPLED);
        let (name, address) = (material::name(index), material::address(index));
        let answer = transport.ask(port, &name).map_err(|error| format!("{name}: {error}"))?;
        if !is_positive(&answer) || !answer.windows(4).any(|bytes| bytes == address.octets()) {
            return Err(format!("{name}: the answer is not {address}"));
        }
    }
    Ok(())
}

/// Whether it answers our query with NOERROR and at least one record.
fn is_positive(answer: &[u8]) -> bool {
    answer.first_chunk::<12>().is_some_and(|header| {
        header[..2] == ID && header[2] & 0x80 != 0 && header[3] & 15 == 0 && header[6..8] != [0, 0]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_answer_with_records_is_positive() {
        let header = |flags, rcode, answers| [ID[0], ID[1], flags, rcode, 0, 1, 0, answers, 0, 0, 0, 0];
        assert!(is_positive(&header(0x81, 0, 1)));
        assert!(!is_positive(&header(0x01, 0, 1)));
        assert!(!is_positive(&header(0x81, 3, 1)));
        assert!(!is_positive(&header(0x81, 0, 0)));
        assert!(!is_positive(&ID));
    }
}
