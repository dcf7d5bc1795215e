//! Limits on questions in flight, and the questions that are ended or rejected at these limits.

use avocet_resolver::{EcsPolicy, Plan, Settings, Shed, Submitted};
use avocet_testkit::{Faults, Response};
use avocet_wire::Rcode;

use crate::world::{START_MS, World, addr, address, any_address, plan, rule, settings};

fn limited(in_flight: usize, waiters: usize) -> World {
    let settings = Settings { in_flight, waiters, ..settings() };
    World::new(1, Faults::NONE, Plan::new(vec![rule(".", &[1])], settings).unwrap().into())
}

#[test]
fn quick_questions_get_through_among_slow_ones() {
    let mut world = limited(100, 10_000);
    world.serve(
        1,
        |query| if query.qname.starts_with("slow") { Vec::new() } else { any_address(query) },
    );
    let mut quick = Vec::new();
    for host in 0..2000 {
        if host % 10 == 0 {
            quick.push((world.ask(&format!("quick{host}.example. A")), world.net.now_ms));
        } else {
            world.ask(&format!("slow{host}.example. A"));
        }
        world.run(START_MS + (host + 1) * 3);
    }
    world.settle();
    let in_time = quick.iter().filter(|(waiter, asked_ms)| {
        let answer = world.answers.iter().find(|answer| answer.waiter == *waiter);
        answer
            .is_some_and(|answer| answer.rcode() == Rcode::NOERROR && answer.at_ms - asked_ms < 200)
    });
    assert!(in_time.count() * 100 >= quick.len() * 99);
    assert!(world.resolver.counters().jostled > 500);
}

#[test]
fn questions_beyond_the_limit_are_not_taken_while_none_is_slow() {
    let mut world = limited(10, 100);
    for host in 0..10 {
        world.ask(&format!("h{host}.example. A"));
    }
    assert!(matches!(
        world.submit("more.example. A", Some(99)),
        Submitted::Shed { reason: Shed::Tasks, waiter: Some(99) }
    ));
    assert!(matches!(world.submit("h1.example. A", Some(98)), Submitted::Joined));
    assert_eq!(world.resolver.in_flight(), 10);
}

#[test]
fn a_prefetch_gives_way_to_a_client() {
    let mut world = limited(10, 100);
    world.submit("ahead.example. A", None);
    for host in 0..10 {
        assert!(matches!(
            world.submit(&format!("h{host}.example. A"), Some(host)),
            Submitted::Started
        ));
    }
    assert_eq!((world.resolver.in_flight(), world.resolver.counters().jostled), (10, 1));
}

#[test]
fn waiters_are_bounded_for_a_question_and_in_all() {
    let mut world = limited(10, 1500);
    for waiter in 0..1000 {
        assert!(!matches!(world.submit("a.example. A", Some(waiter)), Submitted::Shed { .. }));
    }
    assert!(matches!(
        world.submit("a.example. A", Some(0)),
        Submitted::Shed { reason: Shed::Waiters, .. }
    ));
    for waiter in 0..500 {
        assert!(!matches!(world.submit("b.example. A", Some(waiter)), Submitted::Shed { .. }));
    }
    assert!(matches!(
        world.submit("c.example. A", Some(0)),
        Submitted::Shed { reason: Shed::Waiters, .. }
    ));
    assert_eq!(world.resolver.waiting(), 1500);
}

#[test]
fn clients_with_stale_data_are_let_go_in_time_and_resolution_goes_on() {
    let mut world = World::simple(|query| vec![(3000, address(query).octets())]);
    world.stale_available = true;
    let stale = world.ask("www.example. A");
    world.stale_available = false;
    let patient = world.ask("www.example. A");
    world.settle();
    assert_eq!(world.overdue, [(stale, START_MS + 1800)]);
    assert_eq!(world.answer_to(patient).rcode(), Rcode::NOERROR);
    assert!(world.answers.iter().all(|answer| answer.waiter != stale));
}

#[test]
fn client_subnets_never_multiply_queries() {
    let mut world = World::simple(any_address);
    for client in 0..200u8 {
        world.ecs = vec![0, 1, 32, 0, 198, 51, 100, client];
        world.ask("www.example. A");
    }
    assert_eq!(world.sent.len(), 1, "stripped, they are one question");
    let mut passing = rule(".", &[1]);
    passing.ecs = EcsPolicy::Pass;
    let mut world = World::new(1, Faults::NONE, plan(vec![passing]));
    world.serve(1, any_address);
    for client in 0..200u8 {
        world.ecs = vec![0, 1, 32, 0, 198, 51, 100, client];
        world.ask("www.example. A");
    }
    assert_eq!(world.sent.len(), 4);
    assert_eq!(world.sent.iter().filter(|sent| sent.query.ecs).count(), 3);
    world.settle();
    assert_eq!(world.answers.len(), 200);
}

#[test]
fn a_question_that_comes_back_is_not_sent_again() {
    // Two servers forward to each other: each query of this server comes back at once.
    let mut world = World::simple(|_| Vec::new());
    let first = world.ask("www.example. A");
    world.run(START_MS + 20);
    world.client = Some(addr(1).ip());
    let second = world.ask("www.example. A");
    world.settle();
    for waiter in [first, second] {
        let answer = world.answer_to(waiter);
        assert_eq!(answer.rcode(), Rcode::SERVFAIL);
        assert!(answer.at_ms - START_MS <= 5000);
    }
    assert_eq!((world.sent.len(), world.resolver.counters().loops), (1, 1));
}

#[test]
fn a_question_is_not_sent_back_to_who_asks_it() {
    let mut world = World::new(1, Faults::NONE, plan(vec![rule(".", &[1, 2])]));
    world.serve(2, any_address);
    world.client = Some(addr(1).ip());
    assert_eq!(world.resolve("www.example. A").rcode(), Rcode::NOERROR);
    assert_eq!((world.sent_to(1), world.sent_to(2)), (0, 1));
    let mut alone = World::simple(|_| Vec::new());
    alone.client = Some(addr(1).ip());
    assert_eq!(alone.resolve("www.example. A").rcode(), Rcode::SERVFAIL);
    assert_eq!(alone.sent.len(), 1);
}

#[test]
fn no_question_takes_more_than_its_share_of_queries() {
    // Each name is an alias to the next. Each server first fails in a different way.
    let mut world = World::new(7, Faults::loss(40), plan(vec![rule(".", &[1, 2, 3, 4])]));
    for server in 1..=4 {
        world.serve(server, move |query| match query.octets[0] % 4 {
            0 => vec![(0, Response::to(query).rcode(Rcode::SERVFAIL).octets())],
            1 => vec![(0, Response::to(query).truncated().octets())],
            2 => vec![(0, Response::to(query).rcode(Rcode::FORMERR).octets())],
            _ => {
                let alias = format!("{} 100 CNAME x.{}", query.qname, query.qname);
                vec![(0, Response::to(query).answer(&alias).octets())]
            }
        });
    }
    for host in 0..100 {
        let before = world.sent.len();
        world.resolve(&format!("h{host}.example. A"));
        assert!(world.sent.len() - before <= 64 + 8 * 11, "eight more for each of eleven aliases");
    }
}
