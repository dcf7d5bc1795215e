//! Zone files. Delegations are added, `dnssec-signzone` signs from the leaves up, and then the
//! faults are added.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::content::Content;
use super::fault;
use super::keys::{Pool, ZoneKeys};
use super::plan::Internet;
use super::zone::{Anchor, Denial, Fault, KeySet, Signing, Zone};
use crate::bench::output;

/// Number of programs that sign at the same time.
const SIGNERS: usize = 2;
/// The validity period of a signature, or the time until it begins.
const MONTH_SECS: &str = "+2592000";

/// Writes each zone to the path given by `served`. Returns the trust anchors of the root.
pub(super) fn write(
    internet: &Internet,
    contents: &[Content],
    directory: &Path,
) -> Result<Vec<String>, String> {
    let pool_directory = directory.join("keys");
    create(&pool_directory)?;
    create(&directory.join("served"))?;
    let writer = Writer {
        internet,
        contents,
        directory,
        pool: Pool::generate(&pool_directory)?,
        anchors: Mutex::default(),
    };
    let mut depths: Vec<_> =
        (0..internet.zones.len()).map(|zone| (internet.depth(zone), zone)).collect();
    depths.sort_unstable_by(|left, right| right.cmp(left));
    for level in depths.chunk_by(|left, right| left.0 == right.0) {
        writer.write_level(level)?;
    }
    let anchors = writer.anchors.into_inner().unwrap_or_default();
    let root = anchors.into_iter().filter(|(zone, _)| *zone == 0);
    Ok(root.flat_map(|(_, records)| records).collect())
}

/// Returns the path of the zone file that is served.
pub(super) fn served(directory: &Path, zone: usize) -> PathBuf {
    directory.join("served").join(format!("{zone}.zone"))
}

fn create(directory: &Path) -> Result<(), String> {
    fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))
}

struct Writer<'a> {
    internet: &'a Internet,
    contents: &'a [Content],
    directory: &'a Path,
    pool: Pool,
    /// The DS records by the index of the child zone.
    anchors: Mutex<Vec<(usize, Vec<String>)>>,
}

impl Writer<'_> {
    /// Writes the zones of one depth. Their children must have been written before.
    fn write_level(&self, level: &[(usize, usize)]) -> Result<(), String> {
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some((_, zone)) = level.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.write_zone(*zone)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let signers: Vec<_> = (0..SIGNERS).map(|_| scope.spawn(work)).collect();
            signers
                .into_iter()
                .try_for_each(|signer| signer.join().map_err(|_| "a signer panicked".to_owned())?)
        })
    }

    fn write_zone(&self, number: usize) -> Result<(), String> {
        let zone = &self.internet.zones[number];
        let text = format!("{}{}", self.contents[number].text, self.delegations(number));
        let Some(signing) = zone.family.signing else {
            return write_file(&served(self.directory, number), &text);
        };
        let directory = self.directory.join(format!("signed{number}"));
        create(&directory)?;
        let keys = self.pool.write(&zone.name, signing, &directory)?;
        write_file(&directory.join("plain"), &format!("{text}{}", keys.records))?;
        sign(zone, signing, &keys, &directory)?;
        let signed = read_file(&directory.join("signed"))?;
        write_file(&served(self.directory, number), &fault::apply(zone, &signed))?;
        let anchors = anchors(zone, &keys, &directory)?;
        if let Ok(mut all) = self.anchors.lock() {
            all.push((number, anchors));
        }
        Ok(())
    }

    fn delegations(&self, parent: usize) -> String {
        let mut text = String::new();
        let above = &self.internet.zones[parent];
        for child in self.internet.children(parent) {
            for server in &child.servers {
                text.push_str(&format!("{} NS {}\n", child.name, server.host));
                if server.has_glue && above.contains(&server.host) {
                    text.push_str(&format!("{} A {}\n", server.host, server.address));
                }
            }
            if above.family.signing.is_some() {
                text.push_str(&self.anchors_of(child));
            }
        }
        text
    }

    fn anchors_of(&self, child: &Zone) -> String {
        let Ok(anchors) = self.anchors.lock() else { return String::new() };
        let of_child =
            anchors.iter().filter(|(zone, _)| self.internet.zones[*zone].name == child.name);
        of_child.flat_map(|(_, records)| records).map(|record| format!("{record}\n")).collect()
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn read_file(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn sign(zone: &Zone, signing: Signing, keys: &ZoneKeys, directory: &Path) -> Result<(), String> {
    let mut command = Command::new("dnssec-signzone");
    command.args(["-P", "-q", "-O", "full", "-n", "1", "-o", &zone.name]).arg("-d").arg(directory);
    command.arg("-f").arg(directory.join("signed"));
    match signing.denial {
        Denial::Nsec => {}
        Denial::Nsec3 { salt, iterations } => {
            command.args(["-3", salt, "-H", &iterations.to_string()]);
        }
        Denial::OptOut => {
            command.args(["-3", "-", "-H", "0", "-A"]);
        }
    }
    match zone.family.fault {
        Fault::Expired => command.args(["-s", "20200101000000", "-e", "20200201000000"]),
        Fault::NotYetValid => command.args(["-s", MONTH_SECS, "-e", MONTH_SECS]),
        _ => &mut command,
    };
    command.arg(if signing.keys == KeySet::Single { "-z" } else { "-x" });
    for key in &keys.key_signing {
        command.arg("-k").arg(key);
    }
    command.arg(directory.join("plain")).args(&keys.zone_signing);
    output(command).map(drop)
}

/// Returns the DS records of a zone for its parent.
fn anchors(zone: &Zone, keys: &ZoneKeys, directory: &Path) -> Result<Vec<String>, String> {
    let digest = |key: Option<&PathBuf>, digest: &str| {
        let mut command = Command::new("dnssec-dsfromkey");
        command.args(["-a", digest]).args(key);
        output(command).map(|text| text.trim().to_owned())
    };
    let first = keys.key_signing.first();
    Ok(match zone.family.anchor {
        Anchor::Missing => vec![],
        Anchor::Matching
            if zone.family.signing.is_some_and(|signing| signing.keys == KeySet::Revoked) =>
        {
            vec![digest(first, "SHA-256")?]
        }
        Anchor::Matching => {
            let file = directory.join(format!("dsset-{}", zone.name));
            read_file(&file)?.lines().map(str::to_owned).collect()
        }
        Anchor::WrongKey => vec![digest(keys.absent.as_ref(), "SHA-256")?],
        Anchor::Double => vec![digest(first, "SHA-256")?, digest(keys.absent.as_ref(), "SHA-256")?],
        Anchor::Sha1 => vec![digest(first, "SHA-1")?],
        Anchor::Sha384 => vec![digest(first, "SHA-384")?],
        Anchor::WrongSha256 => {
            let wrong = reverse_last_word(&digest(first, "SHA-256")?);
            vec![digest(first, "SHA-1")?, wrong]
        }
        Anchor::UnknownDigest => vec![digest(first, "SHA-256")?.replace(" 13 2 ", " 13 250 ")],
        Anchor::UnknownAlgorithm => vec![digest(first, "SHA-256")?.replace(" 13 2 ", " 200 2 ")],
    })
}

/// Replaces the digest by a wrong one of the right length.
fn reverse_last_word(record: &str) -> String {
    let (start, digest) = record.rsplit_once(' ').unwrap_or(("", record));
    format!("{start} {}", digest.chars().rev().collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_digest_has_the_length_of_the_right_one() {
        assert_eq!(reverse_last_word("a. IN DS 1 13 2 0AB1"), "a. IN DS 1 13 2 1BA0");
    }
}
