//! Loss, delay, reordering, duplication and failure of servers: the figures of the fault table, and
//! properties that hold for every seed.

use std::cell::Cell;
use std::rc::Rc;

use avocet_resolver::Strategy;
use avocet_testkit::{Chance, Faults, Response};
use avocet_wire::{Ede, Rcode};

use crate::world::{START_MS, World, address, any_address, plan, rule};

/// Resolves 200 names, one every 10 ms. Returns the durations in ascending order, and checks that
/// all names were answered.
fn cold_names(world: &mut World) -> Vec<u64> {
    let start = world.net.now_ms;
    let waiters: Vec<_> = (0..200)
        .map(|host| {
            world.run(start + host * 10);
            world.ask(&format!("h{host}.example. A"))
        })
        .collect();
    world.settle();
    let mut took: Vec<_> = (0..)
        .zip(waiters)
        .map(|(host, waiter)| {
            let answer = world.answer_to(waiter);
            let took = answer.at_ms - (start + host * 10);
            assert!(took <= 5_000);
            if answer.rcode() == Rcode::NOERROR { took } else { u64::MAX }
        })
        .collect();
    took.sort_unstable();
    took
}

fn share(took: &[u64], within_ms: u64) -> usize {
    took.partition_point(|&took| took <= within_ms) * 100 / took.len()
}

#[test]
fn loss_of_10_30_and_50_percent_each_way_is_borne() {
    for seed in 0..20 {
        for (loss, answered, within_2_s, p50_ms) in
            [(10, 100, 99, 400), (30, 100, 95, 400), (50, 99, 70, 1500)]
        {
            let mut world = World::new(seed, Faults::loss(loss), plan(vec![rule(".", &[1])]));
            world.serve(1, any_address);
            let took = cold_names(&mut world);
            assert!(
                share(&took, 5_000) >= answered,
                "{seed}: {loss} %: {} answered",
                share(&took, 5_000)
            );
            assert!(
                share(&took, 2_000) >= within_2_s,
                "{seed}: {loss} %: {} in 2 s",
                share(&took, 2_000)
            );
            assert!(took[100] <= p50_ms, "{seed}: {loss} %: {} ms", took[100]);
            if loss == 30 {
                assert!(world.sent.len() <= 4 * 200, "{} queries", world.sent.len());
            }
        }
    }
}

#[test]
fn one_of_two_servers_may_be_dead() {
    for (strategy, dead) in [
        (Strategy::Ordered, 1),
        (Strategy::RoundRobin, 1),
        (Strategy::Fastest, 2),
        (Strategy::Race(2), 1),
    ] {
        let mut rule = rule(".", &[1, 2]);
        rule.strategy = strategy;
        let mut world = World::new(3, Faults::NONE, plan(vec![rule]));
        world.serve(3 - dead, any_address);
        let took = cold_names(&mut world);
        assert_eq!(share(&took, 5_000), 100);
        assert!(took[180] < 450 && took[198] < 1_300, "{strategy:?}: {} {}", took[180], took[198]);
    }
}

#[test]
fn where_all_are_dead_clients_learn_so_within_five_seconds_and_of_recovery_within_two() {
    let alive = Rc::new(Cell::new(false));
    let mut world = World::new(3, Faults::NONE, plan(vec![rule(".", &[1])]));
    let is_alive = Rc::clone(&alive);
    world.serve(1, move |query| if is_alive.get() { any_address(query) } else { Vec::new() });
    for host in 0..100 {
        world.ask(&format!("dead{host}.example. A"));
    }
    world.settle();
    for answer in &world.answers {
        assert_eq!(
            (answer.rcode(), answer.ede()),
            (Rcode::SERVFAIL, Some(Ede::NO_REACHABLE_AUTHORITY.0))
        );
        assert!(answer.at_ms - START_MS <= 5_000);
    }
    assert!(world.sent.len() <= 400, "{}", world.sent.len());
    world.run(START_MS + 120_000);
    alive.set(true);
    let took = cold_names(&mut world);
    assert!(took[0] <= 20 && took[199] <= 2_000, "{} {}", took[0], took[199]);
}

#[test]
fn slow_reordered_and_duplicated_replies_answer_each_client_once() {
    let faults = Faults { loss: 0, duplicate: 20, delay_ms: 250, jitter_ms: 100 };
    let mut world = World::new(5, faults, plan(vec![rule(".", &[1])]));
    world.serve(1, any_address);
    let took = cold_names(&mut world);
    assert_eq!(share(&took, 1_000), 100);
    assert_eq!(world.answers.len(), 200);
    assert!(world.resolver.counters().late > 0);
}

#[test]
fn thirteen_dead_servers_cost_fourteen_queries() {
    let servers: Vec<u8> = (1..=13).collect();
    let mut world = World::new(3, Faults::NONE, plan(vec![rule(".", &servers)]));
    let answer = world.resolve("www.example. A");
    assert_eq!(answer.rcode(), Rcode::SERVFAIL);
    assert!(world.sent.len() <= 14 && answer.at_ms - START_MS <= 5_000, "{}", world.sent.len());
}

