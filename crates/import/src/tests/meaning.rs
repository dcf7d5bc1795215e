//! The results of converting single settings.

use super::*;

#[track_caller]
fn config(origin: Origin, text: &str) -> Imported {
    // Adds a key that identifies a document of the product.
    let known = match origin {
        Origin::Adguard if !text.contains("dns: ") => "dns: ~\n",
        Origin::Blocky if !text.contains("customDNS: ") => "customDNS: ~\n",
        _ => "",
    };
    run_text(origin, "source", &format!("{known}{text}")).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the zones of the forwarding rules, each with its first server.
fn forwards(imported: &Imported) -> Vec<(String, Option<String>)> {
    let document: toml::Table = imported.config.parse().unwrap();
    let rules =
        document.get("forward").and_then(|rules| rules.as_array()).cloned().unwrap_or_default();
    let first =
        |rule: &toml::Value| Some(rule.get("upstreams")?.as_array()?.first()?.as_str()?.to_owned());
    rules.iter().map(|rule| (rule["zone"].as_str().unwrap().to_owned(), first(rule))).collect()
}

fn of(rules: &[(&str, &str)]) -> Vec<(String, Option<String>)> {
    let server = |server: &str| (!server.is_empty()).then(|| server.to_owned());
    rules.iter().map(|(zone, at)| ((*zone).to_owned(), server(at))).collect()
}

#[test]
fn a_hash_stands_for_the_servers_of_all_names() {
    for (dnsmasq, adguard, expected) in [
        // Names in `x.example` use the servers of the root anyway.
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
        let of_dnsmasq =
            config(Origin::Dnsmasq, &format!("no-resolv\nserver=192.0.2.1\n{dnsmasq}"));
        let of_adguard =
            config(Origin::Adguard, &format!("dns: {{upstream_dns: [192.0.2.1, {adguard}]}}"));
        for imported in [of_dnsmasq, of_adguard] {
            let mut found = forwards(&imported);
            found.sort();
            assert_eq!(found, of(expected), "{}", imported.config);
        }
    }
}

#[test]
fn names_that_piholes_dnsmasq_blocks_are_blocked_for_all_groups() {
    let settings =
        "[dns]\nupstreams=['192.0.2.1']\n[misc]\ndnsmasq_lines=['address=/x.example/']\n";
    let gravity = "CREATE TABLE \"group\" (id INTEGER, enabled INTEGER, name TEXT, description \
                   TEXT);
        INSERT INTO \"group\" VALUES (0, 1, 'Default', ''), (1, 0, 'kids', '');
        CREATE TABLE client (id INTEGER, ip TEXT, comment TEXT); INSERT INTO client VALUES (1, '192.0.2.9', 'free');
        CREATE TABLE client_by_group (client_id INTEGER, group_id INTEGER);";
    let archive = zip(&[
        ("etc/pihole/pihole.toml", settings.as_bytes()),
        ("etc/pihole/gravity.db", &database(gravity)),
    ]);
    let imported = run(Origin::Pihole, "t.zip", &Memory::default().with("t.zip", archive)).unwrap();
    let document: toml::Table = imported.config.parse().unwrap();
    let groups = document["group"].as_array().unwrap();
    assert_eq!(groups.len(), 3);
    for group in groups {
        assert_eq!(
            group["lists"].as_array().unwrap()[0].as_str(),
            Some("dnsmasq-blocked"),
            "{group}"
        );
    }
}

#[test]
fn an_inline_list_of_blocky_may_have_one_line() {
    let text = "blocking:\n  denylists:\n    ads:\n      - |\n        one.example\n  \
                clientGroupsBlock:\n    default: [ads]\n";
    let imported = config(Origin::Blocky, text);
    assert!(imported.config.contains("lists = [\"ads\"]"), "{}", imported.config);
    assert!(imported.files[0].1.ends_with("one.example\n"), "{:?}", imported.files);
}

#[test]
fn client_ids_of_adguard_home_are_words_of_devices() {
    let text = "clients: {persistent: [{name: a, ids: [my-client-id, 192.0.2.1, \
                '02:00:00:00:00:01', 192.0.2.0/28, 'no word']}, {name: b, ids: [Kid-Phone]}]}";
    let imported = config(Origin::Adguard, text);
    let ids = "ids = [\"192.0.2.1\", \"02:00:00:00:00:01\", \"192.0.2.0/28\", \"id:my-client-id\"]";
    assert!(imported.config.contains(ids), "{}", imported.config);
    assert!(imported.config.contains("ids = [\"id:kid-phone\"]"), "{}", imported.config);
    assert!(
        imported.notes.iter().any(|note| note.contains("no word: neither an address nor a word")),
        "{:?}",
        imported.notes
    );
    assert!(
        imported
            .notes
            .iter()
            .any(|note| note.contains("my-client-id: known by this word over TLS")),
        "{:?}",
        imported.notes
    );
}

#[test]
fn allowed_clients_are_those_of_the_original() {
    let allow = |text: &str, expected: &str| {
        let imported = config(Origin::Adguard, &format!("dns: {{allowed_clients: [{text}]}}"));
        assert!(imported.config.contains(expected), "{}", imported.config);
    };
    allow("192.0.2.0/24", "allow = [\"192.0.2.0/24\"]");
    allow("127.0.0.0/8, '::1'", "allow = [\"127.0.0.0/8\", \"::1/128\"]");
}

#[test]
fn a_rewrite_of_names_to_one_among_them_is_no_loop() {
    let text = "filtering: {rewrites: [{domain: '*.x.example', answer: a.x.example}, {domain: \
                '*.y', answer: y}]}";
    let imported = config(Origin::Adguard, text);
    assert!(
        !imported.config.contains("name = \"*.x.example\"")
            && imported.config.contains("name = \"*.y\"")
    );
    let rules = &imported.files[0].1;
    assert!(rules.contains("||*.x.example^$dnsrewrite=NOERROR;CNAME;a.x.example\n"), "{rules}");
    assert!(rules.contains("@@|a.x.example^$dnsrewrite=NOERROR;CNAME;a.x.example\n"), "{rules}");
}

#[test]
fn names_that_adguard_home_refuses_are_dropped() {
    let imported =
        config(Origin::Adguard, "dns: {blocked_hosts: [version.bind, '||evil.example^']}");
    let rule = "when = 'list(\"refused-names\")'\naction = \"drop\"";
    assert!(imported.config.contains(rule), "{}", imported.config);
    assert!(imported.files[0].1.ends_with("||evil.example^\n"));
    assert!(imported.config.contains("version = \"\""), "{}", imported.config);
}

#[test]
fn an_address_for_all_names_in_dnsmasq_is_reported_as_that() {
    for target in ["", "#", "192.0.2.1"] {
        let text = format!("no-resolv\nserver=192.0.2.1\naddress=/#/{target}\n");
        let notes = config(Origin::Dnsmasq, &text).notes;
        let is_clear = |note: &String| note.contains("all names") && note.contains("not carried");
        assert!(notes.iter().any(is_clear), "{notes:?}");
    }
}

#[test]
fn records_of_dnsmasq_may_be_naptr() {
    let imported = config(
        Origin::Dnsmasq,
        "no-resolv\nnaptr-record=_sip.a.example,100,50,s,http+I2R,,_http._tcp.b.example\n",
    );
    let record =
        "type = \"NAPTR\"\nvalues = ['100 50 \"s\" \"http+I2R\" \"\" _http._tcp.b.example.']";
    assert!(imported.config.contains(record), "{} {:?}", imported.config, imported.notes);
}

#[test]
fn switches_of_programs_that_bypass_the_server_are_kept() {
    let policy = |file: &str, text: &str| {
        let archive = zip(&[(file, text.as_bytes())]);
        let imported =
            run(Origin::Pihole, "t.zip", &Memory::default().with("t.zip", archive)).unwrap();
        let document: toml::Table = imported.config.parse().unwrap();
        let flag = |key: &str| document.get("policy")?.get(key)?.as_bool();
        ["block-firefox-dns", "block-private-relay"].map(flag)
    };
    let six = |switches: &str| {
        let text = format!("[dns]\nupstreams = ['192.0.2.1']\n[dns.specialDomains]\n{switches}");
        policy("etc/pihole/pihole.toml", &text)
    };
    assert_eq!(
        six("mozillaCanary = false\niCloudPrivateRelay = false\n"),
        [Some(false), Some(false)]
    );
    assert_eq!(six("mozillaCanary = true\niCloudPrivateRelay = true\n"), [Some(true), Some(true)]);
    assert_eq!(six(""), [None, None]);
    let five = "A=\nMOZILLA_CANARY=false\nBLOCK_ICLOUD_PR=True\n";
    assert_eq!(policy("etc/pihole/pihole-FTL.conf", five), [Some(false), Some(true)]);
}

#[test]
fn each_way_to_answer_blocked_names_is_carried_over_or_reported() {
    let answer = |imported: Imported| {
        let document: toml::Table = imported.config.parse().unwrap();
        let answer = document["policy"]["block-answer"].as_str().unwrap().to_owned();
        (answer, imported.notes.iter().any(|note| note.contains("unknown response for blocked")))
    };
    let pihole = |mode: &str| {
        let settings =
            format!("[dns]\nupstreams = ['192.0.2.1']\n[dns.blocking]\nmode = '{mode}'\n");
        let archive = zip(&[("etc/pihole/pihole.toml", settings.as_bytes())]);
        run(Origin::Pihole, "t.zip", &Memory::default().with("t.zip", archive)).unwrap()
    };
    let adguard =
        |mode: &str| config(Origin::Adguard, &format!("filtering: {{blocking_mode: {mode}}}"));
    let blocky = |mode: &str| config(Origin::Blocky, &format!("blocking: {{blockType: {mode}}}"));
    for (mode, expected) in
        [("NX", "nxdomain"), ("NXDOMAIN", "nxdomain"), ("NODATA", "nodata"), ("NULL", "zero")]
    {
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

/// Returns the tables of a kind.
fn tables(imported: &Imported, kind: &str) -> Vec<toml::Table> {
    let document: toml::Table = imported.config.parse().unwrap();
    let tables =
        document.get(kind).and_then(|tables| tables.as_array()).cloned().unwrap_or_default();
    tables.into_iter().map(|table| table.as_table().unwrap().clone()).collect()
}

/// Returns the names and the first values of records, in order.
fn records(imported: &Imported) -> Vec<(String, String)> {
    let text = |value: &toml::Value| value.as_str().unwrap().to_owned();
    let record = |record: &toml::Table| (text(&record["name"]), text(&record["values"][0]));
    tables(imported, "record").iter().map(record).collect()
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn local_zones(imported: &Imported) -> Vec<String> {
    let document: toml::Table = imported.config.parse().unwrap();
    let zones = document.get("server").and_then(|server| server.get("local-zones"));
    let zones = zones.and_then(|zones| zones.as_array()).cloned().unwrap_or_default();
    zones.iter().map(|zone| zone.as_str().unwrap().to_owned()).collect()
}

#[test]
fn clients_and_tags_keep_their_names() {
    let long = "x".repeat(65);
    let text = format!(
        "clients: {{persistent: [
            {{name: 'Kids Tablet', ids: [192.0.2.1], tags: [user_child, device_tablet], use_global_settings: false,
              use_global_blocked_services: true, filtering_enabled: true}},
            {{name: user_child, ids: [192.0.2.2], use_global_settings: false, use_global_blocked_services: true}},
            {{name: '{long}', ids: [192.0.2.3], use_global_settings: true, use_global_blocked_services: true}}]}}"
    );
    let imported = config(Origin::Adguard, &text);
    let named = |kind| {
        tables(&imported, kind).iter().map(|table| table["name"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(named("client")[..2], ["\"Kids Tablet\"", "\"user_child\""]);
    assert_eq!(
        named("group"),
        ["\"default\"", "\"kids-tablet\"", "\"user-child\"", "\"device_tablet\"", "\"user_child\""]
    );
    assert!(
        imported.notes.iter().any(|note| note.contains("renamed to xxx")),
        "{:?}",
        imported.notes
    );
}

#[test]
fn exceptions_of_adguard_home_go_before_services_and_safe_search() {
    let text = "user_rules: ['@@||youtube.com^', '@@/^a$b[0-9]+\\./$client=x', '@@||off.example^',
            '@@||off.example^$badfilter', '@@||y.example^$dnsrewrite', '||z.example^', '@@||i.example^$important']
whitelist_filters: [{enabled: true, url: 'https://lists.example/allow', name: fine}]
filtering:
  blocked_services: {ids: [youtube]}
  safe_search: {enabled: true}
  rewrites: [{domain: Nas.lan, answer: 192.0.2.1}, {domain: '*.x.lan', answer: 192.0.2.1}]
clients: {persistent: [{name: a, ids: [192.0.2.3], filtering_enabled: false, use_global_blocked_services: true}]}";
    let imported = config(Origin::Adguard, text);
    let lines = &imported.files.iter().find(|(name, _)| name == "excepted-names.txt").unwrap().1;
    let lines: Vec<&str> = lines.lines().skip(1).collect();
    let expected = [
        "|nas.lan^",
        "||*.x.lan^",
        "||youtube.com^",
        "/^a$b[0-9]+\\./$client=x",
        "||i.example^$important",
    ];
    assert_eq!(lines, expected);
    let rules = tables(&imported, "rule");
    let whens: Vec<&str> = rules.iter().map(|rule| rule["when"].as_str().unwrap()).collect();
    let expected = [
        "client.group(\"default\") && service(\"youtube\") && !list(\"fine\", \"excepted-names\")",
        "client.group(\"default\") && !list(\"fine\", \"excepted-names\")",
        "client.group(\"a\") && service(\"youtube\")",
    ];
    assert_eq!(whens, expected);
    for group in tables(&imported, "group") {
        assert!(!group["lists"].to_string().contains("excepted"), "no group has it in force");
    }
}

#[test]
fn types_that_dnsmasq_does_not_set_are_asked_for_elsewhere() {
    let text = "no-hosts\nno-resolv\nlocal=/lan/\ntxt-record=a.example,v=spf1 \
                -all\nmx-host=a.example,mail.lan,5\n\
        txt-record=two.example,x,y\ncaa-record=b.example,0,issue,ca.example\ntxt-record=c.lan,x\n\
        txt-record=_d.example,x\nhost-record=half.example,192.0.2.1\naddress=/set.example/192.0.2.1\n\
        txt-record=comma.example,\"a,b\"\ntxt-record=dollar.example,$x\n\
        host-record=whole.example,192.0.2.1,2001:db8::1\ntxt-record=whole.example,x\n";
    let imported = config(Origin::Dnsmasq, text);
    let lines: Vec<&str> = imported.files[0].1.lines().skip(1).collect();
    let expected = [
        "|a.example^$dnstype=MX,dnsrewrite=NOERROR;MX;5 mail.lan.",
        "|a.example^$dnstype=TXT,dnsrewrite=NOERROR;TXT;v=spf1 -all",
        "|b.example^$dnstype=CAA,dnsrewrite=NOERROR;CAA;0 issue \"ca.example\"",
        "|comma.example^$dnstype=TXT,dnsrewrite=NOERROR;TXT;a\\,b",
    ];
    assert_eq!(lines, expected);
    let owners: Vec<String> = records(&imported).into_iter().map(|(owner, _)| owner).collect();
    for owner in [
        "two.example",
        "c.lan",
        "_d.example",
        "half.example",
        "set.example",
        "dollar.example",
        "whole.example",
    ] {
        assert!(owners.iter().any(|one| one == owner), "{owner}");
    }
    let notes: Vec<&String> =
        imported.notes.iter().filter(|note| note.contains("has no data for other types")).collect();
    assert!(
        notes[0].starts_with("half.example: ")
            && notes[1].starts_with("dollar.example, two.example: "),
        "{notes:?}"
    );
    assert_eq!(notes.len(), 2);
}

#[test]
fn bounds_of_ttls_are_those_of_dnsmasq() {
    let bounds = |text: &str| {
        let document: toml::Table =
            config(Origin::Dnsmasq, &format!("no-resolv\n{text}")).config.parse().unwrap();
        let cache = document.get("cache").cloned();
        let bound = |key| cache.as_ref()?.get(key)?.as_integer();
        (bound("min-ttl-secs"), bound("max-ttl-secs"))
    };
    assert_eq!(bounds("max-ttl=900\nmax-cache-ttl=1800\n"), (None, Some(900)));
    assert_eq!(bounds("max-cache-ttl=1800\nmax-ttl=900\n"), (None, Some(900)));
    assert_eq!(bounds("min-cache-ttl=9000\nmax-ttl=0\n"), (Some(3_600), None));
}

#[test]
fn the_first_name_of_an_address_stays_the_first() {
    let hosts = "192.0.2.1 zeta.lan alpha.lan\n192.0.2.2 beta.lan\n192.0.2.2 zeta.lan\n";
    let expected = pairs(&[
        ("zeta.lan", "192.0.2.1"),
        ("alpha.lan", "192.0.2.1"),
        ("beta.lan", "192.0.2.2"),
        // A separate table, because zeta.lan would otherwise be the first name of this address.
        ("zeta.lan", "192.0.2.2"),
    ]);
    let files =
        Memory::default().with("d.conf", "no-hosts\nno-resolv\naddn-hosts=/h\n").with("/h", hosts);
    assert_eq!(records(&run(Origin::Dnsmasq, "d.conf", &files).unwrap()), expected);
    let archive = zip(&[("etc/pihole/custom.list", hosts.as_bytes())]);
    assert_eq!(
        records(&run(Origin::Pihole, "t.zip", &Memory::default().with("t.zip", archive)).unwrap()),
        expected
    );
    let lines: Vec<String> = hosts.lines().map(|line| format!("'{line}'")).collect();
    let settings = format!("[dns]\nhosts = [{}]\n", lines.join(", "));
    assert_eq!(records(&run_text(Origin::Pihole, "pihole.toml", &settings).unwrap()), expected);
    let sources = format!("hostsFile: {{sources: [{hosts:?}]}}");
    assert_eq!(records(&config(Origin::Blocky, &sources)), expected);
}

#[test]
fn dnsmasq_takes_the_names_of_an_address_in_an_order_of_its_own() {
    let text = "no-hosts\nno-resolv\naddn-hosts=/a\naddn-hosts=/b\naddress=/x.lan/192.0.2.1\n\
        host-record=own.lan,192.0.2.1\n";
    let files = Memory::default()
        .with("d.conf", text)
        .with("/a", "192.0.2.1 a.lan\n")
        .with("/b", "192.0.2.1 b.lan\n");
    let imported = run(Origin::Dnsmasq, "d.conf", &files).unwrap();
    let named =
        tables(&imported, "record").into_iter().filter(|record| !record.contains_key("ptr"));
    let named: Vec<String> =
        named.map(|record| record["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(named, ["own.lan", "b.lan", "a.lan"]);
}

#[test]
fn an_address_that_is_set_twice_has_its_reverse_name() {
    let imported = config(
        Origin::Dnsmasq,
        "no-hosts\nno-resolv\naddress=/nas.lan/192.0.2.1\nptr-record=x.lan,y.lan\n\
        cname=c.lan,nas.lan\nhost-record=nas.lan,192.0.2.1\naddress=/nas.lan/192.0.2.1\n",
    );
    let of_nas: Vec<toml::Table> = tables(&imported, "record")
        .into_iter()
        .filter(|record| record["name"].as_str() == Some("nas.lan"))
        .collect();
    assert!(matches!(&of_nas[..], [one] if !one.contains_key("ptr")), "{of_nas:?}");
}

#[test]
fn a_wildcard_holds_below_names_of_their_own() {
    let adguard = "filtering: {rewrites: [{domain: '*.lan', answer: 192.0.2.1}, {domain: nas.lan, \
                   answer: 192.0.2.2},
        {domain: '*.b.lan', answer: c.example}, {domain: x.b.lan, answer: 192.0.2.3}]}";
    let expected = pairs(&[
        ("*.lan", "192.0.2.1"),
        ("nas.lan", "192.0.2.2"),
        ("*.b.lan", "c.example."),
        ("x.b.lan", "192.0.2.3"),
        ("*.nas.lan", "192.0.2.1"),
        ("*.x.b.lan", "c.example."),
    ]);
    assert_eq!(records(&config(Origin::Adguard, adguard)), expected);
    let dnsmasq = "no-hosts\nno-resolv\naddress=/lan/192.0.2.1\nhost-record=nas.lan,192.0.2.2\n";
    let found = records(&config(Origin::Dnsmasq, dnsmasq));
    assert!(found.contains(&("*.nas.lan".to_owned(), "192.0.2.1".to_owned())), "{found:?}");
    let blocky = "customDNS: {mapping: {lan: 192.0.2.1, nas.lan: 192.0.2.2}}";
    let found = records(&config(Origin::Blocky, blocky));
    assert!(found.contains(&("*.nas.lan".to_owned(), "192.0.2.2".to_owned())), "{found:?}");
    assert_eq!(found.len(), 4);
}

#[test]
fn zones_of_the_network_are_local_zones() {
    let base = "no-hosts\nno-resolv\nserver=192.0.2.1\n";
    for (text, expected) in [
        ("local=/lan/home.arpa/\n", &["home.arpa", "lan"][..]),
        ("server=/lan/\n", &["lan"]),
        // Servers for exactly this zone take precedence over the local zone.
        ("local=/lan/\nserver=/lan/192.0.2.2\n", &[]),
        ("domain=lan,192.0.2.0/24,local\n", &["2.0.192.in-addr.arpa", "lan"]),
        ("domain=lan\nexpand-hosts\n", &[]),
    ] {
        assert_eq!(
            local_zones(&config(Origin::Dnsmasq, &format!("{base}{text}"))),
            expected,
            "{text}"
        );
    }
    let settings = "[dns]\nupstreams=['192.0.2.1']\ndomain={name='lan',local=true}\n";
    assert_eq!(local_zones(&run_text(Origin::Pihole, "pihole.toml", settings).unwrap()), ["lan"]);
    let leases = |is_on| {
        config(Origin::Adguard, &format!("dhcp: {{enabled: {is_on}, local_domain_name: lan}}"))
    };
    assert_eq!(local_zones(&leases(true)), ["lan"]);
    assert!(local_zones(&leases(false)).is_empty());
}

#[test]
fn names_taken_out_of_a_local_zone_have_the_servers_of_all_names() {
    let imported = config(
        Origin::Dnsmasq,
        "no-hosts\nno-resolv\nserver=192.0.2.1\nlocal=/lan/\nserver=/out.lan/#\n",
    );
    assert_eq!(forwards(&imported), of(&[(".", "192.0.2.1"), ("out.lan", "192.0.2.1")]));
    let without = config(Origin::Dnsmasq, "no-hosts\nno-resolv\nlocal=/lan/\nserver=/out.lan/#\n");
    assert!(
        without
            .notes
            .iter()
            .any(|note| note.starts_with("names under out.lan: they end in the local zone"))
    );
}

#[test]
fn names_are_expanded_by_the_domain_of_their_address() {
    let text = "no-hosts\nno-resolv\nexpand-hosts\ndomain=lan\ndomain=iot.lan,192.0.2.0/28\n\
        domain=far.lan,192.0.2.100,192.0.2.110\naddn-hosts=/h\n";
    let hosts = "192.0.2.1 tv\n192.0.2.50 pc\n192.0.2.105 cam\n";
    let imported =
        run(Origin::Dnsmasq, "d.conf", &Memory::default().with("d.conf", text).with("/h", hosts))
            .unwrap();
    let names: Vec<String> = records(&imported).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["tv.iot.lan", "tv", "pc.lan", "pc", "cam.far.lan", "cam"]);
}

#[test]
fn a_name_with_a_dot_stays_the_first_name_if_others_are_expanded() {
    let text = "no-hosts\nno-resolv\nexpand-hosts\ndomain=lan\naddn-hosts=/h\n";
    let files = Memory::default().with("d.conf", text).with("/h", "192.0.2.1 full.example short\n");
    let dnsmasq = run(Origin::Dnsmasq, "d.conf", &files).unwrap();
    let settings =
        "[dns]\nhosts=['192.0.2.1 full.example short']\nexpandHosts=true\ndomain.name='lan'\n";
    let pihole = run_text(Origin::Pihole, "pihole.toml", settings).unwrap();
    for imported in [dnsmasq, pihole] {
        let names: Vec<String> = records(&imported).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["full.example", "short.lan", "short"]);
    }
}

#[test]
fn prefixes_of_translators_are_carried() {
    let prefix = |imported: &Imported| {
        let document: toml::Table = imported.config.parse().unwrap();
        document.get("dns64").map(|dns64| dns64["prefix"].as_str().unwrap().to_owned())
    };
    let adguard = |text: &str| config(Origin::Adguard, &format!("dns: {{{text}}}"));
    assert_eq!(prefix(&adguard("use_dns64: true")).as_deref(), Some("64:ff9b::/96"));
    let two = adguard(
        "use_dns64: true, dns64_prefixes: ['64:ff9b::/97', '2001:db8::1/64', '2001:db8:1::/96']",
    );
    assert_eq!(prefix(&two).as_deref(), Some("2001:db8::/64"));
    assert_eq!(
        two.notes.iter().filter(|note| note.contains("dns64_prefixes: ")).count(),
        2,
        "{:?}",
        two.notes
    );
    let off = adguard("use_dns64: false, dns64_prefixes: ['2001:db8::/64']");
    assert_eq!(prefix(&off), None);
    assert!(off.notes.iter().any(|note| note.starts_with("dns.dns64_prefixes")), "{:?}", off.notes);
    let blocky = config(
        Origin::Blocky,
        "dns64: {enable: true, prefixes: ['2001:db8::/56'], exclusionSet: ['fe80::/10']}",
    );
    assert_eq!(prefix(&blocky).as_deref(), Some("2001:db8::/56"));
    assert!(blocky.config.contains("exclude = [\"fe80::/10\"]"), "{}", blocky.config);
}

#[test]
fn who_knows_the_names_of_clients_is_asked_where_groups_go_by_names() {
    let text = |key: &str| {
        format!(
            "clientLookup: {{upstream: 192.0.2.1}}\nblocking: {{denylists: {{a: \
             ['https://x.example/a']}}, clientGroupsBlock: {{{key}: [a]}}}}"
        )
    };
    let by_name = config(Origin::Blocky, &text("laptop.lan"));
    assert!(
        forwards(&by_name)
            .contains(&("168.192.in-addr.arpa".to_owned(), Some("192.0.2.1".to_owned())))
    );
    let by_address = config(Origin::Blocky, &text("192.0.2.7"));
    assert!(forwards(&by_address).is_empty());
    assert!(
        by_address.notes.iter().any(|note| note.starts_with("clientLookup.upstream = 192.0.2.1"))
    );
}

/// Returns the conditions of the rules with this action, each with the content of `to`.
fn rules_doing(imported: &Imported, action: &str) -> Vec<(String, String)> {
    let rules =
        tables(imported, "rule").into_iter().filter(|rule| rule["action"].as_str() == Some(action));
    let to = |rule: &toml::Table| rule.get("to").map(ToString::to_string).unwrap_or_default();
    rules.map(|rule| (rule["when"].as_str().unwrap().to_owned(), to(&rule))).collect()
}

#[test]
fn names_without_a_dot_have_servers_of_their_own() {
    let plain = "qname.levels() == 1 && qtype in [\"A\", \"AAAA\"]";
    let own = format!("{plain} && !(qname in [\"localhost\", \"nas\"])");
    let plain = &format!("{plain} && !(qname in [\"localhost\"])");
    let dnsmasq = |text: &str| config(Origin::Dnsmasq, &format!("no-hosts\nno-resolv\n{text}"));
    let of_dnsmasq = dnsmasq("server=//192.0.2.1#5353\nhost-record=nas,192.0.2.2\ndomain-needed\n");
    assert_eq!(rules_doing(&of_dnsmasq, "forward"), pairs(&[(&own, "[\"192.0.2.1@5353\"]")]));
    assert!(rules_doing(&of_dnsmasq, "block").is_empty());
    assert_eq!(rules_doing(&dnsmasq("local=//\n"), "block"), pairs(&[(plain, "")]));
    let adguard =
        config(Origin::Adguard, "dns: {upstream_dns: [192.0.2.1, '[//]192.0.2.2 2001:db8::1']}");
    assert_eq!(
        rules_doing(&adguard, "forward"),
        pairs(&[(plain, "[\"192.0.2.2\", \"2001:db8::1\"]")])
    );
    let blocky =
        config(Origin::Blocky, "conditional: {mapping: {'.': '192.0.2.2,tcp://192.0.2.3'}}");
    assert_eq!(rules_doing(&blocky, "forward"), pairs(&[(plain, "[\"192.0.2.2\"]")]));
    assert!(
        blocky.notes.iter().any(|note| note.contains("rules use their servers over UDP only")),
        "{:?}",
        blocky.notes
    );
    let whole = config(
        Origin::Blocky,
        "conditional: {mapping: {'.': 192.0.2.2}}\nfqdnOnly: {enable: true}",
    );
    assert_eq!((rules_doing(&whole, "forward").len(), rules_doing(&whole, "block").len()), (0, 1));
}

#[test]
fn pi_hole_asks_its_conditional_server_for_names_without_a_dot_unless_they_stay() {
    let six = |needed: bool| {
        let text = format!(
            "[dns]\nupstreams=['192.0.2.1']\nrevServers=['true,192.168.1.0/24,192.0.2.2,home.lan']\n\
             domain='lan'\ndomainNeeded={needed}\n"
        );
        run_text(Origin::Pihole, "pihole.toml", &text).unwrap()
    };
    assert_eq!(rules_doing(&six(false), "forward").len(), 1);
    assert!(local_zones(&six(false)).is_empty());
    assert!(rules_doing(&six(true), "forward").is_empty());
    assert_eq!(rules_doing(&six(true), "block").len(), 1);
    assert_eq!(local_zones(&six(true)), ["lan"]);
    let five = |more: &str| {
        let text = format!(
            "PIHOLE_DNS_1=192.0.2.1\nREV_SERVER=true\nREV_SERVER_CIDR=192.168.1.0/24\nREV_SERVER_TARGET=192.0.2.2\n\
             PIHOLE_DOMAIN=lan\nDHCP_ACTIVE=true\n{more}"
        );
        run_text(Origin::Pihole, "setupVars.conf", &text).unwrap()
    };
    assert_eq!(rules_doing(&five(""), "forward").len(), 1);
    let needed = five("DNS_FQDN_REQUIRED=true\n");
    assert!(rules_doing(&needed, "forward").is_empty());
    assert_eq!(local_zones(&needed), ["lan"]);
}

#[test]
fn clients_of_blocky_have_the_lists_of_all_that_they_match() {
    let text = "blocking:
  denylists: {a: ['https://x.example/a'], b: ['https://x.example/b'], c: ['https://x.example/c']}
  clientGroupsBlock: {default: [a], 192.0.2.0/24: [b], 192.0.2.7: [c], 192.0.2.8: [c], 'lap*': [c], 'x[1]': [c]}
clientLookup:
  clients: {Laptop: [198.51.100.1], tv: [192.0.2.8], other: [203.0.113.1], lapnet: [192.0.2.30]}";
    let imported = config(Origin::Blocky, text);
    let lists = |group: &str| {
        let groups = tables(&imported, "group");
        groups.iter().find(|one| one["name"].as_str() == Some(group)).unwrap()["lists"].to_string()
    };
    assert_eq!(lists("192-0-2-7"), "[\"c\", \"b\"]");
    assert_eq!(lists("192-0-2-0-24"), "[\"b\"]");
    let clients = tables(&imported, "client");
    let groups_of = |client: &str| {
        clients.iter().find(|one| one["name"].as_str() == Some(client)).unwrap()["groups"]
            .to_string()
    };
    assert_eq!(groups_of("laptop"), "[\"lap\"]");
    assert_eq!(groups_of("tv"), "[\"192-0-2-0-24\", \"192-0-2-8\"]");
    assert_eq!(groups_of("other"), "[\"default\"]");
    assert_eq!(groups_of("lapnet"), "[\"192-0-2-0-24\", \"lap\"]");
    assert!(imported.notes.iter().any(|note| note.contains("x[1]")), "{:?}", imported.notes);
}

#[test]
fn a_schedule_has_a_time_zone_that_the_server_knows() {
    let zone_of = |zone: &str| {
        let schedule = format!("{{time_zone: {zone}, mon: {{start: 0s, end: 10h}}}}");
        let text =
            format!("filtering: {{blocked_services: {{ids: [youtube], schedule: {schedule}}}}}");
        let imported = config(Origin::Adguard, &text);
        let zone = tables(&imported, "rule")[0].get("time-zone").map(ToString::to_string);
        (zone, imported.notes.iter().any(|note| note.contains("set `time-zone` of [policy]")))
    };
    assert_eq!(zone_of("Europe/Berlin"), (Some("\"Europe/Berlin\"".to_owned()), false));
    assert_eq!(zone_of("No/Where"), (None, true));
    assert_eq!(zone_of("Local"), (None, true));
}

#[test]
fn upstreams_of_adguard_home_by_name_need_a_server_that_knows_their_address() {
    let upstreams =
        "dns: {port: 53, bind_hosts: [0.0.0.0], upstream_dns: ['https://dns.example/dns-query']";
    let known = format!("{upstreams}, bootstrap_dns: [192.0.2.53, 'tls://192.0.2.54']}}");
    let imported = config(Origin::Adguard, &known);
    for line in ["upstreams = [\"https://dns.example/dns-query\"]", "bootstrap = [\"192.0.2.53\"]"]
    {
        assert!(imported.config.contains(line), "{}", imported.config);
    }
    for text in [format!("{upstreams}}}"), format!("{upstreams}, bootstrap_dns: [127.0.0.1]}}")] {
        let imported = config(Origin::Adguard, &text);
        assert!(!imported.config.contains("dns.example"), "{}", imported.config);
        let notes = imported.notes.join("\n");
        assert!(notes.contains("no server that knows its address was imported"), "{notes}");
    }
}
