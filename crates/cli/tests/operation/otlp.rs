//! Traces of a running server: what a collector gets, and what happens without one.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::otlp_collector::{Request, Seen, TAKEN, TestCollector};
use crate::past::wait_until;
use crate::server::{PATIENCE, Site, free_address, query, udp_client};
use crate::upstream::{ADDRESS, Upstream};

fn otlp(addr: SocketAddr, keys: &str) -> String {
    format!("[otlp]\nendpoint = \"http://{addr}\"\n{keys}\n")
}

/// Sends a query from a loopback address, and returns the RCODE.
fn ask_from(site: &Site, last: u8, name: &str) -> u8 {
    let client = UdpSocket::bind(SocketAddr::from(([127, 0, 0, last], 0))).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.send_to(&query(7, name), site.dns).unwrap();
    let mut reply = [0; 512];
    client.recv(&mut reply).unwrap();
    reply[3] & 0xf
}

/// Checks what all spans of a trace have.
fn check_tree(spans: &[Seen]) {
    let root = &spans[0];
    assert!(root.parent.is_empty() && root.kind == 2, "{root:?}");
    assert!(root.trace.iter().any(|octet| *octet != 0) && root.id.iter().any(|o| *o != 0));
    assert!(root.start > 1_700_000_000_000_000_000, "{root:?}");
    for (place, span) in spans.iter().enumerate() {
        assert!(span.start <= span.end, "{span:?}");
        assert_eq!(span.trace, root.trace);
        let is_above = |other: &Seen| other.id == span.parent;
        assert!(place == 0 || spans[..place].iter().any(is_above), "{span:?}");
        // A worker reads its clock once in a turn of its event loop, so its time may be a
        // millisecond before the arrival of a query. A query that was repeated joins the
        // resolution that the first one has begun.
        let has_joined = root.attributes.contains_key("avocet.resolution.joined");
        let begins_within = has_joined || span.start + 1_000_000 >= root.start;
        assert!(place == 0 || begins_within && span.end <= root.end, "{span:?} {root:?}");
    }
}

/// Checks the request with the first trace: of a question that the upstream has answered.
fn check_resolved(site: &Site, upstream: &Upstream, request: &Request) {
    assert!(request.head.starts_with("post /v1/traces http/1.1\r\n"), "{}", request.head);
    assert_eq!(request.resource["service.name"], "home");
    assert_eq!(request.resource["service.instance.id"].len(), 36);
    let spans = &request.spans[..];
    check_tree(spans);
    let [root, asked] = spans else { panic!("{spans:#?}") };
    assert_eq!(root.name, "DNS A");
    for (key, value) in [
        ("dns.question.name", "www.example"),
        ("avocet.question.type", "A"),
        ("network.transport", "udp"),
        ("network.protocol.name", "dns"),
        ("client.address", "127.0.0.1"),
        ("server.address", "127.0.0.1"),
        ("server.port", &site.dns.port().to_string()),
        ("avocet.rcode", "NOERROR"),
        ("avocet.stage", "resolved"),
        ("avocet.cache", "miss"),
        ("avocet.selected-by", "sample-share"),
        ("avocet.upstream.queries", "1"),
    ] {
        assert_eq!(root.get(key), value, "{key} of {root:#?}");
    }
    assert!(root.error.is_none() && root.has_event("answered"), "{root:#?}");
    assert_eq!((asked.kind, &*asked.parent), (3, &root.id[..]));
    for (key, value) in [
        ("dns.question.name", "www.example"),
        ("server.address", "127.0.0.1"),
        ("server.port", &upstream.addr.port().to_string()),
        ("network.transport", "udp"),
        ("avocet.rcode", "NOERROR"),
    ] {
        assert_eq!(asked.get(key), value, "{key} of {asked:#?}");
    }
}

