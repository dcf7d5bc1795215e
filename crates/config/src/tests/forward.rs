//! Tests of forwarding rules and their servers.

use std::collections::HashSet;

use avocet_resolver::{HeaderPlace, Introduction};

use super::*;
use crate::discover::{DesignatedServer, DesignationProof, Discovery};
use crate::upstream_tls::{Authentication, PeerName};

fn rule(keys: &str) -> ForwardConfig {
    let text =
        format!("[[forward]]\nzone = \"x.example\"\n{keys}\n[resolver]\nmode = \"forward\"\n");
    read_with(&text, &[]).expect("the rule is right").forwards.remove(0)
}

#[test]
fn servers_are_addresses_with_or_without_port_and_scheme() {
    let cases = [
        ("1.1.1.1", "1.1.1.1:53", UpstreamTransport::Udp),
        ("1.1.1.1:5353", "1.1.1.1:5353", UpstreamTransport::Udp),
        ("udp://127.0.0.1:5310", "127.0.0.1:5310", UpstreamTransport::Udp),
        ("tcp://9.9.9.9", "9.9.9.9:53", UpstreamTransport::Tcp),
        ("2620:fe::fe", "[2620:fe::fe]:53", UpstreamTransport::Udp),
        ("[2620:fe::fe]", "[2620:fe::fe]:53", UpstreamTransport::Udp),
        ("[2620:fe::fe]:5353", "[2620:fe::fe]:5353", UpstreamTransport::Udp),
        ("tcp://[2620:fe::fe]:53", "[2620:fe::fe]:53", UpstreamTransport::Tcp),
        ("9.9.9.9@5353", "9.9.9.9:5353", UpstreamTransport::Udp),
        ("tcp://2620:fe::fe@5353", "[2620:fe::fe]:5353", UpstreamTransport::Tcp),
        ("fe80::1%1", "[fe80::1%1]:53", UpstreamTransport::Udp),
    ];
    for (written, addr, transport) in cases {
        let rule = rule(&format!("upstreams = [\"{written}\"]"));
        let addr: SocketAddr = addr.parse().unwrap();
        assert_eq!(
            rule.upstreams,
            [Upstream {
                addr: Some(addr),
                port: addr.port(),
                transport,
                name: None,
                path: "".into()
            }],
            "{written}"
        );
    }
}

#[test]
fn a_stub_needs_recursion() {
    let stub = "[[stub]]\nzone = \"lab.example\"\nservers = [\"192.0.2.1\"]\n";
    let forward = "[[forward]]\nzone = \".\"\nupstreams = [\"192.0.2.9\"]\n";
    let recurse = "[resolver]\nmode = \"recurse\"\n";
    let both = [stub, forward].concat();
    let expected = "a [[stub]] needs recursion, and this server only forwards: write a [[forward]] \
                    with zone = \"lab.example.\" and `upstreams`, or set [resolver] mode = \
                    \"recurse\"";
    let error = errors_alone(&both);
    assert!(error.contains(expected), "{error}");
    assert_eq!(read_with(&[&both, recurse].concat(), &[]).unwrap().stubs.len(), 1);
    assert_eq!(read_with(stub, &[]).unwrap().stubs.len(), 1);
}

#[test]
fn stubs_and_rules_take_the_forms_of_forwards() {
    for server in ["192.0.2.1:5353", "192.0.2.1@5353"] {
        let text = format!(
            "[[stub]]\nzone = \"corp.example\"\nservers = [\"{server}\"]\n\
             [resolver]\nlocal-root = true\nlocal-root-primaries = [\"{server}\"]\n\
             [[rule]]\nname = \"r\"\nwhen = 'true'\naction = \"forward\"\nto = [\"{server}\"]\n"
        );
        let config = read_with(&text, &[]).unwrap();
        let expected = "192.0.2.1:5353".parse().unwrap();
        assert_eq!(config.policy.forward_sets(), [Box::from([expected])]);
        assert_eq!(config.resolver.local_root_primaries, [expected]);
    }
    let listen =
        read_with("[server]\nlisten = [\"127.0.0.1@5399\"]\nhttp = \"127.0.0.1@8099\"\n", &[])
            .unwrap();
    assert_eq!((listen.server.listen[0].port(), listen.server.http.unwrap().port()), (5399, 8099));
    let error = errors_alone("[[stub]]\nzone = \"corp.example\"\nservers = [\"ns.corp.example\"]");
    let expected = "expected a server such as \"192.0.2.1\", \"192.0.2.1:5353\" or \
                    \"[2001:db8::1]:5353\", found \"ns.corp.example\"";
    assert_eq!(error, format!("a.toml:3:12: {expected}"));
}

