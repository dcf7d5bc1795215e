//! Tests how single settings of BIND and PowerDNS are converted.

use super::*;

/// Imports a configuration of BIND. Checks that the configuration and the notes contain the
/// expected parts.
#[track_caller]
fn bind(text: &str, parts: &[&str], notes: &[&str]) -> Imported {
    let imported = run_text(Origin::Bind, "named.conf", text).unwrap();
    for part in parts {
        assert!(imported.config.contains(part), "no {part}:\n{}", imported.config);
    }
    let all = imported.notes.join("\n");
    for note in notes {
        assert!(all.contains(note), "no note {note}:\n{all}");
    }
    imported
}

const KEY: &str = "key k { algorithm hmac-sha256; secret \"c2VjcmV0IHNlY3JldCBzZWNyZXQh\"; };\n";

#[test]
fn a_resolver_of_bind_serves_its_networks() {
    let imported = bind("options { };", &["allow = [\"local\"]", "mode = \"recurse\""], &[]);
    assert!(!imported.config.contains("[[rule]]"), "{}", imported.config);
    bind(
        "options { listen-on-v6 { none; }; };",
        &["listen = [\"0.0.0.0:53\"]", "# named.conf:1"],
        &[],
    );
    bind("options { port 5353; };", &["listen = [\"0.0.0.0:5353\", \"[::]:5353\"]"], &[]);
    // The zones that Debian installs do not open the server to the Internet.
    let debian = "zone \"localhost\" { type master; file \"a\"; };\n\
                  zone \"127.in-addr.arpa\" { type master; file \"b\"; };\n\
                  zone \"16.172.in-addr.arpa\" { type master; file \"c\"; };";
    let imported = bind(debian, &["allow = [\"local\"]", "name = \"localhost\""], &[]);
    assert!(!imported.config.contains("[[rule]]"), "{}", imported.config);
}

#[test]
fn a_server_of_zones_alone_resolves_for_nobody() {
    let text = "options { recursion no; }; zone \"a.example\" { type primary; file \"a\"; };";
    let rule = "when = '!(qname.under(\"a.example\"))'\naction = \"block\"\nanswer = \"refused\"";
    bind(text, &["allow = [\"0.0.0.0/0\", \"::/0\"]", rule], &["without recursion still get"]);
    let text = "options { allow-query { none; }; };";
    bind(text, &["allow = [\"127.0.0.0/8\", \"::1/128\"]"], &["no client may ask"]);
}

#[test]
fn zones_below_a_closed_zone_keep_their_own_clients() {
    let text = "options { allow-recursion { none; }; };\n\
        zone \"a.example\" { type primary; file \"a\"; allow-query { 10.0.0.0/8; }; };\n\
        zone \"b.a.example\" { type primary; file \"b\"; };";
    let rule = "(qname.under(\"a.example\")) && !(qname.under(\"b.a.example\")) && \
                !client.ip.in(\"10.0.0.0/8\")";
    bind(text, &[rule], &[]);
}

#[test]
fn a_zone_of_several_views_is_open_only_as_each_of_them_says() {
    let text = "options { recursion no; };\n\
        view \"inside\" { match-clients { 192.168.1.2/31; };\n\
        zone \"corp.example\" { type primary; file \"both\"; }; };\n\
        view \"outside\" { match-clients { any; }; allow-query { 10.0.0.0/8; };\n\
        zone \"corp.example\" { type primary; file \"both\"; }; };";
    let allowed = "allow = [\"10.0.0.0/8\", \"192.168.1.2/31\"]";
    bind(text, &[allowed, "name = \"corp.example\""], &[]);
    // A zone that another view defines is open as it is there.
    let shared = text.replace("{ type primary; file \"both\"; }; };\nview", "{ X }; };\nview");
    let (first, second) = shared.split_once("type primary; file \"both\";").unwrap();
    let shared = format!("{first}in-view inside;{second}")
        .replace("{ X }", "{ type primary; file \"both\"; }");
    bind(&shared, &["allow = [\"0.0.0.0/0\", \"::/0\"]"], &[]);
}

#[test]
fn the_first_element_of_a_list_decides() {
    let zone = |list: &str| {
        format!("{KEY}zone a.example {{ type primary; file \"a\"; allow-transfer {{ {list} }}; }};")
    };
    for (list, expected) in [
        ("any;", "[\"0.0.0.0/0\", \"::/0\"]"),
        ("10.0.0.1; key k;", "[\"10.0.0.1\", \"key k\"]"),
        ("!10.0.0.1; 10.0.0.0/31;", "[\"10.0.0.0\"]"),
        ("{ !10.0.0.1; 10.0.0.0/31; }; 10.0.0.1;", "[\"10.0.0.0/31\"]"),
        ("!{ !10.0.0.0/8; any; }; key k;", "[\"10.0.0.0/8 key k\"]"),
        ("!any; 10.0.0.1; fd00::/8;", ""),
        ("10/8;", "[\"10.0.0.0/8\"]"),
        ("localnets; 192.0.2.1;", "[\"192.0.2.1\"]"),
    ] {
        let imported = run_text(Origin::Bind, "named.conf", &zone(list)).unwrap();
        let line = imported.config.lines().find(|line| line.starts_with("allow-transfer"));
        let found = line.map_or("", |line| line.trim_start_matches("allow-transfer = "));
        assert_eq!(found, expected, "{list}: {:?}", imported.notes);
    }
}

