//! Zones from sources of each format, good and bad.

use std::fs;
use std::path::PathBuf;

use avocet_config::catalog::CatalogRole;
use avocet_config::primary::Primaries;
use avocet_config::zonemd::ZonemdPolicy;
use avocet_zone::{SerialPolicy, is_newer};

use super::*;
use crate::zone_files::ZoneFiles;

/// A directory of a test, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn of(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("avocet-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn config(&self, kind: ProviderKind, text: &str) -> ZoneConfig {
        let provided = ProvidedZone { kind, head: None, ttl_secs: 60, domain: None, source: None };
        ZoneConfig {
            name: b"\x04corp\x07example\x00"[..].into(),
            view: Vec::new(),
            file: self.file("source", text),
            provided: Some(provided),
            journal: self.0.join("journal"),
            settle_secs: 1,
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
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn read(config: &ZoneConfig) -> (Option<HostedZone>, Faults) {
    load_from(config, &mut crate::zone_files::open).unwrap()
}

/// Checks the records of a zone except SOA and NS, in the order of the zone.
#[track_caller]
fn check(config: &ZoneConfig, expected: &[&str]) {
    let (zone, faults) = read(config);
    let shown: Vec<_> = faults.list().iter().map(ToString::to_string).collect();
    let text = zone.unwrap_or_else(|| panic!("{shown:?}")).text();
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<_> = text.lines().map(words).collect();
    let is_head =
        |line: &str| line.contains(" SOA ") || line.contains(" NS ") || line.starts_with('$');
    let found: Vec<_> = lines.iter().filter(|line| !is_head(line)).map(String::as_str).collect();
    assert_eq!(found, expected);
}

/// Checks the first error of a source.
#[track_caller]
fn check_fault(kind: ProviderKind, text: &str, expected: &str) {
    let scratch = Scratch::of(&format!("fault-{}", expected.len() * 1000 + text.len()));
    let (zone, faults) = read(&scratch.config(kind, text));
    assert!(zone.is_none(), "{text}");
    let message = faults.list()[0].to_string();
    assert!(message.contains(expected), "{message}");
}

const TABLE: &str = "\u{feff}; machines\n#Version:1.0\n#fields:MachineName, StaticIP, Rack, machinefunction\n\
                     WEB01,192.0.2.1,a,web\n\nweb02,192.0.2.2,\"b, \"\"left\"\"\",web\n\
                     web02,2001:db8::2,,\n,192.0.2.3,,db.eu\n# end\nweb01,192.0.2.1,a,web\n";

#[test]
fn a_table_gives_functions_and_machines() {
    let scratch = Scratch::of("table");
    let config = scratch.config(ProviderKind::Csv, TABLE);
    check(
        &config,
        &[
            "db.eu.corp.example. 60 IN A 192.0.2.3",
            "web.corp.example. 60 IN A 192.0.2.1",
            "web.corp.example. 60 IN A 192.0.2.2",
            "web01.corp.example. 60 IN A 192.0.2.1",
            "web02.corp.example. 60 IN A 192.0.2.2",
            "web02.corp.example. 60 IN AAAA 2001:db8::2",
        ],
    );
    let (zone, _) = read(&config);
    let modified = FileFingerprint::of(&config.file).unwrap().modified_secs();
    assert_eq!(zone.unwrap().serial(), modified as u32);
}

#[test]
fn a_zone_of_reverse_names_has_those_of_its_addresses() {
    let scratch = Scratch::of("reverse");
    let mut config = scratch.config(ProviderKind::Csv, TABLE);
    config.name = b"\x012\x010\x03192\x07in-addr\x04arpa\x00"[..].into();
    config.provided.as_mut().unwrap().domain = Some(b"\x04corp\x07example\x00"[..].into());
    check(
        &config,
        &[
            "1.2.0.192.in-addr.arpa. 60 IN PTR WEB01.corp.example.",
            "2.2.0.192.in-addr.arpa. 60 IN PTR web02.corp.example.",
            "3.2.0.192.in-addr.arpa. 60 IN PTR db.eu.corp.example.",
        ],
    );
}

#[test]
fn each_bad_row_has_its_line() {
    let row = |row: &str| format!("#Fields: MachineFunction,StaticIP,MachineName\n{row}\n");
    let bad = |text: &str, expected: &str| check_fault(ProviderKind::Csv, &row(text), expected);
    bad("web,192.0.2,web01", ":2:1: \"192.0.2\" is not an IP address");
    bad("web", "the row has 1 fields instead of 3");
    bad("web,192.0.2.1,\"web01", "a quote is not closed");
    bad(",192.0.2.1,", "neither a function nor a machine");
    for name in ["$INCLUDE", "a b", "a;b", "-x", "a..b", ".", "a(", "ü", "*", "@", "www."] {
        bad(&format!("web,192.0.2.1,{name}"), "is not a host name");
    }
    check_fault(ProviderKind::Csv, "web,192.0.2.1,web01\n", ":1:1: a line \"#Fields:");
    check_fault(ProviderKind::Csv, "", "a line \"#Fields:");
    check_fault(ProviderKind::Csv, "#Fields: StaticIP\n", "no column MachineFunction");
}

#[test]
fn rrsets_in_json_are_read_with_all_types() {
    let scratch = Scratch::of("json");
    let text = r#"{"kind": "Native", "rrsets": [
        {"name": "corp.example.", "type": "SOA", "ttl": 10,
         "records": [{"content": "ns.corp.example. h.corp.example. 7 1 2 3 4"}]},
        {"name": "www", "type": "A",
         "records": [{"content": "192.0.2.1"}, {"content": "192.0.2.9", "disabled": true}]},
        {"name": "t.corp.example.", "type": "TXT", "ttl": 5, "records": [{"content": "\"a;b\""}]}
    ]}"#;
    check(
        &scratch.config(ProviderKind::Json, text),
        &["t.corp.example. 5 IN TXT \"a;b\"", "www.corp.example. 60 IN A 192.0.2.1"],
    );
    let set = |name: &str, rtype: &str, content: &str| {
        serde_json::json!({"rrsets": [
            {"name": name, "type": rtype, "records": [{"content": content}]}
        ]})
        .to_string()
    };
    let bad = |text: &str, expected: &str| check_fault(ProviderKind::Json, text, expected);
    bad("[]", "expected {\"rrsets\"");
    bad("{\"rrsets\":\n[{}]}", ":2:1: expected");
    bad("{\"rrsets\": []}", "has no records");
    let unused = "{\"rrsets\": [{\"name\": \"www\", \"type\": \"A\", \"records\": \
                  [{\"content\": \"192.0.2.1\", \"disabled\": true}]}]}";
    bad(unused, "has no records");
    bad(&set("www", "A", "192.0.2"), "the record \"www 60 IN A 192.0.2\": the data");
    bad(&set("www", "A", "192.0.2.1\nx 1 A 192.0.2.2"), "is malformed");
    bad(&set("www 1 A 192.0.2.2\nb", "A", "192.0.2.1"), "is malformed");
    bad(&set("$INCLUDE", "A", "/etc/passwd"), "is malformed");
    bad(&set("", "A", "192.0.2.1"), "is malformed");
    bad(&set("www", "TXT", "\"open"), "quote");
    bad(&set("www", "A", "("), "parenthesis");
    bad(&set("www", "AXFR", "1"), "type");
}

