//! The signed zone, which the tools of BIND create. The names and addresses are the same on every
//! machine; the keys are new each time.

use std::path::Path;
use std::process::Command;

use super::load::output;
use super::material::{HOT_NAMES, address, write_lines};
use super::process;

/// The apex of the zone.
const ZONE: &str = "signed.test";
/// The algorithm that most signed zones use.
const ALGORITHM: &str = "ECDSAP256SHA256";
/// The file of the zone. The configurations of the servers contain the same name.
const FILE: &str = "signed.test.zone";

/// Returns the name with this index, without its final dot.
pub(super) fn name(index: u32) -> String {
    format!("www{index}.{ZONE}")
}

/// Writes the signed zone into a directory.
///
/// # Errors
///
/// The tools are missing or fail.
pub(super) fn write(directory: &Path) -> Result<(), String> {
    let key = |arguments: &[&str]| {
        let mut command = tool("dnssec-keygen")?;
        command.args(["-q", "-a", ALGORITHM]).args(arguments).arg(ZONE).current_dir(directory);
        output(command).map(|name| name.trim().to_owned())
    };
    let keys = [key(&["-f", "KSK"])?, key(&[])?];
    let apex = [
        format!("$ORIGIN {ZONE}."),
        "$TTL 3600".to_owned(),
        "@ SOA ns admin 1 3600 600 86400 300".to_owned(),
        "@ NS ns".to_owned(),
        "ns A 192.0.2.53".to_owned(),
    ];
    let keys = keys.iter().map(|key| format!("$INCLUDE {key}.key"));
    let names = (0..HOT_NAMES).map(|index| format!("www{index} A {}", address(index)));
    write_lines(&directory.join("signed.test.plain"), apex.into_iter().chain(keys).chain(names))
        .map_err(|error| format!("the signed zone: {error}"))?;
    let mut command = tool("dnssec-signzone")?;
    // The options disable the check of the result, which takes as long as signing.
    command.args(["-P", "-o", ZONE, "-f", FILE, "signed.test.plain"]).current_dir(directory);
    output(command).map(drop)
}

fn tool(name: &str) -> Result<Command, String> {
    let path = process::find(name);
    let path = path.ok_or_else(|| format!("{name} of the package bind9-utils is not installed"))?;
    Ok(Command::new(path))
}
