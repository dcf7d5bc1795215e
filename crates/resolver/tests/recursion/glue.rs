//! Glue with wrong addresses, and name servers that do not exist: the zone that has the server's
//! name is queried for its addresses (RFC 1034 §5.3.3, RFC 2181 §5.4.1).

use avocet_resolver::{Recursion, RootServer};
use avocet_testkit::{Response, name};
use avocet_wire::Rcode;
use avocet_wire::header::{AA, RA, RD};

use crate::world::{Answer, World, authority, recursion};

const TO_OTHER: &[&str] = &["au other. 3600 NS a.other.", "ad a.other. 3600 A 192.0.2.2"];
const ADDRESS: &str = "answer www.test. 5 A 198.51.100.2";

/// Returns a world where the root, at the address that ends in 1, delegates test. to ns.other. with
/// this glue. According to other. (address 2), ns.other. has address 3, which serves test.
fn world(recursion: Recursion, glue: &[&str]) -> World {
    let mut world = World::new(recursion);
    let to_test = [&["au test. 3600 NS ns.other."], glue].concat();
    world.serve(
        1,
        authority(
            ".",
            &[("*test. A", &to_test), ("*other. A", TO_OTHER), ("*other. AAAA", TO_OTHER)],
        ),
    );
    world.serve(2, authority("other.", &[("ns.other. A", &["an ns.other. 3600 A 192.0.2.3"])]));
    world.serve(3, authority("test.", &[("www.test. A", &["an www.test. 5 A 198.51.100.2"])]));
    world
}

#[track_caller]
fn check(world: &mut World) -> Answer {
    let answer = world.resolve("www.test. A");
    answer.check(Rcode::NOERROR, &[ADDRESS]);
    assert!(answer.took_ms <= 1_300, "{} ms", answer.took_ms);
    answer
}

#[test]
fn glue_of_a_family_that_is_switched_off_is_replaced_by_an_address_of_the_other_family() {
    check(&mut world(
        Recursion { ipv6: false, ..recursion() },
        &["ad ns.other. 3600 AAAA 2001:db8::3"],
    ));
    let hints = vec![RootServer {
        name: name("a.root.").into(),
        addresses: vec!["2001:db8::1".parse().unwrap()],
    }];
    let mut world = World::new(Recursion { hints, ipv4: false, ..recursion() });
    let to_test: &[&str] = &["au test. 3600 NS ns.other.", "ad ns.other. 3600 A 192.0.2.3"];
    let to_other: &[&str] = &["au other. 3600 NS a.other.", "ad a.other. 3600 AAAA 2001:db8::2"];
    world.serve_at(
        "2001:db8::1",
        authority(".", &[("*test. A", to_test), ("*other. AAAA", to_other)]),
    );
    let other = authority("other.", &[("ns.other. AAAA", &["an ns.other. 3600 AAAA 2001:db8::3"])]);
    world.serve_at("2001:db8::2", other);
    let test = authority("test.", &[("www.test. A", &["an www.test. 5 A 198.51.100.2"])]);
    world.serve_at("2001:db8::3", test);
    check(&mut world);
}

#[test]
fn glue_that_may_not_be_asked_is_replaced() {
    check(&mut world(recursion(), &["ad ns.other. 3600 A 10.0.0.1"]));
}

#[test]
fn glue_of_a_family_that_leads_nowhere_is_replaced_by_an_address_of_the_other_family() {
    for qname_minimisation in [false, true] {
        let recursion = Recursion { qname_minimisation, ..recursion() };
        check(&mut world(recursion, &["ad ns.other. 3600 AAAA 2001:db8::3"]));
    }
}

#[test]
fn stale_glue_is_replaced_by_what_the_zone_of_the_server_says() {
    let mut dead = world(recursion(), &["ad ns.other. 3600 A 192.0.2.66"]);
    check(&mut dead);
    dead.take_sent();
    dead.pass(10);
    check(&mut dead);
    assert_eq!(dead.take_sent(), ["3: www.test. A"], "the address is remembered");
    for rcode in [Rcode::REFUSED, Rcode::SERVFAIL] {
        let mut refusing = world(recursion(), &["ad ns.other. 3600 A 192.0.2.66"]);
        let refuse = move |query: &_| Some(Response::to(query).without_flags(RA | RD).rcode(rcode));
        refusing.serve(66, Box::new(refuse));
        check(&mut refusing);
        refusing.take_sent();
        refusing.pass(10);
        check(&mut refusing);
        assert_eq!(refusing.take_sent(), ["3: www.test. A"], "the address is remembered");
    }
}

