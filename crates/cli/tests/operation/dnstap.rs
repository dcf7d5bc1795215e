//! dnstap of a running server: what a receiver gets, and what commands do with a file of it.

use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use avocet_dnstap::frame::Frame;
use avocet_dnstap::{ControlKind, FrameReader, MessageKind, TapMessage, TapTransport};

use crate::past::wait_until;
use crate::server::{PATIENCE, Site, ask_over_tcp, query, udp_client};
use crate::upstream::Upstream;

/// A receiver of frame streams that passes the octets of each message on.
struct Tap {
    messages: Receiver<Vec<u8>>,
}

impl Tap {
    fn unix(path: &Path) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        let (sender, messages) = channel();
        thread::spawn(move || {
            listener.incoming().for_each(|socket| receive(socket.unwrap(), &sender));
        });
        Self { messages }
    }

    fn tcp() -> (Self, u16) {
        let listener = crate::server::tcp_listener();
        let port = listener.local_addr().unwrap().port();
        let (sender, messages) = channel();
        thread::spawn(move || {
            listener.incoming().for_each(|socket| receive(socket.unwrap(), &sender));
        });
        (Self { messages }, port)
    }

    fn next(&self) -> Vec<u8> {
        self.messages.recv_timeout(PATIENCE).unwrap()
    }
}

/// Serves one connection to its end.
fn receive(mut socket: impl Read + Write, messages: &Sender<Vec<u8>>) {
    let mut data = Vec::new();
    let first = FrameReader::new(&mut socket).read_frame(&mut data).unwrap();
    assert!(first.is_some_and(|frame| frame.permits(ControlKind::Ready)));
    socket.write_all(&ControlKind::Accept.frame()).unwrap();
    loop {
        match FrameReader::new(&mut socket).read_frame(&mut data).unwrap() {
            Some(Frame::Data) => drop(messages.send(data.clone())),
            Some(Frame::Control(ControlKind::Start, _)) => {}
            Some(Frame::Control(ControlKind::Stop, _)) => {
                socket.write_all(&ControlKind::Finish.frame()).unwrap();
                return;
            }
            None => return,
            other => panic!("{other:?}"),
        }
    }
}

fn read(octets: &[u8]) -> TapMessage<'_> {
    TapMessage::read(octets).unwrap().unwrap()
}

/// Writes messages to a file, as receivers do.
fn save(site: &Site, messages: &[Vec<u8>]) -> PathBuf {
    let mut octets = ControlKind::Start.frame();
    messages.iter().for_each(|message| avocet_dnstap::frame::put_data(&mut octets, message));
    octets.extend(ControlKind::Stop.frame());
    let path = site.directory.join("queries.tap");
    std::fs::write(&path, octets).unwrap();
    path
}

/// Sends a query and returns the reply.
fn exchange(site: &Site, query: &[u8]) -> Vec<u8> {
    let socket = udp_client();
    socket.send_to(query, site.dns).unwrap();
    let mut reply = vec![0; 4096];
    let len = socket.recv(&mut reply).unwrap();
    reply.truncate(len);
    reply
}

#[test]
fn each_reply_is_a_message_with_its_octets_addresses_and_times() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let socket = site.directory.join("tap.sock");
    let tap = Tap::unix(&socket);
    let dnstap = format!("[dnstap]\noutput = \"unix:{}\"\nidentity = \"home\"\n", socket.display());
    site.configure(upstream.addr, "", &dnstap);
    let server = site.start();
    let mut messages = Vec::new();
    for _ in 0..2 {
        let reply = exchange(&site, &query(7, "www.example"));
        messages.push(tap.next());
        let message = read(&messages[messages.len() - 1]);
        assert_eq!(message.response_message, Some(&reply[..]), "resolved, then from the cache");
        assert_eq!(message.kind, MessageKind::ClientResponse);
        assert_eq!(message.transport, Some(TapTransport::Udp));
        assert_eq!(message.query_address, Some([127, 0, 0, 1].into()));
        assert_eq!(message.response_address, Some(site.dns.ip()));
        assert_eq!(message.response_port, Some(site.dns.port()));
        assert_eq!(message.identity, b"home");
        assert!(message.version.starts_with(b"avocet "));
        assert!(message.query_time <= message.response_time);
        assert!(message.query_time.unwrap().secs > 1_700_000_000);
    }
    ask_over_tcp(site.dns, "www.example");
    messages.push(tap.next());
    assert_eq!(read(&messages[2]).transport, Some(TapTransport::Tcp));
    assert_eq!(site.metric("avocet_dnstap_connected"), 1.0);
    wait_until("the messages are counted", || site.metric("avocet_dnstap_messages_total") == 3.0);
    // What is sent last arrives before the server ends.
    exchange(&site, &query(8, "last.example"));
    server.stop();
    messages.push(tap.next());
    let last = read(&messages[3]).response_message.unwrap();
    assert_eq!(last[..2], [0, 8]);

    let file = save(&site, &messages);
    other_readers_agree(&file);
    commands_read_it(&site, &file);
}

