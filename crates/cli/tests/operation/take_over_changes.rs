//! Acknowledged changes while a new process takes over: none is lost, and one process owns them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use crate::server::{Server, Site, is_here, udp_client};
use crate::updates::{Updated, adding};

/// The time after which a client sends an update again.
const RESEND: Duration = Duration::from_millis(500);
const SETTINGS: &str = "allow-update = [\"key all\"]";

/// Clients that change the state all the time, and note what was acknowledged.
struct Changes {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    updates: JoinHandle<BTreeSet<String>>,
    commands: JoinHandle<Commanded>,
}

/// What acknowledged commands created and removed.
///
/// A command without a reply may have taken effect, so a token that such a command revokes is in
/// neither set of tokens.
#[derive(Default)]
struct Commanded {
    anchors: BTreeSet<String>,
    tokens: BTreeMap<String, u64>,
    revoked: BTreeMap<String, u64>,
}

impl Changes {
    fn start(site: &Site) -> Self {
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (dns, socket) = (site.dns, site.data().join("control.sock"));
        let updates = {
            let (stop, count) = (stop.clone(), count.clone());
            thread::spawn(move || update_until(dns, &stop, &count))
        };
        let commands = {
            let stop = stop.clone();
            thread::spawn(move || command_until(&socket, &stop))
        };
        Self { stop, count, updates, commands }
    }

    /// Waits until this many more updates are acknowledged.
    fn go_on(&self, count: u64) {
        let target = self.count.load(Ordering::Relaxed) + count;
        while self.count.load(Ordering::Relaxed) < target {
            assert!(!self.updates.is_finished() && !self.commands.is_finished());
            thread::yield_now();
        }
    }

    fn end(self) -> (BTreeSet<String>, Commanded) {
        self.stop.store(true, Ordering::Relaxed);
        (self.updates.join().unwrap(), self.commands.join().unwrap())
    }
}

/// Sends one update after another. An update that fails is not sent again.
fn update_until(dns: SocketAddr, stop: &AtomicBool, count: &AtomicU64) -> BTreeSet<String> {
    let mut acknowledged = BTreeSet::new();
    let socket = udp_client();
    socket.set_read_timeout(Some(RESEND)).unwrap();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        let name = format!("u{number}");
        socket.send_to(&adding(&name, number), dns).unwrap();
        let mut reply = [0; 512];
        while let Ok((_, _)) = socket.recv_from(&mut reply) {
            if reply[..2] == (number as u16).to_be_bytes() {
                if reply[3] & 0xf == 0 {
                    acknowledged.insert(name);
                    count.fetch_add(1, Ordering::Relaxed);
                }
                break;
            }
        }
    }
    acknowledged
}

/// Sends a command; `None` if there is no reply, or an error.
fn command(socket: &Path, line: &str) -> Option<Value> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.write_all(line.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let reply: Value = serde_json::from_str(text.lines().next()?).ok()?;
    reply.get("error").is_none().then_some(reply)
}

fn command_until(socket: &Path, stop: &AtomicBool) -> Commanded {
    let mut done = Commanded::default();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let name = format!("n{number}.example");
        let line = format!("{{\"command\":\"nta-add\",\"name\":\"{name}\",\"secs\":3600}}\n");
        if number < 200 && command(socket, &line).is_some() {
            done.anchors.insert(name);
        }
        let line = format!(
            "{{\"command\":\"token-create\",\"name\":\"t{number}\",\"scopes\":[\"status:read\"],\
             \"secs\":86400}}\n"
        );
        let created =
            command(socket, &line).and_then(|reply| Some(reply["id"].as_str()?.to_owned()));
        let Some(id) = created else { continue };
        // Most tokens are revoked, so that their number stays low.
        if number % 8 == 0 {
            done.tokens.insert(id, number);
            continue;
        }
        let line = format!("{{\"command\":\"token-revoke\",\"id\":\"{id}\"}}\n");
        if command(socket, &line).is_some() {
            done.revoked.insert(id, number);
        }
    }
    done
}

fn successor(site: &Site) -> Server {
    let mut command = site.serve();
    command.arg("--take-over");
    Server::start(command)
}

