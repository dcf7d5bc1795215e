//! Upstreams over TLS, as clients and the operator see them.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::peers::{accepts, start_until};
use crate::server::{PATIENCE, Server, Site, ask, free_address, is_here, query, udp_client};
use crate::upstream::{ADDRESS, Upstream};

/// Certificates for 127.0.0.1 and their keys, for these tests only.
pub(crate) const ONE: [&str; 2] =
    [include_str!("certificates/one.pem"), include_str!("certificates/one.key")];
const TWO: [&str; 2] = [include_str!("certificates/two.pem"), include_str!("certificates/two.key")];
const EXPIRED: [&str; 2] =
    [include_str!("certificates/expired.pem"), include_str!("certificates/expired.key")];
/// The pin of [`ONE`].
pub(crate) const PIN: &str = "mqDDURc1dZr5YY+aTgGL4+n6/7FD8REgJO/s6fqdbxM=";

/// What an upstream does with a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    /// Answers, except names that begin with "stall".
    Answers,
    ClosesAfterEach,
    /// Ends each connection within the second answer.
    ClosesInside,
    /// Accepts, and says nothing.
    Silent,
    /// Answers without TLS.
    Plain,
    /// Refuses the handshake with an alert.
    Alert,
}

/// An upstream with TLS that answers every query with one address.
struct TlsUpstream {
    addr: SocketAddr,
    state: Arc<Mutex<UpstreamState>>,
    /// Names that were asked for, with the octets of the query.
    asked: Receiver<(String, usize)>,
}

struct UpstreamState {
    manner: Manner,
    config: Arc<ServerConfig>,
    /// Open connections.
    open: Vec<TcpStream>,
    accepted: usize,
}

impl TlsUpstream {
    fn start(manner: Manner, certificate: [&str; 2]) -> Self {
        let listener = crate::server::tcp_listener();
        let addr = listener.local_addr().unwrap();
        let config = server_config(certificate);
        let state = UpstreamState { manner, config, open: Vec::new(), accepted: 0 };
        let state = Arc::new(Mutex::new(state));
        let (sender, asked) = channel();
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut state = shared.lock().unwrap();
                state.open.push(stream.try_clone().unwrap());
                state.accepted += 1;
                let (manner, config, sender) = (state.manner, state.config.clone(), sender.clone());
                thread::spawn(move || serve(stream, manner, config, &sender));
            }
        });
        Self { addr, state, asked }
    }

    fn accepted(&self) -> usize {
        self.state.lock().unwrap().accepted
    }

    fn set(&self, change: impl FnOnce(&mut UpstreamState)) {
        change(&mut self.state.lock().unwrap());
    }

    /// Ends all connections.
    fn drop_connections(&self) {
        self.set(|state| {
            for stream in state.open.drain(..) {
                // It may be closed already.
                let _ = stream.shutdown(std::net::Shutdown::Both);
            }
        });
    }
}

pub(crate) fn server_config([certificate, key]: [&str; 2]) -> Arc<ServerConfig> {
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap();
    Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap())
}

fn serve(
    mut stream: TcpStream,
    manner: Manner,
    config: Arc<ServerConfig>,
    asked: &Sender<(String, usize)>,
) {
    // The client may end the connection at any point.
    let _ = match manner {
        Manner::Silent => stream.read(&mut [0; 1]).map(drop).and_then(|()| {
            loop {
                if stream.read(&mut [0; 4096])? == 0 {
                    return Ok(());
                }
            }
        }),
        Manner::Plain => stream.write_all(b"220 mail.example ESMTP\r\n"),
        // Fatal, handshake_failure.
        Manner::Alert => stream.write_all(&[21, 3, 3, 0, 2, 2, 40]).map(|()| {
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read(&mut [0; 4096]);
        }),
        Manner::Answers | Manner::ClosesAfterEach | Manner::ClosesInside => {
            let connection = ServerConnection::new(config).unwrap();
            answer(StreamOwned::new(connection, stream), manner, asked)
        }
    };
}

