//! Tests of the whole configuration by its text: defaults, errors, variables.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use avocet_wire::Rtype;

use super::*;

mod dns64;
mod documents;
mod doubts;
mod forward;
mod key;
mod list_source;
mod oidc;
mod otlp;
mod pool;
mod provided;
mod query_log;
mod record;
mod signing;
mod web;
mod zone_view;

/// A rule that keeps the machine's own `resolv.conf` out of a test.
const FORWARD: &str = "[[forward]]\nzone = \".\"\nupstreams = [\"192.0.2.1\"]\n";

fn read_with(text: &str, variables: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let environment: BTreeMap<String, String> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Config::from_text(Some(Path::new("a.toml")), text, &environment)
}

/// Returns the configuration of `text` with a rule for the root added.
fn read(text: &str) -> Config {
    read_with(&format!("{text}\n{FORWARD}"), &[]).expect("the text is right")
}

/// Returns the errors of `text` with a rule for the root added.
fn errors(text: &str) -> String {
    read_with(&format!("{text}\n{FORWARD}"), &[]).expect_err("the text is wrong").to_string()
}

/// Returns the errors of `text` alone.
fn errors_alone(text: &str) -> String {
    read_with(text, &[]).expect_err("the text is wrong").to_string()
}

#[test]
fn an_empty_file_means_the_safe_defaults() {
    let config = read("");
    let server = &config.server;
    assert_eq!(server.listen, ["127.0.0.1:5300".parse().unwrap()]);
    assert!((1..=256).contains(&server.workers));
    assert!(!server.pin_workers);
    assert_eq!(server.http, Some("127.0.0.1:8053".parse().unwrap()));
    assert!(server.local_names && server.minimal_responses && server.cookies);
    assert_eq!(server.max_udp_size, 1232);
    assert_eq!(server.version.as_deref(), Some("avocet"));
    assert_eq!((&server.user, &server.id_server, &server.nsid), (&None, &None, &None));
    assert_eq!(server.cookie_secret, None);
    let tcp = &server.tcp;
    assert_eq!((tcp.connections, tcp.connections_per_client), (1000, 20));
    assert_eq!((tcp.idle, tcp.read), (Duration::from_secs(10), Duration::from_secs(3)));
    let cache = &config.cache;
    assert_eq!((cache.packet_bytes, cache.rrset_bytes), (64 << 20, 128 << 20));
    assert_eq!((cache.min_ttl_secs, cache.max_ttl_secs), (0, 86_400));
    assert_eq!(cache.negative_max_ttl_secs, 3_600);
    let stale = cache.serve_stale.as_ref().unwrap();
    assert_eq!((stale.max_secs, stale.client_timeout), (86_400, Duration::from_millis(1_800)));
    assert!(cache.prefetch);
    assert_eq!(cache.snapshot_interval, Some(Duration::from_secs(300)));
    assert_eq!((config.records.len(), &config.rate_limit), (0, &None));
    assert_eq!((config.log.level, config.log.format), (LogLevel::Info, LogFormat::Text));
    assert_eq!(config.data.directory, Path::new("./avocet-data"));
    let rule = &config.forwards[0];
    assert_eq!((rule.strategy, rule.ecs), (Strategy::Fastest, EcsPolicy::Strip));
    assert!(rule.case_randomisation && !rule.exception);
    assert_eq!(
        (rule.timeout_min, rule.timeout_max),
        (Duration::from_millis(50), Duration::from_secs(2))
    );
}

#[test]
fn only_private_clients_are_answered_by_default() {
    let allow = read("").server.allow;
    let is_allowed = |address: &str| {
        let address: IpAddr = address.parse().unwrap();
        allow.with_own(&[]).iter().any(|network| network.contains(&address))
    };
    for address in [
        "127.0.0.1",
        "::1",
        "10.1.2.3",
        "172.31.0.1",
        "192.168.7.7",
        "169.254.1.1",
        "fd00::1",
        "fe80::1",
    ] {
        assert!(is_allowed(address), "{address}");
    }
    for address in ["8.8.8.8", "100.64.0.1", "172.32.0.1", "2001:db8::1", "0.0.0.0", "::"] {
        assert!(!is_allowed(address), "{address}");
    }
}

