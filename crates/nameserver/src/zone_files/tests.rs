//! Files of zones that change while they are watched.

use std::fs;

use avocet_zone::SerialPolicy;

use super::*;

fn read_in_force(files: &ZoneFiles, config: &[ZoneConfig]) -> Arc<HostedZones> {
    files.put(files.read(config));
    files.current()
}

#[test]
fn a_changed_file_is_read_when_it_has_settled_and_a_bad_one_changes_nothing() {
    let file = std::env::temp_dir().join(format!("avocet-zone-{}", std::process::id()));
    let text = |serial: u32, rest: &str| {
        format!("$TTL 60\n@ SOA ns h {serial} 2 3 4 5\n@ NS ns\nns A 192.0.2.1\n{rest}\n")
    };
    let name: Box<[u8]> = b"\x07example\x00"[..].into();
    let serial = |zones: &HostedZones| {
        let zone = zones.get(b"\x07example\x00").and_then(Option::as_ref);
        zone.map(|zone| zone.serial())
    };
    let config = [ZoneConfig {
        name,
        file: file.clone(),
        journal: file.with_extension("journal"),
        provided: None,
        settle_secs: 10,
        primaries: Vec::new(),
        key: None,
        allow_transfer: Vec::new(),
        notify: Vec::new(),
        allow_update: Vec::new(),
        serial: SerialPolicy::default(),
        signing: None,
    }];
    let files = ZoneFiles::default();
    assert_eq!(serial(&read_in_force(&files, &config)), None);
    assert!(files.fault().is_some_and(|fault| fault.contains("SERVFAIL")));
    fs::write(&file, text(1, "")).unwrap();
    assert!(!files.watch(100) && !files.watch(109) && files.watch(110));
    assert_eq!(serial(&files.current()), Some(1));
    assert_eq!((files.fault(), files.watch(120)), (None, false));
    fs::write(&file, text(2, "a A 1.2.3 ; longer")).unwrap();
    assert!(!files.watch(130) && !files.watch(140));
    let fault = files.fault().unwrap();
    assert!(fault.contains("serial 1 stays in force") && fault.contains(":5:5: "), "{fault}");
    assert_eq!(serial(&read_in_force(&files, &config)), Some(1));
    fs::write(&file, text(3, "; better and longer still")).unwrap();
    assert_eq!(serial(&read_in_force(&files, &config)), Some(3));
    assert_eq!(files.fault(), None);
    fs::remove_file(&file).unwrap();
    assert!(!files.watch(200) && !files.watch(210));
    assert_eq!(serial(&read_in_force(&files, &config)), Some(3));
    assert_eq!(serial(&read_in_force(&files, &[])), None);
}

/// Returns a zone whose file includes another, and the path of that.
fn including(name: &str) -> (ZoneConfig, PathBuf) {
    let file = std::env::temp_dir().join(format!("avocet-{name}-{}", std::process::id()));
    let included = file.with_extension("included");
    let text = format!("@ 60 SOA ns h 1 2 3 4 5\n$INCLUDE {}\n", included.display());
    fs::write(&file, text).unwrap();
    let name = b"\x07example\x00"[..].into();
    (
        ZoneConfig {
            name,
            journal: file.with_extension("journal"),
            file,
            provided: None,
            settle_secs: 10,
            primaries: Vec::new(),
            key: None,
            allow_transfer: Vec::new(),
            notify: Vec::new(),
            allow_update: Vec::new(),
            serial: SerialPolicy::default(),
            signing: None,
        },
        included,
    )
}

#[test]
fn an_included_file_that_is_missing_is_read_when_it_comes() {
    let (config, included) = including("missing");
    let files = ZoneFiles::of(std::slice::from_ref(&config));
    assert!(files.fault().is_some() && !files.watch(100) && !files.watch(110));
    fs::write(&included, "@ 60 NS ns.other.\n").unwrap();
    assert!(!files.watch(120) && files.watch(130));
    assert_eq!(files.fault(), None);
    fs::remove_file(&config.file).unwrap();
    fs::remove_file(&included).unwrap();
}

#[test]
fn a_change_of_an_included_file_while_it_is_read_is_noticed() {
    let (config, included) = including("changing");
    fs::write(&included, "@ 60 NS ns.other.\n").unwrap();
    let mut zone = KeptZone::new(config.clone());
    let mut journal = ZoneJournal::at(config.journal.clone());
    let mut open_and_change = |path: &Path, most: u64| {
        let text = open(path, most);
        if path == included {
            fs::write(path, "@ 60 NS ns.other.\n; one line more\n").unwrap();
        }
        text
    };
    assert!(zone.load_by(1, &mut journal, &mut open_and_change));
    assert!(!zone.has_settled(100) && zone.has_settled(110));
    assert!(zone.load(2, &mut journal, &KnownSigners::default()) && !zone.has_settled(120));
    fs::remove_file(&config.file).unwrap();
    fs::remove_file(&included).unwrap();
}
