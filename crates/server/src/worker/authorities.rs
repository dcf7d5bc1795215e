//! Sockets towards authoritative servers: each query has its own, from a port of its own, which is
//! closed when the query is no longer waited for.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::ops::ControlFlow;

use avocet_io::frame::{FrameReader, FrameWriter, ReadBuffer, ReadState, WriteState};
use avocet_io::poll::{Event, Interest, Poller, Trigger};
use avocet_io::process;
use avocet_io::upstream::UpstreamSocket;
use chacha20::rand_core::Rng;

use super::token::Token;
use super::upstreams::{StreamState, open_socket};

/// One query's way out and back.
enum AuthoritySocket {
    Datagram(UpstreamSocket),
    Stream(Box<Stream>),
}

struct Stream {
    tcp: TcpStream,
    reader: FrameReader,
    writer: FrameWriter,
    interest: Interest,
}

/// Why a query was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NotSent {
    /// The server cannot be reached.
    Unreachable,
    /// We have no descriptor or no buffer for it: nobody else's fault.
    Shortage,
}

impl NotSent {
    pub(super) fn of(error: &io::Error) -> Self {
        if process::is_shortage(error) { Self::Shortage } else { Self::Unreachable }
    }
}

/// See the module.
pub(super) struct Authorities {
    lines: HashMap<u32, AuthoritySocket>,
    /// Most that are open at once.
    budget: usize,
    buffer: ReadBuffer,
}

impl Authorities {
    /// None open, at most `budget` at once.
    pub(super) fn new(budget: usize) -> Self {
        Self { lines: HashMap::new(), budget, buffer: ReadBuffer::new() }
    }

    /// How many are open.
    pub(super) fn open(&self) -> usize {
        self.lines.len()
    }

