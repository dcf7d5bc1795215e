//! `avocet import` writes a configuration that starts a server with the same answers as the
//! original.

use std::net::UdpSocket;
use std::process::Command;

use crate::server::{Server, Site, query};
use crate::upstream::{ADDRESS, Upstream};

/// The address in responses to blocked questions.
const BLOCKED: [u8; 4] = [0; 4];
/// A local record.
const NAS: [u8; 4] = [10, 9, 9, 9];
const NXDOMAIN: u8 = 3;

const ADGUARD: &str = "
dns:
  bind_hosts: [127.0.0.1]
  port: PORT
  upstream_dns: ['127.0.0.1:UPSTREAM', '[/corp.example/]127.0.0.1:OFFICE', '[/public.corp.example/only.example/]#']
  allowed_clients: [127.0.0.0/8]
  blocked_hosts: ['||evil.example^']
filtering:
  filtering_enabled: true
  protection_enabled: true
  blocking_mode: null_ip
  rewrites:
    - {domain: nas.lan, answer: 10.9.9.9}
    - {domain: '*.wild.example', answer: a.wild.example}
filters: [{enabled: true, url: 'LISTED', name: ads}]
whitelist_filters: [{enabled: true, url: 'ALLOWED', name: fine}]
user_rules: ['||own.example^', '@@||fine.own.example^', '||answered.example^$dnsrewrite=10.9.9.9']
clients:
  persistent:
    - {name: Work, ids: [127.0.0.9, work-id], use_global_settings: false, filtering_enabled: false,
       use_global_blocked_services: true}
schema_version: 29
";

/// Clients, tags, services and the names that take precedence over them.
const ADGUARD_CLIENTS: &str = r#"
dns:
  bind_hosts: [127.0.0.1]
  port: PORT
  upstream_dns: ['127.0.0.1:UPSTREAM']
  allowed_clients: [127.0.0.0/8]
  blocked_hosts: ['||evil.example^']
filtering:
  filtering_enabled: true
  protection_enabled: true
  blocking_mode: null_ip
  blocked_services: {ids: [youtube, tiktok]}
  safe_search: {enabled: true}
  rewrites: [{domain: m.youtube.com, answer: 10.9.9.9}]
whitelist_filters: [{enabled: true, url: 'ALLOWED', name: fine}]
user_rules:
  - "||kids.example^$client='Kids Tablet'"
  - "||others.example^$client=~Kids Tablet|~TV\\, living room"
  - '||tv.example^$client="TV\, living room"'
  - "||frank.example^$client='Frank\\'s PC'"
  - '||child.example^$ctag=user_child'
  - '||adult.example^$ctag=~user_child'
  - '@@||studio.youtube.com^'
  - "@@||www.tiktok.com^$client='Kids Tablet'"
clients:
  persistent:
    - {name: Kids Tablet, ids: [127.0.0.9], tags: [user_child, device_tablet], use_global_settings: true,
       use_global_blocked_services: true}
    - {name: 'TV, living room', ids: [127.0.0.8], tags: [device_tv], use_global_settings: false,
       filtering_enabled: true, use_global_blocked_services: false}
    - {name: "Frank's PC", ids: [127.0.0.7], use_global_settings: false, filtering_enabled: false,
       use_global_blocked_services: true}
"#;

