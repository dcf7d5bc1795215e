//! Hosted zones of a running server: list, show, reload, export, their metrics and rights.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};

use crate::server::{Server, Site, query, udp_client};
use crate::upstream::Upstream;

fn zone_text(serial: u32, rest: &str) -> String {
    format!("$TTL 60\n@ SOA ns host {serial} 2h 3m 4w 60\n@ NS ns\nns A 192.0.2.1\n{rest}")
}

/// A server that hosts `corp.example`; a changed file is not read by itself.
struct Hosting {
    site: Site,
    server: Server,
    file: PathBuf,
    _upstream: Upstream,
}

impl Hosting {
    fn start(text: &str) -> Self {
        let (upstream, site) = (Upstream::start(), Site::new());
        let file = site.directory.join("corp.zone");
        fs::write(&file, text).unwrap();
        let zone = format!(
            "[[zone]]\nname = \"corp.example\"\nfile = \"{}\"\nsettle-secs = 3600\n",
            file.display()
        );
        site.configure(upstream.addr, "", &zone);
        let server = site.start();
        Self { site, server, file, _upstream: upstream }
    }

    fn api(&self, method: &str, path: &str, token: &str, fields: &Value) -> (u16, Value) {
        let body = if method == "POST" { fields.to_string() } else { String::new() };
        let request = format!(
            "{method} /api/v1{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \
             {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: \
             close\r\n\r\n{body}",
            body.len()
        );
        let (status, text) = self.site.http(&request);
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    fn token(&self, scope: &str) -> String {
        let text = self.site.avocet_text(&["token", "create", "t", "--scope", scope, "--json"]);
        let reply: Value = serde_json::from_str(&text).unwrap();
        reply["token"].as_str().unwrap().to_owned()
    }

    fn zone(&self) -> Value {
        let text = self.site.avocet_text(&["zone", "list", "--json"]);
        let reply: Value = serde_json::from_str(&text).unwrap();
        reply["zones"][0].clone()
    }
}

fn errors(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn a_reload_takes_a_good_file_and_keeps_the_zone_after_a_broken_or_vanished_one() {
    let mut hosting = Hosting::start(&zone_text(1, "www A 192.0.2.10\n"));
    let site = &hosting.site;
    assert_eq!(site.ask("www.corp.example").0, [192, 0, 2, 10]);
    assert_eq!(
        (hosting.zone()["state"].as_str(), hosting.zone()["serial"].as_u64()),
        (Some("served"), Some(1))
    );

    fs::write(&hosting.file, zone_text(2, "www A 192.0.2.20\n")).unwrap();
    let text = site.avocet_text(&["zone", "reload", "corp.example"]);
    assert!(text.starts_with("zone corp.example.: served, serial 2, 4 records"), "{text}");
    assert_eq!(site.ask("www.corp.example").0, [192, 0, 2, 20]);

    fs::write(&hosting.file, zone_text(3, "www A 192.0.2\n")).unwrap();
    let place = format!("{}:5:7: ", hosting.file.display());
    let output = site.avocet(&["zone", "reload"]);
    assert_eq!(output.status.code(), Some(1));
    let text = errors(&output);
    assert!(text.contains("out-of-date, serial 2") && text.contains(&place), "{text}");
    hosting.server.wait_for_line(&place);
    let checked = site.avocet(&["check"]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(errors(&checked).contains(&place), "{}", errors(&checked));
    assert_eq!(site.ask("www.corp.example").0, [192, 0, 2, 20]);
    assert_eq!(site.metric("avocet_zone_failing{zone=\"corp.example.\"}"), 1.0);
    assert_eq!(site.metric("avocet_zone_serial{zone=\"corp.example.\"}"), 2.0);

    fs::remove_file(&hosting.file).unwrap();
    let output = site.avocet(&["zone", "reload", "corp.example"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("there is no such file"), "{}", errors(&output));
    assert_eq!(site.ask("www.corp.example").0, [192, 0, 2, 20]);
    assert_eq!(site.metric("avocet_zone_load_failures_total{zone=\"corp.example.\"}"), 2.0);
    let status = site.avocet_text(&["status"]);
    assert!(status.contains("serial 2 stays"), "{status}");
    // Anybody may read the health: it has neither names nor texts of files.
    let health =
        "healthy\nwarning: zones: a hosted zone has errors\nfor the causes: avocet status\n";
    assert_eq!(site.http_get("/health"), (200, health.to_owned()));
    assert!(status.contains("zone corp.example.: out-of-date, serial 2"), "{status}");

    fs::write(&hosting.file, zone_text(4, "www A 192.0.2.40\n")).unwrap();
    site.avocet_text(&["zone", "reload", "corp.example"]);
    assert_eq!(site.ask("www.corp.example").0, [192, 0, 2, 40]);
    assert_eq!(site.metric("avocet_zone_failing{zone=\"corp.example.\"}"), 0.0);
    assert!(!site.avocet_text(&["status"]).contains("warning: zone"));
    let output = site.avocet(&["zone", "reload", "other.example"]);
    assert!(errors(&output).contains("no hosted zone \"other.example\""), "{}", errors(&output));
    let why = site.avocet_text(&["why", "www.corp.example"]);
    assert!(why.contains("hosted zone"), "{why}");
}

#[test]
fn a_take_over_is_refused_while_the_file_of_a_served_zone_has_errors() {
    let Hosting { site, mut server, file, _upstream } = Hosting::start(&zone_text(1, ""));
    let take_over = || {
        let output = site.serve().arg("--take-over").output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    fs::write(&file, zone_text(2, "www A 1.2\n")).unwrap();
    // The server has not read the edit yet, and then has read it.
    for is_read in [false, true] {
        if is_read {
            let output = site.avocet(&["zone", "reload", "corp.example"]);
            assert_eq!(output.status.code(), Some(1));
        }
        let (is_done, said) = take_over();
        assert!(!is_done && said.contains("the file of a zone has errors"), "{said}");
        server.wait_for_line("zone corp.example.: the file of a zone has errors");
        assert_eq!(site.ask("ns.corp.example").0, [192, 0, 2, 1]);
    }
    fs::write(&file, zone_text(3, "www A 192.0.2.2\n")).unwrap();
    let mut command = site.serve();
    command.arg("--take-over");
    let _successor = Server::start(command);
    server.wait();
    assert_eq!(site.ask("www.corp.example").0, [192, 0, 2, 2]);
}

#[test]
fn pages_of_records_make_up_the_zone_and_its_export_is_the_same_zone() {
    let hosts: String = (0..40).map(|host| format!("h{host} A 192.0.2.{host}\n")).collect();
    let hosting = Hosting::start(&zone_text(9, &hosts));
    let site = &hosting.site;
    let token = hosting.token("zones:read");
    let mut records = Vec::new();
    let mut after = String::new();
    for page in 0.. {
        let path = format!("/zones/records?name=corp.example&limit=7{after}");
        let (status, reply) = hosting.api("GET", &path, &token, &Value::Null);
        assert_eq!((status, reply["serial"].as_u64()), (200, Some(9)), "{reply}");
        records.extend(reply["records"].as_array().unwrap().clone());
        assert!(page < 10, "{reply}");
        let Some(next) = reply["next"].as_str() else { break };
        after = format!("&after={}", next.replace(' ', "%20"));
    }
    assert_eq!(records.len(), 43);
    assert_eq!(records[0]["type"], "NS");

    let text = site.avocet_text(&["zone", "export", "corp.example"]);
    assert!(text.starts_with("corp.example. 60 IN SOA ns.corp.example. "), "{text}");
    assert_eq!(text.lines().count(), 43);
    fs::write(&hosting.file, &text).unwrap();
    site.avocet_text(&["zone", "reload"]);
    assert_eq!(site.avocet_text(&["zone", "export", "corp.example"]), text);

    for owner in ["h7", "h7.corp.example", "H7.Corp.Example."] {
        let shown = site.avocet_text(&["zone", "show", "corp.example", owner]);
        assert_eq!(shown, "h7.corp.example. 60 IN A 192.0.2.7\n", "{owner}");
    }
    let shown = site.avocet_text(&["zone", "show", "corp.example", "--limit", "3"]);
    assert_eq!(shown.lines().last(), Some("; more: --after \"h0.corp.example. A\""));
    for wrong in [
        &["zone", "show", "corp.example", "none"][..],
        &["zone", "show", "other.example"],
        &["zone", "show", "corp.example", "--after", "x"],
        &["zone", "show", "corp.example", "--limit", "0"],
        &["zone", "export", ".."],
    ] {
        assert_eq!(site.avocet(wrong).status.code(), Some(1), "{wrong:?}");
    }
}

#[test]
fn rights_decide_who_reads_and_reloads_zones() {
    let hosting = Hosting::start(&zone_text(1, ""));
    let (reads, writes) = (hosting.token("zones:read"), hosting.token("zones:write"));
    let status = hosting.token("status:read");
    let of_zone = json!({"name": "corp.example"});
    let all = Value::Null;
    let asked =
        |method, path, token: &str, fields: &Value| hosting.api(method, path, token, fields).0;
    assert_eq!(asked("GET", "/zones", &status, &all), 200);
    assert_eq!(asked("GET", "/zones?name=corp.example", &status, &all), 200);
    assert_eq!(asked("GET", "/zones?name=other.example", &status, &all), 404);
    assert_eq!(asked("GET", "/zones/records?name=corp.example", &status, &all), 403);
    assert_eq!(asked("GET", "/zones/export?name=corp.example", &reads, &all), 200);
    assert_eq!(asked("POST", "/zones/reload", &reads, &of_zone), 403);
    assert_eq!(asked("POST", "/zones/reload", &writes, &of_zone), 200);
    let audit = fs::read_to_string(hosting.site.data().join("audit.jsonl")).unwrap_or_default();
    assert!(
        audit.contains("/api/v1/zones/reload\",\"fields\":{\"name\":\"corp.example\"}"),
        "{audit}"
    );
}

/// Records of the name that each query of the load is for.
const HOSTS: u8 = 5;
/// Queries on the way of one client.
const WINDOW: u16 = 32;

/// A version of the zone: all addresses of a name have its number.
fn version(number: u8) -> String {
    let host = |host: u8| format!("www A 10.0.{number}.{host}\n");
    zone_text(number.into(), &(1..=HOSTS).map(host).collect::<String>())
}

/// Returns the version that a reply is from.
fn version_of(reply: &[u8], asked: &[u8]) -> u8 {
    assert_eq!((reply[3] & 15, reply[7]), (0, HOSTS), "{reply:?}");
    let records = reply[asked.len()..].chunks_exact(16).take(HOSTS.into());
    let addresses: BTreeSet<[u8; 4]> =
        records.map(|record| *record.last_chunk().unwrap()).collect();
    let versions: BTreeSet<u8> = addresses.iter().map(|address| address[2]).collect();
    assert_eq!((addresses.len(), versions.len()), (HOSTS.into(), 1), "{addresses:?}");
    *versions.first().unwrap()
}

/// Sends queries until the end, and checks that each one is answered by a whole version, and by
/// none that is earlier than that of an answer before. Returns the number of answers.
fn ask_on(dns: SocketAddr, is_over: &AtomicBool) -> usize {
    let (socket, asked) = (udp_client(), query(0, "www.corp.example"));
    let (mut answers, mut latest, mut reply) = (0, 0, [0; 512]);
    while !is_over.load(Ordering::Relaxed) {
        for id in 0..WINDOW {
            socket.send_to(&query(id, "www.corp.example"), dns).unwrap();
        }
        let mut missing: BTreeSet<u16> = (0..WINDOW).collect();
        let mut newest = latest;
        while !missing.is_empty() {
            let len = socket.recv(&mut reply).expect("no query stays without an answer");
            let found = version_of(&reply[..len], &asked);
            assert!(missing.remove(&u16::from_be_bytes([reply[0], reply[1]])));
            assert!(found >= latest, "version {found} after {latest}");
            newest = newest.max(found);
            answers += 1;
        }
        latest = newest;
    }
    answers
}

#[test]
fn replacing_a_zone_under_load_loses_no_answer_and_mixes_no_versions() {
    let hosting = Hosting::start(&version(1));
    let (site, is_over) = (&hosting.site, AtomicBool::new(false));
    let answers: usize = thread::scope(|scope| {
        let clients = [(); 3].map(|()| scope.spawn(|| ask_on(site.dns, &is_over)));
        for number in 2..=20 {
            fs::write(&hosting.file, version(number)).unwrap();
            site.avocet_text(&["zone", "reload", "corp.example"]);
        }
        is_over.store(true, Ordering::Relaxed);
        clients.map(|client| client.join().unwrap()).iter().sum()
    });
    assert!(answers >= 3 * usize::from(WINDOW), "{answers}");
    assert_eq!(site.ask("www.corp.example").0[..3], [10, 0, 20]);
}
