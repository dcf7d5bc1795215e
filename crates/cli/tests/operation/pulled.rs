//! Hosted zones that are fetched over HTTP, on the running server.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use crate::past::wait_until;
use crate::server::{Server, Site};
use crate::upstream::Upstream;

const CERTIFICATE: [&str; 2] =
    [include_str!("certificates/one.pem"), include_str!("certificates/one.key")];
const CLIENTS: &str = include_str!("certificates/clients-ca.pem");
const CLIENT: [&str; 2] =
    [include_str!("certificates/tablet.pem"), include_str!("certificates/tablet.key")];

/// A source of records: what it sends, and the heads of the requests in lower case.
#[derive(Clone)]
struct Source {
    addr: SocketAddr,
    state: Arc<Mutex<SourceState>>,
}

struct SourceState {
    /// The status line and header fields.
    head: String,
    text: String,
    asked: Vec<String>,
}

impl Source {
    fn start(tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = crate::server::tcp_listener();
        let addr = listener.local_addr().unwrap();
        let state = SourceState { head: String::new(), text: String::new(), asked: Vec::new() };
        let source = Self { addr, state: Arc::new(Mutex::new(state)) };
        let serving = source.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                match &tls {
                    None => serving.serve(stream),
                    Some(tls) => {
                        let session = ServerConnection::new(tls.clone()).unwrap();
                        serving.serve(StreamOwned::new(session, stream));
                    }
                }
            }
        });
        source
    }

    fn serve(&self, stream: impl Read + Write) {
        let mut stream = BufReader::new(stream);
        let lines = stream.by_ref().lines().map_while(Result::ok);
        let head: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
        if head.is_empty() {
            // The client did not accept the certificate.
            return;
        }
        let head = head.join("\n").to_lowercase();
        let mut state = self.state.lock().unwrap();
        let (reply, text) = match head.contains("if-none-match: \"known\"") {
            true => ("HTTP/1.1 304 Not Modified\r\n".to_owned(), String::new()),
            false => (state.head.clone(), state.text.clone()),
        };
        let len = text.len();
        state.asked.push(head);
        // The client may have closed the connection.
        let _ = write!(stream.get_mut(), "{reply}Content-Length: {len}\r\n\r\n{text}");
        let _ = stream.get_mut().flush();
    }

    fn set(&self, head: &str, text: &str) {
        let mut state = self.state.lock().unwrap();
        (state.head, state.text) = (head.to_owned(), text.to_owned());
    }

    fn asked(&self) -> usize {
        self.state.lock().unwrap().asked.len()
    }

    fn last(&self) -> String {
        self.state.lock().unwrap().asked.last().unwrap().clone()
    }
}

/// The records of a zone with one address of `www`.
fn records(address: &str) -> String {
    let record = |content: &str| json!([{ "content": content }]);
    json!({"rrsets": [
        {"name": "corp.example.", "type": "SOA", "ttl": 60,
         "records": record("ns.corp.example. host.corp.example. 1 2 3 4 60")},
        {"name": "@", "type": "NS", "ttl": 60, "records": record("ns")},
        {"name": "ns", "type": "A", "ttl": 60, "records": record("192.0.2.1")},
        {"name": "www", "type": "A", "ttl": 60, "records": record(address)},
    ]})
    .to_string()
}

const OK: &str = "HTTP/1.1 200 OK\r\n";
const KNOWN: &str = "HTTP/1.1 200 OK\r\nETag: \"known\"\r\n";

fn zone(url: &str, rest: &str) -> String {
    format!(
        "[[zone]]\nname = \"corp.example\"\nprovider = \"http\"\nurl = \"{url}\"\n\
         refresh-secs = 86400\nallow-transfer = [\"127.0.0.0/8\"]\n{rest}\n"
    )
}

