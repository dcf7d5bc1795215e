//! Tests of databases of PowerDNS and of `recursor.yml`.

use super::*;

const SCHEMA: &str = "CREATE TABLE domains (id INTEGER PRIMARY KEY, name TEXT, master TEXT, type TEXT, \
    options TEXT, catalog TEXT);\n\
    CREATE TABLE records (domain_id INTEGER, name TEXT, type TEXT, content TEXT, ttl INTEGER, \
    prio INTEGER, disabled BOOLEAN DEFAULT 0);\n\
    CREATE TABLE domainmetadata (domain_id INT, kind TEXT, content TEXT);\n\
    CREATE TABLE cryptokeys (domain_id INT, active BOOL);\n\
    CREATE TABLE supermasters (ip TEXT, nameserver TEXT, account TEXT);\n\
    CREATE TABLE tsigkeys (name TEXT, algorithm TEXT, secret TEXT);\n\
    INSERT INTO tsigkeys VALUES ('k', 'hmac-sha256', 'c2VjcmV0IHNlY3JldCBzZWNyZXQh');\n";

/// Imports a database with these rows, and with settings after those of the backend.
#[track_caller]
fn database_of(settings: &str, rows: &str) -> Imported {
    let files = Memory::default()
        .with("pdns.conf", format!("launch=gsqlite3\ngsqlite3-database=/p.db\n{settings}"))
        .with("/p.db", database(&format!("{SCHEMA}{rows}")));
    run(Origin::Powerdns, "pdns.conf", &files).unwrap()
}

#[track_caller]
fn check(imported: &Imported, parts: &[&str], notes: &[&str]) {
    for part in parts {
        assert!(imported.config.contains(part), "no {part}:\n{}", imported.config);
    }
    let all = imported.notes.join("\n");
    for note in notes {
        assert!(all.contains(note), "no note {note}:\n{all}");
    }
}

/// Returns the `[[zone]]` of this name.
#[track_caller]
fn zone<'i>(imported: &'i Imported, name: &str) -> &'i str {
    let mut tables = imported.config.split("[[zone]]\n").skip(1);
    let named = |table: &&str| table.starts_with(&format!("name = {name:?}\n"));
    let table = tables.find(named).unwrap_or_else(|| panic!("{}", imported.config));
    table.split("\n\n").next().unwrap_or(table)
}

#[test]
fn alias_records_are_transferred_as_by_powerdns() {
    let rows = "INSERT INTO domains VALUES (1, 'a.example', NULL, 'MASTER', NULL, NULL);
         INSERT INTO records VALUES (1, 'a.example', 'SOA', 'ns h 1', 3600, 0, 0),
          (1, 'a.example', 'NS', 'ns.other.example', 3600, 0, 0),
          (1, 'a.example', 'ALIAS', 'web.example.net', 300, 0, 0);";
    for (settings, form) in [
        ("", "literal"),
        ("outgoing-axfr-expand-alias=no\n", "literal"),
        ("outgoing-axfr-expand-alias=yes\n", "addresses"),
        ("outgoing-axfr-expand-alias=ignore-errors\n", "addresses"),
    ] {
        let imported = database_of(&format!("allow-axfr-ips=192.0.2.1\n{settings}"), rows);
        let table = zone(&imported, "a.example");
        assert!(table.contains(&format!("transfer-alias = \"{form}\"\n")), "{settings}{table}");
    }
}

