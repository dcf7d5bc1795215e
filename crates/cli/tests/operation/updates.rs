//! Dynamic updates of hosted zones (RFC 2136), with nsupdate and knsupdate as clients.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use avocet_wire::FoldedName;
use avocet_zone::{TsigAlgorithm, TsigKey, TsigSigner};
use zeroize::Zeroizing;

use crate::server::{Server, Site, is_here, query};
use crate::upstream::Upstream;

/// In base64.
const SECRET: &str = "c2VjcmV0IHNlY3JldCBzZWNyZXQgc2VjcmV0ISE=";
const OCTETS: &[u8] = b"secret secret secret secret!!";
const ZONE: &str = "; the office\n$TTL 60\n@ SOA ns host 1 2h 3m 4w 60\n@ NS ns\nns A 192.0.2.1\n\
                    old A 192.0.2.9 ; the printer\n";

/// A server with the zone `corp.example` that clients update.
pub(crate) struct Updated {
    pub(crate) site: Site,
    pub(crate) server: Option<Server>,
    pub(crate) file: PathBuf,
    _upstream: Upstream,
}

impl Updated {
    /// Starts one with these settings of the zone. The server reads an edit of the file at once.
    fn start(settings: &str) -> Self {
        Self::start_settling(0, settings)
    }

    /// Starts a server that reads an edit of the file after this number of seconds.
    pub(crate) fn start_settling(settle_secs: u32, settings: &str) -> Self {
        let (upstream, site) = (Upstream::start(), Site::new());
        let (file, secret) = (site.directory.join("corp.zone"), site.directory.join("secret"));
        fs::write(&file, ZONE).unwrap();
        fs::write(&secret, SECRET).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let keys: String = ["all", "acme", "host.corp.example"]
            .map(|key| {
                format!("[[key]]\nname = \"{key}\"\nsecret-file = \"{}\"\n", secret.display())
            })
            .concat();
        let text = format!(
            "{keys}[[zone]]\nname = \"corp.example\"\nfile = \"{}\"\nsettle-secs = \
             {settle_secs}\n{settings}\n",
            file.display()
        );
        site.configure(upstream.addr, "", &text);
        let server = Some(site.start());
        Self { site, server, file, _upstream: upstream }
    }

    pub(crate) fn restart_killed(&mut self) {
        let server = self.server.take().unwrap();
        server.signal("KILL");
        server.wait();
        self.server = Some(self.site.start());
    }

    fn log(&mut self) -> &mut Server {
        self.server.as_mut().unwrap()
    }

    /// Runs a program with commands; returns whether it succeeds, and what it prints.
    pub(crate) fn run(
        &self,
        program: &str,
        key: &str,
        options: &[&str],
        commands: &str,
    ) -> (bool, String) {
        let dns = self.site.dns;
        let key = format!("hmac-sha256:{key}:{SECRET}");
        let mut child = Command::new(program)
            .args(["-y", &key])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let head = format!("server {} {}\nzone corp.example.\n", dns.ip(), dns.port());
        let text = format!("{head}{commands}\nsend\n");
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        (output.status.success(), text(&output.stdout) + &text(&output.stderr))
    }

    /// Adds a TXT record by an update over TCP, and returns the RCODE.
    pub(crate) fn add(&self, name: &str) -> u8 {
        let message = adding(name, 1);
        let mut stream = TcpStream::connect(self.site.dns).unwrap();
        stream.write_all(&(message.len() as u16).to_be_bytes()).unwrap();
        stream.write_all(&message).unwrap();
        let mut reply = [0; 14];
        stream.read_exact(&mut reply).unwrap();
        reply[5] & 0xf
    }

    /// Returns the records of the zone.
    pub(crate) fn records(&self) -> String {
        self.site.avocet_text(&["zone", "export", "corp.example"])
    }

    fn count(&self, result: &str) -> f64 {
        self.site.metric(&format!("avocet_zone_updates_total{{result=\"{result}\"}}"))
    }

    /// Waits until the server has written the file with a text in it, and returns it.
    pub(crate) fn wait_for_file(&self, part: &str) -> String {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let text = fs::read_to_string(&self.file).unwrap();
            if text.contains(part) {
                return text;
            }
            assert!(Instant::now() < until, "{text}");
            std::thread::yield_now();
        }
    }

    pub(crate) fn serial(&self) -> u64 {
        let text = self.site.avocet_text(&["zone", "list", "--json"]);
        let reply: serde_json::Value = serde_json::from_str(&text).unwrap();
        reply["zones"][0]["serial"].as_u64().unwrap()
    }
}

