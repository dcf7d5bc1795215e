//! The server under the restrictions of its systemd unit: it does not need what the unit forbids,
//! or reports it.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use avocet_testkit::confinement::Confinement;

use crate::server::{PATIENCE, Server, Site, ask_over_tcp, ask_patiently};
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

[[rule]]
name = "games"
when = 'client.group("kids") && qname.under("game.example")'
action = "block"

[[list]]
name = "ads"
file = "LIST"
"#;

fn confinement() -> Confinement {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/avocet.service");
    Confinement::of_unit(&std::fs::read_to_string(unit).unwrap())
}

/// A site whose policy identifies a tablet at 127.0.0.2 by its MAC address and its lease.
fn site(upstream: &Upstream) -> Site {
    let site = Site::new();
    let (leases, list) = (site.directory.join("leases"), site.directory.join("ads.txt"));
    std::fs::write(&leases, "0 02:00:00:00:00:01 127.0.0.2 tablet *\n").unwrap();
    std::fs::write(&list, "ads.example\n").unwrap();
    let policy = POLICY.replace("LEASES", &leases.display().to_string());
    site.configure(upstream.addr, "", &policy.replace("LIST", &list.display().to_string()));
    site
}

fn confined(site: &Site, confinement: &Confinement, arguments: &[&str]) -> Command {
    let mut command = site.serve();
    confinement.apply(command.args(arguments));
    command
}

/// Sends queries as the tablet until its lease is known: the server checks the file every few
/// seconds.
#[track_caller]
fn tablet_becomes_known(site: &Site) {
    let (socket, began) = (UdpSocket::bind(("127.0.0.2", 0)).unwrap(), Instant::now());
    while ask_patiently(&socket, site.dns, "game.example") != BLOCKED {
        assert!(began.elapsed() < PATIENCE, "the tablet is not known by its lease");
    }
}

#[test]
fn all_that_the_server_does_works_under_its_unit_file() {
    let upstream = Upstream::start();
    let site = site(&upstream);
    let confinement = confinement();
    let server = Server::start(confined(&site, &confinement, &[]));
    tablet_becomes_known(&site);
    assert_eq!(
        site.http_get("/health"),
        (200, "healthy\n".to_owned()),
        "the table of neighbours can be read"
    );
    assert_eq!(ask_over_tcp(site.dns, "game.example").0, ADDRESS);
    assert!(site.avocet_text(&["lists", "refresh"]).contains("ads"));
    assert_eq!(site.ask("ads.example").0, BLOCKED);
    assert_eq!(site.avocet_text(&["reload"]), "reloaded\n");
    site.avocet_text(&["pause", "--for", "5m"]);
    site.avocet_text(&["cache", "stats"]);
    let successor = Server::start(confined(&site, &confinement, &["--take-over"]));
    let (code, log) = server.wait();
    assert_eq!(code, Some(0), "{}", log.join("\n"));
    assert_eq!(site.ask("other.example").0, ADDRESS);
    let log = successor.stop();
    assert!(log.iter().all(|line| !line.contains("ERROR")), "{}", log.join("\n"));
    assert!(site.snapshot().exists());
}

#[test]
fn leases_count_and_a_warning_stays_where_the_table_of_neighbours_cannot_be_read() {
    let upstream = Upstream::start();
    let site = site(&upstream);
    let confinement = confinement().without_family("AF_NETLINK");
    let server = Server::start(confined(&site, &confinement, &[]));
    tablet_becomes_known(&site);
    let status = site.avocet_text(&["status"]);
    assert!(status.contains("warning: cannot read the kernel's neighbour table"), "{status}");
    assert_eq!(site.metric("avocet_condition{condition=\"neighbours\"}"), 1.0);
    let mut check = Command::new(env!("CARGO_BIN_EXE_avocet"));
    confinement.apply(check.args(["check", "--config"]).arg(site.file()));
    let output = check.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success()
            && told.contains("warning: cannot read the kernel's neighbour table"),
        "{told}"
    );
    let log = server.stop().join("\n");
    assert!(log.contains("cannot read the kernel's neighbour table"), "{log}");
}