const BLOCKY: &str = "
ports: { dns: '127.0.0.1:PORT' }
upstreams: { groups: { default: ['127.0.0.1:UPSTREAM'] } }
customDNS: { mapping: { nas.lan: 10.9.9.9 } }
conditional: { mapping: { corp.example: '127.0.0.1:OFFICE' } }
blocking:
  blockType: zeroIp
  denylists:
    ads: ['LISTED']
    own:
      - |
        own.example
    kids: [\"kid.example\\n\"]
  allowlists:
    ads: ['ALLOWED']
  clientGroupsBlock: { default: [ads, own], 127.0.0.9: [kids] }
";

const DNSMASQ: &str = "
port=PORT
listen-address=127.0.0.1
no-resolv
no-hosts
server=127.0.0.1#UPSTREAM
server=/corp.example/127.0.0.1#OFFICE
server=/public.corp.example/only.example/#
local=/lan/
server=/out.lan/#
host-record=own.nas.lan,10.1.1.1
address=/ads.example/0.0.0.0
server=/fine.ads.example/127.0.0.1#UPSTREAM
address=/nas.lan/10.9.9.9
server=//127.0.0.1#OFFICE
txt-record=text.example,hello
";

const PIHOLE: &str = "
[dns]
port = PORT
upstreams = ['127.0.0.1#UPSTREAM']
hosts = ['10.9.9.9 nas.lan']
[dns.blocking]
mode = 'NULL'
[misc]
dnsmasq_lines = ['address=/pinned.example/', 'server=/corp.example/127.0.0.1#OFFICE', 'server=/only.example/#']
";

/// Tables of Pi-hole as in its archives: two groups, one client in the second and one in none.
const PIHOLE_TABLES: [(&str, &str); 9] = [
    ("group.json", r#"[{"id":0,"enabled":1,"name":"Default"},{"id":1,"enabled":1,"name":"kids"}]"#),
    ("adlist.json", r#"[{"id":1,"enabled":1,"address":"file://LISTED"}]"#),
    ("adlist_by_group.json", r#"[{"adlist_id":1,"group_id":0},{"adlist_id":1,"group_id":1}]"#),
    ("whitelist.exact.json", r#"[{"id":1,"type":0,"enabled":1,"domain":"fine.ads.example"}]"#),
    ("blacklist.regex.json", r#"[{"id":2,"type":3,"enabled":1,"domain":"^kid[0-9]*\\."}]"#),
    ("blacklist.exact.json", r#"[{"id":3,"type":1,"enabled":1,"domain":"own.example"}]"#),
    (
        "domainlist_by_group.json",
        r#"[{"domainlist_id":1,"group_id":0},{"domainlist_id":2,"group_id":1},{"domainlist_id":3,"group_id":0}]"#,
    ),
    ("client.json", r#"[{"id":1,"ip":"127.0.0.9"},{"id":2,"ip":"127.0.0.8"}]"#),
    ("client_by_group.json", r#"[{"client_id":1,"group_id":1}]"#),
];

/// An expected answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Address([u8; 4]),
    /// The address of the default upstream.
    Upstream,
    /// The address of the other upstream.
    Office,
    Rcode(u8),
}

use Answer::{Address, Office, Rcode};

/// A server with the imported configuration.
struct Imported {
    site: Site,
    upstream: Upstream,
    office: Upstream,
    _server: Server,
}

impl Imported {
    #[track_caller]
    fn start(origin: &str, files: &[(&str, &str)]) -> Self {
        let (site, upstream, office) = (Site::new(), Upstream::start(), Upstream::start());
        let source = site.directory.join("source");
        std::fs::create_dir(&source).unwrap();
        let filled = |text: &str| {
            let place = |name: &str| source.join(name).display().to_string();
            text.replace("PORT", &site.dns.port().to_string())
                .replace("UPSTREAM", &upstream.addr.port().to_string())
                .replace("OFFICE", &office.addr.port().to_string())
                .replace("LISTED", &place("listed"))
                .replace("ALLOWED", &place("allowed"))
        };
        std::fs::write(source.join("listed"), "ads.example\nx.ads.example\nfine.ads.example\n")
            .unwrap();
        std::fs::write(source.join("allowed"), "fine.ads.example\n").unwrap();
        for (name, text) in files {
            std::fs::write(source.join(name), filled(text)).unwrap();
        }
        // A single file is the source itself; several files are in a directory.
        let path = if files.len() == 1 { source.join(files[0].0) } else { source.clone() };
        let mut import = Command::new(env!("CARGO_BIN_EXE_avocet"));
        let imported = import
            .args(["import", origin])
            .arg(path)
            .arg("--output")
            .arg(site.file())
            .output()
            .unwrap();
        assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
        let written = std::fs::read_to_string(site.file()).unwrap();
        let listen = format!("listen = [\"{}\"]", site.dns);
        let on_loopback = |line: &str| {
            if line.starts_with("listen = ") { listen.clone() } else { line.to_owned() }
        };
        std::fs::write(
            site.file(),
            written.lines().map(on_loopback).collect::<Vec<_>>().join("\n"),
        )
        .unwrap();
        let mut serve = site.serve();
        serve
            .env("AVOCET_DATA__DIRECTORY", site.data())
            .env("AVOCET_SERVER__HTTP", site.http.to_string());
        let _server = Server::start(serve);
        Self { site, upstream, office, _server }
    }

    /// Sends a query as the client with this address.
    fn ask(&self, client: &str, name: &str) -> Answer {
        let socket = UdpSocket::bind((client, 0)).unwrap();
        socket.set_read_timeout(Some(crate::server::PATIENCE)).unwrap();
        let _ = (self.upstream.asked(), self.office.asked());
        socket.send_to(&query(7, name), self.site.dns).unwrap();
        let mut reply = [0; 512];
        let len = socket.recv(&mut reply).unwrap();
        let reply = &reply[..len];
        let (office, upstream) = (self.office.asked(), self.upstream.asked());
        match (reply[3] & 15, reply.last_chunk::<4>()) {
            (0, Some(&ADDRESS)) if office.iter().any(|asked| asked.starts_with(name)) => Office,
            (0, Some(&ADDRESS)) if !upstream.is_empty() => Answer::Upstream,
            (0, Some(address)) => Address(*address),
            (rcode, _) => Rcode(rcode),
        }
    }

    #[track_caller]
    fn check(&self, expected: &[(&str, &str, Answer)]) {
        for (client, name, answer) in expected {
            let written = || std::fs::read_to_string(self.site.file()).unwrap();
            assert_eq!(self.ask(client, name), *answer, "{name} of {client}:\n{}", written());
        }
    }
}

const ANY: &str = "127.0.0.1";
/// A client with its own entry in each source that has clients.
const NAMED: &str = "127.0.0.9";

#[test]
fn a_server_runs_with_what_adguard_home_had() {
    let running = Imported::start("adguard", &[("AdGuardHome.yaml", ADGUARD)]);
    running.check(&[
        (ANY, "other.example", Answer::Upstream),
        (ANY, "x.ads.example", Address(BLOCKED)),
        (ANY, "fine.ads.example", Answer::Upstream),
        (ANY, "www.own.example", Address(BLOCKED)),
        (ANY, "fine.own.example", Answer::Upstream),
        (ANY, "www.answered.example", Address(NAS)),
        (ANY, "nas.lan", Address(NAS)),
        (ANY, "b.wild.example", Answer::Upstream),
        (ANY, "www.corp.example", Office),
        (ANY, "www.public.corp.example", Answer::Upstream),
        (ANY, "www.only.example", Answer::Upstream),
        (NAMED, "ads.example", Answer::Upstream),
        (NAMED, "www.own.example", Answer::Upstream),
        (NAMED, "nas.lan", Address(NAS)),
    ]);
    assert_eq!(
        running.ask(ANY, "a.wild.example"),
        Address(ADDRESS),
        "the target of the rewrite is in the cache"
    );
}

#[test]
fn rules_name_clients_and_tags_as_adguard_home_did() {
    let running = Imported::start("adguard", &[("AdGuardHome.yaml", ADGUARD_CLIENTS)]);
    const TV: &str = "127.0.0.8";
    // The user turned filtering off.
    const FRANK: &str = "127.0.0.7";
    running.check(&[
        (NAMED, "www.kids.example", Address(BLOCKED)),
        (ANY, "www.kids.example", Answer::Upstream),
        (TV, "x.kids.example", Answer::Upstream),
        (ANY, "others.example", Address(BLOCKED)),
        (NAMED, "www.others.example", Answer::Upstream),
        (TV, "x.others.example", Answer::Upstream),
        (TV, "tv.example", Address(BLOCKED)),
        (NAMED, "tv.example", Answer::Upstream),
        (FRANK, "frank.example", Answer::Upstream),
        (NAMED, "child.example", Address(BLOCKED)),
        (TV, "child.example", Answer::Upstream),
        (NAMED, "adult.example", Answer::Upstream),
        (TV, "adult.example", Address(BLOCKED)),
    ]);
}

#[test]
fn exceptions_and_rewrites_of_adguard_home_go_before_its_services() {
    let running = Imported::start("adguard", &[("AdGuardHome.yaml", ADGUARD_CLIENTS)]);
    const TV: &str = "127.0.0.8";
    const FRANK: &str = "127.0.0.7";
    running.check(&[
        // Blocking takes precedence over safe search.
        (ANY, "www.youtube.com", Address(BLOCKED)),
        (ANY, "studio.youtube.com", Answer::Upstream),
        (ANY, "m.youtube.com", Address(NAS)),
        (ANY, "www.tiktok.com", Address(BLOCKED)),
        (NAMED, "www.tiktok.com", Answer::Upstream),
        (FRANK, "x.studio.youtube.com", Address(BLOCKED)),
        (TV, "x.tiktok.com", Answer::Upstream),
        (TV, "a.youtube.com", Answer::Upstream),
    ]);
}

#[test]
fn names_that_adguard_home_refused_get_no_answer() {
    for client in [ANY, "127.0.0.7"] {
        let running = Imported::start("adguard", &[("AdGuardHome.yaml", ADGUARD_CLIENTS)]);
        refuses(&running, client, ("www.evil.example", "m.youtube.com"));
    }
    let running = Imported::start("adguard", &[("AdGuardHome.yaml", ADGUARD)]);
    refuses(&running, ANY, ("www.evil.example", "nas.lan"));
}

/// Checks that the first question is dropped and the second answered.
#[track_caller]
fn refuses(running: &Imported, client: &str, (dropped, answered): (&str, &str)) {
    let socket = UdpSocket::bind((client, 0)).unwrap();
    socket.set_read_timeout(Some(crate::server::PATIENCE)).unwrap();
    for (id, name) in [(7, dropped), (8, answered)] {
        socket.send_to(&query(id, name), running.site.dns).unwrap();
    }
    let mut reply = [0; 512];
    socket.recv(&mut reply).unwrap();
    assert_eq!(reply[..2], [0, 8]);
    assert_eq!(running.upstream.asked(), [""; 0]);
}

#[test]
fn a_server_runs_with_what_blocky_had() {
    Imported::start("blocky", &[("config.yml", BLOCKY)]).check(&[
        (ANY, "other.example", Answer::Upstream),
        (ANY, "x.ads.example", Address(BLOCKED)),
        (ANY, "fine.ads.example", Answer::Upstream),
        (ANY, "own.example", Address(BLOCKED)),
        (ANY, "kid.example", Answer::Upstream),
        (ANY, "nas.lan", Address(NAS)),
        (ANY, "below.nas.lan", Address(NAS)),
        (ANY, "www.corp.example", Office),
        (NAMED, "ads.example", Answer::Upstream),
        (NAMED, "kid.example", Address(BLOCKED)),
    ]);
}

#[test]
fn a_server_runs_with_what_dnsmasq_had() {
    Imported::start("dnsmasq", &[("dnsmasq.conf", DNSMASQ)]).check(&[
        (ANY, "other.example", Answer::Upstream),
        (ANY, "x.ads.example", Address(BLOCKED)),
        (ANY, "fine.ads.example", Answer::Upstream),
        (ANY, "nas.lan", Address(NAS)),
        (ANY, "unknown.lan", Rcode(NXDOMAIN)),
        (ANY, "www.out.lan", Answer::Upstream),
        (ANY, "plain", Office),
        // Its other types are not configured.
        (ANY, "text.example", Answer::Upstream),
        (ANY, "below.own.nas.lan", Address(NAS)),
        (ANY, "www.corp.example", Office),
        (ANY, "www.public.corp.example", Answer::Upstream),
        (ANY, "www.only.example", Answer::Upstream),
    ]);
}

#[test]
fn a_server_runs_with_what_pihole_had() {
    let files: Vec<(&str, &str)> =
        PIHOLE_TABLES.into_iter().chain([("pihole.toml", PIHOLE)]).collect();
    const UNFILTERED: &str = "127.0.0.8";
    Imported::start("pihole", &files).check(&[
        (ANY, "other.example", Answer::Upstream),
        (ANY, "x.ads.example", Address(BLOCKED)),
        (ANY, "fine.ads.example", Answer::Upstream),
        (ANY, "own.example", Address(BLOCKED)),
        (ANY, "kid7.example", Answer::Upstream),
        (ANY, "www.pinned.example", Address(BLOCKED)),
        (ANY, "nas.lan", Address(NAS)),
        (ANY, "www.corp.example", Office),
        (ANY, "www.only.example", Answer::Upstream),
        (NAMED, "ads.example", Address(BLOCKED)),
        (NAMED, "kid8.example", Address(BLOCKED)),
        (NAMED, "pinned.example", Address(BLOCKED)),
        (UNFILTERED, "ads.example", Answer::Upstream),
        (UNFILTERED, "pinned.example", Address(BLOCKED)),
    ]);
}

#[test]
fn names_that_are_taken_out_of_the_rule_for_all_names_are_asked_for_all_the_same() {
    let (site, upstream) = (Site::new(), Upstream::start());
    let rules = "[[forward]]\nzone = \"corp.example\"\nupstreams = [\"udp://127.0.0.1:1\"]\n\
        [[forward]]\nzone = \"!only.example\"\n[[forward]]\nzone = \"!public.corp.example\"\n";
    site.configure(upstream.addr, "", rules);
    let _server = site.start();
    for name in ["www.only.example", "only.example", "www.public.corp.example"] {
        assert_eq!(site.ask(name).0, ADDRESS, "{name}");
    }
}
