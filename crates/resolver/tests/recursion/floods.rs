//! Floods of random names below one zone (S28 in tests/SECURITY.md): other zones and clients are
//! served as without the flood.

use std::net::IpAddr;

use avocet_resolver::{FetchLimits, Shed};
use avocet_testkit::Response;
use avocet_wire::Rcode;
use avocet_wire::header::{AA, RA, RD};

use crate::world::{World, authority, recursion};

const LIMITS: FetchLimits = FetchLimits { per_zone: 20, per_server: 1_000 };
const FLOODER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 66));
const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 1));
/// Number of queries for random names in each ms.
const FLOOD_PER_MS: u32 = 10;
const FLOOD_MS: u32 = 3_000;

/// Returns a world with the root at .1, example. at .2, and victim. at .9, where no server answers
/// unless a test adds it.
fn world() -> World {
    let mut world = World::with_limits(recursion(), LIMITS);
    let to_example: &[&str] =
        &["au example. 86400 NS ns.example.", "ad ns.example. 86400 A 192.0.2.2"];
    let to_victim: &[&str] = &["au victim. 86400 NS ns.victim.", "ad ns.victim. 86400 A 192.0.2.9"];
    world.serve(1, authority(".", &[("*example. A", to_example), ("*victim. A", to_victim)]));
    world.serve(2, authority("example.", &[]));
    world
}

struct Seen {
    /// Number of queries for other names, and how many of these were answered within 100 ms.
    others: (usize, usize),
    most_under_way: usize,
    shed: usize,
}

/// Sends a flood, and queries a name of another zone every 20 ms.
fn flood(world: &mut World) -> Seen {
    let mut seen = Seen { others: (0, 0), most_under_way: 0, shed: 0 };
    let mut waited = Vec::new();
    for ms in 0..FLOOD_MS {
        for number in 0..FLOOD_PER_MS {
            let name = format!("r{}.victim. A", ms * FLOOD_PER_MS + number);
            let is_shed = matches!(world.submit(&name, FLOODER), Err(Shed::Zone | Shed::Client));
            seen.shed += usize::from(is_shed);
        }
        if ms % 20 == 0 {
            waited.push(world.submit(&format!("n{ms}.example. A"), OTHER));
        }
        seen.most_under_way = seen.most_under_way.max(world.in_flight());
        world.run_for(1);
    }
    world.run();
    let answers = waited.iter().filter_map(|waiter| world.answer_to(*waiter.as_ref().ok()?));
    let in_time =
        answers.filter(|answer| answer.rcode == Rcode::NXDOMAIN && answer.took_ms <= 100).count();
    seen.others = (waited.len(), in_time);
    seen
}

#[test]
fn a_dead_zone_that_is_flooded_has_so_many_inquiries_and_no_more() {
    let mut world = world();
    let seen = flood(&mut world);
    assert_eq!(seen.others.0, seen.others.1);
    // The first queries all wait for the root.
    let bound = LIMITS.per_zone as usize + 6;
    assert!(seen.most_under_way <= bound + FLOOD_PER_MS as usize * 20, "{}", seen.most_under_way);
    assert!(seen.shed > 29_000, "{} of 30,000", seen.shed);
    assert!(world.take_sent().iter().filter(|sent| sent.starts_with("9:")).count() < 500);
    let answer = world.resolve("r1.victim. A");
    assert_eq!(
        (answer.rcode, answer.ede),
        (Rcode::SERVFAIL, Some(13)),
        "it failed, and is not asked again at once"
    );
}

/// One client queries names that the servers of a zone never answer. They answer the names of
/// another client.
#[test]
fn a_client_that_fills_a_zone_leaves_room_to_others() {
    let mut world = world();
    world.serve(
        9,
        Box::new(|query| {
            let denied =
                || Response::to(query).without_flags(RA | RD).flags(AA).rcode(Rcode::NXDOMAIN);
            (!query.qname.starts_with('r')).then(denied)
        }),
    );
    world.resolve("first.victim. A");
    let mut waited = Vec::new();
    for ms in 0..FLOOD_MS {
        let _ = world.submit(&format!("r{ms}.victim. A"), FLOODER);
        if ms % 20 == 0 {
            waited.push(world.submit(&format!("n{ms}.victim. A"), OTHER));
        }
        world.run_for(1);
    }
    world.run();
    for waiter in waited {
        let answer = world.answer_to(waiter.expect("the zone has room")).unwrap();
        assert_eq!(answer.rcode, Rcode::NXDOMAIN);
    }
}

#[test]
fn answers_that_wait_to_be_given_are_bounded() {
    let mut world = world();
    assert_eq!(world.resolve("r1.victim. A").rcode, Rcode::SERVFAIL);
    let asked = world.submit_at_once("r1.victim. A", FLOODER, 20_000);
    let (taken, shed) = asked.split_at(16_384);
    assert!(shed.iter().all(|one| *one == Err(Shed::Actions)));
    let some =
        taken.iter().step_by(512).filter_map(|waiter| world.answer_to(*waiter.as_ref().ok()?));
    assert_eq!(some.filter(|answer| answer.rcode == Rcode::SERVFAIL).count(), 32);
    assert_eq!(world.resolve("r1.victim. A").rcode, Rcode::SERVFAIL, "they are done");
}