/// Returns a world with a random network and random servers, from a seed.
fn random_world(seed: u64) -> World {
    let mut chance = Chance::new(seed);
    let faults = Faults {
        loss: [0, 0, 5, 30][chance.below(4) as usize],
        duplicate: chance.below(20) as u32,
        delay_ms: chance.below(100),
        jitter_ms: chance.below(200),
    };
    let mut root = rule(".", &[1, 2, 3]);
    root.strategy = [Strategy::Ordered, Strategy::RoundRobin, Strategy::Fastest, Strategy::Race(2)]
        [chance.below(4) as usize];
    root.case_randomisation = chance.percent(80);
    let mut world = World::new(seed, faults, plan(vec![root, rule("corp.example.", &[3, 4])]));
    for server in 1..=4 {
        let mut moods = Chance::new(seed ^ (server << 32));
        let mood = moods.below(100) as u32;
        world.serve(server as u8, move |query| {
            let after_ms = moods.below(300);
            if moods.percent(mood) {
                return vec![(after_ms, address(query).octets())];
            }
            let response = Response::to(query);
            let soa = "example. 900 SOA ns.example. admin.example. 1 2 3 4 60";
            let response = match moods.below(10) {
                0 => response.rcode(Rcode::SERVFAIL),
                1 => response.rcode(Rcode::REFUSED),
                2 => response.rcode(Rcode::FORMERR).without_edns(),
                3 if !query.over_tcp => response.truncated(),
                4 => response.rcode(Rcode::NXDOMAIN).authority(soa),
                5 => response.authority(soa),
                6 => response.answer(&format!("{} 99 CNAME y.corp.example.", query.qname)),
                7 => response.answer(&format!("{} 99 CNAME z.example.", query.qname)),
                8 => response.id(query.id ^ 1),
                _ => return Vec::new(),
            };
            vec![(after_ms, response.octets())]
        });
    }
    world
}

#[test]
fn for_every_seed_each_question_is_answered_once_in_time_with_bounded_queries() {
    for seed in 0..4_000 {
        let mut world = random_world(seed);
        let mut chance = Chance::new(!seed);
        let mut asked = Vec::new();
        for _ in 0..8 {
            let zone = ["example.", "corp.example."][chance.below(2) as usize];
            let what = format!("{}.{zone} A", ["a", "b", "x.b"][chance.below(3) as usize]);
            world.dnssec_ok = chance.percent(30);
            asked.push((world.ask(&what), world.net.now_ms, what));
            let later = world.net.now_ms + chance.below(2_000);
            world.run(later);
            if chance.percent(15) {
                let servers = [[1, 2], [3, 4], [2, 4]][chance.below(3) as usize];
                world.reload(plan(vec![rule(".", &servers), rule("corp.example.", &[4])]));
            }
        }
        world.settle();
        assert_eq!(world.answers.len(), asked.len(), "seed {seed}");
        for (waiter, asked_ms, what) in asked {
            let answer = world.answer_to(waiter);
            assert!(answer.at_ms - asked_ms <= 5_000, "seed {seed}: {what}");
            let question = avocet_testkit::question(&what);
            assert_eq!(answer.octets[12..12 + question.len()], question[..], "seed {seed}");
            let flags = u16::from_be_bytes([answer.octets[2], answer.octets[3]]);
            assert_eq!(flags & !0xf, 0x8080, "seed {seed}: never AA, TC or AD");
            for record in &answer.records {
                let ttl: u32 = record.split(' ').nth(2).unwrap().parse().unwrap();
                assert!(ttl <= 300, "seed {seed}: {record}");
            }
        }
        assert!(world.sent.len() <= 8 * 64, "seed {seed}");
        assert_eq!((world.resolver.in_flight(), world.resolver.waiting()), (0, 0), "seed {seed}");
        assert!(
            world.resolver.upstreams().all(|upstream| upstream.outstanding == 0),
            "seed {seed}"
        );
        assert!(world.resolver.counters().min_bits_seen >= 31, "seed {seed}");
    }
}

#[test]
fn a_query_that_could_not_be_sent_here_goes_out_again_soon_and_blames_nobody() {
    let mut asked = 0;
    let mut world = World::simple(move |query| {
        asked += 1;
        if asked > 1 { any_address(query) } else { Vec::new() }
    });
    let waiter = world.ask("www.example. a");
    world.unsent(world.sent[0].socket);
    let began_ms = world.net.now_ms;
    world.settle();
    let answer = world.answer_to(waiter);
    assert_eq!(answer.rcode(), Rcode::NOERROR);
    assert!((50..150).contains(&(answer.at_ms - began_ms)), "{} ms", answer.at_ms - began_ms);
}

#[test]
fn queries_on_a_socket_that_was_closed_here_are_repeated_soon_and_blame_nobody() {
    let mut asked = 0;
    let mut world = World::simple(move |query| {
        asked += 1;
        if asked > 2 { any_address(query) } else { Vec::new() }
    });
    // With one slot, both queries wait on the same socket.
    world.resolver = avocet_resolver::Resolver::new(plan(vec![rule(".", &[1])]), [9; 32], 1);
    let names = ["first-long-hostname.example. a", "second-long-hostname.example. a"];
    let waiters = names.map(|name| world.ask(name));
    assert_eq!(world.sent[0].socket, world.sent[1].socket);
    world.withdraw(world.sent[0].socket);
    let began_ms = world.net.now_ms;
    world.settle();
    for waiter in waiters {
        let answer = world.answer_to(waiter);
        assert_eq!(answer.rcode(), Rcode::NOERROR);
        assert!((50..150).contains(&(answer.at_ms - began_ms)), "{} ms", answer.at_ms - began_ms);
    }
    assert_eq!(world.resolver.counters().unsent, 2);
}