/// Checks that the server has all acknowledged changes.
fn check(site: &Site, records: &str, updates: &BTreeSet<String>, commanded: &Commanded) {
    let lost: Vec<_> = updates
        .iter()
        .filter(|name| !records.contains(&format!("\n{name}.corp.example. ")))
        .collect();
    assert!(lost.is_empty(), "{} of {} updates are lost: {lost:?}", lost.len(), updates.len());
    let anchors = site.avocet_text(&["nta", "list"]);
    let lost = commanded.anchors.iter().filter(|name| !anchors.contains(name.as_str()));
    assert_eq!(lost.count(), 0, "{anchors}");
    let tokens = site.avocet_text(&["token", "list", "--json"]);
    let lost = commanded.tokens.iter().find(|(id, _)| !tokens.contains(id.as_str()));
    assert_eq!(lost, None, "{tokens}");
    let valid = commanded.revoked.iter().find(|(id, _)| tokens.contains(id.as_str()));
    assert_eq!(valid, None, "{tokens}");
    assert!(!commanded.anchors.is_empty() && !commanded.tokens.is_empty());
    assert!(!commanded.revoked.is_empty());
}

#[test]
fn no_acknowledged_change_is_lost_when_new_processes_take_over() {
    let mut zone = Updated::start_settling(0, SETTINGS);
    let changes = Changes::start(&zone.site);
    changes.go_on(20);
    let mut serial = zone.serial();
    for _ in 0..3 {
        let old = zone.server.take().unwrap();
        zone.server = Some(successor(&zone.site));
        let (code, log) = old.wait();
        assert_eq!(code, Some(0), "{}", log.join("\n"));
        changes.go_on(20);
        let before = std::mem::replace(&mut serial, zone.serial());
        assert!(before < serial, "the serial {before} was followed by {serial}");
    }
    let (updates, commanded) = changes.end();
    check(&zone.site, &zone.records(), &updates, &commanded);
    zone.restart_killed();
    assert!(zone.serial() >= serial);
    check(&zone.site, &zone.records(), &updates, &commanded);
}

#[test]
fn a_process_that_is_killed_while_it_takes_over_costs_no_change() {
    let mut zone = Updated::start_settling(0, SETTINGS);
    let changes = Changes::start(&zone.site);
    for pause_ms in [0, 30, 60, 120] {
        let mut command = zone.site.serve();
        command.arg("--take-over");
        let new = Server::spawn(command);
        changes.go_on(pause_ms / 10);
        new.signal("KILL");
        new.wait();
        if zone.site.avocet(&["status"]).status.success() {
            changes.go_on(10);
            continue;
        }
        // It had taken over before it was killed.
        zone.server.take().unwrap().wait();
        zone.server = Some(zone.site.start());
        changes.go_on(10);
    }
    let (updates, commanded) = changes.end();
    check(&zone.site, &zone.records(), &updates, &commanded);
    zone.restart_killed();
    check(&zone.site, &zone.records(), &updates, &commanded);
}

#[test]
fn the_new_process_goes_on_if_the_old_one_is_killed_when_it_hands_over() {
    let mut zone = Updated::start_settling(0, SETTINGS);
    let changes = Changes::start(&zone.site);
    changes.go_on(20);
    let mut old = zone.server.take().unwrap();
    let mut command = zone.site.serve();
    command.arg("--take-over");
    let new = thread::spawn(move || Server::start(command));
    old.wait_for_line("another process gets the data directory");
    old.signal("KILL");
    old.wait();
    zone.server = Some(new.join().unwrap());
    changes.go_on(20);
    let (updates, commanded) = changes.end();
    check(&zone.site, &zone.records(), &updates, &commanded);
}

/// A process that takes over up to a step.
struct Half(UnixStream);

impl Half {
    /// Requests the sockets, and then the data directory.
    fn begin(site: &Site) -> Self {
        let mut stream = site.control();
        stream.write_all(b"{\"command\":\"take-over\"}\n").unwrap();
        let mut half = Self(stream);
        half.hear(b"\n");
        half.0.write_all(b"{\"yield\":true}\n").unwrap();
        half.hear(b"{\"yielded\":true}\n");
        half
    }

