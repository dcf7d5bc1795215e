//! Zones that the running server signs: examined by `ldns-verify-zone`, by `delv`, and by a second
//! server that resolves them; keys on disk, restarts, roll-overs, faults.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::server::{Server, Site, is_here};
use crate::upstream::Upstream;

const ZONE: &str = "$TTL 60\n@ SOA ns host 5 2h 3m 4w 60\n@ NS ns\nns A 192.0.2.1\n\
                    www A 192.0.2.10\n*.wild TXT \"any\"\na.b.c TXT \"deep\"\n\
                    sub NS ns.sub\nns.sub A 192.0.2.53\n";

/// A server that signs `corp.example`.
struct Signing {
    site: Site,
    server: Option<Server>,
    file: PathBuf,
    upstream: Upstream,
}

impl Signing {
    fn start(policy: &str) -> Self {
        let (upstream, site) = (Upstream::start(), Site::new());
        let file = site.directory.join("corp.zone");
        fs::write(&file, ZONE).unwrap();
        let mut signing = Self { site, server: None, file, upstream };
        signing.configure(policy);
        signing.server = Some(signing.site.start());
        signing
    }

    fn configure(&self, policy: &str) {
        let zone = format!(
            "[[zone]]\nname = \"corp.example\"\nfile = \"{}\"\nsettle-secs = 3600\nsign = true\n\
             {policy}",
            self.file.display()
        );
        self.site.configure(self.upstream.addr, "", &zone);
    }

    /// Returns settings with the parent zone, and no time between the steps except for this one.
    fn with_parent(&self, parent_ds_ttl_secs: u32) -> String {
        format!(
            "[[zone]]\nname = \"example\"\nfile = \"{}\"\nsettle-secs = 3600\n\
             [[signing-policy]]\nname = \"default\"\ndnskey-ttl-secs = 1\npropagation-secs = 0\n\
             parent-ds-ttl-secs = {parent_ds_ttl_secs}\nparent-propagation-secs = 0\n\
             parent-check-secs = 1\n",
            self.site.directory.join("example.zone").display()
        )
    }

    /// Writes the parent zone with DS record data.
    fn write_parent(&self, serial: u32, ds: &str) {
        let ds = if ds.is_empty() { String::new() } else { format!("corp 1 DS {ds}\n") };
        let head = format!("$TTL 1\n@ SOA ns host {serial} 2h 3m 4w 1\n@ NS ns\nns A 192.0.2.1\n");
        let text = format!("{head}corp NS ns.corp\nns.corp A 192.0.2.1\n{ds}");
        fs::write(self.site.directory.join("example.zone"), text).unwrap();
    }

    fn keys(&self) -> Value {
        let text = self.site.avocet_text(&["zone", "keys", "corp.example", "--json"]);
        serde_json::from_str(&text).unwrap()
    }

    fn serial(&self) -> u64 {
        let text = self.site.avocet_text(&["zone", "list", "--json"]);
        let reply: Value = serde_json::from_str(&text).unwrap();
        reply["zones"][0]["serial"].as_u64().unwrap()
    }

    fn directory(&self) -> PathBuf {
        self.site.data().join("keys").join("corp.example.zone")
    }

    fn key_files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.directory()).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|e| e == "pkcs8")).collect()
    }

    fn restart(&mut self) {
        self.server.take().unwrap().stop();
        self.server = Some(self.site.start());
    }

    /// Lets `ldns-verify-zone` examine the zone in force.
    fn verify(&self) {
        if !is_here("ldns-verify-zone") {
            return;
        }
        let file = self.site.directory.join("exported");
        fs::write(&file, self.site.avocet_text(&["zone", "export", "corp.example"])).unwrap();
        let ran = Command::new("ldns-verify-zone").arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
        assert!(ran.status.success(), "{said}");
    }

    /// Lets `delv` validate an answer with this DS record data.
    fn validate(&self, ds: &str, question: [&str; 2], expected: &str) {
        if !is_here("delv") {
            return;
        }
        let anchors = self.site.directory.join("anchors");
        let (head, digest) = ds.rsplit_once(' ').unwrap();
        let text = format!("trust-anchors {{ corp.example. static-ds {head} \"{digest}\"; }};\n");
        fs::write(&anchors, text).unwrap();
        let dns = self.site.dns;
        let ran = Command::new("delv")
            .arg(format!("@{}", dns.ip()))
            .args(["-p", &dns.port().to_string(), "-a"])
            .arg(&anchors)
            .arg("+root=corp.example")
            .args(question)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned();
        assert!(said.contains(expected), "{question:?}: {said}");
    }

    fn states(&self) -> Vec<String> {
        let report = self.keys();
        let keys = report["keys"].as_array().unwrap().iter();
        keys.map(|key| key["state"].as_str().unwrap().to_owned()).collect()
    }
}

