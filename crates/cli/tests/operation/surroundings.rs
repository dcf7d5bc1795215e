//! How the server adapts to the machine: accounts, permissions, addresses, descriptors.

use std::fs;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use avocet_testkit::confinement::Confinement;

use crate::namespace::in_namespace;
use crate::server::{Server, Site, exists};
use crate::upstream::{ADDRESS, Upstream};

fn configured() -> (Site, Upstream) {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "", "");
    (site, upstream)
}

fn is_root() -> bool {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root {
        println!("passed over: only root becomes another user");
    }
    is_root
}

/// All files and directories at and below a path.
fn tree(path: &Path) -> Vec<PathBuf> {
    let below = |path: &Path| {
        fs::read_dir(path).unwrap().flat_map(|entry| tree(&entry.unwrap().path())).collect()
    };
    let mut found: Vec<PathBuf> = if path.is_dir() { below(path) } else { Vec::new() };
    found.push(path.to_owned());
    found
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn what_is_kept_on_disk_is_for_the_account_of_the_server_alone() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let list = site.directory.join("ads.txt");
    fs::write(&list, "ads.example\n").unwrap();
    site.configure(
        upstream.addr,
        "",
        &format!(
            "[[list]]\nname = \"ads\"\nfile = \"{}\"\n[home-ca]\nnames = [\"dns.home.arpa\"]\n",
            list.display()
        ),
    );
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "umask 022; exec \"$0\" serve --config \"$1\"",
        env!("CARGO_BIN_EXE_avocet"),
    ]);
    command.arg(site.file());
    let server = Server::start(command);
    site.ask("www.example");
    site.avocet_text(&["lists", "refresh"]);
    site.avocet_text(&["pause", "--for", "1h"]);
    server.stop();
    let kept = tree(&site.data());
    assert!(kept.len() > 3 && exists(&site.snapshot()), "{kept:?}");
    for path in kept {
        assert_eq!(mode(&path), if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
}

#[test]
fn a_data_directory_that_was_not_there_belongs_to_the_user_of_the_server() {
    if !is_root() {
        return;
    }
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "user = \"nobody\"", "");
    let server = site.start();
    assert_eq!(site.ask("www.example").0, ADDRESS);
    server.stop();
    assert!(exists(&site.snapshot()));
    assert_ne!(fs::metadata(site.data()).unwrap().uid(), 0);
}

#[test]
fn members_of_the_control_group_reach_the_control_socket() {
    if !is_root() {
        return;
    }
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "user = \"nobody\"\ncontrol-group = \"daemon\"", "");
    let _server = site.start();
    let groups = fs::read_to_string("/etc/group").unwrap();
    let group = groups.lines().find_map(|line| line.strip_prefix("daemon:")).unwrap();
    let gid: u32 = group.split(':').nth(1).unwrap().parse().unwrap();
    let socket = site.data().join("control.sock");
    for (path, expected) in [(site.data(), 0o710), (socket, 0o660)] {
        assert_eq!(
            (mode(&path), fs::metadata(&path).unwrap().gid()),
            (expected, gid),
            "{}",
            path.display()
        );
    }
}

#[test]
fn a_control_group_that_does_not_exist_is_reported() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(upstream.addr, "control-group = \"no-such-group\"", "");
    let told = String::from_utf8(site.avocet(&["check"]).stderr).unwrap();
    assert!(
        told.contains("warning: [server] control-group: there is no group no-such-group"),
        "{told}"
    );
    let (code, log) = Server::spawn(site.serve()).wait();
    assert_eq!(code, Some(1));
    assert!(log.last().unwrap().contains("there is no group no-such-group"), "{log:?}");
}

/// Starts a server, queries it, and ends it; its log must have a warning with this text.
#[track_caller]
fn check_warning(site: &Site, command: Command, text: &str) {
    let server = Server::start(command);
    assert_eq!(site.ask("www.example").0, ADDRESS);
    let log = server.stop();
    assert!(
        log.iter().any(|line| line.contains("WARN") && line.contains(text)),
        "{}",
        log.join("\n")
    );
}

#[test]
fn an_address_that_the_host_lacks_at_first_delays_no_client() {
    let (site, _upstream) = configured();
    let later = SocketAddr::new(IpAddr::from([198, 51, 100, 53]), site.dns.port());
    let mut command = site.serve();
    command.env("AVOCET_SERVER__LISTEN", format!("{},{later}", site.dns));
    check_warning(&site, command, "this host does not have the address 198.51.100.53");
}

