//! Addresses translated for clients that have IPv6 only (RFC 6147).

use avocet_resolver::{Dns64, Plan, Prefix, Recursion};
use avocet_wire::Rcode;

use crate::attacks::rule;
use crate::secure::{NOW_SECS, Setup, served, validation};
use crate::world::{World, authority, recursion, settings};

pub(crate) fn dns64() -> Dns64 {
    let prefix = |text: &str, len| Prefix::new(text.parse().unwrap(), len);
    Dns64::new(prefix("64:ff9b::", 96), vec![prefix("::ffff:0:0", 96)]).unwrap()
}

fn world() -> World {
    let mut world = World::with_dns64(recursion(), dns64());
    let down: &[&str] = &["au example. 3600 NS ns.example.", "ad ns.example. 3600 A 192.0.2.2"];
    let reverse: &[&str] =
        &["au 2.0.192.in-addr.arpa. 3600 NS ns.example.", "ad ns.example. 3600 A 192.0.2.2"];
    let root: &[(&str, &[&str])] =
        &[("*example. AAAA", down), ("*example. A", down), ("*192.in-addr.arpa. PTR", reverse)];
    world.serve(1, authority(".", root));
    world.serve(2, authority("example.", NAMES));
    world
}

/// The answers of the authoritative servers or of the forwarder.
const NAMES: &[(&str, &[&str])] = &[
    ("four.example. A", &["an four.example. 600 A 192.0.2.33"]),
    ("six.example. AAAA", &["an six.example. 600 AAAA 2001:db8::1"]),
    ("mapped.example. AAAA", &["an mapped.example. 600 AAAA ::ffff:192.0.2.33"]),
    (
        "mixed.example. AAAA",
        &["an mixed.example. 600 AAAA ::ffff:192.0.2.33", "an mixed.example. 600 AAAA 2001:db8::2"],
    ),
    ("mapped.example. A", &["an mapped.example. 600 A 192.0.2.33"]),
    ("alias.example. AAAA", &["an alias.example. 60 CNAME four.example."]),
    ("alias.example. A", &["an alias.example. 60 CNAME four.example."]),
    ("text.example. TXT", &["an text.example. 60 TXT x"]),
    ("33.2.0.192.in-addr.arpa. PTR", &["an 33.2.0.192.in-addr.arpa. 60 PTR four.example."]),
];

/// Returns a world where all names are forwarded to one server.
fn forwarding() -> World {
    let plan = Plan::new(vec![rule(".", 8)], settings()).unwrap().with_dns64(dns64());
    let mut world = World::with_plan(7, plan);
    world.serve(8, authority(".", NAMES));
    world
}

const FOUR: &str = "answer four.example. 300 AAAA 64:ff9b::c000:221";

#[test]
fn a_name_without_an_ipv6_address_gets_one_made_of_its_ipv4_address() {
    let mut world = world();
    world.resolve("four.example. AAAA").check(Rcode::NOERROR, &[FOUR]);
    world
        .resolve("four.example. A")
        .check(Rcode::NOERROR, &["answer four.example. 600 A 192.0.2.33"]);
    let alias = ["answer alias.example. 60 CNAME four.example.", FOUR];
    world.resolve("alias.example. AAAA").check(Rcode::NOERROR, &alias);
    world.take_sent();
    world.resolve("four.example. AAAA").check(Rcode::NOERROR, &[FOUR]);
    assert!(world.take_sent().is_empty(), "both that it is made of are known");
}

#[test]
fn a_name_with_an_ipv6_address_keeps_it_unless_it_is_excluded() {
    let mut world = world();
    world
        .resolve("six.example. AAAA")
        .check(Rcode::NOERROR, &["answer six.example. 600 AAAA 2001:db8::1"]);
    let made = ["answer mapped.example. 600 AAAA 64:ff9b::c000:221"];
    world.resolve("mapped.example. AAAA").check(Rcode::NOERROR, &made);
    for _ in 0..2 {
        let others = ["answer mixed.example. 600 AAAA 2001:db8::2"];
        world.resolve("mixed.example. AAAA").check(Rcode::NOERROR, &others);
    }
}

#[test]
fn names_without_addresses_and_names_that_do_not_exist_stay_so() {
    let mut world = world();
    let soa = "authority example. 300 SOA ns.test. host.test. 1 2 3 4 300";
    world.resolve("text.example. AAAA").check(Rcode::NOERROR, &[soa]);
    world.resolve("none.example. AAAA").check(Rcode::NXDOMAIN, &[soa]);
}