/// The DS record data of the first key in a report.
fn ds_of(report: &Value) -> String {
    report["keys"][0]["ds"].as_str().unwrap().to_owned()
}

#[test]
fn a_signed_zone_is_valid_for_others_and_stays_the_same_over_a_restart() {
    let mut signing = Signing::start("");
    signing.verify();
    let report = signing.keys();
    assert_eq!(report["policy"], "default");
    assert_eq!(report["keys"].as_array().unwrap().len(), 1);
    assert_eq!(report["keys"][0]["algorithm"], "ECDSAP256SHA256");
    assert_eq!(report["keys"][0]["state"], "published");
    assert_eq!(signing.serial(), 5);
    let [key] = &signing.key_files()[..] else { panic!("one key") };
    assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(signing.site.metric("avocet_zone_signatures_total{zone=\"corp.example.\"}") > 5.0);
    let text = signing.site.avocet_text(&["zone", "keys", "corp.example"]);
    assert!(text.contains(": csk, ECDSAP256SHA256, published since"), "{text}");

    for (name, rtype, expected) in [
        ("www.corp.example", "A", "fully validated"),
        ("x.wild.corp.example", "TXT", "fully validated"),
        ("nothing.corp.example", "A", "negative response, fully validated"),
        ("b.c.corp.example", "A", "negative response, fully validated"),
        ("www.corp.example", "MX", "negative response, fully validated"),
    ] {
        signing.validate(&ds_of(&report), [name, rtype], expected);
    }

    let before = signing.site.avocet_text(&["zone", "export", "corp.example"]);
    signing.restart();
    let after = signing.site.avocet_text(&["zone", "export", "corp.example"]);
    assert_eq!(before, after);
    assert_eq!(signing.keys()["made"], 0);

    // The same serial with another record: the signed zone gets the next serial.
    fs::write(&signing.file, format!("{ZONE}new A 192.0.2.77\n")).unwrap();
    signing.site.avocet_text(&["zone", "reload", "corp.example"]);
    assert_eq!(signing.serial(), 6);
    assert_eq!(signing.site.ask("new.corp.example").0, [192, 0, 2, 77]);
    signing.verify();
}

#[test]
fn a_resolver_with_the_ds_record_as_its_anchor_finds_the_zone_secure() {
    let signing = Signing::start(
        "[[signing-policy]]\nname = \"default\"\nalgorithm = \"ed25519\"\ndenial = \"nsec3\"\n",
    );
    signing.verify();
    let ds = ds_of(&signing.keys());
    let resolver = Site::new();
    resolver.write(&format!(
        "[server]\nlisten = [\"{}\"]\n[resolver]\nmode = \"recurse\"\n[[stub]]\nzone = \
         \"corp.example\"\nservers = [\"{}\"]\n[dnssec]\ntrust-anchors = [\"corp.example. DS \
         {ds}\"]\n[data]\ndirectory = \"{}\"\n",
        resolver.dns,
        signing.site.dns,
        resolver.data().display()
    ));
    let _server = resolver.start();
    if !is_here("dig") {
        return;
    }
    let dig = |name: &str, rtype: &str| {
        let dns = resolver.dns;
        let ran = Command::new("dig")
            .arg(format!("@{}", dns.ip()))
            .args(["-p", &dns.port().to_string(), "+dnssec", name, rtype])
            .output()
            .unwrap();
        String::from_utf8_lossy(&ran.stdout).into_owned()
    };
    for (name, rtype, status) in [
        ("www.corp.example", "A", "NOERROR"),
        ("x.wild.corp.example", "TXT", "NOERROR"),
        ("nothing.corp.example", "A", "NXDOMAIN"),
        ("www.corp.example", "MX", "NOERROR"),
        ("b.c.corp.example", "A", "NOERROR"),
    ] {
        let said = dig(name, rtype);
        assert!(said.contains(&format!("status: {status}")), "{name} {rtype}: {said}");
        let flags = said.lines().find(|line| line.starts_with(";; flags:")).unwrap();
        assert!(flags.contains(" ad"), "{name} {rtype}: {said}");
    }
}

