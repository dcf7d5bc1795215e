//! Upstreams that designate encrypted servers (RFC 9462), as clients and the operator see them.

use std::fs::{self, Permissions};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use avocet_wire::rdata::parse;

use crate::server::{PATIENCE, Server, Site, ask, free_address};

/// The address in answers over plain DNS.
const PLAIN: [u8; 4] = [192, 0, 2, 77];
/// The address in answers of the encrypted server.
const ENCRYPTED: [u8; 4] = [192, 0, 2, 78];
/// Certificates for 127.0.0.1; servers use the first.
const CERTIFICATES: [(&str, &str); 3] = [
    ("one.pem", include_str!("certificates/one.pem")),
    ("one.key", include_str!("certificates/one.key")),
    ("two.pem", include_str!("certificates/two.pem")),
];
/// A name and the data of its SVCB records.
type Records = Vec<(String, Vec<Vec<u8>>)>;

/// A resolver without encryption that designates what a test wants.
struct Designating {
    addr: SocketAddr,
    records: Arc<Mutex<Records>>,
    /// Names of queries of other types.
    asked: Receiver<String>,
}

impl Designating {
    fn start() -> Self {
        let socket = crate::server::udp_socket();
        let addr = socket.local_addr().unwrap();
        let (sender, asked) = channel();
        let records = Arc::new(Mutex::new(Records::new()));
        let shared = records.clone();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                let query = &buffer[..len];
                let end = 12 + query[12..].iter().position(|octet| *octet == 0).unwrap() + 5;
                let name = shown(&query[12..end - 4]);
                let is_svcb = query[end - 4..end - 2] == [0, 64];
                let data = match is_svcb {
                    true => records_of(&shared.lock().unwrap(), &name),
                    false => vec![PLAIN.to_vec()],
                };
                if !is_svcb {
                    // The test may be over.
                    let _ = sender.send(name);
                }
                let mut reply = query[..end].to_vec();
                reply[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0]);
                reply[7] = data.len() as u8;
                for data in data {
                    let rtype = if is_svcb { 64 } else { 1 };
                    reply.extend([0xc0, 12, 0, rtype, 0, 1, 0, 0, 1, 44]);
                    reply.extend((data.len() as u16).to_be_bytes());
                    reply.extend(data);
                }
                socket.send_to(&reply, from).unwrap();
            }
        });
        Self { addr, records, asked }
    }

    /// Replaces the records, given as "OWNER DATA".
    fn designate(&self, records: &[String]) {
        let mut all = Records::new();
        for record in records {
            let (owner, data) = record.split_once(' ').unwrap();
            let mut octets = Vec::new();
            parse(64, data, &[0], &mut octets).unwrap();
            match all.iter_mut().find(|(other, _)| other == owner) {
                Some((_, data)) => data.push(octets),
                None => all.push((owner.to_owned(), vec![octets])),
            }
        }
        *self.records.lock().unwrap() = all;
    }
}

fn records_of(records: &Records, name: &str) -> Vec<Vec<u8>> {
    let of_name = records.iter().filter(|(owner, _)| owner == name);
    of_name.flat_map(|(_, data)| data.clone()).collect()
}

fn shown(wire: &[u8]) -> String {
    let labels = avocet_wire::name::labels(wire);
    labels.map(|label| String::from_utf8_lossy(label).to_lowercase() + ".").collect()
}

/// An encrypted server, a resolver that may designate it, and a server that queries the resolver
/// for designations.
struct Discovering {
    site: Site,
    plain: Designating,
    other: Site,
    tls: SocketAddr,
    https: SocketAddr,
}

impl Discovering {
    fn new() -> Self {
        let (site, other) = (Site::new(), Site::new());
        for directory in [&site.directory, &other.directory] {
            for (name, text) in CERTIFICATES {
                let path = directory.join(name);
                fs::write(&path, text).unwrap();
                fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            }
        }
        let (tls, https) = (free_address(), free_address());
        Self { site, plain: Designating::start(), other, tls, https }
    }

    /// Starts the encrypted server.
    fn serve(&self) -> Server {
        self.configure_other("");
        self.other.start()
    }

