//! Each command against a control socket that records requests: it sends exactly those of its entry
//! in the table of commands. A server behind the socket replies.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write, copy};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use serde_json::Value;

use crate::command_table::{BY_CALL, COMMANDS, Work};
use crate::server::{PATIENCE, Server, Site, is_here};
use crate::upstream::Upstream;

/// Ways to run each command, which together send all its requests. `DIR` is an empty directory.
const RUNS: &[(&str, &[&str])] = &[
    ("anchors", &[""]),
    ("backup", &["DIR/backup"]),
    ("cache dump", &[""]),
    ("cache flush", &["a.example"]),
    ("cache flush-tree", &["a.example"]),
    ("cache show", &["a.example"]),
    ("cache stats", &[""]),
    ("call", &["GET /status"]),
    ("certificate authority", &[""]),
    ("certificate list", &[""]),
    ("certificate renew", &[""]),
    ("check", &[""]),
    ("completions", &["bash"]),
    ("config confirm", &[""]),
    ("config diff", &["1"]),
    ("config history", &[""]),
    ("config rollback", &["1"]),
    ("config schema", &[""]),
    ("config set", &["cache.prefetch false --check", "cache.prefetch false"]),
    ("config show", &[""]),
    ("config unset", &["cache.prefetch --check", "cache.prefetch"]),
    ("connect", &["", "stamps"]),
    ("grant", &["a.example --for 60s"]),
    ("import", &["dnsmasq DIR/none"]),
    ("lists check", &["ads"]),
    ("lists refresh", &[""]),
    ("lists status", &[""]),
    ("load", &["DIR/none"]),
    ("load compare", &["DIR/none DIR/none"]),
    ("log clients", &[""]),
    ("log export", &["--format csv"]),
    ("log prune", &["--all", "--all --yes"]),
    ("log search", &["", "--count"]),
    ("log stats", &[""]),
    ("log tail", &[""]),
    ("log top", &["names", "names --under example"]),
    ("log verify", &[""]),
    ("man-pages", &["DIR"]),
    ("nta add", &["a.example"]),
    ("nta list", &[""]),
    ("nta remove", &["a.example"]),
    ("pause", &["--for 60s"]),
    ("policy check", &[""]),
    ("policy dry-run", &["DIR/new.toml --running"]),
    ("policy services", &[""]),
    ("policy status", &[""]),
    ("policy test", &["--name a.example true"]),
    ("query", &["a.example +trace"]),
    ("reload", &[""]),
    ("requests grant", &["1"]),
    ("requests list", &[""]),
    ("requests refuse", &["1"]),
    ("restore", &["DIR/backup", "--cancel"]),
    ("serve", &["--none"]),
    ("session end", &["abc"]),
    ("session list", &[""]),
    ("status", &["", "--load"]),
    ("token create", &["t --scope status:read"]),
    ("token list", &[""]),
    ("token revoke", &["abc"]),
    ("top", &["--once", ""]),
    ("user add", &["ada --role admin"]),
    ("user list", &[""]),
    ("user passwd", &["ada"]),
    ("user remove", &["ada"]),
    ("why", &["a.example"]),
    ("zone check", &["DIR/none"]),
    ("zone diff", &["lan DIR/none"]),
    ("zone export", &["lan"]),
    ("zone history", &["lan"]),
    ("zone keys", &["lan"]),
    ("zone list", &[""]),
    ("zone pool auto", &["lan"]),
    ("zone pool down", &["lan"]),
    ("zone pool drain", &["lan"]),
    ("zone pool list", &[""]),
    ("zone pool show", &["lan"]),
    ("zone pool up", &["lan"]),
    ("zone reload", &[""]),
    ("zone set", &["lan a A 192.0.2.1"]),
    ("zone show", &["lan"]),
    ("zone sign", &["lan"]),
    ("zone unset", &["lan a"]),
    ("zone what-if", &["--down 192.0.2.1"]),
];

/// The received requests, and the condition variable for threads that wait for a request.
#[derive(Default)]
struct Seen {
    requests: Mutex<RunRequests>,
    came: Condvar,
}

/// The requests of one run of a command.
#[derive(Default)]
struct RunRequests {
    /// The number of the run.
    run: u64,
    sent: Vec<String>,
}

/// A control socket in a directory of its own, in front of that of a server.
struct Recorder {
    site: Site,
    seen: Arc<Seen>,
}

impl Recorder {
    fn of(server: &Site) -> Self {
        let site = Site::new();
        let (front, behind) = (site.data(), server.data());
        let text = fs::read_to_string(server.file()).unwrap();
        site.write(&text.replace(behind.to_str().unwrap(), front.to_str().unwrap()));
        fs::create_dir_all(&front).unwrap();
        let listener = UnixListener::bind(front.join("control.sock")).unwrap();
        let seen = Arc::new(Seen::default());
        let recorded = Arc::clone(&seen);
        thread::spawn(move || {
            for client in listener.incoming().map(Result::unwrap) {
                let (seen, behind) = (Arc::clone(&recorded), behind.clone());
                let run = seen.requests.lock().unwrap().run;
                thread::spawn(move || pass_on(&client, run, &behind, &seen));
            }
        });
        Self { site, seen }
    }