#[test]
fn only_keys_in_use_are_written_and_only_good_ones() {
    let imported = bind(&format!("{KEY}options {{ }};"), &[], &["key k, which nothing"]);
    assert_eq!(imported.secrets.len(), 0);
    let weak = "key m { algorithm hmac-md5; secret \"c2VjcmV0IHNlY3JldA==\"; };\n\
        zone a.example { type primary; file \"a\"; allow-transfer { key m; }; };\n\
        zone b.example { type secondary; masters { 192.0.2.1 key m; 192.0.2.2; }; };";
    let notes = ["named.conf:1: key m: its algorithm is not supported", "its key is missing"];
    let imported = bind(weak, &["primaries = [\"192.0.2.2\"]"], &notes);
    assert!(!imported.config.contains("allow-transfer"), "{}", imported.config);
    let unknown = "zone a.example { type primary; file \"a\"; allow-transfer { key x; }; };";
    bind(unknown, &["name = \"a.example\""], &["named.conf:1: key x: there is no key \"x\""]);
}

#[test]
fn updates_are_for_keys_and_stop_at_a_denial() {
    let zone = |policy: &str| {
        format!("{KEY}zone a.example {{ type primary; file \"a\"; update-policy {policy}; }};")
    };
    for (policy, expected) in [
        ("{ grant k zonesub ANY; }", "[\"key k\"]"),
        ("{ grant k zonesub A AAAA; }", "[\"key k types A,AAAA\"]"),
        ("{ grant k self * A; }", "[\"key k self types A\"]"),
        ("{ grant k selfsub * A; }", "[\"key k subtree k types A\"]"),
        (
            "{ grant k name x.a.example; deny k subdomain a.example; grant k zonesub; }",
            "[\"key k exact x.a.example\"]",
        ),
        ("{ grant k zonesub NOPE; }", ""),
        ("{ grant k ms-self * A; }", ""),
        ("local", ""),
    ] {
        let imported = run_text(Origin::Bind, "named.conf", &zone(policy)).unwrap();
        let line = imported.config.lines().find(|line| line.starts_with("allow-update"));
        let found = line.map_or("", |line| line.trim_start_matches("allow-update = "));
        assert_eq!(found, expected, "{policy}: {:?}", imported.notes);
    }
}

#[test]
fn names_without_forwarders_are_resolved_where_that_is_possible() {
    let zones = "zone a.example { type forward; forwarders { 192.0.2.1; }; };\n\
                 zone b.a.example { type forward; forwarders { }; };\n";
    bind(zones, &["zone = \"!b.a.example\""], &[]);
    let all = format!("options {{ forward first; forwarders {{ 192.0.2.9; }}; }};\n{zones}");
    let notes = ["zone b.a.example: names below it follow", "forward first: if the servers fail"];
    let found = ["zone = \".\"\nupstreams = [\"192.0.2.9\"]", "zone = \"!b.a.example\""];
    bind(&all, &found, &notes);
}

#[test]
fn views_without_forwarders_do_not_use_those_of_all_views() {
    let text = |first: &str, second: &str| {
        format!(
            "options {{ forwarders {{ 192.0.2.9; }}; }};\n\
             view a {{ match-clients {{ 10.0.0.0/8; }};\n{first} }};\nview b {{\n{second} }};\n"
        )
    };
    let none = "forwarders { };";
    let imported = bind(&text(none, none), &[], &[]);
    assert!(!imported.config.contains("[[forward]]"), "{}", imported.config);
    let notes = ["forwarders: the servers for all names apply to the clients of all views"];
    bind(&text(none, ""), &["upstreams = [\"192.0.2.9\"]"], &notes);
    let imported = bind(
        &text("forwarders { 192.0.2.8; };", none),
        &["upstreams = [\"192.0.2.8\"]"],
        &["forwarders: it applies to the clients of all views", notes[0]],
    );
    assert!(!imported.config.contains("192.0.2.9"), "{}", imported.config);
}

#[test]
fn a_zone_of_other_servers_has_no_view() {
    let text = "view a { match-clients { 10.0.0.0/8; };\n\
        zone x.example { type slave; masters { 192.0.2.1; }; }; };\n\
        view b { zone x.example { type slave; masters { 192.0.2.2; }; };\n\
        zone y.example { in-view c; }; };\n";
    let notes = ["named.conf:4: zone y.example: the view c has no such zone"];
    let imported = bind(text, &["primaries = [\"192.0.2.1\"]"], &notes);
    assert_eq!(imported.config.matches("[[zone]]").count(), 1, "{}", imported.config);
    assert!(!imported.config.contains("view = "), "{}", imported.config);
}