    /// Writes the configuration of the encrypted server.
    fn configure_other(&self, keys: &str) {
        let Self { other, tls, https, .. } = self;
        other.write(&format!(
            "[server]\nlisten = [\"{}\", \"tls://{tls}\", \"quic://{tls}\", \"https://{https}\"]\n\
             http = \"{}\"\n{keys}\n[[certificate]]\nnames = [\"dns.example\"]\ncert = \"one.pem\"\nkey = \"one.key\"\n\
             [[record]]\nname = \"*.example\"\ntype = \"A\"\nvalues = [\"192.0.2.78\"]\n\
             [data]\ndirectory = \"{}\"\n",
            other.dns,
            other.http,
            other.data().display()
        ));
    }

    /// Writes a configuration that forwards to an upstream with these keys.
    fn configure(&self, upstream: SocketAddr, keys: &str) {
        self.site.write(&format!(
            "[server]\nlisten = [\"{}\"]\nhttp = \"{}\"\nworkers = 1\n[data]\ndirectory = \"{}\"\n\
             [query-log]\nenabled = true\n[[forward]]\nzone = \".\"\n\
             upstreams = [\"{upstream}\"]\n{keys}\n",
            self.site.dns,
            self.site.http,
            self.site.data().display()
        ));
    }

    /// Lets the server look again, and waits until `avocet status` has these words of the result.
    fn look_again(&self, words: &str) {
        let (before, began) = (self.attempts(), Instant::now());
        self.site.avocet_text(&["reload"]);
        while self.attempts() == before {
            assert!(began.elapsed() < PATIENCE, "no attempt");
        }
        self.see(words);
    }