#[test]
fn what_is_no_server_is_refused() {
    let expected = "expected a server such as \"192.0.2.1\", \"192.0.2.1:5353\" or \
                    \"[2001:db8::1]:5353\", with the prefix \"tcp://\" for TCP only, or as \
                    \"tls://dns.example@192.0.2.1\", \"quic://dns.example@192.0.2.1\", or \
                    \"https://dns.example@192.0.2.1/dns-query\" or the same with \"h3://\", \
                    found";
    let cases = [
        ("dns.example", format!("{expected} \"dns.example\"")),
        ("1.1.1.1:", format!("{expected} \"1.1.1.1:\"")),
        ("[2620:fe::fe]:", format!("{expected} \"[2620:fe::fe]:\"")),
        ("1.1.1.1:70000", format!("{expected} \"1.1.1.1:70000\"")),
        ("fe80::1%nosuchinterface", format!("{expected} \"fe80::1%nosuchinterface\"")),
        ("", format!("{expected} \"\"")),
        (
            "sctp://1.1.1.1",
            "\"sctp://\" is not a supported transport; use \"udp://\", \"tcp://\", \"tls://\", \
             \"quic://\", \"https://\" or \"h3://\""
                .to_owned(),
        ),
        (
            "tls://dns.example",
            "\"dns.example\" has no address; write \"tls://NAME@ADDRESS\", or set `bootstrap`"
                .to_owned(),
        ),
        (
            "tls://*.example@192.0.2.1",
            "\"*.example\" is not a host name; write \"tls://NAME@ADDRESS\" or \"tls://ADDRESS\""
                .to_owned(),
        ),
        (
            "tls://@192.0.2.1",
            "\"\" is not a host name; write \"tls://NAME@ADDRESS\" or \"tls://ADDRESS\"".to_owned(),
        ),
        ("tls://dns.example@", format!("{expected} \"tls://dns.example@\"")),
        ("tls://dns.example@x", format!("{expected} \"tls://dns.example@x\"")),
        ("tls://", format!("{expected} \"tls://\"")),
        ("1.1.1.1:0", "\"1.1.1.1:0\" has port 0; the port of DNS is 53".to_owned()),
        ("0.0.0.0", "\"0.0.0.0\" is not the address of one server".to_owned()),
        ("ff02::fb", "\"ff02::fb\" is not the address of one server".to_owned()),
        (
            "127.0.0.1:5300",
            "127.0.0.1:5300: this server listens there itself; queries would loop".to_owned(),
        ),
    ];
    for (written, expected) in cases {
        let text = format!("[[forward]]\nzone = \".\"\nupstreams = [\"{written}\"]");
        assert_eq!(errors_alone(&text), format!("a.toml:3:14: {expected}"), "{written}");
    }
}

#[test]
fn rules_have_their_own_order_and_times() {
    let upstreams = "upstreams = [\"192.0.2.1\", \"192.0.2.2\"]\n";
    for (written, expected) in [
        ("ordered", Strategy::Ordered),
        ("round-robin", Strategy::RoundRobin),
        ("fastest", Strategy::Fastest),
        ("race 2", Strategy::Race(2)),
        ("race 8", Strategy::Race(8)),
    ] {
        let rule = rule(&format!("{upstreams}strategy = \"{written}\""));
        assert_eq!(rule.strategy, expected);
    }
    let rule = rule(&format!(
        "{upstreams}case-randomisation = false\necs = \"pass\"\ntimeout-min-ms = \
         100\ntimeout-max-ms = 900"
    ));
    assert!(!rule.case_randomisation);
    assert_eq!(rule.ecs, EcsPolicy::Pass);
    assert_eq!(rule.timeout_min, Duration::from_millis(100));
    assert_eq!(rule.timeout_max, Duration::from_millis(900));
}

#[test]
fn client_subnets_are_sent_on_where_nothing_is_found_by_recursion() {
    let rule = "[[forward]]\nzone = \"x.example\"\nupstreams = [\"192.0.2.1\"]\necs = \"pass\"\n";
    let error = errors_alone(rule);
    assert!(error.starts_with("a.toml:4:7: recursion does not forward client subnets"), "{error}");
    assert!(read_with(&format!("{rule}[resolver]\nmode = \"forward\"\n"), &[]).is_ok());
}

