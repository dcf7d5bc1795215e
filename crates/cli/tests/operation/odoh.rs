//! The target of Oblivious DNS over HTTPS (RFC 9230), with the client's functions of `odoh-rs`.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread;

use chacha20::ChaCha12Rng;
use chacha20::rand_core::SeedableRng;
use odoh_rs::{
    ObliviousDoHConfigContents, ObliviousDoHConfigs, ObliviousDoHMessagePlaintext, OdohSecret,
    compose, decrypt_response, encrypt_query, parse,
};

use crate::server::{Server, Site, free_address, is_here};
use crate::upstream::{ADDRESS, Upstream};

const ONE: [&str; 2] = [include_str!("certificates/one.pem"), include_str!("certificates/one.key")];
const TYPE: &str = "content-type: application/oblivious-dns-message";
const CONFIGS: &str = "/.well-known/odohconfigs";
/// The length of a response with its padding, and of the encryption around it: the type, the nonce
/// and its length, the length of the encrypted message, the lengths of its two parts, and the tag.
const SEALED: usize = 468 + 1 + 2 + 16 + 2 + 4 + 16;

/// A site that is a target, if `odoh` says so, with its address of HTTPS.
struct Target {
    site: Site,
    upstream: Upstream,
    https: SocketAddr,
}

impl Target {
    fn new(odoh: &str) -> Self {
        let target = Self { site: Site::new(), upstream: Upstream::start(), https: free_address() };
        for (name, text) in [("one.pem", ONE[0]), ("one.key", ONE[1])] {
            fs::write(target.site.directory.join(name), text).unwrap();
        }
        target.configure(odoh);
        target
    }

    fn configure(&self, odoh: &str) {
        let https = self.https;
        let rest = format!(
            "[[certificate]]\ncert = \"one.pem\"\nkey = \"one.key\"\n[[listener]]\nname = \"doh\"\n\
             listen = [\"https://{https}\"]\n[[rule]]\nname = \"safe\"\n\
             when = '''client.transport == \"odoh\" && qname.under(\"secret.example\")'''\n\
             action = \"block\"\n[[rule]]\nname = \"gone\"\n\
             when = '''qname.under(\"gone.example\")'''\naction = \"drop\"\n\
             [query-log]\nenabled = true\n{odoh}"
        );
        self.site.configure(self.upstream.addr, "workers = 2", &rest);
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.https)
    }

    /// Sends a request by a version of HTTP. Returns the fields of the response, in lower case, and
    /// its body.
    fn request(&self, version: &str, words: &[&str], path: &str) -> (String, Vec<u8>) {
        let output = Command::new("curl")
            .args(["-sk", "-i", "--max-time", "10", version, "-H", "expect:"])
            .args(words)
            .arg(self.url(path))
            .output()
            .unwrap();
        let end = output.stdout.windows(4).position(|four| four == b"\r\n\r\n");
        let (head, body) = output.stdout.split_at(end.map_or(output.stdout.len(), |at| at + 4));
        (String::from_utf8_lossy(head).to_lowercase(), body.to_vec())
    }

    fn post(&self, version: &str, body: &[u8]) -> (String, Vec<u8>) {
        let file = self.site.directory.join("body");
        fs::write(&file, body).unwrap();
        let data = format!("@{}", file.display());
        self.request(version, &["-H", TYPE, "--data-binary", &data], "/dns-query")
    }

    fn client(&self) -> Client {
        let (head, body) = self.request("--http2", &[], CONFIGS);
        assert!(head.contains(" 200") && head.contains("cache-control: max-age="), "{head}");
        Client::of(&body)
    }

    fn rejected(&self, reason: &str) -> f64 {
        self.site.metric(&format!("avocet_odoh_rejected_total{{reason=\"{reason}\"}}"))
    }
}

/// A client with the configuration of a target.
struct Client(ObliviousDoHConfigContents);

/// A query that a client has encrypted.
struct Sealed {
    query: ObliviousDoHMessagePlaintext,
    secret: OdohSecret,
    octets: Vec<u8>,
}

