//! Tests of zone files that change while the server watches them.

use std::fs;

use avocet_config::Config;
use avocet_config::catalog::CatalogRole;
use avocet_config::primary::Primaries;
use avocet_config::provided::{ProvidedZone, ProviderKind};
use avocet_config::zonemd::ZonemdPolicy;
use avocet_dnssec::zonemd::DigestHash;
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
        view: Vec::new(),
        file: file.clone(),
        journal: file.with_extension("journal"),
        provided: None,
        settle_secs: 10,
        primaries: Primaries::default(),
        allow_transfer: Vec::new(),
        transfer_alias: Default::default(),
        notify: Vec::new(),
        allow_update: Vec::new(),
        serial: SerialPolicy::default(),
        signing: None,
        pools_ttl_secs: 0,
        catalog: CatalogRole::Plain,
        zonemd: ZonemdPolicy::Ignore,
        digest: None,
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

/// Returns a zone with a file that includes another file, and the path of the included file.
fn including(name: &str) -> (ZoneConfig, PathBuf) {
    let file = std::env::temp_dir().join(format!("avocet-{name}-{}", std::process::id()));
    let included = file.with_extension("included");
    let text = format!("@ 60 SOA ns h 1 2 3 4 5\n$INCLUDE {}\n", included.display());
    fs::write(&file, text).unwrap();
    let name = b"\x07example\x00"[..].into();
    (
        ZoneConfig {
            name,
            view: Vec::new(),
            journal: file.with_extension("journal"),
            file,
            provided: None,
            settle_secs: 10,
            primaries: Primaries::default(),
            allow_transfer: Vec::new(),
            transfer_alias: Default::default(),
            notify: Vec::new(),
            allow_update: Vec::new(),
            serial: SerialPolicy::default(),
            signing: None,
            pools_ttl_secs: 0,
            catalog: CatalogRole::Plain,
            zonemd: ZonemdPolicy::Ignore,
            digest: None,
        },
        included,
    )
}

