//! A server that root starts for another account: this account gets no rights of root.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::{Server, Site};
use crate::upstream::Upstream;

const USER: &str = "user = \"nobody\"";

/// Returns whether the tests can start a server for another account.
fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

fn give(path: &Path) {
    let given = Command::new("chown").args(["-Rh", "nobody"]).arg(path).status();
    assert!(given.unwrap().success());
}

/// A stopped server with the account `nobody`. Its data directory belongs to the account, and the
/// configuration to root.
fn site_of_nobody(upstream: &Upstream) -> Site {
    let site = Site::new();
    site.configure(upstream.addr, USER, "");
    fs::create_dir(site.data()).unwrap();
    give(&site.data());
    site
}

/// Writes a file that only root may read.
fn secret(site: &Site) -> PathBuf {
    let path = site.directory.join("secret");
    fs::write(&path, "secret").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path
}

/// Starts a server, which must refuse to serve, and returns its last words.
fn refused(site: &Site) -> String {
    let (code, log) = Server::spawn(site.serve()).wait();
    assert_ne!(code, Some(0));
    log.join("\n")
}

/// Makes a backup of a server with these settings, and stops the server.
fn backup_of(site: &Site, upstream: &Upstream, settings: &str) -> PathBuf {
    site.configure(upstream.addr, settings, "[policy]\nblock-ttl-secs = 77\n");
    let server = site.start();
    site.avocet_text(&["nta", "add", "broken.example", "--for", "1h"]);
    let path = site.directory.join("whole.backup");
    site.avocet_text(&["backup", path.to_str().unwrap()]);
    server.stop();
    path
}

#[test]
fn a_link_in_the_data_directory_gives_no_other_file_to_the_account() {
    if !is_root() {
        return;
    }
    let upstream = Upstream::start();
    let site = site_of_nobody(&upstream);
    let (secret, missing) = (secret(&site), site.directory.join("missing"));
    let lock = site.data().join("owner.lock");
    for target in [&secret, &missing] {
        symlink(target, &lock).unwrap();
        let log = refused(&site);
        assert!(log.contains("owner.lock"), "{log}");
        fs::remove_file(&lock).unwrap();
    }
    assert_eq!(fs::metadata(&secret).unwrap().uid(), 0);
    assert!(!missing.exists());
    let server = site.start();
    assert_ne!(fs::metadata(&lock).unwrap().uid(), 0);
    server.stop();
}

#[test]
fn a_waiting_restore_replaces_no_configuration_that_the_account_may_not_write() {
    if !is_root() {
        return;
    }
    let upstream = Upstream::start();
    for settings in ["", USER] {
        let site = site_of_nobody(&upstream);
        let backup = backup_of(&site, &upstream, settings);
        site.configure(upstream.addr, USER, "");
        let own = fs::read_to_string(site.file()).unwrap();
        fs::remove_dir_all(site.data()).unwrap();
        let pending = site.data().join("restore.pending");
        fs::create_dir_all(&pending).unwrap();
        fs::copy(backup, pending.join("backup.jsonl")).unwrap();
        give(&site.data());
        let server = site.start();
        let log = server.seen().join("\n");
        assert!(log.contains("the backup that waits is not restored"), "{settings}: {log}");
        assert!(log.contains("run `avocet restore` as root"), "{settings}: {log}");
        assert_eq!(fs::read_to_string(site.file()).unwrap(), own);
        assert!(!site.avocet_text(&["nta", "list"]).contains("broken.example"));
        let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
        assert!(!status.contains("Uid:\t0"), "{settings}: {status}");
        server.stop();
    }
}

#[test]
fn root_restores_a_stopped_server_of_another_account() {
    if !is_root() {
        return;
    }
    let upstream = Upstream::start();
    let site = site_of_nobody(&upstream);
    fs::create_dir(site.data().join("acme")).unwrap();
    fs::write(site.data().join("acme/account.json"), "{}").unwrap();
    give(&site.data());
    let backup = backup_of(&site, &upstream, USER);
    let backup = backup.to_str().unwrap();
    fs::set_permissions(backup, Permissions::from_mode(0o600)).unwrap();
    site.configure(upstream.addr, USER, "");
    fs::remove_file(site.data().join("negative-anchors.state")).unwrap();
    // A link to a file that the account may not read is not followed.
    let link = site.data().join("acme/state.json");
    symlink(secret(&site), &link).unwrap();
    let refused = site.avocet(&["restore", backup]);
    assert!(!refused.status.success(), "{refused:?}");
    let found = Command::new("grep").arg("-rl").arg("secret").arg(site.data()).output().unwrap();
    assert!(found.stdout.is_empty(), "{found:?}");
    fs::remove_file(&link).unwrap();
    // The restore has begun, and the next start completes it.
    let server = site.start();
    assert!(site.avocet_text(&["nta", "list"]).contains("broken.example"));
    site.avocet_text(&["nta", "remove", "broken.example"]);
    server.stop();
    site.configure(upstream.addr, USER, "");
    site.avocet_text(&["restore", backup]);
    assert!(fs::read_to_string(site.file()).unwrap().contains("= 77"));
    assert_eq!(fs::metadata(site.file()).unwrap().uid(), 0);
    for name in ["negative-anchors.state", "audit.jsonl", "acme/account.json", "owner.lock"] {
        assert_ne!(fs::metadata(site.data().join(name)).unwrap().uid(), 0, "{name}");
    }
    let _server = site.start();
    assert!(site.avocet_text(&["nta", "list"]).contains("broken.example"));
}
