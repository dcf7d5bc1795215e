//! A change of the policy affects the very next query on every thread, even for a popular cached
//! name.
//!
//! `AVOCET_LONG_TESTS=1` adds tests that wait for a full minute.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::server::{PATIENCE, Server, Site, ask_patiently, first_record, query};
use crate::upstream::{ADDRESS, Upstream};

/// The address in responses to blocked questions.
const BLOCKED: [u8; 4] = [0; 4];
const NAME: &str = "game.example";
const WORKERS: usize = 4;
/// Sockets of a client. The system distributes them over the workers, so that each worker serves
/// some.
const SOCKETS: usize = 32;
/// Threads that send queries all the time.
const CROWD: usize = 2;
/// The readings of the wall clock by the test and by the server differ by less than this, in ms.
const CLOCKS_APART: u64 = 20;

const ADULT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const CHILD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// A client with sockets that it uses in turn.
struct Client {
    sockets: Vec<UdpSocket>,
    dns: SocketAddr,
}

impl Client {
    fn new(ip: Ipv4Addr, dns: SocketAddr) -> Self {
        let socket = || UdpSocket::bind((IpAddr::V4(ip), 0)).unwrap();
        Self { sockets: (0..SOCKETS).map(|_| socket()).collect(), dns }
    }

    fn ask(&self, socket: usize) -> Vec<u8> {
        ask_patiently(&self.sockets[socket % SOCKETS], self.dns, NAME)
    }

    /// Checks that every thread gives this answer to its first query.
    #[track_caller]
    fn gets(&self, answer: [u8; 4], after: &str) {
        for socket in 0..SOCKETS {
            assert_eq!(self.ask(socket), answer, "socket {socket} after {after}");
        }
    }

    /// Sends queries without a pause and checks for one answer before that Unix second, and the
    /// other from then on. When the second begins, a worker may be in the middle of a turn of its
    /// event loop, so it may still give the earlier answer to the first query of each socket.
    #[track_caller]
    fn gets_until(&self, unix_secs: u64, (before, after): ([u8; 4], [u8; 4])) {
        let (edge, mut asked, mut since_edge) = (unix_secs * 1000, 0_u64, [0; SOCKETS]);
        for socket in (0..SOCKETS).cycle() {
            let sent = wall_millis();
            let answer = self.ask(socket);
            let received = wall_millis();
            if received + CLOCKS_APART < edge {
                assert_eq!(answer, before, "{} ms before the edge", edge - received);
            } else if sent >= edge + CLOCKS_APART {
                since_edge[socket] += 1;
                assert!(
                    since_edge[socket] == 1 || answer == after,
                    "{} ms after the edge: {answer:?}",
                    sent - edge
                );
            }
            asked += 1;
            if since_edge.iter().all(|count| *count >= 2) {
                break;
            }
        }
        assert!(asked > 2 * SOCKETS as u64);
    }
}

