//! Tests of pools: the health of targets in virtual time, and the choice of addresses. The results
//! are compared with the documentation of gdnsd and with plain models.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use avocet_zone::pool::{
    AddressFamily, ChosenBy, ClientPlace, Damping, HealthState, MemberControl, MemberPlace,
    PlaceNetwork, PoolClient, PoolMasks, PoolMember, PoolMode, PoolRule, ProbeVerdict,
    TargetHealth, Thresholds, WhenAllDown, next_probe_ms,
};
use proptest::prelude::*;

const USUAL: Thresholds = Thresholds { rise: 3, fall: 3, window: 10, damping: Damping::Off };

fn verdict(letter: char) -> ProbeVerdict {
    if letter == '+' { ProbeVerdict::Success } else { ProbeVerdict::Failure }
}

/// Checks the state after each result, as the first letter of its name.
#[track_caller]
fn check(thresholds: &Thresholds, results: &str, expected: &str) {
    let mut health = TargetHealth::default();
    let states: String = results
        .chars()
        .map(|letter| {
            health.take(verdict(letter), 0, thresholds);
            health.state().name().chars().next().unwrap_or('?')
        })
        .collect();
    assert_eq!(states, expected, "{results}");
}

#[test]
fn the_first_result_decides_at_once() {
    check(&USUAL, "+", "u");
    check(&USUAL, "-", "d");
}

#[test]
fn failures_need_not_be_consecutive_and_old_ones_do_not_count() {
    check(&USUAL, "+---", "uuud");
    check(&USUAL, "+-+-+-", "uuuuud");
    check(&USUAL, "+--+++++++++-", "uuuuuuuuuuuuu");
}

#[test]
fn a_target_comes_up_after_successes_in_a_row() {
    check(&USUAL, "-+++", "dddu");
    check(&USUAL, "-++-++-+++", "dddddddddu");
    // Failures before the target came up do not count.
    check(&USUAL, "+---+++--", "uuuddduuu");
}

#[test]
fn a_target_that_keeps_going_down_needs_more_successes() {
    let damped = Thresholds { damping: Damping::Doubled, ..USUAL };
    let mut health = TargetHealth::of(HealthState::Up);
    let mut needed = Vec::new();
    let mut now_ms = 0;
    for _ in 0..5 {
        while health.state() == HealthState::Up {
            health.take(ProbeVerdict::Failure, now_ms, &damped);
        }
        needed.push(health.rise(now_ms, &damped));
        while health.state() == HealthState::Down {
            now_ms += 1_000;
            health.take(ProbeVerdict::Success, now_ms, &damped);
        }
    }
    assert_eq!(needed, [3, 6, 12, 24, 24]);
    // After an hour, earlier failures have no effect.
    assert_eq!(health.rise(now_ms + 3_600_000, &damped), 3);
    assert_eq!(health.rise(now_ms, &USUAL), 3);
}