#[test]
fn leases_give_names_that_are_free() {
    let scratch = Scratch::of("leases");
    let leases = "0 02:00:00:00:00:01 192.168.1.20 Tablet *\n\
                  0 02:00:00:00:00:01 fd00::20 tablet *\n\
                  0 02:00:00:00:00:02 192.168.1.21 wpad *\n\
                  0 02:00:00:00:00:03 192.168.1.22 nas *\n\
                  0 02:00:00:00:00:04 192.168.1.23 *\n\
                  1 02:00:00:00:00:05 192.168.1.24 gone *\n\
                  0 02:00:00:00:00:06 192.168.1.25 $ORIGIN *\n\
                  0 02:00:00:00:00:07 192.168.1.26 tv.other.example *\n\
                  0 02:00:00:00:00:08 192.168.1.27 _dns *\n";
    let mut config = scratch.config(ProviderKind::Leases, leases);
    let head = "$TTL 60\n@ SOA ns h 1 2 3 4 5\n NS ns\nns A 192.168.1.1\nnas A 192.168.1.9\n";
    config.provided.as_mut().unwrap().head = Some(scratch.file("head", head));
    check(
        &config,
        &[
            "nas.corp.example. 60 IN A 192.168.1.9",
            "ns.corp.example. 60 IN A 192.168.1.1",
            "tablet.corp.example. 60 IN A 192.168.1.20",
            "tablet.corp.example. 60 IN AAAA fd00::20",
            "tv.corp.example. 60 IN A 192.168.1.26",
        ],
    );
}