    /// Sends a datagram from a new socket.
    ///
    /// # Errors
    /// When there are too many, or as the system says.
    pub(super) fn ask(
        &mut self,
        poller: &Poller,
        (number, addr): (u32, SocketAddr),
        octets: &[u8],
        rng: &mut impl Rng,
    ) -> io::Result<()> {
        self.check_budget()?;
        let socket = open_socket(addr, rng)?;
        poller.add(
            &socket,
            Token::AuthoritySocket(number).pack(),
            Interest::Read,
            Trigger::Level,
        )?;
        match socket.send(octets) {
            // A full queue is a loss like any other.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        self.lines.insert(number, AuthoritySocket::Datagram(socket));
        Ok(())
    }

    /// Sends a message over a new connection.
    ///
    /// # Errors
    /// When there are too many, or as the system says.
    pub(super) fn ask_by_tcp(
        &mut self,
        poller: &Poller,
        (number, addr): (u32, SocketAddr),
        octets: &[u8],
    ) -> io::Result<()> {
        self.check_budget()?;
        let tcp = avocet_io::tcp::connect(addr, None)?;
        poller.add(
            &tcp,
            Token::AuthorityStream(number).pack(),
            Interest::ReadWrite,
            Trigger::Level,
        )?;
        let mut writer = FrameWriter::new();
        writer.push(octets).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let stream =
            Stream { tcp, reader: FrameReader::new(), writer, interest: Interest::ReadWrite };
        self.lines.insert(number, AuthoritySocket::Stream(Box::new(stream)));
        Ok(())
    }

    fn check_budget(&self) -> io::Result<()> {
        if self.lines.len() < self.budget {
            Ok(())
        } else {
            Err(io::ErrorKind::QuotaExceeded.into())
        }
    }

    /// Receives a datagram. None: there is none, or the socket is closed meanwhile.
    pub(super) fn receive<'b>(
        &self,
        number: u32,
        buffer: &'b mut [u8],
    ) -> Option<io::Result<&'b [u8]>> {
        let Some(AuthoritySocket::Datagram(socket)) = self.lines.get(&number) else { return None };
        match socket.recv(buffer) {
            Ok(len) => Some(Ok(&buffer[..len])),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Writes and reads what can be; the first message is given to `deliver`.
    pub(super) fn drive(
        &mut self,
        poller: &Poller,
        (number, event): (u32, Event),
        deliver: &mut impl FnMut(&[u8]),
    ) -> StreamState {
        let Self { lines, buffer, .. } = self;
        let Some(AuthoritySocket::Stream(stream)) = lines.get_mut(&number) else {
            return StreamState::Open;
        };
        match stream.drive(poller, event, buffer, deliver) {
            Ok(ReadState::Closed) => StreamState::Closed(io::ErrorKind::UnexpectedEof),
            Ok(_) => StreamState::Open,
            Err(error) => StreamState::Closed(error.kind()),
        }
    }

    /// Closes a socket or connection; that takes it out of the poller as well.
    pub(super) fn close(&mut self, number: u32) {
        self.lines.remove(&number);
    }
}

impl Stream {
    fn drive(
        &mut self,
        poller: &Poller,
        event: Event,
        buffer: &mut ReadBuffer,
        deliver: &mut impl FnMut(&[u8]),
    ) -> io::Result<ReadState> {
        if let Some(error) = self.tcp.take_error()? {
            return Err(error);
        }
        if event.is_writable()
            && self.writer.write(&mut self.tcp)? == WriteState::Drained
            && self.interest != Interest::Read
        {
            self.interest = Interest::Read;
            poller.modify(&self.tcp, event.token(), Interest::Read, Trigger::Level)?;
        }
        self.reader.read(&mut self.tcp, buffer, &mut |message| {
            deliver(message);
            ControlFlow::Break(())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use chacha20::ChaCha12Rng;
    use chacha20::rand_core::SeedableRng;

    use super::*;

    #[test]
    fn too_many_open_sockets_are_no_fault_of_the_server() {
        let (poller, mut rng) = (Poller::new().unwrap(), ChaCha12Rng::from_seed([3; 32]));
        let mut authorities = Authorities::new(1);
        let addr = "127.0.0.1:9".parse().unwrap();
        authorities.ask(&poller, (0, addr), b"x", &mut rng).unwrap();
        let error = authorities.ask(&poller, (1, addr), b"x", &mut rng).unwrap_err();
        assert_eq!(NotSent::of(&error), NotSent::Shortage);
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(NotSent::of(&refused), NotSent::Unreachable);
        assert_eq!(NotSent::of(&io::Error::from_raw_os_error(24)), NotSent::Shortage, "EMFILE");
    }

    /// With 16 bits of the ID, a port of its own for each query makes 32 that cannot be predicted
    /// (RFC 5452 §9).
    #[test]
    fn ports_of_authority_sockets_are_drawn_from_the_whole_range() {
        const DRAWS: usize = 4_000;
        let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let addr = server.local_addr().unwrap();
        let mut rng = ChaCha12Rng::from_seed([3; 32]);
        let mut ports = Vec::with_capacity(DRAWS);
        for _ in 0..DRAWS {
            let socket = open_socket(addr, &mut rng).unwrap();
            socket.send(b"x").unwrap();
            ports.push(server.recv_from(&mut [0; 4]).unwrap().1.port());
        }
        let distinct: HashSet<u16> = ports.iter().copied().collect();
        assert!(distinct.len() > DRAWS * 9 / 10, "{} ports of {DRAWS} draws", distinct.len());
        let (low, high) = (ports.iter().min().unwrap(), ports.iter().max().unwrap());
        assert!(*low < 2_048 && *high > 64_000, "{low} to {high}");
        // Each sixteenth of the range has its share: 250, with a deviation of 15.
        let mut shares = [0u32; 16];
        ports
            .iter()
            .for_each(|port| shares[usize::from(*port - 1_024) * 16 / (65_536 - 1_024)] += 1);
        assert!(shares.iter().all(|share| (150..350).contains(share)), "{shares:?}");
    }
}
