//! Forwarders that return errors for names in mixed case, drop or deny them, and answer names in
//! lower case.

use avocet_testkit::{Faults, Query};
use avocet_wire::Rcode;

use crate::world::{World, address, plan, rule};

/// The RCODEs that a server returns for a name in mixed case and in lower case.
#[derive(Clone, Copy)]
struct Says {
    mixed: Rcode,
    lower: Rcode,
}

impl Says {
    fn replies(self, query: &Query) -> Vec<(u64, Vec<u8>)> {
        let qname = &query.question[..query.question.len() - 4];
        let is_mixed = qname.iter().any(u8::is_ascii_uppercase);
        let response = match if is_mixed { self.mixed } else { self.lower } {
            Rcode::NOERROR => address(query),
            rcode => avocet_testkit::Response::to(query).rcode(rcode),
        };
        vec![(0, response.octets())]
    }
}

/// Returns a world with a rule for all names with these servers.
fn world(servers: &[Says]) -> World {
    let lasts: Vec<u8> = (1..=servers.len() as u8).collect();
    let mut world = World::new(1, Faults::NONE, plan(vec![rule(".", &lasts)]));
    for (&last, &says) in lasts.iter().zip(servers) {
        world.serve(last, move |query| says.replies(query));
    }
    world
}

/// Resolves a name that was not queried before. Returns the RCODE and the number of queries sent.
fn ask(world: &mut World, host: usize) -> (Rcode, usize) {
    let before = world.sent.len();
    let rcode = world.resolve(&format!("a-name-of-many-letters-{host}.example. A")).rcode();
    (rcode, world.sent.len() - before)
}

/// Lets the time pass for which denials of a server are believed.
fn pass(world: &mut World) {
    world.run(world.net.now_ms + 11_000);
}

#[test]
fn where_all_servers_give_errors_to_mixed_case_one_is_asked_in_lower_case_and_remembered() {
    for mixed in [Rcode::REFUSED, Rcode::SERVFAIL] {
        let says = Says { mixed, lower: Rcode::NOERROR };
        for count in 1..=4 {
            let result = ask(&mut world(&vec![says; count]), 0);
            assert_eq!(result, (Rcode::NOERROR, count + 1), "{mixed} of {count}");
        }
        let mut world = world(&[says]);
        ask(&mut world, 0);
        assert_eq!(ask(&mut world, 1), (Rcode::NOERROR, 1), "it is asked in lower case now");
        assert!(world.sent.last().unwrap().slot().is_none(), "from a socket of its own");
    }
    // The query is repeated without EDNS, first in mixed case and then in lower case.
    let says = Says { mixed: Rcode::FORMERR, lower: Rcode::NOERROR };
    assert_eq!(ask(&mut world(&[says]), 0), (Rcode::NOERROR, 3));
}

#[test]
fn no_server_is_asked_in_lower_case_where_another_one_answers() {
    let refuses = Says { mixed: Rcode::REFUSED, lower: Rcode::REFUSED };
    let answers = Says { mixed: Rcode::NOERROR, lower: Rcode::NOERROR };
    for servers in [[refuses, answers], [answers, refuses]] {
        let mut world = world(&servers);
        for host in 0..3 {
            assert_eq!(ask(&mut world, host).0, Rcode::NOERROR);
        }
        let is_mixed = |question: &[u8]| question.iter().any(u8::is_ascii_uppercase);
        assert!(world.sent.iter().all(|sent| is_mixed(&sent.query.question)));
    }
}

#[test]
fn servers_that_fail_in_any_case_are_asked_in_lower_case_no_more_than_once() {
    for rcode in [Rcode::REFUSED, Rcode::SERVFAIL] {
        let mut world = world(&[Says { mixed: rcode, lower: rcode }; 3]);
        assert_eq!(ask(&mut world, 0), (Rcode::SERVFAIL, 3 + 2), "two of three");
        assert_eq!(ask(&mut world, 1), (Rcode::SERVFAIL, 3 + 1), "the third one");
        assert_eq!(ask(&mut world, 2), (Rcode::SERVFAIL, 3), "all three are known");
    }
}