#[test]
fn catalogs_stay_catalogs() {
    let imported = database_of(
        "also-notify=192.0.2.7\n",
        "INSERT INTO domains VALUES (1, 'cat.example', NULL, 'PRODUCER', NULL, NULL),
          (2, 'a.example', NULL, 'MASTER', '{\"producer\": {\"group\": [\"g1\", \"g2\"]}}', 'cat.example.'),
          (3, 'b.example', NULL, 'NATIVE',
           '{\"producer\": {\"coo\": \"c.example.\", \"unique\": \"123.\"}}', 'cat.example'),
          (4, 'other.example', '192.0.2.1:5300', 'CONSUMER', NULL, NULL),
          (5, 'm.example', '192.0.2.1:5300', 'SLAVE', NULL, 'other.example'),
          (6, 'lost.example', NULL, 'CONSUMER', NULL, NULL),
          (7, 'd.example', NULL, 'NATIVE', NULL, 'gone.example');
         INSERT INTO records VALUES (1, 'cat.example', 'SOA', 'ns h 0', 3600, 0, 0);
         INSERT INTO domainmetadata VALUES (5, 'AXFR-MASTER-TSIG', 'k'), (4, 'AXFR-MASTER-TSIG', 'k');",
    );
    let producer = zone(&imported, "cat.example");
    assert!(producer.contains("catalog = \"producer\""), "{producer}");
    assert!(producer.contains("notify = [\"192.0.2.7\"]") && !producer.contains("file ="));
    let listed = "member-of = \"cat.example\"\ngroup = \"g1\"";
    assert!(zone(&imported, "a.example").contains(listed), "{}", imported.config);
    assert!(zone(&imported, "b.example").contains("member-of = \"cat.example\""));
    let consumer = "primaries = [\"192.0.2.1:5300 key k\"]\ncatalog = \"consumer\"";
    assert!(zone(&imported, "other.example").contains(consumer), "{}", imported.config);
    assert!(!zone(&imported, "d.example").contains("member-of"));
    assert!(!imported.config.contains("name = \"m.example\""), "{}", imported.config);
    // Clients may still ask for the names of the member.
    let notes = [
        "a.example (MASTER): catalog cat.example.: group \"g2\": a member has one group",
        "b.example (NATIVE): catalog cat.example: coo: the server gives no member",
        "b.example (NATIVE): catalog cat.example: unique: the server derives",
        "cat.example (PRODUCER): the server writes the catalog with its own unique labels",
        "m.example (SLAVE): the server transfers it, because the catalog other.example lists it",
        "m.example (SLAVE): AXFR-MASTER-TSIG: the settings of the catalog other.example apply",
        "other.example (CONSUMER): the rule for names outside",
        "lost.example (CONSUMER): a catalog of another server needs its primaries",
        "d.example (NATIVE): catalog gone.example: there is no such zone",
    ];
    check(&imported, &["qname.under(\"m.example\")"], &notes);
}

#[test]
fn long_texts_are_divided_into_strings() {
    let long = "x".repeat(300);
    let imported = database_of(
        "",
        &format!(
            "INSERT INTO domains VALUES (1, 'a.example', NULL, 'NATIVE', NULL, NULL);
             INSERT INTO records VALUES (1, 'a.example', 'SOA', 'ns.a.example h@a.example', 60, 0, 0),
              (1, 'a.example', 'TXT', '\"{long}\"', 60, 0, 0),
              (1, 'b.a.example', 'TXT', 'v=spf1 -all', NULL, 0, 0),
              (1, '@$.a.example', 'A', '192.0.2.1', 60, 0, 0),
              (1, 'c.a.example', 'TXT', 'a\\', 60, 0, 0);"
        ),
    );
    let text = &imported.files.iter().find(|(name, _)| name == "a.example.zone").unwrap().1;
    let expected = format!(
        "a.example. 60 IN SOA ns.a.example. h.a.example. 1 10800 3600 604800 3600\n\
         a.example. 60 IN TXT \"{}\" \"{}\"\n\
         b.a.example. 3600 IN TXT \"v=spf1 -all\"\n\
         \\@\\$.a.example. 60 IN A 192.0.2.1\n",
        &long[..255],
        &long[255..]
    );
    assert_eq!(*text, expected);
    check(&imported, &[], &["c.a.example TXT: its text has a quote or a backslash"]);
}

