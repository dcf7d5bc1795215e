//! Hostile sources. Each one must end in an error or a note within bounds, and never in a panic.

use super::*;

#[track_caller]
fn refused(origin: Origin, octets: impl Into<Vec<u8>>, part: &str) {
    let error =
        run(origin, "x.toml", &Memory::default().with("x.toml", octets)).unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

#[test]
fn what_is_not_there_or_something_else_is_an_error() {
    for origin in [
        Origin::Pihole,
        Origin::Adguard,
        Origin::Blocky,
        Origin::Dnsmasq,
        Origin::Bind,
        Origin::Powerdns,
    ] {
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
        (Origin::Bind, dnsmasq, "without its semicolon"),
        (Origin::Bind, "", "no settings of BIND found"),
        (Origin::Bind, adguard, "x.toml: line 20: a comment without an end"),
        (Origin::Powerdns, dnsmasq, "no settings of PowerDNS found"),
        (Origin::Powerdns, "", "no settings of PowerDNS found"),
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

#[test]
fn errors_of_bind_name_the_line() {
    for (text, part) in [
        ("options {\n  directory \"/x\";\n", "x.toml: line 1: a { without its }"),
        ("options { };\n}\n", "line 2: a } without its {"),
        ("options {\n  recursion yes\n};", "line 2: a statement without its semicolon"),
        ("options { };\n\n/* x", "line 3: a comment without an end"),
        ("options { };\nkey \"x\n", "line 2: a quoted text without an end"),
        ("options { };\n\n\0", "line 3: not a text file"),
    ] {
        refused(Origin::Bind, text, part);
    }
    let nested =
        format!("options {{ }};\nacl x {}1;{};", "{".repeat(100_000), "};".repeat(100_000));
    refused(Origin::Bind, nested, "line 2: too deeply nested");
    refused(Origin::Powerdns, "launch=bind\n\n\0", "line 3: not a text file");
}

#[test]
fn files_of_bind_that_include_each_other_end_with_an_error() {
    let files = Memory::default()
        .with("a", "options { };\ninclude \"b\";\n")
        .with("b", "include \"a\"; include \"a\";\n");
    let error = run(Origin::Bind, "a", &files).unwrap_err().to_string();
    assert!(error.contains("line 2: more than 256 files, or 16"), "{error}");
    let wide = Memory::default()
        .with("a", format!("options {{ }};\n{}", "include \"b\";\n".repeat(300)))
        .with("b", "");
    let error = run(Origin::Bind, "a", &wide).unwrap_err().to_string();
    assert!(error.contains("a: line 257: more than 256 files"), "{error}");
}

#[test]
fn lists_of_bind_that_name_each_other_end() {
    let level = |kind: &str, level: usize| {
        let next = format!("{kind}{}", level + 1);
        format!("{kind} {kind}{level} {{ {}; {}; }};\n", next.clone(), next)
    };
    let acls: String = (0..40).map(|at| level("acl", at)).collect();
    let servers: String = (0..40).map(|at| level("primaries", at)).collect();
    let text = format!(
        "{acls}acl acl40 {{ acl0; 10.0.0.1; }};\n{servers}primaries primaries40 {{ primaries0; }};\n\
         options {{ allow-recursion {{ acl0; }}; }};\n\
         zone x.example {{ type secondary; primaries {{ primaries0; }}; }};\n"
    );
    let imported = run_text(Origin::Bind, "named.conf", &text).unwrap();
    let has = |part: &str| imported.notes.iter().any(|note| note.contains(part));
    assert!(has("contains itself") && has("without the address of one"), "{:?}", imported.notes);
    assert!(imported.notes.len() < 10, "{:?}", imported.notes);
    assert!(imported.config.contains("\"10.0.0.1\""), "{}", imported.config);
}

#[test]
fn lists_that_are_too_long_admit_nobody() {
    let many: String =
        (0..5_000).map(|host| format!("10.{}.{}.1;", host >> 8, host & 255)).collect();
    let text = format!("options {{ allow-query {{ {many} }}; allow-transfer {{ {many} }}; }};");
    let imported = run_text(Origin::Bind, "named.conf", &text).unwrap();
    assert!(imported.notes.iter().any(|note| note.contains("nobody is admitted")));
    let loopback = "allow = [\"127.0.0.0/8\", \"::1/128\"]";
    assert!(imported.config.contains(loopback), "{}", imported.config);
}

#[test]
fn texts_of_bind_and_powerdns_cannot_leave_their_place() {
    let text = "options { version \"a\\\"\n\"; };";
    assert!(run_text(Origin::Bind, "named.conf", text).is_err());
    let text = "options { version \"a\\\" [x]\"; directory \"/a\\\"b\"; };\n\
        zone \"x.example\" { type primary; file \"c\\\"\u{7}d\"; };\n\
        zone \"y\\\"z\" { type primary; file \"y\"; };\n\
        key k { algorithm hmac-sha256; secret \"c2VjcmV0IHNlY3JldA==\\\"x\"; };\n\
        view v { match-clients { any; }; zone \"v.example\" { type primary; file \"v\"; \
        allow-transfer { key k; }; }; };\n";
    let imported = run_text(Origin::Bind, "named.conf", text).unwrap();
    let document: toml::Table = imported.config.parse().unwrap();
    assert!(!document.contains_key("x") && !document.contains_key("key"), "{}", imported.config);
    assert!(imported.notes.iter().all(|note| !note.contains("c2VjcmV0")), "{:?}", imported.notes);
    let sql = "CREATE TABLE domains (id INTEGER, name TEXT, master TEXT, type TEXT);
        CREATE TABLE records (domain_id INTEGER, name TEXT, type TEXT, content TEXT, ttl INTEGER);
        INSERT INTO domains VALUES (1, 'a.example', NULL, 'NATIVE'), (2, 'b\"[x]', NULL, 'NATIVE');
        INSERT INTO records VALUES (1, 'x.a.example', 'A', '192.0.2.1' || char(10) || '$INCLUDE /y', 1),
        (1, '$INCLUDE', 'A', '192.0.2.1', 1), (1, 'y.a.example', 'TXT', '\"a\" ; b', 1),
        (1, 'z.a.example', 'A', '192.0.2.1', 1);";
    let files = Memory::default()
        .with("pdns.conf", "launch=gsqlite3\ngsqlite3-database=db\n")
        .with("db", database(sql));
    let imported = run(Origin::Powerdns, "pdns.conf", &files).unwrap();
    let (_, zone) = imported.files.first().unwrap();
    assert!(zone.contains("z.a.example. 1 IN A 192.0.2.1\n"), "{zone}");
    // As an owner, `$INCLUDE` is a name with an escaped dollar sign.
    assert!(zone.lines().all(|line| !line.starts_with('$') && line.contains(" IN A ")), "{zone}");
    assert!(zone.contains("\\$INCLUDE. 1 IN A 192.0.2.1\n") && !zone.contains("/y"), "{zone}");
    assert_eq!(imported.config.matches("[[zone]]").count(), 1, "{}", imported.config);
}
