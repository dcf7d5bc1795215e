//! Digests of hosted zones (ZONEMD, RFC 8976): files and transfers.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::server::Site;
use crate::transfers::send_notify;
use crate::upstream::Upstream;

/// The zone of RFC 8976 appendix A.1 under another name has another digest: this is that of the
/// records below.
const HEAD: &str = "$ORIGIN example.\n$TTL 86400\n@ SOA ns1 admin 2018031900 1800 900 604800 86400\n\
                    @ NS ns1\n@ NS ns2\nns1 3600 A 203.0.113.63\nns2 3600 AAAA 2001:db8::63\n";
const DIGEST: &str = "@ ZONEMD 2018031900 1 1 c68090d90a7aed716bc459f9340e3d7c1370d4d24b7e2fc3a1ddc0b9a8\
                      7153b9a9713b3c9ae5cc27777f98b8e730044c\n";

fn table(settings: &str) -> String {
    format!("[[zone]]\nname = \"example\"\nsettle-secs = 3600\n{settings}\n")
}

#[test]
fn a_file_with_another_digest_changes_nothing() {
    let (upstream, site) = (Upstream::start(), Site::new());
    let publish = |text: &str| {
        fs::write(site.directory.join("zone"), text).unwrap();
        site.avocet(&["zone", "reload", "example"])
    };
    let whole = format!("{HEAD}{DIGEST}");
    fs::write(site.directory.join("zone"), &whole).unwrap();
    site.configure(upstream.addr, "", &table("file = \"zone\"\nzonemd = \"require\""));
    let _server = site.start();
    assert_eq!(site.ask("ns1.example").0, [203, 0, 113, 63]);
    let check = |text: &str, reason: &str| {
        let output = publish(text);
        assert!(!output.status.success());
        let list = site.avocet_text(&["zone", "list"]);
        assert!(list.contains(reason), "{list}");
        assert!(site.avocet_text(&["status"]).contains(reason));
        assert_eq!(site.ask("ns1.example").0, [203, 0, 113, 63]);
    };
    check(&whole.replace("113.63", "113.64"), "its ZONEMD digest does not match its records");
    check(&whole.replacen("2018031900", "2018031901", 1), "its ZONEMD record has another serial");
    check(HEAD, "it has no ZONEMD record with SHA-384 or SHA-512");
    assert!(publish(&whole).status.success());
    // A version that a restart would refuse is not published.
    let edit = ["zone", "set", "example", "new", "A", "192.0.2.1"];
    let output = site.avocet(&edit);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && text.contains("or write the file with its new digest"),
        "{text}"
    );
    assert_eq!(fs::read_to_string(site.directory.join("zone")).unwrap(), whole);

    // Without a digest, or with one of an unknown hash, `verify` has nothing to compare.
    site.configure(upstream.addr, "", &table("file = \"zone\"\nzonemd = \"verify\""));
    site.avocet_text(&["reload"]);
    assert!(publish(HEAD).status.success());
    assert!(publish(&format!("{HEAD}{}", DIGEST.replace(" 1 1 ", " 1 240 "))).status.success());
    check(&whole.replace("113.63", "113.64"), "does not match");
}

#[test]
fn a_transfer_with_another_digest_changes_nothing() {
    let (upstream, site, primary) = (Upstream::start(), Site::new(), Site::new());
    let whole = format!("{HEAD}{DIGEST}");
    fs::write(primary.directory.join("zone"), &whole).unwrap();
    let allow = "allow-transfer = [\"127.0.0.0/8\"]\nfile = \"zone\"";
    primary.configure(upstream.addr, "", &table(allow));
    let _primary = primary.start();
    let zone = format!("primaries = [\"{}\"]\nzonemd = \"require\"", primary.dns);
    site.configure(upstream.addr, "", &table(&zone));
    let mut server = site.start();
    server.wait_for_line("zone example. transferred");
    assert_eq!(site.ask("ns1.example").0, [203, 0, 113, 63]);
    // The version is accepted neither as changes nor as a whole zone.
    let other = whole.replace("2018031900", "2018031901").replace("113.63", "113.64");
    fs::write(primary.directory.join("zone"), other).unwrap();
    primary.avocet_text(&["zone", "reload", "example"]);
    assert_eq!(send_notify(site.dns, "example", "127.0.0.1"), 0);
    server
        .wait_for_line("the zone would have errors: its ZONEMD digest does not match its records");
    server.wait_for_line("the zone has errors: its ZONEMD digest does not match its records");
    assert_eq!(site.ask("ns1.example").0, [203, 0, 113, 63]);
}

fn avocet() -> Command {
    Command::new(env!("CARGO_BIN_EXE_avocet"))
}

