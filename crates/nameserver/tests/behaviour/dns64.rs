//! DNS64 for names that the server answers by itself.

use crate::asked;

use std::fs;
use std::net::Ipv6Addr;

use asked::{ask, shown, wire};
use avocet_cache::Security;
use avocet_nameserver::{InProcess, MeantFor, RecordKey};
use avocet_wire::builder::OptFields;
use avocet_wire::header::{CD, RD};
use avocet_wire::{Builder, Class, Rcode, Rtype};
use avocet_zone::pool::{HealthState, MemberControl, PoolMasks};

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const DNS64: &str = "[dns64]\nprefix = \"2001:db8:64::/96\"\n";
const NAMES: &str = r#"
[[forward]]
zone = "."
upstreams = ["192.0.2.53"]

[[record]]
name = "nas.lan"
type = "A"
values = ["10.0.0.5"]

[[record]]
name = "both.lan"
type = "A"
values = ["10.0.0.6"]

[[record]]
name = "both.lan"
type = "AAAA"
values = ["fd00::6"]

[[record]]
name = "mapped.lan"
type = "A"
values = ["10.0.0.7"]

[[record]]
name = "mapped.lan"
type = "AAAA"
values = ["::ffff:10.0.0.8"]

[[record]]
name = "mixed.lan"
type = "AAAA"
values = ["::ffff:10.0.0.8", "fd00::9"]

[[record]]
name = "alias.lan"
type = "CNAME"
values = ["nas.lan"]

[[record]]
name = "pooled.lan"
type = "CNAME"
values = ["pool.lan"]

[[pool]]
name = "pool.lan"
addresses = ["192.0.2.1", "192.0.2.2"]
probe = "icmp"
mode = "first"

[[rule]]
name = "moved"
when = 'qname == "moved.example"'
action = "redirect"
to = ["192.0.2.80"]

[[rule]]
name = "renamed"
when = 'qname == "renamed.example"'
action = "redirect"
to = ["nas.lan"]

[[rule]]
name = "gone"
when = 'qname == "gone.example"'
action = "block"
answer = "nodata"
"#;
const ZONE: &str = "$TTL 300
@ SOA ns host 7 2h 3m 4w 60
@ NS ns
ns A 192.0.2.9
www A 192.0.2.10
text TXT hello
alias CNAME www
flat ALIAS nas.lan.
";

fn server(name: &str, dns64: &str) -> InProcess {
    let file = std::env::temp_dir().join(format!("avocet-dns64-{name}-{}", std::process::id()));
    fs::write(&file, ZONE).unwrap();
    let zone = format!("[[zone]]\nname = \"corp.example\"\nfile = {file:?}\n");
    let server = InProcess::new(&format!("{dns64}{NAMES}{zone}"), (CLIENT, 4000).into()).unwrap();
    fs::remove_file(&file).unwrap();
    server
}

/// Queries the AAAA records of a name with these flags, and with DO if `edns` says so.
fn ask_with(server: &mut InProcess, name: &str, flags: u16, edns: Option<&OptFields>) -> String {
    let (mut query, mut out) = (vec![0; 512], vec![0; 4096]);
    let mut builder = Builder::new(&mut query, 512, 7, flags).unwrap();
    builder.question(&wire(name), Rtype::AAAA, Class::IN).unwrap();
    if let Some(fields) = edns {
        builder.opt(fields, &[]).unwrap();
    }
    let len = builder.finish();
    let len = server.answer(&query[..len], &mut out).unwrap();
    shown(&out[..len])
}

#[track_caller]
fn check(server: &mut InProcess, name: &str, expected: &str) {
    // The second answer comes from the packet cache, if the first one is kept.
    for _ in 0..2 {
        assert_eq!(ask(server, CLIENT, name, Rtype::AAAA), expected, "{name}");
    }
}

#[test]
fn own_names_with_ipv4_addresses_only_get_ipv6_addresses() {
    let mut server = server("own", DNS64);
    check(&mut server, "nas.lan.", "NOERROR 300 2001:db8:64::a00:5");
    check(&mut server, "NAS.lan.", "NOERROR 300 2001:db8:64::a00:5");
    check(&mut server, "both.lan.", "NOERROR 300 fd00::6");
    check(&mut server, "mapped.lan.", "NOERROR 300 2001:db8:64::a00:7");
    check(&mut server, "mixed.lan.", "NOERROR 300 fd00::9");
    check(&mut server, "alias.lan.", "NOERROR 300 nas.lan. 300 2001:db8:64::a00:5");
    // The SOA record of the answer without IPv6 addresses limits the TTL.
    check(&mut server, "www.corp.example.", "NOERROR 60 2001:db8:64::c000:20a");
    let alias = "NOERROR 300 www.corp.example. 60 2001:db8:64::c000:20a";
    check(&mut server, "alias.corp.example.", alias);
    check(&mut server, "text.corp.example.", "NOERROR");
    check(&mut server, "none.corp.example.", "NXDOMAIN");
    check(&mut server, "flat.corp.example.", "NOERROR 60 2001:db8:64::a00:5");
    for (name, rtype, expected) in [
        ("nas.lan.", Rtype::A, "NOERROR 300 10.0.0.5"),
        ("nas.lan.", Rtype::TXT, "NOERROR"),
        ("www.corp.example.", Rtype::A, "NOERROR 300 192.0.2.10"),
    ] {
        assert_eq!(ask(&mut server, CLIENT, name, rtype), expected, "{name} {rtype}");
    }
}

