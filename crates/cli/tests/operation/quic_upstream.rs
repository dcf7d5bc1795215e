//! Upstreams over QUIC and HTTP/3: one server forwards to another.

use std::fs;
use std::net::SocketAddr;

use crate::server::{PATIENCE, Server, Site, ask, free_address, query, udp_client};
use crate::upstream::{ADDRESS, Upstream};

const ONE: [&str; 2] = [include_str!("certificates/one.pem"), include_str!("certificates/one.key")];
const TWO: &str = include_str!("certificates/two.pem");
const EXPIRED: [&str; 2] =
    [include_str!("certificates/expired.pem"), include_str!("certificates/expired.key")];
/// A certificate of a client, and the authority that has issued it.
const TABLET: [(&str, &str); 2] = [
    ("tablet.pem", include_str!("certificates/tablet.pem")),
    ("tablet.key", include_str!("certificates/tablet.key")),
];
const AUTHORITY_OF_TABLET: (&str, &str) =
    ("clients-ca.pem", include_str!("certificates/clients-ca.pem"));
/// The pin of [`ONE`].
const PIN: &str = "mqDDURc1dZr5YY+aTgGL4+n6/7FD8REgJO/s6fqdbxM=";

/// A server of DNS over QUIC and HTTP/3.
struct Inner {
    site: Site,
    quic: SocketAddr,
    https: SocketAddr,
    server: Server,
    /// Where it forwards to.
    _upstream: Upstream,
}

impl Inner {
    fn start() -> Self {
        Self::showing(ONE, "")
    }

    fn showing([certificate, key]: [&str; 2], rest: &str) -> Self {
        let (site, upstream) = (Site::new(), Upstream::start());
        let (quic, https) = (free_address(), free_address());
        for (name, text) in [("own.pem", certificate), ("own.key", key), AUTHORITY_OF_TABLET] {
            fs::write(site.directory.join(name), text).unwrap();
        }
        let rest = format!(
            "[[certificate]]\ncert = \"own.pem\"\nkey = \"own.key\"\n[[listener]]\nname = \"q\"\n\
             listen = [\"quic://{quic}\", \"https://{https}\"]\n{rest}\n[[rule]]\nname = \"late\"\n\
             when = '''qname.under(\"late.example\")'''\naction = \"drop\"\n\
             [[record]]\nname = \"dns.example\"\ntype = \"A\"\nvalues = [\"127.0.0.1\"]\n"
        );
        site.configure(upstream.addr, "workers = 1", &rest);
        let server = site.start();
        Self { site, quic, https, server, _upstream: upstream }
    }

    /// Returns both forms of the server, with the name of the transport in metrics.
    fn forms(&self) -> [(String, &'static str); 2] {
        [(format!("quic://{}", self.quic), "quic"), (format!("h3://{}", self.https), "https")]
    }
}

/// Writes the configuration of a server that forwards to `upstreams`.
fn forward_to(site: &Site, upstreams: &str, rest: &str) {
    let files = [("one.pem", ONE[0]), ("two.pem", TWO), ("expired.pem", EXPIRED[0])];
    for (name, text) in files.into_iter().chain(TABLET) {
        fs::write(site.directory.join(name), text).unwrap();
    }
    site.write(&format!(
        "[server]\nlisten = [\"{}\"]\nhttp = \"{}\"\nworkers = 1\n[data]\ndirectory = \"{}\"\n\
         [query-log]\nenabled = true\n[[forward]]\nzone = \".\"\nupstreams = [{upstreams}]\n{rest}\n",
        site.dns,
        site.http,
        site.data().display()
    ));
}

/// Repeats a check until it succeeds: workers publish their counts only from time to time.
fn until(mut is_so: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "nothing of that has happened");
        std::thread::yield_now();
    }
}

fn ask_many(site: &Site, prefix: &str, count: u16) {
    let client = udp_client();
    for number in 0..count {
        client.send_to(&query(number, &format!("{prefix}{number}.example")), site.dns).unwrap();
    }
    for _ in 0..count {
        let mut reply = [0; 512];
        let len = client.recv(&mut reply).unwrap();
        let number = u16::from_be_bytes([reply[0], reply[1]]);
        let name = format!("{prefix}{number}.example");
        assert_eq!(crate::server::first_record(&reply[..len], &name).0, ADDRESS, "{name}");
    }
}