#[test]
fn a_system_without_ipv6_is_served_over_ipv4() {
    let (site, _upstream) = configured();
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/avocet.service");
    let confinement =
        Confinement::of_unit(&fs::read_to_string(unit).unwrap()).without_family("AF_INET6");
    let mut command = site.serve();
    confinement.apply(
        command.env("AVOCET_SERVER__LISTEN", format!("{},[::]:{}", site.dns, site.dns.port())),
    );
    check_warning(&site, command, "this system has no IPv6");
}

#[test]
fn few_descriptors_are_warned_of() {
    let (site, _upstream) = configured();
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "ulimit -n 1024; exec \"$0\" serve --config \"$1\"",
        env!("CARGO_BIN_EXE_avocet"),
    ]);
    command.arg(site.file()).env("AVOCET_SERVER__WORKERS", "4");
    check_warning(&site, command, "raise the limit of open files");
}

#[test]
fn a_server_that_stays_root_says_so() {
    if is_root() {
        let (site, _upstream) = configured();
        check_warning(&site, site.serve(), "running as root");
    }
}

#[test]
fn an_octet_that_is_not_utf8_is_reported_with_its_place() {
    let site = Site::new();
    fs::write(site.file(), b"[server]\n# caf\xe9\nworkers = 1\n").unwrap();
    let told = String::from_utf8(site.avocet(&["check"]).stderr).unwrap();
    assert!(told.contains(&format!("{}:2:6: is not UTF-8", site.file().display())), "{told}");
}

#[test]
fn a_list_without_https_is_warned_of() {
    let (site, upstream) = (Site::new(), Upstream::start());
    site.configure(
        upstream.addr,
        "",
        "[[list]]\nname = \"ads\"\nurl = \"http://lists.example/ads\"\n",
    );
    let check = site.avocet(&["check"]);
    let told = String::from_utf8(check.stderr).unwrap();
    assert!(
        check.status.success()
            && told.contains("warning: the list \"ads\" is fetched without https"),
        "{told}"
    );
}

#[test]
fn a_server_that_can_resolve_nothing_says_why_until_it_can() {
    let site = Site::new();
    let nobody = crate::server::free_address();
    site.configure(nobody, "", "");
    let mut server = site.start();
    for name in ["a.example", "b.example", "c.example"] {
        assert_eq!(site.ask_any(name).0 & 0xf, 2, "SERVFAIL");
    }
    let line = server.wait_for_line("names cannot be resolved");
    assert!(line.contains("WARN") && line.contains(&nobody.to_string()), "{line}");
    let unready = "the server cannot resolve any name\n";
    assert_eq!(site.http_get("/ready"), (503, unready.to_owned()));
    let status = site.avocet_text(&["status"]);
    assert!(status.contains("no server of [[forward]] zone \".\" answers"), "{status}");
    assert_eq!(site.metric("avocet_condition{condition=\"resolution\"}"), 1.0);
    let upstream = Upstream::start();
    site.configure(upstream.addr, "", "");
    site.avocet_text(&["reload"]);
    assert_eq!(site.ask("d.example").0, ADDRESS);
    server.wait_for_line("condition resolved");
    assert_eq!(site.http_get("/ready").0, 200);
}

/// Many networks answer all queries to port 53 themselves.
#[test]
fn a_network_that_answers_for_the_root_is_named() {
    in_namespace("surroundings::a_network_that_answers_for_the_root_is_named", &[], || {
        let site = Site::new();
        let root = UdpSocket::bind("127.0.0.63:53").unwrap();
        thread::spawn(move || deny_all(&root));
        let hints = site.directory.join("hints");
        fs::write(&hints, ". 3600 NS a.root.\na.root. 3600 A 127.0.0.63\n").unwrap();
        site.write(&format!(
            "[server]\nlisten = [\"{}\"]\nhttp = \"{}\"\n[resolver]\nmode = \"recurse\"\n\
             query-private = true\nroot-hints = \"{}\"\n[data]\ndirectory = \"{}\"\n",
            site.dns,
            site.http,
            hints.display(),
            site.data().display()
        ));
        let mut server = site.start();
        for name in ["a.example", "b.example", "c.example", "d.example"] {
            assert_eq!(site.ask_any(name).0 & 0xf, 2, "SERVFAIL");
        }
        let line = server.wait_for_line("names cannot be resolved");
        assert!(line.contains("something intercepts port 53"), "{line}");
    });
}

/// Answers each query with NXDOMAIN.
fn deny_all(socket: &UdpSocket) {
    let mut buffer = [0; 4096];
    while let Ok((len, from)) = socket.recv_from(&mut buffer) {
        let end = 12 + buffer[12..len].iter().position(|octet| *octet == 0).unwrap() + 5;
        buffer[2..12].copy_from_slice(&[0x84, 3, 0, 1, 0, 0, 0, 0, 0, 0]);
        // The test may be over.
        let _ = socket.send_to(&buffer[..end], from);
    }
}