    /// Runs a command, and returns what it has sent.
    fn run(&self, command: &str, arguments: &str, directory: &Path) -> Vec<String> {
        self.begin_run();
        let directory = directory.to_str().unwrap();
        let words = command.split(' ').chain(arguments.split(' ')).filter(|word| !word.is_empty());
        let words = words.map(|word| word.replace("DIR", directory));
        let mut words: Vec<String> = words.collect();
        if !["completions", "man-pages", "policy services", "config schema", "load compare"]
            .contains(&command)
        {
            words.extend(["--config".to_owned(), self.site.file().display().to_string()]);
        }
        let binary = env!("CARGO_BIN_EXE_avocet");
        let in_terminal = command == "top" && arguments.is_empty();
        let mut process = match in_terminal {
            true => Command::new("script"),
            false => Command::new(binary),
        };
        match in_terminal {
            true => process.args(["-qefc", &format!("{binary} {}", words.join(" ")), "/dev/null"]),
            false => process.args(&words),
        };
        process.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = process.spawn().unwrap();
        let mut keys = child.stdin.take().unwrap();
        if command == "log tail" || in_terminal {
            self.wait_for("log-tail");
        }
        // A command that reads nothing may have ended before.
        let _ = keys.write_all(if in_terminal { b"q" } else { b"correct horse battery\n" });
        drop(keys);
        if command == "log tail" {
            child.kill().unwrap();
        }
        child.wait().unwrap();
        std::mem::take(&mut self.seen.requests.lock().unwrap().sent)
    }

    /// Begins to record another run. A command that has ended may have left connections in the
    /// queue. Clients are accepted in order, so once a later client is accepted, those connections
    /// were accepted with the number of the previous run.
    fn begin_run(&self) {
        let last = UnixStream::connect(self.site.data().join("control.sock")).unwrap();
        last.shutdown(Shutdown::Write).unwrap();
        assert_eq!((&last).read(&mut [0]).unwrap(), 0, "it gets no reply");
        let mut requests = self.seen.requests.lock().unwrap();
        *requests = RunRequests { run: requests.run + 1, sent: Vec::new() };
    }

    fn wait_for(&self, request: &str) {
        let requests = self.seen.requests.lock().unwrap();
        let lacks = |all: &mut RunRequests| !all.sent.iter().any(|one| one == request);
        let waited = self.seen.came.wait_timeout_while(requests, PATIENCE, lacks);
        assert!(!waited.unwrap().1.timed_out(), "the command did not send {request}");
    }
}

/// Records the request of a client for its run, and passes it on to the server and the reply back.
fn pass_on(client: &UnixStream, run: u64, behind: &Path, seen: &Seen) {
    let mut line = String::new();
    // Some commands only check whether there is a server.
    if BufReader::new(client).read_line(&mut line).unwrap_or(0) == 0 {
        return;
    }
    let request: Value = serde_json::from_str(&line).unwrap();
    let command = request["command"].as_str().unwrap().to_owned();
    let mut server = UnixStream::connect(behind.join("control.sock")).unwrap();
    server.write_all(line.as_bytes()).unwrap();
    let mut requests = seen.requests.lock().unwrap();
    if requests.run == run {
        requests.sent.push(command);
    }
    drop(requests);
    seen.came.notify_all();
    // Either end may be gone.
    let _ = copy(&mut server, &mut &*client);
}

/// A server with a policy and a log, and a directory for files of the commands.
fn site() -> (Site, Upstream, Server, PathBuf) {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "[query-log]\nenabled = true\n");
    let server = site.start();
    let directory = site.directory.join("files");
    fs::create_dir_all(&directory).unwrap();
    fs::copy(site.file(), directory.join("new.toml")).unwrap();
    (site, upstream, server, directory)
}

#[test]
fn each_command_sends_exactly_the_requests_of_its_entry() {
    let (site, _upstream, _server, directory) = site();
    let recorder = Recorder::of(&site);
    let has_terminal = is_here("script");
    let named: BTreeSet<&str> = COMMANDS.iter().map(|(name, _)| *name).collect();
    assert_eq!(named, RUNS.iter().map(|(name, _)| *name).collect(), "each command has a run");
    let mut wrong = Vec::new();
    for (name, work) in COMMANDS {
        let (_, runs) = RUNS.iter().find(|(run, _)| run == name).unwrap();
        let runs = runs.iter().filter(|run| *name != "top" || has_terminal || !run.is_empty());
        let sent = runs.flat_map(|one| recorder.run(name, one, &directory));
        let sent: BTreeSet<String> = sent.collect();
        let expected: &[&str] = match work {
            Work::Requests(requests) => requests,
            Work::AnyRequest => &["status"],
            Work::Here => &[],
        };
        if let Some(other) = sent.iter().find(|one| BY_CALL.contains(&one.as_str())) {
            wrong.push(format!("{name} sends {other}, which has no command by the table"));
        }
        if !sent.iter().eq(expected) && (*name != "top" || has_terminal) {
            wrong.push(format!("{name}: sends {sent:?}, and its entry says {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
