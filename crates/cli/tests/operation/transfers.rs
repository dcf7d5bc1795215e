//! Transfers of hosted zones to other servers, and signed messages, with dig and kdig as clients.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::server::{Server, Site, is_here, query};
use crate::upstream::Upstream;

const SECRET: &str = "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0ISE=";
const OTHER_SECRET: &str = "YW5vdGhlciBhbm90aGVyIGFub3RoZXIgYW5vdGhlciE=";
/// Hosts of the zone: their records need many messages.
const HOSTS: usize = 6_000;

fn zone_text(serial: u32) -> String {
    let host = |host: usize| format!("h{host} A 10.0.{}.{}\n", host >> 8, host & 255);
    let hosts: String = (0..HOSTS).map(host).collect();
    format!("$TTL 60\n@ SOA ns host {serial} 2h 3m 4w 60\n@ NS ns\nns A 192.0.2.1\n{hosts}")
}

/// A server with the zone `corp.example`.
struct Primary {
    site: Site,
    server: Option<Server>,
    file: PathBuf,
    _upstream: Upstream,
}

impl Primary {
    /// Starts one with these items of `allow-transfer`.
    fn start(allow: &str) -> Self {
        let (upstream, site) = (Upstream::start(), Site::new());
        let (file, secret) = (site.directory.join("corp.zone"), site.directory.join("secret"));
        fs::write(&file, zone_text(1)).unwrap();
        fs::write(&secret, format!("{SECRET}\n")).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let keys: String =
            ["hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512"]
                .map(|algorithm| {
                    format!(
                        "[[key]]\nname = \"{algorithm}.key\"\nalgorithm = \"{algorithm}\"\n\
                     secret-file = \"{}\"\n",
                        secret.display()
                    )
                })
                .concat();
        let zone = format!(
            "{keys}[[zone]]\nname = \"corp.example\"\nfile = \"{}\"\nsettle-secs = 3600\n\
             allow-transfer = [{allow}]\n",
            file.display()
        );
        site.configure(upstream.addr, "", &zone);
        let server = Some(site.start());
        Self { site, server, file, _upstream: upstream }
    }

    /// Kills the server.
    fn kill(&mut self) {
        let server = self.server.take().unwrap();
        server.signal("KILL");
        server.wait();
    }

    /// Starts it again.
    fn start_again(&mut self) -> &Server {
        self.server.insert(self.site.start())
    }

    /// Asks with a program; returns what it prints.
    fn ask(&self, program: &str, more: &[&str]) -> String {
        let dns = self.site.dns;
        let (at, port) = (format!("@{}", dns.ip()), dns.port().to_string());
        let output = Command::new(program)
            .args([&at, "-p", &port, "+retry=0", "+time=20"])
            .args(more)
            .output()
            .unwrap();
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        text(&output.stdout) + &text(&output.stderr)
    }

    fn count(&self, family: &str, label: &str) -> f64 {
        self.site.metric(&format!("{family}{{{label}}}"))
    }
}

/// Returns the records of a transfer as dig prints them, without order.
fn records(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| line.contains("\tIN\t") && !line.starts_with(';'));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn dig_and_kdig_transfer_the_zone_with_each_algorithm_and_verify_all_messages() {
    if !is_here("dig") || !is_here("kdig") {
        return;
    }
    let primary = Primary::start(
        r#""key hmac-sha1.key", "key hmac-sha224.key", "127.0.0.0/8 key hmac-sha256.key",
           "key hmac-sha384.key", "key hmac-sha512.key""#,
    );
    let expected: BTreeSet<_> = primary
        .site
        .avocet_text(&["zone", "export", "corp.example"])
        .lines()
        .map(str::to_owned)
        .collect();
    assert_eq!(expected.len(), HOSTS + 3);
    let mut sent = 0;
    for algorithm in ["hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512"] {
        for program in ["dig", "kdig"] {
            let key = format!("{algorithm}:{algorithm}.key:{SECRET}");
            let text = primary.ask(program, &["-y", &key, "corp.example", "AXFR"]);
            let found = records(&text);
            let extra: Vec<_> =
                found.difference(&expected).filter(|one| !one.contains("TSIG")).collect();
            assert!(
                found.is_superset(&expected) && extra.is_empty(),
                "{program}: {extra:?} {}",
                &text[..text.len().min(2_000)]
            );
            let lower = text.to_ascii_lowercase();
            assert!(!lower.contains("tsig error") && !lower.contains("couldn't verify"), "{lower}");
            sent += 1;
            // A client may end before the server has counted: the connection ends the transfer.
            let soa = primary.ask(program, &["-y", &key, "corp.example", "SOA"]);
            assert!(soa.contains("NOERROR") && !soa.contains("verify"), "{soa}");
        }
    }
    assert_eq!(
        primary.count("avocet_zone_transfers_out_total", "result=\"sent\""),
        f64::from(sent)
    );
    assert_eq!(primary.count("avocet_zone_transfers_out_total", "result=\"refused\""), 0.0);
}

