//! Proxies that name their clients by the PROXY protocol: over UDP, TCP and TLS.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::past::wait_until;
use crate::server::{PATIENCE, Server, Site, ask, first_record, free_address, query};
use crate::tls_upstream::ONE;
use crate::upstream::{ADDRESS, Upstream};

const REFUSED: u8 = 5;
const METRIC: &str = "avocet_proxy_headers_refused_total";
/// The client that a rule blocks, and another one.
const BLOCKED: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const OTHER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 8);

/// A header of version 2.
fn header(client: Ipv4Addr, by: u8) -> Vec<u8> {
    let rest = [0, 0, 0, 0, 0, 1, 0, 53, 4, 0, 1, 0];
    [b"\r\n\r\n\0\r\nQUIT\n\x21", &[0x10 | by, 0, 16][..], &client.octets(), &rest].concat()
}

struct World {
    site: Site,
    _upstream: Upstream,
    _server: Server,
    plain: SocketAddr,
    far: SocketAddr,
    tls: SocketAddr,
}

/// Starts a server with a listener whose proxy is 127.0.0.1, and one with another proxy.
fn start() -> World {
    let (site, upstream) = (Site::new(), Upstream::start());
    let [plain, far, tls] = [(); 3].map(|()| free_address());
    for (name, text) in ["one.pem", "one.key"].iter().zip(ONE) {
        let path = site.directory.join(name);
        std::fs::write(&path, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&path, mode).unwrap();
    }
    let rest = format!(
        "[[certificate]]\nnames = [\"dns.example\"]\ncert = \"one.pem\"\nkey = \"one.key\"\n\
         [[listener]]\nname = \"behind\"\nlisten = [\"{plain}\", \"tls://{tls}\"]\n\
         allow = [\"192.0.2.0/24\"]\nproxy-protocol-from = [\"127.0.0.1\"]\n\
         [[listener]]\nname = \"far\"\nlisten = [\"{far}\"]\n\
         proxy-protocol-from = [\"127.0.0.9\"]\n\
         [[rule]]\nname = \"one client\"\nwhen = '''client.ip.in(\"{BLOCKED}\")'''\n\
         action = \"block\"\n"
    );
    site.configure(upstream.addr, "workers = 2", &rest);
    let server = site.start();
    World { site, _upstream: upstream, _server: server, plain, far, tls }
}

fn udp(last: u8) -> UdpSocket {
    let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, last), 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Sends a datagram, and returns the reply.
fn exchange(socket: &UdpSocket, to: SocketAddr, parts: &[&[u8]]) -> Vec<u8> {
    socket.send_to(&parts.concat(), to).unwrap();
    let mut reply = vec![0; 4096];
    let len = socket.recv(&mut reply).unwrap();
    reply.truncate(len);
    reply
}

/// Waits until the server ends a connection. Unread octets turn the end into a reset.
#[track_caller]
fn wait_for_end(stream: &mut TcpStream) {
    match stream.read(&mut [0; 1]) {
        Ok(len) => assert_eq!(len, 0),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
}

/// Connects from 127.0.0.1.
fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn frame(name: &str) -> Vec<u8> {
    let message = query(3, name);
    [&(message.len() as u16).to_be_bytes()[..], &message].concat()
}

fn reply(stream: &mut impl Read) -> Vec<u8> {
    let mut len = [0; 2];
    stream.read_exact(&mut len).unwrap();
    let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut message).unwrap();
    message
}

fn address(reply: &[u8]) -> Vec<u8> {
    first_record(reply, "www.example").0
}

