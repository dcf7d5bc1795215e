//! The commands on revisions of the configuration.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::server::{PATIENCE, Site, query, udp_client};
use crate::upstream::Upstream;

#[test]
fn changes_by_command_and_by_hand_are_in_the_history_and_can_be_undone() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "[policy] # ours\nblock-ttl-secs = 60 # a minute");
    let original = fs::read_to_string(site.file()).unwrap();
    let _server = site.start();

    let check = ["config", "set", "policy.block-answer", "nxdomain", "--check"];
    let text = site.avocet_text(&check);
    assert!(text.contains("+block-answer = \"nxdomain\"\n"), "{text}");
    assert_eq!(fs::read_to_string(site.file()).unwrap(), original);
    let invalid = site.avocet(&["config", "unset", "data.directory.x", "--check"]);
    assert_eq!(invalid.status.code(), Some(1), "{invalid:?}");

    let set = ["config", "set", "policy.block-answer", "nxdomain", "--comment", "for phones"];
    let text = site.avocet_text(&set);
    assert!(text.starts_with("revision 2\nreloaded"), "{text}");
    let changed = fs::read_to_string(site.file()).unwrap();
    assert!(changed.contains("[policy] # ours\nblock-ttl-secs = 60 # a minute\n"), "{changed}");
    assert!(changed.contains("block-answer = \"nxdomain\"\n"), "{changed}");

    site.write(&changed.replace("= 60", "= 30"));
    site.avocet_text(&["reload"]);
    let diff = site.avocet_text(&["config", "diff", "2"]);
    let lines = "-block-ttl-secs = 60 # a minute\n+block-ttl-secs = 30 # a minute\n";
    assert!(diff.starts_with("--- revision 2\n+++ revision 3\n") && diff.contains(lines), "{diff}");

    assert!(site.avocet_text(&["config", "rollback", "1"]).starts_with("revision 4\n"));
    assert_eq!(fs::read_to_string(site.file()).unwrap(), original);
    let history = site.avocet_text(&["config", "history", "--json"]);
    let history: Value = serde_json::from_str(&history).unwrap();
    let field = |name: &str| -> Vec<&str> {
        let all = history["revisions"].as_array().unwrap().iter();
        all.map(|one| one[name].as_str().unwrap_or_default()).collect()
    };
    assert_eq!(history["in-force"], 4);
    assert_eq!(field("origin"), ["rollback", "file", "edit", "start"]);
    assert_eq!(field("comment"), ["rollback to revision 1", "", "for phones", ""]);

    for arguments in
        [&["config", "rollback", "9"][..], &["config", "set", "x", "1"], &["config", "confirm"]]
    {
        let output = site.avocet(arguments);
        assert!(!output.status.success() && !output.stderr.is_empty(), "{arguments:?}");
    }
}

/// Edits of each test in turn; with AVOCET_LONG_TESTS=1 as many as in the requirement.
fn rounds() -> usize {
    if std::env::var_os("AVOCET_LONG_TESTS").is_some() { 1_000 } else { 99 }
}

/// A configuration with comments, in which three values change.
struct Edited {
    by_api: usize,
    by_command: usize,
    by_hand: usize,
}

impl Edited {
    fn rest(&self) -> String {
        format!(
            "# kept: policy\n[policy]\nblock-ttl-secs = {} # by API\n\n# kept: log\n\
             [query-log]\nretention-days = {} # by command\n\n[[record]] # kept: record\n\
             name = \"hand.lan\"\ntype = \"TXT\"\nvalues = [\"{}\"] # by hand\n\n\
             [[record]]\nname = \"host.lan\"\ntype = \"A\"\nvalues = [\"10.0.0.1\"]\n\n\
             [config]\nkeep-revisions = 2000\n# kept: end\n",
            self.by_api, self.by_command, self.by_hand
        )
    }
}

/// Sets a flag when it is dropped.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the text of the revision in force, as the API reports it.
fn in_force(site: &Site, token: &str) -> String {
    let path = "/api/v1/config/revisions/text";
    let head = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}");
    let (status, body) = site.http(&format!("{head}\r\n\r\n"));
    assert_eq!(status, 200, "{body}");
    let reply: Value = serde_json::from_str(&body).unwrap();
    reply["text"].as_str().unwrap().to_owned()
}