/// An update that adds a TXT record to a name, signed.
pub(crate) fn adding(name: &str, number: u32) -> Vec<u8> {
    let mut message = query(number as u16, "corp.example");
    let at = message.len() - 4;
    message[at..at + 2].copy_from_slice(&6_u16.to_be_bytes());
    (message[2], message[3], message[9]) = (5 << 3, 0, 1);
    message.push(name.len() as u8);
    message.extend_from_slice(name.as_bytes());
    message.extend_from_slice(&[0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 60]);
    let text = format!("n{number}");
    message.extend_from_slice(&[0, text.len() as u8 + 1, text.len() as u8]);
    message.extend_from_slice(text.as_bytes());
    let owner = FoldedName::from_folded_unchecked(b"\x03all\0");
    let secret = Zeroizing::new(OCTETS.to_vec());
    let key = Arc::new(TsigKey::new(owner, TsigAlgorithm::usual(), secret));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    TsigSigner::of_request(&key).sign(&mut message, now);
    message
}

#[test]
fn nsupdate_and_knsupdate_change_a_zone_over_udp_and_tcp() {
    if !is_here("nsupdate") || !is_here("knsupdate") {
        return;
    }
    let mut zone = Updated::start(
        "allow-update = [\"key all\"]\nallow-transfer = [\"127.0.0.0/8\"]\nserial = \"unixtime\"",
    );
    let mut number = 0;
    for program in ["nsupdate", "knsupdate"] {
        for options in [&[][..], &["-v"]] {
            number += 1;
            let name = format!("h{number}.corp.example");
            let commands = format!(
                "prereq nxdomain {name}.\nupdate add {name}. 60 A 192.0.2.{number}\nupdate add \
                 {name}. 60 TXT \"a b\"\nupdate delete old.corp.example. A"
            );
            let (is_done, text) = zone.run(program, "all", options, &commands);
            assert!(is_done, "{program} {options:?}: {text}");
            assert_eq!(zone.site.ask(&name).0, [192, 0, 2, number]);
            // The prerequisite is no longer met.
            let (_, text) = zone.run(program, "all", options, &commands);
            assert!(text.contains("YXDOMAIN"), "{program} {options:?}: {text}");
        }
    }
    assert!(!zone.records().contains("old.corp"), "{}", zone.records());
    assert!(zone.serial() > 1_700_000_000);
    assert_eq!((zone.count("applied"), zone.count("prerequisite")), (4.0, 4.0));
    let line = zone.log().wait_for_line("corp.example. updated");
    assert!(line.contains("all."), "{line}");
    let before = zone.records();
    zone.restart_killed();
    assert_eq!(zone.records(), before);
    // The file follows, and keeps the comments of what is left.
    let text = zone.wait_for_file("h4.corp.example. 60 IN A 192.0.2.4");
    assert!(text.starts_with("; the office\n$TTL 60\n@ SOA ns host 17"), "{text}");
    assert!(!zone.file.with_added_extension("before-updates").exists());
}