/// If the query for A fails, its error is the answer (RFC 6147 §5.1.6).
#[test]
fn a_forged_ipv4_address_is_a_failure_and_not_the_lack_of_an_ipv6_address() {
    let setup = Setup::new();
    let recursion = Recursion { validation: Some(validation(&setup.root)), ..recursion() };
    let mut world = World::with_dns64(recursion, dns64());
    world.wall_secs = NOW_SECS;
    let mut root = setup.root_script();
    world.serve(1, Box::new(move |query| root(query)));
    let soa = setup.example.sign("au", "example. 300 SOA ns.example. host.example. 1 2 3 4 300");
    let nsec = setup.example.sign("au", "www.example. 300 NSEC example. A RRSIG NSEC");
    let denial = [soa, nsec].concat();
    let forged: Vec<String> =
        setup.www.iter().map(|line| line.replace("198.51.100.1", "203.0.113.66")).collect();
    let keys = setup.example.sign("an", &setup.example.dnskey());
    let answers: &[(&str, &[String])] =
        &[("example. DNSKEY", &keys), ("www.example. AAAA", &denial), ("www.example. A", &forged)];
    world.serve(2, served("example.", answers));
    let answer = world.resolve("www.example. AAAA");
    assert_eq!((answer.rcode, answer.ede, answer.authentic), (Rcode::SERVFAIL, Some(6), false));
    let answers: &[(&str, &[String])] = &[
        ("example. DNSKEY", &keys),
        ("www.example. AAAA", &denial),
        ("www.example. A", &setup.www),
    ];
    world.serve(2, served("example.", answers));
    world.pass(300);
    world.wall_secs = NOW_SECS;
    world
        .resolve("www.example. AAAA")
        .check(Rcode::NOERROR, &["answer www.example. 300 AAAA 64:ff9b::c633:6401"]);
}

#[test]
fn who_validates_himself_gets_what_is_signed() {
    let mut world = world();
    (world.dnssec_ok, world.checking_disabled) = (true, true);
    assert!(
        world.resolve("four.example. AAAA").records.iter().all(|record| record.contains(" SOA "))
    );
    world.dnssec_ok = false;
    world.resolve("four.example. AAAA").check(Rcode::NOERROR, &[FOUR]);
}

#[test]
fn a_made_address_has_the_name_of_the_one_behind_it() {
    let mut world = world();
    let reverse = "1.2.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa.";
    let expected = [
        format!("answer {reverse} 60 CNAME 33.2.0.192.in-addr.arpa."),
        "answer 33.2.0.192.in-addr.arpa. 60 PTR four.example.".to_owned(),
    ];
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    world.resolve(&format!("{reverse} PTR")).check(Rcode::NOERROR, &expected);
}

#[test]
fn the_name_that_tells_of_a_translator_is_known() {
    let expected = [
        "answer ipv4only.arpa. 600 AAAA 64:ff9b::c000:aa",
        "answer ipv4only.arpa. 600 AAAA 64:ff9b::c000:ab",
    ];
    let mut world = world();
    world.resolve("ipv4only.arpa. AAAA").check(Rcode::NOERROR, &expected);
    assert!(world.take_sent().is_empty());
}

#[test]
fn where_names_are_forwarded_addresses_are_made_too() {
    let mut world = forwarding();
    world.resolve("four.example. AAAA").check(Rcode::NOERROR, &[FOUR]);
    let verified = "8: four.example. AAAA";
    assert_eq!(world.take_sent(), ["8: four.example. AAAA", verified, "8: four.example. A"]);
    world.resolve("four.example. AAAA").check(Rcode::NOERROR, &[FOUR]);
    assert!(world.take_sent().is_empty(), "both that it is made of are known");
    world
        .resolve("six.example. AAAA")
        .check(Rcode::NOERROR, &["answer six.example. 600 AAAA 2001:db8::1"]);
    assert_eq!(world.resolve("none.example. AAAA").rcode, Rcode::NXDOMAIN);
    world.take_sent();
    let qname = "1.2.2.0.0.0.0.c.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.b.9.f.f.4.6.0.0.ip6.arpa.";
    assert_eq!(world.resolve(&format!("{qname} PTR")).rcode, Rcode::NOERROR);
    assert_eq!(world.take_sent(), ["8: 33.2.0.192.in-addr.arpa. PTR"]);
}