impl Client {
    fn of(mut configs: &[u8]) -> Self {
        let configs: ObliviousDoHConfigs = parse(&mut configs).unwrap();
        Self(configs.into_iter().next().unwrap().into())
    }

    fn seal(&self, message: &[u8]) -> Sealed {
        let query = ObliviousDoHMessagePlaintext::new(message, 5);
        let mut rng = ChaCha12Rng::from_seed([7; 32]);
        let (sealed, secret) = encrypt_query(&query, &self.0, &mut rng).unwrap();
        Sealed { query, secret, octets: compose(&sealed).unwrap().to_vec() }
    }
}

impl Sealed {
    /// Returns the DNS message in a sealed response.
    fn open(&self, mut body: &[u8]) -> Vec<u8> {
        assert_eq!(body.len(), SEALED, "the response is padded");
        let sealed = parse(&mut body).unwrap();
        decrypt_response(&self.query, &sealed, self.secret).unwrap().into_msg().to_vec()
    }
}

/// Returns a query for an A record with ID 0.
fn query(name: &str) -> Vec<u8> {
    crate::server::query(0, name)
}

#[test]
fn a_target_answers_oblivious_queries_over_both_versions_of_http() {
    if !is_here("curl") {
        return;
    }
    let target = Target::new("[odoh]\ntarget = true\n");
    let server = target.site.start();
    let client = target.client();
    for version in ["--http1.1", "--http2"] {
        // The first query waits for the upstream, and the second is answered from the cache.
        let name = format!("{}.example", &version[6..7]);
        for _ in 0..2 {
            let sealed = client.seal(&query(&name));
            let (head, body) = target.post(version, &sealed.octets);
            assert!(head.contains(" 200") && head.contains(TYPE), "{version}: {head}");
            assert!(head.contains("cache-control: no-store\r\n"), "{version}: {head}");
            let reply = sealed.open(&body);
            assert!(reply.ends_with(&ADDRESS), "{version}: {reply:?}");
        }
        assert_eq!(target.upstream.asked(), [format!("{name}.")]);
        let sealed = client.seal(&query("a.secret.example"));
        let reply = sealed.open(&target.post(version, &sealed.octets).1);
        assert!(reply.ends_with(&[0; 4]), "the rule for the transport blocks: {reply:?}");
        let dropped = client.seal(&query("a.gone.example"));
        let (head, _) = target.post(version, &dropped.octets);
        assert!(!head.contains(" 200"), "{head}");
        let (head, _) = target.request(version, &["-I"], CONFIGS);
        assert!(head.contains(" 200") && head.contains("content-length: 46"), "{head}");
    }
    check_what_is_told(&target);
    server.stop();
}

/// Checks what metrics, status, log and explanations say about oblivious queries.
fn check_what_is_told(target: &Target) {
    let Target { site, .. } = target;
    assert!(site.metric("avocet_queries_total{transport=\"odoh\"}") >= 8.0);
    assert!(site.metric("avocet_odoh_configs_total") >= 3.0);
    let status = site.avocet_text(&["status"]);
    assert!(status.contains("answers oblivious queries: key "), "{status}");
    let status: serde_json::Value =
        serde_json::from_str(&site.avocet_text(&["status", "--json"])).unwrap();
    assert_eq!(status["odoh"]["key-id"].as_str().map(str::len), Some(16), "{status}");
    let why = site.avocet_text(&["why", "a.secret.example", "--transport", "odoh"]);
    assert!(why.contains(" IN A 0.0.0.0\n"), "{why}");
    let why = site.avocet_text(&["why", "a.secret.example", "--transport", "https"]);
    assert!(!why.contains(" IN A 0.0.0.0\n"), "{why}");
    // An entry may still be on its way to the file.
    let logged = std::iter::repeat_with(|| {
        thread::yield_now();
        site.avocet_text(&["log", "search", "--name", "a.secret.example", "--json"])
    });
    let logged = logged.take(1_000).find(|text| text.contains("secret.example"));
    assert!(logged.is_some_and(|text| text.contains("\"odoh\"")));
}