proptest! {
    /// A dead target is down within `fall` intervals and a timeout, regardless of the jitter and of
    /// earlier results.
    #[test]
    fn a_dead_target_is_down_within_the_promised_time(
        before in proptest::collection::vec(any::<bool>(), 0..40),
        (fall, extra) in (1u8..=10, 0u8..=20),
        interval_ms in 1_000u64..=20_000,
        jitter in proptest::collection::vec(any::<u16>(), 60),
        died_after in 0.0f64..1.0,
    ) {
        let timeout_ms = interval_ms / 2;
        let thresholds = Thresholds { rise: 1, fall, window: fall + extra, damping: Damping::Doubled };
        let mut health = TargetHealth::of(HealthState::Up);
        let (mut now_ms, mut jitter) = (0, jitter.into_iter().cycle());
        let mut next = |began_ms| next_probe_ms(began_ms, interval_ms, jitter.next().unwrap_or(0));
        for is_success in before {
            health.take(verdict(if is_success { '+' } else { '-' }), now_ms, &thresholds);
            now_ms = next(now_ms);
        }
        // The target dies between two probes.
        let died_ms = now_ms.saturating_sub((interval_ms as f64 * died_after) as u64);
        for _ in 0..fall {
            health.take(ProbeVerdict::Failure, now_ms + timeout_ms, &thresholds);
            if health.state() == HealthState::Down {
                break;
            }
            now_ms = next(now_ms);
        }
        prop_assert_eq!(health.state(), HealthState::Down);
        prop_assert!(now_ms + timeout_ms <= died_ms + u64::from(fall) * interval_ms + timeout_ms);
    }

    /// The window gives the same result as a plain list.
    #[test]
    fn health_is_that_of_a_plain_list(
        results in proptest::collection::vec(any::<bool>(), 0..300),
        (rise, fall, extra) in (1u8..=8, 1u8..=8, 0u8..=50),
    ) {
        let window = rise.max(fall) + extra;
        let thresholds = Thresholds { rise, fall, window, damping: Damping::Off };
        let mut health = TargetHealth::default();
        let (mut state, mut since) = (HealthState::Unknown, Vec::new());
        for (at, is_success) in results.into_iter().enumerate() {
            health.take(verdict(if is_success { '+' } else { '-' }), at as u64, &thresholds);
            since.push(is_success);
            let counted = &since[since.len().saturating_sub(usize::from(window))..];
            let failures = counted.iter().filter(|success| !**success).count();
            let in_row = since.iter().rev().take_while(|success| **success).count();
            let next = match state {
                HealthState::Unknown if is_success => HealthState::Up,
                HealthState::Unknown => HealthState::Down,
                HealthState::Up if failures >= usize::from(fall) => HealthState::Down,
                HealthState::Down if in_row >= usize::from(rise) => HealthState::Up,
                state => state,
            };
            if next != state {
                (state, since) = (next, Vec::new());
            }
            prop_assert_eq!(health.state(), state);
        }
    }

    /// For any health and mode, an answer has only addresses of its family that no operator has
    /// disabled, each once. If some of them are healthy, the answer has only healthy addresses.
    #[test]
    fn answers_have_only_usable_addresses(
        states in proptest::collection::vec((0u8..3, 0u8..4, any::<bool>(), 0u32..4), 1..=64),
        (mode, most) in (0u8..6, 1u8..=64),
        all_down in 0u8..3,
        (client, turn) in (any::<u32>(), any::<u64>()),
        (is_v4, has_one_family) in any::<(bool, bool)>(),
        fallback in 0usize..4,
    ) {
        let of_fallback = ["192.0.2.1", "fd01::1"].map(|address| address.parse::<IpAddr>().unwrap());
        let fallback = [0..0, 0..1, 1..2, 0..2].map(|range| of_fallback[range].to_vec())[fallback]
            .clone();
        let first_is_v4 = states[0].2;
        let members: Vec<_> = states.iter().enumerate().map(|(at, (_, _, is_v4, weight))| {
            let is_v4 = if has_one_family { first_is_v4 } else { *is_v4 };
            let address = if is_v4 {
                IpAddr::from([10, 0, 0, at as u8])
            } else {
                IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, at as u16])
            };
            PoolMember { address, weight: *weight, places: Vec::new() }
        }).collect();
        let health = |at: usize| match states[at].0 {
            0 => HealthState::Unknown,
            1 => HealthState::Up,
            _ => HealthState::Down,
        };
        let control = |at: usize| MemberControl::ALL[usize::from(states[at].1)];
        let masks = PoolMasks::of((0..states.len()).map(|at| (health(at), control(at))));
        let rule = PoolRule {
            members: members.clone(),
            mode: match mode {
                0 => PoolMode::All,
                1 => PoolMode::First,
                2 => PoolMode::Weighted(most),
                3 => PoolMode::Rotate(most),
                4 => PoolMode::Consistent(most),
                _ => PoolMode::Nearest(most),
            },
            when_all_down: match all_down {
                0 => WhenAllDown::All,
                1 => WhenAllDown::None,
                _ => WhenAllDown::Fallback,
            },
            fallback,
        };
        let family = if is_v4 { AddressFamily::V4 } else { AddressFamily::V6 };
        let place = ClientPlace { address: client_of(client), country: None, continent: None };
        let choice = rule.choose(masks, family, &PoolClient { place, turn });
        let chosen: Vec<_> = choice.addresses(&rule).collect();
        let states: Vec<_> = (0..states.len()).map(|at| (health(at), control(at))).collect();
        let (allowed, by) = allowed(&rule, &states, is_v4);
        prop_assert_eq!(choice.by, by);
        prop_assert!(chosen.iter().all(|address| allowed.contains(address)));
        prop_assert_eq!(chosen.is_empty(), allowed.is_empty());
        let mut different = chosen.clone();
        different.sort_unstable();
        different.dedup();
        prop_assert_eq!(different.len(), chosen.len());
        if rule.mode == PoolMode::All {
            prop_assert_eq!(chosen.len(), allowed.len());
        }
    }
}

