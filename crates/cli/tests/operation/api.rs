//! The HTTP API of the running server, its users and its tokens.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::server::{PATIENCE, Site};
use crate::upstream::Upstream;

fn get(site: &Site, path: &str, token: &str) -> (u16, Value) {
    let head = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}");
    let (status, body) = site.http(&format!("{head}\r\n\r\n"));
    (status, serde_json::from_str(&body).unwrap_or_default())
}

fn post(site: &Site, path: &str, headers: &str, fields: &Value) -> (u16, Value) {
    let body = fields.to_string();
    let (status, body) = site.http(&format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{headers}\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    (status, serde_json::from_str(&body).unwrap_or_default())
}

/// Runs `avocet` with a line of standard input.
fn avocet_with_input(site: &Site, arguments: &[&str], line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_avocet"));
    command.args(arguments).arg("--config").arg(site.file());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(line.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_token_of_the_command_line_reads_and_changes_what_its_scopes_allow() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    assert_eq!(site.http_get("/api/v1/status").0, 401);
    let create = ["token", "create", "test", "--scope", "status:read", "--scope", "cache:write"];
    let token = site.avocet_text(&create).trim_end().to_owned();
    let (status, json) = get(&site, "/api/v1/status", &token);
    assert_eq!((status, &json["mode"]), (200, &json!("forward")));
    assert_eq!(get(&site, "/api/v1/users", &token).0, 403);

    site.ask("www.example");
    let shown = site.avocet_text(&["cache", "show", "www.example"]);
    assert!(shown.starts_with("www.example. ") && shown.contains(" IN A "), "{shown}");
    let nothing = site.avocet_text(&["cache", "show", "other.example"]);
    assert_eq!(nothing, "; nothing is cached for other.example.\n");
    assert_eq!(get(&site, "/api/v1/cache/lookup?name=www.example", &token).0, 403);
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let flush = |name| post(&site, "/api/v1/cache/flush", &bearer, &json!({"name": name}));
    assert_eq!(flush("www.example"), (200, json!({"rrsets": 1})));
    let (status, problem) = flush("a..b");
    assert_eq!((status, &problem["code"]), (422, &json!("invalid-value")));

    let listed = site.avocet_text(&["token", "list"]);
    let id = listed.split(' ').next().unwrap();
    assert!(listed.contains(" test, expires in ") && !listed.contains(&token), "{listed}");
    site.avocet_text(&["token", "revoke", id]);
    assert_eq!(get(&site, "/api/v1/status", &token).0, 401);
    assert_eq!(site.http_get("/health").0, 200, "health needs no token");
    assert_eq!(site.metric("avocet_api_responses_total{status=\"2xx\"}"), 2.0);
    assert_eq!(site.metric("avocet_audit_entries_lost_total"), 0.0);
}

#[test]
fn the_link_in_the_log_adds_the_first_user_once() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let server = site.start();
    let log = server.stop();
    let offer = |log: &[String]| {
        let line = log.iter().find(|line| line.contains("/setup#"))?;
        let link = line.split_once("/setup#").unwrap().1.split(' ').next().unwrap();
        Some(link.to_owned())
    };
    let outdated = offer(&log).unwrap();

    let server = site.start();
    let link = offer(server.seen()).unwrap();
    let set_up = |link: &str| {
        let fields = json!({"link": link, "name": "ada", "password": "correct horse"});
        post(&site, "/api/v1/setup", "", &fields)
    };
    assert_eq!(set_up(&outdated).0, 409);
    assert_eq!(set_up(&link).0, 200);
    assert_eq!(set_up(&link).0, 409);
    let log_in = json!({"name": "ada", "password": "correct horse"});
    let (status, session) = post(&site, "/api/v1/session", "", &log_in);
    assert_eq!((status, &session["name"]), (200, &json!("ada")));
    assert_eq!(site.avocet_text(&["user", "list"]), "ada admin\n");
    server.stop();
    let log = site.start().stop();
    assert_eq!(offer(&log), None, "there is a user");
}

#[test]
fn users_of_the_command_line_are_kept_and_recorded() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let server = site.start();
    let add = ["user", "add", "bob", "--role", "operator"];
    let output = avocet_with_input(&site, &add, "correct horse\n");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "bob operator\n", "{output:?}");
    let again = avocet_with_input(&site, &add, "correct horse\n");
    assert_eq!(again.status.code(), Some(1));
    let limited = site.avocet_text(&["user", "passwd", "bob", "--group", "kids"]);
    let doubt = "; warning: the configuration has no group \"kids\"\n";
    assert_eq!(limited, format!("bob operator, group kids\n{doubt}"));
    assert_eq!(site.avocet_text(&["user", "passwd", "bob", "--no-limits"]), "bob operator\n");
    let short = avocet_with_input(&site, &["user", "passwd", "bob"], "short\n");
    assert!(String::from_utf8_lossy(&short.stderr).contains("10 to 256 octets"), "{short:?}");
    server.stop();

    let _server = site.start();
    let log_in = json!({"name": "bob", "password": "correct horse"});
    assert_eq!(post(&site, "/api/v1/session", "", &log_in).0, 200);
    assert_eq!(site.avocet_text(&["user", "remove", "bob"]), "removed bob\n");
    assert_eq!(post(&site, "/api/v1/session", "", &log_in).0, 401);

    let audit = site.data().join("audit.jsonl");
    for file in [&audit, &site.data().join("access.json")] {
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    let text = fs::read_to_string(audit).unwrap();
    assert!(!text.contains("horse"), "{text}");
    let entries: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let results: Vec<_> = entries
        .iter()
        .map(|entry| format!("{} {}", entry["what"].as_str().unwrap(), entry["result"]))
        .collect();
    assert_eq!(
        results,
        [
            "user-add \"ok\"",
            "user-add \"exists\"",
            "user-change \"ok\"",
            "user-change \"ok\"",
            "user-change \"invalid-value\"",
            "POST /api/v1/session \"ok\"",
            "user-remove \"ok\"",
            "POST /api/v1/session \"unauthenticated\"",
        ]
    );
    assert!(entries[0]["who"].as_str().unwrap().starts_with("uid "), "{}", entries[0]);
}