/// Asks for a name that gets no address. Returns the extended error.
fn failure(site: &Site, name: &str) -> String {
    let output = site.avocet_text(&["query", &format!("@{}", site.dns), name, "+json"]);
    let reply: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(reply["rcode"], "SERVFAIL", "{reply}");
    reply["edns"].to_string()
}

#[test]
fn queries_share_one_connection_and_all_that_knows_upstreams_names_the_transport() {
    let inner = Inner::start();
    let handshakes =
        || inner.site.metric("avocet_quic_handshakes_total{result=\"complete\"}") as u64;
    for (form, transport) in inner.forms() {
        for method in ["post", "get"] {
            let (site, began) = (Site::new(), handshakes());
            let rest = format!("ca = \"one.pem\"\nhttps-method = \"{method}\"");
            forward_to(&site, &format!("\"{form}\""), &rest);
            let server = site.start();
            let counted = format!("avocet_queries_total{{transport=\"{transport}\"}}");
            let before = inner.site.metric(&counted);
            ask_many(&site, method, 200);
            until(|| inner.site.metric(&counted) - before >= 200.0);
            until(|| handshakes() == began + 1);
            let metric = format!("avocet_upstream_tls_queries_total{{upstream=\"{form}\"}}");
            until(|| site.metric(&metric) >= 200.0);
            until(|| site.metric("avocet_upstream_sockets{kind=\"quic\"}") >= 1.0);
            let status = site.avocet_text(&["status"]);
            assert!(status.contains(&format!("upstream {form}: asked")), "{status}");
            let traced = site.avocet_text(&["query", "traced.example", "+trace"]);
            let word = if transport == "quic" { "by QUIC" } else { "by HTTP/3" };
            assert!(traced.contains(word), "{traced}");
            until(|| {
                let name = format!("{method}7.example");
                let words = ["log", "search", "--upstream", &form, "--name", &name];
                site.avocet_text(&words).contains("7.example")
            });
            server.stop();
        }
    }
}

#[test]
fn an_upstream_without_proof_gets_no_query_and_everybody_learns_why() {
    let (inner, old) = (Inner::start(), Inner::showing(EXPIRED, ""));
    let wrong_pin = "pins = [\"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\"]";
    let both = format!("ca = \"two.pem\"\npins = [\"{PIN}\"]");
    for scheme in ["quic", "h3"] {
        let at = |inner: &Inner| if scheme == "quic" { inner.quic } else { inner.https };
        for (server, proof, reason, why) in [
            (format!("dns.example@{}", at(&inner)), "ca = \"one.pem\"", "name", "another name"),
            (at(&inner).to_string(), "ca = \"two.pem\"", "issuer", "no trusted authority"),
            (at(&old).to_string(), "ca = \"expired.pem\"", "expired", "has expired"),
            (at(&inner).to_string(), wrong_pin, "pin", "its key is not pinned"),
            (at(&inner).to_string(), &both, "issuer", "no trusted authority"),
        ] {
            let site = Site::new();
            forward_to(&site, &format!("\"{scheme}://{server}\""), proof);
            let mut process = site.start();
            let ede = failure(&site, "www.example");
            assert!(ede.contains("23") && ede.contains(why), "{server} {proof}: {ede}");
            process.wait_for_line(&format!("no answers from the upstream {scheme}://{server}: "));
            let metric = format!(
                "avocet_upstream_tls_failures_total{{upstream=\"{scheme}://{server}\",\
                 reason=\"{reason}\"}}"
            );
            until(|| site.metric(&metric) > 0.0);
            let status = site.avocet_text(&["status"]);
            assert!(status.contains(why) && status.contains("gets no queries"), "{status}");
            process.stop();
        }
    }
    let asked = |inner: &Inner| inner.site.metric("avocet_queries_total{transport=\"quic\"}");
    assert!(asked(&inner) + asked(&old) < 1.0);
    // Without authentication, each certificate is good, and a pin needs no authority.
    for (server, proof) in [
        (old.quic, "authentication = \"opportunistic\"".to_owned()),
        (inner.quic, format!("pins = [\"{PIN}\"]")),
    ] {
        let site = Site::new();
        forward_to(&site, &format!("\"quic://{server}\""), &proof);
        let process = site.start();
        assert_eq!(ask(site.dns, 1, "www.example").0, ADDRESS);
        process.stop();
    }
}

