//! Hosted zones from tables, JSON and leases on the running server.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;

use crate::server::{Server, Site};
use crate::upstream::Upstream;

const FIELDS: &str = "#Fields: MachineFunction,StaticIP,MachineName\n";

fn dig(server: SocketAddr, question: &[&str]) -> Vec<String> {
    let output = Command::new("dig")
        .args([&format!("@{}", server.ip()), "-p", &server.port().to_string(), "+short"])
        .args(question)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn reload(site: &Site) -> (bool, String) {
    let output = site.avocet(&["zone", "reload", "corp.example"]);
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Starts a server with `corp.example` from a table, and `lan` with its reverse names from leases.
fn start(site: &Site, upstream: &Upstream) -> Server {
    let zone = |name: &str, provider: &str, file: &str, rest: &str| {
        let file = site.directory.join(file);
        format!(
            "[[zone]]\nname = \"{name}\"\nprovider = \"{provider}\"\nfile = \"{}\"\n{rest}\n",
            file.display()
        )
    };
    let zones = zone(
        "corp.example",
        "csv",
        "table",
        "allow-transfer = [\"127.0.0.0/8\"]\n\
                      settle-secs = 3600",
    ) + &zone("lan", "leases", "leases", "settle-secs = 0")
        + &zone("1.168.192.in-addr.arpa", "leases", "leases", "domain = \"lan\"\nsettle-secs = 0");
    site.configure(upstream.addr, "", &zones);
    site.start()
}

#[test]
fn tables_and_leases_are_answered_and_a_bad_table_changes_nothing() {
    let (upstream, site) = (Upstream::start(), Site::new());
    let table = site.directory.join("table");
    let leases = site.directory.join("leases");
    fs::write(&table, format!("{FIELDS}web,192.0.2.1,web01\nweb,192.0.2.2,web02\n")).unwrap();
    fs::write(&leases, "0 02:00:00:00:00:01 192.168.1.20 tablet *\n").unwrap();
    let _server = start(&site, &upstream);
    assert_eq!(dig(site.dns, &["web.corp.example"]), ["192.0.2.1", "192.0.2.2"]);
    assert_eq!(dig(site.dns, &["tablet.lan"]), ["192.168.1.20"]);
    assert_eq!(dig(site.dns, &["-x", "192.168.1.20"]), ["tablet.lan."]);
    let serial = || {
        let soa = dig(site.dns, &["corp.example", "SOA"]);
        soa[0].split(' ').nth(2).unwrap().parse::<u32>().unwrap()
    };
    let first = serial();

    fs::write(&table, format!("{FIELDS}web,192.0.2,web01\n")).unwrap();
    let (is_fine, _) = reload(&site);
    assert!(!is_fine);
    assert_eq!(dig(site.dns, &["web.corp.example"]), ["192.0.2.1", "192.0.2.2"]);
    let status = site.avocet_text(&["zone", "list"]);
    assert!(status.contains("\"192.0.2\" is not an IP address"), "{status}");

    fs::write(&table, format!("{FIELDS}web,192.0.2.9,web01\n")).unwrap();
    assert!(reload(&site).0);
    assert_eq!(dig(site.dns, &["web.corp.example"]), ["192.0.2.9"]);
    let second = serial();
    assert!(second > first, "{second} after {first}");
    let changes = dig(site.dns, &["+tcp", "corp.example", &format!("IXFR={first}")]);
    assert!(changes.iter().any(|line| line.contains("192.0.2.9")), "{changes:?}");
    let refused = site.avocet(&["zone", "set", "corp.example", "www", "A", "192.0.2.7"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("comes from a provider"));
    assert_eq!(fs::read_to_string(&table).unwrap(), format!("{FIELDS}web,192.0.2.9,web01\n"));

    // A lease that begins is answered without a command.
    fs::write(&leases, "0 02:00:00:00:00:02 192.168.1.21 phone *\n").unwrap();
    while dig(site.dns, &["phone.lan"]) != ["192.168.1.21"] {}
    assert_eq!(dig(site.dns, &["tablet.lan"]), [""; 0]);
    let text = site.avocet_text(&["check"]);
    assert!(text.contains("no errors"), "{text}");
}
