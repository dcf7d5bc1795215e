//! Devices that are identified by leases of the DHCP server, and by PTR records.

use std::net::UdpSocket;
use std::time::Instant;

use crate::server::{PATIENCE, Site, ask_patiently};
use crate::upstream::{ADDRESS, Upstream};

/// The address in responses to blocked questions.
const BLOCKED: [u8; 4] = [0; 4];

const POLICY: &str = r#"
[policy]
block-answer = "zero"
leases = "LEASES"

[[client]]
name = "tablet"
ids = ["02:00:00:00:00:01"]
groups = ["kids"]

[[group]]
name = "kids"
clients = ["console"]

[[rule]]
name = "games"
when = 'client.group("kids") && qname.under("game.example")'
action = "block"
"#;

/// Sends queries from an address until the answer matches: the server checks the file every few
/// seconds.
#[track_caller]
fn becomes(site: &Site, address: &str, answer: [u8; 4]) {
    let (socket, began) = (UdpSocket::bind((address, 0)).unwrap(), Instant::now());
    while ask_patiently(&socket, site.dns, "game.example") != answer {
        assert!(began.elapsed() < PATIENCE, "{address} is not who it should be");
    }
}

#[test]
fn a_device_is_known_by_the_mac_and_the_name_of_its_lease() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let leases = site.directory.join("dnsmasq.leases");
    let write = |text: &str| {
        let beside = leases.with_extension("beside");
        std::fs::write(&beside, text).unwrap();
        std::fs::rename(beside, &leases).unwrap();
    };
    write("0 02:00:00:00:00:01 127.0.0.2 whatever *\n0 02:00:00:00:00:02 127.0.0.3 console *\n");
    site.configure(upstream.addr, "", &POLICY.replace("LEASES", &leases.display().to_string()));
    let _server = site.start();
    // The leases count from the first query on.
    for (address, answer) in
        [("127.0.0.2", BLOCKED), ("127.0.0.3", BLOCKED), ("127.0.0.4", ADDRESS)]
    {
        let socket = UdpSocket::bind((address, 0)).unwrap();
        assert_eq!(ask_patiently(&socket, site.dns, "game.example"), answer, "{address}");
    }
    // The devices have new addresses.
    write("0 02:00:00:00:00:01 127.0.0.4 whatever *\n0 02:00:00:00:00:02 127.0.0.2 laptop *\n");
    becomes(&site, "127.0.0.4", BLOCKED);
    becomes(&site, "127.0.0.2", ADDRESS);
    becomes(&site, "127.0.0.3", ADDRESS);
}

const NAMED: &str = r#"
[policy]
block-answer = "zero"

[[rule]]
name = "games"
when = 'client.name == "tablet.lan" && qname.under("game.example")'
action = "block"

[[record]]
name = "tablet.lan"
type = "A"
values = ["127.0.0.2"]
ttl-secs = 1

[[record]]
name = "console.lan"
type = "A"
values = ["127.0.0.3"]
"#;

#[test]
fn a_device_is_known_by_the_name_that_its_address_has() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", NAMED);
    let _server = site.start();
    becomes(&site, "127.0.0.2", BLOCKED);
    becomes(&site, "127.0.0.3", ADDRESS);
    becomes(&site, "127.0.0.4", ADDRESS);
    let asked = upstream.asked();
    assert!(
        asked.iter().all(|name| name == "game.example."),
        "private addresses are nobody's business: {asked:?}"
    );
    assert!(site.metric("avocet_client_name_lookups_total") >= 1.0);
    let why = site.avocet_text(&["why", "game.example", "--client", "127.0.0.2"]);
    assert!(why.contains("blocked by rule games, for 127.0.0.2 (tablet.lan, "), "{why}");
}

#[test]
fn where_nothing_goes_by_names_none_is_looked_up() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let leases = site.directory.join("dnsmasq.leases");
    std::fs::write(&leases, "0 02:00:00:00:00:01 127.0.0.2 whatever *\n").unwrap();
    // The main thread needs a round to read the lease. Meanwhile, the thread for names also
    // completes a round.
    let policy = POLICY
        .replace("LEASES", &leases.display().to_string())
        .replace("\"console\"", "\"127.0.0.9\"");
    site.configure(upstream.addr, "", &policy);
    let _server = site.start();
    becomes(&site, "127.0.0.2", BLOCKED);
    assert_eq!(site.metric("avocet_client_name_lookups_total"), 0.0);
}
