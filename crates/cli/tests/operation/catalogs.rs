//! Catalog zones (RFC 9432): with this server at both ends, with Knot DNS and with BIND.

use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::clocks::ShiftedClock;
use crate::past::wait_until;
use crate::peers::Peer;
use crate::server::{Server, Site, free_address, query, udp_client};
use crate::upstream::Upstream;

fn zone_text(serial: u32, records: &str) -> String {
    format!("$TTL 60\n@ SOA ns h {serial} 1h 5 4w 60\n@ NS ns\nns A 192.0.2.1\n{records}")
}

/// A server with zones from files.
struct Primary {
    site: Site,
    _server: Server,
    _upstream: Upstream,
}

impl Primary {
    /// Starts one with these tables and files.
    fn start(tables: &str, files: &[(&str, String)]) -> Self {
        let (upstream, site) = (Upstream::start(), Site::new());
        for (name, text) in files {
            fs::write(site.directory.join(name), text).unwrap();
        }
        site.configure(upstream.addr, "", tables);
        let server = site.start();
        Self { site, _server: server, _upstream: upstream }
    }

    fn publish(&self, zone: &str, serial: u32, records: &str) {
        fs::write(self.site.directory.join(zone), zone_text(serial, records)).unwrap();
        self.site.avocet_text(&["zone", "reload", zone]);
    }
}

/// A table of a zone from the file with its name.
fn table(name: &str, settings: &str) -> String {
    format!(
        "[[zone]]\nname = \"{name}\"\nfile = \"{name}\"\nsettle-secs = 3600\nallow-transfer = \
         [\"127.0.0.0/8\"]\n{settings}\n"
    )
}

/// A table of a catalog of another server.
fn consumed(name: &str, primary: SocketAddr) -> String {
    format!("[[zone]]\nname = \"{name}\"\nprimaries = [\"{primary}\"]\ncatalog = \"consumer\"\n")
}

/// Returns what is shown of a zone.
fn shown(site: &Site, name: &str) -> serde_json::Value {
    let text = site.avocet_text(&["zone", "list", "--json"]);
    let reply: serde_json::Value = serde_json::from_str(&text).unwrap();
    let zones = reply["zones"].as_array().unwrap();
    zones.iter().find(|zone| zone["name"] == name).cloned().unwrap_or_default()
}

#[test]
fn members_are_added_kept_reset_moved_and_removed() {
    let (upstream, site) = (Upstream::start(), Site::new());
    let notify = format!("notify = [\"{}\"]", site.dns);
    let version = "version 0 TXT \"2\"\n";
    let first = format!(
        "{version}m1.zones PTR a.example.\ngroup.m1.zones TXT \"eu\"\nm2.zones PTR own.example.\n"
    );
    let names = ["one.catalog", "two.catalog", "a.example"];
    let tables = names.map(|name| table(name, &notify)).concat();
    let primary = Primary::start(
        &tables,
        &[
            ("one.catalog", zone_text(1, &first)),
            ("two.catalog", zone_text(1, version)),
            ("a.example", zone_text(1, "")),
        ],
    );
    fs::write(site.directory.join("own"), zone_text(1, "")).unwrap();
    let own = "[[zone]]\nname = \"own.example\"\nfile = \"own\"\n";
    let catalogs = ["one.catalog", "two.catalog"].map(|name| consumed(name, primary.site.dns));
    site.configure(upstream.addr, "", &(catalogs.concat() + own));
    site.avocet_text(&["check"]);
    let mut server = site.start();
    let refusal = "own.example. is refused: the configuration has this zone";
    server.wait_for_line(refusal);
    server.wait_for_line("zone a.example. added by the catalog one.catalog.");
    server.wait_for_line("zone a.example. transferred");
    assert_eq!(site.ask("ns.a.example").0, [192, 0, 2, 1]);
    let member = shown(&site, "a.example.");
    assert_eq!(member["catalog"]["role"], "member", "{member}");
    assert_eq!(member["catalog"]["name"], "one.catalog.", "{member}");
    assert_eq!(member["catalog"]["groups"], serde_json::json!(["eu"]), "{member}");
    let catalog = shown(&site, "one.catalog.");
    assert_eq!(catalog["catalog"]["refused"], serde_json::json!([refusal]), "{catalog}");
    assert_eq!(catalog["catalog"]["members"], 1, "{catalog}");
    assert!(site.avocet_text(&["zone", "list"]).contains(refusal));
    assert_eq!(site.metric("avocet_zone_catalog_members{zone=\"one.catalog.\"}"), 1.0);

    // Another group changes nothing else.
    primary.publish("one.catalog", 2, &first.replace("eu", "us"));
    server.wait_for_line("zone a.example. has other groups");
    assert!(site.avocet_text(&["status"]).contains(refusal));
    assert_eq!(shown(&site, "a.example.")["transfers"]["transferred"], 1);

    // The members survive a restart.
    server.stop();
    let server = site.start();
    assert_eq!(site.ask("ns.a.example").0, [192, 0, 2, 1]);

    moved_and_removed(&primary, &site, server);
}

