//! Attackers that see no queries, or not all of them (RFC 5452).

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use avocet_resolver::{SocketId, SocketSlot};
use avocet_testkit::{Chance, Faults, Query, Response};
use avocet_wire::Rcode;

use crate::world::{World, address, any_address, plan, rule};

/// Returns a limit that chi-square with `degrees` degrees of freedom exceeds with a probability
/// below 0.001 (approximation of Wilson and Hilferty, z = 3.09).
fn chi_square_limit(degrees: f64) -> f64 {
    let ninth = 2.0 / (9.0 * degrees);
    degrees * (1.0 - ninth + 3.09 * ninth.sqrt()).powi(3)
}

fn chi_square(counts: &[u32]) -> f64 {
    let total: u32 = counts.iter().sum();
    let expected = f64::from(total) / counts.len() as f64;
    counts.iter().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum()
}

fn serial_correlation(numbers: &[u16]) -> f64 {
    let mean = numbers.iter().map(|&n| f64::from(n)).sum::<f64>() / numbers.len() as f64;
    let square: f64 = numbers.iter().map(|&n| (f64::from(n) - mean).powi(2)).sum();
    let product: f64 = numbers
        .windows(2)
        .map(|pair| (f64::from(pair[0]) - mean) * (f64::from(pair[1]) - mean))
        .sum();
    product / square
}

/// Sends this number of queries to a server that answers without delay. Returns the IDs and the
/// slots of the queries, and the world.
fn drawn(seed: u64, count: u32) -> (Vec<(u16, u16)>, World) {
    let mut world =
        World::new(seed, Faults { delay_ms: 0, ..Faults::NONE }, plan(vec![rule(".", &[1])]));
    world.serve(1, any_address);
    let mut draws = Vec::new();
    for host in 0..count {
        world.ask(&format!("h{host}.example. A"));
        world.settle();
        let sent = world.sent.pop().unwrap();
        draws.push((sent.query.id, sent.slot().unwrap()));
        world.answers.clear();
    }
    (draws, world)
}

#[test]
fn ids_and_sockets_of_100000_queries_are_uniform_and_independent() {
    let (draws, world) = drawn(11, 100_000);
    let mut ids = vec![0; 1024];
    let mut low_ids = vec![0; 1024];
    let mut sockets = vec![0; 4096];
    for &(id, socket) in &draws {
        ids[usize::from(id >> 6)] += 1;
        low_ids[usize::from(id & 1023)] += 1;
        sockets[socket as usize] += 1;
    }
    for counts in [&ids, &low_ids, &sockets] {
        let (chi, limit) = (chi_square(counts), chi_square_limit(counts.len() as f64 - 1.0));
        assert!(chi < limit, "{chi} of {limit}");
    }
    let ids: Vec<_> = draws.iter().map(|draw| draw.0).collect();
    let sockets: Vec<_> = draws.iter().map(|draw| draw.1).collect();
    assert!(serial_correlation(&ids).abs() < 0.01, "{}", serial_correlation(&ids));
    assert!(serial_correlation(&sockets).abs() < 0.01);
    let counters = world.resolver.counters();
    assert!(counters.min_bits_seen >= 32);
    // 100,000 / 4,096 < 64 uses of each slot.
    assert_eq!(counters.renewals, 0);
}

#[test]
fn sockets_get_another_port_after_few_uses() {
    let mut world =
        World::new(3, Faults { delay_ms: 0, ..Faults::NONE }, plan(vec![rule(".", &[1])]));
    world.serve(1, any_address);
    world.resolver = avocet_resolver::Resolver::new(plan(vec![rule(".", &[1])]), [9; 32], 16);
    for host in 0..4_000 {
        world.resolve(&format!("a-host-with-a-long-name-{host}.example. A"));
    }
    let counters = world.resolver.counters();
    assert!(
        (45..=64).contains(&counters.renewals),
        "16 slots, 250 uses each: {}",
        counters.renewals
    );
}

#[test]
fn no_two_seeds_draw_alike() {
    let sequences: HashSet<_> = (0..20).map(|seed| drawn(seed, 20).0).collect();
    assert_eq!(sequences.len(), 20);
}

#[test]
fn names_with_few_letters_get_a_socket_of_their_own() {
    let mut world = World::simple(any_address);
    for what in [". NS", "1. A", "ab. A", "abc. A", "abcd. A"] {
        world.resolve(what);
    }
    let own: Vec<_> = world.sent.iter().map(|sent| sent.slot().is_none()).collect();
    assert_eq!(own, [true, true, true, true, false], "16 + 12 + letters >= 32");
    assert_eq!(
        (world.resolver.counters().fresh_sockets, world.resolver.counters().min_bits_seen),
        (4, 31)
    );
}