#[test]
fn pools_get_ipv6_addresses_as_their_health_is() {
    let mut server = server("pool", DNS64);
    check(&mut server, "pool.lan.", "NOERROR 30 2001:db8:64::c000:201");
    check(&mut server, "pooled.lan.", "NOERROR 300 pool.lan. 30 2001:db8:64::c000:201");
    let states = [HealthState::Down, HealthState::Up].map(|state| (state, MemberControl::Auto));
    let pool = server.state().names.pools.get(&wire("pool.lan.")).unwrap();
    pool.publish(PoolMasks::of(states));
    check(&mut server, "pool.lan.", "NOERROR 30 2001:db8:64::c000:202");
    check(&mut server, "pooled.lan.", "NOERROR 300 pool.lan. 30 2001:db8:64::c000:202");
}

#[test]
fn addresses_to_which_a_rule_redirects_get_ipv6_addresses() {
    let mut server = server("rule", DNS64);
    let moved = ask(&mut server, CLIENT, "moved.example.", Rtype::AAAA);
    assert!(moved.contains(" 2001:db8:64::c000:250"), "{moved}");
    let renamed = ask(&mut server, CLIENT, "renamed.example.", Rtype::AAAA);
    assert!(renamed.contains(" nas.lan. 300 2001:db8:64::a00:5"), "{renamed}");
    let gone = ask(&mut server, CLIENT, "gone.example.", Rtype::AAAA);
    assert!(gone.starts_with("NOERROR [") && !gone.contains("2001:"), "{gone}");
}

#[test]
fn clients_without_recursion_or_with_validation_get_no_made_addresses() {
    let mut server = server("flags", DNS64);
    let opt = |dnssec_ok| OptFields { udp_size: 1232, rcode: Rcode(0), dnssec_ok };
    for name in ["nas.lan.", "www.corp.example.", "flat.corp.example.", "pool.lan."] {
        assert_eq!(ask_with(&mut server, name, 0, None), "NOERROR", "{name}");
        assert_eq!(ask_with(&mut server, name, RD | CD, Some(&opt(true))), "NOERROR", "{name}");
        for (flags, edns) in [(RD | CD, None), (RD, Some(opt(true))), (RD, Some(opt(false)))] {
            let made = ask_with(&mut server, name, flags, edns.as_ref());
            assert!(made.contains(" 2001:db8:64::"), "{name} {flags}: {made}");
        }
    }
}

#[test]
fn a_change_of_the_settings_ends_kept_answers() {
    let with = format!("{DNS64}{NAMES}");
    let mut server = InProcess::new(NAMES, (CLIENT, 4000).into()).unwrap();
    for _ in 0..2 {
        check(&mut server, "nas.lan.", "NOERROR");
        check(&mut server, "alias.lan.", "NOERROR 300 nas.lan.");
        let moved = ask(&mut server, CLIENT, "moved.example.", Rtype::AAAA);
        assert!(!moved.contains("2001:"), "{moved}");
        server.reload(&with).unwrap();
        check(&mut server, "nas.lan.", "NOERROR 300 2001:db8:64::a00:5");
        check(&mut server, "alias.lan.", "NOERROR 300 nas.lan. 300 2001:db8:64::a00:5");
        let moved = ask(&mut server, CLIENT, "moved.example.", Rtype::AAAA);
        assert!(moved.contains("2001:"), "{moved}");
        server.reload(NAMES).unwrap();
    }
}

/// Returns the answer to a query that waits and whose resolution fails.
fn fail(server: &mut InProcess) -> String {
    let mut out = vec![0; 4096];
    let len = server.resume(MeantFor::All, &mut out);
    len.map_or_else(|| "nothing".to_owned(), |len| shown(&out[..len]))
}

/// A prefix whose reverse names are not special.
const GLOBAL: &str = "[dns64]\nprefix = \"2600:64::/96\"\n";
const FORWARD: &str = "[[forward]]\nzone = \".\"\nupstreams = [\"192.0.2.53\"]\n";
const RULE: &str =
    "[[rule]]\nname = \"r\"\nwhen = 'qname == \"other.example\"'\naction = \"block\"\n";