/// The replies of a server that drops names in mixed case.
fn drops_mixed(query: &Query) -> Vec<(u64, Vec<u8>)> {
    let is_mixed = query.question[..query.question.len() - 4].iter().any(u8::is_ascii_uppercase);
    if is_mixed { Vec::new() } else { vec![(0, address(query).octets())] }
}

#[test]
fn a_server_that_drops_mixed_case_is_asked_in_lower_case_and_remembered_after_a_few_questions() {
    for count in 1..=3 {
        let lasts: Vec<u8> = (1..=count).collect();
        let mut world = World::new(1, Faults::NONE, plan(vec![rule(".", &lasts)]));
        lasts.iter().for_each(|&last| world.serve(last, drops_mixed));
        let silent = usize::from(count);
        for host in 0..3 {
            let (rcode, sent) = ask(&mut world, host);
            assert_eq!(rcode, Rcode::NOERROR);
            // A server that does not answer may get an additional probe.
            assert!((silent + 1..=silent + 2).contains(&sent), "{sent} to {count}");
        }
        if count == 1 {
            assert!(world.sent.iter().all(|sent| sent.query.edns.is_some()));
            assert_eq!(ask(&mut world, 3), (Rcode::NOERROR, 1), "it is asked in lower case now");
        }
    }
}

#[test]
fn no_server_that_found_a_name_in_mixed_case_is_asked_in_lower_case_when_it_is_silent() {
    let mut world = world(&[Says { mixed: Rcode::NOERROR, lower: Rcode::NOERROR }]);
    ask(&mut world, 0);
    world.serve(1, |_| Vec::new());
    assert_eq!(ask(&mut world, 1).0, Rcode::SERVFAIL);
    let is_mixed = |question: &[u8]| question.iter().any(u8::is_ascii_uppercase);
    assert!(world.sent.iter().all(|sent| is_mixed(&sent.query.question)));
}

#[test]
fn lower_case_adds_no_query_to_silent_servers() {
    for count in 1..=9u8 {
        let lasts: Vec<u8> = (1..=count).collect();
        let mut world = World::new(1, Faults::NONE, plan(vec![rule(".", &lasts)]));
        lasts.iter().for_each(|&last| world.serve(last, |_| Vec::new()));
        let (rcode, sent) = ask(&mut world, 0);
        assert_eq!(rcode, Rcode::SERVFAIL);
        assert!(sent <= usize::from(count).max(8), "{sent} to {count}");
    }
}

#[test]
fn denials_of_names_in_mixed_case_are_verified_in_lower_case() {
    let minds = Says { mixed: Rcode::NXDOMAIN, lower: Rcode::NOERROR };
    let mut world_of_one = world(&[minds]);
    assert_eq!(ask(&mut world_of_one, 0), (Rcode::NOERROR, 2));
    assert_eq!(ask(&mut world_of_one, 1), (Rcode::NOERROR, 1), "it is asked in lower case now");
    // A genuine denial causes one more query, until there have been three.
    let denies = Says { mixed: Rcode::NXDOMAIN, lower: Rcode::NXDOMAIN };
    let mut world_of_one = world(&[denies]);
    for host in 0..3 {
        assert_eq!(ask(&mut world_of_one, 2 * host), (Rcode::NXDOMAIN, 2));
        assert_eq!(ask(&mut world_of_one, 2 * host + 1), (Rcode::NXDOMAIN, 1), "at once after it");
        pass(&mut world_of_one);
    }
    assert_eq!(ask(&mut world_of_one, 6), (Rcode::NXDOMAIN, 1));
    // A name that does not exist says nothing about the server.
    let mut world_of_one = world(&[denies]);
    ask(&mut world_of_one, 0);
    pass(&mut world_of_one);
    world_of_one.serve(1, move |query| minds.replies(query));
    assert_eq!(ask(&mut world_of_one, 1), (Rcode::NOERROR, 2));
    // A denial is trusted if the server has found a name in mixed case.
    let mut world_of_one = world(&[Says { mixed: Rcode::NOERROR, lower: Rcode::NOERROR }]);
    ask(&mut world_of_one, 0);
    world_of_one.serve(1, move |query| denies.replies(query));
    assert_eq!(ask(&mut world_of_one, 1), (Rcode::NXDOMAIN, 1));
}

