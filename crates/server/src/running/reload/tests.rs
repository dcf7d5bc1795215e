//! Reloads without a running server.

use avocet_cache::{FailureKey, Provenance, Rank, ReadAt, ReceivedRrset, RrsetKey, Security};
use avocet_nameserver::name_server::NameServer;
use avocet_resolver::LocalRootSlot;

use super::*;

fn config(variables: &[(&str, &str)]) -> Config {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Config::load(None, variables).unwrap()
}

#[test]
fn a_file_that_changes_while_it_is_read_is_read_again() {
    use std::cell::Cell;
    use std::fs;

    let path = std::env::temp_dir().join(format!("avocet-reload-{}", std::process::id()));
    let (reads, writes) = (Cell::new(0), Cell::new(2));
    let read = || {
        let text = fs::read_to_string(&path).unwrap();
        reads.set(reads.get() + 1);
        if writes.get() > 0 {
            writes.set(writes.get() - 1);
            fs::write(&path, format!("{text}x")).unwrap();
        }
        text
    };
    fs::write(&path, "").unwrap();
    let settled = || read_settled(|| FileFingerprint::of(&path), read);
    assert_eq!((settled().as_deref(), reads.get()), (Some("xx"), 3));
    writes.set(usize::MAX);
    assert_eq!(settled(), None);
    fs::remove_file(&path).unwrap();
}

/// Returns a reloader for the configuration in a file, of a server without workers.
fn reloader(path: &Path) -> (Reloader, Arc<Shared>) {
    let unconfigured = Unconfigured {
        limiter: [3; 32],
        cookies: CookieSecrets { current: [5; 16], previous: None },
        trust: Arc::default(),
        certificates: Arc::default(),
        upstream_addresses: Arc::default(),
        zones: Arc::default(),
        local_root: LocalRootSlot::default(),
        own_networks: Arc::default(),
        reserved_ports: Arc::default(),
        drops: 0,
    };
    let config = Config::load(Some(path), Vec::new()).unwrap();
    let snapshot = Snapshot::first(config, &unconfigured, Parts::new([8; 32])).unwrap();
    let tls = avocet_worker::certificates::TlsListeners::load(&snapshot.config).unwrap();
    let tls = (tls, upstream_tls::UpstreamPeers::default());
    let shared = Arc::new(Shared::new(snapshot, Vec::new(), [7; 32], tls).unwrap());
    let revisions = Revisions::without_history();
    (
        Reloader::new(
            Some(path.into()),
            shared.clone(),
            (unconfigured, ZoneFiles::default()),
            revisions,
        ),
        shared,
    )
}

#[test]
fn records_and_answers_from_before_a_zone_was_rerouted_end_whenever_they_are_stored() {
    const OWNER: &[u8] = b"\x03www\x04corp\x07example\0";
    const FAILED: FailureKey<'_> = FailureKey {
        question: avocet_wire::Question::new(b"\x03www\x04corp\x07example\0\0\x01\0\x01").unwrap(),
        checking_disabled: false,
    };
    let path = std::env::temp_dir().join(format!("avocet-reroute-{}.toml", std::process::id()));
    let rule =
        |zone: &str| format!("[[forward]]\nzone = \"{zone}\"\nupstreams = [\"192.0.2.1\"]\n");
    std::fs::write(&path, rule(".")).unwrap();
    let (reloader, shared) = reloader(&path);
    shared.name_server.failures.record(&FAILED, 22, 100);
    // The worker uses the old snapshot until records were dropped for the first time.
    let worker = thread::spawn({
        let (shared, old) = (shared.clone(), shared.snapshot());
        move || {
            let NameServer { failures, rrsets, .. } = &shared.name_server;
            while failures.lookup(&FAILED, 101).is_some() {
                thread::yield_now();
            }
            let provenance = Provenance {
                security: Security::Unchecked,
                unsupported: None,
                rank: Rank::NonAuthoritativeAnswer,
                asked_with_do: false,
                asked_with_cd: false,
            };
            let records: &[&[u8]] = &[&[192, 0, 2, 66]];
            let new = ReceivedRrset { provenance, ttl: 300, records, signatures: &[] };
            rrsets.insert(
                &RrsetKey { owner: FoldedName::new(OWNER).unwrap(), rtype: 1, class: 1 },
                &new,
                100,
            );
            let epoch = shared.snapshot().epoch;
            drop(old);
            epoch
        }
    });
    std::fs::write(&path, rule(".") + &rule("corp.example")).unwrap();
    reloader.reload().unwrap();
    let epoch = worker.join().unwrap();
    std::fs::remove_file(&path).unwrap();
    let at = ReadAt { now: 101, stale_window: 0 };
    let key = RrsetKey { owner: FoldedName::new(OWNER).unwrap(), rtype: 1, class: 1 };
    let NameServer { rrsets, .. } = &shared.name_server;
    assert!(rrsets.lookup(&key, at, &mut [0; 65_536]).is_none());
    let plan = shared.snapshot().generations.plan;
    assert!(plan > epoch, "answers that were made of it in between end: {plan}, {epoch}");
}

