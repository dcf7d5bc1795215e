//! The limits on the work for one question, and the answer if a limit is exceeded (S11 in
//! tests/SECURITY.md).

use avocet_testkit::{Query, Response};
use avocet_wire::header::{AA, RA, RD};
use avocet_wire::{Ede, Rcode};

use avocet_resolver::Recursion;

use crate::world::{World, authority, recursion};

#[test]
fn a_server_that_always_wants_another_cookie_is_given_up() {
    let mut world = World::new(recursion());
    let down: &[&str] = &["au example. 3600 NS ns.example.", "ad ns.example. 3600 A 192.0.2.2"];
    world.serve(1, authority(".", &[("*example. A", down)]));
    world.serve(
        2,
        Box::new(|query| {
            let cookie = query.cookie.as_ref().map(|cookie| [&cookie[..8], b"otherone"].concat());
            let response = Response::to(query).rcode(Rcode::BADCOOKIE);
            Some(match cookie {
                Some(cookie) => response.cookie(&cookie),
                None => response,
            })
        }),
    );
    assert_eq!(world.resolve("www.example. A").rcode, Rcode::SERVFAIL);
    let to_example = world.take_sent().iter().filter(|sent| sent.starts_with("2:")).count();
    assert!(to_example <= 3, "{to_example}");
}

/// Returns a world with three servers of example. that give the same answers.
fn world_with_three(
    answer: impl Fn(&Query) -> Vec<u8> + Copy + 'static,
    change: Recursion,
) -> World {
    let mut world = World::new(change);
    let names = ["a", "b", "c"].map(|server| format!("au example. 3600 NS {server}.ns.example."));
    let addresses = [("a", 2), ("b", 3), ("c", 4)];
    let addresses =
        addresses.map(|(server, last)| format!("ad {server}.ns.example. 3600 A 192.0.2.{last}"));
    let down: Vec<&str> = names.iter().chain(&addresses).map(String::as_str).collect();
    world.serve(1, authority(".", &[("*example. A", &down), ("*example. HTTPS", &down)]));
    for last in 2..=4 {
        world.serve_octets(last, Box::new(move |query| vec![answer(query)]));
    }
    world
}

/// Returns a reply with an RRset of `count` addresses, which is complete only over TCP.
fn addresses(query: &Query, count: u16) -> Vec<u8> {
    let response = Response::to(query).without_flags(RA | RD).flags(AA);
    if !query.over_tcp {
        return response.truncated().octets();
    }
    let record =
        |number: u16| format!("{} 300 A 10.0.{}.{}", query.qname, number >> 8, number & 0xff);
    (0..count).fold(response, |response, number| response.answer(&record(number))).octets()
}

#[test]
fn an_rrset_of_too_many_records_is_refused_at_once_and_whoever_has_it() {
    for (count, rcode) in [
        (256, Rcode::NOERROR),
        (257, Rcode::SERVFAIL),
        (600, Rcode::SERVFAIL),
        (3_000, Rcode::SERVFAIL),
    ] {
        for qname_minimisation in [false, true] {
            let answer = move |query: &Query| addresses(query, count);
            let mut world =
                world_with_three(answer, Recursion { qname_minimisation, ..recursion() });
            let answer = world.resolve("large.example. A");
            assert_eq!(answer.rcode, rcode);
            let to_example = world
                .take_sent()
                .into_iter()
                .filter(|sent| !sent.starts_with("1:"))
                .collect::<Vec<_>>();
            assert_eq!(to_example.len(), 2, "one query and its repetition by TCP: {to_example:?}");
            if rcode == Rcode::SERVFAIL {
                assert_eq!(answer.ede, Some(Ede::OTHER.0));
                assert_eq!(world.resolve("large.example. A").rcode, Rcode::SERVFAIL);
                assert!(world.take_sent().is_empty(), "it is remembered");
            }
        }
    }
}

/// Returns a reply with an HTTPS record whose data is too short for the priority.
fn malformed_https(query: &Query) -> Vec<u8> {
    let mut octets = query.id.to_be_bytes().to_vec();
    octets.extend([0x84, 0, 0, 1, 0, 1, 0, 0, 0, 0]);
    octets.extend(&query.question);
    octets.extend([0xc0, 12, 0, 65, 0, 1, 0, 0, 1, 44, 0, 1, 0]);
    octets
}

#[test]
fn malformed_data_is_asked_for_at_one_other_server_and_remembered() {
    let mut world = world_with_three(malformed_https, recursion());
    let answer = world.resolve("www.example. HTTPS");
    assert_eq!((answer.rcode, answer.ede), (Rcode::SERVFAIL, Some(Ede::INVALID_DATA.0)));
    let to_example = world.take_sent().iter().filter(|sent| !sent.starts_with("1:")).count();
    assert_eq!(to_example, 2);
    assert_eq!(world.resolve("www.example. HTTPS").rcode, Rcode::SERVFAIL);
    assert!(world.take_sent().is_empty());
}

