//! DNS over HTTPS of the running server: clients, transports and bounds.

use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread;

use crate::server::{Server, Site, free_address, is_here};
use crate::upstream::Upstream;

const ONE: [&str; 2] = [include_str!("certificates/one.pem"), include_str!("certificates/one.key")];
/// A query for www.example with ID 0.
const QUERY: &[u8] = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x01\0\x01";
const IN_PATH: &str = "AAABAAABAAAAAAAAA3d3dwdleGFtcGxlAAABAAE";

fn configure(site: &Site, upstream: &Upstream, https: SocketAddr) {
    for (name, text) in [("one.pem", ONE[0]), ("one.key", ONE[1])] {
        fs::write(site.directory.join(name), text).unwrap();
    }
    let rest = format!(
        "[[certificate]]\ncert = \"one.pem\"\nkey = \"one.key\"\n[[listener]]\nname = \"doh\"\n\
         listen = [\"https://{https}\"]\n[[rule]]\nname = \"safe\"\n\
         when = '''client.transport == \"https\" && qname.under(\"secret.example\")'''\n\
         action = \"block\"\n[[rule]]\nname = \"gone\"\n\
         when = '''qname.under(\"gone.example\")'''\naction = \"drop\"\n\
         [query-log]\nenabled = true\n"
    );
    site.configure(upstream.addr, "workers = 2", &rest);
}

/// Runs curl; returns its output with the fields of the response.
fn curl(words: &[&str]) -> String {
    curl_as_is(words).to_lowercase()
}

/// Does the same without a change of letter case.
fn curl_as_is(words: &[&str]) -> String {
    let output = Command::new("curl").args(["-sk", "-D", "-"]).args(words).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn clients_ask_over_both_versions_of_http() {
    if !is_here("curl") || !is_here("kdig") {
        return;
    }
    let (site, upstream, https) = (Site::new(), Upstream::start(), free_address());
    configure(&site, &upstream, https);
    let server = site.start();
    let url = format!("https://{https}/dns-query");
    let in_path = format!("{url}?dns={IN_PATH}");
    let body = site.directory.join("query");
    fs::write(&body, QUERY).unwrap();
    let body = format!("@{}", body.display());
    let post = ["-H", "content-type: application/dns-message", "--data-binary", &body, &url];
    for version in ["--http1.1", "--http2"] {
        for words in [&post[..], &[&in_path], &["-I", &in_path]] {
            let text = curl(&[&[version], words].concat());
            assert!(text.contains(" 200"), "{version} {words:?}: {text}");
            assert!(text.contains("content-type: application/dns-message"), "{text}");
            let alternative = format!("alt-svc: h3=\":{}\"; ma=86400\r\n", https.port());
            assert!(text.contains(&alternative), "{text}");
            assert!(text.contains("cache-control: max-age="), "{text}");
        }
        for (words, status) in [
            (&[url.as_str()][..], "400"),
            (&[&format!("https://{https}/")], "404"),
            (&["-X", "PUT", &url], "405"),
            (&["--data-binary", "x", &url], "415"),
            (&[&format!("{url}?dns={}", "A".repeat(9_000))], "414"),
            (&[&format!("{url}?dns={}", "A".repeat(100_000))], ""),
        ] {
            // curl may drop a response that comes before it has sent the body.
            let attempts = if status.is_empty() { 1 } else { 20 };
            let texts = std::iter::repeat_with(|| curl(&[&[version], words].concat()));
            let text = texts.take(attempts).find(|text| !text.is_empty()).unwrap_or_default();
            let is_right = text.lines().next().is_some_and(|line| line.contains(status));
            assert!(is_right || status.is_empty(), "{version} {words:?}: {text}");
            assert!(!text.contains(" 200"), "{text}");
        }
    }
    for form in ["+https", "+https-get"] {
        let kdig = Command::new("kdig")
            .args([form, "+noall", "+answer", "+stats", "+padding", "www.example"])
            .args([&format!("@{}", https.ip()), "-p", &https.port().to_string()])
            .output()
            .unwrap();
        let text = String::from_utf8(kdig.stdout).unwrap();
        assert!(text.contains("192.0.2.77") && text.contains("Received 468 B"), "{text}");
    }
    let doh = ["--doh-url", &url, "--doh-insecure", "--max-time", "5", "http://curl.example:1/"];
    let before = site.metric("avocet_queries_total{transport=\"https\"}");
    let _ = curl(&doh);
    assert!(site.metric("avocet_queries_total{transport=\"https\"}") > before);
    server.stop();
}

#[test]
fn the_client_and_all_that_knows_transports_know_https() {
    let (site, upstream, https) = (Site::new(), Upstream::start(), free_address());
    configure(&site, &upstream, https);
    let server = site.start();
    let at = format!("@https://{https}");
    let ca = format!("+ca={}", site.directory.join("one.pem").display());
    let reply = site.avocet_text(&["query", &at, "www.example", &ca, "+json"]);
    let reply: serde_json::Value = serde_json::from_str(&reply).unwrap();
    assert_eq!((&reply["transport"], &reply["size"]), (&"https".into(), &468.into()), "{reply}");
    for words in [&["+insecure"][..], &["+insecure", "+https-get"]] {
        let words = [&["query", &at, "a.secret.example", "+short"], words].concat();
        assert_eq!(site.avocet_text(&words), "0.0.0.0\n");
    }
    for (server, words, expected) in [
        (&at, &["+insecure"][..], "HTTP/2 error 8"),
        (&format!("{at}/other"), &["+insecure"], "HTTP status 404"),
        (&format!("@{https}"), &["+https-get"], "only with @https://SERVER"),
    ] {
        let output = site.avocet(&[&["query", server, "a.gone.example"], words].concat());
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(expected), "{text}");
    }
    let why = site.avocet_text(&["why", "a.secret.example", "--transport", "https"]);
    assert!(why.contains(" IN A 0.0.0.0\n"), "{why}");
    assert!(site.avocet_text(&["status"]).contains(&format!("https://{https}")));
    // An entry may still be on its way to the file.
    let logged = std::iter::repeat_with(|| {
        thread::yield_now();
        site.avocet_text(&["log", "search", "--name", "a.secret.example", "--json"])
    });
    let logged = logged.take(1_000).find(|text| text.contains("secret.example"));
    assert!(logged.is_some_and(|text| text.contains("\"https\"")));
    server.stop();
}

