//! The query log as the running server serves it: searches, overviews and deletions, by commands
//! and over HTTP.

use std::fs;

use serde_json::{Value, json};

use crate::query_log::wait_for_written;
use crate::server::{Server, Site, query, udp_client};
use crate::upstream::Upstream;

const ON: &str = "[query-log]\nenabled = true\n";
/// Blocks a name and those below it.
const POLICY: &str = "[[rule]]\nname = \"no-ads\"\nwhen = 'qname.under(\"ads.example\")'\n\
                      action = \"block\"\n";

/// A server with queries in its log: `www.example` twice, `ads.example`, `x.ads.example`, and
/// `other.elsewhere`.
fn site() -> (Site, Upstream, Server) {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", &format!("{POLICY}{ON}"));
    let server = site.start();
    for name in ["www.example", "www.example", "ads.example", "x.ads.example", "other.elsewhere"] {
        site.ask_any(name);
    }
    wait_for_written(&site, 5.0);
    (site, upstream, server)
}

/// Creates a token.
fn token(site: &Site, scopes: &[&str]) -> String {
    let mut arguments = vec!["token", "create", "test"];
    scopes.iter().for_each(|scope| arguments.extend(["--scope", scope]));
    site.avocet_text(&arguments).trim_end().to_owned()
}

fn send(site: &Site, method: &str, path: &str, token: &str) -> (u16, Value) {
    let (status, body) = site.http(&format!(
        "{method} /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\
         Authorization: Bearer {token}\r\n\r\n"
    ));
    (status, serde_json::from_str(&body).unwrap_or_default())
}