#[test]
fn a_query_is_a_trace_of_its_decision_and_of_its_queries_to_servers() {
    let (site, upstream, collector) = (Site::new(), Upstream::start(), TestCollector::start());
    let (silent, dead) = (crate::server::udp_socket(), free_address());
    let list = site.directory.join("ads.txt");
    fs::write(&list, "||ads.example^\n").unwrap();
    let rest = format!(
        "{}[[list]]\nname = \"ads\"\nfile = \"{}\"\n\
         [[forward]]\nzone = \"retry.example\"\nstrategy = \"ordered\"\n\
         upstreams = [\"udp://{}\", \"udp://{}\"]\n\
         [[forward]]\nzone = \"dead.example\"\nupstreams = [\"udp://{dead}\"]\n",
        otlp(collector.addr, "sample-share = 1\nservice-name = \"home\""),
        list.display(),
        silent.local_addr().unwrap(),
        upstream.addr,
    );
    site.configure(upstream.addr, "", &rest);
    let _server = site.start();

    // Resolved by an upstream.
    assert_eq!(site.ask("www.example").0, ADDRESS);
    check_resolved(&site, &upstream, &collector.next());

    // From the cache.
    site.ask("www.example");
    let spans = collector.trace_of("www.example");
    check_tree(&spans);
    assert_eq!((spans.len(), spans[0].get("avocet.stage")), (1, "packet-hit"));
    assert_eq!(spans[0].get("avocet.cache"), "hit");

    // With a server that does not answer.
    assert_eq!(site.ask("www.retry.example").0, ADDRESS);
    let spans = collector.trace_of("www.retry.example");
    check_tree(&spans);
    let [root, first, .., last] = &spans[..] else { panic!("{spans:#?}") };
    assert!(first.has_event("timeout") && first.error.is_some(), "{spans:#?}");
    assert_eq!(first.get("server.port"), silent.local_addr().unwrap().port().to_string());
    assert_eq!(last.get("server.port"), upstream.addr.port().to_string());
    assert_eq!(last.get("avocet.rcode"), "NOERROR");
    assert_ne!(last.get("avocet.resend_count"), "", "{spans:#?}");
    assert_eq!(root.get("avocet.upstream.queries"), (spans.len() - 1).to_string());

    // Blocked.
    ask_from(&site, 1, "www.ads.example");
    let spans = collector.trace_of("www.ads.example");
    assert_eq!((spans.len(), spans[0].get("avocet.stage")), (1, "blocked"));
    assert_eq!(spans[0].get("avocet.list"), "ads");

    // Not resolved.
    assert_eq!(ask_from(&site, 1, "www.dead.example"), 2);
    let spans = collector.trace_of("www.dead.example");
    check_tree(&spans);
    let root = &spans[0];
    assert_eq!((root.get("avocet.stage"), root.get("error.type")), ("failed", "SERVFAIL"));
    assert!(root.error.is_some() && root.has_event("failed"), "{root:#?}");
    assert!(spans[1..].iter().all(|span| span.error.is_some()), "{spans:#?}");
    assert!(spans.len() > 1);
    wait_until("five traces", || site.metric("avocet_otlp_traces_total") == 5.0);
    assert!(site.metric("avocet_otlp_spans_total") > 7.0);
}

