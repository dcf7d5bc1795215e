//! A new process takes over from the running one.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use crate::server::{Server, Site, ask, ask_over_tcp, exists};
use crate::upstream::{ADDRESS, Upstream};

const LOGGED: &str = "[query-log]\nenabled = true\n";

/// Clients that send one query after another, each until it is answered.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(dns: SocketAddr) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let client = |number: usize| {
            let (stop, answered) = (stop.clone(), answered.clone());
            thread::spawn(move || ask_until(dns, number, &stop, &answered))
        };
        let clients = (0..4).map(client).collect();
        Self { stop, answered, clients }
    }

    /// Waits until this many more queries were answered.
    fn go_on(&self, count: u64) {
        let target = self.answered.load(Ordering::Relaxed) + count;
        while self.answered.load(Ordering::Relaxed) < target {
            assert!(self.clients.iter().all(|client| !client.is_finished()), "a query was lost");
            thread::yield_now();
        }
    }

    /// Checks that no query was lost.
    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("a query was lost");
        }
    }
}

/// Each query comes from a new port, so that all sockets of all workers get some; one in eight must
/// be resolved. The first client uses TCP. Panics when a query is not answered in time.
fn ask_until(dns: SocketAddr, client: usize, stop: &AtomicBool, answered: &AtomicU64) {
    let mut number = 0u16;
    while !stop.load(Ordering::Relaxed) {
        let name = if number.is_multiple_of(8) {
            format!("c{client}-{number}.example")
        } else {
            "hot.example".to_owned()
        };
        let (address, _) =
            if client == 0 { ask_over_tcp(dns, &name) } else { ask(dns, number, &name) };
        assert_eq!(address, ADDRESS);
        answered.fetch_add(1, Ordering::Relaxed);
        number = number.wrapping_add(1);
    }
}

fn successor(site: &Site) -> Server {
    let mut command = site.serve();
    command.arg("--take-over");
    Server::start(command)
}

fn check_take_over(workers_before: u32, workers_after: u32) {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, &format!("workers = {workers_before}"), LOGGED);
    let old = site.start();
    let load = Load::start(site.dns);
    load.go_on(500);
    site.configure(upstream.addr, &format!("workers = {workers_after}"), LOGGED);
    let new = successor(&site);
    let (code, log) = old.wait();
    assert_eq!(code, Some(0), "{}", log.join("\n"));
    assert!(
        log.iter().any(|line| line.contains("another process has taken over")),
        "{}",
        log.join("\n")
    );
    load.go_on(2000);
    load.end();
    assert_eq!(site.metric("avocet_workers"), f64::from(workers_after));
    let served = ["udp", "tcp"].map(|transport| {
        site.metric(&format!("avocet_queries_total{{transport=\"{transport}\"}}"))
    });
    assert!(served[0] > 0.0 && served[1] > 0.0 && served[0] + served[1] >= 1990.0, "{served:?}");
    assert_eq!(ask_over_tcp(site.dns, "hot.example").0, ADDRESS);
    assert!(site.avocet_text(&["cache", "stats"]).contains("rrset-cache.entries"));
    // Entries wait until the old process has left the directory of the log.
    assert_eq!(site.metric("avocet_querylog_lost_total"), 0.0);
    new.stop();
    assert!(!exists(&site.data().join("control.sock")));
}

#[test]
fn no_query_is_lost_when_a_new_process_takes_over() {
    check_take_over(2, 2);
}

#[test]
fn a_new_process_may_have_fewer_workers() {
    check_take_over(3, 1);
}

#[test]
fn a_new_process_may_have_more_workers() {
    check_take_over(1, 3);
}

#[test]
fn the_cache_is_warm_after_a_take_over() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "[cache]\nsnapshot-interval-secs = 0\n");
    let old = site.start();
    site.ask("warm.example");
    assert_eq!(upstream.asked().len(), 1);
    let _new = successor(&site);
    assert_eq!(old.wait().0, Some(0));
    assert_eq!(site.ask("warm.example").0, ADDRESS);
    assert_eq!(upstream.asked().len(), 0);
}

#[test]
fn the_old_server_goes_on_if_the_new_one_fails() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let mut old = site.start();
    for end in [&b""[..], b"{\"ready\":false}\n"] {
        let mut stream = site.control();
        stream.write_all(b"{\"command\":\"take-over\"}\n").unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        assert!(line.starts_with("{\"sockets\":"), "{line}");
        let declined = site.control_lines(b"{\"command\":\"take-over\"}\n");
        assert!(declined[0]["error"].as_str().unwrap().contains("another process is taking over"));
        stream.write_all(end).unwrap();
        drop(stream);
        old.wait_for_line("continuing");
        assert_eq!(site.ask("a.example").0, ADDRESS);
        assert_eq!(site.http_get("/health").0, 200);
    }
    let new = successor(&site);
    assert_eq!(old.wait().0, Some(0));
    new.stop();
}

#[test]
fn without_a_server_there_is_nothing_to_take_over() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let mut command = site.serve();
    command.arg("--take-over");
    let (code, log) = Server::spawn(command).wait();
    assert_eq!(code, Some(1));
    assert!(log.last().unwrap().contains("no avocet is running with data directory"), "{log:?}");
}