#[test]
fn relative_paths_belong_to_the_directory_of_the_configuration() {
    let text = "[policy]\nleases = \"leases\"\n[[list]]\nname = \"a\"\nfile = \"lists/a\"\n\
                [[list]]\nname = \"b\"\nfile = \"/srv/b\"\n[resolver]\nlocal-root = \
                \"root.zone\"\n";
    let config =
        Config::from_text(Some(Path::new("/etc/avocet/a.toml")), text, &BTreeMap::new()).unwrap();
    let files: Vec<_> =
        config.policy.lists.iter().map(|list| format!("{:?}", list.source)).collect();
    assert_eq!(files, ["File(\"/etc/avocet/lists/a\")", "File(\"/srv/b\")"]);
    assert_eq!(config.policy.leases.as_deref(), Some(Path::new("/etc/avocet/leases")));
    assert_eq!(format!("{:?}", config.resolver.local_root), "File(\"/etc/avocet/root.zone\")");
}

#[test]
fn local_lets_in_private_networks_and_those_of_the_host() {
    let own: [IpNet; 1] = ["2001:db8:1:2::/64".parse().unwrap()];
    let count = |text: &str| read(text).server.allow.with_own(&own).len();
    assert_eq!(count(""), 9);
    assert_eq!(count("[server]\nallow = [\"local\", \"203.0.113.0/24\"]"), 10);
    assert_eq!(count("[server]\nallow = [\"203.0.113.0/24\"]"), 1);
    assert_eq!(count("[server]\nallow = []"), 0);
}

