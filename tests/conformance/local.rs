//! Answers of the server itself: local records, special-use names, CHAOS, ANY, and refusals.

use avocet_wire::edns::option;
use avocet_wire::header::{AA, RA};
use avocet_wire::{Class, Ede, Rcode};

use crate::harness::{Ask, Reply, Scripted, Server, Setup, Tcp, Udp};

const RECORDS: &str = r#"
[[record]]
name = "router.lan"
type = "A"
values = ["192.168.1.1", "192.168.1.2"]
ttl-secs = 77
[[record]]
name = "router.lan"
type = "AAAA"
values = ["fd00::1"]
[[record]]
name = "*.apps.lan"
type = "A"
values = ["192.168.1.9"]
[[record]]
name = "fixed.apps.lan"
type = "TXT"
values = ['"v=1" "two words"']
[[record]]
name = "a.lan"
type = "CNAME"
values = ["b.lan"]
[[record]]
name = "b.lan"
type = "CNAME"
values = ["www.outside.example"]
[[record]]
name = "c.lan"
type = "CNAME"
values = ["router.lan"]
[[record]]
name = "printer.lan"
type = "TYPE65280"
values = ['\# 3 010203']
"#;

fn server(upstream: &Scripted) -> Server {
    Setup::forwarding_to(upstream.addr).tables(RECORDS).start()
}

#[track_caller]
fn check(server: &Server, qname: &str, qtype: &str, rcode: Rcode, expected: &[&str]) -> Reply {
    let reply = server.ask(&Ask::of(qname, qtype));
    assert_eq!(
        (reply.rcode, reply.texts()),
        (rcode, expected.iter().map(ToString::to_string).collect()),
        "{qname} {qtype}"
    );
    reply
}

#[test]
fn local_records_answer_by_type_wildcard_alias_and_reverse_name() {
    let upstream = Scripted::plain(60);
    let server = server(&upstream);
    let good = Rcode::NOERROR;
    let reply = check(&server, "Router.LAN.", "A", good, &["192.168.1.1", "192.168.1.2"]);
    assert_eq!((reply.ttl(), reply.header.flags & (AA | RA)), (Some(77), AA | RA));
    check(&server, "router.lan.", "AAAA", good, &["fd00::1"]);
    let reply = check(&server, "router.lan.", "MX", good, &[]);
    let (soa, ttl_secs) = &reply.authority[0];
    let shown = "router.lan. SOA router.lan. nobody.invalid. 1 3600 1200 604800 77";
    assert_eq!(
        (format!("{soa:?}"), *ttl_secs),
        (shown.to_owned(), 77),
        "no zone of this network is above it"
    );
    check(&server, "x.apps.lan.", "A", good, &["192.168.1.9"]);
    check(&server, "a.b.apps.lan.", "A", good, &["192.168.1.9"]);
    check(&server, "fixed.apps.lan.", "TXT", good, &["\"v=1\" \"two words\""]);
    check(&server, "fixed.apps.lan.", "A", good, &[]);
    check(&server, "printer.lan.", "TYPE65280", good, &["\\# 3 010203"]);
    check(&server, "c.lan.", "AAAA", good, &["fd00::1", "router.lan."]);
    check(&server, "1.1.168.192.in-addr.arpa.", "PTR", good, &["router.lan."]);
    let six = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa.";
    check(&server, six, "PTR", good, &["router.lan."]);
    assert!(upstream.received().is_empty());
}

#[test]
fn a_local_alias_leads_to_names_of_upstreams() {
    let upstream = Scripted::plain(60);
    let server = server(&upstream);
    for turn in ["miss", "hit"] {
        let reply = server.ask(&Ask::of("a.lan.", "A").edns(1232));
        let owners: Vec<_> =
            reply.answer.iter().map(|(record, _)| record.rtype.to_string()).collect();
        assert_eq!(owners, ["CNAME", "CNAME", "A"], "{turn}");
        assert_eq!(reply.texts(), ["192.0.2.1", "b.lan.", "www.outside.example."], "{turn}");
        assert!(reply.opt.is_some());
    }
    assert_eq!(upstream.count_of("www.outside.example."), 1);
    assert_eq!(upstream.count_of("a.lan."), 0);
}

#[test]
fn a_local_alias_to_a_special_name_does_not_leak_it() {
    let upstream = Scripted::plain(60);
    let record = "[[record]]\nname = \"leak.lan\"\ntype = \"CNAME\"\nvalues = [\"x.onion.\"]\n";
    let server = Setup::forwarding_to(upstream.addr).tables(record).start();
    check(&server, "leak.lan.", "A", Rcode::NXDOMAIN, &["x.onion."]);
    assert!(upstream.received().is_empty());
}

