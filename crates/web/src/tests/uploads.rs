//! Backups, and how they are restored.

use std::os::unix::fs::PermissionsExt;

use avocet_control::access::AccessScope;
use serde_json::json;

use super::site::{Sent, Site};

fn restore(site: &Site, content: &str) -> Sent {
    let token = site.token(&[AccessScope::BackupWrite, AccessScope::AccessWrite]);
    let sent = Sent::new("POST", "/api/v1/restore").token(&token).body(content.to_owned());
    sent.header("content-type", "application/jsonl")
}

#[test]
fn an_upload_becomes_a_private_file_that_the_server_checks() {
    let site = Site::new();
    // This body is larger than those of other requests may be.
    let content = "x".repeat(1 << 20);
    let reply = site.send(restore(&site, &content));
    assert_eq!((reply.status.as_u16(), &reply.json()["at"]), (200, &json!(7)));
    assert_eq!(reply.json()["version"], content);
    let file = site.directory.join("restore.upload");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    site.send(restore(&site, "no backup")).check(422, "invalid-value");
    let entries = site.audit.newest(10).unwrap();
    let results: Vec<_> =
        entries.iter().map(|entry| (entry.what.as_str(), entry.result.as_str())).collect();
    let what = "POST /api/v1/restore";
    assert_eq!(results, [(what, "invalid-value"), (what, "ok")]);
}

#[test]
fn an_upload_that_another_site_can_send_is_refused() {
    let site = Site::new();
    for kind in ["text/plain", "application/json", ""] {
        let sent = restore(&site, "x").header("content-type", kind);
        site.send(sent).check(415, "not-json");
    }
    let browser = site.log_in("ada");
    let forged = Sent::new("POST", "/api/v1/restore").header("cookie", &browser.cookie);
    site.send(forged.header("content-type", "application/jsonl")).check(403, "forged");
    assert!(!site.directory.join("restore.upload").exists());
}

#[test]
fn a_backup_has_the_form_of_the_file_and_is_recorded() {
    let site = Site::new();
    let token = site.token(&[AccessScope::BackupRead]);
    let reply = site.send(Sent::new("GET", "/api/v1/backup?query-log=true").token(&token));
    assert_eq!(reply.header("content-type"), "application/jsonl");
    let text = String::from_utf8(reply.body).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], r#"{"avocet-backup":1,"version":"1","at":7}"#);
    assert!(lines[1].contains(r#""done":true"#), "{text}");
    let entries = site.audit.newest(1).unwrap();
    assert_eq!((entries[0].what.as_str(), entries[0].by.as_str()), ("GET /api/v1/backup", "token"));
}