/// Resets `a.example`, moves it to the other catalog and removes it.
fn moved_and_removed(primary: &Primary, site: &Site, mut server: Server) {
    let version = "version 0 TXT \"2\"\n";
    let listed = format!("{version}m3.zones PTR a.example.\n");
    // Another unique label resets the zone.
    primary.publish("one.catalog", 3, &listed);
    server.wait_for_line("zone a.example. reset by the catalog one.catalog.");
    server.wait_for_line("zone a.example. transferred");

    // The zone moves to another catalog as it is.
    let moving = listed.clone() + "coo.m3.zones PTR two.catalog.\n";
    primary.publish("one.catalog", 4, &moving);
    primary.publish("two.catalog", 2, &listed);
    server.wait_for_line("zone a.example. moved to the catalog two.catalog.");
    assert_eq!(site.ask("ns.a.example").0, [192, 0, 2, 1]);
    // The line comes before the zones are in force.
    wait_until("the zone is a member of the other catalog", || {
        shown(site, "a.example.")["catalog"]["name"] == "two.catalog."
    });

    // A broken catalog keeps its members.
    primary.publish("two.catalog", 3, "m3.zones PTR a.example.\n");
    server.wait_for_line("catalog two.catalog. is broken, its members stay: it is no catalog zone");
    assert_eq!(site.ask("ns.a.example").0, [192, 0, 2, 1]);
    assert_eq!(site.metric("avocet_zone_catalog_broken{zone=\"two.catalog.\"}"), 1.0);

    primary.publish("one.catalog", 5, version);
    primary.publish("two.catalog", 4, version);
    server.wait_for_line("zone a.example. removed by the catalog two.catalog.");
    server.wait_for_line("catalogs were applied");
    assert!(!site.data().join("zones/a.example.zone").exists());
    assert_eq!(shown(site, "a.example."), serde_json::Value::Null);
}

/// The configuration of Knot DNS with these zones.
fn knot(site: &Site, own: SocketAddr, primary: SocketAddr, zones: &str) -> String {
    let dir = site.directory.display();
    format!(
        "server:\n  listen: 127.0.0.1@{}\n  rundir: \"{dir}\"\n  udp-workers: 1\n  tcp-workers: \
         1\n  background-workers: 1\ncontrol:\n  listen: \"{dir}/knot.sock\"\nlog:\n  - target: \
         stderr\n    any: info\ndatabase:\n  storage: \"{dir}/knot\"\nremote:\n  - id: avocet\n    \
         address: {}@{}\nacl:\n  - id: out\n    address: 127.0.0.1\n    action: [transfer, \
         notify]\ntemplate:\n  - id: default\n    storage: \"{dir}\"\n    acl: out\n  - id: \
         members\n    storage: \"{dir}\"\n    master: avocet\n    acl: out\nzone:\n{zones}",
        own.port(),
        primary.ip(),
        primary.port(),
    )
}

/// The configuration of BIND with these options and zones.
fn bind(site: &Site, own: SocketAddr, options: &str, zones: &str) -> String {
    let dir = site.directory.display();
    format!(
        "options {{ directory \"{dir}\"; listen-on port {} {{ 127.0.0.1; }}; listen-on-v6 {{ none; \
         }}; recursion no; pid-file none; session-keyfile none; lock-file none; dnssec-validation \
         no; notify no; allow-transfer {{ any; }}; {options} }};\ncontrols {{ }};\n{zones}",
        own.port()
    )
}

fn run_knot(site: Site, addr: SocketAddr, text: &str) -> Option<Peer> {
    fs::create_dir(site.directory.join("knot")).unwrap();
    Peer::run(site, ("knotd", &["-c"]), text, addr)
}

fn run_bind(site: Site, addr: SocketAddr, text: &str) -> Option<Peer> {
    Peer::run(site, ("named", &["-g", "-n", "1", "-c"]), text, addr)
}

