use std::path::Path;

use avocet_config::Config;

use super::*;

const NOW: u64 = 1_000;

/// Zones of other servers, the first ones members of a catalog.
fn zones(members: usize, others: usize) -> Vec<ZoneConfig> {
    let table = |name: &str| format!("[[zone]]\nname = \"{name}\"\nprimaries = [\"192.0.2.1\"]\n");
    let mut text = table("catalog") + "catalog = \"consumer\"\n";
    (0..others).for_each(|number| text += &table(&format!("z{number}.example")));
    let config = Config::from_text(None, &text, &BTreeMap::new()).unwrap();
    let member = |number: usize| {
        let name = [&[3, b'a' + (number / 26) as u8, b'a' + (number % 26) as u8, b'm'][..], b"\0"];
        config.zones[0].member(&name.concat(), Path::new("data"))
    };
    (0..members).map(member).chain(config.zones[1..].iter().cloned()).collect()
}

fn names(due: &[ZoneConfig]) -> Vec<String> {
    due.iter().map(|zone| shown(&zone.name)).collect()
}

#[test]
fn checks_of_zones_that_are_gone_count_until_they_end() {
    let secondaries = Secondaries::default();
    let (first, second) = (zones(0, MAX_CHECKS), zones(MAX_CHECKS, 0));
    secondaries.follow(&first, NOW);
    let due = secondaries.take_due(NOW);
    assert_eq!(due.len(), MAX_CHECKS);
    secondaries.follow(&second, NOW);
    assert!(secondaries.state(&first[0].name).is_none() && !secondaries.has(&first[0]));
    assert_eq!(secondaries.take_due(NOW).len(), 0, "all places are taken");
    secondaries.end(&due[0], None, &["why".to_owned()], None);
    assert_eq!(secondaries.take_due(NOW).len(), 1);
    assert!(secondaries.fault().is_none(), "the fault of a zone that is gone");
    // A zone that comes back is not checked twice at the same time.
    secondaries.follow(&first, NOW);
    let again = secondaries.take_due(NOW);
    assert_eq!(names(&again), names(&due[..0]), "places are still taken");
    due[1..].iter().for_each(|zone| secondaries.end(zone, None, &[], None));
    secondaries.follow(&first, NOW);
    assert_eq!(secondaries.take_due(NOW).len(), MAX_CHECKS - 1);
}

#[test]
fn members_of_catalogs_leave_places_to_the_zones_of_the_configuration() {
    let secondaries = Secondaries::default();
    secondaries.follow(&zones(50, 2), NOW);
    let due = secondaries.take_due(NOW);
    let members = due.iter().filter(|zone| zone.catalog.is_member()).count();
    assert_eq!(
        (due.len(), members),
        (MAX_MEMBER_CHECKS + 2, MAX_MEMBER_CHECKS),
        "{:?}",
        names(&due)
    );
}

#[test]
fn the_zone_that_has_waited_longest_is_checked_first() {
    let secondaries = Secondaries::default();
    let all = zones(0, MAX_CHECKS + 1);
    secondaries.follow(&all[MAX_CHECKS..], NOW - 10);
    secondaries.follow(&all, NOW);
    let due = secondaries.take_due(NOW);
    assert_eq!(due[0].name, all[MAX_CHECKS].name, "{:?}", names(&due));
    assert_eq!(due.len(), MAX_CHECKS);
}