fn answer(
    mut stream: StreamOwned<ServerConnection, TcpStream>,
    manner: Manner,
    asked: &Sender<(String, usize)>,
) -> io::Result<()> {
    for number in 0.. {
        let mut len = [0; 2];
        stream.read_exact(&mut len)?;
        let mut query = vec![0; u16::from_be_bytes(len).into()];
        stream.read_exact(&mut query)?;
        let end = 12 + query[12..].iter().position(|octet| *octet == 0).unwrap() + 5;
        let name = String::from_utf8_lossy(&query[13..end - 5]).to_ascii_lowercase();
        let is_stalled = name.starts_with("stall");
        // The test may be over.
        let _ = asked.send((name, query.len()));
        if is_stalled {
            continue;
        }
        let mut reply = query[..end].to_vec();
        reply[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4]);
        reply.extend(ADDRESS);
        let frame = [&(reply.len() as u16).to_be_bytes()[..], &reply].concat();
        if manner == Manner::ClosesInside && number == 1 {
            stream.write_all(&frame[..20])?;
            return Ok(());
        }
        stream.write_all(&frame)?;
        if manner == Manner::ClosesAfterEach {
            return Ok(());
        }
    }
    Ok(())
}

/// Writes a configuration with this rule.
fn configure(site: &Site, upstreams: &str, rest: &str) {
    for (stem, [certificate, _]) in [("one", ONE), ("two", TWO), ("expired", EXPIRED)] {
        fs::write(site.directory.join(format!("{stem}.pem")), certificate).unwrap();
    }
    site.write(&format!(
        "[server]\nlisten = [\"{}\"]\nhttp = \"{}\"\nworkers = 1\n[data]\ndirectory = \"{}\"\n\
         [query-log]\nenabled = true\n[[forward]]\nzone = \".\"\nupstreams = [{upstreams}]\n{rest}\n",
        site.dns,
        site.http,
        site.data().display()
    ));
}

fn start(site: &Site, upstream: &TlsUpstream, rest: &str) -> Server {
    configure(site, &format!("\"tls://{}\"", upstream.addr), rest);
    site.start()
}

/// Repeats a check until it succeeds: workers publish their counts only from time to time.
fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if let Some(found) = look() {
            return found;
        }
        thread::yield_now();
    }
    panic!("nothing of that has happened");
}

/// Asks for a name that gets no address. Returns the text of the extended error.
fn failure(site: &Site, name: &str) -> String {
    let output = site.avocet_text(&["query", &format!("@{}", site.dns), name, "+json"]);
    let reply: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(reply["rcode"], "SERVFAIL", "{reply}");
    reply["edns"].to_string()
}

#[test]
fn questions_go_to_an_authenticated_upstream_over_one_connection() {
    let upstream = TlsUpstream::start(Manner::Answers, ONE);
    for proof in ["ca = \"one.pem\"", &format!("pins = [\"{PIN}\"]")] {
        let site = Site::new();
        let before = upstream.accepted();
        let server = start(&site, &upstream, proof);
        for host in 0..20 {
            assert_eq!(ask(site.dns, host, &format!("h{host}.example")).0, ADDRESS, "{proof}");
        }
        assert_eq!(upstream.accepted() - before, 1);
        let (_, len) = upstream.asked.recv().unwrap();
        assert_eq!(len % 128, 0, "padded (RFC 8467)");
        let shown = format!("tls://{}", upstream.addr);
        let label = format!("upstream=\"{shown}\"");
        let metric = format!("avocet_upstream_tls_queries_total{{{label}}}");
        until(|| (site.metric(&metric) == 20.0).then_some(()));
        let status = site.avocet_text(&["status"]);
        assert!(status.contains(&format!("upstream {shown}: asked")), "{status}");
        server.stop();
    }
}