#[test]
fn an_unchanged_file_is_read_again_if_settings_that_decide_about_it_change() {
    let (mut config, included) = including("settings");
    fs::write(&included, "@ 60 NS ns.other.\n").unwrap();
    config.zonemd = ZonemdPolicy::Require;
    let files = ZoneFiles::of(std::slice::from_ref(&config));
    assert!(files.fault().is_some(), "the zone has no digest");
    config.zonemd = ZonemdPolicy::Ignore;
    let zones = read_in_force(&files, std::slice::from_ref(&config));
    assert!(files.fault().is_none() && zones.get(&config.name).is_some_and(Option::is_some));
    config.zonemd = ZonemdPolicy::Require;
    let zones = read_in_force(&files, std::slice::from_ref(&config));
    assert!(files.fault().is_some(), "the fault is reported");
    assert!(zones.get(&config.name).is_some_and(Option::is_some), "the version stays in force");
    fs::remove_file(&config.file).unwrap();
    fs::remove_file(&included).unwrap();

    let hosts = config.file.with_extension("csv");
    fs::write(&hosts, "#Fields: MachineFunction,StaticIP,MachineName\nweb,192.0.2.1,a\n").unwrap();
    config.zonemd = ZonemdPolicy::Ignore;
    config.file = hosts.clone();
    let provided = |ttl_secs| {
        let provided = ProvidedZone {
            kind: ProviderKind::Csv,
            head: None,
            ttl_secs,
            domain: None,
            source: None,
        };
        ZoneConfig { provided: Some(provided), ..config.clone() }
    };
    let files = ZoneFiles::of(&[provided(100)]);
    let ttls = |zones: &HostedZones| {
        let zone = zones.get(&config.name).and_then(Option::as_ref).unwrap();
        zone.text().matches(" 7 IN ").count()
    };
    assert_eq!(ttls(&files.current()), 0);
    assert!(ttls(&read_in_force(&files, &[provided(7)])) > 0);
    fs::remove_file(hosts).unwrap();
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

#[test]
fn no_serial_is_published_with_two_contents_when_a_digest_comes_and_goes() {
    let (mut config, included) = including("forms");
    fs::write(&included, "@ 60 NS ns.other.\n").unwrap();
    let name = config.name.clone();
    let published = |files: &ZoneFiles, config: &ZoneConfig| {
        let zones = read_in_force(files, std::slice::from_ref(config));
        zones.get(&name).and_then(Option::clone).unwrap()
    };
    let kept = config.published_file();
    let files = ZoneFiles::default();
    assert_eq!(published(&files, &config).serial(), 1);
    assert!(!kept.exists());
    config.digest = Some(DigestHash::Sha384);
    let digested = published(&files, &config);
    assert!((digested.serial(), digested.zonemd().is_some()) == (1, true) && kept.exists());
    // Another server that starts with the same files continues with the same version.
    let again = published(&ZoneFiles::default(), &config);
    assert_eq!(again.version(), digested.version());

    config.digest = None;
    let plain = published(&files, &config);
    assert!((plain.serial(), plain.zonemd()) == (2, None));
    // The change removes the record. After a restart, IXFR clients get the whole zone.
    let [change] = plain.changes() else { panic!("one change") };
    assert_eq!((change.size().removed, change.size().added), (1, 0));
    let again = published(&ZoneFiles::default(), &config);
    assert_eq!((again.version(), again.changes_since(1)), (plain.version(), None));
    // A zone file with a higher serial is published with this serial, and the file with the serial
    // of the earlier publication is removed.
    let text = fs::read_to_string(&config.file).unwrap().replace(" 1 2 3 4 5", " 9 2 3 4 5");
    fs::write(&config.file, text).unwrap();
    let of_file = published(&files, &config);
    assert_eq!((of_file.serial(), of_file.changes_since(2)), (9, None));
    assert!(!kept.exists());
    fs::remove_file(&config.file).unwrap();
    fs::remove_file(&included).unwrap();
}

/// A server with one zone.
struct OneZone {
    files: ZoneFiles,
    config: ZoneConfig,
    included: PathBuf,
}

impl OneZone {
    /// Creates a server with a zone that other servers may have. The zone is large enough that its
    /// changes are shorter than the zone.
    fn of(name: &str, settings: &str) -> Self {
        let (ZoneConfig { file, journal, .. }, included) = including(name);
        let hosts: String = (0..40).map(|host| format!("h{host} 60 A 10.0.0.{host}\n")).collect();
        fs::write(&included, format!("@ 60 NS ns.other.\n{hosts}")).unwrap();
        let zone = "[[zone]]\nname = \"example\"\nallow-transfer = [\"192.0.2.0/24\"]";
        let text = format!("{zone}\nfile = {file:?}\n{settings}\n");
        let read = Config::from_text(None, &text, &BTreeMap::new()).unwrap().zones;
        let config = ZoneConfig { journal, ..read[0].clone() };
        Self { files: ZoneFiles::default(), config, included }
    }

    /// Returns the version that is published with a digest, or without one.
    fn published(&self, digest: Option<DigestHash>) -> Arc<HostedZone> {
        let config = ZoneConfig { digest, ..self.config.clone() };
        let zones = read_in_force(&self.files, &[config]);
        zones.get(&self.config.name).and_then(Option::clone).unwrap()
    }

    fn set_serial_of_file(&self, serial: u32) {
        let text =
            format!("@ 60 SOA ns h {serial} 2 3 4 5\n$INCLUDE {}\n", self.included.display());
        fs::write(&self.config.file, text).unwrap();
    }
}

impl Drop for OneZone {
    fn drop(&mut self) {
        let Self { config, included, .. } = self;
        for file in [&config.file, included, &config.journal] {
            let _ = fs::remove_file(file);
        }
        let _ = fs::remove_file(config.published_file());
        let _ = fs::remove_file(config.addresses_file());
        let _ = fs::remove_file(config.ttls_file());
    }
}

/// Returns the result of a look-up of `web.cdn.`.
fn look_up(addresses: Option<&[&str]>) -> Vec<AddressLookUp> {
    let parsed = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
    let target = b"\x03web\x03cdn\x00"[..].into();
    vec![AddressLookUp { target, addresses: addresses.map(parsed), ttl_secs: 60 }]
}

#[test]
fn addresses_behind_aliases_are_versions_with_serials_of_their_own() {
    let mut zone = OneZone::of("aliases", "transfer-alias = \"addresses\"");
    let hosts = fs::read_to_string(&zone.included).unwrap();
    fs::write(&zone.included, format!("{hosts}@ 30 ALIAS Web.CDN.\n")).unwrap();
    let id = zone.config.id();
    let current =
        |files: &ZoneFiles| files.current().get(&id.name).and_then(Option::clone).unwrap();
    // Until the first look-up, the source is answered, but not transferred.
    let raw = zone.published(None);
    assert!(raw.first_alias().is_some() && raw.holds_transfers());
    let awaited = zone.files.awaiting_addresses(1_000);
    assert_eq!((awaited.len(), &awaited[0].id), (1, &id));
    assert_eq!(&*awaited[0].targets[0], b"\x03web\x03cdn\x00");
    assert!(zone.files.note_addresses(&id, look_up(Some(&["192.0.2.1"])), 1_000));
    let first = current(&zone.files);
    assert_eq!((first.serial(), first.first_alias(), first.holds_transfers()), (2, None, false));
    assert!(zone.files.awaiting_addresses(1_059).is_empty());
    assert!(!zone.files.note_addresses(&id, look_up(Some(&["192.0.2.1"])), 1_060));
    assert_eq!(current(&zone.files).version(), first.version());

    // Other addresses are a new version, which other servers get as a change.
    assert!(zone.files.note_addresses(&id, look_up(Some(&["192.0.2.2", "2001:db8::2"])), 1_120));
    let second = current(&zone.files);
    let change = second.changes_since(2).map(|changes| changes[0].size());
    assert_eq!(second.serial(), 3);
    assert_eq!(change.map(|size| (size.removed, size.added)), Some((1, 2)));

    // After a restart without the network, the last addresses have the last serial.
    zone.files = ZoneFiles::default();
    let again = zone.published(None);
    assert_eq!((again.version(), again.holds_transfers()), (second.version(), false));
    assert!(!zone.files.note_addresses(&id, look_up(None), 1_180));
    assert_eq!(current(&zone.files).version(), second.version());
    let fault = zone.files.fault().unwrap();
    assert!(fault.contains("zone example.: ") && fault.ends_with("resolve web.cdn."), "{fault}");
    zone.files.note_addresses(&id, look_up(Some(&["192.0.2.2", "2001:db8::2"])), 1_190);
    assert_eq!(zone.files.fault(), None);

    // A digest covers the addresses.
    let digested = zone.published(Some(DigestHash::Sha384));
    assert_eq!((digested.serial(), digested.first_alias()), (4, None));
    assert!(zone.files.note_addresses(&id, look_up(Some(&["192.0.2.3"])), 1_250));
    assert_eq!(current(&zone.files).serial(), 5);
    assert!(fault_of_digest(ZonemdPolicy::Verify, &current(&zone.files)).is_none());

    // The records as they are get a serial of their own, too.
    zone.config.transfer_alias = AliasTransfer::Literal;
    let literal = zone.published(None);
    assert_eq!((literal.serial(), literal.first_alias().is_some()), (6, true));
    assert!(zone.files.awaiting_addresses(9_999).is_empty());
}

#[test]
fn a_new_target_holds_a_version_back_until_it_is_looked_up_with_or_without_success() {
    let zone = OneZone::of("targets", "transfer-alias = \"addresses\"");
    let id = zone.config.id();
    assert_eq!(zone.published(None).serial(), 1);
    let hosts = fs::read_to_string(&zone.included).unwrap();
    fs::write(&zone.included, format!("{hosts}a 30 ALIAS web.cdn.\n")).unwrap();
    zone.set_serial_of_file(7);
    assert_eq!(zone.published(None).serial(), 1);
    assert!(zone.files.note_addresses(&id, look_up(None), 1_000));
    let zones = zone.files.current();
    let of_file = zones.get(&id.name).and_then(Option::as_ref).unwrap();
    assert_eq!((of_file.serial(), of_file.holds_transfers()), (7, false));
    assert!(of_file.first_alias().is_some() && zone.files.fault().is_some());
}

#[test]
fn a_version_withholds_the_changes_that_the_one_before_withheld() {
    let zone = OneZone::of("inherited", "");
    let digest = Some(DigestHash::Sha384);
    assert_eq!(zone.published(None).serial(), 1);
    assert_eq!(zone.published(digest).serial(), 2);
    // Other servers get serial 5 with a digest.
    zone.set_serial_of_file(5);
    assert_eq!(zone.published(digest).serial(), 5);
    assert_eq!(zone.published(None).serial(), 6);
    zone.set_serial_of_file(9);
    let plain = zone.published(None);
    assert_eq!((plain.serial(), plain.changes().len()), (9, 2));
    assert_eq!((plain.changes_since(5), plain.first_sent_serial()), (None, None));
    // From 9 to 10, only the digest changes. The changes from 5 to 9 come from the file.
    let digested = zone.published(digest);
    assert_eq!((digested.serial(), digested.changes().len()), (10, 3));
    assert_eq!((digested.changes_since(5), digested.first_sent_serial()), (None, Some(9)));
    assert_eq!(digested.changes_since(9).map(<[_]>::len), Some(1));
    zone.set_serial_of_file(12);
    let digested = zone.published(digest);
    assert_eq!((digested.serial(), digested.changes_since(5)), (12, None));
    assert_eq!(digested.changes_since(9).map(<[_]>::len), Some(2));
}

#[test]
fn a_file_with_a_lower_serial_gets_one_behind_all_that_were_published() {
    let zone = OneZone::of("lowered", "");
    assert_eq!(zone.published(Some(DigestHash::Sha384)).serial(), 2);
    assert_eq!(zone.published(None).serial(), 3);
    zone.set_serial_of_file(9);
    assert_eq!(zone.published(None).serial(), 9);
    assert!(zone.config.published_file().exists(), "its changes from 1 to 9 are withheld");
    let before = fs::read(zone.config.published_file()).unwrap();
    assert!(zone.files.reload(None));
    assert_eq!(fs::read(zone.config.published_file()).unwrap(), before);
    zone.set_serial_of_file(6);
    assert_eq!(zone.published(None).serial(), 10);
    zone.set_serial_of_file(8);
    assert_eq!(zone.published(None).serial(), 11);
    zone.set_serial_of_file(12);
    assert_eq!(zone.published(None).serial(), 12);
}

#[test]
fn a_last_serial_that_cannot_be_written_is_reported_and_written_later() {
    let zone = OneZone::of("unkept", "");
    let kept = zone.config.published_file();
    fs::create_dir(&kept).unwrap();
    assert_eq!(zone.published(None).serial(), 1);
    assert_eq!(zone.files.fault(), None);
    assert_eq!(zone.published(Some(DigestHash::Sha384)).serial(), 2);
    let has_fault = || zone.files.fault().is_some_and(|fault| fault.contains("its last serial"));
    assert!(has_fault() && !zone.files.watch(100) && has_fault());
    fs::remove_dir(&kept).unwrap();
    assert!(!zone.files.watch(101));
    assert_eq!((zone.files.fault(), kept.is_file()), (None, true));
}

#[test]
fn a_zone_that_is_signed_later_waits_for_the_ttls_that_it_had_without_signatures() {
    let keys = std::env::temp_dir().join(format!("avocet-later-keys-{}", std::process::id()));
    let mut zone = OneZone::of("signed-later", "sign = true");
    let mut signing = zone.config.signing.take();
    signing.as_mut().unwrap().directory.clone_from(&keys);
    let kept = zone.config.ttls_file();
    let set_ttl = |zone: &OneZone, serial: u32, ttl_secs: u32| {
        let included = zone.included.display();
        let text = format!("@ {ttl_secs} SOA ns h {serial} 2 3 4 5\n$INCLUDE {included}\n");
        fs::write(&zone.config.file, text).unwrap();
    };
    set_ttl(&zone, 1, 200_000);
    assert_eq!(zone.published(None).serial(), 1);
    assert!(!kept.exists());
    set_ttl(&zone, 2, 60);
    assert_eq!(zone.published(None).serial(), 2);
    assert!(kept.is_file());
    // After a restart, the zone is signed.
    zone.files = ZoneFiles::default();
    zone.config.signing.clone_from(&signing);
    assert!(zone.published(None).is_signed());
    assert!(!kept.exists(), "the state of the keys has the TTLs");
    let report = zone.files.signing(&zone.config.id()).unwrap();
    let left_secs = report.next_at_secs.unwrap().saturating_sub(wall_secs());
    assert_eq!((report.keys[0].state, report.ds.len()), ("published", 0));
    assert!((199_000..202_000).contains(&left_secs), "{left_secs}");
    // A zone that is no longer signed keeps its TTLs, in case that it is signed again.
    zone.config.signing = None;
    assert!(!zone.published(None).is_signed() && kept.is_file());
    zone.config.signing = signing;
    assert!(zone.published(None).is_signed() && !kept.exists());
    fs::remove_dir_all(keys).unwrap();
}

#[test]
fn a_zone_that_is_signed_later_waits_for_the_ttls_that_its_pools_had() {
    let keys = std::env::temp_dir().join(format!("avocet-pool-keys-{}", std::process::id()));
    let mut zone = OneZone::of("signed-pools", "sign = true");
    let mut signing = zone.config.signing.take();
    signing.as_mut().unwrap().directory.clone_from(&keys);
    for ttl_secs in [200_000, 30] {
        zone.config.pools_ttl_secs = ttl_secs;
        assert_eq!(zone.published(None).serial(), 1);
    }
    assert!(zone.config.ttls_file().is_file(), "a restart does not lose the TTL");
    zone.config.signing = signing;
    assert!(zone.published(None).is_signed());
    let report = zone.files.signing(&zone.config.id()).unwrap();
    let left_secs = report.next_at_secs.unwrap().saturating_sub(wall_secs());
    assert_eq!((report.keys[0].state, report.ds.len()), ("published", 0));
    assert!((199_000..202_000).contains(&left_secs), "{left_secs}");
    fs::remove_dir_all(keys).unwrap();
}

#[test]
fn a_zone_that_is_signed_again_has_the_keys_on_disk() {
    let keys = std::env::temp_dir().join(format!("avocet-again-keys-{}", std::process::id()));
    let mut zone = OneZone::of("signed-again", "sign = true");
    zone.config.signing.as_mut().unwrap().directory.clone_from(&keys);
    let signing = zone.config.signing.clone();
    let tag = |zone: &OneZone| {
        assert!(zone.published(None).is_signed());
        let tag = zone.files.signing(&zone.config.id()).unwrap().keys[0].tag;
        assert!(keys.join(format!("{tag:05}.pkcs8")).is_file());
        tag
    };
    let first = tag(&zone);
    zone.config.signing = None;
    assert!(!zone.published(None).is_signed());
    zone.config.signing.clone_from(&signing);
    assert_eq!(tag(&zone), first);
    zone.config.signing = None;
    assert!(!zone.published(None).is_signed());
    fs::remove_dir_all(&keys).unwrap();
    zone.config.signing = signing;
    tag(&zone);
    fs::remove_dir_all(keys).unwrap();
}

#[test]
fn a_set_without_room_for_signatures_is_refused_where_it_comes_from() {
    // 3,700 addresses have 59,200 octets, and 4,000 have 64,000: neither exceeds a message.
    let text = |count: u16| {
        let one = |host: u16| format!("h 60 A 10.1.{}.{}\n", host >> 8, host & 255);
        let hosts: String = (0..count).map(one).collect();
        format!("@ 60 SOA ns h 7 2 3 4 5\n@ 60 NS ns.other.\n{hosts}")
    };
    let keys = std::env::temp_dir().join(format!("avocet-room-keys-{}", std::process::id()));
    for (settings, is_refused) in [("sign = true", true), ("", false)] {
        let mut zone = OneZone::of("room", settings);
        if let Some(signing) = &mut zone.config.signing {
            signing.directory.clone_from(&keys);
        }
        let (config, name) = (&zone.config, &zone.config.name);
        let load = |count: u16| {
            fs::write(&config.file, text(count)).unwrap();
            load(FoldedName::new(name).unwrap(), &config.file).0.unwrap()
        };
        let made = load(4_000);
        assert_eq!(faults_of(config).errors() > 0, is_refused);
        let last = load(3_700);
        assert_eq!(faults_of(config).errors(), 0);
        read_in_force(&zone.files, std::slice::from_ref(config));
        assert_eq!(zone.files.fault(), None);
        let changed = zone.files.change(&config.id(), |_| Ok::<_, io::Error>(Some(made)));
        assert_eq!(matches!(changed, Err(ZoneChangeError::Unsignable(_))), is_refused);
        if is_refused {
            assert_eq!(zone.files.source(&config.id()).unwrap().version(), last.version());
            load(4_000);
            assert!(zone.files.reload(None));
            let fault = zone.files.fault().unwrap();
            assert!(fault.contains("h.example. have more than"), "{fault}");
        }
    }
    fs::remove_dir_all(keys).unwrap();
}

/// A directory with the master file of a zone without a journal.
struct EditedZone {
    directory: PathBuf,
    config: ZoneConfig,
}

impl EditedZone {
    fn of(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("avocet-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).unwrap();
        let file = directory.join("example.zone");
        let text = format!("[[zone]]\nname = \"example\"\nfile = {file:?}\n");
        let read = Config::from_text(None, &text, &BTreeMap::new()).unwrap().zones;
        let zone = Self { config: read[0].clone(), directory };
        zone.save(1, "");
        zone
    }

    /// Saves the file as an editor does.
    fn save(&self, serial: u32, rest: &str) {
        let saved = self.directory.join("saved");
        fs::write(&saved, Self::text(serial, rest)).unwrap();
        fs::rename(saved, &self.config.file).unwrap();
    }

    fn text(serial: u32, rest: &str) -> String {
        format!("; by hand\n@ 60 SOA ns h {serial} 2 3 4 5\n@ 60 NS ns.other.\n{rest}\n")
    }

    /// Returns the version that the server makes from this text of a file.
    fn changed(&self, serial: u32, rest: &str) -> HostedZone {
        let file = self.directory.join("changed");
        fs::write(&file, Self::text(serial, rest)).unwrap();
        load(FoldedName::new(&self.config.name).unwrap(), &file).0.unwrap()
    }

    fn on_disk(&self) -> String {
        fs::read_to_string(&self.config.file).unwrap()
    }
}

impl Drop for EditedZone {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[test]
fn an_edit_that_is_saved_after_the_check_for_edits_stays() {
    let zone = EditedZone::of("late-edit");
    let mut kept = KeptZone::new(zone.config.clone());
    let mut journal = ZoneJournal::at(zone.config.journal.clone());
    let signers = KnownSigners::default();
    assert!(kept.load(1, &mut journal, &signers) && !kept.has_unread_edit());
    // The server would change the first file line by line, and write the second as a whole.
    let edits = ["a 60 TXT edit", "$TTL 60\n$GENERATE 1-2 b$ A 192.0.2.$"];
    for (serial, edit) in (2..).zip(edits) {
        let after = Arc::new(zone.changed(9, "a 60 TXT change"));
        zone.save(serial, edit);
        let fault = kept.write(&after).unwrap_err();
        assert!(matches!(ZoneChangeError::<()>::from(fault), ZoneChangeError::Edited { .. }));
        assert_eq!(zone.on_disk(), EditedZone::text(serial, edit));
        assert!(kept.has_unread_edit() && kept.load(2, &mut journal, &signers));
        assert_eq!(kept.source.as_ref().unwrap().serial(), serial);
    }
    let after = Arc::new(zone.changed(9, "a 60 TXT change"));
    kept.write(&after).unwrap();
    assert!(zone.on_disk().contains("change") && !kept.has_unread_edit());
}

#[test]
fn no_edit_is_lost_to_changes_at_the_same_time() {
    let zone = EditedZone::of("racing-edits");
    let files = ZoneFiles::of(std::slice::from_ref(&zone.config));
    let id = zone.config.id();
    for round in 0..100_u32 {
        let edit = format!("a 60 TXT edit-{round}");
        let after = zone.changed(2 * round + 2, "a 60 TXT change");
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                start.wait();
                zone.save(2 * round + 3, &edit);
            });
            start.wait();
            match files.change(&id, |_| Ok::<_, ()>(Some(after))) {
                Ok(_) | Err(ZoneChangeError::Edited { kept: None }) => {}
                Err(error) => panic!("{error:?}"),
            }
        });
        assert_eq!(zone.on_disk(), EditedZone::text(2 * round + 3, &edit));
        assert!(files.reload(Some(&id)) && files.fault().is_none());
    }
}

