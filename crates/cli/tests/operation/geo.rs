//! Rules on the countries of addresses: their effect on answers, also after changes of the
//! database.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use avocet_testkit::mmdb::{Database, Record};
use serde_json::Value;

use crate::server::{Server, Site, query, udp_client};

const A: u16 = 1;
const AAAA: u16 = 28;
const HTTPS: u16 = 65;

/// Addresses in documentation networks, so that only the databases of these tests contain them.
const ONE: [u8; 4] = [192, 0, 2, 1];
const OTHER: [u8; 4] = [198, 51, 100, 1];

const RULES: &str = r#"
[[rule]]
name = "fine"
when = 'qname.under("fine.example")'
action = "allow"

[[rule]]
name = "abroad"
when = 'geo.country in ["NL", "BE"]'
action = "block"
answer = "nxdomain"
"#;

/// An upstream: names that begin with `one` have the first address, others the second, in records
/// of all three types.
fn upstream() -> SocketAddr {
    let socket = crate::server::udp_socket();
    let addr = socket.local_addr().unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let question_end =
                12 + buffer[12..len].iter().position(|octet| *octet == 0).unwrap() + 5;
            let mut reply = buffer[..question_end].to_vec();
            let v4 = if reply[13..].to_ascii_lowercase().starts_with(b"one") { ONE } else { OTHER };
            let v6 = [&[0x20, 1, 0x0d, 0xb8, v4[0]][..], &[0; 11]].concat();
            let hint = [&[0, 1, 0, 0, 4, 0, 4][..], &v4].concat();
            let rdata = match u16::from_be_bytes([reply[question_end - 4], reply[question_end - 3]])
            {
                AAAA => v6,
                HTTPS => hint,
                _ => v4.to_vec(),
            };
            reply[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
            reply.extend([0xc0, 12]);
            reply.extend_from_within(question_end - 4..question_end);
            reply.extend([0, 0, 1, 0x2c, 0, rdata.len() as u8]);
            reply.extend(rdata);
            socket.send_to(&reply, from).unwrap();
        }
    });
    addr
}

/// A site with a database that assigns the two addresses to these countries.
fn site(countries: (&str, &str)) -> Site {
    let site = Site::new();
    put(&site, countries);
    site.configure(upstream(), "", &format!("{}{RULES}", named(&file(&site))));
    site
}

fn named(file: &std::path::Path) -> String {
    format!("[policy]\nblock-ttl-secs = 30\ngeo-database = \"{}\"\n", file.display())
}

fn file(site: &Site) -> PathBuf {
    site.directory.join("countries.mmdb")
}

fn database((one, other): (&str, &str)) -> Vec<u8> {
    Database::of_countries(&[
        ("192.0.2.0/24", one),
        ("198.51.100.0/24", other),
        ("2001:db8:c000::/40", one),
        ("2001:db8:c600::/40", other),
    ])
    .octets()
}

/// Replaces the database by rename, as the programs that fetch databases do.
fn put(site: &Site, countries: (&str, &str)) {
    replace(site, &database(countries));
}

fn replace(site: &Site, octets: &[u8]) {
    let beside = file(site).with_extension("beside");
    fs::write(&beside, octets).unwrap();
    fs::rename(beside, file(site)).unwrap();
}

/// RCODE and number of answers.
fn ask(site: &Site, name: &str, rtype: u16) -> (u8, u8) {
    let (socket, mut query) = (udp_client(), query(7, name));
    let end = query.len();
    query[end - 4..end - 2].copy_from_slice(&rtype.to_be_bytes());
    socket.send_to(&query, site.dns).unwrap();
    let mut reply = [0; 4096];
    socket.recv(&mut reply).unwrap();
    (reply[3] & 0xf, reply[7])
}

const PASSES: (u8, u8) = (0, 1);
const BLOCKED: (u8, u8) = (3, 0);

#[track_caller]
fn check(site: &Site, one: (u8, u8), other: (u8, u8)) {
    for rtype in [A, AAAA, HTTPS] {
        assert_eq!(
            (ask(site, "one.example", rtype), ask(site, "other.example", rtype)),
            (one, other),
            "type {rtype}"
        );
    }
}

fn json(site: &Site, arguments: &[&str]) -> Value {
    serde_json::from_str(site.avocet_text(arguments).lines().next().unwrap()).unwrap()
}

#[test]
fn answers_that_lead_to_a_country_are_blocked_in_all_their_types() {
    let site = site(("NL", "DE"));
    let _server = site.start();
    // The second query hits the packet cache.
    check(&site, BLOCKED, PASSES);
    check(&site, BLOCKED, PASSES);
    assert_eq!(ask(&site, "one.fine.example", A), PASSES, "the exception comes before");

    let why = site.avocet_text(&["why", "one.example"]);
    assert!(
        why.starts_with("The policy: blocked by rule abroad") && why.contains("addresses: NL\n"),
        "{why}"
    );
    assert!(
        site.avocet_text(&["why", "other.example"]).contains("countries of the addresses: DE\n")
    );

    let status = site.avocet_text(&["policy", "status"]);
    let line = format!("geo database {}: Test-Country, built ", file(&site).display());
    assert!(
        status.contains(&line) && status.contains("rule abroad (block): 6 matches"),
        "{status}"
    );
    let shown = &json(&site, &["policy", "status", "--json"])["geo-database"];
    assert!(shown["nodes"].as_u64().unwrap() > 100 && shown["error"].is_null(), "{shown}");
    assert_eq!((&shown["countries"], &shown["built-at"]), (&2.into(), &1_795_262_400_u64.into()));
    assert_eq!(site.metric("avocet_geo_database_build_timestamp_seconds"), 1_795_262_400.0);
    assert_eq!(site.metric("avocet_geo_database_failures_total"), 0.0);
}

