//! Tests of warnings about valid settings without effect.

use super::*;

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    assert_eq!(read(text).doubts, expected, "{text}");
}

#[test]
fn settings_that_need_another_one_are_doubted() {
    check(
        "[policy]\nprivate-exceptions = [\"plex.direct\"]",
        &["a.toml:2:22: `private-exceptions` has no effect without `block-private = true`"],
    );
    check("[policy]\nblock-private = true\nprivate-exceptions = [\"plex.direct\"]", &[]);
    let addresses = "[policy]\nblock-addresses = [\"192.0.2.1\"]\n";
    check(
        addresses,
        &["a.toml:2:19: `block-addresses` has no effect without `block-answer = \"addresses\"`"],
    );
    check(&format!("{addresses}block-answer = \"addresses\""), &[]);
}

#[test]
fn proxies_are_at_listeners_without_quic() {
    let text = |listen: &str, from: &str| {
        format!(
            "[[listener]]\nname = \"behind\"\nlisten = [{listen}]\nproxy-protocol-from = \
             [{from}]\n[[certificate]]\nnames = [\"dns.example\"]\ncert = \"c.pem\"\nkey = \
             \"k.pem\"\n"
        )
    };
    let found = read(&text("\"127.0.0.1:53\", \"https://127.0.0.1:443\"", "\"10.0.0.0/8\""));
    let listener = &found.server.listeners[0];
    assert_eq!(listener.proxies, ["10.0.0.0/8".parse().unwrap()]);
    let open = found.server.open_addresses();
    assert!(open.iter().all(|one| !one.protocol.uses_quic()), "{open:?}");
    let proxies = found.server.proxies_by_address();
    let behind = open.iter().map(|one| one.listener.is_some());
    assert!(behind.eq(proxies.iter().map(|one| !one.is_empty())), "{proxies:?}");
    let quic = errors(&text("\"quic://127.0.0.1:853\"", "\"10.0.0.1\""));
    assert!(quic.contains("a.toml:4:23: QUIC has no place for a header"), "{quic}");
    assert!(errors(&text("\"127.0.0.1:53\"", "\"local\"")).contains("expected a network"));
    let all = read(&text("\"127.0.0.1:53\"", "\"0.0.0.0/0\"")).doubts;
    assert!(all.iter().any(|doubt| doubt.contains("every host may name its clients")), "{all:?}");
}

#[test]
fn conditions_that_never_hold_are_doubted() {
    check(
        "[[rule]]\nname = \"late\"\nwhen = 'qtype == \"A\" || now.hour >= 24'\naction = \"block\"",
        &["a.toml:3:8: rule `late`: `now.hour >= 24` is never true"],
    );
    check("[[rule]]\nname = \"off\"\nwhen = 'false'\naction = \"block\"", &[]);
}

#[test]
fn loops_of_local_aliases_are_doubted_once() {
    let alias = |name: &str, rtype: &str, target: &str| {
        format!("[[record]]\nname = \"{name}\"\ntype = \"{rtype}\"\nvalues = [\"{target}\"]\n")
    };
    let check_all = |records: &[(&str, &str, &str)], expected: &[&str]| {
        let text: String = records.iter().map(|(a, b, c)| alias(a, b, c)).collect();
        check(&text, expected);
    };
    check_all(
        &[("x.lan", "CNAME", "b.lan"), ("B.lan", "CNAME", "a.lan"), ("a.lan", "CNAME", "b.lan")],
        &["a.toml:9:1: these CNAME records form a loop: a.lan. -> b.lan. -> a.lan."],
    );
    check_all(
        &[
            ("0.lan", "CNAME", "1.lan"),
            ("1.lan", "CNAME", "d.lan"),
            ("d.lan", "CNAME", "c.lan"),
            ("c.lan", "CNAME", "d.lan"),
            ("e.lan", "CNAME", "f.lan"),
            ("f.lan", "CNAME", "e.lan"),
        ],
        &[
            "a.toml:13:1: these CNAME records form a loop: c.lan. -> d.lan. -> c.lan.",
            "a.toml:17:1: these CNAME records form a loop: e.lan. -> f.lan. -> e.lan.",
        ],
    );
    check_all(
        &[("*.lan", "CNAME", "a.lan")],
        &["a.toml:1:1: these CNAME records form a loop: *.lan. -> *.lan."],
    );
    check_all(&[("*.lan", "CNAME", "a.lan"), ("a.lan", "A", "192.0.2.1")], &[]);
    check_all(&[("*.lan", "CNAME", "a.example"), ("a.lan", "CNAME", "b.lan")], &[]);
    check_all(
        &[("house.lan", "DNAME", "inner.house.lan")],
        &[
            "a.toml:1:1: the target of the DNAME of house.lan. is below that name, so that it leads \
           into itself",
        ],
    );
    check_all(&[("house.lan", "DNAME", "house.example")], &[]);
}

#[test]
fn local_records_in_zones_that_are_signed_here_are_doubted_once_for_each_zone() {
    let zone = |name: &str, sign: &str| {
        format!("[[zone]]\nname = \"{name}\"\nfile = \"{name}\"\nsign = {sign}\n")
    };
    let record = |name: &str| {
        format!("[[record]]\nname = \"{name}\"\ntype = \"A\"\nvalues = [\"192.0.2.1\"]\n")
    };
    let doubt = |line: u32, names: &str, zone: &str| {
        format!(
            "a.toml:{line}:1: the local record {names} is in the zone {zone}, which this server \
             signs, but has no signature, so that validating clients refuse it: write it into the \
             zone"
        )
    };
    let zones = zone("s.example", "true") + &zone("u.s.example", "false");
    let others = record("host.u.s.example") + &record("host.example");
    check(&format!("{zones}{others}"), &[]);
    let text = format!("{zones}{others}{}", record("a.s.example"));
    check(&text, &[&doubt(17, "a.s.example.", "s.example.")]);
    let text = format!("{text}{}", record("b.s.example"));
    check(&text, &[&doubt(17, "a.s.example. (and 1 more)", "s.example.")]);
    // The PTR record is derived from the address.
    let reverse = zone("2.0.192.in-addr.arpa", "true");
    let text = format!("{reverse}{}", record("host.example"));
    check(&text, &[&doubt(5, "1.2.0.192.in-addr.arpa.", "2.0.192.in-addr.arpa.")]);
    check(&format!("{text}ptr = false\n"), &[]);
}
