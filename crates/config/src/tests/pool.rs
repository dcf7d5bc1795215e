//! Tests of `[[pool]]`: faults, with their places and the keys that were probably meant.

use avocet_zone::pool::{PoolMode, WhenAllDown};

use super::read_with;

const POOL: &str = "[[pool]]\nname = \"www.example\"\naddresses = [\"192.0.2.1\", \"fd00::1\"]\n";

/// Checks that a pool with these lines has a fault with this text, or none.
#[track_caller]
fn check(lines: &str, expected: Option<&str>) {
    match (read_with(&format!("{POOL}{lines}\n"), &[]), expected) {
        (Ok(_), None) => {}
        (Err(errors), Some(expected)) => assert_eq!(errors.to_string(), expected, "{lines}"),
        (Ok(_), Some(expected)) => panic!("no fault, expected {expected:?}"),
        (Err(errors), None) => panic!("{lines}: {errors}"),
    }
}

#[test]
fn a_pool_has_its_defaults() {
    let config = read_with(&format!("{POOL}probe = \"tcp\"\nport = 80\n"), &[]).unwrap();
    let pool = &config.pools[0];
    assert_eq!((pool.ttl_secs, pool.rule.mode), (30, PoolMode::All));
    assert_eq!((pool.rule.when_all_down, pool.probe.interval_secs), (WhenAllDown::All, 10));
    let thresholds = pool.probe.thresholds;
    assert_eq!((thresholds.rise, thresholds.fall, thresholds.window), (3, 3, 10));
    assert!(config.doubts.is_empty(), "{:?}", config.doubts);
}

#[test]
fn unknown_kinds_and_modes_are_errors_with_a_suggestion() {
    for (lines, expected) in [
        (
            "probe = \"htps\"",
            "a.toml:4:9: \"htps\" is not a kind of probe; did you mean \"https\"?",
        ),
        (
            "probe = \"telnet\"",
            "a.toml:4:9: \"telnet\" is not a kind of probe; use one of icmp, tcp, tls, http, https, \
             dns, command",
        ),
        (
            "probe = \"icmp\"\nmode = \"rotat\"",
            "a.toml:5:8: \"rotat\" is not a mode; did you mean \"rotate\"?",
        ),
        (
            "probe = \"icmp\"\nwhen-all-down = \"nome\"",
            "a.toml:5:17: \"nome\" is not a value of when-all-down; did you mean \"none\"?",
        ),
        (
            "probe = \"dns\"\nrcode = \"NXDOMIAN\"",
            "a.toml:5:9: \"NXDOMIAN\" is not an RCODE; use one of NOERROR, FORMERR, SERVFAIL, \
             NXDOMAIN, NOTIMP, REFUSED",
        ),
    ] {
        check(lines, Some(expected));
    }
}

#[test]
fn each_probe_has_what_it_needs() {
    for lines in [
        "probe = \"icmp\"",
        "probe = \"tcp\"\nport = 22",
        "probe = \"tls\"\ncertificate-days = 14",
        "probe = \"http\"\nstatus = [\"200\", \"300-399\"]\nbody = \"ok\"",
        "probe = \"https\"\nverify = false",
        "probe = \"dns\"\nquery = \"example NS\"\nanswer = \"ns.example.\"",
        "probe = \"command\"\ncommand = [\"/bin/true\", \"{address}\"]",
        "probe = \"icmp\"\ninterval-secs = 1",
        "probe = \"icmp\"\nwindow = 2",
    ] {
        check(lines, None);
    }
    check(
        "",
        Some(
            "a.toml:1:1: `probe` is missing: a probe: \"icmp\", \"tcp\", \"tls\", \"http\", \
                    \"https\", \"dns\" or \"command\"",
        ),
    );
    check("probe = \"tcp\"", Some("a.toml:1:1: `port` is missing: the probe \"tcp\" needs one"));
    check(
        "probe = \"command\"\ncommand = [\"true\"]",
        Some("a.toml:4:9: `command` needs the program's absolute path as its first item"),
    );
    check(
        "probe = \"icmp\"\ninterval-secs = 1\ntimeout-ms = 1500",
        Some("a.toml:6:14: expected at most the interval, which is 1 s"),
    );
    check(
        "probe = \"icmp\"\nfall = 11",
        Some("a.toml:5:8: expected at most `window`, which is 10"),
    );
    check(
        "probe = \"http\"\npath = \"a b\"",
        Some("a.toml:5:8: expected a path such as \"/health\", found \"a b\""),
    );
    check(
        "probe = \"https\"\nhost = \"a\\r\\nb\"",
        Some("a.toml:5:8: \"a\\r\\nb\" is not a host name"),
    );
    check(
        "probe = \"icmp\"\nwhen-all-down = \"fallback\"",
        Some("a.toml:5:17: `fallback` is missing: the addresses of answers if none is healthy"),
    );
}

