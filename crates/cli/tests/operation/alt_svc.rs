//! Upstreams over HTTPS that announce HTTP/3 (RFC 7838): a server of HTTP/2 in this process, and
//! one of Avocet for HTTP/3.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::server::{PATIENCE, Server, Site, first_record, free_address, query, udp_client};
use crate::upstream::{ADDRESS, Upstream};

const ONE: [&str; 2] = [include_str!("certificates/one.pem"), include_str!("certificates/one.key")];

/// A server of DNS over HTTP/2 whose responses have a field `alt-svc`.
struct Announcing {
    addr: SocketAddr,
    accepted: Arc<AtomicUsize>,
    answered: Arc<AtomicUsize>,
}

impl Announcing {
    fn start(alt_svc: &str) -> Self {
        let listener = crate::server::tcp_listener();
        let addr = listener.local_addr().unwrap();
        let (config, alt_svc) = (http2_config(), alt_svc.to_owned());
        let answered = Arc::new(AtomicUsize::new(0));
        let accepted = Arc::new(AtomicUsize::new(0));
        let (shared, connections) = (answered.clone(), accepted.clone());
        thread::spawn(move || {
            for stream in listener.incoming() {
                connections.fetch_add(1, Ordering::Relaxed);
                let connection = ServerConnection::new(config.clone()).unwrap();
                let stream = StreamOwned::new(connection, stream.unwrap());
                let (alt_svc, answered) = (alt_svc.clone(), shared.clone());
                // The client may end the connection at any point.
                thread::spawn(move || serve(stream, &alt_svc, &answered));
            }
        });
        Self { addr, accepted, answered }
    }

    fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }
}

/// Returns the settings of TLS for a server of HTTP/2.
pub(crate) fn http2_config() -> Arc<ServerConfig> {
    let chain = vec![CertificateDer::from_pem_slice(ONE[0].as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(ONE[1].as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap();
    let mut config = config.with_no_client_auth().with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

/// Writes a frame of HTTP/2.
pub(crate) fn frame([kind, flags]: [u8; 2], id: u32, payload: &[u8]) -> Vec<u8> {
    let len = &(payload.len() as u32).to_be_bytes()[1..];
    [len, &[kind, flags], &id.to_be_bytes(), payload].concat()
}

/// A frame of HTTP/2.
pub(crate) struct Http2Frame {
    pub(crate) kind_and_flags: [u8; 2],
    pub(crate) id: u32,
    pub(crate) payload: Vec<u8>,
}

pub(crate) fn read_frame(stream: &mut impl Read) -> io::Result<Http2Frame> {
    let mut head = [0; 9];
    stream.read_exact(&mut head)?;
    let [len0, len1, len2, kind, flags, id @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, len0, len1, len2]) as usize];
    stream.read_exact(&mut payload)?;
    Ok(Http2Frame { kind_and_flags: [kind, flags], id: u32::from_be_bytes(id), payload })
}

fn serve(
    mut stream: StreamOwned<ServerConnection, TcpStream>,
    alt_svc: &str,
    answered: &AtomicUsize,
) -> io::Result<()> {
    stream.read_exact(&mut [0; 24])?;
    stream.write_all(&frame([4, 0], 0, &[]))?;
    loop {
        let Http2Frame { kind_and_flags, id, payload } = read_frame(&mut stream)?;
        match kind_and_flags {
            [4, 0] => stream.write_all(&frame([4, 1], 0, &[]))?,
            // The body of a POST.
            [0, 1] => {
                answered.fetch_add(1, Ordering::Relaxed);
                stream.write_all(&response(id, alt_svc, &payload))?;
            }
            _ => {}
        }
    }
}

pub(crate) fn response(id: u32, alt_svc: &str, query: &[u8]) -> Vec<u8> {
    let (name, kind) = (b"alt-svc", b"application/dns-message");
    let block = [
        &[0x88, 0x0f, 0x10, kind.len() as u8][..],
        kind,
        &[0x40, name.len() as u8],
        name,
        &[alt_svc.len() as u8],
        alt_svc.as_bytes(),
    ];
    let end = 12 + query[12..].iter().position(|octet| *octet == 0).unwrap() + 5;
    let mut reply = query[..end].to_vec();
    reply[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
    reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4]);
    reply.extend(ADDRESS);
    [frame([1, 4], id, &block.concat()), frame([0, 1], id, &reply)].concat()
}

/// A server of HTTP/3, with its address.
fn http3() -> (Site, Server, SocketAddr, Upstream) {
    let (site, upstream, at) = (Site::new(), Upstream::start(), free_address());
    for (name, text) in [("one.pem", ONE[0]), ("one.key", ONE[1])] {
        fs::write(site.directory.join(name), text).unwrap();
    }
    let rest = format!(
        "[[certificate]]\ncert = \"one.pem\"\nkey = \"one.key\"\n[[listener]]\nname = \"doh\"\n\
         listen = [\"https://{at}\"]\n"
    );
    site.configure(upstream.addr, "workers = 1", &rest);
    let server = site.start();
    (site, server, at, upstream)
}

fn forward_to(upstream: &Announcing) -> (Site, Server) {
    forward_to_path(upstream, "/dns-query")
}

fn forward_to_path(upstream: &Announcing, path: &str) -> (Site, Server) {
    forward_to_url(&format!("https://{}{path}", upstream.addr), "")
}

/// Forwards to an upstream, with more keys.
pub(crate) fn forward_to_url(url: &str, keys: &str) -> (Site, Server) {
    let site = Site::new();
    fs::write(site.directory.join("one.pem"), ONE[0]).unwrap();
    site.write(&format!(
        "[server]\nlisten = [\"{}\"]\nhttp = \"{}\"\nworkers = 1\n[data]\ndirectory = \"{}\"\n\
         [[forward]]\nzone = \".\"\nupstreams = [\"{url}\"]\nca = \"one.pem\"\n{keys}\n",
        site.dns,
        site.http,
        site.data().display()
    ));
    let server = site.start();
    (site, server)
}

/// Asks for 20 names at once, and checks that each gets its address.
fn ask_some(site: &Site, round: usize) {
    let client = udp_client();
    for number in 0..20u16 {
        client.send_to(&query(number, &format!("r{round}n{number}.example")), site.dns).unwrap();
    }
    for _ in 0..20 {
        let mut reply = [0; 512];
        let len = client.recv(&mut reply).unwrap();
        let number = u16::from_be_bytes([reply[0], reply[1]]);
        let name = format!("r{round}n{number}.example");
        assert_eq!(first_record(&reply[..len], &name).0, ADDRESS, "{name}");
    }
}

/// Sends queries until the condition holds. Returns the number of the next round.
fn ask_until(site: &Site, mut round: usize, mut is_so: impl FnMut() -> bool) -> usize {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "nothing of that has happened");
        ask_some(site, round);
        round += 1;
    }
    round
}

