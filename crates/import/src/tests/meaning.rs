//! What single settings become.

use super::*;

#[track_caller]
fn config(origin: Origin, text: &str) -> Imported {
    run_text(origin, "source", text).unwrap_or_else(|error| panic!("{error}"))
}

/// The zones of the forwarding rules, with their first server.
fn forwards(imported: &Imported) -> Vec<(String, Option<String>)> {
    let document: toml::Table = imported.config.parse().unwrap();
    let rules = document.get("forward").and_then(|rules| rules.as_array()).cloned().unwrap_or_default();
    let first = |rule: &toml::Value| Some(rule.get("upstreams")?.as_array()?.first()?.as_str()?.to_owned());
    rules.iter().map(|rule| (rule["zone"].as_str().unwrap().to_owned(), first(rule))).collect()
}

fn of(rules: &[(&str, &str)]) -> Vec<(String, Option<String>)> {
    let server = |server: &str| (!server.is_empty()).then(|| server.to_owned());
    rules.iter().map(|(zone, at)| ((*zone).to_owned(), server(at))).collect()
}

#[test]
fn a_hash_stands_for_the_servers_of_all_names() {
    for (dnsmasq, adguard, expected) in [
        // Such names have these servers anyway.
        ("server=/x.example/#\n", "'[/x.example/]#'", &[(".", "192.0.2.1")][..]),
        (
            "server=/corp.example/192.0.2.2\nserver=/x.corp.example/#\n",
            "'[/corp.example/]192.0.2.2', '[/x.corp.example/]#'",
            &[("!x.corp.example", ""), (".", "192.0.2.1"), ("corp.example", "192.0.2.2")],
        ),
        (
            "server=/example/192.0.2.3\nserver=/corp.example/192.0.2.2\nserver=/x.corp.example/#\n",
            "'[/example/]192.0.2.3', '[/corp.example/]192.0.2.2', '[/x.corp.example/]#'",
            &[
                (".", "192.0.2.1"),
                ("corp.example", "192.0.2.2"),
                ("example", "192.0.2.3"),
                ("x.corp.example", "192.0.2.1"),
            ],
        ),
    ] {
        let of_dnsmasq = config(Origin::Dnsmasq, &format!("no-resolv\nserver=192.0.2.1\n{dnsmasq}"));
        let of_adguard = config(Origin::Adguard, &format!("dns: {{upstream_dns: [192.0.2.1, {adguard}]}}"));
        for imported in [of_dnsmasq, of_adguard] {
            let mut found = forwards(&imported);
            found.sort();
            assert_eq!(found, of(expected), "{}", imported.config);
        }
    }
}

#[test]
fn names_that_piholes_dnsmasq_blocks_are_blocked_for_all_groups() {
    let settings = "[dns]\nupstreams=['192.0.2.1']\n[misc]\ndnsmasq_lines=['address=/x.example/']\n";
    let gravity = "CREATE TABLE \"group\" (id INTEGER, enabled INTEGER, name TEXT, description TEXT);
        INSERT INTO \"group\" VALUES (0, 1, 'Default', ''), (1, 0, 'kids', '');
        CREATE TABLE client (id INTEGER, ip TEXT, comment TEXT); INSERT INTO client VALUES (1, '192.0.2.9', 'free');
        CREATE TABLE client_by_group (client_id INTEGER, group_id INTEGER);";
    let archive =
        zip(&[("etc/pihole/pihole.toml", settings.as_bytes()), ("etc/pihole/gravity.db", &database(gravity))]);
    let imported = run(Origin::Pihole, "t.zip", &Memory::default().with("t.zip", archive)).unwrap();
    let document: toml::Table = imported.config.parse().unwrap();
    let groups = document["group"].as_array().unwrap();
    assert_eq!(groups.len(), 3);
    for group in groups {
        assert_eq!(group["lists"].as_array().unwrap()[0].as_str(), Some("dnsmasq-blocked"), "{group}");
    }
}

#[test]
fn an_inline_list_of_blocky_may_have_one_line() {
    let text =
        "blocking:\n  denylists:\n    ads:\n      - |\n        one.example\n  clientGroupsBlock:\n    default: [ads]\n";
    let imported = config(Origin::Blocky, text);
    assert!(imported.config.contains("lists = [\"ads\"]"), "{}", imported.config);
    assert!(imported.files[0].1.ends_with("one.example\n"), "{:?}", imported.files);
}

