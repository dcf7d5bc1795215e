//! Servers that return errors for names in mixed case, and answer names in lower case.

use avocet_testkit::{Query, Response};
use avocet_wire::Rcode;
use avocet_wire::header::{AA, RA, RD};

use crate::world::{World, authority, recursion};

const NAME: &str = "a-name-of-many-letters.example.";

/// The time between two questions. Failures expire earlier, and the records about servers expire
/// later.
const PASS_SECS: u64 = 310;

/// The RCODEs that a server returns for a name in mixed case and in lower case.
#[derive(Clone, Copy)]
struct Says {
    mixed: Rcode,
    lower: Rcode,
}

impl Says {
    fn reply(self, query: &Query) -> Response {
        let is_mixed =
            query.question[..query.question.len() - 4].iter().any(u8::is_ascii_uppercase);
        let response = Response::to(query).without_flags(RA | RD).flags(AA);
        match if is_mixed { self.mixed } else { self.lower } {
            Rcode::NOERROR => response.answer(&format!("{} 5 A 198.51.100.1", query.qname)),
            rcode => response.rcode(rcode),
        }
    }
}

/// Returns a world with these servers of example., from 192.0.2.2 on.
fn world(servers: &[Says]) -> World {
    let mut world = World::new(recursion());
    let lasts = 2..2 + servers.len() as u8;
    let mut down: Vec<String> =
        lasts.clone().map(|last| format!("au example. 3600 NS ns{last}.example.")).collect();
    down.extend(lasts.map(|last| format!("ad ns{last}.example. 3600 A 192.0.2.{last}")));
    for (last, &says) in (2..).zip(servers) {
        world.serve(last, Box::new(move |query| Some(says.reply(query))));
    }
    let down: Vec<&str> = down.iter().map(String::as_str).collect();
    world.serve(1, authority(".", &[("*example. A", &down)]));
    world
}

/// Resolves the name. Returns the RCODE, and the number of queries that the servers of the name
/// got.
fn ask(world: &mut World) -> (Rcode, usize) {
    let rcode = world.resolve(&format!("{NAME} A")).rcode;
    let sent = world.take_sent();
    // Failures and the cached record expire.
    world.pass(PASS_SECS);
    (rcode, sent.iter().filter(|sent| !sent.starts_with("1:")).count())
}

#[test]
fn where_all_servers_give_errors_to_mixed_case_one_is_asked_in_lower_case_and_remembered() {
    for mixed in [Rcode::REFUSED, Rcode::SERVFAIL] {
        let says = Says { mixed, lower: Rcode::NOERROR };
        for count in [1, 2, 3, 9] {
            let mut world = world(&vec![says; count]);
            let (rcode, sent) = ask(&mut world);
            assert_eq!((rcode, sent), (Rcode::NOERROR, count.min(8) + 1), "{mixed} of {count}");
        }
        let mut world = world(&[says]);
        ask(&mut world);
        assert_eq!(ask(&mut world), (Rcode::NOERROR, 1), "it is asked in lower case now");
    }
    // The query is repeated without EDNS, first in mixed case and then in lower case.
    let says = Says { mixed: Rcode::FORMERR, lower: Rcode::NOERROR };
    assert_eq!(ask(&mut world(&[says])), (Rcode::NOERROR, 3));
}

#[test]
fn no_server_is_asked_in_lower_case_where_another_one_answers() {
    let refuses = Says { mixed: Rcode::REFUSED, lower: Rcode::REFUSED };
    let answers = Says { mixed: Rcode::NOERROR, lower: Rcode::NOERROR };
    for servers in [[refuses, answers], [answers, refuses]] {
        let mut world = world(&servers);
        let sent: usize = (0..3).map(|_| ask(&mut world).1).sum();
        assert!(sent <= 4, "{sent} queries for three questions");
    }
}

#[test]
fn servers_that_fail_in_any_case_are_asked_in_lower_case_no_more_than_once() {
    for rcode in [Rcode::REFUSED, Rcode::SERVFAIL] {
        let says = Says { mixed: rcode, lower: rcode };
        let mut world = world(&[says; 3]);
        assert_eq!(ask(&mut world), (Rcode::SERVFAIL, 3 + 2), "two of three");
        // The parent is queried for the delegation again, so the servers get the queries twice.
        assert_eq!(ask(&mut world), (Rcode::SERVFAIL, 3 + 3 + 1), "the third one");
        assert_eq!(ask(&mut world), (Rcode::SERVFAIL, 3 + 3), "all three are known");
    }
}

#[test]
fn an_empty_reply_to_mixed_case_is_verified_in_lower_case() {
    let no_data = "au example. 300 SOA ns.test. host.test. 1 2 3 4 300";
    for empty in [no_data, "au . 3600 NS a.root.test.", "au test. 3600 NS ns.test."] {
        let mut world = world(&[Says { mixed: Rcode::NOERROR, lower: Rcode::NOERROR }]);
        let minds = Says { mixed: Rcode::NXDOMAIN, lower: Rcode::NOERROR };
        let serve = move |query: &Query| {
            let reply = minds.reply(query);
            Some(match reply.octets()[3] & 15 {
                0 => reply,
                _ => Response::to(query).without_flags(RA | RD).flags(AA).authority(&empty[3..]),
            })
        };
        world.serve(2, Box::new(serve));
        let expected = [&*format!("answer {NAME} 5 A 198.51.100.1")];
        for queries in [2, 1] {
            world.resolve(&format!("{NAME} A")).check(Rcode::NOERROR, &expected);
            let sent = world.take_sent();
            let count = sent.iter().filter(|sent| !sent.starts_with("1:")).count();
            assert_eq!(count, queries, "{empty}");
            world.pass(PASS_SECS);
        }
    }
}
