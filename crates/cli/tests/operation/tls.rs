//! DNS over TLS as clients and the operator see it.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::server::{
    PATIENCE, Server, Site, ask_over_tcp, free_address, is_here, query as query_message,
};
use crate::upstream::{ADDRESS, Upstream};

/// Certificates for 127.0.0.1 and their keys, for these tests only.
const ONE: [&str; 2] = [include_str!("certificates/one.pem"), include_str!("certificates/one.key")];
const TWO: [&str; 2] = [include_str!("certificates/two.pem"), include_str!("certificates/two.key")];

fn install(site: &Site, stem: &str, [certificate, key]: [&str; 2]) {
    for (extension, text) in [("key", key), ("pem", certificate)] {
        let path = site.directory.join(format!("{stem}.{extension}"));
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }
}

fn certificate(stem: &str, names: &str) -> String {
    format!("[[certificate]]\nnames = [{names}]\ncert = \"{stem}.pem\"\nkey = \"{stem}.key\"\n")
}

/// Writes a configuration with a certificate, whose files are there, and a listener `dot`.
fn configure(site: &Site, upstream: &Upstream, tls: SocketAddr, rest: &str) {
    let listener = format!("[[listener]]\nname = \"dot\"\nlisten = [\"tls://{tls}\"]\n");
    let rest = [&certificate("one", "\"dns.example\""), &listener, rest].concat();
    site.configure(upstream.addr, "workers = 2", &rest);
}

