//! `avocet call`: requests of the API from the command line, without HTTP.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::server::Site;
use crate::upstream::Upstream;

fn call(site: &Site, arguments: &[&str]) -> Value {
    let text = site.avocet_text(&[&["call"], arguments].concat());
    serde_json::from_str(&text).unwrap()
}

fn refusal(site: &Site, arguments: &[&str]) -> String {
    let output = site.avocet(&[&["call"], arguments].concat());
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_call_reads_and_changes_the_running_server() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "# of the server", "");
    let _server = site.start();
    assert_eq!(call(&site, &["GET", "/api/v1/status"])["done"], true);
    let settings = json!({"name": "nas.lan", "type": "A", "values": ["192.0.2.9"]});
    let fields = [format!("settings={settings}"), "comment=the disk".to_owned()];
    let added = call(&site, &["post", "/records", &fields[0], &fields[1]]);
    assert!(added["revision"].as_u64().is_some(), "{added}");
    let text = fs::read_to_string(site.file()).unwrap();
    assert!(text.contains("nas.lan") && text.contains("# of the server"), "{text}");
    let shown = call(&site, &["GET", "/records", "id=nas.lan A"]);
    assert_eq!(shown["entries"][0]["settings"]["values"], json!(["192.0.2.9"]));
    let history = call(&site, &["GET", "/config/revisions?limit=1"]);
    assert_eq!(history["revisions"][0]["comment"], "the disk");
    assert_eq!(history["revisions"][0]["source"], "command line");
    call(&site, &["DELETE", "/records", "id=nas.lan A"]);
    assert!(!fs::read_to_string(site.file()).unwrap().contains("nas.lan"));
    let document = call(&site, &["GET", "/openapi.json"]);
    assert_eq!(document["openapi"], "3.1.0");
}

#[test]
fn secrets_come_from_standard_input() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    let add = |input: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_avocet"))
            .args(["call", "POST", "/users", "--stdin", "--config"])
            .arg(site.file())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let user = json!({"name": "ada", "role": "viewer", "password": "correct horse battery"});
    let output = add(&user.to_string());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("battery"));
    assert_eq!(call(&site, &["GET", "/users"])["users"][0]["name"], "ada");
    for broken in ["", "[]", "{", "{\"name\":1}"] {
        let output = add(broken);
        assert_eq!(output.status.code(), Some(1), "{broken}");
    }
}

#[test]
fn a_call_that_is_not_possible_changes_nothing_and_says_why() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let server = site.start();
    let before = fs::read_to_string(site.file()).unwrap();
    for (arguments, reason) in [
        (&["GET", "/nothing"][..], "no path"),
        (&["PATCH", "/lists"], "no method"),
        (&["GET", "/queries", "limit=5"], "queries are not logged"),
        (&["GET", "/queries", "limit"], "is not a field"),
        (&["GET", "/queries", "wrong=5"], "unknown field"),
        (&["POST", "/policy/pause", "secs=5", "secs=6"], "given twice"),
        (&["POST", "/session", "name=a", "password=b"], "session of a browser"),
        (&["DELETE", "/lists", "id=none"], "no list has the id"),
        (&["POST", "/records", "settings={\"name\":\"a\"}"], ""),
    ] {
        let text = refusal(&site, arguments);
        assert!(text.starts_with("avocet: ") && text.contains(reason), "{arguments:?}: {text}");
    }
    assert_eq!(fs::read_to_string(site.file()).unwrap(), before);
    server.stop();
    assert!(refusal(&site, &["GET", "/status"]).contains("no avocet is running"));
}
