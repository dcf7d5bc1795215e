//! Backup and restore of a whole server.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::server::Site;
use crate::upstream::Upstream;

/// A server with a user's token, a pause and an edited configuration.
fn furnished(upstream: &Upstream) -> (Site, String) {
    let site = Site::new();
    let policy = "[policy]\nblock-ttl-secs = 60 # a minute\n[[rule]]\nname = \"a\"\nwhen = \
                  'qname.under(\"game.example\")'\naction = \"block\"";
    site.configure(upstream.addr, "", policy);
    let server = site.start();
    site.avocet_text(&["config", "set", "policy.block-ttl-secs", "30"]);
    let create = [
        "token",
        "create",
        "job",
        "--scope",
        "backup:read",
        "--scope",
        "backup:write",
        "--scope",
        "access:write",
    ];
    let token = site.avocet_text(&create).trim_end().to_owned();
    site.avocet_text(&["pause", "--for", "1h"]);
    site.avocet_text(&["nta", "add", "broken.example", "--for", "1h"]);
    let path = site.directory.join("whole.backup");
    site.avocet_text(&["backup", path.to_str().unwrap()]);
    server.stop();
    (site, token)
}

fn wreck(site: &Site) {
    for name in ["access.json", "switches.json", "negative-anchors.state", "audit.jsonl"] {
        fs::remove_file(site.data().join(name)).unwrap();
    }
    fs::remove_dir_all(site.data().join("revisions")).unwrap();
    let text = fs::read_to_string(site.file()).unwrap();
    site.write(&text.replace("= 30 # a minute", "= 10"));
}

fn check(site: &Site, token: &str) {
    let head = format!("Host: 127.0.0.1\r\nAuthorization: Bearer {token}");
    let (status, body) = site.http(&format!("GET /api/v1/backup HTTP/1.1\r\n{head}\r\n\r\n"));
    assert!(status == 200 && body.contains("\"done\":true"), "{body}");
    let text = fs::read_to_string(site.file()).unwrap();
    assert!(text.contains("block-ttl-secs = 30 # a minute\n"), "{text}");
    assert!(site.avocet_text(&["policy", "status"]).contains("paused"));
    assert!(site.avocet_text(&["nta", "list"]).contains("broken.example"));
    let history: Value =
        serde_json::from_str(&site.avocet_text(&["config", "history", "--json"])).unwrap();
    assert_eq!(history["in-force"], 2);
    let audit = fs::read_to_string(site.data().join("audit.jsonl")).unwrap();
    assert!(audit.contains("config-change") && audit.contains("\"restore\""), "{audit}");
}

#[test]
fn a_restore_of_a_stopped_server_brings_everything_back() {
    let upstream = Upstream::start();
    let (site, token) = furnished(&upstream);
    let path = site.directory.join("whole.backup");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    wreck(&site);
    let path = path.to_str().unwrap();
    site.avocet_text(&["restore", "--check", path]);
    site.avocet_text(&["restore", path]);
    let _server = site.start();
    check(&site, &token);
}

#[test]
fn a_running_server_checks_a_backup_and_restores_it_at_its_next_start() {
    let upstream = Upstream::start();
    let (site, token) = furnished(&upstream);
    let path = site.directory.join("whole.backup");
    let whole = fs::read(&path).unwrap();
    wreck(&site);
    let server = site.start();
    let damaged = site.directory.join("damaged.backup");
    fs::write(&damaged, &whole[..whole.len() - 3]).unwrap();
    let refused = site.avocet(&["restore", damaged.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("cut off"), "{refused:?}");
    let text = site.avocet_text(&["restore", path.to_str().unwrap()]);
    assert!(text.contains("restart the server"), "{text}");
    assert!(!site.avocet_text(&["policy", "status"]).contains("paused"), "nothing changes yet");
    let status = || site.avocet_text(&["status"]);
    assert!(status().contains("the next start replaces"), "{}", status());
    let text = site.avocet_text(&["restore", "--cancel"]);
    assert!(text.contains("cancelled"), "{text}");
    assert!(!status().contains("the next start replaces"), "{}", status());
    assert!(!site.avocet(&["restore", "--cancel"]).status.success());
    site.avocet_text(&["restore", path.to_str().unwrap()]);
    server.stop();
    let _server = site.start();
    check(&site, &token);
}

#[test]
fn a_stopped_server_is_restored_only_while_no_other_process_owns_its_directory() {
    let upstream = Upstream::start();
    let (site, _) = furnished(&upstream);
    let path = site.directory.join("whole.backup");
    let lock = fs::File::options().write(true).open(site.data().join("owner.lock")).unwrap();
    // As a server that is starting.
    lock.lock().unwrap();
    for arguments in [["restore", path.to_str().unwrap()], ["restore", "--cancel"]] {
        let refused = site.avocet(&arguments);
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && text.contains("starts or ends"), "{text}");
    }
    assert!(!site.data().join("restore.upload").exists());
    lock.unlock().unwrap();
    site.avocet_text(&["restore", path.to_str().unwrap()]);
}

#[test]
fn a_backup_goes_over_http_and_comes_back() {
    let upstream = Upstream::start();
    let (site, token) = furnished(&upstream);
    let server = site.start();
    let head = format!("Host: 127.0.0.1\r\nAuthorization: Bearer {token}");
    let chunked = site.http(&format!("GET /api/v1/backup HTTP/1.1\r\n{head}\r\n\r\n")).1;
    let lines: Vec<&str> = chunked.lines().filter(|line| line.starts_with('{')).collect();
    let file = format!("{}\n", lines.join("\n"));
    let (status, body) = site.http(&format!(
        "POST /api/v1/restore HTTP/1.1\r\n{head}\r\nContent-Type: application/jsonl\r\n\
         Content-Length: {}\r\n\r\n{file}",
        file.len()
    ));
    assert_eq!(status, 200, "{body}");
    site.avocet_text(&["pause", "--end"]);
    server.stop();
    let server = site.start();
    check(&site, &token);
    let log = server.stop();
    assert!(log.iter().any(|line| line.contains("backup restored")), "{log:?}");
}