fn edit_by_api(site: &Site, token: &str, value: usize) {
    let edit = json!({"key": "policy.block-ttl-secs", "value": value.to_string()});
    let body = json!({"edits": [edit], "by": {"comment": "by API"}}).to_string();
    let (status, reply) = site.http(&format!(
        "POST /api/v1/config/changes HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer \
         {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!(status, 200, "{reply}");
}

#[test]
fn edits_by_api_command_and_hand_in_turn_lose_nothing_under_load() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let mut edited = Edited { by_api: 0, by_command: 1_000, by_hand: 0 };
    site.configure(upstream.addr, "", &edited.rest());
    let original = fs::read_to_string(site.file()).unwrap();
    let (before, after) = original.split_once(&edited.rest()).unwrap();
    let _server = site.start();
    let scopes = ["--scope", "config:read", "--scope", "config:write"];
    let token = site.avocet_text(&[&["token", "create", "t"][..], &scopes].concat());
    let token = token.trim_end();
    let (is_over, answers) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        // Ends the load if an assertion fails, too.
        let _end = SetAtEnd(&is_over);
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert_eq!(site.ask("host.lan").0, [10, 0, 0, 1]);
                answers.fetch_add(1, Ordering::Relaxed);
            }
        });
        for round in 1..=rounds() {
            match round % 3 {
                0 => {
                    edited.by_hand = round;
                    site.write(&format!("{before}{}{after}", edited.rest()));
                    // In the other rounds, the next edit finds the change.
                    if round % 2 == 0 {
                        site.avocet_text(&["reload"]);
                    }
                    continue;
                }
                1 => {
                    edited.by_api = round;
                    edit_by_api(&site, token, round);
                }
                _ => {
                    edited.by_command = 1_000 + round;
                    let value = edited.by_command.to_string();
                    site.avocet_text(&["config", "set", "query-log.retention-days", &value]);
                }
            }
            let text = fs::read_to_string(site.file()).unwrap();
            assert_eq!(text, format!("{before}{}{after}", edited.rest()), "{round}");
            assert_eq!(in_force(&site, token), text, "{round}");
        }
        site.avocet_text(&["reload"]);
    });
    assert!(answers.load(Ordering::Relaxed) > 0);
    check_history(&site);
}

/// Checks that each edit is a revision of its own, and keeps those before it.
fn check_history(site: &Site) {
    let history = site.avocet_text(&["config", "history", "--json"]);
    let history: Value = serde_json::from_str(&history).unwrap();
    let numbers: Vec<u64> = history["revisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["number"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers.len(), rounds() + 1);
    let mut seen = BTreeSet::new();
    for number in numbers {
        let file = site.data().join(format!("revisions/{number}.revision"));
        let text = fs::read_to_string(file).unwrap();
        assert_eq!(text.matches("# kept").count(), 4, "{text}");
        assert!(seen.insert(text.split_once('\n').unwrap().1.to_owned()), "{text}");
    }
}

#[test]
fn a_kill_in_the_middle_of_a_change_leaves_one_of_the_revisions_in_force() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let edited = Edited { by_api: 0, by_command: 1_000, by_hand: 0 };
    site.configure(upstream.addr, "", &edited.rest());
    let mut expected = fs::read_to_string(site.file()).unwrap();
    for round in 1..=12_usize {
        let server = site.start();
        let change = json!({
            "command": "config-change",
            "edits": [{"key": "policy.block-ttl-secs", "value": round.to_string()}],
        });
        site.control().write_all(format!("{change}\n").as_bytes()).unwrap();
        // Each round gives the server more time: it is killed before, in and after the change.
        for _ in 0..round * round * 100 {
            thread::yield_now();
        }
        server.signal("KILL");
        server.wait();
        let text = fs::read_to_string(site.file()).unwrap();
        let changed = expected.replace(
            &format!("block-ttl-secs = {} #", value_of(&expected)),
            &format!("block-ttl-secs = {round} #"),
        );
        assert!(text == expected || text == changed, "{round}: {text}");
        let server = site.start();
        let history = site.avocet_text(&["config", "history", "--json"]);
        let history: Value = serde_json::from_str(&history).unwrap();
        let file = format!("revisions/{}.revision", history["in-force"]);
        let revision = fs::read_to_string(site.data().join(file)).unwrap();
        assert_eq!(revision.split_once('\n').unwrap().1, text, "{round}");
        server.stop();
        expected = text;
    }
}

fn value_of(text: &str) -> &str {
    let rest = text.split_once("block-ttl-secs = ").unwrap().1;
    rest.split(' ').next().unwrap()
}

#[test]
fn a_revision_that_breaks_resolution_is_rolled_back_within_its_probation() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "[config]\nprobation-secs = 3600");
    let original = fs::read_to_string(site.file()).unwrap();
    let mut server = site.start();
    for number in 0..60 {
        site.ask(&format!("before-{number}.example"));
    }
    let set = ["config", "set", "forward[.].upstreams", "[\"udp://127.0.0.1:1\"]"];
    assert!(site.avocet_text(&set).contains("revision 2 is on probation"));
    assert_ne!(fs::read_to_string(site.file()).unwrap(), original);
    let client = udp_client();
    let began = Instant::now();
    let mut number = 0;
    while site.metric("avocet_config_revision") != 3.0 {
        assert!(began.elapsed() < PATIENCE, "the revision stays in force");
        let question = query(number, &format!("after-{number}.example"));
        client.send_to(&question, site.dns).unwrap();
        number += 1;
    }
    server.wait_for_line("rolling revision 2 back to 1");
    assert_eq!(fs::read_to_string(site.file()).unwrap(), original);
    site.ask("again.example");
    let count =
        |reason| site.metric(&format!("avocet_config_rollbacks_total{{reason=\"{reason}\"}}"));
    assert_eq!(count("failures") + count("unresolved"), 1.0);
}
