//! A copy of the root zone by transfer, as a file, and after a restart; manipulated copies (RFC
//! 8806, RFC 8976). Knot DNS signs the zone and adds the digest. There are no root servers: all
//! answers come from the copy.

use std::fs;

use avocet_wire::Rcode;
use avocet_wire::header::{AD, CD, RD};
use avocet_wire::rdata;

use crate::harness::peers::{Peer, signing_root};
use crate::harness::{Ask, Directory, Server, Setup, http_get, until};

const ZONE: &str = ". 86400 SOA a.root. host.root. 1 1800 900 604800 300\n. 86400 NS a.root.\na.root. 300 A 192.0.2.1\n\
    test. 300 NS ns.test.\nns.test. 300 A 192.0.2.2\nother. 300 NS ns.test.\n\
    root-key-sentinel-is-ta-00001. 300 A 192.0.2.3\nroot-key-sentinel-not-ta-00001. 300 A 192.0.2.3\n";

/// The key of the root as a line of the configuration.
fn anchor(primary: &Peer) -> String {
    let reply = crate::harness::Udp::to(primary.addr).ask(&Ask::of(".", "DNSKEY"));
    let key = &reply.answer[0].0;
    format!(
        "[dnssec]\ntrust-anchors = [\". IN DNSKEY {}\"]",
        rdata::display(key.rtype.0, &key.rdata)
    )
}

fn start(local_root: &str, anchor: &str, hints: &Directory) -> Server {
    let hints = hints.write("hints", ". NS never.asked.\nnever.asked. A 127.0.0.1\n");
    Setup::plain()
        .http()
        .tables(&format!("[resolver]\nmode = \"recurse\"\nroot-hints = {hints:?}\n{local_root}"))
        .tables(anchor)
        .start()
}

fn primaries(primary: &Peer) -> String {
    format!("local-root = true\nlocal-root-primaries = [\"127.0.0.1@{}\"]", primary.addr.port())
}

/// Waits until a name gets a validated NXDOMAIN. Each query is for a new name, because failures are
/// cached.
#[track_caller]
fn check_denials(server: &Server, prefix: &str) {
    let mut number = 0;
    let reply = until("the copy is in use", || {
        number += 1;
        let reply =
            server.ask(&Ask::of(&format!("www.{prefix}{number}."), "A").edns(1232).dnssec_ok());
        (reply.rcode == Rcode::NXDOMAIN).then_some(reply)
    });
    assert!(reply.header.flags & AD != 0, "{reply:?}");
    let soa = server.ask(&Ask::of(".", "SOA").edns(1232).dnssec_ok());
    assert!(soa.header.flags & AD != 0 && soa.answer.len() == 2, "{soa:?}");
}

/// Waits until the log reports the refusal of the copy with its reason. Then nothing can be
/// resolved.
#[track_caller]
fn check_refusal(server: &Server, why: &str) {
    until("it is refused", || server.directory.read("log").contains(why).then_some(()));
    assert_eq!(server.ask(&Ask::of("www.nothing.", "A")).rcode, Rcode::SERVFAIL);
    assert!(
        http_get(server.http, "/metrics")
            .contains("avocet_root_zone_copies_total{result=\"refused\"} 1")
    );
}

#[test]
fn the_root_zone_is_transferred_verified_kept_and_taken_up_after_a_restart() {
    let Some(primary) = signing_root(ZONE) else { return };
    let (hints, anchor) = (Directory::create(), anchor(&primary));
    let mut server = start(&primaries(&primary), &anchor, &hints);
    check_denials(&server, "first");
    let metrics = http_get(server.http, "/metrics");
    assert!(metrics.contains("avocet_root_zone_copies_total{result=\"taken\"} 1"), "{metrics}");
    drop(primary);
    server.restart();
    check_denials(&server, "second");

    let kept = server.directory.path().join("data/root.zone");
    let text = fs::read_to_string(&kept).unwrap();
    let file = hints.write("root.zone", &text);
    check_denials(&start(&format!("local-root = {file:?}"), &anchor, &hints), "third");

    let changed = text.replace("192.0.2.2", "192.0.2.66");
    assert_ne!(changed, text);
    fs::write(&kept, &changed).unwrap();
    server.restart();
    check_refusal(&server, "ZONEMD digest does not match its records");
    let file = hints.write("changed.zone", &changed);
    let server = start(&format!("local-root = {file:?}"), &anchor, &hints);
    check_refusal(&server, "ZONEMD digest does not match its records");
}

/// RFC 8509: no root key has the tag 1, except by chance.
#[test]
fn clients_learn_from_sentinels_which_keys_of_the_root_are_trusted() {
    let Some(primary) = signing_root(ZONE) else { return };
    let hints = Directory::create();
    let server = start(&primaries(&primary), &anchor(&primary), &hints);
    check_denials(&server, "sentinel");
    let rcode = |kind: &str, flags: u16| {
        let ask = Ask::of(&format!("root-key-sentinel-{kind}-ta-00001."), "A").flags(flags);
        server.ask(&ask).rcode
    };
    assert_eq!(rcode("is", RD), Rcode::SERVFAIL);
    assert_eq!((rcode("not", RD), rcode("is", RD | CD)), (Rcode::NOERROR, Rcode::NOERROR));
}

#[test]
fn a_root_zone_of_another_key_is_refused() {
    let (Some(primary), Some(other)) = (signing_root(ZONE), signing_root(ZONE)) else { return };
    let hints = Directory::create();
    let server = start(&primaries(&primary), &anchor(&other), &hints);
    check_refusal(&server, "its DNSKEY records do not verify");
}