#[test]
fn an_upstream_without_proof_gets_no_query_and_everybody_learns_why() {
    let upstream = TlsUpstream::start(Manner::Answers, ONE);
    let expired = TlsUpstream::start(Manner::Answers, EXPIRED);
    let (one, old) = (upstream.addr, expired.addr);
    let wrong_pin = "pins = [\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"]";
    let both = format!("ca = \"two.pem\"\npins = [\"{PIN}\"]");
    for (server, proof, reason, why) in [
        (format!("dns.example@{one}"), "ca = \"one.pem\"", "name", "another name"),
        (one.to_string(), "ca = \"two.pem\"", "issuer", "no trusted authority"),
        (old.to_string(), "ca = \"expired.pem\"", "expired", "has expired"),
        (one.to_string(), wrong_pin, "pin", "its key is not pinned"),
        (one.to_string(), &both, "issuer", "no trusted authority"),
    ] {
        let site = Site::new();
        configure(&site, &format!("\"tls://{server}\""), proof);
        let mut process = site.start();
        let ede = failure(&site, "www.example");
        assert!(ede.contains("23") && ede.contains(why), "{server} {proof}: {ede}");
        process.wait_for_line(&format!("no answers from the upstream tls://{server}: "));
        let metric = format!(
            "avocet_upstream_tls_failures_total{{upstream=\"tls://{server}\",reason=\"{reason}\"}}"
        );
        until(|| (site.metric(&metric) > 0.0).then_some(()));
        let status = site.avocet_text(&["status"]);
        assert!(status.contains(why) && status.contains("gets no queries"), "{status}");
        let traced = site.avocet_text(&["query", "other.example", "+trace"]);
        assert!(traced.contains(why), "{traced}");
        process.stop();
    }
    assert!(upstream.asked.try_recv().is_err() && expired.asked.try_recv().is_err());
    // Without authentication, each certificate is good.
    let site = Site::new();
    let server = start(&site, &expired, "authentication = \"opportunistic\"");
    assert_eq!(ask(site.dns, 1, "www.example").0, ADDRESS);
    server.stop();
}

#[test]
fn what_is_no_tls_is_told_and_never_replaced_by_plain_dns() {
    for (manner, why) in [
        (Manner::Plain, "does not speak TLS"),
        (Manner::Alert, "refused the handshake"),
        (Manner::Silent, "handshake took too long"),
    ] {
        // Plain DNS at the same address would answer. The port may be in use over UDP only.
        let with_datagrams = |upstream: TlsUpstream| {
            let datagrams = std::net::UdpSocket::bind(upstream.addr).ok()?;
            Some((upstream, datagrams))
        };
        let mut upstreams = (0..100).map(|_| TlsUpstream::start(manner, ONE));
        let (upstream, datagrams) = upstreams.find_map(with_datagrams).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        let site = Site::new();
        let server = start(&site, &upstream, "ca = \"one.pem\"");
        let ede = failure(&site, "www.example");
        assert!(ede.contains(why), "{manner:?}: {ede}");
        assert!(datagrams.recv_from(&mut [0; 512]).is_err(), "nothing without TLS");
        server.stop();
    }
}

/// Asks for many names at once, and checks that each gets its address.
fn ask_many(site: &Site, prefix: &str) {
    let client = udp_client();
    for number in 0..30u16 {
        client.send_to(&query(number, &format!("{prefix}{number}.example")), site.dns).unwrap();
    }
    for _ in 0..30 {
        let mut reply = [0; 512];
        let len = client.recv(&mut reply).unwrap();
        let number = u16::from_be_bytes([reply[0], reply[1]]);
        let name = format!("{prefix}{number}.example");
        assert_eq!(crate::server::first_record(&reply[..len], &name).0, ADDRESS, "{name}");
    }
}

#[test]
fn connections_that_end_lose_no_answer() {
    for manner in [Manner::Answers, Manner::ClosesAfterEach, Manner::ClosesInside] {
        let upstream = TlsUpstream::start(manner, ONE);
        let site = Site::new();
        let server = start(&site, &upstream, "ca = \"one.pem\"");
        ask_many(&site, "a");
        upstream.drop_connections();
        ask_many(&site, "b");
        server.stop();
    }
}

#[test]
fn a_stalled_answer_holds_up_no_other() {
    let upstream = TlsUpstream::start(Manner::Answers, ONE);
    let site = Site::new();
    let server = start(&site, &upstream, "ca = \"one.pem\"");
    udp_client().send_to(&query(1, "stall.example"), site.dns).unwrap();
    while upstream.asked.recv().unwrap().0 != "stall\u{7}example" {}
    ask_many(&site, "a");
    assert_eq!(upstream.accepted(), 1, "on the same connection");
    server.stop();
}

