//! Recursion over real sockets: authoritative servers that a stub zone names.

use avocet_wire::Rcode;

use crate::harness::{Ask, Received, Scripted, Server, Setup, Udp, Verdict};

/// A server that recurses, with the zone `corp.` at this server.
fn recursing(authority: &Scripted, negative: &str) -> Server {
    let servers = format!("{}@{}", authority.addr.ip(), authority.addr.port());
    Setup::plain()
        .tables("[resolver]\nmode = \"recurse\"\nroot-hints = \"\"")
        .tables(&format!("[[stub]]\nzone = \"corp\"\nservers = [\"{servers}\"]"))
        .tables(&format!("[dnssec]\nnegative-anchors = [{negative}]"))
        .start()
}

fn good(query: &Received) -> Verdict {
    query.answer().own(60, "A", "192.0.2.1").send()
}

#[test]
fn a_stub_zone_is_asked_at_its_servers_and_cached() {
    let authority = Scripted::start(good);
    let server = recursing(&authority, "\"corp\"");
    let client = Udp::to(server.addr);
    for _ in 0..2 {
        let reply = client.ask(&Ask::of("www.corp.", "A"));
        assert_eq!((reply.rcode, reply.texts()), (Rcode::NOERROR, vec!["192.0.2.1".to_owned()]));
    }
    assert_eq!(authority.count_of("www.corp."), 1);
}

#[test]
fn a_truncated_answer_is_asked_for_over_tcp() {
    let authority =
        Scripted::start(|query| if query.over_tcp { good(query) } else { query.answer().truncated().send() });
    let server = recursing(&authority, "\"corp\"");
    let reply = Udp::to(server.addr).ask(&Ask::of("large.corp.", "A"));
    assert_eq!((reply.rcode, reply.texts()), (Rcode::NOERROR, vec!["192.0.2.1".to_owned()]));
    assert_eq!(authority.received().iter().filter(|query| query.over_tcp).count(), 1);
}

#[test]
fn without_recursion_desired_only_the_cache_is_asked() {
    let authority = Scripted::start(good);
    let server = recursing(&authority, "\"corp\"");
    let client = Udp::to(server.addr);
    let plain = || Ask::of("www.corp.", "A").flags(0);
    assert_eq!(client.ask(&plain()).rcode, Rcode::REFUSED);
    client.ask(&Ask::of("www.corp.", "A"));
    assert_eq!(client.ask(&plain()).texts(), ["192.0.2.1"]);
    assert_eq!(authority.count_of("www.corp."), 1);
}
