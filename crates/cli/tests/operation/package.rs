//! `deploy/package` makes a Debian package and an image that hold all that the server needs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::server::Site;

/// The programs that `deploy/package` needs; a machine without them makes no packages.
const TOOLS: [&str; 3] = ["dpkg-deb", "strip", "ldd"];

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/package")
}

fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs a command that must succeed and returns what it prints.
fn run(command: &mut Command) -> String {
    let done = output(command);
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn tools_are_here() -> bool {
    let missing = TOOLS.iter().find(|tool| Command::new(tool).arg("--version").output().is_err());
    if let Some(tool) = missing {
        eprintln!("not run: there is no {tool}");
    }
    missing.is_none()
}

#[test]
fn the_package_and_the_image_hold_what_the_server_needs() {
    if !tools_are_here() {
        return;
    }
    let site = Site::new();
    let made = site.directory.join("made");
    let mut command = Command::new(script());
    command.args(["--binary", env!("CARGO_BIN_EXE_avocet")]).arg(&made);
    // Compression takes half a minute for a binary that is not optimised.
    let printed = run(command.env("DPKG_DEB_COMPRESSOR_TYPE", "none"));
    let package = PathBuf::from(printed.lines().next().unwrap());
    let root = site.directory.join("root");
    run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&root));

    let binary = root.join("usr/bin/avocet");
    let configuration = root.join("etc/avocet/avocet.toml");
    let checked = run(Command::new(&binary).arg("check").arg(&configuration));
    assert!(checked.contains("no errors"), "{checked}");
    let unit = fs::read_to_string(root.join("usr/lib/systemd/system/avocet.service")).unwrap();
    let started = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/")).unwrap();
    let words: Vec<&str> = started.split(' ').collect();
    assert!(root.join(words[0]).exists(), "{started}");
    assert!(root.join(words[3].trim_start_matches('/')).exists(), "{started}");
    for file in [
        "usr/share/man/man1/avocet-why.1.gz",
        "usr/share/bash-completion/completions/avocet",
        "usr/share/doc/avocet/manual/operation.md",
        "usr/share/doc/avocet/copyright",
    ] {
        assert!(root.join(file).exists(), "{file}");
    }
    let control = run(Command::new("dpkg-deb").arg("-f").arg(&package));
    assert!(control.contains("Depends: libc6 (>= 2."), "{control}");
    let conffiles = run(Command::new("dpkg-deb").arg("-I").arg(&package).arg("conffiles"));
    assert_eq!(conffiles, "/etc/avocet/avocet.toml\n");
    let writable = fs::metadata(&binary).unwrap().permissions().mode();
    assert_eq!(writable & 0o7777, 0o755);

    the_image_is_complete(&made.join("image"));
    fs::remove_dir_all(&site.directory).unwrap();
}

/// Runs the server of the image with the image as the root of its file system.
fn the_image_is_complete(image: &Path) {
    let text = fs::read_to_string(image.join("Containerfile")).unwrap();
    assert!(text.contains("FROM scratch"), "{text}");
    let mut command = Command::new("chroot");
    command.arg(image.join("root")).args(["/usr/bin/avocet", "check", "/etc/avocet/avocet.toml"]);
    let done = output(&mut command);
    let complaint = String::from_utf8_lossy(&done.stderr);
    if complaint.contains("Operation not permitted") {
        eprintln!("not run: only root may change the root directory");
        return;
    }
    assert!(done.status.success(), "{complaint}");
    assert!(String::from_utf8_lossy(&done.stdout).contains("no errors"), "{complaint}");
}

#[test]
fn a_package_without_a_binary_is_refused_with_what_to_do() {
    let site = Site::new();
    let done = output(
        Command::new(script()).args(["--binary", "/nonexistent"]).arg(site.directory.join("made")),
    );
    assert!(!done.status.success());
    let complaint = String::from_utf8_lossy(&done.stderr);
    assert!(complaint.contains("cargo build --profile dist -p avocet"), "{complaint}");
    fs::remove_dir_all(&site.directory).unwrap();
}