#[test]
fn of_a_million_forged_replies_none_is_taken() {
    let mut world = World::new(1, Faults::NONE, plan(vec![rule(".", &[1])]));
    world.ask("www.bank.example. A");
    let (socket, slot) = (world.sent[0].socket, world.sent[0].slot().unwrap());
    let query = world.sent[0].query.clone();
    let forged = Response::to(&query).answer("www.bank.example. 86400 A 203.0.113.66").octets();
    let mut chance = Chance::new(5);
    for _ in 0..1_000_000 {
        let mut octets = forged.clone();
        let mut at_slot = slot;
        match chance.below(4) {
            // Another ID on the right socket, the right ID on another socket, or both wrong.
            0 => octets[..2]
                .copy_from_slice(&(query.id ^ (1 + chance.below(65_535) as u16)).to_be_bytes()),
            1 => at_slot = (slot + 1 + chance.below(4095) as u16) % 4096,
            2 => {
                octets[..2]
                    .copy_from_slice(&(query.id ^ (1 + chance.below(65_535) as u16)).to_be_bytes());
                at_slot = (slot + 1 + chance.below(4095) as u16) % 4096;
            }
            // Only the name is wrong.
            _ => octets[13] ^= 1,
        }
        world.inject(SocketId { slot: SocketSlot::Pooled(at_slot), ..socket }, &octets);
    }
    assert_eq!(world.resolver.counters().foreign, 1_000_000);
    assert!(world.answers.is_empty());
    world.serve(1, any_address);
    world.settle();
    assert_eq!(world.answers[0].records, ["answer www.bank.example. 300 A 192.0.2.80"]);
}

#[test]
fn a_forged_reply_in_the_wrong_case_leads_to_tcp_and_is_not_taken() {
    let mut world = World::simple(any_address);
    world.ask("www.bank.example. A");
    let sent = world.sent[0].clone();
    let mut question = sent.query.question.clone();
    question[1] ^= 0x20;
    let forged = Response::to(&sent.query)
        .question(&question)
        .answer("www.bank.example. 86400 A 203.0.113.66");
    world.inject(sent.socket, &forged.octets());
    assert!(world.answers.is_empty() && world.sent[1].query.over_tcp);
    world.settle();
    assert_eq!(world.answers[0].records, ["answer www.bank.example. 300 A 192.0.2.80"]);
    assert_eq!(world.resolver.counters().near_misses, 1);
}

#[test]
fn a_server_that_folds_case_is_asked_from_fresh_sockets_then() {
    let fold = |query: &Query| {
        let question = query.question.to_ascii_lowercase();
        let question =
            [&question[..question.len() - 4], &query.question[question.len() - 4..]].concat();
        vec![(0, address(query).question(&question).octets())]
    };
    let mut world = World::simple(fold);
    world
        .resolve("www.first.example. A")
        .check(Rcode::NOERROR, &["answer www.first.example. 300 A 192.0.2.80"]);
    assert!(world.sent[1].query.over_tcp);
    for host in 0..10 {
        assert_eq!(world.resolve(&format!("h{host}.example. A")).rcode(), Rcode::NOERROR);
    }
    assert_eq!(world.sent.len(), 12);
    assert!(world.sent[2..].iter().all(|sent| !sent.is_by_tcp() && sent.slot().is_none()));
    assert_eq!(world.resolver.counters().min_bits_seen, 31, "ID and port");
}

#[test]
fn a_forged_reply_with_another_client_cookie_leads_to_tcp_and_is_not_taken() {
    let cookies = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&cookies);
    let mut world = World::simple(move |query| {
        let cookie = query.cookie.clone().unwrap();
        seen.borrow_mut().push(cookie.clone());
        let forged = Response::to(query)
            .answer(&format!("{} 300 A 203.0.113.66", query.qname))
            .cookie(b"otherck!server01");
        let genuine = address(query).cookie(&[&cookie[..8], b"server01"].concat());
        match query.over_tcp {
            true => vec![(5, genuine.octets())],
            false => vec![(0, forged.octets()), (5, genuine.octets())],
        }
    });
    world
        .resolve("www.example. A")
        .check(Rcode::NOERROR, &["answer www.example. 300 A 192.0.2.80"]);
    world.resolve("mail.example. A");
    assert_eq!(world.resolver.counters().near_misses, 2);
    assert_eq!(cookies.borrow()[2].len(), 16, "the server's own cookie goes along from then on");
}

#[test]
fn a_server_that_repeats_the_cookie_of_others_is_asked_over_tcp() {
    let mut world =
        World::simple(|query| vec![(5, address(query).cookie(b"otherck!server01").octets())]);
    world
        .resolve("www.example. A")
        .check(Rcode::NOERROR, &["answer www.example. 300 A 192.0.2.80"]);
    assert!(world.sent.last().unwrap().query.over_tcp);
    assert_eq!(world.sent.len(), 2);
}
