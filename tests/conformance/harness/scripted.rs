//! An upstream that follows a test's script: late, wrong, in pieces, or silent.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use avocet_wire::builder::{Builder, OptFields, Record, Section};
use avocet_wire::edns::{EdnsOption, option};
use avocet_wire::header::{QR, RA, RD, TC};
use avocet_wire::{Class, MessageView, Rcode, Rtype};

use super::server::free_port;
use super::{rtype, until, wire_name};

/// How often a thread checks whether the test is over.
const LOOK: Duration = Duration::from_millis(50);
/// Connections served at the same time.
const MAX_CONNECTIONS: usize = 64;

/// A query as the upstream received it.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// The message.
    pub(crate) octets: Vec<u8>,
    /// Whether it came over TCP.
    pub(crate) over_tcp: bool,
    /// How many queries came before it.
    pub(crate) number: usize,
}

impl Received {
    /// The QNAME as text, in lower case.
    pub(crate) fn qname(&self) -> String {
        let view = MessageView::new(&self.octets).expect("a header");
        let qname = view.question().expect("a question").qname().expect("a name");
        qname.folded().to_string()
    }

    /// The QTYPE.
    pub(crate) fn qtype(&self) -> Rtype {
        MessageView::new(&self.octets).expect("a header").question().expect("a question").qtype
    }

    /// Whether it has an OPT record.
    pub(crate) fn has_edns(&self) -> bool {
        MessageView::new(&self.octets)
            .is_ok_and(|view| view.edns().is_ok_and(|edns| edns.is_some()))
    }

    /// Its cookies, the client cookie first.
    pub(crate) fn cookie(&self) -> Option<Vec<u8>> {
        let view = MessageView::new(&self.octets).ok()?;
        let edns = view.edns().ok()??;
        edns.raw_options()
            .flatten()
            .find(|(code, _)| *code == option::COOKIE)
            .map(|(_, data)| data.to_vec())
    }

    /// An empty answer to it.
    pub(crate) fn answer(&self) -> Answer<'_> {
        Answer {
            query: self,
            rcode: Rcode::NOERROR,
            flags: QR | RD | RA,
            records: Vec::new(),
            cookie: None,
            has_opt: self.has_edns(),
        }
    }
}

/// A reply under construction.
pub(crate) struct Answer<'q> {
    query: &'q Received,
    rcode: Rcode,
    flags: u16,
    records: Vec<Written>,
    cookie: Option<Vec<u8>>,
    has_opt: bool,
}