    /// Returns what the server sends, up to this end.
    fn hear(&mut self, end: &[u8]) -> String {
        let mut heard = Vec::new();
        while !heard.ends_with(end) {
            let mut octet = [0];
            self.0.read_exact(&mut octet).unwrap();
            heard.extend(octet);
        }
        // The descriptors of the sockets are not text.
        String::from_utf8_lossy(&heard).into_owned()
    }
}

#[test]
fn a_process_that_shows_that_it_works_takes_over() {
    let mut zone = Updated::start_settling(0, SETTINGS);
    let mut stream = zone.site.control();
    stream.write_all(b"{\"command\":\"take-over\"}\n").unwrap();
    let mut half = Half(stream);
    let offer = half.hear(b"\n");
    assert!(offer.contains("\"waits\":true"), "{offer}");
    half.0.write_all(b"{\"working\":true}\n{\"working\":true}\n{\"yield\":true}\n").unwrap();
    half.hear(b"{\"yielded\":true}\n");
    half.0.write_all(b"{\"working\":true}\n{\"ready\":true}\n").unwrap();
    let mut old = zone.server.take().unwrap();
    old.wait_for_line("another process has taken over");
    assert_eq!(old.wait().0, Some(0));
}

#[test]
fn the_old_process_owns_its_state_again_if_the_new_one_fails() {
    let mut zone = Updated::start_settling(0, SETTINGS);
    let (site, socket) = (&zone.site, zone.site.data().join("control.sock"));
    let lock = File::options().write(true).open(site.data().join("owner.lock")).unwrap();
    assert!(lock.try_lock().is_err(), "the running server owns its directory");
    let half = Half::begin(site);
    lock.try_lock().unwrap();
    assert_eq!(site.ask("old.corp.example").0, [192, 0, 2, 9], "queries are answered meanwhile");
    let waiting = {
        let socket = socket.clone();
        thread::spawn(move || {
            command(&socket, "{\"command\":\"nta-add\",\"name\":\"a.example\",\"secs\":60}\n")
        })
    };
    drop(half);
    let server = zone.server.as_mut().unwrap();
    server.wait_for_line("continuing");
    // The process that failed may end later than its connection.
    lock.unlock().unwrap();
    server.wait_for_line("changes are accepted again");
    assert!(waiting.join().unwrap().is_some(), "a change that waited is made");
    if is_here("nsupdate") {
        let (is_done, text) =
            zone.run("nsupdate", "all", &[], "update add x.corp.example. 60 A 192.0.2.3");
        assert!(is_done, "{text}");
        zone.restart_killed();
        assert_eq!(zone.site.ask("x.corp.example").0, [192, 0, 2, 3]);
    }
    zone.server.take().unwrap().stop();
}

#[test]
fn no_process_takes_over_while_another_one_may_own_the_state() {
    let mut zone = Updated::start_settling(0, SETTINGS);
    let site = &zone.site;
    let lock = File::options().write(true).open(site.data().join("owner.lock")).unwrap();
    let refused = || {
        let reply = site.control_lines(b"{\"command\":\"take-over\"}\n");
        assert!(reply.len() == 1 && reply[0]["error"].is_string(), "{reply:?}");
    };
    let half = Half::begin(site);
    refused();
    // The process fails, and still holds the lock.
    lock.try_lock().unwrap();
    drop(half);
    let server = zone.server.as_mut().unwrap();
    server.wait_for_line("continuing");
    refused();
    // It requests the data directory twice.
    lock.unlock().unwrap();
    server.wait_for_line("changes are accepted again");
    let mut half = Half::begin(site);
    half.0.write_all(b"{\"yield\":true}\n").unwrap();
    let mut rest = String::new();
    half.0.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("error"), "{rest}");
    server.wait_for_line("changes are accepted again");
    zone.server.take().unwrap().stop();
}

#[test]
fn a_second_server_does_not_start_with_the_state_of_another() {
    let zone = Updated::start_settling(0, SETTINGS);
    let (code, log) = Server::spawn(zone.site.serve()).wait();
    assert_eq!(code, Some(1));
    assert!(log.last().unwrap().contains("another avocet is running"), "{log:?}");
}