const UPDATED: &str = "INSERT INTO domains VALUES (1, 'a.example', NULL, 'NATIVE', NULL, NULL),
     (2, 'b.example', NULL, 'NATIVE', NULL, NULL), (3, 'c.example', '192.0.2.1', 'SLAVE', NULL, NULL);
    INSERT INTO domainmetadata VALUES (1, 'TSIG-ALLOW-DNSUPDATE', 'k'),
     (1, 'ALLOW-DNSUPDATE-FROM', '192.0.2.0/24'), (1, 'ALLOW-DNSUPDATE-FROM', 'nowhere'),
     (2, 'ALLOW-DNSUPDATE-FROM', '192.0.2.0/24'), (3, 'TSIG-ALLOW-DNSUPDATE', 'k'),
     (1, 'TSIG-ALLOW-AXFR', 'gone');";

#[test]
fn updates_need_a_network_and_a_key() {
    let imported = database_of("dnsupdate=yes\nallow-dnsupdate-from=10.0.0.0/8,x\n", UPDATED);
    let items = "allow-update = [\"10.0.0.0/8 key k\", \"192.0.2.0/24 key k\"]";
    assert_eq!(imported.config.matches("allow-update").count(), 1, "{}", imported.config);
    assert_eq!(imported.secrets.len(), 1);
    let notes = [
        "dnsupdate=yes: only zones with TSIG-ALLOW-DNSUPDATE can be updated",
        "allow-dnsupdate-from=10.0.0.0/8,x: \"x\" is no address",
        "a.example (NATIVE): ALLOW-DNSUPDATE-FROM: \"nowhere\" is no address",
        "a.example (NATIVE): TSIG-ALLOW-AXFR: there is no key \"gone\"",
        "b.example (NATIVE): updates: an address is no proof",
        "c.example (SLAVE): updates: the zone comes from other servers",
    ];
    check(&imported, &[items], &notes);
    // The default of PowerDNS.
    let imported = database_of("dnsupdate\n", UPDATED);
    check(&imported, &["\"127.0.0.0/8 key k\", \"192.0.2.0/24 key k\", \"::1/128 key k\""], &[]);
    let imported = database_of("", UPDATED);
    assert!(!imported.config.contains("allow-update") && imported.secrets.is_empty());
    check(&imported, &[], &["TSIG-ALLOW-DNSUPDATE: `dnsupdate` is off"]);
}

#[test]
fn settings_of_zones_are_converted_or_reported() {
    let imported = database_of(
        "",
        "INSERT INTO domains VALUES (1, 'a.example', NULL, 'MASTER', NULL, NULL),
          (2, 'b.example', NULL, 'NATIVE', NULL, NULL), (3, 'c.example', NULL, 'NATIVE', NULL, NULL);
         INSERT INTO cryptokeys VALUES (1, 1), (3, 1);
         INSERT INTO supermasters VALUES ('192.0.2.4', 'ns.x.example', 'acct');
         INSERT INTO records VALUES (2, 'b.example', 'SOA', 'ns h 5', 60, 0, 0),
          (2, 'b.example', 'RRSIG', 'SOA 13 2 60 2030 2020 1 b.example AA==', 60, 0, 0),
          (2, 'b.example', 'DNSKEY', '257 3 13 AA==', 60, 0, 0);
         INSERT INTO domainmetadata VALUES (1, 'NSEC3PARAM', '1 1 5 ab'), (1, 'NSEC3NARROW', '1'),
          (1, 'ALSO-NOTIFY', '192.0.2.9:5300'), (1, 'ALSO-NOTIFY', '10.0.0.0/8'),
          (1, 'ALLOW-AXFR-FROM', 'AUTO-NS'), (1, 'ALLOW-AXFR-FROM', '2001:db8::/48'),
          (1, 'TSIG-ALLOW-AXFR', 'k'), (1, 'FORWARD-DNSUPDATE', '1'),
          (2, 'PRESIGNED', '1'), (3, 'NSEC3PARAM', '1 0 0 -');",
    );
    let expected = "allow-transfer = [\"2001:db8::/48\", \"key k\"]\n\
                    notify = [\"192.0.2.9:5300\"]\nsign = \"nsec3-opt-out\"";
    assert!(zone(&imported, "a.example").contains(expected), "{}", imported.config);
    let policy = "[[signing-policy]]\nname = \"nsec3-opt-out\"\ndenial = \"nsec3-opt-out\"";
    let notes = [
        "NSEC3PARAM: no additional iterations and no salt here",
        "NSEC3NARROW: the proofs are those of the zone",
        "ALSO-NOTIFY: \"10.0.0.0/8\" is no address",
        "ALLOW-AXFR-FROM: AUTO-NS",
        "FORWARD-DNSUPDATE: no equivalent for a zone",
        "b.example (NATIVE): PRESIGNED: the zone is imported without signatures",
        "autoprimary 192.0.2.4 ns.x.example: no server adds zones",
    ];
    check(&imported, &[policy, "name = \"nsec3\"\ndenial = \"nsec3\""], &notes);
    assert!(zone(&imported, "c.example").contains("sign = \"nsec3\""));
    let unsigned = imported.files.iter().find(|(name, _)| name == "b.example.zone").unwrap();
    assert_eq!(unsigned.1.lines().count(), 1, "{unsigned:?}");
}

