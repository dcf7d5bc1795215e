//! The ports that queries to servers leave from.

use std::collections::HashSet;
use std::fs;
use std::ops::RangeInclusive;
use std::thread;
use std::time::{Duration, Instant};

use crate::namespace::in_namespace;
use crate::server::{PATIENCE, Server, Site};
use crate::upstream::{ADDRESS, Upstream};

/// The kernel's list of ports for other programs, one for each network namespace.
const RESERVED: &str = "/proc/sys/net/ipv4/ip_local_reserved_ports";
/// Sockets of a pool that a test waits for.
const MANY: usize = 200;

/// The ports of the server's connected UDP sockets.
fn source_ports(server: &Server) -> Vec<u16> {
    let process = format!("/proc/{}", server.id());
    let links = fs::read_dir(format!("{process}/fd")).unwrap();
    let links = links.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let own: HashSet<String> = links.map(|link| link.to_string_lossy().into_owned()).collect();
    let table = fs::read_to_string(format!("{process}/net/udp")).unwrap();
    let ports = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_connected = fields[2] != "00000000:0000";
        let is_own = own.contains(&format!("socket:[{}]", fields[9]));
        let port = fields[1].split_once(':').unwrap().1;
        (is_connected && is_own).then(|| u16::from_str_radix(port, 16).unwrap())
    });
    ports.collect()
}

/// Waits until the server has many sockets towards its upstream, some of them in `used` and none in
/// `avoided`.
#[track_caller]
fn come_to(server: &Server, used: &RangeInclusive<u16>, avoided: &[RangeInclusive<u16>]) {
    let began = Instant::now();
    loop {
        let ports = source_ports(server);
        let right = ports.iter().filter(|port| used.contains(*port)).count();
        let wrong = ports.iter().filter(|port| avoided.iter().any(|range| range.contains(*port)));
        let wrong = wrong.count();
        if ports.len() >= MANY && right > 0 && wrong == 0 {
            return;
        }
        let count = ports.len();
        assert!(began.elapsed() < PATIENCE, "{right} of {count} as wanted, {wrong} are avoided");
        thread::park_timeout(Duration::from_millis(20));
    }
}

fn configure(site: &Site, upstream: &Upstream, avoid: &str) {
    site.configure(upstream.addr, "", &format!("[resolver]\navoid-ports = {avoid}"));
}

#[test]
fn no_socket_is_on_an_avoided_port_also_after_a_reload() {
    let upstream = Upstream::start();
    let site = Site::new();
    configure(&site, &upstream, "[\"registered\", \"10000-20000\", 30000]");
    let mut server = site.start();
    assert_eq!(site.ask("first.example").0, ADDRESS);
    // Registered: 1184 to 1275, 5349 to 5364 with mDNS.
    let always = [1184..=1275, 5349..=5364, 51_820..=51_820];
    let first = [&always[..], &[10_000..=20_000, 30_000..=30_000]].concat();
    come_to(&server, &(40_000..=65_535), &first);

    configure(&site, &upstream, "[\"registered\", \"40000-65535\"]");
    server.wait_for_line("configuration reloaded");
    come_to(&server, &(10_000..=20_000), &[&always[..], &[40_000..=65_535]].concat());
    assert_eq!(site.ask("second.example").0, ADDRESS);

    configure(&site, &upstream, "[\"registered\", \"32768-65535\"]");
    let line = server.wait_for_line("not reloaded");
    assert!(line.contains("ports are left for queries to servers; at least 32768"), "{line}");
    assert!(source_ports(&server).iter().all(|port| *port < 40_000));
}

/// The list of the kernel can be written in a network namespace.
#[test]
fn no_socket_is_on_a_port_that_the_kernel_reserves() {
    let name = "ports::no_socket_is_on_a_port_that_the_kernel_reserves";
    in_namespace(name, &[], check_reserved_ports);
}

fn check_reserved_ports() {
    fs::write(RESERVED, "20000-39999").unwrap();
    let upstream = Upstream::start();
    let site = Site::new();
    configure(&site, &upstream, "[\"registered\"]");
    let server = site.start();
    assert_eq!(site.ask("first.example").0, ADDRESS);
    come_to(&server, &(40_000..=65_535), &[20_000..=39_999]);

    fs::write(RESERVED, "40000-59999").unwrap();
    assert_eq!(site.avocet_text(&["reload"]), "reloaded\n");
    come_to(&server, &(20_000..=39_999), &[40_000..=59_999]);

    fs::write(RESERVED, "30000-65535").unwrap();
    let check = site.avocet(&["check"]);
    let said = String::from_utf8_lossy(&check.stderr);
    assert!(
        said.contains("warning: the server would not start on this host: avoid-ports"),
        "{said}"
    );
    let refused = site.avocet(&["reload"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("avoid-ports and ip_local_reserved_ports leave"), "{said}");
    fs::write(RESERVED, "\n").unwrap();
    assert_eq!(site.ask("second.example").0, ADDRESS);
}
