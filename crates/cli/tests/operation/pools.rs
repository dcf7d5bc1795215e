//! Pools of a running server: their answers follow the health of hosts and the decisions of people,
//! over a restart, too.

use std::fs;
use std::net::SocketAddr;
use std::time::Instant;

use serde_json::Value;

use crate::past::wait_until;
use crate::server::{PATIENCE, Site, free_address, listen_at};
use crate::upstream::Upstream;

fn pool(name: &str, rest: &str) -> String {
    format!(
        "[[pool]]\nname = \"{name}\"\nmode = \"first\"\ninterval-secs = 1\ntimeout-ms = 900\nrise \
         = 1\nfall = 2\n{rest}\n"
    )
}

/// Two addresses, which are probed at these ports of this host.
fn tcp_pool(first: SocketAddr, second: SocketAddr) -> String {
    let items = format!(
        "addresses = [\"192.0.2.1 probe {first}\", \"192.0.2.2 probe {second}\"]\nprobe = \"tcp\"\n"
    );
    pool("www.corp.example", &items)
}

/// Asks until the answer is this one.
#[track_caller]
fn wait_for(site: &Site, name: &str, expected: [u8; 4]) {
    let began = Instant::now();
    while site.ask(name).0 != expected {
        assert!(began.elapsed() < PATIENCE, "{name} is not {expected:?}");
        std::thread::yield_now();
    }
}

/// Waits until a probe of the first address has succeeded.
fn wait_for_success(site: &Site) {
    let began = Instant::now();
    while !site.avocet_text(&["zone", "pool", "list"]).contains("192.0.2.1: up") {
        assert!(began.elapsed() < PATIENCE, "no probe succeeds");
    }
}

#[test]
fn a_dead_host_leaves_the_answers_and_comes_back() {
    let (upstream, site) = (Upstream::start(), Site::new());
    let (first, second) = (free_address(), free_address());
    let hosts = (listen_at(first), listen_at(second));
    site.configure(upstream.addr, "workers = 2", &tcp_pool(first, second));
    let mut server = site.start();
    wait_for(&site, "www.corp.example", [192, 0, 2, 1]);
    drop(hosts.0);
    wait_for(&site, "www.corp.example", [192, 0, 2, 2]);
    server.wait_for_line("is down: connection refused");

    // After a restart, the state is known before the first probe.
    server.stop();
    let mut server = site.start();
    assert_eq!(site.ask("www.corp.example").0, [192, 0, 2, 2]);
    let again = listen_at(first);
    wait_for(&site, "www.corp.example", [192, 0, 2, 1]);
    server.wait_for_line("is up: connected");

    // All addresses fail at once: `when-all-down` applies, and one problem is reported.
    drop((again, hosts.1));
    server.wait_for_line("all 2 targets of pools fail at once");
    assert_eq!(site.ask("www.corp.example").0, [192, 0, 2, 1]);
    assert!(site.metric("avocet_condition{condition=\"pools\"}") == 1.0);
    assert_eq!(site.metric("avocet_pool_usable_addresses{pool=\"www.corp.example.\"}"), 0.0);
}

#[test]
fn a_pool_behind_an_alias_of_its_zone_is_reported_as_long_as_it_is_there() {
    let (upstream, site) = (Upstream::start(), Site::new());
    let target = free_address();
    let _host = listen_at(target);
    let file = site.directory.join("corp.zone");
    let zone = "$TTL 60\n@ SOA ns host 5 2h 3m 4w 60\n@ NS ns\nns A 192.0.2.9\n";
    fs::write(&file, format!("{zone}www CNAME ns\n")).unwrap();
    let table = "[[zone]]\nname = \"corp.example\"\nfile = \"corp.zone\"\nsettle-secs = 3600\n";
    site.configure(upstream.addr, "", &format!("{table}{}", tcp_pool(target, target)));
    let text = "the pool www.corp.example. has no effect: its zone has a CNAME record";
    let check = || String::from_utf8(site.avocet(&["check"]).stderr).unwrap();
    assert!(check().contains(text), "{}", check());
    let mut server = site.start();
    server.wait_for_line(text);
    wait_until("the condition is shown", || site.avocet_text(&["status"]).contains(text));
    // The CNAME record, and the address of its target.
    assert_eq!(site.ask_any("www.corp.example").1, 2);

    // A later version of the zone lets the pool answer.
    fs::write(&file, zone).unwrap();
    site.avocet_text(&["zone", "reload", "corp.example"]);
    wait_for(&site, "www.corp.example", [192, 0, 2, 1]);
    wait_until("the condition ends", || !site.avocet_text(&["status"]).contains(text));
    assert!(!check().contains(text));
}