/// Checks a file. Returns whether it is good, and the output.
fn check(file: &Path, arguments: &[&str]) -> (bool, String) {
    let ran = avocet().args(["zone", "check"]).args(arguments).arg(file).output().unwrap();
    let said = [ran.stdout, ran.stderr].concat();
    (ran.status.success(), String::from_utf8_lossy(&said).into_owned())
}

/// Checks an exported zone with signatures with the program of ldns, if it is here.
fn verify_by_ldns(file: &Path) {
    let Ok(ran) = Command::new("ldns-verify-zone").arg("-ZZ").arg(file).output() else {
        assert!(std::env::var_os("CI").is_none(), "ldns-verify-zone is missing");
        return;
    };
    let said = [ran.stdout, ran.stderr].concat();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&said));
}

#[test]
fn zones_get_digests_that_secondaries_and_others_verify() {
    let (upstream, site, primary) = (Upstream::start(), Site::new(), Site::new());
    for (hash, settings) in [
        ("sha384", "sign = true"),
        ("sha512", "sign = true\nzonemd-hash = \"sha512\""),
        ("sha384", "zonemd-hash = \"sha384\""),
    ] {
        fs::write(primary.directory.join("zone"), HEAD).unwrap();
        let own = format!("file = \"zone\"\nallow-transfer = [\"127.0.0.0/8\"]\n{settings}");
        primary.configure(upstream.addr, "", &table(&own));
        let server = primary.start();
        let text = primary.avocet_text(&["zone", "export", "example"]);
        let number = if hash == "sha384" { " 1 1 " } else { " 1 2 " };
        assert!(text.lines().any(|it| it.contains("ZONEMD") && it.contains(number)), "{text}");
        fs::write(primary.directory.join("example"), &text).unwrap();
        let exported = primary.directory.join("example");
        let (is_good, said) = check(&exported, &["--zonemd", "require"]);
        assert!(is_good && said.contains("with its digest"), "{said}");
        if settings.contains("sign") {
            verify_by_ldns(&exported);
        }

        // The digest does not count as a difference from the file.
        let file = primary.directory.join("zone");
        primary.avocet_text(&["zone", "diff", "example", file.to_str().unwrap()]);

        // Each version has its digest, also one that is made of changes.
        let zone = format!("primaries = [\"{}\"]\nzonemd = \"require\"", primary.dns);
        site.configure(upstream.addr, "", &table(&zone));
        let mut secondary = site.start();
        secondary.wait_for_line("zone example. transferred");
        primary.avocet_text(&["zone", "set", "example", "new", "A", "192.0.2.7"]);
        assert_eq!(send_notify(site.dns, "example", "127.0.0.1"), 0);
        secondary.wait_for_line("zone example. transferred");
        assert_eq!(site.ask("new.example").0, [192, 0, 2, 7]);
        // Nobody can change the record.
        let data = format!("1 1 1 {}", "00".repeat(48));
        let edit = ["zone", "set", "example", "@", "ZONEMD", &data];
        let said = String::from_utf8_lossy(&primary.avocet(&edit).stderr).into_owned();
        assert!(said.contains("this server makes these records itself"), "{said}");
        drop((server, secondary));
        for site in [&site, &primary] {
            fs::remove_dir_all(site.data()).unwrap();
        }
    }
}

#[test]
fn a_check_compares_zones_with_their_digests() {
    let (upstream, site) = (Upstream::start(), Site::new());
    let good = format!("{HEAD}{DIGEST}");
    let reason = "its ZONEMD digest does not match its records";
    let expect = |text: &str, arguments: &[&str], expected: (bool, &str)| {
        let file = site.directory.join("example");
        fs::write(&file, text).unwrap();
        let (is_good, said) = check(&file, arguments);
        assert!(is_good == expected.0 && said.contains(expected.1), "{said}");
    };
    expect(&good, &["--zonemd", "require"], (true, "6 records, with its digest, no errors"));
    expect(&good, &["--json"], (true, "\"digest\": true"));
    expect(HEAD, &["--zonemd", "verify"], (true, "5 records, no errors"));
    expect(HEAD, &["--zonemd", "require"], (false, "it has no ZONEMD record"));
    let other = good.replace("113.63", "113.64");
    expect(&other, &[], (true, &format!("example: warning: {reason}")));
    expect(&other, &["--zonemd", "verify"], (false, &format!("example: {reason}")));
    expect(&other, &["--json"], (true, "\"digest\": false"));

    // The server would refuse it, too.
    for (policy, is_refused) in [("ignore", false), ("verify", true)] {
        let zone = table(&format!("file = \"example\"\nzonemd = \"{policy}\""));
        site.configure(upstream.addr, "", &zone);
        let ran = avocet().arg("check").arg(site.file()).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.success(), !is_refused, "{said}");
        assert_eq!(said.contains(reason), is_refused, "{said}");
    }
}