/// Returns the addresses that an answer may contain, and the reason.
fn allowed(
    rule: &PoolRule,
    states: &[(HealthState, MemberControl)],
    is_v4: bool,
) -> (Vec<IpAddr>, ChosenBy) {
    let members =
        || rule.members.iter().zip(states).filter(|(one, _)| one.address.is_ipv4() == is_v4);
    let usable = |wanted: fn(MemberControl, bool) -> bool| -> Vec<IpAddr> {
        members()
            .filter(|(_, (health, control))| wanted(*control, *health != HealthState::Down))
            .map(|(member, _)| member.address)
            .collect()
    };
    let healthy = usable(|control, is_up| {
        control == MemberControl::Up || control == MemberControl::Auto && is_up
    });
    let drained = usable(|control, is_up| control == MemberControl::Drain && is_up);
    let present = usable(|control, _| control != MemberControl::Down);
    let of_family = |address: &&IpAddr| address.is_ipv4() == is_v4;
    let fallback: Vec<IpAddr> = rule.fallback.iter().filter(of_family).copied().collect();
    let is_usable = |(health, control): &(HealthState, MemberControl)| match control {
        MemberControl::Up => true,
        MemberControl::Auto | MemberControl::Drain => *health != HealthState::Down,
        MemberControl::Down => false,
    };
    let is_down = !states.iter().any(is_usable);
    match rule.when_all_down {
        WhenAllDown::Fallback if members().next().is_none() && is_down && !fallback.is_empty() => {
            (fallback, ChosenBy::AllDown)
        }
        _ if members().next().is_none() => (Vec::new(), ChosenBy::NoFamily),
        _ if !healthy.is_empty() => (healthy, ChosenBy::Health),
        _ if !drained.is_empty() => (drained, ChosenBy::Drained),
        WhenAllDown::All => (present, ChosenBy::AllDown),
        WhenAllDown::Fallback => (fallback, ChosenBy::AllDown),
        WhenAllDown::None => (Vec::new(), ChosenBy::AllDown),
    }
}