#[test]
fn changes_of_a_confirmed_secondary_are_written_to_its_file() {
    let zone = EditedZone::of("confirmed");
    let config = secondary(&zone);
    fs::write(&zone.config.file, secondary_text(1)).unwrap();
    let files = ZoneFiles::of(&config);
    for serial in 2..4 {
        receive(&files, &zone, serial);
        let change = format!("change-{serial}");
        assert!(!zone.on_disk().contains(&change), "written later");
        files.watch(u64::from(serial) * 1000);
        assert!(zone.on_disk().contains(&change), "{}", zone.on_disk());
    }
}

#[test]
fn a_secondary_with_a_damaged_journal_serves_only_versions_of_its_primary() {
    let zone = EditedZone::of("secondary-damaged");
    let config = secondary(&zone);
    let (file, journal) = (&zone.config.file, &config[0].journal);
    fs::write(file, secondary_text(1)).unwrap();
    let (files, id) = (ZoneFiles::of(&config), config[0].id());
    for serial in 2..7 {
        receive(&files, &zone, serial);
        // The file gets the second and the fourth version.
        if serial % 2 == 0 && serial < 6 {
            files.watch(u64::from(serial) * 1000);
        }
    }
    let (whole, written) = (fs::read(journal).unwrap(), fs::read(file).unwrap());
    for at in (0..whole.len()).step_by(3) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(journal, damaged).unwrap();
        fs::write(file, &written).unwrap();
        let files = ZoneFiles::of(&config);
        let served = files.source(&id).unwrap();
        let serial = served.serial();
        assert!((4..7).contains(&serial), "{at}: {serial}");
        let changed = zone.directory.join("changed");
        fs::write(&changed, secondary_text(serial)).unwrap();
        let wanted = load(FoldedName::new(&config[0].name).unwrap(), &changed).0.unwrap();
        assert_eq!(served.version(), wanted.version(), "{at}");
        assert_eq!(files.fault(), None, "the primary has all versions");
    }
}