#[test]
fn bad_oblivious_requests_have_a_status_and_the_target_continues() {
    if !is_here("curl") {
        return;
    }
    let target = Target::new("[odoh]\ntarget = true\n");
    let server = target.site.start();
    let (head, body) = target.request("--http2", &[], CONFIGS);
    let client = Client::of(&body);
    assert!(head.contains("content-type: application/octet-stream"), "{head}");
    // A valid key of nobody: the configuration with another public key.
    let mut other = body.clone();
    *other.last_mut().unwrap() ^= 1;
    let other = Client::of(&other);
    let good = client.seal(&query("www.example"));
    let mut altered = good.octets.clone();
    *altered.last_mut().unwrap() ^= 1;
    let update = [&[0, 0, 0x28, 0], &query("www.example")[4..]].concat();
    for version in ["--http1.1", "--http2"] {
        for (body, status, reason) in [
            (&other.seal(&query("www.example")).octets[..], "401", Some("unknown-key")),
            (&good.octets[..good.octets.len() - 1], "400", Some("malformed")),
            (&good.octets[..1], "400", Some("malformed")),
            (&[&good.octets[..], b"x"].concat(), "400", Some("malformed")),
            (&[0xa5; 300], "400", Some("malformed")),
            (&[1; 2_049], "413", Some("too-long")),
            (&[1; 65_535], "413", Some("too-long")),
            (&altered, "400", Some("undecipherable")),
            (&client.seal(&update).octets, "400", Some("not-a-query")),
            (&client.seal(b"").octets, "400", Some("not-a-query")),
            (&[1; 65_536], "413", None),
        ] {
            let before = reason.map(|reason| target.rejected(reason));
            let (head, _) = target.post(version, body);
            let first = head.lines().next().unwrap_or_default();
            // curl may drop a response that comes before it has sent the body.
            assert!(first.contains(status) || reason.is_none(), "{version} {status}: {head}");
            let after = reason.map(|reason| target.rejected(reason) - 1.0);
            assert_eq!(before, after, "{version} {status} {reason:?}");
        }
        for (words, path, status) in [
            (&["-H", TYPE][..], "/dns-query", "400"),
            (&["-X", "POST", "-H", "content-type: x/y"], "/dns-query", "415"),
            (&["-X", "POST", "-H", TYPE], CONFIGS, "404"),
            (&[], "/.well-known/other", "404"),
        ] {
            let (head, _) = target.request(version, words, path);
            assert!(head.lines().next().unwrap_or_default().contains(status), "{path}: {head}");
        }
        // A replay gets a response like the first query.
        for _ in 0..2 {
            let reply = good.open(&target.post(version, &good.octets).1);
            assert!(reply.ends_with(&ADDRESS));
        }
    }
    server.stop();
}

#[test]
fn only_a_target_has_configurations_and_its_key_survives_a_restart() {
    if !is_here("curl") {
        return;
    }
    let target = Target::new("");
    let server = target.site.start();
    let (head, _) = target.request("--http2", &[], CONFIGS);
    assert!(head.contains(" 404"), "{head}");
    let (head, _) = target.post("--http2", b"x");
    assert!(head.contains(" 415"), "{head}");
    target.configure("[odoh]\ntarget = true\n");
    target.site.avocet_text(&["reload"]);
    // The main thread draws the key within a second.
    let configs = || {
        std::iter::repeat_with(|| {
            thread::yield_now();
            target.request("--http2", &[], CONFIGS)
        })
        .find(|(head, _)| head.contains(" 200"))
        .unwrap()
        .1
    };
    let before = configs();
    let file = target.site.data().join("odoh.keys");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let sealed = Client::of(&before).seal(&query("www.example"));
    let log = server.stop();
    assert!(!log.iter().any(|line| line.contains("warn")), "{log:?}");
    let server = target.site.start();
    assert_eq!(configs(), before);
    assert!(sealed.open(&target.post("--http2", &sealed.octets).1).ends_with(&ADDRESS));
    let mut command = target.site.serve();
    command.arg("--take-over");
    let successor = Server::start(command);
    server.wait();
    assert!(sealed.open(&target.post("--http2", &sealed.octets).1).ends_with(&ADDRESS));
    assert_eq!(configs(), before);
    // Another key is drawn if the file is damaged, and clients learn that theirs is unknown.
    successor.stop();
    fs::write(&file, "damaged").unwrap();
    let server = target.site.start();
    assert_ne!(configs(), before);
    assert!(target.post("--http2", &sealed.octets).0.contains(" 401"));
    server.stop();
}