#[test]
fn hints_of_another_root_stay() {
    let text = "options { directory \"/d\"; }; zone \".\" { type hint; file \"hints\"; };";
    let own =
        Memory::default().with("named.conf", text).with("/d/hints", ". NS ns.\nns. A 10.0.0.1\n");
    let imported = run(Origin::Bind, "named.conf", &own).unwrap();
    assert!(imported.config.contains("root-hints = \"/d/hints\""), "{}", imported.config);
    let usual = ". NS A.ROOT-SERVERS.NET.\n. NS M.ROOT-SERVERS.NET.\n";
    let usual = Memory::default().with("named.conf", text).with("/d/hints", usual);
    let imported = run(Origin::Bind, "named.conf", &usual).unwrap();
    assert!(!imported.config.contains("root-hints"), "{}", imported.config);
}

#[test]
fn zones_are_signed_as_their_policy_says() {
    let zone = |policy: &str| {
        format!("zone a.example {{ type primary; file \"a\"; dnssec-policy {policy}; }};")
    };
    bind(&zone("default"), &["sign = true"], &["its keys were not found"]);
    bind(&zone("gone"), &["sign = true"], &["there is no dnssec-policy \"gone\""]);
    for off in ["none", "insecure"] {
        assert!(!bind(&zone(off), &[], &[]).config.contains("sign ="), "{off}");
    }
    let policy = "dnssec-policy p { keys { csk lifetime P1Y algorithm rsasha256; }; \
                  signatures-refresh 20d; signatures-validity 10d; };";
    let parts = ["sign = \"p\"", "ksk-lifetime-days = 365", "refresh-days = 5"];
    bind(&format!("{policy}{}", zone("p")), &parts, &["not rsasha256", "half of their time"]);
}

#[test]
fn files_that_a_pattern_names_are_included_and_missing_ones_noted() {
    let files = Memory::default()
        .with("/e/named.conf", "options { };\ninclude \"zones.d/*.conf\";\ninclude \"gone\";\n")
        .with("/e/zones.d/a.conf", "zone a.example { type primary; file \"a\"; };")
        .with("/e/zones.d/b.conf", "zone b.example { type primary; file \"b\"; };")
        .with("/e/zones.d/c.off", "zone c.example { type primary; file \"c\"; };");
    let imported = run(Origin::Bind, "/e/named.conf", &files).unwrap();
    assert_eq!(imported.config.matches("[[zone]]").count(), 2, "{}", imported.config);
    let note = "/e/named.conf:3: include \"gone\": /e/gone cannot be read";
    assert!(imported.notes.iter().any(|one| one.starts_with(note)), "{:?}", imported.notes);
}

#[test]
fn every_other_setting_of_bind_is_reported_with_its_line() {
    let text = "options {\n frobnicate yes;\n};\nwidget { };\n\
        zone a.example {\n type primary; file \"a\";\n database \"x\";\n};\n";
    let notes = [
        "named.conf:2: frobnicate yes: there is no such setting here",
        "named.conf:4: widget: there is no such statement here",
        "named.conf:7: database \"x\": no equivalent for a zone",
    ];
    bind(text, &[], &notes);
    let text = "view v { match-clients { any; };\n max-cache-ttl 5;\n};\n\
        zone a.example { type primary; file \"a\"; };\n";
    let notes = [
        "named.conf:2: max-cache-ttl 5: there is one value for the clients of all views",
        "named.conf:4: zone a.example: with views, each zone is in one of them",
    ];
    bind(text, &[], &notes);
}

#[test]
fn settings_of_powerdns_are_reported_with_their_line() {
    let text = "quiet=yes\nallow-from=nonsense\nforward-zones=a.example\nfrobnicate=1\n\
        hint-file=/own.hints\nlua-dns-script=/x.lua\nlocal-address=127.0.0.1,nowhere\n";
    let imported = run_text(Origin::Powerdns, "recursor.conf", text).unwrap();
    let notes = imported.notes.join("\n");
    for note in [
        "recursor.conf:2: \"nonsense\" is no network",
        "recursor.conf:2: no client may ask",
        "recursor.conf:3: a.example: expected ZONE=SERVER",
        "recursor.conf:4: frobnicate=1: there is no such setting here",
        "recursor.conf:6: lua-dns-script=/x.lua: programs are not converted",
        "recursor.conf:7: local-address=127.0.0.1,nowhere: \"nowhere\" is no address",
    ] {
        assert!(notes.contains(note), "no note {note}:\n{notes}");
    }
    for part in ["root-hints = \"/own.hints\"", "allow = [\"127.0.0.0/8\", \"::1/128\"]"] {
        assert!(imported.config.contains(part), "no {part}:\n{}", imported.config);
    }
    let other = "launch=gmysql\ngmysql-password=hidden\n";
    let imported = run_text(Origin::Powerdns, "pdns.conf", other).unwrap();
    let notes = imported.notes.join("\n");
    assert!(notes.contains("export each with `pdnsutil list-zone`"), "{notes}");
    assert!(notes.contains("gmysql-password") && !notes.contains("hidden"), "{notes}");
}
