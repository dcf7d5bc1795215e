//! Queries to authoritative servers over TLS (RFC 9539), with servers on the ports 53 and 853.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::{ServerConnection, StreamOwned};

use crate::namespace::in_namespace;
use crate::server::{PATIENCE, Site};
use crate::tls_upstream::{ONE, server_config};
use crate::upstream::ADDRESS;

/// The address of the authority.
const HOST: &str = "127.0.0.2";

/// The port that got a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Port {
    Dns,
    Tls,
}

/// An authority of `corp.` at the ports 53 and 853.
struct Authority {
    asked: Receiver<(Port, String)>,
    /// Whether TLS answers.
    answers: Arc<Mutex<bool>>,
}

impl Authority {
    fn start() -> Self {
        let (sender, asked) = channel();
        let answers = Arc::new(Mutex::new(true));
        serve_datagrams(sender.clone());
        serve_tls(sender, answers.clone());
        Self { asked, answers }
    }

    /// Returns the ports that got queries for a name.
    fn ports_of(&self, name: &str) -> Vec<Port> {
        self.asked.try_iter().filter(|(_, asked)| asked == name).map(|(port, _)| port).collect()
    }
}

fn serve_datagrams(asked: Sender<(Port, String)>) {
    let socket = UdpSocket::bind((HOST, 53)).unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let (name, reply) = reply_to(&buffer[..len]);
            // The test may be over.
            let _ = asked.send((Port::Dns, name));
            let _ = socket.send_to(&reply, from);
        }
    });
}

fn serve_tls(asked: Sender<(Port, String)>, answers: Arc<Mutex<bool>>) {
    let listener = TcpListener::bind((HOST, 853)).unwrap();
    let config = server_config(ONE);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let session = ServerConnection::new(config.clone()).unwrap();
            let mut stream = StreamOwned::new(session, stream);
            let (asked, answers) = (asked.clone(), answers.clone());
            thread::spawn(move || {
                let mut len = [0; 2];
                while stream.read_exact(&mut len).is_ok() {
                    let mut query = vec![0; u16::from_be_bytes(len).into()];
                    stream.read_exact(&mut query).unwrap();
                    let (name, reply) = reply_to(&query);
                    let _ = asked.send((Port::Tls, name));
                    if *answers.lock().unwrap() {
                        let frame = [&(reply.len() as u16).to_be_bytes()[..], &reply].concat();
                        let _ = stream.write_all(&frame);
                    }
                }
            });
        }
    });
}

/// Returns the first label of the name, and an answer with an address.
fn reply_to(query: &[u8]) -> (String, Vec<u8>) {
    let end = 12 + query[12..].iter().position(|octet| *octet == 0).unwrap() + 5;
    let label = &query[13..13 + usize::from(query[12])];
    let mut reply = query[..end].to_vec();
    reply[2..12].copy_from_slice(&[0x84, 0, 0, 1, 0, 1, 0, 0, 0, 0]);
    reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 1, 44, 0, 4]);
    reply.extend(ADDRESS);
    (String::from_utf8_lossy(label).to_ascii_lowercase(), reply)
}

/// The ports 53 and 853 are free in a network namespace.
#[test]
fn queries_to_an_authority_leave_encrypted_once_it_has_answered_over_tls() {
    let name = "encrypted_authorities::\
                queries_to_an_authority_leave_encrypted_once_it_has_answered_over_tls";
    in_namespace(name, &[], check_authority);
}

fn check_authority() {
    let authority = Authority::start();
    let site = Site::new();
    fs::create_dir_all(site.data()).unwrap();
    site.write(&format!(
        "[server]\nlisten = [\"{}\"]\nhttp = \"{}\"\nworkers = 1\n[data]\ndirectory = \"{}\"\n\
         [dnssec]\nvalidate = false\n[resolver]\nmode = \"recurse\"\nquery-private = true\n\
         qname-minimisation = false\nencrypt-authoritative = true\n\
         [[stub]]\nzone = \"corp\"\nservers = [\"{HOST}:53\"]\n",
        site.dns,
        site.http,
        site.data().display()
    ));
    let _server = site.start();
    assert_eq!(site.ask("first.corp").0, ADDRESS);
    assert_eq!(site.ask("probe.corp").0, ADDRESS);
    let probed = authority.asked.iter().find(|asked| *asked == (Port::Tls, "probe".to_owned()));
    assert!(probed.is_some());
    let answered = "avocet_recursion_probes_total{result=\"answered\"}";
    until(|| site.metric(answered) >= 1.0);
    authority.ports_of("");
    assert_eq!(site.ask("hidden.corp").0, ADDRESS);
    assert_eq!(authority.ports_of("hidden"), [Port::Tls]);
    until(|| {
        let status = site.avocet_text(&["status"]);
        let line = status.lines().find(|line| line.starts_with("authoritative servers: "));
        let line = line.unwrap_or_else(|| panic!("{status}"));
        line.contains("authoritative servers: 1 of ") && line.contains("1 probes answered")
    });

    *authority.answers.lock().unwrap() = false;
    assert_eq!(site.ask("stalled.corp").0, ADDRESS);
    assert_eq!(authority.ports_of("stalled"), [Port::Tls, Port::Dns]);
    assert_eq!(site.ask("next.corp").0, ADDRESS);
    assert_eq!(authority.ports_of("next"), [Port::Dns]);
}

/// Waits until a condition holds.
fn until(holds: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE);
        thread::park_timeout(std::time::Duration::from_millis(20));
    }
}
