//! Tests of moves between the catalogs of this server.

use std::path::{Path, PathBuf};

use avocet_config::Config;
use avocet_wire::FoldedName;
use avocet_zone::{CatalogMember, HostedZone, catalog_members};

use super::*;

/// The time at which the catalogs of the test are written first.
const NOW: u64 = 1_800_000_000;
/// The catalogs before a move, and after each of its steps.
const BEFORE: [&str; 2] = ["moves.example. stays.example.", ""];
const ANNOUNCED: [&str; 2] = ["moves.example.>b. stays.example.", ""];
const BOTH: [&str; 2] = ["moves.example.>b. stays.example.", "moves.example."];
const AFTER: [&str; 2] = ["stays.example.", "moves.example."];

/// Catalogs of one server, and two zones. One of these moves.
struct Produced(PathBuf);

impl Produced {
    fn new(name: &str) -> Self {
        let data = std::env::temp_dir().join(format!("avocet-{name}-{}", std::process::id()));
        fs::create_dir_all(&data).unwrap();
        Self(data)
    }

    /// The configuration of these catalogs with the zone in one of them.
    fn config(&self, catalogs: &[&str], of: &str) -> Config {
        let mut text = format!("[data]\ndirectory = {:?}\n", self.0);
        for name in catalogs {
            text += &format!("[[zone]]\nname = \"{name}\"\ncatalog = \"producer\"\n");
        }
        for (name, of) in [("moves.example", of), ("stays.example", "a")] {
            text += &format!("[[zone]]\nname = \"{name}\"\nfile = \"z\"\nmember-of = \"{of}\"\n");
        }
        Config::from_text(None, &text, &BTreeMap::new()).unwrap()
    }

    /// Writes the catalogs `a` and `b` with the zone in one of them, and returns what they list:
    /// with `>` the catalog to which a zone moves.
    fn write(&self, of: &str, steps: Steps, secs: u64) -> [String; 2] {
        let config = self.config(&["a", "b"], of);
        write_catalogs_at(&config.zones, steps, NOW + secs);
        [0, 1].map(|at| Self::listed(&config.zones[at]))
    }

    fn listed(catalog: &ZoneConfig) -> String {
        let member = |member: &CatalogMember| {
            let owner = member.owner.as_deref().map(|owner| format!(">{}", shown(owner)));
            format!("{}{}", shown(&member.zone), owner.unwrap_or_default())
        };
        let zone = Self::loaded(catalog);
        let mut members: Vec<_> = catalog_members(&zone).unwrap().iter().map(member).collect();
        members.sort();
        members.join(" ")
    }

    fn loaded(catalog: &ZoneConfig) -> HostedZone {
        let read = fs::read(&catalog.file).unwrap();
        let mut open = |_: &Path, _: u64| Ok(read.clone());
        let apex = FoldedName::new(&catalog.name).unwrap();
        avocet_zone::load(apex, Path::new("c"), 0, &mut open).0.unwrap()
    }
}

