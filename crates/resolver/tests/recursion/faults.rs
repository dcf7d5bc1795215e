//! Networks that lose packets, and servers that do not answer.

use avocet_resolver::{Recursion, RootServer};
use avocet_testkit::{Faults, Query, Response, name};
use avocet_wire::Rcode;
use avocet_wire::header::AA;

use crate::world::{World, authority, recursion};

/// Returns a world with the root at .1, and with test. at .2 and at .3. No server answers at .3.
fn world(faults: Faults, servers: &[u8]) -> World {
    let mut world = World::with_faults(recursion(), faults);
    let mut down: Vec<String> =
        servers.iter().map(|last| format!("au test. 86400 NS ns{last}.test.")).collect();
    down.extend(servers.iter().map(|last| format!("ad ns{last}.test. 86400 A 192.0.2.{last}")));
    let down: Vec<&str> = down.iter().map(String::as_str).collect();
    world.serve(1, authority(".", &[("*test. A", &down)]));
    let names: Vec<(String, String)> = (0..200)
        .map(|n| (format!("n{n}.test. A"), format!("an n{n}.test. 60 A 198.51.100.{n}")))
        .collect();
    let records: Vec<[&str; 1]> = names.iter().map(|(_, record)| [record.as_str()]).collect();
    let answers: Vec<(&str, &[&str])> = names
        .iter()
        .zip(&records)
        .map(|((question, _), records)| (question.as_str(), &records[..]))
        .collect();
    world.serve(2, authority("test.", &answers));
    world
}

/// Resolves 200 names that are not cached. Returns how many of them were answered, and the longest
/// time of an answer in ms.
fn resolve_all(world: &mut World) -> (usize, u64) {
    let (mut answered, mut longest_ms) = (0, 0);
    for number in 0..200 {
        let answer = world.resolve(&format!("n{number}.test. A"));
        if answer.rcode == Rcode::NOERROR {
            answered += 1;
            longest_ms = longest_ms.max(answer.took_ms);
        }
    }
    (answered, longest_ms)
}

#[test]
fn half_of_all_datagrams_may_be_lost() {
    let mut world = world(Faults::loss(50), &[2]);
    let (answered, longest_ms) = resolve_all(&mut world);
    assert!(answered >= 198 && longest_ms <= 10_000, "{answered} of 200, {longest_ms} ms");
}

/// Returns a world with the root at .1 and .4, test. at .2 and .5, and example.test. at .3 and .6.
/// No server was queried yet.
fn unknown_world(seed: u64) -> World {
    let hint = RootServer {
        name: name("a.root.").into(),
        addresses: vec![[192, 0, 2, 1].into(), [192, 0, 2, 4].into()],
    };
    let mut world =
        World::seeded(Recursion { hints: vec![hint], ..recursion() }, Faults::loss(50), seed);
    let down = |zone: &str, servers: [u8; 2]| -> Vec<String> {
        let ns = servers.iter().map(|last| format!("au {zone} 86400 NS ns{last}.{zone}"));
        ns.chain(servers.iter().map(|last| format!("ad ns{last}.{zone} 86400 A 192.0.2.{last}")))
            .collect()
    };
    let (to_test, to_example) = (down("test.", [2, 5]), down("example.test.", [3, 6]));
    let to_test: Vec<&str> = to_test.iter().map(String::as_str).collect();
    let to_example: Vec<&str> = to_example.iter().map(String::as_str).collect();
    for last in [1, 4] {
        world.serve(last, authority(".", &[("*test. A", &to_test)]));
    }
    for last in [2, 5] {
        world.serve(last, authority("test.", &[("*example.test. A", &to_example)]));
    }
    for last in [3, 6] {
        let address: &[&str] = &["an www.example.test. 60 A 198.51.100.1"];
        world.serve(last, authority("example.test.", &[("www.example.test. A", address)]));
    }
    world
}

#[test]
fn half_of_all_datagrams_may_be_lost_when_nothing_is_known_yet() {
    let mut answered = 0;
    for seed in 0..200 {
        let mut world = unknown_world(seed);
        let answer = world.resolve("www.example.test. A");
        answered += usize::from(answer.rcode == Rcode::NOERROR);
        assert!(answer.took_ms <= 10_000);
        assert!(world.take_sent().len() <= 64);
    }
    assert!(answered >= 186, "{answered} of 200");
}

#[test]
fn where_everybody_falls_silent_clients_are_told_in_time() {
    let mut world = world(Faults::NONE, &[2]);
    for number in 0..50 {
        assert_eq!(world.resolve(&format!("n{number}.test. A")).rcode, Rcode::NOERROR);
    }
    world.silence();
    world.take_sent();
    let client = [198, 51, 100, 1].into();
    let waited: Vec<u32> = (50..150)
        .map(|number| world.submit(&format!("n{number}.test. A"), client).unwrap())
        .collect();
    world.run();
    for waiter in waited {
        let answer = world.answer_to(waiter).unwrap();
        assert_eq!((answer.rcode, answer.ede), (Rcode::SERVFAIL, Some(22)));
        assert!(answer.took_ms <= 5_000, "{} ms", answer.took_ms);
    }
    assert!(world.take_sent().len() <= 100 * 26);
}

#[test]
fn one_of_two_servers_may_be_dead() {
    let mut world = world(Faults::NONE, &[2, 3]);
    let (answered, longest_ms) = resolve_all(&mut world);
    assert_eq!(answered, 200);
    assert!(longest_ms <= 1_300, "{longest_ms} ms");
    let to_dead = world.take_sent().iter().filter(|sent| sent.starts_with("3:")).count();
    assert!(to_dead <= 40, "{to_dead} queries to a server that is dead");
}

/// The names of example. are at .2, which answers. The names of attack. are at .3, which drops all
/// queries except those for names that begin with "ok".
#[test]
fn a_server_that_drops_what_it_likes_makes_no_other_server_look_lossy() {
    let mut world = World::new(recursion());
    let to_attack: &[&str] = &["au attack. 3600 NS ns.attack.", "ad ns.attack. 3600 A 203.0.113.3"];
    let to_example: &[&str] =
        &["au example. 3600 NS ns.example.", "ad ns.example. 3600 A 192.0.2.2"];
    world.serve(1, authority(".", &[("*attack. A", to_attack), ("*example. A", to_example)]));
    let answer = |query: &Query| {
        Response::to(query).flags(AA).answer(&format!("{} 0 A 198.51.100.1", query.qname))
    };
    world.serve(2, Box::new(move |query| Some(answer(query))));
    let mut drops = 0;
    let script = move |query: &Query| {
        drops = if query.qname.starts_with("ok") || drops >= 3 { 0 } else { drops + 1 };
        let is_dropped = query.qname.starts_with("drop") || drops > 0;
        (!is_dropped).then(|| answer(query))
    };
    world.serve_at("203.0.113.3", Box::new(script));
    for number in 0..6 {
        world.resolve(&format!("n{number}.example. A"));
        world.resolve(&format!("ok{number}.attack. A"));
        world.resolve(&format!("drop{number}.attack. A"));
        world.resolve(&format!("late{number}.attack. A"));
    }
    world.take_sent();
    for number in 10..20 {
        world.resolve(&format!("n{number}.example. A"));
        assert_eq!(world.take_sent().len(), 1);
    }
}
