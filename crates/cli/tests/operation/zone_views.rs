//! Zones of one name that different clients see, in a running server: who gets which over UDP and
//! TCP, caches, reloads, commands, API, metrics, transfers and updates, and bad settings.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::server::{PATIENCE, Server, Site, ask_over_tcp, ask_patiently, free_address, is_here};
use crate::upstream::{ADDRESS, Upstream};

const COMMON: [u8; 4] = [192, 0, 2, 1];
const OF_OFFICE: [u8; 4] = [10, 0, 0, 2];
const OF_GUESTS: [u8; 4] = [10, 0, 0, 3];
const OF_VPN: [u8; 4] = [10, 0, 0, 4];

/// A server with `corp.example` for all, for the listener `vpn`, and for the groups `office` and
/// `guests`; and with `split.example` for `office` alone.
struct Viewing {
    site: Site,
    server: Server,
    upstream: Upstream,
    vpn: SocketAddr,
}

fn zone_text(serial: u32, address: [u8; 4], rest: &str) -> String {
    let address = Ipv4Addr::from(address);
    format!(
        "$TTL 60\n@ SOA ns h {serial} 2 3 4 60\n@ NS ns\nns A 192.0.2.53\nwww A {address}\n{rest}"
    )
}

/// A zone from the file with this name.
fn zone(site: &Site, name: &str, file: &str, rest: &str) -> String {
    let file = site.directory.join(file);
    format!(
        "[[zone]]\nname = \"{name}\"\nfile = {file:?}\nsettle-secs = 3600\nserial = \
         \"increment\"\n{rest}\n"
    )
}

/// The groups and the listener.
fn clients(vpn: SocketAddr) -> String {
    format!(
        "[[listener]]\nname = \"vpn\"\nlisten = [\"{vpn}\"]\n\
         [[group]]\nname = \"office\"\nclients = [\"127.0.0.2\"]\n\
         [[group]]\nname = \"guests\"\nclients = [\"127.0.0.3\"]\n"
    )
}

/// All zones. `rest` is added to the settings of the zone of the office.
fn zones(site: &Site, rest: &str) -> String {
    [
        zone(site, "corp.example", "common.zone", ""),
        zone(site, "corp.example", "vpn.zone", "view = [\"listener:vpn\"]"),
        zone(site, "corp.example", "office.zone", &format!("view = [\"office\"]\n{rest}")),
        zone(site, "corp.example", "guests.zone", "view = [\"guests\", \"127.0.7.0/24\"]"),
        zone(site, "split.example", "split.zone", "view = [\"office\"]"),
    ]
    .concat()
}

impl Viewing {
    fn start(rest: &str, more: &str) -> Self {
        let (upstream, site, vpn) = (Upstream::start(), Site::new(), free_address());
        for (file, address) in [
            ("common.zone", COMMON),
            ("office.zone", OF_OFFICE),
            ("split.zone", OF_OFFICE),
            ("guests.zone", OF_GUESTS),
            ("vpn.zone", OF_VPN),
        ] {
            let alias = format!("alias CNAME www.{file}.elsewhere.example.\n");
            fs::write(site.directory.join(file), zone_text(1, address, &alias)).unwrap();
        }
        let text = format!("{}{more}{}", clients(vpn), zones(&site, rest));
        site.configure(upstream.addr, "", &text);
        let server = site.start();
        Self { site, server, upstream, vpn }
    }

    /// Asks over UDP from 127.0.x.y.
    fn ask(&self, from: [u8; 2], name: &str) -> Vec<u8> {
        ask_from(self.site.dns, from, name)
    }

    fn zone(&self, view: &[&str]) -> Value {
        let text = self.site.avocet_text(&["zone", "list", "--json"]);
        let report: Value = serde_json::from_str(&text).unwrap();
        let mut zones = report["zones"].as_array().unwrap().iter();
        let is_meant =
            |zone: &&Value| zone["name"] == "corp.example." && zone["view"] == json!(view);
        zones.find(is_meant).cloned().unwrap_or_else(|| panic!("{view:?}: {report}"))
    }
}