/// Asks by the libraries dnspython and aioquic.
const PYTHON: &str = "
import sys, dns.message, dns.query
query = dns.message.make_query('www.example', 'A')
url = 'https://' + sys.argv[1] + '/dns-query'
for post in (True, False):
    print(dns.query.https(query, url, post=post, verify=False, timeout=5,
                          http_version=dns.query.HTTPVersion.H3))
";

#[test]
fn clients_ask_over_http3() {
    let (site, upstream, https) = (Site::new(), Upstream::start(), free_address());
    configure(&site, &upstream, https);
    let server = site.start();
    let at = format!("@h3://{https}");
    let ca = format!("+ca={}", site.directory.join("one.pem").display());
    for words in [&[][..], &["+https-get"]] {
        let reply =
            site.avocet_text(&[&["query", &at, "www.example", &ca, "+json"], words].concat());
        let reply: serde_json::Value = serde_json::from_str(&reply).unwrap();
        assert_eq!((&reply["transport"], &reply["size"]), (&"h3".into(), &468.into()), "{reply}");
        let words = [&["query", &at, "a.secret.example", "+insecure", "+short"], words].concat();
        assert_eq!(site.avocet_text(&words), "0.0.0.0\n");
    }
    let elsewhere = format!("{at}/other");
    for (server, name, expected) in
        [(&elsewhere, "www.example", "HTTP status 404"), (&at, "a.gone.example", "error code 268")]
    {
        let output = site.avocet(&["query", server, name, "+insecure"]);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(expected), "{text}");
    }
    assert!(site.avocet_text(&["status"]).contains(&format!("h3://{https}")));
    assert!(site.metric("avocet_queries_total{transport=\"https\"}") >= 4.0);
    let python = ["-c", PYTHON, &https.to_string()];
    if let Ok(output) = Command::new("python3").args(python).output() {
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        // Few systems have the libraries.
        let is_without = ["ModuleNotFoundError", "NoDOH"].iter().any(|error| text.contains(error));
        assert!(is_without || text.matches("192.0.2.77").count() == 2, "{text}");
    }
    server.stop();
}

