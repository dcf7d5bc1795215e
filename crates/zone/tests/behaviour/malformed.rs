//! Tests that malformed zones lead to exactly the messages in `malformed/messages.txt`.
//! `AVOCET_UPDATE=yes` writes this file.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use avocet_wire::FoldedName;

/// The time of the tests: 2026-01-01.
const NOW_SECS: u64 = 1_767_225_600;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/malformed")
}

/// Returns the messages for the zone in a file of the directory.
fn messages(file: &str) -> String {
    let mut open = |path: &Path, _: u64| fs::read(directory().join(path));
    let apex = FoldedName::new(b"\x07example\x00").unwrap();
    let (zone, faults) = avocet_zone::load(apex, Path::new(file), NOW_SECS, &mut open);
    assert_eq!(zone.is_none(), faults.has_errors(), "{file}");
    let mut shown = String::new();
    for fault in faults.list() {
        writeln!(shown, "{fault}").unwrap();
    }
    shown
}

#[test]
fn each_malformed_zone_has_its_messages() {
    let mut files: Vec<String> = fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".zone"))
        .collect();
    files.sort();
    assert!(files.len() >= 50);
    let shown: String = files.iter().map(|file| messages(file)).collect();
    for file in &files {
        assert!(shown.contains(&format!("{file}:")), "{file} has no fault");
    }
    let snapshot = directory().join("messages.txt");
    if std::env::var_os("AVOCET_UPDATE").is_some() {
        fs::write(&snapshot, &shown).unwrap();
    }
    let expected = fs::read_to_string(&snapshot).unwrap();
    for (found, expected) in shown.lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(shown.lines().count(), expected.lines().count());
}