/// A server with the zone `corp.example` from a source.
fn start(source: &Source, rest: &str) -> (Site, Server, Upstream) {
    let (upstream, site) = (Upstream::start(), Site::new());
    site.configure(upstream.addr, "", &zone(&format!("http://{}/zone", source.addr), rest));
    let server = site.start();
    (site, server, upstream)
}

fn address(site: &Site) -> String {
    site.avocet_text(&["query", &format!("@{}", site.dns), "www.corp.example", "+short"])
        .trim()
        .to_owned()
}

fn has(site: &Site, text: &str) -> bool {
    site.avocet_text(&["zone", "list"]).contains(text)
}

/// Makes the server ask, and waits until it has.
fn reload(site: &Site, source: &Source) {
    let before = source.asked();
    site.avocet(&["zone", "reload", "corp.example"]);
    wait_until("the source is asked", || source.asked() > before);
}

#[test]
fn a_zone_is_fetched_checked_and_served_over_a_restart() {
    let source = Source::start(None);
    source.set(KNOWN, &records("192.0.2.7"));
    let (site, server, _upstream) = start(&source, "");
    wait_until("the zone is fetched", || address(&site) == "192.0.2.7");
    assert!(has(&site, &format!("from http://{}/zone: checked", source.addr)));
    let serial = || {
        let text = site.avocet_text(&["zone", "list", "--json"]);
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["zones"][0]["provider"], "http");
        report["zones"][0]["serial"].as_u64().unwrap()
    };
    let first = serial();
    let unchanged = "avocet_zone_fetches_total{result=\"unchanged\"}";
    reload(&site, &source);
    assert!(source.last().contains("if-none-match: \"known\""), "{}", source.last());
    wait_until("the reply is counted", || site.metric(unchanged) == 1.0);

    // Served from the copy, by the same serial, while the source is away.
    source.set("HTTP/1.1 500 Internal\r\n", "");
    server.stop();
    let state = site.data().join("zones/corp.example.zone.json.source");
    let known = fs::read_to_string(&state).unwrap();
    fs::write(&state, known.replace("known", "other")).unwrap();
    let server = site.start();
    assert_eq!((address(&site), serial()), ("192.0.2.7".to_owned(), first));
    wait_until("the error is shown", || has(&site, "its server returned status 500"));
    let status = site.avocet(&["status"]);
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains("its url is not usable"), "{status}");

    // Bad records change nothing, other ones come into force with another serial.
    source.set(OK, &records("192.0.2"));
    reload(&site, &source);
    wait_until("the error is shown", || has(&site, "the zone has errors: the record \"www"));
    assert_eq!(address(&site), "192.0.2.7");
    source.set(OK, "<html>");
    reload(&site, &source);
    wait_until("the error is shown", || has(&site, "expected {\"rrsets\""));
    assert_eq!(address(&site), "192.0.2.7");
    source.set(OK, &records("192.0.2.8"));
    reload(&site, &source);
    wait_until("the zone is fetched", || address(&site) == "192.0.2.8");
    let second = serial();
    assert!(second > first, "{second} after {first}");

    // Another text with the same records is no other version.
    source.set(OK, &records("192.0.2.8").replace("\"ttl\":60", "\"ttl\": 60, \"x\": 1"));
    let before = site.metric(unchanged);
    reload(&site, &source);
    wait_until("the reply is counted", || site.metric(unchanged) > before);
    assert_eq!(serial(), second);
    let refused = site.avocet(&["zone", "set", "corp.example", "www", "A", "192.0.2.9"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("comes from a provider"));
    assert!(site.avocet_text(&["check"]).contains("no errors"));
    drop(server);
}

