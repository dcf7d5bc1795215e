//! Upstreams that learn the client of each query by the PROXY protocol: what they get on the wire,
//! and what Unbound and dnsdist make of it.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rustls::{ServerConnection, StreamOwned};

use crate::past::wait_until;
use crate::peers::Peer;
use crate::server::{PATIENCE, Site, first_record, free_address, query};
use crate::tls_upstream::{ONE, PIN, server_config};

/// What each header begins with, and its version.
const BEGIN: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The last octet of an answer to a query without a header, and to one without a client.
const NO_HEADER: u8 = 250;
const NO_CLIENT: u8 = 251;

/// A query as an upstream got it.
#[derive(Debug, PartialEq)]
struct Seen {
    transport: &'static str,
    /// The client, if the header names one; `None` for one of the server itself.
    client: Option<SocketAddr>,
}

/// An upstream that answers each query with 192.0.2.x, in which x is the last octet of the client.
struct Recorder {
    udp: SocketAddr,
    tcp: SocketAddr,
    /// The address that expects the header within TLS; `outside` expects it before TLS.
    tls: SocketAddr,
    outside: SocketAddr,
    seen: Receiver<Seen>,
}

impl Recorder {
    fn start() -> Self {
        let (sender, seen) = channel();
        let socket = crate::server::udp_socket();
        let udp = socket.local_addr().unwrap();
        let datagrams = sender.clone();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                let (named, header_len) = header(&buffer[..len], 2);
                let reply = answer(&buffer[header_len..len], &named);
                // The test may be over.
                let _ = datagrams.send(Seen { transport: "udp", client: named.client() });
                let _ = socket.send_to(&reply, from);
            }
        });
        let of = |transport| streams(transport, &sender);
        Self { udp, tcp: of("tcp"), tls: of("tls"), outside: of("outside"), seen }
    }

    /// Returns the queries since the last call.
    fn seen(&self) -> Vec<Seen> {
        self.seen.try_iter().collect()
    }
}

/// Accepts connections, each of which may begin with a header.
fn streams(transport: &'static str, sender: &Sender<Seen>) -> SocketAddr {
    let listener = crate::server::tcp_listener();
    let addr = listener.local_addr().unwrap();
    let sender = sender.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, sender) = (stream.unwrap(), sender.clone());
            thread::spawn(move || {
                // The client may end the connection at any point.
                let _ = serve(stream, transport, &sender);
            });
        }
    });
    addr
}

fn serve(mut stream: TcpStream, transport: &'static str, sender: &Sender<Seen>) -> io::Result<()> {
    let connection = || ServerConnection::new(server_config(ONE)).unwrap();
    match transport {
        "outside" => {
            let named = take_header(&mut stream)?;
            frames(StreamOwned::new(connection(), stream), (transport, named), sender)
        }
        "tls" => {
            let mut stream = StreamOwned::new(connection(), stream);
            let named = take_header(&mut stream)?;
            frames(stream, (transport, named), sender)
        }
        _ => {
            let named = take_header(&mut stream)?;
            frames(stream, (transport, named), sender)
        }
    }
}

/// Reads the header of a connection, which must have one.
fn take_header(stream: &mut impl Read) -> io::Result<Named> {
    let mut octets = vec![0; 16];
    stream.read_exact(&mut octets)?;
    assert!(octets.starts_with(BEGIN), "{octets:?}");
    octets.resize(16 + usize::from(u16::from_be_bytes([octets[14], octets[15]])), 0);
    stream.read_exact(&mut octets[16..])?;
    Ok(header(&octets, 1).0)
}

fn frames(
    mut stream: impl Read + Write,
    (transport, named): (&'static str, Named),
    sender: &Sender<Seen>,
) -> io::Result<()> {
    loop {
        let mut len = [0; 2];
        stream.read_exact(&mut len)?;
        let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
        stream.read_exact(&mut message)?;
        let _ = sender.send(Seen { transport, client: named.client() });
        let reply = answer(&message, &named);
        stream.write_all(&[&(reply.len() as u16).to_be_bytes()[..], &reply].concat())?;
        stream.flush()?;
    }
}

/// The client that a header names.
enum Named {
    NoHeader,
    Nobody,
    Client(SocketAddr),
}

impl Named {
    fn client(&self) -> Option<SocketAddr> {
        match self {
            Self::NoHeader | Self::Nobody => None,
            Self::Client(client) => Some(*client),
        }
    }
}

/// Reads the header with which octets begin, and its length.
fn header(octets: &[u8], protocol: u8) -> (Named, usize) {
    if !octets.starts_with(BEGIN) {
        return (Named::NoHeader, 0);
    }
    match octets[12..16] {
        [0x20, 0, 0, 0] => (Named::Nobody, 16),
        [0x21, family, 0, 12] if family == 0x10 | protocol => {
            let ip = Ipv4Addr::new(octets[16], octets[17], octets[18], octets[19]);
            let port = u16::from_be_bytes([octets[24], octets[25]]);
            (Named::Client((ip, port).into()), 28)
        }
        _ => panic!("no header of an IPv4 client: {octets:?}"),
    }
}

fn answer(message: &[u8], named: &Named) -> Vec<u8> {
    let last = match named {
        Named::NoHeader => NO_HEADER,
        Named::Nobody => NO_CLIENT,
        Named::Client(SocketAddr::V4(client)) => client.ip().octets()[3],
        Named::Client(SocketAddr::V6(client)) => panic!("{client}"),
    };
    let question_end = 12 + message[12..].iter().position(|octet| *octet == 0).unwrap() + 5;
    let mut reply = message[..question_end].to_vec();
    reply[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 0, 0, 4, 192, 0, 2, last]);
    reply
}