impl Drop for Produced {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_zone_that_moves_to_another_catalog_is_announced_first_and_dropped_last() {
    let catalogs = Produced::new("moving");
    assert_eq!(catalogs.write("a", Steps::Begin, 0), BEFORE);
    for (steps, secs, expected) in [
        (Steps::Begin, 10, ANNOUNCED),
        (Steps::Proceed, 4_209, ANNOUNCED),
        // At the start, secondaries may have missed the announcement.
        (Steps::Begin, 4_210, ANNOUNCED),
        (Steps::Proceed, 4_210, BOTH),
        (Steps::Proceed, 4_270, BOTH),
        (Steps::Proceed, 4_210 + 86_399, BOTH),
        (Steps::Begin, 4_210 + 86_400, BOTH),
        (Steps::Proceed, 4_210 + 86_400, AFTER),
        (Steps::Proceed, 200_000, AFTER),
    ] {
        assert_eq!(catalogs.write("b", steps, secs), expected, "{secs}");
    }
}

#[test]
fn a_move_is_shown_from_its_announcement_until_one_catalog_is_left() {
    let catalogs = Produced::new("shown-move");
    let shown_after = |of: &str, steps, secs| {
        catalogs.write(of, steps, secs);
        let mut moves = moves_at(&catalogs.config(&["a", "b"], of).zones, NOW + secs);
        let shown = moves.remove(&b"\x05moves\x07example\0"[..]);
        assert!(moves.is_empty());
        shown.map(|of| (of.from + &of.to, of.step, of.since - NOW, of.next_at - NOW))
    };
    let (announced, listed) = (CatalogMoveStep::Announced, CatalogMoveStep::ListedTwice);
    let of = |step, since, next_at| Some(("a.b.".to_owned(), step, since, next_at));
    assert_eq!(shown_after("a", Steps::Begin, 0), None);
    assert_eq!(shown_after("b", Steps::Begin, 10), of(announced, 10, 4_210));
    assert_eq!(shown_after("b", Steps::Proceed, 4_200), of(announced, 10, 4_210));
    assert_eq!(shown_after("b", Steps::Proceed, 4_210), of(listed, 4_210, 90_610));
    // The move goes on before the next one begins.
    assert_eq!(shown_after("a", Steps::Proceed, 5_000), of(listed, 4_210, 90_610));
    assert_eq!(shown_after("b", Steps::Proceed, 90_610), None);
}

#[test]
fn the_catalog_that_a_zone_has_joined_gets_another_version_after_the_move() {
    let catalogs = Produced::new("joined");
    catalogs.write("a", Steps::Begin, 0);
    let serial = |secs| {
        catalogs.write("b", Steps::Proceed, secs);
        Produced::loaded(&catalogs.config(&["a", "b"], "b").zones[1]).serial()
    };
    serial(10);
    let joined = serial(4_210);
    assert_eq!(serial(4_210 + 86_400), joined);
    assert_eq!(serial(4_210 + 86_400 + 4_199), joined);
    let later = serial(4_210 + 86_400 + 4_200);
    assert!(later > joined);
    assert_eq!(serial(900_000), later);
}

#[test]
fn a_move_is_taken_back_before_the_other_catalog_lists_the_zone_and_completed_after_it() {
    let catalogs = Produced::new("taken-back");
    catalogs.write("a", Steps::Begin, 0);
    assert_eq!(catalogs.write("b", Steps::Begin, 10), ANNOUNCED);
    assert_eq!(catalogs.write("a", Steps::Begin, 20), BEFORE);
    // The time counts from the second announcement.
    assert_eq!(catalogs.write("b", Steps::Begin, 4_000), ANNOUNCED);
    assert_eq!(catalogs.write("b", Steps::Proceed, 8_199), ANNOUNCED);
    assert_eq!(catalogs.write("b", Steps::Proceed, 8_200), BOTH);
    assert_eq!(catalogs.write("a", Steps::Begin, 8_300), BOTH);
    assert_eq!(catalogs.write("a", Steps::Proceed, 94_600), AFTER);
    let back = ["stays.example.", "moves.example.>a."];
    assert_eq!(catalogs.write("a", Steps::Proceed, 94_660), back);
    let both = ["moves.example. stays.example.", "moves.example.>a."];
    assert_eq!(catalogs.write("a", Steps::Proceed, 98_860), both);
    assert_eq!(catalogs.write("a", Steps::Proceed, 200_000), BEFORE);
}

#[test]
fn a_zone_that_moves_on_is_listed_by_two_catalogs_at_most() {
    let catalogs = Produced::new("moving-on");
    let write = |of: &str, steps, secs| {
        let config = catalogs.config(&["a", "b", "c"], of);
        write_catalogs_at(&config.zones, steps, NOW + secs);
        let listed = [0, 1, 2].map(|at| Produced::listed(&config.zones[at]));
        listed.map(|text| text.replace("stays.example.", "").trim().to_owned())
    };
    write("a", Steps::Begin, 0);
    write("b", Steps::Begin, 10);
    // Before the second catalog lists it, the announcement changes.
    assert_eq!(write("c", Steps::Begin, 20), ["moves.example.>c.", "", ""]);
    assert_eq!(write("c", Steps::Proceed, 4_219), ["moves.example.>c.", "", ""]);
    let both = ["moves.example.>c.", "", "moves.example."];
    assert_eq!(write("c", Steps::Proceed, 4_220), both);
    // Afterwards, the next move begins when this one is complete.
    assert_eq!(write("b", Steps::Proceed, 10_000), both);
    assert_eq!(write("b", Steps::Proceed, 90_620), ["", "", "moves.example."]);
    assert_eq!(write("b", Steps::Proceed, 90_680), ["", "", "moves.example.>b."]);
    assert_eq!(write("b", Steps::Proceed, 94_880), ["", "moves.example.", "moves.example.>b."]);
}

#[test]
fn a_move_ends_with_its_catalogs_and_its_zone() {
    let catalogs = Produced::new("ended");
    catalogs.write("a", Steps::Begin, 0);
    catalogs.write("b", Steps::Begin, 10);
    assert_eq!(catalogs.write("b", Steps::Proceed, 4_210), BOTH);
    // Without the second catalog, the zone can only go back.
    let config = catalogs.config(&["a"], "a");
    write_catalogs_at(&config.zones, Steps::Begin, NOW + 5_000);
    assert_eq!(Produced::listed(&config.zones[0]), BEFORE[0]);
    // A zone that is in no catalog any more leaves all at once.
    let mut zones = catalogs.config(&["a", "b"], "b").zones;
    zones.retain(|zone| !shown(&zone.name).starts_with("moves"));
    write_catalogs_at(&zones, Steps::Begin, NOW + 5_010);
    assert_eq!([0, 1].map(|at| Produced::listed(&zones[at])), ["stays.example.", ""]);
}

#[test]
fn a_clock_that_is_set_back_begins_the_waiting_again() {
    let catalogs = Produced::new("set-back");
    catalogs.write("a", Steps::Begin, 1_000_000);
    assert_eq!(catalogs.write("b", Steps::Begin, 1_000_010), ANNOUNCED);
    assert_eq!(catalogs.write("b", Steps::Proceed, 10), ANNOUNCED);
    assert_eq!(catalogs.write("b", Steps::Proceed, 4_209), ANNOUNCED);
    assert_eq!(catalogs.write("b", Steps::Proceed, 4_210), BOTH);
}

#[test]
fn no_catalog_lists_a_further_zone_while_another_one_cannot_be_read() {
    let catalogs = Produced::new("unread");
    catalogs.write("a", Steps::Begin, 0);
    let config = catalogs.config(&["a", "b"], "b");
    let file = &config.zones[0].file;
    let text = fs::read(file).unwrap();
    fs::remove_file(file).unwrap();
    fs::create_dir(file).unwrap();
    write_catalogs_at(&config.zones, Steps::Proceed, NOW + 10);
    assert_eq!(Produced::listed(&config.zones[1]), "");
    fs::remove_dir(file).unwrap();
    fs::write(file, text).unwrap();
    assert_eq!(catalogs.write("b", Steps::Begin, 20), ANNOUNCED);
}