#[test]
fn sources_that_lead_elsewhere_or_say_too_much_are_refused() {
    let source = Source::start(None);
    let (site, _server, _upstream) = start(&source, "");
    wait_until("an error is shown", || has(&site, "it has not been fetched yet"));
    let check = |head: &str, text: &str, expected: &str| {
        source.set(head, text);
        reload(&site, &source);
        wait_until(expected, || has(&site, expected));
    };
    let other = Source::start(None);
    let to = format!("HTTP/1.1 302 Found\r\nLocation: http://{}/\r\n", other.addr);
    check(&to, "", "its server returned status 302");
    assert_eq!(other.asked(), 0);
    check("HTTP/1.1 304 Not Modified\r\n", "", "its server returned status 304");
    check(OK, "{\"rrsets\": []} {", "expected {\"rrsets\"");
    assert!(!site.data().join("zones/corp.example.zone.json").exists());
    source.set(OK, &records("192.0.2.5"));
    reload(&site, &source);
    wait_until("the zone is fetched", || address(&site) == "192.0.2.5");
}

#[test]
fn credentials_go_to_the_source_alone() {
    let authority = CertificateDer::from_pem_slice(CLIENTS.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(authority).unwrap();
    let provider = Arc::new(default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap());
    let chain = vec![CertificateDer::from_pem_slice(CERTIFICATE[0].as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(CERTIFICATE[1].as_bytes()).unwrap();
    let source = Source::start(Some(Arc::new(config.with_single_cert(chain, key).unwrap())));
    source.set(OK, &records("192.0.2.6"));
    let (upstream, site) = (Upstream::start(), Site::new());
    let write = |name: &str, text: &str, mode: u32| {
        let path = site.directory.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    write("ca.pem", CERTIFICATE[0], 0o644);
    write("client.pem", CLIENT[0], 0o644);
    write("client.key", CLIENT[1], 0o600);
    write("fields", "X-API-Key: hush\nAccept: application/json\n", 0o644);
    let url = format!("https://{}/zone", source.addr);
    let client = "client-cert = \"client.pem\"\nclient-key = \"client.key\"\n";
    let all = format!("headers-file = \"fields\"\nca = \"ca.pem\"\n{client}");
    site.configure(upstream.addr, "", &zone(&url, &all));
    let mut server = site.start();
    wait_until("the file is refused", || has(&site, "others may read"));
    write("fields", "X-API-Key: hush\nAccept: application/json\n", 0o640);
    reload(&site, &source);
    wait_until("the zone is fetched", || address(&site) == "192.0.2.6");
    assert!(source.last().contains("x-api-key: hush"), "{}", source.last());
    assert!(!has(&site, "hush"));
    server.read_lines();
    let shows_secret = server.seen().iter().any(|line| line.contains("hush"));
    assert!(!shows_secret);

    // Without the certificate of the client, or with another authority, there is no connection.
    let mut seen = source.asked();
    let failed = || site.metric("avocet_zone_fetches_total{result=\"failed\"}");
    for rest in ["ca = \"ca.pem\"\n".to_owned(), format!("ca = \"client.pem\"\n{client}")] {
        let before = failed();
        site.configure(upstream.addr, "", &zone(&url, &rest));
        site.avocet_text(&["reload"]);
        wait_until("the fetch has failed", || failed() > before);
        assert_eq!((address(&site).as_str(), source.asked()), ("192.0.2.6", seen));
        site.configure(upstream.addr, "", &zone(&url, &all));
        site.avocet_text(&["reload"]);
        wait_until("it is fetched again", || source.asked() > seen);
        seen = source.asked();
    }
    site.configure(upstream.addr, "", &zone(&url, "ca = \"nothing.pem\"\n"));
    let refused = site.avocet(&["check"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("nothing.pem"));
}

#[test]
fn a_source_that_stalls_delays_no_query() {
    let listener = crate::server::tcp_listener();
    let source = Source { addr: listener.local_addr().unwrap(), ..Source::start(None) };
    let (site, server, _upstream) = start(&source, "");
    let _stalled = listener.accept().unwrap();
    let (rcode, _) = site.ask_any("www.corp.example");
    assert_eq!(rcode & 0xf, 2, "SERVFAIL until the zone is fetched");
    assert!(has(&site, "next check running"));
    server.stop();
}
