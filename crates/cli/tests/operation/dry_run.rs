//! `avocet policy dry-run` over the query log of a running server.

use std::collections::BTreeMap;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::server::{PATIENCE, Site, query};
use crate::upstream::Upstream;

const ON: &str = "[query-log]\nenabled = true\n";

/// The rules of the new configuration, besides its list.
const RULES: &str = "[[group]]\nname = \"kids\"\nclients = [\"127.0.0.3\"]\n\
    [[rule]]\nname = \"games\"\nwhen = 'client.group(\"kids\") && qname.under(\"n1.example\")'\n\
    action = \"block\"\n\
    [[rule]]\nname = \"address\"\nwhen = 'qname.under(\"n2.example\") && \
    answer.ip == \"192.0.2.77\"'\naction = \"block\"\n\
    [[rule]]\nname = \"night\"\nwhen = 'qname.under(\"n3.example\") && \
    (now.between(\"00:00\", \"12:00\") || now.between(\"12:00\", \"00:00\"))'\naction = \"block\"\n\
    [[rule]]\nname = \"shadow\"\nwhen = 'qname == \"www.n4.example\"'\naction = \"block\"\n\
    log-only = true\n";

/// A list of some of the names that the test asks for.
fn list(site: &Site, name: &str, has: impl Fn(u32) -> bool) -> String {
    let path = site.directory.join(format!("{name}.txt"));
    let lines: String = (0..40).filter(|n| has(*n)).map(|n| format!("l{n}.example\n")).collect();
    fs::write(&path, lines).unwrap();
    format!("[[list]]\nname = \"{name}\"\nfile = \"{}\"\n", path.display())
}

/// The queries: client and name.
fn queries() -> Vec<(u8, String)> {
    let lists = (0..40).flat_map(|n| [(2, format!("l{n}.example")), (3, format!("l{n}.example"))]);
    let rules =
        (1..5).flat_map(|n| (2..4).map(move |client| (client, format!("www.n{n}.example"))));
    // Some of them twice.
    let again = (0..9).map(|n| (2, format!("l{n}.example")));
    lists.chain(rules).chain(again).collect()
}

/// Sends the queries one after another.
fn ask_all(site: &Site) {
    for (client, name) in queries() {
        let socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, client], 0))).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send_to(&query(7, &name), site.dns).unwrap();
        socket.recv(&mut [0; 512]).unwrap();
    }
    let all = queries().len() as f64;
    for _ in 0..PATIENCE.as_secs() * 100 {
        if site.metric("avocet_querylog_written_total") >= all {
            return;
        }
        thread::park_timeout(Duration::from_millis(10));
    }
    panic!("fewer than {all} entries are written");
}

/// How often each name was blocked, by name and client.
fn blocked(site: &Site) -> BTreeMap<(String, String), u64> {
    let mut found = BTreeMap::new();
    let arguments = ["log", "search", "--json", "--outcome", "blocked", "--limit", "1000"];
    for line in site.avocet_text(&arguments).lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        let text = |field: &str| entry[field].as_str().unwrap().to_owned();
        *found.entry((text("qname"), text("client_address"))).or_default() += 1;
    }
    found
}

/// The names and numbers of a kind of change; a name has the reason behind it.
fn changes(report: &Value, kind: &str) -> BTreeMap<String, u64> {
    let names = report[kind]["names"].as_object().unwrap().iter();
    let first = |name: &str| name.split(' ').next().unwrap().to_owned();
    names.map(|(name, count)| (first(name), count.as_u64().unwrap())).collect()
}

/// What is in one of two counts and not in the other, by name.
fn only_in(
    one: &BTreeMap<(String, String), u64>,
    other: &BTreeMap<(String, String), u64>,
) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for ((name, client), count) in one {
        if !other.contains_key(&(name.clone(), client.clone())) {
            *found.entry(name.clone()).or_default() += count;
        }
    }
    found
}

