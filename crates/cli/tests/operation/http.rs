//! Metrics and health over HTTP.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use crate::server::{PATIENCE, Site, ask_over_tcp};
use crate::upstream::Upstream;

/// Checks the syntax of the text format; returns the names of all series.
fn series(text: &str) -> BTreeSet<String> {
    let mut families: Vec<(String, String)> = Vec::new();
    let mut helped = BTreeSet::new();
    let mut series = BTreeSet::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').unwrap();
            assert!(words.ends_with('.'), "{line}");
            assert!(helped.insert(name.to_owned()), "HELP twice: {name}");
            continue;
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(helped.contains(name), "TYPE without HELP: {name}");
            assert!(families.iter().all(|(other, _)| other != name), "TYPE twice: {name}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            families.push((name.to_owned(), kind.to_owned()));
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        value.parse::<f64>().unwrap();
        let name = sample.split('{').next().unwrap();
        let (family, kind) = families.last().unwrap();
        let suffix = name
            .strip_prefix(family.as_str())
            .unwrap_or_else(|| panic!("{name} stands under {family}"));
        let allowed: &[&str] =
            if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        assert!(allowed.contains(&suffix), "{name} of {kind} {family}");
        assert!(
            name.starts_with("avocet_") && !name.contains("milli") && !name.contains("micro"),
            "{name}"
        );
        assert!(series.insert(sample.to_owned()), "twice: {sample}");
    }
    series
}

#[test]
fn metrics_are_well_formed_and_count_queries() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(
        upstream.addr,
        "",
        "[[record]]\nname = \"host.lan\"\ntype = \"A\"\nvalues = [\"10.0.0.1\"]\n",
    );
    let _server = site.start();
    let before = series(&site.http_get("/metrics").1);
    for _ in 0..4 {
        site.ask("host.lan");
    }
    site.ask("miss.example");
    site.ask("miss.example");
    ask_over_tcp(site.dns, "miss.example");
    for (sample, expected) in [
        ("avocet_queries_total{transport=\"udp\"}", 6.0),
        ("avocet_queries_total{transport=\"tcp\"}", 1.0),
        ("avocet_query_types_total{type=\"A\"}", 7.0),
        ("avocet_query_outcomes_total{outcome=\"local\"}", 4.0),
        ("avocet_query_outcomes_total{outcome=\"resolved\"}", 1.0),
        ("avocet_query_outcomes_total{outcome=\"packet-hit\"}", 2.0),
        ("avocet_answers_total{rcode=\"NOERROR\"}", 7.0),
        ("avocet_answers_total{rcode=\"SERVFAIL\"}", 0.0),
        ("avocet_cache_entries{cache=\"rrset\"}", 1.0),
        ("avocet_answer_duration_seconds_count{path=\"miss\"}", 1.0),
        ("avocet_tcp_accepted_total", 1.0),
    ] {
        assert_eq!(site.metric(sample), expected, "{sample}");
    }
    assert_eq!(
        series(&site.http_get("/metrics").1)
            .difference(&before)
            .filter(|name| !name.contains("upstream"))
            .count(),
        0
    );
}

#[test]
fn names_that_clients_choose_make_no_series() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let mut server = site.start();
    site.ask("first.example");
    wait_for_upstream_series(&site);
    let before = series(&site.http_get("/metrics").1);
    for number in 0..200 {
        site.ask(&format!("n{number}.example"));
    }
    assert_eq!(series(&site.http_get("/metrics").1), before);
    server.signal("TERM");
    server.wait_for_line("ended");
}

/// Waits until workers publish their upstreams, which they do at the next check of their timeouts.
pub(crate) fn wait_for_upstream_series(site: &Site) {
    while !site.http_get("/metrics").1.contains("\navocet_upstream_unpredictable_bits ") {
        std::thread::yield_now();
    }
}

#[test]
fn health_and_readiness_are_reported() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let server = site.start();
    while site.http_get("/ready").0 != 200 {
        std::thread::yield_now();
    }
    assert_eq!(site.http_get("/health"), (200, "healthy\n".to_owned()));
    let (status, page) = site.http_get("/");
    assert!(status == 200 && page.contains("<title>Avocet</title>"), "{page}");
    assert_eq!(
        site.http("POST /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n").0,
        405
    );

    let held = upstream.hold();
    let client = crate::server::udp_client();
    client.send_to(&crate::server::query(1, "slow.example"), site.dns).unwrap();
    upstream.wait_for_question();
    server.signal("TERM");
    while site.http_get("/ready").0 != 503 {
        std::thread::yield_now();
    }
    drop(held);
    assert_eq!(server.wait().0, Some(0));
}