#[test]
fn servers_learn_clients_where_each_query_is_for_one() {
    let text = |upstream: &str, keys: &str, rest: &str| {
        format!(
            "[[forward]]\nzone = \"x.example\"\nupstreams = [\"{upstream}\"]\nproxy-protocol = \
             true\n{keys}\n[resolver]\nmode = \"forward\"\n{rest}"
        )
    };
    for upstream in ["192.0.2.1", "tcp://192.0.2.1", "tls://192.0.2.1", "https://192.0.2.1/q"] {
        let config = read_with(&text(upstream, "", ""), &[]).unwrap();
        let inside = Introduction::ProxyHeader(HeaderPlace::InsideTls);
        assert_eq!(config.forwards[0].introduction, inside);
        let effective = toml::to_string(&config.effective()).unwrap();
        assert_eq!(read_with(&effective, &[]).unwrap().forwards, config.forwards);
    }
    let plain = text("192.0.2.1", "", "");
    for (text, expected) in [
        (plain.replace("\"forward\"", "\"recurse\""), "recursion names no clients"),
        (text("quic://192.0.2.1", "", ""), "the PROXY protocol has no form for QUIC"),
        (text("h3://192.0.2.1/q", "", ""), "the PROXY protocol has no form for QUIC"),
        (text("192.0.2.1", "discover = \"auto\"", ""), "servers that are discovered may not know"),
        (text("192.0.2.1", "", "[dns64]\nprefix = \"64:ff9b::/96\"\n"), "answers of [dns64]"),
        (plain.replace("true", "1"), "expected true or false"),
        (
            "[[forward]]\nzone = \"!x.example\"\n\nproxy-protocol = true".to_owned(),
            "an exception (`!`) has no servers",
        ),
    ] {
        let error = errors_alone(&text);
        assert!(error.starts_with("a.toml:4:18: ") && error.contains(expected), "{error}");
    }
    let off = plain.replace("true", "false").replace("\"forward\"", "\"recurse\"");
    assert_eq!(read_with(&off, &[]).unwrap().forwards[0].introduction, Introduction::None);
    let outside = text("tls://192.0.2.1", "proxy-protocol-outside-tls = true", "");
    let config = read_with(&outside, &[]).unwrap();
    let expected = Introduction::ProxyHeader(HeaderPlace::OutsideTls);
    assert_eq!((config.forwards[0].introduction, config.doubts.len()), (expected, 0));
    let effective = toml::to_string(&config.effective()).unwrap();
    assert_eq!(read_with(&effective, &[]).unwrap().forwards, config.forwards);
    for vain in [outside.replace("tls:", "tcp:"), outside.replacen("true", "false", 1)] {
        let doubts = read_with(&vain, &[]).unwrap().doubts;
        assert!(doubts[0].contains("`proxy-protocol-outside-tls` has no effect"), "{doubts:?}");
    }
}

#[test]
fn a_rule_of_the_policy_names_no_zone_of_servers_that_learn_clients() {
    let text = "[resolver]\nmode = \"forward\"\n[[rule]]\nname = \"r\"\nwhen = 'true'\naction = \"forward\"\nto = \
                [\"x.example\"]\n[[forward]]\nzone = \"x.example\"\nupstreams = [\"192.0.2.1\"]\n";
    assert!(read_with(text, &[]).is_ok());
    for key in ["proxy-protocol = true", "discover = \"strict\""] {
        let error = errors_alone(&format!("{text}{key}\n"));
        assert!(error.contains("without discover = \"strict\" and proxy-protocol"), "{error}");
    }
}

#[test]
fn an_exception_is_a_rule_without_servers() {
    let text = "[[forward]]\nzone = \"Example.\"\nupstreams = [\"192.0.2.1\"]\n[[forward]]\nzone \
                = \"!Lab.Example\"\n";
    let rules = read_with(text, &[]).unwrap().forwards;
    assert_eq!((&*rules[0].zone, rules[0].exception), (&b"\x07example\0"[..], false));
    assert_eq!((&*rules[1].zone, rules[1].exception), (&b"\x03lab\x07example\0"[..], true));
    assert!(rules[1].upstreams.is_empty());
}