#[test]
fn a_damaged_file_of_users_is_a_warning() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    fs::create_dir_all(site.data()).unwrap();
    fs::write(site.data().join("access.json"), "{\"users\": [").unwrap();
    let _server = site.start();
    let text = site.avocet_text(&["status"]);
    assert!(text.contains("\nwarning: nobody can log in: "), "{text}");
    assert_eq!(site.metric("avocet_condition{condition=\"access\"}"), 1.0);
}

#[test]
fn a_body_that_never_ends_does_not_hold_a_connection() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    let head = "POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: \
                application/json\r\n";
    let (status, body) = site.http(&format!("{head}Content-Length: 100\r\n\r\n{{"));
    assert_eq!(status, 408, "{body}");
    let (status, body) = site.http(&format!("{head}Content-Length: 99999999999\r\n\r\n"));
    assert_eq!(status, 413, "{body}");
}

#[test]
fn queries_stream_to_a_client_as_they_are_answered() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "[query-log]\nenabled = true");
    let _server = site.start();
    let token = site.avocet_text(&["token", "create", "live", "--scope", "queries:read"]);
    let stream = TcpStream::connect(site.http).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "GET /api/v1/queries/live?under=example HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: \
         Bearer {}\r\n\r\n",
        token.trim_end()
    );
    (&stream).write_all(request.as_bytes()).unwrap();
    let (sender, lines) = channel();
    thread::spawn(move || {
        BufReader::new(stream).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    assert_eq!(lines.recv_timeout(PATIENCE).unwrap(), "HTTP/1.1 200 OK");
    let event = loop {
        // The stream may not follow the log yet.
        site.ask("www.elsewhere");
        site.ask("www.example");
        let mut later = std::iter::from_fn(|| lines.recv_timeout(Duration::from_millis(100)).ok());
        if let Some(event) = later.find(|line| line.contains("\"query\"")) {
            break event;
        }
    };
    let event: Value = serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!(event["query"]["name"], "www.example.");
}

#[test]
fn ten_thousand_followers_of_the_queries_are_refused_within_bounds() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "[query-log]\nenabled = true");
    let server = site.start();
    let token = site.avocet_text(&["token", "create", "live", "--scope", "queries:read"]);
    let request = format!(
        "GET /api/v1/queries/live HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer \
         {}\r\n\r\n",
        token.trim_end()
    );
    let memory = server.most_memory();
    let (mut followers, mut refused) = (Vec::new(), 0);
    for number in 0..10_000_u16 {
        // Each request comes from another client address, so that the limit for one client does not
        // protect the server.
        let [high, low] = number.to_be_bytes();
        let client = SocketAddr::from(([127, 1, high, low.max(1)], 0));
        let stream = avocet_io::tcp::connect(site.http, Some(client)).unwrap();
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        (&stream).write_all(request.as_bytes()).unwrap();
        let mut status = [0; 12];
        (&stream).read_exact(&mut status).unwrap();
        match &status {
            b"HTTP/1.1 200" => followers.push(stream),
            b"HTTP/1.1 503" => refused += 1,
            other => panic!("{}", String::from_utf8_lossy(other)),
        }
    }
    assert_eq!((followers.len(), refused), (24, 9_976));
    let grown = server.most_memory().saturating_sub(memory);
    assert!(grown < 32 << 20, "{grown} octets");
    assert_eq!(site.http_get("/health").0, 200);
    site.ask("www.example");
}
