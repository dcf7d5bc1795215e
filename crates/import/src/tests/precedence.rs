//! Tests of the order of lists.

use super::*;

/// Returns the rules as `action when`.
fn rules(imported: &Imported) -> Vec<String> {
    let document: toml::Table = imported.config.parse().unwrap();
    let rules = document.get("rule").and_then(|rules| rules.as_array()).cloned();
    let text = |rule: &toml::Value, key: &str| rule[key].as_str().unwrap().to_owned();
    let rules = rules.unwrap_or_default();
    rules.iter().map(|rule| text(rule, "action") + " " + &text(rule, "when")).collect()
}

#[test]
fn names_that_pihole_denies_are_blocked_also_if_a_subscribed_list_allows_them() {
    let gravity = |kind_of_list: u8| {
        database(&format!(
            "CREATE TABLE \"group\" (id INTEGER, enabled INTEGER, name TEXT, description TEXT);
            INSERT INTO \"group\" VALUES (0, 1, 'Default', ''), (1, 1, 'kids', ''), (2, 0, 'off', '');
            CREATE TABLE adlist (id INTEGER, address TEXT, enabled INTEGER, comment TEXT, type INTEGER);
            INSERT INTO adlist VALUES (1, 'https://lists.example/a', 1, 'sub', {kind_of_list});
            CREATE TABLE adlist_by_group (adlist_id INTEGER, group_id INTEGER);
            INSERT INTO adlist_by_group VALUES (1, 0);
            CREATE TABLE domainlist (id INTEGER, type INTEGER, domain TEXT, enabled INTEGER, comment TEXT);
            INSERT INTO domainlist VALUES (1, 1, 'a.example', 1, ''), (2, 0, 'b.example', 1, ''),
                (3, 2, '^c', 1, ''), (4, 3, '^d', 1, ''), (5, 1, 'e.example', 1, '');
            CREATE TABLE domainlist_by_group (domainlist_id INTEGER, group_id INTEGER);
            INSERT INTO domainlist_by_group VALUES (1, 0), (1, 1), (2, 0), (3, 0), (4, 0), (5, 2);"
        ))
    };
    let import = |kind_of_list| {
        let files = Memory::default().with("gravity.db", gravity(kind_of_list));
        run(Origin::Pihole, "gravity.db", &files).unwrap()
    };
    let expected = [
        "allow client.group(\"default\") && list(\"allowed\", \"allowed-regex\")",
        "block (client.group(\"default\") || client.group(\"kids\")) && \
         list(\"denied-default-kids\")",
    ];
    assert_eq!(rules(&import(1)), expected);
    // Without such a list, Avocet and Pi-hole have the same order.
    assert!(rules(&import(0)).is_empty());
}

#[test]
fn upstreams_of_blocky_by_name_need_a_server_that_knows_their_address() {
    let of = |bootstrap: &str| {
        let text = format!(
            "upstreams: {{groups: {{default: ['https://dns.example/dns-query', \
             'tcp-tls:dot.example:853']}}}}\nbootstrapDns: {bootstrap}\n"
        );
        run_text(Origin::Blocky, "config.yml", &text).unwrap()
    };
    for bootstrap in [
        "tcp+udp:192.0.2.53:5353",
        "['tcp+udp:192.0.2.53:5353']",
        "{upstream: 'tcp+udp:192.0.2.53:5353'}",
        "[{upstream: 'tcp+udp:192.0.2.53:5353'}]",
    ] {
        let imported = of(bootstrap);
        let lines = "upstreams = [\"https://dns.example/dns-query\", \"tls://dot.example:853\"]\n\
                     bootstrap = [\"192.0.2.53:5353\"]";
        assert!(imported.config.contains(lines), "{bootstrap}\n{}", imported.config);
        assert!(imported.notes.iter().all(|note| !note.contains("bootstrap")));
    }
    let notes = of("[{upstream: 'tcp-tls:dot.example', ips: [192.0.2.53]}]").notes.join("\n");
    for note in [
        "bootstrapDns: tcp-tls:dot.example: addresses of upstreams are queried in plain DNS",
        "bootstrapDns[0].ips: addresses of upstreams are queried in plain DNS",
        "no server that knows its address was imported",
    ] {
        assert!(notes.contains(note), "{notes}");
    }
}

#[test]
fn a_policy_that_replaces_the_actions_of_a_zone_becomes_a_rule() {
    let lua = |options: &str| {
        let files = Memory::default()
            .with("/r/recursor.conf", "lua-config-file=/r/conf.lua\n")
            .with("/r/conf.lua", format!("rpzFile(\"/r/rpz.zone\", {{{options}}})\n"));
        run(Origin::Powerdns, "/r/recursor.conf", &files).unwrap()
    };
    let yaml = |options: &str| {
        let text = format!("recursor:\n  rpzs: [{{name: /r/rpz.zone{options}}}]\n");
        let files = Memory::default().with("/r/recursor.yml", text);
        run(Origin::Powerdns, "/r/recursor.yml", &files).unwrap()
    };
    for (policy, rule) in [
        ("NXDOMAIN", "action = \"block\"\nanswer = \"nxdomain\""),
        ("NODATA", "action = \"block\"\nanswer = \"nodata\""),
        ("Drop", "action = \"drop\""),
        ("Truncate", "action = \"truncate\""),
        ("NoAction", "action = \"block\"\nlog-only = true"),
    ] {
        let lua = lua(&format!("policyName=\"trial\", defpol=Policy.{policy}"));
        let yaml = yaml(&format!(", defpol: {policy}, policyName: trial"));
        for imported in [lua, yaml] {
            let rule = format!("when = 'list(\"rpz-zone\")'\n{rule}\n");
            assert!(imported.config.contains(&rule), "{policy}\n{}", imported.config);
            assert!(!imported.config.contains("rewrites = true"), "{}", imported.config);
            let of_group = "lists = [\"rpz-zone\"]";
            assert!(!imported.config.contains(of_group), "{}", imported.config);
        }
    }
    let text = "recursor:\n  rpzs: [{name: /r/own.zone}, {name: /r/rpz.zone, defpol: Drop}]\n";
    let files = Memory::default().with("/r/recursor.yml", text);
    let imported = run(Origin::Powerdns, "/r/recursor.yml", &files).unwrap();
    let when = "when = 'list(\"rpz-zone\") && !list(\"own-zone\")'";
    assert!(imported.config.contains(when), "{}", imported.config);
    let notes = imported.notes.join("\n");
    for note in ["its triggers on addresses and on name servers", "comes before the zones above"] {
        assert!(notes.contains(note), "{notes}");
    }
    for imported in [lua("defpol=Policy.Custom, defttl=5"), yaml(", defpol: Custom, defttl: 5")] {
        assert!(imported.config.contains("rewrites = true"), "{}", imported.config);
        let notes = imported.notes.join("\n");
        assert!(notes.contains("defpol = custom: the actions of the zone apply"), "{notes}");
        assert!(notes.contains("defttl: no equivalent"), "{notes}");
    }
}