#[test]
fn a_zone_whose_keys_cannot_be_used_is_held_back_and_its_files_stay() {
    let mut signing = Signing::start("");
    let [key] = &signing.key_files()[..] else { panic!("one key") };
    let (key, octets) = (key.clone(), fs::read(key).unwrap());
    let state = signing.directory().join("state.json");
    let state_text = fs::read(&state).unwrap();
    signing.server.take().unwrap().stop();

    let check = |signing: &mut Signing, expected: &str| {
        signing.server = Some(signing.site.start());
        let text = signing.site.avocet_text(&["zone", "list"]);
        assert!(text.contains("failed") && text.contains(expected), "{text}");
        let status = signing.site.avocet(&["status"]);
        let status = String::from_utf8_lossy(&status.stdout).into_owned();
        assert!(status.contains(expected), "{status}");
        signing.server.take().unwrap().stop();
    };
    fs::write(&key, b"damaged").unwrap();
    check(&mut signing, "is not a private key");
    assert_eq!(fs::read(&key).unwrap(), b"damaged");
    fs::write(&key, &octets).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    check(&mut signing, "its mode must be 600");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&state, b"{").unwrap();
    check(&mut signing, "state.json is damaged");
    fs::remove_file(&state).unwrap();
    check(&mut signing, "has keys and no state.json");
    fs::write(&state, &state_text).unwrap();
    fs::remove_file(&key).unwrap();
    check(&mut signing, "cannot read");
    assert!(signing.key_files().is_empty(), "no key was made");
    fs::write(&key, &octets).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    signing.server = Some(signing.site.start());
    signing.verify();
}

