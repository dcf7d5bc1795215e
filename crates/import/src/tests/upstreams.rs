//! Tests of the servers of AdGuard Home, and of the hosts files of blocky.

use super::*;

/// Imports `dns` of AdGuard Home. Returns zone and strategy of each `[[forward]]`, and the notes.
fn strategies(dns: &str) -> (Vec<(String, String)>, String) {
    let text = format!("dns:\n  {}\nschema_version: 29\n", dns.replace('\n', "\n  "));
    let imported = run_text(Origin::Adguard, "AdGuardHome.yaml", &text).unwrap();
    let tables = imported.config.split("[[forward]]\n").skip(1);
    let value = |table: &str, key: &str| {
        let table = table.split("\n\n").next().unwrap_or_default();
        let line = table.lines().find_map(|line| line.strip_prefix(&format!("{key} = ")));
        line.unwrap_or_default().trim_matches('"').to_owned()
    };
    let strategies = tables.map(|table| (value(table, "zone"), value(table, "strategy")));
    (strategies.collect(), imported.notes.join("\n"))
}

#[track_caller]
fn check(dns: &str, expected: &[(&str, &str)], notes: &[&str]) {
    let (found, all) = strategies(dns);
    let found: Vec<(&str, &str)> = found.iter().map(|(zone, how)| (&**zone, &**how)).collect();
    assert_eq!(found, expected, "{dns}");
    for note in notes {
        assert!(all.contains(note), "no note {note}:\n{all}");
    }
    assert_eq!(all.contains("upstream_mode"), !notes.is_empty(), "{all}");
}

#[test]
fn parallel_servers_race_for_each_zone() {
    let servers = |count: usize| {
        let servers: Vec<String> = (1..=count).map(|at| format!("192.0.2.{at}")).collect();
        format!("upstream_mode: parallel\nupstream_dns: [{}]", servers.join(", "))
    };
    check(&servers(1), &[(".", "")], &[]);
    check(&servers(3), &[(".", "race 3")], &[]);
    check(&servers(8), &[(".", "race 8")], &[]);
    let note = "dns.upstream_mode = parallel: 10 servers of \".\": 8 of them are queried at once";
    check(&servers(10), &[(".", "race 8")], &[note]);
    let zones = "upstream_mode: parallel\n\
        upstream_dns: [192.0.2.1, '[/a.lan/]192.0.2.1 192.0.2.2', '[/b.lan/]192.0.2.1']";
    check(zones, &[(".", ""), ("a.lan", "race 2"), ("b.lan", "")], &[]);
    check("all_servers: true\nupstream_dns: [192.0.2.1, 192.0.2.2]", &[(".", "race 2")], &[]);
    let fallback = format!("{}\nfallback_dns: [192.0.2.9]", servers(2));
    check(&fallback, &[(".", "ordered")], &["with `fallback_dns`, the servers are queried one"]);
}

#[test]
fn other_modes_query_the_fastest_server() {
    let with = |mode: &str| format!("{mode}\nupstream_dns: [192.0.2.1, 192.0.2.2]");
    check(&with("upstream_mode: load_balance"), &[(".", "")], &[]);
    let note = "dns.upstream_mode = fastest_addr: addresses in answers are not probed";
    check(&with("upstream_mode: fastest_addr"), &[(".", "")], &[note]);
    check(&with("fastest_addr: true"), &[(".", "")], &[note]);
    check(&with("upstream_mode: magic"), &[(".", "")], &["no such mode"]);
}

#[test]
fn hosts_of_blocky_are_inline_with_the_end_of_a_line() {
    let text = "hostsFile:\n  sources:\n    - |\n      192.0.2.1 one.lan\n    - |\n      \
        192.0.2.2 two.lan\n      192.0.2.3 three.lan\n    - /gone\n";
    let imported = run_text(Origin::Blocky, "b.yml", text).unwrap();
    for name in ["one.lan", "two.lan", "three.lan"] {
        let record = format!("name = {name:?}\n");
        assert!(imported.config.contains(&record), "no {name}:\n{}", imported.config);
    }
    let notes = imported.notes.join("\n");
    assert!(notes.contains("/gone cannot be read") && !notes.contains("one.lan"), "{notes}");
}