/// Runs `avocet query` over TLS; returns its output, or the error.
fn query(site: &Site, server: &str, words: &[&str]) -> Result<String, String> {
    let server = format!("@tls://{server}");
    let output = site.avocet(&[&["query", &server], words].concat());
    let text = |octets: Vec<u8>| String::from_utf8(octets).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

fn address(site: &Site, tls: SocketAddr, name: &str) -> String {
    query(site, &tls.to_string(), &[name, "+insecure", "+short"]).unwrap()
}

#[test]
fn clients_get_padded_answers_that_metrics_log_and_rules_know() {
    if !is_here("kdig") {
        return;
    }
    let (site, upstream, tls) = (Site::new(), Upstream::start(), free_address());
    install(&site, "one", ONE);
    let rule = "[[rule]]\nname = \"safe\"\nwhen = '''client.transport == \"tls\" && \
                qname.under(\"secret.example\")'''\naction = \"block\"\n[query-log]\nenabled = true\n";
    configure(&site, &upstream, tls, rule);
    let server = site.start();
    let ca = format!("+ca={}", site.directory.join("one.pem").display());
    let reply = query(&site, &tls.to_string(), &["www.example", &ca, "+json"]).unwrap();
    let reply: serde_json::Value = serde_json::from_str(&reply).unwrap();
    assert_eq!((&reply["transport"], &reply["size"]), (&"tls".into(), &468.into()), "{reply}");
    assert_eq!(address(&site, tls, "www.example"), "192.0.2.77\n");
    assert_eq!(address(&site, tls, "a.secret.example"), "0.0.0.0\n");
    assert_eq!(ask_over_tcp(site.dns, "a.secret.example").0, ADDRESS);

    let kdig = Command::new("kdig")
        .args(["+tls", "+noall", "+answer", "+stats", "+padding", "+keepopen"])
        .args([&format!("@{}", tls.ip()), "-p", &tls.port().to_string()])
        .args(["www.example", "kdig.example"])
        .output()
        .unwrap();
    let text = String::from_utf8(kdig.stdout).unwrap();
    assert!(text.contains("www.example.") && text.contains("kdig.example."), "{text}");
    assert_eq!(text.matches("Received 468 B").count(), 2, "{text}");

    assert_eq!(site.metric("avocet_queries_total{transport=\"tls\"}"), 5.0);
    assert_eq!(site.metric("avocet_queries_total{transport=\"tcp\"}"), 1.0);
    // An entry may still be on its way to the file.
    let logged = std::iter::repeat_with(|| {
        thread::yield_now();
        site.avocet_text(&["log", "search", "--name", "kdig.example", "--json"])
    });
    let logged = logged.take(1_000).find(|text| text.contains("kdig.example")).unwrap();
    assert!(
        logged.contains("\"transport\":\"tls\"") || logged.contains("\"transport\": \"tls\""),
        "{logged}"
    );
    for (words, expected) in [
        (&["--transport", "tls"][..], "0.0.0.0"),
        (&["--listener", "dot"], "0.0.0.0"),
        (&["--transport", "tcp"], "192.0.2.77"),
        (&[], "192.0.2.77"),
    ] {
        let text = site.avocet_text(&[&["why", "a.secret.example"], words].concat());
        assert!(text.contains(&format!(" IN A {expected}\n")), "{words:?}: {text}");
    }
    let status = site.avocet_text(&["status"]);
    assert!(status.contains(&format!("tls://{tls}")), "{status}");
    let counts = "queries by transport: udp 0, tcp 1, tls 5, https 0, quic 0";
    assert!(status.contains(counts), "{status}");
    server.stop();
}

#[test]
fn a_server_is_known_by_its_authority_or_its_key() {
    let (site, upstream, tls) = (Site::new(), Upstream::start(), free_address());
    install(&site, "one", ONE);
    install(&site, "two", TWO);
    configure(&site, &upstream, tls, &certificate("two", "\"*.wild.example\""));
    let _server = site.start();
    let ca = |stem: &str| format!("+ca={}", site.directory.join(format!("{stem}.pem")).display());
    let ask = |server: &str, option: &str| query(&site, server, &["www.example", "+short", option]);
    let at = tls.to_string();
    assert_eq!(ask(&at, &ca("one")).unwrap(), "192.0.2.77\n");
    let refused = ask(&at, &ca("two")).unwrap_err();
    assert!(refused.contains("UnknownIssuer; see +ca, +pin and +insecure"), "{refused}");
    let named = format!("x.wild.example@{at}");
    let refused = ask(&named, &ca("two")).unwrap_err();
    assert!(refused.contains("not valid for name \"x.wild.example\""), "{refused}");
    // SHA-256 of the public key of the first certificate, by `openssl pkey -pubin -outform DER`.
    let wrong = ask(&at, "+pin=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").unwrap_err();
    assert!(wrong.contains("+pin"), "{wrong}");
    let text = ask(&at, "+pin=short").unwrap_err();
    assert!(text.contains("expected SHA-256"), "{text}");
    let text =
        String::from_utf8(site.avocet(&["query", "www.example", "+insecure"]).stderr).unwrap();
    assert!(text.contains("+insecure has a meaning only with @tls://SERVER"), "{text}");
}

#[test]
fn certificates_are_read_again_and_a_bad_file_changes_nothing() {
    let (site, upstream, tls) = (Site::new(), Upstream::start(), free_address());
    install(&site, "one", ONE);
    configure(&site, &upstream, tls, "");
    let mut server = site.start();
    install(&site, "other", TWO);
    let ca = |stem: &str| format!("+ca={}", site.directory.join(format!("{stem}.pem")).display());
    let is_of = |ca: &str| query(&site, &tls.to_string(), &["www.example", ca]).is_ok();
    fs::copy(site.directory.join("one.pem"), site.directory.join("first.pem")).unwrap();
    assert!(is_of(&ca("first")));

    fs::write(site.directory.join("one.key"), "broken").unwrap();
    server.wait_for_line("; the certificates before stay in use");
    assert!(is_of(&ca("first")));
    let condition = || site.metric("avocet_condition{condition=\"certificate\"}");
    assert_eq!(condition(), 1.0);
    let text = site.avocet_text(&["status"]);
    assert!(text.contains("one.key: no private key"), "{text}");
    assert!(text.contains("; the certificates before stay in use"), "{text}");

    install(&site, "one", TWO);
    server.wait_for_line("condition resolved");
    assert_eq!(condition(), 0.0);
    assert!(is_of(&ca("other")) && !is_of(&ca("first")));

    // A configuration with a certificate that cannot be used does not come into force.
    configure(&site, &upstream, tls, &certificate("missing", ""));
    server.wait_for_line("missing.pem cannot be read");
    assert!(is_of(&ca("other")));
    let check = site.avocet(&["check"]);
    let message = String::from_utf8(check.stderr).unwrap();
    assert!(!check.status.success() && message.contains("missing.pem cannot be read"), "{message}");

    install(&site, "missing", [ONE[0], TWO[1]]);
    let check = site.avocet(&["check"]);
    let message = String::from_utf8(check.stderr).unwrap();
    assert!(message.contains("the private key is that of another certificate"), "{message}");

    install(&site, "missing", ONE);
    fs::set_permissions(site.directory.join("missing.key"), Permissions::from_mode(0o644)).unwrap();
    let check = site.avocet(&["check"]);
    let message = String::from_utf8(check.stderr).unwrap();
    assert!(check.status.success() && message.contains("can be read by every user"), "{message}");
}

#[test]
fn status_metrics_and_health_say_when_certificates_expire() {
    const EXPIRED: [&str; 2] =
        [include_str!("certificates/expired.pem"), include_str!("certificates/expired.key")];
    const END: u64 = 3_955_436_778;
    let (site, upstream, tls) = (Site::new(), Upstream::start(), free_address());
    install(&site, "one", ONE);
    install(&site, "old", EXPIRED);
    configure(&site, &upstream, tls, &certificate("old", "\"old.example\""));
    let mut server = site.start();
    server.wait_for_line("old.pem has expired: replace the file");
    let file = |name: &str| site.directory.join(name).display().to_string();
    let status = site.avocet_text(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let expected = serde_json::json!([
        {
            "purpose": "dns", "names": ["dns.example"], "file": file("one.pem"),
            "key-file": file("one.key"), "not-before": 1_795_436_778_u64, "not-after": END,
            "addresses": [format!("tls://{tls}")],
        },
        {
            "purpose": "dns", "names": ["old.example"], "file": file("old.pem"),
            "key-file": file("old.key"), "not-before": 1_577_836_800, "not-after": 1_609_459_200,
            "addresses": [format!("tls://{tls}")],
        },
    ]);
    assert_eq!(status["certificates"], expected);
    let text = site.avocet_text(&["status"]);
    assert!(text.contains("certificate old.example (dns): has expired, at tls://"), "{text}");
    assert!(text.contains("warning: the certificate in "), "{text}");
    let family = "avocet_certificate_expires_timestamp_seconds";
    let end = site.metric(&format!("{family}{{purpose=\"dns\",file=\"{}\"}}", file("one.pem")));
    assert_eq!(end, END as f64);
    assert_eq!(site.metric("avocet_condition{condition=\"certificate-expiry\"}"), 1.0);

    // The status shows the certificate in use, and why the new files are not.
    fs::write(site.directory.join("one.key"), "broken").unwrap();
    server.wait_for_line("the certificates before stay in use");
    let text = site.avocet_text(&["status"]);
    assert!(text.contains("\n  ") && text.contains("one.key: no private key"), "{text}");
    install(&site, "one", ONE);
    install(&site, "old", TWO);
    // The conditions of the files and of the expiry.
    for _ in 0..2 {
        server.wait_for_line("condition resolved");
    }
    let text = site.avocet_text(&["status"]);
    assert!(!text.contains("expired") && !text.contains("no private key"), "{text}");
}

#[test]
fn access_lists_and_a_take_over_know_listeners_with_tls() {
    let (site, upstream, tls) = (Site::new(), Upstream::start(), free_address());
    install(&site, "one", ONE);
    let closed = free_address();
    let rest = format!("[[listener]]\nname = \"no\"\nlisten = [\"tls://{closed}\"]\nallow = []\n");
    configure(&site, &upstream, tls, &rest);
    let server = site.start();
    assert_eq!(address(&site, tls, "www.example"), "192.0.2.77\n");
    assert!(query(&site, &closed.to_string(), &["www.example", "+insecure"]).is_err());
    assert_eq!(site.metric("avocet_tcp_refused_total"), 1.0);

    let mut command = site.serve();
    command.arg("--take-over");
    let successor = Server::start(command);
    let log = server.wait().1;
    assert!(!log.iter().any(|line| line.contains("panicked")), "{log:?}");
    assert_eq!(address(&site, tls, "www.example"), "192.0.2.77\n");
    assert_eq!(ask_over_tcp(site.dns, "www.example").0, ADDRESS);
    successor.stop();
}

#[test]
fn handshakes_are_bounded_in_time_and_number() {
    let (site, upstream, tls) = (Site::new(), Upstream::start(), free_address());
    install(&site, "one", ONE);
    configure(&site, &upstream, tls, "");
    site.write(&fs::read_to_string(site.file()).unwrap().replace(
        "workers = 2",
        "workers = 1\ntcp-connections-per-client = 8\ntcp-idle-ms = 60000",
    ));
    let server = site.start();
    // Half of the connections of a client may be without a complete handshake: older ones end.
    let connect = || {
        let stream = TcpStream::connect(tls).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    };
    let mut silent: Vec<_> = (0..7).map(|_| connect()).collect();
    for stream in &mut silent[..3] {
        assert_eq!(stream.read(&mut [0; 64]).unwrap(), 0);
    }
    assert_eq!(address(&site, tls, "www.example"), "192.0.2.77\n");
    // A client that sends one octet at a time is cut off as well.
    let mut slow = silent.pop().unwrap();
    let mut writer = slow.try_clone().unwrap();
    let trickle = thread::spawn(move || {
        for octet in [22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3] {
            if writer.write_all(&[octet]).is_err() {
                break;
            }
        }
    });
    assert_eq!(slow.read(&mut [0; 64]).unwrap_or(0), 0);
    trickle.join().unwrap();
    for mut stream in silent.drain(3..) {
        assert_eq!(stream.read(&mut [0; 64]).unwrap_or(0), 0);
    }
    assert!(site.metric("avocet_tls_handshakes_total{result=\"failed\"}") >= 7.0);
    server.stop();
}

#[test]
fn a_client_that_never_reads_takes_no_memory_and_is_cut_off() {
    const QUERIES: usize = 1_500_000;
    const MOST_GROWTH: u64 = 48 << 20;
    let (site, upstream, tls) = (Site::new(), Upstream::start(), free_address());
    install(&site, "one", ONE);
    configure(&site, &upstream, tls, "");
    let text = fs::read_to_string(site.file()).unwrap();
    site.write(&text.replace("workers = 2", "workers = 1\ntcp-idle-ms = 1000"));
    let server = site.start();
    assert_eq!(address(&site, tls, "www.example"), "192.0.2.77\n");
    let before = server.most_memory();
    let mut stream = connect_tls(tls, ONE[0]);
    let query = query_message(7, "www.example");
    let framed = [&(query.len() as u16).to_be_bytes()[..], &query].concat().repeat(500);
    // The server stops reading, so that sending waits until the server closes the connection.
    let cut_off = (0..QUERIES / 500).find_map(|_| stream.write_all(&framed).err());
    let error = cut_off.expect("the server has read everything").kind();
    assert!([ErrorKind::ConnectionReset, ErrorKind::BrokenPipe].contains(&error), "{error:?}");
    let grown = server.most_memory().saturating_sub(before);
    assert!(grown < MOST_GROWTH, "{} MiB", grown >> 20);
    assert_eq!(address(&site, tls, "www.example"), "192.0.2.77\n");
    server.stop();
}

#[test]
fn a_configuration_without_a_certificate_or_with_another_protocol_is_refused() {
    let site = Site::new();
    for (text, expected) in [
        (
            "listen = [\"127.0.0.1:5300\", \"tls://127.0.0.1:853\"]",
            "tls://, quic://, https:// and h3:// need a certificate",
        ),
        ("listen = [\"tls://127.0.0.1:853\"]", "expected at least one address without TLS too"),
        ("listen = [\"127.0.0.1:53\", \"tls://127.0.0.1:53\"]", "duplicate address 127.0.0.1:53"),
        ("listen = [\"127.0.0.1:53\", \"tls://127.0.0.1\"]", "\"127.0.0.1:853\""),
        ("listen = [\"sctp://127.0.0.1:53\"]", "\"sctp://\" is not a supported protocol"),
    ] {
        site.write(&format!("[server]\n{text}\n"));
        let message = String::from_utf8(site.avocet(&["check"]).stderr).unwrap();
        assert!(message.contains(expected), "{text}: {message}");
    }
    let text = "[[certificate]]\nnames = [\"a.example\"]\ncert = \"c\"\nkey = \"k\"\n[[listener]]\n\
                name = \"dot\"\nlisten = [\"tls://127.0.0.1:853\"]\ncertificate = \"b.example\"\n";
    site.write(text);
    let message = String::from_utf8(site.avocet(&["check"]).stderr).unwrap();
    assert!(message.contains("no [[certificate]] has \"b.example\""), "{message}");
}

/// Connects, and completes the handshake.
fn connect_tls(tls: SocketAddr, authority: &str) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut connection = ClientConnection::new(Arc::new(config), tls.ip().into()).unwrap();
    let mut stream = TcpStream::connect(tls).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    connection.complete_io(&mut stream).unwrap();
    StreamOwned::new(connection, stream)
}

fn load(tls: SocketAddr, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_avocet"));
    let server = format!("tls://{tls}");
    command.args(["load", &server, "--quiet", "--zone-name", "example"]).args(words);
    command.output().unwrap()
}

/// Drives the server over TLS; returns the report.
fn drive(tls: SocketAddr, words: &[&str]) -> serde_json::Value {
    let common = ["--population", "10", "--count", "200", "--clients", "4", "--json", "-"];
    let output = load(tls, &[&common[..], words].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_load_generator_keeps_connections_or_makes_a_handshake_for_each_query() {
    let (site, upstream, tls) = (Site::new(), Upstream::start(), free_address());
    install(&site, "one", ONE);
    configure(&site, &upstream, tls, "");
    let server = site.start();
    let counts = |report: &serde_json::Value, name: &str| report["tls"][name].as_u64().unwrap();
    let ca = site.directory.join("one.pem").display().to_string();
    let kept = drive(tls, &["--ca", &ca]);
    assert_eq!((counts(&kept, "full"), counts(&kept, "resumed")), (4, 0), "{kept}");
    let new = drive(tls, &["--insecure", "--connections", "new"]);
    assert_eq!((counts(&new, "full"), counts(&new, "resumed")), (200, 0), "{new}");
    let resumed = drive(tls, &["--insecure", "--connections", "resumed"]);
    assert_eq!(counts(&resumed, "full") + counts(&resumed, "resumed"), 200, "{resumed}");
    // The clients share the tickets, of which each connection brings two.
    assert!(counts(&resumed, "resumed") > 180, "{resumed}");
    for report in [&kept, &new, &resumed] {
        assert_eq!((counts(report, "failed"), &report["outcome"]["answered"]), (0, &200.into()));
    }
    // Workers publish their counts twice a second.
    let seen = std::iter::repeat_with(|| {
        thread::yield_now();
        site.metric("avocet_tls_handshakes_total{result=\"resumed\"}")
    });
    assert!(seen.take(100_000).any(|seen| seen > 180.0));
    let output = load(tls, &[]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("--ca FILE, or --insecure"), "{text}");
    install(&site, "two", TWO);
    let other = site.directory.join("two.pem").display().to_string();
    let output = load(tls, &["--ca", &other]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("UnknownIssuer"), "{text}");
    server.stop();
}