#[test]
fn wrong_zones_and_servers_are_refused() {
    let server = "upstreams = [\"192.0.2.1\"]\n";
    let cases = [
        (
            "zone = \".\"\n".to_owned(),
            "2:8: the rule has no servers; add upstreams = [\"ADDRESS\"] or resolv-conf".to_owned(),
        ),
        (
            "zone = \".\"\nupstreams = []".to_owned(),
            "3:13: expected 1 to 64 servers, found 0".to_owned(),
        ),
        (
            "zone = \".\"\nupstreams = [\"192.0.2.1\", \"192.0.2.1:53\"]".to_owned(),
            "3:27: duplicate server 192.0.2.1:53".to_owned(),
        ),
        (
            server.to_owned(),
            "1:1: `zone` is missing: a name such as \".\", \"corp.example\" or \
             \"!lab.corp.example\""
                .to_owned(),
        ),
        (
            format!("{server}zone = \"a..b\""),
            "3:8: \"a..b\" is not a name: a name with an empty label".to_owned(),
        ),
        (
            format!("{server}zone = \"\""),
            "3:8: expected a name such as \".\", \"corp.example\" or \"!lab.corp.example\", found \
             \"\""
                .to_owned(),
        ),
        (
            format!("{server}zone = \"!.\""),
            "3:8: \"!.\" would exclude all names; remove the rule".to_owned(),
        ),
        (
            format!("zone = \"!x\"\n{server}"),
            "3:13: an exception (`!`) has no servers; remove them".to_owned(),
        ),
    ];
    refuses(&cases);
}

#[test]
fn wrong_settings_of_rules_are_refused() {
    let server = "upstreams = [\"192.0.2.1\"]\n";
    let strategy =
        "expected \"ordered\", \"round-robin\", \"fastest\", or \"race 2\" to \"race 8\", found";
    let cases = [
        (
            format!("zone = \".\"\n{server}resolv-conf = \"/etc/resolv.conf\""),
            "4:15: upstreams and resolv-conf exclude each other; remove one".to_owned(),
        ),
        (
            format!("zone = \".\"\n{server}strategy = \"race 1\""),
            format!("4:12: {strategy} \"race 1\""),
        ),
        (
            format!("zone = \".\"\n{server}strategy = \"race 9\""),
            format!("4:12: {strategy} \"race 9\""),
        ),
        (
            format!("zone = \".\"\n{server}timeout-min-ms = 500\ntimeout-max-ms = 400"),
            "5:18: timeout-min-ms (500) is above timeout-max-ms (400)".to_owned(),
        ),
        (
            format!("zone = \"x\"\n{server}[[forward]]\nzone = \"X.\"\n{server}"),
            "5:8: \"x.\" already has a [[forward]]; merge them".to_owned(),
        ),
        (
            format!("zone = \"x\"\n{server}[[forward]]\nzone = \"!x\""),
            "5:8: \"x.\" already has a [[forward]]; merge them".to_owned(),
        ),
    ];
    refuses(&cases);
}

#[track_caller]
fn refuses(cases: &[(String, String)]) {
    for (keys, expected) in cases {
        let text = format!("[[forward]]\n{keys}");
        assert_eq!(errors_alone(&text), format!("a.toml:{expected}"), "{text}");
    }
}