#[test]
fn another_file_is_taken_on_reload_and_judges_the_next_query() {
    let site = site(("NL", "DE"));
    let mut server = site.start();
    check(&site, BLOCKED, PASSES);
    put(&site, ("DE", "BE"));
    server.signal("HUP");
    server.wait_for_line("configuration reloaded");
    check(&site, PASSES, BLOCKED);
    put(&site, ("NL", "DE"));
    assert_eq!(site.avocet_text(&["reload"]), "reloaded\n");
    check(&site, BLOCKED, PASSES);
    // The same file has the same content: cached answers remain valid.
    let epoch = site.metric("avocet_epoch");
    put(&site, ("NL", "DE"));
    site.avocet_text(&["reload"]);
    assert_eq!(site.metric("avocet_epoch"), epoch);
}

#[test]
fn another_file_is_noticed_without_a_word() {
    let site = site(("NL", "DE"));
    let mut server = site.start();
    check(&site, BLOCKED, PASSES);
    replace(&site, &database(("DE", "BE"))[..200]);
    let line = server.wait_for_line("the loaded database stays in force");
    assert!(line.contains("cannot use the geo database") && line.contains("no metadata"), "{line}");
    check(&site, BLOCKED, PASSES);
    put(&site, ("DE", "BE"));
    server.wait_for_line("a new geo database is in force");
    check(&site, PASSES, BLOCKED);
}

#[test]
fn a_broken_file_that_nothing_needs_stops_nothing() {
    let site = site(("NL", "DE"));
    fs::write(file(&site), "no database").unwrap();
    let rule =
        "[[rule]]\nname = \"ads\"\nwhen = 'qname.under(\"ads.example\")'\naction = \"block\"\n";
    let unused = format!("{}{rule}", named(&file(&site)));
    site.configure(upstream(), "", &unused);
    let _server = site.start();
    assert_eq!(site.avocet_text(&["reload"]), "reloaded\n");
    site.configure(upstream(), "", &format!("{unused}{RULES}"));
    let refused = site.avocet(&["reload"]);
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && error.contains("cannot use the geo database"), "{error}");
}

#[test]
fn a_file_that_is_damaged_or_gone_on_reload_leaves_the_one_in_force() {
    let site = site(("NL", "DE"));
    let mut server = site.start();
    fs::remove_file(file(&site)).unwrap();
    let with_record = format!(
        "{}{RULES}[[record]]\nname = \"new.lan\"\ntype = \"A\"\nvalues = [\"10.0.0.1\"]\n",
        named(&file(&site))
    );
    site.configure(upstream(), "", &with_record);
    assert_eq!(
        site.avocet_text(&["reload"]),
        "reloaded\n",
        "the rest of the configuration is in force"
    );
    assert_eq!(site.ask("new.lan").0, [10, 0, 0, 1]);
    server.wait_for_line("the loaded database stays in force");
    check(&site, BLOCKED, PASSES);
    let status = site.avocet_text(&["policy", "status"]);
    assert!(
        status.contains("the current file cannot be used: cannot use the geo database"),
        "{status}"
    );
    assert!(site.metric("avocet_geo_database_failures_total") >= 1.0);
    put(&site, ("NL", "DE"));
    site.avocet_text(&["reload"]);
    assert!(!site.avocet_text(&["policy", "status"]).contains("not taken"));

    // A new path is a new configuration, which is invalid here.
    site.configure(upstream(), "", &format!("{}{RULES}", named(&site.directory.join("none.mmdb"))));
    let refused = site.avocet(&["reload"]);
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(
        refused.status.code() == Some(1) && error.contains("none.mmdb: entity not found"),
        "{error}"
    );
    check(&site, BLOCKED, PASSES);
}

/// The exit of a start that is refused for another reason than a used port.
fn refused(site: &Site) -> (Option<i32>, Vec<String>) {
    loop {
        let (code, log) = Server::spawn(site.serve()).wait();
        if !log.last().is_some_and(|line| line.contains("another server is using it")) {
            return (code, log);
        }
    }
}