#[test]
fn a_zone_that_answers_fast_gives_way_while_there_is_no_time_to_spare() {
    let mut world = world();
    world.serve(9, authority("victim.", &[]));
    world.note_busy(100);
    let seen = flood(&mut world);
    assert_eq!(seen.others.0, seen.others.1);
    assert!(seen.shed > 25_000, "{} of 30,000", seen.shed);
    world.note_busy(10);
    assert_eq!(world.resolve("later.victim. A").rcode, Rcode::NXDOMAIN);
}

#[test]
fn a_zone_that_keeps_its_server_waiting_leaves_room_at_others() {
    let mut world =
        World::with_limits(recursion(), FetchLimits { per_zone: 1_000, per_server: 30 });
    let to_victim: &[&str] = &["au victim. 86400 NS ns.victim.", "ad ns.victim. 86400 A 192.0.2.9"];
    world.serve(1, authority(".", &[("*victim. A", to_victim)]));
    assert_eq!(world.resolve("first.victim. A").rcode, Rcode::SERVFAIL);
    world.take_sent();
    let waited: Vec<_> = (0..200)
        .map(|number| world.submit(&format!("r{number}.victim. A"), FLOODER).unwrap())
        .collect();
    world.run_for(50);
    assert_eq!(world.take_sent().len(), 30);
    let shed = waited
        .iter()
        .filter_map(|waiter| world.answer_to(*waiter))
        .filter(|answer| answer.ede == Some(23));
    assert_eq!(shed.count(), 170, "they are told at once");
    world.run();
}

/// F24: one client queries random names of fifty zones, so that no zone reaches its limit. Other
/// clients query names of other zones.
#[test]
fn a_client_that_floods_many_zones_takes_nothing_from_others_while_there_is_no_time_to_spare() {
    let mut world = World::with_limits(recursion(), LIMITS);
    let down = |zone: &str, server: u8| {
        [format!("au {zone} 86400 NS ns.{zone}"), format!("ad ns.{zone} 86400 A 192.0.2.{server}")]
    };
    let mut zones: Vec<(String, [String; 2])> =
        (0..50).map(|zone| (format!("*z{zone}. A"), down(&format!("z{zone}."), 9))).collect();
    zones.extend((0..20).map(|zone| (format!("*o{zone}. A"), down(&format!("o{zone}."), 9))));
    let lines: Vec<[&str; 2]> =
        zones.iter().map(|(_, lines)| [lines[0].as_str(), lines[1].as_str()]).collect();
    let answers: Vec<(&str, &[&str])> = zones
        .iter()
        .zip(&lines)
        .map(|((question, _), lines)| (question.as_str(), &lines[..]))
        .collect();
    world.serve(1, authority(".", &answers));
    world.serve(
        9,
        Box::new(|query| {
            Some(Response::to(query).without_flags(RA | RD).flags(AA).rcode(Rcode::NXDOMAIN))
        }),
    );
    // The delegations of the zones are cached first.
    for number in 0..50 {
        world.resolve(&format!("first.z{number}. A"));
        world.resolve(&format!("first.o{}. A", number % 20));
    }
    world.note_busy(100);
    let (mut shed, mut waited) = (0, Vec::new());
    for ms in 0..2_000 {
        for number in 0..FLOOD_PER_MS {
            let name = format!("r{}.z{}. A", ms * FLOOD_PER_MS + number, (ms + number) % 50);
            shed += usize::from(world.submit(&name, FLOODER).is_err());
        }
        if ms % 5 == 0 {
            let other = IpAddr::from([203, 0, 113, (ms / 5 % 8) as u8]);
            waited.push(world.submit(&format!("n{ms}.o{}. A", ms / 5 % 20), other));
        }
        world.run_for(1);
    }
    world.run();
    let answers = waited.iter().filter_map(|waiter| world.answer_to(*waiter.as_ref().ok()?));
    assert_eq!(answers.filter(|answer| answer.rcode == Rcode::NXDOMAIN).count(), waited.len());
    assert!(shed > 10_000, "{shed} of 20,000");
}

#[test]
fn a_name_whose_servers_are_known_is_asked_there_however_much_is_asked_above() {
    let mut world =
        World::with_limits(recursion(), FetchLimits { per_zone: 200, per_server: 1_000 });
    world.serve(
        1,
        authority(".", &[("*com. A", &["au com. 3600 NS ns.com.", "ad ns.com. 3600 A 192.0.2.2"])]),
    );
    let to_bank: &[&str] =
        &["au bank.com. 3600 NS ns.bank.com.", "ad ns.bank.com. 3600 A 192.0.2.3"];
    world.serve(2, authority("com.", &[("*bank.com. A", to_bank)]));
    world.serve(
        3,
        authority("bank.com.", &[("www.bank.com. A", &["an www.bank.com. 300 A 198.51.100.3"])]),
    );
    world.resolve("other.bank.com. A");
    // After a restart, the cache has its data, but the counts start at zero.
    world.restart();
    world.resolve("nothing.com. A");
    for number in 0..200 {
        let client = IpAddr::from([198, 51, 100, 100 + number / 2]);
        assert!(world.submit(&format!("r{number}.com. A"), client).is_ok());
    }
    assert_eq!(world.submit("r200.com. A", OTHER), Err(Shed::Zone));
    let bank = world.submit("www.bank.com. A", OTHER).expect("its servers are known");
    world.run();
    assert_eq!(world.answer_to(bank).unwrap().rcode, Rcode::NOERROR);
}
