//! What one client can take of a worker's time from others.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::server::{PATIENCE, Site, ask_patiently, query, udp_client};
use crate::upstream::Upstream;

/// Connections of the client.
const CONNECTIONS: usize = 8;
/// Queries on each of them, fewer than may be in flight.
const QUERIES: usize = 100;

/// A list whose patterns use up the work that a name may cause.
fn hostile() -> String {
    (0..80).map(|number| format!("aaa[a-z.]{{0,{}}}[0-9]\n", 100 + number)).collect()
}

/// A name that the list makes expensive, and that no other server is asked for.
fn expensive(number: usize) -> String {
    let label = "a".repeat(60);
    format!("q{number}.{label}.{label}.{label}.invalid")
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// Reads replies to the end of the connection, and counts them.
fn count_replies(mut stream: TcpStream, replies: &AtomicUsize) {
    let mut len = [0; 2];
    for _ in 0..QUERIES {
        stream.read_exact(&mut len).unwrap();
        let mut reply = vec![0; usize::from(u16::from_be_bytes(len))];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[3] & 0xf, 3, "NXDOMAIN");
        replies.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn datagrams_do_not_wait_for_the_expensive_queries_of_connections() {
    let (site, upstream) = (Site::new(), Upstream::start());
    fs::write(site.directory.join("evil.txt"), hostile()).unwrap();
    let list = "[[list]]\nname = \"evil\"\nfile = \"evil.txt\"\nformat = \"pihole-regex\"\n";
    site.configure(upstream.addr, "workers = 1", list);
    let server = site.start();
    let client = udp_client();
    let cheap = || ask_patiently(&client, site.dns, "www.example");
    cheap();

    let replies = AtomicUsize::new(0);
    let total = CONNECTIONS * QUERIES;
    thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let mut stream = TcpStream::connect(site.dns).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            let queries: Vec<_> = (0..QUERIES)
                .flat_map(|number| framed(&query(7, &expensive(connection * QUERIES + number))))
                .collect();
            stream.write_all(&queries).unwrap();
            let replies = &replies;
            scope.spawn(move || count_replies(stream, replies));
        }
        // Before the time of connections had a limit, a turn answered all of them.
        let (mut before, mut rounds) = (replies.load(Ordering::SeqCst), 0);
        while before < total {
            cheap();
            let now = replies.load(Ordering::SeqCst);
            assert!(now - before < total / 2, "{} of {total} in one round", now - before);
            (before, rounds) = (now, rounds + 1);
        }
        assert!(rounds > 2, "{rounds} rounds");
    });
    let cut_short = site.metric("avocet_list_lookups_cut_short_total");
    assert!(cut_short > total as f64 / 2.0, "{cut_short}: the queries are cheap");
    server.stop();
}
