//! A client that sends and receives raw octets.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use super::{Ask, PATIENCE, Reply};

/// A full socket buffer loses datagrams; a real client retries, too.
const TRIES: u32 = 4;

/// A socket connected to one server.
pub(crate) struct Udp {
    socket: UdpSocket,
}

impl Udp {
    /// Uses a port that the system chooses.
    pub(crate) fn to(server: SocketAddr) -> Self {
        let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        Self::from(any.parse().expect("an address"), server)
    }

    /// Uses one of our addresses. The socket is connected: it receives only from the server's
    /// address.
    pub(crate) fn from(local: SocketAddr, server: SocketAddr) -> Self {
        let socket = UdpSocket::bind(local).expect("a socket");
        socket.connect(server).expect("a route");
        Self { socket }
    }

    /// The same socket, to receive in another thread.
    pub(crate) fn second_handle(&self) -> Self {
        Self { socket: self.socket.try_clone().expect("a descriptor") }
    }

    /// Sends a datagram.
    pub(crate) fn send(&self, octets: &[u8]) {
        // An error of an earlier datagram, such as a closed port, may show here.
        let _ = self.socket.send(octets);
    }

    /// The next datagram within the given time.
    pub(crate) fn receive(&self, within: Duration) -> Option<Vec<u8>> {
        self.socket.set_read_timeout(Some(within)).expect("a timeout above zero");
        let mut octets = vec![0; 65_535];
        let len = self.socket.recv(&mut octets).ok()?;
        octets.truncate(len);
        Some(octets)
    }

    /// Sends the query and returns the reply with its ID; retries if there is none.
    pub(crate) fn exchange(&self, octets: &[u8]) -> Option<Vec<u8>> {
        for _ in 0..TRIES {
            self.send(octets);
            while let Some(reply) = self.receive(PATIENCE / TRIES) {
                if reply.get(..2) == octets.get(..2) {
                    return Some(reply);
                }
            }
        }
        None
    }

    /// Sends a query and reads the reply.
    #[track_caller]
    pub(crate) fn ask(&self, ask: &Ask) -> Reply {
        let octets = self.exchange(&ask.octets()).unwrap_or_else(|| panic!("no answer to {ask:?}"));
        Reply::read(&octets)
    }
}

/// A connection to a server.
pub(crate) struct Tcp {
    stream: TcpStream,
}

impl Tcp {
    /// Connects.
    pub(crate) fn to(server: SocketAddr) -> Self {
        Self::try_to(server).expect("a connection")
    }

    /// Connects from a loopback address.
    pub(crate) fn from(local: Ipv4Addr, server: SocketAddr) -> Self {
        let connect = || {
            let stream = avocet_io::tcp::connect(server, Some(SocketAddr::from((local, 0))))?;
            stream.set_nonblocking(false)?;
            Self::of(stream)
        };
        connect().expect("a connection")
    }

    /// Connects, or returns the error.
    pub(crate) fn try_to(server: SocketAddr) -> io::Result<Self> {
        Self::of(TcpStream::connect_timeout(&server, PATIENCE)?)
    }

    fn of(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream })
    }

    /// Sends octets unchanged.
    pub(crate) fn send_raw(&mut self, octets: &[u8]) -> io::Result<()> {
        self.stream.write_all(octets)
    }

    /// Sends a message with its length prefix.
    pub(crate) fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.send_raw(&frame(message))
    }

    /// The next message; `None` if the server closes the connection or stays silent.
    pub(crate) fn receive(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 2];
        self.stream.read_exact(&mut length).ok()?;
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        self.stream.read_exact(&mut message).ok()?;
        Some(message)
    }

    /// Whether the server has closed the connection or does so now.
    pub(crate) fn ends(&mut self) -> bool {
        match self.stream.read(&mut [0]) {
            Ok(octets) => octets == 0,
            Err(error) => {
                matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
            }
        }
    }

    /// Shuts down the sending side.
    pub(crate) fn end_sending(&self) {
        self.stream.shutdown(Shutdown::Write).expect("an open connection");
    }

    /// Sends a query and returns the next message.
    pub(crate) fn exchange(&mut self, octets: &[u8]) -> Option<Vec<u8>> {
        self.send(octets).ok()?;
        self.receive()
    }

    /// Sends a query and reads the reply.
    #[track_caller]
    pub(crate) fn ask(&mut self, ask: &Ask) -> Reply {
        let octets = self.exchange(&ask.octets()).unwrap_or_else(|| panic!("no answer to {ask:?}"));
        Reply::read(&octets)
    }

    /// The same connection, to write in one thread and read in another.
    pub(crate) fn second_handle(&self) -> Self {
        Self { stream: self.stream.try_clone().expect("a descriptor") }
    }
}

/// A message with its length prefix (RFC 1035 §4.2.2).
pub(crate) fn frame(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}