#[test]
fn only_selected_queries_have_a_trace_and_a_reload_changes_them() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let (collector, other) = (TestCollector::start(), TestCollector::start());
    let dead = free_address();
    let rules = format!(
        "[[trace]]\nname = \"failures\"\noutcomes = [\"failed\"]\n\
         [[trace]]\nname = \"shop\"\nnames = [\"Shop.example\"]\nclients = [\"127.0.0.2\"]\n\
         [[forward]]\nzone = \"dead.example\"\nupstreams = [\"udp://{dead}\"]\n"
    );
    site.configure(upstream.addr, "workers = 1", &(otlp(collector.addr, "") + &rules));
    let server = site.start();
    ask_from(&site, 2, "www.example");
    ask_from(&site, 1, "a.shop.example");
    ask_from(&site, 2, "b.SHOP.example");
    ask_from(&site, 1, "www.dead.example");
    let mut selected = Vec::new();
    while selected.len() < 2 {
        let roots = collector.spans().into_iter().filter(|span| span.kind == 2);
        selected.extend(roots.map(|root| {
            (root.get("dns.question.name").to_owned(), root.get("avocet.selected-by").to_owned())
        }));
    }
    let texts = |all: &[(&str, &str)]| {
        all.iter().map(|(name, by)| ((*name).to_owned(), (*by).to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(selected, texts(&[("b.shop.example", "shop"), ("www.dead.example", "failures")]));

    // Another collector, in JSON, with header fields of a file.
    let headers = site.directory.join("headers");
    fs::write(&headers, "Authorization: Bearer s3cret\nX-Scope: a\n").unwrap();
    fs::set_permissions(&headers, fs::Permissions::from_mode(0o600)).unwrap();
    let keys = "sample-share = 1\nencoding = \"json\"\nheaders-file = \"headers\"";
    site.configure(upstream.addr, "workers = 1", &otlp(other.addr, keys));
    site.avocet_text(&["reload"]);
    assert_eq!(site.ask("json.example").0, ADDRESS);
    let request = other.next();
    let head = &request.head;
    assert!(head.contains("\r\nauthorization: bearer s3cret\r\nx-scope: a\r\n"), "{head}");
    check_tree(&request.spans);
    assert_eq!(request.spans[0].get("dns.question.name"), "json.example");
    assert_eq!(request.spans.len(), 2);
    let shown = site.avocet_text(&["config", "show"]);
    assert!(shown.contains("headers-file") && !shown.contains("s3cret"), "{shown}");

    // Off.
    site.configure(upstream.addr, "workers = 1", "");
    site.avocet_text(&["reload"]);
    site.ask("off.example");
    let log = server.stop();
    assert!(!log.iter().any(|line| line.contains("s3cret")), "{log:?}");
    assert_eq!(other.spans_left(), 0);
}

#[test]
fn traces_conceal_what_privacy_withholds() {
    let (site, upstream, collector) = (Site::new(), Upstream::start(), TestCollector::start());
    let client = |last: u8, privacy: &str| {
        format!(
            "[[client]]\nname = \"c{last}\"\nids = [\"127.0.0.{last}\"]\nprivacy = \"{privacy}\"\n"
        )
    };
    let clients = [(2, "truncated"), (3, "pseudonym"), (4, "no-names"), (5, "off"), (6, "full")];
    let clients: String = clients.map(|(last, privacy)| client(last, privacy)).concat();
    let rest = otlp(collector.addr, "sample-share = 1") + &clients;
    site.configure(upstream.addr, "workers = 1", &rest);
    let server = site.start();
    for last in 2..=6 {
        ask_from(&site, last, &format!("www.c{last}.example"));
    }
    server.stop();
    let mut spans = Vec::new();
    while spans.iter().filter(|span: &&Seen| span.kind == 2).count() < 4 {
        spans.extend(collector.spans());
    }
    let roots: Vec<_> = spans.iter().filter(|span| span.kind == 2).collect();
    let addresses: Vec<_> = roots.iter().map(|root| root.get("client.address")).collect();
    assert_eq!((addresses[0], addresses[2], addresses[3]), ("127.0.0.0", "127.0.0.4", "127.0.0.6"));
    assert!(addresses[1].contains(':'), "{addresses:?}");
    let names: Vec<_> = roots.iter().map(|root| root.get("dns.question.name")).collect();
    assert_eq!(names, ["www.c2.example", "www.c3.example", "", "www.c6.example"]);
    // Without names there is nothing below, either.
    let below = |root: &Seen| spans.iter().filter(|span| span.parent == root.id).count();
    assert_eq!((below(roots[2]), below(roots[3])), (0, 1));
    assert_eq!(roots[2].get("avocet.upstream.queries"), "1");
    assert!(roots[2].events.is_empty());
    let text = format!("{spans:?}");
    for secret in ["c4.example", "c5.example", "127.0.0.5", "127.0.0.2\"", "127.0.0.3\""] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

#[test]
fn a_collector_that_is_not_there_or_overloaded_gets_traces_later() {
    let (site, upstream, addr) = (Site::new(), Upstream::start(), free_address());
    site.configure(upstream.addr, "", &otlp(addr, "sample-share = 1"));
    let mut server = site.start();
    assert_eq!(site.ask("early.example").0, ADDRESS);
    server.wait_for_line("the collector of traces http://127.0.0.1:");
    assert!(site.avocet_text(&["status"]).contains("warning: the collector of traces"));
    assert_eq!(site.metric("avocet_otlp_waiting_traces"), 1.0);
    let collector = TestCollector::at(addr);
    let busy = "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
    collector.respond(move |number| Some(if number == 0 { busy } else { TAKEN }.to_owned()));
    assert_eq!(collector.trace_of("early.example").len(), 2);
    server.wait_for_line("condition resolved");
    assert!(site.metric("avocet_otlp_retries_total") >= 2.0);
    assert_eq!(site.metric("avocet_otlp_traces_total"), 1.0);
    assert_eq!(site.metric("avocet_otlp_waiting_traces"), 0.0);

    // A request that is refused is not sent again.
    let refused = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";
    collector.respond(move |_| Some(refused.to_owned()));
    site.ask("refused.example");
    server.wait_for_line("refuses requests: status 401");
    assert_eq!(site.metric("avocet_otlp_dropped_total{reason=\"refused\"}"), 1.0);

    // A part of a request.
    let body = [0x0a, 7, 0x08, 1, 0x12, 3, b'b', b'a', b'd'].map(char::from);
    let partly = format!("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", String::from_iter(body));
    collector.respond(move |_| Some(partly.clone()));
    site.ask("partly.example");
    collector.trace_of("partly.example");
    wait_until("a rejected span", || site.metric("avocet_otlp_rejected_spans_total") == 1.0);
    assert!(site.avocet_text(&["status"]).contains("rejects spans: bad"));
    server.stop();
}

#[test]
fn a_collector_that_never_answers_delays_neither_queries_nor_the_end() {
    let (site, upstream, collector) = (Site::new(), Upstream::start(), TestCollector::start());
    collector.respond(|_| None);
    let keys = "sample-share = 1\nper-second = 100000";
    site.configure(upstream.addr, "workers = 1", &otlp(collector.addr, keys));
    let server = site.start();
    assert_eq!(site.ask("first.example").0, ADDRESS);
    // More than its queue holds: the thread of the export waits for the collector by now.
    let socket = udp_client();
    let dropped = || site.metric("avocet_otlp_dropped_total{reason=\"queue\"}") > 0.0;
    wait_until("drops in the queue or the backlog", || {
        for _ in 0..600 {
            socket.send_to(&query(7, "first.example"), site.dns).unwrap();
            let mut reply = [0; 512];
            socket.recv(&mut reply).unwrap();
        }
        dropped()
    });
    assert_eq!(site.ask("last.example").0, ADDRESS);
    let log = server.stop();
    assert!(log.iter().any(|line| line.contains("ended")), "{log:?}");
}

#[test]
fn a_second_has_no_more_traces_than_allowed() {
    let (site, upstream, collector) = (Site::new(), Upstream::start(), TestCollector::start());
    let keys = "sample-share = 1\nper-second = 1";
    site.configure(upstream.addr, "workers = 1", &otlp(collector.addr, keys));
    let _server = site.start();
    wait_until("a trace over the limit", || {
        site.ask("www.example");
        site.ask("www.example");
        site.metric("avocet_otlp_dropped_total{reason=\"limit\"}") > 0.0
    });
    assert_eq!(collector.spans()[0].get("dns.question.name"), "www.example");
}

#[test]
fn a_collector_over_https_proves_its_name_by_the_configured_authority() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let (certificate, key) =
        (include_str!("certificates/one.pem"), include_str!("certificates/one.key"));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
        )
        .unwrap();
    let collector = TestCollector::with_tls(Arc::new(tls));
    let url = format!("[otlp]\nendpoint = \"https://{}\"\nsample-share = 1\n", collector.addr);
    site.configure(upstream.addr, "", &url);
    let mut server = site.start();
    site.ask("www.example");
    // The system does not trust the authority of this collector.
    server.wait_for_line("the collector of traces https://");
    fs::write(site.directory.join("ca.pem"), certificate).unwrap();
    site.configure(upstream.addr, "", &(url + "ca = \"ca.pem\"\n"));
    site.avocet_text(&["reload"]);
    assert_eq!(collector.trace_of("www.example").len(), 2);
    server.wait_for_line("condition resolved");
}
