//! Hosted zones whose signatures and digests come and go with the configuration: other servers
//! follow, and never keep what is gone. Knot DNS, NSD, BIND and this server as secondaries.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::peers::{ALL, PATIENCE, Peer, Role, SECRET};
use crate::server::{Server, Site, free_address, is_here};
use crate::upstream::Upstream;

/// How a new configuration comes into force.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Reload,
    Restart,
}

/// A primary of `corp.example` with secondaries.
struct Published {
    site: Site,
    server: Option<Server>,
    upstream: Upstream,
    secondaries: Vec<SocketAddr>,
}

fn zone_text(serial: u32) -> String {
    format!(
        "$ORIGIN corp.example.\n$TTL 60\n@ SOA ns host {serial} 1 1 4w 60\n@ NS ns\nns A \
         192.0.2.1\nv{serial} A 192.0.2.2\n*.wild TXT any\n"
    )
}

/// Returns the records of a transfer as dig prints them, without order.
fn transfer(from: SocketAddr, key: &[&str]) -> BTreeSet<String> {
    let (at, port) = (format!("@{}", from.ip()), from.port().to_string());
    let ran = Command::new("dig")
        .args([&at, "-p", &port, "+nocrypto", "+noall", "+answer", "+onesoa"])
        .args(key)
        .args(["corp.example", "AXFR"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ran.stdout).to_ascii_lowercase();
    let lines = text.lines().filter(|line| line.contains("\tin\t"));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

impl Published {
    fn start() -> Self {
        let (upstream, site) = (Upstream::start(), Site::new());
        fs::write(site.directory.join("corp.zone"), zone_text(7)).unwrap();
        let secret = site.directory.join("secret");
        fs::write(&secret, SECRET).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let secondaries = [(); 4].map(|()| free_address()).to_vec();
        let mut published = Self { site, server: None, upstream, secondaries };
        published.configure("");
        published.server = Some(published.site.start());
        published
    }

    fn configure(&self, settings: &str) {
        let notify =
            self.secondaries.iter().map(|addr| format!("\"{addr} key transfer\"")).collect();
        let notify: Vec<String> = notify;
        let zone = format!(
            "[[key]]\nname = \"transfer\"\nsecret-file = \"secret\"\n[[zone]]\nname = \
             \"corp.example\"\nfile = \"corp.zone\"\nsettle-secs = 3600\nallow-transfer = \
             [\"127.0.0.1 key transfer\"]\nnotify = [{}]\n{settings}",
            notify.join(", ")
        );
        self.site.configure(self.upstream.addr, "", &zone);
    }

    fn turn(&mut self, settings: &str, by: Turn) {
        self.configure(settings);
        match by {
            Turn::Reload => drop(self.site.avocet_text(&["reload"])),
            Turn::Restart => {
                self.server.take().unwrap().stop();
                self.server = Some(self.site.start());
            }
        }
    }

    /// Returns the records that the primary publishes.
    fn records(&self) -> BTreeSet<String> {
        let key = format!("hmac-sha256:transfer:{SECRET}");
        transfer(self.site.dns, &["-y", &key])
    }
}

/// Returns the serial of a transfer.
fn serial_of(records: &BTreeSet<String>) -> u32 {
    let soa = records.iter().find(|record| record.contains(" in soa ")).unwrap();
    soa.split(' ').nth(6).unwrap().parse().unwrap()
}

/// Waits until a server has exactly these records.
fn wait_for(addr: SocketAddr, expected: &BTreeSet<String>, context: &str) {
    let until = Instant::now() + PATIENCE;
    loop {
        let found = transfer(addr, &[]);
        if found == *expected {
            return;
        }
        let surplus: Vec<_> = found.difference(expected).collect();
        let missing: Vec<_> = expected.difference(&found).collect();
        let late = Instant::now() < until;
        assert!(late, "{context}: {surplus:#?} too much, {missing:#?} missing");
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

/// Starts this server as a secondary.
fn own_secondary(primary: SocketAddr, upstream: SocketAddr, dns: SocketAddr) -> (Site, Server) {
    let mut site = Site::new();
    site.dns = dns;
    let secret = site.directory.join("secret");
    fs::write(&secret, SECRET).unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let zone = format!(
        "[[key]]\nname = \"transfer\"\nsecret-file = \"secret\"\n[[zone]]\nname = \
         \"corp.example\"\nprimaries = [\"{primary}\"]\nkey = \"transfer\"\nallow-transfer = \
         [\"127.0.0.1\"]\n"
    );
    site.configure(upstream, "", &zone);
    let server = site.start();
    (site, server)
}

#[test]
fn secondaries_follow_a_zone_whose_signatures_and_digests_come_and_go() {
    if !is_here("dig") {
        return;
    }
    let mut zone = Published::start();
    let _own = own_secondary(zone.site.dns, zone.upstream.addr, zone.secondaries[3]);
    let start = |(program, addr): (_, &SocketAddr)| {
        Peer::start(program, Role::Secondary(zone.site.dns), "", *addr)
    };
    let peers: Vec<_> = ALL.into_iter().zip(&zone.secondaries).filter_map(start).collect();
    let addresses: Vec<_> = peers.iter().map(Peer::addr).chain([zone.secondaries[3]]).collect();
    let mut serial = 6;
    let mut check = |zone: &Published, has: &[&str], context: &str| {
        let records = zone.records();
        for rtype in ["rrsig", "dnskey", "nsec", "zonemd"] {
            let is_there = records.iter().any(|record| record.contains(&format!(" in {rtype} ")));
            assert_eq!(is_there, has.contains(&rtype), "{context}: {rtype} in {records:#?}");
        }
        let next = serial_of(&records);
        assert!(next > serial, "{context}: {next} behind {serial}");
        serial = next;
        for addr in &addresses {
            wait_for(*addr, &records, &format!("{context}, at {addr}"));
        }
    };
    check(&zone, &[], "at the start");
    let (signed, digested) = ("sign = true", "zonemd-hash = \"sha384\"");
    let all: &[&str] = &["rrsig", "dnskey", "nsec", "zonemd"];
    let mut of_file = 7;
    for (settings, has, by) in [
        (signed, all, Turn::Reload),
        ("", &[], Turn::Reload),
        (digested, &["zonemd"], Turn::Reload),
        ("", &[], Turn::Reload),
        (signed, all, Turn::Restart),
        ("", &[], Turn::Restart),
        (digested, &["zonemd"], Turn::Restart),
        (signed, all, Turn::Restart),
        (digested, &["zonemd"], Turn::Reload),
        ("", &[], Turn::Restart),
    ] {
        zone.turn(settings, by);
        check(&zone, has, &format!("{settings:?} by {by:?}"));
        // A change in this form: its serial may be behind that of the secondaries.
        of_file += 1;
        fs::write(zone.site.directory.join("corp.zone"), zone_text(of_file)).unwrap();
        zone.site.avocet_text(&["zone", "reload", "corp.example"]);
        check(&zone, has, &format!("{of_file} in {settings:?} by {by:?}"));
    }
    // The serial does not rise without a change.
    let before = zone.records();
    zone.turn("", Turn::Restart);
    assert_eq!(zone.records(), before);
    // After all published serials, the serials of the file apply again.
    for of_file in [1_000, 1_001] {
        fs::write(zone.site.directory.join("corp.zone"), zone_text(of_file)).unwrap();
        zone.site.avocet_text(&["zone", "reload", "corp.example"]);
        check(&zone, &[], &format!("{of_file} of the file"));
    }
    assert_eq!(serial, 1_001);
}
