use std::path::Path;

use avocet_config::Config;

use super::*;

const NOW: u64 = 1_000;

/// Returns zones of other servers. Each server has the maximum number of zones that can be checked
/// at once, and the first zones are members of catalogs.
fn zones(members: usize, others: usize) -> Vec<ZoneConfig> {
    let table = |name: &str, server: usize| {
        let primary = format!("192.0.2.{}", server % 256);
        format!("[[zone]]\nname = \"{name}\"\nprimaries = [\"{primary}\"]\n")
    };
    let mut text = String::new();
    for number in 0..members.div_ceil(MAX_OF_SOURCE) {
        text += &(table(&format!("c{number}"), 100 + number) + "catalog = \"consumer\"\n");
    }
    for number in 0..others {
        text += &table(&format!("z{number}.example"), number / MAX_OF_SOURCE);
    }
    let config = Config::from_text(None, &text, &BTreeMap::new()).unwrap();
    let member = |number: usize| {
        let name = [&[3, b'a' + (number / 26) as u8, b'a' + (number % 26) as u8, b'm'][..], b"\0"];
        config.zones[number / MAX_OF_SOURCE].member(&name.concat(), Path::new("data"))
    };
    let catalogs = members.div_ceil(MAX_OF_SOURCE);
    (0..members).map(member).chain(config.zones[catalogs..].iter().cloned()).collect()
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
    // A zone that is configured again is not checked twice at the same time.
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

#[test]
fn a_server_that_hangs_leaves_places_to_the_zones_of_others() {
    let table = |name: &str, source: &str| format!("[[zone]]\nname = \"{name}\"\n{source}\n");
    let mut text = String::new();
    for number in 0..2 * MAX_OF_SOURCE {
        text += &table(&format!("a{number}.example"), "primaries = [\"192.0.2.1\", \"192.0.2.9\"]");
        let url = format!("provider = \"http\"\nurl = \"https://hang.example:8443/{number}\"");
        text += &table(&format!("b{number}.example"), &url);
    }
    text += &table("c.example", "primaries = [\"192.0.2.2\"]");
    text += &table("d.example", "provider = \"http\"\nurl = \"https://good.example/d\"");
    let config = Config::from_text(None, &text, &BTreeMap::new()).unwrap();
    let secondaries = Secondaries::default();
    secondaries.follow(&config.zones, NOW);
    let due = names(&secondaries.take_due(NOW));
    let of = |first: &str| due.iter().filter(|name| name.starts_with(first)).count();
    let expected = [MAX_OF_SOURCE, MAX_OF_SOURCE, 1, 1];
    assert_eq!(["a", "b", "c", "d"].map(of), expected, "{due:?}");
    assert_eq!(secondaries.take_due(NOW).len(), 0, "the places of both servers are taken");
    // The next check of this zone begins with another primary, which has free places.
    let is_first = |zone: &&ZoneConfig| shown(&zone.name).starts_with('a');
    let mut checked = config.zones.iter().filter(|zone| due.contains(&shown(&zone.name)));
    let failed = checked.find(is_first).unwrap();
    secondaries.end(failed, None, &["why".to_owned()], None);
    let later = NOW.max(wall_secs()) + u64::from(FIRST_RETRY_SECS);
    assert_eq!(secondaries.take_due(later).len(), 2);
}

#[test]
fn checks_keep_their_distance_when_the_clock_is_set_back() {
    const STEP: u64 = 30 * 86_400;
    let (secondaries, configured) = (Secondaries::default(), zones(2, 0));
    let now = wall_secs();
    secondaries.follow(&configured, now);
    let due = secondaries.take_due(now);
    secondaries.end(&due[0], None, &[], None);
    secondaries.set_back(STEP);
    let back = now - STEP;
    assert_eq!(secondaries.take_due(back).len(), 0, "too early, and a check in progress");
    // A zone is checked soon after NOTIFY, and without it as if the clock had not been set.
    secondaries.note([due[0].name.clone()]);
    assert_eq!(secondaries.take_due(back + NOTIFIED_SECS).len(), 1);
    secondaries.end(&due[1], None, &[], None);
    secondaries.set_back(STEP);
    assert_eq!(secondaries.take_due(back + u64::from(FIRST_RETRY_SECS) + 5).len(), 1);
}