/// Writes a configuration that forwards to one upstream.
fn configure(site: &Site, upstream: &str, keys: &str) {
    site.write(&format!(
        "[server]\nlisten = [\"{}\"]\nhttp = \"{}\"\nworkers = 2\n[[forward]]\nzone = \
         \".\"\nupstreams = [\"{upstream}\"]\n{keys}\n[data]\ndirectory = \"{}\"\n",
        site.dns,
        site.http,
        site.data().display()
    ));
}

/// Asks from 127.0.0.x, and returns the address in the answer.
fn ask_from(last: u8, dns: SocketAddr, name: &str) -> [u8; 4] {
    let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, last), 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.send_to(&query(7, name), dns).unwrap();
    let mut reply = [0; 4096];
    let len = socket.recv(&mut reply).unwrap();
    first_record(&reply[..len], name).0.try_into().unwrap()
}

#[test]
fn each_client_is_named_and_gets_its_own_answer_over_each_transport() {
    let recorder = Recorder::start();
    let pinned = format!("pins = [\"{PIN}\"]\n");
    let outside = format!("{pinned}proxy-protocol-outside-tls = true\n");
    for (transport, scheme, addr, keys) in [
        ("udp", "udp", recorder.udp, ""),
        ("tcp", "tcp", recorder.tcp, ""),
        ("tls", "tls", recorder.tls, pinned.as_str()),
        ("outside", "tls", recorder.outside, outside.as_str()),
    ] {
        let site = Site::new();
        let upstream = format!("{scheme}://{addr}");
        configure(&site, &upstream, &format!("{keys}proxy-protocol = true"));
        let server = site.start();
        for _ in 0..2 {
            for last in 1..=3 {
                assert_eq!(
                    ask_from(last, site.dns, "www.example"),
                    [192, 0, 2, last],
                    "{upstream}"
                );
            }
        }
        let client = |last| Some(SocketAddr::from(([127, 0, 0, last], 0)));
        let expected: Vec<Seen> =
            [1, 2, 3, 1, 2, 3].map(|last| Seen { transport, client: client(last) }).into();
        assert_eq!(recorder.seen(), expected, "one query for each: nothing is kept");
        // The counters of workers are published from time to time.
        wait_until("the queries are counted", || {
            let metrics = site.http_get("/metrics").1;
            let mut lines = metrics.lines();
            let count =
                lines.find_map(|line| line.strip_prefix("avocet_upstream_proxied_queries_total{"));
            count.is_some_and(|count| count.ends_with(" 6"))
        });
        // The server itself sends the queries of a trace.
        let trace = site.avocet_text(&["query", "www.example", "+trace"]);
        assert!(trace.contains("behind a PROXY header"), "{trace}");
        assert!(trace.contains(&format!("192.0.2.{NO_CLIENT}")), "{trace}");
        assert_eq!(recorder.seen(), [Seen { transport, client: None }]);
        server.stop();
    }
}

/// Passes connections on to another server, without their header.
fn relay(to: SocketAddr) -> (SocketAddr, Receiver<Option<SocketAddr>>) {
    let listener = crate::server::tcp_listener();
    let addr = listener.local_addr().unwrap();
    let (sender, named) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, sender) = (stream.unwrap(), sender.clone());
            thread::spawn(move || -> io::Result<()> {
                // The test may be over.
                let _ = sender.send(take_header(&mut stream)?.client());
                let mut behind = TcpStream::connect(to)?;
                let (mut from, mut back) = (behind.try_clone()?, stream.try_clone()?);
                thread::spawn(move || io::copy(&mut from, &mut back));
                io::copy(&mut stream, &mut behind).map(drop)
            });
        }
    });
    (addr, named)
}