#[test]
fn strangers_and_wrong_signatures_are_refused_and_counted() {
    if !is_here("dig") {
        return;
    }
    let primary = Primary::start(r#""127.0.0.0/8 key hmac-sha256.key", "192.0.2.0/24""#);
    let asks = |more: &[&str]| primary.ask("dig", more);
    let text = asks(&["corp.example", "AXFR"]);
    assert!(text.contains("Transfer failed") && records(&text).is_empty(), "{text}");
    let text = asks(&["+tcp", "corp.example", "IXFR=0"]);
    assert!(records(&text).is_empty(), "{text}");
    for (key, error) in [
        (format!("hmac-sha256:hmac-sha256.key:{OTHER_SECRET}"), "BADSIG"),
        (format!("hmac-sha256:nobody:{SECRET}"), "BADKEY"),
        (format!("hmac-sha512:hmac-sha256.key:{SECRET}"), "BADKEY"),
    ] {
        let text = asks(&["-y", &key, "corp.example", "SOA"]);
        assert!(text.contains("NOTAUTH") && text.contains(error), "{text}");
        assert!(!text.contains("ns.corp.example"), "{text}");
    }
    // A key that verifies, but that the zone does not name.
    let key = format!("hmac-sha1:hmac-sha1.key:{SECRET}");
    assert!(records(&asks(&["-y", &key, "corp.example", "AXFR"])).is_empty());
    let text = asks(&["+notcp", "corp.example", "TYPE252", "+ignore"]);
    assert!(!text.contains("10.0."), "{text}");
    assert!(primary.count("avocet_zone_transfers_out_total", "result=\"refused\"") >= 3.0);
    assert_eq!(primary.count("avocet_tsig_errors_total", "error=\"badsig\""), 1.0);
    assert_eq!(primary.count("avocet_tsig_errors_total", "error=\"badkey\""), 2.0);
    assert_eq!(primary.count("avocet_zone_transfers_out_total", "result=\"sent\""), 0.0);
}

/// Reads one message of a connection.
fn receive(stream: &mut TcpStream) -> Vec<u8> {
    let mut len = [0; 2];
    stream.read_exact(&mut len).unwrap();
    let mut message = vec![0; usize::from(u16::from_be_bytes(len))];
    stream.read_exact(&mut message).unwrap();
    message
}

/// Octets of a long record, and how many there are: more than the buffers of a connection hold.
const LONG: (usize, usize) = (40_000, 150);

/// A zone with long records, whose octets are the serial.
fn long_zone(serial: u8) -> String {
    let (octets, count) = LONG;
    let data = format!("{serial:02x}").repeat(octets);
    let record = |number: usize| format!("h{number} TYPE65400 \\# {octets} {data}\n");
    let records: String = (0..count).map(record).collect();
    format!("$TTL 60\n@ SOA ns host {serial} 2h 3m 4w 60\n@ NS ns\nns A 10.0.0.{serial}\n{records}")
}

#[test]
fn a_reader_that_waits_delays_nobody_and_gets_the_version_that_it_began_with() {
    let primary = Primary::start(r#""127.0.0.0/8""#);
    let site = &primary.site;
    let publish = |serial: u8| {
        fs::write(&primary.file, long_zone(serial)).unwrap();
        site.avocet_text(&["zone", "reload", "corp.example"]);
        assert_eq!(site.ask("ns.corp.example").0, [10, 0, 0, serial]);
    };
    publish(1);
    let mut asked = query(7, "corp.example");
    let at = asked.len() - 4;
    asked[at..at + 2].copy_from_slice(&252_u16.to_be_bytes());
    let framed = [&(asked.len() as u16).to_be_bytes()[..], &asked].concat();
    let begin = || {
        let mut stream = TcpStream::connect(site.dns).unwrap();
        stream.write_all(&framed).unwrap();
        let first = receive(&mut stream);
        (stream, first)
    };
    let mut readers: Vec<_> = (0..8).map(|_| begin()).collect();
    // One more than one client may have.
    assert_eq!(begin().1[3] & 15, 2);
    assert_eq!(primary.count("avocet_zone_transfers_out_total", "result=\"limited\""), 1.0);
    assert_eq!(site.metric("avocet_zone_transfers_out_open"), 8.0);
    publish(2);
    drop(readers.split_off(4));
    for (reader, first) in &mut readers {
        assert_eq!(first[3] & 15, 0);
        let (mut long, mut is_over) = (0, false);
        while !is_over {
            let message = receive(reader);
            let is_long = message.len() > LONG.0;
            assert!(!is_long || message.ends_with(&[1; LONG.0]));
            long += usize::from(is_long);
            let end = [1_u32, 7_200, 180, 2_419_200, 60].map(u32::to_be_bytes).concat();
            is_over = message.ends_with(&end);
        }
        assert_eq!(long, LONG.1);
    }
}

/// A server with `corp.example` of another one.
struct Secondary {
    site: Site,
    _upstream: Upstream,
}

impl Secondary {
    /// Configures one with this primary and this secret.
    fn of(primary: SocketAddr, secret: &str) -> Self {
        let (upstream, site) = (Upstream::start(), Site::new());
        let file = site.directory.join("secret");
        fs::write(&file, secret).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let zone = format!(
            "[[key]]\nname = \"hmac-sha256.key\"\nsecret-file = \"{}\"\n[[zone]]\nname = \
             \"corp.example\"\nprimaries = [\"{primary}\"]\nkey = \"hmac-sha256.key\"\n",
            file.display()
        );
        site.configure(upstream.addr, "", &zone);
        Self { site, _upstream: upstream }
    }

    fn notify(&self, from: &str) -> u8 {
        send_notify(self.site.dns, "corp.example", from)
    }

    fn zone(&self) -> serde_json::Value {
        let text = self.site.avocet_text(&["zone", "list", "--json"]);
        let reply: serde_json::Value = serde_json::from_str(&text).unwrap();
        reply["zones"][0].clone()
    }
}

/// Sends NOTIFY of a zone from an address; returns the RCODE.
pub(crate) fn send_notify(dns: SocketAddr, zone: &str, from: &str) -> u8 {
    let socket = UdpSocket::bind((from, 0)).unwrap();
    let mut message = query(5, zone);
    let at = message.len() - 4;
    message[at..at + 2].copy_from_slice(&6_u16.to_be_bytes());
    (message[2], message[3]) = (4 << 3 | 4, 0);
    socket.send_to(&message, dns).unwrap();
    let mut reply = [0; 512];
    socket.recv(&mut reply).unwrap();
    assert_eq!((reply[1], reply[2] & 0xf8), (5, 0x80 | 4 << 3));
    reply[3] & 15
}

/// Waits until a version is in force.
fn transferred(server: &mut Server, serial: u32) {
    let line = server.wait_for_line("corp.example. transferred");
    assert!(line.contains(&format!("serial={serial}")), "{line}");
}

fn small_zone(serial: u32, expire: &str) -> String {
    format!(
        "$TTL 60\n@ SOA ns host {serial} 1h 5 {expire} 60\n@ NS ns\nns A 10.0.0.{}\n",
        serial & 255
    )
}

#[test]
fn a_zone_follows_its_primary_after_notify_but_not_backwards_and_survives_a_restart() {
    let primary = Primary::start(r#""key hmac-sha256.key""#);
    let publish = |serial: u32| {
        fs::write(&primary.file, small_zone(serial, "4w")).unwrap();
        primary.site.avocet_text(&["zone", "reload", "corp.example"]);
    };
    publish(u32::MAX);
    let secondary = Secondary::of(primary.site.dns, SECRET);
    let site = &secondary.site;
    // There is no file before the first transfer.
    site.avocet_text(&["check"]);
    let mut server = site.start();
    transferred(&mut server, 4294967295);
    assert_eq!(site.ask("ns.corp.example").0, [10, 0, 0, 255]);
    // The serial wraps (RFC 1982).
    publish(3);
    assert_eq!(secondary.notify("127.0.0.1"), 0);
    transferred(&mut server, 3);
    assert_eq!(site.ask("ns.corp.example").0, [10, 0, 0, 3]);
    assert_eq!(secondary.notify("127.0.0.2"), 5);
    publish(2);
    assert_eq!(secondary.notify("127.0.0.1"), 0);
    server.wait_for_line("serial 2 is older than 3");
    assert_eq!(site.ask("ns.corp.example").0, [10, 0, 0, 3]);
    let zone = secondary.zone();
    assert_eq!((&zone["serial"], &zone["transfers"]["transferred"]), (&3.into(), &2.into()));
    assert!(zone["transfers"]["error"].as_str().unwrap().contains("is older"), "{zone}");
    let list = site.avocet_text(&["zone", "list"]);
    // Four weeks, less the time since the transfer.
    let expires = ["27 d 23 h", "28 d 0 h"].map(|time| format!("1 failures, expires in {time}"));
    assert!(list.contains("2 transfers, ") && expires.iter().any(|e| list.contains(e)), "{list}");
    assert_eq!(site.metric("avocet_zone_notifies_total{result=\"heard\"}"), 2.0);
    assert_eq!(site.metric("avocet_zone_notifies_total{result=\"refused\"}"), 1.0);
    assert_eq!(site.metric("avocet_zone_transfers_in_total"), 2.0);
    assert!(site.avocet_text(&["status"]).contains("no primary is usable"));

    drop(primary);
    server.stop();
    let mut server = site.start();
    assert_eq!(site.ask("ns.corp.example").0, [10, 0, 0, 3]);
    server.wait_for_line("Connection refused");
    assert_eq!(site.ask("ns.corp.example").0, [10, 0, 0, 3]);
}

#[test]
fn a_primary_with_another_secret_is_not_followed_and_a_zone_expires() {
    let primary = Primary::start(r#""key hmac-sha256.key""#);
    let secondary = Secondary::of(primary.site.dns, OTHER_SECRET);
    let mut server = secondary.site.start();
    server.wait_for_line("the server refuses the signature of the query: BADSIG");
    assert_eq!(secondary.site.ask_any("ns.corp.example").0 & 15, 2);
    assert!(!secondary.site.data().join("zones/corp.example.zone").exists());
    drop(server);

    fs::write(&primary.file, small_zone(1, "2")).unwrap();
    primary.site.avocet_text(&["zone", "reload", "corp.example"]);
    let secondary = Secondary::of(primary.site.dns, SECRET);
    let mut server = secondary.site.start();
    transferred(&mut server, 1);
    server.wait_for_line("zone corp.example. has expired");
    assert_eq!(secondary.zone()["state"], "failed");
}

/// A primary without signatures that sends the messages of a transfer up to a place, and then ends
/// the connection. Returns the messages that a whole transfer has.
fn cut_transfer(listener: &TcpListener, soa: &[u8], messages: &[Vec<u8>], place: usize) {
    let mut soa = Some(soa);
    // A connection for the SOA record, and one for the transfer.
    for _ in 0..2 {
        let (mut stream, _) = listener.accept().unwrap();
        let asked = receive(&mut stream);
        let answers = match soa.take() {
            Some(soa) => vec![soa.to_vec()],
            None => messages[..place].to_vec(),
        };
        for mut message in answers {
            message[..2].copy_from_slice(&asked[..2]);
            stream.write_all(&(message.len() as u16).to_be_bytes()).unwrap();
            stream.write_all(&message).unwrap();
        }
    }
}

/// A message with these answers of `corp.example`: types and data.
fn answers(records: &[(u8, &[u8])]) -> Vec<u8> {
    let mut message = vec![0, 0, 0x84, 0, 0, 1, 0, records.len() as u8, 0, 0, 0, 0];
    message.extend_from_slice(b"\x04corp\x07example\0\0\xfc\0\x01");
    for (rtype, data) in records {
        message.extend_from_slice(&[0xc0, 12, 0, *rtype, 0, 1, 0, 0, 0, 60, 0, data.len() as u8]);
        message.extend_from_slice(data);
    }
    message
}

#[test]
fn a_transfer_that_is_cut_at_any_message_changes_nothing() {
    let listener = crate::server::tcp_listener();
    let (upstream, site) = (Upstream::start(), Site::new());
    let zone = format!(
        "[[zone]]\nname = \"corp.example\"\nprimaries = [\"{}\"]\n",
        listener.local_addr().unwrap()
    );
    site.configure(upstream.addr, "", &zone);
    let mut server = site.start();
    let secondary = Secondary { site, _upstream: upstream };
    let site = &secondary.site;
    let of = |serial: u32| {
        let numbers = [serial, 3_600, 3_600, 2_419_200, 60].map(u32::to_be_bytes).concat();
        let soa = [&b"\x02ns\xc0\x0c\x01h\xc0\x0c"[..], &numbers].concat();
        let one = |rtype, data: &[u8]| answers(&[(rtype, data)]);
        let parts = [
            one(6, &soa),
            one(2, b"\x03ns1\x05other\0"),
            one(16, &[1, serial as u8]),
            one(16, &[1, 200]),
            one(6, &soa),
        ];
        (one(6, &soa), parts.to_vec())
    };
    let (soa, messages) = of(1);
    cut_transfer(&listener, &soa, &messages, messages.len());
    transferred(&mut server, 1);
    let held = site.avocet_text(&["zone", "export", "corp.example"]);
    let (soa, messages) = of(2);
    for place in 0..messages.len() {
        assert_eq!(secondary.notify("127.0.0.1"), 0);
        cut_transfer(&listener, &soa, &messages, place);
        server.wait_for_line("unexpected end of file");
        assert_eq!(site.avocet_text(&["zone", "export", "corp.example"]), held, "{place}");
    }
    assert_eq!(secondary.notify("127.0.0.1"), 0);
    cut_transfer(&listener, &soa, &messages, messages.len());
    transferred(&mut server, 2);
}

#[test]
fn a_transfer_with_malformed_data_leaves_the_copy_in_force_also_after_a_restart() {
    let listener = crate::server::tcp_listener();
    let (upstream, site) = (Upstream::start(), Site::new());
    let zone = format!(
        "[[zone]]\nname = \"corp.example\"\nprimaries = [\"{}\"]\n",
        listener.local_addr().unwrap()
    );
    site.configure(upstream.addr, "", &zone);
    let mut server = site.start();
    let secondary = Secondary { site, _upstream: upstream };
    let site = &secondary.site;
    answer_connections(&listener, &[vec![one(6, &soa(1))], whole(1)]);
    transferred(&mut server, 1);
    let held = || site.avocet_text(&["zone", "export", "corp.example"]);
    let first = held();
    assert_eq!(secondary.notify("127.0.0.1"), 0);
    let mut malformed = whole(2);
    malformed[2] = one(1, &[192, 0, 2]);
    answer_connections(&listener, &[vec![one(6, &soa(2))], malformed]);
    server.wait_for_line("the data of corp.example. A is malformed");
    assert_eq!(held(), first);
    assert_eq!(site.metric("avocet_zone_transfers_in_total"), 1.0);
    drop(listener);
    server.stop();
    let _server = site.start();
    assert_eq!(held(), first);
}

/// Returns the records of a reply in the order in which dig prints them, without names and TTLs.
fn answers_of(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.contains("\tIN\t") && !line.starts_with(';'));
    let short = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        if words[3] == "SOA" { format!("SOA {}", words[6]) } else { words[3..].join(" ") }
    };
    lines.map(short).collect()
}

#[test]
fn changes_are_sent_over_tcp_and_udp_and_survive_a_kill() {
    if !is_here("dig") {
        return;
    }
    let mut primary = Primary::start(r#""127.0.0.0/8""#);
    let publish = |primary: &Primary, serial: u32, last: u8| {
        let text = zone_text(serial) + &format!("new A 192.0.2.{last}\n");
        fs::write(&primary.file, text).unwrap();
        primary.site.avocet_text(&["zone", "reload", "corp.example"]);
    };
    publish(&primary, 5, 1);
    publish(&primary, 6, 2);
    let ask = |primary: &Primary, more: &[&str]| {
        answers_of(&primary.ask("dig", &[&["corp.example"], more].concat()))
    };
    let last = ["SOA 6", "SOA 5", "A 192.0.2.1", "SOA 6", "A 192.0.2.2", "SOA 6"];
    let both = [&["SOA 6", "SOA 1", "SOA 5", "A 192.0.2.1"][..], &last[1..]].concat();
    let check = |primary: &Primary| {
        for transport in ["+tcp", "+notcp"] {
            assert_eq!(ask(primary, &[transport, "IXFR=5"]), last, "{transport}");
            assert_eq!(ask(primary, &[transport, "IXFR=1"]), both, "{transport}");
            assert_eq!(ask(primary, &[transport, "IXFR=6"]), ["SOA 6"], "{transport}");
            assert_eq!(ask(primary, &[transport, "IXFR=7"]), ["SOA 6"], "{transport}");
        }
        // Before the first version that is kept.
        assert_eq!(ask(primary, &["+tcp", "IXFR=0"]).len(), HOSTS + 5);
        assert_eq!(ask(primary, &["+notcp", "+ignore", "IXFR=0"]), ["SOA 6"]);
    };
    check(&primary);
    primary.kill();
    primary.start_again();
    check(&primary);

    // An incomplete end of the journal is cut off.
    primary.kill();
    let journal = primary.site.data().join("zones/corp.example.zone.journal");
    let octets = fs::read(&journal).unwrap();
    fs::write(&journal, &octets[..octets.len() - 3]).unwrap();
    let seen = primary.start_again().seen().join("\n");
    assert!(seen.contains("is not usable and was cut off"), "{seen}");
    assert_eq!(primary.site.ask("new.corp.example").0, [192, 0, 2, 2]);
    // The end says which version the file has; the changes before it stay.
    assert_eq!(ask(&primary, &["+tcp", "IXFR=5"]), last);
}

/// The data of an SOA record.
fn soa(serial: u32) -> Vec<u8> {
    let numbers = [serial, 3_600, 3_600, 2_419_200, 60].map(u32::to_be_bytes).concat();
    [&b"\x02ns\xc0\x0c\x01h\xc0\x0c"[..], &numbers].concat()
}

/// A message with one answer.
fn one(rtype: u8, data: &[u8]) -> Vec<u8> {
    answers(&[(rtype, data)])
}

/// The messages of a whole zone.
fn whole(serial: u32) -> Vec<Vec<u8>> {
    let (soa, ns) = (one(6, &soa(serial)), one(2, b"\x03ns1\x05other\0"));
    vec![soa.clone(), ns, one(16, &[1, serial as u8]), soa]
}

/// The messages of a change.
fn changes(from: u32, to: u32) -> Vec<Vec<u8>> {
    let text = |serial: u32| one(16, &[1, serial as u8]);
    let last = one(6, &soa(to));
    vec![last.clone(), one(6, &soa(from)), text(from), last.clone(), text(to), last]
}

/// Answers connections in their order: each with these messages.
fn answer_connections(listener: &TcpListener, replies: &[Vec<Vec<u8>>]) {
    for messages in replies {
        let (mut stream, _) = listener.accept().unwrap();
        let asked = receive(&mut stream);
        for message in messages {
            let mut message = message.clone();
            message[..2].copy_from_slice(&asked[..2]);
            stream.write_all(&(message.len() as u16).to_be_bytes()).unwrap();
            stream.write_all(&message).unwrap();
        }
    }
}

#[test]
fn received_changes_that_do_not_fit_or_are_cut_change_nothing_before_a_whole_transfer() {
    let listener = crate::server::tcp_listener();
    let (upstream, site) = (Upstream::start(), Site::new());
    let zone = format!(
        "[[zone]]\nname = \"corp.example\"\nprimaries = [\"{}\"]\n",
        listener.local_addr().unwrap()
    );
    site.configure(upstream.addr, "", &zone);
    let mut server = site.start();
    let secondary = Secondary { site, _upstream: upstream };
    let site = &secondary.site;
    let serve = |replies: &[Vec<Vec<u8>>]| answer_connections(&listener, replies);
    serve(&[vec![one(6, &soa(65))], whole(65)]);
    transferred(&mut server, 65);
    let held = || site.avocet_text(&["zone", "export", "corp.example"]);
    let first = held();
    for place in 0..6 {
        assert_eq!(secondary.notify("127.0.0.1"), 0);
        // The whole zone, which is requested next, is cut, too.
        serve(&[vec![one(6, &soa(66))], changes(65, 66)[..place].to_vec(), Vec::new()]);
        server.wait_for_line("unexpected end of file");
        assert_eq!(held(), first, "{place}");
    }
    assert_eq!(secondary.notify("127.0.0.1"), 0);
    serve(&[vec![one(6, &soa(66))], changes(65, 66)]);
    transferred(&mut server, 66);
    assert!(held().contains("TXT \"B\"") && !held().contains("TXT \"A\""), "{}", held());
    // Changes of a version that is not in force, then the whole zone.
    let mut other = changes(66, 67);
    other[2] = one(16, &[1, 80]);
    assert_eq!(secondary.notify("127.0.0.1"), 0);
    serve(&[vec![one(6, &soa(67))], other, whole(67)]);
    server.wait_for_line("the difference is not one from the version in force");
    transferred(&mut server, 67);
    // Changes with an address of three octets, then the whole zone.
    let mut malformed = changes(67, 68);
    malformed[4] = one(1, &[192, 0, 2]);
    assert_eq!(secondary.notify("127.0.0.1"), 0);
    serve(&[vec![one(6, &soa(68))], malformed, whole(68)]);
    server.wait_for_line("the data of a record of type A is malformed");
    transferred(&mut server, 68);
    // A primary that ends each IXFR too early.
    assert_eq!(secondary.notify("127.0.0.1"), 0);
    serve(&[vec![one(6, &soa(69))], changes(68, 69)[..3].to_vec(), whole(69)]);
    transferred(&mut server, 69);
    // A primary that does not know IXFR.
    let mut refusal = one(6, &soa(70));
    refusal.truncate(12);
    (refusal[3], refusal[5], refusal[7]) = (4, 0, 0);
    assert_eq!(secondary.notify("127.0.0.1"), 0);
    serve(&[vec![one(6, &soa(70))], vec![refusal], whole(70)]);
    transferred(&mut server, 70);
    assert_eq!(site.metric("avocet_zone_changes_in_total"), 1.0);
    assert_eq!(site.metric("avocet_zone_transfers_in_total"), 6.0);
}

/// Takes NOTIFY at a socket, and replies. Returns the serial.
fn take_notify(socket: &UdpSocket, rcode: Option<u8>) -> u32 {
    let mut message = [0; 1_024];
    let (len, from) = socket.recv_from(&mut message).unwrap();
    assert_eq!((message[2] & 0xf8, message[5], message[7]), (4 << 3, 1, 1));
    if let Some(rcode) = rcode {
        let mut reply = message[..len].to_vec();
        (reply[2], reply[3]) = (reply[2] | 0x80, rcode);
        socket.send_to(&reply, from).unwrap();
    }
    u32::from_be_bytes(*message[..len - 16].last_chunk().unwrap())
}

#[test]
fn notify_is_repeated_until_it_is_acknowledged() {
    let other = crate::server::udp_socket();
    let (upstream, site) = (Upstream::start(), Site::new());
    let file = site.directory.join("corp.zone");
    fs::write(&file, small_zone(1, "4w")).unwrap();
    let zone = format!(
        "[[zone]]\nname = \"corp.example\"\nfile = \"{}\"\nnotify = [\"{}\"]\n",
        file.display(),
        other.local_addr().unwrap()
    );
    site.configure(upstream.addr, "", &zone);
    let mut server = site.start();
    assert_eq!(take_notify(&other, None), 1);
    assert_eq!(take_notify(&other, Some(5)), 1);
    let secondary = Secondary { site, _upstream: upstream };
    assert_eq!(take_notify(&other, Some(0)), 1);
    server.wait_for_line("NOTIFY acknowledged");
    fs::write(&file, small_zone(2, "4w")).unwrap();
    secondary.site.avocet_text(&["zone", "reload", "corp.example"]);
    // On a busy machine, the first version may be announced once more.
    while take_notify(&other, Some(0)) == 1 {}
    while !server.wait_for_line("NOTIFY acknowledged").contains("serial=2") {}
    let zone = secondary.zone();
    let notify = &zone["notify"][0];
    assert_eq!((&notify["serial"], &notify["acknowledged"]), (&2.into(), &true.into()), "{zone}");
    let sample = |result: &str| format!("avocet_zone_notifies_out_total{{result=\"{result}\"}}");
    assert!(secondary.site.metric(&sample("acknowledged")) >= 2.0);
    assert!(secondary.site.metric(&sample("sent")) >= 4.0);
}