/// An upstream whose names lead to local names, for which the server has answers.
fn stranger() -> Scripted {
    Scripted::start(|query| {
        let answer = query.answer();
        match query.qname().as_str() {
            "own.example." => answer
                .own(60, "CNAME", "router.lan.")
                .record("router.lan.", 60, "A", "203.0.113.66")
                .send(),
            "unknown.example." => answer.own(60, "CNAME", "unknown.lan.").send(),
            "above.example." => answer.own(60, "CNAME", "apps.lan.").send(),
            "onion.example." => answer.own(60, "CNAME", "x.onion.").send(),
            "round.example." => answer.own(60, "CNAME", "a.lan.").send(),
            "x.branch.example." => answer
                .record("branch.example.", 60, "DNAME", "apps.lan.")
                .own(60, "CNAME", "x.apps.lan.")
                .send(),
            _ => answer.own(60, "A", "192.0.2.1").send(),
        }
    })
}

#[test]
fn aliases_of_others_into_names_of_this_network_end_here() {
    let recursing =
        "[resolver]\nmode = \"recurse\"\nquery-private = true\n[dnssec]\nvalidate = false\n";
    for more in ["", recursing] {
        let upstream = stranger();
        let setup =
            Setup::forwarding_to(upstream.addr).server("local-zones = [\"lan\"]").tables(RECORDS);
        let server = setup.tables(more).start();
        let check = |name: &str, qtype: &str, rcode: Rcode, expected: &[&str]| {
            for ask in [Ask::of(name, qtype), Ask::of(name, qtype).edns(1232).dnssec_ok()] {
                for turn in ["miss", "hit"] {
                    let reply = server.ask(&ask);
                    assert_eq!(
                        (reply.rcode, &reply.texts()[..]),
                        (
                            rcode,
                            expected.iter().map(ToString::to_string).collect::<Vec<_>>().as_slice()
                        ),
                        "{turn} {name} {more}"
                    );
                    assert_eq!(
                        reply.authority.len(),
                        usize::from(
                            reply
                                .answer
                                .iter()
                                .all(|(record, _)| record.rtype.to_string() != qtype)
                        ),
                        "{name}"
                    );
                    assert_eq!(reply.header.flags & AA, 0, "{name}");
                }
            }
        };
        let good = Rcode::NOERROR;
        check("own.example.", "A", good, &["192.168.1.1", "192.168.1.2", "router.lan."]);
        check("own.example.", "AAAA", good, &["fd00::1", "router.lan."]);
        check("own.example.", "MX", good, &["router.lan."]);
        check("unknown.example.", "A", Rcode::NXDOMAIN, &["unknown.lan."]);
        check("above.example.", "A", good, &["apps.lan."]);
        check("onion.example.", "A", Rcode::NXDOMAIN, &["x.onion."]);
        check(
            "round.example.",
            "A",
            good,
            &["192.0.2.1", "a.lan.", "b.lan.", "www.outside.example."],
        );
        check("x.branch.example.", "A", good, &["192.168.1.9", "apps.lan.", "x.apps.lan."]);
        for query in upstream.received() {
            let name = query.qname();
            assert!(
                !name.ends_with("lan.") && !name.ends_with("onion."),
                "{name} is asked upstream"
            );
        }
    }
}

#[test]
fn special_names_stay_here_unless_a_rule_or_the_configuration_says_otherwise() {
    let upstream = Scripted::plain(60);
    let server =
        Setup::forwarding_to(upstream.addr).rule("corp.test", &[upstream.addr], "").start();
    check(&server, "localhost.", "A", Rcode::NOERROR, &["127.0.0.1"]);
    check(&server, "sub.localhost.", "AAAA", Rcode::NOERROR, &["::1"]);
    check(&server, "1.0.0.127.in-addr.arpa.", "PTR", Rcode::NOERROR, &["localhost."]);
    for name in [
        "x.test.",
        "x.invalid.",
        "x.onion.",
        "x.local.",
        "9.9.9.10.in-addr.arpa.",
        "x.home.arpa.",
        "1.16.172.in-addr.arpa.",
    ] {
        let reply = check(&server, name, "PTR", Rcode::NXDOMAIN, &[]);
        assert_eq!(reply.authority.len(), 1, "{name}: an SOA record");
    }
    assert!(upstream.received().is_empty());
    check(&server, "www.corp.test.", "A", Rcode::NOERROR, &["192.0.2.1"]);
    let open = Setup::forwarding_to(upstream.addr).server("local-names = false").start();
    check(&open, "x.test.", "A", Rcode::NOERROR, &["192.0.2.1"]);
}