#[test]
fn people_decide_about_addresses_and_see_what_would_be() {
    let (upstream, site) = (Upstream::start(), Site::new());
    let (first, second) = (free_address(), free_address());
    let _hosts = (listen_at(first), listen_at(second));
    site.configure(upstream.addr, "", &tcp_pool(first, second));
    let server = site.start();
    wait_for_success(&site);
    let name = "www.corp.example";
    let pool = |action: &str| site.avocet_text(&["zone", "pool", action, name, "192.0.2.1"]);
    for action in ["drain", "down"] {
        let text = pool(action);
        assert!(text.contains(&format!("192.0.2.1: up, {action} by command")), "{text}");
        assert_eq!(site.ask(name).0, [192, 0, 2, 2]);
    }
    server.stop();
    let server = site.start();
    assert_eq!(site.ask(name).0, [192, 0, 2, 2]);
    pool("auto");
    wait_for_success(&site);
    assert_eq!(site.ask(name).0, [192, 0, 2, 1]);

    let text = site.avocet_text(&["zone", "what-if", "--down", "192.0.2.1"]);
    assert_eq!(text.trim(), "www.corp.example.: now 192.0.2.1; then 192.0.2.2");
    let began = Instant::now();
    let result = || -> Value {
        let text = site.avocet_text(&["zone", "pool", "show", name, "--json"]);
        let reply: Value = serde_json::from_str(&text).unwrap();
        reply["pools"][0]["addresses"][0]["history"][0]["result"].clone()
    };
    while result() != "success" {
        assert!(began.elapsed() < PATIENCE, "no probe succeeds");
    }
    let unknown = site.avocet(&["zone", "pool", "down", "other.example"]);
    let errors = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(!unknown.status.success() && errors.contains("there is no pool"), "{errors}");
    let why = site.avocet_text(&["why", name, "--client", "127.0.0.1"]);
    assert!(why.contains("from a pool of addresses"), "{why}");
    server.stop();
}

#[test]
fn dns_and_commands_are_probes() {
    let (upstream, site) = (Upstream::start(), Site::new());
    let at = upstream.addr;
    let dns = format!(
        "addresses = [\"192.0.2.1 probe {}\", \"192.0.2.2 probe {at}\"]\nprobe = \"dns\"\nquery = \
         \"a.example A\"\n",
        free_address()
    );
    let command = "addresses = [\"192.0.2.3\", \"192.0.2.4\"]\nprobe = \"command\"\ncommand = \
                   [\"/usr/bin/test\", \"{address}\", \"=\", \"192.0.2.4\"]\n";
    let hanging = "addresses = [\"192.0.2.5\"]\nwhen-all-down = \"fallback\"\nfallback = \
                   [\"192.0.2.6\"]\nprobe = \"command\"\ncommand = [\"/bin/sleep\", \"1000\"]\n";
    let pools = [
        pool("dns.example", &dns),
        pool("command.example", command),
        pool("hanging.example", hanging),
    ];
    site.configure(at, "", &pools.concat());
    let server = site.start();
    wait_for(&site, "dns.example", [192, 0, 2, 2]);
    wait_for(&site, "command.example", [192, 0, 2, 4]);
    wait_for(&site, "hanging.example", [192, 0, 2, 6]);
    let text = site.avocet_text(&["zone", "pool", "show", "hanging.example"]);
    assert!(text.contains("no reply in time"), "{text}");
    server.stop();
}