#[test]
fn connections_of_https_begin_with_the_header_too() {
    let (other, https) = (Site::new(), free_address());
    for (name, text) in ["one.pem", "one.key"].iter().zip(ONE) {
        let path = other.directory.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    other.write(&format!(
        "[server]\nlisten = [\"{}\", \"https://{https}\"]\nhttp = \"{}\"\n[[certificate]]\nnames = \
         [\"dns.example\"]\ncert = \"one.pem\"\nkey = \"one.key\"\n[[record]]\nname = \
         \"www.example\"\ntype = \"A\"\nvalues = [\"192.0.2.78\"]\n[data]\ndirectory = \"{}\"\n",
        other.dns,
        other.http,
        other.data().display()
    ));
    let behind = other.start();
    let (addr, named) = relay(https);
    let site = Site::new();
    let keys = "proxy-protocol = true\nproxy-protocol-outside-tls = true";
    let keys = format!("pins = [\"{PIN}\"]\n{keys}");
    configure(&site, &format!("https://{addr}/dns-query"), &keys);
    let server = site.start();
    for last in [1, 2, 2] {
        assert_eq!(ask_from(last, site.dns, "www.example"), [192, 0, 2, 78]);
        let client = SocketAddr::from(([127, 0, 0, last], 0));
        assert_eq!(named.recv_timeout(PATIENCE).unwrap(), Some(client));
    }
    server.stop();
    behind.stop();
}

#[test]
fn what_was_kept_for_all_is_not_for_a_client() {
    let recorder = Recorder::start();
    let site = Site::new();
    let upstream = format!("udp://{}", recorder.udp);
    configure(&site, &upstream, "");
    let mut server = site.start();
    for last in [1, 2] {
        assert_eq!(ask_from(last, site.dns, "www.example"), [192, 0, 2, NO_HEADER]);
    }
    assert_eq!(recorder.seen().len(), 1, "the second answer is of the cache");
    configure(&site, &upstream, "proxy-protocol = true");
    site.avocet_text(&["reload"]);
    for last in [1, 2] {
        assert_eq!(ask_from(last, site.dns, "www.example"), [192, 0, 2, last]);
    }
    server.read_lines();
    server.stop();
}

/// Starts a peer, and asks it through this server from two clients, which must get the answers that
/// the peer has for their addresses.
fn check_peer(program: &str, configuration: impl Fn(&Site, [SocketAddr; 2]) -> String) {
    let addresses = [free_address(), free_address()];
    let [plain, tls] = addresses;
    let site = Site::new();
    let [certificate, key] = ONE;
    fs::write(site.directory.join("chain.pem"), certificate).unwrap();
    fs::write(site.directory.join("key.pem"), key).unwrap();
    let text = configuration(&site, addresses);
    let arguments: &[&str] = match program {
        "dnsdist" => &["--supervised", "--disable-syslog", "-C"],
        _ => &["-d", "-c"],
    };
    let Some(peer) = Peer::run_at(site, (program, arguments), &text, &addresses) else {
        eprintln!("skipped: {program} is missing");
        return;
    };
    for (upstream, keys) in [
        (format!("udp://{plain}"), String::new()),
        (format!("tcp://{plain}"), String::new()),
        (format!("tls://{tls}"), format!("pins = [\"{PIN}\"]\n")),
    ] {
        let site = Site::new();
        configure(&site, &upstream, &format!("{keys}proxy-protocol = true"));
        let server = site.start();
        for last in [2, 3, 2] {
            let found = ask_from(last, site.dns, "who.example");
            assert_eq!(found, [192, 0, 2, last], "{upstream}\n{}", peer.log());
        }
        server.stop();
    }
}

#[test]
fn unbound_takes_the_client_from_the_header() {
    check_peer("unbound", |site, [plain, tls]| {
        let dir = site.directory.display().to_string();
        let view = |last: u8| {
            format!(
                "view:\n  name: \"v{last}\"\n  local-zone: \"who.example.\" redirect\n  \
                 local-data: \"who.example. 60 A 192.0.2.{last}\"\n"
            )
        };
        format!(
            "server:\n  interface: {}\n  interface: {}\n  tls-port: {tls_port}\n  \
             proxy-protocol-port: {port}\n  proxy-protocol-port: {tls_port}\n  \
             tls-service-pem: \"{dir}/chain.pem\"\n  tls-service-key: \"{dir}/key.pem\"\n  \
             do-daemonize: no\n  username: \"\"\n  chroot: \"\"\n  pidfile: \"\"\n  use-syslog: no\n  \
             directory: \"{dir}\"\n  num-threads: 1\n  access-control: 127.0.0.0/8 allow\n  \
             access-control-view: 127.0.0.2/32 v2\n  access-control-view: 127.0.0.3/32 v3\n\
             remote-control:\n  control-enable: no\n{}{}",
            plain.to_string().replace(':', "@"),
            tls.to_string().replace(':', "@"),
            view(2),
            view(3),
            port = plain.port(),
            tls_port = tls.port(),
        )
    });
}

#[test]
fn dnsdist_takes_the_client_from_the_header() {
    check_peer("dnsdist", |site, [plain, tls]| {
        let dir = site.directory.display().to_string();
        let rule =
            |last: u8| format!("addAction('127.0.0.{last}/32', SpoofAction('192.0.2.{last}'))\n");
        format!(
            "setLocal('{plain}')\naddTLSLocal('{tls}', '{dir}/chain.pem', '{dir}/key.pem')\n\
             setACL({{'127.0.0.0/8'}})\nsetProxyProtocolACL({{'127.0.0.1/32'}})\n\
             setSecurityPollSuffix('')\n{}{}",
            rule(2),
            rule(3)
        )
    });
}