#[test]
fn fallback_has_addresses_of_a_family_that_the_pool_lacks() {
    let mut rule = rule(PoolMode::All, vec![member(1, 1, &[]), member(2, 1, &[])]);
    rule.when_all_down = WhenAllDown::Fallback;
    rule.fallback = vec![[192, 0, 2, 250].into(), [0xfd00, 0, 0, 0, 0, 0, 0, 1].into()];
    let check = |rule: &PoolRule, health: [HealthState; 2], family, expected: &[&str]| {
        let masks = PoolMasks::of(health.map(|health| (health, MemberControl::Auto)));
        let choice = rule.choose(masks, family, &PoolClient { place: CLIENT, turn: 0 });
        let chosen: Vec<_> = choice.addresses(rule).map(|address| address.to_string()).collect();
        assert_eq!(chosen, expected, "{health:?} {family:?}");
    };
    let (up, down) = (HealthState::Up, HealthState::Down);
    check(&rule, [down, down], AddressFamily::V4, &["192.0.2.250"]);
    check(&rule, [down, down], AddressFamily::V6, &["fd00::1"]);
    check(&rule, [down, up], AddressFamily::V4, &["192.0.2.2"]);
    check(&rule, [down, up], AddressFamily::V6, &[]);
    rule.when_all_down = WhenAllDown::All;
    check(&rule, [down, down], AddressFamily::V6, &[]);
}

fn client_of(number: u32) -> IpAddr {
    Ipv4Addr::from(number).into()
}

fn member(last: u8, weight: u32, places: &[MemberPlace]) -> PoolMember {
    PoolMember { address: IpAddr::from([192, 0, 2, last]), weight, places: places.to_vec() }
}

fn rule(mode: PoolMode, members: Vec<PoolMember>) -> PoolRule {
    PoolRule { members, mode, when_all_down: WhenAllDown::All, fallback: Vec::new() }
}

/// Returns the last octets of the addresses of an answer to a client.
fn chosen(rule: &PoolRule, masks: PoolMasks, client: &ClientPlace, turn: u64) -> Vec<u8> {
    let client = PoolClient { place: *client, turn };
    let choice = rule.choose(masks, AddressFamily::V4, &client);
    choice
        .addresses(rule)
        .map(|address| match address {
            IpAddr::V4(address) => address.octets()[3],
            IpAddr::V6(_) => 0,
        })
        .collect()
}

const CLIENT: ClientPlace =
    ClientPlace { address: IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3)), country: None, continent: None };

/// gdnsd's `multifo`: all healthy addresses.
#[test]
fn all_gives_the_healthy_addresses_in_turn() {
    let rule = rule(PoolMode::All, (1..=3).map(|last| member(last, 1, &[])).collect());
    let masks = PoolMasks { healthy: 0b101, drained: 0, present: 0b111 };
    assert_eq!(chosen(&rule, masks, &CLIENT, 0), [1, 3]);
    assert_eq!(chosen(&rule, masks, &CLIENT, 1), [3, 1]);
}

/// gdnsd's `simplefo`: the primary as long as it is healthy, then the secondary.
#[test]
fn first_gives_the_first_healthy_address() {
    let rule = rule(PoolMode::First, (1..=3).map(|last| member(last, 1, &[])).collect());
    for (healthy, expected) in [(0b111, 1), (0b110, 2), (0b100, 3)] {
        let masks = PoolMasks { healthy, drained: 0, present: 0b111 };
        assert_eq!(chosen(&rule, masks, &CLIENT, 7), [expected]);
    }
}

/// gdnsd's `weighted`: each address in proportion to its weight among the healthy ones.
#[test]
fn weights_are_the_shares_of_the_answers() {
    let members = vec![member(1, 1, &[]), member(2, 3, &[]), member(3, 0, &[])];
    let rule = rule(PoolMode::Weighted(1), members);
    let mut counts = BTreeMap::new();
    for turn in 0..40_000 {
        for last in chosen(&rule, PoolMasks::unknown(3), &CLIENT, turn) {
            *counts.entry(last).or_insert(0) += 1;
        }
    }
    assert!((9_500..10_500).contains(&counts[&1]) && counts.len() == 2, "{counts:?}");
    // An address with weight 0 is used only if no other address is healthy.
    let masks = PoolMasks { healthy: 0b100, drained: 0, present: 0b111 };
    assert_eq!(chosen(&rule, masks, &CLIENT, 5), [3]);
}

