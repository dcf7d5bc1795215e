//! Tests of `view` of `[[zone]]`.

use std::path::Path;

use toml::Value;

use super::documents::key_with_file;
use super::{read, read_with};
use crate::view_item::{MAX_VIEW_ITEMS, ViewItem};
use crate::zone::ZoneConfig;

const GROUPS: &str = "[[group]]\nname = \"office\"\nclients = [\"10.0.0.0/8\"]\n\
                      [[group]]\nname = \"guests\"\nclients = [\"10.9.0.0/16\"]\n\
                      [[listener]]\nname = \"vpn\"\nlisten = [\"127.0.0.1:5377\"]\n";

fn zone(file: &str, rest: &str) -> String {
    format!("[[zone]]\nname = \"corp.example\"\nfile = \"{file}\"\n{rest}\n")
}

#[track_caller]
fn check_fault(zones: &str, expected: &str) {
    let message = read_with(&format!("{GROUPS}{zones}"), &[]).map(drop).unwrap_err().to_string();
    assert!(message.contains(expected), "{message}");
}

#[test]
fn zones_of_one_name_differ_in_their_views() {
    let text = [
        GROUPS,
        &zone("all", ""),
        &zone("in", "view = [\"office\", \"192.0.2.7\", \"2001:db8::/32\"]"),
        &zone("vpn", "view = [\"listener:vpn\", \"default\"]"),
    ];
    let config = read(&text.concat());
    let ids: Vec<_> = config.zones.iter().map(|zone| zone.id().to_string()).collect();
    assert_eq!(ids, ["corp.example.", "corp.example./office", "corp.example./listener:vpn"]);
    let items: Vec<_> = config.zones[1].view.iter().map(ToString::to_string).collect();
    assert_eq!(items, ["office", "192.0.2.7/32", "2001:db8::/32"]);
    assert_eq!(config.zones[2].view[0], ViewItem::Listener("vpn".to_owned()));
    // Each zone has its own files in the data directory.
    let journals: Vec<_> = config.zones.iter().map(|zone| zone.journal.clone()).collect();
    assert!(journals[0].ends_with("zones/corp.example.zone.journal"), "{journals:?}");
    assert!(journals[1].ends_with("zones/office@corp.example.zone.journal"), "{journals:?}");
    assert!(journals[2].ends_with("zones/listener%3avpn@corp.example.zone.journal"));
    assert_eq!(config.policy.views.len(), 2);
    assert_eq!(config.policy.views[1].id(), config.zones[2].id());
    assert!(!config.policy.is_empty());
}

#[test]
fn a_network_is_one_item_however_it_is_written() {
    let text = zone("in", "view = [\"office\", \"10.0.0.1/8\", \"2001:db8::1/32\"]");
    let config = read(&format!("{GROUPS}{text}"));
    let shown = config.effective();
    let view: Vec<_> = shown["zone"][0]["view"].as_array().unwrap().iter().collect();
    let expected = ["office", "10.0.0.0/8", "2001:db8::/32"].map(Value::from);
    assert_eq!(view, expected.each_ref());
    check_fault(
        &zone("a", "view = [\"10.0.0.0/8\", \"10.0.0.1/8\"]"),
        "duplicate item \"10.0.0.0/8\"",
    );
    check_fault(
        &(zone("a", "view = [\"10.0.0.0/8\"]") + &zone("b", "view = [\"10.9.9.9/8\"]")),
        "has another table with \"10.0.0.0/8\" in its view",
    );
    let address = ViewItem::of_text("192.0.2.7");
    assert!(address.is_some() && address == ViewItem::of_text("192.0.2.7/32"));
    assert_eq!(ViewItem::of_text("10.1.2.3/8"), Some(config.zones[0].view[1].clone()));
    assert_eq!(ViewItem::of_text(""), None);
}

#[test]
fn a_file_that_may_be_written_has_one_table() {
    let both = "the zone corp.example. has another table with the file shared: a change of one \
                would be a change of both; write the items of both views into one table, or copy \
                the file";
    let office = zone("shared", "view = [\"office\"]");
    for other in [zone("shared", ""), zone("shared", "view = [\"listener:vpn\"]")] {
        check_fault(&(office.clone() + &other), both);
        check_fault(&(other + &office), both);
    }
    // The server only reads the file of a provider.
    let leases = |view: &str| zone("shared", &format!("provider = \"leases\"\n{view}"));
    let config = read(&format!("{GROUPS}{}{}", leases(""), leases("view = [\"office\"]")));
    assert_eq!(config.zones.len(), 2);
    // Several zones may share a file with relative names, unless the server writes the file.
    let named = |rest: &str| zone("shared", rest).replace("corp.", "shop.");
    let plain = zone("shared", "allow-transfer = [\"192.0.2.0/24\"]");
    assert_eq!(read(&(plain.clone() + &named(""))).zones.len(), 2);
    let written = "another zone has the file shared, which the server writes for one of them";
    let (key, key_file) = key_with_file("shared");
    let (updated, secondary) = ("allow-update = [\"key k\"]", "primaries = [\"192.0.2.1\"]");
    check_fault(&(plain.clone() + &named(updated) + &key), written);
    check_fault(&(zone("shared", updated) + &named("") + &key), written);
    check_fault(&(zone("shared", secondary) + &named("")), written);
    let replaced = "another zone has the file shared, which this one replaces";
    check_fault(&(plain + &named(secondary)), replaced);
    std::fs::remove_file(key_file).unwrap();
}

