//! Hostile sources: each ends in an error or a note within bounds, never in a panic.

use super::*;

#[track_caller]
fn refused(origin: Origin, octets: impl Into<Vec<u8>>, part: &str) {
    let error =
        run(origin, "x.toml", &Memory::default().with("x.toml", octets)).unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

#[test]
fn what_is_not_there_or_something_else_is_an_error() {
    for origin in [Origin::Pihole, Origin::Adguard, Origin::Blocky, Origin::Dnsmasq] {
        let error = run(origin, "gone", &Memory::default()).unwrap_err();
        assert_eq!(error.to_string(), "gone cannot be read: no such file");
        refused(origin, b"\x00\x01\x02".to_vec(), "not a text file");
    }
    refused(Origin::Adguard, "- a\n", "not an AdGuardHome.yaml");
    refused(Origin::Pihole, "a = [", "pihole.toml: unclosed array");
    let files = Memory::default().with("x", "hello");
    assert!(run(Origin::Pihole, "x", &files).is_err());
}

#[test]
fn a_source_of_another_product_is_an_error() {
    let adguard = include_str!("../../samples/AdGuardHome.yaml");
    let blocky = include_str!("../../samples/blocky.yml");
    let dnsmasq = include_str!("../../samples/dnsmasq/dnsmasq.conf");
    for (origin, other, part) in [
        (Origin::Adguard, blocky, "not an AdGuardHome.yaml"),
        (Origin::Adguard, "a: 1\n", "not an AdGuardHome.yaml"),
        (Origin::Adguard, "", "not an AdGuardHome.yaml"),
        (Origin::Blocky, adguard, "not a configuration of blocky"),
        (Origin::Blocky, "\n", "not a configuration of blocky"),
        (Origin::Dnsmasq, adguard, "no dnsmasq settings found"),
        (Origin::Dnsmasq, blocky, "no dnsmasq settings found"),
        (Origin::Dnsmasq, "", "no dnsmasq settings found"),
        (Origin::Dnsmasq, "# comments alone\n", "no dnsmasq settings found"),
        (Origin::Pihole, "a = 1\n", "no Pi-hole tables found"),
        (Origin::Pihole, "", "no Pi-hole tables found"),
    ] {
        refused(origin, other, part);
    }
    let files =
        Memory::default().with("x", dnsmasq).with("y/README", "").with("z/setupVars.conf", "");
    for path in ["x", "y", "z"] {
        assert!(run(Origin::Pihole, path, &files).is_err(), "{path}");
    }
    assert!(run(Origin::Blocky, "y", &files).is_err());
    let other = database("CREATE TABLE x (id INTEGER);");
    refused(Origin::Pihole, other, "no Pi-hole tables found");
}

#[test]
fn a_file_without_its_end_is_noted() {
    let whole =
        run_text(Origin::Adguard, "a.yaml", "dns: {port: 53}\nschema_version: 29\n").unwrap();
    let cut = run_text(Origin::Adguard, "a.yaml", "dns: {port: 53}\n").unwrap();
    let is_noted =
        |imported: &Imported| imported.notes.iter().any(|note| note.contains("may be truncated"));
    assert!(!is_noted(&whole) && is_noted(&cut));
}

#[test]
fn more_than_a_configuration_holds_is_left_out_or_an_error() {
    let lists = |url: &str| {
        let lists: String = (0..300)
            .map(|number| format!("- {{enabled: true, url: '{url}{number}', name: a}}\n"))
            .collect();
        run_text(
            Origin::Adguard,
            "a.yaml",
            &format!("filters:\n{lists}user_rules: ['||x.example^']\n"),
        )
    };
    let fetched = lists("https://lists.example/").unwrap();
    assert_eq!(fetched.config.matches("[[list]]").count(), 256);
    assert!(fetched.config.contains("user-rules.txt"), "own rules stay");
    assert_eq!(
        fetched.notes.iter().filter(|note| note.contains("at most 256 lists are possible")).count(),
        45
    );
    assert_eq!(lists("/x/").unwrap_err().to_string(), "a.yaml is too large: at most 256 lists");
    let client = |last: usize| {
        format!("- {{name: x, filtering_enabled: true, ids: [10.0.{}.{}]}}", last >> 8, last & 255)
    };
    let clients: Vec<String> = (0..1_001).map(client).collect();
    let text = format!("clients:\n  persistent:\n  {}\n", clients.join("\n  "));
    let many = run_text(Origin::Adguard, "a.yaml", &text);
    assert_eq!(many.unwrap_err().to_string(), "a.yaml is too large: at most 1000 groups");
    let refused: Vec<String> =
        (0..5_000).map(|number| format!("10.0.{}.{}", number >> 8, number & 255)).collect();
    let imported = run_text(
        Origin::Adguard,
        "a.yaml",
        &format!("dns: {{disallowed_clients: [{}]}}", refused.join(", ")),
    );
    assert_eq!(imported.unwrap().config.matches("[[rule]]").count(), 5);
}

#[test]
fn archives_of_too_many_members_are_refused() {
    let many: Vec<(String, &[u8])> =
        (0..10_001).map(|number| (format!("{number}"), b"".as_slice())).collect();
    let many: Vec<(&str, &[u8])> =
        many.iter().map(|(name, octets)| (name.as_str(), *octets)).collect();
    refused(Origin::Pihole, zip(&many), "at most 10000 members");
    refused(Origin::Pihole, tar_gz(&many), "at most 10000 members");
}

#[test]
fn torn_archives_and_databases_are_errors() {
    let sql = include_str!("../../samples/gravity.sql");
    let archive = zip(&[("pihole.toml", b"[dns]\nupstreams = ['9.9.9.9']\n")]);
    let tar = tar_gz(&[("setupVars.conf", b"PIHOLE_DNS_1=9.9.9.9\n".repeat(100).as_slice())]);
    let gravity = database(sql);
    for whole in [&archive, &tar, &gravity] {
        for part in 1..16 {
            let mut torn = whole.clone();
            torn.truncate(whole.len() * part / 16);
            // Either an error or a partial result, but it must return.
            let _ = run(Origin::Pihole, "x.db", &Memory::default().with("x.db", torn));
            let mut bent = whole.clone();
            for octet in bent.iter_mut().skip(64 + part).step_by(97) {
                *octet ^= 0x55;
            }
            let _ = run(Origin::Pihole, "x.db", &Memory::default().with("x.db", bent));
        }
    }
    assert!(
        run(Origin::Pihole, "x.db", &Memory::default().with("x.db", gravity[..100].to_vec()))
            .is_err()
    );
}

#[test]
fn views_in_a_database_are_not_run() {
    let endless = "CREATE VIEW adlist AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + \
                   1 FROM n)
        SELECT id, 'https://lists.example/' || id AS address FROM n;
        CREATE TABLE client (id INTEGER PRIMARY KEY, ip TEXT); INSERT INTO client VALUES (1, '192.0.2.1');";
    let imported =
        run(Origin::Pihole, "x.db", &Memory::default().with("x.db", database(endless))).unwrap();
    assert!(!imported.config.contains("[[list]]") && imported.config.contains("192.0.2.1"));
}

#[test]
fn texts_cannot_leave_their_place_in_the_file() {
    let text = "filters:\n  - {enabled: true, url: 'https://x.example/\"\\n[server]', name: \
                \"a\\n[server]\\nuser = 'x'\"}\n\
        clients:\n  persistent:\n    - {name: \"b\\\" || true\\n[x]\", ids: [192.0.2.1], \
        use_global_settings: true}\n";
    let imported = run_text(Origin::Adguard, "a.yaml", text).unwrap();
    let document: toml::Table = imported.config.parse().unwrap();
    assert!(!document.contains_key("server") && !document.contains_key("x"), "{}", imported.config);
}

#[test]
fn endless_lines_are_left_out_with_a_note() {
    let text = format!("no-hosts\nno-resolv\nserver=9.9.9.9\naddress=/{}/\n", "x".repeat(1 << 20));
    let imported = run_text(Origin::Dnsmasq, "d.conf", &text).unwrap();
    assert_eq!(imported.notes, ["d.conf: 1 lines: too many lines, or a line without end"]);
    assert!(imported.config.contains("upstreams = [\"9.9.9.9\"]"));
}

#[test]
fn files_that_include_each_other_end() {
    let files = Memory::default()
        .with("a", "conf-file=b\nno-resolv\nno-hosts\n")
        .with("b", "conf-file=a\nconf-file=c\n");
    let imported = run(Origin::Dnsmasq, "a", &files).unwrap();
    assert_eq!(imported.notes.len(), 2, "{:?}", imported.notes);
}