#[test]
fn updates_without_key_or_right_are_refused_counted_and_harmless() {
    if !is_here("nsupdate") {
        return;
    }
    let zone = Updated::start(
        "allow-update = [\"key acme subtree _acme.corp.example types TXT\", \"192.0.2.0/24 key \
         all\", \"key host.corp.example self\"]",
    );
    let before = zone.records();
    let check = |key: &str, commands: &str, expected: &str| {
        let (is_done, text) = zone.run("nsupdate", key, &[], commands);
        assert!(!is_done && text.contains(expected), "{commands}: {text}");
        assert_eq!(zone.records(), before, "{commands}");
    };
    check("all", "update add a.corp.example. 60 TXT x", "REFUSED");
    check("acme", "update add a.corp.example. 60 TXT x", "REFUSED");
    check("acme", "update add a._acme.corp.example. 60 CAA 0 issue x", "REFUSED");
    check(
        "acme",
        "update add _acme.corp.example. 60 TXT x\nupdate delete old.corp.example.",
        "REFUSED",
    );
    check("host.corp.example", "update add b.host.corp.example. 60 A 192.0.2.1", "REFUSED");
    check("host.corp.example", "update add host.corp.example. 60 NS a.", "REFUSED");
    check("nobody", "update add a.corp.example. 60 TXT x", "NOTAUTH");
    let mut unsigned = adding("a", 1);
    unsigned.truncate(12 + 18 + 2 + 10 + 2 + 3);
    (unsigned[10], unsigned[11]) = (0, 0);
    let socket = crate::server::udp_socket();
    let mut reply = [0; 512];
    for _ in 0..500 {
        socket.send_to(&unsigned, zone.site.dns).unwrap();
        let len = socket.recv(&mut reply).unwrap();
        assert_eq!((len, reply[3] & 15), (12, 5));
    }
    assert_eq!(zone.count("refused"), 506.0);
    assert_eq!(zone.count("applied"), 0.0);
    let done = |key: &str, commands: &str| zone.run("nsupdate", key, &[], commands);
    assert!(done("acme", "update add a._acme.corp.example. 60 TXT x").0);
    assert!(done("host.corp.example", "update add host.corp.example. 60 A 192.0.2.7").0);
    assert_eq!(zone.serial(), 3);
}

#[test]
fn an_acknowledged_update_survives_kills() {
    let rounds = if std::env::var_os("AVOCET_LONG_TESTS").is_some() { 1_000 } else { 5 };
    let mut zone = Updated::start("allow-update = [\"key all\"]");
    let mut acknowledged = Vec::new();
    let mut number = 0;
    for round in 0..rounds {
        let socket = crate::server::udp_socket();
        socket.connect(zone.site.dns).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        // Some are in flight when the server is killed.
        for _ in 0..12 {
            number += 1;
            socket.send(&adding("k", number)).unwrap();
        }
        for _ in 0..1 + round % 7 {
            let mut reply = [0; 512];
            let len = socket.recv(&mut reply).unwrap();
            assert!(len > 12 && reply[3] & 15 == 0, "{:?}", &reply[..len]);
            acknowledged.push(number & !0xffff | u32::from(reply[0]) << 8 | u32::from(reply[1]));
        }
        zone.restart_killed();
        let records = zone.records();
        for one in &acknowledged {
            assert!(records.contains(&format!("TXT \"n{one}\"")), "{one}: {records}");
        }
        if records.len() > 40_000 {
            // The set has a limit.
            let (is_done, text) =
                zone.run("nsupdate", "all", &[], "update delete k.corp.example. TXT");
            assert!(is_done, "{text}");
            acknowledged.clear();
        }
    }
    assert!(!acknowledged.is_empty());
}

#[test]
fn an_edit_of_the_file_and_updates_are_merged() {
    let mut zone = Updated::start("allow-update = [\"key all\"]");
    let send = |zone: &Updated, number: u32| {
        let mut stream = TcpStream::connect(zone.site.dns).unwrap();
        let message = adding("k", number);
        stream.write_all(&(message.len() as u16).to_be_bytes()).unwrap();
        stream.write_all(&message).unwrap();
        let mut reply = [0; 16];
        stream.read_exact(&mut reply).unwrap();
        reply[5] & 15
    };
    assert_eq!(send(&zone, 1), 0);
    let written = zone.wait_for_file("\"n1\"");
    // A file with errors stays as it is, and updates go on.
    fs::write(&zone.file, "broken\n").unwrap();
    zone.log().wait_for_line("corp.zone:1:");
    assert_eq!(send(&zone, 2), 0);
    assert_eq!(fs::read_to_string(&zone.file).unwrap(), "broken\n");
    // The edit of a version without the last update, and without a higher serial.
    fs::write(&zone.file, written.replace("old A", "edited A")).unwrap();
    zone.log().wait_for_line("its edited file and later changes are merged");
    zone.site.avocet_text(&["zone", "reload", "corp.example"]);
    let records = zone.records();
    assert!(records.contains("edited.corp.example.") && !records.contains("old."), "{records}");
    assert!(records.contains("\"n1\"") && records.contains("\"n2\""), "{records}");
    assert!(zone.serial() > 3);
}