#[test]
fn zones_that_the_same_clients_would_see_are_refused() {
    check_fault(
        &(zone("a", "view = [\"office\", \"guests\"]") + &zone("b", "view = [\"guests\"]")),
        "the zone corp.example. has another table with \"guests\" in its view: these clients would \
         see both a and b",
    );
    check_fault(&(zone("a", "") + &zone("b", "")), "the zone corp.example. has another table");
}

#[test]
fn unknown_or_superfluous_items_are_refused() {
    let view = |items: &str| zone("a", &format!("view = [{items}]"));
    check_fault(
        &view("\"offices\""),
        "view of the zone corp.example.: no [[group]] has the name \"offices\"",
    );
    check_fault(
        &view("\"listener:lan\""),
        "view of the zone corp.example.: no [[listener]] has the name \"lan\"",
    );
    check_fault(&view("\"office\", \"office\""), "duplicate item \"office\"");
    check_fault(&view(""), "nobody would see this zone");
    check_fault(&view("\"\""), "a group, a network, or a listener");
    check_fault(&zone("a", "view = \"office\""), "a list, each item a group");
    let many = |numbers: std::ops::Range<usize>| {
        numbers.map(|number| format!("\"10.0.{number}.1\"")).collect::<Vec<_>>().join(", ")
    };
    check_fault(&view(&many(0..MAX_VIEW_ITEMS + 1)), "more than 64 items");
    let both = view(&many(0..40)) + &view(&many(40..80)).replace("\"a\"", "\"b\"");
    check_fault(&both, "more than 64 different items of views");
    let zones = |count: usize| -> String {
        let name = |number: usize| format!("z{number}.example");
        let zone = |number| zone("a", "view = [\"office\"]").replace("corp.example", &name(number));
        (0..count).map(zone).collect()
    };
    read(&format!("{GROUPS}{}", zones(1_000)));
    check_fault(&zones(1_001), "more than 1000 zones with a view");
}

#[test]
fn settings_for_all_clients_are_refused() {
    let view = |rest: &str| zone("a", &format!("view = [\"office\"]\n{rest}"));
    check_fault(
        &view("primaries = [\"192.0.2.1\"]"),
        "the zone corp.example. has a `view`, and cannot have `primaries`: transfer it to another \
         server for these clients",
    );
    check_fault(
        &view("catalog = \"producer\""),
        "the zone corp.example. has a `view`, and cannot have `catalog`",
    );
    check_fault(
        &view("member-of = \"cat.example\""),
        "the zone corp.example. has a `view`, and cannot have `member-of`",
    );
    let fetched = "[[zone]]\nname = \"corp.example\"\nprovider = \"http\"\nurl = \
                   \"https://api.example/z\"\nview = [\"office\"]\n";
    check_fault(
        fetched,
        "the zone corp.example. has a `view`, and cannot have `provider = \"http\"`",
    );
    // A zone with a view may have these settings. They apply to the clients of the view.
    let rest = "allow-transfer = [\"192.0.2.0/24\"]\nnotify = [\"192.0.2.1\"]\nsign = true\n";
    read(&format!("{GROUPS}{}", view(rest)));
}

#[test]
fn the_files_of_zones_with_long_names_have_names_that_file_systems_permit() {
    let name = |octet: u8, labels: usize, last: u8| {
        let label = [&[60][..], &[octet; 60]].concat();
        [label.repeat(labels), vec![1, last, 0]].concat()
    };
    let file = |name: &[u8]| {
        let path = ZoneConfig::member_file(name, Path::new("data"));
        path.file_name().unwrap().to_str().unwrap().to_owned()
    };
    // The longest endings that are appended are `.published` and `.avocet-new`.
    let is_short = |file: &str| file.len() + 21 <= 255;
    for (octet, labels) in [(b'a', 4), (7, 1), (0, 4)] {
        let [one, other] = [b'y', b'z'].map(|last| file(&name(octet, labels, last)));
        assert!(one != other && is_short(&one) && is_short(&other), "{one} {other}");
        assert!(one.contains('~') && one.ends_with(".zone"), "{one}");
    }
    assert_eq!(file(&name(b'a', 3, b'z')), format!("{0}.{0}.{0}.z.zone", "a".repeat(60)));
}
