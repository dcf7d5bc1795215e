//! The query log of the running server: what it has of real queries, and what its commands show.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::server::{PATIENCE, Site};
use crate::upstream::{ADDRESS, Upstream};

const ON: &str = "[query-log]\nenabled = true\n";

/// A running `avocet log tail --json`.
struct Tail {
    child: Child,
    lines: Receiver<String>,
}

impl Tail {
    fn start(site: &Site, arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_avocet"))
            .args(["log", "tail", "--json"])
            .args(arguments)
            .arg("--config")
            .arg(site.file())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { child, lines }
    }

    /// Does something again and again until there is an entry.
    fn entry_after(&self, act: impl Fn()) -> Value {
        for _ in 0..PATIENCE.as_secs() * 10 {
            act();
            while let Ok(line) = self.lines.recv_timeout(Duration::from_millis(100)) {
                let line: Value = serde_json::from_str(&line).unwrap();
                if let Some(entry) = line.get("query") {
                    return entry.clone();
                }
            }
        }
        panic!("no entry");
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_query_is_seen_by_those_who_follow_the_log() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", ON);
    let _server = site.start();
    let tail = Tail::start(&site, &[]);
    let entry = tail.entry_after(|| drop(site.ask("www.example")));
    assert_eq!(entry["name"], "www.example.", "{entry}");
    assert_eq!(entry["client"], "127.0.0.1", "{entry}");
    assert_eq!((&entry["type"], &entry["rcode"]), (&"A".into(), &"NOERROR".into()), "{entry}");
}

/// Waits until the server has written this many entries to files.
pub(crate) fn wait_for_written(site: &Site, least: f64) {
    wait_for(site, "avocet_querylog_written_total", least);
}

/// Waits until a metric has a value.
fn wait_for(site: &Site, metric: &str, least: f64) {
    for _ in 0..PATIENCE.as_secs() * 100 {
        if site.metric(metric) >= least {
            return;
        }
        thread::park_timeout(Duration::from_millis(10));
    }
    panic!("{metric} stays below {least}");
}

/// The octets of the files of the log.
fn written_octets(site: &Site) -> u64 {
    let files = std::fs::read_dir(site.data().join("query-log")).unwrap();
    let names = files.map(|file| file.unwrap().path());
    let heads = names.filter(|path| path.extension().is_some_and(|end| end == "blocks"));
    heads.map(|path| path.metadata().unwrap().len()).sum()
}

#[test]
fn entries_are_on_disk_within_a_second_and_survive_a_kill() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", ON);
    let server = site.start();
    (0..3).for_each(|number| drop(site.ask(&format!("n{number}.example"))));
    wait_for_written(&site, 3.0);
    let before = written_octets(&site);
    assert!(before > 0);
    server.signal("KILL");
    server.wait();
    let _server = site.start();
    drop(site.ask("later.example"));
    wait_for_written(&site, 1.0);
    // The earlier entries are still there, and the new process appends to them.
    assert!(written_octets(&site) > before);
}

#[test]
fn a_directory_that_cannot_be_used_costs_entries_and_no_answer() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let file = site.directory.join("file");
    std::fs::write(&file, "").unwrap();
    let bad = format!("{ON}directory = \"{}\"\n", file.display());
    site.configure(upstream.addr, "", &bad);
    let mut server = site.start();
    let line = server.wait_for_line("the query log is not written");
    assert!(line.contains("cannot create"), "{line}");
    assert_eq!(site.ask("www.example").0, ADDRESS);
    let status = site.avocet_text(&["status"]);
    assert!(status.contains("warning: the query log is not written"), "{status}");
    site.configure(upstream.addr, "", ON);
    site.avocet_text(&["reload"]);
    // The log sees the new directory at its next round, which may come after the first question.
    for _ in 0..PATIENCE.as_secs() * 100 {
        assert_eq!(site.ask("www.example").0, ADDRESS);
        if site.metric("avocet_querylog_written_total") >= 1.0 {
            return;
        }
        thread::park_timeout(Duration::from_millis(10));
    }
    panic!("nothing is written to the new directory");
}

#[test]
fn the_log_does_not_have_the_queries_of_the_server_for_names_of_clients() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let named = "[[client]]\nname = \"laptop\"\nids = [\"laptop.lan\"]\n\
        [[rule]]\nname = \"a\"\nwhen = 'qname.under(\"blocked.example\")'\naction = \"block\"\n";
    site.configure(upstream.addr, "", &format!("{ON}{named}"));
    let server = site.start();
    site.ask("www.example");
    // The server looks the name of 127.0.0.1 up within seconds.
    wait_for(&site, "avocet_client_name_lookups_total", 1.0);
    site.ask("later.example");
    wait_for_written(&site, 2.0);
    server.stop();
    let shown = site.avocet_text(&["log", "search"]);
    assert!(shown.contains("later.example"), "{shown}");
    assert!(!shown.contains("in-addr.arpa"), "{shown}");
}