/// Checks responses in JSON and the reasons of errors over one version of HTTP.
fn check_json(fetch: &dyn Fn(&str) -> String) {
    for (parameters, data) in [
        ("?name=www.example&type=A&do=1&random_padding=x", "192.0.2.77"),
        ("?cd=true&name=WWW.example.&type=1", "192.0.2.77"),
        ("?name=a.secret.example", "0.0.0.0"),
    ] {
        let text = fetch(&format!("/resolve{parameters}"));
        assert!(text.contains("application/dns-json"), "{parameters}: {text}");
        assert!(text.contains("max-age="), "{parameters}: {text}");
        let body = &text[text.find('{').unwrap_or_default()..];
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        let (status, answer) = (&body["Status"], &body["Answer"][0]);
        assert_eq!((status, &answer["data"]), (&0.into(), &data.into()), "{body}");
        let is_blocked = data == "0.0.0.0";
        assert_eq!(body["extended_dns_errors"].is_array(), is_blocked, "{body}");
    }
    for (wrong, reason) in [
        ("", "missing"),
        ("?name=", "no domain name"),
        ("?name=a..b", "no domain name"),
        ("?name=%f", "no domain name"),
        ("?name=a&type=nope", "neither a number"),
        ("?name=a&name=b", "more than once"),
        ("?name=a&type=A&type=TXT", "more than once"),
        ("?name=a&do=2", "`cd` and `do`"),
    ] {
        let text = fetch(&format!("/resolve{wrong}"));
        let is_rejected = text.contains(" 400") || text.contains("STATUS 400");
        assert!(is_rejected && text.contains(reason), "{wrong}: {text}");
    }
}

/// Fetches by the library aioquic.
const FETCH: &str = "
import asyncio, ssl, sys
from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration

class Fetch(QuicConnectionProtocol):
    out, done = b'', None
    def quic_event_received(self, event):
        for one in self.http.handle_event(event):
            if isinstance(one, HeadersReceived):
                for name, value in one.headers:
                    self.out += (b'STATUS' if name == b':status' else name) + b' ' + value + b'\\n'
            if isinstance(one, DataReceived):
                self.out += one.data
            if one.stream_ended:
                self.done.set_result(self.out)

async def main(ip, port, path):
    c = QuicConfiguration(alpn_protocols=H3_ALPN, verify_mode=ssl.CERT_NONE, server_name='dns.example')
    async with connect(ip, int(port), configuration=c, create_protocol=Fetch) as one:
        one.http = H3Connection(one._quic)
        one.done = asyncio.get_running_loop().create_future()
        stream = one._quic.get_next_available_stream_id()
        fields = [(b':method', b'GET'), (b':scheme', b'https'), (b':authority', b'dns.example'),
                  (b':path', path.encode())]
        one.http.send_headers(stream, fields, end_stream=True)
        one.transmit()
        print((await asyncio.wait_for(one.done, 5)).decode())

asyncio.run(main(*sys.argv[1:]))
";

#[test]
fn scripts_ask_in_json_over_all_versions_of_http() {
    let (site, upstream, https) = (Site::new(), Upstream::start(), free_address());
    configure(&site, &upstream, https);
    let server = site.start();
    if is_here("curl") {
        for version in ["--http1.1", "--http2"] {
            check_json(&|path| curl_as_is(&[version, &format!("https://{https}{path}")]));
        }
        let head = curl(&["--http1.1", "--head", &format!("https://{https}/resolve?name=a..b")]);
        assert!(head.contains(" 400") && !head.contains("domain name"), "{head}");
        let posted = &format!("https://{https}/resolve?name=www.example");
        let posted = curl(&["--http1.1", "-d", "x", posted]);
        assert!(posted.contains(" 400"), "{posted}");
    }
    let (ip, port) = (https.ip().to_string(), https.port().to_string());
    let fetch = |path: &str| {
        let output = Command::new("python3").args(["-c", FETCH, &ip, &port, path]).output();
        let Ok(output) = output else { return "ModuleNotFoundError".to_owned() };
        let octets = if output.status.success() { output.stdout } else { output.stderr };
        String::from_utf8_lossy(&octets).into_owned()
    };
    // Few systems have the library.
    if !fetch("/resolve?name=www.example").contains("ModuleNotFoundError") {
        check_json(&fetch);
    }
    assert!(site.metric("avocet_queries_total{transport=\"https\"}") >= 3.0);
    // An entry may still be on its way to the file.
    let logged = std::iter::repeat_with(|| {
        thread::yield_now();
        site.avocet_text(&["log", "search", "--name", "a.secret.example", "--json"])
    });
    assert!(logged.take(1_000).any(|text| text.contains("\"https\"")));
    server.stop();
}