#[test]
fn a_full_disk_refuses_updates_and_changes_nothing() {
    let zone = Updated::start("allow-update = [\"key all\"]");
    let directory = zone.site.data().join("zones");
    // The journal cannot be made where a file is in place of its directory.
    let _ = fs::remove_dir_all(&directory);
    fs::write(&directory, "").unwrap();
    let before = zone.records();
    let socket = crate::server::udp_socket();
    socket.send_to(&adding("k", 1), zone.site.dns).unwrap();
    let mut reply = [0; 512];
    socket.recv(&mut reply).unwrap();
    assert_eq!(reply[3] & 15, 2);
    assert_eq!((zone.records(), zone.count("failed")), (before, 1.0));
    fs::remove_file(&directory).unwrap();
    socket.send_to(&adding("k", 2), zone.site.dns).unwrap();
    socket.recv(&mut reply).unwrap();
    assert_eq!(reply[3] & 15, 0);
    assert!(zone.records().contains("\"n2\""));
}

#[test]
fn an_updated_zone_is_signed_after_each_update_and_keeps_serial_and_key_when_killed() {
    if !["nsupdate", "dig", "ldns-verify-zone"].into_iter().all(is_here) {
        return;
    }
    let mut zone = Updated::start(
        "sign = true\nallow-update = [\"key all\", \"key all types ZONEMD,NSEC3PARAM,NSEC\"]\n\
         allow-transfer = [\"127.0.0.0/8\"]",
    );
    let transferred = |zone: &Updated, kind: &str| {
        let dns = zone.site.dns;
        let ran = Command::new("dig")
            .arg(format!("@{}", dns.ip()))
            .args(["-p", &dns.port().to_string(), "+tcp", "+onesoa", "+nocomments", "+nostats"])
            .args(["corp.example", kind])
            .output()
            .unwrap();
        String::from_utf8(ran.stdout).unwrap()
    };
    let verified = |zone: &Updated| {
        let (file, text) = (zone.site.directory.join("axfr"), transferred(zone, "AXFR"));
        fs::write(&file, &text).unwrap();
        let ran = Command::new("ldns-verify-zone").arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
        assert!(ran.status.success(), "{said}: {text}");
        text
    };
    let signature = |text: &str, rtype: &str| {
        let is_it = |line: &&str| line.contains("RRSIG") && line.contains(rtype);
        text.lines().find(is_it).unwrap_or_else(|| panic!("{rtype}: {text}")).to_owned()
    };
    let first = verified(&zone);
    for (commands, serial) in [
        ("update add m.corp.example. 60 TXT first", 3),
        ("update delete old.corp.example. A", 4),
        ("update add m.corp.example. 60 TXT second", 5),
    ] {
        let (is_done, text) = zone.run("nsupdate", "all", &[], commands);
        assert!(is_done, "{commands}: {text}");
        assert_eq!(zone.serial(), serial, "{commands}");
        verified(&zone);
    }
    let last = verified(&zone);
    assert!(last.contains("\"second\"") && !last.contains("old.corp"), "{last}");
    // What has not changed keeps its signature; the new name has one, and is in the chain.
    assert_eq!(signature(&first, "\tA 13 "), signature(&last, "\tA 13 "));
    assert!(signature(&last, "\tTXT 13 ").starts_with("m.corp.example."), "{last}");
    assert!(last.lines().any(|line| line.starts_with("corp.example.") && line.contains("NSEC")));
    // The differences of signed versions, from the first one.
    let changes = transferred(&zone, "IXFR=2");
    assert!(changes.contains("\"second\"") && !changes.contains("DNSKEY 257"), "{changes}");
    zone.restart_killed();
    assert_eq!(verified(&zone), last, "the same signatures, key and serial");
    let (is_done, text) =
        zone.run("nsupdate", "all", &[], "update add n.corp.example. 60 TXT third");
    assert!(is_done, "{text}");
    assert_eq!(zone.serial(), 6);
    let digest = format!("update add corp.example. 60 ZONEMD 6 1 1 {}", "00".repeat(48));
    for commands in [
        &*digest,
        "update add corp.example. 0 NSEC3PARAM 1 0 0 -",
        "update delete corp.example. NSEC3PARAM",
        "update add corp.example. 60 NSEC m.corp.example. A",
    ] {
        let (is_done, text) = zone.run("nsupdate", "all", &[], commands);
        assert!(!is_done && text.contains("REFUSED"), "the server makes it: {text}");
    }
    assert!(verified(&zone).contains("\"third\""));
}
