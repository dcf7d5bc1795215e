//! Tests of `[[key]]`, and of the settings of `[[zone]]` that name keys.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU32, Ordering};

use super::documents::key_with_file;
use super::read_with;

/// Checks a key whose file has this text and this mode: its fault contains `expected`, or there is
/// no fault.
#[track_caller]
fn check(text: &str, mode: u32, rest: &str, expected: Option<&str>) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("avocet-config-key-{}-{number}", std::process::id());
    let file = std::env::temp_dir().join(name);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    let key = format!("[[key]]\nname = \"K.example\"\nsecret-file = \"{}\"\n", file.display());
    let read = read_with(&format!("{key}{rest}"), &[]);
    fs::remove_file(&file).unwrap();
    match (read, expected) {
        (Ok(_), None) => {}
        (Err(errors), Some(expected)) => {
            let message = errors.to_string();
            assert!(message.contains(expected), "{message}");
            assert!(text.trim().is_empty() || !message.contains(text.trim()), "{message}");
        }
        (Ok(_), Some(expected)) => panic!("no fault, expected {expected:?}"),
        (Err(errors), None) => panic!("{errors}"),
    }
}

const SECRET: &str = "c2VjcmV0IHNlY3JldA==\n";

#[test]
fn a_secret_is_private_and_base64_and_long_enough() {
    check(SECRET, 0o600, "", None);
    check(SECRET, 0o640, "", None);
    check(SECRET, 0o644, "", Some("others may read"));
    check("not base64!", 0o600, "", Some("expected a secret in base64"));
    check("c2hvcnQ=", 0o600, "", Some("the secret has 5 octets"));
    check("", 0o600, "", Some("the secret has 0 octets"));
}

#[test]
fn the_key_of_updates_for_proofs_exists() {
    let acme = |key: &str| {
        format!(
            "[acme]\nnames = [\"dns.example\"]\nagree-to-terms = true\nchallenge = \"dns-01\"\n\
             update-server = \"192.0.2.1\"\nupdate-key = \"{key}\"\n"
        )
    };
    check(SECRET, 0o600, &acme("k.Example."), None);
    check(SECRET, 0o600, &acme("other"), Some("no [[key]] has the name \"other\""));
    let server = acme("k.example").replace("192.0.2.1", "ns.example");
    check(SECRET, 0o600, &server, Some("expected a server such as \"192.0.2.1\""));

    let (key, file) = key_with_file("updates");
    let config = |rest: &str| read_with(&format!("{}{key}{rest}", acme("k")), &[]).unwrap();
    let shown = toml::to_string(&config("").effective()["acme"]).unwrap();
    for text in ["update-server = \"192.0.2.1:53\"", "update-key = \"k.\""] {
        assert!(shown.contains(text), "{shown}");
    }
    assert_eq!(config("").doubts, [""; 0]);
    let zone = "[[zone]]\nname = \"example\"\nfile = \"z\"\n";
    let doubts = config(zone).doubts;
    assert!(doubts.iter().any(|one| one.contains("`update-server` has no effect")), "{doubts:?}");
    fs::remove_file(file).unwrap();
}

#[test]
fn zones_name_keys_that_exist() {
    let zone = |rest: &str| format!("[[zone]]\nname = \"z\"\nfile = \"z\"\n{rest}\n");
    let allow = |item: &str| zone(&format!("allow-transfer = [\"{item}\"]"));
    for item in ["192.0.2.1", "192.0.2.0/24", "key k.example", "2001:db8::/32 key k.Example."] {
        check(SECRET, 0o600, &allow(item), None);
    }
    check(SECRET, 0o600, &allow("key other"), Some("no [[key]] has the name \"other.\""));
    check(SECRET, 0o600, &allow("192.0.2.1 or key k"), Some("\"key NAME\", or both"));
    let primaries = "primaries = [\"192.0.2.1\"]\n";
    check(SECRET, 0o600, &zone(&format!("{primaries}key = \"k.example\"")), None);
    let unknown = zone(&format!("{primaries}key = \"k\""));
    check(SECRET, 0o600, &unknown, Some("no [[key]] has the name \"k\""));
    check(SECRET, 0o600, "[[zone]]\nname = \"z\"\n", Some("`file` is missing"));
    check(SECRET, 0o600, &format!("[[zone]]\nname = \"z\"\n{primaries}"), None);
    let twice = format!("{}[[zone]]\nname = \"y\"\nfile = \"z\"\n{primaries}", zone(""));
    check(SECRET, 0o600, &twice, Some("another zone has the file"));
}

#[test]
fn a_key_with_a_fault_is_one_fault() {
    let uses = "[[zone]]\nname = \"z\"\nfile = \"z\"\nallow-transfer = [\"key k\"]\n\
                [[zone]]\nname = \"y\"\nfile = \"y\"\nprimaries = [\"192.0.2.1\"]\nkey = \"K.\"\n";
    for (file, expected) in [
        ("secret-file = \"/nonexistent/key\"\n", "/nonexistent/key cannot be read"),
        ("", "`secret-file` is missing"),
    ] {
        let errors = read_with(&format!("[[key]]\nname = \"K\"\n{file}{uses}"), &[]).unwrap_err();
        let message = errors.to_string();
        assert!(message.contains(expected) && message.lines().count() == 1, "{message}");
    }
}