#[test]
fn the_client_of_a_datagram_is_that_of_its_header() {
    let World { site, plain, .. } = &start();
    let (proxy, message) = (udp(1), query(3, "www.example"));
    for _ in 0..2 {
        let blocked = exchange(&proxy, *plain, &[&header(BLOCKED, 2), &message]);
        assert_eq!(address(&blocked), [0; 4]);
        let other = exchange(&proxy, *plain, &[&header(OTHER, 2), &message]);
        assert_eq!(address(&other), ADDRESS);
    }
    // The access list applies to the client in the header, or to the proxy if the header names no
    // client.
    let stranger = exchange(&proxy, *plain, &[&header([203, 0, 113, 1].into(), 2), &message]);
    assert_eq!(stranger[3] & 15, REFUSED);
    let own = exchange(&proxy, *plain, &[b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0", &message]);
    assert_eq!(own[3] & 15, REFUSED);
    // Other listeners read no header, and no listener reads headers of other addresses.
    assert_eq!(ask(site.dns, 1, "www.example").0, ADDRESS);
    let plain_client = exchange(&udp(2), *plain, &[&message]);
    assert_eq!(plain_client[3] & 15, REFUSED);
    assert_eq!(site.metric(METRIC), 0.0);
    // A query without a header, or with a bad one, gets no answer: the next answer belongs to the
    // next query.
    let bad = [
        message.clone(),
        Vec::new(),
        header(OTHER, 2)[..20].to_vec(),
        [&b"PROXY TCP4 192.0.2.8 192.0.2.1 1 53\r\n"[..], &message].concat(),
        [&header(OTHER, 9), &message[..]].concat(),
    ];
    for octets in &bad {
        proxy.send_to(octets, *plain).unwrap();
    }
    let last = exchange(&proxy, *plain, &[&header(OTHER, 2), &query(77, "www.example")]);
    assert_eq!(last[..2], [0, 77]);
    wait_until("all are counted", || site.metric(METRIC) == bad.len() as f64);
}

#[test]
fn a_header_of_a_client_that_is_no_proxy_is_not_believed() {
    let World { site, plain, far, .. } = &start();
    let message = query(3, "www.example");
    let socket = udp(2);
    socket.send_to(&[&header(OTHER, 2)[..], &message].concat(), *plain).unwrap();
    let next = exchange(&socket, *plain, &[&query(77, "www.example")]);
    // The first datagram gets an error.
    assert_ne!(next[3] & 15, 0);
    let mut stream = connect(*far);
    stream.write_all(&[&header(OTHER, 1)[..], &frame("www.example")].concat()).unwrap();
    let mut rest = Vec::new();
    // The connection is closed in time, since the octets are a part of a long frame.
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < 2 + 12 || rest[5] & 15 != 0, "{rest:?}");
    assert_eq!(site.metric(METRIC), 0.0);
}

#[test]
fn the_client_of_a_connection_is_that_of_its_header() {
    let World { site, plain, .. } = &start();
    let text = |client| format!("PROXY TCP4 {client} 192.0.2.1 1024 53\r\n").into_bytes();
    for (client, expected) in [(BLOCKED, [0; 4]), (OTHER, [192, 0, 2, 77])] {
        for header in [header(client, 1), text(client)] {
            for cut in [0, 1, 14, header.len() - 1, header.len()] {
                let mut stream = connect(*plain);
                stream.write_all(&header[..cut]).unwrap();
                if cut > 0 {
                    // Another connection is served meanwhile.
                    assert_eq!(ask(site.dns, 1, "www.example").0, ADDRESS);
                }
                let rest = [&header[cut..], &frame("www.example")].concat();
                stream.write_all(&rest).unwrap();
                assert_eq!(address(&reply(&mut stream)), expected, "{client} {cut}");
                stream.write_all(&frame("www.example")).unwrap();
                assert_eq!(address(&reply(&mut stream)), expected, "{client} {cut}");
            }
        }
    }
    assert_eq!(site.metric(METRIC), 0.0);
    for octets in [frame("www.example"), b"PROXY NONE\r\n".to_vec(), header(OTHER, 5)] {
        let mut stream = connect(*plain);
        stream.write_all(&octets).unwrap();
        wait_for_end(&mut stream);
    }
    // The server stops waiting for a header that never arrives.
    let mut silent = connect(*plain);
    silent.write_all(b"PROXY").unwrap();
    wait_for_end(&mut silent);
    wait_until("all are counted", || site.metric(METRIC) == 4.0);
}

#[test]
fn the_header_comes_before_tls() {
    let World { site, tls, .. } = &start();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ONE[0].as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let config = Arc::new(config);
    for (client, expected) in [(BLOCKED, [0; 4]), (OTHER, [192, 0, 2, 77])] {
        let mut stream = connect(*tls);
        stream.write_all(&header(client, 1)).unwrap();
        let name = "127.0.0.1".try_into().unwrap();
        let connection = ClientConnection::new(config.clone(), name).unwrap();
        let mut stream = StreamOwned::new(connection, stream);
        stream.write_all(&frame("www.example")).unwrap();
        assert_eq!(address(&reply(&mut stream)), expected);
    }
    assert_eq!(site.metric(METRIC), 0.0);
}

#[test]
fn the_clients_of_an_ipv6_network_do_not_take_the_connections_of_others() {
    let (site, upstream, behind) = (Site::new(), Upstream::start(), free_address());
    let rest = format!(
        "[[listener]]\nname = \"behind\"\nlisten = [\"{behind}\"]\n\
         allow = [\"192.0.2.0/24\", \"2001:db8::/32\"]\nproxy-protocol-from = [\"127.0.0.1\"]\n"
    );
    let keys = "workers = 1\ntcp-connections = 8\ntcp-connections-per-client = 4\n\
                tcp-idle-ms = 60000";
    site.configure(upstream.addr, keys, &rest);
    let _server = site.start();
    let begin = |header: &str| {
        let mut stream = connect(behind);
        stream.write_all(&[header.as_bytes(), &frame("www.example")].concat()).unwrap();
        assert_eq!(address(&reply(&mut stream)), ADDRESS);
        stream
    };
    let mut other = begin("PROXY TCP4 192.0.2.8 192.0.2.1 1024 53\r\n");
    let crowd: Vec<_> = (1..=12)
        .map(|host| begin(&format!("PROXY TCP6 2001:db8::{host} 2001:db8::53 1024 53\r\n")))
        .collect();
    other.write_all(&frame("www.example")).unwrap();
    assert_eq!(address(&reply(&mut other)), ADDRESS);
    // The connections of the network that were idle longest have ended.
    for mut stream in crowd.into_iter().take(8) {
        wait_for_end(&mut stream);
    }
}
