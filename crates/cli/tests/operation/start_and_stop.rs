//! Failed starts, and the ways in which a server ends.

use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::server::{
    PATIENCE, Server, Site, exists, first_record, free_address, query, udp_client,
};
use crate::upstream::{ADDRESS, Upstream};

fn refused(site: &Site) -> String {
    let (code, log) = Server::spawn(site.serve()).wait();
    assert_eq!(code, Some(1), "{}", log.join("\n"));
    let last = log.last().unwrap().clone();
    assert_eq!(
        log.iter().filter(|line| line.starts_with("avocet: ")).count(),
        1,
        "{}",
        log.join("\n")
    );
    last
}

#[test]
fn a_port_in_use_is_reported_in_one_line() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let expected = |on: String, port: u16, setting: &str| {
        format!(
            "avocet: cannot listen on {on}: another server is using it; stop that one, or change \
             {setting}; `ss -lnptu 'sport = :{port}'` shows the process"
        )
    };
    let of_dns = expected(site.dns.to_string(), site.dns.port(), "[server] listen");
    let udp = UdpSocket::bind(site.dns).unwrap();
    assert_eq!(refused(&site), of_dns);
    drop(udp);
    let tcp = TcpListener::bind(site.dns).unwrap();
    assert_eq!(refused(&site), of_dns);
    drop(tcp);
    let http = TcpListener::bind(site.http).unwrap();
    let of_http = format!("{} for HTTP", site.http);
    assert_eq!(refused(&site), expected(of_http, site.http.port(), "[server] http"));
    drop(http);
    site.start().stop();

    let guest = free_address();
    let listener = format!("[[listener]]\nname = \"guest\"\nlisten = [\"{guest}\"]\n");
    site.configure(upstream.addr, "", &listener);
    let _udp = UdpSocket::bind(guest).unwrap();
    let setting = "`listen` of the [[listener]] \"guest\"";
    assert_eq!(refused(&site), expected(guest.to_string(), guest.port(), setting));
}

#[test]
fn a_second_server_in_the_same_directory_is_refused() {
    let (site, other, upstream) = (Site::new(), Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let _server = site.start();
    let text = std::fs::read_to_string(site.file()).unwrap();
    let ports = [
        (site.dns.to_string(), other.dns.to_string()),
        (site.http.to_string(), other.http.to_string()),
    ];
    let text = ports.iter().fold(text, |text, (old, new)| text.replace(old, new));
    other.write(&text);
    let line = refused(&other);
    assert!(line.contains("another avocet is running with data directory"), "{line}");
    site.avocet_text(&["cache", "stats"]);
}

#[test]
fn a_socket_that_a_killed_server_left_is_no_obstacle() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let server = site.start();
    server.signal("KILL");
    assert_eq!(server.wait().0, None);
    assert!(exists(&site.data().join("control.sock")));
    let server = site.start();
    site.avocet_text(&["cache", "stats"]);
    server.stop();
    assert!(!exists(&site.data().join("control.sock")));
}

#[test]
fn queries_in_flight_are_answered_before_the_end() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let mut server = site.start();
    let held = upstream.hold();
    let client = udp_client();
    client.send_to(&query(9, "slow.example"), site.dns).unwrap();
    assert_eq!(upstream.wait_for_question(), "slow.example.");
    server.signal("TERM");
    server.wait_for_line("shutting down");
    drop(held);
    let mut reply = [0; 4096];
    let len = client.recv(&mut reply).unwrap();
    assert_eq!(first_record(&reply[..len], "slow.example").0, ADDRESS);
    let (code, log) = server.wait();
    assert_eq!(code, Some(0), "{}", log.join("\n"));
    assert!(exists(&site.snapshot()));
}

#[test]
fn a_second_signal_ends_at_once() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "[cache]\nserve-stale = false\n");
    let mut server = site.start();
    let _held = upstream.hold();
    udp_client().send_to(&query(9, "slow.example"), site.dns).unwrap();
    upstream.wait_for_question();
    server.signal("INT");
    server.wait_for_line("shutting down");
    server.signal("INT");
    assert_eq!(server.wait().0, Some(0));
}

#[test]
fn a_log_without_a_reader_delays_nothing() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let mut child = site.serve().stderr(Stdio::piped()).spawn().unwrap();
    let _unread = child.stderr.take().unwrap();
    let began = Instant::now();
    while UnixStream::connect(site.data().join("control.sock")).is_err() {
        assert!(began.elapsed() < PATIENCE, "it does not start");
    }
    // Each wrong key is a log line; together they exceed the capacity of a pipe.
    let wrong: String = (0..1_000).map(|number| format!("wrong-key-{number} = 1\n")).collect();
    site.configure(upstream.addr, &wrong, "");
    assert!(!site.avocet(&["reload"]).status.success());
    site.configure(upstream.addr, "", "");
    assert_eq!(site.avocet_text(&["reload"]), "reloaded\n");
    assert!(
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success()
    );
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(exists(&site.snapshot()), "it ended in good order");
}

#[test]
fn a_check_warns_of_the_files_that_a_server_would_miss() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let text = "[resolver]\nmode = \"recurse\"\nlocal-root = \"/no/root.zone\"\n[policy]\nleases = \"/no/leases\"\n\
                [[list]]\nname = \"ads\"\nfile = \"/no/ads\"\n";
    site.configure(upstream.addr, "", text);
    let check = site.avocet(&["check"]);
    assert!(check.status.success(), "a server would start");
    let told = String::from_utf8(check.stderr).unwrap();
    for part in [
        "/no/root.zone cannot be read",
        "cannot read the leases in /no/leases",
        "cannot read the list \"ads\"",
    ] {
        assert!(told.contains("warning: ") && told.contains(part), "{part:?} in {told}");
    }
    let json: serde_json::Value =
        serde_json::from_slice(&site.avocet(&["check", "--json"]).stdout).unwrap();
    assert_eq!((&json["ok"], json["warnings"].as_array().map(Vec::len)), (&true.into(), Some(3)));
}

#[test]
fn signals_of_other_servers_do_not_end_it() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    let mut server = site.start();
    for signal in ["USR1", "USR2"] {
        server.signal(signal);
        server.wait_for_line("SIGUSR1 and SIGUSR2 have no effect");
    }
    assert_eq!(site.ask("www.example").0, ADDRESS);
    server.stop();
}

#[test]
fn a_data_directory_that_is_a_file_is_reported_in_one_line() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    std::fs::write(site.data(), "").unwrap();
    let expected = format!(
        "avocet: {} is a file; [data] directory must be a directory",
        site.data().display()
    );
    assert_eq!(refused(&site), expected);
}