impl Answer<'_> {
    /// Sets the RCODE.
    pub(crate) fn rcode(mut self, rcode: Rcode) -> Self {
        self.rcode = rcode;
        self
    }

    /// Sets TC.
    pub(crate) fn truncated(mut self) -> Self {
        self.flags |= TC;
        self
    }

    /// Adds a COOKIE option.
    pub(crate) fn cookie(mut self, client: &[u8], server: &[u8]) -> Self {
        self.cookie = Some([client, server].concat());
        self
    }

    /// Omits OPT even if the query has it.
    pub(crate) fn without_opt(mut self) -> Self {
        self.has_opt = false;
        self
    }

    /// Adds a record to the answer section: owner, TTL, type and data as text.
    pub(crate) fn record(self, owner: &str, ttl_secs: u32, rtype: &str, rdata: &str) -> Self {
        self.put(Section::Answer, owner, ttl_secs, (rtype, rdata))
    }

    /// Adds a record with the question's name as owner.
    pub(crate) fn own(self, ttl_secs: u32, rtype: &str, rdata: &str) -> Self {
        let owner = self.query.qname();
        self.record(&owner, ttl_secs, rtype, rdata)
    }

    /// Adds an SOA record to the authority section.
    pub(crate) fn soa(self, owner: &str, ttl_secs: u32) -> Self {
        let rdata = format!("ns.invalid. nobody.invalid. 1 3600 600 86400 {ttl_secs}");
        self.put(Section::Authority, owner, ttl_secs, ("SOA", &rdata))
    }

    fn put(
        mut self,
        section: Section,
        owner: &str,
        ttl_secs: u32,
        (rtype_text, text): (&str, &str),
    ) -> Self {
        let rtype = rtype(rtype_text);
        let mut rdata = Vec::new();
        avocet_wire::rdata::parse(rtype.0, text, &[0], &mut rdata).expect("record data");
        self.records.push(Written { section, owner: wire_name(owner), rtype, ttl_secs, rdata });
        self
    }

    /// The message in wire format, with OPT if the query has it, unless omitted.
    pub(crate) fn octets(&self) -> Vec<u8> {
        let view = MessageView::new(&self.query.octets).expect("a header");
        let question = view.question().expect("a question");
        let mut out = vec![0; 65_535];
        let flags = self.flags | self.rcode.low();
        let mut builder = Builder::new(&mut out, 65_535, view.header().id, flags).expect("room");
        let qname = question.qname().expect("a name");
        builder.question(qname.wire(), question.qtype, question.qclass).expect("room");
        for Written { section, owner, rtype, ttl_secs, rdata } in &self.records {
            let record =
                Record { owner, rtype: *rtype, class: Class::IN, ttl_secs: *ttl_secs, rdata };
            builder.record(*section, &record).expect("room");
        }
        if self.has_opt {
            let fields = OptFields { udp_size: 1232, rcode: self.rcode, dnssec_ok: false };
            let cookie =
                self.cookie.as_deref().map(|cookie| EdnsOption::Unknown(option::COOKIE, cookie));
            builder.opt(&fields, cookie.as_slice()).expect("room");
        }
        let len = builder.finish();
        out.truncate(len);
        out
    }

    /// Sends it at once.
    pub(crate) fn send(&self) -> Verdict {
        Verdict::Send(vec![self.octets()])
    }

    /// Keeps it until [`Scripted::release`].
    pub(crate) fn hold(&self) -> Verdict {
        Verdict::Hold(self.octets())
    }
}

/// A record of a reply.
struct Written {
    section: Section,
    owner: Vec<u8>,
    rtype: Rtype,
    ttl_secs: u32,
    rdata: Vec<u8>,
}

/// What to do with a query.
pub(crate) enum Verdict {
    /// Nothing.
    Silence,
    /// Sends these messages at once.
    Send(Vec<Vec<u8>>),
    /// Sends this message when the test releases it. Over UDP only.
    Hold(Vec<u8>),
    /// Sends the message octet by octet. Over TCP only.
    Drip(Vec<u8>),
    /// Closes the connection.
    Close,
}

type Script = dyn Fn(&Received) -> Verdict + Send + Sync;

struct State {
    over: AtomicBool,
    received: Mutex<Vec<Received>>,
    held: Mutex<Vec<(SocketAddr, Vec<u8>)>>,
    connections: AtomicUsize,
    script: Box<Script>,
}