#[test]
fn the_server_answers_about_itself_as_configured() {
    let chaos = |qname: &str| Ask::of(qname, "TXT").class(Class::CH);
    let talking =
        Setup::plain().server("version = \"v 1\"\nid-server = \"gw7\"\nnsid = \"gw7\"").start();
    for (qname, text) in
        [("version.bind.", "\"v 1\""), ("ID.Server.", "\"gw7\""), ("hostname.bind.", "\"gw7\"")]
    {
        assert_eq!(talking.ask(&chaos(qname)).texts(), [text]);
    }
    let nsid = Ask::of("localhost.", "A").edns(1232).option(option::NSID, b"");
    assert_eq!(talking.ask(&nsid).option(option::NSID), Some(&b"gw7"[..]));
    let silent = Setup::plain().server("version = \"\"").start();
    for qname in ["version.bind.", "id.server.", "authors.bind."] {
        assert_eq!(silent.ask(&chaos(qname)).rcode, Rcode::REFUSED);
    }
    assert_eq!(silent.ask(&nsid).option(option::NSID), None);
}

#[test]
fn any_is_answered_with_as_little_as_can_be() {
    let upstream = Scripted::plain(60);
    let server = server(&upstream);
    for _ in 0..2 {
        let reply =
            check(&server, "www.outside.example.", "ANY", Rcode::NOERROR, &["\"RFC8482\" \"\""]);
        assert_eq!(reply.answer.len(), 1);
    }
    assert!(upstream.received().is_empty());
}

#[test]
fn without_rd_only_what_is_in_the_cache_is_answered() {
    let upstream = Scripted::plain(60);
    let server = server(&upstream);
    let ask = Ask::of("www.outside.example.", "A").flags(0);
    assert_eq!(server.ask(&ask).rcode, Rcode::REFUSED);
    assert!(upstream.received().is_empty());
    server.ask(&Ask::of("www.outside.example.", "A"));
    for _ in 0..2 {
        let reply = server.ask(&ask);
        assert_eq!((reply.texts(), reply.header.flags & 0x100), (vec!["192.0.2.1".to_owned()], 0));
    }
    assert_eq!(server.ask(&Ask::of("router.lan.", "A").flags(0)).answer.len(), 2);
}

#[test]
fn clients_outside_the_list_are_refused_with_no_more_octets_than_they_sent() {
    let upstream = Scripted::plain(60);
    let setup = Setup::forwarding_to(upstream.addr).listen("0.0.0.0", "127.0.0.1");
    let server =
        setup.server("allow = [\"127.0.0.2\"]\nnsid = \"a rather long identifier\"").start();
    let plain = Ask::of("www.outside.example.", "A");
    let edns = plain.clone().edns(1232);
    let asks = [
        plain.clone(),
        edns.clone(),
        edns.clone().dnssec_ok(),
        edns.clone().option(option::NSID, b""),
        edns.clone().option(option::COOKIE, b"12345678"),
        edns.clone().option(option::PADDING, &[0; 100]),
        Ask::of("version.bind.", "TXT").class(Class::CH),
        Ask::of("router.lan.", "ANY"),
        edns.edns_version(1, 0),
    ];
    for ask in asks {
        let reply = server.ask(&ask);
        assert_eq!(reply.rcode, Rcode::REFUSED);
        assert!(
            reply.len <= ask.octets().len(),
            "{} octets for {}: {ask:?}",
            reply.len,
            ask.octets().len()
        );
    }
    let padded = plain.clone().edns(1232).option(option::PADDING, &[0; 100]);
    assert_eq!(server.ask(&padded).ede(), Some(Ede::PROHIBITED.0));
    assert!(Tcp::to(server.addr).ends(), "over TCP it is not even listened to");
    assert!(upstream.received().is_empty());
    let listed = Udp::from("127.0.0.2:0".parse().expect("an address"), server.addr);
    assert_eq!(listed.ask(&plain).texts(), ["192.0.2.1"]);
}

#[test]
fn replies_leave_from_the_address_that_was_asked() {
    let upstream = Scripted::plain(60);
    for (listen, asked) in
        [("0.0.0.0", "127.0.0.2"), ("0.0.0.0", "127.1.2.3"), ("::1", "::1"), ("::", "::1")]
    {
        let server = Setup::forwarding_to(upstream.addr).listen(listen, asked).start();
        // The client's socket is connected: a reply from another address would not arrive.
        for _ in 0..2 {
            assert_eq!(server.ask(&Ask::of("www.outside.example.", "A")).texts(), ["192.0.2.1"]);
            assert_eq!(
                server.ask_tcp(&Ask::of("www.outside.example.", "A")).texts(),
                ["192.0.2.1"]
            );
        }
    }
}