#[test]
fn http3_can_be_turned_off() {
    let (site, upstream, https) = (Site::new(), Upstream::start(), free_address());
    for (name, text) in [("one.pem", ONE[0]), ("one.key", ONE[1])] {
        fs::write(site.directory.join(name), text).unwrap();
    }
    let rest = format!(
        "[[certificate]]\ncert = \"one.pem\"\nkey = \"one.key\"\n[[listener]]\nname = \"doh\"\n\
         listen = [\"https://{https}\", \"quic://{https}\"]\n"
    );
    site.configure(upstream.addr, "h3 = false", &rest);
    let server = site.start();
    let (quic, h3) = (format!("@quic://{https}"), format!("@h3://{https}"));
    let words = ["query", &quic, "www.example", "+insecure", "+short"];
    assert_eq!(site.avocet_text(&words), "192.0.2.77\n", "the port is free for QUIC");
    let output = site.avocet(&["query", &h3, "www.example", "+insecure", "+time=2"]);
    assert!(!output.status.success());
    if is_here("curl") {
        let text = curl(&["--http2", &format!("https://{https}/dns-query?dns={IN_PATH}")]);
        assert!(text.contains(" 200") && !text.contains("alt-svc"), "{text}");
    }
    server.stop();
}

#[test]
fn the_load_generator_drives_http3() {
    check_load("h3");
}

#[test]
fn the_load_generator_drives_http2() {
    check_load("https");
}

/// Clients learn of the end of their connections before these end, and lose no query.
#[test]
fn a_take_over_loses_no_query_over_kept_connections_of_http2() {
    let (site, upstream, https) = (Site::new(), Upstream::start(), free_address());
    configure(&site, &upstream, https);
    let server = site.start();
    let mut load = Command::new(env!("CARGO_BIN_EXE_avocet"));
    load.args(["load", &format!("https://{https}"), "--insecure", "--quiet", "--json", "-"]);
    load.args(["--zone-name", "example", "--population", "10", "--clients", "4"]);
    load.args(["--rate", "200", "--count", "600"]).stdout(Stdio::piped());
    let load = load.spawn().unwrap();
    while site.metric("avocet_queries_total{transport=\"https\"}") < 100.0 {
        thread::yield_now();
    }
    let mut command = site.serve();
    command.arg("--take-over");
    let _successor = Server::start(command);
    let log = server.wait().1;
    assert!(!log.iter().any(|line| line.contains("panicked")), "{log:?}");
    let output = load.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["outcome"]["answered"], 600, "{report}");
    assert!(report["tls"]["full"].as_u64() > Some(4), "other connections: {report}");
}

/// Drives the server in a version of HTTP, over each kind of connection.
#[track_caller]
fn check_load(scheme: &str) {
    let (site, upstream, https) = (Site::new(), Upstream::start(), free_address());
    configure(&site, &upstream, https);
    let server = site.start();
    let load = |path: &str, words: &[&str]| {
        let at = format!("{scheme}://{https}{path}");
        let common = ["load", &at, "--quiet", "--zone-name", "example", "--population", "10"];
        let common = [&common[..], &["--count", "100", "--clients", "4", "--json", "-"]].concat();
        let output = Command::new(env!("CARGO_BIN_EXE_avocet")).args(common).args(words).output();
        let output = output.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.success(), text + &String::from_utf8_lossy(&output.stderr))
    };
    let ca = site.directory.join("one.pem").display().to_string();
    // A kept connection of HTTP/2 takes queries before its handshake, so fewer may be used.
    for (words, handshakes) in [
        (&["--ca", &ca][..], 1..=4),
        (&["--insecure", "--connections", "new"], 100..=104),
        (&["--insecure", "--connections", "resumed"], 100..=104),
    ] {
        let (is_right, text) = load("", words);
        assert!(is_right, "{words:?}: {text}");
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(report["outcome"]["answered"], 100, "{report}");
        // A connection may begin for which no query is left. QUIC does not tell which is resumed.
        let made = |kind: &str| report["tls"][kind].as_u64().unwrap();
        let completed = made("full") + made("resumed");
        assert!(handshakes.contains(&completed), "{report}");
        let may_resume = words.contains(&"resumed") && scheme == "https";
        assert_eq!(made("resumed") > 0, may_resume, "{report}");
        assert_eq!(report["tls"]["failed"], 0, "{report}");
    }
    let https_queries = "avocet_queries_total{transport=\"https\"}";
    let seen = std::iter::repeat_with(|| {
        thread::yield_now();
        site.metric(https_queries)
    });
    assert!(seen.take(100_000).any(|seen| seen >= 300.0));
    let (is_right, text) = load("/other", &["--insecure", "--timeout", "200ms"]);
    assert!(!is_right, "another path has no answers: {text}");
    let (is_right, text) = load("", &[]);
    assert!(!is_right && text.contains("--ca FILE, or --insecure"), "{text}");
    server.stop();
}
