//! Required packages, and the peers that are omitted because their packages are missing.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::load::output;
use super::options::Options;
use super::peer::{EARLIER, Peer};
use super::{age, process};

/// Programs that every bench needs, with their Debian packages. They are the upstream, the
/// generator and the tool for core pinning.
const REQUIRED: &[(&str, &str)] =
    &[("nsd", "nsd"), ("dnsperf", "dnsperf"), ("taskset", "util-linux"), ("setpriv", "util-linux")];

/// A peer that is not measured, with the reason.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LeftOut {
    pub(super) peer: Peer,
    pub(super) reason: String,
}

/// Splits the peers into those that can be started and those that cannot.
///
/// Prints the missing packages on one line.
///
/// # Errors
///
/// A program that every bench needs is missing.
pub(super) fn check(
    peers: &[Peer],
    options: &Options,
) -> Result<(Vec<Peer>, Vec<LeftOut>), String> {
    let missing = missing(peers);
    let hint = install_command(&missing);
    let essential: Vec<_> =
        REQUIRED.iter().filter(|(program, _)| process::find(program).is_none()).collect();
    if let Some((program, _)) = essential.first() {
        return Err(format!("{program} is needed and not installed: {hint}"));
    }
    if !missing.is_empty() {
        eprintln!(
            "not installed: {}; for the whole table: {hint}, or --install",
            missing.join(" ")
        );
    }
    let (mut found, mut left_out) = (Vec::new(), Vec::new());
    for peer in peers.iter().copied() {
        let reason = match peer {
            Peer::CoreDns | Peer::Dnsproxy => match peer.program().filter(|path| path.exists()) {
                Some(program) if !options.build => refuse_older_go(&program, peer.name()).err(),
                _ => build_go(peer.name()).err(),
            },
            Peer::Earlier if peer.program().is_none() => Some(format!("{EARLIER} names no binary")),
            _ => peer
                .package()
                .filter(|(program, _)| process::find(program).is_none())
                .map(|(_, package)| format!("the package {package} is not installed")),
        };
        match reason {
            None => found.push(peer),
            Some(reason) => {
                eprintln!("{}: left out: {reason}", peer.name());
                left_out.push(LeftOut { peer, reason });
            }
        }
    }
    Ok((found, left_out))
}