#[test]
fn a_denial_that_cannot_be_verified_is_believed_from_another_server() {
    let mut world = world(&[Says { mixed: Rcode::NXDOMAIN, lower: Rcode::SERVFAIL }; 2]);
    assert_eq!(ask(&mut world, 0), (Rcode::NXDOMAIN, 3));
    assert_eq!(ask(&mut world, 1), (Rcode::NXDOMAIN, 1), "nothing is to be learnt from it");
}

#[test]
fn no_data_for_a_name_in_mixed_case_is_verified_in_lower_case() {
    let soa = "example. 300 SOA ns.test. host.test. 1 2 3 4 300";
    let empty = move |query: &Query| avocet_testkit::Response::to(query).authority(soa);
    let minds = Says { mixed: Rcode::NXDOMAIN, lower: Rcode::NOERROR };
    let mut world = World::new(1, Faults::NONE, plan(vec![rule(".", &[1])]));
    world.serve(1, move |query| match minds.replies(query) {
        replies if replies[0].1[3] & 15 == 0 => replies,
        _ => vec![(0, empty(query).octets())],
    });
    let name = "a-name-of-many-letters.example. A";
    let answer = world.resolve(name);
    assert_eq!((answer.rcode(), world.sent.len()), (Rcode::NOERROR, 2));
    assert!(answer.records[0].starts_with("answer "), "of the query in lower case");
    assert_eq!(ask(&mut world, 1), (Rcode::NOERROR, 1), "it is asked in lower case now");
}

#[test]
fn a_server_that_denies_mixed_case_and_has_no_data_in_lower_case_is_asked_in_lower_case() {
    let minds = Says { mixed: Rcode::NXDOMAIN, lower: Rcode::NOERROR };
    let soa = "example. 300 SOA ns.test. host.test. 1 2 3 4 300";
    let mut world = World::new(1, Faults::NONE, plan(vec![rule(".", &[1])]));
    world.serve(1, move |query| match minds.replies(query) {
        replies if replies[0].1[3] & 15 == 0 => {
            vec![(0, avocet_testkit::Response::to(query).authority(soa).octets())]
        }
        replies => replies,
    });
    assert_eq!(ask(&mut world, 0), (Rcode::NOERROR, 2));
    assert_eq!(ask(&mut world, 1), (Rcode::NOERROR, 1));
}

#[test]
fn denials_at_the_same_time_prove_no_more_than_one() {
    let denies = Says { mixed: Rcode::NXDOMAIN, lower: Rcode::NXDOMAIN };
    let mut world = world(&[denies]);
    for host in 0..8 {
        world.ask(&format!("a-name-of-many-letters-{host}.example. A"));
    }
    world.run(world.net.now_ms + 1_000);
    assert_eq!(world.sent.len(), 16, "all are verified");
    for (host, queries) in [(8, 2), (9, 2), (10, 1)] {
        pass(&mut world);
        assert_eq!(ask(&mut world, host), (Rcode::NXDOMAIN, queries));
    }
}

#[test]
fn a_name_that_had_its_stored_case_by_chance_proves_nothing_about_others() {
    let mut world = World::new(1, Faults::NONE, plan(vec![rule(".", &[1])]));
    world.serve(1, move |query| {
        let qname = &query.question[..query.question.len() - 4];
        let leaf = &qname[1..=usize::from(qname[0])];
        let is_found =
            leaf.eq_ignore_ascii_case(b"1234") || leaf.iter().all(u8::is_ascii_lowercase);
        let response = if is_found {
            address(query)
        } else {
            avocet_testkit::Response::to(query).rcode(Rcode::NXDOMAIN)
        };
        vec![(0, response.octets())]
    });
    assert_eq!(world.resolve("1234.example. A").rcode(), Rcode::NOERROR);
    for name in ["onelongname", "anotherlongname"] {
        assert_eq!(world.resolve(&format!("{name}.example. A")).rcode(), Rcode::NOERROR, "{name}");
    }
}
