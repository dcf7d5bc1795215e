//! A server that root starts for another account: this account gets no rights of root.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::{Server, Site};
use crate::upstream::Upstream;

const USER: &str = "user = \"nobody\"";

/// Returns whether the tests can start a server for another account. In CI, they must.
fn is_root() -> bool {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    assert!(is_root || std::env::var_os("CI").is_none(), "only root can act for accounts");
    is_root
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

#[test]
fn root_that_restores_follows_no_link_of_the_account_to_the_configuration() {
    if !is_root() {
        return;
    }
    let upstream = Upstream::start();
    let site = site_of_nobody(&upstream);
    let backup = backup_of(&site, &upstream, USER);
    let conf = site.directory.join("conf");
    fs::create_dir(&conf).unwrap();
    let (secret, link) = (secret(&site), conf.join("avocet.toml"));
    // As a configuration, the other file would be valid.
    let own = fs::read_to_string(site.file()).unwrap().replace("= 77", "= 78");
    fs::write(&secret, &own).unwrap();
    symlink(&secret, &link).unwrap();
    give(&conf);
    for (file, mode) in [(&conf, 0o755), (&conf, 0o777)] {
        if mode == 0o777 {
            // The directory is root's, and open for the account.
            std::os::unix::fs::chown(file, Some(0), Some(0)).unwrap();
        }
        fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
        let restored = Command::new(env!("CARGO_BIN_EXE_avocet"))
            .arg("restore")
            .args([&backup, Path::new("--config"), &link])
            .output()
            .unwrap();
        assert!(!restored.status.success(), "{restored:?}");
        assert_eq!(fs::read_to_string(&secret).unwrap(), own);
        let copies = Command::new("grep").arg("-rl").arg("= 78").arg(site.data()).output();
        assert!(copies.unwrap().stdout.is_empty());
    }
    // A file of the account is replaced, and stays the account's.
    fs::remove_file(&link).unwrap();
    fs::write(&link, own).unwrap();
    give(&conf);
    let waiting = site.data().join("restore.pending");
    if waiting.exists() {
        fs::remove_dir_all(waiting).unwrap();
    }
    let restored = Command::new(env!("CARGO_BIN_EXE_avocet"))
        .arg("restore")
        .args([&backup, Path::new("--config"), &link])
        .output()
        .unwrap();
    assert!(restored.status.success(), "{restored:?}");
    assert!(fs::read_to_string(&link).unwrap().contains("= 77"));
    assert_ne!(fs::metadata(&link).unwrap().uid(), 0);
}

/// As in a container whose data directory belongs to an account of the host.
#[test]
fn a_server_that_stays_root_restores_in_a_directory_of_another_account() {
    if !is_root() {
        return;
    }
    let upstream = Upstream::start();
    let site = Site::new();
    let backup = backup_of(&site, &upstream, "");
    fs::remove_file(site.data().join("negative-anchors.state")).unwrap();
    std::os::unix::fs::chown(site.data(), Some(65_534), Some(65_534)).unwrap();
    let server = site.start();
    assert!(!site.avocet_text(&["nta", "list"]).contains("broken.example"));
    site.avocet_text(&["restore", backup.to_str().unwrap()]);
    server.stop();
    let mut server = site.start();
    assert!(site.avocet_text(&["nta", "list"]).contains("broken.example"));
    server.read_lines();
    let mut command = site.serve();
    command.arg("--take-over");
    let new = Server::start(command);
    let (code, log) = server.wait();
    assert_eq!(code, Some(0), "{}", log.join("\n"));
    new.stop();
}