#[test]
fn addresses_have_options() {
    #[track_caller]
    fn item(text: &str, expected: Option<&str>) {
        let pool = format!("[[pool]]\nname = \"a\"\nprobe = \"icmp\"\naddresses = [\"{text}\"]\n");
        match (read_with(&pool, &[]), expected) {
            (Ok(_), None) => {}
            (Err(errors), Some(expected)) => {
                let expected = format!("a.toml:4:14: {text:?}: {expected}");
                assert_eq!(errors.to_string(), expected);
            }
            (Ok(_), Some(expected)) => panic!("no fault, expected {expected:?}"),
            (Err(errors), None) => panic!("{text}: {errors}"),
        }
    }
    item("192.0.2.1", None);
    item("fd00::1 weight 0 probe [fd00::2]:8080 near country:de,continent:EU,10.0.0.0/8", None);
    item("weight 3", Some("expected an address first, such as \"192.0.2.1\""));
    item("192.0.2.1 wait 3", Some("\"wait\" is none of \"weight\", \"probe\" and \"near\""));
    item("192.0.2.1 weight 3 weight 4", Some("\"weight\" occurs twice"));
    item("192.0.2.1 weight -1", Some("expected a weight from 0 to 65535, found \"-1\""));
    item(
        "192.0.2.1 probe host",
        Some("expected an address with or without port for the probe, found \"host\""),
    );
    item(
        "192.0.2.1 near country:XX",
        Some(
            "expected places such as \"country:DE\", \"continent:EU\" or \"10.0.0.0/8\", separated by \
             commas, found \"country:XX\"",
        ),
    );
}

#[test]
fn names_of_pools_are_theirs_alone() {
    let probe = "probe = \"icmp\"\n";
    check(
        &format!("{probe}{POOL}{probe}"),
        Some("a.toml:6:8: the pool www.example. has another table"),
    );
    let record = "[[record]]\nname = \"www.example\"\ntype = \"A\"\nvalues = [\"192.0.2.9\"]\n";
    check(
        &format!("{probe}{record}"),
        Some("a.toml:2:8: www.example. has A records in [[record]]"),
    );
    let wildcard = "[[pool]]\nname = \"*.a\"\naddresses = [\"192.0.2.1\"]\nprobe = \"icmp\"";
    check(
        &format!("{probe}{wildcard}"),
        Some("a.toml:6:8: a pool cannot be a wildcard; alias the names to it"),
    );
}

#[test]
fn keys_without_effect_are_doubts() {
    let doubts = |lines: &str| {
        let config = read_with(&format!("{POOL}{lines}\n"), &[]).unwrap();
        config.doubts.join(" | ")
    };
    assert_eq!(
        doubts("probe = \"icmp\"\nport = 80\npath = \"/\""),
        "a.toml:5:8: `port` has no effect with this probe | a.toml:6:8: `path` has no effect with \
         this probe"
    );
    assert_eq!(
        doubts("probe = \"icmp\"\nanswers = 2"),
        "a.toml:5:11: `answers` has no effect with this mode"
    );
}