#[test]
fn policy_zones_of_servers_are_transferred() {
    let text = "recursor:
  rpzs:
    - name: rpz.example
      addresses: [192.0.2.1, '[2001:db8::1]:5353', ns.rpz.example]
      tsig: {name: Feed, algo: hmac-sha256, secret: c2VjcmV0IHNlY3JldCBzZWNyZXQh}
      defpol: Drop
      refresh: 60
      maxTTL: 5
    - name: open.example
      addresses: [192.0.2.2]
      policy_name: open
    - name: weak.example
      addresses: [192.0.2.3]
      tsig: {name: old, algo: hmac-md5, secret: aGlkZGVuIGhpZGRlbg==}
    - name: /etc/local.rpz
    - name: relative.rpz
    - 5
";
    let imported = run_text(Origin::Powerdns, "recursor.yml", text).unwrap();
    let parts = [
        "zone = \"rpz.example\"\nprimaries = [\"192.0.2.1 key feed\", \
         \"[2001:db8::1]:5353 key feed\"]\nformat = \"rpz\"",
        "action = \"drop\"",
        "zone = \"open.example\"\nprimaries = [\"192.0.2.2\"]\nformat = \"rpz\"",
        "file = \"/etc/local.rpz\"\nformat = \"rpz\"",
        "[[key]]\nname = \"feed\"\nalgorithm = \"hmac-sha256\"\nsecret-file",
    ];
    let notes = [
        "recursor.rpzs: rpz.example: ns.rpz.example: servers of a policy zone",
        "recursor.rpzs: rpz.example: maxTTL: no equivalent",
        "recursor.rpzs: weak.example: tsig: its algorithm or its secret",
        "recursor.rpzs: relative.rpz: neither an absolute path nor a URL",
        "recursor.rpzs: a policy zone has a name",
        "policy zones: policyname, policy zones: refresh",
    ];
    check(&imported, &parts, &notes);
    assert!(!imported.config.contains("weak.example"), "{}", imported.config);
    let all = format!("{}{}", imported.config, imported.notes.join("\n"));
    assert!(!all.contains("aGlkZGVu") && !all.contains("c2VjcmV0"), "{all}");
    assert_eq!(imported.secrets.len(), 1);
}

#[test]
fn sequences_of_included_files_extend_those_of_the_first() {
    let files = Memory::default()
        .with(
            "recursor.yml",
            "recursor:\n  include_dir: /d\n  threads: 2\n  rpzs: [{name: /a.rpz}]\n\
             incoming:\n  allow_from: [10.0.0.0/8]\n",
        )
        .with(
            "/d/more.yml",
            "recursor:\n  rpzs: [{name: /b.rpz}]\nincoming:\n  allow_from: [192.0.2.0/24]\n",
        );
    let imported = run(Origin::Powerdns, "recursor.yml", &files).unwrap();
    let parts = ["/a.rpz", "/b.rpz", "allow = [\"10.0.0.0/8\", \"192.0.2.0/24\"]"];
    check(&imported, &parts, &[]);
}