#[test]
fn a_dry_run_over_the_log_predicts_what_a_replay_blocks() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let present = list(&site, "present", |n| n % 3 == 0);
    let new = list(&site, "new", |n| n % 4 == 0);
    site.configure(upstream.addr, "", &format!("{ON}{new}{RULES}"));
    let file: PathBuf = site.directory.join("new.toml");
    fs::rename(site.file(), &file).unwrap();
    let file = file.to_str().unwrap();

    site.configure(upstream.addr, "", &format!("{ON}{present}"));
    let server = site.start();
    ask_all(&site);
    server.stop();
    let before = blocked(&site);
    let dry_run = |rest: &[&str]| -> Value {
        let arguments = [&["policy", "dry-run", file, "--from-log", "--json"], rest].concat();
        serde_json::from_str(&site.avocet_text(&arguments)).unwrap()
    };
    let report = dry_run(&[]);
    assert_eq!(report["queries"], queries().len());
    assert_eq!(dry_run(&["--to", "2000-01-01 00:00"])["queries"], 0);
    let shadow = dry_run(&["--enforce-log-only"]);
    assert_eq!(changes(&shadow, "newly-blocked").get("www.n4.example."), Some(&2));

    fs::remove_dir_all(site.data()).unwrap();
    fs::copy(file, site.file()).unwrap();
    let _server = site.start();
    ask_all(&site);
    let after = blocked(&site);
    assert_eq!(changes(&report, "newly-blocked"), only_in(&after, &before));
    assert_eq!(changes(&report, "freed"), only_in(&before, &after));
    for name in ["www.n1.example.", "www.n2.example.", "www.n3.example.", "l4.example."] {
        assert!(changes(&report, "newly-blocked").contains_key(name), "{name}: {report}");
    }
}

/// The names and numbers of a kind of change, as the server reports them.
fn changes_of_server(report: &Value, kind: &str) -> BTreeMap<String, u64> {
    let names = report[kind]["names"].as_array().unwrap().iter();
    names
        .map(|one| (one["name"].as_str().unwrap().to_owned(), one["queries"].as_u64().unwrap()))
        .collect()
}

#[test]
fn the_running_server_predicts_the_same_as_the_command() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let present = list(&site, "present", |n| n % 3 == 0);
    let new = list(&site, "new", |n| n % 4 == 0);
    let missing = "[[list]]\nname = \"far\"\nurl = \"https://lists.example/x\"\n";
    site.configure(upstream.addr, "", &format!("{ON}{new}{RULES}"));
    let file: PathBuf = site.directory.join("new.toml");
    fs::rename(site.file(), &file).unwrap();
    let path = file.to_str().unwrap();

    site.configure(upstream.addr, "", &format!("{ON}{present}"));
    let _server = site.start();
    ask_all(&site);
    let dry_run = |rest: &[&str]| -> Value {
        let arguments = [&["policy", "dry-run", path, "--json"], rest].concat();
        let text = site.avocet_text(&arguments);
        serde_json::from_str(text.lines().last().unwrap()).unwrap()
    };
    let (files, server) = (dry_run(&["--from-log"]), dry_run(&["--running"]));
    assert_eq!(server["judged"], files["queries"]);
    assert_eq!(server["examined"], queries().len());
    assert_eq!(server["cut"], Value::Null);
    for (kind, name) in [("newly-blocked", "newly-blocked"), ("freed", "newly-answered")] {
        let expected = changes(&files, kind);
        assert!(!expected.is_empty());
        assert_eq!(changes_of_server(&server, name), expected);
        assert_eq!(server[name]["queries"], files[kind]["queries"]);
    }
    assert_eq!(dry_run(&["--running", "--to", "2000-01-01 00:00"])["judged"], 0);
    let shadow = dry_run(&["--running", "--enforce-log-only"]);
    assert_eq!(changes_of_server(&shadow, "newly-blocked").get("www.n4.example."), Some(&2));

    // A list without a copy counts as empty, and the reply says so.
    fs::write(&file, format!("{}{missing}", fs::read_to_string(&file).unwrap())).unwrap();
    assert_eq!(dry_run(&["--running"])["lists-without-copy"], serde_json::json!(["far"]));
    // A list of the same name from another source is another list.
    let in_force = fs::read_to_string(site.file()).unwrap();
    fs::write(&file, in_force.replace("present.txt", "new.txt")).unwrap();
    let predicted = changes_of_server(&dry_run(&["--running"]), "newly-blocked");
    assert!(predicted.contains_key("l4.example."), "{predicted:?}");
    fs::write(&file, "[cache]\nsize = \"much\"\n").unwrap();
    let refused = site.avocet(&["policy", "dry-run", path, "--running"]);
    assert!(!refused.status.success());
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(error.contains("size"), "{error}");
}

#[test]
fn a_dry_run_needs_a_source_of_queries() {
    let site = Site::new();
    site.write(&format!("[data]\ndirectory = \"{}\"\n", site.data().display()));
    let file = site.file();
    let run = |rest: &[&str]| {
        let arguments = [&["policy", "dry-run", file.to_str().unwrap()], rest].concat();
        let output = site.avocet(&arguments);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(run(&["--from-log"]).contains("there is no query log in"));
    assert!(run(&[]).contains("--queries"));
    assert!(run(&["--queries", "x", "--from", "1h"]).contains("cannot be used with"));
    assert!(run(&["--running", "--from-log"]).contains("cannot be used with"));
    assert!(run(&["--running"]).contains("no avocet is running"));
}