#[test]
fn an_address_of_one_family_that_leads_nowhere_is_not_the_last() {
    let mut world = world(recursion(), &[]);
    let both: &[(&str, &[&str])] = &[
        ("ns.other. A", &["an ns.other. 3600 A 192.0.2.66"]),
        ("ns.other. AAAA", &["an ns.other. 3600 AAAA 2001:db8::3"]),
    ];
    world.serve(2, authority("other.", both));
    let test = authority("test.", &[("www.test. A", &["an www.test. 5 A 198.51.100.2"])]);
    world.serve_at("2001:db8::3", test);
    check(&mut world);
}

/// Returns a world where test. is delegated to servers below `gone` domains that do not exist, and
/// to one server below a domain that exists.
fn dead_names(recursion: Recursion, gone: usize, server: &str) -> World {
    let mut world = World::new(recursion);
    let mut to_test: Vec<String> =
        (0..gone).map(|n| format!("au test. 60 NS ns.gone{n}.{server}")).collect();
    to_test.push(format!("au test. 60 NS ns.good.{server}"));
    let to_test: Vec<&str> = to_test.iter().map(String::as_str).collect();
    let to_hosts: &[&str] = &["au hosts. 3600 NS a.hosts.", "ad a.hosts. 3600 A 192.0.2.2"];
    world.serve(
        1,
        authority(
            ".",
            &[("*test. A", &to_test), ("*hosts. A", to_hosts), ("*hosts. AAAA", to_hosts)],
        ),
    );
    let (question, good) =
        (format!("ns.good.{server} A"), format!("an ns.good.{server} 3600 A 192.0.2.3"));
    world.serve(2, authority("hosts.", &[(&question, &[&good])]));
    world.serve(3, authority("test.", &[("www.test. A", &["an www.test. 5 A 198.51.100.2"])]));
    world
}

#[test]
fn domains_of_servers_that_do_not_exist_hide_no_good_server() {
    for qname_minimisation in [true, false] {
        for gone in [4, 9, 12] {
            let recursion = Recursion { qname_minimisation, ..recursion() };
            let mut world = dead_names(recursion, gone, "hosts.");
            world.resolve("www.test. A").check(Rcode::NOERROR, &[ADDRESS]);
            let sent = world.take_sent();
            assert!(sent.len() <= gone + 6, "{sent:?}");
        }
    }
}

#[test]
fn names_that_were_found_not_to_exist_leave_the_next_question_more_room() {
    let mut world =
        dead_names(Recursion { qname_minimisation: true, ..recursion() }, 9, "a.b.hosts.");
    let tries = (0..4).take_while(|_| {
        let answer = world.resolve("www.test. A");
        world.pass(6);
        answer.rcode != Rcode::NOERROR
    });
    assert!(tries.count() < 4);
}

#[test]
fn servers_of_zones_that_are_known_are_looked_for_first() {
    let mut world = World::new(Recursion { qname_minimisation: true, ..recursion() });
    let to_test: &[&str] = &[
        "au test. 60 NS ns.far.",
        "au test. 60 NS ns.farther.",
        "au test. 60 NS ns.other.",
        "au test. 60 NS ns.farthest.",
    ];
    world.serve(1, authority(".", &[("*test. A", to_test), ("*other. A", TO_OTHER)]));
    world.serve(2, authority("other.", &[("ns.other. A", &["an ns.other. 3600 A 192.0.2.3"])]));
    let respond = |query: &_| Response::to(query).without_flags(RA | RD).flags(AA);
    world.serve(
        3,
        Box::new(move |query| {
            Some(respond(query).answer(&format!("{} 5 A 198.51.100.2", query.qname)))
        }),
    );
    world.resolve("any.other. A");
    world.take_sent();
    world.resolve("www.test. A").check(Rcode::NOERROR, &[ADDRESS]);
    assert_eq!(world.take_sent(), ["1: test. A", "2: ns.other. A", "3: www.test. A"]);
}