/// For a name without data, some servers send an empty reply: without an SOA record, without AA,
/// and with RA.
#[test]
fn an_empty_reply_of_all_servers_is_no_data_and_a_referral_to_themselves_is_not() {
    let to_itself = "example. 3600 NS a.ns.example.";
    for (flags, beside, rcode) in [
        (0, None, Rcode::NOERROR),
        (RA, None, Rcode::NOERROR),
        (AA, Some(to_itself), Rcode::NOERROR),
        (0, Some(to_itself), Rcode::SERVFAIL),
        (RA, Some(to_itself), Rcode::SERVFAIL),
        (RA, Some(". 3600 NS a.root."), Rcode::SERVFAIL),
    ] {
        let answer = move |query: &Query| {
            let response = Response::to(query).without_flags(RA | RD).flags(flags);
            beside.iter().fold(response, |response, record| response.authority(record)).octets()
        };
        let mut world = world_with_three(answer, recursion());
        assert_eq!(world.resolve("www.example. A").rcode, rcode, "{flags:x} {beside:?}");
        // Where all refer to themselves or upwards, two are queried in lower case, too.
        let queries = if rcode == Rcode::NOERROR { 4 } else { 4 + 2 };
        assert_eq!(world.take_sent().len(), queries, "each is asked whether it knows better");
    }
}

#[test]
fn an_answer_of_a_server_that_recurses_goes_before_an_empty_reply() {
    let empty = |query: &Query| Response::to(query).without_flags(RD).octets();
    let mut world = world_with_three(empty, recursion());
    let cached =
        |query: &Query| Response::to(query).answer("www.example. 60 A 192.0.2.80").octets();
    world.serve_octets(3, Box::new(move |query| vec![cached(query)]));
    world.resolve("www.example. A").check(Rcode::NOERROR, &["answer www.example. 60 A 192.0.2.80"]);
}

/// RFC 1035 does not mention such octets, and other resolvers accept these replies.
#[test]
fn octets_behind_the_last_record_of_a_reply_are_ignored() {
    let answer = |query: &Query| {
        let response = Response::to(query).without_flags(RA | RD).flags(AA);
        let address = response.answer(&format!("{} 60 A 192.0.2.80", query.qname));
        let behind = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xcb\x00\x71\x42";
        [&address.octets(), &behind[..]].concat()
    };
    let mut world = world_with_three(answer, recursion());
    let expected = ["answer www.example. 60 A 192.0.2.80"];
    for queries in [2, 0] {
        world.resolve("www.example. A").check(Rcode::NOERROR, &expected);
        assert_eq!(world.take_sent().len(), queries);
    }
}

/// Returns the reply of a server that finds names in lower case only.
fn finds_lower_case(query: &Query) -> Vec<u8> {
    let response = Response::to(query).without_flags(RA | RD).flags(AA);
    let asked = &query.question[..query.question.len() - 4];
    if asked.iter().any(u8::is_ascii_uppercase) || query.qname.starts_with("gone") {
        let soa = "example. 300 SOA ns.test. host.test. 1 2 3 4 300";
        return response.rcode(Rcode::NXDOMAIN).authority(soa).octets();
    }
    response.answer(&format!("{} 60 A 192.0.2.80", query.qname)).octets()
}

#[test]
fn a_denial_of_mixed_case_is_asked_for_once_more_in_lower_case() {
    let mut world = world_with_three(finds_lower_case, recursion());
    world.serve(
        1,
        authority(
            ".",
            &[(
                "*example. A",
                &["au example. 3600 NS a.ns.example.", "ad a.ns.example. 3600 A 192.0.2.2"],
            )],
        ),
    );
    let name = "a-name-of-many-letters";
    let address = format!("answer {name}.example. 60 A 192.0.2.80");
    world.resolve(&format!("{name}.example. A")).check(Rcode::NOERROR, &[&address]);
    assert_eq!(world.take_sent().len(), 3, "the root's, mixed case, and lower case");
    world.resolve(&format!("other-{name}.example. A"));
    assert_eq!(world.take_sent().len(), 1, "it is asked in lower case from now on");
}

#[test]
fn a_server_that_denies_three_names_in_lower_case_too_is_not_doubted_again() {
    let mut world = world_with_three(finds_lower_case, recursion());
    world.serve(
        1,
        authority(
            ".",
            &[(
                "*example. A",
                &["au example. 3600 NS a.ns.example.", "ad a.ns.example. 3600 A 192.0.2.2"],
            )],
        ),
    );
    for (number, queries) in [3, 2, 2, 1].into_iter().enumerate() {
        let answer = world.resolve(&format!("gone-{number}-with-many-letters.example. A"));
        assert_eq!((answer.rcode, world.take_sent().len()), (Rcode::NXDOMAIN, queries));
        let answer = world.resolve(&format!("gone-{number}-at-once-after-it.example. A"));
        assert_eq!((answer.rcode, world.take_sent().len()), (Rcode::NXDOMAIN, 1));
        world.pass(11);
    }
}

/// RFC 6604 §3: the RCODE is about the last name of a chain of aliases, and that name has data.
#[test]
fn nxdomain_beside_the_data_at_the_end_of_a_chain_is_no_denial() {
    let answer = |query: &Query| {
        let response = Response::to(query).without_flags(RA | RD).flags(AA).rcode(Rcode::NXDOMAIN);
        let response = response.answer("www.example. 60 CNAME web.example.");
        response.answer("web.example. 60 A 192.0.2.80").octets()
    };
    let mut world = world_with_three(answer, recursion());
    let chain =
        ["answer www.example. 60 CNAME web.example.", "answer web.example. 60 A 192.0.2.80"];
    world.resolve("www.example. A").check(Rcode::NOERROR, &chain);
    assert_eq!(world.take_sent().len(), 2);
}