#[test]
fn a_request_beyond_all_bounds_is_cut_off() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    let (status, _) = site
        .http(&format!("GET /metrics HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(7 << 10)));
    assert_eq!(status, 200);
    let (status, _) = site.http(&format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(8 << 10)));
    assert_eq!(status, 431);
}

#[test]
fn a_silent_client_does_not_block_others() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    let other = std::net::SocketAddr::from(([127, 0, 0, 9], 0));
    let silent: Vec<_> =
        (0..64).map(|_| avocet_io::tcp::connect(site.http, Some(other)).unwrap()).collect();
    assert_eq!(site.http_get("/health").0, 200);
    // Connections over the limit of one client were closed before it was served.
    let is_open = |stream: &&TcpStream| {
        stream.peek(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    // On a busy machine, the time for a request may be over for some.
    assert!(silent.iter().filter(is_open).count() <= 48);
}

/// Sends a request over a connection that stays, and returns the head of the response.
fn head_of(stream: &mut BufReader<TcpStream>, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    stream.get_mut().write_all(request.as_bytes()).unwrap();
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(stream.read_line(&mut head).unwrap() > 0, "{head}");
    }
    let len = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    stream.read_exact(&mut vec![0; len.parse().unwrap()]).unwrap();
    head
}

#[test]
fn a_connection_takes_a_hundred_requests_and_does_not_wait_for_long() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    let connect = || {
        let stream = TcpStream::connect(site.http).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        BufReader::new(stream)
    };
    let mut stream = connect();
    for number in 1..=100 {
        let path = if number % 2 == 0 { "/health" } else { "/api/v1/openapi.json" };
        let head = head_of(&mut stream, path);
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert_eq!(head.contains("connection: close"), number == 100, "{number}: {head}");
    }
    assert_eq!(stream.read(&mut [0]).unwrap(), 0, "the server has closed it");
    let mut idle = connect();
    head_of(&mut idle, "/health");
    assert_eq!(idle.read(&mut [0]).unwrap(), 0, "the server does not wait for another request");
}

#[test]
fn connections_do_not_stay_while_places_are_few() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    let others: Vec<_> = (0..70)
        .map(|number| {
            let other = std::net::SocketAddr::from(([127, 0, 0, 10 + number], 0));
            avocet_io::tcp::connect(site.http, Some(other)).unwrap()
        })
        .collect();
    let stream = TcpStream::connect(site.http).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let head = head_of(&mut BufReader::new(stream), "/health");
    assert!(head.contains("connection: close"), "{head}");
    drop(others);
}

#[test]
fn metrics_are_not_given_by_a_name_of_a_stranger() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "http-names = [\"dns.example.net\"]", "");
    let _server = site.start();
    let status = |path: &str, host: &str| {
        site.http(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).0
    };
    assert_eq!(status("/metrics", "evil.example:8053"), 403);
    assert_eq!(status("/health", "evil.example:8053"), 200);
    // The name in the target counts, whatever Host says.
    for path in ["/metrics", "/api/v1/session/ways"] {
        let of = |target: &str| {
            let head = format!("GET http://{target}{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
            site.http(&head).0
        };
        assert_eq!((of("evil.example"), of("127.0.0.1:8053")), (403, 200), "{path}");
    }
    for host in ["dns.example.net", "127.0.0.1:8053", "localhost", "nas.lan"] {
        assert_eq!(status("/metrics", host), 200, "{host}");
    }
}

#[test]
fn a_request_without_host_or_with_a_malformed_one_is_refused() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    let (own, foreign) = ("Host: 127.0.0.1\r\n", "Host: evil.example\r\n");
    for path in ["/metrics", "/api/v1/session/ways", "/"] {
        let empty = "Host:\r\n".to_owned();
        for hosts in [String::new(), empty, format!("{own}{foreign}"), format!("{own}{own}")] {
            let status = site.http(&format!("GET {path} HTTP/1.1\r\n{hosts}\r\n")).0;
            assert_eq!(status, 400, "{path} {hosts}");
        }
        assert_eq!(site.http(&format!("GET {path} HTTP/1.1\r\n{own}\r\n")).0, 200, "{path}");
    }
    assert_eq!(site.http(&format!("GET * HTTP/1.1\r\n{own}\r\n")).0, 400);
    // Simple monitoring programs use HTTP/1.0.
    assert_eq!(site.http("GET /metrics HTTP/1.0\r\n\r\n").0, 200);
}