fn wall_millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// Runs a test against a server of several workers, under a constant load. `rest` is its policy.
fn under_load(rest: &str, test: impl FnOnce(&Site, &mut Server)) {
    let (site, upstream) = (Site::new(), Upstream::start());
    configure(&site, &upstream, rest);
    let mut server = site.start();
    let (is_over, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let _end = EndOnDrop(&is_over);
        for number in 0..CROWD {
            let client = Client::new(if number % 2 == 0 { ADULT } else { CHILD }, site.dns);
            let (is_over, asked) = (&is_over, &asked);
            scope.spawn(move || {
                for socket in (0..SOCKETS).cycle().take_while(|_| !is_over.load(Ordering::Relaxed))
                {
                    let answer = client.ask(socket);
                    assert!(answer == ADDRESS || answer == BLOCKED, "{answer:?}");
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        test(&site, &mut server);
    });
    let (asked, resolved) = (asked.load(Ordering::Relaxed), upstream.asked().len() as u64);
    // Popular names are refreshed before they expire.
    assert!(resolved * 20 < asked, "{resolved} of {asked} were not cached");
    assert_eq!(site.metric("avocet_worker_panics_total"), 0.0);
}

/// Ends the load also when the test fails, so that the failure is reported.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn configure(site: &Site, upstream: &Upstream, rest: &str) {
    site.configure(upstream.addr, &format!("workers = {WORKERS}"), rest);
}

/// Replaces the policy.
fn change(site: &Site, before: &str, after: &str) {
    let text = std::fs::read_to_string(site.file()).unwrap();
    assert!(text.contains(before), "{before} is not in\n{text}");
    site.write(&text.replace(before, after));
    site.avocet_text(&["reload"]);
}

fn rule(when: &str) -> String {
    format!(
        "[policy]\nblock-answer = \"zero\"\n[[rule]]\nname = \"games\"\nwhen = '{when}'\naction = \"block\"\n"
    )
}

/// Sends a command over the control socket and returns its reply.
fn command(site: &Site, line: &str) -> Value {
    let answer = site.control_lines(format!("{line}\n").as_bytes()).pop().unwrap();
    assert!(answer["error"].is_null(), "{answer}");
    answer
}

#[test]
fn a_block_and_a_group_that_a_reload_brings_act_at_once() {
    let kids = |client: Ipv4Addr| format!("[[group]]\nname = \"kids\"\nclients = [\"{client}\"]\n");
    let of_kids = r#"qname.under("game.example") && client.group("kids")"#;
    under_load(
        &format!("{}{}", rule(r#"qname.under("other.example")"#), kids(CHILD)),
        |site, _server| {
            let (adult, child) = (Client::new(ADULT, site.dns), Client::new(CHILD, site.dns));
            adult.gets(ADDRESS, "the start");
            change(site, r#"qname.under("other.example")"#, r#"qname.under("game.example")"#);
            adult.gets(BLOCKED, "the block");
            child.gets(BLOCKED, "the block");
            change(site, r#"qname.under("game.example")"#, of_kids);
            child.gets(BLOCKED, "the block of a group");
            adult.gets(ADDRESS, "the block of a group");
            for round in 0..4 {
                let (into, out_of) = if round % 2 == 0 { (ADULT, CHILD) } else { (CHILD, ADULT) };
                change(site, &kids(out_of), &kids(into));
                Client::new(into, site.dns).gets(BLOCKED, "coming into the group");
                Client::new(out_of, site.dns).gets(ADDRESS, "leaving the group");
            }
        },
    );
}

#[test]
fn pauses_and_grants_act_at_once_and_end_by_themselves() {
    under_load(&rule(r#"qname.under("game.example")"#), |site, _server| {
        let client = Client::new(ADULT, site.dns);
        client.gets(BLOCKED, "the start");
        let pause =
            |secs: u64| command(site, &format!("{{\"command\":\"pause\",\"secs\":{secs}}}"));
        pause(3600);
        client.gets(ADDRESS, "a pause");
        pause(0);
        client.gets(BLOCKED, "the end of a pause");
        let until = pause(2)["pauses"][0]["until"].as_u64().unwrap();
        client.gets_until(until, (ADDRESS, BLOCKED));

        let grant = |secs: u64| {
            command(site, &format!("{{\"command\":\"grant\",\"name\":\"{NAME}\",\"secs\":{secs}}}"))
        };
        grant(3600);
        client.gets(ADDRESS, "a grant");
        grant(0);
        client.gets(BLOCKED, "the end of a grant");
        let until = grant(2)["grants"][0]["until"].as_u64().unwrap();
        client.gets_until(until, (ADDRESS, BLOCKED));
    });
}

/// A new policy may distinguish more kinds of clients than the one that was in force when the query
/// arrived.
#[test]
fn a_waiting_query_is_judged_by_the_new_policy_for_its_own_client() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let group = |name: &str, client: &str| {
        format!("[[group]]\nname = \"{name}\"\nclients = [\"{client}\"]\n")
    };
    let kids = rule(r#"answer.ip.in("192.0.2.0/24") && client.group("kids")"#)
        + &group("kids", &CHILD.to_string());
    configure(&site, &upstream, &kids);
    let _server = site.start();
    let socket = UdpSocket::bind((IpAddr::V4(CHILD), 0)).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let held = upstream.hold();
    socket.send_to(&query(7, NAME), site.dns).unwrap();
    upstream.wait_for_question();
    // Its address is lower, so it comes before the kids.
    let guests = "[[rule]]\nname = \"guests\"\nwhen = 'qname.under(\"home.example\") && client.group(\"guests\")'\n\
                  action = \"block\"\n";
    configure(&site, &upstream, &(kids + &group("guests", "127.0.0.1") + guests));
    site.avocet_text(&["reload"]);
    drop(held);
    let mut reply = [0; 512];
    let len = socket.recv(&mut reply).unwrap();
    assert_eq!(first_record(&reply[..len], NAME).0, BLOCKED);
}

/// Times of day are full minutes, so this takes up to a minute.
#[test]
fn the_edge_of_a_schedule_acts_when_its_minute_is_full() {
    if std::env::var_os("AVOCET_LONG_TESTS").is_none() {
        return;
    }
    under_load(&rule(r#"qname.under("other.example")"#), |site, _server| {
        let client = Client::new(ADULT, site.dns);
        // An edge that is too close for the reload is skipped.
        let mut edge = wall_millis() / 60_000 + 1;
        if edge * 60_000 - wall_millis() < 5_000 {
            client.gets_until(edge * 60, (ADDRESS, ADDRESS));
            edge += 1;
        }
        let clock = |minute: u64| format!("{:02}:{:02}", minute / 60 % 24, minute % 60);
        let window = format!(r#"now.between("{}", "{}")"#, clock(edge), clock(edge + 600));
        change(
            site,
            r#"qname.under("other.example")"#,
            &format!(r#"qname.under("game.example") && {window}"#),
        );
        client.gets(ADDRESS, "the reload");
        client.gets_until(edge * 60, (ADDRESS, BLOCKED));
    });
}