#[test]
fn knot_bind_and_this_server_follow_a_catalog_of_this_server() {
    let (knot_site, bind_site, own_site) = (Site::new(), Site::new(), Site::new());
    let [at_knot, at_bind] = [free_address(), free_address()];
    let notify = [at_knot, at_bind, own_site.dns].map(|addr| format!("\"{addr}\"")).join(", ");
    let notify = format!("notify = [{notify}]");
    let catalog = format!(
        "[[zone]]\nname = \"catalog.example\"\ncatalog = \"producer\"\nallow-transfer = \
         [\"127.0.0.0/8\"]\n{notify}\n"
    );
    let member = |name: &str| table(name, &format!("member-of = \"catalog.example\"\n{notify}"));
    let grouped = |name: &str| member(name) + "group = \"eu\"\n";
    let zones = ["a.example", "b.example"].map(|name| (name, zone_text(1, "")));
    let primary = Primary::start(&(catalog.clone() + &grouped("a.example")), &zones);
    let dns = primary.site.dns;
    let (ip, port) = (dns.ip(), dns.port());

    let zones = "  - domain: catalog.example.\n    master: avocet\n    catalog-role: interpret\n    \
                 catalog-template: members\n";
    let text = knot(&knot_site, at_knot, dns, zones);
    let mut peers: Vec<_> = run_knot(knot_site, at_knot, &text).into_iter().collect();
    let options = format!(
        "catalog-zones {{ zone \"catalog.example\" default-masters {{ {ip} port {port}; }} \
         in-memory yes min-update-interval 1; }};"
    );
    let zone = format!(
        "zone \"catalog.example\" {{ type slave; file \"copy\"; masters {{ {ip} port {port}; }}; \
         }};\n"
    );
    let text = bind(&bind_site, at_bind, &options, &zone);
    peers.extend(run_bind(bind_site, at_bind, &text));
    let upstream = Upstream::start();
    own_site.configure(upstream.addr, "", &consumed("catalog.example", dns));
    let mut server = own_site.start();
    server.wait_for_line("zone a.example. transferred");
    peers.iter().for_each(|peer| peer.wait_for("ns.a.example"));
    let groups = &shown(&own_site, "a.example.")["catalog"]["groups"];
    assert_eq!(*groups, serde_json::json!(["eu"]));

    let serial = || shown(&primary.site, "catalog.example.")["serial"].as_u64().unwrap();
    let before = serial();
    let less = catalog + &grouped("a.example");
    let without = format!("{less}[[certificate]]\ncert = \"none.pem\"\nkey = \"none.pem\"\n");
    let tables = less.clone() + &member("b.example");
    primary.site.configure(primary._upstream.addr, "", &tables);
    primary.site.avocet_text(&["reload"]);
    server.wait_for_line("zone b.example. transferred");
    peers.iter().for_each(|peer| peer.wait_for("ns.b.example"));
    let after = serial();
    assert!(after > before, "{before} {after}");
    primary.site.avocet_text(&["reload"]);
    assert_eq!(serial(), after);
    // A configuration that is refused changes no catalog: other servers would drop the zone.
    primary.site.configure(primary._upstream.addr, "", &without);
    assert!(!primary.site.avocet(&["reload"]).status.success());
    primary.site.avocet_text(&["zone", "reload", "catalog.example"]);
    assert_eq!(serial(), after);
    primary.site.configure(primary._upstream.addr, "", &tables);
    let listed = shown(&primary.site, "a.example.");
    assert_eq!(listed["catalog"]["role"], "listed", "{listed}");
    let refused =
        primary.site.avocet(&["zone", "set", "catalog.example", "x.zones", "PTR", "x.example."]);
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("the server writes the catalog"), "{text}");
    a_member_leaves(&primary, &less, &mut server, &peers);
}

/// Takes `b.example` out of the catalog: it is gone everywhere.
fn a_member_leaves(primary: &Primary, tables: &str, server: &mut Server, peers: &[Peer]) {
    primary.site.configure(primary._upstream.addr, "", tables);
    primary.site.avocet_text(&["reload"]);
    server.wait_for_line("zone b.example. removed by the catalog catalog.example.");
    for peer in peers {
        wait_until("the member is gone", || rcode(peer.addr(), "ns.b.example") == 5);
        assert_eq!(rcode(peer.addr(), "ns.a.example"), 0);
    }
}

/// Returns the RCODE of an answer.
fn rcode(server: SocketAddr, name: &str) -> u8 {
    let socket = udp_client();
    socket.send_to(&query(9, name), server).unwrap();
    let mut reply = [0; 4096];
    socket.recv(&mut reply).unwrap();
    reply[3] & 15
}

/// Queries a server without pause until it is stopped, and returns the longest time during which
/// it refused a name.
struct Watched {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<Duration>,
}