/// Checks that programs are installed, or installs their packages if the options say so.
///
/// # Errors
///
/// Programs are missing. The error names them.
pub(super) fn require(programs: &[(&str, &'static str)], options: &Options) -> Result<(), String> {
    let missing = || -> Vec<&'static str> {
        let absent = programs.iter().filter(|(program, _)| process::find(program).is_none());
        absent.map(|(_, package)| *package).collect()
    };
    if options.install {
        install_all(&missing())?;
    }
    match missing() {
        absent if absent.is_empty() => Ok(()),
        absent => Err(format!("needed and not installed: {}", install_command(&absent))),
    }
}

/// Returns the version of an installed Debian package.
pub(super) fn version(package: &str) -> Option<String> {
    let mut command = Command::new("dpkg-query");
    command.args(["-W", "-f", "${Version}", package]);
    output(command).ok()
}

/// Returns the month in which Debian first had the upstream version of an installed package, from
/// the package's changelog.
pub(super) fn since(package: &str, version: &str) -> Option<String> {
    let mut command = Command::new("zcat");
    command.arg(format!("/usr/share/doc/{package}/changelog.Debian.gz"));
    first_month(&output(command).ok()?, version)
}

/// Returns the month of the oldest entry with the same upstream version, such as `2022-11`.
fn first_month(changelog: &str, version: &str) -> Option<String> {
    let upstream = |version: &str| {
        let version = version.split_once(':').map_or(version, |(_, version)| version);
        version.rsplit_once('-').map_or(version, |(upstream, _)| upstream).to_owned()
    };
    let wanted = upstream(version);
    let mut is_same = false;
    let mut month = None;
    for line in changelog.lines() {
        if let Some(entry) = line.split_once(" (").filter(|_| !line.starts_with(' ')) {
            is_same = upstream(entry.1.split(')').next()?) == wanted;
        } else if let Some((_, date)) = line.strip_prefix(" -- ").and_then(|l| l.split_once(">  "))
            && is_same
        {
            month = Some(date);
        }
    }
    // An example of a date: Tue, 15 Nov 2022 20:32:51 +0100.
    let mut words = month?.split_whitespace().skip(2);
    let (name, year) = (words.next()?, words.next()?);
    let number = MONTHS.iter().position(|month| *month == name)? + 1;
    Some(format!("{year}-{number:02}"))
}

const MONTHS: &[&str] =
    &["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Returns the Debian packages of missing programs.
fn missing(peers: &[Peer]) -> Vec<&'static str> {
    let needed = REQUIRED.iter().copied().chain(peers.iter().filter_map(|peer| peer.package()));
    let mut packages: Vec<_> = needed
        .filter(|(program, _)| process::find(program).is_none())
        .map(|(_, package)| package)
        .collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn install_command(packages: &[&str]) -> String {
    format!("apt-get install --no-install-recommends {}", packages.join(" "))
}

/// Installs the missing packages without starting their servers.
pub(super) fn install(peers: &[Peer]) -> Result<(), String> {
    install_all(&missing(peers))
}

fn install_all(packages: &[&str]) -> Result<(), String> {
    if packages.is_empty() {
        return Ok(());
    }
    if process::find("apt-get").is_none() {
        return Err(format!("there is no apt-get here to install {}", packages.join(" ")));
    }
    eprintln!("installing {}", packages.join(" "));
    let _quiet = StartPolicy::forbid()?;
    let mut update = Command::new("apt-get");
    update.args(["update", "-q"]);
    if let Err(error) = output(update) {
        eprintln!("the package lists could not be brought up to date: {error}");
    }
    // Packages are installed one by one, so that a package that the distribution lacks does not
    // prevent the installation of the others.
    for package in packages {
        let mut install = Command::new("apt-get");
        install.args(["install", "-q", "-y", "--no-install-recommends", *package]);
        install.env("DEBIAN_FRONTEND", "noninteractive");
        if let Err(error) = output(install) {
            eprintln!("{package} could not be installed: {error}");
        }
    }
    Ok(())
}

/// A file that prevents Debian's packages from starting their servers, which would take port 53.
/// Dropping the value removes the file.
struct StartPolicy {
    is_ours: bool,
}

const POLICY: &str = "/usr/sbin/policy-rc.d";

impl StartPolicy {
    fn forbid() -> Result<Self, String> {
        if Path::new(POLICY).exists() {
            return Ok(Self { is_ours: false });
        }
        let said = |error| format!("{POLICY}: {error}; installing needs root");
        fs::write(POLICY, "#!/bin/sh\nexit 101\n").map_err(said)?;
        let policy = Self { is_ours: true };
        let mut chmod = Command::new("chmod");
        chmod.args(["755", POLICY]);
        output(chmod)?;
        Ok(policy)
    }
}

impl Drop for StartPolicy {
    fn drop(&mut self) {
        if self.is_ours
            && let Err(error) = fs::remove_file(POLICY)
        {
            eprintln!("{POLICY} could not be removed, so that packages start no servers: {error}");
        }
    }
}

/// Refuses a Go program that is older than the module in the directory of its peer.
fn refuse_older_go(program: &Path, peer: &str) -> Result<(), String> {
    let of_module = |name: &str| format!("bench/peers/{peer}/{name}");
    let sources = ["*.go", "go.mod", "go.sum"].map(of_module);
    age::refuse_older(program, &sources.each_ref().map(String::as_str))
}

/// Builds the Go program in the directory of a peer.
///
/// # Errors
///
/// The program cannot be built. The error says why.
fn build_go(peer: &str) -> Result<(), String> {
    let go = process::find("go").ok_or("Go is not installed")?;
    eprintln!("building {peer}: some minutes the first time");
    let program = process::target_directory().join("peers").join(peer);
    let mut build = Command::new(go);
    build.args(["build", "-trimpath", "-mod=readonly", "-o"]).arg(program).arg(".");
    build.current_dir(crate::root().join("bench/peers").join(peer));
    let built = output(build).map(drop);
    built.map_err(|error| {
        let last = error.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        format!("it could not be built: {last}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_of_a_version_is_that_of_its_oldest_entry() {
        let changelog = "unbound (1.17.1-2+deb12u4) bookworm; urgency=high\n\n  * Fix\n\n -- A \
                         <a@b>  Sun, 30 Nov 2025 13:33:55 +0300\n\nunbound (1.17.1-1) unstable\n\n \
                         -- A <a@b>  Thu, 12 Jan 2023 18:28:54 +0300\n\nunbound (1.17.0-1) \
                         unstable\n\n -- A <a@b>  Thu, 13 Oct 2022 14:01:15 +0300\n";
        let of = |version| first_month(changelog, version);
        assert_eq!(of("1.17.1-2+deb12u4").as_deref(), Some("2023-01"));
        assert_eq!(of("1:1.17.0-3").as_deref(), Some("2022-10"));
        assert_eq!(of("2.0-1"), None);
    }

    #[test]
    fn the_command_to_install_names_all_packages() {
        assert_eq!(
            install_command(&["knot", "nsd"]),
            "apt-get install --no-install-recommends knot nsd"
        );
    }
}