#[test]
fn a_certificate_is_shown_to_an_upstream_that_requires_one() {
    let rest = "client-ca = \"clients-ca.pem\"\nclient-certificate = \"required\"";
    let strict = Inner::showing(ONE, rest);
    let site = Site::new();
    forward_to(&site, &format!("\"quic://{}\"", strict.quic), "ca = \"one.pem\"");
    let mut server = site.start();
    let ede = failure(&site, "www.example");
    assert!(ede.contains("refused the handshake"), "{ede}");
    server.wait_for_line("no answers from the upstream quic://");
    server.stop();
    let site = Site::new();
    let rest = "ca = \"one.pem\"\nclient-cert = \"tablet.pem\"\nclient-key = \"tablet.key\"";
    forward_to(&site, &format!("\"quic://{}\"", strict.quic), rest);
    let server = site.start();
    assert_eq!(ask(site.dns, 1, "www.example").0, ADDRESS);
    server.stop();
}

#[test]
fn a_wrong_path_is_told() {
    let inner = Inner::start();
    let site = Site::new();
    forward_to(&site, &format!("\"h3://{}/other\"", inner.https), "ca = \"one.pem\"");
    let mut server = site.start();
    failure(&site, "www.example");
    let reason = "the server answers with HTTP status 404";
    server.wait_for_line(&format!("no answers from the upstream h3://{}: {reason}", inner.https));
    server.stop();
}

#[test]
fn what_is_not_there_is_told_and_never_replaced_by_plain_dns() {
    let plain = Upstream::start();
    for scheme in ["quic", "h3"] {
        let silent = crate::server::udp_socket();
        silent.set_nonblocking(true).unwrap();
        let site = Site::new();
        let upstreams = format!("\"{scheme}://{}\"", silent.local_addr().unwrap());
        forward_to(&site, &upstreams, "ca = \"one.pem\"");
        let server = site.start();
        let ede = failure(&site, "www.example");
        assert!(ede.contains("handshake took too long"), "{ede}");
        server.stop();
        let mut datagram = [0; 2_048];
        while let Ok(len) = silent.recv(&mut datagram) {
            let is_quic = datagram[0] & 0xc0 == 0xc0 && datagram[1..5] == [0, 0, 0, 1];
            assert!(is_quic && len >= 1_200, "first packets of QUIC only");
        }
        let site = Site::new();
        let nothing = free_address();
        let upstreams = format!("\"{scheme}://{nothing}\", \"{}\"", plain.addr);
        forward_to(&site, &upstreams, "strategy = \"ordered\"\nca = \"one.pem\"");
        let server = site.start();
        assert_eq!(ask(site.dns, 1, "www.example").0, ADDRESS, "the next server answers");
        server.stop();
    }
}

#[test]
fn answers_that_never_come_hold_up_no_other_and_a_new_start_of_the_upstream_loses_none() {
    for form in 0..2 {
        let inner = Inner::start();
        let site = Site::new();
        let upstream = format!("\"{}\"", inner.forms()[form].0);
        forward_to(&site, &upstream, "ca = \"one.pem\"");
        let server = site.start();
        let client = udp_client();
        for number in 0..20 {
            client.send_to(&query(number, &format!("h{number}.late.example")), site.dns).unwrap();
        }
        ask_many(&site, "a", 200);
        let Inner { site: inner_site, server: inner_server, _upstream, .. } = inner;
        inner_server.stop();
        let again = inner_site.start();
        ask_many(&site, "b", 200);
        assert_eq!(ask(site.dns, 1, "again.example").0, ADDRESS);
        // This server ends without closing its connections.
        drop(again);
        let again = inner_site.start();
        ask_many(&site, "c", 200);
        again.stop();
        server.stop();
    }
}

#[test]
fn an_upstream_with_a_name_alone_is_found_by_the_servers_of_bootstrap() {
    let inner = Inner::start();
    let (site, port) = (Site::new(), inner.quic.port());
    let rest = format!("pins = [\"{PIN}\"]\nbootstrap = [\"{}\"]", inner.site.dns);
    forward_to(&site, &format!("\"quic://dns.example:{port}\""), &rest);
    let server = site.start();
    let shown = format!("upstream quic://dns.example@127.0.0.1:{port}: asked");
    until(|| site.avocet_text(&["status"]).contains(&shown));
    ask_many(&site, "a", 100);
    server.stop();
}