#[test]
fn a_key_rolls_over_by_command_when_the_parent_is_confirmed() {
    // No time between the steps, so that only the parent is waited for.
    let policy = "[[signing-policy]]\nname = \"default\"\nkeys = \"ksk-zsk\"\n\
                  propagation-secs = 0\nparent-ds-ttl-secs = 0\nparent-propagation-secs = 0\n";
    let mut signing = Signing::start(policy);
    assert_eq!(signing.key_files().len(), 2);
    let refused = signing.site.avocet(&["zone", "sign", "corp.example", "--roll", "ksk"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("not active yet"), "{said}");
    signing.site.avocet_text(&["zone", "sign", "corp.example", "--roll", "zsk"]);
    let report = signing.keys();
    let states: Vec<_> = report["keys"].as_array().unwrap().iter().collect();
    assert_eq!(states.len(), 3);
    assert_eq!((&states[2]["role"], &states[2]["state"]), (&"zsk".into(), &"published".into()));
    signing.verify();
    // A restart in the middle of it.
    let before = signing.keys();
    signing.restart();
    assert_eq!(signing.keys()["keys"], before["keys"]);
    signing.verify();
    let refused = signing.site.avocet(&["zone", "sign", "corp.example", "--ds-published", "1"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("awaits its DS record"), "{said}");
    let other = signing.site.avocet(&["zone", "keys", "other.example"]);
    assert!(!other.status.success());
}

#[test]
fn the_keys_of_bind_are_taken_over() {
    if !is_here("dnssec-keygen") {
        return;
    }
    let (upstream, site) = (Upstream::start(), Site::new());
    let file = site.directory.join("corp.zone");
    fs::write(&file, ZONE).unwrap();
    let directory = site.data().join("keys").join("corp.example.zone");
    fs::create_dir_all(&directory).unwrap();
    let mut tags = Vec::new();
    for flag in [&["-f", "KSK"][..], &[]] {
        let made = Command::new("dnssec-keygen")
            .args(["-q", "-a", "ECDSAP256SHA256", "-K"])
            .arg(&directory)
            .args(flag)
            .arg("corp.example")
            .output()
            .unwrap();
        let name = String::from_utf8(made.stdout).unwrap();
        tags.push(name.trim().rsplit('+').next().unwrap().parse::<u64>().unwrap());
    }
    let signing = Signing { site, server: None, file, upstream };
    signing.configure("");
    // A key file that other accounts can read is refused.
    let entries = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    let mut private = entries.filter(|path| path.extension().is_some_and(|e| e == "private"));
    let private = private.next().unwrap();
    let set_mode = |mode| fs::set_permissions(&private, fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o644);
    let server = signing.site.start();
    let text = signing.site.avocet_text(&["zone", "list"]);
    assert!(text.contains("failed") && text.contains("its mode must be 600"), "{text}");
    server.stop();
    set_mode(0o600);
    let _server = signing.site.start();
    let report = signing.keys();
    let keys = report["keys"].as_array().unwrap();
    let mut found: Vec<_> = keys.iter().map(|key| key["tag"].as_u64().unwrap()).collect();
    found.sort_unstable();
    tags.sort_unstable();
    assert_eq!(found, tags);
    assert!(keys.iter().all(|key| key["state"] == "active"), "{report}");
    signing.verify();
}

#[test]
fn a_whole_roll_over_follows_the_ds_record_in_the_parent_zone() {
    let (upstream, site) = (Upstream::start(), Site::new());
    let file = site.directory.join("corp.zone");
    fs::write(&file, ZONE.replace("$TTL 60", "$TTL 1")).unwrap();
    let signing = Signing { site, server: None, file, upstream };
    let publish = |serial: u32, ds: &str| signing.write_parent(serial, ds);
    publish(1, "");
    // The policy for clients does not apply to the look-ups of the server itself.
    let rule = "[[rule]]\nname = \"no-parent\"\naction = \"block\"\n\
                when = 'qname.under(\"example\")'\n";
    signing.configure(&format!("{}{rule}", signing.with_parent(1)));
    let mut server = signing.site.start();
    server.wait_for_line("and is submitted");
    let first = ds_of(&signing.keys());
    publish(2, &first);
    signing.site.avocet_text(&["zone", "reload", "example"]);
    server.wait_for_line("and is active");
    signing.verify();

    signing.site.avocet_text(&["zone", "sign", "corp.example", "--roll", "csk"]);
    signing.verify();
    server.wait_for_line("and is submitted");
    let report = signing.keys();
    let second = report["keys"][1]["ds"].as_str().unwrap().to_owned();
    assert_eq!(report["ds"], serde_json::json!([second]));
    // With both records, the old key stays.
    publish(3, &format!("{first}\ncorp 1 DS {second}"));
    signing.site.avocet_text(&["zone", "reload", "example"]);
    signing.verify();
    assert_eq!(signing.keys()["keys"].as_array().unwrap().len(), 2);
    publish(4, &second);
    signing.site.avocet_text(&["zone", "reload", "example"]);
    server.wait_for_line("and is removed");
    let report = signing.keys();
    assert_eq!(report["keys"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!((&report["keys"][0]["state"], ds_of(&report)), (&"active".into(), second));
    assert_eq!(signing.key_files().len(), 1);
    signing.verify();
}

#[test]
fn another_algorithm_after_a_reload_replaces_the_keys_while_edits_are_published() {
    let (upstream, site) = (Upstream::start(), Site::new());
    let file = site.directory.join("corp.zone");
    let zone = ZONE.replace("$TTL 60", "$TTL 1");
    fs::write(&file, &zone).unwrap();
    let signing = Signing { site, server: None, file, upstream };
    let publish = |serial: u32, ds: &str| {
        signing.write_parent(serial, ds);
        signing.site.avocet_text(&["zone", "reload", "example"]);
    };
    let edit = |number: u8, ds: &str| {
        fs::write(&signing.file, format!("{zone}v{number} A 192.0.2.{number}\n")).unwrap();
        signing.site.avocet_text(&["zone", "reload", "corp.example"]);
        let name = format!("v{number}.corp.example");
        assert_eq!(signing.site.ask(&name).0, [192, 0, 2, number]);
        signing.validate(ds, [&name, "A"], "fully validated");
        signing.validate(ds, ["nothing.corp.example", "A"], "negative response, fully validated");
    };
    signing.write_parent(1, "");
    signing.configure(&signing.with_parent(1));
    let mut server = signing.site.start();
    server.wait_for_line("and is submitted");
    let first = ds_of(&signing.keys());
    publish(2, &first);
    server.wait_for_line("and is active");
    edit(61, &first);

    // The new key stays in its first state for as long as other servers may need for a version.
    let other = format!("{}algorithm = \"ed25519\"\n", signing.with_parent(1));
    signing.configure(&other.replace("\npropagation-secs = 0", "\npropagation-secs = 3600"));
    signing.site.avocet_text(&["reload"]);
    assert_eq!(signing.states(), ["active", "prepared"]);
    edit(62, &first);
    server.stop();
    let mut server = signing.site.start();
    assert_eq!(signing.states(), ["active", "prepared"]);
    edit(63, &first);
    signing.configure(&other);
    signing.site.avocet_text(&["reload"]);
    server.wait_for_line("and is submitted");
    edit(64, &first);
    let second = signing.keys()["keys"][1]["ds"].as_str().unwrap().to_owned();
    publish(3, &second);
    edit(65, &second);
    server.wait_for_line("and is removed");
    edit(66, &second);
    let report = signing.keys();
    assert_eq!(report["keys"].as_array().unwrap().len(), 1, "{report}");
    assert_eq!(report["keys"][0]["algorithm"], "ED25519");
    signing.verify();
}

#[test]
fn a_parent_that_goes_back_after_the_confirmation_keeps_the_old_key() {
    let (upstream, site) = (Upstream::start(), Site::new());
    let file = site.directory.join("corp.zone");
    fs::write(&file, ZONE.replace("$TTL 60", "$TTL 1")).unwrap();
    let signing = Signing { site, server: None, file, upstream };
    signing.write_parent(1, "");
    signing.configure(&signing.with_parent(1));
    let mut server = signing.site.start();
    server.wait_for_line("and is submitted");
    let publish = |serial: u32, ds: &str| {
        signing.write_parent(serial, ds);
        signing.site.avocet_text(&["zone", "reload", "example"]);
    };
    let first = ds_of(&signing.keys());
    publish(2, &first);
    server.wait_for_line("and is active");
    // The time during which the parent can restore the old DS record.
    signing.configure(&signing.with_parent(3_600));
    signing.site.avocet_text(&["reload"]);
    signing.site.avocet_text(&["zone", "sign", "corp.example", "--roll", "csk"]);
    server.wait_for_line("and is submitted");
    let second = signing.keys()["keys"][1]["ds"].as_str().unwrap().to_owned();
    publish(3, &second);
    server.wait_for_line("and is confirmed");
    publish(4, &first);
    server.wait_for_line("has changed it back");
    assert_eq!(signing.states(), ["active", "submitted"]);
    let status = signing.site.avocet(&["status"]);
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains("has changed it back"), "{status}");
    signing.verify();
    publish(5, &second);
    server.wait_for_line("and is confirmed");
    assert_eq!(signing.states(), ["active", "confirmed"]);
}

#[test]
fn without_room_for_its_keys_a_zone_is_held_back() {
    let (upstream, site) = (Upstream::start(), Site::new());
    let file = site.directory.join("corp.zone");
    fs::write(&file, ZONE).unwrap();
    fs::create_dir_all(site.data()).unwrap();
    // A file where the directory of the keys should be.
    let blocked = site.data().join("keys");
    fs::write(&blocked, "").unwrap();
    let signing = Signing { site, server: None, file, upstream };
    signing.configure("");
    let _server = signing.site.start();
    let text = signing.site.avocet_text(&["zone", "list"]);
    assert!(text.contains("failed") && text.contains("cannot "), "{text}");
    fs::remove_file(&blocked).unwrap();
    signing.site.avocet_text(&["zone", "sign", "corp.example"]);
    signing.verify();
}
