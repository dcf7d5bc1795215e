//! `avocet why --at` for a query in the past, from the query log of a running server.

use std::fs;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::server::{PATIENCE, Site};
use crate::upstream::Upstream;

const ON: &str = "[query-log]\nenabled = true\n";

fn now_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Waits until something is the case.
pub(crate) fn wait_until(what: &str, is: impl Fn() -> bool) {
    for _ in 0..PATIENCE.as_secs() * 100 {
        if is() {
            return;
        }
        thread::park_timeout(Duration::from_millis(10));
    }
    panic!("it never happens: {what}");
}

/// Asks for a name, and waits until it is in the files. Returns the second of the query.
fn ask_logged(site: &Site, name: &str) -> u64 {
    let before = site.metric("avocet_querylog_written_total");
    let asked = now_secs();
    site.ask_any(name);
    wait_until("the entry is written", || site.metric("avocet_querylog_written_total") > before);
    // A revision accepted in the same second counts as in force.
    wait_until("the second is over", || now_secs() > asked + 1);
    asked
}

/// A list that blocks `www.example`.
fn blocking(site: &Site) -> String {
    let list = site.directory.join("ads.txt");
    fs::write(&list, "||www.example^\n").unwrap();
    format!("[[list]]\nname = \"ads\"\nfile = \"{}\"\n", list.display())
}

#[test]
fn why_compares_a_decision_of_the_past_with_the_present_one() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let list = blocking(&site);
    site.configure(upstream.addr, "", &format!("{ON}{list}"));
    let _server = site.start();
    let at = ask_logged(&site, "www.example").to_string();
    let why = ["why", "www.example", "--at", &at];
    let text = site.avocet_text(&why);
    for part in [
        "Decided then: blocked by list ads, NOERROR\n  query of 127.0.0.1 for www.example. A at ",
        "\n  answer: 0.0.0.0\n  revision 1 of the configuration, since ",
        "; still in force\nDecided now: blocked by list ads, NOERROR\n  the same as then\n",
        "The policy: blocked by list ads",
    ] {
        assert!(text.contains(part), "{part:?} in:\n{text}");
    }

    site.configure(upstream.addr, "", ON);
    site.avocet_text(&["reload"]);
    let text = site.avocet_text(&why);
    for part in [
        "Decided then: blocked by list ads, NOERROR\n",
        "; now revision 2 is in force\nDecided now: resolved, NOERROR\n  different from then: the \
         outcome\n  possible reason: another configuration; see `avocet config diff 1 2`\n",
    ] {
        assert!(text.contains(part), "{part:?} in:\n{text}");
    }
    let json = site.avocet_text(&["why", "www.example", "--at", &at, "--json"]);
    let past: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!(past["section"], "past");
    assert_eq!((&past["log"], &past["query"]["lists"][0]), (&"found".into(), &"ads".into()));
    assert_eq!((&past["revision"]["number"], &past["present-revision"]), (&1.into(), &2.into()));
    assert_eq!(past["reasons"], serde_json::json!(["configuration"]));
}

#[test]
fn the_nearest_query_of_the_same_client_and_type_is_shown() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", ON);
    let _server = site.start();
    let first = ask_logged(&site, "www.example");
    let second = ask_logged(&site, "www.example");
    let stage_at = |at: u64, rest: &[&str]| {
        let at = at.to_string();
        let json =
            site.avocet_text(&[&["why", "www.example", "--json", "--at", &at], rest].concat());
        let past: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
        let word = past["query"]["outcome"].as_str().unwrap_or("none").to_owned();
        (past["log"].as_str().unwrap().to_owned(), word)
    };
    let found = |stage: &str| ("found".to_owned(), stage.to_owned());
    assert_eq!(stage_at(first, &[]), found("resolved"));
    assert_eq!(stage_at(second, &[]), found("packet-hit"));
    assert_eq!(stage_at(second, &["--type", "A"]), found("packet-hit"));
    let not_found = ("not-found".to_owned(), "none".to_owned());
    assert_eq!(stage_at(second, &["--type", "AAAA"]), not_found);
    assert_eq!(stage_at(second, &["--client", "127.0.0.8"]), not_found);
    assert_eq!(stage_at(second - 3600, &[]), not_found);
}

#[test]
fn a_log_without_the_query_says_so() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    let why = || site.avocet_text(&["why", "www.example", "--at", &now_secs().to_string()]);
    assert!(why().starts_with("What was decided then is unknown: there is no query log"));
    site.configure(upstream.addr, "", ON);
    site.avocet_text(&["reload"]);
    let asked = "The query log has no query of this client for this name within 15 minutes";
    wait_until("the log is open", || why().starts_with(asked));
    site.configure(upstream.addr, "", &format!("{ON}privacy = \"truncated\"\n"));
    site.avocet_text(&["reload"]);
    assert!(why().contains("`privacy` withholds its address or its names"), "{}", why());
    let without = site.avocet_text(&["why", "www.example"]);
    assert!(!without.contains("query log"), "{without}");
}

#[test]
fn only_readers_of_queries_see_the_past_over_the_interface() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", ON);
    let _server = site.start();
    let at = ask_logged(&site, "www.example");
    let sections = |scopes: &[&str], rest: &str| -> Vec<String> {
        let scopes: Vec<&str> = scopes.iter().flat_map(|scope| ["--scope", scope]).collect();
        let name = format!("t{}", scopes.len() + rest.len());
        let create = [&["token", "create", name.as_str()][..], &scopes].concat();
        let token = site.avocet_text(&create).trim().to_owned();
        let path = format!("/api/v1/explain?name=www.example&at={at}{rest}");
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        let (status, body) = site.http(&request);
        assert_eq!(status, 200, "{body}");
        let reply: Value = serde_json::from_str(&body).unwrap();
        let all = reply["sections"].as_array().unwrap().iter();
        all.map(|section| section["section"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(sections(&["explain", "queries:read"], "")[0], "past");
    assert_ne!(sections(&["explain"], "")[0], "past");
    assert_ne!(sections(&["explain"], "&logged=true")[0], "past");
}