const NAMED: [&str; 2] =
    [include_str!("certificates/named.pem"), include_str!("certificates/named.key")];

#[test]
fn a_proxy_forwards_only_to_its_targets() {
    if !is_here("curl") {
        return;
    }
    let target = Target::new("[odoh]\ntarget = true\n");
    for (name, text) in [("one.pem", NAMED[0]), ("one.key", NAMED[1])] {
        fs::write(target.site.directory.join(name), text).unwrap();
    }
    let server = target.site.start();
    let client = target.client();
    let port = target.https.port();
    let proxy = Target::new(&format!(
        "[odoh]\nproxy-targets = [\"ns1.example@127.0.0.1:{port}\", \"inside.example:{port}\"]\n\
         [[record]]\nname = \"inside.example\"\ntype = \"A\"\nvalues = [\"127.0.0.1\"]\n"
    ));
    let mut command = proxy.site.serve();
    command.env("SSL_CERT_FILE", target.site.directory.join("one.pem"));
    let forwarding = Server::start(command);
    let file = proxy.site.directory.join("body");
    let data = format!("@{}", file.display());
    let send = |version: &str, path: &str, body: &[u8]| {
        fs::write(&file, body).unwrap();
        proxy.request(version, &["-H", TYPE, "--data-binary", &data], path)
    };
    let to = |host: &str, path: &str| format!("?targethost={host}:{port}&targetpath={path}");
    let known = to("NS1.example", "%2Fdns-query");
    for version in ["--http1.1", "--http2"] {
        for path in ["/dns-query", "/proxy"] {
            let sealed = client.seal(&query("www.example"));
            let (head, body) = send(version, &format!("{path}{known}"), &sealed.octets);
            assert!(head.contains(" 200") && head.contains(TYPE), "{version} {path}: {head}");
            assert!(head.contains("cache-control: no-store\r\n"), "{head}");
            assert!(sealed.open(&body).ends_with(&ADDRESS));
        }
        let sealed = client.seal(&query("www.example")).octets;
        let mut unknown = sealed.clone();
        unknown[3] ^= 1;
        for (path, body, status) in [
            (format!("/dns-query{known}"), &unknown, " 401"),
            (format!("/dns-query{}", to("ns1.example", "/other")), &sealed, " 404"),
            (format!("/dns-query{}", to("other.example", "/dns-query")), &sealed, " 403"),
            (format!("/dns-query{}", to("127.0.0.1", "/dns-query")), &sealed, " 403"),
            ("/dns-query?targethost=ns1.example&targetpath=/q".to_owned(), &sealed, " 403"),
            (format!("/dns-query{}", to("ns1.example", "dns-query")), &sealed, " 400"),
            // The name has a private address, and the configuration does not have this address.
            (format!("/dns-query{}", to("inside.example", "/dns-query")), &sealed, " 502"),
            // A proxy is not a target by itself.
            ("/dns-query".to_owned(), &sealed, " 415"),
        ] {
            let (head, _) = send(version, &path, body);
            let first = head.lines().next().unwrap_or_default();
            assert!(first.contains(status), "{version} {path}: {head}");
        }
    }
    let result = |result: &str| {
        proxy.site.metric(&format!("avocet_odoh_proxied_total{{result=\"{result}\"}}"))
    };
    let results = ["answered", "rejected", "failed", "foreign", "busy"].map(result);
    assert_eq!(results, [4.0, 4.0, 2.0, 6.0, 0.0]);
    assert_eq!(target.rejected("unknown-key"), 2.0);
    let queries = "avocet_queries_total{transport=\"odoh\"}";
    assert_eq!([target.site.metric(queries), proxy.site.metric(queries)], [4.0, 0.0]);
    server.stop();
    let (head, _) = send("--http2", &format!("/dns-query{known}"), b"x");
    assert!(head.contains(" 502"), "{head}");
    forwarding.stop();
}