#[test]
fn ports_that_the_kernel_reserves_are_read_at_each_reload() {
    let directory = std::env::temp_dir();
    let path = directory.join(format!("avocet-reserve-{}.toml", std::process::id()));
    std::fs::write(&path, "[resolver]\navoid-ports = []\n").unwrap();
    let (mut reloader, shared) = reloader(&path);
    reloader.reserved_ports = path.with_extension("reserved");
    std::fs::write(&reloader.reserved_ports, "20000-29999,65535\n").unwrap();
    reloader.reload().unwrap();
    let ports = shared.snapshot().ports.clone();
    assert_eq!(ports.count(), 64_512 - 10_001);
    reloader.reload().unwrap();
    assert!(Arc::ptr_eq(&ports, &shared.snapshot().ports), "no change");
    std::fs::write(&reloader.reserved_ports, "1024-40000\n").unwrap();
    let error = reloader.reload().unwrap_err();
    assert!(error.to_string().contains("ip_local_reserved_ports leave 25535 ports"), "{error}");
    assert!(Arc::ptr_eq(&ports, &shared.snapshot().ports), "the ones in force stay");
    std::fs::remove_file(&reloader.reserved_ports).unwrap();
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_refused_configuration_does_not_change_the_state_of_its_zones() {
    let name = format!("avocet-refused-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let (path, data) = (directory.join("avocet.toml"), directory.join("data"));
    let file = directory.join("example.zone");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(&file, "@ 60 SOA ns h 1 2 3 4 5\n@ 60 NS ns.other.\n").unwrap();
    std::fs::write(&path, format!("[data]\ndirectory = {data:?}\n")).unwrap();
    let (mut reloader, _shared) = reloader(&path);
    reloader.reserved_ports = directory.join("reserved");
    reloader.reload().unwrap();
    let zone = format!("[[zone]]\nname = \"example\"\nfile = {file:?}\nsign = true\n");
    std::fs::write(&path, format!("[data]\ndirectory = {data:?}\n{zone}")).unwrap();
    std::fs::write(&reloader.reserved_ports, "1024-40000\n").unwrap();
    reloader.reload().unwrap_err();
    assert!(!data.join("keys").exists(), "no keys are made");
    std::fs::remove_file(&reloader.reserved_ports).unwrap();
    reloader.reload().unwrap();
    assert!(data.join("keys").exists(), "the zone is signed");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_zone_that_gets_or_loses_a_rule_is_rerouted() {
    let with = |zones: &[(&[u8], bool)]| {
        let mut config = config(&[("AVOCET_RESOLVER__MODE", "forward")]);
        let rule = config.forwards[0].clone();
        let rules = zones.iter().map(|(zone, exception)| {
            let mut rule = rule.clone();
            (rule.zone, rule.exception) = ((*zone).into(), *exception);
            rule
        });
        config.forwards = rules.collect();
        config
    };
    let validating =
        Config::load(None, [("AVOCET_DNSSEC__VALIDATE".to_owned(), "false".to_owned())]).unwrap();
    assert_eq!(rerouted_zones(&config(&[]), &validating), [Box::from(&b"\0"[..])]);
    let old = with(&[(b"\0", false), (b"\x01a\0", false), (b"\x01b\0", false)]);
    let new = with(&[(b"\0", false), (b"\x01a\0", false), (b"\x01b\0", true), (b"\x01c\0", false)]);
    let mut zones: Vec<_> = rerouted_zones(&old, &new);
    zones.sort();
    assert_eq!(
        zones,
        [
            b"\x01b\0".as_slice().into(),
            b"\x01b\0".as_slice().into(),
            Box::from(b"\x01c\0".as_slice())
        ]
    );
}

#[test]
fn zones_of_a_configuration_that_is_refused_never_come_into_force() {
    let path = std::env::temp_dir().join(format!("avocet-refused-{}.toml", std::process::id()));
    let file = path.with_extension("zone");
    let zone = format!("[[zone]]\nname = \"corp.example\"\nfile = {file:?}\n");
    std::fs::write(&file, "@ 60 SOA ns h 1 2 3 4 5\n@ 60 NS ns.other.\n").unwrap();
    std::fs::write(&path, &zone).unwrap();
    let (mut reloader, shared) = reloader(&path);
    reloader.reserved_ports = path.with_extension("reserved");
    reloader.reload().unwrap();
    let known = [&b"\x04corp\x07example\0"[..], &b"\x05other\x07example\0"[..]];
    let names = || -> Vec<&[u8]> {
        let zones = shared.snapshot().names.zones.clone();
        known.into_iter().filter(|name| zones.get(name).is_some()).collect()
    };
    let in_force = [known[0]];
    assert_eq!(names(), in_force);
    // Too few ports remain, which the reload finds after it has read the zones.
    std::fs::write(&reloader.reserved_ports, "1024-40000\n").unwrap();
    std::fs::write(&path, zone.replace("corp", "other")).unwrap();
    reloader.reload().unwrap_err();
    assert!(reloader.reload_zones(None));
    assert_eq!(names(), in_force);
    assert_eq!(reloader.zones.states().len(), 1);
    std::fs::remove_file(&reloader.reserved_ports).unwrap();
    reloader.reload().unwrap();
    assert_eq!(names(), [known[1]]);
    std::fs::remove_file(&file).unwrap();
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn members_that_cannot_be_withdrawn_keep_their_files() {
    let directory = std::env::temp_dir().join(format!("avocet-members-{}", std::process::id()));
    let (path, data) = (directory.join("avocet.toml"), directory.join("data"));
    std::fs::create_dir_all(data.join("zones")).unwrap();
    let file = |name: &[u8]| ZoneConfig::member_file(name, &data);
    let member = b"\x06member\x07example\0";
    let catalog = |serial: u32, records: &str| {
        let head = format!("@ 0 SOA invalid. invalid. {serial} 2 3 4000000 5\n@ 0 NS invalid.\n");
        let text = format!("{head}version 0 TXT 2\n{records}");
        std::fs::write(file(b"\x07catalog\0"), text).unwrap();
    };
    std::fs::write(file(member), "@ 60 SOA ns h 1 2 3 4000000 5\n@ 60 NS ns.other.\n").unwrap();
    catalog(1, "m.zones 0 PTR member.example.\n");
    let zone = "name = \"catalog\"\nprimaries = [\"192.0.2.1\"]\ncatalog = \"consumer\"\n";
    std::fs::write(&path, format!("[data]\ndirectory = {data:?}\n[[zone]]\n{zone}")).unwrap();
    let (mut reloader, shared) = reloader(&path);
    reloader.reserved_ports = directory.join("reserved");
    let is_served = || shared.snapshot().config.zones.iter().any(|zone| *zone.name == member[..]);
    reloader.reload().unwrap();
    reloader.follow_catalogs();
    assert!(is_served());
    catalog(2, "");
    assert!(reloader.reload_zones(None));
    // Too few ports remain.
    std::fs::write(&reloader.reserved_ports, "1024-40000\n").unwrap();
    reloader.unconfigured.lock().unwrap().reserved_ports =
        ports::read(&reloader.reserved_ports).into();
    reloader.follow_catalogs();
    assert!(is_served() && file(member).exists());
    std::fs::remove_dir_all(&directory).unwrap();
}