/// A running scripted upstream.
pub(crate) struct Scripted {
    /// Its address, for both transports.
    pub(crate) addr: SocketAddr,
    socket: UdpSocket,
    state: Arc<State>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Scripted {
    /// Listens on UDP and TCP.
    pub(crate) fn start(script: impl Fn(&Received) -> Verdict + Send + Sync + 'static) -> Self {
        Self::launch(true, Box::new(script))
    }

    /// Listens on UDP; TCP connections are refused.
    pub(crate) fn start_udp_only(
        script: impl Fn(&Received) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        Self::launch(false, Box::new(script))
    }

    /// Answers with one address record for every name, with this TTL.
    pub(crate) fn plain(ttl_secs: u32) -> Self {
        Self::start(move |query| query.answer().own(ttl_secs, "A", "192.0.2.1").send())
    }

    fn launch(over_tcp: bool, script: Box<Script>) -> Self {
        let (socket, listener) = until("a free port", || {
            let addr = free_port([127, 0, 0, 1].into());
            Some((UdpSocket::bind(addr).ok()?, TcpListener::bind(addr).ok()?))
        });
        let addr = socket.local_addr().expect("an address");
        socket.set_read_timeout(Some(LOOK)).expect("a timeout");
        let state = Arc::new(State {
            over: AtomicBool::new(false),
            received: Mutex::default(),
            held: Mutex::default(),
            connections: AtomicUsize::new(0),
            script,
        });
        let (own, shared) = (socket.try_clone().expect("a descriptor"), state.clone());
        let mut threads = vec![thread::spawn(move || serve_datagrams(&own, &shared))];
        if over_tcp {
            let shared = state.clone();
            threads.push(thread::spawn(move || accept(&listener, &shared)));
        }
        Self { addr, socket, state, threads }
    }

    /// All queries received so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.state.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many queries for this name were received.
    pub(crate) fn count_of(&self, qname: &str) -> usize {
        self.received().iter().filter(|query| query.qname() == qname).count()
    }

    /// How many replies are on hold.
    pub(crate) fn held(&self) -> usize {
        self.state.held.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Sends all replies on hold.
    pub(crate) fn release(&self) {
        for (peer, octets) in
            self.state.held.lock().unwrap_or_else(PoisonError::into_inner).drain(..)
        {
            let _ = self.socket.send_to(&octets, peer);
        }
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Relaxed);
        // Wakes the accepting thread.
        let _ = TcpStream::connect(self.addr);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl State {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn judge(&self, octets: &[u8], over_tcp: bool) -> Verdict {
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let query = Received { octets: octets.to_vec(), over_tcp, number: received.len() };
        received.push(query.clone());
        drop(received);
        (self.script)(&query)
    }
}

fn serve_datagrams(socket: &UdpSocket, state: &State) {
    let mut octets = vec![0; 65_535];
    while !state.is_over() {
        let Ok((len, peer)) = socket.recv_from(&mut octets) else { continue };
        match state.judge(&octets[..len], false) {
            Verdict::Send(messages) => {
                for message in messages {
                    let _ = socket.send_to(&message, peer);
                }
            }
            Verdict::Hold(message) => {
                state.held.lock().unwrap_or_else(PoisonError::into_inner).push((peer, message));
            }
            Verdict::Silence | Verdict::Drip(_) | Verdict::Close => {}
        }
    }
}

fn accept(listener: &TcpListener, state: &Arc<State>) {
    let mut connections = Vec::new();
    for stream in listener.incoming() {
        if state.is_over() {
            break;
        }
        let Ok(stream) = stream else { continue };
        if state.connections.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            break;
        }
        let state = state.clone();
        connections.push(thread::spawn(move || serve_connection(stream, &state)));
    }
    for connection in connections {
        let _ = connection.join();
    }
}

/// Returns when either side closes, or the test is over.
fn serve_connection(mut stream: TcpStream, state: &State) {
    let _ = (stream.set_nodelay(true), stream.set_read_timeout(Some(LOOK)));
    let mut pending = Vec::new();
    let mut octets = [0; 4096];
    while !state.is_over() {
        match stream.read(&mut octets) {
            Ok(0) => return,
            Ok(len) => pending.extend_from_slice(&octets[..len]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                continue;
            }
            Err(_) => return,
        }
        while let Some((head, rest)) = pending.split_first_chunk::<2>()
            && let Some(message) = rest.get(..usize::from(u16::from_be_bytes(*head)))
        {
            let message = message.to_vec();
            pending.drain(..2 + message.len());
            let framed = |reply: &[u8]| super::client::frame(reply);
            let written = match state.judge(&message, true) {
                Verdict::Send(replies) => {
                    replies.iter().try_for_each(|reply| stream.write_all(&framed(reply)))
                }
                Verdict::Drip(reply) => {
                    framed(&reply).iter().try_for_each(|octet| stream.write_all(&[*octet]))
                }
                Verdict::Silence | Verdict::Hold(_) => Ok(()),
                Verdict::Close => return,
            };
            if written.is_err() {
                return;
            }
        }
    }
}