#[test]
fn a_damaged_copy_of_a_secondary_is_not_served() {
    let zone = EditedZone::of("copy-damaged");
    let config = secondary(&zone);
    fs::write(&zone.config.file, secondary_text(1)).unwrap();
    let (files, id) = (ZoneFiles::of(&config), config[0].id());
    receive(&files, &zone, 2);
    files.watch(1_000);
    let whole = zone.on_disk();
    fs::write(&zone.config.file, whole.replace("192.0.2.7", "192.0.2.6")).unwrap();
    let files = ZoneFiles::of(&config);
    assert!(files.source(&id).is_none());
    assert!(files.fault().unwrap().contains("checksum"), "{:?}", files.fault());
}

/// Returns the zone as a zone of another server.
fn secondary(zone: &EditedZone) -> Vec<ZoneConfig> {
    let file = &zone.config.file;
    let text = format!("[[zone]]\nname = \"example\"\nfile = {file:?}\nprimaries = [\"::1\"]\n");
    let mut config = Config::from_text(None, &text, &BTreeMap::new()).unwrap().zones;
    config[0].journal = zone.directory.join("journal");
    config
}

/// Returns a version of the zone of the other server.
fn secondary_text(serial: u32) -> String {
    let many = "$GENERATE 1-20 b$ 60 A 192.0.2.$\n";
    let head = format!("@ 60 SOA ns h {serial} 2 3 999999 5\n@ 60 NS ns.other.\n{many}");
    if serial > 1 { format!("{head}a 60 TXT change-{serial}\n") } else { head }
}

/// Receives a version from the other server.
fn receive(files: &ZoneFiles, zone: &EditedZone, serial: u32) {
    let (changed, id) = (zone.directory.join("changed"), ZoneId::common(b"\x07example\0"));
    fs::write(&changed, secondary_text(serial)).unwrap();
    let after = load(FoldedName::from_folded_unchecked(b"\x07example\0"), &changed).0.unwrap();
    files.confirm(&id).unwrap();
    files.change(&id, |_| Ok::<_, ()>(Some(after))).unwrap();
    files.confirm(&id).unwrap();
}