/// The names of a page.
fn names(page: &Value) -> Vec<&str> {
    page["queries"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

/// The JSON that a command prints.
fn json_of(site: &Site, arguments: &[&str]) -> Value {
    let text = site.avocet_text(&[arguments, &["--json"]].concat());
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_first_query_to_a_new_upstream_names_it() {
    let site = Site::new();
    let upstreams = [Upstream::start(), Upstream::start(), Upstream::start()];
    site.configure(upstreams[0].addr, "", ON);
    let _server = site.start();
    site.ask_any("0.example");
    for (number, upstream) in upstreams.iter().enumerate().skip(1) {
        site.configure(upstream.addr, "", ON);
        site.avocet_text(&["reload"]);
        site.ask_any(&format!("{number}.example"));
    }
    wait_for_written(&site, 3.0);
    for (number, upstream) in upstreams.iter().enumerate() {
        let address = upstream.addr.to_string();
        let name = format!("{number}.example");
        let found = site.avocet_text(&["log", "search", "--upstream", &address]);
        assert!(found.lines().count() == 1 && found.contains(&name), "{found}");
    }
}

#[test]
fn an_entry_names_its_upstream_although_others_are_configured_before_the_answer() {
    let (site, upstreams) = (Site::new(), [Upstream::start(), Upstream::start()]);
    let configure = |upstream: &Upstream| {
        let text = format!(
            "[server]\nlisten = [\"{}\"]\nhttp = \"{}\"\n[[forward]]\nzone = \".\"\nupstreams = \
             [\"udp://{}\"]\ntimeout-min-ms = 5000\ntimeout-max-ms = 5000\n[data]\ndirectory = \
             \"{}\"\n{ON}",
            site.dns,
            site.http,
            upstream.addr,
            site.data().display()
        );
        site.write(&text);
    };
    configure(&upstreams[0]);
    let _server = site.start();
    let (client, held) = (udp_client(), upstreams[0].hold());
    client.send_to(&query(1, "0.example"), site.dns).unwrap();
    upstreams[0].wait_for_question();
    configure(&upstreams[1]);
    site.avocet_text(&["reload"]);
    site.ask_any("1.example");
    drop(held);
    client.recv(&mut [0; 512]).unwrap();
    wait_for_written(&site, 2.0);
    for (number, upstream) in upstreams.iter().enumerate() {
        let address = upstream.addr.to_string();
        let found = site.avocet_text(&["log", "search", "--upstream", &address]);
        assert!(
            found.lines().count() == 1 && found.contains(&format!("{number}.example")),
            "{found}"
        );
    }
}

#[test]
fn a_search_over_http_has_filters_and_pages() {
    let (site, _upstream, _server) = site();
    let token = token(&site, &["queries:read"]);
    let get = |query: &str| {
        let (status, page) = send(&site, "GET", &format!("queries?{query}"), &token);
        assert_eq!(status, 200, "{query}: {page}");
        page
    };
    let all =
        ["other.elsewhere.", "x.ads.example.", "ads.example.", "www.example.", "www.example."];
    let page = get("");
    assert_eq!((names(&page), &page["next"]), (all.to_vec(), &Value::Null), "{page}");
    let check = |query: &str, expected: &[&str]| assert_eq!(names(&get(query)), expected);
    check("name=WWW.example", &all[3..]);
    check("under=ads.example", &all[1..3]);
    check("contains=S.EXAM", &all[1..3]);
    check("contains=ww&kind=answered", &all[3..]);
    check("contains=absent", &[]);
    check("kind=blocked", &all[1..3]);
    check("outcome=packet-hit", &all[4..]);
    check("rule=no-ads&name=ads.example", &all[2..3]);
    check("client=127.0.0.1&type=A&rcode=NOERROR&under=elsewhere", &all[..1]);
    check("device=nobody", &[]);
    check("group=nobody", &[]);
    check("to=1000", &[]);
    // One query a page.
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = get(&format!("limit=1{cursor}"));
        paged.extend(names(&page).into_iter().map(str::to_owned));
        match page["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(paged, all);
    let (status, count) = send(&site, "GET", "queries/count?under=example", &token);
    assert_eq!((status, &count["queries"], &count["next"]), (200, &json!(4), &Value::Null));
    let entry = &get("limit=1")["queries"][0];
    let path = format!("queries/entry?id={}", entry["id"]);
    assert_eq!(send(&site, "GET", &path, &token), (200, entry.clone()));
}

#[test]
fn hostile_requests_are_refused_with_a_reason() {
    let (site, _upstream, _server) = site();
    let reads = token(&site, &["queries:read"]);
    let check = |path: &str, status: u16, code: &str| {
        let (found, problem) = send(&site, "GET", path, &reads);
        assert_eq!((found, problem["code"].as_str()), (status, Some(code)), "{path}: {problem}");
    };
    for cursor in ["x", "-1", "%00", "../../lock", "fffffffffffffffff", "'%3B--"] {
        check(&format!("queries?cursor={cursor}"), 422, "invalid-value");
    }
    check("queries?limit=0", 422, "invalid-value");
    check("queries?limit=1001", 422, "invalid-value");
    check("queries?limit=99999999999999999999", 400, "malformed");
    check("queries?name=a..b", 422, "invalid-value");
    check("queries?type=NOTYPE", 422, "invalid-value");
    check("queries?from=2&to=1", 422, "invalid-value");
    check("queries/entry?id=18446744073709551615", 404, "not-found");
    check("queries/entry?id=123456", 404, "not-found");
    check("statistics?limit=101", 422, "invalid-value");
    check("series?step=1", 403, "forbidden");
    // A position after all queries is that of the first page.
    let (status, page) = send(&site, "GET", "queries?cursor=ffffffffffffffff", &reads);
    assert_eq!((status, names(&page).len()), (200, 5));
    assert_eq!(send(&site, "DELETE", "queries?all=true", &reads).0, 403);
    let none = token(&site, &["status:read"]);
    assert_eq!(send(&site, "GET", "queries", &none).0, 403);
    assert_eq!(send(&site, "GET", "statistics", &none).0, 403);
    for range in ["from=0&to=18446744073709551615&step=1", "from=0", "step=18446744073709551615"] {
        let (status, series) = send(&site, "GET", &format!("series?{range}"), &none);
        let steps = series["steps"].as_array().unwrap();
        assert!(status == 200 && (1..=1500).contains(&steps.len()), "{range}: {}", steps.len());
        let all: u64 = steps.iter().map(|step| step["queries"].as_u64().unwrap()).sum();
        assert_eq!(all, 5, "{range}");
    }
}

#[test]
fn names_of_queries_control_neither_terminal_nor_page() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", ON);
    let _server = site.start();
    site.ask_any("<script>alert(1)</script>\u{1b}[31m\r\n\u{9b}2j\u{202e}.example");
    wait_for_written(&site, 1.0);
    let shown =
        "<script>alert\\(1\\)</script>\\027[31m\\013\\010\\194\\1552j\\226\\128\\174.example.";
    let text = site.avocet_text(&["log", "search"]);
    assert!(text.trim_end().chars().all(|one| (' '..='~').contains(&one)), "{text:?}");
    let entry = json_of(&site, &["log", "search"]);
    let token = token(&site, &["queries:read"]);
    let (_, page) = send(&site, "GET", "queries", &token);
    assert_eq!(entry["qname"], names(&page)[0]);
    let plain = |name: &str| name.replace(['\\'], "");
    assert_eq!(plain(names(&page)[0]), plain(shown));
    let top = site.avocet_text(&["log", "top", "names"]);
    assert!(top.lines().all(|line| line.chars().all(|one| (' '..='~').contains(&one))), "{top:?}");
    let csv = site.avocet_text(&["log", "export", "--format", "csv"]);
    assert_eq!(csv.lines().count(), 2, "{csv:?}");
}

#[test]
fn overviews_count_what_was_logged_and_survive_the_end_of_the_server() {
    let (site, _upstream, server) = site();
    let check = |site: &Site| {
        let stats = json_of(site, &["log", "stats"]);
        assert_eq!((&stats["queries"], &stats["period"]), (&json!(5), &json!("hour")), "{stats}");
        let outcomes = &stats["outcomes"];
        assert_eq!((&outcomes["answered"], &outcomes["blocked"]), (&json!(3), &json!(2)));
        let top = json_of(site, &["log", "top", "names", "--limit", "1"]);
        assert_eq!(top["texts"], json!([{"text": "www.example.", "queries": 2, "error": 0}]));
        let blocked = site.avocet_text(&["log", "top", "blocked-names"]);
        let lines: Vec<&str> = blocked.lines().skip(1).map(str::trim_start).collect();
        assert_eq!(lines, ["1  ads.example.", "1  x.ads.example."], "{blocked}");
        let rules = json_of(site, &["log", "top", "rules"]);
        assert_eq!(rules["texts"][0]["text"], "no-ads");
        // With a filter, the entries are counted.
        let under = site.avocet_text(&["log", "top", "names", "--under", "example"]);
        let lines: Vec<&str> = under.lines().map(str::trim_start).collect();
        let expected = ["4 queries", "2  www.example.", "1  ads.example.", "1  x.ads.example."];
        assert_eq!(lines, expected);
        let of_client = ["log", "top", "blocked-names", "--client", "127.0.0.1"];
        let blocked = json_of(site, &[&of_client[..], &["--limit", "1"]].concat());
        assert_eq!(blocked["texts"], json!([{"text": "ads.example.", "queries": 1, "error": 0}]));
        let seen = json_of(site, &["log", "clients"]);
        let client = &seen["clients"][0];
        let secs = |of: &str| client[of].as_u64().unwrap();
        assert_eq!((&client["client"], &seen["left-out"]), (&json!("127.0.0.1"), &json!(0)));
        assert!(secs("first") > 1_000_000_000 && secs("first") <= secs("last"), "{seen}");
        let text = site.avocet_text(&["log", "clients", "127.0.0.1"]);
        assert!(text.contains(" to ") && text.ends_with("  127.0.0.1\n"), "{text}");
        assert_eq!(site.avocet_text(&["log", "clients", "192.0.2.99"]), "");
        secs("first")
    };
    let first = check(&site);
    let token = token(&site, &["queries:read", "status:read"]);
    let (status, clients) = send(&site, "GET", "queries/clients?limit=1", &token);
    assert_eq!((status, &clients["clients"][0]["first"]), (200, &json!(first)));
    assert_eq!(send(&site, "GET", "queries/clients?limit=0", &token).0, 422);
    assert_eq!(send(&site, "GET", "queries/clients?limit=4097", &token).0, 422);
    let (status, statistics) = send(&site, "GET", "statistics?limit=1", &token);
    assert_eq!((status, &statistics["queries"]), (200, &json!(5)));
    let (status, series) = send(&site, "GET", "series?step=60", &token);
    assert_eq!((status, &series["step"]), (200, &json!(60)));
    let counts = series["steps"].as_array().unwrap().iter().map(|one| one["queries"].as_u64());
    assert_eq!(counts.map(Option::unwrap).sum::<u64>(), 5, "{series}");
    let text = site.avocet_text(&["log", "stats"]);
    assert!(text.contains("answered 3 (60.0 %), blocked 2 (40.0 %)"), "{text}");

    server.signal("KILL");
    server.wait();
    // The files have what the server did not store.
    check(&site);
    let server = site.start();
    assert_eq!(check(&site), first);
    server.stop();
    assert_eq!(check(&site), first);
    let empty = json_of(&site, &["log", "stats", "--from", "1000", "--to", "2000"]);
    assert_eq!(empty["queries"], 0);
    let wrong = site.avocet(&["log", "stats", "--from", "2000", "--to", "1000"]);
    assert_eq!(wrong.status.code(), Some(1));
}

#[test]
fn the_running_server_deletes_queries_and_goes_on_logging() {
    let (site, _upstream, server) = site();
    let check = |arguments: &[&str], expected: &str| {
        let prune = [&["log", "prune"], arguments, &["--yes"]].concat();
        assert_eq!(site.avocet_text(&prune), format!("{expected}\n"), "{arguments:?}");
    };
    let count = || site.avocet_text(&["log", "search", "--count"]);
    check(&["--under", "ads.example", "--type", "AAAA"], "0 queries deleted");
    check(&["--outcome", "blocked"], "2 queries deleted");
    assert_eq!(count(), "3\n");
    assert_eq!(site.metric("avocet_querylog_deleted_total"), 2.0);
    site.ask_any("later.example");
    wait_for_written(&site, 6.0);
    assert_eq!(count(), "4\n");
    // A time before now, and what was logged in it.
    check(&["--to", "1w"], "0 queries deleted");
    assert_eq!(site.avocet_text(&["log", "verify"]).split(", ").nth(1), Some("4 entries\n"));
    let reply = json_of(&site, &["log", "prune", "--all", "--yes"]);
    assert_eq!(reply, json!({"queries": 4, "damaged": []}));
    assert_eq!(json_of(&site, &["log", "stats"])["queries"], 0);
    assert_eq!(json_of(&site, &["log", "clients"])["clients"], json!([]));
    site.ask_any("last.example");
    wait_for_written(&site, 7.0);
    assert_eq!(count(), "1\n");
    let audit = fs::read_to_string(site.data().join("audit.jsonl")).unwrap();
    assert!(audit.contains("\"log-prune\""), "{audit}");

    let token = token(&site, &["queries:write"]);
    let delete = |query: &str| send(&site, "DELETE", &format!("queries{query}"), &token);
    assert_eq!(delete("").0, 422, "neither a filter nor all");
    assert_eq!(delete("?all=true&name=a").0, 422);
    assert_eq!(delete("?name=last.example"), (200, json!({"queries": 1, "damaged": []})));
    site.ask_any("www.example");
    wait_for_written(&site, 8.0);
    server.stop();
    // Without a server, the command changes the files.
    let output = site.avocet(&["log", "prune", "--all"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("would delete 1 queries") && errors.contains("--yes"), "{errors}");
    assert_eq!((output.status.code(), count().as_str()), (Some(1), "1\n"));
    check(&["--name", "www.example"], "1 queries deleted");
    assert_eq!(count(), "0\n");
    let refused = site.avocet(&["log", "prune", "--yes"]);
    assert_eq!(refused.status.code(), Some(1), "everything needs --all");
}

#[test]
fn without_a_log_the_reason_is_shown() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    let reads = token(&site, &["queries:read", "status:read", "queries:write"]);
    for (method, path) in [
        ("GET", "queries"),
        ("GET", "queries/count"),
        ("GET", "statistics"),
        ("GET", "series"),
        ("GET", "queries/clients"),
        ("DELETE", "queries?all=true"),
    ] {
        let (status, problem) = send(&site, method, path, &reads);
        assert_eq!(
            (status, &problem["code"]),
            (409, &json!("not-configured")),
            "{path}: {problem}"
        );
        assert_eq!(problem["next"], "set enabled = true in [query-log]");
    }
    let output = site.avocet(&["log", "stats"]);
    assert!(String::from_utf8(output.stderr).unwrap().contains("queries are not logged"));
}

#[test]
fn the_load_has_the_workers_the_memory_and_the_writer_of_the_log() {
    let (site, _upstream, _server) = site();
    let load = json_of(&site, &["status", "--load"]);
    let token = token(&site, &["status:read"]);
    let (status, same) = send(&site, "GET", "load", &token);
    assert_eq!((status, &same["query-log"]["entries"]), (200, &load["query-log"]["entries"]));
    let workers = load["workers"].as_array().unwrap();
    let total = |field: &str| -> u64 {
        workers.iter().map(|one| one.pointer(field).unwrap().as_u64().unwrap()).sum()
    };
    assert_eq!((total("/queries"), total("/datagrams")), (5, 5));
    // Two names were resolved; the repetition is from the cache, and two names are blocked.
    assert_eq!((total("/miss-latency/queries"), total("/hit-latency/queries")), (2, 3));
    assert!((1..=5).contains(&total("/batches")));
    let caches = load["memory"]["caches"].as_array().unwrap();
    let packet = &caches[0];
    assert_eq!((&packet["cache"], &packet["hits"]), (&json!("packet"), &json!(1)));
    assert_eq!((&packet["misses"], &packet["hit-ratio"]), (&json!(2), &json!(1.0 / 3.0)));
    assert!(load["memory"]["resident-bytes"].as_u64().unwrap() > 1 << 20);
    let log = &load["query-log"];
    assert_eq!(
        (&log["writes"], &log["written"], &log["dropped"]),
        (&json!(true), &json!(5), &json!(0))
    );
    assert!(log["ring-peak"].as_f64().unwrap() > 0.0 && log["speed"].as_f64().unwrap() > 0.0);
    let text = site.avocet_text(&["status", "--load"]);
    for part in
        ["worker 0: ", "\ncache packet: ", ", 33.3 % hits\n", "\nmemory: ", "\nquery log: 5 "]
    {
        assert!(text.contains(part), "{part:?} in:\n{text}");
    }
}

#[test]
fn lists_show_what_only_they_block() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let mut tables = ON.to_owned();
    for (name, text) in [("ads", "both.example\nads.example\n"), ("more", "both.example\n")] {
        let file = site.directory.join(name);
        fs::write(&file, text).unwrap();
        tables += &format!("[[list]]\nname = \"{name}\"\nfile = \"{}\"\n", file.display());
    }
    site.configure(upstream.addr, "", &tables);
    let _server = site.start();
    for name in ["both.example", "ads.example", "ads.example", "www.example"] {
        site.ask_any(name);
    }
    wait_for_written(&site, 4.0);
    let report = json_of(&site, &["lists", "status"]);
    let share = |place: usize| {
        let share = &report["lists"][place]["share"];
        (share["queries"].as_u64().unwrap(), share["alone"].as_u64().unwrap(), &share["error"])
    };
    assert_eq!((share(0), share(1)), ((3, 2, &json!(0)), (1, 0, &json!(0))));
    let text = site.avocet_text(&["lists", "status"]);
    assert!(text.contains("  has the names of 3 blocked queries since "), "{text}");
    assert!(text.contains(", 2 of them are in no other list\n"), "{text}");
}
