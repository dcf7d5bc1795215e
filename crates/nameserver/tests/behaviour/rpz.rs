//! Response policy zones on the query path: every trigger and action, their clients, and their
//! precedence over lists and rules.

use crate::asked;

use std::net::SocketAddr;
use std::path::PathBuf;

use avocet_nameserver::InProcess;
use avocet_nameserver::flush::FlushExtent;
use avocet_wire::Rtype;

use asked::{Over, ask_over, wire};

const HEAD: &str = "$TTL 30\n@ SOA rpz.example. nobody.example. 1 2 3 4 5\n";

const CONFIGURATION: &str = r#"
[resolver]
mode = "forward"

[[forward]]
zone = "."
upstreams = ["192.0.2.1"]

[policy]
block-answer = "zero"
block-ttl-secs = 20

[[group]]
name = "free"
clients = ["10.0.5.5"]
lists = []

[[record]]
name = "local.example"
type = "A"
values = ["10.2.2.2"]
"#;

struct Server {
    inner: InProcess,
    directory: PathBuf,
}

impl Server {
    /// A server with these lists, each with a name, additional keys and a text, and additional
    /// configuration.
    fn start(test: &str, lists: &[(&str, &str, &str)], more: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("avocet-rpz-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut configuration = format!("{CONFIGURATION}{more}");
        for (name, keys, text) in lists {
            let path = directory.join(name);
            std::fs::write(&path, text).unwrap();
            configuration +=
                &format!("[[list]]\nname = \"{name}\"\nfile = \"{}\"\n{keys}\n", path.display());
        }
        let inner = InProcess::new(&configuration, SocketAddr::from((ANYONE, 4000))).unwrap();
        for (name, address) in [
            ("ok.example.", [192, 0, 2, 7]),
            ("www.bad.example.", [192, 0, 2, 8]),
            ("bad.example.", [192, 0, 2, 9]),
            ("fine.bad.example.", [192, 0, 2, 10]),
            ("local.example.", [192, 0, 2, 11]),
            ("hosted.example.", [198, 51, 100, 3]),
            ("walled.example.", [192, 0, 2, 99]),
            ("hosted.example.garden.example.", [192, 0, 2, 98]),
            ("www.bad.example.garden.example.", [192, 0, 2, 97]),
        ] {
            inner.learn(&wire(name), Rtype::A.0, 300, &[&address]);
        }
        for (name, target) in [
            ("alias.example.", "www.bad.example."),
            ("alias2.example.", "alias.example."),
            ("to.example.", "hosted.example."),
        ] {
            inner.learn(&wire(name), Rtype::CNAME.0, 300, &[&wire(target)]);
        }
        Self { inner, directory }
    }

    fn rpz(test: &str, zone: &str) -> Self {
        Self::start(test, &[("rpz", "format = \"rpz\"", &format!("{HEAD}{zone}"))], "")
    }

    /// RCODE, answers and the extended error, in one line.
    fn ask(&mut self, client: [u8; 4], name: &str, rtype: Rtype) -> String {
        asked::ask(&mut self.inner, client, name, rtype)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

const ANYONE: [u8; 4] = [10, 0, 0, 1];
const FREE: [u8; 4] = [10, 0, 5, 5];
const A: Rtype = Rtype::A;

/// Sends each query three times: the first answer and the cached ones must be the same.
#[track_caller]
fn check(server: &mut Server, rows: &[([u8; 4], &str, Rtype, &str)]) {
    for round in 1..=3 {
        for (client, name, rtype, answer) in rows {
            assert_eq!(
                server.ask(*client, name, *rtype),
                *answer,
                "{client:?} {name} {rtype}, round {round}"
            );
        }
    }
}

#[test]
fn each_action_is_taken_for_whom_the_zone_holds() {
    let mut server = Server::rpz(
        "actions",
        "bad.example CNAME .\n*.bad.example CNAME *.\nfine.bad.example CNAME rpz-passthru.\ndrop.example CNAME rpz-drop.\n\
         tcp.example CNAME rpz-tcp-only.\nmoved.example CNAME walled.example.\n*.moved.example CNAME *.garden.example.\n\
         data.example A 192.0.2.50\ndata.example 9 A 192.0.2.51\ndata.example TXT why\nlocal.example CNAME .\n\
         www.bad.example.moved.example CNAME *.garden.example.\n",
    );
    check(
        &mut server,
        &[
            (ANYONE, "ok.example.", A, "NOERROR 300 192.0.2.7"),
            (ANYONE, "bad.example.", A, "NXDOMAIN [17 list rpz, qname]"),
            (ANYONE, "BAD.example.", Rtype::MX, "NXDOMAIN [17 list rpz, qname]"),
            (ANYONE, "www.bad.example.", A, "NOERROR [17 list rpz, qname]"),
            (ANYONE, "fine.bad.example.", A, "NOERROR 300 192.0.2.10"),
            (ANYONE, "drop.example.", A, "nothing"),
            (ANYONE, "tcp.example.", A, "NOERROR TC"),
            (
                ANYONE,
                "moved.example.",
                A,
                "NOERROR 30 walled.example. 300 192.0.2.99 [17 list rpz, qname]",
            ),
            (
                ANYONE,
                "moved.example.",
                Rtype::CNAME,
                "NOERROR 30 walled.example. [17 list rpz, qname]",
            ),
            (ANYONE, "data.example.", A, "NOERROR 30 192.0.2.50 9 192.0.2.51 [17 list rpz, qname]"),
            (ANYONE, "data.example.", Rtype::TXT, "NOERROR 30 \"why\" [17 list rpz, qname]"),
            (ANYONE, "data.example.", Rtype::AAAA, "NOERROR [17 list rpz, qname]"),
            (ANYONE, "local.example.", A, "NOERROR 300 10.2.2.2"),
            (FREE, "bad.example.", A, "NOERROR 300 192.0.2.9"),
            (FREE, "www.bad.example.", A, "NOERROR 300 192.0.2.8"),
        ],
    );
}

#[test]
fn a_garden_takes_names_in_and_refuses_those_that_do_not_fit() {
    let mut server = Server::rpz(
        "garden",
        "*.bad.example CNAME *.garden.example.\n*.long.example CNAME *.garden.example.\n",
    );
    let label = "a".repeat(58);
    let long = format!("{label}.{label}.{label}.{label}.long.example.");
    check(
        &mut server,
        &[
            (
                ANYONE,
                "www.bad.example.",
                A,
                "NOERROR 30 www.bad.example.garden.example. 300 192.0.2.97 [17 list rpz, qname]",
            ),
            (ANYONE, &long, A, "YXDOMAIN [17 list rpz, qname]"),
        ],
    );
}

#[test]
fn a_name_behind_an_alias_is_a_trigger_in_its_turn() {
    let mut server = Server::rpz(
        "chain",
        "www.bad.example CNAME .\n32.3.100.51.198.rpz-ip CNAME walled.example.\n",
    );
    check(
        &mut server,
        &[
            (ANYONE, "alias.example.", A, "NXDOMAIN 300 www.bad.example. [17 list rpz, qname]"),
            (
                ANYONE,
                "alias2.example.",
                A,
                "NXDOMAIN 300 alias.example. 300 www.bad.example. [17 list rpz, qname]",
            ),
            (ANYONE, "alias.example.", Rtype::CNAME, "NOERROR 300 www.bad.example."),
            (
                ANYONE,
                "to.example.",
                A,
                "NOERROR 300 hosted.example. 30 walled.example. 300 192.0.2.99 [17 list rpz, ip]",
            ),
            (
                ANYONE,
                "hosted.example.",
                A,
                "NOERROR 30 walled.example. 300 192.0.2.99 [17 list rpz, ip]",
            ),
            (FREE, "alias.example.", A, "NOERROR 300 www.bad.example. 300 192.0.2.8"),
        ],
    );
    let mut server =
        Server::rpz("chain-first", "alias.example CNAME rpz-passthru.\nwww.bad.example CNAME .\n");
    check(
        &mut server,
        &[(ANYONE, "alias.example.", A, "NOERROR 300 www.bad.example. 300 192.0.2.8")],
    );
}

/// draft-vixie-dnsop-dns-rpz-00 §6: rules do not apply to synthetic data.
#[test]
fn what_a_zone_gives_is_not_judged_again() {
    let first = format!(
        "{HEAD}bad.example CNAME walled.example.\nwalled.example CNAME .\ndata.example A 192.0.2.50\n"
    );
    let second =
        format!("{HEAD}32.50.2.0.192.rpz-ip CNAME .\n32.99.2.0.192.rpz-ip CNAME rpz-drop.\n");
    let keys = "format = \"rpz\"";
    for (test, zones) in [("made", [&first, &second]), ("made-turned", [&second, &first])] {
        let mut server =
            Server::start(test, &[("one", keys, zones[0]), ("other", keys, zones[1])], "");
        // The original answer, for which the zone with addresses must wait if it is the first.
        server.inner.learn(&wire("data.example."), A.0, 300, &[&[198, 51, 100, 9]]);
        let list = if test == "made" { "one" } else { "other" };
        check(
            &mut server,
            &[
                (
                    ANYONE,
                    "bad.example.",
                    A,
                    &format!("NOERROR 30 walled.example. 300 192.0.2.99 [17 list {list}, qname]"),
                ),
                (
                    ANYONE,
                    "data.example.",
                    A,
                    &format!("NOERROR 30 192.0.2.50 [17 list {list}, qname]"),
                ),
            ],
        );
    }
}

#[test]
fn an_earlier_zone_may_have_to_wait_for_the_answer() {
    let first =
        format!("{HEAD}24.0.100.51.198.rpz-ip CNAME rpz-drop.\n32.9.2.0.192.rpz-ip CNAME *.\n");
    let second = format!(
        "{HEAD}hosted.example CNAME .\nbad.example CNAME .\nok.example CNAME rpz-tcp-only.\ndata.example A 192.0.2.50\n"
    );
    let keys = "format = \"rpz\"";
    let mut server =
        Server::start("order", &[("first", keys, &first), ("second", keys, &second)], "");
    check(
        &mut server,
        &[
            (ANYONE, "hosted.example.", A, "nothing"),
            (ANYONE, "bad.example.", A, "NOERROR [17 list first, ip]"),
            (ANYONE, "ok.example.", A, "NOERROR TC"),
        ],
    );
    let mut server =
        Server::start("order-turned", &[("first", keys, &second), ("second", keys, &first)], "");
    check(
        &mut server,
        &[
            (ANYONE, "hosted.example.", A, "NXDOMAIN [17 list first, qname]"),
            (ANYONE, "bad.example.", A, "NXDOMAIN [17 list first, qname]"),
            (ANYONE, "data.example.", A, "NOERROR 30 192.0.2.50 [17 list first, qname]"),
        ],
    );
}

#[test]
fn who_serves_a_name_is_a_trigger_too() {
    let mut server = Server::rpz(
        "servers",
        "ns.evil.example.rpz-nsdname CNAME .\n*.shady.example.rpz-nsdname CNAME *.\n32.53.2.0.192.rpz-nsip A 192.0.2.77\n\
         www.bad.example CNAME rpz-passthru.\n",
    );
    server.inner.learn_delegation(&wire("bad.example."), &wire("ns.evil.example."), [192, 0, 2, 1]);
    server.inner.learn_delegation(
        &wire("hosted.example."),
        &wire("a.shady.example."),
        [192, 0, 2, 2],
    );
    server.inner.learn_delegation(&wire("ok.example."), &wire("ns.ok.example."), [192, 0, 2, 53]);
    check(
        &mut server,
        &[
            (ANYONE, "bad.example.", A, "NXDOMAIN [17 list rpz, nsdname]"),
            (ANYONE, "fine.bad.example.", A, "NXDOMAIN [17 list rpz, nsdname]"),
            (ANYONE, "www.bad.example.", A, "NOERROR 300 192.0.2.8"),
            (ANYONE, "hosted.example.", A, "NOERROR [17 list rpz, nsdname]"),
            (ANYONE, "to.example.", A, "NOERROR 300 hosted.example. [17 list rpz, nsdname]"),
            (ANYONE, "ok.example.", A, "NOERROR 30 192.0.2.77 [17 list rpz, nsip]"),
            (ANYONE, "walled.example.", A, "NOERROR 300 192.0.2.99"),
            (FREE, "bad.example.", A, "NOERROR 300 192.0.2.9"),
        ],
    );
}

#[test]
fn what_depends_on_the_client_is_kept_for_none_but_its_like() {
    let mut server = Server::rpz(
        "clients",
        "32.2.0.0.10.rpz-client-ip CNAME .\n24.0.1.0.10.rpz-client-ip A 192.0.2.60\n32.9.1.0.10.rpz-client-ip CNAME rpz-passthru.\n\
         ok.example CNAME *.\n",
    );
    let ([first, second, third, fourth], ok) =
        ([[10, 0, 0, 2], [10, 0, 1, 1], [10, 0, 1, 9], [10, 0, 0, 3]], "ok.example.");
    check(
        &mut server,
        &[
            (first, ok, A, "NXDOMAIN [17 list rpz, client-ip]"),
            (second, ok, A, "NOERROR 30 192.0.2.60 [17 list rpz, client-ip]"),
            (third, ok, A, "NOERROR 300 192.0.2.7"),
            (fourth, ok, A, "NOERROR [17 list rpz, qname]"),
            (first, "bad.example.", A, "NXDOMAIN [17 list rpz, client-ip]"),
            (fourth, "bad.example.", A, "NOERROR 300 192.0.2.9"),
            (second, "www.bad.example.", A, "NOERROR 30 192.0.2.60 [17 list rpz, client-ip]"),
            (third, "www.bad.example.", A, "NOERROR 300 192.0.2.8"),
        ],
    );
}

#[test]
fn rules_and_allowing_lists_go_before_zones_and_lists_in_their_order() {
    let zone = format!(
        "{HEAD}www.bad.example CNAME .\nbad.example CNAME .\nok.example CNAME .\nhosted.example CNAME .\nfine.bad.example CNAME rpz-passthru.\n"
    );
    let block = "||www.bad.example^\n||fine.bad.example^\n";
    let rules = "[[rule]]\nname = \"free\"\nwhen = 'qname == \"ok.example\"'\naction = \"allow\"\n\
                 [[rule]]\nname = \"named\"\nwhen = 'list(\"rpz\") && qname == \"hosted.example\"'\naction = \"block\"\nanswer = \"refused\"\n";
    let rpz = ("rpz", "format = \"rpz\"", zone.as_str());
    let allow = ("let", "kind = \"allow\"", "bad.example\n");
    let mut server = Server::start("beside", &[rpz, ("ads", "", block), allow], rules);
    check(
        &mut server,
        &[
            (ANYONE, "ok.example.", A, "NOERROR 300 192.0.2.7"),
            (ANYONE, "bad.example.", A, "NOERROR 300 192.0.2.9"),
            (ANYONE, "hosted.example.", A, "REFUSED [15 rule named]"),
            (ANYONE, "www.bad.example.", A, "NXDOMAIN [17 list rpz, qname]"),
            // A policy zone exempts a name from policy zones only.
            (ANYONE, "fine.bad.example.", A, "NOERROR 20 0.0.0.0 [17 list ads]"),
        ],
    );
    let mut server = Server::start("beside-turned", &[("ads", "", block), rpz], "");
    check(&mut server, &[(ANYONE, "www.bad.example.", A, "NOERROR 20 0.0.0.0 [17 list ads]")]);
}

#[test]
fn a_zone_is_known_by_its_soa_and_then_may_only_block() {
    let zone =
        format!("$ORIGIN rpz.example.\n{HEAD}bad.example CNAME .\nok.example A 192.0.2.50\n");
    let mut server = Server::start("detected", &[("zone", "", &zone)], "");
    check(
        &mut server,
        &[
            (ANYONE, "bad.example.", A, "NXDOMAIN [17 list zone, qname of zone rpz.example.]"),
            (ANYONE, "ok.example.", A, "NOERROR 300 192.0.2.7"),
        ],
    );
    let mut server = Server::start("trusted", &[("zone", "rewrites = true", &zone)], "");
    check(
        &mut server,
        &[(
            ANYONE,
            "ok.example.",
            A,
            "NOERROR 30 192.0.2.50 [17 list zone, qname of zone rpz.example.]",
        )],
    );
}

#[test]
fn a_zone_that_lets_names_through_is_not_of_kind_allow() {
    let text = "[[list]]\nname = \"z\"\nfile = \"z\"\nformat = \"rpz\"\nkind = \"allow\"\n";
    let result = InProcess::new(text, SocketAddr::from((ANYONE, 1)));
    let error = result.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("determines itself what it blocks"), "{error}");
}

#[test]
fn over_tcp_a_trigger_that_truncates_leaves_the_decision_to_zones_and_lists_behind_it() {
    let tcp_only = "bad.example CNAME rpz-tcp-only.\nok.example CNAME rpz-tcp-only.\n*.example CNAME .\n\
                    hosted.example CNAME rpz-tcp-only.\n";
    let lists = [
        ("first", "format = \"rpz\"", &format!("{HEAD}{tcp_only}")[..]),
        (
            "second",
            "format = \"rpz\"",
            &format!("{HEAD}bad.example CNAME .\n24.0.100.51.198.rpz-ip CNAME *.\n"),
        ),
        ("plain", "", "ok.example\n"),
    ];
    let mut server = Server::start("tcp-only", &lists, "");
    for (name, answer) in [
        ("bad.example.", "NXDOMAIN [17 list second, qname]"),
        ("hosted.example.", "NOERROR [17 list second, ip]"),
        ("ok.example.", "NOERROR 20 0.0.0.0 [17 list plain]"),
    ] {
        for _ in 1..=2 {
            assert_eq!(server.ask(ANYONE, name, A), "NOERROR TC", "{name}");
            assert_eq!(ask_over(Over::Tcp, &mut server.inner, (ANYONE, name, A)), answer, "{name}");
        }
    }
}

#[test]
fn the_target_of_a_service_is_a_trigger_too_but_lets_nothing_pass() {
    let mut server = Server::rpz(
        "services",
        "bad.example CNAME .\n*.bad.example CNAME .\nfine.example CNAME rpz-passthru.\n24.0.100.51.198.rpz-ip CNAME *.\n",
    );
    let service =
        |target: &str, hint: [u8; 4]| [&[0, 1][..], &wire(target), &[0, 4, 0, 4], &hint].concat();
    for (name, data) in [
        (
            "hidden.example.",
            [service("fine.example.", [192, 0, 2, 1]), service("x.bad.example.", [192, 0, 2, 2])],
        ),
        (
            "near.example.",
            [service("fine.example.", [198, 51, 100, 3]), service("fine.example.", [192, 0, 2, 2])],
        ),
        (
            "open.example.",
            [service("fine.example.", [192, 0, 2, 1]), service("ok.example.", [192, 0, 2, 2])],
        ),
    ] {
        server.inner.learn(&wire(name), Rtype::HTTPS.0, 300, &[&data[0], &data[1]]);
    }
    server.inner.learn(
        &wire("to-hidden.example."),
        Rtype::CNAME.0,
        300,
        &[&wire("hidden.example.")],
    );
    check(
        &mut server,
        &[
            (ANYONE, "hidden.example.", Rtype::HTTPS, "NXDOMAIN [17 list rpz, qname]"),
            (
                ANYONE,
                "to-hidden.example.",
                Rtype::HTTPS,
                "NXDOMAIN 300 hidden.example. [17 list rpz, qname]",
            ),
            (ANYONE, "near.example.", Rtype::HTTPS, "NOERROR [17 list rpz, ip]"),
            (
                ANYONE,
                "open.example.",
                Rtype::HTTPS,
                "NOERROR 300 1 fine.example. ipv4hint=192.0.2.1 300 1 ok.example. ipv4hint=192.0.2.2",
            ),
        ],
    );
}

#[test]
fn the_servers_of_a_stub_zone_are_triggers() {
    let mut server =
        Server::rpz("stub", "32.54.2.0.192.rpz-nsip CNAME .\nns.corp.rpz-nsdname CNAME *.\n");
    let text = "[resolver]\nmode = \"recurse\"\n[dnssec]\nvalidate = false\n\
                [[stub]]\nzone = \"corp\"\nservers = [\"192.0.2.53\"]\n\
                [[stub]]\nzone = \"shady.corp\"\nservers = [\"192.0.2.54\"]\n\
                [[list]]\nname = \"rpz\"\nformat = \"rpz\"\nfile = \"FILE\"\n";
    let file = std::fs::read_dir(&server.directory).unwrap().next().unwrap().unwrap().path();
    server.inner = InProcess::new(
        &text.replace("FILE", &file.to_string_lossy()),
        ([10, 0, 0, 1], 4000).into(),
    )
    .unwrap();
    for name in ["www.shady.corp.", "www.corp.", "late.corp."] {
        server.inner.learn(&wire(name), Rtype::A.0, 300, &[&[192, 0, 2, 7]]);
    }
    server.inner.learn(&wire("to.corp."), Rtype::CNAME.0, 300, &[&wire("www.shady.corp.")]);
    check(
        &mut server,
        &[
            (ANYONE, "www.corp.", A, "NOERROR 300 192.0.2.7"),
            (ANYONE, "www.shady.corp.", A, "NXDOMAIN [17 list rpz, nsip]"),
            (ANYONE, "to.corp.", A, "NXDOMAIN 300 www.shady.corp. [17 list rpz, nsip]"),
        ],
    );
    // The names of servers are known after a query for them.
    server.inner.learn(&wire("corp."), Rtype::NS.0, 300, &[&wire("ns.corp.")]);
    check(&mut server, &[(ANYONE, "late.corp.", A, "NOERROR [17 list rpz, nsdname]")]);
}

/// The policy could not test an answer of the cache without the servers of its zone.
#[test]
fn a_flush_takes_the_answers_along_that_depend_on_a_removed_name_server() {
    let zone = "32.53.2.0.192.rpz-nsip CNAME .\nns.evil.example.rpz-nsdname CNAME *.\n";
    let check = |flushed: &str, extent: FlushExtent, names: &[(&str, &str)]| {
        let mut server = Server::rpz("flush", zone);
        for (zone, host, address) in [
            ("bad.example.", "ns1.hosts.test.", [192, 0, 2, 53]),
            ("hosted.example.", "ns.bad.example.", [192, 0, 2, 53]),
            ("walled.example.", "ns.evil.example.", [192, 0, 2, 1]),
            ("ok.example.", "ns.ok.example.", [192, 0, 2, 1]),
        ] {
            server.inner.learn_delegation(&wire(zone), &wire(host), address);
        }
        let asked = |server: &mut Server, name: &str| server.ask(ANYONE, name, A);
        for (name, _) in names {
            let before = asked(&mut server, name);
            assert!(before.contains("[17 list") || *name == "ok.example.", "{name}: {before}");
        }
        server.inner.flush(&wire(flushed), extent);
        for (name, answer) in names {
            assert_eq!(asked(&mut server, name), *answer, "{flushed} {extent:?}: {name}");
        }
    };
    // A question that waits for the network gets nothing in this test.
    let (of_ip, of_name, ok) =
        ("NXDOMAIN [17 list rpz, nsip]", "NOERROR [17 list rpz, nsdname]", "NOERROR 300 192.0.2.7");
    let www = "www.bad.example.";
    for (flushed, extent) in [
        ("ns1.hosts.test.", FlushExtent::Name),
        ("hosts.test.", FlushExtent::Tree),
        ("bad.example.", FlushExtent::Name),
        ("bad.example.", FlushExtent::Tree),
    ] {
        let rows = [
            (www, "nothing"),
            ("hosted.example.", "nothing"),
            ("walled.example.", of_name),
            ("ok.example.", ok),
        ];
        check(flushed, extent, &rows);
    }
    let rows = [(www, of_ip), ("walled.example.", "nothing"), ("ok.example.", ok)];
    check("evil.example.", FlushExtent::Tree, &rows);
    check("walled.example.", FlushExtent::Name, &rows);
    check("www.bad.example.", FlushExtent::Name, &[(www, "nothing"), ("bad.example.", of_ip)]);
}

#[test]
fn a_flush_that_concerns_too_many_zones_removes_everything() {
    let mut server = Server::rpz("flush-many", "32.53.2.0.192.rpz-nsip CNAME .\n");
    for number in 0..=16 {
        let zone = wire(&format!("zone{number}.example."));
        server.inner.learn_delegation(&zone, &wire("ns.hosts.test."), [192, 0, 2, 53]);
        server.inner.learn(&zone, A.0, 300, &[&[192, 0, 2, 1]]);
    }
    server.inner.flush(&wire("ns.hosts.test."), FlushExtent::Name);
    for name in ["zone0.example.", "zone16.example.", "ok.example."] {
        assert_eq!(server.ask(ANYONE, name, A), "nothing", "{name}");
    }
}
