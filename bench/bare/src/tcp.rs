//! A TCP responder. One read takes everything that a connection has sent. Answers are written when
//! all ready connections have been read, one write for each, as Avocet does: further queries arrive
//! meanwhile, so that the next read takes more.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use crate::message::answer_in_place;
use crate::sys::{DATAGRAM, Poll};

/// The most bytes read from a connection at once.
const READ: usize = 65_536;

const LISTENER: u64 = u64::MAX;

/// Answers the queries of all connections, until killed.
pub(crate) fn answer(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let mut poll = Poll::new()?;
    poll.add(listener.as_raw_fd(), LISTENER)?;
    let mut connections: HashMap<u64, Connection> = HashMap::new();
    let mut input = vec![0; READ];
    loop {
        let ready: Vec<u64> = poll.wait(-1)?.collect();
        for number in &ready {
            if *number == LISTENER {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                let number = stream.as_raw_fd() as u64;
                poll.add(stream.as_raw_fd(), number)?;
                connections.insert(number, Connection::new(stream));
            } else if let Some(connection) = connections.get_mut(number)
                && connection.read(&mut input).is_err()
            {
                connections.remove(number);
            }
        }
        for number in &ready {
            if let Some(connection) = connections.get_mut(number)
                && connection.write().is_err()
            {
                connections.remove(number);
            }
        }
    }
}

struct Connection {
    stream: TcpStream,
    /// The start of a query with a rest that has not come yet.
    partial: Vec<u8>,
    /// Answers that are not written yet.
    output: Vec<u8>,
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        Self { stream, partial: Vec::new(), output: Vec::new() }
    }

    /// Reads once and answers the whole queries. An error ends the connection.
    fn read(&mut self, input: &mut [u8]) -> io::Result<()> {
        let kept = self.partial.len();
        input[..kept].copy_from_slice(&self.partial);
        let read = self.stream.read(&mut input[kept..])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let used = answer_whole(&input[..kept + read], &mut self.output);
        self.partial.clear();
        self.partial.extend_from_slice(&input[used..kept + read]);
        Ok(())
    }

    /// Writes all answers at once. An error ends the connection.
    fn write(&mut self) -> io::Result<()> {
        self.stream.write_all(&self.output)?;
        self.output.clear();
        Ok(())
    }
}

/// Appends the answers to all whole queries of `input` and returns how many bytes those were.
fn answer_whole(input: &[u8], output: &mut Vec<u8>) -> usize {
    let mut used = 0;
    while let Some((length, rest)) = input[used..].split_first_chunk::<2>() {
        let length = usize::from(u16::from_be_bytes(*length));
        let Some(query) = rest.get(..length) else {
            break;
        };
        used += 2 + length;
        let start = output.len();
        output.extend_from_slice(&[0; 2]);
        output.extend_from_slice(query);
        output.resize(start + 2 + length.max(DATAGRAM), 0);
        let answer = answer_in_place(&mut output[start + 2..], length).unwrap_or(0);
        output.truncate(start + 2 + answer);
        output[start..start + 2].copy_from_slice(&(answer as u16).to_be_bytes());
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_queries_are_answered_and_the_rest_is_kept() {
        let query = crate::message::query("a.test A", crate::message::Form::Plain).unwrap();
        let framed = [&(query.len() as u16).to_be_bytes()[..], &query].concat();
        let input = [&framed[..], &framed, &framed[..5]].concat();
        let mut output = Vec::new();
        assert_eq!(answer_whole(&input, &mut output), 2 * framed.len());
        assert_eq!(output.len(), 2 * (framed.len() + 16));
        assert_eq!(usize::from(output[1]), query.len() + 16);
    }
}
