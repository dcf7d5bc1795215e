//! Upstreams over HTTPS: one server forwards to another.

use std::fs;
use std::net::SocketAddr;

use crate::server::{PATIENCE, Server, Site, ask, free_address, query, udp_client};
use crate::upstream::{ADDRESS, Upstream};

const ONE: [&str; 2] = [include_str!("certificates/one.pem"), include_str!("certificates/one.key")];
const TWO: &str = include_str!("certificates/two.pem");

/// The pin of [`ONE`].
const PIN: &str = "mqDDURc1dZr5YY+aTgGL4+n6/7FD8REgJO/s6fqdbxM=";

/// A server of DNS over HTTPS.
struct Inner {
    site: Site,
    https: SocketAddr,
    server: Server,
    /// Where it forwards to.
    _upstream: Upstream,
}

impl Inner {
    fn start() -> Self {
        let (site, upstream, https) = (Site::new(), Upstream::start(), free_address());
        for (name, text) in [("one.pem", ONE[0]), ("one.key", ONE[1])] {
            fs::write(site.directory.join(name), text).unwrap();
        }
        let rest = format!(
            "[[certificate]]\ncert = \"one.pem\"\nkey = \"one.key\"\n[[listener]]\nname = \"doh\"\n\
             listen = [\"https://{https}\"]\n[[rule]]\nname = \"late\"\n\
             when = '''qname.under(\"late.example\")'''\naction = \"drop\"\n\
             [[record]]\nname = \"dns.example\"\ntype = \"A\"\nvalues = [\"127.0.0.1\"]\n"
        );
        site.configure(upstream.addr, "workers = 1\nh3 = false", &rest);
        let server = site.start();
        Self { site, https, server, _upstream: upstream }
    }
}

/// Writes the configuration of a server that forwards to these.
fn forward_to(site: &Site, upstreams: &str, rest: &str) {
    fs::write(site.directory.join("one.pem"), ONE[0]).unwrap();
    fs::write(site.directory.join("two.pem"), TWO).unwrap();
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
fn questions_go_to_an_upstream_over_https_by_both_methods_and_everybody_says_so() {
    let inner = Inner::start();
    for method in ["post", "get"] {
        let site = Site::new();
        let shown = format!("https://{}", inner.https);
        let rest = format!("ca = \"one.pem\"\nhttps-method = \"{method}\"");
        forward_to(&site, &format!("\"{shown}\""), &rest);
        let server = site.start();
        let before = inner.site.metric("avocet_queries_total{transport=\"https\"}");
        ask_many(&site, method, 200);
        let asked = || inner.site.metric("avocet_queries_total{transport=\"https\"}") - before;
        until(|| asked() >= 200.0);
        let metric = format!("avocet_upstream_tls_queries_total{{upstream=\"{shown}\"}}");
        until(|| site.metric(&metric) >= 200.0);
        let status = site.avocet_text(&["status"]);
        assert!(status.contains(&format!("upstream {shown}: asked")), "{status}");
        let traced = site.avocet_text(&["query", "traced.example", "+trace"]);
        assert!(traced.contains("by HTTPS"), "{traced}");
        until(|| {
            let words =
                ["log", "search", "--upstream", &shown, "--name", &format!("{method}7.example")];
            site.avocet_text(&words).contains("7.example")
        });
        server.stop();
    }
}

#[test]
fn a_wrong_path_or_certificate_is_told_and_never_replaced_by_plain_dns() {
    let inner = Inner::start();
    let shown = format!("https://{}/other", inner.https);
    let site = Site::new();
    forward_to(&site, &format!("\"{shown}\""), "ca = \"one.pem\"");
    let mut server = site.start();
    let ede = failure(&site, "www.example");
    assert!(ede.contains("23"), "{ede}");
    let reason = "the server answers with HTTP status 404";
    server
        .wait_for_line(&format!("no answers from the upstream https://{}: {reason}", inner.https));
    server.stop();
    for (name, ca, why) in
        [("", "two.pem", "no trusted authority"), ("dns.example@", "one.pem", "another name")]
    {
        let site = Site::new();
        let upstream = format!("\"https://{name}{}\"", inner.https);
        forward_to(&site, &upstream, &format!("ca = \"{ca}\""));
        let mut server = site.start();
        let ede = failure(&site, "www.example");
        assert!(ede.contains(why), "{ede}");
        server.wait_for_line(&format!(
            "no answers from the upstream https://{name}{}: ",
            inner.https
        ));
        server.stop();
    }
    // A server that speaks TLS and no HTTP.
    let site = Site::new();
    let upstream = format!("\"https://{}\"", inner.site.dns);
    forward_to(&site, &upstream, "ca = \"one.pem\"");
    let server = site.start();
    failure(&site, "www.example");
    server.stop();
}

#[test]
fn answers_that_never_come_hold_up_no_other_and_a_new_start_of_the_upstream_loses_none() {
    let inner = Inner::start();
    let site = Site::new();
    let upstreams = format!("\"https://{}\"", inner.https);
    forward_to(&site, &upstreams, "ca = \"one.pem\"");
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
    again.stop();
    server.stop();
}

#[test]
fn an_upstream_with_a_name_alone_is_found_by_the_servers_of_bootstrap() {
    let inner = Inner::start();
    let port = inner.https.port();
    let upstream = format!("\"https://dns.example:{port}/dns-query\"");
    let rest = |server: SocketAddr| format!("pins = [\"{PIN}\"]\nbootstrap = [\"{server}\"]");
    let site = Site::new();
    forward_to(&site, &upstream, &rest(inner.site.dns));
    let server = site.start();
    let shown = format!("upstream https://dns.example@127.0.0.1:{port}: asked");
    until(|| site.avocet_text(&["status"]).contains(&shown));
    ask_many(&site, "a", 100);
    // If no rule needs the name, its addresses are dropped.
    forward_to(&site, &format!("\"https://{}\"", inner.https), &format!("pins = [\"{PIN}\"]"));
    site.avocet_text(&["reload"]);
    ask_many(&site, "b", 100);
    server.stop();
    // No server answers at this address.
    let site = Site::new();
    forward_to(&site, &upstream, &rest(free_address()));
    let mut server = site.start();
    server.wait_for_line("the addresses of the upstream dns.example are not known");
    failure(&site, "www.example");
    let status = site.avocet_text(&["status"]);
    assert!(status.contains("check `bootstrap`"), "{status}");
    // Another server knows the name, and earlier failures are dropped.
    forward_to(&site, &upstream, &rest(inner.site.dns));
    site.avocet_text(&["reload"]);
    until(|| site.avocet_text(&["status"]).contains(&shown));
    assert_eq!(ask(site.dns, 1, "www.example").0, ADDRESS);
    server.stop();
}