#[test]
fn http3_is_used_once_it_works_and_http2_again_once_it_does_not() {
    let (inner, inner_server, at, _upstream) = http3();
    let announcing = Announcing::start(&format!("h3=\":{}\"; ma=3600", at.port()));
    let (site, server) = forward_to(&announcing);
    let over_h3 = || inner.metric("avocet_queries_total{transport=\"https\"}") as usize;
    let round = ask_until(&site, 0, || over_h3() > 0);
    let (before, h3_before) = (announcing.answered(), over_h3());
    ask_some(&site, round);
    assert_eq!(announcing.answered(), before, "all queries go over HTTP/3");
    let round = ask_until(&site, round + 1, || over_h3() >= h3_before + 20);
    assert!(site.metric("avocet_upstream_sockets{kind=\"quic\"}") >= 0.0);
    // The server ends without closing its connections.
    drop(inner_server);
    ask_until(&site, round, || announcing.answered() > before);
    server.stop();
}

#[test]
fn the_server_itself_announces_http3_to_one_that_forwards() {
    let (inner, inner_server, at, _upstream) = http3();
    let (site, server) = forward_to_url(&format!("https://{at}/dns-query"), "");
    let handshakes = || inner.metric("avocet_quic_handshakes_total{result=\"complete\"}") as u64;
    let round = ask_until(&site, 0, || handshakes() > 0);
    ask_some(&site, round);
    server.stop();
    inner_server.stop();
}

#[test]
fn http3_that_answers_without_dns_costs_no_query() {
    let (inner, inner_server, at, _upstream) = http3();
    let announcing = Announcing::start(&format!("h3=\":{}\"", at.port()));
    let (site, server) = forward_to_path(&announcing, "/other");
    // The first connection in HTTP/2 closes when a connection in HTTP/3 replaces it. The server of
    // HTTP/3 does not have this path.
    let is_back = || announcing.accepted.load(Ordering::Relaxed) > 1;
    let round = ask_until(&site, 0, is_back);
    let handshakes = || inner.metric("avocet_quic_handshakes_total{result=\"complete\"}") as u64;
    ask_until(&site, round, || handshakes() == 1);
    let before = announcing.answered();
    ask_some(&site, 0x1_0000);
    assert_eq!(announcing.answered(), before + 20);
    inner_server.stop();
    server.stop();
}

#[test]
fn http3_that_does_not_answer_costs_no_query() {
    let silent = crate::server::udp_socket();
    silent.set_nonblocking(true).unwrap();
    let port = silent.local_addr().unwrap().port();
    let announcing = Announcing::start(&format!("h3=\":{port}\""));
    let (site, server) = forward_to(&announcing);
    let mut datagram = [0; 2_048];
    let round = ask_until(&site, 0, || silent.recv(&mut datagram).is_ok());
    assert_eq!(datagram[1..5], [0, 0, 0, 1], "QUIC version 1");
    ask_some(&site, round);
    assert_eq!(announcing.answered(), (round + 1) * 20);
    server.stop();
}

#[test]
fn another_host_is_never_tried() {
    check_untried("localhost", "");
}

#[test]
fn http3_that_is_turned_off_is_never_tried() {
    check_untried("", "h3 = \"off\"");
}

/// Checks that nothing is sent to HTTP/3 at a host, with these keys of the rule.
fn check_untried(host: &str, keys: &str) {
    let other = crate::server::udp_socket();
    other.set_nonblocking(true).unwrap();
    let port = other.local_addr().unwrap().port();
    let announcing = Announcing::start(&format!("h3=\"{host}:{port}\""));
    let url = format!("https://{}/dns-query", announcing.addr);
    let (site, server) = forward_to_url(&url, keys);
    // Waits for at least two periodic checks of the worker, in which it publishes its counts.
    let metric =
        format!("avocet_upstream_queries_total{{upstream=\"https://{}\"}}", announcing.addr);
    let round = ask_until(&site, 0, || site.metric(&metric) >= 20.0);
    let before = site.metric(&metric);
    ask_until(&site, round, || site.metric(&metric) > before);
    assert!(other.recv(&mut [0; 16]).is_err());
    server.stop();
}