    /// Returns the number of attempts with a result.
    fn attempts(&self) -> u64 {
        let metrics = self.site.http_get("/metrics").1;
        let samples =
            metrics.lines().filter(|line| line.starts_with("avocet_upstream_discoveries_total{"));
        samples.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Waits until `avocet status` has these words about the upstream.
    fn see(&self, words: &str) -> String {
        let began = Instant::now();
        loop {
            let status = self.site.avocet_text(&["status"]);
            if status.contains(words) {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "no {words:?} in {status}");
        }
    }

    fn dot(&self) -> String {
        format!("_dns.resolver.arpa. 1 dns.example. alpn=dot {}", self.at(self.tls))
    }

    fn at(&self, addr: SocketAddr) -> String {
        format!("port={} ipv4hint={}", addr.port(), addr.ip())
    }
}

const AUTO: &str = "discover = \"auto\"\nca = \"one.pem\"";

#[test]
fn queries_go_to_the_designated_server_once_it_has_proved_the_address() {
    let here = Discovering::new();
    let other = here.serve();
    // Our own server designates its listeners in the same way as others.
    here.configure(here.other.dns, AUTO);
    let server = here.site.start();
    let designated = format!("tls://{}", here.tls);
    here.see(&format!("discovery by {}: queries go to {designated} (verified)", here.other.dns));
    assert_eq!(ask(here.site.dns, 1, "a.example").0, ENCRYPTED);
    let upstream = here.other.dns;
    let label = format!("{{upstream=\"{upstream}\"}}");
    assert_eq!(here.site.metric(&format!("avocet_upstream_designated{label}")) as u8, 1);
    let found = here.site.metric("avocet_upstream_discoveries_total{result=\"found\"}");
    assert!(found >= 1.0);
    // The log knows an upstream once workers have published their reports.
    let mut looks = (0..10_000).map(|host: u16| {
        ask(here.site.dns, host, &format!("h{host}.example"));
        here.site.avocet_text(&["log", "search"])
    });
    assert!(looks.any(|log| log.contains(&designated)), "the log shows what was used");
    let (_, status) = here.site.http_get("/health");
    assert!(!status.contains("discovery"), "{status}");
    other.stop();
    server.stop();

    // After a restart, it is found again.
    let other = here.serve();
    let server = here.site.start();
    here.see(&format!("queries go to {designated} (verified)"));
    other.stop();
    server.stop();
}

#[test]
fn upstreams_that_do_not_answer_do_not_delay_the_discovery_of_others() {
    let here = Discovering::new();
    let _other = here.serve();
    here.plain.designate(&[here.dot()]);
    let silent: Vec<_> = (0..8).map(|_| crate::server::udp_socket()).collect();
    let rules = silent.iter().enumerate().map(|(number, socket)| {
        let addr = socket.local_addr().unwrap();
        format!("[[forward]]\nzone = \"z{number}\"\nupstreams = [\"{addr}\"]\n{AUTO}\n")
    });
    here.configure(here.plain.addr, &format!("{AUTO}\n{}", rules.collect::<String>()));
    let _server = here.site.start();
    here.see(&format!("queries go to tls://{} (verified)", here.tls));
    assert_eq!(here.attempts(), 1, "the others still wait for an answer");
}

#[test]
fn each_protocol_is_found_and_aliases_are_followed() {
    let here = Discovering::new();
    let other = here.serve();
    here.configure(here.plain.addr, AUTO);
    let server = here.site.start();
    here.see("queries in plain DNS, it designates no encrypted server");
    assert_eq!(ask(here.site.dns, 1, "plain.example").0, PLAIN);
    let (tls, https) = (here.tls, here.https);
    let path = "dohpath=/dns-query{?dns}";
    let service = |rest: &str| format!("_dns.resolver.arpa. 1 dns.example. {rest}");
    for (number, (records, found)) in [
        (vec![here.dot()], format!("tls://{tls}")),
        (vec![service(&format!("alpn=doq {}", here.at(tls)))], format!("quic://{tls}")),
        (
            vec![service(&format!("alpn=h2,h3 {} {path}", here.at(https)))],
            format!("https://{https}/dns-query"),
        ),
        (
            vec![service(&format!("alpn=h3 {} {path}", here.at(https)))],
            format!("h3://{https}/dns-query"),
        ),
        (
            vec![
                "_dns.resolver.arpa. 0 _dns.dns.example.".to_owned(),
                here.dot().replace("_dns.resolver.arpa.", "_dns.dns.example."),
            ],
            format!("tls://{tls}"),
        ),
        (
            vec![
                "_dns.resolver.arpa. 1 a.example. mandatory=key999 alpn=dot key999=x".to_owned(),
                here.dot().replace(" 1 ", " 9 "),
            ],
            format!("tls://{tls}"),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        here.plain.designate(&records);
        here.look_again(&format!("queries go to {found} (verified)"));
        assert_eq!(ask(here.site.dns, 1, &format!("n{number}.example")).0, ENCRYPTED, "{found}");
    }
    // Plain answers of an attacker change nothing while the server designates itself.
    let elsewhere = service(&format!("alpn=dot port={} ipv4hint=127.0.0.2", tls.port()));
    for (number, forged) in [vec![], vec![elsewhere], vec![service("alpn=x")]].iter().enumerate() {
        here.plain.designate(forged);
        here.look_again(&format!("queries go to tls://{tls} (verified)"));
        assert_eq!(ask(here.site.dns, 1, &format!("f{number}.example")).0, ENCRYPTED);
    }
    // Both servers stop their announcements.
    here.plain.designate(&[]);
    here.configure_other("announce = false");
    here.other.avocet_text(&["reload"]);
    here.look_again("queries in plain DNS, it designates no encrypted server");
    assert_eq!(ask(here.site.dns, 1, "later.example").0, PLAIN);
    server.stop();
    other.stop();
}

#[test]
fn what_is_not_proven_gets_no_query_and_the_operator_learns_why() {
    let here = Discovering::new();
    let other = here.serve();
    let two = AUTO.replace("one", "two");
    here.configure(here.plain.addr, &two);
    here.plain.designate(&[here.dot()]);
    let mut server = here.site.start();
    let unproven = format!("queries in plain DNS, it designates tls://{}: ", here.tls);
    let status = here.see(&unproven);
    assert!(status.contains("is queried in plain DNS"), "{status}");
    server.wait_for_line("is queried in plain DNS");
    assert_eq!(ask(here.site.dns, 1, "a.example").0, PLAIN);
    let own = "_dns.resolver.arpa. 1 dns.example. alpn=dot";
    let designates = |rest: &str| vec![format!("_dns.resolver.arpa. 1 dns.example. {rest}")];
    let elsewhere = format!("alpn=dot port={} ipv4hint=127.0.0.2", here.tls.port());
    for (records, words) in [
        (designates("alpn=http/1.1"), "it designates no server that can be used"),
        (designates("mandatory=key999 alpn=dot key999=x"), "no server that can be used"),
        (designates("alpn=h2 dohpath=/q{?dns,x}"), "no server that can be used"),
        (vec!["_dns.resolver.arpa. 0 .".to_owned()], "no server that can be used"),
        (vec!["_dns.resolver.arpa. 0 _dns.resolver.arpa.".to_owned()], "no server that can be"),
        (vec![format!("{own} {}", here.at(here.site.dns))], "it designates this server itself"),
        (designates(&elsewhere), "it designates tls://127.0.0.2"),
    ] {
        here.plain.designate(&records);
        here.look_again(words);
    }
    // Malformed records of a hostile server.
    *here.plain.records.lock().unwrap() =
        vec![("_dns.resolver.arpa.".to_owned(), vec![vec![0xff; 40], vec![], vec![0, 1]])];
    here.look_again("it designates no server that can be used");

    // The same private address needs no certificate; another one does.
    here.plain.designate(&[here.dot()]);
    here.configure(here.plain.addr, "discover = \"auto\"");
    here.look_again(&format!("queries go to tls://{} (same address)", here.tls));
    assert_eq!(ask(here.site.dns, 1, "b.example").0, ENCRYPTED);
    here.plain.designate(&designates(&elsewhere));
    here.look_again("it designates tls://127.0.0.2");
    assert_eq!(ask(here.site.dns, 1, "c.example").0, PLAIN);
    server.stop();
    other.stop();
}

#[test]
fn with_strict_discovery_nothing_is_sent_in_plain_dns() {
    let here = Discovering::new();
    here.configure(here.plain.addr, "discover = \"strict\"\nca = \"one.pem\"");
    let server = here.site.start();
    here.see(&format!("the upstream {} gets no queries", here.plain.addr));
    assert_eq!(here.site.ask_any("a.example").0 & 15, 2, "SERVFAIL");
    let other = here.serve();
    here.plain.designate(&[here.dot()]);
    here.look_again(&format!("queries go to tls://{} (verified)", here.tls));
    assert_eq!(ask(here.site.dns, 1, "a.example").0, ENCRYPTED);
    // The authorities that a reload reads from the file also apply to the server that was found.
    let authorities = here.site.directory.join("one.pem");
    fs::write(&authorities, CERTIFICATES[2].1).unwrap();
    here.look_again("may no longer designate");
    other.stop();
    let other = here.serve();
    assert_eq!(here.site.ask_any("other.example").0 & 15, 2, "SERVFAIL");
    fs::write(&authorities, CERTIFICATES[0].1).unwrap();
    here.look_again(&format!("queries go to tls://{} (verified)", here.tls));
    // An attacker may suppress the announcement, so the server that has proved its identity stays
    // in use.
    here.plain.designate(&[]);
    other.stop();
    assert_eq!(here.site.ask_any("b.example").0 & 15, 2, "SERVFAIL");
    assert_eq!(here.plain.asked.try_iter().count(), 0);
    server.stop();
}

#[test]
fn the_upstream_itself_answers_while_the_designated_server_does_not() {
    let here = Discovering::new();
    let other = here.serve();
    here.plain.designate(&[here.dot()]);
    here.configure(here.plain.addr, AUTO);
    let server = here.site.start();
    here.see(&format!("queries go to tls://{} (verified)", here.tls));
    for host in 0..20 {
        assert_eq!(ask(here.site.dns, host, &format!("h{host}.example")).0, ENCRYPTED);
    }
    assert_eq!(here.plain.asked.try_iter().count(), 0, "it is only a reserve");
    other.stop();
    for host in 0..20 {
        assert_eq!(ask(here.site.dns, host, &format!("x{host}.example")).0, PLAIN);
    }
    let other = here.serve();
    let began = Instant::now();
    let mut host = 0;
    while ask(here.site.dns, host, &format!("y{host}.example")).0 != ENCRYPTED {
        assert!(began.elapsed() < PATIENCE, "the designated server is back");
        host += 1;
    }
    other.stop();
    server.stop();
}