/// Sends a body over HTTP/3 by the library aioquic, and prints status and body in hexadecimal form.
const POST: &str = "
import asyncio, ssl, sys
from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration

class Post(QuicConnectionProtocol):
    out, done = '', None
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
    def quic_event_received(self, event):
        for one in self.http.handle_event(event):
            if isinstance(one, HeadersReceived):
                for name, value in one.headers:
                    self.out += (name + b': ' + value).decode() + '\\n'
            if isinstance(one, DataReceived):
                self.out += one.data.hex()
            if one.stream_ended:
                self.done.set_result(self.out)

async def main(ip, port, path, body):
    c = QuicConfiguration(alpn_protocols=H3_ALPN, verify_mode=ssl.CERT_NONE, server_name='dns.example')
    async with connect(ip, int(port), configuration=c, create_protocol=Post) as one:
        one.done = asyncio.get_running_loop().create_future()
        stream = one._quic.get_next_available_stream_id()
        method = b'POST' if body else b'GET'
        fields = [(b':method', method), (b':scheme', b'https'), (b':authority', b'dns.example'),
                  (b':path', path.encode()), (b'content-type', b'application/oblivious-dns-message')]
        one.http.send_headers(stream, fields, end_stream=not body)
        if body:
            one.http.send_data(stream, bytes.fromhex(body), end_stream=True)
        one.transmit()
        print(await asyncio.wait_for(one.done, 5))

asyncio.run(main(*sys.argv[1:]))
";

#[test]
fn a_target_and_a_proxy_answer_oblivious_queries_over_http3() {
    let target = Target::new("");
    for (name, text) in [("one.pem", NAMED[0]), ("one.key", NAMED[1])] {
        fs::write(target.site.directory.join(name), text).unwrap();
    }
    let https = target.https;
    target
        .configure(&format!("[odoh]\ntarget = true\nproxy-targets = [\"ns1.example@{https}\"]\n"));
    let mut command = target.site.serve();
    command.env("SSL_CERT_FILE", target.site.directory.join("one.pem"));
    let server = Server::start(command);
    let (ip, port) = (target.https.ip().to_string(), target.https.port().to_string());
    let send = |path: &str, body: &[u8]| {
        let words = ["-c", POST, &ip, &port, path, &hex(body)];
        let output = Command::new("python3").args(words).output().ok()?;
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (!text.contains("ModuleNotFoundError")).then_some(text)
    };
    // Without a library for oblivious DNS, which few systems have, the test ends here.
    let Some(configs) = send(CONFIGS, b"") else { return drop(server.stop()) };
    let body = |text: &str| octets(text.lines().last().unwrap_or_default());
    assert!(configs.contains(":status: 200\n"), "{configs}");
    let client = Client::of(&body(&configs));
    let to = |host: &str| format!("/proxy?targethost={host}:{port}&targetpath=/dns-query");
    for path in ["/dns-query", "/dns-query", &to("ns1.example")] {
        let sealed = client.seal(&query("www.example"));
        let text = send(path, &sealed.octets).unwrap();
        assert!(text.contains(TYPE) && text.contains("cache-control: no-store\n"), "{text}");
        assert!(sealed.open(&body(&text)).ends_with(&ADDRESS));
    }
    assert_eq!(target.upstream.asked(), ["www.example."]);
    let good = client.seal(&query("www.example")).octets;
    let (mut altered, mut unknown) = (good.clone(), good);
    *altered.last_mut().unwrap() ^= 1;
    unknown[3] ^= 1;
    for (path, body, status) in [
        ("/dns-query", &altered[..], ":status: 400\n"),
        ("/dns-query", &unknown, ":status: 401\n"),
        (&to("ns1.example"), &unknown, ":status: 401\n"),
        (&to("other.example"), &unknown, ":status: 403\n"),
        (CONFIGS, b"x", ":status: 404\n"),
    ] {
        let text = send(path, body).unwrap();
        assert!(text.contains(status), "{path}: {text}");
    }
    assert!(target.site.metric("avocet_queries_total{transport=\"odoh\"}") >= 2.0);
    server.stop();
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn octets(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks_exact(2).map(|pair| str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}