fn ask_from(server: SocketAddr, [third, fourth]: [u8; 2], name: &str) -> Vec<u8> {
    let from = Ipv4Addr::new(127, 0, third, fourth);
    let socket = UdpSocket::bind((from, 0)).unwrap();
    ask_patiently(&socket, server, name)
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

#[test]
fn each_client_gets_the_zone_of_its_view_over_udp_and_tcp() {
    let viewing = Viewing::start("", "");
    let Viewing { site, vpn, .. } = &viewing;
    let www = "www.corp.example";
    for _ in 0..2 {
        assert_eq!(viewing.ask([0, 1], www), COMMON);
        assert_eq!(viewing.ask([0, 2], www), OF_OFFICE);
        assert_eq!(viewing.ask([0, 3], www), OF_GUESTS);
        assert_eq!(viewing.ask([7, 1], www), OF_GUESTS);
        // The first zone of the file with one of the items.
        assert_eq!(ask_from(*vpn, [0, 1], www), OF_VPN);
        assert_eq!(ask_from(*vpn, [0, 2], www), OF_VPN);
        assert_eq!(ask_over_tcp(site.dns, www).0, COMMON);
        assert_eq!(ask_over_tcp(*vpn, www).0, OF_VPN);
    }
    // A name that nobody hosts for the client is resolved, and is in no other view.
    let split = "www.split.example";
    assert_eq!(viewing.ask([0, 2], split), OF_OFFICE);
    assert!(viewing.upstream.asked().is_empty());
    for _ in 0..2 {
        assert_eq!(viewing.ask([0, 1], split), ADDRESS);
        assert_eq!(viewing.ask([0, 3], split), ADDRESS);
        assert_eq!(viewing.ask([0, 2], split), OF_OFFICE);
    }
    assert_eq!(viewing.upstream.asked(), ["www.split.example."]);
    let why = |client: &str| site.avocet_text(&["why", www, "--client", client]);
    let of_office = why("127.0.0.2");
    assert!(of_office.contains("from the hosted zone corp.example./office;"), "{of_office}");
    assert!(why("127.0.0.9").contains("from the hosted zone corp.example.;"));
    drop(viewing.server.stop());
}

#[test]
fn caches_on_disk_are_not_used_for_clients_that_have_another_view_since() {
    let viewing = Viewing::start("", "");
    let Viewing { site, server, upstream, vpn } = viewing;
    let split = "www.split.example";
    assert_eq!(ask_from(site.dns, [0, 3], split), ADDRESS);
    assert_eq!(ask_from(site.dns, [0, 2], split), OF_OFFICE);
    drop(server.stop());
    let all = zones(&site, "");
    let (before, _) = all.rsplit_once("view = [\"office\"]").unwrap();
    let moved = format!("{before}view = [\"guests\"]\n");
    site.configure(upstream.addr, "", &format!("{}{moved}", clients(vpn)));
    let server = site.start();
    assert_eq!(ask_from(site.dns, [0, 3], split), OF_OFFICE);
    assert_eq!(ask_from(site.dns, [0, 2], split), ADDRESS);
    drop(server.stop());
}

#[test]
fn reloads_add_change_and_remove_views() {
    let viewing = Viewing::start("", "");
    let Viewing { site, upstream, vpn, .. } = &viewing;
    let www = "www.corp.example";
    assert_eq!(viewing.ask([0, 2], www), OF_OFFICE);
    let all = zones(site, "");
    let reload = |zones: &str| {
        site.configure(upstream.addr, "", &format!("{}{zones}", clients(*vpn)));
        site.avocet(&["reload"])
    };
    let without = zone(site, "corp.example", "office.zone", "view = [\"office\"]\n");
    assert!(reload(&all.replace(&without, "")).status.success());
    assert_eq!(viewing.ask([0, 2], www), COMMON);
    let swapped = all.replace("\"guests\", ", "\"office\", ").replace(&without, "");
    assert!(reload(&swapped).status.success());
    assert_eq!([[0, 2], [0, 3]].map(|from| viewing.ask(from, www)), [OF_GUESTS, COMMON]);
    // A refused configuration changes nothing.
    let output = reload(&all.replace("\"guests\", ", "\"gests\", "));
    assert_eq!(output.status.code(), Some(1));
    let text = errors(&output);
    let expected = "view of the zone corp.example.: no [[group]] has the name \"gests\"";
    assert!(text.contains(expected), "{text}");
    assert_eq!([[0, 2], [0, 3]].map(|from| viewing.ask(from, www)), [OF_GUESTS, COMMON]);
    let output = reload(&(all.clone() + &without));
    assert!(errors(&output).contains("another table with \"office\" in its view"));
    assert!(reload(&all).status.success());
    assert_eq!([[0, 2], [0, 3]].map(|from| viewing.ask(from, www)), [OF_OFFICE, OF_GUESTS]);
}

#[test]
fn commands_api_and_metrics_name_the_view() {
    let mut viewing = Viewing::start("", "");
    let site = &viewing.site;
    let www = "www.corp.example";
    let text = site.avocet_text(&["zone", "list"]);
    assert!(
        text.contains("zone corp.example. for guests, 127.0.7.0/24: served, serial 1"),
        "{text}"
    );
    let set = |view: &[&str]| {
        let words = ["zone", "set", "corp.example", "www", "A", "10.1.1.1"];
        site.avocet(&[&words, view].concat())
    };
    assert!(set(&["--view", "office"]).status.success());
    assert_eq!(
        [[0, 1], [0, 2], [0, 3]].map(|from| viewing.ask(from, www)),
        [COMMON.to_vec(), vec![10, 1, 1, 1], OF_GUESTS.to_vec()]
    );
    assert_eq!(viewing.zone(&["office"])["serial"], 2);
    assert_eq!(viewing.zone(&[])["serial"], 1);
    let file = fs::read_to_string(site.directory.join("office.zone")).unwrap();
    assert!(file.contains("10.1.1.1"), "{file}");
    let show =
        |view: &str| site.avocet_text(&["zone", "show", "corp.example", "www", "--view", view]);
    assert_eq!(show("127.0.7.0/24"), "www.corp.example. 60 IN A 10.0.0.3\n");
    assert_eq!(show("127.0.7.9/24"), "www.corp.example. 60 IN A 10.0.0.3\n");
    let export = site.avocet_text(&["zone", "export", "corp.example", "--view", "listener:vpn"]);
    assert!(export.contains("www.corp.example. 60 IN A 10.0.0.4\n"), "{export}");
    let file = site.directory.join("guests.zone");
    let file = file.to_str().unwrap();
    let diff = |view: &str| site.avocet(&["zone", "diff", "corp.example", file, "--view", view]);
    assert_eq!((diff("guests").status.code(), diff("office").status.code()), (Some(0), Some(1)));
    fs::write(file, zone_text(5, [10, 0, 0, 33], "")).unwrap();
    site.avocet_text(&["zone", "reload", "corp.example", "--view", "office"]);
    assert_eq!(viewing.ask([0, 3], www), OF_GUESTS);
    site.avocet_text(&["zone", "reload", "corp.example", "--view", "guests"]);
    assert_eq!(viewing.ask([0, 3], www), [10, 0, 0, 33]);
    for (arguments, expected) in [
        (
            &["zone", "show", "corp.example", "--view", "lab"][..],
            "the zone corp.example. has the views \"listener:vpn\", \"office\", \"guests\", \"127.0.7.0/24\"",
        ),
        (&["zone", "show", "split.example"], "the zone split.example. has the views \"office\""),
        (
            &["zone", "show", "other.example", "--view", "office"],
            "there is no hosted zone \"other.example\"",
        ),
    ] {
        let output = site.avocet(arguments);
        assert_ne!(output.status.code(), Some(0));
        assert!(errors(&output).contains(expected), "{}", errors(&output));
    }
    assert_eq!(site.metric("avocet_zone_serial{zone=\"corp.example.\"}"), 1.0);
    assert_eq!(site.metric("avocet_zone_serial{zone=\"corp.example.\",view=\"office\"}"), 2.0);
    let reply =
        site.avocet_text(&["call", "GET", "/zones/records?name=corp.example&view=office&type=A"]);
    assert!(reply.contains("10.1.1.1"), "{reply}");
    // A broken file affects only its view.
    fs::write(file, "broken\n").unwrap();
    site.avocet(&["zone", "reload", "corp.example", "--view", "guests"]);
    viewing.server.wait_for_line("zone corp.example./guests");
    assert_eq!(viewing.ask([0, 3], www), [10, 0, 0, 33]);
}

#[test]
fn a_client_transfers_the_version_that_it_sees() {
    if !is_here("dig") {
        return;
    }
    let rules = "allow-transfer = [\"127.0.0.2\", \"127.0.0.3\"]";
    let viewing = Viewing::start(rules, "");
    let transferred = |from: &str, port: u16| {
        let mut dig = Command::new("dig");
        let port = port.to_string();
        dig.args(["-b", from, "-p", &port, "@127.0.0.1", "corp.example", "AXFR"]);
        String::from_utf8(dig.output().unwrap().stdout).unwrap()
    };
    let port = viewing.site.dns.port();
    let text = transferred("127.0.0.2", port);
    assert!(text.contains("10.0.0.2") && !text.contains("192.0.2.1\n"), "{text}");
    // The zones of these clients have no such rule.
    for (from, port) in
        [("127.0.0.3", port), ("127.0.0.1", port), ("127.0.0.2", viewing.vpn.port())]
    {
        let text = transferred(from, port);
        assert!(text.contains("Transfer failed"), "{from}: {text}");
    }
}

#[test]
fn an_update_changes_signs_and_announces_the_zone_that_its_client_sees() {
    if !is_here("nsupdate") {
        return;
    }
    let notified = crate::server::udp_socket();
    notified.set_read_timeout(Some(PATIENCE)).unwrap();
    let secret = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let file = std::env::temp_dir().join(format!("avocet-view-key-{}", std::process::id()));
    fs::write(&file, secret).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let server = notified.local_addr().unwrap();
    let rest = format!("allow-update = [\"key k\"]\nsign = true\nnotify = [\"{server}\"]");
    let key = format!("[[key]]\nname = \"k\"\nsecret-file = {file:?}\n");
    let viewing = Viewing::start(&rest, &key);
    let Viewing { site, .. } = &viewing;
    let update = |from: &str| {
        let port = site.dns.port();
        let script = format!(
            "server 127.0.0.1 {port}\nlocal {from}\nzone corp.example\nupdate add \
             new.corp.example 60 A 10.9.9.9\nsend\n"
        );
        let mut nsupdate = Command::new("nsupdate");
        nsupdate.args(["-y", &format!("hmac-sha256:k:{secret}")]);
        nsupdate.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = nsupdate.spawn().unwrap();
        child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        errors(&child.wait_with_output().unwrap())
    };
    // The zones of these clients may not be updated.
    assert!(update("127.0.0.3").contains("REFUSED"));
    assert!(update("127.0.0.1").contains("REFUSED"));
    let serial = viewing.zone(&["office"])["serial"].as_u64().unwrap();
    assert_eq!(update("127.0.0.2"), "");
    assert_eq!(viewing.ask([0, 2], "new.corp.example"), [10, 9, 9, 9]);
    let office = viewing.zone(&["office"]);
    assert_eq!((office["serial"].as_u64(), &office["signed"]), (Some(serial + 1), &json!(true)));
    for view in [&[][..], &["guests", "127.0.7.0/24"]] {
        let zone = viewing.zone(view);
        assert_eq!((&zone["serial"], &zone["signed"]), (&json!(1), &json!(false)), "{view:?}");
    }
    let (len, _) = notified.recv_from(&mut [0; 512]).unwrap();
    assert!(len > 12);
    let keys = site.avocet_text(&["zone", "keys", "corp.example", "--view", "office"]);
    assert!(keys.contains("signed by the policy default"), "{keys}");
    let directory = site.data().join("keys/office@corp.example.zone");
    assert!(directory.join("state.json").is_file());
    fs::remove_file(&file).unwrap();
}
