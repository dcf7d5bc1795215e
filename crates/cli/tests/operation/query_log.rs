//! The query log of the running server: what it has of real queries, and what its commands show.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::server::{PATIENCE, Site};
use crate::upstream::Upstream;

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