const REVERSE: &str = "7.0.9.0.9.0.9.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.4.6.0.0.0.0.6.2.ip6.arpa.";

#[test]
fn answers_are_translated_from_cached_records_also_after_a_change_and_expired() {
    let mut server = InProcess::new(&format!("{GLOBAL}{FORWARD}"), (CLIENT, 4000).into()).unwrap();
    let www = wire("www.example.");
    server.learn(&www, Rtype::A.0, 400, &[&[9, 9, 9, 7]]);
    // The answer needs both: that there are no IPv6 addresses, and the IPv4 addresses.
    assert_eq!(ask(&mut server, CLIENT, "www.example.", Rtype::AAAA), "nothing");
    server.learn_no_data(&www, Rtype::AAAA.0, 300);
    server.learn_no_data(&wire("none.example."), Rtype::AAAA.0, 300);
    server.learn_no_data(&wire("none.example."), Rtype::A.0, 300);
    let target = wire("7.9.9.9.in-addr.arpa.");
    server.learn(&target, Rtype::PTR.0, 400, &[&www]);
    check(&mut server, "www.example.", "NOERROR 300 2600:64::909:907");
    check(&mut server, "none.example.", "NOERROR");
    let mixed = ["::ffff:192.0.2.1", "2600::1"].map(|text| text.parse::<Ipv6Addr>().unwrap());
    let mixed = mixed.map(|address| address.octets());
    server.learn(&wire("mixed.example."), Rtype::AAAA.0, 300, &mixed.each_ref().map(|it| &it[..]));
    check(&mut server, "mixed.example.", "NOERROR 300 2600::1");
    let reverse = ask(&mut server, CLIENT, REVERSE, Rtype::PTR);
    assert_eq!(reverse, "NOERROR 400 7.9.9.9.in-addr.arpa. 400 www.example.");
    assert_eq!(ask_with(&mut server, "www.example.", 0, None), "NOERROR");
    let validating = OptFields { udp_size: 1232, rcode: Rcode(0), dnssec_ok: true };
    server.learn_judged(
        Security::Insecure,
        RecordKey { owner: &wire("mixed.example."), rtype: Rtype::AAAA.0, ttl_secs: 300 },
        &mixed.each_ref().map(|it| &it[..]),
        &[],
    );
    let untouched = ask_with(&mut server, "mixed.example.", RD | CD, Some(&validating));
    assert!(untouched.contains("::ffff:192.0.2.1"), "{untouched}");

    // A record of this server for the reverse name goes before the cached one.
    let record = "[[record]]\nname = \"nas.lan\"\ntype = \"A\"\nvalues = [\"9.9.9.7\"]\n";
    server.reload(&format!("{GLOBAL}{FORWARD}{record}")).unwrap();
    let reverse = ask(&mut server, CLIENT, REVERSE, Rtype::PTR);
    assert!(!reverse.contains("www.example."), "{reverse}");
    server.reload(&format!("{GLOBAL}{FORWARD}")).unwrap();

    server.reload(&format!("{GLOBAL}{FORWARD}{RULE}")).unwrap();
    server.pass(100);
    check(&mut server, "www.example.", "NOERROR 200 2600:64::909:907");
    server.pass(500);
    server.reload(&format!("{GLOBAL}{FORWARD}")).unwrap();
    for (name, rtype, expected) in [
        (
            "www.example.",
            Rtype::AAAA,
            "NOERROR 30 2600:64::909:907 [3 resolution failed or is slow]",
        ),
        ("none.example.", Rtype::AAAA, "NOERROR [3 resolution failed or is slow]"),
        (
            REVERSE,
            Rtype::PTR,
            "NOERROR 30 7.9.9.9.in-addr.arpa. 30 www.example. [3 resolution failed or is slow]",
        ),
    ] {
        assert_eq!(ask(&mut server, CLIENT, name, rtype), "nothing", "{name}");
        assert_eq!(fail(&mut server), expected, "{name}");
    }
}

#[test]
fn translated_answers_from_cached_records_are_blocked_by_their_addresses() {
    let rule =
        "[[rule]]\nname = \"r\"\nwhen = 'answer.ip.in(\"192.0.2.0/24\")'\naction = \"block\"\n";
    let config = format!("{GLOBAL}{FORWARD}{rule}");
    let mut server = InProcess::new(&config, (CLIENT, 4000).into()).unwrap();
    server.learn(&wire("www.example."), Rtype::A.0, 400, &[&[192, 0, 2, 7]]);
    server.learn_no_data(&wire("www.example."), Rtype::AAAA.0, 300);
    let found = ask(&mut server, CLIENT, "www.example.", Rtype::AAAA);
    assert!(found.contains("[15 rule r]"), "{found}");
}