#[test]
fn a_connection_outlives_a_change_of_the_certificate_and_the_next_is_checked() {
    let upstream = TlsUpstream::start(Manner::Answers, ONE);
    let site = Site::new();
    let server = start(&site, &upstream, "ca = \"one.pem\"");
    assert_eq!(ask(site.dns, 1, "first.example").0, ADDRESS);
    upstream.set(|state| state.config = server_config(TWO));
    assert_eq!(ask(site.dns, 2, "second.example").0, ADDRESS);
    assert_eq!(upstream.accepted(), 1);
    upstream.drop_connections();
    let ede = failure(&site, "third.example");
    assert!(ede.contains("no trusted authority"), "{ede}");
    // A reload with the authority of the new certificate.
    configure(&site, &format!("\"tls://{}\"", upstream.addr), "ca = \"two.pem\"");
    site.avocet_text(&["reload"]);
    assert_eq!(ask(site.dns, 3, "fourth.example").0, ADDRESS);
    server.stop();
}

#[test]
fn the_log_names_the_transport_and_finds_by_address() {
    let upstream = TlsUpstream::start(Manner::Answers, ONE);
    let site = Site::new();
    let server = start(&site, &upstream, "ca = \"one.pem\"");
    assert_eq!(ask(site.dns, 1, "www.example").0, ADDRESS);
    let shown = format!("tls://{}", upstream.addr);
    for wanted in [shown.clone(), upstream.addr.to_string()] {
        let text = until(|| {
            let text = site.avocet_text(&["log", "search", "--upstream", &wanted, "--json"]);
            text.contains("www.example").then_some(text)
        });
        assert!(text.contains(&shown), "{text}");
    }
    server.stop();
}

#[test]
fn the_faults_of_files_are_found_before_the_start() {
    let site = Site::new();
    let upstreams = "\"tls://dns.example@192.0.2.1\"";
    for (rest, expected) in [
        ("ca = \"missing.pem\"", "missing.pem cannot be read: No such file or directory"),
        ("ca = \"avocet.toml\"", "avocet.toml cannot be read: no items found"),
        (
            "pins = [\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"]\n\
             client-cert = \"one.pem\"\nclient-key = \"one.pem\"",
            "one.pem: no private key in PEM form: no items found",
        ),
    ] {
        configure(&site, upstreams, rest);
        for words in [&["check"][..], &["serve"]] {
            let output = site.avocet(words);
            let text = String::from_utf8(output.stderr).unwrap();
            assert!(!output.status.success(), "{words:?} {rest}");
            assert!(text.contains("TLS to other servers: ") && text.contains(expected), "{text}");
        }
    }
}

/// dnsdist as the upstream over TLS and HTTPS, with a server behind it that it asks over TCP.
#[test]
fn dnsdist_is_a_good_upstream() {
    if !is_here("dnsdist") {
        return;
    }
    let (site, behind, plain) = (Site::new(), Site::new(), Upstream::start());
    let (tls, https) = (free_address(), free_address());
    behind.configure(plain.addr, "workers = 1", "");
    let asked_by_dnsdist = behind.start();
    for (file, text) in [("dist.pem", ONE[0]), ("dist.key", ONE[1])] {
        fs::write(site.directory.join(file), text).unwrap();
    }
    let directory = site.directory.display();
    let config = site.directory.join("dnsdist.conf");
    let text = format!(
        "newServer(\"{}\"):setUp()\nsetLocal(\"{}\")\n\
         addTLSLocal(\"{tls}\", \"{directory}/dist.pem\", \"{directory}/dist.key\")\n\
         addDOHLocal(\"{https}\", \"{directory}/dist.pem\", \"{directory}/dist.key\", \"/q\")\n",
        behind.dns,
        free_address()
    );
    fs::write(&config, text).unwrap();
    let mut dnsdist = std::process::Command::new("dnsdist");
    dnsdist
        .args(["--supervised", "--disable-syslog", "-C"])
        .arg(&config)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let is_ready = || accepts(tls) && accepts(https);
    let mut dnsdist = start_until(&mut dnsdist, "dnsdist", is_ready).unwrap();
    for (upstream, method) in [
        (format!("tls://{tls}"), "post"),
        (format!("https://{https}/q"), "post"),
        (format!("https://{https}/q"), "get"),
    ] {
        let rest = format!("ca = \"one.pem\"\nhttps-method = \"{method}\"");
        configure(&site, &format!("\"{upstream}\""), &rest);
        let server = site.start();
        ask_many(&site, "a");
        server.stop();
    }
    dnsdist.kill().unwrap();
    dnsdist.wait().unwrap();
    asked_by_dnsdist.stop();
}