impl Watched {
    fn start(server: SocketAddr, name: &'static str) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = stop.clone();
        let watch = move || {
            let (mut refused_at, mut longest) = (None, Duration::ZERO);
            while !is_over.load(Ordering::Relaxed) {
                let asked_at = Instant::now();
                if rcode(server, name) == 5 {
                    longest = longest.max(refused_at.get_or_insert(asked_at).elapsed());
                } else {
                    refused_at = None;
                }
                thread::park_timeout(Duration::from_millis(5));
            }
            longest
        };
        Self { stop, thread: thread::spawn(watch) }
    }

    fn end(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// While BIND gives a zone to another catalog, it removes and adds the zone. Without an
/// announcement, it refuses the zone until the next change of the other catalog.
const GAP: Duration = Duration::from_secs(2);

#[test]
fn bind_keeps_a_zone_that_moves_between_catalogs_of_this_server() {
    let Some(clock) = ShiftedClock::new() else { return };
    let (upstream, site, bind_site) = (Upstream::start(), Site::new(), Site::new());
    let at_bind = free_address();
    let notify = format!("notify = [\"{at_bind}\"]\n");
    let catalog = |name: &str| {
        format!(
            "[[zone]]\nname = \"{name}\"\ncatalog = \"producer\"\nallow-transfer = \
             [\"127.0.0.0/8\"]\n{notify}"
        )
    };
    let catalogs = catalog("one.catalog") + &catalog("two.catalog");
    let configure = |of: &str| {
        let member = table("a.example", &format!("member-of = \"{of}\"\n{notify}"));
        site.configure(upstream.addr, "", &(catalogs.clone() + &member));
    };
    fs::write(site.directory.join("a.example"), zone_text(1, "")).unwrap();
    configure("one.catalog");
    let mut command = site.serve();
    clock.set_for(&mut command);
    let mut server = Server::start(command);

    let primary = format!("{} port {}", site.dns.ip(), site.dns.port());
    let names = ["one.catalog", "two.catalog"];
    let followed = names.map(|name| {
        format!(
            "zone \"{name}\" default-masters {{ {primary}; }} in-memory yes \
             min-update-interval 1; "
        )
    });
    let options = format!("catalog-zones {{ {} }};", followed.concat());
    let zones = names.map(|name| {
        format!("zone \"{name}\" {{ type slave; file \"{name}\"; masters {{ {primary}; }}; }};\n")
    });
    let text = bind(&bind_site, at_bind, &options, &zones.concat());
    let Some(peer) = run_bind(bind_site, at_bind, &text) else { return };
    peer.wait_for("ns.a.example");
    let watched = Watched::start(at_bind, "ns.a.example");
    let serial = |name: &str| shown(&site, &format!("{name}."))["serial"].as_u64().unwrap();
    let has_serial = |name: &'static str| {
        let expected = serial(name);
        wait_until("BIND has the catalog", || {
            peer.log().contains(&format!("zone {name}/IN: transferred serial {expected}"))
        });
    };

    let before = names.map(serial);
    configure("two.catalog");
    site.avocet_text(&["reload"]);
    server.wait_for_line("the catalog one.catalog. announces its move to two.catalog.");
    wait_until("the announcement is served", || serial(names[0]) > before[0]);
    assert_eq!(serial(names[1]), before[1]);
    has_serial(names[0]);
    clock.advance(4_201);
    server.wait_for_line("the catalog two.catalog. lists it after its move");
    wait_until("the other catalog is served", || serial(names[1]) > before[1]);
    has_serial(names[1]);
    let moved = "catz: adding zone 'a.example' from catalog 'two.catalog' - success";
    wait_until("BIND has moved the zone", || peer.log().contains(moved));
    peer.wait_for("ns.a.example");
    clock.advance(86_401);
    server.wait_for_line("the catalog one.catalog. no longer lists it");
    let left = "catz: deleting zone 'a.example' from catalog 'one.catalog'";
    wait_until("BIND has the end of the move", || peer.log().matches(left).count() == 2);
    peer.wait_for("ns.a.example");
    assert!(watched.end() < GAP, "{}", peer.log());
}

#[test]
fn a_catalog_without_a_usable_primary_and_a_broken_one_are_conditions_until_they_are_repaired() {
    let (upstream, site, at_primary) = (Upstream::start(), Site::new(), Site::new());
    site.configure(upstream.addr, "", &consumed("one.catalog", at_primary.dns));
    let _server = site.start();
    let is_shown = |text: &str| {
        let of_http = site.avocet_text(&["status"]).contains(text);
        of_http && site.avocet_text(&["status"]).contains(text)
    };
    let condition = |name: &str| site.metric(&format!("avocet_condition{{condition=\"{name}\"}}"));
    let unreachable = "zone one.catalog.: no primary is usable";
    wait_until("the primary is missed", || is_shown(unreachable));
    assert!(is_shown("the members of the catalog stay as they are"));
    assert_eq!((condition("primaries"), condition("catalogs")), (1.0, 0.0));

    let notify = format!("notify = [\"{}\"]", site.dns);
    let upstream = Upstream::start();
    fs::write(at_primary.directory.join("one.catalog"), zone_text(1, "")).unwrap();
    at_primary.configure(upstream.addr, "", &table("one.catalog", &notify));
    let server = at_primary.start();
    let primary = Primary { site: at_primary, _server: server, _upstream: upstream };
    primary.publish("one.catalog", 2, "");
    let broken = "catalog one.catalog. is broken, its members stay: it is no catalog zone";
    wait_until("the catalog is broken", || is_shown(broken) && condition("primaries") == 0.0);
    assert!(!site.avocet_text(&["status"]).contains(unreachable));
    assert_eq!(condition("catalogs"), 1.0);

    primary.publish("one.catalog", 3, "version 0 TXT \"2\"\n");
    wait_until("the catalog is repaired", || condition("catalogs") == 0.0);
    for text in [unreachable, "is broken"] {
        assert!(!site.avocet_text(&["status"]).contains(text), "{text}");
        assert!(!site.avocet_text(&["status"]).contains(text), "{text}");
    }
}

#[test]
fn this_server_follows_catalogs_of_knot_and_bind() {
    let check = |peer: Option<Peer>, addr: SocketAddr| {
        let Some(peer) = peer else { return };
        peer.wait_for("ns.a.example");
        let (upstream, site) = (Upstream::start(), Site::new());
        site.configure(upstream.addr, "", &consumed("catalog.example", addr));
        let mut server = site.start();
        server.wait_for_line("zone a.example. transferred");
        assert_eq!(site.ask("ns.a.example").0, [192, 0, 2, 1]);
        assert_eq!(shown(&site, "a.example.")["catalog"]["groups"], serde_json::json!(["eu"]));
    };
    let (site, addr) = (Site::new(), free_address());
    fs::write(site.directory.join("a.example"), zone_text(1, "")).unwrap();
    let zones = "  - domain: catalog.example.\n    catalog-role: generate\n  - domain: \
                 a.example.\n    file: a.example\n    catalog-role: member\n    catalog-zone: \
                 catalog.example.\n    catalog-group: eu\n";
    let text = knot(&site, addr, addr, zones);
    check(run_knot(site, addr, &text), addr);

    let (site, addr) = (Site::new(), free_address());
    fs::write(site.directory.join("a.example"), zone_text(1, "")).unwrap();
    let records = "version 0 TXT \"2\"\nx.zones 0 PTR a.example.\ngroup.x.zones 0 TXT \"eu\"\n";
    fs::write(site.directory.join("catalog.example"), zone_text(1, records)).unwrap();
    let zone = |name: &str| format!("zone \"{name}\" {{ type master; file \"{name}\"; }};\n");
    let zones = zone("a.example") + &zone("catalog.example");
    let text = bind(&site, addr, "", &zones);
    check(run_bind(site, addr, &text), addr);
}

#[test]
fn bad_settings_of_catalogs_are_errors() {
    let check = |tables: &str, expected: &str| {
        let (upstream, site) = (Upstream::start(), Site::new());
        fs::write(site.directory.join("z"), zone_text(1, "")).unwrap();
        site.configure(upstream.addr, "", tables);
        let output = site.avocet(&["check"]);
        let text =
            String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(expected), "{tables}: {text}");
    };
    let zone = |rest: &str| format!("[[zone]]\nname = \"z\"\n{rest}\n");
    check(&zone("file = \"z\"\ncatalog = \"consumer\""), "needs `primaries`");
    check(
        &zone("catalog = \"producer\"\nprimaries = [\"192.0.2.1\"]"),
        "the server writes the catalog itself",
    );
    check(&zone("file = \"z\"\ncatalog = \"both\""), "\"consumer\" or \"producer\"");
    check(&zone("file = \"z\"\nmember-of = \"c\""), "no [[zone]] with catalog = \"producer\"");
    check(&zone("catalog = \"producer\"\nmember-of = \"z\""), "is no member of a catalog");
    check(&zone("file = \"z\"\ngroup = \"eu\""), "the group has no effect");
    check(&zone("file = \"z\"\ngroup = \"e\\\"u\""), "letters, digits and signs");
    check(&zone("catalog = \"producer\""), "no errors");
}