/// Compares with `dnstap-read` of BIND, if it is installed.
fn other_readers_agree(file: &Path) {
    let Ok(output) = Command::new("dnstap-read").arg("-y").arg(file).output() else {
        assert!(std::env::var_os("CI").is_none(), "dnstap-read is missing");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    for part in
        ["type: CLIENT_RESPONSE", "identity: home", "query_address: \"127.0.0.1\"", "192.0.2.77"]
    {
        assert!(text.contains(part), "{part:?} in:\n{text}");
    }
    assert_eq!(text.matches("type: CLIENT_RESPONSE").count(), 4, "{text}");
}

/// Reads the file by `policy dry-run` and `load`.
fn commands_read_it(site: &Site, file: &Path) {
    let list = site.directory.join("ads.txt");
    std::fs::write(&list, "||www.example^\n").unwrap();
    let new = site.directory.join("new.toml");
    let text = format!("[[list]]\nname = \"ads\"\nfile = \"{}\"\n", list.display());
    std::fs::write(&new, text).unwrap();
    let (new, file) = (new.to_str().unwrap(), file.to_str().unwrap());
    let text = site.avocet_text(&["policy", "dry-run", new, "--dnstap", file]);
    assert!(
        text.starts_with("4 queries\nnewly blocked: 3 queries, 1 names, 1 clients\n"),
        "{text}"
    );
    let (text, new_text) = (site.directory.join("x"), "[dnstap]\noutput = \"tcp:7\"\n");
    std::fs::write(&text, new_text).unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_avocet")).arg("check").arg(&text).output().unwrap();
    let errors =
        String::from_utf8_lossy(&run.stderr).into_owned() + &String::from_utf8_lossy(&run.stdout);
    assert!(!run.status.success() && errors.contains("tcp://ADDRESS:PORT"), "{errors}");

    let _server = site.start();
    let before = site.metric("avocet_queries_total{transport=\"udp\"}");
    let mut load = Command::new(env!("CARGO_BIN_EXE_avocet"));
    load.args(["load", &site.dns.to_string(), "--scenario", "replay", "--names", file]);
    let output = load.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let after = site.metric("avocet_queries_total{transport=\"udp\"}");
    assert!(after - before >= 4.0, "{text}");
}

#[test]
fn a_receiver_that_comes_later_gets_what_fits() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let socket = site.directory.join("tap.sock");
    let dnstap = format!("[dnstap]\noutput = \"unix:{}\"\n", socket.display());
    site.configure(upstream.addr, "", &dnstap);
    let mut server = site.start();
    server.wait_for_line("the dnstap receiver unix:");
    exchange(&site, &query(7, "www.example"));
    assert!(site.avocet_text(&["status"]).contains("warning: the dnstap receiver"));
    assert_eq!(site.metric("avocet_dnstap_connected"), 0.0);
    let tap = Tap::unix(&socket);
    assert_eq!(read(&tap.next()).response_message.unwrap()[..2], [0, 7]);
    server.wait_for_line("dnstap messages go to unix:");
    // Off and to another receiver by a reload.
    let (other, port) = Tap::tcp();
    let to_other = format!("[dnstap]\noutput = \"tcp://127.0.0.1:{port}\"\n");
    site.configure(upstream.addr, "", &to_other);
    site.avocet_text(&["reload"]);
    server.wait_for_line("dnstap messages go to tcp:");
    exchange(&site, &query(9, "www.example"));
    assert_eq!(read(&other.next()).response_message.unwrap()[..2], [0, 9]);
    site.configure(upstream.addr, "", "");
    site.avocet_text(&["reload"]);
    for _ in 0..PATIENCE.as_secs() * 100 {
        if site.metric("avocet_dnstap_connected") == 0.0 {
            return;
        }
        thread::park_timeout(Duration::from_millis(10));
    }
    panic!("the connection stays");
}

#[test]
fn messages_conceal_what_privacy_withholds() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let socket = site.directory.join("tap.sock");
    let tap = Tap::unix(&socket);
    let client = |last: u8, privacy: &str| {
        format!(
            "[[client]]\nname = \"c{last}\"\nids = [\"127.0.0.{last}\"]\nprivacy = \"{privacy}\"\n"
        )
    };
    let clients = [(2, "truncated"), (3, "pseudonym"), (4, "no-names"), (5, "off"), (6, "full")];
    let clients: String = clients.map(|(last, privacy)| client(last, privacy)).concat();
    let dnstap = format!("[dnstap]\noutput = \"unix:{}\"\n{clients}", socket.display());
    site.configure(upstream.addr, "", &dnstap);
    let _server = site.start();
    let ask = |last: u8| {
        let client = UdpSocket::bind(SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut asked = query(last.into(), "www.example");
        // OPT with a cookie.
        asked[11] = 1;
        asked.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 12, 0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
        client.send_to(&asked, site.dns).unwrap();
        let mut reply = [0; 512];
        let len = client.recv(&mut reply).unwrap();
        reply[..len].to_vec()
    };
    let cookie = [1, 2, 3, 4, 5, 6, 7, 8];
    let has_cookie = |octets: &[u8]| octets.windows(8).any(|part| part == cookie);

    let (reply, truncated) = (ask(2), tap.next());
    assert!(has_cookie(&reply));
    let message = read(&truncated);
    assert_eq!(message.query_address, Some([127, 0, 0, 0].into()));
    let octets = message.response_message.unwrap();
    assert!(!has_cookie(octets) && octets.len() < reply.len());
    assert_eq!((octets[..2].to_vec(), octets[11]), (vec![0, 2], 0), "without OPT");
    let (_, pseudonym) = (ask(3), tap.next());
    let message = read(&pseudonym);
    assert!(message.query_address.is_some_and(|address| address.is_ipv6()));
    assert!(!has_cookie(message.response_message.unwrap()));
    let (_, unnamed) = (ask(4), tap.next());
    let message = read(&unnamed);
    assert_eq!((message.response_message, message.query_message), (None, None));
    assert_eq!(message.query_address, Some([127, 0, 0, 4].into()));
    ask(5);
    let (reply, full) = (ask(6), tap.next());
    assert_eq!(read(&full).response_message, Some(&reply[..]), "none of the client before");
}
