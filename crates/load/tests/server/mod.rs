//! A minimal DNS server on loopback that makes the requested mistakes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use avocet_wire::builder::{Record, Section};
use avocet_wire::header::{HEADER_LEN, QR, RD, TC};
use avocet_wire::{Builder, Class, QueryView, Rcode, Rtype};

/// Creates the replies to a query with this number.
type Answer = dyn Fn(u64, &[u8]) -> Vec<Vec<u8>> + Send + Sync;

/// Ends the thread for datagrams. No mutation produces this packet.
const STOP: &[u8] = b"stop the server";

/// A running server, which ends when it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    udp: Option<JoinHandle<()>>,
    tcp: Option<JoinHandle<()>>,
}

impl Server {
    /// Answers over UDP by one function and over TCP by another.
    pub(crate) fn start(
        udp: impl Fn(u64, &[u8]) -> Option<Vec<u8>> + Send + Sync + 'static,
        tcp: impl Fn(u64, &[u8]) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        Self::start_each(
            move |number, query| udp(number, query).into_iter().collect(),
            move |number, query| tcp(number, query).into_iter().collect(),
        )
    }

    /// Sends any number of replies over UDP by one function and over TCP by another.
    pub(crate) fn start_each(
        udp: impl Fn(u64, &[u8]) -> Vec<Vec<u8>> + Send + Sync + 'static,
        tcp: impl Fn(u64, &[u8]) -> Vec<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let (listener, socket) = sockets();
        let address = listener.local_addr().expect("loopback");
        let (udp, tcp): (Box<Answer>, Arc<Answer>) = (Box::new(udp), Arc::new(tcp));
        let udp = thread::spawn(move || serve_udp(&socket, &udp));
        let tcp = thread::spawn(move || serve_tcp(&listener, &tcp));
        Self { address, udp: Some(udp), tcp: Some(tcp) }
    }

    /// Answers correctly over UDP and TCP.
    pub(crate) fn honest() -> Self {
        Self::start(|_, query| Some(answer(query)), |_, query| Some(answer(query)))
    }

    /// Answers over UDP by a function.
    pub(crate) fn udp(udp: impl Fn(u64, &[u8]) -> Option<Vec<u8>> + Send + Sync + 'static) -> Self {
        Self::start(udp, |_, query| Some(answer(query)))
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }
}

/// Returns sockets on a port that is free for both transports. With many sockets open, the system's
/// choice for one may be in use for the other.
fn sockets() -> (TcpListener, UdpSocket) {
    let both = || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let socket = UdpSocket::bind(listener.local_addr().expect("loopback")).ok()?;
        Some((listener, socket))
    };
    (0..1_000).find_map(|_| both()).expect("a port that is free for both")
}

impl Drop for Server {
    /// A special datagram and an empty frame end the threads.
    fn drop(&mut self) {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        socket.send_to(STOP, self.address).expect("loopback");
        self.udp.take().expect("a thread").join().expect("its end");
        TcpStream::connect(self.address).expect("loopback").write_all(&[0, 0]).expect("loopback");
        self.tcp.take().expect("a thread").join().expect("its end");
    }
}

fn serve_udp(socket: &UdpSocket, answer: &Answer) {
    let mut buffer = [0; 4096];
    for number in 0.. {
        // Receiving also reports ICMP errors about closed clients.
        let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
        if buffer.starts_with(STOP) && len == STOP.len() {
            return;
        }
        for reply in answer(number, &buffer[..len]) {
            let _ = socket.send_to(&reply, from);
        }
    }
}

fn serve_tcp(listener: &TcpListener, answer: &Arc<Answer>) {
    for stream in listener.incoming() {
        let mut stream = stream.expect("loopback");
        let mut length = [0; 2];
        if stream.read_exact(&mut length).is_err() {
            continue;
        }
        if length == [0, 0] {
            return;
        }
        let answer = Arc::clone(answer);
        thread::spawn(move || serve_connection(stream, length, &*answer));
    }
}

fn serve_connection(mut stream: TcpStream, mut length: [u8; 2], answer: &Answer) {
    for number in 0.. {
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        if stream.read_exact(&mut query).is_err() {
            return;
        }
        for reply in answer(number, &query) {
            // Two segments: Nagle's algorithm (RFC 896), which is on by default, holds the second
            // one back until the first one is acknowledged.
            let length = (reply.len() as u16).to_be_bytes();
            if stream.write_all(&length).and_then(|()| stream.write_all(&reply)).is_err() {
                return;
            }
        }
        if stream.read_exact(&mut length).is_err() {
            return;
        }
    }
}

/// Returns the right answer: an address for A, nothing for other types, NXDOMAIN for names that do
/// not begin with `www`.
pub(crate) fn answer(query: &[u8]) -> Vec<u8> {
    answer_with(query, address)
}

/// Returns the answer with another address.
pub(crate) fn answer_with(query: &[u8], address: impl Fn(&[u8]) -> [u8; 4]) -> Vec<u8> {
    let Ok(view) = QueryView::parse(query) else { return refuse(query) };
    let owner = view.qname();
    let exists = owner.get(1..4).is_some_and(|start| start.eq_ignore_ascii_case(b"www"));
    let mut reply = vec![0; 512];
    let rcode = if exists { Rcode::NOERROR } else { Rcode::NXDOMAIN };
    let mut message =
        Builder::new(&mut reply, 512, view.header().id, QR | RD | rcode.0).expect("room");
    message.question(owner, view.qtype, view.qclass).expect("room");
    if exists && view.qtype == Rtype::A {
        let rdata = &address(owner);
        let record = Record { owner, rtype: Rtype::A, class: Class::IN, ttl_secs: 60, rdata };
        message.record(Section::Answer, &record).expect("room");
    }
    let len = message.finish();
    reply.truncate(len);
    reply
}

/// Returns the address of a name. For example, `www7.test` has 192.0.2.7.
pub(crate) fn address(owner: &[u8]) -> [u8; 4] {
    let digits = owner.iter().skip(4).take_while(|octet| octet.is_ascii_digit());
    let number =
        digits.fold(0u8, |number, digit| number.wrapping_mul(10).wrapping_add(digit - b'0'));
    [192, 0, 2, number]
}

/// Returns FORMERR with the header alone.
fn refuse(query: &[u8]) -> Vec<u8> {
    let mut reply = [0; HEADER_LEN];
    for (to, from) in reply.iter_mut().zip(query.iter().take(2)) {
        *to = *from;
    }
    (reply[2], reply[3]) = (0x80, Rcode::FORMERR.0 as u8);
    reply.to_vec()
}

/// Returns an answer that is truncated after the question.
pub(crate) fn truncated(query: &[u8]) -> Vec<u8> {
    let mut reply = query.to_vec();
    reply[2] |= ((QR | TC) >> 8) as u8;
    reply
}
