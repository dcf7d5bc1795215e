//! Tests of reading zones. If BIND's `named-checkzone` is installed, its results are compared.

use crate::zones;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use avocet_wire::{FoldedName, rdata};
use avocet_zone::{HostedZone, Severity};

use zones::{HEAD, VALID};

fn load(text: &str) -> Result<HostedZone, String> {
    let apex = FoldedName::new(b"\x07example\x00").unwrap();
    let mut open = |_: &Path, _: u64| Ok(text.as_bytes().to_vec());
    let (zone, faults) = avocet_zone::load(apex, Path::new("zone"), 1_767_225_600, &mut open);
    let errors = faults.list().into_iter().filter(|fault| fault.severity == Severity::Error);
    zone.ok_or_else(|| errors.map(|fault| fault.to_string()).collect::<Vec<_>>().join("\n"))
}

/// Returns all records as lines of a master file.
fn records(zone: &HostedZone) -> Vec<String> {
    let mut lines = Vec::new();
    for node in zone.iter() {
        for set in node.sets() {
            for record in set.iter().chain(set.signatures()) {
                let data = rdata::display(record.rtype.0, record.rdata);
                let owner = node.name().to_buf();
                lines.push(format!("{owner} {} IN {} {data}", record.ttl_secs, record.rtype));
            }
        }
    }
    lines
}

/// Returns the path of a file of this test process.
fn own_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.zone", std::process::id()))
}

#[test]
fn the_number_of_included_files_has_a_limit_of_its_own() {
    let apex = FoldedName::new(b"\x07example\x00").unwrap();
    for (count, expected) in
        [(10_000, None), (10_001, Some("the zone includes more than 10000 files"))]
    {
        let text = [HEAD, &"$INCLUDE part\n".repeat(count)].concat();
        let mut open = |path: &Path, _: u64| {
            let is_part = path.ends_with("part");
            Ok(if is_part { Vec::new() } else { text.as_bytes().to_vec() })
        };
        let (_, faults) = avocet_zone::load(apex, Path::new("zone"), 1_767_225_600, &mut open);
        let all: Vec<_> = faults.list().into_iter().map(|fault| fault.to_string()).collect();
        assert_eq!(all.len(), usize::from(expected.is_some()), "{all:?}");
        assert!(expected.is_none_or(|expected| all[0].contains(expected)), "{all:?}");
    }
}

#[test]
fn records_are_grouped_by_name_and_type_in_canonical_order() {
    let zone = load(&format!(
        "{HEAD}z A 192.0.2.1\na.b TXT x\nz AAAA ::1\n\\000.z A 192.0.2.9\nZ A 192.0.2.2\nz A \
         192.0.2.1\nyy.z A 192.0.2.3\n"
    ))
    .unwrap();
    assert_eq!(
        records(&zone)[2..],
        [
            "a.b.example. 60 IN TXT \"x\"",
            "ns.example. 60 IN A 192.0.2.1",
            "z.example. 60 IN A 192.0.2.1",
            "z.example. 60 IN A 192.0.2.2",
            "z.example. 60 IN AAAA ::1",
            "\\000.z.example. 60 IN A 192.0.2.9",
            "yy.z.example. 60 IN A 192.0.2.3",
        ]
    );
    assert_eq!((zone.serial(), zone.records()), (1, 9));
    // The apex, ns, b, a.b, z and two below it.
    assert_eq!(zone.names(), 7);
}

#[test]
fn what_is_written_is_read_back() {
    for text in VALID {
        let zone = load(&format!("{HEAD}{text}")).unwrap();
        let written = records(&zone).join("\n");
        assert_eq!(records(&load(&written).unwrap()), records(&zone), "{text}");
    }
}

/// Zones that `named-checkzone` accepts are accepted here.
#[test]
fn zones_that_bind_accepts_are_accepted() {
    let file = own_file("accepted");
    for text in VALID {
        let text = format!("{HEAD}{text}");
        load(&text).unwrap_or_else(|errors| panic!("{text}{errors}"));
        fs::write(&file, &text).unwrap();
        let checked = Command::new("named-checkzone").arg("example").arg(&file).output();
        match checked {
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(output.status.success(), "{text}{said}");
            }
            Err(_) if std::env::var_os("CI").is_none() => return,
            Err(error) => panic!("named-checkzone: {error}"),
        }
    }
}

#[test]
fn a_generated_series_equals_that_of_bind() {
    let file = own_file("generated");
    let text = format!(
        "{HEAD}$GENERATE 1-20/3 h${{0,3,d}} A 192.0.2.$\n$GENERATE 0-17 ${{0,3,n}}.r PTR \
         p${{3,0,x}}\n$GENERATE 5-6 t-${{-4,2,o}} CNAME ns\n"
    );
    let zone = load(&text).unwrap();
    fs::write(&file, &text).unwrap();
    let dumped = Command::new("named-checkzone")
        .args(["-q", "-D", "-o", "-", "example"])
        .arg(&file)
        .output();
    let dumped = match dumped {
        Ok(output) => String::from_utf8(output.stdout).unwrap(),
        Err(_) if std::env::var_os("CI").is_none() => return,
        Err(error) => panic!("named-checkzone: {error}"),
    };
    assert_eq!(records(&load(&dumped).unwrap()), records(&zone));
}