#[test]
fn resolv_conf_gives_its_servers_without_ourselves() {
    let directory = std::env::temp_dir().join(format!("avocet-config-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("resolv.conf");
    std::fs::write(
        &file,
        "# nameserver 192.0.2.9\nsearch lan\nnameserver 127.0.0.1\nnameserver\t192.0.2.1 \n\
         nameserver ::1\nnameserver fe80::1%1\nnameserver nonsense\noptions edns0\nnameserver \
         192.0.2.1\n",
    )
    .unwrap();
    let rule = |listen: &str| {
        let text = format!(
            "[server]\nlisten = [\"{listen}\"]\n[[forward]]\nzone = \".\"\nresolv-conf = '{}'\n",
            file.display()
        );
        read_with(&text, &[]).map(|config| config.forwards[0].upstreams.clone())
    };
    let addresses = |servers: Vec<Upstream>| -> Vec<SocketAddr> {
        servers.iter().filter_map(|server| server.addr).collect()
    };
    let parsed = |texts: &[&str]| -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    };
    assert_eq!(
        addresses(rule("0.0.0.0:53").unwrap()),
        parsed(&["192.0.2.1:53", "[::1]:53", "[fe80::1%1]:53"])
    );
    assert_eq!(
        addresses(rule("[::]:53").unwrap()),
        parsed(&["127.0.0.1:53", "192.0.2.1:53", "[fe80::1%1]:53"])
    );
    assert_eq!(addresses(rule("127.0.0.1:5300").unwrap()).len(), 4);

    std::fs::write(&file, "nameserver 127.0.0.1\n").unwrap();
    let error = rule("127.0.0.1:53").unwrap_err().to_string();
    assert_eq!(error, format!("a.toml:5:15: {} has no server other than this one", file.display()));
    std::fs::remove_dir_all(&directory).unwrap();
    let error = rule("127.0.0.1:53").unwrap_err().to_string();
    assert!(error.contains("resolv.conf cannot be read: "), "{error}");
}

#[test]
fn servers_with_tls_have_a_name_an_address_or_both() {
    for (written, addr, name) in [
        ("tls://dns.example@192.0.2.1", "192.0.2.1:853", Some("dns.example")),
        ("tls://DNS.Example.@192.0.2.1:8853", "192.0.2.1:8853", Some("dns.example")),
        ("tls://dns.example@192.0.2.1@8853", "192.0.2.1:8853", Some("dns.example")),
        ("tls://dns.example@[2001:db8::1]:853", "[2001:db8::1]:853", Some("dns.example")),
        ("tls://dns.example@2001:db8::1", "[2001:db8::1]:853", Some("dns.example")),
        ("tls://192.0.2.1", "192.0.2.1:853", None),
        ("tls://192.0.2.1@8853", "192.0.2.1:8853", None),
        ("tls://192.0.2.1:53", "192.0.2.1:53", None),
    ] {
        let rule = rule(&format!("upstreams = [\"{written}\"]"));
        let [Upstream { addr: found, transport, name: of, .. }] = &rule.upstreams[..] else {
            panic!("{written}")
        };
        assert_eq!((*found, *transport), (Some(addr.parse().unwrap()), UpstreamTransport::Tls));
        assert_eq!(of.as_deref(), name, "{written}");
    }
}

#[test]
fn servers_with_https_have_a_path_as_well() {
    for (written, addr, name, path, shown) in [
        (
            "https://dns.example@192.0.2.1",
            "192.0.2.1:443",
            Some("dns.example"),
            "/dns-query",
            "https://dns.example@192.0.2.1:443/dns-query",
        ),
        (
            "https://DNS.example@[2001:db8::1]:8443/q/x{?dns}",
            "[2001:db8::1]:8443",
            Some("dns.example"),
            "/q/x",
            "https://dns.example@[2001:db8::1]:8443/q/x",
        ),
        ("https://192.0.2.1/", "192.0.2.1:443", None, "/", "https://192.0.2.1:443/"),
    ] {
        let text = format!(
            "[[forward]]\nzone = \".\"\nupstreams = [\"{written}\"]\nhttps-method = \"get\"\n\
             [resolver]\nmode = \"forward\"\n"
        );
        let config = read_with(&text, &[]).unwrap();
        let rule = &config.forwards[0];
        let one = &rule.upstreams[0];
        assert_eq!(one.addr, Some(addr.parse().unwrap()), "{written}");
        assert_eq!((one.name.as_deref(), &*one.path), (name, path), "{written}");
        assert_eq!(one.transport, UpstreamTransport::Https);
        let upstream_tls::PeerProtocol::Https(https) = rule.peer(one).protocol else {
            panic!("{written}")
        };
        assert_eq!((https.port, https.method), (one.port, HttpsMethod::Get));
        let effective = toml::to_string(&config.effective()).unwrap();
        assert!(effective.contains(&format!("\"{shown}\"")), "{effective}");
        assert_eq!(read_with(&effective, &[]).unwrap().forwards, config.forwards);
    }
    let idle =
        "[[forward]]\nzone = \".\"\nupstreams = [\"tls://192.0.2.1\"]\nhttps-method = \"get\"";
    let doubts = read_with(idle, &[]).unwrap().doubts;
    assert!(doubts[0].ends_with("`https-method` has no effect: no server has https:// or h3://"));
}

#[test]
fn servers_with_quic_are_written_like_those_with_tls_and_https() {
    for (written, addr, transport, shown) in [
        ("quic://192.0.2.1", "192.0.2.1:853", UpstreamTransport::Quic, "quic://192.0.2.1:853"),
        (
            "quic://dns.example@[2001:db8::1]:8853",
            "[2001:db8::1]:8853",
            UpstreamTransport::Quic,
            "quic://dns.example@[2001:db8::1]:8853",
        ),
        (
            "h3://dns.example@192.0.2.1/q{?dns}",
            "192.0.2.1:443",
            UpstreamTransport::H3,
            "h3://dns.example@192.0.2.1:443/q",
        ),
    ] {
        let config = read_with(
            &format!("[[forward]]\nzone = \".\"\nupstreams = [\"{written}\"]\nauthentication = \"opportunistic\""),
            &[],
        )
        .unwrap();
        assert!(config.doubts.is_empty(), "{:?}", config.doubts);
        let one = &config.forwards[0].upstreams[0];
        assert_eq!((one.addr, one.transport), (Some(addr.parse().unwrap()), transport));
        let effective = toml::to_string(&config.effective()).unwrap();
        assert!(effective.contains(&format!("\"{shown}\"")), "{effective}");
        assert_eq!(read_with(&effective, &[]).unwrap().forwards, config.forwards);
    }
    // One server with two protocols counts as two servers, with different identifiers.
    let both = "upstreams = [\"quic://192.0.2.1\", \"tls://192.0.2.1\", \"h3://192.0.2.1\", \
                \"https://192.0.2.1\"]";
    let numbers: HashSet<_> = rule(both).peers().map(|peer| peer.id()).collect();
    assert_eq!(numbers.len(), 4);
}

#[test]
fn servers_with_a_name_alone_need_servers_that_know_it() {
    let keys = "upstreams = [\"https://dns.example/q\", \"tls://DNS.example.:8853\"]\n\
                bootstrap = [\"192.0.2.53\", \"[2001:db8::53]:5353\"]";
    let rule = rule(keys);
    let hosts: Vec<_> = rule.upstreams.iter().map(Upstream::host).collect();
    assert_eq!(hosts, ["dns.example:443", "dns.example:8853"]);
    assert!(rule.upstreams.iter().all(|one| one.addr.is_none()));
    let servers: Vec<_> = rule.bootstrap.iter().map(ToString::to_string).collect();
    assert_eq!(servers, ["192.0.2.53:53", "[2001:db8::53]:5353"]);
    let text = format!("[[forward]]\nzone = \".\"\n{keys}\n[resolver]\nmode = \"forward\"\n");
    let config = read_with(&text, &[]).unwrap();
    let effective = toml::to_string(&config.effective()).unwrap();
    assert!(effective.contains("\"https://dns.example:443/q\""), "{effective}");
    assert_eq!(read_with(&effective, &[]).unwrap().forwards, config.forwards);
    let idle =
        "[[forward]]\nzone = \".\"\nupstreams = [\"192.0.2.1\"]\nbootstrap = [\"192.0.2.2\"]\n";
    let doubts = read_with(idle, &[]).unwrap().doubts;
    assert!(doubts[0].contains("`bootstrap` has no effect"), "{doubts:?}");
    let many = ["\"192.0.2.1\""; 9].join(", ");
    let server = "zone = \".\"\nupstreams = [\"tls://dns.example\"]\n";
    refuses(&[
        (format!("{server}bootstrap = [{many}]"), "4:13: more than 8 servers".to_owned()),
        (
            format!("{server}bootstrap = [\"127.0.0.1:5300\"]"),
            "4:14: 127.0.0.1:5300: this server listens there itself; queries would loop".to_owned(),
        ),
    ]);
}

#[test]
fn wrong_servers_with_https_are_refused() {
    let server = |text: &str| format!("zone = \".\"\nupstreams = [\"{text}\"]");
    let long = format!("/{}", "a".repeat(255));
    let path = |path: &str| format!("3:14: {path:?} is not a path such as \"/dns-query\"");
    refuses(&[
        (server("https://192.0.2.1/a b"), path("/a b")),
        (server("https://192.0.2.1/q?x=1"), path("/q?x=1")),
        (server("https://192.0.2.1/\u{e4}"), path("/\u{e4}")),
        (server(&format!("https://192.0.2.1{long}")), path(&long)),
        (
            format!("{}\nhttps-method = \"put\"", server("https://192.0.2.1")),
            "4:16: expected \"post\" or \"get\", found \"put\"".to_owned(),
        ),
        (
            format!("{}\nh3 = \"on\"", server("https://192.0.2.1")),
            "4:6: expected \"auto\" or \"off\", found \"on\"".to_owned(),
        ),
    ]);
}

#[test]
fn http3_that_a_server_announces_can_be_turned_off() {
    let https = |keys: &str| {
        let text = format!(
            "[[forward]]\nzone = \".\"\nupstreams = [\"https://192.0.2.1\", \"h3://192.0.2.2\"]\n\
             {keys}\n[resolver]\nmode = \"forward\"\n"
        );
        read_with(&text, &[]).unwrap()
    };
    let [auto, off] = ["h3 = \"auto\"", "h3 = \"off\""].map(https);
    assert_eq!(https("").forwards, auto.forwards);
    let ids =
        |config: &Config| config.forwards[0].peers().map(|peer| peer.id()).collect::<Vec<_>>();
    assert_ne!(ids(&auto)[0], ids(&off)[0], "another driver for the same server");
    assert_eq!(ids(&auto)[1], ids(&off)[1], "h3:// has nothing to announce");
    for config in [auto, off] {
        assert!(config.doubts.is_empty(), "{:?}", config.doubts);
        let effective = toml::to_string(&config.effective()).unwrap();
        assert_eq!(read_with(&effective, &[]).unwrap().forwards, config.forwards);
    }
    let idle = "[[forward]]\nzone = \".\"\nupstreams = [\"h3://192.0.2.1\"]\nh3 = \"off\"";
    let doubts = read_with(idle, &[]).unwrap().doubts;
    assert!(doubts[0].ends_with("`h3` has no effect: no server has https://"), "{doubts:?}");
}

#[test]
fn what_servers_with_tls_must_prove_makes_their_identity() {
    let pin = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let id = |server: &str, keys: &str| {
        let rule = rule(&format!("upstreams = [\"tls://{server}\"]\n{keys}"));
        rule.peer(&rule.upstreams[0]).id()
    };
    let plain = id("dns.example@192.0.2.1", "");
    assert_eq!(plain, id("DNS.example.@192.0.2.1:8853", "authentication = \"strict\""));
    for (server, keys) in [
        ("other.example@192.0.2.1", String::new()),
        ("192.0.2.1", String::new()),
        ("dns.example@192.0.2.1", "ca = \"ca.pem\"".to_owned()),
        ("dns.example@192.0.2.1", format!("pins = [\"{pin}\"]")),
        ("dns.example@192.0.2.1", "authentication = \"opportunistic\"".to_owned()),
        ("dns.example@192.0.2.1", "client-cert = \"c\"\nclient-key = \"k\"".to_owned()),
    ] {
        assert_ne!(plain, id(server, &keys), "{server} {keys}");
    }
    let rule = rule(&format!("upstreams = [\"tls://192.0.2.1\"]\nca = \"\"\npins = [\"{pin}\"]"));
    assert_eq!((rule.tls.ca, rule.tls.pins), (None, vec![upstream_tls::Pin([0; 32])]));
}

#[test]
fn wrong_settings_of_tls_are_refused() {
    let server = "zone = \".\"\nupstreams = [\"tls://192.0.2.1\"]\n";
    let pin = "expected the SHA-256 digest of a public key in base64, 44 characters long, found";
    let contradiction = "authentication = \"opportunistic\" accepts each certificate; remove it, or \
                         `ca` and `pins`";
    let cases = [
        (format!("{server}pins = [\"AAAA\"]"), format!("4:9: {pin} \"AAAA\"")),
        (format!("{server}pins = [\"{{}}\"]"), format!("4:9: {pin} \"{{}}\"")),
        (
            format!("{server}authentication = \"lax\""),
            "4:18: expected \"strict\" or \"opportunistic\", found \"lax\"".to_owned(),
        ),
        (
            format!("{server}ca = \"x\"\nauthentication = \"opportunistic\""),
            format!("4:6: {contradiction}"),
        ),
        (
            format!("{server}client-cert = \"x\""),
            "4:15: `client-cert` needs `client-key`".to_owned(),
        ),
        (
            format!("{server}client-key = \"x\""),
            "4:14: `client-key` needs `client-cert`".to_owned(),
        ),
    ];
    refuses(&cases);
}

#[test]
fn settings_of_tls_are_shown_and_read_again() {
    let text = "[[forward]]\nzone = \".\"\nupstreams = [\"tls://dns.example@192.0.2.1\"]\n\
                ca = \"/ca.pem\"\n[resolver]\nmode = \"forward\"\n";
    let config = read_with(text, &[]).unwrap();
    let shown = toml::to_string(&config.effective()).unwrap();
    assert!(shown.contains("\"tls://dns.example@192.0.2.1:853\""), "{shown}");
    assert_eq!(read_with(&shown, &[]).unwrap().forwards, config.forwards);
    let idle = "[[forward]]\nzone = \".\"\nupstreams = [\"192.0.2.1\"]\nca = \"/ca.pem\"\n";
    let doubts = read_with(idle, &[]).unwrap().doubts;
    assert!(
        doubts[0].ends_with("`ca` has no effect: no server of the rule is encrypted"),
        "{doubts:?}"
    );
}

#[test]
fn designated_servers_prove_the_address_of_the_server_that_designates_them() {
    let rule = rule(
        "upstreams = [\"192.0.2.1\", \"tcp://192.0.2.2\", \"tls://192.0.2.3\"]\n\
                     discover = \"auto\"\nca = \"ca.pem\"\nhttps-method = \"get\"\nh3 = \"off\"",
    );
    let terms: Vec<_> = rule.upstreams.iter().filter_map(|one| rule.discovery_of(one)).collect();
    assert_eq!(terms.len(), 2, "not of encrypted ones");
    let designated = |proof| DesignatedServer {
        addr: "198.51.100.1:8443".parse().unwrap(),
        transport: UpstreamTransport::Https,
        path: "/q".into(),
        proof,
    };
    let verified = terms[0].peer(&designated(DesignationProof::Verified));
    assert_eq!(verified.name, PeerName::Address("192.0.2.1".parse().unwrap()));
    assert_eq!(verified.tls, rule.tls);
    let same = terms[0].peer(&designated(DesignationProof::SameAddress));
    assert_eq!(same.tls.authentication, Authentication::Opportunistic);
    assert_ne!(verified.id(), same.id());
    let shown = designated(DesignationProof::Verified).to_string();
    assert_eq!(shown, "https://198.51.100.1:8443/q");
}

#[test]
fn an_address_is_proof_only_where_no_certificate_can_be_demanded() {
    let accepts = |server: &str, keys: &str| {
        let rule = rule(&format!("upstreams = [\"{server}\"]\n{keys}"));
        rule.discovery_of(&rule.upstreams[0]).unwrap().accepts_same_address()
    };
    let pin = format!("pins = [\"{}=\"]", "A".repeat(43));
    for (server, keys, expected) in [
        ("192.168.1.1", "discover = \"auto\"".to_owned(), true),
        ("fe80::1", "discover = \"auto\"".to_owned(), true),
        ("192.168.1.1", "discover = \"strict\"".to_owned(), false),
        ("192.168.1.1", "discover = \"auto\"\nca = \"ca.pem\"".to_owned(), false),
        ("192.168.1.1", format!("discover = \"auto\"\n{pin}"), false),
        ("9.9.9.9", "discover = \"auto\"".to_owned(), false),
        ("9.9.9.9", "discover = \"auto\"\nauthentication = \"opportunistic\"".to_owned(), true),
        ("9.9.9.9", "discover = \"strict\"\nauthentication = \"opportunistic\"".to_owned(), true),
    ] {
        assert_eq!(accepts(server, &keys), expected, "{server} {keys}");
    }
}

#[test]
fn discovery_is_read_shown_and_doubted() {
    let text = |upstream: &str, keys: &str| {
        format!(
            "[[forward]]\nzone = \".\"\nupstreams = [\"{upstream}\"]\n{keys}\n[resolver]\n\
             mode = \"forward\"\n"
        )
    };
    let config = |upstream: &str, keys: &str| read_with(&text(upstream, keys), &[]).unwrap();
    assert_eq!(config("192.0.2.1", "").forwards[0].discover, Discovery::Off);
    for word in ["off", "auto", "strict"] {
        let config = config("192.0.2.1", &format!("discover = \"{word}\""));
        let effective = toml::to_string(&config.effective()).unwrap();
        assert!(effective.contains(&format!("discover = \"{word}\"")), "{effective}");
        assert_eq!(read_with(&effective, &[]).unwrap().forwards, config.forwards);
    }
    let proofs = "discover = \"strict\"\nca = \"/ca.pem\"\nh3 = \"off\"\nhttps-method = \"get\"";
    assert!(config("192.0.2.1", proofs).doubts.is_empty(), "they are of what is found");
    let doubts = config("tls://192.0.2.1", "discover = \"auto\"").doubts;
    assert!(
        doubts[0].ends_with("`discover` has no effect: all servers of the rule are encrypted"),
        "{doubts:?}"
    );
    refuses(&[(
        "zone = \".\"\nupstreams = [\"192.0.2.1\"]\ndiscover = \"on\"".to_owned(),
        "4:12: expected \"off\", \"auto\" or \"strict\", found \"on\"".to_owned(),
    )]);
}
