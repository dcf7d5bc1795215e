//! Rules that forward single questions to other servers: the matching clients get the answers of
//! these, and no other client does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use avocet_wire::{Rcode, Rtype};

use crate::harness::{Ask, Reply, Scripted, Setup, Udp};

/// The client that the rule matches, and another.
const CHOSEN: [u8; 4] = [127, 0, 0, 2];
const OTHER: [u8; 4] = [127, 0, 0, 3];

fn upstream(address: &'static str) -> Scripted {
    Scripted::start(move |query| match query.qname().as_str() {
        "alias.example." => query
            .answer()
            .own(300, "CNAME", "target.elsewhere.")
            .record("target.elsewhere.", 300, "A", address)
            .send(),
        _ => query.answer().own(300, "A", address).send(),
    })
}

/// A server with one IPv4 address for all names, except for `none` and `six`.
fn upstream_with_v4(address: &'static str) -> Scripted {
    Scripted::start(move |query| match (query.qname().as_str(), query.qtype()) {
        ("six.example.", Rtype::AAAA) => query.answer().own(300, "AAAA", "fd00::1").send(),
        ("none.example.", _) => query.answer().soa("example.", 60).send(),
        (_, Rtype::A) => query.answer().own(300, "A", address).send(),
        _ => query.answer().soa("example.", 60).send(),
    })
}

fn rule(servers: &[SocketAddr]) -> String {
    let servers: Vec<String> =
        servers.iter().map(|addr| format!("{}@{}", addr.ip(), addr.port())).collect();
    format!(
        "[[rule]]\nname = \"lab\"\nwhen = 'client.ip.in(\"127.0.0.2/32\")'\naction = \"forward\"\nto = {servers:?}\n\
         [[record]]\nname = \"own.example\"\ntype = \"A\"\nvalues = [\"192.0.2.99\"]\n"
    )
}

#[track_caller]
fn ask(server: SocketAddr, client: [u8; 4], name: &str) -> Reply {
    Udp::from(SocketAddr::from((client, 0)), server).ask(&Ask::of(name, "A").edns(1232))
}

/// RCODE and data.
fn said(reply: &Reply) -> String {
    format!("{} {}", reply.rcode, reply.texts().join(" "))
}

/// Checks the answers of both clients for either order and repeated queries, with forwarding and
/// with recursion.
fn check(more: &str) {
    let (all, lab) = (upstream("192.0.2.1"), upstream("192.0.2.2"));
    let setup = Setup::forwarding_to(all.addr).tables(&rule(&[lab.addr])).tables(more);
    let server = setup.start();
    for _ in 0..3 {
        assert!(said(&ask(server.addr, OTHER, "first.example")).contains("192.0.2.1"));
        for name in ["first.example", "second.example", "own.example", "localhost.test"] {
            assert!(said(&ask(server.addr, CHOSEN, name)).contains("192.0.2.2"), "{name}");
        }
        assert!(said(&ask(server.addr, OTHER, "second.example")).contains("192.0.2.1"));
        assert!(said(&ask(server.addr, OTHER, "own.example")).contains("192.0.2.99"));
        // The target of an alias is resolved at the same servers.
        assert!(said(&ask(server.addr, CHOSEN, "alias.example")).contains("192.0.2.2"));
        assert!(said(&ask(server.addr, OTHER, "target.elsewhere")).contains("192.0.2.1"));
    }
    assert_eq!(lab.received().len(), 5, "what they say is kept for the client");
}

#[test]
fn a_rule_forwards_for_its_clients_alone() {
    check("");
}

#[test]
fn a_rule_forwards_where_the_server_recurses() {
    check("[resolver]\nmode = \"recurse\"\nquery-private = true\n[dnssec]\nvalidate = false\n");
}

#[test]
fn a_rule_may_name_the_zone_whose_servers_it_asks() {
    let (all, lab) = (upstream("192.0.2.1"), upstream("192.0.2.2"));
    let rule = "[[rule]]\nname = \"lab\"\nwhen = 'client.ip.in(\"127.0.0.2/32\")'\naction = \"forward\"\nto = [\"lab.example\"]\n";
    let server =
        Setup::forwarding_to(all.addr).rule("lab.example", &[lab.addr], "").tables(rule).start();
    for _ in 0..2 {
        assert!(said(&ask(server.addr, OTHER, "www.lab.example")).contains("192.0.2.2"));
        assert!(said(&ask(server.addr, OTHER, "www.example")).contains("192.0.2.1"));
        assert!(said(&ask(server.addr, CHOSEN, "www.example")).contains("192.0.2.2"));
    }
}

#[test]
fn dns64_translates_what_the_servers_of_a_rule_say() {
    let (all, lab) = (upstream("192.0.2.1"), upstream_with_v4("192.0.2.2"));
    let dns64 = "[dns64]\nprefix = \"2001:db8:64::/96\"\n";
    let server = Setup::forwarding_to(all.addr).tables(&rule(&[lab.addr])).tables(dns64).start();
    let ask = |name| {
        let ask = Ask::of(name, "AAAA").edns(1232);
        said(&Udp::from(SocketAddr::from((CHOSEN, 0)), server.addr).ask(&ask))
    };
    for _ in 0..3 {
        assert!(ask("www.example").contains("2001:db8:64::c000:202"));
        assert!(ask("none.example").ends_with("NOERROR "));
        assert!(ask("six.example").contains("fd00::1"));
    }
    let of_www = lab.received().iter().filter(|query| query.qname() == "www.example.").count();
    // The first answer without data is verified in lower case.
    assert_eq!(of_www, 3, "the addresses are kept for the client");
}

#[test]
fn without_its_servers_a_rule_has_no_answer_of_others() {
    let is_down = Arc::new(AtomicBool::new(false));
    let state = is_down.clone();
    let all = upstream("192.0.2.1");
    let lab = Scripted::start(move |query| match state.load(Ordering::Relaxed) {
        true => query.answer().rcode(Rcode::SERVFAIL).send(),
        false => query.answer().own(300, "A", "192.0.2.2").send(),
    });
    let server = Setup::forwarding_to(all.addr).tables(&rule(&[lab.addr])).start();
    is_down.store(true, Ordering::Relaxed);
    assert!(said(&ask(server.addr, OTHER, "www.example")).contains("192.0.2.1"));
    assert_eq!(ask(server.addr, CHOSEN, "www.example").rcode, Rcode::SERVFAIL);
    // The failure of these servers does not affect other clients, and is not cached.
    assert!(said(&ask(server.addr, OTHER, "www.example")).contains("192.0.2.1"));
    is_down.store(false, Ordering::Relaxed);
    assert!(said(&ask(server.addr, CHOSEN, "www.example")).contains("192.0.2.2"));
}