#[test]
fn client_ids_of_adguard_home_are_no_host_names() {
    let text = "clients: {persistent: [{name: a, ids: [my-client-id, 192.0.2.1, '02:00:00:00:00:01', 192.0.2.0/28]}]}";
    let imported = config(Origin::Adguard, text);
    assert!(!imported.config.contains("my-client-id"), "{}", imported.config);
    assert!(imported.config.contains("ids = [\"192.0.2.1\", \"02:00:00:00:00:01\", \"192.0.2.0/28\"]"));
    assert!(imported.notes.iter().any(|note| note.contains("my-client-id: a ClientID")), "{:?}", imported.notes);
}

#[test]
fn allowed_clients_have_the_server_itself_among_them() {
    let imported = config(Origin::Adguard, "dns: {allowed_clients: [192.0.2.0/24]}");
    assert!(
        imported.config.contains("allow = [\"192.0.2.0/24\", \"127.0.0.0/8\", \"::1/128\"]"),
        "{}",
        imported.config
    );
    assert!(imported.notes.iter().any(|note| note.contains("127.0.0.0/8, ::1/128 are added")));
    let imported = config(Origin::Adguard, "dns: {allowed_clients: [127.0.0.0/8, '::1']}");
    assert!(imported.config.contains("allow = [\"127.0.0.0/8\", \"::1/128\"]"), "{}", imported.config);
}

#[test]
fn a_rewrite_of_names_to_one_among_them_is_no_loop() {
    let text = "filtering: {rewrites: [{domain: '*.x.example', answer: a.x.example}, {domain: '*.y', answer: y}]}";
    let imported = config(Origin::Adguard, text);
    assert!(!imported.config.contains("name = \"*.x.example\"") && imported.config.contains("name = \"*.y\""));
    let rules = &imported.files[0].1;
    assert!(rules.contains("||*.x.example^$dnsrewrite=NOERROR;CNAME;a.x.example\n"), "{rules}");
    assert!(rules.contains("@@|a.x.example^$dnsrewrite=NOERROR;CNAME;a.x.example\n"), "{rules}");
}

#[test]
fn names_that_adguard_home_refuses_are_dropped() {
    let imported = config(Origin::Adguard, "dns: {blocked_hosts: [version.bind, '||evil.example^']}");
    let rule = "when = 'list(\"refused-names\")'\naction = \"drop\"";
    assert!(imported.config.contains(rule), "{}", imported.config);
    assert!(imported.files[0].1.ends_with("||evil.example^\n"));
}

#[test]
fn records_of_dnsmasq_may_be_naptr() {
    let imported =
        config(Origin::Dnsmasq, "no-resolv\nnaptr-record=a.example,100,50,s,http+I2R,,_http._tcp.b.example\n");
    let record = "type = \"NAPTR\"\nvalues = ['100 50 \"s\" \"http+I2R\" \"\" _http._tcp.b.example.']";
    assert!(imported.config.contains(record), "{} {:?}", imported.config, imported.notes);
}

#[test]
fn each_way_to_answer_blocked_names_is_carried_over_or_reported() {
    let answer = |imported: Imported| {
        let document: toml::Table = imported.config.parse().unwrap();
        let answer = document["policy"]["block-answer"].as_str().unwrap().to_owned();
        (answer, imported.notes.iter().any(|note| note.contains("no such way to answer")))
    };
    let pihole = |mode: &str| {
        let settings = format!("[dns]\nupstreams = ['192.0.2.1']\n[dns.blocking]\nmode = '{mode}'\n");
        let archive = zip(&[("etc/pihole/pihole.toml", settings.as_bytes())]);
        run(Origin::Pihole, "t.zip", &Memory::default().with("t.zip", archive)).unwrap()
    };
    let adguard = |mode: &str| config(Origin::Adguard, &format!("filtering: {{blocking_mode: {mode}}}"));
    let blocky = |mode: &str| config(Origin::Blocky, &format!("blocking: {{blockType: {mode}}}"));
    for (mode, expected) in [("NX", "nxdomain"), ("NXDOMAIN", "nxdomain"), ("NODATA", "nodata"), ("NULL", "zero")] {
        assert_eq!(answer(pihole(mode)), (expected.to_owned(), false), "{mode}");
    }
    for (mode, expected) in [("default", "zero"), ("null_ip", "zero"), ("nxdomain", "nxdomain")] {
        assert_eq!(answer(adguard(mode)), (expected.to_owned(), false), "{mode}");
    }
    for (mode, expected) in [("zeroIP", "zero"), ("nxDomain", "nxdomain")] {
        assert_eq!(answer(blocky(mode)), (expected.to_owned(), false), "{mode}");
    }
    for unknown in [answer(pihole("x")), answer(adguard("x")), answer(blocky("x"))] {
        assert_eq!(unknown, ("zero".to_owned(), true));
    }
}