#[test]
fn no_server_starts_with_a_file_that_is_no_database_of_countries() {
    let site = site(("NL", "DE"));
    let mut of_networks = Database::new("GeoLite2-ASN");
    of_networks
        .put("192.0.2.0/24", Record::map([("autonomous_system_number", Record::number(64_496))]));
    let whole = database(("NL", "DE"));
    let mut damaged = whole.clone();
    damaged[60] ^= 0xff;
    let files = [
        (None, "entity not found"),
        (Some(&b"192.0.2.0/24 NL\n"[..]), "not a MaxMind DB file"),
        (Some(&whole[..whole.len() / 2]), "or truncated"),
        (Some(&damaged), "damaged: node "),
        (Some(&of_networks.octets()), "type is \"GeoLite2-ASN\", but a country database is needed"),
    ];
    for (octets, why) in files {
        let _ = fs::remove_file(file(&site));
        octets.iter().for_each(|octets| replace(&site, octets));
        let (code, log) = refused(&site);
        assert!(code == Some(1) && log.last().unwrap().contains(why), "{why}: {log:?}");
        for command in [&["check"][..], &["policy", "check"]] {
            let refused = site.avocet(command);
            let error = String::from_utf8_lossy(&refused.stderr);
            assert!(
                refused.status.code() == Some(1) && error.contains(why),
                "{command:?}: {error}"
            );
        }
        let told: Value =
            serde_json::from_slice(&site.avocet(&["check", "--json"]).stdout).unwrap();
        assert!(
            told["ok"] == false && told["errors"][0]["message"].as_str().unwrap().contains(why),
            "{told}"
        );
    }
    // An empty file of the maximum size.
    fs::File::create(file(&site)).unwrap().set_len((256 << 20) + 1).unwrap();
    let error = site.avocet(&["check"]).stderr;
    assert!(String::from_utf8_lossy(&error).contains("larger than 268435456 octets"));
    put(&site, ("NL", "DE"));
    assert!(site.avocet_text(&["check"]).contains("no errors"));
    assert!(site.avocet_text(&["policy", "check"]).contains("Test-Country, built "));
}

#[test]
fn a_rule_on_countries_needs_a_database() {
    let site = Site::new();
    site.configure(upstream(), "", RULES);
    let refused = site.avocet(&["check"]);
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(
        error.contains("rule `abroad`")
            && error.contains("countries need a geo database: configure one"),
        "{error}"
    );
    assert_eq!(refused.status.code(), Some(1));
}

#[test]
fn what_was_cached_by_one_database_does_not_outlive_a_restart_with_another() {
    let site = site(("DE", "DE"));
    let server = site.start();
    check(&site, PASSES, PASSES);
    server.stop();
    assert!(site.snapshot().exists());
    put(&site, ("NL", "DE"));
    let server = site.start();
    check(&site, BLOCKED, PASSES);
    server.stop();
}

#[test]
fn conditions_on_countries_are_tested_without_a_server() {
    let site = site(("NL", "DE"));
    let holds = |condition: &str, answers: &[&str]| {
        let mut arguments = vec!["policy", "test", condition, "--name", "x.example", "--json"];
        answers.iter().for_each(|address| arguments.extend(["--answer", address]));
        json(&site, &arguments)["holds"].as_bool().unwrap()
    };
    assert!(holds("geo.country == 'nl'", &["192.0.2.1"]));
    assert!(
        holds("geo.country == 'NL'", &["203.0.113.1", "198.51.100.9", "2001:db8:c0ff::1"]),
        "one of them"
    );
    assert!(!holds("geo.country in ['NL', 'BE']", &["198.51.100.9"]));
    assert!(
        !holds("geo.country in ['NL', 'DE']", &["203.0.113.1", "10.0.0.1"]),
        "they are in no country"
    );
    assert!(!holds("geo.country == 'NL'", &[]));
}

#[test]
fn a_dry_run_knows_the_countries_of_the_answers_in_its_file() {
    let site = site(("NL", "DE"));
    let queries = site.directory.join("queries");
    fs::write(
        &queries,
        "a.example A 192.0.2.1\n10.0.0.7 b.example AAAA 2001:db8:c600::1\nc.fine.example \
         192.0.2.1\nd.example\n",
    )
    .unwrap();
    let (in_force, queries) = (site.file().with_extension("none"), queries.display().to_string());
    fs::write(&in_force, "").unwrap();
    let new = site.file().display().to_string();
    let run = |more: &[&str]| {
        let fixed = [
            "policy",
            "dry-run",
            &new,
            "--queries",
            &queries,
            "--config",
            in_force.to_str().unwrap(),
        ];
        Command::new(env!("CARGO_BIN_EXE_avocet")).args(fixed).args(more).output().unwrap()
    };
    let text = String::from_utf8(run(&[]).stdout).unwrap();
    assert!(
        text.starts_with("4 queries\n1 of them without addresses: rules on answers (1) do"),
        "{text}"
    );
    assert!(
        text.contains(
            "newly blocked: 1 queries, 1 names, 1 clients\n       1 a.example. (rule abroad)\n"
        ),
        "{text}"
    );
    let json: Value = serde_json::from_slice(&run(&["--json"]).stdout).unwrap();
    assert_eq!(
        (&json["queries-without-answer"], &json["rules-on-answers"]),
        (&1.into(), &1.into())
    );
    replace(&site, b"damaged");
    let refused = run(&[]);
    assert!(
        refused.status.code() == Some(1)
            && String::from_utf8_lossy(&refused.stderr).contains("not a MaxMind DB file")
    );
}