#[test]
fn an_address_for_http_is_in_use_for_nothing_else() {
    let cases = [
        (
            "[server]\nlisten = [\"127.0.0.1:53\", \"https://127.0.0.1:443\"]\n\
             [home-ca]\nnames = [\"a.lan\"]\n[web]\nhttps = \"127.0.0.1:443\"",
            "a.toml:6:9: [web] https has the address 127.0.0.1:443, which is for DNS clients",
        ),
        (
            "[server]\nlisten = [\"127.0.0.1:53\"]\nhttp = \"127.0.0.1:53\"",
            "a.toml:3:8: [server] http has the address 127.0.0.1:53, which is for DNS clients",
        ),
        (
            "[server]\nhttp = \"127.0.0.1:80\"\n[policy]\nblock-answer = \"addresses\"\n\
             block-page = [\"127.0.0.1:80\"]",
            "a.toml:5:14: block-page has the address 127.0.0.1:80, which is for [server] http",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(errors(text), expected, "{text}");
    }
    // The port of QUIC is one of UDP.
    read(
        "[server]\nlisten = [\"127.0.0.1:53\", \"quic://127.0.0.1:8053\"]\n\
         http = \"127.0.0.1:8053\"\n[home-ca]\nnames = [\"a.lan\"]",
    );
}

#[test]
fn each_error_of_a_listener_names_its_place() {
    let cases = [
        (
            "[[listener]]\nname = \"a\"\nlisten = [\"127.0.0.1:5300\"]",
            "a.toml:3:11: duplicate address 127.0.0.1:5300",
        ),
        (
            "[[listener]]\nname = \"a\"\nlisten = [\"[::1]:53\"]\n\
             [[listener]]\nname = \"a\"\nlisten = [\"[::1]:54\"]",
            "a.toml:4:1: duplicate listeners: \"a\"",
        ),
        (
            "[[listener]]\nname = \"a\"\nlisten = []",
            "a.toml:3:10: expected at least one address with port, such as \"127.0.0.1:53\"",
        ),
        (
            "[[listener]]\nname = \"guest\"\nlisten = [\"[::1]:53\"]\n\
             [[rule]]\nname = \"r\"\nwhen = 'client.listener == \"quest\"'\naction = \"drop\"",
            "a.toml:6:8: rule `r`: column 20\n  client.listener == \"quest\"\n                     \
             ^^^^^^^ there is no listener `quest`: did you mean `guest`?",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(errors(text), expected, "{text}");
    }
}

#[test]
fn each_error_names_its_place_and_what_would_be_right_in_the_server_table() {
    let cases = [
        (
            "[server]\nlisten = [\"127.0.0.1\"]",
            "a.toml:2:11: \"127.0.0.1\" has no port; write \"127.0.0.1:53\"",
        ),
        (
            "[server]\nlisten = [\"[::1]\"]",
            "a.toml:2:11: \"[::1]\" has no port; write \"[::1]:53\"",
        ),
        (
            "[server]\nlisten = [\n  \"127.0.0.1:53\",\n  \"localhost:53\",\n]",
            "a.toml:4:3: expected an address with port, such as \"127.0.0.1:53\" or \"[::1]:53\", \
             or \"tls://127.0.0.1:853\" for TLS, \"quic://127.0.0.1:853\" or \
             \"https://127.0.0.1:443\", found \"localhost:53\"",
        ),
        (
            "[server]\nlisten = []",
            "a.toml:2:10: expected at least one address with port, such as \"127.0.0.1:53\"",
        ),
        (
            "[server]\nlisten = [\"[::1]:53\", \"[::1]:53\"]",
            "a.toml:2:23: duplicate address [::1]:53",
        ),
        (
            "[server]\nlisten = \"127.0.0.1:53\"",
            "a.toml:2:10: expected a list, each item an address with port, such as \
             \"127.0.0.1:53\" or \"[::1]:53\", or \"tls://127.0.0.1:853\" for TLS, \
             \"quic://127.0.0.1:853\" or \"https://127.0.0.1:443\", found \"127.0.0.1:53\"",
        ),
        ("[server]\nworkers = 0", "a.toml:2:11: expected an integer from 1 to 256, found 0"),
        ("[server]\nworkers = 257", "a.toml:2:11: expected an integer from 1 to 256, found 257"),
        ("[server]\nworkers = -1", "a.toml:2:11: expected an integer from 1 to 256, found -1"),
        (
            "[server]\nworkers = \"2\"",
            "a.toml:2:11: expected an integer from 1 to 256, found \"2\"",
        ),
        ("[server]\nworkers = 1.5", "a.toml:2:11: expected an integer from 1 to 256, found 1.5"),
        ("[server]\ncookies = 1", "a.toml:2:11: expected true or false, found 1"),
        (
            "[server]\nmax-udp-size = 511",
            "a.toml:2:16: expected an integer from 512 to 4096, found 511",
        ),
        (
            "[server]\nhttp = \"8.8.8.8:80\"",
            "a.toml:2:8: 8.8.8.8:80 is neither loopback nor private; write \"127.0.0.1:8053\" or \
             an address of your own network",
        ),
        (
            "[server]\nhttp = \"0.0.0.0:80\"",
            "a.toml:2:8: 0.0.0.0:80 is neither loopback nor private; write \"127.0.0.1:8053\" or \
             an address of your own network",
        ),
        (
            "[server]\nhttp = \"10.0.0.1\"",
            "a.toml:2:8: \"10.0.0.1\" has no port; write \"10.0.0.1:8053\"",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(errors(text), expected, "{text}");
    }
}

#[test]
fn caches_beyond_the_memory_of_the_machine_are_refused() {
    if avocet_io::memory::limit().is_none_or(|octets| octets >= 1 << 40) {
        return;
    }
    let expected = "a.toml:3:15: packet-bytes and rrset-bytes together are 1048608 MiB, and the \
                    server may use ";
    let found = errors("[cache]\npacket-bytes = \"32MiB\"\nrrset-bytes = \"1TiB\"");
    assert!(found.starts_with(expected), "{found}");
    let found = errors("[cache]\npacket-bytes = \"1TiB\"");
    assert!(found.starts_with("a.toml:2:16: packet-bytes and rrset-bytes together are"), "{found}");
}

#[test]
fn each_error_names_its_place_in_the_other_tables() {
    let cases = [
        (
            "[server]\nhttp = \"on\"",
            "a.toml:2:8: expected an address with port, such as \"127.0.0.1:8053\", or \"\" to \
             turn it off; found \"on\"",
        ),
        (
            "[server]\nallow = [\"10.0.0.0/33\"]",
            "a.toml:2:10: expected \"local\", a network such as \"192.168.0.0/16\", or one \
             address such as \"fd00::1\", found \"10.0.0.0/33\"",
        ),
        (
            "[server]\nallow = [\"10.0.0.1/8\"]",
            "a.toml:2:10: \"10.0.0.1/8\" is an address inside a network; write \"10.0.0.0/8\" for \
             the network or \"10.0.0.1\" for the address",
        ),
        (
            "[server]\ncookie-secret = \"e5e973\"",
            "a.toml:2:17: expected 32 hexadecimal digits (16 octets), found 6 characters",
        ),
        (
            "[resolver]\nmode = \"x\"",
            "a.toml:2:8: expected \"recurse\" or \"forward\", found \"x\"",
        ),
        (
            "[cache]\npacket-bytes = \"64KiB\"",
            "a.toml:2:16: expected a size from 1 MiB to 1 TiB, in bytes or as a string such as \
             \"64MiB\", found \"64KiB\"",
        ),
        (
            "[cache]\nmin-ttl-secs = 60\nmax-ttl-secs = 30",
            "a.toml:2:16: min-ttl-secs (60) is above max-ttl-secs (30)",
        ),
        (
            "[cache]\nmin-ttl-secs = 86400\nmax-ttl-secs = 30",
            "a.toml:2:16: min-ttl-secs (86400) is above max-ttl-secs (30)",
        ),
        (
            "[rate-limit]\nipv4-prefix-length = 33",
            "a.toml:2:22: expected an integer from 1 to 32, found 33",
        ),
        (
            "[log]\nlevel = \"loud\"",
            "a.toml:2:9: expected \"error\", \"warn\", \"info\", \"debug\" or \"trace\", found \
             \"loud\"",
        ),
        ("[log]\nformat = \"xml\"", "a.toml:2:10: expected \"text\" or \"json\", found \"xml\""),
        (
            "[data]\ndirectory = \"\"",
            "a.toml:2:13: expected a directory such as \"./avocet-data\", found \"\"",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(errors(text), expected, "{text}");
    }
}

#[test]
fn a_file_of_root_servers_has_a_server_unless_others_answer_for_the_root() {
    let forward = "[[forward]]\nzone = \".\"\nupstreams = [\"192.0.2.9\"]\n";
    let stub = "[[stub]]\nzone = \".\"\nservers = [\"192.0.2.9\"]\n";
    let exception = "[[forward]]\nzone = \"!x.example\"\n";
    for (number, hints) in ["", "; nobody\n", ". NS a.root.test.\n"].iter().enumerate() {
        let name = format!("avocet-hints-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, hints).unwrap();
        let resolver =
            format!("[resolver]\nmode = \"recurse\"\nroot-hints = \"{}\"\n", path.display());
        let text = |tables: &[&str]| [&[&resolver[..]], tables].concat().concat();
        for tables in [&[][..], &[forward, exception], &[exception]] {
            let error = errors_alone(&text(tables));
            let expected = format!("{} has no server", path.display());
            assert!(error.contains(&expected), "{tables:?}: {error}");
        }
        for tables in [[forward], [stub]] {
            assert_eq!(read_with(&text(&tables), &[]).unwrap().resolver.hints, []);
        }
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn ports_to_avoid_are_typed_and_leave_enough() {
    let expected = "expected \"registered\", a port from 1 to 65535 such as 27015, or a range such \
                    as \"10000-20000\", found";
    let text = "[resolver]\navoid-ports = [\"registered\", \"70000\", \"9-3\", \"x\", 0, 1.5]";
    let lines = [
        format!("a.toml:2:30: {expected} \"70000\""),
        "a.toml:2:39: the range \"9-3\" ends before it starts; write \"3-9\"".to_owned(),
        format!("a.toml:2:46: {expected} \"x\""),
        format!("a.toml:2:51: {expected} 0"),
        format!("a.toml:2:54: {expected} 1.5"),
    ];
    assert_eq!(errors(text), lines.join("\n"));
    assert_eq!(
        errors("[resolver]\navoid-ports = [\"registered\", \"32768-61000\"]"),
        "a.toml:2:15: 31538 ports are left for queries to servers; at least 32768 are needed, or \
         responses are easy to spoof"
    );
    let shown = |text: &str, variables: &[(&str, &str)]| {
        let config = read_with(&format!("{text}\n{FORWARD}"), variables).unwrap();
        config.effective()["resolver"]["avoid-ports"].to_string()
    };
    assert_eq!(shown("", &[]), "[\"registered\"]");
    let text = "[resolver]\navoid-ports = [5353, \"9000-9100\", \"registered\"]";
    assert_eq!(shown(text, &[]), "[\"registered\", \"5353\", \"9000-9100\"]");
    assert_eq!(shown("[resolver]\navoid-ports = []", &[]), "[]");
    let variable = ("AVOCET_RESOLVER__AVOID_PORTS", "registered, 27015, 10000-20000");
    assert_eq!(shown("", &[variable]), "[\"registered\", \"27015\", \"10000-20000\"]");
}

#[test]
fn a_block_page_has_an_address_that_answers_lead_to() {
    let cases = [
        (
            "[policy]\nblock-page = [\"10.0.0.1\"]",
            "a.toml:2:15: \"10.0.0.1\" has no port; write \"10.0.0.1:53\"",
        ),
        (
            "[policy]\nblock-page = [\"10.0.0.1:80\"]",
            "a.toml:2:14: no response leads to the block page; write block-answer = \"addresses\"",
        ),
        (
            "[policy]\nblock-answer = \"addresses\"\nblock-page = [\"0.0.0.0:80\"]",
            "a.toml:2:16: \"addresses\" needs `block-addresses`, such as [\"192.0.2.1\", \
             \"2001:db8::1\"]",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(errors(text), expected, "{text}");
    }
}

#[test]
fn texts_for_clients_fit_one_character_string() {
    let text = format!("[server]\nid-server = \"{}\"", "x".repeat(256));
    assert_eq!(errors(&text), "a.toml:2:13: expected at most 255 octets, found 256");
    let text = format!("[server]\nnsid = \"{}\"\nversion = \"\"", "x".repeat(255));
    let server = read(&text).server;
    assert_eq!((server.nsid.unwrap().len(), server.version), (255, None));
}

#[test]
fn unknown_keys_are_named_with_the_nearest_one() {
    let cases = [
        ("[server]\nlisten-on = []", "a.toml:2:1: unknown key `listen-on`; did you mean `listen`?"),
        (
            "[server]\nmax_udp_size = 1232",
            "a.toml:2:1: unknown key `max_udp_size`; did you mean `max-udp-size`?",
        ),
        ("[sever]\nworkers = 1", "a.toml:1:2: unknown key `sever`; did you mean `server`?"),
        ("[cache]\nworkers = 1", "a.toml:2:1: unknown key `workers`; it belongs under [server]"),
        (
            "[server]\nupstreams = []",
            "a.toml:2:1: unknown key `upstreams`; it belongs under [[forward]]",
        ),
        ("[log]\nzzzzzzzz = 1", "a.toml:2:1: unknown key `zzzzzzzz`; known keys: format, level"),
    ];
    for (text, expected) in cases {
        assert_eq!(errors(text), expected, "{text}");
    }
}

#[test]
fn tables_of_the_wrong_form_are_named() {
    let single = errors_alone("[forward]\nzone = \".\"");
    assert!(
        single.starts_with(
            "a.toml:1:2: `forward` has another form; start it with the line [[forward]]"
        ),
        "{single}"
    );
    assert_eq!(
        errors("[[cache]]\nprefetch = true"),
        "a.toml:1:3: `cache` has another form; start it with the line [cache]"
    );
    assert_eq!(
        errors("log = \"info\""),
        "a.toml:1:1: `log` has another form; start it with the line [log]"
    );
}

#[test]
fn several_errors_are_reported_at_once_in_the_order_of_the_file() {
    let text = "[server]\nlistn = 1\nworkers = 0\nallow = [\"x\", \"10.0.0.0/8\", \
                7]\n[cache]\nprefetch = 1";
    let message = errors(text);
    let places: Vec<&str> = message.lines().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(places, ["a.toml:2:1", "a.toml:3:11", "a.toml:4:10", "a.toml:4:29", "a.toml:6:12"]);
}

#[test]
fn text_that_is_no_toml_is_refused_with_its_line() {
    let message = errors_alone("[server]\nworkers = \n[cache]\nprefetch = tru");
    let lines: Vec<&str> = message.lines().collect();
    assert!(lines[0].starts_with("a.toml:2:"), "{message}");
    assert!(lines.last().unwrap().starts_with("a.toml:4:"), "{message}");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let error = Config::load(Some(Path::new("/nonexistent/a.toml")), []).unwrap_err().to_string();
    assert!(error.starts_with("/nonexistent/a.toml: cannot be read: "), "{error}");
}

#[test]
fn variables_override_the_file() {
    let text = format!("[server]\nworkers = 4\nallow = [\"10.0.0.0/8\"]\n{FORWARD}");
    let variables = [
        ("AVOCET_SERVER__WORKERS", "2"),
        ("AVOCET_SERVER__ALLOW", "192.168.0.0/16, fd00::/8"),
        ("AVOCET_SERVER__ID_SERVER", "7"),
        ("AVOCET_CACHE__PACKET_BYTES", "8MiB"),
        ("AVOCET_CACHE__RRSET_BYTES", "2097152"),
        ("AVOCET_CACHE__PREFETCH", "false"),
        ("AVOCET_RATE_LIMIT__RESPONSES_PER_SECOND", "20"),
        ("AVOCET_PORT_53_UDP", "none of ours"),
        ("OTHER__WORKERS", "none of ours"),
    ];
    let config = read_with(&text, &variables).unwrap();
    assert_eq!(config.server.workers, 2);
    let networks = config.server.allow.networks;
    assert_eq!(networks, ["192.168.0.0/16".parse().unwrap(), "fd00::/8".parse::<IpNet>().unwrap()]);
    assert_eq!(config.server.id_server.as_deref(), Some("7"));
    assert_eq!((config.cache.packet_bytes, config.cache.rrset_bytes), (8 << 20, 2 << 20));
    assert!(!config.cache.prefetch);
    assert_eq!(config.rate_limit.unwrap().responses_per_second, 20);
}

#[test]
fn a_rate_limit_above_what_can_be_counted_is_refused() {
    let read = |limit: u32| {
        let text = format!("[rate-limit]\nresponses-per-second = {limit}\n");
        Config::from_text(None, &text, &BTreeMap::new())
    };
    assert_eq!(read(8_387).unwrap().rate_limit.unwrap().responses_per_second, 8_387);
    let fault = read(8_388).unwrap_err().to_string();
    assert!(fault.contains("8387"), "{fault}");
}

#[test]
fn errors_of_variables_carry_their_names() {
    let cases = [
        ("AVOCET_SERVER__WORKERS", "many", "expected an integer from 1 to 256, found \"many\""),
        ("AVOCET_SERVER__COOKIES", "yes", "expected true or false, found \"yes\""),
        (
            "AVOCET_RATE_LIMIT_RESPONSES_PER_SECOND",
            "20",
            "two underscores separate table and key; did you mean \
             AVOCET_RATE_LIMIT__RESPONSES_PER_SECOND?",
        ),
        ("AVOCET_SERVER__LISTEN", "127.0.0.1", "\"127.0.0.1\" has no port; write \"127.0.0.1:53\""),
        ("AVOCET_SERVER__WORKRES", "2", "unknown key `workres`; did you mean `workers`?"),
        ("AVOCET_SEVER__WORKERS", "2", "unknown key `sever`; did you mean `server`?"),
        (
            "AVOCET_FORWARD__ZONE",
            ".",
            "[[forward]] cannot be set by a variable; write it in the file",
        ),
    ];
    for (name, value, expected) in cases {
        let error = read_with(FORWARD, &[(name, value)]).unwrap_err().to_string();
        assert_eq!(error, format!("{name}: {expected}"));
    }
}

#[test]
fn sizes_are_bytes_or_texts_with_a_unit() {
    let size = |written: &str| {
        let text = format!("[cache]\nrrset-bytes = {written}\n{FORWARD}");
        read_with(&text, &[]).ok().map(|config| config.cache.rrset_bytes)
    };
    let cases = [
        ("1048576", Some(1 << 20)),
        ("\"1048576\"", Some(1 << 20)),
        ("\"1MiB\"", Some(1 << 20)),
        ("\"1024 KiB\"", Some(1 << 20)),
        ("\"1GiB\"", Some(1 << 30)),
        ("\"64MB\"", Some(64_000_000)),
        ("\"5000kB\"", Some(5_000_000)),
        ("\"1048576B\"", Some(1 << 20)),
        ("1048575", None),
        ("\"2TiB\"", None),
        ("\"99999999999999999999MiB\"", None),
        ("\"18446744073709551615GiB\"", None),
        ("\"+64MiB\"", None),
        ("\"64mib\"", None),
        ("\"6.4MiB\"", None),
        ("\"MiB\"", None),
        ("-1", None),
    ];
    for (written, expected) in cases {
        assert_eq!(size(written), expected, "{written}");
    }
}

#[test]
fn limits_and_secrets_are_typed() {
    let config = read(
        "[server]\ncookie-secret = \"e5e973e5a6b2a43f48e7dc849e37bfcf\"\n\
         [rate-limit]\nresponses-per-second = 5\nslip = 0\nexempt = [\"127.0.0.1\"]\n\
         [cache]\nserve-stale = false\nsnapshot-interval-secs = 0\n",
    );
    let secret = config.server.cookie_secret.unwrap();
    let digits = secret.iter().fold(String::new(), |mut out, octet| {
        write!(out, "{octet:02x}").unwrap();
        out
    });
    assert_eq!(digits, "e5e973e5a6b2a43f48e7dc849e37bfcf");
    let limit = config.rate_limit.unwrap();
    assert_eq!((limit.responses_per_second, limit.slip), (5, 0));
    assert_eq!((limit.ipv4_prefix_length, limit.ipv6_prefix_length), (24, 56));
    assert_eq!(limit.exempt, ["127.0.0.1/32".parse().unwrap()]);
    assert_eq!((config.cache.serve_stale, config.cache.snapshot_interval), (None, None));
}

#[test]
fn a_key_given_twice_is_named() {
    let text = errors("[server]\nworkers = 1\nworkers = 2\n");
    assert!(text.contains("duplicate key `workers`; the table already has it"), "{text}");
    assert!(text.contains("a.toml:3:1"), "{text}");
}

#[test]
fn all_faults_of_each_table_are_reported_at_once() {
    let text = r#"
[policy]
time-zone = "Mars/Phobos"
[[list]]
name = "ads"
file = 5
[[group]]
name = "kids"
lists = ["ads", "no", "none"]
clients = ["a b"]
[[client]]
name = "tv"
ids = ["c d", "e f"]
groups = ["kids", "nobody"]
[[client]]
ids = ["g h"]
[[rule]]
name = "r"
when = 'foo()'
action = "blck"
rps = 5
[[rule]]
name = "s"
when = 'bar()'
action = "redirect"
time-zone = "Nope"
to = ["x", "192.0.2.1", "y"]
burst = 7
[[forward]]
upstreams = ["x"]
strategy = "q"
[[record]]
type = "A"
values = ["x"]
"#;
    let found = errors(text);
    let places: Vec<&str> =
        found.lines().filter_map(|line| line.strip_prefix("a.toml:")?.split(' ').next()).collect();
    let expected = [
        "3:13:", "6:8:", "7:1:", "7:1:", "7:1:", "11:1:", "11:1:", "11:1:", "15:1:", "15:1:",
        "19:8:", "20:10:", "24:8:", "25:10:", "26:13:", "29:1:", "30:14:", "31:12:", "32:1:",
        "34:11:",
    ];
    assert_eq!(places, expected, "{found}");
    for said in [
        "`burst` has no meaning for this action; `x` is not an address; `y` is not an address",
        "client `#2`: `g h` is",
    ] {
        assert!(found.contains(said), "{found}");
    }
}

#[test]
fn what_could_never_work_is_refused() {
    for (text, expected) in [
        (
            "[server]\nworkers = 99999999999999999999999",
            "2:11: expected an integer from 1 to 256, found a number with too many digits",
        ),
        (
            "[server]\nlisten = [\"127.0.0.1:0\"]",
            "2:11: \"127.0.0.1:0\" has port 0, which clients cannot reach; write \"127.0.0.1:53\"",
        ),
        ("listen = [\"127.0.0.1:53\"]", "1:1: unknown key `listen`; it belongs under [server]"),
        (
            "[resolver]\nipv4 = false\nipv6 = false",
            "3:8: ipv4 and ipv6 are both off, so no server can be queried",
        ),
        (
            "[[list]]\nname = \"x\"\nurl = \"https://\"",
            "3:7: expected a url with http:// or https:// and a host, found \"https://\"",
        ),
        (
            "[[list]]\nname = \"x\"\nurl = \"http://a b/\"",
            "3:7: expected a url with http:// or https:// and a host, found \"http://a b/\"",
        ),
        ("[[list]]\nname = \"x\"\nfile = \"\"", "3:8: expected the path of a file, found \"\""),
    ] {
        assert_eq!(errors_alone(text), format!("a.toml:{expected}"), "{text}");
    }
}