#[test]
fn a_device_cannot_stop_the_zone_by_its_name_or_by_its_leases() {
    let scratch = Scratch::of("hostile");
    let mut config = scratch.config(ProviderKind::Leases, "");
    let many = |n: u32| format!("0 {n} fd00::{n:x} many *\n").into_bytes();
    let mut leases = b"0 02:00:00:00:00:01 192.168.1.20 \xff\xfe *\n".to_vec();
    leases.extend((1..5_000).flat_map(many));
    leases.extend(b"0 02:00:00:00:00:02 192.168.1.21 tablet *\n");
    config.file = scratch.0.join("hostile");
    fs::write(&config.file, leases).unwrap();
    let text = read(&config).0.unwrap().text();
    assert!(text.contains("192.168.1.21"), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains("AAAA")).count(), 16);
}

#[test]
fn a_changed_source_raises_the_serial_and_is_never_written() {
    let scratch = Scratch::of("serial");
    let row = |ip: &str| format!("#Fields: MachineFunction,StaticIP,MachineName\nweb,{ip},\n");
    let mut config = scratch.config(ProviderKind::Csv, &row("192.0.2.1"));
    config.settle_secs = 0;
    let files = ZoneFiles::of(std::slice::from_ref(&config));
    let serial = || files.source(&config.id()).unwrap().serial();
    let first = serial();
    // If the time of the file is the same or earlier, the serial follows from the content.
    scratch.file("source", &row("192.0.2.200"));
    let past = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    fs::File::options().append(true).open(&config.file).unwrap().set_modified(past).unwrap();
    files.reload(Some(&config.id()));
    assert!(is_newer(serial(), first));
    assert!(files.source(&config.id()).unwrap().text().contains("192.0.2.200"));
    files.watch(1_000);
    assert_eq!(fs::read_to_string(&config.file).unwrap(), row("192.0.2.200"));
    scratch.file("source", "broken\n");
    files.reload(Some(&config.id()));
    assert!(files.fault().is_some_and(|fault| fault.contains("stays in force")));
    assert!(files.source(&config.id()).unwrap().text().contains("192.0.2.200"));
}

#[test]
fn leases_from_before_a_cleanup_of_kea_keep_their_names() {
    let scratch = Scratch::of("kea");
    let file = |row: &str| format!("address,hwaddr,expire,hostname,state\n{row}");
    let mut config = scratch.config(ProviderKind::Leases, &file(""));
    config.settle_secs = 0;
    let earlier = file("192.168.1.20,02:00:00:00:00:01,4000000000,tablet,0\n");
    scratch.file("source.2", &earlier);
    let text = read(&config).0.unwrap().text();
    assert!(text.contains("tablet.corp.example."), "{text}");
}

#[test]
fn a_damaged_or_emptied_lease_file_changes_nothing() {
    let scratch = Scratch::of("damaged");
    let good = "0 02:00:00:00:00:01 192.168.1.20 tablet *\n";
    let mut config = scratch.config(ProviderKind::Leases, good);
    config.settle_secs = 0;
    let files = ZoneFiles::of(std::slice::from_ref(&config));
    let reload = |text: &str| {
        scratch.file("source", text);
        files.reload(Some(&config.id()));
        let text = files.source(&config.id()).unwrap().text();
        let names = ["tablet", "phone"].map(|name| text.contains(name));
        (names, files.fault().unwrap_or_default())
    };
    let phone = "0 02:00:00:00:00:02 192.168.1.21 phone *\n";
    for (text, reason) in [
        ("\0\u{1}x\n", "source:1:1: this is not a lease of dnsmasq, ISC dhcpd or Kea"),
        (&format!("{phone}0 02:00:00:00"), "source:2:1: warning: the line is cut"),
        ("", "source: warning: the file has no leases"),
    ] {
        let (names, fault) = reload(text);
        assert_eq!(names, [true, false], "{text}");
        assert!(fault.contains("stays in force") && fault.contains(reason), "{fault}");
    }
    assert_eq!(reload(phone), ([false, true], String::new()));
    // An ended lease is a lease.
    assert_eq!(reload("1 02:00:00:00:00:01 192.168.1.20 gone *\n"), ([false; 2], String::new()));
    // At the start, the lines that can be read count, and a file without leases is fine.
    for text in ["", &format!("{phone}0 02:00:00:00")] {
        scratch.file("source", text);
        assert!(read(&config).0.is_some(), "{text}");
    }
}