#[test]
fn rotate_gives_each_address_as_often_as_the_others() {
    let rule = rule(PoolMode::Rotate(4), (1..=10).map(|last| member(last, 1, &[])).collect());
    let mut counts = BTreeMap::new();
    for turn in 0..1_000 {
        let chosen = chosen(&rule, PoolMasks::unknown(10), &CLIENT, turn);
        assert_eq!(chosen.len(), 4);
        chosen.into_iter().for_each(|last| *counts.entry(last).or_insert(0) += 1);
    }
    assert!(counts.values().all(|count| *count == 400), "{counts:?}");
}

/// PowerDNS' `pickwhashed`, with a hash that moves only the clients of a failed address.
#[test]
fn a_client_keeps_its_address_until_that_fails() {
    let rule = rule(PoolMode::Consistent(1), (1..=8).map(|last| member(last, 1, &[])).collect());
    let mut counts = BTreeMap::new();
    for number in 0..4_000 {
        let client = ClientPlace { address: client_of(number), ..CLIENT };
        let before = chosen(&rule, PoolMasks::unknown(8), &client, number.into());
        assert_eq!(before, chosen(&rule, PoolMasks::unknown(8), &client, 99));
        let masks = PoolMasks { healthy: 0xff & !1, drained: 0, present: 0xff };
        let after = chosen(&rule, masks, &client, 0);
        assert!(if before == [1] { after != [1] } else { after == before });
        *counts.entry(before[0]).or_insert(0) += 1;
    }
    assert!(counts.len() == 8 && counts.values().all(|count| (400..600).contains(count)));
}

/// gdnsd's `geoip` with `nets`: the most specific match decides; without one, the general
/// addresses.
#[test]
fn nearest_prefers_networks_to_countries_to_continents() {
    let net = |text: [u8; 4], len| MemberPlace::Network(PlaceNetwork::new(text.into(), len));
    let rule = rule(
        PoolMode::Nearest(4),
        vec![
            member(1, 1, &[net([10, 0, 0, 0], 8)]),
            member(2, 1, &[net([10, 1, 0, 0], 16)]),
            member(3, 1, &[MemberPlace::Country(*b"DE")]),
            member(4, 1, &[MemberPlace::Continent(*b"EU")]),
            member(5, 1, &[]),
        ],
    );
    let client = |address: [u8; 4], country: Option<&[u8; 2]>, continent: Option<&[u8; 2]>| {
        let (country, continent) = (country.copied(), continent.copied());
        ClientPlace { address: address.into(), country, continent }
    };
    let all = PoolMasks::unknown(5);
    let check = |client: &ClientPlace, healthy, expected: &[u8]| {
        let masks = PoolMasks { healthy, ..all };
        assert_eq!(chosen(&rule, masks, client, 0), expected);
    };
    let (de, eu) = (Some(b"DE"), Some(b"EU"));
    check(&client([10, 1, 9, 9], de, eu), 0b11111, &[2]);
    check(&client([10, 1, 9, 9], de, eu), 0b11101, &[1]);
    check(&client([10, 2, 9, 9], None, None), 0b11111, &[1]);
    check(&client([192, 0, 2, 9], de, eu), 0b11111, &[3]);
    check(&client([192, 0, 2, 9], de, eu), 0b11011, &[4]);
    check(&client([192, 0, 2, 9], None, None), 0b11111, &[5]);
    check(&client([192, 0, 2, 9], None, None), 0b01111, &[1, 2, 3, 4]);
}

/// gdnsd's `admin_state`: forced up and down, whatever the monitors say.
#[test]
fn control_by_people_goes_before_probes() {
    let masks = PoolMasks::of([
        (HealthState::Down, MemberControl::Up),
        (HealthState::Up, MemberControl::Down),
        (HealthState::Up, MemberControl::Drain),
        (HealthState::Down, MemberControl::Drain),
        (HealthState::Down, MemberControl::Auto),
    ]);
    assert_eq!(masks, PoolMasks { healthy: 1, drained: 0b100, present: 0b11101 });
}
